"""Right answers that are not written like the library's: the judge must accept them as well."""

import gymnasium
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from gymnasium import spaces
from gymnasium.spaces import Discrete

from spinup.algos.pytorch.ddpg import ddpg as ddpg_module
from spinup.algos.pytorch.her import her as her_module
from spinup.algos.pytorch.sac import sac as sac_module
from spinup.algos.pytorch.sac.core import action_probs
from spinup.algos.pytorch.td3 import td3 as td3_module
from spinup_lab.exercises.tasks import find

ANSWERS = []


def answer(name):
    """Collect an answer to the exercise `name`."""

    def collect(function):
        ANSWERS.append(pytest.param(name, function, id=f"{name}-{len(ANSWERS)}"))
        return function

    return collect


@answer("ddpg.loss_q")
def ddpg_loss_q(ac, ac_targ, batch, gamma):
    q = ac.q(batch["obs"], batch["act"])
    with torch.no_grad():
        nxt = ac_targ.q(batch["obs2"], ac_targ.pi(batch["obs2"]))
    target = (
        batch["rew"] + gamma * torch.where(batch["done"] > 0, torch.zeros_like(nxt), nxt)
    ).detach()
    return F.mse_loss(q, target), dict(QVals=q.detach().clone())


@answer("ddpg.loss_q")
def ddpg_loss_q_again(ac, ac_targ, batch, gamma):
    o, a, r, o2, d = (batch[k] for k in ("obs", "act", "rew", "obs2", "done"))
    backup = (r + gamma * (1 - d) * ac_targ.q(o2, ac_targ.pi(o2))).detach()
    q = ac.q(o, a)
    return torch.mean((backup - q).pow(2)), {"QVals": q.detach()}


@answer("ddpg.loss_pi")
def ddpg_loss_pi(ac, batch):
    return torch.mean(-1.0 * ac.q(batch["obs"], ac.pi(batch["obs"])))


@answer("ddpg.noisy_action")
def ddpg_noisy_action(act, low, high, act_noise, rng):
    out = np.empty_like(act)
    n = rng.standard_normal(act.shape, dtype="float32")
    for i in range(act.shape[0]):
        for j in range(act.shape[1]):
            out[i, j] = min(
                max(act[i, j] + act_noise * (high[j] - low[j]) / 2 * n[i, j], low[j]), high[j]
            )
    return out


@answer("ddpg.update")
def ddpg_update(ac, ac_targ, pi_optimizer, q_optimizer, batch, gamma=0.99, polyak=0.995):
    q_optimizer.zero_grad()
    lq, _ = ddpg_module.compute_loss_q(ac, ac_targ, batch, gamma)
    lq.backward()
    q_optimizer.step()
    for p in ac.q.parameters():
        p.requires_grad = False
    pi_optimizer.zero_grad()
    lp = ddpg_module.compute_loss_pi(ac, batch)
    lp.backward()
    pi_optimizer.step()
    for p in ac.q.parameters():
        p.requires_grad = True
    with torch.no_grad():
        for p, t in zip(ac.parameters(), ac_targ.parameters(), strict=True):
            t.data.mul_(polyak)
            t.data.add_((1 - polyak) * p.data)
    return dict(LossQ=lq.detach(), LossPi=lp.detach())


@answer("td3.smoothed_action")
def td3_smoothed_action(ac_targ, o2, target_noise, noise_clip, low, high):
    a = ac_targ.pi(o2)
    eps = torch.clamp(torch.randn(a.shape, dtype=a.dtype) * target_noise, -noise_clip, noise_clip)
    return torch.max(torch.min(a + eps * 0.5 * (high - low), high), low)


@answer("td3.smoothed_action")
def td3_smoothed_action_again(ac_targ, o2, target_noise, noise_clip, low, high):
    a = ac_targ.pi(o2)
    eps = torch.clamp(
        torch.normal(torch.zeros_like(a), torch.full_like(a, target_noise)), -noise_clip, noise_clip
    )
    return torch.max(torch.min(a + eps * 0.5 * (high - low), high), low)


@answer("td3.loss_q")
def td3_loss_q(ac, ac_targ, batch, gamma, target_noise, noise_clip, limits):
    o, a, r, o2, d = (batch[k] for k in ("obs", "act", "rew", "obs2", "done"))
    q1, q2 = ac.q1(o, a), ac.q2(o, a)
    with torch.no_grad():
        a2 = td3_module.smoothed_action(ac_targ, o2, target_noise, noise_clip, limits[0], limits[1])
        b = r + gamma * (1 - d) * torch.minimum(ac_targ.q1(o2, a2), ac_targ.q2(o2, a2))
    return F.mse_loss(q1, b) + F.mse_loss(q2, b), {"Q1Vals": q1.detach(), "Q2Vals": q2.detach()}


@answer("sac.soft_value")
def sac_soft_value(ac, ac_q, o, alpha):
    if getattr(ac, "discrete", False):
        p, lp = action_probs(ac, o)
        q = torch.minimum(ac_q.q1(o), ac_q.q2(o))
        ent = -(p * lp).sum(-1)
        return (p * q).sum(-1) + alpha * ent, -ent
    a, lp = ac.pi(o)
    return torch.minimum(ac_q.q1(o, a), ac_q.q2(o, a)) - alpha * lp, lp


@answer("sac.loss_pi")
def sac_loss_pi(ac, batch, alpha):
    v, lp = sac_module.soft_value(ac, ac, batch["obs"], alpha)
    return (-v).mean(), lp.detach()


@answer("sac.loss_alpha")
def sac_loss_alpha(log_alpha, logp, target_entropy):
    return (torch.exp(log_alpha) * (-logp - target_entropy)).mean()


@answer("sac.target_entropy")
def sac_target_entropy(s):
    if isinstance(s, Discrete):
        return np.log(s.n) / 2
    return np.sum(np.log((s.high - s.low) / 2) - 1)


@answer("dqn.loss_q")
def dqn_loss_q(ac, ac_targ, batch, gamma, double_q=True, loss="huber"):
    o, a, r, o2, d = (batch[k] for k in ("obs", "act", "rew", "obs2", "done"))
    rows = torch.arange(len(r))
    with torch.no_grad():
        t = ac_targ.q(o2)
        nxt = t[rows, ac.q(o2).argmax(1)] if double_q else t.max(1).values
        g = batch.get("discount", gamma)
        y = r + g * (1 - d) * nxt
    q = ac.q(o)[rows, a]
    e = F.smooth_l1_loss(q, y, reduction="none") if loss == "huber" else (q - y) ** 2
    if "weight" in batch:
        e = e * batch["weight"]
    return e.mean(), {"QVals": q.detach()}, (q - y).detach()


@answer("dqn.epsilon_greedy")
def dqn_epsilon_greedy(q, epsilon, rng):
    e = rng.random(len(q)) < epsilon
    a = np.argmax(q, axis=1)
    r = rng.integers(q.shape[1], size=e.sum())
    a[e] = r
    return a


@answer("dqn.sum_tree")
class dqn_sum_tree:
    def __init__(self, size):
        self.v = np.zeros(size)

    @property
    def total(self):
        return self.v.sum()

    def get(self, i):
        return self.v[i]

    def set(self, i, x):
        self.v[i] = x

    def find(self, m):
        return np.searchsorted(np.cumsum(self.v), m, side="right")


@answer("dqn.nstep")
def dqn_nstep(rew, n, gamma, terminated):
    T = len(rew)
    R = np.zeros(T)
    D = np.zeros(T)
    E = np.zeros(T)
    for t in range(T):
        m = min(n, T - t)
        R[t] = sum(gamma**i * rew[t + i] for i in range(m))
        D[t] = gamma**m
        E[t] = float(terminated and t + m == T)
    return R, D, E


@answer("dqn.nstep")
def dqn_nstep_again(rew, n, gamma, terminated):
    T = len(rew)
    R = []
    D = []
    E = []
    for t in range(T):
        m = min(n, T - t)
        R.append(sum(gamma**i * rew[t + i] for i in range(m)))
        D.append(gamma**m)
        E.append(terminated and t + m == T)
    return np.array(R), np.array(D), np.array(E, dtype=float)


@answer("acer.retrace")
def acer_retrace(q, v2, rho, batch, gamma=0.99, lam=1.0):
    T = len(q)
    out = torch.zeros_like(q)
    nxt = torch.zeros_like(q[0])
    for t in reversed(range(T)):
        delta = batch["rew"][t] + gamma * (1 - batch["done"][t]) * v2[t] - q[t]
        if t < T - 1:
            delta = (
                delta
                + gamma
                * lam
                * torch.minimum(rho[t + 1], torch.ones_like(rho[t + 1]))
                * (1 - batch["ended"][t])
                * nxt
            )
        nxt = delta
        out[t] = q[t] + nxt
    return out


@answer("acer.loss_pi")
def acer_loss_pi(phi, q, q_ret, batch, c=10.0, ent_coef=0.0):
    lp = torch.log_softmax(phi, -1)
    pi = lp.detach().exp()
    mu = batch["logmu"].exp()
    a = batch["act"][..., None]
    v = (pi * q).sum(-1)
    rho_all = pi / mu
    rho = rho_all.gather(-1, a)[..., 0]
    first = rho.clamp(max=c) * (q_ret - v) * lp.gather(-1, a)[..., 0]
    second = (((rho_all - c) / rho_all).clamp(min=0) * pi * (q - v[..., None]) * lp).sum(-1)
    ent = -(lp.exp() * lp).sum(-1)
    return -(first + second + ent_coef * ent)


@answer("acer.trust_region")
def acer_trust_region(g, k, delta):
    kk = (k * k).sum(-1, keepdim=True)
    s = torch.where(kk > 0, ((k * g).sum(-1, keepdim=True) - delta) / kk, torch.zeros_like(kk))
    return g - torch.clamp(s, min=0) * k


@answer("her.hindsight_goals")
def her_hindsight_goals(achieved, strategy, k, rng, past=None):
    n = len(achieved)
    out = np.empty((n, k, achieved.shape[1]))
    for t in range(n):
        for j in range(k):
            if strategy == "future":
                out[t, j] = achieved[rng.integers(t, n)]
            elif strategy == "final":
                out[t, j] = achieved[-1]
            elif strategy == "episode":
                out[t, j] = achieved[rng.integers(0, n)]
            else:
                out[t, j] = past[rng.integers(0, len(past))]
    return out


@answer("her.hindsight_goals")
def her_hindsight_goals_again(achieved, strategy, k, rng, past=None):
    n = len(achieved)
    if strategy == "future":
        idx = np.array(
            [[rng.choice(np.arange(t, n)) for _ in range(k)] for t in range(n)], dtype=int
        ).reshape(n, k)
    elif strategy == "final":
        idx = np.full((n, k), n - 1)
    elif strategy == "episode":
        idx = np.array([rng.choice(n, size=k) for _ in range(n)], dtype=int).reshape(n, k)
    else:
        return past[rng.choice(len(past), size=(n, k))]
    return achieved[idx]


@answer("her.relabel")
def her_relabel(episode, goals, strategy, k, rng, past=None):
    T = len(episode["rew"])
    G = her_module.hindsight_goals(episode["obs2"][:, goals.achieved], strategy, k, rng, past)
    out = {key: [] for key in episode}
    for t in range(T):
        for j in range(k):
            o, o2 = episode["obs"][t].copy(), episode["obs2"][t].copy()
            g = G[t, j]
            ach = o2[goals.achieved][None]
            was = o2[goals.desired][None].copy()
            out["rew"].append(goals.reward(ach, g[None])[0])
            out["done"].append(goals.terminated(ach, g[None], was, episode["done"][t : t + 1])[0])
            o[goals.desired] = g
            o2[goals.desired] = g
            out["obs"].append(o)
            out["obs2"].append(o2)
            out["act"].append(episode["act"][t])
    return {
        key: np.array(v, dtype=episode[key].dtype).reshape(-1, *episode[key].shape[1:])
        for key, v in out.items()
    }


@answer("workflow.write_env")
class workflow_write_env(gymnasium.Env):
    def __init__(self):
        self.observation_space = spaces.Box(
            low=np.float32([-1, -1]), high=np.float32([1, 1]), dtype=np.float32
        )
        self.action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.uniform(-1, 1)
        self.g = self.np_random.uniform(-1, 1)
        self.t = 0
        return np.array([self.x, self.g], dtype=np.float32), {}

    def step(self, a):
        self.x += [-0.1, 0, 0.1][a]
        self.x = max(-1.0, min(1.0, self.x))
        self.t += 1
        d = abs(self.x - self.g)
        return (
            np.array([self.x, self.g], dtype=np.float32),
            float(-d),
            bool(d < 0.05),
            self.t >= 50,
            {},
        )


@answer("workflow.iqm")
def workflow_iqm(v):
    v = sorted(v)
    c = len(v) // 4
    m = v[c : len(v) - c]
    return sum(m) / len(m)


@pytest.mark.parametrize(("name", "function"), ANSWERS)
def test_a_right_answer_may_be_written_in_another_way(name, function):
    result = find(name).check_object(function)
    assert result.passed, str(result)

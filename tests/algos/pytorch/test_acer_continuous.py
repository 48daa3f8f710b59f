"""ACER with continuous actions: densities, the stochastic dueling critic, its loss, whole runs.

What an update does is compared with the recursion of the paper's algorithm for continuous actions,
written out step by step; the truncated gradient with integrals over the action.
"""

import copy
import json
import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn
from torch.distributions import Normal
from torch.optim import SGD

from spinup.algos.pytorch.acer import acer as module
from spinup.algos.pytorch.acer import core
from spinup.algos.pytorch.acer.continuous import continuous_loss_pi, continuous_update
from spinup.algos.pytorch.acer.core import GaussianBehavior, MLPActorCritic, StochasticDuelingQ
from spinup.algos.pytorch.common.acting import make_get_action
from spinup.envs import PROBES, make_env
from spinup.policies.loading import load_policy_and_env
from spinup.utils.errors import SpinupError

OBS = spaces.Box(-1, 1, (3,), np.float32)
ACT = spaces.Box(np.array([-1, 0], np.float32), np.array([3, 0.5], np.float32))
SMALL = {"n_steps": 5, "replay_size": 1000, "num_test_episodes": 0}


def make_ac(seed=0, **kwargs):
    torch.manual_seed(seed)
    return MLPActorCritic(OBS, ACT, hidden_sizes=(8,), **kwargs).double()


# ---- pieces --------------------------------------------------------------------------------------


def test_ratios_of_the_density_are_those_of_independent_normals():
    mean, other, act = torch.randn(3, 4, 5, 2)
    std = torch.tensor([0.3, 2.0])
    want = (Normal(mean, std).log_prob(act) - Normal(other, std).log_prob(act)).sum(-1)
    got = core.log_density(act / std, mean / std) - core.log_density(act / std, other / std)
    torch.testing.assert_close(got, want)


def test_mean_and_width_are_in_units_of_each_range_and_the_width_is_not_learned():
    ac = make_ac(std=0.25)
    o = torch.randn(4, 6, 3).double()
    mean, std = core.gaussian(ac.pi, o)
    torch.testing.assert_close(std, torch.tensor([0.5, 0.0625]).double())
    raw = ac.pi.mu_net(o)
    torch.testing.assert_close(mean, torch.tensor([1.0, 0.25]) + torch.tensor([2.0, 0.25]) * raw)
    assert all("mu_net" in name for name, _ in ac.pi.named_parameters())
    logp = ac.pi(o, mean + std)[1]
    torch.testing.assert_close(logp, Normal(mean, std).log_prob(mean + std).sum(-1))


@pytest.mark.parametrize("std", [0.0, -1.0, math.nan, math.inf])
def test_a_width_that_is_none_is_refused(std):
    with pytest.raises(SpinupError, match=r"^std="):
        MLPActorCritic(OBS, ACT, std=std)


def test_unbounded_actions_are_refused():
    with pytest.raises(SpinupError, match="acer"):
        MLPActorCritic(OBS, spaces.Box(-np.inf, np.inf, (1,)))


def test_the_value_is_the_mean_of_q_over_the_actions_it_is_compared_with():
    ac = make_ac()
    o, u = torch.randn(5, 4, 3).double(), torch.randn(7, 5, 4, 2).double()
    q = torch.stack([ac.q(o, a, u) for a in u])
    torch.testing.assert_close(q.mean(0), ac.q.v(o))
    assert q.std(0).min() > 1e-4  # it does depend on the action
    torch.testing.assert_close(ac.v(o), ac.q.v(o))


def test_q_by_hand():
    q = StochasticDuelingQ(1, 1, (), nn.ReLU)
    with torch.no_grad():
        q.v_net[0].weight.fill_(2.0), q.v_net[0].bias.fill_(1.0)
        q.a_net[0].weight.copy_(torch.tensor([[5.0, 3.0]])), q.a_net[0].bias.fill_(9.0)
    o, a = torch.tensor([[4.0]]), torch.tensor([[2.0]])
    u = torch.tensor([[[1.0]], [[-3.0]]])
    # V = 9; A = 5 * 4 + 3 a + 9: 35 for a = 2, and 32 and 20 for the samples
    assert q(o, a, u).tolist() == [9 + 35 - 26]


def test_actions_are_sampled_around_the_mean_that_is_kept():
    ac = make_ac().float()
    policy, rng = GaussianBehavior(ac.pi), np.random.default_rng(0)
    obs = np.tile(np.array([[0.3, -0.2, 0.9]], np.float32), (20000, 1))
    act = policy(obs, rng)
    with torch.no_grad():
        mean = ac.pi(torch.from_numpy(obs))[0].mean.numpy()
    np.testing.assert_allclose(policy.behavior, mean, atol=1e-6)
    np.testing.assert_allclose(act.mean(0), mean[0], atol=0.02)
    np.testing.assert_allclose(act.std(0), [0.6, 0.075], rtol=0.02)
    with torch.no_grad():
        ac.pi.mu_net[0].bias += 1.0
    policy(obs[:1], rng)  # the copy that acts is renewed between updates alone
    np.testing.assert_allclose(policy.behavior, mean[:1], atol=1e-6)
    policy.begin(rng)
    policy(obs[:1], rng)
    assert np.abs(policy.behavior - mean[:1]).min() > 1e-3


def test_a_policy_of_the_users_own_acts_through_torch():
    class Own(nn.Module):
        def forward(self, obs, act=None):
            return Normal(2 * obs[..., :2], torch.tensor([0.5, 2.0]).expand_as(obs[..., :2])), None

    policy, obs = GaussianBehavior(Own()), np.full((20000, 3), 0.25, np.float32)
    act = policy(obs, np.random.default_rng(0))
    np.testing.assert_allclose(policy.behavior, np.full((20000, 2), 0.5))
    np.testing.assert_allclose(act.std(0), [0.5, 2.0], rtol=0.02)


# ---- the gradient of the policy ------------------------------------------------------------------


def integral_gradient(c, part):
    """Expected gradient of one part of the objective at the mean, by sums over a grid of actions.

    pi = N(0.4, 0.5), mu = N(-0.3, 0.5), Q(a) = sin(2 a), V any number.
    """
    grid = torch.linspace(-6, 6, 20001, dtype=torch.float64)
    std, v = 0.5, torch.full((len(grid), 1), 0.2).double()
    pi, mu = torch.tensor(0.4).double(), torch.tensor(-0.3).double()
    q, x = torch.sin(2 * grid).reshape(-1, 1), (grid / std).reshape(-1, 1, 1)
    phi = (pi / std).expand(len(grid), 1, 1).clone().requires_grad_()
    args = (q, v, v) if part == "beyond" else (v, v, q)  # q1, v, q_opc
    loss = continuous_loss_pi(phi, (mu / std).expand_as(phi), x, x, *args, c)
    (g,) = torch.autograd.grad(-loss.sum(), phi)
    density = Normal(pi if part == "beyond" else mu, std).log_prob(grid).exp()
    return float((g.reshape(-1) * density).sum() * (grid[1] - grid[0])) / std  # per unit of a


@pytest.mark.parametrize("c", [0.5, 1.0, 3.0])
def test_truncation_with_its_correction_is_the_exact_policy_gradient(c):
    # d/dm of E sin(2a), a ~ N(m, s): 2 cos(2m) exp(-2 s^2); V drops out
    exact = 2 * math.cos(0.8) * math.exp(-2 * 0.25)
    parts = [integral_gradient(c, part) for part in ("truncated", "beyond")]
    assert sum(parts) == pytest.approx(exact, rel=1e-6)
    assert abs(parts[0] - exact) > 0.01 * exact  # truncation alone is not


# ---- the whole update ----------------------------------------------------------------------------


def random_case(seed=0, t=5, n=3):
    ac, rng = make_ac(seed), np.random.default_rng(seed)
    pi_avg = make_ac(seed + 100).pi.requires_grad_(False)

    def normal(*shape):
        return torch.from_numpy(rng.normal(size=shape))

    flags = {k: torch.zeros(t, n).double() for k in ("done", "ended")}
    flags["done"][2, 0] = flags["ended"][2, 0] = flags["ended"][1, 1] = 1  # dies; is cut
    batch = {"obs": normal(t, n, 3), "act": normal(t, n, 2), "rew": normal(t, n)}
    batch |= {"obs2": normal(t, n, 3), "mu": normal(t, n, 2), **flags}
    goes_on = (1 - flags["ended"][:-1]).unsqueeze(-1)
    batch["obs2"][:-1].lerp_(batch["obs"][1:], goes_on)
    return ac, pi_avg, {**batch, "valid": torch.ones(t, n).double()}


def reference_update(ac, pi_avg, batch, lr, gamma, c, delta, polyak, n_samples):
    """Plain gradient steps along the recursion, one stream and one step after the other."""
    new = copy.deepcopy(ac)
    center, half, dim = torch.tensor([1.0, 0.25]), torch.tensor([2.0, 0.25]), 2
    std = 0.3 * half
    means = (center + half * ac.pi.mu_net(batch["obs"])).detach()
    u = means + std * torch.randn(n_samples, *means.shape)
    a1 = means + std * torch.randn_like(means)
    steps, streams = batch["rew"].shape
    wq, wpi = list(ac.q.parameters()), list(ac.pi.mu_net.parameters())
    g_q, g_pi = [torch.zeros_like(p) for p in wq], [torch.zeros_like(p) for p in wpi]
    held = 0
    for i in range(streams):
        q_ret = q_opc = None
        for t in reversed(range(steps)):
            row = {k: x[t, i] for k, x in batch.items()}
            o, a = row["obs"], row["act"]
            if q_ret is None or row["ended"]:
                q_ret = q_opc = (1 - row["done"]) * ac.q.v(row["obs2"]).detach()
            q_ret, q_opc = row["rew"] + gamma * q_ret, row["rew"] + gamma * q_opc
            phi = center + half * ac.pi.mu_net(o)
            mu = Normal(row["mu"], std)
            pi = Normal(phi.detach(), std)
            rho = float((pi.log_prob(a) - mu.log_prob(a)).sum().exp())
            other = a1[t, i]
            rho1 = float((pi.log_prob(other) - mu.log_prob(other)).sum().exp())
            v = ac.q.v_net(o)[0]

            def q_of(act, o=o, v=v, t=t, i=i):
                def advantage(act):
                    return ac.q.a_net(torch.cat([o, (act - center) / half]))[0]

                return v + advantage(act) - sum(advantage(x[t, i]) for x in u) / n_samples

            q, q1, base = q_of(a), float(q_of(other).detach()), float(v.detach())
            error = float((q_ret - q).detach())
            for g, x in zip(g_q, torch.autograd.grad(q, wq, retain_graph=True), strict=True):
                g += 2 * error * x
            grads = torch.autograd.grad(v, wq, retain_graph=True, allow_unused=True)
            for g, x in zip(g_q, grads, strict=True):
                if x is not None:
                    g += 2 * min(1.0, rho) * error * x
            # in standard deviations, in which the trust region is measured, too
            g = min(c, rho) * float(q_opc - base) * (a - phi.detach()) / std
            g = g + max(0.0, (rho1 - c) / rho1) * (q1 - base) * (other - phi.detach()) / std
            k = (phi.detach() - center - half * pi_avg.mu_net(o)) / std
            scale = max(0.0, (float(k @ g) - delta) / float(k @ k))
            held += scale > 0
            for x, y in zip(
                g_pi, torch.autograd.grad(phi / std @ (g - scale * k), wpi), strict=True
            ):
                x += y
            q_ret = min(1.0, rho ** (1 / dim)) * (q_ret - q.detach()) + v.detach()
            # what the paper has: nothing is cut
            q_opc = q_opc - q.detach() + v.detach()
    count = steps * streams
    with torch.no_grad():
        for p, g in zip(new.q.parameters(), g_q, strict=True):
            p += lr * g / count
        for p, g in zip(new.pi.mu_net.parameters(), g_pi, strict=True):
            p += lr * g / count
        averages = zip(pi_avg.mu_net.parameters(), new.pi.mu_net.parameters(), strict=True)
        avg = [polyak * x + (1 - polyak) * y for x, y in averages]
    return new, avg, held / count


@pytest.mark.parametrize("delta", [0.5, 1e9])
def test_an_update_equals_the_recursion_written_out(delta):
    ac, pi_avg, batch = random_case()
    settings = dict(gamma=0.9, c=1.5, delta=delta, polyak=0.7)
    torch.manual_seed(5)
    torch.set_default_dtype(torch.float64)
    try:
        want, avg, held = reference_update(ac, pi_avg, batch, 0.1, **settings, n_samples=4)
        torch.manual_seed(5)
        optimizers = [SGD(x.parameters(), lr=0.1) for x in (ac.pi, ac.q)]
        before = [p.clone() for p in ac.parameters()]
        info = continuous_update(ac, pi_avg, *optimizers, batch, **settings, dueling_samples=4)
    finally:
        torch.set_default_dtype(torch.float32)
    for (name, got), p in zip(ac.named_parameters(), want.parameters(), strict=True):
        torch.testing.assert_close(got, p, rtol=1e-9, atol=1e-11, msg=name)
    for got, p in zip(pi_avg.mu_net.parameters(), avg, strict=True):
        torch.testing.assert_close(got, p, rtol=1e-9, atol=1e-11)
    assert float(info["TrustFrac"]) == pytest.approx(held)
    assert 0 < held < 1 if delta < 1 else held == 0
    pairs = zip(ac.named_parameters(), before, strict=True)
    still = [name for (name, p), x in pairs if torch.equal(p, x)]
    assert still == ["q.a_net.2.bias"]  # which the mean over the samples takes off again
    assert 0 < float(info["ClipFrac"]) < 1


def test_steps_that_were_resets_have_no_say():
    results = []
    for wrong in (0.0, 1e3):
        ac, pi_avg, batch = random_case(1)
        batch["valid"][1, 2], batch["ended"][0, 2] = 0.0, 1.0
        batch["ended"][1, 2] = 1.0
        batch["rew"][1, 2] += wrong
        torch.manual_seed(3)
        optimizers = [SGD(x.parameters(), lr=0.1) for x in (ac.pi, ac.q)]
        torch.set_default_dtype(torch.float64)
        try:
            continuous_update(ac, pi_avg, *optimizers, batch)
        finally:
            torch.set_default_dtype(torch.float32)
        results.append([p.detach().clone() for p in ac.parameters()])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b)


# ---- runs ----------------------------------------------------------------------------------------


@pytest.fixture
def updates(monkeypatch):
    """Every batch that an update gets, and the means of the policy it is about to change."""
    seen = []

    def spy(ac, pi_avg, pi_optimizer, q_optimizer, batch, **kwargs):
        with torch.no_grad():
            seen.append((batch, ac.pi(batch["obs"])[0].mean))
        return continuous_update(ac, pi_avg, pi_optimizer, q_optimizer, batch, **kwargs)

    monkeypatch.setattr(module, "continuous_update", spy)
    return seen


def test_the_action_is_kept_as_it_was_sampled(train, updates):
    settings = {**SMALL, "ac_kwargs": {"hidden_sizes": (8,), "std": 2.0}, "replay_ratio": 1.0}
    train("acer", "Pendulum-v1", **settings, num_envs=2, epochs=2)
    act = torch.cat([batch["act"].reshape(-1) for batch, _ in updates])
    assert act.abs().max() > 2.5  # the environment takes at most 2
    fresh, mean = updates[0]
    torch.testing.assert_close(fresh["mu"], mean, rtol=1e-4, atol=1e-5)
    noise = (torch.cat([b["act"] - b["mu"] for b, _ in updates]) / 4.0).reshape(-1)
    assert 0.8 < float(noise.std()) < 1.2  # 2.0 times half the range of 4


def test_the_number_of_samples_is_used(train):
    settings = {**SMALL, "replay_ratio": 1.0}
    runs = [train("acer", "Pendulum-v1", **settings, dueling_samples=n) for n in (1, 5)]
    pairs = zip(*(run.ac.q.parameters() for run in runs), strict=True)
    assert not all(torch.equal(a, b) for a, b in pairs)


def test_a_run_is_the_same_twice_and_resumes_exactly(train, tmp_path):
    settings = {**SMALL, "replay_ratio": 2.0, "num_envs": 2, "save_freq": 1}
    whole = [train("acer", "Pendulum-v1", **settings, epochs=4) for _ in range(2)]
    assert whole[0].rows == whole[1].rows and math.isfinite(whole[0].rows[-1]["LossQ"])
    logger = {"output_dir": str(tmp_path / "halves"), "quiet": True}
    train("acer", "Pendulum-v1", **settings, epochs=2, logger_kwargs=logger)
    halves = train("acer", "Pendulum-v1", **settings, epochs=4, resume=True, logger_kwargs=logger)
    assert halves.rows == whole[0].rows
    for a, b in zip(whole[0].ac.parameters(), halves.ac.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_saved_policy_plays_the_clipped_mean(train):
    run = train("acer", "Pendulum-v1", **SMALL, ac_kwargs={"hidden_sizes": (8,)})
    env, get_action = load_policy_and_env(str(run.dir), deterministic=True)
    with torch.no_grad():
        run.ac.pi.mu_net[-2].bias += 0.0
        for o in np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32):
            want = run.ac.pi(torch.from_numpy(o))[0].mean.clamp(-2, 2).numpy()
            np.testing.assert_allclose(get_action(o), want, rtol=1e-4, atol=1e-6)
    env.close()


@pytest.mark.parametrize("algo", ["acer", "sac"])
def test_a_dimension_without_a_choice_is_refused_before_anything_is_written(train, tmp_path, algo):
    class Fixed(make_env("Pendulum-v1").unwrapped.__class__):
        def __init__(self):
            super().__init__()
            self.action_space = spaces.Box(np.array([1.0], "f"), np.array([1.0], "f"))

    with pytest.raises(SpinupError, match=f"^{algo} .* dimension 0 .* only one value"):
        train(algo, Fixed)
    assert not list(tmp_path.iterdir())


def test_the_configuration_holds_arguments_and_nothing_of_the_code(train):
    run = train("acer", "Pendulum-v1", **SMALL)
    assert "update" not in " ".join(json.loads((run.dir / "config.json").read_text()))


def test_actions_with_several_axes_train(train):
    class Matrix(make_env("Pendulum-v1").unwrapped.__class__):
        def __init__(self):
            super().__init__()
            self.action_space = spaces.Box(-2, 2, (1, 1), np.float32)

        def step(self, action):
            assert action.shape == (1, 1)
            return super().step(action.reshape(1))

    run = train("acer", Matrix, **{**SMALL, "num_test_episodes": 1})
    assert math.isfinite(run.rows[-1]["LossQ"])


@pytest.mark.parametrize("wrong", [0, 1.5, True])
def test_a_wrong_number_of_samples_is_one_sentence(train, wrong):
    with pytest.raises(SpinupError, match=r"^dueling_samples="):
        train("acer", "Pendulum-v1", dueling_samples=wrong)


@pytest.mark.parametrize(
    "probe", [p for p in PROBES if p.actions in ("Box", "Asymmetric")], ids=lambda p: p.id
)
def test_a_probe_is_learned(train, probe):
    gamma = 0.5
    run = train(
        "acer",
        probe.id,
        # narrow: where samples are clipped at a bound, the best mean lies nearer to it
        ac_kwargs={"hidden_sizes": (16,), "std": 0.15},
        gamma=gamma,
        num_envs=4,
        n_steps=5,
        steps_per_epoch=160,
        epochs=20 if probe.actions == "Asymmetric" else 8,  # one of its ranges is small
        pi_lr=0.01,
        q_lr=0.05,
        anneal_lr=True,
        max_ep_len=100,
        num_test_episodes=0,
    )
    env = make_env(probe.id).unwrapped
    get_action = make_get_action(run.ac, deterministic=True)
    for x in (-1.0, 1.0) if "Observation" in probe.id else (0.0,):
        o = np.array([x], np.float32)
        if probe.learns_action:
            np.testing.assert_allclose(get_action(o), env.optimal_action(o), atol=0.12)
        else:
            value = float(run.ac.v(torch.as_tensor(o)).detach())
            assert value == pytest.approx(env.true_value(o, gamma), abs=0.1), f"V({o})"

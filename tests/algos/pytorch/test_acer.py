"""ACER: Retrace, truncated ratios with their correction, the trust region, and replayed stretches.

Everything is compared with something written down independently: sums over explicit trajectories,
exact gradients of a small decision process, a constrained optimum found by iteration.
"""

import copy
import itertools

import numpy as np
import pytest
import torch
from torch.optim import SGD

from spinup.algos.pytorch.acer import core
from spinup.algos.pytorch.acer.acer import acer_update, compute_loss_pi
from spinup.algos.pytorch.acer.retrace import compute_loss_q, retrace, trust_region
from tests.helpers.by_hand import NetworksOf, TablePi, TableQ


def double(x):
    return torch.tensor(np.asarray(x, dtype=np.float64))


def flags(*rows):
    """One trajectory an argument, one step a letter: `.` goes on, `T` terminated, `C` was cut."""
    letters = np.array([list(row) for row in rows]).T  # (T, N)
    return {"done": double(letters == "T"), "ended": double(letters != ".")}


# ---- Retrace ---------------------------------------------------------------------------------


def retrace_sum(q, v2, rho, rew, done, ended, gamma, lam):
    """Munos et al. 2016, eq. 3 for one trajectory: Q plus the sum of discounted, traced errors."""
    n = len(q)
    out = np.zeros(n)
    for t in range(n):
        total, trace = q[t], 1.0
        for s in range(t, n):
            if s > t:
                trace *= lam * min(1.0, rho[s])
            bootstrap = 0.0 if done[s] else v2[s]
            total += gamma ** (s - t) * trace * (rew[s] + gamma * bootstrap - q[s])
            if ended[s]:
                break
        out[t] = total
    return out


@pytest.mark.parametrize(("gamma", "lam"), [(0.99, 1.0), (0.9, 0.7), (1.0, 1.0), (0.5, 0.0)])
def test_retrace_is_the_sum_over_each_trajectory(gamma, lam):
    rng = np.random.default_rng(0)
    ends = flags(".......", "..T....", "..C....", "T......", "..C.T.C", "......T", "CCCCCCC")
    shape = ends["done"].shape
    q, v2, rew = (rng.normal(size=shape) for _ in range(3))
    rho = np.exp(rng.normal(size=shape))
    assert (rho > 2.5).any() and (rho < 0.5).any()
    batch = {"rew": double(rew), **ends}
    got = retrace(double(q), double(v2), double(rho), batch, gamma, lam).numpy()
    for i in range(shape[1]):
        done, ended = ends["done"][:, i], ends["ended"][:, i]
        want = retrace_sum(q[:, i], v2[:, i], rho[:, i], rew[:, i], done, ended, gamma, lam)
        np.testing.assert_allclose(got[:, i], want, rtol=1e-12, atol=1e-12)


def test_retrace_of_three_steps_by_hand():
    batch = {"rew": double([[1.0], [2.0], [3.0]]), **flags("...")}
    q, v2, rho = (
        double([[10.0], [20.0], [30.0]]),
        double([[4.0], [6.0], [8.0]]),
        [[9.0], [0.5], [2]],
    )
    got = retrace(q, v2, double(rho), batch, gamma=0.5)
    third = 3 + 0.5 * 8
    second = 2 + 0.5 * (1.0 * (third - 30) + 6)  # a ratio of 2 counts as 1
    first = 1 + 0.5 * (0.5 * (second - 20) + 4)  # a ratio of 1/2 as it is
    assert got.flatten().tolist() == [first, second, third]


def test_death_stops_the_bootstrap_and_a_cut_does_not():
    value = 1000.0
    for letter, want in (("T", 1.0), ("C", 1 + 0.9 * value), (".", 1 + 0.9 * value)):
        batch = {"rew": double([[1.0]]), **flags(letter)}
        got = retrace(double([[7.0]]), double([[value]]), double([[1.0]]), batch, gamma=0.9)
        assert got.item() == pytest.approx(want)


@pytest.mark.parametrize("letter", ["T", "C"])
def test_the_next_episode_changes_nothing_before_it(letter):
    rng = np.random.default_rng(1)
    batch = {"rew": double(rng.normal(size=(4, 1))), **flags(f".{letter}..")}
    q, v2, rho = (double(rng.uniform(0.1, 3, size=(4, 1))) for _ in range(3))
    one = retrace(q, v2, rho, batch)
    for x in (batch["rew"], q, v2, rho):
        x[2:] += 100
    two = retrace(q, v2, rho, batch)
    assert torch.equal(one[:2], two[:2]) and not torch.equal(one[2:], two[2:])


# ---- a small decision process whose every quantity is known ----------------------------------

GAMMA = 0.9


class Known:
    """Three states, three actions, and an end after any step with probability 0.2 or so."""

    def __init__(self, seed=0):
        rng = np.random.default_rng(seed)
        self.next = rng.dirichlet(np.ones(4), size=(3, 3))  # (s, a, s'), s' = 3 is the end
        self.rew = rng.normal(size=(3, 3))
        self.logits = rng.normal(size=(3, 3))
        self.mu = rng.dirichlet(np.ones(3), size=3)  # the policy that acts
        self.start = np.array([0.5, 0.3, 0.2])

    def pi(self, logits=None):
        e = np.exp(self.logits if logits is None else logits)
        return e / e.sum(-1, keepdims=True)

    def v(self, pi):
        """The solution of V = R_pi + gamma P_pi V."""
        step = np.einsum("sa,sat->st", pi, self.next[:, :, :3])
        return np.linalg.solve(np.eye(3) - GAMMA * step, (pi * self.rew).sum(-1))

    def q(self, pi):
        return self.rew + GAMMA * self.next[:, :, :3] @ self.v(pi)

    def visits(self, pi):
        """Discounted number of visits to each state."""
        step = np.einsum("sa,sat->st", pi, self.next[:, :, :3])
        return np.linalg.solve(np.eye(3) - GAMMA * step.T, self.start)

    def gradient(self, eps=1e-6):
        """d(value of the start) / d(logits), by differences."""
        out = np.zeros((3, 3))
        for i, j in itertools.product(range(3), range(3)):
            up, down = self.logits.copy(), self.logits.copy()
            up[i, j] += eps
            down[i, j] -= eps
            values = [self.start @ self.v(self.pi(x)) for x in (up, down)]
            out[i, j] = (values[0] - values[1]) / (2 * eps)
        return out


def trajectories(known, s, a, steps=3):
    """(probability, steps) of everything that can follow a in s when `mu` acts.

    A step is (s, a, s', done). After an end come steps of another episode, to fill the time.
    """
    for s2 in range(4):
        p, step = known.next[s, a, s2], (s, a, s2, s2 == 3)
        if steps == 1:
            yield p, [step]
        elif s2 == 3:
            yield p, [step, *[(0, 1, 2, False)] * (steps - 1)]
        else:
            for a2 in range(3):
                for p_rest, rest in trajectories(known, s2, a2, steps - 1):
                    yield p * known.mu[s2, a2] * p_rest, [step, *rest]


def expected_retrace(known, q, lam=1.0):
    """E[Qret(s, a)] over all trajectories of three steps, for all s and a."""
    pi = known.pi()
    v = np.append((pi * q).sum(-1), np.nan)  # the value of the end must not be used
    out = np.zeros((3, 3))
    for s, a in itertools.product(range(3), range(3)):
        p, steps = zip(*trajectories(known, s, a), strict=True)
        s1, a1, s2, done = np.array(steps).transpose(2, 1, 0)  # each (T, N)
        batch = {"rew": known.rew[s1, a1], "done": done, "ended": done}
        v2 = np.where(done, 0.0, v[s2])
        rho = (pi / known.mu)[s1, a1]
        targets = retrace(
            double(q[s1, a1]),
            double(v2),
            double(rho),
            {k: double(x) for k, x in batch.items()},
            GAMMA,
            lam,
        )
        assert sum(p) == pytest.approx(1)
        out[s, a] = np.dot(p, targets[0].numpy())
    return out


@pytest.mark.parametrize("lam", [1.0, 0.6])
def test_the_true_values_are_what_retrace_expects_whoever_acts(lam):
    known = Known()
    q = known.q(known.pi())
    np.testing.assert_allclose(expected_retrace(known, q, lam), q, rtol=1e-10)


def test_retrace_brings_wrong_values_nearer_to_the_true_ones():
    known = Known(1)
    true = known.q(known.pi())
    wrong = true + np.random.default_rng(2).normal(size=true.shape)
    error = np.abs(expected_retrace(known, wrong) - true).max()
    assert error <= GAMMA * np.abs(wrong - true).max()
    # longer traces reach further: one step ahead (lambda 0) does less
    assert error < np.abs(expected_retrace(known, wrong, lam=0.0) - true).max()


# ---- the policy's gradient -------------------------------------------------------------------


def expected_gradient(known, c, correct=True):
    """The gradient of eq. 9, summed over states as pi visits them and actions as mu takes them."""
    pi = known.pi()
    q, v = known.q(pi), known.v(pi)
    s, a = (x.ravel() for x in np.meshgrid(range(3), range(3), indexing="ij"))
    weight = known.visits(pi)[s] * known.mu[s, a]
    logits = double(known.logits).requires_grad_()
    seen = q[s] if correct else np.repeat(v[s][:, None], 3, 1)
    batch = {"act": torch.as_tensor(a)[None], "logmu": double(np.log(known.mu[s]))[None]}
    loss = compute_loss_pi(logits[s][None], double(seen)[None], double(q[s, a])[None], batch, c)
    (grad,) = torch.autograd.grad((double(weight) * loss).sum(), logits)
    return -grad.numpy()


@pytest.mark.parametrize("c", [0.0, 0.3, 1.0, 2.0, 10.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_truncation_with_its_correction_is_the_exact_policy_gradient(c, seed):
    known = Known(seed)
    np.testing.assert_allclose(expected_gradient(known, c), known.gradient(), rtol=1e-6, atol=1e-9)


def test_truncation_alone_is_not():
    known = Known()
    ratio = known.pi() / known.mu
    assert ratio.max() > 2
    exact = known.gradient()
    assert np.abs(expected_gradient(known, 1.0, correct=False) - exact).max() > 0.05
    # and with no ratio beyond c there is nothing to correct
    whole = expected_gradient(known, 2 * ratio.max(), correct=False)
    np.testing.assert_allclose(whole, exact, rtol=1e-6, atol=1e-9)


def test_the_losses_of_one_state_by_hand():
    pi, mu, q, q_ret, c = (
        np.array([0.8, 0.2]),
        np.array([0.1, 0.9]),
        np.array([3.0, -2.0]),
        5.0,
        2.0,
    )
    v = 0.8 * 3 - 0.2 * 2
    batch = {"act": torch.tensor([[0]]), "logmu": double(np.log(mu))[None, None]}
    args = (double(np.log(pi) + 7)[None, None], double(q)[None, None], double([[q_ret]]), batch)
    # ratios 8 and 2/9: the first is cut off at 2, and 1 - 2/8 of its 0.8 are left to the critic
    want = 2 * (q_ret - v) * np.log(0.8) + 0.8 * (1 - 2 / 8) * (3 - v) * np.log(0.8)
    assert compute_loss_pi(*args, c).item() == pytest.approx(-want, rel=1e-12)
    entropy = -(0.8 * np.log(0.8) + 0.2 * np.log(0.2))
    got = compute_loss_pi(*args, c, ent_coef=0.5).item()
    assert got == pytest.approx(-want - 0.5 * entropy, rel=1e-12)
    assert compute_loss_q(double([[3.0]]), double([[q_ret]])).item() == 4.0


def test_an_action_that_mu_never_takes_gives_finite_gradients():
    logits = torch.tensor([[[200.0, 0.0]]], requires_grad=True)
    batch = {"act": torch.tensor([[0]]), "logmu": torch.tensor([[[-200.0, 0.0]]])}
    loss = compute_loss_pi(logits, torch.tensor([[[1.0, 2.0]]]), torch.tensor([[1.0]]), batch)
    loss.sum().backward()
    assert torch.isfinite(logits.grad).all() and torch.isfinite(loss).all()


# ---- the trust region ------------------------------------------------------------------------


def solve(g, k, delta):
    """min |z - g|^2 / 2 with k.z <= delta, by the method of multipliers; no formula of the paper.

    Each round minimizes (z - g)^2 / 2 + ([m + r (k.z - delta)]_+^2 - m^2) / 2r over z by descent.
    """
    z, multiplier, r = g.copy(), 0.0, 10.0
    rate = 1 / (1 + r * k @ k)
    for _ in range(20):
        for _ in range(60):
            z -= rate * (z - g + max(0.0, multiplier + r * (k @ z - delta)) * k)
        multiplier = max(0.0, multiplier + r * (k @ z - delta))
    return z


def test_the_projection_solves_the_constrained_problem():
    rng = np.random.default_rng(3)
    g, k = rng.normal(size=(2, 12, 4))
    deltas = [0.0, 0.3, 1.0]
    active = 0
    for delta in deltas:
        got = trust_region(double(g)[None], double(k)[None], delta)[0].numpy()
        for z, gi, ki in zip(got, g, k, strict=True):
            np.testing.assert_allclose(z, solve(gi, ki, delta), atol=1e-7)
            assert ki @ z <= delta + 1e-12
            if ki @ gi <= delta:
                np.testing.assert_array_equal(z, gi)  # allowed as it is
            active += ki @ gi > delta
    assert 5 < active < 30


def test_a_step_along_the_projection_raises_the_divergence_by_no_more_than_delta():
    rng = np.random.default_rng(4)
    out, average, g = double(rng.normal(size=(3, 1, 20, 4)))
    out.requires_grad_()
    g = 5 * g

    def kl(x):
        logp_avg, logp = average.log_softmax(-1), x.log_softmax(-1)
        return (logp_avg.exp() * (logp_avg - logp)).sum(-1)

    (k,) = torch.autograd.grad(kl(out).sum(), out)
    z, eps = trust_region(g, k, 0.1), 1e-5
    with torch.no_grad():
        rise, free = ((kl(out + eps * x) - kl(out)) / eps for x in (z, g))
    assert free.max() > 1 and rise.max() < 0.1 + 1e-3


@pytest.mark.parametrize("delta", [0.0, 1.0])
def test_where_the_divergence_is_flat_nothing_is_held_back(delta):
    g = torch.tensor([[[3.0, -3.0]]])
    assert torch.equal(trust_region(g, torch.zeros_like(g), delta), g)


# ---- one update ------------------------------------------------------------------------------


def random_case(seed=0, t=5, n=4, states=3, actions=3):
    rng = np.random.default_rng(seed)
    pi, q = (rng.normal(size=(states, actions)) for _ in range(2))
    ac = NetworksOf(pi=TablePi(pi), q=TableQ(q))
    pi_avg = TablePi(rng.normal(size=(states, actions))).requires_grad_(False)
    obs = rng.integers(states, size=(t, n))
    batch = {
        "obs": torch.as_tensor(obs),
        "act": torch.as_tensor(rng.integers(actions, size=(t, n))),
        "rew": double(rng.normal(size=(t, n))),
        "obs2": torch.as_tensor(rng.integers(states, size=(t, n))),
        "logmu": double(np.log(rng.dirichlet(np.ones(actions), size=(t, n)))),
        "valid": torch.ones(t, n, dtype=torch.float64),
        **flags("." * t, "..T..", "..C..", "....T"),
    }
    return ac, pi_avg, batch


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def reference_update(ac, pi_avg, batch, lr, gamma, lam, c, delta, polyak, ent_coef):
    """The whole update with plain gradient steps, one state after the other, in NumPy."""
    b = {name: x.numpy() for name, x in batch.items()}
    theta, w, avg = (x.detach().numpy().copy() for x in (ac.pi.logits, ac.q.values, pi_avg.logits))
    t_max, n = b["rew"].shape
    g_theta, g_w = np.zeros_like(theta), np.zeros_like(w)
    held = 0
    for i in range(n):
        s, a, s2 = b["obs"][:, i], b["act"][:, i], b["obs2"][:, i]
        rho = [softmax(theta[s[t]])[a[t]] / np.exp(b["logmu"][t, i, a[t]]) for t in range(t_max)]
        v2 = np.array([softmax(theta[x]) @ w[x] for x in s2])
        ends = b["done"][:, i], b["ended"][:, i]
        q_ret = retrace_sum(w[s, a], v2, rho, b["rew"][:, i], *ends, gamma, lam)
        for t in range(t_max):
            pi, mu, q = softmax(theta[s[t]]), np.exp(b["logmu"][t, i]), w[s[t]]
            v = pi @ q
            g_w[s[t], a[t]] += 2 * (q_ret[t] - q[a[t]])
            eye = np.eye(len(pi))
            g = min(c, rho[t]) * (q_ret[t] - v) * (eye[a[t]] - pi)
            for action in range(len(pi)):
                ratio = pi[action] / mu[action]
                rest = max(0.0, (ratio - c) / ratio)
                g = g + pi[action] * rest * (q[action] - v) * (eye[action] - pi)
            g = g - ent_coef * pi * (np.log(pi) - pi @ np.log(pi))
            k = pi - softmax(avg[s[t]])
            scale = max(0.0, (k @ g - delta) / (k @ k))
            held += scale > 0
            g_theta[s[t]] += g - scale * k
    theta += lr * g_theta / (t_max * n)
    w += lr * g_w / (t_max * n)
    return theta, w, polyak * avg + (1 - polyak) * theta, held


@pytest.mark.parametrize("delta", [0.02, 1e9])
def test_an_update_equals_the_same_written_out_state_by_state(delta):
    ac, pi_avg, batch = random_case()
    settings = dict(gamma=0.9, lam=0.8, c=2.5, delta=delta, polyak=0.7, ent_coef=0.3)
    theta, w, avg, held = reference_update(ac, pi_avg, batch, 0.1, **settings)
    optimizers = [SGD(x.parameters(), lr=0.1) for x in (ac.pi, ac.q)]
    info = acer_update(ac, pi_avg, *optimizers, batch, **settings)
    for got, want in ((ac.pi.logits, theta), (ac.q.values, w), (pi_avg.logits, avg)):
        np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-9, atol=1e-11)
    assert float(info["TrustFrac"]) == pytest.approx(held / batch["rew"].numel())
    assert held > 3 if delta < 1 else held == 0
    old = random_case()[0].pi(batch["obs"])[0].logits.detach()
    rho = torch.exp(core.chosen(old - batch["logmu"], batch["act"]))
    assert float(info["ClipFrac"]) == pytest.approx(float((rho > 2.5).double().mean()))
    assert 0 < float((rho > 2.5).double().mean()) < float((rho > 1).double().mean())


def test_what_an_update_reports_is_measured_before_its_step():
    ac, pi_avg, batch = random_case(1)
    before = copy.deepcopy(ac)
    info = acer_update(ac, pi_avg, *(SGD(x.parameters(), lr=0.5) for x in (ac.pi, ac.q)), batch)
    pi, q = before.pi(batch["obs"])[0], before.q(batch["obs"])
    torch.testing.assert_close(info["QVals"], core.chosen(q, batch["act"]).detach())
    assert float(info["Entropy"]) == pytest.approx(float(pi.entropy().mean().detach()))
    average = random_case(1)[1](batch["obs"])[0]
    kl = torch.distributions.kl_divergence(average, pi).mean()
    assert float(info["KL"]) == pytest.approx(float(kl.detach())) and float(info["KL"]) > 0
    assert all(not x.requires_grad for x in info.values())


def test_each_optimizer_moves_its_own_network_and_no_gradient_reaches_the_average():
    for which in ("pi", "q"):
        ac, pi_avg, batch = random_case(2)
        before, average = copy.deepcopy(ac.state_dict()), pi_avg.logits.clone()
        rates = {name: 0.1 if name == which else 0.0 for name in ("pi", "q")}
        optimizers = [SGD(getattr(ac, name).parameters(), lr=rate) for name, rate in rates.items()]
        acer_update(ac, pi_avg, *optimizers, batch, polyak=1.0)
        moved = [name for name, x in ac.state_dict().items() if not torch.equal(x, before[name])]
        assert moved == [{"pi": "pi.logits", "q": "q.values"}[which]]
        assert torch.equal(pi_avg.logits, average) and pi_avg.logits.grad is None


def test_the_average_policy_moves_by_its_share_after_the_step():
    ac, pi_avg, batch = random_case(3)
    old = pi_avg.logits.clone()
    acer_update(
        ac, pi_avg, *(SGD(x.parameters(), lr=0.1) for x in (ac.pi, ac.q)), batch, polyak=0.9
    )
    torch.testing.assert_close(pi_avg.logits, 0.9 * old + 0.1 * ac.pi.logits.detach())


def test_steps_that_were_resets_have_no_say():
    results = []
    for garbage in (0.0, 50.0):
        ac, pi_avg, batch = random_case(4)
        batch["valid"][2, 0] = batch["valid"][4, 3] = 0
        batch["ended"][1:3, 0] = batch["ended"][3:, 3] = 1  # a reset follows an end
        batch["rew"][2, 0] = batch["rew"][4, 3] = garbage
        optimizers = [SGD(x.parameters(), lr=0.1) for x in (ac.pi, ac.q)]
        info = acer_update(ac, pi_avg, *optimizers, batch)
        results.append([*ac.state_dict().values(), info["LossQ"], info["LossPi"]])
    assert all(torch.equal(x, y) for x, y in zip(*results, strict=True))
    # and the mean is over the others
    ac, pi_avg, batch = random_case(4)
    full = acer_update(ac, pi_avg, *(SGD(x.parameters(), lr=0.0) for x in (ac.pi, ac.q)), batch)
    ac, pi_avg, half = random_case(4)
    half = {k: torch.cat([x, x]) for k, x in half.items()}
    half["valid"][5:] = 0
    half["ended"][4] = 1
    info = acer_update(ac, pi_avg, *(SGD(x.parameters(), lr=0.0) for x in (ac.pi, ac.q)), half)
    assert float(info["LossQ"]) == pytest.approx(float(full["LossQ"]))
    assert float(info["LossPi"]) == pytest.approx(float(full["LossPi"]))

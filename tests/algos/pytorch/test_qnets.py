"""Networks of the off-policy algorithms: densities that integrate to one, bounds, shapes."""

import math
import warnings

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from spinup.algos.pytorch.common import nets, qnets
from spinup.algos.pytorch.common.acting import NetPolicy
from spinup.algos.pytorch.common.nets import ObsFilter, mlp
from spinup.algos.pytorch.common.qnets import (
    MLPActor,
    MLPDiscreteQFunction,
    MLPQFunction,
    SquashedGaussianMLPActor,
    action_limits,
    bounds,
    twin_q,
)
from tests.helpers.by_hand import finite_differences

ASYMMETRIC = spaces.Box(np.array([-1, 0], np.float32), np.array([3, 0.5], np.float32))


def gaussian(mu, std, limit, center, dtype=torch.float64):
    """An actor that has the same mean and width, one number a dimension, in every state."""
    mu, std = (torch.as_tensor(x, dtype=dtype).reshape(-1) for x in (mu, std))
    actor = SquashedGaussianMLPActor(1, len(mu), (3,), nn.ReLU, limit, center).to(dtype)
    with torch.no_grad():
        for layer, bias in ((actor.mu_layer, mu), (actor.log_std_layer, std.log())):
            layer.weight.zero_()
            layer.bias.copy_(bias)
    return actor


@pytest.fixture
def noise(monkeypatch):
    """A function that decides what the actors take for standard normal noise."""

    def fix(z):
        monkeypatch.setattr(torch, "randn_like", lambda x: z.to(x.dtype).expand(x.shape))

    return fix


def log_density(a, mu, std, limit, center):
    """Log-density of c + s tanh(mu + std z) at `a`, from the inverse function and its slope."""
    y = (a - center) / limit
    z = (np.arctanh(y) - mu) / std
    return -0.5 * z**2 - np.log(std * np.sqrt(2 * np.pi)) - np.log(limit * (1 - y**2))


# Mean, standard deviation, half the width of the range and its middle.
SHAPES = [
    (0.0, 1.0, 1.0, 0.0),
    (0.7, 0.3, 2.0, 1.0),
    (-1.5, 0.5, 0.25, 0.25),
    (0.2, 2.5, 40.0, -7.0),
    (2.0, 0.05, 2**-10, 100.0),
]


# ---- the squashed Gaussian -------------------------------------------------------------------


@pytest.mark.parametrize(("mu", "std", "limit", "center"), SHAPES)
def test_the_density_over_the_range_of_actions_integrates_to_one(noise, mu, std, limit, center):
    z = torch.linspace(-9, 9, 20001, dtype=torch.float64).unsqueeze(-1)
    noise(z)
    a, logp = gaussian(mu, std, limit, center)(torch.zeros(len(z), 1, dtype=torch.float64))
    a, p = a[:, 0].detach().numpy(), logp.exp().detach().numpy()
    assert np.all((a >= center - limit) & (a <= center + limit)) and np.all(np.diff(a) >= 0)
    assert np.trapezoid(p, a) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize(("mu", "std", "limit", "center"), SHAPES)
def test_log_probs_equal_the_change_of_variables(mu, std, limit, center):
    actor = gaussian(mu, std, limit, center)
    torch.manual_seed(0)
    a, logp = actor(torch.zeros(200, 1, dtype=torch.float64))
    a, logp = a[:, 0].detach().numpy(), logp.detach().numpy()
    near = np.abs((a - center) / limit) < 1 - 1e-6  # beyond that the inverse has lost its digits
    assert near.sum() > 80
    want = log_density(a[near], mu, std, limit, center)
    np.testing.assert_allclose(logp[near], want, rtol=1e-6, atol=1e-6)


def distance(samples, mu, std, limit, center):
    """Kolmogorov's distance between samples and the distribution they should have."""
    y = np.sort((samples.astype(np.float64) - center) / limit)
    z = (np.arctanh(np.clip(y, -1 + 1e-15, 1 - 1e-15)) - mu) / std / math.sqrt(2)
    cdf = np.array([0.5 * (1 + math.erf(x)) for x in z])
    n = len(y)
    return max(np.max(np.arange(1, n + 1) / n - cdf), np.max(cdf - np.arange(n) / n))


def test_samples_have_the_distribution_that_the_log_probs_describe():
    # both dimensions at once; 1.95 / sqrt(n) is exceeded once in a thousand times
    mu, std, limit, center = [0.7, -0.4], [0.3, 0.8], [2.0, 0.25], [1.0, 0.25]
    n = 20000
    limit, center = torch.tensor(limit), torch.tensor(center)
    actor = gaussian(mu, std, limit, center, torch.float32)
    torch.manual_seed(1)
    through_torch = actor(torch.zeros(n, 1))[0].detach().numpy()
    policy = NetPolicy(actor)
    through_numpy = policy(np.zeros((n, 1), np.float32), np.random.default_rng(1))[0]
    for samples in (through_torch, through_numpy):
        assert samples.dtype == np.float32 and samples.shape == (n, 2)
        for i in range(2):
            shape = (mu[i], std[i], float(limit[i]), float(center[i]))
            assert distance(samples[:, i], *shape) < 1.95 / math.sqrt(n)
        assert abs(np.corrcoef(samples.T)[0, 1]) < 0.03  # each dimension has noise of its own
    # the mode of the Gaussian, squashed
    want = center.numpy() + limit.numpy() * np.tanh(mu)
    np.testing.assert_allclose(policy.mode(policy.net(np.zeros((1, 1)))), [want], rtol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("u", [-20.0, 20.0, -60.0, 60.0])
def test_log_probs_are_stable_where_tanh_is_one(noise, u, dtype):
    noise(torch.zeros(1))
    actor = gaussian(u, 0.5, 2.0, 1.0, dtype)
    a, logp = actor(torch.zeros(1, 1, dtype=dtype))
    # 1 - tanh^2 = 4 exp(-2|u|) / (1 + exp(-2|u|))^2
    want = -math.log(0.5 * math.sqrt(2 * math.pi)) - math.log(2) - (math.log(4) - 2 * abs(u))
    assert float(logp.detach()) == pytest.approx(want, rel=1e-6)
    assert float(a.detach()) == pytest.approx(1 + 2 * math.copysign(1, u))
    (grad,) = torch.autograd.grad(logp.sum(), [actor.mu_layer.bias])
    # the density rises by 2 for each unit of |u|, and u is the mean plus fixed noise
    assert float(grad) == pytest.approx(math.copysign(2, u), rel=1e-6)


def random_actor(act_dim=2):
    torch.manual_seed(5)
    actor = SquashedGaussianMLPActor(3, act_dim, (4,), nn.Tanh, *bounds(ASYMMETRIC)).double()
    return actor, torch.randn(6, 3, dtype=torch.float64)


def test_log_probs_sum_over_dimensions_and_one_observation_works(noise):
    actor, obs = random_actor()
    z = torch.tensor([0.3, -1.2], dtype=torch.float64)
    noise(z)
    a, logp = actor(obs)
    assert a.shape == (6, 2) and logp.shape == (6,)
    h = actor.net(obs)
    mu, std = (x.detach().numpy() for x in (actor.mu_layer(h), actor.log_std_layer(h).exp()))
    limit, center = np.array([2.0, 0.25]), np.array([1.0, 0.25])
    want = log_density(a.detach().numpy(), mu, std, limit, center).sum(-1)
    np.testing.assert_allclose(logp.detach(), want, rtol=1e-9)
    for i in range(6):
        a_i, logp_i = actor(obs[i])
        assert a_i.shape == (2,) and logp_i.shape == ()
        torch.testing.assert_close((a_i, logp_i), (a[i], logp[i]))


@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.0, 1.0), (1.0, -0.2)])
def test_the_gradient_passes_through_the_sample(weights):
    actor, obs = random_actor()

    def loss():  # a function of actions and log-probs, with the same noise every time
        torch.manual_seed(9)
        a, logp = actor(obs)
        return (weights[0] * (a.square() + a).sum(-1) + weights[1] * logp).mean()

    grads = torch.autograd.grad(loss(), list(actor.parameters()))
    got = torch.cat([g.reshape(-1) for g in grads])
    want = finite_differences(loss, actor)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-8)
    assert np.abs(want).max() > 1e-2


def test_the_most_likely_action_has_no_noise_and_log_probs_can_be_left_out():
    actor, obs = random_actor()
    a, logp = actor(obs, deterministic=True)
    mu = actor.mu_layer(actor.net(obs))
    want = torch.tensor([1.0, 0.25]) + torch.tensor([2.0, 0.25]) * torch.tanh(mu)
    torch.testing.assert_close(a, want)
    assert logp.shape == (6,)
    assert torch.equal(actor(obs, deterministic=True)[0], a)
    torch.manual_seed(2)
    sampled, _ = actor(obs)
    torch.manual_seed(2)
    again, nothing = actor(obs, with_logprob=False)
    assert torch.equal(sampled, again) and nothing is None and not torch.equal(sampled, a)


@pytest.mark.parametrize(("bias", "log_std"), [(1e3, 2.0), (-1e3, -20.0)])
def test_the_width_stays_within_reason(noise, bias, log_std):
    actor = gaussian(0.1, 1.0, 1.0, 0.0)
    with torch.no_grad():
        actor.log_std_layer.bias.fill_(bias)
    noise(torch.full((1,), 0.01, dtype=torch.float64))
    a, logp = actor(torch.zeros(1, 1, dtype=torch.float64))
    assert float(a.detach()) == pytest.approx(math.tanh(0.1 + math.exp(log_std) * 0.01), rel=1e-12)
    assert math.isfinite(float(logp.detach()))
    policy, rng = NetPolicy(actor.float()), np.random.default_rng(0)
    z = np.random.default_rng(0).standard_normal((100, 1), np.float32)
    want = np.tanh(0.1 + math.exp(log_std) * z)
    got = policy(np.zeros((100, 1), np.float32), rng)[0]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


# ---- bounds ----------------------------------------------------------------------------------


def test_bounds_are_taken_by_dimension_and_may_be_asymmetric():
    limit, center = bounds(ASYMMETRIC)
    assert limit.tolist() == [2.0, 0.25] and center.tolist() == [1.0, 0.25]
    low = np.arange(6.0).reshape(2, 3)
    limit, center = bounds(spaces.Box(low, 2 * low + 1, dtype=np.float64))
    assert limit.dtype == center.dtype == torch.float32
    np.testing.assert_allclose(limit, (np.arange(6) + 1) / 2)
    np.testing.assert_allclose(center, (3 * np.arange(6) + 1) / 2)
    narrow = spaces.Box(1e6, 1e6 + 0.5, (1,), np.float64)  # float32 would lose the width
    assert bounds(narrow)[0].item() == 0.25


def test_an_actors_actions_reach_both_bounds_and_no_further():
    torch.manual_seed(0)
    actor = MLPActor(3, 2, (8,), nn.ReLU, *bounds(ASYMMETRIC))
    obs = torch.randn(500, 3) * 1e3
    a = actor(obs).detach()
    low, high = (torch.tensor(x) for x in (ASYMMETRIC.low, ASYMMETRIC.high))
    assert torch.all((a >= low - 1e-6) & (a <= high + 1e-6))
    torch.testing.assert_close(a.amin(0), low, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(a.amax(0), high, rtol=1e-4, atol=1e-4)
    assert torch.equal(actor(obs[0]).detach(), a[0]) or torch.allclose(actor(obs[0]), a[0])


def test_one_limit_for_all_dimensions_is_enough():
    actor = MLPActor(3, 2, (4,), nn.ReLU, 5.0)
    assert actor.act_limit.tolist() == [5.0, 5.0] and actor.act_center.tolist() == [0.0, 0.0]
    obs = torch.randn(4, 3)
    torch.testing.assert_close(actor(obs), 5.0 * actor.pi(obs))


# ---- critics ---------------------------------------------------------------------------------


def test_values_may_be_negative_and_widths_are_honoured():
    torch.manual_seed(0)
    nets = [
        (MLPQFunction(3, 2, (7, 5), nn.ReLU), [(5, 7), (7, 5), (5, 1)]),
        (MLPDiscreteQFunction(3, 4, (7, 5), nn.ReLU), [(3, 7), (7, 5), (5, 4)]),
    ]
    for net, sizes in nets:
        linears = [m for m in net.modules() if isinstance(m, nn.Linear)]
        assert [(m.in_features, m.out_features) for m in linears] == sizes
        for bias in (-50.0, 50.0):
            nn.init.constant_(linears[-1].bias, bias)
            obs = torch.randn(20, 3)
            q = net(obs) if net is nets[1][0] else net(obs, torch.randn(20, 2))
            assert torch.all(q * bias > 0)


def test_q_takes_batches_single_rows_and_actions_with_several_axes():
    q = MLPQFunction(3, 4, (5,), nn.Tanh)
    obs, act = torch.randn(6, 3), torch.randn(6, 2, 2)
    value = q(obs, act)
    assert value.shape == (6,)
    torch.testing.assert_close(value, q(obs, act.reshape(6, 4)))
    torch.testing.assert_close(value, q.q(torch.cat([obs, act.reshape(6, 4)], -1))[:, 0])
    assert q(obs[0], act[0]).shape == ()
    torch.testing.assert_close(q(obs[0], act[0]), value[0])
    images = MLPQFunction(12, 2, (5,), nn.Tanh, ObsFilter((2, 2, 3)))
    assert images(torch.randn(6, 2, 2, 3), torch.randn(6, 2)).shape == (6,)
    assert images(torch.randn(2, 2, 3), torch.randn(2)).shape == ()


def test_discrete_q_gives_all_values_or_those_of_the_chosen_actions():
    q = MLPDiscreteQFunction(3, 4, (5,), nn.Tanh)
    obs, act = torch.randn(6, 3), torch.tensor([0, 3, 1, 1, 2, 0])
    every = q(obs)
    assert every.shape == (6, 4)
    chosen = q(obs, act)
    assert chosen.tolist() == [every[i, a].item() for i, a in enumerate(act)]
    assert q(obs[1], act[1]).shape == () and q(obs[1]).shape == (4,)
    torch.testing.assert_close(q(obs[1], act[1]), every[1, 3])


def test_no_hidden_layer_makes_linear_networks():
    torch.manual_seed(0)
    actor = SquashedGaussianMLPActor(3, 2, (), nn.ReLU, *bounds(ASYMMETRIC))
    obs = torch.randn(5, 3)
    a, logp = actor(obs, deterministic=True)
    torch.testing.assert_close(a, actor.act_center + actor.act_limit * actor.mu_layer(obs).tanh())
    assert logp.shape == (5,)
    policy = NetPolicy(actor)
    np.testing.assert_allclose(policy.mode(policy.net(obs.numpy())), a.detach(), atol=1e-6)
    assert MLPQFunction(3, 2, (), nn.ReLU)(obs, a).shape == (5,)


def test_the_names_that_user_code_reaches():
    actor = SquashedGaussianMLPActor(3, 2, (4, 6), nn.ReLU, 1.0)
    assert isinstance(actor.net, nn.Sequential) and len(actor.net) == len(mlp([3, 4, 6], nn.ReLU))
    assert actor.mu_layer.in_features == actor.log_std_layer.in_features == 6
    assert isinstance(MLPActor(3, 2, (4,), nn.ReLU, 1.0).pi, nn.Sequential)
    assert isinstance(MLPQFunction(3, 2, (4,), nn.ReLU).q, nn.Sequential)
    assert qnets.LOG_STD_MAX == 2 and qnets.LOG_STD_MIN == -20


# ---- layers as one step of autograd ----------------------------------------------------------

INNER = [nn.ReLU, nn.Tanh, nn.Identity, nn.ELU]
OUTER = [nn.Identity, nn.ReLU, nets.Tanh]


def gradients(out, inputs):
    """Of a loss in which every output has a weight of its own; zeros where there is none."""
    loss = (out * torch.arange(1, out.numel() + 1, dtype=out.dtype).reshape(out.shape)).sum()
    grads = torch.autograd.grad(loss, inputs, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(inputs, grads, strict=True)]


@pytest.mark.parametrize("hidden_sizes", [(), (5,), (5, 4)])
@pytest.mark.parametrize("output_activation", OUTER)
@pytest.mark.parametrize("activation", INNER)
def test_values_and_gradients_are_those_of_layer_by_layer(
    activation, output_activation, hidden_sizes
):
    torch.manual_seed(0)
    args = ([3, *hidden_sizes, 2], activation, output_activation)
    fast, slow = qnets.mlp(*args).double(), nets.mlp(*args).double()
    slow.load_state_dict(fast.state_dict())
    for shape in ((7, 3), (1, 3), (3,), (2, 7, 3)):
        x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
        one, other = fast(x), slow(x)
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)
        pairs = zip(
            gradients(one, [x, *fast.parameters()]),
            gradients(other, [x, *slow.parameters()]),
            strict=True,
        )
        for a, b in pairs:
            torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-13)
        with torch.no_grad():
            torch.testing.assert_close(fast(x), other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("trained", ["weight", "bias", "0.", "2.", "nothing"])
def test_each_parameter_can_be_frozen_alone(trained):
    torch.manual_seed(0)
    fast, slow = qnets.mlp([3, 5, 2], nn.ReLU).double(), nets.mlp([3, 5, 2], nn.ReLU).double()
    slow.load_state_dict(fast.state_dict())
    x = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    grads = []
    for net in (fast, slow):
        for name, p in net.named_parameters():
            p.requires_grad_(trained in name)
        grads.append(gradients(net(x), [x, *(p for p in net.parameters() if p.requires_grad)]))
        assert all(g.abs().sum() > 0 for g in grads[-1])
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-13)


def test_layers_that_a_user_put_in_are_used():
    x = torch.randn(7, 3)
    for layers in (
        (nn.Linear(3, 5, bias=False), nn.ReLU(), nn.Linear(5, 1)),
        (nn.Linear(3, 5), nn.Linear(5, 5), nn.Linear(5, 1)),
        (nn.Linear(3, 5), nn.Dropout(0.0), nn.Linear(5, 1)),
    ):
        net = qnets.mlp([3, 5, 1], nn.ReLU)
        for i, layer in enumerate(layers):
            net[i] = layer
        torch.testing.assert_close(net(x), nn.Sequential(*layers)(x))


def test_a_layer_with_a_hook_is_asked():
    net = qnets.mlp([3, 5, 1], nn.ReLU)
    seen = []
    net[0].register_forward_hook(lambda layer, args, out: seen.append(out.shape))
    net(torch.randn(7, 3))
    assert seen == [(7, 5)]
    # weights that are computed before each call, by a hook too
    normed = qnets.mlp([3, 5, 1], nn.ReLU)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # this way of doing it is an old one
        nn.utils.weight_norm(normed[0])
    x = torch.randn(7, 3)
    with torch.no_grad():
        normed[0].weight_g *= 2
    slow = nn.Sequential(*normed)
    torch.testing.assert_close(normed(x), slow(x))


class Twins(nn.Module):
    def __init__(self, q1, q2):
        super().__init__()
        self.q1, self.q2 = q1, q2


def replaced():
    """A default critic whose network is the user's own."""
    q = MLPQFunction(4, 4, (5,), nn.ReLU)
    q.q = nn.Sequential(nn.Linear(8, 3), nn.ReLU(), nn.Linear(3, 1))
    return q


class ColumnQ(MLPQFunction):
    def forward(self, obs, act):
        return super().forward(obs, act).unsqueeze(-1)


class Doubled(nn.Module):
    def forward(self, obs):
        return 2 * obs


CRITICS = {
    "default": lambda: MLPQFunction(4, 4, (5,), nn.ReLU),
    "deep": lambda: MLPQFunction(4, 4, (5, 6), nn.ReLU),
    "tanh": lambda: MLPQFunction(4, 4, (5,), nn.Tanh),
    "linear": lambda: MLPQFunction(4, 4, (), nn.ReLU),
    "filter": lambda: MLPQFunction(4, 4, (5,), nn.ReLU, Doubled()),
    "replaced": replaced,
    "column": lambda: ColumnQ(4, 4, (5,), nn.ReLU),
}


@pytest.mark.parametrize("axes", [(4,), (2, 2)])
@pytest.mark.parametrize("second", list(CRITICS))
@pytest.mark.parametrize("first", list(CRITICS))
def test_two_critics_at_once_give_what_each_gives_alone(first, second, axes):
    torch.manual_seed(0)
    ac = Twins(CRITICS[first](), CRITICS[second]()).double()
    obs = torch.randn(7, 4, dtype=torch.float64)
    act = torch.randn(7, *axes, dtype=torch.float64, requires_grad=True)
    both, alone = twin_q(ac, obs, act), [q(obs, act).reshape(-1) for q in (ac.q1, ac.q2)]
    inputs = [act, *ac.parameters()]
    for one, other in zip(both, alone, strict=True):
        assert one.shape == (7,)
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)
    pairs = zip(
        gradients(torch.stack(both), inputs), gradients(torch.stack(alone), inputs), strict=True
    )
    for a, b in pairs:
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-13)
    with torch.no_grad():
        torch.testing.assert_close(twin_q(ac, obs, act), tuple(alone), rtol=1e-12, atol=1e-14)


def test_two_critics_flatten_images_as_each_does_alone():
    torch.manual_seed(0)
    obs_filter = ObsFilter((2, 2, 3))
    ac = Twins(*(MLPQFunction(12, 2, (5,), nn.ReLU, obs_filter) for _ in range(2)))
    obs, act = torch.randn(7, 2, 2, 3), torch.randn(7, 2)
    for one, q in zip(twin_q(ac, obs, act), (ac.q1, ac.q2), strict=True):
        torch.testing.assert_close(one, q(obs, act))


def test_limits_of_an_action_space_are_its_bounds_to_the_last_bit():
    low = np.array([[-0.1, 1e-7], [3, -1e6]], np.float32)
    high = np.array([[0.3, 1], [3.0000002, 1e6]], np.float32)
    got = action_limits(spaces.Box(low, high), "cpu")
    assert [x.tolist() for x in got] == [low.ravel().tolist(), high.ravel().tolist()]
    assert {x.dtype for x in got} == {torch.float32}

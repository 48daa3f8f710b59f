"""Networks: activations, shapes, distributions, initialization, normalizers, divergences."""

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import nn
from torch.distributions import Bernoulli, Categorical, Independent, Normal, kl_divergence

from spinup.algos.pytorch.common import layers, nets

OBS = spaces.Box(-1, 1, (3,), np.float32)
ACTIONS = {
    "Discrete": spaces.Discrete(4),
    "Box": spaces.Box(-1, 1, (2,), np.float32),
    "MultiDiscrete": spaces.MultiDiscrete([3, 2]),
    "MultiBinary": spaces.MultiBinary(3),
}
KINDS = list(ACTIONS)


def actor_critic(kind, **kwargs):
    return nets.MLPActorCritic(OBS, ACTIONS[kind], **{"hidden_sizes": (8,), **kwargs})


def batch(kind, n=5):
    obs = torch.randn(n, 3)
    with torch.no_grad():
        return obs, torch.as_tensor(actor_critic(kind).step(obs)[0])


# ---- activation ------------------------------------------------------------------------------


def test_tanh_equals_torchs_in_value_and_first_and_second_derivative():
    points = torch.cat([torch.linspace(-12, 12, 401), torch.tensor([-100.0, 0.0, 100.0])])
    results = []
    for module in (nets.Tanh(), nn.Tanh()):
        x = points.double().requires_grad_()
        y = module(x)
        (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        results.append((y, first, second))
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=1e-14)


def test_tanh_in_float32_is_within_its_stated_error():
    x = torch.linspace(-12, 12, 20_001)
    error = (nets.Tanh()(x).double() - torch.tanh(x.double())).abs().max()
    assert error < 2e-7


def test_tanh_leaves_its_input_alone():
    x = torch.tensor([0.3, -0.7])
    nets.Tanh()(x)
    assert x.tolist() == torch.tensor([0.3, -0.7]).tolist()


def test_tanh_passes_torchs_own_check_of_gradients_of_gradients():
    x = torch.randn(5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layers._Tanh.apply, x)
    assert torch.autograd.gradgradcheck(layers._Tanh.apply, x)


# ---- shapes ----------------------------------------------------------------------------------


def test_networks_honour_the_configured_width_in_every_layer():
    net = nets.mlp([3, 7, 5, 2], nn.ReLU)
    widths = [(m.in_features, m.out_features) for m in net if isinstance(m, nn.Linear)]
    assert widths == [(3, 7), (7, 5), (5, 2)]
    assert [type(m) for m in net if not isinstance(m, nn.Linear)] == [nn.ReLU, nn.ReLU, nn.Identity]
    ac = actor_critic("Discrete", hidden_sizes=(7, 5))
    for net, out in ((ac.pi.logits_net, 4), (ac.v.v_net, 1)):
        widths = [m.out_features for m in net if isinstance(m, nn.Linear)]
        assert widths == [7, 5, out]


def test_values_may_be_negative_and_large():
    critic = nets.MLPCritic(3, (8,), nn.ReLU)
    assert type(critic.v_net[-1]) is nn.Identity
    with torch.no_grad():
        critic.v_net[-2].bias.fill_(-50.0)
    assert (critic(torch.zeros(4, 3)) < -40).all()


def test_output_activation_is_used_only_at_the_output():
    net = nets.mlp([3, 4, 2], nn.ReLU, nn.Sigmoid)
    assert [type(m) for m in net] == [nn.Linear, nn.ReLU, nn.Linear, nn.Sigmoid]


def test_count_vars_and_combined_shape():
    assert nets.count_vars(nets.mlp([3, 7, 2], nn.ReLU)) == 3 * 7 + 7 + 7 * 2 + 2
    assert nets.combined_shape(5) == (5,)
    assert nets.combined_shape(5, 3) == (5, 3)
    assert nets.combined_shape(5, (2, 3)) == (5, 2, 3)
    assert nets.combined_shape(5, ()) == (5,)


@pytest.mark.parametrize("kind", KINDS)
def test_one_observation_and_a_batch_of_it_give_the_same(kind):
    ac = actor_critic(kind)
    obs = torch.randn(5, 3)
    a, v, logp = ac.step(obs)
    assert a.shape == (5, *ACTIONS[kind].shape) and v.shape == logp.shape == (5,)
    for i in range(5):
        pi, logp_i = ac.pi(obs[i], torch.as_tensor(a[i]))
        assert logp_i.shape == () and ac.v(obs[i]).shape == ()
        assert float(logp_i.detach()) == pytest.approx(logp[i], rel=1e-4, abs=1e-5)
        assert float(ac.v(obs[i]).detach()) == pytest.approx(v[i], rel=1e-4, abs=1e-5)
    assert ac.act(obs[0]).shape == ACTIONS[kind].shape
    pi, none = ac.pi(obs)
    assert none is None and pi is not None


@pytest.mark.parametrize("kind", KINDS)
def test_log_probabilities_of_step_are_those_of_its_actions(kind):
    ac = actor_critic(kind)
    obs = torch.randn(6, 3)
    a, _, logp = ac.step(obs)
    np.testing.assert_allclose(ac.pi(obs, torch.as_tensor(a))[1].detach(), logp, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_deterministic_actions_are_the_most_likely_ones(kind):
    ac = actor_critic(kind)
    obs = torch.randn(4, 3)
    best = torch.as_tensor(ac.act(obs, deterministic=True))
    np.testing.assert_array_equal(best, ac.act(obs, deterministic=True))
    top = ac.pi(obs, best)[1]
    for _ in range(30):
        assert (ac.pi(obs, torch.as_tensor(ac.act(obs)))[1] <= top + 1e-6).all()


def test_floats_with_several_axes_and_scalars_are_flattened():
    image = spaces.Box(0.0, 1.0, (2, 2, 3))
    ac = nets.MLPActorCritic(image, ACTIONS["Discrete"], hidden_sizes=(8,))
    obs = torch.rand(5, 2, 2, 3)
    assert ac.v(obs).shape == (5,) and ac.v(obs[0]).shape == ()
    torch.testing.assert_close(ac.v(obs), ac.v.v_net(obs.reshape(5, 12)).squeeze(-1))
    assert nets.ObsFilter(())(torch.zeros(5)).shape == (5, 1)


def test_multi_dimensional_actions_are_scored_as_flat_ones():
    space = spaces.Box(-1, 1, (2, 3), np.float32)
    ac = nets.MLPActorCritic(OBS, space, hidden_sizes=(8,))
    obs, act = torch.randn(5, 3), torch.randn(5, 2, 3)
    logp = ac.pi(obs, act)[1]
    assert logp.shape == (5,)
    torch.testing.assert_close(logp, ac.pi(obs, act.reshape(5, 6))[1])
    coins = nets.MLPActorCritic(OBS, spaces.MultiBinary((2, 2)), hidden_sizes=(8,))
    assert coins.pi(obs, torch.ones(5, 2, 2))[1].shape == (5,)
    grid = nets.MLPActorCritic(OBS, spaces.MultiDiscrete([[2, 3], [4, 5]]), hidden_sizes=(8,))
    assert grid.pi(obs, torch.ones(5, 2, 2, dtype=torch.int64))[1].shape == (5,)


def test_names_that_user_code_reaches():
    ac = actor_critic("Box")
    for obj, names in ((ac, ("pi", "v")), (ac.pi, ("mu_net", "log_std")), (ac.v, ("v_net",))):
        assert all(hasattr(obj, name) for name in names)
    assert hasattr(actor_critic("Discrete").pi, "logits_net")
    assert ac.pi.log_std.tolist() == [-0.5, -0.5]


def test_an_actor_without_a_distribution_says_what_is_missing():
    with pytest.raises(NotImplementedError, match="_distribution"):
        nets.Actor()(torch.zeros(1))
    with pytest.raises(NotImplementedError, match="_log_prob_from_distribution"):
        nets.Actor()._log_prob_from_distribution(None, None)


def test_an_action_space_without_an_actor_is_an_error():
    with pytest.raises(TypeError, match="no actor"):
        nets.make_actor(OBS, spaces.Text(3), (8,), nn.ReLU)


# ---- distributions ---------------------------------------------------------------------------


def test_gaussian_log_probability_adds_over_dimensions():
    actor = nets.MLPGaussianActor(3, 2, (), nn.ReLU)
    obs, act = torch.randn(1, 3), torch.tensor([[0.5, -1.5]])
    mu, std = actor.mu_net(obs)[0].tolist(), math.exp(-0.5)
    want = sum(
        -0.5 * ((a - m) / std) ** 2 - math.log(std) - 0.5 * math.log(2 * math.pi)
        for a, m in zip([0.5, -1.5], mu, strict=True)
    )
    assert float(actor(obs, act)[1].detach()) == pytest.approx(want, rel=1e-5)


def test_multi_categorical_adds_log_probabilities_entropies_and_divergences():
    logits = torch.tensor([[0.2, 0.5, -1.0, 0.3, 0.9]], dtype=torch.float64)
    other = torch.tensor([[1.2, -0.5, 0.0, -0.3, 0.1]], dtype=torch.float64)
    p, q = nets.MultiCategorical(logits, [3, 2]), nets.MultiCategorical(other, [3, 2])
    split = [torch.softmax(x, -1)[0] for x in logits.split([3, 2], -1)]
    others = [torch.softmax(x, -1)[0] for x in other.split([3, 2], -1)]
    logp = split[0][2].log() + split[1][0].log()
    torch.testing.assert_close(p.log_prob(torch.tensor([[2, 0]])), logp[None])
    ent = -sum((x * x.log()).sum() for x in split)
    torch.testing.assert_close(p.entropy(), ent[None])
    kl = sum((x * (x / y).log()).sum() for x, y in zip(split, others, strict=True))
    torch.testing.assert_close(p.kl(q), kl[None])
    assert p.sample().shape == (1, 2)


def test_bernoulli_log_probability_adds_over_coins():
    actor = nets.MLPBernoulliActor(3, 3, (), nn.ReLU)
    obs = torch.randn(1, 3)
    p = torch.sigmoid(actor.logits_net(obs))[0]
    want = p[0].log() + (1 - p[1]).log() + p[2].log()
    torch.testing.assert_close(actor(obs, torch.tensor([[1, 0, 1]]))[1], want[None])
    pi, _ = actor(obs)
    assert pi.entropy().shape == (1,) and kl_divergence(pi, pi).shape == (1,)


def test_discrete_log_probabilities_are_those_of_the_softmax_and_sum_to_one():
    actor = nets.MLPCategoricalActor(3, 4, (8,), nn.ReLU)
    obs = torch.randn(1, 3)
    logp = actor(obs.expand(4, 3), torch.arange(4))[1]
    torch.testing.assert_close(logp.exp(), torch.softmax(actor.logits_net(obs)[0], -1))
    assert float(logp.exp().sum().detach()) == pytest.approx(1, abs=1e-6)


# ---- initialization --------------------------------------------------------------------------


def test_orthogonal_init_has_orthogonal_rows_and_the_stated_gains():
    ac = actor_critic("Box", hidden_sizes=(16, 16), orthogonal_init=True)
    for net, gains in ((ac.pi.mu_net, (2**0.5, 2**0.5, 0.01)), (ac.v.v_net, (2**0.5, 2**0.5, 1))):
        linears = [m for m in net if isinstance(m, nn.Linear)]
        for linear, gain in zip(linears, gains, strict=True):
            w = linear.weight.detach().double() / gain
            gram = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
            torch.testing.assert_close(
                gram, torch.eye(len(gram), dtype=gram.dtype), atol=1e-5, rtol=0
            )
            assert (linear.bias == 0).all()
    assert ac.pi.log_std.tolist() == [-0.5, -0.5]


def test_exploration_starts_where_it_is_told_to():
    ac = actor_critic("Box", log_std_init=-1.5, orthogonal_init=True)
    assert ac.pi.log_std.tolist() == [-1.5, -1.5] and ac.pi.log_std.requires_grad
    same = actor_critic("Discrete", log_std_init=None)
    assert not hasattr(same.pi, "log_std")


def test_default_init_is_torchs_own():
    torch.manual_seed(3)
    want = nn.Linear(3, 8).weight.tolist()
    torch.manual_seed(3)
    assert nets.mlp([3, 8, 1], nn.ReLU)[0].weight.tolist() == want


# ---- normalizers -----------------------------------------------------------------------------


def test_observation_statistics_are_numpys_on_the_joined_data():
    rng = np.random.default_rng(0)
    parts = [rng.normal([3, -2, 0.5], [10, 0.1, 1], (n, 3)).astype(np.float32) for n in (7, 1, 40)]
    obs_filter = nets.ObsFilter((3,), normalize=True)
    for x in parts:
        obs_filter.update(obs_filter.batch_sums(torch.as_tensor(x)))
    joined = np.concatenate(parts).astype(np.float64)
    np.testing.assert_allclose(obs_filter.mean, joined.mean(0), rtol=1e-6)
    np.testing.assert_allclose(obs_filter.std, joined.std(0), rtol=1e-5)
    got = obs_filter(torch.as_tensor(joined, dtype=torch.float32)).numpy()
    np.testing.assert_allclose(got, (joined - joined.mean(0)) / joined.std(0), rtol=1e-4, atol=1e-5)


def test_normalized_observations_are_clipped():
    obs_filter = nets.ObsFilter((1,), normalize=True, clip=10.0)
    obs_filter.update(obs_filter.batch_sums(torch.tensor([[-1.0], [1.0]])))
    assert obs_filter(torch.tensor([[1e6], [-1e6], [3.0]])).ravel().tolist() == [10, -10, 3]


def test_a_constant_observation_is_normalized_to_zero():
    obs_filter = nets.ObsFilter((2,), normalize=True)
    obs = torch.tensor([[1234.5, 0.1]]).repeat(50, 1)
    obs_filter.update(obs_filter.batch_sums(obs))
    assert obs_filter(obs).abs().max() == 0


@pytest.mark.parametrize("unit", [1e-6, 1e-3, 1e3])
@pytest.mark.parametrize("offset", [0.0, 5.0, -300.0])
def test_observations_are_normalized_whatever_their_unit(unit, offset):
    x = np.random.default_rng(2).normal(offset, 1, (500, 1)) * unit
    obs = torch.as_tensor(x.astype(np.float32))
    obs_filter = nets.ObsFilter((1,), normalize=True)
    obs_filter.update(obs_filter.batch_sums(obs))
    for got in (obs_filter(obs).numpy(), obs_filter.frozen_copy()(obs.numpy())):
        np.testing.assert_allclose([got.mean(), got.std()], [0, 1], atol=1e-3)


def test_a_constant_observation_stays_unscaled_after_many_updates():
    obs_filter = nets.ObsFilter((3,), normalize=True)
    sums = obs_filter.batch_sums(torch.tensor([[0.1, 0.0, -777.7]]).repeat(37, 1))
    for _ in range(3000):  # rounding errors add up
        obs_filter.update(sums)
    assert obs_filter.std.tolist() == [1, 1, 1]


def test_observations_are_not_clipped_before_there_are_statistics():
    obs_filter = nets.ObsFilter((2,), normalize=True)
    obs = torch.tensor([[150.0, -3.0], [-20000.0, 11.0]])
    assert torch.equal(obs_filter(obs), obs)
    np.testing.assert_array_equal(obs_filter.frozen_copy()(obs.numpy()), obs)
    obs_filter.update(obs_filter.batch_sums(torch.tensor([[-1.0, -1.0], [1.0, 1.0]])))
    assert obs_filter(obs).tolist() == [[10, -3], [-10, 10]]
    np.testing.assert_array_equal(obs_filter.frozen_copy()(obs.numpy()), obs_filter(obs))


def test_observation_statistics_do_not_change_in_use():
    ac = actor_critic("Box", normalize_obs=True)
    ac.pi.obs_filter.update(ac.pi.obs_filter.batch_sums(torch.randn(9, 3) + 4))
    before = {k: x.clone() for k, x in ac.state_dict().items()}
    obs = torch.randn(20, 3) * 50
    ac.step(obs)
    ac.act(obs, deterministic=True)
    ac.pi(obs, torch.zeros(20, 2))
    ac.train()
    ac.step(obs)
    assert all(torch.equal(x, before[k]) for k, x in ac.state_dict().items())


def test_observation_statistics_are_part_of_the_saved_policy():
    ac = actor_critic("Box", normalize_obs=True)
    ac.pi.obs_filter.update(ac.pi.obs_filter.batch_sums(torch.randn(9, 3) * 3 + 4))
    other = actor_critic("Box", normalize_obs=True)
    other.load_state_dict(ac.state_dict())
    obs = torch.randn(5, 3)
    np.testing.assert_array_equal(other.act(obs, True), ac.act(obs, True))
    assert ac.v.obs_filter is ac.pi.obs_filter
    torch.testing.assert_close(other.v(obs), ac.v(obs), rtol=0, atol=0)
    for name in ("mean", "std", "sums"):
        assert f"pi.obs_filter.{name}" in ac.state_dict()


def test_return_statistics_are_numpys_on_the_joined_data():
    rng = np.random.default_rng(1)
    parts = [rng.normal(100, 7, n) for n in (3, 20)]
    ret_filter = nets.ReturnFilter()
    for x in parts:
        ret_filter.update(torch.tensor([len(x), x.sum(), np.square(x).sum()], dtype=torch.float64))
    assert float(ret_filter.std) == pytest.approx(np.concatenate(parts).std(), rel=1e-9)


def test_small_returns_are_scaled_and_constant_ones_are_not():
    for values, want in (([1e-6, 3e-6], 1e-6), ([0.0, 0.0], 1.0), ([0.1] * 7, 1.0)):
        ret_filter, x = nets.ReturnFilter(), np.array(values)
        ret_filter.update(torch.tensor([len(x), x.sum(), np.square(x).sum()], dtype=torch.float64))
        assert float(ret_filter.std) == pytest.approx(want, rel=1e-6)


def test_filters_that_nobody_asked_for_are_not_there():
    ac = actor_critic("Box")
    assert isinstance(ac.pi.obs_filter, nn.Identity) and ac.ret_filter is None
    assert not any("filter" in name for name in ac.state_dict())


# ---- entropy and divergence ------------------------------------------------------------------


def test_entropy_sums_over_the_dimensions_of_an_action_and_averages_over_the_batch():
    std = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    each = 0.5 * math.log(2 * math.pi * math.e) + std.log()
    want = float(each.sum(-1).mean())
    assert float(nets.entropy(Normal(torch.zeros(2, 3), std))) == pytest.approx(want, rel=1e-6)
    together = Independent(Normal(torch.zeros(2, 3), std), 1)
    assert float(nets.entropy(together)) == pytest.approx(want, rel=1e-6)
    assert float(nets.entropy(Categorical(logits=torch.zeros(5, 8)))) == pytest.approx(
        math.log(8), rel=1e-6
    )
    coins = Independent(Bernoulli(logits=torch.zeros(5, 3)), 1)
    assert float(nets.entropy(coins)) == pytest.approx(3 * math.log(2), rel=1e-6)
    both = nets.MultiCategorical(torch.zeros(5, 6), [2, 4])
    assert float(nets.entropy(both)) == pytest.approx(math.log(8), rel=1e-6)


@given(
    hnp.arrays(np.float64, 6, elements=st.floats(-5, 5)),
    hnp.arrays(np.float64, 6, elements=st.floats(-5, 5)),
)
def test_the_logged_divergence_is_never_negative(old, new):
    old, new = torch.as_tensor(old), torch.as_tensor(new)
    kl = float(nets.approx_kl(old, new))
    want = np.mean([math.exp(b - a) - 1 - (b - a) for a, b in zip(old, new, strict=True)])
    assert kl == pytest.approx(want, abs=1e-12) and kl >= -1e-12


def test_sampled_divergence_estimates_the_closed_form():
    p, q = Categorical(probs=torch.tensor([0.6, 0.3, 0.1])), Categorical(probs=torch.ones(3) / 3)
    # in expectation over p, exactly
    actions = torch.arange(3)
    log_ratio = q.log_prob(actions) - p.log_prob(actions)
    expected = (p.probs * (log_ratio.exp() - 1 - log_ratio)).sum()
    closed = (p.probs * (p.probs / q.probs).log()).sum()
    torch.testing.assert_close(expected, closed)


CASES = {
    # old, new, KL(old || new) by its formula, one row each
    "gaussian": (
        lambda: Normal(torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 0.5]])),
        lambda: Normal(torch.tensor([[1.0, 1.0]]), torch.tensor([[2.0, 1.5]])),
        lambda: sum(
            math.log(s1 / s0) + (s0**2 + (m0 - m1) ** 2) / (2 * s1**2) - 0.5
            for m0, s0, m1, s1 in ((0, 1, 1, 2), (1, 0.5, 1, 1.5))
        ),
    ),
    "categorical": (
        lambda: Categorical(probs=torch.tensor([[0.7, 0.2, 0.1]])),
        lambda: Categorical(probs=torch.tensor([[0.1, 0.1, 0.8]])),
        lambda: 0.7 * math.log(7) + 0.2 * math.log(2) + 0.1 * math.log(1 / 8),
    ),
    "multi-discrete": (
        lambda: nets.MultiCategorical(torch.tensor([[0.7, 0.2, 0.1, 0.9, 0.1]]).log(), [3, 2]),
        lambda: nets.MultiCategorical(torch.tensor([[0.1, 0.1, 0.8, 0.5, 0.5]]).log(), [3, 2]),
        lambda: (
            0.7 * math.log(7)
            + 0.2 * math.log(2)
            + 0.1 * math.log(1 / 8)
            + 0.9 * math.log(1.8)
            + 0.1 * math.log(0.2)
        ),
    ),
    "multi-binary": (
        lambda: Independent(Bernoulli(probs=torch.tensor([[0.9, 0.2]])), 1),
        lambda: Independent(Bernoulli(probs=torch.tensor([[0.5, 0.6]])), 1),
        lambda: (
            0.9 * math.log(0.9 / 0.5)
            + 0.1 * math.log(0.1 / 0.5)
            + 0.2 * math.log(0.2 / 0.6)
            + 0.8 * math.log(0.8 / 0.4)
        ),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_divergence_is_of_the_old_policy_from_the_new_for_every_distribution(case):
    old, new, formula = CASES[case]
    forward = float(nets.mean_kl(old(), new(), None, None))
    backward = float(nets.mean_kl(new(), old(), None, None))
    assert forward == pytest.approx(formula(), rel=1e-5)
    assert abs(forward - backward) > 0.05  # the case can tell the directions apart
    assert float(nets.mean_kl(old(), old(), None, None)) == pytest.approx(0, abs=1e-6)


def test_a_distribution_without_a_closed_form_gets_its_divergence_from_samples():
    class Own:
        def entropy(self):
            return torch.zeros(3)

    old, new = torch.tensor([-1.0, -2.0, -0.5]), torch.tensor([-0.5, -2.5, -0.4])
    got = nets.mean_kl(Own(), Own(), old, new)
    torch.testing.assert_close(got, nets.approx_kl(old, new))


def test_a_column_becomes_a_row():
    assert nets.flat(torch.zeros(4, 1)).shape == nets.flat(torch.zeros(4)).shape == (4,)

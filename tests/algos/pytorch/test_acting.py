"""Acting: the fast way equals the plain one, and samples follow their distribution."""

import functools
import warnings

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from spinup.algos.pytorch.common import acting, nets
from spinup.algos.pytorch.common.acting import NetPolicy, make_get_action, make_policy
from spinup.algos.pytorch.common.user_acting import ActPolicy, StepPolicy, takes_batches
from spinup.algos.pytorch.ddpg import core as ddpg_core
from spinup.algos.pytorch.reinforce.core import MLPPolicy
from spinup.algos.pytorch.sac import core as sac_core
from spinup.algos.pytorch.td3 import core as td3_core
from spinup.envs.make_streams import make_streams
from spinup.utils.errors import SpinupError
from tests.helpers.networks import ACTIONS, KINDS, OBS, actor_critic


class Walk(gym.Env):
    """The state moves with the action, so that one differing action changes all that follows."""

    def __init__(self, action_space):
        self.observation_space, self.action_space = OBS, action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.normal(size=3)
        return self.x.astype(np.float32), {}

    def step(self, action):
        push = float(np.sum(np.asarray(action, dtype=np.float64)))
        self.x = 0.9 * self.x + 0.1 * np.array([push, -push, 1.0])
        return self.x.astype(np.float32), push, False, False, {}


@pytest.fixture
def rollout_of(gather):
    """A function that lets a policy act for an epoch and returns what it gathered."""

    def make(policy, kind, n, steps=60):
        streams = make_streams(lambda: Walk(ACTIONS[kind]), n, np.random.SeedSequence, 25)
        (rollout,) = gather([streams], policy, steps, seed=4).rollouts
        return rollout

    return make


# ---- the fast way ----------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_acting_in_numpy_equals_acting_through_torch_over_a_whole_rollout(rollout_of, kind, n):
    ac = actor_critic(kind)
    fast = rollout_of(NetPolicy(ac.pi, fast=True), kind, n)
    slow = rollout_of(NetPolicy(ac.pi, fast=False), kind, n)
    np.testing.assert_allclose(fast.act, slow.act, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(fast.obs, slow.obs, rtol=1e-4, atol=1e-5)
    assert fast.act.dtype == slow.act.dtype
    assert len(np.unique(fast.act)) > 1


NUMPY_KNOWS = [nets.Tanh, nn.Tanh, nn.ReLU, nn.ELU, nn.Sigmoid, nn.SiLU, nn.Identity]


@pytest.mark.parametrize("activation", NUMPY_KNOWS)
def test_every_activation_gives_in_numpy_what_it_gives_in_torch(activation):
    net = nets.mlp([3, 16, 16, 4], activation)
    obs = np.random.default_rng(0).normal(0, 3, (50, 3)).astype(np.float32)
    fast, slow = acting.numpy_net(nn.Identity(), net), acting.torch_net(nn.Identity(), net)
    assert fast is not None
    np.testing.assert_allclose(fast(obs), slow(obs), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(fast(obs[:1]), slow(obs[:1]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("activation", NUMPY_KNOWS)
def test_extreme_observations_raise_no_numerical_warnings(activation):
    net = nets.mlp([3, 16, 16, 4], activation)
    obs = np.array([[1e4, -1e4, 1e4], [-1e4, 1e4, 0.0]], np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fast = acting.numpy_net(nn.Identity(), net)(obs)
    slow = acting.torch_net(nn.Identity(), net)(obs)
    np.testing.assert_allclose(fast, slow, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "activation", [nn.GELU, functools.partial(nn.ELU, alpha=2.0), nn.Softplus, nn.LeakyReLU]
)
def test_an_activation_that_numpy_does_not_know_acts_through_torch(rollout_of, activation):
    ac = actor_critic("Box", activation=activation)
    assert acting.numpy_net(nn.Identity(), ac.pi.mu_net) is None
    fast = rollout_of(NetPolicy(ac.pi, fast=True), "Box", 2, steps=5)
    slow = rollout_of(NetPolicy(ac.pi, fast=False), "Box", 2, steps=5)
    np.testing.assert_array_equal(fast.act, slow.act)


def test_a_subclass_of_a_known_layer_is_not_taken_for_it():
    class Twice(nn.ReLU):
        def forward(self, x):
            return 2 * super().forward(x)

    assert acting.numpy_net(nn.Identity(), nets.mlp([3, 4, 2], Twice)) is None


@pytest.mark.parametrize("kind", ["Box", "Discrete"])
def test_the_fast_way_normalizes_observations_as_the_network_does(rollout_of, kind):
    ac = actor_critic(kind, normalize_obs=True)
    obs_filter = ac.pi.obs_filter
    obs_filter.update(obs_filter.batch_sums(torch.randn(20, 3) * torch.tensor([1, 50, 0.01]) + 3))
    fast = rollout_of(NetPolicy(ac.pi, fast=True), kind, 3)
    slow = rollout_of(NetPolicy(ac.pi, fast=False), kind, 3)
    np.testing.assert_allclose(fast.act, slow.act, rtol=1e-3, atol=1e-3)


def test_images_act_in_numpy_as_through_torch():
    space = spaces.Box(0, 255, (4, 4, 3), np.uint8)
    ac = nets.MLPActorCritic(space, ACTIONS["Box"], hidden_sizes=(8,))
    obs = np.random.default_rng(0).integers(0, 256, (5, 4, 4, 3), dtype=np.uint8)
    fast, slow = (NetPolicy(ac.pi, fast).net(obs) for fast in (True, False))
    np.testing.assert_allclose(fast, slow, rtol=1e-3, atol=1e-3)


def test_acting_does_not_change_the_observations():
    obs = np.random.default_rng(0).normal(size=(1, 3)).astype(np.float32)
    before = obs.copy()
    for activation in (nn.Tanh, nn.ReLU, nn.Identity):
        acting.numpy_net(nn.Identity(), nets.mlp([3, 3], activation, activation))(obs)
        np.testing.assert_array_equal(obs, before)


def test_the_copy_of_the_weights_is_renewed_when_an_epoch_begins_and_not_before():
    ac = actor_critic("Box")
    policy, obs = NetPolicy(ac.pi), np.ones((1, 3), np.float32)
    before = policy.net(obs).copy()
    with torch.no_grad():
        for p in ac.pi.parameters():
            p += 1.0
    np.testing.assert_array_equal(policy.net(obs), before)
    assert policy(obs, np.random.default_rng(0))[1:] == (None, None)
    policy.begin(np.random.default_rng(0))
    want = ac.pi.mu_net(torch.as_tensor(obs)).detach()
    np.testing.assert_allclose(policy.net(obs), want, rtol=1e-4)
    sample = policy(np.repeat(obs, 5000, 0), np.random.default_rng(0))[0]
    np.testing.assert_allclose(sample.std(0), np.exp(0.5), rtol=0.05)  # log_std was -0.5


# ---- samples ---------------------------------------------------------------------------------

# The 0.001 quantile of the upper tail of chi-square, by degrees of freedom.
CHI2 = {1: 10.83, 2: 13.82, 3: 16.27, 5: 20.52, 7: 24.32, 9: 27.88}


def assert_counts_fit(counts, probs):
    """Pearson's test at 1 in 1000; the seed is fixed, so it holds always or never."""
    counts, probs = np.asarray(counts, float), np.asarray(probs, float)
    want = counts.sum() * probs
    assert want.min() > 5
    assert np.sum((counts - want) ** 2 / want) < CHI2[len(counts) - 1]


def sample(kind, out, n=20_000, **attributes):
    """Actions of the sampler of `kind` at one output of the network."""
    actor = nets.make_actor(OBS, ACTIONS[kind], (4,), nn.Tanh)
    with torch.no_grad():
        for name, value in attributes.items():
            getattr(actor, name).copy_(torch.tensor(value))
    policy = NetPolicy(actor)
    out = np.tile(np.asarray(out, np.float32), (n, 1))
    return policy.sample(out, np.random.default_rng(11)), policy.mode(out[:1])[0]


def test_categorical_samples_follow_the_softmax():
    logits = np.array([0.0, 1.0, -1.0, 0.5])
    act, mode = sample("Discrete", logits)
    probs = np.exp(logits) / np.exp(logits).sum()
    assert_counts_fit(np.bincount(act, minlength=4), probs)
    assert mode == 1 and np.issubdtype(act.dtype, np.integer)


def test_multi_discrete_samples_follow_independent_softmaxes():
    logits = np.array([0.3, -0.4, 0.9, 1.0, 0.0])
    act, mode = sample("MultiDiscrete", logits)
    first = np.exp(logits[:3]) / np.exp(logits[:3]).sum()
    second = np.exp(logits[3:]) / np.exp(logits[3:]).sum()
    joint = np.outer(first, second).ravel()
    assert_counts_fit(np.bincount(act[:, 0] * 2 + act[:, 1], minlength=6), joint)
    assert mode.tolist() == [2, 0]


def test_multi_binary_samples_follow_independent_coins():
    logits = np.array([0.0, 1.5, -0.7])
    act, mode = sample("MultiBinary", logits)
    p = 1 / (1 + np.exp(-logits))
    bits = (np.arange(8)[:, None] >> np.arange(3)) & 1
    joint = np.prod(np.where(bits, p, 1 - p), -1)
    assert_counts_fit(np.bincount(act @ [1, 2, 4], minlength=8), joint)
    assert mode.tolist() == [0, 1, 0] and set(np.unique(act)) == {0, 1}


def test_gaussian_samples_follow_mean_and_deviation_of_each_dimension():
    act, mode = sample("Box", [2.0, -1.0], log_std=[-0.5, 0.3])
    assert mode.tolist() == [2.0, -1.0] and act.dtype == np.float32
    z = (act - [2.0, -1.0]) / np.exp([-0.5, 0.3])
    deciles = [-1.2816, -0.8416, -0.5244, -0.2533, 0, 0.2533, 0.5244, 0.8416, 1.2816]
    for column in z.T:
        counts = np.bincount(np.searchsorted(deciles, column), minlength=10)
        assert_counts_fit(counts, np.full(10, 0.1))
    assert abs(np.corrcoef(z.T)[0, 1]) < 0.03


@pytest.mark.parametrize("kind", KINDS)
def test_samples_are_scored_by_the_distribution_they_come_from(kind):
    # E[-log p(a)] over samples is the entropy of what scores them only if both are one.
    ac = actor_critic(kind)
    with torch.no_grad():
        for p in ac.pi.parameters():
            p.mul_(2.0)
    obs = np.repeat(np.array([[0.5, -1.0, 2.0]], np.float32), 20_000, 0)
    act = NetPolicy(ac.pi)(obs, np.random.default_rng(2))[0]
    pi, logp = ac.pi(torch.as_tensor(obs), torch.as_tensor(act))
    ent = pi.entropy()
    ent = float((ent.sum(-1) if ent.ndim > 1 else ent)[0].detach())
    error = float(logp.std().detach()) / 20_000**0.5
    assert -float(logp.mean().detach()) == pytest.approx(ent, abs=4 * error + 1e-4)


# ---- a user's own step -----------------------------------------------------------------------


class Own(nn.Module):
    """What a user writes: one observation at a time, size-1 arrays for value and log-prob."""

    def __init__(self, observation_space=OBS, action_space=ACTIONS["Box"]):
        super().__init__()
        self.pi = nets.MLPGaussianActor(3, 2, (4,), nn.Tanh)
        self.v = nets.MLPCritic(3, (4,), nn.Tanh)
        self.calls = 0

    def step(self, obs):
        assert obs.ndim == 1
        return self._step(obs)

    def _step(self, obs):
        self.calls += 1
        with torch.no_grad():
            pi = self.pi._distribution(obs)
            a = pi.sample()
            logp = pi.log_prob(a).sum(-1, keepdim=True)
            return a.numpy(), self.v(obs)[..., None].numpy(), logp.numpy()

    def act(self, obs):
        return self.step(obs)[0]


class OwnBatched(Own):
    def step(self, obs):
        return self._step(obs)


class OwnFlattening(Own):
    """Takes a batch without complaint and treats it as one observation: no batches."""

    def step(self, obs):
        obs = obs.reshape(-1)[:3]
        a, v, logp = self._step(obs)
        return a, np.repeat(v, 3), np.repeat(logp, 3)


@pytest.mark.parametrize("cls, batched", [(Own, False), (OwnBatched, True), (OwnFlattening, False)])
def test_batches_go_to_a_users_step_only_where_it_treats_rows_apart(cls, batched):
    assert takes_batches(cls(), torch.randn(3, 3)) is batched


def test_a_value_that_mixes_the_rows_of_a_batch_is_found_out():
    class Mixing(OwnBatched):
        def step(self, obs):
            return super().step(obs - (obs.mean(0) if obs.ndim > 1 else 0.0))

    assert takes_batches(Mixing(), torch.randn(3, 3)) is False


@pytest.mark.parametrize("cls", [Own, OwnBatched])
@pytest.mark.parametrize("n", [1, 3])
def test_a_users_step_gives_values_and_log_probs_of_its_own_actions(rollout_of, cls, n):
    ac = cls()
    rollout = rollout_of(StepPolicy(ac, "cpu"), "Box", n, steps=12)
    obs = torch.as_tensor(rollout.obs.reshape(-1, 3))
    act = torch.as_tensor(rollout.act.reshape(-1, 2))
    np.testing.assert_allclose(rollout.val.ravel(), ac.v(obs).detach(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(rollout.logp.ravel(), ac.pi(obs, act)[1].detach(), rtol=1e-4)
    assert (ac.calls == 12) if n == 1 else (ac.calls <= 12 * n + 2)


def test_a_users_step_draws_from_a_seed_of_the_run(rollout_of):
    def act():
        torch.manual_seed(0)
        ac = OwnBatched()
        torch.manual_seed(int(np.random.default_rng().integers(2**31)))  # someone else drew
        return rollout_of(StepPolicy(ac, "cpu"), "Box", 3, steps=5).act

    np.testing.assert_array_equal(act(), act())


def test_asking_for_batches_leaves_the_random_numbers_as_they_were():
    class Numpy(OwnBatched):
        def _step(self, obs):
            a, v, logp = super()._step(obs)
            return a + np.random.normal(size=a.shape), v, logp

    ac, obs = Numpy(), torch.ones(3, 3)
    torch_state, state = torch.get_rng_state(), np.random.get_state()
    assert takes_batches(ac, obs)
    assert torch.equal(torch.get_rng_state(), torch_state)
    after = np.random.get_state()
    assert after[2] == state[2] and (after[1] == state[1]).all()


def test_only_networks_whose_step_samples_pi_are_acted_for_in_numpy():
    assert isinstance(make_policy(actor_critic("Box")), NetPolicy)
    assert isinstance(make_policy(actor_critic("Discrete", MLPPolicy)), NetPolicy)
    assert isinstance(make_policy(Own()), StepPolicy)

    class OwnStep(nets.MLPActorCritic):
        def step(self, obs):
            return super().step(obs)

    class OwnActor(nets.MLPGaussianActor):
        def _distribution(self, obs):
            return super()._distribution(2 * obs)

    assert isinstance(make_policy(OwnStep(OBS, ACTIONS["Box"])), StepPolicy)
    ac = actor_critic("Box")
    ac.pi = OwnActor(3, 2, (4,), nn.Tanh)
    assert isinstance(make_policy(ac), StepPolicy)


# ---- playing a policy ------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [nets.MLPActorCritic, MLPPolicy])
@pytest.mark.parametrize("kind", KINDS)
def test_deterministic_actions_are_the_mode_and_fit_the_space(kind, cls):
    ac, space = actor_critic(kind, cls), ACTIONS[kind]
    get_action = make_get_action(ac, deterministic=True)
    rng = np.random.default_rng(0)
    for _ in range(5):
        obs = rng.normal(size=3).astype(np.float32) * 5
        a = get_action(obs)
        assert space.contains(np.int64(a) if isinstance(space, spaces.Discrete) else a)
        np.testing.assert_array_equal(a, get_action(obs))
        mode = ac.act(torch.as_tensor(obs), deterministic=True)
        if isinstance(space, spaces.Box):
            mode = np.clip(mode.reshape(space.shape), space.low, space.high)
        elif isinstance(space, spaces.Discrete):
            mode = mode + space.start
        np.testing.assert_allclose(a, mode, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_sampled_actions_fit_the_space_and_repeat_with_their_generator(kind):
    ac, space = actor_critic(kind), ACTIONS[kind]

    def actions(seed):
        get_action = make_get_action(ac, rng=np.random.default_rng(seed))
        return [np.asarray(get_action(np.ones(3, np.float32))) for _ in range(40)]

    for a in actions(0):
        assert space.contains(np.int64(a) if isinstance(space, spaces.Discrete) else a)
    assert np.array_equal(actions(0), actions(0)) and not np.array_equal(actions(0), actions(1))


def test_a_users_policy_plays_through_its_act():
    ac = Own()
    get_action = make_get_action(ac, action_space=ACTIONS["Box"])
    a = get_action(np.full(3, 100.0))
    assert ACTIONS["Box"].contains(a) and ac.calls == 1
    with pytest.raises(SpinupError, match="no argument 'deterministic'"):
        make_get_action(ac, deterministic=True, action_space=ACTIONS["Box"])

    class Knows(Own):
        def act(self, obs, deterministic=False):
            return self.pi.mu_net(obs).detach().numpy() if deterministic else super().act(obs)

    get_action = make_get_action(Knows(), deterministic=True, action_space=ACTIONS["Box"])
    np.testing.assert_array_equal(get_action(np.ones(3)), get_action(np.ones(3)))


# ---- actors of the off-policy algorithms -----------------------------------------------------

CLASSES = {
    "ddpg": ddpg_core.MLPActorCritic,
    "td3": td3_core.MLPActorCritic,
    "sac": sac_core.MLPActorCritic,
}
BOXES = {
    **{kind: ACTIONS[kind] for kind in ("Box", "Box of two dimensions")},
    "float64": spaces.Box(np.array([-0.1, 0.3]), np.array([0.7, 2.1]), dtype=np.float64),
}
OBSERVATIONS = {
    "vector": (OBS, lambda rng, n: rng.normal(0, 3, (n, 3)).astype(np.float32)),
    "image": (
        spaces.Box(0, 255, (4, 2, 3), np.uint8),
        lambda rng, n: rng.integers(0, 256, (n, 4, 2, 3), dtype=np.uint8),
    ),
    "matrix": (
        spaces.Box(-1, 1, (2, 2), np.float64),
        lambda rng, n: rng.normal(size=(n, 2, 2)),
    ),
}


def bounded(algo, obs="vector", act="Box", **kwargs):
    space, draw = OBSERVATIONS[obs]
    ac = CLASSES[algo](space, BOXES[act], **{"hidden_sizes": (16, 16), **kwargs})
    return ac, draw(np.random.default_rng(0), 20)


@pytest.mark.parametrize("act", list(BOXES))
@pytest.mark.parametrize("obs", list(OBSERVATIONS))
@pytest.mark.parametrize("algo", list(CLASSES))
def test_a_bounded_actor_acts_in_numpy_as_its_network_does(algo, obs, act):
    ac, batch = bounded(algo, obs, act)
    policy, space = make_policy(ac, on_policy=False), BOXES[act]
    assert isinstance(policy, NetPolicy)
    modes = {"deterministic": True} if algo == "sac" else {}
    want = ac.act(torch.as_tensor(batch, dtype=torch.float32), **modes)
    got = policy.mode(policy.net(batch))
    assert got.shape == want.shape == (20, int(np.prod(space.shape)))
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=2e-6)
    if algo != "sac":
        np.testing.assert_array_equal(policy(batch, np.random.default_rng(0))[0], got)
    get_action = make_get_action(ac, deterministic=True)
    for i in range(20):
        a = get_action(batch[i])
        assert space.contains(a)
        np.testing.assert_allclose(a.reshape(-1), want[i], rtol=1e-6, atol=2e-6)


def test_the_samples_of_a_state_have_the_moments_of_the_network():
    # the mean and the variance in u = atanh((a - c) / s), where they are those of a Gaussian
    ac, batch = bounded("sac")
    n = 20000
    for i in range(3):
        samples = make_policy(ac)(np.repeat(batch[i : i + 1], n, 0), np.random.default_rng(i))[0]
        h = ac.pi.net(torch.as_tensor(batch[i]))
        mu = ac.pi.mu_layer(h).detach().numpy()
        std = ac.pi.log_std_layer(h).exp().detach().numpy()
        y = (samples.astype(np.float64) - [1.0, 0.25]) / [2.0, 0.25]
        u = np.arctanh(np.clip(y, -1 + 1e-7, 1 - 1e-7))
        np.testing.assert_allclose(u.mean(0), mu, atol=4 * std.max() / np.sqrt(n))
        np.testing.assert_allclose(u.std(0), std, rtol=0.03)


def test_making_a_policy_draws_from_no_global_generator():
    ac, batch = bounded("sac")
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    policy = make_policy(ac)
    policy.begin(np.random.default_rng(0))
    policy(batch, np.random.default_rng(0))
    make_get_action(ac)(batch[0])
    assert torch.equal(before[0], torch.get_rng_state())
    np.testing.assert_array_equal(before[1], np.random.get_state()[1])


@pytest.mark.parametrize("algo", list(CLASSES))
def test_a_subclass_that_acts_in_its_own_way_is_asked(algo):
    class Own(CLASSES[algo]):
        def act(self, obs, deterministic=False):
            assert obs.ndim == 1  # the contract: one observation
            return np.array([2.0, 0.1]) + float(deterministic)

    ac = Own(OBS, BOXES["Box"], hidden_sizes=(4,))
    policy = make_policy(ac, on_policy=False)
    assert isinstance(policy, ActPolicy)
    act, _, _ = policy(np.zeros((3, 3), np.float32), np.random.default_rng(0))
    assert act.tolist() == [[2.0, 0.1]] * 3
    np.testing.assert_allclose(make_get_action(ac)(np.zeros(3)), [2.0, 0.1])
    # clipped to the bounds, 3 and 0.5
    np.testing.assert_allclose(make_get_action(ac, deterministic=True)(np.zeros(3)), [3.0, 0.5])


def test_off_policy_algorithms_act_through_act_even_where_there_is_a_step():
    class Both(ddpg_core.MLPActorCritic):
        def step(self, obs):
            raise AssertionError("what it does is not known")

        def act(self, obs):
            return np.array([1.0, 0.2])

    ac = Both(OBS, BOXES["Box"], hidden_sizes=(4,))
    assert isinstance(make_policy(ac, on_policy=False), ActPolicy)
    assert isinstance(make_policy(ac), StepPolicy)

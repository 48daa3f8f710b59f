"""Acting in NumPy equals acting through the session: the most likely actions and the samples."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from spinup.algos.common.numpy_actor import ACTIVATIONS as NUMPY
from spinup.algos.tf1.common import layers, nets
from spinup.algos.tf1.common.acting import GreedyAction, NetPolicy, SessionPolicy, make_policy
from spinup.algos.tf1.common.graph import Function, use_seeds
from spinup.algos.tf1.common.networks import ActorCritic, Networks
from spinup.algos.tf1.ddpg import core as ddpg_core
from spinup.algos.tf1.sac import core as sac_core
from spinup.policies.activations import ACTIVATIONS, activation
from spinup.utils.tf import tf

OBS = spaces.Box(-1, 1, (2, 2), np.float32)
UNEVEN = spaces.Box(np.float32([-1, 0, -2]), np.float32([3, 0.5, 2]))
AXES = spaces.Box(-1, np.float32([[1, 2], [3, 4]]), (2, 2))
OFF_POLICY = {
    ddpg_core.mlp_actor_critic: ("pi", "q", "q_pi"),
    sac_core.mlp_actor_critic: ("mu", "pi", "logp_pi", "q1", "q2"),
}
NORMALIZED = {"normalize_obs": True}
KINDS = {
    "categorical": (nets.mlp_actor_critic, spaces.Discrete(4), {}),
    "categorical normalized": (nets.mlp_actor_critic, spaces.Discrete(4), NORMALIZED),
    "multicategorical": (nets.mlp_actor_critic, spaces.MultiDiscrete([2, 5]), {}),
    "bernoulli": (nets.mlp_actor_critic, spaces.MultiBinary(3), {}),
    "gaussian": (nets.mlp_actor_critic, UNEVEN, {}),
    "gaussian axes normalized": (nets.mlp_actor_critic, AXES, NORMALIZED),
    "deterministic": (ddpg_core.mlp_actor_critic, UNEVEN, {}),
    "deterministic axes": (ddpg_core.mlp_actor_critic, AXES, {"activation": tf.nn.elu}),
    "squashed_gaussian": (sac_core.mlp_actor_critic, UNEVEN, {"activation": tf.nn.swish}),
    "squashed_gaussian axes": (sac_core.mlp_actor_critic, AXES, {}),
    "categorical sac": (sac_core.mlp_actor_critic, spaces.Discrete(4), {}),
}


def build(function, action_space, **kwargs):
    """Build networks in the default graph as a run does, with weights far from zero."""
    obs, act = layers.placeholder_from_space(OBS), layers.placeholder_from_space(action_space)
    kwargs = {"hidden_sizes": (16, 16), **kwargs, "action_space": action_space}
    if function in OFF_POLICY:
        return Networks(function, kwargs, "main", obs, act, OFF_POLICY[function])
    pi, logp, logp_pi, v = function(obs, act, **kwargs)
    return ActorCritic(obs, act, pi, logp, logp_pi, {}, {}, None, v)


def start(session):
    """Random weights, large enough that observations matter, and statistics of observations."""
    rng = np.random.default_rng(0)
    for v in tf.global_variables():
        value = rng.normal(size=v.shape) * (0.2 if "log_std" in v.name else 0.35)
        if v.name.endswith("/std:0"):
            value = 0.5 + rng.random(v.shape.as_list())
        if v.name.endswith("sums:0"):
            value = np.full(v.shape.as_list(), 7.0)
        dtype = v.dtype.base_dtype.as_numpy_dtype
        session.run(v.initializer, {v.initializer.inputs[1]: np.asarray(value, dtype)})


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_is_one_function_in_torch_tensorflow_and_numpy(session, name):
    x = np.linspace(-8, 8, 401, dtype=np.float32).reshape(1, -1)
    found = activation(name, "tf1")
    word = layers._name(found)  # not None: it acts without a session, and can be exported
    expected = activation(name, "pytorch")()(torch.as_tensor(x)).numpy()
    np.testing.assert_allclose(session.run(found(tf.constant(x))), expected, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(NUMPY[word](x.copy()), expected, rtol=2e-5, atol=2e-6)


def test_tensorflows_own_leaky_relu_acts_through_the_session(session):
    ac = build(nets.mlp_actor_critic, UNEVEN, activation=tf.nn.leaky_relu)
    assert isinstance(make_policy(ac), SessionPolicy)


@pytest.mark.parametrize("kind", list(KINDS))
def test_numpy_acts_like_the_session(session, kind):
    function, space, kwargs = KINDS[kind]
    ac = build(function, space, **kwargs)
    pi = ac.pi if isinstance(ac, tuple) else ac.built["pi"]
    policy = make_policy(ac)
    assert isinstance(policy, NetPolicy) and policy.description["kind"] == kind.split()[0]
    greedy = GreedyAction(ac, space)
    mode, sample = Function({"x": ac.obs}, layers.known(pi).mode), Function({"x": ac.obs}, pi)
    use_seeds(session.graph)
    start(session)
    policy.begin(None)
    rng = np.random.default_rng(1)
    obs = rng.normal(size=(40, *OBS.shape)).astype(np.float32)
    # the most likely actions
    want = mode({"x": obs}).reshape(40, *space.shape)
    assert len(np.unique(want.reshape(40, -1), axis=0)) > 2  # observations matter
    if isinstance(space, spaces.Box):
        want = want.clip(space.low, space.high)  # as the environment gets it
    got = np.stack([np.asarray(greedy.renewed()(o)) for o in obs])
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    # samples at three observations
    n = 3000
    for o in obs[:3]:
        rows = np.broadcast_to(o, (n, *OBS.shape))
        ours = np.asarray(policy(rows, rng)[0]).reshape(n, -1)
        theirs = sample({"x": rows}, rng).reshape(n, -1)
        if isinstance(space, spaces.Box):
            five_errors = 5 * theirs.std(0).max() * (2 / n) ** 0.5 + 1e-5
            np.testing.assert_allclose(ours.mean(0), theirs.mean(0), atol=five_errors)
            np.testing.assert_allclose(ours.std(0), theirs.std(0), atol=five_errors)
            if "gaussian" in kind:
                assert ours.std(0).max() > 0.1
        else:
            for a, b in zip(ours.T, theirs.T, strict=True):
                shares = [np.bincount(x.astype(int), minlength=5) / n for x in (a, b)]
                np.testing.assert_allclose(*shares, atol=0.05)


def test_a_policy_acts_with_the_parameters_of_its_last_renewal(session):
    ac = build(ddpg_core.mlp_actor_critic, UNEVEN)
    policy, obs = make_policy(ac), np.ones((1, 2, 2), np.float32)
    start(session)
    policy.begin(None)
    before = policy(obs, None)[0].copy()
    for v in ac.vars("pi"):
        session.run(v.initializer, {v.initializer.inputs[1]: np.zeros(v.shape, np.float32)})
    np.testing.assert_array_equal(policy(obs, None)[0], before)
    policy.renew()
    np.testing.assert_allclose(policy(obs, None)[0], [[1, 0.25, 0]], rtol=1e-6)  # the center


@pytest.mark.parametrize("function", list(OFF_POLICY), ids=["ddpg", "sac"])
def test_what_numpy_cannot_compute_acts_through_the_session(session, function):
    ac = build(function, UNEVEN, activation=lambda x: tf.minimum(x, 1.0))
    policy, greedy = make_policy(ac), GreedyAction(ac, UNEVEN)
    assert isinstance(policy, SessionPolicy) and not greedy.fast
    use_seeds(session.graph)
    start(session)
    rng, obs = np.random.default_rng(0), np.ones((2, 2, 2), np.float64)
    one, other = policy(obs, rng)[0], policy(obs, rng)[0]
    assert np.array_equal(one, other) == (function is ddpg_core.mlp_actor_critic)
    tests = [greedy.renewed()(obs[0]) for _ in range(2)]
    np.testing.assert_array_equal(*tests)
    mode = ac.built.get("mu", ac.built["pi"])
    np.testing.assert_allclose(tests[0], session.run(mode, {ac.obs: obs})[0], rtol=1e-6)

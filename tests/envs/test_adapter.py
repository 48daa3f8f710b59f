"""Environments of every age and shape come out of `adapt_env` with one interface."""

import copy
import pickle
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import OrderEnforcing, TimeLimit

from spinup.envs import adapt_env, make_env
from spinup.envs.layers import layers
from spinup.envs.old_interface import InterfaceAdapter
from spinup.envs.space_adapter import SpaceAdapter
from spinup.utils.errors import SpinupError

BOX = spaces.Box(-10.0, 10.0, (2,), np.float32)


def old_env_class(base=object, **attributes):
    """A fresh class with the old interface: warnings are given once for a class."""

    class OldEnv(base):
        observation_space = BOX
        action_space = spaces.Discrete(2)

        def __init__(self, length=3, info=None):
            self.length, self.info, self.t = length, info or {}, 0
            self.rng = np.random.default_rng()
            self.seeds, self.closed = [], False

        def seed(self, seed=None):
            self.seeds.append(seed)
            self.rng = np.random.default_rng(seed)
            return [seed]

        def reset(self):
            self.t = 0
            return self.rng.normal(size=2)

        def step(self, action):
            self.t += 1
            done = self.t >= self.length
            return self.rng.normal(size=2), 1, done, dict(self.info) if done else {}

        def render(self, mode="human"):
            return f"rendered {mode}"

        def close(self):
            self.closed = True

    for name, value in attributes.items():
        setattr(OldEnv, name, value)
    return OldEnv


@pytest.fixture
def record():
    """Every warning of the test, none folded by the default filter."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def rollout(env, seed, steps=8):
    o, _ = env.reset(seed=seed)
    out = [np.array(o)]
    for _ in range(steps):
        o, r, terminated, truncated, _ = env.step(1)
        out += [np.array(o), r, terminated, truncated]
        if terminated or truncated:
            o, _ = env.reset()
            out.append(np.array(o))
    return out


def same(a, b):
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


# -- what needs nothing gets nothing ------------------------------------------------------------


class NewEnv(gymnasium.Env):
    """A user's class that keeps to the interface, as its source shows."""

    observation_space = BOX
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.normal(size=2).astype(np.float32), {}

    def step(self, action):
        def helper():
            return 1.0

        if action == 7:
            return np.zeros(2, np.float32), 0.0, True, False, {}
        return np.zeros(2, np.float32), helper(), False, False, {}


class NewWrapper(gymnasium.Wrapper):
    def step(self, action):
        o, r, terminated, truncated, info = self.env.step(action)
        return o, 2 * r, terminated, truncated, info


@pytest.mark.parametrize(
    "make",
    [
        lambda: gymnasium.make("CartPole-v1"),
        lambda: gymnasium.make("Pendulum-v1"),
        lambda: make_env("HalfCheetah-v5"),
        NewEnv,
        lambda: TimeLimit(NewEnv(), 5),
        lambda: NewWrapper(TimeLimit(NewEnv(), 5)),
        lambda: NewWrapper(gymnasium.make("CartPole-v1")),
    ],
)
def test_a_well_behaved_environment_comes_back_as_the_same_object(make, record):
    env = make()
    inner = list(layers(env))
    assert adapt_env(env) is env
    assert list(layers(env)) == inner
    assert [w for w in record if "old environment interface" in str(w.message)] == []


def test_box_observations_keep_their_shape_and_dtype():
    class Pixels(NewEnv):
        observation_space = spaces.Box(0, 255, (4, 4, 3), np.uint8)

    env = Pixels()
    assert adapt_env(env) is env


def test_vector_environments_pass_untouched():
    venv = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
    assert adapt_env(venv) is venv


def test_new_interface_with_unreadable_source_still_works(record):
    """Where the source proves nothing an adapter is put on, and changes nothing."""

    class Indirect(NewEnv):
        def step(self, action):
            result = (np.ones(2, np.float32), 0.5, False, True, {"k": 1})
            return result

    env = adapt_env(Indirect())
    assert isinstance(env, InterfaceAdapter)
    o, info = env.reset(seed=3)
    np.testing.assert_array_equal(o, NewEnv().reset(seed=3)[0])
    assert info == {}
    assert env.step(0)[1:] == (0.5, False, True, {"k": 1})
    assert not record


def test_adapting_twice_adds_nothing():
    env = adapt_env(old_env_class()())
    assert adapt_env(env) is env
    frozen = adapt_env(make_env("FrozenLake-v1"))
    assert adapt_env(frozen) is frozen


# -- the old interface --------------------------------------------------------------------------


@pytest.mark.parametrize("base", [object, gymnasium.Env])
def test_old_interface_becomes_the_new_one(base):
    env = adapt_env(old_env_class(base)())
    assert isinstance(env, gymnasium.Env)
    o, info = env.reset(seed=1)
    assert o.shape == (2,) and info == {}
    ends = []
    for _ in range(3):
        o, r, terminated, truncated, info = env.step(0)
        assert type(r) is float and type(terminated) is bool and type(truncated) is bool
        ends.append((terminated, truncated))
    assert ends == [(False, False), (False, False), (True, False)]


def test_time_limit_truncated_decides_what_the_old_done_means():
    for info, expected in (
        ({}, (True, False)),
        ({"TimeLimit.truncated": True}, (False, True)),
        # gym's TimeLimit on a state that was terminal anyway
        ({"TimeLimit.truncated": False}, (True, False)),
        ({"TimeLimit.truncated": np.bool_(True)}, (False, True)),
    ):
        env = adapt_env(old_env_class()(length=1, info=info))
        env.reset()
        assert env.step(0)[2:4] == expected


def test_a_flag_without_done_does_not_end_the_episode():
    def step(self, action):
        return np.zeros(2), 0.0, False, {"TimeLimit.truncated": True}

    env = adapt_env(old_env_class(step=step)())
    env.reset()
    assert env.step(0)[2:4] == (False, False)


def test_gymnasiums_time_limit_around_an_old_environment_truncates():
    env = adapt_env(TimeLimit(old_env_class(gymnasium.Env)(length=9), 2))
    env.reset(seed=0)
    assert env.step(0)[2:4] == (False, False)
    assert env.step(0)[2:4] == (False, True)


def test_old_environments_registered_with_gymnasium_work():
    cls = old_env_class(gymnasium.Env)
    gymnasium.register("TestAdapterOld-v0", entry_point=cls, max_episode_steps=2)
    try:
        env = adapt_env(make_env("TestAdapterOld-v0"))
        assert same(rollout(env, 5), rollout(adapt_env(make_env("TestAdapterOld-v0")), 5))
        env.reset(seed=0)
        env.step(0)
        assert env.step(0)[2:4] == (False, True)
    finally:
        del gymnasium.registry["TestAdapterOld-v0"]


def test_old_wrappers_around_old_environments_work():
    class OldWrapper(gymnasium.Wrapper):  # inherits Gymnasium's reset(seed=, options=)
        def step(self, action):
            o, r, done, info = self.env.step(action)
            return o, 10 * r, done, info

    def make():
        return adapt_env(OldWrapper(old_env_class(gymnasium.Env)()))

    env = make()
    env.reset(seed=0)
    assert env.step(0)[1] == 10.0
    assert same(rollout(make(), 4), rollout(make(), 4))
    # ... and with a new-style wrapper around them
    env = adapt_env(TimeLimit(OldWrapper(old_env_class(gymnasium.Env)()), 2))
    env.reset(seed=0)
    env.step(0)
    assert env.step(0)[1:4] == (10.0, False, True)


def test_old_wrappers_around_new_environments_work():
    class OldWrapper(gymnasium.Wrapper):
        def reset(self):
            return self.env.reset(seed=0)[0]

        def step(self, action):
            o, r, terminated, truncated, info = self.env.step(action)
            info["TimeLimit.truncated"] = truncated
            return o, r, terminated or truncated, info

    env = adapt_env(OldWrapper(TimeLimit(NewEnv(), 1)))
    assert env.reset()[0].shape == (2,)
    assert env.step(0)[2:4] == (False, True)


def test_half_old_environments_work():
    """Each answer is judged by itself: a new reset beside an old step, and the reverse."""

    def reset(self, seed=None, options=None):
        return np.zeros(2), {"new": True}

    env = adapt_env(old_env_class(reset=reset)())
    assert env.reset(seed=0)[1] == {"new": True}
    assert env.step(0)[2:4] == (False, False)

    def step(self, action):
        return np.zeros(2), 0.0, False, True, {}

    env = adapt_env(old_env_class(step=step)())
    assert env.reset()[1] == {}
    assert env.step(0)[2:4] == (False, True)


def test_odd_values_of_old_environments_are_put_right():
    def step(self, action):
        return [1, 2], np.array([3.0]), np.bool_(True), None

    env = adapt_env(old_env_class(step=step, reset=lambda self: [0, 0])())
    o, _ = env.reset()
    assert o.dtype == np.float32 and o.shape == (2,)
    o, r, terminated, truncated, info = env.step(0)
    assert o.dtype == np.float32 and type(r) is float and r == 3.0
    assert terminated is True and truncated is False and info == {}


def test_a_step_of_another_length_is_an_error():
    env = adapt_env(old_env_class(step=lambda self, a: (0, 0, False))())
    env.reset()
    with pytest.raises(SpinupError, match="returned 3 values"):
        env.step(0)


def test_pair_observations_of_an_old_tuple_space_are_not_taken_for_observation_and_info():
    space = spaces.Tuple([spaces.Discrete(2), spaces.Dict({"x": spaces.Discrete(3)})])
    cls = old_env_class(observation_space=space, reset=lambda self: (1, {"x": 2}))
    o, info = adapt_env(cls()).reset()
    np.testing.assert_array_equal(o, [0, 1, 0, 0, 1])
    assert info == {}


def test_one_warning_for_a_class_not_one_for_a_step(record):
    cls = old_env_class()
    for _ in range(2):
        rollout(adapt_env(cls()), 0)
    assert len([w for w in record if "old environment interface" in str(w.message)]) == 1
    assert "OldEnv" in str(record[0].message)
    assert len(record) == 1


def test_rendering_closing_and_attributes_reach_the_environment():
    inner = old_env_class()(length=4)
    env = adapt_env(inner)
    assert env.render() == "rendered human" and env.render(mode="ansi") == "rendered ansi"
    assert env.unwrapped is inner and env.spec is None and env.length == 4
    with pytest.raises(AttributeError):
        _ = env.no_such_thing
    env.close()
    assert inner.closed


def test_environments_without_render_and_close_work():
    class Bare:
        observation_space, action_space = BOX, spaces.Discrete(2)

        def reset(self):
            return np.zeros(2)

        def step(self, action):
            return np.zeros(2), 0.0, True, {}

    env = adapt_env(Bare())
    assert env.render() is None
    env.close()


class PicklableOld:
    observation_space, action_space = BOX, spaces.Discrete(2)

    def reset(self):
        return np.zeros(2)

    def step(self, action):
        return np.zeros(2), 0.0, True, {}


def test_adapted_environments_can_be_copied_and_pickled():
    env = adapt_env(PicklableOld())
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert twin.reset()[1] == {} and twin.step(0)[2] is True


# -- seeds --------------------------------------------------------------------------------------


def test_old_environments_are_seeded_through_their_seed_method():
    cls = old_env_class()
    a, b, c = (rollout(adapt_env(cls()), seed) for seed in (0, 0, 1))
    assert same(a, b) and not same(a, c)
    inner = cls()
    adapt_env(inner).reset(seed=0)  # seed 0 is a seed
    assert inner.seeds == [0]


def test_the_seed_method_is_found_below_wrappers():
    cls = old_env_class(gymnasium.Env)
    a, b = (rollout(adapt_env(TimeLimit(OrderEnforcing(cls()), 50)), 7) for _ in range(2))
    assert same(a, b)


def test_a_large_seed_fits_old_generators():
    def seed(self, seed=None):
        self.rng = np.random.RandomState(seed)  # takes 32 bits and no more

    env = adapt_env(old_env_class(seed=seed)())
    env.reset(seed=2**40 + 3)


def test_reset_seed_is_used_where_there_is_no_seed_method():
    def reset(self, seed=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        return self.rng.normal(size=2)

    cls = old_env_class(reset=reset, seed=None)
    a, b, c = (rollout(adapt_env(cls()), seed) for seed in (0, 0, 1))
    assert same(a, b) and not same(a, c)


def test_an_environment_that_cannot_be_seeded_says_so_once(record):
    cls = old_env_class(seed=None)
    for _ in range(3):
        adapt_env(cls()).reset(seed=0)
    assert len([w for w in record if "cannot be seeded" in str(w.message)]) == 1


def test_a_wrapper_that_promises_a_seed_and_cannot_keep_it(record):
    class Promises:
        """`reset(**kwargs)` hands everything on to an environment that takes nothing."""

        def __init__(self, env):
            self.env = env
            self.observation_space, self.action_space = env.observation_space, env.action_space

        def reset(self, **kwargs):
            return self.env.reset(**kwargs)

        def step(self, action):
            return self.env.step(action)

    a, b = (rollout(adapt_env(Promises(old_env_class()())), 3) for _ in range(2))
    assert same(a, b)  # through the seed method of the wrapped environment
    env = adapt_env(Promises(old_env_class(seed=None)()))
    env.reset(seed=3, options={"x": 1})
    text = " ".join(str(w.message) for w in record)
    assert "cannot be seeded" in text and "takes no options" in text


def test_a_type_error_inside_reset_is_not_swallowed():
    def reset(self, seed=None, options=None):
        return None + 1

    with pytest.raises(TypeError, match="unsupported operand"):
        adapt_env(old_env_class(reset=reset)()).reset(seed=0)


def test_a_refused_argument_that_was_not_ours_is_not_swallowed():
    calls = []

    def reset(self, seed=None, options=None):
        calls.append(seed)
        if len(calls) > 1:
            raise AssertionError("reset was tried again")
        return (lambda: None)(no_such_argument=1)

    with pytest.raises(TypeError, match="no_such_argument"):
        adapt_env(old_env_class(reset=reset)()).reset(seed=0)


def test_a_shared_environment_object_can_be_adapted_for_training_and_for_testing():
    shared = old_env_class()()
    env, test_env = adapt_env(shared), adapt_env(shared)
    assert env.unwrapped is test_env.unwrapped is shared
    first = rollout(env, 0)
    rollout(test_env, 1)
    assert same(first, rollout(env, 0))

    lake = make_env("FrozenLake-v1")
    env, test_env = adapt_env(lake), adapt_env(lake)
    assert env.reset(seed=0)[0].shape == test_env.reset(seed=0)[0].shape == (16,)

    limited = TimeLimit(old_env_class(gymnasium.Env)(), 2)
    env, test_env = adapt_env(limited), adapt_env(limited)
    assert [type(e).__name__ for e in layers(env)] == ["TimeLimit", "InterfaceAdapter", "OldEnv"]
    assert same(rollout(env, 0), rollout(test_env, 0))


# -- spaces -------------------------------------------------------------------------------------


class Observes(NewEnv):
    """A new-style environment that returns a given observation."""

    def __init__(self, space, o, action_space=None):
        self.observation_space, self.o = space, o
        self.action_space = action_space or spaces.Discrete(2)
        self.actions = []

    def reset(self, *, seed=None, options=None):
        return self.o, {}

    def step(self, action):
        self.actions.append(action)
        return self.o, 0.0, False, False, {}


@pytest.mark.parametrize(
    "space, o, flat",
    [
        (spaces.Discrete(4), np.int64(2), [0, 0, 1, 0]),
        (spaces.Discrete(3, start=-1), -1, [1, 0, 0]),
        (spaces.Discrete(3, start=5), 7, [0, 0, 1]),
        (spaces.MultiDiscrete([2, 3]), np.array([1, 0]), [0, 1, 1, 0, 0]),
        (spaces.MultiBinary(3), np.array([1, 0, 1], np.int8), [1, 0, 1]),
        (
            spaces.Tuple([spaces.Discrete(2), spaces.Box(-1, 1, (2,))]),
            (1, np.array([0.5, -0.5], "f")),
            [0, 1, 0.5, -0.5],
        ),
        (
            spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Box(0, 9, (1,))}),
            {"b": 0, "a": np.array([7], "f")},
            [7, 1, 0],
        ),
        (spaces.Box(-1, 1, ()), np.float32(0.5), [0.5]),
    ],
    ids=lambda v: repr(v) if isinstance(v, spaces.Space) else "",
)
def test_observations_become_one_float_array(space, o, flat):
    env = adapt_env(Observes(space, o))
    for got in (env.reset()[0], env.step(0)[0]):
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, np.array(flat, np.float32))
    assert isinstance(env.observation_space, spaces.Box)
    assert env.observation_space.dtype == np.float32
    assert env.observation_space.shape == (len(flat),)
    assert env.observation_space.contains(got)


def test_a_discrete_observation_outside_its_space_is_an_error_not_another_state():
    with pytest.raises(SpinupError, match=r"observation -1.*Discrete\(4\)"):
        adapt_env(Observes(spaces.Discrete(4), -1)).reset()


def test_bounds_beyond_float32_become_infinite():
    space = spaces.Dict({"a": spaces.Box(-1e300, 1.0, (1,), np.float64)})
    env = adapt_env(Observes(space, {"a": np.zeros(1)}))
    assert env.observation_space.low[0] == -np.inf and env.observation_space.high[0] == 1.0


def test_what_cannot_be_flattened_is_left_for_check_spaces():
    env = Observes(spaces.Text(3), "ab")
    assert adapt_env(env) is env


@pytest.mark.parametrize(
    "space, a, sent",
    [
        (spaces.Discrete(3, start=5), 0, 5),
        (spaces.Discrete(3, start=-1), np.int64(2), 1),
        (spaces.MultiDiscrete([2, 3], start=[1, 4]), np.array([1, 2]), [2, 6]),
        (spaces.MultiDiscrete([2, 3], start=[0, 4]), np.array([0, 0]), [0, 4]),
    ],
)
def test_discrete_actions_count_from_zero(space, a, sent):
    inner = Observes(BOX, np.zeros(2, np.float32), space)
    env = adapt_env(inner)
    assert isinstance(env, SpaceAdapter)
    assert not np.any(env.action_space.start) and env.action_space.contains(a)
    assert env.observation_space is BOX
    before = copy.deepcopy(a)
    env.reset()
    env.step(a)
    np.testing.assert_array_equal(inner.actions, [sent])
    assert inner.action_space.contains(inner.actions[0])
    np.testing.assert_array_equal(a, before)  # the caller's array is not shifted


def test_the_probe_with_offset_actions_pays_for_the_shifted_action():
    env = adapt_env(make_env("spinup/ProbeActionDiscreteFrom5-v0"))
    rewards = []
    for a in (0, 1):
        env.reset(seed=0)
        rewards.append(env.step(a)[1])
    assert rewards == [-1.0, 1.0]


def test_bounds_of_a_box_action_stay_per_dimension():
    env = adapt_env(make_env("spinup/ProbeActionAsymmetric-v0"))
    np.testing.assert_array_equal(env.action_space.low, np.array([-1, 0], np.float32))
    np.testing.assert_array_equal(env.action_space.high, np.array([3, 0.5], np.float32))


class Duck:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


def test_spaces_of_old_gym_are_converted():
    cls = old_env_class(
        observation_space=Duck(n=4, shape=()),
        action_space=Duck(low=np.array([-1.0]), high=np.array([2.0]), shape=(1,), dtype="float32"),
        reset=lambda self: 3,
    )
    env = adapt_env(cls())
    assert env.action_space == spaces.Box(-1, np.array([2], np.float32), (1,))
    assert env.observation_space == spaces.Box(0, 1, (4,))
    np.testing.assert_array_equal(env.reset()[0], [0, 0, 0, 1])


# -- what is no environment ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "thing, message",
    [
        (None, "returned None.*observation_space"),
        (3, "returned a int"),
        (NewEnv, r"returned the class NewEnv: return an environment"),
        (Duck(observation_space=BOX, reset=1), "no action_space and no step"),
    ],
)
def test_what_is_no_environment_is_one_sentence(thing, message):
    with pytest.raises(SpinupError, match=message):
        adapt_env(thing)


# Old environments are what most of these tests are about; the warning has its own test.
pytestmark = pytest.mark.filterwarnings("ignore:.*has the old environment interface:UserWarning")

"""Ids of today, of yesterday and of nowhere."""

import importlib.util
import json
import re
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium import error
from gymnasium.wrappers import RescaleAction, TimeLimit

from spinup.envs import adapt_env, env_record, make_env, resolve_env_id
from spinup.envs import make as make_module
from spinup.utils.errors import SpinupError


@pytest.fixture
def record():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def own(record):
    """The warnings that speak of a replaced version."""
    return [str(w.message) for w in record if "running" in str(w.message)]


@pytest.fixture
def registered():
    """Register ids for one test."""
    ids = []

    def register(env_id, entry_point="gymnasium.envs.classic_control:CartPoleEnv", **kwargs):
        gymnasium.register(env_id, entry_point=entry_point, **kwargs)
        ids.append(env_id)

    yield register
    for env_id in ids:
        del gymnasium.registry[env_id]


def needs(name):
    def creator(**kwargs):
        raise error.DependencyNotInstalled(f"{name} is not installed")

    return creator


# -- versions -----------------------------------------------------------------------------------


def test_a_current_id_is_made_as_it_is(record):
    env = make_env("CartPole-v1")
    assert env.spec.id == "CartPole-v1" and not record
    assert "PassiveEnvChecker" not in str(env)


@pytest.mark.parametrize(
    "old, new",
    [
        ("Pendulum-v0", "Pendulum-v1"),
        ("HalfCheetah-v2", "HalfCheetah-v5"),
        ("HalfCheetah-v3", "HalfCheetah-v5"),
        ("Hopper-v2", "Hopper-v5"),
        ("Walker2d-v1", "Walker2d-v5"),
    ],
)
def test_a_version_that_is_gone_runs_the_newest_with_one_warning(old, new, record):
    env = make_env(old)
    assert env.spec.id == new == resolve_env_id(old)
    assert len(record) == 1 and old in str(record[0].message) and new in str(record[0].message)
    assert record[0].filename == __file__  # it points at the caller
    got = env_record(env)
    assert (got["id"], got["requested_id"]) == (new, old)
    o, _ = env.reset(seed=0)
    assert env.observation_space.contains(o)


def test_lunar_lander_v2_resolves_to_a_registered_version():
    """The environment of the most copied command."""
    new = resolve_env_id("LunarLander-v2")
    assert new != "LunarLander-v2" and new in gymnasium.registry
    with pytest.warns(UserWarning, match=f"LunarLander-v2.*{new}"):
        env = make_env("LunarLander-v2")
    assert env.spec.id == new
    assert env.observation_space.contains(env.reset(seed=0)[0])


def test_an_old_version_that_works_is_not_replaced(record):
    assert make_env("HalfCheetah-v4").spec.id == "HalfCheetah-v4"
    assert make_env("CartPole-v0").spec.max_episode_steps == 200
    assert own(record) == []


def test_an_id_without_version_runs_the_newest(record):
    assert make_env("CartPole").spec.id == "CartPole-v1"
    assert len(record) == 1 and "CartPole names no version: running CartPole-v1" in own(record)[0]


def test_a_version_registered_but_failing_gives_way_to_the_newest_that_works(registered, record):
    registered("TestMakeFails-v1", needs("mujoco_py"))
    registered("TestMakeFails-v2")
    registered("TestMakeFails-v3")
    registered("TestMakeFails-v4", needs("something_new"))
    env = make_env("TestMakeFails-v1")
    assert env.spec.id == "TestMakeFails-v3"
    assert len(record) == 1 and "TestMakeFails-v3" in own(record)[0]
    # and one that works is left alone, whatever is newer
    assert make_env("TestMakeFails-v2").spec.id == "TestMakeFails-v2"


def test_where_no_version_works_the_error_is_that_of_the_newest(registered):
    registered("TestMakeNone-v1", needs("mujoco_py"))
    registered("TestMakeNone-v2", needs("pygame"))
    registered("TestMakeNone-v3", needs("Box2D"))
    with pytest.raises(SpinupError, match=r"TestMakeNone-v1 \(now TestMakeNone-v3\) needs box2d"):
        make_env("TestMakeNone-v1")


def test_a_version_from_the_future_is_a_mistake(record):
    with pytest.raises(
        SpinupError, match=r"no environment 'CartPole-v9'.*did you mean CartPole-v1"
    ):
        make_env("CartPole-v9")


# -- unknown ids --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "env_id, message",
    [
        ("cartpole-v1", "did you mean CartPole-v1"),
        ("CartPoel-v1", "did you mean CartPole-v1"),
        ("Zqxjk-v0", "no environment 'Zqxjk-v0'"),
        ("nowhere/Zqxjk-v0", "no environment"),
        ("", "is not an environment id"),
        ("Car Pole", "is not an environment id"),
        ("no_such_module_at_all:Foo-v0", "there is no module 'no_such_module_at_all'"),
        ("no_such_module_at_all.sub:Foo-v0", "there is no module"),
        ("math:Zqxjk-v0", "no environment 'math:Zqxjk-v0'"),
        (":Zqxjk-v0", "no environment"),
        ("..a:Zqxjk-v0", "importable module"),
        (3, "not 3"),
        (None, "not None"),
    ],
)
def test_unknown_ids_are_one_sentence(env_id, message):
    with pytest.raises(SpinupError, match=message) as caught:
        make_env(env_id)
    assert "\n" not in str(caught.value)
    with pytest.raises(SpinupError, match=message):
        resolve_env_id(env_id)


@pytest.mark.parametrize(
    "env_id, module, install",
    [
        ("ALE/Pong-v5", "ale_py", "pip install 'spinup[atari]'"),
        ("BreakoutNoFrameskip-v4", "ale_py", "pip install 'spinup[atari]'"),
        ("Pong-v0", "ale_py", "pip install 'spinup[atari]'"),
        ("FetchReach-v1", "gymnasium_robotics", "pip install gymnasium-robotics"),
    ],
)
def test_ids_of_other_packages_name_what_to_install(env_id, module, install, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == module else find(name, *a)
    )
    monkeypatch.setattr(  # as on a machine where nothing has imported the package yet
        gymnasium,
        "registry",
        {k: v for k, v in gymnasium.registry.items() if not str(v.entry_point).startswith(module)},
    )
    with pytest.raises(SpinupError, match=re.escape(install)):
        make_env(env_id)


@pytest.mark.parametrize(
    "entry_point, install",
    [
        (needs("mujoco"), "pip install 'spinup[mujoco]'"),
        (needs("Box2D"), "pip install 'spinup[box2d]'"),
        (needs("pygame"), "pip install 'spinup[video]'"),
        ("no_such_package_here.envs:Thing", "no_such_package_here"),
    ],
)
def test_a_missing_dependency_is_named_with_its_command(entry_point, install, registered):
    registered("TestMakeNeeds-v0", entry_point)
    with pytest.raises(SpinupError, match=re.escape(install)) as caught:
        make_env("TestMakeNeeds-v0")
    assert isinstance(caught.value.__cause__, ImportError | error.Error)


def test_every_extra_that_a_message_names_exists(repo_root):
    project = (repo_root / "pyproject.toml").read_text()
    section = project.split("[project.optional-dependencies]")[1].split("\n[")[0]
    extras = set(re.findall(r"^(\w+) = \[", section, re.MULTILINE))
    source = (repo_root / "spinup" / "envs" / "make.py").read_text()
    named = set(re.findall(r"spinup\[(\w+)\]", source))
    assert named and named <= extras


# -- module:id ----------------------------------------------------------------------------------


def test_a_module_in_front_is_imported_and_recorded(tmp_path, monkeypatch):
    (tmp_path / "test_make_own_envs.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('TestMakeOwn-v1', max_episode_steps=7,\n"
        "    entry_point='gymnasium.envs.classic_control:CartPoleEnv')\n"
    )
    (tmp_path / "test_make_broken_envs.py").write_text("import no_such_dependency_here\n")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert resolve_env_id("test_make_own_envs:TestMakeOwn-v1").endswith(":TestMakeOwn-v1")
        env = make_env("test_make_own_envs:TestMakeOwn-v1")
        got = env_record(env)
        assert got["id"] == "TestMakeOwn-v1" and got["module"] == "test_make_own_envs"
        assert got["requested_id"] == "test_make_own_envs:TestMakeOwn-v1"
        assert got["max_episode_steps"] == 7
        with pytest.warns(UserWarning, match="TestMakeOwn-v0.*TestMakeOwn-v1"):
            env = make_env("test_make_own_envs:TestMakeOwn-v0")
        assert resolve_env_id("test_make_own_envs:TestMakeOwn-v0").startswith("test_make_own_envs:")
        with pytest.raises(SpinupError, match="needs 'no_such_dependency_here'"):
            make_env("test_make_broken_envs:Foo-v0")
    finally:
        gymnasium.registry.pop("TestMakeOwn-v1", None)
        sys.modules.pop("test_make_own_envs", None)


# -- arguments ----------------------------------------------------------------------------------


def test_arguments_reach_the_environment():
    env = make_env("Pendulum-v1", {"g": 3.5}, max_episode_steps=11)
    assert env.unwrapped.g == 3.5
    got = env_record(env)
    assert got["kwargs"] == {"g": 3.5} and got["max_episode_steps"] == 11
    assert make_env("Pendulum-v1", {"g": 3.5}, g=4.5).unwrapped.g == 4.5


def test_arguments_come_out_as_they_went_in():
    env_kwargs = {"g": 3.5, "max_episode_steps": np.int64(4)}
    before = dict(env_kwargs)
    make_env("Pendulum-v1", env_kwargs)
    assert env_kwargs == before


@pytest.mark.parametrize(
    "env_id, kwargs, message",
    [
        ("Pendulum-v1", {"gee": 1.0}, "Pendulum-v1 has no argument 'gee'"),
        ("MountainCarContinuous-v0", {"goal_velocty": 1.0}, "did you mean goal_velocity"),
        ("HalfCheetah-v5", {"foo": 1}, "HalfCheetah-v5 has no argument 'foo'"),
        ("CartPole-v1", {"id": "x"}, "must not hold 'id'"),
        ("CartPole-v1", {"max_episode_steps": 0}, "positive integer"),
        ("CartPole-v1", {"max_episode_steps": 1.5}, "positive integer"),
        ("CartPole-v1", {"max_episode_steps": True}, "positive integer"),
        ("CartPole-v1", [("g", 1)], "must be a dict"),
    ],
)
def test_bad_arguments_are_named(env_id, kwargs, message):
    with pytest.raises(SpinupError, match=message):
        make_env(env_id, kwargs)


def test_a_missing_argument_is_named(registered):
    def creator(size):
        raise AssertionError("not reached")

    registered("TestMakeSize-v0", creator)
    with pytest.raises(SpinupError, match="needs the argument 'size'"):
        make_env("TestMakeSize-v0")


def test_a_type_error_of_the_environment_keeps_its_own_face(registered):
    def creator(**kwargs):
        return None + 1

    registered("TestMakeBug-v0", creator)
    with pytest.raises(TypeError, match="unsupported operand") as caught:
        make_env("TestMakeBug-v0")
    assert not isinstance(caught.value, SpinupError)


def test_a_registered_object_that_is_no_environment_says_what_to_do(registered):
    class NoEnv:
        pass

    registered("TestMakeNoEnv-v0", NoEnv)
    with pytest.raises(SpinupError, match="env_fn"):
        make_env("TestMakeNoEnv-v0")


# -- records ------------------------------------------------------------------------------------


def test_the_record_is_json_and_makes_the_same_environment_again():
    env = make_env("Pendulum-v1", {"g": 2.5}, render_mode="rgb_array", max_episode_steps=9)
    got = json.loads(json.dumps(env_record(env), allow_nan=False))
    assert "render_mode" not in got["kwargs"] and got["exact_kwargs"] is True
    again = make_env(got["id"], got["kwargs"], max_episode_steps=got["max_episode_steps"])
    again_record = env_record(again)
    assert {k: v for k, v in again_record.items() if k != "requested_id"} == {
        k: v for k, v in got.items() if k != "requested_id"
    }
    a, b = (e.reset(seed=4)[0] for e in (env, again))
    np.testing.assert_array_equal(a, b)


def test_the_record_of_any_environment_made_by_gymnasium():
    env = TimeLimit(RescaleAction(gymnasium.make("Pendulum-v1"), np.float32(-1), np.float32(1)), 50)
    got = env_record(env)
    assert got["id"] == "Pendulum-v1" and got["requested_id"] is None and got["module"] is None
    assert got["wrappers"][:2] == ["TimeLimit", "RescaleAction"]
    assert got["max_episode_steps"] == 50  # the shorter of two limits
    assert got["class"].endswith(":PendulumEnv")
    assert env_record(gymnasium.make("Pendulum-v1", max_episode_steps=-1))[
        "max_episode_steps"
    ] is None  # fmt: skip


def test_the_record_survives_wrapping_and_adapting():
    env = adapt_env(TimeLimit(make_env("FrozenLake-v1", {"is_slippery": False}), 5))
    got = env_record(env)
    assert got["requested_id"] == "FrozenLake-v1"
    assert got["kwargs"]["is_slippery"] is False and got["max_episode_steps"] == 5
    assert "SpaceAdapter" not in got["wrappers"]


def test_the_record_of_what_is_not_known_is_none():
    class Thing:
        observation_space, action_space = None, None

        def reset(self):
            return 0

        def step(self, action):
            return 0, 0.0, True, {}

    got = env_record(Thing())
    assert got["id"] is got["kwargs"] is got["max_episode_steps"] is got["exact_kwargs"] is None
    assert got["wrappers"] == [] and "Thing" in got["class"]
    json.dumps(got, allow_nan=False)


def test_arguments_that_json_cannot_hold_are_said_to_be_inexact():
    base = gymnasium.make("CartPole-v1")
    base.unwrapped.spec.kwargs = {
        "f": print,
        "x": float("inf"),
        "a": np.arange(2),
        "t": (1, {2: 3}),
    }
    got = env_record(base)
    assert got["exact_kwargs"] is False
    assert got["kwargs"]["a"] == [0, 1] and got["kwargs"]["x"] == "inf"
    json.dumps(got, allow_nan=False)


def test_the_record_of_a_vector_environment():
    venv = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
    got = env_record(venv)
    assert got["id"] == "CartPole-v1"
    json.dumps(got, allow_nan=False)


# -- seeds --------------------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", ["CartPole-v1", "HalfCheetah-v5", "FrozenLake-v1"])
def test_made_environments_repeat_with_their_seed(env_id):
    def run(seed):
        env = adapt_env(make_env(env_id))
        env.action_space.seed(seed)
        out = [env.reset(seed=seed)[0]]
        for _ in range(20):
            o, _, terminated, truncated, _ = env.step(env.action_space.sample())
            out.append(o)
            if terminated or truncated:
                out.append(env.reset()[0])
        return np.concatenate(out)

    np.testing.assert_array_equal(run(0), run(0))
    assert not np.array_equal(run(0), run(1))


def test_stubs_are_told_from_environments():
    registry = gymnasium.registry
    assert make_module._is_stub(registry["HalfCheetah-v2"])
    assert not make_module._is_stub(registry["HalfCheetah-v5"])
    assert not make_module._is_stub(registry["CartPole-v1"])

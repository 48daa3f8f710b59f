"""Whole runs of the off-policy algorithms: spaces of all shapes, policies that load and repeat."""

import math

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from spinup.algos.common import loop as loop_module
from spinup.algos.pytorch.ddpg import core
from spinup.envs import make_env
from spinup.policies.loading import load_policy_and_env
from spinup.utils.errors import SpinupError

TINY = {"start_steps": 10, "update_after": 10, "update_every": 5, "batch_size": 8}
TINY |= {"num_test_episodes": 0, "num_threads": 1}
ASYMMETRIC = spaces.Box(np.array([-1, 0], np.float32), np.array([3, 0.5], np.float32))


# ---- spaces ----------------------------------------------------------------------------------


class Walk(gym.Env):
    """The state follows the actions; everything is checked against the spaces."""

    def __init__(self, action_space, obs_shape=(3,), obs_dtype=np.float32):
        self.action_space = action_space
        high = 255 if obs_dtype == np.uint8 else 10
        self.observation_space = spaces.Box(0, high, obs_shape, obs_dtype)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._observe(), {}

    def step(self, action):
        action = np.asarray(action)
        assert self.action_space.contains(action), f"{action!r} of {action.dtype}"
        return self._observe(), float(np.sum(action)), False, False, {}

    def _observe(self):
        space = self.observation_space
        return self.np_random.uniform(0, space.high.max(), space.shape).astype(space.dtype)


SPACES = {
    "asymmetric": (ASYMMETRIC, {}),
    "two axes": (spaces.Box(-1, np.float32([[1, 2], [3, 4]]), (2, 2)), {}),
    "float64": (spaces.Box(np.array([-0.1, -0.3]), np.array([0.7, 2.1]), dtype=np.float64), {}),
    "images": (ASYMMETRIC, {"obs_shape": (4, 3, 2), "obs_dtype": np.uint8}),
}


@pytest.mark.parametrize("kind", list(SPACES))
@pytest.mark.parametrize("algo", ["ddpg", "td3", "sac"])
def test_actions_of_all_shapes_and_types_train_and_fit_their_space(train, algo, kind):
    action_space, kwargs = SPACES[kind]
    # 10 random steps among 4 environments: some of them act at random in the same step
    settings = {**TINY, "num_envs": 4, "num_test_episodes": 1}
    run = train(algo, lambda: Walk(action_space, **kwargs), **settings)
    assert np.isfinite([run.rows[0]["LossQ"], run.rows[0]["LossPi"]]).all()


@pytest.mark.parametrize("bound", [np.inf, np.finfo(np.float32).max])
@pytest.mark.parametrize("algo", ["ddpg", "td3", "sac"])
def test_infinite_bounds_are_refused_before_anything_is_created(train, tmp_path, algo, bound):
    space = spaces.Box(np.float32([-1, -bound]), np.float32([1, bound]))
    with pytest.raises(SpinupError, match=f"{algo} .*dimension 1 .*give the space finite bounds"):
        train(algo, lambda: Walk(space), **TINY)

    class Own(core.MLPActorCritic):
        def __init__(self, observation_space, action_space):
            raise AssertionError("the spaces are checked first")

    with pytest.raises(SpinupError, match="finite bounds"):
        train(algo, lambda: Walk(space), actor_critic=Own, **TINY)
    assert list(tmp_path.iterdir()) == []


# ---- the saved policy ------------------------------------------------------------------------

RUNS = [
    ("ddpg", "Pendulum-v1"),
    ("td3", "Pendulum-v1"),
    ("sac", "Pendulum-v1"),
    ("sac", "CartPole-v1"),
    ("sac", "spinup/ProbeActionObservationDiscreteFrom5-v0"),
]


@pytest.mark.parametrize(("algo", "env_id"), RUNS)
def test_a_loaded_policy_is_deterministic_where_asked(train, algo, env_id):
    run = train(algo, env_id, **{**TINY, "update_every": 1})
    space = make_env(env_id).observation_space
    space.seed(0)
    observations = [np.clip(space.sample(), -5, 5) for _ in range(10)]
    plays = []
    for deterministic in (True, True, False, False):
        env, get_action = load_policy_and_env(run.dir, deterministic=deterministic)
        plays.append(np.array([get_action(o) for o in observations * 3]))
        assert all(env.action_space.contains(np.asarray(a)) for a in plays[-1])
    np.testing.assert_array_equal(plays[0], plays[1])
    np.testing.assert_array_equal(plays[0][:10], plays[0][10:20])
    modes = {"deterministic": True} if algo == "sac" else {}
    own = np.array([run.ac.act(torch.as_tensor(o), **modes) for o in observations])
    np.testing.assert_allclose(plays[0][:10], own, rtol=1e-5, atol=1e-5)
    if algo == "sac":
        assert not np.array_equal(plays[2], plays[3])  # each has a generator of its own
    else:
        np.testing.assert_array_equal(plays[2], plays[0])


@pytest.mark.parametrize(("algo", "env_id"), RUNS[:4])
def test_test_episodes_change_nothing_but_their_own_columns(train, algo, env_id):
    kwargs = {**TINY, "epochs": 2}
    plain = train(algo, env_id, **kwargs)
    tested = train(algo, env_id, **{**kwargs, "num_test_episodes": 3})
    columns = [k for k in tested.rows[0] if "Test" in k]
    assert sorted(columns) == [
        "AverageTestEpRet",
        "MaxTestEpRet",
        "MinTestEpRet",
        "StdTestEpRet",
        "TestEpLen",
    ]
    rows = [{k: v for k, v in row.items() if k not in columns} for row in tested.rows]
    np.testing.assert_equal(rows, plain.rows)
    for p, q in zip(plain.ac.parameters(), tested.ac.parameters(), strict=True):
        assert torch.equal(p, q)


@pytest.mark.parametrize("algo", ["ddpg", "td3", "sac", "dqn", "her", "acer"])
def test_a_replay_buffer_smaller_than_a_batch_is_refused_before_anything_is_created(
    train, tmp_path, algo
):
    sizes = {"n_steps": 11} if algo == "acer" else {"batch_size": 11}
    options = {"prioritized": True, "n_step": 3} if algo == "dqn" else {}
    with pytest.raises(SpinupError, match=r"replay_size=10 is .*11.*: use a"):
        train(algo, None, replay_size=10, **sizes, **options)
    assert list(tmp_path.iterdir()) == []
    train(algo, None, replay_size=11, **sizes, **options, num_test_episodes=0)


def test_a_run_that_ends_before_its_first_gradient_step_says_so(train, tmp_path, capsys):
    said = "takes no gradient step: it ends after 40 environment steps, and the first gradient"
    for after, every, expected in ((41, 5, True), (40, 5, False), (10, 50, True)):
        folder = {"output_dir": str(tmp_path / f"{after} {every}")}
        run = train(
            "td3", None, update_after=after, update_every=every, logger_kwargs=folder, epochs=1
        )
        assert np.isnan(run.rows[0]["LossQ"]) == expected
        assert (said in capsys.readouterr().out) == expected


@pytest.mark.parametrize("algo", ["td3", "her"])
def test_joining_measurements_along_the_way_changes_no_bit_of_the_log(train, monkeypatch, algo):
    rows = []
    for every in (10**9, 7):
        monkeypatch.setattr(loop_module, "_JOIN_EVERY", every)
        rows.append(train(algo, None, epochs=2, steps_per_epoch=60).rows)
    assert rows[0] == rows[1]
    name = "SuccessRate" if algo == "her" else "LossPi"
    assert all(math.isfinite(row[name]) for row in rows[0])

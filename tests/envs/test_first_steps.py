"""What an environment returns in the first steps of a run: one sentence for each mistake."""

import copy
import math
import pickle
import re
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from spinup import SpinupError, ppo, sac
from spinup.envs import adapt_env
from spinup.envs.first_steps import STEPS, check_first_steps
from spinup.envs.make_streams import make_streams

BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
ZEROS = np.zeros(3, np.float32)


class Mine(gym.Env):
    """Returns zeros; `first`, `step_at` and `values` say what it returns instead, and when."""

    action_space = spaces.Discrete(2)

    def __init__(self, space=BOX, good=ZEROS, first=None, at=2, **values):
        self.observation_space, self.good, self.first, self.at = space, good, first, at
        self.values, self.t = values, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return (self.good, {}) if self.first is None else self.first

    def step(self, action):
        self.t += 1
        found = {"obs": self.good, "rew": 0.0, "terminated": False, "truncated": False, "info": {}}
        if self.t == self.at:
            found.update(self.values)
        o, r, terminated, truncated, info = found.values()
        return o, r, terminated, truncated, info


def run(env, steps=5):
    """Reset and step a checked environment."""
    seeds = [np.random.SeedSequence(0)]
    streams = make_streams(lambda: env, 1, lambda i: seeds[i], 1000)
    check_first_steps([streams], "Mine")
    streams.start()
    for _ in range(steps):
        streams.step([0])
    return streams


UINT8 = spaces.Box(0, 255, (2, 2), np.uint8)
KEYED = spaces.Dict({"a": BOX, "b": spaces.Discrete(3)})


@pytest.mark.parametrize(
    ("kwargs", "sentence"),
    [
        (
            {"first": (np.zeros(4), {})},
            "Mine.reset returned an observation of shape (4,), but the observation_space has the "
            "shape (3,): make the two agree",
        ),
        (
            {"obs": np.zeros(1)},
            "Mine.step (step 2) returned an observation of shape (1,), but the observation_space "
            "has the shape (3,): make the two agree",
        ),
        (
            {"first": (None, {})},
            "Mine.reset returned None as an observation: return an array of shape (3,)",
        ),
        (
            {"obs": ["a", "b", "c"]},
            "Mine.step (step 2) returned an observation that is a list of 3 values, which is not "
            "an array of numbers: return an array of shape (3,)",
        ),
        (
            {"obs": np.array([0, np.nan, 0])},
            "Mine.step (step 2) returned an observation with nan in element 1: look for a division "
            "by zero, or for a value that is never set",
        ),
        (
            {"space": UINT8, "good": np.zeros((2, 2), np.uint8), "obs": np.full((2, 2), 0.5)},
            "Mine.step (step 2) returned an observation with the float64 value 0.5, which the "
            "observation_space's dtype uint8 cannot hold: give the space dtype=np.float32 and its "
            "bounds",
        ),
        (
            {"space": spaces.Discrete(3), "good": 0, "obs": 3},
            "Mine.step (step 2) returned an observation 3, which is not in Discrete(3): correct "
            "one of them",
        ),
        (
            {"space": KEYED, "good": {"a": ZEROS, "b": 1}, "obs": {"a": np.zeros(2), "b": 1}},
            "Mine.step (step 2) returned an observation whose 'a' is of shape (2,), but the "
            "observation_space has the shape (3,): make the two agree",
        ),
        (
            {"space": KEYED, "good": {"a": ZEROS, "b": 1}, "obs": {"a": ZEROS}},
            "Mine.step (step 2) returned an observation that is a dict of ['a']: return a dict of "
            "['a', 'b']",
        ),
        (
            {"rew": None},
            "Mine.step (step 2) returned the reward None: return a number, such as 0.0",
        ),
        (
            {"rew": np.zeros(3)},
            "Mine.step (step 2) returned a reward of shape (3,): return one number, such as its "
            "sum",
        ),
        ({"rew": math.inf}, "Mine.step (step 2) returned the reward inf: return a finite number"),
        (
            {"rew": "much"},
            "Mine.step (step 2) returned the reward 'much', which is not a number: return one, "
            "such as 0.0",
        ),
        (
            {"terminated": None},
            "Mine.step (step 2) returned terminated=None: return True or False",
        ),
        ({"truncated": {}}, "Mine.step (step 2) returned truncated={}: return True or False"),
        ({"terminated": 0.5}, "Mine.step (step 2) returned terminated=0.5: return True or False"),
    ],
)
def test_a_mistake_is_one_sentence(kwargs, sentence):
    with pytest.raises(SpinupError) as error:
        run(Mine(**kwargs))
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("kwargs", "sentence"),
    [
        ({"obs": np.array([0, 7, 0])}, r"element 1 is 7, and the space has \[-1, 1\] there"),
        ({"info": None}, "returned an info that is None: return a dict"),
        ({"obs": np.zeros((1, 3))}, r"shape \(1, 3\), but the observation_space has the shape"),
    ],
)
def test_a_doubt_is_one_warning(kwargs, sentence):
    class Again(Mine):
        def step(self, action):
            self.t = self.at - 1  # every step has the fault
            return super().step(action)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(Again(**kwargs), steps=20)
    (one,) = (str(w.message) for w in caught)
    assert re.search(sentence, one) and one.startswith("Mine.step (step 1) returned")


@pytest.mark.parametrize(
    "kwargs",
    [
        {"obs": [0.0, 0.0, 0.0]},
        {"obs": np.zeros(3, np.float64)},
        {"obs": np.zeros(3, np.int64)},
        {"rew": np.float32(1)},
        {"rew": np.array(1.0)},
        {"rew": True},
        {"terminated": np.bool_(True)},
        {"terminated": 1},
    ],
)
def test_what_works_today_is_not_refused(kwargs, recwarn):
    run(Mine(**kwargs))
    assert list(recwarn) == []


def test_nothing_is_left_of_the_checks_after_the_first_steps():
    streams = run(Mine(terminated=None, at=STEPS + 3), STEPS - 1)
    env = streams.envs[0]
    assert {"reset", "step"} <= set(vars(env))
    pickle.loads(pickle.dumps(env)).step(0)
    copied = copy.deepcopy(env)
    assert copied.step.__self__.env is copied
    for _ in range(4):  # beyond the checks, None passes for False
        streams.step([0])
    assert not {"reset", "step"} & set(vars(env))


def test_the_old_interface_is_checked_too():
    class Old:
        observation_space, action_space = BOX, spaces.Discrete(2)
        rew, obs = 0.0, [0, 0, 0]

        def reset(self):
            return [0, 0, 0]

        def step(self, action):
            return self.obs, self.rew, False, None

    with pytest.raises(SpinupError, match="returned the reward None: return a number"):
        Old.rew = None
        run(Old())
    with pytest.raises(SpinupError, match=r"that is a list of 2 values|shape \(2,\)"):
        Old.rew, Old.obs = 0.0, [0, 0]
        run(Old())
    Old.step = lambda self, action: None
    with pytest.raises(SpinupError, match=r"Old.step returned a NoneType: return observation"):
        run(Old())


@pytest.mark.parametrize("vector", ["sync", "async"])
def test_a_run_ends_with_the_sentence_before_anything_is_trained(tmp_path, vector):
    with pytest.raises(SpinupError, match=r"Mine.step \(step 2\) returned the reward None"):
        ppo(
            lambda: Mine(rew=None),
            num_envs=2,
            vector=vector,
            steps_per_epoch=40,
            epochs=1,
            logger_kwargs={"output_dir": str(tmp_path), "quiet": True},
        )


def test_a_vector_environment_is_checked_as_a_whole(tmp_path):
    class Both(gym.vector.VectorEnv):
        num_envs, rew = 2, np.zeros(2)
        single_observation_space, single_action_space = BOX, spaces.Discrete(2)
        observation_space = gym.vector.utils.batch_space(BOX, 2)
        action_space = gym.vector.utils.batch_space(single_action_space, 2)

        def reset(self, *, seed=None, options=None):
            return np.zeros((2, 3), np.float32), {}

        def step(self, action):
            over = np.zeros(2, bool)
            return np.zeros((2, 3), np.float32), self.rew, over, over, {}

    logger = {"output_dir": str(tmp_path), "quiet": True}
    ppo(Both, steps_per_epoch=20, epochs=1, max_ep_len=1000, logger_kwargs=logger)
    Both.rew = np.zeros(())
    with pytest.raises(SpinupError, match=r"rewards of shape \(\): return one per environment"):
        ppo(Both, steps_per_epoch=20, epochs=1, max_ep_len=1000, logger_kwargs=logger)


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"obs": ZEROS + np.nan}, "an observation that is not finite in step 150 of the epoch"),
        ({"rew": math.nan}, "a reward that is not finite in step 150 of the epoch"),
    ],
)
def test_a_later_fault_is_the_environments(tmp_path, change, cause):
    with pytest.raises(SpinupError) as error:
        ppo(
            lambda: Mine(at=150, **change),
            steps_per_epoch=200,
            epochs=1,
            logger_kwargs={"output_dir": str(tmp_path), "quiet": True},
        )
    assert f"because the environment returned {cause}, so ppo stopped" in str(error.value)
    assert str(error.value).endswith("correct the environment")


def test_what_follows_from_a_nan_action_is_not_the_environments_fault():
    env = Mine(obs=ZEROS + np.nan)
    env.action_space = spaces.Box(-1, 1, (1,), np.float32)
    streams = run(env, 1)
    streams.step([np.array([np.nan])])
    streams.step([np.array([0.0])])


def test_a_policy_that_diverges_is_not_the_environments_fault(tmp_path):
    class Echo(Mine):  # hands the action back
        action_space = spaces.Box(-1, 1, (3,), np.float32)
        observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)

        def step(self, action):
            return np.asarray(action), float(np.sum(action)), False, False, {}

    with pytest.raises(SpinupError, match="try a smaller learning rate"):
        ppo(
            Echo,
            pi_lr=1e38,
            steps_per_epoch=40,
            epochs=3,
            max_ep_len=10,
            logger_kwargs={"output_dir": str(tmp_path), "quiet": True},
        )


def test_a_checked_run_has_the_same_bits(tmp_path, monkeypatch):
    """The checks draw no random number and change no result."""
    rows = []
    for name in ("with", "without"):
        folder = {"output_dir": str(tmp_path / name), "quiet": True}
        sac(
            "Pendulum-v1",
            steps_per_epoch=60,
            epochs=2,
            start_steps=10,
            update_after=20,
            num_test_episodes=1,
            logger_kwargs=folder,
        )
        text = (tmp_path / name / "progress.txt").read_text().splitlines()
        rows.append([line.rpartition("\t")[0] for line in text])
        monkeypatch.setattr("spinup.envs.first_steps.check_first_steps", lambda *args: None)
    assert rows[0] == rows[1]


def test_gymnasium_s_own_environments_are_not_blamed(recwarn):
    env = adapt_env(gym.make("CartPole-v1"))
    env.unwrapped.observation_space = spaces.Box(-1e-9, 1e-9, (4,), np.float32)
    run(env)
    assert not [w for w in recwarn if "outside" in str(w.message)]

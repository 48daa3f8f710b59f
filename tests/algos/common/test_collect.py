"""Collecting: rows, paths, final observations, and what is stored against what is sent."""

import itertools
import signal

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from spinup.algos.common.collect import Rollout, collect
from spinup.envs.streams import make_streams
from spinup.runs.run import Run


class Tape(gym.Env):
    """The observation is (length, episode, step); the reward is the step before the action."""

    def __init__(self, length=3, end="terminated", actions=None):
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = actions or spaces.Discrete(2)
        self.length, self.end = length, end
        self.episode, self.t = 0, 0
        self.received = []

    def _obs(self):
        return np.array([self.length, self.episode, self.t], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.t = self.episode + 1, 0
        return self._obs(), {}

    def step(self, action):
        self.received.append(action)
        assert self.t < self.length, "a step after the end of an episode"
        r = float(self.t)
        self.t += 1
        over = self.t == self.length
        kinds = (over and self.end == "terminated", over and self.end == "truncated")
        return self._obs(), r, *kinds, {}


class Fixed:
    """A policy that acts from a table and, if asked, estimates while it acts."""

    def __init__(self, act, estimate=False):
        self.act, self.estimate = act, estimate
        self.calls, self.begun, self.seen = 0, 0, []

    def begin(self, rng):
        self.begun += 1

    def __call__(self, obs, rng):
        self.calls += 1
        self.seen.append(obs.copy())
        act = self.act(obs, rng)
        if not self.estimate:
            return act, None, None
        return act, obs[:, -1:] + 100, obs[:, -1:] - 100  # one column: size-1 arrays a row


def zero(obs, rng):
    return np.zeros(len(obs), np.int64)


def gather(env_fn, steps, n=1, max_ep_len=100, vector="sync", policy=None, epochs=1):
    """Rollouts of a few epochs; a fresh one each, so that all of them can be looked at."""
    streams = make_streams(env_fn, n, np.random.SeedSequence, max_ep_len, vector)
    rng = np.random.default_rng(0)
    rollouts = []
    for _ in range(epochs):
        rollout = Rollout(streams, steps)
        collect(rollout, streams, policy or Fixed(zero), rng)
        rollouts.append(rollout)
    streams.close()
    return rollouts if epochs > 1 else rollouts[0]


def check_rows(rollout):
    """Every row is in exactly one path, and within a path each row follows from the one before."""
    covered = np.zeros((rollout.steps, rollout.num_envs), int)
    for p in rollout.paths:
        obs = rollout.obs[p.start : p.stop, p.i]
        covered[p.start : p.stop, p.i] += 1
        assert p.stop > p.start
        assert (obs[:, :2] == obs[0, :2]).all(), "a path crosses an episode"
        np.testing.assert_array_equal(obs[:, 2], obs[0, 2] + np.arange(len(obs)))
        np.testing.assert_array_equal(rollout.rew[p.start : p.stop, p.i], obs[:, 2])
        if p.terminated:
            assert p.final_obs is None and obs[-1, 2] + 1 == obs[-1, 0]
        else:
            want = obs[-1] + np.array([0, 0, 1], np.float32)
            np.testing.assert_array_equal(p.final_obs, want)
    np.testing.assert_array_equal(covered, rollout.valid.astype(int))


def paths_of(rollout):
    return sorted((p.i, p.start, p.stop, p.terminated) for p in rollout.paths)


@pytest.mark.parametrize("end", ["terminated", "truncated"])
def test_one_stream_gives_paths_with_the_right_rows_and_ends(end):
    rollout = gather(lambda: Tape(3, end), steps=8)
    check_rows(rollout)
    died = end == "terminated"
    assert paths_of(rollout) == [(0, 0, 3, died), (0, 3, 6, died), (0, 6, 8, False)]
    assert rollout.ep_rets.tolist() == [3.0, 3.0] and rollout.ep_lens.tolist() == [3, 3]


@pytest.mark.parametrize("vector", ["sync", "async"])
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("end", ["terminated", "truncated"])
def test_no_stored_transition_crosses_an_episode(n, vector, end):
    lengths = iter([2, 2, 3, 5, 5, 5])  # an extra one is made and thrown away for 'async'

    def env_fn():
        return Tape(next(lengths), end)

    for rollout in gather(env_fn, 7, n, vector=vector, epochs=3):
        check_rows(rollout)
        assert rollout.valid.all()


class OwnVector(SyncVectorEnv):
    """A vector environment of a user's: no longer Gymnasium's own class."""


@pytest.mark.parametrize("cls", [SyncVectorEnv, OwnVector])
@pytest.mark.parametrize("end", ["terminated", "truncated"])
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_no_transition_of_a_vector_environment_crosses_an_episode(mode, end, cls):
    def env_fn():
        return cls([lambda n=n: Tape(n, end) for n in (2, 3, 5)], autoreset_mode=mode)

    rollouts = gather(env_fn, 7, epochs=4)
    for rollout in rollouts:
        check_rows(rollout)
    resets = sum(int((~r.valid).sum()) for r in rollouts)
    assert (resets > 0) == (cls is OwnVector and mode == AutoresetMode.NEXT_STEP)


def test_rows_of_resets_do_not_reach_the_batch():
    def env_fn():
        return OwnVector([lambda: Tape(2)] * 2, autoreset_mode=AutoresetMode.NEXT_STEP)

    rollout = gather(env_fn, 6)
    assert int(rollout.valid.sum()) == 8
    obs = rollout.flat(rollout.obs)
    assert obs.shape == (8, 3) and obs[:, 2].tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
    rollout.clear()
    assert rollout.valid.all()


def test_gym_make_vec_cartpole_gives_rows_that_follow_from_one_another():
    rollouts = gather(lambda: gym.make_vec("CartPole-v1", num_envs=3), 60, 1, 600, epochs=2)
    for rollout in rollouts:
        assert any(p.terminated for p in rollout.paths)
        for p in rollout.paths:
            rows = rollout.obs[p.start : p.stop, p.i].astype(np.float64)
            if p.final_obs is not None:
                rows = np.vstack([rows, p.final_obs])
            np.testing.assert_allclose(rows[1:, 0], rows[:-1, 0] + 0.02 * rows[:-1, 1], atol=1e-5)


def test_an_epoch_that_ends_on_a_terminal_state_does_not_bootstrap():
    rollout = gather(lambda: Tape(3), steps=6)
    assert paths_of(rollout) == [(0, 0, 3, True), (0, 3, 6, True)]
    assert [p.final_obs for p in rollout.paths] == [None, None]


def test_a_path_cut_by_the_epoch_keeps_the_observation_it_would_go_on_from():
    rollout = gather(lambda: Tape(5), steps=2)
    (path,) = rollout.paths
    assert not path.terminated and path.final_obs.tolist() == [5, 1, 2]


def test_a_terminal_state_at_max_ep_len_is_stored_as_terminal():
    rollout = gather(lambda: Tape(3), steps=6, max_ep_len=3)
    assert [p.terminated for p in rollout.paths] == [True, True]


@pytest.mark.parametrize("limit, max_ep_len", [(4, 100), (100, 4), (4, 4)])
def test_both_time_limits_are_truncations_that_bootstrap(limit, max_ep_len):
    def env_fn():
        return gym.wrappers.TimeLimit(Tape(50), limit)

    rollout = gather(env_fn, 8, max_ep_len=max_ep_len)
    check_rows(rollout)
    assert paths_of(rollout) == [(0, 0, 4, False), (0, 4, 8, False)]
    assert [p.final_obs.tolist() for p in rollout.paths] == [[50, 1, 4], [50, 2, 4]]
    assert rollout.ep_lens.tolist() == [4, 4]


def test_episodes_go_on_from_one_epoch_to_the_next():
    first, second = gather(lambda: Tape(5), 3, epochs=2)
    assert first.obs[:, 0, 2].tolist() == [0, 1, 2] and first.ep_lens.size == 0
    assert second.obs[:, 0, 2].tolist() == [3, 4, 0]
    assert second.ep_rets.tolist() == [10.0] and second.ep_lens.tolist() == [5]


def test_the_policy_is_begun_once_an_epoch_and_called_once_a_step():
    policy = Fixed(zero)
    rollouts = gather(Tape, 5, 3, policy=policy, epochs=2)
    assert policy.begun == 2 and policy.calls == 10
    seen = np.stack(policy.seen).reshape(2, 5, 3, 3)
    np.testing.assert_array_equal(seen, [r.obs for r in rollouts])


# ---- what is stored and what is sent ---------------------------------------------------------


def test_the_raw_action_is_stored_and_the_clipped_one_is_sent():
    low, high = np.array([-1.0, 0.0], np.float32), np.array([3.0, 0.5], np.float32)
    env = Tape(100, actions=spaces.Box(low, high))
    raw = iter(np.array([[-5, -5], [5, 5], [2, 0.25]], np.float32))
    rollout = gather(lambda: env, 3, policy=Fixed(lambda obs, rng: next(raw)[None]))
    assert rollout.act.reshape(3, 2).tolist() == [[-5, -5], [5, 5], [2, 0.25]]
    assert np.array(env.received).tolist() == [[-1, 0], [3, 0.5], [2, 0.25]]
    assert all(env.action_space.contains(a) for a in env.received)


def test_unbounded_actions_are_sent_as_they_are():
    env = Tape(100, actions=spaces.Box(-np.inf, np.inf, (1,), np.float32))
    gather(lambda: env, 1, policy=Fixed(lambda obs, rng: np.array([[1e6]], np.float32)))
    assert env.received[0].tolist() == [1e6]


def test_multi_dimensional_actions_are_sent_in_the_shape_of_their_space():
    env = Tape(100, actions=spaces.Box(-1, 1, (2, 3), np.float64))
    flat = np.arange(6, dtype=np.float32)[None] / 10
    rollout = gather(lambda: env, 2, policy=Fixed(lambda obs, rng: flat))
    assert rollout.act.shape == (2, 1, 2, 3) and rollout.act.dtype == np.float32
    assert env.received[0].shape == (2, 3) and env.received[0].dtype == np.float64
    np.testing.assert_allclose(env.received[0], flat.reshape(2, 3))


def test_a_single_number_for_an_action_of_one_dimension_is_sent_as_a_vector():
    # what a policy of the user's gives that squeezes its action
    env = Tape(100, actions=spaces.Box(-1, 1, (1,), np.float32))
    policy = Fixed(lambda obs, rng: np.full(len(obs), 5.0, np.float32))
    rollout = gather(lambda: env, 2, policy=policy)
    assert [a.tolist() for a in env.received] == [[1.0], [1.0]]
    assert rollout.act.tolist() == [[[5.0]], [[5.0]]]


def test_discrete_actions_are_stored_as_integers_from_zero():
    env = Tape(100, actions=spaces.Discrete(2, start=5))
    choice = iter([0, 1, 1])
    policy = Fixed(lambda obs, rng: np.array([next(choice)]))
    rollout = gather(lambda: env, 3, policy=policy)
    assert rollout.act.dtype == np.int64 and rollout.act.ravel().tolist() == [0, 1, 1]
    assert [int(a) for a in env.received] == [5, 6, 6]


@pytest.mark.parametrize(
    "space", [spaces.MultiDiscrete([3, 2]), spaces.MultiBinary(3), spaces.MultiBinary((2, 2))]
)
def test_vectors_of_integers_are_stored_and_sent_as_integers(space):
    env = Tape(100, actions=space)
    policy = Fixed(lambda obs, rng: np.ones((1, int(np.prod(space.shape))), np.int64))
    rollout = gather(lambda: env, 2, policy=policy)
    assert rollout.act.dtype == np.int64 and rollout.act.shape == (2, 1, *space.shape)
    assert env.received[0].dtype == space.dtype and space.contains(env.received[0])


class Seen(Tape):
    """`Tape` seen through another observation space."""

    def __init__(self, space, show, length=3):
        super().__init__(length)
        self.observation_space, self.show = space, show

    def _obs(self):
        return self.show(self.t)


def test_images_stay_bytes_in_the_rollout():
    space = spaces.Box(0, 255, (2, 2, 1), np.uint8)
    env = Seen(space, lambda t: np.full((2, 2, 1), 250 + t, np.uint8))
    rollout = gather(lambda: env, 5, max_ep_len=2)
    assert rollout.obs.dtype == np.uint8 and rollout.obs.shape == (5, 1, 2, 2, 1)
    assert rollout.obs[:, 0, 0, 0, 0].tolist() == [250, 251, 250, 251, 250]
    assert rollout.paths[0].final_obs.dtype == np.uint8
    assert rollout.paths[0].final_obs.ravel().tolist() == [252] * 4


def test_discrete_observations_become_one_hot_rows():
    env = Seen(spaces.Discrete(4, start=1), lambda t: t + 1)
    rollout = gather(lambda: env, 3)
    assert rollout.obs.reshape(3, 4).tolist() == np.eye(4)[:3].tolist()


def test_dict_observations_become_flat_rows():
    space = spaces.Dict({"a": spaces.Box(-9, 9, (2,)), "b": spaces.Discrete(3)})
    env = Seen(space, lambda t: {"a": np.array([t, -t], np.float32), "b": min(t, 2)})
    rollout = gather(lambda: env, 3)
    want = [[0, 0, 1, 0, 0], [1, -1, 0, 1, 0], [2, -2, 0, 0, 1]]
    assert rollout.obs.reshape(3, 5).tolist() == want


@pytest.mark.parametrize("n", [1, 3])
def test_estimates_of_one_column_a_row_are_squeezed_on_store(n):
    rollout = gather(lambda: Tape(10), 4, n, policy=Fixed(zero, estimate=True))
    assert rollout.val.shape == rollout.logp.shape == (4, n)
    np.testing.assert_array_equal(rollout.val, rollout.obs[:, :, 2] + 100)
    np.testing.assert_array_equal(rollout.logp, rollout.obs[:, :, 2] - 100)


# ---- stopping in the middle ------------------------------------------------------------------


class Stop(Exception):
    """Raised to end a rollout early."""


def stop_before(step):
    """A `poll` that raises before the given step."""
    left = [step]

    def poll():
        if left[0] == 0:
            raise Stop
        left[0] -= 1

    return poll


@pytest.mark.parametrize("estimate", [False, True])
@pytest.mark.parametrize("stop", [0, 4, 9])
def test_an_interrupted_rollout_goes_on_to_the_same_rows(stop, estimate):
    def random_act(obs, rng):
        return rng.integers(2, size=len(obs))

    def start():
        streams = make_streams(lambda: gym.make("CartPole-v1"), 2, np.random.SeedSequence, 4)
        return streams, Rollout(streams, 10), np.random.default_rng(5)

    streams, whole, rng = start()
    collect(whole, streams, Fixed(random_act, estimate), rng)

    streams, first, rng = start()
    with pytest.raises(Stop):
        collect(first, streams, Fixed(random_act, estimate), rng, stop_before(stop))
    saved = streams.state_dict(), first.state_dict(), rng.bit_generator.state
    streams, second, rng = start()
    for part, state in ((streams, saved[0]), (second, saved[1])):
        part.load_state_dict(state)
    rng.bit_generator.state = saved[2]
    policy = Fixed(random_act, estimate)
    collect(second, streams, policy, rng)

    assert policy.begun == (stop == 0)
    for name in ("obs", "act", "rew", "valid", "val", "logp"):
        np.testing.assert_array_equal(getattr(second, name), getattr(whole, name))
    assert paths_of(second) == paths_of(whole) and len(second.paths) == 6
    for one, other in zip(second.paths, whole.paths, strict=True):
        np.testing.assert_array_equal(one.final_obs, other.final_obs)
    np.testing.assert_array_equal(second.ep_rets, whole.ep_rets)
    np.testing.assert_array_equal(second.ep_lens, whole.ep_lens)


def test_a_cleared_rollout_starts_from_its_first_row():
    streams = make_streams(lambda: Tape(4), 1, np.random.SeedSequence, 100)
    rollout, rng = Rollout(streams, 6), np.random.default_rng(0)
    collect(rollout, streams, Fixed(zero), rng)
    rollout.clear()
    assert rollout.t == 0 and rollout.paths == []
    collect(rollout, streams, Fixed(zero), rng)
    check_rows(rollout)
    assert paths_of(rollout) == [(0, 0, 2, True), (0, 2, 6, True)]


@pytest.mark.parametrize("kind", ["one by one", "vector"])
def test_no_path_goes_on_in_a_fresh_episode_where_a_run_could_not_be_restored(tmp_path, kind):
    # Each environment counts its episodes from another number: no replay comes back to what was.
    numbers = itertools.count(0, 10)

    def one():
        env = Tape(9)
        env.episode = next(numbers)
        return env

    def env_fn():
        if kind == "one by one":
            return one()
        return OwnVector([one, one], autoreset_mode=AutoresetMode.SAME_STEP)

    config = {
        "env_fn": env_fn,
        "seed": 0,
        "steps_per_epoch": 12,
        "epochs": 1,
        "num_envs": 2,
        "vector": "sync",
        "max_ep_len": 100,
        "shards": 1,
        "num_threads": 1,
        "device": "cpu",
        "save_freq": 1,
        "ac_kwargs": {},
        "logger_kwargs": {"output_dir": str(tmp_path / "run"), "quiet": True},
        "resume": False,
        "overwrite": False,
        "progress": False,
    }
    with pytest.raises(KeyboardInterrupt), Run("ppo", config) as run:
        for _ in run.epochs():
            run._poll = stop_after(run, 4)
            run.collect(Fixed(zero))
    with Run("ppo", {**config, "resume": True}) as run:
        with pytest.warns(UserWarning, match="fresh episodes"):
            next(run.epochs())
        (rollout,) = run.collect(Fixed(zero))
        assert rollout.t == 6
        for path in rollout.paths:
            steps = rollout.obs[path.start : path.stop, path.i, 2]
            np.testing.assert_array_equal(np.diff(steps), 1)
        cut = [p for p in rollout.paths if p.stop == 4]
        assert [p.final_obs.tolist() for p in cut] == [[9, 1, 4], [9, 11, 4]]


def stop_after(run, steps):
    """A `poll` that asks the run to stop as Ctrl-C does."""
    left = [steps]

    def poll():
        if left[0] == 0:
            run._signal = signal.SIGINT
        left[0] -= 1
        Run._poll(run)

    return poll

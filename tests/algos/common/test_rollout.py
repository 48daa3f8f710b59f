"""Rollouts: rows, paths, what they are bootstrapped from, and what is stored of an action."""

import copy
import itertools
import signal
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from spinup.algos.common.loop import Loop
from spinup.algos.common.rollout import Rollout


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
    """A policy that acts by a function and, if asked, estimates while it acts."""

    def __init__(self, act, estimate=False):
        self.act, self.estimate = act, estimate
        self.begun, self.renewed, self.seen = 0, 0, []

    def begin(self, rng):
        self.begun += 1

    def renew(self):
        self.renewed += 1

    def __call__(self, obs, rng):
        self.seen.append(obs.copy())
        act = self.act(obs, rng)
        if not self.estimate:
            return act, None, None
        return act, obs[:, -1:] + 100, obs[:, -1:] - 100  # one column: arrays of size 1 per row


def zero(obs, rng):
    return np.zeros(len(obs), np.int64)


def gather_epoch(loop, policy, stop_after=None):
    """The rest of an epoch, as an on-policy algorithm gathers it; asked to stop on the way."""
    rows = 0
    if rows == stop_after:
        loop.run.signals.received = signal.SIGINT
    for _ in loop.steps():
        rollout = loop.run.rollouts[loop.shard]
        a, v, logp = loop.act(policy)
        o, a, r, _, _ = loop.step(a)
        rollout.store(o, a, r, v, logp, loop.took)
        for path in loop.paths:
            rollout.finish_path(path.i, path.last_obs)
        rows += 1
        if rows == stop_after:
            loop.run.signals.received = signal.SIGINT
    finished = [streams.pop_finished() for streams in loop.run.streams]
    for rollout, (ep_rets, ep_lens) in zip(loop.run.rollouts, finished, strict=True):
        rollout.ep_rets, rollout.ep_lens = ep_rets, ep_lens


@pytest.fixture
def gather(in_run):
    """A function that returns the rollouts of a few epochs; the same kind of run as PPO's."""

    def call(env_fn, steps, n=1, max_ep_len=100, vector="sync", policy=None, epochs=1, **given):
        def body(run):
            loop, policy_ = Loop(run), policy or Fixed(zero)
            rollouts = []
            for _ in run.epochs():  # a fresh one for each, so that all of them can be looked at
                run.rollouts = [Rollout(streams, steps) for streams in run.streams]
                gather_epoch(loop, policy_)
                rollouts += run.rollouts
                run.rollouts = []
            return rollouts if len(rollouts) > 1 else rollouts[0]

        settings = {"num_envs": n, "max_ep_len": max_ep_len, "vector": vector, "epochs": epochs}
        size = steps * n * given.get("shards", 1)
        return in_run("ppo", body, env_fn, steps_per_epoch=size, **settings, **given)

    return call


def check_rows(rollout, end="terminated"):
    """Every row is in exactly one path, and within a path each row follows from the one before."""
    covered = np.zeros((rollout.steps, rollout.num_envs), int)
    for p in rollout.paths:
        obs = rollout.obs[p.start : p.stop, p.i]
        covered[p.start : p.stop, p.i] += 1
        assert p.stop > p.start
        assert (obs[:, :2] == obs[0, :2]).all(), "a path crosses an episode"
        np.testing.assert_array_equal(obs[:, 2], obs[0, 2] + np.arange(len(obs)))
        np.testing.assert_array_equal(rollout.rew[p.start : p.stop, p.i], obs[:, 2])
        died = end == "terminated" and obs[-1, 2] + 1 == obs[-1, 0]
        assert (p.last_obs is None) == died
        if not died:
            want = obs[-1] + np.array([0, 0, 1], np.float32)
            np.testing.assert_array_equal(p.last_obs, want)
    np.testing.assert_array_equal(covered, rollout.valid.astype(int))


def paths_of(rollout):
    return sorted((p.i, p.start, p.stop, p.last_obs is None) for p in rollout.paths)


@pytest.mark.parametrize("end", ["terminated", "truncated"])
def test_one_stream_gives_paths_with_the_right_rows_and_ends(gather, end):
    rollout = gather(lambda: Tape(3, end), steps=8)
    check_rows(rollout, end)
    died = end == "terminated"
    assert paths_of(rollout) == [(0, 0, 3, died), (0, 3, 6, died), (0, 6, 8, False)]
    assert rollout.ep_rets.tolist() == [3.0, 3.0] and rollout.ep_lens.tolist() == [3, 3]


@pytest.mark.parametrize("vector", ["sync", "async"])
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("end", ["terminated", "truncated"])
def test_no_stored_transition_crosses_an_episode(gather, n, vector, end):
    lengths = iter([2, 2, 3, 5, 5, 5])  # an extra one is made and thrown away for 'async'

    def env_fn():
        return Tape(next(lengths), end)

    for rollout in gather(env_fn, 7, n, vector=vector, epochs=3):
        check_rows(rollout, end)
        assert rollout.valid.all()


class OwnVector(SyncVectorEnv):
    """A vector environment that a user wrote: no longer Gymnasium's own class."""


@pytest.mark.parametrize("cls", [SyncVectorEnv, OwnVector])
@pytest.mark.parametrize("end", ["terminated", "truncated"])
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_no_transition_of_a_vector_environment_crosses_an_episode(gather, mode, end, cls):
    def env_fn():
        return cls([lambda n=n: Tape(n, end) for n in (2, 3, 5)], autoreset_mode=mode)

    rollouts = gather(env_fn, 7, 3, epochs=4)
    for rollout in rollouts:
        check_rows(rollout, end)
    resets = sum(int((~r.valid).sum()) for r in rollouts)
    assert (resets > 0) == (cls is OwnVector and mode == AutoresetMode.NEXT_STEP)


def test_rows_of_resets_do_not_reach_the_batch(gather):
    def env_fn():
        return OwnVector([lambda: Tape(2)] * 2, autoreset_mode=AutoresetMode.NEXT_STEP)

    rollout = gather(env_fn, 6, 2)
    assert int(rollout.valid.sum()) == 8
    obs = rollout.flat(rollout.obs)
    assert obs.shape == (8, 3) and obs[:, 2].tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
    rollout.clear()
    assert rollout.valid.all()


def test_gym_make_vec_cartpole_gives_rows_that_follow_from_one_another(gather):
    rollouts = gather(lambda: gym.make_vec("CartPole-v1", num_envs=3), 60, 3, 600, epochs=2)
    for rollout in rollouts:
        assert any(p.last_obs is None for p in rollout.paths)
        for p in rollout.paths:
            rows = rollout.obs[p.start : p.stop, p.i].astype(np.float64)
            if p.last_obs is not None:
                rows = np.vstack([rows, p.last_obs])
            np.testing.assert_allclose(rows[1:, 0], rows[:-1, 0] + 0.02 * rows[:-1, 1], atol=1e-5)


def test_an_epoch_that_ends_on_a_terminal_state_does_not_bootstrap(gather):
    rollout = gather(lambda: Tape(3), steps=6)
    assert paths_of(rollout) == [(0, 0, 3, True), (0, 3, 6, True)]
    assert [p.last_obs for p in rollout.paths] == [None, None]


def test_a_path_cut_by_the_epoch_keeps_the_observation_it_would_continue_from(gather):
    rollout = gather(lambda: Tape(5), steps=2)
    (path,) = rollout.paths
    assert path.last_obs.tolist() == [5, 1, 2]


def test_an_epoch_cuts_the_paths_of_all_environments_each_at_its_own_observation(gather):
    lengths = iter([3, 4, 5, 6])
    rollout = gather(lambda: Tape(next(lengths)), steps=4, n=4)
    check_rows(rollout)
    last = {p.i: p.last_obs for p in rollout.paths if p.stop == 4}
    # the first one has just begun its second episode, the second one dies in the last step
    assert last[0].tolist() == [3, 2, 1] and last[1] is None
    assert last[2].tolist() == [5, 1, 4] and last[3].tolist() == [6, 1, 4]
    assert len(rollout.paths) == 5


def test_shards_gather_one_after_the_other_and_each_is_cut_by_the_epoch(gather):
    policy, lengths = Fixed(zero), iter([3, 3, 7, 7])
    rollouts = gather(lambda: Tape(next(lengths)), 5, 2, policy=policy, epochs=2, shards=2)
    assert len(rollouts) == 4 and policy.begun == 4  # each shard begins each epoch by itself
    for rollout in rollouts:
        check_rows(rollout)
    assert [r.obs[0, 0, 0] for r in rollouts] == [3, 7, 3, 7]
    np.testing.assert_array_equal(policy.seen, np.concatenate([r.obs for r in rollouts]))


def test_a_terminal_state_at_max_ep_len_is_stored_as_terminal(gather):
    rollout = gather(lambda: Tape(3), steps=6, max_ep_len=3)
    assert [p.last_obs is None for p in rollout.paths] == [True, True]


@pytest.mark.parametrize("limit, max_ep_len", [(4, 100), (100, 4), (4, 4)])
def test_both_time_limits_are_truncations_that_bootstrap(gather, limit, max_ep_len):
    def env_fn():
        return gym.wrappers.TimeLimit(Tape(50), limit)

    rollout = gather(env_fn, 8, max_ep_len=max_ep_len)
    check_rows(rollout)
    assert paths_of(rollout) == [(0, 0, 4, False), (0, 4, 8, False)]
    assert [p.last_obs.tolist() for p in rollout.paths] == [[50, 1, 4], [50, 2, 4]]
    assert rollout.ep_lens.tolist() == [4, 4]


def test_episodes_continue_from_one_epoch_to_the_next(gather):
    first, second = gather(lambda: Tape(5), 3, epochs=2)
    assert first.obs[:, 0, 2].tolist() == [0, 1, 2] and first.ep_lens.size == 0
    assert second.obs[:, 0, 2].tolist() == [3, 4, 0]
    assert second.ep_rets.tolist() == [10.0] and second.ep_lens.tolist() == [5]


def test_the_policy_is_begun_once_per_epoch_and_called_once_per_step(gather):
    policy = Fixed(zero)
    rollouts = gather(Tape, 5, 3, policy=policy, epochs=2)
    assert policy.begun == 2 and len(policy.seen) == 10
    seen = np.stack(policy.seen).reshape(2, 5, 3, 3)
    np.testing.assert_array_equal(seen, [r.obs for r in rollouts])


# ---- what is stored and what is sent ---------------------------------------------------------


def test_the_raw_action_is_stored_and_the_clipped_one_is_sent(gather):
    low, high = np.array([-1.0, 0.0], np.float32), np.array([3.0, 0.5], np.float32)
    env = Tape(100, actions=spaces.Box(low, high))
    raw = iter(np.array([[-5, -5], [5, 5], [2, 0.25]], np.float32))
    rollout = gather(lambda: env, 3, policy=Fixed(lambda obs, rng: next(raw)[None]))
    assert rollout.act.reshape(3, 2).tolist() == [[-5, -5], [5, 5], [2, 0.25]]
    assert np.array(env.received).tolist() == [[-1, 0], [3, 0.5], [2, 0.25]]
    assert all(env.action_space.contains(a) for a in env.received)


def test_multi_dimensional_actions_are_sent_in_the_shape_of_their_space(gather):
    env = Tape(100, actions=spaces.Box(-1, 1, (2, 3), np.float64))
    flat = np.arange(6, dtype=np.float32)[None] / 10
    rollout = gather(lambda: env, 2, policy=Fixed(lambda obs, rng: flat))
    assert rollout.act.shape == (2, 1, 2, 3) and rollout.act.dtype == np.float32
    assert env.received[0].shape == (2, 3) and env.received[0].dtype == np.float64
    np.testing.assert_allclose(env.received[0], flat.reshape(2, 3))


def test_a_single_number_for_an_action_of_one_dimension_is_sent_as_a_vector(gather):
    # from a user's policy that squeezes its action
    env = Tape(100, actions=spaces.Box(-1, 1, (1,), np.float32))
    policy = Fixed(lambda obs, rng: np.full(len(obs), 5.0, np.float32))
    rollout = gather(lambda: env, 2, policy=policy)
    assert [a.tolist() for a in env.received] == [[1.0], [1.0]]
    assert rollout.act.tolist() == [[[5.0]], [[5.0]]]


def test_discrete_actions_are_stored_as_integers_from_zero(gather):
    env = Tape(100, actions=spaces.Discrete(2, start=5))
    choice = iter([0, 1, 1])
    policy = Fixed(lambda obs, rng: np.array([next(choice)]))
    rollout = gather(lambda: env, 3, policy=policy)
    assert rollout.act.dtype == np.int64 and rollout.act.ravel().tolist() == [0, 1, 1]
    assert [int(a) for a in env.received] == [5, 6, 6]


@pytest.mark.parametrize(
    "space", [spaces.MultiDiscrete([3, 2]), spaces.MultiBinary(3), spaces.MultiBinary((2, 2))]
)
def test_vectors_of_integers_are_stored_and_sent_as_integers(gather, space):
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


def test_images_stay_bytes_in_the_rollout(gather):
    space = spaces.Box(0, 255, (2, 2, 1), np.uint8)
    env = Seen(space, lambda t: np.full((2, 2, 1), 250 + t, np.uint8))
    rollout = gather(lambda: env, 5, max_ep_len=2)
    assert rollout.obs.dtype == np.uint8 and rollout.obs.shape == (5, 1, 2, 2, 1)
    assert rollout.obs[:, 0, 0, 0, 0].tolist() == [250, 251, 250, 251, 250]
    assert rollout.paths[0].last_obs.dtype == np.uint8
    assert rollout.paths[0].last_obs.ravel().tolist() == [252] * 4


def test_discrete_observations_become_one_hot_rows(gather):
    env = Seen(spaces.Discrete(4, start=1), lambda t: t + 1)
    rollout = gather(lambda: env, 3)
    assert rollout.obs.reshape(3, 4).tolist() == np.eye(4)[:3].tolist()


def test_dict_observations_become_flat_rows(gather):
    space = spaces.Dict({"a": spaces.Box(-9, 9, (2,)), "b": spaces.Discrete(3)})
    env = Seen(space, lambda t: {"a": np.array([t, -t], np.float32), "b": min(t, 2)})
    rollout = gather(lambda: env, 3)
    want = [[0, 0, 1, 0, 0], [1, -1, 0, 1, 0], [2, -2, 0, 0, 1]]
    assert rollout.obs.reshape(3, 5).tolist() == want


@pytest.mark.parametrize("n", [1, 3])
def test_estimates_of_one_column_per_row_are_squeezed_on_store(gather, n):
    rollout = gather(lambda: Tape(10), 4, n, policy=Fixed(zero, estimate=True))
    assert rollout.val.shape == rollout.logp.shape == (4, n)
    np.testing.assert_array_equal(rollout.val, rollout.obs[:, :, 2] + 100)
    np.testing.assert_array_equal(rollout.logp, rollout.obs[:, :, 2] - 100)


# ---- by hand ---------------------------------------------------------------------------------


def streams_of(n):
    env = Tape()
    return SimpleNamespace(
        num_envs=n, observation_space=env.observation_space, action_space=env.action_space
    )


def store(rollout, took=None):
    """Append a row of zeros."""
    n = rollout.num_envs if took is None else int(took.sum())
    rollout.store(np.zeros((n, 3)), np.zeros(n), np.zeros(n), took=took)


def test_a_path_keeps_a_copy_of_its_last_observation():
    rollout, obs = Rollout(streams_of(1), 4), np.ones(3)
    store(rollout)
    rollout.finish_path(0, obs)
    obs[:] = 7
    assert rollout.paths[0].last_obs.tolist() == [1, 1, 1]


def test_a_path_without_a_row_is_not_kept():
    rollout = Rollout(streams_of(2), 4)
    rollout.finish_path(0, np.zeros(3))
    store(rollout)
    rollout.finish_path(0, None)
    rollout.finish_path(0, np.zeros(3))  # cut by the epoch where it has just ended
    store(rollout, np.array([False, True]))  # a reset
    rollout.finish_path(0, np.zeros(3))
    rollout.finish_path(1, None)
    assert paths_of(rollout) == [(0, 0, 1, True), (1, 0, 2, True)]


def test_unflat_puts_the_entries_of_flat_back_where_they_were():
    rollout = Rollout(streams_of(2), 3)
    for took in ([True, True], [False, True], [True, False]):
        store(rollout, np.array(took))
    x = np.array([[1.0, 2], [0, 3], [4, 0]])
    assert rollout.flat(x).tolist() == [1, 2, 3, 4]
    np.testing.assert_array_equal(rollout.unflat(rollout.flat(x)), x)


def rewarded(rollout, rew):
    """Append a row with these rewards."""
    n = rollout.num_envs
    rollout.store(np.zeros((n, 3)), np.zeros(n), np.array(rew))


def two_epochs(between=lambda rollout: None):
    """The sums of the second of two epochs, with gamma 0.5; only environment 1 is cut by both."""
    rollout = Rollout(streams_of(2), 2)
    for rew in ((1.0, 8.0), (1.0, 8.0)):
        rewarded(rollout, rew)
    rollout.finish_path(0, np.zeros(3), ended=True)  # a time limit, at the end of the epoch
    rollout.finish_path(1, np.zeros(3), ended=False)
    assert sorted(rollout.discounted_returns(0.5)) == [1, 1.5, 8, 12]
    rollout.clear()
    rollout = between(rollout) or rollout
    rewarded(rollout, (1.0, 8.0))
    rollout.finish_path(1, None)
    rewarded(rollout, (1.0, 8.0))
    rollout.finish_path(0, np.zeros(3), ended=False)
    rollout.finish_path(1, np.zeros(3), ended=False)
    return sorted(rollout.discounted_returns(0.5))


def test_discounted_returns_continue_with_their_episodes_across_epochs():
    assert two_epochs() == [1, 1.5, 8, 14]  # 8 + 0.5 * 12, then a new episode


def test_discounted_returns_continue_after_a_resume():
    def saved_and_loaded(rollout):
        fresh = Rollout(streams_of(2), 2)
        fresh.load_state_dict(copy.deepcopy(rollout.state_dict()))
        return fresh

    assert two_epochs(saved_and_loaded) == two_epochs()


def test_discounted_returns_start_afresh_where_an_episode_was_lost_between_epochs():
    assert two_epochs(lambda rollout: rollout.finish_path(1, np.zeros(3))) == [1, 1.5, 8, 8]


def test_a_rollout_without_sums_of_earlier_epochs_can_be_loaded():
    rollout = Rollout(streams_of(2), 2)
    state = rollout.state_dict()
    del state["earlier"]
    rollout.load_state_dict(state)
    assert rollout.earlier.tolist() == [0, 0]


# ---- stopping in the middle ------------------------------------------------------------------


def random_act(obs, rng):
    return rng.integers(2, size=len(obs))


@pytest.mark.parametrize("estimate", [False, True])
@pytest.mark.parametrize(("stop", "shards"), [(0, 1), (4, 1), (9, 1), (4, 2), (10, 2), (14, 2)])
def test_an_interrupted_rollout_continues_to_the_same_rows(
    in_run, tmp_path, stop, estimate, shards
):
    def gathered(policy, stop=None, **given):
        def body(run):
            loop = Loop(run)
            run.rollouts = [Rollout(streams, 10) for streams in run.streams]
            for _ in run.epochs():
                gather_epoch(loop, policy, stop)
                assert loop.total_steps() == 20 * shards
                return run.rollouts

        settings = {"steps_per_epoch": 20 * shards, "num_envs": 2, "max_ep_len": 4, **given}
        return in_run("ppo", body, lambda: gym.make("CartPole-v1"), shards=shards, **settings)

    folder = {"logger_kwargs": {"output_dir": str(tmp_path / "run"), "quiet": True}}
    wholes = gathered(Fixed(random_act, estimate))
    with pytest.raises(KeyboardInterrupt):
        gathered(Fixed(random_act, estimate), stop, **folder)
    policy = Fixed(random_act, estimate)
    seconds = gathered(policy, resume=True, **folder)

    # A shard in the middle of its epoch takes over the parameters; the later ones begin.
    begun, within = divmod(stop, 10)
    assert policy.renewed == (within > 0) and policy.begun == shards - begun - policy.renewed
    for second, whole in zip(seconds, wholes, strict=True):
        for name in ("obs", "act", "rew", "valid", "val", "logp", "ep_rets", "ep_lens"):
            np.testing.assert_array_equal(getattr(second, name), getattr(whole, name))
        assert paths_of(second) == paths_of(whole) and len(second.paths) == 6
        for one, other in zip(second.paths, whole.paths, strict=True):
            np.testing.assert_array_equal(one.last_obs, other.last_obs)


def test_a_cleared_rollout_starts_from_its_first_row(in_run):
    def body(run):
        loop = Loop(run)
        (rollout,) = run.rollouts = [Rollout(run.streams[0], 6)]
        for epoch in run.epochs():
            assert rollout.t == 0 and rollout.paths == []
            gather_epoch(loop, Fixed(zero))
            if epoch == 1:
                check_rows(rollout)
                assert paths_of(rollout) == [(0, 0, 2, True), (0, 2, 6, True)]

    in_run("ppo", body, lambda: Tape(4), steps_per_epoch=6, epochs=2)


@pytest.mark.parametrize("kind", ["one by one", "vector"])
def test_no_path_continues_in_a_fresh_episode_where_a_run_could_not_be_restored(
    in_run, tmp_path, kind
):
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

    def gathered(stop=None, **given):
        def body(run):
            loop = Loop(run)
            (rollout,) = run.rollouts = [Rollout(run.streams[0], 6)]
            for _ in run.epochs():
                gather_epoch(loop, Fixed(zero), stop)
                return rollout

        folder = {"output_dir": str(tmp_path / "run"), "quiet": True}
        settings = {"steps_per_epoch": 12, "num_envs": 2, "logger_kwargs": folder, **given}
        return in_run("ppo", body, env_fn, **settings)

    with pytest.raises(KeyboardInterrupt):
        gathered(stop=4)
    with pytest.warns(UserWarning, match="fresh episode"):
        rollout = gathered(resume=True)
    assert rollout.t == 6
    for path in rollout.paths:
        steps = rollout.obs[path.start : path.stop, path.i, 2]
        np.testing.assert_array_equal(np.diff(steps), 1)
    cut = [p for p in rollout.paths if p.stop == 4]
    assert [p.last_obs.tolist() for p in cut] == [[9, 1, 4], [9, 11, 4]]

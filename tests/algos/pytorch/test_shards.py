"""Shards: parts of a batch that add up to the whole, whoever works on them."""

import copy
import functools

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from spinup.algos.common.rollout import Rollout
from spinup.algos.pytorch.common import nets
from spinup.algos.pytorch.common.acting import NetPolicy
from spinup.algos.pytorch.common.gradients import Adam
from spinup.algos.pytorch.ppo.ppo import ppo_update
from spinup.algos.pytorch.reinforce.core import rewards_to_go
from spinup.algos.pytorch.reinforce.reinforce import reinforce_update
from spinup.algos.pytorch.trpo.trpo import trpo_update
from spinup.algos.pytorch.vpg.vpg import vpg_update
from spinup.envs.make_streams import make_streams
from spinup.envs.spaces import random_actions
from spinup.parallel.mpi import Shards
from spinup.runs.resuming import Scalar
from spinup.utils.errors import SpinupError
from spinup_lab.probe.environments import EpisodeEnd

ALGOS = ["ppo", "vpg", "trpo", "reinforce"]


def split(batch, count):
    """A batch cut into equal parts, as shards hold it."""
    parts = {k: x.chunk(count) for k, x in batch.items()}
    return [{k: x[i] for k, x in parts.items()} for i in range(count)]


def update(algo, ac, batches, shards):
    pi_optimizer = Adam(ac.pi.parameters(), lr=0.01)
    vf_optimizer = Adam(ac.v.parameters(), lr=0.01)
    if algo == "ppo":
        return ppo_update(
            ac, pi_optimizer, vf_optimizer, batches, shards, train_pi_iters=5, train_v_iters=5
        )
    if algo == "vpg":
        return vpg_update(ac, pi_optimizer, vf_optimizer, batches, shards, train_v_iters=5)
    if algo == "trpo":
        return trpo_update(ac, vf_optimizer, batches, shards, train_v_iters=5)
    return reinforce_update(ac, pi_optimizer, batches, shards)


@pytest.mark.parametrize("algo", ALGOS)
@pytest.mark.parametrize("space", [spaces.Discrete(3), spaces.Box(-1, 1, (2,))])
def test_four_shards_update_as_the_joined_batch_does(mlp_batch, algo, space):
    ac, batch = mlp_batch(space)
    other = copy.deepcopy(ac)
    joined = update(algo, ac, [batch], Shards(1))
    sharded = update(algo, other, split(batch, 4), Shards(4))
    assert set(joined) == set(sharded)
    for key, value in joined.items():
        assert float(sharded[key]) == pytest.approx(float(value), rel=1e-7, abs=1e-10), key
    for p, q in zip(ac.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("algo", ALGOS)
def test_shards_with_unequal_rows_update_as_the_joined_batch_does(mlp_batch, algo):
    ac, batch = mlp_batch(spaces.Box(-1, 1, (2,)))
    other, sizes = copy.deepcopy(ac), (5, 1, 4, 2)
    shards = Shards(4)
    shards.weigh(sizes)
    parts = {k: x.split(sizes) for k, x in batch.items()}
    batches = [{k: x[i] for k, x in parts.items()} for i in range(4)]
    joined, sharded = update(algo, ac, [batch], Shards(1)), update(algo, other, batches, shards)
    for key, value in joined.items():
        assert float(sharded[key]) == pytest.approx(float(value), rel=1e-7, abs=1e-10), key
    for p, q in zip(ac.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-7, atol=1e-9)


class OwnVector(SyncVectorEnv):
    """A vector environment that a user wrote, which is not taken apart: it has steps that reset."""


@pytest.mark.parametrize("algo", ["ppo", "reinforce"])
def test_each_row_of_an_epoch_has_the_same_weight(gather, algo):
    # Both environments reset on the next step: the shorter its episodes, the fewer rows it has.
    def streams_of(length):
        def env_fn():
            env = functools.partial(EpisodeEnd, length=length)
            return OwnVector([env], autoreset_mode=AutoresetMode.NEXT_STEP)

        return make_streams(env_fn, 1, np.random.SeedSequence, 100)

    shards = [streams_of(1), streams_of(5)]
    ac = nets.MLPActorCritic(shards[0].observation_space, shards[0].action_space, (4,))
    buffer = gather(shards, NetPolicy(ac.pi), 12)
    if algo == "ppo":
        batches = buffer.get(ac, 0.9, 0.8)
    else:
        batches = rewards_to_go(buffer, ac, 0.9, Scalar(0.0))
    assert [len(batch["obs"]) for batch in batches] == [6, 10]
    assert float(buffer.shards.mean([np.array(1.0), np.array(0.0)])) == 6 / 16
    adv = torch.cat([batch["adv"] for batch in batches])
    assert float(adv.mean()) == pytest.approx(0, abs=1e-6)


def test_shards_with_equal_rows_are_averaged_to_the_same_bits():
    rng = np.random.default_rng(0)
    for count, rows in ((2, 7), (3, 1333), (5, 10), (7, 3)):
        parts = [rng.normal(size=50).astype(np.float32) for _ in range(count)]
        plain, weighed = Shards(count), Shards(count)
        weighed.weigh([rows] * count)
        assert weighed.mean(parts).tobytes() == plain.mean(parts).tobytes()


@pytest.mark.parametrize("algo", ALGOS)
def test_shards_train_repeatably_and_count_every_step_once(train, algo):
    options = {"shards": 4, "num_envs": 2, "epochs": 2, "steps_per_epoch": 80}
    one, other = (train(algo, "CartPole-v1", **options) for _ in range(2))
    assert one.rows == other.rows
    assert [row["TotalEnvInteracts"] for row in one.rows] == [80, 160]
    for p, q in zip(one.ac.parameters(), other.ac.parameters(), strict=True):
        assert torch.equal(p, q)


def first_steps(in_run, **settings):
    """What each shard's environments observe first, and the first actions that it explores with."""

    def body(run):
        for streams in run.streams:
            streams.start()
        # the environments do not act yet, so only a generator can make a difference
        explored = [random_actions(run.action_space, 50, rng) for rng in run.explore_rngs]
        shuffled = [rng.permutation(50) for rng in run.minibatch_rngs]
        return [streams.obs.copy() for streams in run.streams], explored, shuffled

    return in_run("ppo", body, lambda: gym.make("CartPole-v1"), **settings)


def test_every_shard_has_its_own_environments_and_its_own_generators(in_run):
    seen, *drawn = first_steps(in_run, shards=4, num_envs=2, steps_per_epoch=80)
    starts = np.concatenate(seen)
    assert starts.shape == (8, 4) and len(np.unique(starts, axis=0)) == 8
    for numbers in drawn:
        assert len(np.unique(np.stack(numbers), axis=0)) == 4
    # a shard's own numbers do not depend on how many others there are
    few, *others = first_steps(in_run, shards=2, num_envs=2, steps_per_epoch=80)
    np.testing.assert_array_equal(few, seen[:2])
    np.testing.assert_array_equal(others, [numbers[:2] for numbers in drawn])


def test_shards_explore_differently_in_the_same_states(train, monkeypatch):
    # All environments observe the same, always: only exploration tells the shards apart.
    acts = []
    store = Rollout.store

    def keep(self, obs, act, *rest, **named):
        acts.append(act.tolist())
        store(self, obs, act, *rest, **named)

    monkeypatch.setattr(Rollout, "store", keep)
    train("ppo", "spinup/ProbeTermination-v0", shards=4, steps_per_epoch=80)
    shards = [acts[i : i + 20] for i in range(0, 80, 20)]
    assert len(acts) == 80 and len({str(shard) for shard in shards}) == 4


def test_advantages_are_normalized_over_all_shards_of_an_epoch(gather):
    def streams_of(length):
        env_fn = functools.partial(EpisodeEnd, length=length)
        return make_streams(env_fn, 1, np.random.SeedSequence, 100)

    shards = [streams_of(1), streams_of(30)]  # returns of 1, and of up to 10
    ac = nets.MLPActorCritic(shards[0].observation_space, shards[0].action_space, (4,))
    buffer = gather(shards, NetPolicy(ac.pi), 30)
    for batches in (buffer.get(ac, 0.9, 1.0), rewards_to_go(buffer, ac, 0.9, Scalar(0.0))):
        raw = [b["ret"] - b.get("val", 0.0) for b in batches]  # with lambda 1, the advantages
        joined = torch.cat(raw).double()
        for batch, x in zip(batches, raw, strict=True):
            want = (x.double() - joined.mean()) / joined.std(correction=0)
            torch.testing.assert_close(batch["adv"].double(), want, rtol=1e-3, atol=1e-3)
            assert abs(float(batch["adv"].mean())) > 0.3  # a shard alone is not centered


def test_statistics_of_episodes_are_those_of_all_shards(train):
    # each episode of the probe has length 5 and return 5, in whichever shard
    row = train("ppo", "spinup/ProbeTermination-v0", shards=4, steps_per_epoch=40).rows[0]
    assert (row["AverageEpRet"], row["StdEpRet"], row["EpLen"]) == (5.0, 0.0, 5.0)


@pytest.mark.parametrize("algo", ALGOS)
def test_steps_that_do_not_divide_among_the_shards_are_refused(train, algo):
    with pytest.raises(SpinupError, match="steps_per_epoch=42 does not divide into 4 shards") as e:
        train(algo, "CartPole-v1", steps_per_epoch=42, shards=4)
    assert "40 or 44" in str(e.value) and "\n" not in str(e.value)


@pytest.mark.parametrize("algo", ALGOS)
def test_steps_that_do_not_divide_among_the_environments_are_refused(train, algo):
    with pytest.raises(SpinupError, match="does not divide among 6 environments") as e:
        train(algo, "CartPole-v1", steps_per_epoch=40, shards=2, num_envs=3)
    assert "multiple of 6" in str(e.value) and "\n" not in str(e.value)


def test_a_refused_run_leaves_no_directory_behind(train, tmp_path):
    with pytest.raises(SpinupError):
        train("ppo", "CartPole-v1", steps_per_epoch=42, shards=4)
    assert list(tmp_path.iterdir()) == []

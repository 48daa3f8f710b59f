"""REINFORCE: loss and gradient by hand, and the average return that stands in for a value."""

import copy

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.optim import SGD

from spinup.algos.pytorch.common.acting import NetPolicy
from spinup.algos.pytorch.reinforce.core import MLPPolicy, rewards_to_go
from spinup.algos.pytorch.reinforce.reinforce import compute_loss_pi, reinforce_update
from spinup.envs.make_streams import make_streams
from spinup.parallel.mpi import Shards
from spinup.runs.resuming import Scalar
from spinup_lab.probe.environments import EpisodeEnd, ObservationReward
from tests.helpers.by_hand import TableAC, assert_gradients, score, table_batch

ONE = Shards(1)
PROBS = [[0.5, 0.5], [0.25, 0.75]]
OBS, ACT, ADV = [0, 0, 1, 1], [0, 1, 0, 1], [1.0, -3.0, 2.0, 0.5]


def test_the_loss_of_four_samples_by_hand():
    loss, info = compute_loss_pi(TableAC(PROBS), table_batch(OBS, ACT, ADV, p_old=[0.5] * 4))
    p = np.array([0.5, 0.5, 0.25, 0.75])
    assert float(loss.detach()) == pytest.approx(-np.mean(np.log(p) * ADV), rel=1e-12)
    ratio = p / 0.5
    assert float(info["KL"].detach()) == pytest.approx(np.mean(ratio - 1 - np.log(ratio)))


def test_the_gradient_is_williams():
    ac = TableAC(PROBS)
    compute_loss_pi(ac, table_batch(OBS, ACT, ADV))[0].backward()
    weighted = np.array(ADV)[:, None, None] * score(PROBS, OBS, ACT)
    np.testing.assert_allclose(ac.pi.logits.grad, -weighted.mean(0), rtol=1e-12)


@pytest.mark.parametrize("space", [spaces.Discrete(3), spaces.Box(-1, 1, (2,))])
def test_gradients_of_networks_equal_finite_differences(mlp_batch, space):
    ac, batch = mlp_batch(space, shift=0.05)
    assert_gradients(lambda: compute_loss_pi(ac, batch)[0], ac.pi)


def test_the_update_is_one_step_measured_after_it(mlp_batch):
    ac, batch = mlp_batch(spaces.Box(-1, 1, (2,)))
    other = copy.deepcopy(ac)
    info = reinforce_update(ac, SGD(ac.pi.parameters(), lr=0.1), [batch], ONE)
    loss = -(other.pi(batch["obs"], batch["act"])[1] * batch["adv"]).mean()
    loss.backward()
    SGD(other.pi.parameters(), lr=0.1).step()
    for p, q in zip(ac.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-10, atol=1e-12)
    after = float(compute_loss_pi(ac, batch)[0].detach())
    assert float(info["LossPi"]) == pytest.approx(float(loss.detach()))
    assert float(info["DeltaLossPi"]) == pytest.approx(after - float(loss.detach()))
    assert float(info["KL"]) > 0


@pytest.mark.parametrize("gamma", [0.5, 0.8])
def test_the_baseline_converges_to_the_value_of_an_endless_episode(train, gamma):
    # reward 1 for ever: each epoch the baseline moves by a factor below gamma^(1..5) towards it
    run = train(
        "reinforce", "spinup/ProbeTruncation-v0", gamma=gamma, epochs=30, steps_per_epoch=10
    )
    assert run.rows[0]["Baseline"] < 0.85 / (1 - gamma)
    assert run.rows[-1]["Baseline"] == pytest.approx(1 / (1 - gamma), rel=1e-3)


def test_the_baseline_of_episodes_that_end_is_their_mean_reward_to_go(train):
    run = train("reinforce", "spinup/ProbeTermination-v0", gamma=0.5, epochs=2, steps_per_epoch=10)
    rets = [sum(0.5**k for k in range(left)) for left in (5, 4, 3, 2, 1)]
    assert [row["Baseline"] for row in run.rows] == pytest.approx([np.mean(rets)] * 2, rel=1e-5)


def test_a_policy_alone_acts_steps_and_scores():
    for space in (spaces.Discrete(3), spaces.Box(-1, 1, (2,)), spaces.MultiBinary(2)):
        ac = MLPPolicy(spaces.Box(-1, 1, (3,)), space, hidden_sizes=(4,), orthogonal_init=True)
        obs = torch.randn(5, 3)
        a, v, logp = ac.step(obs)
        assert v.shape == (5,) and (v == 0).all() and a.shape == (5, *space.shape)
        want = ac.pi(obs, torch.as_tensor(a))[1].detach()
        np.testing.assert_allclose(logp, want, rtol=1e-5)
        assert not hasattr(ac, "v")
        best = torch.as_tensor(ac.act(obs, deterministic=True))
        assert (ac.pi(obs, best)[1] >= want - 1e-6).all()
        last = [m for m in ac.pi.modules() if isinstance(m, torch.nn.Linear)][-1]
        assert float(last.weight.detach().norm(dim=1).max()) == pytest.approx(0.01, rel=1e-4)


# ---- rewards-to-go ---------------------------------------------------------------------------


@pytest.fixture
def gathered(gather):
    """A function that makes a policy and lets it gather one epoch, one part per shard."""

    def make(env_fn, steps, shards=1):
        parts = [make_streams(env_fn, 1, np.random.SeedSequence, 100) for _ in range(shards)]
        ac = MLPPolicy(parts[0].observation_space, parts[0].action_space, hidden_sizes=(8,))
        return ac, gather(parts, NetPolicy(ac.pi), steps)

    return make


def standardized(x):
    return (x - x.mean()) / (x.std() + 1e-8)


def test_a_cut_path_continues_with_the_average_return_and_a_dead_one_with_nothing(gathered):
    for end, cut in (("terminated", 0.0), ("truncated", 10.0)):
        ac, buffer = gathered(lambda end=end: EpisodeEnd(end=end, length=3), 3)
        baseline = Scalar(10.0)
        (batch,) = rewards_to_go(buffer, ac, 0.5, baseline)
        want = np.array([1.75 + cut / 8, 1.5 + cut / 4, 1 + cut / 2])
        np.testing.assert_allclose(batch["ret"], want, rtol=1e-6)
        assert baseline.value == pytest.approx(want.mean(), rel=1e-6)
        np.testing.assert_allclose(batch["adv"], standardized(want), rtol=1e-4)


def test_the_baseline_is_the_mean_over_all_shards(gathered):
    ac, buffer = gathered(ObservationReward, 4, shards=2)
    baseline = Scalar(0.0)
    batches = rewards_to_go(buffer, ac, 0.9, baseline)
    rets = np.concatenate([b["ret"] for b in batches])
    assert len(batches) == 2 and baseline.value == pytest.approx(rets.mean(), rel=1e-6)

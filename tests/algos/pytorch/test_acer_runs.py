"""ACER in whole runs: how it acts, what it stores and replays, what it learns."""

import math

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn
from torch.distributions import Categorical

from spinup.algos.pytorch.acer import acer as module
from spinup.algos.pytorch.acer.acer import acer_update
from spinup.algos.pytorch.acer.core import CategoricalBehavior, MLPActorCritic
from spinup.algos.pytorch.common.acting import make_get_action
from spinup.envs import PROBES, make_env
from spinup.utils.errors import SpinupError
from tests.helpers.by_hand import TablePi
from tests.helpers.probes import observations

# ---- acting ----------------------------------------------------------------------------------

OBS = spaces.Box(-1, 1, (3,), np.float32)


def test_mu_is_the_distribution_that_actions_are_sampled_from():
    ac = MLPActorCritic(OBS, spaces.Discrete(4), hidden_sizes=(8,))
    with torch.no_grad():
        ac.pi.logits_net[-2].weight.mul_(5)
    obs = np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32)
    policy, rng = CategoricalBehavior(ac.pi), np.random.default_rng(1)
    state = np.random.get_state()[1].copy()
    counts = np.zeros((3, 4))
    for _ in range(4000):
        counts[np.arange(3), policy(obs, rng)] += 1
    want = ac.pi(torch.as_tensor(obs))[0].probs.detach().numpy()
    np.testing.assert_allclose(np.exp(policy.behavior), want, rtol=1e-5)
    np.testing.assert_allclose(counts / 4000, want, atol=4 * np.sqrt(0.25 / 4000))
    assert want.max() > 0.4
    assert (np.random.get_state()[1] == state).all()  # nothing came from the global generator


def test_mu_belongs_to_the_parameters_that_acted():
    ac = MLPActorCritic(OBS, spaces.Discrete(4), hidden_sizes=(8,))
    obs, rng = np.ones((2, 3), np.float32), np.random.default_rng(0)
    policy = CategoricalBehavior(ac.pi)
    policy(obs, rng)
    first = policy.behavior.copy()
    with torch.no_grad():
        for p in ac.pi.parameters():
            p.add_(torch.randn_like(p))
    policy(obs, rng)
    np.testing.assert_array_equal(policy.behavior, first)
    policy.begin(rng)
    policy(obs, rng)
    want = ac.pi(torch.as_tensor(obs))[0].logits.detach().numpy()
    np.testing.assert_allclose(policy.behavior, want, rtol=1e-4, atol=1e-6)
    assert np.abs(policy.behavior - first).max() > 0.01


def test_a_policy_of_the_users_own_acts_through_torch():
    pi = TablePi(np.log([[0.9, 0.1], [0.2, 0.8]]))
    policy = CategoricalBehavior(nn.Sequential(nn.Flatten(0), Indexed(pi)))
    acts = [policy(np.array([[0], [1]]), np.random.default_rng(i)) for i in range(500)]
    np.testing.assert_allclose(np.exp(policy.behavior), [[0.9, 0.1], [0.2, 0.8]], rtol=1e-6)
    np.testing.assert_allclose(np.mean(acts, 0), [0.1, 0.8], atol=0.07)


class Indexed(nn.Module):
    """Numbers of states that arrive as float32, as every observation does."""

    def __init__(self, pi):
        super().__init__()
        self.pi = pi

    def forward(self, obs):
        return self.pi(obs.long())


def test_the_value_of_a_state_is_the_mean_of_its_action_values():
    ac = MLPActorCritic(OBS, spaces.Discrete(4), hidden_sizes=(8,), orthogonal_init=True)
    obs = torch.randn(5, 3)
    probs, q = ac.pi(obs)[0].probs, ac.q(obs)
    assert q.shape == (5, 4) and float(q.detach().min()) < 0  # no ReLU at the end
    torch.testing.assert_close(ac.v(obs), sum(probs[:, i] * q[:, i] for i in range(4)))
    assert ac.act(obs[0]).shape == () and ac.act(obs).shape == (5,)
    assert (ac.act(obs, deterministic=True) == probs.argmax(-1).numpy()).all()


def test_both_output_layers_of_the_dueling_critic_have_gain_one():
    box = spaces.Box(-1, 1, (2,))
    q = MLPActorCritic(OBS, box, hidden_sizes=(8,), orthogonal_init=True).q
    for net in (q.v_net, q.a_net):
        first, last = (m for m in net.modules() if isinstance(m, torch.nn.Linear))
        assert torch.linalg.matrix_norm(last.weight, 2).item() == pytest.approx(1)
        assert torch.linalg.matrix_norm(first.weight, 2).item() == pytest.approx(2**0.5)


# ---- whole runs ------------------------------------------------------------------------------

SMALL = {"n_steps": 5, "num_test_episodes": 0}


@pytest.fixture
def updates(monkeypatch):
    """Every (actor-critic, batch) that an update gets, as it was before the update."""
    seen = []

    def spy(ac, pi_avg, pi_optimizer, q_optimizer, batch, **kwargs):
        with torch.no_grad():
            pi = ac.pi(batch["obs"])[0].logits
        seen.append(({k: x.clone() for k, x in batch.items()}, pi))
        return acer_update(ac, pi_avg, pi_optimizer, q_optimizer, batch, **kwargs)

    monkeypatch.setattr(module, "acer_update", spy)
    return seen


def test_fresh_data_is_on_policy_and_replayed_data_keeps_the_mu_of_its_time(train, updates):
    train("acer", "CartPole-v1", **SMALL, epochs=3, pi_lr=0.05, num_envs=2, replay_ratio=3.0)
    gaps = [float((pi - batch["logmu"]).abs().max()) for batch, pi in updates]
    fresh = [i for i, gap in enumerate(gaps) if gap < 1e-5]
    # 12 segments of 5 steps in 2 environments; the rest are replays, most of older policies
    assert len(fresh) >= 12 and fresh[0] == 0 and len(gaps) > 30
    assert sum(gap > 0.01 for gap in gaps) > 10


def test_no_stored_transition_crosses_an_episode(train, updates):
    train("acer", "CartPole-v1", **SMALL, epochs=3, steps_per_epoch=120, num_envs=3, max_ep_len=15)
    ends = 0
    for batch, _ in updates:
        going_on = (batch["ended"][:-1] == 0).unsqueeze(-1)
        assert torch.equal(batch["obs2"][:-1] * going_on, batch["obs"][1:] * going_on)
        first = batch["obs"][1:][batch["ended"][:-1] == 1]
        assert (first.abs() <= 0.05).all()  # where CartPole begins
        last = batch["obs2"][batch["done"] == 1]
        assert ((last[:, 0].abs() > 2.4) | (last[:, 2].abs() > 0.2094)).all()
        assert (batch["ended"] >= batch["done"]).all()
        ends += int((batch["ended"] - batch["done"]).sum())
    assert ends > 5  # cut by max_ep_len


def test_an_epoch_without_an_update_logs_nan(train):
    rows = train("acer", "CartPole-v1", n_steps=30, steps_per_epoch=20, epochs=3).rows
    finite = [math.isfinite(row["LossQ"]) for row in rows]
    assert finite == [False, True, True]
    assert all(math.isfinite(row["AverageTestEpRet"]) for row in rows)


def test_a_segment_may_span_two_epochs(train, updates):
    train("acer", "CartPole-v1", n_steps=30, steps_per_epoch=20, epochs=3, replay_ratio=0.0)
    assert [len(batch["obs"]) for batch, _ in updates] == [30, 30]


def test_no_replay_is_an_actor_critic_on_its_own_data(train, updates):
    train("acer", "CartPole-v1", **SMALL, replay_ratio=0.0, num_envs=2)
    assert len(updates) == 4
    for batch, pi in updates:
        torch.testing.assert_close(pi, batch["logmu"], rtol=1e-4, atol=1e-5)


class OwnPi(nn.Module):
    """Logits of a linear layer."""

    def __init__(self, dim, n):
        super().__init__()
        self.linear = nn.Linear(dim, n)

    def forward(self, obs, act=None):
        pi = Categorical(logits=self.linear(obs))
        return pi, None if act is None else pi.log_prob(act)


class Own(nn.Module):
    """What a user writes: `pi` gives a distribution with logits, `q` the values of all actions."""

    def __init__(self, observation_space, action_space):
        super().__init__()
        dim, n = observation_space.shape[0], int(action_space.n)
        self.pi, self.q = OwnPi(dim, n), nn.Linear(dim, n)

    def act(self, obs, deterministic=False):
        return int(self.pi(obs)[0].logits.argmax())


def test_networks_of_the_users_own_train(train, updates):
    settings = {**SMALL, "epochs": 2, "num_envs": 2, "num_test_episodes": 1, "replay_ratio": 1.0}
    runs = [train("acer", "CartPole-v1", actor_critic=Own, **settings) for _ in range(2)]
    assert runs[0].rows == runs[1].rows and math.isfinite(runs[0].rows[-1]["LossQ"])
    batch, pi = updates[0]
    torch.testing.assert_close(pi, batch["logmu"], rtol=1e-4, atol=1e-5)


def test_learning_rates_fall_to_zero_over_the_run(train, monkeypatch):
    seen = []

    def spy(ac, pi_avg, pi_optimizer, q_optimizer, batch, **kwargs):
        seen.append([x.param_groups[0]["lr"] for x in (pi_optimizer, q_optimizer)])
        return acer_update(ac, pi_avg, pi_optimizer, q_optimizer, batch, **kwargs)

    monkeypatch.setattr(module, "acer_update", spy)
    settings = {**SMALL, "epochs": 4, "steps_per_epoch": 5, "replay_ratio": 0.0}
    train("acer", "CartPole-v1", **settings, anneal_lr=True, pi_lr=0.4, q_lr=0.8)
    np.testing.assert_allclose(seen, [[0.4, 0.8], [0.3, 0.6], [0.2, 0.4], [0.1, 0.2]])


def test_resets_of_a_vector_environment_are_not_counted(train):
    run = train(
        "acer",
        lambda: gym.make_vec("CartPole-v1", num_envs=2),
        **SMALL,
        epochs=2,
        steps_per_epoch=100,
        max_ep_len=600,
    )
    counts = [row["TotalEnvInteracts"] for row in run.rows]
    assert 0 < counts[0] < 100 and 0 < counts[1] - counts[0] < 100
    assert all(math.isfinite(row["LossQ"]) for row in run.rows)


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_steps": 0},
        {"n_steps": 2.5},
        {"n_steps": True},
        {"replay_ratio": -1.0},
        {"replay_ratio": math.inf},
        {"c": -0.1},
        {"c": math.nan},
        {"delta": -1.0},
        {"delta": "1"},
        {"replay_size": 0},
        {"replay_size": 9, "n_steps": 5, "num_envs": 2},
    ],
    ids=str,
)
def test_a_wrong_value_is_one_sentence_that_names_it(train, wrong):
    with pytest.raises(SpinupError, match=next(iter(wrong))) as error:
        train("acer", "CartPole-v1", **wrong)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "env", ["spinup/ProbeActionMultiDiscrete-v0", "spinup/ProbeActionMultiBinary-v0"]
)
def test_other_kinds_of_actions_are_refused(train, env):
    with pytest.raises(SpinupError, match="acer"):
        train("acer", env)


@pytest.mark.parametrize(
    "probe", [p for p in PROBES if p.actions in ("Discrete", "DiscreteFrom5")], ids=lambda p: p.id
)
def test_a_probe_is_learned(train, probe):
    gamma = 0.5
    run = train(
        "acer",
        probe.id,
        ac_kwargs={"hidden_sizes": (16,)},
        gamma=gamma,
        num_envs=4,
        n_steps=5,
        steps_per_epoch=160,
        epochs=8 if "Termination" in probe.id else 5,  # five values to tell apart, not one or two
        pi_lr=0.05,
        q_lr=0.1,
        ent_coef=0.0,
        anneal_lr=True,
        max_ep_len=100,
        num_test_episodes=0,
    )
    env = make_env(probe.id)
    get_action = make_get_action(run.ac, deterministic=True)
    for o in observations(probe.id):
        value = float(run.ac.v(torch.as_tensor(o)).detach())
        assert value == pytest.approx(env.unwrapped.true_value(o, gamma), abs=0.1), f"V({o})"
        if probe.learns_action:
            best = env.unwrapped.optimal_action(o) - getattr(env.action_space, "start", 0)
            assert get_action(o) == best

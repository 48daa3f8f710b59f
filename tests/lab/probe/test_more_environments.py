"""Probes of sequences, neighbors and misleading rewards: their known answers are what they pay."""

import itertools
import math
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from spinup.envs import adapt_env, make_env
from spinup.envs.registration import MORE_PROBES, PROBES
from spinup_lab.probe.more_environments import (
    ActionSequence,
    DelayedAction,
    ManyActions,
    Neighbours,
    NoisyReward,
    OldData,
    Scale,
    Temperature,
)

IDS = [probe.id for probe in MORE_PROBES]
GAMMA = 0.5
RANDOM = ("NoisyReward", "ManyActions")  # rewards differ from their mean, which is tested below


def best_policy(env):
    def policy(o):
        a = env.unwrapped.optimal_action(o)
        return env.action_space.sample() if a is None else a

    return policy


def episode(env, seed, policy):
    """Observations (the final one included), actions, rewards, and the last two flags."""
    o, _ = env.reset(seed=seed)
    obs, acts, rews = [o], [], []
    while True:
        a = policy(o)
        o, r, terminated, truncated, _ = env.step(a)
        obs.append(o)
        acts.append(a)
        rews.append(r)
        if terminated or truncated:
            return obs, acts, rews, terminated, truncated


def test_every_probe_has_its_own_id_and_an_older_one_keeps_its_own():
    assert len(IDS) == 20 and not set(IDS) & {probe.id for probe in PROBES}
    assert all(i in gymnasium.registry for i in (*IDS, "spinup/ProbeGoal4-v0"))


@pytest.mark.parametrize(
    "probe", [p for p in MORE_PROBES if p.class_name not in RANDOM], ids=lambda p: p.id
)
def test_true_value_is_the_discounted_return_of_the_best_policy(probe):
    env = make_env(probe.id)
    for seed in range(6):
        obs, _, rews, terminated, _ = episode(env, seed, best_policy(env))
        ret = 0.0 if terminated else env.unwrapped.true_value(obs[-1], GAMMA)
        for o, r in zip(obs[-2::-1], rews[::-1], strict=True):
            ret = r + GAMMA * ret
            assert env.unwrapped.true_value(o, GAMMA) == pytest.approx(ret, abs=1e-5)


@pytest.mark.parametrize("probe_id", IDS)
def test_probes_are_seeded_pass_the_checker_and_need_no_adapter(probe_id):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*different from the unwrapped version.*")
        check_env(gymnasium.make(probe_id).unwrapped, skip_render_check=True)
    env = make_env(probe_id)
    assert adapt_env(env) is env

    def run(seed):
        env.action_space.seed(0)
        runs = [episode(env, seed + i, lambda o: env.action_space.sample()) for i in range(20)]
        return [(np.array(obs).tolist(), rews) for obs, _, rews, _, _ in runs]

    assert run(0) == run(0)


@pytest.mark.parametrize("cls", [ActionSequence, DelayedAction, OldData, Scale])
@pytest.mark.parametrize("actions", ["Discrete", "Box"])
def test_no_action_is_worth_more_than_the_optimal_one(cls, actions):
    env = cls(actions)
    env.action_space.seed(1)
    for seed in range(10):
        obs, acts, rews, _, _ = episode(env, seed, lambda o: env.action_space.sample())
        for o, a, r, o2 in zip(obs, acts, rews, obs[1:], strict=False):
            q, best = env.true_q(o, a, GAMMA), env.true_value(o, GAMMA)
            assert q <= best + 1e-6
            if env.optimal_action(o) is not None:
                assert env.true_q(o, env.optimal_action(o), GAMMA) == pytest.approx(best)
            last = np.array_equal(o2, obs[-1]) and r == rews[-1]
            if not last and cls is not DelayedAction:  # Bellman's equation, under the best policy
                assert q == pytest.approx(r + GAMMA * env.true_value(o2, GAMMA), abs=1e-5)


def test_values_of_a_sequence_by_hand():
    env = ActionSequence()
    for step, value in enumerate((1.9375, 1.875, 1.75, 1.5, 1.0), 1):
        for sign, best in ((1, 1), (-1, 0)):
            o = np.float32([sign * step / 5])
            assert env.true_value(o, 0.5) == value and env.optimal_action(o) == best
    assert env.true_q(np.float32([0.2]), 0, 0.5) == -1 + 0.5 * 1.875
    obs, *_ = episode(env, 3, env.optimal_action)
    assert [round(5 * abs(float(o[0]))) for o in obs] == [1, 2, 3, 4, 5, 5]
    signs = {tuple(np.sign(o[0]) for o in episode(env, s, lambda o: 0)[0]) for s in range(9)}
    assert len(signs) > 5  # a new sign at each step


def test_a_delayed_reward_by_hand():
    env = DelayedAction()
    for first, r in ((1, 1.0), (0, -1.0)):
        actions = itertools.chain([first], itertools.cycle([0, 1]))
        obs, _, rews, terminated, _ = episode(env, 0, lambda o, actions=actions: next(actions))
        assert rews == [0.0, 0.0, r] and terminated
        np.testing.assert_allclose(obs, [[0, 0], [r, 1 / 3], [r, 2 / 3], [r, 1]], atol=1e-6)
        assert [env.true_value(o, 0.5) for o in obs[1:3]] == [0.5 * r, r]
        assert env.true_q(obs[0], first, 0.5) == 0.25 * r
    assert env.true_value(np.zeros(2), 0.5) == 0.25
    box = DelayedAction("Box")
    assert box.true_q(np.zeros(2), np.float32([0.5]), 0.5) == 0.25
    assert box.true_q(np.zeros(2), np.float32([-1.0]), 0.5) == -0.25  # 1 - 1.5^2, but at least -1


def test_neighbors_have_values_of_their_own():
    ends, cut = Neighbours(), Neighbours(end="truncated")
    for x, value in ((0.5, 3.0), (1.0, 2.0), (-0.5, 0.0), (-1.0, 0.0)):
        assert ends.true_value(np.float32([x]), 0.5) == value
    assert [cut.true_value(np.float32([x]), 0.5) for x in (1.0, -1.0)] == [4.0, 0.0]
    assert cut.true_value(np.ones(1), 1.0) == float("inf")
    kinds = {tuple(episode(ends, seed, lambda o: 0)[2]) for seed in range(20)}
    assert kinds == {(2.0, 2.0), (0.0, 0.0)}
    assert episode(ends, 0, lambda o: 0)[3:] == (True, False)
    assert episode(cut, 0, lambda o: 0)[3:] == (False, True)
    with pytest.raises(ValueError, match="forever"):
        Neighbours(end="forever")


def test_noise_has_its_mean_and_its_spread():
    env = NoisyReward()
    rews = [episode(env, seed, lambda o: 0)[2][0] for seed in range(4000)]
    assert np.mean(rews) == pytest.approx(0.5, abs=0.05) == env.true_value(np.zeros(1), 0.5)
    assert np.std(rews) == pytest.approx(1.0, abs=0.06) and np.median(rews) == 0
    env = ManyActions()
    assert env.action_space.n == 20 and env.true_value(np.zeros(1), 0.5) == 0
    rews = np.array([episode(env, seed, lambda o: 3)[2] for seed in range(3000)])
    assert (rews[:, 0] == 0).all() and abs(rews[:, 1].mean()) < 0.06
    assert rews[:, 1].std() == pytest.approx(1.0, abs=0.05)


def test_other_units_change_no_decision():
    env = Scale()
    assert {float(env.reset(seed=s)[0][0]) for s in range(9)} == {-1000.0, 1000.0}
    assert env.true_value(np.float32([1000]), 0.5) == 100
    assert env.true_q(np.float32([-1000]), 1, 0.5) == -100
    far = Scale("Box", center=50.0, spread=1.0, reward=0.01)
    assert {float(far.reset(seed=s)[0][0]) for s in range(9)} == {49.0, 51.0}
    assert far.optimal_action(np.float32([49])) == np.float32([-0.5])
    assert far.true_q(np.float32([51]), np.float32([-0.5]), 0.5) == pytest.approx(-0.01)


def test_indifference_has_the_entropy_of_two_actions():
    env = Temperature()
    assert env.true_value(np.zeros(1), 0.5) == 2.0
    assert env.true_soft_value(0.5, 0.4) == pytest.approx(2 + 0.4 * math.log(2))


def test_old_actions_do_not_count():
    env = OldData()
    assert [env.true_value(np.float32([x]), 0.5) for x in (0, 1)] == [0.5, 1.0]
    assert env.optimal_action(np.zeros(1)) is None and env.optimal_action(np.ones(1)) == 1
    assert [env.true_q(np.ones(1), a, 0.5) for a in (0, 1)] == [-1.0, 1.0]
    assert episode(env, 0, lambda o: 0)[2] == [0.0, -1.0]


def test_death_at_the_limit_sets_both_flags():
    env = make_env("spinup/ProbeDeathAtLimit-v0")
    assert episode(env, 0, lambda o: 0)[3:] == (True, True)


@pytest.mark.parametrize("n", [4, 12])
def test_goals_have_values_by_their_distance(n):
    env = make_env(f"spinup/ProbeGoal{n}-v0").unwrapped
    for seed in range(5):
        obs, _, rews, terminated, _ = episode(env, seed, env.optimal_action)
        assert terminated and len(rews) == np.sum(obs[0]["observation"] != obs[0]["desired_goal"])
        ret = 0.0
        for o, r in zip(obs[-2::-1], rews[::-1], strict=True):
            ret = r + GAMMA * ret
            assert env.true_value(o, GAMMA) == pytest.approx(ret)
    assert env.true_value(obs[-1], GAMMA) == 0 and env.optimal_action(obs[-1]) is None
    three = {"observation": np.zeros(n), "desired_goal": np.r_[1, 1, 1, np.zeros(n - 3)]}
    assert env.true_value(three, 0.5) == -1.5 and env.optimal_action(three) == 0

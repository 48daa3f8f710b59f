"""The probes' known answers agree with what their episodes really pay."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from spinup.envs import PROBES, adapt_env, make_env
from spinup.envs.registration import register
from spinup_lab.probe.environments import ActionReward, EpisodeEnd
from tests.helpers.processes import run_python

IDS = [probe.id for probe in PROBES]
GAMMA = 0.9


def episode(env, seed, policy):
    """Observations (the final one included), rewards, and the last two flags."""
    o, _ = env.reset(seed=seed)
    obs, rews = [o], []
    while True:
        o, r, terminated, truncated, _ = env.step(policy(o))
        obs.append(o)
        rews.append(r)
        if terminated or truncated:
            return obs, rews, terminated, truncated


def best_policy(env):
    def policy(o):
        a = env.unwrapped.optimal_action(o)
        return env.action_space.sample() if a is None else a

    return policy


def test_probes_cover_every_kind_of_action_and_have_their_own_ids():
    assert len(set(IDS)) == len(IDS)
    kinds = {type(gymnasium.make(i).action_space) for i in IDS}
    assert kinds == {spaces.Discrete, spaces.Box, spaces.MultiDiscrete, spaces.MultiBinary}
    for name in ("Constant", "Observation", "TwoStep", "Truncation", "Termination", "Action"):
        assert f"spinup/Probe{name}-v0" in IDS


@pytest.mark.parametrize("probe", PROBES, ids=IDS)
def test_true_value_is_the_discounted_return_of_the_best_policy(probe):
    env = make_env(probe.id)
    for seed in range(4):
        obs, rews, terminated, _ = episode(env, seed, best_policy(env))
        # A cut episode goes on with the value of its final observation.
        ret = 0.0 if terminated else env.unwrapped.true_value(obs[-1], GAMMA)
        for o, r in zip(obs[-2::-1], rews[::-1], strict=True):
            ret = r + GAMMA * ret
            assert env.unwrapped.true_value(o, GAMMA) == pytest.approx(ret, abs=1e-6)


@pytest.mark.parametrize("probe", [p for p in PROBES if p.learns_action], ids=lambda p: p.id)
def test_no_action_beats_the_optimal_one(probe):
    env = make_env(probe.id)
    env.action_space.seed(0)
    best = env.unwrapped
    for seed in range(40):
        o, _ = env.reset(seed=seed)
        a = env.action_space.sample()
        _, r, terminated, _, _ = env.step(a)
        assert terminated and r == pytest.approx(best.true_q(o, a, GAMMA))
        assert r <= best.true_value(o, GAMMA)
        optimal = best.optimal_action(o)
        assert env.action_space.contains(optimal)
        assert (r == best.true_value(o, GAMMA)) == np.array_equal(a, optimal)


def test_observation_decides_the_best_action_only_where_it_should():
    for probe in PROBES:
        if probe.learns_action:
            env = make_env(probe.id).unwrapped
            best = [np.asarray(env.optimal_action(np.array([o]))) for o in (-1.0, 1.0)]
            assert np.array_equal(*best) == (probe.class_name == "ActionReward")


@pytest.mark.parametrize("probe_id", IDS)
def test_the_same_seed_gives_the_same_episodes(probe_id):
    def run(seed):
        env = make_env(probe_id)
        env.action_space.seed(seed)
        policy = lambda o: env.action_space.sample()  # noqa: E731
        runs = [episode(env, seed, policy)] + [episode(env, None, policy) for _ in range(20)]
        return [(np.array(obs).tolist(), rews) for obs, rews, _, _ in runs]

    assert run(0) == run(0)
    if "Observation" in probe_id:
        assert run(0) != run(1)


@pytest.mark.parametrize("probe_id", IDS)
def test_probes_pass_gymnasiums_checker_and_need_no_adapter(probe_id):
    with warnings.catch_warnings():
        # The checker would rather see actions in [-1, 1]; other bounds are what is probed.
        warnings.filterwarnings("ignore", ".*symmetric and normalized space.*")
        warnings.filterwarnings("ignore", ".*different from the unwrapped version.*")
        check_env(gymnasium.make(probe_id).unwrapped, skip_render_check=True)
    env = make_env(probe_id)
    if "From5" not in probe_id:
        assert adapt_env(env) is env


def test_termination_and_truncation_are_told_apart():
    env = make_env("spinup/ProbeTermination-v0")
    assert episode(env, 0, best_policy(env))[2:] == (True, False)
    env = make_env("spinup/ProbeTruncation-v0")
    assert episode(env, 0, best_policy(env))[2:] == (False, True)
    # A state that really is terminal stays so on the step on which a time limit strikes as well.
    env = make_env("spinup/ProbeTermination-v0", max_episode_steps=5)
    assert episode(env, 0, best_policy(env))[2:] == (True, True)


def test_a_time_limit_around_the_environment_is_a_truncation():
    env = make_env("spinup/ProbeTimeLimit-v0")
    obs, rews, terminated, truncated = episode(env, 0, best_policy(env))
    assert (len(rews), terminated, truncated) == (5, False, True)
    assert env.unwrapped.true_value(obs[-1], GAMMA) == pytest.approx(10.0)


def test_values_of_episode_ends_by_hand():
    cut, ends = EpisodeEnd(end="truncated"), EpisodeEnd(end="terminated", length=3)
    assert cut.true_value(np.zeros(1), 0.5) == 2.0
    assert cut.true_value(np.zeros(1), 1.0) == float("inf")
    for t, value in enumerate((1.75, 1.5, 1.0, 0.0)):
        assert ends.true_value(np.array([t / 3], np.float32), 0.5) == value


def test_actions_outside_asymmetric_bounds_are_refused():
    env = make_env("spinup/ProbeActionAsymmetric-v0")
    for a, fits in (
        ([3.0, 0.5], True),
        ([-1.0, 0.0], True),
        (np.array([2.5, 0.4]), True),  # float64 is fine
        ([3.0, 3.0], False),  # what scaling every dimension by high[0] does
        ([-3.0, 0.2], False),  # what taking the bounds for symmetric does
        ([0.0], False),
    ):
        env.reset(seed=0)
        if fits:
            env.step(np.array(a))
        else:
            with pytest.raises(ValueError, match="not in the action space"):
                env.step(np.array(a))


@pytest.mark.parametrize(
    "probe_id, a",
    [
        ("spinup/ProbeAction-v0", 2),
        ("spinup/ProbeAction-v0", 0.5),
        ("spinup/ProbeActionDiscreteFrom5-v0", 0),
        ("spinup/ProbeActionMultiDiscrete-v0", np.array([0, 2])),
        ("spinup/ProbeActionMultiBinary-v0", np.array([0, 2, 0])),
    ],
)
def test_discrete_actions_outside_the_space_are_refused(probe_id, a):
    env = make_env(probe_id)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="not in the action space"):
        env.step(a)


def test_a_step_after_the_end_is_an_error():
    env = make_env("spinup/ProbeConstant-v0").unwrapped
    with pytest.raises(RuntimeError, match="reset"):
        env.step(0)
    env.reset(seed=0)
    env.step(0)
    with pytest.raises(RuntimeError, match="reset"):
        env.step(0)


def test_unknown_kinds_are_errors():
    with pytest.raises(ValueError, match="Graph"):
        ActionReward(actions="Graph")
    with pytest.raises(ValueError, match="forever"):
        EpisodeEnd(end="forever")


def test_registering_twice_is_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        register()


def test_importing_the_package_imports_no_framework():
    code = (
        "import sys, spinup.envs; "
        "print(sorted({'torch', 'tensorflow', 'mpi4py', 'mujoco', 'pygame'} & set(sys.modules)))"
    )
    out = run_python("-c", code)
    assert out.stdout.strip() == "[]"

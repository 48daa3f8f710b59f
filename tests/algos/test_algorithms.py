"""What holds for every training function: seeds, arguments, logs, and the policy that is saved."""

import copy
import inspect
import json
import math

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from spinup import registry
from spinup.algos.pytorch.common.acting import make_get_action
from spinup.envs import make_env, space_from_json
from spinup.policies.networks import load_actor_critic
from spinup.policies.saved import load_policy
from spinup.utils.errors import SpinupError
from tests.helpers.odd import Odd

ALGOS = list(registry.algorithms())
ON_POLICY = [row.name for row in registry.ROWS if row.on_policy]
OFF_POLICY = [row.name for row in registry.ROWS if not row.on_policy]


def weights(run):
    return [p.detach().clone() for p in run.ac.parameters()]


def equal(one, other):
    return all(torch.equal(p, q) for p, q in zip(one, other, strict=True))


# ---- seeds -----------------------------------------------------------------------------------


@pytest.mark.parametrize("algo", ALGOS)
def test_the_same_seed_repeats_and_another_does_not(train, algo):
    runs = [train(algo, None, seed=s, epochs=2, num_envs=2) for s in (0, 0, 1)]
    assert runs[0].rows == runs[1].rows and equal(weights(runs[0]), weights(runs[1]))
    assert runs[0].rows != runs[2].rows and not equal(weights(runs[0]), weights(runs[2]))


@pytest.mark.parametrize("algo", ALGOS)
def test_nothing_depends_on_what_others_drew_before(train, algo):
    one = train(algo, None, seed=5)
    torch.randn(100)
    np.random.random(100)
    assert train(algo, None, seed=5).rows == one.rows


def test_seed_zero_is_a_seed(train):
    seen = []

    class Watch(gym.Wrapper):
        def reset(self, *, seed=None, options=None):
            seen.append(seed)
            return self.env.reset(seed=seed, options=options)

    train("ppo", lambda: Watch(gym.make("CartPole-v1")), seed=0, steps_per_epoch=24, max_ep_len=6)
    assert len(seen) >= 5 and None not in seen and len(set(seen)) == len(seen)


@pytest.mark.parametrize("seed", [-1, 1.5, True, "0", None])
def test_a_seed_that_is_none_is_refused(train, seed):
    with pytest.raises(SpinupError, match="seed="):
        train("ppo", "CartPole-v1", seed=seed)


def test_the_first_weights_depend_only_on_the_seed(train):
    one = train("ppo", "CartPole-v1", epochs=1, train_pi_iters=0, train_v_iters=0)
    other = train(
        "ppo", "CartPole-v1", epochs=1, train_pi_iters=0, train_v_iters=0, num_envs=4, shards=2
    )
    assert equal(weights(one), weights(other))


# ---- arguments -------------------------------------------------------------------------------


@pytest.mark.parametrize("algo", ALGOS)
def test_arguments_come_out_as_they_went_in(train, tmp_path, algo):
    function = registry.load(algo)
    defaults = {k: p.default for k, p in inspect.signature(function).parameters.items()}
    before = copy.deepcopy(defaults)
    ac_kwargs = {"hidden_sizes": [8], "activation": torch.nn.ReLU}
    logger_kwargs = {"output_dir": str(tmp_path / "mine"), "quiet": True, "exp_name": "x"}
    given = copy.deepcopy(ac_kwargs), copy.deepcopy(logger_kwargs)
    train(
        algo,
        None,
        ac_kwargs=ac_kwargs,
        logger_kwargs=logger_kwargs,
        steps_per_epoch=20,
        max_ep_len=10,
    )
    assert (ac_kwargs, logger_kwargs) == given
    after = {k: p.default for k, p in inspect.signature(function).parameters.items()}
    assert after == before


def test_a_run_leaves_the_number_of_threads_as_it_was(train):
    before = torch.get_num_threads()
    train("ppo", "CartPole-v1", num_threads=before + 1)
    assert torch.get_num_threads() == before


# One other value for each argument that decides what is computed.
OTHER = {
    "gamma": 0.5,
    "clip_ratio": 0.001,
    "pi_lr": 0.1,
    "vf_lr": 0.1,
    "train_pi_iters": 7,
    "train_v_iters": 7,
    "lam": 0.1,
    "max_ep_len": 7,
    "target_kl": 1e-9,
    "minibatch_size": 10,
    "ent_coef": 1.0,
    "clip_vf": 1e-3,
    "max_grad_norm": 1e-3,
    "anneal_lr": True,
    "delta": 0.2,
    "damping_coeff": 5.0,
    "cg_iters": 1,
    "backtrack_iters": 0,
    "backtrack_coeff": 0.3,
    "steps_per_epoch": 60,
    "epochs": 3,
    "seed": 9,
    "num_envs": 2,
    "shards": 2,
    "ac_kwargs": {"hidden_sizes": (9,)},
    "replay_size": 24,
    "polyak": 0.7,
    "q_lr": 0.1,
    "lr": 0.1,
    "alpha": 0.7,
    "target_entropy": 1.5,
    "batch_size": 5,
    "start_steps": 3,
    "update_after": 30,
    "update_every": 4,
    "updates_per_step": 0.25,
    "act_noise": 0.5,
    "target_noise": 0.9,
    "noise_clip": 0.01,
    "policy_delay": 3,
    "target_update_every": 3,
    "eps_start": 0.3,
    "eps_end": 0.9,
    "eps_steps": 7,
    "double_q": False,
    "loss": "squared",
    "n_step": 2,
    "prioritized": False,
    "prio_alpha": 0.2,
    "prio_beta": 0.9,
    "prio_beta_steps": 3,
    "n_steps": 5,
    "replay_ratio": 1.0,
    "c": 0.5,
    "strategy": "final",
    "k": 1,
    "base": "sac",
    "base_kwargs": {"double_q": False},
}
QUICK = {"num_test_episodes": 0, "updates_per_step": 0.5}
# Settings in which each argument matters: steps large enough to be clipped, stopped, searched, and
# options that others are about switched on.
SENSITIVE = {
    "ppo": {"pi_lr": 0.05, "train_pi_iters": 5, "target_kl": 0.5},
    "trpo": {"delta": 2.0, "damping_coeff": 1e-3, "backtrack_coeff": 0.8},
    "sac": {"alpha": "auto"},
    "dqn": {
        "prioritized": True,
        "target_update_every": 10,
        "eps_steps": 40,
        "q_lr": 0.3,
        "anneal_lr": False,
    },
    "acer": {"n_steps": 4, "pi_lr": 0.05, "q_lr": 0.05, "delta": 1e-3, "replay_ratio": 2.0},
}
# What says where, how or on what a run is carried out, and is held by other tests.
ELSEWHERE = {
    "env_fn",
    "actor_critic",
    "logger_kwargs",
    "save_freq",
    "vector",
    "num_threads",
    "device",
    "resume",
    "overwrite",
    "progress",
    "on_epoch",
    "save_best",
    "algo",
    "num_test_episodes",
    "compile",
    "dueling_samples",
}


@pytest.mark.parametrize("algo", ALGOS)
def test_every_argument_is_used(train, algo):
    row = registry.get(algo)
    env = "Acrobot-v1" if row.on_policy else None
    base = {"epochs": 2, "max_ep_len": 12, **SENSITIVE.get(algo, {})}
    known = inspect.signature(registry.load(algo)).parameters
    base |= {k: v for k, v in QUICK.items() if k in known}
    want = weights(train(algo, env, **base))
    names = set(known) - ELSEWHERE
    assert names <= set(OTHER), "an argument without a test"
    for name in sorted(names - (set() if row.mpi else {"shards"})):
        got = weights(train(algo, env, **{**base, name: OTHER[name]}))
        same = len(got) == len(want) and all(
            p.shape == q.shape and torch.equal(p, q) for p, q in zip(got, want, strict=True)
        )
        assert not same, f"{name} changes nothing"


def test_an_unknown_argument_is_refused(train):
    with pytest.raises(TypeError, match="clip_ration"):
        train("ppo", "CartPole-v1", clip_ration=0.2)
    with pytest.raises(SpinupError, match="hiden_sizes"):
        train("ppo", "CartPole-v1", ac_kwargs={"hiden_sizes": (8,)})


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps_per_epoch": 0},
        {"steps_per_epoch": 40.5},
        {"epochs": -1},
        {"save_freq": 0},
        {"num_threads": 0},
        {"num_envs": 0},
        {"max_ep_len": 0},
        {"vector": "threads"},
        {"device": "abacus"},
    ],
    ids=lambda w: next(iter(w)),
)
def test_a_wrong_value_is_one_sentence_before_anything_is_written(train, tmp_path, wrong):
    (name,) = wrong
    with pytest.raises(SpinupError, match=name) as error:
        train("ppo", "CartPole-v1", **wrong)
    assert "\n" not in str(error.value) and list(tmp_path.iterdir()) == []


def test_a_whole_number_may_be_written_as_a_float(train):
    plain, written = train("ppo", "CartPole-v1"), train("ppo", "CartPole-v1", steps_per_epoch=4e1)
    assert written.rows == plain.rows
    assert json.loads((written.dir / "config.json").read_text())["steps_per_epoch"] == 40


# ---- what is logged --------------------------------------------------------------------------


def spread(*names):
    """The columns of statistics with their extremes."""
    return {f"{kind}{name}" for kind in ("Average", "Std", "Max", "Min") for name in names}


EVERY = spread("EpRet") | {"Epoch", "EpLen", "TotalEnvInteracts"}
UPDATE = {"LossPi", "DeltaLossPi", "Entropy", "KL"}
VALUES = spread("VVals") | {"LossV", "DeltaLossV"}
TESTS = spread("TestEpRet") | {"TestEpLen", "LossQ"}
COLUMNS = {
    "ppo": UPDATE | VALUES | {"ClipFrac", "StopIter"},
    "vpg": UPDATE | VALUES,
    "trpo": UPDATE | VALUES | {"BacktrackIters"},
    "reinforce": UPDATE | {"Baseline"},
    "ddpg": TESTS | spread("QVals") | {"LossPi"},
    "td3": TESTS | spread("Q1Vals", "Q2Vals") | {"LossPi"},
    "sac": TESTS | spread("Q1Vals", "Q2Vals", "LogPi") | {"LossPi", "Alpha"},
    "dqn": TESTS | spread("QVals") | {"Epsilon"},
    "acer": TESTS | spread("QVals") | {"LossPi", "KL", "Entropy", "ClipFrac", "TrustFrac"},
    "her": TESTS | spread("QVals") | {"Epsilon", "SuccessRate", "TestSuccessRate"},
}


@pytest.mark.parametrize("algo", ALGOS)
def test_the_log_has_its_columns_and_counts_the_steps_really_taken(train, algo):
    run = train(algo, None, epochs=3, num_envs=2)
    assert set(run.rows[0]) == EVERY | COLUMNS[algo]
    assert [row["Epoch"] for row in run.rows] == [0, 1, 2]
    assert [row["TotalEnvInteracts"] for row in run.rows] == [40, 80, 120]


def test_reset_rows_of_a_vector_environment_are_not_counted(train):
    run = train(
        "ppo",
        lambda: gym.make_vec("CartPole-v1", num_envs=2),
        epochs=3,
        steps_per_epoch=100,
        max_ep_len=600,
    )
    counts = [row["TotalEnvInteracts"] for row in run.rows]
    assert all(0 < b - a < 100 for a, b in zip([0, *counts], counts, strict=False))


@pytest.mark.parametrize("algo", ON_POLICY)
def test_an_epoch_without_a_finished_episode_logs_nan(train, algo):
    run = train(algo, "Pendulum-v1", epochs=2, steps_per_epoch=12, max_ep_len=1000, shards=2)
    for row in run.rows:
        assert all(math.isnan(row[k]) for k in ("AverageEpRet", "StdEpRet", "MaxEpRet", "EpLen"))
        assert math.isfinite(row["LossPi"]) and math.isfinite(row["KL"])


@pytest.mark.parametrize("algo", ON_POLICY)
def test_an_epoch_of_one_step_trains(train, algo):
    rows = train(algo, "Pendulum-v1", steps_per_epoch=1, epochs=2).rows
    assert len(rows) == 2 and all(math.isfinite(row["LossPi"]) for row in rows)


@pytest.mark.parametrize("algo", OFF_POLICY)
def test_epochs_and_batches_of_one_step_train(train, algo):
    known = inspect.signature(registry.load(algo)).parameters
    ones = {"update_after": 1, "update_every": 1, "batch_size": 1, "start_steps": 1, "n_steps": 1}
    settings = {k: v for k, v in ones.items() if k in known}
    rows = train(algo, None, steps_per_epoch=1, epochs=20, max_ep_len=3, **settings).rows
    assert math.isfinite(rows[-1]["LossQ"])
    assert [row["TotalEnvInteracts"] for row in rows] == list(range(1, 21))


@pytest.mark.parametrize("algo", ON_POLICY)
def test_entropy_is_summed_over_the_dimensions_of_the_action(train, algo):
    class Wide(gym.Env):
        observation_space = spaces.Box(-1, 1, (2,), np.float32)
        action_space = spaces.Box(-1, 1, (5,), np.float32)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return np.zeros(2, np.float32), {}

        def step(self, action):
            return np.zeros(2, np.float32), 1.0, False, False, {}

    run = train(algo, Wide)
    each = 0.5 * math.log(2 * math.pi * math.e)
    want = float((run.ac.pi.log_std.detach() + each).sum())
    assert run.rows[0]["Entropy"] == pytest.approx(want, rel=1e-4)


# ---- what is saved ---------------------------------------------------------------------------


@pytest.mark.parametrize("algo", ALGOS)
def test_the_policy_saved_at_the_end_is_the_one_after_the_last_update(train, algo):
    env = "Pendulum-v1" if registry.get(algo).on_policy else None
    run = train(algo, env, epochs=3, save_freq=2)
    meta, tensors = load_policy(run.dir)
    assert meta["algo"] == algo
    state = run.ac.state_dict()
    assert set(tensors) == set(state)
    assert all(np.array_equal(tensors[k], x.numpy()) for k, x in state.items())
    loaded = load_actor_critic(meta, tensors)
    get_actions = [make_get_action(ac, deterministic=True) for ac in (loaded, run.ac)]
    space = space_from_json(meta["observation_space"])
    space.seed(0)
    for obs in [space.sample() for _ in range(5)]:
        one, other = (get_action(obs) for get_action in get_actions)
        np.testing.assert_array_equal(one, other)
    config = json.loads((run.dir / "config.json").read_text())
    assert config["algo"] == algo and config["epochs"] == 3


@pytest.mark.parametrize("algo", ["ppo", "vpg", "trpo"])
def test_normalizers_are_trained_saved_and_loaded_with_the_policy(train, algo):
    ac_kwargs = {"hidden_sizes": (8,), "normalize_obs": True, "normalize_ret": True}
    run = train(algo, "Pendulum-v1", epochs=2, ac_kwargs=ac_kwargs)
    obs_filter = run.ac.pi.obs_filter
    assert float(obs_filter.sums[0]) == 80 and float(run.ac.ret_filter.sums[0]) == 80
    assert not torch.equal(obs_filter.mean, torch.zeros(3))
    loaded = load_actor_critic(*load_policy(run.dir))
    for name in ("mean", "std", "sums"):
        assert torch.equal(getattr(loaded.pi.obs_filter, name), getattr(obs_filter, name))
    assert torch.equal(loaded.ret_filter.std, run.ac.ret_filter.std)
    obs = torch.randn(5, 3)
    np.testing.assert_array_equal(loaded.act(obs, True), run.ac.act(obs, True))


@pytest.mark.parametrize("algo", ["ppo", "reinforce"])
def test_test_episodes_leave_normalizers_and_training_alone(train, algo):
    given = {"ac_kwargs": {"hidden_sizes": (8,), "normalize_obs": True}, "epochs": 2}
    without = train(algo, "Pendulum-v1", **given)
    tested = train(algo, "Pendulum-v1", num_test_episodes=2, **given)
    assert "TestEpLen" in tested.rows[0] and "TestEpLen" not in without.rows[0]
    ours, theirs = tested.ac.state_dict(), without.ac.state_dict()
    assert float(ours["pi.obs_filter.sums"][0]) == 80  # the steps of training, and no others
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(x, theirs[name]) for name, x in ours.items())


@pytest.mark.parametrize("algo", ["ppo", "trpo"])
def test_normalizers_stay_fixed_between_collecting_and_learning(train, algo):
    ac_kwargs = {"hidden_sizes": (8,), "normalize_obs": True}
    run = train(algo, "Pendulum-v1", epochs=3, ac_kwargs=ac_kwargs)
    # All ratios are one before the first step, so the loss is the mean of normalized advantages.
    assert all(abs(row["LossPi"]) < 1e-6 for row in run.rows)


# ---- environments of every kind --------------------------------------------------------------


@pytest.mark.parametrize("algo", ["ppo", "sac", "her"])
def test_an_id_trains_like_a_function_that_makes_it(train, algo, tmp_path):
    env_id = {"ppo": "CartPole-v1", "sac": "Pendulum-v1", "her": "spinup/BitFlip-v0"}[algo]
    made = train(algo, lambda: make_env(env_id), epochs=2)
    folder = {"output_dir": str(tmp_path / "by_id"), "quiet": True}
    train(algo, env_id, logger_kwargs=folder)
    named = train(algo, env_id, logger_kwargs=folder, epochs=2, resume=True)
    assert named.rows == made.rows and equal(weights(named), weights(made))
    records = [json.loads((run.dir / "config.json").read_text())["env"] for run in (named, made)]
    records += [load_policy(run.dir)[0]["env"] for run in (named, made)]
    assert records == [records[0]] * 4 and records[0]["id"] == env_id


@pytest.mark.parametrize("algo", ALGOS)
def test_an_environment_in_place_of_env_fn_is_one_sentence(algo, tmp_path):
    logger = {"output_dir": str(tmp_path / "x")}

    class Plain:  # not a gymnasium.Env
        def reset(self):
            return 0

        def step(self, action):
            return 0, 0.0, False, {}

    with pytest.raises(SpinupError) as error:
        registry.load(algo)(make_env("CartPole-v1"), logger_kwargs=logger)
    assert str(error.value) == (
        "env_fn is an environment (CartPoleEnv), but training makes its own: pass the id "
        "'CartPole-v1', or a function such as lambda: gym.make('CartPole-v1')"
    )
    with pytest.raises(SpinupError, match=r"environment \(Plain\).*lambda: gym.make"):
        registry.load(algo)(Plain(), logger_kwargs=logger)
    with pytest.raises(SpinupError, match=r"there is no environment 'CartPol-v1'.*CartPole-v1"):
        registry.load(algo)("CartPol-v1", logger_kwargs=logger)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("algo", [a for a in ALGOS if registry.get(a).observation == "vector"])
def test_dict_and_image_observations_and_workers_train(train, algo):
    kinds = {
        "MultiDiscrete": spaces.MultiDiscrete([2, 3], start=[1, 5]),
        "Box": spaces.Box(-1, 1, (2, 1), np.float32),
        "Discrete": spaces.Discrete(3, start=4),
    }
    known = registry.get(algo).action_spaces
    action_space = next(space for kind, space in kinds.items() if kind in known)

    image = spaces.Box(0, 255, (3, 3, 1), np.uint8)
    keyed = spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Discrete(3)})
    for space, vector in ((image, "sync"), (keyed, "sync"), (keyed, "async")):
        run = train(algo, lambda space=space: Odd(space, action_space), num_envs=2, vector=vector)
        loss = "LossPi" if registry.get(algo).on_policy else "LossQ"
        assert math.isfinite(run.rows[0][loss]) and run.rows[0]["EpLen"] == 20


def test_one_shared_environment_trains_alone_and_is_refused_in_company(train):
    env = gym.make("CartPole-v1")
    assert train("ppo", lambda: env).rows
    with pytest.raises(SpinupError, match="same environment object twice"):
        train("ppo", lambda: env, num_envs=2)


@pytest.mark.parametrize("algo", ["ppo", "ddpg"])
def test_workers_train_to_the_same_bits_as_one_process(train, algo):
    one, other = (
        train(algo, "Pendulum-v1", num_envs=2, vector=vector, epochs=2)
        for vector in ("sync", "async")
    )
    assert one.rows == other.rows and equal(weights(one), weights(other))


def test_a_loss_that_is_not_finite_stops_the_run_by_name(train):
    class Poisoned(gym.Wrapper):
        steps = 0

        def step(self, action):
            o, r, terminated, truncated, info = self.env.step(action)
            self.steps += 1  # wrong from the start would be caught in the first step
            return o, (math.nan if self.steps > 110 else r), terminated, truncated, info

    with pytest.raises(SpinupError, match="became nan in epoch 2 because the environment returned"):
        train("ppo", lambda: Poisoned(gym.make("CartPole-v1")), epochs=3)

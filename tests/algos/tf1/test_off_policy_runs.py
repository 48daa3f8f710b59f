"""Whole runs of DDPG, TD3 and SAC in graph mode: what they promise, also with a user's networks."""

import json
import math
import os
import signal
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from spinup import SpinupError, ddpg_tf1, sac_tf1, td3_tf1
from spinup.algos.tf1.common.graph import Function
from spinup.algos.tf1.ddpg import core as ddpg_core
from spinup.algos.tf1.sac import core as sac_core
from spinup.envs import make_env
from spinup.runs.run import TrainingDiverged
from spinup.runs.storage.checkpoints import load_checkpoint
from spinup.utils.tf import tf
from tests.helpers.comparing import diagnostics_cells, table_cells, with_pieces
from tests.helpers.probes import GAMMA, OFF_POLICY, RATES
from tests.helpers.processes import run_python

FUNCTIONS = {"ddpg": ddpg_tf1, "td3": td3_tf1, "sac": sac_tf1}
TINY = {
    "steps_per_epoch": 42,
    "epochs": 4,
    "max_ep_len": 25,
    "seed": 3,
    "save_freq": 2,
    "replay_size": 90,
    "batch_size": 8,
    "start_steps": 20,
    "update_after": 20,
    "update_every": 6,
    "num_test_episodes": 1,
}


class Trouble(gym.Wrapper):
    """An environment in which something happens in the n-th step of this process from now on."""

    left, do = 0, None

    def step(self, action):
        Trouble.left -= 1
        if Trouble.left == 0:
            Trouble.do()
        return super().step(action)


def pendulum():
    return Trouble(gym.make("Pendulum-v1"))


def cart_pole():
    return Trouble(gym.make("CartPole-v1"))


class Crash(Exception):
    pass


def crash():
    raise Crash


@pytest.fixture
def train(tmp_path, monkeypatch):
    """A function that trains in a folder; returns its table without the clock, and its state."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(Trouble, "left", 0)

    def call(algo, env=pendulum, folder="run", **changes):
        settings = {**TINY, **changes}
        if "actor_critic" not in settings:
            settings.setdefault("ac_kwargs", {"hidden_sizes": (8,)})
        logger = {"output_dir": str(tmp_path / folder), "quiet": True}
        FUNCTIONS[algo](env, **{"logger_kwargs": logger, **settings})
        return result(tmp_path / folder)

    return call


@pytest.fixture
def seeds(monkeypatch):
    """The states of the generator that draws the seeds of updates, one for each update."""
    found, call = [], Function.__call__

    def spy(self, batch, rng=None):
        if "rew" in batch:
            found.append(rng.bit_generator.state["state"]["state"])
        return call(self, batch, rng)

    monkeypatch.setattr(Function, "__call__", spy)
    return found


def result(folder):
    table, diagnostics = table_cells(folder), diagnostics_cells(folder)
    state, _ = load_checkpoint(folder / "checkpoints")
    state["kept"] = state.pop("diagnostics")["kept"]
    state = {k: x for k, x in state.items() if k not in ("seconds", "logger")}
    return SimpleNamespace(
        table=table, diagnostics=diagnostics, state=with_pieces(state), dir=folder
    )


def column(run, name):
    return [float(row[run.table[0].index(name)]) for row in run.table[1:]]


# ---- graph functions as the original's users wrote them ------------------------------------------


def own_ddpg(x, a, width=8, action_space=None):
    """Values are columns, and the critic drops out."""
    with tf.variable_scope("pi"):
        pi = action_space.high * ddpg_core.mlp(x, (width, 1), tf.nn.relu, tf.tanh)
    with tf.variable_scope("q"):
        q = _own_q(x, a, width)
    with tf.variable_scope("q", reuse=True):
        q_pi = _own_q(x, pi, width)
    return pi, q, q_pi


def _own_q(x, a, width):
    h = ddpg_core.mlp(tf.concat([x, a], -1), (width,), output_activation=tf.nn.relu)
    return ddpg_core.mlp(tf.nn.dropout(h, rate=0.2), (1,))


def own_td3(x, a, width=8, action_space=None):
    with tf.variable_scope("pi"):
        pi = action_space.high * ddpg_core.mlp(x, (width, 1), tf.nn.relu, tf.tanh)
    with tf.variable_scope("q1"):
        q1 = _own_q(x, a, width)
    with tf.variable_scope("q2"):
        q2 = _own_q(x, a, width)
    with tf.variable_scope("q1", reuse=True):
        q1_pi = _own_q(x, pi, width)
    return pi, q1, q2, q1_pi


def own_sac(x, a, width=8, action_space=None):
    """Samples with the old names of TensorFlow's functions."""
    with tf.variable_scope("pi"):
        mu, log_std = tf.split(ddpg_core.mlp(x, (width, 2), tf.nn.relu), 2, axis=1)
        u = mu + tf.exp(log_std) * tf.random_normal(tf.shape(mu))
        logp = sac_core.gaussian_likelihood(u, mu, log_std)
        mu, pi, logp_pi = sac_core.apply_squashing_func(mu, u, logp)
    limit = float(action_space.high[0])
    with tf.variable_scope("q1"):
        q1 = _own_q(x, a, width)
    with tf.variable_scope("q2"):
        q2 = _own_q(x, a, width)
    return limit * mu, limit * pi, logp_pi[:, None], q1, q2


def own_policy(x, a, hidden_sizes, activation, output_activation):
    """A `policy` function: the means, samples and log-densities before squashing."""
    mu = sac_core.mlp(x, [*hidden_sizes, 1], activation, output_activation)
    pi = mu + 0.5 * tf.random_normal(tf.shape(mu))
    return mu, pi, sac_core.gaussian_likelihood(pi, mu, tf.math.log(0.5) * tf.ones_like(mu))


# ---- the same bits -------------------------------------------------------------------------------

CASES = {
    "ddpg": ("ddpg", pendulum, {}),
    "td3": ("td3", pendulum, {"num_envs": 3}),
    "sac": ("sac", pendulum, {"alpha": "auto", "save_best": True}),
    "sac discrete": ("sac", cart_pole, {"num_envs": 3}),
    "own sac": ("sac", pendulum, {"actor_critic": own_sac}),
}
CHILD = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from test_off_policy_runs import CASES, FUNCTIONS, TINY, Trouble
Trouble.left, Trouble.do = 60, lambda: os.kill(os.getpid(), signal.SIGKILL)
algo, env, options = CASES[sys.argv[2]]
options = {"ac_kwargs": {"hidden_sizes": (8,)}, **options, **TINY, "resume": True}
FUNCTIONS[algo](env, logger_kwargs={"output_dir": sys.argv[3], "quiet": True}, **options)
"""


@pytest.mark.parametrize("case", list(CASES))
def test_stopped_in_an_epoch_and_killed_is_as_never_interrupted(train, monkeypatch, case):
    algo, env, options = CASES[case]
    ops, weights = [], []

    def on_epoch(row, ac):
        ops.append(len(tf.get_default_graph().get_operations()))
        weights.append(tf.get_default_session().run(ac.vars()))

    whole = train(algo, env, "whole", on_epoch=on_epoch, **options)
    assert len(whole.table) == 5 and all(np.isfinite(column(whole, "LossPi")))
    assert ops[1:] == ops[1:2] * 3, "the graph grows while training"  # the first save adds a saver
    for first, last in zip(weights[0], weights[-1], strict=True):
        assert np.abs(first - last).max() > 1e-5
    # a signal in the middle of the second epoch, then, of two of them, a crash or a kill
    monkeypatch.setattr(Trouble, "left", 85)  # test episodes count, too
    monkeypatch.setattr(Trouble, "do", lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        train(algo, env, "parts", **options)
    stopped_dir = whole.dir.with_name("parts")
    stopped, _ = load_checkpoint(stopped_dir / "checkpoints")
    assert 42 < stopped["total_steps"] < 84
    if case == "sac":
        run_python(
            "-c", CHILD, str(Path(__file__).parent), case, stopped_dir, expect=-signal.SIGKILL
        )
    if case == "own sac":
        monkeypatch.setattr(Trouble, "left", 60)
        monkeypatch.setattr(Trouble, "do", crash)
        with pytest.raises(Crash):
            train(algo, env, "parts", resume=True, **options)
    monkeypatch.setattr(Trouble, "left", 0)
    parts = train(algo, env, "parts", resume=True, **options)
    assert parts.table == whole.table
    assert parts.diagnostics == whole.diagnostics and len(whole.diagnostics) == 5
    columns = {*whole.diagnostics[0]}
    assert {"GradNormPi", "GradNormQ", "UpdNormPi", "TargDrift", "DoneShare"} <= columns
    assert ({"QPi", "QBias"} <= columns) == (case in ("ddpg", "td3", "sac"))
    np.testing.assert_equal(parts.state, whole.state)
    if "save_best" in options:
        infos = [
            json.loads((run.dir / "best/tf1_save/policy.json").read_text())
            for run in (whole, parts)
        ]
        assert infos[0]["return"] == infos[1]["return"] == max(column(whole, "AverageTestEpRet"))


@pytest.mark.parametrize(("algo", "function"), [("ddpg", own_ddpg), ("td3", own_td3)])
def test_a_graph_function_as_the_originals_users_wrote_it_trains(train, algo, function):
    weights = []

    def on_epoch(row, ac):
        weights.append(tf.get_default_session().run(ac.vars()))

    run = train(algo, actor_critic=function, epochs=2, on_epoch=on_epoch)
    assert np.isfinite([*column(run, "LossQ"), *column(run, "LossPi")]).all()
    for first, last in zip(*weights, strict=True):
        assert np.abs(first - last).max() > 1e-5


def test_a_policy_function_of_ones_own_trains_and_is_squashed_as_ours(train, seeds, session):
    train("sac", ac_kwargs={"hidden_sizes": (8,), "policy": own_policy}, epochs=2)
    assert len(set(seeds)) == len(seeds) > 10  # every update has noise of its own
    uneven = spaces.Box(np.float32([-1, 0]), np.float32([3, 0.5]))
    x, a = sac_core.placeholders(3, 2)
    found = []
    for scope, policy in (("ours", None), ("own", sac_core.mlp_gaussian_policy)):
        with tf.variable_scope(scope):
            found.append(sac_core.mlp_actor_critic(x, a, (8,), policy=policy, action_space=uneven))
    noise = [op for op in session.graph.get_operations() if op.type == "RandomStandardNormal"]
    session.run(tf.global_variables_initializer())
    ours, own = sac_core.get_vars("ours/pi"), sac_core.get_vars("own/pi")
    session.run([v.assign(w) for v, w in zip(own, ours, strict=True)])
    rng = np.random.default_rng(0)
    drawn = rng.normal(size=(5, 2))
    feed = {x: rng.normal(size=(5, 3)), **{op.outputs[0]: drawn for op in noise}}
    got, want = session.run([list(tensors[:3]) for tensors in found], feed)
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_another_seed_is_another_run_and_workers_train_to_the_same_bits(train, seeds):
    options = {"num_envs": 2, "epochs": 2, "num_test_episodes": 0}
    one = train("td3", "Pendulum-v1", "one", **options)
    assert len(set(seeds)) == len(seeds) > 10  # every update has noise of its own
    other = train("td3", "Pendulum-v1", "other", vector="async", **options)
    assert one.table == other.table
    np.testing.assert_equal(one.state["tracked"], other.state["tracked"])
    assert train("td3", "Pendulum-v1", "third", **{**options, "seed": 4}).table != one.table


def test_test_episodes_change_nothing_but_their_own_columns(train):
    algo, env, options = CASES["own sac"]  # its networks draw in test episodes, too
    options = {**options, "epochs": 2}
    runs = [train(algo, env, f"{n}", num_test_episodes=n, **options) for n in (0, 2)]
    kept = [i for i, name in enumerate(runs[1].table[0]) if "Test" not in name]
    assert runs[0].table == [[row[i] for i in kept] for row in runs[1].table]
    tracked = [run.state["tracked"] for run in runs]
    np.testing.assert_equal(*(t["variables"] for t in tracked))
    np.testing.assert_equal(*(t["buffer"] for t in tracked))


# ---- what stops a run ----------------------------------------------------------------------------


def test_a_reward_or_loss_that_is_not_finite_stops_the_run_by_name(train, tmp_path):
    class Poison(gym.Wrapper):
        left = 110

        def step(self, action):
            self.left -= 1
            o, r, *rest = super().step(action)
            return o, math.nan if self.left < 0 else r, *rest

    options = {"num_test_episodes": 0, "save_freq": 1}
    with pytest.raises(TrainingDiverged, match="a non-finite reward in epoch 2"):
        train("ddpg", lambda: Poison(gym.make("Pendulum-v1")), "poison", **options)
    assert load_checkpoint(tmp_path / "poison" / "checkpoints")[0]["epoch"] == 2
    with pytest.raises(TrainingDiverged, match=r"(Loss|Q1Vals|LogPi)\w* became (nan|inf|-inf) in"):
        train("sac", pendulum, "loss", lr=1e30, update_after=60, **options)
    saved, _ = load_checkpoint(tmp_path / "loss" / "checkpoints")
    assert saved["epoch"] == 1
    assert all(np.isfinite(x).all() for x in saved["tracked"]["variables"].values())


def test_a_resumed_run_with_other_networks_is_one_sentence(train):
    sizes = {"hidden": (8,)}

    def mine(x, a, action_space=None):
        return ddpg_core.mlp_actor_critic(x, a, sizes["hidden"], action_space=action_space)

    options = {"actor_critic": mine, "num_test_episodes": 0}
    before = train("ddpg", epochs=1, **options)
    for other in ((9,), (8, 8)):
        sizes["hidden"] = other
        with pytest.raises(SpinupError, match=r"such as \w+/.*: resume with the same") as error:
            train("ddpg", epochs=2, resume=True, **options)
        assert "\n" not in str(error.value)
    assert result(before.dir).table == before.table


WRONG = {
    "shards": (
        {"shards": 2},
        "sac learns from one replay buffer and cannot be split into 2",
    ),
    "mps": ({"device": "mps"}, "device='mps' is only for the PyTorch backend: use device='cpu'"),
    "cuda": ({"device": "cuda"}, "device='cuda' needs a GPU, and TensorFlow sees none"),
    "number": (
        {"actor_critic": own_ddpg},
        "returned 3 tensors, but .* needs 5: mu, pi",
    ),
    "policy": (
        {"ac_kwargs": {"policy": lambda *args: args[:2]}},
        "policy returned 2 .*mu, pi, logp",
    ),
    "discrete policy": (
        {"env": cart_pole, "ac_kwargs": {"policy": own_policy}},
        "policy function returns continuous actions, but the action space is Discrete",
    ),
    "variables": (
        {"actor_critic": lambda x, a, action_space: [tf.Variable([1.0]) * a for _ in range(5)]},
        "create them with tf.get_variable",
    ),
}


@pytest.mark.parametrize("case", list(WRONG))
def test_what_cannot_be_trained_is_one_sentence(train, case):
    options, said = WRONG[case]
    with pytest.raises(SpinupError, match=said) as error:
        train("sac", **options)
    assert "\n" not in str(error.value)


def test_a_graph_that_draws_in_a_loop_trains_and_says_that_it_cannot_be_resumed(
    train, tmp_path, capsys
):
    def looping(x, a, action_space=None):
        pi, q, q_pi = own_ddpg(x, a, action_space=action_space)
        noise = tf.cond(tf.size(q) > 0, lambda: tf.random.normal(()), lambda: 0.0)
        return pi, q + 0.001 * noise, q_pi

    tables = []
    for folder in ("one", "two"):
        logger = {"output_dir": str(tmp_path / folder)}
        options = {"epochs": 1, "num_test_episodes": 0, "logger_kwargs": logger}
        tables.append(train("ddpg", actor_critic=looping, folder=folder, **options).table)
        said = [line for line in capsys.readouterr().out.splitlines() if "resumed exactly" in line]
        assert len(said) == 1 and "RandomStandardNormal" in said[0]
    assert tables[0] == tables[1]  # the same seed still repeats


SITE = "import sys\nsys.modules['tensorflow'] = None\n"


def test_without_tensorflow_each_door_says_what_to_install(tmp_path, repo_root):
    (tmp_path / "sitecustomize.py").write_text(SITE)
    path = os.pathsep.join([str(tmp_path), str(repo_root)])
    empty = tmp_path / "empty"
    empty.mkdir()
    doors = (
        ["-c", "from spinup import sac_tf1"],
        ["-m", "spinup.run", "sac_tf1", "--env", "Pendulum-v1"],
        ["-m", "spinup.algos.tf1.sac.sac", "--env", "Pendulum-v1"],
        ["-m", "spinup.exercises.tf1.problem_set_1.exercise1_1"],
        ["-c", "import spinup, sys; assert sys.modules['tensorflow'] is None; print(spinup.sac)"],
    )
    for door in doors:
        done = run_python(*door, expect=None, cwd=empty, PYTHONPATH=path)
        if door is doors[-1]:
            assert done.returncode == 0 and done.stderr == ""
            continue
        assert done.returncode != 0
        said = done.stderr.strip().splitlines()[-1]
        assert "TensorFlow is not installed: run pip install 'spinup[tf]'" in said
        if door[0] == "-m":
            assert done.returncode == 2
            assert done.stderr.count("\n") == 1 and not list(empty.iterdir()), done.stderr


# ---- learning ------------------------------------------------------------------------------------

PROBE = {
    **OFF_POLICY,
    "ac_kwargs": {"hidden_sizes": (16,), "activation": tf.tanh},
    "epochs": 1,
    "replay_size": 1000,
}


def critics(ac, obs, act):
    """What each critic says about some actions at one observation."""
    names = [name for name in ("q", "q1", "q2") if name in ac.built]
    ask = Function({"obs": ac.obs, "act": ac.act}, [ac.built[name] for name in names])
    return ask({"obs": np.repeat(obs[None], len(act), 0), "act": act})


@pytest.mark.parametrize(
    ("algo", "name"),
    [("ddpg", "TwoStepContinuous"), ("td3", "TruncationContinuous"), ("sac", "TwoStepContinuous")],
)
def test_the_values_of_a_probe_are_learned(train, algo, name):
    env = make_env(f"spinup/Probe{name}-v0").unwrapped
    actions, found = np.float32([[-0.9], [0.0], [0.9]]), {}

    def on_epoch(row, ac):
        for o in (0.0, 1.0) if name == "TwoStepContinuous" else (0.0,):
            found[o] = critics(ac, np.float32([o]), actions)

    options = {**PROBE, **RATES[algo], "updates_per_step": 0.5}
    train(algo, f"spinup/Probe{name}-v0", on_epoch=on_epoch, **options)
    for o, values in found.items():
        for q in values:
            want = env.true_value(np.float32([o]), GAMMA)
            np.testing.assert_allclose(q, want, atol=0.2, err_msg=f"Q({o}, .)")


@pytest.mark.parametrize(
    ("algo", "name"),
    [(algo, "ActionObservationContinuous") for algo in RATES]
    + [("sac", "ActionObservationDiscreteFrom5")],
)
def test_the_best_action_of_a_probe_and_its_value_are_learned(train, algo, name):
    env = make_env(f"spinup/Probe{name}-v0")
    is_box = isinstance(env.action_space, spaces.Box)
    start, found = getattr(env.action_space, "start", 0), []

    def on_epoch(row, ac):
        best = Function({"obs": ac.obs}, ac.built.get("mu", ac.built["pi"]))
        for o in (np.float32([-1.0]), np.float32([1.0])):
            action = best({"obs": o[None]})
            found.append((o, action[0], [q[0] for q in critics(ac, o, action)]))

    options = {**PROBE, **RATES[algo], "updates_per_step": 2.0 if is_box else 0.5}
    train(algo, f"spinup/Probe{name}-v0", on_epoch=on_epoch, **options)
    for o, action, values in found:
        best = env.unwrapped.optimal_action(o)
        np.testing.assert_allclose(action + start, best, atol=0.2 if is_box else 0)
        want = env.unwrapped.true_q(o, best, GAMMA)
        np.testing.assert_allclose(values, [want] * len(values), atol=0.2)


# ---- spaces -------------------------------------------------------------------------------------


class Walk(gym.Env):
    """Tables of bytes, and actions with several axes in float64; every action is checked."""

    action_space = spaces.Box(np.full((2, 2), -0.1), np.array([[1, 0.3], [2, 0.7]]), dtype=float)
    observation_space = spaces.Box(0, 255, (4, 6), np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        shape = self.observation_space.shape
        return self.np_random.integers(0, 255, shape, np.uint8), {}

    def step(self, action):
        assert self.action_space.contains(np.asarray(action)), action
        return self.reset()[0], float(np.sum(action)), False, False, {}


@pytest.mark.parametrize("algo", list(FUNCTIONS))
def test_bytes_and_actions_of_several_axes_train_and_fit_their_space(train, algo):
    run = train(algo, Walk, epochs=1, num_envs=3)
    assert np.isfinite([*column(run, "LossQ"), *column(run, "LossPi")]).all()


class Picture(Walk):
    """Images."""

    observation_space = spaces.Box(0, 255, (4, 3, 2), np.uint8)


def test_images_are_refused_unless_the_networks_are_the_users_own(train, tmp_path):
    with pytest.raises(SpinupError, match=r"ddpg_tf1 has no encoder .*use ddpg_pytorch.*own actor"):
        train("ddpg", Picture, epochs=1)
    assert list(tmp_path.iterdir()) == []

    def own(x, a, action_space):
        flat = tf.reshape(x, (-1, 24))
        return ddpg_core.mlp_actor_critic(flat, a, (8,), action_space=action_space)

    train("ddpg", Picture, actor_critic=own, ac_kwargs={}, epochs=1)


# ---- the buffer ----------------------------------------------------------------------------------


@pytest.mark.parametrize("core", [ddpg_core, sac_core], ids=["ddpg", "sac"])
def test_the_replay_buffer_has_the_names_that_old_code_reads(core):
    buffer = core.ReplayBuffer(obs_dim=3, act_dim=2, size=4)
    for i in range(5):
        buffer.store([i, 0, 0], [i, i], -i, [i + 1, 0, 0], i == 4)
    assert (buffer.ptr, buffer.size, buffer.max_size) == (1, 4, 4)
    assert buffer.obs1_buf[0].tolist() == [4, 0, 0] and buffer.obs2_buf[0].tolist() == [5, 0, 0]
    assert buffer.acts_buf[1].tolist() == [1, 1] and buffer.rews_buf[2] == -2
    assert buffer.done_buf.tolist() == [1, 0, 0, 0]
    batch = buffer.sample_batch(batch_size=50)
    assert sorted(batch) == ["acts", "done", "obs1", "obs2", "rews"]
    assert all(x.dtype == np.float32 and len(x) == 50 for x in batch.values())
    for o, a, r, o2, d in zip(
        *(batch[k] for k in ("obs1", "acts", "rews", "obs2", "done")), strict=True
    ):
        i = int(o[0])
        assert a.tolist() == [i, i] and r == -i and o2[0] == i + 1 and d == (i == 4)
    assert len(buffer.sample_batch()["obs1"]) == 32

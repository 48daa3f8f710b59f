"""Training with VPG, TRPO and PPO in graph mode: users' own graphs, and the contracts of a run."""

import math
import os
import signal
import sys
import textwrap
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from spinup.algos.common.numpy_actor import NumpyActor
from spinup.algos.tf1.trpo import core as trpo_core
from spinup.algos.tf1.vpg import core
from spinup.envs import adapt_env, make_env
from spinup.envs.spaces import env_actions
from spinup.policies.saved import load_policy
from spinup.runs.storage.checkpoints import load_checkpoint
from spinup.utils.errors import SpinupError
from spinup.utils.tf import tf
from tests.helpers.comparing import diagnostics_cells, table_cells
from tests.helpers.odd import Odd
from tests.helpers.probes import GAMMA, observations
from tests.helpers.processes import run_python

ALGOS = ("vpg_tf1", "trpo_tf1", "ppo_tf1")
# Every option at once: several environments and shards, minibatches, normalizers, a schedule.
EVERYTHING = {
    "num_envs": 3,
    "shards": 2,
    "steps_per_epoch": 60,
    "minibatch_size": 16,
    "anneal_lr": True,
    "clip_vf": 0.5,
    "max_grad_norm": 0.5,
    "ent_coef": 0.01,
    "ac_kwargs": {
        "hidden_sizes": (8,),
        "normalize_obs": True,
        "normalize_ret": True,
        "orthogonal_init": True,
    },
}


def variables(folder):
    """All variables of a run, from its newest checkpoint."""
    return load_checkpoint(Path(folder) / "checkpoints")[0]["tracked"]["variables"]


def same(one, other):
    """Whether two runs have the same table and the same variables, bit for bit."""
    mine, theirs = variables(one), variables(other)
    assert list(mine) == list(theirs)
    bits = all(x.tobytes() == theirs[name].tobytes() for name, x in mine.items())
    tables = all(cells(one) == cells(other) for cells in (table_cells, diagnostics_cells))
    return tables and bits


# ---- graph functions that users write, as for the original ------------------------------------


def own_policy(x, a, hidden_sizes, activation, output_activation, action_space):
    """A policy function with the original's signature."""
    logits = core.mlp(x, [*hidden_sizes, action_space.n], activation, None) / 2.0
    logp_all = tf.nn.log_softmax(logits)
    pi = tf.squeeze(tf.multinomial(logits, 1), axis=1)
    n = int(action_space.n)
    logp = tf.reduce_sum(tf.one_hot(a, depth=n) * logp_all, axis=1)
    logp_pi = tf.reduce_sum(tf.one_hot(pi, depth=n) * logp_all, axis=1)
    return pi, logp, logp_pi


def own_trpo_policy(x, a, hidden_sizes, activation, output_activation, action_space):
    """For TRPO: also the parameters, placeholders for old ones, and the divergence."""
    n = int(action_space.n)
    logp_all = tf.nn.log_softmax(core.mlp(x, [*hidden_sizes, n], activation, None))
    pi = tf.squeeze(tf.multinomial(logp_all, 1), axis=1)
    logp = tf.reduce_sum(tf.one_hot(a, depth=n) * logp_all, axis=1)
    logp_pi = tf.reduce_sum(tf.one_hot(pi, depth=n) * logp_all, axis=1)
    old = core.placeholder(n)
    d_kl = trpo_core.categorical_kl(old, logp_all)
    return pi, logp, logp_pi, {"logp_all": logp_all}, {"logp_all": old}, d_kl


def own_actor_critic(x, a, action_space=None, width=8):
    """A Gaussian policy with scopes and variables of its own; v is a column, as from a layer."""
    dim, act_dim = x.shape.as_list()[1], action_space.shape[0]

    def layer(x, inputs, units):
        weights = tf.Variable(tf.random_normal((inputs, units), stddev=0.3))
        return tf.matmul(x, weights) + tf.Variable(tf.zeros(units))

    with tf.variable_scope("my_policy"):
        mu = layer(tf.tanh(layer(x, dim, width)), width, act_dim)
        log_std = tf.get_variable("log_std", initializer=-0.5 * np.ones(act_dim, np.float32))
        pi = mu + tf.random_normal(tf.shape(mu)) * tf.exp(log_std)
        logp = core.gaussian_likelihood(a, mu, log_std)
        logp_pi = core.gaussian_likelihood(pi, mu, log_std)
    with tf.variable_scope("my_values"):
        v = layer(tf.tanh(layer(x, dim, width)), width, 1)  # (B, 1)
    own_actor_critic.tensors = mu, log_std
    return pi, logp, logp_pi, v


def own_trpo_actor_critic(x, a, action_space=None, width=8):
    """The same with what TRPO needs; the standard deviation is one row for all observations."""
    pi, logp, logp_pi, v = own_actor_critic(x, a, action_space, width)
    mu, log_std = own_actor_critic.tensors
    old_mu, old_log_std = core.placeholders(action_space.shape[0], action_space.shape[0])
    d_kl = trpo_core.diagonal_gaussian_kl(old_mu, old_log_std, mu, log_std)
    info, info_phs = {"mu": mu, "log_std": log_std}, {"mu": old_mu, "log_std": old_log_std}
    return pi, logp, logp_pi, info, info_phs, d_kl, v


class Weights(list):
    """An `on_epoch` that notes the parameters, through the run's session."""

    def __call__(self, row, ac):
        params = tf.trainable_variables()
        values = tf.get_default_session().run(params)
        self.append({p.op.name: x for p, x in zip(params, values, strict=True)})

    def all_moved(self):
        first, last = self
        return all(not np.array_equal(first[name], last[name]) for name in last)


@pytest.mark.parametrize("algo", ALGOS)
def test_a_policy_function_of_ones_own_trains(train, algo):
    policy = own_trpo_policy if algo == "trpo_tf1" else own_policy
    ac_kwargs = {"policy": policy, "hidden_sizes": (8,), "normalize_obs": True}
    given = {"ac_kwargs": ac_kwargs, "epochs": 2, "steps_per_epoch": 200, "on_epoch": Weights()}
    run = train(algo, "CartPole-v1", **given)
    assert all(math.isfinite(x) for x in run.rows[-1].values())
    assert 0.5 < run.rows[0]["Entropy"] < 0.9  # estimated from samples; log 2 is 0.69
    assert len(given["on_epoch"][0]) == 8 and given["on_epoch"].all_moved()


def test_the_librarys_own_policy_function_may_be_named(train):
    names = {"vpg_tf1": core, "trpo_tf1": trpo_core}
    for algo, module in names.items():
        plain = train(algo, "CartPole-v1")
        ac_kwargs = {"hidden_sizes": (8,), "policy": module.mlp_categorical_policy}
        assert same(train(algo, "CartPole-v1", ac_kwargs=ac_kwargs).dir, plain.dir)


@pytest.mark.parametrize("algo", ALGOS)
def test_an_actor_critic_of_ones_own_trains(train, algo):
    actor_critic = own_trpo_actor_critic if algo == "trpo_tf1" else own_actor_critic
    given = {"actor_critic": actor_critic, "ac_kwargs": {"width": 6}, "epochs": 2}
    seen = Weights()
    run = train(algo, "Pendulum-v1", **given, num_test_episodes=1, on_epoch=seen)
    assert all(math.isfinite(x) for x in run.rows[-1].values())
    assert run.rows[-1]["KL"] > 0
    scopes = [name.partition("/")[0] for name in seen[0]]
    assert sorted(set(scopes)) == ["my_policy", "my_values"] and len(scopes) == 9
    assert seen.all_moved()


def test_the_wrong_number_of_tensors_is_one_sentence(train):
    def two(x, a, *args, **kwargs):
        return x, a

    cases = {
        "returned 2 tensors, but this algorithm needs 4: pi, logp, logp_pi, v": (
            "ppo_tf1",
            {"actor_critic": two},
        ),
        "returned 4 tensors, but this algorithm needs 7: pi, .*, info, info_phs, d_kl, v": (
            "trpo_tf1",
            {"actor_critic": core.mlp_actor_critic},
        ),
        "returned 3 tensors, but this algorithm needs 4": (
            "vpg_tf1",
            {"ac_kwargs": {"policy": two}},
        ),
        "returned 1 tensors": ("vpg_tf1", {"actor_critic": lambda x, a, action_space: x}),
    }
    for words, (algo, given) in cases.items():
        with pytest.raises(SpinupError, match=words) as error:
            train(algo, "CartPole-v1", **given)
        assert "\n" not in str(error.value)


def test_values_that_cannot_learn_are_one_sentence(train):
    def constant(x, a, action_space=None):
        *policy, v = core.mlp_actor_critic(x, a, (4,), action_space=action_space)
        return *policy, tf.zeros_like(v)

    with pytest.raises(SpinupError, match="a loss depends on no trainable variable"):
        train("vpg_tf1", "CartPole-v1", actor_critic=constant)


def test_an_entropy_bonus_needs_a_policy_of_the_library(train):
    with pytest.raises(SpinupError, match=r"ent_coef=0\.1 needs the policy's entropy"):
        train("ppo_tf1", "Pendulum-v1", actor_critic=own_actor_critic, ent_coef=0.1)


# ---- beside other code -----------------------------------------------------------------------


def test_a_run_disturbs_neither_eager_code_nor_a_graph_that_is_being_built(train):
    """Eager code, a run, a torch run, a run within a user's own graph: all as if alone."""
    weight = tf.Variable(2.0)
    alone = train("ppo_tf1", "CartPole-v1", epochs=2)
    train("ppo", "CartPole-v1")
    with tf.GradientTape() as tape:
        loss = weight**3
    assert float(tape.gradient(loss, weight)) == 12.0
    with tf.Graph().as_default() as graph, tf.Session() as session:
        x = tf.placeholder(tf.float32)
        y = tf.Variable(3.0) * x
        with tf.variable_scope("mine"), tf.control_dependencies([y]):
            operations = graph.get_operations()
            again = train("ppo_tf1", "CartPole-v1", epochs=2)
            assert graph.get_operations() == operations and tf.get_default_graph() is graph
            assert tf.get_variable_scope().name == "mine"
            assert tf.get_default_session() is session
        session.run(tf.global_variables_initializer())
        assert session.run(y, {x: 2.0}) == 6.0
    assert same(again.dir, alone.dir)
    assert float(weight + 1) == 3.0  # the fixture checks that nothing is left entered


def test_an_exception_leaves_nothing_entered(train):
    class Broken(gym.Wrapper):
        def step(self, action):
            raise ArithmeticError("this environment fails on purpose")

    with pytest.raises(ArithmeticError):
        train("ppo_tf1", lambda: Broken(gym.make("CartPole-v1")))
    assert tf.executing_eagerly() and tf.get_default_session() is None


# ---- the contracts of a run ------------------------------------------------------------------


class Stopping(gym.Wrapper):
    """Asks its process to stop in one of its steps; all environments count together."""

    left = 0

    def step(self, action):
        Stopping.left -= 1
        if Stopping.left == 0:
            os.kill(os.getpid(), signal.SIGTERM)
        return self.env.step(action)


CASES = {
    "vpg": ("vpg_tf1", "CartPole-v1", {}),
    "trpo": (
        "trpo_tf1",
        "CartPole-v1",
        {"ac_kwargs": {"hidden_sizes": (8,), "normalize_obs": True}},
    ),
    "ppo": ("ppo_tf1", "CartPole-v1", EVERYTHING),
    "own": ("ppo_tf1", "Pendulum-v1", {"actor_critic": own_actor_critic, "ac_kwargs": {}}),
    "own-trpo": ("trpo_tf1", "Pendulum-v1", {"actor_critic": own_trpo_actor_critic}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_same_seed_repeats_and_a_stopped_run_continues_exactly(train, tmp_path, capsys, case):
    algo, env, given = CASES[case]
    given = {"epochs": 4, "num_test_episodes": 1, "save_best": True, "seed": 5, **given}
    steps = given.get("steps_per_epoch", 40)
    logger = {"output_dir": str(tmp_path / "stopped"), "quiet": True}

    def run(**more):
        return train(algo, lambda: Stopping(gym.make(env)), **given, **more)

    Stopping.left = 0
    whole = run()
    # in the middle of the second epoch, then with the last step of the third
    for left, resume in ((steps + steps // 2 + 7, False), (2 * steps - steps // 2, True)):
        Stopping.left = left
        with pytest.raises(SystemExit) as stop:
            run(logger_kwargs=logger, resume=resume)
        assert stop.value.code == 128 + signal.SIGTERM
        assert tf.executing_eagerly() and tf.get_default_session() is None
    assert len(table_cells(tmp_path / "stopped")) < 5
    assert "Stopped and saved" in capsys.readouterr().err
    Stopping.left = 0
    run(logger_kwargs=logger, resume=True)
    assert same(whole.dir, tmp_path / "stopped") and len(whole.rows) == 4
    columns = {"RetMean", "AdvStd", "ExplVarOld", "GradNormV", "TermShare"}
    ours = {"ExplVarNew", "RatioESS"}  # a user's graph is not called
    assert columns | (set() if "own" in case else ours) <= {*diagnostics_cells(whole.dir)[0]}
    assert "own" not in case or not ours & {*diagnostics_cells(whole.dir)[0]}
    if "own" not in case:  # only the library's networks are also saved as arrays
        folders = whole.dir, tmp_path / "stopped"
        (one, arrays), (other, same_arrays) = (
            load_policy(folder / "best" / "tf1_save") for folder in folders
        )
        assert one["return"] == other["return"]
        assert all(np.array_equal(x, same_arrays[name]) for name, x in arrays.items())


def test_another_seed_is_another_run(train):
    one, other = (train("ppo_tf1", "CartPole-v1", seed=seed) for seed in (0, 1))
    assert table_cells(one.dir)[1] != table_cells(other.dir)[1] and not same(one.dir, other.dir)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """A process without TensorFlow 2's behavior: one run to the end, and one killed in a step."""
    folder = tmp_path_factory.mktemp("elsewhere")
    code = """
        import os, signal
        import tensorflow.compat.v1 as tf
        tf.disable_v2_behavior()
        from spinup import ppo_tf1
        from spinup.algos.common.loop import Loop
        given = dict(steps_per_epoch=40, epochs=3, max_ep_len=20, save_freq=1, seed=4)
        given.update(train_pi_iters=3, train_v_iters=3, ac_kwargs={"hidden_sizes": (8,)})
        ppo_tf1("CartPole-v1", **given, logger_kwargs={"output_dir": "whole", "quiet": True})
        assert not tf.executing_eagerly() and not tf.get_default_graph().get_operations()
        step, count = Loop.step, 0
        def counted(self, a):
            global count
            count += 1
            if count == 97:
                os.kill(os.getpid(), signal.SIGKILL)
            return step(self, a)
        Loop.step = counted
        ppo_tf1("CartPole-v1", **given, logger_kwargs={"output_dir": "killed", "quiet": True})
    """
    path = os.pathsep.join(sys.path)
    code = textwrap.dedent(code)
    run_python("-c", code, expect=-signal.SIGKILL, cwd=folder, PYTHONPATH=path)
    return folder


def test_old_tensorflow_behavior_gives_the_same_bits(train, elsewhere):
    here = train("ppo_tf1", "CartPole-v1", epochs=3, seed=4)
    assert same(elsewhere / "whole", here.dir)


def test_a_run_that_was_killed_continues_exactly(train, elsewhere):
    assert len(table_cells(elsewhere / "killed")) == 3
    logger = {"output_dir": str(elsewhere / "killed"), "quiet": True}
    given = {"epochs": 3, "seed": 4, "save_freq": 1, "logger_kwargs": logger}
    train("ppo_tf1", "CartPole-v1", **given, resume=True)
    assert same(elsewhere / "killed", elsewhere / "whole")


def test_a_loss_that_is_not_finite_stops_by_name_and_keeps_the_checkpoint(train, tmp_path):
    class Poisoned(gym.Wrapper):
        steps = 0

        def step(self, action):
            o, r, terminated, truncated, info = self.env.step(action)
            Poisoned.steps += 1
            return o, (math.nan if Poisoned.steps > 110 else r), terminated, truncated, info

    logger = {"output_dir": str(tmp_path / "nan"), "quiet": True}
    with pytest.raises(SpinupError, match="became nan in epoch 2 because the environment returned"):
        train(
            "ppo_tf1",
            lambda: Poisoned(gym.make("CartPole-v1")),
            epochs=4,
            save_freq=1,
            logger_kwargs=logger,
        )
    assert len(table_cells(tmp_path / "nan")) == 3
    assert all(np.isfinite(x).all() for x in variables(tmp_path / "nan").values())
    assert load_checkpoint(tmp_path / "nan" / "checkpoints")[0]["epoch"] == 2


def test_a_parameter_that_is_not_finite_is_not_saved(train, tmp_path):
    logger = {"output_dir": str(tmp_path / "inf"), "quiet": True}
    with pytest.raises(SpinupError, match=r"became|is not finite") as error:
        train("vpg_tf1", "CartPole-v1", vf_lr=1e38, train_v_iters=2, logger_kwargs=logger)
    assert "it had saved no checkpoint yet" in str(error.value)
    assert load_checkpoint(tmp_path / "inf" / "checkpoints") is None


def test_runs_of_the_other_backend_are_not_resumed(train, tmp_path):
    for made, other in (("ppo_tf1", "ppo"), ("ppo", "ppo_tf1")):
        run = train(made, "CartPole-v1")
        before = {p: p.read_bytes() for p in run.dir.rglob("*") if p.is_file()}
        logger = {"output_dir": str(run.dir), "quiet": True}
        with pytest.raises(SpinupError, match=r"a run of ppo_\w+, not of ppo_\w+: use") as error:
            train(other, "CartPole-v1", epochs=2, resume=True, logger_kwargs=logger)
        assert "tf1" in str(error.value) and "pytorch" in str(error.value)
        assert {p: p.read_bytes() for p in run.dir.rglob("*") if p.is_file()} == before


def test_callbacks_see_every_row_and_can_end_the_run(train):
    seen = []

    def on_epoch(row, ac):
        assert row.pop("Time") >= 0
        seen.append((row, ac.v.shape.as_list()))
        return row["Epoch"] == 1

    options = {"on_epoch": on_epoch, "save_best": True, "num_test_episodes": 2}
    run = train("ppo_tf1", "CartPole-v1", epochs=5, **options)
    assert [row for row, _ in seen] == run.rows and len(run.rows) == 2
    assert seen[0][1] == [None] and (run.dir / ".finished").is_file()
    meta, arrays = load_policy(run.dir / "best" / "tf1_save")
    returns = [row["AverageTestEpRet"] for row in run.rows]
    assert meta["return"] == max(returns) and meta["backend"] == "tf1"
    assert all(1 <= x <= 20 for x in returns) and len(arrays) == 4


def test_images_dicts_and_actions_of_any_shape_train(train):
    table_of_bytes = spaces.Box(0, 255, (3, 3), np.uint8)
    keyed = spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Discrete(3)})
    table = spaces.MultiDiscrete([[2, 3], [3, 2]], start=[[1, 0], [5, 0]])
    for obs_space, action_space in ((table_of_bytes, table), (keyed, spaces.Box(-1, 1, (2, 1)))):
        options = {"num_envs": 2, "num_test_episodes": 1}
        row = train("trpo_tf1", lambda o=obs_space, a=action_space: Odd(o, a), **options).rows[0]
        assert math.isfinite(row["LossPi"]) and row["EpLen"] == row["TestEpLen"] == 20


# ---- probes ----------------------------------------------------------------------------------


def network(arrays, scope, x):
    """The output of an MLP with tanh layers, from a run's variables."""
    names = ["dense", "dense_1"]
    for i, name in enumerate(names):
        x = x @ arrays[f"{scope}/{name}/kernel"] + arrays[f"{scope}/{name}/bias"]
        x = np.tanh(x) if i == 0 else x
    return x


# Those that contain the simpler ones; the parity tests cover the other action spaces.
VALUES = ("TwoStep", "Truncation", "Termination", "TimeLimit")
ACTIONS = ("DiscreteFrom5", "MultiBinary", "Asymmetric")


@pytest.mark.parametrize("name", VALUES)
def test_ppo_learns_the_values_of_a_probe(train, name):
    probe = f"spinup/Probe{name}-v0"
    passes = {"steps_per_epoch": 40, "num_envs": 2, "epochs": 12, "train_v_iters": 40}
    net = {"hidden_sizes": (16,)}
    run = train("ppo_tf1", probe, ac_kwargs=net, gamma=GAMMA, vf_lr=0.02, **passes)
    env = make_env(probe)
    obs = np.stack(observations(probe))
    want = [env.unwrapped.true_value(o, GAMMA) for o in obs]
    np.testing.assert_allclose(network(variables(run.dir), "v", obs)[:, 0], want, atol=0.1)


@pytest.mark.parametrize("name", ACTIONS)
def test_ppo_learns_the_best_action_of_a_probe(train, name):
    probe = f"spinup/ProbeActionObservation{name}-v0"
    env = make_env(probe)
    is_box = isinstance(env.action_space, spaces.Box)
    given = {"pi_lr": 0.03, "train_pi_iters": 10, "target_kl": None, "epochs": 15}
    given |= {"steps_per_epoch": 128, "num_envs": 16, "train_v_iters": 5, "vf_lr": 0.02}
    if is_box:
        given |= {"pi_lr": 0.02, "anneal_lr": True, "epochs": 30, "steps_per_epoch": 256}
    run = train("ppo_tf1", probe, ac_kwargs={"hidden_sizes": (16,)}, **given)
    meta, arrays = load_policy(run.dir / "tf1_save")
    actor = NumpyActor(meta["actor"], arrays)
    obs = np.stack(observations(probe))
    found = env_actions(adapt_env(env).action_space)(actor.mode(actor(obs)))
    best = np.stack([env.unwrapped.optimal_action(o) for o in obs])
    start = getattr(env.action_space, "start", 0)
    np.testing.assert_allclose(np.stack(found) + start, best, atol=0.2 if is_box else 0)

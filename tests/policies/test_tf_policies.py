"""Policies of the TensorFlow backend: known networks act in NumPy, other graphs in a session."""

import functools
import json
import os
import pickle
import shutil

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from spinup.algos.common.numpy_actor import ACTIVATIONS, NumpyActor
from spinup.cli.export import main as export_command
from spinup.cli.test_policy import main as play_command
from spinup.envs import adapt_env, env_record, make_env, space_to_json
from spinup.policies import export, loading
from spinup.policies.loading import load_policy_and_env, load_tf_policy
from spinup.policies.tf_policies import SampledActions
from spinup.runs.storage.policies import write_policy
from spinup.utils.errors import SpinupError
from spinup.utils.files import self_hash
from tests.helpers.bomb import Bomb
from tests.helpers.processes import run_python

OBS = np.random.default_rng(3).normal(scale=5, size=(40, 3)).astype(np.float32)
OBS_SPACE = spaces.Box(-np.inf, np.inf, (3,), np.float32)
BOX = spaces.Box(np.float32([-1, 0]), np.float32([0.5, 3]))
SPACES = {
    "categorical": spaces.Discrete(4, start=2),
    "multicategorical": spaces.MultiDiscrete([2, 3]),
    "bernoulli": spaces.MultiBinary(4),
    "gaussian": BOX,
    "squashed_gaussian": BOX,
    "deterministic": BOX,
}
OUTPUTS = {"categorical": 4, "multicategorical": 5, "bernoulli": 4}


def network(kind, activation="tanh", seed=0, inputs=3, outputs=None):
    """A description and random arrays."""
    rng, arrays = np.random.default_rng(seed), {}

    def layer(name, n, m):
        arrays[f"{name}/w"] = rng.normal(size=(n, m)).astype(np.float32)
        arrays[f"{name}/b"] = rng.normal(size=m).astype(np.float32)
        return [f"{name}/w", f"{name}/b"]

    dim = outputs or OUTPUTS.get(kind, 2)
    about = {"kind": kind, "layers": [[*layer("h", inputs, 8), activation]]}
    if kind == "squashed_gaussian":
        about["mu_layer"], about["log_std_layer"] = layer("mu", 8, dim), layer("log_std", 8, dim)
        about["limits"] = [-20, 2]
    else:
        about["layers"].append([*layer("out", 8, dim), "identity"])
    if kind in ("squashed_gaussian", "deterministic"):
        arrays["scale"] = (BOX.high - BOX.low) / 2
        arrays["center"] = (BOX.high + BOX.low) / 2
        about.update(scale="scale", center="center")
    if kind == "gaussian":
        arrays["log_std"] = np.full(dim, 0.5, np.float32)
        about["log_std"] = "log_std"
        arrays["mean"], arrays["std"] = np.float32([1, 2, 3]), np.float32([1, 2, 3])
        about.update(obs_mean="mean", obs_std="std", obs_clip=5.0)
    if kind == "multicategorical":
        about["nvec"] = [2, 3]
    return about, arrays


def save(folder, about, arrays, action_space, observation_space=OBS_SPACE, **changes):
    """A save of a TensorFlow run, as far as NumPy reads it; `changes` go into the metadata."""
    folder.mkdir(parents=True, exist_ok=True)
    meta = {
        "algo": "ppo",
        "backend": "tf1",
        "observation_space": space_to_json(observation_space),
        "action_space": space_to_json(action_space),
        "ac_kwargs": {},
        "env": {"id": None},
        **changes,
    }
    write_policy(str(folder), "", arrays, meta, actor=about)
    return NumpyActor(about, arrays)


@pytest.fixture
def cartpole(tmp_path):
    """A run directory, and the policy in it."""
    env = adapt_env(make_env("CartPole-v1"))
    parts = network("categorical", inputs=4, outputs=2)
    spaces_ = env.action_space, env.observation_space
    actor = save(tmp_path / "run" / "tf1_save", *parts, *spaces_, env=env_record(env))
    return tmp_path / "run", actor


# ----------------------------------------------------------------------------- known networks


@pytest.mark.parametrize("kind", SPACES)
def test_a_known_network_acts_in_numpy(tmp_path, kind):
    space = SPACES[kind]
    actor = save(tmp_path / "tf1_save", *network(kind), space)
    greedy = load_tf_policy(tmp_path, deterministic=True)
    sampled, again, other = (load_tf_policy(tmp_path, seed=seed) for seed in (5, 5, 6))
    rng, differ = np.random.default_rng(5), 0
    for o in OBS:
        out, start = actor(o[None]), getattr(space, "start", 0)
        for action, expected in (
            (greedy(o), actor.mode(out)[0] + start),
            (sampled(o), actor.sample(out, rng)[0] + start),
        ):
            if kind == "gaussian":
                expected = np.clip(expected, space.low, space.high)
            np.testing.assert_array_equal(action, expected)
            assert space.contains(action)
        a, b = again(o), other(o)
        differ += bool(np.any(a != b))
    assert (differ > 0) == (kind != "deterministic")


def test_a_known_network_plays_in_its_environment(cartpole, capsys):
    folder, actor = cartpole
    env, get_action = load_policy_and_env(folder, deterministic=True)
    assert env.spec.id == "CartPole-v1"
    o, _ = env.reset(seed=0)
    assert get_action(o) == actor.mode(actor(o[None]))[0]
    assert play_command([str(folder), "-nr", "-n", "2", "--seed", "0", "-l", "20"]) == 0
    assert "EpRet" in capsys.readouterr().out


@pytest.mark.parametrize("known", [True, False])
def test_an_environment_without_a_time_limit_is_cut_as_in_training(tmp_path, capsys, known):
    env = adapt_env(gym.make("Pendulum-v1").unwrapped)
    about, arrays = network("gaussian", outputs=1)
    actor = save(
        tmp_path / "tf1_save",
        about,
        arrays,
        env.action_space,
        env.observation_space,
        env=env_record(env),
        max_ep_len=7,
    )
    if not known:
        meta = json.loads((tmp_path / "tf1_save" / "policy.json").read_text())
        shutil.rmtree(tmp_path / "tf1_save")
        graph(tmp_path / "tf1_save", lambda pi: pi[:, None], ("pi",), meta=meta, inputs=3)
    assert actor.act_dim == 1
    assert play_command([str(tmp_path), "-nr", "-n", "2"]) == 0
    assert capsys.readouterr().out.count("EpLen 7\n") == 2


def test_a_known_network_is_filmed(cartpole, tmp_path):
    clip = tmp_path / "clip.gif"
    assert play_command([str(cartpole[0]), "-l", "5", "--seed", "0", "--video", str(clip)]) == 0
    assert clip.read_bytes()[:4] == b"GIF8"


def test_known_networks_need_no_framework(tmp_path):
    for kind, space in SPACES.items():
        save(tmp_path / kind / "tf1_save", *network(kind), space)
    code = (
        "import sys, numpy as np, warnings; warnings.simplefilter('ignore');"
        "sys.modules['tensorflow'] = sys.modules['torch'] = None;"
        "from spinup.utils.test_policy import load_policy_and_env, load_tf_policy;"
        "[print(load_tf_policy(f, deterministic=True)(np.ones(3))) for f in sys.argv[1:]];"
        "env, act = load_policy_and_env(sys.argv[1]); assert env is None; act(np.ones(3))"
    )
    folders = [str(tmp_path / kind) for kind in SPACES]
    done = run_python("-c", code, *folders)
    assert len(done.stdout.splitlines()) == len(SPACES)


def test_saves_are_chosen_by_number(tmp_path):
    actors = {}
    for number in ("", "3", "20"):
        parts = network("gaussian", seed=int(number or 0))
        actors[number] = save(tmp_path / f"tf1_save{number}", *parts, BOX)
    actors["best"] = save(tmp_path / "best" / "tf1_save", *network("gaussian", seed=9), BOX)

    def chosen(itr):
        action = load_tf_policy(tmp_path, itr, deterministic=True)(OBS[0])
        return [
            name
            for name, actor in actors.items()
            if np.array_equal(np.clip(actor.mode(actor(OBS[:1]))[0], BOX.low, BOX.high), action)
        ]

    pairs = [("last", "20"), (-1, "20"), (None, ""), (3, "3"), ("20", "20"), ("best", "best")]
    assert [chosen(itr) for itr, _ in pairs] == [[name] for _, name in pairs]
    with pytest.raises(SpinupError, match=r"no save number 4: choose from 3, 20, the last one"):
        load_tf_policy(tmp_path, 4)
    # killed while a save was replaced: the previous one still has another name
    (tmp_path / "tf1_save20").rename(tmp_path / "tf1_save20.old")
    assert chosen("last") == ["20"]
    shutil.copytree(tmp_path / "tf1_save3", tmp_path / "tf1_save20")
    assert chosen("last") == ["3"]
    shutil.rmtree(tmp_path / "best")
    with pytest.raises(SpinupError, match="save_best"):
        load_tf_policy(tmp_path, "best")


@pytest.mark.parametrize(
    ("kind", "action_space", "observation_space"),
    [
        ("categorical", spaces.Discrete(5), OBS_SPACE),
        ("categorical", BOX, OBS_SPACE),
        ("categorical", SPACES["bernoulli"], OBS_SPACE),
        ("multicategorical", spaces.MultiDiscrete([3, 2]), OBS_SPACE),
        ("gaussian", spaces.Box(-1, 1, (3,)), OBS_SPACE),
        ("deterministic", spaces.Discrete(2), OBS_SPACE),
        ("bernoulli", spaces.MultiBinary(5), OBS_SPACE),
        ("gaussian", BOX, spaces.Box(-1, 1, (4,))),
    ],
)
def test_a_network_that_does_not_fit_its_spaces_is_refused(
    tmp_path, kind, action_space, observation_space
):
    save(tmp_path / "tf1_save", *network(kind), action_space, observation_space)
    with pytest.raises(SpinupError, match="does not fit its spaces"):
        load_tf_policy(tmp_path)


def test_an_environment_with_other_spaces_is_refused(cartpole):
    with pytest.raises(SpinupError, match="space"):
        load_policy_and_env(cartpole[0], env="Pendulum-v1")


def rewritten(folder, **changes):
    """Change the JSON of a saved policy, with a matching hash."""
    path = folder / "tf1_save" / "policy.json"
    meta = {**json.loads(path.read_text()), **changes}
    meta["sha256"] = self_hash(meta)
    path.write_text(json.dumps(meta))


@pytest.mark.parametrize(
    "actor",
    [
        None,
        3,
        {},
        {"kind": "os.system"},
        {"kind": "gaussian", "layers": [["h/w", "h/b", "tanh"]] * 10**5},
        {"kind": "gaussian", "layers": [["h/w", "h/b", "__import__('os')"]]},
        {"kind": "categorical", "layers": [["h/w", "nowhere", "tanh"]]},
        {"kind": "multicategorical", "layers": [["h/w", "h/b", "tanh"]], "nvec": [10**30]},
    ],
)
def test_a_forged_description_is_one_sentence(cartpole, actor, capsys):
    rewritten(cartpole[0], actor=actor)
    assert play_command([str(cartpole[0]), "-nr"]) == 2
    out, err = capsys.readouterr()
    assert err.count("\n") == 1 and "policy.json cannot be used" in err and out == ""
    with pytest.raises(SpinupError, match="cannot be used"):
        export.export_onnx(cartpole[0], cartpole[0] / "p.onnx")


@pytest.mark.parametrize("name", ["policy.json", "policy.safetensors"])
@pytest.mark.parametrize("damage", ["flipped", "empty", "pipe", "huge", "missing"])
def test_a_damaged_save_is_one_sentence(cartpole, name, damage):
    path = cartpole[0] / "tf1_save" / name
    data = path.read_bytes()
    path.unlink()
    if damage == "pipe":
        os.mkfifo(path)
    elif damage == "huge":
        with open(path, "wb") as file:
            file.truncate(1 << 40)
    elif damage != "missing":
        changed = data[:60] + bytes([data[60] ^ 1]) + data[61:] if damage == "flipped" else b""
        path.write_bytes(changed)
    with pytest.raises(SpinupError) as caught:
        load_policy_and_env(cartpole[0])
    assert "\n" not in str(caught.value)


def test_what_does_not_belong_to_a_tensorflow_run_is_one_sentence(cartpole, tmp_path):
    with pytest.raises(SpinupError, match="leave out actor_critic"):
        load_policy_and_env(cartpole[0], actor_critic=dict)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SpinupError, match="contains no policy of the TensorFlow backend"):
        load_tf_policy(tmp_path / "empty")
    with pytest.raises(SpinupError, match="the run below it"):
        load_policy_and_env(tmp_path)
    assert loading.backend_of(cartpole[0] / "tf1_save") == "pytorch"  # no graph, in this test


# ------------------------------------------------------------------------------------- export


@pytest.mark.parametrize("kind", SPACES)
def test_a_known_network_is_exported(tmp_path, kind, capsys):
    actor = save(tmp_path / "tf1_save", *network(kind), SPACES[kind])
    assert export_command([str(tmp_path), "--onnx", str(tmp_path / "p.onnx")]) == 0
    assert "339 observations" in capsys.readouterr().out
    import onnxruntime

    (actions,) = onnxruntime.InferenceSession(tmp_path / "p.onnx").run(None, {"obs": OBS})
    greedy = load_tf_policy(tmp_path, deterministic=True)
    np.testing.assert_allclose(actions, [greedy(o) for o in OBS], rtol=1e-5, atol=1e-5)
    assert actor.kind == kind


def test_every_activation_is_exported(tmp_path):
    import torch

    from spinup.policies.deterministic import DescribedActor

    for name in ACTIVATIONS:
        actor = NumpyActor(*network("gaussian", name))
        with torch.no_grad():
            got = DescribedActor(actor)(torch.as_tensor(OBS)).numpy()
        np.testing.assert_allclose(got, actor(OBS), rtol=1e-5, atol=1e-5)


def test_a_graph_is_not_exported(tmp_path, capsys):
    (tmp_path / "tf1_save").mkdir()
    (tmp_path / "tf1_save" / "saved_model.pb").write_bytes(b"")
    assert export_command([str(tmp_path), "--onnx", str(tmp_path / "p.onnx")]) == 2
    assert "has no policy.json" in capsys.readouterr().err


# ------------------------------------------------------------------------------- other graphs


def graph(folder, change=lambda pi: pi, outputs=("pi", "mu"), original=False, meta=None, inputs=4):
    """Save a graph of 4 inputs and 2 actions; return its most likely action as a function."""
    from spinup.algos.tf1.common.saver import GraphSaver
    from spinup.utils.tf import tf

    folder.parent.mkdir(exist_ok=True)
    with tf.Graph().as_default() as made:
        x = tf.placeholder(tf.float32, (None, inputs))
        w = tf.get_variable("w", (inputs, 2), use_resource=not original)
        logits = tf.matmul(x, w)
        pi = change(tf.squeeze(tf.random.categorical(logits, 1, seed=4), 1))
        tensors = {"pi": pi, "mu": tf.argmax(logits, 1)}
        sess = tf.Session(graph=made)
        sess.run(tf.global_variables_initializer())
        kept = {name: tensors[name] for name in outputs}
        if original:
            tf.saved_model.simple_save(sess, str(folder), {"x": x}, kept)
            names = {"inputs": {"x": x.name}, "outputs": {k: t.name for k, t in kept.items()}}
            (folder / "model_info.pkl").write_bytes(pickle.dumps(names))
        else:
            GraphSaver(sess, {"x": x}, kept, meta).save(str(folder))
    return lambda o: sess.run(tensors["mu"], {x: o[None]})[0]


def cartpole_meta():
    env = adapt_env(make_env("CartPole-v1"))
    return {
        "observation_space": space_to_json(env.observation_space),
        "action_space": space_to_json(env.action_space),
        "env": env_record(env),
    }


ROWS = np.random.default_rng(1).normal(size=(30, 4)).astype(np.float32)


def test_a_graph_acts_through_a_session(tmp_path):
    best = graph(tmp_path / "tf1_save", meta=cartpole_meta())
    env, get_action = load_policy_and_env(tmp_path, deterministic=True)
    assert env.spec.id == "CartPole-v1"
    assert [get_action(o) for o in ROWS] == [best(o) for o in ROWS]

    def drawn(seed):
        get_action = load_tf_policy(tmp_path, seed=seed)
        return [int(get_action(o)) for o in 0.01 * ROWS]

    assert drawn(1) == drawn(1) != drawn(2)
    assert drawn(None) != drawn(None)
    assert play_command([str(tmp_path), "-nr", "-n", "1", "-l", "5"]) == 0
    with pytest.raises(SpinupError, match=r"cannot act on an observation of shape \(7,\)"):
        get_action(np.zeros(7))


def test_what_a_graph_complains_about_is_repeated(tmp_path):
    from spinup.utils.tf import tf

    def change(pi):
        with tf.control_dependencies([tf.raw_ops.Assert(condition=False, data=["too\x1b cold"])]):
            return tf.identity(pi)

    graph(tmp_path / "tf1_save", change)
    with pytest.raises(SpinupError, match=r"assertion failed: .*cold") as caught:
        load_tf_policy(tmp_path)(np.zeros(4))
    assert str(caught.value).isprintable()


def test_the_folder_of_a_save_is_accepted_too(tmp_path):
    best = graph(tmp_path / "tf1_save")
    get_action = load_tf_policy(tmp_path / "tf1_save", deterministic=True)
    assert get_action(ROWS[0]) == best(ROWS[0])


def test_the_most_likely_action_is_not_invented(tmp_path):
    graph(tmp_path / "a" / "tf1_save", outputs=("pi",))
    for load in (load_tf_policy, functools.partial(load_policy_and_env, env="CartPole-v1")):
        with pytest.warns(SampledActions, match="no output 'mu'") as caught:
            load(tmp_path / "a", deterministic=True)
        assert caught[0].filename == __file__  # it points at the caller
    graph(tmp_path / "b" / "tf1_save", outputs=("mu",))
    with pytest.raises(SpinupError, match="needs an input 'x' and an output 'pi', but has mu, x"):
        load_tf_policy(tmp_path / "b")


def test_actions_of_a_graph_are_clipped_to_the_bounds(tmp_path):
    from spinup.utils.tf import tf

    def large(pi):
        return tf.stack([100.0 * tf.cast(pi, tf.float32) + 50, tf.cast(pi, tf.float32) - 50], 1)

    meta = {**cartpole_meta(), "action_space": space_to_json(BOX)}
    graph(tmp_path / "tf1_save", large, meta=meta)
    with pytest.warns(loading.NoEnvironment):  # CartPole has other actions
        _, get_action = load_policy_and_env(tmp_path)
    np.testing.assert_array_equal(get_action(ROWS[0]), np.float32([0.5, 0]))


@pytest.mark.parametrize("name", ["tf1_save", "simple_save", "tf1_save12"])
def test_a_run_of_the_original_loads_without_opening_a_pickle(tmp_path, name):
    best = graph(tmp_path / "run" / name, original=True)
    trace = tmp_path / "trace"
    for path in (tmp_path / "run" / "vars.pkl", tmp_path / "run" / name / "model_info.pkl"):
        path.write_bytes(pickle.dumps(Bomb(str(trace))))
    env, get_action = load_policy_and_env(
        tmp_path / "run", deterministic=True, env="CartPole-v1", seed=0
    )
    assert [get_action(o) for o in ROWS] == [best(o) for o in ROWS]
    assert env.spec.id == "CartPole-v1"
    with pytest.warns(loading.NoEnvironment, match="only saved as a pickle"):
        env, _ = load_policy_and_env(tmp_path / "run")
    assert env is None and not trace.exists()


def test_the_environment_of_an_original_run_comes_from_its_pickle_if_trusted(tmp_path):
    graph(tmp_path / "tf1_save", original=True)
    with open(tmp_path / "vars.pkl", "wb") as file:
        pickle.dump({"env": gym.make("CartPole-v1").unwrapped}, file)
    env, get_action = load_policy_and_env(tmp_path, trust_pickle=True)
    o, _ = env.reset(seed=0)
    assert env.action_space.contains(int(get_action(o)))


def test_a_hostile_graph_plays_nothing_and_writes_nothing(tmp_path, capsys):
    from spinup.utils.tf import tf

    trace = tmp_path / "trace"

    def change(pi):
        with tf.control_dependencies([tf.raw_ops.WriteFile(filename=str(trace), contents="x")]):
            return tf.identity(pi)

    graph(tmp_path / "run" / "tf1_save", change, meta=cartpole_meta())
    assert play_command([str(tmp_path / "run"), "-nr", "-n", "1"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("spinup: the graph in") and "'WriteFile'" in err and err.count("\n") == 1
    assert not trace.exists()


# --------------------------------------------------------------------------- runs of algorithms


def tiny(folder, **changes):
    from spinup import ppo_tf1

    few = {"steps_per_epoch": 40, "epochs": 1, "train_pi_iters": 2, "train_v_iters": 2}
    ppo_tf1(
        "CartPole-v1", logger_kwargs={"output_dir": str(folder), "quiet": True}, **few, **changes
    )


def test_a_run_saves_one_policy_in_two_forms(tmp_path):
    tiny(tmp_path, ac_kwargs={"hidden_sizes": (8,), "normalize_obs": True}, save_best=True)
    in_numpy = load_tf_policy(tmp_path, deterministic=True)
    (tmp_path / "tf1_save" / "policy.json").unlink()
    in_session = load_tf_policy(tmp_path, deterministic=True)
    assert [in_numpy(o) for o in ROWS] == [in_session(o) for o in ROWS]
    env, _ = load_policy_and_env(tmp_path, "best")
    assert env.spec.id == "CartPole-v1"


def test_a_graph_function_of_ones_own_is_loaded_without_it(tmp_path):
    from spinup.utils.tf import tf

    def actor_critic(x, a, action_space):
        with tf.variable_scope("pi"):
            logits = tf.matmul(x, tf.get_variable("w", (4, 2)))
            logp_all = tf.nn.log_softmax(logits)
            pi = tf.random.categorical(logits, 1)[:, 0]
            logp, logp_pi = (tf.reduce_sum(tf.one_hot(b, 2) * logp_all, 1) for b in (a, pi))
        with tf.variable_scope("v"):
            v = tf.matmul(x, tf.get_variable("w", (4, 1)))[:, 0]
        return pi, logp, logp_pi, v

    tiny(tmp_path, actor_critic=actor_critic)
    assert not (tmp_path / "tf1_save" / "policy.json").exists()

    def drawn(seed):
        env, get_action = load_policy_and_env(tmp_path, seed=seed)
        assert env.spec.id == "CartPole-v1"
        return [int(get_action(o)) for o in ROWS]

    assert drawn(1) == drawn(1) != drawn(2)

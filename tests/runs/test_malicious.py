"""Hostile files in a run directory: nothing in them runs, and nothing crashes.

For every file of a run and every payload: the policy is loaded, played and exported, the run is
resumed and plotted. Each either works, because that file is not needed for it, or ends in one
sentence. Opening a pickle would leave a trace.
"""

import copy
import hashlib
import inspect
import io
import json
import os
import pickle
import shutil
import struct
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from spinup import registry
from spinup.analysis import plot
from spinup.cli.compare import main as compare_command
from spinup.cli.export import main as export_command
from spinup.cli.plot import main as plot_command
from spinup.cli.test_policy import main as play_command
from spinup.envs import make_env
from spinup.policies import loading
from spinup.runs.storage import checkpoints
from spinup.utils.errors import SpinupError
from spinup.utils.files import self_hash
from tests.helpers.bomb import Bomb

ALGOS = ("ppo", "dqn")


def torch_saved(bomb):
    buffer = io.BytesIO()
    torch.save({"weights": bomb}, buffer)
    return buffer.getvalue()


def object_array(bomb):
    buffer = io.BytesIO()
    np.savez(buffer, weights=np.array([bomb], dtype=object))
    return buffer.getvalue()


def header(size, text=b""):
    """The beginning of a safetensors file."""
    return struct.pack("<Q", size) + text


def one_tensor(**changes):
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}
    text = json.dumps({"t": entry}).encode()
    return header(len(text), text) + bytes(8)


DEEP = 100_000
PAYLOADS = {
    "pickle": lambda bomb: pickle.dumps(bomb),
    "old pickle": lambda bomb: pickle.dumps({"env": bomb}, protocol=0),
    "torch.save": torch_saved,
    "npz": object_array,
    "garbage": lambda bomb: np.random.default_rng(0).bytes(300),
    "empty": lambda bomb: b"",
    "deep JSON": lambda bomb: b"[" * DEEP + b"]" * DEEP,
    "deep objects": lambda bomb: b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "other JSON": lambda bomb: b'[{"format": 1e999, "a": "\\ud800", "n": -0}]',
    "long number": lambda bomb: b"1" * 10_000,
    "huge header": lambda bomb: header(2**63 - 1, b"{"),
    "header of a gigabyte": lambda bomb: header(2**30, b"{}"),
    "huge tensor": lambda bomb: one_tensor(shape=[2**40, 2**40], data_offsets=[0, 2**62]),
    "huge shape": lambda bomb: one_tensor(shape=[2**62, 4]),
    "unknown dtype": lambda bomb: one_tensor(dtype="O"),
}


def files_of(run):
    return sorted(str(p.relative_to(run)) for p in run.rglob("*") if p.is_file())


def resume(algo, run):
    """Continue the run for another epoch, as its user would."""
    function = registry.load(algo, "pytorch")
    config = json.loads((run.parent / "config.json").read_text())
    known = [n for n in inspect.signature(function).parameters if n in config]
    changes = {
        "epochs": 3,
        "resume": True,
        "logger_kwargs": {"output_dir": str(run), "quiet": True},
    }
    kwargs = {n: config[n] for n in known if n not in ("env_fn", "actor_critic", "logger_kwargs")}
    kwargs["ac_kwargs"] = {"hidden_sizes": (8,)}
    function(lambda: make_env(config["env"]["id"]), **{**kwargs, **changes})


def outcome(action, *args):
    """'ok', or the sentence that an action ended in; anything else that it raises is a failure."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # damaged checkpoints are passed over with a warning
        warnings.simplefilter("error", loading.NoEnvironment)
        try:
            action(*args)
        except SpinupError as error:
            text = str(error)
            assert text and "Traceback" not in text and len(text) < 1500, text
            return text
    return "ok"


def play(run):
    env, get_action = loading.load_policy_and_env(run, deterministic=True)
    o, _ = env.reset(seed=0)
    env.step(get_action(o))
    env.close()


@pytest.fixture
def copies(tiny_runs, tmp_path, monkeypatch):
    """A function that makes a fresh copy of a finished run."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)

    def copied(algo):
        whole, _ = tiny_runs(algo, replay_size=60) if algo == "dqn" else tiny_runs(algo)
        target = tmp_path / "copy" / "run"
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(whole, target)
        shutil.copy(whole / "config.json", target.parent / "config.json")
        return target

    return copied


def try_everything(algo, run, name):
    """The outcomes of loading, playing, exporting, resuming and plotting."""
    results = {"load": outcome(play, run)}
    results["play"] = play_command([str(run), "-nr", "-n", "1", "-l", "2", "--seed", "0"])
    if name.startswith("pyt_save/policy"):
        results["export"] = export_command([str(run), "--onnx", str(run / "p.onnx")])
    results["plot"] = outcome(plot.get_datasets, str(run))
    results["resume"] = outcome(resume, algo, run)
    return results


# Of a run with a replay buffer only what differs: the pieces, which are read as tensors.
CASES = [("ppo", payload) for payload in PAYLOADS]
CASES += [("dqn", p) for p in ("pickle", "torch.save", "npz", "empty", "huge header", "huge shape")]

TABLES = ("progress.txt", "diagnostics.txt")


@pytest.mark.parametrize("algo, payload", CASES)
def test_no_file_of_a_run_executes_anything(copies, tmp_path, algo, payload):
    trace = tmp_path / "executed"
    data = PAYLOADS[payload](Bomb(trace))
    for name in files_of(copies(algo)):
        run = copies(algo)
        (run / name).write_bytes(data)
        results = try_everything(algo, run, name)
        assert not trace.exists(), f"{name} was executed"
        broken = name.startswith("pyt_save/policy")
        assert (results["load"] != "ok") == broken, (name, results)
        assert results["play"] == (2 if broken else 0), (name, results)
        assert results.get("export", 2) == 2, (name, results)
        # Of two checkpoints one may be damaged, or a piece of it; a table may not.
        assert (results["resume"] != "ok") == (name in TABLES), (name, results)


def test_the_bomb_would_go_off(tmp_path):
    """The payloads of the tests above really execute when they are unpickled."""
    trace = tmp_path / "executed"
    for opens in (
        lambda: pickle.loads(PAYLOADS["pickle"](Bomb(trace))),
        lambda: pickle.loads(PAYLOADS["old pickle"](Bomb(trace))),
        lambda: torch.load(io.BytesIO(PAYLOADS["torch.save"](Bomb(trace))), weights_only=False),
        lambda: np.load(io.BytesIO(PAYLOADS["npz"](Bomb(trace))), allow_pickle=True)["weights"],
    ):
        opens()
        trace.rmdir()


@pytest.mark.parametrize("kind", ["pipe", "endless", "bomb", "loop", "gone", "sparse"])
def test_links_and_pipes_in_place_of_files_are_not_followed_into_trouble(copies, tmp_path, kind):
    trace = tmp_path / "executed"
    (tmp_path / "bomb").write_bytes(pickle.dumps(Bomb(trace)))
    for name in files_of(copies("ppo")):
        run = copies("ppo")
        (run / name).unlink()
        if kind == "pipe":
            os.mkfifo(run / name)
        elif kind == "sparse":  # 10 GB that take no room on the disk
            (run / name).touch()
            os.truncate(run / name, 10**10)
        else:
            leads_to = {"endless": "/dev/zero", "bomb": tmp_path / "bomb", "gone": "nowhere"}
            (run / name).symlink_to(leads_to.get(kind, Path(name).name))
        loaded = outcome(play, run)
        assert (loaded != "ok") == name.startswith("pyt_save/policy"), (name, loaded)
        assert outcome(plot.get_datasets, str(run)) == "ok"  # it says which run it leaves out
        resumed = outcome(resume, "ppo", run)
        refused = TABLES if kind == "sparse" else (*TABLES, ".lock")
        assert (resumed != "ok") == (name in refused), (name, resumed)
        assert not trace.exists()


def test_what_links_lead_to_is_neither_emptied_nor_deleted(copies, tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    precious = {name: f"precious {name}\nno end of line" for name in ("a.txt", "b.safetensors")}
    for name, text in precious.items():
        (theirs / name).write_text(text)
    for name in (".lock", *TABLES, "config.json", ".finished", "pyt_save/policy.json"):
        run = copies("dqn")
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(theirs / "a.txt")
        outcome(resume, "dqn", run)
        outcome(play, run)
        assert (theirs / "a.txt").read_text() == precious["a.txt"], name
    run = copies("dqn")
    shutil.rmtree(run / "checkpoints" / "pieces")
    (run / "checkpoints" / "pieces").symlink_to(theirs)
    outcome(resume, "dqn", run)
    assert {p.name: p.read_text() for p in theirs.iterdir()} == precious


# ---------------------------------------------------------- forged files whose hashes are right


def nested(depth):
    return json.loads("[" * depth + "]" * depth)


STRANGE = [
    None,
    True,
    -1,
    0.5,
    10**30,
    "x",
    [],
    {},
    [None],
    {"a": 1},
    {"$": "array", "d": "'|O'", "s": [1], "b": "AAAAAAAAAAA="},
    {"$": "tensor", "d": "load", "s": [1], "g": False, "b": ""},
    {"$": "piece", "f": "../../x"},
    nested(600),
]


def places(tree, deepest, path=()):
    """Where something in a tree of dicts and lists can be replaced."""
    if path:
        yield path
    if len(path) < deepest:
        items = tree.items() if isinstance(tree, dict) else enumerate(tree[:2])
        for key, value in items if isinstance(tree, dict | list) else ():
            inner = value if isinstance(value, dict | list) else {}
            yield from places(inner, deepest, (*path, key))


def replaced(tree, path, value):
    tree = copy.deepcopy(tree)
    part = tree
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return tree


@pytest.mark.parametrize("algo", ["ppo", "her"])
def test_a_forged_description_of_a_policy_is_one_sentence(copies, algo):
    run = copies(algo)
    path = run / "pyt_save" / "policy.json"
    whole = json.loads(path.read_text())
    del whole["sha256"]  # without it, as in files of version 0.1.0, the content is not checked
    tried = list(places(whole, 3))
    assert len(tried) > 30
    refused = 0
    for place in tried:
        for value in STRANGE:
            path.write_text(json.dumps(replaced(whole, place, value)))
            refused += outcome(play, run) != "ok"
    assert refused > 100  # the rest is not needed to load a policy


HUGE = [
    {"ac_kwargs": {"hidden_sizes": [10**9, 10**9]}},
    {"ac_kwargs": {"hidden_sizes": [10**12]}},
    {"observation_space": {"type": "Box", "shape": [10**12], "dtype": "f4", "low": 0, "high": 1}},
    {"action_space": {"type": "Discrete", "n": 10**12, "start": 0}},
    {"action_space": {"type": "MultiDiscrete", "nvec": [10**9], "start": [0], "dtype": "i8"}},
]


@pytest.mark.parametrize("changes", HUGE)
def test_a_few_bytes_cannot_ask_for_all_the_memory(copies, changes):
    run = copies("ppo")
    path = run / "pyt_save" / "policy.json"
    forged = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({**forged, "sha256": self_hash(forged)}))
    result = outcome(play, run)
    assert result != "ok" and "own hash" not in result


@pytest.mark.parametrize("payload", PAYLOADS)
def test_weights_of_the_right_hash_are_not_executed(copies, tmp_path, payload):
    run = copies("ppo")
    trace = tmp_path / "executed"
    data = PAYLOADS[payload](Bomb(trace))
    path = run / "pyt_save" / "policy.json"
    digest = hashlib.sha256(data).hexdigest()
    forged = {**json.loads(path.read_text()), "tensors": digest}
    path.write_text(json.dumps({**forged, "sha256": self_hash(forged)}))
    (run / "pyt_save" / "policy.safetensors").write_bytes(data)
    assert outcome(play, run) != "ok" and not trace.exists()


def forge(run, name, data):
    """Put `data` in place of a file of the newest checkpoint, its hash in the manifest."""
    oldest, newest = sorted((run / "checkpoints").glob("step-*"))
    shutil.rmtree(oldest)
    (newest / name).write_bytes(data)
    manifest = json.loads((newest / "manifest.json").read_text())
    del manifest["manifest_sha256"]
    digest = hashlib.sha256(data).hexdigest()
    manifest["files"][name] = {"size": len(data), "sha256": digest}
    (newest / "manifest.json").write_bytes(checkpoints._render_manifest(manifest))


@pytest.mark.parametrize("algo", ALGOS)
def test_a_forged_checkpoint_is_one_sentence(copies, algo):
    newest = max((copies(algo) / "checkpoints").glob("step-*"))
    whole = json.loads((newest / "state.json").read_text())
    tried = [place for place in places(whole, 1) if place != ("backend",)]  # nobody reads that
    assert len(tried) >= 10
    for place in tried:
        for value in STRANGE:
            run = copies(algo)
            forge(run, "state.json", json.dumps(replaced(whole, place, value)).encode())
            result = outcome(resume, algo, run)
            # Another time, or a run that is complete, is fine. Its test episodes keep nothing.
            fine = [("seconds", 0.5), ("epoch", 10**30), ("total_steps", 10**30), ("tests", None)]
            assert (result != "ok") != ((*place, value) in fine), (place, value)


@pytest.mark.parametrize("name", ["state.json", "state.safetensors"])
@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_checkpoint_of_the_right_hash_is_not_executed(copies, tmp_path, name, payload):
    run = copies("ppo")
    trace = tmp_path / "executed"
    forge(run, name, PAYLOADS[payload](Bomb(trace)))
    assert outcome(resume, "ppo", run) != "ok" and not trace.exists()


# ------------------------------------------------------------------ the figures, as drawn for users


@pytest.mark.parametrize("payload", ["pickle", "torch.save", "garbage", "empty", "deep JSON"])
def test_plot_and_compare_name_a_hostile_run_and_go_on(
    copies, tiny_runs, tmp_path, payload, capsys
):
    trace = tmp_path / "executed"
    sound, _ = tiny_runs("ppo")
    for name in ("progress.txt", "config.json"):
        run = copies("ppo")
        (run / name).write_bytes(PAYLOADS[payload](Bomb(trace)))
        figure = tmp_path / "figure.png"
        assert plot_command([str(sound), str(run), "--save", str(figure)]) == 0
        assert figure.stat().st_size > 1000
        figure.unlink()
        code = compare_command([str(sound), str(run), "--save", str(figure)])
        assert code in (0, 2)
        err = capsys.readouterr().err
        assert "Traceback" not in err and not trace.exists()
        if name == "progress.txt":
            assert str(run) in err and code == 2  # nothing is left to compare with


# ----------------------------------------------------------------- descriptions of absurd things


@pytest.mark.parametrize("sizes", [[10**9], [10**9] * 3, [2] * 1_000_000, [10**400], [[2] * 10**6]])
def test_an_absurd_network_is_refused_before_it_is_made(copies, sizes):
    run = copies("ppo")
    path = run / "pyt_save" / "policy.json"
    meta = json.loads(path.read_text())
    meta["ac_kwargs"]["hidden_sizes"] = sizes
    meta.pop("sha256")
    path.write_text(json.dumps(meta))
    started = time.process_time()
    assert outcome(play, run) != "ok"
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("name", "kwargs"),
    [
        ("FrameStackObservation", {"stack_size": 10**9}),
        ("RepeatAction", {"num_repeats": 10**12}),
        ("ResizeObservation", {"shape": [10**6, 10**6]}),
        ("MaxAndSkipObservation", {"skip": 10**9}),
    ],
)
def test_an_absurd_wrapper_is_refused_before_it_is_made(copies, name, kwargs):
    run = copies("ppo")
    path = run / "pyt_save" / "policy.json"
    meta = json.loads(path.read_text())
    record = {"name": name, "class": f"gymnasium.wrappers.x:{name}", "kwargs": kwargs}
    meta["env"]["wrapper_specs"].append(record)
    meta.pop("sha256")
    path.write_text(json.dumps(meta))
    assert "too large to be real" in outcome(play, run)

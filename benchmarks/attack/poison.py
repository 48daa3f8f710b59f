"""Poisoned files: every file that a command reads is replaced by something hostile.

The command must end within seconds: with the same result where it does not need the file, or with
one sentence. Nothing may be executed, nothing outside the run may be written, and nothing that a
terminal obeys may be printed.
"""

import copy
import io
import json
import os
import pickle
import random
import re
import shutil
from pathlib import Path

from benchmarks.attack.common import fresh_copy, train, trial, without_fsync

SECONDS = 8.0  # on a busy machine; an idle one needs less than one
ESCAPE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"
_OBEYED = re.compile("[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u202a-\u202e]|\x1b(?!\\[[0-9;]*m)")
DEEP = 100_000


class Bomb:
    """Leaves a file when it is unpickled."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (str(self.trace),)


def contents(trace):
    """Return name -> bytes: what a file may be replaced with."""
    return {
        "empty": b"",
        "random": random.Random(0).randbytes(500),
        "pickle": pickle.dumps(Bomb(trace)),
        "deep JSON": b"[" * DEEP + b"]" * DEEP,
        "deep object": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
        "long number": b"1" * 50_000,
        "not an object": b"[1, 2, 3]",
        "NaN": b'{"format": NaN, "epochs": Infinity, "env": -Infinity}',
        "escapes": json.dumps({ESCAPE: ESCAPE, "exp_name": ESCAPE}).encode(),
        "raw escapes": f"{ESCAPE}\tEpoch\n{ESCAPE}\t1\n".encode(),
        "huge header": (2**62).to_bytes(8, "little") + b"{",
        "NULs": bytes(4096),
        "huge values": b"Epoch\tAverageEpRet\tTotalEnvInteracts\n0\t1e308\t1e308\n"
        b"1\t-1e308\t1e309\n",
        "long line": b"Epoch\t" * 200_000 + b"\n",
    }


def place_special(path, kind, outside):
    """Put something that is not a file of a few bytes in place of a file."""
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "terminal":
        path.symlink_to("/dev/tty")
    elif kind == "sparse":
        path.touch()
        os.truncate(path, 10**10)
    elif kind == "link outside":
        path.symlink_to(outside / "precious")
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "folder":
        path.mkdir()
    elif kind == "unreadable":
        path.symlink_to("/proc/self/mem")


SPECIAL = ("pipe", "device", "terminal", "sparse", "link outside", "loop", "folder", "unreadable")
VALUES = (
    None, True, -1, 0, 0.5, 1e308, float("nan"), float("inf"), 10**30, 10**4000, "x", "", ESCAPE,
    "../../x", "/etc/passwd", "a\0b", [], {}, [None], {"a": {"b": []}}, [[[[0]]]], [10**9] * 3,
)  # fmt: skip


def forged(data, rng):
    """Replace or remove one random value of a JSON document."""
    tree = copy.deepcopy(data)
    node, path = tree, []
    while True:
        keys = list(node) if isinstance(node, dict) else range(len(node))
        if not keys:
            return None, None
        key = rng.choice(list(keys))
        path.append(str(key))
        inner = node[key]
        if isinstance(inner, dict | list) and inner and rng.random() < 0.7:
            node = inner
            continue
        what = rng.randrange(len(VALUES) + 1)
        if what == len(VALUES):
            del node[key]
            return tree, f"{'.'.join(path)} removed"
        node[key] = VALUES[what]
        return tree, f"{'.'.join(path)} = {str(VALUES[what])[:40]!r}"


# ---------------------------------------------------------------------------------------- commands


def command(*words):
    """Run the command line in this process."""
    from spinup.cli.main import main

    return main(list(words))


def resume(algo, run):
    with without_fsync():
        train(algo, run, resume=True)
    return 0


def export(run):
    return command("export", str(run), "--onnx", str(run / "p.onnx"))


def commands(run, algo):
    """Return name -> function and arguments, for one run directory."""
    base, other = str(run), str(run.parents[2] / "whole")
    return {
        "test_policy": (command, "test_policy", base, "-nr", "-n", "1", "-l", "3", "--seed", "0"),
        "export": (export, run),
        "plot": (command, "plot", base, "--save", str(run.parent / "plot.png")),
        "compare": (command, "compare", base, other, "-l", "a", "b", "--reps", "100"),
        "runs": (command, "runs", base),
        "resume": (resume, algo, run),
        "dry run": (
            command, algo, "--env", "CartPole-v1", "--exp_name", run.parent.name, "--seed", "3",
            "--data_dir", str(run.parents[1]), "--epochs", "5", "--resume", "--dry_run",
        ),
    }  # fmt: skip


READERS = {
    "config.json": ("plot", "compare", "runs", "resume", "dry run"),
    "progress.txt": ("plot", "compare", "runs", "resume", "dry run"),
    ".progress.txt.sha256": ("plot", "compare"),
    ".lock": ("runs", "resume", "plot"),
    ".finished": ("runs", "resume"),
    "pyt_save/policy.json": ("test_policy", "export", "resume"),
    "pyt_save/policy.safetensors": ("test_policy", "export", "resume"),
    "vars.pkl": ("test_policy", "resume"),
    "pyt_save/model.pt": ("test_policy", "export"),
    "checkpoints/STEP/manifest.json": ("resume", "runs", "dry run"),
    "checkpoints/STEP/state.json": ("resume",),
    "checkpoints/STEP/state.safetensors": ("resume",),
}


def poison(tally, folder):
    """Replace every file of a run, and a preset, by hostile ones; run every command that reads."""
    tally.what = "a file that a command reads is replaced by a hostile one"
    rng = random.Random(0)
    algo, outside, trace = "ppo", folder / "outside", folder / "executed"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    whole = folder / "whole"
    with without_fsync():
        train(algo, whole, epochs=2)
    _warm(whole, folder)
    place = folder / "data" / "attacked" / "attacked_s3"
    for name, (function, *args) in commands(fresh_copy(whole, place), algo).items():
        outcome = trial(function, *args, seconds=120, memory=8 << 30)
        if outcome.kind != "ok":  # an attack on a command that fails anyway would prove nothing
            raise RuntimeError(f"{name}: {outcome.kind}: {outcome.text}")
    step = max((whole / "checkpoints").glob("step-*")).name
    for name, readers in READERS.items():
        file = name.replace("STEP", step)
        for kind, data in contents(trace).items():
            for reader in readers if tally.scale >= 1 else rng.sample(readers, 1):
                run = fresh_copy(whole, place)
                (run / file).unlink(missing_ok=True)
                (run / file).write_bytes(data)
                _one(tally, algo, run, reader, f"{name}: {kind}", trace, outside)
        for kind in SPECIAL:
            for reader in readers if tally.scale >= 1 else rng.sample(readers, 1):
                run = fresh_copy(whole, place)
                place_special(run / file, kind, outside)
                _one(tally, algo, run, reader, f"{name}: {kind}", trace, outside)
        if name.endswith(".json"):
            for _ in range(tally.times(40)):
                run = fresh_copy(whole, place)
                tree, how = forged(json.loads((run / file).read_text()), rng)
                if tree is None:
                    continue
                _write_signed(run / file, tree)
                _one(tally, algo, run, rng.choice(readers), f"{name}: {how}", trace, outside)
    _presets(tally, folder, rng, trace, outside)


def _warm(whole, folder):
    """Import what the commands need once, before the processes are forked."""
    import onnx  # noqa: F401
    import onnxscript  # noqa: F401

    from spinup.analysis import compare, plot  # noqa: F401
    from spinup.cli import runs  # noqa: F401
    from spinup.policies import loading

    loading.load_policy_and_env(whole)


def _write_signed(path, tree):
    """Write JSON with the hash of itself, where the library expects one: a forger can do that."""
    from spinup.runs.storage.checkpoints import _render_manifest
    from spinup.utils.files import self_hash

    if path.name == "manifest.json" and isinstance(tree, dict):
        tree.pop("manifest_sha256", None)
        path.write_bytes(_render_manifest(tree))
        return
    if "sha256" in tree:
        tree["sha256"] = self_hash(tree)
    path.write_text(json.dumps(tree))


def _presets(tally, folder, rng, trace, outside):
    """Poison the file of `--config`."""
    data = folder / "presets"
    sound = {
        "env_name": "CartPole-v1",
        "epochs": 1,
        "steps_per_epoch": 20,
        "gamma": 0.99,
        "ac_kwargs": {"hidden_sizes": [4]},
    }
    kinds = [(kind, text) for kind, text in contents(trace).items()]
    kinds += [(kind, None) for kind in SPECIAL]
    for _ in range(tally.times(40)):
        tree, how = forged(sound, rng)
        if tree is not None:
            kinds.append((how, json.dumps(tree).encode()))
    for kind, text in kinds:
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir()
        file = data / "preset.json"
        if text is None:
            place_special(file, kind, outside)
        else:
            file.write_bytes(text)
        words = ["ppo", "--config", str(file), "--data_dir", str(data / "d"), "--dry_run"]
        outcome = trial(command, *words, seconds=SECONDS + 20)
        _judge(tally, outcome, f"--config: {kind}", "preset", trace, outside)


def _one(tally, algo, run, reader, where, trace, outside):
    function, *args = commands(run, algo)[reader]
    heavy = reader == "export"
    outcome = trial(
        function, *args, seconds=60 if heavy else SECONDS + 12, memory=(8 if heavy else 2) << 30
    )
    _judge(tally, outcome, f"{where}, {reader}", reader, trace, outside)


def _judge(tally, outcome, where, kind, trace, outside):
    untouched = [(p.name, p.read_text()) for p in Path(outside).iterdir()]
    if trace.exists():
        trace.rmdir()
        tally.breaks(where, "the file was executed", kind)
    elif untouched != [("precious", "precious")]:
        (outside / "precious").write_text("precious")
        tally.breaks(where, f"a file outside the run was changed: {untouched}", kind)
    elif outcome.kind not in ("ok", "said"):
        tally.breaks(where, f"{outcome.kind}: {outcome.text[-900:]}", kind)
    elif _OBEYED.search(outcome.printed + outcome.text):
        shown = io.StringIO(outcome.printed + outcome.text).getvalue()
        tally.breaks(where, f"control characters are printed: {shown[-300:]!r}", kind)
    elif outcome.kind == "said":
        tally.say(kind)
    else:
        tally.hold(kind)


ATTACKS = {"poison": poison}

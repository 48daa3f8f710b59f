"""Full disks, damaged files, NaN, failing environments and hostile files: nothing good is lost."""

import errno
import functools
import hashlib
import json
import os
import pickle
import shutil
import types
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from spinup import registry
from spinup.cli.main import main
from spinup.policies.saved import load_policy
from spinup.runs.logger import EpochLogger
from spinup.runs.storage import tables
from spinup.runs.storage.checkpoints import _render_manifest, load_checkpoint
from spinup.utils import files
from spinup.utils.errors import SpinupError
from spinup.utils.files import DiskError
from tests.helpers.bomb import Bomb
from tests.helpers.comparing import table
from tests.helpers.disks import mounted
from tests.helpers.runs import small

ALGOS = tuple(row.name for row in registry.ROWS if row.on_policy)
OFF_POLICY = tuple(row.name for row in registry.ROWS if not row.on_policy)


def last_line(printed):
    """The line that ended a run, and the class of the error in front of it."""
    kind, _, message = printed.strip().splitlines()[-1].partition(": ")
    return kind.rpartition(".")[2], message


def checkpoints(out):
    """The folders of a run's checkpoints, the newest last."""
    return sorted((out / "checkpoints").glob("step-*"))


# ---------------------------------------- full disks ----------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """A file system of one megabyte; mounting it needs more rights than some machines give."""
    with mounted(tmp_path / "disk", "1m") as is_disk:
        if not is_disk:
            pytest.skip("may not mount here; test_a_file_that_cannot_grow does the same without")
        yield tmp_path / "disk"


@pytest.mark.parametrize(
    "algo, env, at",
    [
        ("ppo", "CartPole-v1", 10),
        ("ppo", "CartPole-v1", 130),
        ("ppo", "CartPole-v1", 200),
        ("ddpg", "HalfCheetah-v5", 330),
    ],
)
def test_a_full_disk_stops_the_run_by_name_and_costs_nothing(runs, small_disk, algo, env, at):
    spec = small(algo, env)
    out, ballast = small_disk / "run", small_disk / "ballast"
    trouble = {"n": at, "do": "fill", "path": str(ballast)}
    kind, message = last_line(runs.train(spec, out, expect=1, at_step=trouble))
    assert kind == "DiskError" and "No space left" in message and str(out) in message
    assert ballast.stat().st_size > 0
    if checkpoints(out):
        state, path = load_checkpoint(out / "checkpoints")
        assert path == checkpoints(out)[-1]
        assert state["total_steps"] <= at
    # the table has whole rows only, though the disk may have filled up in one
    text = (out / "progress.txt").read_text()
    assert text == "" or text.endswith("\n")
    # still full: it says so again, and still costs nothing
    assert "No space left" in runs.train(spec, out, expect=1, resume=True)
    ballast.unlink()
    runs.assert_resumes(spec, out)


def test_a_file_that_cannot_grow_stops_the_run_and_costs_nothing(runs):
    """As a full disk, by a limit on the size of files: it hits the largest of a checkpoint."""
    spec = small("ppo", "CartPole-v1", save_freq=1)
    out = runs.new(spec, epochs=2)
    before = [path.name for path in checkpoints(out)]
    tensors = (checkpoints(out)[-1] / "state.safetensors").stat().st_size
    others = [p.stat().st_size for p in out.rglob("*") if p.is_file() and "state." not in p.name]
    assert tensors > max(others), "the limit would hit another file"
    limit = (tensors + max(others)) // 2
    kind, message = last_line(runs.train(spec, out, expect=1, resume=True, file_limit=limit))
    assert kind == "DiskError" and "File too large" in message
    assert str(out / "checkpoints") in message and before[-1] in message
    assert [path.name for path in checkpoints(out)] == before
    runs.assert_resumes(spec, out)


def test_a_disk_that_is_full_at_any_file_of_a_save_costs_nothing(runs):
    """From the first piece of the replay buffer to the last file; nothing half-written stays."""
    spec = small("ddpg", save_freq=1, epochs=2, steps_per_epoch=20)
    start = runs.new(spec, epochs=1)
    before = contents(start / "checkpoints")
    refused = 0
    for n in range(1, 100):
        out = runs.new_dir()
        shutil.copytree(start, out)
        full = {"name": "fsync", "n": n, "full": True}
        process = runs.start(spec, out, resume=True, at_call=full)
        if process.wait() == 0:
            break
        kind, message = last_line(process.output())
        assert kind == "DiskError" and "No space left" in message, process.output()
        assert f"cannot write {out}/" in message and "row" in message
        now = contents(out / "checkpoints")
        assert before.items() <= now.items(), "a file of the checkpoint before it is gone"
        refused += any("pieces" in name for name in now.keys() - before.keys())
        runs.assert_resumes(spec, out)
    assert n > 12, "fewer files than a save has"
    assert refused, "no failure between the pieces and their checkpoint"


# Every file that a save writes, what the message names instead if it is a part of a checkpoint, and
# the algorithm that writes it.
WRITTEN = {
    "config.json": ("config.json", "vpg"),
    "progress.txt": ("progress.txt", "vpg"),
    ".progress.txt.sha256": (".progress.txt.sha256", "vpg"),
    "model.pt": ("pyt_save/model.pt", "vpg"),
    "policy.safetensors": ("pyt_save/policy.safetensors.new", "vpg"),
    "policy.json": ("pyt_save/policy.json", "vpg"),
    "state.json": ("checkpoints", "vpg"),
    "state.safetensors": ("checkpoints", "vpg"),
    "manifest.json": ("checkpoints", "vpg"),
    "/pieces": ("checkpoints", "dqn"),
    ".finished": (".finished", "vpg"),
    "tfevents": ("tensorboard/events.out.tfevents", "vpg"),
}


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="which file it is comes from /proc")
@pytest.mark.parametrize("name", WRITTEN)
def test_a_full_disk_is_one_sentence_with_the_file_and_what_was_kept(
    tiny_runs, tmp_path, monkeypatch, name
):
    named, algo = WRITTEN[name]
    whole, _ = tiny_runs(algo, replay_size=60) if algo == "dqn" else tiny_runs(algo)
    out, fsync, failed = tmp_path / "run", os.fsync, []
    shutil.copytree(whole, out)

    def full(fd):
        if name in os.readlink(f"/proc/self/fd/{fd}"):
            failed.append(name)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(fd)

    def resumed(sinks=("tensorboard",)):
        monkeypatch.setattr(EpochLogger, "__init__", functools.partialmethod(init, sinks=sinks))
        tiny_runs.train(
            algo, out, resume=True, epochs=4, **({"replay_size": 60} if algo == "dqn" else {})
        )

    init, own = EpochLogger.__init__, os
    # the modules that write these files, and nothing else of this process
    for module in (files, tables):
        monkeypatch.setattr(module, "os", types.SimpleNamespace(**{**vars(own), "fsync": full}))
    with pytest.raises(SpinupError, match="No space left on device") as error:
        resumed()
    sentence = str(error.value)
    assert isinstance(error.value, OSError) and error.value.errno == errno.ENOSPC
    assert failed and f"cannot write {out / named}" in sentence and "\n" not in sentence
    if name != "tfevents":
        assert (
            "the checkpoint step-0000000" in sentence and "progress.txt are still there" in sentence
        )
        assert sentence.endswith("free some space and continue with resume=True (--resume)")
    assert list(out.rglob(".tmp-*")) == []
    monkeypatch.undo()
    tiny_runs.train(
        algo, out, resume=True, epochs=4, **({"replay_size": 60} if algo == "dqn" else {})
    )
    assert (out / ".finished").exists()
    assert len((out / "progress.txt").read_text().splitlines()) == 5


def test_a_full_disk_ends_a_command_with_one_line(tmp_path, monkeypatch, capsys):
    """As a user meets it: a sentence and an exit code, no traceback."""

    def full(fd, data, durable):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tables, "append", full)
    words = ["vpg", "--env", "CartPole-v1", "--epochs", "1", "--steps", "50", "--data_dir"]
    assert main([*words, str(tmp_path), "--exp_name", "full"]) == 1
    last = capsys.readouterr().err.strip().splitlines()[-1]
    path = tmp_path / "full" / "full_s0" / "progress.txt"
    assert last == (
        f"spinup: cannot write {path} (No space left on device); the run has no checkpoint yet, "
        "and 0 rows in progress.txt: free some space and start it again"
    )


def test_a_disk_error_reaches_the_parent_of_a_worker_process():
    first = DiskError(OSError(errno.ENOSPC, "No space left on device"), "a/b", "c is intact")
    again = pickle.loads(pickle.dumps(DiskError(first, "a", "d is intact", "go on")))
    assert type(again) is DiskError and (again.errno, again.path) == (errno.ENOSPC, "a/b")
    sentence = "cannot write a/b (No space left on device); d is intact: free some space and go on"
    assert str(again) == sentence


def contents(folder):
    """Every file below a folder by name."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


# -------------------------------------- damaged files ---------------------------------------------


def damage(file, how):
    """Cut a file in half, flip one bit of it, empty it or remove it."""
    data = bytearray(file.read_bytes())
    if how == "truncated":
        file.write_bytes(data[: len(data) // 2])
    elif how == "flipped":
        data[len(data) // 2] ^= 0x10
        file.write_bytes(data)
    elif how == "empty":
        file.write_bytes(b"")
    else:
        file.unlink()


@pytest.mark.parametrize("how", ["truncated", "flipped", "empty", "missing"])
@pytest.mark.parametrize("name", ["state.safetensors", "state.json", "manifest.json"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(runs, name, how):
    spec = small("ppo", "CartPole-v1", save_freq=1)
    out = runs.new(spec, expect=-9, at_step={"n": 290, "do": "SIGKILL"})
    before, newest = checkpoints(out)
    damage(newest / name, how)
    printed = runs.resume(spec, out)
    assert f"damaged checkpoint {newest}" in printed
    assert load_checkpoint(out / "checkpoints")[0]["epoch"] == 7
    runs.assert_same(spec, out)
    assert before.name < newest.name


def stopped_off_policy_run(runs):
    """(description, directory, pieces of the newest checkpoint only, pieces of both)."""
    spec = small("ddpg", save_freq=1, replay_size=1000, num_test_episodes=0)
    out = runs.new(spec, expect=143, at_step={"n": 290, "do": "SIGTERM"})
    assert [path.name for path in checkpoints(out)] == ["step-000000000240", "step-000000000290"]
    manifests = [json.loads((path / "manifest.json").read_text()) for path in checkpoints(out)]
    old, new = (set(manifest["pieces"]) for manifest in manifests)
    store = out / "checkpoints" / "pieces"
    assert {path.name for path in store.iterdir()} == old | new
    return spec, out, [store / name for name in new - old], [store / name for name in new & old]


@pytest.mark.parametrize("how", ["truncated", "flipped", "empty", "missing"])
def test_a_damaged_piece_of_the_newest_checkpoint_costs_that_one_only(runs, how):
    spec, out, only_newest, _ = stopped_off_policy_run(runs)
    newest = checkpoints(out)[-1]
    damage(only_newest[0], how)
    # it goes on from the one before, in an episode of 15 steps, and is killed after one more save
    printed = runs.train(spec, out, expect=-9, resume=True, at_step={"n": 90, "do": "SIGKILL"})
    assert f"damaged checkpoint {newest}" in printed and only_newest[0].name in printed
    # the damaged one is gone, also if its size was right: both that are there now are whole
    assert [path.name for path in checkpoints(out)] == ["step-000000000240", "step-000000000300"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            state, path = load_checkpoint(out / "checkpoints")
            [piece.load() for piece in state["tracked"]["buffer"]["ring"]["pieces"]]
            aside = path.with_name(f"aside-{path.name}")
            path.rename(aside)
    for aside in (out / "checkpoints").glob("aside-*"):
        aside.rename(aside.with_name(aside.name.removeprefix("aside-")))
    runs.assert_resumes(spec, out)


def test_a_damaged_piece_of_both_checkpoints_is_one_sentence(runs):
    spec, out, _, shared = stopped_off_policy_run(runs)
    damage(shared[0], "flipped")
    before = contents(out)
    kind, message = last_line(runs.train(spec, out, expect=1, resume=True))
    assert kind == "SpinupError" and "none of the 2 checkpoints" in message
    now = contents(out)
    assert {**now, ".lock": b""} == {**before, ".lock": b""}
    damage(shared[0], "flipped")  # back
    runs.assert_resumes(spec, out)


def test_when_every_checkpoint_is_damaged_it_is_one_sentence(runs):
    spec = small("ppo", "CartPole-v1", save_freq=1)
    out = runs.new(spec, expect=-9, at_step={"n": 290, "do": "SIGKILL"})
    for checkpoint in checkpoints(out):
        damage(checkpoint / "state.safetensors", "flipped")
    table = (out / "progress.txt").read_bytes()
    kind, message = last_line(runs.train(spec, out, expect=1, resume=True))
    assert kind == "SpinupError" and "none of the 2 checkpoints" in message
    assert (out / "progress.txt").read_bytes() == table, "the results were thrown away"


@pytest.mark.parametrize("how", ["half a line", "one row less", "another table", "no text"])
def test_a_damaged_table_is_mended_or_refused(runs, how):
    spec = small("ppo", "CartPole-v1", save_freq=1)
    out = runs.new(spec, expect=-9, at_step={"n": 290, "do": "SIGKILL"})
    progress = out / "progress.txt"
    whole = progress.read_bytes()
    if how == "half a line":
        progress.write_bytes(whole + b"4\t17.0\t3.")
        runs.assert_resumes(spec, out)
        return
    bad = {
        "one row less": b"\n".join(whole.split(b"\n")[:-2]) + b"\n",
        "another table": b"Epoch\tTime\n" + b"0\t1\n" * len(whole),
        "no text": b"\xff\xfe\n" * len(whole),
    }
    progress.write_bytes(bad[how])
    kind, message = last_line(runs.train(spec, out, expect=1, resume=True))
    assert kind == "SpinupError" and "progress.txt" in message
    progress.write_bytes(whole)
    runs.assert_resumes(spec, out)


# ---------------------------------------- divergence ----------------------------------------------


def finite(out):
    """Does everything that was saved hold finite numbers only?"""
    arrays = list(load_policy(out)[1].values())
    tracked = load_checkpoint(out / "checkpoints")[0]["tracked"]
    arrays += [x.numpy() for x in tracked["ac"].values()]
    if "buffer" in tracked:
        pieces = tracked["buffer"]["ring"]["pieces"]
        arrays += [x for piece in pieces for x in piece.load().values()]
    return all(np.isfinite(x).all() for x in arrays)


@pytest.mark.parametrize("algo", ALGOS)
def test_a_nan_reward_stops_the_run_by_name_and_keeps_the_last_good_checkpoint(runs, algo):
    spec = small(algo, "CartPole-v1", save_freq=1)
    out = runs.new_dir()
    kind, message = last_line(runs.train(spec, out, expect=1, at_step={"n": 200, "do": "nan"}))
    assert kind == "TrainingDiverged"
    # the first quantity of the row that is not finite, and where
    assert message.startswith("LossPi became nan in epoch 3"), message
    assert str(out) in message
    assert [path.name for path in checkpoints(out)] == ["step-000000000120", "step-000000000180"]
    assert len(table(out)) == 3
    assert "nan" not in {row["LossPi"] for row in table(out)}
    assert finite(out)
    assert not (out / ".finished").exists()
    # the trouble gone, it goes on from there
    runs.assert_resumes(spec, out)


@pytest.mark.parametrize("do", ["nan", "inf_obs"])
@pytest.mark.parametrize("algo", OFF_POLICY)
def test_off_policy_what_is_not_finite_does_not_get_into_the_replay_buffer(runs, algo, do):
    if algo == "her" and do == "inf_obs":
        do = "nan"  # its observations are bits
    spec = small(algo, save_freq=1, epochs=4)
    out = runs.new_dir()
    trouble = {"n": 190, "do": do, "among": "training"}
    kind, message = last_line(runs.train(spec, out, expect=1, at_step=trouble))
    assert kind == "TrainingDiverged"
    what = "reward" if do == "nan" else "observation"
    assert message.startswith(f"the environment returned a non-finite {what} in epoch 3")
    assert message.endswith(f"the last good checkpoint is in {out}")
    assert [path.name for path in checkpoints(out)] == ["step-000000000120", "step-000000000180"]
    assert finite(out)
    runs.assert_resumes(spec, out)


@pytest.mark.parametrize("algo", ["ddpg", "td3", "sac", "dqn"])
def test_off_policy_a_diverging_critic_stops_the_run_by_name(runs, algo):
    lr = "lr" if algo == "sac" else "q_lr"
    spec = small(algo, save_freq=1, epochs=2, **{lr: 1e30})
    out = runs.new_dir()
    kind, message = last_line(runs.train(spec, out, expect=1))
    assert kind == "TrainingDiverged" and "Q" in message.split()[0], message
    assert not (out / "checkpoints").exists() and "it had saved no checkpoint yet" in message
    # and a signal does not save what has diverged
    trouble = {"n": 50, "do": "SIGTERM"}
    out = runs.new_dir()
    kind, message = last_line(runs.train(spec, out, expect=1, at_step=trouble))
    assert kind == "TrainingDiverged", message
    assert not (out / "checkpoints").exists()


def test_an_infinite_observation_does_not_get_into_a_saved_normaliser(runs):
    """The clipped input keeps every loss finite; the running mean would be lost for ever."""
    kwargs = {"hidden_sizes": [8], "normalize_obs": True}
    spec = small("ppo", "CartPole-v1", save_freq=1, ac_kwargs=kwargs)
    out = runs.new_dir()
    printed = runs.train(spec, out, expect=1, at_step={"n": 200, "do": "inf_obs"})
    kind, message = last_line(printed)
    assert kind == "TrainingDiverged" and "obs_filter" in message, printed
    assert finite(out)
    runs.assert_resumes(spec, out)


@pytest.mark.parametrize("vector", ["sync", "async"])
def test_an_environment_that_raises_shows_its_traceback_and_the_run_can_be_resumed(runs, vector):
    spec = small("ppo", "CartPole-v1", num_envs=3)
    out = runs.new_dir()
    trouble = {"n": 200 if vector == "sync" else 66, "do": "raise"}
    printed = runs.train(spec, out, expect=1, at_step=trouble, vector=vector)
    assert "ArithmeticError: this environment fails on purpose" in printed
    assert "in trouble" in printed, "the line of the environment is not shown"
    runs.assert_resumes(spec, out)


# --------------------------------------- hostile files --------------------------------------------


def bombs(canary):
    """A pickle, and what `torch.save` makes of one, that leave `canary` behind when opened."""
    path = Path(canary + ".pt")
    torch.save({"bomb": Bomb(canary)}, path)
    return {"pickle": pickle.dumps(Bomb(canary)), "torch": path.read_bytes()}


@pytest.fixture(scope="module")
def victim(runs):
    """A run killed halfway, with everything in its directory that ours or older ones had."""
    spec = small("ppo", "CartPole-v1", save_freq=1)
    out = runs.new(spec, expect=-9, at_step={"n": 290, "do": "SIGKILL"})
    for extra in ("vars.pkl", "vars3.pkl", "pyt_save/model3.pt"):
        (out / extra).write_bytes(b"")
    return spec, out


def test_the_bombs_go_off(tmp_path):
    """Otherwise the tests below would prove nothing."""
    for kind in ("pickle", "torch"):
        canary = tmp_path / kind
        data = bombs(str(canary))[kind]
        if kind == "pickle":
            pickle.loads(data)
        else:
            (tmp_path / "bomb.pt").write_bytes(data)
            torch.load(tmp_path / "bomb.pt", weights_only=False)
        assert canary.exists()


def open_in_every_way(runs, spec, out):
    """Resume, load, replay and plot what is in `out`; returns what resuming printed."""
    from spinup.analysis.plot import get_datasets
    from spinup.policies.loading import load_policy_and_env

    for itr in (None, 3):
        for load in (load_policy, load_policy_and_env):
            try:
                load(out, itr)
            except SpinupError as error:
                assert "\n" not in str(error)
    with np.errstate(all="ignore"):
        try:
            get_datasets(str(out))
        except SpinupError as error:
            assert "\n" not in str(error)
    process = runs.start(spec, out, resume=True)
    code = process.wait()
    printed = process.output()
    if code:
        kind, message = last_line(printed)
        assert kind == "SpinupError" and message, printed
    else:
        runs.assert_same(spec, out)
    return code


@pytest.mark.parametrize("kind", ["pickle", "torch"])
def test_a_pickle_in_place_of_a_piece_is_never_opened(runs, tmp_path, kind):
    """Not even one that the manifest vouches for, which whoever can write here can forge."""
    spec, out, only_newest, _ = stopped_off_policy_run(runs)
    canary = tmp_path / "executed"
    only_newest[0].write_bytes(bombs(str(canary))[kind])
    again = runs.new_dir()
    shutil.copytree(out, again)
    printed = runs.resume(spec, again)
    assert "skipping the damaged checkpoint" in printed
    runs.assert_same(spec, again)
    forge_manifest(checkpoints(out)[-1], only_newest[0])
    kind, message = last_line(runs.train(spec, out, expect=1, resume=True))
    assert kind == "SpinupError" and "safetensors" in message
    assert not canary.exists()


def forge_manifest(checkpoint, piece):
    """Let the manifest of a checkpoint vouch for `piece` as it is now."""
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    del manifest["manifest_sha256"]
    data = piece.read_bytes()
    entry = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    manifest["pieces"][piece.name] = entry
    (checkpoint / "manifest.json").write_bytes(_render_manifest(manifest))


@pytest.mark.filterwarnings("ignore:the policy was trained in")
@pytest.mark.parametrize("kind", ["pickle", "torch"])
def test_pickles_in_place_of_every_file_are_never_opened(runs, victim, tmp_path, kind):
    spec, original = victim
    canary = tmp_path / "executed"
    data = bombs(str(canary))[kind]
    out = tmp_path / "run"
    shutil.copytree(original, out)
    files = [p for p in out.rglob("*") if p.is_file()]
    assert {"config.json", "progress.txt", "model.pt", "policy.safetensors", "policy.json"} <= {
        p.name for p in files
    }
    for file in files:
        file.write_bytes(data)
    assert open_in_every_way(runs, spec, out) != 0
    assert not canary.exists()


@pytest.mark.filterwarnings("ignore:the policy was trained in")
def test_a_pickle_in_place_of_any_one_file_is_never_opened(runs, victim, tmp_path):
    spec, original = victim
    canary = tmp_path / "executed"
    data = bombs(str(canary))["pickle"]
    codes = {}
    for i, file in enumerate(sorted(p for p in original.rglob("*") if p.is_file())):
        name = file.relative_to(original)
        out = tmp_path / f"run{i}"
        shutil.copytree(original, out)
        (out / name).write_bytes(data)
        codes[str(name)] = open_in_every_way(runs, spec, out)
        assert not canary.exists(), f"{name} was unpickled"
    # one bad file of a checkpoint costs that checkpoint and no more; a lost table cannot be made up
    assert [name for name, code in codes.items() if code] == ["diagnostics.txt", "progress.txt"]

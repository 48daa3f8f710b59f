"""Files that never end, never begin or fill the memory, in place of every file that is read."""

import json
import os
import resource
import time

import pytest

import spinup.algos.pytorch.ppo.ppo  # noqa: F401  its import is not part of the times below
from spinup import run
from spinup.analysis import compare, curves
from spinup.envs.space_json import space_from_json
from spinup.grids import board, cells, slurm_executor, workers
from spinup.runs.storage.arrays import read_safetensors
from spinup.utils import reading
from spinup.utils.errors import SpinupError


def pipe(path):
    os.mkfifo(path)


def sparse(path):
    path.touch()
    os.truncate(path, 10**10)


def zeros(path):
    path.touch()
    os.truncate(path, reading.TABLE_LIMIT)


DEEP = 100_000
HOSTILE = {
    "pipe": pipe,
    "folder": lambda path: path.mkdir(),
    "endless device": lambda path: path.symlink_to("/dev/zero"),
    "terminal": lambda path: path.symlink_to("/dev/tty"),
    "sparse": sparse,
    "zeros": zeros,
    "deep lists": lambda path: path.write_text("[" * DEEP + "]" * DEEP),
    "deep objects": lambda path: path.write_text('{"a":' * DEEP + "1" + "}" * DEEP),
    "long number": lambda path: path.write_text('{"epochs": 1' + "0" * 5000 + "}"),
    "large number": lambda path: path.write_text('{"epochs": 1' + "0" * 400 + "}"),
    "empty": lambda path: path.touch(),
    "no text": lambda path: path.write_bytes(b"\xff\xfe\xfa" * 100),
}


@pytest.fixture(params=HOSTILE)
def hostile(request, tmp_path):
    """Puts something hostile at a path; afterwards little time and memory have been used."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    yield HOSTILE[request.param]
    assert time.process_time() - started < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # KiB


def job(tmp_path):
    cell = cells.Cell("a", print, 0, {})
    return cells.make_jobs([cell], tmp_path / ".grid", [str(tmp_path / "a_s0")], "launch")[0]


def test_json_is_read_or_refused_in_one_way(hostile, tmp_path):
    hostile(tmp_path / "file")
    try:
        assert isinstance(reading.read_json(tmp_path / "file")["epochs"], int)
    except (OSError, ValueError) as error:
        assert len(str(error)) < 200


def test_curves(hostile, tmp_path, capsys):
    for name in ("progress.txt", "config.json"):
        folder = tmp_path / name.partition(".")[0]
        folder.mkdir()
        (folder / "progress.txt").write_text("Epoch\tAverageEpRet\n0\t1\n")
        (folder / name).unlink(missing_ok=True)
        hostile(folder / name)
        found = curves.read_run(folder, ["Performance"])
        assert found.length in (0, 1)
        curves.report([found], "plot")
        assert len(capsys.readouterr().err) < 500


def test_presets(hostile, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    hostile(tmp_path / "preset.json")
    assert run.main(["ppo", "--env", "CartPole-v1", "--config", "preset.json", "--dry_run"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and len(said) < 700
    with pytest.raises(SpinupError):
        compare._read_reference(str(tmp_path / "preset.json"))


def test_the_files_of_a_grid(hostile, tmp_path):
    one = job(tmp_path)
    os.makedirs(one.folder)
    os.makedirs(one.output_dir)
    for name in ("state.json", "log.txt"):
        hostile(one.log.with_name(name))
    hostile(tmp_path / "a_s0" / "progress.txt")
    hostile(tmp_path / "a_s0" / "config.json")
    assert cells.read_state(one) == {}
    assert cells.decide(one).action == "fresh"
    assert len(workers.log_tail(one)) < 20_000
    assert board.read_progress(one.output_dir).epoch is None
    assert cells._is_another_run({"results": {"length": 10**4000}}, tmp_path / "a_s0") in (0, 1)
    with pytest.raises(SpinupError):
        slurm_executor._load(tmp_path / "a_s0" / "config.json", "0" * 64)


def test_tensors(hostile, tmp_path):
    hostile(tmp_path / "file")
    with pytest.raises((SpinupError, OSError)):
        read_safetensors(tmp_path / "file")


def test_a_number_of_absurd_size_in_a_table_is_not_shown(tmp_path):
    (tmp_path / "progress.txt").write_text("Epoch\tTime\tTotalEnvInteracts\n1e308\t1e308\t1e308\n")
    progress = board.read_progress(tmp_path)
    assert (progress.epoch, progress.rate, progress.epoch_seconds) == (None, None, None)


@pytest.mark.parametrize(
    "words",
    [
        ["--hid", "1000000000"],
        ["--hid", "1" + "0" * 400],
        ["--config", "preset.json"],
        ["--hid", "64", "--l", "1000000000000"],
    ],
)
def test_absurd_architectures_end_in_one_sentence(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    content = {"ac_kwargs": {"hidden_sizes": [2] * 1_000_000}}
    (tmp_path / "preset.json").write_text(json.dumps(content))
    started = time.process_time()
    assert run.main(["ppo", "--env", "CartPole-v1", *words]) == 2
    assert time.process_time() - started < 5
    assert len(capsys.readouterr().err) < 300 and not (tmp_path / "data").exists()


BOX = {"type": "Box", "shape": [10_000, 1_000], "dtype": "float32", "low": 0, "high": 1}


@pytest.mark.parametrize(
    "described",
    [
        {**BOX, "shape": [10**9]},
        {**BOX, "shape": [10**4000]},
        {"type": "Tuple", "spaces": [BOX] * 1000},
        {"type": "Dict", "spaces": [[str(i), BOX] for i in range(1000)]},
        {"type": "Discrete", "n": 10**12, "start": 0},
        {"type": "MultiBinary", "n": [10**6, 10**6]},
        {"type": "MultiDiscrete", "nvec": [10**9] * 3, "start": [0] * 3, "dtype": "int64"},
    ],
)
def test_absurd_spaces_are_refused_before_they_are_made(described):
    started = time.process_time()
    with pytest.raises(SpinupError):
        space_from_json(json.loads(json.dumps(described)) if described != BOX else described)
    assert time.process_time() - started < 1

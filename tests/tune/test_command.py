"""`spinup tune` as it is typed: refusals, the estimate, samplers, and a study that is killed."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spinup import run
from spinup.cli import estimate
from spinup.grids import slurm_executor
from spinup.utils.errors import SpinupError
from spinup_tune import sampling
from spinup_tune.halving import DEFAULT
from spinup_tune.rounds import tune

TINY = (
    "tune reinforce --env CartPole-v1 --space pi_lr=log:1e-3:1e-1 gamma=0.9,0.99 --trials 4 "
    "--eta 2 --epochs 4 --seeds 1 --steps 60 --hid 8,8 --max_ep_len 25 --last 2 --finalists 1 "
    "--test_seeds 2"
)


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "mentions"),
    [
        ("tune", "ALGO|algo"),
        ("tune pppo --env CartPole-v1", "did you mean ppo"),
        ("tune ppo", "needs an environment"),
        ("tune ppo --env CartPol-v1", "CartPole-v1"),
        ("tune ppo --env CartPole-v1 --space pi_lr", "ARGUMENT=VALUES"),
        ("tune ppo --env CartPole-v1 --space pi_lrr=0:1", "did you mean pi_lr"),
        ("tune ppo --env CartPole-v1 --gama 0.9", "did you mean --gamma"),
        ("tune ppo --env CartPole-v1 --gamma 0.9 0.99", "--space gamma=0.9,0.99"),
        ("tune ppo --env CartPole-v1 --trials 1", "--trials"),
        ("tune ppo --env CartPole-v1 --trials many", "--trials"),
        ("tune ppo --env CartPole-v1 --sampler tpee", "sampler"),
        ("tune ppo --env CartPole-v1 --rungs 5 --epochs 10", "at least 81 epochs"),
        ("tune ppo --env CartPole-v1 --cpu 2", "--num_workers"),
        ("tune ppo --env CartPole-v1 --resume", "continues by itself"),
        ("tune ppo --env CartPole-v1 --dt", "leave out --dt"),
        ("tune ppo --env CartPole-v1 --seeds 2000", "at most 1000"),
        ("tune ppo --env CartPole-v1 --asynchronous --executor slurm", "executor local"),
        ("tune ppo --env CartPole-v1 --logger_kwargs:output_dir x", "chooses its folders"),
        ("tune ppo --env CartPole-v1 --steps 100 --space num_envs=3,7", "does not divide"),
        ("tune ddpg --env CartPole-v1", "ddpg"),
        ("tune ppo --env CartPole-v1 --space max_ep_len=20,200", "must be the same for all runs"),
        ("tune ppo --env CartPole-v1 --space lam=0.9:1 --space lam=0.5:1", "sets 'lam' twice"),
    ],
)
def test_a_mistake_is_one_sentence_and_creates_nothing(line, mentions, capsys, monkeypatch):
    monkeypatch.delattr("spinup_tune.command.execute")  # it must not come to that
    assert run.main(line.split()) == 2
    printed = capsys.readouterr()
    assert re.fullmatch(r"spinup: .+\n", printed.err) and printed.out == ""
    assert re.search(mentions, printed.err), printed.err
    assert list(Path().iterdir()) == []


def test_the_estimate_names_rungs_time_and_disk_and_creates_nothing(capsys):
    line = "tune dqn --env CartPole-v1 --trials 9 --epochs 9 --steps 100 --seeds 2 --hid 8,8"
    assert run.main([*line.split(), "--num_workers", "2", "--dry_run"]) == 0
    said = capsys.readouterr().out
    rows = [row.split()[:3] for row in said.splitlines() if re.match(r"\s*(1|2|test) ", row)]
    # the default is a fourth configuration of the second rung
    assert rows == [["1", "3", "18"], ["2", "9", "8"], ["test", "9", "30"]]
    assert "on disk at once" in said and "Nothing was created." in said
    assert "q_lr" in said  # the shipped space
    assert list(Path().iterdir()) == []


def test_the_cost_is_that_of_all_configurations_also_if_a_sampler_chooses_them_later(capsys):
    pytest.importorskip("optuna", reason="needs the extra 'tune'")
    said = []
    for sampler in ("sobol", "tpe"):
        assert run.main([*TINY.split(), "--sampler", sampler, "--dry_run"]) == 0
        said.append(
            re.search(r"4 configurations with .+ \(instead of 4\)", capsys.readouterr().out)
        )
    assert said[0] and said[0][0] == said[1][0]


@pytest.mark.parametrize("env, sees", [("CartPole-v1", True), ("spinup/ProbeImage-v0", False)])
def test_the_shipped_space_normalizes_vectors_and_not_images(env, sees, capsys, monkeypatch):
    monkeypatch.setattr(estimate.Meter, "cost", lambda self, cell, settings: estimate.Cost(1, 1, 1))
    assert run.main(["tune", "ppo", "--env", env, "--trials", "3", "--dry_run"]) == 0
    said = capsys.readouterr().out
    assert ("ac_kwargs:normalize_obs" in said) is sees
    assert "ac_kwargs:normalize_ret" in said


def test_a_folder_that_cannot_be_written_is_one_sentence(capsys, tmp_path):
    (tmp_path / "afile").write_text("mine")
    assert run.main([*TINY.split(), "--data_dir", "afile"]) == 2
    assert re.fullmatch(r"spinup: cannot write in afile.+\n", capsys.readouterr().err)
    assert (tmp_path / "afile").read_text() == "mine"


def test_spaces_add_up_and_defaults_of_entries_are_known(monkeypatch):
    seen = []
    monkeypatch.setattr("spinup_tune.command.execute", lambda study, *rest: seen.append(study))
    space = "--space gamma=0.9,0.99 --space ac_kwargs:normalize_obs=True,False hid=[8],[16]"
    run.main(["tune", "ppo", "--env", "CartPole-v1", "--trials", "3", *space.split()])
    (study,) = seen
    assert study.values_of(DEFAULT) == {
        "gamma": 0.99,
        "ac_kwargs:normalize_obs": False,
        "ac_kwargs:hidden_sizes": (64, 64),
    }


def test_ctrl_c_says_how_to_continue(capsys, monkeypatch):
    def interrupted(title, jobs, more=None, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("spinup_tune.runs.launch", interrupted)
    assert run.main(TINY.split()) == 130
    said = capsys.readouterr().err
    assert "This command continues the study" in said and "pi_lr=log:1e-3:1e-1" in said


@pytest.fixture
def edited(monkeypatch, capsys, tmp_path):
    """A study that has just begun; `edited(edit, hashed)` changes its record and continues it."""

    def interrupted(title, jobs, more=None, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("spinup_tune.runs.launch", interrupted)
    assert run.main(TINY.split()) == 130
    (tmp_path / "trap_of_a_study.py").write_text("import pathlib\npathlib.Path('imported').touch()")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    path = Path("data/tune_reinforce_CartPole-v1/study.json")

    def go_on(edit, hashed=True):
        record = json.loads(path.read_text())
        edit(record)
        if not hashed:
            del record["sha256"]
        path.write_text(json.dumps(record))
        before = {p: p.is_file() and p.read_bytes() for p in tmp_path.rglob("*")}
        capsys.readouterr()
        code = run.main(TINY.split())
        if code == 2:
            assert {p: p.is_file() and p.read_bytes() for p in tmp_path.rglob("*")} == before
        assert not Path("imported").exists()
        return code, capsys.readouterr().err

    return go_on


def in_a_trial(**values):
    return lambda record: record["trials"][1]["values"].update(values)


def renamed(name):
    return lambda record: record["trials"][1].update(name=name)


def whole(**content):
    return lambda record: record.update(content)


DEEP = json.loads("[" * 900 + "]" * 900)


@pytest.mark.parametrize(
    ("edit", "mentions"),
    [
        (in_a_trial(env_name="trap_of_a_study:Env-v0"), "the arguments of the space"),
        (in_a_trial(**{"logger_kwargs:output_dir": "elsewhere"}), "the arguments of the space"),
        (in_a_trial(steps_per_epoch=100), "the arguments of the space"),
        (lambda r: r["trials"][1]["values"].pop("gamma"), "the arguments of the space"),
        (lambda r: r["trials"][0]["values"].update(gamma=0.9), "default does not set"),
        (in_a_trial(pi_lr=0.5), "pi_lr of trial-01 is not in log:1e-3:1e-1"),
        (in_a_trial(pi_lr=0.0123456789), "pi_lr of trial-01 is not in"),
        (in_a_trial(pi_lr=float("nan")), "pi_lr of trial-01 is not in"),
        (in_a_trial(pi_lr="0.01"), "pi_lr of trial-01 is not in"),
        (in_a_trial(pi_lr=True), "pi_lr of trial-01 is not in"),
        (in_a_trial(pi_lr=None), "pi_lr of trial-01 is not in"),
        (in_a_trial(pi_lr=DEEP), "pi_lr of trial-01 is not in|cannot be read"),
        (in_a_trial(gamma=0.95), "gamma of trial-01 is not in 0.9,0.99"),
        (in_a_trial(gamma=["trap_of_a_study:Env-v0"]), "gamma of trial-01 is not in"),
        (renamed("trial-02"), "has the name 'trial-02', not 'trial-01'"),
        (renamed("default"), "has the name 'default'"),
        (renamed("../../x"), r"has the name '\.\./\.\./x'"),
        (whole(trials=[]), "there are 0 configurations"),
        (lambda r: r["trials"].extend(r["trials"]), "there are 8 configurations"),
        (whole(trials={}), "not the record of a study"),
        (whole(trials=[{"name": 1, "values": {}}]), "not the record of a study"),
        (whole(trials=[{"name": "default", "values": []}]), "not the record of a study"),
        (whole(trials=[float("nan")]), "not the record of a study"),
        (whole(rungs={}), "not the record of a study"),
        (whole(rungs=[5]), "a rung has other configurations"),
        (whole(rungs=[{"continue": 5}]), "a rung has other configurations"),
        (whole(rungs=[{"continue": [["default"]]}]), "a rung has other configurations"),
        (whole(rungs=[{"continue": ["../x"]}]), "a rung has other configurations"),
        (whole(rungs=[{"continue": ["default", "default"]}]), "a rung has other configurations"),
        (whole(settings=[]), "not the record of a study"),
        (lambda r: r["settings"].update(eta=DEEP), "other settings|cannot be read"),
        (lambda r: r["settings"].update(eta=float("nan")), "other settings"),
    ],
)
def test_an_edited_study_is_one_sentence_and_nothing_happens(edited, edit, mentions):
    code, said = edited(edit, hashed=False)
    assert code == 2 and re.fullmatch(r"spinup: .+\n", said)
    assert re.search(mentions, said), said
    code, said = edited(lambda record: record.update(sha256=[]))
    assert code == 2 and "study.json was changed after the study wrote it" in said


def test_a_study_is_not_continued_with_another_value_of_its_space(edited):
    code, said = edited(in_a_trial(pi_lr=0.005))
    assert code == 2 and re.fullmatch("spinup: .+does not match its hash.+\n", said)


def test_a_study_of_an_earlier_version_without_a_hash_goes_on(edited):
    assert edited(lambda record: None, hashed=False)[0] == 130
    assert edited(lambda record: record.pop("command"), hashed=False)[0] == 130


def test_slurm_submits_a_rung_and_the_same_command_goes_on(capsys, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    line = [*TINY.split(), "--executor", "slurm"]
    assert run.main(line) == 0
    said = capsys.readouterr().out
    assert "4 cells are in" in said and "the same command decides" in said
    folder = Path("data/tune_reinforce_CartPole-v1")
    (cells,) = folder.glob("tuning/.grid/slurm/*.json")
    rows = json.loads(cells.read_text())
    assert {row["until"] for row in rows} == {2} and len(rows) == 4
    assert {row["kwargs"]["epochs"] for row in rows} == {4}
    (script,) = folder.glob("tuning/.grid/slurm/*.sh")
    words = re.search(r"-m spinup\.grids\.slurm_executor (\S+) (\S+) &", script.read_text())
    for i in range(4):  # the tasks, in this process
        monkeypatch.setenv("SLURM_ARRAY_TASK_ID", str(i))
        assert slurm_executor.main([words[1], words[2]]) == 0
    capsys.readouterr()
    assert run.main(line) == 0
    assert "to epoch 4" in capsys.readouterr().out
    study = json.loads((folder / "study.json").read_text())
    assert len(study["rungs"]) == 1 and DEFAULT in study["rungs"][0]["continue"]


def test_without_optuna_its_samplers_are_refused_with_the_extra(monkeypatch):
    def missing(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr("spinup_tune.sampling.importlib.import_module", missing)
    with pytest.raises(SpinupError, match=r"spinup\[tune\]"):
        sampling.need_optuna("tpe")


def test_optuna_learns_from_the_first_rung_and_repeats_itself(study_in, tmp_path):
    pytest.importorskip("optuna", reason="needs the extra 'tune'")
    options = {"sampler": "tpe", "trials": 8, "test_seeds": 0}
    words = ["pi_lr=log:1e-3:1e-1", "gamma=0.9,0.99", "num_envs=int:1:2"]
    first = study_in(tmp_path / "a", words=words, **options)
    assert len(first.trials) == 2  # the others are chosen after scores
    found = tune(first)
    assert len(first.trials) == 8
    again = study_in(tmp_path / "b", words=words, **options)
    assert tune(again) == found and again.trials == first.trials
    values = [first.values_of(name) for name in first.trials if name != DEFAULT]
    assert all(v["gamma"] in (0.9, 0.99) and v["num_envs"] in (1, 2) for v in values)
    assert len({json.dumps(v) for v in values}) == 7


def test_optuna_leaves_out_what_cannot_start(study_in, tmp_path):
    pytest.importorskip("optuna", reason="needs the extra 'tune'")

    def refuse(cells):
        if any(cell.kwargs["gamma"] == 0.9 for cell in cells):
            raise SpinupError("not that one")

    said = []
    options = {"sampler": "tpe", "trials": 8, "test_seeds": 0}
    study = study_in(tmp_path / "s", words=["pi_lr=log:1e-3:1e-1", "gamma=0.9,0.99"], **options)
    first = set(study.trials)
    study.refuse, study.say = refuse, said.append
    tune(study)
    chosen = [v["gamma"] for name, v in study.trials.items() if name not in first]
    assert chosen == [0.99] * 6
    assert [line for line in said if line.startswith("Left out") and line.endswith("not that one")]


def winner(folder):
    """What a study decided, without where it ran."""
    report = json.loads((folder / "report.json").read_text())
    return {k: v for k, v in report.items() if k != "command"}


@pytest.mark.slow
def test_killed_at_any_time_on_any_number_of_workers_the_winner_is_the_same(tmp_path):
    """Launcher and workers are killed again and again, until the study is complete."""

    def command(name, workers):
        words = [*TINY.split(), "--data_dir", name, "--num_workers", str(workers)]
        return [sys.executable, "-m", "spinup.run", *words]

    subprocess.run(command("whole", 2), check=True, capture_output=True)
    whole = winner(tmp_path / "whole" / "tune_reinforce_CartPole-v1")
    for kill in range(40):
        process = subprocess.Popen(
            command("killed", 1 + kill % 2),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            process.wait(12 + 3 * kill)
        except subprocess.TimeoutExpired:
            for pid in [*children(process.pid), process.pid]:
                os.kill(pid, signal.SIGKILL)
        error = process.stderr.read()
        process.stderr.close()
        process.wait()
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, error.decode()
    assert kill >= 1
    assert winner(tmp_path / "killed" / "tune_reinforce_CartPole-v1") == whole


def children(pid):
    """The processes that a process has started."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]

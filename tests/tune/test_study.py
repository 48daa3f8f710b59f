"""A study: ordinary runs that pause and continue, decisions that can be repeated, a fair test."""

import json
import shutil
from pathlib import Path

import pytest

from spinup import registry
from spinup.analysis.compare import compare
from spinup.cli import plan as cli
from spinup.grids.cells import CellsFailed
from spinup.utils.errors import SpinupError
from spinup_tune import figure, report
from spinup_tune.halving import DEFAULT
from spinup_tune.rounds import tune
from tests.helpers.comparing import table_cells


def files(folder):
    """Everything below a folder that is not a lock."""
    found = (p.relative_to(folder) for p in Path(folder).rglob("*") if p.is_file())
    return {str(p) for p in found if p.name != ".lock"}


def test_a_study_ends_with_a_tested_winner_and_ordinary_runs(study_in, tmp_path):
    study = study_in(tmp_path / "s")
    result = report.finish(study)
    # all configurations took part in the first rung; half of them and the default in the second
    first, last = study.rungs
    assert list(first["scores"]) == list(study.trials) and len(study.trials) == 4
    assert DEFAULT in last["scores"] and 2 <= len(last["scores"]) <= 3
    winner = result["winner"]
    assert result["configurations"][winner]["tuning"] == max(
        entry["score"] for entry in last["scores"].values()
    )
    for name, entry in first["scores"].items():
        run = study.run_of("tuning", name, 0)
        assert len(table_cells(run)) == 1 + (4 if name in last["scores"] else 2)
        assert entry["seeds"]["0"] == entry["score"]
    # a promoted run equals one that never paused
    (cell,) = study.cells(winner, [0])
    alone = tmp_path / "alone"
    kwargs = {**cell.kwargs, "logger_kwargs": {"output_dir": str(alone), "quiet": True}}
    kwargs["env_fn"] = kwargs.pop("env_name")
    study.function(seed=0, num_threads=1, **kwargs)
    assert table_cells(study.run_of("tuning", winner, 0)) == table_cells(alone)
    # fresh seeds, of the default too
    tested = [name for name, row in result["configurations"].items() if "test_seeds" in row]
    assert DEFAULT in tested and set(tested) >= {winner}
    for name in tested:
        assert list(result["configurations"][name]["test_seeds"]) == ["1000", "1001"]
    compared = compare([str(study.folder / "test" / n) for n in tested], tested, last=2)
    iqm = {n: entry["iqm"] for n, entry in compared["algorithms"].items()}
    assert iqm == {n: result["configurations"][n]["test"]["iqm"] for n in tested}
    # the preset gives the winner's arguments
    function = registry.load("reinforce", "pytorch")
    path = str(study.folder / "preset.json")
    ready = cli.plan(function, ["--preset", path], "x", "pytorch")
    (variant,) = ready.grid.variants()
    assert variant["pi_lr"] == study.values_of(winner)["pi_lr"]
    assert (variant["epochs"], variant["env_name"]) == (4, "CartPole-v1")
    assert json.loads(Path(path).read_text())["provenance"]["configuration"] == winner
    figure.draw(study, result)
    assert (study.folder / "rungs.png").stat().st_size > 10_000
    for text in (report.text(study, result), (study.folder / "report.md").read_text()):
        assert " ".join(result["verdict"].split()) in " ".join(text.split()) and winner in text


def test_the_same_study_again_runs_nothing_and_decides_the_same(study_in, tmp_path):
    result = report.finish(study_in(tmp_path / "s"))
    before = files(tmp_path / "s")

    def never(title, jobs, more=None):
        raise AssertionError(f"{title}: {[job.name for job in jobs]}")

    assert report.finish(study_in(tmp_path / "s", launch=never)) == result
    assert files(tmp_path / "s") == before


def test_an_interrupted_study_goes_on_to_the_same_result(study_in, run_here, tmp_path):
    """The launcher dies after so many runs: in the first rung, in the second, in the test."""
    result = report.finish(study_in(tmp_path / "whole"))
    count = 0

    def dies(title, jobs, more=None):
        nonlocal count
        for job in reversed(jobs):  # the order in which runs end makes no difference either
            if count == after:
                raise KeyboardInterrupt
            count += 1
            run_here(title, [job])
        return {}

    for after in (1, 5, 7):
        count, folder = 0, tmp_path / f"s{after}"
        with pytest.raises(KeyboardInterrupt):
            report.finish(study_in(folder, launch=dies))
        assert report.finish(study_in(folder)) == result


def test_other_settings_are_refused_and_more_test_seeds_are_not(study_in, tmp_path):
    report.finish(study_in(tmp_path / "s", test_seeds=1))
    with pytest.raises(SpinupError, match="trials: 4 -> 5"):
        study_in(tmp_path / "s", trials=5)
    with pytest.raises(SpinupError, match="pi_lr"):
        study_in(tmp_path / "s", words=["pi_lr=log:1e-3:1"])
    result = report.finish(study_in(tmp_path / "s", test_seeds=2))
    assert list(result["configurations"][DEFAULT]["test_seeds"]) == ["1000", "1001"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("keep me")
    with pytest.raises(SpinupError, match="not empty"):
        study_in(tmp_path / "other")
    (tmp_path / "s" / "study.json").write_text("{")
    with pytest.raises(SpinupError, match="cannot be read"):
        study_in(tmp_path / "s")


def test_a_configuration_that_diverges_is_dropped_and_a_bug_is_not_hidden(study_in, tmp_path):
    study = study_in(tmp_path / "s", words=["pi_lr=0.001,3e38"], trials=3, test_seeds=0)
    found = tune(study)
    bad = next(name for name, values in study.trials.items() if values.get("pi_lr") == 3e38)
    assert study.rungs[0]["scores"][bad]["score"] is None
    assert bad not in found and DEFAULT in found

    def breaks(title, jobs, more=None):
        return {job.name: "Boom" for job in jobs}

    with pytest.raises(CellsFailed, match="tries them again"):
        tune(study_in(tmp_path / "t", launch=breaks))


def test_runs_in_which_no_episode_ended_are_not_called_diverged(study_in, tmp_path):
    base = {**study_in.base, "max_ep_len": 1000, "steps_per_epoch": 3}
    study = study_in(tmp_path / "s", base=base, test_seeds=0)
    with pytest.raises(SpinupError, match="no episode of default with seed 0 ended in the first 2"):
        tune(study)
    assert not (tmp_path / "s" / "preset.json").exists()


def test_only_the_replay_of_dropped_runs_is_deleted(study_in, run_here, tmp_path):
    base = {**study_in.base, "replay_size": 200, "n_steps": 10, "num_test_episodes": 1}
    kept = {}

    def remember(title, jobs, more=None):
        failures = run_here(title, jobs)
        if not kept:  # after the first rung, before anything is dropped
            kept.update({p: p.read_bytes() for p in (tmp_path / "s").rglob("*") if p.is_file()})
        return failures

    study = study_in(
        tmp_path / "s", "acer", remember, base, ["pi_lr=log:1e-4:1e-2"], test_seeds=0, epochs=2
    )
    found = tune(study)
    dropped = [name for name in study.trials if name not in found]
    assert len(dropped) == 1 or len(dropped) == 2
    gone = [path for path in kept if not path.exists()]
    pieces = [p for p in kept if p.parent.name == "pieces"]
    ours = [p for p in pieces if p.relative_to(tmp_path / "s").parts[1] in dropped]
    assert ours and sorted(p for p in gone if p in ours) == sorted(ours)
    # what else is gone belongs to runs that went on, and saved again
    assert not [
        p for p in gone if p not in ours and p.relative_to(tmp_path / "s").parts[1] in dropped
    ]
    for name in found:
        assert list(study.run_of("tuning", name, 0).glob("checkpoints/pieces/*"))
    # its table and its policy are untouched, and decide the same again
    assert (
        tune(
            study_in(
                tmp_path / "s",
                "acer",
                remember,
                base,
                ["pi_lr=log:1e-4:1e-2"],
                test_seeds=0,
                epochs=2,
            )
        )
        == found
    )


def test_a_default_that_wins_is_said_to_win(study_in, tmp_path):
    base = {**study_in.base, "pi_lr": 0.01}
    study = study_in(tmp_path / "s", base=base, words=["pi_lr=1e-9,1e-8,1e-7"])
    tune(study)
    tuned = {name: (1.0 if name == DEFAULT else 0.5) for name in study.rungs[-1]["scores"]}
    winner, names = study.chosen(tuned)
    result = report.summarize(study, tuned, winner, names, study.test(names))
    assert winner == DEFAULT and names[-1] == DEFAULT and len(names) == 2
    assert "default, which therefore wins" in result["verdict"]
    report.write_preset(tmp_path / "preset.json", study, result)
    preset = json.loads((tmp_path / "preset.json").read_text())
    assert preset["pi_lr"] == 0.01 and "logger_kwargs" not in preset


def test_fresh_runs_that_diverge_count_as_the_worst(study_in, tmp_path):
    study = study_in(tmp_path / "s", words=["pi_lr=0.1,0.2,0.3"])
    names = list(study.trials)[:2]
    assert names == [DEFAULT, "trial-01"]
    runs = {
        name: {"score": score, "seeds": {}} for name, score in zip(names, (1.0, 2.0), strict=True)
    }
    study.rungs = [{"epochs": 4, "scores": runs, "continue": names}]
    tuned = {name: entry["score"] for name, entry in runs.items()}
    tested = {
        "trial-01": {str(seed): None if seed < 1005 else 100.0 for seed in range(1000, 1010)},
        DEFAULT: {str(seed): 10.0 + seed / 1000 for seed in range(1000, 1010)},
    }
    result = report.summarize(study, tuned, "trial-01", names, tested)
    row = result["configurations"]["trial-01"]
    assert row["diverged"] == [1000, 1001, 1002, 1003, 1004] and row["test"]["runs"] == 10
    assert row["test"]["mean"] == pytest.approx((5 * 11.0 + 5 * 100.0) / 10)
    assert "may be chance" in result["verdict"]
    assert "5 test runs of trial-01 diverged" in report.lucky(result)
    assert "--trust" not in report.text(study, result)
    assert "--trust" in report.text(study, {**result, "env": "mine:My-v0"})
    # the default alone: its score is shown, and compared with nothing
    result = report.summarize(study, tuned, DEFAULT, [DEFAULT], {DEFAULT: tested[DEFAULT]})
    assert result["configurations"][DEFAULT]["test"]["runs"] == 10 and result["comparison"] is None


def test_a_run_without_its_last_save_is_completed(study_in, run_here, tmp_path):
    result = report.finish(study_in(tmp_path / "s"))
    run = study_in(tmp_path / "s").run_of("test", DEFAULT, 1000)
    whole = {p.name: p.read_bytes() for p in (run / "pyt_save").iterdir() if p.is_file()}
    (run / ".finished").unlink()
    ran = []

    def counts(title, jobs, more=None):
        ran.extend(job.name for job in jobs)
        return run_here(title, jobs)

    assert report.finish(study_in(tmp_path / "s", launch=counts)) == result
    assert len(ran) == 1 and (run / ".finished").is_file()
    assert whole == {p.name: p.read_bytes() for p in (run / "pyt_save").iterdir() if p.is_file()}


def flatter(run):
    """Change the returns in a run's table."""
    path = run / "progress.txt"
    lines = [line.split("\t") for line in path.read_text().splitlines()]
    place = lines[0].index("AverageEpRet")
    for row in lines[1:]:
        row[place] = "500.0"
    path.write_text("".join("\t".join(line) + "\n" for line in lines))


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_changed_table_decides_nothing(study_in, tmp_path, asynchronous):
    options = {"asynchronous": asynchronous}
    result = report.finish(study_in(tmp_path / "s", **options))
    study = study_in(tmp_path / "s", **options)
    loser = next(name for name in study.trials if name not in study.rungs[-1]["scores"])
    places = [("tuning", loser, 0), ("tuning", result["winner"], 0), ("test", DEFAULT, 1001)]
    before = (tmp_path / "s" / "report.json").read_bytes()
    for run in (study.run_of(*place) for place in places):
        flatter(run)
        with pytest.raises(SpinupError, match="does not match its hash") as refused:
            report.finish(study_in(tmp_path / "s", **options))
        assert str(refused.value).startswith(f"{run}: ") and "\n" not in str(refused.value)
        assert (tmp_path / "s" / "report.json").read_bytes() == before
        shutil.rmtree(run)  # as the error advises
        assert report.finish(study_in(tmp_path / "s", **options)) == result


def test_a_table_that_is_changed_between_rungs_ends_the_study(study_in, run_here, tmp_path):
    def changes(title, jobs, more=None):
        failures = run_here(title, jobs)
        flatter(Path(jobs[1].output_dir))
        return failures

    with pytest.raises(SpinupError, match=r"trial-01_s0: progress\.txt was changed"):
        tune(study_in(tmp_path / "s", launch=changes))
    assert json.loads((tmp_path / "s" / "study.json").read_text())["rungs"] == []


def test_no_file_of_a_study_is_written_through_a_link(study_in, tmp_path):
    study = study_in(tmp_path / "s")
    tune(study)
    theirs = tmp_path / "theirs"
    theirs.write_text("precious")
    names = ("study.json", "report.md", "report.json", "preset.json", "rungs.png")
    for name in names:
        (tmp_path / "s" / name).unlink(missing_ok=True)
        (tmp_path / "s" / name).symlink_to(theirs)
    figure.draw(study, report.finish(study))
    assert theirs.read_text() == "precious"
    assert not any((tmp_path / "s" / name).is_symlink() for name in names)


def test_what_a_killed_first_save_left_is_not_in_the_way(study_in, tmp_path):
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / ".tmp-study.json-123-abcd").write_text("{")
    assert tune(study_in(tmp_path / "s"))


def test_a_study_without_a_test_claims_nothing(study_in, tmp_path):
    result = report.finish(study_in(tmp_path / "s", test_seeds=0))
    assert not (tmp_path / "s" / "test").exists()
    assert "not tested" in result["verdict"] or "default, which" in result["verdict"]
    shutil.rmtree(tmp_path / "s")


def test_asynchronous_halving_promotes_when_ready_and_keeps_to_its_decisions(
    study_in, run_here, tmp_path
):
    ended = []

    def stops(title, jobs, more=None):
        def after(job):
            ended.append((job.cell.exp_name, job.until))
            if len(ended) == 4:
                raise KeyboardInterrupt
            return more(job)

        return run_here(title, jobs, after)

    options = {"trials": 5, "test_seeds": 0, "asynchronous": True}
    with pytest.raises(KeyboardInterrupt):
        tune(study_in(tmp_path / "s", launch=stops, **options))
    saved = json.loads((tmp_path / "s" / "study.json").read_text())
    early = saved["rungs"][0]["continue"]
    assert early and len(saved["rungs"][0]["scores"]) < 5  # promoted before the rung was complete
    study = study_in(tmp_path / "s", **options)
    found = tune(study)
    assert set(early) <= set(found) and DEFAULT in found
    assert list(study.rungs[0]["scores"]) == list(study.trials)
    assert tune(study_in(tmp_path / "s", **options)) == found

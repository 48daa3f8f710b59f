"""`spinup doctor`: its output, its exit status and its errors."""

import json

import pytest

from spinup.cli.main import main
from spinup.utils.findings import LEVELS
from spinup_lab.doctor.rules import RULES, checks, table
from spinup_lab.parts import PARTS
from tests.helpers.synthetic import healthy, write


def run_of(folder, algo="ppo", **changes):
    columns, config, space = healthy(algo)
    for name, value in changes.items():
        columns[name][:] = value
    return write(folder, columns, config, space)


def test_a_healthy_run_gives_0(tmp_path, capsys):
    assert main(["doctor", str(run_of(tmp_path / "a"))]) == 0
    assert "nothing found" in capsys.readouterr().out


def test_errors_give_3_and_warnings_1(tmp_path, capsys):
    assert main(["doctor", str(run_of(tmp_path / "a", LossPi=0.03))]) == 3
    shown = capsys.readouterr().out
    assert "ERROR X2 (policy-loss, epochs 0 to 39)" in shown
    assert "Why:" in shown and "Try:" in shown and "--explain X2, or spinup docs" in shown
    assert main(["doctor", str(run_of(tmp_path / "b", ClipFrac=0.7))]) == 1
    assert "WARNING S11" in capsys.readouterr().out


def test_what_was_not_finished_or_not_examined_is_said(tmp_path, capsys):
    folder = run_of(tmp_path / "a")
    main(["doctor", str(folder)])
    assert "Note:" not in capsys.readouterr().out
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "epochs": 90, "backend": "tf1"}))
    main(["doctor", str(folder)])
    shown = " ".join(capsys.readouterr().out.split())
    assert "only 40 of 90 epochs are logged" in shown and "became NaN" in shown
    assert "backend tf1 are not examined" in shown
    (folder / ".finished").write_text("finished\n")
    main(["doctor", str(folder)])
    assert "epochs are logged" not in capsys.readouterr().out


def test_damaged_files_are_noted(tmp_path, capsys):
    folder = run_of(tmp_path / "a", "ddpg")
    step = folder / "checkpoints" / "step-000000000100"
    step.mkdir(parents=True)
    (step / "manifest.json").write_text("{")
    main(["doctor", str(folder)])
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("Note:") == 1 and "checkpoints" in said
    (folder / "pyt_save" / "policy.json").write_text("{")
    main(["doctor", str(folder)])
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("Note:") == 2 and "policy.json cannot be read" in said


def test_several_runs_have_a_summary(tmp_path, capsys):
    run_of(tmp_path / "x" / "x_s0")
    run_of(tmp_path / "x" / "deep" / "x_s1", LossPi=0.03)
    assert main(["doctor", str(tmp_path / "x")]) == 3
    shown = capsys.readouterr().out
    assert "errors" in shown and "X2 (error) in 1 of 2 runs" in shown


def test_json_is_a_list_of_findings(tmp_path, capsys):
    folder = run_of(tmp_path / "a", LossPi=0.03)
    assert main(["doctor", str(folder), "--json"]) == 3
    (finding,) = json.loads(capsys.readouterr().out)
    assert finding["run"] == str(folder) and finding["id"] == "X2"
    assert set(finding) == {
        *("run", "id", "level", "part", "sentence", "why", "advice", "page", "epochs")
    }


def test_all_lists_skipped_rules_and_why(tmp_path, capsys):
    main(["doctor", str(run_of(tmp_path / "a")), "--all"])
    shown = capsys.readouterr().out
    assert "X4   it is for trpo" in shown
    assert "C1   there is no checkpoint" in shown
    assert "R1   it plays episodes: pass --play N" in shown


def test_explain_shows_one_rule(capsys):
    assert main(["doctor", "--explain", "x14"]) == 0
    shown = capsys.readouterr().out
    assert "return of a last step" in shown and "RetMin" in shown
    assert "spinup docs debug/doctor, section X14" in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name a run"),
        (["nowhere"], "no folder begins with nowhere"),
        (["."], "there are no runs in ."),
        (["--explain", "X99"], "there is no rule 'X99'"),
        ([".", "--play", "-1"], "whole number"),
        ([".", "--plai", "1"], "did you mean --play"),
    ],
)
def test_wrong_use_is_one_sentence_and_2(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", *words]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_rules_are_complete_data():
    for rule in RULES.values():
        assert rule.level in LEVELS and rule.part in PARTS and rule.tier in (1, 2, 3)
        for text in (rule.title, rule.limit, rule.why, rule.advice):
            assert text.strip() == text and "  " not in text, rule.id
        assert rule.why.endswith(".") and rule.advice.endswith(".")
        assert not rule.limit.endswith("."), rule.id


def test_every_check_has_a_rule():
    assert checks().keys() == RULES.keys()


def test_the_page_contains_the_table_of_rules(repo_root):
    page = (repo_root / "docs" / "debug" / "doctor.md").read_text()
    assert table() in page, "run: python -m spinup_lab.doctor.rules docs/debug/doctor.md"


def test_text_from_a_run_cannot_control_the_terminal(tmp_path, capsys):
    folder = run_of(tmp_path / "a", LossPi=0.03)
    config = json.loads((folder / "config.json").read_text())
    config["env"] = "\x1b[2J evil"
    config["algo"] = "ppo\x1b[1m"
    (folder / "config.json").write_text(json.dumps(config))
    main(["doctor", str(folder)])
    assert "\x1b" not in capsys.readouterr().out


def test_a_run_without_a_gradient_step_or_an_ended_episode_is_examined(tmp_path, capfd):
    folder = tmp_path / "dqn"
    command = "dqn --env CartPole-v1 --hid 8 --steps 40 --epochs 2 --num_test_episodes 1"
    assert main([*command.split(), "--logger_kwargs:output_dir", str(folder)]) == 0
    capfd.readouterr()
    main(["doctor", str(folder)])
    shown = capfd.readouterr()
    assert "S32" in shown.out and "failed" not in shown.out and shown.err == ""

    ppo = run_of(tmp_path / "ppo", EpLen=float("nan"))
    config = json.loads((ppo / "config.json").read_text())
    config["env"]["max_episode_steps"] = None
    (ppo / "config.json").write_text(json.dumps(config))
    main(["doctor", str(ppo)])
    assert capfd.readouterr().err == ""

"""`spinup exercise`: the commands, what they write, and what they never overwrite."""

import json
import os
import re
import runpy
from concurrent.futures import ThreadPoolExecutor

import pytest

from spinup import run
from spinup_lab.exercises import tasks
from spinup_lab.exercises.exercise import RIGHT, Exercise, Result
from spinup_lab.exercises.judge import examine
from spinup_lab.exercises.mistakes import known_mistake
from spinup_lab.exercises.progress import Progress
from tests.helpers.processes import run_python

SUMS = "tools.discount_cumsum"
GOOD = """
import numpy as np
def discount_cumsum(x, discount):
    sums = [sum(discount**k * v for k, v in enumerate(x[t:])) for t in range(len(x))]
    return np.array(sums, float)
"""


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def spinup(capsys):
    """Run `spinup exercise WORDS`: exit code, output, errors."""

    def call(*words):
        code = run.main(["exercise", *words])
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def no_judge(monkeypatch):
    """Every answer is right, at once."""
    monkeypatch.setattr(Exercise, "check", lambda task, file, seed=0: Result(task.id, RIGHT))


def test_the_folder_is_found_from_inside(spinup, tmp_path, monkeypatch):
    spinup("start", SUMS)
    folder = tmp_path / "spinup-exercises" / SUMS
    (folder / "exercise.py").write_text(GOOD)
    for inside in (folder, folder.parent):
        monkeypatch.chdir(inside)
        code, out, _ = spinup("check", SUMS)
        assert code == 0 and "--dir" not in out
        assert not (inside / "spinup-exercises").exists()
    assert sorted(os.listdir(folder)) == ["README.md", "exercise.py"]


def test_from_start_to_pass(spinup, tmp_path):
    code, out, _ = spinup("start", SUMS)
    assert code == 0 and "spinup exercise check tools.discount_cumsum" in out
    folder = tmp_path / "spinup-exercises" / SUMS
    assert sorted(os.listdir(folder)) == ["README.md", "exercise.py"]
    code, out, _ = spinup("check", SUMS)
    assert code == 1 and "discount_cumsum is still to be written" in out
    assert out.endswith("Next: spinup exercise hint tools.discount_cumsum\n")
    (folder / "exercise.py").write_text(GOOD)
    code, out, _ = spinup("check", SUMS)
    assert code == 0 and out.endswith("Next: spinup exercise start tools.gae\n")
    entry = json.loads((tmp_path / "spinup-exercises" / "progress.json").read_text())["exercises"]
    assert entry[SUMS]["attempts"] == 2 and len(entry[SUMS]["sha256"]) == 64
    assert "passed" in spinup("list", "--set", "tools")[1].split("gae")[0]


def test_check_in_a_real_terminal_has_exit_codes(tmp_path):
    """The console script, as a learner or a teacher's script runs it."""

    def check(content):
        (tmp_path / "mine.py").write_text(content)
        return run_python("-m", "spinup.run", "exercise", "check", SUMS, "mine.py", expect=None)

    assert check(GOOD).returncode == 0
    wrong = check("def discount_cumsum(x, discount):\n    return 2.0 * x\n")
    assert wrong.returncode == 1 and wrong.stderr == ""
    assert "expected [1.75, 1.5, 1.0],\n             got [2.0, 2.0, 2.0]" in wrong.stdout
    assert check("def discount_cumsum(:").returncode == 2


def test_start_never_overwrites_a_file(spinup, tmp_path):
    spinup("start", SUMS)
    file = tmp_path / "spinup-exercises" / SUMS / "exercise.py"
    file.write_text("mine")
    code, out, _ = spinup("start", SUMS)
    assert code == 0 and "exists and stays as it is" in out
    assert file.read_text() == "mine"
    for number in (1, 2):
        _, out, _ = spinup("start", SUMS, "--again")
        old = tmp_path / "spinup-exercises" / f"{SUMS}.old-{number}" / "exercise.py"
        assert f"{SUMS}.old-{number}" in out
        assert old.read_text() == ("mine" if number == 1 else file.read_text())
        assert "NotYetWritten" in file.read_text()


def test_start_again_without_files_is_a_plain_start(spinup):
    assert spinup("start", SUMS, "--again")[0] == 0


def test_another_folder(spinup, no_judge, tmp_path):
    assert "check tools.gae --dir my" in spinup("start", "tools.gae", "--dir", "my")[1]
    code, out, _ = spinup("check", "tools.gae", "--dir", "my")
    assert code == 0 and out.endswith(" --dir my\n")
    assert sorted(os.listdir(tmp_path)) == ["my"]
    assert "tools.gae" in spinup("progress", "--json", "--dir", "my")[1]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["check", SUMS],
            f"no file spinup-exercises/{SUMS}/exercise.py: 'spinup exercise",
        ),
        (["check", SUMS, "none.py"], "there is no file none.py\n"),
        (["check", "tools.discount"], "did you mean tools.discount_cumsum?"),
        (["check", "../x"], "there is no exercise '../x'"),
        (["check"], "the following arguments are required: id"),
        (["check", SUMS, "--seed", "-1"], "--seed"),
        (["start", "nothing"], "there is no exercise 'nothing'"),
        (["chekc", SUMS], "'chekc' is not a command of 'spinup exercise'"),
        (["list", "--set", "12"], "there is no set '12'"),
        (["hint", "ppo"], "there is no exercise 'ppo'"),
    ],
)
def test_a_wrong_command_is_one_sentence_and_writes_nothing(spinup, words, sentence, tmp_path):
    code, out, err = spinup(*words)
    assert code == 2 and out == "" and sentence in err
    assert err.startswith("spinup: ") and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_hints_come_one_by_one_and_are_counted(spinup):
    spinup("start", "ppo.loss_pi")
    hints = tasks.find("ppo.loss_pi").hints
    for number in (1, 2, 3, 3):
        code, out, _ = spinup("hint", "ppo.loss_pi")
        assert code == 0 and f"Hint {number} of 3" in out
        assert hints[number - 1].split()[0] in out
    assert "spinup exercise solution ppo.loss_pi" in out
    assert Progress().entry("ppo.loss_pi")["hints"] == 3


def test_the_solution_is_the_library_s_code_and_is_recorded(spinup):
    spinup("start", "ppo.loss_pi")
    code, out, _ = spinup("solution", "ppo.loss_pi")
    assert code == 0 and "# spinup/algos/pytorch/ppo/ppo.py, line" in out
    assert "loss_pi = -torch.min(ratio * adv, clip_adv).mean()" in out
    assert "solution_seen" in Progress().entry("ppo.loss_pi")
    assert "solution seen" in spinup("list", "--set", "PPO")[1]


@pytest.mark.parametrize(("reply", "shown"), [("y", True), ("", False), ("no", False)])
def test_the_solution_asks_once_in_a_terminal(spinup, monkeypatch, reply, shown):
    spinup("start", SUMS)
    asked = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda text: asked.append(text) or reply)
    assert ("def discount_cumsum" in spinup("solution", SUMS)[1]) == shown
    assert ("solution_seen" in Progress().entry(SUMS)) == shown
    spinup("solution", SUMS)
    assert len(asked) == (1 if shown else 2)


def test_list_shows_every_exercise_and_its_state(spinup):
    code, out, _ = spinup("list")
    assert code == 0
    for name, task in tasks.load().items():
        assert name in out and task.title in out
    assert "Set 4: PPO" in out and "write a function" in out
    assert max(map(len, out.splitlines())) <= 120
    assert spinup("list", "--set", "4")[1] == spinup("list", "--set", "ppo")[1]


def test_progress_counts_per_set(spinup, no_judge):
    assert "Nothing is recorded" in spinup("progress")[1]
    spinup("start", SUMS)
    spinup("hint", SUMS)
    spinup("check", SUMS)
    (row,) = [line for line in spinup("progress")[1].splitlines() if line.startswith("0 tools")]
    total = sum(task.set == 0 for task in tasks.load().values())
    assert row.split()[2:] == [f"1/{total}", "1", "1", "0", "-"]
    found = json.loads(spinup("progress", "--json")[1])["exercises"][SUMS]
    assert found["hints"] == 1 and {"started", "passed", "spinup"} <= found.keys()


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"exercises": []}', '{"exercises": {"a": 1}}', "\x00\xff",
     '{"exercises": {"tools.gae": {"attempts": "many"}}}',
     '{"exercises": {"tools.gae": {"hints": true}}}'],
)  # fmt: skip
def test_a_damaged_record_is_one_sentence_and_stays_as_it_is(spinup, tmp_path, content):
    spinup("start", SUMS)
    record = tmp_path / "spinup-exercises" / "progress.json"
    record.write_text(content)
    for words in (["list"], ["progress"], ["hint", SUMS], ["start", "tools.gae"], ["check", SUMS]):
        code, out, err = spinup(*words)
        assert code == 2 and out == ""
        assert "progress.json is damaged" in err and err.count("\n") == 1
    assert record.read_text() == content
    assert not (tmp_path / "spinup-exercises" / "tools.gae").exists()


def test_a_crash_while_writing_leaves_the_old_record(spinup, tmp_path, monkeypatch):
    spinup("start", SUMS)
    record = tmp_path / "spinup-exercises" / "progress.json"
    before = record.read_text()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
    code, _, err = spinup("hint", SUMS)
    assert code != 0 and "No space left" in err
    assert record.read_text() == before
    assert sorted(os.listdir(record.parent)) == [".lock", "progress.json", SUMS]


def test_records_of_several_processes_add_up():
    def count(_):
        Progress().update(SUMS, lambda entry: entry.update(attempts=entry.get("attempts", 0) + 1))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(count, range(24)))
    assert Progress().entry(SUMS)["attempts"] == 24


def test_a_file_in_the_place_of_the_folder_is_a_sentence(spinup, tmp_path):
    (tmp_path / "spinup-exercises").write_text("mine")
    code, _, err = spinup("start", SUMS)
    assert code == 2 and err.count("\n") == 1 and "spinup-exercises" in err
    assert (tmp_path / "spinup-exercises").read_text() == "mine"


def test_exercises_of_the_original_are_run_as_they_are(spinup, tmp_path):
    spinup("start", "original.1.1")
    file = tmp_path / "spinup-exercises" / "original.1.1" / "exercise1_1.py"
    file.write_text(
        file.read_text().replace(
            "return torch.zeros(1)",
            "return torch.distributions.Normal(mu, log_std.exp()).log_prob(x).sum(-1)",
        )
    )
    code, out, _ = spinup("check", "original.1.1")
    assert code == 0 and "original.1.1: right." in out
    file.write_text("import math\nx = 1 / 0\n")
    code, out, _ = spinup("check", "original.1.1")
    assert code == 2 and "ZeroDivisionError: division by zero (line 2)" in out


@pytest.fixture
def page(repo_root):
    return (repo_root / "docs" / "exercises.md").read_text(encoding="utf-8")


def test_the_page_names_every_function_to_write(page):
    rows = dict(re.findall(r"^\| (\d+) \w+ \| (.+?) \|", page, re.M))
    for task in tasks.load().values():
        if task.kind == "F":
            assert f"`{task.id}`" in rows[str(task.set)]


def test_the_verdict_that_the_page_shows_is_real(page):
    task = tasks.find("ppo.loss_pi")
    (wrong,) = [wrong for wrong in task.wrong if wrong.name == "clipped-only"]
    assert f"```text\n{examine(task, known_mistake(task, wrong))}\n```" in page


def test_the_notebook_cell_of_the_page_does_what_it_says(page, tmp_path):
    (cell,) = re.findall(r"^```python\n(from spinup.exercises import.*?)^```$", page, re.M | re.S)
    (tmp_path / "cell.py").write_text(cell)
    result = runpy.run_path(str(tmp_path / "cell.py"))["result"]
    assert repr((result.passed, result.misconception)) in cell.splitlines()[-1]


def test_help_and_completion_name_the_commands(spinup, capsys):
    assert "check ID [FILE]" in spinup()[1]
    run.main(["completion", "bash"])
    assert "list start check hint solution progress" in capsys.readouterr().out

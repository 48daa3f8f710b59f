"""The quizzes: complete, and judged with a reason for every choice."""

import io
import json

import pytest

from spinup.utils.errors import SpinupError
from spinup_lab.commands.exercise import main
from spinup_lab.exercises import quiz
from spinup_lab.exercises.tasks import SETS


def right(number):
    return "".join(question.answer for question in quiz.load(number))


@pytest.mark.parametrize("number", SETS)
def test_a_set_has_five_questions_and_explains_every_choice(number):
    questions = quiz.load(number)
    assert len(questions) == 5
    for question in questions:
        assert question.text.endswith(("?", ":"))
        assert 3 <= len(question.choices) <= 4
        assert [choice.right for choice in question.choices].count(True) == 1
        texts = [choice.text for choice in question.choices]
        assert len(set(texts)) == len(texts)
        assert all(choice.why.endswith((".", ".)")) for choice in question.choices)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("right = true\n", "", "set05_ddpg.toml: question 1 should have one choice with 'right ="),
        ("why =", "because =", "set05_ddpg.toml: question 1 has the unknown field 'because'"),
        (
            "[[quiz.choices]]\ntext",
            "[[quiz.choices]]\n[[quiz]]\ntext",
            "question 1 lacks the field",
        ),
    ],
)
def test_a_fault_in_the_questions_is_named(old, new, sentence, tmp_path, monkeypatch):
    text = quiz.content.FOLDER.joinpath("set05_ddpg.toml").read_text()
    start = text.index("[[quiz]]")
    tmp_path.joinpath("set05_ddpg.toml").write_text(text[start:].replace(old, new, 1))
    monkeypatch.setattr(quiz.content, "FOLDER", tmp_path)
    with pytest.raises(SpinupError) as error:
        quiz.load(5)
    assert sentence in str(error.value)


def test_right_answers_are_not_always_at_the_same_place():
    letters = "".join(right(number) for number in SETS)
    assert all(letters.count(letter) >= len(letters) / 6 for letter in "abcd")


def test_all_answers_right_exits_with_0_and_is_recorded(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("spinup-exercises").mkdir()
    assert main(["quiz", "DDPG", "--answers", right(5)]) == 0
    assert "5 of 5 right" in capsys.readouterr().out
    entry = json.loads(tmp_path.joinpath("spinup-exercises/progress.json").read_text())
    assert entry["exercises"]["quiz.5"]["quiz"] == {"right": 5, "questions": 5}
    assert "passed" in entry["exercises"]["quiz.5"]
    assert main(["progress"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert next(line for line in lines if line.startswith("5 DDPG")).endswith(" 5/5")
    assert next(line for line in lines if line.startswith("6 TD3")).endswith(" -")


def test_a_wrong_answer_exits_with_1_and_says_why(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    question = quiz.load(5)[0]
    wrong = next(letter for letter in question.letters if letter != question.answer)
    assert main(["quiz", "5", "--answers", wrong + right(5)[1:]]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "4 of 5 right" in out
    assert question.choices[quiz.LETTERS.index(wrong)].why in out
    assert list(tmp_path.iterdir()) == []  # nothing is written without a folder of exercises


@pytest.mark.parametrize(
    ("answers", "message"),
    [("abc", "one letter for each of the 5"), ("abcdz", "not 'z'"), ("", "not 0")],
)
def test_bad_answers_are_refused_in_a_sentence(answers, message):
    with pytest.raises(SpinupError, match=message):
        main(["quiz", "5", "--answers", answers])


def test_without_a_terminal_it_asks_for_answers(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(SpinupError, match="pass --answers"):
        main(["quiz", "0"])


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_in_a_terminal_it_asks_until_the_answer_is_a_choice(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", Terminal("x\n\n" + "\n".join(right(7)) + "\n"))
    assert main(["quiz", "sac"]) == 0
    out = capsys.readouterr().out
    assert out.count("Type one of a, b, c, d.") == 2
    assert all(question.text.split()[0] in out for question in quiz.load(7))


def test_leaving_in_the_middle_records_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tmp_path.joinpath("spinup-exercises").mkdir()
    monkeypatch.setattr("sys.stdin", Terminal("a\n"))
    assert main(["quiz", "7"]) == 1
    assert "nothing is recorded" in capsys.readouterr().out
    assert not tmp_path.joinpath("spinup-exercises/progress.json").exists()

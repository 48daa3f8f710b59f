"""What an exercise and a verdict are, before anything is judged."""

import pytest

from spinup import SpinupError
from spinup_lab.exercises import tasks
from spinup_lab.exercises.exercise import CANNOT_JUDGE, RIGHT, WRONG, Check, Result


def test_a_verdict_reads_from_the_difference_to_the_next_command():
    result = Result(
        "ppo.loss_pi",
        WRONG,
        (Check("shape", True), Check("value", False, "adv=[-1.0]: expected -1.5, got -1.2")),
        misconception="max-for-min",
        story="The larger branch was taken.",
        next="spinup exercise hint ppo.loss_pi",
    )
    text = str(result)
    parts = ["ok", "WRONG value", "expected -1.5", "larger branch", "not right yet", "Next: spinup"]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert not result and not result.passed
    markdown = result._repr_markdown_()
    assert markdown.startswith("**ppo.loss_pi: not right yet.**")
    assert "adv=[-1.0]: expected -1.5, got -1.2" in markdown and "larger branch" in markdown


@pytest.mark.parametrize(("code", "word"), [(RIGHT, "right."), (CANNOT_JUDGE, "not be judged")])
def test_the_verdict_is_in_words(code, word):
    assert word in Result("x", code).verdict
    assert bool(Result("x", code)) == (code == RIGHT)


def test_an_unknown_exercise_is_a_sentence():
    with pytest.raises(SpinupError, match="there is no exercise 'nonsense'"):
        tasks.find("nonsense")

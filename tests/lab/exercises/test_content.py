"""What a teacher writes: a file with a fault in it is refused with a sentence that names it."""

import pytest

from spinup import SpinupError
from spinup_lab.exercises import bugs, content, tasks

TABLE = '''
[ppo.half]
title = "half of it"
minutes = 5
difficulty = 1
name = "half"
reference = "operator:truediv"
cases = "half_cases"
task = """
Write it.
"""
stub = "def half(x): ..."
hints = ["""
A long idea
in two lines.
""", "x / 2", """
return (
    x / 2)
"""]

[ppo.half.mistakes.third]
story = """
A third
of it.
"""
old = "a / b"
new = ""
'''


def read(text, tmp_path, known=None):
    path = tmp_path / "set04_ppo.toml"
    path.write_text(text)
    return content.read_set(path, known or {})


def test_a_table_is_an_exercise(tmp_path):
    (task,) = read(TABLE, tmp_path).values()
    assert (task.id, task.set, task.kind, task.task) == ("ppo.half", 4, "F", "Write it.")
    assert task.cases == "spinup_lab.exercises.sets.set04_ppo:half_cases"
    assert task.hints == ("A long idea in two lines.", "x / 2", "return (\n    x / 2)")
    (wrong,) = task.wrong
    assert (wrong.name, wrong.story, wrong.edits) == ("third", "A third of it.", (("a / b", ""),))


def test_mistakes_may_be_those_of_another_exercise(tmp_path):
    known = read(TABLE, tmp_path)
    text = TABLE.replace("ppo.half", "ppo.more").replace(
        "minutes", 'mistakes_of = "ppo.half"\nminutes'
    )
    (task,) = read(text.replace(".third]", ".quarter]"), tmp_path, known).values()
    assert [wrong.name for wrong in task.wrong] == ["third", "quarter"]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("minutes = 5", "minutes =", "set04_ppo.toml cannot be read: "),
        ("minutes = 5\n", "", "set04_ppo.toml: [ppo.half] lacks the field 'minutes'"),
        ("minutes = 5", "minutes = '5'", "[ppo.half]: 'minutes' should be a whole number, not '5'"),
        ("minutes = 5", "minute = 5", "unknown field 'minute'; did you mean minutes?"),
        ('"x / 2", ', "", "[ppo.half]: 'hints' should be a list of three texts, not"),
        ("minutes", "kind = 'functions'\nminutes", "no kind 'functions'; did you mean function?"),
        ("minutes", "mistakes_of = 'x'\nminutes", "'mistakes_of' should be the id of an exercise"),
        ('new = ""', "", "[ppo.half]: mistake third should have either 'old' and 'new' or"),
        ('new = ""', 'new = ""\nfunction = "x"', "mistake third should have either"),
        ("story", "stories", "mistake third has the unknown field 'stories'; did you mean story?"),
        ("[ppo.half]", "[[ppo.half]]", "set04_ppo.toml"),
    ],
)
def test_a_fault_is_named(old, new, sentence, tmp_path):
    with pytest.raises(SpinupError) as error:
        read(TABLE.replace(old, new, 1), tmp_path)
    assert sentence in str(error.value)


def test_an_id_is_taken_once(tmp_path):
    with pytest.raises(SpinupError, match=r"\[ppo.half\] is an exercise of another set"):
        read(TABLE, tmp_path, known=read(TABLE, tmp_path))


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"tools.gae" =', '"tools.gea" =', "bugs.toml: there is no function 'tools.gea'"),
        ('"gae-off-by-one"', '"gae-off-by-two"', "the zoo has no mutant 'gae-off-by-two'"),
        ('"mean-kept"', '"mean-lost"', "reinforce.normalize_advantages: {'mistake': 'mean-lost'"),
        ("symptom =", "symptoms =", "[logs.pg-sign] has the unknown field 'symptoms'"),
        ("[near]", "[nearly]", "bugs.toml has the unknown field 'nearly'; did you mean near?"),
        ("question =", "questions =", "bugs.toml: [recorded] has the unknown field 'questions'"),
    ],
)
def test_a_fault_in_the_list_of_bugs_is_named(old, new, sentence, tmp_path):
    path = tmp_path / "bugs.toml"
    path.write_text(content.FOLDER.joinpath("bugs.toml").read_text().replace(old, new, 1))
    with pytest.raises(SpinupError) as error:
        bugs.read(path, tasks.load())
    assert sentence in str(error.value)


ARMS = """
[ppo.exp]
kind = "experiment"
title = "x"
minutes = 5
difficulty = 1
compare = "clip_ratio"
arms = [0.1, 10]
value = "AverageEpRet"
algo = "ppo"
task = "x"
lesson = "x"
hints = ["a", "b", "c"]
choices = {"0.1" = "x", "10" = "y"}
settings = {target_kl = "none", "ac_kwargs:hidden_sizes" = [8]}
"""


def test_an_experiment_has_arms_and_settings(tmp_path):
    (task,) = read(ARMS, tmp_path).values()
    assert [(arm.name, arm.settings) for arm in task.arms] == [
        ("0.1", {"clip_ratio": 0.1}),
        ("10", {"clip_ratio": 10}),
    ]
    assert task.settings == {"target_kl": None, "ac_kwargs:hidden_sizes": (8,)}


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("arms = [0.1, 10]\n", "", "[ppo.exp] lacks 'compare', a setting, or 'arms'"),
        (
            "value",
            "decide = 'worse'\nvalue",
            "'decide' should be one of best, worst, trend, enough",
        ),
        ('"x", "10" = "y"', '"x", "10" = 1', "'choices' should be a table of texts"),
    ],
)
def test_a_fault_in_an_experiment_is_named(old, new, sentence, tmp_path):
    with pytest.raises(SpinupError) as error:
        read(ARMS.replace(old, new, 1), tmp_path)
    assert sentence in str(error.value)

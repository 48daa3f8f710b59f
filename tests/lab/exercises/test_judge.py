"""The judge on answers as learners write them: right, wrong, careless and hopeless ones."""

import contextlib
import dataclasses
import random
import sys
import time

import numpy as np
import pytest
import torch

import spinup.exercises
from spinup import SpinupError
from spinup.algos.common.returns import discount_cumsum
from spinup.exercises import NotYetWritten
from spinup_lab.exercises import child, judge, tasks
from spinup_lab.exercises.comparing import close
from spinup_lab.exercises.exercise import (
    CANNOT_JUDGE,
    RIGHT,
    WRONG,
    Case,
    Exercise,
    Wrong,
)
from tests.helpers.processes import run_python

SUMS = tasks.find("tools.discount_cumsum")
LOSS = tasks.find("ppo.loss_pi")


def says(result):
    """What a verdict says about the step that failed."""
    assert result.exit_code == WRONG
    return result.checks[-1].text


def wrap(change):
    """An answer that is right but for what `change` does to the result."""
    return lambda x, discount: change(discount_cumsum(x, discount))


# ---------------------------------------------------------------------------------- right answers


def test_a_right_answer_may_look_quite_different():
    def sums(x, discount):
        n = np.arange(len(x))
        weights = np.triu(float(discount) ** np.maximum(n[None] - n[:, None], 0))
        return weights @ np.asarray(x, dtype=np.float64)

    result = judge.examine(SUMS, sums)
    assert result.exit_code == RIGHT and result.passed and result
    assert [check.passed for check in result.checks] == [True] * len(result.checks)


def test_single_precision_is_not_a_mistake():
    assert judge.examine(SUMS, wrap(lambda out: out.astype(np.float32)))


def test_the_caller_s_random_numbers_are_left_alone():
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    drawn = random.random(), np.random.rand(), torch.rand(1).item()
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    judge.examine(SUMS, discount_cumsum)
    judge.examine(LOSS, lambda *args: None)
    assert (random.random(), np.random.rand(), torch.rand(1).item()) == drawn


# ---------------------------------------------------------------------------------- wrong answers


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (wrap(lambda out: None), "discount_cumsum returned None: is a return statement missing"),
        (wrap(lambda out: out.tolist()), "should return an array, not a list"),
        (wrap(lambda out: torch.as_tensor(out)), "should be an array, not a tensor"),
        (
            wrap(lambda out: out[:, None]),
            "should have the shape [3], not [3, 1]: the last dimension should",
        ),
        (wrap(lambda out: out.sum()), "should be an array, not a number"),
        (wrap(lambda out: out[None] - 0 * out[:, None]), "broadcast to a matrix"),
        (wrap(lambda out: np.full_like(out, np.nan)), "got [nan, nan, nan]"),
        (wrap(lambda out: np.full_like(out, np.nan)), "nan is 0/0"),
        (wrap(lambda out: np.full_like(out, np.inf)), "division by zero"),
        (wrap(lambda out: (out * 1000).astype(int)), "dtype float64, not int64: integers cut"),
        (wrap(lambda out: "text"), "should be an array, not a str"),
        (wrap(lambda out: out.mean), "are the parentheses of a call missing?"),
        (wrap(lambda out: (out, out)), "should return an array, not a tuple"),
        (wrap(lambda out: 1 / 0), "it raised ZeroDivisionError: division by zero"),
        (wrap(lambda out: sys.exit()), "discount_cumsum calls exit(): it should return"),
        (lambda x: x, "should be discount_cumsum(x, discount), but it takes (x)"),
        (lambda: 0, "but it takes ()"),
        ("no function", "discount_cumsum should be a function, not 'no function'"),
        (None, "discount_cumsum should be a function, not None"),
        (
            wrap(lambda out: out + 1e-3),
            "x=[1.0, 1.0, 1.0], discount=0.5:\nexpected [1.75, 1.5, 1.0]",
        ),
    ],
)
def test_the_first_difference_is_said_in_words(answer, sentence):
    assert sentence in says(judge.examine(SUMS, answer))


def test_an_unwritten_function_is_named():
    def discount_cumsum(x, discount):
        raise NotYetWritten("discount_cumsum")

    text = says(judge.examine(SUMS, discount_cumsum, file="exercise.py"))
    assert text.startswith("discount_cumsum is still to be written") and "exercise.py" in text


def test_what_torch_complains_about_is_explained():
    product = tasks.find("trpo.hessian_vector_product")

    def without_graph(kl, params, v, damping_coeff):
        grad = torch.cat([g.reshape(-1) for g in torch.autograd.grad(kl, params)])
        return torch.autograd.grad(grad @ v, params)[0]

    text = says(judge.examine(product, without_graph))
    assert "create_graph=True is missing" in text
    assert "of test_judge.py:  return torch.autograd.grad(grad @ v, params)[0]" in text


def test_a_changed_argument_is_mentioned_beside_a_wrong_value():
    def in_place(x, discount):
        if x.dtype.kind == "f":
            x *= discount
        return x.cumsum()

    assert "It also changes x, one of its arguments." in says(judge.examine(SUMS, in_place))


def test_a_list_in_a_result_is_named():
    gae = tasks.find("tools.gae")
    answer = says(judge.examine(gae, lambda rew, val, last_val, gamma, lam: ([0.0], [0.0])))
    assert answer == "adv should be an array, not a list"


def test_arguments_must_stay_as_they_are():
    def in_place(x, discount):
        x = np.asarray(x)
        out = discount_cumsum(x, discount)
        if x.dtype.kind == "f":
            x[:] = out
        return out

    assert "discount_cumsum changes x" in says(judge.examine(SUMS, in_place))


@pytest.mark.parametrize(
    ("draw", "whose"),
    [(random.random, "Python"), (np.random.rand, "NumPy"), (lambda: torch.rand(1), "torch")],
)
def test_global_random_numbers_must_not_be_drawn(draw, whose):
    def answer(x, discount):
        draw()
        return discount_cumsum(x, discount)

    assert f"global random numbers of {whose}" in says(judge.examine(SUMS, answer))


def test_noise_is_a_wrong_value_and_repeatable():
    def answer(x, discount):
        return discount_cumsum(x, discount) + np.random.randn(len(x))

    assert judge.examine(SUMS, answer) == judge.examine(SUMS, answer)


def test_a_difference_in_a_long_array_is_shown_by_its_place():
    def late(x, discount):
        out = discount_cumsum(x, discount)
        if len(out) > 100:
            out[150] += 1
        return out

    assert "at [150]: expected" in says(judge.examine(SUMS, late))
    assert "(1 of 200 differ)" in says(judge.examine(SUMS, late))


def one_case():
    return [Case("one", (1.5,))]


def test_equal_digits_are_not_shown_as_equal():
    text = says(judge.examine(SUMS, wrap(lambda out: out * (1 + 2e-5))))
    assert "expected" in text  # as an array: its digits may look the same
    one = Exercise(
        id="x", title="x", set=0, minutes=1, difficulty=1, task="", stub="", name="abs",
        hints=("", "", ""), reference="math:fabs", wrong=(), cases=f"{__name__}:one_case",
    )  # fmt: skip
    text = says(judge.examine(one, lambda x: abs(x) * (1 + 2e-5)))
    assert text == "x=1.5: expected 1.5, got 1.50003"


# --------------------------------------------------------------------------------- torch answers


def ppo_loss(ac, batch, clip_ratio, ent_coef=0.0, change=lambda loss, info: (loss, info)):
    """A right answer to ppo.loss_pi, written independently of the library."""
    pi, logp = ac.pi(batch["obs"], batch["act"])
    ratio = (logp - batch["logp"]).exp()
    bound = torch.where(batch["adv"] > 0, 1 + clip_ratio, 1 - clip_ratio) * batch["adv"]
    ent = pi.entropy()
    ent = (ent if ent.ndim == 1 else ent.sum(-1)).mean()
    info = {
        "KL": (ratio - 1 - (logp - batch["logp"])).mean(),
        "Entropy": ent,
        "ClipFrac": ((ratio < 1 - clip_ratio) | (ratio > 1 + clip_ratio)).double().mean(),
    }
    return change(-torch.minimum(ratio * batch["adv"], bound).mean() - ent_coef * ent, info)


def ppo_but(change):
    return lambda *args: ppo_loss(*args, change=change)


def test_an_independent_right_loss_passes():
    assert judge.examine(LOSS, ppo_loss)


def test_logged_numbers_may_be_plain_numbers():
    assert judge.examine(LOSS, ppo_but(lambda l, i: (l, {k: float(x) for k, x in i.items()})))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda l, i: (l.item(), i), "loss_pi should be a tensor, not a number"),
        (lambda l, i: (l.detach().numpy(), i), "an array has no gradient"),
        (lambda l, i: (l.detach(), i), "the result has no gradient"),
        (lambda l, i: l, "should return loss_pi and info, not a tensor alone"),
        (lambda l, i: None, "should return loss_pi and info, but it returned None"),
        (lambda l, i: (l, {"KL": i["KL"]}), "info['Entropy'] is missing"),
        (lambda l, i: (l[None], i), "loss_pi should have the shape [], not [1]"),
        (lambda l, i: (-l, i), "ratio=[1.1], adv=[1.0], clip_ratio=0.2: loss_pi: expected -1.1"),
    ],
)
def test_what_a_loss_must_be(change, sentence):
    assert sentence in says(judge.examine(LOSS, ppo_but(change)))


def test_right_values_with_wrong_gradients_are_wrong():
    def answer(ac, batch, clip_ratio, ent_coef):
        loss, info = ppo_loss(ac, batch, clip_ratio, ent_coef)
        return loss.detach() + 0.5 * (loss - loss.detach()), info

    result = judge.examine(LOSS, answer)
    assert result.checks[-1].name == "gradients"
    assert "the gradient with respect to ac.pi.logits" in says(result)


def test_a_loss_must_not_call_backward():
    def answer(ac, batch, clip_ratio, ent_coef):
        ppo_loss(ac, batch, clip_ratio, ent_coef)[0].backward()
        return ppo_loss(ac, batch, clip_ratio, ent_coef)

    assert "changes the gradient of ac.pi.logits" in says(judge.examine(LOSS, answer))


def test_the_example_of_the_documentation():
    """A bad action that has become more likely is not clipped."""

    def clipped_only(ac, batch, clip_ratio, ent_coef):
        _, logp = ac.pi(batch["obs"], batch["act"])
        ratio = (logp - batch["logp"]).exp().clamp(1 - clip_ratio, 1 + clip_ratio)
        _, info = ppo_loss(ac, batch, clip_ratio, ent_coef)
        return -(ratio * batch["adv"]).mean() - ent_coef * info["Entropy"], info

    result = judge.examine(LOSS, clipped_only)
    assert "ratio=[1.5], adv=[-1.0], clip_ratio=0.2: loss_pi: expected 1.5, got 1.2" in str(result)
    assert result.misconception == "clipped-only"
    assert "ppo.loss_pi: not right yet.\nNext: spinup exercise hint ppo.loss_pi" in str(result)


# ------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("answer", "name", "sentence"),
    [
        (wrap(lambda out: -out), "sign", "wrong sign"),
        (wrap(lambda out: 3 * out), "factor", "3 times the right one"),
    ],
)
def test_mistakes_that_can_be_made_anywhere_are_named(answer, name, sentence):
    result = judge.examine(SUMS, answer)
    assert result.misconception == name and sentence in result.story


def test_a_known_mistake_is_named_although_special_cases_fail_as_well():
    def past(x, discount):
        out = [x[0]]  # fails for no rewards at all
        for value in x[1:]:
            out.append(value + discount * out[-1])
        return np.array(out, dtype=np.float64)

    result = judge.examine(SUMS, past)
    assert result.misconception == "past-for-future"
    assert result.story.startswith("In most cases")


def test_a_sum_over_the_batch_is_recognized():
    kl = dataclasses.replace(tasks.find("tools.approx_kl"), wrong=())
    result = judge.examine(kl, lambda old, new: ((new - old).exp() - 1 - new + old).sum())
    assert result.misconception == "sum-for-mean"


def test_one_of_two_mistakes_is_named():
    """The KL has a mistake that is known, and the entropy one that is not."""

    def answer(ac, batch, clip_ratio, ent_coef):
        _, logp = ac.pi(batch["obs"], batch["act"])
        loss, info = ppo_loss(ac, batch, clip_ratio, ent_coef)
        back = batch["logp"] - logp
        return loss, {**info, "KL": (back.exp() - 1 - back).mean(), "Entropy": 17 + info["Entropy"]}

    result = judge.examine(LOSS, answer)
    assert result.misconception == "kl-reversed"
    assert result.story.startswith("Your info['KL'] equals this one")


def test_a_difference_that_nobody_has_named_has_no_name():
    result = judge.examine(SUMS, wrap(lambda out: out + 0.25))
    assert result.exit_code == WRONG and result.misconception is None and result.story == ""


def test_an_edit_that_does_not_fit_the_reference_is_a_fault_of_ours():
    from spinup_lab.exercises.mistakes import known_mistake

    with pytest.raises(ValueError, match="occurs 0 times"):
        known_mistake(SUMS, Wrong("x", "x", edits=(("no such text", ""),)))


def test_a_mutant_of_the_zoo_can_be_a_known_mistake():
    from spinup_lab.exercises.mistakes import known_mistake

    wrong = known_mistake(tasks.find("tools.gae"), Wrong("x", "x", "zoo:gae-lambda-ignored"))
    adv, _ = wrong(np.ones(3), np.zeros(3), 0.0, 0.5, 0.5)
    np.testing.assert_allclose(adv, [1.75, 1.5, 1.0])  # as if lam were 1


# ------------------------------------------------------------------------------------ time limit


def test_an_endless_loop_ends_and_names_its_line(monkeypatch):
    monkeypatch.setattr(judge, "SECONDS", 0.2)

    def endless(x, discount):
        while True:
            with contextlib.suppress(Exception):  # as a learner's code may do
                time.sleep(0.01)

    result = judge.examine(SUMS, endless)
    assert result.exit_code == CANNOT_JUDGE
    assert "was still running after 0.2 seconds" in str(result)
    assert "test_judge.py:  time.sleep(0.01)" in str(result)


def test_the_limit_does_not_count_the_search_for_a_mistake(monkeypatch):
    """On a busy machine, that may take longer than the answer itself."""
    monkeypatch.setattr(judge, "SECONDS", 2.0)

    def slow(*_):
        time.sleep(2.2)
        return None, ""

    monkeypatch.setattr(judge, "misconception", slow)
    assert judge.examine(SUMS, lambda x, discount: x).exit_code == WRONG


# ------------------------------------------------------------------------------ a learner's file


@pytest.fixture
def file(tmp_path):
    return tmp_path / "exercise.py"


GOOD = """
import numpy as np

def discount_cumsum(x, discount):
    out, total = np.zeros(len(x)), 0.0
    for t in reversed(range(len(x))):
        total = x[t] + discount * total
        out[t] = total
    return out
"""


def test_a_file_is_judged_in_a_process_of_its_own_and_may_print(file):
    file.write_text(f"print('hello\\x1b[31m')\n{GOOD}\nfor i in range(100): print(i)\n")
    result = SUMS.check(file)
    assert result.exit_code == RIGHT
    shown = result.output.splitlines()
    assert shown[0] == r"hello\x1b[31m" and shown[-1] == "..." and len(shown) == 11
    assert "Your code printed:\n  | hello" in str(result)


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("def discount_cumsum(x, discount)\n    return x\n", "exercise.py, line 1: expected ':'"),
        ("import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("x = 1\n", "exercise.py does not define discount_cumsum"),
        ("", "exercise.py does not define discount_cumsum"),
        ("import sys\nsys.exit(3)\n", "exercise.py calls exit() when it is loaded"),
        ("a = 1\nb = a / 0\n", "line 2 of exercise.py:  b = a / 0"),
        ("x = '\\xff", "line 1: unterminated string literal"),
    ],
)
def test_a_file_that_cannot_be_judged_says_why(file, source, sentence, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    file.write_text(source)
    result = child.load_and_judge(SUMS, file, 0)
    assert result.exit_code == CANNOT_JUDGE and result.checks[-1].passed is False
    assert sentence in result.checks[-1].text
    assert result.next == "spinup exercise check tools.discount_cumsum"


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("import os\nos._exit(0)\n", "ended the program (with exit code 0) before it was judged"),
        ("x = input()\n", "it raised EOFError: EOF when reading a line\nline 1 of exercise.py"),
    ],
)
def test_a_file_that_ends_or_waits_does_neither_here(file, source, sentence):
    file.write_text(source)
    result = SUMS.check(file)
    assert result.exit_code == CANNOT_JUDGE and sentence in result.checks[-1].text


def test_a_file_cannot_change_what_is_right(file):
    """Settings of NumPy and torch, and even the library's own function."""
    change = (
        "import spinup.algos.common.returns as ours\n"
        "ours.discount_cumsum = lambda x, discount: x * 0.0\n"
    )
    file.write_text(f"{change}{GOOD}")
    assert SUMS.check(file).exit_code == RIGHT


def test_a_file_may_import_another_one_beside_it(file, tmp_path):
    (tmp_path / "my_helpers.py").write_text(GOOD)
    file.write_text("from my_helpers import discount_cumsum\n")
    assert SUMS.check(file).exit_code == RIGHT


def test_an_endless_loop_that_prints_is_ended(file, monkeypatch):
    """Nothing can catch this one, and its output does not fill the memory."""
    monkeypatch.setattr(child, "SECONDS", 1)
    lines = [
        "while True:",
        "    try:",
        "        print('again ' * 1000)",
        "    except BaseException:",
    ]
    file.write_text("\n".join([*lines, "        pass"]))
    result = SUMS.check(file)
    assert result.exit_code == CANNOT_JUDGE
    assert "exercise.py was still running after 1 seconds" in result.checks[-1].text
    assert "line 3:  print('again ' * 1000)" in result.checks[-1].text
    assert len(result.output) < 2000


# ------------------------------------------------------------------------------------- notebooks


def test_check_judges_a_function_of_a_notebook(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = spinup.exercises.check("tools.discount_cumsum", discount_cumsum)
    assert result.passed and result.next == "spinup exercise start tools.gae"
    assert list(tmp_path.iterdir()) == []  # nothing is written without a folder of exercises
    assert result._repr_markdown_().startswith("**tools.discount_cumsum: right.**")
    (tmp_path / "spinup-exercises").mkdir()
    assert not spinup.exercises.check("tools.discount_cumsum", lambda x, discount: x)
    assert '"attempts": 1' in (tmp_path / "spinup-exercises" / "progress.json").read_text()
    with pytest.raises(SpinupError, match="judged by its files"):
        spinup.exercises.check("original.1.1", None)


def test_hint_returns_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number in (1, 2, 3, 3):
        assert spinup.exercises.hint("tools.gae").startswith(f"Hint {number} of 3")
    assert spinup.exercises.hint("tools.gae", 1).startswith("Hint 1 of 3 (the idea):")
    with pytest.raises(SpinupError, match="hints 1 to 3, not 4"):
        spinup.exercises.hint("tools.gae", 4)


def test_importing_the_exercises_is_cheap():
    code = (
        "import sys, time; from spinup.exercises import check, hint\n"
        "import spinup_lab.exercises.tasks as c; assert len(c.load()) > 20\n"
        "print('torch' in sys.modules, 'gymnasium' in sys.modules)"
    )
    done = run_python("-c", code)
    assert done.stdout == "False False\n"


def test_numbers_agree_where_numpy_says_so():
    task = tasks.find("tools.gae")
    special = np.array([0, 1, -1, 1e-7, 1 + 1e-6, np.nan, np.inf, -np.inf, 1e300, 5.0])
    expected, got = (x.ravel() for x in np.meshgrid(special, special))
    right = np.isclose(got, expected, rtol=task.rtol, atol=task.atol, equal_nan=True)
    assert (close(task, expected, got) == right).all() and 0 < right.sum() < right.size

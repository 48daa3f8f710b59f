"""Quizzes: five questions per set, with a reason for every choice.

    spinup exercise quiz 5                      asks, in a terminal
    spinup exercise quiz 5 --answers abcda      judges all five answers at once

The questions are in the file of the set, such as `sets/set05_ddpg.toml`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from spinup.utils.errors import SpinupError, printable
from spinup_lab.exercises import content
from spinup_lab.exercises.exercise import wrapped

LETTERS = "abcdef"


@dataclass(frozen=True)
class Choice:
    """One answer to a question, and why it is right or wrong."""

    text: str
    why: str
    right: bool = False


@dataclass(frozen=True)
class Question:
    """A question; exactly one of its choices is right."""

    text: str
    choices: tuple[Choice, ...]

    @property
    def answer(self) -> str:
        """The letter of the right choice."""
        return next(letter for letter, c in zip(LETTERS, self.choices, strict=False) if c.right)

    @property
    def letters(self) -> str:
        """The letters of all choices."""
        return LETTERS[: len(self.choices)]


def load(number: int) -> tuple[Question, ...]:
    """Return the questions of a set."""
    (path,) = content.FOLDER.glob(f"set{number:02d}_*.toml")
    return tuple(
        _question(f"{path.name}: question {i}", table)
        for i, table in enumerate(content.read(path).get("quiz", ()), start=1)
    )


def _question(where: str, table: Any) -> Question:
    given = content.as_table(where, table)
    choices = tuple(content.filled(Choice, where, choice) for choice in given.get("choices", ()))
    question: Question = content.filled(Question, where, {**given, "choices": choices})
    if [choice.right for choice in choices].count(True) != 1:
        raise SpinupError(f"{where} should have one choice with 'right = true'")
    return question


def command(args: argparse.Namespace) -> int:
    """Run `spinup exercise quiz SET`: 0 if all answers are right, 1 if one is wrong."""
    from spinup_lab.exercises.progress import Progress
    from spinup_lab.exercises.tasks import SETS, set_number

    number = set_number(args.set)
    questions = load(number)
    progress = Progress(args.dir)
    progress.read()  # damaged: say so before the first question
    print(f"Quiz on set {number}, {SETS[number]}: {len(questions)} questions.")
    if args.answers is not None:
        answers = _given(args.answers, questions)
        right = sum(_judge(i, q, answers[i]) for i, q in enumerate(questions))
    elif sys.stdin.isatty():
        try:
            right = sum(_judge(i, q, _ask(i, q, input)) for i, q in enumerate(questions))
        except (EOFError, KeyboardInterrupt):
            print("\nThe quiz was left, and nothing is recorded.")
            return 1
    else:
        raise SpinupError(
            "nobody can be asked here, because the input is not a terminal: pass --answers with "
            f"one letter per question, such as --answers {'a' * len(questions)}"
        )
    print(f"\n{right} of {len(questions)} right.")
    _record(progress, number, right, len(questions))
    return 0 if right == len(questions) else 1


def _given(text: str, questions: Sequence[Question]) -> str:
    """Return the letters of `--answers`, or raise an error that says what is wrong with them."""
    letters = "".join(text.replace(",", " ").split()).lower()
    if len(letters) != len(questions):
        raise SpinupError(
            f"--answers needs one letter for each of the {len(questions)} questions, not "
            f"{len(letters)}: '{printable(text)}'"
        )
    for i, (letter, question) in enumerate(zip(letters, questions, strict=True)):
        if letter not in question.letters:
            raise SpinupError(
                f"question {i + 1} has the choices {', '.join(question.letters)}, not "
                f"'{printable(letter)}'"
            )
    return letters


def _ask(i: int, question: Question, ask: Callable[[str], str]) -> str:
    """Print a question and return the letter of the answer."""
    print(f"\n{wrapped(f'{i + 1}. {question.text}', rest='   ')}")
    for letter, choice in zip(LETTERS, question.choices, strict=False):
        print(wrapped(f"   {letter}) {choice.text}", rest="      "))
    while True:
        letter = ask("Your answer: ").strip().lower()
        if letter and letter in question.letters and len(letter) == 1:
            return letter
        print(f"Type one of {', '.join(question.letters)}.")


def _judge(i: int, question: Question, letter: str) -> bool:
    """Print whether an answer is right, and why; return whether it is."""
    choice = question.choices[LETTERS.index(letter)]
    if choice.right:
        print(wrapped(f"{i + 1}{letter}: right. {choice.why}", rest="    "))
        return True
    print(wrapped(f"{i + 1}{letter}: WRONG ({choice.text}). {choice.why}", rest="    "))
    return False


def _record(progress: Any, number: int, right: int, questions: int) -> None:
    """Record the result, if there is a folder of exercises."""
    from spinup_lab.exercises.progress import now

    if not progress.folder.is_dir():
        return

    def change(entry: dict[str, Any]) -> None:
        entry["attempts"] = entry.get("attempts", 0) + 1
        entry["quiz"] = {"right": right, "questions": questions}
        if right == questions:
            entry.setdefault("passed", now())

    progress.update(f"quiz.{number}", change)

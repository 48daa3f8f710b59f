"""Kind B: find the bug. The learner gets a function with a fault from the zoo, and must mend it.

Some bugs come with the logs of three healthy and three faulty runs: then the learner also says what
the faulty logs show. The others ask which part of an algorithm the fault is in. Nothing is trained;
the function is compared with the library's on the battery of the exercise in which it is written.
"""

from __future__ import annotations

import ast
import random
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

from spinup_lab import bugs as zoo
from spinup_lab.bugs.catalogue import healthy_source
from spinup_lab.exercises import recorded
from spinup_lab.exercises.exercise import CANNOT_JUDGE, PARTS, WRONG, Check, Exercise, Result, Wrong

LETTERS = "abcd"
NAME = "ANSWER"  # the variable with the answer to the question


@dataclass(frozen=True)
class Log:
    """What the logs of the faulty runs show, and what they do not show.

    Attributes:
        runs: name of the recorded healthy runs, such as "healthy-ppo"; the faulty ones are recorded
            under "bug-" and the name of the mutant.
        symptom: what distinguishes the faulty runs.
        others: three things that cannot be seen in them.
    """

    runs: str
    symptom: str
    others: tuple[str, str, str]


@dataclass(frozen=True)
class Fault:
    """What is wrong with a function: a mutant of the zoo, or a known mistake of an exercise."""

    title: str
    story: str
    part: str
    hints: tuple[str, str, str]
    mutant: str = ""
    edits: tuple[tuple[str, str], ...] = ()

    def applied(self, module: str, name: str) -> Excerpt:
        """Return the function with the fault, and its imports."""
        if self.mutant:
            return excerpt(zoo.source(self.mutant, module), module, name)
        return excerpt(healthy_source(module), module, name, self.edits)


def mutant(name: str) -> Fault:
    """Return a fault of the zoo."""
    found = zoo.find(name)
    return Fault(found.title, found.story, found.part, found.hints, mutant=name)


def mistake(exercise: Exercise, name: str, part: str) -> Fault:
    """Return a known mistake of an exercise as a fault; its hints are those of the exercise."""
    (wrong,) = (wrong for wrong in exercise.wrong if wrong.name == name)
    title = name.replace("-", " ")
    return Fault(title, wrong.story, part, exercise.hints, edits=wrong.edits)


@dataclass(frozen=True, kw_only=True)
class Bug(Exercise):
    """A function with a fault.

    Attributes:
        fault: what is wrong.
        log: the recorded runs and the question about them, or None.
        question, choices, right: what the learner has to answer, and the letter of the answer.
    """

    kind: ClassVar[str] = "B"
    kind_name: ClassVar[str] = "find the bug"

    fault: Fault
    question: str
    choices: tuple[str, ...]
    right: str
    log: Log | None = None

    def files(self) -> dict[str, str]:
        """Return `exercise.py` with the faulty function, `README.md`, and the recorded runs."""
        answers = "\n".join(
            textwrap.fill(
                f"{letter}) {text}", 96, initial_indent="    ", subsequent_indent="       "
            )
            for letter, text in zip(LETTERS, self.choices, strict=False)
        )
        head = (
            f"{self.id}: {self.title}.\n\n{self.task.strip()}\n\n{self.question}\n\n{answers}\n\n"
            f"When you have answered and mended it:  spinup exercise check {self.id}\n"
        )
        quoted = head.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
        source = self.fault.applied(self._module, self.name)
        code = f'"""{quoted}"""\n\n{source.imports}{NAME} = ""  # the letter\n\n\n{source.code}\n'
        found = {"exercise.py": code, "README.md": self.readme()}
        for run in self.runs():
            found.update({f"runs/{name}": content for name, content in run.files()})
        return found

    def runs(self) -> list[recorded.RecordedRun]:
        """Return the recorded runs: healthy and faulty ones."""
        if self.log is None:
            return []
        names = {self.log.runs: "healthy", f"bug-{self.fault.mutant}": "faulty"}
        return [
            replace(run, group=group)
            for name, group in names.items()
            if recorded.exists(name)
            for run in recorded.load(name)
        ]

    @property
    def _module(self) -> str:
        return self.reference.partition(":")[0]

    def readme(self) -> str:
        """Return the task as a Markdown page."""
        answers = "\n".join(
            f"- {letter}) {text}" for letter, text in zip(LETTERS, self.choices, strict=False)
        )
        return (
            f"# {self.id}: {self.title}\n\n{self.task.strip()}\n\n{self.question}\n\n{answers}\n\n"
            f"Write the letter into `{NAME}` in `exercise.py`, and mend the function. Then:\n\n"
            f"```bash\nspinup exercise check {self.id}\nspinup exercise hint {self.id}\n```\n"
        )

    def check(self, file: Path, seed: int = 0) -> Result:
        """Judge the answer to the question and the function."""
        function = super().check(file, seed)
        if function.exit_code == CANNOT_JUDGE:
            return function
        asked = self._judge_answer(_assigned(file))
        checks = (asked, *function.checks)
        if asked.passed and function.passed:
            story = textwrap.fill(self.fault.story, 88)
            told = Check(f"the bug was: {self.fault.title}", True, story)
            return replace(function, checks=(*checks, told))
        hint = f"spinup exercise hint {self.id}"
        return replace(function, exit_code=WRONG, checks=checks, next=hint)

    def _judge_answer(self, answer: Any) -> Check:
        name = "what the runs show" if self.log else "which part is at fault"
        letters = LETTERS[: len(self.choices)]
        if answer is None or answer == "":
            return Check(name, False, f'answer the question: write {NAME} = "{letters[0]}" or so')
        if not isinstance(answer, str) or answer.strip().lower() not in letters:
            text = f"{NAME} should be one of {', '.join(letters)}, not {answer!r}"
            return Check(name, False, text)
        letter = answer.strip().lower()
        if letter == self.right:
            return Check(f"{name}: {letter}", True)
        if self.log:
            text = "look again: compare runs/healthy with runs/faulty, column by column"
        else:
            text = f"not this part ({self.choices[letters.index(letter)]})"
        return Check(f"{name}: {letter}", False, text)

    def solution(self) -> str:
        """Return the answer, what the fault is, and the healthy function."""
        answer = self.choices[LETTERS.index(self.right)]
        parts = [
            f'{NAME} = "{self.right}": {answer}',
            textwrap.fill(f"The bug: {self.fault.title}. {self.fault.story}", 88),
            super().solution(),
        ]
        return "\n\n".join(parts)


def make_bug(exercise: Exercise, number: int, fault: Fault, log: Log | None = None) -> Bug:
    """Return the bug exercise that starts from a fault in the function of another exercise."""
    shared = {f.name: getattr(exercise, f.name) for f in fields(Exercise)}
    id_ = f"{exercise.id}.bug{number}"
    if log is not None:
        choices, right = _shuffled(id_, log.symptom, log.others)
        question = f"What do the faulty runs show? Write the letter into {NAME}."
        task = RECORDED.format(name=exercise.name)
    else:
        near = (fault.part, "hyperparameters", *NEAR.get(fault.part, ()))
        others = [part for part in zoo.PARTS if part not in near]
        parts = (fault.part, *random.Random(id_).sample(others, 3))
        right_text, *rest = (f"{part}: {zoo.PARTS[part]}" for part in parts)
        choices, right = _shuffled(id_, right_text, rest)
        question = f"Which part of the algorithm is the fault in? Write the letter into {NAME}."
        task = UNRECORDED.format(name=exercise.name)
    story = "The function still does what it did when you started."
    given = Wrong(
        "unchanged",
        story,
        function=f"zoo:{fault.mutant}" if fault.mutant else None,
        edits=fault.edits,
    )
    shared.update(
        id=id_,
        title=f"find the bug in {exercise.name}{f' ({number})' if number > 1 else ''}",
        minutes=15,
        difficulty=min(5, max(2, exercise.difficulty)),
        task=task,
        stub="",
        hints=fault.hints,
        wrong=(given, *exercise.wrong),
    )
    return Bug(**shared, fault=fault, log=log, choices=choices, right=right, question=question)


# Parts that a reader could also call the fault's part: they are not offered as wrong answers.
NEAR = {
    "returns": ("episode-ends", "value-loss", "replay", "normalizer"),
    "episode-ends": ("returns", "replay", "value-loss", "loop", "environment"),
    "policy-loss": ("policy-step", "exploration", "action-bounds"),
    "policy-step": ("policy-loss", "loop"),
    "value-loss": ("targets", "returns", "exploration"),
    "targets": ("value-loss",),
    "exploration": ("policy-loss", "action-bounds"),
    "action-bounds": ("exploration", "policy-loss", "value-loss"),
    "replay": ("loop", "episode-ends", "returns", "value-loss"),
    "loop": ("replay", "environment", "episode-ends"),
    "logging-saving": ("policy-step", "loop"),
}

RECORDED = """
There is a fault in `{name}` below. The folder `runs` has the logs of three healthy
runs and of three runs with this fault: read `progress.txt`, or draw columns, in this folder, with

    spinup plot runs/healthy runs/faulty --value AverageEpRet

1. Answer the question: what distinguishes the faulty runs?
2. Mend the function. It is right when it equals the library's in every case. Nothing is trained.
"""
UNRECORDED = """
There is a fault in `{name}` below.

1. Answer the question: which part of an algorithm is it?
2. Mend the function. It is right when it equals the library's in every case. Nothing is trained.
"""


def _shuffled(seed: str, right: str, others: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Return the choices in an order that depends on a name, and the letter of the right one."""
    choices = [right, *others]
    random.Random(f"order of {seed}").shuffle(choices)
    return tuple(choices), LETTERS[choices.index(right)]


def _assigned(file: Path) -> Any:
    """Return the constant that a file assigns to ANSWER, or None."""
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            if NAME in names:
                return node.value.value
    return None


# ---------------------------------------------------------------------------------- part of a file


@dataclass(frozen=True)
class Excerpt:
    """A function, and the imports that it needs."""

    imports: str
    code: str


def excerpt(source: str, module: str, name: str, edits: Sequence[tuple[str, str]] = ()) -> Excerpt:
    """Take one function or class out of the source of a module, and edit it."""
    tree, names = ast.parse(source), (*PARTS.get(name, ()), name)
    text = source.splitlines()
    code = "\n\n\n".join(
        "\n".join(text[_first_line(node) - 1 : node.end_lineno])
        for node in tree.body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name in names
    )
    for old, new in edits:
        code = code.replace(old, new)
    used = {n.id for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Name)}
    lines, local = [], []
    for other in tree.body:
        if isinstance(other, (ast.Import, ast.ImportFrom)):
            other.names = [a for a in other.names if (a.asname or a.name.split(".")[0]) in used]
            if other.names:
                lines.append(ast.unparse(other))
        elif isinstance(other, (ast.FunctionDef, ast.ClassDef)):
            if other.name in used and other.name not in names:
                local.append(other.name)
        elif isinstance(other, ast.Assign):
            targets = [t for target in other.targets for t in ast.walk(target)]
            local += [t.id for t in targets if isinstance(t, ast.Name) and t.id in used]
    if local:
        lines.append(f"from {module} import {', '.join(local)}")
    return Excerpt("\n".join(lines) + "\n\n" if lines else "", code)


def _first_line(node: ast.FunctionDef | ast.ClassDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])

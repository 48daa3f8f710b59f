"""Kind B: find the bug. The learner gets a function with a fault from the zoo, and must mend it.

Some bugs come with the logs of three healthy and three faulty runs: then the learner also says what
the faulty logs show. The others ask which part of an algorithm the fault is in. Nothing is trained;
the function is compared with the library's on the battery of the exercise in which it is written.
"""

from __future__ import annotations

import ast
import random
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

from spinup.utils.errors import SpinupError, nearest
from spinup_lab import bugs as zoo
from spinup_lab.bugs.mutants import healthy_source
from spinup_lab.exercises import content, recorded
from spinup_lab.exercises.exercise import (
    CANNOT_JUDGE,
    PARTS,
    WRONG,
    Check,
    Exercise,
    Result,
    Task,
    Wrong,
    docstring,
    wrapped,
)

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


@dataclass(frozen=True)
class _Asked:
    """What a learner is asked."""

    question: str
    task: str


@dataclass(frozen=True)
class _File:
    """What `bugs.toml` says; the comments there explain it."""

    unchanged: str
    recorded: Mapping[str, Any]
    unrecorded: Mapping[str, Any]
    near: Mapping[str, Any]
    faults: Mapping[str, Any]
    logs: Mapping[str, Any]

    def asked(self, recorded: bool) -> _Asked:
        """Return the question about a bug with logs, or about one without."""
        name = "recorded" if recorded else "unrecorded"
        return content.filled(_Asked, f"bugs.toml: [{name}]", getattr(self, name))


def read(path: Path, exercises: Mapping[str, Task]) -> dict[str, Bug]:
    """Return the bugs that a file describes in functions of other exercises."""
    texts: _File = content.filled(_File, path.name, content.read(path))
    logs = {
        name: content.filled(Log, f"{path.name}: [logs.{name}]", table)
        for name, table in texts.logs.items()
    }
    for name, log in logs.items():  # in the words of the log that shows it
        others = tuple(logs[x].symptom if x in logs else x for x in log.others)
        logs[name] = replace(log, others=others)
    found: dict[str, Bug] = {}
    for id_, faults in texts.faults.items():
        exercise = exercises.get(id_)
        if not isinstance(exercise, Exercise):
            raise SpinupError(f"{path.name}: there is no function {id_!r}{nearest(id_, exercises)}")
        for number, given in enumerate(faults, start=1):
            fault = _fault(f"{path.name}: {id_}", exercise, given)
            bug = _bug(exercise, number, fault, logs.get(fault.mutant), texts)
            found[bug.id] = bug
    return found


def _fault(where: str, exercise: Exercise, given: str | Mapping[str, str]) -> Fault:
    """Return a mutant of the zoo, by its id, or a known mistake with the part that it is in."""
    if isinstance(given, str):
        mutant = zoo.find(given)
        return Fault(mutant.title, mutant.story, mutant.part, mutant.hints, mutant=given)
    known = {wrong.name: wrong for wrong in exercise.wrong}
    if content.as_table(where, given).get("mistake") not in known or "part" not in given:
        raise SpinupError(f"{where}: {given} should have a known 'mistake' of it, and its 'part'")
    wrong = known[given["mistake"]]
    title = wrong.name.replace("-", " ")
    return Fault(title, wrong.story, given["part"], exercise.hints, edits=wrong.edits)


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
            f"{self.id}: {self.title}.\n\n{self.task}\n\n{self.question}\n\n{answers}\n\n"
            f"When you have answered and mended it:  spinup exercise check {self.id}\n"
        )
        source = self.fault.applied(self.reference.partition(":")[0], self.name)
        code = (
            f'{docstring(head)}\n\n{source.imports}{NAME} = ""  # the letter\n\n\n{source.code}\n'
        )
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

    def readme(self) -> str:
        """Return the task as a Markdown page."""
        answers = "\n".join(
            f"- {letter}) {text}" for letter, text in zip(LETTERS, self.choices, strict=False)
        )
        return (
            f"# {self.id}: {self.title}\n\n{self.task}\n\n{self.question}\n\n{answers}\n\n"
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
            story = wrapped(self.fault.story)
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
            wrapped(f"The bug: {self.fault.title}. {self.fault.story}"),
            super().solution(),
        ]
        return "\n\n".join(parts)


def _bug(exercise: Exercise, number: int, fault: Fault, log: Log | None, texts: _File) -> Bug:
    """Return the bug exercise that starts from a fault in the function of another exercise."""
    shared = {f.name: getattr(exercise, f.name) for f in fields(Exercise)}
    id_ = f"{exercise.id}.bug{number}"
    if log is not None:
        choices = [log.symptom, *log.others]
    else:
        near = (fault.part, "hyperparameters", *texts.near.get(fault.part, ()))
        others = [part for part in zoo.PARTS if part not in near]
        parts = (fault.part, *random.Random(id_).sample(others, 3))
        choices = [f"{part}: {zoo.PARTS[part]}" for part in parts]
    right = choices[0]
    random.Random(f"order of {id_}").shuffle(choices)
    asked = texts.asked(recorded=log is not None)
    function = f"zoo:{fault.mutant}" if fault.mutant else ""
    given = Wrong("unchanged", texts.unchanged, function, fault.edits)
    shared.update(
        id=id_,
        title=f"find the bug in {exercise.name}{f' ({number})' if number > 1 else ''}",
        minutes=15,
        difficulty=min(5, max(2, exercise.difficulty)),
        task=asked.task.format(name=exercise.name),
        stub="",
        hints=fault.hints,
        wrong=(given, *exercise.wrong),
    )
    return Bug(
        **shared,
        fault=fault,
        log=log,
        choices=tuple(choices),
        right=LETTERS[choices.index(right)],
        question=asked.question,
    )


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

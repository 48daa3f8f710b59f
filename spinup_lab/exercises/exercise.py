"""What an exercise is, and what judging it returns. Importing this module imports no framework.

A `Task` is what the command line handles: it has files to start from, hints, a judge and a
solution. `Exercise` is the kind in which a learner writes a function; other kinds (find the bug,
experiments) are further subclasses of `Task`. The files in `sets` describe them: see `content.py`.
"""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

RIGHT, WRONG, CANNOT_JUDGE = 0, 1, 2  # exit codes
PLAIN = "spinup_lab.exercises.exercise:plain"


class NotYetWritten(NotImplementedError):
    """Raised by a stub; its message is the name of the function that is still to be written."""


class Difference(Exception):
    """How an answer differs from the right one; the message is for the learner.

    `Exercise.call` may raise it, if what a function returned cannot be used.
    """


# ------------------------------------------------------------------------------- what a judge says


@dataclass(frozen=True)
class Check:
    """One line of a verdict: what was compared, and the first difference if there was one."""

    name: str
    passed: bool
    text: str = ""


@dataclass(frozen=True)
class Result:
    """A verdict. `print` shows it in a terminal, and a notebook shows it as Markdown.

    Attributes:
        id: the exercise.
        exit_code: 0 if the answer is right, 1 if it is wrong, 2 if it cannot be judged.
        checks: what was compared, in order; the last one failed unless the answer is right.
        misconception: name of the known mistake that the answer equals, or None.
        story: what that mistake is, in one or two sentences.
        output: what the answer printed, shortened.
        next: the command that may help now.
    """

    id: str
    exit_code: int
    checks: tuple[Check, ...] = ()
    misconception: str | None = None
    story: str = ""
    output: str = ""
    next: str = ""

    @property
    def passed(self) -> bool:
        """Whether the answer is right."""
        return self.exit_code == RIGHT

    def __bool__(self) -> bool:
        return self.passed

    @property
    def verdict(self) -> str:
        """The verdict in one sentence."""
        return {
            RIGHT: f"{self.id}: right.",
            WRONG: f"{self.id}: not right yet.",
            CANNOT_JUDGE: f"{self.id}: this could not be judged.",
        }[self.exit_code]

    def __str__(self) -> str:
        lines = []
        if self.output:
            lines += ["Your code printed:", textwrap.indent(self.output, "  | "), ""]
        for check in self.checks:
            lines.append(f"  {'ok   ' if check.passed else 'WRONG'} {check.name}")
            if check.text:
                lines.append(textwrap.indent(check.text, " " * 8))
        if self.checks:
            lines.append("")
        if self.misconception:
            story = wrapped(self.story, "  ", "  ")
            lines += [f"A known mistake ({self.misconception}):", story, ""]
        lines.append(self.verdict)
        if self.next:
            lines.append(f"Next: {self.next}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_markdown_(self) -> str:
        lines = [f"**{self.verdict}**", ""]
        for check in self.checks:
            lines.append(f"- {'✓' if check.passed else '✗'} {check.name}")
            if check.text:
                lines += ["", "  ```text", textwrap.indent(check.text, "  "), "  ```", ""]
        if self.misconception:
            lines += ["", f"A known mistake (*{self.misconception}*): {self.story}"]
        if self.next:
            lines += ["", f"Next: `{self.next}`"]
        return "\n".join(lines)


def wrapped(text: str, first: str = "", rest: str = "") -> str:
    """Return a paragraph in lines for a terminal, with these indents."""
    return textwrap.fill(text, 88, initial_indent=first, subsequent_indent=rest)


# ------------------------------------------------------------------------------------------ tasks


@dataclass(frozen=True, kw_only=True)
class Task:
    """What all kinds of exercises have, and what the command line asks of them.

    Attributes:
        id: stable name, such as "ppo.loss_pi". It is also the name of the learner's folder.
        title: what it is, in a few words.
        set: number of the problem set, 0 to 11.
        minutes: how long it takes about.
        difficulty: from 1 (easy) to 5.
        task: Markdown that says what to do: it becomes `README.md` and the docstring.
        hints: idea, formula, almost code.
        algorithms: those to which it belongs.
        page: the page of the documentation to read, such as "algorithms/ppo".
    """

    kind: ClassVar[str] = ""  # one letter for the list: F, B, E, ...
    kind_name: ClassVar[str] = ""

    id: str
    title: str
    set: int
    minutes: int
    difficulty: int
    task: str
    hints: tuple[str, str, str]
    algorithms: tuple[str, ...] = ()
    page: str = ""

    @property
    def file(self) -> str:
        """Name of the file in the learner's folder that `check` judges by default."""
        return "exercise.py"

    def files(self) -> dict[str, str]:
        """Return what `start` writes: file name -> content."""
        raise NotImplementedError

    def check(self, file: Path, seed: int = 0) -> Result:
        """Judge the learner's file. It does not raise for any content of that file."""
        raise NotImplementedError

    def check_object(self, answer: Any, seed: int = 0) -> Result:
        """Judge the answer itself, in a notebook."""
        from spinup.utils.errors import SpinupError

        raise SpinupError(f"{self.id} is judged by its files: spinup exercise start {self.id}")

    def solution(self) -> str:
        """Return the solution as text for a terminal."""
        raise NotImplementedError

    def readme(self) -> str:
        """Return the task as a Markdown page."""
        return (
            f"# {self.id}: {self.title}\n\n{self.task}\n\n"
            f"About {self.minutes} minutes, difficulty {self.difficulty} of 5. Then:\n\n"
            f"```bash\nspinup exercise check {self.id}\nspinup exercise hint {self.id}\n```\n"
        )


@dataclass(frozen=True)
class Case:
    """One call that the answer must make right.

    The judge seeds torch and NumPy and then calls `Exercise.cases` again for every function that it
    runs, so the arguments are always fresh, and a case may use `torch.randn` and `np.random`.

    Attributes:
        name: what is special about it: "a batch of one". The first case is the simplest.
        args, kwargs: the arguments.
        grad: names of the inputs whose gradients are compared: a tensor ("logp"), a module
            ("ac.pi": all its parameters) or an entry of a dict ("batch.adv"). The gradient is that
            of the result, or of its first item if it is a tuple; one that has several elements is
            summed with different weights.
        changes: names of the arguments that the function is asked to change. They are compared
            after the call; all others must be unchanged.
        show: the arguments as a learner should read them, instead of their values.
    """

    name: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    grad: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    show: str = ""


@dataclass(frozen=True)
class Wrong:
    """A known wrong answer and the misconception behind it.

    Attributes:
        name: short and stable, such as "clip-without-adv".
        story: one or two sentences for the learner who made this mistake: what the answer does,
            and why that is wrong. They do not give the right code away.
        function: "zoo:ID" (a mutant of `spinup_lab.bugs`) or "module:function".
        edits: alternatively, pairs (old, new) of text to replace in the source of the reference;
            each `old` occurs exactly once there.
    """

    name: str
    story: str
    function: str = ""
    edits: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Exercise(Task):
    """Kind F: the learner writes a function (or a class), which is compared with the library's.

    Attributes:
        stub: source of `exercise.py` below the docstring: imports, given code, and the function
            that raises `NotYetWritten`.
        name: the function that is judged.
        reference: the right answer, "module:function". It is imported only when needed.
        cases: "module:function" that returns 8 to 20 cases, the simplest first.
        wrong: known misconceptions, at least three.
        returns: names of the items of a tuple that the function returns, for messages.
        shown: further objects that `solution` prints: the lines of the library that the reference
            stands for, if the reference was written for the exercise.
        call: "module:function" for how to call an answer: (function, case) -> what is compared.
            By default, it gets the arguments of the case. For a class or a function that
            returns a function, this does something with what it returned.
        random: whether the answer may draw from torch's or NumPy's global random numbers, which are
            seeded before each call.
        rtol, atol: how far numbers may be off.
    """

    kind: ClassVar[str] = "F"
    kind_name: ClassVar[str] = "write a function"

    stub: str
    name: str
    reference: str
    cases: str
    wrong: tuple[Wrong, ...]
    returns: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    call: str = PLAIN
    random: bool = False
    rtol: float = 1e-5
    atol: float = 1e-6

    def files(self) -> dict[str, str]:
        """Return `exercise.py` and `README.md`."""
        head = f"{self.id}: {self.title}.\n\n{self.task}\n"
        head += f"\nWhen it is written:  spinup exercise check {self.id}\n"
        source = f"{docstring(head)}\n\n{self.stub}\n"
        return {"exercise.py": source, "README.md": self.readme()}

    def check(self, file: Path, seed: int = 0) -> Result:
        """Judge the function in a file, in a process of its own."""
        from spinup_lab.exercises.child import check_file

        return check_file(self, file, seed)

    def check_object(self, answer: Any, seed: int = 0) -> Result:
        """Judge a function in this process."""
        from spinup_lab.exercises.judge import examine

        return examine(self, answer, seed)

    def solution(self) -> str:
        """Return the library's own source, and what else is worth reading beside it."""
        module, _, name = self.reference.partition(":")
        parts = [f"{module}:{part}" for part in PARTS.get(name, ())]
        known = [
            part
            for part in parts
            if hasattr(importlib.import_module(module), part.partition(":")[2])
        ]
        return "\n\n".join(source_of(place) for place in (*known, self.reference, *self.shown))


def docstring(text: str) -> str:
    """Return a text as Python source."""
    text = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return f'"""{text}"""'


def plain(function: Callable[..., Any], case: Case) -> Any:
    """Call a function with the arguments of a case."""
    return function(*case.args, **case.kwargs)


def loss_only(function: Callable[..., Any], case: Case) -> Any:
    """An `Exercise.call` for a function that may return its loss with or without other things."""
    result = plain(function, case)
    return result[0] if isinstance(result, tuple) and result else result


# Functions that an exercise writes, and the library's parts of them: the function with a fault may
# be such a part, so both are shown and both can be mended.
PARTS = {"compute_loss_q": ("compute_target",)}


def resolve(place: str) -> Any:
    """Return the object "module:name" or "module:Class.method"."""
    module, _, name = place.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def source_of(place: str) -> str:
    """Return the source of "module:name", with the place where it is."""
    found = inspect.unwrap(resolve(place))
    lines, start = inspect.getsourcelines(found)
    source = textwrap.dedent("".join(lines)).rstrip()
    return f"# {place.partition(':')[0].replace('.', '/')}.py, line {max(start, 1)}\n{source}"

"""`spinup exercise ...`: learn an algorithm by writing its parts.

Each command is a function that takes the words after its name and returns an exit code: 0 if the
answer is right, 1 if it is wrong, 2 if it cannot be judged or the command is wrong.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from spinup.cli.parsers import command_parser
from spinup.utils.errors import SpinupError, nearest, printable
from spinup_lab.exercises.exercise import Task
from spinup_lab.exercises.progress import (
    Progress,
    default_folder,
    next_hint,
    now,
    recorded,
    state,
)
from spinup_lab.exercises.tasks import SETS, find, load, set_number


def main(argv: Sequence[str] | None = None) -> int:
    """Run one of the commands."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in COMMANDS:
        return COMMANDS[words[0]](words[1:])
    parser = command_parser("exercise", beside=__file__)
    if words and not words[0].startswith("-"):
        raise SpinupError(
            f"'{printable(words[0])}' is not a command of 'spinup exercise': it has "
            f"{', '.join(COMMANDS)}{nearest(words[0], COMMANDS)}"
        )
    parser.parse_args(words)
    parser.print_help()
    return 0


def parsed(command: str, words: Sequence[str]) -> argparse.Namespace:
    """Parse the words after a command; `--dir` is the learner's folder unless it is given."""
    parser = command_parser(f"exercise {command}", beside=__file__)
    parser.set_defaults(dir=default_folder())
    return parser.parse_args(words)


# ------------------------------------------------------------------------------------------- list


def list_(words: Sequence[str]) -> int:
    """Print a table of the exercises."""
    args = parsed("list", words)
    chosen = None if args.set is None else set_number(args.set)
    entries = Progress(args.dir).read()
    table = [task for task in load().values() if chosen in (None, task.set)]
    if not table:
        raise SpinupError(f"set {chosen} has no exercises")
    width = max(len(task.id) for task in table)
    titles = max(len(task.title) for task in table)
    last = None
    for task in table:
        if task.set != last:
            print(f"{'' if last is None else chr(10)}Set {task.set}: {SETS[task.set]}")
            last = task.set
        print(
            f"  {task.id:<{width}}  {task.kind}  {task.minutes:>3} min  "
            f"{'*' * task.difficulty:<5}  {task.title:<{titles}}  "
            f"{state(entries.get(task.id, {}))}"
        )
    kinds = dict.fromkeys((task.kind, task.kind_name) for task in table)
    print(f"\n{'; '.join(f'{kind}: {name}' for kind, name in kinds)}.")
    print("'spinup exercise start ID' writes the files of one.")
    return 0


# ------------------------------------------------------------------------------------------ start


def start(words: Sequence[str]) -> int:
    """Write the files of an exercise; files that exist stay as they are."""
    args = parsed("start", words)
    task = find(args.id)
    folder = Path(args.dir, task.id)
    progress = Progress(args.dir)
    progress.read()  # damaged: say so before anything is written
    if args.again and os.path.lexists(folder):
        aside = _free(folder)
        os.rename(folder, aside)
        print(f"Your files are now in {printable(aside)}.")
    if os.path.lexists(folder / task.file):
        print(f"{printable(folder / task.file)} exists and stays as it is; --again starts anew.")
    for name, content in task.files().items():
        _write_new(folder / name, content)

    def change(entry: dict[str, Any]) -> None:
        entry.setdefault("started", now())

    progress.update(task.id, change)
    print(f"{task.title}: about {task.minutes} minutes, difficulty {task.difficulty} of 5.")
    print(f"Read and edit {printable(folder / task.file)}, then:")
    print(f"    spinup exercise check {_with_dir(task, args.dir)}")
    return 0


def _write_new(path: Path, content: str) -> None:
    """Write a file unless something has this name."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "x", encoding="utf-8") as file:
            file.write(content)
    except FileExistsError:
        if not path.parent.is_dir():
            raise SpinupError(f"{printable(path.parent)} is not a folder: move it away") from None
    except OSError as error:
        raise SpinupError(f"{printable(path)} cannot be written: {error.strerror}") from error


def _free(folder: Path) -> Path:
    number = 1
    while os.path.lexists(folder.with_name(f"{folder.name}.old-{number}")):
        number += 1
    return folder.with_name(f"{folder.name}.old-{number}")


def _with_dir(task: Task, folder: str) -> str:
    return task.id if folder == default_folder() else f"{task.id} --dir {printable(folder)}"


# ------------------------------------------------------------------------------------------ check


def check(words: Sequence[str]) -> int:
    """Judge an answer."""
    args = parsed("check", words)
    task = find(args.id)
    if args.train:
        from spinup_lab.exercises import training

        training.algorithm(task)  # if there is nothing to show, say so first
    progress = Progress(args.dir)
    progress.read()
    file = Path(args.file) if args.file else Path(args.dir, task.id, task.file)
    if not file.is_file():
        start_it = f": 'spinup exercise start {_with_dir(task, args.dir)}' writes it"
        raise SpinupError(f"there is no file {printable(file)}{'' if args.file else start_it}")
    result = recorded(task, task.check(file, args.seed), progress, file)
    if args.dir != default_folder() and result.next:
        result = replace(result, next=f"{result.next} --dir {printable(args.dir)}")
    print(result)
    if args.train:
        if any(check.passed for check in result.checks):
            training.demonstrate(task, file, args.seed, result)
        else:
            print("Nothing was trained: a run needs an answer that passes the first check.")
    return result.exit_code


# ------------------------------------------------------------------------- hint, solution, progress


def hint(words: Sequence[str]) -> int:
    """Print the next hint."""
    args = parsed("hint", words)
    print(next_hint(find(args.id), Progress(args.dir)))
    return 0


def solution(words: Sequence[str]) -> int:
    """Print the library's code, after asking once."""
    args = parsed("solution", words)
    task = find(args.id)
    progress = Progress(args.dir)
    entry = progress.entry(task.id)
    sure = args.yes or "passed" in entry or "solution_seen" in entry or not sys.stdin.isatty()
    if not sure and input("Show the solution? It will be recorded. [y/N] ").lower() not in (
        "y",
        "yes",
    ):
        print(f"Not shown. A hint may be enough: spinup exercise hint {task.id}")
        return 0
    text = task.solution()

    def change(entry: dict[str, Any]) -> None:
        entry.setdefault("solution_seen", now())

    progress.update(task.id, change)
    print(text)
    if task.page:
        print(f"\nRead more: spinup docs {task.page}")
    return 0


def progress(words: Sequence[str]) -> int:
    """Print what has been passed."""
    args = parsed("progress", words)
    record = Progress(args.dir)
    entries = record.read()
    if args.json:
        print(json.dumps({"exercises": entries}, indent=2, ensure_ascii=False))
        return 0
    print(f"{'set':<15} {'passed':>8} {'tried':>6} {'hints':>6} {'solutions seen':>15} {'quiz':>5}")
    for number, name in SETS.items():
        ids = [task.id for task in load().values() if task.set == number]
        found = [entries.get(id_, {}) for id_ in ids]
        if ids:
            passed = sum("passed" in entry for entry in found)
            tried = sum(bool(entry.get("attempts")) for entry in found)
            hints = sum(entry.get("hints", 0) for entry in found)
            seen = sum("solution_seen" in entry for entry in found)
            quiz = entries.get(f"quiz.{number}", {}).get("quiz", {})
            score = f"{quiz.get('right', '?')}/{quiz.get('questions', '?')}" if quiz else "-"
            counts = f"{f'{passed}/{len(ids)}':>8} {tried:>6} {hints:>6} {seen:>15} {score:>5}"
            print(f"{f'{number} {name}':<15} {counts}")
    if not entries:
        print(f"\nNothing is recorded in {printable(record.path)} yet: {_first()}")
    return 0


def _first() -> str:
    return f"begin with 'spinup exercise start {next(iter(load()))}'"


# --------------------------------------------------------------------------------- further commands


def _elsewhere(name: str, module: str) -> Callable[[Sequence[str]], int]:
    """Return a command that another module's `command(args)` runs."""

    def command(words: Sequence[str]) -> int:
        return int(importlib.import_module(module).command(parsed(name, words)))

    return command


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "list": list_,
    "start": start,
    "check": check,
    "hint": hint,
    "solution": solution,
    "progress": progress,
    "quiz": _elsewhere("quiz", "spinup_lab.exercises.quiz"),
    "run": _elsewhere("run", "spinup_lab.exercises.experiments"),
}


def words() -> list[str]:
    """Return what may follow `spinup exercise`, for Tab completion."""
    return [*COMMANDS, *load()]

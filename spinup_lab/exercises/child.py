"""Judges a learner's file in a process of its own.

So an endless loop, an exit or a crash in the file ends only that process. The file may print as
much as it likes: the verdict comes back in a file, and the output is cut.
"""

from __future__ import annotations

import faulthandler
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any

from spinup.utils.errors import one_line, printable_lines
from spinup_lab.exercises.exercise import CANNOT_JUDGE, Check, Result

SECONDS = 10  # how long an answer may run
_IMPORTS = 120  # seconds that importing torch may take on the slowest machine
_MOST_OUTPUT = 20_000  # bytes that are kept of what it prints
_MOST_LINES = 10

# What a child process runs. It finds modules where its parent does.
START = "import json, os, runpy, sys; sys.path[:] = json.loads(sys.argv[1]); "
_JUDGE = START + "from spinup_lab.exercises.child import main; main(*sys.argv[2:])"
_PROGRAM = START + (
    "file = sys.argv[2]; sys.argv[:] = [file]; sys.path.insert(0, os.path.dirname(file)); "
    "runpy.run_path(file, run_name='__main__')"
)


def check_file(exercise: Any, file: Path, seed: int = 0) -> Result:
    """Judge the function in a file, and return the verdict."""
    with tempfile.TemporaryDirectory(prefix="spinup-check-") as folder:
        words = [exercise.id, str(file), str(seed), folder, str(SECONDS)]
        code, text = _run(_JUDGE, words, _IMPORTS + SECONDS)
        result = _read(Path(folder, "result.json"))
        if result is None:
            result = _without_verdict(exercise, file, Path(folder, "stack.txt"), code)
            if code and "Error" in text and not Path(folder, "started").exists():
                text, result = "", _broken(exercise, text)
        return replace(result, output=_shortened(text))


def run_program(file: Path, seconds: float = 60) -> tuple[int | None, str]:
    """Run a file as a program; return its exit code (None: it ran too long) and its output."""
    return _run(_PROGRAM, [str(file)], seconds)


def _run(start: str, words: list[str], seconds: float) -> tuple[int | None, str]:
    path = json.dumps([os.path.abspath(p) for p in sys.path])
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    child = subprocess.Popen(
        [sys.executable, "-c", start, path, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **threads, "PYTHONIOENCODING": "utf-8:replace"},
    )
    output = _Output(child.stdout)
    code: int | None
    try:
        code = child.wait(seconds)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        child.kill()
        child.wait()
    return code, output.text()


def cannot(exercise: Any, text: str, name: str = "your file can be run") -> Result:
    """Return the verdict on an answer that cannot be judged, and why."""
    again = f"spinup exercise check {exercise.id}"
    return Result(exercise.id, CANNOT_JUDGE, (Check(name, False, text),), next=again)


class _Output:
    """Reads a pipe to its end, and keeps the beginning."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        self.data = b""
        self.thread = threading.Thread(target=self._read, args=(pipe,), daemon=True)
        self.thread.start()

    def _read(self, pipe: Any) -> None:
        while chunk := os.read(pipe.fileno(), 1 << 16):
            self.data += chunk[: max(0, _MOST_OUTPUT - len(self.data))]

    def text(self) -> str:
        self.thread.join(1)  # a grandchild may keep the pipe open
        return self.data.decode("utf-8", errors="replace")


def _shortened(text: str) -> str:
    lines = printable_lines(text.rstrip()).splitlines()
    kept = [line if len(line) <= 120 else f"{line[:117]}..." for line in lines[:_MOST_LINES]]
    if len(lines) > _MOST_LINES:
        kept.append("...")
    return "\n".join(kept)


def _read(path: Path) -> Result | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return Result(**{**found, "checks": tuple(Check(**check) for check in found["checks"])})


def _without_verdict(exercise: Any, file: Path, stack: Path, code: int | None) -> Result:
    """Return why a process ended without a verdict: the time limit, or something in the file."""
    try:
        lines = stack.read_text(encoding="utf-8", errors="replace")
    except OSError:
        lines = ""
    if lines.strip():
        text = f"{file.name} was still running after {SECONDS} seconds: does a loop never end?"
        found = re.search(rf'File "[^"\n]*{re.escape(file.name)}", line (\d+)', lines)
        if found:
            text += f"\nIt was in line {found[1]}{_line(file, int(found[1]))}"
    elif code is None:
        text = f"the judge was still running after {_IMPORTS + SECONDS} seconds: try again"
    else:
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        text = f"{file.name} ended the program ({how}) before it was judged"
    return cannot(exercise, text)


def _broken(exercise: Any, text: str) -> Result:
    last = text.strip().splitlines()[-1]
    return cannot(exercise, f"the judge could not start: {one_line(last)}")


def _line(file: Path, number: int) -> str:
    try:
        return f":  {file.read_text(encoding='utf-8').splitlines()[number - 1].strip()}"
    except (OSError, ValueError, IndexError):
        return ""


# ------------------------------------------------------------------------------------ in the child


def main(name: str, file: str, seed: str, folder: str, seconds: str) -> None:
    """Judge a file and write the verdict into a folder."""
    from spinup_lab.exercises.judge import prepare
    from spinup_lab.exercises.tasks import find

    exercise: Any = find(name)
    prepare(exercise, int(seed))  # before the time counts, and before the file can change anything
    Path(folder, "started").touch()
    with open(Path(folder, "stack.txt"), "w", encoding="utf-8") as stack:
        faulthandler.dump_traceback_later(float(seconds), exit=True, file=stack)
        result = load_and_judge(exercise, Path(file), int(seed))
        faulthandler.cancel_dump_traceback_later()
    content = json.dumps(asdict(result))
    part = Path(folder, "result.part")
    part.write_text(content, encoding="utf-8")
    os.replace(part, Path(folder, "result.json"))
    sys.stdout.flush()
    os._exit(0)  # whatever the file has started or registered must not hold this up


def load_and_judge(exercise: Any, file: Path, seed: int) -> Result:
    """Judge a file in this process."""
    from spinup_lab.exercises.judge import describe, examine

    try:
        module = load(file)
    except SyntaxError as error:
        line = f"\n{error.text.rstrip()}" if error.text else ""
        place = f", line {error.lineno}" if error.lineno else ""
        return cannot(exercise, f"{file.name}{place}: {error.msg}{line}")
    except SystemExit:
        return cannot(exercise, f"{file.name} calls exit() when it is loaded")
    except Exception as error:
        return cannot(exercise, describe(error, str(file)))
    if module is None:
        return cannot(exercise, f"{file.name} is not a Python file: its name should end in .py")
    if not hasattr(module, exercise.name):
        return cannot(exercise, f"{file.name} does not define {exercise.name}")
    return examine(exercise, getattr(module, exercise.name), seed, file.name)


def load(file: Path) -> Any:
    """Import a learner's file, and return the module; None if it is not a Python file."""
    sys.path.append(str(file.resolve().parent))  # for the learner's own modules
    spec = importlib.util.spec_from_file_location("exercise", file)
    if spec is None or spec.loader is None:
        return None
    module = importlib.util.module_from_spec(spec)
    sys.modules["exercise"] = module  # classes and dataclasses look themselves up
    spec.loader.exec_module(module)
    return module

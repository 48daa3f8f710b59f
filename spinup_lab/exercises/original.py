"""Exercises of the original Spinning Up: a file that is run and judges itself."""

from __future__ import annotations

import importlib.util
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from spinup_lab.exercises.child import cannot, run_program
from spinup_lab.exercises.exercise import RIGHT, WRONG, Check, Result, Task, source_of


@dataclass(frozen=True, kw_only=True)
class Original(Task):
    """Kind F: `module` is the file to fill in, `answers` the objects that `solution` prints."""

    kind: ClassVar[str] = "F"
    kind_name: ClassVar[str] = "write a function"

    module: str
    answers: tuple[str, ...]

    @property
    def file(self) -> str:
        """Name of the file, as in the original."""
        return f"{self.module.rpartition('.')[2]}.py"

    def files(self) -> dict[str, str]:
        """Return the file as it is in the package, and `README.md`."""
        spec = importlib.util.find_spec(self.module)
        assert spec is not None and spec.origin is not None
        source = Path(spec.origin).read_text(encoding="utf-8")
        return {self.file: source, "README.md": self.readme()}

    def check(self, file: Path, seed: int = 0) -> Result:
        """Run the file, which prints a verdict and exits with 0, 1 or 2."""
        code, output = run_program(file)
        said, _, verdict = output.partition("=" * 50)
        text = "\n".join(said.strip().splitlines()[-3:])
        if code == RIGHT and "Congratulations" in verdict:
            return Result(self.id, RIGHT, (Check("the file's own checks", True, text),))
        if code == WRONG and verdict:
            hint = f"spinup exercise hint {self.id}"
            return Result(self.id, WRONG, (Check("the file's own checks", False, text),), next=hint)
        error = re.findall(r"^\w+(?:Error|Exception|Interrupt)\b.*$", said, re.M)
        if code is None:
            text = f"{file.name} was still running after a minute: does a loop never end?"
        elif error:
            line = re.findall(rf'{re.escape(os.path.basename(file))}", line (\d+)', said)
            text = f"{error[-1]}{f' (line {line[-1]})' if line else ''}"
        else:
            text = text or f"{file.name} ended with exit code {code} and without a verdict"
        return cannot(self, text)

    def solution(self) -> str:
        """Return the source of the answers."""
        return "\n\n".join(source_of(place) for place in self.answers)

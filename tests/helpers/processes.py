"""Starting Python from a test, in any folder, with this source tree and the helpers."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 300  # longer than anything that is started so takes on a busy machine


def environment(**changes):
    """The variables of this process with ROOT first on Python's path, and `changes`."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in paths if p), **changes}


def run_python(*words, expect=0, cwd=None, env=None, **variables):
    """Run Python with these words until it ends with the status `expect`, if there is one.

    `variables` are added to the environment. Returns what `subprocess.run` does, with the output
    as text.
    """
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd,
        env=environment(**variables) if env is None else env,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert expect in (None, done.returncode), f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return done

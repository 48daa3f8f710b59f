"""Starting Python from a test, in any folder, with this source tree and the helpers."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def environment(**changes):
    """The variables of this process with ROOT first on Python's path, and `changes`."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in paths if p), **changes}

"""The command that started this process, written so that it can be typed again."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys

AS_MODULE = ["python", "-m", "spinup.run"]


def this_command() -> str | None:
    """Return the command line of this process; None in a notebook, a REPL or `python -c`."""
    if hasattr(sys, "ps1") or not sys.argv or sys.argv[0] in ("", "-c"):
        return None
    module = getattr(sys.modules.get("__main__"), "__spec__", None)
    if os.path.basename(sys.argv[0]) == "ipykernel_launcher.py":
        return None
    if is_console_script(sys.argv[0]):
        words = program()
    elif module is not None:
        words = ["python", "-m", module.name.removesuffix(".__main__")]
    else:
        words = ["python", sys.argv[0]]
    return join([*words, *sys.argv[1:]])


def spinup_command(*words: str) -> str:
    """Return a command of ours, such as `spinup plot data/x`, in the form that the user types."""
    return join([*program(), *words])


def program() -> list[str]:
    """Return the words that start spinup, in the form that the user types."""
    if not is_console_script((sys.argv or [""])[0]):
        return list(AS_MODULE)
    # In a virtual environment that is not activated, the script has to be named by its path.
    return ["spinup"] if shutil.which("spinup") else [sys.argv[0]]


def join(words: list[str]) -> str:
    """Quote words for the shell that people use on this system."""
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


def is_console_script(path: str = "") -> bool:
    """Return whether a program is the installed `spinup`, or spinup.exe."""
    return os.path.splitext(os.path.basename(path))[0] == "spinup"

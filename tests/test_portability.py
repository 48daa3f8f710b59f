"""Other systems and versions of Python: what they lack has a fallback.

The library is developed on Linux. These tests take away what Windows or macOS does not have.
"""

import ast
import sys
import types
import warnings
from pathlib import Path

import pytest

from spinup.runs import signals
from spinup.runs.storage import locks
from tests.helpers.processes import run_python

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted(
    p for name in ("spinup", "spinup_lab", "spinup_tune") for p in (ROOT / name).rglob("*.py")
)
EVERY_FILE = sorted(
    path for folder in ("spinup", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")
)

# What Windows does not have, at all or in this form.
POSIX_MODULES = {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}
POSIX_NAMES = {
    "os": {
        *("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "fchmod", "fork", "getloadavg"),
        *("getpgid", "getppid", "getsid", "getuid", "geteuid", "kill", "killpg", "link", "mkfifo"),
        *("pread", "pwrite", "register_at_fork", "sched_getaffinity", "setsid", "statvfs"),
        *("symlink", "sysconf", "uname", "wait", "waitpid"),
    },
    "signal": {
        *("SIGALRM", "SIGCHLD", "SIGCONT", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGSTOP", "SIGTSTP"),
        *("SIGUSR1", "SIGUSR2", "alarm", "pause", "setitimer", "sigwait"),
    },
}
# Where each is used all the same, and why that is right on Windows.
GUARDED = {
    ("runs/storage/locks.py", "fcntl"): "msvcrt takes its place; without either, a warning",
    ("runs/storage/locks.py", "pread"): "after hasattr",
    ("runs/storage/locks.py", "register_at_fork"): "after hasattr",
    ("cli/runs.py", "fcntl"): "without it, `spinup runs` cannot tell whether a run is alive",
    ("runs/signals.py", "SIGHUP"): "after hasattr",
    ("runs/signals.py", "SIGUSR1"): "after hasattr",
    ("grids/workers.py", "SIGUSR2"): "on Linux only",
    ("grids/workers.py", "kill"): "raise_signal takes its place",
    ("algos/pytorch/common/run.py", "sched_getaffinity"): "after hasattr",
    ("utils/memory.py", "sysconf"): "after hasattr",
    ("spinup_lab/exercises/judge.py", "SIGALRM"): "after hasattr",
    ("spinup_lab/exercises/judge.py", "setitimer"): "after hasattr",
    (
        "spinup_lab/exercises/progress.py",
        "fcntl",
    ): "without it, one of two checks at a time may be lost",
    ("parallel/launch.py", "sched_getaffinity"): "after hasattr",
    **{
        ("parallel/launch.py", name): "several processes are refused on Windows"
        for name in ("SIGHUP", "SIGKILL", "SIGUSR1", "getsid", "kill")
    },
}


def posix_only(tree):
    """The names in a module that Windows does not have."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from {alias.name for alias in node.names} & POSIX_MODULES
        elif isinstance(node, ast.ImportFrom):
            if node.module in POSIX_MODULES:
                yield node.module
            yield from {a.name for a in node.names} & POSIX_NAMES.get(node.module or "", set())
        elif isinstance(node, ast.Attribute) and (
            node.attr in POSIX_NAMES.get(getattr(node.value, "id", ""), ())
        ):
            yield node.attr


def test_what_windows_does_not_have_is_used_only_where_there_is_a_fallback():
    found = {
        (path.relative_to(ROOT).as_posix().removeprefix("spinup/"), name)
        for path in SOURCES
        for name in posix_only(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == set(GUARDED)


def test_a_posix_only_name_is_noticed():
    code = "import fcntl, os\nfrom signal import SIGUSR1\nos.fork()\nos.getpid()\n"
    assert sorted(posix_only(ast.parse(code))) == ["SIGUSR1", "fcntl", "fork"]


# ------------------------------------------------------------------- a system that has none of it

# What Python and its packages themselves need on Linux.
NEEDED = {
    *("geteuid", "getppid", "getuid", "kill", "killpg", "register_at_fork", "sysconf", "uname"),
    "waitpid",
}
# Removes fcntl, signals, affinity, fork, /proc and /sys before anything else is imported.
PREAMBLE = """
import builtins, io, multiprocessing.context, os, signal, sys, types
import fcntl as real, subprocess  # the standard library may use them

def locking(fd, mode, nbytes):
    real.lockf(fd, real.LOCK_EX | real.LOCK_NB, nbytes, os.lseek(fd, 0, os.SEEK_CUR))

sys.modules["fcntl"] = None
if LOCKS:
    sys.modules["msvcrt"] = types.SimpleNamespace(locking=locking, LK_NBLCK=2)
for module, names in POSIX.items():
    for name in names:
        if hasattr(sys.modules[module], name):
            delattr(sys.modules[module], name)
spawn = lambda self: ["spawn"]
multiprocessing.context.BaseContext.get_all_start_methods = spawn
multiprocessing.context.DefaultContext.get_all_start_methods = spawn
multiprocessing.get_all_start_methods = lambda: ["spawn"]

def hidden(path):
    return isinstance(path, str) and path.startswith(("/proc", "/sys/"))

def hide(function):
    def hiding(path, *args, **kwargs):
        if hidden(path):
            raise FileNotFoundError(2, "hidden", path)
        return function(path, *args, **kwargs)
    return hiding

builtins.open = io.open = hide(io.open)
os.listdir, os.stat = hide(os.listdir), hide(os.stat)
"""
TRAIN = """
from spinup.run import main
small = "--hid 8 --steps 40 --data_dir data".split()
words = ["ppo", "--env", "CartPole-v1", *small, "--num_envs", "2", "--vector", "async"]
assert main([*words, "--exp_name", "x", "--epochs", "2"]) == 0
assert main([*words, "--exp_name", "x", "--epochs", "3", "--resume"]) == 0
words = ["sac", "--env", "Pendulum-v1", *small, "--start_steps", "10", "--num_test_episodes", "1"]
assert main([*words, "--exp_name", "y", "--epochs", "1"]) == 0
"""


@pytest.mark.skipif(sys.platform == "win32", reason="takes away what Windows does not have")
@pytest.mark.parametrize("with_locks", [True, False])
def test_training_and_resuming_work_without_what_windows_does_not_have(tmp_path, with_locks):
    posix = {module: sorted(names - NEEDED) for module, names in POSIX_NAMES.items()}
    start = f"LOCKS, POSIX = {with_locks}, {posix}\n"
    script = tmp_path / "script.py"
    train = TRAIN if with_locks else "\n".join(TRAIN.splitlines()[:5])
    script.write_text(start + PREAMBLE + 'if __name__ == "__main__":' + indent(train))
    done = run_python(script, cwd=tmp_path)
    rows = (tmp_path / "data" / "x" / "x_s0" / "progress.txt").read_text().splitlines()
    assert len(rows) == 1 + (3 if with_locks else 2)
    assert ("cannot be locked" in done.stderr) is not with_locks


def indent(code):
    return code.replace("\n", "\n    ").rstrip() + "\n"


def test_two_processes_cannot_lock_a_folder_with_msvcrt_either(tmp_path, monkeypatch):
    taken = set()

    def locking(fd, mode, nbytes):
        if mode in taken:
            raise OSError(13, "Permission denied")
        taken.add(mode)

    monkeypatch.setitem(sys.modules, "fcntl", None)
    fake = types.SimpleNamespace(locking=locking, LK_NBLCK=2)
    monkeypatch.setitem(sys.modules, "msvcrt", fake)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with open(tmp_path / "a", "w+") as file:
            assert locks._try_lock(file.fileno(), tmp_path) is True
            assert locks._try_lock(file.fileno(), tmp_path) is False


def test_a_run_without_sigusr1_stops_on_the_other_signals(monkeypatch):
    import signal

    monkeypatch.setattr(signals, "FORWARDED", set())
    monkeypatch.setattr(signals, "num_procs", lambda: 2)
    caught = signals.Signals()
    caught.catch()
    try:
        signal.raise_signal(signal.SIGTERM)
        assert caught.received == signal.SIGTERM
    finally:
        caught.release()
    with pytest.raises(SystemExit) as stopped:
        caught.leave()
    assert stopped.value.code == 128 + signal.SIGTERM


def test_several_processes_are_refused_on_windows_in_a_sentence(monkeypatch):
    from spinup.parallel import launch as mpi_launch
    from spinup.utils.errors import SpinupError

    monkeypatch.setattr(mpi_launch, "os", types.SimpleNamespace(name="nt"))
    with pytest.raises(SpinupError, match="use num_cpu=1 with shards=4, which computes the same"):
        mpi_launch.start_again(4, False)


# ------------------------------------------------------------------------------ versions of Python

# What Python 3.10 does not have, by module.
NEWER = {
    "": {"ExceptionGroup", "BaseExceptionGroup", "PythonFinalizationError"},
    "asyncio": {"TaskGroup", "Runner", "timeout"},
    "contextlib": {"chdir"},
    "datetime": {"UTC"},
    "enum": {"StrEnum", "ReprEnum", "verify", "member", "nonmember"},
    "hashlib": {"file_digest"},
    "inspect": {"getmembers_static", "markcoroutinefunction"},
    "itertools": {"batched"},
    "math": {"cbrt", "exp2", "sumprod", "fma"},
    "operator": {"call"},
    "os": {"process_cpu_count"},
    "pathlib": {"UnsupportedOperation"},
    "sys": {"exception", "monitoring", "activate_stack_trampoline"},
    "typing": {
        *("Self", "Never", "LiteralString", "assert_never", "assert_type", "reveal_type"),
        *("NotRequired", "Required", "Unpack", "TypeVarTuple", "override", "TypeAliasType"),
        *("dataclass_transform", "get_overloads", "ReadOnly", "TypeIs"),
    },
}
NEWER_MODULES = {"tomllib", "wsgiref.types", "annotationlib", "concurrent.interpreters"}


def newer_names(tree):
    """The names in a module that Python 3.10 does not have, except where a test precedes them.

    Such a test is `try: import`, or a comparison of `sys.version_info`.
    """
    tried = {
        id(inner)
        for node in ast.walk(tree)
        if (
            isinstance(node, ast.Try)
            and any("ImportError" in ast.unparse(h) for h in node.handlers)
        )
        or (isinstance(node, ast.If) and "sys.version_info >=" in ast.unparse(node.test))
        for inner in node.body
    }
    for node in ast.walk(tree):
        if id(node) in tried:
            continue
        if isinstance(node, ast.Import):
            yield from {alias.name for alias in node.names} & NEWER_MODULES
        elif isinstance(node, ast.ImportFrom):
            if node.module in NEWER_MODULES:
                yield node.module
            yield from {a.name for a in node.names} & NEWER.get(node.module or "-", set())
        elif isinstance(node, ast.Attribute) and (
            node.attr in NEWER.get(getattr(node.value, "id", "-"), ())
        ):
            yield node.attr
        elif isinstance(node, ast.Name) and node.id in NEWER[""]:
            yield node.id


@pytest.mark.parametrize("path", EVERY_FILE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_file_is_python_3_10(path):
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 10))
    assert list(newer_names(tree)) == []


@pytest.mark.parametrize(
    "code",
    [
        "import tomllib",
        "from typing import Self",
        "import enum\nenum.StrEnum",
        "from itertools import batched",
        "raise ExceptionGroup('x', [])",
        "import datetime\ndatetime.UTC",
    ],
)
def test_a_newer_name_is_noticed(code):
    assert list(newer_names(ast.parse(code)))


def test_newer_syntax_is_noticed():
    with pytest.raises(SyntaxError):
        ast.parse("try:\n    pass\nexcept* ValueError:\n    pass\n", feature_version=(3, 10))

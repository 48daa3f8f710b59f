"""The cells of a grid: their definition, their state and how they run.

A cell is immutable and has a hash of everything that determines its results. Its state is stored
next to the results, in `<data_dir>/<grid name>/.grid/<run name>/`: `state.json` (numbers and text,
written atomically), `log.txt` (the output of its process) and a lock that is held while it runs.
The same grid can therefore be launched again at any time, by anyone, on any machine with access to
the directory: finished cells are skipped, partial ones are resumed, and no cell ever runs twice at
the same time.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import inspect
import json
import os
import signal
import socket
import sys
import sysconfig
import time
import traceback
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spinup.grids.single import call_experiment
from spinup.parallel.mpi import broadcast_object, num_procs, proc_id
from spinup.runs.storage.locks import RunLock
from spinup.utils.errors import SpinupError, printable
from spinup.utils.files import atomic_write, own_folder
from spinup.utils.reading import TABLE_LIMIT, open_regular, read_file, read_json
from spinup.utils.serialization_utils import short_repr, vars_of

FORMAT = "spinup-cell-1"
# Arguments that do not affect a run's results, so they are not part of a cell's hash.
NOT_HASHED = frozenset({"resume", "overwrite", "progress", "logger_kwargs"})
# Seconds to wait for another process that is running the cell and may be about to finish.
WAIT_VARIABLE = "SPINUP_LOCK_WAIT"
_MAX_DEPTH = 30
_TAIL_LINES = 20  # lines of each traceback in the final report,
_TAIL_WIDTH = 2000  # and their length


class CellsFailed(SpinupError):
    """Some cells of a grid failed, but the others ran; the command line then exits with 1."""

    exit_code = 1


class CellFailed(Exception):
    """One cell failed; its state contains the error."""


class CellBusy(SpinupError):
    """Another process is running the cell."""


# ------------------------------------------------------------------------------------- the cell


@dataclass(frozen=True)
class Cell:
    """One run of a grid, with everything that `call_experiment` needs."""

    exp_name: str
    thunk: Callable[..., Any]
    seed: int
    kwargs: Mapping[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "kwargs", types.MappingProxyType(dict(self.kwargs)))

    def __reduce__(self) -> tuple[Any, ...]:  # a mapping proxy cannot be pickled
        return Cell, (self.exp_name, self.thunk, self.seed, dict(self.kwargs))

    def parts(self) -> dict[str, str]:
        """Return a digest of each part of the cell, by name, to detect what has changed."""
        parts = {f"{k}": digest(v) for k, v in self.kwargs.items() if k not in NOT_HASHED}
        own = {"(function)": self.thunk, "(name)": self.exp_name, "seed": self.seed}
        return {**parts, **{k: digest(v) for k, v in own.items()}}

    @property
    def hash(self) -> str:
        """The SHA-256 hash of the function, the arguments, the seed and the name."""
        return digest(self.parts())


def digest(value: Any) -> str:
    """Return a hash of `value` that is the same in every process."""
    return hashlib.sha256(json.dumps(describe(value)).encode()).hexdigest()


def describe(value: Any) -> Any:
    """Describe `value` as a tree of text and numbers that differs for different values.

    Lists and tuples are equivalent, and the order of dicts and sets does not matter. Functions
    and classes of this package and of installed packages are identified by name. Any other function
    (a lambda, a function in a script) is identified by its name, code, defaults and closure, but
    not by the functions it calls. An environment is identified by its class and spec,
    any other object by its class and attributes.
    """
    return _describe(value, frozenset())


def _describe(value: Any, above: frozenset[int]) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return ["int", str(int(value))]
    if isinstance(value, float):
        return ["float", float(value).hex()]
    if isinstance(value, bytes | bytearray):
        return ["bytes", hashlib.sha256(value).hexdigest()]
    if id(value) in above or len(above) > _MAX_DEPTH:
        return ["...", type(value).__qualname__]
    above = above | {id(value)}
    if isinstance(value, list | tuple):
        return ["list", *(_describe(v, above) for v in value)]
    if isinstance(value, Mapping):
        pairs = [[_describe(k, above), _describe(v, above)] for k, v in value.items()]
        return ["dict", *sorted(pairs, key=json.dumps)]
    if isinstance(value, set | frozenset):
        return ["set", *sorted((_describe(v, above) for v in value), key=json.dumps)]
    if isinstance(value, functools.partial):
        inner = (value.func, value.args, value.keywords)
        return ["partial", *(_describe(v, above) for v in inner)]
    if isinstance(value, types.MethodType):
        return ["method", _describe(value.__func__, above), _describe(value.__self__, above)]
    if isinstance(value, types.FunctionType):
        return _describe_function(value, above)
    if isinstance(value, types.CodeType):
        return _describe_code(value, above)
    if isinstance(value, type):
        return _describe_class(value, above)
    if isinstance(value, types.BuiltinFunctionType | types.ModuleType):
        return ["name", f"{getattr(value, '__module__', '')}.{value.__name__}"]
    return _describe_object(value, above)


def _describe_function(function: types.FunctionType, above: frozenset[int]) -> Any:
    name = function.__qualname__
    if _is_installed(function.__module__):
        return ["name", f"{function.__module__}.{name}"]
    closed = [_contents(cell) for cell in function.__closure__ or ()]
    inner = (function.__code__, function.__defaults__, function.__kwdefaults__, closed)
    return ["function", name, *(_describe(v, above) for v in inner)]


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _describe_code(code: types.CodeType, above: frozenset[int]) -> Any:
    inner = (code.co_code, code.co_consts, code.co_names, code.co_varnames, code.co_freevars)
    return ["code", *(_describe(v, above) for v in inner)]


def _describe_class(cls: type, above: frozenset[int]) -> Any:
    if _is_installed(cls.__module__):
        return ["name", f"{cls.__module__}.{cls.__qualname__}"]
    plain = (types.FunctionType, staticmethod, classmethod, property, bool, int, float, str, tuple)
    body = {k: v for k, v in vars(cls).items() if isinstance(v, plain) and k not in _CLASS_NOISE}
    body = {k: getattr(v, "__func__", getattr(v, "fget", v)) for k, v in body.items()}
    return ["class", cls.__qualname__, _describe(cls.__bases__, above), _describe(body, above)]


# Class attributes added by Python that may differ between processes or source lines.
_CLASS_NOISE = frozenset({"__module__", "__doc__", "__firstlineno__", "__static_attributes__"})


def _describe_object(value: Any, above: frozenset[int]) -> Any:
    kind = _describe(type(value), above)
    if hasattr(value, "detach") and hasattr(value, "cpu"):  # a torch tensor or parameter
        value = value.detach().cpu().numpy()
    if hasattr(value, "tobytes") and hasattr(value, "dtype"):  # an array or a NumPy scalar
        content = hashlib.sha256(value.tobytes()).hexdigest()
        return ["array", str(value.dtype), list(getattr(value, "shape", ())), content]
    if hasattr(value, "action_space") and hasattr(value, "step"):
        spec = getattr(value, "spec", None)
        known = (getattr(spec, "id", None), getattr(spec, "kwargs", None))
        return ["environment", kind, *(_describe(v, above) for v in known)]
    attributes = vars_of(value)
    if attributes:
        return ["object", kind, _describe(attributes, above)]
    return ["object", kind, short_repr(value)]


@functools.cache
def _is_installed(module: str | None) -> bool:
    """Return whether a module is ours, the standard library's or an installed package's."""
    if not module:  # code compiled from text
        return False
    if module.partition(".")[0] in ("spinup", "builtins"):
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    if module == "__main__" or file is None:
        return module in sys.builtin_module_names
    roots = {sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    return any(
        Path(os.path.realpath(root)) in Path(os.path.realpath(file)).parents for root in roots
    )


# --------------------------------------------------------------------------- a cell on the disk


@dataclass(frozen=True)
class Job:
    """A cell with its location on disk, as a launch of the grid sends it to a process.

    Attributes:
        name: name of the run.
        cell: the cell to run.
        hash, parts: the cell's `hash` and `parts` when the grid was launched.
        output_dir: the run directory.
        folder: folder of the cell's state, log and lock.
        launch: identifies this launch of the grid; processes that replace lost ones share it.
        threads: number of BLAS threads of a cell in its own process; None leaves it unchanged.
        dated: whether the name contains a date. If it does, every launch creates new runs, even
            within the same second.
        specs: environments that the user's program registered, for processes that lack them.
        until: number of epochs after which the run pauses, saved; None runs to its end. It is not
            part of the cell: schedules see all epochs, and a later job continues the run.
    """

    name: str
    cell: Cell
    hash: str
    parts: Mapping[str, str]
    output_dir: str
    folder: str
    launch: str
    threads: int | None = None
    dated: bool = False
    specs: tuple[Any, ...] = ()
    until: int | None = None

    @property
    def log(self) -> Path:
        """The file with the output of the cell's processes."""
        return Path(self.folder, "log.txt")

    def make_folder(self) -> None:
        """Create the folder; raise an error if it, or the grid's folder, is a link."""
        parent = os.path.dirname(os.path.abspath(self.folder))
        own_folder(parent)
        own_folder(self.folder)


def make_jobs(
    cells: Sequence[Cell],
    grid_folder: Path,
    output_dirs: Sequence[str],
    launch: str,
    threads: int | None = None,
    dated: bool = False,
) -> list[Job]:
    """Create the jobs of a grid whose own folder is `grid_folder`."""
    jobs: list[Job] = []
    for cell, chosen in zip(cells, output_dirs, strict=True):
        given = cell.kwargs.get("logger_kwargs", {}).get("output_dir")
        output_dir = os.fspath(given) if given is not None else chosen
        # Use the chosen directory's name, which is unique, even if the user passed another one.
        name = os.path.basename(chosen)
        file = name if len(name) <= 200 else f"{name[:150]}-{digest(name)[:16]}"
        parts, folder = cell.parts(), str(grid_folder / file)
        hashed, specs = digest(parts), own_specs(cell)
        job = Job(name, cell, hashed, parts, output_dir, folder, launch, threads, dated, specs)
        jobs.append(job)
    return jobs


def own_specs(cell: Cell) -> tuple[Any, ...]:
    """Return the spec of a cell's environment if the user's program registered it.

    Environments that installed packages register need no spec: other processes can find them.
    """
    gymnasium = sys.modules.get("gymnasium")  # if it is not imported, nothing was registered
    spec: Any = getattr(gymnasium, "registry", {}).get(str(cell.kwargs.get("env_name")))
    entry = getattr(spec, "entry_point", None)
    while isinstance(entry, functools.partial):
        entry = entry.func
    if entry is None:
        return ()
    module = entry.partition(":")[0] if isinstance(entry, str) else entry.__module__
    if _is_installed(module.partition(".")[0]):
        return ()
    spec = copy.copy(spec)
    # In another process, `__main__` is a different module.
    if module == "__main__" and isinstance(entry, str):
        from gymnasium.envs.registration import load_env_creator

        spec.entry_point = load_env_creator(entry)
    return (spec,)


def _register(specs: Sequence[Any]) -> None:
    """Register the environments that this process lacks."""
    for spec in specs:
        import gymnasium

        gymnasium.registry.setdefault(spec.id, spec)


def read_state(job: Job) -> dict[str, Any]:
    """Read a cell's recorded state; return an empty dict if it is missing or unreadable."""
    try:
        state = read_json(Path(job.folder, "state.json"))
    except (OSError, ValueError):
        return {}
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        return {}
    texts = [state.get(key) for key in ("state", "hash", "launch")] + [state.get("error", "")]
    if not all(isinstance(text, str) for text in texts):
        return {}
    return state if isinstance(state.get("parts"), dict) else {}


def write_state(job: Job, state: str, **more: Any) -> None:
    """Record a cell's state."""
    job.make_folder()
    run = Path(job.output_dir)
    record = {
        "format": FORMAT,
        "state": state,
        "hash": job.hash,
        "parts": dict(job.parts),
        "launch": job.launch,
        "output_dir": job.output_dir,
        "directory": run.is_dir(),
        "finished": (run / ".finished").is_file(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "time": time.time(),
        **({} if job.until is None else {"until": job.until}),
        **more,
    }
    if state == "done":
        record["results"] = _marks(run)
    text = json.dumps(record, indent=1, sort_keys=True) + "\n"
    atomic_write(Path(job.folder, "state.json"), text.encode())


@dataclass(frozen=True)
class Decision:
    """The action for a cell ('skip', 'resume' or 'fresh'), and an explanation or ''."""

    action: str
    note: str = ""


def decide(job: Job) -> Decision:
    """Decide whether to skip, resume or restart a cell, from its state, files and arguments."""
    state, run, kwargs = read_state(job), Path(job.output_dir), job.cell.kwargs
    same_launch = state.get("launch") == job.launch  # its process was lost or requeued
    if (kwargs.get("overwrite") or job.dated) and not same_launch:
        return Decision("fresh")
    if not state:
        return Decision("resume" if kwargs.get("resume") else "fresh")
    if state.get("hash") != job.hash:
        changed = sorted(
            k for k in {*state["parts"], *job.parts} if state["parts"].get(k) != job.parts.get(k)
        )
        note = f"{job.name} has changed since it last ran in {run} ({', '.join(changed)})"
        if kwargs.get("resume"):
            return Decision("resume", f"{note}: resume=True continues it if possible.")
        return Decision("fresh", f"{note}: it runs again, and the old files are moved to .old/.")
    if state["state"] == "done" and _is_far_enough(state, job) and _is_still_there(state, run):
        if not _is_another_run(state, run):
            return Decision("skip")
        if not kwargs.get("resume"):
            note = f"{run} contains a different run from the one that {job.name} left there"
            return Decision("fresh", f"{note}: it runs again, and that run is moved to .old/.")
    if kwargs.get("resume") or (kwargs.get("resume") is None and _can_resume(job.cell.thunk, run)):
        return Decision("resume")
    if same_launch and _can_resume(job.cell.thunk, run):
        return Decision("resume")
    return Decision("fresh")


def _is_far_enough(state: Mapping[str, Any], job: Job) -> bool:
    """Return whether a cell that is done was not paused before the epoch that is asked for now."""
    paused = state.get("until")
    if not isinstance(paused, int):
        return True  # it ran to its end
    return job.until is not None and job.until <= paused


def _is_still_there(state: Mapping[str, Any], run: Path) -> bool:
    """Return whether a finished cell's results still exist."""
    return (not state.get("directory") or run.is_dir()) and (
        not state.get("finished") or (run / ".finished").is_file()
    )


def _marks(run: Path, length: int = TABLE_LIMIT) -> dict[str, Any]:
    """Fingerprint the run in a directory by its configuration and its table so far."""
    table, read = hashlib.sha256(), 0
    try:
        config = hashlib.sha256(read_file(run / "config.json"))
        with open_regular(run / "progress.txt", TABLE_LIMIT) as file:
            while block := file.read(min(length - read, 1 << 20)):
                table.update(block)
                read += len(block)
    except OSError:
        return {}  # the function writes other files
    return {"length": read, "config": config.hexdigest(), "table": table.hexdigest()}


def _is_another_run(state: Mapping[str, Any], run: Path) -> bool:
    """Return whether a run that the grid did not launch has replaced a finished run.

    A run with the same configuration has the same results, and a run that was only continued still
    begins with the same rows, so neither counts as another run.
    """
    then = state.get("results")
    if not isinstance(then, dict) or not isinstance(then.get("length"), int):
        return False
    now = _marks(run, max(0, then["length"]))
    return bool(now) and all(then.get(name) != now[name] for name in ("config", "table"))


def _can_resume(thunk: Callable[..., Any], run: Path) -> bool:
    """Return whether the run directory contains a run that `thunk` can continue.

    A function with a `resume` argument can continue any run; a function with `**kwargs` is assumed
    to be able to continue if there is a checkpoint.
    """
    if takes(thunk, "resume"):
        return run.is_dir() and any(run.iterdir())
    return takes(thunk, "resume", hidden=True) and any(run.glob("checkpoints/step-*"))


def takes(thunk: Callable[..., Any], name: str, hidden: bool = False) -> bool:
    """Return whether a function takes `name`; with `hidden`, `**kwargs` counts as well."""
    try:
        parameters = inspect.signature(thunk).parameters
    except (TypeError, ValueError):
        return False
    if hidden and any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return True
    found = parameters.get(name)
    return found is not None and found.kind in (found.POSITIONAL_OR_KEYWORD, found.KEYWORD_ONLY)


# ----------------------------------------------------------------------------------- running a cell


@contextlib.contextmanager
def holding(job: Job, wait: float) -> Iterator[None]:
    """Hold a cell's lock.

    If another process holds it, wait up to `wait` seconds for that process to save its run and end.
    """
    start = time.monotonic()
    told = False
    job.make_folder()
    while True:
        try:
            lock = RunLock(job.folder)
            break
        except SpinupError as error:
            with open_regular(Path(job.folder, ".lock")) as file:
                pid = printable(file.read(32).decode("ascii", "replace").strip()) or "unknown"
            if time.monotonic() > start + wait:
                raise CellBusy(
                    f"another process (pid {pid}) is running {job.name}: wait until it ends"
                ) from error
        if not told:
            print(f"Waiting for the process (pid {pid}) that is running {job.name}.", flush=True)
            told = True
        time.sleep(0.2)
    try:
        yield
    finally:
        lock.release()


def run_cell(job: Job, num_cpu: int | str = 1, wait: float | None = None) -> str:
    """Run a cell in this process unless it is done; return 'skip', 'fresh' or 'resume'.

    Raises `CellFailed` if its function raises an exception, which is recorded in the state. With
    several MPI processes, every rank calls this function: rank 0 writes the state, and exceptions
    propagate unchanged, because they must end all processes. `wait` is the number of seconds to
    wait for another process that is running the cell.
    """
    first = proc_id() == 0
    if wait is None:
        wait = float(os.environ.get(WAIT_VARIABLE, "30"))
    with holding(job, wait) if first else contextlib.nullcontext():
        decision = broadcast_object(decide(job) if first else None)
        if decision.action == "skip":
            return "skip"
        if first:
            if decision.note:
                print(printable(decision.note), flush=True)
            write_state(job, "running")
        try:
            _call(job, decision.action, num_cpu)
        except (KeyboardInterrupt, SystemExit) as error:
            stopped = isinstance(error, KeyboardInterrupt) or _is_signal(error.code)
            text = "" if stopped else _tail(error)
            if first:
                write_state(job, "stopped" if stopped else "failed", error=text)
            if stopped or num_procs() > 1:
                raise
            raise CellFailed(text) from error
        except BaseException as error:  # asyncio's CancelledError, too
            if first:
                write_state(job, "failed", error=_tail(error))
            if num_procs() > 1:
                raise
            raise CellFailed(_tail(error)) from error
        if first:
            write_state(job, "done")
        return decision.action


class Pause:
    """An `on_epoch` that ends a run, saved, after a number of epochs; it can be continued later.

    The run itself has its full number of epochs, so that it is the same run as one without a pause.
    """

    __name__ = "pause"  # in config.json; the number is not part of the run

    def __init__(self, epochs: int, inner: Callable[..., Any] | None = None) -> None:
        self.epochs, self.inner = epochs, inner

    def __call__(self, row: dict[str, Any], ac: Any) -> bool:
        """Return whether to end the run here."""
        asked = self.inner is not None and bool(self.inner(row, ac))
        return asked or int(row["Epoch"]) + 1 >= self.epochs


def _is_signal(code: Any) -> bool:
    """Return whether a signal caused an exit status (255 is a status that a program chose)."""
    return isinstance(code, int) and 128 < code <= 128 + max(signal.Signals)


def _tail(error: BaseException) -> str:
    """Return the end of a traceback; for a SpinupError, only its message."""
    if isinstance(error, SpinupError):
        return f"{type(error).__name__}: {error}"
    lines = "".join(traceback.format_exception(error)).rstrip().splitlines()
    return "\n".join(line[:_TAIL_WIDTH] for line in lines[-_TAIL_LINES:])


def _call(job: Job, action: str, num_cpu: int | str) -> None:
    _register(job.specs)
    cell = job.cell
    kwargs = dict(cell.kwargs)
    if action == "resume":
        kwargs["resume"] = True
        kwargs.pop("overwrite", None)
    if job.threads is not None and takes(cell.thunk, "num_threads"):
        kwargs.setdefault("num_threads", job.threads)
    if job.until is not None:
        kwargs["on_epoch"] = Pause(job.until, kwargs.get("on_epoch"))
    place = {"output_dir": job.output_dir, "exp_name": cell.exp_name}
    kwargs["logger_kwargs"] = {**place, **kwargs.get("logger_kwargs", {})}
    call_experiment(cell.exp_name, cell.thunk, seed=cell.seed, num_cpu=num_cpu, **kwargs)

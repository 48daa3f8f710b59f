"""Run cells as the tasks of a Slurm job array.

`run_slurm` writes two files to the grid's folder: the cells, and a script whose task i runs cell i.
Every task acquires its cell's lock, then skips a finished cell or resumes a partial one. Tasks can
therefore be requeued or submitted again at any time.

    python -m spinup.grids.slurm_executor CELLS SHA256      # in a task: runs its cell

Cells of registered algorithms with plain arguments are stored as JSON; all others (such as lambdas
and custom classes) are pickled. The script contains the SHA-256 hash of the cells' file; a file
that does not match it is not opened.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from spinup import registry
from spinup.grids.cells import Cell, CellBusy, CellFailed, Job, digest, run_cell
from spinup.utils.errors import SpinupError, check_name, one_line, printable_lines
from spinup.utils.files import atomic_write, own_folder
from spinup.utils.reading import read_file

_OPTION = re.compile(r"[a-z][a-z0-9-]*")
_OURS = (
    *("array", "requeue", "signal", "open-mode", "cpus-per-task", "gpus-per-task"),
    *("output", "ntasks", "wrap"),
)
# sbatch and a shell agree on how to read quoted text, except where it contains one of these.
_UNQUOTABLE = re.compile(r"""['"\\]""")
# What else of a job the cells' file has, if it is JSON.
_PLAIN = ("name", "hash", "output_dir", "folder", "launch", "threads", "dated", "until")
_CELLS_LIMIT = 1 << 28  # bytes of the cells' file
_WARNING_SECONDS = 120  # how long before the time limit Slurm warns; saving a run takes less


def run_slurm(
    jobs: Sequence[Job],
    folder: Path,
    most: int,
    cpus: int | None,
    gpus: float,
    options: Mapping[str, Any] | None,
) -> Path:
    """Write the script for these jobs, submit it if `sbatch` exists, and return its path.

    Args:
        jobs: the jobs to run.
        folder: the grid's folder, which every node must be able to access.
        most: maximum number of tasks that run at once; 1 means no limit.
        cpus, gpus: resources that each task requests.
        options: additional `sbatch` options, by their long names.
    """
    lines = check_options(options, gpus)
    check_name(folder, "the grid's folder")
    if not jobs:
        print("All cells are done: there is nothing to submit.", flush=True)
        return folder / "slurm"
    place = folder / "slurm"
    own_folder(folder)
    own_folder(place)
    launch = jobs[0].launch
    data, suffix = _dump(jobs)
    cells = place / f"{launch}{suffix}"
    if len(data) > _CELLS_LIMIT:
        raise SpinupError(
            f"the cells take {len(data)} bytes, more than {_CELLS_LIMIT}: let each function load "
            "its own data instead of passing it as an argument"
        )
    atomic_write(cells, data)
    script = place / f"{launch}.sh"
    text = _script(cells, hashlib.sha256(data).hexdigest(), len(jobs), most, cpus, gpus, lines)
    atomic_write(script, text.encode())
    command = ["sbatch", str(script)]
    print(f"{len(jobs)} cells are in {cells}.", flush=True)
    if shutil.which("sbatch") is None:
        print(f"There is no sbatch here. To submit, run:\n    {shlex.join(command)}", flush=True)
        return script
    print(f"    {shlex.join(command)}", flush=True)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = one_line(done.stderr or done.stdout)
        raise SpinupError(f"sbatch refused the job ({said}): see {script}")
    print(one_line(done.stdout), flush=True)
    return script


def check_options(options: Mapping[str, Any] | None, gpus: float) -> list[str]:
    """Return the script's lines for the user's options; raise for invalid ones."""
    if gpus != int(gpus):
        raise SpinupError(f"gpus_per_cell must be an integer with Slurm, not {gpus:g}")
    lines = []
    for key, value in (options or {}).items():
        name = str(key).replace("_", "-")
        if not _OPTION.fullmatch(name):
            raise SpinupError(
                f"'{key}' is not an option of sbatch: use its long name, such as partition"
            )
        # sbatch also accepts the first letters of an option, but --gpus is one of its own
        if name != "gpus" and any(ours.startswith(name) for ours in _OURS):
            raise SpinupError(f"the Slurm option '{name}' is set by the grid itself: leave it out")
        text = "" if value is True else str(value)
        check_name(text, f"the Slurm option '{name}'")
        if _UNQUOTABLE.search(text):
            raise SpinupError(
                f"the Slurm option '{name}' contains a quote or a backslash ({text}), which sbatch "
                "and the shell read differently: leave it out"
            )
        lines.append(f"#SBATCH --{name}={shlex.quote(text)}" if text else f"#SBATCH --{name}")
    return lines


def _script(
    cells: Path,
    sha256: str,
    count: int,
    most: int,
    cpus: int | None,
    gpus: float,
    options: Sequence[str],
) -> str:
    """Return the array script; its tasks requeue themselves only shortly before the time limit."""
    throttle = f"%{most}" if most > 1 else ""
    logs, exact = str(cells.parent), []
    output = shlex.quote(f"{logs.replace('%', '%%')}/%A_%a.out")
    if _UNQUOTABLE.search(logs):  # name the file where the shell reads it, not sbatch
        output = "/dev/null"
        number = "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}"
        exact = [f'exec >> {shlex.quote(logs)}/"{number}.out" 2>&1']
    gpu = [f"#SBATCH --gpus-per-task={int(gpus)}"] if gpus else []
    head = [
        "#!/bin/bash",
        "#SBATCH --ntasks=1",
        f"#SBATCH --array=0-{count - 1}{throttle}",
        f"#SBATCH --cpus-per-task={cpus or 1}",
        *gpu,
        "#SBATCH --requeue",
        f"#SBATCH --signal=B:USR1@{_WARNING_SECONDS}",
        "#SBATCH --open-mode=append",
        f"#SBATCH --output={output}",
        *options,
    ]
    if not any(line.startswith("#SBATCH --job-name") for line in options):
        head.append("#SBATCH --job-name=spinup")
    threads = " ".join(
        f"{name}={cpus or 1}"
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    )
    ours = _own_folders()
    path = [f"export PYTHONPATH={shlex.quote(os.pathsep.join(ours))}"] if ours else []
    command = [sys.executable, "-m", "spinup.grids.slurm_executor", str(cells), sha256]
    return "\n".join(
        [
            *head,
            "",
            *exact,
            f"export NO_COLOR=1 {threads}",
            *path,
            f"cd {shlex.quote(os.getcwd())} || exit 1",
            f"{shlex.join(command)} &",
            "task=$!",
            "again=",
            "# Slurm's warning before the time limit: save, stop, and continue in a new job.",
            "trap 'again=yes; woken=yes; kill -TERM $task 2>/dev/null' USR1",
            "# Preempted or cancelled: save and stop; Slurm decides what happens next.",
            "trap 'woken=yes; kill -TERM $task 2>/dev/null' TERM INT",
            "while :; do  # a trap ends the wait early",
            "    woken=",
            "    wait $task",
            "    status=$?",
            '    [ -z "$woken" ] && break',
            "done",
            'if [ "$again" = yes ] && [ $status -eq 143 ]; then',
            '    scontrol requeue "${SLURM_ARRAY_JOB_ID}_${SLURM_ARRAY_TASK_ID}" && exit 0',
            "fi",
            "exit $status",
            "",
        ]
    )


def _own_folders() -> list[str]:
    """Find the folders of modules that are not installed: the script's folder, PYTHONPATH."""
    prefixes = (Path(os.path.realpath(prefix)) for prefix in (sys.prefix, sys.base_prefix))
    # omit the prefixes themselves: code may be in /usr/src, and venvs are often inside projects
    installed = {prefix / lib for prefix in prefixes for lib in ("lib", "lib64", "local/lib")}
    folders = [os.path.abspath(folder or ".") for folder in sys.path]
    return list(
        dict.fromkeys(
            folder
            for folder in folders
            if installed.isdisjoint(Path(os.path.realpath(folder)).parents)
        )
    )


# ------------------------------------------------------------------------------ the cells' file


def _dump(jobs: Sequence[Job]) -> tuple[bytes, str]:
    """Serialize the jobs and choose the file's extension; use JSON if it is lossless."""
    rows = [_row(job) for job in jobs]
    if all(row is not None for row in rows):
        return json.dumps(rows, indent=1).encode() + b"\n", ".json"
    import cloudpickle

    try:
        return cloudpickle.dumps(list(jobs)), ".pickle"
    except Exception as error:  # pickling custom objects may raise anything
        raise SpinupError(
            f"these cells cannot be written to a file ({type(error).__name__}: {error}): "
            "inside the function, create whatever cannot be pickled"
        ) from error


def _row(job: Job) -> dict[str, Any] | None:
    """Convert a job of a registered algorithm with plain arguments to JSON; None for other jobs."""
    name, kwargs = _registered(job.cell.thunk), dict(job.cell.kwargs)
    try:
        copy = json.loads(json.dumps(kwargs))
    except (TypeError, ValueError, RecursionError):
        return None
    if name is None or job.specs or digest(copy) != digest(kwargs):
        return None
    return {
        "algorithm": name,
        "exp_name": job.cell.exp_name,
        "seed": job.cell.seed,
        "kwargs": kwargs,
        "parts": dict(job.parts),
        **{field: getattr(job, field) for field in _PLAIN},
    }


def _registered(thunk: Callable[..., Any]) -> str | None:
    """Return a training function's exported name, such as `ppo_pytorch`, or else None."""
    for row in registry.ROWS:
        for backend in row.backends:
            if getattr(thunk, "__module__", None) == row.module(backend):
                name = f"{row.name}_{backend}"
                return name if registry.load(row.name, backend) is thunk else None
    return None


def _load(path: Path, sha256: str) -> list[Job]:
    """Load the jobs from the file that belongs to the script, checked against its hash."""
    try:
        data = read_file(path, _CELLS_LIMIT)
    except OSError as error:
        raise SpinupError(
            f"cannot read the cells in {path} ({error.strerror}): start the grid again"
        ) from error
    if hashlib.sha256(data).hexdigest() != sha256:
        raise SpinupError(
            f"{path} does not belong to this script (its SHA-256 differs) and is not opened: start "
            "the grid again"
        )
    if path.suffix == ".pickle":
        import cloudpickle

        jobs: list[Job] = cloudpickle.loads(data)
        return jobs
    return [_job(row) for row in json.loads(data)]


def _job(row: dict[str, Any]) -> Job:
    thunk = registry.load(row.pop("algorithm"))
    cell = Cell(row.pop("exp_name"), thunk, row.pop("seed"), row.pop("kwargs"))
    return Job(cell=cell, **row)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the cell that Slurm assigned to this task and return the exit status."""
    words = sys.argv[1:] if argv is None else list(argv)
    number = os.environ.get("SLURM_ARRAY_TASK_ID", "")
    try:
        if len(words) != 2 or not number.isdecimal():
            raise SpinupError(
                "this program runs inside a task of a Slurm array: submit its script instead"
            )
        jobs = _load(Path(words[0]), words[1])
        if int(number) >= len(jobs):
            raise SpinupError(
                f"{words[0]} has {len(jobs)} cells and no number {number}: submit its script again"
            )
        job = jobs[int(number)]
        if run_cell(job, wait=90.0) == "skip":
            print(f"{job.name} is already done.", flush=True)
    except CellFailed as error:
        print(f"{job.name} failed:\n{printable_lines(str(error))}", file=sys.stderr)
        return 1
    except CellBusy as error:
        print(one_line(error), file=sys.stderr)
        return 75
    except SpinupError as error:
        print(f"spinup: {one_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What a grid prints at its end: a table of results, failed cells, and commands to paste."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from spinup.analysis import curves, labels
from spinup.grids.cells import Job, read_state
from spinup.grids.single import LINE
from spinup.runs.progress import hms
from spinup.utils.command import spinup_command, this_command
from spinup.utils.errors import SpinupError, printable_lines

LAST = 10  # rows whose mean is a run's score, as in `spinup compare`
_MOST_COMPARED = 10  # more conditions would need far too many seeds
_NUMBERS = ("seeds", "return", "sd", "lowest", "highest")


def print_summary(name: str, jobs: Sequence[Job], failures: Mapping[str, str], took: float) -> None:
    """Print the results per condition, the failed cells, and how to plot and compare the rest."""
    done = [job for job in jobs if job.name not in failures]
    runs = [(job, _read(job)) for job in done]
    found = [(job, run) for job, run in runs if run is not None and _score(run) is not None]
    out = [LINE, f"{name}: {len(done)} of {len(jobs)} runs done in {hms(took)}"]
    if found:
        columns = shutil.get_terminal_size((80, 24)).columns
        out += ["", *table([run for _, run in found], columns)]
        out += ["", "To see the learning curves:", f"    {_plot_line(found)}"]
        comparisons = _compare_lines(found)
        if comparisons:
            out += ["To compare the conditions:", *(f"    {c}" for c in comparisons)]
    if failures:
        out += ["", f"{len(failures)} failed:"]
        out += [
            f"    {job.name}" + (f" (output: {job.log})" if job.log.exists() else "")
            for job in jobs
            if job.name in failures
        ]
        command = this_command()
        if command:
            out += ["To run only these again:", f"    {command}"]
    print(printable_lines("\n".join([*out, LINE])), flush=True)


def table(runs: Sequence[curves.Run], columns: int) -> list[str]:
    """Format the final returns, one row per environment and condition."""
    envs = [run.env for run in runs]
    names = labels.name_runs(runs, [run.exp_name for run in runs], envs)
    groups: dict[str, dict[str, list[float]]] = {}
    for run, env, name in zip(runs, envs, names, strict=True):
        score = _score(run)
        assert score is not None
        groups.setdefault(env, {}).setdefault(name, []).append(score)
    numbers = sum(len(f"{word:>9}") for word in _NUMBERS)
    longest = max(len(text) for text in (*envs, *(f"  {name}" for name in names)))
    width = min(longest + 2, max(15, columns - numbers))
    out = []
    for i, (env, lines) in enumerate(groups.items()):
        heading = "".join(f"{word:>9}" for word in _NUMBERS) if i == 0 else ""
        out += _row(env, heading, width)
        for name, scores in lines.items():
            spread = f"{np.std(scores, ddof=1):.4g}" if len(scores) > 1 else "-"
            shown = [f"{v:.4g}" for v in (np.mean(scores), min(scores), max(scores))]
            cells = (str(len(scores)), shown[0], spread, *shown[1:])
            out += _row(f"  {name}", "".join(f"{cell:>9}" for cell in cells), width)
    return [*out, f"(return: mean over a run's last {LAST} epochs; sd: over the seeds)"]


def _row(name: str, numbers: str, width: int) -> list[str]:
    """Format a row; a name that is too long gets a line of its own."""
    if len(name) >= width and numbers:
        return [name, " " * width + numbers]
    return [f"{name:<{width}}{numbers}".rstrip()]


def _read(job: Job) -> curves.Run | None:
    folder = Path(job.output_dir)
    if not (folder / "progress.txt").is_file():
        return None  # the function trains nothing, or logs elsewhere
    return curves.read_run(folder, ["Performance"])


def _score(run: curves.Run) -> float | None:
    """Return the mean of a run's last returns; None if it logged none."""
    values = run.columns.get("Performance", np.array([]))
    values = values[np.isfinite(values)][-LAST:]
    return float(values.mean()) if len(values) else None


# ------------------------------------------------------------------------------ commands to paste


def _experiment(job: Job) -> str:
    """Return the folder that has the runs of a job's experiment, and only those."""
    parent = os.path.dirname(job.output_dir)
    ours = os.path.basename(parent).endswith(job.cell.exp_name)
    return parent if ours else job.output_dir


def _plot_line(found: Sequence[tuple[Job, curves.Run]]) -> str:
    folders = list(dict.fromkeys(_experiment(job) for job, _ in found))
    prefix = _prefix(folders)
    if prefix and _only(prefix, folders):
        return spinup_command("plot", prefix)
    return spinup_command("plot", *(os.path.join(folder, "") for folder in folders))


def _compare_lines(found: Sequence[tuple[Job, curves.Run]]) -> list[str]:
    """Return a command that compares all conditions, or one for each environment."""
    runs = [run for _, run in found]
    names = labels.name_runs(runs, [run.exp_name for run in runs], [run.env for run in runs])
    where: dict[str, dict[str, str]] = {}  # condition -> environment -> folder
    for (job, run), name in zip(found, names, strict=True):
        where.setdefault(name, {})[run.env] = _experiment(job)
    if not 2 <= len(where) <= _MOST_COMPARED:
        return []
    words = [_prefix(list(folders.values())) for folders in where.values()]
    if all(words):
        return [spinup_command("compare", *map(str, words))]
    envs = dict.fromkeys(run.env for run in runs)
    each = [[folders[env] for folders in where.values() if env in folders] for env in envs]
    return [spinup_command("compare", *folders) for folders in each if len(folders) > 1]


def _prefix(folders: Sequence[str]) -> str | None:
    """Return a path that `compare` takes for exactly these folders, if there is one."""
    if len(folders) == 1:
        return folders[0]
    # Characters count here, not folders: a prefix of names is what the tools take.
    prefix = os.path.commonprefix(folders).rstrip("-_0123456789")  # noqa: RUF071
    return prefix if os.path.basename(prefix) and _only(prefix, folders) else None


def _only(prefix: str, folders: Sequence[str]) -> bool:
    """Return whether `prefix` matches these folders and no other one that has runs."""
    try:
        matches = [m for m in curves.complete([prefix]) if any(curves.run_folders(Path(m)))]
    except SpinupError:
        return False
    return {os.path.abspath(m) for m in matches} == {os.path.abspath(f) for f in folders}


# ----------------------------------------------------------------------- failed and stopped grids


def report_failures(failures: Mapping[str, str], jobs: Sequence[Job]) -> str:
    """Print the end of each failed cell's traceback; return a sentence that sums them up."""
    failed = [job for job in jobs if job.name in failures]
    for job in failed:
        where = f" (its output is in {job.log})" if job.log.exists() else ""
        print(f"{LINE}\n{job.name} failed{where}:", file=sys.stderr)
        print(printable_lines(failures[job.name]), file=sys.stderr)
    print(LINE, file=sys.stderr, flush=True)
    names = ", ".join(job.name for job in failed[:10]) + (", ..." if len(failed) > 10 else "")
    return (
        f"{len(failed)} of {len(jobs)} cells failed ({names}): the same command tries them again "
        "and skips the others"
    )


def say_how_to_continue(jobs: Sequence[Job]) -> None:
    """After Ctrl-C or SIGTERM, print the command that continues the grid."""
    done = sum(read_state(job).get("state") == "done" for job in jobs)
    command = this_command()
    if command:
        how = f"This command skips finished cells and continues the others:\n    {command}"
    else:
        how = "The same grid skips finished cells and continues the others."
    print(f"Stopped with {done} of {len(jobs)} cells done. {how}", file=sys.stderr, flush=True)

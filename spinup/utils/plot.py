"""Learning curves from run directories.

    python -m spinup.run plot data/ppo-cartpole      # every run whose folder starts like this
    python -m spinup.run plot data/ppo data/vpg -l PPO VPG -y Performance -s 5 --save curves.pdf

A run is a folder with a `progress.txt`; its `config.json` says which experiment it belongs to.
Runs of one experiment (its seeds) become one line, their mean, in a band of one standard deviation.
"""

from __future__ import annotations

import argparse
import difflib
import io
import json
import math
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spinup.utils.errors import SpinupError
from spinup.utils.video import has_display

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

DEFAULT_XAXIS = "TotalEnvInteracts"
DEFAULT_VALUE = "Performance"
ESTIMATORS = ("mean", "median", "max", "min")
FORMATS = (".png", ".pdf", ".svg")
# Runs that logged at different x are joined on the union of their x; beyond this many points the
# eye sees no difference and an even grid is used.
MAX_GRID = 2000
_ADDED = ("Unit", "Condition1", "Condition2", "Performance")
_LABELS = {
    "TotalEnvInteracts": "Environment steps",
    "Performance": "Average return",
    "AverageEpRet": "Average return (training)",
    "AverageTestEpRet": "Average return (test)",
    "EpLen": "Episode length",
    "Time": "Time (s)",
}


# ------------------------------------------------------------------------------------------ reading


def get_datasets(
    logdir: str | os.PathLike[str], condition: str | None = None
) -> list[pd.DataFrame]:
    """Reads every run below `logdir`, in sorted order; folders whose name begins with a dot are
    left out.

    Args:
        logdir: A folder that is a run or contains runs at any depth.
        condition: Name for all of them; by default a run's `exp_name`.

    Returns:
        One DataFrame a run: the columns of `progress.txt` plus `Unit` (number of the run within
        its condition), `Condition1` (the experiment), `Condition2` (the single run) and, where a
        return was logged, `Performance`. Runs without a complete row yet are named on standard
        error and left out.
    """
    datasets = []
    for folder in _run_folders(Path(logdir)):
        data = _read_progress(folder / "progress.txt")
        if data is None:
            continue
        name = condition or _experiment_name(folder)
        data = data.drop(columns=[c for c in _ADDED if c in data.columns])
        for source in ("AverageTestEpRet", "AverageEpRet"):
            if source in data.columns:
                data["Performance"] = data[source]
                break
        data["Condition1"] = name
        datasets.append(data)
    return _number_runs(datasets)


def get_all_datasets(
    all_logdirs: Sequence[str],
    legend: Sequence[str] | None = None,
    select: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
) -> list[pd.DataFrame]:
    """Reads the runs of several logdirs.

    Args:
        all_logdirs: Folders. One that does not end in a slash is a prefix: every folder beginning
            like that counts.
        legend: One name for each folder found (after completion and selection).
        select: Keep only folders whose path contains all of these.
        exclude: Leave out folders whose path contains any of these.
    """
    folders = _complete(all_logdirs)
    if select:
        folders = [f for f in folders if all(word in f for word in select)]
    if exclude:
        folders = [f for f in folders if not any(word in f for word in exclude)]
    if not folders:
        raise SpinupError("No folder is left after --select and --exclude; loosen them.")
    if legend and len(legend) != len(folders):
        raise SpinupError(
            f"--legend has {len(legend)} names for {len(folders)} folders ({', '.join(folders)}); "
            "give one name for each."
        )
    datasets: list[pd.DataFrame] = []
    for i, folder in enumerate(folders):
        datasets += get_datasets(folder, legend[i] if legend else None)
    if not datasets:
        raise SpinupError(
            f"No run with a complete row of results in {', '.join(folders)}; "
            "check the path, or wait for the first epoch."
        )
    return _number_runs(datasets)


def _note(message: str) -> None:
    print(f"plot: {message}", file=sys.stderr)


def _run_folders(logdir: Path) -> Iterator[Path]:
    if not logdir.is_dir():
        raise SpinupError(f"{logdir} is not a folder; give a run directory or a folder of them.")
    for folder, subfolders, files in os.walk(logdir):
        # Sorted, so that the numbers of the runs do not depend on the file system.
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        if "progress.txt" in files:
            yield Path(folder)


def _number_runs(datasets: list[pd.DataFrame]) -> list[pd.DataFrame]:
    units: dict[str, int] = {}
    for i, data in enumerate(datasets):
        condition = str(data["Condition1"].iloc[0])
        data["Unit"] = units.get(condition, 0)
        data["Condition2"] = f"{condition}-{i}"
        units[condition] = units.get(condition, 0) + 1
    return datasets


def _read_progress(path: Path) -> pd.DataFrame | None:
    """The complete rows of a `progress.txt`, or None; whatever is left out is named on standard
    error.
    """
    import pandas as pd

    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        _note(f"{path} cannot be read ({error.strerror}), left out.")
        return None
    lines = text.split("\n")
    # A line still being written is one without its newline: 12.3 may be the beginning of 12.345.
    if lines.pop():
        _note(f"{path} ends in a half-written line, which is left out.")
    if not lines:
        _note(f"{path} is empty, left out.")
        return None
    header = lines[0].rstrip("\r").split("\t")
    rows, bad = [], []
    for number, line in enumerate(lines[1:], start=2):
        fields = line.rstrip("\r").split("\t")
        if len(fields) == len(header) and fields != header:
            rows.append(line.rstrip("\r"))
        elif line.strip():
            bad.append(number)
    if bad:
        _note(f"{path} has damaged lines ({', '.join(map(str, bad))}), left out.")
    if not rows:
        _note(f"{path} has no complete row yet, left out.")
        return None
    table = "\n".join(["\t".join(header), *rows])
    # quoting=3: a quotation mark in a logged string is a character like any other.
    return pd.read_csv(io.StringIO(table), sep="\t", quoting=3)


def _experiment_name(folder: Path) -> str:
    path = folder / "config.json"
    problem = None
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        name = config.get("exp_name") if isinstance(config, dict) else None
        if name:
            return str(name)
    except FileNotFoundError:
        problem = "has no config.json"
    except (OSError, ValueError) as error:
        problem = f"has a config.json that cannot be read ({error})"
    # Seeds of one experiment differ in the ending _s<seed>: without it they still fall together.
    name = re.sub(r"_s\d+$", "", folder.resolve().name) or "exp"
    if problem:
        _note(f"{folder} {problem}; it is shown as '{name}'.")
    return name


def _complete(all_logdirs: Sequence[str]) -> list[str]:
    """Turns prefixes into the folders that begin like that, keeping the order and dropping
    repetitions.
    """
    found: list[str] = []
    for given in all_logdirs:
        logdir = os.path.expanduser(str(given))
        base, prefix = os.path.split(logdir)
        if prefix in ("", ".", ".."):
            if not os.path.isdir(logdir):
                raise SpinupError(f"{given} is not a folder; give a run directory.")
            matches = [logdir]
        else:
            where = base or os.curdir
            names = sorted(os.listdir(where)) if os.path.isdir(where) else []
            matches = [
                os.path.join(base, name)
                for name in names
                if name.startswith(prefix)
                and (prefix.startswith(".") or not name.startswith("."))
                and os.path.isdir(os.path.join(where, name))
            ]
            if not matches:
                raise SpinupError(f"No folder begins with {given}; check the path.")
        found += [m for m in matches if m not in found]
    return found


# ------------------------------------------------------------------------------------------ numbers


def smooth_values(values: np.ndarray | pd.Series, window: int) -> np.ndarray:
    """Centred moving average over `window` values; near the ends over those that exist.

    Returns a new array: the data is left as it was. NaN (an epoch without an episode) does not
    count.
    """
    import pandas as pd

    if window < 1:
        raise SpinupError(f"The smoothing window must be at least 1, not {window}.")
    series = pd.Series(np.asarray(values, dtype=float), copy=True)
    if window > 1:
        series = series.rolling(window, center=True, min_periods=1).mean()
    return series.to_numpy(copy=True)


def prepare_data(
    data: pd.DataFrame | Sequence[pd.DataFrame],
    xaxis: str,
    value: str,
    condition: str = "Condition1",
    smooth: int = 1,
) -> pd.DataFrame:
    """What `plot_data` draws: each run smoothed, and brought to the x of the other runs of its
    condition.

    Where all runs of a condition logged at the same x, nothing is interpolated. Otherwise each is
    interpolated linearly at the union of their x, inside its own range only: nothing is
    extrapolated.

    Returns:
        A new DataFrame with the columns `xaxis`, `value`, `condition` and `Unit`.
    """
    import pandas as pd

    curves: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for run in _split_runs(data, condition):
        missing = [c for c in (xaxis, value) if c not in run.columns]
        if missing:
            _note(f"a run of '{_label_of(run, condition)}' has no column {missing[0]}, left out.")
            continue
        x = pd.to_numeric(run[xaxis], errors="coerce").to_numpy(dtype=float)
        y = smooth_values(pd.to_numeric(run[value], errors="coerce"), smooth)
        keep = np.isfinite(x) & np.isfinite(y)
        if not keep.any():
            _note(f"a run of '{_label_of(run, condition)}' has no finite {value}, left out.")
            continue
        x, y = _sorted_unique(x[keep], y[keep])
        curves.setdefault(_label_of(run, condition), []).append((x, y))
    if not curves:
        raise SpinupError(_no_column(data, xaxis, value))
    parts = []
    for name, runs in curves.items():
        grid = _common_grid([x for x, _ in runs])
        for unit, (x, y) in enumerate(runs):
            if len(x) != len(grid) or not np.array_equal(x, grid):
                inside = grid[(grid >= x[0]) & (grid <= x[-1])]
                x, y = inside, np.interp(inside, x, y)
            parts.append(pd.DataFrame({xaxis: x, value: y, condition: name, "Unit": unit}))
    return pd.concat(parts, ignore_index=True)


def _split_runs(data: Any, condition: str) -> list[pd.DataFrame]:
    import pandas as pd

    if not isinstance(data, pd.DataFrame):
        return list(data)
    # Several runs in one table: smoothing must not reach from the end of one into the beginning of
    # the next.
    keys = [c for c in (condition, "Unit") if c in data.columns]
    return [run for _, run in data.groupby(keys, sort=False)] if keys else [data]


def _label_of(run: pd.DataFrame, condition: str) -> str:
    return str(run[condition].iloc[0]) if condition in run.columns and len(run) else "run"


def _sorted_unique(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    grid, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    if len(grid) == len(x):
        order = np.argsort(x, kind="stable")
        return x[order], y[order]
    return grid, np.bincount(inverse, weights=y) / counts


def _common_grid(grids: list[np.ndarray]) -> np.ndarray:
    if all(np.array_equal(grids[0], g) for g in grids[1:]):
        return grids[0]
    grid = np.unique(np.concatenate(grids))
    return np.linspace(grid[0], grid[-1], MAX_GRID) if len(grid) > MAX_GRID else grid


def _no_column(data: Any, xaxis: str, value: str) -> str:
    known = sorted({str(c) for run in _split_runs(data, "") for c in run.columns} - set(_ADDED[:3]))
    for wanted in (xaxis, value):
        if wanted not in known:
            near = difflib.get_close_matches(wanted, known, n=1)
            hint = f"did you mean {near[0]}" if near else f"there are {', '.join(known)}"
            return f"No run has a column {wanted}; {hint}."
    return f"No run has a finite {value} over {xaxis} yet; wait for the first episodes to end."


# ------------------------------------------------------------------------------------------ drawing


def plot_data(
    data: pd.DataFrame | Sequence[pd.DataFrame],
    xaxis: str = "Epoch",
    value: str = "AverageEpRet",
    condition: str = "Condition1",
    smooth: int = 1,
    *,
    estimator: str = "mean",
    font_scale: float = 1.5,
    ax: Axes | None = None,
    **kwargs: Any,
) -> Axes:
    """Draws `value` over `xaxis`, one line a condition, on the current axes or on `ax`.

    The arguments' data is not changed. Further keywords go to `seaborn.lineplot`.
    """
    import matplotlib.pyplot as plt
    import seaborn as sns

    if callable(estimator):  # np.mean and the like, as older scripts pass it
        estimator = getattr(estimator, "__name__", str(estimator))
    if estimator not in ESTIMATORS:
        raise SpinupError(f"The estimator is one of {', '.join(ESTIMATORS)}, not {estimator}.")
    tidy = prepare_data(data, xaxis, value, condition, smooth)
    names = list(dict.fromkeys(tidy[condition]))
    options: dict[str, Any] = {
        "errorbar": "sd",
        "linewidth": 2,
        "palette": "colorblind" if len(names) <= 10 else "husl",
        "err_kws": {"alpha": 0.2, "linewidth": 0},
    }
    options.update(kwargs)
    with _paper_style(font_scale):
        ax = plt.gca() if ax is None else ax
        sns.lineplot(
            data=tidy,
            x=xaxis,
            y=value,
            hue=condition,
            hue_order=names,
            estimator=estimator,
            ax=ax,
            **options,
        )
        ax.set_xlabel(_LABELS.get(xaxis, xaxis))
        ax.set_ylabel(_LABELS.get(value, value))
        ax.margins(x=0)
        if float(tidy[xaxis].max()) >= 5000:
            ax.xaxis.set_major_formatter(_thousands)
        sns.despine(ax=ax)
        _place_legend(ax, names)
    return ax


def make_plots(
    all_logdirs: Sequence[str],
    legend: Sequence[str] | None = None,
    xaxis: str | None = None,
    values: str | Sequence[str] | None = None,
    count: bool = False,
    font_scale: float = 1.5,
    smooth: int = 1,
    select: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    estimator: str = "mean",
    *,
    save: str | os.PathLike[str] | None = None,
) -> list[Path]:
    """Draws one figure a value, and shows it or writes it.

    Args:
        all_logdirs, legend, select, exclude: As in `get_all_datasets`.
        xaxis: Column on the x axis; None means TotalEnvInteracts.
        values: Column or columns to draw; None means Performance.
        count: One line a run instead of one a condition.
        font_scale: Size of the text; 1 is matplotlib's.
        smooth: Width of the moving average, in epochs.
        estimator: What the line shows of the runs at one x: mean, median, max or min.
        save: File to write (.png, .pdf or .svg); several values add their name to it. Where there
            is no display and nothing is said here, `spinup-plot.png` is written.

    Returns:
        The files written.
    """
    if save is not None and Path(save).suffix.lower() not in FORMATS:
        raise SpinupError(f"--save takes a file that ends in {', '.join(FORMATS)}, not {save}.")
    _use_a_backend_that_works()
    import matplotlib.pyplot as plt

    xaxis = xaxis or DEFAULT_XAXIS
    wanted = [values] if isinstance(values, str) else list(values or [DEFAULT_VALUE])
    data = get_all_datasets(all_logdirs, legend, select, exclude)
    condition = "Condition2" if count else "Condition1"
    if save is None and not _can_show():
        save = "spinup-plot.png"
        _note("there is no display, the figure goes into a file.")

    written: list[Path] = []
    for value in wanted:
        with _paper_style(font_scale):
            figure = plt.figure(figsize=(8, 5.5), layout="constrained")
        try:
            plot_data(
                data, xaxis, value, condition, smooth, estimator=estimator, font_scale=font_scale
            )
            if save is not None:
                path = _file_of(Path(save), value, len(wanted))
                # Type 42 keeps the text of a PDF as text, which journals ask for.
                with plt.rc_context({"pdf.fonttype": 42, "svg.fonttype": "none"}):
                    figure.savefig(path, dpi=200, bbox_inches="tight", facecolor="white")
                written.append(path)
                print(f"wrote {path}")
        finally:
            if save is not None:  # on screen the user closes it
                plt.close(figure)
    if save is None:
        plt.show()
    return written


def _file_of(path: Path, value: str, count: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path if count == 1 else path.with_name(f"{path.stem}-{value}{path.suffix}")


@contextmanager
def _paper_style(font_scale: float) -> Iterator[None]:
    import matplotlib.pyplot as plt
    import seaborn as sns

    # A context, not sns.set: a notebook that draws its own figures afterwards keeps its style.
    style = dict(sns.axes_style("ticks"))
    style.update(sns.plotting_context("notebook", font_scale=font_scale))
    style.update(
        {
            "axes.grid": True,
            "grid.color": "0.9",
            "grid.linewidth": 0.8,
            "axes.axisbelow": True,
            "axes.edgecolor": "0.3",
            "legend.frameon": False,
            "font.family": ["sans-serif"],
        }
    )
    with plt.rc_context(style):
        yield


def _thousands(value: float, _position: float = 0) -> str:
    """100000 as 100k and 3000000 as 3M: shorter than digits, plainer than powers of ten."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _place_legend(ax: Axes, names: list[str]) -> None:
    handles, labels = ax.get_legend_handles_labels()
    if len(names) == 1 and names[0] == "run":  # nothing that a legend could tell
        legend = ax.get_legend()
        if legend is not None:
            legend.remove()
        return
    outside = len(names) > 6
    ax.legend(
        handles,
        labels,
        title=None,
        fontsize="small",
        **({"loc": "upper left", "bbox_to_anchor": (1.01, 1.0)} if outside else {"loc": "best"}),
        ncols=math.ceil(len(names) / 20),
    )


def _use_a_backend_that_works() -> None:
    """Agg where a window was asked for (MPLBACKEND, matplotlibrc) and there is no display to put
    it on.

    Notebook backends are left alone: they need no display. Newer matplotlibs fall back by
    themselves; older ones raise.
    """
    import matplotlib

    windowed = ("tk", "qt", "gtk", "wx", "macosx")
    if not has_display() and matplotlib.get_backend().lower().startswith(windowed):
        matplotlib.use("Agg")


def _can_show() -> bool:
    import matplotlib

    backend = matplotlib.get_backend().lower()
    return backend not in ("agg", "cairo", "pdf", "pgf", "ps", "svg", "template")


# ------------------------------------------------------------------------------------- command line


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m spinup.run plot ...`; returns the exit status."""
    parser = argparse.ArgumentParser(prog="spinup plot", description="Draws learning curves.")
    parser.add_argument(
        "logdir", nargs="+", help="run directory or folder of them; without a final slash, a prefix"
    )
    parser.add_argument("-l", "--legend", nargs="*", help="a name for each folder")
    parser.add_argument("-x", "--xaxis", default=DEFAULT_XAXIS, help="column on the x axis")
    parser.add_argument(
        "-y",
        "--value",
        nargs="*",
        default=[DEFAULT_VALUE],
        help="columns to draw; Performance is AverageTestEpRet or else AverageEpRet",
    )
    parser.add_argument("--count", action="store_true", help="one line a run, not one a condition")
    parser.add_argument("-s", "--smooth", type=int, default=1, help="width of the moving average")
    parser.add_argument("--select", nargs="*", help="only folders whose path contains all of these")
    parser.add_argument("--exclude", nargs="*", help="no folder whose path contains any of these")
    parser.add_argument(
        "--est", default="mean", choices=ESTIMATORS, help="what the line shows of the runs"
    )
    parser.add_argument(
        "--save", metavar="FILE", help="write FILE (.png, .pdf or .svg), show nothing"
    )
    args = parser.parse_args(argv)
    try:
        make_plots(
            args.logdir,
            args.legend,
            args.xaxis,
            args.value,
            args.count,
            smooth=args.smooth,
            select=args.select,
            exclude=args.exclude,
            estimator=args.est,
            save=args.save,
        )
    except SpinupError as error:
        print(f"spinup: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Plot learning curves from run directories.

    python -m spinup.run plot data/ppo-cartpole      # every run in folders with this prefix
    python -m spinup.run plot data/ppo data/vpg -l PPO VPG --est iqm --band ci --save curves.pdf

A run is a folder with a `progress.txt`; its `config.json` names the experiment it belongs to. The
runs of one experiment (its seeds) become one line: by default, their mean with a band of one
standard deviation. `docs/plotting.md` has the details.
"""

from __future__ import annotations

import io
import itertools
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spinup.analysis import curves, figures, labels, stats
from spinup.analysis.curves import Curve, smooth_values
from spinup.utils.errors import SpinupError, nearest

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "get_all_datasets",
    "get_datasets",
    "make_plots",
    "plot_data",
    "smooth_values",
]

DEFAULT_XAXIS = "TotalEnvInteracts"
DEFAULT_VALUE = "Performance"
# The statistics that a line can show at each x: functions of (points, runs) arrays.
ESTIMATORS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "mean": stats.mean,
    "median": lambda values: np.median(values, axis=-1),
    "iqm": stats.iqm,
    "max": lambda values: np.max(values, axis=-1),
    "min": lambda values: np.min(values, axis=-1),
}
# environment -> name of the line -> its runs' curves
Panels = dict[str, dict[str, list[Curve]]]
BANDS = ("sd", "ci", "minmax", "none")
# Bootstrap of `--band ci`. The seed is fixed, so that the same data gives the same figure.
REPS, SEED = 1000, 0
# Globals of the original's plotter, which user code reads.
DIV_LINE_WIDTH = 50
exp_idx = 0
units: dict[str, int] = {}
_ADDED = ("Unit", "Condition1", "Condition2", "Performance")


# ------------------------------------------------------------------------------------------ reading


def get_datasets(
    logdir: str | os.PathLike[str], condition: str | None = None
) -> list[pd.DataFrame]:
    """Read every run below `logdir`, in sorted order; skip folders that begin with a dot.

    Args:
        logdir: A folder that is a run or contains runs at any depth.
        condition: Name for all of these runs; by default, each run's `exp_name`.

    Returns:
        One DataFrame per run: the columns of `progress.txt` plus `Unit` (number of the run within
        its condition), `Condition1` (the experiment), `Condition2` (the individual run) and, if a
        return was logged, `Performance`. Runs without a complete row are skipped and reported on
        standard error.
    """
    found = _find([logdir], condition and [condition], _read_table)
    return _tables(found, named=condition is not None)


def _find(
    folders: Sequence[str | os.PathLike[str]],
    legend: Sequence[str] | None,
    read: Callable[[Path], curves.Run],
) -> list[tuple[str, curves.Run]]:
    """Read the runs below folders: (condition, run), each run once for each condition."""
    found: dict[tuple[str, Path], curves.Run] = {}
    for i, logdir in enumerate(folders):
        for folder in curves.run_folders(Path(logdir)):
            run = read(folder)
            found.setdefault((legend[i] if legend else run.exp_name, folder.resolve()), run)
    return [(condition, run) for (condition, _), run in found.items()]


def _read_table(folder: Path) -> curves.Run:
    """Read a run with all of its columns."""
    import pandas as pd

    run, rows = curves.read_rows(folder)
    if not rows:
        return run
    # quoting=3: treat quotation marks in logged strings as ordinary characters.
    text = "\n".join(["\t".join(run.header), *rows])
    table = pd.read_csv(io.StringIO(text), sep="\t", quoting=3)
    run.table = table.drop(columns=[c for c in _ADDED if c in table.columns])
    if "Performance" in run.columns:
        run.table["Performance"] = run.columns["Performance"]
    return run


def get_all_datasets(
    all_logdirs: Sequence[str],
    legend: Sequence[str] | None = None,
    select: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
) -> list[pd.DataFrame]:
    """Read the runs of several logdirs.

    Args:
        all_logdirs: Folders. A path without a final slash is a prefix that matches every folder
            beginning with it. A run found more than once counts only once per condition.
        legend: One name for each folder found (after expanding prefixes and filtering).
        select: Keep only folders whose path contains all of these strings.
        exclude: Leave out folders whose path contains any of these strings.
    """
    folders = _choose(all_logdirs, legend, select, exclude)
    tables = _tables(_find(folders, legend, _read_table), named=bool(legend))
    if not tables:
        raise SpinupError(_no_rows(folders))
    return tables


def _choose(
    all_logdirs: Sequence[str],
    legend: Sequence[str] | None,
    select: Sequence[str] | None,
    exclude: Sequence[str] | None,
) -> list[str]:
    """Return the selected folders; if there is a legend, check that it has a name for each."""
    folders = curves.complete(all_logdirs)
    if select:
        folders = [f for f in folders if all(word in f for word in select)]
    if exclude:
        folders = [f for f in folders if not any(word in f for word in exclude)]
    if not folders:
        raise SpinupError("no folders are left after --select and --exclude: relax them")
    if legend and len(legend) != len(folders):
        raise SpinupError(
            f"--legend has {len(legend)} names for {len(folders)} folder{'s' * (len(folders) > 1)} "
            f"({', '.join(folders)}): pass one name for each"
        )
    return folders


def _no_rows(folders: Sequence[str]) -> str:
    return (
        f"no run in {', '.join(folders)} has a complete row of results: "
        "check the path, or wait for the first epoch"
    )


def _tables(found: Sequence[tuple[str, curves.Run]], named: bool) -> list[pd.DataFrame]:
    """Return the table of each run that has a complete row, with what `plot_data` calls its line.

    A table is drawn in one pair of axes, so with several environments, names contain these.
    """
    curves.report([run for _, run in found], "plot")
    found = [(condition, run) for condition, run in found if run.length]
    runs, conditions = [run for _, run in found], [condition for condition, _ in found]
    envs = [run.env for run in runs]
    names = conditions if named else labels.name_runs(runs, conditions, envs)
    units: Counter[str] = Counter()
    tables = []
    for i, (condition, run) in enumerate(found):
        table = run.table
        table["Condition1"] = condition
        table["Unit"], table["Condition2"] = units[condition], f"{condition}-{i}"
        units[condition] += 1
        if not named:
            table.attrs["line"] = f"{run.env}, {names[i]}" if len(set(envs)) > 1 else names[i]
            table.attrs.update(env=run.env, seed=labels.seed_of(run))
        tables.append(table)
    return tables


# ------------------------------------------------------------------------------------------ numbers


def estimate(
    matrix: np.ndarray, estimator: str | Callable[..., Any] = "mean", band: str = "sd"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute the line and the lower and upper edges of its band from runs at common x.

    Args:
        matrix: One row per run; NaN marks missing values, which are ignored.
        estimator: One of `ESTIMATORS`, or a function that takes an `axis` argument.
        band: `sd` (one standard deviation on either side), `ci` (95% bootstrap confidence interval
            of the estimate, resampling whole runs), `minmax` or `none`.

    Returns:
        Three arrays, one value per column. Where only one run has a value, the band has zero width.
    """
    function = _estimator(estimator)
    if band not in BANDS:
        raise SpinupError(
            f"--band must be one of {', '.join(BANDS)}, not {band}{nearest(band, BANDS)}"
        )
    line, low, high = np.full((3, matrix.shape[1]), np.nan)
    for rows, columns in curves.alike(matrix):
        values = matrix[np.ix_(rows, columns)].T  # (points, runs)
        line[columns] = low[columns] = high[columns] = function(values)
        if values.shape[1] == 1:
            continue
        if band == "sd":
            deviation = values.std(axis=1, ddof=1)
            low[columns] -= deviation
            high[columns] += deviation
        elif band == "minmax":
            low[columns], high[columns] = values.min(axis=1), values.max(axis=1)
        elif band == "ci":
            low[columns], high[columns] = _bootstrap_ci(values, function)
    return line, low, high


def _bootstrap_ci(values: np.ndarray, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    rng = np.random.default_rng(SEED)
    runs = values.shape[1]
    if function is stats.mean:  # a mean needs only the number of times that each run was drawn
        return stats.interval(stats.times_drawn(runs, REPS, rng) @ values.T / runs)
    replicates = stats.bootstrap([values.T], lambda v, _: function(v), REPS, rng)
    return stats.interval(replicates)


def _estimator(given: str | Callable[..., Any]) -> Callable[[np.ndarray], np.ndarray]:
    name = given if isinstance(given, str) else getattr(given, "__name__", "")
    name = {"amax": "max", "amin": "min"}.get(name, name)  # NumPy's other names
    if name in ESTIMATORS:
        return ESTIMATORS[name]
    if callable(given):
        function = given
        return lambda values: np.asarray(function(values, axis=-1), dtype=float)
    known = ", ".join(ESTIMATORS)
    raise SpinupError(f"--est must be one of {known}, not {given}{nearest(name, ESTIMATORS)}")


def _as_run(table: pd.DataFrame, name: str, xaxis: str, value: str) -> curves.Run:
    """Return a table as a run, whose line has this name."""
    import pandas as pd

    known = [c for c in (xaxis, value) if c in table.columns]
    columns = {c: pd.to_numeric(table[c], errors="coerce").to_numpy(float) for c in known}
    header = [str(c) for c in table.columns if c not in _ADDED[:3]]
    config, where = {"seed": table.attrs.get("seed")}, Path(f"a run of '{name}'")
    return curves.Run(where, name, len(table), [], config, header, columns)


def _line_of(table: pd.DataFrame, condition: str | None) -> str:
    if condition is None and "line" in table.attrs:
        return str(table.attrs["line"])
    column = condition or "Condition1"
    return str(table[column].iloc[0]) if column in table.columns and len(table) else "run"


def _split_runs(data: Any, condition: str | None) -> list[pd.DataFrame]:
    import pandas as pd

    if not isinstance(data, pd.DataFrame):
        return list(data)
    # One table may contain several runs: smoothing must not mix the end of one run with the
    # beginning of the next. Units are numbered within an experiment, which need not be the
    # caller's condition.
    keys = [c for c in dict.fromkeys((condition, *_ADDED[:3])) if c and c in data.columns]
    return [run for _, run in data.groupby(keys, sort=False, dropna=False)] if keys else [data]


# ------------------------------------------------------------------------------------------ drawing


def plot_data(
    data: pd.DataFrame | Sequence[pd.DataFrame],
    xaxis: str | None = None,
    value: str | None = None,
    condition: str | None = None,
    smooth: int = 1,
    *,
    estimator: str | Callable[..., Any] = "mean",
    band: str = "sd",
    font_scale: float = 1.5,
    ax: Axes | None = None,
    palette: Any = None,
    **kwargs: Any,
) -> Axes:
    """Draw `value` over `xaxis`, one line per condition, on `ax` or the current axes.

    `data` is not modified.

    Args:
        data: Tables from `get_datasets` or `get_all_datasets`, or any others with these columns.
        xaxis: Column on the x axis; None means TotalEnvInteracts, or Epoch if there is none.
        value: Column to draw; None means Performance, or AverageEpRet if there is none.
        condition: Column with the names of the lines, such as `Condition1`, the experiments. None
            names them after the arguments that vary between the runs, and counts their seeds.
        smooth: Width of the moving average, in rows.
        estimator, band: See `estimate`.
        font_scale: Scale factor for all text; 1 means 12-point labels.
        ax: Axes to draw on; by default, the current ones, or those of a new figure.
        palette: Colors, as in seaborn.
        **kwargs: Passed to `Axes.plot`. As in seaborn, `ci` and `errorbar` set the band.
    """
    if not isinstance(smooth, int | np.integer) or smooth < 1:
        raise SpinupError(f"the smoothing window must be a positive integer, not {smooth}")
    for key in ("ci", "errorbar"):
        if key in kwargs:
            band = _band_of_seaborn(kwargs.pop(key))
    tables = _split_runs(data, condition)
    known = {str(c) for table in tables for c in table.columns}
    xaxis = xaxis or (DEFAULT_XAXIS if DEFAULT_XAXIS in known else "Epoch")
    value = value or (DEFAULT_VALUE if DEFAULT_VALUE in known else "AverageEpRet")
    names = [_line_of(table, condition) for table in tables]
    runs = [_as_run(table, name, xaxis, value) for table, name in zip(tables, names, strict=True)]
    with_seeds = condition is None and all("line" in table.attrs for table in tables)
    (found,) = _panels(runs, names, xaxis, value, smooth, with_seeds).values()
    curves.report(runs, "plot")
    looks = dict(zip(found, itertools.cycle(figures.styles(palette)), strict=False))
    with figures.paper_style(font_scale):
        if ax is None:
            import matplotlib.pyplot as plt

            if not plt.get_fignums():
                plt.figure(figsize=figures.ONE_PANEL, layout="constrained")
            ax = plt.gca()
        handles = _draw(ax, found, looks, estimator, band, **kwargs)
        ax.set(xlabel=figures.axis_label(xaxis), ylabel=figures.axis_label(value))
        envs = {table.attrs.get("env", curves.UNKNOWN_ENV) for table in tables}
        if len(envs) == 1 and curves.UNKNOWN_ENV not in envs and not ax.get_title():
            ax.set_title(envs.pop())
        figures.place_legend(ax, list(handles.values()), list(handles))
    return ax


def _band_of_seaborn(given: Any) -> str:
    kind = given[0] if isinstance(given, tuple) else given
    if kind is None or kind in BANDS:
        return kind or "none"
    return "ci" if isinstance(kind, int | float) else str(kind)


def _draw(
    ax: Axes,
    found: Mapping[str, list[Curve]],
    looks: Mapping[str, tuple[Any, Any]],
    estimator: str | Callable[..., Any],
    band: str,
    **options: Any,
) -> dict[str, Any]:
    """Draw the lines and bands of one panel; return the lines, by their names."""
    drawn: dict[str, figures.Drawn] = {}
    for name, runs in found.items():
        grid, matrix = curves.align(runs)
        line, *edges = estimate(matrix, estimator, band)
        low, high = edges if band != "none" and len(runs) > 1 else (None, None)
        drawn[name] = (grid, line, low, high)
    handles = figures.draw_curves(ax, drawn, looks, **options)
    figures.set_x_range(ax, list(handles.values()))
    figures.finish_axes(ax)
    return handles


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
    estimator: str | Callable[..., Any] = "mean",
    *,
    band: str = "sd",
    save: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
) -> list[Path]:
    """Draw one figure per value, with one panel per environment, and show or save it.

    Lines are named after the legend or, without one, after the arguments that vary.

    Args:
        all_logdirs, legend, select, exclude: As in `get_all_datasets`.
        xaxis: Column on the x axis; None means TotalEnvInteracts.
        values: Column or columns to draw; None means Performance.
        count: Draw one line per run instead of one per condition.
        font_scale: Scale factor for all text; 1 means 12-point labels.
        smooth: Width of the moving average, in epochs.
        estimator: Statistic that the line shows at each x: mean, median, iqm, max or min.
        band: Interval that the shaded band shows: sd, ci, minmax or none (see `estimate`).
        save: File or files to write (.png, .pdf or .svg); with several values, each value's name is
            added to the file name. The default is `spinup-plot.png` if there is no display.

    Returns:
        The files written.
    """
    _estimator(estimator)
    estimate(np.zeros((1, 1)), "mean", band)  # raises for an invalid band before reading any files
    if smooth < 1:
        raise SpinupError(f"the smoothing window must be a positive integer, not {smooth}")
    files = figures.output_files(save)
    xaxis = xaxis or DEFAULT_XAXIS
    wanted = [values] if isinstance(values, str) else list(values or [DEFAULT_VALUE])
    folders = _choose(all_logdirs, legend, select, exclude)
    found = _find(folders, legend, lambda folder: curves.read_run(folder, {xaxis, *wanted}))
    conditions = [condition for condition, run in found if run.length]
    runs = [run for _, run in found if run.length]
    names = _line_names(runs, conditions, bool(legend), count)
    with_seeds = not (legend or count)
    drawings = [
        (value, _panels(runs, names, xaxis, value, smooth, with_seeds)) for value in wanted if runs
    ]
    curves.report([run for _, run in found], "plot")
    if not runs:
        raise SpinupError(_no_rows(folders))

    if not files and not figures.can_show():
        files = figures.output_files("spinup-plot.png")
        print("plot: there is no display, so the figure is written to a file.", file=sys.stderr)
    written: list[Path] = []
    for value, panels in drawings:
        with figures.paper_style(font_scale):
            figure = _figure(panels, xaxis, value, estimator, band, on_screen=not files)
            written += figures.save_figure(figure, [_file_of(f, value, len(wanted)) for f in files])
    if not files:
        import matplotlib.pyplot as plt

        plt.show()
    return written


def _line_names(
    runs: Sequence[curves.Run], conditions: Sequence[str], named: bool, count: bool
) -> list[str]:
    """Return the name of the line that each run belongs to; with `count`, all of them differ."""
    envs = [run.env for run in runs]
    names = list(conditions) if named else labels.name_runs(runs, conditions, envs)
    if not count:
        return names
    several = len(set(names)) > 1
    for i, run in enumerate(runs):
        seed = labels.seed_of(run)
        if seed is not None:
            names[i] = f"{names[i]}, seed {seed}" if several or named else f"seed {seed}"
    repeated = Counter(zip(envs, names, strict=True))
    return [
        f"{name} ({i})" if repeated[env, name] > 1 else name
        for i, (env, name) in enumerate(zip(envs, names, strict=True))
    ]


def _panels(
    runs: Sequence[curves.Run],
    names: Sequence[str],
    xaxis: str,
    value: str,
    smooth: int,
    with_seeds: bool,
) -> Panels:
    """Return the curves of each environment and line; note why a run is left out."""
    found: Panels = {}
    seeds: dict[str, dict[str, list[int | None]]] = {}
    for run, name in zip(runs, names, strict=True):
        curve = curves.curve_of(run, xaxis, value, smooth)
        if curve is None:
            continue
        found.setdefault(run.env, {}).setdefault(name, []).append(curve)
        seeds.setdefault(name, {}).setdefault(run.env, []).append(labels.seed_of(run))
    if not found:
        raise SpinupError(curves.no_column((run.header for run in runs), xaxis, value))
    if not with_seeds:
        return found
    return {
        env: {f"{n} ({labels.count_seeds(list(seeds[n].values()))})": c for n, c in lines.items()}
        for env, lines in found.items()
    }


def _figure(
    panels: Panels,
    xaxis: str,
    value: str,
    estimator: str | Callable[..., Any],
    band: str,
    on_screen: bool,
) -> Figure:
    """Draw a figure with one titled panel per environment; equal lines look equal everywhere."""
    names = dict.fromkeys(name for lines in panels.values() for name in lines)
    looks = dict(zip(names, itertools.cycle(figures.styles()), strict=False))
    figure, axes = figures.panel_grid(len(panels), on_screen)
    handles: dict[str, Any] = {}
    for ax, (env, lines) in zip(axes, panels.items(), strict=True):
        handles.update(_draw(ax, lines, looks, estimator, band))
        if len(panels) > 1 or env != curves.UNKNOWN_ENV:
            ax.set_title(env, wrap=True)
    figures.label_panels(axes, figures.axis_label(xaxis), figures.axis_label(value))
    shown = [handles[name] for name in names]
    if len(panels) > 1:
        figures.legend_below(figure, shown, list(names))
    else:
        figures.place_legend(axes[0], shown, list(names))
        figures.make_room(figure, axes[0])
    return figure


def _file_of(path: Path, value: str, count: int) -> Path:
    name = re.sub(r"[^\w.-]", "-", value)
    return path if count == 1 else path.with_name(f"{path.stem}-{name}{path.suffix}")

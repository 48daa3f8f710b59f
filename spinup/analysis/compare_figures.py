"""Draw the figures of `spinup compare`."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spinup.analysis import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANELS = ("aggregates", "improvement", "profiles", "efficiency")


def draw(result: Mapping[str, Any], panels: Mapping[str, Axes]) -> None:
    """Draw the requested panels.

    Panels are `aggregates` (which uses a second axes, `mean`), `improvement`, `profiles` and
    `efficiency`.
    """
    styles = dict(zip(result["algorithms"], itertools.cycle(figures.styles()), strict=False))
    score = "Normalized score" if result["normalised"] else figures.axis_label(result["value"])
    for key, title in (("aggregates", "IQM"), ("mean", "Mean")):
        if key in panels:
            _draw_intervals(panels[key], title, score, result, styles)
    if "improvement" in panels:
        _draw_improvement(panels["improvement"], result)
    if "profiles" in panels:
        ax = panels["profiles"]
        tau = result["profiles"]["tau"]
        found = {
            n: (tau, *(entry[k] for k in ("share", "low", "high")))
            for n, entry in result["profiles"]["algorithms"].items()
        }
        figures.draw_curves(ax, found, styles)
        ax.margins(x=0)
        ax.set(xlabel=f"{score} τ", ylabel="Share of runs above τ", ylim=(-0.02, 1.02))
        ax.set_title("Performance profiles")
    if "efficiency" in panels:
        ax = panels["efficiency"]
        data = result["efficiency"]
        found = {
            n: tuple(entry[k] for k in ("x", "iqm", "low", "high"))
            for n, entry in data["algorithms"].items()
        }
        figures.draw_curves(ax, found, styles)
        figures.set_x_range(ax, ax.lines)
        steps = data["unit"] == "steps"
        ax.set_xlabel(
            figures.axis_label(result["xaxis"]) if steps else "Share of each environment's steps"
        )
        ax.set_ylabel(f"IQM of the {score[0].lower()}{score[1:]}")
        ax.set_title("Sample efficiency")
    for ax in panels.values():
        figures.finish_axes(ax)


def _draw_intervals(
    ax: Axes, title: str, label: str, result: Mapping[str, Any], styles: Mapping[str, Any]
) -> None:
    key = title.lower()
    for i, (name, entry) in enumerate(result["algorithms"].items()):
        _draw_row(ax, i, entry[f"{key}_ci"], entry[key], styles[name][0])
    _name_rows(ax, list(result["algorithms"]))
    ax.set_xlabel(label)
    ax.set_title(f"{title}, 95% CI")
    ends = [v for a in result["algorithms"].values() for v in (*a["iqm_ci"], *a["mean_ci"])]
    margin = 0.1 * (max(ends) - min(ends)) or 0.5
    ax.set_xlim(min(ends) - margin, max(ends) + margin)  # the same range for the IQM and the mean


def _draw_improvement(ax: Axes, result: Mapping[str, Any]) -> None:
    names = []
    for i, pair in enumerate(result["pairs"]):
        color = figures.COLORS[0] if pair["verdict"] == "established" else "0.5"
        _draw_row(ax, i, pair["improvement_ci"], pair["improvement"], color)
        names.append(f"{pair['x']} > {pair['y']}")
    ax.axvline(0.5, color="0.3", linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    _name_rows(ax, names)
    ax.set_xlim(-0.02, 1.02)
    ax.set_xlabel("P(a run is better)")
    ax.set_title("Probability of improvement")


def _draw_row(ax: Axes, i: int, interval: Sequence[float], value: float, color: Any) -> None:
    """Draw an interval as a bar, and its estimate as a tick."""
    ax.plot(interval, [i, i], color=color, linewidth=9, alpha=0.35, solid_capstyle="butt")
    ax.plot([value], [i], "|", color=color, markersize=16, markeredgewidth=2.5)


def _name_rows(ax: Axes, names: list[str]) -> None:
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)  # the first name at the top
    ax.grid(False, axis="y")
    ax.tick_params(axis="y", length=0)


def save_figures(result: Mapping[str, Any], save: Sequence[str]) -> list[Path]:
    """Write all panels to one file, or one file per panel to a folder."""
    written: list[Path] = []
    for given in save:
        if Path(given).suffix.lower() in figures.FORMATS:
            (file,) = figures.output_files(given)
            with figures.paper_style(1.0):
                written += figures.save_figure(whole_figure(result, on_screen=False), [file])
            continue
        for panel in PANELS:
            files = figures.output_files([Path(given) / f"{panel}{s}" for s in (".png", ".pdf")])
            with figures.paper_style(1.2):
                written += figures.save_figure(_panel_figure(result, panel), files)
    return written


def whole_figure(result: Mapping[str, Any], on_screen: bool) -> Figure:
    """Create a figure with all panels and one legend below them."""
    names = list(result["algorithms"])
    rows = _rows_height(result)
    figure = figures.new_figure((12, rows + 4.6), on_screen)
    parts: Any = figure.subfigures(2, 1, height_ratios=[rows, 4.6])
    top, bottom = parts
    upper = top.subplots(1, 3)
    lower = bottom.subplots(1, 2)
    panels = dict(zip(("aggregates", "mean", "improvement"), upper, strict=True))
    panels.update(zip(("profiles", "efficiency"), lower, strict=True))
    draw(result, panels)
    panels["mean"].tick_params(labelleft=False)
    columns = min(len(names), 6)
    bottom.legend(lower[0].lines, names, loc="outside lower center", ncols=columns)
    return figure


def _panel_figure(result: Mapping[str, Any], panel: str) -> Figure:
    names = list(result["algorithms"])
    if panel in ("profiles", "efficiency"):
        figure = figures.new_figure((6.5, 4.5), on_screen=False)
        ax = figure.subplots()
        draw(result, {panel: ax})
        figures.place_legend(ax, ax.lines, names)
        figures.make_room(figure, ax)
    elif panel == "aggregates":
        figure = figures.new_figure((9, _rows_height(result)), on_screen=False)
        left, right = figure.subplots(1, 2)
        draw(result, {panel: left, "mean": right})
        right.tick_params(labelleft=False)
    else:
        figure = figures.new_figure((6.5, _rows_height(result)), on_screen=False)
        draw(result, {panel: figure.subplots()})
    return figure


def _rows_height(result: Mapping[str, Any]) -> float:
    rows = max(len(result["algorithms"]), len(result["pairs"]))
    return 1.6 + 0.4 * min(rows, 6) + 0.22 * max(rows - 6, 0)


def show(result: Mapping[str, Any]) -> None:
    """Open a window with all panels."""
    import matplotlib.pyplot as plt

    with figures.paper_style(1.0):
        whole_figure(result, on_screen=True)
    plt.show()

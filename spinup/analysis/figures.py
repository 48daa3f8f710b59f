"""How figures look and where they go, for `plot` and `compare`: style, axes, legends and files."""

from __future__ import annotations

import io
import math
import os
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spinup.analysis.texts import TEXTS
from spinup.policies.display import has_display
from spinup.utils.errors import SpinupError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE = Path(__file__).with_name("paper.mplstyle")
FORMATS = (".png", ".pdf", ".svg")
# Sizes in inches: a figure with one panel, and each panel of a larger one.
ONE_PANEL = (8.0, 5.5)
EACH_PANEL = (6.4, 4.6)
# Okabe and Ito's colors, which people with any kind of color vision can tell apart. Yellow, which
# is hard to see on white, is left out. Once all colors are used, further lines get new dashes.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)))

# ------------------------------------------------------------------------------------------- axes


# What is drawn for one line: x, y, and the lower and upper edges of its band, or None without one.
Drawn = tuple[Any, Any, Any, Any]


def draw_curves(
    ax: Axes, found: Mapping[str, Drawn], looks: Mapping[str, tuple[Any, Any]], **options: Any
) -> dict[str, Any]:
    """Draw lines, each with its band, in these colors and dashes; return the lines, by name."""
    handles: dict[str, Any] = {}
    alpha = 0.18 if len(found) <= 4 else 0.1  # less if many bands overlap
    for i, (name, (x, y, low, high)) in enumerate(found.items()):
        color, dashes = looks[name]
        marker = "o" if len(x) == 1 else None  # a line through one point is invisible
        style = {"color": color, "linestyle": dashes, "marker": marker, "zorder": 3, **options}
        (handles[name],) = ax.plot(x, y, label=name, gid=f"curve-{i}", **style)
        if low is None:
            continue
        if len(x) == 1:
            band: Any = ax.vlines(x, low, high, color=color, alpha=0.35, linewidth=5)
        else:
            band = ax.fill_between(x, low, high, color=color, alpha=alpha, linewidth=0)
        band.set_gid(f"band-{i}")
    return handles


def finish_axes(ax: Axes) -> None:
    """Abbreviate large tick labels and remove the top and right spines; call after drawing."""
    for axis, least in ((ax.xaxis, 5_000), (ax.yaxis, 10_000)):
        low, high = axis.get_view_interval()
        largest = max(abs(low), abs(high))
        # Skip this if all ticks would read 1M, or if the numbers are too large for a letter.
        if least <= largest < 1e12 and abs(high - low) >= 1e-4 * largest:
            axis.set_major_formatter(thousands)
    ax.spines[["top", "right"]].set_visible(False)


def set_x_range(ax: Axes, lines: Sequence[Any]) -> None:
    """Set the x range to end at the last x and begin at the first, or at 0 if that is close."""
    x = np.concatenate([line.get_xdata() for line in lines])
    low, high = (float(x.min()), float(x.max())) if len(x) else (0.0, 0.0)
    if low == high:
        return  # matplotlib leaves room around a single point; an empty plot needs none
    # Training starts at step 0, although the first row may be at step 4,000 of 200,000.
    ax.set_xlim(0.0 if 0.0 < low < 0.1 * high else low, high)


def styles(palette: Any = None) -> list[tuple[Any, Any]]:
    """Return the colors and dashes to use for successive lines."""
    colors: Sequence[Any] = COLORS
    if palette is not None:
        import seaborn as sns

        colors = sns.color_palette(palette)
    return [(color, dashes) for dashes in DASHES for color in colors]


def axis_label(column: str) -> str:
    """Spell out a column's name: `LossPi` becomes "Policy loss".

    `MaxEpRet` becomes "Maximum return (training)". Unknown names are split at capital letters.
    """
    if column in TEXTS["columns"]:
        return str(TEXTS["columns"][column])
    statistic, rest = re.fullmatch(r"(Average|Std|Max|Min|)(.*)", column, re.S).groups()  # type: ignore[union-attr]
    words = TEXTS["quantities"].get(rest)
    if words is not None:
        first = TEXTS["statistics"].get(statistic)
        return f"{first} {words}" if statistic else words[0].upper() + words[1:]
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", column).split()
    lowered = [p if p[1:] != p[1:].lower() or len(p) == 1 else p.lower() for p in parts[1:]]
    return " ".join([*parts[:1], *lowered]) or column


# -------------------------------------------------------------------------------- style and legend


@contextmanager
def paper_style(font_scale: float) -> Iterator[None]:
    """Apply the figures' style temporarily, so that a notebook keeps its own style."""
    import matplotlib.style

    small = 11 * font_scale
    sizes: Any = {"font.size": 12 * font_scale, "legend.fontsize": small}
    sizes |= {"xtick.labelsize": small, "ytick.labelsize": small}
    with matplotlib.style.context([STYLE, sizes]):
        yield


def thousands(value: float, _position: float = 0) -> str:
    """Abbreviate 100000 to 100K and 3000000 to 3M."""
    sign = "\N{MINUS SIGN}" if value < 0 else ""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if abs(value) >= size:
            return f"{sign}{abs(value) / size:g}{letter}"
    return f"{sign}{abs(value):g}"


def place_legend(ax: Axes, handles: Sequence[Any], names: Sequence[str]) -> None:
    """Place the legend where it covers no data: inside the axes if possible, else beside them."""
    if list(names) == ["run"]:  # a legend would add nothing
        return
    labels = _legend_labels(names)
    options: dict[str, Any] = {"fontsize": "small", "borderaxespad": 0.4}
    if len(names) <= 8:
        ax.figure.canvas.figure.draw_without_rendering()  # for the corners
        for corner in (
            "lower right",
            "upper left",
            "upper right",
            "lower left",
            "center right",
            "center left",
            "center",
        ):
            legend = ax.legend(handles, labels, loc=corner, **options)
            if not _covers(ax, legend.get_window_extent()):
                return
            legend.remove()
    columns = math.ceil(len(names) / 20)
    beside: Any = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "ncols": columns}
    ax.legend(handles, labels, **beside, **options)


def _legend_labels(names: Sequence[str]) -> list[str]:
    """Break long names into lines; hide an initial underscore, which matplotlib would ignore."""
    wrapped = ["\n".join(textwrap.wrap(name, 48)) if len(name) > 48 else name for name in names]
    return [f" {name}" if name.startswith("_") else name for name in wrapped]


def make_room(figure: Figure, ax: Axes) -> None:
    """Widen a figure to fit a legend beside its axes, so that the axes keep their size."""
    legend = ax.get_legend()
    if legend is not None and legend.get_bbox_to_anchor().x0 > ax.bbox.x1:
        width, height = figure.get_size_inches()
        figure.set_size_inches(width + legend.get_window_extent().width / figure.dpi, height)


def panel_grid(panels: int, on_screen: bool) -> tuple[Figure, list[Axes]]:
    """Create a figure with this many axes, in rows that are as long as the figure is high."""
    if panels == 1:
        figure = new_figure(ONE_PANEL, on_screen)
        return figure, [figure.subplots()]
    columns = min(math.ceil(math.sqrt(panels)) if panels > 3 else panels, 4)
    rows = math.ceil(panels / columns)
    width, height = EACH_PANEL
    figure = new_figure((width * columns, height * rows), on_screen)
    return figure, [figure.add_subplot(rows, columns, i + 1) for i in range(panels)]


def label_panels(axes: Sequence[Axes], xlabel: str, ylabel: str) -> None:
    """Label the axes at the left and at the bottom of a grid of panels."""
    places = [ax.get_subplotspec() for ax in axes]
    last = {place.colspan.start: ax for place, ax in zip(places, axes, strict=True) if place}
    for place, ax in zip(places, axes, strict=True):
        if place is not None and ax is last[place.colspan.start]:
            ax.set_xlabel(xlabel)
        if place is not None and place.is_first_col():
            ax.set_ylabel(ylabel)


def legend_below(figure: Figure, handles: Sequence[Any], names: Sequence[str]) -> None:
    """Place one legend for all panels below them; heighten the figure to make room for it."""
    import matplotlib

    shown = _legend_labels(names)
    size = 0.833 * float(matplotlib.rcParams["legend.fontsize"]) / 72  # inches
    width, height = figure.get_size_inches()
    longest = max(len(line) for name in shown for line in name.split("\n"))
    columns = max(1, min(len(shown), int(width / (size * (0.6 * longest + 4)))))
    figure.set_size_inches(width, height + 1.5 * size * math.ceil(len(shown) / columns))
    figure.legend(handles, shown, loc="outside lower center", ncols=columns, fontsize="small")


def _covers(ax: Axes, box: Any) -> bool:
    for line in ax.lines:
        if line.get_transform().transform_path(line.get_path()).intersects_bbox(box, filled=False):
            return True
    return any(
        band.get_transform().transform_path(path).intersects_bbox(box, filled=True)
        for band in ax.collections
        for path in band.get_paths()
    )


def _use_a_backend_that_works() -> None:
    """Switch to Agg if a GUI backend is configured (MPLBACKEND, matplotlibrc) but has no display.

    Notebook backends need no display and are left alone. Newer versions of matplotlib fall back to
    Agg by themselves; older versions raise.
    """
    import matplotlib

    windowed = ("tk", "qt", "gtk", "wx", "macosx")
    if not has_display() and matplotlib.get_backend().lower().startswith(windowed):
        matplotlib.use("Agg")


def can_show() -> bool:
    """Return whether figures can be shown."""
    import matplotlib

    _use_a_backend_that_works()
    backend = matplotlib.get_backend().lower()
    return backend not in ("agg", "cairo", "pdf", "pgf", "ps", "svg", "template")


# ------------------------------------------------------------------------------------------- files


def output_files(
    save: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None,
) -> list[Path]:
    """Return the files to write; raise early if one of them cannot be written."""
    given = [save] if isinstance(save, str | os.PathLike) else list(save or [])
    files = [Path(os.path.expanduser(os.fspath(f))) for f in given]
    for file in files:
        if file.suffix.lower() not in FORMATS:
            raise SpinupError(f"--save takes a file that ends in {', '.join(FORMATS)}, not {file}")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SpinupError(
                f"cannot write {file} ({error.strerror}): choose another file"
            ) from None
        if file.is_dir() or not os.access(file if file.exists() else file.parent, os.W_OK):
            why = "it is a folder" if file.is_dir() else "no permission"
            raise SpinupError(f"cannot write {file} ({why}): choose another file")
    return files


def new_figure(size: tuple[float, float], on_screen: bool) -> Figure:
    """Create an empty figure; use pyplot, which opens a window, only for figures on screen."""
    if on_screen:
        _use_a_backend_that_works()
        import matplotlib.pyplot as plt

        return plt.figure(figsize=size, layout="constrained")
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained")


def image(figure: Figure, suffix: str) -> bytes:
    """Return a figure as the bytes of a file; the same figure always gives the same bytes."""
    import matplotlib

    # Type 42 fonts keep the text in a PDF as text, which journals require.
    style: Any = {"pdf.fonttype": 42, "svg.fonttype": "none", "svg.hashsalt": "spinup"}
    dates = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    look: Any = {"dpi": 200, "bbox_inches": "tight", "facecolor": "white"}
    found = io.BytesIO()
    with matplotlib.rc_context(style):
        figure.savefig(found, format=suffix[1:].lower(), metadata=dates.get(suffix.lower()), **look)
    return found.getvalue()


def save_figure(figure: Figure, files: Sequence[Path]) -> list[Path]:
    """Write a figure to files."""
    for file in files:
        try:
            file.write_bytes(image(figure, file.suffix))
        except OSError as error:
            raise SpinupError(
                f"cannot write {file} ({error.strerror or error}): choose another file"
            ) from None
        print(f"wrote {file}")
    return list(files)

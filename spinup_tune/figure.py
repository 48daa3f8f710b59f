"""The figure of a study: every configuration's score at each rung, and what mattered."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spinup.analysis import figures
from spinup.utils.files import atomic_write
from spinup_tune.halving import DEFAULT
from spinup_tune.study import Study

_GRAY = "#9a9a9a"


def draw(study: Study, result: Mapping[str, Any]) -> Path:
    """Draw the rungs and the importance of each argument; return the file."""
    path = study.folder / "rungs.png"
    with figures.paper_style(1.0):
        figure = figures.new_figure((11.0, 4.8), on_screen=False)
        left, right = figure.subplots(1, 2, width_ratios=[1.5, 1.0])
        _draw_rungs(left, study, result)
        _draw_importance(right, result)
        atomic_write(path, figures.image(figure, path.suffix))
    print(f"wrote {path}")
    return path


def _draw_rungs(ax: Any, study: Study, result: Mapping[str, Any]) -> None:
    rungs, winner = study.rungs, result["winner"]
    special = {winner: figures.COLORS[1], DEFAULT: figures.COLORS[0]}
    for name in [*(n for n in study.trials if n not in special), *dict.fromkeys(special)]:
        points = [
            (rung["epochs"], rung["scores"][name]["score"])
            for rung in rungs
            if name in rung["scores"] and rung["scores"][name]["score"] is not None
        ]
        color = special.get(name, _GRAY)
        label = f"{name} (winner)" if name == winner else name if name == DEFAULT else None
        ax.plot(
            [x for x, _ in points],
            [y for _, y in points],
            "o-",
            color=color,
            label=label,
            linewidth=2.2 if name in special else 0.9,
            markersize=6 if name in special else 3.5,
            alpha=1.0 if name in special else 0.6,
        )
    ax.set_xticks([rung["epochs"] for rung in rungs])
    ax.set(xlabel="Epoch", ylabel="Tuning score (average return)")
    ax.set_title(f"{study.settings.algo} on {result['env']}: rungs")
    ax.legend(loc="best", frameon=False)
    ax.spines[["top", "right"]].set_visible(False)


def _draw_importance(ax: Any, result: Mapping[str, Any]) -> None:
    found = sorted(result["importance"].items(), key=lambda item: item[1]["effect"])
    for i, (_, entry) in enumerate(found):
        sure = entry["p"] <= 0.05
        ax.barh(i, entry["effect"], color=figures.COLORS[2] if sure else _GRAY, height=0.6)
        arrow = {1: "higher is better", -1: "lower is better", 0: ""}[entry["direction"]]
        ax.text(entry["effect"] + 0.02, i, arrow if sure else "", va="center", fontsize=9)
    ax.set_yticks(range(len(found)), [key.rpartition(":")[2] for key, _ in found])
    ax.set_xlim(0, 1)
    ax.set_xlabel("Rank correlation with the score of rung 1 (gray: p > 0.05)")
    ax.set_title("What mattered")
    ax.spines[["top", "right"]].set_visible(False)

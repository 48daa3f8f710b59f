"""Runs with the table that a test wants, and what a figure shows of them."""

import json

import numpy as np

from tests.helpers.svg_reader import condition


def write_run(folder, columns, exp_name="ppo", tail="", **config):
    """A run directory whose progress.txt holds `columns` (name -> values), then `tail` as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    names = list(columns)
    rows = ["\t".join(names)]
    rows += ["\t".join(str(v) for v in row) for row in zip(*columns.values(), strict=True)]
    (folder / "progress.txt").write_text("\n".join(rows) + "\n" + tail)
    if exp_name is not None:
        (folder / "config.json").write_text(json.dumps({"exp_name": exp_name, **config}))
    return folder


def curve(returns, step=1000, key="AverageEpRet"):
    n = len(returns)
    return {
        "Epoch": list(range(n)),
        key: list(returns),
        "TotalEnvInteracts": [step * (i + 1) for i in range(n)],
    }


def drawn(ax):
    """Condition -> (x, y) of the lines drawn (not of the legend's handles)."""
    lines = [line for line in ax.lines if len(line.get_xdata())]
    _, labels = ax.get_legend_handles_labels()
    return {
        condition(label): (np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float))
        for label, line in zip(labels, lines, strict=True)
    }

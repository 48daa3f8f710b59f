"""The figures of the documentation are those that the data gives, and can be read by everybody."""

import json
import math
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from docs.figures import make_figures as figures


def test_committed_figures_are_drawn_from_the_data():
    """If this fails after a new measurement, run `make figures` and commit the files."""
    for name, draw in figures.FIGURES.items():
        assert (figures.FOLDER / f"{name}.svg").read_text(encoding="utf-8") == draw(), name


def test_a_figure_is_one_element_without_blank_lines_or_names_of_its_own():
    """docs/build.py puts it into a page, where blank lines end it and ids could collide."""
    for draw in figures.FIGURES.values():
        drawing = draw()
        assert "\n\n" not in drawing and not re.search(r"\bid=", drawing)
        assert not re.search(r'd="M(Z|")|nan|inf\b', drawing)  # a path without points
        root = ET.fromstring(drawing)
        width, height = map(float, root.get("viewBox").split()[2:])
        title = root.find("{http://www.w3.org/2000/svg}title")
        assert title.text and width >= 560 and height > 100
        for word in root.iter("{http://www.w3.org/2000/svg}text"):
            assert 0 <= float(word.get("x")) <= width and 0 < float(word.get("y")) <= height


def test_every_result_has_its_panel(repo_root):
    for file in (repo_root / "benchmarks/results/learn").glob("*.json"):
        algo, env = file.stem.split("-", 1)
        if not algo.endswith("_tf1"):
            assert f"{env}</text>" in figures.FIGURES[f"learn-{algo}"]()


def test_curves_have_a_point_for_every_recorded_row(repo_root):
    file = repo_root / "benchmarks/results/learn/ppo-CartPole-v1.json"
    steps, rows = figures.curves(json.loads(file.read_text()))
    assert steps[0] == 4000 and steps[-1] == 100000 and len(rows) == 25
    assert rows[0] == [run["training_curve"][0] for run in json.loads(file.read_text())["runs"]]


def test_the_errors_of_gae_are_those_of_a_simulation():
    gamma, lam, noise = 0.99, 0.8, 0.15
    rng = np.random.default_rng(0)
    value = [0.0, *(0.5 * gamma ** (4 - t) for t in range(1, 5)), 0.0]  # of the right action
    found = []
    for right in (1.0, 0.0):
        rewards = rng.normal([0, 0, 0, 0, right], noise, size=(100_000, 5))
        v = np.array(value) * right
        deltas = rewards + gamma * v[1:] - v[:-1]
        found.append(deltas @ (gamma * lam) ** np.arange(5))
    difference = found[0] - found[1]
    bias, spread = figures.gae_errors(lam, gamma, noise)
    assert difference.mean() - gamma**4 == pytest.approx(bias, abs=4 * spread / math.sqrt(1e5))
    assert difference.std() == pytest.approx(spread, rel=0.02)
    assert figures.gae_errors(1.0)[0] == pytest.approx(0)  # no bias without the critic


def test_ticks_are_round_numbers_within_the_range():
    assert figures.ticks(0, 100_000) == [0, 50_000, 100_000]
    assert figures.ticks(-510, -60) == [-400, -200]
    assert figures.ticks(0, 1) == [0, 0.5, 1]
    assert [figures.short(v) for v in (0, 0.5, -1500, 50_000, 1e6)] == [
        "0",
        "0.5",
        "-1.5k",
        "50k",
        "1M",
    ]
    assert [figures.number(v) for v in (0, -0.04, 3.0, 2.25, -1.26)] == [
        "0",
        "0",
        "3",
        "2.2",
        "-1.3",
    ]

"""Reads the data back out of a figure in an SVG file, from nothing but the file.

Pixels become data through the ticks: where each stands, and the number that is written below it.
"""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np

SVG = "{http://www.w3.org/2000/svg}"
LINK = "{http://www.w3.org/1999/xlink}href"
FACTORS = {"K": 1e3, "M": 1e6, "B": 1e9}


class SvgFigure:
    """The axes number `axes` of a file."""

    def __init__(self, path, axes=1):
        self.root = root = ElementTree.parse(path).getroot()
        self.axes = next(g for g in root.iter(f"{SVG}g") if g.get("id") == f"axes_{axes}")
        self.x_scale = self._scale("xtick", "x")
        self.y_scale = self._scale("ytick", "y")

    def _group(self, name):
        for place in (self.axes, self.root):  # a legend can belong to the whole figure
            for group in place.iter(f"{SVG}g"):
                if re.fullmatch(name, group.get("id", "")):
                    return group
        raise AssertionError(f"the file has no {name}")

    def _scale(self, kind, coordinate):
        """Slope and intercept from pixels to data, by the tick marks and their labels."""
        pixels, numbers = [], []
        for group in self.axes.iter(f"{SVG}g"):
            if re.fullmatch(rf"{kind}_\d+", group.get("id", "")):
                mark = next(group.iter(f"{SVG}use"))
                pixels.append(float(mark.get(coordinate)))
                numbers.append(number(next(group.iter(f"{SVG}text")).text))
        assert len(pixels) >= 2, "an axis needs two ticks to be read"
        slope, intercept = np.polyfit(pixels, numbers, 1)
        # The labels are what a reader sees: they must be on one straight line.
        np.testing.assert_allclose(
            np.polyval([slope, intercept], pixels), numbers, atol=1e-4 * np.ptp(numbers)
        )
        return slope, intercept

    def _data(self, points):
        return (
            np.polyval(self.x_scale, points[:, 0]),
            np.polyval(self.y_scale, points[:, 1]),
        )

    def curve(self, i):
        """x and y of the line number i."""
        (path,) = self._group(f"curve-{i}").iter(f"{SVG}path")
        return self._data(vertices(path.get("d")))

    def band(self, i):
        """x, lower and upper edge of the shade number i."""
        group = self._group(f"band-{i}")
        (path,) = group.iter(f"{SVG}path")
        (use,) = group.iter(f"{SVG}use")
        assert use.get(LINK) == f"#{path.get('id')}"
        x, y = self._data(
            vertices(path.get("d")) + [float(use.get("x")), float(use.get("y"))],
        )
        x = np.round(x, 6)
        at = np.array(sorted(set(x)))
        return (
            at,
            np.array([y[np.isclose(x, v, atol=1e-3)].min() for v in at]),
            np.array([y[np.isclose(x, v, atol=1e-3)].max() for v in at]),
        )

    def legend(self):
        """Condition -> number of the curve in the same color and dashes."""
        group = self._group(r"legend_\d+")
        strokes = [stroke(p) for p in group.iter(f"{SVG}path") if "stroke" in p.get("style", "")]
        labels = [t.text.strip() for t in group.iter(f"{SVG}text")]
        curves = {}
        for g in self.axes.iter(f"{SVG}g"):
            match = re.fullmatch(r"curve-(\d+)", g.get("id", ""))
            if match:
                curves[stroke(next(g.iter(f"{SVG}path")))] = int(match[1])
        return {condition(n): curves[s] for n, s in zip(labels, strokes, strict=True)}

    def texts(self):
        """Everything that is written in the axes."""
        return [t.text for t in self.axes.iter(f"{SVG}text")]


def condition(label):
    """A label without its number of seeds."""
    return re.sub(r" \(\d+( to \d+)? (seed|run)s?\)$", "", label)


def stroke(path):
    """Color and dashes."""
    style = dict(part.strip().split(": ") for part in path.get("style").split(";") if part.strip())
    return style["stroke"], style.get("stroke-dasharray")


def vertices(d):
    """The points of a path."""
    pairs = re.findall(r"[ML] (-?[\d.e-]+) (-?[\d.e-]+)", d)
    return np.array(pairs, dtype=float)


def number(label):
    """1.5M -> 1500000."""
    text = label.strip().replace("\N{MINUS SIGN}", "-")
    factor = FACTORS.get(text[-1])
    return float(text[:-1]) * factor if factor else float(text)

"""Draw the figures of the documentation from the data in the repository: `make figures`.

Each figure is a small SVG file whose colors follow the reader's light or dark theme: by the
system's setting where the file is shown as an image (GitHub), and by the site's own switch where
docs/build.py puts the file into the page. The files are committed; a test draws them again and
compares. No plotting library is used, so the same data gives the same bytes everywhere.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from html import escape
from pathlib import Path
from statistics import median

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parents[1]))

from docs import galleries  # noqa: E402

RESULTS = FOLDER.parents[1] / "benchmarks/results"
ALGORITHMS = ("reinforce", "vpg", "trpo", "ppo", "ddpg", "td3", "sac", "dqn", "acer", "her")

# Okabe and Ito's colors, lighter on dark backgrounds. The site has its own, in site.css.
STYLE = """
.fig{--ink:#1f2328;--soft:#59636e;--rule:#d1d9e0;--box:#f6f8fa;--a:#0072b2;--b:#c24e00;--c:#00795a}
@media(prefers-color-scheme:dark){
.fig{--ink:#e6edf3;--soft:#a3adb8;--rule:#3d444d;--box:#1c2129;--a:#58b4f0;--b:#ff9d5c;--c:#45d0a4}}
.fig text{fill:var(--ink);font:13px system-ui,sans-serif}
.fig .soft{fill:var(--soft);font-size:12px}
.fig .head{font-weight:600}
.fig path,.fig line{fill:none;stroke:var(--rule);stroke-width:1}
.fig rect{fill:var(--box);stroke:var(--rule)}
.fig .a{stroke:var(--a);stroke-width:2}.fig .b{stroke:var(--b);stroke-width:2}
.fig .c{stroke:var(--c);stroke-width:2}.fig .ruled{stroke:var(--soft)}
.fig .dash{stroke-dasharray:5 4;stroke-width:1.5}
.fig .fa{fill:var(--a);stroke:none}.fig .fb{fill:var(--b);stroke:none}
.fig .fc{fill:var(--c);stroke:none}.fig .band{fill:var(--a);stroke:none;opacity:.22}
.fig text.ta{fill:var(--a)}.fig text.tb{fill:var(--b)}.fig text.tc{fill:var(--c)}
""".strip()

Point = tuple[float, float]


def number(value: float) -> str:
    """Return a coordinate with at most one digit after the point."""
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")


def short(value: float) -> str:
    """Return the label of a tick: 50k, 1M, 0.5."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Return round numbers between two values."""
    rough = (high - low) / count
    size = 10 ** math.floor(math.log10(rough))
    step = next(size * m for m in (1, 2, 5, 10) if size * m >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [
        round(i * step, 10) for i in range(first, first + 20) if i * step <= high + 1e-9 * abs(step)
    ]


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    """Return a line of text."""
    name = f' class="{kind}"' if kind else ""
    where = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{number(x)}" y="{number(y)}"{name}{where}>{escape(words)}</text>'


def figure(width: float, height: float, title: str, parts: Iterable[str]) -> str:
    """Return a whole SVG file."""
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="fig" viewBox="0 0 {width:g} {height:g}" '
        f'role="img">\n<title>{escape(title)}</title>\n<style>\n{STYLE}\n</style>\n{body}\n</svg>\n'
    )


class Panel:
    """A pair of axes at a place in a figure."""

    def __init__(
        self, left: float, top: float, width: float, height: float, x: Point, y: Point
    ) -> None:
        self.left, self.top, self.width, self.height = left, top, width, height
        self.x, self.y = x, y
        self.parts: list[str] = []

    def at(self, x: float, y: float) -> Point:
        """Return where a point of the data is drawn."""
        (x0, x1), (y0, y1) = self.x, self.y
        return (
            self.left + self.width * (x - x0) / (x1 - x0),
            self.top + self.height * (1 - (y - y0) / (y1 - y0)),
        )

    def path(self, points: Sequence[Point]) -> str:
        return "M" + "L".join(f"{number(a)} {number(b)}" for a, b in (self.at(*p) for p in points))

    def axes(
        self,
        title: str = "",
        xlabel: str = "",
        ylabel: str = "",
        xticks: Sequence[float] | None = None,
    ) -> None:
        """Draw rules and labels."""
        right, bottom = self.left + self.width, self.top + self.height
        for value in ticks(*self.y):
            _, y = self.at(self.x[0], value)
            self.parts.append(
                f'<line x1="{number(self.left)}" y1="{number(y)}" x2="{number(right)}" '
                f'y2="{number(y)}"/>'
            )
            self.parts.append(text(self.left - 6, y + 4, short(value), "soft", "end"))
        for value in ticks(*self.x) if xticks is None else xticks:
            x, _ = self.at(value, self.y[0])
            self.parts.append(text(x, bottom + 16, short(value), "soft", "middle"))
        if title:
            self.parts.append(text(self.left, self.top - 8, title, "head"))
        if xlabel:
            self.parts.append(text(right, bottom + 32, xlabel, "soft", "end"))
        if ylabel:
            self.parts.append(text(self.left - 30, self.top - 8, ylabel, "soft"))

    def line(self, points: Sequence[Point], kind: str) -> None:
        self.parts.append(f'<path class="{kind}" d="{self.path(points)}"/>')

    def band(self, low: Sequence[Point], high: Sequence[Point]) -> None:
        outline = self.path([*low, *reversed(high)])
        self.parts.append(f'<path class="band" d="{outline}Z"/>')

    def runs(self, steps: Sequence[float], rows: Sequence[Sequence[float]]) -> None:
        """Draw the median of several runs and the range between them."""
        if rows:
            pairs = list(zip(steps, rows, strict=True))
            self.band([(x, min(row)) for x, row in pairs], [(x, max(row)) for x, row in pairs])
            self.line([(x, median(row)) for x, row in pairs], "a")

    def dots(self, points: Iterable[Point], kind: str) -> None:
        for point in points:
            x, y = self.at(*point)
            self.parts.append(f'<circle class="{kind}" cx="{number(x)}" cy="{number(y)}" r="3.5"/>')


# ---------------------------------------------------------------------------------- learning curves


def load(name: str) -> dict:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def learned(algo: str) -> list[dict]:
    """Return an algorithm's results, the easy tasks first."""
    found = [load(f"learn/{path.name}") for path in RESULTS.glob(f"learn/{algo}-*.json")]
    return sorted(found, key=lambda result: (result["steps"], result["env"]))


def curves(result: dict) -> tuple[list[float], list[list[float]]]:
    """Return the steps, and the returns of all seeds after these steps."""
    per_epoch = result["hyperparameters"].get("steps_per_epoch", 4000)
    every = max(1, result["steps"] // per_epoch // 25)
    rows = list(zip(*(run["training_curve"] for run in result["runs"]), strict=True))
    kept = [(i, row) for i, row in enumerate(rows) if None not in row]
    return [(i + 1) * every * per_epoch for i, _ in kept], [list(row) for _, row in kept]


def learning(algo: str) -> str:
    """One panel per task: the median of three seeds, the range between them, and the goals."""
    results = learned(algo)
    columns = min(2, len(results))
    parts = []
    for i, result in enumerate(results):
        steps, rows = curves(result)
        goals = [] if algo == "her" else [result["pass_value"], result["stretch_value"]]
        ends = [] if algo == "her" else result["returns"]
        values = [value for row in rows for value in row] + goals + ends
        margin = 0.05 * (max(values) - min(values))
        panel = Panel(
            62 + 360 * (i % columns),
            30 + 230 * (i // columns),
            278,
            150,
            (0, result["steps"]),
            (min(values) - margin, max(values) + margin),
        )
        panel.axes(result["env"], "environment steps" if i == 0 else "")
        for goal, kind in zip(goals, ("c dash", "b dash"), strict=False):
            panel.line([(0, goal), (result["steps"], goal)], kind)
        panel.runs(steps, rows)
        if not rows:
            words = "no episode ended in the recorded epochs"
            panel.parts.append(text(panel.left + 8, panel.top + 76, words, "soft"))
        panel.dots([(result["steps"], end) for end in ends], "fa")
        parts += panel.parts
    height = 230 * math.ceil(len(results) / columns)
    keys = [(62, "ta", "median and range of 3 seeds")]
    if algo != "her":
        keys += [(265, "tc", "- - pass"), (340, "tb", "- - stretch"), (430, "ta", "● final policy")]
    parts += [text(x, height + 16, words, kind) for x, kind, words in keys]
    title = f"Training returns of {algo.upper()} on {', '.join(r['env'] for r in results)}"
    return figure(max(62 + 360 * columns - 10, 560), height + 28, title, parts)


TASKS = {
    "CartPole-v1": "CartPole",
    "Acrobot-v1": "Acrobot",
    "Pendulum-v1": "Pendulum",
    "InvertedPendulum-v5": "Inv. pendulum",
    "Hopper-v5": "Hopper",
    "HalfCheetah-v5": "HalfCheetah",
    "spinup/BitFlip-v0": "BitFlip",
}


def overview() -> str:
    """All algorithms (rows) on all tasks (columns)."""
    results = {(r["algo"], r["env"]): r for algo in ALGORITHMS for r in learned(algo)}
    parts = []
    for j, (env, name) in enumerate(TASKS.items()):
        parts.append(text(96 + 92 * j, 18, name, "soft"))
        shown = [r for (_, e), r in results.items() if e == env]
        values = [v for r in shown for row in curves(r)[1] for v in row]
        for i, algo in enumerate(ALGORITHMS):
            if j == 0:
                parts.append(text(8, 58 + 56 * i, algo, "head"))
            left, top = 96 + 92 * j, 28 + 56 * i
            parts.append(f'<rect x="{left}" y="{top}" width="84" height="48" rx="3"/>')
            result = results.get((algo, env))
            if result is None:
                continue
            steps, rows = curves(result)
            y = (min(values), max(values))
            panel = Panel(left + 4, top + 4, 76, 40, (0, result["steps"]), y)
            panel.runs(steps, rows)
            parts += panel.parts
    title = "Training returns of the ten algorithms on seven tasks"
    return figure(744, 36 + 56 * len(ALGORITHMS), title, parts)


def gallery(algo: str) -> str:
    """Columns of an algorithm's healthy runs (rows) in its environments (columns)."""
    tasks = galleries.corpus(algo)
    metrics = galleries.GALLERY[algo]
    left, gap = 14 + 8 * max(len(metric.column) for metric in metrics), 12
    width = min(320.0, (744 - left - gap * len(tasks)) / len(tasks))
    parts = []
    for j, (env, runs) in enumerate(tasks.items()):
        x = left + (width + gap) * j
        steps = runs[0]["TotalEnvInteracts"][-1]
        name = galleries.plain(env).replace("InvertedPendulum", "Inv. pend.")
        parts += [
            text(x, 16, name, "head"),
            text(x, 32, f"{short(steps)} steps", "soft"),
        ]
        for i, metric in enumerate(metrics):
            top = 42 + 82 * i
            if j == 0:
                parts.append(text(0, top + 32, metric.column, "head"))
            parts.append(
                f'<rect x="{number(x)}" y="{top}" width="{number(width)}" height="54" rx="3"/>'
            )
            curves = [galleries.binned(run[metric.column], metric.within) for run in runs]
            rows = [
                (k + 0.5, [v for v in row if math.isfinite(v)])
                for k, row in enumerate(zip(*curves, strict=True))
            ]
            known = [(k, row) for k, row in rows if row]
            values = [value for _, row in known for value in row]
            low, high = min(values), max(values)
            margin = (high - low) * 0.05 or 1
            panel = Panel(
                x + 3, top + 4, width - 6, 46, (0, len(rows)), (low - margin, high + margin)
            )
            panel.runs([k for k, _ in known], [row for _, row in known])
            parts += panel.parts
            parts.append(text(x, top + 69, galleries.span(low, high, 1e-3), "soft"))
    title = f"Columns of healthy runs of {algo.upper()} on {', '.join(tasks)}"
    return figure(744, 42 + 82 * len(metrics), title, parts)


# ------------------------------------------------------------------------------------ the benchmark


def bench(env: str) -> str:
    """One panel per algorithm, all with the same scale: the median and the range of the seeds."""
    order = ("vpg", "trpo", "ppo", "ddpg", "td3", "sac")
    found = [(a, RESULTS / f"bench/{a}-{env}.json") for a in order]
    results = [(algo, load(f"bench/{path.name}")) for algo, path in found if path.exists()]
    shown = []
    for algo, result in results:
        rows = list(zip(*(run["curve"]["returns"] for run in result["runs"]), strict=True))
        steps = result["runs"][0]["curve"]["steps"]
        kept = [(x, list(row)) for x, row in zip(steps, rows, strict=True) if None not in row]
        shown.append((algo, result, [x for x, _ in kept], [row for _, row in kept]))
    ends = [run["return"] for _, result in results for run in result["runs"]]
    values = [value for *_, rows in shown for row in rows for value in row] + ends
    margin = 0.05 * (max(values) - min(values))
    columns = min(3, len(shown))
    parts = []
    for i, (algo, result, steps, rows) in enumerate(shown):
        panel = Panel(
            62 + 236 * (i % columns),
            30 + 190 * (i // columns),
            180,
            120,
            (0, result["steps"]),
            (min(values) - margin, max(values) + margin),
        )
        panel.axes(algo, "environment steps" if i == 0 else "", xticks=[0, result["steps"]])
        panel.runs(steps, rows)
        panel.dots([(result["steps"], run["return"]) for run in result["runs"]], "fa")
        parts += panel.parts
    height = 190 * math.ceil(len(shown) / columns)
    parts.append(text(62, height + 16, "median and range of the seeds", "ta"))
    parts.append(text(292, height + 16, "● final policies", "ta"))
    title = f"Training returns on {env}: {', '.join(algo for algo, *_ in shown)}"
    return figure(max(62 + 236 * columns, 560), height + 28, title, parts)


def bench_figures() -> dict[str, Callable[[], str]]:
    """Return the figures of the environments that have been trained."""
    envs = sorted({path.stem.partition("-")[2] for path in RESULTS.glob("bench/*.json")})
    return {f"bench-{env.partition('-')[0]}": partial(bench, env) for env in envs}


# -------------------------------------------------------------------------------------------- speed


def speed() -> str:
    """Steps per second of one of two runs side by side, relative to Stable-Baselines3."""
    found = load("peers.json")["sweep"]["algorithms"]
    kinds = {"ours": ("fa", "ta"), "SBX": ("fb", "tb"), "SB3": ("fc", "tc")}
    parts, y = [], 34.0
    rates = [result["steps_per_second"] for result in found.values()]
    most = max(rate[kind] / rate["SB3"] for rate in rates for kind in kinds if kind in rate)
    for algo, result in found.items():
        parts.append(text(8, y + 24, algo, "head"))
        rates = result["steps_per_second"]
        for kind, (bar, _) in kinds.items():
            if kind in rates:
                ratio = rates[kind] / rates["SB3"]
                width = 430 * ratio / most
                parts.append(
                    f'<rect class="{bar}" x="120" y="{number(y)}" width="{number(width)}" '
                    f'height="14"/>'
                )
                words = f"{ratio:.2f} ({rates[kind]:.0f} steps/s)"
                parts.append(text(128 + width, y + 12, words, "soft"))
                y += 18
        y += 14
    keys = zip((120, 200, 280), kinds, strict=True)
    parts += [text(x, 18, f"■ {kind}", kinds[kind][1]) for x, kind in keys]
    return figure(740, y, "Training speed relative to Stable-Baselines3, one run per core", parts)


def scaling() -> str:
    """Speedup by more processes: measured with two, predicted beyond."""
    found = load("scaling.json")
    predicted = found["model"]["predicted"]
    top = math.log2(1024)
    panel = Panel(60, 34, 520, 270, (0, top), (0, top))
    for power in range(0, 11, 2):
        _, y = panel.at(0, power)
        x, _ = panel.at(power, 0)
        panel.parts += [
            f'<line x1="60" y1="{number(y)}" x2="580" y2="{number(y)}"/>',
            text(54, y + 4, str(2**power), "soft", "end"),
            text(x, 320, str(2**power), "soft", "middle"),
        ]
    panel.parts += [
        text(580, 338, "processes", "soft", "end"),
        text(8, 18, "times as fast as one process"),
    ]
    panel.line([(0, 0), (top, top)], "ruled dash")
    for batch, kind in (("larger_epoch", "a"), ("same_epoch", "b")):
        points = [(0.0, 0.0)]
        points += [(math.log2(r["procs"]), math.log2(r["measured"][batch])) for r in predicted]
        panel.line(points, kind)
    measured = found["training"]["ppo"]["speedup"]["median"]
    panel.dots([(1, math.log2(measured))], "fc")
    panel.parts += [
        text(90, 60, "- - perfect", "soft"),
        text(90, 80, "predicted, 4096 steps per process and epoch", "ta"),
        text(90, 100, "predicted, 4096 steps per epoch, shared by all", "tb"),
        text(90, 120, f"● measured: PPO, two processes: {measured:.2f}", "tc"),
    ]
    title = "Speedup of PPO by several processes: measured with two, predicted beyond"
    return figure(600, 348, title, panel.parts)


# ------------------------------------------------------------------------------------------ theory


def ppo_clip(epsilon: float = 0.2) -> str:
    """PPO's objective for one action, as a function of the probability ratio."""
    parts = []
    for i, (advantage, title) in enumerate(((1, "good action, A > 0"), (-1, "bad action, A < 0"))):
        span = (0, 2) if advantage > 0 else (-2, 0)
        panel = Panel(50 + 350 * i, 34, 280, 200, (0, 2), span)
        panel.axes(title, "ratio of probabilities, new / old", xticks=(0, 0.5, 1, 1.5, 2))
        edge = 1 + epsilon * advantage
        low, high = panel.y
        panel.line([(edge, low), (edge, high)], "ruled dash")
        panel.line([(0, 0), (2, 2 * advantage)], "b dash")
        ratios = sorted({0.0, edge, 2.0})
        clipped = [
            (r, min(r * advantage, max(1 - epsilon, min(1 + epsilon, r)) * advantage))
            for r in ratios
        ]
        panel.line(clipped, "a")
        x, y = panel.at(1, advantage)
        panel.parts.append(f'<circle class="fa" cx="{number(x)}" cy="{number(y)}" r="4.5"/>')
        parts += panel.parts
    parts += [
        text(50, 290, "— clipped objective", "ta"),
        text(200, 290, "- - without clipping", "tb"),
        text(360, 290, "● before the first step: ratio 1, same slope", "ta"),
    ]
    return figure(700, 302, "PPO's clipped objective for a good and a bad action", parts)


def gae_errors(lam: float, gamma: float = 0.99, noise: float = 0.15) -> tuple[float, float]:
    """Return bias and standard deviation of an advantage estimate on a chain of five states.

    The right action earns 1 after the fifth state, the wrong one 0, and every reward has noise. The
    critic has learned half of what is to come. Estimated is the difference between the actions; the
    value of the first state, which both share, cancels.
    """
    values = [0.0] + [0.5 * gamma ** (4 - t) for t in range(1, 5)] + [0.0]
    rewards = [0.0, 0.0, 0.0, 0.0, 1.0]
    deltas = [r + gamma * values[t + 1] - values[t] for t, r in enumerate(rewards)]
    weights = [(gamma * lam) ** t for t in range(5)]
    expected = sum(w * d for w, d in zip(weights, deltas, strict=True))
    spread = noise * math.sqrt(2 * sum(w * w for w in weights))  # two actions, independent noise
    return expected - gamma**4, spread


def gae() -> str:
    """Bias, standard deviation and total error of GAE by lambda."""
    lams = [i / 50 for i in range(51)]
    errors = [gae_errors(lam) for lam in lams]
    total = [math.hypot(bias, spread) for bias, spread in errors]
    panel = Panel(60, 34, 500, 230, (0, 1), (0, 1))
    panel.axes("", "λ")
    panel.line([(lam, -bias) for lam, (bias, _) in zip(lams, errors, strict=True)], "b")
    panel.line([(lam, spread) for lam, (_, spread) in zip(lams, errors, strict=True)], "c")
    panel.line(list(zip(lams, total, strict=True)), "a")
    best = min(range(len(lams)), key=total.__getitem__)
    panel.dots([(lams[best], total[best])], "fa")
    panel.parts += [
        text(60, 18, "size of the error of an advantage estimate"),
        text(60, 318, "bias", "tb"),
        text(120, 318, "standard deviation", "tc"),
        text(270, 318, f"both together, smallest at λ = {lams[best]:.2f}", "ta"),
    ]
    title = "Bias and standard deviation of GAE on a chain of five states, computed exactly"
    return figure(580, 330, title, panel.parts)


def taxonomy() -> str:
    """Where the ten algorithms belong, and which grew out of which."""
    parts = []

    def box(x: float, y: float, words: str, below: str, width: float = 116) -> None:
        parts.append(
            f'<rect x="{number(x)}" y="{number(y)}" width="{width:g}" height="44" rx="6"/>'
        )
        parts.append(text(x + width / 2, y + 19, words, "head", "middle"))
        parts.append(text(x + width / 2, y + 36, below, "soft", "middle"))

    def arrow(x0: float, y0: float, x1: float, y1: float, dashed: bool = False) -> None:
        kind = "ruled dash" if dashed else "ruled"
        way = f"M{number(x0)} {number(y0)}L{number(x1)} {number(y1)}"
        parts.append(f'<path class="{kind}" d="{way}"/>')
        angle = math.atan2(y1 - y0, x1 - x0)
        tips = [(x1 - 7 * math.cos(angle + d), y1 - 7 * math.sin(angle + d)) for d in (0.5, -0.5)]
        (a, b), (c, d) = tips
        parts.append(
            f'<path class="ruled" d="M{number(a)} {number(b)}L{number(x1)} {number(y1)}'
            f'L{number(c)} {number(d)}"/>'
        )

    parts.append(text(20, 24, "On-policy: learn from the current policy's data", "ta"))
    parts.append(text(390, 24, "Off-policy: learn from a replay buffer", "tb"))
    box(20, 44, "REINFORCE", "returns")
    box(20, 124, "VPG", "+ value function")
    box(20, 204, "TRPO", "+ bounded step")
    box(176, 204, "PPO", "+ clipped steps")
    arrow(78, 88, 78, 124)
    arrow(78, 168, 78, 204)
    arrow(120, 168, 200, 204)
    box(390, 44, "DQN", "max over actions")
    box(546, 44, "DDPG", "continuous max", 124)
    box(546, 124, "TD3", "+ two critics", 124)
    box(546, 204, "SAC", "+ entropy", 124)
    arrow(506, 66, 546, 66)
    arrow(608, 88, 608, 124)
    arrow(608, 168, 608, 204)
    box(284, 124, "ACER", "both kinds of data", 132)
    arrow(136, 146, 284, 146)
    arrow(430, 88, 380, 124)
    box(390, 284, "HER", "relabels goals for DQN, DDPG, TD3 or SAC", 280)
    arrow(448, 284, 448, 88, dashed=True)
    arrow(608, 284, 608, 248, dashed=True)
    parts.append(text(20, 306, "arrow: adds one idea", "soft"))
    parts.append(text(20, 324, "dashed: works on top of", "soft"))
    return figure(690, 340, "The ten algorithms: families, and which grew out of which", parts)


FIGURES: dict[str, Callable[[], str]] = {
    **{f"learn-{algo}": (lambda algo=algo: learning(algo)) for algo in ALGORITHMS},
    **{f"gallery-{algo}": (lambda algo=algo: gallery(algo)) for algo in ALGORITHMS},
    "overview": overview,
    "speed": speed,
    "scaling": scaling,
    "ppo-clip": ppo_clip,
    "gae": gae,
    "taxonomy": taxonomy,
    **bench_figures(),
}


def main() -> int:
    for name, draw in FIGURES.items():
        (FOLDER / f"{name}.svg").write_text(draw(), encoding="utf-8", newline="\n")
        print(f"docs/figures/{name}.svg")
    return galleries.main()


if __name__ == "__main__":
    sys.exit(main())

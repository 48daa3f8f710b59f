"""Tables of measurements in the algorithms' READMEs, which `make figures` writes.

    python docs/galleries.py

"Healthy values" are those of the runs in benchmarks/results/corpus; what it means to be outside of
a range is written here. The effects of details are from benchmarks/results/details.json. A test
compares the READMEs with the data.
"""

from __future__ import annotations

import functools
import math
import re
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT / "benchmarks/results/corpus"
ALGORITHMS = ("reinforce", "vpg", "trpo", "ppo", "ddpg", "td3", "sac", "dqn", "acer", "her")
sys.path.insert(0, str(ROOT))

from benchmarks import details  # noqa: E402

UP = "../../../.."  # from a README to the top of the repository
BINS = 20  # points per curve
SHARE = 0.9  # of the epochs are inside the range
NARROW = "\u00a0"  # a space at which no line ends


@dataclass(frozen=True)
class Metric:
    """A column of a gallery.

    Attributes:
        column: its name in progress.txt or diagnostics.txt.
        outside: what a value outside of the range suggests.
        rules: the rules of doctor that watch it.
        scaled: whether it grows with the rewards, so that each environment has its own range.
        end: whether only the last fifth of a run counts, as for the return.
        within: limits of what is drawn; values beyond are drawn at the limit.
    """

    column: str
    outside: str
    rules: tuple[str, ...] = ()
    scaled: bool = False
    end: bool = False
    within: tuple[float, float] = (-math.inf, math.inf)


def curve(column: str = "AverageEpRet", more: str = "") -> Metric:
    text = (
        "Flat from the start: read the other rows first, they name causes. Rises and then falls for good: "
        "the updates are too large" + more
    )
    return Metric(column, text, ("S1", "S2"), scaled=True, end=True)


ENTROPY = Metric(
    "Entropy",
    "Does not move: the policy gets no gradient. Near its smallest value before the return has risen: it stopped "
    "exploring too early; take smaller steps (`pi_lr`, in TRPO `delta`). Grows while the return is flat: noise, or the sign of a bonus",
    ("S14", "S15", "S16", "X7"),
    scaled=True,
)
EXPLAINED = Metric(
    "ExplVarOld",
    "Near 0 while returns still vary: the value function has learned nothing; raise `train_v_iters` or `vf_lr`. Far "
    "below 0 *after* the task is solved is healthy: if all returns are equal, there is no variance to explain",
    ("S18", "X17"),
    scaled=True,
    within=(-1.0, 1.0),
)
VALUE_LOSS = Metric(
    "LossV",
    "Grows with the square of the returns, so compare it with your own earlier epochs. Never falls while the return "
    "stands still: the value function does not fit; look at `ExplVarOld`",
    ("S17", "S18"),
    scaled=True,
)
VALUES = Metric(
    "AverageVVals",
    "Above what the discount allows, 1 / (1 - gamma) times the largest reward: values leak across the ends of "
    "episodes. Near 0: the value function is fitted to something else",
    ("S19", "S20"),
    scaled=True,
)
GAIN = Metric(
    "SurrGain",
    "Below 0 in most epochs: the update makes good actions less likely; check the sign of the loss. Single negative "
    "epochs are noise, above all once every return is the same",
    ("X19",),
)
POLICY_GRADIENT = Metric(
    "GradNormPi",
    "Exactly 0: nothing reaches the policy. Many times larger than at the start: advantages are not normalized, or "
    "the policy has become nearly deterministic",
    ("C1",),
)
LOSS_Q = Metric(
    "LossQ",
    "Explodes together with Q: training diverges; lower the learning rate or raise `polyak`. NaN to the end: no "
    "update was made",
    ("S22", "S32"),
    scaled=True,
)
Q_BIAS = Metric(
    "QBias",
    "Far above 0 for many epochs: the critic promises more than the policy earns. Check the `done` mask and the "
    "target first, then overestimation",
    ("S21", "R3"),
    scaled=True,
)
TD_ERROR = Metric(
    "TDErrAbs",
    "Grows without end: diverges. Falls to 0 while the return is flat: the critic agrees with itself and has nothing "
    "to learn, as with a reward that never changes",
    ("S22", "S23"),
    scaled=True,
)
CLIPPED = Metric(
    "ActClipped",
    "Near 1: the policy has run into the bounds and gets no gradient there; look at the scale of rewards and "
    "observations",
    ("C7",),
)
DRIFT = Metric(
    "TargDrift",
    "0: the target is the network itself. Large and growing: the target does not follow; check the direction of "
    "`polyak`",
    ("C3", "C4"),
)


def q_values(column: str, more: str = "") -> Metric:
    text = (
        "Above the best discounted return: the backup ignores ends of episodes, or overestimates. Runs away: lower "
        "the learning rate. Constant: the critic cannot tell anything apart" + more
    )
    return Metric(column, text, ("S21", "S22", "S23"), scaled=True)


def kl(outside: str, *rules: str) -> Metric:
    return Metric("KL", outside, rules)


ONE_STEP_KL = kl(
    "0 from the first epoch on: the policy gets no gradient. Above 0.2, and the return drops afterwards: lower "
    "`pi_lr`. Tiny values *after* the task is solved are healthy: equal returns leave nothing to learn",
    "S8",
    "S9",
)

GALLERY: dict[str, tuple[Metric, ...]] = {
    "reinforce": (
        curve(more="; lower `pi_lr`"),
        Metric(
            "Baseline",
            "Does not follow the return: it must be the mean of this epoch's rewards-to-go",
            ("X18",),
            scaled=True,
        ),
        ONE_STEP_KL,
        ENTROPY,
        POLICY_GRADIENT,
        GAIN,
    ),
    "vpg": (
        curve(more="; lower `pi_lr`"),
        ONE_STEP_KL,
        ENTROPY,
        EXPLAINED,
        VALUE_LOSS,
        VALUES,
    ),
    "trpo": (
        curve(more="; lower `delta`"),
        kl(
            "Above `delta`: the constraint is not enforced. Below a third of it: the steps are too short, or the line "
            "search fails",
            "X4",
            "S39",
        ),
        Metric(
            "BacktrackIters",
            "Equal to `backtrack_iters`: no step was accepted. Above 1 in most epochs: the direction is bad; raise "
            "`cg_iters` or `damping_coeff`",
            ("S13",),
        ),
        ENTROPY,
        EXPLAINED,
        GAIN,
    ),
    "ppo": (
        curve(more="; lower `pi_lr` or set `target_kl`"),
        kl(
            "0: the policy gets no gradient. Above 3 `target_kl`, or 0.3 without one: too many or too large steps; "
            "lower `pi_lr`",
            "S8",
            "S9",
        ),
        Metric(
            "ClipFrac",
            "Always 0: the policy hardly changes, raise `pi_lr`. Above 0.5 to the end: most of the batch no longer has a "
            "gradient; fewer passes or a lower `pi_lr`",
            ("S8", "S11"),
        ),
        ENTROPY,
        EXPLAINED,
        VALUE_LOSS,
    ),
    "ddpg": (
        curve("AverageTestEpRet", "; lower the learning rates"),
        q_values("AverageQVals"),
        LOSS_Q,
        Q_BIAS,
        CLIPPED,
        DRIFT,
    ),
    "td3": (
        curve("AverageTestEpRet", "; lower the learning rates"),
        q_values("AverageQ1Vals"),
        LOSS_Q,
        Q_BIAS,
        CLIPPED,
        DRIFT,
    ),
    "sac": (
        curve("AverageTestEpRet", "; lower `lr`"),
        q_values("AverageQ1Vals", ". Remember that Q contains the future entropy bonus"),
        Metric(
            "AverageLogPi",
            "Its negative, the entropy, is above the sum of log(high - low): not a density on the actions. Rises "
            "steeply at once: the temperature is too small for these rewards. Stays at its start: too large. With a "
            "learned temperature, far from its target at the end: sign of the temperature's loss, or the target",
            ("X5", "S26", "S27", "S28"),
            scaled=True,
        ),
        LOSS_Q,
        Q_BIAS,
        DRIFT,
    ),
    "dqn": (
        curve(more="; lower `q_lr`, or update the target more slowly"),
        q_values("AverageQVals"),
        LOSS_Q,
        TD_ERROR,
        DRIFT,
        Metric(
            "DeadUnits",
            "Most of the units are stuck: the learning rate or the scale of the observations is too large",
            ("C6",),
        ),
    ),
    "acer": (
        curve("AverageTestEpRet", "; lower `pi_lr` or `delta`"),
        q_values("AverageQVals"),
        replace(
            LOSS_Q,
            outside="Explodes together with Q: training diverges; lower `q_lr`, `lam` or `replay_ratio`. NaN to the "
            "end: no update was made",
        ),
        kl(
            "Only grows: the average policy does not follow, or the policy moves too fast; lower `pi_lr` or `delta`. "
            "0: the policy gets no gradient",
            "S38",
        ),
        Metric(
            "ClipFrac",
            "Above 0.2: the replayed data is too old for this policy; use a smaller `replay_size` or `pi_lr`",
            ("S31",),
        ),
        Metric(
            "Entropy",
            "Near 0 before the return has risen: it stopped exploring too early; raise `ent_coef` or lower `pi_lr`. "
            "Constant is right for continuous actions only, whose standard deviation is fixed",
            ("X10",),
            scaled=True,
        ),
    ),
    "her": (
        Metric(
            "TestSuccessRate",
            "Still 0 after a third of the run: relabeled copies have the wrong reward or goal, or the goal is out of "
            "reach",
            ("S29",),
            end=True,
        ),
        Metric(
            "SuccessRate", "As `TestSuccessRate`, with exploration, and usually below it", ("S29",)
        ),
        Metric(
            "AverageQVals",
            "Above 0 with rewards of -1 and 0, before goals are reached: a copy's reward or `done` is wrong. A little above "
            "0 where every goal is reached is an overestimate, and harmless. Stays at -1 / (1 - gamma): no success has "
            "ever been replayed",
            ("S30", "S29"),
            scaled=True,
        ),
        LOSS_Q,
        Q_BIAS,
        DRIFT,
    ),
}


# --------------------------------------------------------------------------------------------- data

Table = dict[str, list[float]]


def read(path: Path | zipfile.Path) -> Table:
    """Return the columns of a table."""
    header, *rows = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
    return {name: [float(row[i]) for row in rows] for i, name in enumerate(header)}


def kept_runs(algo: str) -> list[zipfile.Path]:
    """Return the run directories of an algorithm, by name."""
    folders = zipfile.Path(CORPUS / f"{algo}.zip").iterdir()
    return sorted(folders, key=lambda folder: folder.name)


@functools.cache
def corpus(algo: str) -> dict[str, list[Table]]:
    """Return the complete runs of an algorithm: environment -> one table per seed.

    Environments with fewer than three seeds are left out, and short tasks come first.
    """
    found: dict[str, list[Table]] = {}
    for folder in kept_runs(algo):
        env = folder.name.removeprefix(f"{algo}-").rpartition("-s")[0]
        diagnostics = folder / "diagnostics.txt"
        more = read(diagnostics) if diagnostics.exists() else {}
        found.setdefault(env, []).append({**more, **read(folder / "progress.txt")})
    tasks = [
        (runs[0]["TotalEnvInteracts"][-1], env) for env, runs in found.items() if len(runs) > 2
    ]
    return {env: found[env] for _, env in sorted(tasks)}


def late(values: Sequence[float], end: bool) -> list[float]:
    """Return the finite values after the first fifth of a run, or of its last fifth."""
    first = len(values) - max(1, len(values) // 5) if end else len(values) // 5
    return [value for value in values[first:] if math.isfinite(value)]


def quantile(values: Sequence[float], share: float) -> float:
    """Return a quantile, interpolated."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def ranges(algo: str, metric: Metric) -> dict[str, tuple[float, float]]:
    """Return the range of a column in each environment, over all seeds."""
    found = {}
    for env, runs in corpus(algo).items():
        known = [v for run in runs for v in late(run.get(metric.column, []), metric.end)]
        if known:
            edge = (1 - SHARE) / 2
            found[env] = quantile(known, edge), quantile(known, 1 - edge)
    return found


def binned(values: Sequence[float], within: tuple[float, float]) -> list[float]:
    """Return averages over parts of a run; NaN where nothing is known."""
    count = min(BINS, len(values))
    found = []
    for i in range(count):
        part = values[i * len(values) // count : (i + 1) * len(values) // count]
        known = [min(max(v, within[0]), within[1]) for v in part if math.isfinite(v)]
        found.append(math.fsum(known) / len(known) if known else math.nan)
    return found


# -------------------------------------------------------------------------------------------- text


def brief(value: float, least: float = 1e-4) -> str:
    """Return a number with two digits that count: 0.012, 95, -1,300, 3e-9."""
    if value == 0:
        return "0"
    if abs(value) < least:
        digits, _, power = f"{value:.1e}".partition("e")
        return f"{float(digits):g}e{int(power)}"
    places = 1 - math.floor(math.log10(abs(value)))
    rounded = float(round(value, places))
    if rounded.is_integer() or places <= 0:
        return f"{rounded:,.0f}"
    return f"{rounded:.{places}f}".rstrip("0").rstrip(".")


def span(low: float, high: float, least: float = 1e-4) -> str:
    """Return a range in words."""
    ends = brief(low, least), brief(high, least)
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def plain(env: str) -> str:
    """Return an environment's name without its version."""
    return re.sub(r"-v\d+$", "", env)


def healthy(algo: str, metric: Metric) -> str:
    """Return the cell with a column's range."""
    found = ranges(algo, metric)
    if metric.scaled and len(found) > 1:
        tasks = [(plain(env), span(*ends).replace(" ", NARROW)) for env, ends in found.items()]
        return "<br>".join(f"{task}: {words}" for task, words in tasks)
    return span(min(low for low, _ in found.values()), max(high for _, high in found.values()))


def diagnostic(algo: str, column: str) -> bool:
    """Return whether a column is in diagnostics.txt."""
    run = kept_runs(algo)[0] / "progress.txt"
    header, _, _ = run.read_text(encoding="utf-8").partition("\n")
    return column not in header.split("\t")


def gallery(algo: str) -> str:
    """Return the text of the section "Healthy values"."""
    tasks = corpus(algo)
    metrics = GALLERY[algo]
    names = ", ".join(plain(env) for env in tasks)
    stars = {m.column for m in metrics if diagnostic(algo, m.column)}
    note = (
        f" Columns marked † are in [diagnostics.txt]({UP}/docs/run-directory.md#diagnosticstxt)."
        if stars
        else ""
    )
    lines = [
        f"![Columns of healthy runs of {algo.upper()} over training: median and range of three seeds; below each "
        f"panel, its lowest and highest value]({UP}/docs/figures/gallery-{algo}.svg)",
        "",
        f"Three seeds of the {'presets' if len(tasks) > 1 else 'preset'} for {names}, from their first epoch to their last. The table has the range in which nine of "
        "ten epochs were, without the first fifth of a run; for the return, in its last fifth. Ranges of other tasks "
        "and settings differ: a value outside tells you where to look, and the last column which rule of "
        f"[`spinup doctor`]({UP}/docs/debug/doctor.md) looks there for you.{note}",
        "",
        "| metric | healthy range | if it is outside | doctor |",
        "|---|---|---|---|",
    ]
    for metric in metrics:
        mark = " †" if metric.column in stars else ""
        rules = ", ".join(f"[{r}]({UP}/docs/debug/doctor.md#{r.lower()})" for r in metric.rules)
        cell = healthy(algo, metric)
        lines.append(f"| `{metric.column}`{mark} | {cell} | {metric.outside} | {rules} |")
    return "\n".join(lines)


# ------------------------------------------------------------------------- details and their effect


def measured(algo: str) -> bool:
    """Return whether an effect of some detail of an algorithm was measured."""
    return len(details.rows(algo)) > 1


def details_table(algo: str) -> str:
    """Return the text of the section on details: what each changes in a short run."""
    rows = details.rows(algo)
    reference = details.load()[f"{algo}/{details.REFERENCE}"]
    given, run = reference["settings"], reference["runs"]["0"]
    size = f"{given['epochs']} epochs of {given['steps_per_epoch']:,} steps"
    lines = [
        f"One detail is changed at a time, on {given['env']}, {size}, with three seeds. The numbers are `{run['column']}` of the seeds, "
        "averaged over the last fifth of the run and over all of it, which also shows how fast it learned. An effect is *better* or *worse* if "
        "all three seeds are on the same side of all three reference runs; chance alone does that in one case of ten. *Not seen* says that "
        "these runs cannot tell, and *none* that every number is the same. [How it was measured]"
        f"({UP}/benchmarks/README.md#details), with all settings and curves.",
        "",
        "| what is changed | how | last fifth | whole run | effect |",
        "|---|---|---:|---:|---|",
    ]
    for detail, whole, end, seen_whole, seen_end in rows:
        how = ", ".join(f"`{key}={value!r}`" for key, value in detail.change.items())
        if detail.mutant:
            how = f"[{detail.mutant}]({UP}/docs/debug/zoo.md#{detail.mutant})"
        numbers = [", ".join(digits(value) for value in values) for values in (end, whole)]
        said = seen_end if seen_end == seen_whole else f"{seen_end}; whole run: {seen_whole}"
        lines.append(
            f"| {detail.title} | {how or '-'} | {numbers[0]} | {numbers[1]} | {said or '-'} |"
        )
    return "\n".join(lines)


def digits(value: float) -> str:
    """Return a return with three digits that count."""
    return f"{value:.2f}" if abs(value) < 2 else f"{value:.0f}"


# -------------------------------------------------------------------------------------- the READMEs

SECTION = "<!-- {0}: written by `make figures` -->\n\n{1}\n\n<!-- end of {0} -->"


def readme(algo: str) -> Path:
    return ROOT / f"spinup/algos/pytorch/{algo}/README.md"


def placed(text: str, name: str, content: str) -> str:
    """Return a text with new content between a pair of marks."""
    mark = re.compile(rf"<!-- {name}: .*? -->\n.*?<!-- end of {name} -->", re.S)
    if len(mark.findall(text)) != 1:
        raise SystemExit(f"there must be one pair of marks for {name!r}")
    return mark.sub(lambda _: SECTION.format(name, content), text)


def written(algo: str) -> str:
    """Return an algorithm's README as the data wants it."""
    text = placed(readme(algo).read_text(encoding="utf-8"), "gallery", gallery(algo))
    return placed(text, "details", details_table(algo)) if measured(algo) else text


def main() -> int:
    for algo in ALGORITHMS:
        text = written(algo)
        readme(algo).write_text(text, encoding="utf-8", newline="\n")
        print(readme(algo).relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The rows of `diagnostics.txt`, measured when an epoch ends.

On-policy, a row describes the epoch's data and the update that was made with it. Off-policy, it
describes a batch that is drawn from the replay buffer by an RNG of its own. Measuring draws no
number from the run's RNGs and changes no network, so a run learns the same with and without it.
docs/run-directory.md explains every column.

Backends measure the networks: `run.gauges()` returns an object with the methods of `Gauges`. Which
columns a run has is known when its first row is written, and never changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.spaces import Box

from spinup.algos.common.replay import Ring
from spinup.parallel.mpi import chunk_statistics

if TYPE_CHECKING:
    from spinup.algos.common.loop import Loop
    from spinup.runs.run import Run

ROWS = 512  # transitions drawn from the replay buffer, and rows looked at of large data
_LARGE_BYTES = 1 << 24  # data from this size on


class Gauges:
    """What a backend measures; this one measures nothing."""

    def estimates(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return some of `log_ratio`, `val` and `dead` of an on-policy batch, after the update.

        `log_ratio` is log pi_new(a|s) - log pi_old(a|s), of all rows or of some; `dead` says of
        each hidden unit whether no row uses it.
        """
        return {}

    def numbers(
        self, rows: Mapping[str, np.ndarray] | None, tests: Sequence[Any]
    ) -> dict[str, Any]:
        """Return columns; off-policy, of a batch from the replay buffer and the test episodes."""
        return {}


def write_row(loop: Loop, ended: int) -> None:
    """Write the row of the epoch that `loop` has just logged, in which `ended` episodes ended."""
    run, table = loop.run, loop.run.diagnostics
    if table.gauges is None:
        table.gauges = run.gauges() or Gauges()
    row: dict[str, Any] = {"Epoch": run.epoch}
    rows = None
    if run.rollouts:
        row.update(_epoch_columns(run))
        row.update(_update_columns(run, loop.buffer, table.gauges))
    else:
        row["TermShare"] = loop.deaths / ended if ended else math.nan
        row["CutShare"] = 1 - row["TermShare"]
        rows, columns = _replay_columns(run)
        row.update(columns)
    row.update(table.gauges.numbers(rows, loop.tested))
    seconds, steps = run.seconds(), run.total_steps
    row["StepsPerSec"] = (steps - table.steps) / max(seconds - table.seconds, 1e-9)
    table.write(row)
    table.steps, table.seconds = steps, seconds


# ---- statistics ----------------------------------------------------------------------------------


def spread(name: str, chunks: Sequence[Any]) -> dict[str, float]:
    """Return the columns <name>Mean, Std, Min and Max of all shards' values, a chunk per shard."""
    found = chunk_statistics(chunks)
    return {
        f"{name}{what}": x for what, x in zip(("Mean", "Std", "Min", "Max"), found, strict=True)
    }


def mean(chunks: Sequence[Any]) -> float:
    """Return the mean of all shards' values, one chunk per shard; NaN if there are none."""
    return chunk_statistics(chunks)[0]


def explained_variance(rets: Sequence[Any], vals: Sequence[Any]) -> float:
    """Return 1 - var(ret - val) / var(ret): 1 is perfect, 0 is as good as a constant."""
    errors = [np.subtract(ret, val, dtype=np.float64) for ret, val in zip(rets, vals, strict=True)]
    std = chunk_statistics(rets)[1]
    ratio = chunk_statistics(errors)[1] / std if std > 0 else math.nan
    return 1 - ratio * ratio  # which, unlike **, does not raise where it overflows


def ratio_columns(log_ratios: Sequence[np.ndarray]) -> dict[str, float]:
    """Return the columns of the ratios w = pi_new(a|s) / pi_old(a|s), one chunk per shard.

    The effective sample size (sum w)^2 / (n sum w^2) is 1 if all are equal.
    """
    with np.errstate(over="ignore"):
        average, std, low, high = chunk_statistics(
            [np.exp(np.asarray(x, np.float64)) for x in log_ratios]
        )
    size = math.hypot(average, std)  # 0 if all ratios are, after an enormous step
    share = average / size if size > 0 and math.isfinite(std) else math.nan
    return {"RatioMin": low, "RatioMax": high, "RatioESS": share * share}


def surrogate_gain(log_ratios: Sequence[np.ndarray], advs: Sequence[np.ndarray]) -> float:
    """Return the mean of (w - 1) times the normalized advantage, for the ratios w above.

    It is positive if the update made good actions more likely. The ratios may be those of every
    n-th row.
    """
    average, std, _, _ = chunk_statistics(advs)
    gains = []
    for log_ratio, adv in zip(log_ratios, advs, strict=True):
        some = adv if len(log_ratio) == len(adv) else adv[:: max(1, len(adv) // ROWS)]
        with np.errstate(over="ignore", invalid="ignore"):
            gains.append(np.expm1(np.asarray(log_ratio, np.float64)) * (some - average))
    return mean(gains) / std if std > 0 else math.nan


# ---- on-policy: an epoch's data ------------------------------------------------------------------


def _epoch_columns(run: Run) -> dict[str, float]:
    """Return the columns of the environments: how paths ended, rewards, observations, actions."""
    rollouts = run.rollouts
    died = [[path.last_obs is None for path in r.paths] for r in rollouts]
    cut = [[path.last_obs is not None and path.ended for path in r.paths] for r in rollouts]
    columns = {"TermShare": mean(died), "CutShare": mean(cut)}
    columns.update(spread("Rew", [r.flat(r.rew) for r in rollouts]))
    data = {"obs": [r.flat(r.obs) for r in rollouts], "act": [r.flat(r.act) for r in rollouts]}
    return {**columns, **_obs_and_act(run, **data)}


def _obs_and_act(
    run: Run, obs: Sequence[np.ndarray], act: Sequence[np.ndarray]
) -> dict[str, float]:
    columns = {"ObsAbsMax": chunk_statistics([_largest(x) for x in obs])[3]}
    space = run.action_space
    if isinstance(space, Box) and np.isfinite([space.low, space.high]).any():
        clipped = []
        for a in act:
            a = a.reshape(len(a), *space.shape)
            clipped.append((a <= space.low) | (a >= space.high))
        columns["ActClipped"] = mean(clipped)
    return columns


def _largest(x: np.ndarray) -> np.ndarray:
    """Return the largest absolute value; of a large array, that of evenly spaced rows."""
    if x.nbytes > _LARGE_BYTES:
        x = x[:: max(1, len(x) // ROWS)]
    if not x.size:
        return np.zeros(0)
    return np.array([max(float(x.max()), -float(x.min()))])


def _update_columns(run: Run, buffer: Any, gauges: Any) -> dict[str, float]:
    """Return the columns of what the update learned from, and of what became of it."""
    batches = getattr(buffer, "batches", None)
    if not batches:  # an algorithm of a user's own
        return {}
    buffer.batches = None
    data: list[dict[str, np.ndarray]] = []
    for batch in batches:
        parts = {name: batch[name] for name in ("ret", "adv", "val") if name in batch}
        parts.update({f"new_{name}": x for name, x in gauges.estimates(batch).items()})
        joined = run.to_array(list(parts.values())).astype(np.float64)  # one transfer
        cuts = np.cumsum([len(x) for x in parts.values()])[:-1]
        data.append(dict(zip(parts, np.split(joined, cuts), strict=True)))

    def column(name: str) -> list[np.ndarray]:
        return [x[name] for x in data]

    columns = spread("Ret", column("ret"))
    columns["AdvMean"], columns["AdvStd"], _, _ = chunk_statistics(column("adv"))
    if "val" in data[0]:
        columns["ExplVarOld"] = explained_variance(column("ret"), column("val"))
    if "new_val" in data[0]:
        columns["ExplVarNew"] = explained_variance(column("ret"), column("new_val"))
    if "new_log_ratio" in data[0]:
        columns.update(ratio_columns(column("new_log_ratio")))
        columns["SurrGain"] = surrogate_gain(column("new_log_ratio"), column("adv"))
    if "new_dead" in data[0]:
        times = run.shards.sum(column("new_dead"))
        columns["DeadUnits"] = float(np.mean(times == run.shards.count)) if len(times) else math.nan
    return columns


# ---- off-policy: a batch from the replay buffer --------------------------------------------------


def _replay_columns(run: Run) -> tuple[dict[str, np.ndarray] | None, dict[str, float]]:
    """Draw a batch; return it (None if there is nothing to draw) and the columns of its data."""
    buffer = run.tracked.get("buffer")
    ring = getattr(buffer, "ring", None)
    if not isinstance(ring, Ring):  # an algorithm of a user's own
        return None, {}
    rng = run.seeds.generator("diagnostics", run.epoch)
    index = ring.nth(rng.integers(max(1, ring.size), size=ROWS if ring.size else 0))
    age = (ring.ptr - 1 - index) % ring.max_size
    num_envs = getattr(buffer, "num_envs", None)
    if num_envs is None:
        rows = ring.take(index)
    else:  # a row has one entry per environment
        rows = ring.take(index, rng.integers(num_envs, size=len(index)))
        age *= num_envs
    if "valid" in rows:
        rows, age = {name: x[rows["valid"]] for name, x in rows.items()}, age[rows["valid"]]
    columns = {
        **spread("Rew", [rows["rew"]]),
        "DoneShare": mean([rows["done"]]),
        **_obs_and_act(run, [rows["obs"]], [rows["act"]]),
        "ReplayAge": mean([age]),
    }
    return rows, columns

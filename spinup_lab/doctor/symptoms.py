"""Statistical rules on what a fault leads to: returns, episode lengths, speed (S1 to S5, S33)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from spinup.analysis.curves import smooth_values
from spinup.utils.findings import Finding
from spinup_lab.doctor.record import Record, persists
from spinup_lab.doctor.rule import Skip


class Change(NamedTuple):
    """How the return changed from the first to the last rows, in units of its noise."""

    first: float
    last: float
    z: float


def progress(run: Record) -> Change:
    """Compare the return of the first rows with that of the last ones; skip a short run."""
    run.need_rows(10)
    run.need_signal()
    trained = run.column("AverageEpRet") if run.has("AverageEpRet") else run.performance
    first = trained[: max(3, run.rows // 10)]
    ends = [run.column(n)[-run.last :] for n in ("AverageTestEpRet", "AverageEpRet") if run.has(n)]
    first = first[np.isfinite(first)]
    ends = [end[np.isfinite(end)] for end in ends or [trained[-run.last :]]]
    last = max((end for end in ends if len(end)), key=np.mean, default=np.zeros(0))
    if not len(first) or not len(last):
        raise Skip("no episode ended in the first or the last epochs")
    a, b = float(first.mean()), float(last.mean())
    noise = math.sqrt((first.var() + last.var()) / 2) + 1e-9 + 1e-3 * max(abs(a), abs(b))
    return Change(a, b, (b - a) / noise)


def _solved_at_once(run: Record) -> bool:
    """Whether the first episodes last as long as possible, with rewards for every step."""
    if not run.has("EpLen") or not math.isfinite(run.limit):
        return False
    start = run.column("EpLen")[:3]
    return bool(np.nanmean(start) >= 0.98 * run.limit and run.column("AverageEpRet")[0] > 0)


def s1_no_progress(run: Record) -> Iterator[Finding]:
    if run.on_policy:
        run.need_rows(30)
    change = progress(run)
    if not (change.z >= 1 or _solved_at_once(run)):
        verb = "fell from" if change.z < -2 else "did not rise: it was"
        yield run.found(
            f"the return {verb} {change.first:.4g} in the first epochs and is {change.last:.4g} in "
            f"the last {run.last} ({change.z:+.1f} standard deviations of the curve)",
            [0, -1],
            part="policy-loss" if change.z < -2 else None,
        )


def s2_collapse(run: Record) -> Iterator[Finding]:
    returns = run.performance
    smooth = smooth_values(returns, max(3, run.rows // 20))
    known = np.flatnonzero(np.isfinite(smooth))
    if len(known) < 10:
        raise Skip("no episode ended in most epochs")
    best = known[int(np.argmax(smooth[known]))]
    if best >= run.rows - run.last:
        return  # at its best in the end
    last, first = float(np.nanmean(returns[-run.last :])), float(smooth[known[0]])
    lost, gained = float(smooth[best]) - last, float(smooth[best]) - first
    noise = float(np.nanstd(returns - smooth))
    if not (gained <= 0 or lost <= 0.5 * gained or lost <= 2 * noise):
        yield run.found(
            f"the return rose from {first:.4g} to {smooth[best]:.4g} in epoch {run.epoch(best)} "
            f"and fell back to {last:.4g}",
            [best, -1],
        )


def s3_no_episode(run: Record) -> Iterator[Finding]:
    returns = run.column("AverageEpRet")
    longer = math.inf > run.limit > run.number("steps_per_epoch", math.inf) * 0.999
    missing = np.flatnonzero(np.isnan(returns))
    if len(missing) / run.rows > (0.5 if longer else 0.2):
        yield run.found(f"no episode ended in {len(missing)} of {run.rows} epochs", missing)


def s4_constant_length(run: Record) -> Iterator[Finding]:
    lengths = run.column("EpLen")[-run.last :]
    if np.isnan(lengths).any() or np.ptp(lengths) > 0:
        return
    length = float(lengths[0])
    if length <= 2:
        if progress(run).z < 1 and float(np.nanstd(run.column("AverageEpRet"))) > 0:
            yield run.found(f"every episode of the last {run.last} epochs has {length:g} steps")
    elif not (length < run.limit or progress(run).z >= 1 or _solved_at_once(run)):
        yield run.found(
            f"every episode of the last {run.last} epochs lasts until the limit of {length:g} "
            "steps, and the return does not rise",
            level="hint",
        )


def s5_test_gap(run: Record) -> Iterator[Finding]:
    test, train = run.column("AverageTestEpRet"), run.column("AverageEpRet")
    noise = np.maximum(run.column("StdEpRet"), 1e-3 * np.abs(train) + 1e-9)
    gap = (test - train) / noise
    start = train[: max(3, run.rows // 10)]
    improved = train > np.nanmean(start) + np.nanstd(start)
    rows = persists(np.nan_to_num(gap) < -1.0)
    if len(rows) and improved[rows].all():
        row = rows[-1]
        yield run.found(
            f"test episodes return {test[row]:.4g} and training episodes {train[row]:.4g} in epoch "
            f"{run.epoch(row)}: the policy is worse without its exploration noise",
            rows,
        )


def s33_slowing(run: Record) -> Iterator[Finding]:
    seconds = np.diff(run.column("Time"))
    first, last = float(np.median(seconds[1:11])), float(np.median(seconds[-10:]))
    started = np.flatnonzero(run.updated)
    if len(started) and started[0] > 0:  # before the first update, an epoch costs less
        first = float(np.median(seconds[started[0] : started[0] + 10]))
    if last > 2 * first and last >= 0.5:
        yield run.found(
            f"an epoch took {first:.2g} s at first and takes {last:.2g} s now", [-10, -1]
        )

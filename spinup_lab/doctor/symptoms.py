"""Statistical rules on what a fault leads to: returns, episode lengths, speed (S1 to S5, S33)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from spinup.analysis.curves import smooth_values
from spinup_lab.doctor.record import Record, persists
from spinup_lab.doctor.rule import Found, Rule, Skip


class Change(NamedTuple):
    """How the return changed from the first to the last rows, in units of its noise."""

    first: float
    last: float
    z: float
    rows: np.ndarray


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
    return Change(a, b, (b - a) / noise, np.array([0, run.rows - 1]))


def _solved_at_once(run: Record) -> bool:
    """Whether the first episodes last as long as possible, with rewards for every step."""
    if not run.has("EpLen") or not math.isfinite(run.limit):
        return False
    start = run.column("EpLen")[:3]
    return bool(np.nanmean(start) >= 0.98 * run.limit and run.column("AverageEpRet")[0] > 0)


def _no_progress(run: Record) -> Found | None:
    if run.on_policy:
        run.need_rows(30)
    change = progress(run)
    if change.z >= 1 or _solved_at_once(run):
        return None
    verb = "fell from" if change.z < -2 else "did not rise: it was"
    return Found(
        f"the return {verb} {change.first:.4g} in the first epochs and is {change.last:.4g} in the "
        f"last {run.last} ({change.z:+.1f} standard deviations of the curve)",
        run.span(change.rows),
        part="policy-loss" if change.z < -2 else None,
    )


def _collapse(run: Record) -> Found | None:
    run.need_rows(20)
    returns = run.performance
    smooth = smooth_values(returns, max(3, run.rows // 20))
    known = np.flatnonzero(np.isfinite(smooth))
    if len(known) < 10:
        raise Skip("no episode ended in most epochs")
    best = known[int(np.argmax(smooth[known]))]
    if best >= run.rows - run.last:
        return None  # at its best in the end
    last, first = float(np.nanmean(returns[-run.last :])), float(smooth[known[0]])
    lost, gained = float(smooth[best]) - last, float(smooth[best]) - first
    noise = float(np.nanstd(returns - smooth))
    if gained <= 0 or lost <= 0.5 * gained or lost <= 2 * noise:
        return None
    return Found(
        f"the return rose from {first:.4g} to {smooth[best]:.4g} in epoch {run.epoch(int(best))} "
        f"and fell back to {last:.4g}",
        run.span([int(best), -1]),
    )


def _no_episode(run: Record) -> Found | None:
    returns = run.column("AverageEpRet")
    if math.isfinite(run.limit) and run.limit > run.number("steps_per_epoch", math.inf) * 0.999:
        share = 0.5
    else:
        share = 0.2
    run.need_rows(5)
    missing = np.isnan(returns)
    if missing.mean() <= share:
        return None
    return Found(
        f"no episode ended in {missing.sum()} of {run.rows} epochs",
        run.span(np.flatnonzero(missing)),
    )


def _constant_length(run: Record) -> Found | None:
    run.need_rows(10)
    lengths = run.column("EpLen")[-run.last :]
    if np.isnan(lengths).any() or np.ptp(lengths) > 0:
        return None
    length = float(lengths[0])
    if length <= 2:
        flat = progress(run).z < 1 and float(np.nanstd(run.column("AverageEpRet"))) > 0
        if not flat:
            return None
        return Found(f"every episode of the last {run.last} epochs has {length:g} steps", None)
    if length < run.limit or progress(run).z >= 1 or _solved_at_once(run):
        return None
    return Found(
        f"every episode of the last {run.last} epochs lasts until the limit of {length:g} steps, "
        "and the return does not rise",
        level="hint",
    )


def _test_gap(run: Record) -> Found | None:
    run.need_rows(10)
    test, train = run.column("AverageTestEpRet"), run.column("AverageEpRet")
    noise = np.maximum(run.column("StdEpRet"), 1e-3 * np.abs(train) + 1e-9)
    gap = (test - train) / noise
    start = train[: max(3, run.rows // 10)]
    improved = train > np.nanmean(start) + np.nanstd(start)
    rows = persists(np.nan_to_num(gap) < -1.0)
    if rows is not None and improved[rows].all():
        row = int(rows[-1])
        return Found(
            f"test episodes return {test[row]:.4g} and training episodes {train[row]:.4g} in epoch "
            f"{run.epoch(row)}: the policy is worse without its exploration noise",
            run.span(rows),
        )
    return None


def _slowing(run: Record) -> Found | None:
    run.need_rows(25)
    seconds = np.diff(run.column("Time"))
    first, last = float(np.median(seconds[1:11])), float(np.median(seconds[-10:]))
    started = np.flatnonzero(run.updated)
    if len(started) and started[0] > 0:  # before the first update, an epoch costs less
        first = float(np.median(seconds[started[0] : started[0] + 10]))
    if not last > 2 * first or last < 0.5:
        return None
    return Found(
        f"an epoch took {first:.2g} s at first and takes {last:.2g} s now", run.span([-10, -1])
    )


RULES = (
    Rule(
        "S1",
        "no progress",
        1,
        "warning",
        "hyperparameters",
        "the return rises by at least one standard deviation of the curve (at least 30 epochs of "
        "an on-policy algorithm, 10 of the others)",
        "The policy that the run ends with is no better than the one it began with. This is a "
        "symptom: findings before it are more likely to name the cause.",
        "Play random actions for comparison (--play), test the algorithm with spinup probe, and "
        "try the preset of a similar environment.",
        _no_progress,
        needs=("AverageEpRet|AverageTestEpRet|Performance",),
        symptom=True,
    ),
    Rule(
        "S2",
        "collapse",
        1,
        "warning",
        "hyperparameters",
        "at the end, the return keeps at least half of what it had gained at its best",
        "A policy that was good and is not any more was destroyed by its own updates.",
        "Look at KL and the losses around that epoch, lower the learning rate, and keep the best "
        "policy with save_best.",
        _collapse,
        needs=("AverageEpRet|AverageTestEpRet|Performance",),
        symptom=True,
    ),
    Rule(
        "S3",
        "no ended episode",
        1,
        "warning",
        "hyperparameters",
        "an episode ends in at least 80 % of the epochs",
        "Returns are known only for episodes that end. With few of them, the curve says little, "
        "and a policy that can avoid the end is never shown what it leads to.",
        "Raise steps_per_epoch above the length of an episode, or lower max_ep_len.",
        _no_episode,
        needs=("AverageEpRet",),
        symptom=True,
    ),
    Rule(
        "S4",
        "constant length",
        1,
        "warning",
        "environment",
        "episodes vary in length, or the return rises",
        "An environment that ends every episode at once, or never, gives the policy nothing to "
        "tell good actions from bad ones by.",
        "Check the condition under which the environment terminates, with spinup check_env.",
        _constant_length,
        needs=("EpLen", "AverageEpRet"),
        symptom=True,
    ),
    Rule(
        "S5",
        "test gap",
        1,
        "warning",
        "normalizer",
        "while training improves, test episodes are less than one StdEpRet worse",
        "Without exploration noise, a policy usually does at least as well. If it does much worse, "
        "tests use another policy: another normalizer, another scale, another head.",
        "Evaluate with the normalizer that training uses; check the deterministic action.",
        _test_gap,
        needs=("AverageTestEpRet", "AverageEpRet", "StdEpRet"),
        symptom=True,
    ),
    Rule(
        "S33",
        "slowing down",
        1,
        "hint",
        "environment",
        "an epoch takes less than twice as long at the end as at the beginning",
        "The work per epoch is the same. Memory that fills up, another program, or an environment "
        "that grows make it slower.",
        "Look at memory and at other programs on the machine.",
        _slowing,
        needs=("Time",),
        symptom=True,
    ),
)

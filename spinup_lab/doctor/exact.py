"""Exact rules on the tables (X): a violation is a fault, whatever the environment.

`rules.toml` says what each rule means, here and in the other modules of checks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import numpy as np

from spinup.utils.findings import Finding
from spinup_lab.doctor.record import Record, longest
from spinup_lab.doctor.rule import Skip

# Statistics of episodes are NaN in an epoch in which no episode ended.
_OF_EPISODES = re.compile(r"EpRet|EpLen|Success")


def x1_counting(run: Record) -> Iterator[Finding]:
    if run.changed:
        yield run.found(
            "progress.txt was changed after the run wrote it: it does not match its hash",
            level="warning",
        )
    run.need_rows(2)
    for row in np.flatnonzero(np.diff(run.column("Epoch")) != 1):
        yield run.found(
            f"the number of the epoch goes from {run.epoch(row)} to {run.epoch(row + 1)}",
            [row, row + 1],
        )
    wanted = run.number("steps_per_epoch")
    taken = np.diff(run.column("TotalEnvInteracts"))
    # Environments that use a step for a reset take fewer, by varying numbers.
    constant = len(taken) > 2 and bool((taken == taken[0]).all())
    wrong = (taken <= 0) | (taken > wanted) | (constant & (taken != wanted))
    for row in np.flatnonzero(wrong):
        yield run.found(
            f"TotalEnvInteracts grows by {taken[row]:g} from epoch {run.epoch(row)} to "
            f"{run.epoch(row + 1)}, but steps_per_epoch is {wanted:g}",
            [row, row + 1],
        )
    if run.has("Time"):
        for row in np.flatnonzero(np.diff(run.column("Time")) < 0):
            yield run.found(f"Time falls after epoch {run.epoch(row)}", [row, row + 1])


def x2_ratio_one(run: Record) -> Iterator[Finding]:
    loss = run.column("LossPi")
    coef = run.number("ent_coef", 0.0) if run.base == "ppo" else 0.0
    bonus, slack = np.zeros(run.rows), 1e-4
    if coef:
        # The entropy before this epoch's update is the one after the previous update, except
        # that other observations are averaged over.
        ent = run.column("Entropy")
        bonus = coef * np.concatenate([[np.nan], ent[:-1]])
        slack += coef * 0.1 * float(np.nanmax(np.abs(ent), initial=0.0))
    gap = loss + bonus
    rows = np.flatnonzero(np.abs(gap) > slack)
    if len(rows) < min(3, run.rows):
        return
    worst = rows[np.argmax(np.abs(gap[rows]))]
    said = (
        f"LossPi is {loss[worst]:.3g} in epoch {run.epoch(worst)}, before the first step on that "
        f"epoch's data, where it must be {-bonus[worst]:.3g} (beyond {slack:.1g} in {len(rows)} of "
        f"{run.rows} epochs)"
    )
    if coef and np.nanmax(np.abs(loss[rows] - bonus[rows])) <= slack:
        yield run.found(f"{said}; the entropy bonus has the wrong sign", rows)
    if run.has("AdvMean"):
        raw = run.column("AdvMean")[rows]
        if np.nanmax(np.abs(loss[rows] + raw)) <= 1e-3 * (1 + np.nanmax(np.abs(raw))):
            yield run.found(
                f"{said}; it equals the mean of the advantages, which are not normalized",
                rows,
                part="returns",
            )
    if run.normalizes("obs"):
        said += "; the normalizer may have moved between collecting and learning"
        yield run.found(said, rows, part="normalizer")
    yield run.found(said, rows)


def x3_step_improves(run: Record) -> Iterator[Finding]:
    delta = run.column("DeltaLossPi")
    rows = np.flatnonzero(delta > 1e-9 + 1e-7)
    if len(rows) and not run.natural_gradient:
        worst = rows[np.argmax(delta[rows])]
        yield run.found(
            f"DeltaLossPi is {delta[worst]:+.3g} in epoch {run.epoch(worst)}: the line search took "
            f"a step that made the policy's objective worse ({len(rows)} of {run.rows} epochs)",
            rows,
        )


def x4_trust_region(run: Record) -> Iterator[Finding]:
    delta, kl = run.number("delta", 0.01), run.column("KL")
    rows = np.flatnonzero(kl > 1.001 * delta)
    if len(rows) and not run.natural_gradient:
        worst = rows[np.argmax(kl[rows])]
        yield run.found(
            f"KL is {kl[worst]:.3g} in epoch {run.epoch(worst)}, above delta = {delta:g} "
            f"({len(rows)} of {run.rows} epochs)",
            rows,
        )


def x5_bounded_entropy(run: Record) -> Iterator[Finding]:
    entropy = -run.column("AverageLogPi")
    if run.discrete:
        most, what = math.log(run.n_actions), f"log {run.n_actions}"
    else:
        low, high = run.bounds
        if not np.isfinite(high - low).all():
            raise Skip("the actions are not bounded")
        most, what = float(np.log(high - low).sum()), "the sum of log(high - low)"
    rows = np.flatnonzero(entropy > most + 0.05)
    if len(rows) >= min(3, run.rows):
        worst = rows[np.argmax(entropy[rows])]
        yield run.found(
            f"the policy's entropy, -AverageLogPi, is {entropy[worst]:.3g} in epoch "
            f"{run.epoch(worst)}, but no distribution on these actions has more than {most:.3g} "
            f"({what})",
            rows,
        )


def x6_epsilon(run: Record) -> Iterator[Finding]:
    start, end = run.number("eps_start", 1.0), run.number("eps_end", 0.05)
    steps = run.number("eps_steps", 10000)
    done = np.clip(run.column("TotalEnvInteracts") / max(steps, 1e-9), 0, 1)
    wanted, eps = start + (end - start) * done, run.column("Epsilon")
    rows = np.flatnonzero(np.abs(eps - wanted) > 1e-6)
    if len(rows):
        row = rows[0]
        yield run.found(
            f"Epsilon is {eps[row]:.4g} in epoch {run.epoch(row)}, but the schedule from {start:g} "
            f"to {end:g} over {steps:g} steps gives {wanted[row]:.4g}",
            rows,
        )


def x7_width_fixed(run: Record) -> Iterator[Finding]:
    run.need_signal()
    ent = run.column("Entropy")
    if run.number("pi_lr", 1.0) == 0:
        raise Skip("pi_lr is 0")
    spread = float(np.nanmax(ent) - np.nanmin(ent))
    if spread < 1e-6:
        box = run.box
        cause = (
            "the width of the policy (log_std) is not trained"
            if box
            else "the policy does not change from one epoch to the next"
        )
        yield run.found(f"Entropy stays at {ent[0]:.6g} in all {run.rows} epochs: {cause}", [0, -1])


def x8_twins_equal(run: Record) -> Iterator[Finding]:
    pairs = [(run.column(f"{s}Q1Vals"), run.column(f"{s}Q2Vals")) for s in ("Average", "Std")]
    same = np.ones(run.rows, bool)
    for q1, q2 in pairs:
        with np.errstate(invalid="ignore"):
            same &= np.abs(q1 - q2) <= 1e-6 * np.abs(q1)
    rows = longest(same)
    if len(rows) >= 3:
        yield run.found(
            f"AverageQ1Vals and AverageQ2Vals are equal in {len(rows)} epochs in a row (both "
            f"{pairs[0][0][rows[-1]]:.6g} in epoch {run.epoch(rows[-1])})",
            rows,
        )


def x9_finite(run: Record) -> Iterator[Finding]:
    logged = [name for name in run.columns if not _OF_EPISODES.search(name)]
    if run.setting("update_every", 1) > run.setting("steps_per_epoch", math.inf):
        raise Skip("some epochs have no gradient step, so their losses are NaN")
    for name in sorted(logged, key=lambda name: not name.startswith("Loss")):
        values = run.columns[name]
        started = np.flatnonzero(np.isfinite(values))
        infinite = np.isinf(values)
        after = np.arange(run.rows) > (started[0] if len(started) else run.rows)
        # A diagnosis may be undefined in some epochs, and TD3's policy steps may all be delayed.
        undefined = name in run.diagnosed or (run.base == "td3" and name == "LossPi")
        rows = np.flatnonzero(infinite if undefined else infinite | (np.isnan(values) & after))
        if len(rows):
            row = rows[0]
            before = f"; epoch {run.epoch(row - 1)} was the last good one" if row else ""
            yield run.found(f"{name} is {values[row]} from epoch {run.epoch(row)} on{before}", rows)


def x10_entropy_range(run: Record) -> Iterator[Finding]:
    ent, most = run.column("Entropy"), math.log(run.n_actions)
    rows = np.flatnonzero((ent > most + 1e-4) | (ent < -1e-4))
    if len(rows):
        row = rows[0]
        yield run.found(
            f"Entropy is {ent[row]:.4g} in epoch {run.epoch(row)}, outside 0 to log "
            f"{run.n_actions} = {most:.4g}",
            rows,
        )


def x11_temperature(run: Record) -> Iterator[Finding]:
    alpha, given = run.column("Alpha"), run.setting("alpha", 0.2)
    if isinstance(given, str):
        rows = np.flatnonzero(run.updated)
        if len(rows) >= 3 and not np.ptp(alpha[rows]) > 1e-6 * abs(alpha[rows[0]]):
            yield run.found(f"Alpha stays at {alpha[rows[0]]:.4g}, but alpha is '{given}'", rows)
        return
    rows = np.flatnonzero(np.abs(alpha - given) > 1e-5 * max(abs(given), 1e-3))
    if len(rows):
        row = rows[0]
        yield run.found(
            f"Alpha is {alpha[row]:.4g} in epoch {run.epoch(row)}, but alpha is fixed at {given:g}",
            rows,
        )


def x12_in_order(run: Record) -> Iterator[Finding]:
    for name, average in run.columns.items():
        if not name.startswith("Average") or name in run.diagnosed:
            continue
        what = name.removeprefix("Average")
        slack = 1e-4 * (1 + np.abs(average))
        for other, sign in ((f"Max{what}", 1), (f"Min{what}", -1)):
            end = run.columns.get(other, average)
            rows = np.flatnonzero(sign * (average - end) > slack)
            if len(rows):
                row = rows[0]
                yield run.found(
                    f"{name} is {average[row]:.6g} and {other} is {end[row]:.6g} in epoch "
                    f"{run.epoch(row)}",
                    rows,
                )


def x13_too_long(run: Record) -> Iterator[Finding]:
    if not math.isfinite(run.limit):
        raise Skip("no time limit is recorded")
    for name in filter(run.has, ("EpLen", "TestEpLen")):
        rows = np.flatnonzero(run.column(name) > run.limit + 1e-6)
        if len(rows):
            row = rows[0]
            yield run.found(
                f"{name} is {run.column(name)[row]:g} in epoch {run.epoch(row)}, longer than the "
                f"limit of {run.limit:g} steps",
                rows,
            )


# ------------------------------------------------------------------- returns and value functions


def _scaled(run: Record) -> None:
    if run.normalizes("ret"):
        raise Skip("rewards are divided by a running standard deviation")


def x14_last_step(run: Record) -> Iterator[Finding]:
    _scaled(run)
    died = run.column("TermShare") > 0
    low, high = run.column("RewMin"), run.column("RewMax")
    slack = 1e-4 * (1 + np.maximum(np.abs(low), np.abs(high)))
    least, most = run.column("RetMin"), run.column("RetMax")
    for bad, name, value, bound, other in (
        (least > high + slack, "RetMin", least, "RewMax", high),
        (most < low - slack, "RetMax", most, "RewMin", low),
    ):
        rows = np.flatnonzero(bad & died)
        if len(rows) >= min(3, run.rows):
            row = rows[-1]
            yield run.found(
                f"{name} is {value[row]:.4g} in epoch {run.epoch(row)} and {bound} "
                f"{other[row]:.4g}, although episodes terminated: the return of a last step is its "
                f"reward alone ({len(rows)} of {run.rows} epochs)",
                rows,
                # REINFORCE has no value that could stand for what follows a death.
                part="returns" if run.base == "reinforce" else None,
            )
    yield from _leak(run, low, high, most)


def _leak(run: Record, low: np.ndarray, high: np.ndarray, most: np.ndarray) -> Iterator[Finding]:
    """With positive rewards, no return exceeds that of the longest episode."""
    gamma = run.number("gamma")
    if not (low > 0).all() or gamma >= 1 or run.rows < 6:
        return
    value = run.columns.get("MaxVVals", run.columns.get("Baseline", np.zeros(run.rows)))
    # An episode that is still going on is logged in one of the next epochs.
    later = [np.roll(run.column("MaxEpRet"), -k) for k in range(4)]
    length = np.minimum(np.fmax.reduce(later) / low + 1, run.limit)
    power = gamma**length
    ends = np.maximum(high * (1 - power) / (1 - gamma), high)
    cut = (1 - gamma) * np.maximum(value, 0) > high  # then an early cut is worth most
    top = ends + np.maximum(value, 0) * np.where(cut, 1.0, power)
    rows = np.flatnonzero((most > 1.1 * top + 1)[:-3])
    if len(rows) >= 3:
        row = rows[-1]
        # A sum over the longest episode alone that is not discounted explains it as well.
        plain = float((most[rows] <= 1.05 * (high * length)[rows]).mean()) > 0.5
        cause = "rewards are not discounted" if plain else "sums run across the ends of episodes"
        yield run.found(
            f"RetMax is {most[row]:.4g} in epoch {run.epoch(row)}, but the longest episode has "
            f"{length[row]:.0f} steps, whose rewards return at most {top[row]:.4g}: {cause} "
            f"({len(rows)} of {run.rows} epochs)",
            rows,
            part="returns" if plain else None,
        )


def x15_discounted(run: Record) -> Iterator[Finding]:
    """With positive rewards, the largest return lies between known bounds."""
    _scaled(run)
    gamma = run.number("gamma")
    low, high, most = run.column("RewMin"), run.column("RewMax"), run.column("RetMax")
    if gamma >= 1 or not (low > 0).all():
        raise Skip("returns are not discounted, or rewards are not positive")
    value = run.columns.get("MaxVVals", run.columns.get("Baseline", np.zeros(run.rows)))
    top = np.maximum(high / (1 - gamma), np.maximum(value, 0)) * 1.05 + 1e-3
    rows = np.flatnonzero(most > top)
    if len(rows) >= min(3, run.rows):
        row = rows[-1]
        yield run.found(
            f"RetMax is {most[row]:.4g} in epoch {run.epoch(row)}, but with gamma = {gamma:g} and "
            f"rewards of at most {high[row]:.4g}, no return exceeds {top[row]:.4g}",
            rows,
        )
    # Of an episode that was collected in one piece, at least half belongs to one epoch.
    length = run.column("MaxEpRet") / high
    envs = max(1.0, run.number("num_envs", 1)) * max(1.0, run.number("shards", 1))
    length = np.minimum(length, run.number("steps_per_epoch") / envs) / 2 - 1
    least = low * (1 - gamma ** np.maximum(length, 0)) / (1 - gamma)
    rows = np.flatnonzero(most < 0.9 * least)
    if len(rows) >= min(3, run.rows):
        row = rows[-1]
        yield run.found(
            f"RetMax is {most[row]:.4g} in epoch {run.epoch(row)}, but the longest episode has at "
            f"least {2 * length[row]:.0f} rewards of {low[row]:.4g} or more, which with gamma = "
            f"{gamma:g} return {least[row]:.4g} from its middle on",
            rows,
        )


def x16_lambda(run: Record) -> Iterator[Finding]:
    lam = run.number("lam")
    run.need_rows(3)
    gap = run.column("AdvMean") - (run.column("RetMean") - run.column("AverageVVals"))
    scale = 1e-4 * (1e-3 + run.column("AdvStd") + np.abs(run.column("RetMean")))
    rows = np.flatnonzero(np.abs(gap) > 10 * scale)
    if lam >= 1 and len(rows) >= 3:
        row = rows[-1]
        yield run.found(
            "with lam = 1, AdvMean must be RetMean - AverageVVals, but they differ by "
            f"{gap[row]:.3g} in epoch {run.epoch(row)}",
            rows,
        )
    if lam < 0.995 and (np.abs(gap) < scale).all():
        yield run.found(
            f"AdvMean equals RetMean - AverageVVals in all {run.rows} epochs, as with lam = 1, but "
            f"lam is {lam:g}: lambda is not used",
            [0, -1],
        )


def x17_value_loss(run: Record) -> Iterator[Finding]:
    loss, std = run.column("LossV"), run.column("RetStd")
    off = run.column("RetMean") - run.column("AverageVVals")
    wanted = (1 - run.column("ExplVarOld")) * std**2 + off**2
    gap = np.abs(loss - wanted) / (wanted + 1e-6 + 1e-6 * run.column("RetMean") ** 2)
    rows = np.flatnonzero(gap > 0.02)
    if len(rows) >= max(3, 0.5 * np.isfinite(gap).sum()):
        row = rows[-1]
        yield run.found(
            f"LossV is {loss[row]:.4g} in epoch {run.epoch(row)}, but the mean squared error of "
            f"the values against the returns is {wanted[row]:.4g} ({len(rows)} of {run.rows} "
            "epochs)",
            rows,
        )


def x18_baseline(run: Record) -> Iterator[Finding]:
    base, mean = run.column("Baseline"), run.column("RetMean")
    rows = np.flatnonzero(np.abs(base - mean) > 1e-3 * (1 + np.abs(mean)))
    if len(rows) >= min(3, run.rows):
        row = rows[-1]
        yield run.found(
            f"Baseline is {base[row]:.4g} in epoch {run.epoch(row)}, but the mean of the returns "
            f"is {mean[row]:.4g}",
            rows,
        )


def x19_gain(run: Record) -> Iterator[Finding]:
    if run.normalizes("obs"):
        raise Skip("the ratios include a new normalization of observations")
    gain, kl = run.column("SurrGain"), np.abs(run.column("KL"))
    moved = (kl > 1e-7) & np.isfinite(gain)
    if run.setting("anneal_lr"):
        moved &= ~run.after(0.9)
    rows = np.flatnonzero(moved & (gain < 0))
    if moved.sum() >= 3 and len(rows) > 0.5 * moved.sum():
        yield run.found(
            f"the update made good actions less likely in {len(rows)} of {moved.sum()} epochs: the "
            f"mean advantage, weighted by the new policy, is {np.median(gain[rows]):.2g}",
            rows,
        )


def x20_ends(run: Record) -> Iterator[Finding]:
    died, length, limit = run.column("TermShare"), run.column("EpLen"), run.limit
    if not math.isfinite(limit) or run.goal:
        raise Skip("no time limit is recorded, or the environment ends episodes at goals")
    rows = np.flatnonzero((died == 0) & (length < limit * 0.999))
    if len(rows) >= max(3, 0.2 * run.rows):
        row = rows[-1]
        yield run.found(
            f"no episode of epoch {run.epoch(row)} terminated, but they have {length[row]:.4g} "
            f"steps on average and are cut only after {limit:g} ({len(rows)} of {run.rows} epochs)",
            rows,
        )
    rows = np.flatnonzero((died > 0) & (length >= limit))
    if len(rows) >= max(3, 0.2 * run.rows):
        row = rows[-1]
        yield run.found(
            f"every episode of epoch {run.epoch(row)} lasts until the limit of {limit:g} steps, "
            f"but {100 * died[row]:.0f} % of the ends count as deaths",
            rows,
        )


def x21_after_cut(run: Record) -> Iterator[Finding]:
    """Without deaths, every sum of rewards ends with a value, which bounds all returns."""
    _scaled(run)
    gamma = run.number("gamma")
    low, high = run.column("RewMin"), run.column("RewMax")
    least, most = run.column("RetMin"), run.column("RetMax")
    worst, best = run.column("MinVVals"), run.column("MaxVVals")
    envs = max(1.0, run.number("num_envs", 1)) * max(1.0, run.number("shards", 1))
    steps = int(min(run.limit, run.number("steps_per_epoch") / envs))
    power = gamma ** np.arange(1, max(2, min(steps, 5000)) + 1)[:, None]  # (n, 1)
    sums = (1 - power) / (1 - gamma) if gamma < 1 else np.arange(1, len(power) + 1)[:, None]
    margin = 0.25 * (best - worst) + 1e-3 * (np.abs(best) + np.abs(worst)) + 1e-3
    floor = (low * sums + power * (worst - margin)).min(0)
    top = (high * sums + power * (best + margin)).max(0)
    bad = (run.column("TermShare") == 0) & ((least < floor) | (most > top))
    bad &= np.abs(worst + best) > 3 * np.maximum(np.abs(low), np.abs(high))
    rows = np.flatnonzero(bad)
    if len(rows) >= 3:
        row = rows[-1]
        yield run.found(
            f"no episode of epoch {run.epoch(row)} terminated, so every return ends with a value "
            f"between {worst[row]:.4g} and {best[row]:.4g}, but returns range from "
            f"{least[row]:.4g} to {most[row]:.4g}: the value after a cut is missing ({len(rows)} "
            "epochs)",
            rows,
        )

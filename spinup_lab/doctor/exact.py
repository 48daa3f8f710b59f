"""Exact rules on the tables (X): a violation is a fault, whatever the environment."""

from __future__ import annotations

import math
import re

import numpy as np

from spinup_lab.doctor.record import Record, longest
from spinup_lab.doctor.rule import ON_POLICY, TWINS, Found, Rule, Skip

# Statistics of episodes are NaN in an epoch in which no episode ended.
_OF_EPISODES = re.compile(r"EpRet|EpLen|Success")
_SPREAD = re.compile(r"(Average|Max|Min|Std)(.+)")


def _counting(run: Record) -> Found | None:
    if run.changed:
        return Found(
            "progress.txt was changed after the run wrote it: it does not match its hash",
            level="warning",
        )
    run.need_rows(2)
    steps = np.diff(run.column("Epoch"))
    bad = np.flatnonzero(steps != 1)
    if len(bad):
        row = int(bad[0])
        return Found(
            f"the number of the epoch goes from {run.epoch(row)} to {run.epoch(row + 1)}",
            run.span([row, row + 1]),
        )
    wanted = run.number("steps_per_epoch")
    taken = np.diff(run.column("TotalEnvInteracts"))
    # Environments that use a step for a reset take fewer, by varying numbers.
    constant = len(taken) > 2 and bool((taken == taken[0]).all())
    wrong = (taken <= 0) | (taken > wanted) | (constant & (taken != wanted))
    bad = np.flatnonzero(wrong)
    if len(bad):
        row = int(bad[0])
        return Found(
            f"TotalEnvInteracts grows by {taken[row]:g} from epoch {run.epoch(row)} to "
            f"{run.epoch(row + 1)}, but steps_per_epoch is {wanted:g}",
            run.span([row, row + 1]),
        )
    if run.has("Time"):
        bad = np.flatnonzero(np.diff(run.column("Time")) < 0)
        if len(bad):
            row = int(bad[0])
            return Found(f"Time falls after epoch {run.epoch(row)}", run.span([row, row + 1]))
    return None


def _ratio_one(run: Record) -> Found | None:
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
    bad = np.abs(gap) > slack
    rows = np.flatnonzero(bad)
    if len(rows) < min(3, run.rows):
        return None
    worst = int(rows[np.argmax(np.abs(gap[rows]))])
    said = (
        f"LossPi is {loss[worst]:.3g} in epoch {run.epoch(worst)}, before the first step on that "
        f"epoch's data, where it must be {-bonus[worst]:.3g} (beyond {slack:.1g} in {len(rows)} of "
        f"{run.rows} epochs)"
    )
    flipped = bool(coef) and np.nanmax(np.abs(loss[rows] - bonus[rows])) <= slack
    if flipped:
        return Found(f"{said}; the entropy bonus has the wrong sign", run.span(rows))
    if run.has("AdvMean"):
        raw = run.column("AdvMean")[rows]
        if np.nanmax(np.abs(loss[rows] + raw)) <= 1e-3 * (1 + np.nanmax(np.abs(raw))):
            return Found(
                f"{said}; it equals the mean of the advantages, which are not normalized",
                run.span(rows),
                part="returns",
            )
    kwargs = run.config.get("ac_kwargs")
    if isinstance(kwargs, dict) and kwargs.get("normalize_obs"):
        said += "; the normalizer may have moved between collecting and learning"
        return Found(said, run.span(rows), part="normalizer")
    return Found(said, run.span(rows))


def _step_improves(run: Record) -> Found | None:
    delta = run.column("DeltaLossPi")
    rows = np.flatnonzero(delta > 1e-9 + 1e-7)
    if not len(rows) or run.natural_gradient:
        return None
    worst = int(rows[np.argmax(delta[rows])])
    return Found(
        f"DeltaLossPi is {delta[worst]:+.3g} in epoch {run.epoch(worst)}: the line search took a "
        f"step that made the policy's objective worse ({len(rows)} of {run.rows} epochs)",
        run.span(rows),
    )


def _trust_region(run: Record) -> Found | None:
    delta, kl = run.number("delta", 0.01), run.column("KL")
    rows = np.flatnonzero(kl > 1.001 * delta)
    if not len(rows) or run.natural_gradient:
        return None
    worst = int(rows[np.argmax(kl[rows])])
    return Found(
        f"KL is {kl[worst]:.3g} in epoch {run.epoch(worst)}, above delta = {delta:g} "
        f"({len(rows)} of {run.rows} epochs)",
        run.span(rows),
    )


def _bounded_entropy(run: Record) -> Found | None:
    entropy = -run.column("AverageLogPi")
    if run.action_space.get("type") == "Discrete":
        most, what = math.log(run.n_actions), f"log {run.n_actions}"
    else:
        low, high = run.bounds
        if not np.isfinite(high - low).all():
            raise Skip("the actions are not bounded")
        most, what = float(np.log(high - low).sum()), "the sum of log(high - low)"
    rows = np.flatnonzero(entropy > most + 0.05)
    if len(rows) < min(3, run.rows):
        return None
    worst = int(rows[np.argmax(entropy[rows])])
    return Found(
        f"the policy's entropy, -AverageLogPi, is {entropy[worst]:.3g} in epoch "
        f"{run.epoch(worst)}, but no distribution on these actions has more than {most:.3g} "
        f"({what})",
        run.span(rows),
    )


def _epsilon(run: Record) -> Found | None:
    start, end = run.number("eps_start", 1.0), run.number("eps_end", 0.05)
    steps = run.number("eps_steps", 10000)
    done = np.clip(run.column("TotalEnvInteracts") / max(steps, 1e-9), 0, 1)
    wanted, eps = start + (end - start) * done, run.column("Epsilon")
    rows = np.flatnonzero(np.abs(eps - wanted) > 1e-6)
    if not len(rows):
        return None
    row = int(rows[0])
    return Found(
        f"Epsilon is {eps[row]:.4g} in epoch {run.epoch(row)}, but the schedule from {start:g} to "
        f"{end:g} over {steps:g} steps gives {wanted[row]:.4g}",
        run.span(rows),
    )


def _width_fixed(run: Record) -> Found | None:
    run.need_rows(5)
    run.need_signal()
    ent = run.column("Entropy")
    if run.number("pi_lr", 1.0) == 0:
        raise Skip("pi_lr is 0")
    spread = float(np.nanmax(ent) - np.nanmin(ent))
    if not spread < 1e-6:
        return None
    box = run.action_space.get("type") == "Box"
    cause = (
        "the width of the policy (log_std) is not trained"
        if box
        else "the policy does not change from one epoch to the next"
    )
    return Found(
        f"Entropy stays at {ent[0]:.6g} in all {run.rows} epochs: {cause}", run.span([0, -1])
    )


def _twins_equal(run: Record) -> Found | None:
    pairs = [(run.column(f"{s}Q1Vals"), run.column(f"{s}Q2Vals")) for s in ("Average", "Std")]
    same = np.ones(run.rows, bool)
    for q1, q2 in pairs:
        with np.errstate(invalid="ignore"):
            same &= np.abs(q1 - q2) <= 1e-6 * np.abs(q1)
    rows = longest(same)
    if len(rows) < 3:
        return None
    return Found(
        f"AverageQ1Vals and AverageQ2Vals are equal in {len(rows)} epochs in a row (both "
        f"{pairs[0][0][rows[-1]]:.6g} in epoch {run.epoch(int(rows[-1]))})",
        run.span(rows),
    )


def _finite(run: Record) -> Found | None:
    logged = [name for name in run.columns if not _OF_EPISODES.search(name)]
    if run.setting("update_every", 1) > run.setting("steps_per_epoch", math.inf):
        raise Skip("some epochs have no gradient step, so their losses are NaN")
    for name in sorted(logged, key=lambda name: not name.startswith("Loss")):
        values = run.columns[name]
        started = np.flatnonzero(np.isfinite(values))
        infinite = np.isinf(values)
        after = np.arange(run.rows) > (started[0] if len(started) else run.rows)
        bad = infinite | (np.isnan(values) & after)
        if name in run.diagnosed:
            bad = infinite  # a diagnosis may be undefined in some epochs
        if run.base == "td3" and name == "LossPi":  # the policy's steps may all be delayed
            bad = infinite
        rows = np.flatnonzero(bad)
        if len(rows):
            row = int(rows[0])
            before = f"; epoch {run.epoch(row - 1)} was the last good one" if row else ""
            return Found(
                f"{name} is {values[row]} from epoch {run.epoch(row)} on{before}", run.span(rows)
            )
    return None


def _entropy_range(run: Record) -> Found | None:
    ent, most = run.column("Entropy"), math.log(run.n_actions)
    rows = np.flatnonzero((ent > most + 1e-4) | (ent < -1e-4))
    if not len(rows):
        return None
    row = int(rows[0])
    return Found(
        f"Entropy is {ent[row]:.4g} in epoch {run.epoch(row)}, outside 0 to log {run.n_actions} = "
        f"{most:.4g}",
        run.span(rows),
    )


def _temperature(run: Record) -> Found | None:
    alpha, given = run.column("Alpha"), run.setting("alpha", 0.2)
    learned = isinstance(given, str)
    rows = np.flatnonzero(run.updated)
    if learned:
        if len(rows) < 3 or np.ptp(alpha[rows]) > 1e-6 * abs(alpha[rows[0]]):
            return None
        return Found(f"Alpha stays at {alpha[rows[0]]:.4g}, but alpha is '{given}'", run.span(rows))
    rows = np.flatnonzero(np.abs(alpha - given) > 1e-5 * max(abs(given), 1e-3))
    if not len(rows):
        return None
    row = int(rows[0])
    return Found(
        f"Alpha is {alpha[row]:.4g} in epoch {run.epoch(row)}, but alpha is fixed at {given:g}",
        run.span(rows),
    )


def _in_order(run: Record) -> Found | None:
    for name, average in run.columns.items():
        match = _SPREAD.fullmatch(name)
        if not match or match[1] != "Average" or name in run.diagnosed:
            continue
        for other, sign in ((f"Max{match[2]}", 1), (f"Min{match[2]}", -1)):
            if not run.has(other):
                continue
            slack = 1e-4 * (1 + np.abs(average))
            rows = np.flatnonzero(sign * (average - run.column(other)) > slack)
            if len(rows):
                row = int(rows[0])
                return Found(
                    f"{name} is {average[row]:.6g} and {other} is {run.column(other)[row]:.6g} in "
                    f"epoch {run.epoch(row)}",
                    run.span(rows),
                )
    return None


def _too_long(run: Record) -> Found | None:
    limit = run.limit
    if not math.isfinite(limit):
        raise Skip("no time limit is recorded")
    for name in ("EpLen", "TestEpLen"):
        if not run.has(name):
            continue
        rows = np.flatnonzero(run.column(name) > limit + 1e-6)
        if len(rows):
            row = int(rows[0])
            return Found(
                f"{name} is {run.column(name)[row]:g} in epoch {run.epoch(row)}, longer than the "
                f"limit of {limit:g} steps",
                run.span(rows),
            )
    return None


# ------------------------------------------------------------------- returns and value functions


def _scaled(run: Record) -> None:
    kwargs = run.config.get("ac_kwargs")
    if isinstance(kwargs, dict) and kwargs.get("normalize_ret"):
        raise Skip("rewards are divided by a running standard deviation")


def _last_step(run: Record) -> Found | None:
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
            row = int(rows[-1])
            return Found(
                f"{name} is {value[row]:.4g} in epoch {run.epoch(row)} and {bound} "
                f"{other[row]:.4g}, "
                "although episodes terminated: the return of a last step is its reward alone "
                f"({len(rows)} of {run.rows} epochs)",
                run.span(rows),
                # REINFORCE has no value that could stand for what follows a death.
                part="returns" if run.base == "reinforce" else None,
            )
    return _leak(run, low, high, most)


def _leak(run: Record, low: np.ndarray, high: np.ndarray, most: np.ndarray) -> Found | None:
    """With positive rewards, no return exceeds that of the longest episode."""
    gamma = run.number("gamma")
    if not (low > 0).all() or gamma >= 1 or run.rows < 6:
        return None
    value = run.columns.get("MaxVVals", run.columns.get("Baseline", np.zeros(run.rows)))
    # An episode that is still going on is logged in one of the next epochs.
    later = [np.roll(run.column("MaxEpRet"), -k) for k in range(4)]
    length = np.minimum(np.fmax.reduce(later) / low + 1, run.limit)
    power = gamma**length
    ends = np.maximum(high * (1 - power) / (1 - gamma), high)
    cut = (1 - gamma) * np.maximum(value, 0) > high  # then an early cut is worth most
    top = ends + np.maximum(value, 0) * np.where(cut, 1.0, power)
    rows = np.flatnonzero((most > 1.1 * top + 1)[:-3])
    if len(rows) < 3:
        return None
    row = int(rows[-1])
    # A sum over the longest episode alone that is not discounted explains it as well.
    plain = float((most[rows] <= 1.05 * (high * length)[rows]).mean()) > 0.5
    cause = "rewards are not discounted" if plain else "sums run across the ends of episodes"
    return Found(
        f"RetMax is {most[row]:.4g} in epoch {run.epoch(row)}, but the longest episode has "
        f"{length[row]:.0f} steps, whose rewards return at most {top[row]:.4g}: {cause} "
        f"({len(rows)} of {run.rows} epochs)",
        run.span(rows),
        part="returns" if plain else None,
    )


def _discounted(run: Record) -> Found | None:
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
        row = int(rows[-1])
        return Found(
            f"RetMax is {most[row]:.4g} in epoch {run.epoch(row)}, but with gamma = {gamma:g} and "
            f"rewards of at most {high[row]:.4g}, no return exceeds {top[row]:.4g}",
            run.span(rows),
        )
    # Of an episode that was collected in one piece, at least half belongs to one epoch.
    length = run.column("MaxEpRet") / high
    envs = max(1.0, run.number("num_envs", 1)) * max(1.0, run.number("shards", 1))
    length = np.minimum(length, run.number("steps_per_epoch") / envs) / 2 - 1
    least = low * (1 - gamma ** np.maximum(length, 0)) / (1 - gamma)
    rows = np.flatnonzero(most < 0.9 * least)
    if len(rows) >= min(3, run.rows):
        row = int(rows[-1])
        return Found(
            f"RetMax is {most[row]:.4g} in epoch {run.epoch(row)}, but the longest episode has at "
            f"least {2 * length[row]:.0f} rewards of {low[row]:.4g} or more, which with gamma = "
            f"{gamma:g} return {least[row]:.4g} from its middle on",
            run.span(rows),
        )
    return None


def _lambda(run: Record) -> Found | None:
    lam = run.number("lam")
    run.need_rows(3)
    gap = run.column("AdvMean") - (run.column("RetMean") - run.column("AverageVVals"))
    scale = 1e-4 * (1e-3 + run.column("AdvStd") + np.abs(run.column("RetMean")))
    if lam >= 0.995:
        rows = np.flatnonzero(np.abs(gap) > 10 * scale)
        if lam < 1 or len(rows) < 3:
            return None
        row = int(rows[-1])
        return Found(
            f"with lam = 1, AdvMean must be RetMean - AverageVVals, but they differ by "
            f"{gap[row]:.3g} in epoch {run.epoch(row)}",
            run.span(rows),
        )
    if not (np.abs(gap) < scale).all():
        return None
    return Found(
        f"AdvMean equals RetMean - AverageVVals in all {run.rows} epochs, as with lam = 1, but lam "
        f"is {lam:g}: lambda is not used",
        run.span([0, -1]),
    )


def _value_loss(run: Record) -> Found | None:
    run.need_rows(3)
    loss, std = run.column("LossV"), run.column("RetStd")
    off = run.column("RetMean") - run.column("AverageVVals")
    wanted = (1 - run.column("ExplVarOld")) * std**2 + off**2
    gap = np.abs(loss - wanted) / (wanted + 1e-6 + 1e-6 * run.column("RetMean") ** 2)
    rows = np.flatnonzero(gap > 0.02)
    if len(rows) < max(3, 0.5 * np.isfinite(gap).sum()):
        return None
    row = int(rows[-1])
    return Found(
        f"LossV is {loss[row]:.4g} in epoch {run.epoch(row)}, but the mean squared error of the "
        f"values against the returns is {wanted[row]:.4g} ({len(rows)} of {run.rows} epochs)",
        run.span(rows),
    )


def _baseline(run: Record) -> Found | None:
    base, mean = run.column("Baseline"), run.column("RetMean")
    rows = np.flatnonzero(np.abs(base - mean) > 1e-3 * (1 + np.abs(mean)))
    if len(rows) < min(3, run.rows):
        return None
    row = int(rows[-1])
    return Found(
        f"Baseline is {base[row]:.4g} in epoch {run.epoch(row)}, but the mean of the returns is "
        f"{mean[row]:.4g}",
        run.span(rows),
    )


def _gain(run: Record) -> Found | None:
    run.need_rows(3)
    kwargs = run.config.get("ac_kwargs")
    if isinstance(kwargs, dict) and kwargs.get("normalize_obs"):
        raise Skip("the ratios include a new normalization of observations")
    gain, kl = run.column("SurrGain"), np.abs(run.column("KL"))
    moved = (kl > 1e-7) & np.isfinite(gain)
    if run.setting("anneal_lr"):
        moved &= ~run.after(0.9)
    bad = moved & (gain < 0)
    if moved.sum() < 3 or bad.sum() <= 0.5 * moved.sum():
        return None
    rows = np.flatnonzero(bad)
    return Found(
        f"the update made good actions less likely in {len(rows)} of {moved.sum()} epochs: the "
        f"mean advantage, weighted by the new policy, is {np.median(gain[rows]):.2g}",
        run.span(rows),
    )


def _ends(run: Record) -> Found | None:
    died, length, limit = run.column("TermShare"), run.column("EpLen"), run.limit
    if not math.isfinite(limit) or run.goal:
        raise Skip("no time limit is recorded, or the environment ends episodes at goals")
    rows = np.flatnonzero((died == 0) & (length < limit * 0.999))
    if len(rows) >= max(3, 0.2 * run.rows):
        row = int(rows[-1])
        return Found(
            f"no episode of epoch {run.epoch(row)} terminated, but they have {length[row]:.4g} "
            f"steps on average and are cut only after {limit:g} ({len(rows)} of {run.rows} epochs)",
            run.span(rows),
        )
    rows = np.flatnonzero((died > 0) & (length >= limit))
    if len(rows) >= max(3, 0.2 * run.rows):
        row = int(rows[-1])
        return Found(
            f"every episode of epoch {run.epoch(row)} lasts until the limit of {limit:g} steps, "
            f"but {100 * died[row]:.0f} % of the ends count as deaths",
            run.span(rows),
        )
    return None


def _after_cut(run: Record) -> Found | None:
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
    if len(rows) < 3:
        return None
    row = int(rows[-1])
    return Found(
        f"no episode of epoch {run.epoch(row)} terminated, so every return ends with a value "
        f"between {worst[row]:.4g} and {best[row]:.4g}, but returns range from {least[row]:.4g} to "
        f"{most[row]:.4g}: the value after a cut is missing ({len(rows)} epochs)",
        run.span(rows),
    )


RULES = (
    Rule(
        "X1",
        "counting",
        1,
        "error",
        "logging-saving",
        "Epoch grows by 1, TotalEnvInteracts by steps_per_epoch, and Time never falls",
        "These columns only count. If they do not, rows were lost or written twice, or the loop "
        "takes a different number of steps than it should.",
        "Compare the log with the loop; after a resume, check which checkpoint was loaded.",
        _counting,
        needs=("Epoch", "TotalEnvInteracts"),
    ),
    Rule(
        "X2",
        "ratio one",
        1,
        "error",
        "policy-loss",
        "|LossPi + ent_coef * Entropy of the previous epoch| <= 1e-4",
        "Before the first step, the new policy is the old one: every probability ratio is 1 and "
        "normalized advantages have mean 0, so the surrogate loss is 0 (minus the entropy bonus).",
        "Check that the log-probabilities are those of the policy that acted and of the actions as "
        "sampled (before clipping), that no dropout is active, and that advantages are normalized.",
        _ratio_one,
        algorithms=("ppo", "trpo"),
        needs=("LossPi",),
    ),
    Rule(
        "X3",
        "step improves",
        1,
        "error",
        "policy-step",
        "DeltaLossPi <= 1e-7",
        "The line search accepts a step only if the objective does not get worse.",
        "Compare the loss after each candidate step with the loss before, and restore the old "
        "parameters if no step is good enough.",
        _step_improves,
        algorithms=("trpo",),
        needs=("DeltaLossPi",),
    ),
    Rule(
        "X4",
        "trust region",
        1,
        "error",
        "policy-step",
        "KL <= 1.001 delta",
        "The line search accepts a step only if the KL divergence from the old policy stays within "
        "delta.",
        "Check that the line search tests KL(old || new), on the same data, and restores the old "
        "parameters if it fails.",
        _trust_region,
        algorithms=("trpo",),
        needs=("KL",),
    ),
    Rule(
        "X5",
        "bounded entropy",
        1,
        "error",
        "action-bounds",
        "-AverageLogPi <= sum of log(high - low) + 0.05 (Discrete: log n)",
        "The uniform distribution has the largest entropy of all distributions on a bounded set. "
        "A larger value is not the entropy of any policy on these actions.",
        "Check the correction for tanh and the factor for the width of the action range in the "
        "log-density.",
        _bounded_entropy,
        algorithms=("sac",),
        needs=("AverageLogPi",),
    ),
    Rule(
        "X6",
        "epsilon",
        1,
        "error",
        "exploration",
        "|Epsilon - schedule(TotalEnvInteracts)| <= 1e-6",
        "Epsilon is a function of the number of training steps alone.",
        "Check what the schedule counts; test episodes must not advance it.",
        _epsilon,
        algorithms=("dqn",),
        needs=("Epsilon", "TotalEnvInteracts"),
    ),
    Rule(
        "X7",
        "width fixed",
        1,
        "error",
        "policy-loss",
        "Entropy varies by at least 1e-6 over 5 or more epochs",
        "Every gradient step changes the policy, and with it the entropy. Learned Gaussian widths "
        "change it even if the observations do not.",
        "Check that log_std is an nn.Parameter, that the optimizer has it, and that the loss does "
        "not detach it.",
        _width_fixed,
        algorithms=ON_POLICY,
        needs=("Entropy",),
    ),
    Rule(
        "X8",
        "twins equal",
        1,
        "error",
        "value-loss",
        "AverageQ1Vals and AverageQ2Vals, and their Std, differ by more than 1e-6 of their size",
        "The two critics start from different weights. If they agree to all digits, they are one "
        "network, and their minimum removes no overestimate.",
        "Create two networks, with different initial weights, and train both.",
        _twins_equal,
        algorithms=TWINS,
        needs=("AverageQ1Vals", "AverageQ2Vals", "StdQ1Vals", "StdQ2Vals"),
    ),
    Rule(
        "X9",
        "not finite",
        1,
        "error",
        "value-loss",
        "no NaN or infinity after the first update (returns may be NaN if no episode ended)",
        "Once a loss or a weight is not finite, everything that follows is lost.",
        "Look for a division by zero, a logarithm of zero, and rewards or observations that are "
        "not finite; if there are none, start again with a lower learning rate.",
        _finite,
    ),
    Rule(
        "X10",
        "entropy range",
        1,
        "error",
        "policy-loss",
        "0 <= Entropy <= log n for n Discrete actions",
        "A distribution over n actions has an entropy between 0 and log n.",
        "Check the sum over actions and the sign, and that the logits are normalized.",
        _entropy_range,
        algorithms=(*ON_POLICY, "acer"),
        needs=("Entropy",),
    ),
    Rule(
        "X11",
        "temperature",
        1,
        "error",
        "exploration",
        "Alpha equals a fixed alpha, and moves if alpha is learned",
        "A fixed temperature is never updated; a learned one changes with every gradient step.",
        "Check that the temperature's optimizer has log_alpha and takes its steps.",
        _temperature,
        algorithms=("sac",),
        needs=("Alpha",),
    ),
    Rule(
        "X12",
        "statistics in order",
        1,
        "error",
        "logging-saving",
        "Min <= Average <= Max for every logged statistic",
        "An average lies between the smallest and the largest value.",
        "Check what is stored under this name, and when it is cleared.",
        _in_order,
    ),
    Rule(
        "X13",
        "too long",
        1,
        "error",
        "episode-ends",
        "EpLen and TestEpLen are at most the time limit and max_ep_len",
        "An episode ends at the time limit at the latest.",
        "Check that the loop ends an episode when it is truncated, and counts its steps anew.",
        _too_long,
        needs=("EpLen",),
    ),
    Rule(
        "X14",
        "return of a last step",
        1,
        "error",
        "episode-ends",
        "if episodes terminate, RetMin <= RewMax and RetMax >= RewMin; with positive rewards, "
        "RetMax is at most what the longest episode returns",
        "After the last step of an episode nothing follows, so the return of that step is its "
        "reward, which lies between RewMin and RewMax.",
        "Use 0 for the value after a terminal state, stop sums at the ends of episodes, and credit "
        "an action only with rewards that follow it.",
        _last_step,
        algorithms=ON_POLICY,
        needs=("TermShare", "RewMin", "RewMax", "RetMin", "RetMax"),
    ),
    Rule(
        "X15",
        "discount",
        1,
        "error",
        "returns",
        "with positive rewards, RetMax is at most RewMax / (1 - gamma) or MaxVVals, and at least "
        "what the longest episode returns",
        "Discounted returns are bounded by the largest reward forever, and the longest episode "
        "returns a known minimum.",
        "Check where gamma is applied, that it is applied once per step, and that sums stop at "
        "the ends of episodes.",
        _discounted,
        algorithms=ON_POLICY,
        needs=("RewMin", "RewMax", "RetMax", "MaxEpRet"),
    ),
    Rule(
        "X16",
        "lambda",
        1,
        "error",
        "returns",
        "AdvMean equals RetMean - AverageVVals if lam is 1, and only then",
        "With lambda = 1, an advantage is the return minus the value. Any other lambda weighs the "
        "rewards differently.",
        "Sum the TD errors with the factor gamma * lam.",
        _lambda,
        algorithms=("vpg", "trpo", "ppo"),
        needs=("AdvMean", "AdvStd", "RetMean", "AverageVVals"),
    ),
    Rule(
        "X17",
        "value loss",
        1,
        "error",
        "value-loss",
        "LossV = (1 - ExplVarOld) RetStd^2 + (RetMean - AverageVVals)^2, within 2 %",
        "The value function's loss is its mean squared error against the returns, which also "
        "follows from the logged means and variances.",
        "Check the targets of the value function and the shapes in its loss: (B, 1) minus (B,) "
        "broadcasts to (B, B).",
        _value_loss,
        algorithms=("vpg", "trpo", "ppo"),
        needs=("LossV", "RetStd", "RetMean", "AverageVVals", "ExplVarOld"),
    ),
    Rule(
        "X18",
        "baseline",
        1,
        "error",
        "returns",
        "Baseline is the mean of the epoch's returns",
        "REINFORCE subtracts the average return, which the log contains twice.",
        "Set the baseline anew in every epoch.",
        _baseline,
        algorithms=("reinforce",),
        needs=("Baseline", "RetMean"),
    ),
    Rule(
        "X19",
        "direction",
        1,
        "error",
        "policy-loss",
        "in most epochs, the update makes actions with a positive advantage more likely: SurrGain "
        "> 0",
        "The mean of ratio * advantage over the epoch's data is 0 before the update and positive "
        "after it, whatever the algorithm.",
        "Check the sign of the loss, the ratio (new over old), and which advantages and actions "
        "are paired.",
        _gain,
        algorithms=ON_POLICY,
        needs=("SurrGain", "KL"),
    ),
    Rule(
        "X20",
        "ends of episodes",
        1,
        "error",
        "episode-ends",
        "episodes that end before their limit terminate, and those that last until it do not",
        "An episode ends because it terminates, or because a limit cuts it. If none counts as "
        "terminated, all must be as long as the limit, and the reverse.",
        "Keep terminated and truncated apart from the environment to the buffer. An environment "
        "that truncates by itself, before its limit, is an exception.",
        _ends,
        needs=("TermShare", "EpLen"),
    ),
    Rule(
        "X21",
        "value after a cut",
        1,
        "error",
        "episode-ends",
        "in an epoch without deaths, returns lie within what rewards and values allow",
        "A path that was cut would have gone on: its return ends with the value of its last "
        "observation. Without that value, the limit looks like death.",
        "Bootstrap from V(last observation) where a path was cut by a limit or by the epoch's end.",
        _after_cut,
        algorithms=("vpg", "trpo", "ppo"),
        needs=("TermShare", "RewMin", "RewMax", "RetMin", "RetMax", "MinVVals", "MaxVVals"),
    ),
)

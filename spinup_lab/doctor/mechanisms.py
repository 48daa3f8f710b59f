"""Statistical rules on how an algorithm works inside (S8 to S32, S38 to S41)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from spinup.utils.findings import Finding
from spinup_lab.doctor.record import Record, longest, persists
from spinup_lab.doctor.rule import Skip
from spinup_lab.doctor.symptoms import progress

_GAUSSIAN = 0.5 * math.log(2 * math.pi * math.e)  # entropy of a unit Gaussian


def _training(run: Record) -> np.ndarray:
    """Return whether each row was trained with more than a tenth of the learning rate."""
    return ~run.after(0.9) if run.setting("anneal_lr") else np.ones(run.rows, bool)


def _share(run: Record, bad: np.ndarray, share: float) -> np.ndarray:
    """Return the bad rows if they are more than a share of all rows, of which there are enough."""
    run.need_rows(5)
    rows = np.flatnonzero(bad)
    return rows if len(rows) > max(share * run.rows, 1) else rows[:0]


# ---------------------------------------------------------------------- policies: how far they move


def s8_frozen(run: Record) -> Iterator[Finding]:
    if run.number("pi_lr", 1.0) == 0:
        raise Skip("pi_lr is 0")
    kl = run.column("KL")
    bad = np.abs(kl) < 1e-7 if run.base in ("vpg", "reinforce") else np.abs(kl) < 1e-6
    if run.has("ClipFrac"):
        bad &= run.column("ClipFrac") == 0
    if run.has("StdEpRet"):  # if all episodes are equal, there is nothing to learn
        bad &= run.column("StdEpRet") > 1e-6 * np.abs(run.column("AverageEpRet"))
    trained = np.flatnonzero(_training(run))
    rows = trained[persists(bad[trained])]
    if len(rows):
        yield run.found(
            f"the policy does not move: KL is {kl[rows[-1]]:.2g} in epoch {run.epoch(rows[-1])}",
            rows,
        )


def s9_kl_large(run: Record) -> Iterator[Finding]:
    kl = run.column("KL")
    if run.base == "ppo":
        target = run.setting("target_kl")
        limit = 3 * target if isinstance(target, float) else 0.3
        what = f"target_kl is {target:g}" if target else "there is no target_kl"
    else:
        limit, what = 0.2, "one gradient step per epoch should move the policy little"
    rows = _share(run, kl > limit, 0.2)
    if len(rows):
        worst = rows[np.argmax(kl[rows])]
        yield run.found(
            f"KL is above {limit:.2g} in {len(rows)} of {run.rows} epochs, and {kl[worst]:.2g} in "
            f"epoch {run.epoch(worst)}; {what}",
            rows,
        )


def s10_stops_at_once(run: Record) -> Iterator[Finding]:
    if run.setting("target_kl") is None or run.number("train_pi_iters", 80) < 10:
        raise Skip("the policy's steps are not stopped early, or there are few of them")
    stop = run.column("StopIter")
    rows = _share(run, stop <= 2, 0.5)
    if len(rows):
        yield run.found(
            f"the policy's steps stop after {np.median(stop[rows]):g} of "
            f"{run.number('train_pi_iters', 80):g} in {len(rows)} of {run.rows} epochs",
            rows,
        )


def s11_clip_always(run: Record) -> Iterator[Finding]:
    clipped = run.column("ClipFrac")
    rows = persists(clipped > 0.5)
    if len(rows):
        yield run.found(
            f"{100 * clipped[rows[-1]]:.0f} % of the probability ratios are beyond the clip range",
            rows,
        )


def s12_loss_rises(run: Record) -> Iterator[Finding]:
    delta = run.column("DeltaLossPi")
    moved = _training(run)
    if run.has("KL"):  # a policy that has collapsed does not move any more
        moved &= np.abs(run.column("KL")) > 1e-7
    rows = np.flatnonzero((delta > 1e-5) & moved)
    if len(rows) >= 3 and len(rows) > 0.6 * moved.sum():
        always = len(rows) > 0.8 * moved.sum()
        yield run.found(
            f"DeltaLossPi is positive in {len(rows)} of {run.rows} epochs (at most "
            f"{np.nanmax(delta):+.2g}): the policy's steps make its own objective worse",
            rows,
            level="error" if always and run.rows >= 10 else None,
        )


def s13_line_search(run: Record) -> Iterator[Finding]:
    tried, most = run.column("BacktrackIters"), run.number("backtrack_iters", 10)
    failed = longest(tried >= most)
    if len(failed) >= 3:
        yield run.found(
            f"the line search finds no step in {len(failed)} epochs in a row, so the policy does "
            "not change",
            failed,
        )
    if run.rows >= 5 and tried.mean() > 5:
        yield run.found(
            f"the line search shortens the step {tried.mean():.1f} times on average",
            [0, -1],
        )


def s39_small_steps(run: Record) -> Iterator[Finding]:
    kl, delta = run.column("KL"), run.number("delta", 0.01)
    if run.has("BacktrackIters") and np.median(run.column("BacktrackIters")) > 0:
        raise Skip("the line search shortens the steps")
    middle, top = (float(np.nanquantile(kl, share)) / delta for share in (0.5, 0.9))
    if not middle > 0 or (middle >= 0.35 and top >= 0.5):
        return
    yield run.found(
        f"the median KL is {middle:.2g} delta, and nine of ten are below {top:.2g} delta, although "
        "the line search accepts the first step",
        [0, -1],
    )


# ------------------------------------------------------------------------- policies: their entropy


def _width(run: Record) -> tuple[np.ndarray, str]:
    """Return the policy's relative randomness and what it is: 1 is fully random, 0 none."""
    ent = run.column("Entropy")
    if run.discrete:
        return ent / math.log(max(2, run.n_actions)), "of the entropy of random actions"
    low, high = run.bounds
    half = np.where(np.isfinite(high - low), (high - low) / 2, 1.0)
    return np.exp(ent / run.act_dim - _GAUSSIAN) / float(np.exp(np.log(half).mean())), (
        "of half the action range"
    )


def s14_entropy_gone(run: Record) -> Iterator[Finding]:
    width, what = _width(run)
    limit = 0.05 if run.discrete else 0.02
    early = np.flatnonzero((width < limit) & ~run.after(0.3))
    if len(early) >= 3 and not progress(run).z > 3:
        row = early[0]
        yield run.found(
            f"the policy is nearly deterministic from epoch {run.epoch(row)} on ({width[row]:.2g} "
            f"{what}), before it has learned anything",
            early,
        )


def s15_entropy_stuck(run: Record) -> Iterator[Finding]:
    run.need_signal()
    share = run.column("Entropy") / math.log(max(2, run.n_actions))
    if run.number("pi_lr", 1.0) != 0 and (share[10:] > 0.999).all():
        yield run.found(
            f"the policy still picks actions uniformly after {run.rows} epochs ({share[-1]:.4f} of "
            "the largest entropy)",
            [10, -1],
        )


def s16_entropy_grows(run: Record) -> Iterator[Finding]:
    ent = run.column("Entropy") / run.act_dim
    grown = float(ent[-run.last :].mean() - ent[:3].mean())
    if grown <= 0.5 or progress(run).z > 1:
        return
    yield run.found(
        f"the policy's entropy grew by {grown:.2g} per action dimension while the return did not "
        "rise",
        [0, -1],
    )


# ------------------------------------------------------------------------------- value functions


def s17_critic_unfit(run: Record) -> Iterator[Finding]:
    delta, loss = run.column("DeltaLossV"), run.column("LossV")
    rows = _share(run, (delta > 1e-6 * np.abs(loss)) & _training(run), 0.2)
    if len(rows):
        yield run.found(
            f"the value function fits its targets worse after its update in {len(rows)} of "
            f"{run.rows} epochs (DeltaLossV > 0)",
            rows,
            level="error" if len(rows) > 0.8 * run.rows and run.rows >= 10 else None,
        )


def s18_explained(run: Record) -> Iterator[Finding]:
    varied = run.column("StdEpRet") > 0.1 * np.abs(run.column("AverageEpRet"))
    if run.has("ExplVarNew") and run.has("RetStd"):
        share, name = run.column("ExplVarNew"), "ExplVarNew"
        varied &= run.column("RetStd") > 0.1 * np.abs(run.column("RetMean"))
    else:
        loss, spread = run.column("LossV"), run.column("StdVVals") ** 2
        share, name = 1 - loss / (loss + spread + 1e-12), "1 - LossV / (LossV + StdVVals^2)"
    rows = persists((share < 0.05) & varied)
    if len(rows) >= 5:
        yield run.found(
            f"the value function explains {share[rows[-1]]:.2g} of the variance of the returns "
            f"after {run.rows} updates ({name})",
            rows,
        )


def _horizon(run: Record) -> tuple[np.ndarray, np.ndarray]:
    """Return the discounted return of an average episode, and that of an endless one."""
    gamma, length = run.number("gamma"), run.column("EpLen")
    reward = run.column("AverageEpRet") / length
    if gamma >= 1:
        return reward * length, np.full(run.rows, math.inf) * np.sign(reward)
    return reward * (1 - gamma**length) / (1 - gamma), reward / (1 - gamma)


def s19_value_scale(run: Record) -> Iterator[Finding]:
    if run.normalizes("ret"):
        raise Skip("values are in units of normalized returns")
    finite, endless = _horizon(run)
    value = run.column("AverageVVals")
    big = np.maximum(np.abs(finite), np.abs(endless))
    with np.errstate(divide="ignore", invalid="ignore"):
        over = value / big
        signed = np.where(np.abs(finite) > 1e-9, value / finite, 1.0)
    # Rewards of both signs make the average episode say little about a state's value.
    steady = np.sign(run.column("MinEpRet")) == np.sign(run.column("MaxEpRet"))
    for bad, said in (
        ((np.abs(over) > 2) & steady, "more than twice"),
        ((np.abs(signed) < 0.05) & steady, "less than a twentieth of"),
        ((signed < -0.2) & steady, "of the other sign than"),
    ):
        rows = persists(bad)
        if len(rows) >= 5:
            row = rows[-1]
            yield run.found(
                f"AverageVVals is {value[row]:.4g} in epoch {run.epoch(row)}, {said} the "
                f"discounted return of an average episode ({finite[row]:.4g})",
                rows,
            )


def s20_value_blind(run: Record) -> Iterator[Finding]:
    spread, value = run.column("StdVVals"), np.abs(run.column("AverageVVals"))
    varied = run.column("StdEpRet") > 0.2 * np.abs(run.column("AverageEpRet"))
    rows = persists((spread < 1e-3 * value) & varied)
    if len(rows):
        row = rows[-1]
        yield run.found(
            f"the value function gives every state the same value ({value[row]:.4g} with a "
            f"standard deviation of {spread[row]:.2g}), although returns differ",
            rows,
        )


def s40_advantages(run: Record) -> Iterator[Finding]:
    std = run.column("AdvStd") + 1e-6
    mean = run.column("AdvMean") / std
    off = (run.column("RetMean") - run.column("AverageVVals")) / std
    outside = np.maximum(mean - np.maximum(off, 0), np.minimum(off, 0) - mean)
    rows = np.flatnonzero((outside > 0.5) & (run.column("AdvStd") > 1e-3))
    if len(rows) >= 3:
        row = rows[np.argmax(outside[rows])]
        yield run.found(
            f"advantages average {mean[row]:+.2f} standard deviations in epoch {run.epoch(row)}, "
            f"where returns exceed values by {off[row]:+.2f} (outside by more than 0.5 in "
            f"{len(rows)} of {run.rows} epochs; healthy: below 0.2)",
            rows,
        )


def s41_clock(run: Record) -> Iterator[Finding]:
    lengths = run.column("EpLen")
    lengths = lengths[np.isfinite(lengths)]
    died = run.column("TermShare")
    if len(lengths) < 5 or np.ptp(lengths) > 0 or lengths[0] <= 10:
        return
    ended = died[np.isfinite(died) & (died + run.column("CutShare") > 0)]
    if not len(ended) or not (ended > 0).all() or np.nanmax(run.column("CutShare")) > 0:
        return
    yield run.found(
        f"every episode terminates after exactly {lengths[0]:g} steps: a time limit that is "
        "reported as a death",
        [0, -1],
    )


# ------------------------------------------------------------------------------------------ critics


def _soft_bonus(run: Record) -> float:
    """Return the most that SAC's entropy bonus can add to a value."""
    if run.base != "sac" or not run.has("Alpha") or run.number("gamma") >= 1:
        return 0.0
    bonus = -run.column("AverageLogPi") * run.column("Alpha")
    return max(0.0, float(np.nanmax(bonus, initial=0.0))) / (1 - run.number("gamma"))


def s21_q_high(run: Record) -> Iterator[Finding]:
    if run.algo == "her":
        raise Skip("S30 is the rule for HER")
    finite, endless = _horizon(run)
    name = run.q
    value, spread = run.column(f"Average{name}"), run.column(f"Std{name}")
    bonus = _soft_bonus(run)
    gains = np.maximum(finite, endless)
    # An early, bad policy knows little of what a good one will earn: compare with the best so far.
    best = np.fmax.accumulate(np.where(np.isfinite(gains), gains, -math.inf))
    top = np.where(best > 0, 2 * best, 0.1 * np.abs(endless)) + spread + bonus
    losing = run.column("MaxEpRet") < 0
    bad = np.where(best > 0, value > top, losing & (value > top))
    rows = persists(bad)
    if len(rows) >= 5:
        row = rows[-1]
        yield run.found(
            f"Average{name} is {value[row]:.4g} in epoch {run.epoch(row)}, but episodes return "
            f"{finite[row]:.4g} (discounted), and {endless[row]:.4g} if they never ended",
            rows,
        )


def s22_q_runs_away(run: Record) -> Iterator[Finding]:
    name = run.q
    value = np.abs(run.column(f"Average{name}"))
    finite, endless = _horizon(run)
    scale = np.fmax.accumulate(np.maximum(np.abs(finite), np.minimum(np.abs(endless), 1e9)))
    logs = np.log10(np.maximum(value[-10:], 1e-12))
    slope = float(np.polyfit(np.arange(len(logs)), logs, 1)[0]) if np.isfinite(logs).all() else 0.0
    beyond = value[-1] > 2 * scale[-1] + _soft_bonus(run)
    if slope > 0.05 and beyond:
        yield run.found(
            f"Average{name} grows by {100 * (10**slope - 1):.0f} % per epoch and has reached "
            f"{value[-1]:.3g}, far beyond any return",
            [-10, -1],
            level="error" if value[-1] > 10 * scale[-1] else None,
        )


def s23_q_dead(run: Record) -> Iterator[Finding]:
    name = run.q
    value, spread = np.abs(run.column(f"Average{name}")), run.column(f"Std{name}")
    rows = persists((spread < 1e-3 * (value + 1e-3)) & run.updated & ~_same_everywhere(run, value))
    if len(rows):
        row = rows[-1]
        yield run.found(
            f"the critic gives every action the same value: {value[row]:.3g} with a standard "
            f"deviation of {spread[row]:.2g} in epoch {run.epoch(row)}",
            rows,
        )


def _same_everywhere(run: Record, value: np.ndarray) -> np.ndarray:
    """Return in which rows the value is that of a solved task, the same in every state.

    A policy that never fails earns the same reward r in every step, and all values are
    r / (1 - gamma).
    """
    gamma, needs = run.setting("gamma"), ("AverageEpRet", "StdEpRet", "EpLen")
    if not isinstance(gamma, int | float) or not gamma < 1 or not all(map(run.has, needs)):
        return np.zeros(run.rows, bool)
    returns = run.column("AverageEpRet")
    wanted = np.abs(returns / run.column("EpLen")) / (1 - gamma)
    steady = run.column("StdEpRet") <= 1e-3 * np.abs(returns)
    return steady & (np.abs(value - wanted) <= 0.05 * wanted)


def s24_twins_apart(run: Record) -> Iterator[Finding]:
    q1, q2 = run.column("AverageQ1Vals"), run.column("AverageQ2Vals")
    spread = np.maximum(run.column("StdQ1Vals"), run.column("StdQ2Vals"))
    rows = persists(np.abs(q1 - q2) > 0.5 * spread + 1e-6)
    if len(rows):
        row = rows[-1]
        yield run.found(
            f"the two critics disagree: AverageQ1Vals is {q1[row]:.4g} and AverageQ2Vals "
            f"{q2[row]:.4g} in epoch {run.epoch(row)}",
            rows,
        )


def s25_actor_below(run: Record) -> Iterator[Finding]:
    name = run.q
    own = -run.column("LossPi")
    if run.base == "sac":
        own = own + run.column("Alpha") * run.column("AverageLogPi")
    data, spread = run.column(f"Average{name}"), run.column(f"Std{name}")
    rows = persists((own < data - 0.5 * spread) & run.after(0.2))
    if len(rows):
        row = rows[-1]
        yield run.found(
            f"the critic gives the policy's own actions {own[row]:.4g} and those in the replay "
            f"buffer {data[row]:.4g} in epoch {run.epoch(row)}",
            rows,
        )


# ----------------------------------------------------------------------------- SAC's temperature


def target_entropy(run: Record) -> float:
    """Return the entropy that SAC's learned temperature aims at."""
    given = run.setting("target_entropy")
    if isinstance(given, int | float):
        return float(given)
    if run.discrete:
        return 0.5 * math.log(run.n_actions)
    low, high = run.bounds
    return float((np.log((high - low) / 2) - 1).sum())


def _learned(run: Record) -> None:
    if not isinstance(run.setting("alpha", 0.2), str):
        raise Skip("the temperature is fixed")


def s26_temperature_direction(run: Record) -> Iterator[Finding]:
    _learned(run)
    run.need_rows(8)
    gap = run.column("AverageLogPi") + target_entropy(run)  # > 0: too little entropy, alpha rises
    move = np.diff(np.log(np.maximum(run.column("Alpha"), 1e-30)))
    clear = np.isfinite(gap[1:]) & (np.abs(gap[1:]) > 0.2) & np.isfinite(move)
    if clear.sum() < 4:
        raise Skip("the entropy is close to its target")
    agree = float((np.sign(move) == np.sign(gap[1:]))[clear].mean())
    if agree < 0.5:
        yield run.found(
            f"the temperature moves towards its target entropy in only {100 * agree:.0f} % of "
            f"{clear.sum()} epochs",
            np.flatnonzero(clear) + 1,
        )


def s27_temperature_range(run: Record) -> Iterator[Finding]:
    alpha = run.column("Alpha")
    rows = persists(((alpha < 1e-4) & (alpha > 0)) | (alpha > 10))
    if len(rows):
        yield run.found(f"Alpha is {alpha[rows[-1]]:.2g}", rows)


def s28_entropy_off_target(run: Record) -> Iterator[Finding]:
    _learned(run)
    run.need_rows(10)
    target, entropy = target_entropy(run), -run.column("AverageLogPi")
    size = float(max(1, run.act_dim)) if run.box else 1.0
    off = np.abs(entropy[-run.last :] - target)
    if (off > 0.5 * size).all():
        yield run.found(
            f"the policy's entropy is {entropy[-1]:.3g}, and the target of the learned temperature "
            f"{target:.3g}",
            [-run.last, -1],
        )


# -------------------------------------------------------------------------------------- HER, ACER


def s29_no_success(run: Record) -> Iterator[Finding]:
    name = "TestSuccessRate" if run.has("TestSuccessRate") else "SuccessRate"
    rows = np.flatnonzero(run.after(0.3))
    if not np.nanmax(run.column(name)[rows], initial=0.0) > 0:
        q = run.column(f"Average{run.q}")[-1]
        yield run.found(
            f"{name} is 0 in every epoch after the first 30 % (Average{run.q} is {q:.3g}; a goal "
            f"that is never reached is worth {-1 / (1 - run.number('gamma')):.3g})",
            rows,
        )


def s30_her_q_above_zero(run: Record) -> Iterator[Finding]:
    most = run.column(f"Max{run.q}")
    if np.nanmax(run.column("MaxEpRet")) > 0:
        raise Skip("some rewards are positive")
    # A critic overestimates a little, and where all goals are reached, a little is above 0.
    reached = run.column("TestSuccessRate", "SuccessRate")[-run.last :]
    if np.nanmean(reached) >= 0.9:
        return
    late = np.flatnonzero(run.after(0.5) & (most > 5.0))
    average = run.column(f"Average{run.q}")
    rows = np.flatnonzero(run.after(0.3) & (average > 0.05))
    rows = rows if len(rows) >= 3 else late
    if len(rows) >= 3:
        row = rows[-1]
        yield run.found(
            f"the critic expects positive returns (Max{run.q} is {most[row]:.3g}, Average{run.q} "
            f"{average[row]:.3g} in epoch {run.epoch(row)}), but rewards are -1 or 0",
            rows,
        )


def s31_memory_old(run: Record) -> Iterator[Finding]:
    clipped = run.column("ClipFrac")
    rows = persists(clipped > 0.2)
    if len(rows):
        yield run.found(
            f"{100 * clipped[rows[-1]]:.0f} % of the importance weights are truncated at c: the "
            "replayed data comes from policies that act very differently",
            rows,
        )


def s38_average_frozen(run: Record) -> Iterator[Finding]:
    kl = run.column("KL")
    rows = longest(np.diff(kl) > 0)
    grown = kl[-1] / max(float(np.nanmedian(kl[: max(3, run.rows // 5)])), 1e-6)
    if len(rows) < 5 or rows[-1] < run.rows - 5 or grown < 20 or kl[-1] < 0.1:
        return
    yield run.found(
        f"KL from the average policy rises without end: it is {kl[-1]:.2g}, {grown:.0f} times as "
        "large as at first",
        rows + 1,
    )


def s32_no_updates(run: Record) -> Iterator[Finding]:
    if not np.isfinite(run.column("LossQ")).any():
        after, total = run.setting("update_after", 0), run.column("TotalEnvInteracts")[-1]
        yield run.found(
            f"no gradient step was taken: the run has taken {total:g} steps and update_after is "
            f"{after}",
            [0, -1],
            level="hint" if total < after else "error",
        )

"""Statistical rules on how an algorithm works inside (S8 to S32)."""

from __future__ import annotations

import math

import numpy as np

from spinup_lab.doctor.record import Record, longest, persists
from spinup_lab.doctor.rule import (
    ACTOR_CRITICS,
    ON_POLICY,
    TWINS,
    Found,
    Rule,
    Skip,
)
from spinup_lab.doctor.symptoms import progress

_GAUSSIAN = 0.5 * math.log(2 * math.pi * math.e)  # entropy of a unit Gaussian


def _training(run: Record) -> np.ndarray:
    """Return whether each row was trained with more than a tenth of the learning rate."""
    return ~run.after(0.9) if run.setting("anneal_lr") else np.ones(run.rows, bool)


def _tail(run: Record, bad: np.ndarray) -> np.ndarray | None:
    """Like `persists`, but without the rows whose learning rate has been annealed."""
    rows = np.flatnonzero(_training(run))
    found = persists(bad[rows])
    return None if found is None else rows[found]


def _share(run: Record, bad: np.ndarray, share: float) -> np.ndarray | None:
    """Return the bad rows if they are more than a share of all rows, of which there are enough."""
    run.need_rows(5)
    rows = np.flatnonzero(bad)
    return rows if len(rows) > max(share * run.rows, 1) else None


# ---------------------------------------------------------------------- policies: how far they move


def _frozen(run: Record) -> Found | None:
    run.need_rows(5)
    if run.number("pi_lr", 1.0) == 0:
        raise Skip("pi_lr is 0")
    kl = run.column("KL")
    bad = np.abs(kl) < 1e-7 if run.base in ("vpg", "reinforce") else np.abs(kl) < 1e-6
    if run.has("ClipFrac"):
        bad &= run.column("ClipFrac") == 0
    if run.has("StdEpRet"):  # if all episodes are equal, there is nothing to learn
        bad &= run.column("StdEpRet") > 1e-6 * np.abs(run.column("AverageEpRet"))
    rows = _tail(run, bad)
    if rows is None:
        return None
    return Found(
        f"the policy does not move: KL is {kl[rows[-1]]:.2g} in epoch {run.epoch(int(rows[-1]))}",
        run.span(rows),
    )


def _kl_large(run: Record) -> Found | None:
    kl = run.column("KL")
    if run.base == "ppo":
        target = run.setting("target_kl")
        limit = 3 * target if isinstance(target, float) else 0.3
        what = f"target_kl is {target:g}" if target else "there is no target_kl"
    else:
        limit, what = 0.2, "one gradient step per epoch should move the policy little"
    rows = _share(run, kl > limit, 0.2)
    if rows is None:
        return None
    worst = int(rows[np.argmax(kl[rows])])
    return Found(
        f"KL is above {limit:.2g} in {len(rows)} of {run.rows} epochs, and {kl[worst]:.2g} in "
        f"epoch {run.epoch(worst)}; {what}",
        run.span(rows),
    )


def _stops_at_once(run: Record) -> Found | None:
    if run.setting("target_kl") is None or run.number("train_pi_iters", 80) < 10:
        raise Skip("the policy's steps are not stopped early, or there are few of them")
    stop = run.column("StopIter")
    rows = _share(run, stop <= 2, 0.5)
    if rows is None:
        return None
    return Found(
        f"the policy's steps stop after {np.median(stop[rows]):g} of "
        f"{run.number('train_pi_iters', 80):g} in {len(rows)} of {run.rows} epochs",
        run.span(rows),
    )


def _clip_always(run: Record) -> Found | None:
    clipped = run.column("ClipFrac")
    rows = persists(clipped > 0.5)
    if rows is None:
        return None
    return Found(
        f"{100 * clipped[rows[-1]]:.0f} % of the probability ratios are beyond the clip range",
        run.span(rows),
    )


def _loss_rises(run: Record) -> Found | None:
    run.need_rows(5)
    delta = run.column("DeltaLossPi")
    moved = _training(run)
    if run.has("KL"):  # a policy that has collapsed does not move any more
        moved &= np.abs(run.column("KL")) > 1e-7
    rows = np.flatnonzero((delta > 1e-5) & moved)
    if len(rows) < 3 or len(rows) <= 0.6 * moved.sum():
        return None
    always = len(rows) > 0.8 * moved.sum()
    return Found(
        f"DeltaLossPi is positive in {len(rows)} of {run.rows} epochs (at most "
        f"{np.nanmax(delta):+.2g}): the policy's steps make its own objective worse",
        run.span(rows),
        level="error" if always and run.rows >= 10 else None,
    )


def _line_search(run: Record) -> Found | None:
    tried, most = run.column("BacktrackIters"), run.number("backtrack_iters", 10)
    failed = longest(tried >= most)
    if len(failed) >= 3:
        return Found(
            f"the line search finds no step in {len(failed)} epochs in a row, so the policy does "
            "not change",
            run.span(failed),
        )
    if run.rows >= 5 and tried.mean() > 5:
        return Found(
            f"the line search shortens the step {tried.mean():.1f} times on average",
            run.span([0, -1]),
        )
    return None


def _small_steps(run: Record) -> Found | None:
    run.need_rows(10)
    kl, delta = run.column("KL"), run.number("delta", 0.01)
    if run.has("BacktrackIters") and np.median(run.column("BacktrackIters")) > 0:
        raise Skip("the line search shortens the steps")
    middle, top = (float(np.nanquantile(kl, share)) / delta for share in (0.5, 0.9))
    if not middle > 0 or (middle >= 0.35 and top >= 0.5):
        return None
    return Found(
        f"the median KL is {middle:.2g} delta, and nine of ten are below {top:.2g} delta, although "
        "the line search accepts the first step",
        run.span([0, -1]),
    )


# ------------------------------------------------------------------------- policies: their entropy


def _width(run: Record) -> tuple[np.ndarray, str]:
    """Return the policy's relative randomness and what it is: 1 is fully random, 0 none."""
    ent = run.column("Entropy")
    if run.action_space.get("type") == "Discrete":
        return ent / math.log(max(2, run.n_actions)), "of the entropy of random actions"
    low, high = run.bounds
    half = np.where(np.isfinite(high - low), (high - low) / 2, 1.0)
    return np.exp(ent / run.act_dim - _GAUSSIAN) / float(np.exp(np.log(half).mean())), (
        "of half the action range"
    )


def _entropy_gone(run: Record) -> Found | None:
    run.need_rows(10)
    width, what = _width(run)
    limit = 0.05 if run.action_space.get("type") == "Discrete" else 0.02
    early = np.flatnonzero((width < limit) & ~run.after(0.3))
    if len(early) < 3 or progress(run).z > 3:
        return None
    row = int(early[0])
    return Found(
        f"the policy is nearly deterministic from epoch {run.epoch(row)} on ({width[row]:.2g} "
        f"{what}), before it has learned anything",
        run.span(early),
    )


def _entropy_stuck(run: Record) -> Found | None:
    run.need_rows(30)
    run.need_signal()
    share = run.column("Entropy") / math.log(max(2, run.n_actions))
    if run.number("pi_lr", 1.0) == 0 or not (share[10:] > 0.999).all():
        return None
    return Found(
        f"the policy still picks actions uniformly after {run.rows} epochs ({share[-1]:.4f} of the "
        "largest entropy)",
        run.span([10, -1]),
    )


def _entropy_grows(run: Record) -> Found | None:
    run.need_rows(20)
    ent = run.column("Entropy") / run.act_dim
    grown = float(ent[-run.last :].mean() - ent[:3].mean())
    if grown <= 0.5 or progress(run).z > 1:
        return None
    return Found(
        f"the policy's entropy grew by {grown:.2g} per action dimension while the return did not "
        "rise",
        run.span([0, -1]),
    )


# ------------------------------------------------------------------------------- value functions


def _critic_unfit(run: Record) -> Found | None:
    delta, loss = run.column("DeltaLossV"), run.column("LossV")
    rows = _share(run, (delta > 1e-6 * np.abs(loss)) & _training(run), 0.2)
    if rows is None:
        return None
    return Found(
        f"the value function fits its targets worse after its update in {len(rows)} of {run.rows} "
        "epochs (DeltaLossV > 0)",
        run.span(rows),
        level="error" if len(rows) > 0.8 * run.rows and run.rows >= 10 else None,
    )


def _explained(run: Record) -> Found | None:
    run.need_rows(20)
    if run.has("ExplVarNew") and run.has("RetStd"):
        share, name = run.column("ExplVarNew"), "ExplVarNew"
        varied = run.column("RetStd") > 0.1 * np.abs(run.column("RetMean"))
        varied &= run.column("StdEpRet") > 0.1 * np.abs(run.column("AverageEpRet"))
    else:
        loss, spread = run.column("LossV"), run.column("StdVVals") ** 2
        share, name = 1 - loss / (loss + spread + 1e-12), "1 - LossV / (LossV + StdVVals^2)"
        varied = run.column("StdEpRet") > 0.1 * np.abs(run.column("AverageEpRet"))
    rows = persists((share < 0.05) & varied)
    if rows is None or len(rows) < 5:
        return None
    return Found(
        f"the value function explains {share[rows[-1]]:.2g} of the variance of the returns after "
        f"{run.rows} updates ({name})",
        run.span(rows),
    )


def _horizon(run: Record) -> tuple[np.ndarray, np.ndarray]:
    """Return the discounted return of an average episode, and that of an endless one."""
    gamma, length = run.number("gamma"), run.column("EpLen")
    reward = run.column("AverageEpRet") / length
    if gamma >= 1:
        return reward * length, np.full(run.rows, math.inf) * np.sign(reward)
    return reward * (1 - gamma**length) / (1 - gamma), reward / (1 - gamma)


def _normalizes_returns(run: Record) -> bool:
    kwargs = run.config.get("ac_kwargs")
    return isinstance(kwargs, dict) and bool(kwargs.get("normalize_ret"))


def _value_scale(run: Record) -> Found | None:
    run.need_rows(20)
    if _normalizes_returns(run):
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
        if rows is not None and len(rows) >= 5:
            row = int(rows[-1])
            return Found(
                f"AverageVVals is {value[row]:.4g} in epoch {run.epoch(row)}, {said} the "
                f"discounted return of an average episode ({finite[row]:.4g})",
                run.span(rows),
            )
    return None


def _value_blind(run: Record) -> Found | None:
    run.need_rows(10)
    spread, value = run.column("StdVVals"), np.abs(run.column("AverageVVals"))
    varied = run.column("StdEpRet") > 0.2 * np.abs(run.column("AverageEpRet"))
    rows = persists((spread < 1e-3 * value) & varied)
    if rows is None:
        return None
    row = int(rows[-1])
    return Found(
        f"the value function gives every state the same value ({value[row]:.4g} with a standard "
        f"deviation of {spread[row]:.2g}), although returns differ",
        run.span(rows),
    )


def _advantages(run: Record) -> Found | None:
    run.need_rows(5)
    std = run.column("AdvStd") + 1e-6
    mean = run.column("AdvMean") / std
    off = (run.column("RetMean") - run.column("AverageVVals")) / std
    outside = np.maximum(mean - np.maximum(off, 0), np.minimum(off, 0) - mean)
    rows = np.flatnonzero((outside > 0.5) & (run.column("AdvStd") > 1e-3))
    if len(rows) < 3:
        return None
    row = int(rows[np.argmax(outside[rows])])
    return Found(
        f"advantages average {mean[row]:+.2f} standard deviations in epoch {run.epoch(row)}, where "
        f"returns exceed values by {off[row]:+.2f} (outside by more than 0.5 in {len(rows)} of "
        f"{run.rows} epochs; healthy: below 0.2)",
        run.span(rows),
    )


def _clock(run: Record) -> Found | None:
    run.need_rows(5)
    lengths = run.column("EpLen")
    lengths = lengths[np.isfinite(lengths)]
    died = run.column("TermShare")
    if len(lengths) < 5 or np.ptp(lengths) > 0 or lengths[0] <= 10:
        return None
    ended = died[np.isfinite(died) & (died + run.column("CutShare") > 0)]
    if not len(ended) or not (ended > 0).all() or np.nanmax(run.column("CutShare")) > 0:
        return None
    return Found(
        f"every episode terminates after exactly {lengths[0]:g} steps: a time limit that is "
        "reported as a death",
        run.span([0, -1]),
    )


# ------------------------------------------------------------------------------------------ critics


def _soft_bonus(run: Record) -> float:
    """Return the most that SAC's entropy bonus can add to a value."""
    if run.base != "sac" or not run.has("Alpha") or run.number("gamma") >= 1:
        return 0.0
    bonus = -run.column("AverageLogPi") * run.column("Alpha")
    return max(0.0, float(np.nanmax(bonus, initial=0.0))) / (1 - run.number("gamma"))


def _q_high(run: Record) -> Found | None:
    run.need_rows(8)
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
    if rows is None or len(rows) < 5:
        return None
    row = int(rows[-1])
    return Found(
        f"Average{name} is {value[row]:.4g} in epoch {run.epoch(row)}, but episodes return "
        f"{finite[row]:.4g} (discounted), and {endless[row]:.4g} if they never ended",
        run.span(rows),
    )


def _q_runs_away(run: Record) -> Found | None:
    run.need_rows(10)
    name = run.q
    value = np.abs(run.column(f"Average{name}"))
    finite, endless = _horizon(run)
    scale = np.fmax.accumulate(np.maximum(np.abs(finite), np.minimum(np.abs(endless), 1e9)))
    recent = slice(-10, None)
    logs = np.log10(np.maximum(value[recent], 1e-12))
    slope = float(np.polyfit(np.arange(len(logs)), logs, 1)[0]) if np.isfinite(logs).all() else 0.0
    beyond = value[-1] > 2 * scale[-1] + _soft_bonus(run)
    if slope > 0.05 and beyond:
        return Found(
            f"Average{name} grows by {100 * (10**slope - 1):.0f} % per epoch and has reached "
            f"{value[-1]:.3g}, far beyond any return",
            run.span([-10, -1]),
            level="error" if value[-1] > 10 * scale[-1] else None,
        )
    return None


def _q_dead(run: Record) -> Found | None:
    run.need_rows(5)
    name = run.q
    value, spread = np.abs(run.column(f"Average{name}")), run.column(f"Std{name}")
    rows = persists((spread < 1e-3 * (value + 1e-3)) & run.updated & ~_same_everywhere(run, value))
    if rows is None:
        return None
    row = int(rows[-1])
    return Found(
        f"the critic gives every action the same value: {value[row]:.3g} with a standard deviation "
        f"of {spread[row]:.2g} in epoch {run.epoch(row)}",
        run.span(rows),
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


def _twins_apart(run: Record) -> Found | None:
    run.need_rows(8)
    q1, q2 = run.column("AverageQ1Vals"), run.column("AverageQ2Vals")
    spread = np.maximum(run.column("StdQ1Vals"), run.column("StdQ2Vals"))
    rows = persists(np.abs(q1 - q2) > 0.5 * spread + 1e-6)
    if rows is None:
        return None
    row = int(rows[-1])
    return Found(
        f"the two critics disagree: AverageQ1Vals is {q1[row]:.4g} and AverageQ2Vals {q2[row]:.4g} "
        f"in epoch {run.epoch(row)}",
        run.span(rows),
    )


def _actor_below(run: Record) -> Found | None:
    run.need_rows(8)
    name = run.q
    own = -run.column("LossPi")
    if run.base == "sac":
        own = own + run.column("Alpha") * run.column("AverageLogPi")
    data, spread = run.column(f"Average{name}"), run.column(f"Std{name}")
    rows = persists((own < data - 0.5 * spread) & run.after(0.2))
    if rows is None:
        return None
    row = int(rows[-1])
    return Found(
        f"the critic gives the policy's own actions {own[row]:.4g} and those in the replay buffer "
        f"{data[row]:.4g} in epoch {run.epoch(row)}",
        run.span(rows),
    )


# ----------------------------------------------------------------------------- SAC's temperature


def target_entropy(run: Record) -> float:
    """Return the entropy that SAC's learned temperature aims at."""
    given = run.setting("target_entropy")
    if isinstance(given, int | float):
        return float(given)
    if run.action_space.get("type") == "Discrete":
        return 0.5 * math.log(run.n_actions)
    low, high = run.bounds
    return float((np.log((high - low) / 2) - 1).sum())


def _learned(run: Record) -> None:
    if not isinstance(run.setting("alpha", 0.2), str):
        raise Skip("the temperature is fixed")


def _temperature_direction(run: Record) -> Found | None:
    _learned(run)
    run.need_rows(8)
    gap = run.column("AverageLogPi") + target_entropy(run)  # > 0: too little entropy, alpha rises
    move = np.diff(np.log(np.maximum(run.column("Alpha"), 1e-30)))
    clear = np.isfinite(gap[1:]) & (np.abs(gap[1:]) > 0.2) & np.isfinite(move)
    if clear.sum() < 4:
        raise Skip("the entropy is close to its target")
    agree = float((np.sign(move) == np.sign(gap[1:]))[clear].mean())
    if agree >= 0.5:
        return None
    return Found(
        f"the temperature moves towards its target entropy in only {100 * agree:.0f} % of "
        f"{clear.sum()} epochs",
        run.span(np.flatnonzero(clear) + 1),
    )


def _temperature_range(run: Record) -> Found | None:
    alpha = run.column("Alpha")
    rows = persists(((alpha < 1e-4) & (alpha > 0)) | (alpha > 10))
    if rows is None:
        return None
    return Found(f"Alpha is {alpha[rows[-1]]:.2g}", run.span(rows))


def _entropy_off_target(run: Record) -> Found | None:
    _learned(run)
    run.need_rows(10)
    target, entropy = target_entropy(run), -run.column("AverageLogPi")
    try:
        size = float(max(1, run.act_dim))
    except Skip:
        size = 1.0
    off = np.abs(entropy[-run.last :] - target)
    if not (off > 0.5 * size).all():
        return None
    return Found(
        f"the policy's entropy is {entropy[-1]:.3g}, and the target of the learned temperature "
        f"{target:.3g}",
        run.span([-run.last, -1]),
    )


# -------------------------------------------------------------------------------------- HER, ACER


def _no_success(run: Record) -> Found | None:
    run.need_rows(10)
    name = "TestSuccessRate" if run.has("TestSuccessRate") else "SuccessRate"
    rate = run.column(name)
    rows = np.flatnonzero(run.after(0.3))
    if np.nanmax(rate[rows], initial=0.0) > 0:
        return None
    q = run.column(f"Average{run.q}")[-1]
    return Found(
        f"{name} is 0 in every epoch after the first 30 % (Average{run.q} is {q:.3g}; a goal that "
        f"is never reached is worth {-1 / (1 - run.number('gamma')):.3g})",
        run.span(rows),
    )


def _her_q_above_zero(run: Record) -> Found | None:
    most = run.column(f"Max{run.q}")
    if np.nanmax(run.column("MaxEpRet")) > 0:
        raise Skip("some rewards are positive")
    # A critic overestimates a little, and where all goals are reached, a little is above 0.
    reached = run.column("TestSuccessRate", "SuccessRate")[-run.last :]
    if np.nanmean(reached) >= 0.9:
        return None
    late = np.flatnonzero(run.after(0.5) & (most > 5.0))
    average = run.column(f"Average{run.q}")
    rows = np.flatnonzero(run.after(0.3) & (average > 0.05))
    if len(rows) < 3 and len(late) < 3:
        return None
    rows = rows if len(rows) >= 3 else late
    return Found(
        f"the critic expects positive returns (Max{run.q} is {most[rows[-1]]:.3g}, Average{run.q} "
        f"{average[rows[-1]]:.3g} in epoch {run.epoch(int(rows[-1]))}), but rewards are -1 or 0",
        run.span(rows),
    )


def _memory_old(run: Record) -> Found | None:
    run.need_rows(10)
    clipped = run.column("ClipFrac")
    rows = persists(clipped > 0.2)
    if rows is None:
        return None
    return Found(
        f"{100 * clipped[rows[-1]]:.0f} % of the importance weights are truncated at c: the "
        "replayed data comes from policies that act very differently",
        run.span(rows),
    )


def _average_frozen(run: Record) -> Found | None:
    run.need_rows(10)
    kl = run.column("KL")
    rises = np.diff(kl) > 0
    rows = longest(rises)
    grown = kl[-1] / max(float(np.nanmedian(kl[: max(3, run.rows // 5)])), 1e-6)
    if len(rows) < 5 or rows[-1] < run.rows - 5 or grown < 20 or kl[-1] < 0.1:
        return None
    return Found(
        f"KL from the average policy rises without end: it is {kl[-1]:.2g}, {grown:.0f} times as "
        "large as at first",
        run.span(rows + 1),
    )


def _no_updates(run: Record) -> Found | None:
    if np.isfinite(run.column("LossQ")).any():
        return None
    after, total = run.setting("update_after", 0), run.column("TotalEnvInteracts")[-1]
    done = f"the run has taken {total:g} steps and update_after is {after}"
    level = "hint" if total < after else "error"
    return Found(f"no gradient step was taken: {done}", run.span([0, -1]), level=level)


RULES = (
    Rule(
        "S8",
        "frozen policy",
        1,
        "warning",
        "policy-loss",
        "KL is at least 1e-6 (one step per epoch: 1e-7) or some ratios are clipped",
        "Each update should change the policy a little; healthy runs have a KL of 2e-5 to 0.02.",
        "Check that the loss depends on the policy's parameters (no detach), that the optimizer "
        "has them, and that pi_lr is not tiny.",
        _frozen,
        algorithms=ON_POLICY,
        needs=("KL",),
    ),
    Rule(
        "S9",
        "KL too large",
        1,
        "warning",
        "policy-step",
        "KL <= 3 target_kl (ppo; 0.3 without one), KL <= 0.2 (vpg, reinforce), in 80 % of epochs",
        "The data says how good actions are near the policy that took them, and nothing about a "
        "policy far away. Early stopping allows 1.5 target_kl plus one step.",
        "Lower pi_lr, or take fewer or larger minibatches. With target_kl set, check that the "
        "steps stop.",
        _kl_large,
        algorithms=("ppo", "vpg", "reinforce"),
        needs=("KL",),
    ),
    Rule(
        "S10",
        "stops at once",
        1,
        "warning",
        "policy-step",
        "StopIter > 2 in at least half of the epochs",
        "If the very first steps already move the policy beyond target_kl, an epoch's data is "
        "hardly used.",
        "Lower pi_lr.",
        _stops_at_once,
        algorithms=("ppo",),
        needs=("StopIter",),
    ),
    Rule(
        "S11",
        "clip always",
        1,
        "warning",
        "policy-step",
        "ClipFrac <= 0.5; healthy runs stay below 0.35 in 95 % of their epochs",
        "Clipped ratios have no gradient. If most are clipped, the policy moved too far before "
        "the clipping could hold it.",
        "Lower pi_lr, take fewer iterations, and check the min in the clipped objective.",
        _clip_always,
        algorithms=("ppo",),
        needs=("ClipFrac",),
    ),
    Rule(
        "S12",
        "policy loss rises",
        1,
        "warning",
        "policy-loss",
        "DeltaLossPi <= 1e-5 in at least 40 % of the epochs; an error if it is above in 80 %",
        "A gradient step lowers the loss it was computed from, unless it is too long or points the "
        "wrong way.",
        "Check the sign of the loss, then lower pi_lr.",
        _loss_rises,
        algorithms=("ppo", "vpg", "reinforce"),
        needs=("DeltaLossPi",),
    ),
    Rule(
        "S13",
        "line search",
        1,
        "warning",
        "policy-step",
        "BacktrackIters is below backtrack_iters and at most 5 on average; usually 0 or 1",
        "The first step of the line search is meant to be right; it is shortened only if the "
        "quadratic model is bad.",
        "Raise cg_iters or damping_coeff; check the gradient and the Hessian-vector product.",
        _line_search,
        algorithms=("trpo",),
        needs=("BacktrackIters",),
    ),
    Rule(
        "S14",
        "entropy gone",
        1,
        "warning",
        "exploration",
        "in the first 30 % of the run, the policy keeps 5 % of the largest entropy (Discrete) or 2 "
        "% of half the action range (Box), unless it has learned",
        "A policy that is deterministic before it is good cannot find anything better.",
        "Lower pi_lr, raise ent_coef, or scale the rewards down.",
        _entropy_gone,
        algorithms=ON_POLICY,
        needs=("Entropy", "AverageEpRet"),
    ),
    Rule(
        "S15",
        "entropy stuck",
        1,
        "warning",
        "policy-loss",
        "after 30 epochs, Entropy is below 0.999 log n",
        "Learning makes some actions more likely than others. A uniform policy has not learned.",
        "Check that the policy's loss reaches its parameters, and that advantages are not all "
        "equal.",
        _entropy_stuck,
        algorithms=ON_POLICY,
        needs=("Entropy",),
    ),
    Rule(
        "S16",
        "entropy grows",
        1,
        "warning",
        "policy-loss",
        "Entropy grows by less than 0.5 per action dimension, or the return rises",
        "Without a reason in the rewards, only an entropy bonus or a wrong sign makes a Gaussian "
        "policy wider and wider.",
        "Lower ent_coef; check the sign of the policy's loss.",
        _entropy_grows,
        algorithms=ON_POLICY,
        needs=("Entropy", "AverageEpRet"),
    ),
    Rule(
        "S17",
        "critic gets worse",
        1,
        "warning",
        "value-loss",
        "DeltaLossV <= 0 in at least 80 % of the epochs",
        "The value function is fitted to the epoch's returns; its loss on them must fall.",
        "Lower vf_lr; check that loss and gradient step use the same targets.",
        _critic_unfit,
        algorithms=ON_POLICY,
        needs=("DeltaLossV", "LossV"),
    ),
    Rule(
        "S18",
        "explained variance",
        1,
        "warning",
        "value-loss",
        "after 20 updates, the value function explains at least 5 % of the returns' variance",
        "A value function that knows nothing about the returns is no baseline: the advantages are "
        "as noisy as the returns themselves.",
        "Check the targets, raise vf_lr or train_v_iters, and look at the scale of observations "
        "and rewards.",
        _explained,
        algorithms=("vpg", "trpo", "ppo"),
        needs=("LossV", "StdVVals"),
    ),
    Rule(
        "S19",
        "value scale",
        1,
        "warning",
        "returns",
        "|AverageVVals| is at most twice the discounted return (of an endless episode), at least a "
        "twentieth of an episode's, and of the same sign",
        "Values are averages of discounted returns. If they are much larger, values leak over the "
        "ends of episodes or are not discounted; if much smaller, they are fitted to something "
        "else.",
        "Check gamma, the value after the last step (0 after a death), and the targets of the "
        "value function.",
        _value_scale,
        algorithms=("vpg", "trpo", "ppo"),
        needs=("AverageVVals", "AverageEpRet", "EpLen", "MinEpRet", "MaxEpRet"),
    ),
    Rule(
        "S20",
        "value blind",
        1,
        "warning",
        "value-loss",
        "StdVVals is at least 1e-3 of the values, if returns vary by more than 20 %",
        "States that lead to different returns have different values.",
        "Check that observations reach the value function, and that its layers are alive.",
        _value_blind,
        algorithms=("vpg", "trpo", "ppo"),
        needs=("StdVVals", "AverageVVals", "StdEpRet", "AverageEpRet"),
    ),
    Rule(
        "S21",
        "Q too high",
        1,
        "warning",
        "targets",
        "the average Q is at most twice the best discounted return so far plus StdQ (with negative "
        "rewards: 10 % of an endless episode's above 0)",
        "Q is a discounted return. A critic far above every return learns from its own mistakes: "
        "it bootstraps from states after a death, or its maximum picks overestimates.",
        "Check that terminal states have no value after them, that the target network lags, and "
        "use two critics or double Q-learning.",
        _q_high,
        algorithms=("ddpg", "td3", "sac", "dqn", "acer"),
        needs=("AverageEpRet", "EpLen", "MaxEpRet"),
    ),
    Rule(
        "S22",
        "Q runs away",
        1,
        "warning",
        "targets",
        "over the last 10 epochs, |Q| grows by less than 12 % per epoch, or stays within returns",
        "The target of Q contains Q. If every update raises the next target, values explode.",
        "Move the target network more slowly (polyak closer to 1), lower q_lr, scale the rewards "
        "down, and check gamma and the done flags.",
        _q_runs_away,
        algorithms=("ddpg", "td3", "sac", "dqn", "acer"),
        needs=("LossQ", "AverageEpRet", "EpLen"),
    ),
    Rule(
        "S23",
        "Q dead",
        1,
        "warning",
        "value-loss",
        "StdQ is at least 1e-3 of |Q|, unless every episode returns the same and Q is "
        "r / (1 - gamma)",
        "A critic that cannot tell states and actions apart gives the policy no direction.",
        "Check that the critic has a linear output (no ReLU) and receives a gradient.",
        _q_dead,
        algorithms=("ddpg", "td3", "sac", "dqn", "acer"),
    ),
    Rule(
        "S24",
        "twins apart",
        1,
        "warning",
        "value-loss",
        "the averages of the two critics differ by at most half of their spread",
        "Both critics are fitted to the same target, so they agree on average.",
        "Check that both losses use the same batch and the same target.",
        _twins_apart,
        algorithms=TWINS,
        needs=("AverageQ1Vals", "AverageQ2Vals", "StdQ1Vals", "StdQ2Vals"),
    ),
    Rule(
        "S25",
        "actor below its data",
        1,
        "warning",
        "policy-loss",
        "Q of the policy's own actions is at most half a StdQ below Q of the replayed ones, after "
        "20 % of the run",
        "The policy is trained to take the actions that the critic likes best, so it should beat "
        "the older, noisier ones in the buffer.",
        "Check the sign of the policy's loss, and that it uses the trained critic and lets the "
        "gradient through.",
        _actor_below,
        algorithms=ACTOR_CRITICS,
        needs=("LossPi",),
    ),
    Rule(
        "S26",
        "temperature direction",
        1,
        "warning",
        "exploration",
        "Alpha rises when the entropy is below its target and falls when it is above, in at least "
        "half of the epochs",
        "The learned temperature pulls the entropy towards its target.",
        "Check the sign of the temperature's loss.",
        _temperature_direction,
        root=True,
        algorithms=("sac",),
        needs=("Alpha", "AverageLogPi"),
    ),
    Rule(
        "S27",
        "temperature range",
        1,
        "warning",
        "exploration",
        "1e-4 <= Alpha <= 10",
        "Outside this range, the entropy bonus is nothing, or everything.",
        "Scale the rewards, and check the target entropy and the sign of the temperature's loss.",
        _temperature_range,
        root=True,
        algorithms=("sac",),
        needs=("Alpha",),
    ),
    Rule(
        "S28",
        "entropy off target",
        1,
        "warning",
        "exploration",
        "with a learned temperature, the entropy is within 0.5 per action dimension of its target "
        "at the end",
        "If the temperature cannot bring the entropy to its target, its sign or the target is "
        "wrong.",
        "Check the sign of the temperature's loss, and that the target is possible: below log n "
        "for n Discrete actions.",
        _entropy_off_target,
        algorithms=("sac",),
        needs=("AverageLogPi",),
    ),
    Rule(
        "S29",
        "no success",
        1,
        "warning",
        "replay",
        "some episode reaches its goal after the first 30 % of the run",
        "Hindsight goals are reached by construction, so the critic sees successes even if the "
        "policy has none. Without progress from them, relabeling does not work.",
        "Check that the reward of a relabeled transition is computed anew, and that the goal is "
        "replaced in both observations.",
        _no_success,
        needs=("SuccessRate|TestSuccessRate",),
    ),
    Rule(
        "S30",
        "HER: Q above zero",
        1,
        "warning",
        "replay",
        "with rewards of -1 and 0, the average Q is at most 0.05 and MaxQ at most 5, or nine of "
        "ten goals are reached",
        "No return can be positive if no reward is.",
        "Check the rewards and the done flags of relabeled copies.",
        _her_q_above_zero,
        needs=("SuccessRate", "MaxEpRet"),
    ),
    Rule(
        "S31",
        "memory too old",
        1,
        "warning",
        "replay",
        "at most 20 % of ACER's importance weights are truncated",
        "Retrace corrects for old data, but very old data leaves nothing to learn from.",
        "Use a smaller replay_size or a lower learning rate.",
        _memory_old,
        algorithms=("acer",),
        needs=("ClipFrac",),
    ),
    Rule(
        "S38",
        "average policy frozen",
        1,
        "warning",
        "targets",
        "KL from the average policy stays within 20 times its first values",
        "ACER's average policy follows the policy. If the distance only grows, it does not.",
        "Check that the average policy is updated after every step, with polyak below 1.",
        _average_frozen,
        algorithms=("acer",),
        needs=("KL",),
    ),
    Rule(
        "S32",
        "no updates",
        1,
        "error",
        "hyperparameters",
        "LossQ is a number in some epoch",
        "Without gradient steps, nothing is learned.",
        "Lower update_after, or run longer.",
        _no_updates,
        algorithms=("ddpg", "td3", "sac", "dqn", "acer"),
        needs=("LossQ", "TotalEnvInteracts"),
    ),
    Rule(
        "S39",
        "trust region unused",
        1,
        "warning",
        "policy-step",
        "the median KL of TRPO is at least 0.35 delta, and a tenth of them are above 0.5 delta, if "
        "the line search accepts the first step",
        "The step is computed so that its KL is delta, to second order; healthy runs reach 0.6 "
        "to 1 of it.",
        "Check the factor sqrt(2 delta / x^T H x) and the damping.",
        _small_steps,
        algorithms=("trpo",),
        needs=("KL",),
    ),
    Rule(
        "S40",
        "advantages",
        1,
        "warning",
        "returns",
        "the mean advantage lies between 0 and the mean of return minus value, within half a "
        "standard deviation",
        "GAE averages over advantages of all horizons. All of them are small where values fit the "
        "returns, and none exceeds the return minus the value by much.",
        "Check the TD error r + gamma V(s') - V(s): which V is taken where, and what follows the "
        "last step.",
        _advantages,
        algorithms=("vpg", "trpo", "ppo"),
        needs=("AdvMean", "AdvStd", "RetMean", "AverageVVals"),
    ),
    Rule(
        "S41",
        "death by the clock",
        1,
        "warning",
        "environment",
        "episodes that all have the same length are truncated, not terminated",
        "An end that comes at the same step whatever the policy does is a time limit. Reported as "
        "terminated, it teaches that nothing follows.",
        "Return truncated=True at the limit, or let gymnasium.make do it with max_episode_steps.",
        _clock,
        needs=("EpLen", "TermShare", "CutShare"),
    ),
)

"""Rules on a run's settings (S34 to S37)."""

from __future__ import annotations

import math

import numpy as np

from spinup_lab.doctor.record import Record
from spinup_lab.doctor.rule import Found, Rule, Skip


def _horizon(run: Record) -> Found | None:
    gamma = run.number("gamma")
    if gamma >= 1:
        raise Skip("returns are not discounted")
    lengths = run.column("EpLen")
    length = float(np.nanmean(lengths)) if np.isfinite(lengths).any() else math.nan
    far = 1 / (1 - gamma)
    if far < length / 20:
        return Found(
            f"gamma = {gamma:g} looks {far:.3g} steps ahead, and episodes have {length:.4g} steps"
        )
    if far > 20 * length and length > 5:
        return Found(
            f"gamma = {gamma:g} looks {far:.3g} steps ahead, and episodes have only {length:.4g} "
            "steps"
        )
    return None


def _schedule(run: Record) -> Found | None:
    epochs, per_epoch = run.number("epochs"), run.number("steps_per_epoch")
    total = epochs * per_epoch
    if total <= 0:
        raise Skip("the run has no steps")

    def given(name: str, otherwise: float = math.nan) -> float:
        value = run.setting(name)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return float(value) if number else otherwise

    faults = []
    if given("start_steps") > 0.5 * total:
        share = 100 * given("start_steps") / total
        faults.append(f"start_steps takes {share:.0f} % of the run's {total:g} steps")
    if run.base == "dqn" and given("eps_steps", 10000) > total:
        faults.append(
            f"eps_steps is {given('eps_steps', 10000):g}, longer than the run ({total:g})"
        )
    if not run.on_policy and given("update_after") >= total:
        faults.append(f"update_after is {given('update_after'):g}, and the run has {total:g} steps")
    updates = total * given("updates_per_step", 1.0)
    if not run.on_policy and given("target_update_every") > max(1.0, updates / 10):
        faults.append(
            f"the target network is updated every {given('target_update_every'):g} gradient steps, "
            f"fewer than ten times in the whole run"
        )
    length = run.columns.get("EpLen")
    longest = float(np.nanmax(length)) if length is not None and np.isfinite(length).any() else 0.0
    if not run.on_policy and given("replay_size") < min(5 * longest, total):
        faults.append(
            f"replay_size is {given('replay_size'):g}, less than five episodes of {longest:g} steps"
        )
    if run.on_policy and epochs < 30 and run.rows >= epochs:
        many = "1 epoch" if epochs == 1 else f"{epochs:g} epochs"
        faults.append(f"the run has {many}, and the policy is updated once per epoch")
    return Found("; ".join(faults)) if faults else None


def _wrappers(run: Record) -> Found | None:
    record = run.config.get("env")
    names = record.get("wrappers") if isinstance(record, dict) else None
    if not isinstance(names, list):
        raise Skip("config.json does not list the environment's wrappers")
    stateful = [n for n in names if n in ("NormalizeObservation", "NormalizeReward")]
    if not stateful:
        return None
    return Found(
        f"the environment has the wrapper {' and '.join(stateful)}, whose statistics are not saved "
        "with the policy"
    )


def _limits(run: Record) -> Found | None:
    record = run.config.get("env")
    own = record.get("max_episode_steps") if isinstance(record, dict) else None
    if own is None and isinstance(record, dict):
        own = record.get("max_ep_len")  # of a game that ends by itself
    most = run.setting("max_ep_len")
    if not isinstance(most, int | float) or not isinstance(record, dict):
        raise Skip("config.json has no limits")
    if isinstance(own, int | float) and most < own:
        return Found(
            f"max_ep_len = {most:g} ends episodes before the environment's own limit of {own:g} "
            "steps"
        )
    lengths = run.columns.get("EpLen", np.array([]))[-run.last :]
    lengths = lengths[np.isfinite(lengths)]  # NaN: no episode ended
    if own is None and len(lengths) and lengths.mean() >= most:
        return Found(
            f"the environment has no time limit, and every episode is cut at max_ep_len = {most:g}"
        )
    return None


RULES = (
    Rule(
        "S34",
        "horizon",
        1,
        "hint",
        "hyperparameters",
        "1 / (1 - gamma) is between a twentieth and twenty times the length of an episode",
        "Rewards further away than 1 / (1 - gamma) steps hardly count.",
        "Choose gamma so that 1 / (1 - gamma) covers what the policy must look ahead to.",
        _horizon,
        needs=("EpLen",),
    ),
    Rule(
        "S35",
        "schedule",
        1,
        "hint",
        "hyperparameters",
        "the phases of a run fit into it: start_steps, eps_steps, update_after, target updates, "
        "replay_size, at least 30 policy updates",
        "Defaults are made for long runs; in a short one, a phase may never end.",
        "Run longer, or shorten the phase.",
        _schedule,
    ),
    Rule(
        "S36",
        "stateful wrappers",
        1,
        "warning",
        "normalizer",
        "the environment has no NormalizeObservation or NormalizeReward",
        "The policy sees normalized observations, but the statistics stay in the environment. A "
        "fresh environment, for tests or for the saved policy, has others.",
        "Use ac_kwargs:normalize_obs, whose statistics are part of the policy.",
        _wrappers,
    ),
    Rule(
        "S37",
        "limits",
        1,
        "hint",
        "environment",
        "episodes end by themselves or at the environment's own time limit",
        "A limit that the environment does not know changes what the policy is trained for.",
        "Set max_ep_len to the environment's limit, or register the environment with one.",
        _limits,
    ),
)

"""Rules on a run's settings (S34 to S37)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from spinup.utils.findings import Finding
from spinup_lab.doctor.record import Record
from spinup_lab.doctor.rule import Skip


def s34_horizon(run: Record) -> Iterator[Finding]:
    gamma = run.number("gamma")
    if gamma >= 1:
        raise Skip("returns are not discounted")
    lengths = run.column("EpLen")
    length = float(np.nanmean(lengths)) if np.isfinite(lengths).any() else math.nan
    far = 1 / (1 - gamma)
    if far < length / 20 or (far > 20 * length and length > 5):
        only = "" if far < length else "only "
        yield run.found(
            f"gamma = {gamma:g} looks {far:.3g} steps ahead, and episodes have {only}{length:.4g} "
            "steps"
        )


def s35_schedule(run: Record) -> Iterator[Finding]:
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
            "fewer than ten times in the whole run"
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
    if faults:
        yield run.found("; ".join(faults))


def s36_wrappers(run: Record) -> Iterator[Finding]:
    record = run.config.get("env")
    names = record.get("wrappers") if isinstance(record, dict) else None
    if not isinstance(names, list):
        raise Skip("config.json does not list the environment's wrappers")
    stateful = [n for n in names if n in ("NormalizeObservation", "NormalizeReward")]
    if stateful:
        yield run.found(
            f"the environment has the wrapper {' and '.join(stateful)}, whose statistics are not "
            "saved with the policy"
        )


def s37_limits(run: Record) -> Iterator[Finding]:
    record = run.config.get("env")
    most = run.setting("max_ep_len")
    if not isinstance(most, int | float) or not isinstance(record, dict):
        raise Skip("config.json has no limits")
    own = record.get("max_episode_steps")
    if own is None:
        own = record.get("max_ep_len")  # of a game that ends by itself
    if isinstance(own, int | float) and most < own:
        yield run.found(
            f"max_ep_len = {most:g} ends episodes before the environment's own limit of {own:g} "
            "steps"
        )
    lengths = run.columns.get("EpLen", np.array([]))[-run.last :]
    lengths = lengths[np.isfinite(lengths)]  # NaN: no episode ended
    if own is None and len(lengths) and lengths.mean() >= most:
        yield run.found(
            f"the environment has no time limit, and every episode is cut at max_ep_len = {most:g}"
        )

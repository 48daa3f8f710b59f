"""Rules on checkpoints (C1 to C18, C25): optimizers, targets, replayed data, normalizers."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from spinup.utils.findings import Finding
from spinup_lab.doctor.record import Record
from spinup_lab.doctor.rule import OFF_POLICY, ON_POLICY, Skip
from spinup_lab.doctor.saved import BUFFERS, Saved

_ENOUGH_UPDATES = 10
_PARTS = {"pi_optimizer": "policy-loss", "vf_optimizer": "value-loss", "q_optimizer": "value-loss"}
_RATES = {"pi_optimizer": "pi_lr", "vf_optimizer": "vf_lr", "q_optimizer": "q_lr"}


# -------------------------------------------------------------------------------------- optimizers


def c1_untrained(run: Record) -> Iterator[Finding]:
    saved = run.saved
    if run.on_policy:
        run.need_signal()
    dead = not run.on_policy and _critic_is_flat(run)
    for optimizer in saved.optimizers():
        # Layers of a shared encoder belong to the critics, and an image may have dead pixels.
        if optimizer.name not in _PARTS or run.images:
            continue
        taken = optimizer.steps or (0 if run.on_policy else saved.updates)
        if run.on_policy:
            taken = max(taken, saved.epochs)
        if taken < _ENOUGH_UPDATES:
            raise Skip(f"there were only {taken} updates")
        names = saved.trained(optimizer.name)
        if len(names) != len(optimizer.squares):
            continue  # C17 speaks of it
        bad = [
            name
            for name, square in zip(names, optimizer.squares, strict=True)
            if square is None or not np.any(square)
        ]
        if bad:
            shown = ", ".join(bad[:4]) + (f" and {len(bad) - 4} more" if len(bad) > 4 else "")
            yield run.found(
                f"{shown} never got a gradient in {taken} updates of {optimizer.name}"
                + (", because the critic gives all actions the same value" if dead else ""),
                part="value-loss" if dead else _PARTS[optimizer.name],
            )


def _critic_is_flat(run: Record) -> bool:
    """Whether the critic gives every state and action the same value in the last rows."""
    spread = run.columns.get("StdQVals", run.columns.get("StdQ1Vals"))
    return spread is not None and bool((spread[-3:] == 0).all())


def _expected_updates(run: Record, steps: int) -> int:
    """Return how many gradient steps the settings call for after so many environment steps."""
    every, after = int(run.number("update_every")), run.number("update_after")
    envs = int(run.number("num_envs", 1))
    ratio = every * run.number("updates_per_step", 1.0)
    for t in range(envs, steps + 1, envs):
        before = (t - envs) // every
        if t >= after and t // every != before:
            return math.floor(steps // every * ratio + 1e-9) - math.floor(before * ratio + 1e-9)
    return 0


def _expected_steps(run: Record, saved: Saved, name: str) -> int | None:
    """Return how many steps an optimizer should have taken; None if the tables do not tell."""
    if run.base in OFF_POLICY:
        if name == "pi_optimizer" and run.base == "td3":
            return -(-saved.updates // int(run.number("policy_delay", 2)))
        return saved.updates
    if not saved.whole_epochs:
        return None
    if name == "pi_optimizer":
        if run.base == "ppo":
            done = run.column("StopIter")[: saved.rows]
            return int(done.sum()) if saved.rows == saved.epochs else None
        return saved.epochs
    passes = int(run.number("train_v_iters", 80)) * saved.epochs
    return passes if run.setting("minibatch_size") is None else None


def c2_update_counts(run: Record) -> Iterator[Finding]:
    saved = run.saved
    if run.base not in (*ON_POLICY, *OFF_POLICY):
        raise Skip("the algorithm is not one of the library's")
    for optimizer in saved.optimizers():
        wanted = _expected_steps(run, saved, optimizer.name)
        if wanted is not None and wanted != optimizer.steps:
            critics = {o.name: o.steps for o in saved.optimizers()}.get("q_optimizer")
            delayed = run.base == "td3" and critics == saved.updates
            yield run.found(
                f"{optimizer.name} has taken {optimizer.steps} steps, but should have taken "
                f"{wanted} after {saved.epochs} epochs",
                part="policy-step" if delayed else None,  # TD3 delays the policy's steps alone
            )
    if run.base in OFF_POLICY and run.algo not in ("her", "acer"):
        taken = np.diff(run.column("TotalEnvInteracts"))
        if len(taken) and (taken != run.number("steps_per_epoch")).any():
            raise Skip("some steps were resets")
        steps = int(saved.tracked["loop"]["t"])
        wanted = _expected_updates(run, steps)
        if wanted != saved.updates:
            yield run.found(
                f"{saved.updates} gradient steps were taken in {steps} environment steps; "
                f"update_after, update_every and updates_per_step ask for {wanted}"
            )


def c17_optimizer_settings(run: Record) -> Iterator[Finding]:
    saved = run.saved
    if run.images:
        raise Skip("networks for images share layers")
    left = 1.0
    if run.setting("anneal_lr"):
        left = 1 - max(0, saved.epochs - 1) / max(1.0, run.number("epochs"))
    for optimizer in saved.optimizers():
        if optimizer.name not in _PARTS:
            continue
        names = saved.trained(optimizer.name)
        held = len(optimizer.squares)
        if names and len(names) != held:
            how = "others are among them" if len(names) < held else "some are missing"
            yield run.found(
                f"{optimizer.name} trains {held} tensors, but its network has {len(names)}: {how}",
                part=_PARTS[optimizer.name],
            )
        rate = run.setting(_RATES[optimizer.name], run.setting("lr"))
        if not isinstance(rate, int | float) or not saved.whole_epochs:
            continue
        if abs(optimizer.lr - rate * left) > 1e-6 * abs(rate) + 1e-12:
            yield run.found(
                f"the learning rate of {optimizer.name} is {optimizer.lr:.4g}; the settings give "
                f"{rate * left:.4g} in epoch {saved.epochs - 1}",
                part="hyperparameters",
            )


# --------------------------------------------------------------------------------- target networks


def _pairs(saved: Saved) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the trained tensors of the target networks with those of the networks."""
    names = [n for n in saved.targets if not any(b in n for b in BUFFERS)]
    return [(saved.targets[n], saved.weights[n]) for n in names if n in saved.weights]


def _copies(run: Record) -> bool:
    """Whether the target network is a copy that is renewed from time to time."""
    return run.number("polyak", 0.995) == 0 or run.number("target_update_every", 1) > 1


def _target_updates(run: Record, saved: Saved) -> float:
    return saved.updates / (run.number("policy_delay", 2) if run.base == "td3" else 1)


def c3_target_equal(run: Record) -> Iterator[Finding]:
    saved = run.saved
    polyak, updates = run.number("polyak", 0.995), saved.updates
    pairs = _pairs(saved)
    if updates < _ENOUGH_UPDATES or not pairs:
        raise Skip("there were too few updates")
    if polyak == 0 and updates % int(run.number("target_update_every", 1)) == 0:
        raise Skip("the target network was copied just now")
    if not any(float(np.abs(a - b).max(initial=0)) > 0 for a, b in pairs):
        yield run.found(
            f"the target network equals the network itself after {updates} updates, with polyak = "
            f"{polyak:g}"
        )


def c4_target_distance(run: Record) -> Iterator[Finding]:
    saved = run.saved
    polyak = run.number("polyak", 0.995)
    if _copies(run) or not 0 < polyak < 1:
        raise Skip("the target network is a copy that is renewed from time to time")
    lag = 1 / (1 - polyak)
    if _target_updates(run, saved) < 5 * lag:
        raise Skip(f"there were fewer than {5 * lag:.0f} updates")
    pairs = _pairs(saved)
    square = sum(float(((a - b).astype(float) ** 2).sum()) for a, b in pairs)
    size = sum(float((b.astype(float) ** 2).sum()) for _, b in pairs)
    count = sum(a.size for a, _ in pairs)
    if not count or square == 0:
        raise Skip("C3 is the rule for a target network that equals the network")
    far = math.sqrt(square / size)
    if far > 0.4 and _target_updates(run, saved) >= 10 * lag:
        yield run.found(
            f"the target network is {far:.2f} of the network's norm away from it after "
            f"{saved.updates} updates (healthy: below 0.15), with polyak = {polyak:g}"
        )
    names = [name for name in ("q_optimizer", "pi_optimizer") if name in saved.tracked]
    if "pi_avg" in saved.tracked:
        names = ["pi_optimizer"]
    rate = saved.optimizer(names[0]).lr
    # Adam moves a weight by about a tenth of the learning rate per step, to and fro.
    near = math.sqrt(square / count) / (rate * math.sqrt(lag / 200)) if rate else 1.0
    if _critic_is_flat(run):
        raise Skip("the network does not move")
    if near < 0.5 and lag >= 20:
        yield run.found(
            "the target network follows the network almost at once: a weight lags behind by "
            f"{near:.2f} of the learning rate (healthy: 2 to 8), with polyak = {polyak:g}"
        )


def c5_weights(run: Record) -> Iterator[Finding]:
    for name, x in run.saved.weights.items():
        if not np.isfinite(x).all():
            yield run.found(f"{name} contains values that are not finite", level="error")
        if x.ndim == 2 and name.endswith("weight"):
            size = float(np.sqrt((x.astype(float) ** 2).mean()))
            usual = 1 / math.sqrt(3 * x.shape[1])
            if size > 100 * usual:
                yield run.found(
                    f"the weights of {name} have grown to {size:.3g}, {size / usual:.0f} times "
                    "their size at the start"
                )


# ---------------------------------------------------------------------------------- replayed data


def _replayed(run: Record) -> dict[str, np.ndarray]:
    rows = run.saved.replay
    if len(rows["rew"]) < 200:
        raise Skip("the replay buffer has fewer than 200 transitions")
    return rows


class _Replay:
    """The replayed transitions and how they follow each other."""

    def __init__(self, run: Record):
        if run.algo in ("her", "acer"):
            raise Skip(f"{run.algo} stores episodes in another order")
        self.rows = rows = _replayed(run)
        self.n = len(rows["rew"])
        obs, obs2 = (np.ascontiguousarray(rows[k]).reshape(self.n, -1) for k in ("obs", "obs2"))
        self.obs, self.same = obs, (obs == obs2).all(1)
        known = {row.tobytes() for row in obs}
        self.distinct = len(known) / self.n
        # Whether the next observation is the start of another transition: not at an episode's end.
        self.continues = np.array([row.tobytes() in known for row in obs2])
        self.steps = int(run.number("n_step", 1)) if run.base == "dqn" else 1
        self.envs = int(run.number("num_envs", 1))
        tail = 2 * self.steps * self.envs  # their successors are still to come
        self.inner = np.arange(self.n) < self.n - tail
        # Steps of each epoch that the rows cover, the newest epoch first.
        per_epoch = run.number("steps_per_epoch")
        lengths = run.column("EpLen")[: run.saved.rows][::-1]
        steps = np.clip(self.n - per_epoch * np.arange(len(lengths)), 0, per_epoch)
        known = np.isfinite(lengths) & (steps > 0)
        if not known.any():
            raise Skip("no episode ended")
        self.lengths, steps = lengths[known], steps[known]
        self.each = steps / self.lengths  # about how many episodes ended in each epoch
        self.episodes = float(self.each.sum())
        self.length = self.n / self.episodes


def c10_continuity(run: Record) -> Iterator[Finding]:
    replay = _Replay(run)
    if replay.same.mean() > 0.9:
        yield run.found(
            f"obs and obs2 are equal in {100 * replay.same.mean():.0f} % of the stored transitions",
            part="loop",
        )
    still = (replay.obs[1:] == replay.obs[:-1]).all(1)
    if replay.envs == 1 and still.mean() > 0.5:
        yield run.found(
            f"obs is the same as in the step before in {100 * still.mean():.0f} % of the stored "
            "transitions: it is not advanced",
            part="loop",
        )
    if replay.distinct < 0.5:
        raise Skip("observations repeat, so that transitions cannot be followed")
    follows = float(replay.continues[replay.inner].mean())
    if follows < 0.5 and replay.length > 5 * replay.steps:
        yield run.found(
            f"only {100 * follows:.0f} % of the stored transitions are followed by one that starts "
            f"where they end, although episodes have {replay.length:.4g} steps"
        )
    ends = replay.inner.sum() / replay.length * (replay.steps if replay.steps > 1 else 1)
    found = int((~replay.continues & replay.inner).sum())
    if ends >= 5 and found < 0.1 * ends:
        yield run.found(
            f"{found} stored episodes end where no other transition begins, but about {ends:.0f} "
            "episodes ended: obs2 of a last step is the first observation of the next episode",
            part="episode-ends",
        )


def c9_done_flags(run: Record) -> Iterator[Finding]:
    replay = _Replay(run)
    done = replay.rows["done"].astype(bool)
    limit = run.limit
    if replay.distinct >= 0.5:
        inside = done & replay.continues & replay.inner
        if inside.sum() > max(2, 0.2 * done.sum()):
            yield run.found(
                f"{inside.sum()} of {done.sum()} transitions stored as done are followed by more "
                "steps of the same episode"
            )
    if math.isfinite(limit) and (replay.lengths >= limit).all():
        if done.sum() > 0:
            yield run.found(
                f"{done.sum()} transitions are stored as done, but every episode lasts until the "
                f"limit of {limit:g} steps: a cut is stored as a death"
            )
        return
    episodes = replay.episodes
    if not math.isfinite(limit) or episodes < 5:
        raise Skip("too few episodes ended before their limit")
    # If a share p of the episodes reaches the limit, their mean length is at least p * limit.
    least = float(((1 - replay.lengths / limit) * replay.each).sum()) * 0.5
    if done.sum() < least and least >= 3:
        yield run.found(
            f"{done.sum()} transitions are stored as done, but at least {least:.0f} of about "
            f"{episodes:.0f} episodes ended before their limit of {limit:g} steps",
            level=None if done.sum() == 0 else "warning",
        )
    most = (1.5 * episodes + 5) * replay.steps
    if done.sum() > most:
        yield run.found(
            f"{done.sum()} transitions are stored as done, but only about {episodes:.0f} episodes "
            "ended"
        )
    if replay.steps == 1 and replay.envs == 1 and replay.distinct >= 0.5:
        ends = np.flatnonzero(~replay.continues & replay.inner)
        died = done[ends[1:][np.diff(ends) == limit]]  # of episodes that lasted until the limit
        if len(died) >= 3 and died.mean() > 0.5:
            yield run.found(
                f"{died.sum()} of {len(died)} episodes that were cut after {limit:g} steps are "
                "stored as done"
            )


def c27_discounts(run: Record) -> Iterator[Finding]:
    rows, n = run.saved.replay, int(run.number("n_step", 1))
    if "discount" not in rows or n < 2:
        raise Skip("rewards are not summed over several steps")
    wanted = run.number("gamma") ** np.arange(1, n + 1)
    found = rows["discount"].astype(float)
    off = np.abs(found[:, None] - wanted).min(1) > 1e-5
    full = np.abs(found - wanted[-1]) < 1e-5
    if off.any():
        yield run.found(
            f"{off.sum()} of {len(found)} stored discounts are not a power of gamma, such as "
            f"{found[off][0]:.5g}"
        )
    if full.mean() < 0.3:
        yield run.found(
            f"only {100 * full.mean():.0f} % of the stored discounts are gamma^{n} = "
            f"{wanted[-1]:.5g}; most are {np.median(found):.5g}"
        )


def c11_rewards(run: Record) -> Iterator[Finding]:
    rew = _replayed(run)["rew"].ravel()
    if not np.isfinite(rew).all():
        yield run.found("the replay buffer contains rewards that are not finite", level="error")
    lengths = run.columns.get("EpLen", np.zeros(1))
    alike = np.isfinite(lengths).any() and np.nanstd(lengths) == 0  # NaN: no episode ended
    if np.ptp(rew) == 0 and not run.saved.replay["done"].any() and alike:
        yield run.found(f"all {len(rew)} stored rewards are {rew[0]:g}, and no episode terminates")
    middle = float(np.abs(rew).mean())
    most = float(np.abs(rew).max())
    if middle > 0 and most > 1e3 * middle:
        yield run.found(
            f"the largest reward, {most:.3g}, is {most / middle:.0f} times the average one",
            level="hint",
        )


def c12_observations(run: Record) -> Iterator[Finding]:
    if run.algo == "acer":
        raise Skip("acer stores its data in another form")
    obs = _replayed(run)["obs"]
    obs = obs.reshape(len(obs), -1).astype(float)
    std = obs.std(0)
    if (std == 0).all():
        yield run.found("all stored observations are equal", level="warning", part="environment")
    moving = std[std > 0]
    normal = run.algo == "her" or run.normalizes("obs")
    if not normal and (np.abs(obs).max() > 100 or moving.max() > 1e3 * moving.min()):
        yield run.found(
            f"observations reach {np.abs(obs).max():.3g}, and their standard deviations lie "
            f"between {moving.min():.2g} and {moving.max():.2g}"
        )


def c13_actions(run: Record) -> Iterator[Finding]:
    act = run.saved.replay["act"]
    if run.discrete:
        n = run.n_actions
        if act.min() < 0 or act.max() >= n:
            yield run.found(
                f"stored actions range from {act.min()} to {act.max()}, outside 0 to {n - 1}"
            )
        return
    low, high = run.bounds
    act = act.reshape(-1, len(low)).astype(float)
    if run.base == "acer":
        raise Skip("acer stores actions before they are clipped")
    slack = 1e-4 * (high - low)
    out = ((act < low - slack) | (act > high + slack)).any(1)
    if out.any():
        worst = np.abs(act - (low + high) / 2).max(0) / ((high - low) / 2)
        yield run.found(
            f"{out.sum()} of {len(act)} stored actions are outside the bounds, up to "
            f"{worst.max():.2f} times half the range from the center"
        )
    unused = (act.max(0) - act.min(0)) < 0.5 * (high - low)
    warm = run.number("start_steps", 0)
    if unused.any() and warm >= 200 and run.saved.replay_total <= len(act):
        i = int(np.argmax(unused))
        yield run.found(
            f"the first {warm:g} actions should cover the whole range, but dimension {i} stays "
            f"between {act[:, i].min():.3g} and {act[:, i].max():.3g} of {low[i]:.3g} to "
            f"{high[i]:.3g}"
        )


def c14_normalizer(run: Record) -> Iterator[Finding]:
    saved = run.saved
    found = [n for n in saved.weights if n.endswith("obs_filter.sums")]
    if not found:
        kwargs = run.setting("ac_kwargs")
        if run.ours and isinstance(kwargs, dict) and kwargs.get("normalize_obs") is True:
            yield run.found("normalize_obs is True, but no statistics of observations are saved")
        raise Skip("the networks do not normalize observations")
    count = float(saved.weights[found[0]][0])
    if run.algo == "her":
        wanted, what = float(saved.replay_total), "transitions were stored"
    elif run.on_policy and saved.whole_epochs:
        wanted, what = float(saved.total_steps), "environment steps were taken"
    else:
        raise Skip("the checkpoint was taken within an epoch")
    if abs(count - wanted) > 0.5:
        yield run.found(f"the normalizer has seen {count:g} observations, but {wanted:g} {what}")


def c15_age(run: Record) -> Iterator[Finding]:
    warm, total = run.number("start_steps", 0), run.saved.replay_total
    size = run.number("replay_size")
    left = max(0.0, warm - max(0.0, total - size))
    share = left / min(total, size)
    if run.algo != "her" and share > 0.5 and run.rows >= 5:
        yield run.found(
            f"{100 * share:.0f} % of the replay buffer comes from random actions (start_steps)"
        )


# ---------------------------------------------------------------------------------- saved policies


def c16_saved_policy(run: Record) -> Iterator[Finding]:
    saved = run.saved
    _, tensors = saved.policy
    if set(tensors) != set(saved.weights):
        raise Skip("the saved policy has other tensors than the checkpoint")
    differ = [n for n, x in tensors.items() if not np.array_equal(x, saved.weights[n])]
    if differ:
        far = max(float(np.abs(tensors[n].astype(float) - saved.weights[n]).max()) for n in differ)
        yield run.found(
            f"the saved policy differs from the checkpoint of the same moment in {len(differ)} of "
            f"{len(tensors)} tensors, by up to {far:.2g}",
            level=None if (run.folder / ".finished").is_file() else "hint",
        )


def c18_current_episodes(run: Record) -> Iterator[Finding]:
    """The environments remember their current episode; the replay buffer has to agree."""
    if run.algo in ("her", "acer") or (run.base == "dqn" and run.number("n_step", 1) > 1):
        raise Skip("the replay buffer does not store single steps")
    rows, streams = run.saved.replay, run.saved.streams
    envs, total = int(run.number("num_envs", 1)), len(rows["rew"])
    for i, rewards in enumerate(streams["rewards"]):
        m = min(len(rewards), 200, total // envs - 1)
        if m < 2:
            continue
        index = total - envs * m + i + envs * np.arange(m)
        stored, real = rows["rew"][index], np.asarray(rewards[-m:], np.float32)
        if not np.allclose(stored, real, rtol=1e-4, atol=1e-5):
            shifted = any(
                np.allclose(a, b, rtol=1e-4, atol=1e-5)
                for a, b in ((stored[:-1], real[1:]), (stored[1:], real[:-1]))
            )
            how = "they are those of a neighboring step" if shifted else "they differ"
            yield run.found(
                f"the rewards of the current episode are not those in the replay buffer: {how} "
                f"(the last one is {stored[-1]:.4g}, the environment gave {real[-1]:.4g})"
            )
        now = streams["obs"][i]
        if not np.array_equal(rows["obs2"][index[-1]], now.astype(rows["obs2"].dtype)):
            yield run.found(
                "the last stored obs2 is not the environment's current observation", part="loop"
            )
        acts = np.asarray(streams["actions"][i][-m:], float).reshape(m, -1)
        kept = rows["act"][index].astype(float).reshape(m, -1)
        if run.box:
            low, high = run.bounds
            kept = kept.clip(low, high)
        else:
            kept = kept + float(run.action_space.get("start") or 0)
        if not np.allclose(acts, kept, rtol=1e-4, atol=1e-5):
            yield run.found(
                f"the environment received the action {acts[-1].round(4).tolist()}, but "
                f"{kept[-1].round(4).tolist()} is stored",
                part="action-bounds",
            )


def c25_relabeled(run: Record) -> Iterator[Finding]:
    if run.algo != "her":
        raise Skip("it is for her")
    parts = (run.policy_meta.get("ac_kwargs") or {}).get("parts")
    if not isinstance(parts, list) or len(parts) != 2:
        raise Skip("the policy does not say which columns are the goal")
    rows = run.saved.replay
    goal = slice(*parts[1])
    width = rows["obs"].shape[1]
    rest = [i for i in range(width) if not any(a <= i < b for a, b in parts)]
    wanted, wanted2 = rows["obs"][:, goal], rows["obs2"][:, goal]
    differ = (wanted != wanted2).any(1)
    if differ.mean() > 0.01:
        yield run.found(
            f"the desired goal differs between obs and obs2 in {100 * differ.mean():.0f} % of the "
            "stored transitions"
        )
    if len(rest) != wanted.shape[1]:
        raise Skip("the achieved goal is not recorded in the observation")
    reached = (rows["obs2"][:, rest] == wanted).all(1)
    best = rows["rew"].max()
    if reached.sum() >= 10 and (rows["rew"][reached] < best).mean() > 0.05:
        share = 100 * (rows["rew"][reached] < best).mean()
        yield run.found(
            f"in {share:.0f} % of the {reached.sum()} stored transitions that reach their goal, "
            f"the reward is not the best one ({best:g})"
        )
    if int(run.number("k", 4)) > 0 and len(reached) >= 2000 and reached.sum() < 10:
        yield run.found(
            f"{reached.sum()} of {len(reached)} stored transitions reach their goal, although "
            f"{run.number('k', 4):g} of {run.number('k', 4) + 1:g} have hindsight goals"
        )

"""Rules that use the saved networks on replayed data (C6 to C8, C19 to C24, C26, C28, C29).

The networks are the library's own classes, rebuilt from JSON and safetensors. Targets are computed
once more, by the algorithm's own function, and compared with what the critics have learned.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from spinup.utils.findings import Finding
from spinup_lab.doctor.record import Record
from spinup_lab.doctor.rule import Skip

_ROWS = 2000  # transitions that are looked at
_WITH_TARGETS = ("ddpg", "td3", "sac", "dqn")
# Gradient steps after which networks are looked at, and after which a critic must have learned
# something of its target.
BEGUN, LEARNED = 1000, 3000
# A loss this many times the logged one was not minimized; healthy runs stay below 2.5.
_SURPRISE = 5
# Healthy runs show 0.85 to 3 times the noise of the settings between successive steps.
_LEAST_NOISE = 0.5
_GAUSSIAN = 0.5 * math.log(2 * math.pi * math.e)


class _Nets:
    """A run's networks and target networks, and a sample of its replayed transitions."""

    def __init__(self, run: Record):
        import torch

        saved = run.saved
        if run.base not in _WITH_TARGETS:
            raise Skip(f"it is for {', '.join(_WITH_TARGETS)}")
        rows = saved.replay
        total = len(rows["rew"])
        if total < 500 or saved.updates < BEGUN:
            raise Skip("there are too few transitions or updates")
        torch.manual_seed(0)
        ac, targ = saved.network(), saved.network(target=True)
        self.net, self.targ = (ac.net, targ.net) if run.algo == "her" else (ac, targ)
        name = f"spinup.algos.pytorch.{run.base}.{run.base}"
        self.algorithm: Any = importlib.import_module(name)
        self.inputs = ac.inputs if run.algo == "her" else lambda x: x
        self.run, self.torch = run, torch
        index = np.random.default_rng(0).integers(total, size=_ROWS)
        self.batch = {name: torch.as_tensor(x[index]) for name, x in rows.items()}
        self.newest = {name: torch.as_tensor(x[-200:]) for name, x in rows.items()}
        self.discrete = run.discrete

    def obs(self, rows: dict[str, Any], name: str = "obs") -> Any:
        return self.inputs(rows[name].float())

    def q(self, net: Any, obs: Any, act: Any) -> list[Any]:
        """Return the critics' values of given actions."""
        names = [n for n in ("q", "q1", "q2") if hasattr(net, n)]
        if self.discrete:
            place = act.long().reshape(-1, 1)
            return [getattr(net, n)(obs).gather(-1, place).squeeze(-1) for n in names]
        return [getattr(net, n)(obs, act.float()).reshape(-1) for n in names]

    @property
    def alpha(self) -> float:
        temperature = self.run.saved.tracked.get("temperature")
        return float(temperature["log_alpha"].exp()) if temperature else 0.0

    def targets(self, gamma: float, **changes: Any) -> Any:
        """Return what the critics learn, by the algorithm's own `compute_target`.

        `changes` replaces fields of the batch.
        """
        rows, run = self.batch, self.run
        names = [name for name in ("rew", "done", "discount") if name in rows]
        batch: dict[str, Any] = {name: rows[name].float() for name in names}
        batch.update(obs2=self.obs(rows, "obs2"), **changes)
        options: dict[str, Any] = {}
        if run.base == "dqn":
            options["double_q"] = run.setting("double_q", True)
        elif run.base == "sac":
            options["alpha"] = self.alpha
        elif run.base == "td3":
            options.update(self.smoothing())
        self.torch.manual_seed(0)  # the same noise in every call
        return self.algorithm.compute_target(self.net, self.targ, batch, gamma, **options)

    def smoothing(self) -> dict[str, Any]:
        """Return the arguments of TD3's target policy smoothing."""
        from spinup.algos.pytorch.common.qnets import action_limits

        run, limits = self.run, action_limits(self.net.action_space, "cpu")
        noise = {"target_noise": run.number("target_noise", 0.2)}
        return {**noise, "noise_clip": run.number("noise_clip", 0.5), "limits": limits}

    def greedy(self, obs: Any) -> Any:
        """Return the actions of a policy for a Box, without noise."""
        out = self.net.pi(obs)
        return self.net.pi(obs, True)[0] if self.run.base == "sac" else out


def _nets(run: Record) -> _Nets:
    if not hasattr(run, "_nets"):
        run._nets = _Nets(run)  # type: ignore[attr-defined]
    found: _Nets = run._nets  # type: ignore[attr-defined]
    return found


def _nets_for_a_box(run: Record) -> _Nets:
    nets = _nets(run)
    if nets.discrete:
        raise Skip("the actions are not a Box")
    return nets


class _Backup:
    """The critics' values and their targets, recomputed, as arrays."""

    def __init__(self, run: Record):
        nets = _nets(run)
        rows = nets.batch
        with nets.torch.no_grad():
            target = nets.targets(run.number("gamma"))
            after = nets.targets(1.0, rew=0.0, done=0.0, discount=1.0)
            q = nets.q(nets.net, nets.obs(rows), rows["act"])
        self.q = np.stack([x.numpy() for x in q]).astype(float)  # (critics, B)
        self.after = after.numpy().astype(float)
        self.rew = rows["rew"].numpy().astype(float)
        self.done = rows["done"].numpy().astype(bool)
        gamma = np.full(len(self.rew), run.number("gamma"))
        self.discount = rows["discount"].numpy().astype(float) if "discount" in rows else gamma
        self.target = target.numpy().astype(float)
        self.error = self.q - self.target
        self.huber = run.base == "dqn" and run.setting("loss", "huber") == "huber"
        logged = run.column("LossQ")[: run.saved.rows][-3:]
        self.logged = float(np.nanmax(logged)) if np.isfinite(logged).any() else math.nan

    def loss(self, target: np.ndarray) -> float:
        """Return the critics' loss on these transitions, if this were their target."""
        error = np.abs(self.q - target)
        small = 0.5 * error**2 if self.huber else error**2
        each = np.where(error <= 1, small, error - 0.5) if self.huber else small
        return float(each.mean(1).sum())

    @property
    def surprising(self) -> bool:
        """Whether the loss with the right target is far beyond the one that was logged.

        A critic that has not learned enough yet also logs a large loss.
        """
        return self.loss(self.target) > _SURPRISE * self.logged


def c20_bellman(run: Record) -> Iterator[Finding]:
    found = _Backup(run)
    if run.setting("prioritized"):
        raise Skip("prioritized replay weighs transitions differently")
    spread = float(found.target.std())
    if spread < 1e-6:
        raise Skip("all targets are equal")
    for i, q in enumerate(found.q):
        which = f"critic {i + 1}" if len(found.q) > 1 else "the critic"
        together = float(np.corrcoef(q, found.target)[0, 1]) if q.std() > 0 else 0.0
        noise = float(np.abs(found.error[i]).mean()) / spread
        narrow = q.std() < 0.3 * spread and run.saved.updates >= LEARNED
        if not together > 0.7 and noise > 0.2 and (narrow or found.surprising):
            yield run.found(
                f"{which} does not follow its target r + gamma Q(s', a'): their correlation over "
                f"{len(q)} stored transitions is {together:.2f} (healthy: above 0.95)",
                part="value-loss",
                level=None if run.saved.updates >= 3 * LEARNED else "warning",
            )
    alive = ~found.done
    value = (found.discount * found.after)[alive]
    if alive.sum() < 200 or float((value**2).mean()) < 1e-6:
        raise Skip("there is nothing to discount")
    # q = r + s * discount * Q': s is 1 if the target was discounted as it should be.
    rest = (found.q.mean(0) - found.rew)[alive]
    scale = float((rest * value).sum() / (value**2).sum())
    offset = float(found.error[:, alive].mean()) / spread
    size = float(np.sqrt((value**2).mean()))
    off = abs(scale - 1) > 0.04 and abs(offset) > 0.03 and size > 0.5 * spread
    if off and found.surprising:
        gamma = run.number("gamma")
        yield run.found(
            f"the critic has learned r + {scale * gamma:.3f} Q(s', a') instead of r + {gamma:g} "
            f"Q(s', a'): it is off by {offset:+.2f} standard deviations on average over "
            f"{int(alive.sum())} stored transitions"
        )


def c21_after_death(run: Record) -> Iterator[Finding]:
    if run.setting("prioritized"):
        raise Skip("prioritized replay weighs transitions differently")
    deaths, rows = int(run.saved.replay["done"].sum()), len(run.saved.replay["done"])
    if deaths < 20 or deaths < 0.003 * rows:
        raise Skip("too few stored transitions are done for the critic to have learned from them")
    found = _Backup(run)
    right = found.loss(found.target)
    wrong = found.loss(found.rew + found.discount * found.after)
    if found.surprising and not (wrong > right / 3 or wrong > _SURPRISE * found.logged):
        q, rew = found.q.mean(0)[found.done], found.rew[found.done]
        yield run.found(
            f"at the end of episodes, the critic expects {q.mean():.4g} where the last reward is "
            f"{rew.mean():.4g}: it counts on what would follow ({deaths} stored deaths)"
        )


def c26_loss_size(run: Record) -> Iterator[Finding]:
    if run.setting("prioritized"):
        raise Skip("the logged loss is weighted")
    found = _Backup(run)
    now = found.loss(found.target)
    if not (now < 30 * found.logged or now < 0.05 * float(found.target.var())):
        yield run.found(
            f"the critics' loss on stored transitions is {now:.3g}, but LossQ is "
            f"{found.logged:.3g}: it is computed from other targets"
        )


def _scatter(x: np.ndarray) -> float:
    """Return the median distance from the median, which neither an offset nor outliers change."""
    return float(np.median(np.abs(x - np.median(x))))


def c28_other_targets(run: Record) -> Iterator[Finding]:
    """Compare the targets with those of known mistakes: which do the critics follow best?"""
    found, nets = _Backup(run), _nets(run)
    if nets.discrete or run.base not in ("td3", "sac"):
        raise Skip("it is for td3 and sac on a Box")
    if run.saved.updates < LEARNED:
        raise Skip(f"there were fewer than {LEARNED} updates")
    torch, rows = nets.torch, nets.batch
    obs2 = nets.obs(rows, "obs2")
    with torch.no_grad():
        torch.manual_seed(0)
        if run.base == "sac":
            act, logp = nets.net.pi(obs2)
            bonus = -nets.alpha * logp
        else:
            noise, clip, limits = nets.smoothing().values()
            act = nets.algorithm.smoothed_action(nets.targ, obs2, noise, clip, *limits)
            bonus = torch.zeros(len(obs2))
        q1, q2 = nets.q(nets.targ, obs2, act)
    others = {
        "the larger of the two critics": torch.max(q1, q2) + bonus,
        "the first critic alone": q1 + bonus,
    }
    if run.base == "sac" and float(bonus.abs().mean()) > 0.05 * float(found.q.std()):
        others["the smaller critic without the entropy"] = torch.min(q1, q2)
    error = found.error.mean(0)
    right = float((error**2).mean())
    best, name = right, ""
    for what, value in others.items():
        target = found.rew + found.discount * ~found.done * value.numpy()
        other = found.q.mean(0) - target
        # While values rise or fall, the critics are off by about the same in most states, and by
        # much in a few. A mistake explains the differences between ordinary states.
        if _scatter(other) < 0.9 * _scatter(error) and float((other**2).mean()) < best:
            best, name = float((other**2).mean()), what
    if not best >= 0.8 * right:
        yield run.found(
            f"the critics follow a target with {name} better than theirs: the squared error is "
            f"{best:.3g} instead of {right:.3g} on {len(found.rew)} stored transitions"
        )


def c22_actor_rank(run: Record) -> Iterator[Finding]:
    if run.saved.updates < LEARNED // 2:
        raise Skip(f"there were fewer than {LEARNED // 2} updates")
    nets = _nets_for_a_box(run)
    torch, obs = nets.torch, nets.obs(nets.batch)
    limit, center = nets.net.pi.act_limit, nets.net.pi.act_center
    with torch.no_grad():
        torch.manual_seed(0)
        own = nets.q(nets.net, obs, nets.greedy(obs))
        rank = torch.zeros(len(obs))
        best = torch.stack(own).amin(0)
        spread = []
        for _ in range(32):
            act = center + limit * (2 * torch.rand(len(obs), len(limit)) - 1)
            other = torch.stack(nets.q(nets.net, obs, act)).amin(0)
            rank += (best >= other).float() / 32
            spread.append(other)
        noise = float(torch.stack(spread).std(0).mean())
    level = float(rank.mean())
    scale = float(best.abs().mean()) + 1e-6
    if not (level >= 0.4 or noise < 1e-3 * scale):
        yield run.found(
            f"the policy's actions are better than {100 * level:.0f} % of random ones, by its own "
            "critic (healthy: 70 to 100 %)",
            level="error" if level < 0.2 else None,
        )


def c23_log_density(run: Record) -> Iterator[Finding]:
    nets = _nets(run)
    torch, obs = nets.torch, nets.obs(nets.batch)
    with torch.no_grad():
        torch.manual_seed(0)
        if nets.discrete:
            pi, _ = nets.net.pi(obs)
            logp = float((pi.probs * pi.logits).sum(-1).mean())
            size = 1.0
        else:
            # The density of a squashed Gaussian, from its parts: u, then the slope of tanh.
            pi = nets.net.pi
            h = pi.net(pi.obs_filter(obs))
            mu, log_std = pi.mu_layer(h), pi.log_std_layer(h).clamp(-20, 2)
            z = torch.randn_like(mu)
            u = (mu + log_std.exp() * z).double()
            slope = 2 * (math.log(2) - u - torch.nn.functional.softplus(-2 * u))
            each = -0.5 * z**2 - log_std - 0.5 * math.log(2 * math.pi) - slope - pi.act_limit.log()
            logp, size = float(each.sum(-1).mean()), float(mu.shape[-1])
    logged = run.column("AverageLogPi")[: run.saved.rows]
    logged = logged[np.isfinite(logged)]
    if len(logged) < 3:
        raise Skip("there are too few epochs")
    # The policy moves during an epoch; compare with how much the column itself moves.
    slack = 0.4 * size + 2 * float(np.abs(np.diff(logged[-4:])).max(initial=0.0))
    if not abs(logged[-1] - logp) <= slack:
        yield run.found(
            f"AverageLogPi is {logged[-1]:.3g}, but the log-density of the saved policy's actions "
            f"is {logp:.3g} on average"
        )


def c24_entropy_saved(run: Record) -> Iterator[Finding]:
    saved = run.saved
    if "pi.log_std" not in saved.weights or not saved.whole_epochs:
        raise Skip("the policy has no log_std of its own, or the checkpoint is within an epoch")
    if saved.rows != saved.epochs or not run.ours:
        raise Skip("the checkpoint is of another epoch")
    log_std = saved.weights["pi.log_std"].astype(float)
    wanted = float((log_std + _GAUSSIAN).sum())
    logged = float(run.column("Entropy")[saved.rows - 1])
    if not abs(logged - wanted) <= 1e-4 * (1 + abs(wanted)):
        yield run.found(
            f"Entropy is {logged:.5g} in epoch {run.epoch(saved.rows - 1)}, but that of the saved "
            f"policy is {wanted:.5g}"
        )


def _typical(away: Any, clear: Any) -> float:
    """Return the standard deviation of normal noise whose median size is that of the clear ones."""
    if clear.sum() < 30:
        raise Skip("most actions are at their bounds")
    return float(away[clear].abs().median()) / 0.6745


def c19_exploration(run: Record) -> Iterator[Finding]:
    if run.algo == "her":
        raise Skip("her stores relabeled goals")
    nets = _nets(run)
    if nets.discrete or run.number("num_envs", 1) > 1:
        raise Skip("the actions are not a Box, or there are several environments")
    own_steps = run.saved.replay_total - int(run.number("start_steps", 0))
    if own_steps < 500:
        raise Skip("most actions are still random")
    noise = run.number("act_noise", 0.1) if run.base != "sac" else math.inf
    if noise < 0.02:
        raise Skip("there is hardly any noise")
    with nets.torch.no_grad():
        if run.base == "sac":
            found = _sampled(nets)
        else:
            found = _noise(nets, noise, min(1000, own_steps)) or _another_policy(nets, noise)
    if found:
        yield found


def _sampled(nets: _Nets) -> Finding | None:
    """Compare stored actions with SAC's distribution."""
    torch, rows, pi = nets.torch, nets.newest, nets.net.pi
    h = pi.net(pi.obs_filter(nets.obs(rows)))
    mu, std = pi.mu_layer(h), pi.log_std_layer(h).clamp(-20, 2).exp()
    inside = ((rows["act"].float() - pi.act_center) / pi.act_limit).clamp(-0.999, 0.999)
    clear = (inside.abs() < 0.98) & (mu.abs() < 2)
    size = _typical((torch.atanh(inside) - mu) / std, clear)
    if 0.4 <= size <= 4:
        return None
    return nets.run.found(
        f"the newest {int(clear.sum())} stored actions differ from the policy's by {size:.2f} "
        "times the policy's own standard deviation",
        part="loop" if size > 4 else None,
    )


def _noise(nets: _Nets, noise: float, steps: int) -> Finding | None:
    """Compare the noise of stored actions with that of the settings.

    The policy has moved since it acted, by about as much in a state as in the next one. Differences
    between successive steps contain the noise of two steps and little of the movement.
    """
    rows = {k: nets.torch.as_tensor(x[-steps:]) for k, x in nets.run.saved.replay.items()}
    obs, act = nets.obs(rows), rows["act"].float()
    sizes = []
    for pi in (nets.net.pi, nets.targ.pi):
        own = pi(obs)
        away, at = (act - own) / pi.act_limit, (act - pi.act_center).abs() / pi.act_limit
        clear = (at < 1 - noise) & ((own - pi.act_center).abs() / pi.act_limit < 1 - 2.5 * noise)
        pairs = clear[1:] & clear[:-1]
        if pairs.sum() >= 30:
            sizes.append(_typical((away[1:] - away[:-1]) / math.sqrt(2), pairs) / noise)
    if not sizes or max(sizes) >= _LEAST_NOISE:
        return None
    return nets.run.found(
        f"the noise in the newest {steps} stored actions is {max(sizes):.2f} times act_noise = "
        f"{noise:g} of half the range"
    )


def _another_policy(nets: _Nets, noise: float) -> Finding | None:
    """Notice stored actions that neither the policy nor its recent past explains."""
    torch, rows = nets.torch, nets.newest
    obs, act, pi = nets.obs(rows), rows["act"].float(), nets.net.pi
    own, lagging = nets.greedy(obs), nets.targ.pi(obs)
    clear = (own - pi.act_center).abs() + 2.5 * noise * pi.act_limit < pi.act_limit
    size = _typical((act - own) / pi.act_limit, clear) / noise
    # The actions are up to 200 steps old, and the target policy lags behind by about as much: a
    # policy that moved since was somewhere near the two when it acted, and acted much alike.
    nearest = act.clamp(torch.minimum(own, lagging), torch.maximum(own, lagging))
    beyond = _typical((act - nearest) / pi.act_limit, clear) / noise
    alike = max(_correlation(act, own), _correlation(act, lagging))
    if size <= 6 or beyond <= 4 or alike > 0.5:
        return None
    return nets.run.found(
        f"the newest {int(clear.sum())} stored actions differ from the policy's by {size:.2f} "
        f"times act_noise = {noise:g} of half the range, and correlate with them by {alike:.2f}",
        part="loop",
    )


def _correlation(a: Any, b: Any) -> float:
    """Return the correlation of two arrays, dimension by dimension, on average."""
    a, b = a - a.mean(0), b - b.mean(0)
    size = a.norm(dim=0) * b.norm(dim=0)
    return float(((a * b).sum(0) / size.clamp(min=1e-12)).mean())


# --------------------------------------------------------------------------------------- networks


def _activations(nets: _Nets) -> dict[str, tuple[Any, Any]]:
    """Return each hidden layer's outputs on stored observations, with its activation."""
    torch = nets.torch
    found: dict[str, tuple[Any, Any]] = {}
    handles = []
    for name, module in nets.net.named_modules():
        if isinstance(module, torch.nn.ReLU | torch.nn.Tanh):

            def keep(module: Any, inputs: Any, out: Any, name: str = name) -> None:
                found[name] = (module, out.detach())

            handles.append(module.register_forward_hook(keep))
    obs = nets.obs(nets.batch)[:1024]
    act = nets.batch["act"][:1024]
    try:
        with torch.no_grad():
            nets.q(nets.net, obs, act)
            if hasattr(nets.net, "pi"):
                nets.net.pi(obs)
    finally:
        for handle in handles:
            handle.remove()
    return found


def c6_dead_units(run: Record) -> Iterator[Finding]:
    nets = _nets(run)
    for name, (module, out) in _activations(nets).items():
        out = out.reshape(-1, out.shape[-1])
        if out.shape[-1] < 8:  # an output, whose saturation C7 looks at
            continue
        relu = isinstance(module, nets.torch.nn.ReLU)
        dead = (out.amax(0) <= 0) if relu else (out.abs().amin(0) > 0.99)
        share = float(dead.float().mean())
        if share > 0.95:
            how = "are never active" if relu else "are always saturated"
            yield run.found(f"{100 * share:.0f} % of the units of layer {name} {how}")


def c7_saturated(run: Record) -> Iterator[Finding]:
    nets = _nets_for_a_box(run)
    torch, obs = nets.torch, nets.obs(nets.batch)
    with torch.no_grad():
        act = nets.greedy(obs)
        limit, center = nets.net.pi.act_limit, nets.net.pi.act_center
        share = float(((act - center).abs() > 0.99 * limit).float().mean())
    if share > 0.9:
        yield run.found(
            f"{100 * share:.0f} % of the policy's actions are at the bounds of their range"
        )


def c29_scale_of_actions(run: Record) -> Iterator[Finding]:
    low, high = run.bounds
    half, center = (high - low) / 2, (high + low) / 2
    for name, wanted in (("act_limit", half), ("act_center", center)):
        found = [x for key, x in run.saved.weights.items() if key.endswith(f"pi.{name}")]
        if found and not np.allclose(found[0], wanted, rtol=1e-4, atol=1e-5):
            yield run.found(
                f"the policy's {name} is {np.round(found[0], 4).tolist()}, but the action space "
                f"gives {np.round(wanted, 4).tolist()}"
            )
    nets = _nets(run)
    with nets.torch.no_grad():
        act = nets.greedy(nets.obs(nets.batch)).numpy().reshape(-1, len(low))
    beyond = np.abs(act - center) / half
    if not beyond.max() <= 1.01:
        yield run.found(
            f"the policy's own actions reach {beyond.max():.2f} times half the range from its "
            f"center ({100 * (beyond > 1.01).any(1).mean():.0f} % of them are outside the bounds)"
        )


def c8_blind(run: Record) -> Iterator[Finding]:
    nets = _nets_for_a_box(run)
    with nets.torch.no_grad():
        act = nets.greedy(nets.obs(nets.batch))
        spread = float((act.std(0) / nets.net.pi.act_limit).max())
    if not spread >= 1e-3:
        yield run.found(
            f"the policy takes the same action everywhere: it varies by {spread:.1g} of half the "
            "range"
        )

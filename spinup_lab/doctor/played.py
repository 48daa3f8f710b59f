"""Rules that play episodes (R1 to R6), with `--play N`.

The environment is created from the id in the run's own description, by the library's player, which
imports no module that the file names. The policy is rebuilt from JSON and safetensors.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from spinup.utils.errors import SpinupError
from spinup.utils.findings import Finding
from spinup_lab.doctor.record import Record
from spinup_lab.doctor.rule import Skip

_RANDOM = 20  # episodes of random actions
_MOST_STEPS = 50_000  # of one kind of episodes
_SEED = 12345


@dataclass
class Episode:
    """What happened in one episode."""

    obs: list[Any]
    rewards: list[float]
    terminated: bool

    @property
    def ret(self) -> float:
        """The undiscounted return."""
        return float(sum(self.rewards))


class _Recorder(gymnasium.Wrapper):
    """Notes observations and rewards while the player plays."""

    def __init__(self, env: Any):
        super().__init__(env)
        self.episodes: list[Episode] = []

    def reset(self, **kwargs: Any) -> Any:
        obs, info = self.env.reset(**kwargs)
        self.episodes.append(Episode([np.array(obs)], [], False))
        return obs, info

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        now = self.episodes[-1]
        now.obs.append(np.array(obs))
        now.rewards.append(float(reward))
        now.terminated = bool(terminated)
        return obs, reward, terminated, truncated, info


class Played:
    """Episodes of the saved policy, without and with noise, and of random actions."""

    def __init__(self, run: Record):
        self.run = run
        self.best = self._play(deterministic=True)
        self.noisy = self._play(deterministic=False)
        self.random = self._play(deterministic=None)

    def _play(self, deterministic: bool | None) -> list[Episode]:
        from spinup.policies.episodes import run_episodes

        env, get_action = loaded(self.run, bool(deterministic))
        count = self.run.play if deterministic is not None else max(self.run.play, _RANDOM)
        limit = int(min(self.run.limit, 100_000))
        count = max(2, min(count, _MOST_STEPS // max(1, limit)))
        recorder = _Recorder(env)
        if deterministic is None:
            env.action_space.seed(_SEED)
            space = env.action_space

            def get_action(obs: Any) -> Any:
                return space.sample()

        for _ in run_episodes(recorder, get_action, limit, count, seed=_SEED):
            pass
        env.close()
        return recorder.episodes


def loaded(run: Record, deterministic: bool) -> tuple[Any, Any]:
    """Load the saved policy and its environment; skip the rule if they cannot be rebuilt."""
    from spinup.policies.loading import load_policy_and_env

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            env, get_action = load_policy_and_env(
                run.folder, deterministic=deterministic, seed=_SEED
            )
        except SpinupError as error:
            raise Skip(str(error)) from error
    if env is None:
        raise Skip("the environment cannot be created from the file alone")
    return env, get_action


def _played(run: Record) -> Played:
    if run.goal:
        raise Skip("returns of goals that change from episode to episode say little")
    if not hasattr(run, "_played"):
        run._played = Played(run)  # type: ignore[attr-defined]
    found: Played = run._played  # type: ignore[attr-defined]
    return found


def _returns(episodes: list[Episode]) -> np.ndarray:
    return np.array([episode.ret for episode in episodes])


def _z(a: np.ndarray, b: np.ndarray) -> float:
    """Return how much larger the mean of a is than that of b, in standard errors."""
    error = math.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b))
    return float((a.mean() - b.mean()) / (error + 1e-9 + 1e-6 * abs(b.mean())))


def r1_beats_random(run: Record) -> Iterator[Finding]:
    if run.rows < 10:
        raise Skip("the run has fewer than 10 epochs")
    run.need_signal()
    played = _played(run)
    own, noise = _returns(played.best), _returns(played.random)
    z = max(_z(own, noise), _z(_returns(played.noisy), noise))
    if not z >= 2:
        yield run.found(
            f"the saved policy returns {own.mean():.4g} on average over {len(own)} episodes, and "
            f"random actions {noise.mean():.4g} ({z:+.1f} standard errors)"
        )


def r2_noise_helps(run: Record) -> Iterator[Finding]:
    played = _played(run)
    own, noisy = _returns(played.best), _returns(played.noisy)
    base = _returns(played.random).mean()
    z = _z(own, noisy)
    lost = noisy.mean() - own.mean()
    if not (z >= -4 or lost <= 0.5 * (noisy.mean() - base)):
        yield run.found(
            f"without noise, the policy returns {own.mean():.4g}, with noise {noisy.mean():.4g}"
        )


def r3_value_at(run: Record) -> Iterator[Finding]:
    saved, gamma = run.saved, run.number("gamma")
    if run.normalizes("ret"):
        raise Skip("values are in units of normalized returns")
    if gamma >= 1 or run.base not in ("vpg", "trpo", "ppo"):
        raise Skip("it is for vpg, trpo and ppo, with a discount")
    if run.rows < 20:
        raise Skip("the run has fewer than 20 epochs")
    import torch

    net = saved.network()
    values, returns = [], []
    far = 3 / (1 - gamma)
    for episode in _played(run).noisy:
        tail, after = len(episode.rewards), 0.0
        going = np.zeros(tail)
        for t in range(tail - 1, -1, -1):
            after = episode.rewards[t] + gamma * after
            going[t] = after
        known = np.arange(tail) if episode.terminated else np.arange(max(0, int(tail - far)))
        if len(known):
            obs = torch.as_tensor(np.stack(episode.obs[:-1])[known], dtype=torch.float32)
            with torch.no_grad():
                values.append(net.v(obs).reshape(-1).numpy())
            returns.append(going[known])
    if not values or sum(map(len, values)) < 100:
        raise Skip("too few steps have a known return")
    v, g = np.concatenate(values).astype(float), np.concatenate(returns)
    off = float((v - g).mean())
    limit = 0.5 * abs(float(g.mean())) + float(g.std())
    if not abs(off) <= limit:
        yield run.found(
            f"the value function expects {v.mean():.4g} where the policy's discounted returns are "
            f"{g.mean():.4g} on average ({len(g)} steps)"
        )


def _steady(returns: np.ndarray) -> bool:
    """Whether the returns of played episodes agree well enough to be compared."""
    return len(returns) >= 3 and bool(returns.std() < 0.5 * abs(returns.mean()))


def r4_as_logged(run: Record) -> Iterator[Finding]:
    played = _played(run)
    if run.has("AverageTestEpRet"):
        logged, own = run.column("AverageTestEpRet"), _returns(played.best)
    else:
        logged, own = run.column("AverageEpRet"), _returns(played.noisy)
        if run.base == "dqn":
            raise Skip("there were no test episodes")
    recent = logged[-max(3, run.rows // 20) :]
    recent = recent[np.isfinite(recent)]
    if len(recent) < 3:
        raise Skip("no episode ended in the last epochs")
    base = _returns(played.random).mean()
    noise = math.sqrt(own.var() / len(own) + recent.var()) + 0.02 * abs(float(recent.mean()))
    lost = float(recent.min()) - float(own.mean())
    gained = float(recent.mean()) - float(base)
    won = float(own.mean()) - float(recent.max())
    if run.has("AverageTestEpRet") and won > 3 * noise and won > max(gained, 0.0) and _steady(own):
        yield run.found(
            f"the saved policy returns {own.mean():.4g}, but test episodes returned only "
            f"{recent.mean():.4g} in the last epochs: they do not play the policy alone",
            part="exploration",
        )
    if not (lost <= 3 * noise or lost <= 0.5 * gained or gained <= 0):
        yield run.found(
            f"the saved policy returns {own.mean():.4g}, but the last epochs logged "
            f"{recent.mean():.4g} (random actions: {base:.4g})"
        )


def r5_environment(run: Record) -> Iterator[Finding]:
    env, _ = loaded(run, True)
    with contextlib.closing(env):
        said = _misbehaves(env)
    if said:
        yield run.found(said)
    elif not run.goal:
        random = _played(run).random
        first, *others = {len(episode.rewards) for episode in random}
        if all(episode.terminated for episode in random) and not others and first > 10:
            yield run.found(
                f"every episode of random actions terminates after exactly {first} steps: a time "
                "limit that is reported as terminated",
                level="warning",
            )


def _misbehaves(env: Any) -> str:
    first, second = _walk(env, _SEED), _walk(env, _SEED)
    same = len(first) == len(second) and all(
        np.array_equal(a[0], b[0]) and a[1] == b[1] for a, b in zip(first, second, strict=True)
    )
    if not same:
        return "two episodes with the same seed and the same actions differ"
    bad = [r for _, r in first if not math.isfinite(r)]
    if bad:
        return f"the environment returned the reward {bad[0]}"
    before, _ = env.unwrapped.reset(seed=_SEED)
    after = env.unwrapped.step(env.action_space.sample())[0]
    if isinstance(before, np.ndarray) and np.shares_memory(before, after):
        return "the environment returns the same array at every step and overwrites it"
    return ""


def _walk(env: Any, seed: int, steps: int = 50) -> list[tuple[Any, float]]:
    """Take random actions from a seed; return observations and rewards."""
    env.action_space.seed(seed)
    obs, _ = env.reset(seed=seed)
    found = [(np.array(obs), 0.0)]
    for _ in range(steps):
        obs, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        found.append((np.array(obs), float(reward)))
        if terminated or truncated:
            break
    return found


def r6_acting(run: Record) -> Iterator[Finding]:
    """Repeat the episodes in which the run stopped, and ask the policy for these actions."""
    if not run.on_policy or run.images:
        raise Skip("C18 and C19 are the rules for off-policy algorithms")
    import torch

    saved = run.saved
    streams = saved.streams
    if not saved.whole_epochs:
        raise Skip("the checkpoint was taken within an epoch")
    net = saved.network()
    env, _ = loaded(run, True)
    logps, entropies = [], []
    start = run.action_space.get("start") or 0
    try:
        episodes = zip(streams["seeds"], streams["actions"], streams["obs"], strict=True)
        for seed, actions, last in episodes:
            obs, _ = env.reset(seed=int(seed))
            seen: list[Any] = []
            for action in actions[:500]:
                seen.append(np.array(obs, np.float32))
                obs, *_ = env.step(int(action) if run.discrete else np.asarray(action))
            if not seen:
                continue
            if len(seen) == len(actions) and not np.allclose(obs, last, rtol=1e-3, atol=1e-3):
                raise Skip("the current episode cannot be repeated from its seed")
            act = torch.as_tensor(np.asarray(actions[: len(seen)]))
            with torch.no_grad():
                taken = act - start if run.discrete else act.float()
                pi, logp = net.pi(torch.as_tensor(np.stack(seen)), taken)
                ent = pi.entropy()
            entropies.append(ent.sum(-1).numpy() if ent.ndim > 1 else ent.numpy())
            logps.append(logp.reshape(-1).numpy())
    finally:
        env.close()
    if sum(map(len, logps), 0) < 50:
        raise Skip("the current episodes are too short")
    logp, entropy = np.concatenate(logps), np.concatenate(entropies)
    if run.box:
        low, high = run.bounds
        spread = np.exp(entropy.mean() / len(low) - 0.5 * math.log(2 * math.pi * math.e))
        if spread > 0.25 * float(np.min(high - low)):
            raise Skip("many actions were clipped")
    surprise = float(-(logp + entropy).mean())
    scale = max(1.0, float(run.act_dim)) if run.box else 0.7
    if surprise < -0.5 * abs(float(entropy.mean())) and surprise < -0.3 * scale:
        yield run.found(
            f"the actions of the last {len(logp)} steps have a log-probability of "
            f"{logp.mean():.3g}, although the policy's entropy is {entropy.mean():.3g}: the "
            "log-probabilities are not those of the distribution",
            part="policy-loss",
        )
    if not surprise <= scale:
        yield run.found(
            f"the actions of the last {len(logp)} steps have a log-probability of "
            f"{logp.mean():.3g} under the saved policy, and its own actions {-entropy.mean():.3g}: "
            "another policy acted"
        )

"""Checking whether an agent can learn in an environment, before training.

    for finding in check_env("my_module:GridWorld-v0"):
        print(finding)

Random episodes show what the environment returns, whether a seed repeats it, how episodes end, and
how large rewards and observations are. Gymnasium's own checker runs as well. Each finding says what
was seen, how it affects learning, and what to change, in the words of `findings.toml`.
"""

from __future__ import annotations

import copy
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import env_checker

from spinup.envs.adapter import adapt_env
from spinup.envs.bounds import single_valued, unbounded
from spinup.envs.findings import Finding, finding
from spinup.envs.first_steps import ReturnFault, hook, unhook
from spinup.envs.layers import layers
from spinup.envs.make import env_maker
from spinup.envs.old_interface import InterfaceAdapter
from spinup.envs.space_adapter import SpaceAdapter
from spinup.envs.spaces import is_image, name_of, number, observation_fault
from spinup.utils.errors import SpinupError, one_line, printable
from spinup.utils.seeding import global_state, same_global_state, set_global_state
from spinup.utils.serialization_utils import short_repr

__all__ = ["Checkup", "Finding", "check_env", "examine"]

LONGEST = 1000  # steps after which an episode is cut, as `max_ep_len` does in training
REPLAYED = 200  # steps of an episode that are repeated and compared


@dataclass
class Checkup:
    """The findings about one environment, and a line about the episodes they come from."""

    findings: list[Finding] = field(default_factory=list)
    summary: str = ""

    def add(self, found: Iterable[Finding]) -> None:
        """Add findings, unless there is already one with the same id."""
        for one in found:
            if one.id not in self.ids:
                self.findings.append(one)

    @property
    def ids(self) -> set[str]:
        """The ids of the findings so far."""
        return {found.id for found in self.findings}


def check_env(env: Any, *, steps: int = 2000, seed: int = 0) -> list[Finding]:
    """Check an environment and return what was found, the serious findings first.

    Args:
        env: an id (`'CartPole-v1'`, `'my_module:Mine-v0'`), a function or class that makes an
            environment, or an environment. From an environment itself, no second one can be made:
            it is reset and played.
        steps: number of random steps to take.
        seed: determines the random actions and the seeds of the episodes.

    Raises:
        SpinupError: there is no environment to check.
    """
    return examine(env, steps=steps, seed=seed).findings


def examine(env: Any, *, steps: int = 2000, seed: int = 0) -> Checkup:
    """Check an environment as `check_env` does, and keep a summary of the episodes."""
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise SpinupError(f"steps must be a whole number of at least 1, not {steps!r}")
    make, ours = _maker(env)
    found = Checkup()
    made: list[Any] = []

    def fresh() -> Any:
        made.append(make())
        return made[-1]

    torch = sys.modules.get("torch")
    before = global_state(torch)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _examine(fresh, found, steps, seed)
            _ask_gymnasium(fresh, found)
        texts = [str(warning.message) for warning in caught]
        _add_gymnasium(found, [text for text in texts if "WARN" in text or "\x1b" in text])
    finally:
        set_global_state(before, torch)  # a check must not change what follows it
        for one in made if ours else ():
            one.close()
    found.findings.sort(key=lambda one: not one.serious)
    return found


def _maker(env: Any) -> tuple[Callable[[], Any], bool]:
    """Return a function that makes the environment, and whether what it makes is ours to close."""
    if isinstance(env, str):
        env = env_maker(env)
    elif not isinstance(env, type) and hasattr(env, "step") and hasattr(env, "reset"):
        adapted = adapt_env(env)
        return (lambda: adapted), False
    if not callable(env):
        raise SpinupError(
            f"{short_repr(env)} is not an environment: pass an id such as 'CartPole-v1', a "
            "function that makes an environment, or an environment"
        )

    def make() -> Any:
        try:
            return adapt_env(env())
        except SpinupError:
            raise
        except Exception as error:  # the user's constructor can raise anything
            raise SpinupError(
                f"the environment cannot be made ({type(error).__name__}: {one_line(error)}): "
                "correct its constructor"
            ) from error

    return make, True


# ---------------------------------------------------------------------------------------------
# Episodes
# ---------------------------------------------------------------------------------------------


@dataclass
class _Episode:
    """What happened in one episode of random actions."""

    seed: int
    acts: list[Any] = field(default_factory=list)
    obs: list[np.ndarray] = field(default_factory=list)
    rews: list[float] = field(default_factory=list)
    terminated: bool = False
    truncated: bool = False


def _play(env: Any, steps: int, seed: int) -> Iterator[_Episode]:
    """Yield episodes of random actions, each when it has begun, until `steps` steps are taken."""
    rng = np.random.default_rng(seed)
    actions = copy.deepcopy(env.action_space)
    actions.seed(seed)
    while steps > 0:
        episode = _Episode(int(rng.integers(2**31 - 1)))
        yield episode
        episode.obs.append(np.array(env.reset(seed=episode.seed)[0]))
        while steps > 0 and len(episode.acts) < LONGEST:
            act = actions.sample()
            episode.acts.append(copy.deepcopy(act))
            steps -= 1
            o, r, episode.terminated, episode.truncated, _ = env.step(act)
            episode.obs.append(np.array(o))
            episode.rews.append(number(r))
            if episode.terminated or episode.truncated:
                break


def _difference(env: Any, episode: _Episode, acts: Sequence[Any]) -> str | None:
    """Repeat an episode with `acts`; return what differs: 'observation', 'reward' or None."""
    obs = env.reset(seed=episode.seed)[0]
    if not np.array_equal(obs, episode.obs[0]):
        return "observation"
    for t, act in enumerate(acts[:REPLAYED]):
        obs, rew, terminated, truncated, _ = env.step(copy.deepcopy(act))
        if not np.array_equal(obs, episode.obs[t + 1]):
            return "observation"
        if number(rew) != episode.rews[t]:
            return "reward"
        if terminated or truncated or t + 1 >= len(episode.rews):
            break
    return None


# ---------------------------------------------------------------------------------------------
# The checks
# ---------------------------------------------------------------------------------------------


def _examine(fresh: Callable[[], Any], found: Checkup, steps: int, seed: int) -> None:
    env = fresh()
    if isinstance(env, gymnasium.vector.VectorEnv):
        raise SpinupError(
            "a vector environment cannot be checked as a whole: check one of its environments"
        )
    raw = env.env if isinstance(env, SpaceAdapter) else env
    name = type(getattr(env, "unwrapped", env)).__name__
    found.add(_check_spaces(raw))
    if any(isinstance(layer, InterfaceAdapter) for layer in layers(env)):
        found.add([finding("interface", name=name)])
    if observation_fault(raw.observation_space):
        return
    torch = sys.modules.get("torch")
    before, began = global_state(torch), time.perf_counter()
    episodes = _episodes(found, env, name, steps, seed)
    seconds = time.perf_counter() - began
    drew = not same_global_state(global_state(torch), before)
    if not episodes:
        return
    found.summary = _summary(episodes, seconds)
    if found.ids & {"returns", "raises"}:
        return
    found.add(_check_repetition(fresh, episodes, drew))
    if not found.ids & {*_UNREPEATABLE, "one action", "zero-width actions"}:
        found.add(_check_actions(fresh(), episodes, seed))
    found.add(_check_ends(episodes, raw))
    found.add(_check_rewards(episodes))
    space = raw.observation_space
    if isinstance(space, spaces.Box) and not _looks_like_image(space):
        found.add(_check_observations(episodes))


def _episodes(found: Checkup, env: Any, name: str, steps: int, seed: int) -> list[_Episode]:
    """Play; a fault or an exception of the environment becomes a finding."""
    episodes: list[_Episode] = []

    def report(faults: Sequence[Finding]) -> None:
        # what follows "because" is for a run that continues
        found.add(replace(f, advice=re.sub(r",? because.*", "", f.advice)) for f in faults)
        if any(fault.serious for fault in faults):
            raise ReturnFault

    hook(env, name, steps, report)
    try:
        for episode in _play(env, steps, seed):
            episodes.append(episode)
    except ReturnFault:
        pass  # reported
    except Exception as error:  # the user's code can raise anything
        acts = episodes[-1].acts if episodes else []
        where = f"step {len(acts)} of an episode" if acts else "reset"
        where += f" with the action {short_repr(acts[-1])}" if acts else ""
        kind, text = type(error).__name__, one_line(error)[:200]
        found.add([finding("raises", name=name, error=kind, where=where, text=text)])
    unhook(env)
    return [episode for episode in episodes if episode.rews]


def _summary(episodes: Sequence[_Episode], seconds: float) -> str:
    steps = sum(len(episode.rews) for episode in episodes)
    whole = [e for e in episodes if e.terminated or e.truncated or len(e.rews) == LONGEST]
    whole = whole or list(episodes)  # the last one is cut short
    many = f"{len(whole)} episodes" if len(whole) > 1 else "1 episode"
    lengths, rets = [len(e.rews) for e in whole], [sum(e.rews) for e in whole]
    return (
        f"{steps:,} random steps; {many} of {_range(lengths)} steps, return {_range(rets)}; "
        f"{steps / max(seconds, 1e-9):,.0f} steps per second"
    )


def _range(numbers: Sequence[float]) -> str:
    least, most = f"{min(numbers):.4g}", f"{max(numbers):.4g}"
    return least if least == most else f"{least} to {most}"


def _looks_like_image(space: spaces.Box) -> bool:
    return len(space.shape) >= 2 and (space.dtype == np.uint8 or len(space.shape) == 3)


def _image_parts(space: Any) -> Iterator[tuple[str, spaces.Box]]:
    """Yield the images in a Dict or Tuple space, each with its place in it."""
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return
    named = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
    for name, part in named:
        if isinstance(part, spaces.Box) and is_image(part):
            yield repr(name), part
        for inner, image in _image_parts(part):
            yield f"{name!r}, {inner}", image


def _check_spaces(env: Any) -> Iterator[Finding]:
    obs, act = env.observation_space, env.action_space
    fault = observation_fault(obs)
    if fault:
        yield finding("observation space", space=name_of(obs), fault=fault)
    elif isinstance(obs, spaces.Box) and _looks_like_image(obs) and not is_image(obs):
        yield finding("image", shape=obs.shape, dtype=obs.dtype, size=int(np.prod(obs.shape)))
    for name, image in _image_parts(obs):
        size = int(np.prod(image.shape))
        yield finding("image in a part", name=name, shape=image.shape, size=size)
    if isinstance(act, spaces.Discrete) and act.n == 1:
        yield finding("one action")
    if isinstance(act, spaces.Box):
        yield from _check_bounds(act)


def _check_bounds(act: spaces.Box) -> Iterator[Finding]:
    endless, single = unbounded(act), single_valued(act)
    if len(endless):
        yield finding("unbounded actions", dimensions=_dimensions(endless))
    elif len(single):
        level = "error" if len(single) == act.low.size else None
        yield finding("zero-width actions", level, dimensions=_dimensions(single))
    else:
        low, high = act.low.ravel().astype(np.float64), act.high.ravel().astype(np.float64)
        wide = (high - low).max() > 40
        i = int((high - low).argmax() if wide else (high - low).argmin())
        if wide or high[i] - low[i] < 0.05:
            compared = "a small part of" if wide else "far more than"
            ends = {"low": low[i], "high": high[i]}
            yield finding("action range", dimensions=_dimensions([i]), **ends, compared=compared)


def _dimensions(indices: Iterable[int]) -> str:
    numbers = [int(i) for i in indices]
    shown = ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
    return f"Dimension {shown}" if len(numbers) == 1 else f"Each of the dimensions {shown}"


_UNREPEATABLE = ("global random numbers", "seed", "memory")


def _check_repetition(
    fresh: Callable[[], Any], episodes: Sequence[_Episode], drew: bool
) -> Iterator[Finding]:
    first, last = episodes[0], episodes[-1]
    later = _difference(fresh(), last, last.acts) if len(episodes) > 1 else None
    differs = _difference(fresh(), first, first.acts)
    if drew:
        yield finding("global random numbers")
    elif differs:
        yield finding("seed", what=differs)
    elif later:
        yield finding("memory of rewards" if later == "reward" else "memory")


def _check_actions(env: Any, episodes: Sequence[_Episode], seed: int) -> Iterator[Finding]:
    others = copy.deepcopy(env.action_space)
    others.seed(seed + 1)
    longest = max(episodes, key=lambda episode: len(episode.rews))
    acts = [others.sample() for _ in longest.acts[:REPLAYED]]
    if len(acts) >= 10 and not _difference(env, longest, acts):
        yield finding("actions", count=len(acts))


def _check_ends(episodes: Sequence[_Episode], env: Any) -> Iterator[Finding]:
    ended = [e for e in episodes if e.terminated or e.truncated]
    lengths = {len(e.rews) for e in ended}
    limited = any(getattr(layer, "_max_episode_steps", None) for layer in layers(env))
    if not ended and not limited:
        yield finding("endless", steps=sum(len(e.rews) for e in episodes), longest=LONGEST)
    elif len(ended) > 2 and len(lengths) == 1 and all(e.terminated for e in ended):
        (length,) = lengths
        if length >= 10:
            yield finding("time limit", count=len(ended), length=length)
        elif length == 1:
            yield finding("one step", count=len(ended))


def _check_rewards(episodes: Sequence[_Episode]) -> Iterator[Finding]:
    rews = np.concatenate([e.rews for e in episodes])
    largest = float(np.abs(rews).max())
    if largest > 1000:
        yield finding("large rewards", "error" if largest > 1e6 else None, largest=largest)
    elif 0 < largest < 1e-3:
        yield finding("small rewards", largest=largest)
    elif rews.min() == rews.max() and not any(e.terminated for e in episodes):
        yield finding("reward signal", count=len(rews), reward=rews[0])


def _check_observations(episodes: Sequence[_Episode]) -> Iterator[Finding]:
    obs = np.concatenate([np.stack(e.obs) for e in episodes]).astype(np.float64)
    obs = obs.reshape(len(obs), -1)
    sizes, spread = np.abs(obs).max(axis=0), obs.std(axis=0)
    largest = sizes.max()
    if largest > 100:
        level, which = "error" if largest > 1e6 else None, _dimensions([sizes.argmax()])
        yield finding("observation scale", level, dimensions=which, largest=largest)
    small = np.flatnonzero((spread > 0) & (spread < 1e-3))
    if len(small):
        which = _dimensions(small)
        yield finding("small observations", dimensions=which, spread=spread[small].max())
    fixed = np.flatnonzero(obs.min(axis=0) == obs.max(axis=0))
    if len(fixed) == obs.shape[1]:
        yield finding("constant observation", "error" if len(episodes[0].rews) > 1 else None)
    elif len(fixed):
        yield finding("constant dimensions", dimensions=_dimensions(fixed))


# ---------------------------------------------------------------------------------------------
# Gymnasium's checker
# ---------------------------------------------------------------------------------------------

# What our own checks report in more detail, or what makes no difference here.
_UNNEEDED = re.compile(
    r"infinity|render|wrapped|symmetric and normalized|determinis|is not within|not within the|"
    r"precision lowered|out of date|outside its space|returned an info|close\(\)",
    re.I,
)


def _ask_gymnasium(fresh: Callable[[], Any], found: Checkup) -> None:
    if found.ids & {"returns", "raises", "interface"}:
        return
    base = getattr(fresh(), "unwrapped", None)
    if not isinstance(base, gymnasium.Env):
        return
    try:
        env_checker.check_env(base, skip_render_check=True)
    except Exception as error:  # assertions, and whatever the user's code raises
        _add_gymnasium(found, [str(error) or type(error).__name__])


def _add_gymnasium(found: Checkup, texts: Sequence[str]) -> None:
    for text in texts:
        plain = re.sub(r"\x1b\[[0-9;]*m|WARN:\s*", "", text)
        plain = printable(" ".join(plain.split()))
        known = "seed" in plain.lower() and found.ids & {*_UNREPEATABLE}
        if not known and not _UNNEEDED.search(plain):
            plain = (plain if len(plain) <= 240 else f"{plain[:237]}...").rstrip(".")
            found.add([finding("gymnasium", start=plain[:40], text=plain)])

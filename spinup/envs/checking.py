"""Checking whether an agent can learn in an environment, before training.

    for finding in check_env("my_module:GridWorld-v0"):
        print(finding)

Random episodes show what the environment returns, whether a seed repeats it, how episodes end, and
how large rewards and observations are. Gymnasium's own checker runs as well. Each finding says what
was seen, how it affects learning, and what to change.
"""

from __future__ import annotations

import copy
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import env_checker

from spinup.envs.adapter import adapt_env, layers
from spinup.envs.first_steps import ReturnFault, hook
from spinup.envs.make import env_maker
from spinup.envs.old_interface import InterfaceAdapter
from spinup.envs.space_adapter import SpaceAdapter
from spinup.envs.spaces import is_image, name_of, observation_fault
from spinup.utils.errors import SpinupError, one_line, printable
from spinup.utils.seeding import global_state, same_global_state, set_global_state
from spinup.utils.serialization_utils import short_repr

__all__ = ["Checkup", "Finding", "check_env", "examine"]

LONGEST = 1000  # steps after which an episode is cut, as `max_ep_len` does in training
REPLAYED = 200  # steps of an episode that are repeated and compared


@dataclass(frozen=True)
class Finding:
    """Something about an environment that its author should know.

    Attributes:
        kind: a short name, such as 'seed' or 'reward scale'.
        serious: whether it breaks learning or stops a run.
        what: what was seen.
        effect: how it affects learning.
        change: what to change.
    """

    kind: str
    serious: bool
    what: str
    effect: str
    change: str

    def __str__(self) -> str:
        label = "problem" if self.serious else "warning"
        return f"{label}: {self.what}. {self.effect}. {self.change}."


@dataclass
class Checkup:
    """The findings about one environment, and a line about the episodes they come from."""

    findings: list[Finding] = field(default_factory=list)
    summary: str = ""

    def add(self, kind: str, what: str, effect: str, change: str, *, serious: bool = False) -> None:
        """Add a finding, unless there is one of its kind."""
        if all(finding.kind != kind for finding in self.findings):
            self.findings.append(Finding(kind, serious, what, effect, change))


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

    try:
        with _globals_restored(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _examine(fresh, found, steps, seed)
            _ask_gymnasium(fresh, found)
        for warning in caught:
            _add_warning(found, str(warning.message))
    finally:
        for one in made if ours else ():
            one.close()
    found.findings.sort(key=lambda finding: not finding.serious)
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


@contextmanager
def _globals_restored() -> Iterator[None]:
    """Leave the global generators as they were: a check must not change what follows it."""
    torch = sys.modules.get("torch")
    before = global_state(torch)
    try:
        yield
    finally:
        set_global_state(before, torch)


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
            episode.acts.append(np.array(act))
            steps -= 1
            o, r, episode.terminated, episode.truncated, _ = env.step(act)
            episode.obs.append(np.array(o))
            episode.rews.append(float(np.asarray(r).item()))
            if episode.terminated or episode.truncated:
                break


def _difference(env: Any, episode: _Episode, acts: Sequence[Any] | None = None) -> str | None:
    """Play an episode again; return what differs first ('observation', 'reward') or None."""
    obs = env.reset(seed=episode.seed)[0]
    if not np.array_equal(obs, episode.obs[0]):
        return "observation"
    for t, act in enumerate((episode.acts if acts is None else acts)[:REPLAYED]):
        kind = env.action_space
        act = int(act) if isinstance(kind, spaces.Discrete) else np.array(act)
        obs, rew, terminated, truncated, _ = env.step(act)
        if not np.array_equal(obs, episode.obs[t + 1]):
            return "observation"
        if float(np.asarray(rew).item()) != episode.rews[t]:
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
    _check_spaces(found, raw)
    if any(isinstance(layer, InterfaceAdapter) for layer in layers(env)):
        _note_old_interface(found, env)
    if observation_fault(raw.observation_space):
        return
    torch = sys.modules.get("torch")
    before, began = global_state(torch), time.perf_counter()
    episodes = _episodes(found, env, steps, seed)
    seconds = time.perf_counter() - began
    drew = not same_global_state(global_state(torch), before)
    if not episodes:
        return
    found.summary = _summary(episodes, seconds)
    if any(finding.serious and finding.kind in ("returns", "raises") for finding in found.findings):
        return
    _check_repetition(found, fresh, episodes, drew, seed)
    _check_ends(found, episodes, raw)
    _check_rewards(found, episodes)
    if isinstance(raw.observation_space, spaces.Box) and not _is_image(raw.observation_space):
        _check_observations(found, episodes)


def _episodes(found: Checkup, env: Any, steps: int, seed: int) -> list[_Episode]:
    """Play; a fault or an exception of the environment becomes a finding."""
    name = type(getattr(env, "unwrapped", env)).__name__
    hook(env, name, steps, set())
    episodes: list[_Episode] = []
    try:
        for episode in _play(env, steps, seed):
            episodes.append(episode)
    except ReturnFault as fault:
        what, _, change = str(fault).rpartition(": ")
        found.add(
            "returns",
            what,
            "A run stops there with this sentence",
            change.capitalize(),
            serious=True,
        )
    except Exception as error:  # the user's code can raise anything
        t = len(episodes[-1].acts) if episodes else 0
        where = f"step {t} of an episode" if t else "reset"
        act = f" with the action {short_repr(episodes[-1].acts[-1])}" if t else ""
        found.add(
            "raises",
            f"{name} raised {type(error).__name__} in {where}{act}: {one_line(error)[:200]}",
            "A run stops there with a traceback",
            "Call reset and step with this action by hand, and follow the traceback",
            serious=True,
        )
    inner = env.env if isinstance(env, SpaceAdapter) else env
    for method in ("reset", "step"):
        vars(inner).pop(method, None)
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


def _is_image(space: spaces.Box) -> bool:
    shape = space.shape
    return len(shape) >= 2 and (space.dtype == np.uint8 or len(shape) == 3)


def _image_parts(space: Any) -> list[tuple[str, spaces.Box]]:
    """Return the images in a Dict or Tuple space, each with its place in it."""
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return []
    named = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
    found = []
    for name, part in named:
        if isinstance(part, spaces.Box) and is_image(part):
            found.append((repr(name), part))
        found += [(f"{name!r}, {inner}", image) for inner, image in _image_parts(part)]
    return found


def _check_spaces(found: Checkup, env: Any) -> None:
    obs, act = env.observation_space, env.action_space
    fault = observation_fault(obs)
    if fault:
        found.add(
            "observation space",
            f"The observation space {name_of(obs)} {fault}",
            "No algorithm accepts it",
            "Use Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple",
            serious=True,
        )
    elif isinstance(obs, spaces.Box) and _is_image(obs) and not is_image(obs):
        size = int(np.prod(obs.shape))
        found.add(
            "image",
            f"Observations look like images of shape {obs.shape} and dtype {obs.dtype}",
            "The default networks have convolutions only for three axes of uint8 or bool: these "
            f"they see as {size:,} separate numbers",
            "Return bytes of shape (height, width, channels), stack gray frames with "
            "gymnasium.wrappers.FrameStackObservation, or pass a convolutional actor_critic",
        )
    for name, image in _image_parts(obs):
        found.add(
            "image",
            f"The part {name} of the observations is an image of shape {image.shape}",
            "Dict and Tuple observations become one vector, so the default networks see it as "
            f"{int(np.prod(image.shape)):,} separate numbers, which are not scaled",
            "Return the image alone, or scale it and pass a convolutional actor_critic",
        )
    if isinstance(act, spaces.Discrete) and act.n == 1:
        found.add(
            "one action",
            "There is only one action",
            "There is nothing to choose, so nothing to learn",
            "Give the action_space at least two actions",
            serious=True,
        )
    if isinstance(act, spaces.Box):
        _check_bounds(found, act)


def _check_bounds(found: Checkup, act: spaces.Box) -> None:
    low, high = act.low.astype(np.float64), act.high.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        width = high - low
    endless = ~np.isfinite(width) | (width > 1e30)
    if endless.any():
        found.add(
            "unbounded actions",
            f"{_dimensions(np.flatnonzero(endless))} of the action space has no finite bounds",
            "DDPG, TD3, SAC and ACER refuse it, because they scale their actions to the bounds, "
            "and the others explore only about one unit around zero",
            "Give the Box finite bounds, and scale inside the environment",
            serious=True,
        )
    elif (width <= 0).any():
        found.add(
            "zero-width actions",
            f"{_dimensions(np.flatnonzero(width <= 0))} of the action space has only one value",
            "SAC and ACER refuse it, and the others learn an output that has no effect",
            "Remove it from the action_space",
            serious=bool((width <= 0).all()),
        )
    elif width.max() > 40 or width.min() < 0.05:
        i = int(width.argmax() if width.max() > 40 else width.argmin())
        found.add(
            "action range",
            f"{_dimensions([i])} of the action space ranges from {low.ravel()[i]:g} to "
            f"{high.ravel()[i]:g}",
            "REINFORCE, VPG, TRPO and PPO explore with noise of about 0.6 in action units, which "
            + (
                "is a small part of this range"
                if width.max() > 40
                else "is far more than this range"
            ),
            "Use bounds of -1 and 1, and scale inside the environment (or with "
            "gymnasium.wrappers.RescaleAction)",
        )


def _dimensions(indices: Iterable[int]) -> str:
    numbers = [int(i) for i in indices]
    shown = ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
    return f"Dimension {shown}" if len(numbers) == 1 else f"Each of the dimensions {shown}"


def _note_old_interface(found: Checkup, env: Any) -> None:
    base = type(getattr(env, "unwrapped", env)).__name__
    found.add(
        "interface",
        f"{base} may have the old interface, so an adapter inspects each of its results",
        "Steps are slower, and in the old interface, every end of an episode counts as a "
        "termination unless info['TimeLimit.truncated'] is true",
        "Write a reset(self, *, seed=None, options=None) that returns obs, info, and a step that "
        "returns obs, reward, terminated, truncated, info, each time as a literal tuple",
    )


def _check_repetition(
    found: Checkup,
    fresh: Callable[[], Any],
    episodes: Sequence[_Episode],
    drew: bool,
    seed: int,
) -> None:
    later = _difference(fresh(), episodes[-1]) if len(episodes) > 1 else None
    first = _difference(fresh(), episodes[0])
    resumed = "an interrupted run may have to start a new episode"
    if drew:
        found.add(
            "global random numbers",
            "The environment draws from a global generator (random, np.random or torch)",
            "Its episodes depend on everything else that draws from it, so a seed does not repeat "
            f"them, and {resumed}",
            "Draw from self.np_random, which super().reset(seed=seed) seeds",
        )
    elif first:
        found.add(
            "seed",
            f"The same seed and actions gave a different {first}",
            f"Runs with the same seed differ, and {resumed}",
            "Call super().reset(seed=seed) and draw every random number from self.np_random",
        )
    elif later == "reward":
        found.add(
            "memory",
            "The same seed and actions gave the same observations but a different reward in a new "
            "environment, so rewards depend on earlier episodes",
            f"The same action earns a different reward later, and {resumed}",
            "Use ac_kwargs normalize_ret instead of a wrapper that normalizes rewards, let the "
            "seed alone determine each episode, or add the methods get_state and set_state",
        )
    elif later:
        found.add(
            "memory",
            "The same seed and actions gave a different observation in a new environment, so the "
            "environment keeps something from earlier episodes",
            resumed.capitalize(),
            "Let reset set everything from the seed alone, or add the methods get_state and "
            "set_state",
        )
    kinds = {finding.kind for finding in found.findings}
    if first or drew or later or kinds & {"one action", "zero-width actions"}:
        return
    env = fresh()
    others = copy.deepcopy(env.action_space)
    others.seed(seed + 1)
    longest = max(episodes, key=lambda episode: len(episode.rews))
    acts = [others.sample() for _ in longest.acts[:REPLAYED]]
    if len(acts) >= 10 and not _difference(env, longest, acts):
        found.add(
            "actions",
            f"{len(acts)} different actions changed neither observations nor rewards",
            "There is nothing to learn",
            "Use the action in step",
            serious=True,
        )


def _check_ends(found: Checkup, episodes: Sequence[_Episode], env: Any) -> None:
    ended = [e for e in episodes if e.terminated or e.truncated]
    lengths = {len(e.rews) for e in ended}
    limited = any(getattr(layer, "_max_episode_steps", None) for layer in layers(env))
    if not ended and not limited:
        steps = sum(len(e.rews) for e in episodes)
        found.add(
            "endless",
            f"No episode ended in {steps:,} random steps, and there is no time limit",
            f"Training and test episodes are truncated after max_ep_len steps ({LONGEST:,} by "
            "default), and the algorithm estimates the rest of the return",
            "End episodes that succeed or fail (terminated=True), and set a limit with "
            "max_episode_steps when registering the environment",
        )
    elif len(ended) > 2 and len(lengths) == 1 and all(e.terminated for e in ended):
        (length,) = lengths
        if length >= 10:
            found.add(
                "time limit",
                f"All {len(ended)} episodes terminated after exactly {length} steps",
                "If that is a time limit, the agent learns that the world ends there: the value of "
                "the last states becomes zero, whatever would have followed",
                "Return truncated=True at a time limit, and terminated=True only if no reward can "
                "follow (or if the observation includes the time)",
                serious=True,
            )
        elif length == 1:
            found.add(
                "one step",
                f"All {len(ended)} episodes ended after their first step",
                "The task is a bandit: no action affects later states",
                "If this is not intended, check what sets terminated",
            )


def _check_rewards(found: Checkup, episodes: Sequence[_Episode]) -> None:
    rews = np.concatenate([e.rews for e in episodes])
    largest = float(np.abs(rews).max())
    scale = "Scale the reward to about 1, or set ac_kwargs normalize_ret (on-policy algorithms)"
    if largest > 1000:
        found.add(
            "reward scale",
            f"Rewards are as large as {largest:.3g}",
            "The value function's loss grows with their square, and large gradient steps undo what "
            "it has learned",
            scale,
            serious=largest > 1e6,
        )
    elif 0 < largest < 1e-3:
        found.add(
            "reward scale",
            f"No reward is larger than {largest:.3g}",
            "The value function cannot distinguish them from its own errors, and SAC's entropy "
            "bonus outweighs them",
            scale,
        )
    elif rews.min() == rews.max() and not any(e.terminated for e in episodes):
        found.add(
            "reward signal",
            f"All {len(rews):,} random steps had the same reward ({rews[0]:g}), and no episode "
            "terminated",
            "Learning starts only once exploration stumbles on another reward, which can take very "
            "long",
            "Add rewards for progress, or try an algorithm that explores more (larger ent_coef, "
            "alpha or act_noise)",
        )


def _check_observations(found: Checkup, episodes: Sequence[_Episode]) -> None:
    obs = np.concatenate([np.stack(e.obs) for e in episodes]).astype(np.float64)
    obs = obs.reshape(len(obs), -1)
    largest, spread = np.abs(obs).max(axis=0), obs.std(axis=0)
    i = int(largest.argmax())
    normalize = (
        "Divide it in the environment, or set ac_kwargs normalize_obs (on-policy algorithms)"
    )
    if largest[i] > 100:
        found.add(
            "observation scale",
            f"Dimension {i} of the observation is as large as {largest[i]:.3g}",
            "It dominates the others, and units of the first layer saturate",
            normalize,
            serious=bool(largest[i] > 1e6),
        )
    small = np.flatnonzero((spread > 0) & (spread < 1e-3))
    if len(small):
        found.add(
            "small observations",
            f"{_dimensions(small)} of the observation varies by only {spread[small].max():.1g}",
            "The networks can hardly detect such small differences",
            normalize.replace("Divide", "Multiply"),
        )
    fixed = np.flatnonzero(obs.min(axis=0) == obs.max(axis=0))
    if len(fixed) == obs.shape[1]:
        found.add(
            "constant observation",
            "The observation never changes",
            "The agent cannot tell one state from another",
            "Include everything in the observation that the best action depends on",
            serious=len(episodes[0].rews) > 1,
        )
    elif len(fixed):
        found.add(
            "constant dimensions",
            f"{_dimensions(fixed)} of the observation never changed",
            "The agent learns nothing from it, and if it ever changes, the networks have never "
            "seen such an input",
            "Remove it if it cannot change",
        )


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
    if any(finding.kind in ("returns", "raises", "interface") for finding in found.findings):
        return
    base = getattr(fresh(), "unwrapped", None)
    if not isinstance(base, gymnasium.Env):
        return
    try:
        env_checker.check_env(base, skip_render_check=True)
    except Exception as error:  # assertions, and whatever the user's code raises
        _add_gymnasium(found, str(error) or type(error).__name__)


def _add_warning(found: Checkup, text: str) -> None:
    """Turn a warning into a finding: ours about returned values, or Gymnasium's."""
    if re.search(r"(reset|step \(step \d+\)) returned", text):
        what, _, change = text.rpartition(": ")
        kind = "outside" if "outside" in text else "info" if " info " in text else "shape"
        effect = "Training continues" if kind != "shape" else "It is stored in the space's shape"
        change = re.sub(r",? because.*", "", change).capitalize()
        found.add(kind, what, f"{effect}, but code that relies on the space is misled", change)
    elif "WARN" in text or "\x1b" in text:
        _add_gymnasium(found, text)


def _add_gymnasium(found: Checkup, text: str) -> None:
    plain = re.sub(r"\x1b\[[0-9;]*m|WARN:\s*", "", text)
    plain = printable(" ".join(plain.split()))
    if _UNNEEDED.search(plain):
        return
    kinds = {finding.kind for finding in found.findings}
    if "seed" in plain.lower() and kinds & {"seed", "global random numbers", "memory"}:
        return
    plain = (plain if len(plain) <= 240 else f"{plain[:237]}...").rstrip(".")
    found.add(
        f"gymnasium: {plain[:40]}",
        f"Gymnasium's checker reports: {plain}",
        "This library does not depend on it, but other tools may",
        "See gymnasium.farama.org, 'Create a custom environment'",
    )

"""Watching, measuring and filming trained policies.

    python -m spinup.run test_policy data/ppo/ppo_s0                     # 100 episodes, on screen
    python -m spinup.run test_policy data/ppo/ppo_s0 -d -nr -n 20        # the mode, measured only
    python -m spinup.run test_policy data/ppo/ppo_s0 -d --video a.mp4    # a clip, no display needed

Nothing in a run directory is executed: the network is rebuilt from JSON and safetensors, and the
environment from an id that is registered here. Runs of the original Spinning Up hold only pickles,
which can run any program when they are opened; those need `trust_pickle=True` (`--trust-pickle`).
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spinup.policies.video import (
    check_clip,
    has_display,
    prepare_headless_rendering,
    record_episodes,
)
from spinup.utils.argparsing import Parser
from spinup.utils.errors import SpinupError

# pytest would otherwise take this module's name for a module of tests.
__test__ = False

GetAction = Callable[[Any], Any]

# What `gymnasium.make` itself puts around an environment, and so puts there again.
_STANDARD_WRAPPERS = {"TimeLimit", "OrderEnforcing", "PassiveEnvChecker"}
# Begins another argument of a command line; -5, -.5 and -inf are values.
_FLAG = re.compile(r"--|-(?!inf$)[A-Za-z]")
# Wrappers whose observations are pictures that the environment draws.
_SEES_PICTURES = {"AddRenderObservation"}
# Registered ids that make another environment, named in their arguments, which may be `module:id`.
_INDIRECT_IDS = re.compile(r"GymV\d+Environment(-v\d+)?")


def load_policy_and_env(
    fpath: str | Path,
    itr: int | str | None = "last",
    deterministic: bool = False,
    *,
    env: Any = None,
    env_kwargs: Mapping[str, Any] | None = None,
    actor_critic: Any = None,
    trust_pickle: bool = False,
    render_mode: str | None = None,
    seed: int | None = None,
) -> tuple[Any, GetAction]:
    """Loads a saved policy and makes the environment that it was trained in.

    Args:
        fpath: Run directory.
        itr: Which save: its number; 'last' or -1 means the one without a number, else the newest.
        deterministic: Act by the policy's mode instead of sampling from it.
        env: Environment to use instead: an id, a function that makes one, or an environment.
        env_kwargs: Arguments of the environment, over those that were saved; for an id only.
        actor_critic: The class of the network, where it was not one of the library's own.
        trust_pickle: Allows what can run code from the file: opening pickles (runs of the original
            Spinning Up), and importing the modules of the network's class and of the environment
            that the file names.
        render_mode: How the environment draws: 'human', 'rgb_array' or None.
        seed: Seed of the actions that are sampled; None draws one.

    Returns:
        `(env, get_action)`: `get_action(obs)` gives the action to pass to `env.step`.
    """
    if not isinstance(deterministic, bool | np.bool_):
        raise SpinupError(f"deterministic is True or False, not {deterministic!r}.")
    _check_seed(seed)
    folder = _run_folder(fpath)
    prepare_headless_rendering()
    meta, act_in = LOADERS[_backend(folder)](
        folder,
        itr,
        bool(deterministic),
        actor_critic=actor_critic,
        trust_pickle=trust_pickle,
        seed=seed,
    )
    if meta is not None:
        made = _make_env(env, env_kwargs, meta, render_mode, trust_pickle)
        _check_spaces_agree(meta, made)
    elif env is not None:
        made = _adapted(env, env_kwargs, render_mode)
    else:
        made = _unpickle_env(folder, itr)
    return made, act_in(made.action_space)


def load_pytorch_policy(
    fpath: str | Path,
    itr: int | str | None = "last",
    deterministic: bool = False,
    *,
    actor_critic: Any = None,
    trust_pickle: bool = False,
    seed: int | None = None,
) -> GetAction:
    """The policy alone: `get_action(obs)`. Arguments as for `load_policy_and_env`."""
    folder = _run_folder(fpath)
    _, act_in = _load_pytorch(
        folder,
        itr,
        bool(deterministic),
        actor_critic=actor_critic,
        trust_pickle=trust_pickle,
        seed=seed,
    )
    return act_in(None)


def load_tf_policy(
    fpath: str | Path, itr: int | str | None = "last", deterministic: bool = False
) -> GetAction:
    """The place of the TensorFlow backend's policies, which this version does not have."""
    raise SpinupError(
        f"{fpath} was trained with the TensorFlow backend, which is not part of this version; "
        "train with the PyTorch backend instead."
    )


def run_policy(
    env: Any,
    get_action: GetAction,
    max_ep_len: int | None = None,
    num_episodes: int = 100,
    render: bool = True,
    *,
    seed: int | None = None,
) -> dict[str, list[float]]:
    """Runs episodes, prints each and a table of all.

    Args:
        env: The environment; with `render`, one without a window is made again with one.
        get_action: Gives the action for an observation.
        max_ep_len: Cuts episodes after so many steps; None or 0 means at their end.
        num_episodes: How many.
        render: Show them, where there is a display.
        seed: Seed of the first reset; None draws one.

    Returns:
        `{"EpRet": [...], "EpLen": [...]}`, an entry an episode.
    """
    if env is None:
        raise SpinupError(
            "There is no environment to run the policy in; pass one: "
            "load_policy_and_env(fpath, env=...), or --env on the command line."
        )
    shown, draw = _with_window(env) if render else (env, None)
    returns: list[float] = []
    lengths: list[float] = []
    try:
        episodes = run_episodes(shown, get_action, max_ep_len, num_episodes, seed=seed, draw=draw)
        for i, (ep_ret, ep_len) in enumerate(episodes):
            returns.append(ep_ret)
            lengths.append(ep_len)
            print(f"Episode {i} \t EpRet {ep_ret:.3f} \t EpLen {ep_len}", flush=True)
    finally:
        if shown is not env:
            shown.close()
    print_table(returns, lengths)
    return {"EpRet": returns, "EpLen": lengths}


def run_episodes(
    env: Any,
    get_action: GetAction,
    max_ep_len: int | None = None,
    num_episodes: int = 100,
    *,
    seed: int | None = None,
    draw: Callable[[], Any] | None = None,
) -> Iterator[tuple[float, int]]:
    """Runs episodes and yields the return and the length of each, printing nothing.

    Arguments as for `run_policy`; `draw` is called before every step.
    """
    from spinup.envs import adapt_env

    if num_episodes < 1:
        raise SpinupError(f"The number of episodes must be at least 1, not {num_episodes}.")
    if max_ep_len is not None and max_ep_len < 0:
        raise SpinupError(f"The longest episode is a number of steps or 0, not {max_ep_len}.")
    _check_seed(seed)
    limit = max_ep_len or math.inf
    env = adapt_env(env)
    for episode in range(num_episodes):
        o, _ = env.reset(seed=seed if episode == 0 else None)
        ep_ret, ep_len, over = 0.0, 0, False
        while not over:
            if draw is not None:
                draw()
            o, r, terminated, truncated, _ = env.step(get_action(o))
            ep_ret += np.asarray(r, dtype=float).item()  # an array of one number is a reward, too
            ep_len += 1
            over = terminated or truncated or ep_len >= limit
        yield ep_ret, ep_len


# ------------------------------------------------------------------------------------- the policy


def _run_folder(fpath: str | Path) -> Path:
    folder = Path(fpath).expanduser()
    if not folder.is_dir():
        raise SpinupError(f"{fpath} is not a folder; give the run directory of a trained policy.")
    return folder


def _saves(folder: Path) -> Path:
    return folder / "pyt_save" if (folder / "pyt_save").is_dir() else folder


def _has_safe_policy(folder: Path) -> bool:
    return any(re.fullmatch(r"policy\d*\.json", p.name) for p in _saves(folder).iterdir())


def _backend(folder: Path) -> str:
    """Which backend's files a run directory holds."""
    names = [p.name for p in folder.iterdir() if p.is_dir()]
    if "pyt_save" not in names and any(
        re.fullmatch(r"tf1_save\d*|simple_save\d*", n) for n in names
    ):
        return "tf1"
    return "pytorch"


def _load_pytorch(
    folder: Path,
    itr: int | str | None,
    deterministic: bool,
    *,
    actor_critic: Any,
    trust_pickle: bool,
    seed: int | None,
) -> Loaded:
    meta: dict[str, Any] | None = None
    if _has_safe_policy(folder):
        meta, ac = load_module(folder, itr, actor_critic, trust_pickle)
    else:
        ac = _load_pickled_module(folder, itr, trust_pickle)

    def act_in(action_space: Any) -> GetAction:
        if getattr(ac, "action_space", None) is None:  # modules of the original do not know it
            if action_space is None:
                raise SpinupError(
                    f"The module pickled in {folder} does not know its action space; use "
                    "load_policy_and_env with env=..., which tells it."
                )
            ac.action_space = action_space
        rng = np.random.default_rng(seed)
        get_action: GetAction = _policies().make_get_action(ac, deterministic, rng)
        return get_action

    return meta, act_in


def _load_tf1(folder: Path, itr: int | str | None, deterministic: bool, **_: Any) -> Loaded:
    get_action = load_tf_policy(folder, itr, deterministic)
    return None, lambda action_space: get_action


# What is known of the run (None: only its pickles know), and from the environment's action space to
# `get_action`.
Loaded = tuple[dict[str, Any] | None, Callable[[Any], GetAction]]
# A backend's name -> how its policies are opened. A backend that is added has its loader here.
LOADERS: dict[str, Callable[..., Loaded]] = {"pytorch": _load_pytorch, "tf1": _load_tf1}


def load_module(
    folder: Path, itr: int | str | None, actor_critic: Any = None, trust: bool = False
) -> tuple[dict[str, Any], Any]:
    """What was saved of a policy, and its network, rebuilt from JSON and safetensors."""
    from spinup.policies.saved import load_policy

    number = _which(itr)
    saved = saved_numbers(folder)
    if number != "last" and number not in saved:
        raise SpinupError(f"{folder} holds no save number {number}; it has {_listed(saved)}.")
    meta, tensors = load_policy(folder, number)
    missing = [key for key in ("observation_space", "action_space") if key not in meta]
    if missing:
        raise SpinupError(
            f"The policy in {folder} was saved without its {' and '.join(missing)}; "
            "save it with setup_pytorch_saver(ac, policy_meta=...)."
        )
    return meta, _policies().load_actor_critic(meta, tensors, actor_critic, trust_code=trust)


def _which(itr: int | str | None) -> int | str:
    """A number, or 'last' for every way of saying it (the original uses '' and -1)."""
    if itr is None or itr in ("", "last", -1, "-1"):
        return "last"
    try:
        return int(itr)
    except (ValueError, TypeError):
        raise SpinupError(f"itr is the number of a save, or 'last', not {itr!r}.") from None


def saved_numbers(folder: Path, kind: str = r"policy(\d*)\.json") -> list[int | None]:
    """The numbers of the saves in a run directory, in order; None is the one without a number."""
    found = [m[1] for p in _saves(folder).iterdir() if (m := re.fullmatch(kind, p.name))]
    numbers: list[int | None] = [*sorted(int(text) for text in found if text)]
    return numbers + [None] if "" in found else numbers


def _listed(numbers: Sequence[int | None]) -> str:
    """Saves in a sentence."""
    shown = ["the last one (-1)" if n is None else str(n) for n in numbers]
    if len(shown) > 12:
        shown = [*shown[:5], "...", *shown[-6:]]
    return ", ".join(shown) if shown else "none"


def _check_seed(seed: Any) -> None:
    whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    if seed is not None and not (whole and seed >= 0):
        raise SpinupError(f"seed is a whole number, zero or more, not {seed!r}.")


def _policies() -> Any:
    # Here and not at the top: utils is below the algorithms, and torch takes a second to import.
    from spinup.algos.pytorch.common import acting as policies

    return policies


# -------------------------------------------------------------------------------- the environment


def _make_env(
    env: Any,
    env_kwargs: Mapping[str, Any] | None,
    meta: dict[str, Any],
    render_mode: str | None,
    trust: bool,
) -> Any:
    if env is not None:
        return _adapted(env, env_kwargs, render_mode)
    record = meta.get("env")
    record = record if isinstance(record, dict) else {}
    env_id = record.get("id")
    if not isinstance(env_id, str):
        raise SpinupError(
            "The file does not say by which id its environment is made; pass one with env=... "
            "(--env on the command line)."
        )
    module = record.get("module")
    if ":" in env_id:
        module, _, env_id = env_id.rpartition(":")
    if (module or _INDIRECT_IDS.fullmatch(env_id)) and not trust:
        # Importing a module runs it, and the name of this one comes from a file.
        raise SpinupError(
            f"The file asks to import {module or 'a module'} to make {env_id}; pass it "
            "with env=... (--env), or trust_pickle=True (--trust-pickle) if you trust the file."
        )
    kwargs = record.get("kwargs") or {}
    named = isinstance(kwargs, dict) and all(name.isidentifier() for name in kwargs)
    if record.get("exact_kwargs") is False or not named:
        raise SpinupError(
            f"Some arguments of {env_id} could not be saved; "
            "pass the environment with env=... (--env)."
        )
    return _rewrapped(
        f"{module}:{env_id}" if module else env_id,
        {**kwargs, **(env_kwargs or {})},
        record,
        render_mode,
        trust,
    )


def _rewrapped(
    env_id: str,
    kwargs: dict[str, Any],
    record: dict[str, Any],
    render_mode: str | None,
    trust: bool,
) -> Any:
    """The environment inside the wrappers it had, as far as a file can say how to make them."""
    from spinup.envs import adapt_env
    from spinup.envs.wrappers import rewrap

    limit = kwargs.pop("max_episode_steps", None)  # the caller's wish, over what was saved
    specs = record.get("wrapper_specs")
    if render_mode is None and isinstance(specs, list):
        pictures = any(isinstance(s, dict) and s.get("name") in _SEES_PICTURES for s in specs)
        render_mode = "rgb_array" if pictures else None

    def make(saved_limit: int | None) -> Any:
        steps = saved_limit if limit is None else limit
        limited = kwargs if steps is None else {**kwargs, "max_episode_steps": steps}
        try:
            return _made_by_id(env_id, limited, render_mode)
        except SpinupError:
            raise
        except Exception as error:  # arguments from a file can make a constructor raise anything
            raise SpinupError(
                f"{env_id} cannot be made as it was saved "
                f"({type(error).__name__}: {str(error)[:300]}); pass the environment with env=... "
                "(--env)."
            ) from error

    if isinstance(specs, list):
        made, missing = rewrap(make, specs, trust)
    else:  # as saved by versions that kept the names alone
        steps = record.get("max_episode_steps")
        whole = isinstance(steps, int) and not isinstance(steps, bool) and steps > 0
        made = make(steps if whole else None)
        names = record.get("wrappers")
        named = names if isinstance(names, list) else []
        missing = [str(name) for name in named if name not in _STANDARD_WRAPPERS]
    if missing:
        warnings.warn(
            f"the policy was trained in {env_id} inside {', '.join(missing)}, which "
            "cannot be rebuilt from a file: pass env=... to test it as it was trained.",
            stacklevel=4,
        )
    return adapt_env(made)


def _made_by_id(env_id: str, kwargs: dict[str, Any], render_mode: str | None) -> Any:
    from spinup.envs import make_env

    drawing = {} if render_mode is None else {"render_mode": render_mode}
    return make_env(env_id, kwargs, **drawing)


def _adapted(env: Any, env_kwargs: Mapping[str, Any] | None, render_mode: str | None) -> Any:
    """The caller's own environment: an id, a function that makes one, or the object."""
    from spinup.envs import adapt_env

    if isinstance(env, str):
        return adapt_env(_made_by_id(env, dict(env_kwargs or {}), render_mode))
    if env_kwargs:
        raise SpinupError("env_kwargs are for an environment that is made by its id.")
    if isinstance(env, type) or (callable(env) and not hasattr(env, "step")):
        env = env()
    return adapt_env(env)


def _check_spaces_agree(meta: dict[str, Any], env: Any) -> None:
    from spinup.envs import space_from_json

    for name in ("observation_space", "action_space"):
        saved, here = space_from_json(meta[name]), getattr(env, name)
        same_size = all(
            np.array_equal(np.asarray(getattr(saved, size, 0)), np.asarray(getattr(here, size, 0)))
            for size in ("shape", "n", "nvec", "start")
        )
        # Bounds are not compared: a wider one changes nothing that the network can see.
        if type(saved).__name__ != type(here).__name__ or not same_size:
            raise SpinupError(
                f"The policy was trained with the {name.replace('_', ' ')} {saved}, and this "
                f"environment has {here}; pass the one it was trained in with env=... (--env)."
            )


# ------------------------------------------------------------------ pickles, behind the opt-in


def _load_pickled_module(folder: Path, itr: int | str | None, trust: bool) -> Any:
    number = _which(itr)
    saved = saved_numbers(folder, r"model(\d*)\.pt")
    if not saved:
        below = sorted(p.parent for p in (*folder.glob("*/pyt_save"), *folder.glob("*/*/pyt_save")))
        such = f"one of the {len(below)} runs below it, such as {below[0]}" if below else ""
        wanted = such or "the run directory of a trained one"
        raise SpinupError(f"{folder} holds no saved policy; give {wanted}.")
    if number != "last" and number not in saved:
        raise SpinupError(f"{folder} holds no save number {number}; it has {_listed(saved)}.")
    which = saved[-1] if number == "last" else number
    path = _saves(folder) / f"model{'' if which is None else which}.pt"
    if not trust:
        raise SpinupError(
            f"{path} is a pickle, which can run any program when it is opened; "
            "if you trust who made it, pass trust_pickle=True (--trust-pickle)."
        )
    import torch

    try:
        ac = torch.load(path, map_location="cpu", weights_only=False)
    except Exception as error:  # opening a pickle can raise whatever its classes raise
        raise SpinupError(
            f"{path} cannot be opened ({type(error).__name__}: {error}); run where the classes "
            "that it was made of can be imported."
        ) from error
    if not callable(getattr(ac, "act", None)):
        raise SpinupError(f"{path} holds a {type(ac).__name__} without act(obs), not a policy.")
    return _policies().modernize(ac)


def _unpickle_env(folder: Path, itr: int | str | None) -> Any:
    """The environment of a run of the original; reached only when pickles are trusted."""
    import pickle

    number = _which(itr)
    names = ["vars.pkl"] if number == "last" else [f"vars{number}.pkl", "vars.pkl"]
    problem: Exception | None = None
    for name in names:
        try:
            with open(folder / name, "rb") as file:
                return _adapted(pickle.load(file)["env"], None, None)
        except Exception as error:  # opening a pickle can raise whatever its classes raise
            problem = error
    raise SpinupError(
        f"The environment saved in {folder} cannot be opened ({problem!r}); "
        "pass one with env=... (--env)."
    ) from problem


# -------------------------------------------------------------------------------------- showing it


def _with_window(env: Any) -> tuple[Any, Callable[[], Any] | None]:
    """The environment to run, and what to call before a step to draw it (None: it draws itself)."""
    mode = getattr(env, "render_mode", None)
    if mode == "human":
        return env, None
    if not has_display():
        print(
            "No display: running without pictures (--video FILE records a clip).", file=sys.stderr
        )
        return env, None
    if mode is None and "human" in _render_modes(env):
        shown = _made_again(env)
        if shown is not None:
            return shown, None
    if mode is None and callable(getattr(env, "render", None)):
        return env, env.render
    return env, None


def _made_again(env: Any) -> Any:
    """The same environment with a window; None where it cannot be made from its spec.

    Gymnasium decides how to draw when an environment is made.
    """
    import gymnasium

    from spinup.envs import adapt_env
    from spinup.envs.adapter import SpaceAdapter

    inside = env.env if isinstance(env, SpaceAdapter) else env
    spec = getattr(inside, "spec", None)
    if spec is None:
        return None
    try:
        return adapt_env(gymnasium.make(spec, render_mode="human"))
    except (gymnasium.error.Error, ValueError, TypeError, AttributeError) as error:
        print(f"Running without a window: it cannot be opened ({error}).", file=sys.stderr)
        return None


def _render_modes(env: Any) -> Sequence[str]:
    return (getattr(env, "metadata", None) or {}).get("render_modes") or ()


def print_table(returns: Sequence[float], lengths: Sequence[float]) -> None:
    """Statistics of episodes, as the training table shows them."""
    rows = {
        "AverageEpRet": np.mean(returns),
        "StdEpRet": np.std(returns),
        "MaxEpRet": np.max(returns),
        "MinEpRet": np.min(returns),
        "EpLen": np.mean(lengths),
    }
    width = max(15, *(len(key) for key in rows))
    line = "-" * (width + 22)
    print(line)
    for key, value in rows.items():
        print(f"| {key:>{width}} | {f'{float(value):8.3g}':>15} |")
    print(line, flush=True)


# ------------------------------------------------------------------------------------ command line


def _take_env_kwargs(argv: Sequence[str] | None) -> tuple[list[str], dict[str, Any]]:
    """A command line without its `--env_kwargs:name value`, and those, which are literals."""
    from spinup.cli.plan import parse_value

    words = list(sys.argv[1:] if argv is None else argv)
    rest: list[str] = []
    found: dict[str, Any] = {}
    while words:
        word = words.pop(0)
        if not word.startswith("--env_kwargs"):
            rest.append(word)
            continue
        key, equals, value = word.partition("=")
        name = key.partition(":")[2]
        if not name.isidentifier():
            raise SpinupError(
                f"'{key}' names no argument of the environment: write --env_kwargs:name VALUE."
            )
        if not equals:
            value = "True" if not words or _FLAG.match(words[0]) else words.pop(0)
        found[name] = parse_value(value)
    return rest, found


def whole(least: int) -> Callable[[str], int]:
    """The type of a flag whose value is a whole number of at least `least`."""

    def convert(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            # argparse puts the flag's name in front
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} on")
        return number

    return convert


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m spinup.run test_policy ...`; returns the exit status."""
    parser = Parser(
        "spinup test_policy",
        description="Runs a trained policy and says how well it does.",
        allow_abbrev=False,
    )
    parser.add_argument("fpath", metavar="RUN", help="run directory")
    parser.add_argument(
        "-l",
        "--len",
        type=whole(0),
        help="longest episode (0: as they come, the default; where the environment has no time "
        "limit, that of the training)",
    )
    parser.add_argument(
        "-n", "--episodes", type=whole(1), help="how many episodes (100; with --video 1)"
    )
    parser.add_argument("-nr", "--norender", action="store_true", help="measure only")
    parser.add_argument("-i", "--itr", type=whole(-1), default=-1, help="which save (-1: the last)")
    parser.add_argument(
        "-d", "--deterministic", action="store_true", help="act by the mode, do not sample"
    )
    parser.add_argument("--env", help="id of the environment, instead of the one in the file")
    parser.add_argument(
        "--env_kwargs:NAME",
        metavar="VALUE",
        dest="_",
        help="an argument of the environment, over the saved one",
    )
    parser.add_argument("--video", metavar="FILE", help="record the episodes to a .mp4 or .gif")
    parser.add_argument(
        "--seed", type=whole(0), help="seed of the environment and of sampled actions"
    )
    parser.add_argument(
        "--trust-pickle",
        "--trust_pickle",
        action="store_true",
        help="open pickles and import what the file names: this can run any program",
    )
    try:
        words, env_kwargs = _take_env_kwargs(argv)
        _play(parser.parse_args(words), env_kwargs)
    except SpinupError as error:
        print(f"spinup: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


def _play(args: argparse.Namespace, env_kwargs: dict[str, Any]) -> None:
    episodes = args.episodes if args.episodes is not None else (1 if args.video else 100)
    if args.video:
        check_clip(args.video)
    env, get_action = load_policy_and_env(
        args.fpath,
        "last" if args.itr < 0 else args.itr,
        args.deterministic,
        env=args.env,
        env_kwargs=env_kwargs,
        trust_pickle=args.trust_pickle,
        render_mode="rgb_array" if args.video else None,
        seed=args.seed,
    )
    try:
        longest = _longest(args.fpath, args.itr, env) if args.len is None else args.len
        if args.video:
            played: list[tuple[float, int]] = []
            frames = record_episodes(
                env,
                get_action,
                args.video,
                episodes,
                longest or None,
                seed=args.seed,
                played=played,
            )
            for i, (ep_ret, ep_len) in enumerate(played):
                print(f"Episode {i} \t EpRet {ep_ret:.3f} \t EpLen {ep_len}")
            if played:
                print_table(*zip(*played, strict=True))
            print(f"wrote {args.video} ({frames} frames)")
        else:
            run_policy(env, get_action, longest, episodes, not args.norender, seed=args.seed)
    finally:
        env.close()


def _longest(fpath: str, itr: int, env: Any) -> int:
    """The longest episode of an environment that may have no end: that of the training; else 0."""
    from spinup.envs.adapter import layers
    from spinup.policies.saved import load_policy

    folder = Path(fpath).expanduser()
    limited = any(type(layer).__name__ == "TimeLimit" for layer in layers(env))
    if limited or not (folder.is_dir() and _has_safe_policy(folder)):
        return 0
    steps = load_policy(folder, _which(itr))[0].get("max_ep_len")
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
        return 0
    print(
        f"The environment has no time limit: episodes end after {steps} steps at the latest, as in "
        "training (-l 0 lets them run).",
        file=sys.stderr,
    )
    return steps


if __name__ == "__main__":
    sys.exit(main())

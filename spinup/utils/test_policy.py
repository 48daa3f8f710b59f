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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spinup.utils.errors import SpinupError
from spinup.utils.video import has_display, prepare_headless_rendering, record_episodes

# pytest would otherwise take this module's name for a module of tests.
__test__ = False

GetAction = Callable[[Any], Any]

# What `gymnasium.make` itself puts around an environment, and so puts there again.
_STANDARD_WRAPPERS = {"TimeLimit", "OrderEnforcing", "PassiveEnvChecker"}
# Registered ids that make another environment, named in their arguments, which may be `module:id`.
_INDIRECT_IDS = re.compile(r"GymV\d+Environment(-v\d+)?")


def load_policy_and_env(
    fpath: str | Path,
    itr: int | str | None = "last",
    deterministic: bool = False,
    *,
    env: Any = None,
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
    folder = _run_folder(fpath)
    prepare_headless_rendering()
    if _is_tensorflow(folder):
        return env, load_tf_policy(folder, itr, deterministic)
    if _has_safe_policy(folder):
        meta, ac = _load_safely(folder, itr, actor_critic, trust_pickle)
        made = _make_env(env, meta, render_mode, trust_pickle)
        _check_spaces_agree(meta, made)
    else:
        ac = _load_pickled_module(folder, itr, trust_pickle)
        made = _adapted(env, render_mode) if env is not None else _unpickle_env(folder, itr)
        # Modules of the original do not know their action space.
        ac.action_space = getattr(ac, "action_space", made.action_space)
    return made, _get_action(ac, deterministic, seed)


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
    if _has_safe_policy(folder):
        _, ac = _load_safely(folder, itr, actor_critic, trust_pickle)
    else:
        ac = _load_pickled_module(folder, itr, trust_pickle)
        if not hasattr(ac, "action_space"):
            raise SpinupError(
                f"The module pickled in {folder} does not know its action space; use "
                "load_policy_and_env with env=..., which tells it."
            )
    return _get_action(ac, deterministic, seed)


def load_tf_policy(
    fpath: str | Path, itr: int | str | None = "last", deterministic: bool = False
) -> GetAction:
    """The place of the TensorFlow backend's policies, which this version does not have."""
    raise SpinupError(
        f"{fpath} was trained with the TensorFlow backend, which is not part of this version; "
        "train it with the PyTorch backend, or use an older version to replay it."
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
    _print_table(
        {
            "AverageEpRet": np.mean(returns),
            "StdEpRet": np.std(returns),
            "MaxEpRet": np.max(returns),
            "MinEpRet": np.min(returns),
            "EpLen": np.mean(lengths),
        }
    )
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
    limit = max_ep_len or math.inf
    env = adapt_env(env)
    for episode in range(num_episodes):
        o, _ = env.reset(seed=seed if episode == 0 else None)
        ep_ret, ep_len, over = 0.0, 0, False
        while not over:
            if draw is not None:
                draw()
            o, r, terminated, truncated, _ = env.step(get_action(o))
            ep_ret += float(r)
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


def _is_tensorflow(folder: Path) -> bool:
    names = [p.name for p in folder.iterdir() if p.is_dir()]
    return "pyt_save" not in names and any(
        re.fullmatch(r"tf1_save\d*|simple_save\d*", n) for n in names
    )


def _load_safely(
    folder: Path, itr: int | str | None, actor_critic: Any, trust: bool
) -> tuple[dict[str, Any], Any]:
    from spinup.utils.logx import load_policy

    meta, tensors = load_policy(folder, _which(itr))
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
    except ValueError:
        raise SpinupError(f"itr is the number of a save, or 'last', not {itr!r}.") from None


def _get_action(ac: Any, deterministic: bool, seed: int | None) -> GetAction:
    get_action: GetAction = _policies().make_get_action(
        ac, bool(deterministic), np.random.default_rng(seed)
    )
    return get_action


def _policies() -> Any:
    # Here and not at the top: utils is below the algorithms, and torch takes a second to import.
    from spinup.algos.pytorch.common import policies

    return policies


# -------------------------------------------------------------------------------- the environment


def _make_env(env: Any, meta: dict[str, Any], render_mode: str | None, trust: bool) -> Any:
    if env is not None:
        return _adapted(env, render_mode)
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
    if record.get("exact_kwargs") is False or not isinstance(kwargs, dict):
        raise SpinupError(
            f"Some arguments of {env_id} could not be saved; "
            "pass the environment with env=... (--env)."
        )
    strange = [w for w in record.get("wrappers") or [] if w not in _STANDARD_WRAPPERS]
    if strange:
        warnings.warn(
            f"the policy was trained in {env_id} inside {', '.join(map(str, strange))}, which "
            "cannot be rebuilt from a file: pass env=... to test it as it was trained.",
            stacklevel=3,
        )
    limit = record.get("max_episode_steps")
    if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0:
        kwargs = {**kwargs, "max_episode_steps": limit}
    return _made_by_id(f"{module}:{env_id}" if module else env_id, kwargs, render_mode)


def _made_by_id(env_id: str, kwargs: dict[str, Any], render_mode: str | None) -> Any:
    from spinup.envs import adapt_env, make_env

    drawing = {} if render_mode is None else {"render_mode": render_mode}
    return adapt_env(make_env(env_id, kwargs, **drawing))


def _adapted(env: Any, render_mode: str | None) -> Any:
    """The caller's own environment: an id, a function that makes one, or the object."""
    from spinup.envs import adapt_env

    if isinstance(env, str):
        return _made_by_id(env, {}, render_mode)
    if isinstance(env, type) or (callable(env) and not hasattr(env, "step")):
        env = env()
    return adapt_env(env)


def _check_spaces_agree(meta: dict[str, Any], env: Any) -> None:
    from spinup.envs import space_from_json

    for name in ("observation_space", "action_space"):
        saved, here = space_from_json(meta[name]), getattr(env, name)
        same_size = all(
            np.array_equal(np.asarray(getattr(saved, size, 0)), np.asarray(getattr(here, size, 0)))
            for size in ("shape", "n", "nvec")
        )
        # Bounds are not compared: a wider one changes nothing that the network can see.
        if type(saved).__name__ != type(here).__name__ or not same_size:
            raise SpinupError(
                f"The policy was trained with the {name.replace('_', ' ')} {saved}, and this "
                f"environment has {here}; pass the one it was trained in with env=... (--env)."
            )


# ------------------------------------------------------------------ pickles, behind the opt-in


def _load_pickled_module(folder: Path, itr: int | str | None, trust: bool) -> Any:
    saves = _saves(folder)
    number = _which(itr)
    path = saves / ("model.pt" if number == "last" else f"model{number}.pt")
    if number == "last" and not path.is_file():
        numbered = {
            int(m[1]): p for p in saves.iterdir() if (m := re.fullmatch(r"model(\d+)\.pt", p.name))
        }
        path = numbered[max(numbered)] if numbered else path
    if not path.is_file():
        raise SpinupError(
            f"{folder} holds no saved policy; give the run directory of a trained one."
        )
    if not trust:
        raise SpinupError(
            f"{path} is a pickle, which can run any program when it is opened; "
            "if you trust who made it, pass trust_pickle=True (--trust-pickle)."
        )
    import torch

    ac = torch.load(path, map_location="cpu", weights_only=False)
    if not callable(getattr(ac, "act", None)):
        raise SpinupError(f"{path} holds a {type(ac).__name__} without act(obs), not a policy.")
    return ac


def _unpickle_env(folder: Path, itr: int | str | None) -> Any:
    """The environment of a run of the original; reached only when pickles are trusted."""
    import pickle

    number = _which(itr)
    names = ["vars.pkl"] if number == "last" else [f"vars{number}.pkl", "vars.pkl"]
    problem: Exception | None = None
    for name in names:
        try:
            with open(folder / name, "rb") as file:
                return _adapted(pickle.load(file)["env"], None)
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
    spec = getattr(env, "spec", None)
    if mode is None and spec is not None and "human" in _render_modes(env):
        import gymnasium

        from spinup.envs import adapt_env

        # Gymnasium decides how to draw when the environment is made.
        return adapt_env(gymnasium.make(spec, render_mode="human")), None
    if mode is None and callable(getattr(env, "render", None)):
        return env, env.render
    return env, None


def _render_modes(env: Any) -> Sequence[str]:
    return (getattr(env, "metadata", None) or {}).get("render_modes") or ()


def _print_table(rows: dict[str, Any]) -> None:
    width = max(15, *(len(key) for key in rows))
    line = "-" * (width + 22)
    print(line)
    for key, value in rows.items():
        print(f"| {key:>{width}} | {f'{float(value):8.3g}':>15} |")
    print(line, flush=True)


# ------------------------------------------------------------------------------------ command line


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m spinup.run test_policy ...`; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="spinup test_policy", description="Runs a trained policy and says how well it does."
    )
    parser.add_argument("fpath", help="run directory")
    parser.add_argument(
        "-l", "--len", type=int, default=0, help="longest episode (0: as they come)"
    )
    parser.add_argument(
        "-n", "--episodes", type=int, help="how many episodes (100; with --video 1)"
    )
    parser.add_argument("-nr", "--norender", action="store_true", help="measure only")
    parser.add_argument("-i", "--itr", type=int, default=-1, help="which save (-1: the last)")
    parser.add_argument(
        "-d", "--deterministic", action="store_true", help="act by the mode, do not sample"
    )
    parser.add_argument("--env", help="id of the environment, instead of the one in the file")
    parser.add_argument("--video", metavar="FILE", help="record the episodes to a .mp4 or .gif")
    parser.add_argument("--seed", type=int, help="seed of the environment and of sampled actions")
    parser.add_argument(
        "--trust-pickle",
        "--trust_pickle",
        action="store_true",
        help="open pickles and import what the file names: this can run any program",
    )
    args = parser.parse_args(argv)
    episodes = args.episodes if args.episodes is not None else (1 if args.video else 100)
    try:
        env, get_action = load_policy_and_env(
            args.fpath,
            "last" if args.itr < 0 else args.itr,
            args.deterministic,
            env=args.env,
            trust_pickle=args.trust_pickle,
            render_mode="rgb_array" if args.video else None,
            seed=args.seed,
        )
        try:
            if args.video:
                frames = record_episodes(
                    env, get_action, args.video, episodes, args.len or None, seed=args.seed
                )
                print(f"wrote {args.video} ({frames} frames)")
            else:
                run_policy(env, get_action, args.len, episodes, not args.norender, seed=args.seed)
        finally:
            env.close()
    except SpinupError as error:
        print(f"spinup: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

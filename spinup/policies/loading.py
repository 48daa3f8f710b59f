"""Load a trained policy and its training environment.

    env, get_action = load_policy_and_env("data/ppo/ppo_s0", deterministic=True)

Nothing in a run directory is executed: the network is rebuilt from JSON and safetensors, and the
environment from an id that is registered in this process. PyTorch runs of the original Spinning Up
contain only pickles, which can run arbitrary code when opened, so they need `trust_pickle=True`
(`--trust-pickle`). Of a TensorFlow graph, only operations that compute are loaded.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from spinup.policies.display import prepare_headless_rendering
from spinup.policies.environments import check_spaces_agree, given_env, saved_env
from spinup.policies.save_numbers import POLICY, chosen_save, folder_of_files, saved_numbers
from spinup.policies.saved import GetAction, Loaded, has_spaces, load_policy
from spinup.policies.tf_loader import read_info
from spinup.policies.tf_policies import load_policy_of
from spinup.utils.argparsing import whole
from spinup.utils.errors import SpinupError
from spinup.utils.reading import open_regular

# File names of saves, as for `POLICY`.
_MODEL = r"model(\d*)\.pt"
# TensorFlow's are folders. One of them ends with .old while a newer save replaces it.
_GRAPH = r"(?:tf1_save|simple_save)(\d*)(?:\.old)?"


class NoEnvironment(SpinupError, UserWarning):
    """The environment of a saved policy cannot be rebuilt."""


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
    """Load a saved policy and create the environment that it was trained in.

    If that environment cannot be rebuilt, it is None, with a warning that says why.

    Args:
        fpath: Run directory.
        itr: Number of the save; 'last' or -1 means the highest number, or else the unnumbered save.
            None means the unnumbered save, or else the highest number, and 'best' the policy that
            `save_best=True` kept.
        deterministic: Take the most likely action instead of a sample.
        env: Environment to use instead: an id, a function that creates it, or an instance.
        env_kwargs: Environment arguments that override the saved ones; only with an id.
        actor_critic: The network's class, if it is not one of the library's.
        trust_pickle: Allow the file to run code: open pickles (runs of the original Spinning Up
            and of your own algorithms), and import the modules of the network and the environment
            that the file names.
        render_mode: The environment's render mode: 'human', 'rgb_array' or None.
        seed: Seed for sampling actions; None picks a random seed.

    Returns:
        `(env, get_action)`, where `get_action(obs)` returns the action for `env.step`.
    """
    if not isinstance(deterministic, bool | np.bool_):
        raise SpinupError(f"deterministic must be True or False, not {deterministic!r}")
    check_seed(seed)
    folder, itr = folder_of_save(fpath, itr)
    prepare_headless_rendering()
    options = {"actor_critic": actor_critic, "trust_pickle": trust_pickle, "seed": seed}
    meta, *_, act_in = LOADERS[backend_of(folder)](folder, itr, bool(deterministic), **options)
    try:
        run = run_folder(fpath)  # the folder of the best policy has no pickle of the environment
        made = _environment(run, itr, meta, env, env_kwargs, render_mode, trust_pickle)
    except SpinupError as error:
        if env is not None or env_kwargs:
            raise
        warnings.warn(NoEnvironment(str(error)), stacklevel=2)
        made = None
    return made, act_in(None if made is None else made.action_space)


def _environment(
    folder: Path,
    itr: int | str | None,
    meta: dict[str, Any] | None,
    env: Any,
    env_kwargs: Mapping[str, Any] | None,
    render_mode: str | None,
    trust: bool,
) -> Any:
    """Return the given environment or the run's own: from its description or, if trusted, pickle.

    `meta` is None for runs that have no description.
    """
    if meta is None:
        if env is not None:
            return given_env(env, env_kwargs, render_mode)
        if not trust:
            raise SpinupError(
                f"the environment of {folder} is only saved as a pickle, which can run any program "
                "when it is opened: pass one with env=... (--env) or, if you trust its author, "
                "trust_pickle=True (--trust-pickle)"
            )
        return _unpickle_env(folder, itr)
    try:
        made = saved_env(env, env_kwargs, meta, render_mode, trust)
        check_spaces_agree(meta, made)
    except SpinupError:
        if env is not None or env_kwargs or not trust or not (folder / "vars.pkl").is_file():
            raise
        made = _unpickle_env(folder, itr)
        check_spaces_agree(meta, made)
    return made


def load_pytorch_policy(
    fpath: str | Path,
    itr: int | str | None = "last",
    deterministic: bool = False,
    *,
    actor_critic: Any = None,
    trust_pickle: bool = False,
    seed: int | None = None,
) -> GetAction:
    """Load only the policy, as `get_action(obs)`; arguments as for `load_policy_and_env`."""
    folder, itr = folder_of_save(fpath, itr)
    options = {"actor_critic": actor_critic, "trust_pickle": trust_pickle, "seed": seed}
    return _load_pytorch(folder, itr, bool(deterministic), **options).act_in(None)


def load_tf_policy(
    fpath: str | Path,
    itr: int | str | None = "last",
    deterministic: bool = False,
    *,
    trust_pickle: bool = False,
    seed: int | None = None,
) -> GetAction:
    """Load only the policy of a TensorFlow run, as `get_action(obs)`.

    Arguments are as for `load_policy_and_env`. The library's own networks act in NumPy, all other
    graphs through TensorFlow.
    """
    folder, itr = folder_of_save(fpath, itr)
    options = {"actor_critic": None, "trust_pickle": trust_pickle, "seed": seed}
    return _load_tf1(folder, itr, bool(deterministic), **options).act_in(None)


def run_folder(fpath: str | Path) -> Path:
    """Return the path of a run directory; raise an error if it is not a folder."""
    folder = Path(fpath).expanduser()
    if not folder.is_dir():
        raise SpinupError(f"{fpath} is not a folder: pass the run directory of a trained policy")
    return folder


def folder_of_save(fpath: str | Path, itr: int | str | None) -> tuple[Path, int | str | None]:
    """Return the folder that contains a save, and the save's number there.

    The best policy (`save_best=True`) is in a folder of its own; the others are in the run's.
    """
    folder = run_folder(fpath)
    if itr != "best":
        return folder, itr
    best = folder / "best"
    if not ((best / "policy.json").is_file() or (best.is_dir() and backend_of(best) == "tf1")):
        raise SpinupError(
            f"{folder} has no best policy: train with save_best=True (--save_best), or choose "
            "another save"
        )
    return best, "last"


def save_argument(text: str) -> int | str:
    """Return the value of a flag that selects a save: 'best', 'last' or its number (-1: last)."""
    if text in ("best", "last"):
        return text
    number = whole(-1)(text)
    return "last" if number < 0 else number


def has_safe_policy(folder: Path) -> bool:
    """Return whether a run directory has a torch policy that is not a pickle."""
    return bool(saved_numbers(folder))


def backend_of(folder: Path) -> str:
    """Return the backend whose files a run directory contains."""
    names = [p.name for p in folder.iterdir() if p.is_dir()]
    graphs = [name for name in names if re.fullmatch(_GRAPH, name)]
    is_graph = (folder / "saved_model.pb").exists()  # the folder of one save
    return "tf1" if "pyt_save" not in names and (graphs or is_graph) else "pytorch"


def _load_pytorch(
    folder: Path,
    itr: int | str | None,
    deterministic: bool,
    *,
    actor_critic: Any,
    trust_pickle: bool,
    seed: int | None,
) -> Loaded:
    # Imported here because importing torch takes a second.
    from spinup.algos.pytorch.common.acting import make_get_action

    meta: dict[str, Any] | None = None
    if has_safe_policy(folder):
        meta, ac = load_module(folder, itr, actor_critic, trust_pickle)
        if not has_spaces(meta):
            meta = None
    else:
        ac = load_pickled_module(folder, itr, trust_pickle)

    def act_in(action_space: Any) -> GetAction:
        space = getattr(ac, "action_space", None)  # missing in the original's modules
        rng = np.random.default_rng(seed)
        get_action: GetAction = make_get_action(
            ac, deterministic, rng, action_space if space is None else space
        )
        return get_action

    return Loaded(meta, ac, act_in)


def _load_tf1(
    folder: Path,
    itr: int | str | None,
    deterministic: bool,
    *,
    actor_critic: Any,
    trust_pickle: bool,
    seed: int | None,
) -> Loaded:
    if actor_critic is not None:
        raise SpinupError(
            f"{folder} was trained with the TensorFlow backend, whose saves contain the network: "
            "leave out actor_critic"
        )
    return load_policy_of(tf_folder(folder, itr), deterministic, trust_pickle, seed)


def tf_folder(folder: Path, itr: int | str | None) -> Path:
    """Return the folder of one save of a TensorFlow run."""
    if (folder / "saved_model.pb").exists():
        return folder
    if not saved_numbers(folder, _GRAPH):
        raise SpinupError(
            f"{folder} contains no policy of the TensorFlow backend: pass the run directory of one"
        )
    number = chosen_save(folder, itr, _GRAPH)
    names = [
        f"{name}{'' if number is None else number}{end}"
        for end in ("", ".old")
        for name in ("tf1_save", "simple_save")
    ]
    found = (folder / name for name in names if (folder / name).exists())
    return next(found, folder / names[0])  # renamed in this instant


# Backend name -> function that loads its policies. A new backend adds its loader here, which may
# leave out `policy`, the second of its results.
LOADERS: dict[str, Callable[..., Any]] = {"pytorch": _load_pytorch, "tf1": _load_tf1}


def load_module(
    folder: Path, itr: int | str | None, actor_critic: Any = None, trust: bool = False
) -> tuple[dict[str, Any], Any]:
    """Load the run's description and rebuild its network from JSON and safetensors.

    If that is impossible and the file is trusted, the network comes from its pickle. This is the
    case if `has_spaces` is false, or if `ac_kwargs` contains objects such as a class.
    """
    from spinup.policies.networks import load_actor_critic  # imports torch

    number = chosen_save(folder, itr, POLICY)
    meta, tensors = load_policy(folder, number)
    try:
        if not has_spaces(meta):
            raise SpinupError(
                f"the policy in {folder} was saved without its spaces: if you trust its author, "
                "pass trust_pickle=True (--trust-pickle); to load it without, save it with "
                "setup_pytorch_saver(ac, policy_meta=...)"
            )
        return meta, load_actor_critic(meta, tensors, actor_critic, trust_code=trust)
    except SpinupError:
        pickled = number in saved_numbers(folder, _MODEL)
        if actor_critic is not None or not trust or not pickled:
            raise
        try:
            return meta, load_pickled_module(folder, number, trust)
        except SpinupError as error:
            problem = error
        if has_spaces(meta):
            raise  # this error names the class, which the caller can pass
        raise problem from None


def metadata_of(folder: Path, itr: int | str | None) -> dict[str, Any]:
    """Return a save's metadata without loading its network; empty if there is none."""
    if backend_of(folder) == "tf1":
        saved = tf_folder(folder, itr)
        if not (saved / "policy.json").exists():
            meta = (read_info(saved) or {}).get("policy")
            return meta if isinstance(meta, dict) else {}
        return load_policy(saved)[0]
    return load_policy(folder, itr)[0] if has_safe_policy(folder) else {}


def check_seed(seed: Any) -> None:
    """Raise an error if `seed` is neither None nor a non-negative integer."""
    whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    if seed is not None and not (whole and seed >= 0):
        raise SpinupError(f"seed must be a non-negative integer, not {seed!r}")


# ------------------------------------------------------------------ pickles, behind the opt-in


def load_pickled_module(folder: Path, itr: int | str | None, trust: bool) -> Any:
    """Load the network from its pickle, which must be trusted."""
    if not saved_numbers(folder, _MODEL):
        ways = (f"{depth}/{name}" for depth in ("*", "*/*") for name in ("pyt_save", "tf1_save"))
        below = sorted({p.parent for way in ways for p in folder.glob(way)})
        several = f"one of the {len(below)} runs" if len(below) > 1 else "the run"
        such = f"{several} below it, such as {below[0]}" if below else ""
        wanted = such or "the run directory of a trained policy"
        raise SpinupError(f"{folder} contains no saved policy: pass {wanted}")
    which = chosen_save(folder, itr, _MODEL)
    path = folder_of_files(folder) / f"model{'' if which is None else which}.pt"
    if not trust:
        raise SpinupError(
            f"{path} is a pickle, which can run any program when it is opened: if you trust its "
            "author, pass trust_pickle=True (--trust-pickle)"
        )
    import torch

    try:
        open_regular(path).close()  # opening a pipe would wait forever
        ac = torch.load(path, map_location="cpu", weights_only=False)
    except Exception as error:  # unpickling can raise anything that the pickled classes raise
        raise SpinupError(
            f"{path} cannot be opened ({type(error).__name__}: {error}): make its classes "
            "importable"
        ) from error
    if not callable(getattr(ac, "act", None)):
        raise SpinupError(
            f"{path} contains a {type(ac).__name__} without act(obs), which is not a policy: pass "
            "the run directory of a trained policy"
        )
    return ac.eval() if isinstance(ac, torch.nn.Module) else ac


def _unpickle_env(folder: Path, itr: int | str | None) -> Any:
    """Unpickle the environment that `save_state({'env': env})` saved; only for trusted pickles."""
    kind = POLICY if has_safe_policy(folder) else _MODEL
    number = chosen_save(folder, itr, _GRAPH if backend_of(folder) == "tf1" else kind)
    path = folder / ("vars.pkl" if number is None else f"vars{number}.pkl")
    if not path.is_file():
        path = folder / "vars.pkl"
    try:
        return given_env(_unpickle(path)["env"], None, None)
    except Exception as error:  # unpickling can raise anything that the pickled classes raise
        raise SpinupError(
            f"the environment saved in {path} cannot be opened ({error!r}): "
            "pass one with env=... (--env)"
        ) from error


def _unpickle(path: Path) -> Any:
    """Open a trusted pickle; the original wrote its own with joblib, which pickle cannot read."""
    import pickle

    with open_regular(path) as file:
        try:
            import joblib
        except ImportError:
            return pickle.load(file)
        return joblib.load(path)

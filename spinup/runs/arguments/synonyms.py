"""The words of other libraries, and what they are called here.

A word with exactly the same meaning is accepted as a flag (`--n_envs 8` is `--num_envs 8`). Any
other word gets advice with the numbers worked out: `--tau 0.005` becomes `--polyak 0.995`. Training
functions called from Python give the same advice in their errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

# Word -> the arguments that mean exactly the same; the first one that the algorithm has counts.
SAME: Mapping[str, tuple[str, ...]] = {
    "n_envs": ("num_envs",),
    "num_env": ("num_envs",),
    "gae_lambda": ("lam",),
    "lmbda": ("lam",),
    "discount": ("gamma",),
    "discount_factor": ("gamma",),
    "buffer_size": ("replay_size",),
    "memory_size": ("replay_size",),
    "clip_range": ("clip_ratio",),
    "clip_coef": ("clip_ratio",),
    "clip_range_vf": ("clip_vf",),
    "ent_coef": ("alpha",),
    "entropy_coef": ("ent_coef", "alpha"),
    "target_kl": ("delta",),
    "cg_max_steps": ("cg_iters",),
    "cg_damping": ("damping_coeff",),
    "line_search_max_iter": ("backtrack_iters",),
    "line_search_shrinking_factor": ("backtrack_coeff",),
    "policy_frequency": ("policy_delay",),
    "target_policy_noise": ("target_noise",),
    "target_noise_clip": ("noise_clip",),
    "exploration_noise": ("act_noise",),
    "exploration_initial_eps": ("eps_start",),
    "exploration_final_eps": ("eps_end",),
    "start_e": ("eps_start",),
    "end_e": ("eps_end",),
    "n_eval_episodes": ("num_test_episodes",),
    "env_id": ("env_name",),
    "gym_id": ("env_name",),
    "hidden_sizes": ("ac_kwargs:hidden_sizes",),
    "net_arch": ("ac_kwargs:hidden_sizes",),
    "activation": ("ac_kwargs:activation",),
    "activation_fn": ("ac_kwargs:activation",),
    "normalize_obs": ("ac_kwargs:normalize_obs",),
    "experiment_name": ("exp_name",),
}
_TOTAL = (
    *("total_steps", "total_timesteps", "num_timesteps", "n_timesteps", "max_timesteps"),
    *("timesteps", "num_env_steps", "max_steps", "num_steps_total"),
)
_RATES = ("lr", "learning_rate")
_LEARNING_RATES = ("pi_lr", "vf_lr", "q_lr", "lr")

# What to set instead, and a remark. An algorithm that lacks one of the arguments gets the remark.
Advice = tuple[dict[str, Any], str]


def same(word: str, known: Mapping[str, Any]) -> str | None:
    """Return the argument (`a:b` for an entry of a dict) that means exactly what `word` means.

    `known` has the algorithm's arguments and their values; None if there is no such argument.
    """
    if word in known:
        return None
    if word in _RATES:
        rates = [name for name in _LEARNING_RATES if name in known]
        return rates[0] if len(rates) == 1 else None
    for name in SAME.get(word, ()):
        if name.partition(":")[0] in known or name in ("env_name", "exp_name"):
            return name
    return None


def advice(word: str, value: Any, known: Mapping[str, Any]) -> Advice | None:
    """Return what to set instead of `word`, or None if the word is not known either.

    Args:
        word: the argument that the algorithm does not have.
        value: the value given for it; True if there was none.
        known: the algorithm's arguments, with the values given for them or else their defaults.
    """
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
    if word in _TOTAL:
        return _total(number, known)
    if word in _RATES:
        rates = [name for name in _LEARNING_RATES if name in known]
        return {name: number for name in rates}, "each network has its own learning rate"
    found = _ADVICE.get(word)
    if found is None:
        return None
    pairs, remark = found(number, known)
    possible = {k: v for k, v in pairs.items() if k.partition(":")[0] in (*known, *_RUN)}
    return (possible, remark) if possible or not pairs else None


def _total(steps: float | None, known: Mapping[str, Any]) -> Advice:
    each = known.get("steps_per_epoch", 4000)
    remark = "a run takes epochs * steps_per_epoch steps"
    if steps is None or steps < 1 or not isinstance(each, int | float):
        return {"epochs": None, "steps_per_epoch": None}, remark
    if steps <= each:
        return {"epochs": 1, "steps_per_epoch": int(steps)}, remark
    epochs = math.ceil(steps / each)
    if epochs * each != steps:
        remark = f"which is {int(epochs * each):,} steps; {remark}"
    return {"epochs": epochs, "steps_per_epoch": int(each)}, remark


def _rollout(steps: float | None, known: Mapping[str, Any]) -> Advice:
    envs = known.get("num_envs", 1)
    many = None if steps is None else int(steps * envs)
    return {"steps_per_epoch": many}, "it counts the steps of all environments together"


def _tau(tau: float | None, known: Mapping[str, Any]) -> Advice:
    return {"polyak": None if tau is None else float(f"{1 - tau:.12g}")}, "polyak is 1 - tau"


def _fraction(part: float | None, known: Mapping[str, Any]) -> Advice:
    total = known.get("epochs", 0) * known.get("steps_per_epoch", 0)
    return {"eps_steps": None if part is None else int(part * total)}, (
        "it counts environment steps"
    )


def _train_freq(every: float | None, known: Mapping[str, Any]) -> Advice:
    return {"update_every": every}, (
        "updates_per_step sets the number of gradient steps per environment step"
    )


def _gradient_steps(steps: float | None, known: Mapping[str, Any]) -> Advice:
    every = known.get("update_every", 1)
    ratio = None if steps is None or steps < 0 else float(f"{steps / every:.12g}")
    return {"updates_per_step": ratio}, f"every {every} environment steps are followed by updates"


def _passes(passes: float | None, known: Mapping[str, Any]) -> Advice:
    return {"train_pi_iters": passes, "train_v_iters": passes}, (
        "minibatch_size sets the rows of each gradient step"
    )


def _minibatches(count: float | None, known: Mapping[str, Any]) -> Advice:
    each = known.get("steps_per_epoch", 0)
    rows = None if not count or count < 1 else int(each // count)
    return {"minibatch_size": rows}, "it is a number of rows"


def _batch(rows: float | None, known: Mapping[str, Any]) -> Advice:
    if "minibatch_size" in known:
        return {"minibatch_size": rows}, "otherwise, the whole epoch is one batch"
    return {"steps_per_epoch": rows}, "an epoch is one batch"


def _set(remark: str, *names: str, **fixed: Any) -> Callable[[float | None, Any], Advice]:
    """Return advice to set `names` to the given number, and `fixed` to fixed values."""
    return lambda number, known: ({**{n: number for n in names}, **fixed}, remark)


_TRACK = _set("", track="tensorboard")
_WANDB = _set("", track="wandb")
_CUDA = _set("", device="cuda")
_FOLDER = _set(
    "runs are in data_dir/exp_name/exp_name_sSEED", "data_dir", "exp_name", data_dir="FOLDER"
)
_EPISODES = _set("runs are measured in steps", "epochs", "steps_per_epoch", epochs=None)
_LATER = _set("record the trained policy with 'spinup test_policy RUN --video clip.mp4'")
_SAVES = _set("save_freq counts epochs", "save_freq", save_freq=None)
_PROCESSES = _set("num_cpu is MPI processes per run, num_workers runs at the same time", "num_cpu")

_ADVICE: Mapping[str, Callable[[float | None, Mapping[str, Any]], Advice]] = {
    "n_steps": _rollout,
    "num_steps": _rollout,
    "rollout_steps": _rollout,
    "tau": _tau,
    "learning_starts": _set("", "start_steps", "update_after"),
    "train_freq": _train_freq,
    "train_frequency": _train_freq,
    "gradient_steps": _gradient_steps,
    "n_epochs": _passes,
    "update_epochs": _passes,
    "ppo_epochs": _passes,
    "num_minibatches": _minibatches,
    "batch_size": _batch,
    "exploration_fraction": _fraction,
    "target_update_interval": _set("it counts gradient steps", "target_update_every"),
    "target_network_frequency": _set("it counts gradient steps", "target_update_every"),
    "vf_coef": _set("the value function has its own optimizer", "vf_lr", vf_lr=None),
    "n_critic_updates": _set("it counts passes over the whole batch", "train_v_iters"),
    "net_arch": _set("", **{"ac_kwargs:hidden_sizes": None}),
    "policy": _set("the networks follow from the environment's spaces: leave it out"),
    "policy_kwargs": _set("as in ac_kwargs:hidden_sizes", **{"ac_kwargs:KEY": None}),
    "norm_adv": _set("advantages are always normalized: leave it out"),
    "normalize_advantage": _set("advantages are always normalized: leave it out"),
    "autotune": _set("", alpha="auto"),
    "verbose": _set(
        "progress shows a bar, logger_kwargs:quiet nothing", **{"logger_kwargs:quiet": None}
    ),
    "tensorboard_log": _TRACK,
    "tensorboard": _TRACK,
    "wandb": _WANDB,
    "use_wandb": _WANDB,
    "wandb_project": _WANDB,
    "wandb_project_name": _WANDB,
    "cuda": _CUDA,
    "gpu": _CUDA,
    "use_cuda": _CUDA,
    "log_dir": _FOLDER,
    "logdir": _FOLDER,
    "log_folder": _FOLDER,
    "output_dir": _FOLDER,
    "save_dir": _FOLDER,
    "save_path": _FOLDER,
    "num_episodes": _EPISODES,
    "n_episodes": _EPISODES,
    "max_episodes": _EPISODES,
    "episodes": _EPISODES,
    "max_episode_steps": _set("", "max_ep_len"),
    "max_episode_length": _set("", "max_ep_len"),
    "render": _LATER,
    "capture_video": _LATER,
    "checkpoint_freq": _SAVES,
    "save_interval": _SAVES,
    "eval_freq": _set("test episodes follow every epoch: set steps_per_epoch"),
    "eval_episodes": _set("", "num_test_episodes"),
    "num_processes": _PROCESSES,
    "n_cpu": _PROCESSES,
    "n_jobs": _PROCESSES,
    "torch_deterministic": _set("runs with the same seed are always identical: leave it out"),
}
# Flags of the command line that are not arguments of a training function.
_RUN = ("track", "data_dir", "exp_name", "num_cpu", "env_name")
_IN_PYTHON = {
    "env_name": "env_fn",
    "data_dir": "logger_kwargs:output_dir",
    "exp_name": "logger_kwargs:exp_name",
}


def as_flags(found: Advice) -> str:
    """Write advice as flags: `write --epochs 50 --steps_per_epoch 4000`."""
    pairs, remark = found
    words = " ".join(
        f"--{k} {_placeholder(k) if v is None else _plain(v)}" for k, v in pairs.items()
    )
    return _joined(f"write {words}" if words else "", remark)


def as_keywords(found: Advice) -> str:
    """Write advice as keyword arguments: `write epochs=50, steps_per_epoch=4000`."""
    pairs = {_IN_PYTHON.get(k, k): v for k, v in found[0].items()}
    sink = pairs.pop("track", None)
    words = []
    for key, value in pairs.items():
        outer, _, inner = key.partition(":")
        text = _placeholder(key) if value is None else repr(value)
        words.append(f'{outer}={{"{inner}": {text}}}' if inner else f"{outer}={text}")
    if sink:
        words.append(f'logger_kwargs={{"sinks": ["{sink}"]}}')
    return _joined(f"write {', '.join(words)}" if words else "", found[1])


def _joined(write: str, remark: str) -> str:
    return f"{write} ({remark})" if write and remark else write or remark


def _placeholder(key: str) -> str:
    return key.rpartition(":")[2].upper()


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) and value < 1 else str(value)


def unexpected(function: str, given: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """Return the message of the TypeError for the first keyword that a function does not have."""
    from spinup.utils.errors import nearest

    word = next(name for name in given if name not in known)
    said = f"{function}() got an unexpected keyword argument {word!r}"
    settings = {**known, **{k: v for k, v in given.items() if k in known}}
    name = same(word, settings)
    if name is not None:
        return f"{said}: {as_keywords(({name: given[word]}, ''))}"
    found = advice(word, given[word], settings)
    return f"{said}: {as_keywords(found)}" if found else f"{said}{nearest(word, known)}"

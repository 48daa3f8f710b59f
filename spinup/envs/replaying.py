"""Restoring the streams of a resumed run, each in the middle of its episode."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from spinup.envs.streams import Streams

__all__ = ["restore_streams", "same_number"]


def restore_streams(streams: Streams, state: dict[str, Any]) -> list[int]:
    """Restore every environment by replaying its episode; return the indices that differ.

    If an environment does not return the same rewards and the same last observation (it reads
    a clock, or keeps state between episodes that it does not offer), its stream starts a new
    episode, with a warning.
    """
    streams.finished = [(float(ret), int(length)) for ret, length in state["finished"]]
    streams._started = bool(state["started"])
    for rng, rng_state in zip(streams._rngs, state["rngs"], strict=True):
        rng.bit_generator.state = rng_state
    streams.ended = []
    streams.terminated[:] = False
    streams.truncated[:] = False
    if not streams._started:
        return []
    different = []
    for i in range(streams.num_envs):
        fault = _replay(streams, i, state)
        if fault:
            different.append(i)
            streams.new_episode(i)
            warnings.warn(
                f"environment {i} starts a fresh episode, because {fault}: its rewards and "
                "observations do not follow from the seed and the actions alone, or it has "
                "changed since the run was saved",
                stacklevel=3,
            )
    return different


def _replay(streams: Streams, i: int, state: dict[str, Any]) -> str:
    """Restore stream i by repeating its episode; return where it differed, or ''."""
    env, seed, actions = streams.envs[i], state["seeds"][i], list(state["actions"][i])
    kept = state["kept"][i] if "kept" in state else None  # older checkpoints have none
    fault = streams._kept[i].restore(kept, seed)
    if fault:
        return str(fault)
    streams._kept[i].mark()
    obs, ret, rewards, ended = env.reset(seed=seed)[0], 0.0, [], False
    for a in actions:
        if ended:
            break
        # a copy, because an environment may modify the array that it receives
        obs, r, terminated, truncated, _ = env.step(a.copy())
        rewards.append(float(r))
        ret += float(r)
        ended = terminated or truncated
    if ended:
        return f"its episode ended at step {len(rewards)}, before it was saved"
    then = state["rewards"][i].tolist() if "rewards" in state else rewards
    for t, (now, before) in enumerate(zip(rewards, then, strict=True)):
        if not same_number(now, before):
            return f"the reward at step {t + 1} of its episode is {now}, not {before}"
    if not same_number(ret, state["rets"][i]):
        return f"the return of its episode is {ret}, not {state['rets'][i]}"
    streams.obs[i] = obs
    inexact = bool(np.issubdtype(np.asarray(obs).dtype, np.inexact))
    if not np.array_equal(streams.obs[i], state["obs"][i], equal_nan=inexact):
        return f"the observation at step {len(rewards)} of its episode differs"
    streams._ep_seed[i], streams._ep_act[i] = seed, actions
    streams._ep_rew[i], streams._ep_ret[i] = rewards, ret
    return ""


def same_number(a: float, b: float) -> bool:
    """Return whether two numbers have the same bits, which tells -0.0 from 0.0; NaN is NaN."""
    return np.float64(a).tobytes() == np.float64(b).tobytes()

"""Restoring the streams of a resumed run, each in the middle of its episode."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from spinup.envs.spaces import number

if TYPE_CHECKING:
    from spinup.envs.streams import Streams
    from spinup.envs.vector import MaskedStreams

__all__ = ["restore_masked", "restore_streams"]


def restore_streams(streams: Streams, state: dict[str, Any]) -> list[int]:
    """Restore every environment by replaying its episode; return the indices that differ.

    If an environment does not return the same rewards and the same last observation (it reads
    a clock, or keeps state between episodes that it does not offer), its stream starts a new
    episode, with a warning.
    """
    for rng, rng_state in zip(streams._rngs, state["rngs"], strict=True):
        rng.bit_generator.state = rng_state
    streams.terminated[:] = False
    streams.truncated[:] = False
    different = []
    for i in range(streams.num_envs if streams._started else 0):
        fault = _replay(streams, i, state)
        if fault:
            different.append(i)
            streams.new_episode(i)
            _warn(i, fault)
    return different


def _warn(i: int, fault: str) -> None:
    warnings.warn(
        f"environment {i} starts a fresh episode, because {fault}: its rewards and observations do "
        "not follow from the seed and the actions alone, or it has changed since the run was saved",
        stacklevel=4,
    )


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
        rewards.append(number(r))
        ret += rewards[-1]
        ended = terminated or truncated
    if ended:
        return f"its episode ended at step {len(rewards)}, before it was saved"
    then = state["rewards"][i].tolist() if "rewards" in state else rewards
    fault = _difference(rewards, then)
    if fault:
        return fault
    if not _same_number(ret, state["rets"][i]):
        return f"the return of its episode is {ret}, not {state['rets'][i]}"
    streams.obs[i] = obs
    if not _same_array(streams.obs[i], state["obs"][i]):
        return f"the observation at step {len(rewards)} of its episode differs"
    streams._ep_seed[i], streams._ep_act[i] = seed, actions
    streams._ep_rew[i], streams._ep_ret[i] = rewards, ret
    return ""


def restore_masked(streams: MaskedStreams, state: dict[str, Any]) -> list[int]:
    """Restore the environments of a vector, which step together; return the indices that differ.

    The longest replay begins at once, each other so much later that all of them end at the same
    step. Before its replay, an environment plays something that is thrown away.
    """
    for rng, rng_state in zip(streams._rngs, state["rngs"], strict=True):
        rng.bit_generator.state = rng_state
    if not streams._started:
        return []
    count = range(streams.num_envs)
    actions, begins = state["actions"], state["begins"]
    rewards: list[list[float]] = [[] for _ in count]  # of the running episodes
    faults = [""] * streams.num_envs
    total = max(map(len, actions))
    any_action = next((acts[0] for acts in actions if len(acts)), None)
    streams.env.reset(seed=0)
    for t in range(total + 1):
        now = [t - (total - len(acts)) for acts in actions]  # negative: before the replay
        for i in count:
            if now[i] in begins[i]:
                streams.obs[i] = streams.reset_one(i, None if now[i] else state["seeds"][i])
        if t == total:
            break
        act = [actions[i][max(now[i], 0)] if len(actions[i]) else any_action for i in count]
        obs, rew, terminated, truncated, info = streams.env.step(np.array(act))
        streams.obs[:] = obs
        streams.count_lives(info)
        for i in count:
            if now[i] >= begins[i][-1]:
                rewards[i].append(float(rew[i]))
            if (terminated[i] or truncated[i]) and now[i] + 1 not in begins[i]:
                if now[i] >= 0 and not faults[i]:
                    at = now[i] + 1 - max(b for b in begins[i] if b <= now[i])
                    faults[i] = f"its episode ended at step {at}, before it was saved"
                streams.reset_one(i)
    kept_fault = streams._kept.restore(state["kept"])
    for i in count:
        ret = float(np.add.accumulate([0.0, *rewards[i]])[-1])
        faults[i] = faults[i] or kept_fault or _difference(rewards[i], state["rewards"][i].tolist())
        if not faults[i] and not _same_array(streams.obs[i], state["obs"][i]):
            faults[i] = f"the observation at step {len(rewards[i])} of its episode differs"
        streams._seeds[i], streams._acts[i] = int(state["seeds"][i]), list(actions[i])
        streams._begins[i], streams._rews[i] = list(begins[i]), rewards[i]
        streams._ep_ret[i], streams._ep_len[i] = ret, len(rewards[i])
        if faults[i]:
            streams.new_episode(i, reseed=True)
            _warn(i, faults[i])
    return [i for i in count if faults[i]]


def _difference(now: list[float], then: list[float]) -> str:
    """Return where the rewards of an episode differ from the saved ones, or ''."""
    for t, (a, b) in enumerate(zip(now, then, strict=True)):
        if not _same_number(a, b):
            return f"the reward at step {t + 1} of its episode is {a}, not {b}"
    return ""


def _same_number(a: float, b: float) -> bool:
    """Return whether two numbers have the same bits, which tells -0.0 from 0.0; NaN is NaN."""
    return np.float64(a).tobytes() == np.float64(b).tobytes()


def _same_array(one: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two arrays are equal; NaN equals NaN."""
    return np.array_equal(one, other, equal_nan=bool(np.issubdtype(one.dtype, np.inexact)))

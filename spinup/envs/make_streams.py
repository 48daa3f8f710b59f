"""Creating streams of episodes: in this process, in workers, or in one vector environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

from spinup.envs.adapter import adapt_env
from spinup.envs.streams import Streams
from spinup.utils.errors import SpinupError

if TYPE_CHECKING:
    from spinup.envs.vector import VectorStreams

__all__ = ["make_streams", "one_env"]


def make_streams(
    env_fn: Callable[[], Any],
    num_envs: int,
    seeds: Callable[[int], np.random.SeedSequence],
    max_ep_len: int,
    vector: str = "sync",
    num_threads: int | None = 1,
) -> Streams | VectorStreams:
    """Create `num_envs` streams of episodes from the environments that `env_fn` creates.

    `seeds(i)` is the seed sequence of environment i. `vector='async'` runs each environment in its
    own process. `env_fn` may return a Gymnasium `VectorEnv`, whose size then replaces `num_envs`.
    `num_threads` is for environments that step in threads; None means one per core.
    Gymnasium's own `SyncVectorEnv` and `AsyncVectorEnv` are split up, so that each of their
    environments can be seeded, restarted and restored individually.
    """
    first = env_fn()
    if isinstance(first, VectorEnv):
        if num_envs not in (1, first.num_envs):
            raise SpinupError(
                f"env_fn returned a vector environment of {first.num_envs}, which contradicts "
                f"num_envs={num_envs}: leave num_envs at 1"
            )
        sequences = [seeds(i) for i in range(first.num_envs)]
        if type(first) is SyncVectorEnv:
            return Streams([adapt_env(env) for env in first.envs], sequences, max_ep_len)
        if type(first) is AsyncVectorEnv:
            from spinup.envs.workers import WorkerStreams

            first.close()
            return WorkerStreams(first.env_fns, sequences, max_ep_len)
        from spinup.envs.vector import vector_streams

        return vector_streams(first, sequences, max_ep_len)
    sequences = [seeds(i) for i in range(num_envs)]
    base: Any = getattr(first, "unwrapped", None)
    if type(base).__module__ == "spinup.envs.atari":  # plays all games in one vector environment
        streams: VectorStreams | None = base.streams(first, sequences, max_ep_len, num_threads)
        if streams is not None:
            return streams
    if vector == "async":
        from spinup.envs.workers import WorkerStreams

        return WorkerStreams([env_fn] * num_envs, sequences, max_ep_len)
    envs = [adapt_env(env) for env in (first, *(env_fn() for _ in range(num_envs - 1)))]
    if len({id(getattr(env, "unwrapped", env)) for env in envs}) < num_envs:
        raise SpinupError(
            "env_fn returned the same environment object twice, so num_envs must be 1: "
            "create a new one each time, for example lambda: gymnasium.make('CartPole-v1')"
        )
    return Streams(envs, sequences, max_ep_len)


def one_env(env_fn: Callable[[], Any]) -> Any:
    """Return one environment created by `env_fn`, taken out of a vector if it creates vectors."""
    env = env_fn()
    if isinstance(env, AsyncVectorEnv):
        env.close()
        env = env.env_fns[0]()
    elif isinstance(env, SyncVectorEnv):
        env = env.envs[0]
    return adapt_env(env)

"""Streams of a vector environment: one that `env_fn` returned, or one that plays Atari games.

Most restart their episodes by their own rule (`VectorStreams`). If the environments of a vector can
be reset one by one, each with a seed, they can also be restored (`MaskedStreams`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from spinup.envs.keeping import Kept
from spinup.envs.replaying import restore_masked
from spinup.envs.streams import BaseStreams
from spinup.utils.errors import SpinupError

__all__ = ["MaskedStreams", "VectorStreams", "vector_streams"]


def vector_streams(
    env: VectorEnv, seeds: Sequence[np.random.SeedSequence], max_ep_len: int
) -> VectorStreams:
    """Return the streams of a user's vector environment, restorable ones if it allows that."""
    mode = _autoreset_mode(env)
    atari = type(env.unwrapped).__name__ == "AtariVectorEnv" and mode == AutoresetMode.NEXT_STEP
    # ale-py's environment can be reset by us before it would reset itself
    if atari and env.unwrapped.batch_size == env.num_envs:  # type: ignore[attr-defined]
        return MaskedStreams(env, seeds, max_ep_len, reseed_after=RESEED_ATARI)
    if mode == AutoresetMode.DISABLED:
        return MaskedStreams(env, seeds, max_ep_len)
    return VectorStreams(env, seeds[0], max_ep_len)


def _autoreset_mode(env: VectorEnv) -> AutoresetMode:
    return AutoresetMode(env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP))


class VectorStreams(BaseStreams):
    """A user's vector environment, which restarts its episodes by its own rule.

    Its environments cannot be restored individually: a resumed run starts new episodes and warns.
    The statistics of Gymnasium's wrappers around it are restored.
    """

    has_single_envs = False

    def __init__(
        self, env: VectorEnv, seed: np.random.SeedSequence, max_ep_len: int, example: Any = None
    ):
        space = env.single_observation_space
        if not isinstance(space, spaces.Box):
            raise SpinupError(
                f"a vector environment must have Box observations, not {space}: "
                "let env_fn return one environment and use num_envs"
            )
        n = env.num_envs
        example = env if example is None else example
        super().__init__(example, (space, env.single_action_space), n, max_ep_len)
        self.env = env
        self._mode = _autoreset_mode(env)
        self._rng = np.random.default_rng(seed)
        self.valid = np.ones(n, dtype=bool)
        self._ep_ret = np.zeros(n)
        self._ep_len = np.zeros(n, dtype=np.int64)
        self._resetting = np.zeros(n, dtype=bool)
        self._kept = Kept(env)

    def start(self) -> None:
        """Begin every stream's first episode, once."""
        if not self._started:
            self.obs[:] = self.env.reset(seed=int(self._rng.integers(2**31 - 1)))[0]
            self._started = True

    def step(self, act: Sequence[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Like `Streams.step`, but rows where `valid` is False are resets, not transitions."""
        o2, rew, terminated, truncated, info = self.env.step(np.asarray(act))
        rew = np.asarray(rew, dtype=np.float64)
        terminated, truncated = np.array(terminated), np.array(truncated)
        self.valid = ~self._resetting
        self._ep_ret += np.where(self.valid, rew, 0.0)
        self._ep_len += self.valid
        too_long = self.valid & (self._ep_len >= self.max_ep_len) & ~(terminated | truncated)
        if too_long.any():
            raise SpinupError(
                f"an episode of the vector environment outlasted max_ep_len={self.max_ep_len}, and "
                "only the environment itself can restart it: raise max_ep_len or use num_envs"
            )
        truncated = truncated & ~terminated
        ended = self.valid & (terminated | truncated)
        self.next_obs[:] = o2
        self.obs[:] = o2
        self._resetting = ended & (self._mode == AutoresetMode.NEXT_STEP)
        self.ended = np.flatnonzero(ended).tolist()
        for i in self.ended:
            self.finished.append((float(self._ep_ret[i]), int(self._ep_len[i])))
            self._ep_ret[i], self._ep_len[i] = 0.0, 0
            if self._mode == AutoresetMode.SAME_STEP:
                self.next_obs[i] = info["final_obs"][i]
        return self.next_obs, rew, terminated & ended, truncated & ended

    def stepping(self) -> np.ndarray:
        """Return the streams that will step with the next actions; the others will be reset."""
        return np.flatnonzero(~self._resetting)

    def state_dict(self) -> dict[str, Any]:
        """Return the RNG and the finished episodes; running episodes cannot be saved."""
        self._kept.mark()
        rng = self._rng.bit_generator.state
        return {**super().state_dict(), "rng": rng, "kept": self._kept.state()}

    def load_state_dict(self, state: dict[str, Any]) -> list[int]:
        """Start new episodes in every environment, with a warning."""
        super().load_state_dict(state)
        self._rng.bit_generator.state = state["rng"]
        self._started = False
        self._ep_ret[:], self._ep_len[:], self._resetting[:] = 0.0, 0, False
        if not state["started"]:
            return []
        fault = self._kept.restore(state.get("kept"), seed=0)
        warnings.warn(
            "a vector environment made by env_fn cannot be restored: fresh episodes start in all "
            "of its environments, so this run differs from an uninterrupted one (use num_envs, or "
            f"AutoresetMode.DISABLED, to resume exactly){fault and f'; {fault}'}",
            stacklevel=2,
        )
        return list(range(self.num_envs))


# Steps after which ale-py's environments get a new seed. A seed reloads the game. That takes 90 ms,
# as long as 250 steps, while all other games wait. A resumed run replays everything since then.
RESEED_ATARI = 20_000


class MaskedStreams(VectorStreams):
    """A vector environment whose environments are reset one by one (`reset_mask`), with seeds.

    Each stream has its own RNG, from which it draws its seeds. A stream is restored by repeating
    its actions since its last seed. Since all environments step together, the replays begin at
    different times, so that they end at the same one.

    Args:
        env: the vector environment.
        seeds: the seed sequence of each environment.
        max_ep_len: steps after which an episode is truncated.
        single: an environment of the same kind for test episodes and records, if there is one.
        time_limit: one more such limit, from a wrapper of `single`.
        reseed_after: an environment that has taken fewer steps since its last seed goes on without
            a new one, where a seed takes long; 0: every episode has its own seed.
        clip_rewards: return the signs of the rewards; `finished` has the sums of the true ones.
        end_at_lost_life: if `info["lives"]` drops, let the episode terminate for the learner,
            while the environment goes on; `finished` has whole episodes.
        after_lost_life: the action that replaces the first one after a lost life, or None.
    """

    def __init__(
        self,
        env: VectorEnv,
        seeds: Sequence[np.random.SeedSequence],
        max_ep_len: int,
        *,
        single: Any = None,
        time_limit: int | None = None,
        reseed_after: int = 0,
        clip_rewards: bool = False,
        end_at_lost_life: bool = False,
        after_lost_life: int | None = None,
    ):
        super().__init__(env, seeds[0], max_ep_len, single)
        n = self.num_envs
        self.local_env, self.has_single_envs = single, single is not None
        self._time_limit, self._reseed_after = time_limit, reseed_after
        self._clip, self._end_at_lost_life = clip_rewards, end_at_lost_life
        self._after_lost_life = after_lost_life
        self._counts_lives = end_at_lost_life or after_lost_life is not None
        self._rngs = [np.random.default_rng(s) for s in seeds]
        self._lives = np.zeros(n, dtype=np.int64)
        self._lost = np.zeros(n, dtype=bool)  # a life, in the last step
        self._seeds = [0] * n
        # All actions since the last seed, and before which of them an episode began.
        self._acts: list[list[Any]] = [[] for _ in range(n)]
        self._begins: list[list[int]] = [[] for _ in range(n)]
        self._rews: list[list[float]] = [[] for _ in range(n)]

    def start(self) -> None:
        """Begin every stream's first episode, once."""
        if not self._started:
            self.env.reset(seed=0)  # before its first whole reset, nothing else is allowed
            for i in range(self.num_envs):
                self.new_episode(i, reseed=True)
            self._started = True

    def new_episode(self, i: int, reseed: bool = False) -> None:
        """Start a new episode of stream i, with a new seed if one is due."""
        if reseed or len(self._acts[i]) >= self._reseed_after:
            self._seeds[i] = int(self._rngs[i].integers(2**31 - 1))
            self._acts[i], self._begins[i] = [], []
        first = not self._acts[i]
        self._begins[i].append(len(self._acts[i]))
        self.obs[i] = self.reset_one(i, self._seeds[i] if first else None)
        self._rews[i], self._ep_ret[i], self._ep_len[i] = [], 0.0, 0

    def reset_one(self, i: int, seed: int | None = None) -> np.ndarray:
        """Reset environment i and no other; return its first observation."""
        mask = np.arange(self.num_envs) == i
        obs, info = self.env.reset(seed=seed, options={"reset_mask": mask})
        if self._counts_lives:
            self._lives[i], self._lost[i] = info["lives"][i], False
        return np.asarray(obs[i])

    def step(self, act: Sequence[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Like `Streams.step`."""
        kept = np.array(act)  # an environment may modify the array that it receives
        if self._after_lost_life is not None:
            kept[self._lost] = self._after_lost_life
        o2, rew, terminated, truncated, info = self.env.step(kept.copy())
        self.count_lives(info)
        rew = np.array(rew, dtype=np.float64)
        for i in range(self.num_envs):
            self._acts[i].append(kept[i])
            self._rews[i].append(float(rew[i]))
        self._ep_ret += rew
        self._ep_len += 1
        limit = min(self.max_ep_len, self._time_limit or self.max_ep_len)
        over = np.array(terminated) | np.array(truncated) | (self._ep_len >= limit)
        terminated = np.array(terminated)
        if self._end_at_lost_life:
            terminated |= self._lost
        ended = over | terminated
        truncated = over & ~terminated
        self.ended = np.flatnonzero(ended).tolist()
        self.next_obs[:] = o2
        if self._clip:
            np.sign(rew, out=rew)
        if not self.ended:
            self.obs, self.next_obs = self.next_obs, self.obs
            return self.obs, rew, terminated, truncated
        self.obs[:] = self.next_obs
        for i in np.flatnonzero(over).tolist():
            self.finished.append((float(self._ep_ret[i]), int(self._ep_len[i])))
            self.new_episode(i)
        return self.next_obs, rew, terminated, truncated

    def count_lives(self, info: dict[str, Any]) -> None:
        """Find out which environments lost a life in this step."""
        if self._counts_lives:
            before, self._lives = self._lives, np.array(info["lives"])
            self._lost = self._lives < before

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        del state["rng"]
        return {
            **state,
            "rngs": [rng.bit_generator.state for rng in self._rngs],
            "seeds": list(self._seeds),
            "actions": [np.array(actions) for actions in self._acts],
            "begins": [list(begins) for begins in self._begins],
            "rewards": [np.array(rewards) for rewards in self._rews],
        }

    def load_state_dict(self, state: dict[str, Any]) -> list[int]:
        """Restore every environment by replaying its actions; return the indices that differ."""
        if "begins" not in state:  # saved by a version that could not restore it
            return super().load_state_dict(state)
        BaseStreams.load_state_dict(self, state)
        return restore_masked(self, state)

"""Test episodes: how well the policy does without exploration, measured during training."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from spinup.envs.keeping import Kept
from spinup.envs.make_streams import one_env
from spinup.envs.spaces import number
from spinup.parallel.mpi import proc_id
from spinup.runs.signals import StopTraining

if TYPE_CHECKING:
    from spinup.algos.common.loop import Loop
    from spinup.runs.run import Run


def play_tests(loop: Loop, get_action: Callable[[Any], Any], n: int) -> dict[str, np.ndarray]:
    """Run `n` episodes for `Loop.evaluate`; return what they measured, one entry per episode.

    Off-policy, a signal stops the run between two episodes, and a resumed run repeats them all. An
    on-policy run has already learned from its epoch and must finish it first. Of several processes,
    only the first one runs the episodes, so that their number makes no difference.
    """
    run = loop.run
    if proc_id() != 0:
        return dict.fromkeys(("TestEpRet", "TestEpLen"), np.zeros(0))
    globals_before = run.global_state()  # creating an environment may use them too
    env = _environment(run)
    training = getattr(loop.streams, "envs", ())
    shared = any(_same(env, other) for other in training)
    episodes = loop.streams.state_dict() if shared else None
    rng = run.seeds.generator("eval", run.epoch)
    loop.tested = []
    for name in ("action_space", "observation_space"):  # some environments sample from these
        if not any(getattr(env, name) is getattr(other, name) for other in training):
            getattr(env, name).seed(int(rng.integers(2**31 - 1)))
    seeds = rng.integers(2**31 - 1, size=n)
    results = []
    try:
        with run.evaluating():
            for seed in seeds.tolist():
                if not loop.on_policy and run.signals.poll():
                    raise StopTraining
                watched = Watched(env, run.config.get("gamma", 1.0))
                results.append(loop.test_episode(watched, get_action, seed))
                watched.last = np.array(watched.last)  # environments may reuse their arrays
                loop.tested.append(watched)
        if not shared:
            run.test_kept.mark()
    finally:
        if episodes is not None:  # env_fn returned the training environment itself
            loop.streams.load_state_dict(episodes)
        run.set_global_state(globals_before)
    return {name: np.array([r[name] for r in results]) for name in results[0]}


def _environment(run: Run) -> Any:
    """Return the environment for test episodes, which is created only once."""
    if run.test_env is None:
        run.test_env = one_env(run.config["env_fn"])
        run.test_kept = Kept(run.test_env)
        fault = run.test_kept.restore(run.test_state)
        if fault:
            run.logger.log(f"The test environment starts anew: {fault}.", "yellow")
    return run.test_env


def play_test(
    env: Any, get_action: Callable[[Any], Any], seed: int, max_ep_len: float
) -> dict[str, float]:
    """Run one episode; return its return and its length."""
    o, _ = env.reset(seed=seed)
    ret, length, over = 0.0, 0, False
    while not over:
        o, r, terminated, truncated, _ = env.step(get_action(o))
        ret, length = ret + number(r), length + 1
        over = terminated or truncated or length >= max_ep_len
    return {"TestEpRet": ret, "TestEpLen": float(length)}


class Watched:
    """An environment that remembers its first and last observation and its discounted return."""

    def __init__(self, env: Any, gamma: float):
        self.env, self.gamma = env, gamma
        self.ret, self.discount, self.terminated = 0.0, 1.0, False

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Begin the episode."""
        obs, info = self.env.reset(**options)
        self.first = np.array(obs)
        return obs, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step; `discount` is that of the next reward."""
        result = self.env.step(action)
        self.last, self.terminated = result[0], bool(result[2])
        self.ret += self.discount * float(result[1])
        self.discount *= self.gamma
        return result


def _same(a: Any, b: Any) -> bool:
    return getattr(a, "unwrapped", a) is getattr(b, "unwrapped", b)

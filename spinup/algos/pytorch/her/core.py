"""HER's parts: networks that see the desired goal, whole episodes, and a base algorithm.

The base learns as it does without HER. It sees the observation and the desired goal as one
observation, and cannot tell which goals were chosen in hindsight.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn

from spinup.algos.common.exploration import Learner
from spinup.algos.common.loop import Loop
from spinup.algos.pytorch.common.acting import make_get_action
from spinup.algos.pytorch.common.buffers import ReplayBuffer
from spinup.algos.pytorch.common.layers import ObsFilter
from spinup.algos.pytorch.common.run import TorchRun
from spinup.algos.pytorch.ddpg.core import MLPActorCritic as DDPGNetworks
from spinup.algos.pytorch.ddpg.ddpg import ddpg, ddpg_learner
from spinup.algos.pytorch.dqn.core import MLPQNetwork as DQNNetworks
from spinup.algos.pytorch.dqn.dqn import dqn, dqn_learner
from spinup.algos.pytorch.sac.core import MLPActorCritic as SACNetworks
from spinup.algos.pytorch.sac.sac import sac, sac_learner
from spinup.algos.pytorch.td3.core import MLPActorCritic as TD3Networks
from spinup.algos.pytorch.td3.td3 import td3, td3_learner
from spinup.envs.goals import Goals
from spinup.utils.errors import SpinupError, nearest
from spinup.utils.serialization_utils import convert_json

# ---- base algorithms -----------------------------------------------------------------------------


class Base(NamedTuple):
    """An algorithm that HER can use as its base."""

    function: Callable[..., Any]  # the training function, whose signature has the defaults
    networks: Callable[..., nn.Module]
    learner: Callable[..., Learner]
    actions: tuple[str, ...]  # the types of action spaces that it supports


BASES = {
    "dqn": Base(dqn, DQNNetworks, dqn_learner, ("Discrete",)),
    "ddpg": Base(ddpg, DDPGNetworks, ddpg_learner, ("Box",)),
    "td3": Base(td3, TD3Networks, td3_learner, ("Box",)),
    "sac": Base(sac, SACNetworks, sac_learner, ("Box", "Discrete")),
}
# Learner arguments that HER sets itself, in the same way for every base.
_OWN = ("gamma", "polyak", "lr", "pi_lr", "q_lr", "target_update_every", "prioritize")


# ---- networks ------------------------------------------------------------------------------------


class GoalActorCritic(nn.Module):
    """The base's networks, which see a row's observation and desired goal.

    A row is a goal environment's flattened observation, which also contains the achieved goal.

    Args:
        observation_space: the rows' Box.
        action_space: the environment's action space.
        base: name of the base, whose default networks are used.
        parts: the columns that the networks see, as pairs (first, last + 1).
        actor_critic: class to use instead of the base's default networks.
        own: name of that class, as recorded in a saved policy.
        normalize_obs: subtract the running mean of the networks' inputs and divide by their running
            standard deviation. Helps if observations or goals are small or far from zero.
        ac_kwargs: keyword arguments of the networks.
    """

    def __init__(
        self,
        observation_space,
        action_space,
        base,
        parts,
        actor_critic=None,
        own=None,
        normalize_obs=True,
        **ac_kwargs,
    ):
        super().__init__()
        if own is not None and actor_critic is None:
            raise SpinupError(
                f"the networks of this policy are of the class {own}: load it with "
                f"actor_critic=functools.partial(GoalActorCritic, actor_critic={own})"
            )
        width = observation_space.shape[0]
        if not parts or any(not 0 <= first < last <= width for first, last in parts):
            raise SpinupError(f"parts={str(parts)[:60]} must be pairs of columns from 0 to {width}")
        columns = [i for part in sorted(parts) for i in range(*part)]
        together = columns == list(range(columns[0], columns[-1] + 1))
        self.columns = slice(columns[0], columns[-1] + 1) if together else columns
        low, high = (x[self.columns] for x in (observation_space.low, observation_space.high))
        self.action_space = action_space
        self.obs_filter = ObsFilter(low.shape, normalize=True) if normalize_obs else None
        cls = actor_critic or BASES[base].networks
        self.net = cls(Box(low, high, dtype=observation_space.dtype), action_space, **ac_kwargs)

    def inputs(self, rows):
        """Select the networks' inputs from rows (tensors or arrays): (..., row) -> (..., seen)."""
        x, norm = rows[..., self.columns], self.obs_filter
        if norm is None:
            return x
        return norm(x) if isinstance(x, torch.Tensor) else norm.frozen_copy()(x)

    def act(self, obs, deterministic=False):
        """Return the base policy's action for one row or a batch, as an array."""
        chooses = "deterministic" in inspect.signature(self.net.act).parameters
        kwargs = {"deterministic": deterministic} if chooses else {}
        return self.net.act(self.inputs(obs), **kwargs)

    def make_get_action(self, deterministic=False, rng=None):
        """Return the current policy, as a function from a row to an action."""
        get_action = make_get_action(self.net, deterministic, rng, self.action_space)
        columns, norm = self.columns, self.obs_filter
        if norm is None:
            return lambda row: get_action(np.asarray(row)[columns])
        normalize = norm.frozen_copy()
        return lambda row: get_action(normalize(np.asarray(row)[columns]))


def update_normalizer(ac, *batches):
    """Add the networks' inputs in these transitions to the normalizer, if there is one."""
    norm = ac.obs_filter
    if norm is not None:
        rows = np.concatenate([batch["obs"] for batch in batches])[:, ac.columns]
        norm.update(norm.batch_sums(torch.as_tensor(rows, device=norm.mean.device)))


# ---- the run -------------------------------------------------------------------------------------


class GoalRun(TorchRun):
    """A run in a goal environment; rejects other environments and unsuitable arguments."""

    def _make_streams(self, threads):
        super()._make_streams(threads)
        config = self.config
        ask = self.streams[0].local_env
        if ask is None:  # an environment in a worker process cannot compute rewards for us
            ask = config["env_fn"]()
        self.goals = Goals(ask, self.algo)
        kind = "Discrete" if isinstance(self.action_space, Discrete) else "Box"
        fitting = [name for name, base in BASES.items() if kind in base.actions]
        self.base_name = config["base"] or fitting[0]
        if self.base_name not in fitting:
            raise SpinupError(
                f"base={self.base_name!r} cannot learn {kind} actions such as {self.action_space}: "
                f"use {' or '.join(fitting)}"
            )
        self.base = BASES[self.base_name]
        self._check_base_kwargs()

    def _learner_arguments(self):
        """Return the names of the arguments that the base's learner takes."""
        parameters = inspect.signature(self.base.learner).parameters.values()
        return [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]

    def _check_base_kwargs(self):
        names = [name for name in self._learner_arguments() if name not in _OWN]
        for name in self.config["base_kwargs"]:
            if name not in names:
                raise SpinupError(
                    f"base_kwargs has no entry {name!r} for {self.base_name}"
                    f"{nearest(name, names)}; it has {', '.join(names)}"
                )

    def base_options(self, lr):
        """Return the base's own hyperparameters: those in `base_kwargs`, and defaults for the rest.

        All networks use the learning rate `lr`, and the target networks move at every update.
        """
        defaults = inspect.signature(self.base.function).parameters
        own = {"lr": lr, "pi_lr": lr, "q_lr": lr, "target_update_every": 1}
        names = [n for n in self._learner_arguments() if n in own or n not in _OWN]
        given = {**own, **self.config["base_kwargs"]}
        return {name: given.get(name, defaults[name].default) for name in names}

    def build(self, actor_critic, ac_kwargs):
        """Build the base's networks, which see the observation and the desired goal."""
        seen = (self.goals.observation, self.goals.desired)
        self._shown = {"base": self.base_name, "parts": [[part.start, part.stop] for part in seen]}
        if actor_critic is not None:
            self._shown["own"] = convert_json(actor_critic)
        networks = functools.partial(GoalActorCritic, actor_critic=actor_critic)
        return super().build(networks, {**ac_kwargs, **self._shown})

    def policy_meta(self):
        """Return the metadata, including what is needed to rebuild a `GoalActorCritic`."""
        meta = super().policy_meta()
        return {**meta, "ac_kwargs": {**meta["ac_kwargs"], **self._shown}}


class GoalPolicy:
    """The base's exploring policy, applied to rows."""

    def __init__(self, policy, ac):
        self.policy, self.ac = policy, ac
        self.begin, self.renew = policy.begin, policy.renew

    def __call__(self, obs, rng):
        """Return the base's actions for these rows."""
        return self.policy(self.ac.inputs(obs), rng)


class GoalLoop(Loop):
    """The common training loop, which also counts the episodes that reach their goal.

    An episode reaches its goal if its last reward is the reward for achieving exactly that goal.
    """

    def __init__(self, run, learner):
        super().__init__(run, learner.values, (*learner.losses, "SuccessRate"), learner.target)
        self.goals = run.goals

    def finished(self, episode):
        """Count a training episode."""
        reached = self._reached(episode["obs2"][-1], episode["rew"][-1])
        self._measured["SuccessRate"].append(np.float32(reached))

    def _reached(self, row, rew):
        return float(self.goals.success(np.array([rew]), row[None, self.goals.desired])[0])

    def test_episode(self, env, get_action, seed):
        """Run one episode; the result also includes whether it reached its goal."""
        last = _Last(env)
        result = super().test_episode(last, get_action, seed)
        return {**result, "TestSuccessRate": self._reached(np.asarray(last.obs), last.rew)}

    def log(self, info):
        """Write this epoch's row, with the success rate of the test episodes."""
        tested = self._tests.pop("TestSuccessRate", None)
        rate = {} if tested is None else {"TestSuccessRate": float(tested.mean())}
        super().log({**info, **rate})


class _Last:
    """An environment that remembers the observation and the reward of its last step."""

    def __init__(self, env):
        self.env, self.reset = env, env.reset

    def step(self, action):
        result = self.env.step(action)
        self.obs, self.rew = result[0], float(result[1])
        return result


# ---- episodes ------------------------------------------------------------------------------------


class Episodes:
    """The transitions of unfinished episodes, one episode per environment.

    A checkpoint includes them, and the RNG that chooses hindsight goals.
    """

    def __init__(self, run):
        self.rng = run.seeds.generator("replay", 1)
        self._going_on = [[] for _ in range(run.streams[0].num_envs)]
        run.track(episodes=self)

    def add(self, transitions, ended):
        """Add one transition per environment; return the now complete episodes, as arrays.

        `transitions` contains `obs, act, rew, obs2, done`; `ended` lists the environments whose
        episode terminated or was truncated.
        """
        complete = []
        for i, row in enumerate(zip(*transitions, strict=True)):
            rows = self._going_on[i]
            if rows and not np.array_equal(rows[-1]["obs2"], row[0]):
                # A resumed run whose environment could not be restored: the old episode ends here.
                complete.append(_stack(rows))
                rows.clear()
            rows.append({name: np.array(x) for name, x in zip(_FIELDS, row, strict=True)})
            if i in ended:
                complete.append(_stack(rows))
                rows.clear()
        return complete

    def state_dict(self):
        """Return the rows and the RNG, as plain arrays and numbers."""
        going_on = [_stack(rows) for rows in self._going_on]
        return {"going_on": going_on, "rng": self.rng.bit_generator.state}

    def load_state_dict(self, state):
        """Continue in the middle of every episode."""
        self._going_on = [_split(arrays) for arrays in state["going_on"]]
        self.rng.bit_generator.state = state["rng"]


_FIELDS = ("obs", "act", "rew", "obs2", "done")


def achieved_goals(buffer, goals):
    """Return the goals achieved by all transitions in the buffer, (n, goal), as a view."""
    return buffer.ring.data["obs2"][: len(buffer), goals.achieved]


def _stack(rows):
    """Join a list of transitions into one array per field; None if the list is empty."""
    return {name: np.stack([row[name] for row in rows]) for name in _FIELDS} if rows else None


def _split(arrays):
    """Invert `_stack`."""
    if arrays is None:
        return []
    columns = zip(*(arrays[name] for name in _FIELDS), strict=True)
    return [dict(zip(_FIELDS, row, strict=True)) for row in columns]

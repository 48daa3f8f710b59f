"""What DQN needs from a network, its memory, and the names that user code imports from here."""

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn

from spinup.algos.common.nstep import NStep
from spinup.algos.common.prioritized import Priorities
from spinup.algos.common.returns import discount_cumsum
from spinup.algos.pytorch.common.buffers import ReplayBuffer, make_replay_buffer
from spinup.algos.pytorch.common.nets import (
    combined_shape,
    count_vars,
    make_obs_filter,
    mlp,
    samples_pi,
)
from spinup.algos.pytorch.common.qnets import MLPDiscreteQFunction, MLPDuelingQ

__all__ = [
    "Box",
    "Discrete",
    "MLPDiscreteQFunction",
    "MLPDuelingQ",
    "MLPQNetwork",
    "Replay",
    "ReplayBuffer",
    "combined_shape",
    "count_vars",
    "discount_cumsum",
    "mlp",
]


class MLPQNetwork(nn.Module):
    """Action values `q` of all discrete actions, and the policy that takes the best one.

    Args:
        observation_space: a Box of any shape (flattened).
        action_space: Discrete.
        hidden_sizes: widths of the hidden layers. Wider fits more and is slower; (64, 64) to
            (256, 256) are usual.
        activation: class of the hidden activations.
        dueling: estimate the value of a state and the advantages of its actions apart. Helps where
            there are many actions of nearly the same value.
    """

    def __init__(
        self,
        observation_space,
        action_space,
        hidden_sizes=(128, 128),
        activation=nn.ReLU,
        dueling=False,
    ):
        super().__init__()
        obs_dim = int(np.prod(observation_space.shape))
        obs_filter = make_obs_filter(observation_space, normalize=False)
        self.action_space = action_space
        q = MLPDuelingQ if dueling else MLPDiscreteQFunction
        self.q = q(obs_dim, int(action_space.n), tuple(hidden_sizes), activation, obs_filter)

    @samples_pi
    def act(self, obs):
        """The best action for one observation or a batch, as an array."""
        with torch.no_grad():
            return self.q(obs).argmax(-1).cpu().numpy()


class Replay:
    """The replay buffer, with n-step transitions and priorities where they are asked for.

    Args:
        run: the run; everything here is tracked there.
        replay_size: transitions that are kept.
        n_step: rewards summed up in a transition, discounted by `gamma`.
        prio_alpha: exponent of the priorities; None samples uniformly.
    """

    def __init__(self, run, replay_size, n_step=1, gamma=0.99, prio_alpha=None):
        self.nstep = self.priorities = None
        extra = {}
        if n_step > 1:
            self.nstep = NStep(n_step, gamma, run.streams[0].num_envs)
            run.track(nstep=self.nstep)
            extra["discount"] = ((), np.float32)  # of the estimate after the last reward
        self.buffer = make_replay_buffer(run, replay_size, extra=extra)
        if prio_alpha is not None:
            self.priorities = Priorities(self.buffer.ring.max_size, prio_alpha)
            run.track(priorities=self.priorities)

    def __len__(self):
        return len(self.buffer)

    def store(self, o, a, r, o2, d, ended, took=None):
        """Keep the transitions of one step.

        `ended` lists the environments whose episode ended. Where `took` is False an environment
        used the step for a reset and has no row; None means that all have one.
        """
        rows = {"obs": o, "act": a, "rew": r, "obs2": o2, "done": d}
        if self.nstep is not None:
            which = None if took is None else np.flatnonzero(took).tolist()
            rows = self.nstep.add(o, a, r, o2, d, ended, which)
        if rows:
            where = self.buffer.store_many(**rows)
            if self.priorities is not None:
                self.priorities.add(where)

    def sample_batches(self, n, batch_size, beta=1.0):
        """`n` batches, one after the other; priorities may change between two of them.

        With priorities a batch also has `index`, the places of its rows, and `weight`, how much
        their losses count.
        """
        buffer = self.buffer
        if self.priorities is None:
            yield from buffer.sample_batches(n, batch_size)
            return
        for _ in range(n):
            index, weight = self.priorities.sample(batch_size, len(buffer), beta, buffer.rng)
            weight = torch.as_tensor(weight, dtype=torch.float32, device=buffer.device)
            yield {**buffer.rows(index), "index": index, "weight": weight}

    def update_priorities(self, batch, td_error):
        """The errors that a gradient step found in the rows of its batch."""
        if self.priorities is not None:
            self.priorities.update(batch["index"], td_error.cpu().numpy())

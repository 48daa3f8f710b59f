"""DQN's network, replay buffer and exploration, and the names that user code imports from here."""

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn

from spinup.algos.common.nstep import NStep
from spinup.algos.common.prioritized import Priorities
from spinup.algos.common.returns import combined_shape, discount_cumsum
from spinup.algos.pytorch.common.buffers import ReplayBuffer, make_replay_buffer
from spinup.algos.pytorch.common.layers import count_vars, mlp, obs_layers, samples_pi
from spinup.algos.pytorch.common.qnets import MLPDiscreteQFunction, MLPDuelingQ


class MLPQNetwork(nn.Module):
    """The values `q` of all discrete actions, and the policy that takes the best action.

    Args:
        observation_space: a Box of any shape. Images get an encoder; all others are flattened.
        action_space: Discrete.
        hidden_sizes: widths of the hidden layers. Wider layers can fit more and are slower;
            (64, 64) to (256, 256) are usual. None means (128, 128), or none after an encoder.
        activation: activation class of the hidden layers.
        dueling: estimate the value of a state and the advantages of its actions separately. Helps
            if many actions have nearly the same value.
        encoder: how images are read: 'nature' (from 36 pixels on), 'small', 'auto' (one of these),
            'flat' (no encoder), or a class that makes a module.
    """

    HIDDEN_SIZES = (128, 128)

    def __init__(
        self,
        observation_space,
        action_space,
        hidden_sizes=None,
        activation=nn.ReLU,
        dueling=False,
        encoder="auto",
    ):
        super().__init__()
        # Both streams of a dueling network have a last hidden layer of their own.
        obs_dim, hidden_sizes, make_filter = obs_layers(
            observation_space, encoder, hidden_sizes, self.HIDDEN_SIZES, streams=dueling
        )
        self.action_space = action_space
        q = MLPDuelingQ if dueling else MLPDiscreteQFunction
        self.q = q(obs_dim, int(action_space.n), tuple(hidden_sizes), activation, make_filter())

    @samples_pi
    def act(self, obs):
        """Return the best action for one observation or a batch, as an array."""
        with torch.no_grad():
            return self.q(obs).argmax(-1).cpu().numpy()


class Replay:
    """The replay buffer, optionally with n-step transitions and priorities.

    Args:
        run: the run, whose checkpoints include this buffer.
        replay_size: capacity in transitions.
        n_step: number of rewards summed in a transition, discounted by `gamma`.
        prio_alpha: exponent of the priorities; None samples uniformly.
    """

    def __init__(self, run, replay_size, n_step=1, gamma=0.99, prio_alpha=None):
        self.nstep = self.priorities = None
        extra = {}
        if n_step > 1:
            self.nstep = NStep(n_step, gamma, run.streams[0].num_envs)
            run.track(nstep=self.nstep)
            extra["discount"] = ((), np.float32)  # factor on the value after the last reward
        self.buffer = make_replay_buffer(run, replay_size, extra=extra)
        if prio_alpha is not None:
            self.priorities = Priorities(self.buffer.ring.max_size, prio_alpha)
            run.track(priorities=self.priorities)

    def __len__(self):
        return len(self.buffer)

    def store(self, o, a, r, o2, d, ended, took=None):
        """Store the transitions of one step.

        `ended` lists the environments whose episode ended. An environment whose `took` is False
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
                self.priorities.remove(self.buffer.ring.lost)

    def sample_batches(self, n, batch_size, beta=1.0):
        """Yield `n` batches; priorities may change from one batch to the next.

        With priorities, a batch also has `index`, the indices of its rows, and `weight`, their
        importance weights in the loss.
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
        """Set the priorities of a batch's rows from the TD errors of its gradient step."""
        if self.priorities is not None:
            self.priorities.update(batch["index"], td_error.cpu().numpy())


class EpsilonGreedy:
    """Acts greedily, except that it takes a random action with probability `epsilon`.

    The training loop sets `epsilon`. Acting never changes it, so evaluation cannot change it.
    """

    def __init__(self, policy, n_actions, epsilon=1.0):
        self.policy, self.n_actions, self.epsilon = policy, n_actions, epsilon
        self.begin, self.renew = policy.begin, policy.renew

    def __call__(self, obs, rng):
        """Return actions; each is random or greedy, independently of the others."""
        explores = rng.random(len(obs)) < self.epsilon
        if explores.all():
            return rng.integers(self.n_actions, size=len(obs))
        act = self.policy(obs, rng)[0].reshape(-1)
        if explores.any():
            act[explores] = rng.integers(self.n_actions, size=int(explores.sum()))
        return act

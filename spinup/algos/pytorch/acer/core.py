"""ACER's networks and trajectory buffer, and the names that user code imports from here."""

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn

from spinup.algos.common import replay
from spinup.algos.common.numpy_net import gumbel_argmax
from spinup.algos.common.returns import combined_shape, discount_cumsum
from spinup.algos.pytorch.common.acting import NetPolicy, numpy_net
from spinup.algos.pytorch.common.layers import (
    MLPCategoricalActor,
    Tanh,
    as_input,
    count_vars,
    init_orthogonal,
    mlp,
    obs_layers,
    samples_pi,
    takes_bytes,
)
from spinup.algos.pytorch.common.qnets import (
    BoundedActor,
    MLPDiscreteQFunction,
    MLPScaledGaussianActor,
    bounds,
)
from spinup.envs.bounds import check_bounds
from spinup.envs.spaces import stored_dtype
from spinup.utils.errors import SpinupError


class MLPActorCritic(nn.Module):
    """A policy `pi` and a Q-function `q`, two separate networks of the same shape.

    Args:
        observation_space: a Box of any shape. Images get an encoder; all others are flattened.
        action_space: Discrete, with a categorical `pi` and a `q` that returns the values of all
            actions; or a Box with finite bounds, with a Gaussian `pi` and a stochastic dueling `q`.
        hidden_sizes: widths of the hidden layers. Wider layers can fit more and are slower;
            (32, 32) to (256, 256) are usual. None means (64, 64); after an encoder, none for
            Discrete actions.
        activation: activation class of the hidden layers.
        orthogonal_init: initialize weights orthogonally, with gain 0.01 in the policy's last layer.
            None means only with a convolutional encoder.
        std: for a Box, the policy's standard deviation, in units of half of each dimension's
            range. It is not learned. Higher values explore more; 0.1 to 0.5.
        encoder: how images are read: 'nature' (from 36 pixels on), 'small', 'auto' (one of these),
            'flat' (no encoder), or a class that makes a module. `pi` and `q` each have their own.
    """

    HIDDEN_SIZES = (64, 64)

    def __init__(
        self,
        observation_space,
        action_space,
        hidden_sizes=None,
        activation=Tanh,
        orthogonal_init=None,
        std=0.3,
        encoder="auto",
    ):
        super().__init__()
        self.action_space = action_space
        self.discrete = isinstance(action_space, Discrete)
        # A linear critic could not tell which action is best where, if actions are its input.
        after = () if self.discrete else self.HIDDEN_SIZES
        obs_dim, hidden_sizes, make_filter = obs_layers(
            observation_space, encoder, hidden_sizes, self.HIDDEN_SIZES, after=after
        )
        if self.discrete:
            args = (obs_dim, int(action_space.n), hidden_sizes, activation)
            self.pi = MLPCategoricalActor(*args, make_filter())
            self.q = MLPDiscreteQFunction(*args, make_filter())
            heads = (self.q,)
        else:
            check_bounds("acer", action_space)
            if not 0 < std < np.inf:
                raise SpinupError(f"std={std!r} must be a number above zero")
            act_dim = int(np.prod(action_space.shape))
            args = (obs_dim, act_dim, hidden_sizes, activation, *bounds(action_space))
            self.pi = MLPScaledGaussianActor(*args, make_filter(), std=std)
            self.q = StochasticDuelingQ(*args, make_filter())
            heads = (self.q.v_net, self.q.a_net)
        init_orthogonal(self.pi, output_gain=0.01, wanted=orthogonal_init)
        init_orthogonal(self.q, output_gain=1.0, wanted=orthogonal_init, heads=heads)

    def v(self, obs):
        """Return V(s), the mean of Q(s, a) under the policy: (..., obs) -> (...,)."""
        if not self.discrete:
            return self.q.v(obs)
        return (self.pi(obs)[0].probs * self.q(obs)).sum(-1)

    @samples_pi
    def act(self, obs, deterministic=False):
        """Return an action for one observation or a batch: sampled, or the most likely."""
        with torch.no_grad():
            pi, _ = self.pi(obs)
            return (self.pi.mode(pi) if deterministic else pi.sample()).cpu().numpy()


class StochasticDuelingQ(BoundedActor):
    """Q(s, a) and V(s) for continuous actions, computed by one pair of networks (eq. 13).

    `v_net` computes V, and `a_net` an advantage. The advantage's mean under the policy, estimated
    from a few sampled actions, is subtracted, so that V is always the mean of Q.
    """

    def __init__(self, obs_dim, act_dim, hidden_sizes, activation, act_limit=1.0, *more, **named):
        super().__init__(act_dim, act_limit, *more, **named)
        self.v_net = mlp([obs_dim, *hidden_sizes, 1], activation)
        self.a_net = mlp([obs_dim + act_dim, *hidden_sizes, 1], activation)

    def v(self, obs):
        """Return V(s): (..., obs) -> (...,)."""
        return self.v_net(self.obs_filter(obs)).squeeze(-1)

    def advantage(self, obs, act):
        """Return A(s, a), up to a term that depends only on s: (..., obs), (..., act) -> (...,)."""
        return self._advantage(self.obs_filter(obs), act)

    def _advantage(self, x, act):
        act = (act - self.act_center) / self.act_limit
        return self.a_net(torch.cat([x, act], -1)).squeeze(-1)

    def forward(self, obs, act, samples):
        """Return Q(s, a), given policy samples (n, ..., act): (..., obs), (..., act) -> (...,)."""
        x = self.obs_filter(obs)
        others = self._advantage(x.expand(len(samples), *x.shape), samples)
        return self.v_net(x).squeeze(-1) + self._advantage(x, act) - others.mean(0)


class CategoricalBehavior:
    """Acts by sampling `pi`; `behavior` stores the log-probabilities of all actions, `logmu`."""

    def __init__(self, pi, device="cpu"):
        self.pi, self.device = pi, device
        self.renew()

    def renew(self):
        """Copy the current parameters."""
        known = type(self.pi) is MLPCategoricalActor
        fast = numpy_net(self.pi.obs_filter, self.pi.logits_net) if known else None
        self.net = fast or self._torch_net

    def begin(self, rng):
        """See `spinup.algos.common.loop.Policy`."""
        self.renew()

    def __call__(self, obs, rng):
        """Return actions, one per environment."""
        x = self.net(obs)
        shifted = x - x.max(-1, keepdims=True)
        logmu = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
        self.behavior = logmu  # (num_envs, actions)
        return gumbel_argmax(logmu, rng)

    def _torch_net(self, obs):
        with torch.no_grad():
            return logits(self.pi, as_input(self.pi, obs, self.device)).cpu().numpy()


class GaussianBehavior:
    """Acts by sampling a Gaussian `pi`; `behavior` stores the Gaussian's means, `mu`."""

    def __init__(self, pi, device="cpu"):
        self.pi, self.device = pi, device
        self.renew()

    def renew(self):
        """Copy the current parameters."""
        known = type(self.pi) is MLPScaledGaussianActor
        self.fast = NetPolicy(self.pi) if known else None
        self.std = (self.pi.std * self.pi.act_limit).cpu().numpy() if known else None

    def begin(self, rng):
        """See `spinup.algos.common.loop.Policy`."""
        self.renew()

    def __call__(self, obs, rng):
        """Return actions, one per environment; they may be outside the bounds."""
        if self.fast is not None:
            mu = self.fast.mode(self.fast.net(obs))
        else:
            with torch.no_grad():
                x = as_input(self.pi, obs, self.device)
                mu, self.std = (y.cpu().numpy() for y in gaussian(self.pi, x))
        self.behavior = mu  # (num_envs, act)
        return mu + self.std * rng.standard_normal(mu.shape, np.float32)


def make_behavior(pi, action_space, device="cpu"):
    """Create the behavior policy, which remembers the distribution its actions were drawn from."""
    continuous = isinstance(action_space, Box)
    return (GaussianBehavior if continuous else CategoricalBehavior)(pi, device)


class TrajectoryBuffer:
    """The most recent steps of `num_envs` streams, sampled as trajectories of consecutive steps.

    A row is one step of all streams: `obs, act, rew, obs2`; `done`, whether the episode terminated
    in `obs2`; `ended`, whether it terminated or was truncated there, so that the next row belongs
    to another episode; `logmu`, the behavior policy's log-probabilities of ALL discrete actions,
    or `mu`, the mean of its Gaussian; `valid`, False if a vector environment used the step for a
    reset.

    Args:
        num_envs: number of streams.
        obs_dim: shape of one observation.
        act_dim: number of discrete actions, or of dimensions of a continuous action.
        size: capacity in transitions, over all streams; the oldest are overwritten.
        obs_dtype: dtype in which observations are stored.
        continuous: whether actions are continuous.
        rng: RNG for sampling; a new one by default.
        device: device of the batches.
        keep_bytes: whether batches hold images as bytes, not as floats.
        ring: creates the arrays; see `replay.ReplayBuffer`.
    """

    def __init__(
        self,
        num_envs,
        obs_dim,
        act_dim,
        size,
        *,
        obs_dtype=np.float32,
        continuous=False,
        rng=None,
        device="cpu",
        keep_bytes=False,
        ring=replay.Ring,
    ):
        obs_field = (combined_shape(num_envs, obs_dim), obs_dtype)
        flag = ((num_envs,), np.bool_)
        fields = {
            "obs": obs_field,
            "act": ((num_envs, act_dim), np.float32) if continuous else ((num_envs,), np.int64),
            "rew": ((num_envs,), np.float32),
            "obs2": obs_field,
            "done": flag,
            "ended": flag,
            "valid": flag,
        }
        self.behavior = "mu" if continuous else "logmu"
        fields[self.behavior] = ((num_envs, act_dim), np.float32)
        self.num_envs, self.device, self.keep_bytes = num_envs, torch.device(device), keep_bytes
        self.ring = ring(replay.check_count("size", size, num_envs) // num_envs, fields)
        self.rng = rng or np.random.default_rng()
        self._row = {name: np.zeros((1, *shape), dtype) for name, (shape, dtype) in fields.items()}
        self._last_obs = np.zeros(*obs_field)  # the observations after the newest row

    def __len__(self):
        return self.ring.size

    def store(self, obs, act, rew, obs2, done, behavior, ended, took=None):
        """Append one step of every stream.

        `behavior` describes the distribution of the actions (`logmu` or `mu`). `ended` lists the
        streams whose episode ended. A stream whose `took` is False took no step, and the first five
        arguments have no entry for it; None means that all streams took a step.
        """
        row = self._row
        self._last_obs[:] = row["obs2"][0]
        took = slice(None) if took is None else took
        step = {"obs": obs, "act": act, "rew": rew, "obs2": obs2, "done": done}
        for name, x in step.items():
            row[name][0, took] = x
        row[self.behavior][0] = behavior
        row["valid"][0] = False
        row["valid"][0, took] = True
        row["ended"][0] = False
        row["ended"][0, ended] = True
        self._mark_lost()
        self.ring.store(row)

    def _mark_lost(self):
        """Mark as ended the episodes that could not be restored: the next `obs` does not follow."""
        ring, before, now = self.ring, self._last_obs, self._row["obs"][0]
        if ring.total and not np.array_equal(before, now):
            last = (ring.total - 1) % ring.max_size
            ring.data["ended"][last] |= (before != now).reshape(self.num_envs, -1).any(-1)
            ring.changed(last)

    def due(self, n_steps):
        """Return whether another `n_steps` steps of every stream are complete."""
        return self.ring.total % n_steps == 0

    def newest(self, n_steps):
        """Return every stream's last `n_steps` steps, each field (n_steps, num_envs, ...)."""
        return self._stretches(np.full(self.num_envs, self.ring.size - n_steps), n_steps)

    def sample(self, n_steps):
        """Sample a trajectory of `n_steps` steps with a random start for every stream."""
        # counted from the oldest row, so that no trajectory wraps around from the newest row to it
        first = self.rng.integers(self.ring.size - n_steps + 1, size=self.num_envs)
        return self._stretches(first, n_steps)

    def replays(self, replay_ratio, n_steps):
        """Yield the batches to replay now; their number is Poisson with mean `replay_ratio`."""
        for _ in range(self.rng.poisson(replay_ratio)):
            yield self.sample(n_steps)

    def _stretches(self, first, n_steps):
        ring = self.ring
        oldest = ring.total - ring.size
        rows = (oldest + first + np.arange(n_steps)[:, None]) % ring.max_size  # (n_steps, num_envs)
        streams = np.arange(self.num_envs)
        found = {name: torch.from_numpy(x) for name, x in ring.take(rows, streams).items()}
        kept = ("obs", "obs2") if self.keep_bytes else ()
        return {
            name: x.to(self.device).to(
                x.dtype if name in kept or x.dtype == torch.int64 else torch.float32
            )
            for name, x in found.items()
        }

    def state_dict(self):
        """Return all the state that a resumed run needs."""
        return {"ring": self.ring.state_dict(), "rng": self.rng.bit_generator.state}

    def load_state_dict(self, state):
        """Continue from a saved buffer."""
        # version 0.1.0 stored the means as `logmu` too
        self.ring.load_state_dict(state["ring"], renamed={"logmu": self.behavior})
        if self.ring.total:
            self._row = self.ring.take(np.array([(self.ring.total - 1) % self.ring.max_size]))
        self.rng.bit_generator.state = state["rng"]


def make_trajectory_buffer(run, replay_size):
    """Create a run's buffer from its spaces; check that it fits in memory."""
    num_envs = run.streams[0].num_envs
    space, continuous = run.observation_space, isinstance(run.action_space, Box)
    buffer = TrajectoryBuffer(
        num_envs,
        space.shape,
        int(np.prod(run.action_space.shape) if continuous else run.action_space.n),
        replay_size,
        obs_dtype=stored_dtype(space),
        continuous=continuous,
        rng=run.seeds.generator("replay"),
        device=run.device,
        keep_bytes=takes_bytes(run.ac),
        ring=replay.ring_for(run),
    )
    rows = min(buffer.ring.max_size, run.planned_steps // num_envs)
    replay.announce(run, rows * num_envs, buffer.ring.bytes_for(rows))
    run.track(buffer=buffer)
    return buffer


def one_step_target(ac, batch, gamma):
    """Return r + gamma V(o2), (B,), which stands for the target of ACER in `diagnostics.txt`.

    What the critic learns is `retrace`, which needs whole trajectories; single transitions are
    drawn from the buffer for the diagnostics.
    """
    r, o2, d = (batch[k] for k in ("rew", "obs2", "done"))
    with torch.no_grad():
        return r + gamma * (1 - d) * ac.v(o2)


def logits(pi, obs):
    """Return the policy's logits for all actions: (..., obs) -> (..., actions)."""
    return pi(obs)[0].logits


def chosen(x, act):
    """Select the entries of the actions taken: (..., actions), (...,) -> (...,)."""
    return x.gather(-1, act.unsqueeze(-1)).squeeze(-1)


def entropy(logp):
    """Return the entropy of categorical distributions: (..., actions) -> (...,)."""
    return -(logp.exp() * logp).sum(-1)


def gaussian(pi, obs):
    """Return the mean (..., act) and fixed standard deviation (act,) of a Gaussian policy."""
    found = pi(obs)[0]
    return found.mean, found.stddev.detach().flatten(0, -2)[0]


def log_density(x, phi):
    """Return a Gaussian's log-density at `x`, up to a constant: (..., act), (..., act) -> (...,).

    Both are in units of the standard deviation. The constant cancels in every ratio and gradient.
    """
    return -0.5 * (x - phi).square().sum(-1)

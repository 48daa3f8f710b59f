"""SAC's networks, and the names that user code imports from here."""

import inspect
import math

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn
from torch.distributions import Normal

from spinup.algos.common.returns import combined_shape, discount_cumsum
from spinup.algos.pytorch.common.buffers import ReplayBuffer
from spinup.algos.pytorch.common.gradients import Adam
from spinup.algos.pytorch.common.layers import MLPCategoricalActor, count_vars, mlp, samples_pi
from spinup.algos.pytorch.common.qnets import (
    LOG_STD_MAX,
    LOG_STD_MIN,
    MLPDiscreteQFunction,
    MLPQFunction,
    SquashedGaussianMLPActor,
    bounds,
    shared_layers,
)
from spinup.utils.errors import SpinupError


class MLPActorCritic(nn.Module):
    """A stochastic policy `pi` and two Q-functions, `q1` and `q2`.

    Args:
        observation_space: a Box of any shape. Images get an encoder; all others are flattened.
        action_space: a Box with finite bounds, or Discrete. For Discrete actions, `discrete` is
            True, `pi` is categorical and the critics return the values of all actions at once.
        hidden_sizes: widths of the hidden layers. Wider layers can fit more and are slower;
            (64, 64) to (400, 300) are usual. None means (256, 256), also after an encoder.
        activation: activation class of the hidden layers.
        encoder: how images are read: 'nature' (from 36 pixels on), 'small', 'auto' (one of these),
            'flat' (no encoder), or a class that makes a module. The critics train it.
    """

    HIDDEN_SIZES = (256, 256)

    discrete = False  # also for networks pickled by the original Spinning Up

    def __init__(
        self,
        observation_space,
        action_space,
        hidden_sizes=None,
        activation=nn.ReLU,
        encoder="auto",
    ):
        super().__init__()
        obs_dim, hidden_sizes, (for_pi, for_q1, for_q2) = shared_layers(
            observation_space, encoder, hidden_sizes, self.HIDDEN_SIZES
        )
        self.action_space = action_space
        self.discrete = isinstance(action_space, Discrete)
        if self.discrete:
            sizes = (obs_dim, int(action_space.n), hidden_sizes, activation)
            self.pi = MLPCategoricalActor(*sizes, for_pi)
            self.q1 = MLPDiscreteQFunction(*sizes, for_q1)
            self.q2 = MLPDiscreteQFunction(*sizes, for_q2)
        else:
            from spinup.envs.bounds import check_bounds

            check_bounds("sac", action_space)
            sizes = (obs_dim, int(np.prod(action_space.shape)), hidden_sizes, activation)
            self.pi = SquashedGaussianMLPActor(*sizes, *bounds(action_space), for_pi)
            self.q1 = MLPQFunction(*sizes, for_q1)
            self.q2 = MLPQFunction(*sizes, for_q2)

    @samples_pi
    def act(self, obs, deterministic=False):
        """Return an action for one observation or a batch: sampled, or the most likely."""
        with torch.no_grad():
            if self.discrete:
                pi, _ = self.pi(obs)
                a = self.pi.mode(pi) if deterministic else pi.sample()
            else:
                a, _ = self.pi(obs, deterministic, with_logprob=False)
            return a.cpu().numpy()


def action_probs(ac, o):
    """Return the probabilities of all discrete actions and their logarithms, (B, n) each."""
    pi, _ = ac.pi(o)
    return pi.probs, pi.logits


class Temperature(nn.Module):
    """The weight of the entropy: fixed, or learned, starting from 1 ('auto')."""

    def __init__(self, alpha):
        super().__init__()
        self.learned = isinstance(alpha, str)
        # stored as a logarithm, so that a learned temperature stays positive
        start = 0.0 if self.learned else math.log(alpha) if alpha else -math.inf
        self.log_alpha = nn.Parameter(torch.tensor(start), requires_grad=self.learned)


def make_temperature(run, alpha, target_entropy, lr):
    """Create the temperature, which the run's checkpoints contain.

    Returns its logarithm, its optimizer (None if it is fixed) and the entropy that it aims for.
    """
    found, optimizer = Temperature(alpha).to(run.device), None
    run.track(temperature=found)
    if found.learned:
        optimizer = Adam([found.log_alpha], lr=lr, fused=False)
        run.track(alpha_optimizer=optimizer)
    if target_entropy is None:
        target_entropy = default_target_entropy(run.action_space)
    return found.log_alpha, optimizer, target_entropy


def check_actor_critic(ac, action_space):
    """Reject a user's class that could not learn, or would be tested with sampled actions."""
    if isinstance(action_space, Discrete) and not getattr(ac, "discrete", False):
        raise SpinupError(
            f"sac needs the values of all Discrete actions at once, but "
            f"{type(ac).__name__} does not declare that it returns them: let pi(obs) return "
            "(Categorical, None), let q1(obs) and q2(obs) return one value per action, and set "
            "discrete = True"
        )
    if "deterministic" not in inspect.signature(ac.act).parameters:
        raise SpinupError(
            f"{type(ac).__name__}.act has no argument 'deterministic', which sac needs to test "
            "its policy without noise: write act(self, obs, deterministic=False)"
        )


def default_target_entropy(action_space):
    """Return half the uniform entropy of Discrete actions; for a Box, sum(log(half range) - 1).

    Entropies are in action units, so the logarithms make the target independent of their scale.
    """
    if isinstance(action_space, Discrete):
        return 0.5 * math.log(action_space.n)
    half_range, _ = bounds(action_space)
    return float((half_range.double().log() - 1).sum())

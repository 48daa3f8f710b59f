"""PPO's networks, and the names that user code imports from here."""

from gymnasium.spaces import Box, Discrete
from torch.distributions import Categorical, Normal

from spinup.algos.common.returns import discount_cumsum
from spinup.algos.common.rollout import minibatches
from spinup.algos.pytorch.common.advantages import PathBuffer as PPOBuffer
from spinup.algos.pytorch.common.gradients import clip_grad_norm
from spinup.algos.pytorch.common.nets import (
    Actor,
    MLPActorCritic,
    MLPCategoricalActor,
    MLPCritic,
    MLPGaussianActor,
    combined_shape,
    count_vars,
    mlp,
)


def policy_steps(ac, optimizers, losses, train_v_iters, max_grad_norm):
    """Return the network, optimizer and loss of the policy's steps, and the passes that follow.

    Usually, the policy steps alone, and the value function is fitted in `train_v_iters` passes. If
    both read images through one encoder, every step follows both losses, and no passes are left.
    """
    (pi_loss, v_loss), (pi_optimizer, _) = losses, optimizers
    if not getattr(ac, "share_encoder", False):
        return ac.pi, pi_optimizer, pi_loss, train_v_iters

    def joint_loss(batch):
        loss_pi, info = pi_loss(batch)
        return loss_pi + 0.25 * v_loss(batch), info  # the usual 0.5, times 1/2 of the square

    return ac, JointOptimizer(*optimizers, max_grad_norm), joint_loss, 0


class JointOptimizer:
    """Takes the place of the policy's optimizer: a step is also one of the value function."""

    def __init__(self, pi_optimizer, vf_optimizer, max_grad_norm):
        self.pi_optimizer, self.vf_optimizer = pi_optimizer, vf_optimizer
        self.param_groups, self.max_grad_norm = pi_optimizer.param_groups, max_grad_norm

    def step(self):
        """Take a step of both, each with its own norm of the gradient."""
        self.pi_optimizer.step()
        clip_grad_norm(self.vf_optimizer, self.max_grad_norm)
        self.vf_optimizer.step()

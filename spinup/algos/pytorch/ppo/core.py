"""PPO's networks, and the names that user code imports from here."""

from gymnasium.spaces import Box, Discrete
from torch.distributions import Categorical, Normal

from spinup.algos.common.minibatches import minibatches
from spinup.algos.common.returns import discount_cumsum
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
from spinup.algos.pytorch.common.path_buffer import PathBuffer as PPOBuffer

__all__ = [
    "Actor",
    "Box",
    "Categorical",
    "Discrete",
    "MLPActorCritic",
    "MLPCategoricalActor",
    "MLPCritic",
    "MLPGaussianActor",
    "Normal",
    "PPOBuffer",
    "combined_shape",
    "count_vars",
    "discount_cumsum",
    "minibatches",
    "mlp",
    "steps",
]


def steps(ac, pi_optimizer, vf_optimizer, pi_loss, v_loss, train_v_iters):
    """Return the network, optimizers and loss of the policy's steps, and how many passes follow.

    Usually, the policy steps alone, and the value function is fitted in `train_v_iters` passes. If
    both read images through one encoder, every step follows both losses, and no passes are left.
    """
    if not getattr(ac, "share_encoder", False):
        return ac.pi, [pi_optimizer], pi_loss, train_v_iters

    def joint_loss(batch):
        loss_pi, info = pi_loss(batch)
        return loss_pi + 0.25 * v_loss(batch), info  # the usual 0.5, times 1/2 of the square

    return ac, [pi_optimizer, vf_optimizer], joint_loss, 0

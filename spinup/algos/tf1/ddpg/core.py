"""DDPG's networks, and the names that user code imports from here."""

from gymnasium.spaces import Box, Discrete

from spinup.algos.common.returns import combined_shape, discount_cumsum
from spinup.algos.tf1.common.buffers import ReplayBuffer
from spinup.algos.tf1.common.layers import (
    count_vars,
    flat_obs,
    get_vars,
    mlp,
    placeholder,
    placeholders,
)
from spinup.algos.tf1.common.qnets import mlp_deterministic_policy, mlp_q_function
from spinup.envs.bounds import require_finite_bounds
from spinup.utils.tf import tf


def mlp_actor_critic(
    x,
    a,
    hidden_sizes=(256, 256),
    activation=tf.nn.relu,
    output_activation=tf.tanh,
    action_space=None,
):
    """Build a deterministic policy and a Q-function, separate networks of the same shape.

    Args:
        x, a: placeholders of observations and actions.
        hidden_sizes: widths of the hidden layers. Wider layers can fit more and are slower;
            (64, 64) to (400, 300) are usual.
        activation: activation function of the hidden layers.
        output_activation: activation function of the policy's last layer, with values in (-1, 1).
        action_space: a Box with finite bounds.

    Returns:
        pi, q and q_pi: the policy's actions, Q(x, a) and Q(x, pi).
    """
    require_finite_bounds("ddpg", action_space)
    x = flat_obs(x)
    with tf.variable_scope("pi"):
        pi = mlp_deterministic_policy(x, hidden_sizes, activation, output_activation, action_space)
    with tf.variable_scope("q"):
        q = mlp_q_function(x, a, hidden_sizes, activation)
    with tf.variable_scope("q", reuse=True):
        q_pi = mlp_q_function(x, pi, hidden_sizes, activation)
    return pi, q, q_pi

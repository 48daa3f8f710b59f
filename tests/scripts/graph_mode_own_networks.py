"""Graph functions of one's own: a policy alone, and all networks."""

import gymnasium as gym
import tensorflow.compat.v1 as tf

import spinup.algos.tf1.ddpg.core as ddpg_core
import spinup.algos.tf1.ppo.core as core
from spinup import ddpg_tf1, ppo_tf1, sac_tf1

SMALL = {"steps_per_epoch": 200, "epochs": 1}
OFF_POLICY = {**SMALL, "start_steps": 50, "update_after": 100, "num_test_episodes": 1}


def beta_like_policy(x, a, hidden_sizes, activation, output_activation, action_space):
    """A Gaussian whose standard deviation depends on the state."""
    dim = a.shape.as_list()[-1]
    h = core.mlp(x, list(hidden_sizes), activation, activation)
    with tf.variable_scope("mu"):
        mu = core.mlp(h, (dim,), None, output_activation)
    with tf.variable_scope("log_std"):
        log_std = tf.clip_by_value(core.mlp(h, (dim,)), -2, 0.5)
    pi = mu + tf.random_normal(tf.shape(mu)) * tf.exp(log_std)
    logp, logp_pi = (core.gaussian_likelihood(act, mu, log_std) for act in (a, pi))
    return pi, logp, logp_pi


ppo_tf1(
    lambda: gym.make("Pendulum-v1"),
    ac_kwargs=dict(hidden_sizes=(8, 8), activation=tf.nn.relu, policy=beta_like_policy),
    train_pi_iters=2,
    train_v_iters=2,
    **SMALL,
    logger_kwargs=dict(output_dir="data/policy", exp_name="policy"),
)


def narrow_policy(x, a, hidden_sizes, activation, output_activation):
    """A policy for SAC, which squashes what it returns: mu, pi and logp_pi."""
    mu = core.mlp(x, [*hidden_sizes, a.shape.as_list()[-1]], activation, output_activation)
    log_std = tf.zeros_like(mu) - 1
    pi = mu + tf.random_normal(tf.shape(mu)) * tf.exp(log_std)
    return mu, pi, core.gaussian_likelihood(pi, mu, log_std)


sac_tf1(
    lambda: gym.make("Pendulum-v1"),
    ac_kwargs=dict(hidden_sizes=(8,), policy=narrow_policy),
    **OFF_POLICY,
    logger_kwargs=dict(output_dir="data/narrow", exp_name="narrow"),
)


def one_layer(x, a, width=8, action_space=None):
    """A deterministic policy and a Q-function, whose first layers are created by hand."""

    def layer(inputs, name, units):
        w = tf.get_variable(f"{name}_w", (inputs.shape[-1], units))
        return tf.nn.relu(tf.matmul(inputs, w))

    def q_function(act):
        return tf.squeeze(ddpg_core.mlp(layer(tf.concat([x, act], -1), "first", width), (1,)), 1)

    limit = action_space.high[0]
    with tf.variable_scope("pi"):
        pi = limit * ddpg_core.mlp(layer(x, "first", width), (1,), output_activation=tf.tanh)
    with tf.variable_scope("q"):
        q = q_function(a)
    with tf.variable_scope("q", reuse=True):
        q_pi = q_function(pi)
    return pi, q, q_pi


ddpg_tf1(
    lambda: gym.make("Pendulum-v1"),
    actor_critic=one_layer,
    ac_kwargs=dict(width=16),
    **OFF_POLICY,
    logger_kwargs=dict(output_dir="data/one_layer", exp_name="one_layer"),
)

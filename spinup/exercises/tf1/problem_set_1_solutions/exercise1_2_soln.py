"""Answer to exercise 1.2."""

from spinup.exercises.tf1.problem_set_1_solutions.exercise1_1_soln import gaussian_likelihood
from spinup.utils.tf import tf


def mlp(x, hidden_sizes=(32,), activation=tf.tanh, output_activation=None):
    """Return the output of a multi-layer perceptron; `hidden_sizes` are all layers after `x`."""
    for i, size in enumerate(hidden_sizes):
        last = i == len(hidden_sizes) - 1
        # a name that is not given is made unique, so that two networks have their own variables
        with tf.variable_scope(None, default_name="layer"):
            w = tf.get_variable("w", (x.shape[-1], size))
            b = tf.get_variable("b", (size,), initializer=tf.zeros_initializer())
        x = tf.matmul(x, w) + b
        function = output_activation if last else activation
        x = x if function is None else function(x)
    return x


def mlp_gaussian_policy(x, a, hidden_sizes, activation, output_activation, action_space):
    """Return samples `pi`, log-likelihoods `logp` of the actions `a`, and `logp_pi` of `pi`."""
    act_dim = a.shape.as_list()[-1]
    mu = mlp(x, [*hidden_sizes, act_dim], activation, output_activation)
    start = tf.constant_initializer(-0.5)
    log_std = tf.get_variable("log_std", (act_dim,), initializer=start)
    pi = mu + tf.exp(log_std) * tf.random_normal(tf.shape(mu))
    logp = gaussian_likelihood(a, mu, log_std)
    logp_pi = gaussian_likelihood(pi, mu, log_std)
    return pi, logp, logp_pi

"""Exercise 1.2: a Gaussian policy for PPO.

    python -m spinup.exercises.tf1.problem_set_1.exercise1_2
    python -m spinup.exercises.tf1.problem_set_1.exercise1_2 --train

Write `mlp` and the three tensors in `mlp_gaussian_policy`, then run this file. Log-likelihoods come
from your answer to exercise 1.1. The answer is judged by numbers, in seconds; `--train` then also
trains it with PPO. About half an hour.

`tf.layers` is no longer part of TensorFlow: create variables with `tf.get_variable`. To call `mlp`
twice, give each layer its own scope: `with tf.variable_scope(None, default_name="layer"):`.
"""

from spinup.exercises.tf1.problem_set_1 import exercise1_1
from spinup.utils.tf import tf

EPS = 1e-8


def mlp(x, hidden_sizes=(32,), activation=tf.tanh, output_activation=None):
    """Build a multi-layer perceptron.

    Args:
        x: the input, of shape [batch, inputs].
        hidden_sizes: number of units of each layer after the input. The last one is the output.
        activation: function that is applied after every layer but the last, such as `tf.tanh`.
        output_activation: function that is applied after the last layer; None means none.

    Returns:
        The output, a tensor of shape [batch, hidden_sizes[-1]].
    """
    raise NotImplementedError("mlp is still to be written")  # your code here


def mlp_gaussian_policy(x, a, hidden_sizes, activation, output_activation, action_space):
    """Build a policy whose means depend on the observation; its standard deviations do not.

    Args:
        x: observations, of shape [batch, obs_dim].
        a: actions, of shape [batch, act_dim].
        hidden_sizes: sizes of the hidden layers of the network that computes the means.
        activation: activation function of the hidden layers.
        output_activation: activation function of the means; None means none.
        action_space: the environment's action space.

    Returns:
        pi: one sampled action per observation.
        logp: the log-likelihoods of `a`.
        logp_pi: the log-likelihoods of `pi`.
    """
    # Your code here: the means, a trainable variable of shape [act_dim] that starts at -0.5
    # everywhere, and samples.
    mu = log_std = pi = None
    if pi is None:
        raise NotImplementedError("mlp_gaussian_policy is still to be written")

    logp = exercise1_1.gaussian_likelihood(a, mu, log_std)
    logp_pi = exercise1_1.gaussian_likelihood(pi, mu, log_std)
    return pi, logp, logp_pi


if __name__ == "__main__":
    from spinup.exercises.common import exit_with
    from spinup.exercises.tf1 import judges

    exit_with(lambda: judges.exercise1_2(mlp, mlp_gaussian_policy))

"""Exercise 2.2: a silent bug in DDPG.

    python -m spinup.exercises.tf1.problem_set_2.exercise2_2
    spinup plot data --select ex2-2_ddpg --value Performance AverageQVals LossQ

This file trains DDPG with two actor-critics: the library's, and the one below, which has a bug.
Nothing crashes and nothing warns. Run it, plot the curves, and answer three questions: does the bug
matter? Which line is it? Why does the wrong loss still have a minimum, and where? There is no code
to write.

The library itself would notice this bug and correct it. So both variants compute the critic's loss
with the function in this file, which is what the formula looks like without that correction.
"""

import functools

from spinup.algos.tf1.ddpg import ddpg as library
from spinup.algos.tf1.ddpg.core import mlp, mlp_actor_critic
from spinup.exercises.common import losses
from spinup.exercises.programs import compare_ddpg
from spinup.utils.tf import tf


def bugged_mlp_actor_critic(
    x,
    a,
    hidden_sizes=(400, 300),
    activation=tf.nn.relu,
    output_activation=tf.tanh,
    action_space=None,
):
    """Build a policy and a critic, with a bug; return pi, q and q_pi."""
    act_dim = a.shape.as_list()[-1]
    with tf.variable_scope("pi"):
        pi = mlp(x, [*hidden_sizes, act_dim], activation, output_activation)
        pi = action_space.high[0] * pi
    with tf.variable_scope("q"):
        q = mlp(tf.concat([x, a], axis=-1), [*hidden_sizes, 1], activation, None)
    with tf.variable_scope("q", reuse=True):
        q_pi = mlp(tf.concat([x, pi], axis=-1), [*hidden_sizes, 1], activation, None)
    return pi, q, q_pi


def compute_loss_q(ac, ac_targ, batch, gamma):
    """DDPG's critic loss: the mean squared error against the target networks' backup."""
    o, a, r, o2, d = (batch[k] for k in ("obs", "act", "rew", "obs2", "done"))
    backup = tf.stop_gradient(r + gamma * (1 - d) * ac_targ.q(o2, ac_targ.pi(o2)))
    q = ac.q(o, a)
    return tf.reduce_mean((q - backup) ** 2), {"QVals": q}


@functools.wraps(library.ddpg)
def ddpg(*args, **kwargs):
    """Train with DDPG and the loss above; the arguments are those of the library's `ddpg`."""
    with losses(library, compute_loss_q=compute_loss_q):
        return library.ddpg(*args, **kwargs)


def train(bugged, **kwargs):
    """Train with the buggy actor-critic or with the library's."""
    # imported by its path, so that saved models can be opened elsewhere
    from spinup.exercises.tf1.problem_set_2 import exercise2_2

    actor_critic = exercise2_2.bugged_mlp_actor_critic if bugged else mlp_actor_critic
    return exercise2_2.ddpg(actor_critic=actor_critic, **kwargs)


def main(argv=None):
    return compare_ddpg(__doc__.splitlines()[0], argv, train)


if __name__ == "__main__":
    from spinup.exercises.common import exit_with

    exit_with(main)

"""Exercise 1.3: the losses of TD3.

    python -m spinup.exercises.pytorch.problem_set_1.exercise1_3
    python -m spinup.exercises.pytorch.problem_set_1.exercise1_3 --use_soln
    spinup plot data/ex13-td3-pendulum-v1

Write `compute_loss_q` and `compute_loss_pi`, then run this file. It first compares your losses and
their gradients with the right ones, which takes a second. If they agree, it trains TD3 with them
for ten epochs. `--use_soln` trains with the library's losses, so that you can plot the two
together; `--check` only compares. About an hour.

Everything else is the library's `spinup/algos/pytorch/td3/td3.py`: replay buffer, target networks,
delayed policy updates. That file also contains the answer.
"""

import functools

import torch  # noqa: F401 (for your code)

from spinup.algos.pytorch.td3 import core
from spinup.algos.pytorch.td3 import td3 as library
from spinup.algos.pytorch.td3.core import ReplayBuffer as ReplayBuffer
from spinup.exercises.common import losses


def compute_loss_q(ac, ac_targ, batch, gamma, target_noise, noise_clip, limits):
    """Return the critics' loss, and their values for the log.

    TD3 adds noise to the target policy's action: its standard deviation is `target_noise`, it is
    clipped to [-noise_clip, noise_clip], and the noisy action is clipped to the bounds. The target
    is r + gamma * (1 - d) * min(Q1_targ, Q2_targ) of that action. No gradient passes through it.
    The noise is in units of half the action range, (high - low) / 2.

    Args:
        ac: the networks `ac.pi(o)`, `ac.q1(o, a)` and `ac.q2(o, a)`; the last two return [batch].
        ac_targ: the target networks, with the same names.
        batch: dict of tensors `obs`, `act`, `rew`, `obs2` and `done`.
        limits: the tensors (low, high) of shape [act_dim], the bounds of actions.

    Returns:
        loss_q: the sum of both critics' mean squared errors.
        info: dict(Q1Vals=..., Q2Vals=...) with the critics' values, detached.
    """
    raise NotImplementedError("compute_loss_q is still to be written")  # your code here


def compute_loss_pi(ac, batch):
    """Return the policy's loss: minus the mean Q1 of the policy's own actions."""
    raise NotImplementedError("compute_loss_pi is still to be written")  # your code here


@functools.wraps(library.td3)
def td3(*args, **kwargs):
    """Train with TD3 and the losses above; the arguments are those of the library's `td3`."""
    with losses(library, compute_loss_q=compute_loss_q, compute_loss_pi=compute_loss_pi):
        return library.td3(*args, **kwargs)


def main():
    from spinup.exercises.programs import train_td3
    from spinup.exercises.pytorch import judges

    def judge():
        return judges.exercise1_3(compute_loss_q, compute_loss_pi)

    return train_td3(__doc__.splitlines()[0], judge, td3, library.td3, core.MLPActorCritic)


if __name__ == "__main__":
    from spinup.exercises.common import exit_with

    exit_with(main)

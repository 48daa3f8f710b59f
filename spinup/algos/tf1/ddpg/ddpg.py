"""Deep Deterministic Policy Gradient (Lillicrap et al. 2016, arXiv:1509.02971).

Idea: learn Q(s, a) by Q-learning, with a deterministic policy in place of the maximum over actions,
and improve that policy by following the gradient of Q through its action. Both networks learn from
a replay buffer of past transitions, and the targets come from slowly moving copies of the networks.

    python -m spinup.run ddpg_tf1 --env HalfCheetah-v5
    python -m spinup.algos.tf1.ddpg.ddpg --env Pendulum-v1 --epochs 5

This version builds a TensorFlow graph; the README next to this file explains how to read it.
"""

from collections.abc import Callable, Mapping
from typing import Any

from spinup.algos.common.exploration import Learner, NoisyPolicy
from spinup.algos.common.loop import Loop
from spinup.algos.tf1.common.acting import GreedyAction, make_policy
from spinup.algos.tf1.common.buffers import make_replay_buffer
from spinup.algos.tf1.common.gradients import Adam
from spinup.algos.tf1.common.graph import Function
from spinup.algos.tf1.common.layers import flat
from spinup.algos.tf1.common.networks import polyak_update, target_copy
from spinup.algos.tf1.common.run import TfRun
from spinup.algos.tf1.ddpg import core
from spinup.algos.tf1.ddpg.core import ReplayBuffer as ReplayBuffer
from spinup.runs.arguments import TfOffPolicyOptions, Unpack, training_function
from spinup.utils.tf import tf


def compute_target(ac, ac_targ, batch, gamma):
    """Return the target networks' one-step backup, which the critic learns, (B,)."""
    r, o2, d = (batch[k] for k in ("rew", "obs2", "done"))
    a2 = ac_targ.pi(o2)
    q_targ = flat(ac_targ.q(o2, a2))  # (B,)
    return tf.stop_gradient(r + gamma * (1 - d) * q_targ)


def compute_loss_q(ac, ac_targ, batch, gamma):
    """Return the critic's mean squared error against its target."""
    o, a = batch["obs"], batch["act"]
    backup = compute_target(ac, ac_targ, batch, gamma)
    q = flat(ac.q(o, a))
    loss_q = tf.reduce_mean((q - backup) ** 2)
    return loss_q, {"QVals": q}


def compute_loss_pi(ac, batch):
    """Return the negated mean value that the critic assigns to the policy's actions."""
    o = batch["obs"]
    return -tf.reduce_mean(ac.q(o, ac.pi(o)))


def ddpg_update(ac, ac_targ, pi_optimizer, q_optimizer, batch, gamma=0.99, polyak=0.995):
    """Lines 8 to 11 of the pseudocode: one step of critic, policy and targets.

    Returns tensors that measure the step, and the operation that completes it.
    """
    loss_q, info = compute_loss_q(ac, ac_targ, batch, gamma)
    q_step = q_optimizer.minimize(loss_q, ac.vars("q"))
    info["LossQ"] = loss_q

    with tf.control_dependencies([q_step]):  # the policy follows the new critic
        loss_pi = compute_loss_pi(ac, batch)
        pi_step = pi_optimizer.minimize(loss_pi, ac.vars("pi"))
    info["LossPi"] = loss_pi

    with tf.control_dependencies([pi_step]):
        return info, polyak_update(ac, ac_targ, polyak)


def ddpg_learner(run, ac, *, gamma, polyak, pi_lr, q_lr, act_noise):
    """Create the DDPG learner for the networks `ac`."""
    ac_targ = target_copy(ac)
    pi_optimizer, q_optimizer = Adam(pi_lr, "pi"), Adam(q_lr, "q")
    policy = NoisyPolicy(make_policy(ac), run.action_space, act_noise)

    # ---------------------------- Gradient update rule ----------------------------
    batch = run.batch("rew", "obs2", "done")  # placeholders
    info, op = ddpg_update(ac, ac_targ, pi_optimizer, q_optimizer, batch, gamma, polyak)
    rule = Function(batch, info, [op])

    def update(batch, step):  # here, `batch` contains arrays
        return rule(batch, run.noise)

    return Learner(policy, update, ("QVals",), ("LossPi", "LossQ"))


@training_function
def ddpg(
    env_fn: str | Callable[[], Any],
    actor_critic: Callable[..., Any] = core.mlp_actor_critic,
    ac_kwargs: Mapping[str, Any] = {},
    seed: int = 0,
    steps_per_epoch: int = 4000,
    epochs: int = 100,
    replay_size: int | float = 1000000,
    gamma: float = 0.99,
    polyak: float = 0.995,
    pi_lr: float = 1e-3,
    q_lr: float = 1e-3,
    batch_size: int = 100,
    start_steps: int = 10000,
    update_after: int = 1000,
    update_every: int = 50,
    act_noise: float = 0.1,
    num_test_episodes: int = 10,
    max_ep_len: int | float = 1000,
    logger_kwargs: Mapping[str, Any] = {},
    save_freq: int = 1,
    **options: Unpack[TfOffPolicyOptions],
) -> None:
    """Train a policy with DDPG.

    Args:
        actor_critic: function that adds the networks to the graph; called with (x, a, **ac_kwargs,
            action_space=...), where x and a are placeholders. Returns pi, q and q_pi.
    """
    with TfRun("ddpg") as run:
        # ------------------------------- Initialization -------------------------------
        ac = run.build(actor_critic, ac_kwargs, ("pi", "q", "q_pi"))
        learner = ddpg_learner(run, ac, **run.arguments_for(ddpg_learner))
        greedy = GreedyAction(ac, run.action_space)
        buffer = make_replay_buffer(run, replay_size)
        loop = Loop(run, learner.values, learner.losses)

        # -------------------------------- Training loop -------------------------------
        for _epoch in run.epochs():
            for _t in loop.steps():
                a = loop.act(learner.policy, start_steps)
                o, a, r, o2, d = loop.step(a)
                buffer.store_many(o, a, r, o2, d)
                n = loop.updates_due(update_after, update_every, options["updates_per_step"])
                for batch in loop.sample(buffer, n, batch_size):
                    loop.record(learner.update(batch, loop.updates))
            loop.evaluate(greedy.renewed(), num_test_episodes)
            loop.log()


if __name__ == "__main__":
    from spinup.cli.main import run_file

    run_file(ddpg)

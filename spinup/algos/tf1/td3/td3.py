"""Twin Delayed DDPG (Fujimoto et al. 2018, arXiv:1802.09477).

Idea: DDPG's policy exploits every overestimate of its critic. TD3 has three remedies: the
target uses the smaller of two critics (clipped double Q-learning), noise on the target action
smooths Q over similar actions (target policy smoothing), and the policy is updated less often than
the critics (delayed policy updates).

    python -m spinup.run td3_tf1 --env HalfCheetah-v5
    python -m spinup.algos.tf1.td3.td3 --env Pendulum-v1 --epochs 5

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
from spinup.algos.tf1.common.networks import polyak_update, target_copy
from spinup.algos.tf1.common.qnets import action_limits
from spinup.algos.tf1.common.run import TfRun
from spinup.algos.tf1.td3 import core
from spinup.algos.tf1.td3.core import ReplayBuffer as ReplayBuffer
from spinup.runs.arguments import TfOffPolicyOptions, Unpack, training_function
from spinup.utils.tf import tf


def smoothed_action(ac_targ, o2, target_noise, noise_clip, low, high):
    """Add clipped noise, in units of half the range, to the target policy's action (sec. 5.3)."""
    a2 = ac_targ.pi(o2)  # (B, act_dim)
    noise = target_noise * tf.random.normal(tf.shape(a2))
    noise = tf.clip_by_value(noise, -noise_clip, noise_clip)
    return tf.clip_by_value(a2 + noise * (high - low) / 2, low, high)


def compute_target(ac, ac_targ, batch, gamma, target_noise, noise_clip, limits):
    """Return the target networks' one-step backup, which both critics learn, (B,)."""
    r, o2, d = (batch[k] for k in ("rew", "obs2", "done"))
    a2 = smoothed_action(ac_targ, o2, target_noise, noise_clip, *limits)
    q_targ = tf.minimum(*ac_targ.twin_q(o2, a2))  # (B,)
    return tf.stop_gradient(r + gamma * (1 - d) * q_targ)


def compute_loss_q(ac, ac_targ, batch, gamma, target_noise, noise_clip, limits):
    """Return both critics' mean squared errors against their target."""
    o, a = batch["obs"], batch["act"]
    backup = compute_target(ac, ac_targ, batch, gamma, target_noise, noise_clip, limits)
    q1, q2 = ac.twin_q(o, a)
    loss_q = tf.reduce_mean((q1 - backup) ** 2) + tf.reduce_mean((q2 - backup) ** 2)
    return loss_q, {"Q1Vals": q1, "Q2Vals": q2}


def compute_loss_pi(ac, batch):
    """Return the negated mean value that the first critic assigns to the policy's actions."""
    o = batch["obs"]
    return -tf.reduce_mean(ac.twin_q(o, ac.pi(o))[0])


def td3_update(
    ac,
    ac_targ,
    pi_optimizer,
    q_optimizer,
    batch,
    limits,
    update_policy=True,
    gamma=0.99,
    polyak=0.995,
    target_noise=0.2,
    noise_clip=0.5,
):
    """Lines 8 to 13 of the pseudocode: one step of critics and, if due, policy and targets.

    Returns tensors that measure the step, and the operation that completes it.
    """
    loss_q, info = compute_loss_q(ac, ac_targ, batch, gamma, target_noise, noise_clip, limits)
    step = q_optimizer.minimize(loss_q, ac.vars("q"))
    info["LossQ"] = loss_q

    if update_policy:
        with tf.control_dependencies([step]):  # the policy follows the new critic
            loss_pi = compute_loss_pi(ac, batch)
            pi_step = pi_optimizer.minimize(loss_pi, ac.vars("pi"))
        info["LossPi"] = loss_pi

        with tf.control_dependencies([pi_step]):
            step = polyak_update(ac, ac_targ, polyak)
    return info, step


def td3_learner(
    run,
    ac,
    *,
    gamma,
    polyak,
    pi_lr,
    q_lr,
    act_noise,
    target_noise,
    noise_clip,
    policy_delay,
):
    """Create the TD3 learner for the networks `ac`."""
    ac_targ = target_copy(ac)
    pi_optimizer, q_optimizer = Adam(pi_lr, "pi"), Adam(q_lr, "q")
    policy = NoisyPolicy(make_policy(ac), run.action_space, act_noise)

    # ---------------------------- Gradient update rule ----------------------------
    batch = run.batch("rew", "obs2", "done")  # placeholders
    given = (ac, ac_targ, pi_optimizer, q_optimizer, batch, action_limits(run.action_space))
    settings = (gamma, polyak, target_noise, noise_clip)
    rules = []
    for update_policy in (False, True):
        info, op = td3_update(*given, update_policy, *settings)
        rules.append(Function(batch, info, [op]))

    def update(batch, step):  # here, `batch` contains arrays
        # the delay counts gradient steps over the whole run
        return rules[step % policy_delay == 0](batch, run.noise)

    return Learner(policy, update, ("Q1Vals", "Q2Vals"), ("LossPi", "LossQ"))


@training_function
def td3(
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
    target_noise: float = 0.2,
    noise_clip: float = 0.5,
    policy_delay: int = 2,
    num_test_episodes: int = 10,
    max_ep_len: int | float = 1000,
    logger_kwargs: Mapping[str, Any] = {},
    save_freq: int = 1,
    **options: Unpack[TfOffPolicyOptions],
) -> None:
    """Train a policy with TD3.

    Args:
        actor_critic: function that adds the networks to the graph; called with (x, a, **ac_kwargs,
            action_space=...), where x and a are placeholders. Returns pi, q1, q2 and q1_pi.
        q_lr: learning rate of both Q-functions (Adam); 3e-4 to 1e-3.
        target_noise: standard deviation of the noise on the target policy's action, in the same
            units as `act_noise`. Higher values smooth Q over more actions; 0.1 to 0.3.
        noise_clip: limit to which the target noise is clipped, in the same units; 0.3 to 0.5.
        policy_delay: gradient steps of the critics per update of the policy and the targets,
            counted over the whole run. Higher values give the critics more time; 1 to 3.
    """
    with TfRun("td3") as run:
        # ------------------------------- Initialization -------------------------------
        ac = run.build(actor_critic, ac_kwargs, ("pi", "q1", "q2", "q1_pi"))
        learner = td3_learner(run, ac, **run.arguments_for(td3_learner))
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

    run_file(td3)

"""Soft Actor-Critic (Haarnoja et al. 2018, arXiv:1801.01290 and arXiv:1812.05905).

Idea: also reward the policy for its entropy, so that it keeps exploring and stays random where the
choice of action matters little. The critics learn values that include this bonus. The policy is
stochastic; its gradient passes through its own samples (the reparameterization trick). As in TD3,
the target uses the smaller of two critics; the policy's own noise replaces target policy smoothing.

    python -m spinup.run sac_tf1 --env HalfCheetah-v5
    python -m spinup.algos.tf1.sac.sac --env Pendulum-v1 --epochs 5

This version builds a TensorFlow graph; the README next to this file explains how to read it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from spinup.algos.common.exploration import Learner, SampledPolicy
from spinup.algos.common.loop import Loop
from spinup.algos.tf1.common.acting import GreedyAction, make_policy
from spinup.algos.tf1.common.buffers import make_replay_buffer
from spinup.algos.tf1.common.gradients import Adam
from spinup.algos.tf1.common.graph import Function
from spinup.algos.tf1.common.layers import flat
from spinup.algos.tf1.common.networks import polyak_update, target_copy
from spinup.algos.tf1.common.run import TfRun
from spinup.algos.tf1.sac import core
from spinup.algos.tf1.sac.core import ReplayBuffer as ReplayBuffer
from spinup.runs.arguments import TfOffPolicyOptions, Unpack, training_function
from spinup.utils.tf import tf


def soft_value(ac, ac_q, o, alpha):
    """Return E[min Q_i(o, a) - alpha log pi(a|o)], with a ~ `ac`'s policy and Q_i from `ac_q`.

    For continuous actions, one sample estimates the expectation; for discrete ones, it is exact.
    Returns the values (B,) and log pi (B,).
    """
    found = ac(o, ac.act)
    a, logp = found["pi"], flat(found["logp_pi"])  # (B, act_dim), (B,)
    if core.is_discrete(a):
        logp = core.action_logps(a)  # (B, n)
        q, probs = tf.minimum(*core.every_q(ac_q, o)), tf.exp(logp)
        return tf.reduce_sum(probs * (q - alpha * logp), 1), tf.reduce_sum(probs * logp, 1)
    return tf.minimum(*ac_q.twin_q(o, a)) - alpha * logp, logp


def compute_target(ac, ac_targ, batch, gamma, alpha):
    """Return the target networks' one-step backup, which both critics learn, (B,)."""
    r, o2, d = (batch[k] for k in ("rew", "obs2", "done"))
    q_targ, _ = soft_value(ac, ac_targ, o2, alpha)  # uses the current policy's actions
    return tf.stop_gradient(r + gamma * (1 - d) * q_targ)


def compute_loss_q(ac, ac_targ, batch, gamma, alpha):
    """Return both critics' mean squared errors against their target."""
    o, a = batch["obs"], batch["act"]
    backup = compute_target(ac, ac_targ, batch, gamma, alpha)
    q1, q2 = ac.twin_q(o, a)
    loss_q = tf.reduce_mean((q1 - backup) ** 2) + tf.reduce_mean((q2 - backup) ** 2)
    return loss_q, {"Q1Vals": q1, "Q2Vals": q2}


def compute_loss_pi(ac, batch, alpha):
    """Return the negated mean soft value of the policy's actions."""
    v, logp = soft_value(ac, ac, batch["obs"], alpha)
    return -tf.reduce_mean(v), tf.stop_gradient(logp)


def compute_loss_alpha(log_alpha, logp, target_entropy):
    """Return a loss that raises the temperature if the entropy is below its target (eq. 18)."""
    return -tf.reduce_mean(tf.exp(log_alpha) * (logp + target_entropy))


def sac_update(
    ac,
    ac_targ,
    pi_optimizer,
    q_optimizer,
    alpha_optimizer,
    batch,
    log_alpha,
    target_entropy,
    gamma=0.99,
    polyak=0.995,
):
    """Lines 8 to 12 of the pseudocode: one step of critics, policy, temperature and targets.

    Returns tensors that measure the step, and the operation that completes it.
    """
    alpha = tf.stop_gradient(tf.exp(log_alpha))
    loss_q, info = compute_loss_q(ac, ac_targ, batch, gamma, alpha)
    q_step = q_optimizer.minimize(loss_q, ac.vars("q"))
    info["LossQ"] = loss_q

    with tf.control_dependencies([q_step]):  # the policy follows the new critics
        loss_pi, logp = compute_loss_pi(ac, batch, alpha)
        step = pi_optimizer.minimize(loss_pi, ac.vars("pi"))
    info["LossPi"], info["LogPi"] = loss_pi, logp

    if alpha_optimizer is not None:
        with tf.control_dependencies([step]):
            loss_alpha = compute_loss_alpha(log_alpha, logp, target_entropy)
            step = alpha_optimizer.minimize(loss_alpha, [log_alpha])

    with tf.control_dependencies([step]):
        return info, polyak_update(ac, ac_targ, polyak)


def sac_learner(run, ac, *, gamma, polyak, lr, alpha, target_entropy):
    """Create the SAC learner for the networks `ac`."""
    core.check_actor_critic(ac, run.action_space)
    ac_targ = target_copy(ac)
    pi_optimizer, q_optimizer, alpha_optimizer = Adam(lr, "pi"), Adam(lr, "q"), None
    log_alpha = core.temperature(alpha)
    if isinstance(alpha, str):
        alpha_optimizer = Adam(lr, "alpha")
    if target_entropy is None:
        target_entropy = core.default_target_entropy(run.action_space)
    policy = SampledPolicy(make_policy(ac), run.action_space)

    # ---------------------------- Gradient update rule ----------------------------
    batch = run.batch("rew", "obs2", "done")  # placeholders
    optimizers = (pi_optimizer, q_optimizer, alpha_optimizer)
    info, op = sac_update(ac, ac_targ, *optimizers, batch, log_alpha, target_entropy, gamma, polyak)
    rule, read_alpha = Function(batch, info, [op]), Function({}, tf.exp(log_alpha))

    def update(batch, step):  # here, `batch` contains arrays
        return rule(batch, run.noise)

    def columns(t):
        return {"Alpha": float(read_alpha({}))}

    values = ("Q1Vals", "Q2Vals", "LogPi")
    return Learner(policy, update, values, losses=("LossPi", "LossQ"), columns=columns)


@training_function
def sac(
    env_fn: str | Callable[[], Any],
    actor_critic: Callable[..., Any] = core.mlp_actor_critic,
    ac_kwargs: Mapping[str, Any] = {},
    seed: int = 0,
    steps_per_epoch: int = 4000,
    epochs: int = 100,
    replay_size: int | float = 1000000,
    gamma: float = 0.99,
    polyak: float = 0.995,
    lr: float = 1e-3,
    alpha: float | Literal["auto"] = 0.2,
    batch_size: int = 100,
    start_steps: int = 10000,
    update_after: int = 1000,
    update_every: int = 50,
    num_test_episodes: int = 10,
    max_ep_len: int | float = 1000,
    logger_kwargs: Mapping[str, Any] = {},
    save_freq: int = 1,
    *,
    target_entropy: float | None = None,
    **options: Unpack[TfOffPolicyOptions],
) -> None:
    """Train a policy with SAC.

    Args:
        actor_critic: function that adds the networks to the graph; called with (x, a, **ac_kwargs,
            action_space=...), where x and a are placeholders. Returns mu, pi, logp_pi, q1 and
            q2.
        lr: learning rate of the policy, the Q-functions and the temperature (Adam); 3e-4 to 1e-3.
        alpha: weight of the entropy in the objective (the temperature). Higher values keep the
            policy more random; 0.05 to 0.3 for rewards around 1, or 'auto' to learn it.
        target_entropy: the entropy that alpha='auto' aims for, in action units. None means the sum
            of log(half range) - 1 over the dimensions of a Box, or half the uniform distribution's
            entropy for discrete actions.
    """
    with TfRun("sac") as run:
        # ------------------------------- Initialization -------------------------------
        ac = run.build(actor_critic, ac_kwargs, ("mu", "pi", "logp_pi", "q1", "q2"))
        learner = sac_learner(run, ac, **run.arguments_for(sac_learner))
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
            loop.log(learner.columns(loop.t))


if __name__ == "__main__":
    from spinup.cli.main import run_file

    run_file(sac)

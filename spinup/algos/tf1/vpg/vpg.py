"""Vanilla Policy Gradient with GAE-lambda advantages (Sutton et al. 2000; Schulman et al. 2016).

Idea: make actions more likely if they turned out better than the value function expected, and less
likely if they turned out worse. The policy takes one gradient step per epoch, because the gradient
is valid only for the policy that collected the data. The value function is then fitted to the
returns.

    python -m spinup.run vpg_tf1 --env HalfCheetah-v5
    python -m spinup.algos.tf1.vpg.vpg --env CartPole-v1 --pi_lr 0.01

This version builds a TensorFlow graph; the README next to this file explains how to read it.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from spinup.algos.common.loop import Loop
from spinup.algos.tf1.common.acting import GreedyAction, make_policy
from spinup.algos.tf1.common.advantages import EpochBuffer, update_normalizer
from spinup.algos.tf1.common.gradients import Adam
from spinup.algos.tf1.common.layers import flat
from spinup.algos.tf1.common.nets import approx_kl, entropy
from spinup.algos.tf1.common.objectives import evaluate, gradient_step, objective
from spinup.algos.tf1.common.run import TfRun
from spinup.algos.tf1.vpg import core
from spinup.algos.tf1.vpg.core import VPGBuffer as VPGBuffer
from spinup.runs.arguments import TfOptions, Unpack, training_function
from spinup.utils.tf import tf


def compute_loss_pi(ac, batch):
    """Return a loss whose gradient is the negative policy gradient; its value has no meaning."""
    logp = flat(ac.logp)  # (B,)
    loss_pi = -tf.reduce_mean(logp * batch["adv"])
    return loss_pi, {"KL": approx_kl(batch["logp"], logp), "Entropy": entropy(ac)}


def compute_loss_v(ac, batch):
    """Return the value function's mean squared error against the rewards-to-go."""
    return tf.reduce_mean((flat(ac.v) - batch["ret"]) ** 2)


def vpg_update(pi_loss, v_loss, batches, shards, train_v_iters=80):
    """Lines 6 to 8 of the pseudocode: one policy step, then fit the value function."""
    loss_pi_old, _ = evaluate(pi_loss, batches, shards)
    loss_v_old, _ = evaluate(v_loss, batches, shards)

    gradient_step(pi_loss, batches, shards)

    for _ in range(train_v_iters):
        gradient_step(v_loss, batches, shards)

    # Measured after the step: before it, the KL divergence from the old policy is always zero.
    loss_pi, info = evaluate(pi_loss, batches, shards)
    loss_v, _ = evaluate(v_loss, batches, shards)
    return {
        "LossPi": loss_pi_old,
        "LossV": loss_v_old,
        "DeltaLossPi": loss_pi - loss_pi_old,
        "DeltaLossV": loss_v - loss_v_old,
        **info,
    }


@training_function
def vpg(
    env_fn: str | Callable[[], Any],
    actor_critic: Callable[..., Any] = core.mlp_actor_critic,
    ac_kwargs: Mapping[str, Any] = {},
    seed: int = 0,
    steps_per_epoch: int = 4000,
    epochs: int = 50,
    gamma: float = 0.99,
    pi_lr: float = 3e-4,
    vf_lr: float = 1e-3,
    train_v_iters: int = 80,
    lam: float = 0.97,
    max_ep_len: int | float = 1000,
    logger_kwargs: Mapping[str, Any] = {},
    save_freq: int = 10,
    *,
    num_test_episodes: int = 0,
    **options: Unpack[TfOptions],
) -> None:
    """Train a policy with the vanilla policy gradient.

    Args:
        actor_critic: function that adds the networks to the graph; called with (x, a, **ac_kwargs,
            action_space=...), where x and a are placeholders. Returns pi, logp, logp_pi and v.
        pi_lr: learning rate of the policy (Adam), which takes one step per epoch; 3e-4 to 1e-2.
    """
    with TfRun("vpg") as run:
        # ------------------------------- Initialization -------------------------------
        ac = run.build(actor_critic, ac_kwargs)
        pi_optimizer = Adam(pi_lr, "pi")
        vf_optimizer = Adam(vf_lr, "vf")
        policy, greedy = make_policy(ac), GreedyAction(ac, run.action_space)
        loop = Loop(run)
        buffer = EpochBuffer(run, loop, ac)

        # ---------------------------- Gradient update rule ----------------------------
        batch = run.batch("adv", "ret", "logp")  # placeholders
        pi_loss = objective(compute_loss_pi(ac, batch), batch, pi_optimizer)
        v_loss = objective(compute_loss_v(ac, batch), batch, vf_optimizer)
        fixed = {"shards": run.shards, **run.arguments_for(vpg_update)}
        update = partial(vpg_update, pi_loss, v_loss, **fixed)

        # -------------------------------- Training loop -------------------------------
        for _epoch in run.epochs():
            for _ in loop.steps():
                a, v, logp = loop.act(policy)  # v and logp are None: `get` computes them
                o, a, r, _, _ = loop.step(a)
                buffer.store(o, a, r, v, logp)
                for path in loop.paths:
                    # Terminated: last_obs is None. Truncated: bootstrap from V(last_obs).
                    buffer.finish_path(path.i, path.last_obs)
            batches = buffer.get(gamma, lam)  # values and GAE, one batch per shard
            info = update(batches)
            update_normalizer(run, batches)
            if num_test_episodes:
                loop.evaluate(greedy.renewed(), num_test_episodes)
            loop.log(info, VVals=[batch["val"] for batch in batches])


if __name__ == "__main__":
    from spinup.cli.main import run_file

    run_file(vpg)

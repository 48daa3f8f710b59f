"""Vanilla Policy Gradient with GAE-lambda advantages (Sutton et al. 2000; Schulman et al. 2016).

Idea: make actions more likely if they turned out better than the value function expected, and less
likely if they turned out worse. The policy takes one gradient step per epoch, because the gradient
is valid only for the policy that collected the data. The value function is then fitted to the
returns.

    python -m spinup.run vpg --env HalfCheetah-v5
    python -m spinup.algos.pytorch.vpg.vpg --env CartPole-v1 --pi_lr 0.01

The README next to this file lists the differences from the papers.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import nn

from spinup.algos.common.loop import Loop
from spinup.algos.pytorch.common.acting import make_get_action, make_policy
from spinup.algos.pytorch.common.advantages import EpochBuffer, update_normalizer
from spinup.algos.pytorch.common.gradients import Adam, evaluate, over_shards
from spinup.algos.pytorch.common.nets import approx_kl, entropy, pi_and_logp, values
from spinup.algos.pytorch.common.run import TorchRun
from spinup.algos.pytorch.vpg import core
from spinup.algos.pytorch.vpg.core import VPGBuffer as VPGBuffer
from spinup.runs.arguments import TorchOptions, Unpack, training_function


def compute_loss_pi(ac, batch):
    """Return a loss whose gradient is the negative policy gradient; its value has no meaning."""
    pi, logp = pi_and_logp(ac, batch)
    loss_pi = -(logp * batch["adv"]).mean()
    return loss_pi, {"KL": approx_kl(batch["logp"], logp), "Entropy": entropy(pi)}


def compute_loss_v(ac, batch):
    """Return the value function's mean squared error against the rewards-to-go."""
    v, ret = values(ac, batch), batch["ret"]  # (B,)
    error = (v - ret) ** 2
    return error.mean()


def vpg_update(ac, pi_optimizer, vf_optimizer, batches, shards, train_v_iters=80):
    """Lines 6 to 8 of the pseudocode: one policy step, then fit the value function."""
    pi_loss, v_loss = partial(compute_loss_pi, ac), partial(compute_loss_v, ac)
    loss_pi_old, _ = evaluate(pi_loss, batches, shards)
    loss_v_old, _ = evaluate(v_loss, batches, shards)

    for loss_pi in over_shards((pi_loss(batch)[0] for batch in batches), ac.pi, shards):
        loss_pi.backward()
    pi_optimizer.step()

    for _ in range(train_v_iters):
        for loss_v in over_shards((v_loss(batch) for batch in batches), ac.v, shards):
            loss_v.backward()
        vf_optimizer.step()

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
    actor_critic: Callable[..., nn.Module] = core.MLPActorCritic,
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
    **options: Unpack[TorchOptions],
) -> nn.Module:
    """Train a policy with the vanilla policy gradient.

    Args:
        pi_lr: learning rate of the policy (Adam), which takes one step per epoch; 3e-4 to 1e-2.

    Returns:
        The trained actor-critic.
    """
    with TorchRun("vpg") as run:
        # ------------------------------- Initialization -------------------------------
        ac = run.build(actor_critic, ac_kwargs)
        pi_optimizer = Adam(ac.pi.parameters(), lr=pi_lr)
        vf_optimizer = Adam(ac.v.parameters(), lr=vf_lr)
        run.track(pi_optimizer=pi_optimizer, vf_optimizer=vf_optimizer)
        policy = make_policy(ac, run.device)
        loop = Loop(run)
        buffer = EpochBuffer(run, loop)

        # ---------------------------- Gradient update rule ----------------------------
        fixed = {"shards": run.shards, **run.arguments_for(vpg_update)}
        update = partial(vpg_update, ac, pi_optimizer, vf_optimizer, **fixed)

        # -------------------------------- Training loop -------------------------------
        for _epoch in run.epochs():
            for _ in loop.steps():
                a, v, logp = loop.act(policy)  # if v and logp are None, `get` computes them
                o, a, r, _, _ = loop.step(a)
                buffer.store(o, a, r, v, logp)
                for path in loop.paths:
                    # Terminated: last_obs is None. Truncated: bootstrap from V(last_obs).
                    buffer.finish_path(path.i, path.last_obs)
            batches = buffer.get(ac, gamma, lam)  # values and GAE, one batch per shard
            info = update(batches)
            update_normalizer(ac, batches, run.shards)
            if num_test_episodes:
                loop.evaluate(make_get_action(ac, deterministic=True), num_test_episodes)
            loop.log(info, VVals=[batch["val"] for batch in batches])
    return ac


if __name__ == "__main__":
    from spinup.cli.main import run_file

    run_file(vpg)

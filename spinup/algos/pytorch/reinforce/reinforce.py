"""REINFORCE with the average return as its baseline (Williams 1992).

Idea: run the policy for an epoch, then make each action more likely in proportion to how far the
return that followed it exceeds a baseline. There is no value function; the baseline is the epoch's
average return.

    python -m spinup.run reinforce --env CartPole-v1
    python -m spinup.algos.pytorch.reinforce.reinforce --env CartPole-v1 --pi_lr 0.01

The README next to this file lists the differences from the paper.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import nn

from spinup.algos.common.loop import Loop
from spinup.algos.pytorch.common.acting import make_get_action, make_policy
from spinup.algos.pytorch.common.advantages import EpochBuffer, update_normalizer
from spinup.algos.pytorch.common.gradients import Adam, evaluate, over_shards
from spinup.algos.pytorch.common.nets import approx_kl, entropy, pi_and_logp
from spinup.algos.pytorch.common.run import TorchRun
from spinup.algos.pytorch.reinforce import core
from spinup.runs.arguments import TorchOptions, Unpack, training_function
from spinup.runs.resuming import Scalar


def compute_loss_pi(ac, batch):
    """Return a loss whose gradient is the negative policy gradient; its value has no meaning."""
    pi, logp = pi_and_logp(ac, batch)
    loss_pi = -(logp * batch["adv"]).mean()
    return loss_pi, {"KL": approx_kl(batch["logp"], logp), "Entropy": entropy(pi)}


def reinforce_update(ac, pi_optimizer, batches, shards):
    """Line 6 of the pseudocode: one gradient step on one epoch of data."""
    pi_loss = partial(compute_loss_pi, ac)
    loss_pi_old, _ = evaluate(pi_loss, batches, shards)

    for loss_pi in over_shards((pi_loss(batch)[0] for batch in batches), ac.pi, shards):
        loss_pi.backward()
    pi_optimizer.step()

    # Measured after the step: before it, the KL divergence from the old policy is always zero.
    loss_pi, info = evaluate(pi_loss, batches, shards)
    return {"LossPi": loss_pi_old, "DeltaLossPi": loss_pi - loss_pi_old, **info}


@training_function
def reinforce(
    env_fn: str | Callable[[], Any],
    actor_critic: Callable[..., nn.Module] = core.MLPPolicy,
    ac_kwargs: Mapping[str, Any] = {},
    seed: int = 0,
    steps_per_epoch: int = 4000,
    epochs: int = 50,
    gamma: float = 0.99,
    pi_lr: float = 1e-2,
    max_ep_len: int | float = 1000,
    logger_kwargs: Mapping[str, Any] = {},
    save_freq: int = 10,
    *,
    num_test_episodes: int = 0,
    **options: Unpack[TorchOptions],
) -> nn.Module:
    """Train a policy with REINFORCE.

    Args:
        actor_critic: class with the methods `step`, `act` and `pi`; called with
            (observation_space, action_space, **ac_kwargs). A value function is not used.
        ac_kwargs: keyword arguments of the actor-critic. The default class takes `hidden_sizes`,
            `activation`, `normalize_obs`, `orthogonal_init` and, for images, `encoder`.
        pi_lr: learning rate of the policy (Adam), which takes one step per epoch; 1e-3 to 3e-2.

    Returns:
        The trained actor-critic.
    """
    with TorchRun("reinforce") as run:
        # ------------------------------- Initialization -------------------------------
        ac = run.build(actor_critic, ac_kwargs)
        pi_optimizer = Adam(ac.pi.parameters(), lr=pi_lr)
        baseline = Scalar(0.0)  # the last epoch's average return
        run.track(pi_optimizer=pi_optimizer, baseline=baseline)
        policy = make_policy(ac, run.device)
        loop = Loop(run)
        buffer = EpochBuffer(run, loop)

        # ---------------------------- Gradient update rule ----------------------------
        update = partial(reinforce_update, ac, pi_optimizer, shards=run.shards)

        # -------------------------------- Training loop -------------------------------
        for _epoch in run.epochs():
            for _ in loop.steps():
                a, v, logp = loop.act(policy)
                o, a, r, _, _ = loop.step(a)
                buffer.store(o, a, r, v, logp)
                for path in loop.paths:
                    # Terminated: last_obs is None. Truncated: the baseline estimates the rest.
                    buffer.finish_path(path.i, path.last_obs)
            batches = core.rewards_to_go(buffer, ac, gamma, baseline)
            info = update(batches)
            update_normalizer(ac, batches, run.shards)
            if num_test_episodes:
                loop.evaluate(make_get_action(ac, deterministic=True), num_test_episodes)
            loop.log({**info, "Baseline": baseline.value})
    return ac


if __name__ == "__main__":
    from spinup.cli.main import run_file

    run_file(reinforce)

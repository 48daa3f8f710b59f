"""Deep Q-Network with double Q-learning (Mnih et al. 2015; van Hasselt et al. 2016).

Idea: learn the value Q(s, a) of every discrete action by regression on the reward plus the
network's own estimate one step later. Take the best action, or occasionally a random one. Two
techniques keep this stable: transitions are sampled at random from a large replay buffer, and the
targets come from a copy of the network that follows it slowly.

    python -m spinup.run dqn --env CartPole-v1
    python -m spinup.algos.pytorch.dqn.dqn --env Acrobot-v1 --n_step 5 --epochs 20

The README next to this file lists the differences from the papers.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import torch
from torch import nn
from torch.nn.functional import huber_loss, mse_loss

from spinup.algos.common.exploration import Learner, linear_schedule
from spinup.algos.common.loop import Loop
from spinup.algos.pytorch.common.acting import make_get_action, make_policy
from spinup.algos.pytorch.common.compiling import compiled
from spinup.algos.pytorch.common.gradients import Adam, clip_grad_norm
from spinup.algos.pytorch.common.run import TorchRun
from spinup.algos.pytorch.common.targets import polyak_update, target_copy
from spinup.algos.pytorch.dqn import core
from spinup.algos.pytorch.dqn.core import ReplayBuffer as ReplayBuffer
from spinup.runs.arguments import OffPolicyOptions, Unpack, training_function


def compute_target(ac, ac_targ, batch, gamma, double_q=True):
    """Return the target network's backup, which Q of the chosen actions learns, (B,)."""
    r, o2, d = (batch[k] for k in ("rew", "obs2", "done"))
    with torch.no_grad():
        q_targ = ac_targ.q(o2)  # (B, actions)
        # Double Q-learning: one network chooses the action, the other evaluates it. A maximum over
        # noisy estimates would favor overestimated ones.
        a2 = (ac.q(o2) if double_q else q_targ).argmax(-1, keepdim=True)
        q2 = q_targ.gather(-1, a2).squeeze(-1)  # (B,)
        return r + batch.get("discount", gamma) * (1 - d) * q2  # n steps: gamma^n


def compute_loss_q(ac, ac_targ, batch, gamma, double_q=True, loss="huber"):
    """Return the loss of Q against its target, and the temporal-difference error of every row."""
    o, a = batch["obs"], batch["act"]
    backup = compute_target(ac, ac_targ, batch, gamma, double_q)
    q = ac.q(o).gather(-1, a.unsqueeze(-1)).squeeze(-1)
    error = (huber_loss if loss == "huber" else mse_loss)(q, backup, reduction="none")
    if "weight" in batch:  # prioritized replay: corrects for rows that are sampled more often
        error = batch["weight"] * error
    q = q.detach()
    return error.mean(), {"QVals": q}, q - backup


def dqn_update(
    ac,
    ac_targ,
    q_optimizer,
    batch,
    update_target=True,
    gamma=0.99,
    polyak=0.0,
    double_q=True,
    loss="huber",
    max_grad_norm=None,
):
    """Lines 8 to 10 of the pseudocode: one gradient step of Q and, if due, a target update.

    Returns the quantities to log, and the temporal-difference error of each row of the batch.
    """
    loss_q, info, td_error = compute_loss_q(ac, ac_targ, batch, gamma, double_q, loss)
    q_optimizer.zero_grad()
    loss_q.backward()
    clip_grad_norm(q_optimizer, max_grad_norm)
    q_optimizer.step()
    if update_target:
        polyak_update(ac, ac_targ, polyak)
    return {**info, "LossQ": loss_q.detach()}, td_error


def dqn_learner(
    run,
    ac,
    *,
    gamma,
    polyak,
    q_lr,
    target_update_every,
    eps_start,
    eps_end,
    eps_steps,
    double_q,
    loss,
    max_grad_norm,
    prioritize=lambda batch, td_error: None,
):
    """Create the DQN learner for the network `ac`, used by the training loop below and by HER."""
    ac_targ = target_copy(ac)
    q_optimizer = Adam(ac.q.parameters(), lr=q_lr)
    run.track(ac_targ=ac_targ, q_optimizer=q_optimizer)
    greedy = make_policy(ac, run.device, on_policy=False)
    policy = core.EpsilonGreedy(greedy, int(run.action_space.n))

    def epsilon(t):
        return linear_schedule(eps_start, eps_end, t / eps_steps)

    def begin_step(t):
        policy.epsilon = epsilon(t)

    def columns(t):
        return {"Epsilon": epsilon(t)}

    # ---------------------------- Gradient update rule ----------------------------
    # rule(batch, update_target=...) is `dqn_update` with the other arguments filled in.
    rule = compiled(run, dqn_update, q_optimizer)
    rule = partial(rule, ac, ac_targ, q_optimizer, gamma=gamma, polyak=polyak)
    rule = partial(rule, double_q=double_q, loss=loss, max_grad_norm=max_grad_norm)

    def update(batch, step):
        info, td_error = rule(batch, update_target=(step + 1) % target_update_every == 0)
        prioritize(batch, td_error)
        return info

    target = partial(compute_target, ac, ac_targ, gamma=gamma, double_q=double_q)
    values, losses, optimizers = ("QVals",), ("LossQ",), (q_optimizer,)
    return Learner(policy, update, values, losses, target, begin_step, columns, optimizers)


@training_function(updates_per_step=0.25)
def dqn(
    env_fn: str | Callable[[], Any],
    actor_critic: Callable[..., nn.Module] = core.MLPQNetwork,
    ac_kwargs: Mapping[str, Any] = {},
    seed: int = 0,
    steps_per_epoch: int = 4000,
    epochs: int = 100,
    replay_size: int | float = 100000,
    gamma: float = 0.99,
    polyak: float = 0.995,
    q_lr: float = 3e-4,
    batch_size: int = 64,
    start_steps: int = 1000,
    update_after: int = 1000,
    update_every: int = 4,
    target_update_every: int = 1,
    eps_start: float = 1.0,
    eps_end: float = 0.05,
    eps_steps: int = 10000,
    double_q: bool = True,
    loss: Literal["huber", "squared"] = "huber",
    num_test_episodes: int = 10,
    max_ep_len: int | float = 1000,
    logger_kwargs: Mapping[str, Any] = {},
    save_freq: int = 1,
    *,
    n_step: int = 3,
    prioritized: bool = False,
    prio_alpha: float = 0.6,
    prio_beta: float = 0.4,
    prio_beta_steps: int = 100000,
    max_grad_norm: float | None = None,
    anneal_lr: bool = True,
    **options: Unpack[OffPolicyOptions],
) -> nn.Module:
    """Train a policy with DQN.

    Args:
        actor_critic: class with the methods `act` and `q` (the values of all actions); called with
            (observation_space, action_space, **ac_kwargs).
        ac_kwargs: keyword arguments of the network. The default class takes `hidden_sizes`,
            `activation`, `dueling` and, for images, `encoder`.
        replay_size: capacity of the replay buffer in transitions; the oldest are overwritten. 1e4
            to 1e6.
        polyak: fraction of the target network that each update keeps. 0.99 to 0.999 moves the
            target slowly and continuously; 0 with target_update_every=250 copies the network.
        q_lr: learning rate (Adam); 1e-4 to 1e-3.
        batch_size: transitions per gradient step. Larger batches are less noisy and slower; 32 to
            256.
        target_update_every: gradient steps between updates of the target network. Higher values are
            more stable and slower; 100 to 10000 with polyak=0.
        eps_start: probability of a random action at the beginning; 1 is usual.
        eps_end: probability of a random action after `eps_steps`; 0.01 to 0.1.
        eps_steps: environment steps over which that probability decreases linearly from eps_start
            to eps_end; a tenth of the run is usual.
        double_q: choose the next action with the network itself and evaluate it with the target
            network. False uses the target network for both, which overestimates values.
        loss: 'huber' (quadratic up to an error of 1, linear beyond) or 'squared'.
        n_step: number of rewards summed before bootstrapping. Higher values learn faster from
            sparse rewards but are biased by old actions; 1 to 5.
        prioritized: sample transitions with a large error more often.
        prio_alpha: exponent of the priorities. 0 samples uniformly, 1 in proportion to the error;
            0.4 to 0.7.
        prio_beta: initial exponent of the importance weights in the loss. 1 corrects the sampling
            bias fully; 0.4 to 1.
        prio_beta_steps: environment steps over which prio_beta rises to 1; the whole run is usual.
        anneal_lr: decrease the learning rate linearly to zero over the run, so that the policy
            settles. A resumed run then needs the same number of epochs.

    Returns:
        The trained network.
    """
    with TorchRun("dqn") as run:
        # ------------------------------- Initialization -------------------------------
        ac = run.build(actor_critic, ac_kwargs)
        replay = core.Replay(run, replay_size, n_step, gamma, prio_alpha if prioritized else None)
        arguments = {**run.arguments_for(dqn_learner), "prioritize": replay.update_priorities}
        learner = dqn_learner(run, ac, **arguments)
        loop = Loop(run, learner.values, learner.losses, learner.target)

        # -------------------------------- Training loop -------------------------------
        for epoch in run.epochs():
            if anneal_lr:
                (q_optimizer,) = learner.optimizers
                q_optimizer.set_lr(q_lr * (1 - epoch / epochs))
            for t in loop.steps():
                learner.begin_step(t)  # sets epsilon
                a = loop.act(learner.policy, start_steps)
                o, a, r, o2, d = loop.step(a)
                replay.store(o, a, r, o2, d, loop.ended, loop.took)
                n = loop.updates_due(update_after, update_every, options["updates_per_step"])
                beta = linear_schedule(prio_beta, 1.0, t / prio_beta_steps)
                for batch in loop.sample(replay, n, batch_size, beta=beta):
                    loop.record(learner.update(batch, loop.updates))
            loop.evaluate(make_get_action(ac, deterministic=True), num_test_episodes)
            loop.log(learner.columns(loop.t))
    return ac


if __name__ == "__main__":
    from spinup.cli.main import run_file

    run_file(dqn)

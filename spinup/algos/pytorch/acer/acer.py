"""Actor-Critic with Experience Replay (Wang et al. 2017, arXiv:1611.01224).

Idea: an actor-critic that learns from stored trajectories too. Three things make that work: targets
of the critic that are right whatever policy acted (Retrace); probability ratios that are cut off at
`c`, with what lies beyond put back through the critic; and steps of the policy that may not lead
far away from an average of past policies. `continuous.py` has what differs for continuous actions.

    python -m spinup.run acer --env CartPole-v1
    python -m spinup.algos.pytorch.acer.acer --env CartPole-v1 --num_envs 8

The README beside this file lists what differs from the paper.
"""

import torch
from torch.nn.functional import log_softmax
from torch.optim import Adam

from spinup.algos.pytorch.acer import core
from spinup.algos.pytorch.acer.core import TrajectoryBuffer as TrajectoryBuffer
from spinup.algos.pytorch.acer.core import chosen, minimize, polyak_update, target_copy
from spinup.cli.plan import main


def retrace(q, v2, rho, batch, gamma=0.99, lam=1.0):
    """The Retrace targets Qret (eq. 5) of N trajectories of T steps, (T, N).

    `q` are the Q(s_t, a_t), `v2` the V of what followed each step, `rho` the pi / mu of its action.
    Nothing is worth anything after a step that terminated its episode. One that was cut goes on
    with V, and so does the last one of a trajectory; the episode that comes next has no say.
    """
    delta = batch["rew"] + gamma * (1 - batch["done"]) * v2 - q  # (T, N)
    trace = gamma * lam * rho[1:].clamp(max=1) * (1 - batch["ended"][:-1])  # (T - 1, N)
    correction = [delta[-1]]  # Qret - Q, beginning with the last step
    for t in reversed(range(len(trace))):
        correction.append(delta[t] + trace[t] * correction[-1])
    return q + torch.stack(correction[::-1])


def compute_loss_q(q, q_ret):
    """Squared errors of Q(s_t, a_t) against the Retrace targets (eq. 6), (T, N)."""
    return (q - q_ret) ** 2


def compute_loss_pi(phi, q, q_ret, batch, c=10.0, ent_coef=0.0):
    """Losses (T, N) whose gradients are those of eq. 9 and of an entropy bonus, negated.

    `phi` are the logits of the policy and `q` the values of all actions, (T, N, A).
    """
    logp, logmu = log_softmax(phi, -1), batch["logmu"]  # (T, N, A)
    logp_a, logmu_a = chosen(logp, batch["act"]), chosen(logmu, batch["act"])  # (T, N)
    with torch.no_grad():
        pi = logp.exp()
        v = (pi * q).sum(-1)
        rho = torch.exp(logp_a - logmu_a)
        # pi [(rho - c) / rho]_+ without the division: what is left of pi where mu cannot reach it
        beyond = (pi - c * logmu.exp()).clamp(min=0)  # (T, N, A)
    objective = rho.clamp(max=c) * (q_ret - v) * logp_a
    objective = objective + (beyond * (q - v.unsqueeze(-1)) * logp).sum(-1)
    return -(objective + ent_coef * core.entropy(logp))


def trust_region(g, k, delta):
    """The z nearest to g under which the divergence grows by at most `delta` (eq. 11 and 12).

    `g` and `k` are the gradients of the objective and of the KL divergence from the average policy
    at the outputs of the policy network, (T, N, A). Every state has a constraint k.z <= delta.
    """
    excess = (k * g).sum(-1, keepdim=True) - delta
    norm = k.square().sum(-1, keepdim=True).clamp(min=1e-20)  # k = 0 holds nothing back
    return g - (excess / norm).clamp(min=0) * k


def acer_update(
    ac,
    pi_avg,
    pi_optimizer,
    q_optimizer,
    batch,
    gamma=0.99,
    lam=1.0,
    c=10.0,
    delta=1.0,
    polyak=0.99,
    ent_coef=0.0,
):
    """Lines 8 to 13 of the pseudocode: one step of critic and policy on N trajectories."""
    o, a, o2 = batch["obs"], batch["act"], batch["obs2"]
    weight = batch["valid"] / batch["valid"].mean().clamp(min=1e-8)  # (T, N), 1 on average
    phi, q = core.logits(ac.pi, o), ac.q(o)  # (T, N, A)
    with torch.no_grad():
        v2 = (core.logits(ac.pi, o2).softmax(-1) * ac.q(o2)).sum(-1)  # (T, N)
        rho = torch.exp(chosen(log_softmax(phi, -1) - batch["logmu"], a))
        q_ret = retrace(chosen(q, a), v2, rho, batch, gamma, lam)
        logp_avg = log_softmax(core.logits(pi_avg, o), -1)
    loss_q = (weight * compute_loss_q(chosen(q, a), q_ret)).mean()
    minimize(loss_q, q_optimizer)

    def losses(out):
        kl = (logp_avg.exp() * (logp_avg - log_softmax(out, -1))).sum(-1)  # KL(average || pi)
        return compute_loss_pi(out, q.detach(), q_ret, batch, c, ent_coef), kl

    loss_pi, kl, bent = policy_step(phi, losses, delta, weight, pi_optimizer)
    polyak_update(ac.pi, pi_avg, polyak)
    return {
        "QVals": chosen(q, a).detach(),
        "LossPi": loss_pi,
        "LossQ": loss_q.detach(),
        "KL": kl,
        "Entropy": core.entropy(log_softmax(phi.detach(), -1)).mean(),
        "ClipFrac": (rho > c).float().mean(),
        "TrustFrac": bent,
    }


def policy_step(phi, losses, delta, weight, pi_optimizer):
    """One step of the policy. `losses(out)`: its loss and KL(average || pi), (T, N) each.

    They meet at the outputs of the policy network: only what the trust region leaves of the
    gradient there goes on to the parameters.
    """
    out = phi.detach().requires_grad_()
    loss_pi, kl = losses(out)
    (g,), (k,) = (torch.autograd.grad(x.sum(), out) for x in (-loss_pi, kl))
    z = trust_region(g, k, delta)
    minimize(-(weight * (z * phi).sum(-1)).mean(), pi_optimizer)
    return (weight * loss_pi).mean().detach(), kl.mean().detach(), (z != g).any(-1).float().mean()


def acer(
    env_fn,
    actor_critic=core.MLPActorCritic,
    ac_kwargs={},
    seed=0,
    steps_per_epoch=4000,
    epochs=50,
    replay_size=50000,
    gamma=0.99,
    lam=1.0,
    n_steps=20,
    replay_ratio=4.0,
    c=10.0,
    delta=1.0,
    polyak=0.99,
    pi_lr=1e-3,
    q_lr=1e-3,
    ent_coef=0.001,
    num_test_episodes=10,
    max_ep_len=1000,
    logger_kwargs={},
    save_freq=1,
    *,
    anneal_lr=False,
    dueling_samples=5,
    num_envs=1,
    vector="sync",
    shards=None,
    num_threads=None,
    device="cpu",
    resume=False,
    overwrite=False,
    progress=False,
):
    """Train a policy with ACER.

    Args:
        env_fn: function of no arguments that makes a fresh environment (Gymnasium interface).
        actor_critic: class whose instances have `act`, `pi` (a distribution with `logits`) and `q`
            (the values of all actions); called with (observation_space, action_space,
            **ac_kwargs). Continuous actions: a Gaussian, and `q` as `core.StochasticDuelingQ`.
        ac_kwargs: keyword arguments of the actor-critic. The default class takes `hidden_sizes`,
            `activation`, `orthogonal_init` and, for continuous actions, `std`.
        seed: decides every random number of the run; zero or more.
        steps_per_epoch: steps between two rows of the log, over all environments; 1000 to 10000.
        epochs: number of epochs; the run takes epochs x steps_per_epoch steps. 20 to 1000 is usual.
        replay_size: transitions kept for replay, over all environments; the oldest give way. More
            remembers longer what old policies did; 1e4 to 1e6.
        gamma: discount factor. Closer to 1 looks further ahead and is noisier; 0.9 to 0.999.
        lam: lambda of Retrace. Lower leans more on the critic: less variance, more bias; 0.9 to 1.
        n_steps: length of a trajectory: steps in each environment between two updates, and what a
            replay takes from each. Longer looks further before it relies on the critic; 5 to 50.
        replay_ratio: replayed updates for each one on fresh data, on average (a Poisson number).
            More learns more from the same steps and is slower; 0 to 8.
        c: probability ratios above this are cut off and the rest is left to the critic. Larger is
            noisier and relies less on the critic; 1 to 10.
        delta: how much a step may raise the KL divergence from the average policy, to first order.
            Smaller holds the policy back more; 0.1 to 1.
        polyak: how much of the average policy stays at each update. Closer to 1 makes it slower,
            and the trust region around it tighter; 0.95 to 0.999.
        pi_lr: learning rate of the policy (Adam); 1e-4 to 3e-3.
        q_lr: learning rate of the critic (Adam); 3e-4 to 3e-3.
        ent_coef: weight of an entropy bonus in the objective. Raising it keeps the policy random
            for longer; 0 to 0.01. (Continuous actions: no effect, their width is fixed.)
        num_test_episodes: episodes with the most likely actions at the end of each epoch, in an
            environment of their own; 5 to 20.
        max_ep_len: steps after which an episode is cut and its rest estimated; 200 to 1000.
        logger_kwargs: keyword arguments of `EpochLogger`: output_dir, exp_name, sinks and others.
        save_freq: epochs between two saves of policy and checkpoint; at least one a minute anyway.
        anneal_lr: let both learning rates fall linearly to zero over the run.
        dueling_samples: continuous actions that each advantage is compared with; 1 to 20.
        num_envs: environments stepped side by side in each shard; must divide the steps. 1 to 64.
        vector: 'sync' steps them one after the other in this process, 'async' each in its own.
        shards: parts the data is split into; decides rounding. None means one for each process.
        num_threads: threads of torch and BLAS. None means 1, or 2 by a rule (docs/adr/0008).
        device: where the networks live, 'cpu' or 'cuda'.
        resume: continue the run in logger_kwargs['output_dir'] exactly where it was saved.
        overwrite: delete a run that is already there instead of keeping its files aside.
        progress: show a progress bar instead of the table of each epoch.

    Returns:
        The trained actor-critic.
    """
    core.check_arguments(n_steps, replay_ratio, c, delta, dueling_samples)
    with core.TorchRun("acer", locals()) as run:
        # ------------------------------- Initialization -------------------------------
        ac = run.build(actor_critic, ac_kwargs)
        pi_avg = target_copy(ac.pi)
        pi_optimizer = Adam(ac.pi.parameters(), lr=pi_lr, fused=True)
        q_optimizer = Adam(ac.q.parameters(), lr=q_lr, fused=True)
        run.track(pi_avg=pi_avg, pi_optimizer=pi_optimizer, q_optimizer=q_optimizer)
        buffer = core.make_trajectory_buffer(run, replay_size, n_steps)
        continuous = isinstance(run.action_space, core.Box)
        policy = (core.GaussianBehavior if continuous else core.Behavior)(ac.pi, run.device)
        losses = ("LossPi", "LossQ", "KL", "Entropy", "ClipFrac", "TrustFrac")
        loop = core.Interaction(run, values=("QVals",), losses=losses)

        # ---------------------------- Gradient update rule ----------------------------
        from spinup.algos.pytorch.acer.continuous import continuous_update  # which needs this file

        rule = {"gamma": gamma, "lam": lam, "c": c, "delta": delta, "polyak": polyak}

        def update(batch):
            args = (ac, pi_avg, pi_optimizer, q_optimizer, batch)
            if continuous:
                return continuous_update(*args, **rule, dueling_samples=dueling_samples)
            return acer_update(*args, **rule, ent_coef=ent_coef)

        # -------------------------------- Training loop -------------------------------
        for epoch in run.epochs():
            if anneal_lr:
                left = core.linear_schedule(1.0, 0.0, epoch / epochs)
                pi_optimizer.param_groups[0]["lr"] = pi_lr * left
                q_optimizer.param_groups[0]["lr"] = q_lr * left
            for _t in loop.steps():
                a = loop.act(policy)
                o, _, r, o2, d = loop.step(a)
                ended, valid = loop.streams.ended, loop.streams.valid
                a = a if valid is None else a[valid]  # as it was sampled
                buffer.store(o, a, r, o2, d, logmu=policy.logmu, ended=ended, valid=valid)
                if buffer.due(n_steps):
                    loop.record(update(buffer.newest(n_steps)))
                    for batch in buffer.replays(replay_ratio, n_steps):
                        loop.record(update(batch))
            loop.evaluate(core.make_get_action(ac, deterministic=True), num_test_episodes)
            loop.log()
    return ac


if __name__ == "__main__":
    main(acer)

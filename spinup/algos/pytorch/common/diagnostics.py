"""The columns of `diagnostics.txt` that describe torch networks and optimizers.

Gradient norms, the size of updates and the distance of target networks need only parameters and
optimizers, so every run has them. All other columns here need forward passes, which are made only
through the library's own networks: a user's network may count its calls or draw random numbers, and
measuring must change nothing.
"""

import contextlib
import math

import numpy as np
import torch
from torch import nn

from spinup.algos.common.diagnostics import ROWS, ratio_columns
from spinup.algos.pytorch.common.layers import flat, takes_bytes
from spinup.algos.pytorch.common.qnets import (
    LOG_STD_MAX,
    LOG_STD_MIN,
    MLPQFunction,
    SquashedGaussianMLPActor,
)

# The columns of an optimizer, by the name under which algorithms track it.
_OPTIMIZERS = {"pi_optimizer": "Pi", "vf_optimizer": "V", "q_optimizer": "Q"}
_SATURATED = 0.99  # a tanh beyond this learns next to nothing


class TorchGauges:
    """Measures a run's networks and optimizers (see `Gauges`)."""

    def __init__(self, run):
        self.run, ac = run, getattr(run, "ac", nn.Module())  # a user's algorithm may have none
        # HER's networks see only part of the observation
        wrapped = hasattr(type(ac), "make_get_action") and isinstance(ac.net, nn.Module)
        self.net, self.inputs = (ac.net, ac.inputs) if wrapped else (ac, lambda obs: obs)
        self.ours = hasattr(run, "ac") and all(
            type(m).__module__.startswith(("spinup.algos.", "torch.nn.")) for m in ac.modules()
        )
        self.bytes = takes_bytes(ac)
        self.optimizers = {
            column: run.tracked[name]
            for name, column in _OPTIMIZERS.items()
            if isinstance(run.tracked.get(name), torch.optim.Adam)
        }
        # the network that acts
        self.actor = next(
            (
                (name.title(), part)
                for name in ("pi", "q")
                if has_parameters(part := getattr(self.net, name, None))
            ),
            None,
        )
        self.pairs = pairs(self.net, run.tracked.get("ac_targ"))
        if "pi_avg" in run.tracked:
            self.pairs = pairs(getattr(self.net, "pi", None), run.tracked["pi_avg"])
        forward = self.ours and not run.row.on_policy
        self.critics = [q for q in ("q", "q1", "q2") if forward and hasattr(self.net, q)]
        last = {m[-1] for m in self.net.modules() if isinstance(m, nn.Sequential) and len(m)}
        self.hidden = [  # activations; the last tanh of a deterministic policy bounds its actions
            m
            for m in self.net.modules()
            if isinstance(m, nn.ReLU) or (isinstance(m, nn.Tanh) and m not in last)
        ]

    # ---- the columns -----------------------------------------------------------------------------

    @torch.no_grad()
    def estimates(self, batch):
        """Return the log-ratios and values of an on-policy batch after the update.

        Without a critic, an update is so quick that only the policy's ratios are measured, on a
        part of the rows.
        """
        if not self.ours or not has_parameters(getattr(self.net, "pi", None)):
            return {}
        self.dead = []
        learns_v = "val" in batch and hasattr(self.net, "v")
        part = slice(None, None, 1 if learns_v else max(1, len(batch["obs"]) // ROWS))
        with self._activity() if learns_v else contextlib.nullcontext():
            logp = flat(self.net.pi(batch["obs"][part], batch["act"][part])[1])
            found = {"log_ratio": logp - batch["logp"][part]}
            if learns_v:
                found["val"] = flat(self.net.v(batch["obs"]))
        if self.dead:
            found["dead"] = torch.cat(self.dead).float()
        return found

    @torch.no_grad()
    def numbers(self, rows, tests):
        """Return the other columns."""
        found = {}
        for name, optimizer in self.optimizers.items():
            found[f"GradNorm{name}"] = grad_norm(optimizer)
        if self.actor is not None:
            name, module = self.actor
            found[f"UpdNorm{name}"] = self._update_norm(module)
        if self.pairs:
            found["TargDrift"] = drift(self.pairs)
        log_std = getattr(getattr(self.net, "pi", None), "log_std", None)
        if isinstance(log_std, nn.Parameter):
            found["LogStdMin"], found["LogStdMax"] = log_std.min(), log_std.max()
        if self.critics and rows is not None:
            found.update(self._of_replay(rows, tests))
        return self._transfer(found)

    def _transfer(self, found):
        """Return the numbers as floats, with a single transfer from a GPU."""
        numbers = {name: x for name, x in found.items() if isinstance(x, torch.Tensor)}
        if numbers:
            device = self.run.device
            stacked = torch.stack([x.to(device, torch.float32) for x in numbers.values()])
            found.update(zip(numbers, stacked.cpu().numpy().astype(float).tolist(), strict=True))
        return found

    def _update_norm(self, module):
        """Return how far the parameters moved since the last row, relative to their norm."""
        theta = torch.cat([p.detach().reshape(-1) for p in module.parameters()])
        kept, self.run.diagnostics.kept = self.run.diagnostics.kept, {"theta": theta}
        if "theta" not in kept:
            return theta.new_tensor(math.nan)
        old = torch.as_tensor(kept["theta"]).to(theta)
        return (theta - old).norm() / old.norm()

    # ---- a batch from the replay buffer ----------------------------------------------------------

    def _of_replay(self, rows, tests):
        """Return the columns of the critics and of the policy for sampled transitions."""
        run = self.run
        before = run.global_state()
        try:
            run.seed_backend(run.seeds.generator("diagnostics", run.epoch, 1))
            none = not len(rows["obs"])
            if none:  # to know the columns
                rows = {name: np.zeros((1, *x.shape[1:]), x.dtype) for name, x in rows.items()}
            found = self._of_batch({name: self._tensor(name, x) for name, x in rows.items()})
            if run.config.get("num_test_episodes") and run.config.get("gamma") is not None:
                found["QBias"] = self._bias(tests)
        finally:
            run.set_global_state(before)
        return {name: torch.tensor(math.nan) for name in found} if none else found

    def _tensor(self, name, x):
        """Copy an array to a tensor as the algorithms do; a copy, because torch aligns memory."""
        whole = name == "act" and x.dtype.kind in "iu"
        kept = self.bytes and name in ("obs", "obs2")
        dtype = torch.int64 if whole else None if kept else torch.float32
        return torch.tensor(x, dtype=dtype, device=self.run.device)

    def _of_batch(self, batch):
        o = self.inputs(batch["obs"])
        self.dead = []
        with self._activity():
            a_pi = self._greedy(o)
            q_pi = self._values(o, a_pi)
        q, backup = self.values_and_targets(batch, o)
        error = (q - backup).abs()
        found = {
            "QPi": q_pi.amin(0).mean(),
            "TDErrAbs": error.mean(),
            "TDErrAbsMax": error.max(),
            "TargMean": backup.mean(),
            "TargStd": backup.std(correction=0),
            "TargMax": backup.max(),
        }
        if self.dead:
            found["DeadUnits"] = torch.cat(self.dead).float().mean()
        pi = getattr(self.net, "pi", None)
        if isinstance(pi, SquashedGaussianMLPActor):
            log_std = pi.log_std_layer(pi.net(pi.obs_filter(o))).clamp(LOG_STD_MIN, LOG_STD_MAX)
            found["LogStdMin"], found["LogStdMax"] = log_std.min(), log_std.max()
        if "logmu" in batch or "mu" in batch:
            found.update(self._ratios(o, batch))
        return found

    def values_and_targets(self, batch, o):
        """Return Q of a batch, (critics, B), and what it is trained to be, (B,)."""
        q, target = self._values(o, batch["act"]), self.run.loop.target
        if target is None:  # an algorithm of a user's own does not say
            return q, torch.full_like(q[0], math.nan)
        return q, target({**batch, "obs": o, "obs2": self.inputs(batch["obs2"])})

    def _bias(self, tests):
        """Return the mean of Q(s0, pi(s0)) minus the discounted return of a test episode.

        If a time limit ended the episode, the critic's value of what would have followed is added
        to the return.
        """
        obs = [x for test in tests for x in (test.first, test.last)]
        if not obs:
            return torch.tensor(math.nan)
        o = self.inputs(self._tensor("obs", np.stack(obs)))
        q = self._values(o, self._greedy(o)).amin(0).reshape(-1, 2)
        follows = q.new_tensor([0.0 if test.terminated else test.discount for test in tests])
        ret = q.new_tensor([test.ret for test in tests])
        return (q[:, 0] - ret - follows * q[:, 1]).mean()

    def _greedy(self, o):
        """Return the actions that the policy takes without exploration."""
        pi = getattr(self.net, "pi", None)
        if pi is None:
            return self.net.q(o).argmax(-1)
        if isinstance(pi, SquashedGaussianMLPActor):
            return pi(o, deterministic=True, with_logprob=False)[0]
        out = pi(o)
        return pi.mode(out[0]) if isinstance(out, tuple) else out

    def _values(self, o, a):
        """Return every critic's value of these actions, (critics, B)."""
        return torch.stack([self._value(getattr(self.net, name), o, a) for name in self.critics])

    def _value(self, critic, o, a):
        if isinstance(critic, MLPQFunction):
            return critic(o, a)
        if hasattr(critic, "v"):  # ACER's, which needs samples of the policy
            return critic(o, a, self.net.pi(o)[0].sample((10,)))
        return critic(o).gather(-1, a.unsqueeze(-1)).squeeze(-1)

    def _ratios(self, o, batch):
        """Return the columns of the ratios between the policy now and the one that acted."""
        pi, a = self.net.pi(o)[0], batch["act"]
        if "logmu" in batch:
            a = a.unsqueeze(-1)
            log_ratio = pi.logits.gather(-1, a) - batch["logmu"].gather(-1, a)
        else:
            then = torch.distributions.Normal(batch["mu"], pi.stddev, validate_args=False)
            log_ratio = (pi.log_prob(a) - then.log_prob(a)).sum(-1)
        return ratio_columns([log_ratio.cpu().numpy()])

    # ---- units -----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _activity(self):
        """Note which hidden units a forward pass uses."""
        handles = [module.register_forward_hook(self._note) for module in self.hidden]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _note(self, module, inputs, y):
        y = y.flatten(1) if y.ndim == 4 else y.reshape(-1, y.shape[-1])  # images, or vectors
        y = y[:: max(1, len(y) // ROWS)]
        relu = isinstance(module, nn.ReLU)
        self.dead.append(y.amax(0) <= 0 if relu else y.abs().amin(0) > _SATURATED)


def grad_norm(optimizer):
    """Return the root mean square norm of the gradients in about the last thousand steps.

    Adam averages the square of every gradient. The sum of these averages, corrected for their start
    at zero, is the average of the squared norm.
    """
    states = [optimizer.state[p] for group in optimizer.param_groups for p in group["params"]]
    states = [state for state in states if "exp_avg_sq" in state]
    if not states:
        return torch.tensor(math.nan)
    _, beta2 = optimizer.param_groups[0]["betas"]
    total = torch.stack([state["exp_avg_sq"].sum() for state in states]).sum()
    step = states[0]["step"].to(total.device)
    return (total / -torch.expm1(step * math.log(beta2))).sqrt()


def has_parameters(module):
    """Return whether this is a module that can learn."""
    return isinstance(module, nn.Module) and next(module.parameters(), None) is not None


def pairs(net, targ):
    """Return the parameters of a target network, each with the network's; [] if it is none."""
    if not (has_parameters(net) and has_parameters(targ)):
        return []
    named = dict(net.named_parameters(remove_duplicate=False))
    return [(p, named[name]) for name, p in targ.named_parameters() if name in named]


def drift(pairs):
    """Return the distance of a target network from its source, relative to the source's norm."""
    targ, net = (torch.cat([x.detach().reshape(-1) for x in xs]) for xs in zip(*pairs, strict=True))
    return (targ - net).norm() / net.norm()

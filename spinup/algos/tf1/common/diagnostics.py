"""The columns of `diagnostics.txt` that describe networks and optimizers in a graph.

They are computed from the values of the variables and, if the library built the networks, by
functions of the graph. A user's graph may count its calls, and measuring must change nothing.
"""

import math

import numpy as np
from gymnasium.spaces import Box

from spinup.algos.tf1.common import layers
from spinup.algos.tf1.common.graph import Function

# The columns of an optimizer, by its name.
_OPTIMIZERS = {"pi": "Pi", "vf": "V", "q": "Q"}
_BETA2 = 0.999  # of the second moments, see `Adam`
_ENDS = ("first", "last")  # observations of a test episode


class TfGauges:
    """Measures a run's networks and optimizers (see `spinup.algos.common.diagnostics.Gauges`)."""

    def __init__(self, run):
        self.run, self.names = run, list(run.variables.names)
        ac = run.ac
        policy = layers.known(ac.pi if run.row.on_policy else ac.built["pi"])
        actor_critic = run.config["actor_critic"]
        self.ours = policy is not None and actor_critic.__module__.startswith("spinup.")
        self.q = None
        if self.ours and not run.row.on_policy and isinstance(run.action_space, Box):
            critics = [ac.built[name] for name in ("q", "q1", "q2") if name in ac.built]
            self.greedy = Function({"obs": ac.obs}, policy.mode)
            self.q = Function({"obs": ac.obs, "act": ac.act}, critics)

    def estimates(self, batch):
        """Return the log-ratios and values of an on-policy batch after the update."""
        if not self.ours:
            return {}
        buffer = self.run.loop.buffer
        return {"log_ratio": buffer.logp(batch) - batch["logp"], "val": buffer.value(batch)}

    def numbers(self, rows, tests):
        """Return the other columns."""
        values, found = self.run.variables.state_dict(), {}
        for name, column in _OPTIMIZERS.items():
            if f"optimizers/{name}/step" in values:
                found[f"GradNorm{column}"] = _grad_norm(values, f"optimizers/{name}/")
        pi = [k for k in self.names if k.startswith(("pi/", "main/pi/")) and "_filter" not in k]
        if pi:
            found["UpdNormPi"] = self._update_norm(np.concatenate([values[k].ravel() for k in pi]))
        pairs = [k for k in self.names if k.startswith("target/") and f"main/{k[7:]}" in values]
        if pairs:
            targ, main = (
                np.concatenate([values[f"{scope}/{k[7:]}"].ravel() for k in pairs])
                for scope in ("target", "main")
            )
            found["TargDrift"] = _relative(targ - main, main)
        if "pi/log_std" in values:
            log_std = values["pi/log_std"]
            found["LogStdMin"], found["LogStdMax"] = float(log_std.min()), float(log_std.max())
        if self.q is not None and rows is not None:
            found["QPi"] = float(np.mean(self._q_pi(rows["obs"]))) if len(rows["obs"]) else math.nan
            if self.run.config["num_test_episodes"]:
                found["QBias"] = self._bias(tests)
        return found

    def _q_pi(self, obs):
        """Return the smaller critic's value of the actions that the policy takes in tests."""
        obs = np.asarray(obs, np.float32)
        return np.min(self.q({"obs": obs, "act": self.greedy({"obs": obs})}), axis=0)

    def _bias(self, tests):
        """Return the mean of Q(s0, pi(s0)) minus the discounted return of a test episode.

        If a time limit ended the episode, the critic's value of what would have followed is added
        to the return.
        """
        if not tests:
            return math.nan
        first, last = (self._q_pi(np.stack([getattr(t, k) for t in tests])) for k in _ENDS)
        follows = np.array([0.0 if test.terminated else test.discount for test in tests])
        return float(np.mean(first - [test.ret for test in tests] - follows * last))

    def _update_norm(self, theta):
        """Return how far the parameters moved since the last row, relative to their norm."""
        kept, self.run.diagnostics.kept = self.run.diagnostics.kept, {"theta": theta}
        return _relative(theta - kept["theta"], kept["theta"]) if "theta" in kept else math.nan


def _relative(change, x):
    return float(np.linalg.norm(change) / np.linalg.norm(x))


def _grad_norm(values, scope):
    """Return the root mean square norm of the gradients in about the last thousand steps."""
    step = float(values[f"{scope}step"])
    if not step:
        return math.nan
    ours = [x for name, x in values.items() if name.startswith(scope) and name.endswith("/v")]
    total = sum(float(x.sum(dtype=np.float64)) for x in ours)
    return math.sqrt(total / -math.expm1(step * math.log(_BETA2)))

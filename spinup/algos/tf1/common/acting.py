"""Acting: computing actions from observations, quickly if the library built the policy.

For one observation, a small network takes a few microseconds in NumPy and ten times as long in a
session. The library's own policies therefore act through a NumPy copy of their weights, which is
renewed after updates; a user's graph function acts through the session.
"""

import numpy as np

from spinup.algos.common.numpy_actor import NumpyActor
from spinup.algos.tf1.common import layers
from spinup.algos.tf1.common.graph import Function
from spinup.envs.spaces import env_actions


class NetPolicy:
    """Selects actions in NumPy for one of the library's policies."""

    def __init__(self, policy):
        self.description, variables = layers.describe(policy)
        self._fixed = {k: x for k, x in variables.items() if isinstance(x, np.ndarray)}
        variables = {k: x for k, x in variables.items() if k not in self._fixed}
        self._read = Function({}, {k: x.read_value() for k, x in variables.items()})

    def actor(self):
        """Return the policy with its current parameters: a description and its arrays."""
        arrays, found = {**self._read({}), **self._fixed}, dict(self.description)
        if "obs_sums" in found and arrays.pop(found.pop("obs_sums"))[0] == 0:
            found["obs_clip"] = None  # no statistics yet: observations are used as they are
        return found, arrays

    def renew(self):
        """Copy the policy's current parameters."""
        self.net = NumpyActor(*self.actor())

    def begin(self, rng):
        """See `spinup.algos.common.loop.Policy`."""
        self.renew()

    def __call__(self, obs, rng):
        """Sample actions for a batch of observations; values and log-probs are computed later."""
        return self.net.sample(self.net(obs), rng), None, None


class SessionPolicy:
    """Selects actions by running a user's graph."""

    def __init__(self, obs, pi):
        self._pi, self._dtype = Function({"obs": obs}, pi), obs.dtype.as_numpy_dtype

    def begin(self, rng):
        """Do nothing: the session has the current parameters."""

    def renew(self):
        """Do nothing, for the same reason."""

    def __call__(self, obs, rng):
        """Sample actions; the generator draws the seed of the graph's random ops."""
        return self._pi({"obs": np.asarray(obs, self._dtype)}, rng), None, None


def make_policy(ac):
    """Create the fastest policy that samples actions as the networks do."""
    pi = _pi(ac)
    policy = layers.known(pi)
    if policy is None or layers.describe(policy)[0] is None:
        return SessionPolicy(ac.obs, pi)
    return NetPolicy(policy)


def _pi(ac):
    return ac.pi if isinstance(ac, tuple) else ac.built["pi"]


class GreedyAction:
    """A function from one observation to the most likely action, for test episodes.

    A user's graph acts through its output `mu` if it has one, and else through `pi`.
    """

    def __init__(self, ac, action_space):
        self.policy, self.to_env = make_policy(ac), env_actions(action_space)
        self.fast = isinstance(self.policy, NetPolicy)
        if not self.fast:
            best = _pi(ac) if isinstance(ac, tuple) else ac.built.get("mu", _pi(ac))
            policy = layers.known(best)
            self.policy = SessionPolicy(ac.obs, best if policy is None else policy.mode)

    def renewed(self):
        """Return this function with the current parameters."""
        self.rng = np.random.default_rng(0)  # every evaluation draws the same noise, if any
        self.policy.begin(self.rng)
        return self

    def __call__(self, obs):
        """Return the action to send to the environment."""
        obs = np.asarray(obs)[None]
        if self.fast:
            return self.to_env(self.policy.net.mode(self.policy.net(obs)))[0]
        return self.to_env(self.policy(obs, self.rng)[0])[0]

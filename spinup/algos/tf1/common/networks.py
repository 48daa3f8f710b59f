"""A run's networks: the tensors that a graph function returned, and how to build them again."""

from typing import Any, NamedTuple

from spinup.algos.tf1.common.graph import records
from spinup.algos.tf1.common.layers import flat
from spinup.utils.errors import SpinupError
from spinup.utils.tf import tf


class ActorCritic(NamedTuple):
    """On-policy: the placeholders `obs` and `act`, and what the graph function computes of them.

    TRPO also needs `info`, the parameters of the distributions by name, `info_phs`, placeholders of
    the old ones, and `d_kl`, the mean KL divergence between the two.
    """

    obs: Any
    act: Any
    pi: Any
    logp: Any
    logp_pi: Any
    info: Any
    info_phs: Any
    d_kl: Any
    v: Any


class Networks:
    """Off-policy: builds the networks of one variable scope for any observations and actions.

    In a graph, order comes from dependencies: an update builds the networks again after each step,
    and thereby reads the new parameters.
    """

    def __init__(self, actor_critic, kwargs, scope, obs, act, names):
        self.actor_critic, self.kwargs, self.scope = actor_critic, kwargs, scope
        self.obs, self.act, self.names = obs, act, names
        self.built = self._build(obs, act)  # creates the variables

    def _build(self, obs, act):
        with tf.variable_scope(self.scope, reuse=tf.AUTO_REUSE, use_resource=True):
            return outputs(self.actor_critic(obs, act, **self.kwargs), self.names)

    def __call__(self, obs, act):
        """Build the networks again; return the graph function's tensors by name."""
        before = len(tf.global_variables())
        found = self._build(obs, act)
        if len(tf.global_variables()) != before:
            raise SpinupError(
                "actor_critic creates new variables each time it is called, but its networks are "
                "built several times: create them with tf.get_variable, not with tf.Variable"
            )
        return found

    def vars(self, name=""):
        """Return the variables whose names start with `name`, such as 'pi' or 'q'."""
        variables = self.obs.graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES)
        found = [v for v in variables if v.name.startswith(f"{self.scope}/{name}")]
        if name and not found:
            raise SpinupError(
                f"actor_critic created no variables in the variable scope {name!r}, in which this "
                f"algorithm looks for parameters: build that part in tf.variable_scope({name!r})"
            )
        return found

    def pi(self, obs):
        """Return the policy's actions."""
        return self(obs, self.act)["pi"]

    def q(self, obs, act):
        """Return the critic's values."""
        return self(obs, act)["q"]

    def twin_q(self, obs, act):
        """Return both critics' values."""
        found = self(obs, act)
        return flat(found["q1"]), flat(found["q2"])


def outputs(tensors, names, function="actor_critic"):
    """Return what a graph function returned, by name; raise an error if the number is wrong."""
    tensors = tuple(tensors) if isinstance(tensors, list | tuple) else (tensors,)
    if len(tensors) != len(names):
        raise SpinupError(
            f"{function} returned {len(tensors)} tensors, but this algorithm needs "
            f"{len(names)}: {', '.join(names)}"
        )
    return dict(zip(names, tensors, strict=True))


def target_copy(ac):
    """Build a copy of the networks; it starts equal, and only `polyak_update` changes it."""
    ac_targ = Networks(ac.actor_critic, ac.kwargs, "target", ac.obs, ac.act, ac.names)
    start = records(ac.obs.graph, "start")  # run after the variables' initializers
    start.append(_pairwise(ac, ac_targ, lambda p, p_targ: p))
    return ac_targ


def polyak_update(ac, ac_targ, polyak):
    """Return an operation for ac_targ <- polyak * ac_targ + (1 - polyak) * ac."""
    return _pairwise(ac, ac_targ, lambda p, p_targ: p_targ + (1 - polyak) * (p - p_targ))


def _pairwise(ac, ac_targ, new):
    pairs = zip(ac.vars(), ac_targ.vars(), strict=True)
    return tf.group(*(p_targ.assign(new(p, p_targ)) for p, p_targ in pairs))

"""Acting: from observations to actions, quickly where the network allows it.

A small network costs a few microseconds in NumPy and ten times that through torch, one observation
at a time. The default networks therefore act through a NumPy copy of their weights, made once an
epoch; networks of the user's own act through their own `step`.
"""

import inspect

import numpy as np
import torch
from torch import nn

from spinup.algos.pytorch.common import nets, qnets
from spinup.envs.actions import env_actions
from spinup.utils.errors import SpinupError
from spinup.utils.seeding import global_state, set_global_state


def _elu(x):
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def _sigmoid(x):
    return 0.5 * np.tanh(0.5 * x) + 0.5  # exp(-x) would overflow


# In place where NumPy can; the argument is always a fresh array.
_NUMPY_ACTIVATIONS = {
    nets.Tanh: lambda x: np.tanh(x, out=x),
    nn.Tanh: lambda x: np.tanh(x, out=x),
    nn.ReLU: lambda x: np.maximum(x, 0, out=x),
    nn.ELU: _elu,
    nn.Sigmoid: _sigmoid,
    nn.SiLU: lambda x: x * _sigmoid(x),
    nn.Identity: lambda x: x,
}


def numpy_net(obs_filter, net):
    """`net(obs_filter(obs))` as a function on NumPy batches, or None if a layer is not known here.

    The weights are copied: the function stays as it is while the network is trained.
    """
    layers = []  # weight, bias and activation of each linear layer
    for module in net:
        if type(module) is nn.Linear:
            weight = np.ascontiguousarray(module.weight.detach().cpu().numpy().T)
            layers.append((weight, module.bias.detach().cpu().numpy().copy(), None))
        elif type(module) not in _NUMPY_ACTIVATIONS or getattr(module, "alpha", 1.0) != 1.0:
            return None
        elif type(module) is not nn.Identity:
            if not layers or layers[-1][2] is not None:
                return None
            layers[-1] = (*layers[-1][:2], _NUMPY_ACTIVATIONS[type(module)])
    normalize = obs_filter.frozen_copy() if getattr(obs_filter, "normalize", False) else None

    def forward(obs):
        n = len(obs)
        # one observation as a vector: a matrix-vector product is cheaper than a matrix product
        x = obs.reshape(-1) if n == 1 else obs.reshape(n, -1)
        if x.dtype != np.float32:
            x = x.astype(np.float32)
        if normalize is not None:
            x = normalize(x)
        for weight, bias, activate in layers:
            x = x.dot(weight)
            x += bias
            if activate is not None:
                x = activate(x)
        return x[None] if n == 1 else x

    return forward


def torch_net(obs_filter, net):
    """The same function through torch."""
    device = next(net.parameters()).device

    def forward(obs):
        with torch.no_grad():
            x = torch.as_tensor(obs, dtype=torch.float32, device=device)
            return net(obs_filter(x)).cpu().numpy()

    return forward


def gumbel_argmax(logits, rng):
    # argmax(logits + Gumbel noise) is a sample from the softmax; -log of an exponential is Gumbel.
    return (logits - np.log(rng.standard_exponential(logits.shape))).argmax(-1)


def gaussian_sampler(actor):
    """Functions (sample, mode) from the output of `mu_net` to actions."""
    std = actor.log_std.detach().exp().cpu().numpy()

    def sample(mu, rng):
        noise = rng.standard_normal(mu.shape, np.float32)
        noise *= std
        noise += mu
        return noise

    return sample, lambda mu: mu


def categorical_sampler(actor):
    """Functions (sample, mode) from logits to actions."""
    return gumbel_argmax, lambda logits: logits.argmax(-1)


def multi_categorical_sampler(actor):
    """Functions (sample, mode) from the logits of all entries, side by side, to actions."""
    cuts = np.cumsum(actor.nvec)[:-1]

    def sample(logits, rng):
        return np.stack([gumbel_argmax(x, rng) for x in np.split(logits, cuts, -1)], -1)

    def mode(logits):
        return np.stack([x.argmax(-1) for x in np.split(logits, cuts, -1)], -1)

    return sample, mode


def bernoulli_sampler(actor):
    """Functions (sample, mode) from the logits of coins to actions."""

    def sample(logits, rng):
        # P(u < sigmoid(x)) without the sigmoid: the logit of a uniform number is logistic noise.
        u = rng.random(logits.shape)
        return (np.log(u) - np.log1p(-u) < logits).astype(np.int64)

    return sample, lambda logits: (logits > 0).astype(np.int64)


def bounded_sampler(actor):
    """Functions (sample, mode) from the tanh outputs of a deterministic actor to actions."""
    scale = actor.numpy_scale()
    return lambda squashed, rng: scale(squashed), scale


def squashed_gaussian_sampler(actor):
    """Functions (sample, mode) from means and log standard deviations, side by side, to actions."""
    scale, dim = actor.numpy_scale(), len(actor.act_limit)

    def sample(out, rng):
        u = np.exp(out[:, dim:].clip(qnets.LOG_STD_MIN, qnets.LOG_STD_MAX))
        u *= rng.standard_normal(u.shape, np.float32)
        u += out[:, :dim]
        return scale(np.tanh(u))

    return sample, lambda out: scale(np.tanh(out[:, :dim]))


def scaled_gaussian_sampler(actor):
    """Functions (sample, mode) from means in units of half the range to actions."""
    scale = actor.numpy_scale()

    def sample(mu, rng):
        return scale(mu + actor.std * rng.standard_normal(mu.shape, np.float32))

    return sample, scale


def _two_heads(actor):
    """The layers of a network with heads for mean and width, with the heads joined into one."""
    mu, log_std = actor.mu_layer, actor.log_std_layer
    with torch.no_grad():
        weight = torch.cat([mu.weight, log_std.weight])
        return nn.Sequential(*actor.net, _linear(weight, torch.cat([mu.bias, log_std.bias])))


def greedy_sampler(q):
    """Functions (sample, mode) from action values to actions: the best one, both times."""
    return lambda values, rng: values.argmax(-1), lambda values: values.argmax(-1)


def _dueling(q):
    """The layers of a dueling network as those of a plain one: its two streams side by side.

    V + A - mean A is linear in what the streams end with, so that one last layer does it.
    """
    (*v_hidden, v_out, _), (*a_hidden, a_out, _) = q.v_net, q.a_net
    with torch.no_grad():
        weight, bias = (x - x.mean(0, keepdim=True) for x in (a_out.weight, a_out.bias))
        if not v_hidden:
            return nn.Sequential(*q.net, _linear(v_out.weight + weight, v_out.bias + bias))
        (v_in, act), (a_in, _) = v_hidden, a_hidden
        streams = _linear(torch.cat([v_in.weight, a_in.weight]), torch.cat([v_in.bias, a_in.bias]))
        weight = torch.cat([v_out.weight.expand(len(bias), -1), weight], 1)
        return nn.Sequential(*q.net, streams, act, _linear(weight, v_out.bias + bias))


def _linear(weight, bias):
    """A layer with these parameters."""
    # Initial ones would be drawn from torch's global generator; on this device there are none.
    linear = nn.Linear(*reversed(weight.shape), device="meta")
    linear.weight, linear.bias = nn.Parameter(weight), nn.Parameter(bias)
    return linear


# Class of an actor -> the layers from observation to output, and how outputs become actions.
_SAMPLERS = {
    nets.MLPGaussianActor: (lambda actor: actor.mu_net, gaussian_sampler),
    nets.MLPCategoricalActor: (lambda actor: actor.logits_net, categorical_sampler),
    nets.MLPMultiCategoricalActor: (lambda actor: actor.logits_net, multi_categorical_sampler),
    nets.MLPBernoulliActor: (lambda actor: actor.logits_net, bernoulli_sampler),
    qnets.MLPActor: (lambda actor: actor.pi, bounded_sampler),
    qnets.SquashedGaussianMLPActor: (_two_heads, squashed_gaussian_sampler),
    qnets.MLPScaledGaussianActor: (lambda actor: actor.mu_net, scaled_gaussian_sampler),
    qnets.MLPDiscreteQFunction: (lambda q: q.q, greedy_sampler),
    qnets.MLPDuelingQ: (_dueling, greedy_sampler),
}


class NetPolicy:
    """Acts with one of the default actors: its network's outputs, then its noise, in NumPy."""

    def __init__(self, actor, fast=True):
        self.actor, self.fast = actor, fast
        self.renew()

    def renew(self):
        """Take over the actor's current parameters."""
        layers, make_sampler = _SAMPLERS[type(self.actor)]
        args = (self.actor.obs_filter, layers(self.actor))
        self.net = (numpy_net(*args) if self.fast else None) or torch_net(*args)
        self.sample, self.mode = make_sampler(self.actor)

    def begin(self, rng):
        """See `spinup.algos.common.loop.Policy`."""
        self.renew()

    def __call__(self, obs, rng):
        """Sampled actions for a batch of observations; values and log-probs come later, at once."""
        return self.sample(self.net(obs), rng), None, None


class StepPolicy:
    """Acts through the `step` of a user's own actor-critic, a batch at a time where that works."""

    def __init__(self, ac, device):
        self.ac, self.device = ac, device
        self.batched = None  # not known before the first call

    def begin(self, rng):
        """A user's `step` draws from torch's global generator: give it a seed of ours."""
        torch.manual_seed(int(rng.integers(2**63)))

    def renew(self):
        """It acts with the network itself."""

    def __call__(self, obs, rng):
        """Actions, values and log-probabilities as the user's `step` gives them."""
        obs = torch.as_tensor(obs, dtype=torch.float32, device=self.device)
        if self.batched is None:
            self.batched = len(obs) > 1 and takes_batches(self.ac, obs)
        if self.batched:
            return tuple(_array(x) for x in self.ac.step(obs))
        columns = zip(*(self.ac.step(o) for o in obs), strict=True)
        return tuple(np.stack([_array(x) for x in column]) for column in columns)


class ActPolicy:
    """Acts through the `act` of a user's own network, which samples (or not) as it likes."""

    def __init__(self, ac, device):
        self.ac, self.device = ac, device

    def begin(self, rng):
        """A user's `act` draws from torch's global generator: give it a seed of ours."""
        torch.manual_seed(int(rng.integers(2**63)))

    def renew(self):
        """It acts with the network itself."""

    def __call__(self, obs, rng):
        """Actions, one observation at a time."""
        obs = torch.as_tensor(obs, dtype=torch.float32, device=self.device)
        return np.stack([_array(self.ac.act(o)) for o in obs]), None, None


def _array(x):
    return x.detach().cpu().numpy() if isinstance(x, torch.Tensor) else np.asarray(x)


def takes_batches(ac, obs):
    """Whether `ac.step` treats the rows of a batch as separate observations.

    Decided by what it returns: one action, value and log-probability a row, and for the first row
    the value that the first observation alone gets.
    """
    state, torch_state = global_state(), torch.get_rng_state()
    try:
        a, v, logp = (_array(x) for x in ac.step(obs))
        _, v_first, _ = (_array(x) for x in ac.step(obs[0]))
    except Exception:
        # Whatever a user's code raises, it was written for one observation at a time, which is all
        # it has to be; if one fails too, that error is the one to see.
        return False
    finally:
        set_global_state(state)
        torch.set_rng_state(torch_state)
    n = len(obs)
    rows = a.shape[:1] == (n,) and v.size == n and logp.size == n
    return bool(rows and np.allclose(v.reshape(-1)[:1], v_first.reshape(-1), rtol=1e-3, atol=1e-4))


def make_policy(ac, device="cpu", on_policy=True):
    """The quickest way to act with `ac` that gives what its own `step` or `act` would.

    On-policy algorithms act through `step`, where there is one, and all others through `act`.
    """
    if _is_default(ac):
        return NetPolicy(_actor(ac))
    steps = on_policy and hasattr(ac, "step")
    return StepPolicy(ac, device) if steps else ActPolicy(ac, device)


def _is_default(ac):
    acts = getattr(type(ac), "step", None) or getattr(type(ac), "act", None)
    return getattr(acts, "samples_pi", False) and type(_actor(ac)) in _SAMPLERS


def _actor(ac):
    """What decides on actions: the policy, or the action values where there is no other."""
    return ac.pi if hasattr(ac, "pi") else getattr(ac, "q", None)


def make_get_action(ac, deterministic=False, rng=None, action_space=None):
    """A function from one observation to the action to send to the environment.

    Clipped to the bounds and shaped as the action space says. `rng` is the generator samples are
    drawn from (a fresh one by default).
    """
    rng = rng or np.random.default_rng()
    if hasattr(type(ac), "make_get_action"):  # it shows its networks something else
        return ac.make_get_action(deterministic, rng)
    to_env = env_actions(action_space or ac.action_space)
    if _is_default(ac):
        policy = NetPolicy(_actor(ac))
        net, sample, mode = policy.net, policy.sample, policy.mode

        def get_action(obs):
            out = net(np.asarray(obs)[None])
            return to_env(mode(out) if deterministic else sample(out, rng))[0]

        return get_action
    chooses = "deterministic" in inspect.signature(ac.act).parameters
    if deterministic and not chooses and hasattr(ac, "step"):  # without it, `act` adds no noise
        raise SpinupError(
            f"{type(ac).__name__}.act has no argument 'deterministic', so its policy can only "
            "be sampled"
        )
    kwargs = {"deterministic": True} if deterministic and chooses else {}
    device = next((p.device for p in ac.parameters()), None)

    def get_action_slow(obs):
        act = ac.act(torch.as_tensor(np.asarray(obs), dtype=torch.float32, device=device), **kwargs)
        return to_env(_array(act)[None])[0]

    return get_action_slow

"""Acting: computing actions from observations, quickly if the network allows it.

For one observation, a small network takes a few microseconds in NumPy and ten times as long in
torch. The default networks therefore act through a NumPy copy of their weights, which is renewed
after updates; user-written networks act through their own `step` or `act`.
"""

import numpy as np
import torch
from torch import nn

from spinup.algos.common.numpy_net import ACTIVATIONS, forward_pass
from spinup.algos.pytorch.common.layers import Tanh, as_input
from spinup.envs.spaces import env_actions

# torch's activations that NumPy computes as well, by name
_IN_NUMPY = {
    Tanh: "tanh",
    nn.Tanh: "tanh",
    nn.ReLU: "relu",
    nn.ELU: "elu",
    nn.Sigmoid: "sigmoid",
    nn.SiLU: "silu",
    nn.Identity: "",
}


def numpy_net(obs_filter, net):
    """Return `net(obs_filter(obs))` as a NumPy function; None if it has an unknown layer.

    The weights are copied, so training the network does not change the function.
    """
    if hasattr(obs_filter, "features"):  # an encoder
        return None
    linears = [module for module in net if type(module) is nn.Linear]
    arrays = iter(_copies([x for linear in linears for x in (linear.weight, linear.bias)]))
    layers = []  # weight, bias and activation of each linear layer
    for module in net:
        if type(module) is nn.Linear:
            layers.append((np.ascontiguousarray(next(arrays).T), next(arrays), None))
        elif type(module) not in _IN_NUMPY or getattr(module, "alpha", 1.0) != 1.0:
            return None
        elif type(module) is not nn.Identity:
            if not layers or layers[-1][2] is not None:
                return None
            layers[-1] = (*layers[-1][:2], ACTIVATIONS[_IN_NUMPY[type(module)]])
    normalize = obs_filter.frozen_copy() if getattr(obs_filter, "normalize", False) else None
    return forward_pass(layers, normalize)


def _copies(tensors):
    """Copy tensors to arrays; from a GPU, with a single transfer."""
    if not tensors or not tensors[0].is_cuda:
        return [x.detach().cpu().numpy().copy() for x in tensors]
    joined = torch.cat([x.detach().reshape(-1) for x in tensors]).cpu()
    parts = joined.split([x.numel() for x in tensors])
    return [part.reshape(x.shape).numpy() for part, x in zip(parts, tensors, strict=True)]


def torch_net(obs_filter, net):
    """Return the same function as `numpy_net`, computed by torch."""
    device = next(net.parameters()).device

    def forward(obs):
        with torch.no_grad():
            return net(obs_filter(as_input(obs_filter, obs, device))).cpu().numpy()

    return forward


class NetPolicy:
    """Selects actions in NumPy for a default actor: runs its forward pass, then adds its noise."""

    def __init__(self, actor, fast=True):
        self.actor, self.fast = actor, fast
        self.renew()

    def renew(self):
        """Copy the actor's current parameters."""
        layers, self.sample, self.mode = self.actor.in_numpy()
        args = (self.actor.obs_filter, layers)
        self.net = (numpy_net(*args) if self.fast else None) or torch_net(*args)

    def begin(self, rng):
        """See `spinup.algos.common.loop.Policy`."""
        self.renew()

    def __call__(self, obs, rng):
        """Sample actions for a batch of observations; values and log-probs are computed later."""
        return self.sample(self.net(obs), rng), None, None


def make_policy(ac, device="cpu", on_policy=True):
    """Create the fastest policy that acts like the `step` or `act` of `ac`.

    On-policy algorithms act through `step` if it exists, all others through `act`.
    """
    if _is_default(ac):
        return NetPolicy(_actor(ac))
    from spinup.algos.pytorch.common.user_acting import ActPolicy, StepPolicy

    steps = on_policy and hasattr(ac, "step")
    return StepPolicy(ac, device) if steps else ActPolicy(ac, device)


def _is_default(ac):
    acts = getattr(type(ac), "step", None) or getattr(type(ac), "act", None)
    # Only our own classes, not subclasses, which may act differently.
    return getattr(acts, "samples_pi", False) and "in_numpy" in vars(type(_actor(ac)))


def _actor(ac):
    """Return the module that chooses actions: the policy, or else the Q-function."""
    return ac.pi if hasattr(ac, "pi") else getattr(ac, "q", None)


def make_get_action(ac, deterministic=False, rng=None, action_space=None):
    """Return a function from one observation to the action to send to the environment.

    The action is clipped to the bounds and has the action space's shape, if the space is known.
    `rng` is the RNG for sampling (a new one by default).
    """
    rng = rng or np.random.default_rng()
    if hasattr(type(ac), "make_get_action"):  # its networks see only part of the observation
        return ac.make_get_action(deterministic, rng)
    if action_space is None:
        action_space = getattr(ac, "action_space", None)
    to_env = (lambda act: act) if action_space is None else env_actions(action_space)
    if _is_default(ac):
        policy = NetPolicy(_actor(ac))
        net, sample, mode = policy.net, policy.sample, policy.mode

        def get_action(obs):
            out = net(np.asarray(obs)[None])
            return to_env(mode(out) if deterministic else sample(out, rng))[0]

        return get_action
    from spinup.algos.pytorch.common.user_acting import make_user_get_action

    return make_user_get_action(ac, deterministic, to_env)

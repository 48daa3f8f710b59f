"""A deterministic policy as a single torch module, for export to other runtimes.

The module maps a batch of the environment's observations to actions for `env.step`. It includes
the normalizer, the network, squashing, scaling and clipping.
"""

import inspect

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from spinup.algos.common.numpy_actor import NumpyActor
from spinup.algos.pytorch.common import nets
from spinup.envs.spaces import is_image
from spinup.policies.activations import activation
from spinup.utils.errors import SpinupError


class DeterministicPolicy(nn.Module):
    """Maps (batch, *observation) to (batch, *action): the most likely action for each row.

    Args:
        ac: one of the library's networks, a custom one that has `pi(obs)` or `q(obs)`, or a
            `NumpyActor`.
        action_space: the environment's action space. Box actions are clipped to its bounds;
            discrete actions are counted from its `start`.
    """

    def __init__(self, ac, action_space):
        super().__init__()
        # A goal-conditioned policy selects the inputs of its networks.
        self.goal = ac if hasattr(ac, "inputs") and hasattr(ac, "net") else None
        inner = ac.net if self.goal is not None else ac
        self.actor = inner.pi if hasattr(inner, "pi") else getattr(inner, "q", None)
        if isinstance(ac, NumpyActor):
            self.actor = DescribedActor(ac)
        if not isinstance(self.actor, nn.Module):
            raise SpinupError(
                f"{type(inner).__name__} cannot be exported because it has neither a module pi nor "
                "a module q: add one of them"
            )
        # The policy may read through an encoder that belongs to a critic (`images.Shared`).
        self.encoder = getattr(getattr(self.actor, "obs_filter", None), "encoder", None)
        # Match these classes exactly, because a subclass may have changed their behavior.
        self.net = self.actor.in_numpy()[0] if type(self.actor) in _PLAIN else None
        dtype = np.dtype(action_space.dtype).name
        if dtype not in _DTYPES:
            raise SpinupError(
                f"actions of type {dtype} cannot be exported: use one of {', '.join(_DTYPES)}"
            )
        self.action_space = action_space
        self.picks = not isinstance(action_space, spaces.Box)
        if self.picks:
            start = np.asarray(getattr(action_space, "start", 0), dtype=np.int64)
            self.register_buffer("start", torch.as_tensor(start))
        else:
            low, high = action_space.low, action_space.high
            self.clips = bool(np.isfinite(low).any() or np.isfinite(high).any())
            self.register_buffer("low", torch.as_tensor(low))
            self.register_buffer("high", torch.as_tensor(high))

    def scores(self, obs):
        """Return the logits or values of discrete actions, or Box actions before clipping."""
        if self.goal is not None:
            obs = self.goal.inputs(obs)
        actor = self.actor
        if self.net is not None:
            return self.net(actor.obs_filter(obs))
        return _answer(actor, obs, self.picks)

    def forward(self, obs):
        """Return the actions for the environment."""
        out = self.scores(obs)
        space = self.action_space
        dtype = _DTYPES[np.dtype(space.dtype).name]
        if isinstance(space, spaces.Box):
            act = out.reshape(-1, *space.shape).to(dtype)
            return torch.clamp(act, self.low, self.high) if self.clips else act
        if isinstance(space, spaces.Discrete):
            return (out.argmax(-1) + self.start).to(dtype)
        if isinstance(space, spaces.MultiDiscrete):
            sizes = [int(n) for n in space.nvec.ravel()]
            act = torch.stack([x.argmax(-1) for x in out.split(sizes, -1)], -1)
        else:
            act = (out > 0).long()
        return (act.reshape(-1, *space.shape) + self.start).to(dtype)

    def worth(self, scores, act):
        """Return the summed scores of discrete actions (n, *action); NaN outside of the space."""
        space = self.action_space
        picked = (act.astype(np.int64) - self.start.numpy()).reshape(len(act), -1)
        if isinstance(space, spaces.MultiBinary):
            total = (scores * picked).sum(-1)
        else:
            sizes = [space.n] if isinstance(space, spaces.Discrete) else space.nvec.ravel()
            at = (np.cumsum([0, *sizes[:-1]]) + picked).clip(0, sum(sizes) - 1)
            total = np.take_along_axis(scores, at, -1).sum(-1)
        return np.where([space.contains(a) for a in act], total, np.nan)


# Actors whose networks return logits or means.
_PLAIN = (
    nets.MLPGaussianActor,
    nets.MLPCategoricalActor,
    nets.MLPMultiCategoricalActor,
    nets.MLPBernoulliActor,
)
_DTYPES = {
    name: getattr(torch, name)
    for name in ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8")
}


def _answer(actor, obs, picks):
    """Return the output of a custom `pi` or `q`, without noise if it has an argument for that."""
    known = inspect.signature(actor.forward).parameters
    quiet = {"deterministic": True, "with_logprob": False}
    out = actor(obs, **{name: value for name, value in quiet.items() if name in known})
    out = out[0] if isinstance(out, tuple) else out
    if isinstance(out, torch.Tensor):
        return out
    names = ("logits", "probs") if picks else ("mean", "loc")
    found = next((x for name in names if (x := getattr(out, name, None)) is not None), None)
    if found is None:
        raise SpinupError(
            f"{type(actor).__name__} returns a {type(out).__name__}, whose most likely action is "
            f"not available: add an attribute {names[0]} to it"
        )
    return found


class DescribedActor(nn.Module):
    """The torch module that computes what a `NumpyActor` does, without noise."""

    def __init__(self, actor):
        super().__init__()
        about, arrays = actor.description, actor.arrays
        layers = [*about["layers"]]
        self.bounded = actor.kind in ("squashed_gaussian", "deterministic")
        if actor.kind == "squashed_gaussian":
            layers.append([*about["mu_layer"], "identity"])
        modules = []
        for weight, bias, name in layers:
            linear = nn.Linear(*arrays[weight].shape)
            linear.weight = nn.Parameter(torch.tensor(arrays[weight].T))
            linear.bias = nn.Parameter(torch.tensor(arrays[bias]))
            modules.append(linear)
            if name != "identity":
                modules.append(activation(name, "pytorch")())
        self.net = nn.Sequential(*modules)
        self.clip = about.get("obs_clip")
        for name in ("obs_mean", "obs_std", "scale", "center"):
            value = torch.tensor(arrays[about[name]]) if name in about else None
            self.register_buffer(name, value)

    def forward(self, obs):
        """Return logits, means or bounded actions: (batch, *observation) -> (batch, outputs)."""
        x = obs.flatten(1) if obs.ndim > 1 else obs.unsqueeze(-1)
        if self.obs_mean is not None:
            x = (x - self.obs_mean) / self.obs_std
            x = x if self.clip is None else x.clamp(-self.clip, self.clip)
        x = self.net(x)
        return self.center + self.scale * torch.tanh(x) if self.bounded else x


def observations_like(space, rng, n=64):
    """Draw observations for comparing two policies: typical ones, large ones and the bounds.

    Returns a list of float32 arrays (rows, *shape), one array per kind of observation. Bounds
    beyond 1e6 are clipped to 1e6. Images have their own dtype.
    """
    if is_image(space):
        low, high, shape = space.low, space.high, (n, *space.shape)
        dense = rng.integers(low.astype(int), high.astype(int) + 1, shape)
        sparse = np.where(rng.random(shape) < 0.05, high, low)
        halves = np.where(rng.random((n, *[1] * len(space.shape))) < 0.5, dense, high)
        groups = [dense, sparse, halves, np.stack([low, high])]
        return [group.astype(space.dtype) for group in groups]
    low, high = (np.clip(x, -1e6, 1e6).astype(np.float32) for x in (space.low, space.high))
    narrow = [np.clip(x, -10, 10) for x in (low, high)]
    usual = rng.normal(size=(n, *space.shape))
    corners = np.where(rng.random((n, *space.shape)) < 0.5, low, high)
    spikes = np.zeros((n, *space.shape))
    spikes.reshape(n, -1)[np.arange(n), rng.integers(0, spikes[0].size, n)] = 1e6
    groups = [
        np.concatenate([np.zeros((1, *space.shape)), usual]),
        100 * usual,
        1e6 * usual[: n // 4],
        rng.uniform(*narrow, (n, *space.shape)),
        np.concatenate([corners, np.stack([low, high])]),
        spikes * rng.choice([-1, 1], (n, *[1] * len(space.shape))),
    ]
    return [group.astype(np.float32) for group in groups]

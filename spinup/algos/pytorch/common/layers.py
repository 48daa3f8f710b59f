"""What all networks are made of: layers, observation filters, and the actor that most share."""

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

from spinup.algos.common import numpy_net
from spinup.envs.spaces import is_image


class _Tanh(torch.autograd.Function):
    """tanh(x) = 2 sigmoid(2x) - 1, with the derivative 1 - tanh(x)^2."""

    @staticmethod
    def forward(ctx, x):
        y = x.mul(2).sigmoid_().mul_(2).sub_(1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        # torch's own kernel, which is itself differentiable (TRPO needs second derivatives)
        return torch.ops.aten.tanh_backward(grad, y)


class Tanh(nn.Tanh):
    """The same function as `nn.Tanh`, several times faster on a CPU.

    torch vectorizes its sigmoid but not its tanh, and tanh layers take half of a small network's
    update time. The absolute error is below 2e-7.
    """

    def forward(self, x):
        """Return tanh(x), for any shape."""
        return torch.tanh(x) if x.is_cuda else _Tanh.apply(x)


def mlp(sizes, activation, output_activation=nn.Identity):
    """Build a multi-layer perceptron; `sizes` are the widths from input to output."""
    layers = []
    for j in range(len(sizes) - 1):
        act = activation if j < len(sizes) - 2 else output_activation
        layers += [nn.Linear(sizes[j], sizes[j + 1]), act()]
    return nn.Sequential(*layers)


def count_vars(module):
    """Count the scalar parameters."""
    return sum(p.numel() for p in module.parameters())


def init_orthogonal(net, output_gain, wanted=True, heads=None):
    """Set orthogonal weights (gain sqrt(2), `output_gain` in the last layer) and zero biases.

    `heads` are the parts of a network that has several last layers. `wanted=None` means only if the
    network has convolutions. A user's encoder keeps its weights.
    """
    given = {x for m in net.modules() if getattr(m, "given", False) for x in m.modules()}
    layers = [m for m in net.modules() if isinstance(m, nn.Linear | nn.Conv2d) and m not in given]
    if wanted is None:
        wanted = any(isinstance(layer, nn.Conv2d) for layer in layers)
    last = {[m for m in head.modules() if m in layers][-1] for head in heads or (net,)}
    for layer in layers if wanted else ():
        gain = output_gain if layer in last else 2**0.5
        nn.init.orthogonal_(layer.weight, gain)
        nn.init.zeros_(layer.bias)


class ObsFilter(nn.Module):
    """Prepares observations for the first layer: flattens and optionally normalizes them.

    The statistics are buffers of the network, so they are saved with the policy. They change only
    in `update`, between epochs: the policy stays fixed during data collection and evaluation.
    """

    def __init__(self, shape, normalize=False, clip=10.0):
        super().__init__()
        self.ndim, self.normalize, self.clip = len(shape), normalize, clip
        dim = int(np.prod(shape))
        if normalize:
            self.register_buffer("mean", torch.zeros(dim))
            self.register_buffer("std", torch.ones(dim))
            # count, sum and sum of squares so far; float64 because they only ever grow
            self.register_buffer("sums", torch.zeros(2 * dim + 1, dtype=torch.float64))

    def forward(self, obs):
        """Flatten and normalize: (..., *shape) -> (..., dim)."""
        if self.ndim != 1:
            obs = obs.flatten(-self.ndim) if self.ndim else obs.unsqueeze(-1)
        if self.normalize:
            limit = torch.where(self.sums[0] > 0, self.clip, torch.inf)  # raw: not clipped
            obs = ((obs - self.mean) / self.std).clamp(-limit, limit)
        return obs

    def frozen_copy(self):
        """Return the current normalization as a function of arrays: (..., dim) -> (..., dim)."""
        mean, std = (x.cpu().numpy().copy() for x in (self.mean, self.std))
        return numpy_net.normalizer(mean, std, self.clip if self.sums[0] > 0 else np.inf)

    def batch_sums(self, obs):
        """Return a batch's count, sums and sums of squares, as one float64 vector."""
        x = obs.reshape(len(obs), -1).double()
        count = torch.full((1,), float(len(x)), dtype=torch.float64, device=x.device)
        return torch.cat([count, x.sum(0), x.square().sum(0)])

    def update(self, sums):
        """Add the sums of new observations (over all shards) and recompute mean and std."""
        self.sums += sums
        dim = len(self.mean)
        mean = self.sums[1 : dim + 1] / self.sums[0]
        var = self.sums[dim + 1 :] / self.sums[0] - mean.square()
        self.mean.copy_(mean)
        self.std.copy_(_std(mean, var))


def _std(mean, var):
    """Return the standard deviation, or 1 if there is none beyond rounding errors."""
    return torch.where(var > 1e-30 + 1e-12 * mean.square(), var, 1.0).sqrt()


class ReturnFilter(nn.Module):
    """Divides rewards by the running standard deviation of discounted returns."""

    def __init__(self):
        super().__init__()
        self.register_buffer("std", torch.ones((), dtype=torch.float64))
        self.register_buffer("sums", torch.zeros(3, dtype=torch.float64))

    def update(self, sums):
        """Add the count, sum and sum of squares of new discounted returns."""
        self.sums += sums
        mean = self.sums[1] / self.sums[0]
        var = self.sums[2] / self.sums[0] - mean.square()
        self.std.copy_(_std(mean, var))


def set_state(network, state):
    """Unpickle a network, or one of the original Spinning Up, which has no observation filter."""
    nn.Module.__setstate__(network, state)
    if "obs_filter" not in network._modules:
        network.obs_filter = nn.Identity()


class Actor(nn.Module):
    """A stochastic policy; subclasses define the distribution and its log-probabilities."""

    def _distribution(self, obs):
        raise NotImplementedError(f"{type(self).__name__} must define _distribution(obs)")

    def _log_prob_from_distribution(self, pi, act):
        raise NotImplementedError(
            f"{type(self).__name__} must define _log_prob_from_distribution(pi, act)"
        )

    def forward(self, obs, act=None):
        """Return (pi, logp): the distribution and, if `act` is given, its log-probabilities."""
        pi = self._distribution(obs)
        return pi, None if act is None else self._log_prob_from_distribution(pi, act)


class MLPCategoricalActor(Actor):
    """Discrete(n): a softmax over n logits."""

    __setstate__ = set_state

    def __init__(self, obs_dim, act_dim, hidden_sizes, activation, obs_filter=None):
        super().__init__()
        self.obs_filter = obs_filter or nn.Identity()
        self.logits_net = mlp([obs_dim, *hidden_sizes, act_dim], activation)

    def _distribution(self, obs):
        return Categorical(logits=self.logits_net(self.obs_filter(obs)), validate_args=False)

    def _log_prob_from_distribution(self, pi, act):
        return pi.log_prob(act)

    def mode(self, pi):
        """Return the most likely action."""
        return pi.logits.argmax(-1)

    def in_numpy(self):
        """Return, for acting, the layers and (sample, mode), which map their outputs to actions."""
        return self.logits_net, *numpy_net.CATEGORICAL


def make_obs_filter(observation_space, normalize):
    """Create the observation filter; None if observations are flat and need no normalization."""
    if len(observation_space.shape) == 1 and not normalize:
        return None
    return ObsFilter(observation_space.shape, normalize)


def obs_layers(space, encoder, hidden_sizes, usual, normalize=False, **options):
    """Return (width, hidden_sizes, make): how the networks start that read this space.

    `make()` returns what prepares observations: the same filter (or None) at every call for
    vectors, a new encoder for images. `usual` is the default of `hidden_sizes` for vectors. The
    options are those of `image_layers`.
    """
    if encoder not in ("auto", "flat") or is_image(space):
        from spinup.algos.pytorch.common.images import image_layers

        return image_layers(space, encoder, hidden_sizes, usual, normalize=normalize, **options)
    obs_filter = make_obs_filter(space, normalize)
    sizes = usual if hidden_sizes is None else hidden_sizes
    return int(np.prod(space.shape)), sizes, lambda: obs_filter


def takes_bytes(network):
    """Return whether a network takes images as bytes, because it has an encoder."""
    modules = getattr(network, "modules", list)()  # an original policy need not be a module
    return any(getattr(module, "takes_bytes", False) for module in modules)


def as_input(network, obs, device):
    """Copy observations to a tensor: images as bytes if the network takes them, else as float32."""
    dtype = None if takes_bytes(network) else torch.float32
    return torch.tensor(obs, dtype=dtype, device=device)


def samples_pi(step):
    """Mark a `step` or `act` that only samples `pi`, so that `acting.py` may sample it in NumPy."""
    step.samples_pi = True
    return step


def flat(values):
    """Reshape to one number per row, (B,).

    A user's network may return a column (B, 1), and (B, 1) minus (B,) would silently broadcast to
    (B, B).
    """
    if values.ndim > 1:
        from spinup.algos.common.columns import say_that_a_column_was_flattened

        say_that_a_column_was_flattened(values.shape)
    return values.reshape(-1)

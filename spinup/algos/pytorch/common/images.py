"""Encoders: the layers through which the default networks read images.

An encoder takes the place of an observation filter. It maps images to features:
(..., *shape) -> (..., features). Images stay bytes until here, so that rollouts, replay buffers and
batches hold bytes, and only the rows of one gradient step are floats.

    obs_dim, hidden_sizes, new_encoder = image_layers(space, "auto", None, usual=(64, 64))
"""

import functools
import numbers

import numpy as np
import torch
from gymnasium import spaces
from torch import nn
from torch.utils.checkpoint import checkpoint

from spinup.envs.spaces import is_image, name_of
from spinup.utils.errors import SpinupError

NATURE_FROM = 36  # pixels of the shorter side: the least that leaves one pixel after three layers
WIDTHS = {"nature": 512, "small": 128}  # of the last layer
# At most this many values are encoded at a time, 594 Atari observations: 64 MB of floats. With
# gradients, four times as many (1.2 GB); more are encoded once more in the backward pass.
MOST_VALUES = 1 << 24


def image_layers(space, encoder, hidden_sizes, usual, after=(), normalize=False, streams=False):
    """Return (width, hidden_sizes, make): how the networks start that read this space.

    Args:
        space: the observation space.
        encoder: "auto", "nature", "small", "flat", or a class or function that makes a module.
        hidden_sizes: widths of the layers after the encoder; None means the default.
        usual: the default for vectors, and for flattened images.
        after: the default after an encoder.
        normalize: whether `normalize_obs` is set, which is an error.
        streams: whether the next hidden layer belongs to one of several streams. If so, the
            encoder leaves its own last layer to them.
    """
    kind = check_encoder(space, encoder, normalize)
    if hidden_sizes is None:
        own = (WIDTHS[kind],) if streams and kind in WIDTHS else after
        hidden_sizes = usual if kind == "flat" else own

    def build():
        return Encoder(space, kind, encoder, headless=streams)

    made = [build()]
    return made[0].features, hidden_sizes, lambda: made.pop() if made else build()


def check_encoder(space, encoder="auto", normalize_obs=False, share_encoder=False):
    """Return which encoder is meant, "nature", "small", "flat" or "given"; reject others."""
    if normalize_obs:
        raise SpinupError(
            "normalize_obs=True is for vectors, but an encoder reads this observation space, "
            f"{name_of(space)}: leave it out"
        )
    if callable(encoder):
        return "given"
    if encoder not in ("auto", "flat", *WIDTHS):
        raise SpinupError(
            f"encoder={encoder!r} is not an encoder: use 'auto', 'nature', 'small', 'flat', or a "
            "class that makes a module"
        )
    if not is_image(space):
        wish = "share_encoder=True" if share_encoder else f"encoder={encoder!r}"
        raise SpinupError(
            f"{wish} needs images (three axes of uint8 or bool), but the observation space is "
            f"{name_of(space)}: leave it out"
        )
    _, height, width = _channels_first(space.shape)
    if encoder == "auto":
        return "nature" if min(height, width) >= NATURE_FROM else "small"
    if encoder == "nature" and min(height, width) < NATURE_FROM:
        raise SpinupError(
            f"encoder='nature' needs at least {NATURE_FROM}x{NATURE_FROM} pixels, but the images "
            f"have {height}x{width}: use 'small'"
        )
    return encoder


def _is_first(shape):
    """Return whether the channels are the first axis: the shorter of the first and the last."""
    return shape[0] < shape[-1]


def _channels_first(shape):
    """Return an image's (channels, height, width)."""
    return tuple(shape) if _is_first(shape) else (shape[2], shape[0], shape[1])


class Encoder(nn.Module):
    """Scales images to 0..1 and maps them to features: (..., *shape) -> (..., features).

    Bytes are divided by the largest value of the space, usually 255. Floats with the same values
    give the same result.
    """

    def __init__(self, space, kind, make=None, headless=False):
        super().__init__()
        self.shape, self.image = tuple(space.shape), is_image(space)
        self.takes_bytes = self.image
        # Like a weight, so that it follows the module to a device or to double precision.
        high = torch.tensor(float(max(1, space.high.max())) if self.image else 1.0)
        self.register_buffer("high", high, persistent=False)
        self.permute = self.image and kind != "flat" and not _is_first(self.shape)
        self.given = kind == "given"  # a user's module has its own initial weights
        self.widest = 0  # number of outputs of the largest convolution (see `TorchRun`)
        if self.given:
            self.net, self.features = _given(make, space)
        elif kind == "flat":
            self.net, self.features = nn.Flatten(), int(np.prod(self.shape))
        else:
            layers, size, self.widest = _convolutions(kind, *_channels_first(self.shape))
            if not headless:
                layers += [nn.Linear(size, WIDTHS[kind]), nn.ReLU()]
                size = WIDTHS[kind]
            self.net, self.features = nn.Sequential(*layers), size

    def forward(self, obs):
        """Return features: (..., *shape) -> (..., features)."""
        x = obs.reshape(-1, *self.shape)
        grad, rows = torch.is_grad_enabled(), max(1, MOST_VALUES // int(np.prod(self.shape)))
        if torch.compiler.is_compiling() or len(x) <= (4 * rows if grad else rows):
            out = self._encode(x)
        else:
            again = functools.partial(checkpoint, self._encode, use_reentrant=False)
            out = torch.cat([(again if grad else self._encode)(part) for part in x.split(rows)])
        return out.reshape(*obs.shape[: obs.ndim - len(self.shape)], self.features)

    def _encode(self, x):
        if self.permute:
            x = x.permute(0, 3, 1, 2).contiguous()  # still bytes; convolutions then run faster
        return self.net(x.to(self.high.dtype) / self.high)


def _convolutions(kind, channels, height, width):
    """Return convolutional layers, the number of their outputs, and that of the largest one."""
    if kind == "nature":  # Mnih et al. 2015: filters, size and stride of each layer
        filters = [(32, 8, 4), (64, 4, 2), (64, 3, 1)]
    else:  # Young and Tian 2019, for MinAtar
        filters = [(16, 3, 1)]
    layers, outputs = [], []
    for count, size, stride in filters:
        sizes = (min(size, height), min(size, width))
        layers += [nn.Conv2d(channels, count, sizes, stride), nn.ReLU()]
        channels = count
        height, width = ((n - k) // stride + 1 for n, k in zip((height, width), sizes, strict=True))
        outputs.append(channels * height * width)
    return [*layers, nn.Flatten()], outputs[-1], max(outputs)


def _given(make, space):
    """Return a user's module and the number of its features."""
    if is_image(space):  # what the module will see
        space = spaces.Box(0.0, 1.0, _channels_first(space.shape), np.float32)
    module = make(space)
    features = getattr(module, "features", None)
    if not isinstance(module, nn.Module) or not isinstance(features, numbers.Integral):
        raise SpinupError(
            f"encoder={getattr(make, '__name__', make)} must make a module whose attribute "
            f"'features' is the number of its outputs, but it made a {type(module).__name__} with "
            f"features={features!r}"
        )
    return module, int(features)


class Shared(nn.Module):
    """Reads through an encoder that belongs to another network.

    Its parameters are that network's, not listed here. With `trains=False`, no gradient reaches
    them from this network either.
    """

    def __init__(self, encoder, trains):
        super().__init__()
        self._encoder = (encoder,)  # in a tuple, so that torch does not register it
        self.trains, self.features, self.takes_bytes = trains, encoder.features, encoder.takes_bytes

    @property
    def encoder(self):
        """The other network's encoder."""
        return self._encoder[0]

    def forward(self, obs):
        """Return features: (..., *shape) -> (..., features)."""
        with torch.set_grad_enabled(self.trains and torch.is_grad_enabled()):
            return self.encoder(obs)

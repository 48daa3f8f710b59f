"""Networks that the off-policy algorithms share: action-value functions, actors within bounds.

Actions live in a Box whose bounds may differ by dimension and need not be symmetric. An actor
computes in (-1, 1) and its output is scaled by half the width of the range and moved to its middle.
"""

import math

import torch
from torch import nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import softplus

from spinup.algos.pytorch.common import nets
from spinup.algos.pytorch.common.nets import Tanh

LOG_STD_MIN, LOG_STD_MAX = -20, 2
LOG_2, HALF_LOG_2PI = math.log(2), 0.5 * math.log(2 * math.pi)


class _ReluLayers(torch.autograd.Function):
    """Networks of linear and ReLU layers that read the same input, as one step of autograd."""

    @staticmethod
    def forward(ctx, x, relu_last, n, *params):
        size = len(params) // n
        networks = [params[i : i + size] for i in range(0, len(params), size)]
        outputs = [_relu_layers(x, relu_last, network) for network in networks]
        ctx.relu_last, ctx.n = relu_last, n
        ctx.save_for_backward(x, *(h for hs in outputs for h in hs), *params[::2])
        return tuple(hs[-1] for hs in outputs)

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads_out):
        need_x, _, _, *need = ctx.needs_input_grad
        depth = len(need) // (2 * ctx.n)
        x, *saved = ctx.saved_tensors
        weights = saved[depth * ctx.n :]
        grads, grad_x = [None] * len(need), None
        for net, grad in enumerate(grads_out):
            first = net * depth
            for i in reversed(range(first, first + depth)):
                if i < first + depth - 1 or ctx.relu_last:
                    grad = torch.ops.aten.threshold_backward(grad, saved[i], 0)
                below = saved[i - 1] if i > first else x
                if need[2 * i]:
                    grads[2 * i] = grad.t() @ below
                if need[2 * i + 1]:
                    grads[2 * i + 1] = grad.sum(0)
                if i > first or need_x:
                    grad = grad @ weights[i]
            if need_x:
                grad_x = grad if grad_x is None else grad_x + grad
        return grad_x, None, None, *grads


def _relu_layers(x, relu_last, params):
    """The outputs of all layers of one network."""
    outputs = []
    last = len(params) - 2
    for i in range(0, len(params), 2):
        x = torch.addmm(params[i + 1], x, params[i].t())
        if i < last or relu_last:
            x = x.relu_()
        outputs.append(x)
    return outputs


def _apply(x, relu_last, *networks):
    """The outputs of several networks, each a list of weights and biases, for one input."""
    if torch.is_grad_enabled():
        return _ReluLayers.apply(x, relu_last, len(networks), *(p for net in networks for p in net))
    return tuple(_relu_layers(x, relu_last, params)[-1] for params in networks)


def _plain(module, kind):
    """Whether a module is of just this class, and no hook of the user's changes what it does."""
    return type(module) is kind and not (module._forward_hooks or module._forward_pre_hooks)


class MLP(nn.Sequential):
    """A multi-layer perceptron whose linear and ReLU layers are one step of autograd on a CPU.

    The same numbers as `nn.Sequential` gives. A small network spends a third of its time between
    the layers' products; an update calls it a dozen times. What does not fit (other activations,
    more than one batch axis, a GPU) goes the usual way, layer by layer.
    """

    def relu_params(self, x):
        """Weights and biases in order, or None where `x` must go layer by layer."""
        if x.ndim != 2 or x.device.type != "cpu":
            return None
        *layers, _ = self._modules.values()
        params = []
        for i, module in enumerate(layers):
            if not _plain(module, nn.ReLU if i % 2 else nn.Linear):
                return None
            if i % 2 == 0:
                if module.bias is None:
                    return None
                params += (module.weight, module.bias)
        return params

    def forward(self, x):
        """(..., in) -> (..., out)."""
        params, last = self.relu_params(x), self[-1]
        if params is None:
            return super().forward(x)
        relu_last = type(last) is nn.ReLU
        (x,) = _apply(x, relu_last, params)
        return x if relu_last or type(last) is nn.Identity else last(x)


def mlp(sizes, activation, output_activation=nn.Identity):
    """As `nets.mlp`, faster: `sizes` are the widths from input to output."""
    layers = nets.mlp(sizes, activation, output_activation)
    return MLP(*layers) if len(layers) else layers


def bounds(action_space):
    """(half the width, middle) of every dimension of a Box, as flat float32 tensors."""
    low, high = (torch.as_tensor(x.reshape(-1)) for x in (action_space.low, action_space.high))
    return ((high - low) / 2).float(), ((high + low) / 2).float()


class MLPQFunction(nn.Module):
    """Q(s, a). The output layer is linear: values may be negative."""

    def __init__(self, obs_dim, act_dim, hidden_sizes, activation, obs_filter=None):
        super().__init__()
        self.obs_filter = obs_filter or nn.Identity()
        self.q = mlp([obs_dim + act_dim, *hidden_sizes, 1], activation)

    def inputs(self, obs, act):
        """What the network reads: (..., obs), (..., act) -> (..., obs + act)."""
        obs = self.obs_filter(obs)
        if act.ndim != obs.ndim:  # actions with several axes
            act = act.flatten(obs.ndim - 1)
        return torch.cat([obs, act], -1)

    def forward(self, obs, act):
        """(..., obs), (..., act) -> (...,)."""
        return self.q(self.inputs(obs, act)).squeeze(-1)


def twin_q(ac, obs, act):
    """Both critics of a batch, (B,) each; the default ones in one step of autograd.

    A user's critics may give columns (B, 1): a column minus a row would broadcast to a square
    without a word.
    """
    q1, q2 = ac.q1, ac.q2
    if _read_the_same(q1, q2):
        x = q1.inputs(obs, act)
        params1, params2 = q1.q.relu_params(x), q2.q.relu_params(x)
        if params1 and params2 and len(params1) == len(params2):
            q1, q2 = _apply(x, False, params1, params2)
            return q1.reshape(-1), q2.reshape(-1)
    return q1(obs, act).reshape(-1), q2(obs, act).reshape(-1)


def _read_the_same(q1, q2):
    """Whether both are default critics whose networks get the same input."""
    if not all(_plain(q, MLPQFunction) and _plain(q.q, MLP) for q in (q1, q2)):
        return False
    filters = q1.obs_filter, q2.obs_filter
    return filters[0] is filters[1] or all(_plain(f, nn.Identity) for f in filters)


class MLPDiscreteQFunction(nn.Module):
    """Q(s, .) of all discrete actions at once, or of the given ones."""

    def __init__(self, obs_dim, act_dim, hidden_sizes, activation, obs_filter=None):
        super().__init__()
        self.obs_filter = obs_filter or nn.Identity()
        self.q = mlp([obs_dim, *hidden_sizes, act_dim], activation)

    def forward(self, obs, act=None):
        """(..., obs) -> (..., n); with integer actions (...,) -> (...,)."""
        q = self.q(self.obs_filter(obs))
        return q if act is None else q.gather(-1, act.unsqueeze(-1)).squeeze(-1)


class BoundedActor(nn.Module):
    """What actors within bounds have in common: scale and middle of every dimension.

    `act_limit` is half the width of the range, one number or one a dimension; `act_center` is its
    middle.
    """

    def __init__(self, act_dim, act_limit, act_center=0.0, obs_filter=None):
        super().__init__()
        self.obs_filter = obs_filter or nn.Identity()
        for name, value in (("act_limit", act_limit), ("act_center", act_center)):
            filled = torch.as_tensor(value, dtype=torch.float32).expand(act_dim).clone()
            self.register_buffer(name, filled)

    def scale(self, squashed):
        """From (-1, 1) to the bounds."""
        return self.act_center + self.act_limit * squashed


class MLPActor(BoundedActor):
    """A deterministic policy: the tanh of the last layer, scaled to the bounds."""

    def __init__(
        self,
        obs_dim,
        act_dim,
        hidden_sizes,
        activation,
        act_limit,
        act_center=0.0,
        obs_filter=None,
    ):
        super().__init__(act_dim, act_limit, act_center, obs_filter)
        self.pi = mlp([obs_dim, *hidden_sizes, act_dim], activation, Tanh)

    def forward(self, obs):
        """(..., obs) -> (..., act)."""
        return self.scale(self.pi(self.obs_filter(obs)))


class SquashedGaussianMLPActor(BoundedActor):
    """A Gaussian whose mean and width depend on the state, squashed by tanh into the bounds."""

    def __init__(
        self,
        obs_dim,
        act_dim,
        hidden_sizes,
        activation,
        act_limit,
        act_center=0.0,
        obs_filter=None,
    ):
        super().__init__(act_dim, act_limit, act_center, obs_filter)
        self.net = mlp([obs_dim, *hidden_sizes], activation, activation)
        width = [obs_dim, *hidden_sizes][-1]
        self.mu_layer = nn.Linear(width, act_dim)
        self.log_std_layer = nn.Linear(width, act_dim)

    def forward(self, obs, deterministic=False, with_logprob=True):
        """Actions (..., act) and their log-probabilities (...,), or None for those."""
        h = self.net(self.obs_filter(obs))
        mu, log_std = self.mu_layer(h), self.log_std_layer(h).clamp(LOG_STD_MIN, LOG_STD_MAX)
        # u = mu + std * noise: the gradient passes through the sample (reparameterisation).
        noise = torch.zeros_like(mu) if deterministic else torch.randn_like(mu)
        u = mu + log_std.exp() * noise
        logp = squashed_log_prob(noise, log_std, u, self.act_limit) if with_logprob else None
        return self.scale(torch.tanh(u)), logp


def squashed_log_prob(noise, log_std, u, act_limit):
    """Log-density of the action c + s tanh(u), u = mu + std * noise, (..., act) -> (...,).

    The change of variables subtracts log(s (1 - tanh(u)^2)) a dimension. 1 - tanh^2 rounds to zero
    where u is large; 2 (log 2 - u - softplus(-2u)) is its logarithm without that.
    """
    gaussian = -0.5 * noise.square() - log_std - HALF_LOG_2PI
    log_slope = 2 * (LOG_2 - u - softplus(-2 * u)) + act_limit.log()
    return (gaussian - log_slope).sum(-1)


class MLPDuelingQ(nn.Module):
    """Q(s, a) = V(s) + A(s, a) - mean over actions of A(s, .) (Wang et al. 2016, eq. 9).

    The last hidden layer exists twice, once for V and once for A; those before it are shared.
    """

    def __init__(self, obs_dim, n_actions, hidden_sizes, activation, obs_filter=None):
        super().__init__()
        self.obs_filter = obs_filter or nn.Identity()
        shared, last = [obs_dim, *hidden_sizes[:-1]], hidden_sizes[-1:]
        self.net = mlp(shared, activation, activation) if shared[1:] else nn.Sequential()
        self.v_net = mlp([shared[-1], *last, 1], activation)
        self.a_net = mlp([shared[-1], *last, n_actions], activation)

    def forward(self, obs):
        """(..., obs) -> (..., actions)."""
        h = self.net(self.obs_filter(obs))
        a = self.a_net(h)
        return self.v_net(h) + a - a.mean(-1, keepdim=True)

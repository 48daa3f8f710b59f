"""The checks of the original's exercises in PyTorch; `judges_common.py` says what is compared.

Answers may draw random numbers; the state of torch's generator is restored afterwards.
"""

import copy
import math
from functools import partial, wraps

import gymnasium
import numpy as np
import torch
from torch import nn

from spinup.algos.pytorch.common.qnets import twin_q
from spinup.algos.pytorch.ppo import ppo as ppo_module
from spinup.algos.pytorch.td3 import core
from spinup.algos.pytorch.td3 import td3 as library
from spinup.exercises.pytorch.fallback import use_answer_if_unwritten
from spinup.exercises.pytorch.problem_set_1 import exercise1_2_auxiliary
from spinup.exercises.pytorch.problem_set_1_solutions import exercise1_1_soln
from spinup_lab.exercises import judges_common as common
from spinup_lab.exercises.judges_common import GAMMA, MANY, Wrong, written

ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU}


def seeded(check):
    """Make a check repeatable without changing the caller's random numbers."""

    @wraps(check)
    def wrapper(*args):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            check(*args)

    return wrapper


def evaluated(what, got, parameters):
    """Return a tensor as an array, and how to compute its gradients by named tensors."""
    if not isinstance(got, torch.Tensor):
        raise Wrong(f"{what} should be a tensor, not {type(got).__name__}")

    def slopes():
        if not got.requires_grad:
            raise Wrong(f"{what} has no gradient: something in it is detached")
        tensors = list(parameters.values())
        found = torch.autograd.grad(got.sum(), tensors, allow_unused=True)
        found = (
            torch.zeros_like(t) if g is None else g for g, t in zip(found, tensors, strict=True)
        )
        return {name: g.numpy() for name, g in zip(parameters, found, strict=True)}

    return got.detach().numpy(), slopes


def expect(what, expected, got):
    common.expect(what, expected.detach().numpy(), evaluated(what, got, {})[0])


# ------------------------------------------------------------------------------------------- 1.1


@seeded
def check_gaussian_likelihood(answer):
    """Both shapes of log_std, single rows and dimensions, narrow and wide Gaussians, gradients."""

    def evaluate(function, arrays, what):
        given = {k: torch.tensor(x).float() for k, x in arrays.items()}
        before = {name: tensor.clone() for name, tensor in given.items()}
        for tensor in given.values():
            tensor.requires_grad_()
        found = written(function(*given.values()), "gaussian_likelihood")
        for name, tensor in given.items():
            if not torch.equal(tensor.detach(), before[name]):
                raise Wrong(f"gaussian_likelihood changes its argument {name}")
        return evaluated(what, found, given)

    common.check_gaussian_likelihood(evaluate, exercise1_1_soln.gaussian_likelihood, answer)


def exercise1_1(gaussian_likelihood):
    """Judge exercise 1.1; return the exit code."""
    return common.judge(lambda: check_gaussian_likelihood(gaussian_likelihood))


# ------------------------------------------------------------------------------------------- 1.2


@seeded
def check_mlp(mlp):
    """The layers, their sizes, and the activations between and after them."""

    def build(sizes, inner, last):
        given = [ACTIVATIONS[name] for name in (inner, last) if name]
        call = f"mlp({sizes}, {', '.join(f'nn.{c.__name__}' for c in given)})"
        net = written(mlp(sizes, *given), "mlp")
        if not isinstance(net, nn.Module):
            raise Wrong(f"{call} should return an nn.Sequential, not {type(net).__name__}")
        layers = [m for m in net.modules() if isinstance(m, nn.Linear)]
        kernels = [m.weight.detach().numpy().T for m in layers]
        biases = [m(torch.zeros(m.in_features)).detach().numpy() for m in layers]
        return call, kernels, biases, lambda x: net(torch.tensor(x).float()).detach().numpy()

    common.check_mlp(build)


@seeded
def check_sample(distribution):
    """Means and standard deviations of many samples, drawn anew for each row and dimension."""
    mu, log_std = torch.tensor([1.0, -2.0]), torch.tensor([-1.0, 0.5])
    pi = distribution(mu.expand(MANY, 2), log_std)
    x = written(pi.sample(), "DiagonalGaussianDistribution.sample")
    if not isinstance(x, torch.Tensor) or x.shape != (MANY, 2):
        shape = list(getattr(x, "shape", []))
        raise Wrong(f"samples should have the shape of mu, {[MANY, 2]}, not {shape}")
    common.expect_samples("samples", x.detach().numpy(), mu.numpy(), log_std.exp().numpy())
    if torch.equal(pi.sample(), pi.sample()):
        raise Wrong("two calls of sample() return the same numbers")
    one = distribution(mu, log_std).sample()
    if one.shape != (2,):
        raise Wrong(f"with mu of shape [2], a sample has the shape {list(one.shape)}")


@seeded
def check_actor(actor):
    """The parameters of the policy, and the log-likelihoods that it computes."""
    net = actor(3, 2, (8,), nn.Tanh)
    for name in ("mu_net", "log_std"):
        if getattr(net, name, None) is None:
            raise Wrong(f"MLPGaussianActor.__init__ is still to set self.{name}")
    named = dict(net.named_parameters())
    if "log_std" not in named or not named["log_std"].requires_grad:
        raise Wrong("log_std is not among the parameters that an optimizer would train")
    expect("log_std", torch.full((2,), -0.5), net.log_std)
    check_mlp(lambda sizes, activation, *last: _mean_network(actor, sizes, activation, last))
    obs, act = torch.randn(5, 3), torch.randn(5, 2)
    pi, logp = net(obs, act)
    what = "the log-likelihood of actions, from exercise 1.1,"
    right = exercise1_1_soln.gaussian_likelihood(act, net.mu_net(obs), net.log_std)
    common.expect_same(what, evaluated(what, right, named), evaluated(what, logp, named))
    if net(obs)[1] is not None:
        raise Wrong("without actions, the second result of the policy should be None")
    expect("the mean of the distribution", net.mu_net(obs), pi.mu)


def _mean_network(actor, sizes, activation, last):
    net = actor(sizes[0], sizes[-1], tuple(sizes[1:-1]), activation).mu_net
    return nn.Sequential(net, last[0]()) if last else net


def exercise1_2(mlp, distribution, actor):
    """Judge exercise 1.2 and, with `--train`, train the policy; return the exit code."""

    def train(*args, **kwargs):
        ac = partial(exercise1_2_auxiliary.ExerciseActorCritic, actor=actor)
        ppo_module.ppo(*args, actor_critic=ac, ac_kwargs={"hidden_sizes": (64,)}, **kwargs)

    use_answer_if_unwritten()
    checks = [(check_mlp, mlp), (check_sample, distribution), (check_actor, actor)]
    return common.exercise1_2([partial(check, answer) for check, answer in checks], train)


# ------------------------------------------------------------------------------------------- 1.3


def _td3_case(rows, done=(1, 0, 0)):
    """Return networks, target networks, a batch and action limits; actions are in [-1, 1]."""
    torch.manual_seed(0)
    box = gymnasium.spaces.Box(-1, 1, (3,)), gymnasium.spaces.Box(-1, 1, (2,))
    ac, ac_targ = (core.MLPActorCritic(*box, hidden_sizes=(16,)) for _ in range(2))
    ac_targ.requires_grad_(False)
    batch = {
        "obs": torch.randn(rows, 3),
        "act": torch.rand(rows, 2) * 2 - 1,
        "rew": torch.randn(rows),
        "obs2": torch.randn(rows, 3),
        "done": torch.tensor(np.resize(done, rows), dtype=torch.float32),
    }
    # shift the second target critic, so that sometimes it has the lower value, sometimes the first
    a2 = ac_targ.pi(batch["obs2"])
    list(ac_targ.q2.parameters())[-1].add_(torch.sub(*twin_q(ac_targ, batch["obs2"], a2)).median())
    return ac, ac_targ, batch, (-torch.ones(2), torch.ones(2))


@seeded
def check_td3_loss_q(answer):
    """Values and gradients without noise, then the noise on the target action by itself."""

    def evaluate(function, done):
        ac, ac_targ, batch, limits = _td3_case(24, done)
        loss_q, info = written(
            function(ac, ac_targ, batch, GAMMA, 0.0, 0.5, limits), "compute_loss_q"
        )
        named = {f"ac.{name}": p for name, p in ac.named_parameters()}
        for key, values in info.items():
            if values.requires_grad:
                raise Wrong(f"{key} should be detached: it is only for the log")
        arrays = {key: values.numpy() for key, values in info.items()}
        return evaluated("loss_q", loss_q, named), arrays

    common.check_td3_loss_q(evaluate, _noise, library.compute_loss_q, answer)


def _noise(answer, target_noise, noise_clip, a2):
    """Return the noise on the target action, where the target policy's action is always `a2`."""
    ac, ac_targ, batch, limits = _td3_case(MANY)
    last = [m for m in ac_targ.pi.modules() if isinstance(m, nn.Linear)][-1]
    nn.init.zeros_(last.weight)
    nn.init.constant_(last.bias, math.atanh(a2))
    seen = {}
    watched = copy.copy(ac_targ)
    watched._modules = dict(ac_targ._modules)
    for name in ("q1", "q2"):
        watched._modules[name] = _Watched(getattr(ac_targ, name), name, seen)
    answer(ac, watched, batch, GAMMA, target_noise, noise_clip, limits)
    if seen.keys() != {"q1", "q2"}:
        raise Wrong("the target should use both target critics, ac_targ.q1 and ac_targ.q2")
    if not torch.equal(seen["q1"], seen["q2"]):
        raise Wrong("both target critics should see the same noisy action")
    return (seen["q1"] - a2).numpy()


class _Watched(nn.Module):
    """Remembers the actions that a critic is asked about."""

    def __init__(self, critic, name, seen):
        super().__init__()
        self.critic, self.name, self.seen = critic, name, seen

    def forward(self, obs, act):
        self.seen[self.name] = act.detach()
        return self.critic(obs, act)


@seeded
def check_td3_loss_pi(answer):
    """The value of the loss, and its gradients."""
    ac, _, batch, _ = _td3_case(24)
    named = {f"ac.pi.{name}": p for name, p in ac.pi.named_parameters()}
    right, found = (
        evaluated("loss_pi", written(function(ac, batch), "compute_loss_pi"), named)
        for function in (library.compute_loss_pi, answer)
    )
    common.expect_same("loss_pi", right, found)


def exercise1_3(compute_loss_q, compute_loss_pi):
    """Judge exercise 1.3; return the exit code."""
    return common.judge(
        lambda: check_td3_loss_q(compute_loss_q), lambda: check_td3_loss_pi(compute_loss_pi)
    )

"""What the PyTorch exercises are judged by: numbers, not training runs.

A check compares an answer with the right one, from simple cases to difficult ones, and raises
`Wrong` at the first difference. Answers may draw random numbers; the state of torch's RNG is
restored afterwards.
"""

import copy
import itertools
import math
from functools import partial, wraps

import gymnasium
import torch
from torch import nn

from spinup.algos.pytorch.common.qnets import twin_q
from spinup.algos.pytorch.td3 import core
from spinup.algos.pytorch.td3 import td3 as library
from spinup.exercises import common
from spinup.exercises.common import MANY, RIGHT, Wrong, written
from spinup.exercises.pytorch.fallback import use_answer_if_unwritten
from spinup.exercises.pytorch.problem_set_1 import exercise1_2_auxiliary
from spinup.exercises.pytorch.problem_set_1_solutions import exercise1_1_soln


def seeded(check):
    """Make a check repeatable without changing the caller's random numbers."""

    @wraps(check)
    def wrapper(*args):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            check(*args)

    return wrapper


def expect(what, expected, got):
    """Raise `Wrong` unless `got` is a tensor with the shape and the values of `expected`."""
    if not isinstance(got, torch.Tensor):
        raise Wrong(f"{what} should be a tensor, not {type(got).__name__}")
    common.expect(what, expected.detach().numpy(), got.detach().numpy())


def expect_gradients(what, expected, got, parameters):
    """Raise `Wrong` unless two losses have the same gradients with respect to named tensors."""
    if not got.requires_grad:
        raise Wrong(f"{what} has no gradient: something in it is detached")
    tensors = list(parameters.values())
    rights = torch.autograd.grad(expected, tensors, allow_unused=True)
    founds = torch.autograd.grad(got, tensors, allow_unused=True)
    for name, tensor, right, found in zip(parameters, tensors, rights, founds, strict=True):
        right, found = (torch.zeros_like(tensor) if g is None else g for g in (right, found))
        expect(f"the gradient of {what} with respect to {name}", right, found)


# ------------------------------------------------------------------------------------------- 1.1


@seeded
def check_gaussian_likelihood(answer):
    """Both shapes of log_std, single rows and dimensions, narrow and wide Gaussians, gradients."""
    for batch, dim, shape in [(1, 1, "dim"), (4, 3, "dim"), (32, 10, "dim"), (32, 10, "batch")]:
        x, mu = torch.randn(batch, dim), torch.randn(batch, dim)
        log_std = torch.empty((dim,) if shape == "dim" else (batch, dim)).uniform_(-2, 1)
        given = {"x": x, "mu": mu, "log_std": log_std}
        for tensor in given.values():
            tensor.requires_grad_()
        before = [tensor.detach().clone() for tensor in given.values()]
        right = exercise1_1_soln.gaussian_likelihood(x, mu, log_std)
        got = written(answer(x, mu, log_std), "gaussian_likelihood")
        for (name, tensor), old in zip(given.items(), before, strict=True):
            if not torch.equal(tensor.detach(), old):
                raise Wrong(f"gaussian_likelihood changes its argument {name}")
        case = f"with x of shape [{batch}, {dim}] and log_std of shape {list(log_std.shape)}, "
        expect(f"{case}the result", right, got)
        expect_gradients(f"{case}the sum of the result", right.sum(), got.sum(), given)


# ------------------------------------------------------------------------------------------- 1.2


@seeded
def check_mlp(mlp):
    """The layers, their sizes, and the activations between and after them."""
    cases = [([3, 2], nn.Tanh, ()), ([3, 8, 2], nn.ReLU, ()), ((4, 8, 6, 1), nn.Tanh, (nn.ReLU,))]
    for sizes, activation, last in cases:
        call = f"mlp({sizes}, {', '.join(f'nn.{c.__name__}' for c in (activation, *last))})"
        net = written(mlp(sizes, activation, *last), "mlp")
        if not isinstance(net, nn.Module):
            raise Wrong(f"{call} should return an nn.Sequential, not {type(net).__name__}")
        layers = [m for m in net.modules() if isinstance(m, nn.Linear)]
        found = [(m.in_features, m.out_features) for m in layers]
        right = list(itertools.pairwise(sizes))
        if found != right:
            raise Wrong(f"{call} should have linear layers of the sizes {right}, not {found}")
        x = 3 * torch.randn(16, sizes[0])
        expected = x
        for layer in layers[:-1]:
            expected = activation()(layer(expected))
        expected = layers[-1](expected)
        if last:
            expected = last[0]()(expected)
        expect(f"the output of {call}", expected, net(x))


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
    right = exercise1_1_soln.gaussian_likelihood(act, net.mu_net(obs), net.log_std)
    expect("the log-likelihood of actions, from exercise 1.1,", right, logp)
    expect_gradients("the log-likelihood of actions", right.sum(), logp.sum(), named)
    if net(obs)[1] is not None:
        raise Wrong("without actions, the second result of the policy should be None")
    expect("the mean of the distribution", net.mu_net(obs), pi.mu)


def _mean_network(actor, sizes, activation, last):
    net = actor(sizes[0], sizes[-1], tuple(sizes[1:-1]), activation).mu_net
    return nn.Sequential(net, last[0]()) if last else net


def exercise1_2(mlp, distribution, actor):
    """Judge exercise 1.2 and, with `--train`, train the policy; return the exit code."""
    args = common.train_arguments("Exercise 1.2: a Gaussian policy for PPO.")
    use_answer_if_unwritten()
    verdict = common.judge(
        lambda: check_mlp(mlp), lambda: check_sample(distribution), lambda: check_actor(actor)
    )
    if args.train and verdict == RIGHT:
        from spinup.algos.pytorch.ppo.ppo import ppo

        ac = partial(exercise1_2_auxiliary.ExerciseActorCritic, actor=actor)
        sizes = {"hidden_sizes": (64,)}
        common.demonstrate(ppo, args.env, args.epochs, actor_critic=ac, ac_kwargs=sizes)
    return verdict


# ------------------------------------------------------------------------------------------- 1.3

GAMMA, NO_NOISE = 0.9, (0.0, 0.5)


def _td3_case(rows):
    """Return networks, target networks, a batch and action limits; actions are in [-1, 1]."""
    box = gymnasium.spaces.Box(-1, 1, (3,)), gymnasium.spaces.Box(-1, 1, (2,))
    ac, ac_targ = (core.MLPActorCritic(*box, hidden_sizes=(16,)) for _ in range(2))
    ac_targ.requires_grad_(False)
    batch = {
        "obs": torch.randn(rows, 3),
        "act": torch.rand(rows, 2) * 2 - 1,
        "rew": torch.randn(rows),
        "obs2": torch.randn(rows, 3),
        "done": (torch.arange(rows) % 3 == 0).float(),
    }
    # shift the second target critic, so that sometimes it has the lower value, sometimes the first
    a2 = ac_targ.pi(batch["obs2"])
    list(ac_targ.q2.parameters())[-1].add_(torch.sub(*twin_q(ac_targ, batch["obs2"], a2)).median())
    return ac, ac_targ, batch, (-torch.ones(2), torch.ones(2))


@seeded
def check_td3_loss_q(answer):
    """Values and gradients without noise, then the noise on the target action by itself."""
    ac, ac_targ, batch, limits = _td3_case(24)
    cases = {
        "of terminal transitions": {**batch, "done": torch.ones(24)},
        "of transitions that are not terminal": {**batch, "done": torch.zeros(24)},
        "of both kinds of transitions": batch,
    }
    named = {f"ac.{name}": p for name, p in ac.named_parameters()}
    for name, case in cases.items():
        given = (ac, ac_targ, case, GAMMA, *NO_NOISE, limits)
        right, right_info = library.compute_loss_q(*given)
        loss_q, info = written(answer(*given), "compute_loss_q")
        expect(f"without noise, loss_q {name}", right, loss_q)
        expect_gradients(f"loss_q {name}", right, loss_q, named)
    for key in ("Q1Vals", "Q2Vals"):
        if key not in info:
            raise Wrong(f"the info of compute_loss_q lacks {key}")
        expect(key, right_info[key], info[key])
        if info[key].requires_grad:
            raise Wrong(f"{key} should be detached: it is only for the log")
    _check_target_action(answer)


def _check_target_action(answer):
    ac, ac_targ, batch, limits = _td3_case(MANY)
    last = [m for m in ac_targ.pi.modules() if isinstance(m, nn.Linear)][-1]

    def noise(target_noise, noise_clip, a2):
        """The noise on the target action, where the target policy's action is always `a2`."""
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
        return seen["q1"] - a2

    for target_noise, noise_clip in [(0.2, 0.5), (0.4, 0.3)]:
        found = noise(target_noise, noise_clip, 0.0)
        what = f"the noise with target_noise {target_noise} and noise_clip {noise_clip}"
        if found.abs().max() > noise_clip + 1e-5:
            raise Wrong(f"{what} reaches {found.abs().max():.3f}: it should be clipped")
        std = common.clipped_std(target_noise, noise_clip)
        common.expect_samples(what, found.numpy(), [0, 0], [std, std])
    highest = 0.9 + float(noise(0.2, 0.5, 0.9).max())
    if highest > 1 + 1e-5:
        raise Wrong(f"the noisy target action reaches {highest:.3f}, beyond the bound 1")


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
    right = library.compute_loss_pi(ac, batch)
    loss_pi = written(answer(ac, batch), "compute_loss_pi")
    expect("loss_pi", right, loss_pi)
    named = {f"ac.pi.{name}": p for name, p in ac.pi.named_parameters()}
    expect_gradients("loss_pi", right, loss_pi, named)

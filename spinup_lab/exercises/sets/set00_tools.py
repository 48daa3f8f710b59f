"""Set 0: the tools that all algorithms share."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from spinup_lab.exercises.comparing import short
from spinup_lab.exercises.exercise import Case, Difference, Exercise, Wrong
from spinup_lab.exercises.original import Original

# --------------------------------------------------------------------------- discounted sums


def _discount_cases() -> list[Case]:
    long = np.random.randn(200)
    return [
        Case("three rewards of 1", (np.array([1.0, 1.0, 1.0]), 0.5)),
        Case("three different rewards", (np.array([1.0, 2.0, 4.0]), 0.5)),
        Case("one reward", (np.array([3.0]), 0.9)),
        Case("no discount", (np.array([1.0, 2.0, 3.0]), 1.0)),
        Case("a discount of 0", (np.array([1.0, 2.0, 3.0]), 0.0)),
        Case("whole numbers", (np.array([1, 0, 2, 1]), 0.5)),
        Case("only the last reward", (np.array([0.0, 0.0, 0.0, 8.0]), 0.5)),
        Case("only the first reward", (np.array([8.0, 0.0, 0.0, 0.0]), 0.5)),
        Case("negative rewards", (np.array([-1.0, 2.0, -3.0]), 0.9)),
        Case("200 random rewards", (long, 0.99)),
        Case("no rewards at all", (np.zeros(0), 0.9)),
    ]


def _sums(x: Any, discount: float) -> Any:
    return np.array([sum(discount**k * v for k, v in enumerate(x[t:])) for t in range(len(x))])


def _powers(x: Any, discount: float) -> Any:
    return discount ** np.arange(len(x))


def _past(x: Any, discount: float) -> Any:
    return _sums(np.asarray(x, float)[::-1], discount)[::-1]


def _not_turned_back(x: Any, discount: float) -> Any:
    return _sums(np.asarray(x, float), discount)[::-1]


def _from_the_start(x: Any, discount: float) -> Any:
    return np.cumsum((_powers(x, discount) * x)[::-1])[::-1]


def _not_to_go(x: Any, discount: float) -> Any:
    return np.full(len(x), float(np.sum(_powers(x, discount) * x)))


def _undiscounted(x: Any, discount: float) -> Any:
    return np.cumsum(np.asarray(x, float)[::-1])[::-1]


def _first_discounted(x: Any, discount: float) -> Any:
    return discount * _sums(np.asarray(x, float), discount)


def _without_own(x: Any, discount: float) -> Any:
    return _sums(np.asarray(x, float), discount) - x


def _one_step(x: Any, discount: float) -> Any:
    return x + discount * np.append(np.asarray(x, float)[1:], 0.0)[: len(x)]


def _integers(x: Any, discount: float) -> Any:
    out = np.zeros_like(x)
    total = 0.0
    for t in reversed(range(len(x))):
        total = x[t] + discount * total
        out[t] = total
    return out


DISCOUNT_CUMSUM = Exercise(
    id="tools.discount_cumsum",
    title="discounted sums of rewards",
    set=0,
    minutes=10,
    difficulty=1,
    task="""
The return of a step is the sum of all rewards that follow it, where a reward k steps later counts
only discount^k as much:

    out[t] = x[t] + discount * x[t+1] + discount^2 * x[t+2] + ...

Write it for a whole array at once. With x = [1, 1, 1] and discount = 0.5, the result is
[1.75, 1.5, 1.0]. Every algorithm that learns from whole episodes needs this function.
""",
    stub='''
import numpy as np

from spinup.exercises import NotYetWritten


def discount_cumsum(x, discount):
    """Return the discounted sums of an array.

    Args:
        x: an array of T numbers.
        discount: a number between 0 and 1.

    Returns:
        An array of T floats: the sum that begins at each place.
    """
    raise NotYetWritten("discount_cumsum")  # your code here
''',
    name="discount_cumsum",
    reference="spinup.algos.common.returns:discount_cumsum",
    cases=_discount_cases,
    hints=(
        "The last sum is the easiest one: nothing follows the last reward. Each sum then follows "
        "from the one after it, so walk through the array from its end.",
        "out[T-1] = x[T-1], and out[t] = x[t] + discount * out[t+1] for all earlier t.",
        "out = np.zeros(len(x))\ntotal = 0.0\nfor t in reversed(range(len(x))):\n"
        "    total = ...  # this reward, and the discounted total so far\n    out[t] = total",
    ),
    wrong=(
        Wrong(
            "past-for-future",
            "Your sums add up the rewards before each step. An action cannot change the past: the "
            "return of a step counts that step's reward and the later ones.",
            _past,
        ),
        Wrong(
            "not-turned-back",
            "Your sums are right but in reverse order: the first number belongs to the last "
            "reward. If you turned the array around to add it up, turn the result back.",
            _not_turned_back,
        ),
        Wrong(
            "discounted-from-the-start",
            "You discount by the time since the start of the array, discount^t, and not by the "
            "time since the step whose return you compute. Late steps then count for almost "
            "nothing.",
            _from_the_start,
        ),
        Wrong(
            "not-to-go",
            "Every step has the same sum, that of the whole array. A step's return begins at that "
            "step; earlier rewards are not its merit.",
            _not_to_go,
        ),
        Wrong(
            "no-discount",
            "These are plain sums: the argument discount is never used.",
            _undiscounted,
        ),
        Wrong(
            "first-reward-discounted",
            "You discount one time too many: the reward of the step itself counts fully, the next "
            "one is multiplied by discount once.",
            _first_discounted,
        ),
        Wrong(
            "own-reward-missing",
            "Each sum begins one step too late: the reward of the step itself is missing.",
            _without_own,
        ),
        Wrong(
            "one-step-only",
            "You add only the next reward. The one after that is missing, and all later ones: add "
            "the discounted sum of the next step, not its reward.",
            _one_step,
        ),
        Wrong(
            "integers",
            "For whole-number rewards, np.zeros_like(x) makes an array of whole numbers, which "
            "cuts off every fraction that you write into it.",
            _integers,
        ),
    ),
    algorithms=("reinforce", "vpg", "trpo", "ppo"),
    page="spinningup/rl_intro",
)

# ---------------------------------------------------------------------------------------- GAE


def _gae_cases() -> list[Case]:
    rew, val = np.array([1.0, 2.0, 3.0]), np.array([0.5, 1.0, 1.5])
    return [
        Case("two steps and a death", (np.array([1.0, 1.0]), np.array([0.0, 0.0]), 0.0, 0.5, 0.5)),
        Case("three steps, values, a death", (rew, val, 0.0, 0.9, 0.5)),
        Case("a path that was cut: last_val is not 0", (rew, val, 2.0, 0.9, 0.5)),
        Case("a single step", (np.array([1.0]), np.array([2.0]), 3.0, 0.9, 0.95)),
        Case("lam = 0: one-step TD errors", (rew, val, 2.0, 0.9, 0.0)),
        Case("lam = 1: returns minus values", (rew, val, 2.0, 0.9, 1.0)),
        Case("gamma = 1", (rew, val, 2.0, 1.0, 0.9)),
        Case("gamma = 0: only this reward counts", (rew, val, 2.0, 0.0, 0.9)),
        Case("whole-number rewards", (np.array([1, 0, 1]), val, 0.5, 0.9, 0.8)),
        Case("100 random steps", (np.random.randn(100), np.random.randn(100), 1.3, 0.99, 0.97)),
    ]


GAE = Exercise(
    id="tools.gae",
    title="generalized advantage estimation",
    set=0,
    minutes=25,
    difficulty=3,
    task="""
An advantage says how much better an action turned out than the value function expected. GAE sums
the errors of the value function along a path of T steps:

    delta[t] = rew[t] + gamma * V[t+1] - V[t]
    adv[t]   = delta[t] + (gamma * lam) * delta[t+1] + (gamma * lam)^2 * delta[t+2] + ...

V[T], the value of the state after the last step, is `last_val`: 0 if the episode terminated there,
and V(last observation) if a time limit or the end of the epoch cut the path.

The value function itself is fitted to the rewards-to-go, with `last_val` for what was cut off:

    ret[t] = rew[t] + gamma * rew[t+1] + ... + gamma^(T-t) * last_val
""",
    stub='''
import numpy as np

from spinup.algos.common.returns import discount_cumsum  # given: your first exercise
from spinup.exercises import NotYetWritten


def gae(rew, val, last_val, gamma, lam):
    """Return the advantages and the rewards-to-go of one path.

    Args:
        rew: rewards, an array of T numbers.
        val: V of the T visited states.
        last_val: V of the state after the last step, one number.
        gamma: discount factor.
        lam: lambda of GAE.

    Returns:
        (adv, ret), two arrays of T floats.
    """
    raise NotYetWritten("gae")  # your code here
''',
    name="gae",
    returns=("adv", "ret"),
    reference="spinup.algos.common.returns:gae",
    cases=_gae_cases,
    hints=(
        "Put last_val behind the values, so that V[t] and V[t+1] are two slices of one array. "
        "What remains is a discounted sum, which discount_cumsum computes.",
        "delta = rew + gamma * V[1:] - V[:-1], where V has T + 1 entries. The advantages are the "
        "sums of delta, discounted by gamma * lam.",
        "v = np.append(val, last_val)\ndelta = rew + gamma * v[1:] - v[:-1]\n"
        "adv = discount_cumsum(delta, ...)\n"
        "ret = discount_cumsum(np.append(rew, last_val), ...)[:-1]  # why [:-1]?",
    ),
    wrong=(
        Wrong(
            "lambda-ignored",
            "Your advantages do not depend on lam: the errors are discounted by gamma alone, which "
            "is what lam = 1 would give.",
            edits=(("gamma * lam", "gamma"),),
        ),
        Wrong(
            "gamma-missing-in-the-sum",
            "You sum the errors with lam alone. They are discounted by gamma * lam.",
            edits=(("gamma * lam", "lam"),),
        ),
        Wrong(
            "off-by-one",
            "Your error compares V(s_t) with itself. The value that follows a step is that of the "
            "next state, V(s_t+1).",
            edits=(("gamma * val[1:]", "gamma * val[:-1]"),),
        ),
        Wrong(
            "next-value-undiscounted",
            "In delta, the value of the next state is not discounted. It is the worth of what "
            "comes one step later, so gamma belongs in front of it.",
            edits=(("gamma * val[1:]", "val[1:]"),),
        ),
        Wrong(
            "cut-is-death",
            "You ignore last_val, as if every path ended with a death. A path that was merely cut "
            "would have earned more, and last_val stands for that.",
            edits=(
                ("dtype=np.float64), last_val)", "dtype=np.float64), 0.0)"),
                ("np.append(rew, last_val)", "np.append(rew, 0.0)"),
            ),
        ),
        Wrong(
            "returns-cut",
            "Your advantages are right, but the rewards-to-go leave last_val out. The value "
            "function would learn that every cut path is worth nothing after its end.",
            edits=(("np.append(rew, last_val)", "np.append(rew, 0.0)"),),
        ),
        Wrong(
            "lambda-returns",
            "Your ret is adv + val, the lambda-return. That is a target other libraries use, and "
            "not a bad one; this exercise asks for the rewards-to-go, which do not depend on lam.",
            edits=(
                (
                    "ret = discount_cumsum(np.append(rew, last_val), gamma)[:-1]",
                    "ret = adv + val[:-1]",
                ),
            ),
        ),
        Wrong(
            "lambda-in-the-returns",
            "The rewards-to-go are discounted by gamma alone; lam belongs to the advantages.",
            edits=(("np.append(rew, last_val), gamma)", "np.append(rew, last_val), gamma * lam)"),),
        ),
        Wrong(
            "one-step-only",
            "Your advantages are the errors delta themselves, which is what lam = 0 would give. "
            "They still have to be summed along the path.",
            edits=(("adv = discount_cumsum(delta, gamma * lam)", "adv = delta"),),
        ),
        Wrong(
            "normalized",
            "You normalize the advantages. That is done later, over all paths of an epoch: within "
            "a single path, a good one would look no better than a bad one.",
            edits=(("return adv, ret", "return (adv - adv.mean()) / (adv.std() + 1e-8), ret"),),
        ),
        Wrong(
            "swapped",
            "You return (ret, adv); the order is (adv, ret).",
            edits=(("return adv, ret", "return ret, adv"),),
        ),
    ),
    algorithms=("vpg", "trpo", "ppo"),
    page="algorithms/vpg",
)


# ------------------------------------------------------------------------------------------ KL


def _kl_cases() -> list[Case]:
    import torch

    def case(name: str, old: Any, new: Any) -> Case:
        old = torch.as_tensor(old, dtype=torch.float64).log()
        new = torch.as_tensor(new, dtype=torch.float64).log().requires_grad_()
        return Case(name, (old, new), grad=("logp",))

    def near(rows: int, distance: float) -> tuple[Any, Any]:
        old = torch.rand(rows, dtype=torch.float64) * 0.5 + 0.1
        return old, old * (1 + distance * torch.randn(rows, dtype=torch.float64)).clamp(0.2, 3)

    return [
        case("an action that became half as likely", [0.5], [0.25]),
        case("an action that became twice as likely", [0.25], [0.5]),
        case("nothing has changed", [0.3, 0.6], [0.3, 0.6]),
        case("three actions", [0.2, 0.5, 0.4], [0.4, 0.5, 0.1]),
        case("a batch of one, nearly unchanged", [0.5], [0.501]),
        case("20 small changes", *near(20, 0.05)),
        case("20 large changes", *near(20, 0.5)),
        case("500 small changes", *near(500, 0.1)),
    ]


APPROX_KL = Exercise(
    id="tools.approx_kl",
    title="the KL divergence, from samples",
    set=0,
    minutes=15,
    difficulty=2,
    task="""
How far has a policy moved? KL(old || new) is the mean of log(p_old / p_new) over actions that the
old policy sampled. From log-probabilities of such actions, there are three usual estimates; with
log_ratio = logp - logp_old and ratio = exp(log_ratio):

    k1 = mean of  -log_ratio                    right on average, but often negative
    k2 = mean of   log_ratio^2 / 2              never negative, but biased
    k3 = mean of  (ratio - 1) - log_ratio       never negative, and right on average

Write k3, the one that the library logs as KL. (Why is it right on average? The mean of ratio over
the old policy's actions is 1, so ratio - 1 only takes noise away.)
""",
    stub='''
import torch

from spinup.exercises import NotYetWritten


def approx_kl(logp_old, logp):
    """Estimate KL(old || new) with k3.

    Args:
        logp_old: log-probabilities under the policy that sampled the actions, a tensor [batch].
        logp: log-probabilities of the same actions under the new policy, [batch].

    Returns:
        A tensor with one number.
    """
    raise NotYetWritten("approx_kl")  # your code here
''',
    name="approx_kl",
    reference="spinup.algos.pytorch.common.nets:approx_kl",
    cases=_kl_cases,
    hints=(
        "Everything follows from log_ratio, the difference of the two arguments. Mind its order.",
        "k3 = mean of exp(log_ratio) - 1 - log_ratio, with log_ratio = logp - logp_old.",
        "log_ratio = logp - logp_old\nreturn (... - 1 - log_ratio).mean()",
    ),
    wrong=(
        Wrong(
            "k1",
            "This is k1. It is right on average, but for a small batch it is often negative, and a "
            "KL divergence never is.",
            edits=(("(log_ratio.exp() - 1 - log_ratio)", "(-log_ratio)"),),
        ),
        Wrong(
            "k1-reversed",
            "This is the mean of logp - logp_old, which is k1 with the wrong sign.",
            edits=(("(log_ratio.exp() - 1 - log_ratio)", "log_ratio"),),
        ),
        Wrong(
            "k2",
            "This is k2. It is close to k3 for small changes, but not right on average.",
            edits=(("(log_ratio.exp() - 1 - log_ratio)", "(0.5 * log_ratio**2)"),),
        ),
        Wrong(
            "k2-without-half",
            "This is the mean of log_ratio^2, twice k2.",
            edits=(("(log_ratio.exp() - 1 - log_ratio)", "(log_ratio**2)"),),
        ),
        Wrong(
            "ratio-inverted",
            "Your ratio is p_old / p_new. The actions come from the old policy, so only the mean "
            "of p_new / p_old is 1.",
            edits=(("logp - logp_old", "logp_old - logp"),),
        ),
        Wrong(
            "minus-one-missing",
            "Your estimate is 1 for two equal policies: the -1 is missing.",
            edits=((".exp() - 1 - log_ratio", ".exp() - log_ratio"),),
        ),
        Wrong(
            "sign-of-the-logarithm",
            "You add log_ratio instead of subtracting it, so your estimate can be negative.",
            edits=((".exp() - 1 - log_ratio", ".exp() - 1 + log_ratio"),),
        ),
        Wrong(
            "sum-for-mean",
            "You sum over the batch. The estimate is a mean; otherwise it grows with the batch.",
            edits=((").mean()", ").sum()"),),
        ),
        Wrong(
            "weighted-by-probability",
            "You weigh each action with its old probability, as in the sum over all actions. Here "
            "the actions are samples: likely ones already occur more often.",
            edits=(
                (
                    "(log_ratio.exp() - 1 - log_ratio).mean()",
                    "(logp_old.exp() * (logp_old - logp)).sum()",
                ),
            ),
        ),
        Wrong(
            "weighted-by-probability-mean",
            "You weigh each action with its old probability. The actions are samples of the old "
            "policy: likely ones already occur more often.",
            edits=(
                (
                    "(log_ratio.exp() - 1 - log_ratio).mean()",
                    "(logp_old.exp() * (logp_old - logp)).mean()",
                ),
            ),
        ),
        Wrong(
            "no-exponential",
            "The arguments are logarithms. Their ratio is exp(logp - logp_old), not logp / "
            "logp_old.",
            edits=(("log_ratio.exp() - 1", "logp / logp_old - 1"),),
        ),
    ),
    algorithms=("reinforce", "vpg", "ppo"),
    page="algorithms/ppo",
)


# --------------------------------------------------------------------------- squashed Gaussians


def _squashed_cases() -> list[Case]:
    import torch

    def case(name: str, noise: Any, log_std: Any, mu: Any, limit: Any, show: str = "") -> Case:
        noise, log_std, mu, limit = (
            torch.as_tensor(x, dtype=torch.float64) for x in (noise, log_std, mu, limit)
        )
        u = (mu + log_std.exp() * noise).detach().requires_grad_()
        grad = ("noise", "log_std", "u")
        args = (noise.requires_grad_(), log_std.requires_grad_(), u, limit)
        return Case(name, args, grad=grad, show=show)

    def normal(*shape: int) -> Any:
        return torch.randn(*shape, dtype=torch.float64)

    return [
        case("no noise, and an action in the middle", [[0.0]], [[0.0]], [[0.0]], [1.0]),
        case("noise of one standard deviation", [[1.0]], [[0.0]], [[0.0]], [1.0]),
        case("a narrow Gaussian", [[0.5]], [[-2.0]], [[0.3]], [1.0]),
        case("a range that is wider than [-1, 1]", [[0.5]], [[0.0]], [[0.3]], [2.0]),
        case("two dimensions", [[0.5, -1.0]], [[0.0, -1.0]], [[0.3, 0.0]], [1.0, 1.0]),
        case("two ranges", [[0.5, -1.0]], [[0.0, -1.0]], [[0.3, 0.0]], [2.0, 0.5]),
        case("five rows of three dimensions", normal(5, 3), normal(5, 3), normal(5, 3), [1.0] * 3),
        case("an action far out, where 1 - tanh(u)^2 is 0", [[0.5]], [[0.0]], [[25.0]], [1.0]),
        case("the same on the other side", [[0.5]], [[0.0]], [[-25.0]], [1.0]),
        case("without a batch", normal(2), normal(2), normal(2), [1.0, 3.0]),
    ]


SQUASHED_LOG_PROB = Exercise(
    id="tools.squashed_log_prob",
    title="the density of a squashed Gaussian",
    set=0,
    minutes=25,
    difficulty=4,
    task="""
SAC samples u from a Gaussian and plays a = s * tanh(u), so that actions stay within the bounds. Its
loss needs log p(a). Where a function stretches space, it thins the density out: per dimension,

    log p(a) = log N(u; mu, std) - log |da/du|,      da/du = s * (1 - tanh(u)^2)

The Gaussian part is easy, because u = mu + std * noise:

    log N(u; mu, std) = -noise^2 / 2 - log_std - log(2 pi) / 2

For |u| > 19, 1 - tanh(u)^2 rounds to 0, and its logarithm to -infinity. Write that logarithm so
that it stays finite: 1 - tanh(u)^2 = 4 / (exp(u) + exp(-u))^2, and softplus(x) = log(1 + exp(x)).
""",
    stub='''
import math

import torch
from torch.nn.functional import softplus

from spinup.exercises import NotYetWritten


def squashed_log_prob(noise, log_std, u, act_limit):
    """Return the log-density of a = act_limit * tanh(u), where u = mu + exp(log_std) * noise.

    Args:
        noise: the standard normal noise, a tensor [..., dim].
        log_std: logarithms of the standard deviations, [..., dim].
        u: the sample before tanh, [..., dim].
        act_limit: s, half the width of the range of each dimension, [dim].

    Returns:
        A tensor [...]: the sum over the dimensions.
    """
    raise NotYetWritten("squashed_log_prob")  # your code here
''',
    name="squashed_log_prob",
    reference="spinup.algos.pytorch.common.qnets:squashed_log_prob",
    cases=_squashed_cases,
    hints=(
        "Two parts: the density of u, and the logarithm of the slope of s * tanh at u, which is "
        "subtracted. Both have one number per dimension; sum at the end.",
        "log(1 - tanh(u)^2) = 2 * (log 2 - u - softplus(-2 u)). The factor s adds log s.",
        "gaussian = -0.5 * noise**2 - log_std - 0.5 * math.log(2 * math.pi)\n"
        "log_slope = 2 * (math.log(2) - u - softplus(-2 * u)) + ...\n"
        "return (gaussian - log_slope).sum(-1)",
    ),
    wrong=(
        Wrong(
            "no-tanh-correction",
            "This is the density of u, the sample before tanh. The squashed action has another "
            "one: subtract the logarithm of the slope of s * tanh(u).",
            edits=(("(gaussian - log_slope)", "gaussian"),),
        ),
        Wrong(
            "no-scale",
            "Your density is right for actions in (-1, 1). Stretching them to a wider range thins "
            "the density out by s, so log s is missing.",
            edits=((" + act_limit.log()", ""),),
        ),
        Wrong(
            "correction-added",
            "You add the logarithm of the slope. A steep function spreads the samples out, which "
            "lowers the density: subtract it.",
            edits=(("gaussian - log_slope", "gaussian + log_slope"),),
        ),
        Wrong(
            "slope-overflows",
            "Right for ordinary actions, but far out 1 - tanh(u)^2 rounds to 0, and its logarithm "
            "is -inf. Use the form with softplus.",
            edits=(("2 * (LOG_2 - u - softplus(-2 * u))", "(1 - torch.tanh(u) ** 2).log()"),),
        ),
        Wrong(
            "slope-with-epsilon",
            "Adding a small number inside the logarithm keeps it finite, but far out the result is "
            "then that number's logarithm, and its gradient is 0.",
            edits=(
                ("2 * (LOG_2 - u - softplus(-2 * u))", "(1 - torch.tanh(u) ** 2 + 1e-6).log()"),
            ),
        ),
        Wrong(
            "mean-over-dimensions",
            "Independent dimensions multiply their densities, so their logarithms are summed, not "
            "averaged.",
            edits=((".sum(-1)", ".mean(-1)"),),
        ),
        Wrong(
            "no-log-std",
            "The density of a Gaussian has 1 / std in front: - log_std is missing.",
            edits=((" - log_std", ""),),
        ),
        Wrong(
            "no-constant",
            "The constant log(2 pi) / 2 per dimension is missing. It has no gradient, but SAC "
            "compares the entropy with a target, where constants count.",
            edits=((" - HALF_LOG_2PI", ""),),
        ),
        Wrong(
            "scale-multiplied",
            "The logarithm of a product is a sum: s * slope becomes log s + log slope.",
            edits=((" + act_limit.log()", " * act_limit"),),
        ),
    ),
    algorithms=("sac",),
    page="algorithms/sac",
)


# --------------------------------------------------------------------------------------- polyak


def _polyak_cases() -> list[Case]:
    import torch
    from torch import nn

    def one(value: float) -> Any:
        layer = nn.Linear(1, 1, bias=False).double()
        nn.init.constant_(layer.weight, value)
        return layer

    def net(*sizes: int) -> Any:
        pairs = itertools.pairwise(sizes)
        return nn.Sequential(*(nn.Linear(a, b) for a, b in pairs)).double()

    def case(name: str, ac: Any, targ: Any, polyak: float, show: str = "") -> Case:
        targ = targ.requires_grad_(False)
        return Case(name, (ac, targ, polyak), changes=("ac_targ",), show=show)

    torch.manual_seed(0)
    numbers = "weight of ac=[1.0], of ac_targ=[0.0], polyak=0.9"
    return [
        case("one weight", one(1.0), one(0.0), 0.9, numbers),
        case("polyak = 1: the target stands still", one(1.0), one(0.0), 1.0),
        case("polyak = 0: the target follows at once", one(1.0), one(0.0), 0.0),
        case("a layer with a bias", net(3, 2), net(3, 2), 0.995),
        case("three layers", net(3, 8, 8, 1), net(3, 8, 8, 1), 0.5),
        case("a negative weight", one(-2.0), one(1.0), 0.75),
        case("equal networks", one(1.5), one(1.5), 0.9),
        case("a slow target", net(4, 4), net(4, 4), 0.9999),
    ]


def _polyak_by_name(ac: Any, ac_targ: Any, polyak: float, mix: Any) -> None:
    import torch

    with torch.no_grad():
        for p, p_targ in zip(ac.parameters(), ac_targ.parameters(), strict=True):
            mix(p, p_targ, polyak)


def _polyak_reversed(ac: Any, ac_targ: Any, polyak: float) -> None:
    _polyak_by_name(ac, ac_targ, polyak, lambda p, t, k: t.copy_((1 - k) * t + k * p))


def _polyak_wrong_network(ac: Any, ac_targ: Any, polyak: float) -> None:
    _polyak_by_name(ac, ac_targ, polyak, lambda p, t, k: p.copy_(k * p + (1 - k) * t))


def _polyak_added(ac: Any, ac_targ: Any, polyak: float) -> None:
    _polyak_by_name(ac, ac_targ, polyak, lambda p, t, k: t.copy_(t + (1 - k) * p))


def _polyak_copied(ac: Any, ac_targ: Any, polyak: float) -> None:
    _polyak_by_name(ac, ac_targ, polyak, lambda p, t, k: t.copy_(p))


def _polyak_lost(ac: Any, ac_targ: Any, polyak: float) -> None:
    _polyak_by_name(ac, ac_targ, polyak, lambda p, t, k: k * t + (1 - k) * p)


def _polyak_first(ac: Any, ac_targ: Any, polyak: float) -> None:
    import torch

    with torch.no_grad():
        p, p_targ = next(ac.parameters()), next(ac_targ.parameters())
        p_targ.copy_(polyak * p_targ + (1 - polyak) * p)


POLYAK_UPDATE = Exercise(
    id="tools.polyak_update",
    title="a target network that follows slowly",
    set=0,
    minutes=5,
    difficulty=1,
    task="""
The target networks of DDPG, TD3, SAC and DQN are slow copies. After each update, every parameter of
the target moves a little toward that of the trained network:

    p_targ  <-  polyak * p_targ + (1 - polyak) * p

Change the parameters of `ac_targ` in place; `ac` stays as it is. With polyak = 0.995, the target
takes about 200 updates to follow.
""",
    stub='''
import torch

from spinup.exercises import NotYetWritten


def polyak_update(ac, ac_targ, polyak):
    """Move every parameter of ac_targ toward that of ac, in place.

    Args:
        ac: the trained network, an nn.Module.
        ac_targ: its slow copy, with the same parameters in the same order.
        polyak: how much of the old target remains, between 0 and 1.
    """
    raise NotYetWritten("polyak_update")  # your code here
''',
    name="polyak_update",
    reference="spinup.algos.pytorch.common.targets:polyak_update",
    cases=_polyak_cases,
    hints=(
        "Go through the parameters of both networks in parallel, without recording gradients, and "
        "use operations that change a tensor in place.",
        "p_targ = polyak * p_targ makes a new tensor and leaves the network as it was. In place: "
        "p_targ.mul_(polyak), then p_targ.add_((1 - polyak) * p).",
        "with torch.no_grad():\n"
        "    for p, p_targ in zip(ac.parameters(), ac_targ.parameters()):\n"
        "        p_targ.mul_(polyak)\n        p_targ.add_(...)",
    ),
    wrong=(
        Wrong(
            "reversed",
            "polyak and 1 - polyak are swapped: your target follows almost at once, so it is "
            "hardly a target network at all.",
            _polyak_reversed,
        ),
        Wrong(
            "wrong-network",
            "You changed ac, the network that is being trained. The target is ac_targ.",
            _polyak_wrong_network,
        ),
        Wrong(
            "target-not-shrunk",
            "You add (1 - polyak) * p to the whole old target. The old target has to be multiplied "
            "by polyak first; otherwise it grows with every update.",
            _polyak_added,
        ),
        Wrong(
            "plain-copy",
            "Your target is a plain copy of ac: polyak is not used.",
            _polyak_copied,
        ),
        Wrong(
            "not-in-place",
            "The target has not changed. `p_targ = ...` only gives a new tensor that name; the "
            "network keeps the old one. Use operations that work in place, such as mul_ and copy_.",
            _polyak_lost,
        ),
        Wrong(
            "first-parameter-only",
            "Only the first parameter has moved. Is a return inside the loop?",
            _polyak_first,
        ),
    ),
    algorithms=("ddpg", "td3", "sac", "dqn"),
    page="algorithms/ddpg",
)


# --------------------------------------------------------------------------------------- replay


def _replay_cases() -> list[Case]:
    def case(name: str, size: int, steps: int) -> Case:
        show = f"a buffer of size {size} after {steps} transitions"
        return Case(name, (size, steps), show=show)

    return [
        case("one transition", 4, 1),
        case("a buffer that is not full", 4, 3),
        case("a buffer that is just full", 4, 4),
        case("one more: the oldest is replaced", 4, 5),
        case("the second oldest as well", 4, 6),
        case("two rounds", 4, 8),
        case("many rounds", 4, 19),
        case("a buffer of size 1", 1, 3),
        case("a large buffer", 100, 130),
    ]


def _use_buffer(make: Any, case: Case) -> Any:
    """Store transitions whose numbers tell where they belong, then sample often."""
    size, steps = case.args
    buffer = make(2, 1, size)
    obs = np.zeros(2)
    for t in range(steps):
        obs[:] = t  # the environment may reuse its array, as many do
        buffer.store(obs, np.array([t + 0.25]), t + 0.5, obs + 1, float(t % 3 == 2))
    obs[:] = -100
    batch = buffer.sample(600, np.random.default_rng(3))
    names = ("obs", "act", "rew", "obs2", "done")
    if not isinstance(batch, dict) or not set(names) <= batch.keys():
        got = (
            f"a dict with {', '.join(map(str, batch))}" if isinstance(batch, dict) else short(batch)
        )
        raise Difference(f"sample should return a dict with {', '.join(names)}, not {got}")
    for name in names:
        if len(np.atleast_1d(batch[name])) != 600:
            raise Difference(f"{name} of a batch of 600 has {len(np.atleast_1d(batch[name]))} rows")
    batch = {name: batch[name] for name in names}
    again = buffer.sample(600, np.random.default_rng(3))
    rows = {name: np.asarray(x, dtype=np.float64) for name, x in batch.items()}
    first = np.asarray(batch["obs"], dtype=np.float64)[:, 0]
    whole = all(
        np.array_equal(rows[name].reshape(600, -1)[:, 0], right)
        for name, right in {
            "act": first + 0.25,
            "rew": first + 0.5,
            "obs2": first + 1,
            "done": (first % 3 == 2) * 1.0,
        }.items()
    )
    return {
        "shapes of a batch of 600": {name: np.array(x.shape) for name, x in sorted(rows.items())},
        "first numbers of the sampled observations": np.unique(first),
        "each row holds one transition": whole,
        "the same rng draws the same rows": bool(
            np.array_equal(rows["rew"], np.asarray(again["rew"], dtype=np.float64))
        ),
        "rows appear about equally often": bool(
            np.unique(first, return_counts=True)[1].max() < 3 * 600 / min(size, steps) + 20
        ),
    }


REPLAY = Exercise(
    id="tools.replay",
    title="a replay buffer",
    set=0,
    minutes=20,
    difficulty=2,
    task="""
Off-policy algorithms learn from old transitions (obs, act, rew, obs2, done), drawn at random from a
ring of the newest `size` ones. When the ring is full, a new transition replaces the oldest.

Write `store` and `sample`. `sample` draws rows with replacement from what has been stored so far,
each equally likely, using the generator `rng` (np.random.Generator).
""",
    stub='''
import numpy as np

from spinup.exercises import NotYetWritten


class ReplayBuffer:
    """A ring of the newest `size` transitions."""

    def __init__(self, obs_dim, act_dim, size):
        self.obs = np.zeros((size, obs_dim))
        self.act = np.zeros((size, act_dim))
        self.rew = np.zeros(size)
        self.obs2 = np.zeros((size, obs_dim))
        self.done = np.zeros(size)
        self.next = 0  # the row to write next
        self.count = 0  # how many rows have been written
        self.max_size = size

    def store(self, obs, act, rew, obs2, done):
        """Store one transition; in a full ring, it replaces the oldest one."""
        raise NotYetWritten("ReplayBuffer.store")  # your code here

    def sample(self, batch_size, rng):
        """Return a dict of arrays, obs, act, rew, obs2 and done, with batch_size rows each."""
        raise NotYetWritten("ReplayBuffer.sample")  # your code here
''',
    name="ReplayBuffer",
    reference="spinup_lab.exercises.answers:ReplayBuffer",
    shown=("spinup.algos.common.replay:Ring.store", "spinup.algos.common.replay:Ring.take"),
    cases=_replay_cases,
    call=_use_buffer,
    hints=(
        "Two numbers describe the ring: where the next row goes, and how many rows are filled. The "
        "first one starts again at 0 after the last row; the second one stops growing.",
        "next = (next + 1) modulo max_size, count = min(count + 1, max_size). One set of random "
        "row numbers below count serves all five arrays.",
        "self.obs[self.next] = obs  # and the other four\n"
        "self.next = (self.next + 1) % self.max_size\n"
        "...\nrows = rng.integers(self.count, size=batch_size)\n"
        'return {"obs": self.obs[rows], ...}',
    ),
    wrong=(
        Wrong(
            "overwrites-the-last-row",
            "When the ring is full, you write into its last row again and again. The oldest "
            "transition is in row 0, so writing has to start again there.",
            edits=(("(self.next + 1) % self.max_size", "min(self.next + 1, self.max_size - 1)"),),
        ),
        Wrong(
            "samples-empty-rows",
            "You draw from all rows, also those that were never written: the algorithm would learn "
            "from zeros.",
            edits=(("rng.integers(self.count,", "rng.integers(self.max_size,"),),
        ),
        Wrong(
            "never-the-last-row",
            "The last filled row is never drawn: rng.integers(n) already excludes n.",
            edits=(("rng.integers(self.count,", "rng.integers(max(self.count - 1, 1),"),),
        ),
        Wrong(
            "only-up-to-next",
            "You draw from the rows below `next`. Once the ring is full, the rows above it hold "
            "transitions as well, and just after a round there would be nothing to draw.",
            edits=(("rng.integers(self.count,", "rng.integers(max(self.next, 1),"),),
        ),
        Wrong(
            "rows-mixed-up",
            "The five arrays of a batch come from different rows, so a reward belongs to another "
            "transition. Draw the row numbers once and use them for all arrays.",
            edits=(('"rew": self.rew[rows]', '"rew": self.rew[np.roll(rows, 1)]'),),
        ),
        Wrong(
            "next-observation-shifted",
            "Your obs2 is the obs of the following row. At the end of an episode and at the seam "
            "of the ring, that is another transition.",
            edits=(('"obs2": self.obs2[rows]', '"obs2": self.obs[(rows + 1) % self.max_size]'),),
        ),
        Wrong(
            "keeps-a-reference",
            "You store the array itself. Environments may reuse theirs for the next observation, "
            "and then every stored observation changes with it: store a copy.",
            edits=(
                ("self.obs = np.zeros((size, obs_dim))", "self.obs = [None] * size"),
                ("self.obs[rows]", "np.stack([self.obs[row] for row in rows])"),
            ),
        ),
        Wrong(
            "stops-when-full",
            "A full ring ignores new transitions. It should forget the oldest one.",
            edits=(
                (
                    "        self.obs[self.next] = obs\n",
                    "        if self.count == self.max_size:\n            return\n"
                    "        self.obs[self.next] = obs\n",
                ),
            ),
        ),
        Wrong(
            "not-random",
            "You return the newest rows, without drawing: successive transitions are so alike that "
            "learning from them fails.",
            edits=(
                (
                    "rng.integers(self.count, size=batch_size)",
                    "np.arange(batch_size) % min(self.count, 3)",
                ),
            ),
        ),
    ),
    algorithms=("dqn", "ddpg", "td3", "sac", "acer", "her"),
    page="algorithms/dqn",
)


# ------------------------------------------------------------------------------------- schedule


def _schedule_cases() -> list[Case]:
    return [
        Case("half-way from 1 to 0", (1.0, 0.0, 0.5)),
        Case("the beginning", (1.0, 0.1, 0.0)),
        Case("the end", (1.0, 0.1, 1.0)),
        Case("a tenth of the way", (1.0, 0.1, 0.1)),
        Case("a schedule that rises", (0.4, 1.0, 0.25)),
        Case("after the end", (1.0, 0.1, 1.7)),
        Case("before the beginning", (1.0, 0.1, -0.5)),
        Case("a constant", (0.3, 0.3, 0.6)),
        Case("whole numbers", (10, 0, 0.25)),
    ]


def _towards_zero(start: float, end: float, fraction: float) -> float:
    return max(start * (1 - min(max(fraction, 0.0), 1.0)), end)


def _exponential(start: float, end: float, fraction: float) -> float:
    return start * (max(end, 1e-8) / start) ** min(max(fraction, 0.0), 1.0)


def _falling_only(start: float, end: float, fraction: float) -> float:
    return max(end, start + (end - start) * fraction)


LINEAR_SCHEDULE = Exercise(
    id="tools.linear_schedule",
    title="a hyperparameter that changes during a run",
    set=0,
    minutes=5,
    difficulty=1,
    task="""
DQN explores less and less, and PPO can lower its learning rate: both follow a straight line from
`start` to `end` while `fraction`, the part of the way that is done, rises from 0 to 1. Before 0 and
after 1, the value stays constant.
""",
    stub='''
from spinup.exercises import NotYetWritten


def linear_schedule(start, end, fraction):
    """Return the value of a straight line from start (fraction 0) to end (fraction 1)."""
    raise NotYetWritten("linear_schedule")  # your code here
''',
    name="linear_schedule",
    reference="spinup.algos.common.exploration:linear_schedule",
    cases=_schedule_cases,
    hints=(
        "Start at `start` and add the right part of the whole way, end - start.",
        "start + (end - start) * fraction, with fraction limited to the range from 0 to 1.",
        "fraction = min(max(fraction, 0.0), 1.0)\nreturn start + ... * fraction",
    ),
    wrong=(
        Wrong(
            "not-limited",
            "The line continues beyond its ends: a fraction above 1 should give `end`, and one "
            "below 0 `start`. An exploration rate would become negative.",
            edits=(("min(max(fraction, 0.0), 1.0)", "fraction"),),
        ),
        Wrong(
            "not-limited-at-the-end",
            "A fraction above 1 should give `end`; your line goes on.",
            edits=(("min(max(fraction, 0.0), 1.0)", "max(fraction, 0.0)"),),
        ),
        Wrong(
            "not-limited-at-the-beginning",
            "A fraction below 0 should give `start`; your line begins earlier.",
            edits=(("min(max(fraction, 0.0), 1.0)", "min(fraction, 1.0)"),),
        ),
        Wrong(
            "falling-only",
            "Your limit is max(end, ...). It works only for schedules that fall, and not before "
            "their beginning: limit the fraction, not the value.",
            _falling_only,
        ),
        Wrong(
            "reversed",
            "Your line goes from `end` to `start`.",
            edits=(("start + (end - start)", "end + (start - end)"),),
        ),
        Wrong(
            "toward-zero",
            "Your line goes from `start` to 0 and stops at `end`. It should reach `end` only at "
            "fraction 1, with a slope of end - start.",
            _towards_zero,
        ),
        Wrong(
            "exponential",
            "This is a constant factor per step, an exponential decay. The schedule is a line.",
            _exponential,
        ),
    ),
    algorithms=("dqn", "ppo"),
    page="algorithms/dqn",
)


# ------------------------------------------------------------------- the original's 1.1 and 1.2

_SET_1 = "spinup.exercises.pytorch.problem_set_1"

ORIGINAL_1_1 = Original(
    id="original.1.1",
    title="the log-likelihood of a Gaussian",
    set=0,
    minutes=10,
    difficulty=1,
    task="""
Exercise 1.1 of the original Spinning Up: write `gaussian_likelihood(x, mu, log_std)`, the
log-likelihood of each row of x under a Gaussian with independent dimensions. The formula is in
`exercise1_1.py`.
""",
    hints=(
        "The logarithm of a product of densities is a sum over the dimensions. Keep the batch "
        "dimension: the result has one number per row.",
        "Per dimension: -1/2 ((x - mu) / std)^2 - log_std - 1/2 log(2 pi), with std = "
        "exp(log_std).",
        "z = (x - mu) / torch.exp(log_std)\n"
        "return (-0.5 * z**2 - log_std - 0.5 * math.log(2 * math.pi)).sum(...)",
    ),
    module=f"{_SET_1}.exercise1_1",
    answers=(f"{_SET_1}_solutions.exercise1_1_soln:gaussian_likelihood",),
    algorithms=("vpg", "trpo", "ppo"),
    page="exercises",
)

ORIGINAL_1_2 = Original(
    id="original.1.2",
    title="a Gaussian policy for PPO",
    set=0,
    minutes=30,
    difficulty=3,
    task="""
Exercise 1.2 of the original Spinning Up: write `mlp`, `DiagonalGaussianDistribution.sample` and
`MLPGaussianActor.__init__` in `exercise1_2.py`. The answer is judged by numbers; to see it learn,
run `python exercise1_2.py --train`.
""",
    hints=(
        "An MLP is a list of linear layers with activations between them. A standard deviation "
        "that an optimizer should train has to be a parameter of the module.",
        "A sample is mu + std * noise, with fresh standard normal noise for every row and "
        "dimension. nn.Parameter registers log_std.",
        "layers += [nn.Linear(n_in, n_out), activation()]  # output_activation after the last\n"
        "return self.mu + torch.exp(self.log_std) * torch.randn_like(...)\n"
        "self.log_std = nn.Parameter(torch.full((act_dim,), -0.5))",
    ),
    module=f"{_SET_1}.exercise1_2",
    answers=(
        f"{_SET_1}_solutions.exercise1_2_soln:mlp",
        f"{_SET_1}_solutions.exercise1_2_soln:DiagonalGaussianDistribution",
        f"{_SET_1}_solutions.exercise1_2_soln:MLPGaussianActor",
    ),
    algorithms=("ppo",),
    page="exercises",
)

EXERCISES = (
    DISCOUNT_CUMSUM,
    GAE,
    APPROX_KL,
    SQUASHED_LOG_PROB,
    POLYAK_UPDATE,
    REPLAY,
    LINEAR_SCHEDULE,
    ORIGINAL_1_1,
    ORIGINAL_1_2,
)

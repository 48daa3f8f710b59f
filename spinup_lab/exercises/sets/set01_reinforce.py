"""Set 1: REINFORCE."""

from __future__ import annotations

from typing import Any

import numpy as np

from spinup_lab.exercises.exercise import Case, Exercise, Wrong, loss_only

# -------------------------------------------------------------------------------- rewards to go


def _to_go_cases() -> list[Case]:
    a = np.array
    many = (np.random.randn(40), [7, 8, 25, 40], [0.0, 1.5, 0.0, -2.0], 0.97)
    return [
        Case("one episode that died", (a([1.0, 1.0, 1.0]), [3], [0.0], 0.5)),
        Case("two episodes", (a([1.0, 1.0, 5.0, 5.0]), [2, 4], [0.0, 0.0], 0.5)),
        Case("a path that was cut", (a([1.0, 1.0]), [2], [8.0], 0.5)),
        Case("a death, then a cut", (a([1.0, 1.0, 1.0]), [1, 3], [0.0, 8.0], 0.5)),
        Case("a cut, then a death", (a([1.0, 1.0, 1.0]), [2, 3], [8.0, 0.0], 0.5)),
        Case("an episode of one step", (a([3.0]), [1], [0.0], 0.9)),
        Case("gamma = 1", (a([1.0, 2.0, 3.0]), [3], [4.0], 1.0)),
        Case("gamma = 0", (a([1.0, 2.0, 3.0]), [3], [4.0], 0.0)),
        Case("whole numbers", (a([1, 0, 1, 1]), [2, 4], [0.0, 0.0], 0.5)),
        Case("four paths of 40 random steps", many),
    ]


def _leaks(rew: Any, ends: Any, last_vals: Any, gamma: float) -> Any:
    ret, following = np.zeros(len(rew)), last_vals[-1]
    for t in reversed(range(len(rew))):
        following = rew[t] + gamma * following
        ret[t] = following
    return ret


REWARDS_TO_GO = Exercise(
    id="reinforce.rewards_to_go",
    title="rewards-to-go of several episodes",
    set=1,
    minutes=20,
    difficulty=2,
    task="""
REINFORCE makes an action more likely in proportion to the rewards that followed it. An epoch holds
several paths, one after another in a single array. With path boundaries at `ends`, the reward-to-go
of step t in a path that ends before step `end` is

    ret[t] = rew[t] + gamma * rew[t+1] + ... + gamma^(end-t) * last_val

`last_val` stands for what would have followed: 0 if the episode terminated, and an estimate if a
time limit or the end of the epoch cut it. REINFORCE has no value function and uses its baseline,
the average return.
""",
    stub='''
import numpy as np

from spinup.exercises import NotYetWritten


def rewards_to_go(rew, ends, last_vals, gamma):
    """Return the rewards-to-go of all steps of an epoch.

    Args:
        rew: the rewards of all paths, one after another, an array of T numbers.
        ends: a list with the end of each path: the first is rew[0:ends[0]], the second
            rew[ends[0]:ends[1]], and so on. The last one is T.
        last_vals: a list with the value after the end of each path; 0.0 after a death.
        gamma: discount factor.

    Returns:
        An array of T floats.
    """
    raise NotYetWritten("rewards_to_go")  # your code here
''',
    name="rewards_to_go",
    reference="spinup_lab.exercises.answers:rewards_to_go",
    shown=("spinup.algos.pytorch.reinforce.core:rewards_to_go",),
    cases=_to_go_cases,
    hints=(
        "Within one path, walk backward and keep a running total. What is the total before the "
        "first step of that walk? And what is it when the next path begins?",
        "following = last_val at the end of a path; then following = rew[t] + gamma * following, "
        "and ret[t] = following, for each t from the end of the path to its start.",
        "start = 0\nfor end, last_val in zip(ends, last_vals):\n    following = last_val\n"
        "    for t in reversed(range(start, end)):\n        following = ...\n"
        "        ret[t] = following\n    start = end",
    ),
    wrong=(
        Wrong(
            "episodes-leak",
            "Your sums run on into the next episode: the first actions are credited with rewards "
            "that other episodes earned. The running total starts anew at the end of each path.",
            _leaks,
        ),
        Wrong(
            "not-to-go",
            "Every step has the return of its whole path. The rewards before an action are not its "
            "merit; they add noise, and no information, to the gradient.",
            edits=(
                ("        start = end", "        ret[start:end] = following\n        start = end"),
            ),
        ),
        Wrong(
            "cut-is-death",
            "You ignore last_val. A path that a time limit cut would have earned more; without an "
            "estimate of that, its last actions look worse than they were.",
            edits=(("following = last_val", "following = 0.0"),),
        ),
        Wrong(
            "death-is-cut",
            "You add a value after the end of paths that died, too. Nothing follows a death.",
            edits=(("following = last_val", "following = max(last_vals)"),),
        ),
        Wrong(
            "last-value-undiscounted",
            "You add last_val to every step as it is. It lies in the future like the rewards, so "
            "it is discounted as they are.",
            edits=(
                ("following = last_val", "following = 0.0"),
                ("ret[t] = following", "ret[t] = following + last_val"),
            ),
        ),
        Wrong(
            "no-discount",
            "gamma is not used: these are plain sums.",
            edits=(("gamma * following", "following"),),
        ),
        Wrong(
            "past-for-future",
            "You walk from the start of a path to its end, so your sums hold the past. Walk "
            "backward.",
            edits=(("reversed(range(start, end))", "range(start, end)"),),
        ),
        Wrong(
            "only-the-first-path",
            "Only the first path has numbers.",
            edits=(("        start = end", "        break"),),
        ),
    ),
    algorithms=("reinforce",),
    page="algorithms/reinforce",
)


# ------------------------------------------------------------------------------------ advantages


def _normalize_cases() -> list[Case]:
    import torch

    def case(name: str, *values: float) -> Case:
        return Case(name, (torch.tensor(values, dtype=torch.float64),))

    many = torch.randn(300, dtype=torch.float64)
    return [
        case("three returns", 1.0, 2.0, 3.0),
        case("two returns", -1.0, 1.0),
        case("a large mean", 101.0, 102.0, 106.0),
        case("large returns", -300.0, 0.0, 600.0, 100.0),
        case("all equal", 5.0, 5.0, 5.0),
        case("a batch of one", 3.0),
        case("negative returns", -4.0, -2.0, -9.0),
        Case("300 returns", (3 * many + 7,)),
    ]


NORMALIZE = Exercise(
    id="reinforce.normalize_advantages",
    title="a baseline, and one scale for all tasks",
    set=1,
    minutes=10,
    difficulty=1,
    task="""
If all returns are positive, plain REINFORCE makes every action more likely, and the good ones only
a little more so. Subtracting a baseline fixes that. The simplest baseline is the mean:

    adv = (ret - mean) / std

Dividing by the standard deviation (of the batch itself: divide the squares by n, not by n - 1) lets
one learning rate serve tasks with returns of 1 and of 1000. If all returns are equal, there is
nothing to learn from them, so the result is zeros: add 1e-8 to the standard deviation.
""",
    stub='''
import torch

from spinup.exercises import NotYetWritten


def normalize_advantages(adv):
    """Return a tensor of the same shape with mean 0 and standard deviation 1.

    Args:
        adv: a tensor [batch]. It must not be changed.
    """
    raise NotYetWritten("normalize_advantages")  # your code here
''',
    name="normalize_advantages",
    reference="spinup_lab.exercises.answers:normalize_advantages",
    shown=("spinup.algos.pytorch.common.advantages:normalize_advantages",),
    cases=_normalize_cases,
    hints=(
        "Two numbers describe the batch. What does torch.std divide by, if you do not tell it? Try "
        "it on a batch of one.",
        "std = square root of the mean of (adv - mean)^2. In torch: adv.std(correction=0).",
        "return (adv - adv.mean()) / (adv.std(correction=0) + ...)",
    ),
    wrong=(
        Wrong(
            "sample-deviation",
            "You divide by n - 1, which is torch's default for std. For a batch of one, that is a "
            "division by zero, and one nan destroys all the weights.",
            edits=(("adv.std(correction=0)", "adv.std()"),),
        ),
        Wrong(
            "no-floor",
            "If all returns are equal, you divide 0 by 0. The nan would spread to all the weights.",
            edits=(("(std + 1e-8)", "std"),),
        ),
        Wrong(
            "not-divided",
            "The mean is gone, but the scale is still that of the task. Divide by the standard "
            "deviation.",
            edits=((" / (std + 1e-8)", ""),),
        ),
        Wrong(
            "mean-kept",
            "You divide by the standard deviation without subtracting the mean, so the baseline is "
            "missing.",
            edits=(("(adv - mean)", "adv"),),
        ),
        Wrong(
            "variance",
            "You divide by the variance. Its unit is that of the returns squared.",
            edits=(("(std + 1e-8)", "(std**2 + 1e-8)"),),
        ),
        Wrong(
            "length-of-the-vector",
            "You divide by the length of the vector, which grows with the batch. The standard "
            "deviation is that length divided by the square root of n.",
            edits=(("(std + 1e-8)", "((adv - mean).norm() + 1e-8)"),),
        ),
        Wrong(
            "zero-to-one",
            "You scale to the range from 0 to 1. Then nothing is negative, and no action becomes "
            "less likely: the baseline is the mean, not the smallest return.",
            edits=(
                (
                    "(adv - mean) / (std + 1e-8)",
                    "(adv - adv.min()) / (adv.max() - adv.min() + 1e-8)",
                ),
            ),
        ),
        Wrong(
            "range",
            "You divide by the range, the largest minus the smallest. A single unusual return "
            "would then shrink all the others.",
            edits=(("(std + 1e-8)", "(adv.max() - adv.min() + 1e-8)"),),
        ),
    ),
    algorithms=("reinforce", "vpg", "trpo", "ppo"),
    page="algorithms/reinforce",
)


# ------------------------------------------------------------------------------------------ loss


def loss_cases() -> list[Case]:
    """Cases for a policy gradient's loss: by hand, then with the library's networks."""
    import torch

    from spinup_lab.exercises.tables import TableActorCritic, networks, numbers, one_ratio

    def case(name: str, adv: float) -> Case:
        ac, batch = one_ratio(1.0, adv)
        show = f"probability of the action=[0.4], adv=[{adv}]"
        return Case(name, (ac, batch), grad=("ac.pi",), show=show)

    two = TableActorCritic([[0.5, 0.5], [0.1, 0.9]])
    batch = {
        "obs": torch.tensor([0, 1]),
        "act": torch.tensor([1, 0]),
        "adv": numbers(1.0, -2.0),
        "ret": numbers(3.0, 1.0),
        "val": numbers(0.0, 0.0),
        "logp": numbers(0.5, 0.1).log(),
    }
    show = "probabilities of the actions=[0.5, 0.1], adv=[1.0, -2.0]"
    return [
        case("one good action", 1.0),
        case("one bad action", -1.0),
        case("an action that made no difference", 0.0),
        case("a very good action", 10.0),
        Case("two states", (two, batch), grad=("ac.pi",), show=show),
        *(
            Case(name, networks(*args, far=0.0), grad=("ac.pi",), show=name)
            for name, args in {
                "a network and 16 discrete actions": (16, True),
                "a network and 16 continuous actions": (16, False),
                "a network and a batch of one": (1, False),
            }.items()
        ),
    ]


def moved_cases() -> list[Case]:
    """Cases in which the policy is no longer the one that collected the data."""
    from spinup_lab.exercises.tables import networks, one_ratio

    ac, batch = one_ratio(1.5, 1.0)
    show = "old probability=[0.4], probability now=[0.6], adv=[1.0]"
    name = "a network that has moved since"
    return [
        Case("a policy that has moved since", (ac, batch), grad=("ac.pi",), show=show),
        Case(name, networks(16, False), grad=("ac.pi",), show=name),
    ]


LOSS_LINE = '-(logp * batch["adv"]).mean()'

# The mistakes of a policy gradient's loss, as edits of the line that computes it.
LOSS_WRONG = (
    Wrong(
        "sign",
        "Your loss has the wrong sign. Optimizers minimize, so the objective, which is to be made "
        "large, needs a minus. Yours makes good actions less likely.",
        edits=((LOSS_LINE, '(logp * batch["adv"]).mean()'),),
    ),
    Wrong(
        "sum-for-mean",
        "You sum over the batch, so the size of a step would grow with the number of steps in an "
        "epoch. Take the mean.",
        edits=((LOSS_LINE, '-(logp * batch["adv"]).sum()'),),
    ),
    Wrong(
        "probability-for-logarithm",
        "You weigh probabilities, not their logarithms. The policy gradient has grad log pi, which "
        "is grad pi divided by pi: without the division, likely actions are reinforced merely for "
        "being likely.",
        edits=((LOSS_LINE, '-(logp.exp() * batch["adv"]).mean()'),),
    ),
    Wrong(
        "returns-for-advantages",
        "You use batch['ret']. Without a baseline, every action of a good epoch becomes more "
        "likely, the bad ones included: use batch['adv'].",
        edits=((LOSS_LINE, '-(logp * batch["ret"]).mean()'),),
    ),
    Wrong(
        "old-log-probabilities",
        "You use batch['logp'], numbers that were recorded when the data was collected. They do "
        "not depend on the weights, so there is nothing to differentiate: use those of ac.pi.",
        edits=((LOSS_LINE, '-(batch["logp"] * batch["adv"]).mean()'),),
    ),
    Wrong(
        "means-multiplied",
        "You multiply two means. The pairing is lost: which action had which advantage is the "
        "whole signal. Multiply first, then take the mean.",
        edits=((LOSS_LINE, '-logp.mean() * batch["adv"].mean()'),),
    ),
    Wrong(
        "ratio",
        "This is the ratio p_new / p_old times the advantage, the objective of TRPO and PPO. At "
        "the old policy it has the same gradient, but this exercise asks for the logarithm.",
        edits=((LOSS_LINE, '-((logp - batch["logp"]).exp() * batch["adv"]).mean()'),),
    ),
    Wrong(
        "actions-sampled-anew",
        "You sample new actions and use their log-probabilities. The advantages belong to the "
        "actions that were taken, which are in batch['act'].",
        edits=(
            (
                "pi, logp = pi_and_logp(ac, batch)",
                'pi = ac.pi(batch["obs"])[0]; logp = ac.pi(batch["obs"], pi.sample())[1]',
            ),
        ),
    ),
    Wrong(
        "detached",
        "Your log-probabilities are detached, so no gradient reaches the policy.",
        edits=((LOSS_LINE, '-(logp.detach() * batch["adv"]).mean()'),),
    ),
)

LOSS_PI = Exercise(
    id="reinforce.loss_pi",
    title="the loss whose gradient is the policy gradient",
    set=1,
    minutes=15,
    difficulty=2,
    task="""
The policy gradient is the mean of grad log pi(a|s) * adv over the steps of an epoch. Automatic
differentiation needs a loss whose gradient is the *negative* of that: optimizers go downhill.

Such a loss is only a device: its value says nothing about how good the policy is.
""",
    stub='''
import torch

from spinup.exercises import NotYetWritten


def compute_loss_pi(ac, batch):
    """Return the loss of the policy.

    Args:
        ac: `ac.pi(obs, act)` returns the distribution and the log-probabilities [batch].
        batch: a dict of tensors. It has obs, act, adv (advantages), ret (rewards-to-go) and logp
            (log-probabilities when the data was collected), all [batch] or [batch, ...].

    Returns:
        A tensor with one number.
    """
    pi, logp = ac.pi(batch["obs"], batch["act"])  # given
    raise NotYetWritten("compute_loss_pi")  # your code here
''',
    name="compute_loss_pi",
    reference="spinup.algos.pytorch.reinforce.reinforce:compute_loss_pi",
    cases=lambda: [*loss_cases(), *moved_cases()],
    call=loss_only,
    hints=(
        "If the loss is a sum of terms c * log pi with constants c, its gradient is the sum of "
        "c * grad log pi. Which constants do you need?",
        "loss = -mean(log pi(a|s) * adv).",
        "return -(logp * ...).mean()",
    ),
    wrong=LOSS_WRONG,
    algorithms=("reinforce",),
    page="algorithms/reinforce",
)

EXERCISES = (REWARDS_TO_GO, NORMALIZE, LOSS_PI)

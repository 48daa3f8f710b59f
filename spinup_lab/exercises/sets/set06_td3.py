"""Problem set 6: TD3."""

from __future__ import annotations

from spinup_lab.exercises.exercise import Case, Exercise, Wrong

PAGE = "algorithms/td3"
ALGORITHMS = ("td3", "her")


def _simple():
    from spinup_lab.exercises.networks import LinearCritic, LinearPolicy, Networks

    ac = Networks(pi=LinearPolicy(0.5), q1=LinearCritic(1.0, 2.0), q2=LinearCritic(2.0, 1.0))
    parts = {"q1": LinearCritic(3.0, 1.0), "q2": LinearCritic(1.0, 4.0)}
    return ac, Networks(pi=LinearPolicy(0.25), **parts)


def _limits(low, high):
    import torch

    return tuple(torch.tensor(x, dtype=torch.float64) for x in (low, high))


def _networks(low=(-1.0, -1.0), high=(1.0, 1.0), obs_dim=3):
    import numpy as np
    from gymnasium.spaces import Box

    from spinup_lab.exercises.networks import actor_critic

    space = Box(np.float32(low), np.float32(high))
    return space, *(actor_critic("td3", space, obs_dim) for _ in range(2))


# --------------------------------------------------------------------------------- smoothed_action


def _smoothed_cases():
    import torch

    def observations(rows, dim=3):
        return torch.randn(rows, dim, dtype=torch.float64)

    narrow, wide = _limits([-1.0], [1.0]), _limits([-2.0, -8.0], [2.0, 8.0])
    unit, shifted = _limits([-1.0, -1.0], [1.0, 1.0]), _limits([0.0, 3.0], [1.0, 9.0])
    _, simple = _simple()
    cases = [
        Case(
            "no noise, one observation",
            (simple, torch.tensor([[2.0]], dtype=torch.float64), 0.0, 0.5, *narrow),
            show="pi(o) = 0.25 o, o2 = 2, target_noise = 0, bounds -1 and 1",
        ),
        Case(
            "no noise, and the policy leaves the bounds",
            (simple, torch.tensor([[6.0]], dtype=torch.float64), 0.0, 0.5, *narrow),
            show="pi(o) = 0.25 o, o2 = 6, target_noise = 0, bounds -1 and 1",
        ),
    ]
    for name, rows, limits, noise, clip in (
        ("small noise", 5, unit, 0.1, 0.5),
        ("noise that is often clipped", 40, unit, 0.5, 0.2),
        ("bounds of different width", 20, wide, 0.2, 0.5),
        ("bounds that are not symmetric", 20, shifted, 0.2, 0.5),
        ("actions near the bounds", 30, unit, 0.4, 2.0),
        ("wide bounds and a tight clip", 30, wide, 1.0, 0.1),
        ("one observation", 1, unit, 0.2, 0.5),
    ):
        low, high = (x.tolist() for x in limits)
        _, _, ac_targ = _networks(low, high)
        cases.append(Case(name, (ac_targ, observations(rows), noise, clip, *limits)))
    return cases


SMOOTHED = Exercise(
    id="td3.smoothed_action",
    title="target policy smoothing",
    set=6,
    minutes=15,
    difficulty=2,
    algorithms=("td3",),
    page=PAGE,
    task=r"""
TD3's target asks for the value of an action NEAR the target policy's, so that the critic cannot
be exploited at one narrow peak. Write `smoothed_action`:

    noise = clip(target_noise * N(0, 1), -noise_clip, noise_clip)
    a2 = clip(pi_targ(o2) + noise * (high - low) / 2, low, high)

- `ac_targ.pi(o2)` returns (B, act); `low` and `high` (act,) are the bounds of actions.
- The noise is in units of half the range, so it is clipped BEFORE it is scaled.
- Draw with `torch.randn_like`, one number per action and dimension. The judge seeds torch.
""",
    stub='''
import torch

from spinup.exercises import NotYetWritten


def smoothed_action(ac_targ, o2, target_noise, noise_clip, low, high):
    """Return the target policy's actions (B, act) with clipped noise, within the bounds."""
    raise NotYetWritten("smoothed_action")
''',
    name="smoothed_action",
    reference="spinup.algos.pytorch.td3.td3:smoothed_action",
    cases=_smoothed_cases,
    random=True,
    hints=(
        "There are two clips: one keeps the noise small, the other keeps the action legal.",
        "noise = clip(target_noise * N(0, 1), -noise_clip, noise_clip); the action is "
        "clip(pi_targ(o2) + noise * (high - low) / 2, low, high).",
        "a2 = ac_targ.pi(o2)\n"
        "noise = (target_noise * torch.randn_like(a2)).clamp(...)\n"
        "return (a2 + noise * ...).clamp(low, high)",
    ),
    wrong=(
        Wrong(
            "noise-unclipped",
            "The noise is not clipped. A rare large draw asks for the value of quite another "
            "action.",
            edits=((".clamp(-noise_clip, noise_clip)", ""),),
        ),
        Wrong(
            "target-out-of-bounds",
            "The smoothed action may leave the bounds. The critic has never seen such actions, "
            "and its value there is invented.",
            edits=((".clamp(low, high)", ""),),
        ),
        Wrong(
            "noise-absolute",
            "The noise ignores the width of the range: with bounds of -8 and 8 it is eight times "
            "too small.",
            edits=((" * (high - low) / 2", ""),),
        ),
        Wrong(
            "noise-full-range",
            "You scale by the whole range. The unit is half of it.",
            edits=(("(high - low) / 2", "(high - low)"),),
        ),
        Wrong(
            "clip-after-scaling",
            "You clip the noise after scaling it. `noise_clip` is in units of half the range, so "
            "it must act before.",
            edits=(
                (
                    "(target_noise * torch.randn_like(a2))",
                    "(target_noise * torch.randn_like(a2) * (high - low) / 2)",
                ),
                ("noise * (high - low) / 2", "noise"),
            ),
        ),
    ),
)

# ------------------------------------------------------------------------------------------ loss_q


def _loss_q_cases():
    from spinup_lab.exercises.networks import batch_of, transition

    grad = ("ac", "ac_targ")
    nets = (
        "Q1 = o + 2a, Q2 = 2o + a; targets pi(o) = 0.25 o, Q1 = 3o + a, Q2 = o + 4a; "
        "target_noise = 0, gamma = 0.5"
    )
    rest = (0.5, 0.0, 0.5, _limits([-1.0], [1.0]))
    cases = [
        Case(
            "one transition, without noise",
            (*_simple(), transition(1.0, 0.5, 1.0, 2.0), *rest),
            show=f"{nets}; o = 1, a = 0.5, r = 1, o2 = 2, d = 0",
        ),
        Case(
            "the other critic has the smaller target",
            (*_simple(), transition(1.0, 0.5, 1.0, -2.0), *rest),
            show=f"{nets}; o = 1, a = 0.5, r = 1, o2 = -2, d = 0",
        ),
        Case(
            "a terminal transition",
            (*_simple(), transition(1.0, 0.5, 1.0, 2.0, d=1.0), *rest),
            show=f"{nets}; o = 1, a = 0.5, r = 1, o2 = 2, d = 1",
        ),
    ]
    for name, rows, done, gamma, noise, clip, low, high in (
        ("random networks, without noise", 8, None, 0.99, 0.0, 0.5, [-1.0, -1.0], [1.0, 1.0]),
        ("with noise", 8, None, 0.99, 0.2, 0.5, [-1.0, -1.0], [1.0, 1.0]),
        ("a batch of one", 1, False, 0.99, 0.2, 0.5, [-1.0, -1.0], [1.0, 1.0]),
        ("every transition is terminal", 5, True, 0.99, 0.2, 0.5, [-1.0, -1.0], [1.0, 1.0]),
        ("gamma = 0", 6, None, 0.0, 0.2, 0.5, [-1.0, -1.0], [1.0, 1.0]),
        ("bounds of different width", 8, None, 0.9, 0.2, 0.5, [-2.0, 0.0], [2.0, 10.0]),
    ):
        space, ac, ac_targ = _networks(low, high)
        batch = batch_of(rows, space, done=done)
        args = (ac, ac_targ, batch, gamma, noise, clip, _limits(low, high))
        cases.append(Case(name, args, grad=grad))
    return cases


LOSS_Q = Exercise(
    id="td3.loss_q",
    title="clipped double Q-learning",
    set=6,
    minutes=20,
    difficulty=3,
    algorithms=ALGORITHMS,
    page=PAGE,
    task=r"""
Write `compute_loss_q`: both critics learn from ONE target, made from the smaller of the two
target critics.

    a2 = smoothed_action(ac_targ, o2, target_noise, noise_clip, low, high)
    backup = r + gamma * (1 - d) * min(Q1_targ(o2, a2), Q2_targ(o2, a2))
    loss_q = mean of (Q1(o, a) - backup)^2  +  mean of (Q2(o, a) - backup)^2

- `batch` has `obs, act, rew, obs2, done`; `limits` is the pair (low, high).
- `ac.q1(o, a)`, `ac.q2(o, a)` and the same of `ac_targ` return (B,).
- Return `(loss_q, {"Q1Vals": q1, "Q2Vals": q2})`, the values without a gradient.
- No gradient may pass through the backup. `smoothed_action` is given, and it is the only thing
  that draws random numbers: call it once.
""",
    stub='''
import torch

from spinup.algos.pytorch.td3.td3 import smoothed_action
from spinup.exercises import NotYetWritten


def compute_loss_q(ac, ac_targ, batch, gamma, target_noise, noise_clip, limits):
    """Return both critics' loss and {"Q1Vals": ..., "Q2Vals": ...}."""
    o, a, r, o2, d = (batch[k] for k in ("obs", "act", "rew", "obs2", "done"))
    raise NotYetWritten("compute_loss_q")
''',
    name="compute_loss_q",
    reference="spinup.algos.pytorch.td3.td3:compute_loss_q",
    cases=_loss_q_cases,
    random=True,
    hints=(
        "One target for both critics. The minimum is taken row by row, over the two TARGET "
        "critics.",
        "backup = r + gamma (1 - d) min(Q1_targ, Q2_targ) at the smoothed action; the loss is the "
        "sum of two mean squared errors.",
        "with torch.no_grad():\n"
        "    a2 = smoothed_action(ac_targ, o2, target_noise, noise_clip, *limits)\n"
        "    q_targ = torch.min(ac_targ.q1(o2, a2), ac_targ.q2(o2, a2))\n"
        "    backup = ...\n"
        "q1, q2 = ac.q1(o, a), ac.q2(o, a)",
    ),
    wrong=(
        Wrong(
            "td3-no-min",
            "Your target uses one critic only, as DDPG does. The policy will find the actions "
            "that this critic overestimates.",
            edits=(("torch.min(*twin_q(ac_targ, o2, a2))", "twin_q(ac_targ, o2, a2)[0]"),),
        ),
        Wrong(
            "max-for-min",
            "You take the LARGER of the two target critics, which makes overestimation worse.",
            edits=(("torch.min(", "torch.max("),),
        ),
        Wrong(
            "own-target-each",
            "Each critic learns from its own target critic. Both must learn from the smaller one.",
            edits=(
                ("torch.min(*twin_q(ac_targ, o2, a2))", "torch.stack(twin_q(ac_targ, o2, a2))"),
                ("((q1 - backup)", "((q1 - backup[0])"),
                ("((q2 - backup)", "((q2 - backup[1])"),
            ),
        ),
        Wrong(
            "mean-for-min",
            "You take the mean of the two target critics. The mean has less noise, but the same "
            "bias.",
            edits=(("torch.min(*twin_q(ac_targ, o2, a2))", "sum(twin_q(ac_targ, o2, a2)) / 2"),),
        ),
        Wrong(
            "no-done-mask",
            "Your backup adds the value of the next state even where the episode terminated.",
            edits=((" * (1 - d)", ""),),
        ),
        Wrong(
            "not-smoothed",
            "Your target uses the target policy's own action. TD3 adds noise to it.",
            edits=(
                (
                    "smoothed_action(ac_targ, o2, target_noise, noise_clip, *limits)",
                    "ac_targ.pi(o2)",
                ),
            ),
        ),
        Wrong(
            "gradient-through-target",
            "The values are right, but a gradient passes through the backup.",
            edits=(("with torch.no_grad():", "if True:"),),
        ),
        Wrong(
            "mean-of-losses",
            "You average the two critics' losses. TD3 adds them; half the loss is half the step.",
            edits=(
                ("((q1 - backup) ** 2).mean() +", "((q1 - backup) ** 2).mean() / 2 +"),
                ("((q2 - backup) ** 2).mean()", "((q2 - backup) ** 2).mean() / 2"),
            ),
        ),
    ),
)

# ----------------------------------------------------------------------------------------- loss_pi


def _loss_pi_cases():
    from spinup_lab.exercises.networks import batch_of, transition

    cases = [
        Case(
            "one observation",
            (_simple()[0], transition(2.0, 7.0, 1.0, 3.0)),
            grad=("ac.pi",),
            show="pi(o) = 0.5 o, Q1 = o + 2a, Q2 = 2o + a; o = 2, and the stored action is 7",
        )
    ]
    for name, rows, low, high in (
        ("a batch of one", 1, [-1.0, -1.0], [1.0, 1.0]),
        ("a batch of 8", 8, [-1.0, -1.0], [1.0, 1.0]),
        ("a batch of 30", 30, [-1.0, -1.0], [1.0, 1.0]),
        ("one action dimension", 6, [-1.0], [1.0]),
        ("bounds that are not symmetric", 8, [2.0, 0.0], [6.0, 1.0]),
        ("three action dimensions", 5, [-1.0] * 3, [1.0] * 3),
        ("wide bounds", 5, [-50.0], [50.0]),
    ):
        space, ac, _ = _networks(low, high)
        cases.append(Case(name, (ac, batch_of(rows, space)), grad=("ac.pi",)))
    return cases


LOSS_PI = Exercise(
    id="td3.loss_pi",
    title="the policy's loss",
    set=6,
    minutes=10,
    difficulty=1,
    algorithms=("td3",),
    page=PAGE,
    task=r"""
Write `compute_loss_pi` of TD3: the policy maximizes the FIRST critic.

    loss_pi = - mean of Q1(o, pi(o))

- `ac.pi(o)` returns (B, act), and `ac.q1(o, a)` and `ac.q2(o, a)` return (B,).
- Return the loss alone. Its gradient must reach the policy through the critic.
""",
    stub='''
import torch

from spinup.exercises import NotYetWritten


def compute_loss_pi(ac, batch):
    """Return the policy's loss."""
    o = batch["obs"]
    raise NotYetWritten("compute_loss_pi")
''',
    name="compute_loss_pi",
    reference="spinup.algos.pytorch.td3.td3:compute_loss_pi",
    cases=_loss_pi_cases,
    hints=(
        "It is DDPG's loss, with one of the two critics.",
        "loss = - mean of Q1(o, pi(o)). The minimum of both critics belongs to the target only.",
        "return -ac.q1(o, ac.pi(o)).mean()",
    ),
    wrong=(
        Wrong(
            "min-of-critics",
            "You maximize the smaller critic, as SAC does. TD3 uses the minimum in the target "
            "only; its policy follows the first critic.",
            edits=(("-ac.q1(o, ac.pi(o))", "-torch.min(*twin_q(ac, o, ac.pi(o)))"),),
        ),
        Wrong(
            "pi-sign",
            "The sign is missing: the optimizer minimizes, so the policy would look for the worst "
            "actions.",
            edits=(("return -ac", "return ac"),),
        ),
        Wrong(
            "stored-action",
            "You evaluate the stored actions, which do not depend on the policy.",
            edits=(("ac.pi(o)", 'batch["act"]'),),
        ),
        Wrong(
            "second-critic",
            "You follow the second critic. It would work as well, but the paper and the library "
            "use the first.",
            edits=(("ac.q1", "ac.q2"),),
        ),
    ),
)

# ------------------------------------------------------------------------------------------ update


def _update_cases():
    from torch.optim import SGD

    from spinup_lab.exercises.networks import batch_of

    cases = []
    for name, rows, update_policy, noise, polyak, low, high in (
        ("the policy is not due", 6, False, 0.0, 0.9, [-1.0], [1.0]),
        ("the policy is due", 6, True, 0.0, 0.9, [-1.0], [1.0]),
        ("with noise in the target", 8, True, 0.2, 0.995, [-1.0, -1.0], [1.0, 1.0]),
        ("with noise, not due", 8, False, 0.2, 0.995, [-1.0, -1.0], [1.0, 1.0]),
        ("polyak = 0", 8, True, 0.2, 0.0, [-1.0, -1.0], [1.0, 1.0]),
        ("polyak = 0, not due", 8, False, 0.2, 0.0, [-1.0, -1.0], [1.0, 1.0]),
        ("a batch of one", 1, True, 0.2, 0.9, [-1.0, -1.0], [1.0, 1.0]),
        ("bounds that are not symmetric", 5, True, 0.2, 0.9, [2.0, 0.0], [6.0, 1.0]),
    ):
        space, ac, ac_targ = _networks(low, high)
        batch = batch_of(rows, space)
        ac_targ.requires_grad_(False)
        pi_optimizer = SGD(ac.pi.parameters(), lr=0.01)
        q_optimizer = SGD([*ac.q1.parameters(), *ac.q2.parameters()], lr=0.02)
        args = (ac, ac_targ, pi_optimizer, q_optimizer, batch, _limits(low, high))
        kwargs = {
            "update_policy": update_policy,
            "gamma": 0.9,
            "polyak": polyak,
            "target_noise": noise,
            "noise_clip": 0.5,
        }
        changes = ("ac", "ac_targ", "pi_optimizer", "q_optimizer")
        cases.append(Case(name, args, kwargs, changes=changes))
    return cases


def _update_call(function, case):
    """Return the losses; the judge compares the parameters as well."""
    info = function(*case.args, **case.kwargs)
    names = ("LossQ", "LossPi") if case.kwargs["update_policy"] else ("LossQ",)
    return {name: info[name] for name in names} if info else info


UPDATE = Exercise(
    id="td3.update",
    title="the delayed update",
    set=6,
    minutes=20,
    difficulty=3,
    algorithms=("td3",),
    page=PAGE,
    task=r"""
Put the pieces together. `td3_update` takes a step of both critics at EVERY call, and a step of
the policy and of the targets only if `update_policy` is true:

1. critics: `compute_loss_q(ac, ac_targ, batch, gamma, target_noise, noise_clip, limits)[0]` is
   the loss, and `q_optimizer` has the parameters of both critics;
2. if due: a step of `pi_optimizer` on `compute_loss_pi(ac, batch)`, with `ac.q1` frozen;
3. if due: `polyak_update(ac, ac_targ, polyak)`.

Return a dict with `LossQ` and, if the policy was due, `LossPi`, both detached.
""",
    stub='''
import torch

from spinup.algos.pytorch.common.gradients import frozen
from spinup.algos.pytorch.common.targets import polyak_update
from spinup.algos.pytorch.td3.td3 import compute_loss_pi, compute_loss_q
from spinup.exercises import NotYetWritten


def td3_update(
    ac,
    ac_targ,
    pi_optimizer,
    q_optimizer,
    batch,
    limits,
    update_policy=True,
    gamma=0.99,
    polyak=0.995,
    target_noise=0.2,
    noise_clip=0.5,
):
    """Update the critics and, if due, the policy and the targets; return the losses."""
    raise NotYetWritten("td3_update")
''',
    name="td3_update",
    reference="spinup.algos.pytorch.td3.td3:td3_update",
    cases=_update_cases,
    call=_update_call,
    random=True,
    hints=(
        "Which of the three steps wait for `update_policy`? Two of them.",
        "Critics at every call; policy and targets together, and only if the policy is due.",
        "loss_q, info = compute_loss_q(...)\n"
        "zero_grad, backward, step\n"
        "if update_policy:\n"
        "    with frozen(ac.q1):\n"
        "        ...\n"
        "    polyak_update(ac, ac_targ, polyak)\n"
        "return info",
    ),
    wrong=(
        Wrong(
            "targets-not-delayed",
            "Your targets move at every call. TD3 delays them together with the policy.",
            edits=(
                (
                    "        return info\n\n",
                    "        polyak_update(ac, ac_targ, polyak)\n        return info\n\n",
                ),
            ),
        ),
        Wrong(
            "no-delay",
            "The policy is updated at every call, whether it is due or not.",
            edits=(("if not update_policy:", "if False:"),),
        ),
        Wrong(
            "delay-reversed",
            "The policy is updated exactly when it is NOT due.",
            edits=(("if not update_policy:", "if update_policy:"),),
        ),
        Wrong(
            "targets-never-move",
            "The target networks stay what they were at the start.",
            edits=(("    polyak_update(ac, ac_targ, polyak)\n", ""),),
        ),
        Wrong(
            "noise-forgotten",
            "You do not pass `target_noise` on: the target is not smoothed.",
            edits=(("gamma, target_noise, noise_clip", "gamma, 0.0, noise_clip"),),
        ),
    ),
)

EXERCISES = (SMOOTHED, LOSS_Q, LOSS_PI, UPDATE)

"""Problem set 7: SAC."""

from __future__ import annotations

from spinup_lab.exercises.exercise import Case, Exercise, Wrong

PAGE = "algorithms/sac"
ALGORITHMS = ("sac", "her")


def _simple():
    from spinup_lab.exercises.networks import GivenPolicy, LinearCritic, Networks

    ac = Networks(pi=GivenPolicy(0.5, -1.0), q1=LinearCritic(1.0, 2.0), q2=LinearCritic(2.0, 1.0))
    return ac, Networks(q1=LinearCritic(3.0, 1.0), q2=LinearCritic(1.0, 4.0))


def _networks(space=None, obs_dim=3):
    from spinup_lab.exercises.networks import actor_critic, box

    space = space or box(2)
    return space, *(actor_critic("sac", space, obs_dim) for _ in range(2))


def _discrete(n=4):
    from gymnasium.spaces import Discrete

    return Discrete(n)


# -------------------------------------------------------------------------------------- soft_value


def _soft_value_cases():
    import torch

    from spinup_lab.exercises.networks import box

    nets = "the policy samples a = 0.5 o with log pi = -o; Q1 = 3o + a, Q2 = o + 4a"
    cases = []
    for name, o, alpha in (
        ("one observation", 2.0, 0.5),
        ("the other critic is smaller", -2.0, 0.5),
    ):
        ac, ac_q = _simple()
        cases.append(
            Case(
                name,
                (ac, ac_q, torch.tensor([[o]], dtype=torch.float64), alpha),
                show=f"{nets}; o = {o:g}, alpha = {alpha:g}",
            )
        )
    for name, space, rows, alpha in (
        ("continuous actions, a batch of 6", box(2), 6, 0.2),
        ("alpha = 0", box(2), 6, 0.0),
        ("a batch of one", box(2), 1, 0.2),
        ("bounds from 2 to 6", box(1, 2.0, 6.0), 5, 1.0),
        ("discrete actions, a batch of 6", _discrete(), 6, 0.2),
        ("discrete actions, alpha = 0", _discrete(3), 6, 0.0),
        ("discrete actions, a batch of one", _discrete(2), 1, 1.0),
        ("discrete actions, a large alpha", _discrete(4), 4, 5.0),
    ):
        _, ac, ac_q = _networks(space)
        o = torch.randn(rows, 3, dtype=torch.float64)
        cases.append(Case(name, (ac, ac_q, o, alpha), grad=("ac.pi",)))
    return cases


SOFT_VALUE = Exercise(
    id="sac.soft_value",
    title="the value of a state, entropy included",
    set=7,
    minutes=20,
    difficulty=3,
    algorithms=("sac",),
    page=PAGE,
    task=r"""
Write `soft_value`: the smaller critic's value of the policy's action, plus the entropy bonus.

    V(o) = E[ min(Q1(o, a), Q2(o, a)) - alpha * log pi(a|o) ],   a ~ pi

- Continuous actions: one sample estimates the expectation. `ac.pi(o)` returns a sampled action
  (B, act) and its log-probability (B,); the critics `ac_q.q1(o, a)` and `ac_q.q2(o, a)` return
  (B,). The gradient must pass through the sample.
- Discrete actions (`ac.discrete` is true): the expectation is a sum over all actions.
  `action_probs(ac, o)` returns the probabilities and their logarithms, (B, n) each, and
  `ac_q.q1(o)` and `ac_q.q2(o)` the values of all actions, (B, n). Draw nothing.
- Return the values (B,) and log pi (B,): the log-probability of the sample or, for discrete
  actions, its expectation.
- The policy belongs to `ac`; the critics to `ac_q`, which may be the target networks.
""",
    stub='''
import torch

from spinup.algos.pytorch.sac.core import action_probs
from spinup.exercises import NotYetWritten


def soft_value(ac, ac_q, o, alpha):
    """Return the soft values (B,) and log pi (B,)."""
    discrete = getattr(ac, "discrete", False)
    raise NotYetWritten("soft_value")
''',
    name="soft_value",
    reference="spinup.algos.pytorch.sac.sac:soft_value",
    cases=_soft_value_cases,
    random=True,
    hints=(
        "An unlikely action has a very negative log-probability. Subtracting alpha times it makes "
        "the value larger: that is the reward for being random.",
        "min(Q1, Q2) - alpha log pi. For discrete actions: sum over a of pi(a) (min(Q1(a), Q2(a)) "
        "- alpha log pi(a)).",
        "if discrete:\n"
        "    probs, logp = action_probs(ac, o)\n"
        "    q = torch.min(ac_q.q1(o), ac_q.q2(o))\n"
        "    return (probs * ...).sum(-1), (probs * logp).sum(-1)\n"
        "a, logp = ac.pi(o)\n"
        "return torch.min(...) - alpha * logp, logp",
    ),
    wrong=(
        Wrong(
            "entropy-sign",
            "You ADD alpha log pi. That rewards certainty: the policy would become deterministic.",
            edits=(
                ("(q - alpha * logp)", "(q + alpha * logp)"),
                ("twin_q(ac_q, o, a)) - alpha", "twin_q(ac_q, o, a)) + alpha"),
            ),
        ),
        Wrong(
            "no-entropy",
            "The entropy bonus is missing: this is the value of TD3, not of SAC.",
            edits=(
                ("(q - alpha * logp)", "q"),
                ("twin_q(ac_q, o, a)) - alpha * logp", "twin_q(ac_q, o, a))"),
            ),
        ),
        Wrong(
            "no-min",
            "You use the first critic only. The policy will exploit what it overestimates.",
            edits=(
                ("torch.min(ac_q.q1(o), ac_q.q2(o))", "ac_q.q1(o)"),
                ("torch.min(*twin_q(ac_q, o, a))", "ac_q.q1(o, a)"),
            ),
        ),
        Wrong(
            "critics-of-ac",
            "You ask the critics of `ac`. The caller chooses the critics: `ac_q` may be the "
            "target networks.",
            edits=(
                ("torch.min(ac_q.q1(o), ac_q.q2(o))", "torch.min(ac.q1(o), ac.q2(o))"),
                ("twin_q(ac_q, o, a)", "twin_q(ac, o, a)"),
            ),
        ),
        Wrong(
            "sac-not-reparameterised",
            "The value is right, but the sample has no gradient: the policy cannot learn from the "
            "critic through it.",
            edits=(("twin_q(ac_q, o, a)", "twin_q(ac_q, o, a.detach())"),),
        ),
        Wrong(
            "best-discrete-action",
            "For discrete actions you take the best action. The expectation weights every action "
            "with its probability.",
            edits=(("(probs * (q - alpha * logp)).sum(-1)", "(q - alpha * logp).max(-1).values"),),
        ),
    ),
)

# ------------------------------------------------------------------------------------------ loss_q


def _loss_q_cases():
    from spinup_lab.exercises.networks import batch_of, box, transition

    nets = (
        "Q1 = o + 2a, Q2 = 2o + a; target critics Q1 = 3o + a, Q2 = o + 4a; the policy samples "
        "a = 0.5 o with log pi = -o; gamma = 0.5, alpha = 0.1"
    )
    cases = []
    for name, o2, d in (
        ("one transition", 2.0, 0.0),
        ("the other critic has the smaller target", -2.0, 0.0),
        ("a terminal transition", 2.0, 1.0),
    ):
        cases.append(
            Case(
                name,
                (*_simple(), transition(1.0, 0.5, 1.0, o2, d), 0.5, 0.1),
                show=f"{nets}; o = 1, a = 0.5, r = 1, o2 = {o2:g}, d = {d:g}",
            )
        )
    for name, space, rows, done, gamma, alpha in (
        ("random networks", box(2), 8, None, 0.99, 0.2),
        ("alpha = 0", box(2), 8, None, 0.99, 0.0),
        ("a batch of one", box(2), 1, False, 0.99, 0.2),
        ("every transition is terminal", box(2), 5, True, 0.99, 0.2),
        ("gamma = 0", box(2), 6, None, 0.0, 0.2),
        ("bounds from 2 to 6", box(1, 2.0, 6.0), 6, None, 0.9, 1.0),
    ):
        _, ac, ac_targ = _networks(space)
        batch = batch_of(rows, space, done=done)
        cases.append(Case(name, (ac, ac_targ, batch, gamma, alpha), grad=("ac", "ac_targ.q1")))
    return cases


LOSS_Q = Exercise(
    id="sac.loss_q",
    title="the critics' loss",
    set=7,
    minutes=20,
    difficulty=3,
    algorithms=ALGORITHMS,
    page=PAGE,
    task=r"""
Write `compute_loss_q` of SAC.

    backup = r + gamma * (1 - d) * V_targ(o2)
    loss_q = mean of (Q1(o, a) - backup)^2  +  mean of (Q2(o, a) - backup)^2

- `soft_value(ac, ac_targ, o2, alpha)` is given. It returns V(o2) and log pi, with actions of the
  policy in its first argument and the critics of the second: here, the CURRENT policy and the
  TARGET critics. It samples: call it once.
- `ac.q1(o, a)` and `ac.q2(o, a)` return (B,). `batch` has `obs, act, rew, obs2, done`.
- Return `(loss_q, {"Q1Vals": q1, "Q2Vals": q2})`, the values without a gradient. No gradient may
  pass through the backup.
""",
    stub='''
import torch

from spinup.algos.pytorch.sac.sac import soft_value
from spinup.exercises import NotYetWritten


def compute_loss_q(ac, ac_targ, batch, gamma, alpha):
    """Return both critics' loss and {"Q1Vals": ..., "Q2Vals": ...}."""
    o, a, r, o2, d = (batch[k] for k in ("obs", "act", "rew", "obs2", "done"))
    raise NotYetWritten("compute_loss_q")
''',
    name="compute_loss_q",
    reference="spinup.algos.pytorch.sac.sac:compute_loss_q",
    cases=_loss_q_cases,
    random=True,
    hints=(
        "It is TD3's loss with another value of the next state. Think of which networks belong "
        "into the target.",
        "backup = r + gamma (1 - d) V, where V is the soft value of o2 under the current policy, "
        "judged by the target critics.",
        "with torch.no_grad():\n"
        "    q_targ, _ = soft_value(ac, ac_targ, o2, alpha)\n"
        "    backup = ...\n"
        "q1, q2 = ac.q1(o, a), ac.q2(o, a)",
    ),
    wrong=(
        Wrong(
            "no-entropy-in-target",
            "Your target leaves the entropy bonus out. The critics then learn the values of the "
            "plain task, but the policy's loss still counts entropy: only that of the next step.",
            edits=(("ac_targ, o2, alpha)", "ac_targ, o2, 0.0)"),),
        ),
        Wrong(
            "online-q-in-target",
            "The target uses the critics that are being trained, not the target critics.",
            edits=(("soft_value(ac, ac_targ, o2", "soft_value(ac, ac, o2"),),
        ),
        Wrong(
            "no-done-mask",
            "Your backup adds the value of the next state even where the episode terminated.",
            edits=((" * (1 - d)", ""),),
        ),
        Wrong(
            "value-of-obs",
            "You use the value of the state itself. The future starts at the NEXT observation.",
            edits=(("ac_targ, o2, alpha)", 'ac_targ, batch["obs"], alpha)'),),
        ),
        Wrong(
            "gradient-through-target",
            "The values are right, but a gradient passes through the backup, and so into the "
            "policy.",
            edits=(("with torch.no_grad():", "if True:"),),
        ),
        Wrong(
            "one-critic",
            "Only the first critic is trained. The second keeps its random weights, and the "
            "minimum with it is meaningless.",
            edits=((" + ((q2 - backup) ** 2).mean()", ""),),
        ),
    ),
)

# ----------------------------------------------------------------------------------------- loss_pi


def _loss_pi_cases():
    from spinup_lab.exercises.networks import batch_of, box, transition

    cases = [
        Case(
            "one observation",
            (_simple()[0], transition(2.0, 7.0, 1.0, 3.0), 0.5),
            grad=("ac.pi",),
            show="the policy samples a = 0.5 o with log pi = -o; Q1 = o + 2a, Q2 = 2o + a; o = 2, "
            "alpha = 0.5",
        )
    ]
    for name, space, rows, alpha in (
        ("a batch of 8", box(2), 8, 0.2),
        ("a batch of one", box(2), 1, 0.2),
        ("alpha = 0", box(2), 6, 0.0),
        ("a large alpha", box(2), 6, 10.0),
        ("bounds from 2 to 6", box(1, 2.0, 6.0), 6, 0.2),
        ("discrete actions", _discrete(4), 8, 0.2),
        ("two discrete actions, a batch of one", _discrete(2), 1, 0.5),
    ):
        _, ac, _ = _networks(space)
        cases.append(Case(name, (ac, batch_of(rows, space), alpha), grad=("ac.pi",)))
    return cases


LOSS_PI = Exercise(
    id="sac.loss_pi",
    title="the policy's loss",
    set=7,
    minutes=10,
    difficulty=2,
    algorithms=ALGORITHMS,
    page=PAGE,
    task=r"""
Write `compute_loss_pi` of SAC: the policy maximizes the soft value of its own actions.

    loss_pi = - mean of V(o) = mean of (alpha * log pi(a|o) - min(Q1(o, a), Q2(o, a)))

- `soft_value(policy, critics, o, alpha)` is given; it returns the values (B,) and log pi (B,).
  Both the policy and the critics are those of `ac`: the policy learns from the current critics.
- Return `(loss_pi, logp)`: the loss, and log pi (B,) without a gradient, which the temperature
  and the log need.
""",
    stub='''
import torch

from spinup.algos.pytorch.sac.sac import soft_value
from spinup.exercises import NotYetWritten


def compute_loss_pi(ac, batch, alpha):
    """Return the policy's loss and log pi (B,)."""
    raise NotYetWritten("compute_loss_pi")
''',
    name="compute_loss_pi",
    reference="spinup.algos.pytorch.sac.sac:compute_loss_pi",
    cases=_loss_pi_cases,
    random=True,
    hints=(
        "The soft value already contains both wishes: high Q, and high entropy.",
        "loss = - mean of soft_value(ac, ac, o, alpha).",
        'v, logp = soft_value(ac, ac, batch["obs"], alpha)\nreturn ..., logp.detach()',
    ),
    wrong=(
        Wrong(
            "pi-sign",
            "The sign is missing: the optimizer minimizes, so the policy would look for the worst "
            "actions and the lowest entropy.",
            edits=(("return -v.mean()", "return v.mean()"),),
        ),
        Wrong(
            "no-entropy",
            "Your loss leaves the entropy out. The policy becomes deterministic as soon as the "
            "critics allow it.",
            edits=(("ac, o, alpha", "ac, o, 0.0"),),
        ),
        Wrong(
            "sum-for-mean",
            "You sum over the batch; SAC takes the mean.",
            edits=(("-v.mean()", "-v.sum()"),),
        ),
        Wrong(
            "next-observation",
            "You improve the policy at the next observations. The loss is about the batch's `obs`.",
            edits=(('batch["obs"]', 'batch["obs2"]'),),
        ),
    ),
)

# -------------------------------------------------------------------------------------- loss_alpha


def _loss_alpha_cases():
    import torch

    def case(name, log_alpha, logp, target, show=""):
        log_alpha = torch.tensor(log_alpha, dtype=torch.float64, requires_grad=True)
        logp = torch.as_tensor(logp, dtype=torch.float64)
        return Case(name, (log_alpha, logp, target), grad=("log_alpha",), show=show)

    return [
        case("entropy below its target", 0.0, [2.0], -1.0),
        case("entropy above its target", 0.0, [0.5], -1.0),
        case("entropy at its target", 0.0, [1.0], -1.0),
        case("alpha = 0.2", -1.6094379, [2.0, -1.0, 0.5], -1.0),
        case("a large alpha", 2.0, [2.0, -1.0, 0.5], -3.0),
        case("a target of a discrete policy", -1.0, [-0.3, -0.6], 0.5),
        case("a batch of 50", 0.3, torch.randn(50) * 2, -6.0),
        case("a very small alpha", -12.0, torch.randn(10), -2.0),
    ]


def _alpha_not_exp(log_alpha, logp, target_entropy):
    return -(log_alpha * (logp + target_entropy)).mean()


def _alpha_sum(log_alpha, logp, target_entropy):
    return -(log_alpha.exp() * (logp + target_entropy)).sum()


LOSS_ALPHA = Exercise(
    id="sac.loss_alpha",
    title="the temperature's loss",
    set=7,
    minutes=15,
    difficulty=3,
    algorithms=("sac",),
    page=PAGE,
    task=r"""
With `alpha="auto"`, SAC learns the weight of the entropy: it rises while the policy's entropy is
below a target, and falls while it is above. Write `compute_loss_alpha`:

    loss = - mean of  alpha * (log pi + target_entropy),   alpha = exp(log_alpha)

- `log_alpha` is a tensor without axes, the parameter that is trained; `logp` (B,) contains log pi
  of sampled actions, without a gradient. The entropy is the mean of -log pi.
- Return the loss, a tensor without axes, with a gradient with respect to `log_alpha`.
""",
    stub='''
import torch

from spinup.exercises import NotYetWritten


def compute_loss_alpha(log_alpha, logp, target_entropy):
    """Return a loss that raises the temperature if the entropy is below its target."""
    raise NotYetWritten("compute_loss_alpha")
''',
    name="compute_loss_alpha",
    reference="spinup.algos.pytorch.sac.sac:compute_loss_alpha",
    cases=_loss_alpha_cases,
    hints=(
        "Check the sign with one number: log pi = 2 means an entropy of -2. With a target of -1 "
        "the entropy is too low, so a gradient step must raise alpha.",
        "loss = - mean of exp(log_alpha) * (log pi + target_entropy).",
        "alpha = log_alpha.exp()\nreturn -(alpha * (...)).mean()",
    ),
    wrong=(
        Wrong(
            "alpha-sign",
            "The sign is reversed: alpha falls when the entropy is too low, and the entropy then "
            "falls further.",
            edits=(("return -(", "return ("),),
        ),
        Wrong(
            "target-entropy-sign",
            "You subtract the target. The entropy is -log pi, so the gap (target - entropy) is "
            "target + log pi.",
            edits=(("logp + target_entropy", "logp - target_entropy"),),
        ),
        Wrong(
            "log-alpha-for-alpha",
            "You multiply by log alpha. Some programs do, and the sign of the step is the same, "
            "but its size is not: the paper's loss has alpha itself.",
            function=_alpha_not_exp,
        ),
        Wrong(
            "sum-for-mean",
            "You sum over the batch; the loss is a mean.",
            function=_alpha_sum,
        ),
    ),
)

# ---------------------------------------------------------------------------------- target entropy


def _target_entropy_cases():
    import numpy as np
    from gymnasium.spaces import Box, Discrete

    def box(low, high):
        return Box(np.array(low, np.float32), np.array(high, np.float32))

    return [
        Case("two discrete actions", (Discrete(2),), show="Discrete(2)"),
        Case("18 discrete actions", (Discrete(18),), show="Discrete(18)"),
        Case("one discrete action", (Discrete(1),), show="Discrete(1)"),
        Case("one dimension, bounds -1 and 1", (box([-1], [1]),), show="Box(-1, 1, (1,))"),
        Case("six dimensions", (box([-1] * 6, [1] * 6),), show="Box(-1, 1, (6,))"),
        Case("bounds -2 and 2", (box([-2], [2]),), show="Box(-2, 2, (1,))"),
        Case("bounds 0 and 1", (box([0, 0], [1, 1]),), show="Box(0, 1, (2,))"),
        Case("bounds of different width", (box([-1, 0, 5], [1, 10, 5.5]),)),
        Case("actions with two axes", (Box(-3.0, 3.0, (2, 3)),), show="Box(-3, 3, (2, 3))"),
    ]


def _entropy_minus_dim(action_space):
    import math

    import numpy as np
    from gymnasium.spaces import Discrete

    if isinstance(action_space, Discrete):
        return 0.5 * math.log(action_space.n)
    return -float(np.prod(action_space.shape))


def _entropy_plus_dim(action_space):
    import math

    import numpy as np
    from gymnasium.spaces import Discrete

    if isinstance(action_space, Discrete):
        return 0.5 * math.log(action_space.n)
    half = (action_space.high - action_space.low) / 2
    return float((np.log(half.astype(np.float64)) + 1).sum())


def _entropy_full_range(action_space):
    import math

    import numpy as np
    from gymnasium.spaces import Discrete

    if isinstance(action_space, Discrete):
        return 0.5 * math.log(action_space.n)
    width = (action_space.high - action_space.low).astype(np.float64)
    return float((np.log(width) - 1).sum())


TARGET_ENTROPY = Exercise(
    id="sac.target_entropy",
    title="how random should the policy stay?",
    set=7,
    minutes=15,
    difficulty=3,
    algorithms=("sac",),
    page=PAGE,
    task=r"""
Write `default_target_entropy(action_space)`: the entropy that SAC's temperature aims at.

- `Discrete(n)`: half the entropy of the uniform policy, `0.5 * log(n)`.
- `Box` with bounds -1 and 1: minus the number of action dimensions, the usual choice.
- `Box` with other bounds: entropies of continuous actions depend on their unit. Actions that are
  s times as wide have log(s) more entropy per dimension, so the target must move with them: sum
  over dimensions of `log((high - low) / 2) - 1`.

Return a float.
""",
    stub='''
import math

import numpy as np
from gymnasium.spaces import Box, Discrete

from spinup.exercises import NotYetWritten


def default_target_entropy(action_space):
    """Return the target entropy of SAC for this action space."""
    raise NotYetWritten("default_target_entropy")
''',
    name="default_target_entropy",
    reference="spinup.algos.pytorch.sac.core:default_target_entropy",
    cases=_target_entropy_cases,
    hints=(
        "If you measure actions in millimeters rather than meters, nothing about the task "
        "changes, but every density is divided by 1000.",
        "Box: sum over dimensions of log((high - low) / 2) - 1. Discrete: 0.5 log n.",
        "half = (action_space.high - action_space.low) / 2\nreturn float((np.log(half) - 1).sum())",
    ),
    wrong=(
        Wrong(
            "minus-dim-always",
            "Minus the number of dimensions is right for bounds of -1 and 1 only. With other "
            "bounds the same policy has another entropy, because densities have units.",
            function=_entropy_minus_dim,
        ),
        Wrong(
            "target-entropy-sign",
            "You add 1 per dimension. The target is BELOW the entropy of the uniform policy; "
            "yours is above what any policy can reach, so the temperature would rise forever.",
            function=_entropy_plus_dim,
        ),
        Wrong(
            "full-range",
            "You use the whole width. Half of it is the unit, so that bounds of -1 and 1 give -1 "
            "per dimension.",
            function=_entropy_full_range,
        ),
        Wrong(
            "uniform-entropy",
            "For discrete actions you ask for the entropy of the uniform policy. Only a policy "
            "that ignores the state reaches it; the target is half of it.",
            edits=(("0.5 * math.log", "math.log"),),
        ),
    ),
)

EXERCISES = (SOFT_VALUE, LOSS_Q, LOSS_PI, LOSS_ALPHA, TARGET_ENTROPY)

"""Problem set 9: ACER."""

from __future__ import annotations

from spinup_lab.exercises.exercise import Case, Exercise, Wrong

PAGE = "algorithms/acer"


def _batch(rew, done, ended=None):
    import torch

    ended = done if ended is None else ended
    return {
        name: torch.as_tensor(x, dtype=torch.float64)
        for name, x in (("rew", rew), ("done", done), ("ended", ended))
    }


def _random(*shape):
    import torch

    return torch.randn(*shape, dtype=torch.float64)


# ----------------------------------------------------------------------------------------- retrace


def _retrace_cases():
    import torch

    def column(*numbers):
        return torch.tensor(numbers, dtype=torch.float64)[:, None]

    def zeros(n):
        return [[0.0]] * n

    two = "two steps, rewards 1 and 2, Q = (1, 3), V of the next state = (2, 4), gamma = 0.5"
    q, v2 = column(1, 3), column(2, 4)
    cases = [
        Case(
            "two steps on the current policy",
            (q, v2, column(1, 1), _batch([[1.0], [2.0]], zeros(2)), 0.5),
            show=f"{two}, ratios 1 and 1",
        ),
        Case(
            "the second action is unlikely now",
            (q, v2, column(1, 0.5), _batch([[1.0], [2.0]], zeros(2)), 0.5),
            show=f"{two}, ratios 1 and 0.5",
        ),
        Case(
            "the first action is unlikely now",
            (q, v2, column(0.5, 1), _batch([[1.0], [2.0]], zeros(2)), 0.5),
            show=f"{two}, ratios 0.5 and 1",
        ),
        Case(
            "ratios above one",
            (q, v2, column(3, 4), _batch([[1.0], [2.0]], zeros(2)), 0.5),
            show=f"{two}, ratios 3 and 4",
        ),
    ]
    for name, steps, streams, gamma, lam, done_at, ended_at in (
        ("five steps of three streams", 5, 3, 0.99, 1.0, [], []),
        ("one step", 1, 4, 0.99, 1.0, [], []),
        ("an episode terminates in the middle", 6, 2, 0.9, 1.0, [2], [2]),
        ("an episode is cut in the middle", 6, 2, 0.9, 1.0, [], [3]),
        ("an episode terminates at the end", 4, 2, 0.9, 1.0, [3], [3]),
        ("lambda = 0.5", 6, 2, 0.9, 0.5, [], []),
        ("lambda = 0", 6, 2, 0.9, 0.0, [], []),
        ("all of it", 20, 4, 0.99, 0.95, [4], [4, 11]),
    ):
        done, ended = torch.zeros(steps, streams), torch.zeros(steps, streams)
        done[done_at, 0] = 1
        ended[ended_at, 0] = 1
        rho = _random(steps, streams).exp()
        batch = _batch(_random(steps, streams), done, ended)
        args = (_random(steps, streams), _random(steps, streams), rho, batch, gamma, lam)
        cases.append(Case(name, args))
    return cases


RETRACE = Exercise(
    id="acer.retrace",
    title="targets from old trajectories",
    set=9,
    minutes=40,
    difficulty=5,
    algorithms=("acer",),
    page=PAGE,
    task=r"""
Write `retrace`: targets for Q that are right whichever policy acted. For N trajectories of T
steps, all tensors (T, N):

    delta_t = r_t + gamma * (1 - done_t) * V(s_(t+1)) - Q(s_t, a_t)
    Qret_t - Q_t = delta_t + gamma * lam * min(1, rho_(t+1)) * (Qret_(t+1) - Q_(t+1))

- `q` contains Q(s_t, a_t), `v2` contains V(s_(t+1)), and `rho` the ratio pi / mu of a_t.
- `batch["rew"]`, `batch["done"]` (terminated) and `batch["ended"]` (terminated or cut). The
  correction does not flow back across the end of an episode: the next row belongs to another one.
- After the last step of a trajectory there is nothing to add: its correction is delta alone.
- Return Qret (T, N).
""",
    stub='''
import torch

from spinup.exercises import NotYetWritten


def retrace(q, v2, rho, batch, gamma=0.99, lam=1.0):
    """Return the Retrace targets (T, N)."""
    raise NotYetWritten("retrace")
''',
    name="retrace",
    reference="spinup.algos.pytorch.acer.retrace:retrace",
    cases=_retrace_cases,
    hints=(
        "Compute all deltas at once. Then go backward through time, and carry the correction "
        "Qret - Q along.",
        "correction_t = delta_t + gamma lam min(1, rho_(t+1)) (1 - ended_t) correction_(t+1). The "
        "ratio is that of the LATER step: a_t itself is given.",
        "correction = delta[-1]\n"
        "for t in reversed(range(T - 1)):\n"
        "    trace = gamma * lam * rho[t + 1].clamp(max=1) * ...\n"
        "    correction = delta[t] + trace * correction",
    ),
    wrong=(
        Wrong(
            "retrace-uncut",
            "The ratios are not cut at 1. Their product over a trajectory can become huge.",
            edits=((".clamp(max=1)", ""),),
        ),
        Wrong(
            "rho-off-by-one",
            "You use the ratio of step t. Q(s_t, a_t) is about a_t, whoever chose it; what may "
            "differ is the NEXT action.",
            edits=(("rho[1:]", "rho[:-1]"),),
        ),
        Wrong(
            "crosses-episodes",
            "The correction flows back across the end of an episode, from the next one.",
            edits=((' * (1 - batch["ended"][:-1])', ""),),
        ),
        Wrong(
            "cut-not-ended",
            "You stop the trace only where the episode terminated. A cut episode is over as well: "
            "the next row belongs to another one.",
            edits=(('batch["ended"][:-1]', 'batch["done"][:-1]'),),
        ),
        Wrong(
            "cut-is-death",
            "You drop V of the next state where the episode was cut. Only a termination has no "
            "future.",
            edits=(('(1 - batch["done"])', '(1 - batch["ended"])'),),
        ),
        Wrong(
            "lambda-missing",
            "Lambda is ignored.",
            edits=(("gamma * lam * rho", "gamma * rho"),),
        ),
        Wrong(
            "clip-below",
            "You clip the ratios from below: they become AT LEAST 1.",
            edits=(("clamp(max=1)", "clamp(min=1)"),),
        ),
    ),
)

# ----------------------------------------------------------------------------------------- loss_pi


def _loss_pi_cases():
    import torch

    def case(name, phi, q, q_ret, act, mu, c=10.0, ent_coef=0.0, show=""):
        phi = phi.clone().requires_grad_()
        batch = {"act": act, "logmu": mu.log()}
        return Case(name, (phi, q, q_ret, batch, c, ent_coef), grad=("phi",), show=show)

    def simple(name, mu, q_ret, c):
        phi = torch.zeros(1, 1, 2, dtype=torch.float64)
        q = torch.tensor([[[1.0, 3.0]]], dtype=torch.float64)
        behavior = torch.tensor([[mu]], dtype=torch.float64)
        show = (
            f"pi = (0.5, 0.5), Q = (1, 3), Qret = {q_ret:g}, the action 0 was drawn from "
            f"mu = {tuple(mu)}, c = {c:g}"
        )
        ret = torch.tensor([[q_ret]], dtype=torch.float64)
        return case(name, phi, q, ret, torch.tensor([[0]]), behavior, c, show=show)

    cases = [
        simple("one state, on the current policy", [0.5, 0.5], 4.0, 10.0),
        simple("the old policy disliked the action", [0.1, 0.9], 4.0, 10.0),
        simple("the ratio is truncated", [0.1, 0.9], 4.0, 2.0),
    ]
    for name, steps, streams, n, c, ent_coef in (
        ("a random batch", 5, 3, 4, 10.0, 0.0),
        ("c = 1", 5, 3, 4, 1.0, 0.0),
        ("c = 0.5: much is truncated", 6, 2, 3, 0.5, 0.0),
        ("with an entropy bonus", 5, 3, 4, 10.0, 0.1),
        ("one step", 1, 1, 2, 10.0, 0.0),
        ("all of it", 10, 4, 6, 1.5, 0.01),
    ):
        mu = (_random(steps, streams, n) * 1.5).softmax(-1)
        act = torch.randint(n, (steps, streams))
        phi, q = _random(steps, streams, n), _random(steps, streams, n)
        cases.append(case(name, phi, q, _random(steps, streams), act, mu, c, ent_coef))
    return cases


LOSS_PI = Exercise(
    id="acer.loss_pi",
    title="truncation and bias correction",
    set=9,
    minutes=40,
    difficulty=5,
    algorithms=("acer",),
    page=PAGE,
    task=r"""
Write `compute_loss_pi` of ACER for discrete actions. It returns one loss per state, (T, N), whose
negated gradient is that of

      min(c, rho) * (Qret - V) * log pi(a)
    + sum over actions b of  max(0, pi(b) - c * mu(b)) * (Q(b) - V) * log pi(b)
    + ent_coef * entropy of pi

- `phi` (T, N, A) are the policy's logits, `q` (T, N, A) the values of all actions, `q_ret` (T,
  N).
- `batch["act"]` (T, N): the actions taken; `batch["logmu"]` (T, N, A): the log-probabilities of
  all actions under the policy that acted.
- `rho = pi(a) / mu(a)`, and `V = sum over b of pi(b) Q(b)`.
- The gradient passes through `log pi` (and the entropy) only. rho, V and the weights of the
  second term are constants.
- Given: `chosen(x, act)` picks x[..., act], (T, N, A) -> (T, N); `entropy(logp)`, (T, N, A) ->
  (T, N).
""",
    stub='''
import torch
from torch.nn.functional import log_softmax

from spinup.algos.pytorch.acer.core import chosen, entropy
from spinup.exercises import NotYetWritten


def compute_loss_pi(phi, q, q_ret, batch, c=10.0, ent_coef=0.0):
    """Return one loss per state, (T, N)."""
    logp, logmu = log_softmax(phi, -1), batch["logmu"]  # (T, N, A)
    raise NotYetWritten("compute_loss_pi")
''',
    name="compute_loss_pi",
    reference="spinup.algos.pytorch.acer.acer:compute_loss_pi",
    cases=_loss_pi_cases,
    hints=(
        "The first term is a policy gradient with a truncated weight. The second puts back, for "
        "ALL actions, what the truncation left out, with the critic in place of the data.",
        "pi [(rho - c) / rho]_+ = [pi - c mu]_+, which needs no division. Compute pi, V, rho and "
        "this weight without a gradient.",
        "with torch.no_grad():\n"
        "    pi = logp.exp()\n"
        "    v = (pi * q).sum(-1)\n"
        "    rho = ...\n"
        "    beyond = (pi - c * logmu.exp()).clamp(min=0)\n"
        "objective = rho.clamp(max=c) * (q_ret - v) * chosen(logp, act)\n"
        "objective = objective + (beyond * ... * logp).sum(-1)",
    ),
    wrong=(
        Wrong(
            "acer-no-correction",
            "The correction term is missing: truncated weights alone make the gradient biased.",
            edits=(
                (
                    "    objective = objective + (beyond * (q - v.unsqueeze(-1)) * logp).sum(-1)\n",
                    "",
                ),
            ),
        ),
        Wrong(
            "not-truncated",
            "The weights of the first term are not truncated, but the correction is added: the "
            "large ratios count twice.",
            edits=(("rho.clamp(max=c)", "rho"),),
        ),
        Wrong(
            "correction-without-baseline",
            "The correction uses Q alone. It needs the advantage Q - V, like the first term.",
            edits=(("(q - v.unsqueeze(-1))", "q"),),
        ),
        Wrong(
            "no-baseline",
            "The first term uses Qret alone. Without V as a baseline the gradient is much noisier.",
            edits=(("(q_ret - v)", "q_ret"),),
        ),
        Wrong(
            "sign",
            "You return the objective. A loss is minimized, so it needs a minus sign.",
            edits=(("return -(objective", "return (objective"),),
        ),
        Wrong(
            "entropy-sign",
            "The entropy is subtracted from the objective: the policy is rewarded for certainty.",
            edits=(("objective + ent_coef", "objective - ent_coef"),),
        ),
        Wrong(
            "gradient-through-weights",
            "The values are right, but a gradient passes through the ratio and V. Only log pi may "
            "have one.",
            edits=(("with torch.no_grad():", "if True:"),),
        ),
    ),
)

# ------------------------------------------------------------------------------------ trust region


def _trust_cases():
    import torch

    def case(name, g, k, delta):
        g, k = (torch.as_tensor(x, dtype=torch.float64) for x in (g, k))
        return Case(name, (g, k, delta))

    return [
        case("the step is fine", [[[1.0, 0.0]]], [[[0.5, 0.0]]], 1.0),
        case("the step is too long", [[[4.0, 1.0]]], [[[1.0, 0.0]]], 1.0),
        case("the step lowers the divergence", [[[-4.0, 1.0]]], [[[1.0, 0.0]]], 1.0),
        case("k = 0", [[[4.0, 1.0]]], [[[0.0, 0.0]]], 1.0),
        case("delta = 0", [[[4.0, 1.0]]], [[[1.0, 1.0]]], 0.0),
        case("exactly at the limit", [[[2.0, 0.0]]], [[[0.5, 0.0]]], 1.0),
        case("several states, some bent", _random(5, 3, 4) * 2, _random(5, 3, 4), 1.0),
        case("many states", _random(20, 4, 6) * 3, _random(20, 4, 6), 0.1),
        case("a long k", _random(4, 2, 3), _random(4, 2, 3) * 100, 1.0),
    ]


def _trust_whole_batch(g, k, delta):
    excess = (k * g).sum() - delta
    norm = k.square().sum().clamp(min=1e-20)
    return g - (excess / norm).clamp(min=0) * k


def _trust_shrunk(g, k, delta):
    rise = (k * g).sum(-1, keepdim=True)
    return g * (delta / rise.clamp(min=1e-20)).clamp(max=1)


TRUST_REGION = Exercise(
    id="acer.trust_region",
    title="the nearest step that stays close",
    set=9,
    minutes=25,
    difficulty=4,
    algorithms=("acer",),
    page=PAGE,
    task=r"""
ACER wants the gradient step g, but it may raise the KL divergence from an average policy by at
most delta. To first order, a step z raises it by k . z. Write `trust_region`, which returns the z
closest to g with k . z <= delta, for each state on its own:

    z = g - max(0, (k . g - delta) / (k . k)) * k

- `g` and `k` have the shape (T, N, A); the products are over the last axis.
- Where k = 0, any step is allowed: z = g, without a division by zero.
""",
    stub='''
import torch

from spinup.exercises import NotYetWritten


def trust_region(g, k, delta):
    """Return the z (T, N, A) closest to g that raises the divergence by at most delta."""
    raise NotYetWritten("trust_region")
''',
    name="trust_region",
    reference="spinup.algos.pytorch.acer.retrace:trust_region",
    cases=_trust_cases,
    hints=(
        "Only the part of g along k matters to the constraint. Remove as much of it as necessary, "
        "and nothing else.",
        "z = g - max(0, (k.g - delta) / |k|^2) k. The max(0, ...) leaves steps alone that are "
        "already allowed.",
        "excess = (k * g).sum(-1, keepdim=True) - delta\n"
        "norm = (k * k).sum(-1, keepdim=True).clamp(min=1e-20)\n"
        "return g - ...",
    ),
    wrong=(
        Wrong(
            "always-bent",
            "You also change steps that are within the limit: they are stretched until they raise "
            "the divergence by exactly delta.",
            edits=(("(excess / norm).clamp(min=0)", "(excess / norm)"),),
        ),
        Wrong(
            "not-normalized",
            "You do not divide by k . k. The correction has the wrong length unless k has length "
            "1.",
            edits=(("(excess / norm).clamp(min=0)", "excess.clamp(min=0)"),),
        ),
        Wrong(
            "one-constraint-for-all",
            "You add up all states and bend the whole batch at once. The constraint holds for "
            "each state.",
            function=_trust_whole_batch,
        ),
        Wrong(
            "shrunk",
            "You shorten g. The nearest allowed step keeps what is perpendicular to k.",
            function=_trust_shrunk,
        ),
        Wrong(
            "kl-direction",
            "The correction has the wrong sign: it moves the step further out of the trust region.",
            edits=(("return g -", "return g +"),),
        ),
        Wrong(
            "delta-forgotten",
            "You allow no rise of the divergence at all: delta is missing.",
            edits=((".sum(-1, keepdim=True) - delta", ".sum(-1, keepdim=True)"),),
        ),
    ),
)

EXERCISES = (RETRACE, LOSS_PI, TRUST_REGION)

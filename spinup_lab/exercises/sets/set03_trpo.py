"""Set 3: trust region policy optimization."""

from __future__ import annotations

from typing import Any

from spinup_lab.exercises.exercise import Case, Exercise, Wrong, loss_only

# ------------------------------------------------------------------------------------- objective


def _surrogate_cases() -> list[Case]:
    from spinup.algos.pytorch.trpo.core import with_old_policy
    from spinup_lab.exercises.tables import networks, one_ratio

    def case(name: str, made: Any, show: str = "") -> Case:
        ac, batch = made
        (batch,) = with_old_policy(ac, [batch])
        return Case(name, (ac, batch), grad=("ac.pi",), show=show or name)

    def one(name: str, ratio: float, adv: float) -> Case:
        shown = f"old probability=[0.4], probability now=[{0.4 * ratio:.4g}], adv=[{adv}]"
        return case(name, one_ratio(ratio, adv), shown)

    return [
        one("an action that became more likely", 1.5, 1.0),
        one("the policy has not moved", 1.0, 1.0),
        one("an action that became less likely", 0.5, 1.0),
        one("a bad action that became more likely", 1.5, -1.0),
        one("an advantage of 0", 1.5, 0.0),
        case("a network, 16 discrete actions", networks(16, True)),
        case("a network, 16 continuous actions", networks(16, False)),
        case("a network that has moved far", networks(16, False, far=1.5)),
    ]


_SURROGATE = '-(ratio * batch["adv"]).mean()'

LOSS_PI = Exercise(
    id="trpo.loss_pi",
    title="the surrogate objective",
    set=3,
    minutes=10,
    difficulty=2,
    task="""
TRPO asks how good a new policy would be, from data of the old one. Weighing each step with the
probability ratio answers that (importance sampling):

    objective = mean( pi_new(a|s) / pi_old(a|s) * adv )

Write the loss to be minimized, its negative. Compute the ratio from log-probabilities: those of the
old policy are in `batch["logp"]`.
""",
    stub='''
import torch

from spinup.exercises import NotYetWritten


def compute_loss_pi(ac, batch):
    """Return the negated surrogate objective.

    Args:
        ac: `ac.pi(obs, act)` returns the distribution and the log-probabilities [batch].
        batch: a dict of tensors: obs, act, adv (advantages) and logp (log-probabilities of the
            actions under the old policy).

    Returns:
        A tensor with one number.
    """
    pi, logp = ac.pi(batch["obs"], batch["act"])  # given
    raise NotYetWritten("compute_loss_pi")  # your code here
''',
    name="compute_loss_pi",
    reference="spinup.algos.pytorch.trpo.trpo:compute_loss_pi",
    cases=_surrogate_cases,
    call=loss_only,
    hints=(
        "A ratio of probabilities is the exponential of a difference of logarithms.",
        "ratio = exp(logp - logp_old), and the loss is -mean(ratio * adv).",
        "ratio = torch.exp(logp - ...)\nreturn -(ratio * ...).mean()",
    ),
    wrong=(
        Wrong(
            "logarithm-for-ratio",
            "This is the loss of VPG, -mean(logp * adv). Its gradient is the same at the old "
            "policy, but the line search evaluates the loss elsewhere, where it says nothing.",
            edits=((_SURROGATE, '-(logp * batch["adv"]).mean()'),),
        ),
        Wrong(
            "log-ratio",
            "You left the exponential out: logp - logp_old is the logarithm of the ratio.",
            edits=((_SURROGATE, '-((logp - batch["logp"]) * batch["adv"]).mean()'),),
        ),
        Wrong(
            "ratio-inverted",
            "Your ratio is old / new. The data comes from the old policy, so dividing by its "
            "probability is what makes the mean right for the new one.",
            edits=((_SURROGATE, '-(batch["adv"] / ratio).mean()'),),
        ),
        Wrong(
            "logarithms-divided",
            "You divided logarithms. The ratio of two probabilities is exp(logp - logp_old).",
            edits=((_SURROGATE, '-(logp / batch["logp"] * batch["adv"]).mean()'),),
        ),
        Wrong(
            "sign",
            "The sign is wrong: a loss is minimized, and the objective is to become large.",
            edits=((_SURROGATE, '(ratio * batch["adv"]).mean()'),),
        ),
        Wrong(
            "clipped",
            "You clip the ratio, as PPO does. TRPO does not: its line search limits the step.",
            edits=(
                (
                    _SURROGATE,
                    '-torch.min(ratio * batch["adv"], ratio.clamp(0.8, 1.2) * batch["adv"]).mean()',
                ),
            ),
        ),
        Wrong(
            "sum-for-mean",
            "You sum over the batch; take the mean.",
            edits=((_SURROGATE, '-(ratio * batch["adv"]).sum()'),),
        ),
        Wrong(
            "detached",
            "Your ratio is detached, so no gradient reaches the policy.",
            edits=((_SURROGATE, '-(ratio.detach() * batch["adv"]).mean()'),),
        ),
    ),
    algorithms=("trpo",),
    page="algorithms/trpo",
)


# -------------------------------------------------------------------------------------------- KL


def _kl_cases() -> list[Case]:
    import torch

    def case(name: str, *given: Any) -> Case:
        mu_old, log_std_old, mu, log_std = (torch.as_tensor(x, dtype=torch.float64) for x in given)
        args = (mu_old, log_std_old, mu.clone().requires_grad_(), log_std.clone().requires_grad_())
        return Case(name, args, grad=("mu", "log_std"))

    def normal(*shape: int) -> Any:
        return torch.randn(*shape, dtype=torch.float64)

    return [
        case("the mean has moved by 1", [[0.0]], [0.0], [[1.0]], [0.0]),
        case("the same policy", [[0.5]], [-0.5], [[0.5]], [-0.5]),
        case("a wider Gaussian", [[0.0]], [0.0], [[0.0]], [1.0]),
        case("a narrower Gaussian", [[0.0]], [0.0], [[0.0]], [-1.0]),
        case("a narrow one that has moved", [[0.0]], [-1.0], [[0.5]], [-0.5]),
        case("two dimensions", [[0.0, 1.0]], [0.0, -0.5], [[1.0, 1.0]], [0.5, -0.5]),
        case("two rows", [[0.0], [1.0]], [0.0], [[1.0], [3.0]], [0.0]),
        case("16 rows of 3", normal(16, 3), normal(3) * 0.3, normal(16, 3), normal(3) * 0.3),
    ]


KL = Exercise(
    id="trpo.gaussian_kl",
    title="the KL divergence between two Gaussians",
    set=3,
    minutes=15,
    difficulty=3,
    task="""
The trust region is a limit on KL(old || new), averaged over states. For Gaussians with independent
dimensions it has a closed form; per dimension, with standard deviations s = exp(log_std):

    KL(old || new) = log(s / s_old) + (s_old^2 + (mu_old - mu)^2) / (2 s^2) - 1/2

Sum over the dimensions, then take the mean over the batch. The order of the two policies matters.
""",
    stub='''
import torch

from spinup.exercises import NotYetWritten


def gaussian_kl(mu_old, log_std_old, mu, log_std):
    """Return the mean over a batch of KL(old || new).

    Args:
        mu_old, mu: the means of the old and the new policy, tensors [batch, dim].
        log_std_old, log_std: logarithms of the standard deviations, [dim].

    Returns:
        A tensor with one number.
    """
    raise NotYetWritten("gaussian_kl")  # your code here
''',
    name="gaussian_kl",
    reference="spinup_lab.exercises.answers:gaussian_kl",
    shown=("spinup.algos.pytorch.common.nets:DiagonalNormal.kl",),
    cases=_kl_cases,
    hints=(
        "The formula has three terms. The logarithm of s / s_old needs no exponential at all.",
        "log(s / s_old) = log_std - log_std_old, and s^2 = exp(2 log_std).",
        "var_old, var = torch.exp(2 * log_std_old), torch.exp(2 * log_std)\n"
        "kl = log_std - log_std_old + (var_old + ...) / (2 * var) - 0.5\nreturn kl.sum(-1).mean()",
    ),
    wrong=(
        Wrong(
            "reversed",
            "This is KL(new || old). Both are 0 for equal policies and agree to second order, but "
            "far away they differ. The line search must measure what the constraint limits.",
            edits=(
                (
                    "def gaussian_kl(mu_old, log_std_old, mu, log_std)",
                    "def gaussian_kl(mu, log_std, mu_old, log_std_old)",
                ),
            ),
        ),
        Wrong(
            "deviation-for-variance",
            "You use standard deviations where variances belong: s^2 = exp(2 log_std).",
            edits=(
                (
                    "torch.exp(2 * log_std_old), torch.exp(2 * log_std)",
                    "torch.exp(log_std_old), torch.exp(log_std)",
                ),
            ),
        ),
        Wrong(
            "half-missing",
            "For two equal policies, your result is 1/2 per dimension. A KL divergence is 0 there.",
            edits=((" - 0.5", ""),),
        ),
        Wrong(
            "mean-over-dimensions",
            "You average over the dimensions. Independent dimensions add up: a policy with ten "
            "actions moves further than one with a single action.",
            edits=(("kl.sum(-1).mean()", "kl.mean()"),),
        ),
        Wrong(
            "sum-over-the-batch",
            "You sum over the batch as well; take the mean over states.",
            edits=(("kl.sum(-1).mean()", "kl.sum()"),),
        ),
        Wrong(
            "means-only",
            "Your result depends on the means only. A policy also moves when it becomes narrower.",
            edits=(
                (
                    "log_std - log_std_old + (var_old + (mu_old - mu) ** 2) / (2 * var) - 0.5",
                    "(mu_old - mu) ** 2 / (2 * var)",
                ),
            ),
        ),
        Wrong(
            "logarithm-swapped",
            "The logarithm has the wrong sign: it is log(s / s_old), new over old.",
            edits=(("log_std - log_std_old +", "log_std_old - log_std +"),),
        ),
        Wrong(
            "old-variance-below",
            "The distance of the means is divided by the new policy's variance, not by the old "
            "one's.",
            edits=(("(2 * var)", "(2 * var_old)"),),
        ),
    ),
    algorithms=("trpo",),
    page="algorithms/trpo",
)


# ------------------------------------------------------------------------- Hessian-vector product


def _hessian_cases() -> list[Case]:
    import torch

    def quadratic(name: str, a: Any, v: Any, damping: float) -> Case:
        a, v = (torch.as_tensor(x, dtype=torch.float64) for x in (a, v))
        theta = torch.ones(len(a), dtype=torch.float64, requires_grad=True)
        show = f"kl = 1/2 theta' A theta with A={a.tolist()}, v={v.tolist()}, damping={damping}"
        return Case(name, (0.5 * theta @ a @ theta, [theta], v, damping), show=show)

    def network(name: str, damping: float, *sizes: int) -> Case:
        from spinup.algos.pytorch.trpo.core import with_old_policy
        from spinup.algos.pytorch.trpo.trpo import compute_kl
        from spinup_lab.exercises.tables import networks

        ac, batch = networks(*sizes, discrete=False)
        (batch,) = with_old_policy(ac, [batch])
        params = list(ac.pi.parameters())
        v = torch.randn(sum(p.numel() for p in params), dtype=torch.float64)
        return Case(name, (compute_kl(ac, batch), params, v, damping), show=name)

    def two(name: str, damping: float) -> Case:
        x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
        y = torch.tensor([[3.0]], dtype=torch.float64, requires_grad=True)
        v = torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64)
        kl = (x**3).sum() * 0.1 + (x[0] * y).sum() + (y**2).sum()
        return Case(name, (kl, [x, y], v, damping), show=name)

    return [
        quadratic("one parameter", [[3.0]], [2.0], 0.0),
        quadratic("two parameters", [[2.0, 1.0], [1.0, 3.0]], [1.0, 0.0], 0.0),
        quadratic("damping", [[2.0, 1.0], [1.0, 3.0]], [1.0, 0.0], 0.5),
        quadratic("v = 0", [[2.0, 1.0], [1.0, 3.0]], [0.0, 0.0], 0.1),
        two("a function that is not quadratic, of a vector and a matrix", 0.0),
        two("the same with damping", 0.2),
        network("the KL of a network, 16 states", 0.0, 16),
        network("the KL of a network, with damping", 0.1, 8),
    ]


HESSIAN = Exercise(
    id="trpo.hessian_vector_product",
    title="products with a matrix that is never formed",
    set=3,
    minutes=25,
    difficulty=4,
    task="""
TRPO's direction is H^-1 g, where H is the Hessian of the KL divergence: as many rows and columns as
the policy has parameters. Nobody can store it, but products H v are cheap. The trick:

    H v = gradient of ( (gradient of kl) . v )

because v is constant. So: differentiate once and keep the graph, multiply with v, differentiate the
resulting number again. Return H v + damping_coeff * v; the damping keeps the matrix positive
definite when a batch does not determine all directions.
""",
    stub='''
import torch

from spinup.exercises import NotYetWritten


def hessian_vector_product(kl, params, v, damping_coeff):
    """Return (H + damping_coeff I) v.

    Args:
        kl: a tensor with one number, computed from params.
        params: a list of tensors. Flattened and joined in this order, they are one vector.
        v: a vector with as many entries.
        damping_coeff: a number.

    Returns:
        A vector like v.
    """
    raise NotYetWritten("hessian_vector_product")  # your code here
''',
    name="hessian_vector_product",
    reference="spinup_lab.exercises.answers:hessian_vector_product",
    shown=("spinup.algos.pytorch.trpo.core:hessian_vector_product",),
    cases=_hessian_cases,
    hints=(
        "torch.autograd.grad(y, params) returns a list of gradients. To differentiate such a "
        "gradient once more, torch has to build a graph of the first differentiation.",
        "grads = torch.autograd.grad(kl, params, create_graph=True). Flatten and join them to one "
        "vector, take its product with v, and differentiate that.",
        "grads = torch.autograd.grad(kl, params, create_graph=True)\n"
        "grad = torch.cat([g.reshape(-1) for g in grads])\n"
        "products = torch.autograd.grad(..., params)\n"
        "return torch.cat([...]) + damping_coeff * v",
    ),
    wrong=(
        Wrong(
            "no-damping",
            "The damping is missing: add damping_coeff * v.",
            edits=((" + damping_coeff * v", ""),),
        ),
        Wrong(
            "damping-without-v",
            "You add the number damping_coeff to every entry. damping_coeff times the identity, "
            "times v, is damping_coeff * v.",
            edits=((" + damping_coeff * v", " + damping_coeff"),),
        ),
        Wrong(
            "damping-multiplied",
            "You multiply H v by 1 + damping_coeff. The damping adds damping_coeff * v, also where "
            "H v is 0.",
            edits=(
                (
                    "torch.cat([h.reshape(-1) for h in products]) + damping_coeff * v",
                    "torch.cat([h.reshape(-1) for h in products]) * (1 + damping_coeff)",
                ),
            ),
        ),
        Wrong(
            "outer-product",
            "This is g (g . v), the outer product of the gradient with itself. At the old policy "
            "the gradient of the KL is 0, so nothing would be left; the Hessian is its derivative.",
            edits=(
                (
                    "products = torch.autograd.grad(grad @ v, params)",
                    "products = [grad * (grad @ v)]",
                ),
            ),
        ),
        Wrong(
            "diagonal",
            "You multiply by the sums of the rows, entry by entry: the gradient has to be "
            "multiplied with v before it is differentiated.",
            edits=(
                (
                    "products = torch.autograd.grad(grad @ v, params)",
                    "products = [torch.cat([h.reshape(-1) for h in "
                    "torch.autograd.grad(grad.sum(), params)]) * v]",
                ),
            ),
        ),
        Wrong(
            "gradient-only",
            "This is the first gradient, which does not depend on v.",
            edits=(("products = torch.autograd.grad(grad @ v, params)", "products = [grad]"),),
        ),
    ),
    algorithms=("trpo",),
    page="algorithms/trpo",
)


# ---------------------------------------------------------------------------- conjugate gradient


def _cg_cases() -> list[Case]:
    import torch

    def case(name: str, a: Any, b: Any, iters: int) -> Case:
        a, b = (torch.as_tensor(x, dtype=torch.float64) for x in (a, b))
        shown = f"A={a.tolist()}" if a.numel() <= 4 else f"A of shape {list(a.shape)}"
        right = f"b={b.tolist()}" if b.numel() <= 4 else f"b of shape {list(b.shape)}"

        def product(v: Any) -> Any:
            return a @ v

        return Case(name, (product, b, iters), show=f"{shown}, {right}, iters={iters}")

    def definite(n: int) -> Any:
        m = torch.randn(n, n, dtype=torch.float64)
        return m @ m.T / n + 0.3 * torch.eye(n, dtype=torch.float64)

    b = torch.randn(20, dtype=torch.float64)
    return [
        case("A = 2: one division", [[2.0]], [4.0], 1),
        case("the identity", [[1.0, 0.0], [0.0, 1.0]], [3.0, -1.0], 1),
        case("a diagonal, one iteration", [[1.0, 0.0], [0.0, 4.0]], [1.0, 1.0], 1),
        case("a diagonal, solved in two", [[1.0, 0.0], [0.0, 4.0]], [1.0, 1.0], 2),
        case("a full matrix", [[4.0, 1.0], [1.0, 3.0]], [1.0, 2.0], 2),
        case("more iterations than needed", [[4.0, 1.0], [1.0, 3.0]], [1.0, 2.0], 10),
        case("b = 0", [[4.0, 1.0], [1.0, 3.0]], [0.0, 0.0], 10),
        case("no iteration", [[2.0]], [4.0], 0),
        case("20 unknowns, 5 iterations", definite(20), b, 5),
        case("20 unknowns, 12 iterations", definite(20), b, 12),
    ]


CG = Exercise(
    id="trpo.conjugate_gradient",
    title="solving A x = b from products A v",
    set=3,
    minutes=30,
    difficulty=4,
    task="""
The method of conjugate gradients solves A x = b for a positive definite A, using only products A v.
It starts at x = 0 and goes along one direction p per iteration, each as far as is best, and never
has to correct an earlier one:

    r = b,  p = b                       (r is the residual b - A x)
    repeat:
        z      = A p
        alpha  = (r . r) / (p . z)      how far to go
        x      = x + alpha p
        r_new  = r - alpha z
        beta   = (r_new . r_new) / (r . r)
        p      = r_new + beta p
        r      = r_new

Stop early once r . r is below 1e-20: the system is solved, and going on would divide 0 by 0.
""",
    stub='''
import torch

from spinup.exercises import NotYetWritten


def conjugate_gradient(product, b, iters):
    """Return an approximate solution x of A x = b.

    Args:
        product: a function; product(v) is A v.
        b: a vector. It must not be changed.
        iters: the largest number of iterations.

    Returns:
        A vector like b.
    """
    raise NotYetWritten("conjugate_gradient")  # your code here
''',
    name="conjugate_gradient",
    reference="spinup.algos.pytorch.trpo.core:conjugate_gradient",
    cases=_cg_cases,
    rtol=1e-4,
    hints=(
        "Write the loop line by line as in the task. Keep r . r in a variable, because beta needs "
        "the value before and after the step.",
        "Before a loop with at most iters rounds: x = 0, r = b, p = b, rr = r . r. Test rr at its "
        "start. Copy b: r -= ... on the same tensor would change the caller's b.",
        "x, r, p = torch.zeros_like(b), b.clone(), b.clone()\nrr = r @ r\nfor _ in range(iters):\n"
        "    if rr < 1e-20:\n        break\n    z = product(p)\n    alpha = rr / ...\n"
        "    x += alpha * p\n    r -= ...\n    rr_new = r @ r\n    p = r + ... * p\n    rr = "
        "rr_new",
    ),
    wrong=(
        Wrong(
            "steepest-descent",
            "Your direction is always the residual: that is steepest descent. It turns in a zigzag "
            "and needs far more iterations; beta * p is what makes the directions conjugate.",
            edits=(("p = r + (rr_new / rr) * p", "p = r.clone()"),),
        ),
        Wrong(
            "beta-inverted",
            "Your beta is old over new. It is (r_new . r_new) / (r . r), which is usually below 1.",
            edits=(("(rr_new / rr)", "(rr / rr_new)"),),
        ),
        Wrong(
            "no-stop",
            "When the system is solved, r . r is 0, and the next iteration divides 0 by 0. Stop "
            "before that.",
            edits=(
                (
                    "        if rr < 1e-20:\n            break  # solved; another iteration would "
                    "divide by zero\n",
                    "",
                ),
            ),
        ),
        Wrong(
            "step-by-length-of-z",
            "Your alpha divides by z . z. The best step along p is (r . r) / (p . z).",
            edits=(("(p @ z)", "(z @ z)"),),
        ),
        Wrong(
            "step-by-length-of-p",
            "Your alpha divides by p . p, so it ignores A: the step is right only if A is the "
            "identity.",
            edits=(("(p @ z)", "(p @ p)"),),
        ),
        Wrong(
            "residual-not-updated",
            "The residual never changes, so every iteration solves the same first step.",
            edits=(("        r -= alpha * z\n", ""),),
        ),
        Wrong(
            "residual-moves-along-p",
            "The residual changes by alpha * A p, not by alpha * p: r = b - A x.",
            edits=(("r -= alpha * z", "r -= alpha * p"),),
        ),
        Wrong(
            "starts-at-b",
            "Your x starts at b. Then the residual would not be b; start at 0.",
            edits=(("x = torch.zeros_like(b)", "x = b.clone()"),),
        ),
        Wrong(
            "one-iteration-too-few",
            "You take one iteration less than iters.",
            edits=(("range(iters)", "range(iters - 1)"),),
        ),
    ),
    algorithms=("trpo",),
    page="algorithms/trpo",
)


# ----------------------------------------------------------------------------------- step length


def _length_cases() -> list[Case]:
    import torch

    def case(name: str, x: Any, h: Any, delta: float) -> Case:
        x, h = (torch.as_tensor(y, dtype=torch.float64) for y in (x, h))
        return Case(name, (x, h @ x, delta))

    def definite(n: int) -> Any:
        m = torch.randn(n, n, dtype=torch.float64)
        return m @ m.T + torch.eye(n, dtype=torch.float64)

    x = torch.randn(6, dtype=torch.float64)
    return [
        case("H = 2, x = 1, delta = 0.01", [1.0], [[2.0]], 0.01),
        case("a larger trust region", [1.0], [[2.0]], 0.04),
        case("a longer direction", [5.0], [[2.0]], 0.01),
        case("a flat KL", [1.0], [[0.01]], 0.01),
        case("two parameters", [1.0, 1.0], [[2.0, 0.0], [0.0, 0.5]], 0.01),
        case("a full matrix", [1.0, -1.0], [[2.0, 1.0], [1.0, 2.0]], 0.02),
        case("six parameters", x, definite(6), 0.01),
        case("a tiny trust region", x, definite(6), 1e-5),
    ]


STEP_LENGTH = Exercise(
    id="trpo.step_length",
    title="how far the trust region reaches",
    set=3,
    minutes=10,
    difficulty=2,
    task="""
Near the old policy, a step s has KL = s' H s / 2, to second order. TRPO goes along x = H^-1 g. Find
the factor c > 0 such that the step c x just reaches the limit, KL = delta.

Add 1e-8 to the number you divide by, for the case that it is 0. `hx` is the product H x.
""",
    stub='''
import torch

from spinup.exercises import NotYetWritten


def step_length(x, hx, delta):
    """Return the factor c for which the step c * x has KL = delta, to second order.

    Args:
        x: the direction, a vector.
        hx: the product H x, a vector.
        delta: the limit on the KL divergence.

    Returns:
        A tensor with one number.
    """
    raise NotYetWritten("step_length")  # your code here
''',
    name="step_length",
    reference="spinup_lab.exercises.answers:step_length",
    shown=("spinup.algos.pytorch.trpo.trpo:trpo_update",),
    cases=_length_cases,
    hints=(
        "Insert s = c x into s' H s / 2 = delta and solve for c.",
        "c^2 x' H x / 2 = delta, so c = sqrt(2 delta / (x' H x)).",
        "return torch.sqrt(2 * delta / (... + 1e-8))",
    ),
    wrong=(
        Wrong(
            "half-step",
            "Your step reaches only half of the limit: KL is s' H s / 2, so the 1/2 becomes a "
            "factor 2 under the root.",
            edits=(("2 * delta", "delta"),),
        ),
        Wrong(
            "half-on-the-wrong-side",
            "You divided by 2 where you should multiply: c^2 x' H x / 2 = delta.",
            edits=(("2 * delta", "0.5 * delta"),),
        ),
        Wrong(
            "no-root",
            "The KL grows with the square of the step, so the factor is a square root.",
            edits=(("torch.sqrt(2 * delta / (x @ hx + 1e-8))", "2 * delta / (x @ hx + 1e-8)"),),
        ),
        Wrong(
            "euclidean",
            "You limit the length of the step in parameter space, x . x. The trust region is "
            "measured by the KL divergence, x . (H x); that is the whole point of the natural "
            "gradient.",
            edits=(("x @ hx", "x @ x"),),
        ),
        Wrong(
            "length-of-hx",
            "You use (H x) . (H x). The KL of a step along x is x . (H x) / 2.",
            edits=(("x @ hx", "hx @ hx"),),
        ),
        Wrong(
            "step-for-factor",
            "You return the whole step c * x. The exercise asks for the factor c.",
            edits=(("+ 1e-8))", "+ 1e-8)) * x"),),
        ),
        Wrong(
            "no-inner-product",
            "x * hx multiplies entry by entry. x' H x is one number, the inner product x @ hx.",
            edits=(("x @ hx", "x * hx"),),
        ),
        Wrong(
            "root-of-the-denominator-only",
            "The root covers the whole fraction: 2 delta as well as x . (H x).",
            edits=(
                (
                    "torch.sqrt(2 * delta / (x @ hx + 1e-8))",
                    "2 * delta / torch.sqrt(x @ hx + 1e-8)",
                ),
            ),
        ),
    ),
    algorithms=("trpo",),
    page="algorithms/trpo",
)


# ----------------------------------------------------------------------------------- line search


def _search_cases() -> list[Case]:
    import torch

    def case(name: str, loss_of: Any, kl_of: Any, step: Any, **changes: Any) -> Case:
        """Losses and KLs are functions of the distance from the start."""
        settings = {"delta": 0.5, "backtrack_iters": 4, "backtrack_coeff": 0.5, **changes}
        start = torch.tensor([2.0, 0.0], dtype=torch.float64)
        full_step = torch.tensor(step, dtype=torch.float64)

        def loss_and_kl(params: Any) -> tuple[Any, Any]:
            s = (start - params) @ full_step / (full_step @ full_step)  # 1 is the full step
            return loss_of(s), kl_of(s)

        args = (loss_and_kl, start, full_step, *settings.values())
        shown = ", ".join(f"{key}={value}" for key, value in settings.items())
        return Case(name, args, show=f"{name}; params={start.tolist()}, full_step={step}, {shown}")

    def down(s: Any) -> Any:
        return 1 - s

    def small(s: Any) -> Any:
        return 0.1 * s**2

    return [
        case("the full step is good", down, small, [1.0, 0.0]),
        case("the KL is too large until the step is a half", down, lambda s: 2 * s**2, [1.0, 0.0]),
        case("the loss improves only near the start", lambda s: (s - 0.1) ** 2, small, [1.0, 0.0]),
        case("the loss never improves", lambda s: 1 + s, small, [1.0, 0.0]),
        case("the KL is never small enough", down, lambda s: 9 + s, [1.0, 0.0]),
        case("the KL is just at the limit", down, lambda s: 0.5 + 0 * s, [1.0, 0.0]),
        case("only the fourth try is good", down, lambda s: 20 * s**2, [1.0, 2.0]),
        case("one try only", down, lambda s: 2 * s**2, [1.0, 0.0], backtrack_iters=1),
        case("a step in two dimensions", down, lambda s: 0.8 * s**2, [1.0, -3.0]),
        case("another factor", down, lambda s: 0.8 * s**2, [1.0, 0.0], backtrack_coeff=0.8),
        case(
            "good loss and good KL, but never together",
            lambda s: torch.where(s > 0.9, 0.0, 2.0) if s > 0 else torch.ones(()).double(),
            lambda s: s,
            [1.0, 0.0],
        ),
    ]


LINE_SEARCH = Exercise(
    id="trpo.line_search",
    title="trust, but verify: the line search",
    set=3,
    minutes=20,
    difficulty=3,
    task="""
The full step is right only to second order, so TRPO checks it. It tries

    params - full_step,  params - c full_step,  params - c^2 full_step,  ...

with c = backtrack_coeff, at most backtrack_iters steps, and takes the first one for which the KL is
at most delta AND the loss is at most that of the old parameters. If there is none, nothing changes.
""",
    stub='''
import torch

from spinup.exercises import NotYetWritten


def line_search(loss_and_kl, params, full_step, delta, backtrack_iters, backtrack_coeff):
    """Return the new parameters, and how often the step was shortened.

    Args:
        loss_and_kl: loss_and_kl(params) returns the loss and the KL divergence there.
        params: the old parameters, a vector. It must not be changed.
        full_step: the step to subtract, a vector.
        delta: the limit on the KL divergence.
        backtrack_iters: the largest number of steps to try.
        backtrack_coeff: each step is this fraction of the one before.

    Returns:
        (new parameters, number of times the step was shortened). If no step is good enough:
        (params, backtrack_iters).
    """
    raise NotYetWritten("line_search")  # your code here
''',
    name="line_search",
    returns=("new parameters", "backtracks"),
    reference="spinup_lab.exercises.answers:line_search",
    shown=("spinup.algos.pytorch.trpo.trpo:line_search",),
    cases=_search_cases,
    hints=(
        "A loop over j = 0, 1, 2, ... with the step backtrack_coeff ** j * full_step. The first "
        "try, j = 0, is the full step.",
        "Accept if kl <= delta and loss <= loss_old. After the loop, return the old parameters.",
        "loss_old, _ = loss_and_kl(params)\nfor j in range(backtrack_iters):\n"
        "    new = params - backtrack_coeff**j * full_step\n    loss, kl = loss_and_kl(new)\n"
        "    if ...:\n        return new, j\nreturn ...",
    ),
    wrong=(
        Wrong(
            "accepts-worse",
            "You accept a step although the loss got worse: only the KL is tested.",
            edits=(("kl <= delta and loss <= loss_old", "kl <= delta"),),
        ),
        Wrong(
            "no-kl-test",
            "You accept a step that leaves the trust region: only the loss is tested.",
            edits=(("kl <= delta and loss <= loss_old", "loss <= loss_old"),),
        ),
        Wrong(
            "or-for-and",
            "You accept a step if one of the two conditions holds. Both must.",
            edits=(("kl <= delta and", "kl <= delta or"),),
        ),
        Wrong(
            "no-restore",
            "If no step is good, you return the last one that was tried, which was just rejected. "
            "Return the old parameters.",
            edits=(("return params, backtrack_iters", "return new, backtrack_iters"),),
        ),
        Wrong(
            "steps-add-up",
            "You subtract each shorter step from the parameters of the last try. Every try starts "
            "at the old parameters.",
            edits=(
                ("    for j in", "    new = params.clone()\n    for j in"),
                ("new = params - backtrack_coeff", "new = new - backtrack_coeff"),
                ("return params, backtrack_iters", "return new, backtrack_iters"),
            ),
        ),
        Wrong(
            "steps-add-up-restored",
            "You subtract each shorter step from the parameters of the last try. Every try starts "
            "at the old parameters.",
            edits=(
                ("    for j in", "    new = params.clone()\n    for j in"),
                ("new = params - backtrack_coeff", "new = new - backtrack_coeff"),
            ),
        ),
        Wrong(
            "step-added",
            "You add the step. It points uphill, along the gradient of the loss, so it is "
            "subtracted.",
            edits=(("params - backtrack_coeff", "params + backtrack_coeff"),),
        ),
        Wrong(
            "full-step-never-tried",
            "Your first try is already shortened: j starts at 0, and backtrack_coeff ** 0 is 1.",
            edits=(("backtrack_coeff**j", "backtrack_coeff ** (j + 1)"),),
        ),
        Wrong(
            "not-a-power",
            "The steps are backtrack_coeff ** j, a power. Yours never get shorter than the first "
            "shortened one.",
            edits=(("backtrack_coeff**j", "(backtrack_coeff if j else 1.0)"),),
        ),
        Wrong(
            "strict-kl",
            "A KL of exactly delta is within the limit: use <=.",
            edits=(("kl <= delta", "kl < delta"),),
        ),
    ),
    algorithms=("trpo",),
    page="algorithms/trpo",
)

EXERCISES = (LOSS_PI, KL, HESSIAN, CG, STEP_LENGTH, LINE_SEARCH)

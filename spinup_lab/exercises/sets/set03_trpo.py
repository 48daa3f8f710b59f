"""Set 3: trust region policy optimization."""

from __future__ import annotations

from typing import Any

import torch

from spinup.algos.pytorch.trpo.core import with_old_policy
from spinup.algos.pytorch.trpo.trpo import compute_kl
from spinup_lab.exercises.exercise import Case
from spinup_lab.exercises.tables import networks, one_ratio

# ------------------------------------------------------------------------------------- objective


def surrogate_cases() -> list[Case]:
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


# -------------------------------------------------------------------------------------------- KL


def kl_cases() -> list[Case]:
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


# ------------------------------------------------------------------------- Hessian-vector product


def hessian_cases() -> list[Case]:
    def quadratic(name: str, a: Any, v: Any, damping: float) -> Case:
        a, v = (torch.as_tensor(x, dtype=torch.float64) for x in (a, v))
        theta = torch.ones(len(a), dtype=torch.float64, requires_grad=True)
        show = f"kl = 1/2 theta' A theta with A={a.tolist()}, v={v.tolist()}, damping={damping}"
        return Case(name, (0.5 * theta @ a @ theta, [theta], v, damping), show=show)

    def network(name: str, damping: float, *sizes: int) -> Case:
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


# ---------------------------------------------------------------------------- conjugate gradient


def cg_cases() -> list[Case]:
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


# ----------------------------------------------------------------------------------- step length


def length_cases() -> list[Case]:
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


# ----------------------------------------------------------------------------------- line search


def search_cases() -> list[Case]:
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

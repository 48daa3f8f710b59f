"""Set 0: the tools that all algorithms share."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from spinup_lab.exercises.comparing import short
from spinup_lab.exercises.exercise import Case, Difference

# --------------------------------------------------------------------------- discounted sums


def discount_cases() -> list[Case]:
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


# ---------------------------------------------------------------------------------------- GAE


def gae_cases() -> list[Case]:
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


# ------------------------------------------------------------------------------------------ KL


def kl_cases() -> list[Case]:
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


# --------------------------------------------------------------------------- squashed Gaussians


def squashed_cases() -> list[Case]:
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


# --------------------------------------------------------------------------------------- polyak


def polyak_cases() -> list[Case]:
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


# --------------------------------------------------------------------------------------- replay


def replay_cases() -> list[Case]:
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


def use_buffer(make: Any, case: Case) -> Any:
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


# ------------------------------------------------------------------------------------- schedule


def schedule_cases() -> list[Case]:
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

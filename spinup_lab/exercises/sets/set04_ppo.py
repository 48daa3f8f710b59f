"""Set 4: proximal policy optimization."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from spinup_lab.exercises.comparing import short
from spinup_lab.exercises.exercise import Case, Difference
from spinup_lab.exercises.tables import networks, one_ratio, one_value

# ----------------------------------------------------------------------------------- policy loss


def clip_cases() -> list[Case]:
    def one(name: str, ratio: float, adv: float, clip_ratio: float = 0.2) -> Case:
        show = f"ratio=[{ratio}], adv=[{adv}], clip_ratio={clip_ratio}"
        return Case(name, (*one_ratio(ratio, adv), clip_ratio, 0.0), grad=("ac.pi",), show=show)

    def many(name: str, rows: int, discrete: bool, clip: float, ent: float, far: float) -> Case:
        show = f"{name}, clip_ratio={clip}, ent_coef={ent}"
        args = (*networks(rows, discrete, far), clip, ent)
        return Case(name, args, grad=("ac.pi",), show=show)

    ac, batch = one_ratio(1.1, 1.0)
    entropy = "ratio=[1.1], adv=[1.0], clip_ratio=0.2, ent_coef=0.5, entropy=[0.685931]"
    return [
        one("a good action, a little more likely now", 1.1, 1.0),
        one("a policy that has not moved", 1.0, 1.0),
        one("a good action, much more likely now (clipped)", 1.5, 1.0),
        one("a bad action, much more likely now (not clipped)", 1.5, -1.0),
        one("a good action, much less likely now (not clipped)", 0.5, 1.0),
        one("a bad action, much less likely now (clipped)", 0.5, -1.0),
        one("another clip_ratio", 1.25, 2.0, 0.3),
        one("an advantage of 0", 1.5, 0.0),
        Case("an entropy bonus", (ac, batch, 0.2, 0.5), grad=("ac.pi",), show=entropy),
        many("a network, 16 discrete actions", 16, True, 0.2, 0.0, 0.3),
        many("a network, 16 continuous actions", 16, False, 0.2, 0.0, 0.3),
        many("a network that has moved far", 64, False, 0.1, 0.0, 1.0),
        many("a network with an entropy bonus", 16, False, 0.2, 0.01, 0.3),
        many("a network and a batch of one", 1, True, 0.2, 0.0, 0.3),
    ]


# ------------------------------------------------------------------------------------ value loss


def value_cases() -> list[Case]:
    def one(name: str, val: float, old: float, ret: float, clip_vf: float | None) -> Case:
        show = f"V=[{val}], old V=[{old}], ret=[{ret}], clip_vf={clip_vf}"
        return Case(name, (*one_value(val, old, ret), clip_vf), grad=("ac.v",), show=show)

    def many(name: str, rows: int, clip_vf: float | None) -> Case:
        show = f"{name}, clip_vf={clip_vf}"
        return Case(name, (*networks(rows, True), clip_vf), grad=("ac.v",), show=show)

    return [
        one("no clipping", 1.0, 0.0, 3.0, None),
        one("a value that has not moved", 1.0, 1.0, 3.0, 0.2),
        one("a value that moved a little", 1.1, 1.0, 3.0, 0.2),
        one("toward the return, too far", 2.0, 1.0, 3.0, 0.2),
        one("beyond the return", 3.5, 1.0, 2.0, 0.2),
        one("away from the return", 0.0, 1.0, 3.0, 0.2),
        one("downward, too far", 1.0, 2.0, 0.0, 0.5),
        many("a network, no clipping", 16, None),
        many("a network", 16, 0.2),
        many("a network and a narrow limit", 16, 0.02),
        many("a network and a batch of one", 1, 0.2),
    ]


# ----------------------------------------------------------------------------------- minibatches


def minibatch_cases() -> list[Case]:
    def case(name: str, rows: int, size: int) -> Case:
        return Case(name, (rows, size), show=f"a batch of {rows} rows, size={size}")

    return [
        case("two minibatches", 8, 4),
        case("one minibatch", 4, 4),
        case("a rest", 10, 4),
        case("a size larger than the batch", 3, 5),
        case("minibatches of one row", 5, 1),
        case("a batch of one row", 1, 4),
        case("many rows", 100, 32),
        case("many rows without a rest", 96, 32),
    ]


def use_minibatches(minibatches: Any, case: Case) -> Any:
    """Split a batch whose numbers tell their row, and look at what came out."""
    rows, size = case.args
    number = torch.arange(rows, dtype=torch.float64)
    batch = {"obs": number[:, None].repeat(1, 3), "act": number + 0.25, "adv": -number}
    rng = np.random.default_rng(5)
    passes = []
    for _ in range(2):
        pieces = minibatches({name: x.clone() for name, x in batch.items()}, size, rng)
        if pieces is None:
            raise Difference("minibatches returned None: is a return statement missing?")
        pieces = list(pieces)
        for piece in pieces:
            if not isinstance(piece, dict) or piece.keys() != batch.keys():
                raise Difference(
                    f"each minibatch should be a dict with {', '.join(batch)}, not {short(piece)}"
                )
            for name, x in piece.items():
                if not isinstance(x, torch.Tensor) or x.ndim != batch[name].ndim:
                    raise Difference(f"{name} of a minibatch should be a tensor like the batch's")
        passes.append(pieces)
    orders = [torch.cat([piece["act"] - 0.25 for piece in pieces]) for pieces in passes]
    matched = all(
        torch.equal(piece["obs"][:, 0], piece["act"] - 0.25)
        and torch.equal(piece["adv"], -piece["obs"][:, 0])
        for pieces in passes
        for piece in pieces
    )
    return {
        "rows per minibatch": np.array([len(piece["act"]) for piece in passes[0]]),
        "rows in one pass, sorted": orders[0].sort().values.numpy(),
        "rows in the next pass, sorted": orders[1].sort().values.numpy(),
        "obs, act and adv of a minibatch are of the same rows": matched,
        "the order is random": bool(rows < 8 or not torch.equal(orders[0], number)),
        "the next pass has another order": bool(rows < 8 or not torch.equal(*orders)),
    }


# ------------------------------------------------------------------------------------ early stop


def stop_cases() -> list[Case]:
    def case(name: str, kls: list[float], iters: int, old: float = 0.0) -> Case:
        show = f"KL before each step={kls}, train_pi_iters={iters}, target_kl=0.01"
        return Case(name, (kls, iters, 0.01, old), show=show)

    return [
        case("too far before the third step", [0.0, 0.005, 0.02, 0.05], 4),
        case("never too far", [0.0, 0.002, 0.004, 0.006], 4),
        case("fewer steps than would be possible", [0.0, 0.002, 0.004], 2),
        case("too far at once", [0.02, 0.03], 2),
        case("between 1 and 1.5 times the target", [0.0, 0.012, 0.014, 0.014], 4),
        case("just above 1.5 times the target", [0.0, 0.0151, 0.0], 3),
        case("too far once, then near again", [0.0, 0.02, 0.001, 0.001], 4),
        case("no step at all", [0.0], 0),
        case("a gradient that was there before", [0.0, 0.002, 0.004], 3, old=5.0),
    ]


def use_training(train_policy: Any, case: Case) -> Any:
    """Run the loop on one parameter, with a scripted KL."""
    kls, iters, target_kl, old = case.args
    theta = torch.nn.Parameter(torch.tensor(1.0, dtype=torch.float64))
    theta.grad = torch.tensor(old, dtype=torch.float64) if old else None
    optimizer = torch.optim.SGD([theta], lr=0.1)
    calls = iter(kls)

    def loss_and_kl() -> tuple[Any, Any]:
        kl = next(calls, kls[-1])  # once more after the last step does no harm
        return theta**2, torch.tensor(kl, dtype=torch.float64)

    steps = train_policy(loss_and_kl, optimizer, iters, target_kl)
    return {"steps": steps, "the parameter afterwards": theta.detach()}

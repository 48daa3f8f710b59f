"""Set 4: proximal policy optimization."""

from __future__ import annotations

from typing import Any

import numpy as np

from spinup_lab.exercises.comparing import short
from spinup_lab.exercises.exercise import Case, Difference, Exercise, Wrong

# ----------------------------------------------------------------------------------- policy loss


def _clip_cases() -> list[Case]:
    from spinup_lab.exercises.tables import networks, one_ratio

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


_CLIP = "clip_adv = torch.clamp(ratio, 1 - clip_ratio, 1 + clip_ratio) * adv"
_MIN = "-torch.min(ratio * adv, clip_adv).mean()"

LOSS_PI = Exercise(
    id="ppo.loss_pi",
    title="the clipped objective",
    set=4,
    minutes=25,
    difficulty=3,
    task="""
PPO takes many gradient steps on the same data. To keep the policy from running away, its objective
stops rewarding a step once the probability ratio has left [1 - clip_ratio, 1 + clip_ratio]:

    ratio     = pi_new(a|s) / pi_old(a|s)
    objective = mean( min( ratio * adv,  clip(ratio, 1 - clip_ratio, 1 + clip_ratio) * adv ) )
    loss_pi   = -objective - ent_coef * entropy

The minimum makes it pessimistic: clipping may take gains away, but never hides a loss. A bad action
that has become MORE likely is not clipped, whatever its ratio.

Log three numbers beside it: KL, Entropy, and ClipFrac, the fraction of the batch whose ratio is
further than clip_ratio from 1.
""",
    stub='''
import torch

from spinup.algos.pytorch.common.nets import approx_kl, entropy  # given
from spinup.exercises import NotYetWritten


def compute_loss_pi(ac, batch, clip_ratio, ent_coef=0.0):
    """Return PPO's policy loss, and a dict of what is logged.

    approx_kl(logp_old, logp) estimates KL(old || new), and entropy(pi) is a batch's mean entropy.

    Args:
        ac: `ac.pi(obs, act)` returns the distribution and the log-probabilities [batch].
        batch: a dict of tensors: obs, act, adv (advantages) and logp (log-probabilities of the
            actions under the policy that collected the data).
        clip_ratio: how far the ratio may be from 1.
        ent_coef: weight of the entropy bonus.

    Returns:
        (loss_pi, {"KL": ..., "Entropy": ..., "ClipFrac": ...}), each number a tensor.
    """
    raise NotYetWritten("compute_loss_pi")  # your code here
''',
    name="compute_loss_pi",
    returns=("loss_pi", "info"),
    reference="spinup.algos.pytorch.ppo.ppo:compute_loss_pi",
    cases=_clip_cases,
    hints=(
        "Compute both candidates for the whole batch, ratio * adv and the clipped one, and take "
        "the smaller of the two for each step. The mean comes last.",
        "ratio = exp(logp - logp_old). torch.clamp clips, and torch.min(a, b) of two tensors takes "
        "the smaller entries. ClipFrac is the mean of |ratio - 1| > clip_ratio.",
        "ratio = torch.exp(logp - ...)\n"
        "clip_adv = torch.clamp(ratio, 1 - clip_ratio, 1 + clip_ratio) * ...\n"
        "loss_pi = -torch.min(ratio * adv, clip_adv).mean()\n"
        "clipped = (ratio - 1).abs() > clip_ratio\n"
        'return loss_pi - ent_coef * ..., {..., "ClipFrac": clipped.float().mean()}',
    ),
    wrong=(
        Wrong(
            "clip-without-adv",
            "Your second candidate is the clipped ratio alone. Both candidates are multiplied by "
            "the advantage; otherwise a bad action is compared with a number that has the wrong "
            "sign.",
            edits=((_CLIP, "clip_adv = torch.clamp(ratio, 1 - clip_ratio, 1 + clip_ratio)"),),
        ),
        Wrong(
            "max-for-min",
            "You take the larger candidate (so does the minimum of the negated ones). The "
            "objective is pessimistic and takes the smaller one. With the larger one, clipping "
            "hides losses and leaves gains unlimited.",
            edits=((_MIN, "-torch.max(ratio * adv, clip_adv).mean()"),),
        ),
        Wrong(
            "clipped-only",
            "You always use the clipped ratio. A bad action that has become much more likely then "
            "has no gradient, and nothing ever corrects it; that is why the minimum is there.",
            edits=((_MIN, "-clip_adv.mean()"),),
        ),
        Wrong(
            "not-clipped",
            "Nothing is clipped: this is TRPO's objective, without its trust region.",
            edits=((_MIN, "-(ratio * adv).mean()"),),
        ),
        Wrong(
            "minimum-of-means",
            "You compare two means over the batch. The smaller candidate is chosen for each step.",
            edits=((_MIN, "-torch.min((ratio * adv).mean(), clip_adv.mean())"),),
        ),
        Wrong(
            "sign",
            "The sign is wrong: a loss is minimized, and the objective is to become large.",
            edits=((_MIN, "torch.min(ratio * adv, clip_adv).mean()"),),
        ),
        Wrong(
            "entropy-sign",
            "The entropy has the wrong sign: it is a bonus, so the loss is smaller for a policy "
            "that explores. Yours punishes exploring.",
            edits=(("loss_pi - ent_coef * ent", "loss_pi + ent_coef * ent"),),
        ),
        Wrong(
            "no-entropy",
            "The entropy bonus is missing: subtract ent_coef times the entropy.",
            edits=(("loss_pi - ent_coef * ent", "loss_pi"),),
        ),
        Wrong(
            "ratio-inverted",
            "Your ratio is old / new. It is the new probability divided by the old one.",
            edits=(("torch.exp(logp - logp_old)", "torch.exp(logp_old - logp)"),),
        ),
        Wrong(
            "log-ratio",
            "You clip the logarithm of the ratio. Take the exponential of logp - logp_old first.",
            edits=(("torch.exp(logp - logp_old)", "(logp - logp_old)"),),
        ),
        Wrong(
            "logarithms-divided",
            "You divided logarithms. The ratio of two probabilities is exp(logp - logp_old).",
            edits=(("torch.exp(logp - logp_old)", "logp / logp_old"),),
        ),
        Wrong(
            "clipped-around-zero",
            "You clip the ratio to [-clip_ratio, clip_ratio]. An unchanged policy has the ratio 1, "
            "so the interval is around 1.",
            edits=((_CLIP, "clip_adv = torch.clamp(ratio, -clip_ratio, clip_ratio) * adv"),),
        ),
        Wrong(
            "product-clipped",
            "You clip the product with the advantage. Only the ratio is clipped.",
            edits=((_CLIP, "clip_adv = torch.clamp(ratio * adv, 1 - clip_ratio, 1 + clip_ratio)"),),
        ),
        Wrong(
            "old-policy-not-constant",
            "Your ratio is always 1, because it compares the policy with itself. The old "
            "log-probabilities are in batch['logp'].",
            edits=(("torch.exp(logp - logp_old)", "torch.exp(logp - logp.detach())"),),
        ),
        Wrong(
            "detached",
            "Your ratio is detached, so no gradient reaches the policy.",
            edits=(("torch.exp(logp - logp_old)", "torch.exp(logp - logp_old).detach()"),),
        ),
        Wrong(
            "sum-for-mean",
            "You sum over the batch, so the size of a step would grow with the batch. Take the "
            "mean.",
            edits=((_MIN, "-torch.min(ratio * adv, clip_adv).sum()"),),
        ),
        Wrong(
            "clipped-above-only",
            "You limit the ratio only from above. A bad action whose ratio is below 1 - clip_ratio "
            "is clipped, too: making it even less likely earns nothing more.",
            edits=((_CLIP, "clip_adv = torch.clamp(ratio, max=1 + clip_ratio) * adv"),),
        ),
        Wrong(
            "advantages-normalized",
            "You normalize the advantages of this batch. They are normalized already, over the "
            "whole epoch, and a batch of one would give nan.",
            edits=(
                (
                    'adv, logp_old = batch["adv"], batch["logp"]',
                    'adv, logp_old = batch["adv"], batch["logp"]\n'
                    "    adv = (adv - adv.mean()) / (adv.std() + 1e-8)",
                ),
            ),
        ),
        Wrong(
            "clipfrac-one-sided",
            "The loss is right, but ClipFrac counts only ratios above 1 + clip_ratio. Those below "
            "1 - clip_ratio belong to it as well.",
            edits=(("(ratio - 1).abs() > clip_ratio", "ratio > 1 + clip_ratio"),),
        ),
        Wrong(
            "kl-reversed",
            "The loss is right, but the arguments of approx_kl are swapped.",
            edits=(("approx_kl(logp_old, logp)", "approx_kl(logp, logp_old)"),),
        ),
    ),
    algorithms=("ppo",),
    page="algorithms/ppo",
)


# ------------------------------------------------------------------------------------ value loss


def _value_cases() -> list[Case]:
    from spinup_lab.exercises.tables import networks, one_value

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


_V_MAX = "error = torch.max(error, (v_clip - ret) ** 2)"
_V_CLIP = 'v_clip = batch["val"] + torch.clamp(v - batch["val"], -clip_vf, clip_vf)'

LOSS_V = Exercise(
    id="ppo.loss_v",
    title="the value loss, with optional clipping",
    set=4,
    minutes=15,
    difficulty=3,
    task="""
Some implementations of PPO also limit how far a value may move from what it was when the data was
collected (`batch["val"]`):

    v_clip = val_old + clip(v - val_old, -clip_vf, clip_vf)
    loss_v = mean( max( (v - ret)^2, (v_clip - ret)^2 ) )

The maximum makes it pessimistic, as the minimum does for the policy. With clip_vf = None, it is the
plain mean squared error.
""",
    stub='''
import torch

from spinup.exercises import NotYetWritten


def compute_loss_v(ac, batch, clip_vf=None):
    """Return the value function's loss.

    Args:
        ac: `ac.v(obs)` returns values [batch].
        batch: a dict of tensors: obs, ret (rewards-to-go), val (values when the data was
            collected), and others.
        clip_vf: how far a value may move; None does not clip.

    Returns:
        A tensor with one number.
    """
    raise NotYetWritten("compute_loss_v")  # your code here
''',
    name="compute_loss_v",
    reference="spinup.algos.pytorch.ppo.ppo:compute_loss_v",
    cases=_value_cases,
    hints=(
        "Write the plain loss first and return it if clip_vf is None. Then compute a second error "
        "with the clipped value, and take the larger one for each step.",
        "v_clip is at most clip_vf away from batch['val']. torch.max(a, b) takes the larger "
        "entries.",
        'v, ret = ac.v(batch["obs"]), batch["ret"]\nerror = (v - ret) ** 2\n'
        'if clip_vf is not None:\n    v_clip = batch["val"] + torch.clamp(..., -clip_vf, clip_vf)\n'
        "    error = torch.max(error, ...)\nreturn error.mean()",
    ),
    wrong=(
        Wrong(
            "min-for-max",
            "You take the smaller error. Then a value that has moved too far in the wrong "
            "direction looks better than it is: the larger one is the pessimistic choice.",
            edits=((_V_MAX, "error = torch.min(error, (v_clip - ret) ** 2)"),),
        ),
        Wrong(
            "clipped-only",
            "You use the clipped value alone. A value that has moved too far then has no gradient, "
            "so nothing brings it back.",
            edits=((_V_MAX, "error = (v_clip - ret) ** 2"),),
        ),
        Wrong(
            "clipped-around-zero",
            "You clip the value itself to [-clip_vf, clip_vf]. Clip the difference to the old "
            "value.",
            edits=((_V_CLIP, "v_clip = torch.clamp(v, -clip_vf, clip_vf)"),),
        ),
        Wrong(
            "difference-only",
            "Your clipped value is only the difference: add the old value to it.",
            edits=((_V_CLIP, 'v_clip = torch.clamp(v - batch["val"], -clip_vf, clip_vf)'),),
        ),
        Wrong(
            "relative",
            "You clip by a factor, as for the policy's ratio. Values may be 0 or negative, so the "
            "limit is a difference.",
            edits=(
                (
                    _V_CLIP,
                    'v_clip = batch["val"] * torch.clamp(v / batch["val"], '
                    "1 - clip_vf, 1 + clip_vf)",
                ),
            ),
        ),
        Wrong(
            "clipping-ignored",
            "clip_vf makes no difference in your loss. If you clip the value around the return, "
            "the clipped error is never the larger one: clip it around its old value, "
            "batch['val'].",
            edits=((_V_MAX, "pass"),),
        ),
        Wrong(
            "maximum-of-means",
            "You compare two means over the batch. The larger error is chosen for each step.",
            edits=((_V_MAX, "error = torch.max(error.mean(), ((v_clip - ret) ** 2).mean())"),),
        ),
        Wrong(
            "half",
            "Your loss has a factor 1/2, which halves the learning rate.",
            edits=(("return error.mean()", "return 0.5 * error.mean()"),),
        ),
    ),
    algorithms=("ppo",),
    page="algorithms/ppo",
)


# ----------------------------------------------------------------------------------- minibatches


def _minibatch_cases() -> list[Case]:
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


def _use_minibatches(minibatches: Any, case: Case) -> Any:
    """Split a batch whose numbers tell their row, and look at what came out."""
    import torch

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


MINIBATCHES = Exercise(
    id="ppo.minibatches",
    title="shuffled minibatches",
    set=4,
    minutes=15,
    difficulty=2,
    task="""
With minibatches, PPO learns more from the same data. One pass over a batch: shuffle its rows, cut
them into pieces of `size` rows (the last one may be smaller), and take a gradient step on each.
Every row is used exactly once per pass, and the next pass has another order.

`rng` is a np.random.Generator; `rng.permutation(n)` is a random order of 0 to n - 1.
""",
    stub='''
import numpy as np
import torch

from spinup.exercises import NotYetWritten


def minibatches(batch, size, rng):
    """Return the minibatches of one pass over a batch, in random order.

    Args:
        batch: a dict of tensors with the same number of rows: obs, act, adv, ...
        size: the number of rows of a minibatch; the last one may have fewer.
        rng: a np.random.Generator, the only source of randomness.

    Returns:
        A list of dicts with the same names.
    """
    raise NotYetWritten("minibatches")  # your code here
''',
    name="minibatches",
    reference="spinup_lab.exercises.answers:minibatches",
    shown=("spinup.algos.common.rollout:minibatches",),
    cases=_minibatch_cases,
    call=_use_minibatches,
    hints=(
        "Shuffle row numbers, not the tensors: the same numbers then pick the rows of every "
        "tensor.",
        "order = rng.permutation(rows); the minibatches are order[0:size], order[size:2*size], ...",
        "order = rng.permutation(len(batch['obs']))\npieces = []\n"
        "for start in range(0, len(order), size):\n    rows = order[...]\n"
        "    pieces.append({name: x[rows] for name, x in batch.items()})",
    ),
    wrong=(
        Wrong(
            "rest-dropped",
            "The last, smaller minibatch is missing, so some rows are never learned from in this "
            "pass.",
            edits=(
                ("range(0, rows, size)", "range(0, max(rows - size, 0) + 1, size)"),
                ("    pieces = []", "    pieces = []\n    if rows < size:\n        return []"),
            ),
        ),
        Wrong(
            "not-shuffled",
            "The rows come in their original order. Neighbors are steps of the same episode, so a "
            "minibatch would not be a fair sample.",
            edits=(("rng.permutation(rows)", "np.arange(rows)"),),
        ),
        Wrong(
            "with-replacement",
            "You draw row numbers with replacement: some rows appear twice and others never.",
            edits=(("rng.permutation(rows)", "rng.integers(rows, size=rows)"),),
        ),
        Wrong(
            "one-order",
            "Every pass has the same order: you made a new generator with a fixed seed. Draw from "
            "rng.",
            edits=(("rng.permutation(rows)", "np.random.default_rng(0).permutation(rows)"),),
        ),
        Wrong(
            "shuffled-separately",
            "Each tensor has an order of its own, so an observation no longer belongs to its "
            "action. Draw one order for all.",
            edits=(
                (
                    "    order = rng.permutation(rows)\n",
                    "    orders = {name: rng.permutation(rows) for name in batch}\n",
                ),
                ("x[order[start : start + size]]", "x[orders[name][start : start + size]]"),
            ),
        ),
        Wrong(
            "number-for-size",
            "You cut the batch into `size` pieces. `size` is the number of rows of each piece.",
            edits=(
                (
                    "    for start in range(0, rows, size):\n",
                    "    for part in np.array_split(order, min(size, rows)):\n",
                ),
                ("x[order[start : start + size]]", "x[part]"),
            ),
        ),
    ),
    algorithms=("ppo",),
    page="algorithms/ppo",
)


# ------------------------------------------------------------------------------------ early stop


def _stop_cases() -> list[Case]:
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


def _use_training(train_policy: Any, case: Case) -> Any:
    """Run the loop on one parameter, with a scripted KL."""
    import torch

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


EARLY_STOP = Exercise(
    id="ppo.early_stop",
    title="many steps on the same data, and when to stop",
    set=4,
    minutes=15,
    difficulty=2,
    task="""
Clipping removes the incentive to move far, but nothing stops a policy that moves anyway. So PPO
watches the KL divergence from the old policy: before each gradient step, if

    KL > 1.5 * target_kl

the update ends. Otherwise it takes the step (zero_grad, backward, step). At most train_pi_iters
steps are taken. Return how many.
""",
    stub='''
import torch

from spinup.exercises import NotYetWritten


def train_policy(loss_and_kl, optimizer, train_pi_iters, target_kl):
    """Take PPO's gradient steps on one batch.

    Args:
        loss_and_kl: loss_and_kl() returns the loss and the KL divergence of the current policy.
            Call it once per iteration.
        optimizer: the policy's optimizer.
        train_pi_iters: the largest number of steps.
        target_kl: steps stop when the KL divergence exceeds 1.5 times this.

    Returns:
        The number of steps taken, an int.
    """
    raise NotYetWritten("train_policy")  # your code here
''',
    name="train_policy",
    reference="spinup_lab.exercises.answers:train_policy",
    shown=("spinup.algos.pytorch.ppo.ppo:ppo_update",),
    cases=_stop_cases,
    call=_use_training,
    hints=(
        "A loop of at most train_pi_iters rounds. In which order: look at the KL, or take the "
        "step?",
        "Each round: loss and KL; leave the loop if KL > 1.5 * target_kl; then zero_grad, "
        "backward, step, and count.",
        "steps = 0\nfor _ in range(train_pi_iters):\n    loss_pi, kl = loss_and_kl()\n    if ...:\n"
        "        break\n    optimizer.zero_grad()\n    loss_pi.backward()\n    optimizer.step()\n"
        "    steps += 1\nreturn steps",
    ),
    wrong=(
        Wrong(
            "stops-after-the-step",
            "You take the step first and look at the KL afterwards: the policy is already too far, "
            "and moves once more.",
            edits=(
                (
                    "        if kl > 1.5 * target_kl:\n            break  # before the step: the "
                    "policy has already moved too far\n",
                    "",
                ),
                (
                    "        steps += 1\n",
                    "        steps += 1\n        if kl > 1.5 * target_kl:\n            break\n",
                ),
            ),
        ),
        Wrong(
            "never-stops",
            "You never stop early: target_kl is not used.",
            edits=(("kl > 1.5 * target_kl", "False"),),
        ),
        Wrong(
            "stops-at-the-target",
            "You stop at target_kl. The limit is 1.5 times that.",
            edits=(("1.5 * target_kl", "target_kl"),),
        ),
        Wrong(
            "skips-instead-of-stopping",
            "You skip the step and go on. With minibatches, the next KL may be small by chance, "
            "and the policy would move on: leave the loop.",
            edits=(("break  #", "continue  #"),),
        ),
        Wrong(
            "gradients-pile-up",
            "Gradients add up until zero_grad clears them: call it before each backward.",
            edits=(("        optimizer.zero_grad()\n", ""),),
        ),
        Wrong(
            "counts-rounds",
            "You count the round in which the loop stopped. Count the steps that were taken.",
            edits=(
                (
                    "        loss_pi, kl = loss_and_kl()\n",
                    "        loss_pi, kl = loss_and_kl()\n        steps += 1\n",
                ),
                ("        optimizer.step()\n        steps += 1\n", "        optimizer.step()\n"),
            ),
        ),
        Wrong(
            "counts-from-zero",
            "You return the loop's index. After a full loop, that is one less than the number of "
            "steps.",
            edits=(
                ("    for _ in range(train", "    i = 0\n    for i in range(train"),
                ("return steps", "return i"),
            ),
        ),
        Wrong(
            "no-step",
            "The parameter has not changed: is optimizer.step() missing?",
            edits=(("        optimizer.step()\n", ""),),
        ),
    ),
    algorithms=("ppo",),
    page="algorithms/ppo",
)

EXERCISES = (LOSS_PI, LOSS_V, MINIBATCHES, EARLY_STOP)

"""Set 2: the vanilla policy gradient."""

from __future__ import annotations

from typing import Any

from spinup_lab.exercises.exercise import Case, Exercise, Wrong
from spinup_lab.exercises.sets.set01_reinforce import LOSS_WRONG, loss_cases, moved_cases

# ----------------------------------------------------------------------------------- policy loss

LOSS_PI = Exercise(
    id="vpg.loss_pi",
    title="the policy's loss, and what to log beside it",
    set=2,
    minutes=15,
    difficulty=2,
    task="""
VPG's loss is that of REINFORCE, with GAE's advantages:

    loss_pi = -mean(log pi(a|s) * adv)

Its value says nothing, so two other numbers are logged beside it: KL, how far the policy is from
the one that collected the data (`batch["logp"]`), and Entropy, how much it still explores.
""",
    stub='''
import torch

from spinup.algos.pytorch.common.nets import approx_kl, entropy  # given
from spinup.exercises import NotYetWritten


def compute_loss_pi(ac, batch):
    """Return the policy's loss, and a dict of what is logged.

    approx_kl(logp_old, logp) estimates KL(old || new), and entropy(pi) is a batch's mean entropy.

    Args:
        ac: `ac.pi(obs, act)` returns the distribution and the log-probabilities [batch].
        batch: a dict of tensors: obs, act, adv (advantages), ret (rewards-to-go) and logp
            (log-probabilities when the data was collected).

    Returns:
        (loss_pi, {"KL": ..., "Entropy": ...}), each number a tensor.
    """
    raise NotYetWritten("compute_loss_pi")  # your code here
''',
    name="compute_loss_pi",
    returns=("loss_pi", "info"),
    reference="spinup.algos.pytorch.vpg.vpg:compute_loss_pi",
    cases=lambda: [*loss_cases(), *moved_cases()],
    hints=(
        "Ask ac.pi for the distribution and the log-probabilities of the actions that were taken; "
        "everything else follows from these two and the batch.",
        "loss_pi = -mean(logp * adv), KL = approx_kl(old log-probabilities, new ones).",
        'pi, logp = ac.pi(batch["obs"], batch["act"])\nloss_pi = ...\n'
        'return loss_pi, {"KL": approx_kl(..., logp), "Entropy": entropy(pi)}',
    ),
    wrong=(
        *LOSS_WRONG,
        Wrong(
            "kl-reversed",
            "The arguments of approx_kl are swapped. KL is not symmetric, and the estimate is "
            "right only for actions that the first policy sampled.",
            edits=(('approx_kl(batch["logp"], logp)', 'approx_kl(logp, batch["logp"])'),),
        ),
        Wrong(
            "kl-with-itself",
            "Your KL compares the policy with itself, so it is always 0. The old log-probabilities "
            "are in batch['logp'].",
            edits=(('approx_kl(batch["logp"], logp)', "approx_kl(logp.detach(), logp)"),),
        ),
        Wrong(
            "kl-k1",
            "Your KL is the mean of logp_old - logp, an estimate that can be negative. Use "
            "approx_kl.",
            edits=(('approx_kl(batch["logp"], logp)', '(batch["logp"] - logp).mean()'),),
        ),
        Wrong(
            "entropy-per-dimension",
            "Your entropy is averaged over the dimensions of an action. They add up: use "
            "entropy(pi).",
            edits=(("entropy(pi)", "pi.entropy().mean()"),),
        ),
        Wrong(
            "entropy-estimated",
            "Your entropy is -mean(logp), an estimate from the actions that happened to be taken. "
            "The distribution knows it exactly.",
            edits=(("entropy(pi)", "-logp.mean()"),),
        ),
    ),
    algorithms=("vpg",),
    page="algorithms/vpg",
)


# ------------------------------------------------------------------------------------ value loss


def value_cases() -> list[Case]:
    """Cases for the loss of a value function."""
    import torch

    from spinup_lab.exercises.tables import TableActorCritic, networks, numbers, one_value

    def case(name: str, val: float, ret: float) -> Case:
        show = f"V=[{val}], ret=[{ret}]"
        return Case(name, one_value(val, val, ret), grad=("ac.v",), show=show)

    two = TableActorCritic([[0.5, 0.5], [0.5, 0.5]], [1.0, -1.0])
    batch = {
        "obs": torch.tensor([0, 1]),
        "act": torch.tensor([0, 1]),
        "ret": numbers(2.0, 1.0),
        "adv": numbers(0.5, -0.5),
        "val": numbers(1.0, -1.0),
        "logp": numbers(0.5, 0.5).log(),
    }
    show = "V=[1.0, -1.0], ret=[2.0, 1.0]"
    return [
        case("one value that is too low", 1.0, 4.0),
        case("one value that is too high", 4.0, 1.0),
        case("one value that is right", 2.0, 2.0),
        Case("two states", (two, batch), grad=("ac.v",), show=show),
        *(
            Case(name, networks(*args), grad=("ac.v",), show=name)
            for name, args in {
                "a network and a batch of one": (1, True),
                "a network and 7 steps": (7, True),
                "a network and 16 steps": (16, False),
                "a network and 100 steps": (100, False),
            }.items()
        ),
    ]


LOSS_V = Exercise(
    id="vpg.loss_v",
    title="the value function's loss",
    set=2,
    minutes=10,
    difficulty=1,
    task="""
The value function is fitted to the rewards-to-go by least squares:

    loss_v = mean((V(s) - ret)^2)

Nothing could be simpler, and yet a wrong target or a wrong shape here is among the most frequent
faults of policy gradient programs: nothing crashes, and learning is merely slow.
""",
    stub='''
import torch

from spinup.exercises import NotYetWritten


def compute_loss_v(ac, batch):
    """Return the value function's mean squared error.

    Args:
        ac: `ac.v(obs)` returns values [batch].
        batch: a dict of tensors: obs, act, adv (advantages), ret (rewards-to-go), val (values
            when the data was collected) and logp.

    Returns:
        A tensor with one number.
    """
    raise NotYetWritten("compute_loss_v")  # your code here
''',
    name="compute_loss_v",
    reference="spinup.algos.pytorch.vpg.vpg:compute_loss_v",
    cases=value_cases,
    hints=(
        "What should V(s) predict? Not how good an action was, but what the policy earns from "
        "here.",
        "mean over the batch of (V(s) - ret)^2; both have the shape [batch].",
        'v = ac.v(batch["obs"])\nreturn ((v - ...) ** 2).mean()',
    ),
    wrong=(
        Wrong(
            "fits-advantages",
            "Your target is the advantage. V would then learn its own error instead of the return.",
            edits=(('batch["ret"]', 'batch["adv"]'),),
        ),
        Wrong(
            "fits-old-values",
            "Your target is batch['val'], what the network itself said before. It would learn "
            "nothing from the rewards.",
            edits=(('batch["ret"]', 'batch["val"]'),),
        ),
        Wrong(
            "half",
            "Your loss has a factor 1/2. That is the habit of many textbooks, but here it halves "
            "the learning rate.",
            edits=(("(v - ret) ** 2", "0.5 * (v - ret) ** 2"),),
        ),
        Wrong(
            "sum-for-mean",
            "You sum over the batch; take the mean.",
            edits=(("error.mean()", "error.sum()"),),
        ),
        Wrong(
            "column-minus-row",
            "A column [n, 1] minus a row [n] is a matrix [n, n]: you compare each value with the "
            "returns of all steps, so all values move to the mean. Nothing crashes.",
            edits=(("(v - ret)", "(v.unsqueeze(-1) - ret)"),),
        ),
        Wrong(
            "absolute-error",
            "This is the absolute error. Its minimum is the median of the returns; a value is "
            "their mean, which the squared error finds.",
            edits=(("(v - ret) ** 2", "(v - ret).abs()"),),
        ),
        Wrong(
            "square-of-the-mean",
            "You square the mean error. Errors of opposite sign then cancel, and the loss can be 0 "
            "although every single value is wrong.",
            edits=(("(v - ret) ** 2", "(v - ret).mean() ** 2"),),
        ),
        Wrong(
            "detached",
            "Your values are detached, so no gradient reaches the value function.",
            edits=(("(v - ret)", "(v.detach() - ret)"),),
        ),
    ),
    algorithms=("vpg", "trpo", "ppo"),
    page="algorithms/vpg",
)


# ---------------------------------------------------------------------------------------- update


def _update_cases() -> list[Case]:
    import torch

    from spinup.algos.pytorch.vpg.vpg import compute_loss_pi, compute_loss_v
    from spinup_lab.exercises.tables import networks, one_value

    def case(name: str, made: Any, v_iters: int, lr: float = 0.1, old: bool = False) -> Case:
        ac, batch = made
        with torch.no_grad():  # the policy that collected the data is the current one
            batch["logp"] = ac.pi(batch["obs"], batch["act"])[1]
        if old:  # what an earlier update left behind
            for p in ac.parameters():
                p.grad = torch.ones_like(p)
        pi_optimizer = torch.optim.SGD(ac.pi.parameters(), lr=lr)
        vf_optimizer = torch.optim.SGD(ac.v.parameters(), lr=lr)
        args = (ac, pi_optimizer, vf_optimizer, batch, compute_loss_pi, compute_loss_v, v_iters)
        show = f"{name}, v_iters={v_iters}, both learning rates {lr}"
        return Case(name, args, changes=("ac",), show=show)

    return [
        case("one state, one step, V = 0, ret = 4", one_value(0.0, 0.0, 4.0), 1),
        case("two steps of the value function", one_value(0.0, 0.0, 4.0), 2),
        case("no step of the value function", one_value(0.0, 0.0, 4.0), 0),
        case("gradients of an earlier update", one_value(0.0, 0.0, 4.0), 1, old=True),
        case("a network, discrete actions", networks(12, True), 3),
        case("a network, continuous actions", networks(12, False), 3),
        case("a network with old gradients", networks(12, False), 5, old=True),
        case("a larger learning rate", networks(12, True), 2, lr=0.3),
    ]


UPDATE = Exercise(
    id="vpg.update",
    title="one update, in the right order",
    set=2,
    minutes=20,
    difficulty=2,
    task="""
At the end of an epoch, VPG

1. computes both losses, for the log,
2. takes ONE step of the policy: the gradient is valid only for the policy that collected the data,
3. takes `v_iters` steps of the value function,
4. measures KL, how far the policy has moved.

Each step is zero_grad, backward, step. Return what is logged: the losses of (1) and the KL of (4).
""",
    stub='''
import torch

from spinup.exercises import NotYetWritten


def vpg_update(ac, pi_optimizer, vf_optimizer, batch, compute_loss_pi, compute_loss_v, v_iters):
    """Update the policy and the value function in place.

    Args:
        ac: the networks.
        pi_optimizer, vf_optimizer: optimizers of ac.pi and ac.v.
        batch: the data of the epoch.
        compute_loss_pi: compute_loss_pi(ac, batch) returns (loss, info); info["KL"] is the KL
            divergence from the policy that collected the data.
        compute_loss_v: compute_loss_v(ac, batch) returns the loss.
        v_iters: number of steps of the value function.

    Returns:
        {"LossPi": ..., "LossV": ..., "KL": ...}, tensors.
    """
    raise NotYetWritten("vpg_update")  # your code here
''',
    name="vpg_update",
    reference="spinup_lab.exercises.answers:vpg_update",
    shown=("spinup.algos.pytorch.vpg.vpg:vpg_update",),
    cases=_update_cases,
    hints=(
        "Losses before, KL after: before the step, the policy is the one that collected the data, "
        "and its KL from itself is 0.",
        "zero_grad, backward, step: once for the policy, v_iters times for the value function, "
        "whose loss has to be computed anew each time.",
        "pi_optimizer.zero_grad()\nloss_pi, _ = compute_loss_pi(ac, batch)\nloss_pi.backward()\n"
        "pi_optimizer.step()\nfor _ in range(v_iters):\n    ...  # the same for the value "
        "function\n_, info = compute_loss_pi(ac, batch)  # now",
    ),
    wrong=(
        Wrong(
            "kl-before-the-step",
            "Your KL is measured before the step, when it is always 0. Measure it afterwards.",
            edits=(
                ("loss_pi_old, _ =", "loss_pi_old, info ="),
                ("    with torch.no_grad():\n        _, info = compute_loss_pi(ac, batch)\n", ""),
            ),
        ),
        Wrong(
            "losses-after-the-step",
            "You log the losses after the update. They belong to the policy that collected the "
            "data, so compute them before anything changes.",
            edits=(
                ('"LossPi": loss_pi_old', '"LossPi": compute_loss_pi(ac, batch)[0].detach()'),
                ('"LossV": loss_v_old', '"LossV": compute_loss_v(ac, batch).detach()'),
            ),
        ),
        Wrong(
            "gradients-pile-up",
            "Without vf_optimizer.zero_grad() in the loop, every step uses the sum of all "
            "gradients so far.",
            edits=(("        vf_optimizer.zero_grad()\n", ""),),
        ),
        Wrong(
            "old-policy-gradient",
            "The policy's step includes a gradient that an earlier update left behind: call "
            "pi_optimizer.zero_grad() before backward.",
            edits=(("    pi_optimizer.zero_grad()\n", ""),),
        ),
        Wrong(
            "no-zero-grad",
            "Gradients add up until zero_grad clears them: call it before each backward.",
            edits=(
                ("    pi_optimizer.zero_grad()\n", ""),
                ("        vf_optimizer.zero_grad()\n", ""),
            ),
        ),
        Wrong(
            "policy-steps-repeated",
            "The policy takes several steps. After the first one, the data no longer comes from "
            "it, and the gradient is wrong; PPO exists to make that possible.",
            edits=(
                (
                    "    for _ in range(v_iters):\n",
                    "    for _ in range(v_iters):\n        pi_optimizer.zero_grad()\n"
                    "        compute_loss_pi(ac, batch)[0].backward()\n        "
                    "pi_optimizer.step()\n",
                ),
                ("    pi_optimizer.step()\n\n", "\n"),
            ),
        ),
        Wrong(
            "value-function-once",
            "The value function takes one step, whatever v_iters is.",
            edits=(("range(v_iters)", "range(1)"),),
        ),
        Wrong(
            "policy-not-stepped",
            "The policy has not changed: is pi_optimizer.step() missing?",
            edits=(("    pi_optimizer.step()\n", ""),),
        ),
    ),
    algorithms=("vpg",),
    page="algorithms/vpg",
)

EXERCISES = (LOSS_PI, LOSS_V, UPDATE)

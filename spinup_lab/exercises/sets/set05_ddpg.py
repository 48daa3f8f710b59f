"""Problem set 5: DDPG."""

from __future__ import annotations

from spinup_lab.exercises.exercise import Case, Exercise, Wrong

PAGE = "algorithms/ddpg"
ALGORITHMS = ("ddpg", "her")


def _simple():
    from spinup_lab.exercises.networks import LinearCritic, LinearPolicy, Networks

    ac = Networks(pi=LinearPolicy(0.5), q=LinearCritic(1.0, 2.0))
    ac_targ = Networks(pi=LinearPolicy(-1.0), q=LinearCritic(3.0, 1.0))
    return ac, ac_targ


def _networks(act_dim=2, low=-1.0, high=1.0, obs_dim=3):
    from spinup_lab.exercises.networks import actor_critic, box

    space = box(act_dim, low, high)
    return space, *(actor_critic("ddpg", space, obs_dim) for _ in range(2))


# ------------------------------------------------------------------------------------------ loss_q


def _loss_q_cases():
    from spinup_lab.exercises.networks import batch_of, transition

    grad = ("ac", "ac_targ")
    nets = "Q(o, a) = o + 2a, target networks pi(o) = -o and Q(o, a) = 3o + a"
    cases = [
        Case(
            "one transition, gamma = 0.5",
            (*_simple(), transition(1.0, 0.5, 1.0, 2.0), 0.5),
            show=f"{nets}; o = 1, a = 0.5, r = 1, o2 = 2, d = 0",
        ),
        Case(
            "a terminal transition",
            (*_simple(), transition(1.0, 0.5, 1.0, 2.0, d=1.0), 0.5),
            show=f"{nets}; o = 1, a = 0.5, r = 1, o2 = 2, d = 1",
        ),
    ]
    for name, rows, done, gamma, options in (
        ("random networks, a batch of 8", 8, None, 0.99, {}),
        ("a batch of one", 1, False, 0.99, {}),
        ("every transition is terminal", 5, True, 0.99, {}),
        ("gamma = 0", 6, None, 0.0, {}),
        ("gamma = 1", 6, None, 1.0, {}),
        ("bounds from 2 to 6", 8, None, 0.9, {"low": 2.0, "high": 6.0}),
        ("one action dimension", 7, None, 0.95, {"act_dim": 1}),
    ):
        space, ac, ac_targ = _networks(**options)
        batch = batch_of(rows, space, done=done)
        cases.append(Case(name, (ac, ac_targ, batch, gamma), grad=grad))
    return cases


LOSS_Q = Exercise(
    id="ddpg.loss_q",
    title="the critic's loss",
    set=5,
    minutes=20,
    difficulty=2,
    algorithms=ALGORITHMS,
    page=PAGE,
    task=r"""
Write `compute_loss_q`: DDPG's critic learns from the reward plus the target networks' value of
the next state.

    backup = r + gamma * (1 - d) * Q_targ(o2, pi_targ(o2))
    loss_q = mean of (Q(o, a) - backup)^2 over the batch

- `batch` is a dict of tensors: `obs` (B, obs), `act` (B, act), `rew` (B,), `obs2` (B, obs) and
  `done` (B,), which is 1 where the episode TERMINATED and 0 elsewhere.
- `ac.q(o, a)` and `ac_targ.q(o, a)` return (B,); `ac_targ.pi(o)` returns actions (B, act).
- Return `(loss_q, {"QVals": q})`: the loss, a tensor without axes, and Q(o, a) of shape (B,) for
  the log, without a gradient.
- The backup is a target, not a prediction: no gradient may pass through it.
""",
    stub='''
import torch

from spinup.exercises import NotYetWritten


def compute_loss_q(ac, ac_targ, batch, gamma):
    """Return the critic's loss and {"QVals": Q(o, a)}."""
    o, a, r, o2, d = (batch[k] for k in ("obs", "act", "rew", "obs2", "done"))
    raise NotYetWritten("compute_loss_q")
''',
    name="compute_loss_q",
    reference="spinup.algos.pytorch.ddpg.ddpg:compute_loss_q",
    cases=_loss_q_cases,
    hints=(
        "The target answers one question: what would the target networks get from o2 on? Compute "
        "it inside `torch.no_grad()`, then regress Q(o, a), which does have a gradient, on it.",
        "backup = r + gamma * (1 - d) * Q_targ(o2, pi_targ(o2)). The factor (1 - d) removes the "
        "future of a terminated episode. The loss is the mean of the squared differences.",
        "with torch.no_grad():\n"
        "    q_targ = ac_targ.q(o2, ac_targ.pi(o2))\n"
        "    backup = ...\n"
        "q = ac.q(o, a)\n"
        'return ((q - backup) ** 2).mean(), {"QVals": ...}',
    ),
    wrong=(
        Wrong(
            "no-done-mask",
            "Your backup adds the value of the next state even where the episode terminated. A "
            "death then looks as if the episode went on, and Q settles above what is possible.",
            edits=((" * (1 - d)", ""),),
        ),
        Wrong(
            "mask-reversed",
            "You multiply the future by d. It then counts only after a termination, where there "
            "is none.",
            edits=(("(1 - d)", "d"),),
        ),
        Wrong(
            "online-policy-in-target",
            "The next action comes from the policy that is being trained. DDPG asks the target "
            "policy, so that the target moves slowly.",
            edits=(("ac_targ.pi(o2)", "ac.pi(o2)"),),
        ),
        Wrong(
            "online-q-in-target",
            "Your backup uses the critic that is being trained. Every step then moves its own "
            "target, which is what target networks are there to prevent.",
            edits=(("ac_targ.q(o2, a2)", "ac.q(o2, a2)"),),
        ),
        Wrong(
            "stored-action-in-target",
            "The next state is evaluated with the action of the FIRST state. The target policy "
            "has to choose an action for o2.",
            edits=(("a2 = ac_targ.pi(o2)", 'a2 = batch["act"]'),),
        ),
        Wrong(
            "reward-discounted",
            "You discount the reward as well. The reward of this step counts in full; only what "
            "comes after it is discounted.",
            edits=(("r + gamma * (1 - d) * q_targ", "gamma * (r + (1 - d) * q_targ)"),),
        ),
        Wrong(
            "column-critic",
            "A column (B, 1) minus a row (B,) is a table (B, B): every prediction is compared "
            "with every target. Give both the shape (B,).",
            edits=(("(q - backup)", "(q[:, None] - backup)"),),
        ),
        Wrong(
            "gradient-through-target",
            "The values are right, but a gradient passes through the backup. The target would "
            "move toward the prediction; compute it without a gradient.",
            edits=(("with torch.no_grad():", "if True:"),),
        ),
    ),
)

# ----------------------------------------------------------------------------------------- loss_pi


def _loss_pi_cases():
    from spinup_lab.exercises.networks import batch_of, transition

    grad = ("ac.pi",)
    cases = [
        Case(
            "one observation",
            (_simple()[0], transition(2.0, 7.0, 1.0, 3.0)),
            grad=grad,
            show="pi(o) = 0.5 o, Q(o, a) = o + 2a; o = 2, and the stored action is 7",
        )
    ]
    for name, rows, options in (
        ("a batch of one", 1, {}),
        ("a batch of 8", 8, {}),
        ("a batch of 30", 30, {}),
        ("one action dimension", 6, {"act_dim": 1}),
        ("bounds from 2 to 6", 8, {"low": 2.0, "high": 6.0}),
        ("one observation dimension", 5, {"obs_dim": 1}),
        ("wide bounds", 5, {"low": -50.0, "high": 50.0}),
    ):
        space, ac, _ = _networks(**options)
        batch = batch_of(rows, space, options.get("obs_dim", 3))
        cases.append(Case(name, (ac, batch), grad=grad))
    return cases


def _loss_pi_min(ac, batch):
    o = batch["obs"]
    return -ac.q(o, ac.pi(o)).sum()


LOSS_PI = Exercise(
    id="ddpg.loss_pi",
    title="the policy's loss",
    set=5,
    minutes=10,
    difficulty=1,
    algorithms=ALGORITHMS,
    page=PAGE,
    task=r"""
Write `compute_loss_pi`: the policy should choose the actions that the critic values most.

    loss_pi = - mean of Q(o, pi(o)) over the batch

- `ac.pi(o)` returns actions (B, act), and `ac.q(o, a)` returns values (B,).
- Return the loss alone, a tensor without axes. Its gradient must reach the policy THROUGH the
  critic: the chain rule dQ/da * da/dtheta is the whole idea of DDPG.
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
    reference="spinup.algos.pytorch.ddpg.ddpg:compute_loss_pi",
    cases=_loss_pi_cases,
    hints=(
        "The critic is a differentiable function of the action, so you can ask it in which "
        "direction an action should move. Which actions does it have to see for that?",
        "Maximize the mean of Q(o, pi(o)). An optimizer minimizes, so the loss is its negative.",
        "a = ac.pi(o)\nreturn -ac.q(o, a).mean()",
    ),
    wrong=(
        Wrong(
            "pi-sign",
            "The sign is missing: the optimizer minimizes, so the policy would look for the worst "
            "actions.",
            edits=(("return -ac", "return ac"),),
        ),
        Wrong(
            "stored-action",
            "You evaluate the stored actions. They do not depend on the policy's parameters, so "
            "the policy gets no gradient.",
            edits=(("ac.q(o, ac.pi(o))", 'ac.q(o, batch["act"])'),),
        ),
        Wrong(
            "policy-detached",
            "The action is detached from the policy: the value is right, but the gradient cannot "
            "reach the policy.",
            edits=(("ac.pi(o))", "ac.pi(o).detach())"),),
        ),
        Wrong(
            "sum-for-mean",
            "You sum over the batch. The step then grows with the batch size; DDPG takes the mean.",
            function=_loss_pi_min,
        ),
        Wrong(
            "next-observation",
            "You improve the policy at the next observations. The loss is about the batch's `obs`.",
            edits=(('batch["obs"]', 'batch["obs2"]'),),
        ),
    ),
)

# ------------------------------------------------------------------------------------ noisy action


def noisy_action(act, low, high, act_noise, rng):
    """Return exploring actions, as `NoisyPolicy` does."""
    import numpy as np
    from gymnasium.spaces import Box

    from spinup.algos.common.exploration import NoisyPolicy

    class Given:
        begin = renew = None

        def __call__(self, obs, rng):
            return (act,)

    policy = NoisyPolicy(Given(), Box(np.float32(low), np.float32(high)), act_noise)
    return policy(None, rng)


def _noisy_cases():
    import numpy as np

    def rng():
        return np.random.default_rng(int(np.random.randint(1000)))

    def bounds(low, high):
        return np.array(low, np.float32), np.array(high, np.float32)

    def acts(*shape):
        return np.random.uniform(-0.5, 0.5, shape).astype(np.float32)

    symmetric, one = bounds([-1, -1], [1, 1]), bounds([-1], [1])
    wide, shifted = bounds([-2, -100], [2, 100]), bounds([0, 10], [1, 30])
    return [
        Case("bounds from -1 to 1", (acts(1, 1), *one, 0.1, rng())),
        Case("two dimensions, three environments", (acts(3, 2), *symmetric, 0.1, rng())),
        Case("no noise", (acts(4, 2), *symmetric, 0.0, rng())),
        Case("bounds of different width", (acts(4, 2), *wide, 0.2, rng())),
        Case("large noise is clipped", (acts(40, 2), *symmetric, 3.0, rng())),
        Case("bounds that are not symmetric", (acts(5, 2) + [[0, 20]], *shifted, 0.3, rng())),
        Case("an action on the bound", (np.ones((50, 1), np.float32), *one, 0.5, rng())),
        Case("many environments", (acts(64, 1), *one, 0.4, rng())),
    ]


def _noise_absolute(act, low, high, act_noise, rng):
    noise = act_noise * rng.standard_normal(act.shape, dtype="float32")
    return (act + noise).clip(low, high)


def _noise_full_range(act, low, high, act_noise, rng):
    noise = act_noise * (high - low) * rng.standard_normal(act.shape, dtype="float32")
    return (act + noise).clip(low, high)


def _noise_unclipped(act, low, high, act_noise, rng):
    return act + act_noise * (high - low) / 2 * rng.standard_normal(act.shape, dtype="float32")


def _noise_high_only(act, low, high, act_noise, rng):
    noise = act_noise * high * rng.standard_normal(act.shape, dtype="float32")
    return (act + noise).clip(-high, high)


NOISY_ACTION = Exercise(
    id="ddpg.noisy_action",
    title="exploring with noise",
    set=5,
    minutes=10,
    difficulty=2,
    algorithms=("ddpg", "td3"),
    page=PAGE,
    task=r"""
DDPG's policy is deterministic, so it explores by adding Gaussian noise to its actions. Write
`noisy_action`, in NumPy.

    a_noisy = clip(a + act_noise * (high - low) / 2 * N(0, 1), low, high)

- `act` (n, act) contains the policy's actions for n environments; `low` and `high` (act,) are the
  bounds of the action space, which may differ by dimension and need not be symmetric.
- `act_noise` is in units of HALF the range, so that 0.1 means the same in every environment.
- Draw with `rng.standard_normal(act.shape, dtype="float32")`, one number per action and
  dimension.
""",
    stub='''
import numpy as np

from spinup.exercises import NotYetWritten


def noisy_action(act, low, high, act_noise, rng):
    """Return the actions (n, act) with noise, within the bounds."""
    raise NotYetWritten("noisy_action")
''',
    name="noisy_action",
    reference="spinup_lab.exercises.sets.set05_ddpg:noisy_action",
    shown=("spinup.algos.common.exploration:NoisyPolicy",),
    cases=_noisy_cases,
    atol=1e-5,
    hints=(
        "Scale the noise per dimension before you add it, and clip after you added it.",
        "The standard deviation of dimension i is act_noise * (high_i - low_i) / 2.",
        'noise = rng.standard_normal(act.shape, dtype="float32")\n'
        "return (act + act_noise * ... * noise).clip(low, high)",
    ),
    wrong=(
        Wrong(
            "noise-absolute",
            "Your noise ignores the width of the range. 0.1 is then a lot where actions reach "
            "from -0.1 to 0.1, and nothing where they reach from -100 to 100.",
            function=_noise_absolute,
        ),
        Wrong(
            "noise-full-range",
            "You scale by the whole range. The unit is half of it, so that bounds of -1 and 1 "
            "have the unit 1.",
            function=_noise_full_range,
        ),
        Wrong(
            "noise-unclipped",
            "Noisy actions leave the bounds. The environment would clip or refuse them, and the "
            "buffer would hold actions that were never taken.",
            function=_noise_unclipped,
        ),
        Wrong(
            "high-only",
            "You use `high` as the limit on both sides. That is right only for symmetric bounds.",
            function=_noise_high_only,
        ),
    ),
)

# ------------------------------------------------------------------------------------------ update


def _update_cases():
    from torch.optim import SGD

    from spinup_lab.exercises.networks import batch_of, transition

    cases = []
    for name, rows, gamma, polyak, options in (
        ("one transition", 0, 0.5, 0.9, None),
        ("a batch of 8", 8, 0.99, 0.995, {}),
        ("polyak = 0: the targets become copies", 8, 0.99, 0.0, {}),
        ("polyak = 1: the targets stay", 8, 0.99, 1.0, {}),
        ("a batch of one", 1, 0.99, 0.995, {}),
        ("one action dimension", 5, 0.9, 0.9, {"act_dim": 1}),
        ("bounds from 2 to 6", 5, 0.9, 0.9, {"low": 2.0, "high": 6.0}),
        ("gradients of an earlier step are still there", 6, 0.9, 0.9, {}),
    ):
        if options is None:
            (ac, ac_targ), batch = _simple(), transition(1.0, 0.5, 1.0, 2.0)
        else:
            space, ac, ac_targ = _networks(**options)
            batch = batch_of(rows, space)
        ac_targ.requires_grad_(False)
        if "earlier" in name:
            ac.q(batch["obs"], ac.pi(batch["obs"])).sum().backward()
        pi_optimizer = SGD(ac.pi.parameters(), lr=0.01)
        q_optimizer = SGD(ac.q.parameters(), lr=0.02)
        args = (ac, ac_targ, pi_optimizer, q_optimizer, batch, gamma, polyak)
        cases.append(Case(name, args, changes=("ac", "ac_targ", "pi_optimizer", "q_optimizer")))
    return cases


def _update_call(function, case):
    """Return the losses; the judge compares the parameters as well."""
    info = function(*case.args)
    return {name: info[name] for name in ("LossQ", "LossPi")} if info else info


UPDATE = Exercise(
    id="ddpg.update",
    title="one whole update, in the right order",
    set=5,
    minutes=25,
    difficulty=3,
    algorithms=ALGORITHMS,
    page=PAGE,
    task=r"""
Put the pieces together. `ddpg_update` takes one gradient step of the critic, one of the policy,
and moves the target networks, in this order:

1. critic: the loss is `compute_loss_q(ac, ac_targ, batch, gamma)[0]`; `q_optimizer` steps;
2. policy: the loss is `compute_loss_pi(ac, batch)`; `pi_optimizer` steps. The critic must not
   keep gradients from this step: hold it with `frozen`;
3. targets: `polyak_update(ac, ac_targ, polyak)`.

Return a dict with `LossQ` and `LossPi`, detached. The losses, `frozen` and `polyak_update` are
given: `with frozen(ac.q): ...` switches off the gradients of the critic's parameters, while the
gradient with respect to the action still passes through it.
""",
    stub='''
import torch

from spinup.algos.pytorch.common.gradients import frozen
from spinup.algos.pytorch.common.targets import polyak_update
from spinup.algos.pytorch.ddpg.ddpg import compute_loss_pi, compute_loss_q
from spinup.exercises import NotYetWritten


def ddpg_update(ac, ac_targ, pi_optimizer, q_optimizer, batch, gamma=0.99, polyak=0.995):
    """Update the critic, the policy and the targets; return {"LossQ": ..., "LossPi": ...}."""
    raise NotYetWritten("ddpg_update")
''',
    name="ddpg_update",
    reference="spinup.algos.pytorch.ddpg.ddpg:ddpg_update",
    cases=_update_cases,
    call=_update_call,
    hints=(
        "Each gradient step is the same three lines: zero_grad, backward, step. The policy's step "
        "uses the critic that was just updated.",
        "Critic first, then the policy with the critic frozen, the targets last. Without "
        "zero_grad, gradients of earlier steps are added to the new ones.",
        "loss_q, info = compute_loss_q(...)\n"
        "q_optimizer.zero_grad(); loss_q.backward(); q_optimizer.step()\n"
        "with frozen(ac.q):\n"
        "    ... the same three lines with loss_pi and pi_optimizer\n"
        "polyak_update(...)",
    ),
    wrong=(
        Wrong(
            "targets-follow-at-once",
            "Your targets become copies of the networks at every update. A target that moves as "
            "fast as the prediction stabilizes nothing.",
            edits=(("polyak_update(ac, ac_targ, polyak)", "polyak_update(ac, ac_targ, 0.0)"),),
        ),
        Wrong(
            "targets-never-move",
            "The target networks stay what they were at the start, so Q learns the values of a "
            "random policy.",
            edits=(("    polyak_update(ac, ac_targ, polyak)\n", ""),),
        ),
        Wrong(
            "polyak-reversed",
            "You keep 1 - polyak of the target. `polyak` is the fraction that is KEPT.",
            edits=(("ac_targ, polyak)", "ac_targ, 1 - polyak)"),),
        ),
        Wrong(
            "gradients-add-up",
            "Gradients of earlier steps are still there when you step: `zero_grad` is missing "
            "before the critic's backward pass.",
            edits=(("    q_optimizer.zero_grad()\n", ""),),
        ),
        Wrong(
            "critic-never-steps",
            "The critic's gradient is computed but its optimizer does not step.",
            edits=(("    q_optimizer.step()\n", ""),),
        ),
    ),
)

EXERCISES = (LOSS_Q, LOSS_PI, NOISY_ACTION, UPDATE)

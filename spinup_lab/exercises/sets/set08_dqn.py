"""Problem set 8: DQN."""

from __future__ import annotations

from spinup_lab.exercises.exercise import Case, Exercise, Wrong

PAGE = "algorithms/dqn"


def _discrete(n):
    from gymnasium.spaces import Discrete

    return Discrete(n)


def _networks(n=3):
    from spinup_lab.exercises.networks import actor_critic

    space = _discrete(n)
    return space, *(actor_critic("dqn", space) for _ in range(2))


# ------------------------------------------------------------------------------------------ loss_q


def _loss_q_cases():
    import torch

    from spinup_lab.exercises.networks import Networks, TableCritic, batch_of, transition

    grad = ("ac", "ac_targ")
    nets = "online Q(o) = (o, 2o, 3o), target Q(o) = (4o, 6o, 5o), gamma = 0.5"

    def simple(name, **options):
        batch = transition(1.0, 0.0, 0.5, 2.0, options.pop("d", 0.0))
        batch["act"] = torch.tensor([1])
        batch.update(options.pop("more", {}))
        ac, ac_targ = Networks(q=TableCritic(1, 2, 3)), Networks(q=TableCritic(4, 6, 5))
        about = "; o = 1, a = 1, r = 0.5, o2 = 2" + (
            "" if name != "a terminal transition" else ", d = 1"
        )
        settings = "".join(f", {k} = {v}" for k, v in options.items())
        return Case(name, (ac, ac_targ, batch, 0.5), options, show=f"{nets}{about}{settings}")

    cases = [
        simple("one transition, squared loss", loss="squared"),
        simple("without double Q-learning", loss="squared", double_q=False),
        simple("a terminal transition", loss="squared", d=1.0),
        simple("Huber loss"),
    ]
    for name, rows, n, done, gamma, options, more in (
        ("random networks", 8, 3, None, 0.99, {}, ()),
        ("squared loss", 8, 3, None, 0.99, {"loss": "squared"}, ()),
        ("not double", 8, 4, None, 0.99, {"double_q": False}, ()),
        ("a batch of one", 1, 2, False, 0.99, {}, ()),
        ("every transition is terminal", 5, 3, True, 0.99, {}, ()),
        ("n-step transitions bring their own discount", 8, 3, None, 0.99, {}, ("discount",)),
        ("prioritized replay brings weights", 8, 3, None, 0.99, {}, ("weight",)),
        ("both", 8, 5, None, 0.9, {"loss": "squared"}, ("discount", "weight")),
    ):
        space, ac, ac_targ = _networks(n)
        batch = batch_of(rows, space, done=done)
        extra = {
            "discount": torch.tensor([0.99, 0.98, 0.97])[torch.arange(rows) % 3].double(),
            "weight": torch.rand(rows, dtype=torch.float64),
        }
        batch.update({key: extra[key] for key in more})
        cases.append(Case(name, (ac, ac_targ, batch, gamma), options, grad=grad))
    return cases


LOSS_Q = Exercise(
    id="dqn.loss_q",
    title="the loss of Q: double, n-step, weighted",
    set=8,
    minutes=30,
    difficulty=4,
    algorithms=("dqn", "her"),
    page=PAGE,
    task=r"""
Write `compute_loss_q` of DQN. `ac.q(o)` and `ac_targ.q(o)` return the values of all actions, (B,
n).

    a2 = argmax over a of Q(o2, a)           with double_q (the ONLINE network chooses)
         argmax over a of Q_targ(o2, a)      without
    backup = r + discount * (1 - d) * Q_targ(o2, a2)
    error = Huber (or squared, if loss="squared") of Q(o, a) against backup, one per row
    loss = mean of weight * error

- `batch` has `obs, act, rew, obs2, done`; `act` (B,) contains integers.
- `batch["discount"]` (B,), if it is there, is the factor on the future of n-step transitions
  (gamma^n). Otherwise it is `gamma`.
- `batch["weight"]` (B,), if it is there, multiplies each row's error (prioritized replay).
- `huber_loss(q, backup, reduction="none")` and `mse_loss(q, backup, reduction="none")` are
  imported.
- Return `(loss, {"QVals": q}, td_error)`: q is Q(o, a) (B,), and td_error is q - backup (B,);
  both without a gradient.
""",
    stub='''
import torch
from torch.nn.functional import huber_loss, mse_loss

from spinup.exercises import NotYetWritten


def compute_loss_q(ac, ac_targ, batch, gamma, double_q=True, loss="huber"):
    """Return the loss, {"QVals": Q(o, a)} and the TD errors."""
    o, a, r, o2, d = (batch[k] for k in ("obs", "act", "rew", "obs2", "done"))
    raise NotYetWritten("compute_loss_q")
''',
    name="compute_loss_q",
    reference="spinup.algos.pytorch.dqn.dqn:compute_loss_q",
    cases=_loss_q_cases,
    hints=(
        "Two uses of `gather`: one picks Q(o, a) for the stored actions, the other picks the "
        "target network's value of the chosen next action.",
        "backup = r + discount (1 - d) Q_targ(o2, argmax_a Q(o2, a)). Weights multiply the errors "
        "row by row, before the mean.",
        "with torch.no_grad():\n"
        "    q_targ = ac_targ.q(o2)\n"
        "    a2 = (ac.q(o2) if double_q else q_targ).argmax(-1, keepdim=True)\n"
        "    backup = r + ... * q_targ.gather(-1, a2).squeeze(-1)\n"
        "q = ac.q(o).gather(-1, a.unsqueeze(-1)).squeeze(-1)",
    ),
    wrong=(
        Wrong(
            "max-by-target",
            "The target network chooses the action AND evaluates it, even with double_q. The "
            "maximum of noisy values is too large on average.",
            edits=(("(ac.q(o2) if double_q else q_targ)", "q_targ"),),
        ),
        Wrong(
            "roles-swapped",
            "With double_q, the online network chooses and the TARGET network evaluates. Yours "
            "does it the other way round.",
            edits=(
                ("(ac.q(o2) if double_q else q_targ)", "q_targ"),
                ("q2 = q_targ.gather", "q2 = (ac.q(o2) if double_q else q_targ).gather"),
            ),
        ),
        Wrong(
            "no-done-mask",
            "Your backup adds the value of the next state even where the episode terminated.",
            edits=((" * (1 - d)", ""),),
        ),
        Wrong(
            "gamma-for-n-step",
            "Your backup always uses gamma. An n-step transition spans n steps: its batch brings "
            "`discount`, which is gamma^n.",
            edits=(('batch.get("discount", gamma)', "gamma"),),
        ),
        Wrong(
            "weights-missing",
            "The importance weights are not used. Rows that are drawn too often then count too "
            "much.",
            edits=(('error = batch["weight"] * error', "pass"),),
        ),
        Wrong(
            "weights-normalized-away",
            "You divide by the sum of the weights. The loss is the mean over the ROWS: small "
            "weights are meant to shrink the step.",
            edits=(
                (
                    'error = batch["weight"] * error',
                    'error = batch["weight"] * error * len(error) / batch["weight"].sum()',
                ),
            ),
        ),
        Wrong(
            "always-squared",
            "You use the squared error for both settings. The Huber loss is linear beyond an "
            "error of 1, and half the square below.",
            edits=(('(huber_loss if loss == "huber" else mse_loss)', "mse_loss"),),
        ),
        Wrong(
            "gradient-through-target",
            "The values are right, but a gradient passes through the backup.",
            edits=(("with torch.no_grad():", "if True:"),),
        ),
    ),
)

# ---------------------------------------------------------------------------------- epsilon_greedy


def epsilon_greedy(q, epsilon, rng):
    """Return one action per row of `q`, as `EpsilonGreedy` does."""
    from spinup.algos.pytorch.dqn.core import EpsilonGreedy

    class Greedy:
        begin = renew = None

        def __call__(self, obs, rng):
            return (q.argmax(-1),)

    return EpsilonGreedy(Greedy(), q.shape[1], epsilon)(q, rng)


def _epsilon_cases():
    import numpy as np

    def case(name, rows, n, epsilon):
        rng = np.random.default_rng(int(np.random.randint(1000)))
        return Case(name, (np.random.randn(rows, n), epsilon, rng))

    return [
        case("epsilon = 0: the best action", 3, 4, 0.0),
        case("epsilon = 1: random actions", 6, 4, 1.0),
        case("epsilon = 0.5", 10, 3, 0.5),
        case("one environment, epsilon = 0.5", 1, 3, 0.5),
        case("one environment, epsilon = 0.1", 1, 5, 0.1),
        case("many environments, epsilon = 0.1", 100, 5, 0.1),
        case("many environments, epsilon = 0.9", 100, 2, 0.9),
        case("18 actions", 30, 18, 0.3),
    ]


def _epsilon_shared(q, epsilon, rng):
    if rng.random() < epsilon:
        return rng.integers(q.shape[1], size=len(q))
    return q.argmax(-1)


def _epsilon_reversed(q, epsilon, rng):
    explores = rng.random(len(q)) >= epsilon
    act = q.argmax(-1)
    act[explores] = rng.integers(q.shape[1], size=int(explores.sum()))
    return act


def _epsilon_never_best(q, epsilon, rng):
    explores = rng.random(len(q)) < epsilon
    best = q.argmax(-1)
    act = best.copy()
    other = rng.integers(q.shape[1] - 1, size=int(explores.sum()))
    act[explores] = other + (other >= best[explores])
    return act


def _epsilon_greedy_only(q, epsilon, rng):
    return q.argmax(-1)


EPSILON = Exercise(
    id="dqn.epsilon_greedy",
    title="explore now and then",
    set=8,
    minutes=10,
    difficulty=2,
    algorithms=("dqn",),
    page=PAGE,
    task=r"""
Write `epsilon_greedy`, in NumPy: each of n environments takes its best action, except that with
probability `epsilon`, independently of the others, it takes a random one.

- `q` (n, actions) contains the values; return integers (n,).
- A random action is uniform over ALL actions, the best one included.
- So that the judge can compare: draw `rng.random(n)` first, an environment explores where its
  number is below epsilon; then draw `rng.integers(actions, size=number of exploring
  environments)`.
""",
    stub='''
import numpy as np

from spinup.exercises import NotYetWritten


def epsilon_greedy(q, epsilon, rng):
    """Return one action per row of q."""
    raise NotYetWritten("epsilon_greedy")
''',
    name="epsilon_greedy",
    reference="spinup_lab.exercises.sets.set08_dqn:epsilon_greedy",
    shown=("spinup.algos.pytorch.dqn.core:EpsilonGreedy",),
    cases=_epsilon_cases,
    hints=(
        "Compute the best action of every row, then overwrite the rows that explore.",
        "explores = rng.random(n) < epsilon; the random actions are uniform on 0 ... actions - 1.",
        "act = q.argmax(-1)\n"
        "explores = rng.random(len(q)) < epsilon\n"
        "act[explores] = rng.integers(...)\n"
        "return act",
    ),
    wrong=(
        Wrong(
            "one-coin-for-all",
            "One coin decides for all environments. They should explore independently of each "
            "other.",
            function=_epsilon_shared,
        ),
        Wrong(
            "epsilon-reversed",
            "You explore with probability 1 - epsilon.",
            function=_epsilon_reversed,
        ),
        Wrong(
            "never-the-best",
            "Your random action excludes the best one. Then epsilon = 1 is not the uniform policy, "
            "and with two actions it always takes the worse one.",
            function=_epsilon_never_best,
        ),
        Wrong(
            "always-greedy",
            "You always take the best action: nothing explores.",
            function=_epsilon_greedy_only,
        ),
    ),
)

# ---------------------------------------------------------------------------------------- sum tree


def _tree_cases():
    import numpy as np

    def case(name, size, values, mass, more=(), show=""):
        args = (size, np.arange(len(values)), np.array(values, float), np.array(mass, float), more)
        return Case(name, args, show=show)

    rng = np.random.RandomState(np.random.randint(1000))
    long = rng.rand(100)
    return [
        case("four numbers", 4, [1, 2, 3, 4], [0.5, 1.5, 5.9, 6.1]),
        case("a mass on a boundary", 4, [1, 2, 3, 4], [0, 1, 3, 6]),
        case("one number", 1, [2], [0.0, 1.9]),
        case("five numbers: no power of two", 5, [1, 1, 1, 1, 6], [0.5, 4.5, 9.9]),
        case("zeros are never found", 6, [0, 3, 0, 0, 2, 0], [0.0, 2.9, 3.0, 4.9]),
        case("a number is replaced", 4, [1, 2, 3, 4], [0.5, 8.5], [([1], [7.0])]),
        case("several are replaced", 8, [1] * 8, [2.5, 10.0], [([0, 7], [5.0, 0.0])]),
        case(
            "a repeated index: the last value wins", 4, [1, 2, 3, 4], [5.0], [([2, 2], [9.0, 1.0])]
        ),
        case("a hundred numbers", 100, long, np.linspace(0, long.sum(), 50, endpoint=False)),
        case("partly filled", 64, [1, 2, 3], [0.5, 2.9, 5.9]),
    ]


def _tree_call(make, case):
    import numpy as np

    size, index, values, mass, more = case.args
    tree = make(size)
    tree.set(index, values)
    for again, new in more:
        tree.set(np.array(again), np.array(new))
    return {"total": tree.total, "found": tree.find(mass), "numbers": tree.get(index)}


class _FindWithoutSubtracting:
    """Descends without subtracting the left sum."""

    def __init__(self, size):
        from spinup.algos.common.prioritized import SumTree

        self.tree = SumTree(size)
        self.set, self.get = self.tree.set, self.tree.get

    @property
    def total(self):
        return self.tree.total

    def find(self, mass):
        import numpy as np

        tree = self.tree
        nodes = np.ones(len(mass), np.int64)
        for _ in range(tree.height):
            left = nodes << 1
            right = (mass >= tree._nodes[left]) & (tree._nodes[left + 1] > 0)
            nodes = left + right
        return nodes - tree._first


SUM_TREE = Exercise(
    id="dqn.sum_tree",
    title="sampling in proportion to priority",
    set=8,
    minutes=45,
    difficulty=5,
    algorithms=("dqn",),
    page=PAGE,
    task=r"""
Write the class `SumTree`: `size` non-negative numbers that can be changed, and sampled in
proportion to their values, in a number of steps that grows like log(size). Each inner node of a
binary tree is the sum of its two children.

- `SumTree(size)`: all numbers are zero at first.
- `tree.set(index, values)`: arrays; for a repeated index, the last value wins.
- `tree.get(index)`: the numbers, as an array of floats.
- `tree.total`: an attribute or property, the sum of all numbers, a float.
- `tree.find(mass)`: for each mass in [0, total), the first index whose cumulative sum EXCEEDS it,
  an array of integers. Numbers [1, 2, 3, 4]: mass 0.5 gives 0, mass 1 gives 1, mass 5.9 gives 2.
  An index whose number is zero is never found.

With n uniform draws from [0, total), `find` samples n indices. A plain cumulative sum gives the
same answers and passes here, but each call costs as many steps as there are numbers.
""",
    stub='''
import numpy as np

from spinup.exercises import NotYetWritten


class SumTree:
    """`size` non-negative numbers that can be sampled in proportion to their values."""

    def __init__(self, size):
        raise NotYetWritten("SumTree")

    @property
    def total(self):
        """The sum of all numbers."""

    def get(self, index):
        """Return the numbers at the given indices."""

    def set(self, index, values):
        """Set the numbers at the given indices."""

    def find(self, mass):
        """Return, for each mass, the first index whose cumulative sum exceeds it."""
''',
    name="SumTree",
    reference="spinup.algos.common.prioritized:SumTree",
    cases=_tree_cases,
    call=_tree_call,
    hints=(
        "Keep all nodes in one array: node 1 is the root, the children of node k are 2k and "
        "2k + 1, and the leaves are the last half. Make the number of leaves a power of two.",
        "find: start at the root. If the mass is less than the left child's sum, go left; "
        "otherwise subtract that sum and go right. set: write the leaves, then recompute the sum "
        "of every parent, level by level.",
        "nodes = np.ones(len(mass), int); mass = mass.copy()\n"
        "for _ in range(height):\n"
        "    left = 2 * nodes\n"
        "    right = mass >= self.nodes[left]\n"
        "    mass -= np.where(right, self.nodes[left], 0)\n"
        "    nodes = left + right\n"
        "return nodes - first_leaf",
    ),
    wrong=(
        Wrong(
            "no-subtraction",
            "When you go right you do not subtract the left sum. The mass is then compared with "
            "sums that do not start at zero.",
            function=_FindWithoutSubtracting,
        ),
        Wrong(
            "boundary-belongs-left",
            "A mass equal to the left sum goes left. It belongs to the right: the cumulative sum "
            "has to EXCEED the mass, otherwise an index with a zero can be found.",
            edits=(("(mass >= left_sum)", "(mass > left_sum)"),),
        ),
        Wrong(
            "parents-not-updated",
            "Only the lowest parents are renewed after `set`. The sums above them, up to the "
            "root, stay old.",
            edits=(
                (
                    "        for _ in range(self.height):\n            nodes = nodes >> 1",
                    "        for _ in range(min(1, self.height)):\n            nodes = nodes >> 1",
                ),
            ),
        ),
        Wrong(
            "sums-are-added-to",
            "The new values are added to the parents without removing the old ones: replacing a "
            "number makes the total too large.",
            edits=(
                (
                    "            self._nodes[nodes] = self._nodes[left] + self._nodes[left + 1]",
                    "            np.add.at(self._nodes, nodes, values)",
                ),
            ),
        ),
    ),
)

# ------------------------------------------------------------------------------------------ n-step


def nstep_rows(rew, n, gamma, terminated):
    """Return (returns, discounts, dones) of an episode's n-step transitions, as `NStep` does."""
    import numpy as np

    from spinup.algos.common.nstep import NStep

    steps, rows = NStep(n, gamma), []
    for t, r in enumerate(rew):
        last = t == len(rew) - 1
        obs, obs2 = np.array([[t]]), np.array([[t + 1]])
        done = [last and terminated]
        found = steps.add(obs, [[0]], [r], obs2, done, (0,) if last else ())
        if found:
            rows.append(found)
    names = ("rew", "discount", "done")
    return tuple(np.concatenate([row[name] for row in rows]).astype(float) for name in names)


def _nstep_cases():
    import numpy as np

    def case(name, rew, n, gamma, terminated):
        return Case(name, (np.array(rew, float), n, gamma, terminated))

    return [
        case("three rewards, n = 2", [1, 2, 4], 2, 0.5, True),
        case("the episode was cut", [1, 2, 4], 2, 0.5, False),
        case("n = 1", [1, 2, 4], 1, 0.9, True),
        case("n is longer than the episode", [1, 2], 5, 0.9, True),
        case("a single step", [3], 3, 0.9, False),
        case("gamma = 1", [1, 1, 1, 1], 3, 1.0, True),
        case("gamma = 0", [1, 2, 3, 4], 3, 0.0, True),
        case("a long episode", np.random.randn(30), 5, 0.99, False),
        case("rewards at the end only", [0, 0, 0, 0, 1], 3, 0.9, True),
    ]


def _nstep_drop_tail(rew, n, gamma, terminated):
    import numpy as np

    returns, discounts, dones = nstep_rows(rew, n, gamma, terminated)
    keep = max(len(rew) - n + 1, 1)
    return np.array(returns[:keep]), discounts[:keep], dones[:keep]


def _nstep_gamma_n_always(rew, n, gamma, terminated):
    returns, discounts, dones = nstep_rows(rew, n, gamma, terminated)
    return returns, discounts * 0 + gamma**n, dones


def _nstep_only_last_done(rew, n, gamma, terminated):
    returns, discounts, dones = nstep_rows(rew, n, gamma, terminated)
    dones = dones * 0
    dones[-1] = float(terminated)
    return returns, discounts, dones


def _nstep_cut_is_death(rew, n, gamma, terminated):
    return nstep_rows(rew, n, gamma, True)


def _nstep_undiscounted(rew, n, gamma, terminated):
    returns, _, _ = nstep_rows(rew, n, 1.0, terminated)
    return returns, *nstep_rows(rew, n, gamma, terminated)[1:]


NSTEP = Exercise(
    id="dqn.nstep",
    title="n-step transitions and the end of an episode",
    set=8,
    minutes=25,
    difficulty=4,
    algorithms=("dqn",),
    page=PAGE,
    task=r"""
Write `nstep_rows`, in NumPy: turn the rewards of ONE episode of T steps into T n-step
transitions. The transition that starts at step t takes m = min(n, T - t) steps:

    returns[t]   = r_t + gamma r_(t+1) + ... + gamma^(m-1) r_(t+m-1)
    discounts[t] = gamma^m           the factor on the value of the state after these m steps
    dones[t]     = 1 if the episode TERMINATED within these m steps, else 0

- `rew` (T,) contains the rewards, and `terminated` whether the episode terminated after the last
  one. If not, it was cut by a time limit: its last transitions must bootstrap.
- Return the three arrays, (T,) floats each.
""",
    stub='''
import numpy as np

from spinup.exercises import NotYetWritten


def nstep_rows(rew, n, gamma, terminated):
    """Return (returns, discounts, dones), one number per step each."""
    raise NotYetWritten("nstep_rows")
''',
    name="nstep_rows",
    reference="spinup_lab.exercises.sets.set08_dqn:nstep_rows",
    shown=("spinup.algos.common.nstep:NStep",),
    cases=_nstep_cases,
    hints=(
        "Only the last n transitions are special: they have fewer than n steps left, or exactly n "
        "and then the end.",
        "m = min(n, T - t). The episode ends within the m steps if t + m = T, and it is done there "
        "only if it terminated.",
        "for t in range(T):\n"
        "    m = min(n, T - t)\n"
        "    returns[t] = sum(gamma**i * rew[t + i] for i in range(m))\n"
        "    discounts[t] = ...\n"
        "    dones[t] = terminated and ...",
    ),
    wrong=(
        Wrong(
            "tail-dropped",
            "The last steps of the episode, which have fewer than n steps left, are missing. They "
            "are often the ones with the reward.",
            function=_nstep_drop_tail,
        ),
        Wrong(
            "gamma-n-always",
            "Your discount is gamma^n everywhere. Near the end of a cut episode fewer steps were "
            "taken, so the value comes earlier: gamma^m.",
            function=_nstep_gamma_n_always,
        ),
        Wrong(
            "only-the-last-is-done",
            "Only the last transition is done. The n-step transitions before it reach the same "
            "terminal state, so they have no future either.",
            function=_nstep_only_last_done,
        ),
        Wrong(
            "cut-is-death",
            "You treat a time limit as a termination. A cut episode must bootstrap from its last "
            "state.",
            function=_nstep_cut_is_death,
        ),
        Wrong(
            "rewards-not-discounted",
            "The rewards within the n steps are not discounted.",
            function=_nstep_undiscounted,
        ),
    ),
)

EXERCISES = (LOSS_Q, EPSILON, SUM_TREE, NSTEP)

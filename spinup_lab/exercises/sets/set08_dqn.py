"""Problem set 8: DQN."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Discrete

from spinup_lab.exercises.exercise import Case

# ------------------------------------------------------------------------------------------ loss_q


def loss_q_cases():
    import torch

    from spinup_lab.exercises.networks import Networks, TableCritic, batch_of, networks, transition

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
        space, ac, ac_targ = networks("dqn", Discrete(n))
        batch = batch_of(rows, space, done=done)
        extra = {
            "discount": torch.tensor([0.99, 0.98, 0.97])[torch.arange(rows) % 3].double(),
            "weight": torch.rand(rows, dtype=torch.float64),
        }
        batch.update({key: extra[key] for key in more})
        cases.append(Case(name, (ac, ac_targ, batch, gamma), options, grad=grad))
    return cases


# ---------------------------------------------------------------------------------- epsilon_greedy


def epsilon_greedy(q, epsilon, rng):
    """Return one action per row of `q`, as `EpsilonGreedy` does."""
    from spinup.algos.pytorch.dqn.core import EpsilonGreedy

    class Greedy:
        begin = renew = None

        def __call__(self, obs, rng):
            return (q.argmax(-1),)

    return EpsilonGreedy(Greedy(), q.shape[1], epsilon)(q, rng)


def epsilon_cases():
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


def epsilon_shared(q, epsilon, rng):
    if rng.random() < epsilon:
        return rng.integers(q.shape[1], size=len(q))
    return q.argmax(-1)


def epsilon_reversed(q, epsilon, rng):
    explores = rng.random(len(q)) >= epsilon
    act = q.argmax(-1)
    act[explores] = rng.integers(q.shape[1], size=int(explores.sum()))
    return act


def epsilon_never_best(q, epsilon, rng):
    explores = rng.random(len(q)) < epsilon
    best = q.argmax(-1)
    act = best.copy()
    other = rng.integers(q.shape[1] - 1, size=int(explores.sum()))
    act[explores] = other + (other >= best[explores])
    return act


def epsilon_greedy_only(q, epsilon, rng):
    return q.argmax(-1)


# ---------------------------------------------------------------------------------------- sum tree


def tree_cases():
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


def tree_call(make, case):
    size, index, values, mass, more = case.args
    tree = make(size)
    tree.set(index, values)
    for again, new in more:
        tree.set(np.array(again), np.array(new))
    return {"total": tree.total, "found": tree.find(mass), "numbers": tree.get(index)}


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


def nstep_cases():
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


def nstep_drop_tail(rew, n, gamma, terminated):
    returns, discounts, dones = nstep_rows(rew, n, gamma, terminated)
    keep = max(len(rew) - n + 1, 1)
    return np.array(returns[:keep]), discounts[:keep], dones[:keep]


def nstep_gamma_n_always(rew, n, gamma, terminated):
    returns, discounts, dones = nstep_rows(rew, n, gamma, terminated)
    return returns, discounts * 0 + gamma**n, dones


def nstep_only_last_done(rew, n, gamma, terminated):
    returns, discounts, dones = nstep_rows(rew, n, gamma, terminated)
    dones = dones * 0
    dones[-1] = float(terminated)
    return returns, discounts, dones


def nstep_cut_is_death(rew, n, gamma, terminated):
    return nstep_rows(rew, n, gamma, True)


def nstep_undiscounted(rew, n, gamma, terminated):
    returns, _, _ = nstep_rows(rew, n, 1.0, terminated)
    return returns, *nstep_rows(rew, n, gamma, terminated)[1:]

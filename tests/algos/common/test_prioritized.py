"""Prioritised sampling: its distribution, its weights, and what changes the priorities."""

import json

import numpy as np
import pytest

from spinup.algos.common.prioritized import Priorities, SumTree
from spinup.runs.storage.packing import pack, unpack


def filled(size, priorities, alpha=1.0):
    """Priorities whose first rows have exactly these values."""
    found = Priorities(size, alpha, epsilon=0.0)
    index = np.arange(len(priorities))
    found.add(index)
    found.update(index, np.asarray(priorities, dtype=np.float64))
    return found


def inner_sums_are_exact(tree):
    nodes, n = tree._nodes, len(tree._nodes) // 2
    return all(nodes[k] == nodes[2 * k] + nodes[2 * k + 1] for k in range(1, n))


# ---- the tree ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 100])
def test_the_tree_finds_what_a_running_sum_finds(size):
    rng = np.random.default_rng(size)
    values = rng.random(size) * (rng.random(size) < 0.7)
    values[size // 2] = 0.5
    tree = SumTree(size)
    tree.set(np.arange(size), values)
    assert tree.total == pytest.approx(values.sum())
    mass = rng.random(500) * tree.total
    expected = np.searchsorted(np.cumsum(values), mass, side="right")
    np.testing.assert_array_equal(tree.find(mass), expected)


def test_a_mass_on_an_edge_belongs_to_the_next_leaf():
    tree = SumTree(4)
    tree.set(np.arange(4), [1.0, 0.0, 2.0, 1.0])
    assert tree.find(np.array([0.0, 0.5, 1.0, 2.5, 3.0, 3.5])).tolist() == [0, 0, 2, 2, 3, 3]


def test_rounding_never_leads_to_an_empty_leaf():
    tree = SumTree(6)
    tree.set(np.arange(6), [0.0, 1e-3, 0.0, 0.1, 0.7, 0.0])
    beyond = np.nextafter(tree.total, np.inf)
    assert tree.find(np.array([0.0, tree.total, beyond, 2 * tree.total])).tolist() == [1, 4, 4, 4]


def test_many_changes_leave_no_rounding_errors_behind():
    rng = np.random.default_rng(0)
    tree, values = SumTree(37), np.zeros(37)
    for _ in range(300):
        index = rng.integers(37, size=8)
        new = 10.0 ** rng.uniform(-8, 8, 8)
        tree.set(index, new)
        for i, x in zip(index, new, strict=True):
            values[i] = x
    np.testing.assert_array_equal(tree.get(np.arange(37)), values)
    assert inner_sums_are_exact(tree)


def test_of_a_place_named_twice_the_last_value_counts():
    tree = SumTree(5)
    tree.set(np.array([3, 1, 3]), np.array([9.0, 1.0, 2.0]))
    assert tree.get([1, 3]).tolist() == [1.0, 2.0]
    assert tree.total == 3.0


# ---- drawing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_rows_are_drawn_in_proportion_to_error_to_the_alpha(alpha):
    errors = np.array([0.1, 3.0, 1.0, 0.5, 0.01, 2.0, 2.0])
    priorities = filled(10, errors, alpha)
    rng = np.random.default_rng(1)
    draws = np.concatenate([priorities.sample(8, 7, 0.5, rng)[0] for _ in range(20_000)])
    expected = errors**alpha / (errors**alpha).sum()
    found = np.bincount(draws, minlength=10) / len(draws)
    # independent draws would have this deviation; slices make it smaller
    deviation = np.sqrt(expected * (1 - expected) / len(draws))
    assert (np.abs(found[:7] - expected) < 4 * deviation).all()
    assert (found[7:] == 0).all()  # never written


def test_each_slice_of_the_total_gives_one_row():
    priorities = filled(8, np.ones(8))
    rng = np.random.default_rng(0)
    for _ in range(50):
        assert priorities.sample(8, 8, 1.0, rng)[0].tolist() == list(range(8))


def test_importance_weights_by_hand():
    # P = 1/4, 3/4; (N P)^-1 = 2, 2/3; divided by the largest: 1, 1/3
    priorities = filled(2, [1.0, 3.0])
    rng = np.random.default_rng(0)
    by_row = {0: 1.0, 1: 1 / 3}
    index, weight = priorities.sample(4, 2, 1.0, rng)
    assert sorted(index.tolist()) == [0, 1, 1, 1]
    np.testing.assert_allclose(weight, [by_row[i] for i in index.tolist()])
    # beta = 1/2 takes square roots, beta = 0 corrects nothing
    index, weight = priorities.sample(4, 2, 0.5, rng)
    np.testing.assert_allclose(weight, [by_row[i] ** 0.5 for i in index.tolist()])
    assert priorities.sample(4, 2, 0.0, rng)[1].tolist() == [1.0] * 4


def test_weights_undo_the_preference():
    # with beta = 1 the weighted mean of a quantity is its plain mean over the rows
    errors = np.array([0.2, 1.0, 4.0, 0.5, 2.0])
    priorities, values = filled(5, errors), np.array([3.0, -1.0, 5.0, 2.0, 0.0])
    index, weight = priorities.sample(200_000, 5, 1.0, np.random.default_rng(0))
    assert np.average(values[index], weights=weight) == pytest.approx(values.mean(), abs=0.02)
    assert weight.max() == 1.0


# ---- what changes --------------------------------------------------------------------------------


def test_new_rows_get_the_highest_priority_so_far():
    priorities = Priorities(4, alpha=1.0, epsilon=0.0)
    priorities.add(np.array([0, 1]))
    rng = np.random.default_rng(0)
    priorities.sample(1, 2, 1.0, rng)
    assert priorities.tree.get([0, 1, 2]).tolist() == [1.0, 1.0, 0.0]
    priorities.update(np.array([0, 1]), np.array([-5.0, 0.5]))
    priorities.add(np.array([2]))
    priorities.update(np.array([0]), np.array([0.25]))  # the 5 is gone, but it was the highest
    priorities.add(np.array([3, 0]))  # round the ring: row 0 is another one now
    priorities.sample(1, 4, 1.0, rng)
    assert priorities.tree.get(np.arange(4)).tolist() == [5.0, 0.5, 5.0, 5.0]


def test_a_row_written_anew_loses_its_old_priority_even_if_it_was_never_drawn():
    priorities = filled(3, [0.5, 0.25, 0.125])
    assert priorities.highest == 1.0  # errors below 1 do not lower it
    priorities.add(np.array([1]))
    assert priorities.sample(1, 3, 1.0, np.random.default_rng(0))[0].shape == (1,)
    assert priorities.tree.get(np.arange(3)).tolist() == [0.5, 1.0, 0.125]


def test_an_update_that_follows_new_rows_wins_over_them():
    priorities = filled(2, [1.0, 1.0])
    priorities.add(np.array([0]))
    priorities.update(np.array([0]), np.array([0.5]))
    priorities.sample(1, 2, 1.0, np.random.default_rng(0))
    assert priorities.tree.get([0]).tolist() == [0.5]


def test_a_zero_error_is_still_drawn():
    priorities = Priorities(2, alpha=0.5, epsilon=0.01)
    priorities.add(np.array([0, 1]))
    priorities.update(np.array([0, 1]), np.array([0.0, -0.99], np.float32))
    np.testing.assert_allclose(priorities.tree.get([0, 1]), [0.1, 1.0], rtol=1e-6)


def test_saved_priorities_go_on_with_the_same_bits():
    def work(priorities, rng, rounds):
        drawn = []
        for _ in range(rounds):
            priorities.add(rng.integers(100, size=3))
            index, weight = priorities.sample(16, 100, 0.4, rng)
            priorities.update(index, rng.normal(size=16).astype(np.float32))
            drawn.append((index.tolist(), weight.tolist()))
        priorities.add(rng.integers(100, size=3))  # not yet in the tree when it is saved
        return drawn

    first, rng = Priorities(100), np.random.default_rng(0)
    work(first, rng, 20)
    tree, arrays = pack(first.state_dict())
    second, rng2 = Priorities(100), np.random.default_rng(1)
    work(second, rng2, 3)  # whatever was there is forgotten
    second.load_state_dict(unpack(json.loads(json.dumps(tree)), arrays))
    rng2.bit_generator.state = rng.bit_generator.state
    assert inner_sums_are_exact(second.tree)
    assert work(first, rng, 20) == work(second, rng2, 20)
    np.testing.assert_array_equal(first.tree._nodes, second.tree._nodes)


def test_rows_that_were_never_written_are_not_saved():
    assert len(filled(1000, [1.0, 2.0]).state_dict()["priorities"]) == 2

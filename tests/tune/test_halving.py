"""Rungs: how long, how many, who goes on."""

import pytest

from spinup_tune import halving


def test_27_configurations_at_eta_3_cost_7_runs_when_runs_continue():
    assert halving.default_rungs(27, 3, 250) == 3
    assert halving.rung_epochs(250, 3, 3) == [28, 84, 250]
    assert halving.rung_sizes(27, 3, 3) == [27, 9, 3]
    # 3 + 2 + 2, and the default runs for the other 8/9
    assert halving.full_runs(27, 3, 3, 270) == pytest.approx(7 + 8 / 9)


@pytest.mark.parametrize(
    ("trials", "eta", "epochs", "rungs"),
    [(2, 3, 50, 1), (8, 3, 50, 1), (9, 3, 50, 2), (26, 3, 50, 2), (81, 3, 50, 4), (81, 3, 2, 1)],
)
def test_the_first_rung_has_at_least_one_epoch(trials, eta, epochs, rungs):
    assert halving.default_rungs(trials, eta, epochs) == rungs
    ends = halving.rung_epochs(epochs, rungs, eta)
    assert ends[-1] == epochs and ends[0] >= 1 and ends == sorted(set(ends))


def test_the_best_survive_and_the_default_always_does():
    scores = {"default": 0.0, "a": 3.0, "b": None, "c": 5.0, "d": 3.0}
    assert halving.ranked(scores) == ["c", "a", "d", "default", "b"]
    assert halving.survivors(scores, 2) == ["default", "a", "c"]
    assert halving.survivors({"default": 9.0, "a": 3.0, "b": 4.0}, 1) == ["default", "b"]
    assert halving.survivors({"default": None, "a": None, "b": 1.0}, 3) == ["default", "b"]


def test_early_scores_are_means_of_at_most_a_third_of_the_rows():
    assert [halving.window(epoch, 250, 10) for epoch in (1, 9, 28, 84, 250)] == [1, 3, 10, 10, 10]
    assert halving.window(9, 9, 10) == 10


def test_asynchronously_one_of_eta_may_continue_and_none_twice():
    rung = {"a": 1.0, "b": 2.0}
    assert halving.promotable(rung, [], 3) == []
    rung |= {"default": 0.0, "c": None}
    assert halving.promotable(rung, [], 3) == ["b", "default"]
    assert halving.promotable({"default": 9.0, "a": 1.0, "b": 2.0}, [], 3) == ["default"]
    assert halving.promotable(rung, ["b"], 3) == ["default"]

"""The importance of an argument: what it finds, what it calls chance."""

import numpy as np

from spinup_tune.importance import importance, rank
from spinup_tune.spaces import read_space


def test_an_argument_that_decides_is_told_from_those_that_do_not():
    rng = np.random.default_rng(0)
    space = read_space(["a=0.5:1.5", "b=0.5:1.5", "c=x,y,z"], lambda key, value: value)
    values = {f"t{i}": {"a": rng.random(), "b": rng.random(), "c": "xyz"[i % 3]} for i in range(24)}
    scores = {name: -v["a"] + 0.01 * rng.random() for name, v in values.items()}
    found = importance(space, values, scores)
    assert found["a"]["effect"] > 0.95 and found["a"]["direction"] == -1
    assert found["a"]["p"] < 0.01 < min(found["b"]["p"], found["c"]["p"])
    by_choice = {name: float("yzx".index(v["c"])) for name, v in values.items()}
    found = importance(space, values, by_choice)
    assert found["c"]["effect"] == 1.0 and found["c"]["direction"] == 0 and found["c"]["p"] < 0.01
    assert importance(space, values, scores) == importance(space, values, scores)


def test_a_default_without_a_number_is_left_out_of_a_range():
    space = read_space(["a=0:1", "b=1,2,4", "c=1,2,None"], lambda key, value: value)
    values = {f"t{i}": {"a": i / 10, "b": (1, 2, 4)[i % 3], "c": None} for i in range(12)}
    scores = {name: v["a"] for name, v in values.items()}
    expected = importance(space, values, scores)
    assert (expected["a"]["effect"], expected["a"]["direction"]) == (1.0, 1)
    values["default"] = {"a": None, "b": None, "c": None}
    found = importance(space, values, scores | {"default": 99.0})
    assert found["a"] == expected["a"] and found["b"] == expected["b"]
    assert found["c"]["direction"] == 0  # None is one of its choices


def test_configurations_that_diverged_are_the_worst_and_ties_share_a_rank():
    assert rank([3.0, 1.0, 3.0]).tolist() == [1.5, 0.0, 1.5]
    space = read_space(["a=0:1"], lambda key, value: value)
    values = {f"t{i}": {"a": i / 10} for i in range(10)}
    scores = {f"t{i}": None if i > 6 else float(i) for i in range(10)}
    low = importance(space, values, scores)["a"]
    scores |= {"t7": 7.0, "t8": 8.0, "t9": 9.0}
    assert low["effect"] < importance(space, values, scores)["a"]["effect"] == 1.0
    flat = importance(space, values, dict.fromkeys(values, 1.0))["a"]
    assert flat == {"effect": 0.0, "direction": 0, "p": 1.0}

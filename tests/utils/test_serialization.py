"""Anything becomes strict JSON that a person can read."""

import collections
import dataclasses
import enum
import functools
import json
import pathlib

import gymnasium as gym
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spinup.utils.serialization_utils import MAX_TEXT, convert_json, is_json_serializable


def strict(obj):
    """``obj`` as another program reads it."""
    return json.loads(json.dumps(convert_json(obj), allow_nan=False))


class Plain:
    def __init__(self):
        self.width = 3
        self.activation = torch.nn.Tanh


class Loud:
    def __repr__(self):
        raise RuntimeError("no")


class Opaque:
    def __getattr__(self, name):
        raise RuntimeError("no attribute for you")


@dataclasses.dataclass
class Options:
    lr: float = 0.1
    sizes: tuple = (4, 4)


class Color(enum.Enum):
    RED = 1


def test_plain_values_stay_as_they_are():
    value = {"a": [1, 2.5, "x", None, True, False], "b": {"c": -1}}
    assert strict(value) == value


def test_functions_classes_and_modules_go_by_their_name():
    assert convert_json(strict) == "strict"
    assert convert_json(Plain) == "Plain"
    assert convert_json(torch.nn.ReLU) == "ReLU"
    assert convert_json(np.tanh) == "tanh"
    assert convert_json(json) == "json"
    assert convert_json(lambda: 0) == "<lambda>"


def test_objects_show_what_they_hold():
    assert strict(Plain()) == {"Plain": {"width": 3, "activation": "Tanh"}}
    assert strict(Options()) == {"Options": {"lr": 0.1, "sizes": [4, 4]}}
    assert strict(Color.RED) == "Color.RED"
    assert strict(pathlib.PurePosixPath("a/b")) == "a/b"


def test_partials_show_function_and_bound_arguments():
    partial = functools.partial(Plain, 1, actor=torch.nn.Tanh)
    assert strict(partial) == {"partial": "Plain", "args": [1], "keywords": {"actor": "Tanh"}}


def test_numpy_and_torch_values_become_numbers_and_lists():
    assert strict(np.float32(0.5)) == 0.5
    assert strict(np.int64(3)) == 3
    assert strict(np.bool_(True)) is True
    assert strict(np.arange(4).reshape(2, 2)) == [[0, 1], [2, 3]]
    assert strict(torch.tensor([1.0, 2.0])) == [1.0, 2.0]
    assert strict(np.float64("nan")) == "nan"
    assert strict(np.datetime64("2020-01-01")) == "2020-01-01"


def test_text_has_no_memory_address():
    """The same configuration gives the same file in every process."""
    value = {"f": functools.partial(Plain().__init__), "o": object(), "g": (i for i in ())}
    assert "0x" not in json.dumps(convert_json(value))


def test_spaces_and_environments_become_one_short_line():
    env = gym.make("CartPole-v1")
    shown = strict({"env": env, "raw": env.unwrapped, "space": env.action_space})
    env.close()
    assert "CartPole-v1" in shown["env"]
    assert shown["space"] == "Discrete(2)"
    assert all(isinstance(v, str) and len(v) <= MAX_TEXT for v in shown.values())


def test_tuples_become_lists_and_keys_strings():
    assert strict({1: (1, (2,)), None: 0, (1, 2): 0, Plain: 0}) == {
        "1": [1, [2]],
        "None": 0,
        "(1, 2)": 0,
        "Plain": 0,
    }


def test_keys_that_look_alike_stay_two():
    assert sorted(strict({1: "int", "1": "str"}).values()) == ["int", "str"]


def test_cycles_end_in_a_repr():
    loop = {"x": 1}
    loop["self"] = loop
    chain = [1]
    chain.append(chain)
    node = Plain()
    node.me = node
    assert strict(loop)["x"] == 1 and isinstance(strict(loop)["self"], str)
    assert strict(chain)[0] == 1 and isinstance(strict(chain)[1], str)
    assert isinstance(strict(node)["Plain"]["me"], str)


def test_the_same_object_twice_is_no_cycle():
    sizes = [32, 32]
    assert strict({"pi": sizes, "v": sizes}) == {"pi": [32, 32], "v": [32, 32]}


@pytest.mark.parametrize(
    "huge",
    [
        np.zeros((1000, 1000)),
        torch.zeros(5000),
        list(range(10**6)),
        {i: i for i in range(10**5)},
        set(range(10**5)),
        10**100_000,
        functools.reduce(lambda inner, _: [inner], range(500), 0),
        [[[0] * 900 for _ in range(900)] for _ in range(3)],
    ],
    ids=["array", "tensor", "list", "dict", "set", "int", "deep", "wide"],
)
def test_huge_objects_end_in_a_repr(huge):
    assert len(json.dumps(strict(huge))) < 500_000


def test_large_array_names_shape_and_dtype():
    assert (
        convert_json(np.zeros((100, 100), np.float32)) == "array(shape=(100, 100), dtype=float32)"
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), np.inf, 1j])
def test_non_finite_numbers_give_valid_json(value):
    assert isinstance(strict([value])[0], str)


def test_objects_that_refuse_to_be_looked_at_do_not_stop_the_conversion():
    assert "Loud" in strict(Loud())
    assert "Opaque" in json.dumps(strict(Opaque()))
    assert isinstance(strict({Loud(): Loud()}), dict)


def test_is_json_serializable_is_strict():
    assert is_json_serializable({"a": [1, None]})
    loop = []
    loop.append(loop)
    for value in (float("nan"), {1, 2}, object(), {(1,): 2}, np.float32(1), loop, b"x"):
        assert not is_json_serializable(value)


leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.binary(),
    st.complex_numbers(),
    st.sampled_from([Plain, Plain(), Color.RED, len, np.float32("inf")]),
)
keys = st.one_of(st.text(), st.integers(), st.floats(), st.none(), st.tuples(st.integers()))
things = st.recursive(
    leaves,
    lambda x: st.one_of(
        st.lists(x),
        st.dictionaries(keys, x),
        st.tuples(x, x),
        st.builds(collections.deque, st.lists(x)),
    ),
    max_leaves=20,
)


@given(things)
def test_every_result_is_strict_json(thing):
    json.dumps(convert_json(thing), allow_nan=False)

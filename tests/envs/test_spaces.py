"""Spaces survive JSON exactly, and unsupported ones are refused in one sentence."""

import json

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from spinup.envs.bounds import require_finite_bounds, require_width
from spinup.envs.old_interface import convert_space
from spinup.envs.space_json import space_from_json, space_to_json
from spinup.envs.spaces import check_spaces, is_image
from spinup.utils.errors import SpinupError


def round_trip(space):
    return space_from_json(json.loads(json.dumps(space_to_json(space), allow_nan=False)))


def assert_same(a, b):
    """Equal as spaces, and bit for bit in what `==` compares loosely or not at all."""
    assert a == b
    assert type(a) is type(b)
    if isinstance(a, spaces.Box):
        assert a.low.tobytes() == b.low.tobytes() and a.high.tobytes() == b.high.tobytes()
        assert a.low.dtype == b.low.dtype
        np.testing.assert_array_equal(a.bounded_below, b.bounded_below)
        np.testing.assert_array_equal(a.bounded_above, b.bounded_above)
    elif isinstance(a, spaces.Dict):
        assert list(a.spaces) == list(b.spaces)
        for key in a.spaces:
            assert_same(a[key], b[key])
    elif isinstance(a, spaces.Tuple):
        for x, y in zip(a.spaces, b.spaces, strict=True):
            assert_same(x, y)


SPACES = [
    spaces.Box(-1, 1, (3,)),
    spaces.Box(0, 255, (4, 5, 3), np.uint8),
    spaces.Box(-np.inf, np.inf, (2,), np.float64),
    spaces.Box(np.array([-1, -np.inf, 0.1]), np.array([1, 2, np.inf]), dtype=np.float64),
    spaces.Box(np.array([-0.1, -3], np.float32), np.array([0.3, np.inf], np.float32)),
    spaces.Box(-np.inf, 7, (2,), np.int32),
    spaces.Box(0, 1, (2,), np.bool_),
    spaces.Box(0, 1, ()),
    spaces.Box(np.array([-(2**53) - 1, 0]), np.array([2**53 + 1, 1]), dtype=np.int64),
    spaces.Discrete(4),
    spaces.Discrete(4, start=-2),
    spaces.MultiDiscrete([3, 2]),
    spaces.MultiDiscrete([[3, 2], [4, 5]], dtype=np.int32, start=[[0, 1], [2, -3]]),
    spaces.MultiBinary(3),
    spaces.MultiBinary([2, 3]),
    spaces.Tuple([spaces.Discrete(2), spaces.Box(-2, 2, (1,))]),
    spaces.Dict([("z", spaces.Discrete(2)), ("a", spaces.Dict({"b": spaces.MultiBinary(2)}))]),
    spaces.Dict({1: spaces.Discrete(2), 2: spaces.Discrete(3)}),
]


@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_json_round_trip_is_exact(space):
    assert_same(space, round_trip(space))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.floats(allow_nan=False, width=32, max_value=0),
            st.floats(allow_nan=False, width=32, min_value=0),
        ).filter(lambda pair: pair[0] != np.inf and pair[1] != -np.inf),
        min_size=1,
        max_size=4,
    )
)
def test_json_round_trip_keeps_every_float32_bound(bounds):
    low, high = (np.array(end, np.float32) for end in zip(*bounds, strict=True))
    space = spaces.Box(low, high, dtype=np.float32)
    assert_same(space, round_trip(space))


def test_uniform_bounds_are_written_once():
    assert space_to_json(spaces.Box(0, 255, (84, 84, 4), np.uint8))["high"] == 255
    assert space_to_json(spaces.Box(-np.inf, np.inf, (9,)))["low"] == "-inf"


def test_a_space_that_cannot_be_saved_is_named():
    with pytest.raises(SpinupError, match="Text"):
        space_to_json(spaces.Text(3))


@pytest.mark.parametrize(
    "d",
    [
        {},
        {"type": "Graph"},
        {"type": "Box", "shape": [2], "dtype": "float32", "low": [0, 0, 0], "high": 1},
        {"type": "Box", "shape": [2], "dtype": "object", "low": 0, "high": 1},
        {"type": "Discrete", "n": "four", "start": 0},
        {"type": "Tuple", "spaces": 3},
        [],
    ],
)
def test_broken_descriptions_are_an_error_of_ours(d):
    with pytest.raises(SpinupError):
        space_from_json(d)


# -- check_spaces -------------------------------------------------------------------------------

BOX = spaces.Box(-1, 1, (3,))
ALL = ("Box", "Discrete", "MultiDiscrete", "MultiBinary")


@pytest.mark.parametrize("observation", [s for s in SPACES if not isinstance(s, spaces.Text)])
def test_supported_observations_pass(observation):
    check_spaces("ppo", observation, spaces.Discrete(2), ALL)


@pytest.mark.parametrize(
    "action", [BOX, spaces.Discrete(2), spaces.MultiDiscrete([2]), spaces.MultiBinary(2)]
)
def test_supported_actions_pass(action):
    check_spaces("ppo", BOX, action, ALL)


@pytest.mark.parametrize(
    "action, word",
    [
        (spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]), "Tuple"),
        (spaces.Dict({"a": spaces.Discrete(2)}), "Dict"),
        (spaces.Box(0, 3, (2,), np.int64), "int64"),
        (spaces.Box(-1, 1, (0,)), "no elements"),
        (spaces.Box(-1, 1, ()), r"\(1,\)"),
        (spaces.Text(3), "Text"),
        (None, "NoneType"),
    ],
)
def test_unsupported_actions_are_one_sentence(action, word):
    with pytest.raises(SpinupError, match=word) as error:
        check_spaces("ppo", BOX, action, ALL)
    message = str(error.value)
    assert message.startswith("ppo cannot use the action space ")
    assert "it supports Box (floating-point), Discrete, MultiDiscrete and MultiBinary" in message
    assert "\n" not in message


def test_each_algorithm_has_its_own_list():
    check_spaces("ppo", BOX, spaces.Discrete(2), ("Box", "Discrete"))
    with pytest.raises(SpinupError, match=r"sac cannot use .*Discrete\(2\).*supports Box"):
        check_spaces("sac", BOX, spaces.Discrete(2), ("Box",))
    with pytest.raises(SpinupError, match=r"dqn cannot use .*Box.*supports Discrete"):
        check_spaces("dqn", BOX, BOX, ("Discrete",))


@pytest.mark.parametrize(
    "observation, word",
    [
        (spaces.Text(3), "Text"),
        (spaces.Dict({"a": BOX, "b": spaces.Text(3)}), "Text"),
        (spaces.Sequence(BOX), "Sequence"),
        (spaces.Box(-1, 1, (2, 0)), "no elements"),
        (spaces.Tuple([]), "no elements"),
        (None, "NoneType"),
    ],
)
def test_unsupported_observations_are_one_sentence(observation, word):
    with pytest.raises(SpinupError, match=f"ppo cannot use the observation space .*{word}"):
        check_spaces("ppo", observation, BOX, ALL)


def test_a_long_space_does_not_fill_the_screen():
    space = spaces.Box(np.arange(-500, 0), np.arange(500), dtype=np.int64)
    with pytest.raises(SpinupError) as error:
        check_spaces("ppo", BOX, space, ALL)
    assert len(str(error.value)) < 400


# -- bounds -------------------------------------------------------------------------------------


def test_infinite_bounds_are_a_clear_error():
    require_finite_bounds("sac", spaces.Box(np.array([-1.0, 0], "f"), np.array([3.0, 0.5], "f")))
    space = spaces.Box(np.array([-1.0, -2.0], "f"), np.array([1.0, np.inf], "f"))
    with pytest.raises(SpinupError, match=r"sac .* dimension 1 .*finite"):
        require_finite_bounds("sac", space)


def test_a_dimension_without_a_choice_has_no_density():
    space = spaces.Box(np.array([-1.0, 0.5], "f"), np.array([1.0, 0.5], "f"))
    with pytest.raises(SpinupError, match=r"^sac .* dimension 1 .* only one value \(0\.5\)"):
        require_width("sac", space)
    require_width("sac", spaces.Box(-1.0, 1.0, (2, 2)))


def test_bounds_whose_range_overflows_count_as_infinite():
    most = np.finfo(np.float32).max
    with pytest.raises(SpinupError, match="dimension 0"):
        require_finite_bounds("sac", spaces.Box(-most, most, (1,)))


# -- spaces of other libraries ------------------------------------------------------------------


class Duck:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class MultiBinary(Duck):
    """As old gym's: `n`, and a name that tells it from Discrete."""


@pytest.mark.parametrize(
    "duck, space",
    [
        (Duck(n=3), spaces.Discrete(3)),
        (Duck(n=np.int64(3), shape=(), start=2), spaces.Discrete(3, start=2)),
        (Duck(nvec=[2, 3]), spaces.MultiDiscrete([2, 3])),
        (Duck(nvec=np.array([2, 3]), shape=(2,), start=[1, 0]), None),
        (Duck(n=3, shape=(3,)), spaces.MultiBinary(3)),
        (MultiBinary(n=2), spaces.MultiBinary(2)),
        (Duck(low=-1, high=1, shape=(2,)), spaces.Box(-1, 1, (2,))),
        (
            Duck(low=np.array([0.0, 1.0]), high=np.array([2.0, 3.0]), dtype=np.float64),
            spaces.Box(np.array([0.0, 1.0]), np.array([2.0, 3.0]), dtype=np.float64),
        ),
        (Duck(low=0, high=255, shape=(2, 2), dtype="uint8"), spaces.Box(0, 255, (2, 2), np.uint8)),
        (
            Duck(spaces=[Duck(n=2), Duck(n=3)]),
            spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)]),
        ),
        (
            Duck(spaces={"z": Duck(n=2), "a": Duck(n=3)}),
            spaces.Dict([("z", spaces.Discrete(2)), ("a", spaces.Discrete(3))]),
        ),
    ],
)
def test_spaces_are_recognised_by_their_attributes(duck, space):
    if space is None:
        space = spaces.MultiDiscrete([2, 3], start=[1, 0])
    assert_same(convert_space(duck), space)


def test_own_spaces_stay_the_same_object():
    assert convert_space(BOX) is BOX


def test_what_is_no_space_is_an_error():
    with pytest.raises(SpinupError, match=r"gymnasium.spaces"):
        convert_space(Duck(size=3))


# -- images -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "space, image",
    [
        (spaces.Box(0, 255, (84, 84, 3), np.uint8), True),
        (spaces.Box(0, 1, (10, 10, 4), np.bool_), True),
        (spaces.Box(0, 1, (10, 10, 4), np.float32), False),
        (spaces.Box(0, 255, (84, 84), np.uint8), False),
        (spaces.Box(0, 255, (2, 84, 84, 3), np.uint8), False),
        (spaces.MultiBinary((10, 10, 4)), False),
    ],
    ids=repr,
)
def test_an_image_has_three_axes_of_bytes_or_flags(space, image):
    assert is_image(space) is image

"""What a flag of one's own function takes follows from its annotation or its default."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Optional, Union

import pytest

from spinup import SpinupError
from spinup.cli import flags


def typed(
    count: int = 3,
    ratio: float | None = 0.5,
    either: Union[int, float] = 1,  # noqa: UP007 - the older spellings are to work as well
    old: Optional[int] = None,  # noqa: UP045
    mode: Literal["fast", "slow"] = "fast",
    weight: float | Literal["auto"] = 1.0,
    switch: bool | None = None,
    label: str | None = None,
    sizes: Sequence[int] = (1, 2),
    options: Mapping[str, Any] | None = None,
    make: Callable[[], Any] | None = None,
    other: Any = None,
): ...


def as_text(
    count: "int" = 3,
    ratio: "float | None" = 0.5,
    either: "int | float" = 1,
    old: "int | None" = None,
    mode: "Literal['fast', 'slow']" = "fast",
    weight: "float | Literal['auto']" = 1.0,
    switch: "bool | None" = None,
    label: "str | None" = None,
    sizes: "Sequence[int]" = (1, 2),
    options: "Mapping[str, Any] | None" = None,
    make: "Callable[[], Any] | None" = None,
    other: "Any" = None,
): ...


def value(function, name, *words):
    parameter = flags.parameter_of(function, name, f"--{name}")
    (found,) = flags.values_of(flags.Flag(f"--{name}", name, None, words), parameter, "")
    return found


@pytest.mark.parametrize("function", [typed, as_text])
@pytest.mark.parametrize(
    ("name", "word", "expected"),
    [
        ("count", "4e3", 4000),
        ("count", "-1", -1),
        ("ratio", "None", None),
        ("ratio", "inf", float("inf")),
        ("either", "2", 2),
        ("either", "2.5", 2.5),
        ("old", "7", 7),
        ("old", "None", None),
        ("mode", "slow", "slow"),
        ("weight", "auto", "auto"),
        ("weight", "2", 2),
        ("switch", "true", True),
        ("switch", "None", None),
        ("label", "1", "1"),
        ("label", "None", None),
        ("sizes", "3,4", (3, 4)),
        ("make", "x", "x"),
        ("other", "[1]", [1]),
    ],
)
def test_accepted(function, name, word, expected):
    found = value(function, name, word)
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize("function", [typed, as_text])
@pytest.mark.parametrize(
    ("name", "words", "sentence"),
    [
        ("count", ["2.5"], "'--count' must be a whole number, not 2.5"),
        ("count", ["None"], "'--count' must be a whole number, not None"),
        ("ratio", ["half"], "'--ratio' must be a number or None, not 'half'"),
        ("ratio", [], "'--ratio' needs a value (its default is 0.5)"),
        ("old", ["0.5"], "'--old' must be a whole number, or None, not 0.5"),
        ("mode", ["fats"], "'--mode' must be 'fast' or 'slow', not 'fats'"),
        (
            "weight",
            ["Auto"],
            "'--weight' must be a number or 'auto', not 'Auto'",
        ),
        ("switch", ["maybe"], "'--switch' must be True, False or None, not 'maybe'"),
        ("options", ["1"], "'--options' is a dict: set its entries, as in --options:KEY VALUE"),
    ],
)
def test_refused(function, name, words, sentence):
    with pytest.raises(SpinupError) as error:
        value(function, name, *words)
    assert str(error.value) == sentence


def test_the_table_speaks_for_its_arguments_unless_their_default_is_something_else():
    def mine(gamma=0.9, alpha="x", k: Literal["a"] | int = 1): ...

    parameters = inspect.signature(mine).parameters
    assert str(flags.domain_of("gamma", parameters["gamma"])) == "a number between 0 and 1"
    assert str(flags.domain_of("alpha", parameters["alpha"])) == "a word"
    assert str(flags.domain_of("k", parameters["k"])) == "a whole number, at least 0, or 'a'"


@pytest.mark.parametrize(
    ("word", "expected"), [("false", False), ("true", True), ("False", False), ("fast", "fast")]
)
def test_booleans_of_an_environment_may_be_written_in_lower_case(word, expected):
    """Nothing says which of its arguments are booleans, and 'false' as a word would be true."""
    assert value(typed, "env_kwargs:episodic_life", word) == expected

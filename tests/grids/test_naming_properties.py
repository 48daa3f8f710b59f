"""Properties of variants and names that hold for every grid, not only for the cases in a table."""

import copy
import itertools
import math
import re

from hypothesis import assume, given
from hypothesis import strategies as st

from spinup.grids.experiments import ExperimentGrid, valid_str
from spinup.utils.errors import SpinupError

words = st.text("abcdefgh_XYZ0123", min_size=1, max_size=8)
keys = st.lists(words, min_size=1, max_size=3).map(":".join)
scalars = st.one_of(
    st.integers(-1000, 1000), st.floats(allow_nan=False), st.booleans(), st.none(), st.text()
)
values = st.one_of(scalars, st.lists(scalars, max_size=3).map(tuple))
shorthands = st.none() | st.from_regex(r"([a-zA-Z][a-zA-Z0-9_-]{0,4})?", fullmatch=True)
rows = st.tuples(keys, st.lists(values, min_size=1, max_size=3), shorthands, st.booleans())


def clash(a, b):
    """Whether a grid cannot have both keys: they are the same, or one is inside the other."""
    a, b = a.split(":"), b.split(":")
    return a[: len(b)] == b[: len(a)]


@st.composite
def grids(draw):
    """A grid and the rows it was made of."""
    chosen = []
    for row in draw(st.lists(rows, max_size=4)):
        if not any(clash(row[0], other[0]) for other in chosen) and row[0] != "seed":
            chosen.append(row)
    if draw(st.booleans()):
        seeds = draw(st.lists(st.integers(0, 99), min_size=1, max_size=3, unique=True))
        chosen.insert(draw(st.integers(0, len(chosen))), ("seed", seeds, None, False))
    eg = ExperimentGrid(draw(st.sampled_from(["", "g", "my-grid"])))
    for row in chosen:
        eg.add(*row)
    return eg, chosen


def lookup(variant, key):
    for part in key.split(":"):
        variant = variant[part]
    return variant


@given(grids())
def test_there_is_one_variant_for_every_combination_in_order(pair):
    eg, chosen = pair
    variants = eg.variants()
    assert len(variants) == math.prod(len(vals) for _, vals, _, _ in chosen)
    expected = itertools.product(*(vals for _, vals, _, _ in chosen))
    for variant, combination in zip(variants, expected, strict=True):
        for (key, *_), value in zip(chosen, combination, strict=True):
            assert lookup(variant, key) is value  # the very object: nothing is converted


@given(grids())
def test_variants_are_independent_and_made_anew(pair):
    eg, _ = pair
    first, second = eg.variants(), eg.variants()
    untouched = copy.deepcopy(second)
    for variant in first:
        for value in list(variant.values()):
            if isinstance(value, dict):
                value.clear()
        variant.clear()
    assert second == untouched == eg.variants()


@given(grids())
def test_a_name_is_the_grids_and_a_part_for_each_key_that_varies(pair):
    """The rules of naming, written down a second time."""
    eg, chosen = pair
    for variant in eg.variants():
        parts = [eg.name]
        for key, vals, shorthand, in_name in chosen:
            if key == "seed" or (len(vals) == 1 and not in_name):
                continue
            if shorthand is None:
                pieces = [re.sub("[^a-zA-Z0-9]", "", piece[:3]) for piece in key.split(":")]
                shorthand = "-".join(pieces)
            value, label = lookup(variant, key), shorthand.lower()
            if label and {type(v) for v in vals} == {bool}:
                parts += [label] if value else []
            else:
                parts.append(label + valid_str(value))
        assert eg.variant_name(variant) == "_".join(part for part in parts if part)


@given(grids())
def test_a_name_is_a_file_name(pair):
    eg, _ = pair
    for variant in eg.variants():
        assert re.fullmatch(r"[A-Za-z0-9_-]*", eg.variant_name(variant))


@given(grids())
def test_flat_and_nested_variants_have_the_same_name(pair):
    eg, chosen = pair
    for variant in eg.variants():
        flat = {key: lookup(variant, key) for key, *_ in chosen}
        assert eg.variant_name(flat) == eg.variant_name(variant)


@given(grids(), st.lists(st.integers(0, 99), min_size=1, max_size=3, unique=True))
def test_seeds_are_never_in_a_name(pair, seeds):
    eg, _ = pair
    assume("seed" not in eg.keys)
    names = [eg.variant_name(variant) for variant in eg.variants()]
    eg.add("seed", seeds, in_name=True)
    seeded = [eg.variant_name(variant) for variant in eg.variants()]
    assert seeded == [name for name in names for _ in seeds]


@given(grids(), words, values)
def test_an_argument_with_one_value_changes_no_name(pair, key, value):
    eg, _ = pair
    key = f"zz{key}"  # not among the others
    names = [eg.variant_name(variant) for variant in eg.variants()]
    eg.add(key, [value])
    assert [eg.variant_name(variant) for variant in eg.variants()] == names


@given(grids())
def test_no_two_cells_share_a_directory(pair):
    eg, _ = pair
    variants = eg.variants()
    taken = {(eg.variant_name(v) or "experiment", v.get("seed", 0)) for v in variants}
    try:
        cells = eg.cells(print)
    except SpinupError as error:
        assert "two runs of the grid" in str(error) and len(taken) < len(variants)
    else:
        assert {(c.exp_name, c.seed) for c in cells} == taken and len(taken) == len(cells)
        again = {c.hash for c in eg.cells(print)}
        assert {c.hash for c in cells} == again and len(again) == len(cells)


@given(values)
def test_valid_str_of_a_valid_str_is_itself(value):
    text = valid_str(value)
    assert valid_str(text) == text and re.fullmatch(r"[a-z0-9_-]*", text)


@given(st.lists(scalars, max_size=4))
def test_lists_and_tuples_are_joined_by_dashes(items):
    expected = "-".join(valid_str(item) for item in items)
    assert valid_str(items) == valid_str(tuple(items)) == expected

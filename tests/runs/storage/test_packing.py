"""What `pack` takes apart, `unpack` puts together, down to the bits."""

import collections
import json
import math
import struct

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from spinup.runs.storage.checkpoints import load_checkpoint, save_checkpoint
from spinup.runs.storage.packing import pack, unpack
from spinup.utils.errors import SpinupError


def through_json(state):
    """What a checkpoint does to a state, without the disk."""
    tree, arrays = pack(state)
    return unpack(json.loads(json.dumps(tree, allow_nan=False)), arrays)


def assert_same(a, b):
    """Equal down to types, dtypes, signs of zero and bits of NaN."""
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert len(a) == len(b)
        for (ka, va), (kb, vb) in zip(a.items(), b.items(), strict=True):
            assert_same(ka, kb)
            assert_same(va, vb)
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif isinstance(a, (np.ndarray, np.generic)):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert a.tobytes() == b.tobytes()
    elif isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype and a.shape == b.shape and a.requires_grad == b.requires_grad
        if a.numel():
            x, y = (t.detach().resolve_conj().reshape(-1).view(torch.uint8) for t in (a, b))
            assert torch.equal(x, y)
    elif isinstance(a, float):
        assert struct.pack("<d", a) == struct.pack("<d", b)
    else:
        assert a == b


dtypes = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(),
    hnp.unsigned_integer_dtypes(),
    hnp.floating_dtypes(sizes=(16, 32, 64)),
    hnp.complex_number_dtypes(sizes=(64, 128)),
    hnp.unicode_string_dtypes(),
    hnp.byte_string_dtypes(),
    hnp.datetime64_dtypes(),
)
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
arrays = hnp.arrays(dtypes, shapes)
torch_dtypes = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.bool]
torch_dtypes += [torch.uint8, torch.int8, torch.int64, torch.complex64, torch.complex128]
tensors = st.builds(
    lambda shape, dtype: (torch.arange(math.prod(shape)).reshape(shape) - 3).to(dtype),
    shapes,
    st.sampled_from(torch_dtypes),
)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(max_size=200)
)
keys = st.one_of(scalars, st.tuples(st.integers(), st.text()))
leaves = st.one_of(
    scalars, arrays, tensors, arrays.filter(lambda a: a.size).map(lambda a: a.flat[0])
)
states = st.recursive(
    leaves,
    lambda x: st.one_of(
        st.lists(x, max_size=4),
        st.tuples(x, x),
        st.dictionaries(keys, x, max_size=4),
        st.dictionaries(st.text(), x, max_size=4).map(collections.OrderedDict),
    ),
    max_leaves=10,
)


@given(states)
def test_unpack_is_the_exact_inverse_of_pack(state):
    assert_same(through_json(state), state)


@pytest.mark.parametrize(
    "value",
    [
        2**20_000,  # more digits than Python prints
        -(2**64),
        float("nan"),
        -0.0,
        struct.unpack("<d", bytes.fromhex("010000000000f8ff"))[0],
        {"$": "tuple", "v": [1]},
        {1: "int", "1": "str", (1, 2): None, b"k": True},
        np.zeros((0, 3), np.float32),
        np.array(3.5),
        np.arange(600, dtype=">f4").reshape(2, 300),
        np.array(["a", "bcd"]),
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        np.arange(1000.0).reshape(50, 20).T,
        np.arange(1000.0)[::-3],
        np.longdouble(1) / 3,
        np.random.default_rng(0).bit_generator.state,
        torch.arange(100.0).reshape(10, 10).T,
        torch.tensor(1.5, requires_grad=True),
        torch.nn.Parameter(torch.ones(30)),
        torch.randn(40).to(torch.bfloat16),
        torch.tensor([1 + 2j]).conj(),
        torch.nn.Linear(3, 3).state_dict(),
        b"\x00" * 500,
    ],
    ids=lambda v: type(v).__name__,
)
def test_awkward_values_come_back(value):
    if isinstance(value, dict) and hasattr(value, "_metadata"):
        value = collections.OrderedDict(value)
    assert_same(through_json({"v": value})["v"], value)


def test_one_number_with_any_stride_comes_back():
    value = torch.tensor(2.5).expand(1)  # contiguous, says torch, with a stride of 0
    assert value.stride() == (0,)
    assert torch.equal(through_json({"v": value})["v"], torch.tensor([2.5]))


def test_loaded_arrays_and_tensors_can_be_written(tmp_path):
    state = {
        "small": np.zeros(2),
        "large": np.zeros(500),
        "t": torch.zeros(2),
        "u": torch.zeros(90),
    }
    save_checkpoint(tmp_path, state, 1)
    loaded, _ = load_checkpoint(tmp_path)
    for value in loaded.values():
        value += 1
    assert all(v.sum() == len(v) for v in loaded.values())


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {1, 2},
        np.array([object()]),
        collections.namedtuple("P", "x")(1),
        np.ma.masked_array([1, 2]),
        torch.eye(2).to_sparse(),
        lambda: 0,
    ],
    ids=lambda v: type(v).__name__,
)
def test_unknown_type_is_an_error_that_names_the_place(value):
    with pytest.raises(SpinupError, match=r"state\['agent'\]\[1\]"):
        pack({"agent": [0, value]})


def test_a_state_that_contains_itself_is_an_error():
    loop = []
    loop.append(loop)
    with pytest.raises(SpinupError, match="contains itself"):
        pack(loop)


@pytest.mark.parametrize(
    "tree",
    [
        {"$": "pickle", "v": "gASVCgAA"},
        {"$": "array", "d": "'|O'", "s": [1], "b": "AAAAAAAAAAA="},
        {"$": "array", "d": "__import__('os').system('false')", "s": [1], "b": ""},
        {"$": "array", "d": "'<f8'", "s": [1000], "b": "AAAA"},
        {"$": "tensor", "d": "load", "s": [1], "g": False, "b": "AAAA"},
        {"$": "tensor", "d": "float32", "s": [7], "g": False, "b": "AAAA"},
        {"$": "array", "d": "'<f8'", "s": [1], "a": "missing"},
        {"$": "dict", "v": [[[], 1]]},
        {"$": "int", "v": "ten"},
    ],
    ids=lambda t: str(t["$"]) + str(t.get("d", "")),
)
def test_forged_tree_is_an_error_and_runs_nothing(tree):
    with pytest.raises(SpinupError):
        unpack(tree, {})

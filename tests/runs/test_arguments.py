"""The table of domains: what it lets through, and that training functions refuse by it."""

import inspect
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spinup import SpinupError, registry
from spinup.runs.arguments import DOMAINS, Domain, check_domains

SHARES = [name for name, domain in DOMAINS.items() if domain.most == 1]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gamma", 0),
        ("gamma", 1),
        ("gamma", np.float32(0.5)),
        ("gamma", torch.tensor(0.5)),
        ("replay_size", 1e6),
        ("batch_size", np.int64(3)),
        ("max_ep_len", math.inf),
        ("clip_ratio", math.inf),
        ("target_kl", None),
        ("minibatch_size", None),
        ("alpha", "auto"),
        ("train_pi_iters", 0),
        ("epochs", 0),
        ("pi_lr", 0),
    ],
)
def test_inside(name, value):
    check_domains({name: value, "something_else": object()})


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("gamma", 1.01, "gamma=1.01 must be between 0 and 1"),
        ("polyak", -0.1, "polyak=-0.1 must be between 0 and 1"),
        ("gamma", math.nan, "gamma=nan must be between 0 and 1"),
        ("gamma", True, "gamma=True must be between 0 and 1"),
        ("gamma", "0.5", "gamma='0.5' must be between 0 and 1"),
        ("gamma", None, "gamma=None must be between 0 and 1"),
        ("lr", -1e-3, "lr=-0.001 must be a number, zero or more"),
        ("lr", math.inf, "lr=inf must be a number, zero or more"),
        ("clip_ratio", -math.inf, "clip_ratio=-inf must be a number, zero or more"),
        ("max_grad_norm", 0.0, "max_grad_norm=0.0 must be a number above 0, or None"),
        ("batch_size", 0, "batch_size=0 must be a whole number, at least 1"),
        ("batch_size", 2.5, "batch_size=2.5 must be a whole number, at least 1"),
        ("minibatch_size", 0, "minibatch_size=0 must be a whole number, at least 1, or None"),
        ("alpha", "AUTO", "alpha='AUTO' must be a number, zero or more, or 'auto'"),
        ("seed", [1], "seed=[1] must be a whole number, at least 0"),
    ],
)
def test_outside(name, value, fault):
    with pytest.raises(SpinupError) as error:
        check_domains({name: value})
    assert str(error.value) == fault


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_a_share_is_what_lies_between_0_and_1(x):
    assert (Domain(0, 1).fault(x) is None) == (0 <= x <= 1)


@given(st.integers(-5, 5) | st.floats(-5, 5))
def test_a_count_is_a_whole_number_from_1_on(x):
    assert (Domain(1, whole=True).fault(x) is None) == (x >= 1 and x == int(x))


@pytest.mark.parametrize("name", registry.algorithms())
def test_every_default_lies_inside_and_every_number_has_a_domain(name):
    free = {"target_entropy"}  # any number
    for parameter in inspect.signature(registry.load(name)).parameters.values():
        default = parameter.default
        if parameter.name in DOMAINS:
            assert DOMAINS[parameter.name].fault(default) is None, parameter
        elif parameter.name not in free:
            number = isinstance(default, int | float) and not isinstance(default, bool)
            assert not number, f"{name} has {parameter.name}, which has no domain"


def test_what_an_algorithm_passes_on_to_another_has_the_same_domain():
    with pytest.raises(SpinupError, match="act_noise=-1 must be a number, zero or more"):
        registry.load("her")(lambda: None, base_kwargs={"act_noise": -1})


@pytest.mark.parametrize("name", registry.algorithms())
def test_a_training_function_refuses_before_it_makes_an_environment(name, tmp_path):
    def env_fn():
        raise AssertionError("an environment was made")

    function = registry.load(name)
    takes = inspect.signature(function).parameters
    for wrong in [name for name in SHARES if name in takes]:
        with pytest.raises(SpinupError, match=f"{wrong}=1.5 must be between 0 and 1"):
            function(env_fn, **{wrong: 1.5, "logger_kwargs": {"output_dir": str(tmp_path / "x")}})
    assert not list(tmp_path.iterdir())

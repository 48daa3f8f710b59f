"""The table of arguments: what it lets through, what it says, and what training functions do."""

import inspect
import math
import pickle
import threading
import traceback

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spinup import SpinupError, registry
from spinup.runs.arguments import OffPolicyOptions, Unpack
from spinup.runs.arguments.domains import Kind, Number, OneOf
from spinup.runs.arguments.options import DEFAULTS
from spinup.runs.arguments.table import (
    ARGUMENTS,
    check_arguments,
    check_sizes,
    complete_docstring,
    current_call,
    described,
    opens_a_run,
    training_function,
)

FRACTIONS = [name for name, a in ARGUMENTS.items() if getattr(a.domain, "most", None) == 1]


# ------------------------------------------------------------------------------------- the domains


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
        ("target_entropy", -3),
        ("train_pi_iters", 0),
        ("epochs", 0),
        ("pi_lr", 0),
        ("device", "cuda:1"),
        ("device", torch.device("cuda", 1)),
        ("compile", None),
        ("resume", np.True_),
        ("base", None),
        ("loss", np.str_("huber")),
        ("ac_kwargs", {}),
        ("env_fn", dict),
        ("base_kwargs", {"act_noise": 0.1, "something_else": -1}),
    ],
)
def test_inside(name, value):
    check_arguments({name: value, "something_else": object()})


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("gamma", 1.01, "gamma=1.01 must be a number between 0 and 1"),
        ("polyak", -0.1, "polyak=-0.1 must be a number between 0 and 1"),
        ("gamma", math.nan, "gamma=nan must be a number between 0 and 1"),
        ("gamma", True, "gamma=True must be a number between 0 and 1"),
        ("gamma", "0.5", "gamma='0.5' must be a number between 0 and 1"),
        ("gamma", None, "gamma=None must be a number between 0 and 1"),
        ("lr", -1e-3, "lr=-0.001 must be a number, zero or more"),
        ("lr", math.inf, "lr=inf must be a number, zero or more"),
        ("clip_ratio", -math.inf, "clip_ratio=-inf must be a number, zero or more"),
        ("max_grad_norm", 0.0, "max_grad_norm=0.0 must be a number above 0, or None"),
        ("batch_size", 0, "batch_size=0 must be a whole number, at least 1"),
        ("batch_size", 2.5, "batch_size=2.5 must be a whole number, at least 1"),
        ("minibatch_size", 0, "minibatch_size=0 must be a whole number, at least 1, or None"),
        (
            "alpha",
            "AUTO",
            "alpha='AUTO' must be a number, zero or more, or 'auto'",
        ),
        ("target_entropy", math.nan, "target_entropy=nan must be a number or None"),
        ("target_entropy", -math.inf, "target_entropy=-inf must be a number or None"),
        *(
            ("seed", value, f"seed={value!r} must be a whole number, at least 0")
            for value in ([1], -1, 1.5, True, "0", None)
        ),
        ("loss", "hubr", "loss='hubr' must be 'huber' or 'squared'"),
        ("loss", None, "loss=None must be 'huber' or 'squared'"),
        ("base", "ppo", "base='ppo' must be 'dqn', 'ddpg', 'td3', 'sac' or None"),
        (
            "strategy",
            "futur",
            "strategy='futur' must be 'future', 'final', 'episode' or 'random'; "
            "did you mean future?",
        ),
        ("compile", 1, "compile=1 must be True, False, 'graph' or None"),
        ("progress", "yes", "progress='yes' must be True or False"),
        ("device", "gpu", "device='gpu' must be 'cpu', 'cuda', 'mps' or 'auto'"),
        ("device", "cuda:", "device='cuda:' must be 'cpu', 'cuda', 'mps' or 'auto'"),
        *(
            ("num_envs", value, f"num_envs={value!r} must be a whole number, at least 1")
            for value in (0, -1, 1.5, True, "2", None)
        ),
        ("max_ep_len", 0, "max_ep_len=0 must be a whole number, at least 1, or inf"),
        ("vector", "threads", "vector='threads' must be 'sync' or 'async'"),
        ("ac_kwargs", [8], "ac_kwargs=[8] must be a dict"),
        (
            "env_fn",
            3,
            "env_fn=3 must be an environment's id, or a function that makes one",
        ),
        ("base_kwargs", {"act_noise": -1}, "act_noise=-1 must be a number, zero or more"),
    ],
)
def test_outside(name, value, sentence):
    with pytest.raises(SpinupError) as error:
        check_arguments({name: value})
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            {"replay_size": 10, "batch_size": 100},
            "replay_size=10 is smaller than batch_size=100: use a replay_size of at least 100, or "
            "smaller batches",
        ),
        (
            {"replay_size": 29, "n_steps": 10},
            "replay_size=29 is too small for n_steps=10 steps of 3 environments: use at least 30",
        ),
        (
            {"minibatch_size": 3},
            "minibatch_size=3 has no row for some of the 4 shards: use at least 4, or None for the "
            "whole batch",
        ),
    ],
)
def test_sizes_that_do_not_fit_together(arguments, sentence):
    with pytest.raises(SpinupError) as error:
        check_sizes(arguments, 4, 3)
    assert str(error.value) == sentence


def test_sizes_that_just_fit():
    fitting = {"replay_size": 100, "batch_size": 100, "n_steps": 33, "minibatch_size": 4}
    check_sizes(fitting, 4, 3)
    check_sizes({}, 4, 3)
    check_sizes(dict.fromkeys(fitting), 4, 3)  # an algorithm of a user's own may allow None


def test_an_array_is_neither_a_number_nor_a_word():
    for name in ("gamma", "loss", "alpha", "resume", "device"):
        with pytest.raises(SpinupError, match="must be"):
            check_arguments({name: np.ones(2)})


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_a_fraction_is_what_lies_between_0_and_1(x):
    assert (x in Number(0, 1)) == (0 <= x <= 1)


@given(st.integers(-5, 5) | st.floats(-5, 5))
def test_a_count_is_a_whole_number_from_1_on(x):
    assert (x in Number(1, whole=True)) == (x >= 1 and x == int(x))


@given(st.integers(-5, 5) | st.text(max_size=3) | st.booleans() | st.none())
def test_one_of_a_few_words_is_nothing_else(x):
    assert (x in OneOf(("a", None, True))) == (x == "a" or x is None or x is True)


def test_a_kind_is_told_by_its_test_or_its_words():
    domain = Kind(callable, "a function", words=(None,))
    assert print in domain and None in domain and 3 not in domain
    assert str(domain) == "a function, or None"


# ------------------------------------------------------------------------- the table and functions


@pytest.mark.parametrize("name", registry.algorithms())
def test_every_argument_is_in_the_table_and_every_default_in_its_domain(name):
    for parameter in inspect.signature(registry.load(name)).parameters.values():
        assert parameter.name in ARGUMENTS, f"{name} has {parameter.name}"
        if parameter.default is not parameter.empty:
            assert parameter.default in ARGUMENTS[parameter.name].domain, parameter


@pytest.mark.parametrize("name", registry.algorithms())
def test_every_argument_is_described_once(name):
    function = registry.load(name)
    own = described(inspect.unwrap(function).__doc__)
    parameters = inspect.signature(function).parameters
    assert set(own) <= set(parameters), "describes arguments that it does not have"
    assert list(described(function.__doc__)) == list(parameters)
    if hasattr(function, "__wrapped__"):  # says itself only what the table does not say
        assert [key for key, text in own.items() if text == ARGUMENTS[key].text] == []


def test_every_argument_of_the_table_belongs_to_an_algorithm():
    every = [inspect.signature(registry.load(name)).parameters for name in registry.algorithms()]
    assert [name for name in ARGUMENTS if not any(name in parameters for parameters in every)] == []


def test_what_an_algorithm_passes_on_to_another_has_the_same_domain():
    with pytest.raises(SpinupError, match="act_noise=-1 must be a number, zero or more"):
        registry.load("her")(lambda: None, base_kwargs={"act_noise": -1})


@pytest.mark.parametrize("name", registry.algorithms())
def test_a_training_function_refuses_before_it_makes_an_environment(name, tmp_path):
    def env_fn():
        raise AssertionError("an environment was made")

    function = registry.load(name)
    takes = inspect.signature(function).parameters
    for wrong in [name for name in FRACTIONS if name in takes]:
        with pytest.raises(SpinupError, match=rf"{wrong}=1.5 must be .*between 0 and 1"):
            function(env_fn, **{wrong: 1.5, "logger_kwargs": {"output_dir": str(tmp_path / "x")}})
    assert not list(tmp_path.iterdir())


# ----------------------------------------------------------------------------------- the decorator


@training_function
def toy(env_fn, gamma=0.99, batch_size=64, *, own=None, seed=0):
    """Train nothing.

    Args:
        own: what only this function has,
            on two lines.
        gamma: its own words.

    Returns:
        What `current_call` says.
    """
    local = "a local variable"  # noqa: F841
    return env_fn() if env_fn else current_call()


def test_a_run_sees_the_arguments_and_no_local_variables():
    expected = {"env_fn": None, "gamma": 0.5, "batch_size": 64, "own": 3, "seed": 0}
    defaults = {"gamma": 0.99, "batch_size": 64, "own": None, "seed": 0}
    assert toy(None, 0.5, own=3) == ("toy", expected, defaults)
    assert toy(env_fn=None, own=3, gamma=0.5) == ("toy", expected, defaults)


def test_whole_numbers_arrive_as_ints():
    arguments = toy(None, batch_size=1e2).arguments
    assert arguments["batch_size"] == 100 and type(arguments["batch_size"]) is int


def test_there_are_no_arguments_outside_a_call():
    def fail():
        raise KeyError("in the middle")

    toy(None)
    with pytest.raises(KeyError, match="in the middle"):
        toy(fail)
    with pytest.raises(SpinupError, match="outside a training function: put @training_function"):
        current_call()


def test_calls_inside_calls_see_their_own():
    def env_fn():
        outer = current_call().arguments["seed"]
        inner = toy(None, seed=2).arguments["seed"]
        return outer, inner, current_call().arguments["seed"]

    assert toy(env_fn, seed=1) == (1, 2, 1)


def test_threads_see_their_own():
    meet, seen = threading.Barrier(2, timeout=30), {}

    def train(seed):
        def env_fn():
            meet.wait()
            return current_call().arguments["seed"]

        seen[seed] = toy(env_fn, seed=seed)

    threads = [threading.Thread(target=train, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {1: 1, 2: 2}


def test_what_the_run_does_with_its_arguments_stays_its_own():
    def env_fn():
        for record in (current_call().arguments, current_call().defaults):
            with pytest.raises(TypeError, match="does not support item assignment"):
                record["seed"] = 7
        return current_call().arguments["seed"]

    assert toy(env_fn) == 0


def test_a_wrong_call_fails_in_pythons_own_words():
    with pytest.raises(TypeError, match=r"toy\(\) got an unexpected keyword argument 'gama'"):
        toy(None, gama=1)
    with pytest.raises(TypeError, match=r"toy\(\) missing 1 required positional argument"):
        toy()


def test_the_docstring_has_every_described_argument_in_order():
    assert inspect.getdoc(toy) == (
        "Train nothing.\n\n"
        "Args:\n"
        "    env_fn: id of an environment, such as 'CartPole-v1', or a function of no arguments "
        "that\n"
        "        makes a fresh one (Gymnasium interface).\n"
        "    gamma: its own words.\n"
        "    batch_size: transitions per gradient step. Larger batches are less noisy and slower; "
        "64 to\n"
        "        256.\n"
        "    own: what only this function has, on two lines.\n"
        f"    seed: {ARGUMENTS['seed'].text}\n\n"
        "Returns:\n"
        "    What `current_call` says."
    )


def test_no_text_of_the_table_changes_in_a_docstring():
    texts = {name: argument.text for name, argument in ARGUMENTS.items() if argument.text}
    parameters = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in texts]
    completed = complete_docstring("Train.", inspect.Signature(parameters))
    assert described(completed) == texts
    assert max(map(len, completed.splitlines())) <= 96


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        (None, None),
        ("One line.", "One line.\n\nArgs:\n    seed: SEED"),
        ("One.\n\n  Returns:\n      X.", "One.\n\nArgs:\n    seed: SEED\n\nReturns:\n    X."),
        ("One.\n\n  Args:\n      seed: s\n\n  More.", "One.\n\nArgs:\n    seed: s\n\nMore."),
    ],
)
def test_a_docstring_is_completed_wherever_its_sections_are(docstring, expected):
    def function(seed, nowhere_described=0, **more): ...

    found = complete_docstring(docstring, inspect.signature(function))
    assert found == (expected and expected.replace("SEED", ARGUMENTS["seed"].text))


def test_a_decorated_function_is_the_function_to_every_tool():
    assert inspect.isfunction(toy)
    assert list(inspect.signature(toy).parameters) == [
        "env_fn",
        "gamma",
        "batch_size",
        "own",
        "seed",
    ]
    assert (toy.__name__, toy.__qualname__, toy.__module__) == ("toy", "toy", __name__)
    assert inspect.getsourcefile(inspect.unwrap(toy)) == __file__
    assert inspect.getsource(toy).startswith("@training_function\ndef toy(")


def test_a_bundle_of_options_becomes_single_arguments():
    @training_function(updates_per_step=0.25)
    def bundled(env_fn=None, *, own: int = 1, **options: Unpack[OffPolicyOptions]):
        """Do nothing."""
        return own, options, current_call()

    names = list(inspect.signature(bundled).parameters)
    assert names == ["env_fn", "own", *DEFAULTS] and "num_envs: " in bundled.__doc__
    own, options, call = bundled(own=2, num_envs=4.0)
    assert own == 2 and options == {**DEFAULTS, "updates_per_step": 0.25, "num_envs": 4}
    assert call.arguments == {"env_fn": None, "own": 2, **options}
    assert call.defaults["updates_per_step"] == 0.25
    with pytest.raises(TypeError, match="num_env"):
        bundled(num_env=3)
    with pytest.raises(TypeError, match="positional"):
        bundled(None, 3)


def test_a_decorated_function_is_pickled_by_its_name():
    function = registry.load("ppo")
    again = training_function(inspect.unwrap(function))
    assert pickle.loads(pickle.dumps(function)) is function
    assert (again.__module__, again.__qualname__) == (function.__module__, function.__qualname__)


def test_a_traceback_shows_the_training_function_and_what_it_called():
    def fail():
        raise KeyError("in the middle")

    with pytest.raises(KeyError) as error:
        toy(fail)
    shown = [(f.filename, f.name, f.line) for f in traceback.extract_tb(error.tb)]
    assert shown[-2:] == [
        (__file__, "toy", "return env_fn() if env_fn else current_call()"),
        (__file__, "fail", 'raise KeyError("in the middle")'),
    ]


def test_only_a_decorated_function_or_a_wrapper_of_one_opens_a_run():
    import functools

    from spinup import ppo_pytorch

    assert opens_a_run(ppo_pytorch)
    assert opens_a_run(functools.wraps(ppo_pytorch)(lambda *args: None))
    assert not opens_a_run(lambda env_fn: env_fn) and not opens_a_run(functools.lru_cache(len))
    assert not opens_a_run(functools.partial(ppo_pytorch))

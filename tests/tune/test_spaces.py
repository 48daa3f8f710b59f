"""The syntax of search spaces, and what samplers make of them."""

import json
import math

import numpy as np
import pytest

from spinup import registry
from spinup.runs.arguments.config import as_json
from spinup.utils.errors import SpinupError
from spinup_tune import sampling
from spinup_tune.command import _space
from spinup_tune.spaces import SHIPPED, read_space


def ppo_space(*words):
    return _space(registry.load("ppo", "pytorch"), "ppo", words, "pytorch")


def test_each_form_gives_the_values_it_names():
    lr, clip, iters, batch, hid, kl, anneal = ppo_space(
        "pi_lr=log:1e-4:1e-2",
        "clip_ratio=0.1:0.3",
        "train_v_iters=5:8",
        "minibatch_size=50,100",
        "hid=[64,64],[32]",
        "target_kl=0.01,None",
        "anneal_lr=True,False",
    )
    assert (lr.at(0), lr.at(1), lr.at(0.5)) == (1e-4, 1e-2, 1e-3)
    assert (clip.at(0), clip.at(1), clip.at(0.5)) == (0.1, 0.3, 0.2)
    # each whole number has the same share
    assert [iters.at(u) for u in (0, 0.24, 0.26, 0.51, 0.76, 1)] == [5, 5, 6, 7, 8, 8]
    assert all(isinstance(iters.at(u), int) for u in (0, 0.5, 1))
    assert [batch.at(u) for u in (0, 0.49, 0.51, 1)] == [50, 50, 100, 100]
    assert (hid.key, hid.choices) == ("ac_kwargs:hidden_sizes", ([64, 64], [32]))
    assert (kl.choices, anneal.choices) == ((0.01, None), (True, False))


def test_a_range_of_fractions_may_end_in_whole_numbers_and_int_asks_for_those():
    lam, ent, batch = ppo_space("lam=0:1", "max_grad_norm=int:1:4", "minibatch_size=log:20:200")
    assert lam.at(0.3) == 0.3 and not lam.whole
    assert {ent.at(u) for u in np.linspace(0, 1, 50)} == {1, 2, 3, 4}
    assert batch.whole and batch.at(0.5) in range(60, 67)


def test_a_narrow_range_has_more_than_a_few_values():
    (gamma,) = ppo_space("gamma=0.999:0.99995")
    found = {gamma.at(u) for u in np.linspace(0, 1, 200)}
    assert len(found) > 100 and all(len(str(v)) <= 8 for v in found)
    (usual,) = ppo_space("gamma=0.9:0.999")
    assert usual.at(0.123456) == 0.9122


def test_one_width_means_every_layer_and_other_words_for_an_argument_are_understood():
    (hid,) = ppo_space("hid=64,128")
    assert hid.choices == ([64, 64], [128, 128])
    (lam,) = ppo_space("gae_lambda=0.9:0.99")
    assert lam.key == "lam"


def test_a_space_can_be_a_file(tmp_path):
    path = tmp_path / "space.json"
    path.write_text(
        json.dumps({"pi_lr": "log:1e-4:1e-2", "ac_kwargs:activation": ["Tanh", "ReLU"]})
    )
    lr, activation = ppo_space(str(path))
    assert lr.log
    assert [choice.__name__ for choice in activation.choices] == ["Tanh", "ReLU"]


@pytest.mark.parametrize(
    ("words", "mentions"),
    [
        (["pi_lrr=log:1e-4:1e-2"], "did you mean pi_lr"),
        (["pi_lr"], "ARGUMENT=VALUES"),
        (["pi_lr="], "no values"),
        (["pi_lr=0.1"], "one value"),
        (["pi_lr=log:0:1"], "logarithmic"),
        (["pi_lr=log:a:b"], "range of numbers"),
        (["pi_lr=1e-2:1e-4"], "lower to a higher"),
        (["pi_lr=-1:1"], "must be"),
        (["gamma=0.9:1.5"], "between 0 and 1"),
        (["train_v_iters=0.5:3"], "whole number"),
        (["minibatch_size=64,abc"], "whole number"),
        (["minibatch_size=64,64"], "twice"),
        (["clip_ratio=0.1:0.2", "clip_ratio=0.1:0.3"], "twice"),
        (["hid=[64,64"], "bracket"),
        (["epochs=10,20"], "cannot be searched"),
        (["steps=1000,2000"], "cannot be searched"),
        (["seed=0:3"], "cannot be searched"),
        (["env=CartPole-v1,Acrobot-v1"], "cannot be searched"),
        (["num_workers=1,2"], "how to run"),
        (["ac_kwargs:hidden=3,4"], "hidden_sizes"),
        (["missing.json"], "the space 'missing.json' does not exist"),
        (["clip_ratio=int:0.1:0.3"], "whole numbers"),
    ],
)
def test_a_mistake_is_one_sentence(words, mentions):
    with pytest.raises(SpinupError, match=mentions) as caught:
        ppo_space(*words)
    assert not str(caught.value).endswith(".")


@pytest.mark.parametrize("content", ["[1, 2]", "{", '{"pi_lr": 3}', "{}"])
def test_a_bad_file_is_one_sentence(content, tmp_path):
    path = tmp_path / "space.json"
    path.write_text(content)
    with pytest.raises(SpinupError, match="space"):
        ppo_space(str(path))


@pytest.mark.parametrize("algo", [row.name for row in registry.ROWS])
def test_every_algorithm_has_a_space_that_its_function_accepts(algo):
    function = registry.load(algo, "pytorch")
    space = _space(function, algo, None, "pytorch")
    assert len(space) >= 2
    assert {d.key for d in space} == set(json.loads(SHIPPED.read_text())[algo])


@pytest.mark.parametrize("algo", json.loads(SHIPPED.read_text()))
def test_every_value_of_a_space_comes_back_from_its_record(algo):
    function = registry.load(algo, "pytorch")
    words = ["ac_kwargs:activation=Tanh,ReLU", "gamma=0.999:0.99995", "hid=8,16"]
    space = [d for given in (None, words) for d in _space(function, algo, given, "pytorch")]
    space += read_space(["odd=0.00012345678:0.012345678", "k=int:1:3"], lambda key, value: value)
    positions = [0.0, 1.0, *np.random.default_rng(0).random(300)]
    for dimension in space:
        for value in {str(v): v for v in map(dimension.at, positions)}.values():
            found = dimension.restored(json.loads(json.dumps(as_json(value))))
            assert found == value and type(found) is type(value)


def test_values_of_other_kinds_are_none_of_a_space():
    words = ["a=0.1:0.3", "k=int:1:3", "choice=1,2", "switch=True,False"]
    a, k, choice, switch = read_space(words, lambda key, value: value)
    wrong = [(a, (1, 0.31, "0.2", True, math.nan, None, [0.2])), (k, (2.0, 4, True, "2", None))]
    wrong += [(choice, (1.0, True, 3, "1", None)), (switch, (1, 0.0, "True", None))]
    for dimension, values in wrong:
        for value in values:
            with pytest.raises(ValueError, match="no such value"):
                dimension.restored(value)


@pytest.mark.parametrize("sampler", sampling.PLAIN)
def test_the_same_seed_gives_the_same_configurations_and_another_seed_others(sampler):
    space = read_space(["a=log:1e-4:1e-2", "b=0.1:0.3"], lambda key, value: value)
    first, again, other = (sampling.sample(space, sampler, s, 20, []) for s in (1, 1, 2))
    assert first == again and first != other
    assert len({json.dumps(values) for values in first}) == 20
    assert all(1e-4 <= v["a"] <= 1e-2 and 0.1 <= v["b"] <= 0.3 for v in first)


def test_sobol_covers_a_dimension_more_evenly_than_chance():
    space = read_space(["a=0:1", "b=0.5:2.5"], lambda key, value: value)
    found = sorted(v["a"] for v in sampling.sample(space, "sobol", 3, 16, []))
    assert [math.floor(16 * value) for value in found] == list(range(16))


def test_an_exhausted_space_gives_fewer_configurations_and_none_twice():
    space = read_space(["a=1,2", "b=x,y"], lambda key, value: value)
    found = sampling.sample(space, "sobol", 0, 10, [{"a": 1, "b": "x"}])
    assert sorted((v["a"], v["b"]) for v in found) == [(1, "y"), (2, "x"), (2, "y")]

"""Arguments of networks: mistakes end a run before it touches its directory."""

import functools

import pytest
import torch

from spinup import registry
from spinup.algos.pytorch.ppo.core import MLPActorCritic
from spinup.utils.errors import SpinupError

SMALL = {"steps_per_epoch": 20, "epochs": 1}


class Mine(MLPActorCritic):
    """A user's network with an argument of its own."""

    def __init__(self, observation_space, action_space, width=4):
        super().__init__(observation_space, action_space, (width,))


def train(folder, algo="ppo_pytorch", env="CartPole-v1", **more):
    given = {"output_dir": str(folder), "quiet": True}
    return registry.load(*registry.resolve(algo))(env, logger_kwargs=given, **SMALL, **more)


BAD = [
    ({"activation": "relu"}, "activation='relu' in ac_kwargs is not an activation: pass a class"),
    ({"activation": torch.nn.ReLU()}, "is not an activation"),
    ({"activation": torch.tanh}, "is not an activation"),
    ({"hidden_sizes": 32}, r"hidden_sizes=32 in ac_kwargs must be a list .* such as \[64, 64\]"),
    ({"hidden_sizes": (8, 0)}, "whole numbers above zero"),
    ({"hidden_sizes": [8.5]}, "whole numbers above zero"),
    ({"hiden_sizes": (3,)}, "an entry 'hiden_sizes', .* did you mean hidden_sizes"),
]


@pytest.mark.parametrize(("ac_kwargs", "words"), BAD, ids=lambda x: str(x)[:30])
def test_mistakes_leave_the_earlier_run_in_place(ac_kwargs, words, tmp_path):
    train(tmp_path / "run")
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    with pytest.raises(SpinupError, match=words):
        train(tmp_path / "run", ac_kwargs=ac_kwargs)
    with pytest.raises(SpinupError, match=words):
        train(tmp_path / "new", "ddpg_pytorch", "Pendulum-v1", ac_kwargs=ac_kwargs)
    assert not (tmp_path / "new").exists()
    after = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert after == before


def test_entries_of_a_users_network_are_its_own(tmp_path):
    train(tmp_path / "a", actor_critic=Mine, ac_kwargs={"width": 5})
    with pytest.raises(SpinupError, match=r"which Mine does not take.* did you mean width"):
        train(tmp_path / "b", actor_critic=Mine, ac_kwargs={"widht": 5})
    narrow = functools.partial(MLPActorCritic, hidden_sizes=(3,))
    train(tmp_path / "c", actor_critic=narrow, ac_kwargs={"activation": torch.nn.ELU})
    with pytest.raises(SpinupError, match="MLPActorCritic does not take"):
        train(tmp_path / "d", actor_critic=narrow, ac_kwargs={"depth": 2})
    anything = lambda o, a, **entries: Mine(o, a, entries["n"])  # noqa: E731
    train(tmp_path / "e", actor_critic=anything, ac_kwargs={"n": 3})


def test_activations_may_be_functions_that_make_modules(tmp_path):
    leaky = functools.partial(torch.nn.LeakyReLU, 0.2)
    train(tmp_path / "a", ac_kwargs={"activation": leaky, "hidden_sizes": [4]})


def test_graph_mode_refuses_the_same_mistakes(tmp_path):
    pytest.importorskip("tensorflow", reason="the extra tf")
    for ac_kwargs, words in (
        ({"activation": "relu"}, "activation='relu' .* pass a function, such as tf.nn.relu"),
        ({"hidden_sizes": 32}, "hidden_sizes=32"),
        ({"hiden_sizes": (3,)}, "mlp_actor_critic does not take.* did you mean hidden_sizes"),
    ):
        for algo, env in (("ppo_tf1", "CartPole-v1"), ("sac_tf1", "Pendulum-v1")):
            with pytest.raises(SpinupError, match=words):
                train(tmp_path / "new", algo, env, ac_kwargs=ac_kwargs)
    assert not (tmp_path / "new").exists()

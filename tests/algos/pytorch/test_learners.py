"""Learners of the off-policy algorithms: target networks, and one learner per algorithm."""

import importlib
import inspect
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from spinup.algos.common.exploration import Learner
from spinup.algos.pytorch.common.targets import polyak_update, target_copy
from spinup.algos.pytorch.her.core import BASES
from tests.helpers.networks import BOX, OBS, equal, small_ddpg, values

# ---- target networks -------------------------------------------------------------------------


@pytest.mark.parametrize("polyak", [0.0, 0.25, 0.995, 1.0])
def test_polyak_update_is_the_weighted_mean(polyak):
    net, targ = nn.Linear(2, 1), nn.Linear(2, 1)
    with torch.no_grad():
        net.weight[:], net.bias[:] = torch.tensor([8.0, -4.0]), torch.tensor([2.0])
        targ.weight[:], targ.bias[:] = torch.tensor([4.0, 0.0]), torch.tensor([-2.0])
    polyak_update(net, targ, polyak)
    mine = 1 - polyak
    want = [polyak * 4 + mine * 8, mine * -4, polyak * -2 + mine * 2]
    got = [*targ.weight.flatten().tolist(), targ.bias.item()]
    assert got == pytest.approx(want, rel=1e-5, abs=1e-6)
    assert net.weight.tolist() == [[8, -4]] and net.bias.item() == 2  # the other one stays


def test_targets_converge_to_a_network_that_stands_still():
    ac = small_ddpg()
    ac_targ = target_copy(ac)
    with torch.no_grad():
        for p in ac.parameters():
            p += 1
    for _ in range(100):
        polyak_update(ac, ac_targ, 0.9)
    for p, q in zip(ac.parameters(), ac_targ.parameters(), strict=True):
        torch.testing.assert_close(q, p - 0.9**100, rtol=1e-4, atol=1e-4)


class Shared(nn.Module):
    """A policy and two critics with a layer in common."""

    def __init__(self):
        super().__init__()
        self.pi, self.q1, self.q2 = (nn.Linear(2, 1) for _ in range(3))
        self.pi.common = self.q1.common = self.q2.common = nn.Linear(2, 2)


@pytest.mark.parametrize("compiling", [False, True])
def test_a_target_of_some_parts_moves_each_of_their_parameters_once(monkeypatch, compiling):
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: compiling)
    ac = Shared()
    ac_targ = target_copy(ac, "q1", "q2")
    assert ac_targ.q1.common is ac_targ.q2.common and not hasattr(ac_targ, "pi")
    with torch.no_grad():
        for p in ac.parameters():
            p += 1
    polyak_update(ac, ac_targ, 0.75)
    for part in ("q1", "q2"):
        pairs = zip(
            getattr(ac, part).parameters(), getattr(ac_targ, part).parameters(), strict=True
        )
        for p, q in pairs:
            torch.testing.assert_close(q, p - 0.75)


def test_a_target_of_some_parts_is_restored_from_its_state_and_from_the_whole_networks():
    ac, other = Shared(), Shared()
    for state in (target_copy(other, "q1", "q2").state_dict(), target_copy(other).state_dict()):
        ac_targ = target_copy(ac, "q1", "q2")
        ac_targ.load_state_dict(state)
        assert equal(values(ac_targ), values(target_copy(other, "q1", "q2")))
    with pytest.raises(RuntimeError, match=r"Missing key.*q2\.common\.bias"):
        ac_targ.load_state_dict({k: x for k, x in state.items() if k != "q2.common.bias"})


def test_a_target_is_equal_at_first_independent_and_out_of_reach_of_gradients():
    ac = small_ddpg()
    ac_targ = target_copy(ac)
    assert equal(values(ac), values(ac_targ)) and not any(
        p.requires_grad for p in ac_targ.parameters()
    )
    assert all(p.requires_grad for p in ac.parameters())
    before = values(ac_targ)
    with torch.no_grad():
        for p in ac.parameters():
            p += 1
    assert equal(values(ac_targ), before)
    obs = torch.randn(5, 3)
    assert not ac_targ.q(obs, ac_targ.pi(obs)).requires_grad
    shared = {p.data_ptr() for p in ac.parameters()} & {p.data_ptr() for p in ac_targ.parameters()}
    assert not shared


# ---- learners --------------------------------------------------------------------------------

LEARNERS = ["dqn", "ddpg", "td3", "sac"]


def module_of(algo):
    return importlib.import_module(f"spinup.algos.pytorch.{algo}.{algo}")


def learner_of(algo, action_space):
    """A learner with the algorithm's defaults, its networks, and what it tracks."""
    module = module_of(algo)
    make, function = getattr(module, f"{algo}_learner"), getattr(module, algo)
    defaults = inspect.signature(function).parameters
    names = [
        p.name for p in inspect.signature(make).parameters.values() if p.kind == p.KEYWORD_ONLY
    ]
    options = {name: defaults[name].default for name in names if name in defaults}
    ac = defaults["actor_critic"].default(OBS, action_space, hidden_sizes=(6,))
    tracked = {}
    run = SimpleNamespace(device="cpu", action_space=action_space, config={}, track=tracked.update)
    return make(run, ac, **options), ac, tracked


def batch_of(action_space, n=8):
    discrete = isinstance(action_space, spaces.Discrete)
    act = np.stack([action_space.sample() for _ in range(n)])
    return {
        "obs": torch.randn(n, 3),
        "act": torch.as_tensor(act, dtype=torch.int64 if discrete else torch.float32),
        "rew": torch.randn(n),
        "obs2": torch.randn(n, 3),
        "done": torch.zeros(n),
    }


@pytest.mark.parametrize("algo", LEARNERS)
def test_a_learner_is_made_of_arguments_of_its_training_function(algo):
    module = module_of(algo)
    run, ac, *own = inspect.signature(getattr(module, f"{algo}_learner")).parameters.values()
    assert (run.name, ac.name) == ("run", "ac")
    known = inspect.signature(getattr(module, algo)).parameters
    assert own and all(p.kind == p.KEYWORD_ONLY for p in own)
    # what has no argument of that name has a default, so that HER can do without
    assert all(p.name in known or p.default is not p.empty for p in own)


@pytest.mark.parametrize(
    ("algo", "kind"), [(name, kind) for name, base in BASES.items() for kind in base.actions]
)
def test_a_learner_explores_learns_and_measures_what_it_names(algo, kind):
    space = BOX if kind == "Box" else spaces.Discrete(4)
    learner, ac, tracked = learner_of(algo, space)
    assert isinstance(learner, Learner)
    learner.begin_step(0)
    learner.policy.begin(np.random.default_rng(0))
    acts = learner.policy(np.zeros((5, 3), np.float32), np.random.default_rng(0))
    assert len(acts) == 5 and all(space.contains(a) for a in acts)
    before = values(ac)
    for step in range(2):
        info = learner.update(batch_of(space), step)
    assert not equal(values(ac), before)
    assert set(learner.values) <= set(info) <= {*learner.values, *learner.losses}
    for name in learner.values:
        assert info[name].shape == (8,), name
    for name in set(learner.losses) & set(info):
        assert info[name].shape == (), name
    assert all(np.isfinite(x) for x in learner.columns(0).values())
    target = learner.target(batch_of(space))
    assert target.shape == (8,) and target.isfinite().all() and not target.requires_grad
    assert "ac_targ" in tracked and any(name.endswith("_optimizer") for name in tracked)


def test_her_knows_the_learner_of_every_off_policy_algorithm_with_one():
    assert sorted(BASES) == sorted(LEARNERS)
    for name, base in BASES.items():
        module = module_of(name)
        assert base.learner is getattr(module, f"{name}_learner")
        assert base.function is getattr(module, name)

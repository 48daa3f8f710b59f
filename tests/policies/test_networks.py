"""Networks of trained policies: they load with the same weights and take the same actions."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from spinup.algos.pytorch.common import nets
from spinup.algos.pytorch.common.acting import make_get_action
from spinup.algos.pytorch.ddpg import core as ddpg_core
from spinup.algos.pytorch.reinforce.core import MLPPolicy
from spinup.algos.pytorch.sac import core as sac_core
from spinup.algos.pytorch.td3 import core as td3_core
from spinup.envs.space_json import space_to_json
from spinup.policies.networks import load_actor_critic
from spinup.policies.saved import load_policy
from spinup.runs.logger import Logger
from spinup.utils.errors import SpinupError
from tests.helpers.networks import ACTIONS, KINDS, OBS, actor_critic

CLASSES = {
    "ddpg": ddpg_core.MLPActorCritic,
    "td3": td3_core.MLPActorCritic,
    "sac": sac_core.MLPActorCritic,
}


def saved(ac, folder, **ac_kwargs):
    """The network as a run saves it, read back as `load_policy` gives it."""
    logger = Logger(output_dir=str(folder), quiet=True)
    meta = {
        "observation_space": space_to_json(OBS),
        "action_space": space_to_json(ac.action_space),
        "ac_kwargs": {"hidden_sizes": [16, 16], **ac_kwargs},
    }
    logger.setup_pytorch_saver(ac, policy_meta=meta)
    logger.save_state({}, None)
    logger.close()
    return load_policy(folder)


def assert_same_network(ac, loaded):
    """It has the same class and weights, and takes the same actions."""
    assert type(loaded) is type(ac) and not loaded.training
    state = loaded.state_dict()
    assert set(state) == set(ac.state_dict())
    assert all(torch.equal(x, state[k]) for k, x in ac.state_dict().items())
    for deterministic in (True, False):
        one, other = (
            make_get_action(net, deterministic, np.random.default_rng(3)) for net in (ac, loaded)
        )
        for x in np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32):
            np.testing.assert_array_equal(one(x), other(x))


def test_a_policy_that_flattened_images_still_loads(tmp_path):
    # Version 0.1.0 had no encoders; its networks read bytes as floats from 0 to 255.
    old = nets.MLPActorCritic(spaces.Box(0, 255.0, (4, 3, 2)), ACTIONS["Discrete"], (16, 16))
    meta, tensors = saved(old, tmp_path)
    meta["observation_space"] = space_to_json(spaces.Box(0, 255, (4, 3, 2), np.uint8))
    act, same = (make_get_action(ac, True) for ac in (old, load_actor_critic(meta, tensors)))
    images = np.random.default_rng(0).integers(0, 256, (40, 4, 3, 2), np.uint8)
    assert len({int(act(o)) for o in images}) > 1
    assert [act(o) for o in images] == [same(o) for o in images]


@pytest.mark.parametrize("cls", [nets.MLPActorCritic, MLPPolicy])
@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_network_has_the_same_weights_and_takes_the_same_actions(tmp_path, kind, cls):
    ac = actor_critic(kind, cls, normalize_obs=True, activation=nn.ReLU)
    obs_filter = ac.pi.obs_filter
    obs_filter.update(obs_filter.batch_sums(torch.randn(20, 3) * 4 + 3))
    loaded = load_actor_critic(*saved(ac, tmp_path, normalize_obs=True, activation="ReLU"))
    assert_same_network(ac, loaded)


class Mine(nets.MLPActorCritic):
    """A user's class, at the top of a module so that it can be found by its name."""


def test_a_users_class_is_loaded_only_where_the_caller_says_so(tmp_path):
    ac = actor_critic("Box", Mine)
    meta, tensors = saved(ac, tmp_path)
    assert meta["class"]["qualname"] == "Mine"
    with pytest.raises(SpinupError, match="pass it as actor_critic"):
        load_actor_critic(meta, tensors)
    loaded = load_actor_critic(meta, tensors, actor_critic=Mine)
    assert type(loaded) is Mine and torch.equal(loaded.v.v_net[0].weight, ac.v.v_net[0].weight)


def test_weights_that_do_not_fit_are_an_error(tmp_path):
    meta, tensors = saved(actor_critic("Box"), tmp_path)
    meta["ac_kwargs"]["hidden_sizes"] = [8]
    with pytest.raises(SpinupError, match="do not fit"):
        load_actor_critic(meta, tensors)
    with pytest.raises(SpinupError, match="do not fit"):
        load_actor_critic({**meta, "ac_kwargs": {"depth": 3}}, tensors)


@pytest.mark.parametrize(
    ("algo", "space"),
    [(algo, ACTIONS["Box"]) for algo in CLASSES] + [("sac", ACTIONS["Discrete from 5"])],
)
def test_a_loaded_off_policy_network_takes_the_same_actions(tmp_path, algo, space):
    ac = CLASSES[algo](OBS, space, hidden_sizes=(16, 16), activation=nn.Tanh)
    loaded = load_actor_critic(*saved(ac, tmp_path, activation="Tanh"))
    assert_same_network(ac, loaded)

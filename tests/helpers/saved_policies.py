"""Run directories with the policy of a network that nobody trained."""

import numpy as np
import pytest
import torch

from spinup.algos.pytorch.common import nets
from spinup.envs import adapt_env, env_record, space_to_json
from spinup.policies import loading
from spinup.runs.logger import Logger

OBS = np.random.default_rng(3).normal(scale=5, size=(40, 4)).astype(np.float32)


def save_run(folder, env, /, seed=0, itr=None, cls=nets.MLPActorCritic, **changes):
    """A run directory with a policy as the algorithms save it; `changes` go into its JSON."""
    env = adapt_env(env)
    torch.manual_seed(seed)
    ac_kwargs = {"hidden_sizes": (8,)}
    if len(env.observation_space.shape) == 3:  # an encoder of a whole screen is large
        ac_kwargs["encoder"] = "flat"
    ac = cls(env.observation_space, env.action_space, **ac_kwargs)
    meta = {
        "algo": "ppo",
        "backend": "pytorch",
        "observation_space": space_to_json(env.observation_space),
        "action_space": space_to_json(env.action_space),
        "ac_kwargs": ac_kwargs,
        "env": env_record(env),
        **changes,
    }
    logger = Logger(output_dir=str(folder), exp_name="t", resume=folder.exists(), quiet=True)
    logger.setup_pytorch_saver(ac, policy_meta=meta)
    logger.save_state({}, itr)
    logger.close()
    return ac


def no_env(match):
    """Expect the warning that there is no environment; it says how to pass one."""
    return pytest.warns(loading.NoEnvironment, match=match)

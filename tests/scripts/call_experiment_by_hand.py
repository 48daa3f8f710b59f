"""call_experiment with a thunk of one's own, and a datestamp."""

import glob

from spinup.utils.logx import EpochLogger
from spinup.utils.run_utils import call_experiment, setup_logger_kwargs


def thunk(env_fn, seed, logger_kwargs, scale=1.0, **kwargs):
    logger = EpochLogger(**logger_kwargs)
    logger.save_config(locals())
    env = env_fn()
    o, _ = env.reset(seed=seed)
    for epoch in range(2):
        for _ in range(20):
            o, r, terminated, truncated, _ = env.step(env.action_space.sample())
            logger.store(Rew=scale * r)
            if terminated or truncated:
                o, _ = env.reset()
        logger.log_tabular("Epoch", epoch)
        logger.log_tabular("Rew", with_min_and_max=True)
        logger.dump_tabular()


print(setup_logger_kwargs("x", 3, "elsewhere", True))
call_experiment("random", thunk, seed=5, env_name="CartPole-v1", scale=2.0, datestamp=True)
assert len(glob.glob("data/*_random/*-random_s5/progress.txt")) == 1

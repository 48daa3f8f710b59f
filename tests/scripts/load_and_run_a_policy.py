"""Loading a policy and running it, by number and in a new environment."""

import gymnasium as gym

from spinup import sac_pytorch
from spinup.utils.test_policy import load_policy_and_env, load_pytorch_policy, run_policy

sac_pytorch(
    lambda: gym.make("Pendulum-v1"),
    ac_kwargs=dict(hidden_sizes=[8]),
    steps_per_epoch=60,
    epochs=1,
    start_steps=20,
    update_after=30,
    update_every=10,
    batch_size=8,
    num_test_episodes=1,
    max_ep_len=20,
    logger_kwargs=dict(output_dir="data/sac"),
)
env, get_action = load_policy_and_env("data/sac", itr="last", deterministic=True)
results = run_policy(env, get_action, max_ep_len=10, num_episodes=2, render=False)
assert results["EpLen"] == [10, 10]
get_action = load_pytorch_policy("data/sac", itr="last", deterministic=True)
run_policy(gym.make("Pendulum-v1"), get_action, 5, 1, False)

import joblib_or_pickle  # noqa: E402

env = joblib_or_pickle.load("data/sac/vars.pkl")["env"]
assert env.spec.id == "Pendulum-v1"

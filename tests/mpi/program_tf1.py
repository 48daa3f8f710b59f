"""Tiny runs of VPG, TRPO and PPO in TensorFlow, 4 shards.

program_tf.py trains them in several processes, and a test in its own process.
"""

from spinup import ppo_tf1, trpo_tf1, vpg_tf1

NET = {"hidden_sizes": (8,)}
RUNS = {
    "vpg": (vpg_tf1, {"train_v_iters": 3, "num_envs": 2, "ac_kwargs": NET}),
    "trpo": (trpo_tf1, {"train_v_iters": 3, "ac_kwargs": {**NET, "normalize_ret": True}}),
    "ppo": (
        ppo_tf1,
        {
            "train_pi_iters": 2,
            "train_v_iters": 2,
            "minibatch_size": 20,
            "ac_kwargs": {**NET, "normalize_obs": True},
        },
    ),
}


def train_all(folder="."):
    """Train each algorithm for two epochs, in a folder of its name."""
    for name, (algo, given) in RUNS.items():
        algo(
            "CartPole-v1",
            **given,
            seed=7,
            steps_per_epoch=80,
            epochs=2,
            max_ep_len=15,
            shards=4,
            logger_kwargs={"output_dir": f"{folder}/run-{name}", "quiet": True},
        )

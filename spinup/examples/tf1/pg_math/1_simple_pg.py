"""The simplest policy gradient: every action is weighted by the return of its whole episode.

    python 1_simple_pg.py --env CartPole-v1 --lr 1e-2

The gradient of the expected return is E[sum_t grad log pi(a_t | s_t) * R(tau)]. This program
estimates it from the episodes of one epoch and takes one step of Adam. It has no baseline, no
value function and no discount. `numpy.random.seed(n)` before `train` makes it reproducible.
"""

import argparse
import itertools

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete

from spinup.utils.tf import tf


def action_weights(rewards):
    """Return the weight of each action of an episode: the sum of all its rewards, R(tau)."""
    return np.full(len(rewards), np.sum(rewards))


def make_policy(env, hidden_sizes):
    """Return a placeholder for observations and the logits of discrete actions."""
    if not isinstance(env.observation_space, Box) or not isinstance(env.action_space, Discrete):
        raise SystemExit(f"{env.spec.id} needs Box observations and Discrete actions: try another")
    sizes = [env.observation_space.shape[0], *hidden_sizes, int(env.action_space.n)]
    obs = x = tf.placeholder(tf.float32, (None, sizes[0]))
    for i, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
        start = tf.random_uniform_initializer(-(inputs**-0.5), inputs**-0.5)
        w = tf.get_variable(f"w{i}", (inputs, outputs), initializer=start)
        b = tf.get_variable(f"b{i}", (outputs,), initializer=start)
        x = (tf.tanh(x) if i else x) @ w + b  # the logits themselves are not squashed
    return obs, x


def run_episode(env, act):
    """Play one episode with sampled actions; return its observations, actions and rewards."""
    observations, actions, rewards = [], [], []
    o, over = env.reset()[0], False
    while not over:
        a = act(o)
        observations.append(o)
        actions.append(a)
        o, r, terminated, truncated, _ = env.step(a)
        rewards.append(r)
        over = terminated or truncated
    return observations, actions, rewards


def train(
    env_name="CartPole-v0", hidden_sizes=[32], lr=1e-2, epochs=50, batch_size=5000, render=False
):
    """Train a policy and print one line per epoch; an epoch has at least `batch_size` steps."""
    env = gym.make(env_name)
    seed = int(np.random.randint(2**31))
    env.reset(seed=seed)
    window = gym.make(env_name, render_mode="human") if render else None
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(seed)
        obs_ph, logits = make_policy(env, hidden_sizes)
        sample = tf.random.categorical(logits, 1)[0, 0]
        # Minus, because optimizers descend. Only the gradient of this "loss" has a meaning: unlike
        # a loss of supervised learning, its value says nothing about how good the policy is.
        act_ph, weights_ph = tf.placeholder(tf.int32, (None,)), tf.placeholder(tf.float32, (None,))
        negative_logp = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=act_ph, logits=logits)
        loss = tf.reduce_mean(negative_logp * weights_ph)
        optimize = tf.train.AdamOptimizer(lr).minimize(loss)
        session.run(tf.global_variables_initializer())
        sample_fn = session.make_callable(sample, [obs_ph])
        for epoch in range(epochs):
            if window is not None:
                run_episode(window, lambda o: sample_fn(o[None]))
            obs, act, weights, returns, lengths = [], [], [], [], []
            while len(obs) < batch_size:
                observations, actions, rewards = run_episode(env, lambda o: sample_fn(o[None]))
                obs += observations
                act += actions
                weights += list(action_weights(rewards))
                returns.append(sum(rewards))
                lengths.append(len(rewards))
            feed = {obs_ph: np.array(obs), act_ph: np.array(act), weights_ph: np.array(weights)}
            value, _ = session.run([loss, optimize], feed)
            print(
                f"epoch: {epoch:3d} \t loss: {value:.3f} \t return: {np.mean(returns):.3f} "
                f"\t ep_len: {np.mean(lengths):.3f}",
                flush=True,
            )
    for made in (env, window):
        if made is not None:
            made.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env_name", "--env", default="CartPole-v0", help="Gymnasium id")
    parser.add_argument("--render", action="store_true", help="show one episode per epoch")
    parser.add_argument("--lr", type=float, default=1e-2, help="learning rate (default: 1e-2)")
    args = parser.parse_args()
    train(env_name=args.env_name, render=args.render, lr=args.lr)

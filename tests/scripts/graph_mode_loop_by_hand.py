"""A policy gradient with its own graph, session and loop, in the manner of TensorFlow 1."""

import gymnasium as gym
import numpy as np
import tensorflow.compat.v1 as tf

import spinup.algos.tf1.vpg.core as core
from spinup.algos.tf1.vpg.vpg import VPGBuffer
from spinup.utils.logx import EpochLogger, restore_tf_graph
from spinup.utils.mpi_tf import MpiAdamOptimizer, sync_all_params

STEPS, EPOCHS = 200, 2


def train(env, logger):
    x_ph, a_ph = core.placeholders_from_spaces(env.observation_space, env.action_space)
    adv_ph, ret_ph, logp_old_ph = core.placeholders(None, None, None)
    ac_kwargs = {"hidden_sizes": (16,), "action_space": env.action_space}
    pi, logp, logp_pi, v = core.mlp_actor_critic(x_ph, a_ph, **ac_kwargs)
    all_phs = [x_ph, a_ph, adv_ph, ret_ph, logp_old_ph]
    logger.log(f"Parameters: pi {core.count_vars('pi')}, v {core.count_vars('v')}")

    pi_loss = -tf.reduce_mean(logp * adv_ph)
    v_loss = tf.reduce_mean((ret_ph - v) ** 2)
    approx_ent = tf.reduce_mean(-logp)
    train_pi = MpiAdamOptimizer(learning_rate=3e-4).minimize(pi_loss)
    train_v = MpiAdamOptimizer(learning_rate=1e-3).minimize(v_loss)

    sess = tf.Session()
    sess.run(tf.global_variables_initializer())
    sess.run(sync_all_params())
    logger.setup_tf_saver(sess, inputs={"x": x_ph}, outputs={"pi": pi, "v": v})

    buf = VPGBuffer(env.observation_space.shape, env.action_space.shape, STEPS, 0.99, 0.95)
    (o, _), ep_ret, ep_len = env.reset(seed=0), 0, 0
    for epoch in range(EPOCHS):
        for t in range(STEPS):
            a, v_t, logp_t = sess.run([pi, v, logp_pi], feed_dict={x_ph: o.reshape(1, -1)})
            o2, r, terminated, truncated, _ = env.step(a[0])
            ep_ret, ep_len = ep_ret + r, ep_len + 1
            buf.store(o, a[0], r, v_t[0], logp_t[0])
            o = o2
            if terminated or truncated or t == STEPS - 1:
                buf.finish_path(0 if terminated else sess.run(v, {x_ph: o.reshape(1, -1)})[0])
                if terminated or truncated:
                    logger.store(EpRet=ep_ret, EpLen=ep_len)
                (o, _), ep_ret, ep_len = env.reset(), 0, 0
        logger.save_state({}, None)
        inputs = dict(zip(all_phs, buf.get(), strict=True))
        before, ent = sess.run([pi_loss, approx_ent], feed_dict=inputs)
        sess.run(train_pi, feed_dict=inputs)
        for _ in range(5):
            sess.run(train_v, feed_dict=inputs)
        logger.store(LossPi=before, Entropy=ent, DeltaLossPi=sess.run(pi_loss, inputs) - before)
        logger.log_tabular("Epoch", epoch)
        for key in ("EpRet", "LossPi", "Entropy", "DeltaLossPi"):
            logger.log_tabular(key, average_only=key != "EpRet")
        logger.dump_tabular()
    values = sess.run(core.get_vars("pi"))  # without the optimizers' variables
    sess.close()
    return values


logger = EpochLogger(output_dir="data/by_hand", exp_name="by_hand")
with tf.Graph().as_default():
    trained = train(gym.make("CartPole-v1"), logger)
assert [x.shape for x in trained] == [(4, 16), (16,), (16, 2), (2,)]

with tf.Session(graph=tf.Graph()) as sess:
    model = restore_tf_graph(sess, "data/by_hand/tf1_save")
    found = sess.run([model["pi"], model["v"]], {model["x"]: np.zeros((3, 4))})
assert [x.shape for x in found] == [(3,), (3,)]
assert tf.executing_eagerly()  # as everywhere outside a graph

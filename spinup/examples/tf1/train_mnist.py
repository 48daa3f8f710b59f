"""Using the logger in a program of your own: a classifier of handwritten-looking digits.

    python -m spinup.examples.tf1.train_mnist

Nothing is downloaded: `make_digits` draws its images. `EpochLogger.store` collects numbers during
an epoch, `log_tabular` turns them into columns, and `dump_tabular` writes the row.
"""

import itertools
import time

import numpy as np

from spinup.examples.digits import SIZE, make_digits
from spinup.utils.logx import EpochLogger
from spinup.utils.tf import tf


def train_mnist(
    steps_per_epoch=100,
    epochs=5,
    lr=1e-3,
    layers=2,
    hidden_size=64,
    logger_kwargs={},
    save_freq=1,
):
    """Train a classifier, log its loss and accuracy, and save the graph."""
    logger = EpochLogger(**logger_kwargs)
    logger.save_config(locals())
    rng = np.random.default_rng(0)
    images, labels = make_digits(5000, rng)
    test_images, test_labels = make_digits(1000, rng)

    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(0)
        x, y = tf.placeholder(tf.float32, (None, SIZE, SIZE)), tf.placeholder(tf.int64, (None,))
        sizes = [SIZE * SIZE, *[hidden_size] * layers, 10]
        logits = tf.reshape(x, (-1, SIZE * SIZE))
        for i, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
            start = tf.random_uniform_initializer(-(inputs**-0.5), inputs**-0.5)
            w = tf.get_variable(f"w{i}", (inputs, outputs), initializer=start)
            b = tf.get_variable(f"b{i}", (outputs,), initializer=start)
            logits = (tf.nn.relu(logits) if i else logits) @ w + b
        cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
        loss = tf.reduce_mean(cross_entropy)
        accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, -1), y), tf.float32))
        train = tf.train.AdamOptimizer(lr).minimize(loss)
        count = sum(v.shape.num_elements() for v in tf.trainable_variables())
        logger.log(f"Number of parameters: {count}")
        session.run(tf.global_variables_initializer())
        logger.setup_tf_saver(session, inputs={"x": x}, outputs={"logits": logits})

        start_time = time.time()
        for epoch in range(epochs):
            for _ in range(steps_per_epoch):
                batch = rng.integers(len(images), size=32)
                feed = {x: images[batch], y: labels[batch]}
                loss_now, right, _ = session.run([loss, accuracy, train], feed)
                logger.store(Loss=loss_now, Acc=right)
            if epoch % save_freq == 0 or epoch == epochs - 1:
                logger.save_state(state_dict={}, itr=None)
            logger.log_tabular("Epoch", epoch)
            logger.log_tabular("Acc", with_min_and_max=True)
            logger.log_tabular("Loss", average_only=True)
            logger.log_tabular("TestAcc", session.run(accuracy, {x: test_images, y: test_labels}))
            logger.log_tabular("TotalGradientSteps", (epoch + 1) * steps_per_epoch)
            logger.log_tabular("Time", time.time() - start_time)
            logger.dump_tabular()


if __name__ == "__main__":
    train_mnist()

"""Using the logger in a program of your own: a classifier of handwritten-looking digits.

    python -m spinup.examples.pytorch.train_mnist

Nothing is downloaded: `make_digits` draws its images. `EpochLogger.store` collects numbers during
an epoch, `log_tabular` turns them into columns, and `dump_tabular` writes the row.
"""

import itertools
import time

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from spinup.examples.digits import SIZE, make_digits
from spinup.utils.logx import EpochLogger


def train_mnist(
    steps_per_epoch=100,
    epochs=5,
    lr=1e-3,
    layers=2,
    hidden_size=64,
    logger_kwargs={},
    save_freq=1,
):
    """Train a classifier and log its loss and accuracy; return the network."""
    logger = EpochLogger(**logger_kwargs)
    logger.save_config(locals())
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    images, labels = (torch.as_tensor(x) for x in make_digits(5000, rng))
    test_images, test_labels = (torch.as_tensor(x) for x in make_digits(1000, rng))

    sizes = [SIZE * SIZE, *[hidden_size] * layers, 10]
    parts = [nn.Flatten()]
    for inputs, outputs in itertools.pairwise(sizes):
        parts += [nn.Linear(inputs, outputs), nn.ReLU()]
    model = nn.Sequential(*parts[:-1])
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    logger.log(f"Number of parameters: {sum(p.numel() for p in model.parameters())}")
    logger.setup_pytorch_saver(model)

    start = time.time()
    for epoch in range(epochs):
        for _ in range(steps_per_epoch):
            batch = torch.as_tensor(rng.integers(len(images), size=32))
            logits = model(images[batch])
            loss = cross_entropy(logits, labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            accuracy = (logits.argmax(-1) == labels[batch]).float().mean()
            logger.store(Loss=loss.item(), Acc=accuracy.item())
        if epoch % save_freq == 0 or epoch == epochs - 1:
            logger.save_state(state_dict={}, itr=None)
        with torch.no_grad():
            right = (model(test_images).argmax(-1) == test_labels).float().mean()
        logger.log_tabular("Epoch", epoch)
        logger.log_tabular("Acc", with_min_and_max=True)
        logger.log_tabular("Loss", average_only=True)
        logger.log_tabular("TestAcc", right)
        logger.log_tabular("TotalGradientSteps", (epoch + 1) * steps_per_epoch)
        logger.log_tabular("Time", time.time() - start)
        logger.dump_tabular()
    return model


if __name__ == "__main__":
    train_mnist()

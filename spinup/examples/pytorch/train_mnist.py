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

from spinup.utils.logx import EpochLogger

SIZE = 16  # width and height of an image
# The segments of each digit: top, upper left and right, middle, lower left and right, bottom.
SEGMENTS = ("1110111", "0010010", "1011101", "1011011", "0111010")
SEGMENTS += ("1101011", "1101111", "1010010", "1111111", "1111011")
ENDS = (
    ((0, 0), (0, 1)),
    ((0, 0), (1, 0)),
    ((0, 1), (1, 1)),
    ((1, 0), (1, 1)),
    ((1, 0), (2, 0)),
    ((1, 1), (2, 1)),
    ((2, 0), (2, 1)),
)


def make_digits(n, rng):
    """Draw `n` digits: images (n, SIZE, SIZE) between 0 and 1, and their labels (n,).

    Every digit is a figure of up to seven strokes with its own place, size, slant and pressure, and
    with noise on top.
    """
    labels = rng.integers(10, size=n)
    height, width = rng.uniform(9, 12, n), rng.uniform(4, 7, n)
    top, left = rng.uniform(1, 3.5, n), rng.uniform(2, 5, n)
    slant, pressure = rng.uniform(-0.15, 0.35, n), rng.uniform(0.5, 0.9, n)
    rows, columns = np.mgrid[:SIZE, :SIZE]
    images = np.zeros((n, SIZE, SIZE))
    drawn = np.array([[c == "1" for c in digit] for digit in SEGMENTS])[labels]
    for segment, ends in enumerate(ENDS):
        # The two ends of the stroke, (n, 2), with a little wobble.
        (y0, x0), (y1, x1) = (
            (
                top + height * y / 2 + rng.normal(0, 0.3, n),
                left + width * x + slant * height * (2 - y) / 2 + rng.normal(0, 0.3, n),
            )
            for y, x in ends
        )
        dy, dx = (y1 - y0)[:, None, None], (x1 - x0)[:, None, None]
        to_y, to_x = rows - y0[:, None, None], columns - x0[:, None, None]
        along = np.clip((to_y * dy + to_x * dx) / (dy**2 + dx**2 + 1e-8), 0, 1)
        squared = (to_y - along * dy) ** 2 + (to_x - along * dx) ** 2
        stroke = np.exp(-squared / pressure[:, None, None] ** 2)
        images = np.maximum(images, stroke * drawn[:, segment, None, None])
    images += rng.normal(0, 0.1, images.shape)
    return images.clip(0, 1).astype(np.float32), labels


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

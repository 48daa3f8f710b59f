"""Images of handwritten-looking digits, so that the examples need no download."""

import numpy as np

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

"""Figures need no window and do not outlive their test."""

import matplotlib
import matplotlib.pyplot as plt
import pytest

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def _no_figure_is_left_over():
    yield
    plt.close("all")

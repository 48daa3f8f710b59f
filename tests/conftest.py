"""Set-up that every test needs: one thread a worker, no display, no network."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Before a test module imports a numerical library: the workers of pytest-xdist share the cores.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
os.environ.setdefault("WANDB_MODE", "offline")
os.environ.pop("SPINUP_DATA_DIR", None)  # a developer's own setting must not decide a test

# Shared machines stall for longer than Hypothesis' deadline; the examples are the same every time
# so that a failure in one run is a failure in the next.
settings.register_profile("spinup", deadline=None, derandomize=True)
settings.load_profile("spinup")


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """The folder that holds pyproject.toml."""
    return Path(__file__).resolve().parents[1]

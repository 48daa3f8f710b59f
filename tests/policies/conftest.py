"""Saved policies to load, and a pickle that must not be opened."""

import pytest

from spinup.envs import make_env
from tests.helpers.bomb import Bomb
from tests.helpers.saved_policies import save_run


@pytest.fixture
def cartpole_run(tmp_path):
    ac = save_run(tmp_path / "run", make_env("CartPole-v1"))
    return tmp_path / "run", ac


@pytest.fixture
def bomb(tmp_path):
    """An object whose unpickling creates a file, and that file's path."""
    trace = tmp_path / "executed"
    return Bomb(trace), trace

"""Runs to start, kill, resume and compare, each in a process of its own."""

import pytest

from tests.helpers.runs import Runs


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """The `Runs` of this test process."""
    runs = Runs(tmp_path_factory.mktemp("resume"))
    yield runs
    runs.close()

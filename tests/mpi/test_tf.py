"""TensorFlow's gradients and parameters over processes; see program_tf.py."""

import json
import re
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("program_tf.py")
CHECKS = re.findall(r"^def (check_\w+)", PROGRAM.read_text(), re.M)


@pytest.mark.mpi
@pytest.mark.parametrize("procs", [2, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("check", CHECKS)
def test_tf(once, procs, check):
    folder = once(f"tf-{procs}", PROGRAM, procs)
    results = json.loads((folder / "results.json").read_text())
    assert results[check] == ""

"""In TensorFlow, too, the number of processes does not change a bit."""

from pathlib import Path

import pytest

from spinup.runs.storage.checkpoints import load_checkpoint
from tests.helpers.comparing import table_cells
from tests.mpi import program_tf1

PROGRAM = Path(__file__).with_name("program_tf.py")

pytestmark = pytest.mark.mpi


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The folder of the same runs, all four shards in this process."""
    folder = tmp_path_factory.mktemp("alone")
    program_tf1.train_all(folder)
    return folder


def variables(folder):
    """The bytes of all variables, the optimizers' too."""
    state = load_checkpoint(folder / "checkpoints")[0]["tracked"]["variables"]
    return {name: value.tobytes() for name, value in state.items()}


@pytest.mark.parametrize("procs", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_the_number_of_processes_does_not_change_a_bit(once, alone, procs):
    together = once(f"tf-{procs}", PROGRAM, procs)  # as test_tf.py does
    for name in ("vpg", "trpo", "ppo"):
        one, other = alone / f"run-{name}", together / f"run-{name}"
        assert table_cells(other) == table_cells(one) and len(table_cells(one)) == 3
        assert variables(other) == variables(one)
        weights = "tf1_save/policy.safetensors"
        assert (other / weights).read_bytes() == (one / weights).read_bytes()

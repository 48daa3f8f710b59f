"""Rows reach TensorBoard and Weights & Biases under the table's keys."""

import subprocess
import sys
import types

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from spinup.runs.logger import EpochLogger, Logger
from spinup.runs.sinks import make_sink, step_of
from spinup.utils.errors import SpinupError


def write(logger, steps):
    for step in steps:
        logger.log_tabular("Epoch", step // 10)
        logger.log_tabular("AverageEpRet", np.float32(step / 2))
        logger.log_tabular("Note", "text")
        logger.log_tabular("TotalEnvInteracts", step)
        logger.dump_tabular()


def read(folder, tag):
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    assert sorted(events.Tags()["scalars"]) == ["AverageEpRet", "Epoch", "TotalEnvInteracts"]
    return [(e.step, e.value) for e in events.Scalars(tag)]


def test_tensorboard_gets_the_tables_keys_and_steps(tmp_path):
    logger = Logger(tmp_path, sinks=["tensorboard"])
    write(logger, [10, 20])
    logger.close()
    assert read(tmp_path, "AverageEpRet") == [(10, 5.0), (20, 10.0)]


def test_tensorboard_forgets_what_a_resumed_run_repeats(tmp_path):
    logger = EpochLogger(tmp_path, sinks=["tensorboard"])
    write(logger, [10, 20])
    state = logger.state_dict()
    write(logger, [30, 40])
    logger.close()
    logger = EpochLogger(tmp_path, resume=True, sinks=["tensorboard"])
    logger.load_state_dict(state)
    write(logger, [30])
    logger.close()
    assert read(tmp_path, "AverageEpRet") == [(10, 5.0), (20, 10.0), (30, 15.0)]


def test_tensorboard_needs_neither_torch_nor_tensorflow(tmp_path):
    code = (
        "import sys; from spinup.runs.logger import Logger;"
        "Logger(sys.argv[1], sinks=['tensorboard']);"
        "sys.exit('torch' in sys.modules or 'tensorflow' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True)
    assert run.returncode == 0, run.stderr


class FakeRun:
    def __init__(self, **kwargs):
        self.kwargs, self.rows, self.settings, self.finished = kwargs, [], {}, False
        self.config = types.SimpleNamespace(
            update=lambda c, allow_val_change: self.settings.update(c)
        )

    def log(self, row, step):
        self.rows.append((step, row))

    def finish(self):
        self.finished = True


@pytest.fixture
def runs(monkeypatch):
    """Stands in for the wandb package, whose real runs start a server."""
    made = []

    def init(**kwargs):
        made.append(FakeRun(**kwargs))
        return made[-1]

    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=init))
    return made


def test_wandb_gets_configuration_and_rows_and_is_resumed_by_id(tmp_path, runs):
    logger = Logger(tmp_path, exp_name="ppo", sinks=["wandb"])
    logger.save_config({"lr": 1})
    write(logger, [10])
    logger.close()
    first = runs[0]
    assert first.kwargs["name"] == "ppo" and first.kwargs["dir"] == str(tmp_path)
    assert first.settings == {"lr": 1, "exp_name": "ppo"}
    row = {"Epoch": 1, "AverageEpRet": 5.0, "Note": "text", "TotalEnvInteracts": 10}
    assert first.rows == [(10, row)]
    assert first.finished
    Logger(tmp_path, sinks=["wandb"], resume=True).close()
    assert runs[1].kwargs["id"] == first.kwargs["id"]
    Logger(tmp_path, sinks=["wandb"]).close()
    assert runs[2].kwargs["id"] != first.kwargs["id"]


@pytest.mark.slow
def test_real_wandb_offline_run(tmp_path):
    logger = Logger(tmp_path, sinks=["wandb"])
    logger.save_config({"lr": 1})
    write(logger, [10, 20])
    logger.close()
    assert list((tmp_path / "wandb").glob("offline-run-*/*.wandb"))


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_missing_package_names_the_extra(tmp_path, monkeypatch, name):
    for module in [m for m in sys.modules if m.split(".")[0] == name] + [name]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SpinupError, match=r"spinup\[track\]"):
        Logger(tmp_path, sinks=[name])
    Logger(tmp_path).close()  # the failed one gave the directory back


def test_unknown_sink_names_the_known_ones(tmp_path):
    with pytest.raises(SpinupError, match="tensorboard, wandb"):
        make_sink("csv", str(tmp_path))


def test_rows_without_a_step_count_go_by_number():
    assert step_of({"TotalEnvInteracts": np.int64(7)}, 3) == 7
    assert step_of({"TotalEnvInteracts": float("nan")}, 3) == 3
    assert step_of({}, 3) == 3

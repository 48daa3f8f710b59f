"""Rows reach TensorBoard and Weights & Biases under the table's keys."""

import os
import sys
import types

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from spinup.runs.logger import EpochLogger, Logger
from spinup.runs.sinks import step_of
from spinup.utils.errors import SpinupError
from tests.helpers.processes import run_python


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
    run_python("-c", code, tmp_path)


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

    fake = types.SimpleNamespace(init=init, login=lambda prompt: True, setup=settings_of("online"))
    monkeypatch.delenv("WANDB_MODE")
    monkeypatch.setitem(sys.modules, "wandb", fake)
    return made


def settings_of(mode):
    """The part of `wandb.setup` that tells whether W&B was switched off."""
    return lambda: types.SimpleNamespace(settings=types.SimpleNamespace(mode=mode))


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


def test_a_failing_start_of_wandb_is_one_sentence(tmp_path, runs, monkeypatch):
    def init(**kwargs):
        raise ConnectionError("the server does not answer\nTraceback ...")

    monkeypatch.setattr(sys.modules["wandb"], "init", init)
    with pytest.raises(
        SpinupError, match=r"cannot start a run \(the server does not answer\): run"
    ):
        Logger(tmp_path, sinks=["wandb"])


@pytest.mark.parametrize("name", ["tensorboard", "wandb"])
def test_missing_package_names_the_extra(tmp_path, monkeypatch, name):
    for module in [m for m in sys.modules if m.split(".")[0] == name] + [name]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SpinupError, match=r"spinup\[track\]"):
        Logger(tmp_path / "run", sinks=[name])
    assert list(tmp_path.iterdir()) == []


def test_without_a_key_wandb_ends_in_one_sentence_and_nothing_is_created(
    tmp_path, monkeypatch, runs
):
    wandb = sys.modules["wandb"]
    wandb.errors = types.SimpleNamespace(Error=RuntimeError)
    wandb.login = lambda prompt: False
    with pytest.raises(SpinupError, match=r"needs an API key.*'wandb login'.*WANDB_MODE=offline"):
        Logger(tmp_path / "run", sinks=["wandb"])

    def refuse(prompt):
        raise RuntimeError("bad key")

    wandb.login = refuse
    with pytest.raises(SpinupError, match=r"refused the login \(bad key\)"):
        Logger(tmp_path / "run", sinks=["wandb"])
    assert list(tmp_path.iterdir()) == [] and runs == []
    wandb.setup = settings_of("offline")  # needs no key
    Logger(tmp_path / "run", sinks=["wandb"]).close()
    assert len(runs) == 1


def test_real_wandb_is_asked_for_its_key(tmp_path):
    # in its own process, because wandb keeps what it once read
    code = (
        "import sys; from spinup.runs.logger import Logger\n"
        "try: Logger(sys.argv[1], sinks=['wandb'])\n"
        "except ValueError as error: print(error)"
    )
    clean = {k: v for k, v in os.environ.items() if not k.startswith("WANDB_")}
    clean.update(HOME=str(tmp_path), NETRC=str(tmp_path / "none"), WANDB_CONFIG_DIR=str(tmp_path))
    done = run_python("-c", code, tmp_path / "run", expect=None, cwd=tmp_path, env=clean)
    assert "needs an API key, and none is configured: run 'wandb login'" in done.stdout, done.stderr
    assert not (tmp_path / "run").exists()


class Own:
    """A user's sink: keeps what it receives."""

    def __init__(self):
        self.got = []

    def write_config(self, config):
        self.got.append(("config", config["lr"]))

    def write_row(self, row, number):
        self.got.append(("row", row["TotalEnvInteracts"], number))

    def cut_back(self, lines):
        self.got.append(("cut", len(lines)))

    def close(self):
        self.got.append(("close",))


def test_an_object_is_a_sink_too(tmp_path):
    sink = Own()
    logger = Logger(tmp_path, sinks=[sink, "tensorboard"])
    logger.save_config({"lr": 1})
    write(logger, [10, 20])
    logger.close()
    assert sink.got == [("config", 1), ("row", 10, 1), ("row", 20, 2), ("close",)]
    assert read(tmp_path, "AverageEpRet") == [(10, 5.0), (20, 10.0)]


@pytest.mark.parametrize(
    ("sinks", "sentence"),
    [
        (["csv"], "there is no log sink 'csv': choose from tensorboard, wandb"),
        ("tensorbord", "did you mean tensorboard?"),
        ([Own], "is a class: pass an object"),
        ([3], "lacks write_config, write_row, cut_back, close"),
    ],
)
def test_what_is_no_sink_is_said_before_anything_is_created(tmp_path, sinks, sentence):
    with pytest.raises(SpinupError) as refused:
        Logger(tmp_path / "run", sinks=sinks)
    assert sentence in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_the_line_that_starts_tensorboard_is_printed(tmp_path, capsys):
    Logger(tmp_path / "my run", sinks="tensorboard").close()
    assert f"tensorboard --logdir '{tmp_path / 'my run'}'" in capsys.readouterr().out


def test_rows_without_a_step_count_go_by_number():
    assert step_of({"TotalEnvInteracts": np.int64(7)}, 3) == 7
    assert step_of({"TotalEnvInteracts": float("nan")}, 3) == 3
    assert step_of({}, 3) == 3

"""The Logger: the table and its file, run directories, resuming, saved models."""

import json
import math
import pickle
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from spinup.policies.saved import load_policy
from spinup.runs import logger as logx
from spinup.runs.logger import EpochLogger, Logger, colorize
from spinup.runs.storage.checkpoints import load_checkpoint, save_checkpoint
from spinup.runs.storage.policies import save_policy
from spinup.utils.errors import SpinupError
from tests.helpers.crashes import crashes_at_every_call
from tests.helpers.disks import file_size_limit, small_disk
from tests.helpers.loggers import table, write_rows

# --------------------------------------------------------------------------------------------------
# the table
# --------------------------------------------------------------------------------------------------


def test_table_has_the_documented_format(tmp_path, capsys):
    logger = Logger(tmp_path)
    logger.log_tabular("Epoch", 3)
    logger.log_tabular("AverageEpRet", 123.456789)
    logger.log_tabular("Note", "fine")
    logger.log_tabular("AVeryLongKeyOfMoreThan15", np.float32(1e-7))
    capsys.readouterr()
    logger.dump_tabular()
    assert capsys.readouterr().out.splitlines() == [
        "-" * 46,
        "|                    Epoch |               3 |",
        "|             AverageEpRet |             123 |",
        "|                     Note |            fine |",
        "| AVeryLongKeyOfMoreThan15 |           1e-07 |",
        "-" * 46,
    ]


def test_short_keys_share_a_column_of_fifteen(tmp_path, capsys):
    logger = Logger(tmp_path)
    logger.log_tabular("A", -0.000123456)
    capsys.readouterr()
    logger.dump_tabular()
    assert capsys.readouterr().out.splitlines() == [
        "-" * 37,
        "|               A |       -0.000123 |",
        "-" * 37,
    ]


def test_progress_file_is_tab_separated_byte_for_byte(tmp_path):
    logger = Logger(tmp_path)
    for i in range(2):
        logger.log_tabular("Epoch", i)
        logger.log_tabular("Loss", 0.1 * i)
        logger.log_tabular("NaN", float("nan"))
        logger.log_tabular("F32", np.float32(0.1))
        logger.log_tabular("Text", "a\tb\nc")
        logger.dump_tabular()
    assert table(tmp_path) == (
        b"Epoch\tLoss\tNaN\tF32\tText\n0\t0.0\tnan\t0.1\ta b c\n1\t0.1\tnan\t0.1\ta b c\n"
    )


def test_row_is_on_disk_when_dump_returns(tmp_path):
    logger = Logger(tmp_path)
    write_rows(logger, 1)
    assert table(tmp_path) == b"Epoch\tLoss\n0\t0.0\n"


@pytest.mark.parametrize(
    "value", [np.array(2.5), np.array([2.5]), np.array([[2.5]]), torch.tensor([2.5]), [2.5]]
)
def test_size_one_values_are_squeezed(tmp_path, capsys, value):
    logger = Logger(tmp_path)
    logger.log_tabular("V", value)
    logger.dump_tabular()
    assert table(tmp_path) == b"V\n2.5\n"
    assert "|             2.5 |" in capsys.readouterr().out


def test_batch_arrays_stay_on_one_line(tmp_path):
    logger = Logger(tmp_path)
    logger.log_tabular("V", np.arange(100.0))
    logger.dump_tabular()
    assert len(table(tmp_path).splitlines()) == 2


def test_new_key_after_the_first_row_is_an_error(tmp_path):
    logger = Logger(tmp_path)
    write_rows(logger, 1)
    with pytest.raises(SpinupError, match="not a column"):
        logger.log_tabular("New", 1)


def test_key_set_twice_is_an_error(tmp_path):
    logger = Logger(tmp_path)
    logger.log_tabular("Epoch", 1)
    with pytest.raises(SpinupError, match="already set"):
        logger.log_tabular("Epoch", 2)
    with pytest.raises(AssertionError):
        logger.log_tabular("Epoch", 2)


def test_key_missing_from_a_later_row_leaves_its_cell_empty(tmp_path):
    logger = Logger(tmp_path)
    write_rows(logger, 1)
    logger.log_tabular("Loss", 1.0)
    logger.dump_tabular()
    assert table(tmp_path).splitlines()[-1] == b"\t1.0"


def test_public_attributes(tmp_path):
    logger = EpochLogger(tmp_path, exp_name="test")
    assert logger.output_dir == str(tmp_path) and logger.exp_name == "test"
    assert logger.first_row and logger.log_headers == [] and logger.log_current_row == {}
    assert logger.epoch_dict == {}
    assert Path(logger.output_file.name) == tmp_path / "progress.txt"
    write_rows(logger, 1)
    assert not logger.first_row and logger.log_headers == ["Epoch", "Loss"]


def test_full_disk_leaves_no_half_row_before_the_next(tmp_path):
    logger = Logger(tmp_path, quiet=True)
    write_rows(logger, 1)
    before = table(tmp_path)
    logger.log_tabular("Epoch", "x" * 9000)
    with file_size_limit(len(before) + 100), pytest.raises(OSError):
        logger.dump_tabular()
    assert table(tmp_path) == before
    logger.log_current_row.clear()
    write_rows(logger, 1, start=1)
    assert table(tmp_path) == before + b"1\t0.25\n"


def test_only_the_first_process_writes_and_prints(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(logx, "proc_id", lambda: 1)
    logger = EpochLogger(tmp_path)
    logger.save_config({"a": 1})
    logger.store(Loss=1.0)
    logger.log_tabular("Loss", average_only=True)
    logger.dump_tabular()
    logger.save_state({"a": 1})
    logger.mark_finished()
    logger.load_state_dict(logger.state_dict())
    assert list(tmp_path.iterdir()) == [] and capsys.readouterr().out == ""
    assert logger.output_dir is None and logger.output_file is None and not logger.first_row


def test_colorize_wraps_in_escape_codes():
    assert colorize("hi", "green") == "\x1b[32mhi\x1b[0m"
    assert colorize("hi", "red", bold=True, highlight=True) == "\x1b[41;1mhi\x1b[0m"
    with pytest.raises(SpinupError, match="there is no color 'pink'"):
        colorize("hi", "pink")


def test_log_is_colored_unless_asked_not_to(tmp_path, capsys, monkeypatch):
    logger = Logger(tmp_path)
    monkeypatch.delenv("NO_COLOR", raising=False)
    capsys.readouterr()
    logger.log("hello", color="cyan")
    assert capsys.readouterr().out == "\x1b[36;1mhello\x1b[0m\n"
    monkeypatch.setenv("NO_COLOR", "1")
    logger.log("hello")
    assert capsys.readouterr().out == "hello\n"


def test_quiet_prints_nothing_of_a_normal_run(tmp_path, capsys):
    logger = EpochLogger(tmp_path, quiet=True)
    logger.save_config({"a": 1})
    logger.log("hello")
    write_rows(logger, 2)
    assert capsys.readouterr().out == ""


# --------------------------------------------------------------------------------------------------
# statistics of an epoch
# --------------------------------------------------------------------------------------------------


def test_statistics_columns_have_the_documented_names_and_order(tmp_path):
    logger = EpochLogger(tmp_path)
    logger.store(Ret=1.0, Len=4, Val=np.array([1.0, 2.0]))
    logger.store(Ret=np.array([3.0]), Len=np.array(6), Val=np.array([[3.0], [4.0]]))
    logger.log_tabular("Epoch", 0)
    logger.log_tabular("Ret", with_min_and_max=True)
    logger.log_tabular("Len", average_only=True)
    logger.log_tabular("Val")
    assert logger.log_current_row == {
        "Epoch": 0,
        "AverageRet": 2.0,
        "StdRet": 1.0,
        "MaxRet": 3.0,
        "MinRet": 1.0,
        "Len": 5.0,
        "AverageVal": 2.5,
        "StdVal": pytest.approx(math.sqrt(1.25)),
    }
    assert logger.log_headers == list(logger.log_current_row)
    assert logger.epoch_dict == {"Ret": [], "Len": [], "Val": []}


def test_get_stats_does_not_clear(tmp_path):
    logger = EpochLogger(tmp_path)
    logger.store(X=1.0)
    logger.store(X=torch.tensor([3.0, 5.0], requires_grad=True))
    assert logger.get_stats("X") == logger.get_stats("X") == (3.0, pytest.approx(math.sqrt(8 / 3)))


def test_statistics_of_nothing_are_nan(tmp_path):
    logger = EpochLogger(tmp_path)
    logger.store(Empty=np.array([]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for key in ("Empty", "Never"):
            logger.log_tabular(key, with_min_and_max=True)
            assert all(math.isnan(v) for v in logger.get_stats(key))
    assert len(logger.log_current_row) == 8
    assert all(math.isnan(v) for v in logger.log_current_row.values())


# Files that an earlier test's failed run left open may be collected, with a warning, in this one.
@pytest.mark.filterwarnings("error", "ignore::ResourceWarning")
@pytest.mark.parametrize("sinks", [[], ["tensorboard"]])
@pytest.mark.parametrize(
    "value",
    [1e308, -1e308, float("inf"), 10**400, -(10**5000), np.float32(3e38), 2**70, [1e308, 10**400]],
    ids=["1e308", "-1e308", "inf", "400 digits", "-5000 digits", "3e38", "2**70", "both"],
)
def test_huge_values_are_logged_and_saved_like_any_other(tmp_path, value, sinks):
    logger = EpochLogger(tmp_path, sinks=sinks)
    for i in range(2):
        logger.store(X=value)
        logger.store(X=1.0)
        logger.log_tabular("X", with_min_and_max=True)
        logger.log_tabular("Plain", value)
        logger.log_tabular("TotalEnvInteracts", i if isinstance(value, list) else value)
        logger.dump_tabular()
    state = logger.state_dict()
    save_checkpoint(tmp_path / "checkpoints", state, 1)
    logger.load_state_dict(load_checkpoint(tmp_path / "checkpoints")[0])
    for sink in logger.sinks:
        sink.cut_back(table(tmp_path).decode().splitlines())
    logger.close()
    header, *rows = (line.split("\t") for line in table(tmp_path).decode().splitlines())
    assert len(rows) == 2 and all(len(row) == len(header) for row in rows)
    highest = 1.0 if isinstance(value, (int, float)) and value < 0 else float("inf")
    assert float(rows[0][header.index("MaxX")]) in (highest, value)


def test_what_was_stored_does_not_change_with_its_source(tmp_path):
    logger = EpochLogger(tmp_path)
    array, tensor = np.array([1.0]), torch.tensor([1.0])
    logger.store(A=array, T=tensor)
    array += 1
    tensor += 1
    assert logger.get_stats("A")[0] == logger.get_stats("T")[0] == 1.0


def test_zero_is_a_value_and_not_a_missing_one(tmp_path):
    logger = EpochLogger(tmp_path)
    logger.log_tabular("Epoch", 0)
    assert logger.log_current_row == {"Epoch": 0}


# --------------------------------------------------------------------------------------------------
# configuration and models
# --------------------------------------------------------------------------------------------------


def test_config_is_sorted_indented_strict_json(tmp_path, capsys):
    logger = Logger(tmp_path, exp_name="ppo")
    logger.save_config({"seed": 0, "actor_critic": torch.nn.Linear, "b": (1, 2), "nan": math.nan})
    text = (tmp_path / "config.json").read_text()
    assert text == (
        '{\n    "actor_critic": "Linear",\n    "b": [\n        1,\n        2\n    ],\n'
        '    "exp_name": "ppo",\n    "nan": "nan",\n    "seed": 0\n}\n'
    )
    assert text in capsys.readouterr().out


def test_config_without_exp_name_has_none(tmp_path):
    logger = Logger(tmp_path)
    logger.save_config({"logger": logger, "locals": locals()})
    assert "exp_name" not in json.loads((tmp_path / "config.json").read_text())


@pytest.mark.parametrize(("itr", "suffix"), [(None, ""), (7, "7")])
def test_save_state_writes_variables_model_and_policy(tmp_path, itr, suffix):
    logger = Logger(tmp_path)
    model = torch.nn.Linear(3, 2)
    logger.setup_pytorch_saver(model, policy_meta={"algo": "ppo", "ac_kwargs": {"h": (4, 4)}})
    logger.save_state({"env": [1, 2]}, itr)
    assert pickle.loads((tmp_path / f"vars{suffix}.pkl").read_bytes()) == {"env": [1, 2]}
    folder = tmp_path / "pyt_save"
    assert sorted(p.name for p in folder.iterdir()) == [
        f"model{suffix}.pt",
        f"policy{suffix}.json",
        f"policy{suffix}.safetensors",
    ]
    again = torch.load(folder / f"model{suffix}.pt", weights_only=False)
    assert torch.equal(again.weight, model.weight)
    for path in (tmp_path, folder):
        meta, tensors = load_policy(path, itr)
        assert meta["format"] == "spinup-policy-1" and meta["algo"] == "ppo"
        assert meta["ac_kwargs"] == {"h": [4, 4]}
        assert meta["class"] == {"module": "torch.nn.modules.linear", "qualname": "Linear"}
        np.testing.assert_array_equal(tensors["weight"], model.weight.detach().numpy())
    assert set(load_file(folder / f"policy{suffix}.safetensors")) == {"weight", "bias"}


def test_empty_state_writes_no_variables(tmp_path):
    logger = Logger(tmp_path)
    logger.save_state({}, None)
    assert not (tmp_path / "vars.pkl").exists()


def test_any_picklable_object_can_be_saved(tmp_path):
    logger = Logger(tmp_path)
    logger.setup_pytorch_saver(what_to_save={"pi": torch.nn.Linear(1, 1), "n": 3})
    logger.save_state({})
    assert torch.load(tmp_path / "pyt_save/model.pt", weights_only=False)["n"] == 3
    assert not (tmp_path / "pyt_save/policy.json").exists()


def test_what_cannot_be_pickled_gives_one_warning_each_and_the_policy_is_saved(tmp_path, capsys):
    logger = Logger(tmp_path)
    model = torch.nn.Linear(1, 1)
    model.hook = lambda x: x
    logger.setup_pytorch_saver(model)
    capsys.readouterr()
    for itr in (None, 1, 2):
        logger.save_state({"env": threading.Lock()}, itr)
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert not list(tmp_path.glob("vars*.pkl")) and not list(tmp_path.glob("pyt_save/model*.pt"))
    assert load_policy(tmp_path, 2)[1]["weight"].shape == (1, 1)


def test_half_precision_weights_come_back_exactly(tmp_path):
    logger = Logger(tmp_path)
    model = torch.nn.Linear(4, 4).to(torch.bfloat16)
    logger.setup_pytorch_saver(model)
    logger.save_state({})
    weight = torch.from_numpy(load_policy(tmp_path)[1]["weight"]).to(torch.bfloat16)
    assert torch.equal(weight, model.weight)


def test_full_disk_keeps_the_earlier_model_and_policy(tmp_path):
    disk = tmp_path / "disk"
    with small_disk(disk, "512k") as full:
        logger = Logger(disk, quiet=True)
        model = torch.nn.Linear(64, 64)
        logger.setup_pytorch_saver(model)
        logger.save_state({"x": 1})
        weights = model.weight.detach().clone()
        before = {p: p.read_bytes() for p in disk.rglob("*") if p.is_file()}
        torch.nn.init.zeros_(model.weight)
        with full(0):
            with pytest.raises(OSError):
                logger.save_state({"x": list(range(20_000))})
            with pytest.raises(OSError):
                logger._pytorch_simple_save()
            with pytest.raises(OSError):
                save_policy(str(disk / "pyt_save"), "", model, None)
        assert {p: p.read_bytes() for p in disk.rglob("*") if p.is_file()} == before
        np.testing.assert_array_equal(load_policy(disk)[1]["weight"], weights)
        logger.save_state({})
        assert not load_policy(disk)[1]["weight"].any()
        logger.close()


def test_full_disk_after_the_tensors_keeps_the_earlier_policy(tmp_path):
    """The tensors fit, their description does not: the old pair must still count."""
    model = torch.nn.Linear(2, 2)
    save_policy(str(tmp_path), "", model, {"version": 0})
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    torch.nn.init.zeros_(model.weight)
    with file_size_limit(4096), pytest.raises(OSError):
        save_policy(str(tmp_path), "", model, {"long": ["x" * 90] * 100})
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_a_crash_at_any_call_leaves_a_loadable_policy(tmp_path):
    """Two files cannot be replaced at once, yet at every instant one whole pair must count."""
    model = torch.nn.Linear(2, 2)

    def save(folder, version):
        torch.nn.init.constant_(model.weight, version)
        save_policy(str(folder), "", model, {"version": version})

    seen = []
    crashes = crashes_at_every_call(tmp_path, lambda place: save(place, 0), lambda p: save(p, 1))
    for folder in crashes:
        meta, tensors = load_policy(folder)
        assert (tensors["weight"] == meta["version"]).all()
        seen.append(meta["version"])
        save(folder, 2)
        assert load_policy(folder)[0]["version"] == 2
        assert not (folder / "policy.safetensors.new").exists()
    assert seen == sorted(seen) and set(seen) == {0, 1} and len(seen) > 5

"""Paths that user code and jobs of released versions rely on: names, and programs."""

import hashlib
import importlib
import json
import struct
import subprocess
import sys
import types

import cloudpickle
import pytest

from spinup import registry
from spinup.grids.cells import Cell, make_jobs
from tests.helpers.processes import run_python

# The names that API.md promises, at the paths where user code imports them.
PROMISED = {
    "spinup": "Logger EpochLogger SpinupError",
    "spinup.utils.mpi_tools": (
        "mpi_fork proc_id num_procs allreduce broadcast mpi_op mpi_sum mpi_avg "
        "mpi_statistics_scalar msg"
    ),
    "spinup.utils.mpi_pytorch": "setup_pytorch_for_mpi mpi_avg_grads sync_params",
    "spinup.utils.mpi_tf": (
        "flat_concat assign_params_from_flat sync_params sync_all_params MpiAdamOptimizer"
    ),
    "spinup.utils.plot": (
        "plot_data get_datasets get_all_datasets make_plots main DIV_LINE_WIDTH units exp_idx"
    ),
    "spinup.utils.test_policy": (
        "load_policy_and_env load_pytorch_policy load_tf_policy run_policy run_episodes "
        "load_module saved_numbers print_table main LOADERS GetAction record_episodes"
    ),
    "spinup.utils.serialization_utils": "convert_json is_json_serializable",
    "spinup.utils.logx": "Logger EpochLogger colorize color2num restore_tf_graph",
    "spinup.utils.run_utils": (
        "setup_logger_kwargs call_experiment ExperimentGrid valid_str all_bools DIV_LINE_WIDTH"
    ),
    "spinup.version": "__version__ version_info",
    "spinup.user_config": (
        "DEFAULT_BACKEND DEFAULT_DATA_DIR FORCE_DATESTAMP DEFAULT_SHORTHAND WAIT_BEFORE_LAUNCH"
    ),
}
STARRED = ("spinup.utils.plot", "spinup.utils.test_policy", "spinup.utils.run_utils")
CORES = ("vpg", "trpo", "ppo", "ddpg", "td3", "sac")


@pytest.mark.parametrize("module", PROMISED)
def test_every_promised_name_is_at_its_path(module):
    loaded = importlib.import_module(module)
    for name in PROMISED[module].split():
        scope: dict = {}
        exec(compile(f"from {module} import {name}", "user code", "exec"), scope)
        assert scope[name] is getattr(loaded, name)
        assert name in dir(loaded)


@pytest.mark.parametrize("module", STARRED)
def test_a_star_imports_every_promised_name(module):
    scope: dict = {}
    exec(compile(f"from {module} import *", "user code", "exec"), scope)
    assert set(PROMISED[module].split()) <= set(scope)


# What the algorithm files of version 0.1 imported, which `spinup new` copied into users' packages.
COPIED = {
    "spinup.algos.common.learner": "Learner",
    "spinup.algos.common.minibatches": "minibatches",
    "spinup.algos.common.schedules": "linear_schedule",
    "spinup.algos.common.shapes": "combined_shape",
    "spinup.algos.pytorch.common.path_buffer": "PathBuffer",
    "spinup.algos.tf1.common.path_buffer": "PathBuffer",
    "spinup.runs.scalar": "Scalar",
    "spinup.utils.mpi_pytorch": "shard_mean",
}


@pytest.mark.parametrize("module", COPIED)
def test_copies_of_algorithm_files_find_what_they_import(module):
    assert callable(getattr(importlib.import_module(module), COPIED[module]))


@pytest.mark.parametrize("algo", CORES)
def test_every_core_has_the_helpers_of_the_original(algo):
    core = importlib.import_module(f"spinup.algos.pytorch.{algo}.core")
    names = ["mlp", "count_vars", "combined_shape", "MLPActorCritic"]
    names += ["discount_cumsum"] if registry.get(algo).on_policy else []
    assert all(callable(getattr(core, name)) for name in names)


def test_the_values_of_small_names_are_those_that_user_code_expects():
    import spinup
    from spinup.algos.pytorch.sac import core
    from spinup.utils.logx import color2num
    from spinup.utils.run_utils import DIV_LINE_WIDTH, all_bools

    assert color2num["gray"] == 30 and color2num["crimson"] == 38 and len(color2num) == 9
    assert DIV_LINE_WIDTH == 80
    assert all_bools([True, False]) and not all_bools([True, 1])
    assert (core.LOG_STD_MIN, core.LOG_STD_MAX) == (-20, 2)
    assert core.Normal(0.0, 1.0).entropy().item() == pytest.approx(1.4189, abs=1e-4)
    assert spinup.version.__version__ == spinup.__version__
    assert ".".join(map(str, spinup.version.version_info)) == spinup.__version__
    assert {row.name for row in registry.ROWS} == set(spinup.user_config.DEFAULT_BACKEND)


def test_mpi4py_is_imported_only_when_user_code_asks_for_it(monkeypatch):
    from spinup.utils import mpi_tools

    fake = types.ModuleType("mpi4py")
    fake.MPI = object()
    monkeypatch.setitem(sys.modules, "mpi4py", fake)
    assert mpi_tools.MPI is fake.MPI
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(ImportError, match=r"pip install 'spinup\[mpi\]'"):
        from spinup.utils.mpi_tools import MPI  # noqa: F401
    assert not hasattr(mpi_tools, "MPJ")


@pytest.mark.parametrize(
    ("module", "cls", "methods"),
    [
        (
            "spinup.utils.logx",
            "Logger",
            "log log_tabular dump_tabular save_config save_state setup_pytorch_saver",
        ),
        ("spinup.utils.logx", "EpochLogger", "store log_tabular get_stats"),
        ("spinup.utils.run_utils", "ExperimentGrid", "add variant_name variants print run"),
    ],
)
def test_promised_classes_have_their_methods(module, cls, methods):
    loaded = getattr(importlib.import_module(module), cls)
    assert all(callable(getattr(loaded, name)) for name in methods.split())


def test_a_name_that_is_nowhere_is_an_import_error():
    with pytest.raises(ImportError, match="no_such_name"):
        from spinup.utils.test_policy import no_such_name  # noqa: F401


# ---- programs ------------------------------------------------------------------------------------


def start(module, *words, expect=0, **variables):
    """The output of `python -m module words`, which must end with the status `expect`."""
    done = run_python("-m", module, *words, expect=expect, **variables)
    return done.stdout + done.stderr


@pytest.mark.parametrize("module", ["spinup.utils.plot", "spinup.utils.test_policy"])
def test_tools_still_start_by_their_old_paths(module):
    assert "--help" in start(module, "--help")
    assert start(module, "--no-such-flag", expect=2).startswith("spinup: ")


def jobs_of_a_release(folder):
    """A grid of one cell that leaves a file, as version 0.1.0 pickled it."""

    def train(seed, logger_kwargs):
        (folder / "trained").write_text(f"seed {seed}")

    cell = Cell("old", train, 3, {})
    jobs = make_jobs([cell], folder / ".grid", [str(folder / "old_s3")], "launch")
    # Pickles name the module of a class; both names have the same length.
    return jobs, lambda what: cloudpickle.dumps(what).replace(
        b"spinup.grids.cells", b"spinup.utils.cells"
    )


def test_the_worker_of_a_released_launcher_still_runs_its_cell(tmp_path):
    jobs, pickled = jobs_of_a_release(tmp_path)
    header = json.dumps({"sys_path": [], "cwd": str(tmp_path)}).encode()
    payload = pickled(jobs[0])
    assert b"spinup.utils.cells" in payload
    sent = struct.pack("<QQ", len(payload), len(header)) + header + payload
    worker = subprocess.Popen([sys.executable, "-m", "spinup.utils.workers"], stdin=subprocess.PIPE)
    worker.stdin.write(sent)
    worker.stdin.flush()  # and it stays open, as long as the launcher lives
    assert worker.wait(timeout=300) == 0
    worker.stdin.close()
    assert (tmp_path / "trained").read_text() == "seed 3"


def test_a_submitted_slurm_task_of_a_released_version_still_runs(tmp_path):
    jobs, pickled = jobs_of_a_release(tmp_path)
    cells = tmp_path / "cells.pickle"
    cells.write_bytes(pickled(jobs))
    sha256 = hashlib.sha256(cells.read_bytes()).hexdigest()
    start("spinup.utils.slurm_executor", cells, sha256, SLURM_ARRAY_TASK_ID="0")
    assert (tmp_path / "trained").read_text() == "seed 3"

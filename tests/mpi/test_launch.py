"""Ways to start several processes, and what is said when it cannot be done."""

import csv
import importlib.util
import os
import re
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from spinup.grids.experiments import process_count
from spinup.parallel import launch as mpi_launch
from spinup.parallel import mpi as mpi_tools
from spinup.parallel.launch import Launch, find_mpirun, mpirun_command, physical_cores
from spinup.utils.errors import SpinupError
from tests.helpers.processes import run_python

HERE = Path(__file__).parent
TINY = [
    *("--env", "CartPole-v1", "--steps", "64", "--epochs", "2", "--hid", "8"),
    *("--train_pi_iters", "2", "--train_v_iters", "2", "--data_dir", "data", "--exp_name", "tiny"),
]


def rows(folder):
    with open(folder / "progress.txt", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


# ---------------------------------------------------------------------------------- real launches


@pytest.mark.mpi
def test_a_grid_from_the_console_script_on_named_hosts(start, tmp_path):
    script = Path(sys.executable).parent / "spinup"
    words = [*TINY, "--cpu", 2, "--seed", 0, 10, "--hosts", "localhost:2", "--log_all_ranks"]
    job = start("ppo", *words, program=str(script))
    assert job.wait() == 0
    for seed in (0, 10):
        assert len(rows(tmp_path / f"data/tiny/tiny_s{seed}")) == 2
    # only rank 0 prints, and each thing once
    assert job.stdout.count("Training ppo on CartPole-v1") == 2
    assert len(re.findall(r"\| +Epoch \|", job.stdout)) == 4
    assert job.stderr == ""
    folder = tmp_path / "data/tiny/rank_logs"
    assert [p.name for p in folder.iterdir()] == ["rank-1.txt"]
    assert not (tmp_path / "data/tiny/tiny_s0/.mpi_job").exists(), "it cannot be started again"


@pytest.mark.mpi
def test_an_algorithms_own_module_with_a_hostfile(start, tmp_path):
    (tmp_path / "hosts").write_text("localhost slots=1\n")
    words = [*TINY, "--cpu", 2, "--hostfile", "hosts"]
    job = start("-m", "spinup.algos.pytorch.ppo.ppo", *words)
    assert job.wait() == 0
    assert len(rows(tmp_path / "data/tiny/tiny_s0")) == 2
    assert '"shards": 2' in (tmp_path / "data/tiny/tiny_s0/config.json").read_text()


@pytest.mark.mpi
@pytest.mark.parametrize("flags", [[], ["--cpu", 2]])
def test_under_an_outer_launcher_nothing_is_forked(start, tmp_path, flags):
    words = ["-np", 2, "--oversubscribe", "python", "-m", "spinup.run", "ppo", *TINY, *flags]
    job = start(*words, program="mpirun")
    assert job.wait() == 0
    assert [p.name for p in (tmp_path / "data/tiny").iterdir()] == ["tiny_s0"]
    assert len(rows(tmp_path / "data/tiny/tiny_s0")) == 2
    assert job.stdout.count("Training ppo on CartPole-v1") == 1
    assert not (tmp_path / "data/tiny/tiny_s0/.old").exists(), "written by one run"


@pytest.mark.mpi
def test_a_users_script_where_a_rank_finishes_no_episode(start, tmp_path):
    job = start(HERE / "program_user.py", "out")
    assert job.wait() == 0
    table = rows(tmp_path / "out")
    assert [row["AverageEpRet"] == "nan" for row in table] == [True, False, True]
    assert [float(row["TotalEnvInteracts"]) for row in table] == [40, 80, 120]
    assert float(table[1]["EpLen"]) == 30, "one episode, on one rank"
    # the user's class starts differently on every process: they were made equal, and stay so
    first, second = (np.load(tmp_path / f"weights-{rank}-of-2.npy") for rank in (0, 1))
    assert first.tobytes() == second.tobytes()


@pytest.mark.mpi
def test_an_uneven_split_is_refused_in_one_sentence(start, tmp_path):
    job = start("-m", "spinup.run", "ppo", *(w if w != "64" else "65" for w in TINY), "--cpu", 2)
    assert job.wait() == 2
    last = job.stderr.rstrip().splitlines()[-1]
    assert last == (
        "spinup: steps_per_epoch=65 does not divide into 2 shards: use for example 64 or 66"
    )
    assert not (tmp_path / "data").exists()


# ------------------------------------------------------------------------- without a real launch


def run(code, *words, environment, **variables):
    return run_python(
        "-c", textwrap.dedent(code), *words, expect=None, env={**environment, **variables}
    )


def test_without_mpi4py_one_sentence_says_what_to_install(environment, tmp_path):
    code = """
        import sys
        sys.modules["mpi4py"] = None
        from spinup.run import main
        sys.exit(main(sys.argv[1:]))
    """
    words = [w if w != "data" else str(tmp_path / "data") for w in TINY]
    done = run(code, "ppo", *words, "--cpu", "2", environment=environment)
    assert done.returncode == 2
    assert done.stderr == (
        "spinup: training on 2 processes needs mpi4py and MPI: run pip install 'spinup[mpi]'\n"
    )
    assert not (tmp_path / "data").exists()
    # a single process needs neither
    done = run(code, "ppo", *words, "--cpu", "1", environment=environment)
    assert done.returncode == 0, done.stderr


def test_without_mpirun_one_sentence_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SpinupError, match=r"needs MPI: run pip install 'spinup\[mpi\]'"):
        find_mpirun()


def test_a_launcher_of_another_mpi_is_named(environment):
    """Each process would believe to be alone, and all would write one directory."""
    done = run(
        "from spinup.parallel.mpi import num_procs; num_procs()",
        environment=environment,
        PMI_SIZE="2",
        PMI_RANK="0",
    )
    assert done.returncode == 1
    assert (
        "a launcher started 2 processes, but it does not belong to the MPI library" in done.stderr
    )


def test_an_interactive_session_is_told_to_use_a_file(monkeypatch):
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    with pytest.raises(SpinupError, match="put the code into a file"):
        mpi_tools.mpi_fork(2)


@pytest.mark.parametrize("n", [1, 0, -1])
def test_one_process_or_less_means_no_fork(n, monkeypatch):
    monkeypatch.setattr(mpi_launch, "run_job", lambda launch: pytest.fail("forked"))
    assert mpi_tools.mpi_fork(n) is None


@pytest.mark.parametrize("flag", ["--hosts", "--hostfile", "--max_restarts"])
def test_flags_about_several_processes_want_to_know_how_many(flag, environment):
    done = run_python("-m", "spinup.run", "ppo", *TINY, flag, "3", expect=2, env=environment)
    assert done.stderr == (
        f"spinup: '{flag}' applies only to several processes: set their number with --cpu\n"
    )


def test_auto_is_the_number_of_cores_we_may_use(environment):
    allowed = os.sched_getaffinity(0)
    assert 1 <= physical_cores() <= len(allowed)
    assert process_count("auto") == physical_cores()
    code = """
        import os
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        from spinup.grids.experiments import process_count
        print(process_count("auto"))
    """
    assert run(code, environment=environment).stdout == "1\n"


# --------------------------------------------------------------------------------- command lines


@pytest.fixture
def fake_mpirun(monkeypatch, tmp_path):
    """Stands beside the interpreter and says which MPI it is."""

    def make(name, version):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\necho '{version}'\n")
        path.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
        return str(path)

    return make


def test_the_command_for_open_mpi(fake_mpirun):
    mpirun = fake_mpirun("mpirun", "mpirun (Open MPI) 5.0.11")
    program = ["python", "-m", "spinup.run", "ppo"]
    plain = [mpirun, "-np", "3", "--oversubscribe", "--bind-to"]
    assert mpirun_command(Launch(3), program, {}) == [*plain, "none", *program]
    assert mpirun_command(Launch(3, True), program, {}) == [*plain, "core", *program]
    far = mpirun_command(
        Launch(3, hosts="a:2,b"), program, {"SPINUP_X": "1", "OMP_NUM_THREADS": "1", "HOME": "/"}
    )
    expected = ["--host", "a:2,b", "-x", "OMP_NUM_THREADS", "-x", "SPINUP_X", *program]
    assert far == [*plain, "none", *expected]
    listed = mpirun_command(Launch(3, hostfile="file"), program, {})
    assert listed == [*plain, "none", "--hostfile", "file", *program]


def test_the_command_for_mpich(fake_mpirun):
    mpirun = fake_mpirun("mpirun", "HYDRA build details: Version: 4.3")
    program = ["python", "x.py"]
    command = mpirun_command(Launch(2, True, hosts="a,b"), program, {})
    listed = mpirun_command(Launch(2, hostfile="file"), program, {})
    assert command == [mpirun, "-n", "2", "-bind-to", "core", "-hosts", "a,b", *program]
    assert listed == [mpirun, "-n", "2", "-f", "file", *program]


def test_a_module_is_started_again_as_a_module(environment):
    code = "from spinup.parallel.launch import this_program; print(this_program()[1:])"
    done = run_python("-X", "utf8", "-c", code, "a b", env=environment)
    assert done.stdout.strip() == str(["-X", "utf8", "-c", code, "a b"])


# ---------------------------------------------------------------------------------------- shards


@pytest.mark.parametrize(
    ("count", "procs", "rank", "local"),
    [(None, 1, 0, [0]), (None, 4, 2, [2]), (4, 2, 1, [2, 3]), (4, 1, 0, [0, 1, 2, 3])],
)
def test_shards_default_to_processes_and_are_dealt_in_order(monkeypatch, count, procs, rank, local):
    monkeypatch.setattr(mpi_tools, "num_procs", lambda: procs)
    monkeypatch.setattr(mpi_tools, "proc_id", lambda: rank)
    shards = mpi_tools.Shards(count)
    assert list(shards.local) == local
    assert shards.count == (procs if count is None else count)


def test_what_does_not_divide_is_said_with_what_would(monkeypatch):
    monkeypatch.setattr(mpi_tools, "num_procs", lambda: 4)
    with pytest.raises(SpinupError, match=r"shards=6 cannot be divided .* use a multiple of 4"):
        mpi_tools.Shards(6)
    shards = mpi_tools.Shards(8)
    assert shards.split("steps_per_epoch", 4000) == 500
    with pytest.raises(SpinupError, match=r"steps_per_epoch=4001 .* 4000 or 4008"):
        shards.split("steps_per_epoch", 4001)
    with pytest.raises(SpinupError, match="use for example 8"):
        shards.split("steps_per_epoch", 5)


def test_the_extra_brings_mpi():
    assert importlib.util.find_spec("mpi4py") is not None
    assert Path(find_mpirun()).exists()

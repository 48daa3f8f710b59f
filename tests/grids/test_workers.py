"""Cells in processes of their own: what reaches them, what comes back, what is refused."""

import asyncio
import json
import os
import re
import sys
import threading

import pytest

from spinup.grids import workers
from spinup.grids.board import Board
from spinup.grids.cells import Cell, make_jobs
from spinup.grids.experiments import CellsFailed, ExperimentGrid
from spinup.utils.errors import SpinupError
from tests.helpers.processes import run_python


def run(thunk, folder, num_workers=2, seeds=(0, 1, 2), **more):
    eg = ExperimentGrid("w")
    eg.add("seed", list(seeds))
    for key in [key for key in more if key not in ("executor", "cpus_per_cell")]:
        eg.add(key, [more.pop(key)])
    eg.run(thunk, data_dir=folder, num_workers=num_workers, **more)


def test_lambdas_and_closures_travel_and_nothing_is_in_argv(tmp_path):
    here = os.getpid()

    def train(seed, logger_kwargs, env_fn, note, num_threads=None):
        assert os.getpid() != here
        seen = {
            "env": env_fn(),
            "note_length": len(note),
            "num_threads": num_threads,
            "omp": [os.environ[f"{n}_NUM_THREADS"] for n in ("OMP", "MKL", "OPENBLAS")],
            "argv": sys.orig_argv[1:],
            "torch": "torch" in sys.modules,
            "pid": os.getpid(),
        }
        (tmp_path / f"seen{seed}.json").write_text(json.dumps(seen))
        print("hello from", seed)

    # longer than the kernel allows in argv
    run(train, tmp_path, env_fn=lambda: f"made in {tmp_path}", note="x" * 300_000)
    seen = [json.loads((tmp_path / f"seen{seed}.json").read_text()) for seed in range(3)]
    assert len({s.pop("pid") for s in seen}) == 3  # a process each
    for seed in range(3):
        assert seen[seed] == {
            "env": f"made in {tmp_path}",
            "note_length": 300_000,
            "num_threads": 1,
            "omp": ["1", "1", "1"],
            "argv": ["-m", "spinup.grids.workers"],
            "torch": False,  # a fresh process, not a fork
        }
        assert f"hello from {seed}" in (tmp_path / f"w/.grid/w_s{seed}/log.txt").read_text()


def test_given_threads_win(tmp_path):
    def train(seed, logger_kwargs, num_threads=None):
        import os

        threads = os.environ["OMP_NUM_THREADS"]
        (tmp_path / f"threads{seed}").write_text(f"{num_threads} {threads}")

    run(train, tmp_path, seeds=[0], num_threads=3, cpus_per_cell=2)
    assert (tmp_path / "threads0").read_text() == "3 2"
    run(train, tmp_path, seeds=[1], cpus_per_cell=2)
    assert (tmp_path / "threads1").read_text() == "2 2"


REGISTERS = """
import functools, sys
import gymnasium as gym
from spinup.grids.experiments import ExperimentGrid

class Own(gym.Env):
    observation_space = action_space = gym.spaces.Discrete(2)
    def __init__(self, size=1):
        self.size = size

def train(env_fn, seed, logger_kwargs):
    print("size", env_fn().unwrapped.size)

gym.register("Class-v0", entry_point=Own)
gym.register("Text-v0", entry_point="__main__:Own", kwargs={"size": 2})
gym.register("Partial-v0", entry_point=functools.partial(Own, size=3))
eg = ExperimentGrid("own")
eg.add("env_name", ["Class-v0", "Text-v0", "Partial-v0"])
eg.run(train, data_dir=sys.argv[1], num_workers=3)
"""


def test_environments_that_the_users_script_registers_are_found(tmp_path):
    (tmp_path / "script.py").write_text(REGISTERS)
    run_python(tmp_path / "script.py", tmp_path)
    for size, name in enumerate(("class", "text", "partial"), 1):
        log = tmp_path / "own" / ".grid" / f"own_env{name}-v0_s0" / "log.txt"
        assert f"size {size}\n" in log.read_text()


def test_only_the_users_own_environments_travel():
    import gymnasium as gym

    from spinup.grids.cells import Cell, own_specs

    for name in ("CartPole-v1", "spinup/BitFlip-v0", "NoSuch-v0", "module:My-v0", None, ["x"]):
        assert own_specs(Cell("x", print, 0, {"env_name": name})) == ()
    gym.register("Travels-v0", entry_point=lambda: None)
    try:
        (spec,) = own_specs(Cell("x", print, 0, {"env_name": "Travels-v0"}))
        assert spec.id == "Travels-v0"
    finally:
        del gym.registry["Travels-v0"]


def test_modules_beside_the_users_script_are_found(tmp_path, monkeypatch):
    (tmp_path / "my_own_algorithm.py").write_text(
        "def train(seed, logger_kwargs):\n"
        "    open(f\"{logger_kwargs['output_dir']}.txt\", 'w').close()\n"
    )
    (tmp_path / "out" / "w").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path))
    import my_own_algorithm

    run(my_own_algorithm.train, tmp_path / "out", seeds=[0])
    assert (tmp_path / "out/w/w_s0.txt").exists()


def test_failures_come_at_the_end_with_the_tails_of_their_tracebacks(tmp_path, capfd):
    def train(seed, logger_kwargs):
        import os

        if seed == 0:
            raise ArithmeticError("seed zero")
        if seed == 1:
            os._exit(7)
        if seed == 2:
            os.kill(os.getpid(), 11)
        (tmp_path / f"ran{seed}").touch()

    with pytest.raises(CellsFailed, match=r"3 of 5 cells failed \(w_s0, w_s1, w_s2\)") as caught:
        run(train, tmp_path, seeds=range(5), num_workers=2)
    assert caught.value.exit_code == 1
    assert (tmp_path / "ran3").exists() and (tmp_path / "ran4").exists()
    out, err = capfd.readouterr()
    blocks = re.split(r"^-{80}$", err, flags=re.M)
    zero, one, two = (next(b for b in blocks if f"w_s{i} failed" in b) for i in range(3))
    assert "in train\n" in zero and zero.rstrip().endswith("ArithmeticError: seed zero")
    assert "its process ended with status 7" in one
    assert "its process was killed by SIGSEGV" in two
    assert out.count("w_s2: its process was killed by SIGSEGV; it is started again.") == 1
    assert "w/.grid/w_s0/log.txt" in zero


def test_a_process_that_ends_early_is_never_taken_for_a_cell_that_is_done(tmp_path, capfd):
    def train(seed, logger_kwargs):
        import os

        if seed == 0:
            os._exit(0)
        if seed == 1:
            os._exit(75)  # what a worker returns if another process runs its cell
        if seed == 2:
            os.kill(os.getpid(), 40)  # a real-time signal, which has no name
        (tmp_path / f"ran{seed}").touch()

    with pytest.raises(CellsFailed, match=r"3 of 4 cells failed \(w_s0, w_s1, w_s2\)"):
        run(train, tmp_path, seeds=range(4), num_workers=2)
    assert (tmp_path / "ran3").exists()
    _, err = capfd.readouterr()
    assert "its process ended before the cell was done" in err
    assert "its process ended with status 75" in err
    assert "its process was killed by signal 40" in err
    with pytest.raises(CellsFailed, match="3 of 4 cells failed"):  # none of them is skipped
        run(train, tmp_path, seeds=range(4), num_workers=2)


def test_a_hanging_cell_is_killed_and_named_when_the_grid_is_stopped(tmp_path, capfd, monkeypatch):
    def train(seed, logger_kwargs):
        import signal
        import time

        if seed == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            (tmp_path / "hangs").touch()
            time.sleep(1000)

    def stop_when_the_other_is_done(board, now=False):
        if (tmp_path / "hangs").exists() and board.states[1] == "done":
            monkeypatch.setattr(Board, "refresh", lambda board, now=False: None)
            raise KeyboardInterrupt

    monkeypatch.setattr(workers, "_GRACE", 0.3)
    monkeypatch.setattr(Board, "refresh", stop_when_the_other_is_done)
    with pytest.raises(KeyboardInterrupt):
        run(train, tmp_path, seeds=[0, 1])
    out, err = capfd.readouterr()
    assert "w_s0 did not save and stop when asked, so its process was killed" in out
    assert "w_s1 did not" not in out
    assert "Stopped with 1 of 2 cells done." in err


def test_a_cell_that_raises_what_is_no_exception_does_not_end_the_others(tmp_path, capfd):
    def train(seed, logger_kwargs):
        if seed == 0:
            raise asyncio.CancelledError("x" * 10_000)
        (tmp_path / "ran").touch()

    with pytest.raises(CellsFailed, match=r"1 of 2 cells failed \(w_s0\)"):
        run(train, tmp_path, seeds=[0, 1], num_workers=1)
    assert (tmp_path / "ran").exists()
    shown = max(capfd.readouterr().err.splitlines(), key=len)
    assert shown.count("x") < 3000  # a line of any length would fill the screen


def test_what_cannot_travel_is_refused_in_a_sentence_before_anything_runs(tmp_path):
    lock = threading.Lock()

    def train(seed, logger_kwargs, env_fn):
        (tmp_path / "ran").touch()

    with pytest.raises(SpinupError, match=r"w_s0 cannot be sent to another process .*lock"):
        run(train, tmp_path, env_fn=lambda: lock)
    assert not (tmp_path / "ran").exists()


def test_a_cell_that_another_process_runs_is_reported(tmp_path, monkeypatch):
    from spinup.grids.cells import holding

    def train(seed, logger_kwargs):
        (tmp_path / f"ran{seed}").touch()

    eg = ExperimentGrid("w")
    eg.add("seed", [0, 1])
    job = eg._jobs(eg.cells(train), tmp_path, False, 1)[0]
    monkeypatch.setenv("SPINUP_LOCK_WAIT", "0")
    with holding(job, 0), pytest.raises(CellsFailed, match=r"1 of 2 cells failed \(w_s0\)"):
        run(train, tmp_path, seeds=[0, 1])
    assert not (tmp_path / "ran0").exists() and (tmp_path / "ran1").exists()


def test_importing_the_launcher_costs_little():
    code = (
        "import sys, spinup.grids.experiments, spinup.grids.workers, spinup.grids.slurm_executor\n"
        "import spinup.grids.ray_executor\n"
        "print([m for m in ('torch', 'ray', 'gymnasium', 'cloudpickle') if m in sys.modules])"
    )
    done = run_python("-c", code)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["w/.grid", "w/.grid/w_s0", "w/.grid/w_s0/log.txt"])
def test_a_link_in_place_of_a_grids_own_files_is_not_followed(tmp_path, name):
    theirs = tmp_path / "theirs"
    if name.endswith(".txt"):
        theirs.write_text("precious")
    else:
        theirs.mkdir()
    data = tmp_path / "data"
    (data / name).parent.mkdir(parents=True)
    (data / name).symlink_to(theirs)
    with pytest.raises(SpinupError, match=re.escape(str(data / name))):
        run(lambda seed, logger_kwargs: None, data, seeds=(0, 1))
    assert theirs.read_text() == "precious" if theirs.is_file() else not list(theirs.iterdir())


def test_a_full_disk_is_one_sentence(tmp_path):
    """The kernel's own full disk: every write to it fails."""
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    (job,) = make_jobs(
        [Cell("w", lambda: None, 0, {})], tmp_path / ".grid", [str(tmp_path / "w_s0")], ""
    )
    job.make_folder()

    def open_full(path, flags):
        return os.open("/dev/full", os.O_WRONLY)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "open_own", open_full)
        with pytest.raises(
            SpinupError, match=r"log.txt \(No space left on device\); .* still there"
        ):
            workers.start(job, b"")

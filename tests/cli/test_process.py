"""One experiment runs in the process of the command: debuggers, Ctrl-C and tracebacks behave."""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from spinup.cli.main import main
from tests.helpers.processes import SECONDS

TINY = "--steps 100 --hid 4 --train_pi_iters 1 --train_v_iters 1"

MODULE = """
    import os
    import gymnasium

    class Env(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
        action_space = gymnasium.spaces.Discrete(2)

        def __init__(self, goal=3, trouble=None):
            self.goal, self.trouble = goal, trouble

        def reset(self, *, seed=None, options=None):
            self.t = 0
            return self.observation_space.low, {}

        def step(self, action):
            self.t += 1
            answer = 42
            if self.trouble == "stop":
                self.trouble = None
                breakpoint()
            if self.trouble == "fail":
                raise RuntimeError("the environment broke")
            return self.observation_space.high, float(self.goal), self.t == self.goal, False, {}

    gymnasium.register("Mine-v0", Env)
    print("REGISTERED IN", os.getpid())
"""

# As the installed command does it: the working directory is not on the path.
COMMAND = [
    sys.executable,
    "-c",
    "import sys; sys.path.remove(''); from spinup.run import main; sys.exit(main())",
]


@pytest.fixture
def start(tmp_path):
    """Start `spinup ...` where a module `my_envs` lies."""
    (tmp_path / "my_envs.py").write_text(textwrap.dedent(MODULE))

    def start(line, **kwargs):
        return subprocess.Popen(
            [*COMMAND, *line.split()],
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **kwargs,
        )

    return start


def rows(path):
    return [line.split("\t") for line in path.read_text().splitlines()]


def test_an_environment_of_a_module_is_made_with_its_arguments(start, tmp_path):
    line = f"ppo --env my_envs:Mine-v0 --env_kwargs:goal 7 --epochs 1 {TINY}"
    job = start(line)
    out, err = job.communicate(timeout=SECONDS)
    assert job.returncode == 0, err
    assert out.count(f"REGISTERED IN {job.pid}") == 1
    header, row = rows(tmp_path / "data/cmd_ppo_pytorch/cmd_ppo_pytorch_s0/progress.txt")
    table = dict(zip(header, map(float, row), strict=True))
    assert table["EpLen"] == 7 and table["AverageEpRet"] == 49
    # The other tools look in the working directory only if the user names the module or trusts it.
    run = "data/cmd_ppo_pytorch/cmd_ppo_pytorch_s0"
    play = f"test_policy {run} -nr -n 2"
    for line in (f"{play} --env my_envs:Mine-v0", f"{play} --trust-pickle"):
        job = start(line)
        out, err = job.communicate(timeout=SECONDS)
        assert job.returncode == 0, err
    job = start(play)
    out, err = job.communicate(timeout=SECONDS)
    assert job.returncode == 2 and "--env" in err and "REGISTERED" not in out


def test_workers_import_the_module_too(start, tmp_path):
    line = f"ppo --env my_envs:Mine-v0 --seed 0 1 --num_workers 2 --epochs 1 {TINY}"
    job = start(line)
    _, err = job.communicate(timeout=SECONDS)
    assert job.returncode == 0, err
    for seed in (0, 1):
        path = tmp_path / f"data/cmd_ppo_pytorch/cmd_ppo_pytorch_s{seed}/progress.txt"
        assert len(rows(path)) == 2


def test_a_debugger_reads_from_the_terminal(start):
    job = start(f"ppo --env my_envs:Mine-v0 --env_kwargs:trouble stop --epochs 1 {TINY}")
    out, err = job.communicate(
        "p answer * 10\nimport os\np ('pid', os.getpid())\nc\n", timeout=SECONDS
    )
    assert job.returncode == 0, err
    assert "(Pdb) 420\n" in out and f"('pid', {job.pid})" in out
    assert "This run is in data/cmd_ppo_pytorch/cmd_ppo_pytorch_s0." in out


def test_an_exception_keeps_its_own_traceback_last(start):
    job = start(f"ppo --env my_envs:Mine-v0 --env_kwargs:trouble fail --epochs 1 {TINY}")
    _, err = job.communicate(timeout=SECONDS)
    assert job.returncode == 1
    assert err.splitlines()[-1] == "RuntimeError: the environment broke"
    assert 'my_envs.py", line' in err.splitlines()[-3]


def test_ctrl_c_saves_and_says_how_to_go_on(start, tmp_path):
    line = f"ppo --env CartPole-v1 --epochs 100000 {TINY}"
    job = start(line, start_new_session=True)
    progress = tmp_path / "data/cmd_ppo_pytorch/cmd_ppo_pytorch_s0/progress.txt"
    deadline = time.monotonic() + SECONDS
    while not (progress.is_file() and len(rows(progress)) > 3):
        assert job.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    if os.path.isdir("/proc"):
        children = [p for p in os.listdir("/proc") if p.isdigit() and parent(p) == job.pid]
        assert children == []  # the training is in this very process
    os.killpg(job.pid, signal.SIGINT)
    _, err = job.communicate(timeout=SECONDS)
    assert job.returncode == 130
    said, command = err.splitlines()
    assert re.fullmatch(
        r"Stopped and saved after [\d,]+ steps. To continue exactly from here:", said
    )
    assert command == f"    python -m spinup.run {line} --resume"
    config = json.loads(progress.with_name("config.json").read_text())
    assert config["resume_with"] == command.split()
    assert "origin" not in config["logger_kwargs"]
    done = len(rows(progress)) - 1
    words = command.removeprefix("    python -m spinup.run ")
    again = start(words.replace("100000", str(done + 2)))
    _, err = again.communicate(timeout=SECONDS)
    assert again.returncode == 0, err
    assert [row[0] for row in rows(progress)[1:]] == [str(i) for i in range(done + 2)]


def parent(pid):
    """The parent of a process, None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return None


@pytest.mark.parametrize(
    "line, code",
    [
        ("", 0),
        ("--version", 0),
        ("ppo --help", 0),
        ("algos", 0),
        ("ppo --env CartPole-v1 --dry_run", 0),
        ("ppo --env CartPole-v1 --epochs 1 --data_dir {tmp}", 141),
    ],
)
def test_a_reader_that_ends_early_ends_the_command_quietly(line, code, tmp_path, monkeypatch):
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert main([*line.format(tmp=tmp_path).split(), *(TINY.split() if code else [])]) == code


def test_a_broken_pipe_to_something_else_is_not_hidden(monkeypatch):
    def fails(args):
        raise BrokenPipeError("a worker ended")

    monkeypatch.setattr("spinup.cli.algos.main", fails)
    monkeypatch.setattr(sys, "stdout", sys.__stdout__)
    with pytest.raises(BrokenPipeError, match="a worker"):
        main(["algos"])


def test_help_into_head_prints_no_traceback(tmp_path):
    line = f"{sys.executable} -m spinup.run ppo --help | head -n 1"
    done = subprocess.run(line, shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.startswith("usage: spinup ppo") and done.stderr == ""

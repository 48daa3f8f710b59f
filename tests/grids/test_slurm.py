"""The generated array script, its tasks executed as Slurm would: killed, requeued, run again."""

import json
import os
import pickle
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from spinup.grids import slurm_executor
from spinup.grids.experiments import ExperimentGrid
from spinup.utils.errors import SpinupError


def fake(folder, name, body):
    """A command of Slurm's that notes its arguments in `<name>.called`."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f'#!/bin/sh\necho "$@" >> {folder}/{name}.called\n{body}\n')
    path.chmod(0o755)
    return folder / f"{name}.called"


class Task:
    """One task of an array, started as `bash script` with Slurm's variables."""

    def __init__(self, script, number, commands=""):
        env = {
            **os.environ,
            "SLURM_ARRAY_TASK_ID": str(number),
            "SLURM_ARRAY_JOB_ID": "77",
            "PATH": f"{commands}:{os.environ['PATH']}",
        }
        self.process = subprocess.Popen(
            ["bash", str(script)],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def wait(self, expect=0):
        out, _ = self.process.communicate(timeout=300)
        assert self.process.returncode == expect, out
        return out


def written(out):
    """The script that a start of the grid says it has written."""
    return Path(re.search(r"sbatch (\S+\.sh)", out)[1])


def test_tasks_are_requeued_killed_and_run_again(grids, tmp_path):
    out, _ = grids.Grid(tmp_path, executor="slurm", slurm_options={"time": "4:00:00"}).wait()
    script = written(out)
    lines = script.read_text().splitlines()
    for line in (
        "#SBATCH --array=0-2",
        "#SBATCH --requeue",
        "#SBATCH --signal=B:USR1@120",
        "#SBATCH --cpus-per-task=1",
        "#SBATCH --time=4:00:00",
    ):
        assert line in lines
    assert script.with_suffix(".pickle").exists()  # a lambda cannot be JSON
    requeued = fake(tmp_path / "bin", "scontrol", "")
    commands = tmp_path / "bin"
    with grids.hold(tmp_path):
        # the time limit comes near in one, and the other's machine crashes
        tasks = [Task(script, 0, commands), Task(script, 1, commands)]
        grids.wait_for(lambda: len(list(tmp_path.glob("reached-*"))) == 2, "tasks", tmp_path)
        pids = {s["pid"]: name for name, s in grids.states(tmp_path).items()}
        warned, victim = sorted(pids, key=pids.get)
        os.kill(victim, signal.SIGKILL)
        tasks[1].wait(expect=137)
        tasks[0].process.send_signal(signal.SIGUSR1)
        arrived = (tmp_path / f"signals-{warned}").read_bytes
        grids.wait_for(lambda: signal.SIGTERM in arrived(), "the signal", tmp_path)
    printed = tasks[0].wait()
    assert "Stopped and saved after 250 steps" in printed
    assert requeued.read_text() == "requeue 77_0\n"
    assert [grids.states(tmp_path)[f"kill_s{i}"]["state"] for i in (0, 1)] == ["stopped", "running"]
    for number in range(3):
        printed = Task(script, number, commands).wait()
        assert ("Resuming " in printed) == (number < 2)
    assert grids.results(tmp_path) == grids.reference
    assert "kill_s2 is already done." in Task(script, 2, commands).wait()
    out, _ = grids.Grid(tmp_path, executor="slurm").wait()
    assert "All cells are done: there is nothing to submit." in out


@pytest.fixture
def plain(tmp_path, monkeypatch, capsys):
    """Writes the script of a grid of a registered algorithm; returns (its path, what was said)."""
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")

    def write(thunk=None, env="CartPole-v1", **options):
        from spinup import vpg_pytorch

        eg = ExperimentGrid("plain")
        eg.add("env_name", env)
        eg.add("seed", [0, 1])
        eg.add("epochs", 1)
        eg.add("steps_per_epoch", 50)
        eg.add("ac_kwargs:hidden_sizes", [[8, 8]])
        eg.run(thunk or vpg_pytorch, data_dir=tmp_path / "data", executor="slurm", **options)
        said = capsys.readouterr().out
        return written(said), said

    return write


def test_plain_cells_are_json(plain, tmp_path):
    script, said = plain(num_workers=7, cpus_per_cell=2, gpus_per_cell=1)
    assert "There is no sbatch here." in said
    text = script.read_text()
    assert "#SBATCH --array=0-1%7" in text and "#SBATCH --gpus-per-task=1" in text
    assert "#SBATCH --cpus-per-task=2" in text and "OMP_NUM_THREADS=2" in text
    (cells,) = script.parent.glob("*.json")
    rows = json.loads(cells.read_text())
    assert [(row["algorithm"], row["name"], row["seed"]) for row in rows] == [
        ("vpg_pytorch", "plain_s0", 0),
        ("vpg_pytorch", "plain_s1", 1),
    ]
    assert rows[0]["kwargs"]["ac_kwargs"] == {"hidden_sizes": [8, 8]}
    Task(script, 1).wait()
    assert (tmp_path / "data/plain/plain_s1/.finished").exists()
    assert not (tmp_path / "data/plain/plain_s0").exists()


def test_sbatch_is_called_where_there_is_one(plain, tmp_path):
    called = fake(tmp_path / "bin", "sbatch", "echo Submitted batch job 77")
    script, said = plain()
    assert called.read_text() == f"{script}\n"
    assert "Submitted batch job 77" in said
    fake(tmp_path / "bin", "sbatch", "echo 'invalid partition' >&2; exit 1")
    with pytest.raises(SpinupError, match=r"sbatch refused the job \(invalid partition\)"):
        plain()


def test_modules_beside_the_users_script_are_found(plain, tmp_path, monkeypatch):
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "my_slurm_algorithm.py").write_text(
        "def train(seed, **kwargs):\n    print('my own', seed)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "beside"))
    import my_slurm_algorithm

    script, _ = plain(thunk=my_slurm_algorithm.train)
    assert "my own 1" in Task(script, 1).wait()


def test_only_what_python_came_with_is_left_out_of_the_path(monkeypatch, tmp_path):
    venv = tmp_path / "env"
    ours = [venv / "src" / "app", tmp_path / "env-project", tmp_path / "code"]
    theirs = [venv / "lib" / "python3.11" / "site-packages", venv / "lib" / "python311.zip"]
    monkeypatch.setattr("sys.prefix", str(venv))
    monkeypatch.setattr("sys.path", [str(folder) for folder in (*ours, *theirs, ours[0])])
    assert slurm_executor._own_folders() == [str(folder) for folder in ours]


def test_names_with_spaces_and_signs_are_quoted_for_sbatch(tmp_path, capsys):
    eg = ExperimentGrid("my 50% #1")
    eg.add("seed", [0, 1])
    eg.run(print, data_dir=tmp_path, executor="slurm", slurm_options={"comment": "a b"})
    capsys.readouterr()
    (script,) = tmp_path.glob("*/.grid/slurm/*.sh")
    words = [
        shlex.split(line.removeprefix("#SBATCH "))
        for line in script.read_text().splitlines()
        if line.startswith("#SBATCH ")
    ]
    assert all(len(each) == 1 for each in words), words
    place = tmp_path / "my 50%% #1" / ".grid" / "slurm"
    assert [f"--output={place}/%A_%a.out"] in words and ["--comment=a b"] in words


# Text that does harm in a script unless it is quoted; {} creates the file that gives it away.
HOSTILE = [
    "a\n{}",
    "a\n{}\n#",
    "a'\n{}\n'",
    "\n#SBATCH --wrap={}",
    "a\r{}",
    "a\r\n{}",
    "a\x0b{}",
    "a\x0c{}",
    "a\x85{}",
    "a\u2028{}",
    "a\u2029{}",
    "a\0{}",
    "\x1b]0;{}\x07",
    "\u202e{}",
    "a\x7f{}",
    "$({})",
    "`{}`",
    "${{IFS}}$({})",
    "a;{}",
    "a&{}",
    "a|{}",
    "a&&{}",
    "a||{}",
    "a>b;{}",
    "'; {}; '",
    '"; {}; "',
    "'\"'; {}; '\"'",
    "\\'; {}; \\'",
    "a\\",
    "#{}",
    "# a\n{}",
    "%A_%a $({})",
    "%%$({})",
    " a  b $({}) ",
    "-x $({})",
    "--wrap={}",
    "~$({})",
    "!{}",
    "*$({})?[a]",
    "<({})",
    "(){{ {};}};a",
    "EOF\n{}",
    "é`{}`",
]


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory):
    """A program in place of Python that only notes its arguments, and a folder for traces."""
    folder = tmp_path_factory.mktemp("stand-in")
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {folder}/arguments\n')
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize("place", ["name", "data_dir", "option", "working directory"])
@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_runs_as_a_command(stand_in, tmp_path, monkeypatch, capsys, text, place):
    trace = stand_in / "trace"
    text = text.format(f"touch {trace}" if place == "option" else "touch trace")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr("sys.executable", str(stand_in / "python"))
    monkeypatch.setattr(slurm_executor, "_own_folders", lambda: [f"{tmp_path}/{text}"])
    if place == "working directory" and "\0" not in text:
        (tmp_path / text.replace("/", "_")).mkdir()
        monkeypatch.chdir(tmp_path / text.replace("/", "_"))
    try:
        eg = ExperimentGrid(text if place == "name" else "grid")
        eg.add("seed", [0, 1])
        options = {"comment": text} if place == "option" else None
        data = text if place == "data_dir" else "data"
        eg.run(print, data_dir=data, executor="slurm", slurm_options=options)
    except SpinupError as error:
        assert len(str(error).splitlines()) == 1
        assert not list(tmp_path.rglob(".grid")), "nothing was created"
        return
    (script,) = tmp_path.rglob("*.sh")
    lines = script.read_text().splitlines()
    head = lines[: lines.index("")]
    assert head[0] == "#!/bin/bash" and all(line.startswith("#SBATCH --") for line in head[1:])
    # sbatch reads each line as a shell would: one option each
    assert all(len(shlex.split(line, comments=False)) == 2 for line in head[1:]), head
    (output,) = (shlex.split(line)[1] for line in head if "--output=" in line)
    if output != "--output=/dev/null":
        assert output.replace("%%", "%") == f"--output={script.parent}/%A_%a.out"
        assert not set(output) & set("'\"\\")
    Task(script, 0).wait()
    words = (stand_in / "arguments").read_text().splitlines()
    assert words[1] == "spinup.grids.slurm_executor" and Path(words[2]).is_file()
    assert not trace.exists() and not list(tmp_path.rglob("trace"))


def test_output_goes_to_the_grids_folder_even_where_sbatch_cannot_be_told_its_name(
    stand_in, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("sys.executable", "/bin/echo")
    eg = ExperimentGrid("Bob's \\ grid")
    eg.add("seed", [0, 1])
    eg.run(print, data_dir=tmp_path, executor="slurm")
    (script,) = tmp_path.rglob("*.sh")
    Task(script, 1).wait()
    assert "spinup.grids.slurm_executor" in (script.parent / "77_1.out").read_text()


def test_an_environment_that_the_users_program_registers_travels(plain, monkeypatch):
    import gymnasium as gym

    spec = gym.envs.registration.EnvSpec("OwnSlurm-v0", entry_point=lambda: None)
    monkeypatch.setitem(gym.registry, "OwnSlurm-v0", spec)
    script, _ = plain(env="OwnSlurm-v0")
    (cells,) = script.parent.glob("*.pickle")
    (job, _) = pickle.loads(cells.read_bytes())
    assert [spec.id for spec in job.specs] == ["OwnSlurm-v0"]


class Evil:
    def __reduce__(self):
        return os.mkdir, (os.environ["EVIL"],)


def test_a_changed_file_of_cells_is_not_opened(plain, tmp_path, monkeypatch):
    monkeypatch.setenv("EVIL", str(tmp_path / "evil"))
    script, _ = plain(thunk=lambda **kwargs: None)
    (cells,) = script.parent.glob("*.pickle")
    cells.write_bytes(pickle.dumps([Evil(), Evil()]))
    said = Task(script, 0).wait(expect=2)
    assert "does not belong to this script" in said
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"slurm_options": {"array": "1"}}, "'array' is set by the grid itself"),
        ({"slurm_options": {"p\nx": "1"}}, "is not an option of sbatch: use its long name"),
        ({"slurm_options": {"time": "1\n#SBATCH --x"}}, "contains a line break or another control"),
        ({"slurm_options": {"outp": "/x"}}, "'outp' is set by the grid itself"),  # sbatch completes
        ({"slurm_options": {"wrap": "touch x"}}, "'wrap' is set by the grid itself"),
        ({"slurm_options": {"comment": "it's"}}, "contains a quote or a backslash"),
        ({"gpus_per_cell": 0.5}, "gpus_per_cell must be an integer with Slurm"),
    ],
)
def test_options_that_cannot_be_are_refused(plain, tmp_path, options, sentence):
    with pytest.raises(SpinupError, match=sentence):
        plain(**options)
    assert not (tmp_path / "data").exists()


def test_a_task_outside_of_an_array_is_refused(monkeypatch, capsys):
    monkeypatch.delenv("SLURM_ARRAY_TASK_ID", raising=False)
    assert slurm_executor.main(["cells", "0"]) == 2
    assert "submit its script" in capsys.readouterr().err

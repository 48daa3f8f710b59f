"""Tab completion: the scripts, in the shells they are for."""

import os
import pty
import select
import shutil
import subprocess
import time

import gymnasium
import pytest

from spinup import registry, run
from spinup.cli import completion, flags
from tests.helpers.processes import run_python

ZSH = shutil.which("zsh")
needs_zsh = pytest.mark.skipif(ZSH is None, reason="zsh is not installed here")


@pytest.fixture(scope="module")
def words():
    return completion.collect()


@pytest.fixture(scope="module")
def scripts(words, tmp_path_factory):
    folder = tmp_path_factory.mktemp("completion")
    for shell, write in completion.SHELLS.items():
        (folder / shell).write_text(write(words))
    return folder


@pytest.fixture
def complete(scripts, tmp_path):
    """What bash answers to Tab at the end of a line."""
    (tmp_path / "my run").mkdir()
    (tmp_path / "my.json").touch()

    def answers(line):
        code = (
            f"source {scripts / 'bash'}; COMP_LINE=$1 COMP_POINT=${{#1}}; _spinup; "
            'printf "%s\\n" "${COMPREPLY[@]}"'
        )
        command = ["bash", "--norc", "-c", code, "bash", line]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.stderr == ""
        return done.stdout.split("\n")[:-1]

    return answers


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("spinup pp", ["ppo", "ppo_pytorch", "ppo_tf1"]),
        ("spinup te", ["test_policy"]),
        ("spinup completion ", ["bash", "zsh"]),
        ("spinup ppo --gam", ["--gamma"]),
        ("spinup ppo --env CartPole-v1 --clip", ["--clip_ratio", "--clip_vf"]),
        ("spinup sac --clip", [""]),
        ("spinup sac_pytorch --upd", ["--update_after", "--update_every", "--updates_per_step"]),
        ("spinup sac_tf1 --upd", ["--update_after", "--update_every", "--updates_per_step"]),
        ("spinup dqn --loss ", ["huber", "squared"]),
        ("spinup ppo --act sof", ["softplus", "softsign"]),
        ("spinup ppo --act[a] tanh sof", ["softplus", "softsign"]),
        ("spinup ppo --act=sof", ["softplus", "softsign"]),
        ("spinup ppo --ac_kwargs:activation tan", ["tanh"]),
        ("spinup ppo --executor ", ["local", "ray", "slurm"]),
        ("spinup ppo --env CartP", ["CartPole-v0", "CartPole-v1"]),
        ("spinup ppo --env CartPole-v1 Acr", ["Acrobot-v1"]),
        ("spinup her --env_name spinup/Bit", ["spinup/BitFlip-v0"]),
        ("spinup ppo --env_k", ["--env_kwargs:"]),
        ("spinup ppo --env_kwargs:", [""]),  # bash replaces what follows the colon
        ("spinup ppo --config my", ["my run", "my.json"]),
        ("spinup plot my", ["my run", "my.json"]),
        ("spinup test_policy --env Acr", ["Acrobot-v1"]),
        ("spinup test_policy --det", ["--deterministic"]),
        ("spinup plot --sm", ["--smooth"]),
        ("spinup ppo --gamma 0", [""]),
        ("spinup nothing --gam", [""]),
    ],
)
def test_bash_completes(complete, line, expected):
    assert sorted(complete(line)) == expected


def press_tab(command, line, expected, env):
    """Type a line and Tab into an interactive shell; the screen, once `expected` is on it."""
    terminal, end = pty.openpty()
    ours = {"stdin": end, "stdout": end, "stderr": end, "start_new_session": True}
    shell = subprocess.Popen(command, env=env, **ours)
    os.close(end)
    screen = b""
    try:
        deadline = time.monotonic() + 300
        typed = False
        while time.monotonic() < deadline and expected.encode() not in screen:
            if not typed and b"READY>" in screen:
                os.write(terminal, line.encode() + b"\t")
                typed = True
            if select.select([terminal], [], [], 0.2)[0]:
                screen += os.read(terminal, 4096)
    finally:
        shell.kill()
        shell.wait()
        os.close(terminal)
    return screen.decode(errors="replace")


def test_tab_in_an_interactive_bash(scripts, tmp_path):
    start = tmp_path / "rc"
    start.write_text(f"source {scripts / 'bash'}\nPS1='READY>'\n")
    env = {"PATH": os.environ["PATH"], "TERM": "dumb", "HOME": str(tmp_path)}
    command = ["bash", "--noprofile", "--rcfile", str(start), "-i"]
    screen = press_tab(command, "spinup ppo --act sig", "--act sigmoid ", env)
    assert "spinup ppo --act sigmoid " in screen
    screen = press_tab(command, "spinup ppo --ac_kwargs:activation lea", "leakyrelu ", env)
    assert "spinup ppo --ac_kwargs:activation leakyrelu " in screen


@needs_zsh
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("spinup comple", "spinup completion "),
        ("spinup ppo --act sig", "--act sigmoid "),
        ("spinup ppo --gam", "spinup ppo --gamma "),
        ("spinup her --env spinup/Bit", "spinup/BitFlip-v0 "),
    ],
)
def test_tab_in_an_interactive_zsh(scripts, tmp_path, line, expected):
    (tmp_path / ".zshrc").write_text(
        f"autoload -Uz compinit; compinit -u -D\nsource {scripts / 'zsh'}\nPS1='READY>'\n"
    )
    env = {**os.environ, "TERM": "dumb", "ZDOTDIR": str(tmp_path), "HOME": str(tmp_path)}
    assert expected in press_tab([ZSH, "-i"], line, expected, env)


@pytest.mark.parametrize("name", registry.algorithms())
def test_flags_offered_are_the_flags_there_are(words, name):
    function = registry.load(name)
    offered = words.flags[name]
    for flag in offered:
        if flag != "--help" and not flag.endswith(":"):
            (parsed,) = flags.split_flags([flag])
            flags.parameter_of(function, parsed.key, flag)  # SpinupError if it is none
    for argument in flags.arguments(function):
        assert f"--{argument}" in offered or f"--{argument}:" in offered


def test_commands_and_environments_are_whole(words):
    assert set(words.commands) == {*registry.exports(), *run.TOOLS, "help"}
    assert set(words.values["--env"]) <= set(gymnasium.registry)
    assert {"CartPole-v1", "spinup/BitFlip-v0"} <= set(words.values["--env"])


def test_writing_a_script_imports_no_framework():
    code = (
        "import sys; from spinup import run; assert run.main(['completion', 'bash']) == 0; "
        "assert not {'torch', 'tensorflow', 'mpi4py', 'ray'} & set(sys.modules), 'imported'"
    )
    done = run_python("-c", code)
    assert done.stdout.startswith("# Tab completion of spinup for bash")


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_scripts_are_valid(scripts, shell):
    if shutil.which(shell):
        done = subprocess.run([shell, "-n", str(scripts / shell)], capture_output=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, b"")
    assert "{" not in (scripts / shell).read_text().replace("${", "").replace("() {", "")

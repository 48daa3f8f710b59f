"""The command line: what it accepts, what it refuses, and how it says so."""

import json
import re
import subprocess
import sys
import textwrap
import types
from typing import Literal

import gymnasium
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinup import registry, run
from spinup.cli import plan as cli
from spinup.cli.usage import wants_help
from spinup.grids.experiments import ExperimentGrid
from spinup.utils.argparsing import parse_value
from spinup.utils.errors import SpinupError
from tests.helpers.processes import run_python

CALLS = []


class FakeActorCritic:
    """Takes what a default actor-critic takes."""

    def __init__(
        self, observation_space, action_space, hidden_sizes=(64, 64), activation=None, scale=1.0
    ):
        pass


def fake(
    env_fn,
    actor_critic=FakeActorCritic,
    ac_kwargs={},  # noqa: B006 - the public signatures look like this
    seed=0,
    steps_per_epoch=4000,
    epochs=50,
    gamma=0.99,
    lam: float | Literal["auto"] | None = 0.97,
    bonus=0.5,
    sizes=(1, 2),
    algo="fake",
    target_kl: float | None = 0.01,
    logger_kwargs={},  # noqa: B006
    save_freq=10,
    *,
    shards: int | None = None,
    anything=None,
    normalize=False,
    resume=False,
    overwrite=False,
    progress=False,
):
    """A training function that trains nothing.

    It keeps what it was called with.

    Args:
        seed (int): where the random
            numbers start.
        steps_per_epoch, save_freq (int): how many steps.
        gamma (float): discount factor; values: 0 to 1.
        lam: lambda of GAE; None
            means 1, 'auto' finds one.
        normalize: whether to normalize.
    """
    CALLS.append({k: v for k, v in locals().items() if k != "actor_critic"})


class FakeEnv(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, env_id, env_kwargs):
        self.made_from = (env_id, env_kwargs)


def fake_make_env(env_id, env_kwargs=None):
    if not env_id.startswith("Toy"):
        raise SpinupError(f"there is no environment '{env_id}'.")
    return FakeEnv(env_id, env_kwargs)


@pytest.fixture(autouse=True)
def fake_world(monkeypatch, tmp_path):
    """An algorithm `fake` in the registry, toy environments, an empty working directory."""
    row = registry.Algorithm("fake", ("pytorch",), ("Discrete",), "vector", True, True)
    monkeypatch.setattr(registry, "ROWS", (*registry.ROWS, row))
    module = types.ModuleType("fake")
    module.fake = fake
    monkeypatch.setitem(sys.modules, "spinup.algos.pytorch.fake.fake", module)
    monkeypatch.setattr("spinup.envs.make.make_env", fake_make_env)
    monkeypatch.chdir(tmp_path)
    CALLS.clear()


def spinup(*words):
    return run.main(list(words))


def train(*words):
    """Run `spinup fake --env Toy ...` and return the calls it made."""
    assert spinup("fake", "--env", "Toy", *words) == 0
    return CALLS


# ------------------------------------------------------- refused (test_malformed.py has the table)


def test_unknown_flag_names_the_nearest_known_one(capsys):
    assert spinup("fake", "--env", "Toy", "--save_frq", "3") == 2
    assert "did you mean --save_freq?" in capsys.readouterr().err


def test_words_are_never_executed(tmp_path):
    code = f"__import__('pathlib').Path({str(tmp_path / 'pwned')!r}).touch()"
    for flag in ("anything", "algo", "exp_name", "env_kwargs:x", "hid", "act", "gamma"):
        spinup("fake", "--env", "Toy", f"--{flag}", code)
        spinup("fake", "--env", code, f"--{flag}", "1")
    assert not (tmp_path / "pwned").exists()
    assert CALLS[0]["anything"] == code  # where any value is allowed it arrives as the text it is


@given(st.text())
def test_parse_value_gives_plain_data_for_any_text(text):
    value = parse_value(text)
    json.dumps(value)
    if isinstance(value, str) and value != text:
        assert text.strip()[-1] in "'\""  # only a quoted string is anything but itself


@given(st.lists(st.text(max_size=8), max_size=4))
def test_any_words_either_run_or_end_with_exit_code_2(words):
    if not wants_help(words):
        assert spinup("fake", *words) in (0, 2)


# ------------------------------------------------------------------------------------ accepted


@pytest.mark.parametrize(
    ("words", "key", "value"),
    [
        (["--gamma", "0.5"], "gamma", 0.5),
        (["--gamma=0.5"], "gamma", 0.5),
        (["--bonus", "-1"], "bonus", -1),
        (["--bonus", "-1e-3"], "bonus", -1e-3),
        (["--bonus", "inf"], "bonus", float("inf")),
        (["--bonus", "-inf"], "bonus", float("-inf")),
        (["--epochs", "4e1"], "epochs", 40),
        (["--seed", "3"], "seed", 3),
        (["-s", "3"], "seed", 3),
        (["--steps", "100"], "steps_per_epoch", 100),
        (["--normalize"], "normalize", True),
        (["--normalize", "false"], "normalize", False),
        (["--normalize", "1"], "normalize", True),
        (["--resume"], "resume", True),
        (["--overwrite"], "overwrite", True),
        (["--target_kl", "None"], "target_kl", None),
        (["--lam", "None"], "lam", None),
        (["--lam", "auto"], "lam", "auto"),
        (["--shards", "4"], "shards", 4),
        (["--shards", "None"], "shards", None),
        (["--algo", "npg"], "algo", "npg"),
        (["--algo", "5"], "algo", "5"),
        (["--sizes", "3,4"], "sizes", (3, 4)),
        (["--sizes", "3"], "sizes", [3]),
        (["--sizes", "a,b"], "sizes", ["a", "b"]),
        (["--anything", "word"], "anything", "word"),
        (["--anything", "[1,'a',{'b':None}]"], "anything", [1, "a", {"b": None}]),
        (["--anything"], "anything", True),
        # literals that JSON does not know stay the text they are
        (["--anything", "..."], "anything", "..."),
        (["--anything", "b'x'"], "anything", "b'x'"),
        (["--anything", "{1,2}"], "anything", "{1,2}"),
        (["--anything", "[1j]"], "anything", "[1j]"),
        (["--anything", "{1:2}"], "anything", "{1:2}"),
        (["--ac_kwargs:scale", "2"], "ac_kwargs", {"scale": 2}),
    ],
)
def test_value_of_a_flag(words, key, value):
    (call,) = train(*words)
    assert call[key] == value and type(call[key]) is type(value)


@pytest.mark.parametrize(
    ("words", "sizes"),
    [
        (["--hid", "[32,32]"], [32, 32]),
        (["--hid", "[32, 16]"], [32, 16]),
        (["--hid", "32,32"], (32, 32)),
        (["--hid", "32,"], (32,)),
        (["--hid", "(8,)"], (8,)),
        (["--hid", "[]"], []),
        (["--hid", "32"], [32, 32]),
        (["--hid", "32", "--l", "3"], [32, 32, 32]),
        (["--hid", "[32]", "--l", "3"], [32, 32, 32]),
        (["--l", "1"], [64]),
        (["--ac_kwargs:hidden_sizes", "[5]"], [5]),
    ],
)
def test_hidden_sizes(words, sizes):
    (call,) = train(*words)
    assert call["ac_kwargs"] == {"hidden_sizes": sizes}


@pytest.mark.parametrize("name", ["1", "1e5", "True", "[1]", "None", "my run"])
def test_exp_name_stays_text(name):
    (call,) = train("--exp_name", name)
    assert call["logger_kwargs"] == {
        "exp_name": name,
        "output_dir": f"data/{name}/{name}_s0",
    }


def test_default_exp_name_names_algorithm_and_backend(tmp_path):
    (call,) = train("--data_dir", str(tmp_path / "d"))
    assert call["logger_kwargs"]["output_dir"] == str(
        tmp_path / "d" / "cmd_fake_pytorch" / "cmd_fake_pytorch_s0"
    )


def test_environment_is_made_with_its_arguments():
    (call,) = train("--env_kwargs:gravity", "9.8", "--env_kwargs:name", "moon")
    assert call["env_fn"]().made_from == ("Toy", {"gravity": 9.8, "name": "moon"})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("relu", "ReLU"),
        ("ReLU", "ReLU"),
        ("elu", "ELU"),
        ("torch.nn.ELU", "ELU"),
        ("nn.ELU", "ELU"),
        ("tf.nn.elu", "ELU"),
        ("leaky_relu", "LeakyReLU"),
        ("torch.nn.functional.softplus", "Softplus"),
        ("tanh", "Tanh"),
        ("torch.tanh", "Tanh"),
        ("tf.tanh", "Tanh"),
    ],
)
def test_activation_by_name(name, expected):
    (call,) = train("--act", name)
    cls = call["ac_kwargs"]["activation"]
    assert isinstance(cls, type) and cls.__name__ == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tanh", "tanh"),
        ("tf.nn.elu", "elu"),
        ("torch.nn.ELU", "elu"),
        ("gelu", "gelu"),
        ("swish", "silu"),
    ],
)
def test_activation_by_name_in_a_graph(name, expected):
    import tensorflow as tf

    from spinup import ppo_tf1

    words = ["--env", "CartPole-v1", "--act", name, "--ac_kwargs:output_activation", "None"]
    (cell,) = cli.plan(ppo_tf1, words, "x", "tf1").grid.cells(ppo_tf1)
    found = cell.kwargs["ac_kwargs"]
    assert found["activation"] is getattr(tf.nn, expected)
    assert found["output_activation"] is None


def test_several_values_make_a_grid_with_names_and_seeds():
    train("--gamma[g]", "0.9", "0.99", "--seed", "0", "10", "--act", "relu", "tanh")
    dirs = [call["logger_kwargs"]["output_dir"] for call in CALLS]
    name = "cmd_fake_pytorch"
    assert dirs == [
        f"data/{name}_g{g}_ac-act{act}/{name}_g{g}_ac-act{act}_s{seed}"
        for seed in (0, 10)
        for g in ("0-9", "0-99")
        for act in ("relu", "tanh")
    ]
    assert [call["gamma"] for call in CALLS] == [0.9, 0.9, 0.99, 0.99] * 2


@given(
    gammas=st.lists(st.floats(0, 1).map(lambda x: round(x, 3)), min_size=1, unique=True),
    seeds=st.lists(st.integers(0, 10**6), min_size=1, max_size=5, unique=True),
    widths=st.lists(st.integers(1, 512), min_size=1, max_size=3, unique=True),
)
def test_values_become_the_product_of_themselves(gammas, seeds, widths):
    """What is typed arrives, once in each combination, in runs of different names."""
    words = ["--env", "Toy", "--gamma", *map(repr, gammas), "--seed", *map(str, seeds)]
    words += ["--hid", *(f"{w},{w}" for w in widths)]
    cells = cli.plan(fake, words, "x", "pytorch").grid.cells(fake)
    got = [(c.kwargs["gamma"], c.seed, c.kwargs["ac_kwargs"]["hidden_sizes"]) for c in cells]
    assert got == [(g, s, (w, w)) for g in gammas for s in seeds for w in widths]
    assert len({(c.exp_name, c.seed) for c in cells}) == len(cells)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        # the shortcuts come last, in the order env, hid, act, wherever they are typed
        ("--env ToyA ToyB --gamma .9 .8", "x_gam0-9_envtoya"),
        ("--act tanh relu --hid 8 [9,9] --env ToyA ToyB", "x_envtoya_ac-hid8-8_ac-acttanh"),
        ("--hid 8,8 9,9 --env Toy --lam 0.1 0.2 --gamma .9 .8", "x_lam0-1_gam0-9_ac-hid8-8"),
        # ... but not the arguments that they stand for
        ("--env_name ToyA ToyB --gamma .9 .8", "x_envtoya_gam0-9"),
        ("--ac_kwargs:hidden_sizes 8,8 9,9 --env Toy --lam 1 0.2", "x_ac-hid8-8_lam1"),
        # a flag with a shorthand comes after those without, and before the shortcuts
        ("--gamma[G] .9 .8 --env[e] ToyA ToyB --lam 0.1 0.2", "x_lam0-1_g0-9_etoya"),
        ("--lam[l] 0.1 0.2 --gamma[g] .9 .8 --bonus 1 2 --env Toy", "x_bon1_l0-1_g0-9"),
        # an empty shorthand leaves the value alone
        ("--gamma 0.9 0.8 --env[] ToyA ToyB", "x_gam0-9_toya"),
        # neither seeds nor how to run are in a name, and their place changes nothing
        ("--seed 0 1 --cpu 1 --env Toy --dt --gamma 0.9 0.8", "x_gam0-9"),
    ],
)
def test_runs_are_named_as_the_originals_command_line_names_them(words, name):
    cells = cli.plan(fake, words.split(), "x", "pytorch").grid.cells(fake)
    assert cells[0].exp_name == name


def test_several_environments_make_a_grid():
    assert spinup("fake", "--env", "ToyA-v0", "ToyB-v0") == 0
    assert [call["env_fn"]().made_from[0] for call in CALLS] == ["ToyA-v0", "ToyB-v0"]


def test_datestamp_flag():
    (call,) = train("--dt")
    assert call["logger_kwargs"]["output_dir"][len("data/")].isdigit()


def test_the_most_copied_command_runs():
    words = ["--hid", "[32,32]", "--env", "Toy-v2", "--exp_name", "installtest", "--gamma", "0.999"]
    assert spinup("fake", *words) == 0
    (call,) = CALLS
    assert call["ac_kwargs"] == {"hidden_sizes": [32, 32]} and call["gamma"] == 0.999
    assert call["logger_kwargs"]["output_dir"] == "data/installtest/installtest_s0"


def test_the_default_arguments_come_out_as_they_went_in():
    train("--hid", "3", "--logger_kwargs:exp_name", "other")
    assert CALLS[0]["logger_kwargs"]["exp_name"] == "other"
    assert fake.__defaults__[1] == {} and fake.__defaults__[11] == {}


def test_wrong_input_found_by_an_algorithm_is_one_sentence_too(monkeypatch, capsys):
    def picky(env_fn, seed=0, logger_kwargs={}):  # noqa: B006
        raise SpinupError("this\ncannot work.")

    sys.modules["spinup.algos.pytorch.fake.fake"].fake = picky
    assert spinup("fake", "--env", "Toy") == 2
    assert capsys.readouterr().err == "spinup: this cannot work.\n"


def test_cells_that_fail_end_in_exit_code_1(capsys):
    def sometimes(env_fn, seed=0, logger_kwargs={}):  # noqa: B006
        if seed == 1:
            raise KeyError("ours")

    sys.modules["spinup.algos.pytorch.fake.fake"].fake = sometimes
    assert spinup("fake", "--env", "Toy", "--seed", "0", "1", "2") == 1
    err = capsys.readouterr().err
    assert "KeyError: 'ours'" in err
    assert err.splitlines()[-1] == (
        "spinup: 1 of 3 cells failed (cmd_fake_pytorch_s1): the same command tries them again and "
        "skips the others"
    )


def test_flags_about_the_launch_reach_the_grid(monkeypatch):
    got = {}
    monkeypatch.setattr(
        ExperimentGrid, "run", lambda self, thunk, **options: got.update(options, cells=self.keys)
    )
    words = (
        "--num_workers 3 --executor slurm --cpus_per_cell 2 --gpus_per_cell 0.5 "
        "--slurm_options:partition gpu --slurm_options:time 1:00:00 --slurm_options:exclusive "
        "--slurm_options:mail-user a@b --slurm_options:job-name 1.10 --slurm_options:hold True"
    )
    assert spinup("fake", "--env", "Toy", *words.split()) == 0
    assert got.pop("cells") == ["env_name"]
    assert got == {
        "num_cpu": 1,
        "data_dir": None,
        "datestamp": False,
        "num_workers": 3,
        "executor": "slurm",
        "cpus_per_cell": 2,
        "gpus_per_cell": 0.5,
        "slurm_options": {
            "partition": "gpu",
            "time": "1:00:00",
            "exclusive": True,
            "mail-user": "a@b",
            "job-name": "1.10",
            "hold": True,
        },
    }
    got.clear()
    assert spinup("fake", "--env", "Toy", "--executor", "ray", "--ray_address", "auto") == 0
    assert got["ray_address"] == "auto" and "num_workers" not in got


def test_runs_side_by_side_from_the_command_line(tmp_path):
    """The real grid, two processes, a real algorithm; issued again it has nothing to do."""
    words = "ppo --env CartPole-v1 --seed 0 1 --num_workers 2 --epochs 1 --steps 64 --hid 4"
    command = [sys.executable, "-m", "spinup.run", *words.split(), "--train_pi_iters", "1"]
    for _ in range(2):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
    assert "Of 2 cells, 2 are already done and are skipped" in done.stdout
    for seed in (0, 1):
        run_dir = tmp_path / "data" / "cmd_ppo_pytorch" / f"cmd_ppo_pytorch_s{seed}"
        assert len((run_dir / "progress.txt").read_text().splitlines()) == 2
        config = json.loads((run_dir / "config.json").read_text())
        assert config["resume_with"] == ["python", *command[1:]]  # also in another process
        assert sorted(config["logger_kwargs"]) == ["exp_name", "output_dir"]


def test_a_bug_keeps_its_traceback():
    def broken(env_fn, seed=0, logger_kwargs={}):  # noqa: B006
        raise KeyError("ours")

    sys.modules["spinup.algos.pytorch.fake.fake"].fake = broken
    with pytest.raises(KeyError, match="ours"):
        spinup("fake", "--env", "Toy")


def test_an_environment_with_a_bug_keeps_its_traceback(monkeypatch):
    def broken(env_id, env_kwargs=None):
        raise KeyError("its own")

    monkeypatch.setattr("spinup.envs.make.make_env", broken)
    with pytest.raises(KeyError, match="its own"):
        spinup("fake", "--env", "Toy")


def test_an_episode_may_be_without_a_limit(tmp_path):
    words = "vpg --env Toy --max_ep_len inf --seed 5"
    (cell,) = cli.plan(registry.load("vpg"), words.split()[1:], "x").grid.cells(print)
    assert cell.kwargs["max_ep_len"] == float("inf")


# -------------------------------------------------------------------------------------- presets


def preset(tmp_path, content):
    path = tmp_path / "my.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_flags_win_over_a_preset(tmp_path):
    path = preset(
        tmp_path,
        {
            "env": "Toy-p",
            "gamma": 0.1,
            "epochs": 7,
            "sizes": [5, 6],
            "ac_kwargs": {"hidden_sizes": [8, 8], "activation": "relu"},
            "env_kwargs": {"g": 1},
        },
    )
    assert spinup("fake", "--config", path, "--gamma", "0.2", "--hid", "4,4") == 0
    (call,) = CALLS
    assert (call["gamma"], call["epochs"], call["sizes"]) == (0.2, 7, [5, 6])
    assert call["ac_kwargs"]["hidden_sizes"] == (4, 4)
    assert call["ac_kwargs"]["activation"].__name__ == "ReLU"
    assert call["env_fn"]().made_from == ("Toy-p", {"g": 1})
    assert call["logger_kwargs"]["exp_name"] == "cmd_fake_pytorch"


@pytest.mark.parametrize(
    ("content", "mentions"),
    [
        ("{", "JSON"),
        ("[1]", "one JSON object"),
        ({"env": 5}, "env_name"),
        ({"env": "Toy", "gama": 1}, "gamma"),
        ({"env": "Toy", "gamma": "x"}, "number"),
        ({"env": "Toy", "gamma": [1, 2]}, "number"),
        ({"env": "Toy", "epochs": 1.5}, "whole number"),
        ({"env": "Toy", "env_name": "Toy"}, "twice"),
        ({"env": "Toy", "config": "x.json"}, "another preset"),
        ({"env": "Toy", "exp_name": 5}, "exp_name"),
        ({"env": "Toy", "num_cpu": "x"}, "--cpu"),
        ({"env": "Toy", "ac_kwargs": {"activation": "foo"}}, "activation"),
        ({"env": "Toy", "ac_kwargs": {"hidden": [3]}}, "hidden_sizes"),
        ({"env": "Toy", "ac_kwargs": 3}, "dict"),
        ({"env": "Toy", "gamma": 2}, "'gamma in my.json' must be a number between 0 and 1, not 2"),
        ({"env": "Toy", "num_workers": 0}, "'--num_workers' must be a whole number, at least 1"),
        ({"env": "Toy", "slurm_options": {"time": 5}}, "add --trust"),
    ],
)
def test_malformed_preset_ends_in_one_sentence(tmp_path, capsys, content, mentions):
    assert spinup("fake", "--config", preset(tmp_path, content)) == 2
    err = capsys.readouterr().err
    assert err.startswith("spinup: ") and err.count("\n") == 1 and mentions in err
    assert CALLS == []


# ----------------------------------------------------------------------------- help and dispatch


@pytest.mark.parametrize("words", [[], ["help"], ["--help"], ["-h"]])
def test_help_lists_every_command(words, capsys):
    assert spinup(*words) == 0
    out = capsys.readouterr().out
    for name in (*registry.algorithms(), *run.TOOLS):
        assert f"\n  {name} " in out


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_of_an_algorithm_explains_every_argument(flag, capsys):
    assert spinup("fake", flag) == 0
    out = capsys.readouterr().out
    for name, parameter in cli.arguments(fake).items():
        if name not in ("logger_kwargs", "ac_kwargs"):
            assert re.search(rf"^  (-\S+, )*--{name}[ ,\n]", out, re.M), name
            assert repr(parameter.default) in out
    assert "where the random numbers start. (default: 0)" in out
    assert out.count("how many steps.") == 2
    assert "discount factor; values: 0 to 1." in out
    assert "A training function that trains nothing." in out
    assert CALLS == []


@pytest.mark.parametrize("tool", ["plot", "test_policy"])
def test_tools_get_their_words_and_return_their_exit_code(tool, monkeypatch):
    got = []
    module = types.ModuleType(tool)
    module.main = lambda argv=None: got.append(argv)
    monkeypatch.setitem(sys.modules, run.TOOLS[tool][0], module)
    assert spinup(tool, "some/dir", "--flag") == 0
    assert got == [["some/dir", "--flag"]]
    module.main = lambda argv=None: 3
    assert spinup(tool) == 3


def test_parse_and_execute_grid_search_is_callable_from_python():
    run.parse_and_execute_grid_search("fake_pytorch", ["--env", "Toy", "--epochs", "3"])
    assert CALLS[0]["epochs"] == 3


# ------------------------------------------------------------------------- an algorithm's own file

SCRIPT = """
    from spinup.cli.main import run_file


    def mini(env_fn, ac_kwargs={}, seed=0, steps_per_epoch=10, epochs=1, gamma=0.9,
             logger_kwargs={}):
        '''A tiny one.'''
        env = env_fn()
        print("CALL", env.spec.id, ac_kwargs.get("hidden_sizes"), seed, steps_per_epoch, epochs,
              gamma, logger_kwargs["output_dir"])


    if __name__ == "__main__":
        run_file(mini)
"""


@pytest.fixture
def script(tmp_path):
    folder = tmp_path / "algos" / "pytorch" / "mini"
    folder.mkdir(parents=True)
    path = folder / "mini.py"
    path.write_text(textwrap.dedent(SCRIPT))
    (folder / "config.json").write_text('{"env": "CartPole-v1", "epochs": 5, "gamma": 0.5}')
    return path


def start(script, *words):
    return run_python(script, *words, expect=None, cwd=script.parents[3])


def test_an_algorithms_file_runs_its_config_and_flags_over_it(script, repo_root):
    done = start(script)
    assert done.returncode == 0, done.stderr
    assert "CALL CartPole-v1 None 0 10 5 0.5 data/mini/mini_s0" in done.stdout
    flags = "--hid 8 --l 3 -s 4 --steps 20 --gamma 0.7 --env Acrobot-v1 --exp_name x"
    done = start(script, *flags.split())
    assert "CALL Acrobot-v1 [8, 8, 8] 4 20 5 0.7 data/x/x_s4" in done.stdout, done.stderr


def test_an_algorithms_file_refuses_and_explains(script):
    done = start(script, "--gama", "1")
    assert done.returncode == 2
    assert done.stderr == (
        "spinup: '--gama' is not an argument of mini: "
        "add --help to see them all; did you mean --gamma?\n"
    )
    assert not (script.parents[3] / "data").exists()
    done = start(script, "--help")
    assert done.returncode == 0 and "(default: 0.5)" in done.stdout and "A tiny one." in done.stdout


@pytest.mark.parametrize(
    ("name", "backend"), [(row.name, backend) for row in registry.ROWS for backend in row.backends]
)
def test_every_algorithm_has_a_preset_that_its_own_arguments_accept(name, backend, repo_root):
    folder = repo_root / "spinup" / "algos" / backend / name
    function = registry.load(name, backend)
    ready = cli.plan(function, [], "x", backend, preset=folder / "config.json")
    assert "env_name" in ready.grid.keys

"""Help: every command is listed, every argument explained with its default and usual range."""

import importlib
import re

import pytest

from spinup import registry, run
from spinup.cli.flags import ALIASES, RUN_KEYS, arguments, explanations
from spinup.runs.arguments.domains import Number
from spinup.runs.arguments.table import ARGUMENTS
from tests.helpers.processes import run_python

# Numbers that have no usual range: what suits depends on the machine or on taste.
NO_RANGE = {"seed", "save_freq", "shards", "num_threads", "target_entropy"}
RANGE = re.compile(r"\b\d[\d.e-]* to \d|\busual\b")
GRAPH_MODE = [f"{row.name}_tf1" for row in registry.ROWS if "tf1" in row.backends]
NAMES = [*registry.algorithms(), *GRAPH_MODE]


@pytest.mark.parametrize("name", NAMES)
def test_every_number_is_explained_with_its_usual_range(name):
    said = explanations(registry.load(name))
    missing = [
        key
        for key in arguments(registry.load(name))
        if isinstance(ARGUMENTS[key].domain, Number)
        and key not in NO_RANGE
        and not RANGE.search(said[key])
    ]
    assert missing == []


@pytest.mark.parametrize("tool", run.TOOLS)
def test_every_tool_can_be_imported_and_explains_itself(tool, capsys):
    module, _ = run.TOOLS[tool]
    assert callable(importlib.import_module(module).main)
    try:
        code = run.main([tool, "--help"])
    except SystemExit as done:  # as argparse leaves
        code = done.code
    assert code in (0, None)
    assert capsys.readouterr().out.startswith(f"usage: spinup {tool} ")


@pytest.mark.parametrize(
    "line",
    [
        *("plot x", "compare x", "test_policy x", "export x --onnx y.onnx", "completion bash"),
        *("runs", "algos", "envs", "presets"),
    ],
)
def test_a_wrong_flag_of_a_tool_ends_in_one_sentence(line, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run.main([*line.split(), "--no-such-flag"]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and re.fullmatch(r"spinup: .*--no-such-flag.*\n", printed.err)
    assert list(tmp_path.iterdir()) == []


def test_help_explains_every_flag_about_the_run(capsys):
    assert run.main(["ppo", "--help"]) == 0
    out = capsys.readouterr().out
    for key in (*RUN_KEYS, "env", "env_name", "env_kwargs:KEY", "slurm_options:KEY"):
        assert re.search(rf"(^  |, )--{key}\b", out, re.M), key


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("name", NAMES)
def test_help_fits_the_terminal_in_groups_with_every_alias_and_sink(
    name, columns, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert run.main([name, "--help"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= columns
    groups = re.findall(r"^(\w+):$", out, re.M)
    assert groups == ["environment", "network", "learning", "running", "logging", "cluster"]
    for alias, key in ALIASES.items():
        if key.partition(":")[0] in (*arguments(registry.load(name)), *RUN_KEYS, "env_name"):
            assert re.search(rf"(^  |, )-{{1,2}}{alias}\b", out, re.M), alias
    assert "tensorboard or wandb" in " ".join(out.split())
    assert (
        out.count("(default:") + out.count("(default:\n") >= len(arguments(registry.load(name))) - 3
    )


@pytest.mark.parametrize("name", GRAPH_MODE)
def test_help_lists_what_a_graph_function_takes_from_the_command_line(name, capsys):
    assert run.main([name, "--help"]) == 0
    entries = re.findall(r"^  --ac_kwargs:(\w+)", capsys.readouterr().out, re.M)
    common = ["output_activation", "KEY"]
    if registry.get(name.removesuffix("_tf1")).on_policy:
        common[1:1] = ["normalize_obs", "normalize_ret", "orthogonal_init", "log_std_init"]
    # neither the action space, which the run passes, nor a policy function
    assert entries == common
    for unknown in ("action_space", "policy"):
        line = [name, "--env", "CartPole-v1", f"--ac_kwargs:{unknown}", "1"]
        assert run.main(line) == 2
        assert unknown in capsys.readouterr().err


def test_the_version_names_tensorflow_whichever_build_is_installed(capsys):
    import tensorflow

    assert run.main(["version"]) == 0
    assert re.search(rf"^tensorflow\S* {tensorflow.__version__}$", capsys.readouterr().out, re.M)


@pytest.mark.parametrize("columns", [80, 120])
def test_every_other_screen_fits_the_terminal(columns, capsys, monkeypatch, few_environments):
    monkeypatch.setenv("COLUMNS", str(columns))
    for line in ("help", "--version", "algos", "envs", "envs --all", "presets", "presets her"):
        assert run.main(line.split()) == 0
        out = capsys.readouterr().out
        assert max(map(len, out.splitlines())) <= columns, line


def test_the_overview_imports_no_framework():
    code = (
        "import sys; from spinup import run; assert run.main(['help']) == 0; "
        "assert not {'torch', 'gymnasium', 'matplotlib', 'ray'} & set(sys.modules)"
    )
    done = run_python("-c", code)
    for tool in run.TOOLS:
        assert f"\n  {tool} " in done.stdout

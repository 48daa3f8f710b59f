"""What editors and type checkers see of `import spinup`."""

import ast
import inspect
import re

import spinup
from spinup import registry
from tests.helpers.processes import run_python


def checked(repo_root, tmp_path, source):
    """What mypy says about a program, line by line."""
    program = tmp_path / "program.py"
    program.write_text(source)
    done = run_python(
        "-m", "mypy", "--config-file", "pyproject.toml", program, expect=None, cwd=repo_root
    )
    return [line for line in done.stdout.splitlines() if line.startswith(str(program))]


def test_type_checkers_see_what_the_registry_exports(repo_root):
    tree = ast.parse((repo_root / "spinup" / "_exports.py").read_text())
    seen = {
        alias.asname or alias.name: (node.module, alias.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    functions = {
        name: (row.module(backend), row.name)
        for row in registry.ROWS
        for backend in row.backends
        for name in (f"{row.name}_{backend}", row.name)
        if name != row.name or backend == row.backends[0]
    }
    others = {name: ("spinup.runs.logger", name) for name in ("Logger", "EpochLogger")}
    others["register"] = ("spinup.registry", "register")
    others["check_env"] = ("spinup.envs.checking", "check_env")
    assert seen == {**functions, **others}
    assert set(functions) == set(registry.exports())
    (listed,) = [node.value for node in tree.body if isinstance(node, ast.Assign)]
    assert ast.literal_eval(listed) == sorted(seen)
    assert sorted([*seen, "SpinupError", "__version__", "registry"]) == spinup.__all__
    assert set(spinup.__all__) <= set(dir(spinup))


def test_training_functions_have_their_signatures_for_type_checkers(repo_root, tmp_path):
    names = registry.exports()
    source = "import spinup\n" + "".join(f"reveal_type(spinup.{name})\n" for name in names)
    lines = checked(repo_root, tmp_path, source)
    assert len(lines) == len(names), lines
    for name, line in zip(names, lines, strict=True):
        (shown,) = re.findall(r'Revealed type is "def \((.*)\)', line)
        own, _, bundle = shown.partition("**options: ")
        given = re.findall(r"(\w+): ", own) + re.findall(r"'(\w+)'\?: ", bundle)
        assert sorted(given) == sorted(inspect.signature(getattr(spinup, name)).parameters), name


def test_a_wrong_keyword_is_an_error_for_type_checkers(repo_root, tmp_path):
    source = "from spinup import ppo_pytorch\nppo_pytorch(lambda: None, gama=0.9)\n"
    (line, *_) = checked(repo_root, tmp_path, source)
    assert 'error: Unexpected keyword argument "gama"' in line


def test_type_checkers_know_the_shared_arguments(repo_root, tmp_path):
    source = (
        "from spinup import dqn_pytorch, ppo_pytorch, sac_tf1\n"
        "ppo_pytorch('CartPole-v1', num_envs=4, vector='async', on_epoch=None)\n"
        "dqn_pytorch('CartPole-v1', updates_per_step=0.5, compile='graph', resume=True)\n"
        "sac_tf1('Pendulum-v1', updates_per_step=1, save_best=True)\n"
        "ppo_pytorch('CartPole-v1', vector='parallel')\n"
        "ppo_pytorch('CartPole-v1', compile=True)\n"
        "sac_tf1('Pendulum-v1', num_env=4)\n"
    )
    lines = [line for line in checked(repo_root, tmp_path, source) if ": error:" in line]
    assert [line.split(":")[1] for line in lines] == ["5", "6", "7"], lines

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
        given = re.findall(r"(\w+): ", shown)
        assert given == list(inspect.signature(getattr(spinup, name)).parameters), name


def test_a_wrong_keyword_is_an_error_for_type_checkers(repo_root, tmp_path):
    source = "from spinup import ppo_pytorch\nppo_pytorch(lambda: None, gama=0.9)\n"
    (line, *_) = checked(repo_root, tmp_path, source)
    assert 'error: Unexpected keyword argument "gama"' in line

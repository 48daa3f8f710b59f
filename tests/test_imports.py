"""Which module may import which, what `import spinup` costs, and what no file may contain."""

import ast
from pathlib import Path

import pytest

from spinup import registry
from spinup.utils.toml import parse_toml
from tests.helpers.processes import run_python

FRAMEWORKS = ("torch", "tensorflow", "mpi4py", "mujoco", "gymnasium")
BACKENDS = ("pytorch", "tf1")
LAYERS_FILE = Path(__file__).parents[1] / "docs/layers.toml"
LAYERS = tuple(parse_toml(LAYERS_FILE.read_text(encoding="utf-8"))["layers"])
SATELLITES = ("spinup_lab", "spinup_tune")
# What every layer may import.
BASE = ("spinup.registry", "spinup.user_config", "spinup.__version__")
# Who may import TensorFlow. Whoever else needs it asks one of these, at the last moment.
TENSORFLOW = (
    "spinup.algos.tf1",
    "spinup.examples.tf1",
    "spinup.exercises.tf1",
    "spinup_lab.exercises.judges_tf1",
    "spinup.utils.tf",
    "spinup.parallel.tf",
)
TENSORFLOW_LAZILY = (
    "spinup.policies.tf_index",
    "spinup.policies.tf_loader",
    "spinup.policies.activations",
)
# An algorithm folder that may import others: hindsight relabeling wraps an off-policy update.
MAY_IMPORT_SIBLINGS = ("her",)


def imported(tree, package):
    """(dotted name, whether under `if __name__ == "__main__"`) of every import in a module."""
    as_program = {
        id(inner)
        for node in tree.body
        if isinstance(node, ast.If) and "__main__" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                base = ".".join([*parents[: len(parents) - node.level + 1], base]).rstrip(".")
            names = [f"{base}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func):
            named = node.args[:1]
            names = [n.value for n in named if isinstance(n, ast.Constant)]
        for name in names:
            yield name, id(node) in as_program


def imports_tensorflow(name):
    """Whether importing this module imports TensorFlow."""
    return any(under(name, package) for package in ("tensorflow", *TENSORFLOW))


def top_level(tree):
    """The statements that run when a module is imported, without those for type checkers."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node


def under(name, package):
    return name == package or name.startswith(package + ".")


def violations(module, source):
    """The imports of `module` (its dotted name) that point the wrong way."""
    tree = ast.parse(source)
    found = []
    for name, as_program in imported(tree, module.rpartition(".")[0]):
        root = name.partition(".")[0]
        if root in ("torch", "tensorflow") and under(module, "spinup.algos.common"):
            found.append(f"{module} -> {name}: algos/common is for every backend")
        if root in SATELLITES and not under(module, root):
            found.append(f"{module} -> {name}: only {root} imports itself")
        if root == "spinup" and not allowed(module, name, as_program):
            found.append(f"{module} -> {name}")
        if root == "tensorflow" and not any(
            under(module, place) for place in (*TENSORFLOW, *TENSORFLOW_LAZILY)
        ):
            found.append(f"{module} -> {name}: not a place for TensorFlow")
        if root == "torch" and under(module, "spinup.algos.tf1"):
            found.append(f"{module} -> {name}: this backend works without torch")
    # `_exports` is only for type checkers, which run nothing
    if not any(under(module, place) for place in (*TENSORFLOW, "spinup._exports")):
        early = ast.Module(list(top_level(tree)), [])
        for name, _ in imported(early, module.rpartition(".")[0]):
            if imports_tensorflow(name):
                found.append(f"{module} -> {name}: imports TensorFlow before anybody needs it")
    if is_forwarding(module, source):
        return []  # names what is above it, and imports it when a name is asked for
    return found


def is_forwarding(module, source):
    return under(module, "spinup.utils") and "= forward(" in source


def layer(name):
    """Where a dotted name is in the order of layers; None for the front, which is above them."""
    parts = name.split(".")
    if parts[0] != "spinup" or len(parts) < 2 or parts[1] not in LAYERS:
        return None
    inside = 0
    if parts[1] == "algos":
        if len(parts) < 4 and parts[2:] != ["common"]:
            return None
        if parts[2] in BACKENDS:
            inside = 1
            if parts[3] != "common":
                file = parts[4] if len(parts) > 4 else parts[3]
                inside = 2 if file == "core" else 3
    return LAYERS.index(parts[1]), inside


def allowed(module, name, as_program=False):
    if any(under(name, base) for base in BASE):
        return True
    here, there = layer(module), layer(name)
    if here is None:
        return True  # spinup/*.py: the front, which may import everything
    if there is None:
        return False
    a, b = module.split("."), name.split(".")
    if "algos" == a[1] == b[1] and a[2] in BACKENDS and b[2] in BACKENDS:
        siblings = a[3] != b[3] and "common" not in (a[3], b[3])
        if a[2] != b[2] or (siblings and a[3] not in MAY_IMPORT_SIBLINGS):
            return False
        if siblings:
            return True
    if as_program and a[1] == "algos" and b[1] == "cli":
        return True  # the file run as a program
    return there <= here


def modules(repo_root):
    sources = (p for name in ("spinup", *SATELLITES) for p in (repo_root / name).rglob("*.py"))
    for path in sorted(sources):
        dotted = ".".join(path.relative_to(repo_root).with_suffix("").parts)
        # a package's own name keeps `__init__` here, so that its parent is the package itself
        yield dotted, path.read_text(encoding="utf-8")


def test_imports_point_one_way(repo_root):
    found = [v for module, source in modules(repo_root) for v in violations(module, source)]
    assert found == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("spinup.utils.x", "import spinup.cli.plan"),
        ("spinup.utils.x", "from spinup.envs import make_env"),
        ("spinup.utils.x", "def f():\n    from spinup.envs import make_env"),
        ("spinup.utils.x", "import importlib\nimportlib.import_module('spinup.runs.run')"),
        ("spinup.utils.x", "import spinup"),
        ("spinup.runs.x", "from spinup.algos.common import returns"),
        ("spinup.policies.x", "def f():\n    from spinup.cli.flags import arguments"),
        ("spinup.analysis.x", "from spinup.grids.cells import Cell"),
        ("spinup.algos.pytorch.ppo.ppo", "from spinup.policies import play"),
        ("spinup.algos.pytorch.ppo.ppo", "from spinup.cli.main import run_file"),
        ("spinup.algos.pytorch.ppo.ppo", "def f():\n    from spinup.cli.main import run_file"),
        ("spinup.utils.x", "try:\n    from spinup import algos\nexcept ImportError:\n    pass"),
        ("spinup.envs.x", "from spinup.algos.common import returns"),
        ("spinup.envs.x", "def f():\n    import spinup.algos"),
        ("spinup.algos.common.x", "import torch"),
        ("spinup.algos.common.x", "def f():\n    from tensorflow import nn"),
        ("spinup.algos.common.x", "import spinup.algos.pytorch.common.nets"),
        ("spinup.algos.pytorch.common.x", "import spinup.algos.pytorch.ppo.core"),
        ("spinup.algos.pytorch.common.x", "from ..ppo import core"),
        ("spinup.algos.pytorch.ppo.core", "from spinup.algos.pytorch.ppo import ppo"),
        ("spinup.algos.pytorch.ppo.ppo", "from spinup.algos.pytorch.vpg import core"),
        ("spinup.algos.pytorch.ppo.ppo", "from ..vpg import core"),
        ("spinup.algos.pytorch.ppo.ppo", "from spinup.algos.tf1.common import x"),
        ("spinup.algos.tf1.ppo.ppo", "import spinup.algos.pytorch.common.nets"),
        ("spinup.algos.pytorch.ppo.ppo", "from spinup import ppo_pytorch"),
        ("spinup.algos.pytorch.ppo.ppo", "import tensorflow"),
        ("spinup.algos.tf1.ppo.core", "def f():\n    import torch"),
        ("spinup.policies.x", "def f():\n    import tensorflow.compat.v1 as tf"),
        ("spinup.policies.tf_loader", "from spinup.utils.tf import tf"),
        ("spinup.policies.x", "from spinup.algos.tf1.common import nets"),
        ("spinup.run", "import tensorflow"),
        ("spinup.run", "import spinup_lab"),
        ("spinup.cli.x", "def f():\n    from spinup_lab.doctor import examine"),
    ],
)
def test_the_rule_on_imports_catches(module, source):
    assert violations(module, source)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("spinup.utils.x", "__getattr__, __dir__ = forward('spinup.grids.experiments')"),
        ("spinup.utils.x", "from spinup.registry import load"),
        ("spinup.envs.x", "from spinup.utils.errors import SpinupError\nimport gymnasium"),
        ("spinup.runs.x", "from spinup.envs import make_env\nfrom spinup import registry"),
        ("spinup.policies.x", "from spinup.algos.pytorch.common.nets import mlp"),
        ("spinup.grids.x", "from spinup.analysis.curves import read"),
        ("spinup.cli.x", "from spinup.grids.cells import Cell"),
        (
            "spinup.algos.pytorch.ppo.ppo",
            "if __name__ == '__main__':\n    from spinup.cli.main import run_file",
        ),
        ("spinup.algos.common.x", "import numpy\nfrom spinup.utils import logx"),
        ("spinup.algos.pytorch.ppo.ppo", "import spinup.algos.pytorch.ppo.core as core"),
        ("spinup.algos.pytorch.ppo.ppo", "from . import core"),
        ("spinup.algos.pytorch.ppo.core", "from spinup.algos.pytorch.common.nets import mlp"),
        ("spinup.algos.pytorch.her.her", "from spinup.algos.pytorch.ddpg import ddpg"),
        ("spinup.run", "from spinup.algos.common import cli"),
        ("spinup.algos.tf1.ppo.core", "from spinup.utils.tf import tf\nimport tensorflow"),
        ("spinup.policies.tf_loader", "def f():\n    from spinup.utils.tf import tf"),
    ],
)
def test_the_rule_on_imports_lets_pass(module, source):
    assert violations(module, source) == []


# Modules that import each other, one of them inside a function, with the reason.
CYCLES = [
    {"spinup.algos.common.frames", "spinup.algos.common.replay"},  # only games need frames
]


def cycles(edges):
    """The largest sets of modules that reach each other by imports."""
    reached = {}
    for start in edges:
        seen, todo = set(), [start]
        while todo:
            new = edges[todo.pop()] - seen
            seen |= new
            todo += new
        reached[start] = seen
    found = [frozenset(b for b in reached[a] if a in reached[b]) for a in edges]
    return sorted({circle for circle in found if len(circle) > 1}, key=sorted)


def test_no_modules_of_the_library_import_each_other(repo_root):
    sources = {m.removesuffix(".__init__"): s for m, s in modules(repo_root) if under(m, "spinup")}
    edges = {}
    for module, source in sources.items():
        tree = ast.parse(source)
        for node in ast.walk(tree):  # what type checkers read is never imported
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                node.body = [ast.Pass()]
        names = [n for n, as_program in imported(tree, module) if not as_program]
        found = {n if n in sources else n.rpartition(".")[0] for n in names}
        edges[module] = (found & sources.keys()) - {module, "spinup"}
    assert cycles(edges) == CYCLES


def test_cycles_are_found():
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}]


def test_init_files_of_algorithm_folders_are_empty(repo_root):
    # exporting `ppo` there would shadow the module `ppo.ppo`
    files = [p for b in BACKENDS for p in (repo_root / "spinup/algos" / b).glob("*/__init__.py")]
    assert len(files) >= len(registry.ROWS)
    assert [p for p in files if p.read_text().strip()] == []


# ---------------------------------------------------------------------------------- cost of imports

MOST_LINES = 6000  # what a reader of one algorithm may have to open, at the very most


@pytest.mark.parametrize("name", ["ppo", "sac"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_algorithm_loads_little_of_the_library(name, backend):
    other = {"pytorch": "tensorflow", "tf1": "torch"}[backend]
    code = (
        f"import sys, spinup.algos.{backend}.{name}.{name}\n"
        "files = {m.__file__ for n, m in sys.modules.items() if n.partition('.')[0] == 'spinup'}\n"
        "lines = sum(len(open(file, encoding='utf-8').readlines()) for file in files)\n"
        f"print((lines, {other!r} in sys.modules))"
    )
    done = run_python("-c", code)
    lines, loads_the_other = ast.literal_eval(done.stdout)
    assert lines <= MOST_LINES
    assert not loads_the_other
    assert done.stderr == ""  # TensorFlow is silent


def loaded_after(statement):
    """(CPU seconds, frameworks loaded) of a fresh interpreter that runs `statement`.

    CPU time, because other work on the machine must not decide.
    """
    code = (
        f"{statement}\nimport sys, time\n"
        f"print((time.process_time(), [m for m in {FRAMEWORKS!r} if m in sys.modules]))"
    )
    done = run_python("-c", code)
    return ast.literal_eval(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "statement",
    [
        "import spinup",
        "import spinup; dir(spinup); spinup.SpinupError; spinup.__version__",
        "import spinup.registry as r; r.resolve('ppo'); r.backends('ppo')",
        "import spinup.grids.experiments, spinup.user_config",
        "import spinup.run as r; assert r.main(['--help']) == 0",
        "import spinup.run as r; assert r.main(['ppoo']) == 2",
        "import spinup.run as r; assert r.main(['ppo', '--env', 'x', '--a', '1', '-b']) == 2",
    ],
)
def test_no_framework_is_imported_and_it_is_quick(statement):
    runs = [loaded_after(statement) for _ in range(3)]
    assert runs[0][1] == []
    assert min(seconds for seconds, _ in runs) < 0.5


def test_every_exported_name_is_the_function_of_its_module():
    import spinup

    for row in registry.ROWS:
        for backend in row.backends:
            function = getattr(spinup, f"{row.name}_{backend}")
            assert function.__module__ == row.module(backend)
        assert getattr(spinup, row.name) is registry.load(row.name, row.default_backend())
        assert {row.name, f"{row.name}_{row.backends[0]}"} <= set(dir(spinup))


def test_loggers_are_exported():
    import spinup
    from spinup.runs import logger as logx

    assert spinup.Logger is logx.Logger and spinup.EpochLogger is logx.EpochLogger


def test_an_unknown_export_is_an_attribute_error_with_the_nearest_name():
    import spinup

    with pytest.raises(AttributeError, match="did you mean ppo_pytorch"):
        _ = spinup.ppo_pytorc
    with pytest.raises(ImportError):
        from spinup import no_such_thing  # noqa: F401


# ---------------------------------------------------------------------------------------- registry


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("ppo", ("ppo", "pytorch")),
        ("ppo_pytorch", ("ppo", "pytorch")),
        ("ppo_tf1", ("ppo", "tf1")),
    ],
)
def test_registry_resolves(spec, expected):
    assert registry.resolve(spec) == expected


@pytest.mark.parametrize(
    ("spec", "mentions"),
    [
        ("pppo", "did you mean ppo"),
        ("ppo_torch", "pytorch"),
        ("trpo_", "pytorch"),
        ("", "ppo"),
        ("x", "vpg"),
    ],
)
def test_registry_refuses_unknown_names_with_the_nearest(spec, mentions):
    from spinup import SpinupError

    with pytest.raises(SpinupError, match=mentions):
        registry.resolve(spec)
    with pytest.raises(SpinupError, match=mentions):
        registry.load(spec)


def test_default_backend_is_the_users_choice(monkeypatch):
    row = registry.Algorithm("both", ("pytorch", "tf1"), ("discrete",), "vector", True, True)
    assert row.default_backend() == "pytorch"
    monkeypatch.setitem(registry.user_config.DEFAULT_BACKEND, "both", "tf1")
    assert row.default_backend() == "tf1"
    monkeypatch.setitem(registry.user_config.DEFAULT_BACKEND, "both", "gone")
    assert row.default_backend() == "pytorch"


def test_a_bare_name_is_the_function_of_the_chosen_backend(monkeypatch):
    import spinup

    monkeypatch.setitem(registry.user_config.DEFAULT_BACKEND, "ppo", "tf1")
    assert spinup.ppo is spinup.ppo_tf1
    assert registry.resolve("ppo") == ("ppo", "tf1")
    assert spinup.vpg is spinup.vpg_pytorch


def test_a_missing_framework_is_a_sentence_that_names_the_extra(monkeypatch):
    from spinup import SpinupError

    def fail(name):
        raise ModuleNotFoundError("No module named 'tensorflow'", name="tensorflow")

    monkeypatch.setattr("spinup.registry.importlib.import_module", fail)
    with pytest.raises(SpinupError, match=r"spinup\[tf\]"):
        registry.load("ppo")


# ------------------------------------------------------------------------------ forbidden contents

LOADERS = {"load", "loads", "Unpickler"}
PICKLES = {"pickle", "cloudpickle", "joblib", "torch", "dill"}
# A worker process unpickles what its own parent sent it through a pipe; no file is involved.
OWN_PIPES = {
    ("spinup.envs.workers", "cloudpickle.loads"),
    ("spinup.grids.workers", "cloudpickle.loads"),
    # its own file, whose hash the script that it wrote before holds
    ("spinup.grids.slurm_executor", "cloudpickle.loads"),
}


def dangerous(source, module=""):
    """Code that executes text, hides exceptions or opens pickles without the opt-in."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            found.append("bare except")
        if isinstance(node, ast.Call):
            target = node.func
            if isinstance(target, ast.Name) and target.id in ("eval", "exec"):
                found.append(target.id)
            if (
                isinstance(target, ast.Attribute)
                and target.attr in LOADERS
                and isinstance(target.value, ast.Name)
                and target.value.id in PICKLES
                and "trust_pickle" not in source
                and (module, f"{target.value.id}.{target.attr}") not in OWN_PIPES
            ):
                found.append(f"{target.value.id}.{target.attr}")
    return found


def test_no_eval_no_bare_except_no_pickle(repo_root):
    found = {module: dangerous(source, module) for module, source in modules(repo_root)}
    assert {module: what for module, what in found.items() if what} == {}


@pytest.mark.parametrize(
    "source",
    [
        "eval('1')",
        "exec('1')",
        "try:\n    pass\nexcept:\n    pass",
        "import pickle\npickle.load(f)",
        "torch.load(f)",
    ],
)
def test_the_rule_on_dangerous_code_catches(source):
    assert dangerous(source)


def test_no_file_names_a_machine(repo_root):
    """Absolute paths of somebody's machine have no place in the project's files."""
    homes = ("/" + "work/", "/" + "root/", "/" + "home/", "/" + "tmp/brief")
    ours = ["spinup", "tests", "benchmarks", "docs", ".ci"]
    files = [p for folder in ours for p in (repo_root / folder).rglob("*") if p.is_file()]
    files += [p for p in repo_root.iterdir() if p.is_file() and p.name != ".git"]
    text = {".py", ".md", ".json", ".toml", ".txt", ".sh", ".rst", ".yml", ".yaml", ""}
    files = [p for p in files if p.suffix in text and "__pycache__" not in p.parts]
    assert len(files) > 10
    found = [
        f"{path.relative_to(repo_root)}: {home}"
        for path in files
        for home in homes
        if home in path.read_text(encoding="utf-8", errors="replace")
    ]
    assert found == []

"""One signature: whatever repeats an algorithm's defaults agrees with the function's own."""

import ast
import contextlib
import importlib
import inspect
import io
import json
import re
from pathlib import Path

import pytest

from spinup import registry, run
from spinup.cli import plan as cli
from spinup.cli.main import run_file
from spinup.runs.arguments.table import ARGUMENTS, described
from spinup.runs.run import Run

# What JSON cannot say, and what belongs to one call and not to a set of hyperparameters.
NOT_IN_PRESETS = {
    "env_fn",
    "actor_critic",
    "logger_kwargs",
    "resume",
    "overwrite",
    "progress",
    "on_epoch",
}

# Keyword-only arguments that mean the same in every algorithm.
SHARED = {
    "num_envs": 1,
    "vector": "sync",
    "shards": None,
    "num_threads": None,
    "device": "cpu",
    "resume": False,
    "overwrite": False,
    "progress": False,
    "save_best": False,
    "on_epoch": None,
}

REQUIRED = inspect.Parameter.empty
NETWORKS = {"pytorch": "MLPActorCritic", "tf1": "mlp_actor_critic"}

# What code written for the original passes by position: names, order and defaults are frozen.
# The networks are those of `core`: a class or, in TensorFlow, a graph function.
FROZEN = {
    "vpg": {
        "env_fn": REQUIRED,
        "actor_critic": NETWORKS,
        "ac_kwargs": {},
        "seed": 0,
        "steps_per_epoch": 4000,
        "epochs": 50,
        "gamma": 0.99,
        "pi_lr": 3e-4,
        "vf_lr": 1e-3,
        "train_v_iters": 80,
        "lam": 0.97,
        "max_ep_len": 1000,
        "logger_kwargs": {},
        "save_freq": 10,
    },
    "trpo": {
        "env_fn": REQUIRED,
        "actor_critic": NETWORKS,
        "ac_kwargs": {},
        "seed": 0,
        "steps_per_epoch": 4000,
        "epochs": 50,
        "gamma": 0.99,
        "delta": 0.01,
        "vf_lr": 1e-3,
        "train_v_iters": 80,
        "damping_coeff": 0.1,
        "cg_iters": 10,
        "backtrack_iters": 10,
        "backtrack_coeff": 0.8,
        "lam": 0.97,
        "max_ep_len": 1000,
        "logger_kwargs": {},
        "save_freq": 10,
        "algo": "trpo",
    },
    "ppo": {
        "env_fn": REQUIRED,
        "actor_critic": NETWORKS,
        "ac_kwargs": {},
        "seed": 0,
        "steps_per_epoch": 4000,
        "epochs": 50,
        "gamma": 0.99,
        "clip_ratio": 0.2,
        "pi_lr": 3e-4,
        "vf_lr": 1e-3,
        "train_pi_iters": 80,
        "train_v_iters": 80,
        "lam": 0.97,
        "max_ep_len": 1000,
        "target_kl": 0.01,
        "logger_kwargs": {},
        "save_freq": 10,
    },
}

OFF_POLICY = {
    "env_fn": REQUIRED,
    "actor_critic": NETWORKS,
    "ac_kwargs": {},
    "seed": 0,
    "steps_per_epoch": 4000,
    "epochs": 100,
    "replay_size": 1000000,
    "gamma": 0.99,
    "polyak": 0.995,
}
LAST = {"num_test_episodes": 10, "max_ep_len": 1000, "logger_kwargs": {}, "save_freq": 1}
FROZEN["ddpg"] = {
    **OFF_POLICY,
    "pi_lr": 1e-3,
    "q_lr": 1e-3,
    "batch_size": 100,
    "start_steps": 10000,
    "update_after": 1000,
    "update_every": 50,
    "act_noise": 0.1,
    **LAST,
}
FROZEN["td3"] = {
    **{key: value for key, value in FROZEN["ddpg"].items() if key not in LAST},
    "target_noise": 0.2,
    "noise_clip": 0.5,
    "policy_delay": 2,
    **LAST,
}
FROZEN["sac"] = {
    **OFF_POLICY,
    "lr": 1e-3,
    "alpha": 0.2,
    "batch_size": 100,
    "start_steps": 10000,
    "update_after": 1000,
    "update_every": 50,
    **LAST,
}

# The environment of an algorithm's preset, by what it learns in first.
PRESET_ENV = {
    "Discrete": "CartPole-v1",
    "Box": "Pendulum-v1",
    "goal": "spinup/BitFlip-v0",
}


def preset_env(name):
    row = registry.get(name)
    return PRESET_ENV["goal" if row.observation == "goal" else row.action_spaces[0]]


PAIRS = [(row.name, backend) for row in registry.ROWS for backend in row.backends]
every_algorithm = pytest.mark.parametrize(("name", "backend"), PAIRS)


def same(a, b):
    """Equal in value and in type: True is not 1 and 1 is not 1.0 to whoever reads a table."""
    return type(a) is type(b) and a == b


def parameters(name, backend):
    """Name -> parameter of a training function."""
    return dict(inspect.signature(registry.load(name, backend)).parameters)


def folder(name, backend):
    return Path(inspect.getsourcefile(inspect.unwrap(registry.load(name, backend)))).parent


def core_of(name, backend):
    module = registry.get(name).module(backend).rpartition(".")[0]
    return importlib.import_module(f"{module}.core")


def section(text, title):
    """The part of a Markdown text under the heading `## title`."""
    parts = re.split(r"^## (.+)$", text, flags=re.M)
    found = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert title in found, f"no section '{title}' among {sorted(found)}"
    return found[title]


def table(text):
    """The rows of the first Markdown table in `text`, as lists of cells, without its header."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def readme_defaults(text, core):
    """Name -> default, as the hyperparameter table of a README has them."""
    found = {}
    for name, default, meaning in table(section(text, "Hyperparameters")):
        assert meaning, f"the README does not say what {name} means"
        if default == "required":
            value = REQUIRED
        elif default.startswith("`core."):
            value = getattr(core, default.strip("`").removeprefix("core."))
        else:
            value = ast.literal_eval(default.strip("`"))
        found[name.strip("`")] = value
    return found


def help_entries(text, names):
    """Name -> (explanation, default as shown) of those of `names` that a help text has."""
    found = {}
    for entry in re.findall(r"^  -.*\n(?: {26}.*\n)*", text + "\n", flags=re.M):
        first, _, more = entry.partition("\n")
        flags, beside = (first[:26], first[26:]) if first[:26].endswith(" ") else (first, "")
        explanation, _, default = " ".join(f"{beside} {more}".split()).rpartition(" (default: ")
        for name in names:
            if f"--{name}" in flags.replace(",", " ").split():
                assert name not in found, f"{name} is listed twice"
                found[name] = (explanation, default.removesuffix(")"))
    return found


def printed(function, *args):
    """What a call prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        function(*args)
    return out.getvalue()


@every_algorithm
def test_signature_preset_readme_docstring_and_help_agree(name, backend):
    function = registry.load(name, backend)
    signature = parameters(name, backend)
    defaults = {key: p.default for key, p in signature.items()}

    preset = json.loads((folder(name, backend) / "config.json").read_text())
    assert preset.pop("env") == preset_env(name)
    expected = {key: d for key, d in defaults.items() if key not in NOT_IN_PRESETS}
    assert list(preset) == list(expected)
    assert [key for key in expected if not same(preset[key], expected[key])] == []

    text = (folder(name, backend) / "README.md").read_text()
    in_readme = readme_defaults(text, core_of(name, backend))
    assert list(in_readme) == list(defaults)
    assert [key for key in defaults if not same(in_readme[key], defaults[key])] == []

    said = docstring_arguments(function)
    assert list(said) == list(defaults)
    assert [key for key, explanation in said.items() if len(explanation) < 10] == []

    apart = (*cli.NOT_FLAGS, "logger_kwargs", "ac_kwargs")  # dicts show their entries instead
    shown = {key: d for key, d in defaults.items() if key not in apart}
    helps = {
        "spinup": printed(run.main, [f"{name}_{backend}", "--help"]),
        "file": printed(run_file, function, ["--help"]),
    }
    for where, output in helps.items():
        entries = help_entries(output, shown)
        assert set(entries) == set(shown), where
        for key, default in shown.items():
            assert entries[key] == (said[key], repr(default)), where


def docstring_arguments(function):
    """Name -> explanation of the entries of the docstring's `Args:` section, and of no other."""
    body = inspect.getdoc(function).partition("\nArgs:\n")[2].partition("\n\n")[0]
    assert body, f"the docstring of {function.__name__} has no Args section"
    entries = re.split(r"^    (\w+): ", body, flags=re.M)
    assert not entries[0].strip(), f"not an entry: {entries[0]!r}"
    explanations = (" ".join(text.split()) for text in entries[2::2])
    return dict(zip(entries[1::2], explanations, strict=True))


@every_algorithm
def test_shared_arguments_mean_the_same_everywhere(name, backend):
    signature = parameters(name, backend)
    for key, default in SHARED.items():
        assert signature[key].kind is inspect.Parameter.KEYWORD_ONLY, key
        assert same(signature[key].default, default), key
    # the same words too: a reader of one docstring knows them in all
    first = docstring_arguments(registry.load(*PAIRS[0]))
    said = docstring_arguments(registry.load(name, backend))
    assert {key: said[key] for key in SHARED} == {key: first[key] for key in SHARED}


@pytest.mark.parametrize("name", FROZEN)
def test_positional_order_is_what_existing_code_relies_on(name):
    for backend in registry.backends(name):
        positional = {
            key: p
            for key, p in parameters(name, backend).items()
            if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        }
        assert list(positional) == list(FROZEN[name])
        for key, expected in FROZEN[name].items():
            default = positional[key].default
            if key == "actor_critic":
                assert default is getattr(core_of(name, backend), expected[backend])
            else:
                assert same(default, expected), key


@every_algorithm
def test_all_algorithms_begin_with_the_same_arguments(name, backend):
    first = ["env_fn", "actor_critic", "ac_kwargs", "seed", "steps_per_epoch", "epochs"]
    first += ["gamma"] if registry.get(name).on_policy else ["replay_size", "gamma"]
    assert list(parameters(name, backend))[: len(first)] == first


@every_algorithm
def test_the_preset_is_one_run_with_the_defaults(name, backend):
    path = folder(name, backend) / "config.json"
    (cell,) = cli.plan(registry.load(name, backend), [], name, preset=path).grid.cells(print)
    assert cell.kwargs["env_name"] == preset_env(name)
    assert cell.exp_name == name
    defaults = {key: p.default for key, p in parameters(name, backend).items()}
    assert same(cell.seed, defaults["seed"])
    given = {key: value for key, value in cell.kwargs.items() if key != "env_name"}
    assert all(same(value, defaults[key]) for key, value in given.items())
    missing = set(defaults) - set(given) - NOT_IN_PRESETS
    empty = {key for key, default in defaults.items() if default == {}}
    # the seed is apart; an empty dict sets nothing
    assert missing == {"seed", *empty} - NOT_IN_PRESETS


# ---- how the files read ------------------------------------------------------------------------


def functions(name, backend):
    """Name -> (parsed function, its source), of all functions in the algorithm's folder."""
    found = {}
    for path in sorted(folder(name, backend).glob("*.py")):
        source = path.read_text()
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef):
                found[node.name] = node, ast.get_source_segment(source, node)
    return found


def updates(name, backend):
    return {key: f for key, f in functions(name, backend).items() if takes_a_gradient_step(*f)}


def takes_a_gradient_step(node, source):
    return any(argument.arg.endswith("_optimizer") for argument in node.args.args)


@every_algorithm
def test_an_algorithm_file_is_short_and_its_init_is_empty(name, backend):
    here = folder(name, backend)
    assert len((here / f"{name}.py").read_text().splitlines()) < 260
    assert (here / "__init__.py").read_text() == ""


@every_algorithm
def test_an_update_is_short(name, backend):
    found = {**updates(name, backend)}
    found[f"{name}_update"] = functions(name, backend)[f"{name}_update"]
    for key, (node, _) in found.items():
        lines = node.end_lineno - node.body[0].lineno + 1  # without the signature
        assert lines < 45, key


@every_algorithm
def test_every_gradient_step_is_visible_in_the_update(name, backend):
    found = updates(name, backend)
    if name == "her":  # it takes none of its own: the update of the base does
        assert found == {}
        return
    if backend == "tf1":
        check_graph_steps(name)
        return
    assert f"{name}_update" in found
    for key, (node, source) in found.items():
        called = {n.func.id for n in ast.walk(node) if isinstance(n, ast.Call) and is_name(n.func)}
        # what it calls in its own folder, such as ACER's step within a trust region
        text = source + "".join(found[other][1] for other in called & found.keys())
        optimizers = [a.arg for a in node.args.args if a.arg.endswith("_optimizer")]
        for optimizer in optimizers:
            assert f"{optimizer}.step()" in text, f"{key}: {optimizer}"
        assert text.count(".backward()") >= len(optimizers), key


def check_graph_steps(name):
    """An update in graph mode takes a step of each of its optimizers, or of each of its losses."""
    node, text = functions(name, "tf1")[f"{name}_update"]
    given = [argument.arg for argument in node.args.args]
    optimizers = [arg for arg in given if arg.endswith("_optimizer")]
    losses = [arg for arg in given if arg.endswith("_loss")]
    assert optimizers or losses
    for optimizer in optimizers:
        assert f"{optimizer}.minimize(" in text, optimizer
    for loss in losses:
        steps = (f"gradient_step({loss}, ", f"{loss}.step(")
        if name == "trpo" and loss == "pi_loss":  # follows no optimizer
            steps = ("params.set(", "line_search(")
        assert any(step in text for step in steps), loss


def is_name(node):
    return isinstance(node, ast.Name)


@every_algorithm
def test_every_argument_has_a_type(name, backend):
    function = registry.load(name, backend)
    for key, parameter in parameters(name, backend).items():
        assert parameter.annotation is not parameter.empty, key
    assert inspect.signature(function).return_annotation is not inspect.Signature.empty


@every_algorithm
def test_an_argument_is_described_once(name, backend):
    function = registry.load(name, backend)
    written = inspect.getdoc(inspect.unwrap(function))
    entries = re.findall(r"^    (\w+): ", written.partition("\nArgs:\n")[2], flags=re.M)
    assert len(entries) == len(set(entries)) and set(entries) <= set(parameters(name, backend))
    own = described(written)
    assert list(own) == entries
    for key in parameters(name, backend):
        shared = ARGUMENTS[key].text
        assert bool(own.get(key)) or bool(shared), f"{key} is described nowhere"
        assert own.get(key) != shared, f"{key} repeats what the table says"


@pytest.mark.parametrize(
    ("change", "fails"),
    [
        (lambda s: s.replace("| `gamma` | `0.99` |", "| `gamma` | `0.98` |"), "gamma"),
        (lambda s: s.replace("| `epochs` | `50` |", "| `epochs` | `50.0` |"), "epochs"),
        (lambda s: s.replace("| `lam` |", "| `lambda` |"), "lam"),
    ],
)
def test_a_wrong_readme_is_noticed(change, fails):
    text = change((folder("ppo", "pytorch") / "README.md").read_text())
    found = readme_defaults(text, core_of("ppo", "pytorch"))
    assert not same(found.get(fails), parameters("ppo", "pytorch")[fails].default)


@every_algorithm
def test_an_algorithm_sees_a_run_through_the_names_that_its_docstring_lists(name, backend):
    seen = set(re.findall(r"`(\w+)`", Run.__doc__))
    assert len(seen) == 15
    own = set()  # HER's run has more, which HER defines itself
    if name == "her":
        own = {"goals", "base", "base_options"}
    text = "".join(path.read_text() for path in folder(name, backend).glob("*.py"))
    assert set(re.findall(r"\brun\.([a-z_]+)", text)) <= seen | own

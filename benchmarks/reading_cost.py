"""Count the files and lines that a reader of this library must open.

    python benchmarks/reading_cost.py                 # this tree
    python benchmarks/reading_cost.py --tree FOLDER   # another checkout

- Import closure of an algorithm: the files of this package that importing it loads, and their
  lines.
- One gradient step and one transition of PPO: the functions of this package that run, from
  `ppo_update` to `optimizer.step`, and from the training loop to the batch. Every function counts
  once, with its docstring and comments.
- From words to the call: the functions of this package that run between the words of a command line
  and the first line of `ppo`.
- Sibling diffs: lines of code that differ between two algorithm files, without docstrings, comments
  and blank lines.
- The package: all lines, and those of the algorithm files.
"""

import argparse
import ast
import difflib
import io
import json
import subprocess
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("spinup", "spinup_lab", "spinup_tune", "tests")
ALGORITHMS = ("vpg", "trpo", "ppo", "reinforce", "ddpg", "td3", "sac", "dqn", "acer", "her")
PAIRS = (("ddpg", "td3"), ("td3", "sac"), ("vpg", "ppo"))

CLOSURE = """
import importlib, json, sys
importlib.import_module("spinup.algos.pytorch.{0}.{0}")
files = {{m.__file__ for n, m in sys.modules.items() if n.split(".")[0] == "spinup" and m.__file__}}
print(json.dumps(sorted(files)))
"""

# Train PPO briefly and record every function of this package that is called inside `ppo_update` (a
# gradient step), or before it, from the first environment step on (a transition). What follows the
# update (the log, diagnostics.txt, checkpoints) belongs to neither.
TRACE = """
import json, sys, tempfile
import gymnasium as gym
from spinup import ppo_pytorch
called = {"step": set(), "update": set()}
depth = {"update": 0, "train": 0}

def note(frame, event, arg):
    code = frame.f_code
    if "/spinup/" not in code.co_filename or code.co_name.startswith("<"):
        return
    place = (code.co_filename, code.co_qualname if hasattr(code, "co_qualname") else code.co_name)
    if event == "call":
        if code.co_name == "ppo_update":
            depth["update"] += 1
            depth["train"] = 0
        if depth["update"]:
            called["update"].add((*place, code.co_firstlineno))
        elif depth["train"]:
            called["step"].add((*place, code.co_firstlineno))
    elif event == "return" and code.co_name == "ppo_update":
        depth["update"] -= 1

import spinup.envs.streams as streams
plain = streams.Streams.step

def step(self, act):
    # from the first step until the update: acting, stepping, storing, making the batch
    depth["train"] = 1
    return plain(self, act)

streams.Streams.step = step
with tempfile.TemporaryDirectory() as folder:
    sys.setprofile(note)
    ppo_pytorch(
        lambda: gym.make("Pendulum-v1"), steps_per_epoch=250, epochs=1, train_pi_iters=2,
        train_v_iters=2, logger_kwargs={"output_dir": folder, "quiet": True},
    )
    sys.setprofile(None)
print(json.dumps({name: sorted(found) for name, found in called.items()}))
"""

# Give the words of a command line to the package, and record every function of it that is called
# before the body of `ppo`, also while modules are imported.
WORDS = """
import inspect, json, sys, tempfile
from spinup.cli.main import main
called = set()

def note(frame, event, arg):
    code = frame.f_code
    if event != "call" or "/spinup/" not in code.co_filename or code.co_name.startswith("<"):
        return
    if code.co_name == "ppo" and code.co_filename.endswith("/ppo.py"):
        sys.setprofile(None)
        raise KeyboardInterrupt
    if code.co_flags & inspect.CO_OPTIMIZED:  # the body of a class is no function
        called.add((code.co_filename, code.co_name, code.co_firstlineno))

with tempfile.TemporaryDirectory() as folder:
    words = "ppo --hid [32,32] --env CartPole-v1 --exp_name installtest --gamma 0.999 --data_dir"
    sys.setprofile(note)
    main([*words.split(), folder])
print(json.dumps(sorted(called)))
"""


def python(tree, code):
    """What `code` prints in a new interpreter that imports the package in `tree`."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(tree), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
        cwd=tree,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def lines_of(path):
    """Number of lines of a file."""
    return len(Path(path).read_text(encoding="utf-8").splitlines())


def span(path, line):
    """Number of lines of the function that starts at `line`, including decorators."""
    for node in ast.walk(ast.parse(Path(path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if first == line or node.lineno == line:
                return node.end_lineno - first + 1
    return 0


# Logging, saving, resuming and checking are not needed to follow the arithmetic.
ASIDE = ("/runs/", "/utils/errors", "/utils/seeding", "/cli/", "progress", "adapter", "first_steps")


def followed(calls):
    """Number of files and lines of the functions that a reader follows."""
    calls = [(path, line) for path, _, line in calls if not any(x in path for x in ASIDE)]
    files = {path for path, _ in calls}
    return {"files": len(files), "lines": sum(span(path, line) for path, line in set(calls))}


def words_to_call(tree):
    """Number of functions and lines from the words of a command line to the body of `ppo`."""
    called = python(tree, WORDS)
    return {"functions": len(called), "lines": sum(span(path, line) for path, _, line in called)}


def code_lines(path):
    """The lines of a file without docstrings, comments and blank lines."""
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            value = body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                body[0].value = ast.Constant("")
    return [line for line in ast.unparse(tree).splitlines() if line.strip() not in ("", "''")]


def code_size(folder):
    """The code lines of a package, comments and docstrings aside, as they stand in the files."""
    return sum(len(_code_rows(path.read_text("utf-8"))) for path in folder.rglob("*.py"))


def _code_rows(text):
    rows = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            rows.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            value = getattr(first, "value", None) if isinstance(first, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                rows -= set(range(first.lineno, first.end_lineno + 1))
    return rows


_NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}


def parameters(tree, name):
    """The number of parameters that an algorithm's source lists; a bundle counts as one."""
    path = tree / f"spinup/algos/pytorch/{name}/{name}.py"
    body = ast.parse(path.read_text("utf-8")).body
    found = next(n for n in body if isinstance(n, ast.FunctionDef) and n.name == name).args
    return len([*found.args, *found.kwonlyargs]) + (found.kwarg is not None)


def measure(tree):
    """All numbers for one tree."""
    algos = tree / "spinup/algos/pytorch"
    result = {"closure": {}, "sibling_diffs": {}}
    for name in ("ppo", "sac"):
        files = [f for f in python(tree, CLOSURE.format(name)) if lines_of(f)]
        result["closure"][name] = {"files": len(files), "lines": sum(map(lines_of, files))}
    traced = python(tree, TRACE)
    result["gradient_step"] = followed(traced["update"])
    result["transition"] = followed(traced["step"])
    result["words_to_call"] = words_to_call(tree)
    for one, other in PAIRS:
        pair = [code_lines(algos / name / f"{name}.py") for name in (one, other)]
        changed = [d for d in difflib.unified_diff(*pair, n=0, lineterm="") if d[0] in "+-"]
        result["sibling_diffs"][f"{one}-{other}"] = len(changed) - 2  # the two file names
    sources = list((tree / "spinup").rglob("*.py"))
    own = [p for p in algos.glob("*/*.py") if p.stem == p.parent.name]
    result["package"] = {"files": len(sources), "lines": sum(map(lines_of, sources))}
    result["parameters"] = {name: parameters(tree, name) for name in ALGORITHMS}
    result["code_lines"] = {name: code_size(tree / name) for name in PACKAGES}
    result["algorithm_files"] = {"files": len(own), "lines": sum(map(lines_of, own))}
    return result


def main():
    """Print the numbers as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tree", type=Path, default=ROOT, help="checkout to measure")
    args = parser.parse_args()
    print(json.dumps(measure(args.tree.resolve()), indent=2))


if __name__ == "__main__":
    main()

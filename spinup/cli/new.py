"""The command `spinup new`: write the files of an algorithm of your own.

The algorithm starts as a copy of one of the library's, in a package of its own that can be
installed. It trains at once, and you can change it step by step.
"""

from __future__ import annotations

import importlib.util
import io
import itertools
import json
import keyword
import re
import sys
import tokenize
from collections.abc import Sequence
from pathlib import Path

from spinup import __version__, registry
from spinup.cli.main import TOOLS
from spinup.cli.parsers import command_parser
from spinup.cli.templates import template
from spinup.utils.errors import SpinupError, nearest, one_line


def main(argv: Sequence[str] | None = None) -> int:
    """Run `spinup new NAME --from ALGO` and return the exit code."""
    parser = command_parser("new")
    try:
        args = parser.parse_args(argv)
        written = write(args.name, args.source, Path.cwd())
    except SpinupError as error:
        print(f"spinup: {one_line(error)}", file=sys.stderr)
        return 2
    name = args.name
    said = {
        "pyproject.toml": f"adds the command 'spinup {name}' once it is installed",
        f"{name}.py": "the algorithm: losses, update, training loop",
        "core.py": "its networks",
        "config.json": "its hyperparameters",
        "README.md": "its explanation",
        f"test_{name}.py": "it trains, and continues exactly after a stop",
    }
    print(f"Wrote {name}, which starts as a copy of {args.source}:")
    for path in written:
        if path.name in said:
            print(f"  {path!s:<{2 * len(name) + 18}}{said[path.name]}")
    print(
        f"\nNext:\n  pip install -e {name}\n  spinup {name} --env "
        f"{_preset_env(*_source(args.source))} --epochs 5\n  python -m pytest {name}"
    )
    return 0


def write(name: str, source: str, where: Path) -> list[Path]:
    """Write the package `name` in the folder `where`; return the files, relative to it."""
    root = where / name
    if name.isidentifier() and root.exists():
        raise SpinupError(
            f"{root} already exists: choose another name, or run this in another folder"
        )
    _check_name(name)
    row, backend = _source(source)
    folder, extra = _folder(row, backend), "[tf]" if backend == "tf1" else ""
    files = {
        "pyproject.toml": template("new_pyproject.txt").format(
            name=name, extra=extra, version=__version__
        ),
        f"{name}/__init__.py": "",
        f"{name}/{name}.py": _renamed(
            (folder / f"{row.name}.py").read_text("utf-8"), row, backend, name
        ),
        f"{name}/core.py": (folder / "core.py").read_text("utf-8"),
        f"{name}/config.json": (folder / "config.json").read_text("utf-8"),
        f"{name}/README.md": _readme(folder, row.name, backend, name),
        f"tests/test_{name}.py": template("new_test.txt").format(name=name),
    }
    try:
        root.mkdir()
        for file, text in files.items():
            (root / file).parent.mkdir(exist_ok=True)
            (root / file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise SpinupError(
            f"cannot write {root} ({error.strerror}): choose another folder"
        ) from error
    return [Path(name) / file for file in files]


def _check_name(name: str) -> None:
    if not name.isidentifier() or keyword.iskeyword(name) or name != name.lower():
        raise SpinupError(
            f"'{name}' cannot be the name of an algorithm: use lower-case letters, digits and "
            "underscores, as in my_algo"
        )
    taken = (*registry.algorithms(), *registry.outside())
    if name in taken or name in (*TOOLS, "help"):
        what = "an algorithm" if name in taken else "a command"
        raise SpinupError(f"'{name}' is already {what}: choose another name")
    if name in sys.stdlib_module_names or importlib.util.find_spec(name) is not None:
        raise SpinupError(
            f"there is already a module '{name}', which the new package would hide: choose another "
            "name"
        )


def _source(name: str) -> tuple[registry.Algorithm, str]:
    """Return the algorithm to start from, 'vpg' or 'vpg_tf1', and its backend."""
    # HER has no update of its own: it wraps those of other algorithms.
    rows = [row for row in registry.ROWS if row.name != "her"]
    known = {row.name: (row, row.default_backend()) for row in rows}
    full = {f"{row.name}_{backend}": (row, backend) for row in rows for backend in row.backends}
    if name not in known | full:
        raise SpinupError(
            f"there is no algorithm '{name}' to start from: choose one of {', '.join(known)}"
            f"{nearest(name, known | full)}"
        )
    return (known | full)[name]


def _folder(row: registry.Algorithm, backend: str) -> Path:
    return Path(registry.__file__).parent / "algos" / backend / row.name


def _preset_env(row: registry.Algorithm, backend: str) -> str:
    env: str = json.loads((_folder(row, backend) / "config.json").read_text("utf-8"))["env"]
    return env


def _renamed(text: str, row: registry.Algorithm, backend: str, name: str) -> str:
    """Rename an algorithm's function and what it defines; keep what it imports from others."""
    source = row.name
    ours = f"spinup.algos.{backend}.{source}"
    text = text.replace(f"from {ours} import core\n", f"from {name} import core\n")
    text = text.replace(f"from {ours}.core import", f"from {name}.core import")
    text = text.replace(f'Run("{source}")', f'Run("{name}")')
    text = text.replace(f"python -m {ours}.{source}", f"python -m {name}.{name}")
    text = re.sub(rf"python -m spinup\.run {source}(_\w+)?", f"spinup {name}", text)
    text = text.replace('"""', f'"""{name}, which starts as a copy of {source}.\n\n', 1)
    text = text.replace(
        "The README next to this file lists the differences from the paper",
        "The README next to this file says what is different from the paper",
    )
    pattern = re.compile(rf"{source}(_\w+)?")
    lines = text.splitlines(keepends=True)
    places = []
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    for before, token in itertools.pairwise(tokens):
        imported = token.line.lstrip().startswith(("from ", "import "))
        named = token.type == tokenize.NAME and pattern.fullmatch(token.string)
        if named and not imported and before.string != ".":
            places.append(token.start)
    for number, column in reversed(places):
        line = lines[number - 1]
        lines[number - 1] = line[:column] + name + line[column + len(source) :]
    given = f"{name!r}, {name}, {backend!r}, action_spaces={row.action_spaces!r}"
    call = f"register({given})".replace("'", '"')
    main = '\n\nif __name__ == "__main__":'
    text = "".join(lines).replace(main, f"\n\n{call}\n{main}")
    own = "".join(re.findall(rf"^from {name}\b.*\n", text, re.M))
    text = re.sub(rf"^from {name}\b.*\n", "", text, flags=re.M)
    imports = list(re.finditer(r"^from spinup\..*\n", text, re.M))
    first, last = imports[0].start(), imports[-1].end()
    block = f"from spinup import register\n{text[first:last]}\n{own}"
    return text[:first] + block + text[last:]


def _readme(folder: Path, source: str, backend: str, name: str) -> str:
    text = (folder / "README.md").read_text("utf-8")
    table = text.partition("\n## Hyperparameters\n")[2].partition("\n## ")[0].rstrip()
    # links relative to the library's folders lead nowhere from here
    table = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", table)
    return template("new_readme.txt").format(name=name, source=source, backend=backend, table=table)

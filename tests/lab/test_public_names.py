"""The satellites use the library through the names that `docs/public-names.toml` lists."""

import ast
import importlib
from pathlib import Path

import pytest

from spinup.utils.toml import parse_toml

ROOT = Path(__file__).resolve().parents[2]
LISTED = {
    module: set(names.split())
    for module, names in parse_toml((ROOT / "docs/public-names.toml").read_text("utf-8"))[
        "names"
    ].items()
}


def used(path):
    """(module, name) of everything that a file imports from the library."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "spinup":
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((a.name, "") for a in node.names if a.name.split(".")[0] == "spinup")


@pytest.mark.parametrize("package", ["spinup_lab", "spinup_tune"])
def test_satellites_use_only_listed_names(package):
    found = {name for path in (ROOT / package).rglob("*.py") for name in used(path)}
    unlisted = [n for n in found if n[0] not in LISTED or not {n[1]} <= LISTED[n[0]] | {""}]
    assert sorted(unlisted) == []


def test_every_listed_name_is_used_somewhere_exists_and_is_public():
    every = [
        name
        for package in ("spinup_lab", "spinup_tune")
        for path in (ROOT / package).rglob("*.py")
        for name in used(path)
    ]
    for module, names in LISTED.items():
        assert {name for m, name in every if m == module} | {""} == names | {""}, module
        for name in names - {"__version__"}:
            assert not name.startswith("_")
            loaded = importlib.import_module(module)
            assert hasattr(loaded, name) or importlib.import_module(f"{module}.{name}")

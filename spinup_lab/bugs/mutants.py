"""Reading the mutants from the `.toml` files of this folder.

A file has one table per mutant; the table's name is the mutant's id. `old` is a piece of the
module's source that occurs there exactly once, and `new` is what replaces it. A mutant that needs
several changes has an `edit` for each, with a `module` of its own if it is in another file.
`environments.toml` describes the faulty environments instead, in the same way.
"""

import functools
import importlib.util
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from spinup.utils.errors import SpinupError, nearest
from spinup.utils.toml import parse_toml
from spinup_lab.parts import PARTS

_FOLDER, _ENVIRONMENTS = Path(__file__).parent, "environments.toml"


@dataclass(frozen=True)
class Edit:
    """One change of one module: the only occurrence of `old` becomes `new`."""

    module: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutant:
    """One named fault.

    Attributes:
        id: its name, which never changes.
        title: what is wrong, in a few words.
        part: the part of the implementation that is at fault, one of `PARTS`.
        algorithms: the algorithms that it affects; the first one shows it best.
        edits: the changes that make the fault.
        story: where it is really seen and why it is wrong, for a learner.
        symptom: what a log shows.
        noticed_by: what can notice it: U (unit tests), P (probe), D (doctor), or L (only learning
            curves), with the names of the probes and rules that were expected to.
        hints: three hints for finding it, from vague to nearly the answer.
        topic: the file that it is in.
        settings: arguments of the training function without which the fault has no effect.
        env: an environment that shows it; empty if any will do.
    """

    id: str
    title: str
    part: str
    algorithms: tuple[str, ...]
    edits: tuple[Edit, ...]
    story: str
    symptom: str
    noticed_by: str
    hints: tuple[str, str, str]
    topic: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    env: str = ""

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules that it changes, each once."""
        return tuple(dict.fromkeys(edit.module for edit in self.edits))

    @property
    def module(self) -> str:
        """The module of its first change."""
        return self.edits[0].module


@dataclass(frozen=True)
class BrokenEnvironment:
    """An environment with a fault of its own; the fields are those of a `Mutant`.

    `env` is the id under which `gymnasium.make` and our algorithms find it.
    """

    id: str
    title: str
    env: str
    algorithms: tuple[str, ...]
    story: str
    symptom: str
    noticed_by: str
    hints: tuple[str, str, str]
    part: str = "environment"


_TEXTS = ("title", "part", "story", "symptom", "noticed_by")
_KNOWN = {*_TEXTS, "module", "old", "new", "edit", "settings", "env"}


@functools.cache
def load() -> Mapping[str, Mutant]:
    """Return all mutants by id, in the order of their files."""
    found: dict[str, Mutant] = {}
    for path in sorted(_FOLDER.glob("*.toml")):
        for name, table in _read(path).items() if path.name != _ENVIRONMENTS else ():
            if name in found:
                raise SpinupError(f"the zoo has two mutants named {name!r}: rename one in {path}")
            found[name] = _mutant(name, table, path)
    return MappingProxyType(found)


@functools.cache
def broken_environments() -> Mapping[str, BrokenEnvironment]:
    """Return the faulty environments by id."""
    tables = _read(_FOLDER / _ENVIRONMENTS)
    return MappingProxyType({name: _environment(name, table) for name, table in tables.items()})


def find(name: str) -> Mutant:
    """Return the mutant with this id."""
    mutants = load()
    if name not in mutants:
        raise SpinupError(f"the zoo has no mutant {name!r}{nearest(name, mutants)}")
    return mutants[name]


def healthy_source(module: str) -> str:
    """Return a module's source text, without importing the module."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise SpinupError(f"a mutant of the zoo changes {module}, which does not exist")
    return Path(spec.origin).read_text(encoding="utf-8")


def mutated(mutant: Mutant, module: str, text: str) -> str:
    """Return the text of `module` with the mutant's changes."""
    for edit in mutant.edits:
        if edit.module != module:
            continue
        count = text.count(edit.old)
        if count != 1:
            raise SpinupError(
                f"mutant {mutant.id} no longer fits {module}: its text occurs {count} times "
                f"instead of once: {edit.old.strip().splitlines()[0]!r}"
            )
        text = text.replace(edit.old, edit.new)
    return text


def _read(path: Path) -> dict[str, Any]:
    return parse_toml(path.read_text(encoding="utf-8"))


def _mutant(name: str, table: Mapping[str, Any], path: Path) -> Mutant:
    where = f"mutant {name} in {path.name}"
    texts = _texts(where, table, _TEXTS, _KNOWN)
    if table["part"] not in PARTS:
        raise SpinupError(f"{where} has part={table['part']!r}{nearest(table['part'], PARTS)}")
    edits = tuple(
        Edit(edit.get("module", table.get("module", "")), edit["old"], edit["new"])
        for edit in table.get("edit", [table])
    )
    return Mutant(
        id=name,
        edits=edits,
        topic=path.stem,
        settings=MappingProxyType(dict(table.get("settings", {}))),
        env=table.get("env", ""),
        **texts,
    )


def _environment(name: str, table: Mapping[str, Any]) -> BrokenEnvironment:
    names = ("title", "env", "story", "symptom", "noticed_by")
    return BrokenEnvironment(id=name, **_texts(f"environment {name}", table, names, set(names)))


def _texts(
    where: str, table: Mapping[str, Any], names: Sequence[str], known: Set[str]
) -> dict[str, Any]:
    """Return a table's texts, each on one line, its algorithms and its three hints."""
    if unknown := sorted(table.keys() - known - {"algorithms", "hints"}):
        raise SpinupError(f"{where} has the unknown field {unknown[0]!r}")
    if missing := [key for key in (*names, "algorithms", "hints") if not table.get(key)]:
        raise SpinupError(f"{where} lacks the field {missing[0]!r}")
    if len(table["hints"]) != 3:
        raise SpinupError(f"{where} must have three hints, but has {len(table['hints'])}")
    lists = {key: tuple(table[key]) for key in ("algorithms", "hints")}
    return {**{key: " ".join(table[key].split()) for key in names}, **lists}

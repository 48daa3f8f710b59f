"""Reads the exercises from the files in `sets`: what a teacher writes and edits.

`sets/set04_ppo.toml` holds the exercises of set 4, a table for each, whose name is the id:

    [ppo.loss_pi]
    title = "the clipped objective"
    ...
    [ppo.loss_pi.mistakes.clipped-only]
    story = "You always use the clipped ratio. ..."
    old = "-torch.min(ratio * adv, clip_adv).mean()"
    new = "-clip_adv.mean()"

The fields are those of the class in `KINDS`, with these differences:

- The id and the set follow from the names of the table and of the file.
- `kind` is one of `KINDS`; without it, the learner writes a function.
- `hints` are three texts. The first two are prose, however many lines they have in the file; the
  last one may be code.
- Each table in `mistakes` is a `Wrong`: a story, and one edit of the right answer (`old`, `new`),
  several (tables named `edit`), or a `function`. `mistakes_of` names another exercise that has the
  same mistakes, which come first.
- `cases`, `call` and `function` name functions of the Python file beside the TOML file, or of
  another module: "package.module:function".
- `[[quiz]]` tables are the questions of the set's quiz.
- An experiment has a setting to `compare`, whose values are its `arms`. In its `settings`, "none"
  stands for None, which TOML cannot write.

Nothing is imported here: a set's Python file is loaded when an answer is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from spinup.utils.errors import SpinupError, nearest, one_line
from spinup.utils.toml import parse_toml
from spinup_lab.exercises.exercise import Exercise, Task, Wrong
from spinup_lab.exercises.experiments import DECISIONS, Arm, Experiment
from spinup_lab.exercises.original import Original

FOLDER = Path(__file__).with_name("sets")
KINDS = {"function": Exercise, "experiment": Experiment, "original": Original}

_PROSE = ("story", "lesson", "text", "why")

# type of a field -> what it is called, and how a value of it is recognized
_TYPES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "str": ("a text", lambda x: isinstance(x, str) and x != ""),
    "bool": ("true or false", lambda x: isinstance(x, bool)),
    "int": ("a whole number", lambda x: isinstance(x, int) and not isinstance(x, bool)),
    "float": ("a number", lambda x: isinstance(x, (int, float)) and not isinstance(x, bool)),
    "tuple[str, ...]": ("a list of texts", lambda x: _texts(x)),
    "tuple[str, str, str]": ("a list of three texts", lambda x: _texts(x) and len(x) == 3),
    "Mapping[str, str]": ("a table of texts", lambda x: _table(x) and _texts([*x.values()])),
    "Mapping[str, Any]": ("a table", lambda x: _table(x)),
}


def read(path: Path) -> dict[str, Any]:
    """Return a file's tables."""
    try:
        return parse_toml(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SpinupError(f"{path.name} cannot be read: {one_line(error)}") from None


def read_set(path: Path, known: Mapping[str, Task]) -> dict[str, Task]:
    """Return the exercises of a file; `known` are those of the files before it."""
    found: dict[str, Task] = {}
    for prefix, tables in read(path).items():
        if prefix == "quiz":  # see `quiz.py`
            continue
        for name, table in as_table(f"{path.name}: [{prefix}]", tables).items():
            id_ = f"{prefix}.{name}"
            if id_ in known:
                raise SpinupError(f"{path.name}: [{id_}] is an exercise of another set")
            found[id_] = _task(id_, path, table, {**known, **found})
    return found


def _task(id_: str, path: Path, table: Any, known: Mapping[str, Task]) -> Task:
    where = f"{path.name}: [{id_}]"
    given = dict(as_table(where, table))
    kind = str(given.pop("kind", "function"))
    if kind not in KINDS:
        raise SpinupError(f"{where}: there is no kind {kind!r}{nearest(kind, KINDS)}")
    if kind == "function":
        _functions_and_mistakes(where, given, path.stem, known)
    if kind == "experiment":
        _arms(where, given)
    return filled(KINDS[kind], where, {**given, "id": id_, "set": int(path.stem[3:5])})


def _functions_and_mistakes(
    where: str, given: dict[str, Any], module: str, known: Mapping[str, Task]
) -> None:
    def place(table: dict[str, Any], key: str) -> None:
        if isinstance(table.get(key), str) and ":" not in table[key]:
            table[key] = f"{__package__}.sets.{module}:{table[key]}"

    place(given, "cases")
    place(given, "call")
    wrong: list[Wrong] = []
    if "mistakes_of" in given:
        other = known.get(str(given.pop("mistakes_of")))
        if not isinstance(other, Exercise):
            raise SpinupError(f"{where}: 'mistakes_of' should be the id of an exercise before it")
        wrong += other.wrong
    for name, table in as_table(where, given.pop("mistakes", {})).items():
        there = f"{where}: mistake {name}"
        mistake = dict(as_table(there, table))
        place(mistake, "function")
        edits = mistake.pop("edit", [])
        if "old" in mistake or "new" in mistake:
            edits = [{key: mistake.pop(key, None) for key in ("old", "new")}, *edits]
        texts = [(edit.get("old"), edit.get("new")) for edit in edits if isinstance(edit, dict)]
        whole = all(isinstance(text, str) for pair in texts for text in pair)
        if not whole or bool(texts) == ("function" in mistake):
            raise SpinupError(f"{there} should have either 'old' and 'new' or a 'function'")
        wrong.append(filled(Wrong, there, {**mistake, "name": name, "edits": tuple(texts)}))
    given["wrong"] = tuple(wrong)


def _arms(where: str, given: dict[str, Any]) -> None:
    if given.get("decide", "best") not in DECISIONS:
        raise SpinupError(f"{where}: 'decide' should be one of {', '.join(DECISIONS)}")
    compare, values = given.pop("compare", None), given.pop("arms", None)
    if not isinstance(compare, str) or not isinstance(values, list):
        raise SpinupError(f"{where} lacks 'compare', a setting, or 'arms', the list of its values")
    given["decide"] = DECISIONS[given.get("decide", "best")]
    given["arms"] = tuple(Arm(str(value), {compare: value}) for value in values)
    settings = as_table(where, given.get("settings", {}))
    given["settings"] = {key: _setting(value) for key, value in settings.items()}


def _setting(value: Any) -> Any:
    if value == "none":
        return None
    return tuple(value) if isinstance(value, list) else value


# ---------------------------------------------------------------------------------------- checking


def as_table(where: str, value: Any) -> dict[str, Any]:
    """Return a table, or raise an error if it is something else."""
    if not isinstance(value, dict):
        raise SpinupError(f"{where} should be a table, not {value!r}")
    return value


def filled(kind: type, where: str, given: Mapping[str, Any]) -> Any:
    """Return an object of a dataclass, after a look at each of its fields.

    Texts lose the white space around them, and prose and the first two hints all line breaks.
    """
    as_table(where, given)
    known = {f.name: f for f in fields(kind)}
    if unknown := [key for key in given if key not in known]:
        raise SpinupError(
            f"{where} has the unknown field {unknown[0]!r}{nearest(unknown[0], known)}"
        )
    found: dict[str, Any] = {}
    for name, field in known.items():
        if name not in given:
            if field.default is MISSING and field.default_factory is MISSING:
                raise SpinupError(f"{where} lacks the field {name!r}")
            continue
        value = given[name]
        word, fits = _TYPES.get(str(field.type), ("", lambda _: True))
        if not fits(value):
            raise SpinupError(f"{where}: {name!r} should be {word}, not {value!r}")
        if isinstance(value, str):
            value = " ".join(value.split()) if name in _PROSE else value.strip()
        if name == "hints":
            value = [*(" ".join(hint.split()) for hint in value[:2]), value[2].strip()]
        found[name] = tuple(value) if isinstance(value, list) else value
    return kind(**found)


def _table(value: Any) -> bool:
    return isinstance(value, dict)


def _texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(x, str) and x.strip() for x in values)

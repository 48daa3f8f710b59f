"""Read a JSON file that a user wrote or named, with one sentence for whatever is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spinup.utils.errors import SpinupError
from spinup.utils.reading import read_json


def read_object(path: str | Path, kind: str, content: str) -> dict[str, Any]:
    """Return the JSON object in a file; `kind` and `content` are what errors call the two."""
    try:
        found = read_json(path)
    except FileNotFoundError as error:
        raise SpinupError(f"the {kind} '{path}' does not exist") from error
    except OSError as error:
        raise SpinupError(f"the {kind} '{path}' cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise SpinupError(f"the {kind} '{path}' is not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise SpinupError(f"the {kind} '{path}' must contain one JSON object of {content}")
    return found

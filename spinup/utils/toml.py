"""Reading TOML: in the standard library from Python 3.11 on, before that in `tomli`."""

import sys
from typing import Any


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a TOML document."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(text)

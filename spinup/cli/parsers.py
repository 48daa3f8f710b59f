"""The parsers of the commands in this folder, built from `commands.toml`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from spinup.utils.argparsing import Parser, whole
from spinup.utils.toml import parse_toml


def command_table() -> dict[str, dict[str, Any]]:
    """Read the table of commands: descriptions, and arguments by their flags."""
    return parse_toml(Path(__file__).with_name("commands.toml").read_text(encoding="utf-8"))


def command_parser(name: str, choices: Mapping[str, Any] = MappingProxyType({})) -> Parser:
    """Return the parser of a command; `choices` are the values of flags that code determines."""
    row = command_table()[name]
    arguments, raw = row.pop("arguments", {}), row.pop("raw", False)
    layout = argparse.RawDescriptionHelpFormatter if raw else argparse.HelpFormatter
    parser = Parser(prog=f"spinup {name}", formatter_class=layout, **row)
    for flag, options in arguments.items():
        if "whole" in options:
            options["type"] = whole(options.pop("whole"))
        if flag in choices:
            options["choices"] = choices[flag]
        parser.add_argument(flag, **options)
    return parser

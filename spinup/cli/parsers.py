"""The parsers of commands, built from the `commands.toml` beside each."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from spinup.utils.argparsing import Parser, whole
from spinup.utils.toml import parse_toml


def command_table(beside: str = __file__) -> dict[str, dict[str, Any]]:
    """Read the table of commands in a module's folder: descriptions, and arguments by flag."""
    return parse_toml(Path(beside).with_name("commands.toml").read_text(encoding="utf-8"))


def command_parser(
    name: str, choices: Mapping[str, Any] = MappingProxyType({}), beside: str = __file__
) -> Parser:
    """Return the parser of a command; `choices` are the values of flags that code determines."""
    row = command_table(beside)[name]
    arguments, raw = row.pop("arguments", {}), row.pop("raw", False)
    layout = argparse.RawDescriptionHelpFormatter if raw else argparse.HelpFormatter
    parser = Parser(prog=f"spinup {name}", formatter_class=layout, **row)
    for flag, options in arguments.items():
        if "whole" in options:
            options["type"] = whole(options.pop("whole"))
        if options.pop("number", False):
            options["type"] = float
        if flag in choices:
            options["choices"] = choices[flag]
        parser.add_argument(flag, **options)
    return parser

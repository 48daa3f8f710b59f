"""The house stays small enough to know: `budgets.toml` has a ceiling for what is measured here."""

from pathlib import Path

import pytest

from benchmarks.reading_cost import ROOT, code_size, measure
from spinup.utils.toml import parse_toml

CEILINGS = parse_toml(Path(__file__).with_name("budgets.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def measured():
    return measure(ROOT)


@pytest.mark.parametrize("topic", CEILINGS)
def test_nothing_is_larger_than_its_ceiling(measured, topic):
    over = [
        f"{topic}.{name} is {measured[topic][name]}, and its ceiling in tests/budgets.toml is "
        f"{most}: find what can go, or say in budgets.toml why the ceiling must rise"
        for name, most in CEILINGS[topic].items()
        if measured[topic][name] > most
    ]
    assert over == []


@pytest.mark.parametrize("topic", CEILINGS)
def test_a_ceiling_is_close_to_what_it_limits(measured, topic):
    """Otherwise, nobody would notice for a long time that something grows."""
    for name, most in CEILINGS[topic].items():
        assert measured[topic][name] >= 0.95 * most - 1, f"lower {topic}.{name} in budgets.toml"


def test_code_lines_are_counted_without_comments_and_docstrings(tmp_path):
    (tmp_path / "a.py").write_text(
        '"""A module."""\n\n# a comment\nimport os  # and another\n\n\ndef f():\n'
        '    """Do it."""\n    return (\n        os\n    )\n\n\nX = """\ntext\n"""\n'
    )
    assert code_size(tmp_path) == 1 + 1 + 3 + 3

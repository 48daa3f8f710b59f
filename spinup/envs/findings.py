"""What the checks of environments find, in the words of `findings.toml`."""

from __future__ import annotations

import functools
from operator import attrgetter
from pathlib import Path
from typing import Any

from spinup.utils import findings
from spinup.utils.toml import parse_toml

__all__ = ["Finding", "finding"]


class Finding(findings.Finding):
    """Something about an environment that its author should know.

    `sentence` says what was seen, `why` how it affects learning, and `advice` what to change.
    `kind`, `what`, `effect` and `change` are other names of `id` and of these three.
    """

    kind = property(attrgetter("id"))
    what = property(attrgetter("sentence"))
    effect = property(attrgetter("why"))
    change = property(attrgetter("advice"))

    @property
    def serious(self) -> bool:
        """Whether it breaks learning or stops a run."""
        return self.level == "error"

    def __str__(self) -> str:
        label = "problem" if self.serious else "warning"
        return f"{label}: {self.sentence}. {self.why}. {self.advice}."


@functools.cache
def _texts() -> dict[str, dict[str, Any]]:
    return parse_toml(Path(__file__).with_name("findings.toml").read_text(encoding="utf-8"))


def finding(name: str, level: str | None = None, /, **values: Any) -> Finding:
    """Return the finding that `findings.toml` has under `name`; `values` fill its braces."""
    text = {key: text.format(**values) for key, text in _texts()[name].items()}
    return Finding(**{**text, "level": level or text["level"]})

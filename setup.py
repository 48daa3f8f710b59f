"""The parts of the packaging that pyproject.toml cannot express: the README for PyPI, the manual.

README.md links to files beside it, which do not exist on PyPI. There, its links point into the
repository that `project.urls` names as `Source`; as long as none is named, only their text is left.

`make wheel` builds the documentation site and names its folder in SPINUP_MANUAL; the wheel then
contains it as `spinup/manual`, where `spinup docs` finds it.
"""

import os
import re
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent


def for_pypi(text: str, source: str | None) -> str:
    """Return a Markdown text without relative links; `source` is the address of the repository."""

    def replace(match: re.Match[str]) -> str:
        image, label, target = match.groups()
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        if source is None:
            return "" if image else label
        place = "raw" if image else "blob"
        return f"{image}[{label}]({source.rstrip('/')}/{place}/main/{target})"

    return re.sub(r"(!?)\[([^\[\]]*)\]\(([^()\s]+)\)", replace, text)


def source_url() -> str | None:
    """Return the address under `[project.urls]` in pyproject.toml, if there is one."""
    found = re.search(r'^Source = "([^"]+)"$', (HERE / "pyproject.toml").read_text("utf-8"), re.M)
    return found[1] if found else None


class BuildWithManual(build_py):
    """Copies the package, and the documentation site where one is named."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        manual = Path(self.build_lib) / "spinup/manual"
        shutil.rmtree(manual, ignore_errors=True)  # that of an earlier build
        site = os.environ.get("SPINUP_MANUAL")
        if site:
            shutil.copytree(
                site, manual, ignore=shutil.ignore_patterns(".buildinfo", "objects.inv")
            )


if __name__ == "__main__":
    setup(
        cmdclass={"build_py": BuildWithManual},
        long_description=for_pypi((HERE / "README.md").read_text("utf-8"), source_url()),
        long_description_content_type="text/markdown",
    )

"""`spinup docs [PAGE]`: open the documentation, which works without a network.

A wheel contains the site in `spinup/manual`. In a clone of the repository, `make docs` builds it.
"""

from __future__ import annotations

import webbrowser
from collections.abc import Sequence
from pathlib import Path

from spinup.cli.parsers import command_parser
from spinup.utils.errors import SpinupError, nearest

PACKAGE = Path(__file__).resolve().parents[1]


def site() -> Path:
    """Return the folder of the HTML files; raise SpinupError if there is none."""
    if (PACKAGE / "manual/index.html").is_file():
        return PACKAGE / "manual"
    clone = PACKAGE.parent
    if (clone / "build/docs/html/index.html").is_file():
        return clone / "build/docs/html"
    if (clone / "docs/build.py").is_file():
        raise SpinupError(f"the documentation has not been built yet: run 'make docs' in {clone}")
    raise SpinupError(
        "this installation has no copy of the documentation: install a wheel that 'make wheel' "
        "has built, or run 'make docs' in a clone of the repository"
    )


def pages(folder: Path) -> list[str]:
    """Return the names of all pages, such as `algorithms/ppo`."""
    found = (file.relative_to(folder).with_suffix("") for file in folder.rglob("*.html"))
    return sorted(name.as_posix() for name in found if name.parts[0] != "source")


def find(folder: Path, page: str) -> Path:
    """Return the file of a page; raise SpinupError with the nearest name if there is none.

    The last part of a name is enough (`ppo`, `rl_intro3`); of several, the shortest name is meant,
    but a page of results only if it is named in full.
    """
    known = pages(folder)
    wanted = page.strip("/").removesuffix(".html").removesuffix(".md").lower()
    ends = [name for name in known if f"/{name.lower()}".endswith(f"/{wanted}")]
    if wanted and ends:
        chosen = min(ends, key=lambda name: (name.startswith("results/"), len(name)))
        return folder / f"{chosen}.html"
    words = {name.rpartition("/")[2] for name in known}
    raise SpinupError(f"the documentation has no page '{page}'{nearest(page, [*known, *words])}")


def main(argv: Sequence[str] | None = None) -> int:
    """Open a page in a browser, or print where it is."""
    args = command_parser("docs").parse_args(argv)
    file = find(site(), args.page)
    print(file)
    if not args.path and not webbrowser.open(file.as_uri()):
        print("no browser could be started; open this file in one")
    return 0

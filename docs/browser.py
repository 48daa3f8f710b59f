"""Find a browser for the tests of the site, or unpack Debian's: `python docs/browser.py`.

The packages are downloaded with apt-get and unpacked with dpkg into .browser/, so neither root nor
an installation is needed. `SPINUP_BROWSER=/path/to/chromium` names another one. Anything that
speaks Chromium's protocol will do.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / ".browser"
UNPACKED = FOLDER / "usr/lib/chromium/chromium-headless-shell"
PACKAGE = "chromium-headless-shell"
INSTALLED = (PACKAGE, "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find() -> str | None:
    """Return the path of a browser, None if there is none."""
    named = os.environ.get("SPINUP_BROWSER")
    if named:
        return named
    if UNPACKED.exists():
        return str(UNPACKED)
    return next(filter(None, map(shutil.which, INSTALLED)), None)


def environment(browser: str) -> dict[str, str]:
    """Return the environment variables that a browser needs: where its own libraries are."""
    found = dict(os.environ)
    if Path(browser) == UNPACKED:
        folders = sorted({str(path.parent) for path in FOLDER.rglob("*.so*")})
        found["LD_LIBRARY_PATH"] = ":".join([*folders, found.get("LD_LIBRARY_PATH", "")])
    return found


def unpack() -> None:
    """Download Debian's headless Chromium and the libraries missing here, and unpack them."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise OSError("this system has no apt-get and dpkg to download one with")
    if os.geteuid() == 0:  # a fresh container has no lists of packages
        subprocess.run(["apt-get", "update", "-qq"], check=True)
    plan = ["apt-get", "install", "--simulate", "--no-install-recommends", PACKAGE]
    lines = subprocess.run(plan, check=True, capture_output=True, text=True).stdout.splitlines()
    packages = [line.split()[1] for line in lines if line.startswith("Inst ")]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["apt-get", "download", "-q", *packages], check=True, cwd=folder)
        new = Path(tempfile.mkdtemp(dir=FOLDER.parent, prefix=".browser-"))
        try:
            for package in sorted(Path(folder).glob("*.deb")):
                subprocess.run(["dpkg", "-x", str(package), str(new)], check=True)
            shutil.rmtree(FOLDER, ignore_errors=True)  # a broken one
            new.rename(FOLDER)
        finally:
            shutil.rmtree(new, ignore_errors=True)


def main() -> int:
    if find() is None:
        try:
            unpack()
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"no browser: {error}", file=sys.stderr)
            print(
                "install Chromium, or name a browser with SPINUP_BROWSER=/path/to/it",
                file=sys.stderr,
            )
            return 1
    browser = find()
    assert browser is not None
    shown = subprocess.run(
        [browser, "--version"], env=environment(browser), capture_output=True, text=True
    )
    print(f"{browser}: {(shown.stdout or shown.stderr).strip()}")
    return shown.returncode


if __name__ == "__main__":
    sys.exit(main())

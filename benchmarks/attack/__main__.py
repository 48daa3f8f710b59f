"""Run the attacks and record what happened; the exit code is 1 if a promise was broken."""

import argparse
import datetime
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.attack import page
from benchmarks.attack.common import Tally

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "attack.json"
MODULES = ("power_loss", "full_disk", "bit_flips", "poison", "processes")


def attacks():
    """Return every attack: name -> function."""
    found = {}
    for module in MODULES:
        found.update(importlib.import_module(f"benchmarks.attack.{module}").ATTACKS)
    return found


def commit():
    """Return the commit that is attacked, with a plus sign if its code was changed since."""

    def git(*words):
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--", "spinup", "benchmarks/attack")
    return (git("rev-parse", "--short=12", "HEAD") or "unknown") + ("+" if changed else "")


def main(argv=None):
    # Before a numerical library is imported: trials are forked, which threads do not survive.
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", MPLBACKEND="Agg", NO_COLOR="1")
    known = attacks()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attack", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=known, default=list(known), metavar="ATTACK")
    parser.add_argument("--save", action="store_true", help=f"record the result in {RESULTS.name}")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the random attempts")
    args = parser.parse_args(argv)
    entries = json.loads(RESULTS.read_text())["attacks"] if RESULTS.is_file() else []
    at, broken = commit(), 0
    for name in args.only:
        start = time.monotonic()
        tally = Tally(name, args.scale)
        with tempfile.TemporaryDirectory(prefix="attack-") as folder:
            known[name](tally, Path(folder))
        broken += tally.broken
        print(
            f"{name}: {tally.attempts} attempts, {tally.held} held, {tally.said} said, "
            f"{tally.broken} broken ({time.monotonic() - start:.0f} s)",
            flush=True,
        )
        entry = {
            **tally.entry(),
            "command": f"python -m benchmarks.attack --only {name} --scale {args.scale:g}",
            "commit": at,
            "date": datetime.date.today().isoformat(),
        }
        entries = sorted(
            [e for e in entries if e["name"] != name] + [entry],
            key=lambda e: list(known).index(e["name"]) if e["name"] in known else len(known),
        )
        if args.save:  # after every attack: a long series may be stopped
            RESULTS.write_text(json.dumps({"attacks": entries}, indent=1) + "\n")
            page.write(entries)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())

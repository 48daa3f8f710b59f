"""Show `spinup tune`: does it find something better than the default within an hour on two cores?

    python benchmarks/tune.py                       # both studies, about an hour each
    python benchmarks/tune.py ppo                   # one of them
    python benchmarks/tune.py ppo --dry_run         # what it would cost
    python benchmarks/tune.py --small               # minutes: does it work from end to end?
    python benchmarks/tune.py --table               # run nothing: the table of docs/tune.md

The same command again continues a study that was stopped. Each study ends with ten fresh seeds of
the best two and the default. Its report, with every test score, the command and the wall time, is
written to `benchmarks/results/tune/`.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "tune"

# algorithm, environment, flags of the study (its space is the one that is shipped)
STUDIES = [
    ("ppo", "Hopper-v5", "--steps 2000 --epochs 150 --trials 27 --seeds 3"),
    (
        "acer",
        "Pendulum-v1",
        "--steps 4000 --epochs 25 --max_ep_len 200 --num_envs 4 --num_test_episodes 3 --trials 27 "
        "--seeds 3",
    ),
]
SMALL = "--steps 400 --epochs 4 --trials 4 --eta 2 --seeds 1 --test_seeds 2 --finalists 1"


def command(algo, env, flags, args):
    """The words after `spinup` that run a study, without its folder."""
    flags = SMALL if args.small else flags
    words = ["tune", algo, "--env", env, *flags.split(), "--num_workers", str(args.num_workers)]
    return [*words, *(["--dry_run"] * args.dry_run)]


def table():
    """Return the lines of a table of the kept reports: the winner and the default of each."""
    lines = ["| | configuration | tuning score | test score, ten fresh seeds | wall time |"]
    lines.append("|---" * 5 + "|")
    for path in sorted(RESULTS.glob("*.json")):
        report = json.loads(path.read_text())
        name = f"{report['algo'].removesuffix('_pytorch').upper()}, {report['env']}"
        minutes = f"{report['wall_seconds'] / 60:.0f} minutes"
        shown = {report["winner"]: "the winner", "default": "the default"}
        for which, words in shown.items():
            found = report["configurations"][which]
            low, high = found["test"]["iqm_ci"]
            test = f"{found['test']['iqm']:,.0f} [{low:,.0f}, {high:,.0f}]"
            lines.append(f"| {name} | {words} | {found['tuning']:,.0f} | {test} | {minutes} |")
            name = minutes = ""
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("algo", nargs="?", choices=[algo for algo, _, _ in STUDIES])
    parser.add_argument("--num_workers", type=int, default=2)
    parser.add_argument("--keep", type=Path, default=Path("data"), help="folder for the studies")
    parser.add_argument("--small", action="store_true", help="a few short runs, kept nowhere")
    parser.add_argument("--dry_run", action="store_true", help="only estimate the cost")
    parser.add_argument("--table", action="store_true", help="only print what is kept")
    args = parser.parse_args()
    if args.table:
        print("\n".join(table()))
        return
    for algo, env, flags in STUDIES:
        if args.algo not in (None, algo):
            continue
        words = command(algo, env, flags, args)
        print("spinup " + " ".join(words), flush=True)
        started = time.monotonic()
        place = ["--data_dir", str(args.keep)]
        subprocess.run([sys.executable, "-m", "spinup.run", *words, *place], check=True)
        if args.small or args.dry_run:
            continue
        report = json.loads((args.keep / f"tune_{algo}_{env}" / "report.json").read_text())
        report["command"] = "spinup " + " ".join(words)
        # of this launch only: less than the whole, if an earlier one was stopped
        report["wall_seconds"] = round(time.monotonic() - started, 1)
        report["cores"] = os.cpu_count()
        report["python_version"] = platform.python_version()
        RESULTS.mkdir(parents=True, exist_ok=True)
        path = RESULTS / f"{algo}-{env}.json"
        path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        print(f"wrote {path}", flush=True)


if __name__ == "__main__":
    main()

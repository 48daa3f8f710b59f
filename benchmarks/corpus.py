"""The healthy corpus: what does `spinup doctor` say about runs in which nothing is wrong?

    python benchmarks/corpus.py --runs data/corpus                        # train, examine, keep
    python benchmarks/corpus.py --runs data/corpus --only 'CartPole|Pendulum' --workers 2
    python benchmarks/corpus.py --runs data/corpus --only '^sac' --device cuda
    python benchmarks/corpus.py --runs data/corpus --limit-seconds 3600   # stop in an hour
    python benchmarks/corpus.py --runs data/corpus --examine              # train nothing
    python benchmarks/corpus.py --tables     # apply the rules on tables again to what is kept

Trains the presets of `benchmarks/learn.py`, 30 rows with three seeds each, at full length, the
shortest first, each in a process of its own with one thread. Runs that are finished are kept, and
runs that were stopped are resumed. Then examines every finished run with all tiers of rules and
keeps its tables, its settings and the findings in `results/corpus/<algorithm>.zip`, with numbers
rounded to seven digits. Errors must be 0, and at most 5 % of the runs may have warnings; the exit
status says so.

`summary.json` is about all runs that are kept, wherever they were trained: their `config.json` has
the versions and the device. It also names the runs that are missing. Checkpoints are not kept, so
`--tables` leaves the findings of other rules as they were. `notes.json` says by hand which of those
rules were changed since, and how that was checked.
"""

import argparse
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import learn

RESULTS = Path(__file__).parent / "results" / "corpus"
MOST_WARNINGS = 0.05  # of the runs
PLAYED = 10  # episodes for the rules that play
KEPT = ("config.json", "progress.txt", "diagnostics.txt")
ROWS = [gate for gate in learn.GATES if not gate[0].endswith("_tf1")]
ROWS += [gate for gate in learn.ON_DEMAND if gate[:2] == ("her", "FetchReach-v4")]


def all_runs():
    """Return (name, algorithm, environment, steps, seed) of every run, the shortest first."""
    found = []
    for algo, env, steps, *_ in ROWS:
        name = learn.file_name(algo, env)[:-5]
        result = learn.RESULTS / f"{name}.json"
        seconds = 1e9
        if result.exists():
            seconds = sum(run["train_seconds"] for run in json.loads(result.read_text())["runs"])
        found += [(seconds, (f"{name}-s{seed}", algo, env, steps, seed)) for seed in learn.SEEDS]
    return [run for _, run in sorted(found)]


def train(run, folder, deadline, device):
    """Train one run in a process of its own until it is finished or the time is up."""
    name, algo, env, steps, seed = run
    if (folder / name / ".finished").exists() or time.monotonic() > deadline:
        return
    execution = {"device": device, "keep": str(folder)}
    command = [sys.executable, learn.__file__, "--one", algo, env, str(steps), str(seed)]
    log = folder / f"{name}.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, "{}", json.dumps(execution)],
            stdout=output,
            stderr=output,
            env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
        )
        try:
            process.wait(max(1.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)  # it saves its state, and can be resumed
            process.wait()
    done = (folder / name / ".finished").exists()
    print(f"{name}: {'finished' if done else f'not finished, see {log}'}", flush=True)


def unpack(place):
    """Write the kept runs into a folder, as run directories."""
    for archive in RESULTS.glob("*.zip"):
        zipfile.ZipFile(archive).extractall(place)


def pack(place):
    """Keep all runs in a folder, in one archive per algorithm."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    for algo in {folder.name.partition("-")[0] for folder in place.iterdir()}:
        with zipfile.ZipFile(RESULTS / f"{algo}.zip", "w") as archive:
            for path in sorted(place.glob(f"{algo}-*/*")):
                entry = zipfile.ZipInfo(path.relative_to(place).as_posix())
                archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)


def examine(run, folder, place):
    """Examine a finished run, and keep its small files and the findings in `place`."""
    from spinup_lab.doctor.examination import examination

    name = run[0]
    found = examination(folder / name, play=PLAYED)
    kept = place / name
    kept.mkdir(exist_ok=True)
    for file in KEPT:
        if (folder / name / file).exists():
            (kept / file).write_text(_shortened(folder / name / file))
    keep_findings(kept, [finding.as_dict() for finding in found.findings])
    if found.failed:
        raise RuntimeError(f"rules failed on {name}: {found.failed}")


def keep_findings(kept, findings):
    (kept / "findings.json").write_text(json.dumps(findings, indent=1) + "\n")


def examine_tables(kept):
    """Replace what the rules on tables found in a kept run; checkpoints are not there any more."""
    from spinup_lab.doctor.examination import apply
    from spinup_lab.doctor.record import Record
    from spinup_lab.doctor.rules import RULES

    found = apply(Record(kept), [rule for rule in RULES.values() if rule.tier == 1])
    old = json.loads((kept / "findings.json").read_text())
    others = [finding for finding in old if RULES[finding["id"]].tier > 1]
    keep_findings(kept, [*others, *(finding.as_dict() for finding in found.findings)])
    if found.failed:
        raise RuntimeError(f"rules failed on {kept.name}: {found.failed}")


def entry_of(kept):
    """Return the summary's entry about a kept run."""
    findings = json.loads((kept / "findings.json").read_text())
    config = json.loads((kept / "config.json").read_text())
    levels = [finding["level"] for finding in findings]
    return {
        "run": kept.name,
        "rows": len((kept / "progress.txt").read_text().splitlines()) - 1,
        **{level: levels.count(level) for level in ("error", "warning", "hint")},
        "findings": [f"{finding['id']} {finding['level']}" for finding in findings],
        "on": f"Python {config.get('python_version')}, torch {config.get('torch_version')}, "
        f"{config.get('device')}",
    }


def _shortened(path):
    """Return a file without this machine's folders and with numbers of seven digits."""
    if path.name == "config.json":
        config = json.loads(path.read_text())
        config["logger_kwargs"] = {"output_dir": path.parent.name}
        config.pop("resume_with", None)
        return json.dumps(config, indent=1, sort_keys=True) + "\n"
    header, *rows = path.read_text().splitlines()
    short = ["\t".join(_rounded(cell) for cell in row.split("\t")) for row in rows]
    return "\n".join([header, *short]) + "\n"


def _rounded(cell):
    try:
        number = float(cell)
    except ValueError:
        return cell
    return cell if not math.isfinite(number) or number.is_integer() else f"{number:.7g}"


def summarize(entries, missing):
    """Write the summary; return whether the corpus is as quiet as it must be."""
    notes = RESULTS / "notes.json"
    loud = [entry["run"] for entry in entries if entry["warning"] or entry["error"]]
    ills = [entry["run"] for entry in entries if entry["error"]]
    quiet = not ills and len(loud) <= MOST_WARNINGS * max(1, len(entries))
    summary = {
        "runs": len(entries),
        "wanted": len(ROWS) * len(learn.SEEDS),
        "runs_with_errors": ills,
        "runs_with_warnings": loud,
        "share_with_warnings": round(len(loud) / max(1, len(entries)), 4),
        "quiet_enough": quiet,
        "missing": missing,
        "notes": json.loads(notes.read_text()) if notes.exists() else [],
        "command": "python benchmarks/corpus.py --runs data/corpus",
        "entries": entries,
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    print(f"{'run':32} {'rows':>5} {'errors':>7} {'warnings':>9} {'hints':>6}")
    for entry in entries:
        numbers = f"{entry['rows']:5} {entry['error']:7} {entry['warning']:9} {entry['hint']:6}"
        print(f"{entry['run']:32} {numbers}  {', '.join(entry['findings'])}")
    print(f"{len(entries)} of {summary['wanted']} runs: {len(ills)} with errors, {len(loud)} loud")
    return quiet


def main():
    """Train, examine and summarize; exit with 1 if the doctor is not quiet enough."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, help="folder of the run directories")
    parser.add_argument("--workers", type=int, default=1, help="runs trained at the same time")
    parser.add_argument("--only", default="", help="regular expression for the names of the runs")
    parser.add_argument("--device", default="cpu", help="'cuda' trains on a GPU")
    parser.add_argument("--limit-seconds", type=float, default=float("inf"))
    parser.add_argument("--examine", action="store_true", help="examine only; train nothing")
    parser.add_argument("--tables", action="store_true", help="rules on tables, to what is kept")
    args = parser.parse_args()
    if args.runs is None and not args.tables:
        parser.error("pass --runs FOLDER, or --tables")
    deadline = time.monotonic() + min(args.limit_seconds, 1e9)
    runs = all_runs()
    chosen = [run for run in runs if args.runs is not None and re.search(args.only, run[0])]
    if chosen and not args.examine:
        args.runs.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(args.workers) as pool:
            list(pool.map(lambda run: train(run, args.runs, deadline, args.device), chosen))
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        unpack(place)
        for run in chosen:
            if (args.runs / run[0] / ".finished").exists():
                examine(run, args.runs, place)
        kept = [place / run[0] for run in runs if (place / run[0] / "findings.json").exists()]
        for folder in kept if args.tables else ():
            examine_tables(folder)
        pack(place)
        missing = [run[0] for run in runs if place / run[0] not in kept]
        return 0 if summarize([entry_of(folder) for folder in kept], missing) else 1


if __name__ == "__main__":
    sys.exit(main())

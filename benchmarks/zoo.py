"""The bug zoo's measure: who notices each mutant, and whether the right part is named.

    python benchmarks/zoo.py                              # whatever has not been measured yet
    python benchmarks/zoo.py --what tests --only gae-     # some mutants, one of the three measures
    python benchmarks/zoo.py --what doctor --again        # measure again; training runs are kept
    python benchmarks/zoo.py --columns pg-sign            # a mutant's log beside the healthy one
    python benchmarks/zoo.py --table                      # print the table, write docs/debug/zoo.md

Three measures, each in processes of its own that import the faulty module instead of ours:

* tests: the test files nearest to the change run until one fails, then wider ones. A failure counts
  if the same test passes without the fault.
* doctor: a short training run is examined by `spinup doctor`, with a few episodes of the saved
  policy. A warning or an error counts unless the same run without the fault has it too.
* probe: `spinup probe` runs the algorithm through the probe environments. A verdict counts unless
  the algorithm without the fault gets the same.

The results are in `benchmarks/results/zoo.json`, one entry per mutant, saved after each. Training
runs are kept in `data/zoo`.
"""

import argparse
import collections
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from spinup.exercises import zoo  # noqa: E402
from spinup_lab.bugs.__main__ import change  # noqa: E402
from spinup_lab.bugs.applying import VARIABLE, child_environment  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "zoo.json"
PAGE = ROOT / "docs" / "debug" / "zoo.md"
RUNS = ROOT / "data" / "zoo"
MEASURES = ("tests", "doctor", "probe")
PLAY = 5  # episodes of the saved policy that doctor plays
LIMITS = {"tests": 1500, "doctor": 600, "probe": 600}  # seconds

TOPICS = {
    "returns": "Returns, advantages and ends of episodes",
    "policy_gradients": "Policy gradients and value functions",
    "ppo": "PPO",
    "trust_region": "TRPO",
    "off_policy": "Critics, targets and deterministic policies",
    "sac": "SAC",
    "dqn": "DQN",
    "acer_her": "ACER and HER",
    "loop_and_replay": "The loop and the replay buffer",
    "saving": "Normalizers, logs and saved policies",
}

# ---- training runs: ten to twenty seconds each on one core ---------------------------------------

SMALL = {"hidden_sizes": [64, 64]}
ON_POLICY = {"steps_per_epoch": 1000, "epochs": 30, "num_test_episodes": 2}
FIT = {**ON_POLICY, "train_v_iters": 40}
OFF_POLICY = {
    "steps_per_epoch": 400,
    "epochs": 20,
    "ac_kwargs": SMALL,
    "start_steps": 400,
    "update_after": 400,
    "num_test_episodes": 2,
}
RECIPES = {
    "reinforce": ("CartPole-v1", {**ON_POLICY, "pi_lr": 1e-2}),
    "vpg": ("CartPole-v1", {**FIT, "pi_lr": 1e-2}),
    "ppo": ("CartPole-v1", {**FIT, "train_pi_iters": 40, "pi_lr": 1e-3}),
    "trpo": ("CartPole-v1", FIT),
    "ddpg": ("Pendulum-v1", OFF_POLICY),
    "td3": ("Pendulum-v1", OFF_POLICY),
    "sac": ("Pendulum-v1", OFF_POLICY),
    "dqn": (
        "CartPole-v1",
        {
            "steps_per_epoch": 1000,
            "epochs": 15,
            "ac_kwargs": SMALL,
            "q_lr": 1e-3,
            "anneal_lr": False,
            "updates_per_step": 0.5,
            "eps_steps": 5000,
            "update_after": 500,
            "start_steps": 500,
            "num_test_episodes": 2,
        },
    ),
    "acer": ("CartPole-v1", {"steps_per_epoch": 1000, "epochs": 20, "num_test_episodes": 2}),
    "her": (
        "spinup/BitFlip-v0",
        {"steps_per_epoch": 500, "epochs": 20, "num_test_episodes": 10, "update_after": 500},
    ),
}


def recipe(mutant, seed=0):
    """The training run that shows a mutant: algorithm, environment and arguments."""
    algo = mutant.algorithms[0]
    env, arguments = RECIPES[algo]
    settings = dict(getattr(mutant, "settings", {}))
    nested = {**arguments.get("ac_kwargs", {}), **settings.get("ac_kwargs", {})}
    arguments = {**arguments, **settings, **({"ac_kwargs": nested} if nested else {})}
    env = mutant.env or env
    if env.startswith("spinup/Probe"):
        arguments = {**arguments, "steps_per_epoch": 200}
    return {"algo": algo, "env": env, "arguments": {**arguments, "seed": seed}}


def train(made, folder):
    """Train in this process."""
    from spinup import registry

    function = registry.load(made["algo"], "pytorch")
    logger_kwargs = {"output_dir": str(folder), "exp_name": folder.name}
    function(made["env"], logger_kwargs=logger_kwargs, overwrite=True, **made["arguments"])


def rows(folder):
    """Return the number of rows in a run's log."""
    return len((folder / "progress.txt").read_text().splitlines()) - 1


def examine(folders, play):
    """Return doctor's findings as plain data; of several runs, it compares the seeds as well."""
    from spinup_lab.doctor.examination import examinations

    names = ("id", "level", "part", "sentence")
    return [
        {name: getattr(finding, name) for name in names}
        for examination in examinations(folders, play)
        for finding in examination.findings
    ]


def child(task):
    """Train if the run is not there, and examine it: what a process of its own does."""
    folders, answer = [Path(folder) for folder in task["folders"]], {}
    for folder, made in zip(folders, task["recipes"], strict=True):
        if not (folder / "zoo.json").exists():
            shutil.rmtree(folder, ignore_errors=True)
            stopped = {}
            try:
                train(made, folder)
            except OSError:
                raise
            except Exception as error:  # a fault may well stop a run; doctor sees what is there
                said = without_folders(f"{type(error).__name__}: {error}")
                stopped = {"stopped": said[:300]}
            if not stopped and rows(folder) < made["arguments"]["epochs"]:
                raise SystemExit("a signal interrupted the run")
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "zoo.json").write_text(json.dumps({**made, **stopped}, indent=1))
        if stopped := json.loads((folder / "zoo.json").read_text()).get("stopped"):
            answer["stopped"] = stopped
    if answer and not all((folder / "progress.txt").exists() for folder in folders):
        return {**answer, "findings": []}  # it stopped before its first row
    return {**answer, "findings": examine(folders, task["play"])}


def in_child(task, name, limit):
    """Run `child` in a new process, with a mutant or, if `name` is None, without."""
    command = [sys.executable, __file__, "--child", json.dumps(task)]
    done = run(command, name, limit)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if lines:
        return json.loads(lines[-1][len("RESULT ") :])
    last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
    return {"error": last[0][:300]}


def run(command, name, limit):
    """Run a command in the repository, with one thread, and with a mutant if it is named."""
    environ = {k: v for k, v in os.environ.items() if k != VARIABLE}
    environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), environ.get("PYTHONPATH", "")])
    if name is not None:
        environ = child_environment(name, environ)
    try:
        return subprocess.run(
            command, env=environ, cwd=ROOT, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired as late:
        text = (late.stdout or b"").decode("utf-8", "replace")
        return subprocess.CompletedProcess(command, 124, text, f"ran past {limit} s")


# ---- tests ---------------------------------------------------------------------------------------

# After the files nearest to the change, what checks whole runs.
WIDER = (
    "tests/algos/test_algorithms.py",
    "tests/algos/pytorch/test_probe_learning.py",
    "tests/runs/test_determinism.py",
    "tests/policies/test_saved.py",
    "tests/runs/test_run_directory.py",
)
NEAR = {
    "spinup.algos.common.rollout": ["tests/algos/pytorch/test_ppo.py"],
    "spinup.algos.common.exploration": ["tests/algos/pytorch/test_exploration.py"],
    "spinup.algos.pytorch.common.targets": ["tests/algos/pytorch/test_offpolicy.py"],
    "spinup.algos.pytorch.common.layers": [
        "tests/algos/pytorch/test_nets.py",
        "tests/algos/test_algorithms.py",
    ],
    "spinup.algos.pytorch.common.run": ["tests/algos/test_algorithms.py"],
    "spinup.runs.run": ["tests/algos/test_algorithms.py"],
}


def test_files(mutant):
    """Two lists of test files that could notice a mutant: those nearest to it, and wider ones."""
    files = []
    for module in mutant.modules:
        parts = module.split(".")[1:]
        files += NEAR.get(module, [])
        folder = "algos/pytorch" if parts[:2] == ["algos", "pytorch"] else "/".join(parts[:-1])
        files.append(f"tests/{folder}/test_{parts[-1]}.py")
        if parts[:2] == ["algos", "pytorch"]:
            files.append(f"tests/algos/pytorch/test_{parts[2]}.py")
    first = f"tests/algos/pytorch/test_{mutant.algorithms[0]}.py"
    more = [f"tests/algos/pytorch/test_{algo}.py" for algo in mutant.algorithms[1:3]]
    if mutant.algorithms[0] in ("ddpg", "td3", "sac", "dqn"):
        more.append("tests/algos/pytorch/test_offpolicy.py")
    near = [file for file in dict.fromkeys([*files, first]) if (ROOT / file).exists()]
    return near, [file for file in dict.fromkeys([*more, *WIDER]) if file not in near]


def pytest(files, name, *words):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words, *files]
    return run(command, name, LIMITS["tests"])


def failures(done):
    return re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.M)


def measure_tests(mutant, options):
    near, wider = test_files(mutant)
    for files in (near, wider):
        done = pytest(files, mutant.id, "-x")
        if found := failures(done):
            return {"noticed": True, "by": found[0]}
        if done.returncode != 0:
            return {"error": (done.stdout + done.stderr)[-300:]}
    return {"noticed": False, "files": [*near, *wider]}


def verify_tests():
    """Run all tests that noticed a mutant without it; one that fails then has noticed nothing."""
    data = results()
    entries = [found["tests"] for found in data["mutants"].values() if noticed(found.get("tests"))]
    names = sorted({entry["by"] for entry in entries})
    files = {name: ROOT / name.split("::")[0] for name in names}
    gone = [n for n, file in files.items() if re.split(r"[:\[]+", n)[1] not in file.read_text()]
    done = pytest([name for name in names if name not in gone], None)
    if done.returncode not in (0, 1):
        raise SystemExit(f"the tests could not be verified: {(done.stdout + done.stderr)[-300:]}")
    broken = [*failures(done), *gone]  # a test that was renamed: measure again
    for entry in entries:
        if entry["by"] in broken:
            entry["error"] = f"{entry['by']} also fails without the fault"
    save(data)
    print(f"{len(names)} tests noticed something; {len(broken)} of them also fail without a fault")


# ---- doctor and probe ----------------------------------------------------------------------------


def digest(thing):
    return hashlib.sha256(json.dumps(thing, sort_keys=True).encode()).hexdigest()[:12]


_LOCKS, _LOCK = {}, threading.Lock()
TWICE = ("seed-unused", "env-unseeded")  # only a second run with the same seed shows these


def lock_of(path):
    with _LOCK:
        return _LOCKS.setdefault(path, threading.Lock())


def folder_of(made, name):
    """Where a training run is kept: of a mutant or, if `name` is not one, of healthy code."""
    edits = [vars(edit) for edit in zoo.find(name).edits] if name in zoo.load() else []
    label = name if edits else "healthy"
    return RUNS / f"{label}-{made['algo']}-{digest([made, edits])}"


def examined(made, name, options, runs=1):
    """Train, with a mutant or without, and return what doctor finds.

    The run and the findings are kept: until doctor's own code changes, nothing is repeated.
    """
    recipes = [{**made, **({"again": n} if n else {})} for n in range(runs)]
    folders = [folder_of(each, name) for each in recipes]
    rules = sorted((ROOT / "spinup" / "doctor").glob("*.py"))
    version = digest([path.read_text(encoding="utf-8") for path in rules])
    kept = folders[0] / f"findings-{runs}-{version}.json"
    with lock_of(kept):  # two mutants may compare themselves with the same healthy run
        for folder in folders if options.retrain else ():
            if folder.exists() and folder.stat().st_mtime < options.started:
                shutil.rmtree(folder)
        if kept.exists():
            return json.loads(kept.read_text())
        task = {"recipes": recipes, "folders": list(map(str, folders)), "play": PLAY}
        answer = in_child(task, name if name in zoo.load() else None, LIMITS["doctor"])
        if "findings" in answer:
            kept.write_text(json.dumps(answer, indent=1))
        return answer


def measure_doctor(mutant, options):
    made, runs = recipe(mutant), 2 if mutant.id in TWICE else 1
    healthy_env = {} if hasattr(mutant, "edits") else {"env": RECIPES[made["algo"]][0]}
    healthy = examined({**made, **healthy_env}, None, options, runs)
    found = examined(made, mutant.id, options, runs)
    for answer in (healthy, found):
        if "error" in answer:
            return answer
    usual = {finding["id"] for finding in healthy["findings"]}
    new = [finding for finding in found["findings"] if finding["id"] not in usual]
    serious = [finding for finding in new if finding["level"] in ("error", "warning")]
    entry = {"noticed": bool(serious), "recipe": made, "healthy": sorted(usual)}
    if serious:
        entry |= {"part": serious[0]["part"], "by": [finding["id"] for finding in serious]}
        entry["sentence"] = serious[0]["sentence"]
    if hints := [finding["id"] for finding in new if finding not in serious]:
        entry["hints"] = hints
    if "stopped" in found:  # the run ended by itself, with a sentence
        entry["stopped"] = found["stopped"]
    return entry


def probed(mutant, name):
    """Return what `spinup probe` answers about a mutant's algorithm, with or without the fault."""
    words = [f"--set={key}={value!r}" for key, value in mutant.settings.items()]
    command = [sys.executable, "-m", "spinup.run", "probe", mutant.algorithms[0], "--json", *words]
    done = run(command, name, LIMITS["probe"])
    try:
        found = json.loads(done.stdout[done.stdout.index("{") :])
    except ValueError:
        last = without_folders((done.stderr.strip().splitlines() or ["no answer"])[-1])[:300]
        if done.returncode == 2 and " crashed in " in last:  # noticed, but no part is named
            return {"noticed": True, "part": None, "reason": last}
        return {"error": last}
    answer = {"noticed": found["noticed"]}
    names = ("part", "reason", "probes") if found["noticed"] else ()
    return answer | {key: found[key] for key in names}


def measure_probe(mutant, options):
    if not hasattr(mutant, "edits"):
        return {"noticed": False, "why": "the algorithm is healthy"}
    answer = probed(mutant, mutant.id)
    if not noticed(answer):
        return answer
    settings = [mutant.algorithms[0], dict(mutant.settings)]
    kept = RUNS / f"probe-{mutant.algorithms[0]}-{digest(settings)}.json"
    with lock_of(kept):
        if options.retrain or not kept.exists():
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(probed(mutant, None), indent=1))
    healthy = json.loads(kept.read_text())
    if "error" in healthy:
        return healthy
    if noticed(healthy) and healthy["part"] == answer["part"]:
        return {**healthy, "noticed": False, "why": "the same verdict without the fault"}
    return answer


# ---- results -------------------------------------------------------------------------------------


def everything():
    """All mutants in the order of the page, then the faulty environments."""
    order = list(TOPICS)
    mutants = sorted(zoo.load().values(), key=lambda mutant: order.index(mutant.topic))
    return {**{mutant.id: mutant for mutant in mutants}, **zoo.broken_environments()}


def results():
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {"mutants": {}}


def setup():
    """What a result was measured with; each entry says so, as they need not be of one machine."""
    python, torch = platform.python_version(), importlib.metadata.version("torch")
    return f"Python {python}, torch {torch}, {os.cpu_count()} cores"


def without_folders(text):
    """Return a message without the folders of this machine."""
    return re.sub(r"(?:/[^\s/:]+)+/([^\s/:]+)", r"\1", text)


def save(data):
    data["command"] = "python benchmarks/zoo.py"
    data["mutants"] = {
        name: data["mutants"][name] for name in everything() if name in data["mutants"]
    }
    new = RESULTS.with_suffix(".new")
    new.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    new.replace(RESULTS)


def fits(mutant, what):
    """What a result depends on: it is stale if a mutant, its settings or its run change."""
    edits = [vars(edit) for edit in getattr(mutant, "edits", ())]
    parts = [edits, dict(getattr(mutant, "settings", {})), mutant.env, mutant.algorithms[0]]
    return digest([*parts, recipe(mutant)] if what == "doctor" else parts)


def measure(options):
    """Measure what is missing, one mutant after the other; save after each."""
    lock = threading.Lock()
    wanted = [
        (what, mutant)
        for what in options.what
        for name, mutant in everything().items()
        if not options.only or any(re.search(pattern, name) for pattern in options.only)
        if not (what == "tests" and not hasattr(mutant, "edits"))
    ]

    # An order that has nothing to do with topics: an interrupted measure is a fair sample.
    wanted.sort(key=lambda item: (options.what.index(item[0]), digest(item[1].id)))

    def one(item):
        what, mutant = item
        with lock:
            old = results()["mutants"].get(mutant.id, {}).get(what)
        done = old is not None and old.get("fits") == fits(mutant, what) and "error" not in old
        if done and not options.again:
            return
        begin = time.monotonic()
        entry = globals()[f"measure_{what}"](mutant, options)
        entry |= {"fits": fits(mutant, what), "on": setup()}
        print(f"{mutant.id:26} {what:7} {time.monotonic() - begin:5.0f} s  {short(entry, mutant)}")
        sys.stdout.flush()
        with lock:
            data = results()
            data["mutants"].setdefault(mutant.id, {})[what] = entry
            save(data)

    with ThreadPoolExecutor(options.workers) as pool:
        for answer in [pool.submit(one, item) for item in wanted]:
            answer.result()
    if "tests" in options.what:
        verify_tests()


def short(entry, mutant):
    """One cell of the table."""
    if entry is None or "error" in entry:
        return "not measured"
    if not entry["noticed"]:
        return "no, but the run stops" if "stopped" in entry else "no"
    if entry.get("part") is None:
        return "yes"
    return "right part" if entry["part"] == mutant.part else f"yes ({entry['part']})"


# ---- the table and the page ----------------------------------------------------------------------


def noticed(entry):
    return bool(entry) and "error" not in entry and entry["noticed"]


def right(entry, mutant):
    return noticed(entry) and entry.get("part") == mutant.part


def measured(entry):
    return bool(entry) and "error" not in entry


def totals(data):
    """Count mutants: [measured, noticed, right part named], for each measure and together."""
    mutants, found = everything(), data["mutants"]
    counts = {}
    for what in MEASURES:
        entries = [(m, found.get(m.id, {}).get(what)) for m in mutants.values()]
        entries = [(m, e) for m, e in entries if measured(e)]
        counts[what] = (
            len(entries),
            sum(noticed(e) for _, e in entries),
            sum(right(e, m) for m, e in entries),
        )
    both = [
        (m, [found.get(m.id, {}).get(what) for what in ("doctor", "probe")])
        for m in mutants.values()
        if all(measured(found.get(m.id, {}).get(what)) for what in ("doctor", "probe"))
    ]
    counts["doctor or probe"] = (
        len(both),
        sum(any(map(noticed, entries)) for _, entries in both),
        sum(any(right(e, m) for e in entries) for m, entries in both),
    )
    whole = [
        (m, [found.get(m.id, {}).get(what) for what in MEASURES])
        for m in zoo.load().values()
        if all(measured(found.get(m.id, {}).get(what)) for what in MEASURES)
    ]
    counts["any of the three"] = (
        len(whole),
        sum(any(map(noticed, entries)) for _, entries in whole),
        None,
    )
    return counts


def percent(part, whole):
    return "-" if part is None or not whole else f"{part} ({100 * part / whole:.0f} %)"


def summary(data):
    """Lines of a Markdown table with the totals."""
    lines = ["| noticed by | measured | noticed | right part named |", "|---|---|---|---|"]
    for name, (count, seen, named) in totals(data).items():
        parts = "-" if name == "tests" else percent(named, count)
        lines.append(f"| {name} | {count} | {percent(seen, count)} | {parts} |")
    return lines


def cells(mutant, found):
    return [short(found.get(what), mutant) for what in MEASURES]


def table(data):
    """Lines of a Markdown table: a row for every mutant."""
    lines = ["| mutant | part | tests | doctor | probe |", "|---|---|---|---|---|"]
    for name, mutant in everything().items():
        row = cells(mutant, data["mutants"].get(name, {}))
        if not hasattr(mutant, "edits"):
            row[0] = "-"
        lines.append(f"| [`{name}`](#{name}) | {mutant.part} | {' | '.join(row)} |")
    return lines


def escapes(data):
    """Lines of a list: what neither doctor nor probe notices."""
    lines = []
    for name in everything():
        found = data["mutants"].get(name, {})
        pair = [found.get(what) for what in ("doctor", "probe")]
        if any(map(noticed, pair)) or not any(map(measured, pair)):
            continue
        tests = "; the tests notice it" if noticed(found.get("tests")) else ""
        why = data.get("escapes", {}).get(name, "not examined yet")
        lines.append(f"- `{name}`: {why}{tests}.")
    return lines


def who(found, mutant):
    """One sentence on who noticed a mutant."""
    words = []
    if noticed(found.get("tests")):
        words.append(f"a test (`{found['tests']['by'].split('/')[-1]}`)")
    if noticed(found.get("doctor")):
        words.append(f"doctor ({', '.join(found['doctor']['by'][:4])})")
    if noticed(found.get("probe")):
        words.append(f"probe ({found['probe'].get('part') or 'the algorithm crashes'})")
    missed = [what for what in MEASURES if measured(found.get(what)) and not noticed(found[what])]
    text = [f"Noticed by {', '.join(words)}."] if words else []
    text += [f"Not noticed by {' and '.join(missed)}."] if missed else []
    return " ".join(text) or "Not measured yet."


INTRODUCTION = """\
# The bug zoo

Reinforcement learning code fails silently: it runs, and the agent does not learn, or learns less
than it could. This page lists {count} such faults, each a change of a few lines in our own
functions, and {environments} environments with a fault of their own. Most of them were seen in
public code. They feed the find-the-bug exercises, the exercises' "your answer equals a known
mistake", and the measure below.

Try one:

```
python -m spinup.exercises.zoo pg-sign -- spinup.run vpg --env CartPole-v1 --epochs 10
python -m spinup.exercises.zoo --source pg-sign
```

No file changes: the command starts a process that imports the faulty module instead of ours. In
Python, `zoo.applied("pg-sign")` does the same for a `with` block, and
`zoo.function("pg-sign", "compute_loss_pi")` returns the faulty function beside the healthy one.

## Who notices

Every mutant is measured in three ways.

- **Tests**: the test files nearest to the change run.
- **Doctor**: `spinup doctor` examines a short training run. A warning or an error counts if the
  same run without the fault does not have it.
- **Probe**: `spinup probe` runs the algorithm through the probe environments.

"Right part" means that the first finding names the part of the implementation that is at fault.
`make zoo` repeats the measure, and `benchmarks/results/zoo.json` has the results. The tests can
notice faults in our own code only. Doctor and probe work on anybody's. Shares are of what has been
measured; "doctor or probe" counts the mutants that both have measured.

Each entry of the results says what it was measured with: {setups}. All runs were trained on
CPUs.
"""


def setups(data):
    """Return the setups of all results in words, the most frequent first."""
    used = [entry["on"] for found in data["mutants"].values() for entry in found.values()]
    return "; ".join(setup for setup, _ in collections.Counter(used).most_common())


def story(mutant, found):
    """Lines about one mutant."""
    lines = [f"#### {mutant.id}", "", f"*{sentence(mutant.title)}*", ""]
    if hasattr(mutant, "edits"):
        lines += ["```diff", *shown(mutant.id), "```", ""]
    lines += [mutant.story, "", f"**In a log.** {mutant.symptom}", ""]
    where = (
        ""
        if not getattr(mutant, "settings", None)
        else " It needs "
        + ", ".join(f"`{key}={value!r}`" for key, value in mutant.settings.items())
        + "."
    )
    affected = ", ".join(mutant.algorithms)
    lines += [f"Part: {mutant.part}. Affects {affected}.{where} {who(found, mutant)}", ""]
    return lines


def sentence(title):
    return title[0].upper() + title[1:]


def shown(name):
    """The lines of a mutant's change, without the names of files and the positions."""
    skipped = ("---", "+++", "@@")
    return [line.rstrip() for line in change(name).splitlines() if not line.startswith(skipped)]


def page(data):
    """The whole page docs/debug/zoo.md."""
    mutants = everything()
    environments = zoo.broken_environments()
    counts = {"count": len(zoo.load()), "environments": len(environments)}
    counts["setups"] = setups(data)
    lines = [*INTRODUCTION.format(**counts).splitlines(), "", *summary(data), ""]
    if missing := escapes(data):
        lines += ["### What escapes doctor and probe", "", *missing, ""]
    lines += ["### All mutants", "", *table(data), "", "## The mutants", ""]
    for topic, title in TOPICS.items():
        lines += [f"### {title}", ""]
        for name, mutant in zoo.load().items():
            if mutant.topic == topic:
                lines += story(mutant, data["mutants"].get(name, {}))
    lines += ["### Environments", ""]
    for name in environments:
        lines += story(mutants[name], data["mutants"].get(name, {}))
    return "\n".join(lines).rstrip() + "\n"


def columns(name):
    """Print a mutant's log beside the healthy one, from the runs that are kept."""
    import pandas as pd

    made = recipe(everything()[name])
    for each in (None, name):
        examined(made, each, argparse.Namespace(retrain=False))
    pair = [folder_of(made, each) for each in (None, name)]
    tables = [pd.read_csv(folder / "progress.txt", sep="\t") for folder in pair]
    last = max(len(t) for t in tables) - 1
    picked = sorted({0, min(1, last), last // 4, last // 2, last})
    for column in tables[0]:
        shown = [
            "  ".join(f"{t[column][i]:10.4g}" if i < len(t) else " " * 10 for i in picked)
            for t in tables
        ]
        print(f"{column:20} {shown[0]}   |   {shown[1]}")


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--what", nargs="+", choices=MEASURES, default=MEASURES)
    parser.add_argument("--only", nargs="+", metavar="PATTERN", help="ids that match one of these")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="measure what was measured before")
    parser.add_argument("--retrain", action="store_true", help="repeat the training runs as well")
    parser.add_argument("--table", action="store_true", help="only print and write the table")
    parser.add_argument("--columns", metavar="ID", help="print a mutant's log beside a healthy one")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    options.started = time.time()
    if options.child:
        print("RESULT " + json.dumps(child(json.loads(options.child))))
        return
    if options.columns:
        columns(options.columns)
        return
    if not options.table:
        measure(options)
    data = results()
    print("\n".join([*table(data), "", *summary(data)]))
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(data), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

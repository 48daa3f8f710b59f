"""Pages of the site that are made from data and docstrings: results, presets and the reference.

`worked_run` makes a section of an algorithm's page from the healthy corpus, and `what_goes_wrong`
one from the bug zoo.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from docs import galleries  # noqa: E402
from spinup.exercises import zoo  # noqa: E402

RESULTS = ROOT / "benchmarks/results"


def pages(algorithms: list[str], graph_mode: list[str]) -> dict[str, str]:
    """Return all generated pages: name -> MyST Markdown, with links as in the folder docs/."""
    found = {f"results/{algo}": result_page(algo) for algo in algorithms}
    found["spinningup/bench"] = bench(algorithms)
    found["reference/presets"] = presets()
    found["reference/algorithms"] = functions(algorithms, graph_mode)
    found |= {name: reference(*content) for name, content in REFERENCE.items()}
    return found


# ------------------------------------------------------------------------------------------ results


def learned(algo: str) -> list[dict[str, Any]]:
    """Return the results of an algorithm on both backends, the shortest runs first."""
    files = [*RESULTS.glob(f"learn/{algo}-*.json"), *RESULTS.glob(f"learn/{algo}_tf1-*.json")]
    found = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    return sorted(found, key=lambda r: (r["algo"], r["steps"], r["env"]))


def returns(values: list[float]) -> str:
    return ", ".join(f"{v:.2f}" if max(map(abs, values)) <= 1 else f"{v:.0f}" for v in values)


def rows(results: list[dict[str, Any]], linked: bool = False) -> str:
    """Return a table of results; `linked` to the page of each algorithm."""
    fresh = any("fresh" in r for r in results)  # seeds by which no preset was chosen
    more = " seeds 100, 101, 102 |" if fresh else ""
    lines = [
        f"| algorithm | environment | steps | seeds 0, 1, 2 |{more} pass | stretch |",
        "|---|---|---:|---:|---:|---:|" + "---:|" * fresh,
    ]
    for r in results:
        mark = [" ✓" if r[key] else "" for key in ("pass", "stretch")]
        name = r["algo"]
        if linked:
            name = f"[{name}](../results/{name.removesuffix('_tf1')}.md)"
        column = ""
        if fresh:
            column = f" {returns(r['fresh']['returns'])} |" if "fresh" in r else " |"
        lines.append(
            f"| {name} | {r['env']} | {r['steps']:,} | {returns(r['returns'])} |{column}"
            f" {r['pass_value']}{mark[0]} | {r['stretch_value']}{mark[1]} |"
        )
    return "\n".join(lines)


def result_page(algo: str) -> str:
    """Return the page with one algorithm's results."""
    results = learned(algo)
    text = [
        f"# Results of {algo.upper()}",
        f"Three seeds per task, trained with a [preset](../reference/presets.md) by `make learn "
        f"ALGO={algo}`. The returns are those of the final policy with its most likely actions; a check mark means "
        "that the median passes. [How the presets were chosen and what the figures mean](method.md#how-the-presets-were-chosen); "
        f"[how the algorithm works](../algorithms/{algo}.md).",
        rows(results),
        "Check marks are for seeds 0, 1 and 2. No preset was chosen by seeds 100, 101 and 102.",
        f"![Training returns of {algo.upper()} over environment steps, three seeds per task](../figures/learn-{algo}.svg)",
        "The line is the median over the seeds of the return during training, with exploration; the band is the range "
        "between the seeds. The dots are the returns in the table.",
        "## Hyperparameters, versions and times",
    ]
    for r in results:
        settings = json.dumps(r["hyperparameters"])
        versions = ", ".join(f"{name} {version}" for name, version in r["versions"].items())
        seconds = ", ".join(f"{run['train_seconds']:.0f}" for run in r["runs"])
        text.append(
            f"**{r['algo']} on {r['env']}**: `{r['command']}`, {seconds} seconds of training per seed; {versions}."
        )
        if "compiled" in r:
            more = r["compiled"]
            text.append(
                f"Compiled, seeds 100, 101 and 102 (`{more['command']}`): {returns(more['returns'])}."
            )
        text.append(f"```json\n{settings}\n```")
    return "\n\n".join(text) + "\n"


def bench(algorithms: list[str]) -> str:
    """Return the page with all results."""
    results = [result for algo in algorithms for result in learned(algo)]
    passed = sum(result["pass"] for result in results)
    return f"""# Benchmarks

Every figure on this page is drawn from files in `benchmarks/results`, which record the command, the hyperparameters, the versions and the
time of each measurement. [How it was measured](../results/method.md) explains them and says what did not work.

## What the algorithms learn

![Training returns of all algorithms (rows) on seven tasks (columns), each column with its own scale](../figures/overview.svg)

{passed} of {len(results)} rows pass: the median of three seeds reaches the value in the column *pass*, and no seed is far below it. Three seeds show
that an algorithm works, not how good it is; to compare algorithms, run more seeds and use [`spinup compare`](../plotting.md). Check marks
are for seeds 0, 1 and 2, by which some presets were chosen. No preset was chosen by seeds 100, 101 and 102, so those are the fairer figures
where there are any.

{rows(results, linked=True)}

The tasks are small on purpose: each row takes minutes on one core, so you can repeat it with `make learn ALGO=ppo ENV=CartPole-v1`. For HER, the
numbers are the fraction of goals reached.

What a million steps of MuJoCo reach, with one preset per algorithm, is on [a page of its own](../benchmarks.md).

## How fast they train

![Steps per second relative to Stable-Baselines3 (SB3), two runs side by side, one per core](../figures/speed.svg)

All libraries do the same work with the same networks and batches, and take turns on two cores.
[What is included in the time](../results/method.md#beside-other-libraries), and the figures for one run on two cores, are on another page.

## How they scale

![Speedup of PPO by several processes, on logarithmic axes](../figures/scaling.svg)

Only the point for two processes is measured. The lines are predictions by a model whose constants were measured on one machine; the page on
[several processes](../mpi.md) explains it.
"""


def presets() -> str:
    """Return the list of shipped presets."""
    reached = json.loads((ROOT / "spinup/presets/reached.json").read_text(encoding="utf-8"))
    lines = []
    for file in sorted((ROOT / "spinup/presets").glob("*-*.json")):
        algo, _, task = file.stem.partition("-")
        env = json.loads(file.read_text(encoding="utf-8")).get("env")
        known = reached.get(file.stem)
        told = "not run yet"
        command = f"spinup {algo} --preset {task}"
        if env is None:  # for several environments
            env, command = "MuJoCo's", f"{command} --env Hopper-v5"
            told = "[the benchmark](../benchmarks.md)"
        elif known:
            told = f"{returns(known['returns'])} after {known['steps']:,} steps"
        lines.append(f"| [{algo}](../algorithms/{algo}.md) | {env} | `{command}` | {told} |")
    table = "\n".join(lines)
    return f"""# Presets

A preset is a file of hyperparameters for an algorithm and an environment. `--preset` trains with it, and flags override it. `spinup presets`
prints this list, and [the benchmarks](../spinningup/bench.md) show the learning curves.

| algorithm | environment | command | what three seeds reached |
|---|---|---|---|
{table}
"""


# -------------------------------------------------------------------------------------- worked runs

# algorithm -> environment of the corpus, seed, and how to read the run
WORKED = {
    "reinforce": (
        "CartPole-v1",
        1,
        "The return rises, falls back to a third (epoch 49), and rises again: an update uses the returns of one epoch, and their noise with it. The "
        "baseline moves with the return. When every episode lasts 500 steps, the baseline is the value of every state, the differences to it are nearly 0, and so is KL: "
        "nothing is left to learn. Of the three seeds of the corpus, one does not recover from such a fall, which [doctor](../debug/doctor.md) "
        "reports.",
    ),
    "vpg": (
        "CartPole-v1",
        0,
        "At first the value function knows nothing (ExplVarOld is 0); after twenty epochs it explains most of the variance of the returns. "
        "When every episode lasts 500 steps, the value is 100 = 1 / (1 - 0.99) everywhere and the loss of the value function is nearly 0. Explained variance "
        "far below 0 is healthy there: all returns are equal, so there is no variance to explain. KL does not fall to 0, although nothing is left to learn: advantages are "
        "normalized, which makes their noise as large as a signal, and VPG has no clip and no trust region against it.",
    ),
    "trpo": (
        "CartPole-v1",
        0,
        "KL stays between 0.0045 and delta = 0.01 in every epoch, from the first to the last: that is the trust region at work, and a KL far below it would "
        "be the first thing to look into. The line search accepts the full step (BacktrackIters is 0), and the surrogate gains in every epoch. Only when the "
        "task is solved does explained variance turn negative, for lack of variance.",
    ),
    "ppo": (
        "Acrobot-v1",
        0,
        "Eight environments play 250 steps each per epoch, so no episode ends in the first one, and the return is NaN; the second one's is -500. While the policy learns, about a tenth of "
        "the ratios are clipped and KL is near 0.01; both fall to nearly 0 at the end because the learning rates are annealed. Explained variance rises from 0 to above 0.5: the value function has learned to tell good "
        "states from bad ones. Entropy falls steadily, and last, which is the right order.",
    ),
    "ddpg": (
        "Pendulum-v1",
        0,
        "Q falls before it rises: at first the critic knows of no costs, and QBias says that it promises 570 more than the episodes then return. By the third epoch "
        "the test return is near its best, while LossQ and Q still move; a critic need not be right in value to rank actions. The target network comes "
        "closer and closer to the critic (TargDrift).",
    ),
    "td3": (
        "Pendulum-v1",
        0,
        "It begins more slowly than DDPG: the policy is updated half as often, and the smaller of two critics is careful. The sign that this works is QBias, "
        "which ends slightly *below* 0: the critic promises a little less than it gets. LossQ grows at the end because the returns spread, not because "
        "training diverges: Q itself stands still.",
    ),
    "sac": (
        "Pendulum-v1",
        0,
        "LogPi begins below 0, a wide distribution, and rises as the policy commits itself; it stays far from the values above 2 or 3 that would mean a collapsed "
        "policy. The test return is near its best in the third epoch. LossQ grows with the variety of states and returns in the buffer, while the bias "
        "of Q shrinks from 630 to about 0.",
    ),
    "dqn": (
        "CartPole-v1",
        0,
        "Q rises towards 100 = 1 / (1 - 0.99), the value of never falling, and stops below it. Single estimates reach 100 (MaxQVals), the most that "
        "is possible; an average above 100 would be overestimation. After the start, the loss falls although the values grow, and the target network drifts less and less from the critic. A quarter of the hidden units never fire; that "
        "is usual for ReLU.",
    ),
    "acer": (
        "Pendulum-v1",
        0,
        "Nothing seems to happen for four epochs, but LossQ has fallen by a factor of 100 by then: the critic comes first, and the return follows. "
        "Hardly any importance weight is truncated (ClipFrac about 1 %), so replayed data is close enough to the policy. Entropy is constant by "
        "design: with continuous actions, the standard deviation is fixed.",
    ),
    "her": (
        "BitFlip-v0",
        0,
        "After one epoch, 70 % of the goals are reached in tests, but only 2 % in training, which explores: one wrong flip spoils an episode. Q is negative, "
        "since every step costs 1 until the goal is reached, and its size is about the number of flips that are missing. It promises a little too much (QBias), less "
        "and less. What happens without hindsight is in the table of details above.",
    ),
}


def worked_run(algo: str) -> str:
    """Return a section that reads one run of the healthy corpus aloud."""
    env, seed, reading = WORKED[algo]
    run = galleries.corpus(algo)[env][seed]
    last = len(run["Epoch"]) - 1
    chosen = sorted({0, last // 8, last // 4, last // 2, last})
    head = " | ".join(f"epoch {epoch}" for epoch in chosen)
    lines = [f"| | {head} |", "|---|" + "---:|" * len(chosen)]
    for metric in galleries.GALLERY[algo]:
        values = [run[metric.column][epoch] for epoch in chosen]
        cells = " | ".join("-" if math.isnan(v) else galleries.brief(v) for v in values)
        lines.append(f"| `{metric.column}` | {cells} |")
    steps = int(run["TotalEnvInteracts"][-1])
    return "\n\n".join(
        [
            "## A worked run",
            f"`spinup {algo} --preset {env} --seed {seed} --epochs {last + 1}` trains for {steps:,} steps. These are five of its {last + 1} epochs, from "
            f"`{algo}-{env}-s{seed}` in `benchmarks/results/corpus/{algo}.zip`. Your numbers will differ a little on another machine.",
            "\n".join(lines),
            reading,
            "",
        ]
    )


# ----------------------------------------------------------------------------------------- bug zoo


def what_goes_wrong(algo: str) -> str:
    """Return a section on an algorithm's faults, with links as in the folder docs/algorithms.

    Faults that are shown on this algorithm are told; those that it shares with others are listed.
    """
    mutants = [m for m in zoo.load().values() if algo in m.algorithms]
    own = [m for m in mutants if m.algorithms[0] == algo]
    shared = [m for m in mutants if m.algorithms[0] != algo]
    text = [
        "## What goes wrong",
        "These mistakes are from the [bug zoo](../debug/zoo.md), which shows the changed lines and says who notices them. "
        "[Read your log](../debug/read-your-log.md) explains the columns.",
    ]
    for m in own:
        text.append(f"**{fault(m)}** ({m.part}). {line(m.story)}")
        text.append(f"*In a log:* {line(m.symptom)}")
    if shared:
        text.append(
            "### In parts shared with other algorithms"
            if own
            else "These are in parts shared with others:"
        )
        text.append("\n".join(f"- {fault(m)} ({m.part})" for m in shared))
    return "\n\n".join(text) + "\n"


def fault(mutant: zoo.Mutant) -> str:
    """Return a link to a fault, by its title."""
    return f"[{mutant.title[:1].upper()}{mutant.title[1:]}](../debug/zoo.md#{mutant.id})"


def line(text: str) -> str:
    """Return a text of several lines as one."""
    return " ".join(text.split())


# ---------------------------------------------------------------------------------------- reference


def directive(kind: str, name: str, *options: str) -> str:
    """Return a directive of Sphinx's autodoc."""
    indented = "".join(f"   :{option}:\n" for option in options)
    return f"```{{eval-rst}}\n.. {kind}:: {name}\n{indented}```"


def functions(algorithms: list[str], graph_mode: list[str]) -> str:
    """Return the reference of the training functions."""
    text = [
        "# Training functions",
        "Each algorithm is a function; its keyword arguments are the flags of the command line. `spinup.ppo` and `spinup.ppo_pytorch` "
        "are the same function unless `DEFAULT_BACKEND` says otherwise. The pages of the [algorithms](../algorithms.md) explain them.",
    ]
    for algo in algorithms:
        text.append(f"## {algo}")
        text.append(directive("autofunction", f"spinup.algos.pytorch.{algo}.{algo}.{algo}"))
    text.append("## In graph mode")
    text.append(
        "These need TensorFlow: `pip install 'spinup[tf]'`. In `import spinup`, their names end in `_tf1`."
    )
    for algo in graph_mode:
        text.append(f"### {algo}_tf1")
        text.append(directive("autofunction", f"spinup.algos.tf1.{algo}.{algo}.{algo}"))
    return "\n\n".join(text) + "\n"


def reference(title: str, sentence: str, parts: list[tuple[str, str, tuple[str, ...]]]) -> str:
    """Return a page of the reference: a title, a sentence, and the directives below."""
    return "\n\n".join([f"# {title}", sentence, *(directive(k, n, *o) for k, n, o in parts)]) + "\n"


MEMBERS = ("members",)
REFERENCE: dict[str, tuple[str, str, list[tuple[str, str, tuple[str, ...]]]]] = {
    "utils/logger": (
        "Logger",
        "`from spinup.utils.logx import Logger, EpochLogger`. They write the [run directory](../run-directory.md). Your own program can use "
        "them, too: [`train_mnist.py`](../../spinup/examples/pytorch/train_mnist.py) is an example.",
        [
            ("autoclass", "spinup.runs.logger.Logger", MEMBERS),
            ("autoclass", "spinup.runs.logger.EpochLogger", ("members", "show-inheritance")),
            ("autofunction", "spinup.runs.logger.colorize", ()),
        ],
    ),
    "utils/run_utils": (
        "Run utils",
        "`from spinup.utils.run_utils import ExperimentGrid, call_experiment, setup_logger_kwargs`. The page on [grids](../grids.md) shows how they "
        "are used.",
        [
            ("autoclass", "spinup.grids.experiments.ExperimentGrid", MEMBERS),
            ("autofunction", "spinup.grids.experiments.call_experiment", ()),
            ("autofunction", "spinup.grids.experiments.setup_logger_kwargs", ()),
        ],
    ),
    "utils/plotter": (
        "Plotter",
        "`from spinup.utils.plot import make_plots`. The commands `spinup plot` and `spinup compare` are explained under "
        "[plotting and comparing](../plotting.md).",
        [
            ("autofunction", "spinup.analysis.plot.make_plots", ()),
            ("autofunction", "spinup.analysis.plot.get_datasets", ()),
            ("autofunction", "spinup.analysis.plot.get_all_datasets", ()),
            ("autofunction", "spinup.analysis.plot.plot_data", ()),
            ("autofunction", "spinup.analysis.compare.compare", ()),
            ("autofunction", "spinup.analysis.compare.make_comparison", ()),
        ],
    ),
    "utils/mpi": (
        "MPI tools",
        "`from spinup.parallel.mpi import mpi_fork, proc_id, num_procs` and so on. [Several processes](../mpi.md) explains how training uses them. "
        "In a single process, they all work without mpi4py.",
        [
            ("automodule", "spinup.parallel.mpi", MEMBERS),
            ("automodule", "spinup.parallel.pytorch", MEMBERS),
        ],
    ),
    "reference/policies": (
        "Trained policies",
        "`from spinup.utils.test_policy import load_policy_and_env, run_policy`. See [trained policies](../policies.md).",
        [
            ("autofunction", "spinup.policies.loading.load_policy_and_env", ()),
            ("autofunction", "spinup.policies.loading.load_pytorch_policy", ()),
            ("autofunction", "spinup.policies.play.run_policy", ()),
            ("autofunction", "spinup.policies.saved.load_policy", ()),
        ],
    ),
    "reference/environments": (
        "Environments",
        "`spinup.check_env`; see [environments](../environments.md).",
        [("autofunction", "spinup.envs.checking.check_env", ())],
    ),
}

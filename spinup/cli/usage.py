"""Generate a training function's help text from its signature and docstring."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from spinup import user_config
from spinup.cli import presets
from spinup.cli.flags import ALIASES, arguments, entries_of, explanations, usual_sizes
from spinup.policies.activations import ACTIVATIONS
from spinup.runs.arguments.synonyms import SAME, same
from spinup.runs.arguments.table import described, wrapped
from spinup.runs.screen import columns
from spinup.runs.sinks import SINK_NAMES


def usage(algo_fn: Callable[..., Any], command: str, defaults: Mapping[str, Any]) -> str:
    """Return an algorithm's help text: every argument with its description and default."""
    said = explanations(algo_fn)
    first = (inspect.getdoc(algo_fn) or "").partition("\n\n")[0]
    lines = [f"usage: {command} --env ENV [--KEY VALUE [VALUE ...]] ...", ""]
    lines += wrapped(" ".join(first.split()), columns())
    lines += [
        "",
        *wrapped(
            "Several values after a flag make a grid; --KEY[sh] abbreviates KEY in run names.",
            columns(),
        ),
    ]
    known = arguments(algo_fn)
    entries: dict[str, list[tuple[str, str]]] = {group: [] for group in _GROUPS}
    for group, rows in _groups(algo_fn, defaults).items():
        entries[group] += rows
    for name, parameter in known.items():
        if name in ("logger_kwargs", "ac_kwargs"):
            continue  # their entries have their own lines
        default = defaults.get(name, parameter.default)
        shown = "" if default is inspect.Parameter.empty else f" (default: {_show(default)})"
        group = next((g for g, names in _GROUPS.items() if name in names), "learning")
        entries[group].append((_names(name, known), said.get(name, "") + shown))
    for group, rows in entries.items():
        lines += ["", f"{group}:"]
        for flag, text in rows:
            lines += _entry(flag, text)
    return "\n".join(lines)


# The groups of the help text, and the arguments of training functions in them; all others are
# about learning.
_GROUPS: Mapping[str, tuple[str, ...]] = {
    "environment": ("max_ep_len", "num_envs", "vector", "num_test_episodes"),
    "network": ("actor_critic",),
    "learning": (),
    "running": ("seed", "device", "num_threads", "compile", "resume", "overwrite"),
    "logging": ("save_freq", "progress", "save_best", "on_epoch"),
    "cluster": ("shards",),
}


def _names(name: str, known: Mapping[str, Any]) -> str:
    """Return every way to write a flag, its own name first."""
    short = [alias for alias, key in ALIASES.items() if key == name]
    foreign = [word for word in (*SAME, "learning_rate", "lr") if same(word, known) == name]
    words = ["-s" if word == "s" else f"--{word}" for word in (*short, name, *foreign)]
    return ", ".join(words)


def _groups(
    algo_fn: Callable[..., Any], defaults: Mapping[str, Any]
) -> dict[str, list[tuple[str, str]]]:
    """Return the flags that are not arguments of the training function, by group."""
    known = arguments(algo_fn)
    env = f" (default: {defaults['env_name']})" if "env_name" in defaults else ""
    name = algo_fn.__name__
    mine = presets.names(name)
    network = []
    maker = inspect.signature(algo_fn).parameters.get("actor_critic")
    said = described(inspect.getdoc(getattr(maker, "default", None)) or "")
    for key, parameter in (entries_of(algo_fn, "ac_kwargs") or {}).items():
        if key not in ("hidden_sizes", "activation"):
            text = said.get(key, "argument of the networks")
            network.append((f"--ac_kwargs:{key}", f"{text} (default: {_show(parameter.default)})"))
    return {
        "environment": [
            (_names("env_name", known), f"Gymnasium id of the environment, or module:id{env}"),
            ("--env_kwargs:KEY", "argument KEY of the environment"),
        ],
        "network": [
            (
                _names("ac_kwargs:hidden_sizes", known),
                "widths of the hidden layers, such as 64,64; one number sets all layers"
                + _default_sizes(algo_fn),
            ),
            ("--l", "number of hidden layers, if --hid is one number"),
            (
                _names("ac_kwargs:activation", known),
                f"activation function: {', '.join(ACTIVATIONS)}"
                + _default_of(algo_fn, "activation"),
            ),
            *network,
            ("--ac_kwargs:KEY", "argument KEY of your own actor-critic"),
        ],
        "running": [
            (
                "--preset",
                "shipped hyperparameters, or a JSON file of your own; flags override them"
                + (f": {', '.join(mine)}" if mine else "; 'spinup presets' lists them"),
            ),
            ("--config", "JSON file of arguments, or a shipped preset; flags override it"),
            (
                "--trust",
                "let the file after --config import modules, contact machines and choose folders",
            ),
            ("--dry_run", "list the runs, their directories and estimated cost; start nothing"),
        ],
        "logging": [
            ("--exp_name, --experiment_name", "name of the experiment and of its folder"),
            (
                "--data_dir",
                f"folder for experiments (default: {user_config.DEFAULT_DATA_DIR})",
            ),
            ("--dt, --datestamp", "put the date into folder names"),
            (
                "--track",
                f"also send the table to {' or '.join(SINK_NAMES)}, or to both (default: neither)",
            ),
            ("--logger_kwargs:KEY", "argument KEY of the logger: output_dir, quiet, sinks, ..."),
        ],
        "cluster": [
            ("--cpu, --num_cpu", "number of MPI processes, or auto for one per core (default: 1)"),
            (
                "--hosts, --hostfile",
                "machines for the processes: a,b or a:4,b:4, or a file that lists them",
            ),
            (
                "--max_restarts",
                "maximum number of restarts after a process is lost (default: 0)",
            ),
            (
                "--log_all_ranks",
                "save the output of the other processes in the experiment's rank_logs",
            ),
            ("--mpi_timeout", "seconds after which a silent process counts as hung (default: 300)"),
            ("--num_workers", "number of processes that run a grid in parallel (default: 1)"),
            ("--executor", "where a grid runs: local, ray or slurm (default: local)"),
            ("--cpus_per_cell", "CPU cores per run (default: 1)"),
            ("--gpus_per_cell", "GPUs per run; Ray accepts fractions of one (default: 0)"),
            (
                "--ray_address",
                "address of the Ray cluster; default: a running cluster, or else a new one",
            ),
            ("--slurm_options:KEY", "option KEY of sbatch, as in --slurm_options:partition gpu"),
        ],
    }


def _default_sizes(algo_fn: Callable[..., Any]) -> str:
    usual = usual_sizes(algo_fn)
    return f" (default: {usual})" if usual else ""


def _default_of(algo_fn: Callable[..., Any], entry: str) -> str:
    parameter = (entries_of(algo_fn, "ac_kwargs") or {}).get(entry)
    if parameter is None or parameter.default in (None, inspect.Parameter.empty):
        return ""
    return f" (default: {_show(parameter.default)})"


def _entry(flag: str, text: str) -> list[str]:
    pad = " " * 26
    body = wrapped(text.strip(), max(24, columns() - len(pad))) or [""]
    heads = wrapped(f"  {flag}", columns(), " " * 4)
    if len(heads) == 1 and len(heads[0]) < len(pad) - 1:
        return [(heads[0].ljust(len(pad)) + body[0]).rstrip(), *(pad + line for line in body[1:])]
    return [*heads, *(pad + line for line in body)]


def _show(value: Any) -> str:
    return value.__name__ if hasattr(value, "__name__") else repr(value)


def wants_help(words: Iterable[str]) -> bool:
    """Return whether a command line asks for help."""
    return any(word in ("-h", "--help") for word in words)

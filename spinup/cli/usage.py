"""Generate a training function's help text from its signature and docstring."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from spinup.cli.flags import arguments, explanations
from spinup.policies.activations import ACTIVATIONS
from spinup.runs.arguments import wrapped


def usage(algo_fn: Callable[..., Any], command: str, defaults: Mapping[str, Any]) -> str:
    """Return an algorithm's help text: every argument with its description and default."""
    said = explanations(algo_fn)
    first = (inspect.getdoc(algo_fn) or "").partition("\n\n")[0]
    lines = [f"usage: {command} --env ENV [--KEY VALUE [VALUE ...]] ...", ""]
    lines += wrapped(" ".join(first.split()), 96)
    lines += [
        "",
        "Several values after a flag make a grid; --KEY[sh] abbreviates KEY in run names.",
    ]
    lines += ["", "arguments:"]
    for name, parameter in arguments(algo_fn).items():
        default = defaults.get(name, parameter.default)
        if name == "logger_kwargs":
            continue
        shown = "" if default is inspect.Parameter.empty else f" (default: {_show(default)})"
        lines += _entry(f"--{name}", said.get(name, "") + shown)
    lines += ["", "running:"]
    env = f" (default: {defaults['env_name']})" if "env_name" in defaults else ""
    for flag, text in (
        ("--env, --env_name", f"Gymnasium id of the environment, or module:id{env}"),
        ("--env_kwargs:KEY", "argument KEY of the environment"),
        ("--hid", "widths of the hidden layers, such as 64,64; one number sets all layers"),
        ("--l", "number of hidden layers, if --hid is one number"),
        ("--act", f"activation function: {', '.join(ACTIVATIONS)}"),
        ("--ac_kwargs:KEY", "argument KEY of the actor-critic"),
        ("--cpu, --num_cpu", "number of MPI processes, or auto for one per core (default: 1)"),
        (
            "--hosts, --hostfile",
            "machines for the processes: a,b or a:4,b:4, or a file that lists them",
        ),
        ("--max_restarts", "restarts from the checkpoint after a process is lost (default: 0)"),
        (
            "--log_all_ranks",
            "save the output of the other processes in the experiment's rank_logs",
        ),
        ("--mpi_timeout", "seconds after which a silent process counts as hung (default: 300)"),
        ("--exp_name", "name of the experiment and of its folder"),
        ("--data_dir", "folder for experiments"),
        ("--dt, --datestamp", "put the date into folder names"),
        ("--config", "JSON file of arguments; flags override it"),
        (
            "--trust",
            "import modules and contact machines that the file after --config names",
        ),
        ("--dry_run", "list the runs with their directories and estimated cost, and start nothing"),
        ("--num_workers", "runs of a grid at the same time, each in its own process (default: 1)"),
        ("--executor", "where a grid runs: local, ray or slurm (default: local)"),
        ("--cpus_per_cell", "CPU cores per run"),
        ("--gpus_per_cell", "GPUs per run; Ray accepts fractions, which share a GPU (default: 0)"),
        (
            "--ray_address",
            "address of the Ray cluster; default: a running cluster, or else a new one",
        ),
        ("--slurm_options:KEY", "option KEY of sbatch, as in --slurm_options:partition gpu"),
    ):
        lines += _entry(flag, text)
    return "\n".join(lines)


def _entry(flag: str, text: str) -> list[str]:
    pad = " " * 26
    body = wrapped(text.strip(), 72) or [""]
    head = f"  {flag}"
    if len(head) < len(pad) - 1:
        return [(head.ljust(len(pad)) + body[0]).rstrip(), *(pad + line for line in body[1:])]
    return [head, *(pad + line for line in body)]


def _show(value: Any) -> str:
    return value.__name__ if hasattr(value, "__name__") else repr(value)


def wants_help(words: Iterable[str]) -> bool:
    """Return whether a command line asks for help."""
    return any(word in ("-h", "--help") for word in words)

"""The help text of a training function, made from its signature and its docstring."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from spinup.cli.flags import arguments, explanations
from spinup.policies.activations import ACTIVATIONS


def usage(algo_fn: Callable[..., Any], command: str, defaults: Mapping[str, Any]) -> str:
    """The help text of one algorithm: every argument, its default, its explanation."""
    said = explanations(algo_fn)
    first = (inspect.getdoc(algo_fn) or "").partition("\n\n")[0]
    lines = [f"usage: {command} --env ENV [--KEY VALUE [VALUE ...]] ...", ""]
    lines += textwrap.wrap(" ".join(first.split()), 96)
    lines += ["", "Several values after a flag make a grid; --KEY[sh] names it 'sh' in run names."]
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
        ("--env, --env_name", f"the environment's Gymnasium id, or module:id{env}"),
        ("--env_kwargs:KEY", "an argument of the environment"),
        ("--hid", "widths of the hidden layers: 64,64, or one width for every layer"),
        ("--l", "number of hidden layers, with one width in --hid"),
        ("--act", f"activation: {', '.join(ACTIVATIONS)}"),
        ("--ac_kwargs:KEY", "another argument of the actor-critic"),
        ("--cpu, --num_cpu", "number of MPI processes, or auto: one a core (default: 1)"),
        ("--hosts, --hostfile", "machines to start them on: a,b or a:4,b:4, or a file of names"),
        ("--max_restarts", "start again from the checkpoint when a process is lost (default: 0)"),
        ("--log_all_ranks", "keep what the other processes print, in the experiment's rank_logs"),
        ("--mpi_timeout", "seconds of silence after which a process hangs (default: 300)"),
        ("--exp_name", "name of the experiment and its folder"),
        ("--data_dir", "where experiments are kept"),
        ("--dt, --datestamp", "put the date into the names of folders"),
        ("--config", "a JSON file of arguments; flags win over it"),
        ("--dry_run", "print the runs, their directories and their cost, and start none"),
        ("--num_workers", "runs of a grid side by side, each in its own process (default: 1)"),
        ("--executor", "where they run: local, ray or slurm (default: local)"),
        ("--cpus_per_cell", "cores of one run"),
        ("--gpus_per_cell", "GPUs of one run; with ray a fraction shares one (default: 0)"),
        ("--ray_address", "the Ray cluster; by default one that is there, else a new one"),
        ("--slurm_options:KEY", "an option of sbatch, as in --slurm_options:partition gpu"),
    ):
        lines += _entry(flag, text)
    return "\n".join(lines)


def _entry(flag: str, text: str) -> list[str]:
    pad = " " * 26
    body = textwrap.wrap(text.strip(), 72) or [""]
    head = f"  {flag}"
    if len(head) < len(pad) - 1:
        return [(head.ljust(len(pad)) + body[0]).rstrip(), *(pad + line for line in body[1:])]
    return [head, *(pad + line for line in body)]


def _show(value: Any) -> str:
    return value.__name__ if hasattr(value, "__name__") else repr(value)


def wants_help(words: Iterable[str]) -> bool:
    """Whether a command line asks for help instead of a run."""
    return any(word in ("-h", "--help") for word in words)

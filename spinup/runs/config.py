"""What makes a run the run that it is: its arguments and its environment, recorded and compared."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from spinup.envs.spaces import space_to_json
from spinup.utils.errors import SpinupError
from spinup.utils.mpi_tools import proc_id
from spinup.utils.serialization_utils import convert_json

# Arguments that say how a run is carried out or how long it is. All others make up what it
# computes, and must be the same when it is resumed.
FREE_ON_RESUME = frozenset(
    {
        "epochs",
        "save_freq",
        "logger_kwargs",
        "resume",
        "overwrite",
        "progress",
        "env_fn",
        "vector",
        "num_threads",
        "device",
        "shards",
        "compile",
    }
)
# Arguments that change rounding: a resumed run uses the recorded ones. Not every algorithm has
# `compile`.
RECORDED = ("num_threads", "device", "shards", "compile")
# Not arguments: version 0.1.0 recorded these variables of DQN by mistake.
_STRAY = ("shares", "counts")
# What the checkpoint of a run holds, and of which type it is.
_SAVED: Mapping[str, type] = MappingProxyType(
    {
        "algo": str,
        "fingerprint": dict,
        "env": dict,
        "recorded": dict,
        "epoch": int,
        "total_steps": int,
        "seconds": float,
        "tracked": dict,
        "shards": list,
        "globals": dict,
        "logger": dict,
    }
)


def as_json(record: Any) -> Any:
    """A record as it would come back from a JSON file."""
    return json.loads(json.dumps(convert_json(record), sort_keys=True, allow_nan=False))


def fingerprint(config: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that make up what a run computes."""
    record = {k: v for k, v in config.items() if k not in FREE_ON_RESUME}
    if record.get("anneal_lr"):
        record["epochs"] = config["epochs"]  # the schedule ends with the run
    found: dict[str, Any] = as_json(record)
    return found


def env_fingerprint(
    record: Mapping[str, Any], observation_space: Any, action_space: Any
) -> dict[str, Any]:
    """What tells one environment from another."""
    found: dict[str, Any] = as_json(
        {
            "id": record["id"],
            "class": record["class"],
            "kwargs": record["kwargs"] if record["exact_kwargs"] else None,
            "max_episode_steps": record["max_episode_steps"],
            "observation_space": space_to_json(observation_space),
            "action_space": space_to_json(action_space),
        }
    )
    return found


def check_same_run(
    algo: str,
    now: Mapping[str, Any],
    defaults: Mapping[str, Any],
    saved: dict[str, Any],
    where: Path,
) -> None:
    """Refuse to continue another run than the saved one.

    An argument that did not exist when the run was saved had its default.
    """
    if saved["algo"] != algo:
        raise SpinupError(f"{where} belongs to a run of {saved['algo']}, not of {algo}")
    then = {**defaults, **saved["fingerprint"]}
    names = {*now, *saved["fingerprint"]} - set(_STRAY)
    differing = sorted(k for k in names if k not in now or now[k] != then.get(k))
    if differing:
        changes = ", ".join(f"{k}: {then.get(k)!r} -> {now.get(k)!r}" for k in differing)
        raise SpinupError(
            f"cannot resume exactly, because arguments differ from the saved run ({changes}): "
            "use the same ones, or another output_dir"
        )


def apply_recorded(config: dict[str, Any], recorded: Mapping[str, Any]) -> None:
    """Take over from the saved run what changes rounding."""
    for name in (k for k in RECORDED if k in config):
        given, then = config[name], recorded.get(name, False)
        if name in ("shards", "num_threads", "compile") and given is None:
            config[name] = then
        elif given != then:
            if name == "shards":
                raise SpinupError(f"the saved run has shards={then}, not {given}")
            if proc_id() == 0:
                print(f"The saved run had {name}={then}, which is used again (given: {given}).")
            config[name] = then


def check_same_env(now: Mapping[str, Any], then: Mapping[str, Any]) -> None:
    """Refuse to continue in another environment than that of the saved run."""
    differing = sorted(k for k in now if k not in then or now[k] != then[k])
    if differing:
        changes = ", ".join(f"{k}: {then.get(k)!r} -> {now[k]!r}" for k in differing)
        raise SpinupError(
            "cannot resume exactly, because the environment differs from that of the saved run "
            f"({changes}): use the same one, or another output_dir"
        )


def check_saved(saved: Any, where: Path) -> None:
    """Refuse a checkpoint that is intact but was not made by a run."""
    held = saved if isinstance(saved, dict) else {}
    wrong = [k for k, kind in _SAVED.items() if type(held.get(k)) is not kind]
    wrong += [] if wrong else [k for k in ("epoch", "total_steps") if saved[k] < 0]
    if not wrong:
        threads, device, shards = (saved["recorded"].get(name, "") for name in RECORDED[:3])
        counts = (1 if threads is None else threads, shards)
        whole = all(type(n) is int and 1 <= n <= 2**15 for n in counts)
        compiled = saved["recorded"].get("compile", False)
        sound = whole and type(device) is str and device and type(compiled) is bool
        wrong = [] if sound else ["recorded"]
    if wrong:
        raise SpinupError(
            f"{where} does not hold the checkpoint of a run ({wrong[0]!r} is missing or of "
            "another type): restore it from a backup, or start the run again with "
            "overwrite=True"
        )

"""Resuming a stopped run: what a checkpoint contains, and how it is checked and restored."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from spinup.envs.space_json import space_to_json
from spinup.envs.vector import MaskedStreams
from spinup.envs.wrappers import UNNEEDED
from spinup.parallel.mpi import broadcast_object, gather_lists, proc_id
from spinup.runs.arguments.config import as_json
from spinup.runs.storage.checkpoints import load_checkpoint
from spinup.runs.storage.locks import RunLock
from spinup.runs.storage.packing import FORGED
from spinup.utils.errors import SpinupError, printable
from spinup.utils.reading import count_rows

if TYPE_CHECKING:
    from spinup.runs.run import Run

# Arguments that affect rounding: a resumed run uses the recorded values. Not every algorithm has
# `compile`.
RECORDED = ("num_threads", "device", "shards", "compile")
# Not arguments: version 0.1.0 recorded these variables of DQN by mistake.
_STRAY = ("shares", "counts")
# Wrappers that a resumed run may add or omit, because they change no data. A time limit is compared
# as `max_episode_steps`.
_FREE = frozenset({*UNNEEDED, "RecordEpisodeStatistics", "TimeLimit"})
# The entries of a run's checkpoint, and their types.
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


# ---------------------------------------------------------------------------------------------
# The content of a checkpoint
# ---------------------------------------------------------------------------------------------


class Scalar:
    """A number that can be tracked."""

    def __init__(self, value: float):
        self.value = float(value)

    def state_dict(self) -> dict[str, float]:
        """Return the number, for a checkpoint."""
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Restore the number from a checkpoint."""
        self.value = float(state["value"])


def state_of(run: Run) -> dict[str, Any]:
    """Return the whole state of `run`; all processes must call this together."""
    return {
        "algo": run.algo,
        "backend": run.backend,
        "fingerprint": run.fingerprint,
        "env": _env_fingerprint(run),
        "recorded": {
            **{k: run.config[k] for k in RECORDED if k in run.config},
            "shards": run.shards.count,
        },
        "epoch": run.epoch,
        "total_steps": run.total_steps if run.row.on_policy else run.loop.total_steps(),
        "seconds": run.seconds(),
        "tracked": {name: obj.state_dict() for name, obj in run.tracked.items()},
        "shards": gather_lists([_shard_state(run, i) for i in range(len(run.streams))]),
        "tests": (run.test_kept and run.test_kept.state()) or run.test_state,
        "globals": run.global_state(),
        "logger": run.logger.state_dict(),
        **({} if run.diagnostics is None else {"diagnostics": run.diagnostics.state_dict()}),
    }


def _shard_state(run: Run, i: int) -> dict[str, Any]:
    return {
        "streams": run.streams[i].state_dict(),
        "rollout": run.rollouts[i].state_dict() if run.rollouts else None,
        "explore": run.explore_rngs[i].bit_generator.state,
        "minibatch": run.minibatch_rngs[i].bit_generator.state,
    }


def _env_fingerprint(run: Run) -> dict[str, Any]:
    """Return the properties that distinguish one environment from another."""
    record = run.env_record
    found: dict[str, Any] = as_json(
        {
            "id": record["id"],
            "class": record["class"],
            "kwargs": record["kwargs"] if record["exact_kwargs"] else None,
            "max_episode_steps": record["max_episode_steps"],
            "wrappers": [_described(w) for w in record["wrapper_specs"] if w["name"] not in _FREE],
            # An Atari game in any wrapper is stepped by itself, with true rewards.
            "vectorized": isinstance(run.streams[0], MaskedStreams),
            "observation_space": space_to_json(run.observation_space),
            "action_space": space_to_json(run.action_space),
        }
    )
    return found


def _described(wrapper: Mapping[str, Any]) -> str:
    # The arguments of a user's class are unknown, and so are those with a function among them.
    given = wrapper["kwargs"] or {}
    return f"{wrapper['name']}({', '.join(f'{k}={v}' for k, v in given.items())})"


# ---------------------------------------------------------------------------------------------
# Checking that a checkpoint matches the run
# ---------------------------------------------------------------------------------------------


def load_into(run: Run, output_dir: Path) -> tuple[dict[str, Any] | None, Path | None]:
    """Return the state and folder of the newest checkpoint, or two Nones; lock its run directory.

    The checkpoint must be one of `run`, which gets the arguments that the checkpoint records.
    """
    loaded = None
    if proc_id() == 0 and output_dir.is_dir():  # other processes may not have access to it
        run.closers.append(RunLock.shared(output_dir).release)
        loaded = read_checkpoint(output_dir)
    loaded = broadcast_object(loaded)
    if loaded is None:
        return None, None
    saved, where = loaded
    check_same_run(run.algo, run.backend, run.fingerprint, run.defaults, saved, where)
    apply_recorded(run.config, saved["recorded"])
    return saved, where


def read_checkpoint(output_dir: Path) -> tuple[dict[str, Any], Path] | None:
    """Return the newest checkpoint's state and folder, or None; `output_dir` must be locked."""
    loaded = load_checkpoint(output_dir / "checkpoints")
    if loaded is not None:
        _check_saved(*loaded)
    progress = output_dir / "progress.txt"
    # The first epoch is always saved, so a run without a checkpoint has at most one row.
    rows = 0
    if loaded is None and progress.is_file():
        try:
            rows = count_rows(progress)
        except OSError as error:
            raise SpinupError(
                f"{progress} cannot be read ({error.strerror}): restore the file, or start again "
                "with overwrite=True"
            ) from error
    if rows > 1:
        raise SpinupError(
            f"{output_dir} contains results but no checkpoint to resume from: omit resume to move "
            "them to .old/ and start again, or choose another output_dir"
        )
    return loaded


def _check_saved(saved: Any, where: Path) -> None:
    """Reject an intact checkpoint that was not saved by a run."""
    held = saved if isinstance(saved, dict) else {}
    wrong = [k for k, kind in _SAVED.items() if type(held.get(k)) is not kind]
    wrong += [] if wrong else [k for k in ("epoch", "total_steps") if saved[k] < 0]
    tests = held.get("tests")  # older checkpoints have none
    if tests is not None and (type(tests) is not dict or set(tests) != {"layers", "globals"}):
        wrong.append("tests")
    if type(held.get("diagnostics", {})) is not dict:  # older checkpoints have none
        wrong.append("diagnostics")
    if not wrong:
        threads, device, shards = (saved["recorded"].get(name, "") for name in RECORDED[:3])
        counts = (1 if threads is None else threads, shards)
        whole = all(type(n) is int and 1 <= n <= 2**15 for n in counts)
        compiled = saved["recorded"].get("compile", False)
        known = type(compiled) is bool or compiled == "graph"
        sound = whole and type(device) is str and device and known
        wrong = [] if sound else ["recorded"]
    if wrong:
        raise SpinupError(
            f"{where} is not the checkpoint of a run ({wrong[0]!r} is missing or has the "
            "wrong type): restore it from a backup, or start the run again with "
            "overwrite=True"
        )


def check_same_run(
    algo: str,
    backend: str,
    now: Mapping[str, Any],
    defaults: Mapping[str, Any],
    saved: dict[str, Any],
    where: Path,
) -> None:
    """Raise an error unless the saved run is the one to continue.

    An argument that did not exist when the run was saved is assumed to have its default value.
    """
    # Checkpoints that do not name their backend are older than tf1.
    saved_in = saved.get("backend", "pytorch" if backend == "tf1" else backend)
    if (saved["algo"], saved_in) != (algo, backend):
        raise SpinupError(
            f"{where} belongs to a run of {saved['algo']}_{saved_in}, not of {algo}_{backend}: use "
            "another output_dir"
        )
    then = {**defaults, **saved["fingerprint"]}
    names = {*now, *saved["fingerprint"]} - set(_STRAY)
    differing = sorted(k for k in names if k not in now or now[k] != then.get(k))
    if differing:
        changes = ", ".join(f"{k}: {then.get(k)!r} -> {now.get(k)!r}" for k in differing)
        annealed = "epochs" in differing and then.get("anneal_lr") and now.get("anneal_lr")
        why = "; with anneal_lr, learning rates depend on the number of epochs" if annealed else ""
        raise SpinupError(
            f"cannot resume exactly, because arguments differ from the saved run ({changes}{why}): "
            "use the same ones, or another output_dir"
        )


def check_same_env(run: Run, then: Mapping[str, Any]) -> None:
    """Raise an error if the environment differs from the saved run's."""
    now = _env_fingerprint(run)
    # older checkpoints do not name them
    then = {**{name: now[name] for name in ("wrappers", "vectorized")}, **then}
    differing = sorted(k for k in now if k not in then or now[k] != then[k])
    if differing:
        changes = ", ".join(f"{k}: {then.get(k)!r} -> {now[k]!r}" for k in differing)
        raise SpinupError(
            "cannot resume exactly, because the environment differs from that of the saved run "
            f"({changes}): use the same one, or another output_dir"
        )


def apply_recorded(config: dict[str, Any], recorded: Mapping[str, Any]) -> None:
    """Use the saved run's values for all arguments that affect rounding."""
    for name in (k for k in RECORDED if k in config):
        given, then = config[name], recorded.get(name, False)
        if given is None or given == "auto":
            config[name] = then
        elif given != then:
            if name == "shards":
                raise SpinupError(f"the saved run has shards={then}, not {given}: use the same")
            if proc_id() == 0:
                said = f"The saved run had {name}={then}, which is used again (given: {given})."
                print(printable(said))
            config[name] = then


# ---------------------------------------------------------------------------------------------
# Restoring a run
# ---------------------------------------------------------------------------------------------


def restore(run: Run, state: dict[str, Any]) -> None:
    """Restore `run` to a state returned by `state_of`."""
    missing = sorted(set(run.tracked) ^ set(state["tracked"]))
    if missing:
        raise SpinupError(
            f"the checkpoint does not match this version of {run.algo} (it differs in {missing}): "
            "resume it with the version that saved it"
        )
    run.epoch = state["epoch"]
    run.total_steps = state["total_steps"]
    run.test_state = state.get("tests")  # older checkpoints have none
    run.start_time = time.monotonic() - state["seconds"]
    with _in_one_sentence(run.algo):
        shards = [state["shards"][shard] for shard in run.shards.local]
        for name, obj in run.tracked.items():
            obj.load_state_dict(state["tracked"][name])
        for i, saved in enumerate(shards):
            run.explore_rngs[i].bit_generator.state = saved["explore"]
            run.minibatch_rngs[i].bit_generator.state = saved["minibatch"]
            if run.rollouts:
                run.rollouts[i].load_state_dict(saved["rollout"])
                _return_finished(saved["rollout"], saved["streams"], run.rollouts[i].steps)
    fresh: list[tuple[int, int]] = []
    for i, saved in enumerate(shards):
        for env in run.streams[i].load_state_dict(saved["streams"]):
            fresh.append((run.shards.local[i], env))
            if run.rollouts:  # the old episode is truncated here
                run.rollouts[i].finish_path(env, saved["streams"]["obs"][env])
    if run.rollouts:
        steps = sum(int(r.valid[: r.t].sum()) for r in run.rollouts)
        run.loop.continue_from([r.t for r in run.rollouts], steps)
    with _in_one_sentence(run.algo):
        run.logger.load_state_dict(state["logger"])
        if run.diagnostics is not None:
            run.diagnostics.load_state_dict(state["diagnostics"])
    for shard, env in gather_lists(fresh):
        where = f"{env} of shard {shard}" if run.shards.count > 1 else f"{env}"
        run.logger.log(
            f"Environment {where} could not be restored: it starts a fresh episode.", "yellow"
        )
    with _in_one_sentence(run.algo):
        run.set_global_state(state["globals"])


def _return_finished(rollout: dict[str, Any], streams: dict[str, Any], steps: int) -> None:
    """Put back finished episodes that version 0.1.0 moved from the streams to a full rollout."""
    if rollout["t"] == steps and len(rollout.get("ep_rets", ())):
        pairs = zip(rollout["ep_rets"].tolist(), rollout["ep_lens"].tolist(), strict=True)
        streams["finished"] = [list(pair) for pair in pairs]


@contextlib.contextmanager
def _in_one_sentence(algo: str) -> Iterator[None]:
    """Report any error that our own code raises on a checkpoint as a fault of the checkpoint."""
    try:
        yield
    except SpinupError:
        raise
    except FORGED as error:
        first = str(error).strip().splitlines() or [""]
        raise SpinupError(
            f"the checkpoint does not contain what this version of {algo} saves "
            f"({type(error).__name__}: {first[0][:200]}): restore it from a backup, or start the "
            "run again with overwrite=True"
        ) from error

"""Sinks: TensorBoard, Weights & Biases, and your own objects, to which a Logger sends its rows.

    ppo_pytorch(env_fn, logger_kwargs={"sinks": ["tensorboard", MySink()]})

`MySink` needs the four methods of `Sink`. TensorBoard and W&B receive the table's columns; the step
is `TotalEnvInteracts` if the row has it, otherwise the row number. The pip extra `track`
installs their packages.
"""

from __future__ import annotations

import importlib
import inspect
import io
import numbers
import os
import secrets
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from spinup.runs.storage.tables import append
from spinup.utils.command import join
from spinup.utils.errors import SpinupError, nearest
from spinup.utils.files import DiskError, atomic_write, open_own, own_folder

SINK_NAMES = ("tensorboard", "wandb")
_MOST_STEPS = 2**63 - 1  # an event has room for 64 bits


class Sink(Protocol):
    """The methods that a Logger calls. In an MPI run, only the first process calls them."""

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Record the run's configuration, which is plain JSON data."""

    def write_row(self, row: Mapping[str, Any], number: int) -> None:
        """Record one row of the table; `number` is its row number."""

    def cut_back(self, lines: Sequence[str]) -> None:
        """Discard the rows after `lines`, the part of the table that a resumed run keeps."""

    def close(self) -> None:
        """Flush the data and close the sink."""


def check_sinks(sinks: Any) -> list[str | Sink]:
    """Return the sinks as a list; raise `SpinupError` if one of them cannot be created.

    Checks names, packages, the login of W&B, and the methods of objects. Creates nothing.
    """
    if isinstance(sinks, str) or not isinstance(sinks, Iterable):
        sinks = [sinks]
    found = list(sinks)
    for sink in found:
        if sink == "tensorboard":
            _import("tensorboard", "tensorboard.summary.writer.record_writer")
        elif sink == "wandb":
            _check_login(_import("wandb", "wandb"))
        elif isinstance(sink, str):
            raise SpinupError(
                f"there is no log sink {sink!r}: choose from {', '.join(SINK_NAMES)}"
                f"{nearest(sink, SINK_NAMES)}"
            )
        else:
            methods = ("write_config", "write_row", "cut_back", "close")
            missing = [name for name in methods if not callable(getattr(sink, name, None))]
            if missing or isinstance(sink, type):
                what = f"lacks {', '.join(missing)}" if missing else "is a class: pass an object"
                raise SpinupError(
                    f"the log sink {sink!r} {what}; a sink is {' or '.join(map(repr, SINK_NAMES))} "
                    f"or an object with the methods {', '.join(methods)}"
                )
    return found


def _import(package: str, module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SpinupError(
            f"the log sink {package!r} needs the package {package}: run pip install 'spinup[track]'"
        ) from error


def _check_login(wandb: Any) -> None:
    """Raise `SpinupError` unless W&B works offline or accepts the user's key."""
    mode = os.environ.get("WANDB_MODE") or getattr(wandb.setup().settings, "mode", None)
    if mode in ("offline", "disabled", "dryrun") or getattr(wandb, "run", None) is not None:
        return
    fix = "run 'wandb login', or set WANDB_MODE=offline to log to files only"
    try:
        if "prompt" in inspect.signature(wandb.login).parameters:
            known = wandb.login(prompt=False)
        else:  # older versions
            known = bool(wandb.api.api_key)
    except wandb.errors.Error as error:
        raise SpinupError(f"Weights & Biases refused the login ({error}): {fix}") from error
    if not known:
        raise SpinupError(f"the log sink 'wandb' needs an API key, and none is configured: {fix}")


def make_sink(sink: str | Sink, output_dir: str, exp_name: str | None = None) -> Sink:
    """Create the sink of a name that `check_sinks` accepted; return an object as it is."""
    if sink == "tensorboard":
        return TensorBoardSink(output_dir)
    if sink == "wandb":
        return WandbSink(output_dir, exp_name)
    assert not isinstance(sink, str)
    return sink


def step_of(row: Mapping[str, Any], number: int) -> int:
    """Return a row's position on the horizontal axis: its step count, or its number."""
    steps = row.get("TotalEnvInteracts")
    if isinstance(steps, (int, float, np.number)) and 0 <= steps < _MOST_STEPS:
        return int(steps)
    return number


def _last_step(lines: Sequence[str]) -> int:
    """Return the position of a table's last row, as `step_of` computes it."""
    if not lines:
        return 0
    cells = dict(zip(lines[0].split("\t"), lines[-1].split("\t"), strict=True))
    try:
        return step_of({"TotalEnvInteracts": float(cells["TotalEnvInteracts"])}, len(lines) - 1)
    except (KeyError, ValueError):
        return len(lines) - 1


class TensorBoardSink:
    """Scalars in `<output_dir>/tensorboard`, for `tensorboard --logdir`.

    This needs neither torch nor TensorFlow. TensorBoard's own writer uses a thread, which would
    report a full disk only later, with a traceback.
    """

    def __init__(self, output_dir: str) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._event, self._session, self._summary = Event, SessionLog, Summary
        self._record = RecordWriter
        self.note = join(["tensorboard", "--logdir", output_dir])
        folder = os.path.join(output_dir, "tensorboard")
        own_folder(folder)
        # TensorBoard reads files in the order of their names: a resumed run's must come later, even
        # if it starts in the same second.
        now, more = divmod(time.time_ns(), 10**9)
        name = f"{now:010d}.{more:09d}.{socket.gethostname()}.{os.getpid()}"
        path = os.path.join(folder, f"events.out.tfevents.{name}")
        self._file = open(path, "xb", buffering=0)  # noqa: SIM115
        self._add(file_version="brain.Event:2")

    def _add(self, **content: Any) -> None:
        buffer = io.BytesIO()
        event = self._event(wall_time=time.time(), **content)
        self._record(buffer).write(event.SerializeToString())
        try:
            append(self._file.fileno(), buffer.getvalue())
        except OSError as error:
            raise DiskError(error, self._file.name) from error

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Do nothing: TensorBoard shows only scalars, and `config.json` has the rest."""

    def write_row(self, row: Mapping[str, Any], number: int) -> None:
        """Add one scalar per numeric column."""
        values = [
            self._summary.Value(tag=key, simple_value=float(value))
            for key, value in row.items()
            if isinstance(value, numbers.Real)
        ]
        self._add(step=step_of(row, number), summary=self._summary(value=values))

    def cut_back(self, lines: Sequence[str]) -> None:
        """Mark a session start after the last kept step, so that TensorBoard drops later rows."""
        start = self._session(status=self._session.START)
        self._add(step=_last_step(lines) + 1, session_log=start)

    def close(self) -> None:
        """Close the event file."""
        self._file.close()


class WandbSink:
    """A Weights & Biases run; a resumed run continues it, using the ID in `wandb_id.txt`."""

    def __init__(self, output_dir: str, exp_name: str | None = None) -> None:
        import wandb

        own_folder(Path(output_dir, "wandb"), create=False)
        id_file = Path(output_dir, "wandb_id.txt")
        run_id = secrets.token_hex(4)
        if os.path.lexists(id_file):
            with open(id_file, encoding="utf-8", opener=open_own) as file:
                run_id = file.read(128).strip()
        try:
            self._run = wandb.init(dir=output_dir, name=exp_name, id=run_id, resume="allow")
        except Exception as error:  # its own errors, and those of the network and the disk
            why = str(error).strip().partition("\n")[0] or type(error).__name__
            raise SpinupError(
                f"Weights & Biases cannot start a run ({why}): run 'wandb login', set "
                "WANDB_MODE=offline, or leave out the sink"
            ) from error
        atomic_write(id_file, f"{run_id}\n".encode())

    def write_config(self, config: Mapping[str, Any]) -> None:
        """Show the configuration on the run's page."""
        self._run.config.update(dict(config), allow_val_change=True)

    def write_row(self, row: Mapping[str, Any], number: int) -> None:
        """Log the row."""
        self._run.log(dict(row), step=step_of(row, number))

    def cut_back(self, lines: Sequence[str]) -> None:
        """Do nothing: W&B keeps the first row of each step, and a resumed run repeats it."""

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()

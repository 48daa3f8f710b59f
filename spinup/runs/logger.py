"""Logging: a run's table on the terminal, `progress.txt`, `config.json` and saved models.

    logger = EpochLogger(output_dir="data/test")
    logger.save_config(dict(lr=1e-3))
    for epoch in range(10):
        for _ in range(100):
            logger.store(Reward=random())
        logger.log_tabular("Epoch", epoch)
        logger.log_tabular("Reward", with_min_and_max=True)
        logger.dump_tabular()

In an MPI run, only the first process writes and prints. Importing this module imports neither torch
nor TensorFlow, and a module that only one step of a run needs is imported there.
"""

from __future__ import annotations

import contextlib
import glob
import io
import numbers
import os
import re
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from spinup.parallel.mpi import chunk_statistics, proc_id, to_float
from spinup.utils.errors import SpinupError, check_name
from spinup.utils.files import atomic_write, json_bytes

if TYPE_CHECKING:
    from spinup.runs.sinks import Sink
    from spinup.runs.storage.locks import RunLock
    from spinup.runs.storage.tables import Table

# the ANSI codes of colors; user code reads this name
color2num = dict(
    gray=30, red=31, green=32, yellow=33, blue=34, magenta=35, cyan=36, white=37, crimson=38
)


class LogKeyError(SpinupError, AssertionError):
    """A column that does not fit the table; also an `AssertionError`, for existing user code."""


def colorize(string: str, color: str, bold: bool = False, highlight: bool = False) -> str:
    """Wrap `string` in ANSI codes for `color`; `highlight` colors the background instead."""
    if color not in color2num:
        raise SpinupError(f"there is no color {color!r}: choose from {', '.join(color2num)}")
    codes = [str(color2num[color] + (10 if highlight else 0))]
    if bold:
        codes.append("1")
    return f"\x1b[{';'.join(codes)}m{string}\x1b[0m"


def table_name(given: str | os.PathLike[str]) -> str:
    """Return the name of a table; raise an error unless it is a visible file of the run itself."""
    name = os.fspath(given) if isinstance(given, str | os.PathLike) else ""
    check_name(name, "output_fname")
    if not name.strip() or name.startswith(".") or "\\" in name or os.path.basename(name) != name:
        raise SpinupError(
            "output_fname must be the plain name of a file, such as progress.txt, without folders "
            f"and without a dot at its beginning, not {given!r}"
        )
    return name


class Logger:
    """Writes a run directory: one row per epoch, the configuration, and the model.

    Args:
        output_dir: the run directory; created if missing. None creates a temporary one.
        output_fname: the name of the tab-separated table in it: a plain name, without folders.
        exp_name: the name of the experiment, recorded in `config.json`.
        resume: continue the run in `output_dir` instead of starting a new one.
        overwrite: delete an earlier run's files in `output_dir`. By default, they are moved to
            `<output_dir>/.old/<NNN>`.
        quiet: print no table and no messages, except about files that were moved or not saved.
        sinks: other destinations for the rows: `'tensorboard'`, `'wandb'`, or objects with the
            methods of `spinup.runs.sinks.Sink`.

    User code may read `output_dir, output_file, first_row, log_headers, log_current_row,
    exp_name`. In processes other than the first, `output_dir` and `output_file`` are None.
    """

    durable_rows = True  # whether a row waits for the disk

    def __init__(
        self,
        output_dir: str | os.PathLike[str] | None = None,
        output_fname: str = "progress.txt",
        exp_name: str | None = None,
        *,
        resume: bool = False,
        overwrite: bool = False,
        quiet: bool = False,
        sinks: Iterable[str | Sink] = (),
    ) -> None:
        if resume and overwrite:
            raise SpinupError("resume and overwrite exclude each other: pass only one of them")
        self.exp_name = exp_name
        self.first_row = True
        self.log_headers: list[str] = []
        self.log_current_row: dict[str, Any] = {}
        self.output_dir: str | None = None
        self.output_file: TextIO | None = None
        self.quiet = quiet
        self._rows = 0
        self._warned: set[str] = set()
        self._policy_meta: dict[str, Any] | None = None
        self._fname = table_name(output_fname)
        self._token = object()
        self._lock: RunLock | None = None
        self._table: Table  # of the first process, as the other files
        self._closers = contextlib.ExitStack()
        self.sinks: list[Sink] = []
        # Runs at garbage collection or at exit, whichever is first; must not refer to self.
        self._finalizer = weakref.finalize(self, self._closers.close)
        if proc_id() == 0:
            try:
                with self.writing():
                    self._open(output_dir, resume, overwrite, sinks)
            except BaseException:
                self.close()
                raise

    # ---- the run directory ----------------------------------------------------------------------

    def _open(
        self,
        output_dir: str | os.PathLike[str] | None,
        resume: bool,
        overwrite: bool,
        sinks: Iterable[str | Sink],
    ) -> None:
        from spinup.runs.storage import directory
        from spinup.runs.storage.locks import RunLock
        from spinup.runs.storage.tables import Table, record_name

        if sinks:
            from spinup.runs.sinks import check_sinks, make_sink

            sinks = check_sinks(sinks)  # before anything is created
        if output_dir is None:
            # unique even if two runs start in the same second
            stamp = time.strftime("%Y-%m-%d_%H-%M-%S")
            output_dir = tempfile.mkdtemp(prefix=f"spinup_{stamp}_")
        self.output_dir = os.fspath(output_dir)
        check_name(self.output_dir, "the output directory")
        self._lock = lock = RunLock.shared(self.output_dir)
        self._closers.callback(lock.release)
        # Another live Logger in this process that writes a different table (for example, for
        # evaluation) shares the directory. A Logger with the same table belongs to an earlier run,
        # which has ended even if its Logger was never closed.
        joins = bool(lock.claims) and self._fname not in lock.claims
        earlier = [glob.escape(name) for name in (self._fname, record_name(self._fname))]
        if not joins:
            lock.claims.clear()
            directory.remove_temporaries(self.output_dir)
            earlier += directory.RUN_FILES
        lock.claims[self._fname] = self._token
        self._closers.callback(_give_up_claim, lock.claims, self._fname, self._token)
        if resume and not joins:
            from spinup.runs.storage.checkpoints import drop_pieces

            directory.check_folders(self.output_dir)
            drop_pieces(Path(self.output_dir, "checkpoints"))
        elif overwrite:
            directory.delete_files(self.output_dir, earlier)
        elif not resume and (moved := directory.move_to_old(self.output_dir, earlier)):
            self._notice(moved, "yellow")
        self._table = Table(self.path(self._fname))
        self.output_file = self._table.file
        self._closers.callback(self.output_file.close)
        if resume and (lines := self._table.read_lines()):
            self.log_headers = lines[0].split("\t")
            self.first_row = False
            self._rows = len(lines) - 1
        for given in sinks:
            sink = make_sink(given, self.output_dir, self.exp_name)
            self.sinks.append(sink)
            self._closers.callback(sink.close)
            if note := getattr(sink, "note", ""):
                self.log(f"To watch it: {note}")
        self.log(f"Logging to {os.path.join(self.output_dir, self._fname)}", color="green")

    def check_owner(self) -> None:
        """Raise an error if this Logger was closed or replaced, or if its directory is gone."""
        lock = self._lock
        if lock is None or not lock.held or lock.claims.get(self._fname) is not self._token:
            raise SpinupError(
                f"this Logger no longer owns {self.output_dir} (it was closed, or a newer Logger "
                "was created for the same directory): use the newer one"
            )
        assert self.output_file is not None
        lock.check({self._fname: self.output_file.fileno()})

    def close(self) -> None:
        """Close the files and release the lock (also done at exit). Safe to call twice."""
        self._finalizer()
        self._lock = None

    def mark_finished(self) -> None:
        """Record that the run is complete, so that no message suggests resuming it."""
        if proc_id() == 0:
            self.check_owner()
            with self.writing(self._fname):
                self._table.record()
                atomic_write(self.path(".finished"), b"finished\n")
            self.check_owner()  # the directory may have disappeared in the meantime

    @contextlib.contextmanager
    def writing(self, name: str = "") -> Iterator[None]:
        """Report a full disk in one sentence: the file, and what the directory still contains."""
        try:
            yield
        except OSError as error:
            if isinstance(error, ConnectionError):  # a closed pipe, not the disk
                raise
            if self._lock is not None and self.output_file is not None:
                self.check_owner()  # if the directory is gone, say so instead
            from spinup.runs.storage.directory import failed

            raise failed(error, self.output_dir or "", name) from error

    def path(self, *parts: str) -> str:
        """Return the absolute path of a file in the run directory; only the first process may."""
        assert self._lock is not None
        return os.path.join(self._lock.path, *parts)

    # ---- messages and the table -----------------------------------------------------------------

    def log(self, msg: str, color: str = "green") -> None:
        """Print a line in color, or without color if the environment variable NO_COLOR is set."""
        if not self.quiet:
            self._notice(msg, color)

    def _notice(self, msg: str, color: str) -> None:
        """Print a line even in a quiet run: where files were moved, or what was not saved."""
        if proc_id() == 0:
            plain = bool(os.environ.get("NO_COLOR"))
            print(msg if plain else colorize(msg, color, bold=True), flush=True)

    def log_tabular(self, key: str, val: Any) -> None:
        """Set one column of the current row. The first row fixes the table's columns."""
        if key in self.log_current_row:
            raise LogKeyError(f"{key!r} was already set in this row; call dump_tabular() first")
        if self.first_row:
            if "\t" in key or len(key.splitlines()) > 1:
                raise LogKeyError(
                    f"the key {key!r} contains a tab or a line break: choose another name"
                )
            self.log_headers.append(key)
        elif key not in self.log_headers:
            raise LogKeyError(
                f"{key!r} is not a column of this table; log it in the first row too (or as NaN)"
            )
        self.log_current_row[key] = _cell(val)

    def dump_tabular(self) -> None:
        """Print the row and durably append it to the file; only the last line can be partial."""
        if proc_id() == 0:
            self.check_owner()
            row = {key: self.log_current_row.get(key, "") for key in self.log_headers}
            if not self.quiet:
                from spinup.runs.screen import table

                print(table(row), flush=True)
            self._append_row(row)
        self.log_current_row.clear()
        self.first_row = False

    def _append_row(self, row: Mapping[str, Any]) -> None:
        lines = "\t".join(self.log_headers) + "\n" if self.first_row else ""
        lines += "\t".join(str(v) for v in row.values()) + "\n"
        with self.writing(self._fname):
            self._table.append(lines, self.durable_rows)
            self._rows += 1
            # a finished run that gets more epochs is unfinished again
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.path(".finished"))
        for sink in self.sinks:
            sink.write_row(row, self._rows)

    # ---- resuming -------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state that a checkpoint needs to continue the table from this row."""
        with self.writing(self._fname):
            size, digest = (0, "") if self.output_file is None else self._table.saved()
        return {
            "rows": self._rows,
            "offset": size,
            "sha256": digest,
            "headers": list(self.log_headers),
            "first_row": self.first_row,
            "current_row": dict(self.log_current_row),
        }

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """Return to `state`: remove the rows written after it. None empties the table."""
        if state is None:
            state = {"rows": 0, "offset": 0, "headers": [], "first_row": True, "current_row": {}}
        if self.output_file is not None:
            self.check_owner()
            with self.writing(self._fname):
                cut = self._table.cut_back(state)
                if cut is not None:
                    for sink in self.sinks:
                        sink.cut_back(cut)
        self._rows = int(state["rows"])
        self.log_headers = list(state["headers"])
        self.first_row = bool(state["first_row"])
        self.log_current_row = dict(state["current_row"])

    # ---- configuration and models ---------------------------------------------------------------

    def save_config(self, config: Any) -> None:
        """Write `config.json` and print it; `config` can be any object, often `locals()`."""
        text = self.write_config(config)
        if not self.quiet and text is not None:
            self.log("Configuration of this run:", color="cyan")
            print(text, flush=True)

    def write_config(self, config: Any) -> str | None:
        """Write `config.json` and return its text; None in processes other than the first."""
        from spinup.utils.serialization_utils import convert_json

        shown = convert_json(config)
        if not isinstance(shown, dict):
            shown = {"config": shown}
        if self.exp_name is not None:
            shown["exp_name"] = self.exp_name
        if proc_id() != 0:
            return None
        self.check_owner()
        text = json_bytes(shown)
        with self.writing():
            atomic_write(self.path("config.json"), text)
        for sink in self.sinks:
            sink.write_config(shown)
        return text.decode().rstrip()

    def save_state(self, state_dict: Mapping[str, Any], itr: int | None = None) -> None:
        """Write `vars[itr].pkl` (unless `state_dict` is empty), then the model.

        The pickle is for user code; this library reads it only if the user trusts pickles. If the
        state cannot be pickled, it is skipped with one warning; a disk error is raised.
        """
        if proc_id() != 0:
            return
        self.check_owner()
        with self.writing(self._fname):
            self._table.record()
        with self.writing():
            if state_dict:
                import cloudpickle  # also pickles classes and functions of a script or a notebook

                self.write_pickle(f"vars{_number(itr)}.pkl", state_dict, cloudpickle.dump)
            if hasattr(self, "tf_saver_elements"):
                self._tf_simple_save(itr)
            if hasattr(self, "pytorch_saver_elements"):
                self._pytorch_simple_save(itr)

    def write_pickle(self, name: str, what: Any, dump: Callable[[Any, io.BytesIO], None]) -> None:
        """Write what `dump` pickles; if it fails, skip the file with one notice."""
        buffer = io.BytesIO()
        try:
            dump(what, buffer)
        # Pickling a user's object can raise anything, but not disk errors: it happens in memory.
        except Exception as error:
            plain = re.sub(r"\d", "", os.path.basename(name))
            if plain not in self._warned:
                self._warned.add(plain)
                said = f"{plain} is not written because it cannot be pickled: {error!r}"
                self._notice(said, "red")
        else:
            atomic_write(self.path(name), buffer.getvalue())

    def setup_pytorch_saver(
        self, what_to_save: Any, policy_meta: Mapping[str, Any] | None = None
    ) -> None:
        """Choose the object that `save_state` saves: a module, or anything that can be pickled.

        Args:
            what_to_save: the object for `pyt_save/model[itr].pt`.
            policy_meta: the data needed to rebuild the policy (algorithm, spaces, `ac_kwargs`,
                environment), for `pyt_save/policy[itr].json`.
        """
        self.pytorch_saver_elements = what_to_save
        self._policy_meta = None if policy_meta is None else dict(policy_meta)

    def _pytorch_simple_save(self, itr: int | None = None) -> None:
        """Write `pyt_save/model[itr].pt` and, for a module, a safely loadable policy."""
        if proc_id() == 0:
            from spinup.runs.storage.policies import save_model

            self.check_owner()
            save_model(self, self.pytorch_saver_elements, _number(itr), self._policy_meta)

    def setup_tf_saver(
        self,
        sess: Any,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any],
        policy_meta: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        """Choose the session and the tensors that `save_state` saves (TensorFlow graph mode).

        `policy_meta` is as for `setup_pytorch_saver`; `GraphSaver` describes the others.
        """
        from spinup.registry import GRAPH_SAVER
        from spinup.utils.importing import import_named

        saver = import_named(GRAPH_SAVER).GraphSaver  # in a layer above this one
        self.tf_saver_elements = saver(sess, inputs, outputs, policy_meta, **more)
        self.tf_saver_info = self.tf_saver_elements.names

    def _tf_simple_save(self, itr: int | None = None) -> None:
        """Write `tf1_save[itr]/`: a SavedModel, and the names of its inputs and outputs."""
        if proc_id() == 0:
            self.check_owner()
            with self.writing(name := f"tf1_save{_number(itr)}"):
                self.tf_saver_elements.save(self.path(name))


class EpochLogger(Logger):
    """A Logger that collects values during an epoch (`store`) and logs their statistics."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.epoch_dict: dict[str, list[Any]] = {}

    def store(self, **kwargs: Any) -> None:
        """Add values to this epoch: numbers, or arrays, whose elements are added one by one."""
        for key, value in kwargs.items():
            # copy, because environments and optimizers reuse their arrays
            if isinstance(value, np.ndarray):
                value = value.copy()
            elif hasattr(value, "detach"):
                value = value.detach().clone()  # stays on its device until statistics are computed
            self.epoch_dict.setdefault(key, []).append(value)

    def log_tabular(
        self,
        key: str,
        val: Any = None,
        with_min_and_max: bool = False,
        average_only: bool = False,
    ) -> None:
        """Log `val` or, if it is None, the statistics of the values stored under `key`.

        Clears the stored values. All processes of an MPI run must call this together. If nothing
        was stored, the statistics are NaN.
        """
        if val is not None:
            super().log_tabular(key, val)
            return
        mean, std, low, high = self._statistics(key)
        super().log_tabular(key if average_only else f"Average{key}", mean)
        if not average_only:
            super().log_tabular(f"Std{key}", std)
        if with_min_and_max:
            super().log_tabular(f"Max{key}", high)
            super().log_tabular(f"Min{key}", low)
        self.epoch_dict[key] = []

    def get_stats(self, key: str) -> tuple[float, float]:
        """Return the mean and standard deviation of the values under `key`, which stay stored."""
        return self._statistics(key)[:2]

    def _statistics(self, key: str) -> tuple[float, float, float, float]:
        return chunk_statistics([_to_numpy(v) for v in self.epoch_dict.get(key, [])])

    def state_dict(self) -> dict[str, Any]:
        """Return the Logger's state and the values stored in this epoch."""
        chunks = {k: [_to_numpy(v) for v in values] for k, values in self.epoch_dict.items()}
        return {**super().state_dict(), "epoch_dict": chunks}

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """Return to `state`, including the values stored in its epoch."""
        super().load_state_dict(state)
        stored = {} if state is None else state["epoch_dict"]
        self.epoch_dict = {k: list(values) for k, values in stored.items()}


# ---- helpers ------------------------------------------------------------------------------------


def _give_up_claim(claims: dict[str, object], fname: str, token: object) -> None:
    if claims.get(fname) is token:
        del claims[fname]


def _number(itr: int | str | None) -> str:
    """Return the number in a save's file names; empty for `itr=None`."""
    if itr is None:
        return ""
    try:
        return str(int(itr))
    except ValueError as error:
        raise SpinupError(f"itr must be a number, None or 'last', not {itr!r}") from error


def _to_numpy(value: Any) -> Any:
    """Convert a torch tensor to an array; return anything else unchanged."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        # NumPy has no bfloat16
        return value.float().numpy() if str(value.dtype) == "torch.bfloat16" else value.numpy()
    return value


def _cell(value: Any) -> Any:
    """Convert `value` to a cell of the table: a number or one line of text."""
    value = _to_numpy(value)
    if isinstance(value, (np.ndarray, list, tuple)) and np.size(value) == 1:
        # extract the scalar with its dtype; newer NumPy rejects float() of a size-1 array
        value = np.asarray(value).reshape(())[()]
    if isinstance(value, int) and value.bit_length() > 1000:
        return to_float(value)  # neither text nor sinks have room for it
    if isinstance(value, (bool, numbers.Number, np.bool_)):
        return value
    return " ".join(str(value).split()) if value is not None else "None"

"""A run as the rules see it: its tables, its settings and, on demand, its checkpoint.

Everything is read as text, JSON or safetensors. Nothing of a run directory is executed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from spinup.analysis.curves import CHANGED, checked_table, one_line
from spinup.utils.findings import Finding
from spinup.utils.reading import read_json, read_table
from spinup_lab.doctor.rule import ON_POLICY, Skip

if TYPE_CHECKING:
    from spinup_lab.doctor.saved import Saved

# Which columns give away the algorithm of a run whose config.json does not name it.
_SIGNS = (
    ("acer", "TrustFrac"),
    ("dqn", "Epsilon"),
    ("sac", "AverageLogPi"),
    ("td3", "AverageQ1Vals"),
    ("ppo", "StopIter"),
    ("trpo", "BacktrackIters"),
    ("ddpg", "AverageQVals"),
    ("vpg", "AverageVVals"),
)
_PERSISTS, _WINDOW, _SHARE = 3, 10, 0.6
FEW_ROWS = 8  # a run with fewer rows gives hints at most, except for exact rules


class Record:
    """The tables and settings of one run directory.

    Attributes:
        folder: the run directory.
        config: the contents of `config.json`, or an empty dict.
        columns: name -> one number per complete row; those of `diagnostics.txt` are included.
        rows: number of complete rows of `progress.txt`.
        problems: what is wrong with the files or was not examined, as sentences.
        algo: name of the algorithm ('' if unknown); `base` is the one that learns, for HER.
        play: number of episodes that the rules of tier 3 may play.
    """

    def __init__(self, folder: str | Path, play: int = 0):
        self.folder = Path(folder)
        self.play = play
        self.problems: list[str] = []
        self.config = _json(self.folder / "config.json")
        self.columns, self.rows, changed = _progress(self.folder / "progress.txt")
        if changed:
            self.problems.append(CHANGED)
        self.changed = changed
        diagnosed = _diagnostics(self.folder, self.columns, self.rows)
        self.diagnosed = frozenset(name for name in diagnosed if name not in self.columns)
        self.columns.update((name, diagnosed[name]) for name in self.diagnosed)
        self.algo = self._algorithm()
        self.base = self._base()
        self.problems += self._notes()

    def _notes(self) -> Iterator[str]:
        """Yield what a reader should know before trusting that nothing was found."""
        epochs = self.config.get("epochs")
        short = self.ours and isinstance(epochs, int) and self.rows < epochs
        if short and not (self.folder / ".finished").is_file():
            yield (
                f"only {self.rows} of {epochs} epochs are logged and the run is not marked as "
                "finished: it is running, was interrupted, or ended with an error, such as a loss "
                "that became NaN; its output says which"
            )
        for name in ("pyt_save", "tf1_save"):
            file = self.folder / name / "policy.json"
            if file.is_file() and not _json(file):
                yield f"{file} cannot be read, so rules on the policy were skipped"
        backend = self.config.get("backend")
        if isinstance(backend, str) and backend != "pytorch":
            yield (
                f"checkpoints of the backend {one_line(backend)} are not examined, so the rules on "
                "them (C) were skipped"
            )

    def _algorithm(self) -> str:
        named = self.config.get("algo")
        if isinstance(named, str):
            return named
        return next((algo for algo, column in _SIGNS if column in self.columns), "")

    def _base(self) -> str:
        if self.algo != "her":
            return self.algo
        base = self.config.get("base")
        if isinstance(base, str):
            return base
        return "dqn" if "Epsilon" in self.columns else "ddpg"

    # ---- settings ------------------------------------------------------------------------------

    @property
    def ours(self) -> bool:
        """Whether this library wrote the run; the original's counters differ by one."""
        return "spinup_version" in self.config

    @property
    def on_policy(self) -> bool:
        """Whether the algorithm learns only from the current policy's data."""
        return self.base in ON_POLICY

    def setting(self, name: str, default: Any = None) -> Any:
        """Return an argument of the run; HER keeps those of its base in `base_kwargs`."""
        inner = self.config.get("base_kwargs")
        if self.algo == "her" and isinstance(inner, dict) and name in inner:
            return inner[name]
        value = self.config.get(name)
        return default if value is None else value

    def number(self, name: str, default: float | None = None) -> float:
        """Return a numeric argument of the run; skip the rule if it is not recorded."""
        value = self.setting(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Skip(f"config.json has no number {name}")
        return float(value)

    def normalizes(self, what: str) -> bool:
        """Return whether the networks were asked to normalize 'obs' or 'ret'."""
        kwargs = self.config.get("ac_kwargs")
        return isinstance(kwargs, dict) and bool(kwargs.get(f"normalize_{what}"))

    @property
    def limit(self) -> float:
        """The longest episode: the environment's time limit or `max_ep_len`, if known."""
        record = self.config.get("env")
        own = record.get("max_episode_steps") if isinstance(record, dict) else None
        known = [x for x in (own, self.config.get("max_ep_len")) if isinstance(x, int | float)]
        return min(known, default=math.inf)

    @functools.cached_property
    def policy_meta(self) -> dict[str, Any]:
        """The description of the saved policy, or an empty dict."""
        for name in ("pyt_save", "tf1_save"):
            found = _json(self.folder / name / "policy.json")
            if found:
                return found
        return {}

    @property
    def action_space(self) -> dict[str, Any]:
        """The action space as JSON; empty if it is not recorded."""
        space = self.policy_meta.get("action_space")
        return space if isinstance(space, dict) else {}

    @property
    def act_dim(self) -> int:
        """Number of dimensions of a Box of actions; skips the rule for other spaces."""
        if not self.box:
            raise Skip("the actions are not a Box" if self.action_space else _NO_POLICY)
        return int(np.prod(self.action_space.get("shape") or [1]))

    @property
    def discrete(self) -> bool:
        """Whether the actions are known to be Discrete."""
        return bool(self.action_space.get("type") == "Discrete")

    @property
    def box(self) -> bool:
        """Whether the actions are known to be a Box."""
        return bool(self.action_space.get("type") == "Box")

    @property
    def n_actions(self) -> int:
        """Number of Discrete actions; skips the rule for other spaces."""
        if not self.discrete:
            raise Skip("the actions are not Discrete" if self.action_space else _NO_POLICY)
        return int(self.action_space["n"])

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """The bounds of a Box of actions, one number per dimension."""
        dim = self.act_dim
        ends = (self.action_space.get(name) for name in ("low", "high"))
        low, high = (np.broadcast_to(_floats(x), dim).astype(float) for x in ends)
        return low, high

    @property
    def natural_gradient(self) -> bool:
        """Whether a TRPO run takes natural gradient steps, without a line search."""
        found = _json(newest_checkpoint(self.folder) / "state.json").get("fingerprint")
        return isinstance(found, dict) and found.get("algo") == "npg"

    @property
    def goal(self) -> bool:
        """Whether the environment gives a goal with every observation."""
        return self.algo == "her"

    @property
    def images(self) -> bool:
        """Whether the observations are images."""
        space = self.policy_meta.get("observation_space")
        shape = space.get("shape") if isinstance(space, dict) else None
        return isinstance(shape, list) and len(shape) >= 2

    # ---- columns -------------------------------------------------------------------------------

    def has(self, name: str) -> bool:
        """Return whether the run logged a column."""
        return name in self.columns

    def column(self, *names: str) -> np.ndarray:
        """Return the first of these columns that the run has; skip the rule if it has none."""
        for name in names:
            if name in self.columns:
                return self.columns[name]
        raise Skip(f"there is no column {' or '.join(names)}")

    @property
    def performance(self) -> np.ndarray:
        """The return of test episodes if there are any, else that of training episodes."""
        return self.column("AverageTestEpRet", "AverageEpRet", "Performance")

    @property
    def q(self) -> str:
        """The name of the critic's column: QVals, or Q1Vals for twins."""
        for name in ("QVals", "Q1Vals"):
            if self.has(f"Average{name}"):
                return name
        raise Skip("there is no column AverageQVals or AverageQ1Vals")

    def epoch(self, row: SupportsIndex) -> int:
        """Return the number of the epoch of a row."""
        epochs = self.columns.get("Epoch")
        value = epochs[row] if epochs is not None else math.nan
        return int(value) if math.isfinite(value) else int(row) % max(1, self.rows)

    def span(self, rows: Sequence[SupportsIndex] | np.ndarray) -> tuple[int, int] | None:
        """Return the first and last epoch of some rows."""
        return (self.epoch(rows[0]), self.epoch(rows[-1])) if len(rows) else None

    def found(
        self,
        sentence: str,
        rows: Sequence[SupportsIndex] | np.ndarray = (),
        level: str | None = None,
        part: str | None = None,
    ) -> Finding:
        """Return what a check saw in some rows; the rule adds what it says about it.

        `level` and `part` override the rule's own, for a check that can tell causes apart.
        """
        return Finding("", level or "", part or "", sentence, epochs=self.span(rows))

    @property
    def last(self) -> int:
        """How many rows count as the end of the run."""
        return max(5, self.rows // 10)

    @property
    def updated(self) -> np.ndarray:
        """Whether each row comes after the first gradient step."""
        loss = self.columns.get("LossQ", self.columns.get("LossPi"))
        return np.ones(self.rows, bool) if loss is None else np.isfinite(loss)

    def after(self, share: float) -> np.ndarray:
        """Return whether each row comes after this share of the planned epochs."""
        epochs = self.config.get("epochs")
        planned = epochs if isinstance(epochs, int) and epochs >= self.rows else self.rows
        return np.arange(self.rows) >= share * planned

    def need_signal(self) -> None:
        """Skip the rule if all episodes return the same, so that there is nothing to learn."""
        returns, noise = self.columns.get("AverageEpRet"), self.columns.get("StdEpRet")
        if returns is None or noise is None or not np.isfinite(returns).any():
            return
        if np.nanmax(noise) <= 1e-9 and np.nanmax(returns) - np.nanmin(returns) <= 1e-9:
            raise Skip("all episodes return the same")

    def need_rows(self, rows: int) -> None:
        """Skip the rule if the run has fewer rows than this."""
        if self.rows < rows:
            raise Skip(f"it needs {rows} rows, and there are {self.rows}")

    # ---- what the run saved --------------------------------------------------------------------

    @functools.cached_property
    def saved(self) -> Saved:
        """The newest checkpoint and the saved policy."""
        from spinup_lab.doctor.saved import Saved

        return Saved(self)


_NO_POLICY = "there is no saved policy that names the action space"


def newest_checkpoint(folder: Path) -> Path:
    """Return the folder of the newest checkpoint, by its name; it need not exist or be intact."""
    return max(folder.glob("checkpoints/step-*"), default=folder / "checkpoints" / "none")


def persists(bad: np.ndarray) -> np.ndarray:
    """Return the rows at the end of the run in which something persists; none if it does not.

    It persists if it is true in the last 3 rows and in 60 % of the last 10.
    """
    recent = bad[-_WINDOW:]
    if len(bad) < _PERSISTS or not bad[-_PERSISTS:].all() or recent.mean() < _SHARE:
        return np.zeros(0, dtype=int)
    return np.flatnonzero(bad)[-int(recent.sum()) :]


def longest(bad: np.ndarray) -> np.ndarray:
    """Return the rows of the longest stretch in which something is true."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], bad, [False]])))
    if not len(edges):
        return edges
    starts, ends = edges[::2], edges[1::2]
    i = int(np.argmax(ends - starts))
    return np.arange(starts[i], ends[i])


def _json(path: Path) -> dict[str, Any]:
    try:
        found = read_json(path)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _floats(value: Any) -> np.ndarray:
    """Convert bounds from JSON, where infinity is a string."""
    return np.array(value, dtype=float)


def _progress(path: Path) -> tuple[dict[str, np.ndarray], int, bool]:
    try:
        text, changed = checked_table(path)
    except OSError:
        return {}, 0, False
    return (*_table(text), changed)


def _diagnostics(folder: Path, known: dict[str, np.ndarray], rows: int) -> dict[str, np.ndarray]:
    """Return the columns of `diagnostics.txt` in the rows of `progress.txt`, by their epoch."""
    try:
        columns, _ = _table(read_table(folder / "diagnostics.txt"))
    except OSError:
        return {}
    epochs, ours = columns.get("Epoch"), known.get("Epoch")
    if epochs is None or ours is None:
        return {}
    place = {epoch: row for row, epoch in enumerate(epochs)}
    where = np.array([place.get(epoch, -1) for epoch in ours], dtype=int)
    if not len(epochs) or len(ours) != rows:
        return {}
    return {name: np.where(where >= 0, x[where], np.nan) for name, x in columns.items()}


def _table(text: str) -> tuple[dict[str, np.ndarray], int]:
    """Convert a table to numbers; what is not a number becomes NaN."""
    first, *lines = text.split("\n")[:-1] or [""]  # what follows the last line break is incomplete
    header = first.split("\t")
    fields = [line.split("\t") for line in lines]
    fields = [row for row in fields if len(row) == len(header) and row != header]
    if not first or len(set(header)) < len(header):
        return {}, 0
    columns = {
        one_line(name): np.array([_number(row[i]) for row in fields])
        for i, name in enumerate(header)
    }
    return columns, len(fields)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return {"True": 1.0, "False": 0.0}.get(text, math.nan)

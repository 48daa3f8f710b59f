"""What a run saved: its newest checkpoint and its policy, as arrays.

Checkpoints and policies are read by the library's own loaders, which open only JSON and
safetensors. Networks are rebuilt only from the library's own classes.
"""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spinup.runs.storage.arrays import Piece
from spinup.runs.storage.checkpoints import load_checkpoint
from spinup_lab.doctor.rule import Skip

# Entries of a network's state that no optimizer trains.
BUFFERS = ("act_limit", "act_center", ".mean", ".std", ".sums", "ret_filter")
# At most this many of the newest transitions are examined.
MOST_ROWS = 20_000
FIELDS = ("obs", "act", "rew", "obs2", "done")


@dataclass(frozen=True)
class Optimizer:
    """The state of an Adam optimizer: its number of steps, its rate and its squared gradients."""

    name: str
    steps: int
    lr: float
    squares: list[np.ndarray | None]  # None: the parameter never got a gradient


class Saved:
    """A run's newest intact checkpoint; raises `Skip` if there is none that can be examined."""

    def __init__(self, record: Any):
        self.record = record
        folder = Path(record.folder) / "checkpoints"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # an older checkpoint is as good here
            found = load_checkpoint(folder)
        if found is None:
            raise Skip("there is no checkpoint")
        self.state: dict[str, Any] = found[0]
        if self.state.get("backend") != "pytorch":
            raise Skip(f"checkpoints of the backend {self.state.get('backend')} are not examined")
        self.tracked: dict[str, Any] = self.state["tracked"]
        self.epochs = int(self.state["epoch"])
        self.total_steps = int(self.state["total_steps"])

    @property
    def rows(self) -> int:
        """How many rows of `progress.txt` the checkpoint covers."""
        return min(int(self.state["logger"]["rows"]), int(self.record.rows))

    @property
    def whole_epochs(self) -> bool:
        """Whether the checkpoint was taken between two epochs."""
        logged = int(self.state["logger"]["rows"])
        if not self.record.on_policy:
            steps = self.record.setting("steps_per_epoch", 1)
            return logged == self.epochs and int(self.tracked["loop"]["t"]) <= logged * steps
        return logged == self.epochs

    @property
    def updates(self) -> int:
        """The number of gradient steps of an off-policy algorithm."""
        loop = self.tracked.get("loop")
        if loop is None:
            raise Skip("the checkpoint does not count gradient steps")
        return int(loop["updates"])

    @functools.cached_property
    def weights(self) -> dict[str, np.ndarray]:
        """The networks' parameters and buffers."""
        return _arrays(self.tracked.get("ac", {}))

    @functools.cached_property
    def targets(self) -> dict[str, np.ndarray]:
        """The target networks' parameters and buffers, named like those of the networks."""
        if "pi_avg" in self.tracked:  # ACER's average policy
            return {f"pi.{name}": x for name, x in _arrays(self.tracked["pi_avg"]).items()}
        if "ac_targ" not in self.tracked:
            raise Skip("the algorithm has no target networks")
        prefix = "net." if self.record.algo == "her" else ""
        return {f"{prefix}{name}": x for name, x in _arrays(self.tracked["ac_targ"]).items()}

    def optimizers(self) -> list[Optimizer]:
        """Return all optimizers, each with the names of its parameters where they are known."""
        found = []
        for name, state in self.tracked.items():
            if name.endswith("_optimizer") and "param_groups" in state:
                found.append(_optimizer(name, state))
        if not found:
            raise Skip("the checkpoint has no optimizers")
        return found

    def optimizer(self, name: str) -> Optimizer:
        """Return one optimizer; skip the rule if there is none of this name."""
        for one in self.optimizers():
            if one.name == name:
                return one
        raise Skip(f"the checkpoint has no {name}")

    def trained(self, optimizer: str) -> list[str]:
        """Return the names of the parameters that an optimizer is meant to train, in order."""
        inner = "net." if self.record.algo == "her" else ""
        parts = {
            "pi_optimizer": ("pi.",),
            "vf_optimizer": ("v.",),
            "q_optimizer": ("q.",)
            if f"{inner}q1.q.0.weight" not in self.weights
            else ("q1.", "q2."),
        }.get(optimizer)
        if parts is None:
            raise Skip(f"the parameters of {optimizer} are not known")
        names = [n for n in self.weights if not any(b in n for b in BUFFERS)]
        return [n for part in parts for n in names if n.startswith(f"{inner}{part}")]

    # ---- replayed data -------------------------------------------------------------------------

    @functools.cached_property
    def replay(self) -> dict[str, np.ndarray]:
        """The newest transitions, oldest first; skips the rule if they are not plain rows."""
        ring = (self.tracked.get("buffer") or {}).get("ring")
        if not isinstance(ring, dict) or "pieces" not in ring:
            raise Skip("there is no replay buffer")
        if self.record.images:
            raise Skip("the replay buffer contains images")
        total, size, chunk = (int(ring[n]) for n in ("total", "max_size", "chunk_rows"))
        if total == 0:
            raise Skip("the replay buffer is empty")
        kept = min(total, size, MOST_ROWS)
        index = np.arange(total - kept, total) % size
        pieces: dict[int, dict[str, np.ndarray]] = {}
        for i in np.unique(index // chunk):
            piece = ring["pieces"][i]
            pieces[int(i)] = piece.load() if isinstance(piece, Piece) else {}
        first = pieces[int(index[0] // chunk)]
        if not set(FIELDS) <= set(first):
            raise Skip("the replay buffer does not contain plain transitions")
        return {
            name: np.stack([pieces[int(i // chunk)][name][i % chunk] for i in index])
            for name in first
        }

    @property
    def replay_total(self) -> int:
        """The number of transitions stored so far, including overwritten ones."""
        return int(self.tracked["buffer"]["ring"]["total"])

    @property
    def streams(self) -> dict[str, Any]:
        """The state of the first shard's environments: the episodes that are still going on."""
        shards = self.state.get("shards")
        if not isinstance(shards, list) or not shards or "actions" not in shards[0]["streams"]:
            raise Skip("the checkpoint does not contain the current episodes")
        found: dict[str, Any] = shards[0]["streams"]
        return found

    # ---- networks ------------------------------------------------------------------------------

    @functools.cached_property
    def policy(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The saved policy: its description and its tensors."""
        from spinup.policies.saved import load_policy

        return load_policy(self.record.folder)

    def network(self, target: bool = False) -> Any:
        """Rebuild the networks, or the target networks, from the library's own classes."""
        from spinup.policies.networks import load_actor_critic

        meta, _ = self.policy
        tensors = {**self.weights, **self.targets} if target else dict(self.weights)
        return load_actor_critic(meta, tensors)


def _arrays(tree: Any) -> dict[str, np.ndarray]:
    """Convert a state dict of tensors to arrays."""
    found = {}
    for name, value in tree.items():
        if hasattr(value, "detach"):
            found[str(name)] = value.detach().cpu().numpy()
        elif isinstance(value, np.ndarray):
            found[str(name)] = value
    return found


def _optimizer(name: str, state: dict[str, Any]) -> Optimizer:
    groups = state["param_groups"]
    places = [i for group in groups for i in group["params"]]
    each = [state["state"].get(i) for i in places]
    steps = [int(one["step"]) for one in each if one]  # {} or None before the first step
    squares = [one["exp_avg_sq"].numpy() if one else None for one in each]
    return Optimizer(name, max(steps, default=0), float(groups[0]["lr"]), squares)

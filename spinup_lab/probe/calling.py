"""Calling a training function in a probe environment, and collecting everything it left behind."""

from __future__ import annotations

import contextlib
import copy
import csv
import inspect
import io
import math
import os
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from spinup.envs import make_env
from spinup.utils.errors import SpinupError, one_line
from spinup_lab.probe.reading import Answers
from spinup_lab.probe.recording import Overrun, Record
from spinup_lab.probe.settings import family, settings, tiny

DISCRETE, BOX = "", "Continuous"  # the suffixes of the probes' ids
STEPS = 2000  # that an adapter may take in one probe


class Crash(SpinupError):
    """The training function raised an exception."""


@dataclass
class Outcome:
    """What one training run left behind."""

    answers: Answers
    record: Record
    rows: list[dict[str, float]]  # of progress.txt; the last row last
    kwargs: dict[str, Any]
    changed: list[str] = field(default_factory=list)  # arguments that the function changed
    saved: str = ""  # how the saved policy differs from the returned one

    @property
    def num_envs(self) -> int:
        """Number of training environments."""
        return int(self.kwargs.get("num_envs", 1))

    def column(self, *names: str) -> float:
        """Return the last value of the first of these columns that exists, else NaN."""
        for name in names:
            if self.rows and name in self.rows[-1]:
                return self.rows[-1][name]
        return math.nan


class Subject:
    """A training function, and how to call it.

    Args:
        function: the training function, or an adapter's `train(env_fn, gamma, steps, seed)`.
        name: what to call it in messages.
        adapter: whether the function is an adapter's.
        gamma: discount factor of the probes.
        given: arguments that replace those of the probes.
        trust_pickle: whether a model that the run pickled may be opened.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        adapter: bool = False,
        gamma: float = 0.5,
        given: Mapping[str, Any] | None = None,
        trust_pickle: bool = False,
    ) -> None:
        self.function, self.name, self.adapter = function, name, adapter
        self.gamma, self.given, self.trust_pickle = gamma, dict(given or {}), trust_pickle
        self.parameters = _parameters(function, name)
        unknown = [key for key in self.given if key not in self.parameters]
        if unknown:
            raise SpinupError(
                f"{name} has no argument '{unknown[0]}': it has {', '.join(self.parameters)}"
            )
        self.kind = "adapter" if adapter else family(self.parameters)
        self.ac_kwargs: dict[str, Any] | None = None  # found out by the first run
        self.actions: list[str] = []  # DISCRETE, BOX: what it can learn; the main kind first
        self.seconds = 0.0
        self.ours = function.__module__.startswith("spinup.algos.")

    def has(self, *names: str) -> bool:
        """Return whether the function has all of these arguments."""
        return all(name in self.parameters for name in names)

    @property
    def main(self) -> str:
        """The suffix of the probes for the main kind of actions."""
        return self.actions[0]

    # ---- training ------------------------------------------------------------------------------

    def train(
        self,
        probe: str | Callable[[], gymnasium.Env],
        seed: int = 0,
        acts: bool = False,
        where: str = "",
        **changes: Any,
    ) -> Outcome:
        """Train in a probe environment, an id without its prefix or a function that makes one.

        `acts`: whether there is a best action to learn. `where` names a function that makes an
        environment in messages. `--set` replaces the usual arguments, and
        `changes`, without which this probe means nothing, replace both.
        """
        make = probe if callable(probe) else partial(make_env, f"spinup/Probe{probe}-v0")
        where = where or str(probe)
        env = make()
        env.close()
        box = isinstance(env.action_space, gymnasium.spaces.Box)
        if self.adapter:
            return self._train_adapter(make, where, env.action_space, seed, changes)
        usual = settings(self.kind, self.parameters, box, acts)
        chosen = usual | {"gamma": self.gamma} | self.given | {"seed": seed} | changes
        chosen = {k: v for k, v in chosen.items() if k in self.parameters}
        fits = self.given.get("train_v_iters")
        if fits and "epochs" not in {**self.given, **changes}:  # as many steps in all
            chosen["epochs"] = math.ceil(usual["epochs"] * max(1, min(4, 40 / fits)))
        if self.has("ac_kwargs"):
            chosen["ac_kwargs"] = changes.get("ac_kwargs") or self.networks()
        steps = int(chosen.get("steps_per_epoch", 4000)) * int(chosen.get("epochs", 50))
        record = Record(make, limit=20 * steps + 20000)
        with tempfile.TemporaryDirectory(prefix="spinup_probe_") as folder:
            if self.has("logger_kwargs"):
                out = {"output_dir": os.path.join(folder, "run"), "exp_name": "probe"}
                chosen["logger_kwargs"] = {**out, "quiet": True} if self.ours else out
            before = copy.deepcopy(chosen)
            agent = self._call(record, where, folder, chosen)
            rows = _read_rows(Path(folder))
            changed = [key for key in before if not _same(before[key], chosen[key])]
            answers, saved = self._answers(agent, env.action_space, Path(folder))
        return Outcome(answers, record, rows, chosen, changed, saved)

    def _call(self, record: Record, where: str, folder: str, kwargs: dict[str, Any]) -> Any:
        start = time.process_time()
        try:
            with _quiet(), _in_folder(folder, not self.has("logger_kwargs")):
                return self.function(record.env_fn, **kwargs)
        except Overrun as error:
            raise Crash(
                f"{self.name} did not stop in {where} after {error}: let it stop after "
                "steps_per_epoch * epochs"
            ) from error
        except Exception as error:  # the function may be anybody's
            if record.refused is not None:
                return None  # the verdict will say what was refused
            last = traceback.extract_tb(error.__traceback__)[-1]
            raise Crash(
                f"{self.name} crashed in {where}: {type(error).__name__}: {one_line(error)} "
                f"({os.path.basename(last.filename)}, line {last.lineno})"
            ) from error
        finally:
            self.seconds += time.process_time() - start

    def _train_adapter(
        self, make: Any, where: str, space: Any, seed: int, changes: dict[str, Any]
    ) -> Outcome:
        steps = int(changes.get("adapter_steps", STEPS))
        record = Record(make, limit=20 * steps + 20000)
        kwargs = {"gamma": self.gamma, "steps": steps, "seed": seed}
        with tempfile.TemporaryDirectory(prefix="spinup_probe_") as folder:
            agent = self._call(record, where, folder, {**kwargs, **self.given})
        if agent is not None and not (isinstance(agent, tuple) and len(agent) == 2):
            raise SpinupError(
                f"{self.name} must return two functions, (value, act), not "
                f"{type(agent).__name__}: value may be None"
            )
        return Outcome(Answers(agent, space), record, [], kwargs)

    # ---- what it can do ------------------------------------------------------------------------

    def explore(self) -> None:
        """Find out which networks and which kinds of actions the function takes, by trying.

        Raises `Crash`, with the first error, if it can do nothing.
        """
        if self.kind == "goal":
            self._attempt("Goal4")
            self.actions = [DISCRETE]
            return
        first: Crash | None = None
        refused: list[str] = []
        for suffix in (DISCRETE, BOX):
            try:
                outcome = self._attempt(f"Constant{suffix}")
            except Crash as error:
                first = first or error
            else:
                (refused if outcome.record.refused else self.actions).append(suffix)
        self.actions = self.actions or refused
        if not self.actions:
            assert first is not None
            raise first
        if self.kind == "off" and not self.has("eps_start"):
            self.actions.reverse()  # such algorithms are made for continuous actions

    def _attempt(self, probe: str) -> Outcome:
        """Train for a moment; the first time, find networks that the function accepts."""
        moment = {**tiny("moment"), "adapter_steps": 64}
        if self.ac_kwargs is not None or not self.has("ac_kwargs"):
            return self.train(probe, **moment)
        errors = []
        for networks in self._candidates():
            self.ac_kwargs = networks
            try:
                return self.train(probe, **moment)
            except Crash as error:
                errors.append(error)
                self.ac_kwargs = None
                if "TypeError" not in str(error):
                    break
        raise errors[-1]

    def networks(self) -> dict[str, Any]:
        """Return `ac_kwargs`: small networks, as far as the function takes them."""
        small = self._candidates()[0] if self.ac_kwargs is None else self.ac_kwargs
        return {**small, **self.given.get("ac_kwargs", {})}

    def _candidates(self) -> list[dict[str, Any]]:
        small: dict[str, Any] = {"hidden_sizes": (16,)}
        if self.kind in ("off", "acer") and "tf1" not in self.function.__module__:
            import torch

            return [{**small, "activation": torch.nn.Tanh}, small, {}]
        if self.kind == "goal":
            return [{"hidden_sizes": (32,)}, {}]
        return [small, {}]

    # ---- reading -------------------------------------------------------------------------------

    def _answers(self, agent: Any, space: Any, folder: Path) -> tuple[Answers, str]:
        run = folder / "run"
        if agent is not None:
            return Answers(agent, space), _saved_differs(agent, run)
        from spinup.policies.saved import load_policy

        with contextlib.suppress(SpinupError, OSError):
            meta, tensors = load_policy(run)
            from spinup.policies.networks import load_actor_critic

            return Answers(load_actor_critic(meta, tensors), space), ""
        model = run / "pyt_save" / "model.pt"
        if self.trust_pickle and model.is_file():
            import torch

            return Answers(torch.load(model, weights_only=False), space), ""
        return Answers(None, space), ""


def _parameters(function: Any, name: str) -> dict[str, inspect.Parameter]:
    if not callable(function):
        raise SpinupError(f"{name} is not a function but a {type(function).__name__}")
    try:
        parameters = dict(inspect.signature(function).parameters)
    except (TypeError, ValueError) as error:
        raise SpinupError(f"{name} has no signature that can be read: pass a function") from error
    first = next(iter(parameters), "")
    if first != "env_fn":
        raise SpinupError(
            f"the first argument of {name} must be env_fn, a function that makes an environment, "
            f"but it is {repr(first) if first else 'missing'}: for code of any other shape, write "
            "an adapter (--adapter)"
        )
    named = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return {key: p for key, p in list(parameters.items())[1:] if p.kind in named}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


@contextlib.contextmanager
def _in_folder(folder: str, wanted: bool) -> Iterator[None]:
    """Let a function without `logger_kwargs` write its files into the temporary folder."""
    if not wanted:
        yield
        return
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _read_rows(folder: Path) -> list[dict[str, float]]:
    """Read the first progress.txt anywhere below the folder; no rows if there is none."""
    for path in sorted(folder.rglob("progress.txt")):
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
        return [{k: _number(v) for k, v in row.items() if k != "Time"} for row in rows]
    return []


def _number(text: Any) -> float:
    try:
        return float(text)
    except (TypeError, ValueError):
        return math.nan


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[k], other[k]) for k in one)
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    return bool(one == other)


def _saved_differs(agent: Any, run: Path) -> str:
    """Return how the saved policy differs from the returned agent; '' if it does not."""
    if not hasattr(agent, "state_dict") or not (run / "pyt_save" / "policy.json").is_file():
        return ""
    from spinup.policies.saved import load_policy

    _, tensors = load_policy(run)
    for name, _ in getattr(agent, "named_buffers", dict)():
        if name not in tensors:
            return f"the saved policy lacks the statistics {name}"
    for name, x in agent.state_dict().items():
        if name not in tensors:
            return f"the saved policy lacks {name}"
        if not np.array_equal(x.detach().cpu(), tensors[name]):
            return f"{name} of the saved policy differs from that of the returned one"
    return ""

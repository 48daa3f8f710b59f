"""Calls a function on the cases of an exercise, and records what happened."""

from __future__ import annotations

import contextlib
import functools
import inspect
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spinup.utils.errors import one_line
from spinup_lab.exercises.exercise import Case, Exercise, resolve


class TimeOver(BaseException):
    """The answer ran too long. Not an `Exception`: an answer must not catch it by accident."""


# ------------------------------------------------------------------------- what a function returned


@dataclass(frozen=True)
class Leaf:
    """One number or array in what a function returned."""

    type: str  # "tensor", "array", "number" or the name of another type
    dtype: str
    value: Any  # float64 array, or the object itself if it is not numeric

    @property
    def shape(self) -> tuple[int, ...]:
        return getattr(self.value, "shape", ())

    @property
    def kind(self) -> str:
        """Return "float", "int", "bool" or the name of another dtype."""
        return self.dtype.rstrip("0123456789").removeprefix("u")


@dataclass
class Outcome:
    """What happened when a function was called on a case."""

    leaves: dict[str, Leaf] = field(default_factory=dict)  # place in the result -> leaf
    grads: dict[str, Leaf] | str = field(default_factory=dict)  # a sentence if there are none
    error: BaseException | None = None
    returned: str = ""  # what kind of thing was returned: "tensor", "list", ...
    changed: str = ""  # the argument that was changed although it should not have been
    drew: str = ""  # whose global random numbers were drawn

    @property
    def failure(self) -> str:
        """Name of the exception, if there was one."""
        return type(self.error).__name__ if self.error else ""


def torch_if_loaded() -> Any:
    """Return torch if something has imported it; an exercise about arrays does not need it."""
    return sys.modules.get("torch")


def is_tensor(x: Any) -> bool:
    torch = torch_if_loaded()
    return torch is not None and isinstance(x, torch.Tensor)


def is_module(x: Any) -> bool:
    torch = torch_if_loaded()
    return torch is not None and isinstance(x, torch.nn.Module)


def is_number(x: Any) -> bool:
    return isinstance(x, (bool, int, float, np.number, np.bool_))


def leaf_of(x: Any) -> Leaf:
    if is_tensor(x):
        x = x.detach().cpu()
        return Leaf("tensor", str(x.dtype).removeprefix("torch."), x.double().numpy().copy())
    if isinstance(x, np.ndarray) and x.dtype.kind in "fiub":
        return Leaf("array", str(x.dtype), np.array(x, dtype=np.float64))
    if is_number(x):
        return Leaf("number", str(np.asarray(x).dtype), np.array(x, dtype=np.float64))
    return Leaf(type(x).__name__, type(x).__name__, x)


def _flatten(x: Any, names: Sequence[str] = (), place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (place, item) for the items of nested tuples, lists and dicts."""
    if isinstance(x, Mapping):
        for key, value in x.items():
            yield from _flatten(value, (), f"{place}[{key!r}]" if place else str(key))
    elif isinstance(x, (tuple, list)):
        for i, value in enumerate(x):
            name = names[i] if i < len(names) else f"{place}[{i}]" if place else f"item {i}"
            yield from _flatten(value, (), name)
    else:
        yield place, x


# ------------------------------------------------------------------------------------ one function


def seed_all(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    if torch_if_loaded():
        torch_if_loaded().default_generator.manual_seed(
            seed
        )  # the CPU's only, which is much quicker


@contextlib.contextmanager
def own_random_numbers() -> Iterator[None]:
    """Restore the states of all global random number generators afterwards."""
    states = _random_states()
    try:
        yield
    finally:
        random.setstate(states["Python"])
        np.random.set_state(states["NumPy"])
        if "torch" in states:
            torch_if_loaded().set_rng_state(states["torch"])


def _random_states() -> dict[str, Any]:
    states = {"Python": random.getstate(), "NumPy": np.random.get_state()}
    if torch_if_loaded():
        states["torch"] = torch_if_loaded().get_rng_state()
    return states


def _drew(before: dict[str, Any]) -> str:
    """Return whose random numbers were drawn since, or ''."""
    now = _random_states()
    if now["Python"] != before["Python"]:
        return "Python"
    (_, keys, *rest), (_, old_keys, *old_rest) = now["NumPy"], before["NumPy"]
    if rest != old_rest or (keys != old_keys).any():
        return "NumPy"
    if "torch" in before and not torch_if_loaded().equal(now["torch"], before["torch"]):
        return "torch"
    return ""


_signature = functools.lru_cache(inspect.signature)  # of references, again and again


def named_arguments(function: Callable[..., Any], case: Case) -> dict[str, Any]:
    """Return the arguments of a case by name."""
    try:
        found = _signature(function).bind(*case.args, **case.kwargs)
    except (TypeError, ValueError):
        return {str(i): x for i, x in enumerate(case.args)} | dict(case.kwargs)
    found.apply_defaults()
    return dict(found.arguments)


def _at(named: Mapping[str, Any], path: str) -> Any:
    """Return the argument "ac", its attribute "ac.pi" or its entry "batch.adv"."""
    first, *rest = path.split(".")
    found = named[first]
    for part in rest:
        found = found[part] if isinstance(found, Mapping) else getattr(found, part)
    return found


def _tensors(x: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield every tensor and array in an argument, and the parameters and buffers of modules."""
    if is_module(x):
        for place, module in x.named_modules(prefix=name):
            for key, p in (*module._parameters.items(), *module._buffers.items()):
                if p is not None:
                    yield f"{place}.{key}", p
    elif isinstance(x, Mapping):
        for key, value in x.items():
            yield from _tensors(value, f"{name}[{key!r}]")
    elif isinstance(x, (tuple, list)):
        for i, value in enumerate(x):
            yield from _tensors(value, f"{name}[{i}]")
    elif is_tensor(x) or isinstance(x, np.ndarray):
        yield name, x


def _snapshot(named: Mapping[str, Any], leave_out: Sequence[str]) -> dict[str, Any]:
    found = {}
    for name, x in named.items():
        if name in leave_out:
            continue
        for place, tensor in _tensors(x, name):
            found[place] = _copied(tensor)
            grad = getattr(tensor, "grad", None) if getattr(tensor, "is_leaf", False) else None
            found[f"the gradient of {place}"] = None if grad is None else _copied(grad)
        if isinstance(x, (Mapping, list)):
            found[f"the keys of {name}" if isinstance(x, Mapping) else f"the length of {name}"] = (
                np.array(sorted(map(str, x))) if isinstance(x, Mapping) else np.array(len(x))
            )
    return found


def _copied(x: Any) -> Any:
    """Return a copy of a tensor or an array, as an array."""
    return x.detach().cpu().double().numpy().copy() if is_tensor(x) else np.array(x)


def _what_changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    for place, old in before.items():
        new = after.get(place)
        if old is None or new is None:
            if old is not new:
                return place
        elif old.shape != new.shape or not _same_values(old, new):
            return place
    return next((place for place in after if place not in before), "")


def _same_values(a: Any, b: Any) -> bool:
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f" and b.dtype.kind == "f"))


def outcomes(exercise: Exercise, function: Callable[..., Any], seed: int) -> list[Outcome]:
    """Call a function on fresh arguments for each case, and return what happened."""
    seed_all(seed)
    reference = resolve(exercise.reference)
    cases = resolve(exercise.cases)()
    call = resolve(exercise.call)
    return [
        _outcome(exercise, function, call, case, named_arguments(reference, case), seed + 1 + i)
        for i, case in enumerate(cases)
    ]


def _outcome(
    exercise: Exercise,
    function: Callable[..., Any],
    call: Callable[[Callable[..., Any], Case], Any],
    case: Case,
    named: Mapping[str, Any],
    seed: int,
) -> Outcome:
    found = Outcome()
    before = _snapshot(named, case.changes)
    seed_all(seed)
    states = _random_states()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = call(function, case)
    except TimeOver:
        raise
    except (Exception, SystemExit) as error:
        found.error = error
        return found
    if not exercise.random:
        found.drew = _drew(states)
    found.changed = _what_changed(before, _snapshot(named, case.changes))
    for name in case.changes:
        found.leaves |= {place: leaf_of(x) for place, x in _tensors(_at(named, name), name)}
    if not case.changes or result is not None:  # a function that changes something may return it
        found.returned = leaf_of(result).type
    if not case.changes or isinstance(result, Mapping):
        for place, x in _flatten(result, exercise.returns):
            found.leaves[place] = leaf_of(x)
    if case.grad:
        found.grads = _grads(result, {name: _at(named, name) for name in case.grad})
    return found


def _grads(result: Any, inputs: Mapping[str, Any]) -> dict[str, Leaf] | str:
    """Return the gradients of a result, or of the first item of a tuple, by name of the input."""
    torch = torch_if_loaded()
    loss = result[0] if isinstance(result, (tuple, list)) and result else result
    if not is_tensor(loss) or not loss.requires_grad:
        return (
            "the result has no gradient: something in it was detached, or went through .item(), "
            ".numpy() or torch.no_grad()"
        )
    tensors: dict[str, Any] = {}
    for name, x in inputs.items():
        tensors |= dict(x.named_parameters(name)) if is_module(x) else {name: x}
    weights = torch.linspace(1, 2, loss.numel(), dtype=loss.dtype).reshape(loss.shape)
    try:
        found = torch.autograd.grad(
            (loss * weights).sum(), list(tensors.values()), allow_unused=True
        )
    except RuntimeError as error:
        return f"the gradient cannot be computed: {one_line(error)}"
    return {
        name: leaf_of(torch.zeros_like(x) if grad is None else grad)
        for (name, x), grad in zip(tensors.items(), found, strict=True)
    }

"""The table of training-function arguments: their meanings and allowed values.

Training functions and the command line reject the same values with the same message. They reject
only values that make no sense; unusual values are up to the user. `training_function` completes a
function's docstring from this table and passes the function's arguments to the run that it opens.
"""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, cast, overload

from spinup.runs.arguments.domains import Domain, Kind, Number, OneOf, hint
from spinup.runs.arguments.options import expanded
from spinup.utils.errors import SpinupError
from spinup.utils.toml import parse_toml

F = TypeVar("F", bound=Callable[..., Any])


class Argument(NamedTuple):
    """One argument: its allowed values, and its description if several algorithms share it."""

    domain: Domain
    text: str = ""


_FRACTION = Number(0, 1)
_ANY = Number()  # 0 is allowed: a learning rate of 0 freezes a network
_LIMIT = Number(endless=True)
_COUNT = Number(1, whole=True)
_COUNT_OR_NONE = Number(1, whole=True, words=(None,))
_FROM_ZERO = Number(0, whole=True)
_LIMIT_OR_NONE = Number(0, above=True, endless=True, words=(None,))
_SWITCH = OneOf((True, False))
_DICT = Kind(lambda x: isinstance(x, Mapping), "a dict")

_DOMAINS: Mapping[str, Domain] = {
    # the experiment
    "env_fn": Kind(callable, "an environment's id, or a function that makes one"),
    "actor_critic": Kind(callable, "a class or function that makes the networks", words=(None,)),
    "ac_kwargs": _DICT,
    "seed": _FROM_ZERO,
    "steps_per_epoch": _COUNT,
    "epochs": _FROM_ZERO,  # with 0 epochs, the initial policy is saved
    "max_ep_len": Number(1, whole=True, endless=True),
    "logger_kwargs": _DICT,
    "save_freq": _COUNT,
    "num_test_episodes": _FROM_ZERO,
    # how it is executed
    "num_envs": _COUNT,
    "vector": OneOf(("sync", "async")),
    "shards": _COUNT_OR_NONE,
    "num_threads": _COUNT_OR_NONE,
    "device": OneOf(("cpu", "cuda", "mps", "auto"), numbered=True),
    "compile": OneOf((True, False, "graph", None)),
    "resume": _SWITCH,
    "overwrite": _SWITCH,
    "progress": _SWITCH,
    "save_best": _SWITCH,
    "on_epoch": Kind(callable, "a function of a row and the networks", words=(None,)),
    # returns and advantages
    "gamma": _FRACTION,
    "lam": _FRACTION,
    "n_step": _COUNT,
    "n_steps": _COUNT,
    "dueling_samples": _COUNT,
    # learning rates and gradients
    "lr": _ANY,
    "pi_lr": _ANY,
    "vf_lr": _ANY,
    "q_lr": _ANY,
    "max_grad_norm": _LIMIT_OR_NONE,
    "anneal_lr": _SWITCH,
    # policy gradients
    "train_pi_iters": _FROM_ZERO,
    "train_v_iters": _FROM_ZERO,
    "clip_ratio": _LIMIT,
    "target_kl": Number(endless=True, words=(None,)),
    "ent_coef": _ANY,
    "clip_vf": _LIMIT_OR_NONE,
    "minibatch_size": _COUNT_OR_NONE,
    "delta": _ANY,
    "damping_coeff": _ANY,
    "cg_iters": _COUNT,
    "backtrack_iters": _FROM_ZERO,
    "backtrack_coeff": _FRACTION,
    "algo": OneOf(("trpo", "npg")),
    # replay and target networks
    "replay_size": _COUNT,
    "batch_size": _COUNT,
    "start_steps": _FROM_ZERO,
    "update_after": _FROM_ZERO,
    "update_every": _COUNT,
    "updates_per_step": _ANY,
    "polyak": _FRACTION,
    "target_update_every": _COUNT,
    "policy_delay": _COUNT,
    "replay_ratio": _ANY,
    "c": _ANY,
    "double_q": _SWITCH,
    "loss": OneOf(("huber", "squared")),
    "prioritized": _SWITCH,
    "prio_alpha": _FRACTION,
    "prio_beta": _FRACTION,
    "prio_beta_steps": _COUNT,
    # goals
    "strategy": OneOf(("future", "final", "episode", "random")),
    "k": _FROM_ZERO,
    "base": OneOf(("dqn", "ddpg", "td3", "sac", None)),
    "base_kwargs": _DICT,
    # exploration
    "act_noise": _ANY,
    "target_noise": _ANY,
    "noise_clip": _LIMIT,
    "alpha": Number(words=("auto",)),
    "target_entropy": Number(-float("inf"), words=(None,)),
    "eps_start": _FRACTION,
    "eps_end": _FRACTION,
    "eps_steps": _COUNT,
}


def _texts() -> Mapping[str, str]:
    """Read the descriptions that several algorithms share, each on one line."""
    text = Path(__file__).with_name("texts.toml").read_text(encoding="utf-8")
    return {name: " ".join(said.split()) for name, said in parse_toml(text).items()}


_TEXTS = _texts()
ARGUMENTS: Mapping[str, Argument] = MappingProxyType(
    {name: Argument(domain, _TEXTS.get(name, "")) for name, domain in _DOMAINS.items()}
)


def check_arguments(arguments: Mapping[str, Any]) -> None:
    """Raise a SpinupError for the first argument outside its domain.

    `base_kwargs` contains another algorithm's arguments, which are checked too.
    """
    for name, value in arguments.items():
        domain = ARGUMENTS[name].domain if name in ARGUMENTS else None
        if domain is not None and value not in domain:
            raise SpinupError(f"{name}={value!r} must be {domain}{hint(value, domain)}")
        if name == "base_kwargs":
            check_arguments(value)


def check_sizes(arguments: Mapping[str, Any], shards: int, num_envs: int) -> None:
    """Raise a SpinupError for a batch larger than its replay buffer, or smaller than `shards`."""
    size, batch = (arguments.get(name) or 0 for name in ("replay_size", "batch_size"))
    if 0 < size < batch:
        raise SpinupError(
            f"replay_size={size} is smaller than batch_size={batch}: use a replay_size of at least "
            f"{batch}, or smaller batches"
        )
    steps = arguments.get("n_steps") or 0
    if 0 < size < steps * num_envs:
        raise SpinupError(
            f"replay_size={size} is too small for n_steps={steps} steps of {num_envs} "
            f"environments: use at least {steps * num_envs}"
        )
    rows = arguments.get("minibatch_size") or shards
    if rows < shards:
        raise SpinupError(
            f"minibatch_size={rows} has no row for some of the {shards} shards: use at least "
            f"{shards}, or None for the whole batch"
        )


class Call(NamedTuple):
    """A call of a training function."""

    name: str  # the function's name
    arguments: Mapping[str, Any]  # the arguments passed, with defaults for the others
    defaults: Mapping[str, Any]


# The training function that is running in this thread.
_RUNNING: ContextVar[Call] = ContextVar("spinup_training_function")


@overload
def training_function(function: F, /) -> F: ...
@overload
def training_function(**defaults: Any) -> Callable[[F], F]: ...
def training_function(function: Any = None, /, **defaults: Any) -> Any:
    """Decorate a training function: pass its arguments to the run and complete its docstring.

    The docstring's `Args:` section describes only arguments specific to the algorithm. The others
    are added from the table, in the order of the signature. Integers may be passed as floats, such
    as 1e6. The signature may end in a bundle of shared arguments (`options.py`); `defaults` are
    those in which the function differs from the bundle.
    """
    if function is None:
        return functools.partial(_decorated, defaults=defaults)
    return _decorated(function, defaults)


def _decorated(function: F, defaults: Mapping[str, Any]) -> F:
    signature = expanded(function, defaults)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return _call(function, signature, args, kwargs)

    wrapper.__signature__ = signature  # type: ignore[attr-defined]
    wrapper.__doc__ = complete_docstring(function.__doc__, signature)
    return cast(F, wrapper)


def opens_a_run(function: Any) -> bool:
    """Return whether a function, or one that it wraps, is decorated: its run announces itself."""
    ours = _decorated.__code__.co_consts  # among them is the code of every `wrapper`
    while hasattr(function, "__code__") and function.__code__ not in ours:
        function = getattr(function, "__wrapped__", None)
    return hasattr(function, "__code__")


def current_call() -> Call:
    """Return the training function that is running, and its arguments."""
    try:
        return _RUNNING.get()
    except LookupError:
        raise SpinupError(
            "a run was opened outside a training function: put @training_function above the "
            "function that opens it"
        ) from None


def _call(
    function: Callable[..., Any], signature: inspect.Signature, args: Any, kwargs: Any
) -> Any:
    """Call `function`; while it runs, `current_call` returns its arguments."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        known = {name: p.default for name, p in signature.parameters.items()}
        if not kwargs.keys() <= known.keys():
            from spinup.runs.arguments.synonyms import unexpected

            raise TypeError(unexpected(function.__name__, kwargs, known)) from None
        return function(*args, **kwargs)  # raises Python's usual TypeError
    bound.apply_defaults()
    for name, value in bound.arguments.items():
        if name == "env_fn" and (isinstance(value, str) or hasattr(value, "step")):
            from spinup.envs.make import env_fn_of

            bound.arguments[name] = env_fn_of(value)
        elif name in ARGUMENTS:
            bound.arguments[name] = ARGUMENTS[name].domain.convert(value)
    parameters = signature.parameters.items()
    defaults = {name: p.default for name, p in parameters if p.default is not p.empty}
    records = MappingProxyType(dict(bound.arguments)), MappingProxyType(defaults)
    token = _RUNNING.set(Call(function.__name__, *records))
    try:
        return function(*bound.args, **bound.kwargs)
    finally:
        _RUNNING.reset(token)


def complete_docstring(docstring: str | None, signature: inspect.Signature) -> str | None:
    """Return the docstring with all parameters in its `Args:` section, in signature order.

    Descriptions missing from the docstring come from the table. A parameter that has no
    description in either is left out.
    """
    if docstring is None:  # python -OO
        return None
    before, _, after = _sections(inspect.cleandoc(docstring))
    own = described(docstring)
    lines = []
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        text = own.get(name) or (ARGUMENTS[name].text if name in ARGUMENTS else "")
        if text:
            lines += wrapped(f"    {name}: {text}", 96, " " * 8)
    parts = [before, "\n".join(["Args:", *lines]) if lines else "", after]
    return "\n\n".join(part for part in parts if part)


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Split into lines of at most `width` characters, only at spaces: never inside a-b-c."""
    return textwrap.wrap(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def described(docstring: str) -> dict[str, str]:
    """Return the descriptions in a docstring's `Args:` section (`name: text`), by argument.

    The original Spinning Up style also works: `name (type): text`, and several names that share
    one text.
    """
    entry = re.compile(r"(\w+(?:\s*,\s*\w+)*)\s*(?:\([^)]*\))?\s*:(?:\s+(.*))?")
    found: dict[str, list[str]] = {}
    current: list[str] = []
    section = textwrap.dedent(_sections(inspect.cleandoc(docstring))[1])
    for line in section.splitlines():
        match = None if line[:1].isspace() else entry.fullmatch(line)
        if match:
            current = [match[2] or ""]
            found.update((name, current) for name in re.split(r"\s*,\s*", match[1]))
        else:
            current.append(line)
    return {name: " ".join(" ".join(lines).split()) for name, lines in found.items()}


def _sections(docstring: str) -> tuple[str, str, str]:
    """Return the parts of a docstring before, in and after its `Args:` section."""
    match = re.search(r"^Args:\n((?:[ \t]+.*\n?|\n)*)", docstring, re.M)
    if match is None:
        before, returns, after = docstring.partition("\nReturns:\n")
        return before.rstrip(), "", (returns + after).strip()
    before, after = docstring[: match.start()], docstring[match.end() :]
    return before.rstrip(), match[1], after.strip()

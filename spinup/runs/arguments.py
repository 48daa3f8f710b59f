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
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, cast

from spinup.runs.domains import Domain, Kind, Number, OneOf, hint
from spinup.utils.errors import SpinupError

F = TypeVar("F", bound=Callable[..., Any])

# ------------------------------------------------------------------------------------- the table


class Argument(NamedTuple):
    """One argument: its allowed values, and its description if several algorithms share it."""

    domain: Domain
    text: str = ""


def _is_dict(value: Any) -> bool:
    return isinstance(value, Mapping)


_FRACTION = Number(0, 1)
_ANY = Number()  # 0 is allowed: a learning rate of 0 freezes a network
_LIMIT = Number(endless=True)
_COUNT = Number(1, whole=True)
_COUNT_OR_NONE = Number(1, whole=True, words=(None,))
_FROM_ZERO = Number(0, whole=True)
_LIMIT_OR_NONE = Number(0, above=True, endless=True, words=(None,))
_SWITCH = OneOf((True, False))
_DICT = Kind(_is_dict, "a dict")

ARGUMENTS: Mapping[str, Argument] = MappingProxyType(
    {
        # the experiment
        "env_fn": Argument(
            Kind(callable, "an environment's id, or a function that makes one"),
            "id of an environment, such as 'CartPole-v1', or a function of no arguments that makes "
            "a fresh one (Gymnasium interface).",
        ),
        "actor_critic": Argument(
            Kind(callable, "a class or function that makes the networks", words=(None,)),
            "class with the methods `step`, `act`, `pi` and `v`; called with (observation_space, "
            "action_space, **ac_kwargs).",
        ),
        "ac_kwargs": Argument(
            _DICT,
            "keyword arguments of the actor-critic. The default one takes `hidden_sizes` and "
            "`activation`.",
        ),
        "seed": Argument(
            _FROM_ZERO, "determines every random number of the run; a whole number, zero or more."
        ),
        "steps_per_epoch": Argument(
            _COUNT,
            "environment steps per epoch, over all environments. On-policy algorithms update once "
            "per epoch, so more steps give fewer, less noisy updates; 1000 to 10000.",
        ),
        "epochs": Argument(
            _FROM_ZERO,  # with 0 epochs, the initial policy is saved
            "number of epochs; the run takes epochs * steps_per_epoch environment steps. 20 to "
            "1000 is usual.",
        ),
        "max_ep_len": Argument(
            Number(1, whole=True, endless=True),
            "steps after which an episode is truncated; the rest of its return is estimated. 200 "
            "to 1000. In Atari games, the default means 27,000.",
        ),
        "logger_kwargs": Argument(
            _DICT, "keyword arguments of `EpochLogger`, such as output_dir, exp_name and sinks."
        ),
        "save_freq": Argument(
            _COUNT,
            "epochs between saves of the policy and the checkpoint. An epoch that ends more than a "
            "minute after the last save is also saved.",
        ),
        "num_test_episodes": Argument(
            _FROM_ZERO,
            "episodes without exploration noise at the end of each epoch, in a separate "
            "environment; 5 to 20. 0 means none.",
        ),
        # how it is executed
        "num_envs": Argument(
            _COUNT,
            "environments stepped together in each shard; shards * num_envs must divide "
            "steps_per_epoch. 1 to 64.",
        ),
        "vector": Argument(
            OneOf(("sync", "async")),
            "'sync' steps the environments one after another in this process; 'async' gives each "
            "its own process.",
        ),
        "shards": Argument(
            _COUNT_OR_NONE,
            "number of shards the batch is divided into; fixes the order of floating-point sums. "
            "None means one per process. Off-policy algorithms refuse more than one.",
        ),
        "num_threads": Argument(
            _COUNT_OR_NONE,
            "threads of the framework and BLAS. None means 1; PyTorch uses 2 for large batches and "
            "networks (docs/adr/0008).",
        ),
        "device": Argument(
            OneOf(("cpu", "cuda", "mps", "auto"), numbered=True),
            "device of the networks: 'cpu', 'cuda', or, with PyTorch, 'mps' (Apple's GPUs) or "
            "'auto' (the faster one by rule, docs/gpu.md).",
        ),
        "compile": Argument(
            OneOf((True, False, "graph", None)),
            "compile the update first, which takes about a minute; gradient steps are then faster "
            "and round differently. 'graph' only records it as a CUDA graph. None compiles runs of "
            "200,000 gradient steps or more; on a GPU, it records the others.",
        ),
        "resume": Argument(
            _SWITCH, "continue the run in logger_kwargs['output_dir'] exactly from its checkpoint."
        ),
        "overwrite": Argument(
            _SWITCH,
            "delete a run that is already in the output directory; False moves its files to "
            "`.old/`.",
        ),
        "progress": Argument(
            _SWITCH, "show a progress bar instead of printing a table for each epoch."
        ),
        "save_best": Argument(
            _SWITCH,
            "also save the policy of the best epoch so far, in the folder `best`: the one with the "
            "highest AverageTestEpRet or, without test episodes, AverageEpRet.",
        ),
        "on_epoch": Argument(
            Kind(callable, "a function of a row and the networks", words=(None,)),
            "function that is called after each epoch, as on_epoch(row, ac), with the row of the "
            "table as a dict and the networks. If it returns True, the run ends early.",
        ),
        # returns and advantages
        "gamma": Argument(
            _FRACTION,
            "discount factor. Values closer to 1 look further ahead and are noisier; 0.9 to 0.999.",
        ),
        "lam": Argument(
            _FRACTION,
            "lambda of GAE. Lower values rely more on the value function: less variance, more "
            "bias; 0.9 to 1.",
        ),
        "n_step": Argument(_COUNT),
        "n_steps": Argument(_COUNT),
        "dueling_samples": Argument(_COUNT),
        # learning rates and gradients
        "lr": Argument(_ANY),
        "pi_lr": Argument(_ANY, "learning rate of the policy (Adam); 1e-4 to 1e-3."),
        "vf_lr": Argument(_ANY, "learning rate of the value function (Adam); 3e-4 to 3e-3."),
        "q_lr": Argument(_ANY, "learning rate of the Q-function (Adam); 3e-4 to 1e-3."),
        "max_grad_norm": Argument(
            _LIMIT_OR_NONE, "gradients are clipped to this norm; None does not clip. 0.5 to 10."
        ),
        "anneal_lr": Argument(
            _SWITCH, "decrease the learning rates linearly to zero over the run."
        ),
        # policy gradients
        "train_pi_iters": Argument(_FROM_ZERO),
        "train_v_iters": Argument(
            _FROM_ZERO, "gradient steps of the value function per epoch; 20 to 80."
        ),
        "clip_ratio": Argument(_LIMIT),
        "target_kl": Argument(Number(endless=True, words=(None,))),
        "ent_coef": Argument(
            _ANY,
            "weight of an entropy bonus in the objective. Higher values keep the policy random for "
            "longer; 0 to 0.01.",
        ),
        "clip_vf": Argument(_LIMIT_OR_NONE),
        "minibatch_size": Argument(_COUNT_OR_NONE),
        "delta": Argument(_ANY),
        "damping_coeff": Argument(_ANY),
        "cg_iters": Argument(_COUNT),
        "backtrack_iters": Argument(_FROM_ZERO),
        "backtrack_coeff": Argument(_FRACTION),
        "algo": Argument(OneOf(("trpo", "npg"))),
        # replay and target networks
        "replay_size": Argument(
            _COUNT,
            "capacity of the replay buffer in transitions; the oldest are overwritten. 1e5 to 1e6.",
        ),
        "batch_size": Argument(
            _COUNT,
            "transitions per gradient step. Larger batches are less noisy and slower; 64 to 256.",
        ),
        "start_steps": Argument(
            _FROM_ZERO,
            "the first `start_steps` steps take uniformly random actions, for exploration; 1e3 to "
            "1e4.",
        ),
        "update_after": Argument(
            _FROM_ZERO, "environment steps before the first gradient step; 1e3 to 1e4."
        ),
        "update_every": Argument(
            _COUNT,
            "environment steps between rounds of gradient steps. Higher values make rounds rarer "
            "and longer, with the same number of gradient steps overall; 1 to 50.",
        ),
        "updates_per_step": Argument(
            _ANY,
            "gradient steps per environment step, over all environments (the update-to-data "
            "ratio). Higher values learn more from the same data and are slower; 0.25 to 4.",
        ),
        "polyak": Argument(
            _FRACTION,
            "fraction of the target networks that each update keeps. Values closer to 1 move them "
            "more slowly: more stable, slower learning; 0.99 to 0.999.",
        ),
        "target_update_every": Argument(_COUNT),
        "policy_delay": Argument(_COUNT),
        "replay_ratio": Argument(_ANY),
        "c": Argument(_ANY),
        "double_q": Argument(_SWITCH),
        "loss": Argument(OneOf(("huber", "squared"))),
        "prioritized": Argument(_SWITCH),
        "prio_alpha": Argument(_FRACTION),
        "prio_beta": Argument(_FRACTION),
        "prio_beta_steps": Argument(_COUNT),
        # goals
        "strategy": Argument(OneOf(("future", "final", "episode", "random"))),
        "k": Argument(_FROM_ZERO),
        "base": Argument(OneOf(("dqn", "ddpg", "td3", "sac", None))),
        "base_kwargs": Argument(_DICT),
        # exploration
        "act_noise": Argument(
            _ANY,
            "standard deviation of the exploration noise on actions, in units of half the range of "
            "each dimension. Higher values explore more; 0.05 to 0.3.",
        ),
        "target_noise": Argument(_ANY),
        "noise_clip": Argument(_LIMIT),
        "alpha": Argument(Number(words=("auto",))),
        "target_entropy": Argument(Number(-float("inf"), words=(None,))),
        "eps_start": Argument(_FRACTION),
        "eps_end": Argument(_FRACTION),
        "eps_steps": Argument(_COUNT),
    }
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


# --------------------------------------------------------------------------- training functions


class Call(NamedTuple):
    """A call of a training function."""

    name: str  # the function's name
    arguments: Mapping[str, Any]  # the arguments passed, with defaults for the others
    defaults: Mapping[str, Any]


# The training function that is running in this thread.
_RUNNING: ContextVar[Call] = ContextVar("spinup_training_function")


def training_function(function: F) -> F:
    """Decorate a training function: pass its arguments to the run and complete its docstring.

    The docstring's `Args:` section describes only arguments specific to the algorithm. The others
    are added from the table, in the order of the signature. Integers may be passed as floats, such
    as 1e6.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return _call(function, signature, args, kwargs)

    wrapper.__doc__ = complete_docstring(function.__doc__, signature)
    wrapper.announces_itself = True  # type: ignore[attr-defined]  # see `call_experiment`
    return cast(F, wrapper)


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
            from spinup.runs.synonyms import unexpected

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


# ------------------------------------------------------------------------------------ docstrings


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

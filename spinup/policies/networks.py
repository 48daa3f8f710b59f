"""Rebuild a saved policy's network from JSON and tensors."""

import inspect

import numpy as np
import torch
from gymnasium import spaces

from spinup import registry
from spinup.envs.space_json import space_from_json
from spinup.envs.spaces import is_image
from spinup.policies.activations import activation
from spinup.utils.errors import SpinupError
from spinup.utils.importing import import_object

# Classes that a saved policy may use without the caller's consent.
KNOWN_CLASSES = {
    ("spinup.algos.pytorch.common.nets", "MLPActorCritic"),
    ("spinup.algos.pytorch.reinforce.core", "MLPPolicy"),
    *((f"spinup.algos.pytorch.{algo}.core", "MLPActorCritic") for algo in ("ddpg", "td3", "sac")),
    ("spinup.algos.pytorch.dqn.core", "MLPQNetwork"),
    ("spinup.algos.pytorch.acer.core", "MLPActorCritic"),
    ("spinup.algos.pytorch.her.core", "GoalActorCritic"),
}


def load_actor_critic(meta, tensors, actor_critic=None, trust_code=False):
    """Rebuild the network that `meta` describes and load the saved weights.

    Only the library's own classes are built from a file alone. A custom class must be passed as
    `actor_critic`; with `trust_code=True`, it is imported by the name stored in the file.
    """
    cls = actor_critic or _saved_class(meta.get("class"), trust_code, meta.get("algo"))
    kwargs = meta.get("ac_kwargs") or {}
    if not isinstance(kwargs, dict):
        raise SpinupError(
            f"the saved ac_kwargs are {str(kwargs)[:80]}, not a dict of arguments: save the policy "
            "again"
        )
    inexact = meta.get("inexact_ac_kwargs")
    objects = [name for name in kwargs if isinstance(inexact, list) and name in inexact]
    if objects and actor_critic is None:
        raise SpinupError(
            f"the policy was trained with objects in ac_kwargs ({', '.join(objects)}), which only "
            "its pickle contains: trust the pickle with trust_pickle=True, or pass "
            f"actor_critic=partial(CLASS, {'=..., '.join(objects)}=...)"
        )
    # The file has only the text of an object, so the caller's own takes precedence.
    passed = [name for name in objects if name in getattr(actor_critic, "keywords", {})]
    kwargs = {name: value for name, value in kwargs.items() if name not in passed}
    if isinstance(kwargs.get("activation"), str):
        kwargs["activation"] = activation(kwargs["activation"], "pytorch")
    observation_space = space_from_json(meta["observation_space"])
    encodes = "encoder" in kwargs or any(".obs_filter.net." in name for name in tensors)
    if actor_critic is None and is_image(observation_space) and not encodes:
        # Version 0.1.0 flattened images without scaling them, as other arrays still are.
        ends = (x.astype(np.float32) for x in (observation_space.low, observation_space.high))
        observation_space = spaces.Box(*ends, dtype=np.float32)
    action_space = space_from_json(meta["action_space"])
    try:
        if actor_critic is None and not trust_code:
            # First build it without allocating memory: a tiny file could ask for a huge network.
            if _longest(kwargs) > max(16, len(tensors)):  # a million layers would take minutes
                raise SpinupError(
                    f"the saved ac_kwargs ask for {_longest(kwargs)} layers, but there are only "
                    f"{len(tensors)} tensors: save the policy again"
                )
            with torch.device("meta"):
                shapes = cls(observation_space, action_space, **kwargs).state_dict()
            shapes = {name: tuple(t.shape) for name, t in shapes.items()}
            if shapes != {name: t.shape for name, t in tensors.items()}:
                raise SpinupError(
                    f"the saved weights do not fit {cls.__name__} with the saved ac_kwargs: save "
                    "the policy again"
                )
        ac = cls(observation_space, action_space, **kwargs)
        ac.load_state_dict({name: torch.from_numpy(np.array(t)) for name, t in tensors.items()})
    except SpinupError:
        raise
    except Exception as error:  # arguments from a file can make a constructor raise anything
        name = getattr(cls, "__name__", repr(cls))  # a partial has no name
        raise SpinupError(
            f"the saved weights do not fit {name}: {type(error).__name__}: {str(error)[:500]}"
        ) from error
    ac.action_space = action_space
    return ac.eval()


def _longest(value):
    """Return the length of the longest list in nested arguments."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = len(value) if isinstance(value, list) else 0
    return max((own, *(_longest(v) for v in inner if isinstance(v, dict | list))))


def _saved_class(name, trust_code, algo=None):
    name = name if isinstance(name, dict) else {}
    key = (str(name.get("module")), str(name.get("qualname")))
    own = _default_class(algo)
    if own is not None and key == (own.__module__, getattr(own, "__qualname__", None)):
        return own
    if key not in KNOWN_CLASSES and not trust_code:
        raise SpinupError(
            f"the policy was saved from the class {key[0]}.{key[1]}, which is not the "
            "library's own: pass it as actor_critic, or trust the file with trust_pickle=True"
        )
    try:
        return import_object(*key)
    except ImportError as error:
        raise SpinupError(
            f"the class {key[0]}.{key[1]} that the file names cannot be imported ({error}): make "
            "it importable, or pass it as actor_critic"
        ) from error


def _default_class(algo):
    """Return the default networks of an algorithm that the user has installed or registered."""
    row = registry.find(algo) if isinstance(algo, str) else None
    if row is None or row.function is None:
        return None
    default = inspect.signature(row.function).parameters.get("actor_critic")
    return default.default if default is not None and callable(default.default) else None

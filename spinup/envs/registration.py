"""Registering this library's environments with Gymnasium, without importing them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import gymnasium

__all__ = ["IMAGE_PROBES", "MORE_PROBES", "PROBES", "Probe", "register"]


# The lab's modules, imported when somebody makes one of its environments.
_PROBES, _MORE_PROBES = "spinup_lab.probe.environments", "spinup_lab.probe.more_environments"


class Probe(NamedTuple):
    """A registered probe environment."""

    id: str
    class_name: str
    kwargs: Mapping[str, Any]
    max_episode_steps: int | None = None
    module: str = _PROBES

    @property
    def actions(self) -> str:
        """The kind of actions: Discrete, Box, Asymmetric, MultiDiscrete, MultiBinary, ..."""
        return self.kwargs["actions"]

    @property
    def learns_action(self) -> bool:
        """Whether there is a best action to learn, besides the value."""
        return self.class_name in ("ActionReward", "ActionObservationReward", "ImageReward")


def _probe(
    name: str, class_name: str, actions: str, limit: int | None = None, **kwargs: Any
) -> Probe:
    suffix = {"Discrete": "", "Box": "Continuous"}.get(actions, actions)
    kwargs = {"actions": actions, **kwargs}
    return Probe(f"spinup/Probe{name}{suffix}-v0", class_name, MappingProxyType(kwargs), limit)


_KINDS = ("Discrete", "DiscreteFrom5", "MultiDiscrete", "MultiBinary", "Box", "Asymmetric")
# Value probes exist for discrete and continuous actions, action probes for every kind.
PROBES: tuple[Probe, ...] = (
    *(
        probe
        for actions in ("Discrete", "Box")
        for probe in (
            _probe("Constant", "ConstantReward", actions),
            _probe("Observation", "ObservationReward", actions),
            _probe("TwoStep", "TwoStep", actions),
            _probe("Truncation", "EpisodeEnd", actions, end="truncated"),
            _probe("Termination", "EpisodeEnd", actions, end="terminated"),
            _probe("TimeLimit", "EpisodeEnd", actions, limit=5, end="none"),
        )
    ),
    *(
        probe
        for actions in _KINDS
        for probe in (
            _probe("Action", "ActionReward", actions),
            _probe("ActionObservation", "ActionObservationReward", actions),
        )
    ),
)
IMAGE_PROBES = tuple(_probe("Image", "ImageReward", actions) for actions in ("Discrete", "Box"))
_MORE = ("ActionSequence", "DelayedAction", "Scale", "ManyActions", "OldData", "Temperature")
MORE_PROBES = tuple(
    probe if probe.class_name == "EpisodeEnd" else probe._replace(module=_MORE_PROBES)
    for actions in ("Discrete", "Box")
    for probe in (
        *(_probe(name, name, actions) for name in (*_MORE, "NoisyReward")),
        _probe("Neighbours", "Neighbours", actions),
        _probe("NeighboursCut", "Neighbours", actions, end="truncated"),
        _probe("DeathAtLimit", "EpisodeEnd", actions, limit=5, end="terminated"),
    )
)
GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")  # of MinAtar


def register() -> None:
    """Register our environments with Gymnasium; leave IDs that are already registered alone."""
    for env_id, entry_point, kwargs, limit in _rows():
        if env_id not in gymnasium.registry:
            gymnasium.register(env_id, entry_point, kwargs=dict(kwargs), max_episode_steps=limit)


def _rows() -> Iterator[tuple[str, str, Mapping[str, Any], int | None]]:
    for probe in (*PROBES, *IMAGE_PROBES, *MORE_PROBES):
        entry_point = f"{probe.module}:{probe.class_name}"
        yield probe.id, entry_point, probe.kwargs, probe.max_episode_steps
    for name, kwargs in (("BitFlip", {}), ("ProbeGoal4", {"n": 4}), ("ProbeGoal12", {"n": 12})):
        yield f"spinup/{name}-v0", "spinup.envs.bitflip:BitFlip", kwargs, None
    for game in GAMES:
        name = game.title().replace("_", "")
        for version in (0, 1):
            game_kwargs = {"game": game, "use_minimal_action_set": version == 1}
            yield f"MinAtar/{name}-v{version}", "spinup.envs.minatar:MinAtar", game_kwargs, None

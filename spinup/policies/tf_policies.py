"""Load a policy of the TensorFlow backend.

The library's own networks are saved as a description and arrays, and act in NumPy: TensorFlow need
not be installed. Other graphs, and those of the original Spinning Up, act through a session.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from spinup.algos.common.numpy_actor import NumpyActor
from spinup.envs.space_json import space_from_json
from spinup.envs.spaces import env_actions
from spinup.policies.saved import GetAction, Loaded, has_spaces, load_policy
from spinup.utils.errors import SpinupError


class SampledActions(UserWarning):
    """A saved graph has no output for the most likely action."""


def load_policy_of(
    folder: Path, deterministic: bool, trust_pickle: bool, seed: int | None
) -> Loaded:
    """Load a save (its own folder) with the most capable of the ways above."""
    if (folder / "policy.json").exists():
        meta, actor = load_described(folder)
        rng = np.random.default_rng(seed)

        def act_in(action_space: Any) -> GetAction:
            return act_in_numpy(actor, deterministic, rng, _space(meta, action_space))

        return Loaded(meta, actor, act_in)
    if not (folder / "saved_model.pb").exists():  # said before TensorFlow takes seconds to load
        raise SpinupError(
            f"{folder} contains neither policy.json nor saved_model.pb: use another save"
        )
    return _load_graph(folder, deterministic, trust_pickle, seed)


def _space(meta: dict[str, Any] | None, action_space: Any) -> Any:
    """Return the saved action space or, if there is none, the environment's."""
    return action_space if meta is None else space_from_json(meta["action_space"])


# ------------------------------------------------------------------------- the library's networks


def load_described(folder: Path) -> tuple[dict[str, Any] | None, NumpyActor]:
    """Load a policy that acts in NumPy, and its metadata; None if it has no spaces."""
    meta, arrays = load_policy(folder)
    try:
        actor = NumpyActor(meta.get("actor"), arrays)  # type: ignore[arg-type]
    except SpinupError as error:
        raise SpinupError(f"{folder / 'policy.json'} cannot be used: {error}") from error
    if not has_spaces(meta):
        return None, actor
    observation_space = space_from_json(meta["observation_space"])
    action_space = space_from_json(meta["action_space"])
    if actor.obs_dim != int(np.prod(observation_space.shape or ())) or not _fits(
        actor, action_space
    ):
        raise SpinupError(
            f"{folder / 'policy.json'} cannot be used (its network does not fit its spaces): "
            "save the policy again"
        )
    return meta, actor


def _fits(actor: NumpyActor, space: Any) -> bool:
    """Return whether an actor's outputs are actions of this space."""
    if isinstance(space, spaces.Discrete):
        return actor.kind == "categorical" and actor.act_dim == space.n
    if isinstance(space, spaces.MultiDiscrete):
        return actor.nvec == tuple(int(n) for n in space.nvec.ravel())
    if isinstance(space, spaces.MultiBinary):
        return actor.kind == "bernoulli" and actor.act_dim == int(np.prod(space.shape))
    return (
        isinstance(space, spaces.Box)
        and actor.kind in ("gaussian", "squashed_gaussian", "deterministic")
        and actor.act_dim == int(np.prod(space.shape))
    )


def act_in_numpy(
    actor: NumpyActor, deterministic: bool, rng: np.random.Generator, action_space: Any
) -> GetAction:
    """Return a function from one observation to the action to send to the environment."""
    to_env = (lambda act: act) if action_space is None else env_actions(action_space)

    def get_action(obs: Any) -> Any:
        out = actor(np.asarray(obs)[None])
        return to_env(actor.mode(out) if deterministic else actor.sample(out, rng))[0]

    return get_action


# ----------------------------------------------------------------------------------- other graphs


def _load_graph(folder: Path, deterministic: bool, trust_pickle: bool, seed: int | None) -> Loaded:
    """Load a graph into a session of its own."""
    from spinup.policies.tf_loader import reason, restore
    from spinup.utils.tf import tf

    # Acting on one observation at a time gains nothing from threads or a GPU.
    config = tf.ConfigProto(
        intra_op_parallelism_threads=1, inter_op_parallelism_threads=1, device_count={"GPU": 0}
    )
    sess = tf.Session(graph=tf.Graph(), config=config)
    entropy = np.random.SeedSequence(seed).entropy
    got = restore(sess, folder, trust_pickle, seed=entropy)
    key = "mu" if deterministic and "mu" in got.outputs else "pi"
    if "x" not in got.inputs or key not in got.outputs:
        raise SpinupError(
            f"the graph in {folder} is not a policy, which needs an input 'x' and an output 'pi', "
            f"but has {', '.join(sorted({*got.inputs, *got.outputs})) or 'none'}: save it with "
            "these names"
        )
    if deterministic and key == "pi" and got.random("pi"):
        warnings.warn(
            SampledActions(
                f"the graph in {folder} has no output 'mu', the most likely action, so its actions "
                "are sampled: save it with that output"
            ),
            stacklevel=5,
        )
    x = got.inputs["x"]
    run = sess.make_callable(got.outputs[key], [x])
    meta = got.policy
    meta = meta if meta is not None and has_spaces(meta) else None

    def act_in(action_space: Any) -> GetAction:
        space = _space(meta, action_space)
        to_env = (lambda act: act) if space is None else env_actions(space)

        def get_action(obs: Any) -> Any:
            batch = np.asarray(obs).astype(x.dtype.as_numpy_dtype)[None]
            try:
                return to_env(np.asarray(run(batch)))[0]
            except (tf.errors.OpError, ValueError, TypeError, IndexError) as error:
                raise SpinupError(
                    f"the graph in {folder} cannot act on an observation of shape "
                    f"{batch.shape[1:]} ({reason(error)}): check that it belongs to this "
                    "environment"
                ) from error

        return get_action

    return Loaded(meta, None, act_in)

"""Export policies to other runtimes.

    spinup export data/ppo/ppo_s0 --onnx policy.onnx

The file contains the deterministic policy: normalizer, network, scaling and clipping. Before the
file appears under its final name, it is run with onnxruntime and compared with the original on
several hundred observations.
"""

from __future__ import annotations

import contextlib
import copy
import json
import logging
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from spinup.policies import loading
from spinup.policies.environments import given_env
from spinup.utils.errors import SpinupError

# Maximum difference between two float32 versions, relative to the action's magnitude or to 1,
# whichever is larger.
TOLERANCE = 1e-5


class ExportMismatch(SpinupError):
    """Raised if the exported file acts differently from the original; the file is deleted."""

    exit_code = 1


class Report(NamedTuple):
    """The result of comparing the file with the original."""

    observations: int  # number of observations compared
    difference: float  # largest difference of an action component; relative for components above 1
    differing: int  # discrete actions that differ only because scores tie up to rounding


def export_onnx(
    fpath: str | Path,
    path: str | Path,
    itr: int | str | None = "last",
    *,
    actor_critic: Any = None,
    trust_pickle: bool = False,
    env: Any = None,
    overwrite: bool = False,
) -> Report:
    """Write a run's deterministic policy as an ONNX model.

    The model's input `obs` is a batch of observations as `adapt_env` returns them (dicts
    flattened), as float32; images, which an encoder reads, have the dtype of their space. Its
    output `action` is a batch of the environment's actions. A failure leaves no new file and does
    not change an existing one.

    Args:
        fpath: Run directory.
        path: File to write, ending in .onnx.
        itr: Number of the save; 'last' or -1 means the highest number, or else the unnumbered save.
        actor_critic: The network's class, if it is not one of the library's.
        trust_pickle: As for `load_policy_and_env`.
        env: Environment (an id, a function or an instance), needed only for runs of the original
            Spinning Up.
        overwrite: Replace an existing file.

    Raises:
        ExportMismatch: the exported file acts differently from the original.
        SpinupError: the input is invalid.
    """
    target = _check_target(Path(path), overwrite)
    _check_extra()
    folder, itr = loading.folder_of_save(fpath, itr)
    meta, ac = _load(folder, itr, actor_critic, trust_pickle, env)
    from spinup.policies.deterministic import DeterministicPolicy

    module = DeterministicPolicy(ac, ac.action_space).eval()
    model = _to_onnx(module, ac.observation_space, _metadata(meta, folder))
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        try:
            _write(temporary, model)
        except OSError as error:
            raise SpinupError(
                f"{target} cannot be written ({error.strerror}): choose another folder"
            ) from error
        report = compare(temporary, module, ac, ac.observation_space)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return report


def _check_target(target: Path, overwrite: bool) -> Path:
    if target.suffix != ".onnx":
        raise SpinupError(f"the file must end in .onnx, not {target.name!r}: change the extension")
    if target.is_dir():
        raise SpinupError(f"{target} is a folder: pass a file name")
    if target.exists() and not overwrite:
        raise SpinupError(f"{target} exists: add --overwrite (overwrite=True) to replace it")
    if not target.parent.is_dir():
        raise SpinupError(f"there is no folder {target.parent}: create it, or choose another one")
    return target


def _check_extra() -> None:
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise SpinupError(
            f"exporting needs {error.name}, which is not installed: run "
            "pip install 'spinup[export]'"
        ) from error


def _load(
    folder: Path, itr: int | str | None, actor_critic: Any, trust: bool, env: Any
) -> tuple[dict[str, Any], Any]:
    """Load the run's description, and its network with the spaces as attributes."""
    from spinup.envs import space_from_json

    if loading.backend_of(folder) == "tf1":
        return _load_tf1(loading.tf_folder(folder, itr))
    if loading.has_safe_policy(folder):
        meta, ac = loading.load_module(folder, itr, actor_critic, trust)
        ac.observation_space = space_from_json(meta["observation_space"])
        return meta, ac
    ac = loading.load_pickled_module(folder, itr, trust)
    if env is None:
        raise SpinupError(
            f"{folder} does not contain the policy's spaces: pass its environment with --env "
            "(env=...)"
        )
    made = given_env(env, None, None)
    ac.observation_space, ac.action_space = made.observation_space, made.action_space
    return {"env": {"id": getattr(getattr(made, "spec", None), "id", None)}}, ac


def _load_tf1(saved: Path) -> tuple[dict[str, Any], Any]:
    """Load a policy of the TensorFlow backend as a torch network; TensorFlow is not needed."""
    from spinup.policies.deterministic import DescribedPolicy
    from spinup.policies.tf_policies import load_described

    if not (saved / "policy.json").exists():
        raise SpinupError(
            f"{saved} has no policy.json: of the TensorFlow backend, only policies with the "
            "library's own networks can be exported"
        )
    meta, actor = load_described(saved)
    if meta is None:
        raise SpinupError(
            f"the policy in {saved} was saved without its spaces: save it with "
            "setup_tf_saver(..., policy_meta=...)"
        )
    return meta, DescribedPolicy(actor, meta)


def _metadata(meta: dict[str, Any], folder: Path) -> dict[str, str]:
    from spinup import __version__

    env = meta.get("env")
    known = {
        "algo": meta.get("algo"),
        "env": env.get("id") if isinstance(env, dict) else None,
        "run": folder.resolve().name,
        "observation_space": meta.get("observation_space"),
        "action_space": meta.get("action_space"),
        "spinup": __version__,
    }
    texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in known.items()}
    return {k: v for k, v in texts.items() if v != "null"}


# --------------------------------------------------------------------------------------- the model


def _to_onnx(module: Any, observation_space: Any, metadata: dict[str, str]) -> Any:
    """Convert the module to an ONNX model without the exporter's annotations."""
    import onnx
    import torch

    dtype = _input_dtype(module, observation_space)
    example = torch.as_tensor(np.zeros((2, *observation_space.shape), dtype))
    batch = torch.export.Dim("batch")
    try:
        with _quiet(), torch.no_grad():
            program = torch.onnx.export(
                _plain(module),
                (example,),
                input_names=["obs"],
                output_names=["action"],
                dynamic_shapes=({0: batch},),
                dynamo=True,
                verbose=False,
            )
        assert program is not None
        model = program.model_proto
    except SpinupError:
        raise
    except Exception as error:  # user code is traced and may raise anything
        first = str(error).strip().splitlines()
        raise SpinupError(
            f"torch cannot export {type(module.actor).__name__} "
            f"({type(error).__name__}: {first[0] if first else ''}): write its forward in plain "
            "tensor operations"
        ) from error
    for part in (model, model.graph, *model.graph.node, *model.graph.input, *model.graph.output):
        part.ClearField("doc_string")
        part.ClearField("metadata_props")  # contains this machine's file names and line numbers
    for value in (*model.graph.value_info, *model.graph.initializer):
        value.ClearField("metadata_props")
    model.producer_name, model.producer_version = "spinup", metadata["spinup"]
    onnx.helper.set_model_props(model, metadata)
    onnx.checker.check_model(model)
    return model


def _input_dtype(module: Any, observation_space: Any) -> Any:
    """Return the dtype of the model's input: bytes or flags for an encoder, else float32."""
    from spinup.algos.pytorch.common.layers import takes_bytes

    return observation_space.dtype if takes_bytes(module) else np.float32


def _plain(module: Any) -> Any:
    """Copy the module with torch's own tanh, which is one operation in the file, not four."""
    from torch import nn

    from spinup.algos.pytorch.common.layers import Tanh

    module = copy.deepcopy(module)
    for parent in module.modules():
        for name, child in parent.named_children():
            if type(child) is Tanh:
                setattr(parent, name, nn.Tanh())
    return module


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter, and disable the distributions' checks, which cannot be traced."""
    from torch.distributions import Distribution

    logger = logging.getLogger("torch.onnx")
    level, validates = logger.level, Distribution._validate_args
    logger.setLevel(logging.ERROR)
    Distribution.set_default_validate_args(False)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
        Distribution.set_default_validate_args(validates)


def _write(path: Path, model: Any) -> None:
    with open(path, "wb") as file:
        file.write(model.SerializeToString())
        file.flush()
        os.fsync(file.fileno())


# ----------------------------------------------------------------------------------- the self-test


def compare(path: Path, module: Any, ac: Any, observation_space: Any) -> Report:
    """Compare the file with the original; raise ExportMismatch if their actions differ."""
    from spinup.algos.pytorch.common.acting import make_get_action
    from spinup.policies.deterministic import observations_like

    get_action = make_get_action(ac, deterministic=True)
    session = _session(path)
    groups = observations_like(observation_space, np.random.default_rng(0))
    dtype = _input_dtype(module, observation_space)
    reports = []
    for obs in (group.astype(dtype) for group in groups):
        wanted = np.stack([np.asarray(get_action(o)) for o in obs])
        found = _run(session, obs)
        if found.shape != wanted.shape or found.dtype != wanted.dtype:
            raise ExportMismatch(
                f"the exported policy returns {found.dtype} {found.shape} but the original "
                f"{wanted.dtype} {wanted.shape}: nothing was written"
            )
        reports.append((_compare_choices if module.picks else _compare)(module, obs, found, wanted))
    total, differences, differing, wrong = zip(*reports, strict=True)
    if any(wrong):
        raise ExportMismatch(
            f"the exported policy chooses other actions than the original for {sum(wrong)} of "
            f"{sum(total)} observations: nothing was written"
            if module.picks
            else "the exported policy's actions differ from the original's by up to "
            f"{max(differences):.2g}: nothing was written"
        )
    return Report(sum(total), max(differences), sum(differing))


# For one group of observations: their number, the largest difference of their actions, the number
# of differing discrete actions, and the number of wrong actions.
Group = tuple[int, float, int, int]


def _compare(module: Any, obs: np.ndarray, found: np.ndarray, wanted: np.ndarray) -> Group:
    """Compare continuous actions, which must be equal up to rounding.

    A network may amplify rounding errors. To measure by how much, the original is compared with the
    same network in double precision, separately for each kind of observation.
    """
    _, exact = _in_double(module, obs)
    size = np.maximum(1, np.abs(wanted))
    error = np.abs(found.astype(np.float64) - wanted)
    wrong = ~(error <= TOLERANCE * size + 8 * np.abs(exact - wanted).max())
    return len(obs), float((error / size).max()), 0, int(wrong.sum())


def _compare_choices(module: Any, obs: np.ndarray, found: np.ndarray, wanted: np.ndarray) -> Group:
    """Compare discrete actions, which must be the same or have equal values up to rounding."""
    import torch

    scores, _ = _in_double(module, obs)
    with torch.no_grad():
        own = np.abs(module.scores(torch.as_tensor(obs)).numpy() - scores).max()
    rows = np.flatnonzero((found != wanted).reshape(len(obs), -1).any(-1))
    room = TOLERANCE * np.maximum(1, np.abs(scores)).max() + 8 * own
    wrong = [i for i in rows if not _tied(module, scores[i], found[i], wanted[i], room)]
    return len(obs), 0.0, len(rows), len(wrong)


def _in_double(module: Any, obs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute scores and actions in double precision."""
    import torch

    double = copy.deepcopy(module).double()
    with torch.no_grad():
        rows = torch.as_tensor(obs).double()
        return double.scores(rows).numpy(), double(rows).numpy()


def _session(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _run(session: Any, obs: np.ndarray) -> np.ndarray:
    """Run the file on a batch; check that batches of size 1 give the same actions."""
    (actions,) = session.run(["action"], {"obs": obs})
    for i in (0, len(obs) // 2):
        (alone,) = session.run(["action"], {"obs": obs[i : i + 1]})
        if not np.allclose(alone[0], actions[i], rtol=1e-4, atol=1e-5):
            raise ExportMismatch(
                "the exported policy chooses a different action for a single observation than for "
                "the same observation in a batch: nothing was written"
            )
    return np.asarray(actions)


def _tied(
    module: Any, scores: np.ndarray, found: np.ndarray, wanted: np.ndarray, room: float
) -> bool:
    """Return whether two discrete actions have the same score up to rounding."""
    from gymnasium import spaces

    space = module.action_space
    if not space.contains(found):
        return False
    start = module.start.numpy()
    a, b = (np.ravel(x.astype(np.int64) - start) for x in (found, wanted))
    if isinstance(space, spaces.MultiBinary):
        return bool((np.abs(scores.ravel()[a != b]) <= room).all())
    sizes = [space.n] if isinstance(space, spaces.Discrete) else space.nvec.ravel()
    first = np.cumsum([0, *sizes])[:-1]
    return bool((np.abs(scores[first + a] - scores[first + b]) <= room).all())

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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from spinup.envs import space_from_json
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
    meta, policy, act_in = _load(folder, itr, actor_critic, trust_pickle)
    if meta is not None:
        observation_space = space_from_json(meta["observation_space"])
        action_space = space_from_json(meta["action_space"])
    elif env is not None:
        made = given_env(env, None, None)
        observation_space, action_space = made.observation_space, made.action_space
        meta = {"env": {"id": getattr(getattr(made, "spec", None), "id", None)}}
    else:
        raise SpinupError(
            f"{folder} does not contain the policy's spaces: pass its environment with --env "
            "(env=...)"
        )
    from spinup.algos.pytorch.common.layers import takes_bytes
    from spinup.policies.deterministic import DeterministicPolicy, observations_like

    module = DeterministicPolicy(policy, action_space).eval()
    dtype = observation_space.dtype if takes_bytes(module) else np.dtype(np.float32)
    example = np.zeros((2, *observation_space.shape), dtype)
    model = _to_onnx(module, example, _metadata(meta, folder))
    rng = np.random.default_rng(0)
    groups = [rows.astype(dtype) for rows in observations_like(observation_space, rng)]
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        try:
            _write(temporary, model)
        except OSError as error:
            raise SpinupError(
                f"{target} cannot be written ({error.strerror}): choose another folder"
            ) from error
        report = compare(temporary, module, act_in(action_space), groups)
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


def _load(folder: Path, itr: int | str | None, actor_critic: Any, trust: bool) -> loading.Loaded:
    """Load a policy that acts without noise."""
    backend = loading.backend_of(folder)
    if backend == "tf1":
        saved = loading.tf_folder(folder, itr)
        if not (saved / "policy.json").exists():
            raise SpinupError(
                f"{saved} has no policy.json: of the TensorFlow backend, only policies with the "
                "library's own networks can be exported"
            )
    options = {"actor_critic": actor_critic, "trust_pickle": trust, "seed": None}
    loaded: loading.Loaded = loading.LOADERS[backend](folder, itr, True, **options)
    return loaded


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


def _to_onnx(module: Any, example: np.ndarray, metadata: dict[str, str]) -> Any:
    """Convert the module to an ONNX model without the exporter's annotations."""
    import onnx
    import torch

    batch = torch.export.Dim("batch")
    try:
        with _quiet(), torch.no_grad():
            program = torch.onnx.export(
                _plain(module),
                (torch.as_tensor(example),),
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


def compare(path: Path, module: Any, get_action: Any, groups: Sequence[np.ndarray]) -> Report:
    """Compare the file with the original; raise ExportMismatch if their actions differ.

    Actions must be equal up to rounding; discrete ones may differ if their scores are. A network
    may amplify rounding errors. To measure by how much, it is computed in double precision as
    well, separately for each group of observations.
    """
    run, double = _opened(path), copy.deepcopy(module).double()
    rows, difference, ties, wrong = 0, 0.0, 0, 0
    for obs in groups:
        wanted = np.stack([np.asarray(get_action(o)) for o in obs])
        found = np.concatenate([run(obs[:1]), run(obs[1:])])  # one observation, and a batch
        if found.shape != wanted.shape or found.dtype != wanted.dtype:
            raise ExportMismatch(
                f"the exported policy returns {found.dtype} {found.shape} but the original "
                f"{wanted.dtype} {wanted.shape}: nothing was written"
            )
        rows += len(obs)
        if module.picks:
            scores = _compute(double.scores, obs, np.float64)
            spread = 8 * np.abs(_compute(module.scores, obs, obs.dtype) - scores).max()
            room = TOLERANCE * np.maximum(1, np.abs(scores)).max() + spread
            gap = np.abs(double.worth(scores, found) - double.worth(scores, wanted))
            differs = (found != wanted).reshape(len(obs), -1).any(-1)
            ties += int(differs.sum())
            wrong += int((differs & ~(gap <= room)).sum())
        else:
            size = np.maximum(1, np.abs(wanted))
            error = np.abs(found.astype(np.float64) - wanted)
            spread = 8 * np.abs(_compute(double, obs, np.float64) - wanted).max()
            difference = max(difference, float((error / size).max()))
            wrong += int((~(error <= TOLERANCE * size + spread)).sum())
    if wrong:
        raise ExportMismatch(
            f"the exported policy chooses other actions than the original for {wrong} of {rows} "
            "observations: nothing was written"
            if module.picks
            else "the exported policy's actions differ from the original's by up to "
            f"{difference:.2g}: nothing was written"
        )
    return Report(rows, difference, ties)


def _compute(function: Any, obs: np.ndarray, dtype: Any) -> np.ndarray:
    import torch

    with torch.no_grad():
        found: np.ndarray = function(torch.as_tensor(obs.astype(dtype))).numpy()
        return found


def _opened(path: Path) -> Callable[[np.ndarray], np.ndarray]:
    """Return the file as a function of observations."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda obs: np.asarray(session.run(["action"], {"obs": obs})[0])

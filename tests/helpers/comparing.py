"""What a run leaves behind, read so that two runs can be compared bit for bit."""

import json
from pathlib import Path

import numpy as np
import torch

from spinup.runs.storage.arrays import Piece
from spinup.runs.storage.checkpoints import load_checkpoint


def table(out, name="progress.txt", clock="Time"):
    """A table as a list of rows (dicts of text), the time aside."""
    lines = (Path(out) / name).read_text().split("\n")
    assert lines.pop() == "", f"{name} ends with half a line"
    headers = lines[0].split("\t")
    assert headers[-1] == clock
    rows = [dict(zip(headers, line.split("\t"), strict=True)) for line in lines[1:]]
    for row in rows:
        assert float(row.pop(clock)) >= 0
    return rows


def table_cells(out, name="progress.txt", clock="Time"):
    """A table as lists of text, its header first, without the column of the clock."""
    lines = [line.split("\t") for line in (Path(out) / name).read_text().splitlines()]
    at = lines[0].index(clock)
    return [line[:at] + line[at + 1 :] for line in lines]


def diagnostics_cells(out):
    """The same of `diagnostics.txt`, without the speed."""
    return table_cells(out, "diagnostics.txt", "StepsPerSec")


def weights(out):
    """The bytes of the saved policy's tensors."""
    return (Path(out) / "pyt_save" / "policy.safetensors").read_bytes()


def diagnostics(out):
    """`diagnostics.txt` as a list of rows, the speed aside; one for each row of `progress.txt`."""
    rows = table(out, "diagnostics.txt", "StepsPerSec")
    assert [row["Epoch"] for row in rows] == [row["Epoch"] for row in table(out)]
    return rows


def assert_whole_table(out, epochs, steps_per_epoch):
    """Every epoch has its row, once and in order, with the exact number of steps."""
    rows = table(out)
    assert [int(row["Epoch"]) for row in rows] == list(range(epochs))
    assert [int(row["TotalEnvInteracts"]) for row in rows] == [
        steps_per_epoch * (i + 1) for i in range(epochs)
    ]


def final_state(out):
    """The newest checkpoint, without what depends on the clock, with the arrays of its pieces."""
    state, _ = load_checkpoint(Path(out) / "checkpoints")
    del state["seconds"]
    del state["diagnostics"]["seconds"]
    for saved in (state["logger"], state["diagnostics"]["table"]):
        del saved["offset"]  # the Time column has more digits here and fewer there
        del saved["sha256"]
    return with_pieces(state)


def with_pieces(state):
    """A state with what its pieces hold in their place: their files have random names."""
    if isinstance(state, Piece):
        return state.load()
    if type(state) is dict:
        # Gymnasium's RecordEpisodeStatistics keeps how long episodes took
        return {name: with_pieces(value) for name, value in state.items() if name != "time_queue"}
    if type(state) in (list, tuple):
        return type(state)(with_pieces(value) for value in state)
    return state


def differences(a, b, path="state"):
    """Where two nested states differ, bit for bit."""
    if type(a) is not type(b):
        return [f"{path}: {type(a).__name__} and {type(b).__name__}"]
    if isinstance(a, dict):
        if list(a) != list(b):
            return [f"{path}: keys {list(a)} and {list(b)}"]
        return [d for k in a for d in differences(a[k], b[k], f"{path}.{k}")]
    if isinstance(a, (list, tuple)):
        if len(a) != len(b):
            return [f"{path}: {len(a)} and {len(b)} entries"]
        return [
            d
            for i, (x, y) in enumerate(zip(a, b, strict=True))
            for d in differences(x, y, f"{path}[{i}]")
        ]
    if isinstance(a, torch.Tensor):
        a, b = a.detach().numpy(), b.detach().numpy()
    if isinstance(a, np.ndarray):
        same = a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        return [] if same else [f"{path}: arrays differ"]
    return [] if a == b or (a != a and b != b) else [f"{path}: {a!r} and {b!r}"]


def policy_files(out):
    """The bytes of the saved policy."""
    folder = Path(out) / "pyt_save"
    return {p.name: p.read_bytes() for p in sorted(folder.glob("policy*"))}


def assert_same_run(a, b):
    """Equal tables (time aside), equal policies, and the same state of everything else."""
    assert table(a) == table(b)
    assert diagnostics(a) == diagnostics(b)
    assert policy_files(a) == policy_files(b)
    assert policy_files(a), "no policy was saved"
    assert differences(final_state(a), final_state(b)) == []
    for out in (a, b):
        assert (Path(out) / ".finished").exists()
        leftovers = [p.name for p in Path(out).rglob(".tmp-*")]
        assert leftovers == []
        assert stray_pieces(out) == set()


def stray_pieces(out):
    """Pieces on the disk that no checkpoint names."""
    folder = Path(out) / "checkpoints"
    manifests = [json.loads(path.read_text()) for path in folder.glob("*/manifest.json")]
    named = {name for manifest in manifests for name in manifest["pieces"]}
    return {path.name for path in folder.glob("pieces/*")} - named

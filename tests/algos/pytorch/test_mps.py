"""Apple's GPUs, as far as a machine without one can tell: no float64 ever goes there."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from spinup import SpinupError, ppo_pytorch
from spinup.algos.pytorch.common import advantages
from spinup.algos.pytorch.common.run import TorchRun
from spinup.runs.arguments.table import ARGUMENTS


def test_mps_is_a_device_and_refused_where_torch_has_none(tmp_path, monkeypatch):
    assert "mps" in ARGUMENTS["device"].domain
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    kwargs = {"logger_kwargs": {"output_dir": str(tmp_path / "x")}, "device": "mps"}
    with pytest.raises(SpinupError, match="device='mps' needs a GPU, and torch sees none"):
        ppo_pytorch("CartPole-v1", **kwargs)


class OnMps:
    """Stands for a tensor there: float64 only after it is on the CPU."""

    device = SimpleNamespace(type="mps")

    def __init__(self, x):
        self.x = x

    def cpu(self):
        return self.x

    def double(self):
        raise TypeError("the MPS framework doesn't support float64")


def test_sums_in_float64_are_taken_on_the_cpu():
    x = torch.tensor([1.0, 2.0, 4.0])
    assert advantages.wide(x).dtype == torch.float64
    assert torch.equal(advantages.wide(OnMps(x)), x.double())


@pytest.mark.parametrize("buffer", [torch.float64, torch.float32])
def test_networks_with_float64_buffers_are_refused(buffer, monkeypatch):
    class Net(torch.nn.Module):
        def __init__(self, observation_space, action_space):
            super().__init__()
            self.register_buffer("sums", torch.zeros(3, dtype=buffer))

        def to(self, device):
            raise RuntimeError("moved to the device")

    run = SimpleNamespace(
        config={"device": "mps"},
        device=SimpleNamespace(type="mps"),
        seeds=SimpleNamespace(integer=lambda name: 0),
        observation_space=None,
        action_space=None,
    )
    error = SpinupError if buffer is torch.float64 else RuntimeError
    with pytest.raises(error, match="no 64-bit floats" if error is SpinupError else "moved"):
        TorchRun.build(run, Net, {})


def test_random_numbers_of_the_device_are_seeded_and_saved(monkeypatch):
    kept = {}
    fake = SimpleNamespace(
        manual_seed=lambda seed: kept.update(seed=seed),
        get_rng_state=lambda device: torch.tensor([7]),
        set_rng_state=lambda state, device: kept.update(state=state),
    )
    monkeypatch.setattr(torch, "mps", fake)
    run = object.__new__(TorchRun)
    run.device = SimpleNamespace(type="mps")
    run.seed_backend(np.random.default_rng(0))
    monkeypatch.setattr("spinup.runs.run.Run.global_state", lambda self: {})
    monkeypatch.setattr("spinup.runs.run.Run.set_global_state", lambda self, state: None)
    state = run.global_state()
    run.set_global_state(state)
    assert kept["seed"] > 0 and kept["state"].tolist() == state["mps"].tolist() == [7]

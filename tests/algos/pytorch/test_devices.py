"""device='auto': the rule, the line that explains it, and the record."""

import json
from types import SimpleNamespace

import pytest
import torch
from gymnasium.spaces import Box
from torch import nn

from spinup.algos.pytorch.common import devices
from spinup.algos.pytorch.sac import core

OBS, ACT = Box(-1, 1, (3,)), Box(-2, 2, (1,))


def networks(width=256):
    return core.MLPActorCritic(OBS, ACT, (width, width))


class Own(core.MLPActorCritic):
    """A user's networks."""


def choose(ac, algo="sac", **config):
    run = SimpleNamespace(algo=algo, config={"batch_size": 100, "compile": None, **config})
    return devices.faster_device(run, ac)


def test_without_a_gpu_it_is_the_cpu(train, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    logger = {"output_dir": str(tmp_path / "run")}
    run = train("sac", None, device="auto", logger_kwargs=logger)
    assert "device='auto' chose 'cpu', because torch sees no GPU." in capsys.readouterr().out
    assert json.loads((run.dir / "config.json").read_text())["device"] == "cpu"
    train("sac", None, device="auto", epochs=3, resume=True, logger_kwargs=logger)
    assert "given: auto" not in capsys.readouterr().out  # nothing was contradicted


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)


def test_large_off_policy_updates_go_to_the_gpu(gpu):
    assert choose(networks()) == (
        "cuda", "its batches of 100 and layers of up to 256 units are large enough",
    )  # fmt: skip
    assert choose(networks(64))[0] == "cpu"
    assert choose(networks(64), batch_size=256)[0] == "cuda"


def test_what_cannot_be_a_graph_stays_on_the_cpu(gpu, monkeypatch):
    assert choose(Own(OBS, ACT)) == ("cpu", "a user's own networks cannot be a CUDA graph")
    run = SimpleNamespace(algo="ppo", config={})
    assert devices.faster_device(run, networks())[0] == "cpu"
    monkeypatch.setattr(devices, "num_procs", lambda: 2)
    assert choose(networks())[0] == "cpu"


def test_images_go_to_the_gpu(gpu):
    ac = networks(8)
    ac.encoder = nn.Conv2d(1, 1, 3)
    assert choose(ac) == ("cuda", "the networks see images")

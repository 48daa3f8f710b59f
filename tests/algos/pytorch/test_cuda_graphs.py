"""The bookkeeping of CUDA graphs, with a graph that a CPU can repeat.

`benchmarks/gpu.py --check` repeats the comparisons on a real GPU.
"""

import json

import numpy as np
import pytest
import torch

from spinup.algos.pytorch.common import compiling, cuda_graphs, graphs
from spinup.algos.pytorch.common.run import TorchRun
from spinup.utils.errors import SpinupError

SMALL = {"steps_per_epoch": 100, "updates_per_step": 0.2, "update_every": 10, "start_steps": 20}


class Repeat:
    """A graph that calls the recorded step again, with the memory of the recording."""

    def __init__(self, step, result):
        self.step, self.result = step, result

    def replay(self):
        self.result.copy_(self.step()[0])


@pytest.fixture
def on_cpu(monkeypatch):
    """Let graphs be recorded on the CPU; return the list of recorded steps."""
    recorded = []

    def capture(step):
        update = step.__closure__[0].cell_contents  # its arguments are what a recording must keep
        with cuda_graphs.unchanged(update.args):
            results, rebuild = step()
        recorded.append(update)
        return Repeat(step, results), (results, rebuild)

    def warm_up(step):
        for _ in range(cuda_graphs.WARM_UP):
            step()

    monkeypatch.setattr(cuda_graphs, "capture", capture)
    monkeypatch.setattr(cuda_graphs, "warm_up", warm_up)
    monkeypatch.setattr(torch.cuda, "get_rng_state", torch.get_rng_state)
    monkeypatch.setattr(torch.cuda, "set_rng_state", torch.set_rng_state)
    return recorded


@pytest.fixture
def as_graphs(on_cpu, monkeypatch):
    """Let every run record its update, although it is on the CPU."""

    class Device:
        type = "cuda"

    def compiled(run, update, *optimizers):
        device, run.device = run.device, Device
        try:
            return compiling.compiled(run, update, *optimizers)
        finally:
            run.device = device

    monkeypatch.setattr(TorchRun, "_check_graph", lambda self, device: None)
    for algo in ("ddpg", "td3", "sac", "dqn"):
        monkeypatch.setattr(f"spinup.algos.pytorch.{algo}.{algo}.compiled", compiled)
    return on_cpu


@pytest.mark.parametrize(
    ("algo", "settings", "count"),
    [
        ("ddpg", {}, 1),
        ("td3", {}, 2),  # with and without a step of the policy
        ("sac", {}, 1),
        ("sac", {"alpha": "auto"}, 1),
        ("dqn", {"target_update_every": 3, "max_grad_norm": 0.5, "anneal_lr": False}, 2),
        ("dqn", {"prioritized": True, "anneal_lr": False}, 1),
        ("dqn", {"anneal_lr": True}, 1),
    ],
    ids=["ddpg", "td3", "sac", "sac_auto", "dqn", "dqn_prioritized", "dqn_annealed"],
)
def test_repeating_a_recorded_update_is_training(train, as_graphs, tmp_path, algo, settings, count):
    settings = {**SMALL, "num_test_episodes": 1, "save_freq": 1, "epochs": 3, **settings}
    fast = train(algo, None, **settings)
    assert len(as_graphs) == count
    assert json.loads((fast.dir / "config.json").read_text())["compile"] == "graph"
    logger = {"output_dir": str(tmp_path / "halves"), "quiet": True}
    stop = {"on_epoch": lambda row, ac: True}
    train(algo, None, logger_kwargs=logger, **settings, **stop)
    halves = train(algo, None, resume=True, logger_kwargs=logger, **settings)
    plain = train(algo, None, compile=False, **settings)
    assert fast.rows == halves.rows
    for a, b, c in zip(*(r.ac.parameters() for r in (fast, halves, plain)), strict=True):
        assert torch.equal(a, b)
        # a learning rate in a float32 tensor rounds differently
        torch.testing.assert_close(a, c, atol=1e-6 if settings.get("anneal_lr") else 0, rtol=0)


def test_recording_leaves_no_trace(on_cpu):
    net = torch.nn.Linear(3, 1)
    from spinup.algos.pytorch.common.gradients import Adam

    optimizer = Adam(net.parameters(), lr=0.1)
    graphs.prepare(optimizer)
    before = [p.detach().clone() for p in net.parameters()]
    calls = []

    def update(net, optimizer, batch, flag):
        calls.append(flag)
        optimizer.zero_grad()
        loss = (net(batch["x"]) + torch.randn(())).square().mean()
        loss.backward()
        optimizer.step()
        return {"Loss": loss.detach()}, batch["x"][:, 0].detach()

    torch.manual_seed(0)
    rng = torch.get_rng_state()
    step = cuda_graphs.GraphedUpdate(update)
    batch = {"x": torch.randn(4, 3), "index": np.arange(4)}
    torch.set_rng_state(rng)
    step.record(batch, (net, optimizer, batch, True), {})
    assert len(calls) == cuda_graphs.WARM_UP + 1
    assert all(map(torch.equal, before, net.parameters()))
    assert all(state["step"] == 0 for state in optimizer.state.values())
    assert torch.equal(torch.get_rng_state(), rng)

    info, column = step(net, optimizer, batch, True)
    assert set(info) == {"Loss"} and torch.equal(column, batch["x"][:, 0])
    assert optimizer.state[net.weight]["step"] == 1
    other = {**batch, "x": batch["x"] + 1}
    later, column2 = step(net, optimizer, other, True)
    assert torch.equal(column2, other["x"][:, 0]) and not torch.equal(later["Loss"], info["Loss"])
    assert torch.equal(column, batch["x"][:, 0])  # a result is not overwritten by the next step


def test_arguments_that_never_repeat_are_refused(on_cpu):
    step = cuda_graphs.GraphedUpdate(lambda batch, number: {"Loss": batch["x"].sum() * number})
    batch = {"x": torch.ones(2)}
    for number in range(cuda_graphs.MOST_GRAPHS):
        assert step(batch, number)["Loss"] == 2 * number
    assert step(batch, 0)["Loss"] == 0
    with pytest.raises(SpinupError, match="change too often for CUDA graphs: use compile=False"):
        step(batch, -1)


def test_a_recording_that_fails_is_survived(train, as_graphs, monkeypatch, capsys):
    def broken(step):
        raise RuntimeError("operation not permitted when stream is capturing\nand more")

    plain = train("sac", None, **SMALL, compile=False)
    monkeypatch.setattr(cuda_graphs, "capture", broken)
    run = train("sac", None, **SMALL, logger_kwargs={"output_dir": "x"})
    assert "(operation not permitted when stream is capturing)" in capsys.readouterr().out
    assert json.loads((run.dir / "config.json").read_text())["compile"] is False
    assert run.rows == plain.rows


def test_graphs_need_a_gpu(train, tmp_path):
    with pytest.raises(SpinupError, match="compile='graph' needs device='cuda': use compile"):
        train("sac", None, **SMALL, compile="graph", logger_kwargs={"output_dir": "x"})
    assert not (tmp_path / "x").exists()


def test_graphs_need_a_gpu_that_auto_chooses(train):
    with pytest.raises(SpinupError, match="because CUDA graphs need device='cuda': use compile"):
        train("sac", None, **SMALL, compile="graph", device="auto")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

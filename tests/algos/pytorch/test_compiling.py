"""Compiled updates: the same numbers up to rounding, the same bits every time, and a way back."""

import json
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch._inductor import compile_fx

from spinup.algos.pytorch.common import compiling, graphs
from spinup.algos.pytorch.common import run as torch_run
from spinup.algos.pytorch.common.gradients import Adam
from spinup.algos.pytorch.ddpg import ddpg as ddpg_module
from spinup.utils.errors import SpinupError

SMALL = {"steps_per_epoch": 100, "updates_per_step": 0.2, "update_every": 10, "start_steps": 20}


def config(run):
    return json.loads((run.dir / "config.json").read_text())


@pytest.fixture
def pretend(monkeypatch):
    """Instead of compiling, count: what is compiled is the function itself."""
    seen = []

    def fake(function):
        seen.append(function.__name__)
        return function

    monkeypatch.setattr(graphs, "CompiledUpdate", fake)
    return seen


def check_against_eager(train, tmp_path, algo, **settings):
    settings = {**SMALL, "num_test_episodes": 1, "save_freq": 1, **settings}
    plain = train(algo, None, epochs=3, compile=False, **settings)
    fast = train(algo, None, epochs=3, compile=True, **settings)
    assert config(plain)["compile"] is False and config(fast)["compile"] is True
    names = [n for n in plain.rows[0] if "Loss" in n or "QVals" in n or "Q1Vals" in n or "Log" in n]
    assert names
    for a, b in zip(plain.rows, fast.rows, strict=True):
        for name in names:
            assert a[name] == pytest.approx(b[name], rel=0.02, abs=0.02, nan_ok=True), name
    assert any(a != b for a, b in zip(plain.rows, fast.rows, strict=True))  # it rounds differently
    # the same bits again, and from a checkpoint, which `compile` need not be repeated for
    logger = {"output_dir": str(tmp_path / "halves"), "quiet": True}
    stop = {"on_epoch": lambda row, ac: True}  # after the first epoch
    train(algo, None, epochs=3, compile=True, logger_kwargs=logger, **settings, **stop)
    halves = train(algo, None, epochs=3, resume=True, logger_kwargs=logger, **settings)
    assert halves.rows == fast.rows and config(halves)["compile"] is True
    for a, b in zip(fast.ac.parameters(), halves.ac.parameters(), strict=True):
        assert torch.equal(a, b)


def test_dqn_compiled_is_dqn(train, tmp_path):
    settings = {"max_grad_norm": 0.5, "target_update_every": 3, "anneal_lr": True}
    check_against_eager(train, tmp_path, "dqn", **settings)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algo", "settings"),
    [("ddpg", {}), ("td3", {}), ("sac", {}), ("sac", {"alpha": "auto"})],
    ids=["ddpg", "td3", "sac", "sac_auto"],
)
def test_the_others_compiled_are_themselves(train, tmp_path, algo, settings):
    check_against_eager(train, tmp_path, algo, **settings)


@pytest.mark.parametrize("algo", ["ddpg", "td3", "sac", "dqn"])
@pytest.mark.parametrize("ratio", [0.2, 1e5])
def test_long_runs_are_compiled_by_default(train, pretend, monkeypatch, algo, ratio):
    monkeypatch.setattr(compiling, "LONG", 100 * 0.2 + 1 if ratio == 0.2 else 100)
    run = train(algo, None, **{**SMALL, "updates_per_step": 0.2 if ratio == 0.2 else 1.0})
    assert config(run)["compile"] is (ratio != 0.2)
    assert pretend == ([f"{algo}_update"] if ratio != 0.2 else [])
    assert compiling.LONG != 200_000


@pytest.mark.parametrize("compile", [True, False])
@pytest.mark.parametrize(("cores", "threads"), [(1, 1), (2, 1), (3, 1), (4, 2)])
def test_large_batches_have_two_threads_where_there_are_four_cores(
    train, pretend, monkeypatch, cores, compile, threads
):
    monkeypatch.setattr(torch_run, "_cores", lambda: cores)
    settings = {**SMALL, "batch_size": 512, "ac_kwargs": {"hidden_sizes": (32,)}}
    run = train("ddpg", None, **settings, compile=compile)
    assert config(run)["num_threads"] == threads


def test_the_rule_counts_gradient_steps():
    assert compiling.LONG == 200_000


def test_without_a_compiler_a_run_says_so_and_goes_on(train, pretend, monkeypatch, capsys):
    monkeypatch.setattr(compiling, "_missing", lambda: "there is no C++ compiler")
    run = train("ddpg", None, **SMALL, compile=True, logger_kwargs={"output_dir": "x"})
    assert "Not compiled: there is no C++ compiler." in capsys.readouterr().out
    assert pretend == [] and config(run)["compile"] is False


# ---- calls of the machine code -----------------------------------------------------------------


@pytest.fixture
def traced(monkeypatch):
    """Updates are traced, which is quick, but no machine code is made of them."""
    fallback_random = []

    def fake(graph, examples, **given):
        fallback_random.append(torch._inductor.config.fallback_random)
        return lambda inputs: graph(*inputs)

    monkeypatch.setattr(compile_fx, "compile_fx_inner", fake)
    with torch._dynamo.config.patch(trace_autograd_ops=True):
        yield fallback_random


def step(net, optimizer, batch, twice=False, scale=1.0):
    """An update with a flag, a number, noise and two kinds of results."""
    noise = torch.randn(len(batch["x"]), 1)
    loss = scale * ((net(batch["x"]) - batch["y"] + 0.1 * noise) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    info = {"Loss": loss.detach()}
    if twice:
        info["Twice"] = 2 * loss.detach()
    return info, noise.squeeze(-1)


def learner():
    torch.manual_seed(0)
    net = nn.Linear(3, 1)
    optimizer = Adam(net.parameters(), lr=0.1)
    graphs.prepare(optimizer)
    return net, optimizer


def batch_of(seed, rows=5):
    rng = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(rows, 3, generator=rng), "y": torch.randn(rows, 1, generator=rng)}


def take_steps(update, net, optimizer, calls):
    torch.manual_seed(7)
    return [update(net, optimizer, batch_of(i, rows), **kwargs) for i, (rows, kwargs) in calls]


def test_machine_code_called_directly_computes_what_the_update_does(traced):
    calls = list(enumerate([(5, {}), (5, {"twice": True}), (5, {}), (5, {"twice": True})] * 2))
    calls += [(9, (4, {})), (10, (5, {"scale": 0.5})), (11, (4, {})), (12, (5, {}))]
    mine, plain = learner(), learner()
    update = graphs.CompiledUpdate(step)
    found, want = take_steps(update, *mine, calls), take_steps(step, *plain, calls)
    for (info, noise), (want_info, want_noise) in zip(found, want, strict=True):
        assert list(info) == list(want_info)
        assert torch.equal(noise, want_noise)
        for name, value in info.items():
            torch.testing.assert_close(value, want_info[name])
    for p, q in zip(mine[0].parameters(), plain[0].parameters(), strict=True):
        torch.testing.assert_close(p, q)
    assert len(update.recorded) == 4  # two flags, one more batch size, one more scale
    assert all(traced)  # torch's usual RNG


def test_only_the_first_call_goes_through_torch_compile(traced, monkeypatch):
    net, optimizer = learner()
    update = graphs.CompiledUpdate(step)
    first, _ = update(net, optimizer, batch_of(0))
    monkeypatch.setattr(update, "compiled", None)
    second, _ = update(net, optimizer, batch_of(0))
    assert second["Loss"] is not first["Loss"] and optimizer.state[net.bias]["step"] == 2
    with pytest.raises(TypeError, match="not callable"):  # another network is another call
        update(*learner(), batch_of(0))


@pytest.mark.parametrize(("algo", "calls"), [("dqn", 2), ("td3", 2), ("sac", 1)])
def test_every_call_of_an_algorithms_update_can_be_repeated(
    train, traced, monkeypatch, algo, calls
):
    made = []

    class Kept(graphs.CompiledUpdate):
        def __init__(self, update):
            super().__init__(update)
            made.append(self)

    monkeypatch.setattr(graphs, "CompiledUpdate", Kept)
    every = {"target_update_every": 2} if algo == "dqn" else {}
    train(algo, None, **SMALL, **every, compile=True)
    (update,) = made
    assert len(update.recorded) == calls  # with and without a step of the policy or of the target


def test_one_process_can_compile_any_number_of_runs(traced):
    run = SimpleNamespace(device=torch.device("cpu"), logger=SimpleNamespace(log=print))
    for _ in range(9):  # torch allows eight
        net, optimizer = learner()
        info, _ = graphs.compile_update(run, step)(net, optimizer, batch_of(0))
        assert info["Loss"].isfinite()


@pytest.mark.parametrize("kind", ["unused", "same"])
def test_a_call_whose_batch_cannot_be_replaced_is_not_repeated(traced, kind):
    net, optimizer = learner()
    update = graphs.CompiledUpdate(step)
    for i in range(2):
        batch = batch_of(i)
        if kind == "unused":
            batch["z"] = torch.ones(5)
        else:
            batch["x"] = batch["y"] = torch.randn(5, 3)
        update(net, optimizer, batch)
    assert update.recorded == {} and optimizer.state[net.bias]["step"] == 2


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_what_a_machine_lacks_is_named(monkeypatch):
    assert compiling._missing() == ""
    monkeypatch.setattr(compiling.shutil, "which", lambda name: None)
    monkeypatch.delenv("CXX", raising=False)
    assert compiling._missing() == "there is no C++ compiler"


def test_a_compiler_that_fails_is_survived_with_the_same_numbers(train, monkeypatch, capsys):
    plain = train("ddpg", None, **SMALL, compile=False)
    monkeypatch.setattr(torch, "compile", broken)
    run = train("ddpg", None, **SMALL, compile=True, logger_kwargs={"output_dir": "y"})
    said = capsys.readouterr().out
    assert "Not compiled, because compiling failed (Python.h: No such file or directory)." in said
    assert config(run)["compile"] is False and run.rows == plain.rows


def test_a_compiled_run_does_not_go_on_without_a_compiler(train, pretend, monkeypatch):
    logger = {"output_dir": "z", "quiet": True}
    train("ddpg", None, **SMALL, compile=True, logger_kwargs=logger)
    monkeypatch.setattr(compiling, "_missing", lambda: "there is no C++ compiler")
    with pytest.raises(SpinupError, match="was compiled, but here there is no C\\+\\+ compiler"):
        train("ddpg", None, **SMALL, epochs=2, resume=True, logger_kwargs=logger)


def broken(function, **options):
    """A compiler that is there and does not work."""

    def fail(*args, **kwargs):
        raise RuntimeError("Python.h: No such file or directory\nand a page more")

    return fail


@pytest.mark.parametrize("updates", [True, False])
def test_only_a_run_with_compiled_steps_needs_the_compiler_again(
    train, pretend, monkeypatch, updates
):
    logger = {"output_dir": "w", "quiet": True}
    settings = {**SMALL, "update_after": 10 if updates else 120, "logger_kwargs": logger}
    train("ddpg", None, **settings, compile=True)
    monkeypatch.setattr(graphs, "CompiledUpdate", broken)
    if updates:
        with pytest.raises(SpinupError, match=r"compiling fails here \(Python\.h: No such file"):
            train("ddpg", None, **settings, epochs=2, resume=True)
    else:
        assert config(train("ddpg", None, **settings, epochs=2, resume=True))["compile"] is False


@pytest.mark.parametrize("wrong", ["yes", 1, 0.0])
def test_what_is_no_switch_is_refused_before_anything_is_written(train, tmp_path, wrong):
    with pytest.raises(
        SpinupError, match=f"^compile={wrong!r} must be True, False, 'graph' or None$"
    ):
        train("ddpg", None, **SMALL, compile=wrong)
    assert not list(tmp_path.iterdir())


class Own(ddpg_module.core.MLPActorCritic):
    """A user's network."""


@pytest.mark.parametrize(
    ("algo", "settings", "sentence"),
    [
        ("ddpg", {"actor_critic": Own}, "it works only with the library's own networks"),
        ("dqn", {"prioritized": True}, "it does not support prioritized=True"),
    ],
)
def test_what_cannot_be_compiled_is_refused_or_left_alone(train, pretend, algo, settings, sentence):
    with pytest.raises(SpinupError, match=sentence.replace("'", ".")):
        train(algo, None, **SMALL, **{"compile": True, **settings})
    run = train(algo, None, **{**SMALL, **settings, "epochs": 1}, num_test_episodes=0)
    assert config(run)["compile"] is False and pretend == []

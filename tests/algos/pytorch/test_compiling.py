"""Compiled updates: the same numbers up to rounding, the same bits every time, and a way back."""

import json
import math

import pytest
import torch
from torch import nn

from spinup.algos.pytorch.common import compiling
from spinup.algos.pytorch.common import run as torch_run
from spinup.algos.pytorch.ddpg import ddpg as ddpg_module
from spinup.utils.errors import SpinupError

SMALL = {"steps_per_epoch": 100, "updates_per_step": 0.2, "update_every": 10, "start_steps": 20}


def config(run):
    return json.loads((run.dir / "config.json").read_text())


@pytest.fixture
def pretend(monkeypatch):
    """Instead of compiling, count: what is compiled is the function itself."""
    seen = []

    def fake(function, **options):
        seen.append((function.__name__, options))
        return function

    monkeypatch.setattr(torch, "compile", fake)
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
    train(algo, None, epochs=1, compile=True, logger_kwargs=logger, **settings)
    halves = train(algo, None, epochs=3, resume=True, logger_kwargs=logger, **settings)
    assert halves.rows == fast.rows and config(halves)["compile"] is True
    for a, b in zip(fast.ac.parameters(), halves.ac.parameters(), strict=True):
        assert torch.equal(a, b)


def test_dqn_compiled_is_dqn(train, tmp_path):
    check_against_eager(train, tmp_path, "dqn", max_grad_norm=0.5, target_update_every=3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algo", "settings"),
    [("ddpg", {}), ("td3", {}), ("sac", {}), ("sac", {"alpha": "auto"})],
    ids=["ddpg", "td3", "sac", "sac_auto"],
)
def test_the_others_compiled_are_themselves(train, tmp_path, algo, settings):
    check_against_eager(train, tmp_path, algo, **settings)


def test_adam_written_out_is_adam():
    torch.manual_seed(0)
    nets = [nn.Linear(3, 2) for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    optimizers = [torch.optim.Adam(net.parameters(), lr=0.01, fused=True) for net in nets]
    compiling._prepare(optimizers[1])
    for _ in range(5):
        x = torch.randn(7, 3)
        losses = [net(x).square().mean() for net in nets]
        optimizers[0].zero_grad()
        losses[0].backward()
        norm = nn.utils.clip_grad_norm_(nets[0].parameters(), 0.3)
        optimizers[0].step()
        compiling.minimize_in_graph(losses[1], optimizers[1], 0.3)
        assert norm > 0.3
        for p, q in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-7)
    for p, q in zip(*(o.state.values() for o in optimizers), strict=True):
        assert p["step"] == q["step"] == 5
        torch.testing.assert_close(p["exp_avg"], q["exp_avg"])
        torch.testing.assert_close(p["exp_avg_sq"], q["exp_avg_sq"])


@pytest.mark.parametrize("algo", ["ddpg", "td3", "sac", "dqn"])
@pytest.mark.parametrize("ratio", [0.2, 1e5])
def test_long_runs_are_compiled_by_default(train, pretend, monkeypatch, algo, ratio):
    monkeypatch.setattr(compiling, "LONG", 100 * 0.2 + 1 if ratio == 0.2 else 100)
    run = train(algo, None, **{**SMALL, "updates_per_step": 0.2 if ratio == 0.2 else 1.0})
    assert config(run)["compile"] is (ratio != 0.2)
    assert [name for name, _ in pretend] == ([f"{algo}_update"] if ratio != 0.2 else [])
    for _, options in pretend:
        assert options["fullgraph"] and options["options"]["fallback_random"]
    assert compiling.LONG != 200_000


@pytest.mark.parametrize(
    ("cores", "compile", "threads"), [(1, True, 1), (2, True, 2), (2, False, 1), (4, False, 2)]
)
def test_a_compiled_update_has_two_threads_on_two_cores(
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
    assert "Not compiled, because that failed (Python.h: No such file or directory)." in said
    assert config(run)["compile"] is False and run.rows == plain.rows


def test_a_compiled_run_does_not_go_on_without_a_compiler(train, pretend, monkeypatch):
    logger = {"output_dir": "z", "quiet": True}
    train("ddpg", None, **SMALL, compile=True, logger_kwargs=logger)
    monkeypatch.setattr(compiling, "_missing", lambda: "there is no C++ compiler")
    with pytest.raises(SpinupError, match="was compiled, and here there is no C\\+\\+ compiler"):
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
    monkeypatch.setattr(torch, "compile", broken)
    if updates:
        with pytest.raises(SpinupError, match=r"which fails here \(Python\.h: No such file"):
            train("ddpg", None, **settings, epochs=2, resume=True)
    else:
        assert config(train("ddpg", None, **settings, epochs=2, resume=True))["compile"] is False


@pytest.mark.parametrize("wrong", ["yes", 1, 0.0])
def test_what_is_no_switch_is_refused_before_anything_is_written(train, tmp_path, wrong):
    with pytest.raises(SpinupError, match=f"^compile={wrong!r} must be True, False or None$"):
        train("ddpg", None, **SMALL, compile=wrong)
    assert not list(tmp_path.iterdir())


class Own(ddpg_module.core.MLPActorCritic):
    """A user's network."""


@pytest.mark.parametrize(
    ("algo", "settings", "sentence"),
    [
        ("ddpg", {"actor_critic": Own}, "the library's own networks only"),
        ("dqn", {"prioritized": True}, "it does not know prioritized=True"),
        ("dqn", {"anneal_lr": True}, "it does not know anneal_lr=True"),
    ],
)
def test_what_cannot_be_compiled_is_refused_or_left_alone(train, pretend, algo, settings, sentence):
    with pytest.raises(SpinupError, match=sentence.replace("'", ".")):
        train(algo, None, **SMALL, **{"compile": True, **settings})
    run = train(algo, None, **{**SMALL, **settings, "epochs": 1}, num_test_episodes=0)
    assert config(run)["compile"] is False and pretend == []


def test_states_are_finite_after_a_run_of_zero_gradients():
    p = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.Adam([p], lr=0.1)
    compiling._prepare(optimizer)
    compiling.minimize_in_graph((p * 0).sum(), optimizer, None)
    assert p.tolist() == [1.0, 1.0] and math.isfinite(float(optimizer.state[p]["exp_avg_sq"].sum()))

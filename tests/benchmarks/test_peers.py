"""The comparison with other libraries: what it counts, starts and concludes. Installs nothing."""

import io
import json
import sys
from pathlib import Path

import gymnasium as gym
import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import peers

ROOT = Path(__file__).resolve().parents[2]


ALGOS = ("sac", "td3", "ddpg", "dqn")


def rows(*seconds):
    return [{"seconds": s, "cpu": 1.5 * s, "idle": 0.0} for s in seconds]


@pytest.fixture
def reports():
    """Three rounds, in which the median of the ratios is not the ratio of the medians."""
    every = {side: rows(3.0, 3.0, 3.0) for side in peers.SIDES}
    return every | {"ours, 2 threads": rows(1.0, 2.0, 4.0), "SB3": rows(9.0, 5.0, 6.0)}


def result_of(peers, reports):
    row = peers.summary("sac", reports, {"1": 100.0, "2": 200.0})
    rest = {"command": "c", "cores": 2, "load": 0.0, "versions": {"a": "1"}}
    return rest | {"algorithms": {"sac": row}}


# ------------------------------------------------------------------------------------------ slices


def test_the_turnstile_lets_the_warm_up_and_whole_slices_through(monkeypatch):
    monkeypatch.setattr(peers, "WARM_UP", 3)
    monkeypatch.setattr(sys, "stdin", io.StringIO("go\ngo\n"))
    report = io.StringIO()
    env = peers.Turnstile(gym.make("CartPole-v1"), {"slice": 2}, report)
    env.reset(seed=0)
    taken = 0
    with pytest.raises(SystemExit):
        while True:
            env.step(env.action_space.sample())
            taken += 1
    assert taken == 3 + 2 + 2
    assert len([json.loads(line) for line in report.getvalue().splitlines()]) == 3


@pytest.mark.parametrize("algo", ALGOS)
def test_a_slice_holds_the_same_work_every_time(algo):
    settings = peers.SETTINGS[algo]
    period = settings.get("target_every", settings["every"])
    assert settings["slice"] % period == 0 and peers.WARM_UP % settings["every"] == 0
    updates = settings["slice"] // settings["every"] * settings["updates"]
    assert updates % 2 == 0  # TD3's policy learns in every other one


@pytest.mark.parametrize("algo", ALGOS)
def test_the_sizes_are_those_of_the_environment(algo):
    settings = peers.SETTINGS[algo]
    env = gym.make(settings["env"])
    act = env.action_space
    n = int(act.n) if isinstance(act, gym.spaces.Discrete) else act.shape[0]
    assert (settings["sizes"][0], settings["sizes"][-1]) == (env.observation_space.shape[0], n)


@pytest.mark.parametrize(
    "side, algo",
    [
        *(("eager", algo) for algo in ALGOS),
        ("ours", "dqn"),
        # the others compile for many seconds
        *(pytest.param("ours", algo, marks=pytest.mark.slow) for algo in ALGOS if algo != "dqn"),
    ],
)
def test_our_side_trains_with_the_settings(side, algo, monkeypatch):
    monkeypatch.setattr(peers, "WARM_UP", 60)
    monkeypatch.setattr(peers, "RANDOM_STEPS", 10)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    report, settings = io.StringIO(), peers.SETTINGS[algo]
    with pytest.raises(SystemExit):
        peers.train_ours(
            side,
            algo,
            settings,
            lambda: peers.Turnstile(gym.make(settings["env"]), settings, report),
            1,
        )
    assert json.loads(report.getvalue())["seconds"] > 0


# ----------------------------------------------------------------------------------------- workers


def test_each_library_runs_in_its_own_environment_with_its_own_threads():
    script = str(ROOT / "benchmarks" / "peers.py")
    theirs = str(ROOT / ".venv-peers" / "bin" / "python")
    ours = [sys.executable, script, "sac", "--worker", "ours"]
    assert peers.command(*peers.SIDES["ours, 1 thread"], "sac") == [*ours, "--threads", "1"]
    assert peers.command(*peers.SIDES["ours, 2 threads"], "sac") == [*ours, "--threads", "2"]
    assert peers.command(*peers.SIDES["SBX"], "dqn") == [theirs, script, "dqn", "--worker", "sbx"]
    tf1 = peers.command(*peers.BACKENDS["tf1"], "sac")
    assert tf1[0] == ours[0] and tf1[-4:] == ["--worker", "tf1", "--threads", "1"]


def test_no_environment_variable_says_how_many_threads_to_use():
    told = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_WAIT_POLICY": "active"}
    told |= {"XLA_FLAGS": "--x", "JAX_PLATFORMS": "cuda", "PATH": "/bin"}
    kept = peers.default_environment(told)
    assert kept == {"PATH": "/bin", "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}


# ----------------------------------------------------------------------------------------- figures


def test_figures_are_medians_over_the_rounds(reports):
    row = peers.summary("sac", reports, {"1": 100.0, "2": 200.0})
    assert row["ms_per_step"]["ours, 2 threads"] == 2.0  # 2 s per slice of 1000 steps
    assert row["cores_busy"]["ours, 2 threads"] == 1.5
    ours = {"ours": "ours, 2 threads"}
    assert peers.faster_than("SB3", row) == ours | {"median": 2.5, "rounds": [9.0, 2.5, 1.5]}
    assert peers.faster_than("SBX", row)["median"] == 1.5
    # one update per step: 0.225 GFLOP at 100 GFLOP/s
    assert row["floor_ms_per_step"]["1"] == pytest.approx(2.25, abs=0.01)
    assert row["floor_ms_per_step"]["2"] == pytest.approx(1.127, abs=0.001)


@pytest.mark.parametrize("better", ["ours, 1 thread", "ours, 2 threads"])
def test_the_target_refers_to_our_better_number_of_threads(reports, better):
    every = {side: rows(3.0, 3.0, 3.0) for side in peers.OURS}
    row = peers.summary("sac", reports | every | {better: rows(2.0, 2.0, 2.0)}, {"1": 1.0})
    found = peers.faster_than("SB3", row)
    assert found == {"ours": better, "median": 3.0, "rounds": [4.5, 2.5, 3.0]}


def test_a_missed_target_is_said(reports):
    assert peers.misses(result_of(peers, reports)) == []
    slow = reports | {"SB3": rows(1.9, 3.8, 7.6)}
    said = peers.misses(result_of(peers, slow))
    assert said == ["sac (ours, 2 threads): 1.90 times as fast as Stable-Baselines3 < 2.0"]


def test_the_table_has_every_side(reports):
    head, _, line = peers.tables(result_of(peers, reports)).splitlines()[2:5]
    assert len(head.split("|")) == len(line.split("|"))
    assert line.startswith("| sac | 3 (1.5) | 2 (1.5) | 6 (1.5) | 3 (1.5) |")
    assert "| 2.50 (1.50 to 9.00), target 2.0 |" in line


def test_the_page_quotes_the_saved_figures():
    page = peers.PAGE.read_text(encoding="utf-8")
    quoted = page.split(peers.BEGIN)[1].split(peers.END)[0].strip()
    saved = peers.RESULT.read_text(encoding="utf-8") if peers.RESULT.exists() else None
    assert quoted == (peers.page(json.loads(saved)) if saved else "")


# ------------------------------------------------------------------------------------------- sweep


def sweep_of(peers, **changes):
    """Three rounds of two runs side by side: seconds per slice of 1000 steps."""
    reports = {side: [[4.0, 6.0], [5.0, 5.0], [10.0, 10.0]] for side in peers.SWEEP}
    row = peers.sweep_summary("sac", reports | changes)
    rest = {"command": "s", "cores": 2, "load": 0.0, "versions": {"a": "1"}}
    return rest | {"algorithms": {"sac": row}}


def test_a_sweep_counts_the_steps_of_one_of_two_runs():
    result = sweep_of(peers, SB3=[[12.0, 8.0], [11.0, 11.0], [15.0, 15.0]])
    row = result["algorithms"]["sac"]
    assert row["steps_per_second"]["ours"] == 200 and row["rounds"]["ours"] == [200, 200, 100]
    assert peers.times(row, "SB3") == pytest.approx([2.0, 2.2, 1.5])
    assert peers.sweep_misses(result) == []
    head, _, line = peers.sweep_table(result).splitlines()[2:5]
    assert len(head.split("|")) == len(line.split("|"))
    assert line.startswith("| sac | 200 | 200 | 91 | 200 | 2.00 (1.50 to 2.20), target 2.0 |")


def test_a_sweep_that_misses_a_target_says_so():
    said = peers.sweep_misses(sweep_of(peers, SBX=[[4.0, 4.0], [4.5, 4.5], [9.0, 9.0]]))
    want = [("1.00", "SB3", 2.0), ("0.90", "SBX", 1.0)]
    assert said == [f"sac (sweep): {x} times as fast as {peer} < {t}" for x, peer, t in want]


def test_the_runs_of_a_sweep_have_a_core_and_a_thread_each(monkeypatch, tmp_path):
    started = []

    class Process:
        def __init__(self, command, env, **options):
            started.append((command, env))
            self.stdin, self.stdout = io.StringIO(), io.StringIO('{"seconds": 2.0}\n' * 2)

        def communicate(self):
            self.ended = True

    monkeypatch.setattr(peers.subprocess, "Popen", Process)
    monkeypatch.setattr(peers, "REST", 0.0)
    monkeypatch.setattr(peers.os, "sched_getaffinity", lambda pid: {3, 5, 7})
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    pair = peers.Pair("SBX", peers.SWEEP["SBX"], "sac", tmp_path)
    assert pair.slice() == [2.0, 2.0]
    assert [one.process.stdin.getvalue() for one in pair.workers] == ["go\n", "go\n"]
    pair.end()
    assert all(one.process.ended for one in pair.workers)
    for core, (command, env) in zip(("3", "5"), started, strict=True):
        assert command[:3] == ["taskset", "-c", core]
        assert command[-4:] == ["--worker", "sbx", "--threads", "1"]
        assert env.items() >= peers.ONE_THREAD.items() and env["JAX_PLATFORMS"] == "cpu"


@pytest.mark.parametrize("part", ["sweep", "alone"])
def test_saving_one_kind_of_figures_keeps_the_other(reports, monkeypatch, tmp_path, part):
    monkeypatch.setattr(peers, "RESULT", tmp_path / "peers.json")
    monkeypatch.setattr(peers, "PAGE", tmp_path / "README.md")
    (tmp_path / "README.md").write_text(f"before\n{peers.BEGIN}\n{peers.END}\nafter\n")
    alone, sweep = result_of(peers, reports), sweep_of(peers)
    peers.save("alone", alone)
    peers.save("sweep", sweep)
    again = {"sweep": sweep, "alone": alone}[part] | {"command": "again"}
    again["algorithms"] = {"td3": again["algorithms"]["sac"]}
    peers.save(part, again)
    kept = json.loads((tmp_path / "peers.json").read_text())
    for one, command in (kept, "c"), (kept["sweep"], "s"):
        rows = {algo: row["command"] for algo, row in one["algorithms"].items()}
        assert rows == {"sac": command} | ({"td3": "again"} if one["command"] == "again" else {})
    assert (kept["command"], kept["sweep"]["command"]) == (
        ("c", "again") if part == "sweep" else ("again", "s")
    )
    page = (tmp_path / "README.md").read_text()
    assert page.startswith("before\n") and page.endswith("after\n")
    assert peers.sweep_table(kept["sweep"]) in page and peers.tables(kept) in page


# -------------------------------------------------------------------------------------- arithmetic


def count(function):
    with FlopCounterMode(display=False) as counter:
        function()
    return counter.get_total_flops()


def test_the_operations_of_a_network_are_those_that_torch_counts():
    sizes, batch = (5, 8, 6, 3), 7
    net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3))
    x = torch.randn(batch, 5)
    assert peers.forward(sizes, batch) == count(lambda: net(x))
    assert peers.fit(sizes, batch) == count(lambda: net(x).sum().backward())
    net.requires_grad_(False)
    carried = peers.forward(sizes, batch) + peers.backward_to(5, sizes, batch)
    assert carried == count(lambda: net(x.requires_grad_()).sum().backward())


def test_the_operations_of_an_update_are_those_counted_by_hand(monkeypatch):
    tiny = {"sizes": (2, 3, 1), "batch": 1}  # policy 2-3-1 (SAC: 2-3-2), critics 3-3-1
    monkeypatch.setattr(peers, "SETTINGS", dict.fromkeys(ALGOS, tiny))
    fit_q, fit_pi, judge = 24 + 24 + 6, 18 + 18 + 6, 24 + 12  # judge: one of three inputs
    assert peers.update_flops("ddpg") == 18 + (24 + fit_q) + fit_pi + judge
    assert peers.update_flops("td3") == 18 + 2 * (24 + fit_q) + (fit_pi + judge) / 2
    assert peers.update_flops("sac") == 24 + 2 * (24 + fit_q) + (24 + 24 + 12) + 2 * judge
    assert peers.update_flops("dqn") == 18 + fit_pi  # its network is the policy's

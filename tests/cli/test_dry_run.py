"""`--dry_run`: what it says, that it is true, and that it leaves nothing behind."""

import csv
import re
import shlex
import time

import pytest
from gymnasium.wrappers import FrameStackObservation

from spinup import registry, run
from spinup.cli import estimate
from spinup.cli import plan as cli
from spinup.cli.estimate import Cost, Env, Speed, cost, duration
from spinup.envs import make_env
from spinup.utils.memory import size_text

PPO = "ppo --env CartPole-v1 --steps 200 --epochs 4 --hid 8 --train_pi_iters 2 --train_v_iters 2"
ENV = Env(transition=50, rollout=70, actions=2, limit=200, step=1e-5)


@pytest.fixture(autouse=True)
def empty_directory(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def dry_run(line, capsys):
    """The rows of the table as dicts, and the lines below it."""
    assert run.main([*shlex.split(line), "--dry_run"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    head, _, below = printed.out.partition("\n\n")
    names, *rows = [re.split(r"\s{2,}", row) for row in head.splitlines()]
    return [dict(zip(names, row, strict=True)) for row in rows], below.splitlines()


def test_runs_directories_and_cost_are_printed_and_nothing_is_created(capsys, tmp_path):
    rows, below = dry_run(f"{PPO} --gamma 0.9 0.99 --seed 0 10", capsys)
    assert [row["directory"] for row in rows] == [
        f"data/cmd_ppo_pytorch_gam{g}/cmd_ppo_pytorch_gam{g}_s{s}"
        for g in ("0-9", "0-99")
        for s in (0, 10)
    ]
    for row in rows:
        assert row["what happens"] == "starts"
        # 4 floats of observation, an integer action, reward and flag; the batch in float32
        assert row["memory"] == size_text(200 * (16 + 8 + 9 + 16 + 8 + 16))
        assert re.fullmatch(r"\d+\.\d [KM]iB", row["disk"]) and re.fullmatch(r"\d+ s", row["time"])
    assert below[0].startswith(
        "4 runs, 4 to do, one after another: 14.3 KiB of buffers in memory, "
    )
    assert re.fullmatch(
        r"Disk and time are estimated from one calibration run \(\d+\.\d s\) on this machine "
        r"under its current load.",
        below[1],
    )  # one: a discount factor costs nothing
    assert below[2:] == ["Nothing was created."]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "line",
    [
        "sac --env Pendulum-v1 --hid 8 --epochs 1",
        "sac --env Pendulum-v1 --hid 8 --epochs 1 --num_envs 4 --updates_per_step 0.5",
        "dqn --env CartPole-v1 --hid 8 --epochs 1 --prioritized --update_every 3",
        "acer --env CartPole-v1 --hid 8 --epochs 1 --num_envs 2",
        "her --env spinup/BitFlip-v0 --hid 8 --epochs 1 --k 2",
        "trpo --env CartPole-v1 --hid 8 --epochs 1 --num_envs 2 --cpu 2",
        "ppo_tf1 --env CartPole-v1 --hid 8 --epochs 1",
        "sac_tf1 --env Pendulum-v1 --hid 8 --epochs 1",
    ],
)
def test_every_kind_of_algorithm_can_be_estimated(line, capsys, tmp_path):
    ((row,), below) = dry_run(line, capsys)
    assert row["what happens"] == "starts" and re.match(r"\d+ (s|min)$", row["time"])
    assert below[0].startswith("1 run, 1 to do: ")
    assert list(tmp_path.iterdir()) == []


def test_the_cost_of_an_off_policy_run_is_the_sum_of_its_parts():
    settings = {
        "epochs": 10,
        "steps_per_epoch": 100,
        "replay_size": 600,
        "update_after": 200,
        "updates_per_step": 2.0,
        "num_test_episodes": 3,
        "max_ep_len": 1000,
        "save_freq": 5,
    }
    speed = Speed(step=0.001, act=0.002, update=0.01, save=0.5, disk=10_000, taken=1.0)
    sac = registry.get("sac")
    steps, tests, updates, saves = 1000 * 0.001, 10 * 3 * 200 * 0.002, 800 * 2 * 0.01, 2 * 0.5
    expected = Cost(600 * 50, 10_000 + 8000 + 2 * 600 * 50, pytest.approx(32.0))
    assert 2.0 + steps + tests + updates + saves == pytest.approx(32.0)
    assert cost(sac, settings, ENV, speed, 1) == expected
    assert cost(sac, {**settings, "replay_size": 1e6}, ENV, speed, 1).memory == 1000 * 50
    assert cost(sac, {**settings, "k": 4}, ENV, speed, 1).memory == 600 * 50
    # without any limit a test episode is taken to last an epoch, half as long as one of ENV's
    endless = {**settings, "max_ep_len": float("inf")}
    seconds = cost(sac, endless, ENV._replace(limit=float("inf")), speed, 1).seconds
    assert seconds == pytest.approx(32.0 - tests / 2)


def test_processes_share_the_time_of_an_on_policy_run():
    settings = {"epochs": 10, "steps_per_epoch": 1000, "save_freq": 10}
    speed = Speed(step=0.01, act=0.01, update=0.0, save=0.0, disk=0, taken=1.0)
    ppo = registry.get("ppo")
    assert cost(ppo, settings, ENV, speed, 1).seconds == pytest.approx(102)
    assert cost(ppo, settings, ENV, speed, 4).seconds == pytest.approx(27)


def test_what_happens_to_runs_that_are_there(capsys):
    grid = f"{PPO} --seed 0 1"
    assert run.main(shlex.split(grid)) == 0
    capsys.readouterr()
    rows, below = dry_run(grid, capsys)
    assert [row["what happens"] for row in rows] == ["already done, skipped"] * 2
    assert [row["time"] for row in rows] == ["-", "-"]
    assert below == ["Nothing to do: all 2 runs are already done."]

    rows, _ = dry_run(f"{PPO} --seed 0 1 2 --num_workers 2", capsys)
    assert [row["what happens"] for row in rows] == ["already done, skipped"] * 2 + ["starts"]
    ((row,), _) = dry_run(PPO, capsys)
    assert row["what happens"] == "starts; old run moves to .old/"
    ((row,), _) = dry_run(f"{PPO} --overwrite", capsys)
    assert row["what happens"] == "starts; deletes the old run"
    ((row,), _) = dry_run(f"{PPO.replace('--epochs 4', '--epochs 8')} --resume", capsys)
    assert row["what happens"] == "resumes after 4 of 8 epochs"
    rows, _ = dry_run(f"{grid} --overwrite", capsys)
    assert [row["what happens"] for row in rows] == ["starts; deletes the old run"] * 2


def test_calibration_ends_when_it_has_taken_enough(capsys, monkeypatch):
    monkeypatch.setattr(estimate, "_MOST_SECONDS", 0.0)
    rows, below = dry_run(PPO.replace("--hid 8", "--hid 4 8 12"), capsys)
    assert len({row["time"] for row in rows}) == 1
    assert "; 2 more settings are assumed to cost the average of these." in below[1]


def test_a_setting_that_costs_gets_a_calibration_of_its_own(capsys):
    _, below = dry_run(PPO.replace("--hid 8", "--hid 4 8"), capsys)
    assert below[1].startswith("Disk and time are estimated from 2 calibration runs (")


def test_an_algorithm_of_ones_own_is_listed_without_a_cost(capsys):
    def mine(env_fn, seed=0, epochs=3, logger_kwargs={}):  # noqa: B006
        raise AssertionError("it was run")

    words = "--env CartPole-v1 --seed 1 2 --dry_run"
    cli.execute(mine, cli.plan(mine, words.split(), "mine"))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["directory", "what", "happens"]
    assert lines[1].split() == ["data/mine/mine_s1", "starts"]
    assert lines[-1] == "The cost of mine is unknown. Nothing was created."


def test_what_is_wrong_is_refused_before_it_is_measured(capsys):
    assert run.main(shlex.split("dqn --env Pendulum-v1 --dry_run")) == 2
    assert capsys.readouterr().err.startswith("spinup: dqn cannot use the action space")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.1, "1 s"),
        (89, "89 s"),
        (91, "2 min"),
        (5000, "83 min"),
        (6000, "1 h 40 min"),
        (200_000, "2.3 days"),
    ],
)
def test_durations_in_words(seconds, text):
    assert duration(seconds) == text


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        "ppo --env CartPole-v1 --epochs 20",
        "sac --env Pendulum-v1 --epochs 2 --steps 3000 --start_steps 1000",
    ],
)
def test_estimates_are_true_within_a_small_factor(line, capsys, tmp_path):
    words = shlex.split(line)
    function = registry.load(words[0])
    ready = cli.plan(function, words[1:], "x")
    (cell,) = ready.grid.cells(function)
    meter = estimate.Meter(registry.get(words[0]), 1)
    expected = meter.cost(cell, estimate.settings_of(cell, {}))
    start = time.perf_counter()
    assert run.main([*words, "--exp_name", "x"]) == 0
    taken = time.perf_counter() - start
    assert expected.seconds / 2.5 < taken < expected.seconds * 2.5
    folder = tmp_path / "data" / "x" / "x_s0"
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert expected.disk / 2.5 < size < expected.disk * 2.5
    with open(folder / "progress.txt", newline="") as file:
        assert len(list(csv.DictReader(file, delimiter="\t"))) == cell.kwargs["epochs"]
    capsys.readouterr()


def test_the_memory_of_images_is_counted_in_bytes(capsys):
    settings = "--env spinup/ProbeImage-v0 --steps 64 --epochs 2"
    rows, _ = dry_run(f"ppo {settings} --train_pi_iters 1 --train_v_iters 1", capsys)
    # an image, an integer action, reward and flag; the batch holds bytes, too
    assert rows[0]["memory"] == size_text(64 * (400 + 8 + 9 + 400 + 8 + 16))
    rows, _ = dry_run(f"dqn {settings}", capsys)
    assert rows[0]["memory"] == size_text(128 * (400 + 400 + 8 + 5))


def test_the_frames_of_a_stack_are_counted_once(monkeypatch):
    def stacked(env_name, env_kwargs):
        return lambda: FrameStackObservation(make_env(env_name), 4)

    monkeypatch.setattr(estimate, "env_maker", stacked)
    image = 10 * 10 * 4
    found = estimate.look_at({"env_name": "spinup/ProbeImage-v0"})
    # a frame and a little more, the slots of 4 + 4 frames, a count, action, reward and flag
    assert found.transition == image * 33 // 32 + 8 * 4 + 8 + 8 + 5 < 2 * 4 * image / 6


def test_test_episodes_of_games_may_be_longer_than_the_default(monkeypatch):
    looked = {"MinAtar/Freeway-v1": 2501, "ALE/Pong-v5": 27_000, "spinup/ProbeImage-v0": None}
    for env, longest in looked.items():
        assert estimate.look_at({"env_name": env}).max_ep_len == longest
    cell, *_ = cli.plan(registry.load("dqn"), ["--env", "MinAtar/Freeway-v1"], "x").grid.cells(
        registry.load("dqn")
    )
    seen = []
    monkeypatch.setattr(estimate, "calibrate", lambda *given: estimate.Speed(0, 1, 0, 0, 0, 0))
    monkeypatch.setattr(estimate, "cost", lambda algo, settings, *rest: seen.append(settings))
    meter = estimate.Meter(registry.get("dqn"), 1)
    for given in (1000, 500):  # the default, and a limit of one's own
        meter.cost(cell, {**estimate.settings_of(cell, {}), "max_ep_len": given})
    assert [settings["max_ep_len"] for settings in seen] == [2501, 500]

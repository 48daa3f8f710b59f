"""The long benchmark: its table, its tries, and its page; the training itself is a grid's."""

import json
import shutil

import pytest

from benchmarks import bench, bench_page, ppo_study, screen


@pytest.fixture(autouse=True)
def no_results_yet(monkeypatch, tmp_path):
    read = bench.read
    monkeypatch.setattr(bench, "RESULTS", tmp_path)
    monkeypatch.setattr(bench_page, "read", lambda algo, env: read(algo, env, tmp_path))


def test_every_row_has_a_preset_whose_epochs_fill_a_million_steps():
    for algo, (envs, seeds) in bench.TABLE.items():
        for env in envs:
            config = bench.settings(algo, env, bench.STEPS)
            assert config["epochs"] * config.get("steps_per_epoch", 4000) == bench.STEPS
            assert "env" not in config and seeds >= 3
    swimmer = bench.settings("ppo", "Swimmer-v5", bench.STEPS)
    assert swimmer["gamma"] == 0.999
    trpo = [bench.settings("trpo", env, bench.STEPS)["ac_kwargs"] for env in bench.MUJOCO]
    assert [kwargs.get("log_std_init") for kwargs in trpo] == [None, None, None, -1.5, None]
    preset = bench.settings("ppo", "Ant-v5", bench.STEPS)
    changed = bench.changed(preset, {"gamma": 0.9, "ac_kwargs:log_std_init": -0.5})
    assert changed["gamma"] == 0.9 and changed["ac_kwargs"]["log_std_init"] == -0.5
    assert preset["ac_kwargs"]["log_std_init"] == -0.75  # the preset itself is untouched
    assert bench.digest("ppo", "Swimmer-v5", 10**6) != bench.digest("ppo", "Ant-v5", 10**6)
    assert bench.digest("vpg", "Hopper-v5", 10**6) == bench.digest("vpg", "Ant-v5", 10**6)


def test_a_try_trains_and_plays_and_leaves_the_results_alone(tmp_path, capsys):
    words = ["vpg", "--env=Hopper-v5", "--seeds=1", "--steps=2000", "--workers=1"]
    words.append(f"--data_dir={tmp_path / 'data'}")
    assert bench.main(words) == 0
    assert "seed 100:" in capsys.readouterr().out
    found = json.loads((tmp_path / "data" / "results" / "vpg-Hopper-v5.json").read_text())
    (run,) = found["runs"]
    assert run["seed"] == 100 and run["steps"] == 2000 and run["episodes"] == 20
    assert found["settings"]["epochs"] == 1 and "torch" in found["versions"]
    assert not list(tmp_path.glob("*.json"))
    run["return"] = 1.5  # what is there is not trained or played again, also without its run
    (tmp_path / "data" / "results" / "vpg-Hopper-v5.json").write_text(json.dumps(found))
    for folder in (tmp_path / "data").glob("bench*"):
        shutil.rmtree(folder)
    assert bench.main(words) == 0
    assert not list((tmp_path / "data").glob("bench*"))
    again = json.loads((tmp_path / "data" / "results" / "vpg-Hopper-v5.json").read_text())
    assert again["runs"][0]["return"] == 1.5


def test_a_kept_policy_plays_and_names_no_folder_of_this_machine(tmp_path):
    from spinup import vpg_pytorch
    from spinup.policies.loading import load_policy_and_env

    folder = tmp_path / "run"
    vpg_pytorch("CartPole-v1", steps_per_epoch=100, epochs=1, logger_kwargs={"output_dir": folder})
    bench.keep(folder, tmp_path / "zoo" / "vpg-CartPole-v1")
    kept = tmp_path / "zoo" / "vpg-CartPole-v1"
    assert str(tmp_path) not in (kept / "config.json").read_text()
    assert not list(kept.rglob("*.pt")) and not list(kept.rglob("*.pkl"))
    env, get_action = load_policy_and_env(kept, deterministic=True)
    assert env.action_space.contains(get_action(env.reset(seed=0)[0]))


def test_the_page_has_ours_the_target_and_theirs(tmp_path):
    returns = (3000.0, 1000.0, 2000.0, 2100.0, 1900.0)
    runs = [{"seed": 100 + i, "return": r, "train_seconds": 300} for i, r in enumerate(returns)]
    row = {
        "algo": "ppo",
        "env": "Hopper-v5",
        "steps": bench.STEPS,
        "digest": bench.digest("ppo", "Hopper-v5", bench.STEPS),
        "runs": runs,
        "hardware": {"cpu": "a processor"},
        "workers": 2,
        "command": "python benchmarks/bench.py ppo --env Hopper-v5",
    }
    (tmp_path / "ppo-Hopper-v5.json").write_text(json.dumps(row))
    page = bench_page.page()
    # The interquartile mean of five drops a quarter of the weight at each end.
    assert "| Hopper-v5 | 2,000 [1,300, 2,700] |" in page
    assert "| ppo, Hopper-v5 | 2,000 | 2,400, missed | 1,770 | 2,609 | 2,383 |  |" in page
    assert "| ppo, Hopper-v5 | 3,000, 1,000, 2,000, 2,100, 1,900 | 5 | a processor, 2 " in page
    assert "\n- `python benchmarks/bench.py trpo`\n" in page
    assert "\n- `python benchmarks/bench.py ppo --env HalfCheetah-v5 --env Walker2d-v5" in page
    assert "figures/bench-Hopper.svg" in page and "bench-Ant.svg" not in page
    (tmp_path / "ppo-Hopper-v5.json").write_text(json.dumps(row | {"digest": "of another preset"}))
    assert "\n| Hopper-v5 |" not in bench_page.page()


def test_the_study_shows_no_run_of_a_variant_that_has_changed(tmp_path):
    path = tmp_path / "study.json"
    settings = ppo_study.changed("original", 300_000)
    assert settings["epochs"] == 150 and settings["ac_kwargs"]["log_std_init"] == -0.5
    left_out = settings | {"ac_kwargs": {**settings["ac_kwargs"]}}
    del left_out["minibatch_size"], left_out["ac_kwargs"]["log_std_init"]  # both are defaults
    for seed, trained_with in enumerate((settings, left_out, settings | {"lam": 0.5})):
        run = {"variant": "original", "env": "Hopper-v5", "seed": seed, "steps": 300_000}
        ppo_study.keep({**run, "return": 100.0 * (seed + 1), "settings": trained_with}, path)
    assert [run["seed"] for run in ppo_study.current(path)] == [0, 1]
    *_, line = ppo_study.tables(ppo_study.current(path), ppo_study.EARLIER)
    assert line.startswith("| original |") and line.endswith("| **150** (100, 200) |")


def test_the_study_names_a_run_by_its_arguments(tmp_path):
    path = tmp_path / "study.json"
    run = {"env": "Hopper-v5", "seed": 10, "steps": 10**6, "return": 1.0}
    settings = ppo_study.changed("eight-envs", 10**6)
    ppo_study.keep({**run, "variant": "an older name", "settings": settings}, path)
    (kept,) = ppo_study.current(path)
    assert path.read_text().splitlines()[-2].startswith('{"env": "Hopper-v5"')
    assert kept["variant"] == "eight-envs"
    assert ppo_study.tables([kept], ppo_study.VARIANTS) == []
    every = [ppo_study.full(ppo_study.changed(name, 10**6)) for name in ppo_study.ALL]
    assert all(config not in every[:i] for i, config in enumerate(every))


def test_screening_stops_early_and_names_a_run_by_its_arguments(tmp_path, capsys):
    run = screen.train("trpo", "Hopper-v5", {"gamma": 0.9}, 20, 2000, tmp_path)
    assert run["steps"] == 2000 and run["settings"]["epochs"] == 500  # of a million steps
    assert run["settings"]["gamma"] == 0.9
    out = tmp_path / "screen.json"
    ppo_study.keep(run, out)
    words = ["trpo", "Hopper-v5", "--change", '{"gamma": 0.9}', "--seeds=20", "--stop=2000"]
    screen.main([*words, f"--out={out}"])  # known: nothing is trained
    shown = f"**{run['return']:,.0f}** ({run['return']:,.0f})"
    *_, line = capsys.readouterr().out.splitlines()
    assert line == f"| trpo, Hopper-v5 | gamma 0.9 | 2,000 | {shown} |"
    assert screen.label("trpo", screen.settings("trpo", {})) == "the preset"
    table = screen.table(ppo_study.read(screen.RESULTS)["runs"])
    readme = screen.RESULTS.parents[1].joinpath("README.md").read_text(encoding="utf-8")
    assert "\n".join(table) in readme, "copy the output of screen.py --table"


def test_the_page_is_the_one_that_the_data_gives(repo_root, monkeypatch):
    monkeypatch.undo()  # the results that are kept
    assert bench_page.PAGE.read_text(encoding="utf-8") == bench_page.page(), "run bench.py --page"
    found = bench_page.results()  # only rows of today's presets
    kept = {path.stem for path in (repo_root / "benchmarks/results/bench").glob("*.json")}
    assert kept == {f"{algo}-{env}" for algo, env in found}, "delete the rows of an older preset"
    for env in {env for _, env in found}:
        assert (bench_page.FIGURES / f"bench-{env.partition('-')[0]}.svg").exists()


def test_the_policies_of_the_zoo_are_small_and_play(repo_root):
    from spinup.policies.loading import load_policy_and_env

    folders = sorted(path.parent for path in (repo_root / "zoo").glob("*/config.json"))
    assert folders
    for folder in folders:
        env, get_action = load_policy_and_env(folder, deterministic=True)
        assert env.action_space.contains(get_action(env.reset(seed=0)[0])), folder.name
        assert env.spec.id == folder.name.partition("-")[2]
        env.close()
    files = [path for path in (repo_root / "zoo").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 20e6
    assert {path.suffix for path in files} == {".json", ".safetensors", ".md"}

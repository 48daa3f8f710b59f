"""Names of lines: what varies between the runs, and never a folder if something else tells."""

from pathlib import Path

import pytest

from spinup.analysis import curves, labels
from spinup.analysis.curves import Run
from spinup.cli.main import main


def run(exp_name="e", seed=0, env="CartPole-v1", **config):
    config = {"exp_name": exp_name, "seed": seed, "env": {"id": env, "kwargs": {}}, **config}
    return Run(Path(f"data/{exp_name}/{exp_name}_s{seed}"), exp_name, 1, [], config, [])


def names(*runs):
    return labels.name_runs(runs, [r.exp_name for r in runs], [r.env for r in runs])


def test_one_argument_that_varies_is_the_name():
    found = names(
        *(
            run(f"g_pi{lr}", seed, algo="ppo", pi_lr=lr, gamma=0.99, torch_version=str(lr))
            for lr in (0.001, 0.01)
            for seed in (0, 1)
        )
    )
    assert found == ["pi_lr=0.001"] * 2 + ["pi_lr=0.01"] * 2


def test_real_runs_of_two_commands_differ_only_in_the_argument_that_was_changed(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    words = ["vpg", "--env", "CartPole-v1", "--hid", "8", "--steps", "20", "--epochs", "1"]
    assert main([*words, "--exp_name", "a", "--seed", "1"]) == 0
    assert main([*words, "--exp_name", "b", "--seed", "2", "--lam", "0.5"]) == 0
    found = curves.read_runs(["data"], [])
    assert names(*found) == ["lam=0.97", "lam=0.5"]


def test_runs_that_differ_in_nothing_are_named_after_their_algorithm():
    assert names(run(seed=0, algo="sac"), run(seed=7, algo="sac")) == ["sac", "sac"]


def test_algorithms_that_differ_are_named_and_only_their_own_arguments_count():
    found = names(
        run("a", algo="ppo", clip_ratio=0.2, pi_lr=1e-3),
        run("b", algo="ppo", clip_ratio=0.1, pi_lr=1e-3),
        run("c", algo="td3", polyak=0.995, pi_lr=3e-4),
    )
    assert found == ["ppo, clip_ratio=0.2", "ppo, clip_ratio=0.1", "td3"]


def test_an_argument_that_varies_only_between_environments_is_not_in_a_name():
    found = names(
        run("a", env="CartPole-v1", algo="ppo", epochs=10, gamma=0.9),
        run("b", env="CartPole-v1", algo="ppo", epochs=10, gamma=0.99),
        run("c", env="Hopper-v5", algo="ppo", epochs=99, gamma=0.9),
        run("d", env="Hopper-v5", algo="ppo", epochs=99, gamma=0.99),
    )
    assert found == ["gamma=0.9", "gamma=0.99"] * 2


def test_nested_arguments_are_short_and_have_a_default():
    found = names(
        run("a", algo="ppo", ac_kwargs={"hidden_sizes": [64, 64]}),
        run("b", algo="ppo", ac_kwargs={}),
    )
    assert found == ["hidden_sizes=64,64", "hidden_sizes=default"]
    both = {"ac_kwargs": {"size": 1}, "buffer_kwargs": {"size": 2}}
    swapped = {"ac_kwargs": {"size": 2}, "buffer_kwargs": {"size": 1}}
    assert names(run("a", **both), run("b", **swapped)) == [
        "ac_kwargs:size=1, buffer_kwargs:size=2",
        "ac_kwargs:size=2, buffer_kwargs:size=1",
    ]


def test_a_top_level_argument_that_an_older_version_did_not_have_is_no_difference():
    found = names(
        run("a", algo="ppo", pi_lr=0.1),
        run("b", algo="ppo", pi_lr=0.2, num_envs=1),
    )
    assert found == ["pi_lr=0.1", "pi_lr=0.2"]


@pytest.mark.parametrize("key", ["num_threads", "device", "vector", "save_freq"])
def test_how_a_run_is_executed_counts_only_if_nothing_else_differs(key):
    assert names(run("a", **{key: 1}), run("b", **{key: 2})) == [f"{key}=1", f"{key}=2"]
    found = names(run("a", gamma=0.1, **{key: 1}), run("b", gamma=0.2, **{key: 2}))
    assert found == ["gamma=0.1", "gamma=0.2"]


def test_experiments_that_nothing_else_tells_apart_keep_their_names():
    assert names(run("old", algo="ppo"), run("new", algo="ppo")) == ["old", "new"]
    found = names(
        run("a", algo="ppo", gamma=0.9),
        run("b", algo="ppo", gamma=0.9),
        run("c", algo="ppo", gamma=1.0),
    )
    assert found == ["gamma=0.9, a", "gamma=0.9, b", "gamma=1"]


def test_a_config_without_an_algorithm_or_with_addresses_is_named_after_the_experiment():
    assert names(run("mine")) == ["mine"]
    addresses = [run(e, logger_={"x": f"<Logger object at 0x{e}>"}) for e in ("1a", "2b")]
    assert names(*addresses) == ["1a", "2b"]


def test_arguments_that_differ_between_the_seeds_of_a_line_do_not_name_it():
    found = names(
        run("a", 0, algo="ppo", note="x", gamma=0.9),
        run("a", 1, algo="ppo", note="y", gamma=0.9),
        run("b", 0, algo="ppo", note="x", gamma=1.0),
    )
    assert found == ["gamma=0.9", "gamma=0.9", "gamma=1"]


@pytest.mark.parametrize(
    "seeds, text",
    [
        ([[0]], "1 seed"),
        ([[0, 1, 2]], "3 seeds"),
        ([[0, 1, 2], [0, 1, 2]], "3 seeds"),
        ([[0, 1], [0, 1, 2]], "2 to 3 seeds"),
        ([[0, 0]], "2 runs"),
        ([[0, None]], "2 runs"),
        ([[None]], "1 run"),
    ],
)
def test_seeds_are_counted_and_repeated_ones_are_runs(seeds, text):
    assert labels.count_seeds(seeds) == text


def test_a_seed_that_is_not_recorded_is_read_from_the_folder():
    one = run(seed=3)
    del one.config["seed"]
    assert labels.seed_of(one) == 3
    assert labels.seed_of(Run(Path("data/mine"), "mine", 1, [], {}, [])) is None

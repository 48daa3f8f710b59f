"""The script that checks runs on a GPU: the same comparisons, here on the CPU."""

import json

import pytest

from benchmarks import gpu


@pytest.fixture(autouse=True)
def few_steps_here(monkeypatch):
    monkeypatch.setitem(gpu.FEW, "device", "cpu")
    monkeypatch.setitem(gpu.FEW, "steps_per_epoch", 100)


def test_equal_runs_pass(capsys):
    assert gpu.check(["td3"], compiled=False) == 0
    assert "twice True, resumed True" in capsys.readouterr().out


def test_a_run_that_differs_is_noticed(capsys, monkeypatch):
    train, seeds = gpu.train, iter(range(9))

    def another_seed(algo, env, **settings):
        return train(algo, env, **{**settings, "seed": next(seeds) // 2})

    monkeypatch.setattr(gpu, "train", another_seed)  # seeds 0, 0; then 1, 1 for the halves
    assert gpu.check(["reinforce"], compiled=False) == 1
    assert "twice True, resumed False" in capsys.readouterr().out


def test_every_row_has_a_figure_and_a_documented_target(repo_root):
    saved = json.loads((repo_root / "benchmarks" / "results" / "gpu.json").read_text())
    assert set(saved["rows"]) <= set(gpu.ROWS)
    page = (repo_root / "docs" / "gpu.md").read_text()
    for row, target in gpu.TARGETS.items():
        assert f"{round(saved['rows'][row]['compiled']):,}" in page, row
        assert f"{target:,}" in page, row

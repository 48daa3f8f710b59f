"""The scaling benchmark: its page quotes its data, its model behaves as the page says."""

import json
from pathlib import Path

import pytest

from benchmarks import scaling

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def result():
    return json.loads(scaling.RESULT.read_text(encoding="utf-8"))


def test_the_page_quotes_the_saved_figures(result):
    page = scaling.PAGE.read_text(encoding="utf-8")
    quoted = page.split(scaling.BEGIN)[1].split(scaling.END)[0].strip()
    assert quoted == scaling.tables(result)


def test_the_saved_predictions_follow_from_the_saved_figures(result):
    assert scaling.predict(result) == result["model"]["predicted"]


def test_the_model_moves_the_bytes_that_the_page_says():
    free = {"alpha": 0.0, "fixed": 0.0, "row_fixed": 0.0, "add": 0.0}
    moved = {p: scaling.average_seconds(free | {"beta": 1.0}, p, 10**6) for p in (1, 2, 64)}
    assert moved == {1: 0.0, 2: 4e6, 64: pytest.approx(2 * 63 / 64 * 4e6)}
    # up to 65536 numbers over all processes, each gets what every other has
    assert scaling.average_seconds(free | {"beta": 1.0}, 4, 1000) == 3 * 4000


def test_the_model_of_one_process_sends_nothing(result):
    m = result["model"]["measured"]
    slow = m | {"alpha": 1e3, "beta": 1e-3, "fixed": 1e3}
    assert scaling.epoch_seconds(m, 1, 4096, 80) == scaling.epoch_seconds(slow, 1, 4096, 80)
    assert scaling.epoch_seconds(m, 2, 4096, 80) < scaling.epoch_seconds(slow, 2, 4096, 80)


def test_small_path_is_the_one_of_the_library():
    from spinup.parallel import world as mpi_world

    assert scaling.SMALL_PATH == mpi_world.SMALL


def test_a_missed_target_is_said(result):
    worse = json.loads(json.dumps(result))
    worse["training"]["ppo"]["speedup"]["median"] = 1.2
    worse["averages"][0]["sizes"][0]["to_allreduce"] = 2.5
    said = "\n".join(scaling.misses(worse))
    assert "ppo: speedup 1.20 < 1.7" in said
    assert "10,000 numbers on 2 processes: 2.50 times" in said

"""The learning gates: what is kept of them."""

from benchmarks import learn


def test_runs_of_another_preset_do_not_stay_beside_a_new_result():
    fresh = {"returns": [1.0], "hyperparameters": {"gamma": 0.9}}
    compiled = {"returns": [2.0], "hyperparameters": {"gamma": 0.9, "compile": True}}
    row = {"returns": [0.0], "hyperparameters": {"gamma": 0.9}}
    row = learn.merged(learn.merged(row, fresh, "fresh"), compiled, "compiled")
    assert (row["fresh"], row["compiled"]) == (fresh, compiled)

    again = {"returns": [3.0], "hyperparameters": {"gamma": 0.9}}
    assert learn.merged(row, again, None) == {**row, "returns": [3.0]}
    other = {"returns": [3.0], "hyperparameters": {"gamma": 0.99}}
    assert learn.merged(row, other, None) == other


def test_a_row_passes_by_its_median_and_its_worst_seed():
    assert learn.verdict([500, 480, 290], 475, 500) == {"pass": True, "stretch": False}
    assert not learn.verdict([500, 480, 284], 475, 500)["pass"]  # below 60 % of 475
    assert not learn.verdict([500, 470, 470], 475, 400)["pass"]
    assert learn.verdict([-100, -90, -142], -95, -120) == {"pass": False, "stretch": True}
    assert learn.verdict([-94, -90, -142], -95, -100)["pass"]
    assert not learn.verdict([-94, -90, -143], -95, -100)["pass"]  # more than 1.5 times worse

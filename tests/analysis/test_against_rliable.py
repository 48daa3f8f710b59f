"""Our statistics against rliable, the reference, on the same scores."""

import json
import math

import numpy as np
import pandas.util._decorators
import pytest

from spinup.analysis import stats
from spinup.cli.compare import main as compare_command


def import_rliable():
    """rliable needs arch < 8, whose models (unused here) decorate with a function of pandas that
    takes one argument more since pandas 3; it is replaced while they are imported.
    """
    theirs = pandas.util._decorators.deprecate_kwarg
    pandas.util._decorators.deprecate_kwarg = lambda *a, **k: lambda function: function
    try:
        from rliable import library, metrics
    finally:
        pandas.util._decorators.deprecate_kwarg = theirs
    return library, metrics


library, metrics = import_rliable()


def scores(seed, runs, environments):
    """(runs, environments), with environments of different scale and a heavy tail."""
    rng = np.random.default_rng(seed)
    scale = rng.uniform(0.2, 2.0, size=environments)
    return rng.standard_t(4, size=(runs, environments)) * scale + rng.normal(size=environments)


def strata(matrix):
    return list(matrix.T)


def joined(matrix):
    return np.concatenate(strata(matrix)), stats.weights_of([len(matrix)] * matrix.shape[1])


# What the ends of two percentile intervals may differ by, through the noise of their bootstraps
# alone: the 2.5 % quantile of R normal replicates has a standard error of
# sqrt(0.025 * 0.975 / R) / density = 2.67 sd / sqrt(R); four of those for the difference.
def tolerance(replicates, reps_other):
    return 4 * 2.67 * replicates.std() * math.sqrt(1 / len(replicates) + 1 / reps_other)


SHAPES = [(3, 1), (5, 4), (10, 3), (8, 6), (11, 2)]


@pytest.mark.parametrize("runs, environments", SHAPES)
@pytest.mark.parametrize(
    "ours, theirs", [(stats.iqm, metrics.aggregate_iqm), (stats.mean, metrics.aggregate_mean)]
)
def test_aggregates_and_their_intervals_are_those_of_rliable(runs, environments, ours, theirs):
    matrix = scores(runs + environments, runs, environments)
    assert float(ours(*joined(matrix))) == pytest.approx(theirs(matrix), abs=1e-9)
    reps = 1500
    np.random.seed(0)  # rliable draws from the global generator
    points, intervals = library.get_interval_estimates(
        {"a": matrix}, lambda s: np.array([theirs(s)]), reps=reps
    )
    replicates = stats.bootstrap(strata(matrix), ours, 20_000, np.random.default_rng(0))
    np.testing.assert_allclose(points["a"], ours(*joined(matrix)), atol=1e-9)
    np.testing.assert_allclose(
        stats.interval(replicates), intervals["a"][:, 0], atol=tolerance(replicates, reps)
    )


@pytest.mark.parametrize("runs_x, runs_y, environments", [(5, 5, 3), (4, 9, 2), (12, 6, 1)])
def test_probability_of_improvement_is_that_of_rliable(runs_x, runs_y, environments):
    x, y = scores(1, runs_x, environments), scores(2, runs_y, environments) - 0.3
    x[0], y[0] = 1.0, 1.0  # ties
    mine = stats.probability_of_improvement(strata(x), strata(y))
    assert mine == pytest.approx(metrics.probability_of_improvement(x, y), abs=1e-9)
    reps = 400
    np.random.seed(0)
    _, intervals = library.get_interval_estimates(
        {"x,y": (x, y)}, metrics.probability_of_improvement, reps=reps
    )
    replicates = stats.bootstrap_improvement(strata(x), strata(y), 20_000, np.random.default_rng(0))
    np.testing.assert_allclose(
        stats.interval(replicates), intervals["x,y"].reshape(2), atol=tolerance(replicates, reps)
    )


def test_performance_profiles_are_those_of_rliable():
    matrix = scores(3, 9, 4)
    taus = np.linspace(-2, 3, 23)
    reps = 1000
    np.random.seed(0)
    profiles, intervals = library.create_performance_profile({"a": matrix}, taus, reps=reps)
    np.testing.assert_allclose(stats.profile(strata(matrix), taus), profiles["a"], atol=1e-9)
    replicates = stats.bootstrap_profile(strata(matrix), taus, 10_000, np.random.default_rng(0))
    ends = stats.interval(replicates)
    for i in range(len(taus)):
        # Shares come in steps of 1/36: an end that lies on a step may be one off.
        near = tolerance(replicates[:, i], reps) + 1 / 36 + 1e-9
        np.testing.assert_allclose(ends[:, i], intervals["a"][:, i], atol=near)


def test_the_command_gives_the_numbers_of_rliable(tmp_path, capsys):
    """From run directories to the JSON file, normalised by a given reference."""
    references = {"Hopper-v5": (20.0, 3000.0), "Ant-v5": (-100.0, 5000.0)}
    rng = np.random.default_rng(0)
    final = {"ppo": rng.uniform(0.2, 0.7, size=(6, 2)), "sac": rng.uniform(0.4, 1.0, size=(9, 2))}
    for name, matrix in final.items():
        for seed, row in enumerate(matrix):
            for score, (env, (low, high)) in zip(row, references.items(), strict=True):
                run = tmp_path / name / env / f"s{seed}"
                run.mkdir(parents=True)
                value = low + score * (high - low)
                # The last two rows have the score as their mean.
                rows = [(1000, low), (2000, value - 7.0), (3000, value + 7.0)]
                text = "".join(f"{x}\t{float(y)!r}\n" for x, y in rows)
                (run / "progress.txt").write_text(f"TotalEnvInteracts\tAverageTestEpRet\n{text}")
                (run / "config.json").write_text(
                    json.dumps({"exp_name": name, "env": {"id": env, "kwargs": {}}})
                )
    out = tmp_path / "numbers.json"
    args = [f"{tmp_path}/ppo", f"{tmp_path}/sac", "--last", "2", "--reps", "20000"]
    limits = [f"{env}={low},{high}" for env, (low, high) in references.items()]
    outputs = ["--json", str(out), "--save", str(tmp_path / "o.png")]
    assert compare_command([*args, "--normalise", *limits, *outputs]) == 0
    result = json.loads(out.read_text())
    for name, matrix in final.items():
        entry = result["algorithms"][name]
        assert entry["iqm"] == pytest.approx(metrics.aggregate_iqm(matrix), abs=1e-9)
        assert entry["mean"] == pytest.approx(metrics.aggregate_mean(matrix), abs=1e-9)
        share = library.score_distributions(matrix, np.array(result["profiles"]["tau"]))
        np.testing.assert_allclose(
            result["profiles"]["algorithms"][name]["share"], share, atol=1e-9
        )
        np.random.seed(1)
        _, intervals = library.get_interval_estimates(
            {"a": matrix}, lambda s: np.array([metrics.aggregate_iqm(s)]), reps=1500
        )
        width = np.ptp(entry["iqm_ci"]) / 3.92  # a standard deviation of the replicates
        noise = 4 * 2.67 * width * math.sqrt(1 / 1500 + 1 / 20_000)
        np.testing.assert_allclose(entry["iqm_ci"], intervals["a"][:, 0], atol=noise)
    (pair,) = result["pairs"]
    assert (pair["x"], pair["y"]) == ("sac", "ppo")
    wanted = metrics.probability_of_improvement(final["sac"], final["ppo"])
    assert pair["improvement"] == pytest.approx(wanted, abs=1e-9)

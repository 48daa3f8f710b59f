"""Comparing algorithms: what is read, what is concluded, and what the figures show."""

import json
import pickle
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from matplotlib.figure import Figure

from spinup.analysis import compare, compare_figures, comparison, stats
from spinup.analysis.comparison import compare_scores, more_seeds
from spinup.cli.compare import main as compare_command
from spinup.utils.errors import SpinupError
from tests.helpers.bomb import Bomb
from tests.helpers.processes import environment, run_python
from tests.helpers.svg_reader import SvgFigure

ROOT = Path(compare.__file__).resolve().parents[2]


def write_run(folder, returns, env="Hopper-v5", exp_name=None, step=1000, config=None):
    folder.mkdir(parents=True)
    rows = [f"{step * (i + 1)}\t{float(y)!r}\n" for i, y in enumerate(returns)]
    (folder / "progress.txt").write_text("TotalEnvInteracts\tAverageEpRet\n" + "".join(rows))
    config = config or {"env": {"id": env, "kwargs": {}}}
    config = {"exp_name": exp_name or folder.parent.name, **config}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def write_algorithm(root, name, finals):
    """`finals`: environment -> a score a seed; every row of a run has it."""
    for env, scores in finals.items():
        for seed, score in enumerate(scores):
            write_run(root / name / env / f"s{seed}", [score] * 5, env, f"{name}-{env}")
    return str(root / name)


def numbers(args, tmp_path):
    out = tmp_path / "numbers.json"
    words = [*map(str, args), "--json", str(out)]
    # Figures take most of the time; two tests look at them.
    with pytest.MonkeyPatch.context() as patch:
        if "--save" not in words:
            patch.setattr(compare.compare_figures, "save_figures", lambda *a: [])
            patch.setattr(compare, "_note_no_display", lambda: None)
        assert compare_command(words) == 0
    return json.loads(out.read_text())


# ---------------------------------------------------------------------------------- plain words


def pair_of(x, y, reps=2000):
    (pair,) = compare_scores({"x": x, "y": y}, reps)["pairs"]
    return pair


def samples(rng, sizes, shift=0.0):
    return {f"env{i}": rng.normal(size=n) + shift for i, n in enumerate(sizes)}


def test_a_clear_difference_is_established_and_needs_no_more_seeds():
    rng = np.random.default_rng(0)
    pair = pair_of(samples(rng, [10, 10]), samples(rng, [10, 10], shift=3.0))
    assert pair["verdict"] == "established" and pair["more_seeds"] == 0
    assert (pair["x"], pair["y"]) == ("y", "x")  # the better one first
    assert pair["iqm_difference_ci"][0] > 1.5 and pair["improvement_ci"][0] > 0.8
    assert pair["p"] < 0.001
    assert pair["sentence"].startswith("Established: y is better than x; the IQM of y is higher by")
    assert pair["sentence"].endswith("No more seeds are needed.")


def test_the_same_scores_show_no_difference():
    scores = samples(np.random.default_rng(0), [6, 6])
    pair = pair_of(scores, scores)
    assert pair["verdict"] == "not established" and pair["more_seeds"] is None
    assert pair["improvement"] == 0.5 and pair["p"] == 1.0
    assert pair["sentence"].startswith("Not established: no difference between x and y was found")


@pytest.mark.parametrize(
    "n, verdict", [(8, "Not established: "), (2, "Too few seeds to distinguish ")]
)
def test_measures_that_disagree_are_not_called_level(n, verdict):
    """A few runs of x are far ahead, most are just behind."""
    x = np.array([10.0, 10, 10, 10, 10, 500, 500, 500]) if n == 8 else np.array([10.0, 500.0])
    pair = pair_of({"e": x}, {"e": np.full(n, 11.0)})
    assert pair["x"] == "x" and pair["improvement"] <= 0.5 and pair["iqm_difference"] > 100
    assert pair["sentence"].startswith(verdict) and "two measures disagree" in pair["sentence"]
    assert "more seeds" not in pair["sentence"] and "level." not in pair["sentence"]


def test_few_runs_that_are_all_the_same_ask_for_no_number_of_seeds():
    pair = pair_of({"e": np.full(3, 500.0)}, {"e": np.full(3, 500.0)})
    assert pair["verdict"] == "too few seeds"
    assert pair["sentence"].endswith("So far their IQMs are the same.")


def test_one_algorithm_is_nothing_to_compare():
    with pytest.raises(SpinupError, match="at least two algorithms"):
        compare_scores({"a": {"e": np.zeros(3)}})


def test_a_small_difference_is_not_established_and_asks_for_seeds():
    x = np.array([NormalDist().inv_cdf((i + 0.5) / 10) for i in range(10)])
    pair = pair_of({"e": x + 0.5}, {"e": x})
    assert pair["verdict"] == "not established" and pair["p"] > 0.05
    # 2 * (2.80 / 0.5)**2 = 63 in all for the mean; the IQM and the ranks of ten know less.
    assert 63 <= 10 + pair["more_seeds"] <= 110
    assert f"about {pair['more_seeds']} more seeds for both in each env" in pair["sentence"]
    assert pair["sentence"].startswith("Not established: x against y; the IQM of x is higher by")
    tiny = pair_of({"e": x + 0.01}, {"e": x})
    assert tiny["more_seeds"] is None
    assert "more than 1000 more seeds" in tiny["sentence"]
    assert "in practice, the two are equal" in tiny["sentence"]


@pytest.mark.parametrize(
    "n, smallest, more", [(1, 1.0, 3), (2, 1 / 3, 2), (3, 0.1, 1), (4, 2 / 70, 0)]
)
def test_few_seeds_tell_nothing_however_far_apart(n, smallest, more):
    """Four seeds of each are the fewest that can differ at the 5 % level in one environment."""
    pair = pair_of({"e": 100 + np.arange(float(n))}, {"e": np.arange(float(n))})
    assert pair["smallest_p"] == pytest.approx(smallest)
    assert pair["p"] == pytest.approx(smallest)
    assert pair["more_seeds"] == more
    if n < 4:
        assert pair["verdict"] == "too few seeds"
        assert pair["sentence"].startswith(
            f"Too few seeds to distinguish x from y: with {n} per env"
        )
        assert f"about {more} more seed{'' if more == 1 else 's'} for both" in pair["sentence"]
    else:
        assert pair["verdict"] == "established"


def test_intervals_that_exclude_no_difference_are_not_enough():
    """Bootstrap intervals of five seeds are too narrow; the permutation test knows better."""
    pair = pair_of({"e": np.array([5, 6, 7, 8, 2.4])}, {"e": np.array([1, 2, 3, 4, 2.5])})
    assert pair["iqm_difference_ci"][0] > 0 and pair["improvement_ci"][0] > 0.5
    assert pair["p"] == pytest.approx(14 / 252)  # 14 of the 252 ways are as far apart
    assert pair["verdict"] == "not established" and pair["more_seeds"] == 4


def test_three_seeds_in_two_environments_can_be_enough():
    far = {f"env{i}": 100 + np.arange(3.0) for i in range(2)}
    near = {f"env{i}": np.arange(3.0) for i in range(2)}
    pair = pair_of(far, near)
    assert pair["p"] == pytest.approx(2 / 400) and pair["verdict"] == "established"


@pytest.mark.parametrize("sizes", [[4], [5, 5], [3, 3, 3], [10]])
def test_chance_is_called_a_difference_in_at_most_one_of_twenty(sizes):
    rng = np.random.default_rng(sum(sizes))
    wrong = 0
    for _ in range(200):
        pair = pair_of(samples(rng, sizes), samples(rng, sizes), reps=200)
        wrong += pair["verdict"] == "established"
    assert wrong <= 19  # 10 are expected at most, and 19 exceeded once in 500 times


def test_several_pairs_share_the_level():
    rng = np.random.default_rng(0)
    scores = {name: samples(rng, [5]) for name in "abc"}
    result = compare_scores(scores, 500)
    assert len(result["pairs"]) == 3
    assert all(p["alpha"] == pytest.approx(0.05 / 3) for p in result["pairs"])
    # Four a side cannot reach that: 2/70 > 0.05/3.
    few = compare_scores({n: {"e": s["env0"][:4]} for n, s in scores.items()}, 500)
    assert {p["verdict"] for p in few["pairs"]} == {"too few seeds"}


def test_the_number_of_seeds_is_that_of_the_usual_rule():
    # A difference of one standard deviation: 2 * (1.960 + 0.842)**2 = 15.7, so 16 a side. The
    # bootstrap's variance of a mean of n is (n - 1) / n**2.
    for n in (5, 8, 15):
        effects = [(1.0, (n - 1) / n**2, (n - 1) / n**2)]
        assert more_seeds(effects, [n], [n], 0.05) == 16 - n
    # Unequal: 1 / (4 + k) + 1 / (12 + k) <= 1 / 7.85 from k = 9 on.
    effects = [(1.0, 3 / 16, 11 / 144)]
    assert more_seeds(effects, [4], [12], 0.05) == 9
    assert more_seeds([(0.01, 0.2, 0.2)], [5], [5], 0.05) is None
    assert more_seeds([(-1.0, 0.2, 0.2)], [5], [5], 0.05) is None


def test_with_the_seeds_it_asks_for_the_difference_is_mostly_found():
    """A true difference of 1.2 standard deviations: the rule gives 11 seeds a side."""
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(100):
        x, y = rng.normal(size=(2, 11))
        pair = pair_of({"e": x + 1.2}, {"e": y}, reps=200)
        found += pair["verdict"] == "established" and pair["x"] == "x"
    assert 60 <= found <= 95


def test_the_number_of_seeds_is_enough_for_the_permutation_test():
    """Two environments won and one lost, always: scores without spread, and yet p is 0.32."""
    ahead, behind = 100 + np.arange(3.0), np.arange(3.0)
    x = {"e": ahead, "f": ahead, "g": behind}
    pair = pair_of(x, {"e": behind, "f": behind, "g": behind + 50})
    assert pair["verdict"] == "not established" and pair["p"] > 0.3
    assert pair["improvement"] == pytest.approx(2 / 3)

    def p_with(n):
        ranks = [np.arange(float(n)) + (0 if lost else n) for lost in (False, False, True)]
        others = [np.arange(float(n)) + (n if lost else 0) for lost in (False, False, True)]
        return stats.permutation_p(ranks, others, 20_000, np.random.default_rng(0))

    enough = 3 + pair["more_seeds"]
    assert p_with(enough - 1) > 0.045 and p_with(enough) < 0.055


# ------------------------------------------------------------------------------------- reading


def test_a_score_is_the_mean_of_the_last_rows(tmp_path):
    for name in ("a", "b"):
        for seed in range(2):
            write_run(tmp_path / name / f"s{seed}", [*range(20), float("nan"), 100 + seed])
    found = numbers([f"{tmp_path}/a", f"{tmp_path}/b", "--last", "3"], tmp_path)
    assert found["scores"]["a"] == {"Hopper-v5": [(18 + 19 + 100) / 3, (18 + 19 + 101) / 3]}
    found = numbers([f"{tmp_path}/a", f"{tmp_path}/b", "--until", "5000"], tmp_path)
    assert found["scores"]["b"] == {"Hopper-v5": [2.0, 2.0]}  # rows 0 to 4, all of them


def test_different_numbers_of_seeds_and_environments_are_handled(tmp_path, capsys):
    rng = np.random.default_rng(0)
    a = {"Ant-v5": rng.normal(size=5), "Hopper-v5": rng.normal(size=3), "Only-v0": [1.0]}
    b = {"Ant-v5": rng.normal(size=4), "Hopper-v5": rng.normal(size=7)}
    dirs = [write_algorithm(tmp_path, "a", a), write_algorithm(tmp_path, "b", b)]
    found = numbers([*dirs, "--normalise", "none"], tmp_path)
    said = capsys.readouterr()
    assert (
        "compare: a's runs in Only-v0 are left out because not all algorithms have runs there."
        in said.err
    )
    assert list(found["environments"]) == ["Ant-v5", "Hopper-v5"]
    assert found["algorithms"]["a"]["runs"] == 8 and found["algorithms"]["b"]["runs"] == 11
    for name, finals in (("a", a), ("b", b)):
        # Each environment counts the same, however many seeds it has.
        wanted = (np.mean(finals["Ant-v5"]) + np.mean(finals["Hopper-v5"])) / 2
        assert found["algorithms"][name]["mean"] == pytest.approx(wanted)
    (pair,) = found["pairs"]
    assert pair["seeds"] == {
        pair["x"]: found_sizes(found, pair["x"]),
        pair["y"]: found_sizes(found, pair["y"]),
    }
    assert "2 algorithms, 2 environments, 3 to 7 seeds each." in said.out
    assert "(8)" not in said.out and "-0." in said.out


def found_sizes(found, name):
    return [len(s) for s in found["scores"][name].values()]


def test_a_folder_is_itself_and_anything_else_a_prefix(tmp_path, capsys):
    for name in ("ppo", "ppo-big", "sac-a", "sac-b"):
        for seed in range(2):
            write_run(tmp_path / name / f"s{seed}", [1.0 + seed], exp_name=name)
    found = numbers([f"{tmp_path}/ppo", f"{tmp_path}/sac"], tmp_path)
    assert {n: a["runs"] for n, a in found["algorithms"].items()} == {"ppo": 2, "sac": 4}
    assert "compare: sac combines several experiments into one" in capsys.readouterr().err
    with pytest.raises(SpinupError, match="belongs to both"):
        compare.compare([f"{tmp_path}/pp", f"{tmp_path}/ppo-big"])
    found = numbers([f"{tmp_path}/ppo", f"{tmp_path}/ppo-big", "-l", "Small", "Big"], tmp_path)
    assert list(found["algorithms"]) == ["Small", "Big"]


def test_the_folder_of_a_grid_stands_for_its_experiments(tmp_path):
    for name in ("ppo", "sac"):
        (tmp_path / name / ".grid").mkdir(parents=True)
        write_run(tmp_path / f"{name}_env1" / "s0", [1.0], "Ant-v5")
        write_run(tmp_path / f"{name}_env2" / "s0", [1.0], "Hopper-v5")
    found = compare.read_algorithms([f"{tmp_path}/ppo", f"{tmp_path}/sac"])
    assert {name: list(envs) for name, envs in found.items()} == {
        "ppo": ["Ant-v5", "Hopper-v5"],
        "sac": ["Ant-v5", "Hopper-v5"],
    }


def test_algorithms_are_named_after_what_varies(tmp_path):
    for lr in (0.001, 0.01):
        for seed in range(2):
            config = {"env": {"id": "Ant-v5"}, "algo": "ppo", "pi_lr": lr, "seed": seed}
            write_run(tmp_path / f"g_pi{lr}" / f"s{seed}", [lr], config=config)
    folders = [f"{tmp_path}/g_pi0.001", f"{tmp_path}/g_pi0.01"]
    assert list(compare.read_algorithms(folders)) == ["pi_lr=0.001", "pi_lr=0.01"]
    assert list(compare.read_algorithms(folders, ["a", "b"])) == ["a", "b"]


@pytest.mark.parametrize(
    "config, env",
    [
        ({"env": {"id": "Ant-v5", "kwargs": {}}}, "Ant-v5"),
        ({"env": {"id": "Ant-v5", "kwargs": {"b": 1, "a": [2]}}}, 'Ant-v5 {"a": [2], "b": 1}'),
        ({"env": {"id": None, "class": "mine.envs:Maze", "kwargs": {}}}, "Maze"),
        ({"env_name": "Ant-v2"}, "Ant-v2"),  # the original's grids
        ({"env": "Ant-v5"}, "Ant-v5"),
        ({"env_fn": "<function <lambda>>"}, "unknown environment"),
    ],
)
def test_the_environment_is_that_of_the_config(tmp_path, config, env):
    for name in ("a", "b"):
        write_run(tmp_path / name / "s0", [1.0], config=config)
    runs = compare.read_algorithms([f"{tmp_path}/a", f"{tmp_path}/b"])
    assert list(runs["a"]) == [env] == list(runs["b"])


def test_broken_runs_are_named_and_nothing_is_executed(tmp_path, capsys):
    dirs = [write_algorithm(tmp_path, n, {"Ant-v5": [1.0, 2.0]}) for n in ("a", "b")]
    bad = write_run(tmp_path / "a" / "Ant-v5" / "bad_s9", [1.0])
    for name in ("progress.txt", "config.json"):
        (bad / name).write_bytes(pickle.dumps(Bomb(tmp_path / "executed")))
    going = write_run(tmp_path / "b" / "Ant-v5" / "going_s9", [3.0] * 5, "Ant-v5", "b-Ant-v5")
    with open(going / "progress.txt", "a") as file:
        file.write("6000\t1")
    found = numbers(dirs, tmp_path)
    assert found["scores"] == {"a": {"Ant-v5": [1.0, 2.0]}, "b": {"Ant-v5": [3.0, 1.0, 2.0]}}
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if "bad_s9" in line and "left out" in line]
    assert [line for line in lines if "going_s9" in line and "half-written" in line]
    assert len(lines) == 2
    assert not (tmp_path / "executed").exists()


def test_runs_that_end_at_different_steps_are_pointed_out(tmp_path, capsys):
    write_run(tmp_path / "a" / "s0", [1.0] * 100)
    write_run(tmp_path / "b" / "s0", [1.0] * 50)
    compare.compare([f"{tmp_path}/a", f"{tmp_path}/b"], reps=100)
    assert (
        "compare: the runs in Hopper-v5 end between 50K and 100K of TotalEnvInteracts, and each is "
        "scored at its own end (--until X ends all of them at X)."
    ) in capsys.readouterr().err


# ------------------------------------------------------------------------------- normalisation


def test_normalisation_over_the_pool_and_by_a_reference(tmp_path):
    finals = {
        "a": {"Ant-v5": [0.0, 10.0], "Hopper-v5": [100.0, 300.0]},
        "b": {"Ant-v5": [5.0, 20.0], "Hopper-v5": [200.0, 500.0]},
    }
    dirs = [write_algorithm(tmp_path, name, f) for name, f in finals.items()]
    found = numbers(dirs, tmp_path)  # several environments: the pool by default
    assert found["normalised"] is True
    assert found["environments"]["Ant-v5"] == {"zero": 0.0, "one": 20.0}
    assert found["environments"]["Hopper-v5"] == {"zero": 100.0, "one": 500.0}
    assert found["algorithms"]["a"]["mean"] == pytest.approx((0.25 + 0.25) / 2)
    assert found["algorithms"]["b"]["mean"] == pytest.approx((0.625 + 0.625) / 2)
    assert found["scores"]["a"]["Ant-v5"] == [0.0, 10.0]  # as they were logged

    file = tmp_path / "reference.json"
    file.write_text('{"Ant-v5": [0, 10], "Hopper-v5": [0, 1000], "Other": [0, 1]}')
    for how in ([str(file)], ["Ant-v5=0,10", "Hopper-v5=0,1e3"]):
        found = numbers([*dirs, "--normalise", *how], tmp_path)
        assert found["algorithms"]["a"]["mean"] == pytest.approx((0.5 + 0.2) / 2)
    found = numbers([*dirs, "--normalise", "none"], tmp_path)
    assert found["normalised"] is False
    assert found["algorithms"]["a"]["mean"] == pytest.approx((5 + 200) / 2)


def test_one_environment_is_not_normalised(tmp_path):
    dirs = [write_algorithm(tmp_path, n, {"Ant-v5": [10.0, 30.0]}) for n in ("a", "b")]
    found = numbers(dirs, tmp_path)
    assert found["normalised"] is False and found["algorithms"]["a"]["iqm"] == 20.0


def test_a_pool_of_equal_scores_does_not_divide_by_zero(tmp_path):
    dirs = [
        write_algorithm(tmp_path, n, {"Ant-v5": [7.0] * 4, "Hopper-v5": [7.0] * 4}) for n in "ab"
    ]
    found = numbers([*dirs, "--save", str(tmp_path / "o.png")], tmp_path)
    assert found["algorithms"]["a"]["iqm"] == 0.0
    assert found["pairs"][0]["verdict"] == "not established"


# ------------------------------------------------------------------------------------- curves


def test_sample_efficiency_by_hand():
    # Two environments of one run each: the IQM of two is their mean. Slopes 1 and 3.
    x = np.array([10.0, 50.0, 100.0])
    runs = {"a": {"e": [(x, x)], "f": [(x, 3 * x)]}}
    found = comparison.efficiency(runs, {"e": (0.0, 1.0), "f": (0.0, 10.0)}, reps=100)
    assert found["unit"] == "steps"
    np.testing.assert_allclose(found["algorithms"]["a"]["x"], x)
    np.testing.assert_allclose(found["algorithms"]["a"]["iqm"], x * (1 + 0.3) / 2)
    # Many different x: an even grid, but nothing before the first row.
    many = np.linspace(10, 100, 300)
    dense = {"a": {"e": [(x, x)], "f": [(many, 3 * many)]}}
    found = comparison.efficiency(dense, {"e": (0.0, 1.0), "f": (0.0, 10.0)}, reps=100)
    np.testing.assert_allclose(found["algorithms"]["a"]["x"], np.arange(10, 101))
    np.testing.assert_allclose(found["algorithms"]["a"]["iqm"], np.arange(10, 101) * (1 + 0.3) / 2)
    # Where one environment has no run any more, there is no curve.
    longer = {"a": {"e": [(x, x)], "f": [(x[:2], 3 * x[:2])]}, "b": {"e": [(x, x)], "f": [(x, x)]}}
    found = comparison.efficiency(longer, {"e": (0.0, 1.0), "f": (0.0, 10.0)}, reps=100)
    ends = {name: entry["x"][-1] for name, entry in found["algorithms"].items()}
    assert ends == {"a": 50.0, "b": 100.0}
    # Other budgets: x is the share of each environment's.
    other = {"a": {"e": [(x, x)], "f": [(10 * x, 3 * x)]}}
    found = comparison.efficiency(other, {"e": (0.0, 1.0), "f": (0.0, 10.0)}, reps=100)
    assert found["unit"] == "share"
    np.testing.assert_allclose(found["algorithms"]["a"]["x"], x / 100)
    np.testing.assert_allclose(found["algorithms"]["a"]["iqm"], x * (1 + 0.3) / 2)


def test_the_band_of_the_curves_is_the_bootstrap_of_the_scores_at_that_x():
    rng = np.random.default_rng(0)
    x = np.linspace(1000, 100_000, 100)
    runs = {
        "a": {e: [(x, np.full(100, v)) for v in rng.normal(size=8)] for e in ("e", "f")},
    }
    reference = {"e": (0.0, 1.0), "f": (0.0, 1.0)}
    found = comparison.efficiency(runs, reference, reps=2000)["algorithms"]["a"]
    scores = {"a": {e: np.array([c[1][0] for c in r]) for e, r in runs["a"].items()}}
    scores["b"] = scores["a"]
    entry = compare_scores(scores, 20_000)["algorithms"]["a"]
    np.testing.assert_allclose(found["iqm"], entry["iqm"])
    spread = np.ptp(entry["iqm_ci"])
    np.testing.assert_allclose(found["low"], entry["iqm_ci"][0], atol=0.1 * spread)
    np.testing.assert_allclose(found["high"], entry["iqm_ci"][1], atol=0.1 * spread)
    assert np.ptp(found["low"]) == 0.0  # whole runs are drawn: the same runs at every x


# -------------------------------------------------------------------------------------- output


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """Three algorithms in two environments, five seeds each."""
    root = tmp_path_factory.mktemp("three")
    rng = np.random.default_rng(0)
    for name, top in (("ppo", 1.0), ("td3", 2.0), ("sac", 2.1)):
        for env, scale in (("Ant-v5", 1000.0), ("Hopper-v5", 300.0)):
            for seed in range(5):
                t = np.arange(1, 31) / 30
                y = scale * (top * (1 - np.exp(-5 * t)) + 0.1 * rng.normal(size=30))
                y += scale * 0.2 * rng.normal()
                write_run(root / name / env / f"s{seed}", y, env, f"{name}-{env}", step=10_000)
    return [f"{root}/{name}" for name in ("ppo", "td3", "sac")]


def test_the_figure_shows_the_numbers(three, tmp_path):
    out = tmp_path / "o.svg"
    found = numbers([*three, "--save", out], tmp_path)
    names = ["ppo", "td3", "sac"]
    for axes, key, line in ((4, "profiles", "share"), (5, "efficiency", "iqm")):
        figure = SvgFigure(out, axes)
        assert figure.legend() == {"ppo": 0, "td3": 1, "sac": 2}
        for i, name in enumerate(names):
            data = found[key]["algorithms"][name]
            x = np.array(data["x"] if key == "efficiency" else found[key]["tau"])
            drawn_x, drawn_y = figure.curve(i)
            if key == "efficiency":
                np.testing.assert_allclose(drawn_x, x, atol=1e-4 * np.ptp(x))
                np.testing.assert_allclose(drawn_y, data[line], atol=1e-3)
                _, low, high = figure.band(i)
                np.testing.assert_allclose(low, data["low"], atol=1e-3)
                np.testing.assert_allclose(high, data["high"], atol=1e-3)
            else:  # of 201 points those on a straight line are left out; none may be off it
                np.testing.assert_allclose(drawn_x[[0, -1]], x[[0, -1]], atol=1e-3)
                np.testing.assert_allclose(np.interp(drawn_x, x, data[line]), drawn_y, atol=0.02)
    assert {"Share of runs above τ", "Normalized score τ"} <= set(SvgFigure(out, 4).texts())
    assert "Environment steps" in SvgFigure(out, 5).texts()


def test_algorithms_may_have_any_name(tmp_path):
    dirs = [write_algorithm(tmp_path, n, {"Ant-v5": [1.0, 2.0]}) for n in ("tau", "unit")]
    found = numbers([*dirs, "--save", tmp_path / "o.svg"], tmp_path)
    assert list(found["profiles"]["algorithms"]) == ["tau", "unit"]
    assert SvgFigure(tmp_path / "o.svg", 4).legend() == {"tau": 0, "unit": 1}


@pytest.mark.parametrize("x", [{"e": 1000.0, "f": 1000.0}, {"e": 1000.0, "f": 1005.0}])
def test_runs_of_one_row_are_points_with_a_bar(x):
    runs = {
        name: {env: [(np.array([x[env]]), np.array([v])) for v in (1.0, 3.0)] for env in x}
        for name in ("a", "b")
    }
    scores = {name: {env: np.array([1.0, 3.0]) for env in x} for name in runs}
    result = {"value": "Performance", "xaxis": "TotalEnvInteracts", "normalised": False}
    result |= compare_scores(scores, 200)
    result["efficiency"] = comparison.efficiency(runs, dict.fromkeys(x, (0.0, 1.0)), reps=200)
    ax = Figure().subplots()
    compare_figures.draw(result, {"efficiency": ax})
    if x["e"] != x["f"]:  # no x at which both environments have a run: an empty panel, no crash
        assert [len(line.get_xdata()) for line in ax.lines] == [0, 0]
        return
    for line, band in zip(ax.lines, ax.collections, strict=True):
        assert line.get_xydata().tolist() == [[1000.0, 2.0]] and line.get_marker() == "o"
        assert np.ptp(band.get_segments()[0][:, 1]) > 0.5


def test_what_is_printed_is_what_was_found(three, tmp_path, capsys):
    found = numbers(three, tmp_path)
    out = capsys.readouterr().out
    for name, entry in found["algorithms"].items():
        (row,) = [line for line in out.splitlines() if line.startswith(f"{name}  ")]
        assert comparison.short(entry["iqm"]) in row and comparison.short(entry["mean"]) in row
    for pair in found["pairs"]:
        assert pair["sentence"] in out
        assert f"{pair['x']} over {pair['y']}" in out
    verdicts = {(p["x"], p["y"]): p["verdict"] for p in found["pairs"]}
    assert verdicts[("td3", "ppo")] == verdicts[("sac", "ppo")] == "established"
    assert "The 5% level is divided among 3 comparisons: each uses the 1.7% level." in out


def test_a_folder_gets_a_file_a_panel(three, tmp_path, capsys):
    assert compare_command([*three, "--reps", "200", "--save", f"{tmp_path}/figures"]) == 0
    names = {
        f"{p}.{s}"
        for p in ("aggregates", "improvement", "profiles", "efficiency")
        for s in ("png", "pdf")
    }
    assert {f.name for f in (tmp_path / "figures").iterdir()} == names
    said = capsys.readouterr().out
    assert all(f"figures/{name}" in said for name in names)


def test_the_seed_decides_the_bootstrap_and_nothing_else_does(three):
    first, again, other = (compare.compare(three, seed=s, reps=500) for s in (1, 1, 2))
    assert json.dumps(first) == json.dumps(again)
    for name in first["algorithms"]:
        a, b = first["algorithms"][name], other["algorithms"][name]
        assert a["iqm"] == b["iqm"] and a["iqm_ci"] != b["iqm_ci"]


@pytest.mark.parametrize(
    "args, sentence",
    [
        ([], "the following arguments are required: logdir; 'spinup compare --help' explains"),
        (["{a}"], "a comparison needs at least two folders of runs: pass one for each algorithm"),
        (["{a}", "{}/nothing"], "no folder begins with {}/nothing: check the path"),
        (["{a}", "{}/empty"], "there are no runs in {}/empty: check the path"),
        (["{a}", "{a}"], "two algorithms have the same name ({a}, {a}): use -l to name them"),
        (["{a}", "{}/other"], "no environment in common (a: Ant-v5; other: Swimmer-v5): "),
        (["{a}", "{b}", "-l", "x"], "--legend has 1 names for 2 folders: pass one for each"),
        (["{a}", "{b}", "-y", "AverageEpRe"], "no run has a column AverageEpRe; did you mean Ave"),
        (["{a}", "{b}", "--last", "0"], "--last must be at least 1, not 0"),
        (["{a}", "{b}", "--reps", "5"], "--reps must be at least 100, not 5"),
        (["{a}", "{b}", "--reps", "many"], "argument --reps: invalid int value: 'many'; 'spinup c"),
        (["{a}", "{b}", "--seed", "-1"], "--seed must be at least 0, not -1"),
        (
            ["{a}", "{b}", "-s", "0"],
            "the smoothing window must be a positive integer, not 0",
        ),
        (["{a}", "{b}", "--until", "10"], "no run has a finite Performance before --until 10: in"),
        (["{a}", "{b}", "--until", "10", "-y", "AverageEpRe"], "no run has a column AverageEpRe;"),
        (["{a}", "{b}", "--normalise", "max"], "--normalize takes none, pool, a .json file or ENV"),
        (["{a}", "{b}", "--normalise", "Hopper-v5=0,1"], "--normalize has no scores for Ant-v5: "),
        (["{a}", "{b}", "--normalise", "Ant-v5=1,1"], "--normalize has the same score twice for A"),
        (
            ["{a}", "{b}", "--normalise", "Ant-v5=0,nan"],
            "--normalize has a score for Ant-v5 that i",
        ),
        (
            ["{a}", "{b}", "--normalise", "{}/inf.json"],
            "--normalize has a score for Ant-v5 that is",
        ),
        (["{a}", "{b}", "--normalise", "{}/no.json"], "{}/no.json cannot be read (No such file or"),
        (
            ["{a}", "{b}", "--normalise", "{}/bad.json"],
            '{}/bad.json must contain {"environment": [lo',
        ),
        (["{a}", "{b}", "--save", "{}/o.bmp"], "--save takes a folder or a file that ends in .png"),
        (["{a}", "{b}", "--save", "{}/file/o.png"], "cannot write {}/file/o.png ("),
        (["{a}", "{b}", "--json", "{}/none/o.json"], "cannot write {}/none/o.json (there is no su"),
        (["{a}", "{b}", "--json", "{}/empty"], "cannot write {}/empty (it is a folder): "),
        (
            ["{a}", "{b}", "--normalise"],
            "argument --normalize/--normalise: expected at least one argum",
        ),
        (["{a}", "{b}", "--rep", "1", "--bands"], "there is no argument --bands; "),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_status_2(tmp_path, capsys, args, sentence):
    for name in ("a", "b"):
        write_algorithm(tmp_path, name, {"Ant-v5": [1.0, 2.0]})
    write_algorithm(tmp_path, "other", {"Swimmer-v5": [1.0, 2.0]})
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "inf.json").write_text('{"Ant-v5": [0, Infinity]}')
    (tmp_path / "bad.json").write_text('{"Ant-v5": 3}')
    places = {"{a}": f"{tmp_path}/a", "{b}": f"{tmp_path}/b", "{}": str(tmp_path)}
    for short, path in places.items():
        args = [a.replace(short, path) for a in args]
        sentence = sentence.replace(short, path)
    assert compare_command(args) == 2
    err = capsys.readouterr().err
    assert err.startswith("spinup: ") and sentence in err and err.count("\n") == 1


def test_it_runs_as_a_module_without_a_display(tmp_path):
    dirs = [write_algorithm(tmp_path, n, {"Ant-v5": [1.0, 2.0]}) for n in ("a", "b")]
    env = {k: v for k, v in environment().items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    env["MPLBACKEND"] = "TkAgg"
    done = run_python("-m", "spinup.run", "compare", *dirs, cwd=tmp_path, env=env)
    assert (tmp_path / "spinup-compare.png").read_bytes().startswith(b"\x89PNG")
    assert done.stderr == "compare: there is no display, so the figure is written to a file.\n"
    assert "Too few seeds to distinguish" in done.stdout

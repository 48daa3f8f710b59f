"""Healthy values on the pages are those of the healthy runs, and doctor's rules watch them."""

import json
import math
import re
import zipfile

import numpy as np
import pytest

from docs import galleries, generated
from spinup import registry
from spinup_lab.doctor.rules import RULES

ALGORITHMS = [row.name for row in registry.ROWS]


def test_every_algorithm_has_a_gallery():
    assert set(galleries.GALLERY) == set(galleries.ALGORITHMS) == set(ALGORITHMS)
    runs = [len(seeds) for algo in ALGORITHMS for seeds in galleries.corpus(algo).values()]
    assert len(runs) >= 27 and set(runs) == {3}
    for metrics in galleries.GALLERY.values():
        assert 4 <= len(metrics) <= 6
        assert all(metric.rules and metric.outside for metric in metrics)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_readme_has_the_ranges_of_the_data(algo):
    """If this fails after a new measurement, run `make figures` and commit the files."""
    text = galleries.readme(algo).read_text(encoding="utf-8")
    assert galleries.written(algo) == text
    section = text.partition("## Healthy values")[2].partition("\n## ")[0]
    assert f"docs/figures/gallery-{algo}.svg" in section
    rows = re.findall(r"^\| `(\w+)`.*$", section, re.M)
    assert rows == [metric.column for metric in galleries.GALLERY[algo]]


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_the_rules_of_a_gallery_watch_its_algorithm(algo):
    bases = {"her": ("dqn", "her")}.get(algo, (algo,))
    for metric in galleries.GALLERY[algo]:
        for name in metric.rules:
            rule = RULES[name]
            assert not rule.algorithms or set(bases) & set(rule.algorithms), (metric.column, name)


def test_a_range_holds_nine_of_ten_epochs_after_the_first_fifth(repo_root):
    kept = []
    for seed in range(3):
        archive = zipfile.Path(repo_root / "benchmarks/results/corpus/ppo.zip")
        table = archive / f"ppo-Hopper-v5-s{seed}" / "progress.txt"
        header, *rows = (line.split("\t") for line in table.read_text().splitlines())
        assert len(rows) == 150
        kept += [float(row[header.index("KL")]) for row in rows[30:]]
    metric = next(m for m in galleries.GALLERY["ppo"] if m.column == "KL")
    low, high = galleries.ranges("ppo", metric)["Hopper-v5"]
    assert (low, high) == pytest.approx(np.quantile(kept, [0.05, 0.95]))
    assert sum(low <= value <= high for value in kept) / len(kept) == pytest.approx(0.9, abs=0.01)


def test_parts_of_a_run_are_averaged_without_what_is_unknown():
    free = (-math.inf, math.inf)
    assert galleries.binned([1.0, 3.0] * 20, free) == [2.0] * 20
    assert galleries.binned([math.nan, 5.0], free)[1] == 5.0
    assert math.isnan(galleries.binned([math.nan, 5.0], free)[0])
    assert galleries.binned([-9.0, 0.5], (-1.0, 1.0)) == [-1.0, 0.5]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, "0"),
        (0.01234, "0.012"),
        (95.4, "95"),
        (-1312, "-1,300"),
        (3.1e-9, "3.1e-9"),
        (0.998, "1"),
    ],
)
def test_numbers_have_two_digits_that_count(value, words):
    assert galleries.brief(value) == words


def test_read_your_log_quotes_the_healthy_runs(repo_root):
    def values(algo, column, env=None):
        tasks = galleries.corpus(algo)
        runs = tasks[env] if env else [run for seeds in tasks.values() for run in seeds]
        return [v for run in runs for v in run[column] if math.isfinite(v)]

    def middle(numbers):
        return [galleries.quantile(numbers, share) for share in (0.05, 0.95)]

    def negative(algo):
        changes = values(algo, "DeltaLossPi")
        return f"{sum(v <= 0 for v in changes) / len(changes):.0%}".replace("%", " %")

    brief = galleries.brief
    shares = []
    for env, runs in galleries.corpus("trpo").items():
        archive = zipfile.Path(repo_root / "benchmarks/results/corpus/trpo.zip")
        config = archive / f"trpo-{env}-s0" / "config.json"
        delta = json.loads(config.read_text())["delta"]
        shares += [v / delta for run in runs for v in run["KL"]]
    two = [
        v for a in ("reinforce", "vpg", "trpo", "ppo") for v in values(a, "Entropy", "CartPole-v1")
    ]
    zero = [abs(v) for algo in ("ppo", "trpo") for v in values(algo, "LossPi")]
    clipped, stops = values("ppo", "ClipFrac"), values("ppo", "StopIter", "InvertedPendulum-v5")
    searched = values("trpo", "BacktrackIters")
    ends = [v for run in galleries.corpus("dqn")["CartPole-v1"] for v in run["AverageQVals"][-10:]]
    spread = values("sac", "StdLogPi")
    apart = max(
        abs(a - b) / std
        for algo in ("td3", "sac")
        for a, b, std in zip(
            *(values(algo, f"{part}Vals") for part in ("AverageQ1", "AverageQ2", "StdQ1")),
            strict=True,
        )
    )
    worse = [v > 0 for algo in ("vpg", "trpo", "ppo") for v in values(algo, "DeltaLossV")]
    vpg, ppo, trpo = middle(values("vpg", "KL")), middle(values("ppo", "KL")), middle(shares)
    assert sum(worse) / len(worse) <= 0.01 and max(values("trpo", "DeltaLossPi")) <= 0
    assert apart <= 0.005 and max(stops) == 320
    page = (repo_root / "docs/debug/read-your-log.md").read_text(encoding="utf-8")
    for words in (
        f"at most {brief(max(zero))} in healthy runs",
        f"in {negative('ppo')} of the epochs of PPO, {negative('reinforce')} of REINFORCE, "
        f"{negative('vpg')} of VPG",
        f"{brief(vpg[0])} to {brief(vpg[1])} in VPG and {brief(ppo[0])} to {brief(ppo[1])} in PPO",
        f"mostly {brief(trpo[0])} to {brief(trpo[1])} of it",
        f"healthy runs had {brief(min(two))} to {brief(max(two))}",
        f"at most {brief(middle(clipped)[1])} in 95 % of the epochs, "
        f"and {brief(max(clipped))} in all",
        f"ACER: at most {brief(max(values('acer', 'ClipFrac')))} |",
        f"then {brief(min(stops))} to 320 of 320",
        f"0 in {sum(v == 0 for v in searched) / len(searched):.0%}".replace("%", " %")
        + f" of the epochs, at most {brief(max(searched))} |",
        f"At most {brief(max(values('acer', 'TrustFrac')))}.",
        f"CartPole: {brief(min(ends))} to {brief(max(ends))} at the end",
        f"`StdLogPi`: {brief(min(spread))} to {brief(max(spread))}.",
    ):
        assert words in page, words
    presets = sum(len(galleries.corpus(algo)) for algo in ALGORITHMS)
    assert f"{presets} presets, three seeds each" in page
    for algo in ALGORITHMS:
        assert f"/{algo}/README.md#healthy-values)" in page


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_effects_are_shown_if_and_only_if_they_were_measured(algo):
    text = galleries.readme(algo).read_text(encoding="utf-8")
    known = galleries.details.rows(algo)
    assert ("### Details and their measured effect" in text) == (len(known) > 1)
    assert text.count("<!-- details:") == (len(known) > 1)
    for detail, *_ in known if len(known) > 1 else ():
        assert f"| {detail.title} |" in text


def test_measured_details_have_the_settings_that_the_script_has_now():
    """If this fails, measure again: `python benchmarks/details.py`."""
    details = galleries.details
    known = {arm.id: arm for arm in details.arms()}
    found = details.load()
    assert len(found) > 10
    for name, entry in found.items():
        wanted = json.loads(json.dumps(details.settings(known[name])))
        assert (entry["settings"], entry["mutant"]) == (wanted, known[name].mutant), name
        for run in entry["runs"].values():
            assert len(run["curve"]) == entry["settings"]["epochs"]
            assert (
                run["steps"] == entry["settings"]["epochs"] * entry["settings"]["steps_per_epoch"]
            )


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ([1, 2, 3], "none"),
        ([4, 5, 6], "better"),
        ([0, 0.5, 0.9], "worse"),
        ([0, 1, 0.9], "not seen"),
        ([3, 2, 1], "not seen"),
    ],
)
def test_an_effect_is_seen_if_no_runs_overlap(changed, words):
    assert galleries.details.effect([1, 2, 3], changed) == words


def test_a_detail_changes_what_its_table_says():
    """Arguments are those of the training function, and faults are in the zoo."""
    import inspect

    from spinup_lab import bugs as zoo

    for detail in galleries.details.DETAILS:
        assert bool(detail.change) or bool(detail.mutant), detail.id
        known = inspect.signature(registry.load(detail.algo, "pytorch")).parameters
        given = galleries.details.settings(detail).keys() - {"env", "env_kwargs"}
        assert given <= known.keys(), detail.id
        if detail.mutant:
            assert detail.algo in zoo.find(detail.mutant).algorithms


# -------------------------------------------------------------------------------------- worked runs


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_worked_run_shows_the_columns_of_the_gallery(algo):
    text = generated.worked_run(algo)
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|$", text, re.M)
    assert [name for name, _ in rows] == [metric.column for metric in galleries.GALLERY[algo]]
    assert all(cells.count("|") == 4 for _, cells in rows)
    assert f"`spinup {algo} --preset" in text and generated.WORKED[algo][2] in text


def test_what_the_readings_say_is_in_the_data():
    runs = {}
    for algo, (env, seed, _) in generated.WORKED.items():
        runs[algo] = galleries.corpus(algo)[env][seed]
    assert min(runs["reinforce"]["AverageEpRet"][40:60]) < 180
    assert runs["reinforce"]["AverageEpRet"][-1] == 500 and runs["reinforce"]["KL"][-1] < 1e-6
    assert max(runs["vpg"]["KL"][50:]) > 5 * runs["vpg"]["KL"][0]
    assert abs(runs["vpg"]["ExplVarOld"][0]) < 0.01 and runs["vpg"]["ExplVarOld"][20] > 0.8
    assert runs["vpg"]["AverageVVals"][-1] == pytest.approx(100, abs=0.5)
    assert min(runs["trpo"]["KL"]) > 0.0044 and max(runs["trpo"]["KL"]) < 0.01
    assert max(runs["trpo"]["BacktrackIters"]) == 0 and min(runs["trpo"]["SurrGain"]) > 0
    assert math.isnan(runs["ppo"]["MaxEpRet"][0]) and runs["ppo"]["MaxEpRet"][1] == -500
    assert np.mean(runs["ppo"]["ClipFrac"][:20]) == pytest.approx(0.11, abs=0.01)
    assert runs["ppo"]["ClipFrac"][-1] < 0.01 and runs["ppo"]["KL"][-1] < 1e-3
    assert runs["ppo"]["ExplVarOld"][0] < 0.01 and min(runs["ppo"]["ExplVarNew"][-6:]) > 0.5
    assert round(runs["ddpg"]["QBias"][0], -1) == 570
    assert -20 < runs["td3"]["QBias"][-1] < 0
    assert max(runs["sac"]["AverageLogPi"]) < 1 and runs["sac"]["QBias"][0] > 600
    assert max(runs["dqn"]["AverageQVals"]) < 100 and round(max(runs["dqn"]["MaxQVals"])) == 100
    assert runs["acer"]["LossQ"][0] / runs["acer"]["LossQ"][3] > 90
    assert len({round(x, 3) for x in runs["acer"]["Entropy"]}) == 1
    assert runs["her"]["TestSuccessRate"][0] == pytest.approx(0.7, abs=0.01)
    assert runs["her"]["SuccessRate"][0] < 0.025

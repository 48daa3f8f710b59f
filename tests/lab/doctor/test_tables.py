"""The rules on tables and settings: each finds its fault and is silent on healthy runs."""

import json

import numpy as np
import pytest

from spinup.cli import runs
from spinup_lab.commands.doctor import mention
from spinup_lab.doctor.examination import apply, examinations
from spinup_lab.doctor.record import Record
from spinup_lab.doctor.rules import RULES
from tests.helpers.synthetic import ROWS, healthy, write

ALGOS = ("reinforce", "vpg", "trpo", "ppo", "ddpg", "td3", "sac", "dqn", "acer", "her")
TABLES = [rule for rule in RULES.values() if rule.tier == 1 and not rule.compares]
LATE = slice(ROWS // 2, None)


def look(folder, columns, config, space, rows=ROWS):
    """The findings of the rules on tables, by id."""
    found = apply(Record(write(folder, columns, config, space, rows)), TABLES)
    assert found.failed == {}
    return {finding.id: finding for finding in found.findings}


@pytest.mark.parametrize("space", ["Discrete", "Box"])
@pytest.mark.parametrize("algo", ALGOS)
def test_a_healthy_run_gives_no_finding(algo, space, tmp_path):
    if space == "Box" and algo in ("dqn", "acer", "her"):
        space = "Discrete"
    assert look(tmp_path, *healthy(algo, space)) == {}


def flat(c, names=("AverageEpRet", "AverageTestEpRet")):
    for name in names:
        if name in c:
            c[name] = 20 + np.random.default_rng(1).normal(0, 2, ROWS)


def put(name, value, rows=slice(None)):
    def plant(c, config):
        c[name][rows] = value(c) if callable(value) else value

    return plant


def setting(**changes):
    def plant(c, config):
        config.update(changes)

    return plant


def all_of(*plants):
    def plant(c, config):
        for one in plants:
            one(c, config)

    return plant


def collapse(c, config):
    for name in ("AverageEpRet", "MaxEpRet", "MinEpRet"):
        c[name][ROWS // 2 :] = 15


def wrapped(c, config):
    config["env"]["wrappers"].append("NormalizeObservation")


def alpha_wrong_way(c, config):
    config["alpha"] = "auto"
    c["AverageLogPi"][:] = 1.5  # the entropy is far below its target
    c["MaxLogPi"][:] = 3
    c["Alpha"] = np.geomspace(1, 0.01, ROWS)


def never_ends(c, config):
    flat(c)
    c["AverageEpRet"] -= 120
    c["EpLen"][:] = 500


def entropy_gone(c, config):
    flat(c)
    c["Entropy"][2:] = 0.001


def entropy_grows(c, config):
    flat(c)
    c["Entropy"] = np.linspace(0.9, 2.5, ROWS)


def cut_is_death(c, config):
    c["TermShare"][LATE], c["EpLen"][LATE] = 0, 500
    c["MinVVals"][LATE], c["AverageVVals"][LATE], c["MaxVVals"][LATE] = 40, 50, 60
    c["RetMin"][LATE] = 1


def leak(c, config):
    for name in ("AverageEpRet", "MaxEpRet", "MinEpRet", "EpLen"):
        c[name] = np.full(ROWS, 20.0) + np.random.default_rng(2).normal(0, 2, ROWS)
    c["MaxEpRet"] += 15
    c["RetMax"][:] = 99.0


def undiscounted(c, config):
    for name in ("AverageEpRet", "MaxEpRet", "MinEpRet", "EpLen", "RetMax"):
        c[name] = np.full(ROWS, 90.0)


def hopeful(c, config, success=0.3):
    c["AverageQVals"][:], c["MaxQVals"][:] = 2.0, 9.0
    c["SuccessRate"][LATE] = c["TestSuccessRate"][LATE] = success


def clock(c, config):
    c["EpLen"][:], c["CutShare"][:], c["TermShare"][:] = 200, 0, 0.9


# id: (algorithm, space or None, what plants the fault, part or None)
PLANTS = {
    "X1": [
        ("ppo", None, put("Epoch", 7.0, 3), "logging-saving"),
        ("sac", None, put("TotalEnvInteracts", lambda c: c["TotalEnvInteracts"] * 2), None),
        ("ppo", None, put("Time", 1.0, 20), None),
    ],
    "X2": [
        ("ppo", None, put("LossPi", 0.03), "policy-loss"),
        ("trpo", None, put("LossPi", lambda c: -c["AdvMean"]), "returns"),
        (
            "ppo",
            "Box",
            all_of(
                setting(ent_coef=0.05),
                put("LossPi", lambda c: 0.05 * np.concatenate([[0.92], c["Entropy"][:-1]])),
            ),
            "policy-loss",
        ),
    ],
    "X3": [("trpo", None, put("DeltaLossPi", 0.001, 5), "policy-step")],
    "X4": [("trpo", None, put("KL", 0.0102, 5), "policy-step")],
    "X5": [("sac", None, all_of(put("AverageLogPi", -2.0), put("MinLogPi", -3)), "action-bounds")],
    "X6": [("dqn", None, put("Epsilon", 0.5, 20), "exploration")],
    "X7": [("ppo", "Box", put("Entropy", 0.919), "policy-loss")],
    "X8": [
        (
            "td3",
            None,
            all_of(
                put("AverageQ2Vals", lambda c: c["AverageQ1Vals"]),
                put("StdQ2Vals", lambda c: c["StdQ1Vals"]),
            ),
            "value-loss",
        )
    ],
    "X9": [
        ("ddpg", None, put("LossQ", np.nan, LATE), None),
        ("ppo", None, put("LossV", np.inf, -1), None),
    ],
    "X10": [("ppo", "Discrete", put("Entropy", 0.8, 3), "policy-loss")],
    "X11": [
        ("sac", None, put("Alpha", 0.3, -1), "exploration"),
        ("sac", None, setting(alpha="auto"), "exploration"),
    ],
    "X12": [("ppo", None, put("MaxVVals", lambda c: c["AverageVVals"] - 1), "logging-saving")],
    "X13": [("sac", None, put("TestEpLen", 600, 3), "episode-ends")],
    "X14": [
        ("ppo", None, put("RetMin", 9.0, LATE), "episode-ends"),
        ("reinforce", None, put("RetMin", 9.0, LATE), "returns"),
        ("ppo", None, leak, "episode-ends"),
        ("ppo", None, undiscounted, "returns"),
    ],
    "X15": [
        ("ppo", None, put("RetMax", 190.0, LATE), "returns"),
        ("vpg", None, put("RetMax", 8.0, LATE), "returns"),
    ],
    "X16": [
        ("ppo", None, put("AdvMean", lambda c: c["RetMean"] - c["AverageVVals"]), "returns"),
        ("vpg", None, setting(lam=1.0), "returns"),
    ],
    "X17": [("ppo", None, put("LossV", lambda c: c["LossV"] * 1.5), "value-loss")],
    "X18": [("reinforce", None, put("Baseline", 10.0), "returns")],
    "X19": [("vpg", None, put("SurrGain", -0.01), "policy-loss")],
    "X20": [
        ("ppo", None, put("TermShare", 0.0), "episode-ends"),
        ("ppo", None, put("EpLen", 500.0), "episode-ends"),
    ],
    "X21": [("ppo", None, cut_is_death, "episode-ends")],
    "S1": [
        ("ppo", None, lambda c, config: flat(c), None),
        ("sac", None, lambda c, config: flat(c), None),
        ("vpg", None, put("AverageEpRet", lambda c: np.linspace(25, 9, ROWS)), "policy-loss"),
    ],
    "S2": [("ppo", None, collapse, None)],
    "S3": [("ppo", None, put("AverageEpRet", np.nan, slice(0, 20)), None)],
    "S4": [("ppo", None, never_ends, "environment")],
    "S5": [("sac", None, put("AverageTestEpRet", 20.0, LATE), "normalizer")],
    "S8": [("vpg", None, put("KL", 0.0), "policy-loss")],
    "S9": [
        ("ppo", None, put("KL", 0.08, LATE), "policy-step"),
        ("vpg", None, put("KL", 0.4, LATE), "policy-step"),
    ],
    "S10": [("ppo", None, put("StopIter", 1.0), "policy-step")],
    "S11": [("ppo", None, put("ClipFrac", 0.7), "policy-step")],
    "S12": [("vpg", None, put("DeltaLossPi", 0.02), "policy-loss")],
    "S13": [("trpo", None, put("BacktrackIters", 10.0, slice(5, 9)), "policy-step")],
    "S14": [("ppo", None, entropy_gone, "exploration")],
    "S15": [("ppo", None, put("Entropy", 0.69314), "policy-loss")],
    "S16": [("ppo", "Box", entropy_grows, "policy-loss")],
    "S17": [("ppo", None, put("DeltaLossV", 1.0), "value-loss")],
    "S18": [("ppo", None, put("ExplVarNew", 0.01, LATE), "value-loss")],
    "S19": [
        ("ppo", None, put("AverageVVals", 300.0, LATE), "returns"),
        ("ppo", None, put("AverageVVals", -60.0, LATE), "returns"),
        ("ppo", None, put("AverageVVals", 0.5, LATE), "returns"),
    ],
    "S20": [("ppo", None, put("StdVVals", 1e-6), "value-loss")],
    "S21": [("dqn", None, all_of(put("AverageQVals", 400.0), put("MaxQVals", 500)), "targets")],
    "S22": [
        (
            "ddpg",
            None,
            put("AverageQVals", lambda c: np.geomspace(10, 1e7, ROWS)),
            "targets",
        )
    ],
    "S23": [("dqn", None, put("StdQVals", 1e-9), "value-loss")],
    "S24": [("td3", None, put("AverageQ2Vals", 1.0, LATE), "value-loss")],
    "S25": [("ddpg", None, put("LossPi", lambda c: -0.3 * c["AverageQVals"]), "policy-loss")],
    "S26": [("sac", None, alpha_wrong_way, "exploration")],
    "S27": [("sac", None, all_of(setting(alpha=20.0), put("Alpha", 20.0)), "exploration")],
    "S28": [("sac", None, alpha_wrong_way, "exploration")],
    "S29": [("her", None, all_of(put("SuccessRate", 0.0), put("TestSuccessRate", 0.0)), "replay")],
    "S30": [("her", None, hopeful, "replay")],
    "S31": [("acer", None, put("ClipFrac", 0.4), "replay")],
    "S32": [("ddpg", None, put("LossQ", np.nan), "hyperparameters")],
    "S33": [("ppo", None, put("Time", lambda c: np.cumsum(np.linspace(1, 6, ROWS))), None)],
    "S34": [("ppo", None, setting(gamma=0.5), "hyperparameters")],
    "S35": [("sac", None, setting(start_steps=30000), "hyperparameters")],
    "S36": [("ppo", None, wrapped, "normalizer")],
    "S37": [("ppo", None, setting(max_ep_len=400), "environment")],
    "S38": [("acer", None, put("KL", lambda c: np.geomspace(0.01, 3, ROWS)), "targets")],
    "S40": [("ppo", None, put("AdvMean", lambda c: 2 * c["AdvStd"]), "returns")],
    "S41": [("ppo", None, clock, "environment")],
    "S39": [
        ("trpo", None, put("KL", 0.002), "policy-step"),
        ("trpo", None, put("KL", lambda c: np.linspace(0.0036, 0.0045, ROWS)), "policy-step"),
    ],
}
CASES = [(name, *case) for name, cases in PLANTS.items() for case in cases]


def test_every_rule_on_tables_has_a_planted_fault():
    assert {rule.id for rule in TABLES} == set(PLANTS)


@pytest.mark.parametrize(("name", "algo", "space", "plant", "part"), CASES)
def test_a_planted_fault_is_found(name, algo, space, plant, part, tmp_path):
    columns, config, space = healthy(algo, space)
    plant(columns, config)
    found = look(tmp_path, columns, config, space)
    assert name in found, sorted(found)
    finding = found[name]
    assert name == "S36" or any(character.isdigit() for character in finding.sentence)
    assert finding.page == f"docs/debug/doctor.md#{name.lower()}"
    if part is not None:
        assert finding.part == part


@pytest.mark.parametrize("name", ["S8", "S12", "S17", "S36"])
def test_a_short_run_gives_hints_at_most(name, tmp_path):
    algo, space, plant, _ = PLANTS[name][0]
    columns, config, space = healthy(algo, space)
    plant(columns, config)
    found = look(tmp_path, columns, config, space, rows=7)
    assert name in found and {finding.level for finding in found.values()} == {"hint"}


def test_an_exact_rule_is_an_error_even_in_a_short_run(tmp_path):
    columns, config, space = healthy("ppo")
    columns["LossPi"][:] = 0.03
    assert look(tmp_path, columns, config, space, rows=4)["X2"].level == "error"


def test_games_that_end_by_themselves_are_not_called_cut(tmp_path):
    columns, config, space = healthy("ppo")
    config["env"]["max_episode_steps"] = None
    columns["EpLen"][:] = config["max_ep_len"]
    assert "S37" in look(tmp_path / "a", columns, config, space)
    config["env"]["max_ep_len"] = config["max_ep_len"]
    assert "S37" not in look(tmp_path / "b", columns, config, space)


def test_annealed_steps_and_early_stops_are_no_faults(tmp_path):
    columns, config, space = healthy("ppo")
    config["anneal_lr"] = True
    columns["KL"][-4:], columns["ClipFrac"][-4:] = 1e-9, 0.0
    columns["DeltaLossPi"][-4:] = 1e-4
    columns["SurrGain"][-4:] = -1e-6
    columns["StopIter"][:] = 12
    assert look(tmp_path, columns, config, space) == {}


def test_a_critic_may_be_hopeful_where_goals_are_reached(tmp_path):
    columns, config, space = healthy("her")
    hopeful(columns, config, success=1.0)
    assert "S30" not in look(tmp_path, columns, config, space)


def test_a_solved_task_has_one_value_everywhere(tmp_path):
    columns, config, space = healthy("acer")
    columns["AverageEpRet"][LATE] = columns["EpLen"][LATE] = columns["MaxEpRet"][LATE] = 500
    columns["StdEpRet"][LATE], columns["StdQVals"][LATE] = 0, 0.01
    columns["AverageQVals"][LATE], columns["MaxQVals"][LATE] = 99.99, 100.1
    columns["MinQVals"][LATE] = 99.9
    assert "S23" not in look(tmp_path, columns, config, space)
    columns["StdEpRet"][LATE] = 30  # returns differ, so values should
    assert "S23" in look(tmp_path, columns, config, space)
    columns["StdEpRet"][LATE], columns["AverageQVals"][LATE] = 0, 50  # another constant
    assert "S23" in look(tmp_path, columns, config, space)


def test_the_original_counts_its_steps_from_zero(tmp_path):
    columns, config, space = healthy("sac")
    columns["Epoch"] += 1
    columns["TotalEnvInteracts"] -= 1
    del config["spinup_version"], config["algo"]
    record = Record(write(tmp_path, columns, config, space))
    assert record.algo == "sac"  # by its columns
    assert look(tmp_path, columns, config, space) == {}


def test_a_run_with_nothing_but_its_table_is_examined(tmp_path):
    columns, config, space = healthy("ppo")
    write(tmp_path, columns, config, space)
    for name in ("config.json", "diagnostics.txt", "pyt_save/policy.json"):
        (tmp_path / name).unlink()
    found = apply(Record(tmp_path), TABLES)
    assert found.findings == [] and found.failed == {}
    assert "config.json" in found.skipped["S34"]
    columns["LossPi"][:] = 0.5
    write(tmp_path, columns, {}, space)
    assert [finding.id for finding in apply(Record(tmp_path), TABLES).findings] == ["X2"]


@pytest.mark.parametrize(
    "config", ["[]", "{", '{"gamma": "x", "epochs": null, "env": 3, "alpha": [1], "seed": {}}']
)
def test_strange_settings_are_no_traceback(config, tmp_path):
    columns, _, space = healthy("sac")
    write(tmp_path, columns, {}, space)
    (tmp_path / "config.json").write_text(config)
    found = apply(Record(tmp_path), TABLES)
    assert all(finding.level == "hint" for finding in found.findings)


def test_causes_come_before_symptoms(tmp_path):
    columns, config, space = healthy("vpg")
    flat(columns)
    columns["DeltaLossPi"][:] = 0.02
    columns["SurrGain"][:] = -0.02
    config["gamma"] = 0.5
    ids = list(look(tmp_path, columns, config, space))
    assert ids.index("X19") < ids.index("S12") < ids.index("S1") < ids.index("S34")


def test_the_temperature_comes_before_what_it_leads_to(tmp_path):
    columns, config, space = healthy("sac")
    alpha_wrong_way(columns, config)
    columns["LossPi"] = -0.3 * columns["AverageQ1Vals"]
    ids = list(look(tmp_path, columns, config, space))
    assert ids.index("S26") < ids.index("S25")


def test_a_moving_normalizer_is_named(tmp_path):
    columns, config, space = healthy("ppo")
    columns["LossPi"][:] = 0.03
    config["ac_kwargs"] = {"normalize_obs": True}
    assert look(tmp_path, columns, config, space)["X2"].part == "normalizer"


def seeds_of(tmp_path, change=None):
    for seed in (0, 1, 2):
        columns, config, space = healthy("ppo")
        config["seed"] = seed
        columns["AverageEpRet"] = columns["AverageEpRet"] + 0.1 * seed
        if change:
            change(seed, columns, config)
        write(tmp_path / f"x_s{seed}", columns, config, space)
    found = examinations([tmp_path / f"x_s{seed}" for seed in (0, 1, 2)])
    return {finding.id: finding for one in found for finding in one.findings}


def test_seeds_are_compared(tmp_path):
    assert seeds_of(tmp_path / "healthy") == {}

    def unused(seed, columns, config):
        columns["AverageEpRet"] = healthy("ppo")[0]["AverageEpRet"]

    found = seeds_of(tmp_path / "unused", unused)
    assert found["S6"].level == "error" and found["S6"].part == "seeding"

    def unused_and_worse(seed, columns, config):
        unused(seed, columns, config)
        columns["LossPi"][:] = 0.03

    assert next(iter(seeds_of(tmp_path / "worse", unused_and_worse))) == "S6"  # before X2

    def not_repeatable(seed, columns, config):
        config["seed"] = 3

    assert "same settings and seed 3" in seeds_of(tmp_path / "rep", not_repeatable)["S6"].sentence

    def spread(seed, columns, config):
        columns["AverageEpRet"] = columns["AverageEpRet"] * (0.1 + seed)

    assert seeds_of(tmp_path / "spread", spread)["S7"].level == "hint"


def test_findings_are_plain_data(tmp_path):
    columns, config, space = healthy("ppo")
    columns["LossPi"][:] = 0.03
    finding = look(tmp_path, columns, config, space)["X2"]
    assert json.loads(json.dumps(finding.as_dict()))["epochs"] == [0, ROWS - 1]


def test_the_list_of_runs_mentions_ill_runs_in_one_line(tmp_path, capsys):
    columns, config, space = healthy("ppo")
    write(tmp_path / "a" / "a_s0", columns, config, space)
    runs.main([str(tmp_path)])
    assert "ill" not in capsys.readouterr().out
    columns["LossPi"][:] = 0.03
    write(tmp_path / "b" / "b_s0", columns, config, space)
    runs.main([str(tmp_path)])
    (line,) = [x for x in capsys.readouterr().out.splitlines() if "ill (" in x]
    assert line.startswith("1 run looks ill (X2): ") and "doctor" in line and "b_s0" in line
    assert mention([tmp_path / "a" / "a_s0"]) is None

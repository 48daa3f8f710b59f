"""`spinup probe` on tiny algorithms that are right, or broken on purpose in one part."""

import json
import os
import re
import sys
import textwrap

import numpy as np
import pytest
import torch
from torch import nn

from spinup import registry
from spinup.cli.main import main
from spinup_lab import bugs as zoo
from spinup_lab.parts import PARTS
from spinup_lab.probe import probe
from spinup_lab.probe.calling import Subject
from spinup_lab.probe.tree import _run
from spinup_lab.probe.verdict import fault, faults

VALUES = ("Constant", "Observation", "TwoStep", "Termination", "Truncation")


def key(obs):
    return tuple(np.round(np.asarray(obs, dtype=np.float64).reshape(-1), 3))


class Table(nn.Module):
    """Values and preferences of observations, in tables; learns fast and exactly."""

    def __init__(self):
        super().__init__()
        self.values, self.prefs = {}, {}

    def v(self, obs):
        return torch.tensor([self.values.get(key(o), 0.0) for o in obs])

    def probs(self, obs):
        x = np.asarray(self.prefs.get(key(obs), np.zeros(2)))
        return np.exp(x - x.max()) / np.exp(x - x.max()).sum()

    def act(self, obs, deterministic=False):
        return np.argmax(self.probs(obs))


def table(fault=""):
    """Return a small policy gradient algorithm with a critic, and perhaps a fault."""

    def algorithm(env_fn, seed=0, steps_per_epoch=100, epochs=10, gamma=0.99):
        env, ac = env_fn(), Table()
        rng = np.random.default_rng(None if fault == "unseeded" else seed)
        o, _ = env.reset(seed=None if fault == "unseeded" else seed)
        for _ in range(epochs):
            path, rows = [], []
            for _ in range(steps_per_epoch):
                a = int(rng.random() < ac.probs(o)[1])
                o2, r, terminated, truncated, _ = env.step(a + (5 if fault == "offset" else 0))
                path.append((key(o), a, r))
                o = o2
                if terminated or truncated or len(rows) + len(path) == steps_per_epoch:
                    last = 0.0 if terminated else ac.values.get(key(o2), 0.0)
                    if fault == "cut is death" and truncated:
                        last = 0.0
                    if fault == "no mask":
                        last = ac.values.get(path[-1][0], 0.0)
                    for k, a, r in reversed(path):
                        last = r + (1.0 if fault == "undiscounted" else gamma) * last
                        rows.append((k, a, last))
                    path = []
                if terminated or truncated:
                    o, _ = env.reset()
            for k, a, ret in rows:
                v = ac.values.get(k, 0.0)
                adv = ret - v
                ac.values[k] = v + (0.0 if fault == "no values" else 0.2) * adv
                grad = np.eye(2)[a] - ac.probs(k)
                sign = -1.0 if fault == "sign" else 1.0
                ac.prefs[k] = ac.prefs.get(k, np.zeros(2)) + sign * 0.3 * adv * grad
        return ac

    algorithm.__module__ = "somebody"
    return algorithm


def test_a_right_algorithm_has_no_fault():
    report = probe(table(), "mine")
    assert report.passed, report.text()
    names = [result.probe for result in report.results]
    assert names[:5] == list(VALUES)
    assert {"ActionSequence", "DelayedAction", "Patience", "Contract"} <= set(names)
    assert "No fault found" in report.text()
    skipped = {r.probe: r.skipped for r in report.results if r.skipped}
    assert set(skipped) <= {"ActionObservationDiscreteFrom5", "ActionObservationMultiDiscrete"}


@pytest.mark.parametrize(
    ("fault", "only", "part", "said"),
    [
        ("no values", ["Constant"], "value-loss", "learns nothing"),
        ("no mask", ["Constant", "Truncation"], "episode-ends", "after a termination"),
        ("undiscounted", ["Constant", "TwoStep"], "returns", "not discounted"),
        ("cut is death", ["Truncation"], "episode-ends", r"1\.[67]. instead of 2.00: a time limit"),
        ("sign", ["Constant", "Action"], "policy-loss", "avoid the best action"),
        ("unseeded", ["Contract"], "seeding", "same seed differ"),
        ("offset", ["Constant"], "action-bounds", "refused"),
    ],
)
def test_the_broken_part_is_named(fault, only, part, said):
    verdict = probe(table(fault), "mine", only=only).verdict
    assert verdict is not None
    assert (verdict.part, bool(verdict.probes)) == (part, True), verdict
    assert re.search(said, verdict.reason), verdict.reason


@pytest.mark.parametrize(
    ("bad", "passed", "seeds"),
    [
        ((), True, [0]),
        ((0,), True, [0, 1, 2]),
        ((0, 2), False, [0, 1, 2]),
        ((0, 1), False, [0, 1]),
    ],
)
def test_a_third_seed_decides(bad, passed, seeds):
    seen = []

    def check(seed):
        seen.append(seed)
        if seed in bad:
            yield fault("undiscounted", said="x")

    result, _ = _run("P", check, Subject(table(), "mine"))
    assert (result.passed, seen) == (passed, seeds)


def test_columns_alone_are_enough():
    """A function that returns None and logs, as the original's do, is judged by its columns."""

    def silent(env_fn, seed=0, steps_per_epoch=100, epochs=10, gamma=0.99, logger_kwargs=None):
        ac = table("cut is death")(env_fn, seed, steps_per_epoch, epochs, gamma)
        values = list(ac.values.values())
        os.makedirs(logger_kwargs["output_dir"], exist_ok=True)
        with open(os.path.join(logger_kwargs["output_dir"], "progress.txt"), "w") as file:
            file.write("AverageVVals\tMaxVVals\tMinVVals\n")
            file.write(f"{np.mean(values)}\t{max(values)}\t{min(values)}\n")

    report = probe(silent, only=["Constant", "TwoStep", "Truncation", "Action"])
    assert [(r.probe, r.passed, r.skipped) for r in report.results] == [
        ("Constant", True, ""),
        ("TwoStep", True, ""),
        ("Truncation", False, ""),
    ]
    assert report.verdict.part == "episode-ends"


def test_a_changed_argument_is_a_fault():
    def rude(env_fn, seed=0, steps_per_epoch=100, epochs=10, gamma=0.99, ac_kwargs=None):
        ac_kwargs["mine"] = 1
        return table()(env_fn, seed, steps_per_epoch, epochs, gamma)

    verdict = probe(rude, only=["Contract"]).verdict
    assert verdict.part == "hyperparameters" and "ac_kwargs" in verdict.reason


# ---- the command ---------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    (tmp_path / "mine_probed.py").write_text(
        textwrap.dedent(
            """
            def crash(env_fn, seed=0):
                env_fn().reset(seed=seed)
                raise KeyError("no such thing")

            def other(config):
                return None

            def endless(env_fn, seed=0, steps_per_epoch=1, epochs=1):
                env = env_fn()
                while True:
                    env.reset(seed=seed)
                    env.step(env.action_space.sample())

            number = 3

            def train(env_fn, gamma, steps, seed):
                env = env_fn()
                values = {}
                env.action_space.seed(seed)
                o, _ = env.reset(seed=seed)
                for _ in range(steps):
                    o2, r, terminated, truncated, _ = env.step(env.action_space.sample())
                    k, k2 = float(o[0]), float(o2[0])
                    target = r + gamma * (not (terminated or truncated)) * values.get(k2, 0.0)
                    values[k] = values.get(k, 0.0) + 0.1 * (target - values.get(k, 0.0))
                    o = env.reset()[0] if terminated or truncated else o2
                return lambda obs: values.get(float(obs[0]), 0.0), lambda obs: 0
            """
        )
    )
    yield tmp_path
    sys.modules.pop("mine_probed", None)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere_at_all:f"], "there is no module 'nowhere_at_all'"),
        (["mine_probed:crsh"], "no function 'crsh'; did you mean crash"),
        (["mine_probed:other"], "must be env_fn.*'config'.*--adapter"),
        (["mine_probed:number"], "not a function but a int"),
        (["mine_probed:crash"], "crashed in Constant: KeyError: 'no such thing'.*line 4"),
        (["mine_probed:endless"], "did not stop in Constant"),
        (["ppo", "--only", "TwoStop"], "no probe 'TwoStop' for ppo; did you mean TwoStep"),
        (["ppo", "--set", "pi_lr"], "--set needs NAME=VALUE"),
        (["ppo", "--set", "speed=1"], "ppo has no argument 'speed'"),
        (["ppo", "--gamma", "1.5"], "gamma=1.5 must be between"),
        (["--adapter", "nothing.py"], "there is no file nothing.py"),
        (["pppo"], "no algorithm 'pppo'"),
        ([], "name a training function"),
    ],
)
def test_bad_input_is_one_sentence(here, capsys, words, said):
    assert main(["probe", *words]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and re.search(said, err), err


def test_an_adapter_is_judged_and_printed_as_json(here, capsys):
    words = ["--adapter", "mine_probed.py", "--json"]
    only = [word for name in ("Constant", "TwoStep", "Truncation") for word in ("--only", name)]
    assert main(["probe", *words, *only]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["part"] == "episode-ends" and report["noticed"] and not report["passed"]
    assert [r["probe"] for r in report["results"] if not r["passed"]] == ["Truncation"]
    assert report["verdict"]["probes"] == ["Truncation"]


def test_our_ppo_passes_a_probe_and_fails_with_a_useless_rate(capsys):
    assert main(["probe", "ppo", "--only", "TwoStep"]) == 0
    assert "ok    TwoStep" in capsys.readouterr().out
    assert main(["probe", "ppo", "--only", "Constant", "--set", "vf_lr=1e-9"]) == 1
    assert "Likely broken: value-loss" in capsys.readouterr().out


# ---- faults of our own algorithms ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("mutant", "probes", "part"),
    [
        ("ppo-no-stop", ["KLStop"], "policy-step"),
        ("ppo-max", ["ClippedStep"], "policy-loss"),
        ("truncated-return-logged", ["Contract"], "logging-saving"),
        ("dqn-max-by-target", ["DoubleQ"], "value-loss"),
        ("replay-pairs-shifted", ["Observation", "Termination"], "replay"),
        ("target-is-alias", ["FrozenTargets"], "targets"),
    ],
)
def test_faults_of_the_zoo_are_named_and_healthy_code_passes(mutant, probes, part):
    found = zoo.find(mutant)
    name = found.algorithms[0]
    assert probe(registry.load(name), name, only=probes).passed
    with zoo.applied(mutant):
        verdict = probe(registry.load(name), name, only=probes).verdict
    assert verdict is not None and verdict.part == part


@pytest.mark.slow
@pytest.mark.parametrize("name", registry.algorithms())
def test_every_algorithm_of_ours_passes_every_probe(name):
    report = probe(registry.load(name), name)
    assert report.passed, report.text()
    assert report.seconds < 60


@pytest.mark.parametrize(
    ("low", "high", "part"),
    [(0.0, 0.0, "value-loss"), (0.0, 1.0, "value-loss"), (0.03, -0.05, "replay")],
)
def test_a_dead_output_is_not_taken_for_mixed_rows(low, high, part):
    from types import SimpleNamespace

    from spinup_lab.probe.values import Learned, diagnose

    found = {
        "Observation": Learned({-1.0: low, 1.0: high}, {-1.0: -1.0, 1.0: 1.0}, 0.12),
        "Termination": Learned({0.0: 1.0}, {0.0: 1.0}, 0.2),
    }
    assert diagnose(found, SimpleNamespace(kind="off", gamma=0.5)).part == part


def test_every_fault_has_a_sentence_and_every_sentence_is_used(repo_root):
    source = "".join(path.read_text() for path in (repo_root / "spinup_lab/probe").glob("*.py"))
    used = set(re.findall(r'fault\(\s*"([a-z0-9-]+)"', source))
    used |= set(re.findall(r'fault\("([a-z-]+)" if .* else "([a-z-]+)"', source)[0])
    assert used == faults().keys()
    assert {part for part, _ in faults().values()} <= PARTS.keys()

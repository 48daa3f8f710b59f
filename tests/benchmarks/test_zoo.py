"""The measure of the bug zoo: its recipes are valid, its counts right, its page up to date."""

import inspect

from benchmarks import zoo
from spinup import registry
from spinup.envs import make_env
from spinup_lab import bugs as mutants


def test_the_page_is_that_of_the_results():
    assert zoo.PAGE.read_text(encoding="utf-8") == zoo.page(zoo.results()), (
        "run python benchmarks/zoo.py --table"
    )


def test_every_mutant_can_be_trained_and_tested():
    made = {}
    for mutant in zoo.everything().values():
        recipe = zoo.recipe(mutant)
        function = registry.load(recipe["algo"], "pytorch")
        assert set(recipe["arguments"]) <= set(inspect.signature(function).parameters)
        env = made.setdefault(recipe["env"], make_env(recipe["env"]))
        row = registry.get(recipe["algo"])
        assert type(env.action_space).__name__ in row.action_spaces
    for mutant in mutants.load().values():
        near, wider = zoo.test_files(mutant)
        assert near and wider, mutant.id
        assert all((zoo.ROOT / file).exists() for file in (*near, *wider))


def test_counts_need_a_measure_and_the_right_part():
    part = mutants.find("pg-sign").part
    found = {"noticed": True, "by": ["S1"], "part": part, "sentence": ""}
    data = {"mutants": {"pg-sign": {"doctor": found, "probe": {"noticed": False}}}}
    assert zoo.totals(data)["doctor"] == (1, 1, 1)
    assert zoo.totals(data)["probe"] == (1, 0, 0)
    assert zoo.totals(data)["doctor or probe"] == (1, 1, 1)
    assert zoo.totals(data)["tests"] == (0, 0, 0)
    found["part"] = "returns"
    assert zoo.totals(data)["doctor or probe"] == (1, 1, 0)
    found["error"] = "it did not run"
    assert zoo.totals(data)["doctor"] == (0, 0, 0)
    assert zoo.short(found, mutants.find("pg-sign")) == "not measured"

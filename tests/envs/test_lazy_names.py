"""The package offers its names without loading the modules behind them before they are used."""

import ast

import gymnasium
import pytest

import spinup.envs
from spinup.envs.registration import PROBES
from tests.helpers.processes import run_python

# Only some runs need these: the others must not pay for them.
RARE = {
    f"spinup.envs.{name}"
    for name in (
        *("bitflip", "make", "old_interface", "probes", "space_adapter", "vector", "workers"),
        "wrappers",
    )
}


def loaded_by(statement):
    code = f"{statement}\nimport sys\nprint([m for m in sys.modules if m.startswith('spinup.')])"
    out = run_python("-c", code)
    return set(ast.literal_eval(out.stdout.splitlines()[-1]))


def test_every_name_is_offered():
    for name in spinup.envs.__all__:
        assert getattr(spinup.envs, name) is not None and name in dir(spinup.envs)
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = spinup.envs.no_such_name
    with pytest.raises(ImportError):
        from spinup.envs import no_such_name  # noqa: F401


def test_importing_the_package_loads_none_of_its_environments():
    envs = {name for name in loaded_by("import spinup.envs") if name.startswith("spinup.envs.")}
    assert envs == {"spinup.envs.registration"}


def test_importing_an_algorithm_loads_no_module_that_few_runs_need():
    assert not RARE & loaded_by("import spinup.algos.pytorch.ppo.ppo")


def test_a_run_in_a_gymnasium_environment_needs_no_adapter_for_the_old_interface():
    statement = (
        "from spinup.envs import adapt_env, make_env\nadapt_env(make_env('CartPole-v1')).reset()"
    )
    assert not {"spinup.envs.old_interface", "spinup.envs.vector"} & loaded_by(statement)


@pytest.mark.parametrize("env_id", [*(probe.id for probe in PROBES), "spinup/BitFlip-v0"])
def test_every_registered_entry_point_exists(env_id):
    env = gymnasium.make(env_id)
    env.reset(seed=0)
    env.close()

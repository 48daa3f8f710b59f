"""Loading policies: the same network, the same environment, or one clear sentence."""

import inspect
import re
import shutil

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from spinup import registry
from spinup.cli.test_policy import main as play_command
from spinup.envs import make_env
from spinup.policies import loading
from spinup.policies import play as tp
from spinup.policies.save_numbers import which_save
from spinup.utils.errors import SpinupError
from tests.helpers.saved_policies import OBS, no_env, save_run

# -------------------------------------------------------------------------------------- loading


def test_the_loaded_policy_is_the_saved_network(cartpole_run):
    run, ac = cartpole_run
    env, get_action = loading.load_policy_and_env(run, deterministic=True)
    assert env.spec.id == "CartPole-v1"
    with torch.no_grad():
        wanted = ac.pi._distribution(torch.as_tensor(OBS)).logits.argmax(-1).tolist()
    assert len(set(wanted)) == 2  # else any constant policy would pass
    assert [int(get_action(o)) for o in OBS] == wanted
    env.close()


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_deterministic_is_deterministic(tmp_path, env_id):
    env = make_env(env_id)
    save_run(tmp_path / "run", env)
    obs = [env.observation_space.sample() for _ in range(20)]
    env.close()
    act = lambda deterministic, seed: [  # noqa: E731
        np.asarray(get(o)).tolist()
        for get in [loading.load_pytorch_policy(tmp_path / "run", "last", deterministic, seed=seed)]
        for o in obs * 3
    ]
    fixed = act(True, 0)
    assert fixed == act(True, 1) and fixed[:20] == fixed[20:40] == fixed[40:]
    # The same policy sampled does vary, so the equality above is not for want of noise.
    sampled = act(False, 0)
    assert sampled != act(False, 1) and sampled[:20] != sampled[20:40]
    assert sampled == act(False, 0)


def test_saves_are_chosen_by_number(tmp_path):
    env = make_env("CartPole-v1")
    acs = {itr: save_run(tmp_path / "run", env, seed=i, itr=itr) for i, itr in enumerate((3, 20))}

    def same_as(ac, itr):
        get_action = loading.load_pytorch_policy(tmp_path / "run", itr, True)
        with torch.no_grad():
            wanted = ac.pi._distribution(torch.as_tensor(OBS)).logits.argmax(-1).tolist()
        return [int(get_action(o)) for o in OBS] == wanted

    assert same_as(acs[3], 3) and same_as(acs[3], "3") and same_as(acs[20], 20)
    assert not same_as(acs[3], 20)
    for last in ("last", -1, "", None):
        assert same_as(acs[20], last)
    with pytest.raises(SpinupError):
        loading.load_pytorch_policy(tmp_path / "run", 7)
    with pytest.raises(SpinupError, match="number of a save"):
        loading.load_pytorch_policy(tmp_path / "run", "worst")


def test_arguments_of_the_environment_and_its_time_limit_come_back(tmp_path):
    env = make_env("Pendulum-v1", {"g": 3.5}, max_episode_steps=17)
    save_run(tmp_path / "run", env)
    made, get_action = loading.load_policy_and_env(tmp_path / "run")
    assert made.unwrapped.g == 3.5
    result = tp.run_policy(made, get_action, num_episodes=1, render=False)
    assert result["EpLen"] == [17]


def test_the_callers_environment_wins(cartpole_run):
    run, _ = cartpole_run
    mine = gym.make("CartPole-v1", max_episode_steps=5)
    assert loading.load_policy_and_env(run, env=mine)[0] is mine
    assert loading.load_policy_and_env(run, env=lambda: mine)[0] is mine
    made, _ = loading.load_policy_and_env(run, env="CartPole-v0")
    assert made.spec.id.startswith("CartPole")


def test_an_environment_that_does_not_fit_is_refused(cartpole_run):
    run, _ = cartpole_run
    with pytest.raises(SpinupError, match="observation space"):
        loading.load_policy_and_env(run, env="Acrobot-v1")


def test_a_policy_is_not_played_without_its_wrappers_unless_asked(tmp_path, capsys):
    env = gym.wrappers.NormalizeObservation(gym.make("CartPole-v1"))
    save_run(tmp_path / "run", env)
    with no_env("NormalizeObservation") as caught:
        assert loading.load_policy_and_env(tmp_path / "run")[0] is None
    assert caught[0].filename == __file__  # it points at the caller
    run = [str(tmp_path / "run"), "-nr", "-n", "1"]
    assert play_command(run) == 2  # returns of another task would look like those of a bad policy
    said = capsys.readouterr()
    assert "NormalizeObservation" in said.err and said.out == ""
    with pytest.warns(UserWarning, match="NormalizeObservation.*is left out"):
        assert play_command([*run, "--env", "CartPole-v1"]) == 0


def test_a_backend_plugs_in_with_a_loader(tmp_path, monkeypatch):
    (tmp_path / "tf1_save").mkdir()
    asked = {}

    def load(folder, itr, deterministic, **options):
        asked.update(folder=folder, itr=itr, deterministic=deterministic, **options)
        return None, lambda action_space: lambda o: action_space.n - 1

    monkeypatch.setitem(loading.LOADERS, "tf1", load)
    env, get_action = loading.load_policy_and_env(tmp_path, 3, True, env="CartPole-v1", seed=5)
    assert get_action(None) == 1 and env.spec.id == "CartPole-v1"
    assert (asked["folder"], asked["itr"], asked["deterministic"]) == (tmp_path, 3, True)
    assert (asked["seed"], asked["trust_pickle"]) == (5, False)


def test_what_is_no_run_is_one_clear_sentence(tmp_path):
    with pytest.raises(SpinupError, match="not a folder"):
        loading.load_policy_and_env(tmp_path / "nowhere")
    with pytest.raises(SpinupError, match="contains no saved policy"):
        loading.load_policy_and_env(tmp_path)
    with pytest.raises(SpinupError, match="itr must be the number of a save"):
        which_save([])
    with pytest.raises(SpinupError, match="True or False"):
        loading.load_policy_and_env(tmp_path, deterministic="no")


@pytest.mark.parametrize("place", ["ppo", "."])
def test_a_folder_of_runs_is_answered_with_one_of_them(tmp_path, place, capsys):
    for seed in (1, 0):
        save_run(tmp_path / "ppo" / f"ppo_s{seed}", make_env("CartPole-v1"))
    assert play_command([str(tmp_path / place), "-nr"]) == 2
    assert capsys.readouterr().err == (
        f"spinup: {tmp_path / place} contains no saved policy: pass one of the 2 runs below it, "
        f"such as {tmp_path}/ppo/ppo_s0\n"
    )


# ------------------------------------------------------------------------------ every algorithm


def own_action(ac, o):
    """What the network itself does, without noise, through torch."""
    chooses = "deterministic" in inspect.signature(ac.act).parameters
    kwargs = {"deterministic": True} if chooses else {}
    return ac.act(torch.as_tensor(o, dtype=torch.float32), **kwargs)


@pytest.mark.parametrize("algo", registry.algorithms())
def test_every_algorithm_is_loaded_and_played_as_its_network_acts(runs, algo, capsys):
    run, ac = runs(algo)
    env, get_action = loading.load_policy_and_env(run, deterministic=True)
    rng = np.random.default_rng(0)
    box = isinstance(env.action_space, spaces.Box)
    for _ in range(20):
        o = rng.normal(size=env.observation_space.shape).astype(np.float32)
        action, wanted = get_action(o), own_action(ac, o)
        if box:
            wanted = np.clip(wanted, env.action_space.low, env.action_space.high)
        np.testing.assert_allclose(action, wanted, rtol=0, atol=1e-5 if box else 0)
        assert env.action_space.contains(action)
    assert play_command([str(run), "-nr", "-n", "2", "-l", "5", "--seed", "1"]) == 0
    out = capsys.readouterr().out
    assert out.count("Episode ") == 2 and "AverageEpRet" in out
    env.close()


@pytest.mark.parametrize(
    "saves, listed",
    [
        ((None,), "the last one (-1)"),
        ((20, 3, None), "3, 20, the last one (-1)"),
        ((3,), "3"),
        (range(0, 150, 10), "0, 10, 20, 30, 40, ..., 90, 100, 110, 120, 130, 140"),
    ],
)
def test_a_save_that_is_not_there_is_answered_with_those_that_are(tmp_path, saves, listed):
    run = tmp_path / "run"
    save_run(run, make_env("CartPole-v1"), itr=saves[0])
    for itr in saves[1:]:  # the same files under another number
        for old in (run / "pyt_save").glob("policy*"):
            name = re.sub(r"\d*\.", f"{'' if itr is None else itr}.", old.name, count=1)
            shutil.copy(old, old.with_name(name))
    with pytest.raises(SpinupError) as error:
        loading.load_policy_and_env(run, 7)
    assert str(error.value) == f"{run} has no save number 7: choose from {listed}"

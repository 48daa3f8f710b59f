"""Replaying policies: the same network and environment, and nothing executed from a file."""

import copy
import functools
import inspect
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import timeit
import types
import warnings

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

import spinup
from spinup import registry
from spinup.algos.pytorch.common import nets
from spinup.cli.test_policy import main as play_command
from spinup.cli.test_policy import take_env_kwargs
from spinup.envs import adapt_env, env_record, make_env, space_to_json
from spinup.envs.record import wrapper_records
from spinup.policies import loading, video
from spinup.policies import play as tp
from spinup.policies.save_numbers import which_save
from spinup.runs.logger import Logger
from spinup.runs.storage.files import self_hash
from spinup.utils.errors import SpinupError


def save_run(folder, env, /, seed=0, itr=None, cls=nets.MLPActorCritic, **changes):
    """A run directory with a policy as the algorithms save it; `changes` go into its JSON."""
    env = adapt_env(env)
    torch.manual_seed(seed)
    ac_kwargs = {"hidden_sizes": (8,)}
    if len(env.observation_space.shape) == 3:  # an encoder of a whole screen is large
        ac_kwargs["encoder"] = "flat"
    ac = cls(env.observation_space, env.action_space, **ac_kwargs)
    meta = {
        "algo": "ppo",
        "backend": "pytorch",
        "observation_space": space_to_json(env.observation_space),
        "action_space": space_to_json(env.action_space),
        "ac_kwargs": ac_kwargs,
        "env": env_record(env),
        **changes,
    }
    logger = Logger(output_dir=str(folder), exp_name="t", resume=folder.exists(), quiet=True)
    logger.setup_pytorch_saver(ac, policy_meta=meta)
    logger.save_state({}, itr)
    logger.close()
    return ac


@pytest.fixture
def cartpole_run(tmp_path):
    ac = save_run(tmp_path / "run", make_env("CartPole-v1"))
    return tmp_path / "run", ac


@pytest.fixture
def bomb(tmp_path):
    """An object whose unpickling creates a file, and that file's path."""
    trace = tmp_path / "executed"

    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(trace),)

    return Bomb(), trace


def no_env(match):
    """Expect the warning that there is no environment; it says how to pass one."""
    return pytest.warns(loading.NoEnvironment, match=match)


OBS = np.random.default_rng(3).normal(scale=5, size=(40, 4)).astype(np.float32)


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


# --------------------------------------------------------------------------- nothing is executed


@pytest.mark.parametrize("name", ["policy.json", "policy.safetensors", "model.pt", "vars.pkl"])
def test_a_malicious_pickle_in_place_of_any_file_is_not_executed(cartpole_run, bomb, name):
    run, _ = cartpole_run
    payload, trace = bomb
    path = run / name if name == "vars.pkl" else run / "pyt_save" / name
    path.write_bytes(pickle.dumps(payload))
    if name.startswith("policy"):
        with pytest.raises(SpinupError):
            loading.load_policy_and_env(run)
    else:
        loading.load_policy_and_env(run)[0].close()  # these files are not even opened
    assert not trace.exists()


def test_a_run_of_pickles_alone_is_refused_unopened(tmp_path, bomb):
    payload, trace = bomb
    run = tmp_path / "run"
    (run / "pyt_save").mkdir(parents=True)
    torch.save(payload, run / "pyt_save" / "model.pt")
    (run / "vars.pkl").write_bytes(pickle.dumps({"env": payload}))
    for load in (loading.load_policy_and_env, loading.load_pytorch_policy):
        with pytest.raises(SpinupError, match="trust_pickle=True"):
            load(run)
    assert play_command([str(run), "-nr"]) == 2
    assert not trace.exists()
    # The bomb does go off when it is trusted: the tests above do not pass for want of powder.
    with pytest.raises(SpinupError, match="not a policy"):
        loading.load_policy_and_env(run, trust_pickle=True)
    assert trace.exists()


def test_pickled_runs_work_with_the_opt_in(tmp_path):
    env = gym.make("CartPole-v1")
    ac = save_run(tmp_path / "run", env)
    for path in (tmp_path / "run" / "pyt_save").glob("policy*"):
        path.unlink()
    (tmp_path / "run" / "vars.pkl").write_bytes(pickle.dumps({"env": env}))
    _, get_action = loading.load_policy_and_env(
        tmp_path / "run", deterministic=True, trust_pickle=True
    )
    with torch.no_grad():
        wanted = ac.pi._distribution(torch.as_tensor(OBS)).logits.argmax(-1).tolist()
    assert [int(get_action(o)) for o in OBS] == wanted
    (tmp_path / "run" / "vars.pkl").unlink()
    with no_env("env="):
        loading.load_policy_and_env(tmp_path / "run", trust_pickle=True)
    made, _ = loading.load_policy_and_env(tmp_path / "run", env="CartPole-v1", trust_pickle=True)
    assert made.spec.id == "CartPole-v1"


def evil_module(tmp_path, monkeypatch):
    trace = tmp_path / "imported"
    (tmp_path / "evil_module.py").write_text(
        f"import os, gymnasium\nos.makedirs({str(trace)!r}, exist_ok=True)\n"
        "from spinup.algos.pytorch.common.nets import MLPActorCritic\n"
        "class Net(MLPActorCritic): pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "evil_module", raising=False)  # of the test before
    return trace


@pytest.mark.parametrize("place", ["id", "requested_id", "module"])
def test_a_module_named_in_the_file_is_imported_only_with_the_opt_in(tmp_path, monkeypatch, place):
    trace = evil_module(tmp_path, monkeypatch)
    record = env_record(make_env("CartPole-v1"))
    record[place] = "evil_module" if place == "module" else "evil_module:CartPole-v1"
    save_run(tmp_path / "run", make_env("CartPole-v1"), env=record)
    if place == "requested_id":
        loading.load_policy_and_env(tmp_path / "run")  # a record of what was asked for, not used
    else:
        with no_env("import evil_module"):
            loading.load_policy_and_env(tmp_path / "run")
    assert not trace.exists()
    if place != "requested_id":
        loading.load_policy_and_env(tmp_path / "run", trust_pickle=True)
        assert trace.exists()


def test_an_id_that_makes_another_id_does_not_import_its_module(tmp_path, monkeypatch):
    trace = evil_module(tmp_path, monkeypatch)
    record = env_record(make_env("CartPole-v1"))
    record.update(id="GymV26Environment-v0", kwargs={"env_id": "evil_module:CartPole-v1"})
    save_run(tmp_path / "run", make_env("CartPole-v1"), env=record)
    with no_env("asks to import"):
        loading.load_policy_and_env(tmp_path / "run")
    assert not trace.exists()


def test_a_class_named_in_the_file_is_imported_only_with_the_opt_in(tmp_path, monkeypatch):
    trace = evil_module(tmp_path, monkeypatch)
    save_run(tmp_path / "run", make_env("CartPole-v1"))
    path = tmp_path / "run" / "pyt_save" / "policy.json"
    meta = json.loads(path.read_text())
    meta["class"] = {"module": "evil_module", "qualname": "Net"}
    meta["sha256"] = self_hash(meta)
    path.write_text(json.dumps(meta))
    with pytest.raises(SpinupError, match="evil_module"):
        loading.load_policy_and_env(tmp_path / "run")
    assert not trace.exists()
    loading.load_policy_and_env(tmp_path / "run", trust_pickle=True)
    assert trace.exists()


class Mine(nets.MLPActorCritic):
    """A user's own class: not in the library, so never built from a file alone."""


def test_the_callers_class_is_used_without_an_import(tmp_path):
    save_run(tmp_path / "run", make_env("CartPole-v1"), cls=Mine)
    with pytest.raises(SpinupError, match="actor_critic"):
        loading.load_policy_and_env(tmp_path / "run")
    _, get_action = loading.load_policy_and_env(tmp_path / "run", actor_critic=Mine)
    assert get_action(OBS[0]) in (0, 1)


@pytest.mark.parametrize(
    "record", [None, {}, {"id": 5}, {"id": None}, {"id": "CartPole-v1", "exact_kwargs": False}]
)
def test_an_environment_that_cannot_be_rebuilt_is_none_with_a_warning(tmp_path, record, capsys):
    save_run(tmp_path / "run", make_env("CartPole-v1"), env=record)
    with no_env("env=") as caught:
        env, get_action = loading.load_policy_and_env(tmp_path / "run")
    assert env is None and get_action(OBS[0]) in (0, 1)
    assert caught[0].filename == __file__  # it points at the caller
    with pytest.raises(SpinupError, match="there is no environment to run the policy in"):
        tp.run_policy(env, get_action)
    assert play_command([str(tmp_path / "run"), "-nr"]) == 2  # a command needs one
    assert "(--env" in capsys.readouterr().err
    assert (
        loading.load_policy_and_env(tmp_path / "run", env="CartPole-v1")[0].spec.id == "CartPole-v1"
    )


class Counting(gym.Env):
    """A user's own environment, which is registered nowhere."""

    observation_space = spaces.Box(-9, 9, (4,), np.float32)
    action_space = spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed=None, options=None):
        return np.zeros(4, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.full(4, self.steps % 9, np.float32), 1.0, False, self.steps % 5 == 0, {}


@pytest.mark.parametrize("saves", [(None,), (None, 7), (3, 12), (7, None)])
def test_what_a_users_algorithm_saved_opens_with_the_opt_in(tmp_path, saves):
    env = Counting()
    logger = Logger(output_dir=str(tmp_path), quiet=True)
    for itr in saves:
        torch.manual_seed(0 if itr is None else itr)
        ac = nets.MLPActorCritic(env.observation_space, env.action_space, (8,))
        env.steps = 100 + (itr or 0)
        logger.setup_pytorch_saver(what_to_save=ac)
        logger.save_state({"env": env}, itr)
    logger.close()
    with pytest.raises(SpinupError, match=r"saved without its spaces: .*trust_pickle=True"):
        loading.load_policy_and_env(tmp_path)
    highest = max((itr for itr in saves if itr is not None), default=0)
    for itr, number in (("last", highest), *((itr, itr or 0) for itr in saves)):
        made, get_action = loading.load_policy_and_env(tmp_path, itr, True, trust_pickle=True)
        assert isinstance(made.unwrapped, Counting) and made.unwrapped.steps == 100 + number
        torch.manual_seed(number)
        wanted = nets.MLPActorCritic(env.observation_space, env.action_space, (8,))
        assert [get_action(o) for o in OBS] == [wanted.act(torch.as_tensor(o), True) for o in OBS]
        lines = tp.run_policy(made, get_action, num_episodes=2, render=False)
        assert lines["EpLen"] == [5, 5] or lines["EpLen"][1] == 5
    assert play_command([str(tmp_path), "-nr", "-n", "1", "--trust-pickle"]) == 0


class Net(torch.nn.Module):
    """A user's network, which is passed as a class in ac_kwargs."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.layer = torch.nn.Linear(inputs, outputs)

    def forward(self, x):
        return self.layer(x)


class Chooser(nets.Actor):
    """A user's policy."""

    def __init__(self, logits):
        super().__init__()
        self.logits = logits

    def _distribution(self, obs):
        return torch.distributions.Categorical(logits=self.logits(obs))

    def _log_prob_from_distribution(self, pi, act):
        return pi.log_prob(act)


class Built(torch.nn.Module):
    """A user's actor-critic, which builds its networks with the class that it is given."""

    def __init__(self, observation_space, action_space, network, device=None):
        super().__init__()
        self.pi = Chooser(network(observation_space.shape[0], int(action_space.n)))
        self.v = network(observation_space.shape[0], 1)

    def step(self, obs):
        with torch.no_grad():
            pi, _ = self.pi(obs)
            a = pi.sample()
            return a.numpy(), self.v(obs).numpy(), pi.log_prob(a).numpy()

    def act(self, obs, deterministic=False):
        return self.pi.logits(obs).argmax(-1).numpy() if deterministic else self.step(obs)[0]


def test_a_class_of_another_script_is_named_together_with_what_to_do(tmp_path, monkeypatch):
    module = types.ModuleType("users_script")
    module.Gone = type("Gone", (nets.MLPActorCritic,), {"__module__": "users_script"})
    monkeypatch.setitem(sys.modules, "users_script", module)
    save_run(tmp_path, make_env("CartPole-v1"), cls=module.Gone)
    assert (tmp_path / "pyt_save" / "model.pt").is_file()
    monkeypatch.delitem(sys.modules, "users_script")
    for trust in (False, True):
        with pytest.raises(SpinupError, match=r"users_script\.Gone.* pass it as actor_critic"):
            loading.load_policy_and_env(tmp_path, trust_pickle=trust)
    loading.load_policy_and_env(tmp_path, actor_critic=module.Gone)[0].close()


def test_a_run_with_a_class_in_ac_kwargs_opens_with_the_opt_in_or_the_class(tmp_path):
    kwargs = {"network": Net, "device": torch.device("cpu")}
    spinup.vpg_pytorch(
        lambda: gym.make("CartPole-v1"),
        Built,
        kwargs,
        steps_per_epoch=40,
        epochs=1,
        logger_kwargs={"output_dir": str(tmp_path), "quiet": True},
    )
    with pytest.raises(SpinupError, match="pass it as actor_critic"):
        loading.load_policy_and_env(tmp_path)
    with pytest.raises(SpinupError, match=r"do not fit Built"):
        loading.load_policy_and_env(tmp_path, actor_critic=Built)
    model = torch.load(tmp_path / "pyt_save" / "model.pt", weights_only=False)
    with torch.no_grad():
        wanted = model.pi.logits(torch.as_tensor(OBS)).argmax(-1).tolist()
    given = functools.partial(Built, network=Net)
    for how in ({"trust_pickle": True}, {"actor_critic": given}):
        env, get_action = loading.load_policy_and_env(tmp_path, deterministic=True, **how)
        assert env.spec.id == "CartPole-v1"
        assert [int(get_action(o)) for o in OBS] == wanted
    (tmp_path / "pyt_save" / "model.pt").unlink()
    with pytest.raises(SpinupError, match=r"\(device, network\).*, device=\.\.\., network="):
        loading.load_policy_and_env(tmp_path, trust_pickle=True)


def test_a_policy_saved_without_its_spaces_says_how_to_save_it(tmp_path):
    logger = Logger(output_dir=str(tmp_path / "run"), quiet=True)
    logger.setup_pytorch_saver(torch.nn.Linear(2, 2))
    logger.save_state({}, None)
    logger.close()
    with pytest.raises(SpinupError, match="policy_meta"):
        loading.load_policy_and_env(tmp_path / "run")


# -------------------------------------------------------------------------------------- running


class Fixed(gym.Env):
    """Episodes of `length` steps, reward 2 each; terminated or truncated at the end."""

    observation_space = spaces.Box(-1, 1, (1,))
    action_space = spaces.Discrete(2)

    def __init__(self, length=4, truncate=False):
        self.length, self.truncate, self.resets = length, truncate, []

    def reset(self, *, seed=None, options=None):
        self.resets.append(seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        over = self.t >= self.length
        o = np.full(1, self.t / 100, np.float32)
        return o, 2.0, over and not self.truncate, over and self.truncate, {}


@pytest.mark.parametrize("truncate", [True, False])
def test_run_policy_reports_every_episode_and_the_table(capsys, truncate):
    result = tp.run_policy(Fixed(4, truncate), lambda o: 0, num_episodes=3, render=False)
    assert result == {"EpRet": [8.0] * 3, "EpLen": [4] * 3}
    out = capsys.readouterr().out
    assert len(re.findall(r"^Episode \d", out, re.M)) == 3
    rows = dict(re.findall(r"\|\s+(\w+) \|\s+([-\d.]+) \|", out))
    assert float(rows["AverageEpRet"]) == 8 and float(rows["EpLen"]) == 4
    assert float(rows["StdEpRet"]) == 0 and {"MaxEpRet", "MinEpRet"} <= set(rows)


def test_rewards_may_be_arrays_of_one_number(tmp_path):
    class Boxed(Fixed):
        render_mode = "rgb_array"

        def step(self, action):
            o, r, *rest = super().step(action)
            return o, np.array([r]), *rest

        def render(self):
            return np.zeros((8, 8, 3), np.uint8)

    assert list(tp.run_episodes(Boxed(4), lambda o: 0, num_episodes=1)) == [(8.0, 4)]
    played = []
    video.record_episodes(Boxed(4), lambda o: 0, tmp_path / "a.gif", played=played)
    assert played == [(8.0, 4)]


def test_max_ep_len_cuts_and_zero_means_no_cut():
    assert tp.run_policy(Fixed(9), lambda o: 0, 3, 2, False)["EpLen"] == [3, 3]
    assert tp.run_policy(Fixed(9), lambda o: 0, 0, 1, False)["EpLen"] == [9]


def test_run_policy_sees_the_observation_of_each_step():
    seen = []
    tp.run_policy(Fixed(3), lambda o: seen.append(float(o[0])) or 0, None, 1, False)
    np.testing.assert_allclose(seen, [0, 0.01, 0.02], atol=1e-7)


def test_without_a_display_it_runs_and_says_so(capsys, monkeypatch):
    monkeypatch.setattr(tp, "has_display", lambda: False)
    assert tp.run_policy(Fixed(2), lambda o: 0, num_episodes=1)["EpLen"] == [2]
    assert "No display" in capsys.readouterr().err


def test_with_a_display_the_environment_is_made_again_with_a_window(monkeypatch):
    monkeypatch.setattr(tp, "has_display", lambda: True)  # SDL's dummy driver takes the window
    env = gym.make("CartPole-v1")
    made = []
    real = gym.make
    monkeypatch.setattr(gym, "make", lambda *a, **k: made.append(k) or real(*a, **k))
    tp.run_policy(env, lambda o: 0, max_ep_len=2, num_episodes=1)
    assert made == [{"render_mode": "human"}]


class Old:
    """The old interface: four values, no seed, and drawing on request."""

    observation_space, action_space = Fixed.observation_space, Fixed.action_space
    metadata = {}

    def __init__(self):
        self.drawn = 0

    def reset(self):
        self.t = 0
        return np.zeros(1, np.float32)

    def step(self, action):
        self.t += 1
        return np.zeros(1, np.float32), 1.0, self.t >= 3, {}

    def render(self):
        self.drawn += 1


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_environments_with_the_old_interface_run_and_draw(monkeypatch):
    monkeypatch.setattr(tp, "has_display", lambda: True)
    env = Old()
    assert tp.run_policy(env, lambda o: 0, num_episodes=2)["EpRet"] == [3.0, 3.0]
    assert env.drawn == 6


def test_no_environment_is_one_clear_sentence():
    with pytest.raises(SpinupError, match="--env"):
        tp.run_policy(None, lambda o: 0)
    with pytest.raises(SpinupError, match="at least 1"):
        tp.run_policy(Fixed(), lambda o: 0, num_episodes=0)


# --------------------------------------------------------------------------------- command line


def test_main_measures_a_policy_the_same_way_twice(cartpole_run, capsys):
    run, _ = cartpole_run
    args = [str(run), "-n", "4", "-nr", "-l", "30", "--seed", "5"]
    outs = []
    for _ in range(2):
        assert play_command(args) == 0
        outs.append(capsys.readouterr().out)
    assert outs[0] == outs[1] and outs[0].count("Episode ") == 4
    assert play_command([*args[:-1], "6"]) == 0
    assert capsys.readouterr().out != outs[0]


def test_main_records_a_clip(cartpole_run, tmp_path, capsys):
    run, _ = cartpole_run
    clip = tmp_path / "clip.gif"
    assert play_command([str(run), "-d", "-l", "6", "--seed", "0", "--video", str(clip)]) == 0
    said = capsys.readouterr().out
    from PIL import Image

    with Image.open(clip) as image:
        milliseconds = 0
        for i in range(image.n_frames):
            image.seek(i)
            milliseconds += image.info["duration"]
    frames = int(re.search(r"\((\d+) frames\)", said).group(1))
    assert 2 <= frames <= 7 and milliseconds == 20 * frames


def test_main_says_one_sentence_and_fails_on_wrong_input(tmp_path, capsys):
    assert play_command([str(tmp_path / "nowhere")]) == 2
    err = capsys.readouterr().err
    assert err.startswith("spinup: ") and err.count("\n") == 1 and "Traceback" not in err


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


# ----------------------------------------------------------------------------------- wrappers


def inside_out(env):
    """Names of the wrappers of an environment, without those that every one has."""
    names = [record["name"] for record in wrapper_records(env)]
    return [name for name in names if name not in ("OrderEnforcing", "PassiveEnvChecker")]


W = gym.wrappers
WRAPPED = {
    "rescaled": (
        lambda: W.RescaleAction(make_env("Pendulum-v1", {"g": 3.5}), np.float32(-0.5), 0.5),
        ["TimeLimit", "RescaleAction"],
    ),
    "bounds a dimension": (
        lambda: W.RescaleAction(gym.make("Hopper-v5"), np.array([-1, -2, -3]), np.full(3, 1.5)),
        ["TimeLimit", "RescaleAction"],
    ),
    "shorter outside": (
        lambda: W.TimeLimit(W.ClipAction(make_env("Pendulum-v1")), 7),
        ["TimeLimit", "ClipAction", "TimeLimit"],
    ),
    "limit above skipping": (
        lambda: W.TimeLimit(W.MaxAndSkipObservation(gym.make("CartPole-v1").unwrapped, 2), 5),
        ["MaxAndSkipObservation", "TimeLimit"],
    ),
    "no limit": (
        lambda: W.FlattenObservation(gym.make("CartPole-v1").unwrapped),
        ["FlattenObservation"],
    ),
    "stacked": (
        lambda: W.FlattenObservation(W.FrameStackObservation(make_env("CartPole-v1"), 3)),
        ["TimeLimit", "FrameStackObservation", "FlattenObservation"],
    ),
    "pictures": (
        lambda: W.AddRenderObservation(gym.make("CartPole-v1", render_mode="rgb_array")),
        ["TimeLimit", "AddRenderObservation"],
    ),
    "registered limit changed": (
        lambda: make_env("CartPole-v1", max_episode_steps=9),
        ["TimeLimit"],
    ),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_wrappers_are_put_on_again_with_their_arguments(tmp_path, name):
    make, names = WRAPPED[name]
    env = make()
    save_run(tmp_path / "run", env)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "the policy was trained in")
        made, get_action = loading.load_policy_and_env(tmp_path / "run", deterministic=True)
    assert inside_out(made) == inside_out(env) == names
    assert made.observation_space == adapt_env(env).observation_space
    assert made.action_space == env.action_space
    # The same episode in both, step by step, shows that nothing on the way differs.
    original = adapt_env(make())
    (o, _), (o_made, _) = original.reset(seed=5), made.reset(seed=5)
    for _ in range(30):
        np.testing.assert_array_equal(o, o_made)
        action = get_action(o)
        (o, *rest), (o_made, *rest_made) = original.step(action), made.step(action)
        assert rest[:3] == rest_made[:3]
        if rest[1] or rest[2]:
            break


def test_the_wrappers_of_a_training_run_come_back(runs, tmp_path):
    make = WRAPPED["rescaled"][0]
    runs.train("ppo", tmp_path / "run", make)
    made, _ = loading.load_policy_and_env(tmp_path / "run")
    assert inside_out(made) == ["TimeLimit", "RescaleAction"] and made.unwrapped.g == 3.5
    assert made.action_space == make().action_space
    assert play_command([str(tmp_path / "run"), "-nr", "-n", "1", "-l", "3"]) == 0


class Doubled(gym.ObservationWrapper, gym.utils.RecordConstructorArgs):
    """A user's own wrapper, which remembers its arguments as Gymnasium's do."""

    def __init__(self, env, factor):
        gym.utils.RecordConstructorArgs.__init__(self, factor=factor)
        super().__init__(env)
        self.factor = factor

    def observation(self, observation):
        return observation * np.float32(self.factor)


def test_a_users_wrapper_is_imported_only_with_the_opt_in(tmp_path, monkeypatch):
    module = types.ModuleType("users_wrappers")
    module.Doubled = Doubled
    env = Doubled(make_env("CartPole-v1"), 3.0)
    record = env_record(env)
    assert record["wrapper_specs"][-1]["kwargs"] == {"factor": 3.0}
    record["wrapper_specs"][-1]["class"] = "users_wrappers:Doubled"
    save_run(tmp_path / "run", env, env=record)
    with pytest.warns(UserWarning, match="with Doubled"):
        made, _ = loading.load_policy_and_env(tmp_path / "run")
    assert "Doubled" not in inside_out(made)
    with no_env(r"users_wrappers:Doubled .* cannot be imported"):
        loading.load_policy_and_env(tmp_path / "run", trust_pickle=True)
    monkeypatch.setitem(sys.modules, "users_wrappers", module)
    made, _ = loading.load_policy_and_env(tmp_path / "run", trust_pickle=True)
    assert inside_out(made) == ["TimeLimit", "Doubled"] and made.factor == 3.0


@pytest.mark.parametrize(
    "spec",
    [
        {
            "name": "RescaleAction",
            "class": "gymnasium.wrappers.x:RescaleAction",
            "kwargs": {"a": 1},
        },
        {"name": "TimeLimit", "class": "gymnasium.wrappers.x:TimeLimit", "kwargs": {"a": {}}},
        {"name": "RescaleAction", "class": 5, "kwargs": {}},
        {"name": "RescaleAction"},
        "RescaleAction",
        None,
    ],
)
def test_a_wrapper_that_the_file_describes_wrongly_is_one_sentence(tmp_path, spec):
    record = env_record(make_env("CartPole-v1"))
    record["wrapper_specs"].append(spec)
    save_run(tmp_path / "run", make_env("CartPole-v1"), env=record)
    with no_env("--env"):
        loading.load_policy_and_env(tmp_path / "run")


def test_recorders_named_in_a_file_write_nothing(tmp_path):
    record = env_record(make_env("CartPole-v1"))
    video = {"video_folder": str(tmp_path / "elsewhere")}
    path = "gymnasium.wrappers.rendering:RecordVideo"
    record["wrapper_specs"].append({"name": "RecordVideo", "class": path, "kwargs": video})
    save_run(tmp_path / "run", make_env("CartPole-v1"), env=record)
    env, _ = loading.load_policy_and_env(tmp_path / "run")
    assert inside_out(env) == ["TimeLimit"] and not (tmp_path / "elsewhere").exists()


def test_records_of_older_versions_still_work(tmp_path):
    env = make_env("Pendulum-v1", max_episode_steps=11)
    record = env_record(env)
    del record["wrapper_specs"]
    save_run(tmp_path / "run", env, env=record)
    made, get_action = loading.load_policy_and_env(tmp_path / "run")
    assert tp.run_policy(made, get_action, num_episodes=1, render=False)["EpLen"] == [11]


def test_a_users_module_is_named_on_the_command_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "their_envs.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('Theirs-v0', 'gymnasium.envs.classic_control:CartPoleEnv',\n"
        "    max_episode_steps=6)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    try:
        save_run(tmp_path / "run", make_env("their_envs:Theirs-v0"))
        args = [str(tmp_path / "run"), "-nr", "-n", "1", "-d", "--seed", "0"]
        assert play_command(args) == 2
        assert capsys.readouterr().err == (
            "spinup: the file asks to import their_envs to make Theirs-v0: pass the environment "
            "with env=... (--env), or trust_pickle=True (--trust-pickle) if you trust the file\n"
        )
        assert play_command([*args, "--env", "their_envs:Theirs-v0"]) == 0
        assert play_command([*args, "--trust-pickle"]) == 0
        assert capsys.readouterr().out.count("EpLen 6") == 2
    finally:
        gym.registry.pop("Theirs-v0", None)
        sys.modules.pop("their_envs", None)


def test_an_environment_without_a_time_limit_is_cut_as_in_training(tmp_path, capsys):
    """Pendulum never terminates: an episode would not end."""
    save_run(tmp_path / "run", gym.make("Pendulum-v1").unwrapped, max_ep_len=7)
    args = [str(tmp_path / "run"), "-nr", "-n", "2"]
    assert play_command(args) == 0
    said = capsys.readouterr()
    assert said.out.count("EpLen 7\n") == 2
    assert said.err.startswith(
        "The environment names no time limit: episodes end after at most 7 steps"
    )
    assert play_command([*args, "-l", "3"]) == 0
    said = capsys.readouterr()
    assert said.out.count("EpLen 3\n") == 2 and said.err == ""
    save_run(tmp_path / "limited", make_env("Pendulum-v1", max_episode_steps=9), max_ep_len=7)
    assert play_command([str(tmp_path / "limited"), "-nr", "-n", "1"]) == 0
    said = capsys.readouterr()
    assert "EpLen 9\n" in said.out and said.err == ""


def test_an_environment_without_an_id_has_to_be_named(tmp_path, capsys):
    class Own(Fixed):
        observation_space = spaces.Box(-1, 1, (4,))

    save_run(tmp_path / "run", Own())
    assert play_command([str(tmp_path / "run"), "-nr"]) == 2
    assert capsys.readouterr().err == (
        "spinup: the file does not have the id of its environment: pass one with env=... "
        "(--env on the command line)\n"
    )
    made, _ = loading.load_policy_and_env(tmp_path / "run", env=Own)
    assert isinstance(made, Own)


def test_an_argument_without_a_value_is_true_and_swallows_no_flag():
    words = ["RUN", "--env_kwargs:a", "-nr", "--env_kwargs:b", "-5", "--env_kwargs:c", "--seed"]
    words += ["1", "--env_kwargs:d=-n", "--env_kwargs:e", "-.5", "--env_kwargs:f"]
    words += ["--env_kwargs:g", "false", "--env_kwargs:h=true", "--env_kwargs:i", "False"]
    rest, found = take_env_kwargs(words)
    assert rest == ["RUN", "-nr", "--seed", "1"]
    assert {k: found[k] for k in "abcdef"} == dict(a=True, b=-5, c=True, d="-n", e=-0.5, f=True)
    assert {k: found[k] for k in "ghi"} == {"g": False, "h": True, "i": False}


def test_arguments_of_the_environment_on_the_command_line_win(tmp_path, capsys):
    save_run(tmp_path / "run", make_env("Pendulum-v1", {"g": 3.5}, max_episode_steps=17))
    run = str(tmp_path / "run")
    made, _ = loading.load_policy_and_env(run, env_kwargs={"g": 1.0})
    assert made.unwrapped.g == 1.0 and made._max_episode_steps == 17
    args = [run, "-nr", "-n", "1", "--env_kwargs:max_episode_steps", "4"]
    assert play_command(args) == 0 and "EpLen 4" in capsys.readouterr().out
    assert play_command([*args, "--env_kwargs:g=-1.5", "--env", "Pendulum-v1"]) == 0


def test_naming_the_environment_of_a_run_keeps_what_it_recorded(tmp_path):
    env = make_env("Pendulum-v1", {"g": 3.5}, max_episode_steps=17)
    save_run(tmp_path / "run", gym.wrappers.RescaleObservation(env, np.float32(-1), np.float32(1)))
    made, _ = loading.load_policy_and_env(tmp_path / "run", env="Pendulum-v1")
    assert made.unwrapped.g == 3.5 and made.spec.max_episode_steps == 17
    assert made.observation_space.high.max() == 1  # the wrapper is there
    more = {"g": 1.0, "max_episode_steps": 4}
    made, _ = loading.load_policy_and_env(tmp_path / "run", env="Pendulum-v1", env_kwargs=more)
    assert made.unwrapped.g == 1.0 and made.spec.max_episode_steps == 4
    bare = loading.load_policy_and_env(tmp_path / "run", env=lambda: gym.make("Pendulum-v1"))[0]
    assert bare.unwrapped.g == 10


def test_a_window_is_opened_also_where_observations_are_converted(monkeypatch):
    monkeypatch.setattr(tp, "has_display", lambda: True)
    pytest.importorskip("pygame")
    env = adapt_env(gym.make("FrozenLake-v1"))
    seen = []
    tp.run_policy(env, lambda o: seen.append(o) or 0, max_ep_len=2, num_episodes=1)
    assert seen[0].shape == (16,)


@pytest.mark.parametrize(
    ("package", "env_id", "kwargs"),
    [
        ("minatar", "MinAtar/Breakout-v1", {}),
        ("ale_py", "ALE/Pong-v5", {}),
        ("ale_py", "ALE/Pong-v5", {"preprocessing": False}),
    ],
)
def test_a_window_is_opened_for_games_that_only_return_pictures(
    package, env_id, kwargs, monkeypatch, capsys
):
    pytest.importorskip(package)
    pytest.importorskip("pygame")
    monkeypatch.setattr(tp, "has_display", lambda: True)
    env = make_env(env_id, kwargs)
    made = []
    real = gym.make
    monkeypatch.setattr(gym, "make", lambda *a, **k: made.append(real(*a, **k)) or made[-1])
    tp.run_policy(env, lambda o: 0, max_ep_len=2, num_episodes=1)
    assert [m.render_mode for m in made] == ["human"] and "window" not in capsys.readouterr().err


def test_a_game_of_ale_py_itself_is_not_preprocessed_when_it_is_played(tmp_path):
    pytest.importorskip("ale_py")
    save_run(tmp_path / "run", gym.make("ALE/Pong-v5"))
    for named in (None, "ALE/Pong-v5"):
        env, get_action = loading.load_policy_and_env(tmp_path / "run", env=named)
        assert env.observation_space.shape == (210, 160, 3)
        get_action(env.reset(seed=0)[0])


@pytest.mark.parametrize("mode", ["vector_entry_point", "sync"])
def test_a_policy_of_several_environments_is_played_in_one(mode, tmp_path):
    def train(num_envs, **more):
        spinup.reinforce_pytorch(
            lambda: gym.make_vec("CartPole-v1", num_envs, vectorization_mode=mode),
            ac_kwargs={"hidden_sizes": (8,)},
            steps_per_epoch=60,
            logger_kwargs={"output_dir": str(tmp_path / "run"), "quiet": True},
            **more,
        )

    train(2, epochs=1)
    for named in (None, "CartPole-v1"):
        env, get_action = loading.load_policy_and_env(tmp_path / "run", env=named)
        assert env.action_space.contains(get_action(env.reset(seed=0)[0]))
    # the run itself keeps its number of environments
    said = {"sync": r"restore it from a backup", "vector_entry_point": r"environment differs"}
    with pytest.raises(SpinupError, match=said[mode]):
        train(3, epochs=2, resume=True)


def test_a_game_that_ends_by_itself_has_a_limit_of_its_own(tmp_path, capsys):
    pytest.importorskip("minatar")
    save_run(tmp_path / "run", make_env("MinAtar/Freeway-v1"), max_ep_len=2501)
    assert play_command([str(tmp_path / "run"), "-nr", "-n", "1"]) == 0
    assert "time limit" not in capsys.readouterr().err


# -------------------------------------------------------------------------------------- speed


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Hopper-v5"])
@pytest.mark.parametrize("deterministic", [True, False])
def test_get_action_costs_microseconds(runs, env_id, deterministic):
    run, _ = runs("ppo", env_id, ac_kwargs={"hidden_sizes": (64, 64)})
    env, get_action = loading.load_policy_and_env(run, deterministic=deterministic)
    o, _ = env.reset(seed=0)
    seconds = min(timeit.repeat(lambda: get_action(o), number=200, repeat=20)) / 200
    # The goal is 40, and 5 to 9 is what benchmarks/get_action.py measures; the rest is for busy
    # machines. Through torch it takes more than 100.
    assert seconds < 80e-6


# --------------------------------------------------------------------- malformed command lines

HELP = "; 'spinup test_policy --help' explains the arguments"
PICKLE = (
    " is a pickle, which can run any program when it is opened: if you trust its author, pass "
    "trust_pickle=True (--trust-pickle)"
)
NO_NAME = " does not name an argument of the environment: write --env_kwargs:name VALUE"
MALFORMED = [
    ("", "the following arguments are required: RUN" + HELP),
    ("nowhere", "nowhere is not a folder: pass the run directory of a trained policy"),
    ("RUN RUN", "unrecognized arguments: RUN" + HELP),
    ("RUN --determinstic", "there is no argument --determinstic; did you mean --deterministic?"),
    ("RUN --rneder", "there is no argument --rneder; did you mean --norender?"),
    ("RUN --zzzzzz=3", "there is no argument --zzzzzz" + HELP),
    ("RUN -q", "there is no argument -q" + HELP),
    ("RUN -n", "argument -n/--episodes: expected one argument" + HELP),
    ("RUN -n two", "argument -n/--episodes: 'two' is not a whole number of at least 1" + HELP),
    ("RUN -n 0", "argument -n/--episodes: '0' is not a whole number of at least 1" + HELP),
    ("RUN -n 1.5", "argument -n/--episodes: '1.5' is not a whole number of at least 1" + HELP),
    ("RUN -l -4", "argument -l/--len: '-4' is not a whole number of at least 0" + HELP),
    ("RUN -l long", "argument -l/--len: 'long' is not a whole number of at least 0" + HELP),
    ("RUN --seed -1", "argument --seed: '-1' is not a whole number of at least 0" + HELP),
    ("RUN -i worst", "argument -i/--itr: 'worst' is not a whole number of at least -1" + HELP),
    ("RUN -i -2", "argument -i/--itr: '-2' is not a whole number of at least -1" + HELP),
    ("RUN -i 99", "RUN has no save number 99: choose from the last one (-1)"),
    (
        "RUN --deterministic=yes",
        "argument -d/--deterministic: ignored explicit argument 'yes'" + HELP,
    ),
    ("RUN --video a.webm", "a clip must be a .gif or an .mp4, not a.webm: change the extension"),
    ("RUN --video clip", "a clip must be a .gif or an .mp4, not clip: change the extension"),
    ("RUN --env", "argument --env: expected one argument" + HELP),
    (
        "RUN --env MountainCar-v0",
        "the policy was trained with the observation space Box([-4.8 -inf -0.41887903 -inf], [4.8 "
        "inf 0.41887903 inf], (4,), float32), but this environment has Box([-1.2 -0.07], [0.6 "
        "0.07], (2,), float32): pass its training environment with env=... (--env)",
    ),
    (
        "RUN --env CartPoel-v1",
        "there is no environment 'CartPoel-v1': ids of other packages are written module:Name-v0, "
        "and gymnasium.pprint_registry() lists those that are registered; did you mean "
        "CartPole-v1?",
    ),
    (
        "RUN --env no_such:X-v0",
        "no_such:X-v0 cannot be made because there is no module 'no_such' on the path: install it, "
        "or run where it can be imported",
    ),
    ("RUN --env_kwargs g", "'--env_kwargs'" + NO_NAME),
    ("RUN --env_kwargs:1 g", "'--env_kwargs:1'" + NO_NAME),
    (
        "RUN --env_kwargs:gg 3",
        "CartPole-v1 has no argument 'gg' (it takes render_mode, sutton_barto_reward): correct "
        "env_kwargs",
    ),
    (
        "RUN --env_kwargs:max_episode_steps 0",
        "max_episode_steps must be a positive integer (or -1 for none), not 0",
    ),
    ("EMPTY", "EMPTY contains no saved policy: pass the run directory of a trained policy"),
    ("TF", "TF/tf1_save contains neither policy.json nor saved_model.pb: use another save"),
    ("PICKLED", "PICKLED/model.pt" + PICKLE),
]


@pytest.mark.parametrize("line, sentence", MALFORMED, ids=[line or "-" for line, _ in MALFORMED])
def test_malformed_command_lines(cartpole_run, tmp_path, monkeypatch, capsys, line, sentence):
    monkeypatch.chdir(tmp_path)
    cartpole_run[0].rename("RUN")
    for folder in ("EMPTY", "TF/tf1_save", "PICKLED"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "PICKLED" / "model.pt").write_bytes(b"never opened")
    assert play_command([*line.split(), "-nr"] if line else []) == 2
    out, err = capsys.readouterr()
    assert (err, out) == (f"spinup: {sentence}\n", "")


# ------------------------------------------------------------- runs of the original Spinning Up

# The classes of the original, as far as a pickle of them shows: names, attributes, nothing later.
ORIGINAL = """
import json, pickle, sys, types
import numpy as np, torch
from torch import nn

def mlp(sizes, act, out=nn.Identity):
    layers = []
    for j in range(len(sizes) - 1):
        layers += [nn.Linear(sizes[j], sizes[j + 1]), act() if j < len(sizes) - 2 else out()]
    return nn.Sequential(*layers)

def core(algo):
    parents = ["spinup", "spinup.algos", "spinup.algos.pytorch", f"spinup.algos.pytorch.{algo}"]
    for name in parents:
        sys.modules.setdefault(name, types.ModuleType(name))
    module = types.ModuleType(f"spinup.algos.pytorch.{algo}.core")
    sys.modules[module.__name__] = module

    def cls(name):
        made = type(name, (nn.Module,), {"__module__": module.__name__})
        setattr(module, name, made)
        return made

    return cls

def build(algo, discrete):
    cls = core(algo)
    obs, act = (4, 2) if discrete else (3, 1)
    ac = cls("MLPActorCritic")()
    if algo in ("ppo", "vpg"):
        pi = cls("MLPCategoricalActor" if discrete else "MLPGaussianActor")()
        if discrete:
            pi.logits_net = mlp([obs, 8, 8, act], nn.Tanh)
        else:
            pi.log_std = nn.Parameter(torch.as_tensor(-0.5 * np.ones(act, dtype=np.float32)))
            pi.mu_net = mlp([obs, 8, 8, act], nn.Tanh)
        ac.pi, ac.v = pi, cls("MLPCritic")()
        ac.v.v_net = mlp([obs, 8, 8, 1], nn.Tanh)
        return ac
    q = cls("MLPQFunction")
    if algo == "sac":
        ac.pi = cls("SquashedGaussianMLPActor")()
        ac.pi.net = mlp([obs, 8, 8], nn.ReLU, nn.ReLU)
        ac.pi.mu_layer, ac.pi.log_std_layer = nn.Linear(8, act), nn.Linear(8, act)
    else:
        ac.pi = cls("MLPActor")()
        ac.pi.pi = mlp([obs, 8, 8, act], nn.ReLU, nn.Tanh)
    ac.pi.act_limit = np.float32(2.0)  # action_space.high[0]
    for name in ("q",) if algo == "ddpg" else ("q1", "q2"):
        setattr(ac, name, q())
        getattr(ac, name).q = mlp([obs + act, 8, 8, 1], nn.ReLU)
    return ac

def gym_env():
    gym = types.ModuleType("gym")
    gym.Env = type("Env", (), {"__module__": "gym"})
    sys.modules["gym"] = gym
    return gym.Env()

for i, (algo, discrete) in enumerate(json.loads(sys.argv[2])):
    torch.manual_seed(1)
    ac = build(algo, discrete)
    folder = f"{sys.argv[1]}/{algo}{discrete}"
    torch.save(ac, f"{folder}/pyt_save/model.pt", _use_new_zipfile_serialization=i % 2 == 0)
    torch.save(ac, f"{folder}/pyt_save/model10.pt")
    with open(f"{folder}/vars.pkl", "wb") as file:
        pickle.dump({"env": gym_env()}, file)
    torch.save(dict(ac.state_dict()), f"{folder}/weights.pt")
"""


@pytest.fixture(scope="module")
def original_runs(tmp_path_factory):
    """Run directories as the original Spinning Up leaves them, made in a process without ours."""
    root = tmp_path_factory.mktemp("original")
    program = root / "original.py"
    program.write_text(ORIGINAL)
    made = {}
    for algo, discrete in ORIGINALS:
        folder = made[algo, discrete] = root / f"{algo}{discrete}"
        (folder / "pyt_save").mkdir(parents=True)
        (folder / "config.json").write_text('{"exp_name": "old"}')
        (folder / "progress.txt").write_text("Epoch\tAverageEpRet\n0\t1.0\n")
    command = [sys.executable, "-I", str(program), str(root), json.dumps(ORIGINALS)]
    subprocess.run(command, check=True, timeout=120)
    return made


ORIGINALS = [("ppo", True), ("vpg", False), ("ddpg", False), ("td3", False), ("sac", False)]


@pytest.mark.parametrize("algo, discrete", ORIGINALS)
def test_runs_of_the_original_open_behind_the_opt_in(original_runs, algo, discrete, capsys):
    run = original_runs[algo, discrete]
    env_id = "CartPole-v1" if discrete else "Pendulum-v1"
    path = run / "pyt_save" / "model10.pt"
    with pytest.raises(SpinupError) as error:
        loading.load_policy_and_env(run, env=env_id)
    assert str(error.value) == (
        f"{path} is a pickle, which can run any program when it is opened: if you trust its "
        "author, pass trust_pickle=True (--trust-pickle)"
    )
    # The environment in vars.pkl is of a package that is not installed.
    with no_env(r"No module named 'gym'.*pass one with env=\.\.\. \(--"):
        env, get_action = loading.load_policy_and_env(run, trust_pickle=True)
    assert env is None and np.isfinite(get_action(OBS[0][: 4 if discrete else 3])).all()

    env, get_action = loading.load_policy_and_env(run, "last", True, env=env_id, trust_pickle=True)
    weights = torch.load(run / "weights.pt", weights_only=True)
    for _ in range(20):
        o = env.observation_space.sample() if not discrete else OBS[_]
        np.testing.assert_allclose(get_action(o), by_hand(algo, weights, o), atol=1e-5)
        assert env.action_space.contains(get_action(o))
    sampled = loading.load_policy_and_env(run, env=env_id, trust_pickle=True, seed=0)[1]
    different = {np.asarray(sampled(OBS[0][: len(o)] / 9)).tobytes() for _ in range(30)}
    assert len(different) > 1 or algo in ("ddpg", "td3")
    args = [str(run), "-nr", "-n", "1", "-l", "5", "--env", env_id]
    assert play_command([*args, "--trust-pickle", "-i", "10"]) == 0
    assert play_command([*args, "--trust-pickle", "-i", "3"]) == 2
    said = capsys.readouterr()
    assert said.err.endswith("has no save number 3: choose from 10, the last one (-1)\n")


@pytest.mark.parametrize("algo, discrete", ORIGINALS)
def test_modules_of_the_original_act_when_user_code_opens_them_itself(
    original_runs, algo, discrete
):
    folder = original_runs[algo, discrete]
    ac = torch.load(folder / "pyt_save" / "model.pt", weights_only=False)
    weights = torch.load(folder / "weights.pt", weights_only=True)
    o = torch.as_tensor(OBS[0][: 4 if discrete else 3] / 9)
    if algo in ("ppo", "vpg"):
        a, v, logp = ac.step(o)
        pi, logp_again = ac.pi(o[None], torch.as_tensor(a)[None])
        assert v.shape == logp.shape == () and logp_again.item() == pytest.approx(logp.item())
        assert ac.v(o[None]).item() == pytest.approx(v.item())
        mode = pi.logits.argmax(-1)[0].item() if discrete else pi.mean[0].detach().clamp(-2, 2)
        np.testing.assert_allclose(mode, by_hand(algo, weights, o), atol=1e-5)
    else:
        a = ac.act(o, True) if algo == "sac" else ac.act(o)
        np.testing.assert_allclose(a, by_hand(algo, weights, o), atol=1e-5)
        q = ac.q if algo == "ddpg" else ac.q1
        assert q(o[None], torch.as_tensor(a)[None]).shape == (1,)
    again = copy.deepcopy(ac)  # and what was filled in survives being copied
    assert again.state_dict().keys() == ac.state_dict().keys()


def by_hand(algo, weights, o):
    """The deterministic action of the original, from the numbers alone."""
    layers = {"ppo": "pi.logits_net", "vpg": "pi.mu_net", "sac": "pi.net"}.get(algo, "pi.pi")
    act = torch.tanh if algo in ("ppo", "vpg") else torch.relu
    x = torch.as_tensor(np.asarray(o, dtype=np.float32))
    for i in (0, 2, 4):
        name = "pi.mu_layer" if algo == "sac" and i == 4 else f"{layers}.{i}"
        x = weights[f"{name}.weight"] @ x + weights[f"{name}.bias"]
        x = act(x) if i < 4 else x
    if algo == "ppo":
        return int(x.argmax())
    return (2 * torch.tanh(x)).numpy() if algo != "vpg" else x.clamp(-2, 2).numpy()


def test_a_pickle_of_classes_that_are_not_here_is_one_sentence(tmp_path):
    module = types.ModuleType("gone_module")
    module.Net = type("Net", (torch.nn.Linear,), {"__module__": "gone_module"})
    sys.modules["gone_module"] = module
    try:
        torch.save(module.Net(2, 2), tmp_path / "model.pt")
    finally:
        del sys.modules["gone_module"]
    with pytest.raises(SpinupError, match=r"cannot be opened .*gone_module.*: make its"):
        loading.load_policy_and_env(tmp_path, trust_pickle=True)

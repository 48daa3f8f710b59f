"""Nothing is executed from a run's files, unless its user says that they may be trusted."""

import functools
import json
import pickle
import sys
import types

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

import spinup
from spinup.algos.pytorch.common import nets
from spinup.cli.test_policy import main as play_command
from spinup.envs import env_record, make_env
from spinup.policies import loading
from spinup.policies import play as tp
from spinup.runs.logger import Logger
from spinup.utils.errors import SpinupError
from spinup.utils.files import self_hash
from tests.helpers.saved_policies import OBS, no_env, save_run


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

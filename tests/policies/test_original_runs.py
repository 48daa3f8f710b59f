"""Runs of the original Spinning Up are pickles: they open behind the opt-in."""

import copy
import json
import sys
import types

import numpy as np
import pytest
import torch

from spinup.cli.test_policy import main as play_command
from spinup.policies import loading
from spinup.utils.errors import SpinupError
from tests.helpers.processes import run_python
from tests.helpers.saved_policies import OBS, no_env

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
    run_python("-I", program, root, json.dumps(ORIGINALS))
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

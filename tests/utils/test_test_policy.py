"""Replaying policies: the same network and environment, and nothing executed from a file."""

import json
import os
import pickle
import re
import sys

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from spinup.algos.pytorch.common import nets
from spinup.envs import adapt_env, env_record, make_env, space_to_json
from spinup.utils import test_policy as tp
from spinup.utils.errors import SpinupError
from spinup.utils.logx import Logger


def save_run(folder, env, /, seed=0, itr=None, cls=nets.MLPActorCritic, **changes):
    """A run directory with a policy as the algorithms save it; `changes` go into its JSON."""
    env = adapt_env(env)
    torch.manual_seed(seed)
    ac = cls(env.observation_space, env.action_space, hidden_sizes=(8,))
    meta = {
        "algo": "ppo",
        "backend": "pytorch",
        "observation_space": space_to_json(env.observation_space),
        "action_space": space_to_json(env.action_space),
        "ac_kwargs": {"hidden_sizes": [8]},
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


OBS = np.random.default_rng(3).normal(scale=5, size=(40, 4)).astype(np.float32)


# -------------------------------------------------------------------------------------- loading


def test_the_loaded_policy_is_the_saved_network(cartpole_run):
    run, ac = cartpole_run
    env, get_action = tp.load_policy_and_env(run, deterministic=True)
    assert env.spec.id == "CartPole-v1"
    with torch.no_grad():
        wanted = ac.pi._distribution(torch.as_tensor(OBS)).logits.argmax(-1).tolist()
    assert len(set(wanted)) == 2  # else any constant policy would pass
    assert [int(get_action(o)) for o in OBS] == wanted
    env.close()


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_pitfall_33_deterministic_is_deterministic(tmp_path, env_id):
    env = make_env(env_id)
    save_run(tmp_path / "run", env)
    obs = [env.observation_space.sample() for _ in range(20)]
    env.close()
    act = lambda deterministic, seed: [  # noqa: E731
        np.asarray(get(o)).tolist()
        for get in [tp.load_pytorch_policy(tmp_path / "run", "last", deterministic, seed=seed)]
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
        get_action = tp.load_pytorch_policy(tmp_path / "run", itr, True)
        with torch.no_grad():
            wanted = ac.pi._distribution(torch.as_tensor(OBS)).logits.argmax(-1).tolist()
        return [int(get_action(o)) for o in OBS] == wanted

    assert same_as(acs[3], 3) and same_as(acs[3], "3") and same_as(acs[20], 20)
    assert not same_as(acs[3], 20)
    for last in ("last", -1, "", None):
        assert same_as(acs[20], last)
    with pytest.raises(SpinupError):
        tp.load_pytorch_policy(tmp_path / "run", 7)
    with pytest.raises(SpinupError, match="number of a save"):
        tp.load_pytorch_policy(tmp_path / "run", "best")


def test_arguments_of_the_environment_and_its_time_limit_come_back(tmp_path):
    env = make_env("Pendulum-v1", {"g": 3.5}, max_episode_steps=17)
    save_run(tmp_path / "run", env)
    made, get_action = tp.load_policy_and_env(tmp_path / "run")
    assert made.unwrapped.g == 3.5
    result = tp.run_policy(made, get_action, num_episodes=1, render=False)
    assert result["EpLen"] == [17]


def test_the_callers_environment_wins(cartpole_run):
    run, _ = cartpole_run
    mine = gym.make("CartPole-v1", max_episode_steps=5)
    assert tp.load_policy_and_env(run, env=mine)[0] is mine
    assert tp.load_policy_and_env(run, env=lambda: mine)[0] is mine
    made, _ = tp.load_policy_and_env(run, env="CartPole-v0")
    assert made.spec.id.startswith("CartPole")


def test_an_environment_that_does_not_fit_is_refused(cartpole_run):
    run, _ = cartpole_run
    with pytest.raises(SpinupError, match="observation space"):
        tp.load_policy_and_env(run, env="Acrobot-v1")


def test_wrappers_that_cannot_be_rebuilt_are_named(tmp_path):
    env = gym.wrappers.NormalizeObservation(gym.make("CartPole-v1"))
    save_run(tmp_path / "run", env)
    with pytest.warns(UserWarning, match="NormalizeObservation"):
        tp.load_policy_and_env(tmp_path / "run")


def test_tensorflow_runs_are_named_as_such(tmp_path):
    (tmp_path / "tf1_save").mkdir()
    for load in (tp.load_policy_and_env, tp.load_tf_policy):
        with pytest.raises(SpinupError, match="TensorFlow backend, which is not part"):
            load(tmp_path)


def test_what_is_no_run_is_one_clear_sentence(tmp_path):
    with pytest.raises(SpinupError, match="not a folder"):
        tp.load_policy_and_env(tmp_path / "nowhere")
    with pytest.raises(SpinupError, match="holds no saved policy"):
        tp.load_policy_and_env(tmp_path)
    with pytest.raises(SpinupError, match="True or False"):
        tp.load_policy_and_env(tmp_path, deterministic="no")


# --------------------------------------------------------------------------- nothing is executed


@pytest.mark.parametrize("name", ["policy.json", "policy.safetensors", "model.pt", "vars.pkl"])
def test_a_malicious_pickle_in_place_of_any_file_is_not_executed(cartpole_run, bomb, name):
    run, _ = cartpole_run
    payload, trace = bomb
    path = run / name if name == "vars.pkl" else run / "pyt_save" / name
    path.write_bytes(pickle.dumps(payload))
    if name.startswith("policy"):
        with pytest.raises(SpinupError):
            tp.load_policy_and_env(run)
    else:
        tp.load_policy_and_env(run)[0].close()  # these files are not even opened
    assert not trace.exists()


def test_a_run_of_pickles_alone_is_refused_unopened(tmp_path, bomb):
    payload, trace = bomb
    run = tmp_path / "run"
    (run / "pyt_save").mkdir(parents=True)
    torch.save(payload, run / "pyt_save" / "model.pt")
    (run / "vars.pkl").write_bytes(pickle.dumps({"env": payload}))
    for load in (tp.load_policy_and_env, tp.load_pytorch_policy):
        with pytest.raises(SpinupError, match="trust_pickle=True"):
            load(run)
    assert tp.main([str(run), "-nr"]) == 2
    assert not trace.exists()
    # The bomb does go off when it is trusted: the tests above do not pass for want of powder.
    with pytest.raises(SpinupError, match="not a policy"):
        tp.load_policy_and_env(run, trust_pickle=True)
    assert trace.exists()


def test_pickled_runs_work_with_the_opt_in(tmp_path):
    env = gym.make("CartPole-v1")
    ac = save_run(tmp_path / "run", env)
    for path in (tmp_path / "run" / "pyt_save").glob("policy*"):
        path.unlink()
    (tmp_path / "run" / "vars.pkl").write_bytes(pickle.dumps({"env": env}))
    _, get_action = tp.load_policy_and_env(tmp_path / "run", deterministic=True, trust_pickle=True)
    with torch.no_grad():
        wanted = ac.pi._distribution(torch.as_tensor(OBS)).logits.argmax(-1).tolist()
    assert [int(get_action(o)) for o in OBS] == wanted
    (tmp_path / "run" / "vars.pkl").unlink()
    with pytest.raises(SpinupError, match="env="):
        tp.load_policy_and_env(tmp_path / "run", trust_pickle=True)
    made, _ = tp.load_policy_and_env(tmp_path / "run", env="CartPole-v1", trust_pickle=True)
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
        tp.load_policy_and_env(tmp_path / "run")  # a record of what was asked for, not used
    else:
        with pytest.raises(SpinupError, match="import evil_module"):
            tp.load_policy_and_env(tmp_path / "run")
    assert not trace.exists()
    if place != "requested_id":
        tp.load_policy_and_env(tmp_path / "run", trust_pickle=True)
        assert trace.exists()


def test_an_id_that_makes_another_id_does_not_import_its_module(tmp_path, monkeypatch):
    trace = evil_module(tmp_path, monkeypatch)
    record = env_record(make_env("CartPole-v1"))
    record.update(id="GymV26Environment-v0", kwargs={"env_id": "evil_module:CartPole-v1"})
    save_run(tmp_path / "run", make_env("CartPole-v1"), env=record)
    with pytest.raises(SpinupError):
        tp.load_policy_and_env(tmp_path / "run")
    assert not trace.exists()


def test_a_class_named_in_the_file_is_imported_only_with_the_opt_in(tmp_path, monkeypatch):
    trace = evil_module(tmp_path, monkeypatch)
    save_run(tmp_path / "run", make_env("CartPole-v1"))
    path = tmp_path / "run" / "pyt_save" / "policy.json"
    meta = json.loads(path.read_text())
    meta["class"] = {"module": "evil_module", "qualname": "Net"}
    path.write_text(json.dumps(meta))
    with pytest.raises(SpinupError, match="evil_module"):
        tp.load_policy_and_env(tmp_path / "run")
    assert not trace.exists()
    tp.load_policy_and_env(tmp_path / "run", trust_pickle=True)
    assert trace.exists()


class Mine(nets.MLPActorCritic):
    """A user's own class: not in the library, so never built from a file alone."""


def test_the_callers_class_is_used_without_an_import(tmp_path):
    save_run(tmp_path / "run", make_env("CartPole-v1"), cls=Mine)
    with pytest.raises(SpinupError, match="actor_critic"):
        tp.load_policy_and_env(tmp_path / "run")
    _, get_action = tp.load_policy_and_env(tmp_path / "run", actor_critic=Mine)
    assert get_action(OBS[0]) in (0, 1)


@pytest.mark.parametrize(
    "record", [None, {}, {"id": 5}, {"id": None}, {"id": "CartPole-v1", "exact_kwargs": False}]
)
def test_an_environment_that_cannot_be_rebuilt_asks_for_one(tmp_path, record):
    save_run(tmp_path / "run", make_env("CartPole-v1"), env=record)
    with pytest.raises(SpinupError, match="env="):
        tp.load_policy_and_env(tmp_path / "run")
    assert tp.load_policy_and_env(tmp_path / "run", env="CartPole-v1")[0].spec.id == "CartPole-v1"


def test_a_policy_saved_without_its_spaces_says_how_to_save_it(tmp_path):
    logger = Logger(output_dir=str(tmp_path / "run"), quiet=True)
    logger.setup_pytorch_saver(torch.nn.Linear(2, 2))
    logger.save_state({}, None)
    logger.close()
    with pytest.raises(SpinupError, match="policy_meta"):
        tp.load_policy_and_env(tmp_path / "run")


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
        assert tp.main(args) == 0
        outs.append(capsys.readouterr().out)
    assert outs[0] == outs[1] and outs[0].count("Episode ") == 4
    assert tp.main([*args[:-1], "6"]) == 0
    assert capsys.readouterr().out != outs[0]


def test_main_records_a_clip(cartpole_run, tmp_path, capsys):
    run, _ = cartpole_run
    clip = tmp_path / "clip.gif"
    assert tp.main([str(run), "-d", "-l", "6", "--seed", "0", "--video", str(clip)]) == 0
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
    assert tp.main([str(tmp_path / "nowhere")]) == 2
    err = capsys.readouterr().err
    assert err.startswith("spinup: ") and err.count("\n") == 1 and "Traceback" not in err

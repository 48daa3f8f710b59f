"""Playing policies: what is run, measured and shown, from Python and from the command line."""

import re
import time
import timeit

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from spinup.cli.test_policy import main as play_command
from spinup.policies import loading, video
from spinup.policies import play as tp
from spinup.utils.errors import SpinupError
from tests.helpers.saved_policies import save_run

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


# -------------------------------------------------------------------------------------- speed


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Hopper-v5"])
@pytest.mark.parametrize("deterministic", [True, False])
def test_get_action_costs_microseconds(runs, env_id, deterministic):
    run, _ = runs("ppo", env_id, ac_kwargs={"hidden_sizes": (64, 64)})
    env, get_action = loading.load_policy_and_env(run, deterministic=deterministic)
    o, _ = env.reset(seed=0)
    seconds = (
        min(timeit.repeat(lambda: get_action(o), number=200, repeat=20, timer=time.process_time))
        / 200
    )
    # The goal is 40, and 5 to 9 is what benchmarks/get_action.py measures; the rest is for slow
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

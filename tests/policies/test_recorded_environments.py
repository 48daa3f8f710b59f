"""The environment that a run recorded comes back: wrappers, arguments, limits and windows."""

import sys
import types
import warnings

import gymnasium as gym
import numpy as np
import pytest

import spinup
from spinup.cli.test_policy import main as play_command
from spinup.cli.test_policy import take_env_kwargs
from spinup.envs import adapt_env, env_record, make_env
from spinup.envs.record import wrapper_records
from spinup.policies import loading
from spinup.policies import play as tp
from spinup.utils.errors import SpinupError
from tests.helpers.saved_policies import no_env, save_run


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

"""MinAtar's games: seeds, exact restoring, pictures, and what to install."""

import json
import sys

import gymnasium
import numpy as np
import pytest

from spinup.envs import env_record, make_env
from spinup.envs.checking import examine
from spinup.envs.make_streams import make_streams
from spinup.envs.spaces import is_image
from spinup.utils.errors import SpinupError

pytest.importorskip("minatar", reason="needs the extra 'minatar'")
GAMES = ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")


def play(env, seed, actions):
    seen = [env.reset(seed=seed)[0]]
    for a in actions:
        o, r, terminated, _, _ = env.step(a)
        seen.append(np.append(o.ravel(), [r, terminated]))
        if terminated:
            break
    return [np.asarray(x, float).tobytes() for x in seen]


@pytest.mark.parametrize("game", GAMES)
def test_an_episode_follows_from_its_seed_and_actions(game):
    env = make_env(f"MinAtar/{game}-v1")
    assert is_image(env.observation_space) and env.observation_space.dtype == bool
    actions = np.random.default_rng(0).integers(env.action_space.n, size=200)
    first = play(env, 3, actions)
    # after another game that ended with another action, too: actions are sticky
    for seed in range(5):
        play(env, seed, actions[::-1])
        env.unwrapped.game.last_action = 1
        assert play(env, 3, actions) == first
    assert play(env, 4, actions) != first


def test_the_first_action_of_a_game_is_never_the_last_of_the_previous_one():
    env = make_env("MinAtar/Breakout-v1", {"sticky_action_prob": 1.0})
    for _ in range(2):
        env.reset(seed=0)
        assert env.unwrapped.game.last_action == 0
        env.unwrapped.game.last_action = 1


@pytest.mark.parametrize("game", ["Breakout", "Seaquest"])
def test_streams_continue_bit_for_bit(game):
    def streams():
        return make_streams(
            lambda: make_env(f"MinAtar/{game}-v1"),
            3,
            lambda i: np.random.SeedSequence(5, spawn_key=(i,)),
            1000,
        )

    rng = np.random.default_rng(1)
    one = streams()
    one.start()
    actions = rng.integers(one.action_space.n, size=(300, 3))
    for a in actions[:200]:
        one.step(a)
    two = streams()
    assert two.load_state_dict(one.state_dict()) == []
    for a in actions[200:]:
        for x, y in zip(one.step(a), two.step(a), strict=True):
            assert np.array_equal(x, y)
    assert one.finished[-1] == two.finished[-1]


def test_frames_are_pictures():
    env = make_env("MinAtar/Breakout-v1", render_mode="rgb_array")
    env.reset(seed=0)
    frame = env.render()
    assert frame.dtype == np.uint8 and frame.shape == (320, 320, 3)
    colors = {tuple(c) for c in frame.reshape(-1, 3).tolist()}
    assert len(colors) >= 3 and (0, 0, 0) in colors  # empty cells, bricks, paddle
    state = env.unwrapped.game.state()
    assert (frame[::32, ::32].any(axis=2) == state.any(axis=2)).all()


def test_the_packages_own_registration_is_replaced():
    from minatar.gym import register_envs

    mine = {k: s for k, s in gymnasium.registry.items() if k.startswith("MinAtar/")}
    assert len(mine) == 10
    for env_id in mine:
        del gymnasium.registry[env_id]
    try:
        register_envs()
        env = make_env("MinAtar/Breakout-v1")
        assert type(env.unwrapped).__module__ == "spinup.envs.minatar"
        assert env_record(env)["kwargs"] == {"game": "breakout", "use_minimal_action_set": True}
        assert "minatar.gym" in str(gymnasium.spec("MinAtar/Breakout-v1").entry_point)
    finally:
        gymnasium.registry.update(mine)


def test_an_unknown_game_gets_one_sentence():
    with pytest.raises(SpinupError, match="no game 'pong': it has asterix"):
        make_env("MinAtar/Breakout-v1", {"game": "pong"})


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"sticky_action_prob": 5}, "sticky_action_prob must be a number from 0 to 1, not 5"),
        ({"difficulty_ramping": "no"}, "difficulty_ramping must be true or false, not 'no'"),
    ],
)
def test_a_wrong_argument_gets_one_sentence(kwargs, words):
    with pytest.raises(SpinupError, match=words):
        make_env("MinAtar/Breakout-v1", kwargs)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.delitem(sys.modules, "spinup.envs.minatar", raising=False)
    monkeypatch.setitem(sys.modules, "minatar", None)
    with pytest.raises(SpinupError, match=r"needs minatar.*pip install 'spinup\[minatar\]'"):
        make_env("MinAtar/Breakout-v1")


def test_the_checker_finds_no_fault():
    assert [f.what for f in examine("MinAtar/Breakout-v1", steps=300).findings if f.serious] == []


def test_a_game_of_freeway_is_not_truncated_by_default():
    env = make_env("MinAtar/Freeway-v1")
    limit = env_record(env)["max_ep_len"]
    env.reset(seed=0)
    ends = [t for t in range(1, limit + 1) if env.step(0)[2]]
    assert ends == [limit]
    assert "max_ep_len" not in env_record(make_env("MinAtar/Breakout-v1"))


@pytest.mark.parametrize("given", [None, 40])
def test_a_run_uses_the_length_of_the_game_and_says_so(given, tmp_path, capsys):
    from spinup import vpg_pytorch

    vpg_pytorch(
        "MinAtar/Freeway-v1",
        steps_per_epoch=60,
        epochs=1,
        train_v_iters=1,
        logger_kwargs={"output_dir": str(tmp_path)},
        **({} if given is None else {"max_ep_len": given}),
    )
    config = json.loads((tmp_path / "config.json").read_text())
    out = capsys.readouterr().out
    if given is None:
        assert config["max_ep_len"] == 2501 and "up to 2,501 steps" in out
    else:
        assert config["max_ep_len"] == given and "unless max_ep_len" not in out

"""Atari games: preprocessing, records, streams for training, exact restoring, pictures."""

import os
import pickle
import sys
import warnings

import numpy as np
import pytest
from gymnasium.wrappers import ClipReward, RecordEpisodeStatistics

from spinup.envs import env_record, make_env
from spinup.envs.checking import examine
from spinup.envs.make_streams import make_streams, one_env
from spinup.envs.spaces import is_image
from spinup.envs.streams import Streams
from spinup.envs.vector import MaskedStreams
from spinup.parallel.launch import physical_cores
from spinup.utils.errors import SpinupError

pytest.importorskip("ale_py", reason="needs the extra 'atari'")
ID = "ALE/Breakout-v5"


def seq(i):
    return np.random.SeedSequence(7, spawn_key=(i,))


def streams_of(n=3, max_ep_len=27_000, env_id=ID, threads=1, **env_kwargs):
    return make_streams(lambda: make_env(env_id, env_kwargs), n, seq, max_ep_len, "sync", threads)


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def test_the_usual_preprocessing_is_the_default_and_recorded():
    env = make_env(ID)
    assert env.observation_space.shape == (4, 84, 84) and is_image(env.observation_space)
    assert env.observation_space.dtype == np.uint8 and env.action_space.n == 4
    record = env_record(env)
    wanted = {
        "game": "breakout",
        "repeat_action_probability": 0.25,
        "frameskip": 4,
        "stack_num": 4,
        "noop_max": 30,
        "reward_clipping": True,
        "episodic_life": True,
        "max_num_frames_per_episode": 108_000,
    }
    assert wanted.items() <= record["kwargs"].items() and record["exact_kwargs"]
    assert record["max_ep_len"] == 27_000 and record["id"] == ID
    again = make_env(ID, record["kwargs"])
    assert env_record(again)["kwargs"] == record["kwargs"]
    assert "cv2" not in sys.modules


def test_ids_without_frameskip_are_skipped_here():
    env = make_env("BreakoutNoFrameskip-v4")
    kwargs = env_record(env)["kwargs"]
    assert kwargs["frameskip"] == 4 and kwargs["repeat_action_probability"] == 0.0
    assert env.observation_space.shape == (4, 84, 84)


def test_preprocessing_can_be_switched_off():
    env = make_env(ID, {"preprocessing": False, "obs_type": "ram"})
    assert env.observation_space.shape == (128,)
    record = env_record(env)
    assert record["kwargs"]["preprocessing"] is False
    assert make_env(ID, record["kwargs"]).observation_space.shape == (128,)
    small = make_env(ID, {"stack_num": 2, "img_height": 42, "img_width": 40})
    assert small.observation_space.shape == (2, 42, 40) and small.unwrapped.frame_stack == 2


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"obs_type": "ram"}, "add preprocessing=False"),
        ({"frame_stack": 4}, r"no argument 'frame_stack'.*stack_num"),
        ({"stack_num": 0}, "from 1 to 1000, not 0"),
        ({"img_height": 10**6}, "from 1 to 1000"),
        ({"preprocessing": "no"}, "true or false"),
        ({"episodic_life": "false"}, "episodic_life must be true or false, not 'false'"),
        ({"repeat_action_probability": 2}, "from 0 to 1, not 2"),
        ({"game": "../pong"}, "no game"),
    ],
)
def test_a_wrong_argument_gets_one_sentence(kwargs, words):
    with pytest.raises(SpinupError, match=words):
        make_env(ID, kwargs)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.delitem(sys.modules, "spinup.envs.atari", raising=False)
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(SpinupError, match=r"needs ale_py.*pip install 'spinup\[atari\]'"):
        make_env(ID)


def test_one_environment_and_a_vector_see_the_same_bits():
    env = one_env(lambda: make_env(ID))
    streams = streams_of(2)
    streams.start()
    env.reset(seed=99)
    seed = streams._seeds[1]
    o = env.reset(seed=seed)[0]
    for a in np.random.default_rng(0).integers(4, size=1000):
        assert np.array_equal(o, streams.obs[1])
        o, r, terminated, _, info = env.step(a)
        _, rew, _, _ = streams.step(np.array([0, a]))
        assert (np.sign(r) == rew[1] and info["lives"] == streams._lives[1]) or terminated
        if terminated:
            break
    assert terminated


def test_training_clips_rewards_and_counts_true_scores():
    one = streams_of(2, env_id="ALE/SpaceInvaders-v5")
    two = streams_of(2, env_id="ALE/SpaceInvaders-v5", reward_clipping=False, episodic_life=False)
    for streams in (one, two):
        streams.start()
    clipped, true, ends = 0.0, 0.0, 0
    for a in np.random.default_rng(0).integers(6, size=(300, 2)):
        x, y = one.step(a), two.step(a)
        assert np.array_equal(np.sign(y[1]), x[1]) and np.array_equal(x[0], y[0])
        clipped, true, ends = clipped + x[1].sum(), true + y[1].sum(), ends + x[2].sum()
    assert true > clipped > 0
    assert one.finished == two.finished and one.finished
    assert ends > len(one.finished)  # lost lives
    assert sum(ret for ret, _ in one.finished) <= true


def test_a_lost_life_ends_the_episode_but_not_the_game():
    streams = streams_of(1)
    streams.start()
    lost = 0
    for _ in range(1000):
        obs, _, terminated, truncated = streams.step([0])
        assert not truncated.any() and streams.ended == np.flatnonzero(terminated).tolist()
        if terminated[0] and not streams.finished:
            lost += 1
            assert np.array_equal(obs, streams.obs)  # the game goes on from here
        if streams.finished:
            break
    assert lost == 4 and len(streams.finished) == 1


def test_a_life_lost_in_the_last_step_is_lost_all_the_same():
    def until_the_first_end(max_ep_len):
        streams = streams_of(1, max_ep_len)
        streams.start()
        for t in range(1, 1000):
            _, _, terminated, truncated = streams.step([0])
            if streams.ended:
                return t, bool(terminated[0]), bool(truncated[0]), len(streams.finished)

    t, *_ = until_the_first_end(27_000)
    assert until_the_first_end(t) == (t, True, False, 1)  # nothing follows it


def test_streams_continue_bit_for_bit():
    def new(threads):
        streams = streams_of(3, max_ep_len=70, threads=threads)
        streams._reseed_after = 90  # some streams have a new seed, some are in a later episode
        return streams

    one, two = new(1), new(2)
    one.start()
    actions = np.random.default_rng(1).integers(one.action_space.n, size=(330, 3))
    for a in actions[:230]:
        one.step(a)
    assert 2 in {len(begins) for begins in one._begins} and max(map(len, one._acts)) < 200
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert two.load_state_dict(pickle.loads(pickle.dumps(one.state_dict()))) == []
    assert np.array_equal(one.obs, two.obs) and one.finished == two.finished
    for a in actions[230:]:
        assert same(one.step(a), two.step(a)) and np.array_equal(one.obs, two.obs)
    assert one.finished == two.finished and one._seeds == two._seeds


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_a_users_vector_of_games_is_restored_if_it_waits_for_its_reset(mode):
    from ale_py import AtariVectorEnv

    def new():
        return make_streams(
            lambda: AtariVectorEnv("breakout", 2, num_threads=1, autoreset_mode=mode), 1, seq, 500
        )

    one, two = new(), new()
    one.start()
    assert isinstance(one, MaskedStreams) is (mode == "NextStep")
    actions = np.random.default_rng(3).integers(4, size=(60, 2))
    for a in actions[:30]:
        one.step(a)
    if mode == "SameStep":
        with pytest.warns(UserWarning, match=r"AutoresetMode\.DISABLED, to resume exactly"):
            assert two.load_state_dict(one.state_dict()) == [0, 1]
        return
    assert two.load_state_dict(one.state_dict()) == [] and not one.has_single_envs
    for a in actions[30:]:
        assert same(one.step(a), two.step(a))


def test_a_stream_that_differs_starts_a_fresh_episode():
    one = streams_of(2)
    one.start()
    for a in np.random.default_rng(1).integers(4, size=(40, 2)):
        one.step(a)
    state = one.state_dict()
    state["obs"][1, 0, 0] += 1
    two = streams_of(2)
    with pytest.warns(UserWarning, match="environment 1 starts a fresh episode"):
        assert two.load_state_dict(state) == [1]
    assert np.array_equal(two.obs[0], one.obs[0]) and len(two._acts[1]) == 0
    two.step([0, 0])


@pytest.mark.skipif(sys.platform != "linux", reason="counts the threads in /proc")
def test_threads_are_as_many_as_the_run_has():
    def threads():
        return len(os.listdir("/proc/self/task"))

    make = make_env(ID)
    before = threads()
    vector = make.unwrapped.vector(4, num_threads=2)
    assert threads() - before == 2
    del vector
    before = threads()
    vector = make.unwrapped.vector(2, num_threads=None)
    assert threads() - before == min(2, physical_cores())
    del vector


def test_a_wrapped_environment_is_stepped_as_it_is():
    with pytest.warns(UserWarning, match="in ClipReward, so each environment is stepped by itself"):
        streams = make_streams(lambda: ClipReward(make_env(ID), -2.0, 2.0), 2, seq, 100)
    assert type(streams) is Streams and streams.frame_stack == 4
    limited = streams_of(1, max_episode_steps=10)
    assert type(limited) is MaskedStreams and limited.frame_stack == 4
    limited.start()
    for _ in range(10):
        truncated = limited.step([0])[3]
    assert truncated[0] and limited.finished == [(0.0, 10)]


@pytest.mark.filterwarnings("ignore:the game is in:UserWarning")
def test_a_resumed_run_steps_its_games_as_before(tmp_path):
    import spinup

    def train(env_fn, **more):
        logger_kwargs = {"output_dir": str(tmp_path), "quiet": True}
        sizes = {"steps_per_epoch": 20, "ac_kwargs": {"hidden_sizes": (8,)}}
        spinup.reinforce_pytorch(env_fn, logger_kwargs=logger_kwargs, **sizes, **more)

    def small():
        return make_env(ID, {"img_height": 36, "img_width": 36})

    train(small, epochs=1)
    with pytest.raises(SpinupError, match="vectorized: True -> False"):
        train(lambda: RecordEpisodeStatistics(small()), epochs=2, resume=True)
    train(small, epochs=2, resume=True)


def test_the_screen_is_filmed_in_color():
    env = make_env(ID, render_mode="rgb_array")
    plain = make_env(ID)
    assert np.array_equal(env.reset(seed=3)[0], plain.reset(seed=3)[0])
    frames = []
    for a in np.random.default_rng(0).integers(4, size=60):
        assert same(env.step(a)[:4], plain.step(a)[:4])
        frames.append(env.render())
    assert frames[0].shape == (210, 160, 3) and frames[0].dtype == np.uint8
    assert any(not np.array_equal(frames[0], frame) for frame in frames)
    gray = frames[-1] @ np.array([0.299, 0.587, 0.114])
    assert len(np.unique(frames[-1].reshape(-1, 3), axis=0)) > 5 and gray.std() > 10


def test_it_can_be_pickled_and_checked():
    env = pickle.loads(pickle.dumps(make_env(ID)))
    assert env.reset(seed=0)[0].shape == (4, 84, 84)
    assert [f.what for f in examine(ID, steps=200).findings if f.serious] == []


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_a_run_that_crashed_continues_exactly(algo, tmp_path, monkeypatch):
    import spinup

    own = {
        "ppo": {"train_pi_iters": 1, "train_v_iters": 1},
        "dqn": {
            "start_steps": 50,
            "update_after": 60,
            "batch_size": 4,
            "replay_size": 200,
            "num_test_episodes": 0,
            "save_freq": 1,
        },
    }[algo]

    def train(name, **more):
        getattr(spinup, f"{algo}_pytorch")(
            lambda: make_env(ID, {"img_height": 36, "img_width": 36}),
            num_envs=2,
            steps_per_epoch=80,
            epochs=2,
            logger_kwargs={"output_dir": str(tmp_path / name), "quiet": True},
            **own,
            **more,
        )
        rows = (tmp_path / name / "progress.txt").read_text().splitlines()
        return [row.rpartition("\t")[0] for row in rows]  # the last column is the time

    whole = train("whole")
    assert len(whole) == 3
    step, taken = MaskedStreams.step, []

    def crash(self, act):
        taken.append(act)
        if len(taken) == 60:
            raise RuntimeError("out of power")
        return step(self, act)

    with monkeypatch.context() as patch:
        patch.setattr(MaskedStreams, "step", crash)
        with pytest.raises(RuntimeError, match="out of power"):
            train("crashed")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*fresh episode.*")
        assert train("crashed", resume=True) == whole


@pytest.mark.parametrize(
    "given, meant", [("Pong-v5", "ALE/Pong-v5"), ("Breakout-v5", "ALE/Breakout-v5")]
)
def test_a_name_without_its_namespace_is_completed(given, meant):
    with pytest.raises(SpinupError, match=f"did you mean {meant}"):
        make_env(given)

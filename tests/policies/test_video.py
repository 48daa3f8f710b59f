"""Clips: written without a display, complete or not at all, and as long as what was recorded."""

import itertools
import os
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from PIL import Image

from spinup.cli.test_policy import main as play_command
from spinup.policies import display, video
from spinup.utils.errors import SpinupError
from tests.helpers.processes import run_python


class Counter(gym.Env):
    """Draws its step number as a moving white bar; ends after `length` steps."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}
    observation_space = spaces.Box(-1, 1, (1,))
    action_space = spaces.Discrete(2)

    def __init__(self, length=5, size=(31, 45), render_mode="rgb_array"):
        self.length, self.size, self.render_mode = length, size, render_mode
        self.seeds, self.actions = [], []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.actions.append(action)
        self.t += 1
        return np.zeros(1, np.float32), 1.0, self.t >= self.length, False, {}

    def render(self):
        frame = np.zeros((*self.size, 3), np.uint8)
        frame[:, : self.t + 1] = 255
        return frame


def no_action(obs):
    return 0


def gif_frames(path):
    with Image.open(path) as image:
        frames, durations = [], []
        for i in range(image.n_frames):
            image.seek(i)
            frames.append(np.asarray(image.convert("RGB")))
            durations.append(image.info["duration"])
    return frames, durations


def test_a_gif_shows_every_frame_from_the_reset_to_the_end(tmp_path):
    path = tmp_path / "new" / "clip.gif"
    assert video.record_episodes(Counter(5), no_action, path, num_episodes=2) == 12
    frames, durations = gif_frames(path)
    assert len(frames) == 12
    assert frames[0].shape == (31, 45, 3)
    # The bar is t + 1 wide: so this is frame t of its episode and not merely some frame.
    assert [int((f[0, :, 0] > 127).sum()) for f in frames] == [1, 2, 3, 4, 5, 6] * 2
    assert set(durations) == {50}  # 20 frames a second, from the environment


def test_an_mp4_has_as_many_frames_and_keeps_the_size(tmp_path):
    import imageio.v2 as imageio

    path = tmp_path / "clip.mp4"
    assert video.record_episodes(Counter(9), no_action, path, fps=25) == 10
    with imageio.get_reader(path) as reader:
        frames = [frame for frame in reader]  # list() asks for a length, which is infinite
        meta = reader.get_meta_data()
    assert len(frames) == 10
    assert frames[0].shape == (32, 46, 3)  # odd sizes are padded by one, not stretched
    assert meta["fps"] == 25


@pytest.mark.parametrize("suffix", ["gif", "mp4"])
def test_cartpole_is_recorded_without_a_display(tmp_path, suffix, monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    env = gym.make("CartPole-v1", render_mode="rgb_array")
    path = tmp_path / f"clip.{suffix}"
    frames = video.record_episodes(env, lambda o: int(o[2] > 0), path, max_ep_len=12, seed=0)
    env.close()
    assert frames == 13
    if suffix == "gif":
        images, durations = gif_frames(path)
        assert sum(durations) == 13 * 20  # identical frames may be merged; the time stays
        assert images[0].std() > 0  # a cart, not an empty picture
    else:
        import imageio.v2 as imageio

        with imageio.get_reader(path) as reader:
            images = [frame for frame in reader]  # list() asks for a length, which is infinite
        assert len(images) == 13 and images[0].shape == (400, 600, 3)


def test_max_ep_len_cuts_and_zero_means_no_cut(tmp_path):
    assert video.record_episodes(Counter(50), no_action, tmp_path / "a.gif", max_ep_len=3) == 4
    assert video.record_episodes(Counter(6), no_action, tmp_path / "b.gif", max_ep_len=0) == 7


def test_the_seed_is_used_once_and_zero_counts(tmp_path):
    env = Counter(2)
    video.record_episodes(env, no_action, tmp_path / "a.gif", num_episodes=3, seed=0)
    assert env.seeds == [0, None, None]


def test_a_fast_environment_plays_in_real_time_as_a_gif(tmp_path):
    # 100 frames a second: a GIF cannot, so every second one is shown for 2/100 s.
    assert video.record_episodes(Counter(19), no_action, tmp_path / "a.gif", fps=100) == 10
    _, durations = gif_frames(tmp_path / "a.gif")
    assert sum(durations) == 200


@pytest.mark.parametrize("suffix", ["gif", "mp4"])
def test_a_failure_leaves_the_old_clip_and_no_litter(tmp_path, suffix):
    path = tmp_path / f"clip.{suffix}"
    path.write_bytes(b"the old one")

    def breaks(obs):
        raise RuntimeError("policy broke")

    with pytest.raises(RuntimeError, match="policy broke"):
        video.record_episodes(Counter(5), breaks, path)
    assert path.read_bytes() == b"the old one"
    assert os.listdir(tmp_path) == [path.name]


def test_wrong_input_is_one_clear_sentence(tmp_path):
    with pytest.raises(SpinupError, match="change the extension"):
        video.record_episodes(Counter(), no_action, tmp_path / "a.webm")
    with pytest.raises(SpinupError, match="rgb_array"):
        video.record_episodes(Counter(render_mode="human"), no_action, tmp_path / "a.gif")
    with pytest.raises(SpinupError, match="at least one episode"):
        video.record_episodes(Counter(), no_action, tmp_path / "a.gif", num_episodes=0)
    with pytest.raises(SpinupError, match="positive"):
        video.record_episodes(Counter(), no_action, tmp_path / "a.gif", fps=-1)
    env = Counter()
    env.render = lambda: None
    with pytest.raises(SpinupError, match="returned nothing"):
        video.record_episodes(env, no_action, tmp_path / "a.gif")


def test_a_missing_writer_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(SpinupError, match=r"spinup\[video\]"):
        video.record_episodes(Counter(), no_action, tmp_path / "a.mp4")
    assert video.record_episodes(Counter(2), no_action, tmp_path / "a.gif") == 3


def test_a_missing_renderer_names_the_extra(tmp_path):
    def render():
        raise gym.error.DependencyNotInstalled("pygame is not installed. Run something.")

    env = Counter()
    env.render = render
    with pytest.raises(SpinupError, match=r"pygame is not installed.*spinup\[video\]"):
        video.record_episodes(env, no_action, tmp_path / "a.gif")


def test_an_environment_that_draws_nothing_is_one_sentence(runs, tmp_path, capsys):
    run, _ = runs("her")
    assert play_command([str(run), "--video", str(tmp_path / "a.gif")]) == 2
    assert capsys.readouterr().err.endswith(
        "spinup: this environment cannot be drawn because it has no render method: test its "
        "policies without --video\n"
    )
    assert os.listdir(tmp_path) == []


def test_nothing_to_draw_with_says_what_mujoco_needs(tmp_path):
    class FatalError(RuntimeError):
        __module__ = "mujoco"

    def render():
        raise FatalError("no OpenGL context. Some details.")

    env = Counter()
    env.render = render
    with pytest.raises(SpinupError, match=r"here \(no OpenGL context\).*MUJOCO_GL=egl or"):
        video.record_episodes(env, no_action, tmp_path / "a.gif")
    env.render = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):  # a fault of the environment keeps its traceback
        video.record_episodes(env, no_action, tmp_path / "a.gif")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("found, wanted", [({"EGL"}, "egl"), ({"OSMesa"}, "osmesa"), (set(), None)])
def test_headless_variables_name_only_what_is_there(monkeypatch, found, wanted):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER", "MUJOCO_GL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    find = lambda name: f"lib{name}.so" if name in found else None  # noqa: E731
    monkeypatch.setattr(display.ctypes.util, "find_library", find)
    display.prepare_headless_rendering()
    assert os.environ["SDL_VIDEODRIVER"] == "dummy"
    assert os.environ.get("MUJOCO_GL") == wanted


def test_headless_variables_leave_a_display_and_the_users_choice_alone(monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("SDL_VIDEODRIVER", raising=False)
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    monkeypatch.setenv("DISPLAY", ":0")
    display.prepare_headless_rendering()
    assert "SDL_VIDEODRIVER" not in os.environ
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setenv("SDL_VIDEODRIVER", "x11")
    display.prepare_headless_rendering()
    assert (os.environ["SDL_VIDEODRIVER"], os.environ["MUJOCO_GL"]) == ("x11", "osmesa")


def test_importing_it_imports_no_renderer():
    code = (
        "import sys, spinup.policies.video; "
        "sys.exit(any(m in sys.modules for m in ('torch', 'imageio', 'pygame', 'mujoco', 'PIL')))"
    )
    run_python("-c", code)


# ------------------------------------------------------- clips of trained policies, opened again


def opened(path):
    """All frames of a clip, as any program that plays it sees them."""
    import imageio.v3 as iio

    return iio.imread(path)


def in_a_new_process(args):
    """What `spinup test_policy` prints."""
    code = "import sys; from spinup.cli.test_policy import main; sys.exit(main(sys.argv[1:]))"
    done = run_python("-c", code, *args)
    return done.stdout


@pytest.mark.parametrize(
    "env_id, size, every",
    # A GIF cannot show Hopper's 125 frames a second: it has every third of them.
    [("CartPole-v1", (400, 600, 3), 1), ("Hopper-v5", (480, 480, 3), 3)],
)
def test_clips_of_policies_have_a_frame_for_the_reset_and_each_step(
    runs, tmp_path, monkeypatch, capsys, env_id, size, every
):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    run, _ = runs("ppo", env_id)
    common = [str(run), "-d", "--seed", "0", "-l", "5", "-n", "2", "--video"]
    said = []
    for name in ("clip.mp4", "clip.gif"):
        if env_id == "Hopper-v5":  # MuJoCo's renderer crashes if the process has TensorFlow in it
            said.append(in_a_new_process([*common, str(tmp_path / name)]))
            continue
        assert play_command([*common, str(tmp_path / name)]) == 0
        said.append(capsys.readouterr().out)
    # Two episodes of five steps: 2 * (5 + 1) pictures.
    assert said[0].count("EpLen 5") == 2 and "AverageEpRet" in said[0]
    assert said[0].endswith(f"wrote {tmp_path / 'clip.mp4'} (12 frames)\n")
    assert said[1].endswith(f"wrote {tmp_path / 'clip.gif'} ({12 // every} frames)\n")
    mp4, gif = opened(tmp_path / "clip.mp4"), opened(tmp_path / "clip.gif")
    assert mp4.shape == (12, *size) and gif.shape[1:] == size
    # Pictures that do not change are one frame of a GIF, shown for as long as all of them.
    _, durations = gif_frames(tmp_path / "clip.gif")
    gif = np.repeat(gif, [d // 20 for d in durations], axis=0)
    assert len(gif) == 12 // every
    # They move, and both show the same.
    assert all((a != b).any() for a, b in itertools.pairwise(mp4[:6:2]))
    difference = np.abs(mp4[::every].astype(int) - gif.astype(int)).mean()
    assert difference < 8
    assert mp4.std() > 10  # not an empty picture
    assert sorted(os.listdir(tmp_path)) == ["clip.gif", "clip.mp4"]


def test_a_clip_that_cannot_be_written_is_refused_before_anything_is_played(tmp_path):
    (tmp_path / "folder.gif").mkdir()
    (tmp_path / "file").write_text("")
    for path in ("a.webm", "folder.gif", "file/a.gif", "/proc/a.gif", f"{'a' * 250}.gif"):
        env = Counter()
        with pytest.raises(SpinupError):
            video.record_episodes(env, no_action, tmp_path / path)
        assert env.seeds == []
    assert sorted(os.listdir(tmp_path)) == ["file", "folder.gif"]

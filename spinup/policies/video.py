"""Record clips of a policy without a display.

    from spinup.policies.loading import load_policy_and_env
    from spinup.policies.video import record_episodes

    env, get_action = load_policy_and_env("data/ppo/ppo_s0", render_mode="rgb_array")
    record_episodes(env, get_action, "agent.mp4")

A `.gif` needs nothing beyond the core dependencies; an `.mp4` needs the extra `video`.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from spinup.policies.display import prepare_headless_rendering
from spinup.policies.episodes import steps
from spinup.utils.errors import SpinupError

# Keeps an environment without a time limit from filling the disk.
MAX_STEPS = 10_000
DEFAULT_FPS = 30
# Viewers slow GIF frames shorter than 2/100 s down to 10/100 s.
_GIF_FPS = 50
# Packages whose exceptions mean that rendering is not available here.
_DRAWING = ("mujoco", "OpenGL", "glfw")


def record_episodes(
    env: Any,
    get_action: Callable[[Any], Any],
    path: str | os.PathLike[str],
    num_episodes: int = 1,
    max_ep_len: int | None = None,
    fps: float | None = None,
    *,
    seed: int | None = None,
    played: list[tuple[float, int]] | None = None,
) -> int:
    """Run episodes and record them to a `.gif` or `.mp4`.

    The file appears only when it is complete; a failure leaves an existing file unchanged.

    Args:
        env: Environment created with `render_mode="rgb_array"`. It is not closed.
        get_action: Function that returns the action for an observation.
        path: File to write; its extension determines the format.
        num_episodes: Number of episodes to record.
        max_ep_len: Maximum episode length in steps; None or 0 means 10,000.
        fps: Frames per second; None uses the environment's `metadata["render_fps"]`, or else 30.
        seed: Seed for the first reset; None picks a random seed.
        played: A list to which the return and length of every episode are appended.

    Returns:
        The number of frames recorded: one for the reset and one for each step of every episode. If
        `fps` exceeds 50, a GIF keeps only every n-th frame. A GIF stores consecutive identical
        frames as one longer frame.
    """
    target = check_clip(path)
    suffix = target.suffix.lower()
    if num_episodes < 1:
        raise SpinupError(f"recording needs at least one episode, not {num_episodes}")
    mode = getattr(env, "render_mode", None)
    if mode != "rgb_array":
        raise SpinupError(
            f"the environment has render_mode={mode!r}: "
            "make it with render_mode='rgb_array' to record it"
        )
    prepare_headless_rendering()
    rate = float(fps or getattr(env, "metadata", {}).get("render_fps") or DEFAULT_FPS)
    if not (math.isfinite(rate) and rate > 0):
        raise SpinupError(f"fps must be a positive number of frames per second, not {fps}")
    episodes: list[tuple[float, int]] = [] if played is None else played

    def pictures() -> Iterator[np.ndarray]:
        limit = max_ep_len or MAX_STEPS
        for ep_ret, ep_len, over in steps(env, get_action, limit, num_episodes, seed):
            yield draw(env)
            if over:
                episodes.append((ep_ret, ep_len))

    frames = pictures()
    temporary = _temporary(target)
    try:
        if suffix == ".gif":
            count = _write_gif(temporary, frames, rate)
        else:
            count = _write_mp4(temporary, frames, rate)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return count


def check_clip(path: str | os.PathLike[str]) -> Path:
    """Create the folder for a clip and return its path; raise if it cannot be written."""
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in (".gif", ".mp4"):
        raise SpinupError(
            f"a clip must be a .gif or an .mp4, not {target.name}: change the extension"
        )
    if suffix == ".mp4":
        _import_imageio()
    if target.is_dir():
        raise SpinupError(f"{target} is a folder: pass a file for the clip")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = _temporary(target)  # checks that a file can be created there
        temporary.touch()
        temporary.unlink()
    except OSError as error:
        raise SpinupError(
            f"a clip cannot be written to {target.parent} ({error.strerror}): choose another folder"
        ) from error
    return target


def _temporary(target: Path) -> Path:
    # Keep the extension at the end, because the writers infer the format from it.
    return target.with_name(f".{target.stem}.{os.getpid()}.tmp{target.suffix.lower()}")


def draw(env: Any) -> np.ndarray:
    """Render the environment as a uint8 image (height, width, 3); raise if it cannot."""
    from gymnasium.error import DependencyNotInstalled

    try:
        frame = env.render()
    except DependencyNotInstalled as error:
        raise SpinupError(
            f"this environment cannot be drawn ({_first_sentence(error)}): run pip install "
            "'spinup[video]' for classic control, 'spinup[mujoco]' for MuJoCo"
        ) from error
    except NotImplementedError as error:
        raise SpinupError(
            "this environment cannot be drawn because it has no render method: test its policies "
            "without --video"
        ) from error
    except Exception as error:
        if type(error).__module__.split(".")[0] not in _DRAWING:
            raise  # a bug in the environment itself
        raise SpinupError(
            f"this environment cannot be drawn here ({_first_sentence(error)}): without a display, "
            "MuJoCo needs the library EGL or OSMesa and MUJOCO_GL=egl or MUJOCO_GL=osmesa"
        ) from error
    frame = np.asarray(frame) if frame is not None else None
    if frame is None or frame.ndim != 3 or frame.shape[2] not in (3, 4):
        what = "nothing" if frame is None else f"an array of shape {frame.shape}"
        raise SpinupError(
            f"env.render() returned {what}: it must return an image (height, width, 3)"
        )
    return np.ascontiguousarray(frame[:, :, :3], dtype=np.uint8)


def _first_sentence(error: BaseException) -> str:
    return (
        str(error).splitlines()[0].split(". ")[0].rstrip(".")
        if str(error)
        else "it needs a package"
    )


def _write_gif(path: Path, frames: Iterator[np.ndarray], fps: float) -> int:
    from PIL import Image

    every = max(1, math.ceil(fps / _GIF_FPS))
    count = 0

    def images() -> Iterator[Image.Image]:
        nonlocal count
        for i, frame in enumerate(frames):
            if i % every == 0:
                count += 1
                # Use one palette per frame without dithering: this cuts the size to a third and
                # keeps flat areas flat.
                yield Image.fromarray(frame).quantize(256, dither=Image.Dither.NONE)

    stream = images()
    first = next(stream)
    duration = max(20, 10 * round(100 * every / fps))  # milliseconds, in the GIF's steps of 10
    first.save(path, save_all=True, append_images=stream, duration=duration, loop=0)
    return count


def _import_imageio() -> Any:
    try:
        import imageio.v2 as imageio
        import imageio_ffmpeg  # noqa: F401  (the plug-in that imageio needs for .mp4)
    except ImportError as error:
        raise SpinupError(
            f"writing an .mp4 needs {error.name}: run pip install 'spinup[video]', or record a .gif"
        ) from error
    return imageio


def _write_mp4(path: Path, frames: Iterator[np.ndarray], fps: float) -> int:
    writer: Any = _import_imageio().get_writer(
        str(path),
        format="FFMPEG",
        mode="I",
        fps=fps,
        codec="libx264",
        quality=8,
        macro_block_size=1,  # otherwise imageio rescales images to multiples of 16
        ffmpeg_log_level="error",
    )
    count = 0
    # Close the writer before the caller deletes a failed file; ffmpeg would recreate it.
    with contextlib.closing(writer):
        for frame in frames:
            # yuv420p, the pixel format that every player supports, requires even sizes.
            odd = ((0, frame.shape[0] % 2), (0, frame.shape[1] % 2), (0, 0))
            writer.append_data(np.pad(frame, odd, mode="edge"))
            count += 1
    return count

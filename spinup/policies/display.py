"""Whether there is a display, and how to render without one."""

import ctypes.util
import os
import sys


def has_display() -> bool:
    """Return whether a window can be opened."""
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def prepare_headless_rendering() -> None:
    """Set up pygame and MuJoCo to render without a display if there is none.

    Sets `SDL_VIDEODRIVER` and `MUJOCO_GL` unless they are already set. Call it before creating the
    environment.
    """
    if has_display():
        return
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    if "MUJOCO_GL" not in os.environ:
        # Choose only a library that exists: `import mujoco` fails if it cannot load the one that
        # MUJOCO_GL names, even in a program that never renders.
        for backend, library in (("egl", "EGL"), ("osmesa", "OSMesa")):
            if ctypes.util.find_library(library):
                os.environ["MUJOCO_GL"] = backend
                break

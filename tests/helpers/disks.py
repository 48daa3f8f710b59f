"""Disks that are really full: a write fails in the operating system, nothing is mocked."""

import contextlib
import gc
import os
import resource
import signal
import subprocess


@contextlib.contextmanager
def file_size_limit(size):
    """Inside, every write beyond `size` bytes of a file fails."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)


@contextlib.contextmanager
def mounted(folder, size):
    """Make `folder` a file system of this size, if we may mount one; says whether we may."""
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True).returncode == 0
    except FileNotFoundError:
        done = False
    try:
        yield done
    finally:
        gc.collect()  # closes files that nobody uses anymore
        if done:
            subprocess.run(["umount", "-l", str(folder)], check=True)


@contextlib.contextmanager
def small_disk(folder, size):
    """Yield a function: inside `full(free)`, a file can grow by about so many bytes.

    Where we may not mount anything, file sizes are limited to `free` instead.
    """

    @contextlib.contextmanager
    def full(free=4096):
        if not is_disk:
            with file_size_limit(free):
                yield
            return
        filler = folder / "filler"
        with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as f:
            while True:
                f.write(b"\0" * 4096)
        os.truncate(filler, max(0, filler.stat().st_size // 4096 * 4096 - free))
        try:
            yield
        finally:
            filler.unlink()

    with mounted(folder, size) as is_disk:
        yield full

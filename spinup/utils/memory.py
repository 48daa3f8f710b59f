"""How much memory is free, and an allocator that does not return it."""

import ctypes
import os
import sys

from spinup.utils.errors import SpinupError


def check_memory(what: str, nbytes: int, advice: str = "use a smaller replay_size") -> None:
    """Raise a `SpinupError` if `what` needs more memory than this machine has free."""
    available = available_memory()
    if available is not None and nbytes > available:
        raise SpinupError(
            f"{what} needs {size_text(nbytes)} of memory, but only {size_text(available)} are "
            f"free: {advice}"
        )


def available_memory() -> int | None:
    """Return how many bytes this process may still use, or None if the OS does not report it."""
    found = []
    try:
        with open("/proc/meminfo") as file:
            fields = dict(line.split(":", 1) for line in file)
        found.append(int(fields["MemAvailable"].split()[0]) * 1024)
    except (OSError, KeyError):
        if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
            return None
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    # A container may have less memory than its machine (control groups, versions 2 and 1).
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ):
        try:
            with open(limit) as file, open(used) as file2:
                text = file.read().strip()
                if text != "max":
                    found.append(max(0, int(text) - int(file2.read())))
        except (OSError, ValueError):
            continue  # this limit does not exist here
    return min(found)


def size_text(nbytes: float) -> str:
    """Format a number of bytes in a readable unit: `1.5 MiB`."""
    nbytes = min(nbytes, 1e30)  # a float has no room for more than 308 digits
    for unit in ("bytes", "KiB", "MiB"):
        if nbytes < 1024:
            return f"{nbytes:.1f} {unit}"
        nbytes /= 1024
    return f"{nbytes:.1f} GiB"


def keep_freed_memory() -> None:
    """Ask glibc to keep freed blocks instead of returning them to the OS.

    An update frees and allocates the same megabyte-sized activations hundreds of times per second.
    Without this, the OS maps them in page by page each time, which takes a fifth of the update.
    """
    if sys.platform != "linux" or os.environ.get("SPINUP_MALLOC") == "system":
        return
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        trim_threshold, mmap_threshold = -1, -3  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD of malloc.h
        libc.mallopt(trim_threshold, 1 << 30)
        libc.mallopt(mmap_threshold, 1 << 30)

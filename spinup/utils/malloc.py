"""Making the allocator of memory faster."""

import ctypes
import os
import sys


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

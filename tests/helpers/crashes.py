"""Processes that end at any instant: at every call that changes the disk, one after the other."""

import os


def exit_at_call(n):
    """Make this process vanish at the n-th call that changes the disk."""
    count = 0

    def wrap(function):
        def counted(*args, **kwargs):
            nonlocal count
            count += 1
            if count == n:
                os._exit(9)
            return function(*args, **kwargs)

        return counted

    for name in ("fsync", "replace", "rename", "unlink", "rmdir", "mkdir"):
        setattr(os, name, wrap(getattr(os, name)))


def crashes_at_every_call(folder, prepare, action):
    """Yield a prepared folder in which ``action`` died at its first, second, ... such call."""
    for n in range(1, 200):
        place = folder / str(n)
        place.mkdir()
        prepare(place)
        pid = os.fork()
        if pid == 0:
            try:
                exit_at_call(n)
                action(place)
            except BaseException:
                os._exit(1)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert code in (0, 9)
        yield place
        if code == 0:
            return
    raise AssertionError("the action never came to its end")

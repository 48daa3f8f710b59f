"""A full disk: the k-th operation that needs room fails, for every k, for good or only once."""

import builtins
import errno
import io
import os
import warnings

from benchmarks.attack.common import fresh_copy, result, train, trial, without_fsync

ALGOS = ("ppo", "dqn")


class Full:
    """Counts the operations below `root` that need room, and makes some of them fail.

    They are writes, fsyncs, new files and folders, and renames. A failed write leaves half.
    """

    def __init__(self, root, first, last):
        self.root, self.first, self.last, self.calls = str(root), first, last, 0

    def due(self):
        self.calls += 1
        return self.first <= self.calls <= self.last

    def check(self, name=None):
        if self.due():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)

    def install(self):
        """Replace the operations; call this in a process of its own."""
        full, plain_open = self, builtins.open
        write = os.write

        class File(io.FileIO):
            def write(self, data):
                if full.due():
                    super().write(memoryview(data)[: len(data) // 2])
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return super().write(data)

        def opened(
            file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, *rest, **named
        ):
            inside = isinstance(file, str | os.PathLike) and os.fspath(file).startswith(full.root)
            if not inside or not set(mode) & set("wax+"):
                return plain_open(file, mode, buffering, encoding, errors, newline, *rest, **named)
            if not os.path.exists(file):
                full.check(os.fspath(file))
            raw = File(file, mode.replace("b", "").replace("t", ""), opener=named.get("opener"))
            if buffering == 0:
                return raw
            buffered = io.BufferedWriter(raw)
            return (
                buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)
            )

        def written(fd, data):
            if _is_below(fd, full.root) and full.due():
                write(fd, memoryview(data)[: len(data) // 2])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return write(fd, data)

        builtins.open = io.open = opened
        os.write = written
        for name in ("mkdir", "rename", "replace", "fsync"):
            setattr(os, name, self._failing(getattr(os, name)))

    def _failing(self, call):
        def failing(what, *args, **kwargs):
            if isinstance(what, int):
                inside = _is_below(what, self.root)
            else:
                inside = os.fspath(what).startswith(self.root)
            if inside:
                self.check(None if isinstance(what, int) else os.fspath(what))
            return call(what, *args, **kwargs)

        return failing


def _is_below(fd, root):
    try:
        return os.readlink(f"/proc/self/fd/{fd}").startswith(root)
    except OSError:
        return False


def _train(algo, folder, first, last, resume):
    full = Full(folder, first, last)
    full.install()
    train(algo, folder, resume=resume)
    return (full.calls,)


def _finish(algo, folder):
    with without_fsync():
        train(algo, folder, resume=True)
    return result(folder)


def _newest(folder):
    from spinup.runs.storage.checkpoints import load_checkpoint

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = load_checkpoint(folder / "checkpoints") if folder.is_dir() else None
    return -1 if loaded is None else int(loaded[1].name[5:])


def full_disk(tally, folder):
    """Fill the disk at every operation of a small run; then free it, and resume."""
    tally.what = "the disk is full at the k-th write, fsync, new file or rename of a run"
    for algo in ALGOS:
        whole, half = folder / f"{algo}-whole", folder / f"{algo}-half"
        outcome = trial(_train, algo, whole, 1 << 60, 0, False, seconds=60)
        if outcome.kind != "ok":
            raise RuntimeError(outcome.text)
        (fresh,), wanted = outcome.value, result(whole)
        train(algo, half, epochs=1)
        saved = _newest(half)
        continued = trial(
            _train, algo, fresh_copy(half, folder / "c"), 1 << 60, 0, True, seconds=60
        )
        plans = [(False, fresh), (True, continued.value[0])]
        for resume, calls in plans:
            every = max(1, round(calls / tally.times(60)))
            for k in range(1, calls + 1, every):
                for last in (k, 1 << 60):
                    place = folder / "disk"
                    if resume:
                        fresh_copy(half, place)
                    else:
                        _remove(place)
                    at = f"{algo}, {'resumed' if resume else 'new'}, operation {k} of {calls}"
                    at += "" if last == k else " and after"
                    _one(tally, algo, place, k, last, resume, saved if resume else -1, wanted, at)


def _remove(place):
    import shutil

    shutil.rmtree(place, ignore_errors=True)


def _one(tally, algo, place, first, last, resume, saved, wanted, at):
    outcome = trial(_train, algo, place, first, last, resume, seconds=60)
    if outcome.kind not in ("ok", "said"):
        return tally.breaks(at, f"{outcome.kind}: {outcome.text[-700:]}", outcome.kind)
    if outcome.kind == "said" and str(place) not in outcome.text:
        return tally.breaks(at, f"the sentence names no path: {outcome.text}", "said")
    if _newest(place) < saved:
        return tally.breaks(at, f"the checkpoint of step {saved} is lost", "lost")
    resumed = trial(_finish, algo, place, seconds=60)
    if resumed.kind != "ok":
        return tally.breaks(at, f"resuming: {resumed.kind}: {resumed.text[-700:]}", "resume")
    if resumed.value != wanted:
        return tally.breaks(at, "the resumed run ends with another result", "resume")
    return tally.say() if outcome.kind == "said" else tally.hold()


ATTACKS = {"full_disk": full_disk}

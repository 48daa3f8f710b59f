"""Power loss: a file system that forgets what was not fsynced.

A run is recorded: before every operation on its files, the whole directory is photographed, and
every fsync is noted. From the record follows what a disk may hold at any of these instants: the
content that each file had at its last fsync, the names that each folder had at its last fsync, and
of everything later all, nothing, or any part of it.
"""

import hashlib
import os
import random
import shutil
import sys
import warnings
from pathlib import Path

from benchmarks.attack.common import result, train, trial, without_fsync

ALGOS = ("ppo", "dqn")
STATES = 200  # per algorithm
RESUMES = 12  # of them continued to the end, per algorithm
RUN = Path("exp", "exp_s3")  # below a folder that exists before the run
CHUNK_BYTES = 512  # small, so that a replay buffer has several pieces
_NOTED = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link"}


# --------------------------------------------------------------------------------------- recording


def record(algo, root):
    """Train in `root` and return the history: photographs, fsyncs, and completed saves."""
    from spinup.algos.common import replay
    from spinup.runs import logger
    from spinup.runs.storage import checkpoints

    replay._CHUNK_BYTES = CHUNK_BYTES
    history, busy = [], []
    fsync, save, save_state, mark = (
        os.fsync,
        checkpoints.save_checkpoint,
        logger.Logger.save_state,
        logger.Logger.mark_finished,
    )

    def photograph():
        if not busy:
            busy.append(True)
            history.append(("state", _photograph(root)))
            busy.pop()

    def hook(event, args):
        if event in _NOTED and not (event == "open" and _only_reads(args)):
            photograph()

    def noted_fsync(fd):
        photograph()
        fsync(fd)
        history.append(("sync", os.fstat(fd).st_ino))

    def noted_save(folder, state, step, *args, **kwargs):
        path = save(folder, state, step, *args, **kwargs)
        photograph()
        history.append(("saved", (step, _digest(path))))
        return path

    def noted_policy(self, *args, **kwargs):
        save_state(self, *args, **kwargs)
        photograph()
        history.append(("policy", _sha(root / RUN / "pyt_save" / "policy.safetensors")))

    def noted_finish(self):
        mark(self)
        photograph()
        history.append(("finished", None))

    os.fsync, checkpoints.save_checkpoint = noted_fsync, noted_save
    logger.Logger.save_state, logger.Logger.mark_finished = noted_policy, noted_finish
    sys.addaudithook(hook)  # for good: this process ends after the run
    train(algo, root / RUN, save_best=True)
    photograph()
    return history


def _only_reads(args):
    flags = args[2] if len(args) > 2 and isinstance(args[2], int) else 0
    return not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)


def _photograph(root):
    """Return inode -> content of a file, or names of a folder; "" leads to the root."""
    seen = {"": os.stat(root).st_ino}
    folders = [root]
    while folders:
        folder = folders.pop()
        names = {}
        for entry in os.scandir(folder):
            inode = names[entry.name] = entry.inode()
            if entry.is_dir(follow_symlinks=False):
                folders.append(Path(entry.path))
            else:
                fd = os.open(entry.path, os.O_RDONLY)
                seen[inode] = os.read(fd, 1 << 24)
                os.close(fd)
        seen[os.stat(folder).st_ino] = names
    return seen


def _sha(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _digest(checkpoint):
    return _sha(checkpoint / "manifest.json")  # it holds the hashes of everything else


# -------------------------------------------------------------------------------------- simulation


class Disk:
    """What a disk may hold, as the history goes on.

    Inodes are numbered anew, because the file system gives the number of a deleted file to another.
    """

    def __init__(self):
        self.current, self.numbers, self.count = {}, {}, 0
        self.root = None
        self.durable = {}  # number -> content or names at the last fsync
        self.pending = {}  # folder -> changes of names since its last fsync
        self.acknowledged = []  # checkpoints whose save had returned
        self.policies, self.finished = [], False

    def feed(self, kind, value):
        if kind == "state":
            self._see(value)
        elif kind == "sync" and value in self.numbers:
            number = self.numbers[value]
            self.durable[number] = self.current[number]
            self.pending[number] = []
        elif kind == "saved":
            self.acknowledged.append(value)
        elif kind == "policy":
            self.policies.append(value)
        elif kind == "finished":
            self.finished = True

    def _see(self, photograph):
        inodes = {inode for inode in photograph if inode != ""}
        numbers = {i: n for i, n in self.numbers.items() if i in inodes}
        for inode in inodes - set(numbers):
            numbers[inode] = self.count
            self.count += 1
        self.numbers, self.root = numbers, numbers[photograph[""]]
        now = {}
        for inode in inodes:
            what = photograph[inode]
            if isinstance(what, dict):
                what = {name: numbers[i] for name, i in what.items()}
            now[numbers[inode]] = what
        for number, names in now.items():
            if isinstance(names, dict):
                self.durable.setdefault(number, {} if self.current else dict(names))
                before = self.current.get(number, {})
                gone = {name: None for name in before if name not in names}
                new = {name: n for name, n in names.items() if before.get(name) != n}
                if gone or new:
                    self.pending.setdefault(number, []).append({**gone, **new})
        self.contents = {**getattr(self, "contents", {}), **now}
        self.current = now

    def crash(self, mode, rng):
        """Return a state as of after a power loss: path -> content, None for a folder.

        strict: only what was fsynced; names: changes of names are kept, unsynced data is not;
        any: each unsynced change is kept or not, and unsynced data is kept, cut, zero or lost.
        """
        found = {}

        def walk(number, path):
            what = self.contents[number]
            if isinstance(what, dict):
                found[path] = None
                names = dict(self.durable.get(number, {}))
                for change in self.pending.get(number, []):
                    if mode == "names" or (mode == "any" and rng.random() < 0.5):
                        names.update(change)
                for name, inner in names.items():
                    if inner is not None:
                        walk(inner, f"{path}/{name}" if path else name)
                return
            kept = self.durable.get(number, b"")
            if mode == "any" and kept != what:
                cut = rng.randrange(len(what) + 1)
                start = kept if what.startswith(kept) else b""
                kept = rng.choice(
                    [kept, what, start + what[len(start) : max(cut, len(start))]]
                    + [start + bytes(len(what) - len(start))]
                )
            found[path] = kept

        walk(self.root, "")
        return found


def write_state(state, folder):
    shutil.rmtree(folder, ignore_errors=True)
    for path, content in state.items():
        if content is None:
            (folder / path).mkdir(parents=True, exist_ok=True)
    for path, content in state.items():
        if content is not None:
            (folder / path).write_bytes(content)


# ---------------------------------------------------------------------------------------- checking


def faults(run, disk, versions, policies):
    """Return what is wrong with a state after a power loss, and whether something was said."""
    from spinup.policies.saved import load_policy
    from spinup.runs.storage.checkpoints import load_checkpoint
    from spinup.runs.storage.tables import Table, matches, read_record
    from spinup.utils.errors import SpinupError

    wrong, said = [], False
    with warnings.catch_warnings(record=True) as notices:
        warnings.simplefilter("always")
        try:
            loaded = load_checkpoint(run / "checkpoints") if run.is_dir() else None
        except SpinupError as error:
            return [f"no checkpoint can be loaded: {error}"], True
    said = bool(notices)
    newest = disk.acknowledged[-1][0] if disk.acknowledged else -1
    if loaded is None:
        if newest >= 0:
            wrong.append(f"the checkpoint of step {newest} is lost without a word")
    else:
        state, path = loaded
        step = int(path.name.removesuffix(".again")[5:])
        if step < newest:
            wrong.append(f"step {step} is loaded, but step {newest} had been saved")
        if _digest(path) not in versions:
            wrong.append(f"{path.name} is not a checkpoint that the run saved")
        table = run / "progress.txt"
        try:
            opened = Table(str(table))
            with opened.file:
                opened.cut_back(state["logger"])
        except SpinupError as error:
            wrong.append(f"the table does not fit the checkpoint: {error}")
    try:
        load_policy(run)
        tensors = [run / "pyt_save" / f"policy.safetensors{end}" for end in ("", ".new")]
        if not any(p.is_file() and _sha(p) in policies for p in tensors):
            wrong.append("the policy is not one that the run saved")
    except SpinupError as error:
        said = True
        if disk.policies:
            wrong.append(f"a policy had been saved, but: {error}")
    table, recorded = run / "progress.txt", read_record(run / "progress.txt")
    if recorded is not None and not (table.is_file() and matches(recorded, table.read_bytes())):
        wrong.append("plot would say that the table was changed")
    if disk.finished and not (run / ".finished").is_file():
        wrong.append("the run had been reported as finished, but .finished is lost")
    return wrong, said


def _continue(algo, folder):
    from spinup.algos.common import replay

    replay._CHUNK_BYTES = CHUNK_BYTES
    with without_fsync():
        train(algo, folder, save_best=True, resume=True)
    return result(folder)


def power_loss(tally, folder):
    """Check states after a power loss at every recorded instant, and continue some of them."""
    tally.what = (
        "the power fails at a random instant of a run, and the disk forgets what was not fsynced"
    )
    rng = random.Random(0)
    for algo in ALGOS:
        root = folder / algo
        root.mkdir()
        # The history is too large for a pipe: the child writes it next to the run.
        outcome = trial(_record_to, algo, root, folder / "history", seconds=300)
        if outcome.kind != "ok":
            raise RuntimeError(outcome.text)
        history = _load(folder / "history")
        wanted = result(root / RUN)
        versions = {value[1] for kind, value in history if kind == "saved"}
        policies = {value for kind, value in history if kind == "policy"}
        instants = [i for i, (kind, _) in enumerate(history) if kind != "state"]
        every = max(1, len(instants) * 3 // tally.times(STATES))
        chosen = set(instants[::every]) | set(
            rng.sample(range(1, len(history)), min(len(history) - 1, tally.times(STATES) // 3))
        )
        tries = [(at, mode) for at in sorted(chosen) for mode in ("strict", "names", "any")]
        full = set(rng.sample(tries, min(len(tries), tally.times(RESUMES))))
        disk, fed = Disk(), 0
        for at, mode in tries:
            while fed <= at:
                disk.feed(*history[fed])
                fed += 1
            state = disk.crash(mode, rng)
            place = folder / "disk"
            write_state(state, place)
            wrong, said = faults(place / RUN, disk, versions, policies)
            where = f"{algo}, event {at} of {len(history)}, {mode}"
            if (at, mode) in full and not wrong:
                tally.details["continued to the end"] += 1
                resumed = trial(_continue, algo, place / RUN, seconds=60)
                if resumed.kind != "ok":
                    wrong.append(f"resuming: {resumed.kind}: {resumed.text[-600:]}")
                elif resumed.value != wanted:
                    wrong.append("the resumed run ends with another result")
            if wrong:
                tally.breaks(where, "; ".join(wrong), mode)
            elif said and disk.acknowledged:
                tally.say(mode)
            else:
                tally.hold(mode)


def _record_to(algo, root, path):
    import pickle

    history = record(algo, root)
    data = pickle.dumps(history)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with open(fd, "wb") as file:
        file.write(data)


def _load(path):
    import pickle

    return pickle.loads(Path(path).read_bytes())  # our own


ATTACKS = {"power_loss": power_loss}

"""One process at a time writes a run directory, and a dead one never blocks it."""

import contextlib
import subprocess
import sys
import textwrap

import pytest

from spinup.runs.storage.locks import RunLock
from spinup.utils.errors import SpinupError

HOLDER = """
import os, sys
from spinup.runs.storage.locks import RunLock
lock = RunLock(sys.argv[1])
if len(sys.argv) > 2 and os.fork() == 0:
    print(os.getpid(), flush=True)
    sys.stdin.read()   # a forked worker that outlives its parent
    os._exit(0)
print("held", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def holder(folder, *args):
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLDER), str(folder), *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    for _ in range(1 + len(args)):
        assert child.stdout.readline()
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()


def test_a_second_process_is_refused_and_told_the_first_ones_pid(tmp_path):
    with holder(tmp_path) as child:
        with pytest.raises(SpinupError, match=rf"another process \(pid {child.pid}\) is writing"):
            RunLock(tmp_path)
        child.stdin.close()
        child.wait()
        RunLock(tmp_path).release()


def test_a_killed_holder_never_blocks(tmp_path):
    with holder(tmp_path) as child:
        child.kill()
        child.wait()
        RunLock(tmp_path).release()


def test_a_forked_worker_does_not_keep_its_dead_parents_lock(tmp_path):
    with holder(tmp_path, "fork") as child:
        child.kill()
        child.wait()
        RunLock(tmp_path).release()


def test_the_lock_is_free_after_release_and_after_garbage_collection(tmp_path):
    with RunLock(tmp_path) as lock:
        assert lock.held
        with pytest.raises(SpinupError, match="already holds"):
            RunLock(tmp_path)
    assert not lock.held
    lock.release()
    unreleased = RunLock(tmp_path)
    del unreleased
    RunLock(tmp_path).release()


def test_a_shared_lock_is_held_until_its_last_user_releases(tmp_path):
    first = RunLock.shared(tmp_path)
    assert RunLock.shared(tmp_path) is first
    first.release()
    assert first.held
    first.release()
    assert not first.held

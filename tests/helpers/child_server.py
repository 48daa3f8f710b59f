"""Forks training processes that have everything imported already, as `helpers.runs` asks for them.

    python -m tests.helpers.child_server

A run of a test takes less time than importing torch. So one process imports, trains a little of
everything, and forks a child for every run. Requests and answers are lines of JSON on the standard
input and output:

- `{"start": description, "log": path}`: fork a child that trains so (see `child`) and prints to
  this file; answered with its process id
- `{"wait": pid, "seconds": s}`: answered with its exit status as `os.waitpid` has it; null if it
  took longer, and was killed
"""

import contextlib
import functools
import gc
import inspect
import json
import os
import signal
import sys
import time
import traceback

from spinup import registry
from spinup.envs import make_env
from tests.helpers.child import train


def serve():
    """Fork a child for every description that comes in; return it in the child, None at the end."""
    os.fsync = os.fstat  # the machine does not crash, and waiting for the disk takes long
    with contextlib.redirect_stdout(sys.stderr):
        warm_up("warm_up")
    gc.freeze()  # what exists now stays shared with the children
    for line in sys.stdin:
        request = json.loads(line)
        if "start" in request:
            answer = os.fork()
            if answer == 0:
                os.setpgid(0, 0)
                log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                null = os.open(os.devnull, os.O_RDONLY)
                for target, fd in enumerate((null, log, log)):
                    os.dup2(fd, target)
                return request["start"]
        else:
            answer = wait_for(request["wait"], request["seconds"])
        print(json.dumps(answer), flush=True)
    return None


def warm_up(folder):
    """Train a little of everything: what is imported and built on the way is so only once."""
    for row in registry.ROWS:
        for env in warm_up_environments(row):
            algo = registry.load(row.name, "pytorch")
            small = {"batch_size": 4, "update_after": 5, "update_every": 5, "n_steps": 5}
            known = inspect.signature(algo).parameters
            algo(
                functools.partial(make_env, env),
                steps_per_epoch=10,
                epochs=1,
                max_ep_len=10,
                logger_kwargs={"output_dir": folder, "quiet": True},
                overwrite=True,
                **{k: v for k, v in small.items() if k in known},
            )


def warm_up_environments(row):
    """One environment for each kind of action space that an algorithm is tried with."""
    if row.observation == "goal":
        return ["spinup/BitFlip-v0"]
    kinds = {"Discrete": "CartPole-v1", "Box": "InvertedPendulum-v5"}
    return [env for kind, env in kinds.items() if kind in row.action_spaces]


def wait_for(pid, seconds):
    """Exit status of a child, None if it had to be killed for taking too long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def end_quickly(work):
    """Call `work` and end the process as Python would, but without tearing all of torch down.

    That takes longer than training here does. `fresh` runs end in the ordinary way.
    """
    code = 0
    try:
        work()
    except SystemExit as stop:
        code = stop.code
    except KeyboardInterrupt:
        traceback.print_exc()
        sys.stderr.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    if (description := serve()) is not None:
        end_quickly(functools.partial(train, description))

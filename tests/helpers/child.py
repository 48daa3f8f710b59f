"""Trains one run as a JSON description says, with the trouble that it asks for.

    python -m tests.helpers.child '{"algo": "ppo", "env": "CartPole-v1", "out": "/tmp/run", ...}'
    python -m tests.helpers.child '[{...}, {...}]'    # several, one after the other

This is the program that the tests of checkpoints, resuming and signals start, stop and kill: they
write the description with `helpers.runs.small`, start it with `helpers.runs.Runs` (mostly through
`child_server`, which forks instead of importing everything again), and then compare the run's
directory with that of an undisturbed run (`helpers.comparing`).

Keys of a description: `algo`, `env` (an id, or a name of `child_environments.ENVIRONMENTS`),
`out`, `kwargs` (of the algorithm), and what shall happen on the way:

- `at_step`: `{"n": 50, "do": "SIGKILL"}`, in the n-th step of the environment (see `Trouble`)
- `at_call`: `{"name": "fsync", "n": 3, "torn": false}`, SIGKILL before the n-th `os.fsync`; `torn`
  first cuts off half of what it would have made durable, which is what losing power can leave;
  `"full": true` finds the disk full there instead
- `actor_critic`: a name of `child_networks.ACTOR_CRITICS`
- `disturb`: seed the global generators with this number, and draw from them, before the call
- `again`: a second `out`: call the algorithm twice in this process
- `thread`: call it in a thread that is not the main one
- `dump`: write the returned network's tensors to this file
- `patience`: seconds that a stop waits for an environment in a worker process
- `file_limit`: no file may grow beyond so many bytes, which a full disk looks like
"""

import itertools
import json
import os
import signal
import sys
import threading

import numpy as np

from spinup import registry
from spinup.algos.common import replay
from spinup.envs import make_env, workers
from tests.helpers.child_environments import ENVIRONMENTS
from tests.helpers.child_networks import ACTOR_CRITICS, PlainEnv
from tests.helpers.trouble import Trouble, die_at_call, disturb


def train(spec):
    """Call the algorithm as `spec` says; print one line of JSON with what was counted."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
    replay._CHUNK_BYTES = 4096  # so that a small buffer is several pieces, too
    calls = die_at_call(**spec["at_call"]) if "at_call" in spec else [0]
    workers._PATIENCE = spec.get("patience", workers._PATIENCE)
    if "file_limit" in spec:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (spec["file_limit"],) * 2)
    algo = registry.load(spec["algo"], "pytorch")
    for out in [spec["out"], *([spec["again"]] if "again" in spec else [])]:
        if "disturb" in spec:
            disturb(spec["disturb"])
        kwargs = {**spec["kwargs"], "logger_kwargs": {"output_dir": out, "quiet": True}}
        if "actor_critic" in spec:
            kwargs["actor_critic"] = ACTOR_CRITICS[spec["actor_critic"]]
            if spec["actor_critic"] == "with_env":
                kwargs["ac_kwargs"] = {"env": PlainEnv()}
        if spec.get("thread"):
            result = in_thread(algo, env_fn(spec), kwargs)
        else:
            result = algo(env_fn(spec), **kwargs)
    if "dump" in spec:
        np.savez(spec["dump"], **{k: v.numpy() for k, v in result.state_dict().items()})
    heavy = [m for m in ("mujoco", "tensorflow", "mpi4py", "wandb", "pygame") if m in sys.modules]
    print(json.dumps({"env_steps": Trouble.steps, "calls": calls[0], "modules": heavy}))


def env_fn(spec):
    """The function that makes the environments of a run, with trouble in them if asked for."""
    name = spec["env"]
    made, trainer = itertools.count(), os.getpid()

    def make():
        env = ENVIRONMENTS[name]() if name in ENVIRONMENTS else make_env(name)
        plays = "training" if next(made) < spec["kwargs"].get("num_envs", 1) else "test"
        return Trouble(env, plays, trainer, **spec.get("at_step", {}))

    return make


def in_thread(algo, make, kwargs):
    """Call `algo` in a thread of its own; an exception there is raised here."""
    outcome = {}

    def work():
        try:
            outcome["result"] = algo(make, **kwargs)
        except BaseException as error:  # handed on, whatever it is
            outcome["error"] = error

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if "error" in outcome:
        raise outcome["error"]
    return outcome["result"]


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    for one in asked if isinstance(asked, list) else [asked]:
        train(one)

"""Trains one run as a JSON description says: what the tests of this folder start, signal and kill.

    python child.py '{"algo": "ppo", "env": "CartPole-v1", "out": "/tmp/run", "kwargs": {...}}'
    python child.py '[{...}, {...}]'    # several, one after the other
    python child.py --serve     # forks a fresh child for every description on standard input

Keys of a description: `algo`, `env` (an id, or a name of `ENVIRONMENTS`), `out`, `kwargs` (of the
algorithm), and what shall happen on the way:

- `at_step`: `{"n": 50, "do": "SIGKILL"}`, in the n-th step of the environment (see `Trouble`)
- `at_call`: `{"name": "fsync", "n": 3, "torn": false}`, SIGKILL before the n-th `os.fsync`; `torn`
  first cuts off half of what it would have made durable, which is what losing power can leave;
  `"full": true` finds the disk full there instead
- `actor_critic`: a name of `ACTOR_CRITICS`
- `disturb`: seed the global generators with this number, and draw from them, before the call
- `again`: a second `out`: call the algorithm twice in this process
- `thread`: call it in a thread that is not the main one
- `dump`: write the returned network's tensors to this file
- `patience`: seconds that a stop waits for an environment in a worker process
- `file_limit`: no file may grow beyond so many bytes, which a full disk looks like
"""

import contextlib
import errno
import fcntl
import functools
import gc
import inspect
import itertools
import json
import os
import random
import signal
import stat
import sys
import threading
import time
import traceback

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from torch import nn
from torch.distributions import Categorical, Normal

from spinup import registry
from spinup.algos.common import replay
from spinup.envs import make_env, workers

replay._CHUNK_BYTES = 4096  # so that a small buffer is several pieces, too


class Trouble(gym.Wrapper):
    """Counts the steps of all environments of this process and makes trouble at the n-th.

    `among` counts only those of "training" or of "test" episodes, which `plays` says.
    """

    steps = counted = 0

    def __init__(self, env, plays, n=0, do=None, path=None, once=None, among=None):
        super().__init__(env)
        self.n, self.do, self.path = n, do, path
        self.counts = among in (None, plays)
        self.once = once  # a file that only the first of several worker processes can make
        self.trainer = os.getpid() if env_process is None else env_process

    def step(self, action):
        result = self.env.step(action)
        Trouble.steps += 1
        Trouble.counted += self.counts
        return self.trouble(*result) if self.counts and Trouble.counted == self.n else result

    def trouble(self, obs, rew, terminated, truncated, info):
        if self.once:
            try:
                os.close(os.open(self.once, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return obs, rew, terminated, truncated, info
        if self.do == "nan":
            rew = float("nan")
        elif self.do == "inf_obs":
            obs = np.full_like(obs, np.inf)
        elif self.do == "raise":
            raise ArithmeticError("this environment fails on purpose")
        elif self.do == "fill":
            fill_disk(self.path)
        elif self.do == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.do == "wait":
            time.sleep(60)
        else:
            for name in self.do.split("+"):
                if name == "SLOW":
                    time.sleep(2)
                elif name.startswith("GROUP"):
                    os.killpg(os.getpgid(self.trainer), getattr(signal, name[5:]))
                else:
                    os.kill(self.trainer, getattr(signal, name))
                time.sleep(0.01)  # signals of one kind that wait together arrive as one
        return obs, rew, terminated, truncated, info


env_process = None  # the process that trains, for environments that live in worker processes


def fill_disk(path):
    """Leave no free byte where `path` is."""
    with contextlib.suppress(OSError), open(path, "wb", buffering=0) as f:
        for size in (1 << 16, 1 << 10, 1):
            with contextlib.suppress(OSError):
                while f.write(b"x" * size):
                    pass


class DictObservation(gym.ObservationWrapper):
    """CartPole with its observation spread over a Dict, in two dtypes."""

    def __init__(self):
        super().__init__(gym.make("CartPole-v1"))
        self.observation_space = spaces.Dict(
            {
                "state": spaces.Box(-10, 10, (2, 2), np.float32),
                "side": spaces.Discrete(2),
            }
        )

    def observation(self, obs):
        return {"state": np.clip(obs, -10, 10).reshape(2, 2), "side": int(obs[2] > 0)}


class FromGlobal(gym.Wrapper):
    """Draws from NumPy's global generator, which no reset seed reaches."""

    def __init__(self):
        super().__init__(gym.make("CartPole-v1"))

    def step(self, action):
        obs, rew, terminated, truncated, info = self.env.step(action)
        noise = (0.01 * np.random.standard_normal(obs.shape)).astype(obs.dtype)
        return obs + noise, rew, terminated, truncated, info


class Unrepeatable(FromGlobal):
    """Draws from a generator whose state nobody can save."""

    def step(self, action):
        obs, rew, terminated, truncated, info = self.env.step(action)
        return obs, rew + random.SystemRandom().random(), terminated, truncated, info


class Draws(gym.Wrapper):
    """Its rewards are noisy, and its first observations too, from both global generators."""

    def reset(self, **kwargs):
        obs, info = self.env.reset(**kwargs)
        return obs + np.float32(0.01 * random.random()), info

    def step(self, action):
        obs, rew, terminated, truncated, info = self.env.step(action)
        return obs, rew + random.gauss(0, 1) + np.random.rand(), terminated, truncated, info


class AddsCounts(gym.Wrapper):
    """What `RecordEpisodeStatistics` has counted so far is part of the reward."""

    def step(self, action):
        obs, rew, terminated, truncated, info = self.env.step(action)
        counted = self.env.episode_count + 0.01 * sum(self.env.return_queue)
        return obs, rew + 0.1 * counted, terminated, truncated, info


class Curriculum(gym.Wrapper):
    """Pays more in every episode, and offers no way to save how much."""

    level = 0

    def reset(self, **kwargs):
        self.level += 1
        return self.env.reset(**kwargs)

    def step(self, action):
        obs, rew, terminated, truncated, info = self.env.step(action)
        return obs, rew * self.level, terminated, truncated, info


class SavedCurriculum(Curriculum):
    """The same with the methods that save it."""

    def get_state(self):
        return {"level": self.level}

    def set_state(self, state):
        self.level = state["level"]


def stacked_up(env):
    """All of Gymnasium's wrappers that keep something, around one another."""
    env = AddsCounts(gym.wrappers.RecordEpisodeStatistics(SavedCurriculum(env)))
    env = gym.wrappers.NormalizeReward(gym.wrappers.NormalizeObservation(env))
    return gym.wrappers.FlattenObservation(gym.wrappers.FrameStackObservation(env, 3))


def wrapped(wrapper, env_id):
    """A function that makes this environment in this wrapper."""
    return lambda: wrapper(gym.make(env_id))


KEEPERS = {
    "NormalizeObservation": gym.wrappers.NormalizeObservation,
    "NormalizeReward": gym.wrappers.NormalizeReward,
    "ClipReward": lambda env: gym.wrappers.ClipReward(env, -1, 0.5),
    "Curriculum": Curriculum,
    "Draws": Draws,
    "Stacked": stacked_up,
    "Plain": lambda env: env,
    "Unsaid": lambda env: gym.wrappers.TransformReward(env, lambda r: r),
    "UnsaidTwice": lambda env: gym.wrappers.TransformReward(env, lambda r: 2 * r),
}


@functools.cache
def shared_cheetah():
    """The one environment of this process, for training and testing."""
    return make_env("HalfCheetah-v5")


class DrawsWhenMade(gym.Wrapper):
    """Draws from the global generators in its constructor."""

    def __init__(self):
        super().__init__(make_env("Hopper-v5"))
        random.random(), np.random.rand(), torch.rand(1)


ENVIRONMENTS = {
    "bits": lambda: make_env("spinup/BitFlip-v0", n=5),  # goals that are reached now and then
    "draws_when_made": DrawsWhenMade,
    "shared": shared_cheetah,
    "dict": DictObservation,
    "discrete": lambda: gym.make("FrozenLake-v1"),
    "from_global": FromGlobal,
    "unrepeatable": Unrepeatable,
    **{
        f"{name}:{env_id}": wrapped(wrapper, env_id)
        for name, wrapper in KEEPERS.items()
        for env_id in ("CartPole-v1", "Pendulum-v1")
    },
}


class OwnActorCritic(nn.Module):
    """What a user writes: no base class, size-1 arrays, samples from torch's global generator."""

    def __init__(self, observation_space, action_space, width=8):
        super().__init__()
        self.discrete = isinstance(action_space, spaces.Discrete)
        out = int(action_space.n) if self.discrete else action_space.shape[0]
        dim = observation_space.shape[0]
        self.policy_net = nn.Sequential(nn.Linear(dim, width), nn.ReLU(), nn.Linear(width, out))
        self.value_net = nn.Sequential(nn.Linear(dim, width), nn.Dropout(0.1), nn.Linear(width, 1))
        self.log_std = nn.Parameter(torch.zeros(out))
        self.pi, self.v = OwnPi(self), OwnV(self)

    def step(self, obs):
        with torch.no_grad():
            dist, _ = self.pi(obs)
            a = dist.sample()
            return a.numpy(), self.v(obs).numpy().reshape(1), self.pi(obs, a)[1].numpy()

    def act(self, obs):
        return self.step(obs)[0]


class Counting(OwnActorCritic):
    """Counts its calls in buffers, one changed in place and one replaced, and acts on them."""

    batches = True

    def __init__(self, observation_space, action_space):
        super().__init__(observation_space, action_space)
        self.register_buffer("calls", torch.zeros(1))
        self.register_buffer("mean", torch.zeros(observation_space.shape))

    def step(self, obs):
        self.calls += 1
        self.mean = 0.9 * self.mean + 0.1 * obs.reshape(-1, len(self.mean)).mean(0)
        with torch.no_grad():
            dist, _ = self.pi(obs - self.mean)
            a = dist.sample()
            value = self.calls + obs.sum(-1) if self.batches else self.calls
            return a.numpy(), value.numpy(), self.pi(obs, a)[1].numpy()


class CountingOneByOne(Counting):
    """The same for one observation at a time."""

    batches = False


class PlainEnv:
    """An environment with no base class, whose attributes change as it is used."""

    def __init__(self):
        self.resets = 0
        self.observation_space, self.action_space = spaces.Box(-1, 1, (2,)), spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.resets += 1
        return np.zeros(2, np.float32), {}


class GivenAnEnvironment(OwnActorCritic):
    """Asks an environment for something whenever it acts, as some user classes do."""

    def __init__(self, observation_space, action_space, env):
        super().__init__(observation_space, action_space)
        self.env = env

    def step(self, obs):
        self.env.reset()
        return super().step(obs)


class OwnPi(nn.Module):
    def __init__(self, ac):
        super().__init__()
        self.net, self.log_std, self.discrete = ac.policy_net, ac.log_std, ac.discrete

    def forward(self, obs, act=None):
        out = self.net(obs)
        dist = Categorical(logits=out) if self.discrete else Normal(out, self.log_std.exp())
        if act is None:
            return dist, None
        logp = dist.log_prob(act)
        return dist, logp if self.discrete else logp.sum(-1)


class OwnV(nn.Module):
    def __init__(self, ac):
        super().__init__()
        self.net = ac.value_net

    def forward(self, obs):
        return self.net(obs).squeeze(-1)


class OwnQ(nn.Module):
    def __init__(self, dim, width, out=1):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, width), nn.Dropout(0.1), nn.Linear(width, out))

    def forward(self, *inputs):
        out = self.net(torch.cat(inputs, -1))
        return out.squeeze(-1) if len(inputs) == 2 else out


class OwnDDPG(nn.Module):
    """What a user writes for ddpg and td3; it explores by itself, and its critics drop out."""

    def __init__(self, observation_space, action_space, width=8):
        super().__init__()
        dim, out = observation_space.shape[0], action_space.shape[0]
        self.pi = self.make_pi(dim, width, out)
        self.q, self.q1, self.q2 = (OwnQ(dim + out, width) for _ in range(3))

    def make_pi(self, dim, width, out):
        return nn.Sequential(nn.Linear(dim, width), nn.ReLU(), nn.Linear(width, out), nn.Tanh())

    def act(self, obs):
        with torch.no_grad():
            a = self.pi(obs)
            return (a + 0.1 * torch.randn_like(a)).numpy()


class CountingDDPG(OwnDDPG):
    """Acts on a count of its calls."""

    def __init__(self, observation_space, action_space):
        super().__init__(observation_space, action_space)
        self.register_buffer("calls", torch.zeros(1))

    def act(self, obs):
        self.calls += 1
        with torch.no_grad():
            return torch.tanh(self.pi(obs) + torch.sin(self.calls)).numpy()


class OwnSAC(OwnDDPG):
    """What a user writes for sac; not even its test episodes are without noise."""

    def make_pi(self, dim, width, out):
        return OwnSquashed(dim, width, out)

    def act(self, obs, deterministic=False):
        with torch.no_grad():
            return self.pi(obs)[0].numpy()


class OwnSquashed(nn.Module):
    def __init__(self, dim, width, out):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, width), nn.ReLU(), nn.Linear(width, out))

    def forward(self, obs):
        pi = Normal(self.net(obs), 0.5)
        u = pi.rsample()
        a = torch.tanh(u)
        return a, (pi.log_prob(u) - torch.log(1 - a**2 + 1e-6)).sum(-1)


class OwnDQN(nn.Module):
    """What a user writes for dqn; it sometimes acts at random, too."""

    def __init__(self, observation_space, action_space, width=8):
        super().__init__()
        self.q = OwnQ(observation_space.shape[0], width, int(action_space.n))

    def act(self, obs):
        with torch.no_grad():
            values = self.q(obs)
            return (values + 0.1 * torch.randn_like(values)).argmax(-1).numpy()


ACTOR_CRITICS = {
    "own_ddpg": OwnDDPG,
    "own_td3": OwnDDPG,
    "own_sac": OwnSAC,
    "own_dqn": OwnDQN,
    "own": OwnActorCritic,
    "counting": Counting,
    "counting_one_by_one": CountingOneByOne,
    "counting_ddpg": CountingDDPG,
    "partial": functools.partial(OwnActorCritic, width=6),
    "with_env": GivenAnEnvironment,
}


def env_fn(spec):
    """The function that makes the environments of a run, with trouble in them if asked for."""
    name = spec["env"]
    made = itertools.count()

    def make():
        env = ENVIRONMENTS[name]() if name in ENVIRONMENTS else make_env(name)
        plays = "training" if next(made) < spec["kwargs"].get("num_envs", 1) else "test"
        return Trouble(env, plays, **spec.get("at_step", {}))

    return make


def die_at_call(name, n, torn=False, full=False):
    """Replace `os.<name>` by one that kills this process, or fails, before its n-th call."""
    original, calls, durable = getattr(os, name), [0], {}

    def counted(*args, **kwargs):
        calls[0] += 1
        if full and calls[0] == n:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if torn:
            file = os.fstat(args[0])
            if calls[0] == n and stat.S_ISREG(file.st_mode):
                # What an earlier fsync made durable cannot be lost; only a file that is appended
                # to has such a part (and new files may have the inodes of deleted ones).
                appended = fcntl.fcntl(args[0], fcntl.F_GETFL) & os.O_APPEND
                kept = durable.get(file.st_ino, 0) if appended else 0
                os.truncate(args[0], (kept + file.st_size) // 2)
            durable[file.st_ino] = file.st_size
        if calls[0] == n:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **kwargs)

    setattr(os, name, counted)
    return calls


def disturb(seed):
    """Bring the global generators into a state that nothing of ours made."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    random.random(), np.random.rand(seed % 7), torch.rand(seed % 5)


def train(spec):
    """Call the algorithm as `spec` says; print one line of JSON with what was counted."""
    global env_process
    env_process = os.getpid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
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


def serve():
    """Fork a child for every description that comes in; return it in the child, None at the end.

    Requests are lines of JSON: `{"start": spec, "log": path}` is answered with the process id,
    `{"wait": pid, "seconds": s}` with the exit status as `os.waitpid` has it, None if it took
    longer (and was killed then).
    """
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
    if sys.argv[1] != "--serve":
        asked = json.loads(sys.argv[1])
        for one in asked if isinstance(asked, list) else [asked]:
            train(one)
    elif (spec := serve()) is not None:
        end_quickly(functools.partial(train, spec))

"""Setup for all tests: one thread per worker, no display, no network."""

import inspect
import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

# Before a test module imports a numerical library: the workers of pytest-xdist share the cores.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ.setdefault("SDL_AUDIODRIVER", "dummy")
os.environ.setdefault("WANDB_MODE", "offline")
os.environ.pop("SPINUP_DATA_DIR", None)  # a developer's own setting must not affect a test
# Under nohup, SIGHUP is ignored, and every process that a test starts would inherit that.
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def _fsync(file):
    """Tests kill processes, never the machine: no file needs to reach the disk, which takes long.

    Processes that a test starts with a new interpreter have the real `os.fsync`.
    """
    os.fstat(file if isinstance(file, int) else file.fileno())  # a wrong descriptor still raises


os.fsync = _fsync

# Shared machines may stall for longer than Hypothesis' deadline. The examples are the same every
# time, so that a failure can be repeated.
settings.register_profile("spinup", deadline=None, derandomize=True)
settings.load_profile("spinup")


@pytest.fixture
def few_environments(monkeypatch):
    """List only what a new process does: other tests may have registered games and exercises."""
    import gymnasium

    def module(spec):  # an entry point is a function or the text "module:name"
        return str(getattr(spec.entry_point, "__module__", spec.entry_point))

    usual = ("gymnasium.envs", "spinup.envs", "spinup_lab.probe")
    few = {id_: spec for id_, spec in gymnasium.registry.items() if module(spec).startswith(usual)}
    assert "CartPole-v1" in few
    monkeypatch.setattr(gymnasium, "registry", few)


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """The folder that holds pyproject.toml."""
    return Path(__file__).resolve().parents[1]


# Tiny training runs that several tests share: made once, never changed.
_TINY = {"steps_per_epoch": 40, "epochs": 2, "max_ep_len": 20, "save_freq": 1, "seed": 3}
# A run uses those of these arguments that its algorithm has.
_FEW = {
    "train_pi_iters": 2,
    "train_v_iters": 2,
    "replay_size": 200,
    "batch_size": 8,
    "start_steps": 10,
    "update_after": 10,
    "update_every": 5,
    "num_test_episodes": 1,
    "anneal_lr": False,  # such runs can be made longer
}
ENVS = {
    "her": "spinup/BitFlip-v0",
    "dqn": "CartPole-v1",
    "acer": "CartPole-v1",
    "ddpg": "Pendulum-v1",
    "td3": "Pendulum-v1",
    "sac": "Pendulum-v1",
}


def train(algo, folder, env=None, **changes):
    """Train `algo` for two tiny epochs in `folder`; return the network."""
    from spinup import registry
    from spinup.envs import make_env

    function = registry.load(algo, "pytorch")
    known = inspect.signature(function).parameters
    few = {k: v for k, v in _FEW.items() if k in known}
    if registry.get(algo).on_policy:
        few.pop("num_test_episodes", None)
    env = env or ENVS.get(algo, "CartPole-v1")
    env_fn = (lambda: make_env(env)) if isinstance(env, str) else env
    settings = {**_TINY, **few, "ac_kwargs": {"hidden_sizes": (8,)}, **changes}
    if "actor_critic" in changes:
        settings["ac_kwargs"] = changes.get("ac_kwargs", {})
    logger = {"output_dir": str(folder), "quiet": True}
    return function(env_fn, logger_kwargs=logger, **settings)


class _Runs:
    """Runs by algorithm, environment and arguments, each made when it is first requested."""

    def __init__(self, folder):
        self.folder, self.made = folder, {}
        self.train = train

    def __call__(self, algo, env=None, **changes):
        key = repr((algo, env, sorted(changes.items())))
        if key not in self.made:
            folder = self.folder / f"{algo}{len(self.made)}"
            self.made[key] = folder, train(algo, folder, env, **changes)
        return self.made[key]


@pytest.fixture(scope="session")
def tiny_runs(tmp_path_factory):
    """`tiny_runs(algo, ...)` gives the directory of a finished run, and its network."""
    return _Runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def runs(tiny_runs):
    """A shorter name for `tiny_runs`; tests/runs has another fixture of this name."""
    return tiny_runs

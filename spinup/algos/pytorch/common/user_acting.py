"""Acting with user-written networks, through their `step` or `act` methods."""

import copy
import inspect

import numpy as np
import torch

from spinup.algos.pytorch.common.layers import as_input
from spinup.utils.errors import SpinupError
from spinup.utils.seeding import global_state, set_global_state


class StepPolicy:
    """Acts through a user's `step` method, with whole batches if that works."""

    def __init__(self, ac, device):
        self.ac, self.device = ac, device
        self.batched = None  # unknown before the first call

    def begin(self, rng):
        """Seed torch's global RNG, which a user's `step` may use."""
        torch.manual_seed(int(rng.integers(2**63)))

    def renew(self):
        """Do nothing: this policy calls the network directly."""

    def __call__(self, obs, rng):
        """Return actions, values and log-probabilities from the user's `step`."""
        obs = as_input(self.ac, obs, self.device)
        if self.batched is None:
            self.batched = len(obs) > 1 and takes_batches(self.ac, obs)
        if self.batched:
            return tuple(_array(x) for x in self.ac.step(obs))
        columns = zip(*(self.ac.step(o) for o in obs), strict=True)
        return tuple(np.stack([_array(x) for x in column]) for column in columns)


class ActPolicy:
    """Acts through a user's `act` method, which may or may not sample."""

    def __init__(self, ac, device):
        self.ac, self.device = ac, device

    def begin(self, rng):
        """Seed torch's global RNG, which a user's `act` may use."""
        torch.manual_seed(int(rng.integers(2**63)))

    def renew(self):
        """Do nothing: this policy calls the network directly."""

    def __call__(self, obs, rng):
        """Return actions, computed for one observation at a time."""
        obs = as_input(self.ac, obs, self.device)
        return np.stack([_array(self.ac.act(o)) for o in obs]), None, None


def _array(x):
    return x.detach().cpu().numpy() if isinstance(x, torch.Tensor) else np.asarray(x)


def takes_batches(ac, obs):
    """Return whether `ac.step` treats the rows of a batch as separate observations.

    This is the case if it returns one action, value and log-probability per row, and the first
    row's value equals the value of the first observation alone. The calls leave no trace: they are
    made on copies, because `step` may change buffers, and the global RNGs are restored. Both start
    from the same state and noise, so a resumed run gets the same answer.
    """
    state, devices = global_state(), [obs.device] if obs.device.type == "cuda" else []
    try:
        with torch.random.fork_rng(devices):
            torch.manual_seed(0)
            a, v, logp = (_array(x) for x in copy.deepcopy(ac).step(obs))
            torch.manual_seed(0)
            _, v_first, _ = (_array(x) for x in copy.deepcopy(ac).step(obs[0]))
    except Exception:
        # A user's code may raise anything: it only has to support one observation at a time. If
        # that fails too, the user sees that error.
        return False
    finally:
        set_global_state(state)
    n = len(obs)
    rows = a.shape[:1] == (n,) and v.size == n and logp.size == n
    return bool(rows and np.allclose(v.reshape(-1)[:1], v_first.reshape(-1), rtol=1e-3, atol=1e-4))


def make_user_get_action(ac, deterministic, to_env):
    """Return a function from one observation to the action that a user's `act` chooses."""
    chooses = "deterministic" in inspect.signature(ac.act).parameters
    if deterministic and not chooses and hasattr(ac, "step"):  # without `step`, `act` adds no noise
        raise SpinupError(
            f"{type(ac).__name__}.act has no argument 'deterministic', so its policy can only be "
            "sampled: write act(self, obs, deterministic=False)"
        )
    kwargs = {"deterministic": True} if deterministic and chooses else {}
    device = next((p.device for p in getattr(ac, "parameters", list)()), None)

    def get_action(obs):
        act = ac.act(as_input(ac, np.asarray(obs), device), **kwargs)
        return to_env(_array(act)[None])[0]

    return get_action

"""Which values the arguments of the algorithms can have: one table for the whole library.

A training function and the command line refuse what is outside in the same words. Only what cannot
mean anything is refused; what is merely unusual is the user's to try.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from spinup.utils.errors import SpinupError


@dataclass(frozen=True)
class Domain:
    """The numbers from `least` to `most`, and what else an argument may be.

    Attributes:
        least, most: the ends, which belong to it.
        whole: whether only whole numbers do; they may be written as 1e6.
        above: whether `least` itself is outside.
        endless: whether infinity belongs to it, as a limit that is never reached.
        words: what may stand in place of a number, None for instance.
    """

    least: float = 0.0
    most: float = math.inf
    whole: bool = False
    above: bool = False
    endless: bool = False
    words: tuple[Any, ...] = ()

    def fault(self, value: Any) -> str | None:
        """What a value must be (`must be between 0 and 1`) if it is not; None if it is."""
        if any(value is word or (isinstance(word, str) and value == word) for word in self.words):
            return None
        number = _number(value)
        if number is None or math.isnan(number) or not self._holds(number):
            return f"must be {self}"
        return None

    def _holds(self, number: float) -> bool:
        if math.isinf(number):
            return self.endless and number > 0
        if self.whole and not number.is_integer():
            return False
        return number > self.least if self.above else self.least <= number <= self.most

    def __str__(self) -> str:
        if self.most < math.inf:
            text = f"between {self.least:g} and {self.most:g}"
        elif self.whole:
            text = f"a whole number, at least {self.least:g}"
        elif self.above:
            text = f"a number above {self.least:g}"
        else:
            text = "a number, zero or more"
        for word in self.words:
            text += f", or {word!r}"
        return text


_SHARE = Domain(0, 1)
_ANY = Domain()  # 0 too: a learning rate of 0 holds a network still, as some experiments want
_LIMIT = Domain(endless=True)
_COUNT = Domain(1, whole=True)
_COUNT_OR_NONE = Domain(1, whole=True, words=(None,))
_FROM_ZERO = Domain(0, whole=True)
_LIMIT_OR_NONE = Domain(0, above=True, endless=True, words=(None,))

DOMAINS: Mapping[str, Domain] = MappingProxyType(
    {
        # the run
        "seed": _FROM_ZERO,
        "steps_per_epoch": _COUNT,
        "epochs": _FROM_ZERO,  # none: the policy is saved as it was made
        "max_ep_len": Domain(1, whole=True, endless=True),
        "save_freq": _COUNT,
        "num_envs": _COUNT,
        "num_threads": _COUNT_OR_NONE,
        "shards": _COUNT_OR_NONE,
        "num_test_episodes": _FROM_ZERO,
        # returns and advantages
        "gamma": _SHARE,
        "lam": _SHARE,
        "n_step": _COUNT,
        "n_steps": _COUNT,
        "dueling_samples": _COUNT,
        # learning rates and gradients
        "lr": _ANY,
        "pi_lr": _ANY,
        "vf_lr": _ANY,
        "q_lr": _ANY,
        "max_grad_norm": _LIMIT_OR_NONE,
        # policy gradients
        "train_pi_iters": _FROM_ZERO,
        "train_v_iters": _FROM_ZERO,
        "clip_ratio": _LIMIT,
        "target_kl": Domain(endless=True, words=(None,)),
        "ent_coef": _ANY,
        "clip_vf": _LIMIT_OR_NONE,
        "minibatch_size": _COUNT_OR_NONE,
        "delta": _ANY,
        "damping_coeff": _ANY,
        "cg_iters": _COUNT,
        "backtrack_iters": _FROM_ZERO,
        "backtrack_coeff": _SHARE,
        # replay and target networks
        "replay_size": _COUNT,
        "batch_size": _COUNT,
        "start_steps": _FROM_ZERO,
        "update_after": _FROM_ZERO,
        "update_every": _COUNT,
        "updates_per_step": _ANY,
        "polyak": _SHARE,
        "target_update_every": _COUNT,
        "policy_delay": _COUNT,
        "replay_ratio": _ANY,
        "c": _ANY,
        "k": _FROM_ZERO,
        # exploration
        "act_noise": _ANY,
        "target_noise": _ANY,
        "noise_clip": _LIMIT,
        "alpha": Domain(words=("auto",)),
        "eps_start": _SHARE,
        "eps_end": _SHARE,
        "eps_steps": _COUNT,
        "prio_alpha": _SHARE,
        "prio_beta": _SHARE,
        "prio_beta_steps": _COUNT,
    }
)


def check_domains(arguments: Mapping[str, Any]) -> None:
    """Refuse the first of the `arguments` that is outside its domain, in one sentence."""
    for name, value in arguments.items():
        fault = DOMAINS[name].fault(value) if name in DOMAINS else None
        if fault:
            raise SpinupError(f"{name}={value!r} {fault}")


def _number(value: Any) -> float | None:
    """`value` as a float, a NumPy or torch scalar too; None if it is no number."""
    if isinstance(value, bool | str | bytes) or value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None

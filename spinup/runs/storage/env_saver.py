"""Writing ``vars.pkl``: the environment, for notebooks written for the original Spinning Up.

This library does not need the file, and reads it only if the user trusts pickles.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import cloudpickle

from spinup.envs.layers import Adapter

if TYPE_CHECKING:
    from spinup.runs.logger import Logger

MOST_BYTES = 1 << 26  # a larger environment (one that holds a dataset) is not worth the time


class _Limited(io.BytesIO):
    """A file in memory that refuses to grow beyond ``MOST_BYTES``."""

    def write(self, data: Any, /) -> int:
        if self.tell() + memoryview(data).nbytes > MOST_BYTES:
            raise ValueError(f"it needs more than {MOST_BYTES >> 20} MiB")
        return super().write(data)


def save_env(logger: Logger, env: Any) -> None:
    """Write the environment as ``env_fn`` made it; one that cannot be pickled leaves a notice."""
    while isinstance(env, Adapter):
        env = env.env  # type: ignore[attr-defined]
    logger.write_pickle("vars.pkl", {"env": env}, _dump)


def _dump(what: Any, file: io.BytesIO) -> None:
    limited = _Limited()
    cloudpickle.dump(what, limited)
    file.write(limited.getbuffer())

"""The buffer for user-written algorithms that step an environment themselves."""

from spinup.algos.common import path_buffer


class PathBuffer(path_buffer.PathBuffer):
    """The buffer from `spinup.algos.common.path_buffer`, with batches as lists of arrays."""

    def get(self):
        """Return [obs, act, adv, ret, logp], with `adv` normalized; empty the buffer."""
        data = self.take()
        return [data[name] for name in ("obs", "act", "adv", "ret", "logp")]

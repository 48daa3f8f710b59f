"""The buffer for user-written algorithms that step an environment themselves."""

import torch

from spinup.algos.common import path_buffer


class PathBuffer(path_buffer.PathBuffer):
    """The buffer from `spinup.algos.common.path_buffer`, with batches of tensors."""

    def get(self):
        """Return the whole buffer as float32 tensors, with `adv` normalized; empty the buffer."""
        return {k: torch.tensor(v, dtype=torch.float32) for k, v in self.take().items()}

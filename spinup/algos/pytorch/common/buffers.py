"""The off-policy algorithms' replay buffer, which returns batches of tensors."""

import torch

from spinup.algos.common import replay
from spinup.algos.pytorch.common.layers import takes_bytes


class ReplayBuffer(replay.ReplayBuffer):
    """The replay buffer from `spinup.algos.common.replay`, with batches of tensors.

    Floats and flags become float32, integers (discrete actions) int64. Images are moved to the
    device as bytes and converted there, or by the networks if `keep_bytes`.
    """

    def __init__(self, obs_dim, act_dim, size, *, device="cpu", keep_bytes=False, **kwargs):
        super().__init__(obs_dim, act_dim, size, **kwargs)
        self.device, self.keep_bytes = torch.device(device), keep_bytes

    def rows(self, index):
        """Return the transitions at the given indices, each field as a tensor."""
        found = {
            name: torch.from_numpy(x).to(self.device) for name, x in super().rows(index).items()
        }
        integers = self.ring.data["act"].dtype.kind in "iu"
        kept = ("obs", "obs2") if self.keep_bytes else ()
        return {
            name: x
            if name in kept
            else x.to(torch.int64 if name == "act" and integers else torch.float32)
            for name, x in found.items()
        }


def make_replay_buffer(run, replay_size, **kwargs):
    """Create a run's replay buffer from its spaces; check that it fits in memory.

    Batches hold images as bytes if the run's networks, built before, take them.
    """
    keep_bytes = hasattr(run, "ac") and takes_bytes(run.ac)
    kwargs = {"device": run.device, "keep_bytes": keep_bytes, **kwargs}
    return replay.for_run(ReplayBuffer, run, replay_size, **kwargs)

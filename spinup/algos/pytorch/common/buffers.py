"""The off-policy algorithms' replay buffer, which returns batches of tensors."""

import torch

from spinup.algos.common import replay


class ReplayBuffer(replay.ReplayBuffer):
    """The replay buffer from `spinup.algos.common.replay`, with batches of tensors.

    Floats and flags become float32, integers (discrete actions) int64. Images are moved to the
    device as bytes and converted there.
    """

    def __init__(self, obs_dim, act_dim, size, *, device="cpu", **kwargs):
        super().__init__(obs_dim, act_dim, size, **kwargs)
        self.device = torch.device(device)

    def rows(self, index):
        """Return the transitions at the given indices, each field as a tensor."""
        found = super().rows(index)
        act = self.ring.data["act"].dtype
        return {
            name: torch.from_numpy(x)
            .to(self.device)
            .to(torch.int64 if name == "act" and act.kind in "iu" else torch.float32)
            for name, x in found.items()
        }


def make_replay_buffer(run, replay_size, **kwargs):
    """Create a run's replay buffer from its spaces; check that it fits in memory."""
    return replay.for_run(ReplayBuffer, run, replay_size, device=run.device, **kwargs)

"""The off-policy algorithms' replay buffer, which returns batches of tensors."""

import torch

from spinup.algos.common import replay
from spinup.envs.spaces import act_dtype, stored_dtype
from spinup.utils.memory import check_memory


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
    space, act_space = run.observation_space, run.action_space
    buffer = ReplayBuffer(
        space.shape,
        act_space.shape,
        replay_size,
        obs_dtype=stored_dtype(space),
        act_dtype=act_dtype(act_space),
        rng=run.seeds.generator("replay"),
        device=run.device,
        **kwargs,
    )
    planned = min(buffer.ring.max_size, run.planned_steps)
    check_memory(f"a replay buffer of {planned} transitions", planned * buffer.ring.row_bytes)
    run.track(buffer=buffer)
    first = max(run.config.get(name, 0) for name in ("update_after", "update_every"))
    if first > run.planned_steps > 0:
        run.logger.log(
            f"This run takes no gradient step: it ends after {run.planned_steps} environment "
            f"steps, and the first gradient step is due after {first}.",
            "yellow",
        )
    return buffer

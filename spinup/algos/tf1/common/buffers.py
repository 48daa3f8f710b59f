"""The off-policy algorithms' replay buffer, which returns batches as the graphs take them."""

import numpy as np

from spinup.algos.common import replay


class ReplayBuffer(replay.ReplayBuffer):
    """The replay buffer from `spinup.algos.common.replay`, with batches of float32 and int32.

    `sample_batch` and the attributes have the names that the original's TensorFlow code reads.
    """

    obs1_buf = replay.ReplayBuffer.obs_buf
    acts_buf = replay.ReplayBuffer.act_buf
    rews_buf = replay.ReplayBuffer.rew_buf

    def rows(self, index):
        """Return the transitions at the given indices: `obs, act, rew, obs2, done`."""
        whole = self.ring.data["act"].dtype.kind in "iu"
        return {
            name: x.astype(np.int32 if name == "act" and whole else np.float32, copy=False)
            for name, x in super().rows(index).items()
        }

    def sample_batch(self, batch_size=32):
        """Sample a batch: `obs1, obs2, acts, rews, done`, each with `batch_size` rows."""
        names = {"obs": "obs1", "obs2": "obs2", "act": "acts", "rew": "rews", "done": "done"}
        return {names.get(k, k): x for k, x in super().sample_batch(batch_size).items()}


def make_replay_buffer(run, replay_size):
    """Create a run's replay buffer from its spaces; check that it fits in memory."""
    return replay.for_run(ReplayBuffer, run, replay_size)

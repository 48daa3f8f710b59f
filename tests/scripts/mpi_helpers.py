"""The MPI helpers in one process, as scripts call them at their top."""

import numpy as np
import torch

from spinup.utils.mpi_pytorch import mpi_avg_grads, setup_pytorch_for_mpi, sync_params
from spinup.utils.mpi_tools import (
    allreduce,
    broadcast,
    mpi_avg,
    mpi_fork,
    mpi_op,
    mpi_statistics_scalar,
    mpi_sum,
    msg,
    num_procs,
    proc_id,
)

mpi_fork(1, bind_to_core=False)
mpi_fork(-1)
setup_pytorch_for_mpi()
msg("hello")
assert (proc_id(), num_procs()) == (0, 1)
x, out = np.arange(3.0), np.zeros(3)
allreduce(x, out)
broadcast(x, root=0)
assert mpi_avg(2.0) == mpi_sum(2.0) == mpi_op(2.0) == 2.0 and (out == x).all()
mean, std, low, high = mpi_statistics_scalar([1, 2, 3], with_min_and_max=True)
assert (mean, low, high) == (2, 1, 3)
layer = torch.nn.Linear(2, 1)
sync_params(layer)
layer(torch.ones(2)).backward()
mpi_avg_grads(layer)
assert layer.weight.grad.tolist() == [[1, 1]]

"""What a run does after each epoch's row if its user asks for it: `on_epoch` and `save_best`."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from spinup.parallel.mpi import any_process, proc_id
from spinup.runs.storage.policies import save_policy
from spinup.utils.files import own_folder

if TYPE_CHECKING:
    from spinup.runs.run import Run

BEST = "best"  # the folder of the best policy, in the run directory


def after_row(run: Run, row: Mapping[str, Any]) -> bool:
    """Keep the best policy, then call `on_epoch`; return whether the run should end early.

    All processes must call this together; the first one does the work.
    """
    if run.config.get("save_best"):
        _save_best(run, row)
    on_epoch = run.config.get("on_epoch")
    if on_epoch is None:
        return False
    stop = proc_id() == 0 and bool(on_epoch(dict(row), getattr(run, "ac", None)))
    return any_process(stop)


def _save_best(run: Run, row: Mapping[str, Any]) -> None:
    """Save the policy in `best/` if no epoch had a higher return.

    The highest return is part of the checkpoint. A run that was killed after saving a policy here
    and resumed from an earlier checkpoint reaches the same epoch, and saves the same policy again.
    """
    ret = float(row.get("AverageTestEpRet", row.get("AverageEpRet", math.nan)))
    if not ret > run.tracked["best"].value:  # also false for NaN: no episode ended in this epoch
        return
    run.tracked["best"].value = ret
    run.check_parameters()
    if proc_id() == 0:
        run.logger.check_owner()
        folder = run.logger.path(BEST)
        meta = {**run.policy_meta(), "epoch": run.epoch, "return": ret}
        with run.logger.writing(BEST):
            own_folder(folder)
            if hasattr(run.logger, "tf_saver_elements"):
                run.logger.tf_saver_elements.save(os.path.join(folder, "tf1_save"), meta)
            else:
                save_policy(folder, "", run.ac, meta)

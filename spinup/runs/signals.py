"""Stopping a run with a signal, and how the process then exits."""

import os
import signal
import threading
from typing import Any

from spinup.utils.mpi_job import JOB_VARIABLE
from spinup.utils.mpi_tools import most, num_procs, sign_of_life

# The signal as which the MPI launcher forwards all others; Windows has none.
FORWARDED = {signal.SIGUSR1} if hasattr(signal, "SIGUSR1") else set()


class StopTraining(Exception):
    """Raised between two environment steps when the run was asked to stop."""


class Signals:
    """Stops a run on SIGINT or SIGTERM once its step is saved; a second signal stops it at once."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, Any] = {}

    def catch(self) -> None:
        """Install the handlers if this is the main thread, the only one where Python allows it."""
        if threading.current_thread() is not threading.main_thread():
            return
        stops = [signal.SIGINT, signal.SIGTERM]
        if num_procs() > 1:
            stops += FORWARDED
        self._before = {number: signal.getsignal(number) for number in stops}
        for number in self._before:
            signal.signal(number, self._handle)

    def _handle(self, number: int, frame: Any) -> None:
        self.received = number
        self.release()
        for forwarded in FORWARDED & self._before.keys():  # the launcher may send one per machine
            signal.signal(forwarded, signal.SIG_IGN)

    def release(self) -> None:
        """Restore the previous handlers."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def poll(self) -> bool:
        """Return whether the run was asked to stop; tell the launcher this process is alive."""
        sign_of_life()
        return self.received is not None

    def agree(self) -> None:
        """Share the signal that one process received with all processes."""
        self.received = most(self.received or 0)

    def leave(self) -> None:
        """Once the run is saved, end the process as the signal would have."""
        if self.received is None:
            return
        if self.received in FORWARDED and JOB_VARIABLE in os.environ:
            raise SystemExit(0) from None  # the launcher knows why, and sets its own exit status
        if self.received == signal.SIGINT and num_procs() == 1:
            raise KeyboardInterrupt from None
        raise SystemExit(128 + self.received) from None

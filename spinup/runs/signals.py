"""Stopping a run by a signal, and how the process ends afterwards."""

import os
import signal
import threading
from typing import Any

from spinup.utils.mpi_job import JOB_VARIABLE
from spinup.utils.mpi_tools import most, num_procs, sign_of_life


class StopTraining(Exception):
    """Raised between two environment steps when the run was asked to stop."""


class Signals:
    """SIGINT and SIGTERM make a run finish its step, save and stop; a second one stops at once."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, Any] = {}

    def catch(self) -> None:
        """Install the handlers, if this is the main thread: Python allows them nowhere else."""
        if threading.current_thread() is not threading.main_thread():
            return
        stops = [signal.SIGINT, signal.SIGTERM]
        if num_procs() > 1:
            stops.append(signal.SIGUSR1)  # with this the launcher forwards the others
        self._before = {number: signal.getsignal(number) for number in stops}
        for number in self._before:
            signal.signal(number, self._handle)

    def _handle(self, number: int, frame: Any) -> None:
        self.received = number
        self.release()
        if signal.SIGUSR1 in self._before:  # the launcher may send one per machine
            signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    def release(self) -> None:
        """Restore the previous handlers."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def poll(self) -> bool:
        """Whether the run was asked to stop; also tells the launcher that the run is alive."""
        sign_of_life()
        return self.received is not None

    def agree(self) -> None:
        """Let all processes know the signal that one of them received."""
        self.received = most(self.received or 0)

    def leave(self) -> None:
        """End the process the way the signal would have, once the run is saved."""
        if self.received is None:
            return
        if self.received == signal.SIGUSR1 and JOB_VARIABLE in os.environ:
            raise SystemExit(0) from None  # the launcher knows why, and sets its own status
        if self.received == signal.SIGINT and num_procs() == 1:
            raise KeyboardInterrupt from None
        raise SystemExit(128 + self.received) from None

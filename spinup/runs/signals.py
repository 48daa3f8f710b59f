"""Stopping a run with a signal, and how the process then exits."""

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from spinup.parallel.job import JOB_VARIABLE
from spinup.parallel.mpi import most, num_procs, sign_of_life

# The signal as which the MPI launcher forwards all others; Windows has none.
FORWARDED = {signal.SIGUSR1} if hasattr(signal, "SIGUSR1") else set()
# The signal that arrives when a terminal closes: from the kernel, and again from the shell.
HANGUP = {signal.SIGHUP} if hasattr(signal, "SIGHUP") else set()


class StopTraining(Exception):
    """Raised between two environment steps when the run was asked to stop."""


class Signals:
    """Stops a run once its step is saved; a second signal stops it at once.

    The signals are SIGINT, SIGTERM and SIGHUP, which arrives when the terminal closes.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, Any] = {}
        self._on_stop: Callable[[], None] | None = None

    def catch(self, on_stop: Callable[[], None] | None = None) -> None:
        """Install the handlers if this is the main thread, the only one where Python allows it.

        `on_stop` is called when the first signal arrives.
        """
        if threading.current_thread() is not threading.main_thread():
            return
        self._on_stop = on_stop
        stops = [signal.SIGINT, signal.SIGTERM]
        # nohup ignores SIGHUP, and it stays ignored
        stops += [n for n in HANGUP if signal.getsignal(n) != signal.SIG_IGN]
        if num_procs() > 1:
            stops += FORWARDED
        self._before = {number: signal.getsignal(number) for number in stops}
        for number in self._before:
            signal.signal(number, self._handle)

    def _handle(self, number: int, frame: Any) -> None:
        self.received = number
        self.release()
        # Only one of each counts: the launcher may send its signal once per machine.
        for repeated in (FORWARDED | HANGUP) & self._before.keys():
            signal.signal(repeated, signal.SIG_IGN)
        if number in HANGUP:
            _leave_closed_terminal()
        if self._on_stop is not None:
            self._on_stop()

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


def _leave_closed_terminal() -> None:
    """Discard output to a terminal that is gone: writing there would raise an error."""
    for fd in (1, 2):
        try:
            os.write(fd, b"")
        except OSError:
            with open(os.devnull, "wb") as null:
                os.dup2(null.fileno(), fd)

"""A progress bar for training: steps done, speed, time left, and the average return.

    with ProgressBar(total_steps=100_000) as bar:
        ...
        bar.update(steps_done, ep_ret=average_return, epoch=epoch)

On a terminal, the bar is one line that redraws itself, and in a notebook it is a widget. In a file
or a pipe, it prints a plain line every few seconds, so that the log of a cluster job stays short
and readable.
"""

from __future__ import annotations

import importlib.util
import math
import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, TextIO


class ProgressBar:
    """Shows the progress of a run of `total_steps` environment steps.

    Args:
        total_steps: number of environment steps in the whole run.
        enabled: if False, every method except `write` does nothing, so callers need no `if`.
        stream: where to draw; None means standard error.
        initial: steps done before this process started (in a resumed run); they count toward the
            percentage but not the speed.
        interval: seconds between two lines if `stream` is not a terminal.
        clock: returns the time in seconds; tests replace it.
    """

    def __init__(
        self,
        total_steps: int,
        enabled: bool = True,
        stream: TextIO | None = None,
        *,
        initial: int = 0,
        interval: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total_steps = int(total_steps)
        self.enabled = bool(enabled)
        self._given_stream = stream
        self._stream: TextIO = sys.stderr if stream is None else stream
        self._initial = int(initial)
        self._interval = interval
        self._clock = clock
        self._start = clock()
        self._done = int(initial)
        self._ret: float | None = None
        self._epoch: int | None = None
        self._last_line_at: float | None = None
        self._last_line = ""
        self._closed = False
        self._bar: Any = None
        if self.enabled and stream is None and _in_notebook():
            self._bar = _notebook_bar(self.total_steps, self._initial)
        elif self.enabled and _is_terminal(self._stream):
            self._bar = _make_bar(self.total_steps, self._initial, self._stream)

    def update(
        self, steps_done: int, ep_ret: float | None = None, epoch: int | None = None
    ) -> None:
        """Show that the run has completed `steps_done` steps.

        Args:
            steps_done: steps since the beginning of the run, not since the last call.
            ep_ret: recent average return; None or NaN (no episode ended) keeps the last one shown.
            epoch: the current epoch; None keeps the last one shown.
        """
        if not self.enabled or self._closed:
            return
        self._done = int(steps_done)
        if ep_ret is not None and not math.isnan(ep_ret):
            self._ret = float(ep_ret)
        if epoch is not None:
            self._epoch = int(epoch)
        if self._bar is not None:
            self._bar.show(self._ret, self._epoch)
            self._bar.update(self._done - self._bar.n)
            return
        now = self._clock()
        if self._last_line_at is None or now - self._last_line_at >= self._interval:
            self._print_line(now)

    def write(self, msg: str) -> None:
        """Print `msg` on a separate line, above the bar if there is one.

        The line goes to the stream passed at construction, or else to standard output.
        """
        target = sys.stdout if self._given_stream is None else self._given_stream
        if self._bar is not None and not self._closed:
            self._bar.write(msg, file=target)
        else:
            print(msg, file=target, flush=True)

    def close(self, msg: str | None = None) -> None:
        """Draw the final state, end the bar, and print `msg`. Closing twice is harmless."""
        if self._closed:
            return
        if self._bar is not None:
            self._bar.refresh()
            self._bar.close()
        elif self.enabled and self._last_line_at is not None:
            self._print_line(self._clock())
        self._closed = True
        if msg is not None:
            self.write(msg)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def _postfix(self) -> str:
        ret = "-" if self._ret is None else f"{self._ret:.4g}"
        epoch = "" if self._epoch is None else f"epoch {self._epoch}, "
        return f"{epoch}return {ret}"

    def _print_line(self, now: float) -> None:
        elapsed = now - self._start
        new_steps = self._done - self._initial
        rate = new_steps / elapsed if elapsed > 0 and new_steps > 0 else None
        left = None if rate is None else max(0, self.total_steps - self._done) / rate
        percent = 100.0 if self.total_steps <= 0 else 100.0 * self._done / self.total_steps
        line = (
            f"{percent:3.0f}% | {self._done}/{self.total_steps} steps | "
            f"elapsed {hms(elapsed)}, ETA {hms(left)}, "
            f"{'?' if rate is None else f'{rate:.0f}'} steps/s, {self._postfix()}"
        )
        # do not repeat a line that was just printed
        if line.split("elapsed")[0] + self._postfix() != self._last_line:
            print(line, file=self._stream, flush=True)
            self._last_line = line.split("elapsed")[0] + self._postfix()
        self._last_line_at = now


def _is_terminal(stream: TextIO) -> bool:
    isatty = getattr(stream, "isatty", None)
    return bool(isatty()) if callable(isatty) else False


def _has_width(stream: TextIO) -> bool:
    """Test whether the terminal reports a width; some (containers, CI) report 0 columns."""
    try:
        return os.get_terminal_size(stream.fileno()).columns > 0
    except OSError:  # includes io.UnsupportedOperation, from an object without a file descriptor
        return False


def hms(seconds: float | None) -> str:
    """Format a duration as `h:mm:ss` or `mm:ss`; return `?` if it is unknown."""
    if seconds is None:
        return "?"
    minutes, secs = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{secs:02d}" if hours else f"{minutes:02d}:{secs:02d}"


# Parts of the bar's text, the most important first. A terminal shows those that fit in one line.
_PARTS = (
    "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} steps",
    ", return {ret}",
    ", ETA {remaining}",
    ", {rate_noinv_fmt}",
    ", epoch {epoch}",
    ", elapsed {elapsed}",
)
_LEAST_BAR = 8  # columns


def _text(parts: int, ret: float | None, epoch: int | None) -> str:
    """Return the first `parts` parts as a format of tqdm."""
    shown = "-" if ret is None else f"{ret:.4g}"
    text = "".join(_PARTS[:parts]).replace("{ret}", shown)
    return text.replace("{epoch}", "-" if epoch is None else str(epoch))


def _make_bar(total: int, initial: int, stream: TextIO) -> Any:
    from tqdm import tqdm

    class Bar(tqdm):
        # No watchdog thread: Python 3.12 warns about forking a process with threads, which vector
        # environments and MPI do later. Updates are frequent enough without it.
        monitor_interval = 0
        ret: float | None = None
        epoch: int | None = None

        def show(self, ret: float | None, epoch: int | None) -> None:
            self.ret, self.epoch = ret, epoch

        def __str__(self) -> str:
            """Draw the bar with as many parts as fit in the line."""
            known = self.format_dict
            columns = known["ncols"] or 80
            for parts in range(len(_PARTS), 0, -1):
                known["bar_format"] = _text(parts, self.ret, self.epoch)
                without = {**known, "bar_format": known["bar_format"].replace("{bar}", "")}
                if parts == 1 or len(self.format_meter(**without)) + _LEAST_BAR <= columns:
                    break
            return str(self.format_meter(**known))

    return Bar(
        total=total,
        initial=initial,
        file=stream,
        dynamic_ncols=_has_width(stream),
        ncols=100,
        unit=" steps",
    )


def _in_notebook() -> bool:
    """Return whether this is a notebook that can show widgets."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None or "IPKernelApp" not in getattr(shell, "config", {}):
        return False
    return importlib.util.find_spec("ipywidgets") is not None


def _notebook_bar(total: int, initial: int) -> Any:
    from tqdm.notebook import tqdm

    class Bar(tqdm):
        monitor_interval = 0

        def show(self, ret: float | None, epoch: int | None) -> None:
            self.bar_format = _text(len(_PARTS), ret, epoch)

    bar = Bar(total=total, initial=initial, unit=" steps", ncols="100%")
    bar.show(None, None)
    return bar

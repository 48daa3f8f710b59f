"""The progress bar: one live line on a terminal, few plain lines elsewhere."""

import io
import os
import re
import select
import sys

import pytest

from spinup.runs.progress import ProgressBar
from tests.helpers.processes import run_python


def everything(master):
    """All that was drawn on a pseudo-terminal, which hands it over in pieces."""
    text = b""
    while select.select([master], [], [], 0.1)[0]:
        text += os.read(master, 1 << 20)
    return text.decode()


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_without_a_terminal_lines_come_first_last_and_at_most_every_interval():
    clock, out = Clock(), io.StringIO()
    bar = ProgressBar(1000, stream=out, clock=clock)
    for i in range(1, 101):
        clock.now += 0.25  # 25 seconds in all
        bar.update(10 * i, ep_ret=float(i), epoch=i // 10)
    bar.close()
    lines = out.getvalue().splitlines()
    # First at 0.25 s, then at 5.25, 10.25, 15.25, 20.25, and the last state on closing.
    steps = [int(re.search(r"(\d+)/1000 steps", line).group(1)) for line in lines]
    assert steps == [10, 210, 410, 610, 810, 1000]
    assert "\r" not in out.getvalue() and "\x1b" not in out.getvalue()


def test_a_line_says_elapsed_eta_speed_epoch_and_return():
    clock, out = Clock(), io.StringIO()
    bar = ProgressBar(10_000, stream=out, clock=clock)
    clock.now += 20
    bar.update(2500, ep_ret=123.4, epoch=3)
    assert out.getvalue() == (
        " 25% | 2500/10000 steps | elapsed 00:20, ETA 01:00, 125 steps/s, epoch 3, return 123.4\n"
    )


def test_nan_and_missing_returns_keep_the_last_one():
    clock, out = Clock(), io.StringIO()
    bar = ProgressBar(10, stream=out, clock=clock, interval=0.0)
    for steps, ret in ((1, None), (2, 7.0), (3, float("nan")), (4, None)):
        clock.now += 1
        bar.update(steps, ep_ret=ret)
    shown = [line.rsplit(" ", 1)[1] for line in out.getvalue().splitlines()]
    assert shown == ["-", "7", "7", "7"]


def test_speed_of_a_resumed_run_counts_only_its_own_steps():
    clock, out = Clock(), io.StringIO()
    bar = ProgressBar(1000, stream=out, clock=clock, initial=900)
    clock.now += 10
    bar.update(950)
    assert "5 steps/s" in out.getvalue() and "ETA 00:10" in out.getvalue()
    assert " 95% " in out.getvalue()


def test_the_last_state_is_not_said_twice_and_close_twice_is_harmless():
    clock, out = Clock(), io.StringIO()
    bar = ProgressBar(10, stream=out, clock=clock)
    clock.now += 1
    bar.update(10, ep_ret=1.0)
    clock.now += 1
    bar.close()
    bar.close()
    bar.update(11)
    assert len(out.getvalue().splitlines()) == 1


def test_disabled_shows_nothing_but_still_writes_messages():
    out = io.StringIO()
    with ProgressBar(10, enabled=False, stream=out) as bar:
        bar.update(5, ep_ret=1.0, epoch=0)
        bar.write("a message")
    assert out.getvalue() == "a message\n"


def test_close_prints_its_message_after_the_last_line():
    out = io.StringIO()
    bar = ProgressBar(10, stream=out)
    bar.update(10)
    bar.close("done: 10 steps")
    assert out.getvalue().splitlines()[-1] == "done: 10 steps"


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="pseudo-terminals exist on POSIX only")
def test_on_a_terminal_a_bar_is_drawn_and_messages_do_not_break_it():
    master, slave = os.openpty()
    stream = os.fdopen(slave, "w")
    bar = ProgressBar(1000, stream=stream)
    bar._bar.mininterval = 0
    bar.update(500, ep_ret=42.0, epoch=1)
    bar.write("hello")
    bar.update(1000, ep_ret=43.0, epoch=2)
    bar.close()
    stream.flush()
    text = everything(master)
    stream.close()
    os.close(master)
    assert "\r" in text and "█" in text
    assert "100%" in text and "1000/1000 steps" in text
    assert "elapsed" in text and "ETA" in text and "steps/s" in text
    assert "return 43" in text
    # The message stands alone on its line: the bar was cleared before it and redrawn after it.
    assert re.search(r"(^|[\r\n])\s*hello\r?\n", text)


def test_importing_it_imports_neither_torch_nor_tqdm():
    code = (
        "import sys, spinup.runs.progress; "
        "sys.exit(any(m in sys.modules for m in ('torch', 'tqdm')))"
    )
    run_python("-c", code)


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_return_survives_in_a_narrow_terminal(columns, monkeypatch):
    fcntl, struct, termios = (pytest.importorskip(m) for m in ("fcntl", "struct", "termios"))
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    stream = os.fdopen(slave, "w")
    bar = ProgressBar(1_000_000, stream=stream, initial=10)
    bar._bar.mininterval = 0
    bar._bar.start_t -= 10_000  # a long run: every part has its full length
    bar.update(512_345, ep_ret=-12345.6789, epoch=128)
    bar.close()
    stream.flush()
    drawn = [line for line in re.split(r"[\r\n]+", everything(master)) if line]
    stream.close()
    os.close(master)
    last = drawn[-1]
    assert len(last) <= columns and "return -1.235e+04" in last and "512345/1000000 steps" in last
    assert re.search(r"\|[█▏▎▍▌▋▊▉ ]{8,}\|", last), "there is room for the bar itself"
    assert ("ETA" in last) == (columns >= 80) and ("elapsed" in last) == (columns >= 120)


class Kernel:
    """Stands in for the shell of a notebook."""

    config = {"IPKernelApp": {}}


@pytest.mark.parametrize("widgets", [False, True])
def test_a_notebook_gets_a_widget_if_it_can_show_one(widgets, monkeypatch, capsys):
    import importlib.util
    import types

    from spinup.runs import progress

    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=Kernel))
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: (object() if widgets else None) if name == "ipywidgets" else found(name),
    )
    made = []

    class Widget:
        def __init__(self, **options):
            self.n, self.options = options["initial"], options
            made.append(self)

        def update(self, steps):
            self.n += steps

        def refresh(self):
            self.refreshed = True

        def close(self):
            self.closed = True

    monkeypatch.setitem(sys.modules, "tqdm.notebook", types.SimpleNamespace(tqdm=Widget))
    with progress.ProgressBar(100, initial=20) as bar:
        bar.update(50, ep_ret=7.0, epoch=2)
    if widgets:
        (widget,) = made
        assert widget.n == 50 and widget.closed and widget.options["total"] == 100
        assert ", return 7, " in widget.bar_format and ", epoch 2" in widget.bar_format
        assert capsys.readouterr().err == ""
    else:  # plain lines, as in a file: nothing is missing that would break
        assert made == [] and "return 7" in capsys.readouterr().err

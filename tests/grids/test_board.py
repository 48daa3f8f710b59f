"""The picture of a running grid: what it reads, what it shows, on a terminal and in a file."""

import io
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spinup.grids.board import Board, Progress, read_progress
from spinup.grids.cells import Cell, make_jobs

HEADER = "Epoch\tAverageEpRet\tTotalEnvInteracts\tLossPi\tTime\n"


def row(epoch, ret=1.0, steps=100, seconds=2.0):
    return f"{epoch}\t{ret}\t{(epoch + 1) * steps}\tnan\t{(epoch + 1) * seconds}\n"


def progress(folder, text, age=None):
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "progress.txt"
    file.write_text(text)
    if age is not None:
        os.utime(file, (time.time() - age,) * 2)
    return read_progress(folder)


@pytest.mark.parametrize(
    "text", ["", HEADER, HEADER[:-1], HEADER + "0\t1.0", "no\ttable\nat\tall\n", "\x00\x80\n\n"]
)
def test_what_is_not_there_yet_is_none(tmp_path, text):
    found = progress(tmp_path, text)
    assert (found.epoch, found.ret, found.rate, found.epoch_seconds) == (None, None, None, None)


def test_no_file_is_no_error(tmp_path):
    assert read_progress(tmp_path / "nowhere") == Progress()


def test_the_last_whole_row_counts(tmp_path):
    found = progress(tmp_path, HEADER + row(0, 5.0) + row(1, 7.5) + "2\t99.0\t3")
    assert (found.epoch, found.ret) == (1, 7.5)
    assert (found.rate, found.epoch_seconds) == (50.0, 2.0)


def test_one_row_is_enough_for_a_speed(tmp_path):
    found = progress(tmp_path, HEADER + row(0))
    assert (found.epoch, found.rate, found.epoch_seconds) == (0, 50.0, 2.0)


def test_the_speed_is_that_of_late(tmp_path):
    fast = "".join(row(epoch, seconds=1.0) for epoch in range(2000))
    slow = "".join(f"{2000 + i}\t1.0\t{200100 + 100 * i}\tnan\t{2004 + 4 * i}\n" for i in range(11))
    found = progress(tmp_path, HEADER + fast + slow)
    assert (found.epoch, found.rate, found.epoch_seconds) == (2010, 25.0, 4.0)


def test_the_return_of_test_episodes_comes_first(tmp_path):
    text = "Epoch\tAverageEpRet\tAverageTestEpRet\n0\t1.0\t2.0\n"
    assert progress(tmp_path, text).ret == 2.0
    assert progress(tmp_path, "Epoch\tAverageEpRet\n0\tnan\n").ret is None


class Terminal(io.StringIO):
    """Draws what is written to it: lines, cursor up, erase below."""

    def isatty(self):
        return True

    def screen(self):
        lines, row = [""], 0
        for token in re.findall(r"\x1b\[\d*[A-Za-z]|\n|[^\x1b\n]+", self.getvalue()):
            if token == "\n":
                row += 1
                lines += [""] * (row + 1 - len(lines))
            elif token.endswith("F") and token.startswith("\x1b["):
                row -= int(token[2:-1])
                assert row >= 0
            elif token == "\x1b[J":
                del lines[row:]
                lines.append("")
            elif not token.startswith("\x1b["):
                lines[row] += token
        return [line for line in lines if line]


@pytest.fixture
def jobs(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")

    def train(epochs=10):
        pass

    def make(n, epochs=4):
        kwargs = {} if epochs is None else {"epochs": epochs}
        cells = [Cell(f"cell{i}", train, 0, kwargs) for i in range(n)]
        return make_jobs(
            cells, tmp_path / ".grid", [f"{tmp_path}/cell{i}_s0" for i in range(n)], ""
        )

    return make


def test_the_table_is_redrawn_in_place(jobs, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    monkeypatch.delenv("TERM", raising=False)
    clock = [0.0]
    screen = Terminal()
    board = Board("demo", jobs(3), screen, clock=lambda: clock[0])
    board.set(0, "running")
    progress(tmp_path / "cell0_s0", HEADER + row(0, 5.0) + row(1, 7.5))
    board.set(1, "running")
    clock[0] = 65.0
    board.refresh()
    lines = screen.screen()
    assert lines[0].startswith("demo: 2 running, 1 waiting (01:05 elapsed")
    assert lines[1].split() == ["cell", "state", "epoch", "return", "steps/s", "ETA"]
    name, state, epoch, ret, rate, eta = lines[2].split()
    assert (name, state, epoch, ret, rate) == ("cell0_s0", "running", "2/4", "7.5", "50")
    assert eta == "00:02"  # two epochs of two seconds, and the first of them should have ended
    assert lines[3].split() == ["cell1_s0", "running", "-", "-", "-", "-"]
    assert lines[4].split() == ["cell2_s0", "waiting", "-", "-", "-", "-"]
    board.say("something happened")
    board.set(1, "failed")
    board.close()
    lines = screen.screen()
    assert lines[0] == "something happened" and len(lines) == 6
    assert lines[1].startswith("demo: 1 running, 1 waiting, 1 failed")


@pytest.mark.parametrize("age", [3600.0, -3600.0])
def test_the_time_left_does_not_depend_on_the_wall_clock(jobs, tmp_path, age):
    clock = [0.0]
    board = Board("demo", jobs(1), io.StringIO(), clock=lambda: clock[0])
    progress(tmp_path / "cell0_s0", HEADER + row(0) + row(1), age)
    board.set(0, "running")
    assert board.seconds_left() == 4.0
    clock[0] = 1.5
    assert board.seconds_left() == 2.5
    progress(tmp_path / "cell0_s0", HEADER + row(0) + row(1) + row(2), age)
    assert board.seconds_left() == 2.0


def test_the_defaults_of_the_function_say_how_long_a_run_is(jobs):
    assert Board("demo", jobs(1, epochs=None), io.StringIO())._epochs == [10]


def test_a_run_of_a_function_without_epochs_says_itself_how_long_it_is(jobs, tmp_path):
    board = Board("demo", jobs(1), io.StringIO(), clock=lambda: 0.0)
    board._epochs = [None]  # as for a function of one's own
    progress(tmp_path / "cell0_s0", HEADER + row(0) + row(1))
    board.set(0, "running")
    assert board._numbers(0)[0] == "2/?" and board.seconds_left() is None
    for wrong in ("{", "[4]", '{"epochs": "4"}', '{"epochs": true}'):
        (tmp_path / "cell0_s0" / "config.json").write_text(wrong)
        assert board._numbers(0)[0] == "2/?"
    (tmp_path / "cell0_s0" / "config.json").write_text('{"epochs": 6}')
    assert board._numbers(0)[0] == "2/6" and board.seconds_left() == 8.0


def test_a_small_screen_shows_what_matters_and_counts_the_rest(jobs):
    board = Board("demo", jobs(40), io.StringIO())
    board.states = ["done"] * 20 + ["running"] * 3 + ["waiting"] * 16 + ["failed"]
    lines = board.lines(columns=60, rows=12)
    assert len(lines) <= 10 and all(len(line) <= 60 for line in lines)
    shown = [line.split()[1] for line in lines[2:-1]]
    assert shown.count("running") == 3 and shown.count("failed") == 1
    assert lines[-1] == f"... and {40 - len(shown)} more"


def test_long_names_keep_their_end_and_lines_fit(jobs, tmp_path):
    (job,) = jobs(1)
    cell = Cell("a" * 100, job.cell.thunk, 7, {})
    board = Board("demo", make_jobs([cell], tmp_path, ["a" * 100 + "_s7"], ""), io.StringIO())
    for columns in (40, 60, 80, 200):
        lines = board.lines(columns, 24)
        assert all(len(line) <= columns for line in lines)
        assert lines[2].split()[0].endswith("s7")


def test_in_a_file_there_are_plain_lines_now_and_then(jobs, tmp_path):
    clock, stream = [0.0], io.StringIO()
    board = Board("demo", jobs(2), stream, clock=lambda: clock[0])
    board.set(0, "running")
    progress(tmp_path / "cell0_s0", HEADER + row(0, 5.0) + row(1, 7.5))
    board.refresh()
    clock[0] = 61.0
    board.refresh()
    board.refresh()
    board.set(0, "done")
    board.close()
    first, second, third = stream.getvalue().splitlines()
    assert first == "[0/2 done] cell0_s0: running"
    assert second.startswith("    cell0_s0: running, epoch 2/4, return 7.5, 50 steps/s, ETA 00:0")
    assert third == "[1/2 done] cell0_s0: done, epoch 2/4, return 7.5"


@pytest.mark.parametrize("stream, first", [(Terminal, 11), (io.StringIO, 12)])
def test_a_cell_that_writes_nothing_for_long_is_named_once(jobs, tmp_path, stream, first):
    clock, stream = [0.0], stream()
    board = Board("demo", jobs(3), stream, clock=lambda: clock[0])
    for i, state in enumerate(("running", "running", "waiting")):
        board.set(i, state)
    said = []
    for minute in range(1, 41):
        clock[0] = 60.0 * minute
        # until the 15th minute, the second one writes a row every five minutes (200 s per epoch)
        rows = "".join(row(epoch, seconds=200.0) for epoch in range(min(minute, 15) // 5))
        progress(tmp_path / "cell1_s0", HEADER + rows)
        board.refresh()
        named = re.findall(r"(cell\d)_s0 \(process None\) has written nothing", stream.getvalue())
        said += [(minute, name) for name in named[len(said) :]]
    # ten minutes; and ten epochs, where it is known how long they take
    assert said == [(first, "cell0")]
    clock[0] = 60.0 * 50
    board.refresh()
    assert stream.getvalue().count("cell1_s0 (process None) has written nothing for 35:00") == 1


def test_on_a_real_terminal(tmp_path):
    """A grid of two cells whose standard output is a pseudo-terminal."""
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys, time\n"
        "from spinup.grids.experiments import ExperimentGrid\n"
        "def train(logger_kwargs, seed, epochs=2):\n"
        "    os.makedirs(logger_kwargs['output_dir'])\n"
        "    with open(logger_kwargs['output_dir'] + '/progress.txt', 'w') as f:\n"
        f"        f.write({HEADER + row(0) + row(1, 42.0)!r})\n"
        "    print('not for the terminal')\n"
        "eg = ExperimentGrid('tty'); eg.add('seed', [0, 1])\n"
        f"eg.run(train, data_dir={str(tmp_path)!r}, num_workers=2)\n"
    )
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, str(script)], stdout=theirs, stderr=theirs)
    os.close(theirs)
    text = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # closed at the other end
            break
        if not piece:
            break
        text += piece
    os.close(ours)
    assert process.wait(timeout=300) == 0
    assert b"not for the terminal" not in text and re.search(rb"\x1b\[\d+F\x1b\[J", text)
    picture = text.decode().rpartition("\x1b[J")[2]
    assert re.search(r"tty_s1 +\x1b\[32mdone +\x1b\[0m +2/2 +42 ", picture), picture
    assert "not for the terminal" in Path(tmp_path, "tty/.grid/tty_s0/log.txt").read_text()

"""The attacks: what they would notice, and that the documentation has their figures."""

import json
import os
import random
import time
from pathlib import Path

from benchmarks.attack import page
from benchmarks.attack.__main__ import RESULTS, attacks
from benchmarks.attack.common import Tally, trial
from benchmarks.attack.poison import _judge
from benchmarks.attack.power_loss import Disk
from spinup.utils.errors import SpinupError

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_has_the_figures_of_the_last_attacks():
    entries = json.loads(RESULTS.read_text())["attacks"]
    assert page.parts(page.PAGE.read_text())[1] == page.table(entries)
    for entry in entries:
        assert entry["attempts"] == entry["held"] + entry["said"] + entry["broken"] > 0
        assert entry["what"] and entry["commit"] and entry["date"] and entry["command"]


def test_every_entry_is_an_attack_that_can_be_repeated():
    names = [e["name"] for e in json.loads(RESULTS.read_text())["attacks"]]
    assert len(set(names)) == len(names) and set(names) <= set(attacks())


def history(*events):
    disk = Disk()
    for kind, value in events:
        disk.feed(kind, value)
    return disk


def test_a_disk_loses_what_was_not_synced():
    empty = ("state", {"": 1, 1: {}})
    written = ("state", {"": 1, 1: {"a": 2}, 2: b"12"})
    nothing, rng = {"": None}, random.Random(0)
    assert history(empty, written).crash("strict", rng) == nothing
    assert history(empty, written).crash("names", rng) == {"": None, "a": b""}
    assert history(empty, written, ("sync", 2)).crash("strict", rng) == nothing
    assert history(empty, written, ("sync", 2)).crash("names", rng) == {"": None, "a": b"12"}
    synced = history(empty, written, ("sync", 2), ("sync", 1))
    assert synced.crash("strict", rng) == {"": None, "a": b"12"}


def test_a_rename_is_kept_or_not_but_never_half():
    before = ("state", {"": 1, 1: {"a": 2, "b": 3}, 2: b"new", 3: b"old"})
    after = ("state", {"": 1, 1: {"b": 2}, 2: b"new"})
    disk = history(before, ("sync", 2), ("sync", 3), ("sync", 1), after)
    found = {json.dumps(_texts(disk.crash("any", random.Random(i)))) for i in range(20)}
    assert found == {json.dumps({"b": "new"}), json.dumps({"a": "new", "b": "old"})}


def _texts(state):
    return {name: data.decode() for name, data in sorted(state.items()) if data is not None}


def test_a_deleted_file_does_not_lend_its_content_to_another_with_its_number():
    first = ("state", {"": 1, 1: {"a": 2}, 2: b"12"})
    gone, again = ("state", {"": 1, 1: {}}), ("state", {"": 1, 1: {"b": 2}, 2: b"34"})
    disk = history(first, ("sync", 2), gone, again)
    assert disk.crash("names", random.Random(0)) == {"": None, "b": b""}


def test_a_trial_tells_sentences_from_tracebacks_and_hangs():
    def said():
        raise SpinupError("the file is damaged")

    assert trial(said)[::2][:2] == ("said", "the file is damaged")
    assert trial(lambda: 1 / 0).kind == "traceback"
    assert trial(lambda: print("usage") or 2).kind == "traceback"
    assert trial(lambda: len("abc") and {"a": 1}).value == {"a": 1}
    assert trial(_sleep, seconds=0.2).kind == "hang"
    assert trial(lambda: len(bytes(1 << 32)) and None, memory=1 << 28).kind == "memory"


def _sleep():
    time.sleep(30)


def _prints(text):
    os.write(1, text.encode())  # not through what pytest captures


def test_code_that_ran_and_escapes_are_broken_promises(tmp_path, capsys):
    outside, trace = tmp_path / "outside", tmp_path / "executed"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    tally = Tally("x")
    _judge(tally, trial(trace.mkdir), "a", "k", trace, outside)
    _judge(tally, trial(_prints, "\x1b]0;owned\x07"), "b", "k", trace, outside)
    _judge(tally, trial((outside / "new").write_text, ""), "c", "k", trace, outside)
    (outside / "new").unlink()
    _judge(tally, trial(_prints, "\x1b[32mgreen\x1b[0m"), "d", "k", trace, outside)
    assert (tally.broken, tally.held) == (3, 1)

"""The healthy corpus: what is kept of it, and that doctor is quiet about it."""

import json

from benchmarks import corpus
from spinup_lab.doctor.examination import apply
from spinup_lab.doctor.record import Record
from spinup_lab.doctor.rules import RULES


def test_there_are_30_presets_with_three_seeds():
    runs = corpus.all_runs()
    assert len(runs) == len({name for name, *_ in runs}) == 90


def test_numbers_are_rounded_and_whole_ones_kept():
    cells = ["2000", "0.123456789", "nan", "inf", "-1e-09", "word", "1.0"]
    assert [corpus._rounded(cell) for cell in cells] == [
        *("2000", "0.1234568", "nan", "inf", "-1e-09", "word", "1.0")
    ]


def test_a_corpus_with_an_error_is_not_quiet(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "RESULTS", tmp_path)
    entry = {"run": "a-s0", "rows": 9, "error": 0, "warning": 0, "hint": 1, "findings": []}
    assert corpus.summarize([entry] * 40, [])
    assert corpus.summarize([entry] * 39 + [{**entry, "warning": 1}], [])
    assert not corpus.summarize([entry] * 9 + [{**entry, "warning": 1}], [])
    assert not corpus.summarize([entry] * 39 + [{**entry, "error": 1}], [])


def test_what_is_packed_is_what_is_unpacked(tmp_path, monkeypatch):
    def files(folder):
        return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}

    corpus.unpack(tmp_path / "runs")
    monkeypatch.setattr(corpus, "RESULTS", tmp_path / "kept")
    corpus.pack(tmp_path / "runs")
    corpus.unpack(tmp_path / "again")
    assert files(tmp_path / "again") == files(tmp_path / "runs") != {}


def test_the_rules_on_tables_are_quiet_about_the_kept_runs(tmp_path):
    summary = json.loads((corpus.RESULTS / "summary.json").read_text())
    corpus.unpack(tmp_path)
    folders = [tmp_path / entry["run"] for entry in summary["entries"]]
    assert len(folders) == summary["runs"] >= 20
    rules = [rule for rule in RULES.values() if rule.tier == 1]
    loud = []
    for folder in folders:
        found = apply(Record(folder), rules)
        assert found.failed == {} and found.count("error") == 0, folder.name
        loud += [folder.name] if found.count("warning") else []
    assert len(loud) <= 0.05 * len(folders), loud

"""The shown studies of `spinup tune`: the page says what the kept reports say."""

import json

from benchmarks import tune


def test_the_page_has_the_table_that_the_reports_give(repo_root):
    page = (repo_root / "docs" / "tune.md").read_text(encoding="utf-8")
    lines = tune.table()
    assert len(lines) > 2
    assert "\n".join(lines) in page, "copy the output of `python benchmarks/tune.py --table`"


def test_every_report_was_kept_whole(repo_root):
    for path in (repo_root / "benchmarks" / "results" / "tune").glob("*.json"):
        report = json.loads(path.read_text())
        assert report["settings"]["trials"] == 27 and report["settings"]["seeds"] == 3
        for name in (report["winner"], "default"):
            seeds = report["configurations"][name]["test_seeds"]
            assert sorted(map(int, seeds)) == list(range(1000, 1010))
        assert report["wall_seconds"] < 3600 and report["cores"] == 2

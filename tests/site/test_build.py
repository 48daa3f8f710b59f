"""The documentation site: it builds without a warning, and its files fit together.

The site is built once, in another process, because Sphinx and its refusal of the network stay in
the process that they were loaded in. What needs a browser is in test_browser.py.
"""

import html.parser
import os
import re
import zlib
from urllib.parse import unquote, urlsplit

import pytest

from docs import build
from spinup_lab import bugs as zoo
from tests.helpers.processes import run_python

# Every page of the original, as others link to it.
USER = ["introduction", "installation", "algorithms", "running", "saving_and_loading", "plotting"]
SPINNINGUP = [
    "rl_intro",
    "rl_intro2",
    "rl_intro3",
    "extra_pg_proof1",
    "extra_pg_proof2",
    "extra_tf_pg_implementation",
    "spinningup",
    "keypapers",
    "exercises",
    "exercise2_1_soln",
    "exercise2_2_soln",
    "bench",
    "bench_ddpg",
    "bench_ppo",
    "bench_sac",
    "bench_td3",
    "bench_vpg",
]
ALGORITHMS = ["ddpg", "ppo", "sac", "td3", "trpo", "vpg"]
UTILS = ["logger", "mpi", "plotter", "run_utils"]
ETC = ["acknowledgements", "author"]
ORIGINAL = [
    "index",
    *(f"user/{name}" for name in USER),
    *(f"spinningup/{name}" for name in SPINNINGUP),
    *(f"algorithms/{name}" for name in ALGORITHMS),
    *(f"utils/{name}" for name in UTILS),
    *(f"etc/{name}" for name in ETC),
]


class Page(html.parser.HTMLParser):
    """The links, anchors, images and headings of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.ids, self.images, self.levels = [], set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if "id" in attrs:
            self.ids.add(attrs["id"])
        if tag in ("a", "link") and attrs.get("href"):
            self.links.append(attrs["href"])
        if tag in ("script", "img") and attrs.get("src"):
            self.links.append(attrs["src"])
        if tag == "img":
            self.images.append((attrs["src"], attrs.get("alt")))
        if re.fullmatch("h[1-6]", tag):
            self.levels.append(int(tag[1]))


def broken(site, pages):
    """(page, link) of what leads nowhere within the site."""
    for name, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                if parts.scheme not in ("https", "http", "mailto"):
                    yield name, link
                continue
            file = (site / name).parent / unquote(parts.path) if parts.path else site / name
            goal = pages.get(os.path.relpath(file, site))
            lost = goal and parts.fragment and unquote(parts.fragment) not in goal.ids
            if lost or not file.is_file():
                yield name, link


@pytest.mark.browser  # needs none, but takes half a minute, as the others do
def test_the_site_builds_without_a_warning_and_its_files_fit_together(repo_root, tmp_path):
    pytest.importorskip("sphinx", reason="the extra 'docs' is not installed")
    result = run_python("docs/build.py", tmp_path, expect=None, cwd=repo_root)
    assert (result.returncode, result.stderr) == (0, "")
    site = tmp_path / "html"
    pages = {
        path.relative_to(site).as_posix(): Page(path.read_text(encoding="utf-8"))
        for path in site.rglob("*.html")
    }

    assert [name for name in ORIGINAL if f"{name}.html" not in pages] == []
    assert list(broken(site, pages)) == []
    # the shared arguments of a training function are shown with their types and defaults
    reference = re.sub(r"<[^>]+>|\s", "", (site / "reference/algorithms.html").read_text("utf-8"))
    assert reference.count("num_envs:int=1,") == len(build.ALGORITHMS) + len(build.GRAPH_MODE)
    assert [(n, i) for n, page in pages.items() for i, alt in page.images if not alt] == []
    written = pages.keys() - {"search.html"}  # a script writes its heading
    assert [name for name in sorted(written) if not in_order(pages[name].levels)] == []
    files = [file.read_bytes() for file in site.rglob("*") if file.is_file()]
    assert sum(map(len, files)) < 15e6
    assert 1e6 < sum(len(zlib.compress(file)) for file in files) < 4e6  # what a wheel grows by
    # every file of documentation is there, in the navigation of the front page
    front = pages["index.html"].links
    for page in build.Site().pages:
        assert f"{page}.html" in pages
        listed = page == "index" or any(link.partition("#")[0] == f"{page}.html" for link in front)
        assert listed or page.startswith(("adr/", "algorithms/tf1/")), page


def in_order(levels):
    """Whether headings start with one of the first level and never skip a level on the way down."""
    first, *rest = levels
    steps = zip([first, *rest], rest, strict=False)
    return first == 1 and rest.count(1) == 0 and all(low - high <= 1 for high, low in steps)


def test_a_fault_in_a_page_is_noticed(tmp_path):
    (tmp_path / "there.html").write_text("<h1 id='top'>There</h1>")
    text = "<h1>a</h1><h3>b</h3>" + "".join(
        f"<a href='{link}'>x</a>"
        for link in ("there.html#top", "there.html#gone", "gone.html", "file:///x", "#gone")
    )
    (tmp_path / "here.html").write_text(text)
    pages = {"here.html": Page(text), "there.html": Page("<h1 id='top'>There</h1>")}
    assert [link for _, link in broken(tmp_path, pages)] == [
        "there.html#gone",
        "gone.html",
        "file:///x",
        "#gone",
    ]
    assert in_order(pages["there.html"].levels) and not in_order(pages["here.html"].levels)
    assert in_order([1, 2, 3, 3, 2]) and not in_order([1, 2, 1]) and not in_order([2, 3])


# ------------------------------------------------------------------------------------------- stage


def links(text, page="user/mine", path="docs/user/mine.md"):
    site = build.Site()
    return site.links(text, page, path), site


def test_links_are_rewritten_for_the_site():
    cases = {
        "[a](../grids.md)": "[a](../grids.md)",
        "[a](../grids.md#names)": "[a](../grids.md#names)",
        "[a](../../spinup/algos/pytorch/ppo/README.md#images)": "[a](../algorithms/ppo.md#images)",
        "[a](../../spinup/algos/tf1/ppo/README.md)": "[a](../algorithms/tf1/ppo.md)",
        "[a](../adr)": "[a](../adr/index.md)",
        "[`x`](../../Makefile)": "`x`",
        "[a](../../spinup/presets)": "a",
        "[a](https://example.org/b)": "[a](https://example.org/b)",
        "[a](#here)": "[a](#here)",
        "[a](gone.md)": "[a](gone.md)",
        "$E[x](y)$": "$E[x](y)$",
        "![a](../figures/curves.svg)": "![a](../figures/curves.svg)",
    }
    for text, expected in cases.items():
        assert links(text)[0] == expected
    code = "```text\n[a](../../Makefile)\n```\n"
    assert links(code)[0] == code


def test_a_link_to_code_leads_to_a_page_that_shows_it(tmp_path):
    text, site = links("[`vpg.py`](../../spinup/algos/pytorch/vpg/vpg.py)")
    assert text == "[`vpg.py`](../source/spinup/algos/pytorch/vpg/vpg.md)"
    assert site.sources == {"spinup/algos/pytorch/vpg/vpg.py"}


def test_a_page_of_an_algorithm_joins_its_readme_and_what_docs_adds(tmp_path, monkeypatch):
    readme = "spinup/algos/pytorch/ppo/README.md"
    for path, text in {
        readme: "# PPO\n\n## The idea\n\n[b](../../../../docs/b.md)\n",
        "docs/algorithms/ppo.md": "# PPO in depth\n\n## Derivation\n\n[b](../b.md)\n",
        "docs/b.md": "# B\n",
        "docs/index.md": "# I\n",
    }.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setattr(build, "DOCS", tmp_path / "docs")
    monkeypatch.setattr(build.generated, "pages", lambda *args: {})
    monkeypatch.setattr(build, "ELSEWHERE", {readme: "algorithms/ppo"})
    site = build.Site()
    assert site.text("algorithms/ppo", site.pages["algorithms/ppo"]) == (
        "# PPO\n\n## The idea\n\n[b](../b.md)\n\n## Derivation\n\n[b](../b.md)\n"
    )


def test_an_algorithms_page_tells_its_faults_and_lists_those_it_shares():
    mutants = zoo.load()
    zoo_page = (build.DOCS / "debug/zoo.md").read_text(encoding="utf-8")
    for algo in build.ALGORITHMS:
        text = build.generated.what_goes_wrong(algo)
        named = re.findall(r"\]\(\.\./debug/zoo\.md#([\w-]+)\)", text)
        assert sorted(named) == sorted(m.id for m in mutants.values() if algo in m.algorithms)
        for name in named:
            assert f"\n#### {name}\n" in zoo_page
            told = " ".join(mutants[name].story.split()) in text
            assert told == (mutants[name].algorithms[0] == algo), name
        assert in_order([1, *(len(h) for h in re.findall(r"^(#+) ", text, re.M))])
        # every link stays one when the page is put on the site
        page = f"algorithms/{algo}"
        assert links(text, page, f"docs/{page}.md")[0] == text


def test_a_new_page_is_listed_even_if_no_pattern_names_it():
    texts = {"index": "# I\n", "learn/x": "# X\n", "new": "# N\n", "debug/y": "# Y\n"}
    tree = build.toctrees("index", texts, set())
    assert [w.strip() for w in tree.splitlines() if w.startswith("/")] == [
        "/learn/x",
        "/debug/y",
        "/new",
    ]

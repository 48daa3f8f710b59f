"""Build the documentation site: `python docs/build.py [FOLDER]`, or `make docs`.

The Markdown files in docs/ and the READMEs beside the code are written for readers on GitHub. Here
they are copied to a folder under the names that the site gives them, their links are rewritten to
match, and Sphinx turns that folder into HTML. Nothing in the repository changes.

- A link to a page leads to that page of the site.
- A link to a Python file leads to a page that shows the file.
- A link to anything else in the repository becomes plain text: the site works without a clone.

An algorithm's page also gets the section "What goes wrong", from the bug zoo.
"""

from __future__ import annotations

import argparse
import fnmatch
import functools
import importlib.util
import itertools
import json
import math
import os
import re
import sys
from collections import Counter
from html import escape
from pathlib import Path
from posixpath import normpath, relpath

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from docs import generated  # noqa: E402

DOCS = ROOT / "docs"
BUILD = ROOT / "build/docs"  # `spinup docs` looks for its folder html

ALGORITHMS = ["reinforce", "vpg", "trpo", "ppo", "ddpg", "td3", "sac", "dqn", "acer", "her"]
GRAPH_MODE = ["vpg", "trpo", "ppo", "ddpg", "td3", "sac"]

# Files outside docs/ that are pages of the site: path in the repository -> name of the page.
ELSEWHERE = {
    **{f"spinup/algos/pytorch/{name}/README.md": f"algorithms/{name}" for name in ALGORITHMS},
    **{f"spinup/algos/tf1/{name}/README.md": f"algorithms/tf1/{name}" for name in GRAPH_MODE},
    "benchmarks/README.md": "results/method",
    "CHANGELOG.md": "changes",
    "CONTRIBUTING.md": "contributing",
}
# Other targets of links that have a page.
FOLDERS = {"README.md": "index", "docs": "index", "docs/adr": "adr/index"}

# Pages of the original whose subject has another page here: name -> (title, sentence, links).
# A file in docs/ with the same name wins.
MOVED: dict[str, tuple[str, str, list[str]]] = {
    "user/algorithms": (
        "Algorithms",
        "Ten algorithms, and which one to choose",
        ["algorithms"],
    ),
    "user/running": (
        "Running experiments",
        "How to train from the command line and from Python, and how to run many experiments",
        ["command-line", "grids", "tune", "index", "resume"],
    ),
    "user/saving_and_loading": (
        "Experiment outputs",
        "What a run writes, and how to load, watch and evaluate a trained policy",
        ["run-directory", "policies", "resume"],
    ),
    "user/plotting": ("Plotting results", "How to plot and compare learning curves", ["plotting"]),
    "spinningup/exercises": ("Exercises", "The exercises and their judge", ["exercises"]),
    "spinningup/exercise2_1_soln": ("Answer to exercise 2.1", "The answer", ["exercises"]),
    "spinningup/exercise2_2_soln": ("Answer to exercise 2.2", "The answer", ["exercises"]),
    **{
        f"spinningup/bench_{name}": (
            f"Benchmarks of {name.upper()}",
            "What was measured, and how",
            [f"results/{name}", f"algorithms/{name}", "spinningup/bench"],
        )
        for name in ("vpg", "ppo", "ddpg", "td3", "sac")
    },
    "etc/acknowledgements": ("Acknowledgments", "Where the library comes from", ["original"]),
    "etc/author": ("Authors", "Where the library comes from", ["original"]),
}

# The order of the pages: page that holds the list -> (caption, patterns of names). The front page
# takes what the others leave, and its last pattern takes every name, so that no page is lost.
TREE: dict[str, list[tuple[str, list[str]]]] = {
    "index": [
        ("Start", ["user/introduction", "user/installation", "original", "examples"]),
        (
            "Learn",
            [
                "spinningup/rl_intro",
                "spinningup/rl_intro2",
                "spinningup/rl_intro3",
                "learn/value-learning",
                "learn/ddpg-to-sac",
                "learn/trust-regions",
                "learn/off-policy-correction",
                "learn/goals",
                "notebooks/*",
                "spinningup/extra_*",
                "learn/*",
            ],
        ),
        ("Algorithms", ["algorithms", *(f"algorithms/{name}" for name in ALGORITHMS)]),
        ("Debug", ["spinningup/spinningup", "debug/*"]),
        ("Exercises", ["exercises", "exercises/*"]),
        (
            "Use",
            [
                "command-line",
                "grids",
                "tune",
                "plotting",
                "run-directory",
                "policies",
                "resume",
                "guarantees",
                "environments",
                "user-networks",
                "own-algorithm",
                "mpi",
                "gpu",
            ],
        ),
        ("Results", ["spinningup/bench", "benchmarks", "results/method"]),
        (
            "Reference",
            [
                "reference/algorithms",
                "utils/*",
                "reference/*",
                "spinningup/keypapers",
                "adr/index",
                "*",
            ],
        ),
    ],
    "adr/index": [("", ["adr/*"])],
    "spinningup/bench": [("", ["results/*"])],
    "algorithms": [("In graph mode", ["algorithms/tf1/*"])],
}

LINK = re.compile(r"(!?)\[((?:[^\[\]`]|`[^`]*`|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
FENCE = re.compile(r"^( *)(`{3,}|~{3,}).*?^\1\2`*$", re.M | re.S)
FRONT = re.compile(r"\A---\n.*?^---\n", re.M | re.S)


class Site:
    """The pages of the site by name, and which file in the repository each comes from."""

    def __init__(self) -> None:
        self.pages: dict[str, str] = {}
        self.name_of: dict[str, str] = dict(FOLDERS)
        self.sources: set[str] = set()  # Python files that pages link to
        self.figures: set[str] = set()
        for path in sorted(DOCS.rglob("*.md")):
            page = path.relative_to(DOCS).with_suffix("").as_posix()
            self.add_file(f"docs/{page}.md", page)
        for path_in_repo, page in ELSEWHERE.items():
            self.add_file(path_in_repo, page)
        for page in (*ELSEWHERE.values(), *generated.pages(ALGORITHMS, GRAPH_MODE)):
            self.name_of.setdefault(f"docs/{page}.md", page)

    def add_file(self, path: str, page: str) -> None:
        """Add a Markdown file of the repository under a name."""
        self.name_of[path] = page
        self.pages.setdefault(page, path)

    def text(self, page: str, path: str) -> str:
        """Return a file's text for the site."""
        text = (ROOT / path).read_text(encoding="utf-8")
        readme = f"spinup/algos/pytorch/{page.partition('/')[2]}/README.md"
        if path.startswith("docs/algorithms/") and (ROOT / readme).exists():
            # the site shows an algorithm on one page: its README, and what docs/ adds to it
            more = re.sub(r"\A# .*\n", "", self.links(text, page, path))
            return self.links((ROOT / readme).read_text("utf-8"), page, readme) + more
        return self.links(text, page, path)

    def links(self, text: str, page: str, path: str) -> str:
        """Rewrite the relative links of a text that lies at `path` for the page `page`."""

        def replace(match: re.Match[str]) -> str:
            image, label, target = match.groups()
            if re.match(r"[a-z]+:|#", target):
                return match[0]
            file, _, heading = target.partition("#")
            there = normpath(f"{Path(path).parent.as_posix()}/{file}")
            here = f"{image}[{label}]"
            if image:
                drawn = own_figure(there, label)
                if drawn:
                    return drawn
                self.figures.add(there)
                return f"{here}({relative(page, there.removeprefix('docs/'))})"
            if there in self.name_of:
                goal = self.name_of[there]
                if goal == page and heading:
                    return f"{here}(#{heading})"
                anchor = f"#{heading}" if heading else ""
                return f"{here}({relative(page, goal)}.md{anchor})"
            if there.endswith(".py") and (ROOT / there).is_file():
                self.sources.add(there)
                return f"{here}({relative(page, source_page(there))}.md)"
            if (ROOT / there).exists():
                return label
            return match[0]  # not a link, or a broken one, which Sphinx reports

        parts, start = [], 0
        for fence in FENCE.finditer(text):
            parts += [LINK.sub(replace, text[start : fence.start()]), fence[0]]
            start = fence.end()
        return "".join([*parts, LINK.sub(replace, text[start:])])

    def write(self, stage: Path) -> None:
        """Write everything that Sphinx reads; leave files alone that have not changed."""
        texts = {page: self.text(page, path) for page, path in sorted(self.pages.items())}
        for algo in ALGORITHMS:
            page = f"algorithms/{algo}"
            more = f"{generated.worked_run(algo)}\n{generated.what_goes_wrong(algo)}"
            texts[page] += "\n" + self.links(more, page, f"docs/{page}.md")
        for page, text in generated.pages(ALGORITHMS, GRAPH_MODE).items():
            texts.setdefault(page, self.links(text, page, f"docs/{page}.md"))
        decisions = [(page, title(text)) for page, text in texts.items() if page.startswith("adr/")]
        texts["adr/index"] = "# Decisions\n\nWhy the library is built the way it is.\n\n" + "".join(
            f"{i}. [{text}]({page.removeprefix('adr/')}.md)\n"
            for i, (page, text) in enumerate(decisions, 1)
        )
        for page, (heading, sentence, goals) in MOVED.items():
            if page not in texts:
                texts[page] = moved(page, heading, sentence, [g for g in goals if g != page], texts)
        for path in sorted(self.sources):
            code = (ROOT / path).read_text(encoding="utf-8")
            fence = "`" * 10
            texts[source_page(path)] = (
                f"---\norphan: true\nnosearch: true\n---\n# `{path}`\n\n"
                f"{fence}{{code-block}} python\n:linenos:\n\n{code}\n{fence}\n"
            )
        placed: set[str] = set()
        trees = {page: toctrees(page, texts, placed) for page in reversed(TREE)}
        files = {
            f"{page}.md": (text + trees.get(page, "")).encode() for page, text in texts.items()
        }
        for path in sorted(self.figures):
            files[path.removeprefix("docs/")] = (ROOT / path).read_bytes()
        files["conf.py"] = (DOCS / "conf.py").read_bytes()
        files["scorer.js"] = scorer(texts).encode()
        for file in (DOCS / "_static").iterdir():
            files[f"_static/{file.name}"] = file.read_bytes()
        files["_static/site.css"] += figure_rules().encode()
        files |= {f"_static/mathjax/{path}": content for path, content in mathjax().items()}
        for path, content in files.items():
            file = stage / path
            if not file.exists() or file.read_bytes() != content:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
        for file in stage.rglob("*"):
            if file.is_file() and file.relative_to(stage).as_posix() not in files:
                file.unlink()


def own_figure(path: str, caption: str) -> str:
    """Return one of our own figures as part of the page, where its colors follow the theme."""
    file = ROOT / path
    if file.parent != DOCS / "figures" or 'class="fig"' not in file.read_text("utf-8")[:200]:
        return ""
    drawing = re.sub(r"<(title|style)>.*?</\1>\n", "", file.read_text("utf-8"), flags=re.S)
    drawing = drawing.replace('role="img"', f'role="img" aria-label="{escape(caption)}"', 1)
    return (
        f'<figure class="fig-frame">\n{drawing}<figcaption>{escape(caption)}. Drawn by '
        "<code>make figures</code>.</figcaption>\n</figure>\n"
    )


def figure_rules() -> str:
    """Return the style of our own figures, without its colors, which site.css defines."""
    drawing = (DOCS / "figures/overview.svg").read_text(encoding="utf-8")
    return drawing.partition("}}\n")[2].partition("</style>")[0]


def source_page(path: str) -> str:
    return f"source/{path.removesuffix('.py')}"


def relative(page: str, goal: str) -> str:
    """Return the way from a page to a file of the site."""
    return relpath(goal, Path(page).parent.as_posix())


def title(text: str) -> str:
    """Return the first heading of a Markdown text."""
    found = re.search(r"^# (.+)$", FENCE.sub("", FRONT.sub("", text)), re.M)
    return found[1] if found else ""


def moved(page: str, heading: str, sentence: str, goals: list[str], texts: dict[str, str]) -> str:
    """Return a page that only says where its subject is treated."""
    lines = [f"- [{title(texts[goal])}]({relative(page, goal)}.md)\n" for goal in goals]
    return f"---\norphan: true\nnosearch: true\n---\n# {heading}\n\n{sentence}:\n\n{''.join(lines)}"


def rank(page: str) -> tuple[str, int, str]:
    """Return the order of pages: by folder, algorithms in the usual order, others by name."""
    folder, _, last = page.rpartition("/")
    return folder, ALGORITHMS.index(last) if last in ALGORITHMS else 99, last


def toctrees(page: str, texts: dict[str, str], placed: set[str]) -> str:
    """Return the lists of pages under a page, in MyST's syntax."""
    found = ""
    for caption, patterns in TREE[page]:
        names: list[str] = []
        for pattern in patterns:
            for candidate in sorted(texts, key=rank):
                orphan = texts[candidate].startswith("---\norphan: true")
                taken = candidate in placed or candidate in (page, "index")
                if not orphan and not taken and fnmatch.fnmatch(candidate, pattern):
                    names.append(candidate)
                    placed.add(candidate)
        if names:
            rows = "\n".join(short(candidate) for candidate in names)
            options = ":hidden:\n:titlesonly:\n" + (
                f":caption: {caption}\n" if page == "index" else ""
            )
            found += f"\n```{{toctree}}\n{options}\n{rows}\n```\n"
    return found


def short(page: str) -> str:
    """Return how a page is listed: by its title, an algorithm by its acronym."""
    folder, _, last = page.rpartition("/")
    listed = folder in ("algorithms", "algorithms/tf1", "results") and last in ALGORITHMS
    return f"{last.upper()} </{page}>" if listed else f"/{page}"


def scorer(texts: dict[str, str]) -> str:
    """Return the script that ranks search results, with the words that each page is about."""
    from sphinx.search.en import SearchEnglish

    stem = functools.cache(SearchEnglish({}).stem)
    often: dict[str, dict[str, int]] = {}
    for page, text in texts.items():
        if "nosearch: true" in text[:60]:
            continue
        seen = re.sub(r"<!--.*?-->|\]\([^()\s]*\)", " ", text, flags=re.S)  # by a reader
        words = [stem(word) for word in re.findall(r"[a-z_]\w+", seen.lower())]
        pairs = [f"{a} {b}" for a, b in itertools.pairwise(words)]
        for key, count in Counter(words + pairs).items():
            if count >= (5 if " " in key else 2):
                often.setdefault(key, {})[page] = min(30, round(5 * math.log2(count)))
    # a word that is everywhere tells nothing
    kept = {key: pages for key, pages in sorted(often.items()) if len(pages) < len(texts) / 4}
    table = json.dumps(kept, separators=(",", ":"))
    text = (DOCS / "scorer.js").read_text(encoding="utf-8")
    return text.replace("var OFTEN = {};", f"var OFTEN = {table};")


def mathjax() -> dict[str, bytes]:
    """Return the part of MathJax that a page loads: a twentieth of the whole."""
    spec = importlib.util.find_spec("sphinx-mathjax-offline")
    if spec is None or spec.origin is None:
        raise SystemExit("the site needs the extra 'docs': pip install -e '.[docs]'")
    folder = Path(spec.origin).parent / "static/mathjax"
    fonts = sorted(folder.glob("output/chtml/fonts/woff-v2/*"))
    return {
        file.relative_to(folder).as_posix(): file.read_bytes()
        for file in [folder / "tex-chtml.js", *fonts]
    }


def refuse_network(event: str, args: tuple[object, ...]) -> None:
    """Stop anything that would make the result depend on what is online."""
    if event in ("socket.connect", "socket.getaddrinfo"):
        raise RuntimeError(f"the build of the site wants the network: {args[1:]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "folder", nargs="?", type=Path, default=BUILD, help="gets source/, doctrees/ and html/"
    )
    folder = parser.parse_args().folder
    Site().write(folder / "source")

    from sphinx.cmd.build import main as sphinx  # after the check that the extra is there

    sys.addaudithook(refuse_network)
    os.environ["SPINUP_ROOT"] = str(ROOT)
    # -a: every page has the whole navigation in it, so a new page changes them all
    words = ["-W", "-n", "-a", "--keep-going", "-q", "-d", str(folder / "doctrees")]
    code = sphinx([*words, str(folder / "source"), str(folder / "html")])
    if code == 0:
        print(f"the site is in {folder / 'html/index.html'}")
    return code


if __name__ == "__main__":
    sys.exit(main())

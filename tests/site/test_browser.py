"""The documentation site in a real browser, opened as files: `make docs-test`.

Every page is loaded from disk and looked at narrow and wide, light and dark. A reader's browser
must not report an error, ask the network for anything, or show a formula as its source.
"""

from urllib.parse import urlsplit

import pytest

from docs import browser as finder
from tests.helpers.processes import run_python

pytestmark = pytest.mark.browser

WIDTHS = (360, 1280)

# What a reader types, and the page that must be among the first three.
SEARCHES = {
    "clip_ratio": "algorithms/ppo",
    "conjugate gradient": "algorithms/trpo",
    "target policy smoothing": "algorithms/td3",
    "entropy temperature": "algorithms/sac",
    "hindsight": "algorithms/her",
    "retrace": "algorithms/acer",
    "double DQN": "algorithms/dqn",
    "ornstein": "algorithms/ddpg",
    "reinforce": "algorithms/reinforce",
    "GAE": "notebooks/2-gae-on-a-chain",
    "ppo graph mode": "algorithms/tf1/ppo",
    "install": "user/installation",
    "extras": "user/installation",
    "resume": "resume",
    "slurm": "grids",
    "ray": "grids",
    "num_workers": "grids",
    "smoothing": "plotting",
    "confidence interval": "plotting",
    "progress.txt": "run-directory",
    "vars.pkl": "run-directory",
    "onnx": "policies",
    "test_policy": "policies",
    "mpi": "mpi",
    "shards": "mpi",
    "cuda graph": "gpu",
    "frame stack": "environments",
    "goal environments": "environments",
    "convolutional": "user-networks",
    "compat": "original",
    "power loss": "guarantees",
    "own algorithm": "own-algorithm",
    "exercise": "exercises",
    "trust region": "learn/trust-regions",
    "policy gradient": "notebooks/1-policy-gradient-by-hand",
    "overestimation": "notebooks/3-overestimation",
    "glossary": "learn/glossary",
    "doctor": "debug/doctor",
    "bug zoo": "debug/zoo",
    "does not learn": "debug/not-learning",
    "checklist": "debug/checklist",
    "read your log": "debug/read-your-log",
    "presets": "reference/presets",
    "ExperimentGrid": "utils/run_utils",
    "EpochLogger": "utils/logger",
    "benchmarks": "spinningup/bench",
}


@pytest.fixture(scope="module")
def site(repo_root):
    """The built site, renewed if a source has changed."""
    pytest.importorskip("sphinx", reason="the extra 'docs' is not installed")
    run_python("docs/build.py", cwd=repo_root)
    return repo_root / "build/docs"


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="the extra 'docs' is not installed"
    )
    found = finder.find()
    if found is None:
        pytest.skip("no browser is installed: run `make browser`, or set SPINUP_BROWSER")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(
            executable_path=found, env=finder.environment(found), args=["--no-sandbox"]
        )
        yield started
        started.close()


@pytest.fixture
def tab(browser):
    """A new tab that records what must not happen in `tab.faults`."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.faults = []
    page.on("console", lambda m: page.faults.append(f"console {m.type}: {m.text}"))
    page.on("pageerror", lambda error: page.faults.append(f"script error: {error}"))
    page.on("requestfailed", lambda r: page.faults.append(f"not loaded: {r.url}"))

    def asked(request):
        if urlsplit(request.url).scheme not in ("file", "data"):
            page.faults.append(f"asks the network: {request.url}")

    page.on("request", asked)
    yield page
    context.close()


def pages(site):
    """The names of all pages."""
    html = site / "html"
    return sorted(
        path.relative_to(html).with_suffix("").as_posix() for path in html.rglob("*.html")
    )


FORMULAS_SET = "window.MathJax && MathJax.startup && MathJax.startup.promise.then(() => 1)"


def visit(tab, site, page):
    """Open a page and wait until its formulas are set."""
    tab.goto((site / "html" / f"{page}.html").as_uri())
    tab.evaluate(FORMULAS_SET)


def formulas(site, page):
    """The number of formulas in the Markdown source of a page."""
    from markdown_it import MarkdownIt
    from mdit_py_plugins.amsmath import amsmath_plugin
    from mdit_py_plugins.dollarmath import dollarmath_plugin
    from mdit_py_plugins.front_matter import front_matter_plugin

    source = site / "source" / f"{page}.md"
    if not source.exists():  # search and index
        return 0
    parser = MarkdownIt("gfm-like", {"linkify": False}).use(front_matter_plugin)
    parser.use(dollarmath_plugin).use(amsmath_plugin)
    tokens = parser.parse(source.read_text(encoding="utf-8"))
    flat = [t for token in tokens for t in (token, *(token.children or ()))]
    return sum(
        t.type in ("math_inline", "math_block", "math_inline_double", "amsmath") for t in flat
    )


# Text whose contrast with what is behind it is below WCAG's level AA.
CONTRAST = """() => {
  const parse = c => (c.match(/[\\d.]+/g) || []).map(Number);
  const over = (top, below) => {
    const a = top.length > 3 ? top[3] : 1;
    return [0, 1, 2].map(i => top[i] * a + below[i] * (1 - a));
  };
  const behind = e => {
    const layers = [];
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] > 0) layers.push(c);
      if (c.length === 3 || c[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const light = c => {
    const [r, g, b] = c.map(v => v / 255).map(
      v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const faults = new Map();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim();
    const e = walker.currentNode.parentElement;
    if (!text || !e.checkVisibility({visibilityProperty: true, opacityProperty: true})) continue;
    if (["SCRIPT", "STYLE", "NOSCRIPT"].includes(e.tagName)) continue;
    const style = getComputedStyle(e);
    const bg = behind(e);
    const ink = parse(e.namespaceURI.endsWith("svg") ? style.fill : style.color);
    const [a, b] = [light(over(ink, bg)), light(bg)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5) - 0.005)
      faults.set(`${e.tagName}.${e.getAttribute("class") || ""} ${ink} on ${bg.map(Math.round)}`,
                 `${ratio.toFixed(2)}: "${text.slice(0, 30)}"`);
  }
  return [...faults].map(([k, v]) => `${k} ${v}`);
}"""


def problems_of(tab, address, written):
    """What is wrong with a page that has `written` formulas in its source."""
    tab.faults.clear()
    tab.goto(address)
    tab.evaluate(FORMULAS_SET)
    found = []
    for width in WIDTHS:
        tab.set_viewport_size({"width": width, "height": 900})
        wide = tab.evaluate("document.scrollingElement.scrollWidth")
        if wide > width:
            found.append(f"scrolls sideways: {wide} of {width} pixels")
        hidden = "[...document.images].filter(i => !i.naturalWidth).map(i => i.src)"
        found += [f"image not shown: {image}" for image in tab.evaluate(hidden)]
    if tab.query_selector("mjx-merror"):
        found.append("a formula with an error")
    shown = len(tab.query_selector_all("mjx-container"))
    if shown != written:
        found.append(f"{shown} formulas shown, {written} written")
    return found + tab.faults


def test_every_page_is_shown_as_it_was_meant(site, tab):
    problems = {}
    for page in pages(site):
        address = (site / f"html/{page}.html").as_uri()
        if found := problems_of(tab, address, formulas(site, page)):
            problems[page] = found
    assert problems == {}


def test_a_faulty_page_is_noticed(site, tab, tmp_path):
    mathjax = (site / "html/_static/mathjax/tex-chtml.js").as_uri()
    (tmp_path / "faulty.html").write_text(
        f"""<script src="{mathjax}"></script><img src="gone.png" width="9"><h1>Faulty</h1>
        <script src="http://127.0.0.1:9/x.js"></script><script>nothing.here</script>
        <div style="width: 800px">wide</div><p>\\(a\\) and \\(\\frac\\)</p>"""
    )
    found = problems_of(tab, (tmp_path / "faulty.html").as_uri(), 3)
    for words in (
        "scrolls sideways: ",
        "image not shown: ",
        "a formula with an error",
        "2 formulas shown, 3 written",
        "asks the network: http://127.0.0.1:9/x.js",
        "not loaded: ",
        "script error: ",
    ):
        assert any(fault.startswith(words) for fault in found), (words, found)
    assert not any("of 1280" in fault for fault in found)


def test_all_text_stands_out_from_its_background(site, tab):
    problems = {}
    for page in pages(site):
        visit(tab, site, page)
        for scheme in ("light", "dark"):
            tab.emulate_media(color_scheme=scheme)
            if found := tab.evaluate(CONTRAST):
                problems[page, scheme] = found
    assert problems == {}


def test_faint_text_is_noticed(tab):
    tab.set_content("<body style='background:#fff'><p style='color:#999'>faint</p><p>clear</p>")
    (found,) = tab.evaluate(CONTRAST)
    assert found.startswith("P. 153,153,153 on 255,255,255 2.8")


def test_search_finds_the_page_that_a_reader_wants(site, tab):
    assert len(SEARCHES) >= 30
    missed = {}
    address = (site / "html/search.html").as_uri()
    for words, page in SEARCHES.items():
        tab.goto(f"{address}?q={words.replace(' ', '+')}")
        tab.wait_for_function("/found|did not match/.test(document.body.innerText)")
        links = tab.eval_on_selector_all("ul.search li a", "all => all.map(a => a.href)")
        first = [link.partition("?")[0].partition("#")[0] for link in links[:3]]
        if (site / f"html/{page}.html").as_uri() not in first:
            missed[words] = [link.rpartition("html/")[2] for link in first]
    assert not missed, "\n".join(f"{words}: {first}" for words, first in missed.items())
    assert tab.faults == []


def press_tab_until(tab, wanted):
    """Press Tab until an element has the focus that a selector describes; return what had it."""
    reached = []
    for _ in range(60):
        tab.keyboard.press("Tab")
        reached.append(tab.evaluate("document.activeElement.outerHTML.slice(0, 80)"))
        if tab.evaluate(f"document.activeElement.matches('{wanted}')"):
            return reached
    raise AssertionError(f"Tab does not reach {wanted}: {reached}")


def test_the_keyboard_reaches_search_and_navigation(site, tab):
    visit(tab, site, "grids")
    press_tab_until(tab, ".skip-to-content")
    press_tab_until(tab, "input.sidebar-search")
    press_tab_until(tab, ".sidebar-tree a[href^=user]")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/user/*.html")


def test_the_theme_can_be_switched(site, tab):
    visit(tab, site, "index")
    seen = set()
    for _ in range(3):
        tab.click(".content-icon-container .theme-toggle")
        seen.add(tab.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(seen) == 2


def test_code_can_be_copied(site, tab):
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visit(tab, site, "index")
    block = tab.locator("div.highlight-bash").first
    block.hover()
    block.locator("button.copybtn").click()
    block.locator("button.copybtn.success").wait_for()
    copied = tab.evaluate("navigator.clipboard.readText()")
    assert copied.strip() == block.locator("pre").inner_text().strip()
    assert copied.startswith("python -m spinup.run ppo --env CartPole-v1")

"""Settings of Sphinx. The site is built by build.py, which copies this file to its stage."""

import inspect
import os
import re
import sys
from pathlib import Path

ROOT = Path(os.environ["SPINUP_ROOT"])
sys.path.insert(0, str(ROOT))

from docutils.nodes import literal_block  # noqa: E402
from pygments.lexer import RegexLexer  # noqa: E402
from pygments.token import Comment, String, Text  # noqa: E402
from sphinx.ext.autodoc.mock import mock  # noqa: E402
from sphinx.util.docutils import SphinxDirective  # noqa: E402

from spinup import registry  # noqa: E402
from spinup.version import __version__ as release  # noqa: E402

project = "spinup"
author = "spinup contributors"
copyright = "spinup contributors"
version = release

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
]
# TensorFlow takes many seconds to import, and the graph functions' signatures do not need it.
autodoc_mock_imports = ["tensorflow"]
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "signature"
python_maximum_signature_line_length = 80
add_module_names = False
default_role = "literal"
# Types of other packages, whose documentation is elsewhere.
nitpick_ignore_regex = [("py:(class|data|obj|exc)", ".*")]
mathjax_path = "mathjax/tex-chtml.js"  # build.py puts it there
mathjax3_config = {"options": {"enableMenu": False}}  # the menu would load files that are not there
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist", "tasklist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
highlight_language = "none"
copybutton_selector = "div:not(.highlight-text, .highlight-none, .no-copy) > div.highlight > pre"

html_theme = "furo"
html_title = f"spinup {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
# Summaries of search results are fetched, which a browser refuses for files on disk.
html_show_search_summary = False
html_search_scorer = str(Path(__file__).with_name("scorer.js"))
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
html_theme_options = {"navigation_with_keys": False}


class Command(RegexLexer):
    """A command line: only comments and strings stand out, not every number."""

    tokens = {
        "root": [
            (r"#.*$", Comment),
            (r"'[^'\n]*'|\"[^\"\n]*\"", String),
            (r"[^\s'\"]+|\s+|.", Text),
        ]
    }


class CodeCell(SphinxDirective):
    """A cell of a notebook: shown as Python code. The tests execute the notebooks."""

    has_content = True
    optional_arguments = 1
    option_spec = {"tags": str}

    def run(self):
        code = "\n".join(self.content)
        return [literal_block(code, code, language="python")]


def plain_stars(app, what, name, obj, options, lines):
    """Docstrings are not written for Sphinx: `**` outside of code means `**`."""
    for i, line in enumerate(lines):
        parts = re.split(r"(`[^`]*`)", line)
        lines[i] = "".join(p if p[:1] == "`" else p.replace("**", r"\*\*") for p in parts)


class Written:
    """A default as it is written in the source."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text


def show_whole_signatures():
    """Let Sphinx show the signatures of training functions, which are longer than their source.

    Their shared arguments come from a bundle. Sphinx reads defaults from the source of
    `__wrapped__`, and finds too few there.
    """
    with mock(autodoc_mock_imports):
        for name in registry.exports():
            function = registry.load(name)
            if hasattr(function, "__wrapped__"):  # two names may mean the same function
                del function.__wrapped__
            signature = inspect.signature(function)
            shown = [
                p.replace(default=Written(f"core.{p.default.__name__}"))
                if callable(p.default) and p.default is not p.empty
                else p
                for p in signature.parameters.values()
            ]
            function.__signature__ = signature.replace(parameters=shown)


def setup(app):
    show_whole_signatures()
    app.connect("autodoc-process-docstring", plain_stars, priority=100)
    app.add_directive("code-cell", CodeCell)
    app.add_lexer("bash", Command)

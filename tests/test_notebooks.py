"""docs/notebooks: every notebook runs from top to bottom, in a real kernel."""

import re
from pathlib import Path

import jupytext
import nbclient
import pytest

from tests.helpers.processes import environment

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs/notebooks"
QUICK = "2-gae-on-a-chain"  # in every run of the tests; `make notebooks` executes all of them
NOTEBOOKS = [
    pytest.param(file, id=file.stem, marks=[] if file.stem == QUICK else [pytest.mark.slow])
    for file in sorted(FOLDER.glob("*.md"))
]


def execute(file, folder, timeout=300):
    """Run a notebook in `folder`; nbclient raises what a cell raises."""
    notebook = jupytext.read(file, fmt="md:myst")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
        patch.setenv("IPYTHONDIR", str(folder / "ipython"))  # no history of anyone's
        patch.delenv("MPLBACKEND", raising=False)  # the kernel shows figures inline
        nbclient.NotebookClient(
            notebook, timeout=timeout, resources={"metadata": {"path": str(folder)}}
        ).execute()
    return notebook


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.parametrize("file", NOTEBOOKS)
def test_a_notebook_runs_and_prints_something(file, tmp_path):
    notebook = execute(file, tmp_path)
    assert any(cell.outputs for cell in code_cells(notebook))


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.md")), ids=lambda file: file.stem)
def test_a_notebook_is_text_with_cells_and_checks_itself(file):
    text = file.read_text(encoding="utf-8")
    assert text.startswith("---\njupytext:\n") and "name: python3" in text
    cells = code_cells(jupytext.read(file, fmt="md:myst"))
    assert len(cells) >= 5 and all(cell.outputs == [] for cell in cells)
    assert any(re.search(r"^\s*assert ", cell.source, re.M) for cell in cells)


def test_there_are_notebooks_and_one_is_quick():
    assert len(NOTEBOOKS) >= 5 and (FOLDER / f"{QUICK}.md").exists()


def test_a_failing_cell_is_noticed(tmp_path):
    file = tmp_path / "broken.md"
    text = (FOLDER / f"{QUICK}.md").read_text(encoding="utf-8")
    head = text[: text.index("```{code-cell}")]
    file.write_text(head + "```{code-cell} ipython3\nassert 1 == 2\n```\n", encoding="utf-8")
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="assert 1 == 2"):
        execute(file, tmp_path)

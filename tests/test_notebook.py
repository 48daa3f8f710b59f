"""examples/spinup.ipynb: it runs from top to bottom, in a real kernel, and shows what it says."""

import base64

import nbclient
import nbformat
import pytest

from tests.helpers.processes import environment


@pytest.fixture(scope="module")
def stored(repo_root):
    return nbformat.read(repo_root / "examples" / "spinup.ipynb", as_version=4)


@pytest.fixture(scope="module")
def executed(stored, tmp_path_factory):
    folder = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.from_dict(stored)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
        patch.setenv("IPYTHONDIR", str(folder / "ipython"))  # no history of anyone's
        patch.delenv("MPLBACKEND", raising=False)
        client = nbclient.NotebookClient(
            notebook, timeout=300, resources={"metadata": {"path": str(folder)}}
        )
        client.execute()
    return notebook


def outputs(notebook, beginning):
    """The outputs of the code cell that has a line beginning like this."""
    (cell,) = [
        cell
        for cell in notebook.cells
        if cell.cell_type == "code"
        and any(line.startswith(beginning) for line in cell.source.splitlines())
    ]
    return cell.outputs


def printed(notebook, beginning):
    return "".join(o.get("text", "") for o in outputs(notebook, beginning))


def pictures(notebook, beginning):
    found = [o["data"] for o in outputs(notebook, beginning) if "data" in o]
    return [base64.b64decode(data["image/png"]) for data in found if "image/png" in data]


def test_it_is_stored_without_outputs(stored):
    nbformat.validate(stored)
    code = [cell for cell in stored.cells if cell.cell_type == "code"]
    assert len(code) >= 6
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)


def test_plot_data_and_make_plots_show_a_picture(executed):
    for line in ("plot_data(", "make_plots("):
        (picture,) = pictures(executed, line)
        assert picture.startswith(b"\x89PNG") and len(picture) > 10_000


def test_the_table_is_shown(executed):
    (shown,) = [o for o in outputs(executed, "table[[") if o.output_type == "execute_result"]
    assert "10000" in shown["data"]["text/html"]


def test_the_policy_plays(executed):
    assert printed(executed, "run_policy(").count("Episode") >= 5


def test_the_comparison_is_one_that_its_seeds_establish(executed):
    text = printed(executed, "print(text(")
    assert "Established: pi_lr=0.001 is better than pi_lr=3e-05" in text

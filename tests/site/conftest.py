"""Scripts of docs/, which are not modules of the package, for the tests of the site."""

import importlib.util

import pytest


@pytest.fixture(scope="session")
def script(repo_root):
    """Load a script of docs/ by its name."""

    def load(name):
        spec = importlib.util.spec_from_file_location(f"docs_{name}", repo_root / f"docs/{name}.py")
        module = importlib.util.module_from_spec(spec)
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(str(repo_root / "docs"))  # as for a script that is run
            spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture(scope="session")
def build(script):
    """docs/build.py."""
    return script("build")

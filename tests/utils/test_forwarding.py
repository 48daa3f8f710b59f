"""Old import paths offer names that live elsewhere, at run time and to type checkers."""

import ast
import importlib

import pytest

from tests.helpers.processes import run_python

FORWARDING = ("logx", "plot", "run_utils", "slurm_executor", "test_policy", "workers")


@pytest.mark.parametrize("name", FORWARDING)
def test_type_checkers_see_the_modules_that_names_come_from(name, repo_root):
    tree = ast.parse((repo_root / f"spinup/utils/{name}.py").read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    call = next(c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "forward")
    at_run_time = {(target.value, "*") for target in call.args}
    at_run_time |= {(moved.value.value, moved.arg) for moved in call.keywords}
    block = next(node for node in tree.body if isinstance(node, ast.If))
    assert ast.unparse(block.test) == "TYPE_CHECKING"
    shown = {(node.module, alias.name) for node in block.body for alias in node.names}
    assert shown == at_run_time


def test_logx_offers_every_name_it_always_did():
    from spinup.utils import logx
    from spinup.utils.logx import EpochLogger, Logger, colorize, load_policy, restore_tf_graph

    homes = {
        "spinup.runs.logger": (EpochLogger, Logger, colorize),
        "spinup.policies.saved": (load_policy,),
        "spinup.policies.tf_loader": (restore_tf_graph,),
    }
    for module, objects in homes.items():
        for x in objects:
            assert getattr(importlib.import_module(module), x.__name__) is x
            assert x.__name__ in dir(logx)
    with pytest.raises(ImportError):
        from spinup.utils.logx import no_such_name  # noqa: F401


def test_a_logger_loads_no_framework_and_nothing_that_it_was_not_asked_for(tmp_path):
    code = (
        "import sys; from spinup.utils.logx import EpochLogger;"
        "logger = EpochLogger(sys.argv[1], quiet=True); logger.log_tabular('Epoch', 0);"
        "logger.dump_tabular(); logger.close();"
        "unused = ('torch', 'tensorflow', 'spinup.runs.sinks', 'spinup.algos.tf1.common.saver',"
        " 'spinup.runs.storage.policies', 'spinup.policies.saved', 'spinup.parallel.launch');"
        "sys.exit(' '.join(name for name in unused if name in sys.modules) or None)"
    )
    run_python("-c", code, tmp_path)

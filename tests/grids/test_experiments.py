"""Names, directories and the running of experiments."""

import functools
import itertools
import pickle
import re
import shlex

import pytest

from spinup import user_config
from spinup.envs import make
from spinup.grids import experiments as run_utils
from spinup.grids.experiments import (
    CellsFailed,
    ExperimentGrid,
    call_experiment,
    setup_logger_kwargs,
    valid_str,
)
from spinup.utils.errors import SpinupError


def some_function():
    pass


class SomeClass:
    pass


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("CartPole-v1", "cartpole-v1"),
        (0.001, "0-001"),
        (1e-05, "1e-05"),
        (-3, "-3"),
        (True, "true"),
        (None, "none"),
        ("a b/c", "a-b-c"),
        ("under_score", "under_score"),
        ("ünï", "-n-"),
        ((32, 32), "32-32"),
        ([64], "64"),
        ([], ""),
        ([(1, 2), "X"], "1-2-x"),
        (some_function, "some_function"),
        (SomeClass, "someclass"),
        (functools.partial(some_function, 1), "some_function"),
        ("", ""),
    ],
)
def test_valid_str(value, name):
    assert valid_str(value) == name


@pytest.mark.parametrize(
    ("key", "shorthand"),
    [
        ("gamma", "gam"),
        ("pi_lr", "pi"),
        ("lr", "lr"),
        ("ac_kwargs:hidden_sizes", "ac-hid"),
        ("ac_kwargs:activation", "ac-act"),
        ("a:b:c", "a-b-c"),
        ("_private", "pr"),
        ("env_name", "env"),
        ("steps_per_epoch", "ste"),
        ("q2_x", "q2"),
    ],
)
def test_default_shorthand(key, shorthand):
    assert ExperimentGrid()._default_shorthand(key) == shorthand


def grid(name, *rows):
    eg = ExperimentGrid(name)
    for row in rows:
        eg.add(*row)
    return eg


@pytest.mark.parametrize(
    ("eg_args", "names"),
    [
        # one value is not named, unless asked for
        (("x", ("gamma", [0.9])), ["x"]),
        (("x", ("gamma", 0.9, None, True)), ["x_gam0-9"]),
        (("x", ("gamma", 0.9, "g", True)), ["x_g0-9"]),
        # several are
        (("x", ("gamma", [0.9, 0.99])), ["x_gam0-9", "x_gam0-99"]),
        (("x", ("gamma", [0.9, 0.99], "g")), ["x_g0-9", "x_g0-99"]),
        # a tuple is one value, a list is several
        (("x", ("hid", (32, 32))), ["x"]),
        (("x", ("hid", [(32,), (64, 64)])), ["x_hid32", "x_hid64-64"]),
        (("x", ("ac_kwargs:hidden_sizes", [[32], [64, 64]])), ["x_ac-hid32", "x_ac-hid64-64"]),
        # seeds never are
        (("x", ("seed", [0, 10])), ["x", "x"]),
        (("x", ("seed", [0, 10], "s", True)), ["x", "x"]),
        # booleans: the shorthand, when true
        (("x", ("norm", [True, False])), ["x_nor", "x"]),
        (("x", ("norm", [False], "n", True)), ["x"]),
        (("x", ("norm", [True], "n", True)), ["x_n"]),
        # ... but only when all values are booleans
        (("x", ("norm", [True, 2])), ["x_nortrue", "x_nor2"]),
        (("x", ("norm", [0, 1])), ["x_nor0", "x_nor1"]),
        # functions and classes by name, environments in lower case
        (("x", ("act", [some_function, SomeClass])), ["x_actsome_function", "x_actsomeclass"]),
        (
            ("x", ("env_name", ["CartPole-v1", "Acrobot-v1"], "env")),
            ["x_envcartpole-v1", "x_envacrobot-v1"],
        ),
        # without a grid name there is no leading underscore
        (("", ("lr", [1, 2])), ["lr1", "lr2"]),
        (("", ("a", [True, False]), ("lr", [1, 2])), ["a_lr1", "a_lr2", "lr1", "lr2"]),
        # the grid's own name stays as it was written
        (("My Grid", ("lr", [1, 2])), ["My Grid_lr1", "My Grid_lr2"]),
        # numbers, nothing, text with everything in it
        (("x", ("lr", [1e-3, 1e-05, 3e-4])), ["x_lr0-001", "x_lr1e-05", "x_lr0-0003"]),
        (("x", ("lr", [1e3, -1, float("inf")])), ["x_lr1000-0", "x_lr-1", "x_lrinf"]),
        (("x", ("kl", [None, 0.01])), ["x_klnone", "x_kl0-01"]),
        (("x", ("env", ["a:B-v0", "ale/Pong v5"])), ["x_enva-b-v0", "x_envale-pong-v5"]),
        (("x", ("w", [(), (1,), ((1, 2), 3)])), ["x_w", "x_w1", "x_w1-2-3"]),
        # nested keys, with and without a shorthand of their own
        (("x", ("a_b:c_d:e", [1, 2])), ["x_ab-cd-e1", "x_ab-cd-e2"]),
        (("x", ("a_b:c_d:e", [1, 2], "S")), ["x_s1", "x_s2"]),
        (("x", ("ac_kwargs:deep", [True, False])), ["x_ac-dee", "x"]),
        (("x", ("ac_kwargs:deep", [True, False], "d", True)), ["x_d", "x"]),
        # a partial by its function; a key of which nothing is left
        (("x", ("f", [functools.partial(some_function), 1])), ["x_fsome_function", "x_f1"]),
        (("x", ("___", [1, 2])), ["x_1", "x_2"]),
        (("x", ("___", [True, False])), ["x_true", "x_false"]),
        # an empty shorthand leaves the value alone
        (("x", ("env_name", "CartPole-v0", "", True)), ["x_cartpole-v0"]),
        (("", ("env_name", "CartPole-v0", "", True)), ["cartpole-v0"]),
        (("x", ("env_name", ["A-v0", "B-v0"], "")), ["x_a-v0", "x_b-v0"]),
        (("x", ("norm", [True, False], "")), ["x_true", "x_false"]),
        # several that vary, one that does not, one that is named all the same
        (
            ("x", ("a", [1, 2]), ("b", 5), ("c", 7, None, True), ("d", [True, False])),
            ["x_a1_c7_d", "x_a1_c7", "x_a2_c7_d", "x_a2_c7"],
        ),
        # the last key changes fastest; parts come in the order of `add`
        (
            ("x", ("b", [1, 2]), ("seed", [0, 1]), ("a", ["p", "q"])),
            [f"x_b{b}_a{a}" for b, _, a in itertools.product([1, 2], [0, 1], "pq")],
        ),
    ],
)
def test_variant_names(eg_args, names):
    eg = grid(*eg_args)
    assert [eg.variant_name(v) for v in eg.variants()] == names


def test_long_keys_name_variants_when_default_shorthand_is_off(monkeypatch):
    monkeypatch.setattr(user_config, "DEFAULT_SHORTHAND", False)
    eg = grid("x", ("ac_kwargs:size", [1, 2]), ("lr", [3, 4], "l"))
    assert eg.variant_name(eg.variants()[0]) == "x_ac_kwargs-size1_l3"


def test_variant_name_accepts_flat_and_nested_variants():
    eg = grid("x", ("a:b", [1, 2]))
    assert eg.variant_name({"a:b": 2}) == eg.variant_name({"a": {"b": 2}}) == "x_a-b2"


def test_colon_keys_nest_into_dicts():
    eg = grid("x", ("a:b", [1]), ("a:c:d", [2]), ("e", [3]))
    assert eg.variants() == [{"a": {"b": 1, "c": {"d": 2}}, "e": 3}]


def test_entries_merge_into_a_copy_of_a_given_dict():
    given = {"hidden_sizes": (4,)}
    eg = grid("x", ("ac_kwargs", given), ("ac_kwargs:activation", ["p", "q"]))
    first, second = eg.variants()
    assert first == {"ac_kwargs": {"hidden_sizes": (4,), "activation": "p"}}
    assert second == {"ac_kwargs": {"hidden_sizes": (4,), "activation": "q"}}
    assert given == {"hidden_sizes": (4,)}


def test_flat_variants_are_all_combinations():
    flat = ExperimentGrid()._variants(["a", "b"], [[1, 2], [3, 4]])
    assert flat == [{"a": 1, "b": 3}, {"a": 1, "b": 4}, {"a": 2, "b": 3}, {"a": 2, "b": 4}]


@pytest.mark.parametrize(
    "rows",
    [
        [("a", 1), ("a:b", 2)],
        [("a:b", 1), ("a", 2)],
        [("a", [1]), ("a", [2])],
        [("a", [])],
        [("", 1)],
        [("a::b", 1)],
        [(5, 1)],
        [("a", 1, "1x")],
        [("a", 1, "x y")],
        [("a", 1, "../x")],
    ],
)
def test_a_grid_that_cannot_work_is_refused(rows):
    with pytest.raises(SpinupError):
        grid("x", *rows).variants()


# ------------------------------------------------------------------------------- directories


def test_directory_without_datestamp(tmp_path):
    kwargs = setup_logger_kwargs("exp", seed=0, data_dir=tmp_path)
    assert kwargs == {"output_dir": str(tmp_path / "exp" / "exp_s0"), "exp_name": "exp"}
    assert setup_logger_kwargs("exp", data_dir=tmp_path)["output_dir"] == str(tmp_path / "exp")
    assert list(tmp_path.iterdir()) == []


def test_directory_with_datestamp(tmp_path):
    path = setup_logger_kwargs("exp", 3, str(tmp_path), datestamp=True)["output_dir"]
    found = re.fullmatch(
        r"(\d{4}-\d\d-\d\d)_exp/(\d{4}-\d\d-\d\d)_\d\d-\d\d-\d\d-exp_s3",
        path[len(str(tmp_path)) + 1 :].replace("\\", "/"),
    )
    assert found is not None and found[1] == found[2]


def test_force_datestamp(monkeypatch, tmp_path):
    monkeypatch.setattr(user_config, "FORCE_DATESTAMP", True)
    assert re.search(r"\d{4}-\d\d-\d\d_exp", setup_logger_kwargs("exp", 0, tmp_path)["output_dir"])


def test_default_data_dir_is_read_when_a_run_starts(monkeypatch):
    monkeypatch.setattr(user_config, "DEFAULT_DATA_DIR", "elsewhere")
    assert setup_logger_kwargs("e", 1)["output_dir"].split("/") == ["elsewhere", "e", "e_s1"]


@pytest.mark.parametrize("name", ["", None, 5])
def test_a_run_needs_a_name(name):
    with pytest.raises(SpinupError):
        setup_logger_kwargs(name, 0)


# ----------------------------------------------------------------------------------- running


class Recorder:
    """A training function that keeps what it was called with."""

    def __init__(self):
        self.calls = []

    def __call__(self, **kwargs):
        self.calls.append(kwargs)
        return len(self.calls)


def test_call_experiment_passes_everything_and_returns_the_result(tmp_path):
    train = Recorder()
    assert call_experiment("e", train, seed=7, data_dir=tmp_path, lr=0.1, ac_kwargs={"x": 1}) == 1
    assert train.calls == [
        {
            "seed": 7,
            "lr": 0.1,
            "ac_kwargs": {"x": 1},
            "logger_kwargs": {"output_dir": str(tmp_path / "e" / "e_s7"), "exp_name": "e"},
        }
    ]


def test_given_logger_kwargs_win(tmp_path):
    train = Recorder()
    call_experiment("e", train, data_dir=tmp_path, logger_kwargs={"output_dir": "here"})
    assert train.calls[0]["logger_kwargs"] == {"output_dir": "here", "exp_name": "e"}


def test_env_name_becomes_a_picklable_env_fn(monkeypatch, tmp_path):
    made = []
    monkeypatch.setattr(make, "make_env", lambda env_id, kwargs=None: made.append((env_id, kwargs)))
    train = Recorder()
    call_experiment("e", train, data_dir=tmp_path, env_name="Toy-v0", env_kwargs={"g": 1})
    (call,) = train.calls
    assert "env_name" not in call and "env_kwargs" not in call
    assert isinstance(call["env_fn"], functools.partial) and made == []
    call["env_fn"]()
    call["env_fn"]()
    assert made == [("Toy-v0", {"g": 1})] * 2


def test_env_fn_may_be_an_id_but_not_an_environment(tmp_path):
    train = Recorder()
    call_experiment("e", train, data_dir=tmp_path, env_fn="CartPole-v1")
    pickle.dumps(train.calls[0]["env_fn"])
    env = train.calls[0]["env_fn"]()
    assert env.spec.id == "CartPole-v1"
    with pytest.raises(SpinupError, match=r"env_fn is an environment .*pass the id 'CartPole-v1'"):
        call_experiment("e", train, data_dir=tmp_path, env_fn=env)
    with pytest.raises(SpinupError, match="an environment's id is a string"):
        call_experiment("e", train, data_dir=tmp_path, env_name=env)
    assert len(train.calls) == 1 and list(tmp_path.iterdir()) == []


def test_grid_runs_every_cell_in_order(tmp_path):
    train = Recorder()
    eg = grid("g", ("lr", [1, 2]), ("seed", [0, 10]))
    eg.run(train, data_dir=tmp_path)
    got = [(c["lr"], c["seed"], c["logger_kwargs"]["output_dir"]) for c in train.calls]
    assert got == [
        (lr, seed, str(tmp_path / f"g_lr{lr}" / f"g_lr{lr}_s{seed}"))
        for lr in (1, 2)
        for seed in (0, 10)
    ]


def test_thunk_may_be_a_key_of_the_grid(tmp_path):
    first, second = Recorder(), Recorder()
    first.__name__, second.__name__ = "first", "second"
    eg = grid("g", ("algo", [first, second]), ("lr", [1]))
    eg.run("algo", data_dir=tmp_path)
    assert [len(first.calls), len(second.calls)] == [1, 1]
    assert "algo" not in first.calls[0]
    assert first.calls[0]["logger_kwargs"]["exp_name"] == "g_algfirst"


def test_thunk_may_be_an_entry(tmp_path):
    train = Recorder()
    train.__name__ = "train"
    eg = grid("g", ("algo:fn", [train]), ("ac:fn", [train]), ("ac:lr", [1]), ("seed", [0, 1]))
    eg.run("algo:fn", data_dir=tmp_path)
    assert [set(call) for call in train.calls] == [{"ac", "seed", "logger_kwargs"}] * 2
    train.calls.clear()
    eg.run("ac:fn", data_dir=tmp_path / "other")
    assert [call["ac"] for call in train.calls] == [{"lr": 1}] * 2


@pytest.mark.parametrize("seeds", [[0], [0, 1]])
@pytest.mark.parametrize("key", ["exp_name", "num_cpu", "data_dir", "datestamp", "thunk"])
def test_what_is_the_same_for_all_runs_is_no_key(key, seeds, tmp_path):
    train = Recorder()
    with pytest.raises(SpinupError, match=f"'{key}' cannot be a key of a grid"):
        grid("g", (key, [1]), ("seed", seeds)).run(train, data_dir=tmp_path)
    assert train.calls == [] and list(tmp_path.iterdir()) == []


def test_two_cells_never_share_a_given_directory(tmp_path):
    train, place = Recorder(), str(tmp_path / "out")
    with pytest.raises(SpinupError, match=rf"two runs of the grid would both be in {place}: leave"):
        grid("g", ("seed", [0, 1]), ("logger_kwargs:output_dir", [place])).run(train)
    assert train.calls == [] and list(tmp_path.iterdir()) == []
    eg = grid("g", ("seed", [0]), ("logger_kwargs:output_dir", [place, place + "2"]))
    eg.run(train, data_dir=tmp_path)
    assert [c["logger_kwargs"]["output_dir"] for c in train.calls] == [place, place + "2"]


def test_the_commands_at_the_end_can_be_copied_whatever_the_name(tmp_path, capsys):
    call_experiment("my exp", Recorder(), data_dir=tmp_path)
    said = capsys.readouterr().out
    lines = [line for line in said.splitlines() if "-m spinup.run" in line]
    place = str(tmp_path / "my exp" / "my exp_s0")
    assert [shlex.split(line)[3:] for line in lines] == [["plot", place], ["test_policy", place]]


@pytest.mark.parametrize("thunk", ["nokey", "lr", 5])
def test_thunk_must_lead_to_a_function(thunk, tmp_path):
    with pytest.raises(SpinupError):
        grid("g", ("lr", [1])).run(thunk, data_dir=tmp_path)


@pytest.mark.parametrize(
    "rows",
    [
        [("lr", [1, 1])],
        [("seed", [0, 0])],
        [("lr", [0.1, "0-1"])],
        [("fn", [lambda: 1, lambda: 2])],
    ],
)
def test_two_cells_never_share_a_directory(rows, tmp_path):
    train = Recorder()
    with pytest.raises(SpinupError, match="two runs of the grid"):
        grid("g", *rows).run(train, data_dir=tmp_path)
    assert train.calls == []


class Boom(Exception):
    pass


def explode(lr=0, **kwargs):
    if lr == 1:
        raise Boom("on purpose")


def test_the_real_exception_comes_out_of_a_single_cell(tmp_path):
    with pytest.raises(Boom):
        grid("g", ("lr", [1])).run(explode, data_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []  # a single cell keeps no books


def test_a_cell_that_fails_does_not_stop_the_rest(tmp_path, capsys):
    train = Recorder()

    def thunk(**kwargs):
        train(**kwargs)
        explode(**kwargs)

    with pytest.raises(CellsFailed, match=r"1 of 3 cells failed \(g_lr1_s0\): the same command"):
        grid("g", ("lr", [1, 2, 3])).run(thunk, data_dir=tmp_path)
    assert [call["lr"] for call in train.calls] == [1, 2, 3]
    err = capsys.readouterr().err
    assert "g_lr1_s0 failed" in err and "Boom: on purpose" in err and "in explode" in err


@pytest.mark.parametrize("num_cpu", [2.5, "many", True, None])
def test_number_of_processes_is_checked_before_anything_runs(num_cpu, tmp_path):
    train = Recorder()
    with pytest.raises(SpinupError, match="num_cpu"):
        grid("g", ("lr", [1])).run(train, num_cpu=num_cpu, data_dir=tmp_path)
    assert train.calls == []


@pytest.mark.parametrize("num_cpu", [1, 0, -1])
def test_one_process_or_fewer_means_this_one(num_cpu, tmp_path):
    train = Recorder()
    grid("g", ("lr", [1])).run(train, num_cpu=num_cpu, data_dir=tmp_path)
    assert len(train.calls) == 1


def test_print_shows_keys_values_and_the_number_of_runs(capsys):
    grid("g", ("lr", [1, 2], "l"), ("seed", [0, 1, 2]), ("act", [some_function])).print()
    out = capsys.readouterr().out
    assert "lr [l]" in out and "some_function" in out and "2 experiment(s), 3 seed(s)" in out


def test_the_demonstration_grid_prints_its_names(capsys):
    eg = run_utils.test_eg()
    out = capsys.readouterr().out
    assert len(eg.variants()) == 12
    assert {"demo_ta1_tes-b", "demo_ta3"} <= set(out.split())


def test_a_grid_prints_each_value_on_a_line_of_its_own(capsys):
    eg = ExperimentGrid(name="g")
    eg.add("ac_kwargs:hidden_sizes", [[32], [64, 64]], "hid")
    eg.print()
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:5] == ["  ac_kwargs:hidden_sizes [hid]", "      [32]", "      [64, 64]"]

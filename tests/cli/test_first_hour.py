"""What people type in their first hour: words of other libraries, presets, sinks, listings."""

import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import gymnasium
import pytest

from benchmarks import learn
from spinup import __version__, registry, run
from spinup.cli import presets
from spinup.cli.flags import arguments
from spinup.runs.arguments.synonyms import _ADVICE, SAME, advice, same
from spinup.runs.logger import Logger

ENV = "--env CartPole-v1"
SCRIPT = Path(sys.executable).parent / "spinup"


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


@pytest.fixture
def called(monkeypatch):
    """Keep the arguments of every run instead of running it."""
    calls = []
    monkeypatch.setattr(
        "spinup.cli.plan.call_experiment", lambda name, thunk, **kwargs: calls.append(kwargs)
    )
    monkeypatch.setattr(
        "spinup.grids.experiments.ExperimentGrid.run",
        lambda grid, thunk, **kwargs: calls.extend(grid.variants()),
    )
    return calls


def source(call):
    """Where the hyperparameters of a run come from, as it will print."""
    return call["logger_kwargs"]["origin"]["source"]


def refused(line, capsys):
    """The sentence with which a command line ends, before anything is created."""
    assert run.main(line.split()) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and re.fullmatch(r"spinup: .+\n", printed.err)
    assert list(Path().iterdir()) == []
    return printed.err.strip()


# ---------------------------------------------------------------------- words of other libraries


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        (f"ppo {ENV} --n_envs 4", "num_envs", 4),
        (f"ppo {ENV} --num-envs 4", "num_envs", 4),
        (f"ppo {ENV} --gae_lambda 0.9", "lam", 0.9),
        (f"ppo {ENV} --gae-lambda 0.9", "lam", 0.9),
        (f"ppo {ENV} --clip_range 0.1", "clip_ratio", 0.1),
        (f"ppo {ENV} --net_arch 32,16", "ac_kwargs", {"hidden_sizes": (32, 16)}),
        (f"dqn {ENV} --buffer_size 5000", "replay_size", 5000),
        (f"dqn {ENV} --learning_rate 0.002", "q_lr", 0.002),
        (f"dqn {ENV} --lr 0.002", "q_lr", 0.002),
        (f"reinforce {ENV} --lr 0.002", "pi_lr", 0.002),
        ("sac --env_id Pendulum-v1 --ent_coef auto", "alpha", "auto"),
        ("sac --env Pendulum-v1 --learning_rate 0.002", "lr", 0.002),
        (f"trpo {ENV} --target_kl 0.02", "delta", 0.02),
    ],
)
def test_words_that_mean_the_same_work(line, key, value, called):
    assert run.main(line.split()) == 0
    assert [call[key] for call in called] == [value]


EACH = "each network has its own learning rate"
TOTAL = "a run takes epochs * steps_per_epoch steps"


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("ppo --total_timesteps 200000", f"write --epochs 50 --steps_per_epoch 4000 ({TOTAL})"),
        ("ppo --total_steps 200000", f"write --epochs 50 --steps_per_epoch 4000 ({TOTAL})"),
        ("ppo --total-timesteps 2e5", f"write --epochs 50 --steps_per_epoch 4000 ({TOTAL})"),
        (
            "ppo --num_timesteps 100000 --steps 2000",
            f"write --epochs 50 --steps_per_epoch 2000 ({TOTAL})",
        ),
        (
            "ppo --total_steps 10000",
            f"write --epochs 3 --steps_per_epoch 4000 (which is 12,000 steps; {TOTAL})",
        ),
        ("ppo --total_steps 500", f"write --epochs 1 --steps_per_epoch 500 ({TOTAL})"),
        ("ppo --total_steps", f"write --epochs EPOCHS --steps_per_epoch STEPS_PER_EPOCH ({TOTAL})"),
        ("ppo --lr 0.001", f"write --pi_lr 0.001 --vf_lr 0.001 ({EACH})"),
        ("ddpg --learning_rate 3e-4", f"write --pi_lr 0.0003 --q_lr 0.0003 ({EACH})"),
        ("sac --tau 0.005", "write --polyak 0.995 (polyak is 1 - tau)"),
        ("ppo --n_steps 2048 --num_envs 4", "write --steps_per_epoch 8192 ("),
        ("ppo --batch_size 64", "write --minibatch_size 64 ("),
        ("vpg --batch_size 64", "write --steps_per_epoch 64 (an epoch is one batch)"),
        ("ppo --n_epochs 10", "write --train_pi_iters 10 --train_v_iters 10 ("),
        ("sac --learning_starts 100", "write --start_steps 100 --update_after 100"),
        ("dqn --exploration_fraction 0.1", "write --eps_steps 40000 ("),
        ("dqn --gradient_steps 2", "write --updates_per_step 0.5 ("),
        ("ppo --num_minibatches 4", "write --minibatch_size 1000 ("),
        ("ppo --verbose 1", "progress shows a bar"),
        ("ppo --tensorboard_log logs", "write --track tensorboard"),
        ("ppo --cuda", "write --device cuda"),
        ("ppo --policy MlpPolicy", "leave it out"),
    ],
)
def test_words_that_mean_something_else_get_the_right_hint(line, hint, capsys):
    algo, word = line.split()[:2]
    said = refused(f"{line} {ENV}", capsys)
    assert said.startswith(f"spinup: '{word}' is not an argument of {algo}: ")
    assert hint in said


@pytest.mark.parametrize("algo", registry.algorithms())
def test_every_hint_names_arguments_that_exist_and_accept_it(algo):
    known = {name: p.default for name, p in arguments(registry.load(algo)).items()}
    for word in (*_ADVICE, "lr", "total_steps"):
        found = None if word in known else advice(word, 10, known)
        for key in found[0] if found else ():
            name = key.partition(":")[0]
            assert name in (*known, "track", "data_dir", "exp_name", "num_cpu"), (word, key)
    for word in SAME:
        name = same(word, known)
        assert name is None or name.partition(":")[0] in (*known, "env_name", "exp_name")


def test_two_words_for_one_argument_are_refused(capsys):
    said = refused(f"ppo {ENV} --n_envs 2 --num_envs 4", capsys)
    assert "'--n_envs' and '--num_envs' set the same argument" in said


def test_layers_written_with_spaces_are_explained(capsys):
    assert "write --hid 64,64 for a network" in refused(f"ppo {ENV} --hid 64 64", capsys)


@pytest.mark.parametrize(
    ("keywords", "hint"),
    [
        ({"n_envs": 4}, "'n_envs': write num_envs=4"),
        ({"total_timesteps": 200_000}, "write epochs=50, steps_per_epoch=4000 ("),
        ({"lr": 0.01}, "write pi_lr=0.01, vf_lr=0.01 ("),
        ({"tensorboard_log": "x"}, 'write logger_kwargs={"sinks": ["tensorboard"]}'),
        ({"hidden_sizes": (8,)}, 'write ac_kwargs={"hidden_sizes": (8,)}'),
        ({"env_id": "CartPole-v1"}, "write env_fn='CartPole-v1'"),
        ({"gama": 0.9}, "did you mean gamma?"),
        ({"zzzzqq": 1}, "unexpected keyword argument 'zzzzqq'"),
    ],
)
def test_python_callers_get_the_hint_too(keywords, hint):
    with pytest.raises(TypeError) as error:
        registry.load("ppo")(lambda: gymnasium.make("CartPole-v1"), **keywords)
    assert str(error.value).startswith("ppo() got an unexpected keyword argument ")
    assert hint in str(error.value)


# ------------------------------------------------------------------------- defaults and presets


def test_a_preset_is_found_by_name_and_flags_override_it(called):
    assert run.main(["ppo", "--preset", "CartPole-v1", "--gamma", "0.95"]) == 0
    file = presets.FOLDER / "ppo-CartPole-v1.json"
    written = json.loads(file.read_text())
    (call,) = called
    assert call["gamma"] == 0.95 and call["env_name"] == "CartPole-v1"
    assert call["minibatch_size"] == written["minibatch_size"]
    assert source(call) == f"{file}, then the defaults of ppo"


@pytest.mark.parametrize(
    "words",
    [
        "ppo --config ppo-CartPole-v1.json",
        "ppo --config ppo-CartPole-v1",
        "ppo --config CartPole-v1",
        "ppo --preset ppo-CartPole-v1.json",
        "her --preset BitFlip-v0",
        "her --preset spinup/BitFlip-v0",
        "ppo --preset ALE/Pong-v5",
        "dqn --preset MinAtar/Breakout-v1",
    ],
)
def test_a_shipped_name_works_wherever_a_file_does(words, called):
    assert run.main(words.split()) == 0
    assert "v" in called[0]["env_name"]


def test_a_file_here_comes_before_a_shipped_one(called, tmp_path):
    (tmp_path / "ppo-CartPole-v1.json").write_text('{"env": "Acrobot-v1"}')
    assert run.main(["ppo", "--config", "ppo-CartPole-v1.json"]) == 0
    assert called[0]["env_name"] == "Acrobot-v1"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("ppo --preset Cartpole", "did you mean CartPole-v1?"),
        ("ppo --preset cartpole-v1", "did you mean CartPole-v1?"),
        (
            "ppo --preset sac-Pendulum-v1",
            "is a preset of sac, not of ppo: type spinup sac --preset Pendulum-v1",
        ),
        ("ppo --preset", "'--preset' needs a value"),
        ("ppo --preset CartPole-v1 --config x.json", "choose one"),
        ("ppo --config missing.json", "the preset 'missing.json' does not exist"),
        ("presets ppoo", "did you mean ppo?"),
    ],
)
def test_an_unknown_preset_names_the_nearest(line, sentence, capsys):
    assert sentence in refused(line, capsys)


def test_a_preset_may_be_a_file_that_says_where_it_comes_from(called, tmp_path, capsys):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"env": "CartPole-v1", "gamma": 0.9, "provenance": {"a": "b"}}))
    assert run.main(["ppo", "--preset", str(path)]) == 0
    (kwargs,) = called
    assert source(kwargs).startswith(str(path))
    assert kwargs["gamma"] == 0.9 and "provenance" not in kwargs
    path.write_text(json.dumps({"env": "CartPole-v1", "data_dir": "/elsewhere"}))
    assert run.main(["ppo", "--preset", str(path)]) == 2
    assert "if you trust that file, add --trust" in capsys.readouterr().err


def test_presets_are_listed_with_what_they_reached(capsys):
    assert run.main(["presets"]) == 0
    out = capsys.readouterr().out
    for path in presets.FOLDER.glob("*-*.json"):
        algo, _, name = path.stem.partition("-")
        figures = r"(: \w+)? +([\d,]+ +\S|not measured)"
        assert re.search(rf"^{algo} +{re.escape(name)}{figures}", out, re.M), path.stem
    long = presets.reached()["ppo-MuJoCo"]["environments"]["HalfCheetah-v5"]
    shown = " ".join(f"{value:>6,.0f}" for value in long.values())
    assert re.search(rf"^ppo +MuJoCo: HalfCheetah +1,000,000 +{shown}$", out, re.M)
    assert re.search(r"^    ppo +--epochs 500: .*HalfCheetah.*$", out, re.M)
    assert re.search(r"^    ppo +--epochs 500 --gamma 0.999: Swimmer$", out, re.M)
    assert "its seeds are 100 and up" in out
    assert run.main(["presets", "dqn"]) == 0
    assert capsys.readouterr().out.count("\ndqn ") == len(presets.names("dqn"))


def test_what_presets_reached_is_what_the_benchmarks_recorded():
    assert presets.reached() == learn.reached(), "run learn.write_reached()"
    shipped = {path.stem: json.loads(path.read_text()) for path in presets.FOLDER.glob("*-*.json")}
    slow = {  # hours of three seeds each: games, and presets of the long benchmark
        name
        for name, preset in shipped.items()
        if preset.get("env", "ALE/").startswith(("ALE/", "MinAtar/"))
    }
    assert set(presets.reached()) | slow == set(shipped)


def test_both_ways_to_start_say_where_the_hyperparameters_come_from(capsys):
    from spinup.cli.main import run_file

    function = registry.load("dqn")
    short = ["--epochs", "1", "--steps", "40", "--hid", "4", "--num_test_episodes", "0"]
    assert run.main(["dqn", *ENV.split(), *short]) == 0
    assert capsys.readouterr().out.startswith("Hyperparameters: the defaults of dqn\nTraining dqn")
    run_file(function, short)
    beside = Path(inspect.getsourcefile(inspect.unwrap(function))).with_name("config.json")
    said = f"Hyperparameters: {beside}, then the defaults of dqn\nTraining dqn"
    assert capsys.readouterr().out.startswith(said)


def test_a_grid_says_once_where_its_hyperparameters_come_from(called, capsys):
    assert run.main(f"dqn {ENV} --seed 0 1".split()) == 0
    assert capsys.readouterr().out == "Hyperparameters: the defaults of dqn\n"


def test_an_edited_config_beside_the_code_is_not_passed_over_in_silence(
    called, monkeypatch, tmp_path
):
    function = registry.load("dqn")
    beside = Path(inspect.getsourcefile(inspect.unwrap(function))).with_name("config.json")
    edited = tmp_path / "config.json"
    edited.write_text(json.dumps({**json.loads(beside.read_text()), "gamma": 0.5}))
    monkeypatch.setattr("spinup.cli.plan.source_of", lambda fn: tmp_path / "dqn.py")
    assert run.main(f"dqn {ENV}".split()) == 0
    remark = f"(not {edited}, which was edited: add --config with its path to use it)"
    assert source(called[0]) == f"the defaults of dqn {remark}"
    assert run.main(f"dqn {ENV} --config {edited}".split()) == 0
    assert source(called[1]) == f"{edited}, then the defaults of dqn"
    assert [call.get("gamma", 0.99) for call in called] == [0.99, 0.5]


# ------------------------------------------------------------------------------------ sinks


def test_track_is_a_flag(called):
    assert run.main(f"ppo {ENV} --track tensorboard --seed 0 1".split()) == 0
    assert [call["logger_kwargs"] for call in called] == [{"sinks": ["tensorboard"]}] * 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--track tensorbord", "no log sink 'tensorbord'.*did you mean tensorboard"),
        ("--track", "'--track' needs a value"),
        ("--track tensorboard --logger_kwargs:sinks wandb", "choose one"),
        ("--logger_kwargs:sinks csv", "no log sink 'csv'"),
    ],
)
def test_a_wrong_sink_is_refused_before_anything_is_created(words, sentence, capsys):
    assert re.search(sentence, refused(f"ppo {ENV} {words}", capsys))


def test_a_run_writes_to_tensorboard_and_says_how_to_watch_it(capsys, tmp_path):
    line = f"ppo {ENV} --steps 40 --hid 4 --epochs 1 --track tensorboard --exp_name x"
    assert run.main(line.split()) == 0
    assert "  to watch   tensorboard --logdir data/x/x_s0\n" in capsys.readouterr().out
    assert list(tmp_path.glob("data/x/x_s0/tensorboard/events.*"))


# ------------------------------------------------------------------------------------ listings


def test_algos_lists_the_registry(capsys):
    assert run.main(["algos"]) == 0
    out = capsys.readouterr().out
    for row in registry.ROWS:
        kind = "on-policy" if row.on_policy else "off-policy"
        assert re.search(rf"^{row.name} +{kind} ", out, re.M)


@pytest.mark.parametrize(
    ("pattern", "shown", "hidden"),
    [
        ("pend", ["Pendulum-v1", "InvertedPendulum-v5"], ["InvertedPendulum-v4", "CartPole-v1"]),
        ("Cart*-v?", ["CartPole-v0", "CartPole-v1"], ["Pendulum-v1"]),
        ("Half*-v?", ["HalfCheetah-v4", "HalfCheetah-v5"], ["HalfCheetah-v2", "HalfCheetah-v3"]),
        ("pong", ["ALE/Pong-v5", "PongNoFrameskip-v4"], ["PongNoFrameskip-v0"]),
        ("spinup/", ["spinup/BitFlip-v0"], ["spinup/ProbeAction-v0"]),
        ("spinup/ --all", ["spinup/BitFlip-v0", "spinup/ProbeAction-v0"], []),
    ],
)
def test_envs_lists_what_can_be_made(pattern, shown, hidden, capsys, tmp_path):
    assert run.main(["envs", *pattern.split()]) == 0
    out = capsys.readouterr().out
    for name in shown:
        assert re.search(rf"^{re.escape(name)} +\S.*  \S", out, re.M), name
    assert not any(re.search(rf"^{re.escape(name)} ", out, re.M) for name in hidden)
    assert list(tmp_path.iterdir()) == []


def test_envs_names_spaces_and_finds_modules_here(capsys, tmp_path, monkeypatch):
    assert run.main(["envs", "CartPole-v1"]) == 0
    assert re.search(r"^CartPole-v1  Discrete\(2\) +Box\(4,\)$", capsys.readouterr().out, re.M)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(gymnasium.envs.registration, "registry", dict(gymnasium.registry))
    monkeypatch.setattr(gymnasium, "registry", gymnasium.envs.registration.registry)
    (tmp_path / "own_envs.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('OfMine-v0', 'gymnasium.envs.classic_control:PendulumEnv')\n"
    )
    assert run.main(["envs", "own_envs:OfMine"]) == 0
    assert re.search(r"^OfMine-v0  Box\(1,\) in \[-2, 2\] ", capsys.readouterr().out, re.M)


def test_envs_says_when_nothing_matches(capsys):
    assert "did you mean CartPole-v1?" in refused("envs CartPoel-v1", capsys)
    assert "there is no module 'nosuchmod'" in refused("envs nosuchmod:x", capsys)


def make_run(folder, rows, epochs, config=(), finished=False, checkpoint=True):
    folder.mkdir(parents=True)
    table = ["Epoch\tAverageEpRet\tTime", *(f"{i}\t{i * 10.0}\t1.0" for i in range(rows))]
    (folder / "progress.txt").write_text("\n".join(table) + "\n")
    (folder / "config.json").write_text(
        json.dumps({"algo": "ppo", "epochs": epochs, **dict(config)})
    )
    if finished:
        (folder / ".finished").touch()
    if checkpoint:
        (folder / "checkpoints/step-1").mkdir(parents=True)


@pytest.mark.parametrize(
    "start", [["spinup"], ["/venv/bin/spinup"], ["python", "-m", "spinup.run"]], ids=" ".join
)
def test_runs_shows_status_epochs_return_age_and_how_to_continue(capsys, tmp_path, start):
    from spinup.runs.storage.locks import RunLock

    data = tmp_path / "data"
    words = [*start, "ppo", "--env", "CartPole-v1", "--exp_name", "my exp", "--resume"]
    make_run(data / "a/a_s0", 5, 5, finished=True)
    make_run(data / "a/a_s1", 3, 5, {"resume_with": words})
    make_run(data / "a/a_s2", 0, 5, checkpoint=False)
    make_run(data / "b/b_s0", 2, 5)
    old = time.time() - 7200
    os.utime(data / "a/a_s0/progress.txt", (old, old))
    with open(data / "a/a_s1/progress.txt", "a") as file:
        file.write("3\t99")  # half a row
    lock = RunLock(data / "b/b_s0")
    try:
        assert run.main(["runs"]) == 0
    finally:
        lock.release()
    out = capsys.readouterr().out
    assert re.search(r"^finished +5/5 +40 +2 h  data/a/a_s0$", out, re.M)
    assert re.search(r"^stopped +3/5 +20 +\d+ s  data/a/a_s1$", out, re.M)
    assert re.search(r"^broken +0/5 +- +\d+ s  data/a/a_s2$", out, re.M)
    assert re.search(r"^running +2/5 +10 +\d+ s  data/b/b_s0$", out, re.M)
    # in the form in which this command was started, which is not the console script
    command = "python -m spinup.run ppo --env CartPole-v1 --exp_name 'my exp' --resume"
    assert out.endswith(f"\n    {command}\n")


@pytest.mark.parametrize(
    "words",
    [
        ["rm", "-rf", "x"],
        ["spinup", "plot"],
        ["python", "-m", "spinup.run"],
        ["python", "-m", "spinup.run", "plot"],
        ["python", "-m", "elsewhere", "ppo"],
        [],
        ["spinup", "ppo", "\x1b[2J"],
        "spinup ppo; rm",
        ["spinup", "ppo", 3],
    ],
)
def test_a_strangers_config_cannot_suggest_a_command(words, capsys, tmp_path):
    make_run(tmp_path / "x", 1, 5, {"resume_with": words})
    assert run.main(["runs", "x"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == (
        '    call ppo with the same arguments, resume=True and logger_kwargs={"output_dir": "x"}'
    )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes exist on POSIX only")
def test_files_that_would_wait_forever_are_passed_over(capsys, tmp_path):
    make_run(tmp_path / "x", 1, 5)
    for name in ("config.json", "progress.txt", ".lock"):
        (tmp_path / "x" / name).unlink(missing_ok=True)
        os.mkfifo(tmp_path / "x" / name)
    assert run.main(["runs", "x"]) == 0
    assert re.search(r"^stopped +0/\? +- +\d+ s  x$", capsys.readouterr().out, re.M)


def test_hundreds_of_runs_are_listed_by_reading_little(capsys, tmp_path, monkeypatch):
    for i in range(300):
        make_run(tmp_path / f"data/r{i}", 20, 50, finished=i % 2 == 0)
    monkeypatch.setattr("spinup.analysis.curves.read_run", None)  # whole tables are not parsed
    started = time.process_time()
    assert run.main(["runs"]) == 0
    assert time.process_time() - started < 5
    assert capsys.readouterr().out.count("\nstopped ") == 150


@pytest.mark.parametrize("folder", ["", "data"])
def test_runs_says_when_there_are_none(folder, capsys, tmp_path):
    if folder:
        (tmp_path / folder).mkdir()
    assert run.main(["runs"]) == 2
    assert capsys.readouterr().err.startswith("spinup: ")


def test_runs_says_when_a_table_was_changed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    logger = Logger(tmp_path / "x/x_s0", quiet=True)
    logger.log_tabular("AverageEpRet", 40.0)
    logger.dump_tabular()
    logger.mark_finished()
    logger.close()
    assert run.main(["runs", "x"]) == 0
    assert capsys.readouterr().err == ""
    table = tmp_path / "x/x_s0/progress.txt"
    table.write_text(table.read_text().replace("40.0", "49.0"))
    assert run.main(["runs", "x"]) == 0
    assert "x_s0: progress.txt was changed" in capsys.readouterr().err


def test_runs_lists_a_table_that_cannot_be_read_to_its_end(tmp_path, monkeypatch, capsys):
    """/proc/self/mem is a regular file that can be opened, and whose first byte is an error."""
    make_run(tmp_path / "x/x_s0", 2, 5)
    (tmp_path / "x/x_s0/progress.txt").unlink()
    (tmp_path / "x/x_s0/progress.txt").symlink_to("/proc/self/mem")
    monkeypatch.chdir(tmp_path)
    assert run.main(["runs", "x"]) == 0
    assert re.search(r"^stopped +0/5 +- ", capsys.readouterr().out, re.M)


# ------------------------------------------------------------------------- the console script


def test_the_console_script_trains_with_a_preset_and_lists_the_run(tmp_path):
    def spinup(line, **options):
        return subprocess.run(
            [SCRIPT, *line.split()], capture_output=True, text=True, timeout=300, **options
        )

    done = spinup("ppo --preset CartPole-v1 --epochs 1 --steps 400 --track tensorboard")
    assert done.returncode == 0, done.stderr
    assert done.stdout.index("| ") < 900
    assert "Training ppo on CartPole-v1\n" in done.stdout and "tensorboard --logdir" in done.stdout
    done = spinup("runs data")
    assert "finished " in done.stdout and "1/1" in done.stdout, done.stderr
    done = spinup("--version")
    assert done.stdout.splitlines()[0] == f"spinup {__version__}"
    if shutil.which("bash"):
        line = f"'{SCRIPT}' envs | head -n 1"
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=300)
        assert done.stdout.startswith("id ") and done.stderr == ""

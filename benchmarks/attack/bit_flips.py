"""Flipped bits: one random bit of one file of a run changes, and then the run is used.

Every use must give the same result as without the flip, or say what is wrong: a changed policy,
table or curve that nobody hears of is a broken promise.
"""

import random
import warnings

import numpy as np

from benchmarks.attack.common import fresh_copy, result, train, trial, without_fsync

ALGOS = ("reinforce", "vpg", "trpo", "ppo", "ddpg", "td3", "sac", "dqn", "acer", "her")
FLIPS = 6  # per file
UNREAD = ("vars.pkl", "model.pt")  # pickles, which the library writes and never reads


def flip(path, rng):
    """Flip one random bit of a file; return what it was."""
    data = bytearray(path.read_bytes())
    place = rng.randrange(len(data) * 8)
    data[place // 8] ^= 1 << place % 8
    path.write_bytes(data)
    return f"bit {place} of {len(data) * 8}"


def resume(algo, run):
    with without_fsync():
        train(algo, run, resume=True)
    return result(run)


def act(run):
    """Return what the policy does in ten states, and which environment it belongs to."""
    from spinup.policies import loading

    with warnings.catch_warnings():
        warnings.simplefilter("error", loading.NoEnvironment)
        env, get_action = loading.load_policy_and_env(run, deterministic=True)
    rng = np.random.default_rng(0)
    space = env.observation_space
    actions = []
    for _ in range(10):
        o = (
            {k: rng.normal(size=s.shape).astype("f4") for k, s in space.items()}
            if hasattr(space, "items")
            else rng.normal(size=space.shape).astype("f4")
        )
        actions.append(np.asarray(get_action(o)).tolist())
    o, _ = env.reset(seed=1)
    return actions, np.asarray(env.step(get_action(o))[1]).tolist(), str(env.spec and env.spec.id)


def play(run):
    from spinup.cli import test_policy as program

    return program.main([str(run), "-nr", "-n", "1", "-l", "5", "--seed", "0", "-d"])


def curves(run):
    """Return a run's curve; its problems are what `plot` and `compare` print."""
    from spinup.analysis.curves import read_runs, report

    found = read_runs([run], ["Performance", "Epoch", "TotalEnvInteracts"])
    report(found, "plot")
    return [{name: column.tolist() for name, column in run.columns.items()} for run in found]


def runs(run):
    from spinup.cli import runs as program

    return program.main([str(run)])


def export(run):
    from spinup.policies.export import export_onnx

    target = run.parent / "policy.onnx"
    export_onnx(run, target, overwrite=True)
    return target.read_bytes()


USES = {"resume": None, "load": act, "test_policy": play, "plot": curves, "runs": runs}


def bit_flips(tally, folder):
    """Flip bits in every file of a run of each algorithm, and use the run."""
    tally.what = "one bit of one file of a run is flipped; all ten algorithms"
    rng = random.Random(0)
    for algo in ALGOS:
        whole, half = folder / f"{algo}-whole", folder / f"{algo}-half"
        with without_fsync():
            train(algo, whole)
            train(algo, half, epochs=2)
        place = folder / algo / f"{algo}_s3"
        place.parent.mkdir()
        files = sorted(p.relative_to(half) for p in half.rglob("*") if p.is_file())
        fresh_copy(half, place)
        uses = {name: use for name, use in USES.items() if use is not None}
        wanted = {name: trial(use, place, seconds=60) for name, use in uses.items()}
        assert all(o.kind == "ok" for o in wanted.values()), wanted
        expected = {name: _shown(name, o) for name, o in wanted.items()}
        expected["resume"] = result(whole)
        for file in files:
            if (half / file).stat().st_size == 0:
                continue
            if file.name == "progress.txt":
                chosen = ("resume", "plot", "runs")
            elif "checkpoints" in file.parts:
                chosen = ("resume",)
            elif file.name in ("policy.json", "policy.safetensors"):
                chosen = ("load", "test_policy", "resume")
            else:
                chosen = ("plot", "load", "resume") if file.name == "config.json" else ("resume",)
            for number in range(tally.times(FLIPS)):
                use = chosen[number % len(chosen)]
                fresh_copy(half, place)
                where = f"{algo} {file} {flip(place / file, rng)}, {use}"
                if use == "resume":
                    outcome = trial(resume, algo, place, seconds=60)
                    got = outcome.value
                else:
                    outcome = trial(uses[use], place, seconds=60)
                    got = _shown(use, outcome)
                kind = file.name if len(file.parts) < 3 else "/".join(("checkpoints", file.name))
                kind = "a piece" if "pieces" in file.parts else kind
                if outcome.kind == "said":
                    tally.say(kind)
                elif outcome.kind != "ok":
                    tally.breaks(where, f"{outcome.kind}: {outcome.text[-700:]}", kind)
                elif got == expected[use]:
                    tally.hold(kind)
                elif _is_said(outcome.printed, wanted.get(use)):
                    tally.say(kind)
                else:
                    tally.breaks(
                        where, f"silently different: {_difference(got, expected[use])}", kind
                    )
        if algo in ("ppo", "sac"):
            _export(tally, half, place, rng)


def _shown(name, outcome):
    """What a use gives: the value, or what it prints (ages and times aside)."""
    if name == "runs":
        return [line.split()[:3] for line in outcome.printed.splitlines()[:2]]
    return outcome.printed if name == "test_policy" else outcome.value


def _is_said(printed, before):
    """Whether there is a line that an unharmed run does not print, and it says what is wrong."""
    known = set(before.printed.splitlines()) if before else set()
    words = (
        "damaged",
        "does not match",
        "changed",
        "cannot be read",
        "not numbers",
        "ignored",
        "hash",
        "counted as part of",
    )
    new = [line for line in printed.splitlines() if line not in known]
    return any(word in line for line in new for word in words)


def _difference(got, wanted):
    return f"{str(got)[:200]} instead of {str(wanted)[:200]}"


def _export(tally, half, place, rng):
    fresh_copy(half, place)
    wanted = trial(export, place, seconds=120, memory=8 << 30)
    if wanted.kind != "ok":
        raise RuntimeError(wanted.text)
    for name in ("policy.json", "policy.safetensors"):
        for _ in range(tally.times(FLIPS) // 2):
            fresh_copy(half, place)
            where = f"export, {name} {flip(place / 'pyt_save' / name, rng)}"
            outcome = trial(export, place, seconds=120, memory=8 << 30)
            if outcome.kind == "said":
                tally.say(f"export {name}")
            elif outcome.kind == "ok" and outcome.value == wanted.value:
                tally.hold(f"export {name}")
            else:
                tally.breaks(where, f"{outcome.kind}: {outcome.text[-700:]}", "export")


ATTACKS = {"bit_flips": bit_flips}

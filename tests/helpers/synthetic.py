"""Small run directories with the tables of a healthy run, in which a test plants a fault."""

import json
import math

import numpy as np

ROWS, STEPS, GAMMA = 40, 1000, 0.99
SPACES = {
    "Discrete": {"type": "Discrete", "n": 2, "start": 0, "dtype": "int64"},
    "Box": {"type": "Box", "low": -2.0, "high": 2.0, "shape": [1], "dtype": "float32"},
}
CONFIG = {
    "gamma": GAMMA,
    "steps_per_epoch": STEPS,
    "epochs": ROWS,
    "seed": 0,
    "num_envs": 1,
    "max_ep_len": 500,
    "spinup_version": "0.1.0",
    "env": {"id": "CartPole-v1", "max_episode_steps": 500, "wrappers": ["TimeLimit"]},
}
SETTINGS = {
    "ppo": {"lam": 0.95, "target_kl": 0.01, "train_pi_iters": 80, "pi_lr": 3e-4, "ent_coef": 0.0},
    "trpo": {"lam": 0.95, "delta": 0.01, "backtrack_iters": 10},
    "vpg": {"lam": 0.95, "pi_lr": 1e-2},
    "reinforce": {"pi_lr": 1e-2},
    "dqn": {"eps_start": 1.0, "eps_end": 0.05, "eps_steps": 10000, "update_after": 1000},
    "ddpg": {"start_steps": 1000, "update_after": 1000, "replay_size": 100000},
    "td3": {"start_steps": 1000, "update_after": 1000, "replay_size": 100000},
    "sac": {"alpha": 0.2, "start_steps": 1000, "update_after": 1000, "replay_size": 100000},
    "acer": {"replay_size": 50000},
    "her": {"base": "dqn", "gamma": 0.98, "k": 4},
}
SPACE = {"ddpg": "Box", "td3": "Box", "sac": "Box"}


def spread(columns, name, mean, std):
    """Add the four columns of a statistic."""
    mean, std = np.broadcast_to(mean, ROWS).astype(float), np.broadcast_to(std, ROWS).astype(float)
    parts = {"Average": mean, "Std": std, "Max": mean + 2 * std, "Min": mean - 2 * std}
    columns.update({f"{part}{name}": x.copy() for part, x in parts.items()})


def episodes(columns, rng):
    """Episodes of a task with one reward per step, which get longer."""
    returns = 20 + 170 * (1 - np.exp(-np.arange(ROWS) / 8)) + rng.normal(0, 3, ROWS)
    columns["Epoch"] = np.arange(float(ROWS))
    columns["AverageEpRet"], columns["StdEpRet"] = returns, 0.3 * returns
    columns["MaxEpRet"], columns["MinEpRet"] = 1.6 * returns, 0.5 * returns
    columns["EpLen"] = returns.copy()
    columns["TotalEnvInteracts"] = STEPS * (columns["Epoch"] + 1)
    columns["Time"] = 1.5 * (columns["Epoch"] + 1)
    return (1 - GAMMA**returns) / (1 - GAMMA)


def on_policy(algo, rng):
    """The columns of an on-policy run."""
    columns = {}
    gain = episodes(columns, rng)
    ret, std, explained = 0.6 * gain, 0.3 * gain, np.linspace(0.1, 0.7, ROWS)
    if algo != "reinforce":
        spread(columns, "VVals", 0.55 * gain, 0.2 * gain)
        columns["LossV"] = (1 - explained) * std**2 + (0.05 * gain) ** 2
        columns["DeltaLossV"] = -0.3 * columns["LossV"]
        columns["AdvMean"], columns["AdvStd"] = 0.02 * gain, 0.2 * gain
        columns["ExplVarOld"], columns["ExplVarNew"] = explained, explained + 0.1
    else:
        columns["Baseline"] = ret.copy()
    columns["LossPi"] = rng.normal(0, 1e-8, ROWS)
    columns["DeltaLossPi"] = -0.02 + rng.normal(0, 1e-3, ROWS)
    columns["KL"] = 0.008 + rng.normal(0, 1e-4, ROWS)
    columns["Entropy"] = np.linspace(0.69, 0.45, ROWS)
    if algo == "ppo":
        columns["ClipFrac"], columns["StopIter"] = np.full(ROWS, 0.1), np.full(ROWS, 60.0)
    if algo == "trpo":
        columns["BacktrackIters"] = np.zeros(ROWS)
    columns |= {"RetMean": ret, "RetStd": std, "RetMin": np.ones(ROWS), "RetMax": 1.2 * gain}
    columns["RetMax"] = np.minimum(columns["RetMax"], 99.0)
    columns |= {name: np.ones(ROWS) for name in ("RewMin", "RewMax", "RewMean")}
    columns |= {"TermShare": np.full(ROWS, 0.9), "CutShare": np.full(ROWS, 0.05)}
    columns["SurrGain"] = np.full(ROWS, 0.02)
    return columns


def off_policy(algo, rng):
    """The columns of an off-policy run."""
    columns = {}
    gain = episodes(columns, rng)
    for kind in ("Average", "Std", "Max", "Min"):
        columns[f"{kind}TestEpRet"] = 1.05 * columns[f"{kind}EpRet"]
    columns["TestEpLen"] = columns["EpLen"] * 1.05
    q = 0.6 * gain
    twins = algo in ("td3", "sac")
    spread(columns, "Q1Vals" if twins else "QVals", q, 0.3 * q)
    if twins:
        spread(columns, "Q2Vals", 0.99 * q, 0.31 * q)
    columns["LossQ"] = np.full(ROWS, 0.5)
    if algo in ("ddpg", "td3"):
        columns["LossPi"] = -1.1 * q
    if algo == "sac":
        spread(columns, "LogPi", np.linspace(-1.2, 0.5, ROWS), 0.8)
        columns["Alpha"] = np.full(ROWS, 0.2)
        columns["LossPi"] = -1.1 * q + 0.2 * columns["AverageLogPi"]
    if algo in ("dqn", "her"):
        done = np.clip(columns["TotalEnvInteracts"] / 10000, 0, 1)
        columns["Epsilon"] = 1 - 0.95 * done
    if algo == "acer":
        columns |= {"KL": np.full(ROWS, 0.02), "Entropy": np.linspace(0.69, 0.4, ROWS)}
        columns |= {"ClipFrac": np.full(ROWS, 0.01), "TrustFrac": np.full(ROWS, 0.1)}
    if algo == "her":
        columns["SuccessRate"] = columns["TestSuccessRate"] = np.linspace(0, 1, ROWS)
        for name in ("EpRet", "TestEpRet"):
            spread(columns, name, np.linspace(-50, -10, ROWS), 3)
        columns["EpLen"] = columns["TestEpLen"] = np.linspace(50, 12, ROWS)
        spread(columns, "QVals", np.linspace(-20, -8, ROWS), 3)
    return columns


def healthy(algo, space=None):
    """Return the columns and the settings of a healthy run."""
    rng = np.random.default_rng(0)
    make = on_policy if algo in ("reinforce", "vpg", "trpo", "ppo") else off_policy
    config = {**json.loads(json.dumps(CONFIG)), **SETTINGS[algo], "algo": algo}
    columns = make(algo, rng)
    space = space or SPACE.get(algo, "Discrete")
    if space == "Discrete" and algo == "sac":
        spread(columns, "LogPi", np.linspace(-0.6, -0.3, ROWS), 0.1)
    if space == "Box" and "Entropy" in columns:
        columns["Entropy"] = np.linspace(0.92, 0.5, ROWS)
    return columns, config, space


DIAGNOSED = ("Ret", "Rew", "Adv", "ExplVar", "TermShare", "CutShare", "SurrGain", "Targ", "QBias")


def write(folder, columns, config, space="Discrete", rows=ROWS):
    """Write a run directory."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    logged = [n for n in columns if not n.startswith(DIAGNOSED)]
    extra = ["Epoch", *(n for n in columns if n.startswith(DIAGNOSED))]
    for name, names in (("progress.txt", logged), ("diagnostics.txt", extra)):
        lines = ["\t".join(names)]
        for row in range(rows):
            cells = (columns[n][row] for n in names)
            lines.append("\t".join(repr(float(x)) if not math.isnan(x) else "nan" for x in cells))
        (folder / name).write_text("\n".join(lines) + "\n")
    (folder / "pyt_save").mkdir(exist_ok=True)
    meta = {"action_space": SPACES[space], "observation_space": {"type": "Box", "shape": [4]}}
    (folder / "pyt_save" / "policy.json").write_text(json.dumps(meta))
    return folder

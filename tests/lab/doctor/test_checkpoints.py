"""The rules on checkpoints and played episodes find planted faults; healthy runs are silent."""

import json
import shutil
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch

from spinup import registry
from spinup.runs.storage.arrays import Piece
from spinup.runs.storage.checkpoints import load_checkpoint, save_checkpoint
from spinup_lab.doctor import critics, played
from spinup_lab.doctor.examination import apply
from spinup_lab.doctor.record import Record
from spinup_lab.doctor.rule import Skip
from spinup_lab.doctor.rules import RULES
from tests.helpers import synthetic

SAVED = [rule for rule in RULES.values() if rule.tier == 2]
SMALL = {"hidden_sizes": (16, 16)}
OFF = {
    "steps_per_epoch": 250,
    "epochs": 10,
    "start_steps": 500,
    "update_after": 250,
    "updates_per_step": 0.15,
    "batch_size": 50,
    "save_freq": 100,
    "polyak": 0.98,
    "num_test_episodes": 0,
    "ac_kwargs": SMALL,
}
ON = {
    "steps_per_epoch": 230,
    "epochs": 10,
    "train_v_iters": 4,
    "ac_kwargs": SMALL,
    "save_freq": 100,
}
RECIPES = {
    "td3": ("Pendulum-v1", OFF),
    "sac": ("Pendulum-v1", OFF),
    "dqn": (
        "CartPole-v1",
        {
            **OFF,
            "n_step": 1,
            "gamma": 0.9,
            "q_lr": 3e-3,
            "updates_per_step": 1.2,
            "batch_size": 100,
        },
    ),
    "ppo": ("Pendulum-v1", {**ON, "ac_kwargs": {**SMALL, "normalize_obs": True}}),
    "vpg": ("CartPole-v1", {**ON, "pi_lr": 1e-2}),
    "her": ("spinup/BitFlip-v0", {"steps_per_epoch": 250, "epochs": 2, "update_after": 450}),
}


@pytest.fixture(autouse=True)
def sooner(monkeypatch):
    """Look at networks after fewer gradient steps than in real runs."""
    monkeypatch.setattr(critics, "BEGUN", 300)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Small runs that are trained once, when a test first asks for them."""
    root, made = tmp_path_factory.mktemp("runs"), {}

    def run_of(algo):
        if algo not in made:
            env, arguments = RECIPES[algo]
            logger = {"output_dir": str(root / algo), "quiet": True}
            registry.load(algo, "pytorch")(env, logger_kwargs=logger, **arguments)
            made[algo] = root / algo
        return made[algo]

    return run_of


def look(folder, play=0):
    found = apply(Record(folder, play), RULES.values() if play else SAVED)
    assert found.failed == {}
    return {finding.id: finding for finding in found.findings}, found.skipped


@pytest.mark.parametrize("algo", RECIPES)
def test_a_healthy_checkpoint_gives_no_finding(algo, runs):
    found, skipped = look(runs(algo))
    assert [finding for finding in found.values() if finding.level != "hint"] == []
    applied = {"C1", "C2", "C16", "C17"} | ({"C9", "C10", "C20"} if algo == "dqn" else set())
    assert applied.isdisjoint(skipped), skipped


def changed(folder, target, change):
    """Copy a run and change the state in its checkpoint."""
    shutil.copytree(folder, target)
    state, path = load_checkpoint(target / "checkpoints")
    change(SimpleNamespace(state=state, folder=target, **state["tracked"]))
    save_checkpoint(target / "checkpoints", state, int(path.name.partition("-")[2]))
    return target


def rows(run, **fields):
    """Replace fields of the stored transitions; a function maps the old ones to the new ones."""
    ring = run.buffer["ring"]
    (piece,) = ring["pieces"]
    arrays = {name: x.copy() for name, x in piece.load().items()}
    new = {
        name: np.asarray(make(arrays), arrays[name].dtype if name in arrays else None)
        for name, make in fields.items()
    }
    ring["pieces"] = [Piece({**arrays, **new})]


def settings(run, **changes):
    path = run.folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def scale(tree, name, factor=1.0, plus=0.0):
    tree[name] = tree[name] * factor + plus


def negate_critics(run):
    for name in ("q1.q.4.weight", "q1.q.4.bias", "q2.q.4.weight", "q2.q.4.bias"):
        scale(run.ac, name, -1.0)


def equal_target(run):
    for name in run.ac_targ:
        run.ac_targ[name] = run.ac[name].clone()


def near_target(run):
    for name in run.ac_targ:
        run.ac_targ[name] = run.ac[name] * (1 + 1e-6)


def far_target(run):
    for name, x in run.ac_targ.items():
        if "act_" not in name:
            run.ac_targ[name] = torch.randn(x.shape, generator=torch.manual_seed(0))


def no_gradient(run):
    run.pi_optimizer["state"][1]["exp_avg_sq"].zero_()


def extra_parameters(run):
    run.pi_optimizer["param_groups"][0]["params"].append(99)


def dead_layer(run):
    scale(run.ac, "q1.q.0.bias", 0.0, -1e4)


def constant_action(run):
    scale(run.ac, "pi.pi.4.weight", 0.0)
    scale(run.ac, "pi.pi.4.bias", 0.0)


def one_discount(run):
    settings(run, n_step=3)
    rows(run, discount=lambda a: np.full(len(a["rew"]), 0.9, np.float32))


def one_critic(run):
    for name in ("q1", "q2"):
        for part in ("0.weight", "0.bias", "2.weight", "2.bias", "4.weight", "4.bias"):
            run.ac_targ[f"{name}.q.{part}"] = run.ac[f"q1.q.{part}"].clone()
            run.ac[f"q2.q.{part}"] = run.ac[f"q1.q.{part}"].clone()


def larger_critic(run):
    """The second target critic is below the first, which the critics follow."""
    one_critic(run)
    scale(run.ac_targ, "q2.q.4.weight", 1.5)  # values are negative
    scale(run.ac_targ, "q2.q.4.bias", 1.5)


def falling_values(run):
    """The critics are off by the same everywhere, as they are while values fall."""
    one_critic(run)
    scale(run.ac_targ, "q2.q.4.bias", 1.0, -10.0)


def low_policy(run, *others):
    for tree in (run.ac, *others):
        scale(tree, "pi.pi.4.weight", 0.01)
        scale(tree, "pi.pi.4.bias", 0.0)


def random_actions(run):
    low_policy(run, run.ac_targ)
    rows(run, act=lambda a: np.random.default_rng(0).uniform(-2, 2, a["act"].shape))


def quiet_actions(run):
    """The policy's action is about 0, and the noise is a tenth of what it should be."""
    low_policy(run, run.ac_targ)
    rows(run, act=lambda a: 0.02 * np.random.default_rng(0).normal(size=a["act"].shape))


def logged_loss(run, loss):
    """Change the loss that was logged: the critics had learned their own target."""
    path = run.folder / "progress.txt"
    header, *lines = path.read_text().splitlines()
    place, cells = header.split("\t").index("LossQ"), [line.split("\t") for line in lines]
    for row in cells:
        row[place] = str(loss)
    path.write_text("\n".join([header, *("\t".join(row) for row in cells)]) + "\n")
    (run.folder / ".progress.txt.sha256").unlink()


def learned_another_gamma(run):
    settings(run, gamma=0.8)
    logged_loss(run, 1e-4)


def another_reward(run):
    rng = np.random.default_rng(0)
    rows(run, rew=lambda a: a["rew"] + 30 * rng.normal(size=len(a["rew"])))


def bootstraps_after_death(run):
    """The episodes went on, but many transitions are flagged as the last ones."""
    rows(run, done=lambda a: _every(3, a))
    logged_loss(run, 0.1)


def _every(n, a):
    return np.arange(len(a["done"])) % n == n - 1


def far_after_few(run):
    far_target(run)
    settings(run, polyak=0.9)


def always_the_first(a):
    return np.roll(a["obs"], -1, 0)


def not_advanced(run):
    """Returns of several steps are stored with the first observation of their episode."""
    settings(run, n_step=3)
    rows(run, obs=lambda a: np.repeat(a["obs"][::25], 25, 0)[: len(a["obs"])])


# id: [(algorithm, what plants the fault, part or None)]
PLANTS = {
    "C1": [("ppo", no_gradient, "policy-loss")],
    "C2": [
        ("td3", lambda run: run.q_optimizer["state"][0]["step"].add_(7), "loop"),
        ("td3", lambda run: run.pi_optimizer["state"][0]["step"].add_(7), "policy-step"),
        ("vpg", lambda run: run.pi_optimizer["state"][0]["step"].add_(1), "loop"),
        ("dqn", lambda run: settings(run, update_every=25, updates_per_step=1.0), "loop"),
    ],
    "C3": [("sac", equal_target, "targets")],
    "C4": [("sac", near_target, "targets"), ("dqn", far_after_few, "targets")],
    "C5": [("ppo", lambda run: scale(run.ac, "v.v_net.0.weight", 1e4), None)],
    "C6": [("td3", dead_layer, None)],
    "C7": [("td3", lambda run: scale(run.ac, "pi.pi.4.bias", 0.0, 50.0), "action-bounds")],
    "C8": [("td3", constant_action, "policy-loss")],
    "C9": [
        ("sac", lambda run: rows(run, done=lambda a: _every(200, a)), None),
        ("dqn", lambda run: rows(run, done=lambda a: np.zeros(len(a["done"]))), "episode-ends"),
        ("dqn", lambda run: rows(run, done=lambda a: np.roll(a["done"], 1)), "episode-ends"),
    ],
    "C10": [
        ("dqn", lambda run: rows(run, obs2=always_the_first), "episode-ends"),
        ("dqn", lambda run: rows(run, obs2=lambda a: a["obs"]), "loop"),
        ("dqn", not_advanced, "loop"),
        ("sac", lambda run: rows(run, obs2=lambda a: a["obs2"] + 1), "replay"),
    ],
    "C11": [("sac", lambda run: rows(run, rew=lambda a: np.ones(len(a["rew"]))), None)],
    "C12": [("sac", lambda run: rows(run, obs=lambda a: a["obs"] * 1e3), None)],
    "C13": [("sac", lambda run: rows(run, act=lambda a: a["act"] * 1.5), "action-bounds")],
    "C14": [
        ("ppo", lambda run: run.ac["pi.obs_filter.sums"][:1].add_(100), "normalizer"),
        ("vpg", lambda run: settings(run, ac_kwargs={"normalize_obs": True}), "normalizer"),
    ],
    "C15": [("sac", lambda run: settings(run, start_steps=2000), None)],
    "C16": [("ppo", lambda run: scale(run.ac, "v.v_net.0.bias", 1.0, 0.1), "logging-saving")],
    "C17": [
        ("vpg", lambda run: settings(run, vf_lr=0.5), "hyperparameters"),
        ("td3", extra_parameters, "policy-loss"),
    ],
    "C18": [
        ("td3", lambda run: rows(run, rew=lambda a: np.roll(a["rew"], -1)), "replay"),
        ("td3", lambda run: rows(run, act=lambda a: a["act"] * 0.5), "action-bounds"),
        ("td3", lambda run: rows(run, obs2=lambda a: a["obs"]), "loop"),
    ],
    "C19": [
        ("td3", random_actions, "loop"),
        ("td3", quiet_actions, "exploration"),
    ],
    "C20": [("dqn", learned_another_gamma, "returns"), ("dqn", another_reward, "value-loss")],
    "C21": [("dqn", bootstraps_after_death, "episode-ends")],
    "C22": [("td3", negate_critics, "policy-loss")],
    "C23": [("sac", lambda run: scale(run.ac, "pi.log_std_layer.bias", 1.0, -4.0), None)],
    "C24": [("ppo", lambda run: scale(run.ac, "pi.log_std", 1.0, 0.2), "policy-loss")],
    "C25": [("her", lambda run: rows(run, obs2=lambda a: 1 - a["obs2"]), "replay")],
    "C26": [("td3", negate_critics, "value-loss")],
    "C27": [("dqn", one_discount, "returns")],
    "C28": [("td3", larger_critic, "value-loss")],
    "C29": [("td3", lambda run: scale(run.ac, "pi.act_limit", 2.0), "action-bounds")],
}
CASES = [(name, *case) for name, cases in PLANTS.items() for case in cases]


def test_every_rule_on_checkpoints_has_a_planted_fault():
    assert {rule.id for rule in SAVED} == set(PLANTS)


@pytest.mark.parametrize(("name", "algo", "plant", "part"), CASES)
def test_a_planted_fault_is_found(name, algo, plant, part, runs, tmp_path, monkeypatch):
    monkeypatch.setattr(critics, "LEARNED", 300)
    found, skipped = look(changed(runs(algo), tmp_path / "run", plant))
    assert name in found, (sorted(found), skipped.get(name))
    assert part is None or found[name].part == part


def test_a_policy_that_moved_since_it_acted_is_no_fault(runs, tmp_path):
    found, skipped = look(changed(runs("td3"), tmp_path / "run", low_policy))
    assert "C19" not in found and "C19" not in skipped


def test_values_that_fall_everywhere_are_no_fault(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(critics, "LEARNED", 300)
    found, skipped = look(changed(runs("td3"), tmp_path / "run", falling_values))
    assert "C28" not in found and "C28" not in skipped


def test_actions_that_are_not_squashed_are_outside_the_bounds(runs, monkeypatch):
    run = Record(runs("td3"))
    assert RULES["C29"].first(run) is None
    monkeypatch.setattr(critics._Nets, "greedy", lambda nets, obs: 5 * torch.ones(len(obs), 1))
    assert "2.50 times" in RULES["C29"].first(run).sentence


def test_a_damaged_checkpoint_is_a_reason_and_no_traceback(runs, tmp_path):
    shutil.copytree(runs("vpg"), tmp_path / "run")
    for path in (tmp_path / "run").glob("checkpoints/step-*/state.json"):
        path.write_text("{}")
    found, skipped = look(tmp_path / "run")
    assert found == {} and "intact" in skipped["C1"]


# ---------------------------------------------------------------------------------- played episodes


def test_a_healthy_run_plays(runs):
    _, skipped = look(runs("vpg"), play=2)
    assert {"R2", "R5"}.isdisjoint(skipped), skipped


def episodes(returns, steps=50, terminated=True):
    return [
        played.Episode([np.zeros(4, np.float32)] * (steps + 1), [r / steps] * steps, terminated)
        for r in returns
    ]


def pretend(tmp_path, best, noisy, random, algo="ppo", **columns):
    table, config, space = synthetic.healthy(algo)
    for name, value in columns.items():
        table[name][:] = value
    run = Record(synthetic.write(tmp_path, table, config, space), play=5)
    run._played = SimpleNamespace(best=best, noisy=noisy, random=random)
    return run


GOOD, BAD = episodes([200, 190, 195, 205]), episodes([20, 25, 18, 22])


@pytest.mark.parametrize(
    ("name", "best", "noisy", "random"),
    [("R1", BAD, BAD, BAD), ("R2", BAD, GOOD, BAD), ("R4", BAD, BAD, BAD)],
)
def test_returns_of_played_episodes_are_judged(name, best, noisy, random, tmp_path):
    healthy = pretend(tmp_path / "a", GOOD, GOOD, BAD)
    assert RULES[name].first(healthy) is None
    ill = pretend(tmp_path / "b", best, noisy, random)
    assert RULES[name].first(ill) is not None


def test_values_are_compared_with_returns(runs, tmp_path):
    def check(value):
        run = Record(runs("vpg"), play=5)
        run.rows = 40
        run._played = SimpleNamespace(noisy=episodes([50] * 4))
        net = SimpleNamespace(v=lambda obs: torch.full((len(obs),), value))
        run.saved.network = lambda: net
        return RULES["R3"].first(run)

    assert check(20.0) is None
    assert "90" in check(90.0).sentence


class Faulty(gymnasium.Env):
    """An environment with one fault."""

    observation_space = gymnasium.spaces.Box(-10, 10, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, fault=None):
        self.fault, self.buffer = fault, np.zeros(2, np.float32)

    def _obs(self):
        self.buffer[:] = self.t, self.start
        return self.buffer if self.fault == "array" else self.buffer.copy()

    def reset(self, *, seed=None, options=None):
        rng = np.random.default_rng(None if self.fault == "seed" else seed)
        self.t, self.start = 0, float(rng.random())
        return self._obs(), {}

    def step(self, action):
        self.t += 1
        reward = np.inf if self.fault == "reward" and self.t == 3 else 1.0
        over = self.t >= (40 if self.fault == "clock" else 20 + 30 * self.start)
        return self._obs(), reward, over, False, {}

    def close(self):
        pass


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (None, None),
        ("seed", "same seed"),
        ("reward", "reward inf"),
        ("array", "same array"),
        ("clock", "exactly 40 steps"),
    ],
)
def test_the_environment_is_checked(fault, said, tmp_path, monkeypatch):
    lengths = [40] * 5 if fault == "clock" else [20, 30, 40, 50]
    walks = [played.Episode([], [1.0] * n, True) for n in lengths]
    run = pretend(tmp_path, GOOD, GOOD, walks)
    monkeypatch.setattr(played, "loaded", lambda run, deterministic: (Faulty(fault), None))
    found = RULES["R5"].first(run)
    assert (found is None) if said is None else said in found.sentence


def test_actions_of_another_policy_are_noticed(runs, tmp_path):
    def strange(run, repeated=True):
        (streams,) = [shard["streams"] for shard in run.state["shards"]]
        streams["actions"] = [np.arange(60) % 2]
        env = gymnasium.make("CartPole-v1").unwrapped
        env.reset(seed=streams["seeds"][0])
        for action in streams["actions"][0]:
            obs, *_ = env.step(int(action))
        streams["obs"] = obs[None] + (0 if repeated else 1)
        scale(run.ac, "pi.logits_net.4.weight", 0.0)
        run.ac["pi.logits_net.4.bias"] = torch.tensor([9.0, -9.0])

    folder = changed(runs("vpg"), tmp_path / "run", strange)
    found = RULES["R6"].first(Record(folder, play=2))
    assert "another policy acted" in found.sentence
    elsewhere = changed(runs("vpg"), tmp_path / "b", lambda run: strange(run, repeated=False))
    with pytest.raises(Skip, match="cannot be repeated"):
        RULES["R6"].first(Record(elsewhere, play=2))

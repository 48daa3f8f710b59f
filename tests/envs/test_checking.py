"""`spinup.check_env`: a zoo of broken environments, each of which must be found."""

import pathlib
import random

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

import spinup
from spinup import SpinupError
from spinup.cli.main import main
from spinup.envs import checking, first_steps
from spinup.envs.checking import check_env, examine
from spinup.utils import findings
from spinup.utils.toml import parse_toml

BOX = spaces.Box(-10.0, 10.0, (2,), np.float32)


class Sound(gym.Env):
    """A walk on a line: the base of the zoo, in which nothing is wrong."""

    observation_space, action_space = BOX, spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.t = self.np_random.uniform(-1.0, 1.0), 0
        return self.observe(), {}

    def step(self, action):
        self.t += 1
        self.x += self.move(action)
        terminated, truncated = self.ends()
        return self.observe(), self.reward(), terminated, truncated, {}

    def move(self, action):
        return 0.5 if action == 1 else -0.5

    def observe(self):
        return np.array([self.x, self.t / 50], np.float32)

    def reward(self):
        return float(self.x)

    def ends(self):
        return bool(abs(self.x) > 5), self.t >= 50


class GlobalRandom(Sound):
    def reward(self):
        return float(np.random.normal())


class PythonRandom(Sound):
    def observe(self):
        return np.array([self.x, random.random()], np.float32)


class TorchRandom(Sound):
    def reward(self):
        return float(torch.rand(()))


class Unseeded(Sound):
    def reset(self, *, seed=None, options=None):
        self.x, self.t = np.random.default_rng().uniform(-1.0, 1.0), 0
        return self.observe(), {}


class NoisyReward(Sound):
    def __init__(self):
        self.rng = np.random.default_rng()

    def reward(self):
        return float(self.rng.normal())


class Curriculum(Sound):
    resets = 0

    def reset(self, *, seed=None, options=None):
        self.resets += 1
        obs, info = super().reset(seed=seed)
        return obs + self.resets / 100, info


class RewardMemory(Sound):
    total = 0

    def reward(self):
        self.total += 1
        return 1.0 / self.total


class NoTruncation(Sound):
    def ends(self):
        return self.t >= 50, False


class Endless(Sound):
    def ends(self):
        return False, False

    def observe(self):
        return np.array([np.tanh(self.x), self.t % 3], np.float32)


class AtOnce(Sound):
    def ends(self):
        return True, False


class Deaf(Sound):
    def move(self, action):
        return 0.1


class HugeReward(Sound):
    def reward(self):
        return self.x * 1e7


class LargeReward(Sound):
    def reward(self):
        return self.x * 1e4


class TinyReward(Sound):
    def reward(self):
        return self.x * 1e-5


class Silent(Sound):
    def reward(self):
        return 0.0

    def ends(self):
        return False, self.t >= 50


class LargeObs(Sound):
    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def observe(self):
        return np.array([self.x * 1000, self.t], np.float32)


class SmallObs(Sound):
    def observe(self):
        return np.array([self.x * 1e-5, self.t], np.float32)


class FixedDimension(Sound):
    def observe(self):
        return np.array([self.x, 3.0], np.float32)


class Blind(Sound):
    def observe(self):
        return np.zeros(2, np.float32)


class Outside(Sound):
    def observe(self):
        return np.array([self.x, 20.0 + self.t], np.float32)


class WrongShape(Sound):
    def observe(self):
        return np.zeros(3, np.float32)


class NanLater(Sound):
    def observe(self):
        return np.array([self.x, np.nan if self.t == 7 else 0.0], np.float32)


class Raises(Sound):
    def move(self, action):
        return 1 / (self.t - 3)


class NoInfo(Sound):
    def step(self, action):
        o, r, terminated, truncated, _ = super().step(action)
        return o, r, terminated, truncated, None


class NoneReward(Sound):
    def reward(self):
        return None


class Unbounded(Sound):
    action_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)

    def move(self, action):
        return float(np.clip(action[0], -1, 1))


class ZeroWidth(Unbounded):
    action_space = spaces.Box(np.array([-1, 3.0]), np.array([1, 3.0]), dtype=np.float32)


class NoWidth(Unbounded):
    action_space = spaces.Box(1.0, 1.0, (1,), np.float32)


class WideActions(Unbounded):
    action_space = spaces.Box(-1000, 1000, (1,), np.float32)


class OneAction(Sound):
    action_space = spaces.Discrete(1)


class Picture(Sound):
    observation_space = spaces.Box(0, 255, (4, 4, 3), np.uint8)

    def observe(self):
        return np.full((4, 4, 3), int(abs(self.x) * 10) % 255, np.uint8)


class FloatPicture(Picture):
    observation_space = spaces.Box(0.0, 1.0, (4, 4, 3), np.float32)

    def observe(self):
        return (super().observe() / 255).astype(np.float32)


class PictureInDict(Picture):
    inner = spaces.Dict({"camera": Picture.observation_space})
    observation_space = spaces.Dict({"joint": spaces.Box(-1, 1, (2,)), "head": inner})

    def observe(self):
        return {"joint": np.zeros(2, np.float32), "head": {"camera": super().observe()}}


class Words(Sound):
    observation_space = spaces.Text(5)

    def observe(self):
        return "abc"


class OldStyle(Sound):
    def reset(self):
        return super().reset()[0]

    def step(self, action):
        o, r, terminated, truncated, info = super().step(action)
        return o, r, terminated or truncated, info


ZOO = [
    (GlobalRandom, "global random numbers", False, "self.np_random"),
    (PythonRandom, "global random numbers", False, "self.np_random"),
    (TorchRandom, "global random numbers", False, "self.np_random"),
    (Unseeded, "seed", False, "a different observation"),
    (NoisyReward, "seed", False, "a different reward"),
    (Curriculum, "memory", False, "keeps something from earlier episodes"),
    (RewardMemory, "memory", False, "rewards depend on earlier episodes"),
    (NoTruncation, "time limit", True, "terminated after exactly 50 steps"),
    (Endless, "endless", False, "No episode ended in 2,000 random steps"),
    (AtOnce, "one step", False, "after their first step"),
    (Deaf, "actions", True, "changed neither observations nor rewards"),
    (HugeReward, "reward scale", True, "normalize_ret"),
    (LargeReward, "reward scale", False, "normalize_ret"),
    (TinyReward, "reward scale", False, "No reward is larger than"),
    (Silent, "reward signal", False, "had the same reward (0)"),
    (LargeObs, "observation scale", False, "Dimension 0 of the observation"),
    (SmallObs, "small observations", False, "Dimension 0 of the observation"),
    (FixedDimension, "constant dimensions", False, "Dimension 1 of the observation"),
    (Blind, "constant observation", True, "never changes"),
    (Outside, "outside", False, "element 1 is 20"),
    (WrongShape, "returns", True, "WrongShape.reset returned an observation of shape (3,)"),
    (NanLater, "returns", True, "(step 7) returned an observation with nan in element 1"),
    (Raises, "raises", True, "raised ZeroDivisionError in step 3"),
    (NoInfo, "info", False, "an info that is None"),
    (NoneReward, "returns", True, "returned the reward None"),
    (Unbounded, "unbounded actions", True, "Dimension 0"),
    (ZeroWidth, "zero-width actions", False, "Dimension 1"),
    (NoWidth, "zero-width actions", True, "Dimension 0"),
    (WideActions, "action range", False, "from -1000 to 1000"),
    (OneAction, "one action", True, "only one action"),
    (FloatPicture, "image", False, "48 separate numbers"),
    (PictureInDict, "image", False, "'head', 'camera'"),
    (Words, "observation space", True, "Text"),
    (OldStyle, "interface", False, "old interface"),
]


@pytest.mark.parametrize(("broken", "kind", "serious", "words"), ZOO, ids=lambda x: str(x)[:40])
def test_every_broken_environment_is_found(broken, kind, serious, words):
    findings = {finding.kind: finding for finding in check_env(broken)}
    assert kind in findings, findings
    finding = findings[kind]
    assert finding.serious is serious
    assert words in str(finding)
    for part in (finding.what, finding.effect, finding.change):
        assert len(part) > 10 and not part.endswith(".") and "\n" not in part
    others = {f.kind for f in findings.values() if f.serious} - {kind}
    assert others == set()  # one fault, one problem


def test_a_finding_is_one_of_the_librarys_and_keeps_its_older_names():
    (found,) = check_env(Blind)
    assert isinstance(found, findings.Finding) and found.level == "error"
    assert (found.kind, found.what, found.effect, found.change) == (
        found.id,
        found.sentence,
        found.why,
        found.advice,
    )
    assert str(found) == f"problem: {found.what}. {found.effect}. {found.change}."


def test_every_sentence_of_the_table_is_somebodys():
    code = "".join(
        pathlib.Path(module.__file__).read_text(encoding="utf-8")
        for module in (checking, first_steps)
    )
    table = pathlib.Path(checking.__file__).with_name("findings.toml")
    for name, entry in parse_toml(table.read_text(encoding="utf-8")).items():
        assert f'"{name}"' in code, name
        assert set(entry) == {"id", "part", "level", "sentence", "why", "advice"}
        assert entry["level"] in findings.LEVELS
        for text in (entry["sentence"], entry["why"], entry["advice"]):
            assert not text.endswith(".") and "\n" not in text and "  " not in text


def test_a_sound_environment_has_nothing_to_be_found():
    assert check_env(Sound) == [] and check_env(Sound()) == [] and check_env(Picture) == []


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0"])
def test_the_classics_have_no_serious_finding(env_id):
    found = examine(env_id)
    assert [f for f in found.findings if f.serious] == []
    assert {f.kind for f in found.findings} <= {"reward signal"}
    assert "random steps" in found.summary


def test_wrapped_rewards_that_depend_on_the_past_are_found():
    def env_fn():
        return gym.wrappers.NormalizeReward(gym.make("CartPole-v1"))

    (finding,) = check_env(env_fn)
    assert finding.kind == "memory" and "normalize_ret" in finding.change


def test_an_instance_is_played_and_left_open():
    closed = []

    class Closing(Sound):
        def close(self):
            closed.append(self)

    assert check_env(Closing()) == [] and closed == []
    assert check_env(Closing) == [] and len(closed) > 1


def test_nothing_is_printed_or_warned_and_global_generators_are_left_alone(capfd, recwarn):
    random.seed(3)
    np.random.seed(3)
    before = random.getstate(), str(np.random.get_state()), torch.get_rng_state().tolist()
    check_env(GlobalRandom)
    check_env(TorchRandom)
    check_env(OldStyle)
    after = random.getstate(), str(np.random.get_state()), torch.get_rng_state().tolist()
    assert after == before
    assert list(recwarn) == [] and capfd.readouterr() == ("", "")


def test_gymnasium_s_findings_are_gathered():
    class Reused(Sound):
        array = np.zeros(2, np.float32)

        def observe(self):
            self.array[:] = self.x, self.t / 50
            return self.array

    (finding,) = check_env(Reused)
    assert finding.kind.startswith("gymnasium: ") and not finding.serious
    assert finding.what.startswith("Gymnasium's checker reports: ")


@pytest.mark.parametrize("wrong", [None, 3, [], object()])
def test_what_is_no_environment_is_one_sentence(wrong):
    with pytest.raises(SpinupError, match="is not an environment: pass an id"):
        check_env(wrong)


def test_a_constructor_that_raises_is_one_sentence():
    def env_fn():
        raise RuntimeError("no\nlicense")

    with pytest.raises(SpinupError) as error:
        check_env(env_fn)
    assert str(error.value) == (
        "the environment cannot be made (RuntimeError: no license): correct its constructor"
    )
    with pytest.raises(SpinupError, match="steps must be a whole number"):
        check_env(Sound, steps=0)


def test_it_is_exported():
    assert spinup.check_env is check_env and "check_env" in dir(spinup)


# ---- the command -----------------------------------------------------------------------------


def test_the_command_says_it_in_eighty_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setitem(gym.registry, "Bad-v0", gym.envs.registration.EnvSpec("Bad-v0", Endless))
    assert main(["check_env", "CartPole-v1", "Bad-v0"]) == 0
    out = capsys.readouterr().out
    assert all(len(line) <= 80 for line in out.splitlines())
    assert out.startswith("CartPole-v1: nothing found\n  2,000 random steps; ")
    assert "\nBad-v0: 1 warning\n" in out
    assert "  warning  No episode ended in 2,000 random steps" in out
    assert "           -> End episodes that succeed or fail" in out


def test_exit_codes(capsys, monkeypatch):
    monkeypatch.setitem(gym.registry, "Bad-v0", gym.envs.registration.EnvSpec("Bad-v0", Blind))
    assert main(["check_env", "Bad-v0", "--steps", "200"]) == 1
    assert "  PROBLEM  The observation never changes." in capsys.readouterr().out
    assert main(["check_env", "CartPol-v1", "Bad-v0"]) == 2
    out, err = capsys.readouterr()
    assert "Bad-v0: 1 problem" in out  # the others are checked all the same
    assert err.startswith("spinup: there is no environment 'CartPol-v1'") and err.count("\n") == 1
    assert main(["check_env"]) == 2 and main(["check_env", "--steps", "0", "x"]) == 2


def test_a_module_in_the_working_directory_is_found(tmp_path, monkeypatch, capsys):
    (tmp_path / "zoo_of_mine.py").write_text(
        "import gymnasium as gym\n"
        "gym.register('Mine-v0', 'gymnasium.envs.classic_control:CartPoleEnv')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [p for p in __import__("sys").path if p])
    assert main(["check_env", "zoo_of_mine:Mine-v0", "--steps", "100"]) == 0
    assert capsys.readouterr().out.startswith("zoo_of_mine:Mine-v0: nothing found")
    gym.registry.pop("Mine-v0")

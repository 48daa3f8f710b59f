"""Exported policies: the same actions as the original, or no file at all."""

import json
import os
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from gymnasium import spaces
from torch import nn

from spinup import registry
from spinup.algos.pytorch.common import nets
from spinup.algos.pytorch.dqn import core as dqn_core
from spinup.algos.pytorch.sac import core as sac_core
from spinup.cli.export import main as export_command
from spinup.envs import space_to_json
from spinup.envs.spaces import is_image
from spinup.policies import export, loading
from spinup.runs.logger import Logger
from spinup.utils.errors import SpinupError


def save(folder, ac, observation_space, action_space, ac_kwargs):
    """A run directory with this network as its policy."""
    logger = Logger(output_dir=str(folder), exp_name="t", quiet=True)
    meta = {
        "algo": "ppo",
        "observation_space": space_to_json(observation_space),
        "action_space": space_to_json(action_space),
        "ac_kwargs": ac_kwargs,
        "env": {"id": "CartPole-v1"},
    }
    logger.setup_pytorch_saver(ac, policy_meta=meta)
    logger.save_state({}, None)
    logger.close()
    return folder


def actions_of(path, obs, dtype=np.float32):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (action,) = session.run(None, {"obs": np.asarray(obs, dtype=dtype)})
    return action


# -------------------------------------------------------------------------- the same actions


@pytest.mark.parametrize("algo", registry.algorithms())
def test_every_algorithm_is_exported_and_acts_the_same(runs, tmp_path, algo, capsys):
    run, ac = runs(algo)
    path = tmp_path / "policy.onnx"
    assert export_command([str(run), "--onnx", str(path)]) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        f"wrote {path}; the largest difference from the original on 339 observations "
    )
    # Not only by its own account: here against the network through torch, in an odd batch.
    env, _ = loading.load_policy_and_env(run)
    obs = np.random.default_rng(1).normal(size=(7, *env.observation_space.shape))
    chooses = "deterministic" in ac.act.__code__.co_varnames
    wanted = ac.act(
        torch.as_tensor(obs, dtype=torch.float32), **({"deterministic": True} if chooses else {})
    )
    found = actions_of(path, obs)
    if isinstance(env.action_space, spaces.Box):
        wanted = np.clip(wanted, env.action_space.low, env.action_space.high)
    assert found.dtype == env.action_space.dtype and found.shape == (7, *env.action_space.shape)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert os.listdir(tmp_path) == ["policy.onnx"]

    model = onnx.load(path)
    known = {entry.key: entry.value for entry in model.metadata_props}
    assert (known["algo"], known["env"], known["run"]) == (algo, env.spec.id, run.name)
    assert json.loads(known["action_space"]) == space_to_json(env.action_space)
    (entry,) = model.graph.input
    first, *others = entry.type.tensor_type.shape.dim
    assert entry.name == "obs" and first.dim_param == "batch"
    assert tuple(d.dim_value for d in others) == env.observation_space.shape
    # What the exporter notes about where it ran stays here.
    assert b".py" not in path.read_bytes() and str(tmp_path).encode() not in path.read_bytes()
    env.close()


VECTOR = spaces.Box(-np.inf, np.inf, (3,), np.float32)
ATARI = spaces.Box(0, 255, (4, 84, 84), np.uint8)
IMAGE = spaces.Box(0, 255, (4, 5, 2), np.uint8)
UNEVEN = spaces.Box(np.array([-1, 0, 5], np.float32), np.array([2, 0.5, 6], np.float32))
CASES = {
    "normalized, clipped": (nets.MLPActorCritic, VECTOR, UNEVEN, {"normalize_obs": True}),
    "half bounded, double": (
        nets.MLPActorCritic,
        VECTOR,
        spaces.Box(0, np.inf, (2, 3), np.float64),
        {},
    ),
    "image, counting from 5": (nets.MLPActorCritic, IMAGE, spaces.Discrete(3, start=5), {}),
    "several numbers": (
        nets.MLPActorCritic,
        VECTOR,
        spaces.MultiDiscrete([2, 5, 3], start=[0, 1, 7]),
        {"activation": "relu"},
    ),
    "coins": (nets.MLPActorCritic, VECTOR, spaces.MultiBinary([2, 2]), {"activation": "elu"}),
    "squashed": (sac_core.MLPActorCritic, VECTOR, UNEVEN, {}),
    "dueling": (dqn_core.MLPQNetwork, VECTOR, spaces.Discrete(4), {"dueling": True}),
    "flattened image": (nets.MLPActorCritic, IMAGE, spaces.Discrete(3), {"encoder": "flat"}),
    "flags, dueling": (
        dqn_core.MLPQNetwork,
        spaces.Box(0, 1, (10, 10, 4), np.bool_),
        spaces.Discrete(4),
        {"dueling": True},
    ),
    "image of the critics": (sac_core.MLPActorCritic, IMAGE, UNEVEN, {}),
    "Atari": (dqn_core.MLPQNetwork, ATARI, spaces.Discrete(4), {"hidden_sizes": []}),
    "one number": (nets.MLPActorCritic, spaces.Box(-1, 1, (1,)), spaces.Box(-9, 9, (1,)), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_spaces_and_normalizers_are_folded_in(tmp_path, case):
    cls, observation_space, action_space, more = CASES[case]
    ac_kwargs = {"hidden_sizes": [16, 16], **more}
    named = {k: v for k, v in ac_kwargs.items() if k != "activation"}
    if "activation" in more:
        named["activation"] = {"relu": nn.ReLU, "elu": nn.ELU}[more["activation"]]
    torch.manual_seed(3)
    ac = cls(observation_space, action_space, **named)
    image = is_image(observation_space)
    if image:  # so that the action depends on the image from the start
        for p in ac.parameters():
            p.data *= p.ndim > 1
    if more.get("normalize_obs"):
        rows = torch.randn(100, 3) * torch.tensor([1.0, 50.0, 0.01]) + torch.tensor([3.0, 0, 9])
        ac.pi.obs_filter.update(ac.pi.obs_filter.batch_sums(rows))
    run = save(tmp_path / "run", ac, observation_space, action_space, ac_kwargs)
    report = export.export_onnx(run, tmp_path / "p.onnx")
    assert report.observations == (194 if image else 339)
    assert report.difference < 1e-5
    get_action = loading.load_pytorch_policy(run, deterministic=True)
    rng = np.random.default_rng(2)
    obs = rng.normal(size=(50, *observation_space.shape)) * 30 + 5
    if image:  # whose rows differ in brightness
        rows = rng.random((50, observation_space.shape[0], 1, 1)) ** 4
        obs = np.floor(rng.random(obs.shape) * rows * (float(observation_space.high.max()) + 1))
    dtype = observation_space.dtype if image else np.float32
    obs = obs.astype(dtype)
    found = actions_of(tmp_path / "p.onnx", obs, dtype)
    wanted = np.stack([get_action(o) for o in obs])
    assert found.dtype == action_space.dtype == wanted.dtype
    assert all(action_space.contains(a) for a in found)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    assert len(np.unique(wanted.reshape(50, -1), axis=0)) > 1  # no constant would pass


class Own(nn.Module):
    """A user's networks: a softmax policy that sees the observation twice."""

    def __init__(self, observation_space, action_space, width=8):
        super().__init__()
        self.hidden = nn.Linear(observation_space.shape[0], width)
        self.pi = OwnActor(observation_space.shape[0], width, int(action_space.n))

    def act(self, obs, deterministic=False):
        with torch.no_grad():
            pi, _ = self.pi(obs)
            return (pi.probs.argmax(-1) if deterministic else pi.sample()).numpy()


class OwnActor(nn.Module):
    def __init__(self, obs_dim, width, n):
        super().__init__()
        self.first, self.out = nn.Linear(obs_dim, width), nn.Linear(width + obs_dim, n)

    def forward(self, obs, act=None):
        hidden = torch.nn.functional.gelu(self.first(obs))
        logits = self.out(torch.cat([hidden, obs], -1))
        return torch.distributions.Categorical(logits=logits), None


class Branching(Own):
    """One whose forward decides by the numbers: no graph of operations can hold that."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.pi.forward = lambda obs, act=None: (
            OwnActor.forward(self.pi, obs) if obs.sum() > 0 else OwnActor.forward(self.pi, -obs)
        )


def test_a_users_class_is_exported_when_it_is_given(tmp_path, capsys):
    torch.manual_seed(0)
    ac = Own(VECTOR, spaces.Discrete(3))
    run = save(tmp_path / "run", ac, VECTOR, spaces.Discrete(3), {})
    assert export_command([str(run), "--onnx", str(tmp_path / "p.onnx")]) == 2
    assert "pass it as actor_critic" in capsys.readouterr().err
    export.export_onnx(run, tmp_path / "p.onnx", actor_critic=Own)
    obs = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    wanted = ac.act(torch.as_tensor(obs), deterministic=True)
    assert actions_of(tmp_path / "p.onnx", obs).tolist() == wanted.tolist()
    assert len(set(wanted.tolist())) > 1
    with pytest.raises(SpinupError, match="torch cannot export OwnActor"):
        export.export_onnx(run, tmp_path / "q.onnx", actor_critic=Branching)
    assert sorted(os.listdir(tmp_path)) == ["p.onnx", "run"]


def test_a_type_of_actions_that_torch_does_not_have_is_named(tmp_path):
    actions = spaces.MultiDiscrete([2, 3], dtype=np.uint32)
    ac = nets.MLPActorCritic(VECTOR, actions, hidden_sizes=(4,))
    run = save(tmp_path / "run", ac, VECTOR, actions, {"hidden_sizes": [4]})
    with pytest.raises(SpinupError, match="actions of type uint32 cannot be exported: use one"):
        export.export_onnx(run, tmp_path / "p.onnx")


# ------------------------------------------------------------------------------- or no file


class Skewed(nn.Module):
    """A module that answers almost what another does."""

    def __init__(self, module, by):
        super().__init__()
        self.module, self.by = module, by

    def forward(self, obs):
        return self.module(obs) + self.by


@pytest.mark.parametrize("algo, by", [("ppo", 1), ("sac", -2e-4)])
def test_a_file_that_acts_differently_is_not_kept(runs, tmp_path, monkeypatch, capsys, algo, by):
    run, _ = runs(algo)
    plain = export._plain
    monkeypatch.setattr(export, "_plain", lambda module: Skewed(plain(module), by))
    path = tmp_path / "p.onnx"
    path.write_bytes(b"the old one")
    assert export_command([str(run), "--onnx", str(path), "--overwrite"]) == 1
    out, err = capsys.readouterr()
    wanted = (
        "spinup: the exported policy chooses other actions than the original for 339 of 339 "
        "observations: nothing was written\n"
        if algo == "ppo"
        else f"spinup: the exported policy's actions differ from the original's by up to "
        f"{abs(by):.2g}: nothing was written\n"
    )
    assert (out, err) == ("", wanted)
    assert path.read_bytes() == b"the old one" and os.listdir(tmp_path) == ["p.onnx"]


def test_ties_are_no_mismatch(tmp_path):
    """Two actions of the same value: which one is chosen is up to rounding."""
    torch.manual_seed(0)
    ac = nets.MLPActorCritic(VECTOR, spaces.Discrete(2), hidden_sizes=(8,))
    with torch.no_grad():
        out = ac.pi.logits_net[2]
        out.weight[1] = out.weight[0] * (1 + 1e-7)
        out.bias[1] = out.bias[0]
    run = save(tmp_path / "run", ac, VECTOR, spaces.Discrete(2), {"hidden_sizes": [8]})
    assert export.export_onnx(run, tmp_path / "p.onnx").observations == 339


def test_an_existing_file_is_kept_unless_told(runs, tmp_path, capsys):
    run, _ = runs("ppo")
    path = tmp_path / "p.onnx"
    path.write_bytes(b"mine")
    assert export_command([str(run), "--onnx", str(path)]) == 2
    assert path.read_bytes() == b"mine"
    assert capsys.readouterr().err == (
        f"spinup: {path} exists: add --overwrite (overwrite=True) to replace it\n"
    )
    assert export_command([str(run), "--onnx", str(path), "--overwrite"]) == 0
    onnx.checker.check_model(onnx.load(path))


@pytest.mark.parametrize("package", ["onnx", "onnxscript", "onnxruntime"])
def test_a_missing_package_names_the_extra(runs, tmp_path, monkeypatch, capsys, package):
    run, _ = runs("ppo")
    monkeypatch.setitem(sys.modules, package, None)
    assert export_command([str(run), "--onnx", str(tmp_path / "p.onnx")]) == 2
    assert capsys.readouterr().err == (
        f"spinup: exporting needs {package}, which is not installed: "
        "run pip install 'spinup[export]'\n"
    )
    assert os.listdir(tmp_path) == []


HELP = "; 'spinup export --help' explains the arguments"
PICKLE = (
    " is a pickle, which can run any program when it is opened: if you trust its author, pass "
    "trust_pickle=True (--trust-pickle)"
)
MALFORMED = [
    ("", "the following arguments are required: RUN, --onnx" + HELP),
    ("RUN", "the following arguments are required: --onnx" + HELP),
    ("--onnx p.onnx", "the following arguments are required: RUN" + HELP),
    ("RUN --onnx", "argument --onnx: expected one argument" + HELP),
    ("RUN --onnx p.pt", "the file must end in .onnx, not 'p.pt': change the extension"),
    ("RUN --onnx no/p.onnx", "there is no folder no: create it, or choose another one"),
    ("RUN --onnx dir.onnx", "dir.onnx is a folder: pass a file name"),
    (
        "nowhere --onnx p.onnx",
        "nowhere is not a folder: pass the run directory of a trained policy",
    ),
    (
        "EMPTY --onnx p.onnx",
        "EMPTY contains no saved policy: pass the run directory of a trained policy",
    ),
    (
        "TF --onnx p.onnx",
        "TF/tf1_save has no policy.json: of the TensorFlow backend, only policies with the "
        "library's own networks can be exported",
    ),
    ("PICKLED --onnx p.onnx", "PICKLED/model.pt" + PICKLE),
    ("RUN RUN --onnx p.onnx", "unrecognized arguments: RUN" + HELP),
    ("RUN --onxn p.onnx", "the following arguments are required: --onnx" + HELP),
    (
        "RUN --onnx p.onnx --overwrit",
        "there is no argument --overwrit; did you mean --overwrite?",
    ),
    (
        "RUN --onnx p.onnx -i one",
        "argument -i/--itr: 'one' is not a whole number of at least -1" + HELP,
    ),
    ("RUN --onnx p.onnx -i 3", "RUN has no save number 3: choose from the last one (-1)"),
]


@pytest.mark.parametrize("line, sentence", MALFORMED, ids=[line or "-" for line, _ in MALFORMED])
def test_malformed_command_lines(runs, tmp_path, monkeypatch, capsys, line, sentence):
    monkeypatch.chdir(tmp_path)
    os.symlink(runs("ppo")[0], "RUN")
    for folder in ("EMPTY", "TF/tf1_save", "PICKLED", "dir.onnx"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "PICKLED" / "model.pt").write_bytes(b"never opened")
    before = sorted(os.listdir(tmp_path))
    assert export_command(line.split()) == 2
    out, err = capsys.readouterr()
    assert (err, out) == (f"spinup: {sentence}\n", "")
    assert sorted(os.listdir(tmp_path)) == before


def test_a_pickled_module_is_exported_behind_the_opt_in(tmp_path, capsys):
    torch.manual_seed(0)
    box = spaces.Box(-np.inf, np.inf, (4,), np.float32)
    ac = nets.MLPActorCritic(box, spaces.Discrete(2), hidden_sizes=(8,))
    run = save(tmp_path / "run", ac, box, spaces.Discrete(2), {})
    for path in (run / "pyt_save").glob("policy*"):
        path.unlink()
    args = [str(run), "--onnx", str(tmp_path / "p.onnx"), "--trust-pickle"]
    assert export_command(args) == 2
    assert "pass its environment with --env" in capsys.readouterr().err
    assert export_command([*args, "--env", "CartPole-v1"]) == 0
    obs = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    wanted = ac.act(torch.as_tensor(obs), deterministic=True)
    assert actions_of(tmp_path / "p.onnx", obs).tolist() == wanted.tolist()


@pytest.mark.parametrize(
    ("words", "found"),
    [("--env mine:Id-v0", True), ("--trust-pickle", True), ("--env CartPole-v1", False)],
)
def test_modules_of_the_working_directory_are_found_if_named(words, found, tmp_path, monkeypatch):
    seen = []

    def stop(*args, **kwargs):
        seen.append(sys.path[-1])
        raise SpinupError("stop here")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    monkeypatch.setattr(export, "export_onnx", stop)
    assert export_command(["RUN", "--onnx", "a.onnx", *words.split()]) == 2
    assert (seen == [str(tmp_path)]) == found

"""DDPG, TD3 and SAC against their torch twins: the same weights, batch and noise, the same numbers.

Both compute in float32 and differ only in the order of sums, so per-row values, losses and
gradients agree to 1e-5 of their largest element, and so does every parameter after ten updates. The
learning rates are large: a step that reads the parameters of another moment would miss by far more.
"""

import inspect
import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from spinup.algos.pytorch.common.gradients import Adam as TorchAdam
from spinup.algos.pytorch.common.qnets import action_limits as torch_limits
from spinup.algos.pytorch.ddpg import core as torch_ddpg_core
from spinup.algos.pytorch.ddpg import ddpg as torch_ddpg
from spinup.algos.pytorch.sac import core as torch_sac_core
from spinup.algos.pytorch.sac import sac as torch_sac
from spinup.algos.pytorch.td3 import core as torch_td3_core
from spinup.algos.pytorch.td3 import td3 as torch_td3
from spinup.algos.tf1.common.gradients import Adam, gradients
from spinup.algos.tf1.common.graph import Function, ancestors, records
from spinup.algos.tf1.common.layers import placeholder, placeholder_from_space
from spinup.algos.tf1.common.networks import Networks, target_copy
from spinup.algos.tf1.common.qnets import action_limits
from spinup.algos.tf1.ddpg import core as ddpg_core
from spinup.algos.tf1.ddpg import ddpg
from spinup.algos.tf1.sac import core as sac_core
from spinup.algos.tf1.sac import sac
from spinup.algos.tf1.td3 import core as td3_core
from spinup.algos.tf1.td3 import td3
from spinup.utils.tf import tf

OBS = spaces.Box(-1, 1, (2, 2), np.float32)
BOX = spaces.Box(np.float32([-1, 0, -2]), np.float32([3, 0.5, 2]))
ROWS, SIZES = 32, (24, 16)
RATES = {"pi": 0.003, "q": 0.01, "alpha": 0.02}
NAMES = {
    "ddpg": ("pi", "q", "q_pi"),
    "td3": ("pi", "q1", "q2", "q1_pi"),
    "sac": ("mu", "pi", "logp_pi", "q1", "q2"),
}
CORES = {
    "ddpg": (torch_ddpg_core, ddpg_core),
    "td3": (torch_td3_core, td3_core),
    "sac": (torch_sac_core, sac_core),
}
MODULES = {"ddpg": (ddpg, torch_ddpg), "td3": (td3, torch_td3), "sac": (sac, torch_sac)}
ALPHA, TARGET_ENTROPY = 0.2, -1.5


def make_batch(action_space, seed):
    """A batch of transitions, of which about a quarter terminated."""
    rng = np.random.default_rng(seed)
    batch = {k: rng.normal(size=(ROWS, *OBS.shape)) for k in ("obs", "obs2")}
    batch |= {"rew": rng.normal(size=ROWS), "done": rng.random(ROWS) < 0.25}
    batch = {k: x.astype(np.float32) for k, x in batch.items()}
    if isinstance(action_space, spaces.Discrete):
        return {**batch, "act": rng.integers(action_space.n, size=ROWS).astype(np.int32)}
    low, high = action_space.low, action_space.high
    return {**batch, "act": rng.uniform(low, high, (ROWS, *low.shape)).astype(np.float32)}


class Torch:
    """Networks, targets that differ from them in everything, and optimizers; in torch."""

    def __init__(self, algo, action_space, learned):
        torch.manual_seed(3)
        make = CORES[algo][0].MLPActorCritic
        self.ac, self.ac_targ = (make(OBS, action_space, hidden_sizes=SIZES) for _ in range(2))
        self.ac_targ.requires_grad_(False)
        critics = [getattr(self.ac, n) for n in ("q", "q1", "q2") if hasattr(self.ac, n)]
        self.critics = list(nn.ModuleList(critics).parameters())
        self.optimizers = [
            TorchAdam(self.ac.pi.parameters(), lr=RATES["pi"]),
            TorchAdam(self.critics, lr=RATES["q"]),
        ]
        start = torch.tensor(0.0 if learned else math.log(ALPHA))
        self.log_alpha = nn.Parameter(start, requires_grad=learned)
        if algo == "sac":
            last = TorchAdam([self.log_alpha], lr=RATES["alpha"], fused=False) if learned else None
            self.optimizers.append(last)
        self.module = MODULES[algo][1]

    def more(self, action_space):
        """What an update takes after the batch."""
        if self.module is torch_sac:
            return self.log_alpha, TARGET_ENTROPY
        return (torch_limits(action_space, "cpu"),) if self.module is torch_td3 else ()

    def parameters(self):
        """All networks, transposed as TensorFlow has them."""
        return {
            "main": arrays(self.ac.parameters()),
            "target": arrays(self.ac_targ.parameters()),
            "log_alpha": self.log_alpha.detach().numpy(),
        }


def tensors(batch):
    """A batch as torch takes it."""
    found = {k: torch.as_tensor(x) for k, x in batch.items()}
    return found if found["act"].is_floating_point() else {**found, "act": found["act"].long()}


def arrays(parameters):
    return [p.detach().numpy().T.copy() for p in parameters]


class Twins:
    """The same networks in both frameworks, and one update of each."""

    def __init__(self, algo, action_space, learned=False, **options):
        self.algo, self.action_space, self.options = algo, action_space, options
        self.torch = Torch(algo, action_space, learned)
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.build(learned)
            self.variables = tf.global_variables()
            initialize = tf.global_variables_initializer()
        self.session = tf.Session(graph=self.graph)
        self.session.run(initialize)
        self.networks = {"main": self.ac.vars(), "target": self.ac_targ.vars()}
        for name, variables in self.networks.items():
            self.assign(variables, self.torch.parameters()[name])

    def assign(self, variables, values):
        """Set these variables of the graph."""
        pairs = list(zip(variables, values, strict=True))
        feeds = {v.initializer.inputs[1]: value for v, value in pairs}
        self.session.run([v.initializer for v, _ in pairs], feeds)

    def build(self, learned):
        space, algo = self.action_space, self.algo
        obs, act = placeholder_from_space(OBS), placeholder_from_space(space)
        kwargs = {"hidden_sizes": SIZES, "action_space": space}
        make = CORES[algo][1].mlp_actor_critic
        self.ac = Networks(make, kwargs, "main", obs, act, NAMES[algo])
        self.ac_targ = target_copy(self.ac)
        self.batch = {"obs": obs, "act": act, "rew": placeholder(), "done": placeholder()}
        self.batch["obs2"] = placeholder_from_space(OBS)
        self.polyak = tf.placeholder_with_default(0.995, ())
        optimizers = [Adam(RATES["pi"], "pi"), Adam(RATES["q"], "q")]
        self.log_alpha = sac_core.temperature("auto" if learned else ALPHA)
        more = (action_limits(space),) if algo == "td3" else ()
        if algo == "sac":
            optimizers.append(Adam(RATES["alpha"], "alpha") if learned else None)
            more = (self.log_alpha, TARGET_ENTROPY)
        module = MODULES[algo][0]
        update = getattr(module, f"{algo}_update")
        args = (self.ac, self.ac_targ, *optimizers, self.batch, *more)
        info, step = update(*args, **self.options, polyak=self.polyak)
        self.optimizers = {x.name: x for x in optimizers if x is not None}
        self.step = self.with_noise(info, [step])
        losses = self.losses(module, tf.exp(self.log_alpha), self.ac, self.ac_targ, self.batch)
        params = self.ac.vars("q"), self.ac.vars("pi")
        self.grads = self.with_noise(
            [g for loss, p in zip(losses, params, strict=True) for g in gradients(loss, p)]
        )
        # what no gradient of the critics may reach
        others = [*self.ac.vars("pi"), *self.ac_targ.vars(), self.log_alpha]
        self.unreached = tf.gradients(losses[0], others)

    def losses(self, module, alpha, ac, ac_targ, batch):
        """Both losses with the parameters as they are."""
        if self.algo == "ddpg":
            loss_q = module.compute_loss_q(ac, ac_targ, batch, 0.99)[0]
            return loss_q, module.compute_loss_pi(ac, batch)
        if self.algo == "sac":
            loss_q = module.compute_loss_q(ac, ac_targ, batch, 0.99, alpha)[0]
            return loss_q, module.compute_loss_pi(ac, batch, alpha)[0]
        limits = torch_limits if module is torch_td3 else action_limits
        limits = limits(self.action_space, *(["cpu"] if module is torch_td3 else []))
        loss_q = module.compute_loss_q(ac, ac_targ, batch, 0.99, 0.2, 0.5, limits)[0]
        return loss_q, module.compute_loss_pi(ac, batch)

    def with_noise(self, outputs, ops=()):
        """A function that is also fed the noise that its outputs need, in the order of drawing."""
        fetched = outputs.values() if isinstance(outputs, dict) else outputs
        needed = ancestors([*fetched, *ops])
        drawing = [op for op in self.graph.get_operations() if op.type == "RandomStandardNormal"]
        noise = [op.outputs[0] for op in drawing if op.name in needed]
        inputs = {**self.batch, **{f"noise{i}": x for i, x in enumerate(noise)}}
        return Function({**inputs, "polyak": self.polyak}, outputs, ops), len(noise)

    def call(self, function, batch, noise, polyak=0.995):
        """Call one of these functions with the numbers that torch drew."""
        function, needed = function
        assert needed == len(noise), f"the graph draws {needed} times, torch {len(noise)} times"
        with self.session.as_default():
            noise = {f"noise{i}": x for i, x in enumerate(noise)}
            return function({**batch, **noise, "polyak": polyak})

    def update(self, batch, drawn):
        """Take one update in both; return what they measured."""
        drawn.clear()
        t = self.torch
        update = getattr(t.module, f"{self.algo}_update")
        more = t.more(self.action_space)
        want = update(t.ac, t.ac_targ, *t.optimizers, tensors(batch), *more, **self.options)
        return self.call(self.step, batch, drawn), {k: x.numpy() for k, x in want.items()}

    def parameters(self):
        """All networks of the graph, as `Torch.parameters` has them."""
        return self.session.run({**self.networks, "log_alpha": self.log_alpha})

    def assert_same(self):
        """The parameters of both are equal, as far as float32 goes."""
        got, want = self.parameters(), self.torch.parameters()
        for name in ("main", "target"):
            for ours, theirs in zip(got[name], want[name], strict=True):
                close(ours, theirs, name)
        close(got["log_alpha"], want["log_alpha"], "log_alpha")


def close(got, want, name, scale=None):
    """Equal to 1e-5 of the largest element, or of `scale`."""
    assert got.shape == want.shape and got.dtype == want.dtype == np.float32
    scale = scale or np.abs(want).max()
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * scale, err_msg=name)


CASES = {
    "ddpg": ("ddpg", BOX, {}),
    "td3": ("td3", BOX, {"update_policy": True}),
    "td3 critics": ("td3", BOX, {"update_policy": False}),
    "sac": ("sac", BOX, {}),
    "sac auto": ("sac", BOX, {"learned": True}),
    "sac discrete": ("sac", spaces.Discrete(4), {"learned": True}),
}


@pytest.fixture(scope="module", params=list(CASES))
def twins(request):
    """Every test leaves both sides equal, so that one pair serves them all."""
    algo, space, options = CASES[request.param]
    return Twins(algo, space, **options)


@pytest.fixture
def drawn(monkeypatch):
    """What torch drew, in order."""
    found, draw = [], torch.randn_like

    def randn_like(x):
        noise = draw(x)
        found.append(noise.numpy().copy())
        return noise

    monkeypatch.setattr(torch, "randn_like", randn_like)
    return found


def test_gradients_equal_those_of_torch_and_reach_nothing_else(twins, drawn):
    batch, t = make_batch(twins.action_space, 0), twins.torch
    loss_q, loss_pi = twins.losses(t.module, t.log_alpha.exp(), t.ac, t.ac_targ, tensors(batch))
    want = torch.autograd.grad(loss_q, t.critics, retain_graph=True)
    want += torch.autograd.grad(loss_pi, list(t.ac.pi.parameters()))
    got = twins.call(twins.grads, batch, drawn)
    scale = max(float(x.abs().max()) for x in want)
    for ours, theirs in zip(got, want, strict=True):
        close(ours, theirs.numpy().T, "gradient", scale)
    assert twins.unreached == [None] * len(twins.unreached)


def test_values_losses_and_parameters_equal_those_of_torch(twins, drawn):
    twins.assert_same()
    before = twins.parameters()
    for i in range(10):
        got, want = twins.update(make_batch(twins.action_space, i), drawn)
        assert list(got) == list(want)
        scale = max(np.abs(x).max() for x in want.values())
        for name in got:
            close(got[name], want[name], f"{name} of update {i}", scale)
        twins.assert_same()
    after = twins.parameters()
    moved = {
        name: max(np.abs(a - b).max() for a, b in zip(before[name], after[name], strict=True))
        for name in ("main", "target")
    }
    assert moved["main"] > 0.02
    assert (moved["target"] > 0.002) == twins.options.get("update_policy", True)
    assert (before["log_alpha"] != after["log_alpha"]) == ("alpha" in twins.optimizers)


# learning rates and polyak -> the variables that change, among those that the algorithm has
STEPS = {
    "critics": ({"q": 0.01}, 1.0, {"main/q", "main/q1", "main/q2"}),
    "policy": ({"pi": 0.01}, 1.0, {"main/pi"}),
    "temperature": ({"alpha": 0.01}, 1.0, {"log_alpha"}),
    "targets": ({}, 0.9, {"target/pi", "target/q", "target/q1", "target/q2"}),
}


@pytest.mark.parametrize("step", list(STEPS))
def test_each_step_touches_only_its_own_parameters(twins, drawn, step):
    rates, polyak, wanted = STEPS[step]
    kept = twins.session.run(twins.variables)
    rng = np.random.default_rng(0)
    twins.assign(twins.networks["target"], [  # a target that equals its network does not move
        x + rng.normal(size=x.shape) for x in twins.parameters()["target"]
    ])  # fmt: skip
    with twins.session.as_default():
        for name, optimizer in twins.optimizers.items():
            optimizer.set_lr(rates.get(name, 0.0))
    before, noise = twins.parameters(), rng.normal(size=(twins.step[1], ROWS, 3))
    got = twins.call(twins.step, make_batch(twins.action_space, 0), noise, polyak)
    after = twins.parameters()
    twins.assign(twins.variables, kept)
    exist = {v.name.rsplit("/", 2)[0] for part in twins.networks.values() for v in part}
    exist |= {"log_alpha"} & {"log_alpha" for name in twins.optimizers if name == "alpha"}
    if not twins.options.get("update_policy", True):  # neither the policy nor the targets
        exist = {"main/q1", "main/q2"}
        assert sorted(got) == ["LossQ", "Q1Vals", "Q2Vals"]
    assert changed(before, after, twins) == wanted & exist


def changed(before, after, twins):
    """Which of the networks differ."""
    found = {"log_alpha"} if before["log_alpha"] != after["log_alpha"] else set()
    for part, variables in twins.networks.items():
        for v, a, b in zip(variables, before[part], after[part], strict=True):
            if not np.array_equal(a, b):
                found.add(v.name.rsplit("/", 2)[0])
    return found


def test_targets_start_equal_to_the_networks_which_are_drawn_as_in_torch():
    graph = tf.Graph()
    with graph.as_default(), tf.Session() as session:
        obs, act = placeholder((200,)), placeholder((3,))
        kwargs = {"hidden_sizes": (64, 64), "action_space": BOX}
        ac = Networks(sac_core.mlp_actor_critic, kwargs, "main", obs, act, NAMES["sac"])
        ac_targ = target_copy(ac)
        session.run(tf.global_variables_initializer())
        session.run(records(graph, "start"))
        main, target = session.run([ac.vars(), ac_targ.vars()])
    for p, q in zip(main, target, strict=True):
        np.testing.assert_array_equal(p, q)
    # the first layers of pi, q1 and q2: uniform within 1 / sqrt(inputs), the biases too
    for kernel, bias, inputs in ((main[0], main[1], 200), (main[8], main[9], 203)):
        assert kernel.shape[0] == inputs
        limit = 1 / math.sqrt(inputs)
        for x in (kernel, bias):
            assert np.abs(x).max() <= limit and np.abs(x).max() > 0.9 * limit
        assert kernel.std() == pytest.approx(limit / math.sqrt(3), rel=0.02)
        assert abs(kernel.mean()) < 0.02 * limit


@pytest.mark.parametrize("algo", ["ddpg", "td3", "sac"])
def test_the_twins_have_the_same_functions_with_the_same_arguments(algo):
    ours, theirs = MODULES[algo]
    shared = ("compute_target", "compute_loss_q", "compute_loss_pi")
    for name in (*shared, f"{algo}_update", f"{algo}_learner"):
        assert inspect.signature(getattr(ours, name)) == inspect.signature(getattr(theirs, name))

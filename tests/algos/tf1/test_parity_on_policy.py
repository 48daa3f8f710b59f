"""VPG, PPO and TRPO compute in TensorFlow what they compute in torch.

The torch weights are copied into the graph, and both get the same batch. All numbers are float32:
the backends sum in different orders, and torch's tanh differs by up to 2e-7 (`nets.Tanh`). So
"equal" means a largest difference of 1e-5 of the largest number of each tensor, except where a test
says why it is more.
"""

from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from spinup.algos.pytorch.common import advantages as torch_advantages
from spinup.algos.pytorch.common import gradients as torch_gradients
from spinup.algos.pytorch.common import nets as torch_nets
from spinup.algos.pytorch.common.acting import NetPolicy
from spinup.algos.pytorch.ppo import ppo as torch_ppo
from spinup.algos.pytorch.trpo import trpo as torch_trpo
from spinup.algos.pytorch.vpg import vpg as torch_vpg
from spinup.algos.tf1.common import advantages, layers, nets
from spinup.algos.tf1.common.gradients import Adam
from spinup.algos.tf1.common.networks import ActorCritic
from spinup.algos.tf1.common.objectives import evaluate, objective
from spinup.algos.tf1.common.run import Variables
from spinup.algos.tf1.ppo import ppo
from spinup.algos.tf1.trpo import core as trpo_core
from spinup.algos.tf1.trpo import trpo
from spinup.algos.tf1.vpg import vpg
from spinup.envs.streams import make_streams
from spinup.parallel.mpi import Shards
from spinup.runs.storage.checkpoints import load_checkpoint
from spinup.utils.tf import tf

TOLERANCE = 1e-5
OBS_DIM, ROWS, HIDDEN = 3, 50, (16, 8)
ACTIONS = {
    "Discrete": spaces.Discrete(4),
    "Box": spaces.Box(-1, 1, (2,), np.float32),
    "MultiDiscrete": spaces.MultiDiscrete([[2, 3], [4, 2]]),
    "MultiBinary": spaces.MultiBinary((3, 1)),
}
every_action_space = pytest.mark.parametrize("actions", ACTIONS.values(), ids=ACTIONS)


class Pair:
    """A torch actor-critic, its twin in the default graph, and a batch for each of two shards."""

    def __init__(self, tools, action_space, algo="ppo", obs_dim=OBS_DIM, **ac_kwargs):
        self.tools, self.action_space = tools, action_space
        torch.manual_seed(1)
        obs_space = spaces.Box(-np.inf, np.inf, (obs_dim,), np.float32)
        self.torch_ac = torch_nets.MLPActorCritic(obs_space, action_space, HIDDEN, **ac_kwargs)
        self.first = {k: x.clone() for k, x in self.torch_ac.state_dict().items()}
        x, a = layers.placeholders_from_spaces(obs_space, action_space)
        build = trpo_core.mlp_actor_critic if algo == "trpo" else nets.mlp_actor_critic
        found = build(x, a, hidden_sizes=HIDDEN, action_space=action_space, **ac_kwargs)
        more = found[3:-1] if algo == "trpo" else ({}, {}, None)
        self.ac = ActorCritic(x, a, *found[:3], *more, found[-1])
        if isinstance(action_space, spaces.Discrete):  # a user's functions may return columns
            columns = {name: getattr(self.ac, name)[:, None] for name in ("logp", "v")}
            self.ac = self.ac._replace(**columns)
        self.placeholders = {"obs": x, "act": a}
        for name in ("adv", "ret", "val", "logp"):
            self.placeholders[name] = layers.placeholder()
        self.shards = Shards(2)
        rng = np.random.default_rng(2)
        self.batches = [self._batch(rng, rows) for rows in (ROWS, ROWS + 10)]
        self.shards.weigh([len(batch["obs"]) for batch in self.batches])
        self.torch_batches = [
            {k: torch.as_tensor(x.astype(np.int64 if k == "act" and x.dtype.kind == "i" else "f4"))
             for k, x in batch.items()}
            for batch in self.batches
        ]  # fmt: skip

    def _batch(self, rng, rows):
        """Random rows; old log-probabilities and values are near the networks' own."""
        obs = rng.standard_normal((rows, self.ac.obs.shape[1])).astype(np.float32)
        self.action_space.seed(int(rng.integers(1000)))
        act = np.stack([self.action_space.sample() for _ in range(rows)])
        act = act.astype(self.ac.act.dtype.as_numpy_dtype)
        as_torch = torch.as_tensor(act.astype(np.int64) if act.dtype.kind == "i" else act)
        with torch.no_grad():
            logp = self.torch_ac.pi(torch.as_tensor(obs), as_torch)[1].numpy()
            val = self.torch_ac.v(torch.as_tensor(obs)).numpy()

        def noise():
            return rng.standard_normal(rows).astype(np.float32)

        return {
            "obs": obs,
            "act": act,
            "adv": noise(),
            "ret": val + noise(),
            "val": val + 0.3 * noise(),
            "logp": logp + 0.2 * noise(),
        }

    def start(self):
        """Once the graph is complete, give both the same weights: those from the beginning."""
        self.torch_ac.load_state_dict(self.first)
        self.variables = self.tools.set_variables(self.first)

    def torch_parameters(self):
        return self.tools.as_variables(dict(self.torch_ac.named_parameters()))

    def parameters(self):
        names = self.torch_parameters()
        return {k: x for k, x in self.variables.state_dict().items() if k in names}

    def gap(self):
        """How far the parameters are apart."""
        return self.tools.distance(self.parameters(), self.torch_parameters())

    def flat_torch_gradient(self, objective, grads):
        """Torch's gradients as one vector, in the order of the graph's."""
        found = self.tools.as_variables(grads)
        return np.concatenate([found[p.op.name].ravel() for p in objective.params])


@pytest.fixture
def pair(twin, session):
    """A function that makes a `Pair`."""
    return lambda *args, **kwargs: Pair(twin, *args, **kwargs)


def close(one, other, tolerance=TOLERANCE):
    """Whether arrays or dicts of them are equal up to rounding."""
    if isinstance(other, dict):
        assert set(one) == set(other)
        return all(close(one[k], other[k], tolerance) for k in other)
    one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
    return bool(np.max(np.abs(one - other)) <= tolerance * max(1e-2, np.max(np.abs(other))))


def assert_same_info(mine, theirs):
    """What an update returned agrees; differences of losses are as exact as the losses are."""
    assert list(mine) == list(theirs)
    for name, x in theirs.items():
        scale = max(1e-2, abs(float(theirs[name.removeprefix("Delta")])))
        assert abs(float(mine[name]) - float(x)) <= TOLERANCE * scale, name


def torch_loss(compute, ac, pair, scope):
    """The loss, info and gradient over both shards as torch has them."""
    loss, info = torch_gradients.evaluate(lambda b: compute(ac, b), pair.torch_batches, pair.shards)
    module = getattr(ac, scope)
    losses = (compute(ac, batch) for batch in pair.torch_batches)
    losses = (x[0] if isinstance(x, tuple) else x for x in losses)
    for one in torch_gradients.over_shards(losses, module, pair.shards):
        one.backward()
    grads = {f"{scope}.{name}": p.grad for name, p in module.named_parameters()}
    module.zero_grad()
    return float(loss), {k: float(v) for k, v in info.items()}, grads


def assert_same_loss(pair, mine, theirs, scope):
    """Loss, info and gradient agree, averaged over the shards."""
    loss, info = evaluate(mine, pair.batches, pair.shards)
    want, want_info, grads = torch_loss(theirs, pair.torch_ac, pair, scope)
    assert close(loss, want) and close(info, want_info)
    grad = pair.shards.mean([mine.gradient(batch)["grad"] for batch in pair.batches])
    assert close(grad, pair.flat_torch_gradient(mine, grads))
    assert np.max(np.abs(grad)) > 1e-3, "nothing to compare"


# ---- VPG -------------------------------------------------------------------------------------


@every_action_space
def test_vpg_is_its_twin(pair, actions):
    pair = pair(actions)
    batch = pair.placeholders
    pi_loss = objective(vpg.compute_loss_pi(pair.ac, batch), batch, Adam(3e-3, "pi"))
    v_loss = objective(vpg.compute_loss_v(pair.ac, batch), batch, Adam(1e-2, "vf"))
    pair.start()
    assert_same_loss(pair, pi_loss, torch_vpg.compute_loss_pi, "pi")
    assert_same_loss(pair, v_loss, torch_vpg.compute_loss_v, "v")
    ac = pair.torch_ac
    optimizers = [
        torch_gradients.Adam(m.parameters(), lr) for m, lr in ((ac.pi, 3e-3), (ac.v, 1e-2))
    ]
    for steps in (1, 5):  # the value function's; the policy takes one each time
        mine = vpg.vpg_update(pi_loss, v_loss, pair.batches, pair.shards, steps)
        theirs = torch_vpg.vpg_update(ac, *optimizers, pair.torch_batches, pair.shards, steps)
        assert_same_info(mine, theirs)
        assert pair.gap() < TOLERANCE


# ---- PPO -------------------------------------------------------------------------------------

PLAIN = {"ent_coef": 0.0, "clip_vf": None, "max_grad_norm": None}
EXTRAS = {"ent_coef": 0.1, "clip_vf": 0.2, "max_grad_norm": 0.05}


@every_action_space
@pytest.mark.parametrize("extras", [PLAIN, EXTRAS], ids=["plain", "extras"])
def test_ppo_is_its_twin(pair, actions, extras):
    pair = pair(actions)
    batch, ac = pair.placeholders, pair.torch_ac
    clip, ent_coef, clip_vf, norm = 0.2, *extras.values()
    loss_pi = ppo.compute_loss_pi(pair.ac, batch, clip, ent_coef)
    pi_loss = objective(loss_pi, batch, Adam(3e-3, "pi"), norm)
    v_loss = objective(ppo.compute_loss_v(pair.ac, batch, clip_vf), batch, Adam(1e-2, "vf"), norm)
    pair.start()
    assert_same_loss(
        pair, pi_loss, lambda ac, b: torch_ppo.compute_loss_pi(ac, b, clip, ent_coef), "pi"
    )
    assert_same_loss(pair, v_loss, lambda ac, b: torch_ppo.compute_loss_v(ac, b, clip_vf), "v")
    info = evaluate(pi_loss, pair.batches, pair.shards)[1]
    assert 0.1 < info["ClipFrac"] < 0.9, "clipping is not tested"
    optimizers = [
        torch_gradients.Adam(m.parameters(), lr) for m, lr in ((ac.pi, 3e-3), (ac.v, 1e-2))
    ]
    for steps in (1, 6):
        options = {"train_pi_iters": steps, "train_v_iters": steps, "target_kl": None}
        mine = ppo.ppo_update(pi_loss, v_loss, pair.batches, pair.shards, **options)
        theirs = torch_ppo.ppo_update(
            ac, *optimizers, pair.torch_batches, pair.shards, **options, **extras
        )
        assert_same_info(mine, theirs)
        assert mine["StopIter"] == steps
        assert pair.gap() < TOLERANCE


def test_ppo_stops_where_its_twin_does_and_shuffles_alike(pair):
    pair = pair(ACTIONS["Box"])
    batch, ac = pair.placeholders, pair.torch_ac
    for theirs, mine in zip(pair.torch_batches, pair.batches, strict=True):
        with torch.no_grad():  # the policy that acted: KL starts at 0
            theirs["logp"] = ac.pi(theirs["obs"], theirs["act"])[1]
        mine["logp"] = theirs["logp"].numpy()
    pi_loss = objective(ppo.compute_loss_pi(pair.ac, batch, 0.2), batch, Adam(2e-3, "pi"))
    v_loss = objective(ppo.compute_loss_v(pair.ac, batch), batch, Adam(1e-2, "vf"))
    pair.start()
    optimizers = [
        torch_gradients.Adam(m.parameters(), lr) for m, lr in ((ac.pi, 2e-3), (ac.v, 1e-2))
    ]
    options = {"train_pi_iters": 60, "train_v_iters": 2, "target_kl": 0.02, "minibatch_size": 30}
    rngs = [[np.random.default_rng(i) for i in range(2)] for _ in range(2)]
    mine = ppo.ppo_update(pi_loss, v_loss, pair.batches, pair.shards, **options, rngs=rngs[0])
    theirs = torch_ppo.ppo_update(
        ac, *optimizers, pair.torch_batches, pair.shards, **options, rngs=rngs[1]
    )
    assert mine["StopIter"] == theirs["StopIter"] and 10 < mine["StopIter"] < 200
    assert pair.gap() < 1e-4  # many steps of Adam, which enlarges the rounding of small gradients


# ---- TRPO and NPG ----------------------------------------------------------------------------


@every_action_space
def test_trpo_and_the_natural_gradient_are_their_twins(pair, actions):
    pair = pair(actions, "trpo")
    batch, ac = {**pair.placeholders, **trpo_core.old_policy(pair.ac)}, pair.torch_ac
    pi_loss = objective(trpo.compute_loss_pi(pair.ac, batch), batch)
    v_loss = objective(trpo.compute_loss_v(pair.ac, batch), batch, Adam(1e-2, "vf"))
    kl = trpo_core.TrustRegion(pair.ac, batch, pi_loss.params)
    params = trpo_core.FlatParams(pi_loss.params)
    for algo, cg_iters in (("trpo", 5), ("npg", 20)):
        # In float32, conjugate gradients are exact to rounding at first and once they have
        # converged. In between, at 10, even torch differs by 2% between float32 and float64.
        pair.start()
        options = {"delta": 0.3, "train_v_iters": 3, "cg_iters": cg_iters, "algo": algo}
        mine = trpo.trpo_update(pi_loss, v_loss, kl, params, pair.batches, pair.shards, **options)
        vf_optimizer = torch_gradients.Adam(ac.v.parameters(), 1e-2)
        theirs = torch_trpo.trpo_update(
            ac, vf_optimizer, pair.torch_batches, pair.shards, **options
        )
        assert mine["KL"] > 0.1, "the policy hardly moved"
        if actions is ACTIONS["Box"]:
            assert bool(mine["BacktrackIters"]) == (algo == "trpo"), "no line search to compare"
        assert_same_info(mine, theirs)
        assert pair.gap() < TOLERANCE


def test_a_step_that_gets_worse_is_taken_back(pair):
    pair = pair(ACTIONS["Box"], "trpo")
    batch = {**pair.placeholders, **trpo_core.old_policy(pair.ac)}
    pi_loss = objective(trpo.compute_loss_pi(pair.ac, batch), batch)
    params = trpo_core.FlatParams(pi_loss.params)
    kl = trpo_core.TrustRegion(pair.ac, batch, pi_loss.params)
    pair.start()
    batches = trpo_core.with_old_policy(kl, pair.batches)
    wrong = -pi_loss.gradient(batches[0])["grad"]
    loss, info, backtracks = trpo.line_search(
        pi_loss, params, batches, pair.shards, wrong, 1e9, backtrack_iters=3, backtrack_coeff=0.5
    )
    assert (backtracks, info["KL"]) == (3, 0) and pair.gap() == 0
    assert loss == evaluate(pi_loss, batches, pair.shards)[0]


# ---- from an epoch to batches ----------------------------------------------------------------


def test_batches_and_running_statistics_are_the_twins(pair, gather):
    """The same two epochs: values, log-probabilities, GAE, and what the normalizers learned."""
    pair = pair(spaces.Discrete(2), normalize_obs=True, normalize_ret=True, obs_dim=4)
    pair.start()
    ac = pair.torch_ac
    policy = NetPolicy(ac.pi)

    def epoch(seed):  # paths end by termination, by the time limit, and with the epoch
        seeds = [lambda i, j=j: np.random.SeedSequence((seed, i, j)) for j in range(2)]
        shards = [make_streams(lambda: gym.make("CartPole-v1"), 2, s, 15) for s in seeds]
        return gather(shards, policy, 40, seed)

    for seed in range(2):
        buffer, other = epoch(seed), epoch(seed)
        run = SimpleNamespace(
            shards=buffer.shards,
            device="cpu",
            steps_per_shard=80,
            streams=[],
            variables=pair.variables,
            batch=lambda: {"obs": pair.ac.obs, "act": pair.ac.act},
            explore_rngs=[None, None],
        )
        mine = advantages.EpochBuffer(run, buffer.loop, pair.ac)
        mine.rollouts = other.rollouts
        kinds = {path.last_obs is None for rollout in buffer.rollouts for path in rollout.paths}
        assert kinds == {True, False}, "both ends of episodes"
        batches, want = mine.get(0.9, 0.8), buffer.get(ac, 0.9, 0.8)
        for one, other in zip(batches, want, strict=True):
            assert close(one, {k: x.numpy() for k, x in other.items()})
        advantages.update_normalizer(run, batches)
        torch_advantages.update_normalizer(ac, want, buffer.shards)
        filters = {k: x for k, x in ac.state_dict().items() if "filter" in k}
        filters = pair.tools.as_variables(filters)
        assert len(filters) == 5
        for name, value in filters.items():
            np.testing.assert_allclose(pair.variables.get(name), value, rtol=1e-6, err_msg=name)
    assert filters["obs_filter/sums"][0] == 320 and filters["ret_filter/std"] != 1


# ---- the first weights -----------------------------------------------------------------------


def first_weights(make=nets.mlp_actor_critic, **kwargs):
    """All variables of a new actor-critic with wide layers."""
    with tf.Graph().as_default() as graph, tf.Session().as_default() as session:
        tf.set_random_seed(0)
        x, a = layers.placeholder(10), layers.placeholder(2)
        make(x, a, (200, 100), action_space=ACTIONS["Box"], **kwargs)
        session.run(tf.global_variables_initializer())
        return {v.op.name: session.run(v) for v in graph.get_collection("trainable_variables")}


def test_the_first_weights_have_the_distribution_of_the_twins(twin):
    obs_space = spaces.Box(-1, 1, (10,), np.float32)
    theirs = twin.as_variables(
        dict(torch_nets.MLPActorCritic(obs_space, ACTIONS["Box"], (200, 100)).named_parameters())
    )
    mine = first_weights()
    assert {k: x.shape for k, x in mine.items()} == {k: x.shape for k, x in theirs.items()}
    assert np.array_equal(mine["pi/log_std"], theirs["pi/log_std"])
    for name, x in mine.items():
        if x.size < 1000:
            continue
        limit = 1 / np.sqrt(len(x))
        for found in (x, theirs[name]):  # uniform within the limit: five standard errors
            assert 0.99 * limit < np.max(np.abs(found)) <= limit
            assert abs(found.mean()) < 5 * limit / np.sqrt(3 * x.size)
            assert found.var() == pytest.approx(limit**2 / 3, rel=5 / np.sqrt(x.size))
    for name in ("pi/dense/bias", "v/dense_1/bias"):  # biases follow the layer's inputs, too
        limit = 1 / np.sqrt(len(mine[name.replace("bias", "kernel")]))
        assert 0.9 * limit < np.max(np.abs(mine[name])) <= limit


def test_exploration_starts_where_it_is_told_to():
    for make in (nets.mlp_actor_critic, trpo_core.mlp_actor_critic):
        mine = first_weights(make, log_std_init=-1.5, orthogonal_init=True)
        assert mine["pi/log_std"].tolist() == [-1.5, -1.5]


def test_orthogonal_weights_have_the_gains_of_the_twins():
    mine = first_weights(orthogonal_init=True)
    for name, x in mine.items():
        if name.endswith("bias"):
            assert not x.any()
        elif name.endswith("kernel"):
            last = {"pi/dense_2/kernel": 0.01, "v/dense_2/kernel": 1.0}
            gain = last.get(name, 2**0.5)
            small = x.T @ x if x.shape[0] >= x.shape[1] else x @ x.T
            np.testing.assert_allclose(small, gain**2 * np.eye(len(small)), atol=1e-5 * gain**2)


# ---- whole runs ------------------------------------------------------------------------------

EVERYTHING = {"num_envs": 2, "shards": 2, "steps_per_epoch": 160, "epochs": 3, "seed": 2}
EVERYTHING["num_test_episodes"] = 2
NET = {"hidden_sizes": (8,), "normalize_obs": True, "normalize_ret": True}
RUNS = {
    "vpg": {"pi_lr": 0.02, "vf_lr": 0.01, "gamma": 0.9, "lam": 0.8},
    "trpo": {
        "delta": 0.3,
        "vf_lr": 0.01,
        "cg_iters": 5,
        "damping_coeff": 0.3,
        "backtrack_coeff": 0.5,
        "gamma": 0.9,
        "lam": 0.8,
    },
    "ppo": {
        "gamma": 0.9,
        "lam": 0.8,
        "clip_ratio": 0.1,
        "target_kl": 0.02,
        "pi_lr": 0.01,
        "vf_lr": 0.02,
        "minibatch_size": 16,
        "anneal_lr": True,
        "clip_vf": 0.5,
        "max_grad_norm": 0.5,
        "ent_coef": 0.01,
    },
}


@pytest.mark.parametrize("algo", RUNS)
def test_a_whole_run_is_its_twins(train, twin, monkeypatch, algo):
    """With the same first weights, both backends take the same actions and learn the same.

    So whatever a training loop does is in the same order: acting, bootstrapping, updating,
    normalizing, annealing, testing. Rounding errors grow with every update: to 1e-6 in most
    columns here, and to 1e-5 in the weights.
    """
    given = {**EVERYTHING, **RUNS[algo], "ac_kwargs": NET}
    first = train(algo, "CartPole-v1", **{**given, "epochs": 0}).ac.state_dict()
    theirs = train(algo, "CartPole-v1", **given)
    sync = Variables.sync

    def start(variables):
        variables.set(twin.as_variables(first))
        sync(variables)

    monkeypatch.setattr(Variables, "sync", start)
    mine = train(f"{algo}_tf1", "CartPole-v1", **given)
    for one, other in zip(mine.rows, theirs.rows, strict=True):
        assert list(one) == list(other)
        for name, x in other.items():
            # LossPi is a mean of numbers whose sizes are about 1, although it is near 0 itself
            scale = max(1.0 if "LossPi" in name else 0.1, abs(other[name.removeprefix("Delta")]))
            assert abs(one[name] - x) <= 5e-5 * scale, name
    last = load_checkpoint(mine.dir / "checkpoints")[0]["tracked"]["variables"]
    want = twin.as_variables(theirs.ac.state_dict())
    assert twin.distance({name: last[name] for name in want}, want) < 2e-4

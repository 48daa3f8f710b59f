"""Actor-critics that users write: only what the contract lists, in all the shapes they come in."""

import functools
import importlib
import warnings

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn
from torch.distributions import Categorical, Normal

from spinup.algos.pytorch.common.run import TorchRun
from spinup.algos.pytorch.ppo import core
from spinup.policies.loading import load_policy_and_env
from spinup.utils.errors import SpinupError

ALGOS = ["ppo", "vpg", "trpo", "reinforce"]


class Pi(nn.Module):
    """A softmax policy that owes nothing to the library."""

    def __init__(self, obs_dim, n):
        super().__init__()
        self.net = nn.Linear(obs_dim, n)

    def forward(self, obs, act=None):
        pi = Categorical(logits=self.net(obs))
        return pi, None if act is None else pi.log_prob(act)


class V(nn.Module):
    def __init__(self, obs_dim):
        super().__init__()
        self.net = nn.Linear(obs_dim, 1)

    def forward(self, obs):
        return self.net(obs).squeeze(-1)


class Single(nn.Module):
    """`step` takes one observation; value and log-probability come as arrays of size one."""

    def __init__(self, observation_space, action_space, actor=Pi, critic=V):
        super().__init__()
        self.pi = actor(observation_space.shape[0], int(action_space.n))
        self.v = critic(observation_space.shape[0])

    def step(self, obs):
        assert obs.ndim == 1, "one observation at a time"
        with torch.no_grad():
            pi, _ = self.pi(obs)
            a = pi.sample()
            v, logp = self.v(obs), self.pi(obs, a)[1]
        return a.numpy(), v.reshape(1).numpy(), logp.reshape(1).numpy()

    def act(self, obs):
        return self.step(obs)[0]


class Batched(Single):
    """`step` takes batches as well."""

    def step(self, obs):
        with torch.no_grad():
            pi, _ = self.pi(obs)
            a = pi.sample()
            return a.numpy(), self.v(obs).numpy(), self.pi(obs, a)[1].numpy()


def assert_trained(run, fresh, algo):
    """Losses are numbers and the networks that the algorithm trains have moved."""
    for row in run.rows:
        assert all(np.isfinite(row[k]) for k in ("LossPi", "KL", "Entropy"))
    old = dict(fresh.named_parameters())
    for name, p in run.ac.named_parameters():
        if algo == "reinforce" and not name.startswith("pi"):
            continue
        assert not torch.equal(p, old[name]), f"{name} has not been trained"
    assert (run.dir / "pyt_save" / "policy.safetensors").exists()


@pytest.fixture
def cartpole_net():
    """A fresh network for CartPole, to compare names and values with."""
    env = gym.make("CartPole-v1")
    return lambda cls: cls(env.observation_space, env.action_space)


@pytest.mark.parametrize("num_envs", [1, 4])
@pytest.mark.parametrize("cls", [Single, Batched])
@pytest.mark.parametrize("algo", ALGOS)
def test_a_class_with_only_step_act_pi_and_v_trains(train, cartpole_net, algo, cls, num_envs):
    run = train(algo, "CartPole-v1", actor_critic=cls, num_envs=num_envs, epochs=2)
    assert_trained(run, cartpole_net(cls), algo)
    assert [row["TotalEnvInteracts"] for row in run.rows] == [40, 80]


def test_reinforce_needs_no_value_function(train, cartpole_net):
    class NoValue(Batched):
        def __init__(self, observation_space, action_space):
            super().__init__(observation_space, action_space)
            del self.v

        def step(self, obs):
            with torch.no_grad():
                pi, _ = self.pi(obs)
                a = pi.sample()
            return a.numpy(), np.zeros(a.shape), pi.log_prob(a).numpy()

    run = train("reinforce", "CartPole-v1", actor_critic=NoValue, num_envs=2)
    assert_trained(run, cartpole_net(NoValue), "reinforce")


def test_batches_or_one_by_one_the_same_observations_and_values_are_stored(train):
    # the policies draw in another order, so only what does not depend on the draw is compared
    runs = [
        train("ppo", "spinup/ProbeTermination-v0", actor_critic=cls, num_envs=4, train_pi_iters=0)
        for cls in (Single, Batched)
    ]
    for key in ("AverageVVals", "StdVVals", "AverageEpRet", "LossV", "DeltaLossV"):
        assert runs[0].rows[0][key] == pytest.approx(runs[1].rows[0][key], rel=1e-4), key


class Column(Batched):
    """Forgets to squeeze: values and log-probabilities of a batch come as columns."""

    def __init__(self, observation_space, action_space):
        super().__init__(observation_space, action_space, ColumnPi, ColumnV)


class ColumnPi(Pi):
    def forward(self, obs, act=None):
        pi, logp = super().forward(obs, act)
        return pi, None if logp is None else logp.unsqueeze(-1)


class ColumnV(V):
    def forward(self, obs):
        return super().forward(obs).unsqueeze(-1)


@pytest.mark.parametrize("algo", ALGOS)
def test_values_and_log_probs_that_come_as_columns_train_as_flat_ones_do(train, algo):
    # a column minus a row would broadcast to a square and be averaged without a word
    kwargs = {"num_envs": 2, "epochs": 2}
    flat = train(algo, "CartPole-v1", actor_critic=Batched, **kwargs)
    column = train(algo, "CartPole-v1", actor_critic=Column, **kwargs)
    assert column.rows == flat.rows
    for p, q in zip(column.ac.parameters(), flat.ac.parameters(), strict=True):
        assert torch.equal(p, q)


@pytest.mark.parametrize("algo", ALGOS)
def test_a_partial_with_the_users_actor_trains(train, algo):
    class Wide(Pi):
        def __init__(self, obs_dim, n):
            super().__init__(obs_dim, n)
            self.net = nn.Sequential(nn.Linear(obs_dim, 9), nn.ReLU(), nn.Linear(9, n))

    cls = functools.partial(Batched, actor=Wide)
    run = train(algo, "CartPole-v1", actor_critic=cls, num_envs=2)
    assert run.ac.pi.net[0].out_features == 9 and np.isfinite(run.rows[0]["LossPi"])


@pytest.mark.parametrize("algo", ALGOS)
def test_devices_and_environments_in_ac_kwargs_are_passed_on(train, algo):
    seen = {}

    class Placed(Batched):
        def __init__(self, observation_space, action_space, device, env):
            super().__init__(observation_space, action_space)
            seen.update(device=device, env=env)
            self.to(device)

    env = gym.make("CartPole-v1")
    ac_kwargs = {"device": torch.device("cpu"), "env": env}
    run = train(algo, "CartPole-v1", actor_critic=Placed, ac_kwargs=ac_kwargs)
    assert seen["device"] == torch.device("cpu") and seen["env"] is env
    assert np.isfinite(run.rows[0]["LossPi"])
    assert ac_kwargs == {"device": torch.device("cpu"), "env": env}


class SquashedActor(core.Actor):
    """A subclass of `core.Actor`, with its own distribution over a Box."""

    def __init__(self, obs_dim, act_dim):
        super().__init__()
        self.mu = nn.Linear(obs_dim, act_dim)
        self.std = nn.Parameter(torch.full((act_dim,), 0.5))

    def _distribution(self, obs):
        return core.Normal(torch.tanh(self.mu(obs)), self.std)

    def _log_prob_from_distribution(self, pi, act):
        return pi.log_prob(act).sum(-1)


class FromCore(nn.Module):
    """Built from the names that `core` has: Actor, Box, Discrete, Normal, Categorical, mlp."""

    def __init__(self, observation_space, action_space, hidden_sizes=(8,)):
        super().__init__()
        assert isinstance(action_space, core.Box) and not isinstance(action_space, core.Discrete)
        dim = observation_space.shape[0]
        self.pi = SquashedActor(dim, action_space.shape[0])
        self.v = core.MLPCritic(dim, hidden_sizes, nn.Tanh)

    def step(self, obs):
        with torch.no_grad():
            pi = self.pi._distribution(obs)
            a = pi.sample()
            logp = self.pi._log_prob_from_distribution(pi, a)
            return a.numpy(), self.v(obs).numpy(), logp.numpy()

    def act(self, obs):
        return self.step(obs)[0]


@pytest.mark.parametrize("num_envs", [1, 4])
@pytest.mark.parametrize("algo", ALGOS)
def test_a_subclass_of_core_actor_trains(train, algo, num_envs):
    run = train(
        algo,
        "Pendulum-v1",
        actor_critic=FromCore,
        num_envs=num_envs,
        ac_kwargs={"hidden_sizes": (4,)},
    )
    row = run.rows[0]
    want = 0.5 * np.log(2 * np.pi * np.e) + np.log(run.ac.pi.std.detach().numpy()).sum()
    assert row["Entropy"] == pytest.approx(want, rel=1e-4)
    if algo == "trpo":
        assert 0 < row["KL"] <= 0.01


class OnlyEntropy:
    """A distribution with nothing but an entropy; no closed form for a divergence."""

    def __init__(self, logits):
        self.inner = Categorical(logits=logits)

    def entropy(self):
        return self.inner.entropy()


class OnlyEntropyPi(Pi):
    def forward(self, obs, act=None):
        pi, logp = super().forward(obs, act)
        return OnlyEntropy(pi.logits), logp


class OwnSampling(Batched):
    def __init__(self, observation_space, action_space):
        super().__init__(observation_space, action_space, OnlyEntropyPi)

    def step(self, obs):
        with torch.no_grad():
            a = Categorical(logits=self.pi.net(obs)).sample()
            return a.numpy(), self.v(obs).numpy(), self.pi(obs, a)[1].numpy()


@pytest.mark.parametrize("num_envs", [1, 4])
@pytest.mark.parametrize("algo", ALGOS)
def test_a_distribution_that_has_only_an_entropy_trains(train, cartpole_net, algo, num_envs):
    run = train(algo, "CartPole-v1", actor_critic=OwnSampling, num_envs=num_envs)
    assert_trained(run, cartpole_net(OwnSampling), algo)
    if algo == "trpo":
        assert 0 < run.rows[0]["KL"] <= 0.01


def test_a_frozen_parameter_stays_as_it_was(train):
    class Frozen(FromCore):
        def __init__(self, observation_space, action_space):
            super().__init__(observation_space, action_space)
            self.pi.std.requires_grad_(False)

    for algo in ALGOS:
        run = train(algo, "Pendulum-v1", actor_critic=Frozen)
        assert run.ac.pi.std.tolist() == [0.5] and np.isfinite(run.rows[0]["LossPi"])


def test_networks_that_share_a_trunk_train(train):
    class Shared(Batched):
        def __init__(self, observation_space, action_space):
            super().__init__(observation_space, action_space)
            trunk = nn.Linear(4, 6)
            self.pi.net = nn.Sequential(trunk, nn.Tanh(), nn.Linear(6, 2))
            self.v.net = nn.Sequential(trunk, nn.Tanh(), nn.Linear(6, 1))

    for algo in ALGOS:
        run = train(algo, "CartPole-v1", actor_critic=Shared, num_envs=2)
        assert run.ac.pi.net[0] is run.ac.v.net[0]
        assert (run.dir / "pyt_save" / "policy.safetensors").exists()


def test_a_users_class_repeats_with_its_seed(train):
    runs = [
        train("ppo", "CartPole-v1", actor_critic=Batched, num_envs=4, seed=s) for s in (3, 3, 4)
    ]
    assert runs[0].rows == runs[1].rows and runs[0].rows != runs[2].rows


def test_positional_arguments_keep_their_order(tmp_path):
    from spinup import ppo_pytorch, trpo_pytorch, vpg_pytorch

    logger_kwargs = {"output_dir": str(tmp_path / "a"), "quiet": True}
    env = functools.partial(gym.make, "CartPole-v1")
    common = (env, Batched, {}, 0, 40, 1, 0.9)
    ppo_pytorch(*common, 0.2, 3e-4, 1e-3, 2, 2, 0.97, 20, 0.01, logger_kwargs, 10)
    logger_kwargs["output_dir"] = str(tmp_path / "b")
    vpg_pytorch(*common, 3e-4, 1e-3, 2, 0.97, 20, logger_kwargs, 10)
    logger_kwargs["output_dir"] = str(tmp_path / "c")
    trpo_pytorch(*common, 0.01, 1e-3, 2, 0.1, 10, 10, 0.8, 0.97, 20, logger_kwargs, 10, "npg")
    for name in "abc":
        assert len((tmp_path / name / "progress.txt").read_text().splitlines()) == 2


def test_core_has_the_names_that_user_code_reaches():
    assert core.Box is spaces.Box and core.Discrete is spaces.Discrete
    assert core.Normal is Normal and core.Categorical is Categorical
    for name in ("mlp", "count_vars", "combined_shape", "discount_cumsum", "MLPActorCritic"):
        assert callable(getattr(core, name))


# ---- off-policy: `act`, `pi` and `q`, or `q1` and `q2` -----------------------------------------

OFF_POLICY = ["ddpg", "td3", "sac"]


class OwnQ(nn.Module):
    """Q(s, a), one number a row."""

    def __init__(self, dim):
        super().__init__()
        self.net = nn.Linear(dim, 1)

    def forward(self, obs, act):
        return self.net(torch.cat([obs, act], -1)).squeeze(-1)


class ColumnQ(OwnQ):
    """Forgets to squeeze."""

    def forward(self, obs, act):
        return super().forward(obs, act).unsqueeze(-1)


class OwnPi(nn.Module):
    """A deterministic policy that knows one bound, as Pendulum has it."""

    def __init__(self, obs_dim, act_dim):
        super().__init__()
        self.net = nn.Linear(obs_dim, act_dim)

    def forward(self, obs):
        return 2 * torch.tanh(self.net(obs))


class OwnSampledPi(OwnPi):
    """A stochastic policy: (action, log-probability), of batches and of one observation."""

    def forward(self, obs, deterministic=False):
        mu = self.net(obs)
        pi = Normal(mu, torch.ones_like(mu))
        u = mu if deterministic else pi.rsample()
        slope = 2 * (1 - torch.tanh(u) ** 2) + 1e-6
        return 2 * torch.tanh(u), (pi.log_prob(u) - slope.log()).sum(-1)


class ColumnSampledPi(OwnSampledPi):
    def forward(self, obs, deterministic=False):
        a, logp = super().forward(obs, deterministic)
        return a, logp.unsqueeze(-1)


class OwnDDPG(nn.Module):
    """Exactly what the contract lists for DDPG."""

    critics = ("q",)
    Pi = OwnPi

    def __init__(self, observation_space, action_space, critic=OwnQ, actor=None):
        super().__init__()
        obs_dim, act_dim = observation_space.shape[0], action_space.shape[0]
        self.pi = (actor or self.Pi)(obs_dim, act_dim)
        for name in self.critics:
            setattr(self, name, critic(obs_dim + act_dim))

    def act(self, obs):
        with torch.no_grad():
            return self.pi(obs).numpy()


class OwnTD3(OwnDDPG):
    critics = ("q1", "q2")


class OwnSAC(OwnTD3):
    Pi = OwnSampledPi

    def act(self, obs, deterministic=False):
        with torch.no_grad():
            return self.pi(obs, deterministic)[0].numpy()


OWN = {"ddpg": OwnDDPG, "td3": OwnTD3, "sac": OwnSAC}


@pytest.fixture
def pendulum_net():
    """A fresh network for Pendulum, to compare names and values with."""
    env = gym.make("Pendulum-v1")
    return lambda cls: cls(env.observation_space, env.action_space)


@pytest.mark.parametrize("num_envs", [1, 4])
@pytest.mark.parametrize("algo", OFF_POLICY)
def test_a_class_with_only_act_pi_and_q_trains(train, pendulum_net, algo, num_envs):
    run = train(algo, "Pendulum-v1", actor_critic=OWN[algo], num_envs=num_envs, start_steps=4)
    row, old = run.rows[0], dict(pendulum_net(OWN[algo]).named_parameters())
    assert np.isfinite([row["LossPi"], row["LossQ"], row["AverageTestEpRet"]]).all()
    for name, p in run.ac.named_parameters():
        assert not torch.equal(p, old[name]), f"{name} has not been trained"
    assert row["TotalEnvInteracts"] == 40
    assert (run.dir / "pyt_save" / "policy.safetensors").exists()


def watched(cls, modes):
    """The class with dropout and with one layer in evaluation mode; `act` notes all modes."""

    class Watched(cls):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.dropout, self.fixed = nn.Dropout(0.5), nn.Dropout(0.5).eval()

        @functools.wraps(cls.act)
        def act(self, *args, **kwargs):
            modes.append((self.training, self.dropout.training, self.fixed.training))
            return super().act(*args, **kwargs)

    return Watched


@pytest.mark.parametrize("algo", OFF_POLICY)
def test_test_episodes_are_played_in_evaluation_mode_and_training_is_not(train, algo):
    modes = []
    run = train(
        algo,
        "Pendulum-v1",
        actor_critic=watched(OWN[algo], modes),
        epochs=2,
        start_steps=0,
        num_test_episodes=2,
        max_ep_len=10,
    )
    training, testing = (True, True, False), (False, False, False)
    epoch = [training] * 40 + [testing] * 20
    assert modes == epoch * 2
    assert (run.ac.training, run.ac.dropout.training, run.ac.fixed.training) == training


def test_a_failing_test_episode_leaves_the_mode_as_it_was(in_run):
    def body(run):
        ac = run.build(OwnDDPG, {})
        ac.q.eval()
        with pytest.raises(ZeroDivisionError), run.evaluating():
            assert not any(module.training for module in ac.modules())
            _ = 1 / 0
        return ac

    ac = in_run("ddpg", body, lambda: gym.make("Pendulum-v1"), TorchRun)
    assert ac.training and ac.pi.net.training and not ac.q.training and not ac.q.net.training


@pytest.mark.parametrize("algo", OFF_POLICY)
def test_action_values_that_come_as_columns_train_as_flat_ones_do(train, algo):
    # a column minus a row would broadcast to a square and be averaged without a word
    column = {"critic": ColumnQ, **({"actor": ColumnSampledPi} if algo == "sac" else {})}
    flat, columns = (
        train(algo, "Pendulum-v1", actor_critic=OWN[algo], ac_kwargs=ac_kwargs, epochs=2)
        for ac_kwargs in ({}, column)
    )
    assert columns.rows == flat.rows
    for p, q in zip(columns.ac.parameters(), flat.ac.parameters(), strict=True):
        assert torch.equal(p, q)


@pytest.mark.parametrize("algo", OFF_POLICY)
def test_a_partial_with_the_users_critic_trains(train, algo):
    class Wide(OwnQ):
        def __init__(self, dim):
            super().__init__(dim)
            self.net = nn.Sequential(nn.Linear(dim, 9), nn.ReLU(), nn.Linear(9, 1))

    run = train(algo, "Pendulum-v1", actor_critic=functools.partial(OWN[algo], critic=Wide))
    assert getattr(run.ac, OWN[algo].critics[-1]).net[0].out_features == 9
    assert np.isfinite(run.rows[0]["LossQ"])


@pytest.mark.parametrize("algo", OFF_POLICY)
def test_off_policy_frozen_and_unused_parameters_stay_as_they_were(train, algo):
    class Odd(OWN[algo]):
        def __init__(self, observation_space, action_space):
            super().__init__(observation_space, action_space)
            nn.init.zeros_(self.pi.net.bias).requires_grad_(False)
            self.pi.unused = nn.Parameter(torch.ones(2))
            getattr(self, self.critics[0]).unused = nn.Parameter(torch.ones(2))

    run = train(algo, "Pendulum-v1", actor_critic=Odd)
    assert np.isfinite(run.rows[0]["LossPi"]) and run.ac.pi.net.bias.item() == 0
    assert run.ac.pi.unused.tolist() == [1, 1]
    assert getattr(run.ac, Odd.critics[0]).unused.tolist() == [1, 1]


@pytest.mark.parametrize("algo", OFF_POLICY)
def test_off_policy_networks_that_share_a_trunk_train(train, algo):
    class TrunkQ(nn.Module):
        def __init__(self, trunk, act_dim):
            super().__init__()
            self.trunk, self.head = trunk, nn.Linear(5 + act_dim, 1)

        def forward(self, obs, act):
            return self.head(torch.cat([torch.tanh(self.trunk(obs)), act], -1)).squeeze(-1)

    class Shared(OWN[algo]):
        def __init__(self, observation_space, action_space):
            super().__init__(observation_space, action_space)
            trunk = nn.Linear(3, 5)
            self.pi.net = nn.Sequential(trunk, nn.Tanh(), nn.Linear(5, 1))
            for name in self.critics:
                setattr(self, name, TrunkQ(trunk, 1))

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch's, about a parameter that an optimizer has twice
        run = train(algo, "Pendulum-v1", actor_critic=Shared)
    assert run.ac.pi.net[0] is getattr(run.ac, Shared.critics[0]).trunk
    assert np.isfinite([run.rows[0]["LossPi"], run.rows[0]["LossQ"]]).all()


@pytest.mark.parametrize("algo", OFF_POLICY)
def test_an_off_policy_class_repeats_with_its_seed(train, algo):
    kwargs = {"actor_critic": OWN[algo], "num_envs": 2, "start_steps": 4}
    runs = [train(algo, "Pendulum-v1", seed=s, **kwargs) for s in (3, 3, 4)]
    assert runs[0].rows == runs[1].rows and runs[0].rows != runs[2].rows


def test_off_policy_positional_arguments_keep_their_order(tmp_path):
    from spinup import ddpg_pytorch, sac_pytorch, td3_pytorch

    env = functools.partial(gym.make, "Pendulum-v1")
    ends = {name: {"output_dir": str(tmp_path / name), "quiet": True} for name in OWN}
    # ..., steps_per_epoch, epochs, replay_size, gamma, polyak, then what is an algorithm's own
    first = (0, 40, 1, 1000, 0.9, 0.99)
    # batch_size, start_steps, update_after, update_every; then num_test_episodes, max_ep_len
    rhythm, tests = (8, 10, 10, 5), (1, 20)
    ddpg_pytorch(env, OwnDDPG, {}, *first, 1e-3, 1e-3, *rhythm, 0.1, *tests, ends["ddpg"], 1)
    td3 = (0.1, 0.2, 0.5, 2)  # act_noise, target_noise, noise_clip, policy_delay
    td3_pytorch(env, OwnTD3, {}, *first, 1e-3, 1e-3, *rhythm, *td3, *tests, ends["td3"], 1)
    sac_pytorch(env, OwnSAC, {}, *first, 1e-3, 0.2, *rhythm, *tests, ends["sac"], 1)
    for name in OWN:
        assert len((tmp_path / name / "progress.txt").read_text().splitlines()) == 2


@pytest.mark.parametrize("algo", OFF_POLICY)
def test_off_policy_cores_have_the_names_that_user_code_reaches(algo):
    module = importlib.import_module(f"spinup.algos.pytorch.{algo}.core")
    for name in ("mlp", "count_vars", "combined_shape", "MLPActorCritic", "MLPQFunction"):
        assert callable(getattr(module, name))
    actor = "SquashedGaussianMLPActor" if algo == "sac" else "MLPActor"
    assert callable(getattr(module, actor))
    ac = module.MLPActorCritic(spaces.Box(-1, 1, (3,)), spaces.Box(-2, 2, (1,)))
    assert isinstance(ac.pi, getattr(module, actor))
    assert all(hasattr(ac, name) for name in OWN[algo].critics)


@pytest.mark.parametrize("algo", OFF_POLICY)
def test_a_users_class_is_loaded_by_passing_it_and_plays_without_noise(train, algo):
    run = train(algo, "Pendulum-v1", actor_critic=OWN[algo])
    with pytest.raises(SpinupError, match="pass it as actor_critic"):
        load_policy_and_env(run.dir)
    _, get_action = load_policy_and_env(run.dir, deterministic=True, actor_critic=OWN[algo])
    o = np.array([0.6, 0.8, 0.5], np.float32)
    modes = {"deterministic": True} if algo == "sac" else {}
    want = run.ac.act(torch.as_tensor(o), **modes)
    for _ in range(2):
        np.testing.assert_allclose(get_action(o), want, rtol=1e-6)


@pytest.mark.parametrize("algo", OFF_POLICY)
def test_arguments_of_an_off_policy_class_come_out_as_they_went_in(train, algo):
    class Placed(OWN[algo]):
        def __init__(self, observation_space, action_space, device, env):
            super().__init__(observation_space, action_space)
            self.to(device)

    env = gym.make("Pendulum-v1")
    ac_kwargs = {"device": torch.device("cpu"), "env": env}
    train(algo, "Pendulum-v1", actor_critic=Placed, ac_kwargs=ac_kwargs)
    assert ac_kwargs == {"device": torch.device("cpu"), "env": env} and ac_kwargs["env"] is env


@pytest.mark.parametrize("algo", OFF_POLICY)
def test_a_subclass_of_the_default_class_that_overrides_act_is_really_asked(train, algo):
    default = importlib.import_module(f"spinup.algos.pytorch.{algo}.core").MLPActorCritic
    asked, sent = [], []

    class Mine(default):
        def act(self, obs, deterministic=False):
            asked.append(deterministic)
            return np.array([0.5 if deterministic else -1.5], np.float32)

    class Watch(gym.Wrapper):
        def step(self, action):
            sent.append(float(action[0]))
            return self.env.step(action)

    quiet = {"act_noise": 0.0} if algo != "sac" else {}
    train(algo, lambda: Watch(gym.make("Pendulum-v1")), actor_critic=Mine, **quiet)
    assert sent[10:40] == [-1.5] * 30 and asked[:30] == [False] * 30  # after the random steps
    assert sent[40:] == [0.5] * 20 and asked[30:] == [True] * 20  # the test episode


def test_sac_refuses_a_class_that_can_only_be_sampled(train):
    class Sampled(OwnSAC):
        def act(self, obs):
            return super().act(obs)

    with pytest.raises(SpinupError, match=r"Sampled.act has no argument 'deterministic'"):
        train("sac", "Pendulum-v1", actor_critic=Sampled)


class DiscreteQ(nn.Module):
    def __init__(self, obs_dim, n):
        super().__init__()
        self.net = nn.Linear(obs_dim, n)

    def forward(self, obs, act=None):
        q = self.net(obs)
        return q if act is None else q.gather(-1, act.unsqueeze(-1))  # a column


class DiscreteSAC(nn.Module):
    """A user's class for discrete actions."""

    def __init__(self, observation_space, action_space):
        super().__init__()
        sizes = observation_space.shape[0], int(action_space.n)
        self.pi, self.q1, self.q2 = Pi(*sizes), DiscreteQ(*sizes), DiscreteQ(*sizes)

    def act(self, obs, deterministic=False):
        with torch.no_grad():
            pi = self.pi(obs)[0]
            return (pi.probs.argmax(-1) if deterministic else pi.sample()).numpy()


def test_a_users_class_for_discrete_actions_says_so_and_trains(train):
    with pytest.raises(SpinupError, match="set discrete = True"):
        train("sac", "CartPole-v1", actor_critic=DiscreteSAC)

    class Says(DiscreteSAC):
        discrete = True

    run = train("sac", "CartPole-v1", actor_critic=Says)
    assert np.isfinite([run.rows[0]["LossPi"], run.rows[0]["LossQ"]]).all()

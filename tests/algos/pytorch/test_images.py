"""Images are read through encoders: their shapes, scales, chunks, and what learns from them."""

import functools
import inspect
import json

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from spinup.algos.pytorch.common import images
from spinup.algos.pytorch.common import run as torch_run
from spinup.algos.pytorch.common.acting import make_get_action
from spinup.algos.pytorch.common.gradients import Adam
from spinup.algos.pytorch.common.images import Encoder, image_layers
from spinup.algos.pytorch.common.layers import takes_bytes
from spinup.algos.pytorch.common.nets import MLPActorCritic
from spinup.algos.pytorch.common.targets import polyak_update, target_copy
from spinup.algos.pytorch.dqn.core import MLPQNetwork
from spinup.algos.pytorch.ppo.ppo import ppo_update
from spinup.algos.pytorch.td3.td3 import td3_update
from spinup.envs import make_env
from spinup.parallel.mpi import Shards
from spinup.policies.loading import load_policy_and_env
from spinup.utils.errors import SpinupError

ATARI = spaces.Box(0, 255, (4, 84, 84), np.uint8)
MINATAR = spaces.Box(0, 1, (10, 10, 4), np.bool_)
TWO = spaces.Discrete(2)


def some(space, n=3, seed=0):
    """Random observations of a space, as a tensor."""
    rng = np.random.default_rng(seed)
    high = int(space.high.max())
    return torch.tensor(rng.integers(0, high + 1, (n, *space.shape)).astype(space.dtype))


# ---- the layers ------------------------------------------------------------------------------


def test_atari_sized_images_get_the_nature_network():
    net = Encoder(ATARI, "nature").net
    convs = [m for m in net if isinstance(m, nn.Conv2d)]
    assert [(c.in_channels, c.out_channels, c.kernel_size, c.stride) for c in convs] == [
        (4, 32, (8, 8), (4, 4)),
        (32, 64, (4, 4), (2, 2)),
        (64, 64, (3, 3), (1, 1)),
    ]
    (linear,) = (m for m in net if isinstance(m, nn.Linear))
    assert (linear.in_features, linear.out_features) == (64 * 7 * 7, 512)


def test_minatar_sized_images_get_the_small_network():
    net = Encoder(MINATAR, "small").net
    assert [type(m) for m in net] == [nn.Conv2d, nn.ReLU, nn.Flatten, nn.Linear, nn.ReLU]
    assert (net[0].in_channels, net[0].out_channels, net[0].kernel_size) == (4, 16, (3, 3))
    assert (net[3].in_features, net[3].out_features) == (16 * 8 * 8, 128)


@pytest.mark.parametrize(
    "shape, features", [((36, 36, 3), 512), ((1, 35, 99), 128), ((2, 3, 2), 128), ((1, 1, 1), 128)]
)
def test_auto_chooses_by_the_shorter_side(shape, features):
    space = spaces.Box(0, 255, shape, np.uint8)
    width, hidden_sizes, make = image_layers(space, "auto", None, usual=(64, 64))
    assert (width, hidden_sizes) == (features, ())
    assert make()(some(space)).shape == (3, features)


def test_channels_last_and_channels_first_read_the_same_image():
    last, first = spaces.Box(0, 255, (12, 9, 3), np.uint8), spaces.Box(0, 255, (3, 12, 9), np.uint8)
    a, b = Encoder(last, "small"), Encoder(first, "small")
    b.load_state_dict(a.state_dict())
    obs = some(last)
    torch.testing.assert_close(a(obs), b(obs.permute(0, 3, 1, 2)))


def test_values_are_scaled_to_one_whether_bytes_or_floats():
    seen = []
    encoder = Encoder(ATARI, "flat")
    encoder.net.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    obs = some(ATARI)
    obs[0, 0, 0, 0] = 255
    assert torch.equal(encoder(obs), encoder(obs.float()))
    assert seen[0].dtype == torch.float32 and seen[0].max() == 1.0
    planes = Encoder(spaces.Box(0, 5, (4, 4, 2), np.uint8), "flat")
    assert planes(torch.full((4, 4, 2), 5, dtype=torch.uint8)).max() == 1.0
    assert Encoder(MINATAR, "flat")(torch.ones(10, 10, 4, dtype=torch.bool)).max() == 1.0


def test_leading_axes_are_kept():
    encoder, obs = Encoder(MINATAR, "small"), some(MINATAR, 6)
    rows = encoder(obs)
    assert encoder(obs[0]).shape == (128,)
    torch.testing.assert_close(encoder(obs.reshape(2, 3, 10, 10, 4)), rows.reshape(2, 3, 128))


def test_many_images_are_encoded_in_chunks(monkeypatch):
    monkeypatch.setattr(images, "MOST_VALUES", 4 * 400)
    encoder, rows = Encoder(MINATAR, "small"), []
    encoder.net.register_forward_pre_hook(lambda module, inputs: rows.append(len(inputs[0])))
    obs = some(MINATAR, 10)
    with torch.no_grad():
        parts = encoder(obs)
    assert rows == [4, 4, 2]
    torch.testing.assert_close(parts, encoder(obs))
    assert rows[3:] == [10]  # a gradient may need four times as many
    monkeypatch.setattr(images, "MOST_VALUES", 2 * 400)
    encoder(obs).sum().backward()
    assert rows[4:] == 2 * [2] * 5  # forward, and once more backward


def test_chunks_do_not_change_gradients_nor_their_derivatives(monkeypatch):
    """TRPO differentiates twice."""
    encoder, obs = Encoder(MINATAR, "small").double(), some(MINATAR, 10)
    params, found = list(encoder.parameters()), []
    for most in (2, 10):
        monkeypatch.setattr(images, "MOST_VALUES", most * 400)
        loss = encoder(obs).square().sum()
        first = torch.autograd.grad(loss, params, create_graph=True)
        slope = sum(g.square().sum() for g in first)
        found.append([*first, *torch.autograd.grad(slope, params)])
    torch.testing.assert_close(*found)
    assert all(x.abs().sum() > 0 for x in found[0])


# ---- choosing and replacing an encoder ----------------------------------------------------------


def test_policy_and_value_function_have_encoders_of_their_own():
    ac = MLPActorCritic(MINATAR, TWO)
    pi, v = (list(net.obs_filter.parameters()) for net in (ac.pi, ac.v))
    assert len(pi) == len(v) == 4 and not {*pi} & {*v}
    assert not torch.equal(pi[0], v[0])
    assert sum(p.numel() for p in ac.pi.logits_net.parameters()) == 2 * 129


def test_on_policy_image_networks_start_nearly_uniform_and_orthogonal():
    ac = MLPActorCritic(ATARI, TWO)
    with torch.no_grad():
        probs = ac.pi(some(ATARI))[0].probs
    torch.testing.assert_close(probs, torch.full((3, 2), 0.5), atol=0.01, rtol=0)
    weight = ac.pi.obs_filter.net[0].weight.flatten(1)
    torch.testing.assert_close(weight @ weight.T, 2 * torch.eye(32), atol=1e-4, rtol=0)
    assert MLPActorCritic(MINATAR, TWO, orthogonal_init=False).v.v_net[0].bias.any()


def test_hidden_sizes_and_flat_are_honored():
    wide = MLPQNetwork(MINATAR, TWO, hidden_sizes=(7,))
    assert [m.out_features for m in wide.q.q if isinstance(m, nn.Linear)] == [7, 2]
    flat = MLPQNetwork(MINATAR, TWO, encoder="flat")
    assert [m.in_features for m in flat.q.q if isinstance(m, nn.Linear)] == [400, 128, 128]
    assert not list(flat.q.obs_filter.parameters())


def test_the_streams_of_a_dueling_network_have_their_own_last_hidden_layer():
    q = MLPQNetwork(ATARI, TWO, dueling=True).q
    shapes = [[tuple(p.shape) for p in net.parameters()] for net in (q.v_net, q.a_net)]
    assert shapes == [[(512, 3136), (512,), (n, 512), (n,)] for n in (1, 2)]
    assert not list(q.net.parameters())
    assert q(some(ATARI)).shape == (3, 2)


class Mean(nn.Module):
    """An encoder of a user: the mean of each channel."""

    def __init__(self, space):
        super().__init__()
        assert space.dtype == np.float32 and (space.low.min(), space.high.max()) == (0, 1)
        self.features, self.shape = np.int64(space.shape[0]), space.shape  # as from np.prod
        self.scale = nn.Linear(1, 1)

    def forward(self, x):
        assert x.shape[1:] == self.shape and x.max() <= 1
        return x.mean((2, 3)) * self.scale.weight


def test_a_users_encoder_sees_floats_with_channels_first_and_keeps_its_weights():
    ac = MLPActorCritic(MINATAR, TWO, encoder=Mean)
    ones = torch.ones(5, 10, 10, 4, dtype=torch.bool)
    scale = ac.v.obs_filter.net.scale.weight
    assert scale.abs() < 1  # torch's own initial weight, not an orthogonal one
    torch.testing.assert_close(ac.v.obs_filter(ones), scale.expand(5, 4))
    assert ac.v(ones).shape == (5,)


@pytest.mark.parametrize(
    "space, kwargs, words",
    [
        (MINATAR, {"encoder": "nature"}, "36x36 pixels, but the images have 10x10: use 'small'"),
        (MINATAR, {"encoder": "resnet"}, "'resnet' is not an encoder: use 'auto'"),
        (MINATAR, {"encoder": lambda space: nn.Flatten()}, "'features' is the number"),
        (MINATAR, {"normalize_obs": True}, "normalize_obs=True is for vectors"),
        (spaces.Box(-1, 1, (3,)), {"encoder": "small"}, "needs images"),
        (spaces.Box(0, 1, (10, 10, 4)), {"encoder": "nature"}, "needs images"),
        (spaces.Box(-1, 1, (3,)), {"share_encoder": True}, "share_encoder=True needs images"),
    ],
)
def test_an_encoder_that_does_not_fit_is_one_sentence(space, kwargs, words):
    with pytest.raises(SpinupError) as error:
        MLPActorCritic(space, TWO, **kwargs)
    assert words in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "ac_kwargs", [{"encoder": "nature"}, {"encoder": "x"}, {"normalize_obs": True}]
)
def test_a_run_refuses_it_before_anything_is_created(train, tmp_path, ac_kwargs):
    with pytest.raises(SpinupError):
        train("ppo", "spinup/ProbeImage-v0", ac_kwargs=ac_kwargs)
    with pytest.raises(SpinupError, match="needs images"):
        train("ppo", "CartPole-v1", ac_kwargs={"encoder": "small"})
    with pytest.raises(SpinupError, match="needs images"):
        train("ppo", "CartPole-v1", ac_kwargs={"share_encoder": True})
    with pytest.raises(SpinupError, match="share_encoder=True is for ppo, not for vpg"):
        train("vpg", "spinup/ProbeImage-v0", ac_kwargs={"share_encoder": True})
    assert list(tmp_path.iterdir()) == []


def test_vectors_and_floats_are_flattened_as_before():
    for shape in ((3,), (10, 10, 4)):
        ac = MLPActorCritic(spaces.Box(-1, 1, shape), TWO)
        assert [m.out_features for m in ac.v.v_net if isinstance(m, nn.Linear)] == [64, 64, 1]
        assert not takes_bytes(ac)


# ---- training ------------------------------------------------------------------------------------

DISCRETE, BOX = "spinup/ProbeImage-v0", "spinup/ProbeImageContinuous-v0"
# Enough to learn the probe: one dot in an image says which action is best.
ON = {"steps_per_epoch": 256, "num_envs": 16, "epochs": 10}
OFF = {"steps_per_epoch": 400, "batch_size": 32, "start_steps": 200, "update_after": 100}
OFF |= {"num_test_episodes": 0, "gamma": 0.5}
PPO = {"pi_lr": 1e-3, "target_kl": None, "minibatch_size": 64}
LEARNS = {
    ("ppo", DISCRETE): {**ON, "epochs": 6, **PPO},
    ("ppo", BOX): {**ON, **PPO},
    ("vpg", DISCRETE): {**ON, "pi_lr": 3e-3, "epochs": 20},
    ("trpo", DISCRETE): {**ON, "delta": 0.05, "epochs": 6},
    ("reinforce", DISCRETE): {**ON, "pi_lr": 3e-3, "epochs": 20},
    ("dqn", DISCRETE): {**OFF, "q_lr": 1e-3, "n_step": 1},
    ("sac", DISCRETE): {**OFF, "updates_per_step": 0.25},
    ("sac", BOX): {**OFF, "alpha": 0.02},
    ("ddpg", BOX): OFF,
    ("td3", BOX): OFF,
    ("acer", DISCRETE): {"steps_per_epoch": 1000, "num_envs": 8, "num_test_episodes": 0},
    ("acer", BOX): {"steps_per_epoch": 1000, "num_envs": 8, "num_test_episodes": 0},
}


SHARED = {"share_encoder": True}
ONE_STEP = {"train_pi_iters": 1, "train_v_iters": 5, "target_kl": None, "ent_coef": 0.01}


def test_with_a_shared_encoder_each_step_follows_both_losses():
    ac = MLPActorCritic(MINATAR, TWO, share_encoder=True)
    assert not list(ac.v.obs_filter.parameters())  # they are listed once, in the policy
    rng = torch.Generator().manual_seed(0)
    act = torch.randint(2, (8,), generator=rng)
    adv, ret = (torch.randn(8, generator=rng) for _ in range(2))
    batch = {"obs": some(MINATAR, 8), "act": act, "adv": adv, "ret": ret}
    with torch.no_grad():
        batch["logp"] = ac.pi(batch["obs"], act)[1]

    # by hand: the ratio is 1, so the clipped objective's gradient is the policy gradient
    logits, v = ac.pi.logits_net(ac.pi.obs_filter(batch["obs"])), ac.v(batch["obs"])
    logp = logits.log_softmax(-1)
    entropy = -(logp.exp() * logp).sum(-1).mean()
    loss = -(adv * logp[torch.arange(8), act]).mean() - 0.01 * entropy
    loss = loss + 0.25 * ((v - ret) ** 2).mean()
    names, parameters = zip(*ac.named_parameters(), strict=True)
    wanted = dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))
    before = {name: p.detach().clone() for name, p in ac.named_parameters()}

    sgd = [torch.optim.SGD(net.parameters(), lr=0.1) for net in (ac.pi, ac.v)]
    ppo_update(ac, *sgd, [batch], Shards(1), **ONE_STEP)
    for name, p in ac.named_parameters():
        assert wanted[name].any()
        torch.testing.assert_close(p, before[name] - 0.1 * wanted[name], atol=1e-6, rtol=1e-5)


def test_ppo_learns_to_read_an_image_through_a_shared_encoder(train):
    run = train("ppo", DISCRETE, ac_kwargs=SHARED, **LEARNS["ppo", DISCRETE])
    assert right(run.ac, make_env(DISCRETE)) > 0.9
    before, after = run.rows[0], run.rows[-1]
    assert after["LossV"] < before["LossV"] and after["StopIter"] == before["StopIter"] > 0


def right(ac, env, n=100):
    """The fraction of images for which the policy is right."""
    get_action = make_get_action(ac, deterministic=True)
    found = []
    for seed in range(n):
        o, _ = env.reset(seed=10_000 + seed)
        off = np.abs(np.asarray(get_action(o)) - np.asarray(env.unwrapped.optimal_action(o)))
        found.append(off.max() < 0.5)  # of a Box: closer to the target than to the other one
    return np.mean(found)


NAMES = {"ids": lambda x: x.removeprefix("spinup/Probe")}


@pytest.mark.parametrize("algo, env", list(LEARNS), **NAMES)
def test_an_algorithm_learns_to_read_an_image(train, algo, env):
    run = train(algo, env, ac_kwargs={}, **LEARNS[algo, env])
    assert right(run.ac, make_env(env)) > 0.9


EVERY = [pair for pair in LEARNS if pair != ("ppo", BOX)]
UPDATES = {("acer", BOX): "continuous_update"}


@pytest.mark.parametrize("algo, env", EVERY, **NAMES)
def test_batches_hold_bytes_for_encoders_and_floats_for_other_networks(
    train, monkeypatch, algo, env
):
    module = __import__(f"spinup.algos.pytorch.{algo}.{algo}", fromlist=["x"])
    name = UPDATES.get((algo, env), f"{algo}_update")
    update, seen = getattr(module, name), []

    @functools.wraps(update)
    def record(*args, **kwargs):
        batch = next(x for x in args[2:] if isinstance(x, list | dict))
        batch = batch[0] if isinstance(batch, list) else batch
        seen.append({batch[key].dtype for key in ("obs", "obs2") if key in batch})
        return update(*args, **kwargs)

    monkeypatch.setattr(module, name, record)
    train(algo, env, ac_kwargs={})
    assert seen[-1] == {torch.bool}
    networks = inspect.signature(getattr(module, algo)).parameters["actor_critic"].default

    def own(observation_space, action_space):
        return networks(spaces.Box(0.0, 1.0, (10, 10, 4)), action_space, hidden_sizes=(4,))

    train(algo, env, actor_critic=own)
    assert seen[-1] == {torch.float32}


@pytest.mark.parametrize(
    "algo, env, ac_kwargs", [*((*pair, {}) for pair in EVERY), ("ppo", DISCRETE, SHARED)]
)
def test_a_run_repeats_and_resumes_to_the_same_bits(train, tmp_path, algo, env, ac_kwargs):
    settings = {
        "ac_kwargs": ac_kwargs,
        "epochs": 2,
        "save_freq": 1,
        "num_envs": 2,
        "num_threads": 1,
    }
    whole, again = (train(algo, env, **settings) for _ in range(2))
    settings["logger_kwargs"] = {"output_dir": str(tmp_path / "halves"), "quiet": True}
    train(algo, env, on_epoch=lambda row, ac: True, **settings)  # stops after the first epoch
    halves = train(algo, env, resume=True, **settings)
    assert len(whole.rows) == 2
    for other in (again, halves):
        np.testing.assert_equal(other.rows, whole.rows)
        for p, q in zip(whole.ac.parameters(), other.ac.parameters(), strict=True):
            assert torch.equal(p, q)


def test_convolutions_on_a_gpu_repeat_their_bits_during_a_run(train):
    flags = torch.backends.cudnn
    before, seen = flags.deterministic, []
    train("dqn", DISCRETE, ac_kwargs={}, on_epoch=lambda row, ac: seen.append(flags.deterministic))
    assert seen == [True] and flags.deterministic is before is False


@pytest.mark.parametrize("algo, ac_kwargs", [("ppo", {}), ("ppo", SHARED), ("trpo", {})])
def test_shards_of_images_give_one_policy(train, algo, ac_kwargs):
    run = train(algo, DISCRETE, ac_kwargs=ac_kwargs, shards=2, num_envs=2)
    assert np.isfinite([x for x in run.rows[0].values()]).sum() > 5
    assert all(p.isfinite().all() for p in run.ac.parameters())


class Bytes(nn.Module):
    """A user's network, which may ask for bytes; it remembers what it got."""

    takes_bytes = True

    def __init__(self, observation_space, action_space):
        super().__init__()
        self.q = nn.Sequential(nn.Flatten(), nn.Linear(400, 2))
        self.q.register_forward_pre_hook(lambda module, inputs: (self.remember(*inputs),))

    def remember(self, obs):
        self.seen = obs.dtype
        return obs.float()

    def act(self, obs):
        with torch.no_grad():
            return self.q(obs[None])[0].argmax().numpy()


def test_a_users_network_gets_bytes_if_it_asks_for_them(train, monkeypatch):
    for takes, dtype in ((True, torch.bool), (False, torch.float32)):
        monkeypatch.setattr(Bytes, "takes_bytes", takes)
        run = train("dqn", DISCRETE, actor_critic=Bytes, num_test_episodes=0)  # ends with a batch
        assert run.ac.seen == dtype
        make_get_action(run.ac)(np.zeros((10, 10, 4), bool))
        assert run.ac.seen == dtype


@pytest.mark.slow
@pytest.mark.parametrize("algo, env", [("dqn", DISCRETE), ("td3", BOX)], **NAMES)
def test_a_compiled_update_reads_images(train, algo, env):
    settings = {"ac_kwargs": {}, "steps_per_epoch": 200, "num_test_episodes": 0, "num_threads": 1}
    settings["updates_per_step"] = 0.25
    (plain,), (fast,) = (train(algo, env, compile=x, **settings).rows for x in (False, True))
    assert plain == pytest.approx(fast, rel=1e-3, abs=1e-4) and plain != fast


# ---- one encoder for the critics, which the policy reads ---------------------------------------


def networks(algo, env=BOX):
    core = __import__(f"spinup.algos.pytorch.{algo}.core", fromlist=["x"])
    space = make_env(env)
    return core.MLPActorCritic(space.observation_space, space.action_space)


@pytest.mark.parametrize(
    "algo, env", [("sac", DISCRETE), ("sac", BOX), ("td3", BOX), ("ddpg", BOX)]
)
def test_only_the_critics_train_the_encoder(train, algo, env):
    ac = networks(algo, env)
    first = ac.q if algo == "ddpg" else ac.q1
    encoder = list(first.obs_filter.parameters())
    assert len(encoder) == 4 and not {*encoder} & {*ac.pi.parameters()}
    obs = some(MINATAR)
    out = ac.pi(obs)
    out = out[0] if isinstance(out, tuple) else out
    (out.logits if hasattr(out, "logits") else out).sum().backward()
    assert all(p.grad is None for p in encoder)
    assert all(p.grad is not None for p in ac.pi.parameters())
    if algo != "ddpg":
        act = torch.zeros(3, dtype=torch.int64) if env == DISCRETE else torch.zeros(3, 1)
        ac.q2(obs, act).sum().backward()
        assert all(p.grad.abs().sum() > 0 for p in encoder)
        assert not {*encoder} & {*ac.q2.parameters()}  # saved once


@pytest.mark.parametrize("algo", ["sac", "td3", "ddpg"])
def test_the_target_networks_read_through_their_own_encoder(algo):
    ac = networks(algo)
    ac_targ, obs = target_copy(ac), some(MINATAR)
    before = ac_targ.pi.obs_filter(obs)
    with torch.no_grad():
        for p in ac.parameters():
            p.add_(1.0)
    assert torch.equal(ac_targ.pi.obs_filter(obs), before)
    polyak_update(ac, ac_targ, 0.0)
    for name in ("pi", "q", "q1", "q2"):
        if hasattr(ac, name):
            ours, target = getattr(ac, name).obs_filter, getattr(ac_targ, name).obs_filter
            torch.testing.assert_close(ours(obs), target(obs))
            assert not torch.equal(target(obs), before)


def test_td3_steps_change_the_encoder_only_through_the_critics():
    ac = networks("td3")
    ac_targ, encoder = target_copy(ac), ac.q1.obs_filter
    pi_optimizer = Adam(ac.pi.parameters(), lr=0.01)
    q_optimizer = Adam(nn.ModuleList([ac.q1, ac.q2]).parameters(), lr=0.0)
    batch = {"obs": some(MINATAR), "obs2": some(MINATAR, seed=1), "act": torch.zeros(3, 1)}
    batch |= {"rew": torch.ones(3), "done": torch.zeros(3)}
    limits = (torch.tensor([-1.0]), torch.tensor([1.0]))
    before = [p.clone() for p in ac.parameters()], [p.clone() for p in encoder.parameters()]
    td3_update(ac, ac_targ, pi_optimizer, q_optimizer, batch, limits)
    assert all(map(torch.equal, encoder.parameters(), before[1]))  # its learning rate is zero
    assert not all(map(torch.equal, ac.parameters(), before[0]))


# ---- the saved policy ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "algo, env, ac_kwargs", [*((*pair, {}) for pair in EVERY), ("ppo", DISCRETE, SHARED)]
)
def test_a_saved_policy_loads_and_acts_on_images(train, algo, env, ac_kwargs):
    run = train(algo, env, ac_kwargs=ac_kwargs, num_test_episodes=0)
    made, get_action = load_policy_and_env(run.dir, deterministic=True)
    own = make_get_action(run.ac, deterministic=True)
    acts = []
    for seed in range(10):
        o, _ = made.reset(seed=seed)
        acts.append((get_action(o), own(o)))
        made.step(acts[-1][0])
    np.testing.assert_allclose(*zip(*acts, strict=True), rtol=1e-5, atol=1e-6)


def test_a_saved_policy_names_its_encoder_and_needs_a_users_own(train):
    run = train("dqn", DISCRETE, ac_kwargs={"encoder": "flat", "hidden_sizes": (8,)})
    meta = json.loads((run.dir / "pyt_save" / "policy.json").read_text())
    assert meta["ac_kwargs"] == {"encoder": "flat", "hidden_sizes": [8]}
    load_policy_and_env(run.dir)
    run = train("dqn", DISCRETE, ac_kwargs={"encoder": Mean})
    with pytest.raises(SpinupError, match="encoder"):
        load_policy_and_env(run.dir)
    own = functools.partial(MLPQNetwork, encoder=Mean)
    env, get_action = load_policy_and_env(run.dir, actor_critic=own)
    assert get_action(env.reset(seed=0)[0]) in (0, 1)


def test_an_environment_with_other_bytes_is_not_the_one_the_policy_knows(train):
    run = train("dqn", DISCRETE, ac_kwargs={})

    class Floats(type(make_env(DISCRETE).unwrapped)):
        def __init__(self):
            super().__init__()
            self.observation_space = spaces.Box(0.0, 1.0, (10, 10, 4))

    with pytest.raises(SpinupError, match="trained with the observation space"):
        load_policy_and_env(run.dir, env=Floats)


# ---- threads ------------------------------------------------------------------------------------


@pytest.mark.parametrize("cores, threads", [(3, 1), (4, 2)])
@pytest.mark.parametrize(
    "algo, rows",
    [
        ("dqn", {"batch_size": 16, "update_after": 1000}),  # a second thread is slow here
        ("ppo", {"minibatch_size": 16, "train_pi_iters": 0, "train_v_iters": 0}),
        ("vpg", {"train_v_iters": 0}),
    ],
)
def test_convolutions_count_for_a_second_thread(train, monkeypatch, algo, rows, cores, threads):
    monkeypatch.setattr(torch_run, "_cores", lambda: cores)
    # the largest layer has 16 x 8 x 8 outputs, so 16 rows are just enough
    run = train(algo, DISCRETE, ac_kwargs={}, num_threads=None, num_test_episodes=0, **rows)
    assert json.loads((run.dir / "config.json").read_text())["num_threads"] == threads

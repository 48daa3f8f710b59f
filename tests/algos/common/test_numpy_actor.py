"""The NumPy policy that a description and arrays define: like the torch networks, bit for bit."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from spinup import SpinupError
from spinup.algos.common.numpy_actor import ACTIVATIONS, KINDS, NumpyActor
from spinup.algos.pytorch.common import nets, qnets
from spinup.algos.pytorch.common.acting import NetPolicy
from spinup.algos.pytorch.common.layers import make_obs_filter

OBS = spaces.Box(-1, 1, (3,))
LOW, HIGH = np.float32([-1, 0]), np.float32([2, 6])
BOX = spaces.Box(LOW, HIGH)


def linear_layers(net, arrays, prefix="layer"):
    """Add the layers of a torch network to `arrays`; return their entries of a description."""
    linears = [m for m in net if isinstance(m, nn.Linear)]
    entries = []
    for i, linear in enumerate(linears):
        w, b = f"{prefix}{i}/w", f"{prefix}{i}/b"
        arrays[w] = np.ascontiguousarray(linear.weight.detach().numpy().T)
        arrays[b] = linear.bias.detach().numpy()
        entries.append([w, b, "tanh" if i < len(linears) - 1 else "identity"])
    return entries


def torch_twin(kind):
    """A torch actor, and the description and arrays of the same policy."""
    torch.manual_seed(0)
    args, arrays = ((8, 8), nets.Tanh), {}
    if kind in ("squashed_gaussian", "deterministic"):
        cls = {"deterministic": qnets.MLPActor}.get(kind, qnets.SquashedGaussianMLPActor)
        actor = cls(3, 2, *args, *qnets.bounds(BOX))
    else:
        space = {
            "categorical": spaces.Discrete(4),
            "multicategorical": spaces.MultiDiscrete([2, 3]),
            "bernoulli": spaces.MultiBinary(3),
            "gaussian": BOX,
        }[kind]
        actor = nets.make_actor(OBS, space, *args, make_obs_filter(OBS, kind == "bernoulli"))
    description = {"kind": kind}
    if kind == "squashed_gaussian":
        layers = linear_layers(actor.net, arrays)
        layers[-1][2] = "tanh"
        for name in ("mu_layer", "log_std_layer"):
            description[name] = linear_layers([getattr(actor, name)], arrays, name)[0][:2]
        description["limits"] = [qnets.LOG_STD_MIN, qnets.LOG_STD_MAX]
    else:
        net = next(x for n in ("pi", "mu_net", "logits_net") if (x := getattr(actor, n, None)))
        layers = linear_layers(net, arrays)
    description["layers"] = layers
    if kind in ("squashed_gaussian", "deterministic"):
        arrays["scale"], arrays["center"] = actor.act_limit.numpy(), actor.act_center.numpy()
        description.update(scale="scale", center="center")
    if kind == "gaussian":
        arrays["log_std"] = actor.log_std.detach().numpy()
        description["log_std"] = "log_std"
    if kind == "multicategorical":
        description["nvec"] = [2, 3]
    if kind == "bernoulli":  # the one with normalized observations
        actor.obs_filter.update(actor.obs_filter.batch_sums(torch.randn(50, 3) * 3 + 1))
        arrays["mean"], arrays["std"] = actor.obs_filter.mean.numpy(), actor.obs_filter.std.numpy()
        description.update(obs_mean="mean", obs_std="std", obs_clip=actor.obs_filter.clip)
    return actor, description, arrays


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 5])
def test_it_acts_like_the_torch_network_bit_for_bit(kind, n):
    actor, description, arrays = torch_twin(kind)
    ours, twin = NumpyActor(description, arrays), NetPolicy(actor)
    obs = 20 * np.random.default_rng(1).normal(size=(n, 3)).astype(np.float32)
    out = ours(obs)
    if kind != "deterministic":  # the torch network computes its tanh as a layer
        np.testing.assert_array_equal(out, twin.net(obs))
    np.testing.assert_array_equal(ours.mode(out), twin.mode(twin.net(obs)))
    drawn = [p.sample(x, np.random.default_rng(2)) for p, x in ((ours, out), (twin, twin.net(obs)))]
    np.testing.assert_array_equal(*drawn)
    assert drawn[0].dtype == drawn[1].dtype and len(drawn[0]) == n
    assert ours.obs_dim == 3 and ours.kind == kind


@pytest.mark.parametrize("name", sorted(set(ACTIVATIONS) - {"identity", "swish"}))
def test_activations_are_those_of_their_names(name):
    modules = {m.__name__.lower(): m for m in vars(nn).values() if isinstance(m, type)}
    module = modules[name]()
    x = np.linspace(-100, 100, 2001, dtype=np.float32).reshape(3, -1)
    expected = module.double()(torch.as_tensor(x, dtype=torch.float64)).numpy()
    found = ACTIVATIONS[name](x.copy())
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6)


def test_observations_without_a_limit_are_not_clipped():
    _, description, arrays = torch_twin("bernoulli")
    description["layers"] = [["layer0/w", "layer0/b", "identity"]]
    obs = np.full((1, 3), 1e6, np.float32)
    limited = NumpyActor(description, arrays)(obs)
    free = NumpyActor({**description, "obs_clip": None}, arrays)(obs)
    assert np.abs(limited).max() < 100 < np.abs(free).max()


def broken(kind, changes):
    description, arrays = torch_twin(kind)[1:]
    for name, value in changes.items():
        if isinstance(value, np.ndarray):
            arrays[name] = value
        else:
            description[name] = value
    return description, arrays


@pytest.mark.parametrize(
    ("kind", "changes", "mentions"),
    [
        ("gaussian", {"kind": "wavelet"}, "'wavelet'"),
        ("gaussian", {"kind": ["gaussian"]}, "kind"),
        ("gaussian", {"kind": None}, "None"),
        ("gaussian", {"layers": None}, "layers"),
        ("gaussian", {"layers": []}, "layers"),
        ("gaussian", {"layers": [["layer0/w", "layer0/b", "tanh"]] * 1000}, "layers"),
        ("categorical", {"layers": [["layer0/w", "layer0/b", "tanh"]] * 2}, "do not fit"),
        ("gaussian", {"layers": [["layer0/w", "layer0/b"]]}, "not .weight, bias, activation"),
        ("gaussian", {"layers": ["layer0/w"]}, "not .weight, bias, activation"),
        ("gaussian", {"layers": [["layer0/w", "layer0/b", "exec"]]}, "'exec'"),
        ("gaussian", {"layers": [["layer0/w", "layer0/b", 3]]}, "activation 3"),
        ("gaussian", {"layers": [["missing", "layer0/b", "tanh"]]}, "'missing'"),
        ("gaussian", {"layers": [[{}, "layer0/b", "tanh"]]}, "{}"),
        ("gaussian", {"layer0/w": np.zeros((3, 8))}, "float64"),
        ("gaussian", {"layer0/w": np.zeros((3, 0), np.float32)}, "layer0/w"),
        ("gaussian", {"layer0/w": np.zeros(3, np.float32)}, "layer0/w"),
        ("gaussian", {"layer0/b": np.zeros(7, np.float32)}, "7 numbers instead of 8"),
        ("gaussian", {"log_std": "missing"}, "'missing'"),
        ("multicategorical", {"nvec": [10**12, 5]}, "nvec"),
        ("multicategorical", {"nvec": [2, 2]}, "5 logits"),
        ("multicategorical", {"nvec": [True, 4]}, "nvec"),
        ("multicategorical", {"nvec": [6, -1]}, "nvec"),
        ("multicategorical", {"nvec": 5}, "nvec"),
        ("squashed_gaussian", {"mu_layer": None}, "None"),
        ("squashed_gaussian", {"mu_layer": ["layer0/w", "layer0/b"]}, "different shapes"),
        ("squashed_gaussian", {"limits": [1]}, "two numbers"),
        ("squashed_gaussian", {"limits": [1, "2"]}, "'2'"),
        ("squashed_gaussian", {"limits": [-float("inf"), 10**400]}, "inf"),
        ("squashed_gaussian", {"scale": np.zeros(5, np.float32)}, "5 numbers instead of 2"),
        ("deterministic", {"center": None}, "center|None"),
        ("bernoulli", {"obs_mean": "layer0/b"}, "8 numbers instead of 3"),
        ("bernoulli", {"obs_clip": "ten"}, "'ten'"),
        ("bernoulli", {"obs_clip": float("nan")}, "nan"),
    ],
)
def test_a_forged_description_is_one_sentence(kind, changes, mentions):
    with pytest.raises(SpinupError, match=mentions) as caught:
        NumpyActor(*broken(kind, changes))
    assert len(str(caught.value)) < 400 and "\n" not in str(caught.value)


def test_the_tanh_of_a_deterministic_policy_is_not_applied_twice():
    _, description, arrays = torch_twin("deterministic")
    description["layers"][-1][2] = "tanh"
    with pytest.raises(SpinupError, match="implied"):
        NumpyActor(description, arrays)


@pytest.mark.parametrize("description", [None, [], "x", 3])
def test_a_description_is_a_dict(description):
    with pytest.raises(SpinupError, match="not a dict"):
        NumpyActor(description, {})

"""What the TensorFlow exercises are judged by: numbers, not training runs.

A check builds the answer and the right one in the same graph, feeds both the same arrays, and
raises `Wrong` at the first difference.
"""

from functools import wraps

import gymnasium
import numpy as np

from spinup.algos.tf1.common.networks import Networks
from spinup.algos.tf1.td3 import core
from spinup.algos.tf1.td3 import td3 as library
from spinup.exercises import common
from spinup.exercises.common import MANY, RIGHT, Wrong, expect, written
from spinup.exercises.tf1.problem_set_1_solutions import exercise1_1_soln
from spinup.utils.tf import tf


def in_a_graph(check):
    """Give a check a graph and a session of its own, with a fixed seed."""

    @wraps(check)
    def wrapper(*args):
        with tf.Graph().as_default(), tf.Session().as_default():
            tf.set_random_seed(0)
            check(*args)

    return wrapper


def run(tensors, feed=None):
    return tf.get_default_session().run(tensors, feed)


def initialize():
    run(tf.global_variables_initializer())


class SameGradients:
    """Compares the gradients of two scalars with respect to named tensors."""

    def __init__(self, expected, got, variables):
        self.names, self.both = list(variables), []
        for scalar in (expected, got):
            tensors = list(variables.values())
            pairs = zip(tensors, tf.gradients(scalar, tensors), strict=True)
            self.both.append([tf.zeros_like(t) if g is None else g for t, g in pairs])

    def expect(self, what, feed):
        """Raise `Wrong` unless they are the same for these inputs."""
        for name, right, found in zip(self.names, *run(self.both, feed), strict=True):
            expect(f"the gradient of {what} with respect to {name}", right, found)


def require_tensor(x, what):
    if not isinstance(written(x, what), tf.Tensor):
        raise Wrong(f"{what} should return tensors, not {type(x).__name__}")
    return x


# ------------------------------------------------------------------------------------------- 1.1


@in_a_graph
def check_gaussian_likelihood(answer):
    """Both shapes of log_std, single rows and dimensions, narrow and wide Gaussians, gradients."""
    rng = np.random.default_rng(0)
    for batch, dim, shape in [(1, 1, "dim"), (4, 3, "dim"), (32, 10, "dim"), (32, 10, "batch")]:
        rows = (dim,) if shape == "dim" else (None, dim)
        shapes = {"x": (None, dim), "mu": (None, dim), "log_std": rows}
        given = {name: tf.placeholder(tf.float32, s) for name, s in shapes.items()}
        log_std = rng.uniform(-2, 1, (dim,) if shape == "dim" else (batch, dim))
        arrays = [rng.normal(size=(batch, dim)), rng.normal(size=(batch, dim)), log_std]
        feed = dict(zip(given.values(), arrays, strict=True))
        got = require_tensor(answer(*given.values()), "gaussian_likelihood")
        right = exercise1_1_soln.gaussian_likelihood(*given.values())
        case = f"with x of shape [{batch}, {dim}] and log_std of shape {list(log_std.shape)}, "
        expect(f"{case}the result", *run([right, got], feed))
        sums = tf.reduce_sum(right), tf.reduce_sum(got)
        SameGradients(*sums, given).expect(f"{case}the sum of the result", feed)


# ------------------------------------------------------------------------------------------- 1.2


@in_a_graph
def check_mlp(mlp):
    """The layers, their sizes, and the activations between and after them."""
    cases = [(3, [2], tf.tanh, None), (3, [8, 2], tf.nn.relu, None), (4, (8, 6, 1), tf.tanh, abs)]
    for inputs, sizes, activation, last in cases:
        call = f"mlp(x, {sizes}), with x of shape [batch, {inputs}],"
        x = tf.placeholder(tf.float32, (None, inputs))
        before = len(tf.trainable_variables())
        out = require_tensor(mlp(x, sizes, activation, last), "mlp")
        variables = tf.trainable_variables()[before:]
        kernels = [v for v in variables if len(v.shape) == 2]
        biases = [v for v in variables if len(v.shape) == 1]
        found = [tuple(v.shape.as_list()) for v in kernels]
        right = list(zip([inputs, *sizes[:-1]], sizes, strict=True))
        if found != right or [v.shape.as_list() for v in biases] != [[n] for n in sizes]:
            raise Wrong(f"{call} should have weights of the shapes {right} and a bias per layer")
        expected = x
        for i, (w, b) in enumerate(zip(kernels, biases, strict=True)):
            expected = tf.matmul(expected, w) + b
            expected = activation(expected) if i < len(sizes) - 1 else expected
        expected = last(expected) if last else expected
        initialize()
        for i, v in enumerate(biases):  # they often start at zero, where a missing one is hidden
            run(v.assign(tf.fill(v.shape, 0.1 * (i + 1))))
        feed = {x: 3 * np.random.default_rng(0).normal(size=(16, inputs))}
        expect(f"the output of {call}", *run([expected, out], feed))


@in_a_graph
def check_policy(policy):
    """The variable of log-deviations, the samples, and the log-likelihoods."""
    x, a = (tf.placeholder(tf.float32, (None, n)) for n in (3, 2))
    space = gymnasium.spaces.Box(-1, 1, (2,))
    results = written(policy(x, a, (8,), tf.tanh, None, space), "mlp_gaussian_policy")
    if len(results) != 3:
        raise Wrong("mlp_gaussian_policy should return pi, logp and logp_pi")
    for tensor in results:
        require_tensor(tensor, "mlp_gaussian_policy")
    pi, logp, logp_pi = results
    initialize()
    values = {v.name: run(v) for v in tf.trainable_variables()}
    width = [k for k, v in values.items() if v.shape == (2,) and np.allclose(v, -0.5)]
    if len(width) != 1:
        raise Wrong("log_std should be a trainable variable of shape [2] with the values -0.5")
    std = np.exp(-0.5) * np.ones(2)

    rows = np.tile([[0.5, -1.0, 2.0]], (MANY, 1))  # one observation, many samples
    samples, logp_pi = run([pi, logp_pi], {x: rows})
    if samples.shape != (MANY, 2):
        raise Wrong(f"pi should have the shape {[MANY, 2]}, not {list(samples.shape)}")
    feed = {x: rows, a: samples}
    found, slope = run([logp, tf.gradients(logp, a)[0]], feed)
    mu = (samples + std**2 * slope).mean(0)  # the slope of log p at a is (mu - a) / std^2
    common.expect_samples("pi", samples, mu, std)
    right = (-0.5 * ((samples - mu) / std) ** 2 + 0.5 - 0.5 * np.log(2 * np.pi)).sum(1)
    expect("logp, from exercise 1.1,", right, found, tolerance=1e-3)
    expect("logp_pi", found, logp_pi, tolerance=1e-3)
    (log_std,) = (v for v in tf.trainable_variables() if v.name == width[0])
    slope = tf.gradients(tf.reduce_mean(logp), log_std)[0]
    if slope is None:
        raise Wrong("logp has no gradient with respect to log_std")
    feed[a] = samples + 1  # away from the maximum, where the gradient is zero
    right = (((samples + 1 - mu) / std) ** 2 - 1).mean(0)
    what = "the gradient of the mean of logp with respect to log_std"
    expect(what, right, run(slope, feed), tolerance=1e-2)


def exercise1_2(mlp, policy):
    """Judge exercise 1.2 and, with `--train`, train the policy; return the exit code."""
    args = common.train_arguments("Exercise 1.2: a Gaussian policy for PPO.")
    use_answer_if_unwritten()
    verdict = common.judge(lambda: check_mlp(mlp), lambda: check_policy(policy))
    if args.train and verdict == RIGHT:
        from spinup.algos.tf1.ppo.ppo import ppo

        own = {"policy": policy, "hidden_sizes": (64,)}
        common.demonstrate(ppo, args.env, args.epochs, ac_kwargs=own)
    return verdict


def use_answer_if_unwritten():
    """If `gaussian_likelihood` of exercise 1.1 is still the stub, let 1.2 use its answer."""
    from spinup.exercises.tf1.problem_set_1 import exercise1_1

    with tf.Graph().as_default():
        zeros = tf.zeros((2, 1))
        found = exercise1_1.gaussian_likelihood(zeros, zeros, zeros[0])
    if found is None or found.shape.rank == 0:
        print("gaussian_likelihood of exercise 1.1 is still to be written; using its answer.")
        exercise1_1.gaussian_likelihood = exercise1_1_soln.gaussian_likelihood


# ------------------------------------------------------------------------------------------- 1.3

GAMMA, NO_NOISE = 0.9, (0.0, 0.5)
LIMITS = (-np.ones(2, np.float32), np.ones(2, np.float32))


class _Watched(Networks):
    """Target networks whose policy always returns `a2`, and whose critics remember the action."""

    a2, seen = 0.0, None

    def pi(self, obs):
        return self.a2 * tf.ones((tf.shape(obs)[0], 2))

    def __call__(self, obs, act):
        self.seen = act
        return super().__call__(obs, act)


def _td3_case():
    """Return networks, watched target networks and placeholders; actions are in [-1, 1]."""
    kwargs = {"hidden_sizes": (16,), "action_space": gymnasium.spaces.Box(-1, 1, (2,))}
    batch = {name: tf.placeholder(tf.float32, (None,)) for name in ("rew", "done")}
    batch |= {k: tf.placeholder(tf.float32, (None, n)) for k, n in [("obs", 3), ("obs2", 3)]}
    batch["act"] = tf.placeholder(tf.float32, (None, 2))
    given = kwargs, batch["obs"], batch["act"], ("pi", "q1", "q2", "q1_pi")
    ac, targ, watched = (
        cls(core.mlp_actor_critic, given[0], scope, *given[1:])
        for cls, scope in ((Networks, "main"), (Networks, "target"), (_Watched, "target"))
    )
    return ac, targ, watched, batch


def _arrays(batch, rows, done):
    rng = np.random.default_rng(0)
    arrays = {name: rng.normal(size=(rows, 3)) for name in ("obs", "obs2")}
    arrays |= {"act": rng.uniform(-1, 1, (rows, 2)), "rew": rng.normal(size=rows)}
    return {batch[k]: v for k, v in {**arrays, "done": np.resize(done, rows)}.items()}


@in_a_graph
def check_td3_loss_q(answer):
    """Values and gradients without noise, then the noise on the target action by itself."""
    ac, targ, watched, batch = _td3_case()
    initialize()
    # shift the second target critic, so that sometimes it has the lower value, sometimes the first
    q1, q2 = run(targ.twin_q(batch["obs2"], targ.pi(batch["obs2"])), _arrays(batch, 24, [0]))
    run(targ.vars("q2")[-1].assign_add([np.median(q1 - q2)]))
    right, info = library.compute_loss_q(ac, targ, batch, GAMMA, *NO_NOISE, LIMITS)
    found = written(answer(ac, targ, batch, GAMMA, *NO_NOISE, LIMITS), "compute_loss_q")
    require_tensor(found[0], "compute_loss_q")
    for kind, done in {"terminal": [1], "not terminal": [0], "of both kinds": [1, 0, 0]}.items():
        feed = _arrays(batch, 24, done)
        what = f"without noise, loss_q of transitions that are {kind}"
        expect(what, *run([right, found[0]], feed))
    SameGradients(right, found[0], {v.name: v for v in (*ac.vars(), *targ.vars())}).expect(
        "loss_q", feed
    )
    for key in ("Q1Vals", "Q2Vals"):
        if key not in found[1]:
            raise Wrong(f"the info of compute_loss_q lacks {key}")
        expect(key, *run([info[key], found[1][key]], feed))

    feed = _arrays(batch, MANY, [0])
    for target_noise, noise_clip, a2 in [(0.2, 0.5, 0.0), (0.4, 0.3, 0.0), (0.2, 0.5, 0.9)]:
        watched.a2, watched.seen = a2, None
        answer(ac, watched, batch, GAMMA, target_noise, noise_clip, LIMITS)
        if watched.seen is None:
            raise Wrong("the target should use the target critics, ac_targ.twin_q")
        noise = run(watched.seen, feed) - a2
        what = f"the noise with target_noise {target_noise} and noise_clip {noise_clip}"
        if np.abs(noise).max() > noise_clip + 1e-5:
            raise Wrong(f"{what} reaches {np.abs(noise).max():.3f}: it should be clipped")
        if noise.max() + a2 > 1 + 1e-5:
            raise Wrong(f"the noisy target action reaches {noise.max() + a2:.3f}, beyond 1")
        if a2 == 0.0:
            std = common.clipped_std(target_noise, noise_clip)
            common.expect_samples(what, noise, [0, 0], [std, std])


@in_a_graph
def check_td3_loss_pi(answer):
    """The value of the loss, and its gradients."""
    ac, _, _, batch = _td3_case()
    initialize()
    right = library.compute_loss_pi(ac, batch)
    found = require_tensor(answer(ac, batch), "compute_loss_pi")
    feed = _arrays(batch, 24, [0])
    expect("loss_pi", *run([right, found], feed))
    SameGradients(right, found, {v.name: v for v in ac.vars("pi")}).expect("loss_pi", feed)

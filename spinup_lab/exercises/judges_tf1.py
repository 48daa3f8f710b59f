"""The checks of the original's exercises in TensorFlow; `judges_common.py` says what is compared.

A check builds the answer and the right one in the same graph, and feeds both the same arrays.
"""

from functools import partial, wraps

import gymnasium
import numpy as np

from spinup.algos.tf1.common.networks import Networks
from spinup.algos.tf1.ppo import ppo as ppo_module
from spinup.algos.tf1.td3 import core
from spinup.algos.tf1.td3 import td3 as library
from spinup.exercises.tf1.problem_set_1_solutions import exercise1_1_soln
from spinup.utils.tf import tf
from spinup_lab.exercises import judges_common as common
from spinup_lab.exercises.judges_common import GAMMA, MANY, Wrong, expect, written

ACTIVATIONS = {"": None, "tanh": tf.tanh, "relu": tf.nn.relu}


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


def evaluated(x, feed, parameters):
    """Return a tensor's value, and how to compute its gradients by named tensors."""

    def slopes():
        tensors = list(parameters.values())
        found = zip(tensors, tf.gradients(tf.reduce_sum(x), tensors), strict=True)
        found = run([tf.zeros_like(t) if g is None else g for t, g in found], feed)
        return dict(zip(parameters, found, strict=True))

    return run(x, feed), slopes


def require_tensor(x, what):
    if not isinstance(written(x, what), tf.Tensor):
        raise Wrong(f"{what} should return tensors, not {type(x).__name__}")
    return x


# ------------------------------------------------------------------------------------------- 1.1


@in_a_graph
def check_gaussian_likelihood(answer):
    """Both shapes of log_std, single rows and dimensions, narrow and wide Gaussians, gradients."""

    def evaluate(function, arrays, what):
        shapes = {k: (None, *x.shape[1:]) if x.ndim == 2 else x.shape for k, x in arrays.items()}
        given = {name: tf.placeholder(tf.float32, shape) for name, shape in shapes.items()}
        feed = {given[name]: x for name, x in arrays.items()}
        found = require_tensor(function(*given.values()), "gaussian_likelihood")
        return evaluated(found, feed, given)

    common.check_gaussian_likelihood(evaluate, exercise1_1_soln.gaussian_likelihood, answer)


def exercise1_1(gaussian_likelihood):
    """Judge exercise 1.1; return the exit code."""
    return common.judge(lambda: check_gaussian_likelihood(gaussian_likelihood))


# ------------------------------------------------------------------------------------------- 1.2


@in_a_graph
def check_mlp(mlp):
    """The layers, their sizes, and the activations between and after them."""

    def build(sizes, inner, last):
        inputs, hidden = sizes[0], sizes[1:]
        x = tf.placeholder(tf.float32, (None, inputs))
        before = len(tf.trainable_variables())
        out = require_tensor(mlp(x, hidden, ACTIVATIONS[inner], ACTIVATIONS[last]), "mlp")
        variables = tf.trainable_variables()[before:]
        kernels, biases = ([v for v in variables if len(v.shape) == n] for n in (2, 1))
        initialize()
        for i, v in enumerate(biases):  # they often start at zero, where a missing one is hidden
            run(v.assign(tf.fill(v.shape, 0.1 * (i + 1))))
        call = f"mlp(x, {hidden}), with x of shape [batch, {inputs}],"
        return call, run(kernels), run(biases), lambda given: run(out, {x: given})

    common.check_mlp(build)


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
    own = {"policy": policy, "hidden_sizes": (64,)}
    use_answer_if_unwritten()
    checks = [partial(check_mlp, mlp), partial(check_policy, policy)]
    return common.exercise1_2(checks, partial(ppo_module.ppo, ac_kwargs=own))


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
    initialize()
    return ac, targ, watched, batch


def _arrays(batch, rows, done=(1, 0, 0)):
    rng = np.random.default_rng(0)
    arrays = {name: rng.normal(size=(rows, 3)) for name in ("obs", "obs2")}
    arrays |= {"act": rng.uniform(-1, 1, (rows, 2)), "rew": rng.normal(size=rows)}
    return {batch[k]: v for k, v in {**arrays, "done": np.resize(done, rows)}.items()}


@in_a_graph
def check_td3_loss_q(answer):
    """Values and gradients without noise, then the noise on the target action by itself."""
    ac, targ, watched, batch = _td3_case()
    # shift the second target critic, so that sometimes it has the lower value, sometimes the first
    q1, q2 = run(targ.twin_q(batch["obs2"], targ.pi(batch["obs2"])), _arrays(batch, 24))
    run(targ.vars("q2")[-1].assign_add([np.median(q1 - q2)]))
    named = {v.name: v for v in (*ac.vars(), *targ.vars())}

    def evaluate(function, done):
        feed = _arrays(batch, 24, done)
        found = written(function(ac, targ, batch, GAMMA, 0.0, 0.5, LIMITS), "compute_loss_q")
        loss_q = require_tensor(found[0], "compute_loss_q")
        return evaluated(loss_q, feed, named), run(found[1], feed)

    def noise(answer, target_noise, noise_clip, a2):
        watched.a2, watched.seen = a2, None
        answer(ac, watched, batch, GAMMA, target_noise, noise_clip, LIMITS)
        if watched.seen is None:
            raise Wrong("the target should use the target critics, ac_targ.twin_q")
        return run(watched.seen, _arrays(batch, MANY)) - a2

    common.check_td3_loss_q(evaluate, noise, library.compute_loss_q, answer)


@in_a_graph
def check_td3_loss_pi(answer):
    """The value of the loss, and its gradients."""
    ac, _, _, batch = _td3_case()
    named = {v.name: v for v in ac.vars("pi")}
    right, found = (
        evaluated(require_tensor(f(ac, batch), "compute_loss_pi"), _arrays(batch, 24), named)
        for f in (library.compute_loss_pi, answer)
    )
    common.expect_same("loss_pi", right, found)


def exercise1_3(compute_loss_q, compute_loss_pi):
    """Judge exercise 1.3; return the exit code."""
    return common.judge(
        lambda: check_td3_loss_q(compute_loss_q), lambda: check_td3_loss_pi(compute_loss_pi)
    )

"""What the original's exercises are judged by, in either backend: numbers, not training runs.

A check compares an answer with the right one, from simple cases to difficult ones, and raises
`Wrong` at the first difference. `judges_pytorch.py` and `judges_tf1.py` evaluate both for it: they
return arrays, and a function that computes gradients once the arrays agree.
"""

import argparse
import importlib.util
import itertools
import json
import math
import os
import tempfile
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from spinup.cli.presets import FOLDER
from spinup.exercises.common import RIGHT, WRONG, print_result
from spinup.utils.errors import one_line

MANY = 40_000  # samples from which means and standard deviations are estimated
ERRORS = 5  # how many standard errors an estimate may be off
GAMMA = 0.9

Arrays = dict[str, Any]
Evaluated = tuple[Any, Callable[[], Arrays]]  # a result, and the gradients of its sum by name


class Wrong(Exception):
    """The answer is wrong; the message says how it differs from the right one."""


def judge(*checks: Callable[[], Any]) -> int:
    """Call the checks in order, print the first fault and the verdict, and return the exit code.

    A check is a function without arguments that raises `Wrong`, or whatever the answer raises.
    """
    fault = next(filter(None, map(_fault, checks)), "")
    if fault:
        print(fault)
    print_result(not fault)
    return WRONG if fault else RIGHT


def _fault(check: Callable[[], Any]) -> str:
    try:
        check()
    except Wrong as wrong:
        return str(wrong)
    except NotImplementedError as error:  # an unfilled function
        return str(error) or "a function is still to be written"
    except Exception as error:  # raised by the answer: say where
        place = traceback.extract_tb(error.__traceback__)[-1]
        name = f"{os.path.basename(place.filename)}, line {place.lineno}"
        return f"the answer raised {type(error).__name__} ({name}): {one_line(error)}"
    return ""


# ---- comparing


def written(value: Any, name: str) -> Any:
    """Return what a function returned, or raise `Wrong` if it is None."""
    if value is None:
        raise Wrong(f"{name} is still to be written: it returned None")
    return value


def expect(what: str, expected: Any, got: Any, tolerance: float = 1e-4) -> None:
    """Raise `Wrong` unless the array `got` has the shape and the values of `expected`."""
    if got.shape != expected.shape:
        raise Wrong(f"{what} should have the shape {list(expected.shape)}, not {list(got.shape)}")
    expected, got = np.float64(expected), np.float64(got)
    for index in np.argwhere(~np.isclose(got, expected, rtol=tolerance, atol=tolerance)).tolist():
        place = f" at {index}" if index else ""
        right, found = expected[tuple(index)], got[tuple(index)]
        raise Wrong(f"{what}{place}: expected {right:.6g}, got {found:.6g}")


def expect_same(what: str, expected: Evaluated, got: Evaluated) -> None:
    """Raise `Wrong` unless two results have the same values and the same gradients."""
    expect(what, expected[0], got[0])
    slopes, found = expected[1](), got[1]()
    for name, right in slopes.items():
        expect(f"{what}: the gradient of its sum with respect to {name}", right, found[name])


def expect_samples(what: str, samples: Any, mean: Any, std: Any) -> None:
    """Raise `Wrong` unless independent samples, [many, dim], have these means and deviations."""
    samples = np.float64(samples)
    many = len(samples)
    error = np.divide(std, math.sqrt(many))
    for statistic, right, found in (
        ("mean", mean, samples.mean(0)),
        ("standard deviation", std, samples.std(0)),
    ):
        for i in np.flatnonzero(np.abs(found - right) > ERRORS * error):
            raise Wrong(f"the {statistic} of {what}: expected {right[i]:.3f}, got {found[i]:.3f}")
    correlation = np.corrcoef(samples.T)[0, 1]
    if abs(correlation) > ERRORS / math.sqrt(many):
        raise Wrong(
            f"the dimensions of {what} are correlated ({correlation:.2f}): each needs noise of "
            "its own"
        )


def clipped_std(std: float, clip: float) -> float:
    """Return the standard deviation of Gaussian noise that is clipped to [-clip, clip]."""
    c = clip / std
    inside = math.erf(c / math.sqrt(2))  # the probability of not being clipped
    density = math.exp(-(c**2) / 2) / math.sqrt(2 * math.pi)
    return std * math.sqrt(inside - 2 * c * density + c**2 * (1 - inside))


# ---- the exercises


def check_gaussian_likelihood(evaluate: Callable[..., Evaluated], right: Any, answer: Any) -> None:
    """Both shapes of log_std, single rows and dimensions, narrow and wide Gaussians, gradients."""
    rng = np.random.default_rng(0)
    for batch, dim, shape in [(1, 1, "dim"), (4, 3, "dim"), (32, 10, "dim"), (32, 10, "batch")]:
        given = {name: rng.normal(size=(batch, dim)) for name in ("x", "mu")}
        given["log_std"] = rng.uniform(-2, 1, (dim,) if shape == "dim" else (batch, dim))
        case = f"x of shape [{batch}, {dim}] and log_std of shape {list(given['log_std'].shape)}"
        what = f"with {case}, the result"
        expect_same(what, evaluate(right, given, what), evaluate(answer, given, what))


_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "": lambda x: x,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
}


def check_mlp(build: Callable[..., Any]) -> None:
    """The layers, their sizes, and the activations between and after them.

    `build(sizes, activation, last)` returns the call in words, the weights and biases of the
    layers, and a function from an input to the network's output.
    """
    x = 3 * np.random.default_rng(0).normal(size=(16, 4))
    for sizes, inner, last in [
        ([3, 2], "tanh", ""),
        ([3, 8, 2], "relu", ""),
        ([4, 8, 6, 1], "tanh", "relu"),
    ]:
        call, kernels, biases, output = build(sizes, inner, last)
        found, right = [w.shape for w in kernels], list(itertools.pairwise(sizes))
        if found != right or [b.shape for b in biases] != [(n,) for n in sizes[1:]]:
            raise Wrong(
                f"{call} should have linear layers of the sizes {right}, each with a bias, not "
                f"{found}"
            )
        expected = given = x[:, : sizes[0]]
        for i, (w, b) in enumerate(zip(kernels, biases, strict=True)):
            activation = inner if i < len(kernels) - 1 else last
            expected = _ACTIVATIONS[activation](expected @ w + b)
        expect(f"the output of {call}", expected, output(given))


def check_td3_loss_q(
    evaluate: Callable[..., tuple[Evaluated, Arrays]],
    noise: Callable[..., Any],
    right: Any,
    answer: Any,
) -> None:
    """Values and gradients without noise, then the noise on the target action by itself.

    `noise(answer, target_noise, noise_clip, a2)` is that on the target action, where the target
    policy's action is always `a2`; actions are in [-1, 1].
    """
    for kind, done in {"terminal": [1], "not terminal": [0], "of both kinds": [1, 0, 0]}.items():
        (expected, infos), (got, info) = evaluate(right, done), evaluate(answer, done)
        expect_same(f"without noise, loss_q of transitions that are {kind}", expected, got)
    for key in ("Q1Vals", "Q2Vals"):
        if key not in info:
            raise Wrong(f"the info of compute_loss_q lacks {key}")
        expect(key, infos[key], info[key])
    for target_noise, noise_clip, a2 in [(0.2, 0.5, 0.0), (0.4, 0.3, 0.0), (0.2, 0.5, 0.9)]:
        found = noise(answer, target_noise, noise_clip, a2)
        what = f"the noise with target_noise {target_noise} and noise_clip {noise_clip}"
        if np.abs(found).max() > noise_clip + 1e-5:
            raise Wrong(f"{what} reaches {np.abs(found).max():.3f}: it should be clipped")
        if found.max() + a2 > 1 + 1e-5:
            raise Wrong(f"the noisy target action reaches {found.max() + a2:.3f}, beyond 1")
        if a2 == 0.0:
            expect_samples(what, found, [0, 0], [clipped_std(target_noise, noise_clip)] * 2)


# ---- a training run, as a demonstration


def exercise1_2(checks: list[Callable[[], Any]], ppo: Callable[..., Any]) -> int:
    """Judge exercise 1.2 and, with `--train`, train the policy; return the exit code."""
    parser = argparse.ArgumentParser(description="Exercise 1.2: a Gaussian policy for PPO.")
    parser.add_argument("--train", action="store_true", help="also train the policy with PPO")
    has_mujoco = importlib.util.find_spec("mujoco") is not None
    default = "InvertedPendulum-v5" if has_mujoco else "Pendulum-v1"
    parser.add_argument("--env", default=default, help=f"for --train (default: {default})")
    parser.add_argument("--epochs", type=int, default=50, help="for --train (default: 50)")
    args = parser.parse_args()
    verdict = judge(*checks)
    if args.train and verdict == RIGHT:
        demonstrate(ppo, args.env, args.epochs)
    return verdict


def demonstrate(ppo: Callable[..., Any], env: str, epochs: int) -> None:
    """Train with the hyperparameters of PPO's preset for `env`, and print the returns.

    The run is in the system's folder for temporary files, under `experiments`.
    """
    folder = os.path.join(tempfile.gettempdir(), "experiments", str(int(time.time())))
    preset = FOLDER / f"ppo-{env}.json"
    settings = json.loads(preset.read_text()) if preset.is_file() else {}
    settings.pop("env", None)
    settings.pop("ac_kwargs", None)  # the exercise has its own
    returns: list[float] = []
    ppo(
        env,
        **settings,
        epochs=epochs,
        logger_kwargs={"output_dir": folder},
        on_epoch=lambda row, ac: returns.append(row["AverageEpRet"]),
    )
    print(
        f"Mean return on {env}: {returns[0]:.1f} in the first epoch, {np.mean(returns[-5:]):.1f} "
        f"in the last five. The run is in {folder}."
    )

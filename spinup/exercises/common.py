"""What all exercises share: printing the verdict, and turning it into an exit code.

An exercise exits with 0 if the answer is right, 1 if it is wrong or still to be written, and 2 if
it cannot be judged.
"""

import argparse
import contextlib
import importlib.util
import json
import math
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path
from unittest import mock

import numpy as np

from spinup.utils.errors import SpinupError, one_line

RIGHT, WRONG, CANNOT_JUDGE = 0, 1, 2
MANY = 40_000  # samples from which means and standard deviations are estimated
ERRORS = 5  # how many standard errors an estimate may be off


class Wrong(Exception):
    """The answer is wrong; the message says how it differs from the right one."""


def print_result(correct=False):
    """Print the verdict between two lines; scripts look for "Congratulations"."""
    line = "=" * 50
    verdict = "Your answer appears to be incorrect. Try again!"
    if correct:
        verdict = "Congratulations! Your answer is correct."
    print("\n" * 5 + line + "\n" * 3)
    print(verdict)
    print("\n" * 3 + line)


def judge(*checks):
    """Call the checks in order, print the first fault and the verdict, and return the exit code.

    A check is a function without arguments that raises `Wrong`, or whatever the answer raises.
    """
    fault = ""
    for check in checks:
        fault = _fault(check)
        if fault:
            print(fault)
            break
    print_result(not fault)
    return WRONG if fault else RIGHT


def _fault(check):
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


def written(value, name):
    """Return what a function returned, or raise `Wrong` if it is None."""
    if value is None:
        raise Wrong(f"{name} is still to be written: it returned None")
    return value


def expect(what, expected, got, tolerance=1e-4):
    """Raise `Wrong` unless the array `got` has the shape and the values of `expected`."""
    if got.shape != expected.shape:
        raise Wrong(f"{what} should have the shape {list(expected.shape)}, not {list(got.shape)}")
    expected, got = np.float64(expected), np.float64(got)
    for index in np.argwhere(~np.isclose(got, expected, rtol=tolerance, atol=tolerance)).tolist():
        place = f" at {index}" if index else ""
        right, found = expected[tuple(index)], got[tuple(index)]
        raise Wrong(f"{what}{place}: expected {right:.6g}, got {found:.6g}")


def expect_samples(what, samples, mean, std):
    """Raise `Wrong` unless independent samples, [many, dim], have these means and deviations."""
    samples = np.float64(samples)
    many = len(samples)
    error = np.divide(std, math.sqrt(many))
    found = samples.mean(0), samples.std(0)
    for i in range(samples.shape[1]):
        if abs(found[0][i] - mean[i]) > ERRORS * error[i]:
            raise Wrong(f"the mean of {what}: expected {mean[i]:.3f}, got {found[0][i]:.3f}")
        if abs(found[1][i] - std[i]) > ERRORS * error[i]:
            raise Wrong(
                f"the standard deviation of {what}: expected {std[i]:.3f}, got {found[1][i]:.3f}"
            )
    correlation = np.corrcoef(samples.T)[0, 1]
    if abs(correlation) > ERRORS / math.sqrt(many):
        raise Wrong(
            f"the dimensions of {what} are correlated ({correlation:.2f}): each needs noise of "
            "its own"
        )


def clipped_std(std, clip):
    """Return the standard deviation of Gaussian noise that is clipped to [-clip, clip]."""
    c = clip / std
    inside = math.erf(c / math.sqrt(2))  # the probability of not being clipped
    density = math.exp(-(c**2) / 2) / math.sqrt(2 * math.pi)
    return std * math.sqrt(inside - 2 * c * density + c**2 * (1 - inside))


def exit_with(main):
    """Run an exercise as a program: exit with its code, or with 2 and one sentence on an error."""
    try:
        code = main()
    except SpinupError as error:
        print(f"spinup: {error}", file=sys.stderr)
        code = CANNOT_JUDGE
    sys.exit(code)


@contextlib.contextmanager
def losses(module, **functions):
    """Let an algorithm's module compute its losses with these functions instead of its own."""
    with mock.patch.multiple(module, **functions):
        yield


def beside_the_program(path):
    """Return a package's search path, with the folder of the running program before it.

    So a student's completed files find each other in any folder: exercise 1.2 needs 1.1.
    """
    file = getattr(sys.modules["__main__"], "__file__", None)
    folder = os.path.dirname(os.path.abspath(file)) if file else ""
    ours = os.path.dirname(os.path.abspath(__file__))
    if not folder or folder.startswith(ours):
        return list(path)
    if not os.path.isfile(os.path.join(folder, "exercise1_1.py")):
        return list(path)
    return [folder, *path]


# ---- a training run, as a demonstration


def train_arguments(description):
    """Parse the flags of an exercise that can also train: `--train`, `--env` and `--epochs`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--train", action="store_true", help="also train the policy with PPO")
    has_mujoco = importlib.util.find_spec("mujoco") is not None
    default = "InvertedPendulum-v5" if has_mujoco else "Pendulum-v1"
    parser.add_argument("--env", default=default, help=f"for --train (default: {default})")
    parser.add_argument("--epochs", type=int, default=50, help="for --train (default: 50)")
    return parser.parse_args()


def demonstrate(ppo, env, epochs, **arguments):
    """Train with the hyperparameters of PPO's preset for `env`, and print the returns.

    The run is in the system's folder for temporary files, under `experiments`.
    """
    folder = os.path.join(tempfile.gettempdir(), "experiments", str(int(time.time())))
    preset = Path(__file__).resolve().parents[1] / "presets" / f"ppo-{env}.json"
    settings = json.loads(preset.read_text()) if preset.is_file() else {}
    settings.pop("env", None)
    returns = []
    ppo(
        env,
        **{**settings, **arguments},
        epochs=epochs,
        logger_kwargs={"output_dir": folder},
        on_epoch=lambda row, ac: returns.append(row["AverageEpRet"]),
    )
    print(
        f"Mean return on {env}: {returns[0]:.1f} in the first epoch, {np.mean(returns[-5:]):.1f} "
        f"in the last five. The run is in {folder}."
    )

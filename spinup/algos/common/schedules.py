"""How hyperparameters change over a run."""


def linear_schedule(start: float, end: float, fraction: float) -> float:
    """Linear from `start` to `end` as `fraction` goes from 0 to 1, constant outside [0, 1]."""
    return start + (end - start) * min(max(fraction, 0.0), 1.0)

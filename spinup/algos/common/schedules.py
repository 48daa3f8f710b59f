"""Schedules: how hyperparameters change over a run."""


def linear_schedule(start: float, end: float, fraction: float) -> float:
    """Interpolate from `start` to `end` as `fraction` rises from 0 to 1; constant outside."""
    return start + (end - start) * min(max(fraction, 0.0), 1.0)

"""Measurements of speed, learning and robustness; each module is also a script."""

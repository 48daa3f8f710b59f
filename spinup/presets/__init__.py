"""Hyperparameters that are known to work, one JSON file an algorithm and environment."""

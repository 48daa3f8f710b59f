"""Hyperparameters that are known to work: one JSON file per algorithm and environment.

`reached.json` records the returns that three seeds reached; `benchmarks/learn.py` writes it.
"""

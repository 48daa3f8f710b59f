"""Hyperparameters that are known to work: one JSON file per algorithm and environment.

`<algo>-MuJoCo.json` is for all MuJoCo tasks. `reached.json` records the returns that their seeds
reached; `benchmarks/learn.py` and `benchmarks/bench.py` write it.
"""

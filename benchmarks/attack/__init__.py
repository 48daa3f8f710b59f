"""Attacks on the promises in docs/guarantees.md: power loss, flipped bits, poisoned files, signals.

    python -m benchmarks.attack                    # all of them (`make attack`)
    python -m benchmarks.attack --only power_loss  # one
    python -m benchmarks.attack --save             # and record the figures

Every module has ATTACKS, a dict: name -> function that takes a `Tally` and a scratch folder.
"""

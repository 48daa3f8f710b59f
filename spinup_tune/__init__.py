"""The search for hyperparameters: `spinup tune`; see docs/tune.md."""

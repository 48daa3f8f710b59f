"""The documented path of `spinup_tune`, which searches for hyperparameters."""

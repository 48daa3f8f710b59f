"""Problem set 2: an experiment with a bug in it."""

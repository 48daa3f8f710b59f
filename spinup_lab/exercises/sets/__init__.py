"""The problem sets: each module here has `EXERCISES`, a tuple of `Task`s."""

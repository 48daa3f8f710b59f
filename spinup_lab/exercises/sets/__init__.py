"""The problem sets: what a learner reads in TOML files, and their test cases in Python files."""

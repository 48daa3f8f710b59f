"""The exercises for PyTorch."""

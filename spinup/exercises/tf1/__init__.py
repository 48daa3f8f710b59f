"""The exercises for TensorFlow's graph mode."""

"""What several test files need: runs to start and to compare, environments and networks to try."""

"""Covariances with column groups: moments, partitions, blocks and their objective. NumPy and SciPy only."""

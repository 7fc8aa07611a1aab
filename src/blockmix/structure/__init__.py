"""What a covariance with groups is: moments, partitions, blocks, their objective. NumPy and SciPy only."""

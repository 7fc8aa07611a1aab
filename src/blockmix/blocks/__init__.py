"""Block-diagonal covariances: blocks and their shapes, moments, compiled loops."""

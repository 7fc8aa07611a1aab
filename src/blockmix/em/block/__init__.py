"""The paper's mixture: block-diagonal covariances with learned blocks."""

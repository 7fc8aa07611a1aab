"""
The tree of the columns, and its cut
====================================

Without clusters: only which columns move together. A branch of the tree is one group if that is worth more than the
best cuts of its two halves, so the groups that the rule "auto" finds may lie at different heights. The line is the cut
into as many groups. All columns of this table also share something, which the model takes as a common factor.
"""

import numpy as np

from blockmix import BlockDiagonalCovariance

rng = np.random.default_rng(0)
mean = rng.uniform(size=24)
A, E = rng.uniform(1, 2, (6, 4, 4)), rng.uniform(size=(24, 24))
covariance = 0.5 * E.T @ E
for k, factor in enumerate(A):
    covariance[4 * k : 4 * k + 4, 4 * k : 4 * k + 4] += factor.T @ factor
rows = np.random.default_rng(0).standard_normal((580, 24)) @ np.linalg.cholesky(covariance).T + mean
X, X_new = np.split(rows, [80])
model = BlockDiagonalCovariance().fit(X)
print(model.describe())
print(f"{model.n_groups_} groups found; the truth has 6")
print(f"held-out log-likelihood per row: {model.score(X_new):.1f}")
full = BlockDiagonalCovariance(n_groups=1).fit(X)
print(f"the same for a full covariance: {full.score(X_new):.1f}")
assert np.isfinite(model.linkage_).all()
model.plot_dendrogram()

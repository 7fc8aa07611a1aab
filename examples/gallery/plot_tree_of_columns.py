"""
The tree of the columns, and its cut
====================================

Without clusters: only which columns move together. The rule "auto" walks down the tree of the columns and stops at
branches whose two halves are correlated beyond chance. The line is the cut into as many groups.
"""

import numpy as np

from blockmix import BlockDiagonalCovariance
from blockmix.datasets import block_grid

design = block_grid(24, 6, random_state=0)
X = design.sample(80, random_state=0)
model = BlockDiagonalCovariance().fit(X)
print(f"{model.n_groups_} groups found; the truth has {design.partition.n_groups}")
print(f"held-out log-likelihood per row: {model.score(design.sample(500, random_state=1)):.1f}")
full = BlockDiagonalCovariance(n_groups=1).fit(X)
print(f"the same for a full covariance: {full.score(design.sample(500, random_state=1)):.1f}")
assert np.isfinite(model.linkage_).all()
model.plot_dendrogram()

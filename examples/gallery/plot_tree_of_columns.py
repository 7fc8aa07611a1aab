"""
The tree of the columns, and its cut
====================================

Without clusters: only which columns move together. A branch of the tree is one group if that is worth more than the
best cuts of its two halves, so the groups that the rule "auto" finds may lie at different heights. The line is the cut
into as many groups. All columns of this table also share a correlation of about 0.2. The rule sets it aside, and says
so.
"""

import warnings

import numpy as np

from blockmix import BlockDiagonalCovariance, GroupingWarning
from blockmix.datasets import block_grid

design = block_grid(24, 6, random_state=0)
X = design.sample(80, random_state=0)
with warnings.catch_warnings(record=True) as raised:
    warnings.simplefilter("always", GroupingWarning)
    model = BlockDiagonalCovariance().fit(X)
print(raised[0].message)
print(f"{model.n_groups_} groups found; the truth has {design.partition.n_groups}")
print(f"held-out log-likelihood per row: {model.score(design.sample(500, random_state=1)):.1f}")
full = BlockDiagonalCovariance(n_groups=1).fit(X)
print(f"the same for a full covariance: {full.score(design.sample(500, random_state=1)):.1f}")
assert np.isfinite(model.linkage_).all()
model.plot_dendrogram()

"""
Columns that move against each other
====================================

Signs do not matter to a block: columns that are strongly correlated, positively or negatively, share a group. The
model with one positive factor per group (:class:`~blockmix.FactorBiclustering`, the paper's UCUU) cannot say this, and
warns.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from blockmix import BlockDiagonalCovariance, FactorBiclustering, GroupingWarning, Partition
from blockmix.plotting import correlation_heatmap

truth, partition = np.kron(np.eye(3), 5.5 * np.eye(4) - 1), Partition(np.repeat(range(3), 4))
X = np.random.default_rng(0).multivariate_normal(np.zeros(12), truth, 300)
block = BlockDiagonalCovariance(n_groups=3).fit(X)
with warnings.catch_warnings(record=True) as raised:
    warnings.simplefilter("always", GroupingWarning)
    factor = FactorBiclustering(1, 3, random_state=0).fit(X)
print(raised[0].message)

figure, axes = plt.subplots(1, 3, figsize=(14, 4.2), layout="constrained")
estimates = {"truth": truth, "blocks": block.covariance_, "one positive factor": factor.covariances_[0]}
for ax, (name, S) in zip(axes, estimates.items(), strict=True):
    scale = np.sqrt(np.diag(S))
    correlation_heatmap(S / np.outer(scale, scale), partition, title=name, ax=ax)

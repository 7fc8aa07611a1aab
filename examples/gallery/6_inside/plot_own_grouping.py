"""
A grouping of your own
======================

A grouping is any object with one method, ``group(S, n_groups, n_rows)``. This one makes runs of adjacent columns, for
measurements along a line. Estimators, rules, the report and model files treat it like the built-in ones.
"""

import numpy as np

from blockmix import GaussianBiclustering, Partition
from blockmix.grouping import Proposal


# begin of the class
class Neighbors:
    """Runs of adjacent columns, split where neighbors are least correlated."""

    def group(self, S, n_groups, n_rows):
        """Split the columns of the covariance S, estimated from n_rows rows, into n_groups groups."""
        deviations = np.sqrt(np.diagonal(S))
        strength = np.abs(np.diagonal(S, 1)) / (deviations[1:] * deviations[:-1])
        first = np.zeros(len(S), dtype=int)
        first[1 + np.argsort(strength)[: n_groups - 1]] = 1
        return Proposal(Partition(np.cumsum(first)))


# end of the class
# %%
# A spectrum of 30 channels with three bands, in two kinds of samples.
rng = np.random.default_rng(0)
bands = np.repeat([0, 1, 2], [8, 12, 10])
X = rng.standard_normal((200, 30)) + 1.5 * rng.standard_normal((200, 3))[:, bands]
X[:100] += 2

model = GaussianBiclustering(2, 3, grouping=Neighbors(), random_state=0).fit(X)
print(model.column_labels_[0])
model.plot_correlations(X, 0)

"""
A shape of block of your own
============================

A shape says what the covariance of a column group may look like and what it costs. In this one every column depends on
a single hub, such as a regulator and its genes, or a boiler and its sensors.
"""

import numpy as np

from blockmix import GaussianBiclustering
from blockmix.blocks.shapes import BlockFit, BlockModel


# begin of the class
class HubBlock(BlockModel):
    """One hub column, and every other column depends on it alone."""

    name = "hub"
    rank = 2  # two rows are enough: no correlation involves more than two columns

    def n_parameters(self, c):
        """c variances, and c − 1 correlations with the hub."""
        return 2 * c - 1

    def choice_price(self, c, p):
        """The hub is one of c columns."""
        return np.log(max(c, 1))

    def fit(self, S, start=None):
        """Best covariance for S: log|Σ| = Σ log s_j² + Σ log(1 − r_j²), r_j the correlation with the hub."""
        deviations = np.sqrt(np.diagonal(S))
        R = S / np.outer(deviations, deviations)
        losses = self._losses(R)
        r = R[:, losses.argmin()]
        correlation = np.outer(r, r)
        np.fill_diagonal(correlation, 1)
        deviance = 2 * np.log(deviations).sum() + losses.min() + len(S)
        return BlockFit(correlation * np.outer(deviations, deviations), deviance)

    def deviances(self, R, tree, span, largest):
        """The same for the columns of every node of a tree, so that the tree can be cut at the best place."""
        nodes = [R[first:last, first:last] for first, last in span]
        sizes = np.array([len(node) for node in nodes])
        deviances = np.array([self._losses(node).min() + len(node) for node in nodes])
        return np.where(sizes > 2, deviances, np.inf)  # smaller blocks are no cheaper than full ones

    def _losses(self, R):
        """Σ log(1 − r²) for each column as the hub."""
        return np.log1p(-np.minimum(R**2, 1 - 1e-12) * (1 - np.eye(len(R)))).sum(axis=0)


# end of the class
# %%
# Two hubs with seven followers each, and six columns that follow nobody.
rng = np.random.default_rng(0)
X = rng.standard_normal((80, 22))
for hub in (0, 8):
    X[:, hub + 1 : hub + 8] += 1.5 * X[:, [hub]]

model = GaussianBiclustering(1, block_model=HubBlock(), random_state=0).fit(X)
print(model.column_labels_[0])
print(model.block_shapes_[0])
model.plot_correlations(X, 0)

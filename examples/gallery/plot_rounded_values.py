"""
Rounded values and a yes/no column
==================================

A Gaussian cluster that sits on one value of a discrete column has an arbitrarily high density there. With
``rounding=True``, the default, a repeated value is only known to within its neighborhood, and no cluster can shrink
onto it. Two clusters are simulated, and a yes/no column that has nothing to do with them.
"""

import matplotlib.pyplot as plt
import numpy as np

from blockmix import GaussianBiclustering
from blockmix.metrics import adjusted_rand

rng = np.random.default_rng(3)
clusters = np.repeat([0, 1], 150)
X = np.round(rng.standard_normal((300, 2)) + 3 * clusters[:, None], 1)
X = np.column_stack([X, rng.random(300) < 0.3])

figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained", sharey=True)
for ax, rounding in zip(axes, (True, False), strict=True):
    model = GaussianBiclustering(2, rounding=rounding, n_init=5, random_state=0).fit(X)
    jitter = X[:, 2] + rng.uniform(-0.2, 0.2, 300)
    ax.scatter(X[:, 0], jitter, c=model.row_labels_, cmap="coolwarm", s=12)
    ari = adjusted_rand(clusters, model.row_labels_)
    ax.set(title=f"rounding={rounding}: ARI {ari:.2f}", xlabel="first column", yticks=(0, 1))
axes[0].set_ylabel("the yes/no column")

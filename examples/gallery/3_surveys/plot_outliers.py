"""
Outliers and heavy tails
========================

Three clusters of 100 rows with four groups of five columns; six rows are replaced by values from a wide box. Normal
components follow these outliers, which costs a cluster or the column groups. With ``tails="t"`` an outlier has little
weight, and ``outliers_`` names it.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import adjusted_rand_score

from blockmix import GaussianBiclustering

rng = np.random.default_rng(0)
clusters = np.repeat([0, 1, 2], 100)
common = np.repeat(rng.standard_normal((300, 4)), 5, axis=1)
X = common + 0.7 * rng.standard_normal((300, 20)) + 5 * np.repeat(np.eye(3, 4), 5, axis=1)[clusters]
X[::50] = rng.uniform(-20, 20, (6, 20))

# %%
# Colors are clusters, and crosses mark the rows beyond what one normal row in a thousand exceeds. The normal fit warns.
figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained", sharex=True, sharey=True)
for ax, tails in zip(axes, ("normal", "t"), strict=True):
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        model = GaussianBiclustering(3, tails=tails, random_state=0).fit(X)
    outliers, ari = model.outliers_, adjusted_rand_score(clusters, model.row_labels_)
    print(f"{tails}: outliers {np.flatnonzero(outliers)}; column groups of each cluster: {model.n_column_groups_}")
    print(*(warning.message for warning in raised), sep="\n")
    ax.scatter(X[~outliers, 0], X[~outliers, 5], c=model.row_labels_[~outliers], cmap="viridis", s=10)
    ax.scatter(X[outliers, 0], X[outliers, 5], color="black", marker="x")
    ax.set(title=f'tails="{tails}": ARI {ari:.2f}', xlabel="a column of the first group")
axes[0].set_ylabel("a column of the second group")

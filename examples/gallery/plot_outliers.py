"""
Outliers and heavy tails
========================

Two clusters of 150 rows, and 15 rows that belong to neither. One of two normal components spreads over the far rows,
and the two clusters share the other; a warning says so. With ``tails="t"`` a far row weighs little, and ``outliers_``
names it.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from blockmix import GaussianBiclustering

rng = np.random.default_rng(2)
clusters = np.repeat([0, 1], 150)
common = np.repeat(rng.standard_normal((300, 2)), 3, axis=1)
rows = common + 0.5 * rng.standard_normal((300, 6)) + 4 * clusters[:, None]
X = np.vstack([rows, rng.uniform(-15, 20, (15, 6))])

# %%
# Colors are clusters, and crosses mark the rows beyond what one normal row in a thousand exceeds.
figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained", sharex=True, sharey=True)
for ax, tails in zip(axes, ("normal", "t"), strict=True):
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        model = GaussianBiclustering(2, tails=tails, random_state=0).fit(X)
    print(*(warning.message for warning in raised), sep="\n")
    far = model.outliers_
    ax.scatter(*X[~far, :4:3].T, c=model.row_labels_[~far], cmap="coolwarm", s=10)
    ax.scatter(*X[far, :4:3].T, color="black", marker="x")
    ax.set(title=f'tails="{tails}": {far.sum()} rows are far', xlabel="first column")
    print(f"{tails}: {far[300:].sum()} of the 15 far rows found, and {far[:300].sum()} of the 300 others")
axes[0].set_ylabel("fourth column")

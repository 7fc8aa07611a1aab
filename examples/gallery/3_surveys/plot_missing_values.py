"""
Missing values
==============

A tenth of the cells of Wine are deleted. The fit uses the values that are left, and
:meth:`~blockmix.GaussianBiclustering.impute` fills a missing value with its expectation given the other values of the
row. The figure compares this with the means of the columns.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.metrics import adjusted_rand_score

from blockmix import GaussianBiclustering

complete, cultivar = load_wine(return_X_y=True)
complete = (complete - complete.mean(axis=0)) / complete.std(axis=0)
missing = np.random.default_rng(0).random(complete.shape) < 0.1
X = np.where(missing, np.nan, complete)

model = GaussianBiclustering(3, random_state=0).fit(X)
print(f"{missing.sum()} of {missing.size} cells are missing")
print(f"adjusted Rand index with the cultivars: {adjusted_rand_score(cultivar, model.row_labels_):.2f}")

# %%
# Each dot is a deleted cell, in standard deviations of its column; on the line it is filled with the true value.
figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained", sharex=True, sharey=True)
means = np.broadcast_to(np.nanmean(X, axis=0), X.shape)
for ax, (name, filled) in zip(axes, {"means of columns": means, "impute": model.impute(X)}.items(), strict=True):
    error = np.sqrt(np.mean((filled[missing] - complete[missing]) ** 2))
    ax.plot([-3, 3], [-3, 3], color="0.7", zorder=0)
    ax.scatter(complete[missing], filled[missing], s=10)
    ax.set(title=f"{name}: error {error:.2f}", xlabel="deleted value")
axes[0].set_ylabel("filled in")

"""
Would the clusters come back?
=============================

Wine with three clusters and with four. The rows are given random weights and the mixture is fitted again, 20 times.
Three clusters come back; of four, the figure shows which do not.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine

from blockmix import GaussianBiclustering

X = load_wine(as_frame=True).data
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for ax, n_clusters in zip(axes, (3, 4), strict=True):
    model = GaussianBiclustering(n_clusters, random_state=0).fit(X)
    stability = model.stability(X, n_resamples=20, n_refits=20, random_state=0)
    print(stability.clusters_to_frame())
    stability.plot_clusters(ax=ax)
    ax.set_title(f"{n_clusters} clusters")

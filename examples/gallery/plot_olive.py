"""
Olive oils by region and area
=============================

Eight fatty acids of 572 Italian olive oils, from three regions and nine areas. The fit sees neither. Three clusters are
nearly the regions; with nine, most clusters belong to one area. Where the data can be neither found nor downloaded, the
script simulates oils of nine areas in three regions.
"""

import matplotlib.pyplot as plt
import numpy as np

from blockmix import GaussianBiclustering
from blockmix.datasets import load_olive
from blockmix.metrics import adjusted_rand


def simulated():
    """Oils of nine areas, three to a region, with two groups of four acids."""
    rng = np.random.default_rng(0)
    area = np.repeat(np.arange(9), 60)
    centers = np.repeat(rng.normal(0, 6, (3, 8)), 3, axis=0) + rng.normal(0, 3, (9, 8))
    common = np.repeat(rng.standard_normal((540, 2)), 4, axis=1)
    X = centers[area] + common + 0.6 * rng.standard_normal((540, 8))
    return X, area // 3, np.array([f"area {a}" for a in area])


try:
    oils = load_olive()
    X, region, area = oils.data, oils.target, np.asarray(oils.info["area"])
except FileNotFoundError as missing:
    print(missing)
    X, region, area = simulated()

regions = GaussianBiclustering(3, random_state=0).fit(X)
areas = GaussianBiclustering(9, random_state=0).fit(X)
print(f"three clusters and the regions: ARI {adjusted_rand(region, regions.row_labels_):.2f}")
print(f"nine clusters and the areas: ARI {adjusted_rand(area, areas.row_labels_):.2f}")

# %%
# Rows are areas, sorted by region; columns are clusters. Darker means a larger share of the oils of that area.
names = sorted(set(area), key=lambda name: (region[area == name][0], name))
figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), layout="constrained", sharey=True, width_ratios=[3, 9])
for ax, model in zip(axes, (regions, areas), strict=True):
    counts = np.array([np.bincount(model.row_labels_[area == name], minlength=model.n_components) for name in names])
    shares = counts / counts.sum(axis=1, keepdims=True)
    ax.imshow(shares, cmap="Greys", vmin=0, vmax=1, aspect="auto")
    for i, g in zip(*np.nonzero(counts), strict=True):
        ax.text(g, i, counts[i, g], ha="center", va="center", color="white" if shares[i, g] > 0.5 else "black")
    ax.set(xlabel="cluster", xticks=range(model.n_components), title=f"{model.n_components} clusters")
axes[0].set_yticks(range(len(names)), names)

"""
Modules of genes from few samples
=================================

60 samples of 120 genes: three modules of 20 genes that follow one hidden factor each, some of them with the opposite
sign, and 60 genes that follow nothing. A full block of 20 columns has 210 parameters; a block of one factor has 40,
so the model can afford it, and its loadings have signs.
"""

import matplotlib.pyplot as plt
import numpy as np

from blockmix import GaussianBiclustering

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 120))
signs = np.where(rng.random((3, 20)) < 0.3, -1, 1)
for k in range(3):
    X[:, 20 * k : 20 * (k + 1)] += 1.2 * signs[k] * rng.standard_normal((60, 1))

model = GaussianBiclustering(1, random_state=0).fit(X)
labels, shapes, loadings = model.column_labels_[0], model.block_shapes_[0], model.loadings_[0]
modules = [k for k in range(len(shapes)) if loadings[k] is not None and (labels == k).sum() > 5]
print({k: (shapes[k], int((labels == k).sum())) for k in modules})

# %%
# The loading of each gene on the factor of its module. Bars to the left move against their module.
figure, axes = plt.subplots(1, len(modules), figsize=(9, 4), layout="constrained", sharex=True)
for ax, k in zip(axes, modules, strict=True):
    columns, values = np.flatnonzero(labels == k), loadings[k][:, 0]
    ax.barh(range(len(columns)), values, color=np.where(values > 0, "#0072B2", "#D55E00"))
    ax.set_yticks(range(len(columns)), [f"gene {j}" for j in columns], fontsize=6)
    ax.set(title=f"module {k}: {shapes[k]}", xlabel="loading")

"""
AnnData, as scanpy has it
=========================

:func:`blockmix.anndata.fit` reads an annotated matrix, dense or sparse, and writes the cluster of each cell to ``obs``
and the group of each gene to ``varm``.
"""

import anndata
import matplotlib.pyplot as plt
import numpy as np

import blockmix.anndata

rng = np.random.default_rng(1)
kinds = rng.integers(0, 3, 300)
X = rng.standard_normal((300, 30)) + np.repeat(rng.standard_normal((300, 5)), 6, axis=1)
X += 2.5 * np.eye(3)[kinds] @ np.repeat(np.eye(3, 5), 6, axis=1)
adata = anndata.AnnData(X)
adata.var_names = [f"gene{j}" for j in range(30)]

model = blockmix.anndata.fit(adata, n_components=3, random_state=0)
print(adata)

# %%
# The number of cells per cluster and true kind, and the gene groups of each cluster.
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", width_ratios=[1, 3])
counts = np.zeros((3, 3), dtype=int)
np.add.at(counts, (adata.obs["blockmix"].astype(int), kinds), 1)
left.imshow(counts, cmap="Greys")
for g, kind in np.ndindex(3, 3):
    left.text(kind, g, counts[g, kind], ha="center", color="white" if counts[g, kind] > 50 else "black")
left.set(xlabel="true kind", ylabel="cluster", xticks=range(3), yticks=range(3))
model.plot_groups(ax=right)

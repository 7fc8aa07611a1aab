"""
From raw counts to traits
=========================

:mod:`blockmix.anndata` works on annotated matrices as scanpy has them: counts are normalized, the cells clustered, the
genes of each cluster grouped into modules, and modules related to what is known of the cells.
"""

import anndata
import numpy as np

import blockmix.anndata

# %%
# Counts of 300 cells and 30 genes: three kinds of cells, five modules of six genes, a depth for each cell. The last
# module follows the age of the donor.
rng = np.random.default_rng(1)
kinds, age = rng.integers(0, 3, 300), rng.uniform(20, 80, 300)
activity = rng.standard_normal((300, 5))
activity[:, 4] = 0.6 * (age - 50) / 17 + 0.8 * activity[:, 4]
rates = np.repeat(0.5 * activity + 1.5 * np.eye(3, 5)[kinds], 6, axis=1) + 3
counts = rng.poisson(np.exp(rates + 0.3 * rng.standard_normal((300, 1))))
adata = anndata.AnnData(counts.astype(float), layers={"counts": counts})
adata.var_names = [f"gene{j}" for j in range(30)]
adata.obs["kind"], adata.obs["age"] = np.array(["T", "B", "NK"])[kinds], age

# %%
# A fit warns of raw counts. `scanpy.pp.normalize_total` and `scanpy.pp.log1p` do what these lines do.
adata.X = np.log1p(adata.X / adata.X.sum(axis=1, keepdims=True) * np.median(adata.X.sum(axis=1)))

model = blockmix.anndata.fit(adata, range(1, 6), shared_covariance=True, random_state=0)
print(adata)

# %%
# The clusters are the kinds of cells, and one module goes with age. The others go a little the other way: normalized
# counts are shares of one total.
table = blockmix.anndata.associate(adata, model)
print(table[["trait", "what", "kind", "estimate", "low", "high", "q"]].round(3))
model.plot_associations(adata.to_df(), adata.obs[["kind", "age"]])

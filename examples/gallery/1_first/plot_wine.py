"""
Wine: clusters and groups at once
=================================

178 wines, 13 measurements. Nothing is given: BIC chooses the number of clusters, the column groups and the shapes of
the blocks. The figure shows the largest cluster, its correlations as observed and as the model has them.
"""

from sklearn.datasets import load_wine
from sklearn.metrics import adjusted_rand_score

from blockmix import select

X, cultivar = load_wine(as_frame=True, return_X_y=True)
table = select(X, n_components=range(1, 6), random_state=0)
print(table)

# %%
# The best model has three clusters. They are the three cultivars, which the fit never saw.
model = table.best_estimator_
print(f"adjusted Rand index with the cultivars: {adjusted_rand_score(cultivar, model.row_labels_):.2f}")
model.plot_correlations(X, component=int(model.weights_.argmax()))

# %%
# Each cluster has its own column groups. Groups of different clusters that share most of their columns get the same
# number, so that the measurements that change group stand out.
print(model.column_table().pivot(index="column", columns="cluster", values="group"))

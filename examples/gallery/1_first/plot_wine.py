"""
Wine: clusters and groups at once
=================================

178 wines, 13 measurements. Nothing is given: the number of clusters, the column groups and the shapes of the blocks are
chosen. The figure shows the largest cluster, its correlations as observed and as the model has them.
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
# The best model has one covariance for all clusters, so its column groups are the same in all of them. The loading is
# the correlation with what the columns of a group share; a negative one moves against the others.
print(model.column_table())

"""
Would the clusters come back?
=============================

Wine with three clusters and with four. The rows are given random weights and the mixture is fitted again, 20 times.
Three clusters come back; of four, one does not. Each column group is firm, open or chance.
"""

from sklearn.datasets import load_wine

from blockmix import GaussianBiclustering

X = load_wine(as_frame=True).data
for n_clusters in (4, 3):
    model = GaussianBiclustering(n_clusters, random_state=0).fit(X)
    stability = model.stability(X, n_resamples=20, n_refits=20, random_state=0)
    print(stability.clusters_to_frame())
print(model.describe(stability))

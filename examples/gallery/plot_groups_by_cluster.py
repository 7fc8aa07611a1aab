"""
Columns that change group between clusters
==========================================

Each cluster has its own column groups. Groups of different clusters that share most of their columns get the same
letter and color, so what remains visible is what changes: here the measurements of wines that go with other ones in
another cultivar.
"""

from sklearn.datasets import load_wine

from blockmix import GaussianBiclustering

X = load_wine(as_frame=True).data
model = GaussianBiclustering(3, 4, random_state=0).fit(X)
model.plot_groups()

"""
A correlation map before and after
==================================

The same 30 measurements of cell nuclei twice: in the order of the table, and in the order of the groups that
:class:`~blockmix.BlockDiagonalCovariance` finds.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

from blockmix import BlockDiagonalCovariance, Partition
from blockmix.plotting import correlation_heatmap

X = load_breast_cancer(as_frame=True).data
model = BlockDiagonalCovariance(n_groups=6).fit(X)
R = np.corrcoef(X.T)

figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5.5), layout="constrained")
correlation_heatmap(R, Partition(np.arange(30)), title="as in the table", ax=left)
correlation_heatmap(R, model.partition_, title="in the order of six groups", ax=right)

# %%
# The names of each group:
for k, group in enumerate(model.groups_):
    print(k, ", ".join(group))

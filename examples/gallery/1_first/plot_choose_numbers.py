"""
How many clusters, how many groups?
===================================

Three clusters of 100 rows, with two or three column groups each. :func:`~blockmix.select` compares numbers of
clusters, each with the column groups chosen by the model ("auto") and with 2, 3 and 6 of them. BIC, circled, is
smallest at the truth. "auto" finds the three clusters without a list of candidates.
"""

import numpy as np

from blockmix import select

rng = np.random.default_rng(0)
groups = np.array([[0, 0, 0, 1, 1, 1, 2, 2], [0, 1, 2, 0, 1, 2, 0, 1], [0, 0, 0, 0, 0, 1, 1, 1]])
parts = [rng.standard_normal((100, 3))[:, labels] + 5 * g for g, labels in enumerate(groups)]
X = np.concatenate(parts) + 0.8 * rng.standard_normal((300, 8))
table = select(X, n_components=range(1, 6), n_column_groups=["auto", 2, 3, 6], random_state=0)
print(table)
table.plot()

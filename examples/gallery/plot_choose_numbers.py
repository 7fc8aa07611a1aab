"""
How many clusters, how many groups?
===================================

Three clusters of 100 rows, with two or three column groups each. :func:`~blockmix.select` compares numbers of
clusters, each with the column groups chosen by the model ("auto") and with 2, 3 and 6 of them. BIC, circled, is
smallest at the truth. "auto" finds the three clusters without a list of candidates.
"""

from blockmix import select
from blockmix.datasets import components_block

X, _ = components_block().sample(100, random_state=0)
table = select(X, n_components=range(1, 6), n_column_groups=["auto", 2, 3, 6], random_state=0)
print(table)
table.plot()

"""
What EM does
============

The objective of one fit at each iteration. It never falls: a new choice of column groups is kept only if it raises the
objective. The steps in the curve are such choices.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer

from blockmix import GaussianBiclustering

X = load_breast_cancer().data
model = GaussianBiclustering(2, random_state=0).fit(X)
print(model.outcome_, "after", model.n_iter_, "iterations")
plt.plot(range(1, model.n_iter_ + 1), model.log_likelihood_trace_, marker="o")
plt.xlabel("iteration")
plt.ylabel("objective")
assert (model.log_likelihood_trace_[1:] >= model.log_likelihood_trace_[:-1]).all()

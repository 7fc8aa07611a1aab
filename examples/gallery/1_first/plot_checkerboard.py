"""
The data as a checkerboard
==========================

569 tumors, 30 measurements, standardized: rows sorted by cluster and columns by group. The two clusters come
close to the two diagnoses, which the fit does not see.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer

from blockmix import GaussianBiclustering

X, benign = load_breast_cancer(as_frame=True, return_X_y=True)
model = GaussianBiclustering(2, random_state=0).fit(X)
for g in range(2):
    rows = model.row_labels_ == g
    print(f"cluster {g}: {rows.sum()} tumors, {100 * np.mean(benign[rows]):.0f} % benign")
model.plot_checkerboard(X, 0)

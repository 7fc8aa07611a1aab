"""
Two classes of samples, far more genes than samples
===================================================

62 samples of 800 genes, of which 60 differ between two classes. A larger module, switched on in some samples of both
classes, is a stronger pattern than the classes are. With more columns than rows one clustering would be a guess, so
:meth:`~blockmix.GaussianBiclustering.modes` returns several.
"""

import matplotlib.pyplot as plt
import numpy as np

from blockmix import GaussianBiclustering
from blockmix.metrics import adjusted_rand

rng = np.random.default_rng(0)
classes = np.repeat([0, 1], [40, 22])
switched = rng.random(62) < 0.5
X = rng.standard_normal((62, 800))
X[:, :60] += 1.6 * np.outer(classes, rng.choice([-1, 1], 60))
X[:, 60:200] += 1.5 * switched[:, None]

found = GaussianBiclustering(2, random_state=0).modes(X, n_modes=4)
figure, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
known = {"the classes": classes, "the switched module": switched}
for i, (name, truth) in enumerate(known.items()):
    ax.bar(np.arange(len(found)) + 0.4 * i, [adjusted_rand(truth, mode.labels) for mode in found], 0.38, label=name)
ax.set_xticks(np.arange(len(found)) + 0.2, [f"mode {m}" for m in range(len(found))])
ax.set(ylabel="adjusted Rand index", ylim=(-0.05, 1.2))
ax.legend(frameon=False, ncols=2, loc="upper right")

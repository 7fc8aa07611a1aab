"""
A sensor table from Parquet
===========================

A table in a Parquet file is read in chunks: the fit needs no more memory for a billion rows than for a million. Here
twelve sensors stand along two pipes, and each follows its neighbor. Such a chain is a block of the shape "tree", with
two parameters per column.
"""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import adjusted_rand_score

from blockmix import GaussianBiclustering
from blockmix.rows import Parquet

rng = np.random.default_rng(0)
n = 30_000
running = rng.random(n) < 0.4
pipes = np.empty((n, 2, 6), dtype=np.float32)
pipes[:, :, 0] = rng.standard_normal((n, 2)) + 4 * running[:, None]
for j in range(1, 6):
    pipes[:, :, j] = 0.8 * pipes[:, :, j - 1] + 0.6 * rng.standard_normal((n, 2))
names = [f"{pipe}{j}" for pipe in ("inlet", "outlet") for j in range(6)]
frame = pd.DataFrame(pipes.reshape(n, 12), columns=names)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "sensors.parquet")
    frame.to_parquet(path, row_group_size=10_000)
    model = GaussianBiclustering(2, block_model="tree", random_state=0).fit(Parquet(path))
    labels = model.predict(Parquet(path))

print(f"adjusted Rand index with the machines: {adjusted_rand_score(running, labels):.3f}")
print("shapes of the blocks:", model.block_shapes_)
model.plot_correlations(frame[:2000], 0)

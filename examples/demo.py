"""The main job on a real data set: the column groups of the wines of one cultivar, and their correlation matrix."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine

from blockmix import BlockDiagonalCovariance, plotting
from blockmix.moments import correlation

OUTPUT = Path("demo-output")


def main() -> None:
    wine = load_wine(as_frame=True)
    X = wine.data[wine.target == 1]
    X = (X - X.mean()) / X.std()
    print(
        f"Grignolino wines: {X.shape[0]} rows, {X.shape[1]} chemical measurements, "
        "number of groups chosen by the program\n"
    )
    model = BlockDiagonalCovariance().fit(X)
    print(model.describe())

    OUTPUT.mkdir(exist_ok=True)
    _, axes = plt.subplots(1, 2, figsize=(13, 6), layout="constrained")
    names = list(X.columns)
    plotting.correlation_heatmap(
        np.corrcoef(X.T), model.partition_, names=names, title="observed correlation", ax=axes[0]
    )
    plotting.correlation_heatmap(
        correlation(model.covariance_), model.partition_, names=names, title="estimated correlation", ax=axes[1]
    )
    path = OUTPUT / "wine_groups.png"
    plt.savefig(path, dpi=120)
    print(f"Picture: {path}")


if __name__ == "__main__":
    main()

"""The main job on real data: which wines belong together, and which measurements move together in each cluster."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.metrics import adjusted_rand_score

from blockmix import plotting, select
from blockmix.moments import correlation

OUTPUT = Path("demo-output")


def main() -> None:
    wine = load_wine(as_frame=True)
    X = (wine.data - wine.data.mean()) / wine.data.std()
    print(f"Wine: {X.shape[0]} wines, {X.shape[1]} measurements; everything else is chosen by the program\n")
    table = select(X, n_components=range(1, 6), random_state=0)
    print(table, "\n")
    model = table.best_estimator_
    print(model.describe())
    agreement = adjusted_rand_score(wine.target, model.row_labels_)
    print(f"\nAgreement with the three cultivars, which were not shown to the program: ARI {agreement:.2f}")

    OUTPUT.mkdir(exist_ok=True)
    path = OUTPUT / "wine_groups.png"
    draw(model, X, path)
    print(f"Picture: {path}")


def draw(model, X, path: Path) -> None:
    G = len(model.weights_)
    _, axes = plt.subplots(2, G, figsize=(6.2 * G, 11.5), layout="constrained", squeeze=False)
    names = list(X.columns)
    for g, block in enumerate(model.blocks_):
        rows = X[model.row_labels_ == g]
        observed, estimated = np.corrcoef(rows.T), correlation(block.dense())
        plotting.correlation_heatmap(
            observed, block.partition, names=names, title=f"cluster {g}, {len(rows)} wines: observed", ax=axes[0, g]
        )
        plotting.correlation_heatmap(
            estimated, block.partition, names=names, title=f"cluster {g}: estimated", ax=axes[1, g]
        )
    plt.savefig(path, dpi=90)


if __name__ == "__main__":
    main()

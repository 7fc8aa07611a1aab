"""Draw the picture of docs/guide/common.md: observed correlations, what is common, and what remains, in group order."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from blockmix import GaussianBiclustering
from blockmix.plotting.views import component_view


def main() -> None:
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.repeat(range(5), 6))
    own = 0.7 * rng.standard_normal((3000, 5))[:, labels] + 0.7 * rng.standard_normal((3000, 30))
    X = own + rng.standard_normal((3000, 1)) * rng.uniform(0.4, 1.0, 30)
    model = GaussianBiclustering().fit(X)
    view = component_view(model.blocks_[0], X, None, model)
    assert view.observed is not None and view.common is not None
    order = view.partition.order
    figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained")
    titles = ("observed", "what all columns share", "what remains: the groups")
    for ax, R, title in zip(axes, (view.observed, view.common, view.remaining), titles, strict=True):
        image = ax.imshow(R[np.ix_(order, order)], cmap="RdBu_r", vmin=-1, vmax=1)
        ax.set(title=title, xticks=[], yticks=[])
    figure.colorbar(image, ax=axes, shrink=0.8, label="correlation")
    figure.savefig(Path(__file__).parent / "common.png", dpi=110)


if __name__ == "__main__":
    main()

"""The split that stands out, where the groups of the fit say little; groups that are given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from strategies import Matrix

from blockmix import BlockDiagonalCovariance, GaussianBiclustering, load
from blockmix.partition import Partition

TRUTH = Partition(np.repeat(range(4), 6))
Model = GaussianBiclustering | BlockDiagonalCovariance


def shared(n: int = 20_000) -> Matrix:
    """Groups that all share a factor: without common factors the answer is one group."""
    rng = np.random.default_rng(0)
    own = 0.8 * rng.standard_normal((n, 4))[:, TRUTH.labels] + 0.6 * rng.standard_normal((n, 24))
    return own + 0.7 * rng.standard_normal((n, 1))


def test_one_group_names_the_split_that_stands_out(tmp_path: Path) -> None:
    X = shared()
    model = GaussianBiclustering(common_factors=0).fit(X)
    assert model.n_column_groups_[0] == 1 and model.splits_[0] is not None
    assert model.splits_[0].partition == TRUTH == model.split(X)
    assert 0.2 < model.splits_[0].silhouette < 1
    text = model.describe()
    assert "No split is certain. The one that stands out" in text and "has four groups: x0–5; x6–11;" in text
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").describe() == text
    assert model.split(X, 2).n_groups == 2
    assert GaussianBiclustering(n_column_groups=model.split(X)).fit(X[:500]).column_labels_[0].max() == 3


@pytest.mark.parametrize("model", [GaussianBiclustering(), BlockDiagonalCovariance()])
def test_chance_has_no_split_that_stands_out(model: Model) -> None:
    for n in (40, 400):
        with pytest.warns() if isinstance(model, BlockDiagonalCovariance) else pytest.MonkeyPatch.context():
            model.fit(np.random.default_rng(n).standard_normal((n, 20)))
        assert "stands out" not in model.describe()


def test_given_groups_are_kept() -> None:
    X = shared(300)
    other = Partition(np.arange(24) % 3)
    for given in (other, [other]):
        assert Partition(GaussianBiclustering(1, given).fit(X).column_labels_[0]) == other
    assert BlockDiagonalCovariance(other).fit(X).partition_ == other
    with pytest.raises(ValueError, match="n_column_groups is a partition of 3 columns, but X has 24"):
        GaussianBiclustering(n_column_groups=Partition([0, 0, 1])).fit(X)
    with pytest.raises(ValueError, match="n_groups=30 exceeds the 24 columns"):
        BlockDiagonalCovariance().fit(X).split(X, 30)

"""What tells clusters apart, and the rows: against literal formulas, scikit-learn and brute force."""

from __future__ import annotations

from base64 import b64decode
from copy import copy
from typing import Any

import numpy as np
import pytest
from blockmix.report.differences import Centers, differences, group_scores
from blockmix.report.pixels import fractions, triangle
from blockmix.report.rows import row_list, row_map
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from blockmix import BlockDiagonalCovariance, GaussianBiclustering
from blockmix.report import rows as rows_module
from blockmix.report.subject import Subject


def three_clusters(seed: int = 0, apart: float = 9.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = np.repeat([0, 1, 2], [50, 80, 70])
    X = rng.standard_normal((200, 6)) @ rng.standard_normal((6, 6)) + apart * rng.standard_normal((3, 6))[z]
    return X, z


@pytest.fixture(scope="module")
def fitted() -> tuple[GaussianBiclustering, np.ndarray]:
    X, z = three_clusters()
    return GaussianBiclustering(3, 2, init=z, random_state=0).fit(X), X


def unpacked(text: str) -> np.ndarray:
    return np.frombuffer(b64decode(text), "<u2") / 65535


def test_differences_are_the_formula(fitted: Any) -> None:
    model, _ = fitted
    found = differences(Subject(model))
    assert found is not None
    pi, mu = model.weights_, model.means_
    within = np.sqrt(sum(pi[g] * model.covariances_[g].diagonal() for g in range(3)))
    for g in range(3):
        others = [h for h in range(3) if h != g]
        rest = sum(pi[h] * mu[h] for h in others) / sum(pi[h] for h in others)
        assert_allclose(found["columns"][g], (mu[g] - rest) / within, atol=6e-4)
        assert_allclose(found["means"][g], mu[g], rtol=6e-4)


def test_differences_do_not_depend_on_units(fitted: Any) -> None:
    model, X = fitted
    units = np.array([1e-3, 1, 50, 1e4, 2, 7])
    other = GaussianBiclustering(3, 2, init=model.row_labels_, random_state=0).fit(X * units + 5)
    assert_allclose(Centers.of(other).differences(), Centers.of(model).differences(), rtol=1e-6)


def test_one_component_differs_from_nothing() -> None:
    X, _ = three_clusters()
    assert differences(Subject(GaussianBiclustering(1, 2).fit(X))) is None
    assert differences(Subject(BlockDiagonalCovariance(2).fit(X))) is None


def test_group_scores_do_not_depend_on_the_signs_of_columns(fitted: Any) -> None:
    # Red if columns that go against their group cancel it.
    model, X = fitted
    signs = np.array([1, -1, 1, -1, -1, 1])
    turned = GaussianBiclustering(3, 2, init=model.row_labels_, random_state=0).fit(X * signs)
    scores = [group_scores(Centers.of(m).standardized(), m.blocks_[0], 9) for m in (model, turned)]
    assert scores[0].shape == (sum(len(group) > 1 for group in model.blocks_[0].partition.groups), 3)
    assert_allclose(np.abs(scores[0]), np.abs(scores[1]), rtol=1e-6)


def test_the_axes_are_those_of_linear_discriminant_analysis() -> None:
    # One covariance for all and one group: the model of LDA; clusters so far apart that EM keeps the classes.
    X, z = three_clusters(1)
    model = GaussianBiclustering(3, 1, shared_covariance=True, init=z, block_model="full", rounding=False).fit(X)
    assert_array_equal(model.row_labels_, z)
    found = row_map(Subject(model, X))
    assert found is not None and [name.split(",")[0] for name in found["names"]] == [
        "discriminant axis 1",
        "discriminant axis 2",
    ]
    shown = np.stack([unpacked(found["x"]), unpacked(found["y"])], axis=1)
    expected = LinearDiscriminantAnalysis(n_components=2).fit(X, z).transform(X)
    inside = ((shown > 0) & (shown < 1)).all(axis=1)
    for k in range(2):
        assert abs(np.corrcoef(shown[inside, k], expected[inside, k])[0, 1]) > 0.9999


def test_without_components_the_axes_are_principal() -> None:
    X, _ = three_clusters()
    found = row_map(Subject(BlockDiagonalCovariance(2).fit(X), X))
    assert found is not None
    expected = PCA(2).fit_transform((X - X.mean(axis=0)) / X.std(axis=0))
    for k, place in enumerate(("x", "y")):
        assert abs(np.corrcoef(unpacked(found[place]), expected[:, k])[0, 1]) > 0.999
        assert found["names"][k].startswith(f"principal axis {k + 1}")


def test_two_components_have_one_discriminant_axis_and_components_alike_none(fitted: Any) -> None:
    X, _ = three_clusters()
    two = row_map(Subject(GaussianBiclustering(2, 2, random_state=0).fit(X), X))
    assert two is not None and [name.split()[0] for name in two["names"]] == ["discriminant", "principal"]
    model, X = fitted
    alike = copy(model)
    alike.means_ = np.zeros_like(model.means_)
    none = row_map(Subject(alike, X))
    assert none is not None and [name.split()[0] for name in none["names"]] == ["principal", "principal"]


def test_a_far_row_does_not_squeeze_the_map(fitted: Any) -> None:
    model, X = fitted
    found = row_map(Subject(model, np.vstack([X, X[:1] + 1e6])))
    assert found is not None and found["beyond"] == 1
    assert np.ptp(unpacked(found["x"])[:-1]) > 0.5


def test_certainty_and_neighbors_are_those_of_brute_force(monkeypatch: pytest.MonkeyPatch) -> None:
    X, labels = three_clusters(apart=0.8)
    model = GaussianBiclustering(3, 2, init=labels, random_state=0).fit(X)
    monkeypatch.setattr(rows_module, "_COMPARED", 50)
    found = row_list(Subject(model, X))
    assert found is not None
    listed, z = found["certainty"], model.predict_proba(X)
    assert_allclose(unpacked(listed["own"]), np.sort(z, axis=1)[:, -1], atol=1e-5)
    assert_allclose(unpacked(listed["nextOwn"]), np.sort(z, axis=1)[:, -2], atol=1e-5)
    assert_array_equal(z[np.arange(len(X)), listed["next"]], np.sort(z, axis=1)[:, -2])
    assert len(listed["compared"]) == 50 and len(np.unique(z.max(axis=1))) > 150
    assert z.max(axis=1)[listed["compared"]].max() <= np.delete(z.max(axis=1), listed["compared"]).min()
    Z = X / Centers.of(model).scale
    for i, near in zip(listed["compared"], listed["neighbors"], strict=True):
        distance = np.linalg.norm(Z - Z[i], axis=1)
        distance[i] = np.inf
        assert_array_equal(np.sort(near), np.sort(np.argsort(distance)[:3]))


def test_a_row_is_no_neighbor_of_itself_among_copies() -> None:
    X = np.repeat(np.arange(4.0)[:, None], 2, axis=1)
    copies = np.vstack([np.zeros((8, 2)), X])
    near = rows_module._neighbors(copies, np.arange(12))
    assert near.shape == (12, 3) and not (near == np.arange(12)[:, None]).any()


def test_far_rows_are_those_of_the_fit_and_of_no_other_rows(fitted: Any) -> None:
    model, X = fitted
    found = row_list(Subject(model, X))
    assert found is not None
    assert_allclose(found["far"]["scores"], model.outlier_scores_, rtol=1e-3)
    assert found["far"]["groups"] == model.outlier_groups_.tolist()
    assert found["far"]["outliers"] == np.flatnonzero(model.outliers_).tolist()
    other = row_list(Subject(model, X[::-1]))
    assert other is not None and other["far"] is None


def test_fractions_and_triangle() -> None:
    assert_allclose(unpacked(fractions(np.array([-1, 0, 0.25, 1, 2]))), [0, 0, 0.25, 1, 1], atol=1e-5)
    assert triangle(np.array([[1, 2, 4], [2, 3, 5], [4, 5, 6]])).tolist() == [1, 2, 3, 4, 5, 6]

"""Sections of the page against literal formulas, scikit-learn and brute force."""

from __future__ import annotations

from base64 import b64decode
from copy import copy
from typing import Any

import numpy as np
import pytest
from fits import Fit
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from blockmix import BlockDiagonalCovariance, GaussianBiclustering
from blockmix.grouping.grouping import cut
from blockmix.report import sections
from blockmix.report.sections import components, differences, row_list, row_map
from blockmix.report.subject import encoded, fractions, subject_of


def three_clusters(seed: int = 0, apart: float = 9.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = np.repeat([0, 1, 2], [50, 80, 70])
    X = rng.standard_normal((200, 6)) @ rng.standard_normal((6, 6)) + apart * rng.standard_normal((3, 6))[z]
    return X, z


@pytest.fixture(scope="module")
def fitted() -> tuple[GaussianBiclustering, np.ndarray]:
    X, z = three_clusters()
    return GaussianBiclustering(3, 2, init=z, random_state=0).fit(X), X


def pixels(text: str) -> np.ndarray:
    return (np.frombuffer(b64decode(text), np.uint8) - 127.0) / 127


def unpacked(text: str) -> np.ndarray:
    return np.frombuffer(b64decode(text), "<u2") / 65535


def test_pixels_and_fractions() -> None:
    assert b64decode(encoded(np.array([np.nan, 0.0]))) == bytes([255, 127])
    assert b64decode(encoded(np.array([-9.0, -1.0, 0.0, 1.0, 2.0]), 2.0)) == bytes([0, 63, 127, 191, 254])
    assert_allclose(unpacked(fractions(np.array([-1, 0, 0.25, 1, 2]))), [0, 0, 0.25, 1, 1], atol=1e-5)


@pytest.mark.parametrize("side", [7, 800])
def test_the_trees_and_maps_are_those_of_the_model(wine: Any, monkeypatch: pytest.MonkeyPatch, side: int) -> None:
    monkeypatch.setattr(sections, "MAX_SIDE", side)
    model, X, m = wine.model, wine.X.to_numpy(), min(side, 13)
    weights = model.predict_proba(wine.X)
    views = components(subject_of(model, wine.X, stability=wine.stability))
    for g, view in enumerate(views):
        tree = np.column_stack([np.reshape(view["merges"], (-1, 2)), view["heights"], np.zeros(12)])
        assert view["isCut"] == (cut(tree, model.n_column_groups_[g]).labels.tolist() == view["labels"])
        R = np.cov(X.T, aweights=weights[:, g])
        R /= np.sqrt(np.outer(R.diagonal(), R.diagonal()))
        S = model.covariances_[g] / np.sqrt(np.outer(*[model.covariances_[g].diagonal()] * 2))
        order, starts = view["leaves"], view["starts"]
        assert len(starts) - 1 == m
        both, pairs = pixels(view["pixels"]).reshape(m, m + 1), pixels(view["pairs"])
        for j in range(m):
            for i in range(j + 1):
                cell = np.ix_(order[starts[i] : starts[i + 1]], order[starts[j] : starts[j + 1]])
                assert both[i, j + 1] == pytest.approx(R[cell].mean(), abs=0.005)
                assert both[j, i] == pytest.approx(S[cell].mean(), abs=0.005)
                assert pairs[j * (j + 1) // 2 + i] == pytest.approx(wine.stability.pairs[g][cell].mean(), abs=0.005)


def test_common_and_remaining_correlations_and_loadings_are_those_of_the_definition(shared_factor: Any) -> None:
    model, X = shared_factor
    for data in (X, None):
        [view] = components(subject_of(model, data))
        S, L = model.covariances_[0], model.common_loadings_[0]
        common = L @ L.T / np.sqrt(np.outer(S.diagonal(), S.diagonal()))
        whole = S / np.sqrt(np.outer(S.diagonal(), S.diagonal())) if data is None else np.corrcoef(X.T)
        left = np.sqrt(1 - common.diagonal())
        remaining = (whole - common) / np.outer(left, left)
        np.fill_diagonal(remaining, 1)
        maps, cells = pixels(view["shared"]).reshape(12, 13), np.ix_(view["leaves"], view["leaves"])
        assert_allclose(maps[:, :-1][np.tril_indices(12)], common[cells][np.tril_indices(12)], atol=0.005)
        assert_allclose(maps[:, 1:][np.triu_indices(12)], remaining[cells][np.triu_indices(12)], atol=0.005)
        assert_allclose(view["common"], (L / np.sqrt(S.diagonal())[:, None]).T, atol=6e-4)


def test_without_common_factors_there_is_nothing_shared(fitted: Any) -> None:
    model, X = fitted
    assert [(view["shared"], view["common"]) for view in components(subject_of(model, X))] == [(None, [])] * 3


def test_the_checkerboard_has_every_row_once_and_no_pixel_of_two_components(wine: Any) -> None:
    board = wine.data["checkerboard"]
    assert sorted(board["order"]) == list(range(178))
    assert (
        [wine.model.row_labels_[i] for i in board["order"]] == board["rowComponents"] == sorted(board["rowComponents"])
    )
    Z = ((wine.X - wine.X.mean()) / wine.X.std(ddof=0)).to_numpy()[board["order"]] / board["limit"]
    assert np.abs(pixels(board["pixels"]).reshape(178, 13) - np.clip(Z, -1, 1)).max() < 0.01


def test_missing_values_are_counted_by_column_and_component_and_stay_missing(missing: Any) -> None:
    is_missing, counts = missing.X.isna().to_numpy(), missing.data["gaps"]
    assert counts["cells"] == is_missing.sum() and counts["complete"] == (~is_missing.any(axis=1)).sum()
    assert [missing.X.columns[j] for j in counts["columns"]] == [name for name in missing.X.columns if name != "hue"]
    for g in range(3):
        rows = is_missing[missing.model.row_labels_ == g]
        assert counts["each"][g] == pytest.approx(rows.mean(axis=0)[counts["columns"]], abs=1e-4)
        assert counts["components"][g] == pytest.approx(rows.mean(), abs=1e-4)
    board = missing.data["checkerboard"]
    values = np.frombuffer(b64decode(board["pixels"]), np.uint8).reshape(178, 13)
    assert_array_equal(values == 255, is_missing[board["order"]])
    assert missing.data["map"] is not None and len(missing.data["rows"]["certainty"]["next"]) == 178


def test_differences_are_the_formula(fitted: Any) -> None:
    model, _ = fitted
    section = differences(subject_of(model))
    assert section is not None
    pi, mu = model.weights_, model.means_
    within = np.sqrt(sum(pi[g] * model.covariances_[g].diagonal() for g in range(3)))
    for g in range(3):
        others = [h for h in range(3) if h != g]
        rest = sum(pi[h] * mu[h] for h in others) / sum(pi[h] for h in others)
        assert_allclose(section["columns"][g], (mu[g] - rest) / within, atol=6e-4)
        assert_allclose(section["means"][g], mu[g], rtol=6e-4)


def test_group_scores_do_not_depend_on_the_signs_of_columns(fitted: Any) -> None:
    # Red if columns that go against their group cancel it.
    model, X = fitted
    turned = GaussianBiclustering(3, 2, init=model.row_labels_, random_state=0).fit(X * [1, -1, 1, -1, -1, 1])
    scores = [np.array(differences(subject_of(m))["groups"][0]) for m in (model, turned)]
    assert scores[0].shape == (sum(len(group) > 1 for group in model.blocks_[0].partition.groups), 3)
    assert_allclose(np.abs(scores[0]), np.abs(scores[1]), atol=1e-3)


def test_the_axes_are_those_of_linear_discriminant_analysis() -> None:
    # One covariance for all and one group: the model of LDA; clusters so far apart that EM keeps the classes.
    X, z = three_clusters(1)
    model = Fit(3, 1, shared_covariance=True, init=z, block_model="full", rounding=False).fit(X)
    assert_array_equal(model.row_labels_, z)
    section = row_map(subject_of(model, X))
    assert section is not None
    assert [name.split(",")[0] for name in section["names"]] == ["discriminant axis 1", "discriminant axis 2"]
    places = np.stack([unpacked(section["x"]), unpacked(section["y"])], axis=1)
    expected = LinearDiscriminantAnalysis(n_components=2).fit(X, z).transform(X)
    inside = ((places > 0) & (places < 1)).all(axis=1)
    for k in range(2):
        assert abs(np.corrcoef(places[inside, k], expected[inside, k])[0, 1]) > 0.9999


def test_where_components_are_too_few_the_axes_are_principal(fitted: Any) -> None:
    X, _ = three_clusters()
    section = row_map(subject_of(BlockDiagonalCovariance(2).fit(X), X))
    assert section is not None
    expected = PCA(2).fit_transform((X - X.mean(axis=0)) / X.std(axis=0))
    for k, axis in enumerate(("x", "y")):
        assert abs(np.corrcoef(unpacked(section[axis]), expected[:, k])[0, 1]) > 0.999
        assert section["names"][k].startswith(f"principal axis {k + 1}")
    two = row_map(subject_of(GaussianBiclustering(2, 2, random_state=0).fit(X), X))
    assert two is not None and [name.split(",")[0] for name in two["names"]] == [
        "discriminant axis 1",
        "principal axis 1",
    ]
    alike = copy(fitted[0])
    alike.means_ = np.zeros_like(alike.means_)
    section = row_map(subject_of(alike, X))
    assert section is not None and [name.split()[0] for name in section["names"]] == ["principal", "principal"]


def test_an_outlier_does_not_squeeze_the_map(fitted: Any) -> None:
    model, X = fitted
    section = row_map(subject_of(model, np.vstack([X, X[:1] + 1e6])))
    assert section is not None and section["beyond"] == 1
    assert np.ptp(unpacked(section["x"])[:-1]) > 0.5


def test_certainty_is_that_of_the_model() -> None:
    X, labels = three_clusters(apart=0.8)
    model = GaussianBiclustering(3, 2, init=labels, random_state=0).fit(X)
    section = row_list(subject_of(model, X))
    assert section is not None
    certainty, z = section["certainty"], np.sort(model.predict_proba(X), axis=1)
    assert_allclose(unpacked(certainty["own"]), z[:, -1], atol=1e-5)
    assert_allclose(unpacked(certainty["nextOwn"]), z[:, -2], atol=1e-5)
    assert_array_equal(model.predict_proba(X)[np.arange(len(X)), certainty["next"]], z[:, -2])


def test_distances_are_those_of_the_fit_and_of_no_other_rows(fitted: Any) -> None:
    model, X = fitted
    section = row_list(subject_of(model, X))
    assert section is not None
    assert_allclose(section["far"]["scores"], model.outlier_scores_, rtol=1e-3)
    assert section["far"]["groups"] == model.outlier_groups_.tolist()
    assert section["far"]["outliers"] == np.flatnonzero(model.outliers_).tolist()
    other = row_list(subject_of(model, X[::-1]))
    assert other is not None and other["far"] is None

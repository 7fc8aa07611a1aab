"""Models saved by version 0.1 load and predict what they did then."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from stored import tampered

import blockmix

FOLDER = Path(__file__).parent / "version_0_1"
EXPECTED = np.load(FOLDER / "expected.npz", allow_pickle=False)
TEXTS = ["good food staff pool", "dirty bathroom smell room", "nice food staff room", "bad bathroom smell pool"]


@pytest.mark.parametrize("name", ["mixture", "shared", "float32", "factor", "wide"])
def test_a_mixture_has_its_densities(name: str) -> None:
    expected, X = EXPECTED[name], EXPECTED["W" if name == "wide" else "X"]
    found = blockmix.load(FOLDER / f"{name}.blockmix").score_samples(X.astype(expected.dtype))
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-12 if found.dtype == np.float64 else 1e-5)


def test_a_covariance_has_its_distances() -> None:
    model = blockmix.load(FOLDER / "covariance.blockmix")
    np.testing.assert_allclose(model.mahalanobis(EXPECTED["X"]), EXPECTED["covariance"], rtol=1e-12)


def test_the_shrinkage_of_a_covariance_stays_with_its_group(tmp_path: Path) -> None:
    # Version 0.1 numbered groups by first column. Red if the numbers of a file are taken as those of groups by size.
    X = np.random.default_rng(0).standard_normal((40, 3))
    model = blockmix.BlockDiagonalCovariance(2).fit(X @ np.array([[1, 0, 0], [0, 1, 1], [0, 0, 1]]))
    assert model.column_labels_.tolist() == [1, 0, 0]
    model.shrinkage_ = np.array([0.0, 0.5])  # of column 0, and of columns 1 and 2
    path = tampered(tmp_path, lambda document: document["state"].pop("block_shapes_"), model=model)
    assert blockmix.load(path).shrinkage_.tolist() == [0.5, 0.0]


def test_topics_have_their_documents() -> None:
    model = blockmix.load(FOLDER / "topics.blockmix")
    np.testing.assert_array_equal(model.predict(TEXTS * 15), EXPECTED["topics"])
    np.testing.assert_array_equal(model.labels_, EXPECTED["topics"])
    assert model.topics_[0].top_groups == ("pool, room, bathroom",)


def test_every_file_is_compared() -> None:
    # Red if a file is added and nothing says what it should predict.
    assert {path.stem for path in FOLDER.glob("*.blockmix")} == set(EXPECTED.files) - {"X", "W"}


def test_parameters_come_back() -> None:
    shared = blockmix.load(FOLDER / "shared.blockmix")
    assert isinstance(shared.random_state, np.random.RandomState)
    assert (shared.n_column_groups.gamma, shared.shared_covariance) == (0.5, True)
    assert len({id(block) for block in shared.blocks_}) == 1
    assert blockmix.load(FOLDER / "covariance.blockmix").n_groups.candidates == range(2, 5)
    assert blockmix.load(FOLDER / "wide.blockmix").grouping.max_sweeps == 100

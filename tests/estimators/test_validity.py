"""Validity: a file whose numbers form no model is refused, with the attribute that is wrong."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stored import X, members_of, refusal, set_in, tampered

from blockmix import BlockDiagonalCovariance, FactorBiclustering, GaussianBiclustering, TopicBiclustering, load

TEXTS = ["good food staff pool", "dirty bathroom smell room", "nice food staff room", "bad bathroom smell pool"] * 10
MODELS: dict[str, Callable[[], Any]] = {
    "mixture": lambda: GaussianBiclustering(2, 3, random_state=0).fit(X),
    "shared": lambda: GaussianBiclustering(2, 3, shared_covariance=True, random_state=0).fit(X),
    "float32": lambda: GaussianBiclustering(2, 3, shared_covariance=True, random_state=0).fit(X.astype(np.float32)),
    "steps": lambda: GaussianBiclustering(2, 3, random_state=0).fit(np.round(X)),
    "shapes": lambda: GaussianBiclustering(1, 1, block_model=1, random_state=0).fit(X),
    "factor": lambda: FactorBiclustering(2, 3, random_state=0).fit(X),
    "covariance": lambda: BlockDiagonalCovariance(3).fit(X[:30]),
    "topics": lambda: TopicBiclustering(2, 3, random_state=0).fit(TEXTS),
}


@cache
def model(name: str) -> Any:
    return MODELS[name]()


def packed(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def with_array(name: str, where: str, change: Callable[[np.ndarray], np.ndarray], folder: Path) -> Path:
    """A saved model in which the array at that place of the document is another one."""
    model(name).save(folder / "honest")
    members = members_of(folder / "honest")
    node = json.loads(members["model.json"])["state"]
    for key in where.split("/"):
        node = node[int(key) if key.isdigit() else key]
    member = f"arrays/{node['place']}.npy"
    array = change(np.load(io.BytesIO(members[member])).copy())
    return tampered(folder, members={member: packed(array)}, model=model(name))


def at(place: Any, value: float) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        array[place] = value
        return array

    return change


MIXTURE, BLOCK = "_parameters", "_parameters/covariances/items/0/factors/items/0"


@pytest.mark.parametrize(
    ("name", "where", "change", "sentence"),
    [
        ("mixture", f"{MIXTURE}/weights", at(0, np.nan), "weights are no vector of finite numbers"),
        ("mixture", f"{MIXTURE}/weights", lambda w: w[:1], "weights are negative or sum to 0.5 instead of 1"),
        ("mixture", f"{MIXTURE}/weights", lambda w: np.append(w, 0), "means are no finite numbers for 3 components"),
        ("mixture", f"{MIXTURE}/weights", lambda w: np.array([-1.0, 2.0]), "weights are negative or sum to 1"),
        ("mixture", f"{MIXTURE}/means", at((0, 1), np.inf), "means are no finite numbers for 2 components"),
        ("mixture", f"{MIXTURE}/means", lambda m: m.T, "means are no finite numbers for 2 components"),
        ("mixture", f"{MIXTURE}/means", lambda m: m[:, :5], "a covariance does not suit means of 5 columns"),
        ("mixture", f"{MIXTURE}/means", lambda m: m.astype("f4"), "weights_ or means_ are not those of the mixture"),
        ("shared", BLOCK, at((0, 1, 1), np.nan), "blocks are no finite numbers of shape (3, 2, 2)"),
        ("shared", BLOCK, at((0, 1, 1), 0), "a block is not positive definite"),
        ("shared", BLOCK, at((0, 1, 1), -1), "a block is not positive definite"),
        ("shared", BLOCK, at((0, 1, 0), 1e200), "a block is not positive definite"),
        ("shared", BLOCK, at((0, 0, 1), 0.5), "a Cholesky factor is not lower triangular"),
        ("shared", BLOCK, lambda L: L[:2], "blocks are no finite numbers of shape (3, 2, 2)"),
        ("shared", f"{MIXTURE}/covariances/items/0/partition/labels", lambda a: a[:5], "a covariance has 1 sizes of "),
        ("float32", BLOCK, at((0, 0, 0), 1e-100), "a covariance is beyond the range of means_"),
        ("float32", BLOCK, at((0, 1, 1), 1e100), "a covariance is beyond the range of means_"),
        ("mixture", "row_labels_", at(0, 2), "row_labels_ holds impossible labels"),
        ("mixture", "row_labels_", at(0, -1), "row_labels_ holds impossible labels"),
        ("mixture", "row_labels_", lambda a: a.astype(float), "row_labels_ holds impossible labels"),
        ("steps", "resolution_/columns", at(-1, 6), "resolution_ is not that of 6 columns"),
        ("steps", "resolution_/columns", at(-1, -1), "the resolution has no columns"),
        ("steps", "resolution_/columns", lambda a: a[::-1], "the resolution does not belong to columns in order"),
        ("steps", "resolution_/first", at(-1, 10**6), "the resolution has no columns"),
        ("steps", "resolution_/first", lambda a: a.astype(float), "the resolution has no columns"),
        ("steps", "resolution_/first", at(1, 0), "the resolution does not belong to columns in order"),
        ("steps", "resolution_/variances", at(0, -1), "the resolution holds other than finite numbers"),
        (
            "shapes",
            f"{MIXTURE}/block_states/items/0/1",
            at((0, 1), -1),
            "the state of block 0 does not suit its 6 columns",
        ),
        (
            "shapes",
            f"{MIXTURE}/block_states/items/0/1",
            lambda a: a[:5],
            "the state of block 0 does not suit its 6 columns",
        ),
        ("factor", f"{MIXTURE}/factors", at((0, 0), -0.1), "factor variances are not all ≥ 0"),
        ("factor", f"{MIXTURE}/noise", at((0, 0), 0), "noise variances are not all > 0"),
        ("factor", f"{MIXTURE}/labels", at((0, 0), 3), "groups of columns are not 0 … 2"),
        ("factor", f"{MIXTURE}/means", lambda m: m + 1, "weights_ or means_ are not those of the mixture"),
        ("factor", "scale_", at(2, 0), "scale_ is not above 0"),
        ("factor", "location_", lambda a: a[:5], "location_ has shape (5,) instead of (6,)"),
        ("covariance", "location_", at(0, np.nan), "location_ holds other than finite numbers"),
        ("covariance", "shrinkage_", lambda a: a[:2], "shrinkage_ is not one number per group"),
        ("covariance", "linkage_", lambda a: a[:, :3], "linkage_ is no tree of the columns"),
        ("topics", "components_", lambda a: np.zeros_like(a), "components_ does not name each component once"),
        ("topics", "importance_", lambda a: a.T, "importance_ is not a table of topics and groups"),
        ("topics", "_lexicon/1", at(0, np.nan), "there are not 10 weights of terms"),
        ("topics", "_lexicon/2", at(0, 10), "the terms are not in the vocabulary"),
        ("topics", "_group_means", at(0, 0), "a group of terms has no weight"),
    ],
)
def test_an_impossible_array_is_refused(
    name: str, where: str, change: Callable[[np.ndarray], np.ndarray], sentence: str, tmp_path: Path
) -> None:
    assert refusal(with_array(name, where, change, tmp_path)).startswith(f"is damaged (ValueError: {sentence}")


@pytest.mark.parametrize(
    ("name", "where", "value", "sentence"),
    [
        ("mixture", "n_features_in_", 5, "n_features_in_ is not 6"),
        ("mixture", "n_features_in_", "6", "n_features_in_ is a str"),
        ("mixture", "n_iter_", None, "n_iter_ is a NoneType"),
        ("mixture", "_parameters", 3, "there is no mixture"),
        ("mixture", "means_", [[0.0] * 6] * 2, "means_ holds other than finite numbers"),
        ("steps", "resolution_", None, "resolution_ is not that of 6 columns"),
        (
            "shapes",
            "_parameters/block_models",
            {"$": "tuple", "items": [[]]},
            "there is not one shape for each of the 1",
        ),
        ("shapes", "_parameters/block_models/items/0/items/0/n_factors", 0, "a block has 0 factors"),
        ("factor", "_letters", "UCUX", "model='UCUX' must be four letters"),
        ("covariance", "blocks_", {"$": "Partition", "labels": {"$": "array", "place": 1}}, "blocks_ has other groups"),
        ("topics", "topics_", [], "there are not 2 topics and 3 groups of terms"),
        ("topics", "_lexicon", [["good"] * 10, *[None] * 3], "the terms are not in the vocabulary"),
    ],
)
def test_an_impossible_value_is_refused(name: str, where: str, value: Any, sentence: str, tmp_path: Path) -> None:
    path = tampered(tmp_path, lambda document: set_in(document, f"state/{where}", value), model=model(name))
    assert refusal(path).startswith(f"is damaged (ValueError: {sentence}")


@pytest.mark.parametrize("attribute", ["weights_", "means_", "row_labels_", "n_features_in_", "_parameters"])
def test_a_part_of_a_fit_is_refused(attribute: str, tmp_path: Path) -> None:
    path = tampered(tmp_path, lambda document: document["state"].pop(attribute))
    assert refusal(path) == f"is damaged (ValueError: {attribute} missing): save the model again"


def test_an_attribute_of_the_user_does_not_make_a_fit(tmp_path: Path) -> None:
    own = GaussianBiclustering(2)
    own.note = "not fitted yet"  # type: ignore[attr-defined]
    own.save(tmp_path / "model")
    assert load(tmp_path / "model").note == "not fitted yet"


def test_topics_of_documents_without_terms_are_valid(tmp_path: Path) -> None:
    with pytest.warns(match="none of the 10 terms"):
        fitted = TopicBiclustering(2, 3, random_state=0).fit([*TEXTS, "12", "!"])
    assert fitted.labels_[-2:].tolist() == [-1, -1]
    fitted.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").labels_, fitted.labels_)


def test_rows_of_any_scale_make_a_valid_model(tmp_path: Path) -> None:
    # Red if a covariance were judged by its size: columns of 1e-120 and 1e120 are as good as others.
    scales = np.array([1e-120, 1.0, 1e120, 1e-9, 1.0, 1e9])
    for shared in (False, True):
        fitted = GaussianBiclustering(2, 3, shared_covariance=shared, random_state=0).fit(X * scales)
        fitted.save(tmp_path / "model")
        np.testing.assert_array_equal(load(tmp_path / "model").predict(X * scales), fitted.row_labels_)


def test_a_singular_covariance_makes_a_valid_model(tmp_path: Path) -> None:
    # Copies of a column, where a Cholesky factor is as near to singular as it gets.
    copies = np.repeat(X[:, :2], 5, axis=1)
    for rows in (copies, copies.astype(np.float32)):
        fitted = BlockDiagonalCovariance(1, ridge=0).fit(rows)
        fitted.save(tmp_path / "model")
        np.testing.assert_array_equal(load(tmp_path / "model").mahalanobis(rows), fitted.mahalanobis(rows))

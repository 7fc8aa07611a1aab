"""Laws of saved models: what is loaded equals what was saved, and a file whose numbers form no model is refused."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from stored import MODELS, TEXTS, X, members_of, model, refusal, same, tampered

import blockmix
from blockmix import BlockDiagonalCovariance, GaussianBiclustering, TopicBiclustering, load
from blockmix.estimators.models import ESTIMATORS
from blockmix.grouping import HierarchicalGrouping, Proposal, RelaxedGrouping, SilhouetteRule
from blockmix.partition import Partition

LABELS = np.repeat([0, 1], 30)


def again(fitted: Any, folder: Path) -> Any:
    fitted.save(folder / "model")
    return load(folder / "model")


@pytest.mark.parametrize("name", MODELS)
def test_a_model_comes_back_as_it_was(name: str, tmp_path: Path) -> None:
    fitted, rows = model(name), MODELS[name][1]
    found = again(fitted, tmp_path)
    assert type(found) is type(fitted)
    for attribute in set(vars(fitted)) - {"_lexicon"}:
        assert same(getattr(found, attribute), getattr(fitted, attribute)), attribute
    assert set(vars(found)) == set(vars(fitted))
    for method in {"predict_proba", "score_samples", "bic", "mahalanobis", "transform"} & set(dir(fitted)):
        assert same(getattr(found, method)(rows), getattr(fitted, method)(rows)), method
    for attribute in {"column_labels_", "covariances_", "n_parameters_", "blocks_", "loadings_"} & set(dir(fitted)):
        assert same(getattr(found, attribute), getattr(fitted, attribute)), attribute
    text = "summary" if name == "topics" else "describe"
    assert getattr(found, text)() == getattr(fitted, text)()


@pytest.mark.parametrize(
    "given",
    [
        {"n_column_groups": np.array([3, 3]), "random_state": np.int64(3)},
        {"n_column_groups": SilhouetteRule(candidates=range(2, 4)), "init": LABELS},
        {"n_column_groups": (6, 1), "grouping": HierarchicalGrouping("complete"), "init": ["a"] * 30 + ["b"] * 30},
        {"grouping": RelaxedGrouping(n_init=2, random_state=2), "init": np.eye(2)[LABELS]},
    ],
)
def test_parameters_come_back_as_they_were(given: dict[str, Any], tmp_path: Path) -> None:
    found = again(GaussianBiclustering(2, **given), tmp_path)
    assert same(found.get_params(), GaussianBiclustering(2, **given).get_params())
    with pytest.raises(NotFittedError):
        found.predict(X)
    assert same(again(GaussianBiclustering(2, init=pd.Series(LABELS)), tmp_path).init, LABELS)


def test_column_names_come_back(tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "ß", "d e", '"', "\ud800"])
    found = again(GaussianBiclustering(2, random_state=0).fit(frame), tmp_path)
    assert found.feature_names_in_.tolist() == list(frame.columns)
    with pytest.raises(ValueError, match="feature names should match"):
        found.predict(frame.rename(columns={"a": "z"}))


def test_a_shared_covariance_is_one_object_again(tmp_path: Path) -> None:
    assert again(model("shared"), tmp_path)._parameters.blocks.layout.n_sharing == 2


def test_load_knows_every_public_estimator() -> None:
    # Red if an estimator is added that load would refuse.
    public = [getattr(blockmix, name) for name in blockmix.__all__]
    assert {cls.__name__ for cls in public if isinstance(cls, type) and hasattr(cls, "save")} == set(ESTIMATORS)


def test_attributes_of_scikit_learn_and_of_the_user(tmp_path: Path) -> None:
    unfitted = GaussianBiclustering(2)
    unfitted.note = "not fitted yet"  # type: ignore[attr-defined]
    unfitted._metadata_request = object()  # what set_fit_request leaves where routing is on
    assert again(unfitted, tmp_path).note == "not fitted yet"


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    # Red if the members had the time of their writing.
    model().save(tmp_path / "a")
    load(tmp_path / "a").save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_file_is_arrays_and_text(tmp_path: Path) -> None:
    model().save(tmp_path / "model")
    document, *members = members_of((tmp_path / "model").read_bytes()).values()
    content = json.loads(document)["content"]
    assert (content["$"], content["n_components"]) == ("GaussianBiclustering", 2)
    arrays = [np.load(io.BytesIO(member), allow_pickle=False) for member in members]
    assert np.array_equal(arrays[content["means_"]["place"]], model().means_)


class Custom(GaussianBiclustering):
    """A class that is not of this package."""


@dataclass(frozen=True)
class Thirds:
    """A user's grouping: neighbouring columns, `size` at a time."""

    size: int = 2

    def group(self, S: np.ndarray, n_groups: int, n_rows: float) -> Proposal:
        return Proposal(Partition(np.arange(len(S)) // self.size))


class Halves(SilhouetteRule):
    """A user's rule, after one of ours."""

    def choose(self, S: np.ndarray, n_rows: float, grouping: Any, **others: Any) -> Proposal:
        return grouping.group(S, 2, n_rows)


class Alone:
    """A user's grouping without any settings."""

    def group(self, S: np.ndarray, n_groups: int, n_rows: float) -> Proposal:
        return Proposal(Partition.separate(len(S)))


@pytest.mark.parametrize(
    ("fitted", "cls", "settings"),
    [
        (GaussianBiclustering(2, 2, grouping=Thirds(3), random_state=0), Thirds, {"size": 3}),
        (GaussianBiclustering(2, 6, grouping=Alone(), random_state=0), Alone, {}),
        (GaussianBiclustering(2, Halves([2, 3]), random_state=0), Halves, {"candidates": [2, 3]}),
        (BlockDiagonalCovariance(3, grouping=Thirds()), Thirds, {"size": 2}),
    ],
)
def test_groupings_and_rules_of_a_user_come_back(fitted: Any, cls: type, settings: Any, tmp_path: Path) -> None:
    fitted.fit(X).save(tmp_path / "model")
    assert refusal(tmp_path / "model") == (
        f"holds a '{cls.__name__}', which this version of blockmix does not know: update blockmix, or hand a class of "
        "your own to load(path, classes=[...])"
    )
    found = load(tmp_path / "model", classes=[cls])
    assert same(found.column_labels_, fitted.column_labels_) and found.score(X) == fitted.score(X)
    (loaded,) = [value for value in found.get_params(deep=False).values() if type(value) is cls]
    assert settings.items() <= vars(loaded).items()


class Secretive(Alone):
    """A grouping that cannot be built again from its attributes."""

    def __init__(self, size: int) -> None:
        self.columns = [size]


UNSAVED = "which cannot be saved"


@pytest.mark.parametrize(
    ("unfitted", "sentence"),
    [
        (Custom(), "Custom is not an estimator of blockmix, so load would not know it: pickle it instead"),
        (GaussianBiclustering(grouping=Secretive(3)), f"grouping holds a Secretive, {UNSAVED}: give numbers, arrays"),
        (
            GaussianBiclustering(grouping=type("GreedyGrouping", (Alone,), {})()),
            f"grouping holds a GreedyGrouping, {UNSAVED}",
        ),
        (GaussianBiclustering(2, SilhouetteRule(iter([2]))), f"n_column_groups holds a list_iterator, {UNSAVED}"),
        (GaussianBiclustering(init=np.array([1, None])), f"init holds a ndarray, {UNSAVED}"),
        (GaussianBiclustering(init=np.array([1j])), f"init holds a ndarray, {UNSAVED}"),
        (GaussianBiclustering(tol=np.longdouble(1)), f"tol holds a longdouble, {UNSAVED}"),
        (GaussianBiclustering(random_state=np.random.RandomState(0)), f"random_state holds a RandomState, {UNSAVED}"),
    ],
)
def test_what_cannot_be_loaded_is_not_saved(unfitted: Any, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError) as caught:
        unfitted.save(tmp_path / "model")
    assert str(caught.value).startswith(sentence)
    assert os.listdir(tmp_path) == []


def put(place: Any, value: float) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        array[place] = value
        return array

    return change


UNKNOWN = "which this version of blockmix does not know"
WEIGHTS, MEANS, BLOCKS = "_parameters/weights", "_parameters/means", "_parameters/blocks/factors"


@pytest.mark.parametrize(
    ("name", "path", "value", "sentence"),
    [
        # Objects of other classes, and attributes that are not data.
        ("mixture", "$", "os.system", f"holds a 'os.system', {UNKNOWN}"),
        ("mixture", "$", ["GaussianBiclustering"], "TypeError: "),
        ("mixture", "grouping", {"$": "Path", "path": "x"}, f"holds a 'Path', {UNKNOWN}"),
        ("mixture", "grouping", {"$": "GreedyGrouping", "x": 1}, "TypeError: "),
        ("mixture", "grouping", {"class": "GreedyGrouping"}, "KeyError: "),
        ("mixture", "tol", {"$": "scalar", "type": "O", "value": 1}, "ValueError: 'O' is not a type of numbers"),
        ("mixture", "__class__", 1, "ValueError: '__class__' is not a fitted attribute"),
        ("mixture", "n_parameters_", 3, "ValueError: 'n_parameters_' is not a fitted attribute"),
        ("mixture", "means_", {"$": "array", "place": 99}, "KeyError: "),
        # Mixtures.
        ("mixture", WEIGHTS, put(0, np.nan), "weights are not a vector of finite numbers"),
        ("mixture", WEIGHTS, lambda w: w[:1], "weights are negative or sum to 0.5 instead of 1"),
        ("mixture", WEIGHTS, lambda w: np.array([-1.0, 2.0]), "weights are negative or sum to 1"),
        ("mixture", MEANS, put((0, 1), np.inf), "means are not finite numbers for 2 components"),
        ("mixture", MEANS, lambda m: m[:, :5], "the covariances are not those of 2 components and 5 columns"),
        ("mixture", MEANS, lambda m: m.astype("f4"), "parameters are not in double precision"),
        ("steps", BLOCKS, put(3, np.nan), "blocks are not 26 finite numbers"),
        ("steps", BLOCKS, put(3, 0), "a block is not positive definite"),
        ("steps", BLOCKS, put(2, 1e200), "a block is not positive definite"),
        ("steps", BLOCKS, put(1, 0.5), "a Cholesky factor is not lower triangular"),
        ("mixture", "_parameters/blocks/labels", put((0, 0), 6), "groups are not labels of columns"),
        ("mixture", "_parameters/blocks/labels", lambda a: a[:, :0], "groups are not labels of columns"),
        ("tails", "_parameters/degrees_of_freedom", put(0, 0), "degrees of freedom are not above 0"),
        ("mixture", "row_labels_", put(0, 2), "row_labels_ holds impossible labels"),
        ("mixture", "n_values_", put(0, 7), "IndexError: "),
        ("mixture", "n_features_in_", 5, "n_features_in_ is not 6"),
        ("mixture", "n_iter_", None, "n_iter_ is a NoneType"),
        ("mixture", "_parameters", 3, "AttributeError: "),
        ("mixture", "means_", [[0.0] * 6] * 2, "means_ holds other than finite numbers"),
        ("steps", "resolution_", None, "resolution_ is a NoneType"),
        ("steps", "resolution_/columns", put(-1, 6), "resolution_.columns holds impossible labels"),
        ("steps", "resolution_/columns", lambda a: a[::-1], "the resolution does not belong to columns in order"),
        ("steps", "resolution_/first", put(-1, 10**6), "the resolution has no columns"),
        ("steps", "resolution_/first", lambda a: a.astype("u8"), "the resolution has no columns"),
        ("steps", "resolution_/variances", put(0, -1), "the resolution holds other than finite numbers"),
        (
            "shapes",
            "_parameters/blocks/states/items/0/1",
            put((0, 1), -1),
            "the state of block 0 does not suit its 6 columns",
        ),
        ("shapes", "_parameters/blocks/states/items/0/0", 1, "the state of block 1 holds other than finite numbers"),
        ("shapes", "_parameters/blocks/shapes/items", [[]], "there is not one shape for each block"),
        ("shapes", "_parameters/blocks/shapes/items/0/items/0/n_factors", 0, "no factors"),
        # Factors, covariances and topics.
        ("factor", "_parameters/factor_variances", put((0, 0), -0.1), "factor variances are not all ≥ 0"),
        ("factor", "_parameters/noise", put((0, 0), 0), "noise variances are not all > 0"),
        ("factor", "_parameters/labels", put((0, 0), 3), "groups of columns are not 0 … 2"),
        ("factor", "scale_", put(2, 0), "a block of 2 columns has no positive definite covariance"),
        ("factor", "location_", lambda a: a[:5], "location_ has shape (5,) instead of (6,)"),
        ("factor", "_letters", "UCUX", "model='UCUX' must be four letters"),
        ("covariance", "location_", put(0, np.nan), "location_ holds other than finite numbers"),
        ("covariance", "partition_/labels", lambda a: a[:3], "partition_.labels has shape (3,) instead of (6,)"),
        ("covariance", "blocks_/factors", lambda L: L[:2], "blocks are not 12 finite numbers"),
        ("covariance", "blocks_/factors", lambda L: L.astype("f4"), "blocks are not 12 finite numbers"),
        ("topics", "topics_", [], "IndexError: "),
        ("topics", "_lexicon/idf", put(0, np.nan), "there are not 10 weights of terms"),
        ("topics", "_lexicon/columns", put(0, 10), "the terms are not in the vocabulary"),
        ("topics", "_lexicon/words/items/0", ["good"] * 10, "the vocabulary does not have 10 terms"),
    ],
)
def test_an_impossible_value_is_refused(name: str, path: str, value: Any, sentence: str, tmp_path: Path) -> None:
    kind = "" if ": " in sentence or sentence.startswith("holds a") else "ValueError: "
    expected = sentence if sentence.startswith("holds a") else f"is damaged ({kind}{sentence}"
    assert refusal(tampered(tmp_path, f"content/{path}", value, name)).startswith(expected)


def test_a_part_of_a_fit_is_refused(tmp_path: Path) -> None:
    fitted = clone(model("tails")).fit(X)
    del fitted.weights_
    fitted.save(tmp_path / "model")
    assert refusal(tmp_path / "model").startswith("is damaged (")


def test_documents_without_terms_and_rows_without_values_are_valid(tmp_path: Path) -> None:
    with pytest.warns(match="none of the 10 words"):
        fitted = TopicBiclustering(2, 3, random_state=0).fit([*TEXTS, "12", "!"])
    assert fitted.labels_[-2:].tolist() == [-1, -1]
    assert same(again(fitted, tmp_path).labels_, fitted.labels_)
    rows = np.concatenate([X, np.full((1, 6), np.nan)])
    mixture = GaussianBiclustering(2, 3, random_state=0).fit(rows)
    assert same(again(mixture, tmp_path).outliers_, mixture.outliers_)


def test_rows_of_any_scale_make_a_valid_model(tmp_path: Path) -> None:
    # Red if a covariance were judged by its size: columns of 1e-120 and 1e120 are as good as others.
    scales = np.array([1e-120, 1.0, 1e120, 1e-9, 1.0, 1e9])
    fitted = GaussianBiclustering(2, 3, random_state=0).fit(X * scales)
    assert same(again(fitted, tmp_path).predict(X * scales), fitted.row_labels_)


def test_a_singular_covariance_makes_a_valid_model(tmp_path: Path) -> None:
    # Copies of a column, where a Cholesky factor is as near to singular as it gets.
    copies = np.repeat(X[:, :2], 5, axis=1)
    for rows in (copies, copies.astype(np.float32)):
        fitted = BlockDiagonalCovariance(1, ridge=0).fit(rows)
        assert same(again(fitted, tmp_path).mahalanobis(rows), fitted.mahalanobis(rows))

"""Laws of saved models: what is loaded equals what was saved, and what would not load is not saved."""

from __future__ import annotations

import io
import json
import os
import pickle
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from blockmix.estimators.storable import Storable
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from stored import MODEL, X, members_of, refusal, same, set_in, tampered

import blockmix
from blockmix import BlockDiagonalCovariance, FactorBiclustering, GaussianBiclustering, load
from blockmix.estimators.models import ESTIMATORS
from blockmix.files import archive
from blockmix.files import archive as atomic
from blockmix.grouping import (
    BestCut,
    GreedyGrouping,
    HierarchicalGrouping,
    Proposal,
    RelaxedGrouping,
    SilhouetteRule,
)
from blockmix.partition import Partition

LABELS = np.repeat([0, 1], 30)


def again(model: Any, folder: Path) -> Any:
    model.save(folder / "model")
    return load(folder / "model")


def files(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


MODELS: dict[str, Callable[[], Any]] = {
    "default": lambda: GaussianBiclustering(2, random_state=0),
    "one component": lambda: GaussianBiclustering(random_state=0),
    "shared": lambda: GaussianBiclustering(3, 3, shared_covariance=True, random_state=0),
    "shared, one component": lambda: GaussianBiclustering(1, 2, shared_covariance=True, random_state=0),
    "per component": lambda: GaussianBiclustering(2, [2, 4], random_state=0),
    "tuple": lambda: GaussianBiclustering(2, (6, 1), random_state=0),
    "array": lambda: GaussianBiclustering(2, np.array([3, 3]), random_state=np.int64(3)),
    "rule": lambda: GaussianBiclustering(2, SilhouetteRule(candidates=range(2, 4)), random_state=0),
    "rule and grouping": lambda: GaussianBiclustering(2, BestCut(1), grouping=GreedyGrouping(9), random_state=0),
    "seeded grouping": lambda: GaussianBiclustering(
        2, 3, grouping=RelaxedGrouping(n_init=2, random_state=np.random.RandomState(2)), random_state=0
    ),
    "random state": lambda: GaussianBiclustering(2, random_state=np.random.RandomState(5)),
    "labels": lambda: GaussianBiclustering(2, 2, init=LABELS, random_state=0),
    "list of labels": lambda: GaussianBiclustering(2, 2, init=["a"] * 30 + ["b"] * 30, random_state=0),
    "responsibilities": lambda: GaussianBiclustering(2, init=np.eye(2)[LABELS], shrinkage=0.25, random_state=0),
    "starts": lambda: GaussianBiclustering(2, n_init=3, init="kmeans++", ridge=1e-4, random_state=1),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_mixture_comes_back_as_it_was(name: str, tmp_path: Path) -> None:
    model = MODELS[name]().fit(X)
    found = again(model, tmp_path)
    assert type(found) is type(model)
    assert same(found.get_params(), model.get_params())
    assert same(vars(found) | {"_parameters": None}, vars(model) | {"_parameters": None})
    for method in ("predict", "predict_proba", "score_samples", "bic", "aic", "icl"):
        assert same(getattr(found, method)(X), getattr(model, method)(X)), method
    for attribute in ("labels_", "column_labels_", "covariances_", "n_parameters_", "rows_", "columns_", "blocks_"):
        assert same(getattr(found, attribute), getattr(model, attribute)), attribute
    assert found.describe() == model.describe()
    assert same(found.sample(5), model.sample(5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert same(clone(found).fit(X).log_likelihood_trace_, clone(model).fit(X).log_likelihood_trace_)


def test_a_shared_covariance_is_one_object_again(tmp_path: Path) -> None:
    model = MODELS["shared"]().fit(X)
    assert len({id(block) for block in again(model, tmp_path).blocks_}) == 1


def test_float32_stays_float32(tmp_path: Path) -> None:
    model = GaussianBiclustering(2, random_state=0).fit(X.astype(np.float32))
    found = again(model, tmp_path)
    assert found.means_.dtype == np.float32
    assert same(found.predict_proba(X.astype(np.float32)), model.predict_proba(X.astype(np.float32)))


def test_a_fit_goes_on_after_loading(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GaussianBiclustering(2, init="random", random_state=0, max_iter=2, warm_start=True).fit(X)
        found = again(model, tmp_path)
        assert same(found.fit(X).log_likelihood_trace_, model.fit(X).log_likelihood_trace_)
    assert found.starts_[0][0] == "warm"


def test_names_of_columns_come_back(tmp_path: Path) -> None:
    import pandas as pd

    frame = pd.DataFrame(X, columns=["a", "b", "ß", "d e", '"', "\ud800"])
    model = GaussianBiclustering(2, random_state=0).fit(frame)
    found = again(model, tmp_path)
    assert same(found.feature_names_in_, model.feature_names_in_)
    assert same(found.predict_proba(frame), model.predict_proba(frame))
    with pytest.raises(ValueError, match="feature names should match"):
        found.predict(frame.rename(columns={"a": "z"}))


def test_a_series_of_labels_comes_back_as_an_array(tmp_path: Path) -> None:
    import pandas as pd

    found = again(GaussianBiclustering(2, init=pd.Series(LABELS)), tmp_path)
    assert same(found.init, LABELS)


@pytest.mark.parametrize(
    "model",
    [
        BlockDiagonalCovariance(),
        BlockDiagonalCovariance(1, block_model=2, correlation="spearman"),
        BlockDiagonalCovariance(3, grouping="greedy"),
        BlockDiagonalCovariance(BestCut(), grouping=HierarchicalGrouping("complete"), shrinkage="auto"),
        BlockDiagonalCovariance(2, assume_centered=True, random_state=np.random.RandomState(1)),
    ],
    ids=["auto", "factors", "greedy", "rules", "seeded"],
)
@pytest.mark.filterwarnings("ignore::blockmix.GroupingWarning")
def test_a_covariance_comes_back_as_it_was(model: BlockDiagonalCovariance, tmp_path: Path) -> None:
    model.fit(X[:30])
    model.save(tmp_path / "covariance")
    found = load(tmp_path / "covariance")
    assert same(found.get_params(), model.get_params())
    assert same(vars(found), vars(model))
    assert found.score(X) == model.score(X)
    assert same(found.mahalanobis(X), model.mahalanobis(X))


@pytest.mark.parametrize("cls", [BlockDiagonalCovariance, FactorBiclustering, GaussianBiclustering])
@pytest.mark.filterwarnings("ignore::blockmix.GroupingWarning")
def test_every_estimator_of_rows_can_be_saved(cls: Any, tmp_path: Path) -> None:
    model = cls(random_state=0).fit(X[:30])
    found = again(model, tmp_path)
    assert found.score(X) == model.score(X)
    assert set(vars(found)) == set(vars(model))


def test_load_knows_every_public_estimator() -> None:
    # Red if an estimator is added that load would refuse.
    public = [getattr(blockmix, name) for name in blockmix.__all__]
    assert {cls.__name__ for cls in public if isinstance(cls, type) and issubclass(cls, Storable)} == set(ESTIMATORS)


@pytest.mark.parametrize("name", MODELS)
def test_pickling_works_too(name: str) -> None:
    model = MODELS[name]().fit(X)
    found = pickle.loads(pickle.dumps(model))
    assert same(found.predict_proba(X), model.predict_proba(X))
    assert same(found.log_likelihood_trace_, model.log_likelihood_trace_)


def test_a_model_that_is_not_fitted_has_only_parameters(tmp_path: Path) -> None:
    found = again(GaussianBiclustering(3, "silhouette", tol=1e-9), tmp_path)
    assert (found.n_components, found.n_column_groups, found.tol) == (3, "silhouette", 1e-9)
    with pytest.raises(NotFittedError):
        found.predict(X)


def test_requests_for_metadata_do_not_stop_a_save(tmp_path: Path) -> None:
    model = clone(MODEL).fit(X)
    model._metadata_request = object()  # what set_fit_request leaves where routing is on
    assert same(again(model, tmp_path).predict(X), model.predict(X))


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    # Red if the members had the time of their writing.
    MODEL.save(tmp_path / "a")
    os.utime(tmp_path / "a")
    load(tmp_path / "a").save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_file_is_arrays_and_text(tmp_path: Path) -> None:
    MODEL.save(tmp_path / "model")
    document, *members = members_of(tmp_path / "model").values()
    document = json.loads(document)
    members = [np.load(io.BytesIO(member), allow_pickle=False) for member in members]
    assert {key: document[key] for key in ("format", "class", "blockmix")} == {
        "format": 1,
        "class": "GaussianBiclustering",
        "blockmix": "0.1.0",
    }
    assert document["parameters"]["n_components"] == 2
    assert any(np.array_equal(member, MODEL.means_) for member in members)


def broken(*arguments: object, **named: object) -> None:
    raise OSError("the disk is full")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    MODEL.save(tmp_path / "model")
    before = (tmp_path / "model").read_bytes()
    for place in (archive.npy, "write_array"), (atomic.os, "fsync"), (atomic.os, "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(*place, broken)
            with pytest.raises(OSError, match="the disk is full"):
                clone(MODEL).set_params(n_components=3).fit(X).save(tmp_path / "model")
        assert files(tmp_path) == ["model"]
        assert (tmp_path / "model").read_bytes() == before


def test_a_file_is_replaced_and_has_usual_rights(tmp_path: Path) -> None:
    (tmp_path / "usual").write_text("")
    (tmp_path / "model").write_text("old")
    MODEL.save(str(tmp_path / "model"))
    assert load(str(tmp_path / "model")).n_components == 2
    assert (tmp_path / "model").stat().st_mode == (tmp_path / "usual").stat().st_mode
    assert files(tmp_path) == ["model", "usual"]


def test_a_link_keeps_pointing_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "model")
    MODEL.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert load(tmp_path / "model").n_components == 2


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

    def choose(self, S: np.ndarray, n_rows: float, grouping: Any, squares: Any = None, price: Any = None) -> Proposal:
        return grouping.group(S, 2, n_rows)


class Alone:
    """A user's grouping without any settings."""

    def group(self, S: np.ndarray, n_groups: int, n_rows: float) -> Proposal:
        return Proposal(Partition.separate(len(S)))


@pytest.mark.parametrize(
    ("model", "cls", "settings"),
    [
        (GaussianBiclustering(2, 2, grouping=Thirds(3), random_state=0), Thirds, {"size": 3}),
        (GaussianBiclustering(2, 6, grouping=Alone(), random_state=0), Alone, {}),
        (GaussianBiclustering(2, Halves(gamma=0.5), random_state=0), Halves, {"candidates": None, "gamma": 0.5}),
        (BlockDiagonalCovariance(3, grouping=Thirds()), Thirds, {"size": 2}),
    ],
)
def test_groupings_and_rules_of_a_user_come_back(
    model: Any, cls: type, settings: dict[str, Any], tmp_path: Path
) -> None:
    model.fit(X).save(tmp_path / "model")
    assert refusal(tmp_path / "model") == (
        f"holds a '{cls.__name__}', which this version of blockmix does not know: update blockmix, or hand a class of "
        "your own to load(path, classes=[...])"
    )
    found = load(tmp_path / "model", classes=[cls])
    assert same(found.column_labels_, model.column_labels_) and found.score(X) == model.score(X)
    (own,) = [value for value in found.get_params(deep=False).values() if type(value) is cls]
    assert vars(own) == settings


class Secretive:
    """A grouping that cannot be built again from its attributes."""

    def __init__(self, size: int) -> None:
        self.columns = [size]

    def group(self, S: np.ndarray, n_groups: int, n_rows: float) -> Proposal:
        return Proposal(Partition.separate(len(S)))


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (Custom(), "Custom is not an estimator of blockmix, so load would not know it: pickle it instead"),
        (
            GaussianBiclustering(grouping=Secretive(3)),
            "grouping holds a Secretive, which cannot be saved: give",
        ),
        (
            GaussianBiclustering(grouping=type("GreedyGrouping", (Alone,), {})()),
            "grouping holds a GreedyGrouping, which cannot be saved: give numbers",
        ),
        (
            GaussianBiclustering(2, SilhouetteRule(iter([2]))),
            "n_column_groups holds a list_iterator, which cannot be saved",
        ),
        (GaussianBiclustering(init=np.array([1, None])), "init holds a ndarray, which cannot be saved"),
        (GaussianBiclustering(init=np.array([1j])), "init holds a ndarray, which cannot be saved"),
        (GaussianBiclustering(tol=np.longdouble(1)), "tol holds a longdouble, which cannot be saved"),
        (
            GaussianBiclustering(random_state=np.random.RandomState(np.random.PCG64(0))),
            "a RandomState on PCG64 cannot be saved: give random_state a whole number",
        ),
    ],
)
def test_what_cannot_be_loaded_is_not_saved(model: Any, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError) as caught:
        model.save(tmp_path / "model")
    assert str(caught.value).startswith(sentence)
    assert files(tmp_path) == []


def test_a_place_where_nothing_can_be_saved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is a folder: give the name of a file$"):
        MODEL.save(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"^the folder of .*model does not exist: make it first$"):
        MODEL.save(tmp_path / "none" / "model")
    assert files(tmp_path) == []


UNKNOWN = "which this version of blockmix does not know"


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        ("format", 2, "has format 2, this blockmix reads up to 1: update blockmix"),
        ("format", 0, "is damaged (ValueError: 0 is no format number): save the model again"),
        ("format", "1", "is damaged (ValueError: '1' is no format number): save the model again"),
        ("class", "os.system", f"holds a 'os.system', {UNKNOWN}"),
        ("class", "Partition", f"holds a 'Partition', {UNKNOWN}"),
        ("class", ["GaussianBiclustering"], "is damaged (TypeError: "),
        (
            "parameters/grouping",
            {"$": "GradientBoostingClassifier"},
            f"holds a 'GradientBoostingClassifier', {UNKNOWN}",
        ),
        ("parameters/grouping", {"$": "Path", "path": "x"}, f"holds a 'Path', {UNKNOWN}"),
        ("parameters/grouping", {"$": "GaussianBiclustering"}, f"holds a 'GaussianBiclustering', {UNKNOWN}"),
        ("parameters/grouping", {"$": "GreedyGrouping", "x": 1}, "is damaged (TypeError: "),
        ("parameters/grouping", {"class": "GreedyGrouping"}, "is damaged (KeyError: "),
        ("parameters/annealed", True, f"has a parameter 'annealed', {UNKNOWN}: update blockmix"),
        (
            "parameters/tol",
            {"$": "scalar", "type": "O", "value": 1},
            "is damaged (ValueError: 'O' is no type of a number)",
        ),
        ("state/__class__", 1, "is damaged (ValueError: '__class__' is no fitted attribute)"),
        ("state/n_parameters_", 3, "is damaged (ValueError: 'n_parameters_' is no fitted attribute)"),
        ("state/predict", 3, "is damaged (ValueError: 'predict' is no fitted attribute)"),
        ("state/n_components", 3, "is damaged (ValueError: 'n_components' is no fitted attribute)"),
        ("state/means_", {"$": "array", "place": 99}, "is damaged (KeyError: "),
        ("state/means_", {"$": "array", "place": "../../x"}, "is damaged (KeyError: "),
        ("state", None, "is damaged (AttributeError: "),
        ("state/_parameters/covariances", {"$": "tuple", "items": []}, "is damaged ("),
    ],
)
def test_a_document_that_was_tampered_with_is_refused(path: str, value: Any, sentence: str, tmp_path: Path) -> None:
    assert refusal(tampered(tmp_path, lambda document: set_in(document, path, value))).startswith(sentence)


@pytest.mark.parametrize(
    ("key", "value"), [("at", 625), ("at", -1), ("at", 10**9), ("key", {"$": "tuple", "items": []})]
)
def test_a_seed_beyond_its_numbers_is_refused(key: str, value: Any, tmp_path: Path) -> None:
    # NumPy takes any place, and would read the memory behind its numbers.
    model = GaussianBiclustering(random_state=np.random.RandomState(0))
    path = tampered(tmp_path, lambda document: set_in(document, f"parameters/random_state/{key}", value), model=model)
    assert refusal(path).startswith("is damaged (")


def test_a_file_from_before_a_parameter_was_added_is_read(tmp_path: Path) -> None:
    def older(document: dict[str, Any]) -> None:
        del document["parameters"]["warm_start"]
        document["note of a later version"] = "ignored"

    assert load(tampered(tmp_path, older)).warm_start is False

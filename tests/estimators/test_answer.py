"""Answer: sentences say what the arrays say, and what cannot be known is not given as a number."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from blockmix import BlockDiagonalCovariance, GaussianBiclustering, SelectionTable, load, select
from blockmix.estimators.answer import Centers, answer
from blockmix.estimators.resampling import quick_stability
from blockmix.estimators.tables import group_numbers, label_numbers, ranged

LABELS = np.repeat([0, 1, 2], [60, 40, 20])
NAMES = ["sad_1", "sad_2", "sad_3", "calm_1", "calm_2", "calm_3", "age"]


def rows(n_columns: int = 7) -> pd.DataFrame:
    """Three clusters: the second is sad, the third both sad and calm; two scales and a column alone."""
    rng = np.random.default_rng(0)
    common = np.repeat(rng.standard_normal((120, 2)), 3, axis=1)
    X = rng.standard_normal((120, 7)) + np.column_stack([1.2 * common, np.zeros(120)])
    X[LABELS > 0, :3] += 12
    X[LABELS == 2, 3:6] += 14
    return pd.DataFrame(X, columns=NAMES).iloc[:, :n_columns]


def quiet(model: Any, X: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X)


@pytest.fixture(scope="module")
def shared() -> GaussianBiclustering:
    return quiet(GaussianBiclustering(3, shared_covariance=True, init=LABELS, random_state=0), rows())


def test_the_answer_says_how_many_what_marks_each_and_what_goes_together(shared: GaussianBiclustering) -> None:
    lines = shared.describe().splitlines()
    assert lines[0] == "Three clusters of 60, 40 and 20 rows."
    assert lines[1].startswith("  Cluster 1 (60): low sad_1–3") and "calm" in lines[3]
    assert lines[4] == "Two column groups, the same in all clusters; one column is alone."
    assert lines[5:8] == ["  Group 1 (3): sad_1–3", "  Group 2 (3): calm_1–3", "  alone (1): age"]
    assert lines[8] == "100 % of the rows are clear: their cluster has a probability of at least 0.9."


def test_marks_are_the_columns_beyond_every_other_cluster_first(shared: GaussianBiclustering) -> None:
    centers, z = Centers.of(shared), shared.means_ / np.sqrt(shared.covariances_[0].diagonal())
    for g in range(3):
        others = np.delete(z, g, axis=0)
        singled = (z[g] > others.max(axis=0) + 0.5 - 1e-9) | (z[g] < others.min(axis=0) - 0.5 + 1e-9)
        assert np.array_equal(centers.singled[g], singled)
        for part, sign in zip(centers.marks(g, 9), (1, -1), strict=True):
            assert (sign * centers.apart[g, part] >= 0.5).all()
            keys = [(not singled[j], -abs(centers.apart[g, j])) for j in part]
            assert keys == sorted(keys)
    # Sad columns tell the third cluster from the first, calm ones from both: these come first.
    assert set(centers.marks(2, 3)[0]) == {3, 4, 5}


def test_of_two_clusters_one_is_the_opposite() -> None:
    model = quiet(GaussianBiclustering(2, init=LABELS > 0, random_state=0), rows())
    assert "  Cluster 2 (60): the opposite" in model.describe().splitlines()


@pytest.mark.parametrize("shared", [False, True])
def test_a_cluster_without_marks_varies_in_another_way_only_with_a_covariance_of_its_own(shared: bool) -> None:
    X, z = rows().to_numpy(), np.repeat([0, 1, 2], 40)
    X[LABELS == 1, :3] -= 12
    X[LABELS == 2] -= [12, 12, 12, 14, 14, 14, 0]
    X += 9.0 * (z - 1)[:, None]  # the second cluster lies halfway between the others in all columns
    said = quiet(GaussianBiclustering(3, shared_covariance=shared, init=z), X).describe()
    assert "no mean stands out" in said
    assert ("vary together in another way" in said) is not shared


def table_of(shared: GaussianBiclustering, counts: list[int], values: list[float]) -> SelectionTable:
    """A comparison of which only the numbers matter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = select(rows(), 1, random_state=0, max_iter=1).rows[0]
    made = [replace(first, n_components=n, bic=bic) for n, bic in zip(counts, values, strict=True)]
    return SelectionTable(tuple(made), "bic")


@pytest.mark.parametrize(
    ("values", "said"),
    [([100.0, 104.0, 190.0], "two are close (BIC +4)."), ([100.0, 190.0, 150.0], "three are worse (BIC +50).")],
)
def test_one_cluster_says_how_near_others_are(shared: GaussianBiclustering, values: list[float], said: str) -> None:
    model, table = quiet(GaussianBiclustering(1), rows()), table_of(shared, [1, 2, 3], values)
    assert answer(model, table=table).head == f"No clusters: one describes these 120 rows best; {said}"
    assert "as asked" in answer(model).head


def test_a_better_number_that_other_fits_do_not_find_is_told(shared: GaussianBiclustering) -> None:
    N, found = 120, [1, 2, 3, 2]
    labels = [np.arange(N) * G // N if G < 3 else np.arange(N) % G for G in found]  # the third crosses the others
    table = table_of(shared, found, [200.0, 111.0, 100.0, 112.0])
    models = [SimpleNamespace(row_labels_=each) for each in labels]
    rows_ = tuple(replace(row, model=model) for row, model in zip(table.rows, models, strict=True))
    table = SelectionTable(rows_, "bic", SimpleNamespace(sample_weight=None), True)
    assert table.best_.n_components == 2
    assert "largest gain in bic times agreement" in table.reason
    model = quiet(GaussianBiclustering(2, random_state=0), rows())
    assert answer(model, table=table).head.endswith("Three are better (BIC −11), but agree less with the other fits.")


def test_with_more_columns_than_rows_no_share_is_given() -> None:
    X = np.random.default_rng(0).standard_normal((20, 30))
    X[:10] += 4
    model = quiet(GaussianBiclustering(2, shared_covariance=True, random_state=0), X)
    text = model.describe()
    assert "cannot be known" in text and "%" not in text
    assert model.row_table(X)["probability"].isna().all()


def test_groups_of_own_covariances_are_listed_with_their_clusters() -> None:
    X = rows().to_numpy()
    X[:60] = X[:60][:, [0, 3, 1, 4, 2, 5, 6]]  # other columns go together in the first cluster
    model = quiet(GaussianBiclustering(2, init=LABELS > 0, random_state=0), X)
    said, numbers = answer(model), group_numbers(model)
    assert said.columns.startswith("Column groups differ between clusters: ")
    for group in said.groups:
        for g in group.clusters:
            assert set(np.flatnonzero(numbers[g] == group.number)) == set(group.columns)
            assert len({model.column_labels_[g, j] for j in group.columns}) == 1
    listed = [(g, j) for group in said.groups for g in group.clusters for j in group.columns]
    assert len(listed) == len(set(listed)) == (numbers >= 0).sum()


def test_names_are_kept_in_sentences_tables_and_files(tmp_path: Path) -> None:
    model = quiet(GaussianBiclustering(3, shared_covariance=True, init=LABELS, random_state=0), rows())
    model.names_ = {"cluster 2": "sad", "group 1": "sadness"}
    model.save(tmp_path / "m.blockmix")
    again = load(tmp_path / "m.blockmix")
    assert again.names_ == model.names_ and again.describe() == model.describe()
    assert "  sad (40)" in model.describe() and "  sadness (3)" in model.describe()
    assert again.column_table()["name"].tolist() == ["sadness"] * 3 + ["Group 2"] * 3 + ["alone"]
    assert set(again.row_table(rows())["name"]) == {"Cluster 1", "sad", "Cluster 3"}
    for wrong in ({"cluster 4": "x"}, {"cluster2": "x"}, ["a"]):
        model.names_ = wrong
        with pytest.raises(ValueError, match=r"names_ has .*: give a dict such as"):
            model.describe()


def test_tables_have_the_arrays_from_one(shared: GaussianBiclustering) -> None:
    X = rows().set_index(pd.Index([f"p{i}" for i in range(120)]))
    table = shared.row_table(X)
    assert table.index[3] == "p3" and (table["cluster"] == shared.row_labels_ + 1).all()
    assert_allclose(table["probability"], shared.predict_proba(X).max(axis=1))
    assert_allclose(table["outlier_score"], shared.outlier_scores_, rtol=1e-6)
    numbers = label_numbers(shared)
    assert (table["farthest_group"] == numbers[shared.row_labels_, shared.outlier_groups_]).all()
    columns = shared.column_table()
    assert list(columns) == ["column", "group", "size", "loading"] and len(columns) == 7
    own = quiet(GaussianBiclustering(2, random_state=0), rows()).column_table()
    assert own["cluster"].tolist() == [1] * 7 + [2] * 7
    covariance = quiet(BlockDiagonalCovariance(), rows()).column_table()
    assert "cluster" not in covariance and covariance["group"].min() == 1


def test_a_notebook_shows_text_and_no_markup_of_the_data() -> None:
    X = rows().rename(columns={"age": "<script>alert(1)</script>"})
    model = GaussianBiclustering(2, init=LABELS > 0)
    assert "GaussianBiclustering" in model._repr_html_()
    page = quiet(model, X)._repr_html_()
    assert set(re.findall(r"<(\w+)", page)) <= {"div", "p", "b", "table", "tr", "th", "td"}
    assert "&lt;script&gt;" in page and "Two clusters" in page
    assert "Two column groups" in quiet(BlockDiagonalCovariance(), rows())._repr_html_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shown = select(rows(), [1, 2], random_state=0)._repr_html_()
    assert "<pre>" in shown and "shared_covariance" in shown and "clusters of" in shown


@given(st.lists(st.tuples(st.sampled_from(["a", "b_", "x1y"]), st.integers(0, 12)), max_size=8))
def test_ranges_stand_for_their_names(parts: list[tuple[str, int]]) -> None:
    names = [f"{word}{number}" for word, number in parts]
    told = []
    for text in ranged(names):
        match = re.fullmatch(r"(.*?)(\d+)–(\d+)", text)
        told += [text] if match is None else [f"{match[1]}{k}" for k in range(int(match[2]), int(match[3]) + 1)]
    assert told == names


def test_resamples_unasked_end_where_they_take_long(shared: GaussianBiclustering) -> None:
    found = quick_stability(shared, rows())
    assert found is not None and (found.n_resamples, found.clusters) == (100, None)
    assert "All column groups are firm in 100 resamples of the rows." in shared.describe(found)
    wide = quiet(BlockDiagonalCovariance(), np.random.default_rng(0).standard_normal((8, 600)))
    assert quick_stability(wide, np.zeros((8, 600))) is None

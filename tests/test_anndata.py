"""AnnData: what a fit writes into it, and that a file keeps it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optional import package
from scipy import sparse

from blockmix import GaussianBiclustering
from blockmix import anndata as bridge
from blockmix.estimators.tables import group_numbers

anndata = package("anndata")


def cells(matrix: Any = np.asarray) -> Any:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 4)) + np.repeat(rng.standard_normal((120, 2)), 2, axis=1)
    X[:60] += 5
    adata = anndata.AnnData(matrix(X), layers={"double": matrix(2 * X)})
    adata.var_names = ["a", "b", "c", "d"]
    return adata


@pytest.mark.parametrize("matrix", [np.asarray, sparse.csr_matrix, sparse.csc_matrix])
def test_results_are_those_of_the_estimator(matrix: Any) -> None:
    adata = cells(matrix)
    model = bridge.fit(adata, 2, n_column_groups=2, random_state=0)
    expected = GaussianBiclustering(2, 2, random_state=0).fit(np.asarray(cells().X))
    assert adata.obs["blockmix"].astype(int).tolist() == (expected.row_labels_ + 1).tolist()
    assert list(adata.obs["blockmix"].cat.categories) == ["1", "2"]
    np.testing.assert_allclose(adata.obs["blockmix_probability"], expected.predict_proba(cells().X).max(axis=1))
    np.testing.assert_array_equal(adata.varm["blockmix_groups"], group_numbers(expected).T + 1)
    np.testing.assert_allclose(adata.obsm["X_blockmix"], expected.transform(cells().X))
    loadings, names = adata.varm["blockmix_loadings"], adata.uns["blockmix"]["scores"].tolist()
    assert names == model.get_feature_names_out().tolist()
    assert (
        (loadings != 0) == np.stack([adata.varm["blockmix_groups"][:, j // 2] == 1 + j % 2 for j in range(4)], 1)
    ).all()
    np.testing.assert_allclose(adata.uns["blockmix"]["means"], expected.means_)
    assert adata.uns["blockmix"]["params"]["n_column_groups"] == 2
    assert isinstance(model, GaussianBiclustering)
    assert type(adata.X) is type(cells(matrix).X)  # the data themselves are left alone


@pytest.mark.parametrize("matrix", [np.asarray, sparse.csr_matrix])
def test_missing_values_are_fitted(matrix: Any) -> None:
    adata = cells()
    X = adata.X.copy()
    X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    X[7] = np.nan  # a row without values
    adata.X, adata.layers["double"] = matrix(X), matrix(2 * X)
    expected = GaussianBiclustering(2, random_state=0).fit(X)
    for layer in (None, "double"):
        bridge.fit(adata, 2, layer=layer, random_state=0)
        assert adata.obs["blockmix"].astype(int).tolist() == (expected.row_labels_ + 1).tolist()
        assert adata.obs["blockmix_probability"].iloc[7] == pytest.approx(expected.weights_.max())
        np.testing.assert_array_equal(adata.varm["blockmix_groups"], group_numbers(expected).T + 1)


def test_a_layer_a_key_and_several_numbers_of_clusters() -> None:
    adata, plain = cells(), cells()
    model = bridge.fit(adata, range(1, 4), layer="double", key_added="mine", random_state=0)
    bridge.fit(plain, 2, shared_covariance=True, random_state=0)
    assert "blockmix" not in adata.obs and len(model.weights_) == 2
    assert adata.uns["mine"]["params"]["layer"] == "double"
    selection = adata.uns["mine"]["selection"]
    assert selection["n_components"][selection["bic"].argmin()] == 2
    assert sorted(selection["n_components"]) == [1, 2, 3]
    assert {*adata.varm} == {"mine_groups", "mine_loadings"} and "X_mine" in adata.obsm
    assert plain.varm["blockmix_groups"].tolist() == [[1, 1], [1, 1], [2, 2], [2, 2]]
    assert plain.obsm["X_blockmix"].shape == (120, 2)


def test_some_variables_a_representation_and_traits() -> None:
    adata, rng = cells(), np.random.default_rng(0)
    adata.var["chosen"] = [True, True, False, True]
    model = bridge.fit(adata, 2, mask_var="chosen", n_column_groups=2, random_state=0)
    assert model.feature_names_in_.tolist() == ["a", "b", "d"]
    assert (adata.varm["blockmix_groups"][2] == 0).all() and (adata.varm["blockmix_loadings"][2] == 0).all()
    adata.obs["batch"], adata.obs["age"] = rng.choice(["x", "y"], 120), rng.random(120)
    found = bridge.associate(adata, model, mask_var="chosen")
    assert found.trait.unique().tolist() == ["batch", "age"]
    assert found.equals(model.associate(adata[:, [0, 1, 3]].to_df(), adata.obs[["batch", "age"]]))
    new = cells()[:50].copy()
    bridge.transform(new, model, mask_var=[True, True, False, True])
    np.testing.assert_allclose(new.obsm["X_blockmix"], adata.obsm["X_blockmix"][:50])
    adata.obsm["X_pca"] = adata.X[:, :3]
    bridge.fit(adata, 2, use_rep="X_pca", key_added="pca", random_state=0)
    assert "pca_groups" not in adata.varm and len(adata.obsm["X_pca"]) == 120
    for settings, message in (
        ({"use_rep": "X_umap"}, "no representation 'X_umap': obsm has X_blockmix, X_pca"),
        ({"use_rep": "X_pca", "layer": "double"}, "leave out layer and mask_var"),
        ({"mask_var": "none"}, "var has no column 'none': it has chosen"),
        ({"mask_var": [True] * 3}, "for each of 4 variables"),
    ):
        with pytest.raises(ValueError, match=message):
            bridge.fit(adata, 2, **settings)
    with pytest.raises(ValueError, match="obs has no column 'sex'"):
        bridge.associate(adata, model, ["sex"], mask_var="chosen")


@pytest.mark.parametrize("matrix", [np.asarray, sparse.csr_matrix])
def test_raw_counts_are_warned_of(matrix: Any) -> None:
    rng = np.random.default_rng(0)
    counts = rng.poisson(5 * np.exp(rng.standard_normal((120, 1)) + np.zeros(4))).astype(float)
    adata = anndata.AnnData(matrix(counts), layers={"log": matrix(np.log1p(counts))})
    with pytest.warns(UserWarning, match="X seems to hold raw counts"):
        bridge.fit(adata, 1, random_state=0)
    bridge.fit(adata, 1, layer="log", random_state=0)  # a warning is an error


@pytest.mark.parametrize("shared", [False, True])
def test_a_file_keeps_everything(shared: bool, tmp_path: Path) -> None:
    adata = cells(sparse.csr_matrix)
    bridge.fit(adata, 2, shared_covariance=shared, random_state=0)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    back = anndata.read_h5ad(tmp_path / "cells.h5ad")
    assert back.obs.equals(adata.obs)
    assert back.var.equals(adata.var)
    assert set(back.varm) == set(adata.varm)
    assert back.uns["blockmix"]["params"] == adata.uns["blockmix"]["params"]
    np.testing.assert_array_equal(back.uns["blockmix"]["means"], adata.uns["blockmix"]["means"])
    assert back.uns["blockmix"]["outcome"] == "converged"


def test_an_open_file_is_read(tmp_path: Path) -> None:
    cells(sparse.csr_matrix).write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    bridge.fit(backed, 2, random_state=0)
    memory = cells()
    bridge.fit(memory, 2, random_state=0)
    assert backed.obs["blockmix"].tolist() == memory.obs["blockmix"].tolist()
    backed.file.close()


def test_what_is_not_there_is_said() -> None:
    with pytest.raises(ValueError, match="no layer 'counts': the layers are double"):
        bridge.fit(cells(), layer="counts")
    with pytest.raises(ValueError, match="X is empty: name a layer"):
        bridge.fit(anndata.AnnData(obs={"a": [1, 2]}))


def test_a_sparse_matrix_stays_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    # Red if a sparse matrix is made dense as a whole on its way to the estimator.
    given: list[Any] = []
    original = GaussianBiclustering.fit
    monkeypatch.setattr(GaussianBiclustering, "fit", lambda self, X: given.append(X) or original(self, X))
    bridge.fit(cells(sparse.csc_matrix), 2, random_state=0)
    assert given[0].format == "csr"


@pytest.mark.filterwarnings("ignore:Variable names are not unique")
def test_names_of_variables_may_repeat() -> None:
    adata = cells()
    adata.var_names = ["a", "a", "b", "c"]
    model = bridge.fit(adata, 2, n_column_groups=2, random_state=0)
    assert adata.varm["blockmix_groups"].shape == (4, 2) and not hasattr(model, "feature_names_in_")
    with pytest.raises(ValueError, match="no layer 'counts': there are none"):
        bridge.fit(anndata.AnnData(adata.X), layer="counts")

"""AnnData: fit an annotated matrix and write clusters, column groups and scores into it, in the style of scanpy.

Clusters go to obs, scores to obsm, groups and loadings to varm, and parameters to uns, under names made of `key_added`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from numbers import Integral
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

import blockmix
from blockmix.estimators.gaussian import GaussianBiclustering
from blockmix.estimators.scores import axes_of
from blockmix.estimators.tables import group_numbers
from blockmix.partition import BoolArray
from blockmix.rows.files import needed

if TYPE_CHECKING:
    from anndata import AnnData

_COUNTS = 20  # largest whole number from which a matrix of whole numbers seems to hold counts


def fit(
    adata: AnnData,
    n_components: int | Iterable[int] = range(1, 11),
    *,
    layer: str | None = None,
    use_rep: str | None = None,
    mask_var: str | ArrayLike | None = None,
    key_added: str = "blockmix",
    **params: Any,
) -> GaussianBiclustering:
    """Fit `GaussianBiclustering` to an AnnData and write the result into it.

    Parameters
    ----------
    adata : AnnData of N observations and p variables
        Modified in place, see Notes. X, or the layer, may be dense or sparse.
    n_components : int or iterable of int, default=range(1, 11)
        Number G of row clusters; of several the one that `select` prefers.
    layer : str, optional
        Layer to fit instead of X.
    use_rep : str, optional
        Entry of obsm to fit instead, such as "X_pca"; its columns are no variables, so varm stays as it is.
    mask_var : str or boolean array, optional
        Variables to fit, or the column of var that tells them, such as "highly_variable".
    key_added : str, default="blockmix"
        Part of the names of all results.
    **params
        Other parameters of `GaussianBiclustering`.

    Returns
    -------
    GaussianBiclustering
        The fitted model, for `transform` and `associate`.

    Warns
    -----
    UserWarning
        X holds counts: clusters of raw counts are those of sequencing depth.

    Notes
    -----
    - ``obs[key_added]``: cluster of an observation, categorical, from 1; ``obs[key_added + "_probability"]``.
    - ``obsm["X_" + key_added]``: scores of the column groups, shape (N, K); ``uns[key_added]["scores"]`` names them.
    - ``varm[key_added + "_groups"]``: group of each variable in each cluster, shape (p, G), numbered as in
      `column_table`; 0 for a variable alone or not fitted.
    - ``varm[key_added + "_loadings"]``: correlation of variables and scores, shape (p, K), 0 outside the group.
    - ``uns[key_added]``: parameters, weights, means, numbers of groups, log-likelihood, BIC, outcome, and the BIC of
      each candidate.

    Examples
    --------
    >>> import anndata
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 4)) + np.repeat(rng.standard_normal((200, 2)), 2, axis=1)
    >>> X[:100] += 6
    >>> adata = anndata.AnnData(X)
    >>> model = fit(adata, 2, random_state=0)
    >>> adata.obs["blockmix"].value_counts().tolist()
    [100, 100]
    >>> adata.varm["blockmix_groups"].T
    array([[1, 1, 2, 2],
           [1, 1, 2, 2]])
    """
    source: dict[str, Any] = {"layer": layer, "use_rep": use_rep, "mask_var": mask_var}
    X, fitted = _rows(adata, **source)
    if use_rep is None:
        _warn_of_counts(X)
    settings, compared = GaussianBiclustering(**params), dict[str, Any]()
    if isinstance(n_components, Integral):
        model: GaussianBiclustering = settings.set_params(n_components=int(n_components)).fit(X)
    else:
        table = blockmix.select(X, n_components, settings.n_column_groups, estimator=settings)
        model = cast(GaussianBiclustering, table.best_.model)
        compared = {name: np.array([getattr(row, name) for row in table.rows]) for name in ("n_components", "bic")}
    clusters = [str(g + 1) for g in range(len(model.weights_))]
    categories = needed("pandas", "anndata").Categorical
    adata.obs[key_added] = categories.from_codes(model.row_labels_, clusters)
    adata.obs[f"{key_added}_probability"] = model.predict_proba(X).max(axis=1)
    if use_rep is None:
        axes, p = axes_of(model), adata.n_vars
        groups, loadings = np.zeros((p, len(clusters)), dtype=int), np.zeros((p, len(axes)))
        groups[fitted] = group_numbers(model).T + 1
        for j, axis in enumerate(axes):
            loadings[np.flatnonzero(fitted)[axis.columns], j] = axis.loadings
        adata.varm[f"{key_added}_groups"], adata.varm[f"{key_added}_loadings"] = groups, loadings
    adata.uns[key_added] = _summary(model, X, source) | {"selection": compared}
    transform(adata, model, key_added=key_added, **source)
    return model


def transform(adata: AnnData, model: GaussianBiclustering, *, key_added: str = "blockmix", **source: Any) -> None:
    """Write the scores of the observations of a fitted model, also of new ones, to ``obsm["X_" + key_added]``.

    Give `layer`, `use_rep` and `mask_var` as to `fit`; the scores are those of `GaussianBiclustering.transform`.
    """
    adata.obsm[f"X_{key_added}"] = np.asarray(model.transform(_rows(adata, **source)[0]))


def associate(
    adata: AnnData,
    model: GaussianBiclustering,
    traits: Iterable[str] | None = None,
    *,
    key_added: str = "blockmix",
    **source: Any,
) -> Any:
    """How clusters and scores go with columns of obs: those named, or all but the results of `fit`.

    Give `layer`, `use_rep` and `mask_var` as to `fit`; the data frame is that of `GaussianBiclustering.associate`.
    """
    own = {key_added, f"{key_added}_probability"}
    names = [name for name in adata.obs if name not in own] if traits is None else list(traits)
    if absent := [name for name in names if name not in adata.obs]:
        raise ValueError(f"obs has no column {absent[0]!r}: it has {', '.join(map(str, adata.obs))}")
    return model.associate(_rows(adata, **source)[0], adata.obs[names].reset_index(drop=True))


def _rows(
    adata: AnnData, layer: str | None = None, use_rep: str | None = None, mask_var: Any = None
) -> tuple[Any, BoolArray]:
    """The matrix to fit, as a data frame if its variables have names of their own, and which variables it has."""
    every = np.ones(adata.n_vars, dtype=bool)
    if use_rep is not None:
        if layer is not None or mask_var is not None:
            raise ValueError(f"use_rep={use_rep!r} has no variables: leave out layer and mask_var")
        if use_rep not in adata.obsm:
            raise ValueError(f"there is no representation {use_rep!r}: obsm has {', '.join(adata.obsm) or 'none'}")
        return np.asarray(adata.obsm[use_rep]), every
    X, mask = matrix(adata, layer), every
    if mask_var is not None:
        if isinstance(mask_var, str) and mask_var not in adata.var:
            raise ValueError(f"var has no column {mask_var!r}: it has {', '.join(map(str, adata.var)) or 'none'}")
        mask = np.asarray(adata.var[mask_var] if isinstance(mask_var, str) else mask_var)
        if mask.dtype != bool or mask.shape != every.shape or not mask.any():
            needs = f"True or False for each of {adata.n_vars} variables, some of them True"
            raise ValueError(f"mask_var must hold {needs}")
        X = X[:, np.flatnonzero(mask)]
    names = adata.var_names[mask]
    if not sparse.issparse(X) and names.is_unique:  # gene names often are not
        X = needed("pandas", "anndata").DataFrame(X, columns=[str(name) for name in names], copy=False)
    return X, mask


def _warn_of_counts(X: Any) -> None:
    values = cast(Any, X).data if sparse.issparse(X) else np.asarray(X)
    if values.size and values.min() >= 0 and values.max() >= _COUNTS and (values == np.round(values)).all():
        text = "X seems to hold raw counts, whose clusters are those of depth: normalize and log them first, as with"
        warnings.warn(f"{text} scanpy.pp.normalize_total and scanpy.pp.log1p, or name such a layer", stacklevel=3)


def matrix(adata: AnnData, layer: str | None) -> Any:
    """X or a layer in memory, as an array or a CSR matrix.

    Raises
    ------
    ValueError
        There is no such layer, or no X.
    """
    if layer is not None and layer not in adata.layers:
        layers = f"the layers are {', '.join(adata.layers)}" if adata.layers else "there are none"
        raise ValueError(f"there is no layer {layer!r}: {layers}")
    X: Any = adata.X if layer is None else adata.layers[layer]
    if X is None:
        raise ValueError("X is empty: name a layer")
    if hasattr(X, "to_memory"):  # a file in backed mode
        X = X.to_memory()
    return X.tocsr() if hasattr(X, "tocsr") else np.asarray(X)


def _summary(model: GaussianBiclustering, X: Any, source: dict[str, Any]) -> dict[str, Any]:
    """Content of uns: strings, numbers and arrays, which every h5ad file can hold."""
    given = {name: value for name, value in (source | model.get_params(deep=False)).items() if value is not None}
    names = ("weights_", "means_", "n_column_groups_", "log_likelihood_", "n_iter_", "outcome_")
    return {name[:-1]: getattr(model, name) for name in names} | {
        "version": blockmix.__version__,
        "params": {k: v if isinstance(v, (str, int, float)) else str(v) for k, v in given.items()},
        "bic": model.bic(X),
        "scores": model.get_feature_names_out().astype(str),
    }

"""AnnData: fit an annotated matrix and write row clusters and column groups into it, in the style of scanpy.

Clusters go to obs, column groups to varm or var, and parameters to uns, under names that begin with `key_added`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

import blockmix
from blockmix.estimators.gaussian import GaussianBiclustering
from blockmix.rows.files import needed

if TYPE_CHECKING:
    from anndata import AnnData


def fit(
    adata: AnnData, n_components: int = 2, *, layer: str | None = None, key_added: str = "blockmix", **params: Any
) -> GaussianBiclustering:
    """Fit `GaussianBiclustering` to an AnnData and write the result into it.

    Parameters
    ----------
    adata : AnnData of N observations and p variables
        Modified in place, see Notes. X, or the layer, may be dense or sparse.
    n_components : int, default=2
        Number G of row clusters.
    layer : str, optional
        Layer to fit instead of X.
    key_added : str, default="blockmix"
        Prefix of the names of all results.
    **params
        Other parameters of `GaussianBiclustering`.

    Returns
    -------
    GaussianBiclustering
        The fitted model.

    Notes
    -----
    - ``obs[key_added]``: cluster of an observation, categorical; ``obs[key_added + "_probability"]``: its probability.
    - ``varm[key_added + "_groups"]``: group of each variable in each cluster, shape (p, G).
    - ``var[key_added + "_group"]``: with a shared covariance instead, the group of each variable, categorical.
    - ``uns[key_added]``: parameters, weights, means, numbers of groups, log-likelihood, BIC, outcome.

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
    array([[0, 0, 1, 1],
           [0, 0, 1, 1]])
    """
    pandas = needed("pandas", "anndata")
    X = matrix(adata, layer)
    if not sparse.issparse(X) and adata.var_names.is_unique:  # gene names often are not
        X = pandas.DataFrame(X, columns=[str(name) for name in adata.var_names], copy=False)
    model = GaussianBiclustering(n_components, **params).fit(X)
    probabilities = model.predict_proba(X)
    # An earlier fit may have written its groups to the other place.
    adata.varm.pop(f"{key_added}_groups", None)
    if f"{key_added}_group" in adata.var:
        del adata.var[f"{key_added}_group"]
    clusters = pandas.Categorical.from_codes(model.row_labels_, [str(g) for g in range(n_components)])
    adata.obs[key_added] = pandas.Series(clusters, index=adata.obs_names)
    adata.obs[f"{key_added}_probability"] = probabilities.max(axis=1)
    if model.shared_covariance:
        groups = [str(k) for k in range(model.n_column_groups_[0])]
        shared = pandas.Categorical.from_codes(model.column_labels_[0], groups)
        adata.var[f"{key_added}_group"] = pandas.Series(shared, index=adata.var_names)
    else:
        adata.varm[f"{key_added}_groups"] = model.column_labels_.T.copy()
    adata.uns[key_added] = _summary(model, X, layer)
    return model


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


def _summary(model: GaussianBiclustering, X: Any, layer: str | None) -> dict[str, Any]:
    """Content of uns: strings, numbers and arrays, which every h5ad file can hold."""
    given = {"layer": layer, **model.get_params(deep=False)}
    params = {
        name: value if isinstance(value, (str, int, float)) else str(value)
        for name, value in given.items()
        if value is not None
    }
    return {
        "version": blockmix.__version__,
        "params": params,
        "weights": model.weights_,
        "means": model.means_,
        "n_column_groups": model.n_column_groups_,
        "log_likelihood": model.log_likelihood_,
        "bic": model.bic(X),
        "n_iter": model.n_iter_,
        "outcome": model.outcome_,
    }

"""FactorBiclustering: the mixture with one common factor per column group, UCUU and its family (Tu & Subedi).

Responsibilities give the row clusters, the binary loadings B_g of Σ_g = B_g T_g B_gᵀ + D_g the column groups. The paper
compares its model with this one (section 4); docs/factor.md explains the letters.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from blockmix.blocks.blocks import Blocks
from blockmix.em.factor import FactorModel, FactorParameters, FactorStatistics, factor_log_joint
from blockmix.em.factor_family import FactorFamily, negative_groups
from blockmix.em.loop import LoopResult
from blockmix.estimators.fitting import WIDE, Scorer
from blockmix.estimators.mixture import Mixture
from blockmix.grouping.grouping import check_n_groups
from blockmix.partition import FloatArray, IntArray, Partition, RandomState, column_names
from blockmix.rows import Chunk, Rows

_LETTERS = ("UC", "UCI", "UC", "UC")
# Least noise variance as a share of the column's variance. Much smaller values leave no digits for the other columns of
# a group.
_MIN_NOISE = 1e-7


@dataclass(eq=False, repr=False)
class FactorBiclustering(Mixture[FactorParameters, FactorStatistics]):
    """Clusters of rows and, within each, groups of columns that follow one common factor.

    A Gaussian mixture Σ_g π_g N(μ_g, Σ_g) with Σ_g = B_g T_g B_gᵀ + D_g, binary B_g learned. A row of component g is
    x = μ_g + B_g u + e: every column of group k has the same factor u_k ~ N(0, t_gk) and a noise of its own,
    e_j ~ N(0, d_gj). So covariances are equal and never negative within a group, 0 between groups.

    Parameters
    ----------
    n_components : int, default=1
        Number G of row clusters.
    n_column_groups : int, default=2
        Number q of column groups, the same in every component.
    model : str, default="UCUU"
        Four letters: is B_g (which columns form a group), T_g (variances of the factors), D_g (variances of the noise)
        common to all components (C) or not (U), and is the noise of all columns equal (C) or not (U). I in second place
        fixes T_g = I (Martella, Alfò & Vichi 2008).
    standardize : bool, default=True
        Fit columns divided by their overall deviation. The model depends on units: it is the scaled columns that have
        equal covariances. False fits columns as they are.

    Other Parameters
    ----------------
    tol : float, default=1e-4
        EM has settled when, by Aitken's rule, the log-likelihood per row is this near its limit.
    max_iter : int, default=200
        Most EM iterations of one start.
    n_init : int, default=1
        Number of starts, with different seeds; the best is kept.
    init : {"auto", "kmeans"} or array, default="auto"
        As in `GaussianBiclustering`.
    random_state : int, RandomState or None
        Seed of the starts and of `sample`; a model with a RandomState cannot be saved.

    Attributes
    ----------
    weights_ : array of shape (G,)
    means_ : array of shape (G, p)
    scale_ : array of shape (p,)
        What the columns were divided by; ones without `standardize`.
    factor_variances_ : array of shape (G, q)
        The t_gk, for the scaled columns. With a common T the rows hold the same numbers, each in the order of the
        component's own groups.
    noise_variances_ : array of shape (G, p)
        The d_gj, for the scaled columns.
    covariances_ : array of shape (G, p, p)
        diag(scale_) (B_g T_g B_gᵀ + D_g) diag(scale_), in the units of X; made on demand.
    blocks_ : tuple of G Blocks
        The same in factored form; made on demand.
    loadings_ : tuple of G tuples of arrays
        Loadings of the columns of each group on its factor, in the units of X.
    row_labels_ : array of shape (N,)
        Component of each row.
    column_labels_ : array of shape (G, p)
        Group of each column in each component, numbered by size, largest first; columns alone come last.
    n_column_groups_ : array of shape (G,)
    rows_, columns_, biclusters_ : boolean arrays
        The biclusters (component, group) as scikit-learn's biclustering has them.
    log_likelihood_ : float
        Log-likelihood of the rows.
    log_likelihood_trace_ : array
        Log-likelihood at each iteration; it never falls.
    n_iter_, converged_, outcome_, warnings_, starts_
        As in `GaussianBiclustering`.
    n_parameters_ : int
        G − 1 + Gp + (entries of T) + (entries of D), less those that are not identified because a column is alone in
        its group. The column groups are not counted.

    Warns
    -----
    UserWarning
        Where columns belong together by negative correlations, which this model cannot express: `GaussianBiclustering`
        can.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 4)) + np.repeat(rng.standard_normal((200, 2)), 2, axis=1)
    >>> X[:100] += 6
    >>> FactorBiclustering(2, 2, model="UUUU", random_state=0).fit(X).column_labels_
    array([[0, 0, 1, 1],
           [0, 0, 1, 1]])
    """

    n_components: int = 1
    n_column_groups: int = 2
    _: KW_ONLY
    model: str = "UCUU"
    standardize: bool = True
    tol: float = 1e-4
    max_iter: int = 200
    n_init: int = 1
    init: str | ArrayLike = "auto"
    random_state: RandomState = None

    def _check_parameters(self) -> None:
        check_letters(self.model)
        if not isinstance(self.standardize, bool):
            raise ValueError(f"standardize={self.standardize!r} must be True or False")

    def _family(self, rows: Rows, variances: FloatArray) -> FactorFamily:
        q = check_n_groups(self.n_column_groups, rows.n_columns, "n_column_groups")
        model = FactorModel.named(self.model, self.n_components, q, _MIN_NOISE * variances)
        return FactorFamily(model, rows.total_weight)

    def _adopt(self, parameters: FactorParameters, rows: Rows) -> None:
        self._parameters = parameters.canonical()
        self._letters = self.model
        self.location_, self.scale_ = rows.location, rows.scale
        self.weights_ = parameters.weights.astype(rows.dtype)
        self.means_ = (parameters.means * rows.scale + rows.location).astype(rows.dtype)

    def _thin_message(self, g: int, count: float, parameters: FactorParameters) -> str:
        return (
            f"component {g} has {count:.1f} rows and its noise variances rest on their floor: ask for fewer "
            "components, or for a model with common noise (third letter C)"
        )

    def _warnings(self, best: LoopResult[FactorParameters], rows: Rows, family: FactorFamily) -> list[str]:
        messages = []
        if len(self.weights_) > 1 and rows.n_columns > rows.n_rows:
            messages.append(WIDE.format(rows.n_columns, rows.n_rows))
        groups = negative_groups(rows, best.state.parameters, family.model)
        if groups:
            names, (correlation, pair, g, columns) = column_names(self), groups[0]
            listed = ", ".join(names[j] for j in columns[:8]) + (", …" if len(columns) > 8 else "")
            one, other = (f"{names[j]} (fitted in group {self.column_labels_[g, j]})" for j in pair)
            more = f" (and {len(groups) - 1} more such groups)" if len(groups) > 1 else ""
            messages.append(
                f"columns {listed} of component {g} form a group with negative correlations, {correlation:.2f} between "
                f"{one} and {other}{more}; covariances within a group of this model are never negative: use "
                "GaussianBiclustering, or change the sign of columns"
            )
        return messages

    def _scorer(self) -> Scorer:
        return partial(_scaled_log_joint, parameters=self._parameters, location=self.location_, scale=self.scale_)

    def _sample_component(self, g: int, n: int, rng: np.random.RandomState) -> FloatArray:
        t, d, labels = self.factor_variances_[g], self.noise_variances_[g], self.column_labels_[g]
        factors = rng.standard_normal((n, len(t))) * np.sqrt(t)
        standard = factors[:, labels] + rng.standard_normal((n, len(d))) * np.sqrt(d)
        return np.asarray(self.means_[g] + self.scale_ * standard)

    @property
    def factor_variances_(self) -> FloatArray:
        """Variances t of the factors, for the scaled columns, shape (G, q)."""
        return self._parameters.factor_variances.astype(self.means_.dtype)

    @property
    def noise_variances_(self) -> FloatArray:
        """Variances d of the noise, for the scaled columns, shape (G, p)."""
        return self._parameters.noise.astype(self.means_.dtype)

    @property
    def covariances_(self) -> FloatArray:
        """Covariance of each component in the units of X, shape (G, p, p)."""
        scaled = self._parameters.covariances * self.scale_[:, None] * self.scale_
        return scaled.astype(self.means_.dtype)

    @property
    def blocks_(self) -> tuple[Blocks, ...]:
        """Covariance of each component in factored form."""
        pairs = zip(self.covariances_, self.column_labels_, strict=True)
        return tuple(Blocks.of(S, Partition(labels)) for S, labels in pairs)

    @property
    def loadings_(self) -> tuple[tuple[FloatArray, ...], ...]:
        """Loadings √t of the columns of each group on its factor in the units of X, by component, shapes (c, 1)."""
        groups = (Partition(labels).groups for labels in self.column_labels_)
        pairs = zip(self.factor_variances_, groups, strict=True)
        return tuple(
            tuple(np.sqrt(t) * self.scale_[columns, None] for t, columns in zip(variances, own, strict=True))
            for variances, own in pairs
        )

    @property
    def column_labels_(self) -> IntArray:  # type: ignore[override]
        """Group of each column in each component, shape (G, p)."""
        return self._parameters.labels

    @property
    def n_column_groups_(self) -> IntArray:
        """Number of column groups of each component, shape (G,)."""
        return np.full(len(self.weights_), self._parameters.factor_variances.shape[1])

    @property
    def n_parameters_(self) -> int:  # type: ignore[override]
        """Free parameters: G − 1 weights, Gp means, and the identified entries of T and D."""
        labels, t = self._parameters.labels, self._parameters.factor_variances
        model = FactorModel.named(self._letters, len(labels), t.shape[1], np.empty(0))
        return len(labels) - 1 + labels.size + model.n_parameters(labels, t)


def check_letters(model: Any) -> None:
    """Raise a ValueError unless a model is four letters of `FactorModel.named`."""
    if isinstance(model, str) and len(model) == 4 and all(a in b for a, b in zip(model, _LETTERS, strict=True)):
        return
    raise ValueError(
        f"model={model!r} must be four letters, U or C each (I in second place fixes T = I), such as 'UCUU': are B, T "
        "and D common to the components, and is the noise of all columns equal"
    )


def _scaled_log_joint(
    chunk: Chunk, parameters: FactorParameters, location: FloatArray, scale: FloatArray
) -> FloatArray:
    """Log π_g f_g of the rows of a chunk in the units of X, shape (m, G)."""
    standardized = replace(chunk, location=location, scale=scale)
    return np.asarray(factor_log_joint(standardized, parameters) - np.log(scale).sum())

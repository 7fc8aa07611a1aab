"""CovarianceGaps: rows with missing values in `BlockDiagonalCovariance`.

Rows with gaps come in; the mixture of one component is fitted to them, and its column groups, blocks and mean become
those of the covariance. Densities and distances are those of the values that a row has.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from blockmix.em.block.e_step import Density, half_distances, log_joint
from blockmix.em.block.parameters import assemble
from blockmix.estimators.biclustering import GaussianBiclustering
from blockmix.grouping.protocols import check_n_groups
from blockmix.rows import ArrayRows
from blockmix.structure.blocks import BlockCovariance
from blockmix.structure.columns import column_names, refuse_constant
from blockmix.structure.partition import Partition
from blockmix.structure.types import FloatArray

_TOL, _MAX_ITER = 1e-6, 1000  # EM of one component is cheap, and its result stands for a closed form


class CovarianceGaps:
    """Tag of an estimator that takes rows with missing values (NaN), their fit and their densities."""

    blocks_: BlockCovariance
    location_: FloatArray
    partition_: Partition

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = self._complete_only() is None
        return tags

    def _complete_only(self) -> str | None:
        """The setting that needs complete rows, if there is one."""
        for name, values in (("assume_centered", (True,)), ("shrinkage", ("auto", 1)), ("correlation", ("spearman",))):
            if getattr(self, name) in values:
                return f"{name}={getattr(self, name)!r}"
        return None

    def _fit_gaps(self, X: FloatArray, weights: FloatArray | None) -> None:
        """Take over groups, blocks and mean of one component that is fitted to rows with gaps, shape (N, p)."""
        settings: Any = self
        refused = self._complete_only()
        if refused is not None:
            raise ValueError(f"{refused} needs complete rows, and X has missing values (NaN): leave it out")
        rule = settings._rule()
        if rule is None:
            check_n_groups(settings.n_groups, X.shape[1])
        rows = ArrayRows.standardized(X, weights)
        refuse_constant(rows.location, rows.scale**2, column_names(self), X.dtype)
        model = GaussianBiclustering(
            1,
            settings.n_groups if rule is None else rule,
            grouping=settings.grouping,
            block_model=settings.block_model,
            rounding=False,
            ridge=settings.ridge,
            shrinkage=settings.shrinkage,
            tol=_TOL,
            max_iter=_MAX_ITER,
            random_state=settings.random_state,
        ).fit(X, sample_weight=weights)
        factors = tuple(factor.astype(X.dtype) for factor in model.blocks_[0].factors)
        self.location_, self.blocks_ = model.means_[0], BlockCovariance(model.blocks_[0].partition, factors)
        self.partition_, self.linkage_, self.common_correlation_ = self.blocks_.partition, None, 0.0
        self.block_shapes_, self.loadings_ = model.block_shapes_[0], model.loadings_[0]
        self.shrinkage_ = np.full(self.partition_.n_groups, float(settings.shrinkage or 0.0))

    def _log_density(self, X: FloatArray) -> FloatArray:
        """Log-density of the values of each row, shape (N,)."""
        if not np.isnan(X).any():
            return self.blocks_.log_density(X, self.location_)
        density = self._density()
        return np.concatenate(list(ArrayRows.of(X).map(lambda chunk: log_joint(chunk, density)[:, 0])))

    def _squared_distances(self, X: FloatArray) -> FloatArray:
        """Squared Mahalanobis distance of the values of each row, shape (N,)."""
        if not np.isnan(X).any():
            return self.blocks_.squared_distances(X - self.location_)
        density = self._density()
        halves = np.concatenate(list(ArrayRows.of(X).map(lambda chunk: half_distances(chunk, density)[:, 0])))
        return np.asarray(-2 * halves).astype(self.location_.dtype)

    def _density(self) -> Density:
        return Density.of(assemble(np.ones(1), self.location_[None], (self.blocks_,)))

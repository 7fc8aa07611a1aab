"""The `plot_*` methods of the estimators, as mixins: they pass a model's values to `blockmix.plotting`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from blockmix import plotting
from blockmix.plotting.views import ComponentView, component_view
from blockmix.structure.blocks import BlockCovariance
from blockmix.structure.columns import column_names
from blockmix.structure.partition import Partition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes


class MixtureFigures:
    """Figures of a mixture; `component` is the index of a component."""

    column_labels_: Any
    weights_: Any
    blocks_: Any
    predict: Any
    predict_proba: Any
    _rows: Any

    def plot_correlations(self, X: ArrayLike, component: int = 0, *, ax: Sequence[Axes] | None = None) -> NDArray[Any]:
        """Observed and estimated correlation of a component side by side, in group order; returns two Axes.

        Rows of X are weighted by their probability of the component.
        """
        view = self._view(X, component)
        assert view.observed is not None
        return plotting.correlation_pair(
            view.observed,
            view.estimated,
            view.partition,
            names=column_names(self),
            title=f"component {component}",
            ax=ax,
        )

    def plot_checkerboard(self, X: ArrayLike, component: int = 0, *, ax: Axes | None = None) -> Axes:
        """Standardized rows of X sorted by component, columns in the group order of one component."""
        self._check_component(component)
        labels, names = self.predict(X), column_names(self)
        drawn = plotting.checkerboard(
            self._rows(X),
            labels,
            Partition(self.column_labels_[component]),
            names=names,
            title=f"columns in the groups of component {component}",
            ax=ax,
        )
        drawn.set_ylabel("component")
        return drawn

    def plot_dendrogram(self, X: ArrayLike, component: int = 0, *, ax: Axes | None = None) -> Axes:
        """Dendrogram of the columns by their correlation in a component, cut into the fitted number of groups."""
        view = self._view(X, component)
        return plotting.dendrogram(
            view.tree, view.partition.n_groups, names=column_names(self), title=f"component {component}", ax=ax
        )

    def plot_groups(self, *, ax: Axes | None = None) -> Axes:
        """Column groups of all components side by side, with the columns that change group marked."""
        check_is_fitted(self)
        return plotting.group_comparison(self.column_labels_, names=column_names(self), ax=ax)

    def _view(self, X: ArrayLike, component: int) -> ComponentView:
        self._check_component(component)
        return component_view(self.blocks_[component], self._rows(X), self.predict_proba(X)[:, component], self)

    def _check_component(self, component: int) -> None:
        check_is_fitted(self)
        G = len(self.weights_)
        if not 0 <= component < G:
            raise ValueError(f"component={component} must be from 0 to {G - 1}: the model has {G} components")


class CovarianceFigures:
    """Figures of a covariance with column groups."""

    partition_: Partition
    linkage_: Any
    blocks_: BlockCovariance
    _rows: Any

    def plot_correlations(self, X: ArrayLike, *, ax: Sequence[Axes] | None = None) -> NDArray[Any]:
        """Observed correlation of X and estimated correlation side by side, in group order; returns two Axes."""
        check_is_fitted(self, "blocks_")
        view = component_view(self.blocks_, self._rows(X), None, self)
        assert view.observed is not None
        return plotting.correlation_pair(view.observed, view.estimated, view.partition, names=column_names(self), ax=ax)

    def plot_dendrogram(self, *, ax: Axes | None = None) -> Axes:
        """Dendrogram of the columns, cut into the fitted groups."""
        check_is_fitted(self, "blocks_")
        if self.linkage_ is None:
            raise ValueError('this grouping has no tree: fit with grouping="hierarchical" to draw one')
        return plotting.dendrogram(self.linkage_, self.partition_.n_groups, names=column_names(self), ax=ax)

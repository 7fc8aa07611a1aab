"""Mixture: the base class of mixtures of row clusters with column groups, fitted by EM (paper, section 3).

A subclass supplies its family of mixtures, the log-densities of its components, its column labels and its parameter
count. `fit` runs EM from several starts and keeps the best. Labels, probabilities, scores, information criteria,
samples and figures follow from the fitted parameters.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, BiclusterMixin, ClusterMixin, DensityMixin
from sklearn.utils import TransformerTags, check_random_state

from blockmix import plotting
from blockmix.em.loop import P, Progress, S
from blockmix.estimators.answer import Centers, answer, group_scores
from blockmix.estimators.associations import associated
from blockmix.estimators.fitting import (
    Scorer,
    fit_by_em,
    labelled,
    labelled_rows,
    log_density,
    most_probable,
    probabilities,
)
from blockmix.estimators.scores import as_output, axes_of, framed, scores
from blockmix.estimators.stability import Stability
from blockmix.estimators.tables import column_table, group_numbers, named, ranged, row_table
from blockmix.estimators.validation import matrix, refuse_attribute, rows_to_score
from blockmix.files.archive import replacing
from blockmix.partition import BoolArray, FloatArray, IntArray, Partition, RandomState, column_names
from blockmix.plotting.views import ComponentView, component_view, row_axes
from blockmix.rows import Chunk, one_blas_thread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

_ROWS = 40  # of a figure of means

T = TypeVar("T")


class Mixture(BiclusterMixin, DensityMixin, ClusterMixin, BaseEstimator, Generic[P, S]):
    """A mixture with column groups in each component, fitted by EM from several starts.

    A bicluster is a pair (component, group): the rows of the component and the columns of the group. `fitting` asks a
    subclass, besides the methods below, for

    - ``_check_parameters()``, which refuses values of its own parameters;
    - ``_family(rows, variances)``, the `em.loop.Family` that they describe, for columns of these variances (p,);
    - ``_adopt(parameters, rows)``, which takes over parameters that fit the rows in the units of the fit;
    - ``_warnings(best, rows, family)``, sentences about a fit that ended well but may mislead;
    - ``_thin_message(g, count, parameters)``, what is wrong with component g, which is thin and has `count` rows.
    """

    standardize: bool = True  # whether columns are divided by their overall deviation
    random_state: RandomState
    weights_: FloatArray
    means_: FloatArray
    row_labels_: IntArray
    column_labels_: IntArray
    blocks_: Any
    n_features_in_: int
    n_parameters_: int
    _parameters: P
    _rounding = True  # take a value that several rows share as known only to within the distance to its neighbours
    # Returns more attributes, by name, of the rows of a chunk with these components, each of shape (m,).
    _describe: Callable[..., dict[str, Any]] | None = None

    @abstractmethod
    def _scorer(self) -> Scorer:
        """A function that returns log π_g f_g of the rows of a chunk; it can be sent to other processes."""

    @abstractmethod
    def _sample_component(self, g: int, n: int, rng: np.random.RandomState) -> FloatArray:
        """Draw n rows from component g, shape (n, p)."""

    def __getattr__(self, name: str) -> Any:
        return refuse_attribute(self, name)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags = TransformerTags(preserves_dtype=["float64", "float32"])
        return tags

    def fit(
        self,
        X: Any,
        y: object = None,
        sample_weight: ArrayLike | None = None,
        callback: Callable[[Progress], object] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Fit the mixture to the rows of X, shape (N, p).

        Parameters
        ----------
        X : array, data frame, sparse matrix, or rows that need not be in memory
            The path of a `.npy` or Parquet file or of a folder of Parquet files, `blockmix.rows.Parquet`, a
            `numpy.memmap`, a Dask array or data frame, or a function that returns all chunks at each call. NaN is a
            missing value where the model takes them.
        y : ignored
            Present for scikit-learn's API.
        sample_weight : array of shape (N,) or None
            A weight of 2 counts a row twice.
        callback : callable or None
            Gets a `Progress` after every iteration; ``callback=print`` shows them.
        checkpoint : path or None
            A file that is written after each iteration. If the process is killed or interrupted, the same fit resumes
            from it and ends as it would have ended; then the file is removed. It is kept if the fit stops at
            `max_iter`, so that the fit can go on with a higher one. Other settings or other data are refused.

        Notes
        -----
        An interrupt (Ctrl-C) ends the fit with the best parameters so far, also while the rows are being labelled.
        """
        fit_by_em(self, X, sample_weight, callback, checkpoint)
        return self

    def predict(self, X: Any, out: str | os.PathLike[str] | None = None) -> IntArray:
        """Most probable component of each row.

        With `out`, the name of a `.npy` file, labels are written there, one byte each for up to 128 components; the
        complete file replaces an existing one and is returned as a mapping.
        """
        parts = self._each(X, most_probable)
        if out is None:
            return np.concatenate(list(parts), dtype=np.intp)
        labels = np.concatenate(list(parts), dtype=np.min_scalar_type(-len(self.weights_)))
        with replacing(out) as stream:
            np.save(stream, labels)
        mapped: IntArray = np.load(out, mmap_mode="r")
        return mapped

    def predict_proba(self, X: Any) -> FloatArray:
        """Probability of each component for each row, shape (N, G)."""
        return np.concatenate(list(self._each(X, probabilities)), dtype=self.means_.dtype)

    def transform(self, X: Any, component: int | None = None) -> Any:
        """A signed score for each row and column group of two or more columns, shape (N, number of such groups).

        The posterior mean of the factor of a one-factor block, given the values of the row; else the position along the
        first principal axis of the block's correlation. Scores have mean 0 and variance 1 in their component, less
        where values are missing; the group's columns, or most of them, rise with them. With heavy tails the scale
        matrix stands for the covariance.

        Parameters
        ----------
        X : as in `predict`
        component : int, optional
            Only the groups of one component, counted from 0. By default those of all components side by side, each
            score as if every row belonged to that component. With a shared covariance the groups are the same, and a
            score is what the row has beyond the mean of its cluster.

        Returns
        -------
        array, or what `set_output` asks for
        """
        axes = axes_of(self, component)
        values = scores(
            rows_to_score(self, X).powered(self._parameters.powers), axes, self.means_, self.blocks_, self._scorer()
        )
        return framed(self, values, X, axes)

    def fit_transform(self, X: Any, y: object = None, **parameters: Any) -> Any:
        """Fit and return the scores of the rows."""
        return self.fit(X, y, **parameters).transform(X)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Names of the scores: the column that goes best with each, and how many more there are.

        Clusters are counted from 1 in names, as in "cluster 1: flavanoids +4".
        """
        return np.array([axis.name for axis in axes_of(self)], dtype=object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Let `transform` return "default" (an array), "pandas" or "polars" data frames; None changes nothing."""
        return as_output(self, transform)

    def associate(self, X: Any, traits: Any) -> Any:
        """How the clusters and the scores of the column groups go with traits, columns that took no part in the fit.

        Parameters
        ----------
        X : as in `predict`
            The rows of the fit, or new ones.
        traits : data frame, mapping of columns, series or array
            One value per row: numbers, dates, booleans, categories or texts. Missing values leave out the row for
            that trait.

        Returns
        -------
        pandas.DataFrame
            One line per trait with the clusters and with each score of `transform`:

            - ``trait``, ``what``: name of the trait; "clusters", or the name of the score.
            - ``cluster``, ``group``: numbers of the score's cluster and group as in `column_table`, from 1.
            - ``kind``: "η²", the share of a number's variance between clusters (or of a score's between the categories
              of a trait); "Cramér's V" of clusters and categories; "r" of scores and numbers.
            - ``estimate``, ``low``, ``high``: the effect and its 95 % interval.
            - ``n``: rows it rests on: for a score those of its component.
            - ``p``, ``q``: probability of an effect as large if there is none, and the false discovery rate (Benjamini
              and Hochberg) over all p of the table. Numbers count by their normal scores (van der Waerden), so that no
              outlier makes a finding; where few rows share a value, rows are permuted, and p is at least 0.0001.
            - ``note``: why a number is NaN.

        Notes
        -----
        Clusters and groups were found in the same rows, but without the traits, so p holds for traits that took no
        part. A trait that is a column of the fit, or equal to one, has no p. A trait that follows from such columns
        does, and p says no more than that: it goes with the table, whether or not the clusters are real. Rows must be
        independent of each other.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> factor = rng.standard_normal(200)
        >>> X = rng.standard_normal((200, 4)) + factor[:, None]
        >>> from blockmix import GaussianBiclustering
        >>> table = GaussianBiclustering(1, 1).fit(X).associate(X, {"age": factor + rng.standard_normal(200)})
        >>> table[["trait", "kind", "n"]].to_dict("records")
        [{'trait': 'age', 'kind': 'r', 'n': 200}]
        """
        axes, rows = axes_of(self), rows_to_score(self, X)
        values = scores(
            rows.powered(self._parameters.powers), axes, self.means_, self.blocks_, self._scorer(), unknown=np.nan
        )
        labels = self.predict(X) if len(self.weights_) > 1 else None
        return associated(traits, X, rows, axes, values, labels, column_names(self))

    def score_samples(self, X: Any) -> FloatArray:
        """Log-density of each row, shape (N,)."""
        density = np.concatenate(list(self._each(X, log_density)))
        with np.errstate(over="ignore"):  # −inf in single precision
            return density.astype(self.means_.dtype)

    def score(self, X: Any, y: object = None) -> float:
        """Mean log-density of the rows."""
        weight, likelihood = self._sums(X)[:2]
        return float(likelihood / weight)

    def bic(self, X: Any, sample_weight: ArrayLike | None = None) -> float:
        """Bayesian information criterion with the price of the column groups; smaller is better.

        −2 log L + parameters · log N + 2 · `partition_price_`, which is 0, so that this is the usual BIC, if the number
        of column groups was given, if all columns are in one group and if all are alone.
        """
        return self._criteria(self._sums(X, sample_weight))["bic"]

    def aic(self, X: Any, sample_weight: ArrayLike | None = None) -> float:
        """Akaike's information criterion, −2 log L + 2 · parameters; smaller is better."""
        return self._criteria(self._sums(X, sample_weight))["aic"]

    def icl(self, X: Any, sample_weight: ArrayLike | None = None) -> float:
        """Integrated completed likelihood: BIC − 2 Σ log of each row's largest probability; smaller is better."""
        return self._criteria(self._sums(X, sample_weight))["icl"]

    def _criteria(self, sums: FloatArray) -> dict[str, float]:
        """Log-likelihood and all criteria from the sums of `labelled`."""
        weight, likelihood, certainty = sums[:3].tolist()
        price = getattr(self, "partition_price_", 0.0)
        bic = -2 * likelihood + self.n_parameters_ * float(np.log(weight)) + 2 * price
        aic = -2 * likelihood + 2 * self.n_parameters_
        return {"log_likelihood": likelihood, "bic": bic, "icl": bic - 2 * certainty, "aic": aic}

    def _sums(self, X: Any, sample_weight: ArrayLike | None = None) -> FloatArray:
        """The sums of `labelled` from one pass over the rows; a weight of 2 counts a row twice."""
        with one_blas_thread():
            rows = rows_to_score(self, X, sample_weight)
            return rows.map_sum(partial(_chunk_sums, scorer=self._scorer()))

    def _each(self, X: Any, function: Callable[[FloatArray], T]) -> Iterator[T]:
        """A function of log π_g f_g (m, G), chunk by chunk."""
        rows = rows_to_score(self, X)
        with one_blas_thread():
            yield from rows.map(partial(_applied, function=function, scorer=self._scorer()))

    def sample(self, n_samples: int = 1) -> tuple[FloatArray, IntArray]:
        """Draw rows and the components they come from."""
        if n_samples < 1:
            raise ValueError(f"n_samples={n_samples} must be at least 1")
        rng = check_random_state(self.random_state)
        weights = np.asarray(self.weights_, dtype=float)
        counts = rng.multinomial(n_samples, weights / weights.sum())  # float32 weights may exceed one together
        X = np.concatenate([self._sample_component(g, count, rng) for g, count in enumerate(counts)])
        return X, np.repeat(np.arange(len(counts)), counts)

    @property
    def labels_(self) -> IntArray:
        """The component of each row: scikit-learn's name for `row_labels_`."""
        return self.row_labels_

    @property
    def rows_(self) -> BoolArray:
        """Rows of each bicluster, a boolean array of shape (biclusters, N)."""
        groups = [(g, k) for g, labels in enumerate(self.column_labels_) for k in range(labels.max() + 1)]
        return np.array([self.row_labels_ == g for g, _ in groups])

    @property
    def columns_(self) -> BoolArray:
        """Columns of each bicluster, a boolean array of shape (biclusters, p)."""
        return np.array([labels == k for labels in self.column_labels_ for k in range(labels.max() + 1)])

    def describe(self, stability: Stability | None = None) -> str:
        """The answer in sentences: clusters and what marks them, groups of columns, how far to trust it.

        Clusters and groups count from 1 here, and have the names in `names_`, a dict that you may set, such as
        ``{"cluster 1": "calm", "group 2": "sleep"}``. With the result of `stability`, groups are firm, open or chance.
        """
        return str(answer(self, stability))

    def _html_repr(self) -> str:  # what scikit-learn shows in a notebook
        return answer(self).html() if hasattr(self, "row_labels_") else super()._html_repr()

    def column_table(self) -> Any:
        """Cluster, column, group and its size, and loading, as a pandas data frame with a line per cluster and column.

        Clusters and groups count from 1, and groups that share most columns have one number in all clusters. A column
        alone is a group of size 1. The loading is the correlation with the strongest factor of the group. Where all
        clusters have the same groups, because they share a covariance, there is one line per column.
        """
        return column_table(self)

    def row_table(self, X: Any) -> Any:
        """Cluster of each row, its probability and how far the row is, as a pandas data frame with a line per row.

        The probability is missing where it cannot be known, with more columns than rows.
        """
        z, (_, _, described) = self.predict_proba(X), labelled_rows(self, rows_to_score(self, X))
        return row_table(self, getattr(X, "index", None), z, described)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the estimator to a file that `blockmix.load` reads; an existing file is replaced as a whole."""
        from blockmix.estimators.stored import save_model  # loads what topics need

        save_model(self, path)

    def plot_correlations(self, X: ArrayLike, component: int = 0, *, ax: Sequence[Axes] | None = None) -> NDArray[Any]:
        """Observed and estimated correlation of a component side by side, in group order; returns two Axes.

        Rows of X are weighted by their probability of the component.
        """
        view, title = self._view(X, component), named(self, "cluster", component)
        assert view.observed is not None
        names = column_names(self)
        return plotting.correlation_pair(view.observed, view.estimated, view.partition, names=names, title=title, ax=ax)

    def plot_checkerboard(self, X: ArrayLike, component: int = 0, *, ax: Axes | None = None) -> Axes:
        """Standardized rows of X sorted by cluster, columns in the group order of one of them."""
        self._check_component(component)
        values, labels, names = self._array(X), self.predict(X), column_names(self)
        partition = Partition(self.column_labels_[component])
        return plotting.checkerboard(values, labels, partition, names=names, clusters=self._called(), ax=ax)

    def plot_map(self, X: ArrayLike, *, ax: Axes | None = None) -> Axes:
        """The rows of X on the two axes that separate the clusters best, as on the page."""
        values, centers = self._array(X), Centers.of(self)
        values = np.asarray(self.impute(X)) if np.isnan(values).any() and hasattr(self, "impute") else values
        axes, names = row_axes((values - centers.overall) / centers.scale, centers, self.blocks_)
        return plotting.row_map(axes, self.predict(X), self._called(), names, ax=ax)

    def plot_profiles(self, *, ax: Axes | None = None) -> Axes:
        """Mean score of each cluster in the column groups: the mean of the standardized columns of a group."""
        numbers = group_numbers(self)
        covariances = self.blocks_[:1] if getattr(self, "shared_covariance", False) else self.blocks_
        found = {}  # a group that several clusters have is one row
        for g, parts in enumerate(group_scores(Centers.of(self), covariances)):
            for columns, means in parts:
                found[tuple(columns.tolist())] = (numbers[g, columns[0]], means)
        if not found:
            raise ValueError("no columns go together, so there are no groups: plot_differences shows the columns")
        rows = sorted(found.items(), key=lambda item: item[1][0])[:_ROWS]
        listed = [", ".join(ranged([column_names(self)[j] for j in columns])) for columns, _ in rows]
        names = [f"{named(self, 'group', k)}: {text:.40}" for text, (_, (k, _)) in zip(listed, rows, strict=True)]
        return plotting.means_heatmap(np.array([means for _, (_, means) in rows]), names, self._called(), ax=ax)

    def plot_differences(self, n_columns: int = 6, *, ax: Axes | None = None) -> Axes:
        """Means of the clusters in the columns that mark each most, against the mean of all others."""
        centers, names = Centers.of(self), column_names(self)
        marks = [j for g in range(len(centers.weights)) for part in centers.marks(g, n_columns) for j in part.tolist()]
        columns = list(dict.fromkeys(marks))[:_ROWS]
        if not columns:
            raise ValueError("no column marks a cluster: their means are within half a standard deviation")
        rows = [names[j] for j in columns]
        return plotting.means_heatmap(centers.apart[:, columns].T, rows, self._called(), ax=ax)

    def _called(self) -> list[str]:
        return [named(self, "cluster", g) for g in range(len(self.weights_))]

    def plot_dendrogram(self, X: ArrayLike, component: int = 0, *, ax: Axes | None = None) -> Axes:
        """Dendrogram of the columns by their correlation in a component, cut into the fitted number of groups."""
        view, title = self._view(X, component), named(self, "cluster", component)
        return plotting.dendrogram(view.tree, view.partition.n_groups, names=column_names(self), title=title, ax=ax)

    def plot_associations(self, X: Any, traits: Any, *, ax: Axes | None = None) -> Axes:
        """Clusters and scores against traits as a heat map of `associate`, with a star where q is below 0.05."""
        return plotting.association_heatmap(self.associate(X, traits), ax=ax)

    def _view(self, X: ArrayLike, component: int) -> ComponentView:
        self._check_component(component)
        return component_view(self.blocks_[component], self._modelled(X), self.predict_proba(X)[:, component], self)

    def _check_component(self, component: int) -> None:
        G = len(self.weights_)
        if not 0 <= component < G:
            raise ValueError(f"component={component} must be from 0 to {G - 1}: the model has {G} components")

    def _modelled(self, X: ArrayLike) -> FloatArray:
        """The rows, checked, with the powers of their columns: the space of means and covariances."""
        values, powers = self._array(X), self._parameters.powers
        return values if powers is None else powers.of(values).astype(values.dtype)

    def _array(self, X: ArrayLike) -> FloatArray:
        """The rows as one array, checked."""
        rows: FloatArray = matrix(self, X, reset=False)
        return rows.astype(self.means_.dtype, copy=False)


def _applied(chunk: Chunk, function: Callable[[FloatArray], T], scorer: Scorer) -> T:
    return function(scorer(chunk))


def _chunk_sums(chunk: Chunk, scorer: Scorer) -> FloatArray:
    return labelled(chunk, scorer)[1]

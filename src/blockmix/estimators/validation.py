"""Inputs: check X and sample_weight, turn them into `Rows`, and keep the columns with the estimator.

Data in memory are checked by scikit-learn as a whole, data that need not fit there as they are read. The paper has no
counterpart.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from numbers import Integral
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_array, get_tags
from sklearn.utils.validation import _check_sample_weight, validate_data

from blockmix.grouping import GROUPINGS, RULES, BestCut, Grouping, Rule
from blockmix.grouping.common_factors import MOST
from blockmix.grouping.grouping import check_n_groups
from blockmix.partition import FloatArray, Partition, RandomState
from blockmix.rows import ArrayRows, Rows, opened
from blockmix.rows.files import available_memory

_TYPES = [np.float64, np.float32]
_MANY = 5000  # columns from which it is asked whether p × p matrices fit into memory


class ParameterError(ValueError):
    """A parameter has a value that cannot be used: `parameter=value` and what is wrong with it.

    The command shows the option in place of the parameter.
    """

    def __init__(self, parameter: str, value: object, problem: str) -> None:
        super().__init__(parameter, value, problem)
        self.parameter, self.value, self.problem = parameter, value, problem

    def __str__(self) -> str:
        return f"{self.parameter}={self.value!r} {self.problem}"


def rows_to_fit(estimator: Any, X: Any, sample_weight: ArrayLike | None) -> Rows:
    """Standardized rows, at least two and one per component; the estimator takes over their columns."""
    least = max(2, estimator.n_components)
    if elsewhere := is_elsewhere(X):
        rows = opened(X, counts(sample_weight, None, least), allow_missing=takes_missing(estimator)).measured()
        if rows.n_rows < 2:
            raise ValueError(f"X has {rows.n_rows} row: at least 2 are needed")
    else:
        X = matrix(estimator, X, accept_sparse="csr", ensure_min_samples=2)
    n_rows = rows.n_rows if elsewhere else X.shape[0]
    if n_rows < estimator.n_components:
        raise ParameterError("n_components", estimator.n_components, f"exceeds the n_samples={n_rows} rows of X")
    if elsewhere:
        _remember(estimator, rows)
    else:
        rows = _in_memory(X, counts(sample_weight, X, least)).measured()
    counted = min(rows.total_weight, n_rows if rows.weights is None else int(np.count_nonzero(rows.weights)))
    if 0 < counted < least:
        raise ValueError(f"the rows of X that have values count {counted:g}: at least {least} are needed")
    return rows


def rows_to_score(estimator: Any, X: Any, sample_weight: ArrayLike | None = None, cast: bool = True) -> Rows:
    """Rows in their own units, with the columns and the resolution of the fit, and in its type if `cast`."""
    dtype = estimator.means_.dtype if cast else None
    if is_elsewhere(X):
        rows = opened(X, counts(sample_weight, None, 0), dtype, takes_missing(estimator))
        _compare(estimator, rows)
    else:
        X = matrix(estimator, X, accept_sparse="csr", reset=False)
        X = X.astype(dtype or X.dtype, copy=False)
        rows = _in_memory(X, counts(sample_weight, X, 0))
    return rows.replace(resolution=getattr(estimator, "resolution_", rows.resolution))


def _in_memory(X: Any, weights: FloatArray | None) -> Rows:
    return opened(X, weights, allow_missing=True) if issparse(X) else ArrayRows.of(X, weights)


def is_elsewhere(X: Any) -> bool:
    """Whether X need not be in memory: then it is checked as it is read, and not by scikit-learn beforehand."""
    if isinstance(X, (str, os.PathLike, np.memmap, Iterator)) or hasattr(X, "pieces"):
        return True
    is_dask = hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed")  # told without importing Dask
    return is_dask or (callable(X) and not hasattr(X, "__array__"))


def check_whole(name: str, value: object, least: int = 1) -> None:
    """Raise a ValueError unless a parameter is a whole number that is large enough."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ParameterError(name, value, f"must be a whole number that is at least {least}")


def refuse_attribute(estimator: Any, name: str) -> Any:
    """Raise a NotFittedError, or an AttributeError if a fitted estimator has no such attribute either."""
    wanted = name == "_parameters" or (name.endswith("_") and not name.startswith("_"))
    if wanted and "warnings_" not in vars(estimator):  # with which a fit ends
        raise NotFittedError(f"This {type(estimator).__name__} instance is not fitted yet: call fit first")
    raise AttributeError(f"{type(estimator).__name__!r} object has no attribute {name!r}")


def check_memory(n_columns: int, matrices: int) -> None:
    """Raise a MemoryError if the system has no room for this many p × p matrices, which regroups hold at a time."""
    needed = 8.0 * matrices * n_columns**2
    if n_columns > _MANY and needed > (available := available_memory()):
        memory = f"need about {needed / 1e9:.3g} GB of memory, and {available / 1e9:.3g} GB are available"
        fitting = int((available / (16.0 * matrices)) ** 0.5)
        raise MemoryError(f"column groups of {n_columns} columns {memory}: keep the {fitting} of largest variance")


def takes_missing(estimator: Any) -> bool:
    """Whether an estimator takes rows with missing values."""
    return bool(get_tags(estimator).input_tags.allow_nan)


def matrix(estimator: Any, X: Any, allow_missing: bool | None = None, **checks: Any) -> Any:
    """X as a matrix of numbers, checked by scikit-learn; what is wrong with a data frame is said by column.

    NaN is a missing value if the estimator takes them, and refused otherwise; `allow_missing` overrides that.
    """
    if not isinstance(X, np.ndarray):
        _check_table(X)
    if allow_missing is None:
        allow_missing = takes_missing(estimator)
    plain = _plain(X) if isinstance(X, np.ma.MaskedArray) or hasattr(X, "isetitem") else X
    finite = "allow-nan" if allow_missing else True
    try:
        with np.errstate(invalid="ignore"):  # it adds infinities up to look for them
            return validate_data(estimator, plain, dtype=_TYPES, ensure_all_finite=finite, **checks)
    except (TypeError, ValueError) as error:
        _explain(X, error, allow_missing)
        raise


def _check_table(X: Any) -> None:
    """Raise a ValueError for what looks like a table but is not one, and for columns of the same name."""
    if type(X).__name__ == "LazyFrame":
        raise ValueError("X is a LazyFrame, whose rows are not known yet: give X.collect()")
    if hasattr(X, "obs_names"):
        raise ValueError("X is an AnnData: call blockmix.anndata.fit(X), or give the table X.to_df()")
    if hasattr(X, "isetitem") and X.columns.has_duplicates:
        names = [str(name) for name in X.columns[X.columns.duplicated()].unique()]
        raise ValueError(f"X has several columns of the same name: {_listed(names)}; rename or drop them")


def _plain(X: Any) -> Any:
    """A masked array or data frame with NaN for missing values that scikit-learn does not convert.

    These are masked cells, whose hidden values it would use, and pandas.NA in object columns.
    """
    if isinstance(X, np.ma.MaskedArray):
        return np.ma.filled(X.astype(np.result_type(X.dtype, np.float32)), np.nan)
    for j in [j for j, dtype in enumerate(X.dtypes) if dtype.kind == "O"]:
        column, X = X.iloc[:, j], X.copy(deep=False)
        X.isetitem(j, np.where(column.isna(), np.nan, column.to_numpy()))
    return X


def _explain(X: Any, error: Exception, allow_missing: bool) -> None:
    """Raise an error that names the columns that are not numbers, infinite or, unless taken, NaN."""
    is_frame = hasattr(X, "columns") and hasattr(X, "to_numpy")
    if is_frame and len(X):
        columns = {str(name): X[[name]] for name in X.columns}
    elif isinstance(X, np.ndarray) and X.ndim == 2:
        columns = {str(j): X[:, [j]] for j in range(X.shape[1])}
    else:
        return
    words = [name for name, column in columns.items() if not _are_numbers(column)]
    reasons = ("could not convert", "Cannot cast", "be promoted", *(("float() argument",) if is_frame else ()))
    if words and any(reason in str(error) for reason in reasons):
        hold = f"column {words[0]} holds" if len(words) == 1 else f"columns {_listed(words)} hold"
        advice = ", for example with X.select_dtypes('number')" if is_frame else ""
        raise ValueError(f"{hold} text or dates, not numbers: drop or encode such columns{advice}") from None
    refused, what = (np.isinf, "infinity") if allow_missing else (lambda x: ~np.isfinite(x), "NaN or infinity")
    values = {name: np.asarray(column) for name, column in columns.items()}
    counts = {name: int(refused(x).sum()) for name, x in values.items() if x.dtype.kind == "f"}
    if wrong := [f"{name} ({count})" for name, count in counts.items() if count]:
        remedy = "" if allow_missing else ", or use GaussianBiclustering, which takes NaN"
        cells = f"the number of such cells is in brackets; fill or drop them{remedy}"
        raise ValueError(f"X has {what} in column {_listed(wrong)}: {cells}") from None


def _are_numbers(column: Any) -> bool:
    """Whether a data frame of one column can be converted to numbers; dates could be, but are refused."""
    try:
        check_array(column, dtype=_TYPES, ensure_all_finite=False)
    except (TypeError, ValueError):
        return False
    return np.asarray(column).dtype.kind not in "mM"


def _listed(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def counts(sample_weight: ArrayLike | None, X: Any, least: int) -> FloatArray | None:
    """How often each row counts, shape (N,), for as many rows as are needed; None is once each."""
    if sample_weight is None:
        return None
    if X is None:  # rows that have not been counted yet: they are as many as there are weights, or refused when read
        X = np.empty((np.size(sample_weight), 0))
    weights: FloatArray = _check_sample_weight(sample_weight, X, dtype=X.dtype, ensure_non_negative=True)
    counted, total = np.count_nonzero(weights), float(weights.sum(dtype=float))
    if counted < least:
        raise ValueError(f"sample_weight is positive for {counted} rows: at least {least} are needed")
    if total < least * (1 - 1e-9):  # drawn weights have the sum of the rows, but for rounding
        advice = f"a weight counts rows and at least {least} are needed: multiply the weights"
        raise ValueError(f"sample_weight sums to {total:g}, but {advice}")
    return weights


def _remember(estimator: Any, rows: Rows) -> None:
    """Take over number and names of the columns, as scikit-learn does for data in memory."""
    estimator.n_features_in_ = rows.n_columns
    if rows.names is not None:
        estimator.feature_names_in_ = np.array(rows.names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_


def _compare(estimator: Any, rows: Rows) -> None:
    """Refuse columns that are not those of the fit."""
    if rows.n_columns != estimator.n_features_in_:
        fitted = f"{type(estimator).__name__} was fitted to {estimator.n_features_in_}: choose the same columns"
        raise ValueError(f"X has {rows.n_columns} columns, but {fitted}")
    names = getattr(estimator, "feature_names_in_", ())
    for j, (name, expected) in enumerate(zip(rows.names or (), names, strict=False)):
        if name != expected:
            raise ValueError(f"column {j} of X is {name!r} and was {expected!r} in the fit: choose the same columns")


def as_grouping(grouping: str | Grouping, random_state: RandomState = None) -> Grouping:
    """Return the grouping of that name, seeded if it draws random numbers, or the object itself."""
    if isinstance(grouping, str) and grouping in GROUPINGS:
        made = GROUPINGS[grouping]()
        if hasattr(made, "random_state"):
            made.random_state = random_state
        return cast(Grouping, made)
    if isinstance(grouping, Grouping) and not isinstance(grouping, type):
        return grouping
    raise ValueError(f"grouping={grouping!r} must be one of {', '.join(GROUPINGS)} or an object with a method `group`")


def as_rule(n_groups: object, name: str, block_model: Any) -> Rule:
    """Return the rule of that name, with the shapes that a block may have, or the rule itself."""
    if isinstance(n_groups, str) and n_groups in RULES:
        return cast(Rule, BestCut(block_model) if n_groups == "auto" else RULES[n_groups]())
    # NumPy's numbers and arrays have a method `choose` of their own.
    if hasattr(n_groups, "choose") and not isinstance(n_groups, (type, np.generic, np.ndarray)):
        return cast(Rule, n_groups)
    raise ValueError(
        f"{name}={n_groups!r} must be a whole number, one of {', '.join(RULES)}, or a rule such as "
        "SilhouetteRule(candidates=range(2, 5))"
    )


def given_groups(given: object, p: int, name: str) -> int | Partition:
    """A number of groups of p columns, or the groups, checked."""
    if not isinstance(given, Partition):
        return check_n_groups(given, p, name)
    if given.n_columns != p:
        raise ValueError(f"{name} is a partition of {given.n_columns} columns, but X has {p}")
    return given


def check_common(value: object) -> None:
    """Refuse a number of common factors that is neither "auto" nor a whole number."""
    whole = isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0
    if not (whole or (isinstance(value, str) and value == "auto")):
        raise ValueError(f'common_factors={value!r} must be "auto" or a whole number that is at least 0')


def common_range(value: int | str, p: int, chosen: bool) -> tuple[int, int]:
    """Least and largest number of common factors of p columns, whose groups are chosen or given."""
    if isinstance(value, str):
        return 0, min(MOST, p // 4) * chosen  # fewer columns cannot have two groups and a factor on top
    if value >= p:
        raise ValueError(f"common_factors={value} must be fewer than the {p} columns of X")
    return int(value), int(value)

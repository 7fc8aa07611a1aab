"""Laws of selection: every row is a fit of its own, and a choice that is not to be trusted comes with a warning."""

from __future__ import annotations

import pickle
import sys
import threading
import time
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from blockmix.estimators.factor import FactorBiclustering
from blockmix.estimators.gaussian import GaussianBiclustering
from blockmix.estimators.mixture import Mixture
from blockmix.grouping import BestCut, Proposal, SilhouetteRule
from blockmix.partition import Partition
from blockmix.selection import SelectionProgress, SelectionTable, SelectionWarning, select


def two_clusters(n: int = 60) -> np.ndarray:
    """Rows in two clusters, six columns in three pairs."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((n, 6)) + np.repeat(rng.standard_normal((n, 3)), 2, axis=1)
    X[: n // 2] += 8
    return X


X = two_clusters()
P = X.shape[1]
# Where few numbers are tried, the best is likely to lie at an edge. Other tests hold the warning.
no_caveats = pytest.mark.filterwarnings("ignore::blockmix.selection.trials.SelectionWarning")


class Scripted(Mixture):
    """A mixture whose BIC, warnings and errors are written down: BIC is |G − best_G| + |K − best_K|."""

    fits = 0

    def __init__(
        self,
        n_components: int = 1,
        n_column_groups: Any = "auto",
        best: tuple[int, int] = (2, 2),
        errors: tuple[int, ...] = (),
        degenerate: tuple[int, ...] = (),
        notes: tuple[str, ...] = (),
        other: str = "",
        interrupt_at: int = 0,
        sleep: float = 0.0,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_column_groups = n_column_groups
        self.best = best
        self.errors = errors
        self.degenerate = degenerate
        self.notes = notes
        self.other = other
        self.interrupt_at = interrupt_at
        self.sleep = sleep
        self.random_state = random_state

    def fit(self, X: np.ndarray, y: object = None) -> Scripted:
        Scripted.fits += 1
        if self.n_components in self.errors:
            raise ValueError(f"no fit\nfor {self.n_components}")
        for note in self.notes:
            warnings.warn(note.format(G=self.n_components), ConvergenceWarning, stacklevel=2)
        if self.other:
            warnings.warn(self.other, UserWarning, stacklevel=2)
        time.sleep(self.sleep)
        self.n_features_in_ = X.shape[1]
        self.row_labels_ = np.zeros(len(X), dtype=np.intp)
        self.n_parameters_ = 10 * self.n_components
        K = self.n_column_groups if isinstance(self.n_column_groups, int) else 1
        self.column_labels_ = np.tile(np.arange(K), (self.n_components, 1))
        if self.n_components in self.degenerate:
            self.outcome_ = "degenerate"
        if self.n_components == self.interrupt_at:
            self.outcome_ = "interrupted"
        return self

    def _criteria(self, X: Any, sample_weight: Any) -> dict[str, float]:
        bic = float(abs(self.n_components - self.best[0]))
        if isinstance(self.n_column_groups, int):
            bic += abs(self.n_column_groups - self.best[1])
        if self.n_components in self.degenerate:
            bic -= 1000
        return {"log_likelihood": -bic, "bic": bic, "icl": bic + self.n_components, "aic": -bic}


def scripted(n_components: Any = (1, 2, 3), n_column_groups: Any = "auto", *, jobs: Any = None, **script: Any) -> Any:
    return select(X, n_components, n_column_groups, estimator=Scripted(random_state=0), n_jobs=jobs, **script)


def pairs(table: SelectionTable) -> list[tuple[int, Any]]:
    return [(row.n_components, row.n_column_groups) for row in table.rows]


def numbers(table: SelectionTable) -> dict[tuple[int, Any], tuple[Any, ...]]:
    return {
        (row.n_components, row.n_column_groups): (row.groups, row.n_parameters, row.bic, row.icl, row.aic, row.outcome)
        for row in table.rows
    }


@no_caveats
def test_every_row_is_a_fit_of_its_own() -> None:
    table = select(X, [2, 1], ["auto", 2, 4], random_state=0)
    assert pairs(table) == [(G, K) for G in (2, 1) for K in ("auto", 2, 4)]
    for row in table.rows:
        model = GaussianBiclustering(row.n_components, row.n_column_groups, random_state=0).fit(X)
        likelihood = model.score_samples(X).sum()
        k = model.n_parameters_
        assert row.n_parameters == k
        assert row.groups == tuple(model.n_column_groups_)
        assert row.log_likelihood == pytest.approx(likelihood, rel=1e-12)
        paid = k * np.log(len(X)) + 2 * model.partition_price_
        assert row.bic == pytest.approx(-2 * likelihood + paid, rel=1e-12)
        assert row.aic == pytest.approx(-2 * likelihood + 2 * k, rel=1e-12)
        certain = np.log(model.predict_proba(X).max(axis=1)).sum()
        assert row.icl == pytest.approx(row.bic - 2 * certain, rel=1e-12)
        assert row.bic == row.model.bic(X) and row.icl == row.model.icl(X) and row.aic == row.model.aic(X)
        assert row.outcome == model.outcome_ == "converged"
        assert np.array_equal(row.model.row_labels_, model.row_labels_)
    assert table.models == [row.model for row in table.rows]
    assert table.best_ is min(table.rows, key=lambda row: row.bic)
    assert table.best_.n_components == 2
    assert table.best_estimator_ is table.best_.model


@no_caveats
def test_processes_give_the_same_table() -> None:
    alone = select(X, [1, 2], ["auto", 99, (2, 3)], random_state=1)
    together = select(X, [1, 2], ["auto", 99, (2, 3)], random_state=1, n_jobs=2)
    assert pairs(together) == pairs(alone)
    for a, b in zip(alone.rows, together.rows, strict=True):
        assert (a.outcome, a.n_parameters, a.groups) == (b.outcome, b.n_parameters, b.groups)
        assert (a.model is None) == (b.model is None)
        if a.model is not None:
            assert (a.bic, a.icl, a.aic) == (b.bic, b.icl, b.aic)
            assert np.array_equal(a.model.predict_proba(X), b.model.predict_proba(X))


@no_caveats
@pytest.mark.parametrize("seed", [None, 7, np.int64(7), "state"])
def test_every_model_can_be_fitted_again(seed: Any) -> None:
    # Red if a RandomState went to the fits as it is: the second fit would go on from where the first one ended.
    state = np.random.RandomState(3) if seed == "state" else seed
    table = select(X, [2, 3], random_state=state, init="random", max_iter=5)
    assert len({row.model.random_state for row in table.rows}) == 1
    for row in table.rows:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            again = clone(row.model).fit(X)
        assert again.bic(X) == row.bic
    if seed == "state":
        later = select(X, [2], random_state=state, init="random", max_iter=5)
        assert later.models[0].random_state != table.models[0].random_state


@no_caveats
@pytest.mark.parametrize("criterion", ["bic", "icl", "aic"])
def test_the_criterion_decides(criterion: str) -> None:
    table = scripted([2, 3], criterion=criterion, best=(3, 1))
    values = {"bic": [1.0, 0.0], "icl": [3.0, 3.0], "aic": [-1.0, 0.0]}[criterion]
    assert [getattr(row, criterion) for row in table.rows] == values
    assert table.best_ is table.rows[int(np.argmin(values))]  # the first of equal ones
    assert str(table).endswith(f"\n* smallest {criterion}")


@no_caveats
@pytest.mark.parametrize(
    ("given", "candidates"),
    [
        ("auto", ["auto"]),
        (3, [3]),
        (np.int64(3), [3]),
        ([3, 4], [3, 4]),
        ((3, 4), [3, 4]),
        (range(3, 5), [3, 4]),
        (np.array([3, 4]), [3, 4]),
        ([3, 3, "auto", 3], [3, "auto"]),
        ([(3, 4)], [(3, 4)]),
        ([[3, 4], "silhouette"], [(3, 4), "silhouette"]),
    ],
)
def test_a_list_is_a_list_of_candidates(given: Any, candidates: list[Any]) -> None:
    table = scripted(2, given, best=(2, 3))
    assert pairs(table) == [(2, K) for K in candidates]
    assert all(type(row.n_column_groups) in (int, str, tuple) for row in table.rows)


def test_one_number_per_component_is_tried_with_that_many_components() -> None:
    table = select(X, [1, 2, 3], [(2, 3), 3], random_state=0)
    assert pairs(table) == [(1, 3), (2, (2, 3)), (2, 3), (3, 3)]
    assert table.rows[1].groups == (2, 3)


@no_caveats
def test_a_rule_is_one_candidate() -> None:
    table = select(X, [1, 2], SilhouetteRule(candidates=range(2, 4)), random_state=0)
    assert [row.groups for row in table.rows] == [(3,), (3, 3)]
    assert "SilhouetteRule(candidates=range(2, 4))" in str(table)


@no_caveats
def test_a_grouping_and_a_rule_of_the_user_are_candidates_like_ours() -> None:
    # Red if a candidate had to be of a class that can be imported.
    class Alternating:
        def group(self, S: np.ndarray, n_groups: int, n_rows: float) -> Proposal:
            return Proposal(Partition(np.arange(len(S)) % n_groups))

    class Always:
        def __init__(self, number: int) -> None:
            self.number = number

        def choose(
            self, S: np.ndarray, n_rows: float, grouping: Any, squares: Any = None, price: Any = None
        ) -> Proposal:
            return grouping.group(S, self.number, n_rows)

    table = select(X, [1, 2], [Always(2), Always(2), Always(3)], grouping=Alternating(), random_state=0)
    assert [row.groups for row in table.rows] == [(2,), (3,), (2, 2), (3, 3)]
    assert len(table.extend(n_column_groups=Always(3)).rows) == 4
    assert table.models[0].column_labels_.tolist() == [[0, 1, 0, 1, 0, 1]]


@pytest.mark.parametrize(
    ("more", "new"),
    [
        ({}, []),
        ({"n_components": 3}, [(3, "auto"), (3, 2)]),
        ({"n_components": [1, 2, 3]}, [(3, "auto"), (3, 2)]),
        ({"n_column_groups": [2, 4]}, [(1, 4), (2, 4)]),
        ({"n_components": [3], "n_column_groups": 4}, [(1, 4), (2, 4), (3, "auto"), (3, 2), (3, 4)]),
    ],
)
def test_extending_fits_only_new_pairs(more: dict[str, Any], new: list[Any]) -> None:
    table = scripted([1, 2], ["auto", 2], best=(1, 2))
    before, reported = Scripted.fits, list[SelectionProgress]()
    extended = table.extend(**more, callback=reported.append)
    assert Scripted.fits - before == len(new)
    assert pairs(extended)[4:] == new
    assert all(a is b for a, b in zip(extended.rows, table.rows, strict=False))
    assert len(table.rows) == 4
    assert [(progress.done, progress.total) for progress in reported] == [(i + 1, len(new)) for i in range(len(new))]
    assert [progress.row for progress in reported] == list(extended.rows[4:])


@no_caveats
def test_extending_equals_trying_all_at_once() -> None:
    # Red if a later fit depended on the earlier ones, for instance through the seed.
    table = select(X, [1, 2], ["auto", BestCut(1)], random_state=0, init="random")
    extended = table.extend([3, 4], [BestCut(1), 3])
    rules = [BestCut(1), "auto", 3]
    whole = select(X, [4, 3, 2, 1], rules, random_state=0, init="random")
    assert len(extended.rows) == len(whole.rows) == 12
    found = {(row.n_components, str(row.n_column_groups)): row.bic for row in extended.rows}
    assert found == {(row.n_components, str(row.n_column_groups)): row.bic for row in whole.rows}
    assert extended.criterion == table.criterion


def test_a_failed_fit_is_a_row() -> None:
    table = scripted([1, 2, 3], errors=(3,), best=(2, 2))
    failed = table.rows[2]
    assert failed.outcome == "failed: no fit for 3"
    assert failed.model is None and failed.groups == () and failed.n_parameters is None
    assert np.isnan([failed.bic, failed.icl, failed.aic, failed.log_likelihood]).all()
    assert table.best_.n_components == 2
    assert table.models[2] is None


def test_errors_of_the_estimator_are_the_outcome() -> None:
    table = select(X[:5], [1, 9], ["auto", 7], random_state=0)
    outcomes = [row.outcome for row in table.rows]
    assert outcomes[1] == "failed: n_column_groups=7 exceeds the 6 columns of X"
    assert outcomes[2] == "failed: n_components=9 exceeds the n_samples=5 rows of X"
    assert table.best_ is table.rows[0]


def test_nothing_succeeded() -> None:
    with pytest.warns(SelectionWarning, match=r"^none of the 2 fits succeeded; the first failed: no fit for 1$"):
        table = scripted([1, 2], errors=(1, 2))
    for attribute in ("best_", "best_estimator_"):
        with pytest.raises(ValueError, match=r"^none of the 2 fits succeeded; the first failed: no fit for 1$"):
            getattr(table, attribute)
    assert table.models == [None, None]
    assert "*" not in str(table)
    assert not table.to_frame()["best"].any()
    assert table.extend([3, 4]).best_.n_components == 3  # a table without a best is still a table


def test_values_that_are_not_finite_are_never_best(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Scripted._criteria

    def criteria(self: Scripted, X: Any, sample_weight: Any) -> dict[str, float]:
        if self.n_components == 3:
            return dict.fromkeys(("log_likelihood", "bic", "icl", "aic"), np.nan)
        return (
            honest(self, X, sample_weight) if self.n_components == 2 else dict.fromkeys(("bic", "icl", "aic"), -np.inf)
        )

    monkeypatch.setattr(Scripted, "_criteria", criteria)
    assert scripted([3, 1, 2]).best_.n_components == 2


@pytest.mark.parametrize(
    ("best", "n_components", "n_column_groups", "sentence"),
    [
        (
            (3, 2),
            [1, 2, 3],
            "auto",
            "n_components=3, the edge of 1 … 3 tried: try more, by extend(n_components=range(4, 7))",
        ),
        (
            (4, 2),
            [5, 4, 6],
            "auto",
            "n_components=4, the edge of 4 … 6 tried: try more, by extend(n_components=range(1, 4))",
        ),
        (
            (1, 4),
            1,
            [2, 4],
            "n_column_groups=4, the edge of 2 … 4 tried: try more, by extend(n_column_groups=range(5, 7))",
        ),
        ((1, 0), 1, [2, 3, 4, "auto"], ""),  # the rule is better than any number
        (
            (1, 2),
            1,
            [2, 3, 4],
            "n_column_groups=2, the edge of 2 … 4 tried: try more, by extend(n_column_groups=range(1, 2))",
        ),
        ((1, 2), [1, 2, 3], "auto", ""),  # no smaller number than 1
        ((2, 2), [1, 2, 3], [1, 2, 3], ""),
        ((1, 1), 1, [1, 2, 3], ""),
        ((1, P), 1, [4, 5, P], ""),  # as many groups as columns
        ((9, 9), 2, 3, ""),  # no range, no edge
        ((len(X), 1), [1, len(X)], "auto", ""),  # no more clusters than rows
    ],
)
def test_a_best_pair_at_the_edge_gives_a_warning(
    best: tuple[int, int], n_components: Any, n_column_groups: Any, sentence: str
) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scripted(n_components, n_column_groups, best=best)
    found = [str(warning.message) for warning in caught]
    assert found == ([f"the smallest bic is at {sentence} of the table"] if sentence else [])
    assert all(warning.category is SelectionWarning for warning in caught)
    assert all(warning.filename == __file__ for warning in caught)  # the line that called select


def test_both_edges_give_a_warning_and_extending_ends_it() -> None:
    with pytest.warns(SelectionWarning) as caught:
        table = scripted([1, 2], [2, 3], best=(3, 4))
    assert len(caught) == 2
    extended = table.extend([3, 4], [4, 5])  # warnings are errors here
    assert (extended.best_.n_components, extended.best_.n_column_groups) == (3, 4)
    with pytest.warns(SelectionWarning, match="n_components=2"):
        table.extend(n_column_groups=[4, 5])


def test_a_degenerate_fit_is_not_chosen_while_there_is_another() -> None:
    with pytest.warns(
        SelectionWarning, match=r"^2 of 3 candidates have a smaller bic than the best, but components with"
    ):
        table = scripted([1, 2, 3], best=(1, 2), degenerate=(2, 3))
    assert table.best_.n_components == 1
    assert [row.degenerate for row in table.rows] == [False, True, True]
    assert str(table).endswith("* smallest bic of the fits that are not degenerate")
    with pytest.warns(SelectionWarning, match="^all fits are degenerate.*; the best is degenerate: too few rows$"):
        alone = scripted([2], degenerate=(2,), notes=("too few rows",))
    assert alone.best_.n_components == 2


@no_caveats
def test_a_real_degenerate_fit_is_seen() -> None:
    rng = np.random.default_rng(0)
    table = select(rng.standard_normal((24, 20)), [1, 2], 1, random_state=0)
    assert table.rows[1].bic < table.rows[0].bic  # the ridge's doing
    assert table.rows[1].degenerate and table.rows[1].outcome.startswith("degenerate: component ")
    assert table.best_ is table.rows[0]


@no_caveats
def test_warnings_about_convergence_become_the_outcome() -> None:
    table = select(X, [2, 3], "auto", random_state=0, init="random", max_iter=1)
    assert [row.outcome for row in table.rows] == [
        "iteration limit: EM stopped at max_iter=1 before it converged: raise max_iter or tol"
    ] * 2


def test_each_warning_is_given_once_and_others_are_passed_on() -> None:
    with pytest.warns(UserWarning, match="^something else$") as caught:
        table = scripted([1, 2], best=(1, 2), notes=("a{G}", "b", "a{G}"), other="something else")
    assert [row.outcome for row in table.rows] == ["converged: a1; b", "converged: a2; b"]
    assert [str(warning.message) for warning in caught] == ["something else"] * 2


def test_threads_do_not_mix_up_the_warnings() -> None:
    # Red without the lock: catching warnings changes the filters of all threads.
    filters = list(warnings.filters)
    with parallel_config(backend="threading", n_jobs=4):
        table = scripted(range(1, 9), best=(1, 2), notes=("{G}",), sleep=0.002)
    assert [row.outcome for row in table.rows] == [f"converged: {G}" for G in range(1, 9)]
    assert warnings.filters == filters


def test_an_interrupt_keeps_the_rows_so_far() -> None:
    def stop(progress: SelectionProgress) -> None:
        if progress.done == 2:
            raise KeyboardInterrupt

    with pytest.warns(SelectionWarning, match=r"^interrupted after 2 of 4 fits: extend\(\) of the table continues$"):
        table = scripted([2, 1, 3, 4], callback=stop)
    assert pairs(table) == [(2, "auto"), (1, "auto")]
    assert pairs(table.extend()) == [(2, "auto"), (1, "auto"), (3, "auto"), (4, "auto")]


def test_a_fit_that_was_interrupted_is_not_a_row() -> None:
    # An estimator may catch the interrupt itself, and answer with the parameters so far.
    with pytest.warns(SelectionWarning, match="^interrupted after 2 of 4 fits"):
        table = scripted([2, 1, 3, 4], interrupt_at=3)
    assert pairs(table) == [(2, "auto"), (1, "auto")]
    with pytest.raises(KeyboardInterrupt):
        scripted([2, 1], interrupt_at=2)


def test_an_interrupt_reaches_the_selection_from_within_a_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()
    honest = GaussianBiclustering.fit

    def fit(self: GaussianBiclustering, *arguments: Any, **named: Any) -> Any:
        def stop(progress: object) -> None:
            if self.n_components == 3 and not done.is_set():
                done.set()
                raise KeyboardInterrupt

        return honest(self, *arguments, **named, callback=stop)

    monkeypatch.setattr(GaussianBiclustering, "fit", fit)
    with pytest.warns(SelectionWarning, match="^interrupted after 2 of 3 fits"):
        table = select(X, [2, 1, 3], random_state=0)
    assert len(table.extend().rows) == 3


def test_the_text_is_a_table() -> None:
    table = scripted([1, 2, 10], [2, (3, 3)], best=(2, 2), errors=(10,))
    text = "\n".join(line.replace(f"{row.seconds:.2f}", "0.00") for line, row in zip_lines(table))
    assert text == (
        "   n_components  n_column_groups  groups  parameters  bic  icl   aic  seconds  outcome\n"
        "              1                2       2          10  1.0  2.0  -1.0     0.00  converged\n"
        "*             2                2     2,2          20  0.0  2.0  -0.0     0.00  converged\n"
        "              2              3,3     1,1          20  0.0  2.0  -0.0     0.00  converged\n"
        "             10                2       -           -    -    -     -     0.00  failed: no fit for 10\n"
        "* smallest bic"
    )
    assert repr(table) == str(table)


def zip_lines(table: SelectionTable) -> Iterable[tuple[str, Any]]:
    head, *lines = str(table).splitlines()
    return [(head, table.rows[0]), *zip(lines, [*table.rows, table.rows[0]], strict=True)]


def test_a_long_outcome_is_cut_in_the_text_only() -> None:
    table = scripted([1], notes=("x" * 200,))
    assert table.rows[0].outcome == "converged: " + "x" * 200
    assert str(table).splitlines()[1].endswith("converged: " + "x" * 48 + "…")


def test_the_frame_has_the_rows() -> None:
    table = scripted([1, 2, 3], best=(2, 2), errors=(3,))
    frame = table.to_frame()
    assert list(frame.columns) == [
        *("n_components", "n_column_groups", "groups", "n_parameters", "log_likelihood", "bic", "icl", "aic"),
        *("seconds", "outcome", "best"),
    ]
    assert frame["bic"].tolist()[:2] == [1.0, 0.0] and np.isnan(frame["bic"][2])
    assert frame["n_parameters"].isna().tolist() == [False, False, True]
    assert frame["best"].tolist() == [False, True, False]
    assert frame["outcome"][2] == "failed: no fit for 3"


def test_a_frame_without_pandas_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    table = scripted([1])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"^pandas is needed and not installed: pip install 'blockmix\[app\]'$"):
        table.to_frame()


@no_caveats
def test_names_of_columns_reach_the_models() -> None:
    import pandas as pd

    names = list("abcdef")
    table = select(pd.DataFrame(X, columns=names), [1, 2], 3, random_state=0, n_init=2)
    assert table.models[0].feature_names_in_.tolist() == names
    assert table.models[0].n_init == 2
    assert [row.bic for row in table.rows] == [row.bic for row in select(X, [1, 2], 3, random_state=0, n_init=2).rows]


@no_caveats
def test_weight_two_is_a_repeated_row() -> None:
    # Red if the criteria forgot the weights: log N would be that of 60 rows.
    weights = np.random.default_rng(0).integers(0, 4, len(X))
    weighted = select(X, [1, 2], [2, 3], random_state=0, sample_weight=weights)
    repeated = select(np.repeat(X, weights, axis=0), [1, 2], [2, 3], random_state=0)
    for a, b in zip(weighted.rows, repeated.rows, strict=True):
        assert [a.bic, a.icl, a.aic, a.log_likelihood] == pytest.approx(
            [b.bic, b.icl, b.aic, b.log_likelihood], rel=1e-6
        )
    model = repeated.best_estimator_
    for name in ("bic", "icl", "aic"):
        whole = getattr(model, name)(np.repeat(X, weights, axis=0))
        assert getattr(model, name)(X, sample_weight=weights) == pytest.approx(whole, rel=1e-12)
        assert getattr(model, name)(X, np.ones(len(X))) == getattr(model, name)(X)


def test_progress_is_printed_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    table = scripted([1, 2], [(2,), 3], best=(1, 3), verbose=1, criterion="icl")
    lines = capsys.readouterr().out.splitlines()
    seconds = [f"{row.seconds:.2f}" for row in table.rows]
    assert lines == [
        f"1 of 3: n_components=1, n_column_groups=2: icl 1.0, {seconds[0]} s, converged",
        f"2 of 3: n_components=1, n_column_groups=3: icl 1.0, {seconds[1]} s, converged",
        f"3 of 3: n_components=2, n_column_groups=3: icl 3.0, {seconds[2]} s, converged",
    ]
    table.extend()
    assert capsys.readouterr().out == ""


def test_a_table_can_be_pickled() -> None:
    table = select(X, [1, 2, 3], random_state=0)
    again = pickle.loads(pickle.dumps(table))
    assert str(again) == str(table)
    assert pairs(again.extend(4)) == [*pairs(table), (4, "auto")]


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"criterion": "BIC"}, ValueError, "criterion='BIC' must be one of bic, icl, aic"),
        (
            {"n_components": 0},
            ValueError,
            "n_components=0 must be a whole number that is at least 1, or several of them",
        ),
        ({"n_components": [1, 2.0]}, ValueError, "n_components=2.0 must be a whole number that is at least 1"),
        ({"n_components": [True]}, ValueError, "n_components=True must be a whole number that is at least 1"),
        ({"n_components": "auto"}, ValueError, "n_components='auto' must be a whole number that is at least 1"),
        ({"n_components": []}, ValueError, r"n_components=\[\] and n_column_groups=\['auto'\] make no pair"),
        ({"n_column_groups": []}, ValueError, r"n_components=\[1, 2, 3, 4, 5\] and n_column_groups=\[\] make no pair"),
        (
            {"n_components": 1, "n_column_groups": [(2, 3)]},
            ValueError,
            r"n_components=\[1\] and n_column_groups=\[\(2, 3\)\]",
        ),
        ({"estimator": GaussianBiclustering}, TypeError, "estimator=.* must be a mixture such as GaussianBiclustering"),
        ({"estimator": BestCut()}, TypeError, r"estimator=BestCut\(\) must be a mixture"),
        ({"max_iterations": 3}, ValueError, "Invalid parameter 'max_iterations'"),
        (
            {"estimator": Scripted(), "sample_weight": np.ones(60)},
            ValueError,
            "Scripted takes no sample_weight: leave it out or choose another estimator",
        ),
        (
            {"checkpoint": "fit"},
            ValueError,
            r"checkpoint='fit' belongs to one fit, but select makes several: leave it out$",
        ),
    ],
)
def test_wrong_arguments_are_refused_at_once(arguments: dict[str, Any], error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=f"^{sentence}"):
        select(X, **arguments)


def test_the_estimator_given_is_left_alone() -> None:
    estimator = GaussianBiclustering(7, 2, random_state=3, tol=1e-3)
    table = select(X, [1, 2, 3], 3, estimator=estimator, max_iter=50)
    assert (estimator.n_components, estimator.n_column_groups, estimator.max_iter) == (7, 2, 200)
    assert not hasattr(estimator, "weights_")
    best = table.best_estimator_
    assert (best.tol, best.max_iter, best.random_state, best.n_column_groups) == (1e-3, 50, 3, 3)


def test_iterations_are_reported() -> None:
    X = np.random.default_rng(0).standard_normal((60, 3))
    X[:30] += 5
    iterations: list[Any] = []
    table = select(X, [1, 2, 3], on_iteration=iterations.append, init="kmeans", random_state=0)
    assert len(iterations) == sum(row.model.n_iter_ for row in table.rows)
    with pytest.raises(ValueError, match="on_iteration is not called from the processes of n_jobs=2"):
        select(X, [1, 2], on_iteration=iterations.append, n_jobs=2)


# Kinds of models


@no_caveats
def test_kinds_of_models_are_candidates() -> None:
    table = select(X, [1, 2], shared_covariance=[False, True], tails=["normal", "t"], random_state=0)
    tried = [(row.n_components, row.kind["shared_covariance"], row.kind["tails"]) for row in table.rows]
    own = [(G, False, tails) for tails in ("normal", "t") for G in (1, 2)]
    assert tried == [*own, (2, True, "normal"), (2, True, "t")]  # one component shares with nobody
    for row in table.rows:
        model = GaussianBiclustering(row.n_components, random_state=0, **row.kind).fit(X)
        assert row.bic == model.bic(X)
    assert table.best_ is min(table.rows, key=lambda row: row.bic)
    assert table.to_frame()["tails"].tolist() == [row.kind["tails"] for row in table.rows]
    assert "shared_covariance   tails" in str(table).splitlines()[0]
    assert table.rows[-1].asked == "auto, shared_covariance=True, tails=t"
    assert len(table.plot().lines) == 5  # one for each kind, and the mark of the best


@no_caveats
def test_extending_by_a_kind_keeps_the_fits() -> None:
    table = select(X, [1, 2], random_state=0)
    extended = table.extend(tails="t")
    assert all(a is b for a, b in zip(extended.rows, table.rows, strict=False))
    assert [row.kind for row in extended.rows] == [{}, {}, {"tails": "t"}, {"tails": "t"}]
    assert extended.to_frame()["tails"].tolist() == ["normal", "normal", "t", "t"]
    assert len(extended.extend(tails=["normal", "t"]).rows) == 4
    with pytest.raises(TypeError, match=r"^extend takes shared_covariance, tails, block_model, model, not ridge"):
        table.extend(ridge=[1, 2])


def test_a_value_that_is_no_list_is_a_parameter() -> None:
    table = select(X, [1, 2, 3], tails="t", random_state=0)
    assert [row.kind for row in table.rows] == [{}, {}, {}]
    assert table.best_estimator_.tails == "t"
    with pytest.raises(ValueError, match=r"^FactorBiclustering has no parameter tails$"):
        select(X, estimator=FactorBiclustering(), tails=["normal", "t"])


def test_t_components_that_are_preferred_give_a_warning() -> None:
    far = np.concatenate([X, np.random.default_rng(0).uniform(-80, 80, (4, P))])
    labels = np.repeat([0, 1, 1], [30, 30, 4])
    with pytest.warns(SelectionWarning, match=r'^tails="t" has the smallest bic, .* See outliers_ of the model'):
        table = select(far, 2, 3, tails=["normal", "t"], init=labels)
    assert table.best_estimator_.outliers_[60:].all()
    clean = select(X, 2, 3, tails=["normal", "t"], random_state=0)  # a warning would be an error
    assert clean.best_.kind == {"tails": "normal"}


# Stability


@no_caveats
def test_the_least_stable_cluster_shows_one_cluster_too_many() -> None:
    table = select(X, [1, 2, 3], 3, random_state=0, stability=True)
    least = [row.least_stable for row in table.rows]
    assert least[0] == 1.0
    assert least[1] > 0.95
    assert least[2] < 0.85
    assert "least stable" in str(table).splitlines()[0]
    assert str(table).splitlines()[-1].startswith("least stable: stability of the least stable cluster.")
    assert table.to_frame()["least_stable"].tolist() == least
    again = select(X, [1, 2], 3, random_state=0, stability=True).extend(3)
    assert [row.least_stable for row in again.rows] == least


@no_caveats
def test_stability_is_not_measured_unless_asked_for() -> None:
    table = select(X, [1, 2], 3, random_state=0)
    assert np.isnan([row.least_stable for row in table.rows]).all()
    assert "least stable" not in str(table)


@no_caveats
def test_every_mixture_fitted_by_em_has_a_least_stable_cluster() -> None:
    table = select(X, 2, 3, estimator=FactorBiclustering(random_state=0), stability=True)
    assert table.rows[0].least_stable > 0.9


def test_with_more_columns_than_rows_a_shared_covariance_is_compared_too() -> None:
    # Three clusters that own covariances cannot pay for: BIC says one component, and three with a shared covariance.
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = np.repeat(rng.standard_normal((90, 20)), 10, axis=1) * 0.6 + 0.8 * rng.standard_normal((90, 200))
    for g in range(3):
        X[np.ix_(y == g, rng.choice(200, 30, replace=False))] += 1.5
    table = select(X, [1, 2, 3, 4], random_state=0)
    assert (table.best_.n_components, table.best_.kind) == (3, {"shared_covariance": True})
    own = select(X, [1, 3], shared_covariance=False, random_state=0)
    assert own.best_.n_components == 1
    assert [row.kind for row in own.rows] == [{}, {}]

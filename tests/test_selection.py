"""Laws of selection: every row is an independent fit, and a choice that may be wrong comes with a warning."""

from __future__ import annotations

import pickle
import re
import sys
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from blockmix.candidates import SelectionRow, agreed
from blockmix.estimators.factor import FactorBiclustering
from blockmix.estimators.fitting import FitWarning
from blockmix.estimators.gaussian import GaussianBiclustering
from blockmix.estimators.mixture import Mixture
from blockmix.estimators.resampling import drawn_like
from blockmix.grouping import Proposal, SilhouetteRule
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
OWN: dict[str, Any] = {"shared_covariance": False}
# Where few numbers are tried, the best is likely to lie at an edge. Other tests state the warning.
no_warnings = pytest.mark.filterwarnings("ignore::blockmix.selection.SelectionWarning")


class Scripted(Mixture):
    """A mixture whose BIC, |G − best_G| + |K − best_K|, warnings and errors are written down."""

    fits = 0

    def __init__(self, n_components: int = 1, n_column_groups: Any = "auto", script: Any = None, random_state: Any = 0):
        self.n_components = n_components
        self.n_column_groups = n_column_groups
        self.script = script
        self.random_state = random_state

    def fit(self, X: np.ndarray, y: object = None, sample_weight: Any = None, callback: Any = None) -> Scripted:
        Scripted.fits += 1
        G, K, script = self.n_components, self.n_column_groups, self.script
        if G in script.get("errors", ()):
            raise ValueError(f"no fit\nfor {G}")
        for note in script.get("notes", ()):
            warnings.warn(note.format(G=G), ConvergenceWarning, stacklevel=2)
        self.warnings_ = [note.format(G=G) for note in script.get("notes", ())]
        if "other" in script:
            warnings.warn(script["other"], UserWarning, stacklevel=2)
        self.n_features_in_, self.row_labels_, self.n_parameters_ = X.shape[1], np.zeros(len(X), dtype=int), 10 * G
        self.column_labels_ = np.tile(np.arange(K if isinstance(K, int) else 1), (G, 1))
        best = script.get("best", (2, 2))
        self._fit_sums = np.array(abs(G - best[0]) + (abs(K - best[1]) if isinstance(K, int) else 0.0))
        self.few_rows_ = [0] if G in script.get("few", ()) else []
        self.outcome_ = "interrupted" if script.get("interrupt_at") == G else "converged"
        if G in script.get("degenerate", ()):
            self.outcome_, self._fit_sums = "degenerate", self._fit_sums - 1000
        return self

    def _criteria(self, sums: np.ndarray) -> dict[str, float]:
        bic = float(sums)
        return {"log_likelihood": -bic, "bic": bic, "icl": bic + self.n_components, "aic": -bic}


def scripted(
    n_components: Any = (1, 2, 3),
    n_column_groups: Any = "auto",
    callback: Any = None,
    criterion: str = "bic",
    **script: Any,
) -> SelectionTable:
    given = {"criterion": criterion, "callback": callback, "estimator": Scripted(script=script)}
    many = np.tile(X, (2, 1))  # of fewer rows tables would be drawn
    return select(many, n_components, n_column_groups, **given)


def pairs(table: SelectionTable) -> list[tuple[int, Any]]:
    return [(row.n_components, row.n_column_groups) for row in table.rows]


@no_warnings
def test_every_row_is_a_fit_and_the_best_is_the_smallest() -> None:
    names, reported = list("abcdef"), list[Any]()
    frame = pd.DataFrame(X, columns=names)
    table = select(frame, [2, 1], ["auto", 2, 4], random_state=0, on_iteration=reported.append, init="kmeans", **OWN)
    assert pairs(table) == [(G, K) for G in (2, 1) for K in ("auto", 2, 4)]
    for row in table.rows:
        settings = {"init": "kmeans", "common_factors": 0, "random_state": 0}
        model = GaussianBiclustering(row.n_components, row.n_column_groups, **settings).fit(frame)
        assert (row.bic, row.icl, row.aic) == (model.bic(frame), model.icl(frame), model.aic(frame))
        assert row.log_likelihood == pytest.approx(model.score_samples(frame).sum(), rel=1e-12)
        assert (row.n_parameters, row.groups) == (model.n_parameters_, tuple(model.n_column_groups_))
        assert row.outcome == model.outcome_ == "converged"
        assert np.array_equal(row.model.row_labels_, model.row_labels_)
        assert row.model.feature_names_in_.tolist() == names
    assert table.models == [row.model for row in table.rows]
    assert table.best_ is min(table.rows, key=lambda row: row.bic)
    assert table.best_estimator_ is table.best_.model
    assert len(reported) == sum(row.model.n_iter_ for row in table.rows)


@no_warnings
@pytest.mark.parametrize("seed", [None, np.int64(7), "state"])
def test_every_model_can_be_fitted_again(seed: Any) -> None:
    # Red if a RandomState went to the fits as it is: the second fit would go on from where the first one ended.
    state = np.random.RandomState(3) if seed == "state" else seed
    table = select(X, [2, 3], random_state=state)
    assert len({row.model.random_state for row in table.rows}) == 1
    for row in table.rows:
        assert clone(row.model).fit(X).bic(X) == row.bic
    if seed == "state":
        assert select(X, [2], random_state=state).models[0].random_state != table.models[0].random_state


@no_warnings
@pytest.mark.parametrize(("criterion", "values"), [("bic", [1.0, 0.0]), ("icl", [3.0, 3.0]), ("aic", [-1.0, 0.0])])
def test_the_criterion_decides(criterion: str, values: list[float]) -> None:
    table = scripted([2, 3], criterion=criterion, best=(3, 1))
    assert [getattr(row, criterion) for row in table.rows] == values
    assert table.best_ is table.rows[int(np.argmin(values))]  # the first of equal ones
    assert f" clusters: smallest {criterion}; level: " in str(table).splitlines()[-1]


@no_warnings
@pytest.mark.parametrize(
    ("given", "candidates"),
    [
        ("auto", ["auto"]),
        (np.int64(3), [3]),
        ((3, 4), [3, 4]),
        (np.array([3, 4]), [3, 4]),
        ([3, 3, "auto", 3], [3, "auto"]),
        ([[3, 4], "silhouette"], [(3, 4), "silhouette"]),
    ],
)
def test_a_list_is_a_list_of_candidates(given: Any, candidates: list[Any]) -> None:
    table = scripted(2, given, best=(2, 3))
    assert pairs(table) == [(2, K) for K in candidates]
    assert all(type(row.n_column_groups) in (int, str, tuple) for row in table.rows)


def test_one_number_per_component_is_tried_with_that_many_components() -> None:
    table = select(X, [1, 2, 3], [(2, 3), 3], random_state=0, **OWN)
    assert pairs(table) == [(1, 3), (2, (2, 3)), (2, 3), (3, 3)]
    assert table.rows[1].groups == (2, 3)


@no_warnings
def test_a_grouping_and_a_rule_of_the_user_are_candidates_like_ours() -> None:
    # Red if a candidate had to be of a class that can be imported.
    class Alternating:
        def group(self, S: np.ndarray, n_groups: int, n_rows: float) -> Proposal:
            return Proposal(Partition(np.arange(len(S)) % n_groups))

    class Always:
        def __init__(self, number: int) -> None:
            self.number = number

        def choose(self, S: np.ndarray, n_rows: float, grouping: Any, **others: Any) -> Proposal:
            return grouping.group(S, self.number, n_rows)

    table = select(X, [1, 2], [Always(2), Always(2), Always(3)], grouping=Alternating(), random_state=0, **OWN)
    assert [row.groups for row in table.rows] == [(2,), (3,), (2, 2), (3, 3)]
    assert len(table.extend(n_column_groups=Always(3)).rows) == 4
    assert table.models[0].column_labels_.tolist() == [[0, 1, 0, 1, 0, 1]]


@pytest.mark.parametrize(
    ("more", "new"),
    [
        ({}, []),
        ({"n_components": [1, 2, 3]}, [(3, "auto"), (3, 2)]),
        ({"n_column_groups": [2, 4]}, [(1, 4), (2, 4)]),
        ({"n_components": 3, "n_column_groups": 4}, [(1, 4), (2, 4), (3, "auto"), (3, 2), (3, 4)]),
    ],
)
def test_extending_fits_only_new_pairs(more: dict[str, Any], new: list[Any]) -> None:
    table = scripted([1, 2], ["auto", 2], best=(1, 2))
    before, reported = Scripted.fits, list[SelectionProgress]()
    extended = table.extend(**more, callback=reported.append)
    assert Scripted.fits - before == len(new)
    assert pairs(extended)[4:] == new
    assert extended.models[:4] == table.models and len(table.rows) == 4
    assert [(progress.done, progress.total) for progress in reported] == [(i + 1, len(new)) for i in range(len(new))]
    assert [progress.row for progress in reported] == list(extended.rows[4:])


@no_warnings
def test_extending_equals_trying_all_at_once() -> None:
    # Red if a later fit depended on the earlier ones, for instance through the seed.
    rule = SilhouetteRule(candidates=range(2, 4))
    table = pickle.loads(pickle.dumps(select(X, [1, 2], ["auto", rule], random_state=0)))
    extended = table.extend([3, 4], [clone(rule), 3])
    whole = select(X, [4, 3, 2, 1], [rule, "auto", 3], random_state=0)
    assert len(extended.rows) == len(whole.rows) == 12 + 9
    ends = [
        {(r.n_components, str(r.n_column_groups), *r.kind.values()): r.bic for r in found.rows}
        for found in (extended, whole)
    ]
    assert ends[0] == ends[1]


def test_a_failed_fit_is_a_row() -> None:
    table = scripted([1, 2, 3], errors=(3,), best=(2, 2))
    failed = table.rows[2]
    assert failed.outcome == "failed: no fit for 3"
    assert failed.model is None and failed.groups == () and failed.n_parameters is None
    assert np.isnan([failed.bic, failed.icl, failed.aic, failed.log_likelihood]).all()
    assert table.best_.n_components == 2
    wrong = select(X[:5], [1, 9], ["auto", 7], random_state=0)
    assert wrong.rows[1].outcome == "failed: n_column_groups=7 exceeds the 6 columns of X"


def test_nothing_succeeded() -> None:
    sentence = r"^none of the 2 fits succeeded; the first failed: no fit for 1$"
    with pytest.warns(SelectionWarning, match=sentence):
        table = scripted([1, 2], errors=(1, 2))
    for attribute in ("best_", "best_estimator_"):
        with pytest.raises(ValueError, match=sentence):
            getattr(table, attribute)
    assert "*" not in str(table)
    assert not table.to_frame()["best"].any()
    assert table.extend([3, 4]).best_.n_components == 3  # a table without a best is still a table


def test_values_that_are_not_finite_are_never_best(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {1: -np.inf, 2: 5.0, 3: np.nan}
    monkeypatch.setattr(
        Scripted, "_criteria", lambda self, sums: dict.fromkeys(("bic", "icl"), values[self.n_components])
    )
    assert scripted([3, 1, 2]).best_.n_components == 2


@pytest.mark.parametrize(
    ("best", "n_components", "n_column_groups", "sentence"),
    [
        (
            (3, 2),
            [1, 2, 3],
            "auto",
            "n_components=3, the edge of 1 … 3 tried: try more, by {}(n_components=range(4, 7))",
        ),
        (
            (4, 2),
            [5, 4, 6],
            "auto",
            "n_components=4, the edge of 4 … 6 tried: try more, by {}(n_components=range(1, 4))",
        ),
        ((1, 4), 1, [2, 4], "n_column_groups=4, the edge of 2 … 4 tried: try more, by {}(n_column_groups=range(5, 7))"),
        ((1, 0), 1, [2, 3, 4, "auto"], ""),  # the rule is better than any number
        ((1, 2), [1, 2, 3], "auto", ""),  # no smaller number than 1
        ((2, 2), [1, 2, 3], [1, 2, 3], ""),
        ((1, P), 1, [4, 5, P], ""),  # as many groups as columns
        ((9, 9), 2, 3, ""),  # no range, no edge
        ((2 * len(X), 1), [1, 2 * len(X)], "auto", ""),  # no more clusters than rows
    ],
)
def test_a_best_pair_at_the_edge_gives_a_warning(
    best: tuple[int, int], n_components: Any, n_column_groups: Any, sentence: str
) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scripted(n_components, n_column_groups, best=best)
    texts = [str(warning.message) for warning in caught]
    assert texts == ([f"the best is at {sentence.format('extend')} of the table"] if sentence else [])
    assert all(warning.category is SelectionWarning for warning in caught)
    assert all(warning.filename == __file__ for warning in caught)  # the line that called select


def test_both_edges_give_a_warning_and_extending_ends_it() -> None:
    with pytest.warns(SelectionWarning) as caught:
        table = scripted([1, 2], [2, 3], best=(3, 4))
    assert len(caught) == 2
    extended = table.extend([3, 4], [4, 5])  # warnings are errors here
    assert (extended.best_.n_components, extended.best_.n_column_groups) == (3, 4)


def test_a_degenerate_fit_is_not_chosen_while_there_is_another() -> None:
    with pytest.warns(SelectionWarning, match=r"^2 of 3 candidates have a smaller bic than the best, but components"):
        table = scripted([1, 2, 3], best=(1, 2), degenerate=(2, 3))
    assert table.best_.n_components == 1
    assert [row.degenerate for row in table.rows] == [False, True, True]
    assert str(table).endswith("* 1 cluster: smallest bic of the fits with enough rows in each component")
    with pytest.warns(SelectionWarning, match="^all fits are degenerate.*; the best is degenerate: too few rows$"):
        assert scripted([2], degenerate=(2,), notes=("too few rows",)).best_.n_components == 2
    with pytest.warns(SelectionWarning, match="^1 of 2 candidates have a smaller bic than the best, but components"):
        table = scripted([1, 2], best=(2, 2), few=(1, 2))  # one component is what others are compared with
    assert [row.sound for row in table.rows] == [True, False] and table.best_.n_components == 1
    noise = np.random.default_rng(0).standard_normal((24, 20))
    with pytest.warns(SelectionWarning, match="^1 of 2 candidates"):
        real = select(noise, [1, 2], 1, shared_covariance=False, random_state=0)
    assert real.rows[1].degenerate and real.rows[1].bic < real.rows[0].bic  # the ridge's doing


def test_warnings_about_convergence_become_the_outcome_and_others_are_passed_on() -> None:
    with pytest.warns(UserWarning, match="^something else$") as caught:
        table = scripted([1, 2], best=(1, 2), notes=("a{G}", "b", "a{G}"), other="something else")
    assert [row.outcome for row in table.rows] == ["converged: a1; b", "converged: a2; b"]
    assert [str(warning.message) for warning in caught] == ["something else"] * 2


def test_an_interrupt_keeps_the_rows_so_far() -> None:
    def stop(progress: SelectionProgress) -> None:
        if progress.done == 2:
            raise KeyboardInterrupt

    # From the callback, and from within a fit, which catches it and ends with the parameters so far.
    for given in ({"callback": stop}, {"interrupt_at": 3}):
        with pytest.warns(
            SelectionWarning, match=r"^interrupted after 2 of 4 fits: extend\(\) of the table continues$"
        ):
            table = scripted([2, 1, 3, 4], **given)
        assert pairs(table) == [(2, "auto"), (1, "auto")]
        if "callback" in given:
            assert pairs(table.extend()) == [(2, "auto"), (1, "auto"), (3, "auto"), (4, "auto")]
    with pytest.raises(KeyboardInterrupt):
        scripted([2, 1], interrupt_at=2)


def test_the_text_and_the_frame_have_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    table = scripted([1, 2, 10], [2, (3, 3)], best=(2, 2), errors=(10,), notes=("x" * 90,))
    head, *lines = str(table).splitlines()
    assert "\n".join([head, *(re.sub(r"\d\.\d\d  (?=\w)", "0.00  ", line) for line in lines[:-1])]) == (
        "   n_components  n_column_groups  groups  parameters  bic  icl   aic  seconds  outcome\n"
        f"              1                2       2          10  1.0  2.0  -1.0     0.00  converged: {'x' * 48}…\n"
        f"*             2                2     2,2          20  0.0  2.0  -0.0     0.00  converged: {'x' * 48}…\n"
        f"              2              3,3     1,1          20  0.0  2.0  -0.0     0.00  converged: {'x' * 48}…\n"
        "             10                2       -           -    -    -     -     0.00  failed: no fit for 10"
    )
    kinds = [
        f"{G} with n_column_groups={K}" for G, K in (("2 clusters", 2), ("2 clusters", "(3, 3)"), ("1 cluster", 2))
    ]
    assert lines[-1] == f"* {kinds[0]}: smallest bic; level: {kinds[1]} (+0.0), {kinds[2]} (+1.0)"
    assert repr(table) == str(table)
    frame = table.to_frame()
    numbers = ["n_parameters", "log_likelihood", "bic", "icl", "aic", "seconds", "outcome", "best"]
    assert list(frame.columns) == ["n_components", "n_column_groups", "groups", *numbers]
    assert frame["bic"].tolist()[:3] == [1.0, 0.0, 0.0] and np.isnan(frame["bic"][3])
    assert frame["n_parameters"].isna().tolist() == [False, False, False, True]
    assert frame["best"].tolist() == [False, True, False, False]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"^pandas is needed and not installed: pip install 'blockmix\[app\]'$"):
        table.to_frame()


@no_warnings
def test_weight_two_is_a_repeated_row() -> None:
    # Red if the criteria forgot the weights: log N would be that of 60 rows.
    weights = np.random.default_rng(0).integers(0, 4, len(X))
    weighted = select(X, [1, 2], [2, 3], random_state=0, sample_weight=weights)
    repeated = select(np.repeat(X, weights, axis=0), [1, 2], [2, 3], random_state=0)
    for a, b in zip(weighted.rows, repeated.rows, strict=True):
        assert [a.bic, a.icl, a.aic] == pytest.approx([b.bic, b.icl, b.aic], rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"criterion": "BIC"}, ValueError, "criterion='BIC' must be one of bic, icl, aic"),
        ({"n_components": 0}, ValueError, "n_components=0 must be a whole number that is at least 1, or several"),
        ({"n_components": [1, 2.0]}, ValueError, "n_components=2.0 must be a whole number that is at least 1"),
        ({"n_components": [True]}, ValueError, "n_components=True must be a whole number that is at least 1"),
        ({"n_components": []}, ValueError, r"n_components=\[\] and n_column_groups=\['auto'\] make no pair"),
        (
            {"n_components": 1, "n_column_groups": [(2, 3)]},
            ValueError,
            r"n_components=\[1\] and n_column_groups=\[\(2,",
        ),
        ({"estimator": GaussianBiclustering}, TypeError, "estimator=.* must be a mixture such as GaussianBiclustering"),
        ({"max_iterations": 3}, ValueError, "Invalid parameter 'max_iterations'"),
        ({"estimator": FactorBiclustering(), "tails": ["normal", "t"]}, ValueError, "FactorBiclustering has no param"),
    ],
)
def test_wrong_arguments_are_refused_at_once(arguments: dict[str, Any], error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=f"^{sentence}"):
        select(X, **arguments)


def test_the_given_estimator_stays_as_it_is() -> None:
    estimator = GaussianBiclustering(7, 2, random_state=3, tol=1e-3)
    best = select(X, [1, 2, 3], 3, estimator=estimator, max_iter=50).best_estimator_
    assert (estimator.n_components, estimator.n_column_groups, estimator.max_iter) == (7, 2, 200)
    assert not hasattr(estimator, "weights_")
    assert (best.tol, best.max_iter, best.random_state, best.n_column_groups) == (1e-3, 50, 3, 3)


@no_warnings
def test_kinds_of_models_are_candidates() -> None:
    table = select(X, [1, 2], shared_covariance=[False, True], tails=["normal", "t"], random_state=0)
    tried = [(row.n_components, row.kind["shared_covariance"], row.kind["tails"]) for row in table.rows]
    separate = [(G, False, tails) for tails in ("normal", "t") for G in (1, 2)]
    assert tried == [*separate, (2, True, "normal"), (2, True, "t")]  # one component shares with nobody
    for row in table.rows:
        assert row.bic == clone(row.model).fit(X).bic(X)
        assert all(getattr(row.model, name) == value for name, value in row.kind.items())
    assert table.to_frame()["tails"].tolist() == [row.kind["tails"] for row in table.rows]
    assert "shared_covariance   tails" in str(table).splitlines()[0]
    assert len(table.plot().lines) == 5  # one for each kind, and the mark of the best


@no_warnings
def test_extending_by_a_kind_keeps_the_fits() -> None:
    table = select(X, [1, 2], random_state=0, **OWN)  # a value that is not a list is a parameter, not a candidate
    extended = table.extend(tails="t")
    assert extended.models[:2] == table.models
    assert [row.kind for row in table.rows] == [{}, {}]
    assert [row.kind["tails"] for row in extended.rows] == ["normal", "normal", "t", "t"]
    assert len(extended.extend(tails=["normal", "t"]).rows) == 4
    with pytest.raises(
        TypeError, match=r"^extend takes shared_covariance, columns, tails, block_model, model, not tol"
    ):
        table.extend(tol=[1, 2])


@no_warnings
def test_the_best_candidate_may_have_common_factors() -> None:
    # Red if the number of clusters is chosen with them, or the best one is left without.
    rng = np.random.default_rng(0)
    own = np.repeat(rng.standard_normal((900, 4)), 3, axis=1) + 0.8 * rng.standard_normal((900, 12))
    table = select(own + 1.2 * rng.standard_normal((900, 1)), [1], random_state=0, columns="linear", tails="normal")
    assert table.best_estimator_.common_loadings_[0].shape == (12, 1)
    assert table.best_.bic == table.best_estimator_.bic(table._search.X)
    assert table.best_estimator_.n_column_groups_.tolist() == [4]


def test_t_components_that_are_preferred_give_a_warning() -> None:
    outliers = np.concatenate([X, np.random.default_rng(0).uniform(-80, 80, (4, P))])
    labels = np.repeat([0, 1, 1], [30, 30, 4])
    with pytest.warns(SelectionWarning, match=r'^tails="t" is the best, by bic .* See outliers_ of the model'):
        table = select(outliers, 2, 3, tails=["normal", "t"], init=labels)
    assert table.best_estimator_.outliers_[60:].all()
    clean = select(X, 2, 3, tails=["normal", "t"], random_state=0)  # a warning would be an error
    assert clean.best_.kind == {"tails": "normal"}


@no_warnings
def test_the_least_stable_cluster_shows_one_cluster_too_many() -> None:
    reported: list[Any] = []
    table = select(X, [1, 2, 3], 3, random_state=0, stability=True, **OWN, on_iteration=reported.append)
    least = [row.least_stable for row in table.rows]
    assert least[0] == 1.0 and least[1] > 0.95 and least[2] < 0.85
    assert [progress.start for progress in reported].count("refit 20 of 20") == 2
    assert "least stable" in str(table).splitlines()[0]
    assert str(table).splitlines()[-1].startswith("least stable: stability of the least stable cluster.")
    assert table.to_frame()["least_stable"].tolist() == least
    again = select(X, [1, 2], 3, random_state=0, stability=True, **OWN).extend(3)
    assert [row.least_stable for row in again.rows] == least
    factors = select(X, 2, 3, estimator=FactorBiclustering(random_state=0), stability=True)
    assert factors.rows[0].least_stable > 0.9


def test_with_more_columns_than_rows_a_shared_covariance_is_compared_too() -> None:
    # Three clusters that separate covariances cannot pay for: BIC says one component, and three with a shared one.
    rng, y = np.random.default_rng(0), np.arange(90) % 3
    wide = np.repeat(rng.standard_normal((90, 20)), 10, axis=1) * 0.6 + 0.8 * rng.standard_normal((90, 200))
    for g in range(3):
        wide[np.ix_(y == g, rng.choice(200, 30, replace=False))] += 1.5
    table = select(wide, [1, 2, 3, 4], random_state=0)
    assert (table.best_.n_components, table.best_.kind) == (3, {"shared_covariance": True})
    separate = select(wide, [1, 3], shared_covariance=False, random_state=0)
    assert (separate.best_.n_components, separate.rows[0].kind) == (1, {})


def test_own_and_shared_covariances_are_compared_unless_one_is_given() -> None:
    # Red if the clusters of rows that share a covariance are looked for with covariances of their own only.
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((45, 6)) + 6 / np.sqrt(2) * np.repeat(np.eye(3, 6), 15, axis=0)
    table = select(Y, random_state=0)
    assert [(row.n_components, row.kind["shared_covariance"]) for row in table.rows] == [
        *((G, False) for G in range(1, 6)),
        *((G, True) for G in range(2, 6)),
    ]
    assert table.best_.kind == {"shared_covariance": True} and table.best_.n_components == 3
    assert [row.kind for row in select(X, [1, 2, 3], random_state=0, **OWN).rows] == [{}, {}, {}]


def test_a_small_gain_of_a_small_table_is_compared_with_that_of_chance() -> None:
    # Red if the criterion alone decides: it prefers two clusters or more on most of these tables of one.
    chosen, smallest = [], []
    for seed in range(8):
        noise = np.random.default_rng(seed).standard_normal((15, 6))
        noise[:, :3] += 1.2 * np.random.default_rng(seed + 100).standard_normal((15, 1))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = select(noise, [1, 2, 3], random_state=0)
        chosen.append(table.best_.n_components)
        smallest.append(min(table.rows, key=lambda row: row.bic).n_components)
        if table._simpler is not None:
            assert str(table).endswith(f"tables drawn from the model of {chosen[-1]} show as much by chance")
    assert chosen.count(1) >= 7 > smallest.count(1)


def test_a_drawn_table_has_the_moments_values_and_missing_values_of_the_table() -> None:
    rng = np.random.default_rng(0)
    Y = np.concatenate([rng.standard_normal((40, 3)) @ rng.standard_normal((3, 3)) + 20 * g for g in range(2)])
    Y = np.column_stack([Y, rng.integers(0, 2, 80)])
    Y[rng.random(Y.shape) < 0.1] = np.nan
    model = GaussianBiclustering(2, 1, random_state=0).fit(Y)
    drawn = np.stack([drawn_like(model, Y, seed) for seed in range(200)])
    assert (np.isnan(drawn) == np.isnan(Y)).all()
    assert set(np.unique(drawn[:, :, 3][~np.isnan(drawn[:, :, 3])])) == {0.0, 1.0}
    for g in range(2):
        pooled = drawn[:, model.row_labels_ == g, :3].reshape(-1, 3)
        pooled = pooled[~np.isnan(pooled).any(axis=1)]
        scale = np.sqrt(np.diag(model.covariances_[g])[:3])
        np.testing.assert_allclose(pooled.mean(axis=0), model.means_[g, :3], atol=0.15 * scale.max())
        np.testing.assert_allclose(np.cov(pooled.T), model.covariances_[g, :3, :3], atol=0.3 * scale.max() ** 2)


def test_a_fit_that_is_dropped_warns_of_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    # Red if the search under one covariance passed on what the worse of its two fits warned of.
    def dropped(search: Any, model: Any, *_: Any) -> Any:
        warnings.warn("component 1 has 2.9 rows", FitWarning, stacklevel=2)
        return model

    monkeypatch.setattr("blockmix.selection._better", dropped)
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitWarning)
        select(X, 2, shared_covariance=[False, True], random_state=0)


def candidates(values: list[float], clusters: list[list[int]]) -> list[SelectionRow]:
    """Rows of known criteria and clusters, the smallest criterion first."""
    rows = [
        SelectionRow(len(set(labels)), "auto", bic=bic, model=SimpleNamespace(row_labels_=np.array(labels)))
        for bic, labels in zip(values, clusters, strict=True)
    ]
    return sorted(rows, key=lambda row: row.bic)


def gain_times_agreement(rows: list[SelectionRow], weights: np.ndarray) -> list[float]:
    """The same from all pairs of rows, drawn with return."""
    one, pairs = max(row.bic for row in rows if row.n_components == 1), np.outer(weights, weights) / weights.sum() ** 2
    several = [row for row in rows if row.n_components > 1]
    gains = [one - row.bic for row in several]
    together = [row.model.row_labels_[:, None] == row.model.row_labels_ for row in several]
    values = []
    for a, gain in zip(together, gains, strict=True):
        agreement = 0.0
        for b, other in zip(together, gains, strict=True):
            chance = (pairs * a).sum() * (pairs * b).sum()
            middle = ((pairs * a).sum() + (pairs * b).sum()) / 2
            agreement += other * ((pairs * (a & b)).sum() - chance) / (middle - chance)
        values.append(gain * agreement)
    return values


@pytest.mark.parametrize("seed", range(8))
def test_the_best_has_the_largest_gain_times_agreement(seed: int) -> None:
    rng = np.random.default_rng(seed)
    clusters = [[0] * 30, *(rng.permutation(np.arange(30) % G).tolist() for G in (2, 2, 3, 4, 5))]
    rows = candidates([200.0, *rng.uniform(0, 60, 5)], clusters)
    weights = rng.integers(1, 4, 30)
    best = agreed(rows, "bic", weights)
    assert best is rows[int(np.argmax(gain_times_agreement(rows, weights)))]
    again = [np.repeat(row.model.row_labels_, weights).tolist() for row in rows]
    assert agreed(candidates([row.bic for row in rows], again), "bic").bic == best.bic


def test_clusters_that_no_other_candidate_finds_are_not_the_best() -> None:
    one, two, other = [0] * 12, [0] * 6 + [1] * 6, [0, 1, 2] * 4
    rows = candidates([100.0, 10.0, 8.0, 11.0], [one, two, other, two])
    assert (rows[0].n_components, agreed(rows, "bic").bic) == (3, 10.0)
    assert agreed(candidates([100.0, 60.0, 8.0, 61.0], [one, two, other, two]), "bic").n_components == 3  # far better
    assert agreed(candidates([7.0, 10.0, 8.0, 11.0], [one, two, other, two]), "bic").n_components == 1
    assert agreed(candidates([10.0, 8.0, 11.0], [two, other, two]), "bic").n_components == 3  # no gains are known


@no_warnings
def test_agreement_counts_where_the_kinds_are_open() -> None:
    kinds = {"shared_covariance": False, "tails": "normal", "columns": "linear"}
    assert select(X, [1, 2], random_state=0, max_iter=3)._agreeing
    assert not select(X, [1, 2], estimator=GaussianBiclustering(random_state=0, max_iter=3))._agreeing
    assert not select(X, 2, random_state=0, max_iter=3)._agreeing
    assert select(X, [1, 2], random_state=0, max_iter=3, **kinds)._agreeing

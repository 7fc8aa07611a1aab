"""Scores and associations: laws, oracles of missing values and tests, data frames, traits of any type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from missing import with_missing
from numpy.testing import assert_allclose
from optional import package
from scipy import sparse, stats
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sources import NAMES, table
from strategies import Matrix

from blockmix import BlockDiagonalCovariance, FactorBiclustering, GaussianBiclustering
from blockmix.estimators.associations import CLUSTERS, Target, associations, coded
from blockmix.estimators.scores import axes_of, axis

MODELS: dict[str, Any] = {
    "own": GaussianBiclustering(2, random_state=0),
    "one factor": GaussianBiclustering(2, 2, block_model=1, random_state=0),
    "shared": GaussianBiclustering(2, shared_covariance=True, random_state=0),
    "heavy tails": GaussianBiclustering(2, 2, tails="t", random_state=0),
    "UCUU": FactorBiclustering(2, 2, random_state=0),
}


def planted(N: int = 400, seed: int = 0) -> tuple[Matrix, Matrix]:
    """A factor and eight columns with loadings from 0.5 to 0.9."""
    rng, loadings = np.random.default_rng(seed), np.linspace(0.5, 0.9, 8)
    u = rng.standard_normal(N)
    return u, u[:, None] * loadings + rng.standard_normal((N, 8)) * np.sqrt(1 - loadings**2)


def test_the_score_of_a_one_factor_block_is_the_posterior_mean_of_the_factor() -> None:
    u, X = planted()
    model = BlockDiagonalCovariance(1, block_model=1).fit(X)
    score, loadings = model.transform(X)[:, 0], model.loadings_[0]
    assert loadings is not None
    S = model.covariance_
    expected = (X - model.location_) @ np.linalg.solve(S, loadings)
    assert_allclose(score, (expected / np.sqrt(loadings.T @ np.linalg.solve(S, loadings)))[:, 0], rtol=1e-6, atol=1e-9)
    a = float((np.linspace(0.5, 0.9, 8) ** 2 / (1 - np.linspace(0.5, 0.9, 8) ** 2)).sum())
    assert abs(np.corrcoef(score, u)[0, 1]) == pytest.approx((a / (1 + a)) ** 0.5, abs=0.02)


@pytest.mark.filterwarnings("ignore::blockmix.estimators.fitting.FitWarning")  # negative correlations, of UCUU
@pytest.mark.parametrize("name", MODELS)
def test_scores_have_mean_0_and_variance_1_in_their_component_and_go_with_their_columns(name: str) -> None:
    X = table(400)
    model = MODELS[name].fit(X)
    z, rows = model.predict_proba(X), model.transform(X)
    assert rows.shape == (400, len(model.get_feature_names_out()))
    for g in range(2):
        scores = model.transform(X, component=g)
        share = z[:, g] if name != "shared" else np.ones(400)
        means = np.average(scores, axis=0, weights=share)
        assert_allclose(means, 0, atol=0.15)
        assert_allclose(np.average((scores - means) ** 2, axis=0, weights=share), 1, atol=0.45)
        groups = [columns for columns in model.blocks_[g].partition.groups if len(columns) > 1]
        for score, columns in zip(scores.T, groups, strict=True):
            centered = X[:, columns] - model.means_[g, columns]
            signs = np.sign(score * share @ centered)
            assert signs.sum() >= 0


@pytest.mark.filterwarnings("ignore::blockmix.estimators.fitting.FitWarning")
@pytest.mark.parametrize("name", MODELS)
def test_units_and_order_of_the_columns_do_not_matter(name: str) -> None:
    X, order = table(300), np.random.default_rng(0).permutation(6)
    scale, init = np.array([2.0, 0.01, 100, 3, 1, 7]), np.arange(300) % 2
    model = MODELS[name].set_params(init=init)
    scores = model.fit(X).transform(X)
    moved = model.fit((X * scale + 5)[:, order]).transform((X * scale + 5)[:, order])
    model.set_params(init="auto")
    together = np.corrcoef(scores.T, moved.T)[: scores.shape[1], scores.shape[1] :]
    assert_allclose(np.abs(together).max(axis=1), 1, atol=1e-5)


def test_signs_go_with_most_columns_then_with_their_sum() -> None:
    R = np.array([[1, 0.6, -0.6], [0.6, 1, -0.6], [-0.6, -0.6, 1]])
    for flips in ([1, 1, 1], [-1, -1, -1], [1, -1, -1]):
        _, loadings = axis(np.linalg.cholesky(R * np.outer(flips, flips)), None)
        assert np.sign(loadings).sum() > 0
    weights, loadings = axis(np.linalg.cholesky([[1, -0.5], [-0.5, 1]]), None)  # a tie: the first is positive
    assert loadings[0] > 0 > loadings[1]
    assert_allclose(weights @ np.array([[1, -0.5], [-0.5, 1]]) @ weights, 1)


@pytest.mark.parametrize("name", ["own", "shared"])
def test_the_score_of_a_row_with_missing_values_is_its_expectation(name: str) -> None:
    X = with_missing(table(300), 0.25, np.random.default_rng(0))
    X[5] = np.nan
    model = MODELS[name].fit(X)
    scores = model.transform(X)
    assert np.isfinite(scores).all()
    assert_allclose(scores[5], 0, atol=1e-12)
    z, expected = model.predict_proba(X), np.zeros_like(scores)
    for g, (mean, S) in enumerate(zip(model.means_, model.covariances_, strict=True)):
        centered = X - mean
        for x in centered:
            m = np.isnan(x)
            x[m] = S[np.ix_(m, ~m)] @ np.linalg.solve(S[np.ix_(~m, ~m)], x[~m])
        for j, one in enumerate(axes_of(model)):
            if one.component in (g, -1):
                expected[:, j] += (centered[:, one.columns] @ one.weights) * (z[:, g] if name == "shared" else 1)
    assert_allclose(scores, expected, atol=1e-8)


def test_every_source_gives_the_same_scores(tmp_path: Path) -> None:
    X = table(700)
    model = MODELS["own"].fit(X)
    scores = model.transform(X)
    np.save(tmp_path / "rows.npy", X)
    dask = package("dask.array")
    for source in (tmp_path / "rows.npy", lambda: iter(np.array_split(X, 5)), dask.from_array(X, chunks=(100, 6))):
        assert_allclose(model.transform(source), scores, rtol=1e-10, atol=1e-12)
    assert_allclose(model.transform(sparse.csr_array(X)), scores, rtol=1e-10, atol=1e-12)
    assert model.fit(X.astype("float32")).transform(X.astype("float32")).dtype == np.float32


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_data_frames_and_names(kind: str) -> None:
    frame = pd.DataFrame(table(200), columns=NAMES, index=np.arange(200) * 2)
    X = frame if kind == "pandas" else package("polars").from_pandas(frame)
    model = GaussianBiclustering(2, random_state=0).fit(X).set_output(transform=kind)
    found, names = model.transform(X), model.get_feature_names_out().tolist()
    assert list(found.columns) == names
    assert all(name.startswith("cluster ") and name.split(": ")[1].split(" +")[0] in NAMES for name in names)
    assert list(model.transform(X, component=1).columns) == [name for name in names if name.startswith("cluster 2")]
    if kind == "pandas":
        assert (found.index == frame.index).all()
    model.names_ = {"cluster 1": "calm"}
    assert [name.replace("calm", "cluster 1") for name in model.get_feature_names_out()] == names
    with pytest.raises(ValueError, match="component=2 must be from 0 to 1, or None"):
        model.transform(X, component=2)
    with pytest.raises(ValueError, match="transform='arrow' must be"):
        model.set_output(transform="arrow")


def test_a_classifier_on_the_scores() -> None:
    u, X = planted()
    pipeline = make_pipeline(BlockDiagonalCovariance(1, block_model=1), LogisticRegression())
    assert pipeline.fit(X, u > 0).score(X, u > 0) > 0.85


def test_columns_that_are_all_alone_have_no_scores() -> None:
    X = np.random.default_rng(0).standard_normal((100, 3))
    model = GaussianBiclustering(1, 3).fit(X)
    assert model.transform(X).shape == (100, 0)
    assert len(model.associate(X, {"age": X[:, 0] ** 2})) == 0
    with pytest.raises(ValueError, match="there is nothing to draw"):
        model.plot_associations(X, {"age": X[:, 0] ** 2})


# Associations.


def test_effects_and_tests_are_those_of_scipy() -> None:
    rng = np.random.default_rng(0)
    labels, every = np.repeat([0, 1, 2], 60), np.ones(180, dtype=bool)
    score = rng.standard_normal(180)
    traits = {"number": labels + 2 * rng.standard_normal(180), "class": rng.choice(list("ab"), 180)}
    traits["score"] = score + 3 * rng.standard_normal(180)
    targets = [Target(CLUSTERS, -1, -1, labels, every), Target("s", -1, 0, score, every)]
    found = associations(targets, [coded(*item) for item in traits.items()], {}).set_index(["trait", "what"])

    def normal(x: Matrix) -> Matrix:
        return stats.norm.ppf((stats.rankdata(x) - 0.5) / 180)

    r = found.loc[("score", "s")]
    expected = stats.pearsonr(traits["score"], score)
    assert_allclose(r.estimate, expected.statistic)
    assert_allclose([r.low, r.high], expected.confidence_interval(), rtol=1e-9)
    assert_allclose(r.p, stats.pearsonr(normal(traits["score"]), normal(score)).pvalue, rtol=1e-9)
    eta = found.loc[("number", CLUSTERS)]
    assert_allclose(eta.p, stats.f_oneway(*(normal(traits["number"])[labels == g] for g in range(3))).pvalue, rtol=1e-9)
    F = stats.f_oneway(*(traits["number"][labels == g] for g in range(3))).statistic
    assert_allclose(eta.estimate, 2 * F / (2 * F + 177))
    for end, tail in ((eta.low, 0.975), (eta.high, 0.025)):
        assert stats.ncf.cdf(F, 2, 177, 180 * end / (1 - end)) == pytest.approx(tail, abs=0.01)
    v, counts = found.loc[("class", CLUSTERS)], pd.crosstab(traits["class"], labels)
    assert_allclose(v.estimate, stats.contingency.association(counts, method="cramer"))
    assert_allclose(v.p, stats.chi2_contingency(counts, correction=False).pvalue)
    assert_allclose(found.q, stats.false_discovery_control(found.p))
    assert found.kind.tolist() == ["η²", "r", "Cramér's V", "η²", "η²", "r"]


def test_where_cells_hold_few_rows_p_is_that_of_permutations() -> None:
    labels, ones = np.repeat([0, 1], [6, 60]), np.zeros(66)
    ones[[0, 1, 2, 10]] = 1
    target = Target(CLUSTERS, -1, -1, labels, np.ones(66, dtype=bool))
    for values in (ones, np.where(ones > 0, "yes", "no")):
        p = associations([target], [coded("rare", values)], {}).p[0]
        assert p == pytest.approx(stats.fisher_exact(pd.crosstab(ones, labels)).pvalue, rel=0.3)


def test_traits_of_the_fit_have_no_p() -> None:
    X = pd.DataFrame(with_missing(table(300), 0.1, np.random.default_rng(0)), columns=NAMES)
    rng = np.random.default_rng(1)
    traits = pd.DataFrame({NAMES[0]: rng.standard_normal(300), "twice": 7 - 2 * X[NAMES[1]], "new": rng.random(300)})
    found = GaussianBiclustering(2, random_state=0).fit(X).associate(X, traits)
    assert found.loc[found.trait != "new", ["low", "high", "p", "q"]].isna().all().all()
    assert found.loc[found.trait == "new", "p"].notna().all()
    assert set(found.note) == {f"{NAMES[0]} took part in the fit: no p", f"{NAMES[1]} took part in the fit: no p", ""}
    assert found.estimate.notna().all()


def test_traits_of_any_type() -> None:
    X, rng = table(300), np.random.default_rng(0)
    days = pd.date_range("2024-01-01", periods=300)
    given = pd.DataFrame(
        {
            "whole": pd.array(rng.integers(0, 9, 300), dtype="Int64"),
            "date": days.to_series(index=range(300)).where(rng.random(300) > 0.1),
            "flag": rng.random(300) < 0.4,
            "text": rng.choice(["a", "b", None], 300),
            "kind": pd.Categorical(rng.choice(list("123"), 300)),
            "mixed": pd.Series(rng.choice([1, 2.5, None], 300), dtype=object),
            "same": 1.0,
            "empty": np.nan,
            "id": [f"row {i}" for i in range(300)],
        }
    )
    given.loc[:20, "whole"] = pd.NA
    model = GaussianBiclustering(2, random_state=0).fit(X)
    found = model.associate(X, given)
    kinds = found[found.what == CLUSTERS].set_index("trait").kind
    assert (kinds == "η²").equals(kinds.index.to_series().isin(["whole", "date", "mixed", "same", "empty"]))
    notes = found.groupby("trait").note.first()
    assert notes[notes != ""].to_dict() == {
        "same": "all values are equal",
        "empty": "fewer than 4 rows have a value",
        "id": "nearly as many values as rows",
    }
    assert (found.p.isna() == (found.note != "")).all()
    assert found[found.what == CLUSTERS].set_index("trait").n["whole"] == 279
    polars = package("polars").from_pandas(given.drop(columns="mixed"))
    again = model.associate(X, polars)
    assert model.associate(X, polars["whole"]).trait.unique().tolist() == ["whole"]
    assert_allclose(again.p, found[found.trait != "mixed"].p, rtol=1e-6)
    clusters = found[found.trait == "flag"].cluster
    assert clusters.isna().tolist() == [True] + [False] * (len(clusters) - 1)
    for wrong, message in (
        (given[:10], "trait 'whole' has shape \\(10,\\) for 300 rows"),
        ({"far": np.full(300, np.inf)}, "trait 'far' has infinite values"),
        ({"lists": pd.Series([[1]] * 300)}, "trait 'lists' holds lists: give numbers, texts or dates"),
    ):
        with pytest.raises(ValueError, match=message):
            model.associate(X, wrong)
    with pytest.raises(ValueError, match=r"give traits.loc\[X.index\]"):
        model.associate(pd.DataFrame(X), given[::-1])
    assert len(model.associate(X, given["flag"])) == len(model.associate(X, X[:, :1] ** 2))


def test_the_heat_map_shows_every_effect_and_marks_what_is_beyond_chance() -> None:
    X, rng = table(300), np.random.default_rng(0)
    model = GaussianBiclustering(2, random_state=0).fit(X)
    score = model.transform(X)[:, 0]
    axes = model.plot_associations(X, {"clear": score + 0.1 * rng.standard_normal(300), "noise": rng.random(300)})
    texts = [text.get_text() for text in axes.texts]
    assert len(texts) == 2 * (1 + len(model.get_feature_names_out()))
    assert any(text.endswith("*") for text in texts)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["clear", "noise"]

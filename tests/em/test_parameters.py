"""Parameters: the same mixture in other units, dense summaries, and outliers by the distances in their groups."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import oracles
from hypothesis import given
from hypothesis import strategies as st
from mixtures import Case, chunk_log_joint, chunk_of, dense, mixture, mixtures, parameters_with, two_clusters
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import beta, chi2, f
from strategies import seeds

from blockmix.em.parameters import Prior, group_distances, outlier_limits, outliers_of
from blockmix.partition import Partition
from blockmix.rows import EXACT


@given(mixtures(), seeds)
def test_in_other_units_it_is_the_same_mixture(made: Case, seed: int) -> None:
    rows, parameters = made
    rng = np.random.default_rng(seed)
    location, scale = rng.standard_normal(rows.n_columns), rng.uniform(0.1, 10, rows.n_columns)
    moved = parameters.in_units(location, scale)
    assert_allclose(dense(moved), dense(parameters) * np.outer(scale, scale), rtol=1e-9, atol=1e-12)
    assert moved.blocks.layout is parameters.blocks.layout
    chunk = replace(chunk_of(rows), location=rows.location - location / scale * rows.scale, scale=rows.scale / scale)
    present = ~np.isnan(rows.X)
    stretch = (present @ np.log(scale))[:, None]
    plain = chunk_log_joint(chunk_of(rows), parameters)
    assert_allclose(chunk_log_joint(chunk, moved), plain - stretch, rtol=1e-7, atol=1e-7)
    back = moved.in_units(-location / scale, 1 / scale)
    assert_allclose(back.means, parameters.means, atol=1e-10)
    assert_allclose(back.blocks.factors, parameters.blocks.factors, rtol=1e-12)


@given(mixtures(), st.floats(0, 20), st.floats(0, 5))
def test_summaries_and_the_penalty_are_those_of_dense_matrices(made: Case, shrinkage: float, ridge: float) -> None:
    _, parameters = made
    logdets, _, precisions = parameters.summaries
    sigma = dense(parameters)
    assert_allclose(logdets, np.linalg.slogdet(sigma)[1], atol=1e-8)
    assert_allclose(precisions, [np.diagonal(np.linalg.inv(S)) for S in sigma], rtol=1e-8)
    value = Prior(shrinkage, ridge).value(parameters)
    assert_allclose(value, oracles.penalty(sigma, shrinkage, ridge), rtol=1e-7, atol=1e-9)


def test_moved_parameters_keep_their_covariances_and_leave_the_old_ones_as_they_were() -> None:
    _, old = mixture(np.random.default_rng(0), 5, [Partition([0, 0, 1])] * 2)
    before = old.means.copy()
    new = old.moved(np.array([1.0, 0.0]), old.means + 1)
    assert new.blocks is old.blocks
    assert_array_equal(old.means, before)
    assert_array_equal(new.means, before + 1)


@given(mixtures(heavy=False))
def test_the_distances_of_the_groups_add_up_to_that_of_the_row(made: Case) -> None:
    rows, parameters = made
    rows = replace(rows, resolution=EXACT)
    chunk = chunk_of(rows)
    for g, mean in enumerate(parameters.means):
        distances = group_distances(chunk, np.full(rows.n_rows, g), parameters)
        assert (np.isfinite(distances).sum(axis=1) == parameters.blocks.layout.partitions[g].n_groups).all()
        X = np.where(np.isnan(rows.X), np.nan, mean * rows.scale + rows.location)
        at_mean, joint = (chunk_log_joint(c, parameters)[:, g] for c in (chunk_of(replace(rows, X=X)), chunk))
        assert_allclose(np.nansum(distances, axis=1), 2 * (at_mean - joint), rtol=1e-8, atol=1e-7)


def test_the_group_in_which_a_row_is_far_away_is_named() -> None:
    rows, z = two_clusters()
    parameters = parameters_with((Partition([0, 0, 0, 0, 1, 2]),) * 2, rows, z)
    X = rows.X.copy()
    X[3, 4] += 40
    X[5, 0] += 40
    X[7] = np.nan
    X[7, 5] = 50.0
    described = outliers_of(chunk_of(replace(rows, X=X)), z.argmax(axis=1), parameters)
    assert described["outlier_groups_"][[3, 5, 7]].tolist() == [1, 0, 2]
    assert described["n_values_"][[3, 7]].tolist() == [6, 1]
    limits, scores = outlier_limits(parameters, np.full(6, 80.0), new=False)[0], described["outlier_scores_"]
    assert (scores[[3, 5, 7]] > limits[[6, 6, 1]]).all() and np.median(scores) < limits[6]


def test_outlier_limits_are_hotellings_for_one_block_and_those_of_chi_square_for_many_rows() -> None:
    rows, z = two_clusters()
    blocks = parameters_with((Partition.single(6),) * 2, rows, z)
    n = 30.0
    new, of_fit = (outlier_limits(blocks, np.full(2, n), new)[1, -1] for new in (True, False))
    assert_allclose(new, (n + 1) * 6 / (n - 6) * f.ppf(0.999, 6, n - 6))
    assert_allclose(of_fit, (n - 1) * beta.ppf(0.999, 3, (n - 7) / 2), rtol=0.01)  # the moments are the same
    for several in (blocks, parameters_with((Partition([0, 0, 0, 0, 1, 2]),) * 2, rows, z)):
        B = len(several.blocks.layout.distinct_blocks)
        for new in (True, False):
            limits = outlier_limits(several, np.full(B, 1e9), new)[0]
            assert_allclose(limits[1:], chi2.ppf(0.999, np.arange(1, 7)), rtol=1e-6)
            assert limits[0] == 0

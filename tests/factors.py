"""Rows with common factors, random parameters of the factor mixture, and its dense densities."""

from __future__ import annotations

import warnings
from itertools import product
from typing import Any

import numpy as np
import oracles
import pytest
from sklearn.exceptions import ConvergenceWarning
from strategies import Matrix

from blockmix import FactorBiclustering
from blockmix.em.factor import FactorModel, FactorParameters
from blockmix.em.factor_family import FactorFamily
from blockmix.em.loop import LoopResult, LoopState, run
from blockmix.estimators.fitting import FitWarning
from blockmix.rows import ArrayRows

MODELS = [*("".join(letters) for letters in product("UC", repeat=4)), "UIUU", "CIUU", "UICU", "UIUC", "CICC"]
every_model = pytest.mark.parametrize("letters", MODELS)


def factor_rows(seed: int, n: int = 60, p: int = 7, G: int = 2, q: int = 3, apart: float = 1.0) -> Matrix:
    """Rows of a mixture with common factors, in columns of different scale."""
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(G):
        labels = rng.integers(0, q, p)
        factors = rng.standard_normal((n, q)) * rng.uniform(0.3, 1.5, q)
        parts.append(
            rng.normal(0, apart, p) + factors[:, labels] + rng.standard_normal((n, p)) * rng.uniform(0.3, 1, p)
        )
    X: Matrix = np.concatenate(parts) * 10.0 ** rng.uniform(-1, 1, p)
    return X


def random_parameters(seed: int, G: int = 2, p: int = 6, q: int = 3) -> FactorParameters:
    rng = np.random.default_rng(seed)
    return FactorParameters(
        rng.dirichlet(np.ones(G)),
        rng.standard_normal((G, p)),
        np.stack([rng.permutation(np.arange(p) % q) for _ in range(G)]),
        rng.uniform(0, 2, (G, q)),
        rng.uniform(0.1, 2, (G, p)),
    )


def model_of(letters: str, p: int, G: int, q: int = 3) -> FactorModel:
    return FactorModel.named(letters, G, q, np.full(p, 1e-6))


def family_of(letters: str, rows: ArrayRows, G: int, q: int = 3) -> FactorFamily:
    return FactorFamily(model_of(letters, rows.n_columns, G, q), rows.total_weight)


def random_start(X: Matrix, G: int, seed: int) -> Matrix:
    """Hard responsibilities."""
    return np.eye(G)[np.random.default_rng(seed).permutation(len(X)) % G]


def ended(
    family: FactorFamily, rows: ArrayRows, start: Matrix | FactorParameters, tol: float, max_iter: int
) -> LoopResult[FactorParameters]:
    """EM from responsibilities or from parameters to its end."""
    if isinstance(start, FactorParameters):
        return run(family, rows, LoopState(start, max(tol, family.loose)), tol, max_iter)
    return run(family, rows, family.first(rows, start, max(tol, family.loose)), tol, max_iter)


def standardized(rows: ArrayRows) -> Matrix:
    values: Matrix = (rows.X - rows.location) / rows.scale
    return values


def log_joint(X: Matrix, parameters: FactorParameters) -> Matrix:
    """The dense log π_g f_g of rows, shape (N, G)."""
    return oracles.log_joint(X, parameters.weights, parameters.means, parameters.covariances)


def quiet(
    X: Any, sample_weight: Any = None, checkpoint: Any = None, rounding: bool = True, **settings: Any
) -> FactorBiclustering:
    """Fit without the warnings that small or awkward tables give."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = FactorBiclustering(**settings)
        if not rounding:
            model._rounding = False
        return model.fit(X, sample_weight=sample_weight, checkpoint=checkpoint)

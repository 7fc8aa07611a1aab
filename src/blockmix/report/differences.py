"""Differences: which columns and column groups tell a component from the rest.

All figures come from the fitted means and variances, so they need no rows, and far rows weigh in a t mixture as little
as in its fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from blockmix.blocks.blocks import Blocks
from blockmix.blocks.moments import correlation
from blockmix.partition import FloatArray
from blockmix.report.subject import Subject

_PROFILES = 24  # groups of all components whose scores are shown, the largest of each


@dataclass(frozen=True, eq=False)
class Centers:
    """Means of the components in the units of the page.

    Attributes
    ----------
    weights : array of shape (G,)
    means : array of shape (G, p)
    overall : array of shape (p,)
        Mean of all rows.
    scale : array of shape (p,)
        Standard deviation within components: √Σ_g π_g Σ_g,jj.
    """

    weights: FloatArray
    means: FloatArray
    overall: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, model: Any) -> Centers:
        """Centers of a fitted mixture."""
        weights, means = model.weights_.astype(float), model.means_.astype(float)
        weights = weights / weights.sum()
        variances = np.stack([block.variances for block in model.blocks_]).astype(float)
        return cls(weights, means, weights @ means, np.sqrt(weights @ variances))

    def standardized(self) -> FloatArray:
        """Means in standard deviations from the overall mean, shape (G, p)."""
        return (self.means - self.overall) / self.scale

    def differences(self) -> FloatArray:
        """(mean of the component − mean of all others) / standard deviation within components, shape (G, p).

        With weights π, μ − Σ_h≠g π_h μ_h / (1 − π_g) is (μ − overall mean) / (1 − π_g).
        """
        rest = np.maximum(1 - self.weights, np.finfo(float).eps)
        return np.asarray(self.standardized() / rest[:, None])


def differences(subject: Subject) -> dict[str, Any] | None:
    """Differences of the columns and scores of the column groups by component; None for a single component."""
    if not subject.is_mixture or len(subject.model.weights_) < 2:
        return None
    centers = Centers.of(subject.model)
    each = subject.model.blocks_[:1] if subject.is_shared else subject.model.blocks_
    return {
        "columns": np.round(centers.differences(), 3).tolist(),
        "means": [[float(f"{value:.4g}") for value in row] for row in centers.means.tolist()],
        "groups": [
            np.round(group_scores(centers.standardized(), block, max(3, _PROFILES // len(each))), 3).tolist()
            for block in each
        ],
    }


def group_scores(means: FloatArray, covariance: Blocks, most: int) -> FloatArray:
    """Mean scores of components with standardized means (G, p) in the `most` largest groups of several columns, (K, G).

    The score of a group is the mean of its standardized columns; those that go against the column with the strongest
    correlations are turned round.
    """
    groups = [(k, group) for k, group in enumerate(covariance.partition.groups) if len(group) > 1][:most]
    blocks = covariance.blocks if groups else ()
    return np.array([means[:, group] @ _signs(blocks[k]) / len(group) for k, group in groups]).reshape(
        len(groups), len(means)
    )


def _signs(block: FloatArray) -> FloatArray:
    R = correlation(block)
    central = R[np.abs(R).sum(axis=0).argmax()]
    return np.where(central < 0, -1.0, 1.0)

"""Short EM: which of many clusterings is the best start of a mixture, judged by t components with full covariances.

It takes rows and the responsibilities of many clusterings, and returns those of the best one after a few sweeps. All
clusterings are swept together: a Mahalanobis distance is linear in the products x_i x_j, in x and in 1, so the E-steps
of all of them are one matrix product and their M-steps another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blockmix.structure.types import FloatArray, IntArray

_FEW, _MORE = 10, 15  # sweeps of all clusterings, and further ones of the best
_KEPT = 8  # clusterings that have the further sweeps
_FLOOR = 1e-3  # added to variances, of standardized columns: no cluster can sit on a value that is recorded often
# Degrees of freedom. The normal likelihood prefers a component of far rows and merges two clusters for it. Under t
# components far rows cost little.
_DEGREES = 5.0
_NUMBERS = 2**22  # of the products: 32 MB


@dataclass(frozen=True, eq=False)
class Products:
    """Rows of total weight 1 as products x_i x_j (i ≤ j), x and 1, shape (N, D) with D = p(p + 3)/2 + 1.

    In single precision, which is enough to compare and twice as fast.
    """

    phi: FloatArray
    weights: FloatArray
    i: IntArray
    j: IntArray
    n_columns: int

    @classmethod
    def of(cls, X: FloatArray, weights: FloatArray) -> Products:
        """The products of rows X, shape (N, p)."""
        i, j = np.triu_indices(X.shape[1])
        phi = np.concatenate([X[:, i] * X[:, j], X, np.ones((len(X), 1))], axis=1)
        return cls(phi.astype(np.float32), (weights / weights.sum()).astype(np.float32), i, j, X.shape[1])

    def swept(
        self, z: FloatArray, u: FloatArray, n_sweeps: int
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Some sweeps of S mixtures from responsibilities z and row weights u, both (N, G, S).

        Returns both, the log-likelihoods per row up to a constant (S,), and the shares of the components (G, S).
        """
        # Mixtures come last: NumPy is slow to add up a last axis as short as G.
        N, G, S = z.shape
        most = _DEGREES + self.n_columns
        value, share = np.empty(S), np.empty((G, S))
        for _ in range(n_sweeps):
            weighed = z * self.weights[:, None, None]
            share = np.maximum(weighed.sum(axis=0), np.finfo(np.float32).tiny)
            coefficients, logdet = self._maximized((weighed * u).reshape(N, G * S))
            squares = np.maximum(self.phi @ coefficients, 0).reshape(N, G, S)
            u = most / (_DEGREES + squares)
            joint = np.log(share) - 0.5 * logdet.reshape(G, S) + 0.5 * most * np.log(u)
            top = joint.max(axis=1, keepdims=True)
            z = np.exp(joint - top)
            total = z.sum(axis=1, keepdims=True)
            z /= total
            value = self.weights @ (top + np.log(total))[:, 0]
        return z, u, value, share

    def _maximized(self, share: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Coefficients (D, C) of the distances in the products for C weighted components (N, C), and log|Σ| (C,)."""
        i, j = self.i, self.j
        sums = (self.phi.T @ share).astype(float)
        weight = np.maximum(sums[-1], np.finfo(float).tiny)
        squares, means = np.split(sums[:-1] / weight, [len(i)])
        C, p = len(weight), len(means)
        covariance = np.empty((C, p, p))
        covariance[:, i, j] = covariance[:, j, i] = squares.T - (means[i] * means[j]).T
        covariance[:, range(p), range(p)] += _FLOOR
        precision = np.linalg.inv(covariance)
        linear = np.einsum("cij,jc->ic", precision, means)
        quadratic = np.where(i == j, 1.0, 2.0)[:, None] * precision[:, i, j].T
        constant = np.einsum("ic,ic->c", linear, means)[None]
        coefficients = np.concatenate([quadratic, -2 * linear, constant]).astype(np.float32)
        return coefficients, np.linalg.slogdet(covariance)[1].astype(np.float32)


def best_start(
    X: FloatArray, weights: FloatArray, clusterings: list[FloatArray], spare: float, rng: np.random.RandomState
) -> tuple[IntArray, FloatArray]:
    """Numbers of the clusterings, best first, and responsibilities for the first M-step, shape (N, G).

    The best has the fewest components with at most p + spare rows, then the highest likelihood. Its responsibilities
    after short EM are returned times the weights of the rows, at most 1: far rows count little in the first M-step.
    Of many rows only a sample is swept, and the clustering itself is returned.

    Parameters
    ----------
    X : array of shape (N, p)
        Standardized rows.
    weights : array of shape (N,)
    clusterings : list of arrays of shape (N, G)
        A row without responsibilities is left out of the first M-step.
    spare : float
    rng : RandomState

    Examples
    --------
    >>> X = np.random.RandomState(0).standard_normal((60, 1)) + np.repeat([[-9.0], [0], [9]], 20, axis=0)
    >>> right, wrong = np.repeat(np.eye(3), 20, axis=0), np.tile(np.eye(3), (20, 1))
    >>> best_start(X / X.std(), np.ones(60), [wrong, right], 5, np.random.RandomState(0))[0]
    array([1, 0])
    """
    p = X.shape[1]
    most = max(_NUMBERS // (p * (p + 3) // 2 + 1), 1)
    part = slice(None) if len(X) <= most else np.sort(rng.choice(len(X), most, replace=False))
    products = Products.of(X[part].astype(float), weights[part].astype(float))
    z = np.stack([found[part] for found in clusterings], axis=2).astype(np.float32)
    least = (p + spare) / float(weights[part].sum())

    def ranked(value: FloatArray, share: FloatArray) -> IntArray:
        return np.lexsort((-value, (share <= least).sum(axis=0)))

    z, u, *ends = products.swept(z, np.ones_like(z), _FEW)
    order = ranked(*ends)
    z, u, *ends = products.swept(z[:, :, order[:_KEPT]], u[:, :, order[:_KEPT]], _MORE)
    again = ranked(*ends)
    order[:_KEPT] = order[again]
    swept = (z * np.minimum(u, 1))[:, :, again[0]].astype(X.dtype)
    return order, swept if isinstance(part, slice) else clusterings[order[0]]

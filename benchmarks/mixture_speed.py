"""Speed of the mixture against scikit-learn's full GaussianMixture: ratios in one process, quality beside them.

    python benchmarks/mixture_speed.py [small] [large] [long] [wide]
    OMP_NUM_THREADS=1 python benchmarks/mixture_speed.py small cpu  # processor time, on a machine with other work

Both start from the same k-means labels and use all cores. "small" is Wine, Olive and Ecoli, "large" 50 000 × 200 in 5
components of 20 blocks, "long" 200 000 × 50, "wide" Golub 38 × 3051. Olive, Ecoli and Golub need the data folder
(experiments/README.md).
"""

from __future__ import annotations

import resource
import sys
import time
import warnings

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from turns import in_turns

from blockmix import GaussianBiclustering
from experiments.data import available, load_ecoli, load_golub, load_olive, load_wine, standardize

CLOCK = time.process_time if "cpu" in sys.argv else time.perf_counter


def peer_from(X: np.ndarray, labels: np.ndarray, **settings: object) -> GaussianMixture:
    """scikit-learn's mixture, started at the M-step of the labels, so that it runs no k-means of its own."""
    G = labels.max() + 1
    means = np.stack([X[labels == g].mean(axis=0) for g in range(G)])
    covariances = [np.cov(X[labels == g].T, bias=True) + 1e-6 * np.eye(X.shape[1]) for g in range(G)]
    return GaussianMixture(
        G,
        weights_init=np.bincount(labels) / len(labels),
        means_init=means,
        precisions_init=np.linalg.inv(np.stack(covariances)),
        **settings,
    )


def small() -> None:
    sets = {"Wine": load_wine, "Olive": load_olive, "Ecoli": load_ecoli}
    for name in available(sets):
        bunch = sets[name]()
        X, y, G = standardize(bunch.data), bunch.target, len(bunch.target_names)
        labels = KMeans(G, n_init=10, random_state=0).fit_predict(X)
        for groups in ("auto", 3):
            for tol in (1e-4, 1e-3):  # ours is 1e-4, scikit-learn's default 1e-3
                ours = GaussianBiclustering(G, groups, init=labels)
                theirs = peer_from(X, labels, tol=tol, max_iter=200)
                a, b, ratio = in_turns(lambda m=ours, X=X: m.fit(X), lambda m=theirs, X=X: m.fit(X), 15, CLOCK)
                print(
                    f"{name}, groups {groups}, its tol {tol:g}: "
                    f"{1e3 * a:.1f} ms against {1e3 * b:.1f} ms: {ratio:.2f} x; "
                    f"iterations {ours.n_iter_} and {theirs.n_iter_}; "
                    f"ARI {adjusted_rand_score(y, ours.row_labels_):.3f} and "
                    f"{adjusted_rand_score(y, theirs.predict(X)):.3f}; BIC {ours.bic(X):.0f} and {theirs.bic(X):.0f}"
                )


def planted(n: int, p: int, G: int, K: int, spread: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, G, n)
    X = np.empty((n, p))
    size = p // K
    for g in range(G):
        rows = np.flatnonzero(labels == g)
        columns = rng.permutation(p)
        centre = spread * rng.standard_normal(p)
        for k in range(K):
            block = columns[k * size : (k + 1) * size]
            A = rng.standard_normal((size, size)) / np.sqrt(size) + np.eye(size)
            X[np.ix_(rows, block)] = rng.standard_normal((len(rows), size)) @ A.T + centre[block]
    return X, labels


def big(n: int, p: int, G: int, K: int, spread: float) -> None:
    X, truth = planted(n + 5000, p, G, K, spread)
    X, held, truth = X[:n], X[n:], truth[:n]
    labels = KMeans(G, n_init=1, max_iter=5, random_state=0).fit_predict(X)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    ours = GaussianBiclustering(G, K, init=labels).fit(X)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"n={n} p={p} G={G} K={K}: X {X.nbytes / 1e9:.2f} GB, peak rose from {before:.2f} to {peak:.2f} GB")
    theirs = peer_from(X, labels)
    whole, peer, ratio = in_turns(lambda: ours.fit(X), lambda: theirs.fit(X), 3, CLOCK)
    print(
        f"  to convergence: {whole:.1f} s ({ours.n_iter_} iterations) against {peer:.1f} s ({theirs.n_iter_}): "
        f"{1 / ratio:.1f} x faster; held-out log-likelihood {ours.score(held):.3f} and {theirs.score(held):.3f}; "
        f"ARI {adjusted_rand_score(truth, ours.row_labels_):.3f} and "
        f"{adjusted_rand_score(truth, theirs.predict(X)):.3f}"
    )
    iteration(X, labels, ours)


def iteration(X: np.ndarray, labels: np.ndarray, fitted: GaussianBiclustering) -> tuple[float, float, float]:
    """One EM iteration with fixed blocks against one of scikit-learn, and against the machine's matrix-product rate.

    Returns the first two, and the median of their ratios.

    A turn is three iterations, as EM makes them one after the other: the first after the peer's finds cold caches and
    BLAS threads that still wait for work.
    """
    from blockmix.em.parameters import Prior
    from blockmix.em.sweep import maximize, sweep
    from blockmix.rows import ArrayRows, one_blas_thread

    rows = ArrayRows.standardized(X)
    single = ArrayRows.standardized(X.astype(np.float32))
    parameters = fitted._parameters.in_units(-rows.location / rows.scale, 1 / rows.scale)

    def ours(rows: ArrayRows = rows) -> None:
        with one_blas_thread():
            for _ in range(3):
                maximize(sweep(rows, parameters), parameters, Prior())

    peer = peer_from(X, labels, reg_covar=0.0)
    peer._initialize_parameters(X, np.random.RandomState(0))

    def theirs() -> None:
        for _ in range(3):
            _, responsibility = peer._e_step(X)
            peer._m_step(X, responsibility)

    a, b, ratio = in_turns(ours, theirs, 5, CLOCK)
    a, b = a / 3, b / 3
    ours(single)
    gain = 1 / in_turns(lambda: ours(single), ours, 7, CLOCK)[2]
    sizes = np.concatenate([partition.sizes for partition in parameters.blocks.layout.partitions]).astype(float)
    flops = 4 * len(X) * (sizes**2).sum()
    A = np.random.default_rng(0).standard_normal((2000, 2000))
    A @ A
    start = CLOCK()
    for _ in range(3):
        A @ A
    rate = 3 * 2 * 2000**3 / (CLOCK() - start)
    print(
        f"  one iteration: {a:.3f} s against {b:.3f} s: {1 / ratio:.1f} x faster; {flops / 1e9:.1f} Gflop would take "
        f"{flops / rate:.3f} s at the matrix-product rate of {rate / 1e9:.0f} Gflop/s: "
        f"{a / (flops / rate):.1f} x from it; in float32 {gain:.2f} x faster"
    )
    return a, b, ratio


def wide() -> None:
    if not available({"Golub": load_golub}):
        return
    bunch = load_golub()
    X, y = standardize(bunch.data), bunch.target
    for settings in ({}, {"n_column_groups": 305, "shrinkage": 0.5}):
        start = time.perf_counter()
        model = GaussianBiclustering(2, random_state=0, **settings).fit(X)
        seconds = time.perf_counter() - start
        print(
            f"Golub 38 x 3051, {settings}: {seconds:.1f} s, {model.n_iter_} iterations, "
            f"groups {model.n_column_groups_}, "
            f"ARI {adjusted_rand_score(y, model.row_labels_):.3f}"
        )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    asked = [name for name in sys.argv[1:] if name != "cpu"] or ["small", "large", "long", "wide"]
    if "small" in asked:
        small()
    if "large" in asked:
        big(50_000, 200, 5, 20, 0.5)
    if "long" in asked:
        big(200_000, 50, 5, 10, 0.7)
    if "wide" in asked:
        wide()

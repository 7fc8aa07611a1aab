"""Data sets: the simulated designs of the paper."""

from blockmix.datasets.simulated import (
    GRID,
    BlockData,
    Design,
    MixtureDesign,
    block_grid,
    components_block,
    components_random,
    covariance_negative,
    covariance_positive,
    make_block_data,
    sigma_a,
    sigma_b,
)

__all__ = [
    "GRID",
    "BlockData",
    "Design",
    "MixtureDesign",
    "block_grid",
    "components_block",
    "components_random",
    "covariance_negative",
    "covariance_positive",
    "make_block_data",
    "sigma_a",
    "sigma_b",
]

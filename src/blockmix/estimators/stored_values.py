"""Stored values: the table of the objects that a saved model may hold.

The names in the table are those in the files. They stay when a class or a field is renamed, so that files of earlier
versions load.
"""

from __future__ import annotations

from typing import Any

from blockmix.em.block.parameters import Parameters, assemble
from blockmix.em.factor.sweep import FactorParameters
from blockmix.em.loop import Waypoint
from blockmix.estimators.topics.importance import Topic
from blockmix.grouping.protocols import Grouping, Rule
from blockmix.grouping.rules import GROUPINGS, RULES
from blockmix.persistence.values import Codec, Codecs, stored
from blockmix.structure.blocks import BlockCovariance
from blockmix.structure.partition import Partition
from blockmix.structure.types import FloatArray


def _mixture_arguments(parameters: Parameters) -> dict[str, Any]:
    # By component: how the blocks are stacked for arithmetic is no part of the format.
    distinct = parameters.covariances[:1] if parameters.layout.shared else parameters.covariances
    return {"weights": parameters.weights, "means": parameters.means, "covariances": distinct}


def _mixture(weights: FloatArray, means: FloatArray, covariances: tuple[BlockCovariance, ...]) -> Parameters:
    """The mixture of these components; a single covariance is shared by all of them."""
    return assemble(weights, means, covariances * (len(weights) if len(covariances) == 1 else 1))


VALUES = Codecs(
    [
        stored(Partition),
        stored(BlockCovariance, fields={"cholesky": "factors"}),
        Codec("Parameters", Parameters, _mixture_arguments, _mixture),
        stored(FactorParameters, fields={"factor_variances": "factors"}),
        stored(Waypoint),
        stored(Topic),
        *map(stored, GROUPINGS.values()),
        *map(stored, RULES.values()),
    ],
    open_to=(Grouping, Rule),
)

"""Type aliases: real matrices, integer labels, masks, seeds."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.intp]
BoolArray = NDArray[np.bool_]
RandomState = int | np.random.RandomState | None

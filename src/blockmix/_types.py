"""Types of the signatures: real matrices, integer labels, seeds."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.intp]
RandomState = int | np.random.RandomState | None

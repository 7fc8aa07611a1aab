"""Packing: a value comes back as it was, and only known classes are built."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stored import same

from blockmix.estimators.stored import VALUES
from blockmix.files.archive import Refusal
from blockmix.files.values import Codec, Codecs, pack, unpack
from blockmix.partition import Partition

plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.builds(np.float32, st.floats(width=32)),
    st.builds(np.float64, st.floats()),
    st.builds(np.int16, st.integers(-9, 9)),
    st.builds(np.bool_, st.booleans()),
    st.builds(np.str_, st.text(alphabet="aβ", max_size=3).filter(len)),
    st.builds(range, st.integers(-5, 5), st.integers(-5, 5), st.sampled_from([-2, 1])),
)
arrays = st.one_of(
    st.lists(st.floats(), max_size=4).map(np.array),
    st.lists(st.integers(-5, 5), max_size=4).map(lambda items: np.array(items, dtype=np.int8)),
    st.lists(st.booleans(), max_size=4).map(lambda items: np.array(items, dtype=bool)),
    st.lists(st.text(max_size=3), max_size=4).map(lambda items: np.array(items, dtype=object)),
    st.just(np.array(["x", "long name"])),
    st.just(np.float32([[1, 2, 3], [4, 5, 6]]).T),
    st.just(np.array(2.5)),
    st.lists(st.integers(0, 3), min_size=1, max_size=5).map(Partition),
)
values = st.recursive(
    plain | arrays,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3),
    ),
    max_leaves=8,
)


def packed(value: Any, codecs: Codecs = VALUES) -> tuple[Any, dict[int, Any]]:
    places: dict[int, Any] = {}
    text = json.dumps(pack(value, "position", codecs, places), allow_nan=False)
    return json.loads(text), dict(places.values())


@given(values)
def test_unpacking_is_the_inverse_of_packing(value: Any) -> None:
    assert same(unpack(*packed(value), VALUES), value)


def test_an_array_that_occurs_twice_is_stored_once() -> None:
    array = np.arange(3.0)
    content, places = packed([array, (array,), np.arange(3.0)])
    assert len(places) == 2
    first, (second,), _ = unpack(content, places, VALUES)
    assert first is second


@dataclass(frozen=True)
class Point:
    """A value that must be positive."""

    x: float


def test_only_valid_objects_of_known_classes_are_packed_and_built() -> None:
    def positive(point: Point) -> None:
        if point.x <= 0:
            raise ValueError(f"x={point.x}")

    codecs = Codecs([Codec(Point, positive)])
    assert unpack(*packed(Point(1.0), codecs), codecs) == Point(1.0)
    with pytest.raises(ValueError, match="x=-1"):
        unpack({"$": "Point", "x": -1.0}, {}, codecs)
    with pytest.raises(Refusal, match="holds a 'Point'"):
        unpack({"$": "Point", "x": 1.0}, {}, VALUES)
    with pytest.raises(TypeError, match="position holds a Point, which cannot be saved"):
        packed(Point(1.0))

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

from blockmix.estimators.models import VALUES
from blockmix.files.archive import Refusal
from blockmix.files.values import Codecs, Packer, stored, unpack
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


@given(values)
def test_unpacking_is_the_inverse_of_packing(value: Any) -> None:
    packer = Packer(VALUES)
    text = json.dumps(packer.pack(value, "value"), allow_nan=False)
    assert same(unpack(json.loads(text), dict(enumerate(packer.arrays)), VALUES), value)


def test_an_array_that_occurs_twice_is_stored_once() -> None:
    packer, array = Packer(VALUES), np.arange(3.0)
    packed = packer.pack([array, (array,), np.arange(3.0)], "value")
    assert len(packer.arrays) == 2
    first, (second,), _ = unpack(packed, dict(enumerate(packer.arrays)), VALUES)
    assert first is second


@dataclass(frozen=True)
class Point:
    """A value with a field that was called `east` in older files."""

    x: float
    y: float = 0.0


def test_names_in_the_file_outlive_names_in_the_code() -> None:
    codecs = Codecs([stored(Point, fields={"x": "east"})])
    packed = Packer(codecs).pack(Point(1.0, 2.0), "value")
    assert packed == {"$": "Point", "east": 1.0, "y": 2.0}
    assert unpack(packed, {}, codecs) == Point(1.0, 2.0)
    # Red if a field that was added later were required of older files.
    assert unpack({"$": "Point", "east": 1.0}, {}, codecs) == Point(1.0)


def test_a_value_that_cannot_be_is_refused() -> None:
    def positive(point: Point) -> None:
        if point.x <= 0:
            raise ValueError(f"x={point.x}")

    codecs = Codecs([stored(Point, positive)])
    assert unpack({"$": "Point", "x": 1.0}, {}, codecs) == Point(1.0)
    with pytest.raises(ValueError, match="x=-1"):
        unpack({"$": "Point", "x": -1.0}, {}, codecs)


def test_only_known_classes_are_packed_and_built() -> None:
    assert unpack({"$": "Partition", "labels": np.array([3, 3, 1])}, {}, VALUES) == Partition([0, 0, 1])
    with pytest.raises(Refusal, match="holds a 'Point'"):
        unpack({"$": "Point", "x": 1.0}, {}, VALUES)
    with pytest.raises(TypeError, match="position holds a Point, which cannot be saved"):
        Packer(VALUES).pack(Point(1.0), "position")

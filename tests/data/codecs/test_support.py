"""Which items are not zero: bitmaps, and the places in them."""

from __future__ import annotations

import numpy as np
import pytest

from duetlink.data.codecs.element import BY_NAME
from duetlink.data.codecs.support import bitmap_of, count, places_of


@pytest.mark.parametrize("density", [0.0, 0.01, 0.3, 1.0])
@pytest.mark.parametrize("items", [0, 1, 9, 70_001])
def test_places_are_those_of_the_items_that_are_not_zero(items: int, density: float) -> None:
    array = (np.random.default_rng(items).random(items) < density).astype(np.float32)
    bitmap = bitmap_of(array, BY_NAME["float32"])
    expected = [place for place, item in enumerate(array) if item]
    assert places_of(bitmap, items).tolist() == expected
    assert places_of(bitmap, items).dtype == np.int64
    assert count(bitmap) == len(expected)


@pytest.mark.parametrize("first", [0, 255])
def test_bits_beyond_the_last_item_are_no_places(first: int) -> None:
    bitmap = np.array([first] * 9 + [255], np.uint8)
    assert places_of(bitmap, 75).tolist() == [*(range(72) if first else ()), 72, 73, 74]

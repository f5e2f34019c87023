from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from duetlink.data.codecs import chunk, decode
from duetlink.data.codecs.gradients import TopK
from duetlink.data.codecs.gradients.top_k import largest
from duetlink.errors import LocalProtocolError


def test_the_largest_are_sent_and_the_others_wait() -> None:
    compressor = TopK(0.02)
    gradient = np.full((10, 10), 0.25, np.float32)
    gradient[3, 4], gradient[7, 1] = -7, 5
    decoded, _ = decode(compressor.compress(gradient, "w"))
    assert {tuple(at): decoded[tuple(at)] for at in np.argwhere(decoded)} == {(3, 4): -7, (7, 1): 5}
    residual = compressor.state_dict()["residual/w"]
    assert isinstance(residual, np.ndarray)
    assert (residual[3, 4], residual[7, 1], residual[0, 0]) == (0, 0, 0.25)

    gradient = np.zeros((10, 10), np.float32)
    gradient[0, 0], gradient[9, 9] = 1, -2
    decoded, _ = decode(compressor.compress(gradient, "w"))
    assert {tuple(at): decoded[tuple(at)] for at in np.argwhere(decoded)} == {(0, 0): 1.25, (9, 9): -1.75}


@pytest.mark.parametrize(("size", "density", "sent"), [(1000, 0.1, 100), (1000, 0.01, 10), (300, 1e-6, 1)])
def test_as_many_are_sent_as_the_density_says(size: int, density: float, sent: int) -> None:
    gradient = np.random.default_rng(0).standard_normal(size).astype(np.float32)
    assert np.count_nonzero(decode(TopK(density).compress(gradient, "w"))[0]) == sent


def test_values_are_lossless_unless_asked_otherwise() -> None:
    gradient = np.random.default_rng(0).standard_normal((40, 50)).astype(np.float32)
    exact, _ = decode(TopK(0.1).compress(gradient, "w"))
    rounded, _ = decode(TopK(0.1, value="block8").compress(gradient, "w"))
    assert np.array_equal(exact[exact != 0], gradient[exact != 0])
    assert not np.array_equal(rounded, exact)
    np.testing.assert_allclose(rounded, exact, atol=np.abs(gradient).max() / 100)


def test_a_chunk_does_not_call_itself_lossless() -> None:
    data = TopK(0.1).compress(np.arange(1000, dtype=np.float32), "w")
    assert not chunk.read_header(memoryview(data)).bound.lossless


@given(
    arrays.arrays(np.float32, st.integers(0, 40), elements=st.floats(0, 100, width=32)), st.integers(0, 45)
)
def test_largest_agrees_with_sorting(magnitudes: NDArray[np.float32], count: int) -> None:
    found = largest(magnitudes, count)
    assert np.all(np.diff(found) > 0)
    expected = [x for x in sorted(magnitudes.tolist(), reverse=True)[:count] if x > 0]
    assert sorted(magnitudes[found].tolist(), reverse=True) == expected


@given(arrays.arrays(np.float32, st.integers(0, 12), elements=st.floats(-10, 10, width=32)))
def test_a_chunk_is_at_most_a_header_larger_than_the_array(gradient: NDArray[np.float32]) -> None:
    data = TopK(1.0).compress(gradient, "w")
    assert chunk.read_header(memoryview(data)).payload_bytes <= gradient.nbytes


@pytest.mark.parametrize("density", [0, -0.1, 1.01, float("nan")])
def test_a_density_that_is_none_is_refused(density: float) -> None:
    with pytest.raises(LocalProtocolError, match="density"):
        TopK(density)

"""Every value codec: how near its values are, how small they get, and hostile payloads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.data.codecs.element import FLOAT32
from duetlink.data.codecs.gradients import values as value_codecs
from duetlink.data.codecs.gradients.values.base import ValueCodec, Values
from duetlink.errors import LocalProtocolError, UnknownCodec
from duetlink.testing.codecs import from_bits, peak_below

CODECS = list(value_codecs.BY_NAME.values())


def there_and_back(codec: ValueCodec, values: Values, seed: int = 0) -> Values:
    return codec.decode(memoryview(codec.encode(values, seed)), values.size)


def largest_of_normal(count: int, seed: int = 0) -> Values:
    """As top-k leaves them: the tenth of largest magnitude, of both signs."""
    values = np.random.default_rng(seed).standard_normal(10 * count).astype(np.float32)
    return values[np.sort(np.argsort(np.abs(values))[-count:])]


def named(codec: object) -> str:
    return codec.name if isinstance(codec, ValueCodec) else str(codec)


def test_numbers_and_names_are_for_ever() -> None:
    assert {codec.number: codec.name for codec in CODECS} == {
        0: "raw",
        1: "lossless",
        2: "bfloat16",
        3: "block8",
        4: "block4",
        5: "qsgd",
        6: "natural",
        7: "float16",
    }
    assert value_codecs.chosen("auto").name == "block8"


@pytest.mark.parametrize("name", ["raw", "lossless"])
@settings(deadline=None, max_examples=50)
@given(data=st.binary(max_size=400))
def test_lossless_ones_keep_every_bit(name: str, data: bytes) -> None:
    values = from_bits(data, FLOAT32).view(np.float32)
    assert there_and_back(value_codecs.BY_NAME[name], values).tobytes() == values.tobytes()


@pytest.mark.parametrize(
    ("name", "error", "bits"),
    # the error: root of the mean square, over that of the values
    [
        ("raw", 0, 32),
        ("lossless", 0, 25.5),
        ("bfloat16", 0.002, 10),
        ("float16", 0.0003, 12),
        ("block8", 0.005, 7.6),
        ("block4", 0.08, 4.1),
        ("qsgd", 0.008, 7.6),
        ("natural", 0.3, 3.6),
    ],
)
def test_errors_and_sizes(name: str, error: float, bits: float) -> None:
    values = largest_of_normal(10000)
    payload = value_codecs.BY_NAME[name].encode(values, 1)
    back = value_codecs.BY_NAME[name].decode(memoryview(payload), values.size)
    assert back.dtype == np.float32
    assert np.linalg.norm(back - values) <= error * np.linalg.norm(values)
    assert 8 * len(payload) / values.size <= bits


@pytest.mark.parametrize("codec", CODECS, ids=named)
@pytest.mark.parametrize(
    "values",
    [
        [],
        [0.0],
        [-0.0, 0.0],
        [1.0],
        [-1.0],
        [3.4028235e38, -3.4028235e38],
        [1e-45, -1e-45],
        [1.0] * 40,
        [-2.0] * 100,
        [1.0, -1.0] * 50,
        [1e30, 1e-30, -1e-38] * 20,
    ],
    ids=len,
)
def test_odd_values_come_back_finite_and_near_the_largest(codec: ValueCodec, values: list[float]) -> None:
    sent = np.array(values, np.float32)
    back = there_and_back(codec, sent)
    assert back.shape == sent.shape
    off = np.abs(back.astype(np.float64) - sent)
    # natural may double; the others are within half a step of block4
    allowed = 1.0 if codec.name == "natural" else 1 / 13
    assert off.max(initial=0) <= allowed * np.abs(sent).max(initial=0)


@pytest.mark.parametrize("name", ["qsgd", "natural"])
def test_chance_is_the_seed_s(name: str) -> None:
    values = largest_of_normal(1000)
    codec = value_codecs.BY_NAME[name]
    assert codec.encode(values, 1) == codec.encode(values, 1) != codec.encode(values, 2)


def test_an_unknown_name_or_number_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="block8"):
        value_codecs.chosen("cubic")
    with pytest.raises(UnknownCodec):
        value_codecs.by_number(99)


@pytest.mark.parametrize("codec", CODECS, ids=named)
@settings(deadline=None, max_examples=100)
@given(data=st.data())
def test_hostile_payloads_are_bounded(codec: ValueCodec, data: st.DataObject) -> None:
    count = data.draw(st.sampled_from([0, 1, 7, 500]))
    payload = bytearray(data.draw(st.binary(max_size=80)))
    if data.draw(st.booleans()):
        payload = bytearray(codec.encode(largest_of_normal(count), 0))
        for _ in range(data.draw(st.integers(1, 3))):
            if payload:
                payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    try:
        with peak_below((1 << 18) + 64 * count + 8 * len(payload)):
            found = codec.decode(memoryview(bytes(payload)), count)
    except AssertionError:
        raise
    except Exception:
        return
    assert found.dtype == np.float32
    assert found.size == count or codec.name == "raw"  # whose count coding.py checks

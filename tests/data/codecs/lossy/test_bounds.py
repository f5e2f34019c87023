"""Each lossy codec keeps what it promises, for every float there is; and it is small."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from duetlink.data.codecs import chunk
from duetlink.data.codecs.base import Array, Codec
from duetlink.data.codecs.element import BY_NAME, Element
from duetlink.data.codecs.lossy.blocks import Block4, Block8
from duetlink.data.codecs.lossy.narrow import Bfloat16, Float16
from duetlink.data.codecs.lossy.natural import Natural
from duetlink.data.codecs.lossy.qsgd import Qsgd
from duetlink.testing.codecs import from_bits

FLOAT32 = BY_NAME["float32"]
CODECS = {codec.name: codec for codec in (Float16(), Bfloat16(), Block8(), Block4(), Qsgd(), Natural())}
BLOCKS = {"float16": 4096, "bfloat16": 4096, "block8": 256, "block4": 64, "qsgd": 512, "natural": 1}
FLOATS = [BY_NAME[name] for name in ("float16", "float32", "float64", "bfloat16")]
PAIRS = [(codec, element) for codec in CODECS.values() for element in FLOATS if codec.accepts(element)]


def values_of(array: Array, element: Element) -> NDArray[np.longdouble]:
    """In a format where differences of float32 are exact, and none of float64 overflows."""
    if element.name == "bfloat16":
        array = (array.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return array.astype(np.longdouble)


def assert_kept(codec: Codec, level: int, array: Array, element: Element) -> None:
    """The bound block by block; infinities as they were, NaNs as NaNs."""
    back, _ = chunk.decode(chunk.encode(array, codec, level, element), codecs=lambda number: codec)
    x, y = values_of(array.reshape(-1), element), values_of(back.reshape(-1), element)
    finite = np.isfinite(x)
    assert np.array_equal(x[~finite], y[~finite], equal_nan=True)
    bound = codec.bound(element, level)
    block = BLOCKS[codec.name]
    for start in range(0, len(x), block):
        inside = slice(start, start + block)
        here, there = x[inside][finite[inside]], y[inside][finite[inside]]
        largest = np.abs(here).max(initial=0)
        excess = np.abs(there - here) - (bound.relative * np.abs(here) + bound.block * largest)
        assert (excess <= 0).all(), (codec.name, level, start, here[excess > 0][:3], there[excess > 0][:3])


def ranges(element: Element) -> st.SearchStrategy[Array]:
    """Numbers of every size, near each other and far apart, whole blocks of them."""
    width = 8 * element.size_bytes

    def array(drawn: tuple[int, int, int, bytes]) -> Array:
        seed, low, high, bits = drawn
        random = np.random.default_rng(seed)
        low, high = sorted((low % (1 << element.exponent_bits), high % (1 << element.exponent_bits)))
        exponents = random.integers(low, high + 1, 700).astype(np.uint64)
        words = (
            random.integers(0, 1 << width, 700, np.uint64, endpoint=False)
            if width < 64
            else (random.integers(0, 1 << 63, 700, np.uint64) * np.uint64(2))
        )
        rest = np.uint64((1 << width - 1) | (1 << element.mantissa_bits) - 1)
        words = (words & rest) | exponents << np.uint64(element.mantissa_bits)
        few = from_bits(bits, element)
        return np.concatenate([words.astype(f"<u{element.size_bytes}").view(element.storage), few])

    whole = st.integers(0, 1 << 11)
    return st.tuples(st.integers(0, 1 << 32), whole, whole, st.binary(max_size=64)).map(array)


@pytest.mark.parametrize(("codec", "element"), PAIRS, ids=lambda item: item.name)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_every_float_stays_within_the_bound(codec: Codec, element: Element, data: st.DataObject) -> None:
    level = data.draw(st.sampled_from(codec.levels))
    assert_kept(codec, level, data.draw(ranges(element)), element)


@pytest.mark.parametrize(("codec", "element"), PAIRS, ids=lambda item: item.name)
def test_the_ends_of_a_format_stay_within_the_bound(codec: Codec, element: Element) -> None:
    infinity = ((1 << element.exponent_bits) - 1) << element.mantissa_bits
    one_half = (1 << element.exponent_bits - 1) - 2 << element.mantissa_bits
    ends = [0, 1, 2, 3, 126, 127, 128, (1 << element.mantissa_bits) - 1, 1 << element.mantissa_bits]
    ends += [infinity - 1, infinity - 2, infinity, infinity + 1, one_half]
    for first in ends:
        for second in ends:
            words = np.array([first, second, first] * 100, f"<u{element.size_bytes}")
            words[1::2] |= words.dtype.type(1 << 8 * element.size_bytes - 1)
            assert_kept(codec, codec.level, words.view(element.storage), element)


@pytest.mark.parametrize("codec", CODECS.values(), ids=lambda codec: codec.name)
@pytest.mark.parametrize("value", [0.0, -0.0, 1e-45, -1e-38, 0.02, 65504.0, 65536.0, 3.4e38, np.inf, np.nan])
def test_constant_arrays_stay_within_the_bound(codec: Codec, value: float) -> None:
    assert_kept(codec, codec.level, np.full(1000, value, np.float32), FLOAT32)


def test_what_float16_cannot_hold_is_scaled_into_it() -> None:
    array = np.zeros(8192, np.float32)
    array[:3] = 1e6, 1e-2, -1.0
    array[4096:4098] = 3e-8, -1e-30
    back, _ = chunk.decode(chunk.encode(array, Float16()), codecs=lambda number: Float16())
    assert back[:3].tolist() == pytest.approx([1e6, 1e-2, -1.0], rel=2**-11)
    assert back[4096:4098].tolist() == [pytest.approx(3e-8, rel=2**-11), 0]


@pytest.mark.parametrize(("codec", "block"), [(Block8(), 256), (Block4(), 64), (Qsgd(), 512)])
def test_a_block_with_an_infinity_or_a_nan_is_kept_as_it_is(codec: Codec, block: int) -> None:
    array = np.random.default_rng(0).standard_normal(3 * block).astype(np.float32)
    array[[block, 2 * block - 1]] = np.inf, np.nan
    back = codec.decode(memoryview(codec.encode(array, FLOAT32, 0)), FLOAT32, array.shape)
    assert back[block : 2 * block].tobytes() == array[block : 2 * block].tobytes()
    assert (back[:block] != array[:block]).any()


def test_natural_keeps_what_has_no_next_power_of_two() -> None:
    bits = np.array([0x7F000001, 0x7F7FFFFF, 0x7F800000, 0x7FC00123, 0xFF812345, 1, 0x807FFFFF], np.uint32)
    array = bits.view(np.float32)
    back = Natural().decode(memoryview(Natural().encode(array, FLOAT32, 0)), FLOAT32, array.shape)
    assert back.view(np.uint32).tolist() == bits.tolist()


def test_natural_gives_powers_of_two_and_keeps_those_there_are() -> None:
    array = np.array([3.0, -3.0, 5.0, 0.3, 0.0, -0.0, 1.0, 0.25, -64.0], np.float32)
    back = Natural().decode(memoryview(Natural().encode(array, FLOAT32, 0)), FLOAT32, array.shape)
    assert (np.frexp(back[:4])[0] == [0.5, -0.5, 0.5, 0.5]).all()
    assert back[4:].view(np.uint32).tolist() == array[4:].view(np.uint32).tolist()


@pytest.mark.parametrize(("codec", "level"), [(Qsgd(), 0), (Qsgd(), 6), (Natural(), 0)])
def test_the_mean_of_stochastic_codecs_is_the_number(codec: Codec, level: int) -> None:
    array = np.tile(np.array([1.0, 0.3, -0.7, 0.011, -0.001, 0.75, 0.0, -1.0], np.float32), 1 << 14)
    back = codec.decode(memoryview(codec.encode(array, FLOAT32, level)), FLOAT32, array.shape)
    mean = back.reshape(-1, 8).mean(axis=0, dtype=np.float64)
    # the standard error of 2^14 draws whose spread is at most 1/2 a step; five of them
    step = 1 / codec.steps(level) if isinstance(codec, Qsgd) else np.abs(array[:8])
    assert (np.abs(mean - array[:8]) <= 5 * step / 2 / np.sqrt(1 << 14) + 1e-9).all()


def test_stochastic_codecs_draw_anew_for_every_array() -> None:
    array = np.random.default_rng(1).standard_normal(1000).astype(np.float32)
    for codec in (Qsgd(), Natural()):
        assert codec.encode(array, FLOAT32, 0) != codec.encode(array, FLOAT32, 0)
        first, second = (codec.encode_by(np.random.Philox(5), array, FLOAT32, 0) for _ in range(2))
        assert first == second


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("float16", 0.45),
        ("bfloat16", 0.36),
        ("block8", 0.27),
        ("block4", 0.15),
        ("qsgd", 0.27),
        ("natural", 0.13),
    ],
)
@pytest.mark.parametrize("kind", ["normal", "heavy"])
def test_payloads_are_small(name: str, part: float, kind: str) -> None:
    random = np.random.default_rng(2)
    array = random.standard_normal(1 << 16) if kind == "normal" else random.standard_t(3, 1 << 16)
    payload = CODECS[name].encode(array.astype(np.float32), FLOAT32, CODECS[name].level)
    assert len(payload) / (4 << 16) <= part


def test_noise_grows_no_larger_than_said() -> None:
    """Where nothing can be entropy-coded: a byte an item, and a step each 256."""
    array = np.random.default_rng(3).uniform(-1, 1, 1 << 16).astype(np.float32)
    assert len(Block8().encode(array, FLOAT32, 0)) <= 0.27 * array.nbytes
    assert len(Block4().encode(array, FLOAT32, 0)) <= 0.15 * array.nbytes

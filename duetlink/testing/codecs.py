"""The contract test of a codec: subclass `CodecContract` and say which codec.

A codec of another package, whole:

    import numpy as np

    from duetlink.codecs.base import BYTES, Codec
    from duetlink.testing.codecs import CodecContract


    class Inverted(Codec):
        number, name, kind = 0x8001, "inverted", BYTES

        def encode(self, array, element, level):
            return (~array.reshape(-1).view(np.uint8)).tobytes()

        def decode(self, payload, element, shape):
            return (~np.frombuffer(payload, np.uint8)).view(element.storage).reshape(shape)


    class TestInverted(CodecContract):
        codec = Inverted()

It is used after `duetlink.codecs.register(Inverted())`, or with a line in its package's metadata:

    [project.entry-points."duetlink.codecs"]
    inverted = "the_package:Inverted"
"""

from __future__ import annotations

import contextlib
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from duetlink.data.codecs import chunk
from duetlink.data.codecs.base import Array, Codec
from duetlink.data.codecs.element import BY_NAME, ELEMENTS, Element
from duetlink.errors import LimitExceeded, LocalProtocolError, MalformedChunk, UnknownCodec

REFUSALS = (MalformedChunk, LimitExceeded, UnknownCodec)
SHAPES = ((), (0,), (1,), (7,), (2, 0, 3), (3, 5), (2, 3, 4), (1031,))
SAMPLE_ITEMS = 1031  # odd, and beyond the blocks of most codecs


def bits(array: Array) -> bytes:
    """Return the bytes of an array. Lossless means equal bits: NaNs and negative zeros count."""
    return array.tobytes()


def from_bits(data: bytes, element: Element) -> Array:
    """Return an array with as many items as `data` has bytes for."""
    items = len(data) // element.size_bytes
    found = np.frombuffer(data[: items * element.size_bytes], element.storage)
    return (found.view(np.uint8) & 1).view(np.bool_) if element.name == "bool" else found


def samples(element: Element) -> dict[str, Array]:
    """Return arrays of SAMPLE_ITEMS items by name. Names are for messages; all bit patterns of an
    item may occur.
    """
    random = np.random.default_rng(5)
    noise = from_bits(random.bytes(SAMPLE_ITEMS * element.size_bytes), element)
    few = np.where(random.random(SAMPLE_ITEMS) < 0.05, noise, np.zeros_like(noise))
    found = {
        "noise": noise,
        "zeros": np.zeros_like(noise),
        "ones": from_bits(b"\xff" * noise.nbytes, element),
        "constant": np.repeat(noise[:1], SAMPLE_ITEMS),
        "few": few.astype(element.storage),
        "special": np.resize(special(element), SAMPLE_ITEMS),
    }
    if element.name not in ("bool", "bfloat16") and not element.name.startswith("float8"):
        ramp = np.arange(SAMPLE_ITEMS) % 120
        found |= {"ramp": ramp.astype(element.storage), "decimals": (ramp / 8).astype(element.storage)}
    if element.storage.kind in "fc":
        found["normal"] = random.normal(0, 0.02, SAMPLE_ITEMS).astype(element.storage)
    return found


def special(element: Element) -> Array:
    """Return extreme items: for floats of both signs zeros, infinities, NaNs with payloads and subnormal
    numbers; for integers the least and the greatest.
    """
    if not element.is_float and element.storage.kind != "c":
        return from_bits(b"\x00" * 8 * 8 + b"\xff" * 8 * 8 + b"\x80\x00\x7f\xff\x01\x00\x00\x00" * 8, element)
    parts = {"complex64": "float32", "complex128": "float64"}
    real = BY_NAME[parts.get(element.name, element.name)]
    width, mantissa = 8 * real.size_bytes, real.mantissa_bits
    infinity = ((1 << real.exponent_bits) - 1) << mantissa
    positive = (
        0,
        1,
        (1 << mantissa) - 1,
        1 << mantissa,
        infinity - 1,
        infinity,
        infinity + 1,
        (1 << width - 1) - 1,
    )
    both = [value | sign for sign in (0, 1 << (width - 1)) for value in positive]
    return np.array(both, f"<u{real.size_bytes}").view(element.storage)


def finite(element: Element) -> dict[str, Array]:
    """Return arrays of finite numbers by name, for codecs that promise an error bound."""
    random = np.random.default_rng(6)
    normal = random.normal(0, 1, SAMPLE_ITEMS)
    heavy = random.standard_t(2, SAMPLE_ITEMS) * 1e-3
    values = {"normal": normal, "heavy": heavy, "zeros": normal * 0, "ramp": np.arange(SAMPLE_ITEMS) / 8.0}
    return {name: _as(array, element) for name, array in values.items()}


def _as(values: Array, element: Element) -> Array:
    if element.name == "bfloat16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(element.storage)


def _value(array: Array, element: Element) -> NDArray[Any]:
    if element.name == "bfloat16":
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.complex128 if element.storage.kind == "c" else np.float64)


class CodecContract:
    """Tests of one codec, encoding one array at a time."""

    codec: ClassVar[Codec]
    small_items: ClassVar[int] = 24  # the length of the array whose chunk is corrupted bit by bit

    def elements(self) -> list[Element]:
        return [element for element in ELEMENTS if self.codec.accepts(element)]

    def numbers(self) -> list[Element]:
        """Return the accepted elements for which an error bound has a meaning and that NumPy can
        compute with.
        """
        return [
            element
            for element in self.elements()
            if element.name == "bfloat16" or element.storage.kind in "fc"
        ]

    def small(self) -> bytes:
        """Return a chunk of few bytes that are not all zero."""
        element = self.elements()[0]
        return chunk.encode(samples(element)["few"][: self.small_items], self.codec, element=element)

    def decode(self, data: bytes, limit_bytes: int = chunk.MAX_BYTES) -> tuple[Array, chunk.Header]:
        """Decode a chunk as a peer does. The codec need not be registered."""
        return chunk.decode(data, limit_bytes, codecs=self._by_number)

    def _by_number(self, number: int) -> Codec:
        if number != self.codec.number:
            raise UnknownCodec(f"codec {number}")
        return self.codec

    def reframe(self, payload: bytes, element: Element, shape: tuple[int, ...]) -> bytes:
        """Return a chunk of any payload, with a valid header and checksum."""
        return chunk.frame(self.codec, element, shape, self.codec.bound(element, self.codec.level), payload)

    def hostile(self, payload: bytes, element: Element, shape: tuple[int, ...]) -> None:
        """Assert that a payload that may be forged is refused, or decodes to the announced dtype and
        shape.
        """
        try:
            array, _ = self.decode(self.reframe(payload, element, shape))
        except REFUSALS:
            return
        assert (array.dtype, array.shape) == (element.storage, shape)

    # -- identity ------------------------------------------------------------------------------------------

    def test_it_says_what_it_is(self) -> None:
        assert 0 <= self.codec.number < 1 << 16
        assert self.codec.name == self.codec.name.lower()
        assert self.codec.name.isidentifier()
        assert self.codec.level in self.codec.levels
        assert self.elements()

    def test_items_that_it_does_not_accept_are_refused(self) -> None:
        for element in ELEMENTS:
            if not self.codec.accepts(element):
                with pytest.raises(LocalProtocolError, match=element.name):
                    chunk.encode(np.zeros(3, element.storage), self.codec, element=element)

    def test_a_level_that_it_does_not_have_is_refused(self) -> None:
        for level in (self.codec.levels.start - 1, self.codec.levels.stop):
            with pytest.raises(LocalProtocolError, match="levels"):
                chunk.encode(np.zeros(3, self.elements()[0].storage), self.codec, level, self.elements()[0])

    # -- round trips ---------------------------------------------------------------------------------------

    def test_every_array_comes_back_bit_for_bit(self) -> None:
        if not self.codec.lossless:
            return
        for element in self.elements():
            for name, array in samples(element).items():
                back, header = self.decode(chunk.encode(array, self.codec, element=element))
                assert bits(back) == bits(array), (element.name, name)
                assert (header.element, header.bound.lossless) == (element, True)

    def test_any_bits_come_back(self) -> None:
        @settings(deadline=None, max_examples=60)
        @given(element=st.sampled_from(self.elements()), data=st.binary(max_size=200))
        def check(element: Element, data: bytes) -> None:
            array = from_bits(data, element)
            back, _ = self.decode(chunk.encode(array, self.codec, element=element))
            assert (back.dtype, back.shape) == (array.dtype, array.shape)
            assert bits(back) == bits(array) or not self.codec.lossless

        check()

    def test_values_stay_within_the_bound(self) -> None:
        for element in self.numbers():
            for level in {self.codec.level, self.codec.levels[0], self.codec.levels[-1]}:
                bound = self.codec.bound(element, level)
                for name, array in finite(element).items():
                    back, header = self.decode(chunk.encode(array, self.codec, level, element))
                    assert header.bound == bound
                    if bound.relative == np.inf or bound.block == np.inf:
                        continue
                    x, y = _value(array, element), _value(back, element)
                    allowed = bound.relative * np.abs(x) + bound.block * np.abs(x).max(initial=0)
                    assert (np.abs(y - x) <= allowed).all(), (element.name, level, name)

    def test_every_shape_comes_back(self) -> None:
        for element in self.elements():
            array = samples(element)["few"]
            for shape in SHAPES:
                sent = np.resize(array, shape)
                back, header = self.decode(chunk.encode(sent, self.codec, element=element))
                assert back.shape == header.shape == shape
                assert back.dtype == element.storage
                if self.codec.lossless:
                    assert bits(back) == bits(sent), (element.name, shape)

    def test_every_level_makes_what_decodes(self) -> None:
        element = self.elements()[0]
        array = samples(element)["few"]
        for level in self.codec.levels:
            back, header = self.decode(chunk.encode(array, self.codec, level, element))
            assert header.bound == self.codec.bound(element, level)
            if self.codec.lossless:
                assert bits(back) == bits(array), level

    def test_the_input_is_left_as_it_is_and_may_be_read_only_or_strided(self) -> None:
        for element in self.elements():
            whole = np.resize(samples(element)["few"], (40, 20))
            whole.flags.writeable = False
            before = bits(whole)
            for array in (whole, whole[::3, 1::2], whole[::-1], whole.T):
                back, _ = self.decode(chunk.encode(array, self.codec, element=element))
                assert back.shape == array.shape
                if self.codec.lossless:
                    assert bits(back) == bits(array), element.name
            assert bits(whole) == before

    def test_threads_share_one_instance(self) -> None:
        element = self.elements()[-1]
        arrays = [np.roll(samples(element)["few"], 37 * index) for index in range(4)] * 8

        def there_and_back(array: Array) -> Array:
            return self.decode(chunk.encode(array, self.codec, element=element))[0]

        alone = [there_and_back(array) for array in arrays[:4]] * 8
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(there_and_back, arrays))
        if self.codec.lossless:
            assert [bits(array) for array in together] == [bits(array) for array in alone]
        assert [array.shape for array in together] == [array.shape for array in arrays]

    # -- corrupted and hostile chunks ----------------------------------------------------------------------

    def test_every_prefix_is_refused(self) -> None:
        data = self.small()
        for size in range(len(data)):
            with pytest.raises(REFUSALS):
                self.decode(data[:size])

    def test_more_than_the_chunk_is_refused(self) -> None:
        with pytest.raises(MalformedChunk):
            self.decode(self.small() + b"\0")

    def test_every_flipped_bit_is_refused(self) -> None:
        data = self.small()
        for position in range(8 * len(data)):
            broken = bytearray(data)
            broken[position // 8] ^= 1 << position % 8
            with pytest.raises(REFUSALS):
                self.decode(bytes(broken))

    def test_a_flipped_bit_or_a_cut_under_a_right_checksum_is_bounded(self) -> None:
        for element in self.elements():
            array = samples(element)["few"][: 4 * self.small_items]
            payload = bytes(self.codec.encode(array, element, self.codec.level))
            for position in range(0, 8 * len(payload), max(1, len(payload) // 16)):
                broken = bytearray(payload)
                broken[position // 8] ^= 1 << position % 8
                self.hostile(bytes(broken), element, array.shape)
                self.hostile(payload[: position // 8], element, array.shape)

    def test_any_payload_is_bounded(self) -> None:
        @settings(deadline=None, max_examples=150)
        @given(
            element=st.sampled_from(self.elements()),
            shape=st.sampled_from([(), (0,), (1,), (5, 7), (1000,)]),
            genuine_bytes=st.integers(0, 40),  # how much of the codec's own payload comes first
            rest=st.binary(max_size=120),
        )
        def check(element: Element, shape: tuple[int, ...], genuine_bytes: int, rest: bytes) -> None:
            array = np.resize(samples(element)["few"], shape)
            payload = bytes(self.codec.encode(array, element, self.codec.level))
            self.hostile(payload[:genuine_bytes] + rest, element, shape)

        check()

    def test_a_payload_for_another_size_is_bounded(self) -> None:
        for element in self.elements():
            array = samples(element)["noise"]
            payload = bytes(self.codec.encode(array, element, self.codec.level))
            for items in (0, 1, array.size - 1, array.size + 1, 10 * array.size):
                self.hostile(payload, element, (items,))

    def test_a_size_above_the_limit_is_refused_before_anything_is_allocated(self) -> None:
        for element in self.elements():
            huge = self.reframe(b"\0" * 32, element, (1 << 20, 1 << 12))
            with peak_below(1 << 18), pytest.raises(LimitExceeded):
                self.decode(huge, limit_bytes=1 << 30)

    def test_a_hostile_payload_takes_no_more_memory_than_it_declares(self) -> None:
        random = np.random.default_rng(8)
        for element in self.elements():
            array = samples(element)["few"]
            payload = bytes(self.codec.encode(array, element, self.codec.level))
            for _ in range(12):
                broken = bytearray(payload)
                for position in random.integers(0, len(payload), 4):
                    broken[position] = random.integers(256)
                # 256 KiB for what any call allocates, and a few times the array
                with peak_below((1 << 18) + 8 * array.nbytes):
                    self.hostile(bytes(broken), element, array.shape)


@contextlib.contextmanager
def peak_below(peak_bytes: int) -> Iterator[None]:
    """Assert that Python and NumPy never have more than `peak_bytes` allocated within the block."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= peak_bytes

"""Arrays that their sender allowed to change: what changes, by how much, and what stays exact."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from duetlink.data.codecs import chunk, named
from duetlink.data.codecs.base import BYTES, TENSOR, Array, Bound, Codec
from duetlink.data.codecs.element import Element
from duetlink.data.values import DecodeBudget, decode, encode, summarise
from duetlink.data.values.lossy import LossyCodec, lossy
from duetlink.errors import LimitExceeded, MalformedValue, SettingError, UnknownCodec
from duetlink.testing.faults import use_codec
from duetlink.testing.values import joined


class Halves(Codec):
    """Keeps the upper half of each item's bytes: cruder than any real codec, and plain to check."""

    number: ClassVar[int] = 0x8003
    name: ClassVar[str] = "halves"
    kind: ClassVar[str] = TENSOR

    @property
    def lossless(self) -> bool:
        return False

    def accepts(self, element: Element) -> bool:
        return element.name in ("float32", "float64")

    def bound(self, element: Element, level: int) -> Bound:
        return Bound(relative=2**-7)

    def encode(self, array: Array, element: Element, level: int) -> bytes:
        return array.reshape(-1).view(f"<u{element.size_bytes // 2}")[1::2].tobytes()

    def decode(self, payload: memoryview, element: Element, shape: tuple[int, ...]) -> Array:
        upper = np.frombuffer(payload, f"<u{element.size_bytes // 2}")
        whole = np.zeros(2 * len(upper), upper.dtype)
        whole[1::2] = upper
        return whole.view(element.storage).reshape(shape)


@pytest.fixture(autouse=True)
def _halves(monkeypatch: pytest.MonkeyPatch) -> None:

    use_codec(monkeypatch, Halves())


MARK = LossyCodec(Halves())


def near(left: Any, right: Any) -> bool:
    return bool(np.all(np.abs(left - right) <= 2**-7 * np.abs(right)))


def test_floats_change_within_the_bound_and_the_rest_is_exact() -> None:
    value: dict[str, Any] = {
        "weights": np.linspace(-1, 1, 999).reshape(27, 37),
        "counts": np.arange(1000),
        "few": np.linspace(0, 1, 10),
        "text": "as it is",
    }
    encoded = encode(value, MARK)
    arrived: Any = decode(joined(encoded))
    assert near(arrived["weights"], value["weights"])
    assert not np.array_equal(arrived["weights"], value["weights"])
    assert arrived["weights"].shape == (27, 37)
    assert arrived["weights"].flags.writeable
    assert np.array_equal(arrived["counts"], value["counts"])
    assert np.array_equal(arrived["few"], value["few"])
    assert arrived["text"] == "as it is"
    assert encoded.lossy == "halves: each item within 0.0078 of its value"
    assert encoded.size_bytes < summarise(value).size_bytes


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_order_in_memory_is_kept(order: Any) -> None:
    array = np.asarray(np.linspace(0, 1, 600).reshape(20, 30), order=order)
    arrived: Any = decode(joined(encode(array, MARK)))
    assert near(arrived, array)
    assert arrived.flags.f_contiguous == array.flags.f_contiguous


def test_tensors_of_torch_change_as_well() -> None:
    tensor = torch.linspace(0, 1, 4 * 3 * 8 * 8).reshape(4, 3, 8, 8).to(memory_format=torch.channels_last)
    parameter = torch.nn.Parameter(torch.linspace(0, 1, 100))
    arrived: Any = decode(joined(encode([tensor, parameter], MARK)))
    assert torch.allclose(arrived[0], tensor, rtol=2**-7)
    assert arrived[0].is_contiguous(memory_format=torch.channels_last)
    assert isinstance(arrived[1], torch.nn.Parameter)
    arrived[0][0] = 1


def test_what_has_no_floats_is_not_called_lossy() -> None:
    assert encode(np.arange(1000), MARK).lossy == ""
    assert encode(np.linspace(0, 1, 1000)).lossy == ""


def test_a_mark_must_be_lossy_and_known() -> None:
    with pytest.raises(SettingError, match="changes nothing"):
        lossy("zstd", "x")
    with pytest.raises(UnknownCodec, match="no codec 'beauty'"):
        lossy("beauty", "x")
    with pytest.raises(SettingError, match="takes a codec's name"):
        lossy(3, "x")  # type: ignore[arg-type]
    assert lossy("halves", "x").words.startswith("halves: ")


def test_memory_beside_the_body_is_bounded() -> None:
    body = joined(encode([np.zeros(1000), np.zeros(1000)], MARK))
    with pytest.raises(LimitExceeded, match=r"8,000 bytes in .*; 7,999 are allowed"):
        decode(body, room=DecodeBudget(15_999))
    room = DecodeBudget(16_000)
    decode(body, room=room)
    assert room.left_bytes == 0


def test_a_chunk_of_another_size_is_refused() -> None:
    body = bytearray(joined(encode(np.zeros(1000), MARK)))
    other = chunk.encode(np.zeros(999), Halves())
    mine = chunk.encode(np.zeros(1000), Halves())
    start = bytes(body).index(mine[:4])
    assert len(other) < len(mine)
    body[start : start + len(other)] = other
    with pytest.raises(MalformedValue):
        decode(body)


@given(st.integers(0, 20_000), st.integers(0, 255))
def test_flipped_bytes_of_a_lossy_value_are_refused(position: int, byte: int) -> None:
    original = joined(encode(np.linspace(0, 1, 1000), MARK))
    body = bytearray(original)
    position %= len(body)
    body[position] = byte
    try:
        arrived: Any = decode(body)
    except (MalformedValue, LimitExceeded):
        return
    assert body == original or isinstance(arrived, np.ndarray)


def test_lossless_codecs_stay_out_of_it() -> None:
    assert named("zstd").kind == BYTES
    assert named("zstd").lossless

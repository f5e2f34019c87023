"""The contract test of a value type: subclass `ValueContract`, supply samples and define equality."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import pytest

from duetlink.data.values import Encoded, decode, encode, summarise
from duetlink.errors import LimitExceeded, MalformedValue, MissingLibrary

REFUSALS = (MalformedValue, LimitExceeded, MissingLibrary)


def joined(encoded: Encoded) -> bytearray:
    """Return the bytes that the peer receives."""
    return bytearray(b"".join(encoded.segments))


def round_trip(obj: Any) -> Any:
    """Return the object that the peer decodes."""
    return decode(joined(encode(obj)))


class ValueContract(ABC):
    """Tests of one library's objects. Use small samples: every prefix of each is decoded."""

    @abstractmethod
    def samples(self) -> Mapping[str, Any]:
        """Return new objects by name, at least one of each type that the value type handles. Names
        are for messages.
        """

    @abstractmethod
    def equal(self, left: Any, right: Any) -> bool:
        """Compare two objects as a user would, including dtypes and metadata."""

    def test_samples_come_back_equal_and_of_the_same_type(self) -> None:
        for name, obj in self.samples().items():
            received = round_trip(obj)
            assert type(received) is type(obj), name
            assert self.equal(received, obj), name

    def test_samples_come_back_from_read_only_bytes(self) -> None:
        for name, obj in self.samples().items():
            assert self.equal(decode(memoryview(bytes(joined(encode(obj))))), obj), name

    def test_samples_come_back_from_within_other_values(self) -> None:
        for name, obj in self.samples().items():
            received = round_trip({"first": [obj], "second": (obj, 1)})
            assert self.equal(received["first"][0], obj), name
            assert self.equal(received["second"][0], obj), name

    def test_segments_are_read_only_bytes_of_the_announced_size(self) -> None:
        for name, obj in self.samples().items():
            encoded = encode(obj)
            assert sum(len(segment) for segment in encoded.segments) == encoded.size_bytes, name
            for segment in encoded.segments:
                assert (segment.format, segment.ndim) == ("B", 1), name
                assert segment.readonly, name
                assert segment.c_contiguous, name

    def test_a_summary_is_that_of_the_encoded_value(self) -> None:
        for name, obj in self.samples().items():
            assert summarise(obj) == encode(obj).summary, name
            assert summarise(obj).size_bytes == encode(obj).size_bytes, name

    def test_every_prefix_is_refused(self) -> None:
        for obj in self.samples().values():
            body = joined(encode(obj))
            for size in range(0, len(body), max(1, len(body) // 300)):
                with pytest.raises(REFUSALS):
                    decode(body[:size])

"""The acknowledgement: which packets have arrived, how complete the stream is, how much more may be sent.

    0-7    largest packet number that has arrived
    8-15   packet number of the first bit below
    16-23  position up to which the stream is complete
    24-31  position that the sender must not pass
    32-35  microseconds since the largest packet number arrived
    36-    one bit per packet number from the first to the largest, most significant first: 1 if it has
        arrived

A bitmap costs a receiver that works in batches two NumPy calls, where ranges (RFC 9000 §19.3) would cost a
loop. It begins at the sender's floor, so it is no longer than what is in flight. A base below the sender's
current floor is no error: packet numbers are never reused, so the meaning of each bit stays the same.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

_FIXED = struct.Struct(">QQQQI")
# So many bits fit the smallest datagram. A sender keeps its packet numbers in flight within this span.
MAX_SPAN_PACKETS = 8192
_MAX_POSITION = 1 << 63
_MAX_DELAY_US = 0xFFFFFFFF


@dataclass(slots=True)
class Acknowledgement:
    largest: int
    received: NDArray[np.bool_]  # one per packet number; the last one is `largest`
    complete: int
    limit: int
    delay_s: float

    @property
    def base(self) -> int:
        return self.largest + 1 - len(self.received)

    def to_wire(self) -> bytes:
        delay_us = min(int(self.delay_s * 1e6), _MAX_DELAY_US)
        fixed = _FIXED.pack(self.largest, self.base, self.complete, self.limit, delay_us)
        return fixed + np.packbits(self.received).tobytes()

    @classmethod
    def from_wire(cls, payload: bytes) -> Self | None:
        """Parse an acknowledgement; None if it is malformed."""
        if len(payload) < _FIXED.size:
            return None
        largest, base, complete, limit, delay_us = _FIXED.unpack_from(payload)
        span = largest + 1 - base
        if max(largest, complete, limit) >= _MAX_POSITION or not 0 < span <= MAX_SPAN_PACKETS:
            return None
        if len(payload) != _FIXED.size + (span + 7) // 8:
            return None
        bits = np.unpackbits(np.frombuffer(payload, np.uint8, offset=_FIXED.size), count=span)
        return cls(largest, bits.view(np.bool_), complete, limit, delay_us / 1e6)

"""Acknowledgements: bytes and back, and that nothing else passes for one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetlink.net.tunnel.acknowledgement import MAX_SPAN_PACKETS, Acknowledgement

positions = st.integers(0, 2**63 - 1)


def test_wire_bytes() -> None:
    received = np.array([True, False, True, True, False, False, False, False, True])
    ack = Acknowledgement(largest=0x108, received=received, complete=5, limit=2**40, delay_s=0.0015)
    assert ack.to_wire().hex() == (
        "0000000000000108000000000000010000000000000000050000010000000000000005dcb080"
    )


@given(
    st.lists(st.booleans(), min_size=1, max_size=300),
    positions,
    positions,
    st.integers(0, 2**40),
    st.floats(0, 9),
)
def test_round_trip(received: list[bool], complete: int, limit: int, base: int, delay_s: float) -> None:
    largest = base + len(received) - 1
    wire = Acknowledgement(largest, np.array(received), complete, limit, delay_s).to_wire()
    ack = Acknowledgement.from_wire(wire)
    assert ack is not None
    assert (ack.largest, ack.base, ack.complete, ack.limit) == (largest, base, complete, limit)
    assert ack.received.tolist() == received
    assert ack.delay_s == pytest.approx(delay_s, abs=1e-6)


def test_the_longest_fits_the_smallest_datagram() -> None:
    received = np.ones(MAX_SPAN_PACKETS, np.bool_)
    assert len(Acknowledgement(10**6, received, 0, 0, 0.0).to_wire()) <= 1200 - 32


@given(st.binary(max_size=80))
def test_noise_is_none_or_makes_sense(payload: bytes) -> None:
    ack = Acknowledgement.from_wire(payload)
    if ack is not None:
        assert 0 <= ack.base <= ack.largest < 2**63
        assert len(ack.received) == ack.largest + 1 - ack.base
        assert max(ack.complete, ack.limit) < 2**63


@pytest.mark.parametrize(
    ("largest", "base", "complete", "bits"),
    [
        (7, 0, 2**63, 1),  # a position with 64 bits
        (2**63 + 7, 2**63, 0, 1),
        (7, 8, 0, 0),  # no packet
        (7, 9, 0, 0),
        (20, 0, 0, 2),  # too few bits
        (7, 0, 0, 2),  # too many
        (MAX_SPAN_PACKETS, 0, 0, MAX_SPAN_PACKETS // 8 + 1),
    ],
)
def test_refused(largest: int, base: int, complete: int, bits: int) -> None:
    numbers = (largest, base, complete, 0)
    wire = b"".join(number.to_bytes(8) for number in numbers) + bytes(4) + b"\xff" * bits
    assert Acknowledgement.from_wire(wire) is None

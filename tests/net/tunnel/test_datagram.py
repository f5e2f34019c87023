"""Datagrams: layout, authentication, replays; and that nothing but the peer's, whole and new, is accepted."""

from __future__ import annotations

import hashlib
import random

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.errors import LocalProtocolError
from duetlink.net.tunnel.datagram import HEADER_BYTES, DatagramOpener, DatagramSealer
from duetlink.net.tunnel.datagram_port import Received
from duetlink.net.tunnel.replay import WINDOW_PACKETS, ReplayWindow

from .network import KEY, matrix

PLAIN, COVERED = 0xC0, 0xE0


def pair(key: bytes = KEY) -> tuple[DatagramSealer, DatagramOpener]:
    return DatagramSealer(key, initiator=True), DatagramOpener(key, initiator=False)


def received(rows: np.ndarray) -> Received:
    return Received(rows, np.full(len(rows), rows.shape[1]))


def accepted(opener: DatagramOpener, batch: Received) -> list[tuple[int, int, int, bytes]]:
    opened = opener.open(batch.rows, batch.sizes_bytes)
    return [
        (
            int(opened.kinds[row]),
            int(opened.packet_numbers[row]),
            int(opened.positions[row]),
            opened.payload(row),
        )
        for row in range(len(opened.kinds))
    ]


def test_wire_bytes() -> None:
    sealer = DatagramSealer(KEY, initiator=True)
    data = sealer.seal(
        PLAIN, np.frombuffer(b"onetwo", np.uint8).reshape(2, 3), np.array([2**40, 2**40 + 3]), floor=0
    )
    (covered,) = sealer.seal(COVERED, np.frombuffer(b"ping", np.uint8).reshape(1, 4), floor=1)
    assert [row.tobytes().hex() for row in data] == [
        "c067b59f00030000000000000000000000000100000000008c9df2c2803624d26f6e65",
        "c067b59f0003000100000000000000010000010000000003d4b89e1ac543e22874776f",
    ]
    assert covered.tobytes().hex() == (
        "e067b59f00040001000000000000000200000000000000009c5664a1459ae3bc70696e67"
    )


def test_the_tag_is_cbc_mac_as_the_textbook_has_it() -> None:
    derived = HKDF(SHA256(), 51, salt=None, info=b"duetlink/1 tunnel, from the responder").derive(KEY)
    sealer = DatagramSealer(KEY, initiator=False)
    for kind, payload in ((PLAIN, b"ciphertext"), (COVERED, b"acknowledgement")):
        (row,) = sealer.seal(kind, np.frombuffer(payload, np.uint8).reshape(1, -1), 12345, floor=0)
        datagram = row.tobytes()
        digest = hashlib.blake2b(payload, digest_size=8, key=derived[16:48]).digest()
        blocks = datagram[:24] + (digest if kind == COVERED else bytes(8))
        chain = Cipher(algorithms.AES(derived[:16]), modes.CBC(bytes(16))).encryptor().update(blocks)
        assert datagram[24:32] == chain[16:24]
        assert datagram[1:4] == derived[48:]


@given(
    st.lists(
        st.tuples(
            st.integers(0xC0, 0xFF), st.integers(1, 50), st.integers(0, 1500), st.integers(0, 2**63 - 10**6)
        ),
        max_size=5,
    ),
    st.integers(0, 8),
    st.booleans(),
)
@settings(max_examples=60)
def test_round_trip(batches: list[tuple[int, int, int, int]], headroom: int, initiator: bool) -> None:
    sealer = DatagramSealer(KEY, initiator=initiator, headroom_bytes=headroom)
    opener = DatagramOpener(KEY, initiator=not initiator)
    number = 0
    for kind, count, size, position in batches:
        payloads = np.random.default_rng(count).integers(0, 256, (count, size), np.uint8)
        rows = sealer.seal(kind, payloads, position + np.arange(count) * size, floor=max(0, number - 7))
        assert rows.shape == (count, headroom + HEADER_BYTES + size)
        assert accepted(opener, received(rows[:, headroom:])) == [
            (kind, number + row, position + row * size, payloads[row].tobytes()) for row in range(count)
        ]
        number += count
    assert not opener.dropped


def test_floors_are_told_relative_to_each_number() -> None:
    sealer, opener = pair()
    sealer.next_packet_number = 100_000
    for floor, expected in ((99_990, 99_990), (100_002, 100_002), (0, None)):
        rows = sealer.seal(PLAIN, np.zeros((3, 1), np.uint8), floor=floor)
        floors = opener.open(rows, np.full(3, 33)).floors
        if expected is None:  # no further back than the field can say
            assert floors.tolist() == [number - 65_535 for number in (100_006, 100_007, 100_008)]
        else:
            assert floors.tolist() == [expected] * 3


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_only_what_was_sent_is_accepted_and_once(data: st.DataObject) -> None:
    """Whatever a network does: each accepted datagram was sent like this, and none comes twice."""
    sealer, opener = pair()
    sent: dict[int, tuple[int, int, int, bytes]] = {}
    datagrams: list[bytes] = []
    for _ in range(data.draw(st.integers(1, 3))):
        count, size = data.draw(st.integers(1, 6)), data.draw(st.integers(0, 40))
        kind = data.draw(st.sampled_from([0xC0, 0xC1, 0xE0, 0xFF]))
        payloads = np.random.default_rng(len(sent)).integers(0, 256, (count, size), np.uint8)
        first = sealer.next_packet_number
        for row, datagram in enumerate(sealer.seal(kind, payloads, 77 + np.arange(count), floor=0)):
            datagrams.append(datagram.tobytes())
            sent[first + row] = (kind, first + row, 77 + row, payloads[row].tobytes())

    def harm(datagram: bytes) -> bytes:
        how = data.draw(st.sampled_from(["none", "none", "none", "flip", "cut", "extend", "random"]))
        if how == "flip":  # in what the tag covers
            end = len(datagram) if datagram[0] & 0x20 else HEADER_BYTES
            at = data.draw(st.integers(0, end * 8 - 1))
            changed = bytearray(datagram)
            changed[at // 8] ^= 1 << at % 8
            return bytes(changed)
        if how == "cut":
            return datagram[: data.draw(st.integers(0, len(datagram) - 1))]
        if how == "extend":
            return datagram + data.draw(st.binary(min_size=1, max_size=9))
        if how == "random":
            return data.draw(st.binary(min_size=1, max_size=90))
        return datagram

    arriving = [harm(data.draw(st.sampled_from(datagrams))) for _ in range(data.draw(st.integers(1, 25)))]
    got: list[tuple[int, int, int, bytes]] = []
    while arriving:
        count = data.draw(st.integers(1, len(arriving)))
        batch, arriving = arriving[:count], arriving[count:]
        got += accepted(opener, matrix([*batch, b""]))
    assert len({number for _, number, _, _ in got}) == len(got)
    for datagram in got:
        assert sent[datagram[1]] == datagram


def test_random_noise_is_dropped_and_counted() -> None:
    _, opener = pair()
    noise = np.random.default_rng(3)
    for _ in range(300):
        rows = noise.integers(0, 256, (noise.integers(1, 30), noise.integers(1, 1500)), np.uint8)
        sizes = noise.integers(0, rows.shape[1] + 1, len(rows))
        assert len(opener.open(rows, sizes).kinds) == 0
    assert sum(opener.dropped.values()) > 3000


@pytest.mark.parametrize(
    ("sealer", "reason"),
    [
        (DatagramSealer(bytes(32), initiator=True), "of another session"),
        (DatagramSealer(KEY, initiator=False), "of another session"),
    ],
    ids=["another key", "reflected"],
)
def test_the_wrong_sender_is_not_believed(sealer: DatagramSealer, reason: str) -> None:
    _, opener = pair()
    assert accepted(opener, received(sealer.seal(PLAIN, np.zeros((5, 100), np.uint8)))) == []
    assert opener.dropped == {reason: 5}


def test_the_right_session_id_alone_does_not_help() -> None:
    sealer, opener = pair()
    rows = sealer.seal(PLAIN, np.zeros((5, 100), np.uint8))
    rows[:, 15] = 9  # of the packet number
    assert accepted(opener, received(rows)) == []
    assert opener.dropped == {"not authentic": 5}


def test_a_covered_payload_may_not_be_changed_and_another_is_its_readers_business() -> None:
    sealer, opener = pair()
    for kind, count in ((PLAIN, 4), (COVERED, 3)):
        rows = sealer.seal(kind, np.zeros((4, 100), np.uint8))
        rows[2, 60] ^= 1
        assert len(accepted(opener, received(rows))) == count
    assert opener.dropped == {"not authentic": 1}


def test_numbers_and_positions_beyond_63_bits_are_refused() -> None:
    sealer, opener = pair()
    sealer.next_packet_number = 2**63 - 2
    rows = sealer.seal(PLAIN, np.zeros((1, 4), np.uint8), 2**63 - 1)
    assert len(accepted(opener, received(rows))) == 1
    rows = sealer.seal(PLAIN, np.zeros((1, 4), np.uint8), np.array([-1]))
    assert accepted(opener, received(rows)) == []
    assert opener.dropped == {"malformed": 1}


def test_a_key_has_32_bytes() -> None:
    with pytest.raises(LocalProtocolError, match="32 bytes, this has 16"):
        DatagramOpener(bytes(16), initiator=True)


@given(
    st.lists(st.lists(st.integers(0, 60_000), min_size=1, max_size=40), max_size=20), st.integers(0, 2**62)
)
@settings(max_examples=200)
def test_the_replay_window_agrees_with_a_set(batches: list[list[int]], base: int) -> None:
    window, seen, largest = ReplayWindow(), set(), -1
    for batch in batches:
        largest = max(largest, base + max(batch))
        expected = []
        for number in (base + offset for offset in batch):
            expected.append(number > largest - WINDOW_PACKETS and number not in seen)
            seen.add(number)
        assert window.admit(base + np.array(batch)).tolist() == expected
        assert window.largest == largest
        start = max(base, largest - 500)
        known = [number in seen for number in range(start, largest + 1)]
        assert window.received(start).tolist() == known


def test_the_window_stands_a_long_flow_of_batches() -> None:
    window, chance = ReplayWindow(), random.Random(1)
    at = 0
    for _ in range(3000):
        count = chance.choice([1, 44, 700])
        assert window.admit(np.arange(at, at + count)).all()
        assert not window.admit(np.arange(at, at + count)).any()
        at += count + chance.choice([0, 0, 5])

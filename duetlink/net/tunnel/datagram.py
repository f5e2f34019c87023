"""Datagrams, a batch at a time: layout, authentication, refusal of everything else.

    0      kind: 0xC0-0xFF, so that STUN, DTLS, RTP and ChannelData on one socket differ (RFC 7983)
    1-3    session id
    4-5    length of the payload: generic receive offload may join datagrams, relays may pad them
    6-7    how far below this packet number the sender's oldest outstanding one lies, at most 65,535
    8-15   packet number, a new one for every transmission
    16-23  position: of the payload in a stream, or whatever else the kind of datagram says
    24-31  tag
    32-    payload

All big-endian. A batch is a matrix with a datagram per row, headers are columns, and the tags of a batch cost
two calls of AES.

**The tag** is CBC-MAC over two blocks, the 24 bytes before it and 8 of a digest: AES(AES(b1) xor b2), first
half. CBC-MAC over messages of one fixed length is a pseudo-random function if AES is a pseudo-random
permutation (Bellare, Kilian, Rogaway, "The Security of the Cipher Block Chaining Message Authentication
Code", 2000); its weakness is messages of different lengths, and here there are none. A stranger's datagram
passes with probability 2^-64. Keys and session id come from the key of one attempt and of one direction by
HKDF-SHA256 (RFC 5869): what an earlier attempt left on the network, or one's own datagrams sent back, do not
pass.

**The payload** is covered if the kind has the bit COVERED: the digest is its keyed BLAKE2b, else zero. A kind
without it is for ciphertext that its receiver authenticates itself: Flight's TLS in the tunnel's stream. Who
sits on the wire can spoil such a payload, as in TCP under TLS, and the reader above notices.

**Replays**: a packet number is accepted once, and none older than the window.
"""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from duetlink.errors import LocalProtocolError
from duetlink.net.tunnel.replay import ReplayWindow

KEY_BYTES = 32
HEADER_BYTES = 32
FIRST_KIND = 0xC0
COVERED = 0x20  # this bit of the kind: the tag covers the payload too

_MAX_FLOOR_DISTANCE = 0xFFFF
_SWAPPED = np.dtype(">u8")

Octets = NDArray[np.uint8]


class DatagramKind(IntEnum):
    """First byte. All but DATA are authenticated whole; all but ACK and RESET are acknowledged."""

    DATA = FIRST_KIND  # a part of the stream, at its position
    ACK = FIRST_KIND | COVERED
    FIN = FIRST_KIND | COVERED | 1  # the stream ends at its position; its payload is that of an ACK
    PING = FIRST_KIND | COVERED | 2  # its payload is padding
    RESET = FIRST_KIND | COVERED | 3  # all is over


class _Authenticator:
    """Keys of one direction."""

    def __init__(self, key: bytes, *, from_initiator: bool) -> None:
        if len(key) != KEY_BYTES:
            raise LocalProtocolError(f"a tunnel's key has {KEY_BYTES} bytes, this has {len(key)}")
        side = b"initiator" if from_initiator else b"responder"
        derived = HKDF(SHA256(), 16 + 32 + 3, salt=None, info=b"duetlink/1 tunnel, from the " + side).derive(
            key
        )
        # ECB is the bare block cipher, of which the CBC-MACs of all rows are made side by side
        self._aes: CipherContext = Cipher(algorithms.AES(derived[:16]), modes.ECB()).encryptor()
        self._digest_key = derived[16:48]
        self.session = int.from_bytes(derived[48:])

    def tags(self, headers: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Tags of rows of four words as they are on the wire; the fourth holds the digest of the payload."""
        blocks = np.frombuffer(self._aes.update(headers[:, :2].tobytes()), np.uint64).reshape(-1, 2)
        blocks = blocks ^ headers[:, 2:]
        return np.frombuffer(self._aes.update(blocks.tobytes()), np.uint64)[::2]

    def digest(self, payload: Octets) -> np.uint64:
        digest = hashlib.blake2b(
            np.ascontiguousarray(payload).data, digest_size=8, key=self._digest_key
        ).digest()
        return np.uint64(int.from_bytes(digest, sys.byteorder))


class DatagramSealer:
    """Makes batches of datagrams. Numbers them from 0; a sealer is good for one attempt and one direction."""

    def __init__(self, key: bytes, *, initiator: bool, headroom_bytes: int = 0) -> None:
        """`headroom_bytes` are left free in front of each row, for who sends them."""
        self.next_packet_number = 0
        self._authenticator = _Authenticator(key, from_initiator=initiator)
        self._headroom = headroom_bytes

    def seal(
        self,
        kind: int,
        payloads: Octets,
        positions: NDArray[np.int64] | int = 0,
        *,
        floor: int | None = None,
    ) -> Octets:
        """One datagram per row of `payloads`, which is copied once, into the matrix that is returned.

        The rows get the next packet numbers, in order. `floor`: the sender's oldest outstanding packet
        number.
        """
        count, size_bytes = payloads.shape
        first = self.next_packet_number
        self.next_packet_number += count
        start = self._headroom + HEADER_BYTES
        rows = np.empty((count, start + size_bytes), np.uint8)
        rows[:, start:] = payloads

        header = np.empty((count, 4), _SWAPPED)
        numbers = np.arange(first, first + count)
        header[:, 0] = kind << 56 | self._authenticator.session << 32 | size_bytes << 16
        if floor is not None:
            header[:, 0] |= np.minimum(numbers - floor, _MAX_FLOOR_DISTANCE).astype(np.uint64)
        header[:, 1] = numbers
        header[:, 2] = positions
        header[:, 3] = 0
        wire = header.view(np.uint64)
        if kind & COVERED:
            for row in range(count):
                wire[row, 3] = self._authenticator.digest(rows[row, start:])
        wire[:, 3] = self._authenticator.tags(wire)
        rows[:, self._headroom : start] = wire.view(np.uint8)
        return rows


@dataclass(slots=True)
class Opened:
    """The datagrams of a batch that were accepted, in the order in which they arrived."""

    kinds: Octets
    packet_numbers: NDArray[np.int64]
    positions: NDArray[np.int64]
    sizes_bytes: NDArray[np.int64]
    floors: NDArray[np.int64]  # of the senders, below 0 where nothing is said
    payloads: Octets  # a row each, of which sizes_bytes count; may be a view of the batch

    def __len__(self) -> int:
        return len(self.kinds)

    def payload(self, row: int) -> bytes:
        return self.payloads[row, : self.sizes_bytes[row]].tobytes()


class DatagramOpener:
    """Takes datagrams off the network. What is not the peer's, whole and new is dropped and counted."""

    def __init__(self, key: bytes, *, initiator: bool) -> None:
        self.window = ReplayWindow()
        self.dropped: Counter[str] = Counter()
        self._authenticator = _Authenticator(key, from_initiator=not initiator)

    def open(self, rows: Octets, sizes_bytes: NDArray[np.int64]) -> Opened:
        """The accepted ones of a batch: a datagram per row, of which the first `sizes_bytes` count."""
        if rows.shape[1] < HEADER_BYTES:
            self.dropped["truncated"] += len(rows)
            rows, sizes_bytes = np.empty((0, HEADER_BYTES), np.uint8), sizes_bytes[:0]
        wire = rows[:, :HEADER_BYTES].copy().view(np.uint64)
        # what is 2^63 or more turns negative here, and is refused below
        header = wire.view(_SWAPPED).astype(np.int64)

        whole = (header[:, 0] >> 16) & 0xFFFF == sizes_bytes - HEADER_BYTES
        rows, wire, header = self._keep("truncated", whole, rows, wire, header)
        ours = (header[:, 0] >> 32) & 0xFFFFFF == self._authenticator.session
        ours &= rows[:, 0] >= FIRST_KIND
        rows, wire, header = self._keep("of another session", ours, rows, wire, header)
        rows, wire, header = self._keep(
            "not authentic", self._authentic(rows, wire, header), rows, wire, header
        )
        sane = (header[:, 1] >= 0) & (header[:, 2] >= 0)
        rows, wire, header = self._keep("malformed", sane, rows, wire, header)
        rows, wire, header = self._keep("replayed", self.window.admit(header[:, 1]), rows, wire, header)
        return Opened(
            kinds=rows[:, 0],
            packet_numbers=header[:, 1],
            positions=header[:, 2],
            sizes_bytes=(header[:, 0] >> 16) & 0xFFFF,
            floors=header[:, 1] - (header[:, 0] & 0xFFFF),
            payloads=rows[:, HEADER_BYTES:],
        )

    def _authentic(
        self, rows: Octets, wire: NDArray[np.uint64], header: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        tags = wire[:, 3].copy()
        wire[:, 3] = 0
        for row in np.flatnonzero(rows[:, 0] & COVERED):
            end = HEADER_BYTES + int(header[row, 0] >> 16 & 0xFFFF)
            wire[row, 3] = self._authenticator.digest(rows[row, HEADER_BYTES:end])
        authentic: NDArray[np.bool_] = self._authenticator.tags(wire) == tags
        return authentic

    def _keep(
        self,
        otherwise: str,
        kept: NDArray[np.bool_],
        rows: Octets,
        wire: NDArray[np.uint64],
        header: NDArray[np.int64],
    ) -> tuple[Octets, NDArray[np.uint64], NDArray[np.int64]]:
        if kept.all():
            return rows, wire, header
        self.dropped[otherwise] += len(kept) - int(np.count_nonzero(kept))
        return rows[kept], wire[kept], header[kept]

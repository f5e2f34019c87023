"""Datagrams in batches: their layout and authentication, and the rejection of everything else.

    0      kind: 0xC0-0xFF, so that STUN, DTLS, RTP and ChannelData on the same socket differ (RFC 7983)
    1-3    session id
    4-5    length of the payload: generic receive offload may join datagrams, relays may pad them
    6-7    this packet number minus the sender's floor, at most 65,535
    8-15   packet number, a new one for every transmission
    16-23  position: of the payload in a stream, or another number, depending on the kind
    24-31  tag
    32-    payload

All numbers are big-endian. A batch is a matrix with one datagram per row and the header fields in columns;
the tags of a whole batch take two calls of AES.

**The tag** is CBC-MAC over two blocks, the 24 bytes before it and 8 bytes of a digest: AES(AES(b1) xor b2),
first half. CBC-MAC over messages of one fixed length is a pseudo-random function if AES is a pseudo-random
permutation (Bellare, Kilian, Rogaway, "The Security of the Cipher Block Chaining Message Authentication
Code", 2000). Its weakness is messages of different lengths, and there are none here. A forged datagram passes
with probability 2^-64. Keys and session id are derived from the key of one attempt and one direction by
HKDF-SHA256 (RFC 5869), so late datagrams of an earlier attempt and reflected own ones do not pass.

**The payload** is covered by the tag if the kind has the bit COVERED: the digest is then its keyed BLAKE2b,
otherwise zero. Kinds without that bit are for ciphertext that the receiver authenticates itself: Flight's TLS
in the tunnel's stream. An attacker on the wire can corrupt such a payload, as with TCP under TLS, and the TLS
above detects it.

**Replays**: each packet number is accepted once, and none that is older than the window.
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
    """First byte of a datagram.

    All but DATA are authenticated as a whole; all but ACK and RESET are acknowledged.
    """

    DATA = FIRST_KIND  # part of the stream, at this position
    ACK = FIRST_KIND | COVERED
    FIN = FIRST_KIND | COVERED | 1  # the stream ends at this position; the payload is that of an ACK
    PING = FIRST_KIND | COVERED | 2  # the payload is padding
    RESET = FIRST_KIND | COVERED | 3  # the sender has ended the tunnel


class _Authenticator:
    """Keys of one direction."""

    def __init__(self, key: bytes, *, from_initiator: bool) -> None:
        if len(key) != KEY_BYTES:
            raise LocalProtocolError(f"a tunnel's key has {KEY_BYTES} bytes, this has {len(key)}")
        side = b"initiator" if from_initiator else b"responder"
        derived = HKDF(SHA256(), 16 + 32 + 3, salt=None, info=b"duetlink/1 tunnel, from the " + side).derive(
            key
        )
        # ECB is the plain block cipher; with it the CBC-MACs of all rows are computed in parallel
        self._aes: CipherContext = Cipher(algorithms.AES(derived[:16]), modes.ECB()).encryptor()
        self._digest_key = derived[16:48]
        self.session = int.from_bytes(derived[48:])

    def tags(self, headers: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the tags of header rows, four words each as on the wire; the fourth holds the payload's
        digest.
        """
        blocks = np.frombuffer(self._aes.update(headers[:, :2].tobytes()), np.uint64).reshape(-1, 2)
        blocks = blocks ^ headers[:, 2:]
        return np.frombuffer(self._aes.update(blocks.tobytes()), np.uint64)[::2]

    def digest(self, payload: Octets) -> np.uint64:
        digest = hashlib.blake2b(
            np.ascontiguousarray(payload).data, digest_size=8, key=self._digest_key
        ).digest()
        return np.uint64(int.from_bytes(digest, sys.byteorder))


class DatagramSealer:
    """Makes batches of datagrams, numbered from 0. Use one for one attempt and one direction."""

    def __init__(self, key: bytes, *, initiator: bool, headroom_bytes: int = 0) -> None:
        """`headroom_bytes` are left free at the start of each row, for the port that sends it."""
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
        """Return one datagram per row of `payloads`, which is copied once into the new matrix.

        The rows get the next packet numbers, in order. `floor`: the sender's oldest packet number in flight.
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
    """The accepted datagrams of a batch, in order of arrival."""

    kinds: Octets
    packet_numbers: NDArray[np.int64]
    positions: NDArray[np.int64]
    sizes_bytes: NDArray[np.int64]
    floors: NDArray[np.int64]  # of the sender; below 0 if it gave none
    payloads: Octets  # one row each, of which `sizes_bytes` are valid; may be a view of the batch

    def __len__(self) -> int:
        return len(self.kinds)

    def payload(self, row: int) -> bytes:
        return self.payloads[row, : self.sizes_bytes[row]].tobytes()


class DatagramOpener:
    """Opens received datagrams. Any that is not from the peer, complete and new is dropped and counted."""

    def __init__(self, key: bytes, *, initiator: bool) -> None:
        self.window = ReplayWindow()
        self.dropped: Counter[str] = Counter()
        self._authenticator = _Authenticator(key, from_initiator=not initiator)

    def open(self, rows: Octets, sizes_bytes: NDArray[np.int64]) -> Opened:
        """Return the accepted datagrams of a batch: one per row, of which the first `sizes_bytes` are
        valid.
        """
        if rows.shape[1] < HEADER_BYTES:
            self.dropped["truncated"] += len(rows)
            rows, sizes_bytes = np.empty((0, HEADER_BYTES), np.uint8), sizes_bytes[:0]
        wire = rows[:, :HEADER_BYTES].copy().view(np.uint64)
        # values of 2^63 or more become negative here, and are rejected below
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

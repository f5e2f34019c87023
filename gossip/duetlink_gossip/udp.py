"""A post over plain UDP, for members that can reach each other's addresses: on one network, or by an open
port.

    0-1    rank of the sender
    2-9    salt: drawn when the sender's end was made
    10-17  number: a new one for each datagram
    18-    AES-GCM of the payload, with its tag; what is before is authenticated with it

All numbers are big-endian. Each direction of a pair has its own key: HKDF-SHA256 (RFC 5869) of the pair's
secret, the two ranks and the salt. So the number is a nonce that never repeats, even if a member restarts
with the same secrets. A replayed datagram is accepted; it has no effect on a gossip, since a chunk counts
once, and only in its round.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import socket
import struct
import threading
from collections.abc import Mapping, Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from duetlink.errors import SettingError
from duetlink_gossip.base import AddressedDatagram

Address = tuple[str, int]

_HEAD = struct.Struct("!H8sQ")
_TAG_BYTES = 16
OVERHEAD_BYTES = _HEAD.size + _TAG_BYTES

# IPv6 and UDP headers take 48 of the 1500 bytes of an Ethernet frame
PACKET_BYTES = 1452
SECRET_BYTES = 32

_BUFFER_BYTES = 8 * 1024 * 1024
_MOST_AT_ONCE = 512  # datagrams by one `receive`, so that rounds end in time
_SO_RCVBUFFORCE = 33  # Linux, for root: beyond net.core.rmem_max
_SALTS = 2  # for each sender: the current and the previous one


class UdpPost:
    """A `Post` on one socket, which it closes. Datagrams are encrypted and authenticated."""

    def __init__(
        self,
        sock: socket.socket,
        rank: int,
        addresses: Sequence[Sequence[Address]],
        pair_secrets: Mapping[int, bytes],
        *,
        packet_bytes: int = PACKET_BYTES,
    ) -> None:
        """Derive the keys, and enlarge the socket's receive buffer.

        Args:
            sock: a bound UDP socket.
            rank: of this member.
            addresses: by rank, the addresses that the member may have. All are tried until one has answered.
            pair_secrets: by rank, 32 bytes that only this member and that one know.
            packet_bytes: size of the UDP payload. A packet larger than the path's MTU would be fragmented,
                and lost if one fragment is.

        Raises:
            SettingError: a secret of another length, or `packet_bytes` outside of 200 to 65,000.
        """
        if any(len(secret) != SECRET_BYTES for secret in pair_secrets.values()):
            raise SettingError(f"the secret of a pair has {SECRET_BYTES} bytes")
        if not 200 <= packet_bytes <= 65_000:
            raise SettingError(f"packet_bytes is {packet_bytes}: it is 200 to 65,000")
        self.rank, self.size = rank, len(addresses)
        self.mtu_bytes = packet_bytes - OVERHEAD_BYTES
        self.forged = 0  # datagrams that failed authentication
        self._socket = sock
        self._addresses = [list(each) for each in addresses]
        self._secrets = dict(pair_secrets)
        self._salt = secrets.token_bytes(8)
        self._number = 0
        self._sealing = {to: self._cipher(to, rank, to, self._salt) for to in self._secrets}
        self._opening: dict[int, dict[bytes, AESGCM]] = {of: {} for of in self._secrets}
        sock.setblocking(False)
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
            sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
        self._selector = selectors.DefaultSelector()
        self._selector.register(sock, selectors.EVENT_READ)
        self._waking, self._wake = os.pipe()
        os.set_blocking(self._waking, False)
        os.set_blocking(self._wake, False)
        self._selector.register(self._waking, selectors.EVENT_READ)
        self._closed = False
        self._closing = (
            threading.Lock()
        )  # so that `wake` does not write to a descriptor that is another file's by now

    def send(self, datagrams: Sequence[AddressedDatagram]) -> list[AddressedDatagram]:
        for at, (to, payload) in enumerate(datagrams):
            self._number += 1
            head = _HEAD.pack(self.rank, self._salt, self._number)
            packet = head + self._sealing[to].encrypt(_nonce(self._number), payload, head)
            for address in self._addresses[to]:
                try:
                    self._socket.sendto(packet, address)
                except BlockingIOError:
                    return list(datagrams[at:])
                except OSError:
                    continue  # no route, or an earlier one was refused: this one is lost
        return []

    def receive(self, timeout_s: float) -> list[AddressedDatagram]:
        found: list[AddressedDatagram] = []
        for key, _ in self._selector.select(timeout_s):
            if key.fileobj is self._socket:
                self._read(found)
            else:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._waking, 4096)
        return found

    def wake(self) -> None:
        with self._closing:
            if not self._closed:
                with contextlib.suppress(BlockingIOError):
                    os.write(self._wake, b".")

    def close(self) -> None:
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._selector.close()
            self._socket.close()
            os.close(self._waking)
            os.close(self._wake)

    def _read(self, found: list[AddressedDatagram]) -> None:
        for _ in range(_MOST_AT_ONCE):
            try:
                packet, address = self._socket.recvfrom(65_535)
            except BlockingIOError:
                return
            except OSError:
                continue  # an earlier datagram met a closed port
            datagram = self._open(packet)
            if datagram is None:
                self.forged += 1
                continue
            self._addresses[datagram[0]] = [address[:2]]  # this one works
            found.append(datagram)

    def _open(self, packet: bytes) -> AddressedDatagram | None:
        if len(packet) < OVERHEAD_BYTES:
            return None
        of, salt, number = _HEAD.unpack_from(packet)
        known = self._opening.get(of)
        if known is None:
            return None
        cipher = known.get(salt) or self._cipher(of, of, self.rank, salt)
        try:
            payload = cipher.decrypt(_nonce(number), packet[_HEAD.size :], packet[: _HEAD.size])
        except InvalidTag:
            return None
        if salt not in known:
            while len(known) >= _SALTS:
                del known[next(iter(known))]
            known[salt] = cipher
        return of, payload

    def _cipher(self, other: int, sender: int, receiver: int, salt: bytes) -> AESGCM:
        info = b"duetlink gossip %d to %d" % (sender, receiver)
        return AESGCM(HKDF(SHA256(), 32, salt, info).derive(self._secrets[other]))


def _nonce(number: int) -> bytes:
    return number.to_bytes(12, "big")

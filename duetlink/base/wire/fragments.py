"""Control messages in data-channel messages of at most 64 KiB. Pure: bytes in, bytes out.

Every fragment starts with one byte, LAST or MORE. The channel is ordered and reliable (RFC 8831), so no
number is needed. Every WebRTC peer accepts 64 KiB (RFC 8841, default `max-message-size`).
"""

from __future__ import annotations

from collections.abc import Iterator

from duetlink.errors import LimitExceeded, RemoteProtocolError

FRAGMENT_BYTES = 64 * 1024
MAX_MESSAGE_BYTES = 16 * 1024 * 1024
# `split` makes 257 fragments of the largest message; a peer may use smaller ones, each of which costs an
# iteration of the loop. A larger limit of bytes allows proportionally more.
MAX_FRAGMENTS = 1024

LAST = b"\x00"
MORE = b"\x01"


def split(message: bytes) -> Iterator[bytes]:
    """Yield the fragments of one message, each at most FRAGMENT_BYTES long including its first byte."""
    step = FRAGMENT_BYTES - 1
    end = len(message)
    position = 0
    while end - position > step:
        yield MORE + message[position : position + step]
        position += step
    yield LAST + message[position:]


class Reassembler:
    """Joins fragments to messages, for one direction of one channel."""

    def __init__(self, limit_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._limit_fragments = MAX_FRAGMENTS * max(1, limit_bytes // (16 * 1024 * 1024))
        self._collected = bytearray()
        self._fragments = 0

    def feed(self, fragment: bytes) -> bytes | None:
        """Add one fragment; return the message that it completes, or None.

        Raises:
            RemoteProtocolError: the fragment is empty, too long, starts with an unknown byte, or announces
                more without content.
            LimitExceeded: the message exceeds the limit of bytes or fragments. The collected part is dropped.
        """
        if not fragment or len(fragment) > FRAGMENT_BYTES:
            raise RemoteProtocolError(
                f"the peer sent a fragment of {len(fragment)} bytes; 1 to {FRAGMENT_BYTES} are allowed"
            )
        kind = fragment[:1]
        if kind not in (LAST, MORE):
            raise RemoteProtocolError(f"the peer sent a fragment of kind {kind[0]}; only 0 and 1 exist")
        size_bytes = len(self._collected) + len(fragment) - 1
        if size_bytes > self._limit_bytes:
            self._forget()
            raise LimitExceeded(f"the peer sent a control message of over {self._limit_bytes} bytes")
        if kind == LAST and not self._fragments:  # nearly every message is one fragment
            return fragment[1:]
        self._fragments += 1
        if self._fragments > self._limit_fragments:
            self._forget()
            raise LimitExceeded(f"the peer sent a control message in over {self._limit_fragments} fragments")
        if kind == MORE:
            if len(fragment) == 1:
                self._forget()
                raise RemoteProtocolError("the peer sent a fragment that announces more and brings nothing")
            self._collected += memoryview(fragment)[1:]
            return None
        message = bytes(self._collected) + fragment[1:]
        self._forget()
        return message

    def _forget(self) -> None:
        self._collected = bytearray()
        self._fragments = 0

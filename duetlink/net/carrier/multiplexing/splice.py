"""One TCP connection on loopback, joined to one stream of the mux, with the credit of both directions.

A side sends no more on a stream than the other has granted, and grants again what its local end has taken
(RFC 9113 §5.2): an end that does not read holds up its own stream and no other. The window is what 1 Gbit/s
moves in 128 ms.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol, cast

from duetlink.errors import LimitExceeded, RemoteProtocolError

WINDOW_BYTES = 16 * 1024 * 1024
_GRANT_BYTES = WINDOW_BYTES // 4

_NOTHING = memoryview(b"")


class MuxStreams(Protocol):
    """Callbacks of a splice for events of its local connection; the mux implements them."""

    def local_made(self, splice: Splice) -> None: ...

    def local_data(self, splice: Splice, data: bytes) -> None: ...

    def local_lost(self, splice: Splice) -> None: ...

    def grant(self, splice: Splice, amount_bytes: int) -> None:
        """Allow the peer to send `amount_bytes` more, which the local end has taken."""


class Splice(asyncio.Protocol):
    """The protocol of the local connection. `number` is None until it has sent something."""

    def __init__(self, mux: MuxStreams, number: int | None = None) -> None:
        self._mux = mux
        self._transport: asyncio.Transport | None = None
        self.number = number
        # read from the local end and not sent yet; no more is read meanwhile
        self.chunk = _NOTHING
        self.credit_bytes = WINDOW_BYTES
        self.queued = False  # it is in the mux's queue of streams that can send
        self.finished = False  # the local end has closed; its remaining bytes are sent first
        # from the peer
        self._allowed_bytes = WINDOW_BYTES
        self._owed_bytes = 0
        self._early: deque[bytes] = deque()  # bytes that arrived before the local end was connected
        self._full = False
        self._ending = False

    # -- the local end ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        while self._early:
            self._transport.write(self._early.popleft())
        if self._ending:
            self._transport.close()
        elif self.number is None:
            self._mux.local_made(self)
        else:
            self._grant()

    def data_received(self, data: bytes) -> None:
        if not self._ending:
            self._mux.local_data(self, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._mux.local_lost(self)

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._grant()

    # -- for the mux -----------------------------------------------------------------------------------------

    def pause_reading(self) -> None:
        """Stop reading until what was read is sent."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def take(self, payload: memoryview) -> None:
        """Write bytes from the peer to the local end.

        Raises LimitExceeded if the peer had no credit for them.
        """
        self._allowed_bytes -= len(payload)
        if self._allowed_bytes < 0:
            raise LimitExceeded(f"the peer sent over {WINDOW_BYTES} bytes without credit for them")
        self._owed_bytes += len(payload)
        if self._transport is None:
            self._early.append(bytes(payload))
        elif not self._transport.is_closing():
            self._transport.write(payload)
            self._grant()

    def add_credit(self, amount_bytes: int) -> None:
        """Add credit from the peer. Raises RemoteProtocolError if that exceeds the window."""
        self.credit_bytes += amount_bytes
        if self.credit_bytes > WINDOW_BYTES:
            raise RemoteProtocolError(f"the peer granted {self.credit_bytes} bytes, over {WINDOW_BYTES}")

    def finish(self) -> None:
        """Close the local end after the remaining bytes, because the peer has ended the stream."""
        self._ending = True
        self.chunk = _NOTHING
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the local end now."""
        self._ending = True
        self._early.clear()
        self.chunk = _NOTHING
        if self._transport is not None:
            self._transport.abort()

    def _grant(self) -> None:
        if self._owed_bytes >= _GRANT_BYTES and not self._full and self.number is not None:
            granted, self._owed_bytes = self._owed_bytes, 0
            self._allowed_bytes += granted
            self._mux.grant(self, granted)

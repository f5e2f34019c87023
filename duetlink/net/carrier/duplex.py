"""Two connections as one stream: what is written leaves by the one, and what comes, comes by the other."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from duetlink.errors import RemoteProtocolError
from duetlink.net.carrier.wire import Wire


class Duplex(asyncio.Transport):
    """Puts `protocol` upon both, at once. The stream ends when either does."""

    _incoming: asyncio.Transport

    def __init__(self, protocol: asyncio.Protocol, *, outgoing: Wire, incoming: Wire) -> None:
        super().__init__()
        self._protocol = protocol
        self._has_ended = False
        self._outgoing = outgoing.hand_over(_Outgoing(self, protocol))
        incoming.hand_over(_Incoming(self, protocol))

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._outgoing.write(data)

    def get_write_buffer_size(self) -> int:
        return self._outgoing.get_write_buffer_size()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._outgoing.get_write_buffer_limits()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._outgoing.set_write_buffer_limits(high, low)

    def pause_reading(self) -> None:
        self._incoming.pause_reading()

    def resume_reading(self) -> None:
        self._incoming.resume_reading()

    def is_reading(self) -> bool:
        return self._incoming.is_reading()

    def is_closing(self) -> bool:
        return self._outgoing.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What the outgoing connection knows."""
        return self._outgoing.get_extra_info(name, default)

    def close(self) -> None:
        """Read no more, and end both when what was written has left this machine's memory."""
        self._incoming.pause_reading()
        self._outgoing.close()

    def abort(self) -> None:
        """End both, now."""
        self._outgoing.abort()
        self._incoming.abort()

    # -- for the two -----------------------------------------------------------------------------------------

    def made(self, incoming: asyncio.Transport) -> None:
        """Both connections are there."""
        self._incoming = incoming
        self._protocol.connection_made(self)

    def ended(self, exc: Exception | None) -> None:
        """One of the two has ended."""
        if not self._has_ended:
            self._has_ended = True
            self.abort()
            self._protocol.connection_lost(exc)


class _Outgoing(asyncio.Protocol):
    def __init__(self, duplex: Duplex, protocol: asyncio.Protocol) -> None:
        self._duplex = duplex
        self._protocol = protocol

    def data_received(self, data: bytes) -> None:
        # later, since it may have come before the stream was there
        why = RemoteProtocolError("the peer sent something by the connection that is only for this side")
        asyncio.get_running_loop().call_soon(self._duplex.ended, why)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._duplex.ended(exc)


class _Incoming(asyncio.Protocol):
    def __init__(self, duplex: Duplex, protocol: asyncio.Protocol) -> None:
        self._duplex = duplex
        self._protocol = protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._duplex.made(cast("asyncio.Transport", transport))

    def data_received(self, data: bytes) -> None:
        self._protocol.data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._duplex.ended(exc)

"""One data channel that neither orders nor repeats: packets, dropped where too many are queued."""

from __future__ import annotations

from collections.abc import Callable

from aiortc import RTCDataChannel
from aiortc.exceptions import InvalidStateError

from duetlink.errors import RemoteProtocolError

# With more in front of it, a datagram would come too late to be of use.
_MOST_QUEUED_BYTES = 32 * 1024


class UnreliableChannel:
    """All methods belong to the loop thread. Before `listen`, what comes is dropped."""

    def __init__(self, channel: RTCDataChannel) -> None:
        self._channel = channel
        self._on_packet: Callable[[bytes], None] = lambda packet: None
        self._on_violation: Callable[[RemoteProtocolError], None] = lambda error: None
        channel.on("message", self._received)

    def listen(
        self, on_packet: Callable[[bytes], None], on_violation: Callable[[RemoteProtocolError], None]
    ) -> None:
        """Hand over every packet from here on."""
        self._on_packet, self._on_violation = on_packet, on_violation

    def send_nowait(self, packet: bytes) -> bool:
        """Send, or drop it where too much is queued or the channel is not open; whether it was sent."""
        if self._channel.readyState != "open" or self._channel.bufferedAmount >= _MOST_QUEUED_BYTES:
            return False
        try:
            self._channel.send(packet)
        except InvalidStateError:
            return False
        return True

    def _received(self, data: bytes | str) -> None:
        if isinstance(data, str):
            self._on_violation(RemoteProtocolError("the peer sent text on a channel of datagrams"))
        else:
            self._on_packet(data)

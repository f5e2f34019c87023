"""One data channel without order or retransmission. Packets are dropped if too many are queued."""

from __future__ import annotations

from collections.abc import Callable

from aiortc import RTCDataChannel
from aiortc.exceptions import InvalidStateError

from duetlink.errors import RemoteProtocolError

# A datagram behind a longer queue would arrive too late to be useful.
_MOST_QUEUED_BYTES = 32 * 1024


class UnreliableChannel:
    """All methods belong to the loop thread. Packets that arrive before `listen` are dropped."""

    def __init__(self, channel: RTCDataChannel) -> None:
        self._channel = channel
        self._on_packet: Callable[[bytes], None] = lambda packet: None
        self._on_violation: Callable[[RemoteProtocolError], None] = lambda error: None
        channel.on("message", self._received)

    def listen(
        self, on_packet: Callable[[bytes], None], on_violation: Callable[[RemoteProtocolError], None]
    ) -> None:
        """Call `on_packet` for every packet from here on."""
        self._on_packet, self._on_violation = on_packet, on_violation

    def send_nowait(self, packet: bytes) -> bool:
        """Send the packet and return True; drop it and return False if too much is queued or the channel is
        not open.
        """
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

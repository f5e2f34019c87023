"""The tunnel as an `asyncio.Transport`: an ordered, reliable byte stream each way over a datagram port.

    write -> SendBuffer -> DatagramSealer -> port ~~~ port -> DatagramOpener -> Reassembly -> data_received
                 ^               ^                                                  |
              Recovery  <-  Acknowledgement  <~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~+
                 |
             Controller: how fast, how much

There is no handshake: the side that holds the key is the peer, and the first datagram may be lost like any
other. Each side sends when pacing, window, the peer's flow control and the port allow it, and acknowledges
each batch that arrives. `Sender` and `Receiver` are the two halves; this module connects them with the loop,
its clock and the protocol.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from duetlink.errors import PathUnavailable
from duetlink.net.tunnel.acknowledgement import Acknowledgement
from duetlink.net.tunnel.controller import Controller
from duetlink.net.tunnel.datagram import DatagramKind, DatagramOpener, DatagramSealer
from duetlink.net.tunnel.datagram_port import DatagramPort
from duetlink.net.tunnel.mtu import BASE_BYTES
from duetlink.net.tunnel.receiver import Receiver
from duetlink.net.tunnel.sender import Sender

FIRST_POSITION = 0
# Memory per direction, which limits the bytes in flight: 1 Gbit/s over 100 ms needs 12.5 MB.
CAPACITY_BYTES = 16 << 20
_HIGH_WATER_BYTES = 1 << 20
_BATCHES_PER_TURN = 16  # then the loop gets a chance to read
_SILENCE_S = 30.0
_LINGER_S = 2.0
_PATIENT_PROBES = 3
_LAST_COPIES = 3  # how often the last datagrams are sent, since they are not acknowledged


class TunnelTransport(asyncio.Transport):
    """One side. Both have the same `key` of 32 bytes, made for this attempt alone; one is the initiator.

    `connection_made` is called soon after construction. If no authentic datagram arrives for `silence_s`,
    `connection_lost` gets a PathUnavailable, which is a ConnectionError. `data_received` gets a memoryview
    that the protocol owns. The port is closed with the transport, or up to two seconds later if the peer has
    yet to end its side.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        port: DatagramPort,
        protocol: asyncio.BaseProtocol,
        *,
        key: bytes,
        initiator: bool,
        make_controller: Callable[..., Controller] = Controller,
        silence_s: float = _SILENCE_S,
    ) -> None:
        super().__init__()
        now_s = loop.time()
        self._loop = loop
        self._port = port
        self._protocol: Any = protocol
        self._silence_s = silence_s
        self.sender = Sender(
            port,
            DatagramSealer(key, initiator=initiator, headroom_bytes=port.headroom_bytes),
            make_controller(datagram_bytes=BASE_BYTES, now_s=now_s),
            self._acknowledgement,
            CAPACITY_BYTES,
            FIRST_POSITION,
            now_s,
        )
        self.receiver = Receiver(
            DatagramOpener(key, initiator=initiator), CAPACITY_BYTES, FIRST_POSITION, now_s
        )
        self._low_bytes, self._high_bytes = _HIGH_WATER_BYTES // 4, _HIGH_WATER_BYTES
        self._is_reading = True
        self._has_paused_protocol = False
        self._has_delivered_eof = False
        self._is_closing = False  # data that arrives is discarded
        self._is_over = False  # connection_lost was called or is scheduled
        self._has_port = True
        self._pump_handle: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._linger: asyncio.TimerHandle | None = None
        loop.call_soon(self._begin)

    # -- asyncio.Transport ---------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.sender.is_finishing and not self._is_closing:
            raise RuntimeError("cannot write after write_eof")
        if self.is_closing() or not len(data):
            return
        outgoing = self.sender.outgoing
        outgoing.write(data)
        if not self._has_paused_protocol and outgoing.unsent_bytes > self._high_bytes:
            self._has_paused_protocol = True
            self._call(self._protocol.pause_writing)
        self._pump_soon()

    def write_eof(self) -> None:
        self.sender.finish()
        self._pump_soon()

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that were not sent yet."""
        return self.sender.outgoing.unsent_bytes

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low_bytes, self._high_bytes

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = 4 * low if low is not None else _HIGH_WATER_BYTES
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._low_bytes, self._high_bytes = low, high

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        if not self._is_reading:
            self._is_reading = True
            self._loop.call_soon(self._resume)

    def is_reading(self) -> bool:
        return self._is_reading and not self.is_closing()

    def is_closing(self) -> bool:
        return self._is_closing or self._is_over

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Know "datagrams": how many were sent, without acknowledgements, and how many of them were lost."""
        recovery = self.sender.recovery
        return (recovery.sent_packets, recovery.lost_packets) if name == "datagrams" else default

    def close(self) -> None:
        """Send what was written and end the stream; `connection_lost(None)` follows when the peer has all of
        it.
        """
        if not self.is_closing():
            self._is_closing = True
            self.write_eof()
            self._deliver()
            self._check_finished()

    def abort(self) -> None:
        """End at once; the peer gets a ConnectionResetError."""
        if not self._is_over:
            self._reset(None)

    # -- receiving -----------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._is_over:
            return
        self._call(self._protocol.connection_made, self)
        if self._is_over:
            return
        self._port.start(self._loop, self._readable, self._writable, self._port_closed)
        # measures round trip and MTU before the tunnel is used
        self.sender.ping(self._loop.time())
        self._set_timer()

    def _readable(self) -> None:
        now_s = self._loop.time()
        for received in self._port.receive():
            for kind, payload in self.receiver.accept(now_s, received):
                self._accept(now_s, kind, payload)
        self._deliver()
        self._answer(now_s)
        self._check_finished()
        self._pump()

    def _accept(self, now_s: float, kind: DatagramKind, payload: bytes) -> None:
        if kind == DatagramKind.RESET:
            self._finish(ConnectionResetError("the other side broke the tunnel off"))
            return
        if kind == DatagramKind.FIN and not payload:  # the peer had not received anything from us yet
            return
        ack = Acknowledgement.from_wire(payload)
        if ack is None or not self.sender.on_ack(now_s, ack):
            self.receiver.refuse("malformed")

    def _deliver(self) -> None:
        incoming = self.receiver.incoming
        if self.is_closing():
            incoming.take()
        elif not self._is_reading:
            incoming.settle()
        else:
            if incoming.ready_bytes:
                self._call(self._protocol.data_received, incoming.take())
            if self.receiver.has_ended and self.is_reading() and not self._has_delivered_eof:
                self._has_delivered_eof = True
                if not self._call(self._protocol.eof_received):
                    self.close()

    def _resume(self) -> None:
        self._deliver()
        if self.receiver.owes_limit:
            self.receiver.ack_due = True
            self._answer(self._loop.time())

    def _acknowledgement(self, now_s: float) -> bytes:
        ack = self.receiver.acknowledgement(now_s)
        return b"" if ack is None else ack.to_wire()

    def _answer(self, now_s: float) -> None:
        if self.receiver.ack_due and self._has_port:
            payload = self._acknowledgement(now_s)
            self.receiver.ack_due = not self.sender.send_alone(now_s, DatagramKind.ACK, payload)

    def _call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return method(*arguments)
        except Exception as error:
            context = {"message": "a protocol raised an error, so its tunnel was aborted", "exception": error}
            self._loop.call_exception_handler({**context, "transport": self, "protocol": self._protocol})
            self._reset(error)
            return None

    # -- sending -------------------------------------------------------------------------------------------

    def _pump_soon(self) -> None:
        if self._pump_handle is None and not self._is_over:
            self._pump_handle = self._loop.call_soon(self._pump_again)

    def _pump_again(self) -> None:
        self._pump_handle = None
        self._pump()

    def _pump(self) -> None:
        """Send all that may be sent now, and schedule the rest."""
        if self._is_over:
            return
        for _ in range(_BATCHES_PER_TURN):
            now_s = self._loop.time()
            wait_s = self.sender.wait_s(now_s)
            if wait_s is None:
                break
            if wait_s > 0:
                if self._pump_handle is None:
                    self._pump_handle = self._loop.call_later(wait_s, self._pump_again)
                break
            self.sender.send_batch(now_s)
        else:
            self._pump_soon()
        if self._has_paused_protocol and self.get_write_buffer_size() <= self._low_bytes:
            self._has_paused_protocol = False
            self._call(self._protocol.resume_writing)
        self._set_timer()

    def _writable(self) -> None:
        self.sender.port_is_full = False
        self._answer(self._loop.time())
        self._pump_soon()

    # -- time ----------------------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        """Set the timer to the next deadline or earlier.

        Firing early and setting it again is cheaper than moving it.
        """
        if self._is_over:
            return
        deadline_s = min(self.sender.deadline_s, self.receiver.received_s + self._silence_s)
        if self._timer is not None:
            if self._timer.when() <= deadline_s:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now_s = self._loop.time()
        if now_s >= self.receiver.received_s + self._silence_s:
            text = f"nothing was received from the other side for {self._silence_s:g} s: it is gone, or the "
            self._finish(PathUnavailable(text + "network between the two carries no UDP any more"))
            return
        self.sender.on_deadline(now_s)
        self._check_finished()
        self._pump()

    # -- endings -------------------------------------------------------------------------------------------

    def _check_finished(self) -> None:
        sender, receiver = self.sender, self.receiver
        if self._is_over:
            if receiver.is_complete and self._has_port:
                for _ in range(_LAST_COPIES):
                    receiver.ack_due = True
                    self._answer(self._loop.time())
                self._release_port()
        elif self._is_closing:
            # the other side had all of our stream and left, and its last acknowledgement was lost
            left = receiver.is_complete and sender.all_but_the_end_arrived
            if sender.is_finished or (left and sender.recovery.probes >= _PATIENT_PROBES):
                self._finish(None)

    def _finish(self, error: Exception | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        for handle in (self._pump_handle, self._timer):
            if handle is not None:
                handle.cancel()
        self._loop.call_soon(self._protocol.connection_lost, error)
        if error is None and not self.receiver.is_complete and self.sender.is_finished:
            # stay for a while to acknowledge the end of the peer's stream
            self._linger = self._loop.call_later(_LINGER_S, self._release_port)
        else:
            self._release_port()

    def _reset(self, error: Exception | None) -> None:
        if self._has_port:
            for _ in range(_LAST_COPIES):
                self.sender.send_alone(self._loop.time(), DatagramKind.RESET, b"")
        self._finish(error)

    def _port_closed(self, error: Exception | None) -> None:
        self._finish(error or PathUnavailable("the connection that carried the tunnel is closed"))

    def _release_port(self) -> None:
        if self._has_port:
            self._has_port = False
            if self._linger is not None:
                self._linger.cancel()
            self._port.close()

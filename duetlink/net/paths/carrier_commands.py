"""Receives the peer's messages about carried paths, checks them, and passes them to the path they name."""

from __future__ import annotations

from abc import ABC, abstractmethod

from duetlink.base.wire import schema_pb2 as pb
from duetlink.errors import LimitExceeded, PathUnavailable, RemoteProtocolError
from duetlink.net.carrier.drivers.driver import MAX_SIGNAL_BYTES
from duetlink.net.peer.rpc import Rpc

ATTEMPT_ID_BYTES = 16
KEY_BYTES = 32

_MAX_WHY = 500


class Carried(ABC):
    """The handlers of a carried path for the peer's messages."""

    @abstractmethod
    def peer_opens(self, opening: pb.CarrierOpen) -> None:
        """The peer has begun an attempt. Raise PathUnavailable to refuse it."""

    @abstractmethod
    def peer_wants(self) -> None:
        """The peer asks this side to begin an attempt. Raise PathUnavailable to refuse."""

    @abstractmethod
    def peer_signals(self, attempt_id: bytes, payload: bytes) -> None:
        """The peer's helper sent a message for the helper here."""

    @abstractmethod
    def peer_ended(self, attempt_id: bytes, why: str) -> None:
        """The attempt has ended on the other side."""


class CarrierCommands:
    """One per link.

    Calls about paths that this side does not allow are refused; notices about them are ignored.
    """

    def __init__(self, rpc: Rpc, allowed: tuple[str, ...]) -> None:
        self._allowed = allowed
        self._paths: dict[str, Carried] = {}
        rpc.handle(pb.CarrierOpen, self._open)
        rpc.handle(pb.CarrierWanted, self._wanted)
        rpc.notice(pb.CarrierSignal, self._signal)
        rpc.notice(pb.CarrierEnd, self._end)

    def serve(self, name: str, path: Carried) -> None:
        self._paths[name] = path

    def _path(self, name: str) -> Carried:
        if name not in self._paths:
            raise PathUnavailable(f"the peer allows only these paths: {', '.join(self._allowed)}")
        return self._paths[name]

    async def _open(self, opening: pb.CarrierOpen) -> pb.Done:
        if len(opening.attempt_id) != ATTEMPT_ID_BYTES or len(opening.key) != KEY_BYTES:
            raise RemoteProtocolError("the peer began an attempt with an id or key of the wrong length")
        self._path(opening.path).peer_opens(opening)
        return pb.Done()

    async def _wanted(self, wanted: pb.CarrierWanted) -> pb.Done:
        self._path(wanted.path).peer_wants()
        return pb.Done()

    def _signal(self, signal: pb.CarrierSignal) -> None:
        if len(signal.payload) > MAX_SIGNAL_BYTES:
            raise LimitExceeded(f"the peer's helper sent a message of {len(signal.payload)} bytes")
        if (path := self._paths.get(signal.path)) is not None:
            path.peer_signals(signal.attempt_id, signal.payload)

    def _end(self, end: pb.CarrierEnd) -> None:
        if (path := self._paths.get(end.path)) is not None:
            path.peer_ended(end.attempt_id, end.why[:_MAX_WHY])

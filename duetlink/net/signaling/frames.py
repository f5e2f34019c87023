"""Frames between a client and the mailbox server: bytes to protobuf and back, with nothing taken on trust."""

from __future__ import annotations

from duetlink.base.wire.envelope import parsed
from duetlink.errors import RemoteProtocolError
from duetlink.net.signaling import schema_pb2 as pb
from duetlink.net.signaling.base import Mood

PATH = "/v1"
HEALTH = "duetlink signaling server, protocol v1\n"
HEARTBEAT_S = 20.0  # WebSocket pings, from either end
OVERHEAD_BYTES = 64  # of a frame over the message that it carries

_MOODS: dict[Mood, pb.Mood] = {
    "happy": pb.HAPPY,
    "wrong-code": pb.WRONG_CODE,
    "lonely": pb.LONELY,
    "errory": pb.ERRORY,
}


def mood_to_wire(mood: Mood) -> pb.Mood:
    return _MOODS.get(mood, pb.ERRORY)


def mood_from_wire(wire: int) -> Mood:
    """The mood; one that a newer version may have added counts as "errory"."""
    return next((mood for mood, number in _MOODS.items() if number == wire), "errory")


def read_client_frame(data: bytes) -> pb.ClientFrame:
    """Raises RemoteProtocolError unless the bytes are one client frame with a body."""
    frame = parsed(pb.ClientFrame, data, "the bytes are no client frame")
    if frame.WhichOneof("body") is None:
        raise RemoteProtocolError("a client frame without a body")
    return frame


def read_server_frame(data: bytes) -> pb.ServerFrame:
    """Raises RemoteProtocolError unless the bytes are one server frame with a body."""
    frame = parsed(pb.ServerFrame, data, "the bytes are no server frame")
    if frame.WhichOneof("body") is None:
        raise RemoteProtocolError("a server frame without a body")
    return frame

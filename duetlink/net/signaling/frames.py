"""Frames between a client and the signaling server, as bytes and as protobuf. Input is not trusted."""

from __future__ import annotations

from duetlink.base.wire.envelope import parsed
from duetlink.errors import RemoteProtocolError
from duetlink.net.signaling import schema_pb2 as pb
from duetlink.net.signaling.base import Mood

PATH = "/v1"
HEALTH = "duetlink signaling server, protocol v1\n"
HEARTBEAT_S = 20.0  # WebSocket pings, from either end
OVERHEAD_BYTES = 64  # the most bytes of a frame in addition to its message

_MOODS: dict[Mood, pb.Mood] = {
    "happy": pb.HAPPY,
    "wrong-code": pb.WRONG_CODE,
    "lonely": pb.LONELY,
    "errory": pb.ERRORY,
}


def mood_to_wire(mood: Mood) -> pb.Mood:
    return _MOODS.get(mood, pb.ERRORY)


def mood_from_wire(wire: int) -> Mood:
    """Return the mood; one of a newer version counts as "errory"."""
    return next((mood for mood, number in _MOODS.items() if number == wire), "errory")


def read_client_frame(data: bytes) -> pb.ClientFrame:
    """Parse one client frame. Raises RemoteProtocolError if it is malformed or has no body."""
    frame = parsed(pb.ClientFrame, data, "the bytes are not a client frame")
    if frame.WhichOneof("body") is None:
        raise RemoteProtocolError("a client frame without a body")
    return frame


def read_server_frame(data: bytes) -> pb.ServerFrame:
    """Parse one server frame. Raises RemoteProtocolError if it is malformed or has no body."""
    frame = parsed(pb.ServerFrame, data, "the bytes are not a server frame")
    if frame.WhichOneof("body") is None:
        raise RemoteProtocolError("a server frame without a body")
    return frame

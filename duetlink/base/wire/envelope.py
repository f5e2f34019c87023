"""Envelopes: one message body with the numbers that connect calls and replies. Pure: bytes in, values out."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from duetlink.base.wire import schema_pb2 as pb
from duetlink.errors import RemoteProtocolError

# message type -> the field of the oneof that holds it
_FIELDS: dict[str, str] = {
    field.message_type.full_name: field.name
    for field in pb.Envelope.DESCRIPTOR.oneofs_by_name["body"].fields
    if field.message_type is not None
}


M = TypeVar("M", bound=Message)


def parsed(kind: type[M], data: bytes, problem: str) -> M:
    """Parse a protobuf message from outside; raise RemoteProtocolError with `problem` if that fails."""
    try:
        return kind.FromString(data)
    except DecodeError:
        raise RemoteProtocolError(problem) from None


def pack(body: Message, *, call_id: int = 0, reply_to: int = 0, deadline_s: float = 0.0) -> bytes:
    """Return a body as the bytes of its envelope."""
    envelope = pb.Envelope(id=call_id, reply_to=reply_to, deadline_ms=round(deadline_s * 1000))
    getattr(envelope, _FIELDS[body.DESCRIPTOR.full_name]).CopyFrom(body)
    return envelope.SerializeToString()


def unpack(data: bytes) -> tuple[pb.Envelope, Message]:
    """Return the envelope in `data` and its body; raise RemoteProtocolError if it is malformed.

    Protobuf itself bounds nesting (100 levels); the length was bounded before (`fragments`).
    """
    envelope = parsed(pb.Envelope, data, f"the peer sent {len(data)} bytes that are not a control message")
    field = envelope.WhichOneof("body")
    if field is None:
        raise RemoteProtocolError(
            "the peer sent a control message of a kind unknown here; update duetlink on the older side"
        )
    return envelope, getattr(envelope, field)

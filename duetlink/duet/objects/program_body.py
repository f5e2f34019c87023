"""How a program travels: with the message where it is small, else fetched by the other side."""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import AsyncIterator

from duetlink.base.wire import schema_pb2 as pb
from duetlink.compute.operations.canonical import Program
from duetlink.errors import LimitExceeded, RemoteProtocolError
from duetlink.net.flight.body import Outgoing
from duetlink.net.link.link import Link

_INLINE_BYTES = 256 * 1024


@contextlib.asynccontextmanager
async def offered(link: Link, program: Program) -> AsyncIterator[pb.ProgramBody]:
    """The message that has it. What the peer has not fetched when the block ends is taken back."""
    segments = program.segments
    size_bytes = sum(map(len, segments))
    if size_bytes <= _INLINE_BYTES:
        yield pb.ProgramBody(compressed=zlib.compress(b"".join(segments), 1))
        return
    outgoing = await asyncio.to_thread(Outgoing, segments, size_bytes)
    best = link.path_selector.best
    offer = await link.exports.offer("program", outgoing, best.name if best else "")
    try:
        yield pb.ProgramBody(offer=offer)
    finally:
        link.exports.withdraw(offer)


async def received(link: Link, sent: pb.ProgramBody, limit_bytes: int) -> memoryview:
    """What a message has of a program, which may be anything.

    Raises:
        RemoteProtocolError, LimitExceeded: it is none, or too large.
        TransferFailed: it has not come.
    """
    which = sent.WhichOneof("body")
    if which == "offer":
        return await link.imports.pull("program", sent.offer, limit_bytes)
    if which is None:
        raise RemoteProtocolError("a program is nothing")
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(sent.compressed, _INLINE_BYTES)
    except zlib.error:
        raise RemoteProtocolError("a program does not decompress") from None
    if stream.unconsumed_tail:
        raise LimitExceeded(f"a program of over {_INLINE_BYTES:,} bytes came without being offered")
    if not stream.eof:
        raise RemoteProtocolError("a program is cut short")
    return memoryview(content)

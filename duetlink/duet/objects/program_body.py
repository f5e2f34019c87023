"""The transport of a program: in the message if it is small, else by a transfer that the receiver fetches."""

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
    """Yield the message that carries the program. When the block ends, an offer that was not fetched is
    withdrawn.
    """
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
    """Return the bytes of a program that a message carries or offers. They are not checked.

    Raises:
        RemoteProtocolError, LimitExceeded: it is malformed or too large.
        TransferFailed: it has not arrived.
    """
    which = sent.WhichOneof("body")
    if which == "offer":
        return await link.imports.pull("program", sent.offer, limit_bytes)
    if which is None:
        raise RemoteProtocolError("a program is empty")
    stream = zlib.decompressobj()
    try:
        content = stream.decompress(sent.compressed, _INLINE_BYTES)
    except zlib.error:
        raise RemoteProtocolError("a program does not decompress") from None
    if stream.unconsumed_tail:
        raise LimitExceeded(f"a program of over {_INLINE_BYTES:,} bytes came without being offered")
    if not stream.eof:
        raise RemoteProtocolError("a program is incomplete")
    return memoryview(content)

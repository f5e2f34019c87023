"""One WebRTC connection: what it says when the peer cannot be reached."""

from __future__ import annotations

import asyncio
import gc
import re

import pytest
from aiortc import RTCDtlsTransport

from duetlink.errors import PeerUnreachable
from duetlink.net.peer.connection import PeerConnection
from duetlink.testing.faults import replace_function


async def test_a_peer_without_a_path_is_told_with_what_was_tried() -> None:
    here, there = PeerConnection([]), PeerConnection([])
    try:
        answer = await there.answer(await here.offer())
        # as from a peer whose firewall lets nothing through, not even to a STUN server
        await here.accept(re.sub(rb"a=candidate:.*?\\r\\n", b"", answer))
        with pytest.raises(PeerUnreachable, match=r"\(\d+ addresses here, 0 at the peer\); where both sides"):
            await here.wait_open(30)
    finally:
        await here.close()
        await there.close()


async def connected() -> tuple[PeerConnection, PeerConnection]:
    one, other = PeerConnection([]), PeerConnection([])
    await one.accept(await other.answer(await one.offer()))
    await asyncio.gather(one.wait_open(60), other.wait_open(60))
    return one, other


async def test_what_is_sent_as_the_connection_goes_is_lost_in_silence(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = await connected()
    tried = asyncio.Event()

    async def send_data(transport: RTCDtlsTransport, data: bytes) -> None:
        tried.set()
        raise ConnectionError("Cannot send encrypted data, not connected")  # as aiortc does then

    replace_function(monkeypatch, RTCDtlsTransport, "send_data", send_data)
    one.control.send_nowait(b"too late")
    await asyncio.wait_for(tried.wait(), 60)
    for _ in range(3):
        await asyncio.sleep(0)
    gc.collect()  # asyncio tells of an exception that nobody asked for when its task is collected
    monkeypatch.undo()
    await asyncio.gather(one.close(), other.close())
    assert [record for record in caplog.records if record.name == "asyncio"] == []


async def test_other_exceptions_of_tasks_are_shown(caplog: pytest.LogCaptureFixture) -> None:
    connection = PeerConnection([])

    async def fail() -> None:
        raise ConnectionError("one of ours")

    await asyncio.wait((asyncio.ensure_future(fail()),))
    gc.collect()
    await connection.close()
    assert ["one of ours" in str(record.exc_info) for record in caplog.records] == [True]


async def test_a_close_that_is_cancelled_breaks_no_other_one(caplog: pytest.LogCaptureFixture) -> None:
    one, other = await connected()
    closing = [asyncio.ensure_future(one.close()) for _ in range(2)]
    await asyncio.sleep(0)
    closing[1].cancel()
    await asyncio.wait(closing)
    await asyncio.gather(one.close(), other.close())
    gc.collect()
    assert [record for record in caplog.records if record.name == "asyncio"] == []

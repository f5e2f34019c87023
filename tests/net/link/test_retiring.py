"""What becomes of offers whose data is shared no longer: waiting pulls, early words, what has begun."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable
from typing import Any

import numpy as np
import pytest

from duetlink.base.wire import failures
from duetlink.base.wire import schema_pb2 as pb
from duetlink.errors import AssetChanged, TicketRefused
from duetlink.net.flight.body import Outgoing, ReceiveBuffer
from duetlink.net.flight.sending import Order
from duetlink.net.link import exports
from duetlink.net.paths.base import Path
from duetlink.net.paths.tcp import TcpPath
from duetlink.settings import Settings
from duetlink.testing.faults import kept_counts, open_exports, set_constants

MIB = 1024 * 1024
ANY = 1 << 40
SOURCES = frozenset({("ages", 1), ("sizes", 4)})
WHY = "'ages' was shared again; ask for the new revision"


def body_of(size_bytes: int = MIB) -> Outgoing:
    return Outgoing([np.zeros(size_bytes, np.uint8).data], size_bytes)


async def soon(waiting: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(waiting, 30)


@pytest.fixture
async def pair(make_pair: Any) -> Any:
    receiver, sender = await make_pair(Settings(only=("tcp",)))
    await soon(asyncio.gather(receiver.path_selector.wait_best({}), sender.path_selector.wait_best({})))
    return receiver, sender


@pytest.mark.parametrize("source", [("ages", 1), ("sizes", 4)])
async def test_a_pull_that_waits_fails_when_any_of_its_sources_is_retired(
    pair: Any, source: tuple[str, int]
) -> None:
    receiver, sender = pair
    sender.exports.pause(True)
    offer = await sender.exports.offer("ages / sizes", body_of(), "tcp", sources=SOURCES)
    pulling = asyncio.ensure_future(receiver.imports.pull("ages / sizes", offer, ANY))
    await receiver.ping()
    sender.exports.retire(*source, WHY)
    with pytest.raises(AssetChanged) as raised:
        await soon(pulling)
    assert str(raised.value) == WHY
    for link in (receiver, sender):
        (transfer,) = link.traffic.transfers
        assert (transfer.state, transfer.why, transfer.done_bytes) == ("failed", WHY, 0)


@pytest.mark.parametrize("source", [("ages", 2), ("sizes", 1), ("names", 1)])
async def test_other_revisions_and_names_stay_offered(pair: Any, source: tuple[str, int]) -> None:
    receiver, sender = pair
    offer = await sender.exports.offer("ages / sizes", body_of(), "tcp", sources=SOURCES)
    sender.exports.retire(*source, WHY)
    assert len(await soon(receiver.imports.pull("ages / sizes", offer, ANY))) == MIB


async def test_a_pull_that_begins_after_its_source_was_retired_fails_with_its_words(pair: Any) -> None:
    receiver, sender = pair
    offer = await sender.exports.offer("ages", body_of(), "tcp", sources=SOURCES)
    sender.exports.retire("ages", 1, WHY)
    await sender.ping()
    for _ in range(2):  # the second time, only the sender knows what has become of it
        with pytest.raises(AssetChanged) as raised:
            await soon(receiver.imports.pull("ages", offer, ANY))
        assert str(raised.value) == WHY
        offer.ClearField("ticket")


async def test_a_transfer_that_has_begun_finishes(pair: Any) -> None:
    receiver, sender = pair
    sender.tuning.rate_cap.set_rate(8e6, time.monotonic())
    offer = await sender.exports.offer("ages", body_of(8 * MIB), "tcp", sources=SOURCES)
    pulling = asyncio.ensure_future(receiver.imports.pull("ages", offer, ANY))
    (transfer,) = sender.traffic.transfers
    while not transfer.done_bytes:
        await asyncio.sleep(0)
    sender.exports.retire("ages", 1, WHY)
    assert transfer.running
    sender.tuning.rate_cap.set_rate(None, time.monotonic())
    assert len(await soon(pulling)) == 8 * MIB
    await receiver.ping()
    assert transfer.state == "complete"


async def test_an_offer_whose_source_is_retired_while_its_ticket_is_made_is_not_made(
    pair: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, sender = pair
    make = TcpPath.offer

    async def retire_and_make(path: TcpPath, number: bytes, outgoing: Outgoing, order: Order) -> pb.Ticket:
        ticket = await make(path, number, outgoing, order)
        sender.exports.retire("ages", 1, WHY)
        return ticket

    monkeypatch.setattr(TcpPath, "offer", retire_and_make)
    with pytest.raises(AssetChanged, match="shared again"):
        await sender.exports.offer("ages", body_of(), "tcp", sources=SOURCES)
    assert not any(export.sources for export in open_exports(sender).values())


async def test_what_was_retired_is_not_remembered_for_ever(
    pair: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, sender = pair
    set_constants(monkeypatch, exports, REMEMBERED=20)
    for _ in range(30):
        await sender.exports.offer("ages", body_of(), sources=SOURCES)
        sender.exports.retire("ages", 1, WHY)
    assert kept_counts(sender.exports)["retired"] == 20


async def test_memory_that_was_given_up_is_no_fault_of_the_path(
    make_pair: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver, sender = await make_pair(Settings(only=("local",)))
    await soon(asyncio.gather(receiver.path_selector.wait_best({}), sender.path_selector.wait_best({})))
    offer = await sender.exports.offer("ages", body_of(), "local", sources=SOURCES)
    monkeypatch.setattr(receiver.imports.pulls, "peer_ended", lambda end: None)  # the news is late
    down: list[Path] = []
    monkeypatch.setattr(receiver.path_selector, "mark_down", lambda path, error: down.append(path))
    sender.exports.retire("ages", 1, WHY)
    with pytest.raises(AssetChanged, match="shared again"):
        await soon(receiver.imports.pull("ages", offer, ANY))
    assert down == []


@pytest.mark.parametrize("rounds", range(5))
async def test_a_fetch_that_fails_as_its_pull_is_ended_leaves_no_error_behind(
    pair: Any, monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    receiver, sender = pair
    offer = await sender.exports.offer("ages", body_of(), "tcp", sources=SOURCES)
    failure = failures.to_wire(AssetChanged(WHY))

    async def fetch(path: TcpPath, ticket: pb.Ticket, receive_buffer: ReceiveBuffer) -> None:
        receiver.imports.pulls.peer_ended(pb.TransferEnd(transfer_id=offer.transfer_id, failure=failure))
        for _ in range(rounds):
            await asyncio.sleep(0)
        raise TicketRefused("void")

    monkeypatch.setattr(TcpPath, "fetch", fetch)
    unheard: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: unheard.append(context))
    with pytest.raises(AssetChanged, match="shared again"):
        await soon(receiver.imports.pull("ages", offer, ANY))
    gc.collect()
    assert unheard == []

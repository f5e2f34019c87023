"""Two links: what they agree on, what goes encoded, and what need not go at all."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pandas as pd
import pytest

from duetlink.base.wire import schema_pb2 as pb
from duetlink.data import values
from duetlink.data.codecs import registry
from duetlink.data.codecs.base import Array, Codec
from duetlink.data.codecs.element import Element
from duetlink.data.tuning import Tuner
from duetlink.data.values.base import Part
from duetlink.errors import (
    LocalProtocolError,
    RemoteProtocolError,
    SettingError,
    TicketRefused,
    TransferFailed,
    ValueRefused,
)
from duetlink.net.flight.body import Outgoing
from duetlink.net.link.holding import parts_to_wire, segments
from duetlink.net.link.link import Link
from duetlink.net.link.transfer import TransferStatus
from duetlink.settings import Settings
from duetlink.testing.faults import use_codec

ANY = 1 << 40
NETWORK = Settings(only=("tcp",))


def outgoing(obj: Any) -> Outgoing:
    encoded = values.encode(obj)
    return Outgoing(encoded.segments, encoded.size_bytes, encoded.parts)


async def fetch(receiver: Link, sender: Link, obj: Any, name: str = "x") -> tuple[Any, TransferStatus]:
    """What arrives, and what the receiver counted."""
    best = sender.path_selector.best
    offer = await sender.exports.offer(name, outgoing(obj), best.name if best else "")
    body = await receiver.imports.pull(name, offer, ANY)
    await asyncio.sleep(0)  # the last count is a callback of this loop
    await receiver.ping()
    await sender.ping()
    return values.decode(body), receiver.statistics("").transfers[-1]


# -- what they agree on --------------------------------------------------------------------------------------


@pytest.fixture
async def pair(make_pair: Any) -> tuple[Link, Link]:
    one, other = await make_pair(NETWORK)
    await one.path_selector.wait_best({})
    await other.path_selector.wait_best({})
    return one, other


async def test_a_change_of_either_side_is_in_force_on_both(pair: tuple[Link, Link]) -> None:
    one, other = pair
    await one.agreement.change({"objective": "bytes"})
    await other.agreement.change({"codec": {"tensor": "zstd"}, "mode": "manual"})
    for side in pair:
        compression = side.agreement.compression
        assert (compression.objective, compression.mode, compression.version) == ("bytes", "manual", 2)
        assert dict(compression.codec) == {"bytes": "auto", "tensor": "zstd", "gradient": "auto"}


async def test_a_codec_that_one_side_wants_is_loaded_by_the_other(
    pair: tuple[Link, Link], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = pair
    loading: list[str] = []
    monkeypatch.setattr(Tuner, "load_for_peer", lambda self, name: loading.append(name))
    await asyncio.to_thread(one.tuning.tuner.load, registry.named("bitshuffle"))
    await one.ping()
    assert loading == ["bitshuffle"]


@pytest.mark.parametrize("asking", [0, 1])
async def test_what_cannot_be_is_refused_and_changes_nothing(pair: tuple[Link, Link], asking: int) -> None:
    for fields in (
        {"objective": "beauty"},
        {"codec": {"tensor": "nonesuch"}},
        {"level": {"bytes": 3}},
        {"rate_cap_bytes_per_s": -1.0},
        {"colour": "red"},
        {"self": 1},
        {"version": 7},
    ):
        with pytest.raises(SettingError):
            await pair[asking].agreement.change(fields)
    assert [side.agreement.compression.version for side in pair] == [0, 0]


@pytest.mark.parametrize("asking", [0, 1])
async def test_a_field_can_be_set_to_what_was_read_of_it(pair: tuple[Link, Link], asking: int) -> None:
    agreement = pair[asking].agreement
    await agreement.change({"codec": {"tensor": "zstd"}})
    await agreement.change({"codec": agreement.compression.codec, "level": agreement.compression.level})
    assert [side.agreement.compression.codec["tensor"] for side in pair] == ["zstd", "zstd"]


async def test_changes_at_the_same_time_settle_alike(pair: tuple[Link, Link]) -> None:
    one, other = pair
    changes = [
        one.agreement.change({"objective": "bytes"}),
        other.agreement.change({"objective": "cpu"}),
        one.agreement.change({"pin": True}),
        other.agreement.change({"rate_cap_bytes_per_s": 1e6}),
    ]
    await asyncio.gather(*changes)
    assert one.agreement.compression == other.agreement.compression
    compression = one.agreement.compression
    assert compression.objective in ("bytes", "cpu")
    assert (compression.pin, compression.rate_cap_bytes_per_s, compression.version) == (True, 1e6, 4)


async def test_undo_takes_back_one_change_at_a_time_whoever_made_it(pair: tuple[Link, Link]) -> None:
    one, other = pair
    await one.agreement.change({"objective": "bytes"})
    await other.agreement.change({"objective": "cpu"})
    await one.agreement.undo()
    assert [side.agreement.compression.objective for side in pair] == ["bytes", "bytes"]
    await one.agreement.undo()
    assert [side.agreement.compression.objective for side in pair] == ["throughput", "throughput"]
    with pytest.raises(SettingError, match="no change"):
        await one.agreement.undo()


async def test_a_change_that_nobody_waits_for_any_more_is_on_both_sides_or_on_neither(
    pair: tuple[Link, Link],
) -> None:
    for side in pair:
        changing = asyncio.ensure_future(side.agreement.change({"objective": "bytes"}))
        await asyncio.sleep(0)
        changing.cancel()
        await asyncio.gather(changing, return_exceptions=True)
        for link in pair:  # whatever was on its way has arrived
            await link.ping()
            await link.ping()
        assert pair[0].agreement.compression == pair[1].agreement.compression


async def test_a_peer_cannot_set_a_version(pair: tuple[Link, Link]) -> None:
    initiator, other = pair
    with pytest.raises(LocalProtocolError, match="names no fields"):
        await other.rpc.call(pb.CompressionChange(fields=b'{"version": 7}'), pb.Done)
    assert initiator.agreement.compression.version == 0


@pytest.mark.parametrize(
    ("fields", "why"),
    [(b'{"objective": "beauty"}', "objective must be one of"), (b'{"self": 1}', "compression has no self")],
)
async def test_a_peer_that_asks_for_nonsense_hears_why(
    pair: tuple[Link, Link], fields: bytes, why: str
) -> None:
    _, other = pair
    with pytest.raises(ValueRefused, match=why):
        await other.rpc.call(pb.CompressionChange(fields=fields), pb.Done)


# -- what goes encoded ---------------------------------------------------------------------------------------


async def test_a_configured_codec_is_used_and_seen_on_the_wire(pair: tuple[Link, Link]) -> None:
    receiver, sender = pair
    await receiver.agreement.change({"mode": "manual", "codec": {"tensor": "zstd"}})
    array = np.zeros(1_000_000)
    arrived, transfer = await fetch(receiver, sender, array)
    assert np.array_equal(arrived, array)
    assert transfer.done_bytes == transfer.size_bytes > 8_000_000
    assert transfer.wire_bytes < 100_000
    assert sender.statistics("").sent_wire_bytes < 100_000


async def test_raw_goes_as_it_is(pair: tuple[Link, Link]) -> None:
    receiver, sender = pair
    await receiver.agreement.change({"mode": "manual", "codec": {"tensor": "raw", "bytes": "raw"}})
    _, transfer = await fetch(receiver, sender, np.zeros(1_000_000))
    assert transfer.wire_bytes == transfer.size_bytes


class Unreliable(Codec):
    """Encodes to what it cannot decode."""

    number, name, kind = 0x8002, "unreliable", "tensor"

    def encode(self, array: Array, element: Element, level: int) -> bytes:
        return b"?"

    def decode(self, payload: memoryview, element: Element, shape: tuple[int, ...]) -> Array:
        raise ValueError("it was not kept")


def install_unreliable(monkeypatch: pytest.MonkeyPatch) -> None:
    use_codec(monkeypatch, Unreliable())


async def test_what_does_not_decode_is_sent_again_as_it_is(
    make_pair: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_unreliable(monkeypatch)
    receiver, sender = await make_pair(NETWORK)
    await receiver.agreement.change({"mode": "manual", "codec": {"tensor": "unreliable"}})
    array = np.random.default_rng(0).normal(size=1_000_000)
    arrived, transfer = await fetch(receiver, sender, array)
    assert np.array_equal(arrived, array)
    assert transfer.state == "complete"


async def test_a_codec_that_the_peer_lacks_cannot_be_configured(
    make_pair: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver, sender = await make_pair(NETWORK)
    install_unreliable(monkeypatch)
    with pytest.raises(SettingError, match="not available on both sides"):
        await sender.agreement.change({"codec": {"tensor": "unreliable"}})
    assert receiver.agreement.compression.version == 0


# -- what need not go ----------------------------------------------------------------------------------------


async def look_always(side: Link) -> None:
    """This host's own network is too fast to look for what is there already, unless bytes are dear."""
    await side.agreement.change({"objective": "bytes"})


def frame(rows: int = 40_000) -> pd.DataFrame:
    generator = np.random.default_rng(0)
    return pd.DataFrame({f"c{index}": generator.normal(size=rows) for index in range(25)})


async def test_the_same_object_does_not_travel_twice(pair: tuple[Link, Link]) -> None:
    receiver, sender = pair
    first, _ = await fetch(receiver, sender, frame())
    again, transfer = await fetch(receiver, sender, frame())
    pd.testing.assert_frame_equal(again, first)
    assert transfer.wire_bytes == 0
    assert transfer.done_bytes == transfer.size_bytes > 8_000_000


async def test_a_small_object_does_not_travel_twice(pair: tuple[Link, Link]) -> None:
    receiver, sender = pair
    await fetch(receiver, sender, list(range(5000)))
    again, transfer = await fetch(receiver, sender, list(range(5000)))
    assert again == list(range(5000))
    assert (transfer.wire_bytes, transfer.state) == (0, "complete")


async def test_what_was_received_and_changed_since_is_not_looked_at(pair: tuple[Link, Link]) -> None:
    """The sender must not find out what its receiver made of it."""
    receiver, sender = pair
    await look_always(receiver)
    array = np.random.default_rng(0).normal(size=500_000)
    first, _ = await fetch(receiver, sender, array)
    first[:1000] = 0
    again, transfer = await fetch(receiver, sender, array)
    assert np.array_equal(again, array)
    assert transfer.wire_bytes > 3_000_000


async def test_appended_rows_alone_travel(pair: tuple[Link, Link]) -> None:
    receiver, sender = pair
    await look_always(receiver)
    await fetch(receiver, sender, frame())
    longer = pd.concat([frame(), frame(400)], ignore_index=True)
    arrived, transfer = await fetch(receiver, sender, longer)
    pd.testing.assert_frame_equal(arrived, longer)
    assert transfer.wire_bytes <= 0.05 * transfer.size_bytes


async def test_a_changed_column_alone_travels(pair: tuple[Link, Link]) -> None:
    receiver, sender = pair
    await look_always(receiver)
    await fetch(receiver, sender, frame())
    changed = frame().assign(c7=np.random.default_rng(1).normal(size=40_000))
    arrived, transfer = await fetch(receiver, sender, changed)
    pd.testing.assert_frame_equal(arrived, changed)
    assert transfer.wire_bytes <= 0.05 * transfer.size_bytes


async def test_bytes_inserted_in_front_alone_travel(pair: tuple[Link, Link]) -> None:
    receiver, sender = pair
    await look_always(receiver)
    text = np.random.default_rng(0).integers(0, 256, 4_000_000, np.uint8).tobytes()
    await fetch(receiver, sender, text)
    arrived, transfer = await fetch(receiver, sender, b"a few more bytes" + text)
    assert arrived == b"a few more bytes" + text
    assert transfer.wire_bytes <= 0.05 * transfer.size_bytes


async def test_nothing_is_kept_beyond_the_quota(make_pair: Any) -> None:
    receiver, sender = await make_pair(Settings(only=("tcp",), held_bytes=1000))
    await fetch(receiver, sender, frame())
    _, transfer = await fetch(receiver, sender, frame())
    assert transfer.wire_bytes > 5_000_000  # encoded, perhaps, but all of it


async def test_a_manifest_of_what_was_not_offered_is_refused(pair: tuple[Link, Link]) -> None:
    receiver, _ = pair
    with pytest.raises(TicketRefused, match="no such transfer"):
        await receiver.rpc.call(pb.ManifestQuery(transfer_id=b"?" * 16), pb.Manifest)


async def test_a_manifest_that_is_none_ends_the_transfer(pair: tuple[Link, Link]) -> None:
    receiver, sender = pair
    await look_always(receiver)
    await fetch(receiver, sender, frame())

    async def lie(query: pb.ManifestQuery) -> pb.Manifest:
        return pb.Manifest(content=b"no manifest", key=b"k" * 32)

    sender.rpc.handle(pb.ManifestQuery, lie)
    with pytest.raises((RemoteProtocolError, TransferFailed)):
        await fetch(receiver, sender, frame().assign(c0=0.0))


# -- parts of an offer ---------------------------------------------------------------------------------------


def test_large_arrays_are_told_of() -> None:
    parts = [Part(64, 9000, "float32", 40), Part(9088, 100, "int64", 8), Part(9216, 9000, "uint8", 0)]
    assert parts_to_wire(parts) == [64, 9000, 40]


@pytest.mark.parametrize(
    "numbers",
    [
        [0, 10, 0],
        [0, 10, 11],
        [0, 101, 1],
        [0, 50, 1, 40, 10, 1],
        [1, 1, 1] * 3000,
        [0, 8, 1] * 1_000_000,
    ],
)
def test_parts_that_cannot_be_are_refused(numbers: list[int]) -> None:
    with pytest.raises(RemoteProtocolError):
        segments(numbers, 100)


# -- what differs from a version that the peer has -----------------------------------------------------------


async def test_of_a_table_in_rows_with_a_changed_column_the_column_alone_travels(
    pair: tuple[Link, Link],
) -> None:
    receiver, sender = pair
    await look_always(receiver)
    await receiver.agreement.change({"mode": "manual", "codec": {"tensor": "zstd"}})
    table = np.random.default_rng(0).normal(size=(40_000, 25))
    await fetch(receiver, sender, table)
    changed = table.copy()
    changed[:, 7] = np.random.default_rng(1).normal(size=40_000)
    arrived, transfer = await fetch(receiver, sender, changed)
    assert np.array_equal(arrived, changed)
    assert transfer.wire_bytes <= 0.05 * transfer.size_bytes


async def test_an_earlier_version_that_was_changed_at_either_side_is_no_help_and_no_harm(
    pair: tuple[Link, Link],
) -> None:
    receiver, sender = pair
    await look_always(receiver)
    await receiver.agreement.change({"mode": "manual", "codec": {"tensor": "zstd"}})
    generator = np.random.default_rng(0)
    for at_receiver in (True, False):
        first = generator.normal(size=(20_000, 25))
        arrived, _ = await fetch(receiver, sender, first)
        second = first.copy()
        second[:, 3] = generator.normal(size=20_000)
        (arrived if at_receiver else first)[:] = 0
        arrived, transfer = await fetch(receiver, sender, second)
        assert np.array_equal(arrived, second)
        assert transfer.wire_bytes > 0.5 * transfer.size_bytes


async def test_another_object_of_the_same_name_is_no_help_and_no_harm(pair: tuple[Link, Link]) -> None:
    receiver, sender = pair
    await look_always(receiver)
    await receiver.agreement.change({"mode": "manual", "codec": {"tensor": "zstd"}})
    for seed in range(3):
        array = np.random.default_rng(seed).normal(size=300_000)
        arrived, _ = await fetch(receiver, sender, array)
        assert np.array_equal(arrived, array)

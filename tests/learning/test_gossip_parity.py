"""Parities: what was lost is made again to the bit, for so many bytes more; what cannot be is refused."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.errors import DuetError, OperationMismatch, RemoteProtocolError
from duetlink_gossip.averaging import Fallback, PushSum
from duetlink_gossip.chunks import HEAD_BYTES, PARITY, ChunkHead, Encoded, Strides, encode
from duetlink_gossip.graphs import Graph
from duetlink_gossip.node import GossipNode
from duetlink_gossip.parity import Mending, Parity
from duetlink_gossip.simulated import SimulatedNetwork
from tests.learning.test_gossip_rounds import COUNT, MTU_BYTES, Run, node

PAIR = Graph("ring", 2)


def test_groups_are_as_large_as_asked_for_or_smaller() -> None:
    parity = Parity(10, 4)
    encoded = Encoded([1.0] * 10, np.arange(10, dtype=np.uint8)[:, None], list(range(10)))
    assert parity.groups == 3
    # chunks 0, 3, 6, 9; then 1, 4, 7; then 2, 5, 8; the scale 1.0 is 3f800000
    said = [bytes(7) + bytes([0 ^ 3 ^ 6 ^ 9]), b"\x3f\x80" + bytes(5) + bytes([1 ^ 4 ^ 7])]
    made = parity.make(encoded)
    assert made.shape == (3, 9)
    assert [made[0].tobytes(), made[1].tobytes()] == [said[0] + bytes([12]), said[1] + bytes([2])]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.integers(1, 9), st.integers(0, 1000), st.data())
def test_one_chunk_of_each_group_is_made_again_to_the_bit(
    chunks: int, every: int, seed: int, data: Any
) -> None:
    rng = np.random.default_rng(seed)
    parity = Parity(chunks, every)
    scales, bodies = encode(rng.normal(size=(chunks, 7)).astype(np.float32), "int16", rng)
    encoded = Encoded(scales, bodies, rng.integers(0, 2**32, chunks).tolist())
    parities = parity.make(encoded)
    sizes = [len(range(group, chunks, parity.groups)) for group in range(parity.groups)]
    lost = [group + parity.groups * data.draw(st.integers(0, size - 1)) for group, size in enumerate(sizes)]
    mending, have = Mending(parity, bodies.shape[1]), np.ones(chunks, np.bool_)
    have[lost] = False
    for position in np.flatnonzero(have).tolist():
        mending.add_chunk(position, scales[position], encoded.masses[position], memoryview(bodies[position]))
        assert mending.mend(position % parity.groups, have) is None
    for group, position in enumerate(lost):
        assert mending.add_parity(group, memoryview(parities[group]))
        assert not mending.add_parity(group, memoryview(parities[group]))
        made = mending.mend(group, have)
        assert made is not None
        assert (made.position, made.scale, made.mass) == (
            position,
            scales[position],
            encoded.masses[position],
        )
        assert bytes(made.body) == bodies[position].tobytes()
        assert mending.mend(group, have) is None


@pytest.mark.parametrize(("loss", "push_sum"), [(0.1, False), (0.2, True)])
def test_more_coordinates_are_here_for_a_quarter_more_bytes(loss: float, push_sum: bool) -> None:
    graph = Graph("ring", 4)
    plain = Run(graph, SimulatedNetwork(loss=loss), 8, push_sum=push_sum)
    mended = Run(graph, SimulatedNetwork(loss=loss), 8, push_sum=push_sum, fec=4)

    def share(run: Run) -> float:
        return float(np.mean([mixed.share for each in run.mixed for mixed in each]))

    def usual_s(run: Run) -> float:
        return float(np.median([mixed.duration_s for each in run.mixed for mixed in each]))

    assert share(plain) == pytest.approx(1 - loss, abs=0.03)
    # a chunk is missing where it is lost, and one of its group's four other datagrams as well
    assert share(mended) == pytest.approx(1 - loss * (1 - (1 - loss) ** 4), abs=0.03)
    assert share(mended) > share(plain) + 0.04
    assert sum(mixed.mended for mixed in mended.mixed[0]) > 0
    assert {mixed.mended for each in plain.mixed for mixed in each} == {0}
    # 10 parities of eight bytes more, beside 40 chunks, to each of two neighbours
    assert {mixed.sent_bytes for mixed in plain.mixed[0]} == {2 * 40 * MTU_BYTES}
    assert {mixed.sent_bytes for mixed in mended.mixed[0]} == {2 * (50 * MTU_BYTES + 10 * 8)}
    assert usual_s(mended) < 1.4 * usual_s(plain)
    assert mended.spread < 0.5


def test_where_nothing_is_lost_parities_change_nothing() -> None:
    graph = Graph("ring", 4)
    plain, mended = (Run(graph, SimulatedNetwork(), 5, fec=fec) for fec in (0, 4))
    assert np.array_equal(plain.models, mended.models)
    assert {(m.reason, m.late, m.mended) for each in mended.mixed for m in each} == {("complete", 0, 0)}


def sent(sender: GossipNode) -> list[bytes]:
    """All datagrams of a round of the other one of two, in order."""
    sender.start(np.linspace(-1, 1, COUNT, dtype=np.float32), 0.0)
    found = []
    for at in range(100):
        found += [payload for _, payload in sender.due(float(at))]
    return found


def receiver(**arguments: Any) -> GossipNode:
    made = node(0, PAIR, **arguments)
    made.start(np.zeros(COUNT, np.float32), 0.0)
    return made


def test_a_parity_for_which_there_was_no_room_goes_again_as_what_it_was() -> None:
    sender = node(1, PAIR, fec=4)
    sender.start(np.linspace(-1, 1, COUNT, dtype=np.float32), 0.0)
    found: list[bytes] = []
    for at in range(100):
        for to, payload in sender.due(float(at)):
            if payload not in found:  # the first time, there is never room
                sender.held(to, payload, float(at))
            found.append(payload)
    kinds = [ChunkHead.from_wire(payload).kind for payload in found]
    assert (len(found), kinds.count(PARITY)) == (100, 20)
    assert len(set(found)) == 50


def test_what_is_made_again_is_averaged_as_if_it_had_come() -> None:
    one = receiver(fec=4)
    for payload in sent(node(1, PAIR, fec=4)):
        head = ChunkHead.from_wire(payload)
        if head.kind == PARITY or head.position not in (3, 17):
            one.take(1, payload, 0.01)
    vector, mixed = one.finish(0.02)
    np.testing.assert_allclose(vector, np.linspace(-0.5, 0.5, COUNT), atol=1e-6)
    assert (mixed.reason, mixed.received, mixed.mended) == ("complete", {1: 1.0}, 2)


@pytest.mark.parametrize(
    ("change", "body", "error", "said"),
    [
        ({"position": 10}, None, RemoteProtocolError, "parity 10 of 10"),
        ({}, b"\x00" * 207, RemoteProtocolError, "a parity of 207 bytes, where 208 were due"),
        ({}, struct.pack("!f", np.nan) + bytes(204), RemoteProtocolError, "a scale of nan"),
        ({}, struct.pack("!f", -1.0) + bytes(204), RemoteProtocolError, "a scale of -"),
        ({}, bytes(8) + struct.pack("<f", np.inf) * 50, RemoteProtocolError, "not finite"),
        ({"form": 7}, None, OperationMismatch, "push_sum, fec and mode"),
    ],
)
def test_a_parity_that_cannot_be_is_refused(
    change: Any, body: bytes | None, error: type[DuetError], said: str
) -> None:
    good = sent(node(1, PAIR, fec=4))
    one = receiver(fec=4)
    zeros = {position: bytes(200) for position in range(10, 40, 10)}  # of group 0, all but chunk 0
    for payload in good:
        head = ChunkHead.from_wire(payload)
        if head.position in zeros and head.kind != PARITY:
            one.take(1, head._replace(scale=0.0).to_wire() + zeros[head.position], 0.01)
    parity = next(payload for payload in good if ChunkHead.from_wire(payload).kind == PARITY)
    head = ChunkHead.from_wire(parity)._replace(**change)
    with pytest.raises(error, match=f"rank 1 .*{said}"):
        one.take(1, head.to_wire() + (parity[HEAD_BYTES:] if body is None else body), 0.01)
    one.exclude(1)
    assert np.isfinite(one.finish(0.02)[0]).all()


def test_a_parity_is_refused_where_there_are_none() -> None:
    parity = sent(node(1, PAIR, fec=4))[-1]
    with pytest.raises(RemoteProtocolError, match="rank 1 sent parity 9 of 0"):
        receiver().take(1, parity, 0.01)


def test_every_way_to_average_says_how_long_a_value_is() -> None:
    strides = Strides.fitting(100, 244, 4)
    ways = [Fallback(0, 2, strides.chunks, precision) for precision in ("float32", "int16", "int8")]
    assert [way.item_bytes for way in ways] == [4, 2, 1]
    assert PushSum(strides.chunks, strides.length).item_bytes == 4

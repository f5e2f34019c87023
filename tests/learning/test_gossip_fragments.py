"""Fragments to random members: what counts, what is refused, and that nobody waits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from duetlink.errors import DuetError, OperationMismatch, RemoteProtocolError, SettingError, UnsupportedValue
from duetlink.learning import Gossip
from duetlink_gossip.chunks import ASK, HEAD_BYTES, ChunkHead, Strides
from duetlink_gossip.fragments import FragmentNode, Fragments, recipients
from duetlink_gossip.simulated import SimulatedNetwork, simulate

COUNT = 200
STRIDES = Strides.fitting(COUNT, HEAD_BYTES + 40, 4)  # 20 fragments of 10 numbers


def node(rank: int, size: int, **arguments: Any) -> FragmentNode:
    return FragmentNode(rank, size, STRIDES, "float32", **{"seed": rank} | arguments)


def letters(sender: FragmentNode, until_s: float = 1e6) -> list[tuple[int, bytes]]:
    """All that it has to send, however slowly."""
    found: list[tuple[int, bytes]] = []
    while (now_s := sender.wake_s(0.0)) < until_s and (due := list(sender.due(now_s + 1.0))):
        found += due
    return found


# -- the average -------------------------------------------------------------------------------------------


def test_a_fragment_is_averaged_with_all_that_came_with_the_same_weight_and_once() -> None:
    fragments = Fragments(3)
    own = np.array([[0.0, 6.0], [8.0, 8.0], [1.0, 1.0]], np.float32)
    assert fragments.add(1, 0, 7, np.array([3.0, 6.0], np.float32))
    assert fragments.add(2, 0, 1, np.array([6.0, 0.0], np.float32))
    assert fragments.add(1, 1, 7, np.array([0.0, 4.0], np.float32))
    mixed, counts = fragments.average(own)
    assert mixed.tolist() == [[3.0, 4.0], [4.0, 6.0], [1.0, 1.0]]
    assert counts == {1: 2, 2: 1}
    again, counts = fragments.average(own)
    assert (again.tolist(), counts) == (own.tolist(), {})


def test_numbers_near_the_largest_of_float32_have_a_finite_mean() -> None:
    fragments = Fragments(1)
    fragments.add(1, 0, 1, np.full(2, 3e38, np.float32))
    fragments.add(2, 0, 1, np.full(2, -3e38, np.float32))
    assert fragments.average(np.full((1, 2), 3e38, np.float32))[0].tolist() == [[np.float32(1e38)] * 2]


ARRIVALS = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, 2), st.integers(1, 5), st.floats(-9, 9, width=32)),
    max_size=40,
)


@settings(max_examples=100, deadline=None)
@given(ARRIVALS, st.lists(st.floats(-9, 9, width=32), min_size=3, max_size=3))
def test_only_the_newest_of_each_member_counts(arrivals: Any, own: Any) -> None:
    fragments = Fragments(3)
    newest: dict[tuple[int, int], tuple[int, float]] = {}
    for of, position, round_, value in arrivals:
        taken = fragments.add(of, position, round_, np.array([value], np.float32))
        assert taken == (round_ > newest.get((position, of), (0, 0.0))[0])
        assert not fragments.add(of, position, round_, np.array([99.0], np.float32))  # a duplicate
        if taken:
            newest[position, of] = round_, value
    chunks = np.array(own, np.float32)[:, None]
    mixed, counts = fragments.average(chunks)
    assert sum(counts.values()) == len(newest)
    for position in range(3):
        together = [own[position], *(value for (at, _), (_, value) in newest.items() if at == position)]
        assert mixed[position, 0] == pytest.approx(np.mean(together), abs=1e-5)
        assert min(together) - 1e-5 <= mixed[position, 0] <= max(together) + 1e-5


def test_who_takes_long_holds_so_many_of_a_fragment_and_no_more() -> None:
    fragments = Fragments(1)
    for of in range(1, 101):
        fragments.add(of, 0, 1, np.full(1, of, np.float32))
    mixed, counts = fragments.average(np.zeros((1, 1), np.float32))
    assert sorted(counts) == list(range(85, 101))
    assert mixed[0, 0] == pytest.approx(sum(range(85, 101)) / 17)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(1, 50), st.integers(1, 12), st.integers(0, 1000))
def test_each_fragment_goes_to_so_many_and_each_member_gets_as_many(
    others: int, chunks: int, fanout: int, seed: int
) -> None:
    given_ = recipients(list(range(1, others + 1)), chunks, fanout, np.random.default_rng(seed))
    assert set(given_) == set(range(1, others + 1))
    positions = np.concatenate(list(given_.values()))
    assert np.bincount(positions, minlength=chunks).tolist() == [min(fanout, others)] * chunks
    assert all(len(set(each.tolist())) == len(each) for each in given_.values())
    lengths = [len(each) for each in given_.values()]
    assert max(lengths) - min(lengths) <= 1


def test_members_agree_and_their_mean_drifts_by_chance_alone() -> None:
    """Sends are drawn evenly, so the mean goes nowhere on average, and a little by chance."""
    drifts = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        nodes = [node(rank, 8, seed=100 * seed + rank) for rank in range(8)]
        begin = rng.normal(size=(8, COUNT)).astype(np.float32)
        models = begin.copy()
        for _ in range(25):
            for rank, each in enumerate(nodes):
                each.start(models[rank], 0.0)
            for rank, each in enumerate(nodes):
                for to, payload in letters(each):
                    if rng.random() >= 0.2:
                        nodes[to].take(rank, payload, 0.0)
            models = np.stack([each.finish(0.0)[0] for each in nodes])
        assert np.ptp(models, axis=0).max() < 1e-3
        drifts.append((models.mean() - begin.mean()) / begin.std())
    # of 200 parameters the fragments' own drifts, each of a fifth of the spread or so, all but cancel
    assert np.abs(drifts).max() < 0.12
    assert abs(np.mean(drifts)) < 0.03


# -- a node ------------------------------------------------------------------------------------------------


def test_a_round_sends_every_fragment_to_three_and_ends_at_once() -> None:
    sender = node(0, 6)
    sender.start(np.full(COUNT, 6, np.float32), 0.0)
    assert sender.active
    sent = letters(sender)
    assert len(sent) == 60
    assert {to for to, _ in sent} == {1, 2, 3, 4, 5}
    assert sender.is_over(0.0)
    vector, mixed = sender.finish(0.0)
    assert vector.tolist() == [6.0] * COUNT
    assert (mixed.round, mixed.reason, mixed.share, mixed.sent_bytes) == (
        1,
        "async",
        0.0,
        60 * len(sent[0][1]),
    )
    receiver = node(1, 6)
    for to, payload in sent:
        if to == 1:
            receiver.take(0, payload, 0.0)
            receiver.take(0, payload, 0.0)
    receiver.start(np.zeros(COUNT, np.float32), 0.0)
    vector, mixed = receiver.finish(0.0)
    assert mixed.received == {0: 0.6, 2: 0.0, 3: 0.0, 4: 0.0, 5: 0.0}  # 12 of 20 fragments
    assert mixed.late == 12
    assert sorted(vector.tolist()) == [0.0] * 80 + [3.0] * 120


def test_what_was_not_sent_in_time_gives_way_to_the_next_model() -> None:
    sender = node(0, 2)
    sender.start(np.ones(COUNT, np.float32), 0.0)
    assert 0 < len(list(sender.due(0.0))) < 20
    sender.finish(0.0)
    sender.start(np.full(COUNT, 2, np.float32), 0.0)
    sent = [ChunkHead.from_wire(payload) for _, payload in letters(sender)]
    assert [(head.round, head.mass) for head in sent] == [(2, number) for number in range(20)]


def test_a_path_without_room_gets_it_once_more() -> None:
    sender = node(0, 2)
    sender.start(np.ones(COUNT, np.float32), 0.0)
    first = list(sender.due(0.0))
    assert first
    for to, payload in first:
        sender.held(to, payload, 0.0)
    assert list(sender.due(0.0)) == []
    assert sender.wake_s(0.0) == 0.002
    rest = letters(sender)
    assert rest[: len(first)] == first
    assert len(rest) == 20


def test_rounds_follow_the_fastest_and_what_is_long_ago_counts_no_more() -> None:
    slow, fast = node(0, 2), node(1, 2)
    slow.start(np.ones(COUNT, np.float32), 0.0)
    old = letters(slow)
    for round_ in range(1, 101):
        fast.start(np.zeros(COUNT, np.float32), 0.0)
        newest = letters(fast)
        fast.finish(0.0)
        if round_ == 100:
            fast.take(0, old[0][1], 0.0)  # of round 1: 99 ago
    fast.start(np.zeros(COUNT, np.float32), 0.0)
    assert fast.finish(0.0)[1].received == {0: 0.05}
    fast.take(0, old[1][1], 0.0)
    fast.start(np.zeros(COUNT, np.float32), 0.0)
    mixed = fast.finish(0.0)[1]
    assert (mixed.received, mixed.late, mixed.round) == ({0: 0.0}, 1, 102)
    slow.finish(0.0)
    slow.take(1, newest[0][1], 0.0)
    slow.start(np.ones(COUNT, np.float32), 0.0)
    assert slow.round == 100
    other = node(0, 2)
    other.restore(slow.state())
    assert other.round == 100


@pytest.mark.parametrize(
    ("change", "body", "error", "said"),
    [
        ({"kind": ASK}, b"", RemoteProtocolError, "kind 2"),
        ({"position": 20}, b"", RemoteProtocolError, "fragment 20 of 20"),
        ({"round": 0}, b"", RemoteProtocolError, "round 0"),
        ({"parameters": 7}, b"", OperationMismatch, "a model of 7 parameters"),
        ({"form": 7}, b"", OperationMismatch, "other settings"),
        ({}, b"\x00" * 8, RemoteProtocolError, "a chunk of 48 bytes, where 10 float32 were due"),
        ({}, b"nan", RemoteProtocolError, "not finite"),
    ],
)
def test_a_fragment_that_cannot_be_is_refused(
    change: Any, body: bytes, error: type[DuetError], said: str
) -> None:
    sender, receiver = node(1, 3), node(0, 3)
    sender.start(np.ones(COUNT, np.float32), 0.0)
    (_, good), *_ = letters(sender)
    values = np.full(10, np.nan, "<f4").tobytes() if body == b"nan" else good[HEAD_BYTES:] + body
    with pytest.raises(error, match=f"rank 1 .*{said}"):
        receiver.take(1, ChunkHead.from_wire(good)._replace(**change).to_wire() + values, 0.0)
    receiver.exclude(1)
    receiver.take(1, good, 0.0)
    receiver.start(np.zeros(COUNT, np.float32), 0.0)
    # it is sent one fragment, by which it knows what is amiss, and then nothing
    assert sum(to == 1 for to, _ in letters(receiver)) == 1
    assert receiver.finish(0.0)[1].received == {2: 0.0}
    receiver.start(np.zeros(COUNT, np.float32), 0.0)
    assert {to for to, _ in letters(receiver)} == {2}


def test_a_model_that_is_not_finite_goes_to_nobody() -> None:
    sender = node(0, 2)
    with pytest.raises(UnsupportedValue, match="1 of 200"):
        sender.start(np.array([np.nan] + [0.0] * 199, np.float32), 0.0)
    assert letters(sender) == []


# -- a network ---------------------------------------------------------------------------------------------


def rounds_of(busy_s: Any, loss: float = 0.2) -> tuple[list[list[float]], np.ndarray[Any, Any]]:
    """When each of six members ended each round, in simulated time; and their models, which only average."""
    nodes = [node(rank, 6) for rank in range(6)]
    models = list(np.random.default_rng(2).normal(size=(6, COUNT)).astype(np.float32))
    times_s: list[list[float]] = [[] for _ in nodes]

    def train(rank: int) -> Any:
        busy = busy_s(rank, len(times_s[rank]))
        return None if busy is None else (models[rank], busy)

    def told(rank: int, vector: Any, mixed: Any, now_s: float) -> None:
        assert mixed.duration_s == 0
        models[rank] = vector
        times_s[rank].append(now_s)

    simulate(nodes, SimulatedNetwork(loss=loss), 40, train, told)
    return times_s, np.array(models)


def test_neither_a_dead_member_nor_a_slow_one_costs_the_others_any_time() -> None:
    def busy_s(rank: int, round_: int) -> float | None:
        if rank == 4 and round_ == 5:
            return None
        return 0.35 if rank == 5 else 0.05

    times_s, models = rounds_of(busy_s)
    for rank in range(4):
        assert times_s[rank] == pytest.approx([0.05 * (1 + round_) for round_ in range(len(times_s[rank]))])
        assert len(times_s[rank]) >= 39  # who hears of another's round skips one at most
    assert (len(times_s[4]), len(times_s[5])) == (5, 6)
    alive = models[[0, 1, 2, 3, 5]]
    assert np.ptp(alive[:4], axis=0).max() < 1e-3
    assert np.ptp(alive, axis=0).max() < 0.5  # the slow one's last was a while ago


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"mode": "later"}, "there are rounds, async"),
        ({"mode": "async", "push_sum": True}, "takes no graph, push_sum, repair or fec"),
        ({"mode": "async", "graph": "full"}, "takes no graph, push_sum, repair or fec"),
        ({"mode": "async", "repair": True}, "takes no graph, push_sum, repair or fec"),
        ({"mode": "async", "fec": 4}, "takes no graph, push_sum, repair or fec"),
        ({"mode": "async", "degree": 0}, "go to 0 of 2 members"),
        ({"fec": -1}, "fec is -1 over datagrams"),
        ({"fec": 4, "over": "streams"}, "over streams nothing is lost"),
    ],
)
def test_a_mode_that_cannot_be_is_refused(arguments: Any, said: str) -> None:
    class Nowhere:
        rank, size, mtu_bytes = 0, 2, 1400

        def close(self) -> None:
            pass

    with pytest.raises(SettingError, match=said):
        Gossip(nn.Linear(2, 2), Nowhere(), **arguments)

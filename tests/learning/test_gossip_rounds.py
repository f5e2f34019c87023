"""Rounds of gossip in simulated time: what is lost, late, hostile, paused or dead, and that nobody waits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.errors import OperationMismatch, RemoteProtocolError, UnsupportedValue
from duetlink_gossip.averaging import Fallback, PushSum
from duetlink_gossip.base import Mixed
from duetlink_gossip.chunks import DATA, ChunkHead, Strides
from duetlink_gossip.graphs import Graph
from duetlink_gossip.node import GossipNode
from duetlink_gossip.simulated import SimulatedNetwork, simulate

COUNT = 2_000
MTU_BYTES = 244  # 50 float32 in each of 40 chunks


def node(
    rank: int, graph: Graph, *, push_sum: bool = False, count: int = COUNT, **arguments: Any
) -> GossipNode:
    strides = Strides.fitting(count, MTU_BYTES, 4)
    averaging: Any = (
        PushSum(strides.chunks, strides.length)
        if push_sum
        else Fallback(rank, graph.size, strides.chunks, "float32")
    )
    return GossipNode(rank, graph, strides, averaging, seed=rank, **{"patience_s": 2.0} | arguments)


class Run:
    """Nodes that begin with drawn models and only average."""

    def __init__(
        self,
        graph: Graph,
        network: SimulatedNetwork,
        rounds: int,
        busy_s: Any = lambda rank, round_: 0.0,
        **arguments: Any,
    ) -> None:
        rng = np.random.default_rng(2)
        self.nodes = [node(rank, graph, **arguments) for rank in range(graph.size)]
        self.begin = rng.normal(size=(graph.size, COUNT)).astype(np.float32)
        self.models = list(self.begin)
        self.mixed: list[list[Mixed]] = [[] for _ in self.nodes]
        self.times_s: list[list[float]] = [[] for _ in self.nodes]

        def train(rank: int) -> Any:
            busy = busy_s(rank, len(self.mixed[rank]))
            return None if busy is None else (self.models[rank], busy)

        def told(rank: int, vector: Any, mixed: Mixed, now_s: float) -> None:
            self.models[rank] = vector
            self.mixed[rank].append(mixed)
            self.times_s[rank].append(now_s)

        self.end_s = simulate(self.nodes, network, rounds, train, told)

    @property
    def spread(self) -> float:
        """How far the members are apart, as a share of what it was."""
        return float(np.std(self.models, axis=0).mean() / np.std(self.begin, axis=0).mean())


def test_a_round_without_loss_is_the_weighted_mean_of_the_neighbourhood() -> None:
    run = Run(Graph("ring", 4), SimulatedNetwork(), 1)
    for rank in range(4):
        hood = run.begin[[rank, (rank + 1) % 4, (rank - 1) % 4]]
        np.testing.assert_allclose(run.models[rank], hood.mean(axis=0), atol=1e-6)
        (mixed,) = run.mixed[rank]
        assert (mixed.round, mixed.reason, mixed.share, mixed.late) == (1, "complete", 1.0, 0)
        assert mixed.sent_bytes == 2 * 40 * MTU_BYTES


def test_what_is_lost_takes_no_time_and_the_members_agree_all_the_same() -> None:
    def usual_s(run: Run) -> float:
        return float(np.median([mixed.duration_s for each in run.mixed for mixed in each]))

    graph = Graph("regular", 6, 3, seed=90)
    clean = Run(graph, SimulatedNetwork(), 6)
    for loss, longer in ((0.1, 1.2), (0.2, 1.2), (0.4, 1.3), (0.7, 4.0)):
        run = Run(graph, SimulatedNetwork(loss=loss), 6)
        shares = [mixed.share for each in run.mixed for mixed in each]
        # at 70 % a deadline passes now and then before all that was not lost has come
        assert 1 - loss - (0.1 if loss > 0.5 else 0.03) < np.mean(shares) < 1 - loss + 0.03
        assert run.spread < 0.4
        assert usual_s(run) < longer * usual_s(clean)


def test_a_round_of_repair_fetches_most_of_what_was_lost() -> None:
    run = Run(Graph("ring", 4), SimulatedNetwork(loss=0.2), 8, repair=True)
    shares = [mixed.share for each in run.mixed for mixed in each]
    # 0.8, and of the rest what is asked for (0.8 of the questions arrive) and arrives: 0.8 + 0.2 * 0.64
    assert np.mean(shares) == pytest.approx(0.928, abs=0.03)


def test_a_member_that_dies_is_waited_for_a_few_times_and_then_no_more() -> None:
    def busy_s(rank: int, round_: int) -> float | None:
        return None if rank == 2 and round_ == 5 else 0.05

    run = Run(Graph("ring", 5), SimulatedNetwork(), 30, busy_s)
    assert [len(each) for each in run.mixed] == [30, 30, 5, 30, 30]
    reasons = [mixed.reason for mixed in run.mixed[1]]
    assert reasons.count("deadline") == 3
    assert reasons[10:] == ["spent"] * 20  # never complete: a neighbour is missing
    durations_s = [mixed.duration_s for mixed in run.mixed[1]]
    assert np.mean(durations_s[10:]) < 1.2 * np.mean(durations_s[:5])
    assert np.ptp([run.models[rank] for rank in (0, 1, 3, 4)], axis=0).max() < 0.05


def test_a_member_that_pauses_stops_nobody_and_is_with_the_others_again() -> None:
    def busy_s(rank: int, round_: int) -> float:
        return 1.5 if rank == 2 and round_ == 5 else 0.05

    run = Run(Graph("ring", 5), SimulatedNetwork(), 40, busy_s)
    # the others have made more than ten rounds in this second and a half
    before, after = run.mixed[2][4].round, run.mixed[2][5].round
    assert (before, after > 15) == (5, True)
    pace_s = np.diff(run.times_s[1])
    assert max(pace_s) < 0.5
    assert run.mixed[2][7].share == 1.0


def test_members_of_different_speed_go_together_at_the_pace_of_the_slowest() -> None:
    run = Run(Graph("ring", 4), SimulatedNetwork(), 15, lambda rank, round_: 0.3 if rank == 0 else 0.05)
    assert max(run.times_s[1]) == pytest.approx(max(run.times_s[0]), rel=0.15)
    shares = [mixed.share for mixed in run.mixed[1][3:]]
    assert np.mean(shares) > 0.9


def test_a_slow_line_is_not_flooded() -> None:
    # 20 kB per neighbour and round; a queue of 0.1 s holds 2 kB
    run = Run(Graph("ring", 3), SimulatedNetwork(rate_bytes_per_s=20e3), 25, patience_s=5.0)
    late = [mixed.share for each in run.mixed for mixed in each[10:]]
    assert np.mean(late) > 0.65  # at 32 Mbit/s, with which it begins, it is 0.13


def test_push_sum_keeps_the_mean_of_all_members_through_loss() -> None:
    run = Run(Graph("full", 5), SimulatedNetwork(loss=0.4), 15, push_sum=True)
    mean = run.begin.mean(axis=0)
    assert np.abs(np.array(run.models) - mean).max() < 0.06


@given(st.data())
@settings(max_examples=8, deadline=None)
def test_whatever_the_network_does_every_round_ends_within_its_bounds(data: Any) -> None:
    network = SimulatedNetwork(
        loss=data.draw(st.sampled_from([0.0, 0.3, 0.9, 1.0])),
        delay_s=data.draw(st.sampled_from([0.0, 0.05, 3.0])),
        rate_bytes_per_s=data.draw(st.sampled_from([1e3, 1e6])),
        seed=data.draw(st.integers(0, 99)),
    )
    repair, push_sum = data.draw(st.booleans()), data.draw(st.booleans())
    kind = data.draw(st.sampled_from(["ring", "full", "random"]))
    run = Run(Graph(kind, 4, 3), network, 4, repair=repair, push_sum=push_sum)
    assert all(each[-1].round >= 4 for each in run.mixed)
    for each in run.mixed:
        assert all(mixed.duration_s <= 2.0 + 1e-6 for mixed in each)
    low, high = run.begin.min(axis=0), run.begin.max(axis=0)
    assert all(((model > low - 1e-2) & (model < high + 1e-2)).all() for model in run.models)


# -- what others send --------------------------------------------------------------------------------------


def sent_by(sender: GossipNode, to: int) -> list[bytes]:
    """All chunks of its first round to one neighbour."""
    sender.start(np.ones(sender.strides.count, np.float32), 0.0)
    found: list[bytes] = []
    now_s = 0.0
    while len(found) < sender.strides.chunks:
        found += [payload for rank, payload in sender.due(now_s) if rank == to]
        now_s += 0.01
    return found


def changed(payload: bytes, **fields: Any) -> bytes:
    head = ChunkHead.from_wire(payload)._replace(**fields)
    return head.to_wire() + payload[44:]


GRAPH = Graph("ring", 4)


@pytest.mark.parametrize(
    ("sender", "change", "error", "said"),
    [
        (
            1,
            {"parameters": 9},
            OperationMismatch,
            "rank 1 mixes a model of 9 parameters, this member one of 2000",
        ),
        (1, {"form": 5}, OperationMismatch, "rank 1 mixes by other settings"),
        (
            1,
            {"degree": 1},
            RemoteProtocolError,
            "rank 1 sent that it has 1 neighbours in round 1, .* gives it 2",
        ),
        (1, {"position": 40}, RemoteProtocolError, "rank 1 sent chunk 40 of 40"),
        (2, {}, RemoteProtocolError, "rank 2 sent a chunk of round 1, in which it is not a neighbour"),
    ],
)
def test_a_chunk_that_cannot_be_is_refused(sender: int, change: Any, error: Any, said: str) -> None:
    payload = sent_by(node(sender, GRAPH), (sender + 1) % 4)[0]
    receiver = node(0, GRAPH)
    receiver.start(np.zeros(COUNT, np.float32), 0.0)
    with pytest.raises(error, match=said):
        receiver.take(sender, changed(payload, **change), 0.0)


def test_a_chunk_with_a_nan_is_refused_and_who_is_left_out_counts_no_more() -> None:
    good = sent_by(node(1, GRAPH), 0)
    bad = good[7][:44] + np.full(50, np.nan, "<f4").tobytes()
    receiver = node(0, GRAPH)
    receiver.start(np.zeros(COUNT, np.float32), 0.0)
    for payload in good[:7]:
        receiver.take(1, payload, 0.0)
    with pytest.raises(RemoteProtocolError, match="rank 1 sent a chunk has values that are not finite"):
        receiver.take(1, bad, 0.0)
    receiver.exclude(1)
    for payload in good:
        receiver.take(1, payload, 0.0)
    vector, mixed = receiver.finish(1.0)
    assert (vector == 0).all()
    assert mixed.received == {3: 0.0}


def test_a_model_that_is_not_finite_goes_to_nobody() -> None:
    sender = node(0, GRAPH)
    with pytest.raises(UnsupportedValue, match="1 of 2000 parameters are not finite"):
        sender.start(np.array([np.inf] + [0] * (COUNT - 1), np.float32), 0.0)
    assert list(sender.due(9.0)) == []


def test_chunks_count_once_and_those_of_rounds_that_are_over_not_at_all() -> None:
    payloads = sent_by(node(1, GRAPH), 0)
    receiver = node(0, GRAPH)
    for round_ in (1, 2):
        receiver.start(np.zeros(COUNT, np.float32), 0.0)
        for payload in payloads * 2:
            receiver.take(1, payload, 0.0)
        _, mixed = receiver.finish(1.0)
        assert (mixed.received[1], mixed.late) == ((1.0, 0) if round_ == 1 else (0.0, 80))


def test_one_member_cannot_carry_the_others_to_the_end_of_the_numbers() -> None:
    payload = changed(sent_by(node(1, GRAPH), 0)[0], round=1 << 62)
    receiver = node(0, GRAPH)
    receiver.take(1, payload, 0.0)
    receiver.start(np.zeros(COUNT, np.float32), 0.0)
    assert receiver.round == 1000


def test_what_is_asked_for_is_sent_once() -> None:
    from duetlink_gossip.chunks import ASK, ask

    sender = node(1, GRAPH)
    assert len(sent_by(sender, 0)) == 40
    wanted = np.zeros(40, np.bool_)
    wanted[[3, 17]] = True
    question = ask(ChunkHead(ASK, 2, 0, 0, 1, COUNT, 0, 0.0, 0, 0, 0.0), wanted)
    sender.take(0, question, 5.0)
    sender.take(0, question, 5.0)
    again = [ChunkHead.from_wire(payload) for to, payload in sender.due(9.0) if to == 0]
    assert [(head.kind, head.position) for head in again] == [(DATA, 3), (DATA, 17)]


def test_a_round_goes_on_after_the_one_that_was_kept() -> None:
    first = node(0, GRAPH)
    for _ in range(7):
        first.start(np.zeros(COUNT, np.float32), 0.0)
        first.finish(0.0)
    second = node(0, GRAPH)
    second.restore(first.state())
    second.start(np.zeros(COUNT, np.float32), 0.0)
    assert second.round == 8

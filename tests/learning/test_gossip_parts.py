"""Gossip without a network: graphs, chunks, averaging and patience, each by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.errors import RemoteProtocolError, SettingError, UnsupportedValue
from duetlink_gossip.averaging import Fallback, PushSum, ReceivedChunks
from duetlink_gossip.chunks import (
    DATA,
    HEAD_BYTES,
    ChunkHead,
    Strides,
    ask,
    asked,
    decode,
    encode,
    form_of,
    item_bytes,
)
from duetlink_gossip.graphs import Graph, metropolis_hastings
from duetlink_gossip.patience import Pace, Patience

QUICKLY = settings(max_examples=30, deadline=None)

REGULAR = ((3, 4, 6), (4, 5, 6), (4, 5, 7), (0, 5, 7), (0, 1, 2), (1, 2, 3), (0, 1, 7), (2, 3, 6))
SMALL_WORLD = (
    (1, 2, 6, 7),
    (0, 2, 5, 7),
    (0, 1, 3, 4),
    (2, 4, 5),
    (2, 3, 5, 6),
    (1, 3, 4, 6, 7),
    (0, 4, 5, 7),
    (0, 1, 5, 6),
)
HEAD = ChunkHead(DATA, 3, 1, 7, 5, 100, 2, 0.5, 9, 4, 0.25)


# -- graphs ------------------------------------------------------------------------------------------------


def test_graphs_are_those_of_the_books() -> None:
    assert Graph("ring", 4).at(0) == ((1, 3), (0, 2), (1, 3), (0, 2))
    assert Graph("ring", 2).at(0) == ((1,), (0,))
    assert Graph("full", 3).at(9) == ((1, 2), (0, 2), (0, 1))
    # drawn; the same for ever, since members of different versions have to agree
    assert Graph("regular", 8, 3, seed=90).at(0) == REGULAR
    assert Graph("small-world", 8, 4, seed=90).at(0) == SMALL_WORLD


@given(st.data())
@QUICKLY
def test_every_graph_is_connected_and_its_weights_are_doubly_stochastic(data: Any) -> None:
    kind = data.draw(st.sampled_from(["ring", "full", "regular", "small-world", "random"]))
    size = data.draw(st.integers(3, 20))
    degree = data.draw(st.integers(1, (size - 1) // 2)) * 2
    graph = Graph(kind, size, degree, seed=data.draw(st.integers(0, 99)))
    neighbours = graph.at(data.draw(st.integers(0, 5)))
    matrix = np.zeros((size, size))
    for rank in range(size):
        assert rank not in neighbours[rank]
        if kind in ("regular", "random"):
            assert len(neighbours[rank]) == degree
        for other, weight in metropolis_hastings(neighbours, rank).items():
            matrix[rank, other] = weight
        matrix[rank, rank] = 1 - matrix[rank].sum()
    assert (matrix >= 0).all()
    assert (matrix == matrix.T).all()
    np.testing.assert_allclose(matrix.sum(axis=0), 1)
    # connected, so that it mixes: a power of it has no zero
    assert (np.linalg.matrix_power(matrix, 2 * size) > 0).all()


def test_a_random_graph_is_another_one_in_each_round_and_the_same_for_all() -> None:
    graph = Graph("random", 16, 3, seed=1)
    assert len({graph.at(round_) for round_ in range(10)}) == 10
    assert graph.at(4) == Graph("random", 16, 3, seed=1).at(4)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("star", 4), "there are ring, full"),
        (("ring", 1), "a graph of 1 members"),
        (("regular", 5, 3), "one of the two must be even"),
        (("regular", 4, 4), "4 members have 1 to 3"),
        (("regular", 4, 1), "not connected"),
        (("small-world", 8, 3), "it is even"),
    ],
)
def test_a_graph_that_cannot_be_is_refused(arguments: Any, said: str) -> None:
    with pytest.raises(SettingError, match=said):
        Graph(*arguments)


# -- chunks ------------------------------------------------------------------------------------------------


@given(st.integers(1, 5000), st.sampled_from(["float32", "int16", "int8"]), st.integers(80, 1200))
@QUICKLY
def test_a_vector_comes_back_and_every_datagram_fits(count: int, precision: str, mtu_bytes: int) -> None:
    strides = Strides.fitting(count, mtu_bytes, item_bytes(precision))
    vector = np.random.default_rng(count).normal(size=count).astype(np.float32)
    chunks = strides.deal(vector)
    assert chunks.shape == (strides.chunks, strides.length)
    assert (strides.gather(chunks) == vector).all()
    scales, bodies = encode(chunks, precision, np.random.default_rng(1))
    assert len(HEAD.to_wire()) + bodies.shape[1] <= mtu_bytes
    back = np.stack(
        [
            decode(memoryview(body.tobytes()), scale, strides.length, precision)
            for scale, body in zip(scales, bodies, strict=True)
        ]
    )
    step = {"float32": 0.0, "int16": 1 / 32767, "int8": 1 / 127}[precision]
    # a value is off by less than one step of its own chunk's scale; 1.001 for the scale's own rounding
    bound = 1.001 * step * np.abs(chunks).max(axis=1, keepdims=True)
    assert (np.abs(back - chunks) <= bound).all()


def test_a_burst_of_lost_chunks_takes_a_little_of_every_layer() -> None:
    strides = Strides(89_834, 162)  # LeNet as int16, in datagrams of an Ethernet
    lost = np.zeros((strides.chunks, strides.length), np.float32)
    lost[40:72] = 1  # 32 in a row: a fifth
    vector = strides.gather(lost)
    layers = np.split(vector, np.cumsum([2_432, 25_632, 51_264]))
    assert [round(float(layer.mean()), 2) for layer in layers] == [0.2, 0.2, 0.2, 0.2]


def test_integers_are_rounded_by_chance_so_that_their_mean_is_the_value() -> None:
    chunks = np.tile(np.array([[1.0, 0.3, -0.7001, 0.0]], np.float32), (20_000, 1))
    scales, bodies = encode(chunks, "int8", np.random.default_rng(5))
    mean = (bodies.view("i1") * np.array(scales)[:, None]).mean(axis=0)
    # one step is 1/127, its standard deviation at most half of that, over the root of 20,000: 3e-5
    np.testing.assert_allclose(mean, [1.0, 0.3, -0.7001, 0.0], atol=1.5e-4)


def test_a_head_comes_back() -> None:
    assert ChunkHead.from_wire(HEAD.to_wire() + b"rest") == HEAD
    assert len(HEAD.to_wire()) == HEAD_BYTES == 44


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (b"", "no room for its head"),
        (bytes(44), "of kind 0"),
        (HEAD._replace(scale=float("nan")).to_wire(), "scale nan"),
        (HEAD._replace(scale=-1.0).to_wire(), "scale -1.0"),
        (HEAD._replace(round=1 << 63).to_wire(), "round 9223372036854775808"),
        (HEAD._replace(spacing_s=float("inf")).to_wire(), "inf s"),
    ],
)
def test_a_head_that_is_none_is_refused(payload: bytes, said: str) -> None:
    with pytest.raises(RemoteProtocolError, match=said):
        ChunkHead.from_wire(payload)


def test_values_that_are_not_finite_are_refused() -> None:
    nan = np.array([1, np.nan], "<f4").tobytes()
    with pytest.raises(RemoteProtocolError, match="not finite"):
        decode(memoryview(nan), 1.0, 2, "float32")
    with pytest.raises(RemoteProtocolError, match="not finite"):
        decode(memoryview(b"\x7f\x01"), 3e38, 2, "int8")
    with pytest.raises(RemoteProtocolError, match="7 bytes, where 2 float32"):
        decode(memoryview(nan)[:7], 1.0, 2, "float32")


def test_what_is_asked_for_is_what_was_lost() -> None:
    wanted = np.zeros(11, np.bool_)
    wanted[[0, 3, 10]] = True
    body = memoryview(ask(HEAD, wanted))[HEAD_BYTES:]
    assert asked(body, 11) == [0, 3, 10]
    with pytest.raises(RemoteProtocolError, match="where 3 are needed for 20 chunks"):
        asked(body, 20)
    with pytest.raises(RemoteProtocolError, match="beyond the 10 of the model"):
        asked(body, 10)


@pytest.mark.parametrize(("count", "mtu_bytes"), [(0, 1000), (10, 44), (1 << 40, 1000)])
def test_a_model_that_does_not_fit_is_refused(count: int, mtu_bytes: int) -> None:
    with pytest.raises(SettingError, match="do not go into datagrams"):
        Strides.fitting(count, mtu_bytes, 4)


def test_a_precision_that_is_not_there_is_refused() -> None:
    with pytest.raises(SettingError, match="there are float32, int16, int8"):
        item_bytes("float8")


def test_a_form_tells_models_and_settings_apart() -> None:
    assert form_of([("w", (2, 3))], "int8") == form_of([("w", (2, 3))], "int8")
    assert form_of([("w", (2, 3))], "int8") != form_of([("w", (3, 2))], "int8")


# -- averaging ---------------------------------------------------------------------------------------------


def lossy(begin: Any, rounds: int, push_sum: bool, heard_by_0: float = 1.0, heard: float = 0.4) -> Any:
    """Members on a ring that average by chunks; what comes to member 0 is lost at another rate."""
    size = len(begin)
    rng = np.random.default_rng(8)
    graph = Graph("ring", size).at(0)
    ways: Any = [PushSum(6, 5) if push_sum else Fallback(rank, size, 6, "float32") for rank in range(size)]
    models = begin.copy()
    for round_ in range(rounds):
        weights = [metropolis_hastings(graph, rank) for rank in range(size)]
        given = [ways[rank].give(models[rank], weights[rank], round_, rng) for rank in range(size)]
        for rank in range(size):
            arrived = {}
            for of in graph[rank]:
                sent = given[of][rank]
                rows = [
                    ways[rank].decode(memoryview(body.tobytes()), scale, 5)
                    for scale, body in zip(sent.scales, sent.bodies, strict=True)
                ]
                have = rng.random(6) < (heard_by_0 if rank == 0 else heard)
                arrived[of] = ReceivedChunks(np.stack(rows), np.array(sent.masses, np.uint32), have)
            models[rank] = ways[rank].combine(weights[rank], arrived)
    return models, ways


DRAWN = np.random.default_rng(4).normal(size=(6, 6, 5)).astype(np.float32)


def test_what_is_missing_is_taken_to_be_as_ones_own() -> None:
    way = Fallback(0, 2, chunks=2, precision="float32")
    mine = np.array([[0.0, 2.0], [4.0, 6.0]], np.float32)
    way.give(mine, {1: 0.25, 2: 0.25}, 0, np.random.default_rng(0))
    theirs = np.array([[4.0, 4.0], [8.0, 8.0]], np.float32)
    none = np.zeros(2, np.uint32)
    mixed = way.combine(
        {1: 0.25, 2: 0.25},
        {
            1: ReceivedChunks(theirs, none, np.array([True, False])),
            2: ReceivedChunks(theirs, none, np.array([True, True])),
        },
    )
    assert mixed.tolist() == [[2.0, 3.0], [5.0, 6.5]]


def test_members_agree_whatever_is_lost() -> None:
    begin = DRAWN
    models, _ = lossy(begin, 120, push_sum=False, heard_by_0=0.3, heard=0.6)
    assert np.ptp(models, axis=0).max() < 1e-4
    assert (models.min(axis=0) >= begin.min(axis=0) - 1e-6).all()
    assert (models.max(axis=0) <= begin.max(axis=0) + 1e-6).all()


def test_the_probe_tells_by_how_much_the_mean_has_drifted() -> None:
    # member 0 hears all, and the others do not: it yields more than it pulls
    ranks = np.broadcast_to(np.arange(6, dtype=np.float32)[:, None, None], (6, 6, 5)).copy()
    models, ways = lossy(ranks, 99, push_sum=False)
    spread = np.arange(6).std()
    for rank in range(6):
        assert ways[rank].drift == pytest.approx((models[rank].mean() - 2.5) / spread, abs=1e-5)
    assert ways[0].drift > 0.05
    _, even = lossy(ranks, 99, push_sum=False, heard=1.0)
    assert even[0].drift == pytest.approx(0, abs=1e-5)


def test_push_sum_keeps_the_mean_where_the_fallback_does_not() -> None:
    mean = np.broadcast_to(DRAWN.mean(axis=0), DRAWN.shape)
    models, _ = lossy(DRAWN, 120, push_sum=True)
    # the resolution is 2^-18; 120 rounds of two neighbours round by half of that each: 5e-4 at the very worst
    np.testing.assert_allclose(models, mean, atol=5e-4)
    models, _ = lossy(DRAWN, 120, push_sum=False)
    assert np.abs(models - mean).max() > 0.05


def test_push_sum_goes_on_where_it_was_kept() -> None:
    _, ways = lossy(DRAWN[:4], 5, push_sum=True)
    other = PushSum(6, 5)
    other.restore(ways[0].state())
    mine, theirs = ways[0].state(), other.state()
    assert mine.keys() == theirs.keys()
    assert len(mine) == 9  # mass; given to and taken of two neighbours, values and masses
    assert all(np.array_equal(mine[name], theirs[name]) for name in mine)


def test_push_sum_refuses_parameters_that_its_integers_do_not_hold() -> None:
    way = PushSum(1, 1)
    with pytest.raises(UnsupportedValue, match=r"up to 64\.0, not 1000"):
        way.give(np.full((1, 1), 1000, np.float32), {1: 0.05, 2: 0.5}, 0, np.random.default_rng(0))
    assert way.state() == {"mass": [1.0]}  # what the first neighbour could have had is not given away


# -- patience and pace -------------------------------------------------------------------------------------


def test_patience_follows_how_long_rounds_take() -> None:
    patience = Patience(10.0)
    assert patience.wait_s == 10.0
    for _ in range(60):
        patience.took(0.1)
    assert patience.wait_s == pytest.approx(0.1, rel=0.01)
    patience.missed(0.5)
    patience.missed(0.5)
    assert 0.15 < patience.wait_s < 0.5
    for _ in range(40):
        patience.missed(0.5)
    assert patience.wait_s == 10.0


def test_a_sender_that_seldom_gets_its_turn_keeps_its_pace() -> None:
    pace, size_bytes = Pace(), 1000
    pace.report_spacing(size_bytes / 1e5, size_bytes)
    assert pace.bytes_per_s == 1e5
    due_s, sent = 0.0, 0
    for turn in range(1, 101):  # one each 0.1 s
        now_s = turn / 10
        while due_s <= now_s:
            due_s = pace.after(due_s, now_s, size_bytes)
            sent += size_bytes
    # less, and the receiver would say that the path is full, and so on until nothing moves
    assert sent == pytest.approx(1e6, rel=0.02)
    # what a machine has slept is not caught up with
    assert pace.after(due_s, 1000.0, size_bytes) == pytest.approx(999.85, abs=0.01)


def test_a_pace_grows_until_the_path_is_full_and_then_follows_it() -> None:
    capacity, size_bytes = 1e7, 1000
    pace = Pace()
    for _ in range(40):
        # a path that is full delivers as fast as it can; loss does not show in this
        pace.report_spacing(size_bytes / min(capacity, pace.bytes_per_s), size_bytes)
        assert pace.bytes_per_s <= 2 * capacity
    assert 0.8 * capacity <= pace.bytes_per_s <= 1.3 * capacity
    for _ in range(5):
        pace.report_spacing(size_bytes / 1e5, size_bytes)
    assert pace.bytes_per_s <= 1.3e5

"""Gossip through a router that drops packets: what is learnt at each loss, and that nobody waits."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from duetlink_gossip.averaging import Fallback
from duetlink_gossip.base import Mixed, Node
from duetlink_gossip.chunks import HEAD_BYTES, Floats, Strides
from duetlink_gossip.courier import Courier
from duetlink_gossip.fragments import FragmentNode
from duetlink_gossip.graphs import Graph
from duetlink_gossip.node import GossipNode
from duetlink_gossip.udp import UdpPost
from tests.lab.namespace import unsupported
from tests.learning.gossip_network import LossyNetwork
from tests.learning.test_gossip_udp import digits

SIZE, ROUNDS = 4, 100
PIXELS, HIDDEN, CLASSES = 64, 100, 10
STEPS, BATCH, RATE = 4, 16, 0.3
COUNT = (PIXELS + 1) * HIDDEN + (HIDDEN + 1) * CLASSES  # 7,510 parameters in 11 packets of the cables' MTU


def layers(vector: Floats) -> tuple[Floats, Floats]:
    """Views of the two layers' weights, of which the last row is the bias."""
    cut = (PIXELS + 1) * HIDDEN
    return vector[:cut].reshape(PIXELS + 1, HIDDEN), vector[cut:].reshape(HIDDEN + 1, CLASSES)


def forward(vector: Floats, x: Floats) -> tuple[Floats, Floats, Floats]:
    first, second = layers(vector)
    ones = np.ones((len(x), 1), np.float32)
    rows = np.hstack([x, ones])
    hidden = np.hstack([np.maximum(rows @ first, 0), ones])
    return rows, hidden, hidden @ second


def step(vector: Floats, x: Floats, y: npt.NDArray[np.int64]) -> None:
    """One step of gradient descent on the cross entropy, in place."""
    first, second = layers(vector)
    rows, hidden, scores = forward(vector, x)
    back = np.exp(scores - scores.max(axis=1, keepdims=True))
    back /= back.sum(axis=1, keepdims=True)
    back[np.arange(len(y)), y] -= 1
    back *= RATE / len(x)
    into = (back @ second[:-1].T) * (hidden[:, :-1] > 0)
    second -= hidden.T @ back
    first -= rows.T @ into


def train(
    post: UdpPost, data: Path, fragments: bool = False, rounds: int = ROUNDS
) -> tuple[float, list[Mixed]]:
    """Two layers, on the digits of one member; their accuracy on those that nobody has trained on."""
    loaded = np.load(data)
    x, y = loaded["x"], loaded["y"]
    vector = np.zeros(COUNT, np.float32)
    layers(vector)[0][:] = np.random.default_rng(0).normal(0, 0.1, (PIXELS + 1, HIDDEN))  # all begin alike
    layers(vector)[1][:] = np.random.default_rng(1).normal(0, 0.1, (HIDDEN + 1, CLASSES))
    strides = Strides.fitting(COUNT, post.mtu_bytes, 2)
    averaging = Fallback(post.rank, SIZE, strides.chunks, "int16")
    node: Node = (
        FragmentNode(post.rank, SIZE, strides, "int16", fanout=2)
        if fragments
        else GossipNode(post.rank, Graph("ring", SIZE), strides, averaging, patience_s=3.0)
    )
    courier = Courier(node, post)
    rng = np.random.default_rng(post.rank)
    told = []
    try:
        while node.round < rounds:
            for _ in range(STEPS):
                chosen = rng.integers(0, len(x), BATCH)
                step(vector, x[chosen], y[chosen])
            vector, mixed = courier.mix(vector)
            told.append(mixed)
    finally:
        courier.close()
    return float((forward(vector, loaded["test_x"])[2].argmax(axis=1) == loaded["test_y"]).mean()), told


@pytest.fixture(scope="module")
def network() -> Iterator[LossyNetwork]:
    if why := unsupported():
        pytest.skip(why)
    with LossyNetwork(SIZE) as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("shards", [None, 4])
@pytest.mark.parametrize(("loss", "least"), [(0.0, 0.9), (0.1, 0.9), (0.2, 0.9), (0.4, 0.9), (0.7, 0.88)])
def test_dropped_packets_stop_no_learning(
    loss: float, least: float, shards: int | None, network: LossyNetwork, tmp_path: Path
) -> None:
    data = digits(SIZE, tmp_path, shards=shards)
    known = [np.isin(each["test_y"], each["y"]).mean() for each in map(np.load, data)]
    # with rows in shards, a member that heard nothing would be right in at most so many
    assert [round(float(share), 2) for share in known] == (
        [1.0] * 4 if shards is None else [0.67, 0.53, 0.47, 0.71]
    )
    assert "mtu 1500 " in network.hosts[0].configure(["ip", "link", "show", "eth0"])
    network.lose(loss)
    posts = network.posts()
    with ThreadPoolExecutor(SIZE) as pool:
        found = list(pool.map(train, posts, data, timeout=100))
    rounds = [mixed for _, told in found for mixed in told]
    chunks = Strides.fitting(COUNT, posts[0].mtu_bytes, 2)
    packets = sum(mixed.sent_bytes for mixed in rounds) / (HEAD_BYTES + 2 * chunks.length)
    # each datagram is one packet: in fragments there would be more to drop
    assert network.dropped == pytest.approx(loss * packets, rel=0.1)
    assert np.mean([mixed.share for mixed in rounds]) < 1 - loss + 0.05
    assert all(mixed.duration_s < 10 for mixed in rounds)  # 3 s at most, and what a busy machine adds
    # but for one, whom a busy machine may have left without a turn while the others went through their rounds
    assert sorted(reached for reached, _ in found)[1] > least


@pytest.mark.slow
def test_fragments_learn_with_a_fifth_lost_and_a_member_that_dies(
    network: LossyNetwork, tmp_path: Path
) -> None:
    data = digits(SIZE, tmp_path, shards=4)
    network.lose(0.2)
    rounds = [600, 600, 600, 150]  # the last one is gone before the others are through
    with ThreadPoolExecutor(SIZE) as pool:
        found = list(pool.map(train, network.posts(), data, [True] * SIZE, rounds, timeout=100))
    assert network.dropped > 100
    told = [mixed for _, each in found for mixed in each]
    assert {(mixed.reason, mixed.duration_s) for mixed in told} == {("async", 0.0)}
    assert 0 < np.mean([mixed.share for mixed in told]) < 2 / 3 * 0.8 + 0.05  # each goes to two of three
    # alone, 0.71 at most; and a busy machine may have left one without a turn
    assert sorted(reached for reached, _ in found)[1] > 0.8

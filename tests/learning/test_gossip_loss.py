"""Gossip through a router that drops packets: what is learnt, and that nobody waits."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from duetlink.learning.gossip.averaging import Fallback
from duetlink.learning.gossip.chunks import Strides
from duetlink.learning.gossip.courier import Courier
from duetlink.learning.gossip.graphs import Graph
from duetlink.learning.gossip.node import GossipNode, Mixed
from duetlink.learning.gossip.udp import UdpPost
from tests.lab.namespace import unsupported
from tests.learning.gossip_member import accuracy, step
from tests.learning.gossip_network import LossyNetwork
from tests.learning.test_gossip_udp import digits

SIZE, ROUNDS = 4, 60


def train(post: UdpPost, data: Path) -> tuple[float, list[Mixed]]:
    """Softmax regression on the digits of one member; its accuracy on those that nobody has trained on."""
    loaded = np.load(data)
    x, y = loaded["x"], loaded["y"]
    weights = np.zeros((65, 10), np.float32)
    strides = Strides.fitting(weights.size, post.mtu_bytes, 2)
    averaging = Fallback(post.rank, SIZE, strides.chunks, "int16")
    node = GossipNode(post.rank, Graph("ring", SIZE), strides, averaging, patience_s=3.0)
    courier = Courier(node, post)
    rng = np.random.default_rng(post.rank)
    told = []
    try:
        while node.round < ROUNDS:
            for _ in range(4):
                chosen = rng.integers(0, len(x), 16)
                step(weights, x[chosen], y[chosen])
            vector, mixed = courier.mix(weights.reshape(-1))
            weights = vector.reshape(weights.shape)
            told.append(mixed)
    finally:
        courier.close()
    return accuracy(weights, loaded["test_x"], loaded["test_y"]), told


@pytest.mark.slow
def test_forty_of_a_hundred_packets_dropped_stop_no_learning(tmp_path: Path) -> None:
    if why := unsupported():
        pytest.skip(why)
    data = digits(SIZE, tmp_path, shards=4)
    with LossyNetwork(SIZE) as network:
        network.lose(0.4)
        with ThreadPoolExecutor(SIZE) as pool:
            # a model of 650 parameters in a dozen packets
            found = list(pool.map(train, network.posts(packet_bytes=200), data, timeout=100))
        dropped = network.dropped
    rounds = [mixed for _, told in found for mixed in told]
    sent = sum(mixed.sent_bytes for mixed in rounds) / 166  # of each packet, without what the post adds
    assert dropped == pytest.approx(0.4 * sent, rel=0.1)
    assert np.mean([mixed.share for mixed in rounds]) == pytest.approx(0.6, abs=0.12)
    assert all(mixed.duration_s < 10 for mixed in rounds)  # 3 s at most, and what a busy machine adds
    for reached, _ in found:
        assert reached > 0.88  # 0.92 without loss

"""What `zero_copy` compares with: one more copy on each side, and the same bytes over gRPC."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from benchmarks.baselines.grpc_array import PIECE_BYTES, GrpcArray
from benchmarks.baselines.private_buffers import copying_what_arrives
from benchmarks.owner import array
from duetlink.net.flight.body import ReceiveBuffer


def test_the_sender_copies_its_memory_into_a_few_buffers() -> None:
    program = """
import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from benchmarks.baselines.private_buffers import copy_what_is_sent
from duetlink.net.flight import server
from duetlink.net.flight.body import Outgoing
from duetlink.net.flight.sending import Order
from duetlink.data.tuning import RateCap

source = np.random.default_rng(0).integers(0, 256, 40 << 20, np.uint8)

def send():
    outgoing = Outgoing([source.data], source.nbytes)
    with ThreadPoolExecutor(1) as pool:
        sending = server.Sending(outgoing, Order(outgoing.whole), pool, RateCap(), 2 << 20)
        own, right, buffers, position = 0, 0, set(), 0
        for batch in sending.batches():
            piece = np.frombuffer(batch.data, np.uint8)
            own += bool(np.shares_memory(piece, source))
            right += bool(np.array_equal(piece, source[position : position + len(piece)]))
            buffers.add(piece.ctypes.data)
            position += len(piece)
    return own, right, len(buffers), position

before = send()
copy_what_is_sent()
print(json.dumps([before, send()]))
"""
    # in a process of its own, for which it is irrevocable
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    mib_40 = 40 << 20
    assert json.loads(done.stdout) == [[20, 20, 20, mib_40], [0, 20, 16, mib_40]]


def test_the_receiver_copies_what_comes_by_flight_and_takes_the_same_bytes() -> None:
    chunk = np.arange(250, dtype=np.uint8)
    with copying_what_arrives():
        receive_buffer = ReceiveBuffer(500)
        receive_buffer.write(chunk.data)
        receive_buffer.write(chunk.data)
    assert bytes(receive_buffer.body()) == bytes(chunk) * 2


def test_the_receiver_copies_what_is_mapped() -> None:
    mapped = np.arange(250, dtype=np.uint8)
    plain, copied = ReceiveBuffer(250), ReceiveBuffer(250)
    plain.map(mapped.data)
    with copying_what_arrives():
        copied.map(mapped.data)
    assert np.shares_memory(np.frombuffer(plain.body(), np.uint8), mapped)
    assert not np.shares_memory(np.frombuffer(copied.body(), np.uint8), mapped)
    assert bytes(copied.body()) == bytes(mapped)


@pytest.mark.slow  # a process that imports what the benchmarks do
@pytest.mark.parametrize("tls", [True, False])
def test_an_array_arrives_over_grpc_as_it_was(tls: bool) -> None:
    count = PIECE_BYTES // 4 + 3  # one whole piece and a rest
    served = GrpcArray(tls=tls)
    try:
        served.serve(count, seed=1)
        expected = array("float32", (count,), 1)
        assert np.array_equal(served.get_unary(), expected)
        assert np.array_equal(served.get_streamed(count), expected)
    finally:
        served.close()

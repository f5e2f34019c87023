"""A shared port between two notebooks that are both behind NAT: a TCP service, its bytes compared."""

from __future__ import annotations

import contextlib

import pytest

from tests.lab.lab import Lab
from tests.lab.notebook import Notebook

pytestmark = pytest.mark.slow

# an echo on a thread of the owner's kernel
SERVICE = """
import socket
listener = socket.create_server(("127.0.0.1", 0))
def echo():
    while True:
        connection, _ = listener.accept()
        while data := connection.recv(65536):
            connection.sendall(data)
        connection.close()
threading.Thread(target=echo, daemon=True).start()
duet = duetlink.launch()
shared = duet.share_port(listener.getsockname()[1], "echo")
out = duet.code
"""

CLIENT = """
import socket
opened = duet.open_port("echo")
def trip(size):
    data = np.random.default_rng(size).bytes(size)
    with socket.create_connection((opened.host, opened.port), timeout=60) as connection:
        sending = threading.Thread(target=connection.sendall, args=(data,))
        sending.start()
        got = bytearray()
        while len(got) < size and (piece := connection.recv(65536)):
            got += piece
        sending.join()
    return bytes(got) == data
"""


def test_a_service_behind_nat_is_reached_from_behind_another_nat(lab: Lab) -> None:
    with contextlib.ExitStack() as stack:
        owner, scientist = (Notebook(lab.host("port-restricted")) for _ in range(2))
        for notebook in (owner, scientist):
            stack.callback(notebook.close)
        code = owner.run(SERVICE)
        scientist.run(f"duet = duetlink.join({code!r})\n{CLIENT}")
        assert scientist.value("trip(8 * 1024 * 1024)")
        assert scientist.value("[trip(size) for size in (1, 1000, 100_000)]") == [True] * 3
        assert scientist.value("opened.total_connections") == 4
        paths = scientist.value("[line.path for line in duet.audit.filter(kind='port')]")
        assert set(paths) <= {"punched", "udp", "relay", "channel"}
        for notebook in (scientist, owner):
            notebook.begin("duet.close()")
        for notebook in (scientist, owner):
            notebook.answer()

"""Connections that say nothing, far more than an owner may have descriptors, at each of its ports."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.system.conftest import Peer

pytestmark = pytest.mark.slow

Peers = Callable[[], tuple[Peer, Peer]]

# any address, and the loopback's, as /proc writes them: of IPv4, of IPv6, and of IPv4 in IPv6
_HERE = ("00000000", "0100007F", "0" * 32, f"{'0' * 16}FFFF00000100007F")

# in the owner: a file is opened all the time, as its user's cells and its audit log do
OPENING = """
import os, resource, threading
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
stop, opened, refused = threading.Event(), [], []
def keep_opening():
    while not stop.wait(0.001):
        try:
            os.close(os.open(os.devnull, os.O_RDONLY))
            opened.append(1)
        except OSError as error:
            refused.append(str(error))
opener = threading.Thread(target=keep_opening)
opener.start()
"""

# in a third process: all of them without waiting, held until its standard input ends
FLOOD = """
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (20000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
held = []
for port in map(int, sys.argv[1:]):
    for _ in range(1500):
        silent = socket.socket()
        silent.setblocking(False)
        silent.connect_ex(("127.0.0.1", port))
        held.append(silent)
print("flooded", flush=True)
sys.stdin.read()
"""


def listening_ports(pid: int) -> Iterator[int]:
    """The TCP ports on which a process takes connections of this machine's."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            inodes.add(os.readlink(f"/proc/{pid}/fd/{fd}").removeprefix("socket:[").rstrip("]"))
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}", encoding="ascii") as lines:
            for fields in map(str.split, lines):
                address, _, port = fields[1].rpartition(":")
                if fields[3] == "0A" and fields[9] in inodes and address in _HERE:
                    yield int(port, 16)


@pytest.mark.skipif(sys.platform != "linux", reason="the doorkeeper of the Flight port needs Linux")
def test_an_owner_whose_ports_are_flooded_answers_and_opens_files(peers: Peers) -> None:
    owner, scientist = peers()
    owner.run("duet.policies.add(duetlink.Policy('approve', assets='x*'))")
    owner.run(f"exec({OPENING!r})")
    ports: list[int] = []
    while len(ports) < 2:  # of Flight, and of the signaling server: one may just be reopened
        ports = list(listening_ports(owner.process.pid))
    command = [sys.executable, "-c", FLOOD, *map(str, ports)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as flood:
        assert flood.stdout is not None
        assert flood.stdout.readline() == "flooded\n"
        for number in range(20):
            owner.run(f"duet.share(np.arange({number}, 100_000), 'x{number}')")
            scientist.run(f"duet.wait_object('x{number}', 30)")
            got = f"float(duet.store['x{number}'].get(timeout_s=30)[0])"
            assert scientist.value(got) == f"{number}.0"
        owner.run("stop.set(); opener.join()")
        assert owner.value("sorted(set(refused))") == "[]"
        assert int(owner.value("len(opened)")) > 100
        assert flood.poll() is None
        flood.communicate()
    # and whoever comes after it is let in
    code = owner.run("later = duetlink.launch(keep=True, settings=quick); out = later.code")
    scientist.run(f"second = duetlink.join({code.removeprefix('ok ')}, keep=True, settings=quick)")
    assert scientist.value("second.state") == "'connected'"
    # a link that came anew under the flood has ports of its own; the others are as they were
    open_ports = sorted({*ports} & {*listening_ports(owner.process.pid)})
    assert open_ports
    for port in open_ports:
        socket.create_connection(("127.0.0.1", port), 10).close()

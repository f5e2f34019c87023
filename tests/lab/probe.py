"""What a network lets through, seen from inside it, with plain sockets: `python probe.py COMMAND …`.

- `alive SERVER`: ends when that STUN server answers;
- `nat SERVER SECOND`: the public address of one socket as three server addresses see it, and whose answers
  came back in, as JSON (RFC 8489, RFC 5780);
- `dial ADDRESS PORT [LOCAL_PORT]`: `connected`, `refused` or `silent`;
- `round_trip ADDRESS PORT`: how long a TCP handshake takes, in seconds;
- `punch ADDRESS PORT LOCAL_PORT SERVER`: `dial` again and again, after one connection to the server;
- `listen PORT`: accepts one TCP connection and prints who came;
- `ask ADDRESS PORT [LOCAL_PORT]`: sends a datagram; `answered` or `silent`;
- `answer PORT SERVER`: answers one, after one to the server, and prints who asked;
- `flood ADDRESS PORT COUNT`, `count PORT [FIRST_REST_MS]`: sends numbered datagrams, no faster than they are
  read; says how many of them came.

Standard library only: it starts in 20 ms.
"""

from __future__ import annotations

import ipaddress
import json
import os
import socket
import struct
import sys
import time
from collections.abc import Callable

PORT = 3478
_COOKIE = 0x2112A442
_BINDING, _ANSWER = 0x0001, 0x0101
_CHANGE_REQUEST, _XOR_MAPPED_ADDRESS = 0x0003, 0x0020
CHANGE_ADDRESS, CHANGE_PORT = 0x04, 0x02

_TRY_S = 0.25

# Of `flood`. A socket's buffer of the default size holds 256 datagrams of a few bytes.
_WINDOW = 100
_ASK_AGAIN_S = 0.02
_SILENCE_S = 10.0
_END = b"."


def binding(client: socket.socket, to: tuple[str, int], change: int = 0, tries: int = 4) -> str | None:
    """`address:port` in public, None where no answer came; `change` asks to be answered from elsewhere."""
    transaction = os.urandom(12)
    attributes = struct.pack("!HHI", _CHANGE_REQUEST, 4, change) if change else b""
    request = struct.pack("!HHI", _BINDING, len(attributes), _COOKIE) + transaction + attributes
    for _ in range(tries):
        client.sendto(request, to)
        deadline_s = time.monotonic() + _TRY_S
        while (left_s := deadline_s - time.monotonic()) > 0:
            client.settimeout(left_s)
            try:
                answer, _ = client.recvfrom(2048)
            except OSError:
                break
            if struct.unpack_from("!H", answer)[0] == _ANSWER and answer[8:20] == transaction:
                return _mapped(answer, transaction)
    return None


def _mapped(answer: bytes, transaction: bytes) -> str:
    at = 20
    while at < len(answer):
        kind, length = struct.unpack_from("!HH", answer, at)
        if kind == _XOR_MAPPED_ADDRESS:
            _, family, port = struct.unpack_from("!BBH", answer, at + 4)
            size = 16 if family == 2 else 4
            mask = struct.pack("!I", _COOKIE) + transaction
            plain = bytes(a ^ b for a, b in zip(answer[at + 8 : at + 8 + size], mask, strict=False))
            return f"{ipaddress.ip_address(plain)}:{port ^ _COOKIE >> 16}"
        at += 4 + length + -length % 4
    raise ValueError("no mapped address in the answer")


def nat(server: str, second: str) -> str:
    """Mapping with one socket; filtering with another, which has sent nothing to the second address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.bind(("0.0.0.0", 0))
        asked = ((server, PORT), (server, PORT + 1), (second, PORT))
        mapped = [binding(client, to, tries=2) for to in asked]
        local_port = client.getsockname()[1]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.bind(("0.0.0.0", 0))
        reachable = binding(client, (server, PORT)) is not None
        from_port = reachable and binding(client, (server, PORT), CHANGE_PORT, 2) is not None
        from_address = (
            reachable and binding(client, (server, PORT), CHANGE_ADDRESS | CHANGE_PORT, 2) is not None
        )
    found = {"mapped": mapped, "local_port": local_port, "from_port": from_port, "from_address": from_address}
    return json.dumps(found)


def dial(address: str, port: int, local_port: int = 0, timeout_s: float = 1.0) -> str:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        client.bind(("", local_port))
        client.settimeout(timeout_s)
        try:
            client.connect((address, port))
        except TimeoutError:
            return "silent"
        except ConnectionRefusedError:
            return "refused"
        return "connected"


def round_trip(address: str, port: int) -> str:
    with socket.create_connection((address, port), timeout=5.0) as client:
        # struct tcp_info, tcpi_rtt: of the handshake, in microseconds
        information = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        return str(struct.unpack_from("I", information, 68)[0] / 1e6)


def punch(address: str, port: int, local_port: int, server: str) -> str:
    dial(server, PORT, local_port)  # so do the gateways of TCP
    deadline_s = time.monotonic() + 3.0
    while time.monotonic() < deadline_s:
        if dial(address, port, local_port) == "connected":
            return "connected"
    return "silent"


def listen(port: int) -> str:
    with socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        print("up", flush=True)
        accepted, peer = server.accept()
        accepted.close()
        return str(peer[0]).removeprefix("::ffff:")


def ask(address: str, port: int, local_port: int = 0) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.bind(("", local_port))
        client.settimeout(0.5)
        client.sendto(b"?", (address, port))
        try:
            client.recvfrom(2048)
        except TimeoutError:
            return "silent"
        return "answered"


def answer(port: int, server_address: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("", port))
        binding(server, (server_address, PORT))  # its gateway learns the port
        server.settimeout(2.0)
        print("up", flush=True)
        try:
            data, peer = server.recvfrom(2048)
        except TimeoutError:
            return "silent"
        server.sendto(data, peer)
        return f"{peer[0]}:{peer[1]}"


def flood(address: str, port: int, count: int) -> str:
    """Never more than `_WINDOW` datagrams are under way: the receiver says when it has read them."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect((address, port))
        client.settimeout(_ASK_AGAIN_S)
        for number in range(count):
            client.send(b"%d" % number)
            if number % _WINDOW == _WINDOW - 1:
                _wait_read(client, b"?%d" % number)
        _wait_read(client, _END)
    return "sent"


def _wait_read(client: socket.socket, question: bytes) -> None:
    """Ask until the receiver answers, which it does when it has read all that came before the question.

    Question and answer cross the same line as the datagrams, and may be lost as they are.
    """
    deadline_s = time.monotonic() + _SILENCE_S
    while time.monotonic() < deadline_s:
        try:
            client.send(question)
            while client.recv(64) != question:
                pass  # the answer to an earlier question that was asked twice
        except TimeoutError:
            continue
        except ConnectionRefusedError:
            if question != _END:
                raise
        return  # answered, or refused: a receiver that has ended has heard the end
    sys.exit(f"the receiver did not answer {question!r} within {_SILENCE_S:g} s")


def count(port: int, first_rest_ms: int = 0) -> str:
    """How many different datagrams came from one `flood`; begins to read `first_rest_ms` late."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("", port))
        server.settimeout(_SILENCE_S)
        print("up", flush=True)
        time.sleep(first_rest_ms / 1000)
        seen = set()
        while True:
            data, sender = server.recvfrom(64)
            if data.startswith((b"?", _END)):
                server.sendto(data, sender)
            else:
                seen.add(data)
            if data == _END:
                return str(len(seen))


def alive(server: str) -> str:
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    for _ in range(200):
        # each time another port: a coturn that has just started answers some later than others
        with socket.socket(family, socket.SOCK_DGRAM) as client:
            if binding(client, (server, PORT), tries=1) is not None:
                return "alive"
    sys.exit(f"no STUN server answers at {server}")


def main() -> None:
    name, *words = sys.argv[1:]
    command: Callable[..., object] = {
        one.__name__: one for one in (alive, nat, dial, round_trip, punch, listen, ask, answer, flood, count)
    }[name]
    print(command(*(int(word) if word.isdecimal() else word for word in words)), flush=True)


if __name__ == "__main__":
    main()

"""Servers that answer the right question with anything at all: every probe ends in time, with a finding."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from aioice import stun

from duetlink.settings import IceServer, Settings
from duetlink.tools.doctor.examine import examine
from tests.net.stun.fake_server import Address, FakeTurn, stream_server, udp_server

OUTCOMES = {"ok", "limited", "failed", "unknown"}


def chaos(seed: int) -> Callable[..., bytes | None]:
    """A TURN server whose answers are true ones, lies, and noise."""
    dice, honest = random.Random(seed), FakeTurn()
    hosts = [
        "127.0.0.1",
        "127.0.0.2",
        "127.0.0.9",
        "0.0.0.0",
        "255.255.255.255",
        "224.0.0.1",
        "::1",
        "::",
        "ff02::1",
    ]

    def address() -> Address:
        return dice.choice(hosts), dice.choice((0, 1, 9, 40_000, 65_535))

    def attributes() -> dict[str, Any]:
        made: dict[str, Callable[[], Any]] = {
            "XOR-MAPPED-ADDRESS": address,
            "MAPPED-ADDRESS": address,
            "OTHER-ADDRESS": address,
            "CHANGED-ADDRESS": address,
            "XOR-RELAYED-ADDRESS": address,
            "XOR-PEER-ADDRESS": address,
            "LIFETIME": lambda: dice.choice((0, 1, 2**32 - 1)),
            "NONCE": lambda: dice.randbytes(dice.choice((0, 10, 800))),
            "REALM": lambda: dice.choice(("", "r", "\u202e\x1b[31m" * 50)),
            "SOFTWARE": lambda: "\x00" * dice.choice((0, 900)),
            "DATA": lambda: dice.randbytes(16),
            "ERROR-CODE": lambda: (dice.choice((300, 400, 401, 438, 441, 486, 508, 799)), "\x07\n" * 20),
        }
        chosen = dice.sample(sorted(made), dice.randrange(6))
        return {name: made[name]() for name in chosen}

    def script(request: stun.Message, at: Address, source: Address) -> bytes | None:
        roll = dice.random()
        if roll < 0.3:
            return honest(request, at, source)
        if roll < 0.4:
            return None
        answer = bytearray(
            bytes(
                stun.Message(
                    dice.choice((request.message_method, stun.Method.DATA)),
                    dice.choice(
                        (stun.Class.RESPONSE, stun.Class.RESPONSE, stun.Class.ERROR, stun.Class.REQUEST)
                    ),
                    request.transaction_id,
                    attributes(),
                )
            )
        )
        if roll < 0.6:
            answer[dice.randrange(len(answer))] = dice.randrange(256)
        return bytes(answer)

    return script


@pytest.mark.parametrize("seed", range(6))
async def test_nothing_that_a_server_says_makes_the_doctor_ill(seed: int) -> None:
    script = chaos(seed)
    where = {"hosts": ("127.0.0.1", "127.0.0.2"), "ports": 2}
    async with udp_server(script, **where) as (_, udp), stream_server(script) as tcp:
        urls = [f"stun:127.0.0.1:{udp[1]}", f"turn:127.0.0.1:{udp[1]}"] * 4
        urls += [f"turn:127.0.0.1:{tcp[1]}?transport=tcp"] * 4
        report = await examine(Settings(ice_servers=(IceServer(tuple(urls), "u", "p"),)), timeout_s=6.0)
    assert [finding.name for finding in report.findings].count("turn") == 8
    for finding in report.findings:
        assert finding.outcome in OUTCOMES
        assert "could not be examined" not in finding.words, finding
        assert (finding.words + finding.advice).isprintable()
        assert len(finding.words) < 500
    assert report.json().isascii() or "\x1b" not in report.json()
    assert str(report)

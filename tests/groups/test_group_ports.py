"""A TCP service that one member shares with another, and with nobody else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from duetlink.errors import PortUnavailable, SettingError
from duetlink.groups.lifecycle import life
from duetlink.groups.lifecycle.life import GroupLife
from duetlink.groups.membership import events
from duetlink.testing.faults import life_of, run_inside, set_constants
from tests.duet.test_ports import Echo, ask, assert_ended, dial, port_of, serving

from .conftest import MakeGroup, until


def test_a_member_shares_a_service_with_whom_it_names(make_group: MakeGroup, private_audit_log: Path) -> None:
    groups = make_group(3)
    with serving(Echo) as server:
        shared = groups[0].share_port(port_of(server), "echo", to=["member 1"])
        opened = groups[1].open_port("echo", of=0)
        with dial(opened) as connection:
            ask(connection, b"hello" * 1000)
            assert (opened.sent_bytes, opened.received_bytes) == (5000, 5000)
            assert (shared.sent_bytes, shared.connections) == (5000, 1)
        with pytest.raises(PortUnavailable, match="no port 'echo' is shared"):
            groups[2].open_port("echo", of="member 0")
        for nobody in (0, "member 0", 7, "eve"):  # oneself neither
            with pytest.raises(SettingError, match="no other member"):
                groups[0].share_port(1, "other", to=[nobody])
        assert repr(opened) == f"<GroupPort 'echo' of 0: 127.0.0.1:{opened.port}, open>"
        until(lambda: shared.connections == 0)  # else it is the port's end that ends the connection
        shared.close()
        with pytest.raises(PortUnavailable):
            groups[1].open_port("echo", of=0)
        everybody = groups[2].share_port(port_of(server), "for all")
        with dial(groups[0].open_port("for all", of=2)) as connection:
            ask(connection, b"hello")
            groups[2].close()
            assert_ended(connection)
        assert everybody.closed
    until(lambda: "complete" in private_audit_log.read_text())
    lines = [json.loads(line) for line in private_audit_log.read_text().splitlines()]
    ports = [line for line in lines if line["kind"] == "port"]
    assert [(line["state"], line["peer"]) for line in ports[:2]] == [
        ("added", "member 1"),
        ("begun", "member 0"),
    ]
    ended = next(line for line in ports if line["state"] == "complete" and line["name"] == "echo")
    assert (ended["left_bytes"], ended["came_bytes"]) == (5000, 5000)


def test_whoever_has_left_reaches_no_service_though_it_keeps_its_link(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_constants(monkeypatch, life, CUT_S=1.0)
    groups = make_group(3)
    with serving(Echo) as server:
        groups[0].share_port(port_of(server), "echo")
        opened = groups[2].open_port("echo", of="member 0")
        with dial(opened) as connection:
            ask(connection, b"hello")
            # the last one leaves, as far as the others can tell, and keeps its links
            life_of(groups[2]).end = lambda error: None  # type: ignore[method-assign]
            run_inside(groups[2], leave(life_of(groups[2])))
            until(lambda: [group.size for group in groups[:2]] == [2, 2])
            with pytest.raises(PortUnavailable, match="no port 'echo' is shared"):
                groups[2].open_port("echo", of="member 0")
            assert_ended(connection)  # and so does the link, after a moment
    assert life_of(groups[0]).peers[2].link is None


async def leave(life: GroupLife) -> None:
    life.feed(events.Leave())

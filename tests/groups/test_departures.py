"""Who has gone from a group, and how, as `group.status()` tells it."""

from __future__ import annotations

import asyncio
import time

import pytest

from duetlink.base.runtime.at_exit import KERNEL_ENDED
from duetlink.errors import PeerLost, RemoteProtocolError
from duetlink.groups.lifecycle.departures import Departures
from duetlink.groups.lifecycle.status import GoneStatus
from duetlink.groups.membership.messages import Epoch
from duetlink.net.link.introducing import peer_closed

from .conftest import MakeGroup, until
from .memory_links import Network, grown


@pytest.fixture
def departures() -> Departures:
    return Departures(clock=lambda: 1000.0)


def test_how_a_member_went_is_known_from_its_link_before_or_after(departures: Departures) -> None:
    departures.gone(2, "Cleo", Epoch(4, (0, 1, 2)), leaves=True)
    assert departures.latest == (GoneStatus(2, "Cleo", 4, 1000.0, "left", ""),)
    departures.link_ended(2, peer_closed(KERNEL_ENDED))
    assert (departures.latest[0].how, departures.latest[0].why) == ("notebook closed", "")
    departures.link_ended(1, PeerLost("silent for 20 s"))
    departures.gone(1, "Ben", Epoch(5, (0, 1)), leaves=False)
    departures.put_out(3, RemoteProtocolError("a seat that nobody has"))
    departures.gone(3, "Eve", Epoch(6, (0, 3)), leaves=False)
    departures.gone(4, "Fay", Epoch(7, (0, 4)), leaves=False)
    assert [(one.name, one.how, one.why) for one in list(departures.latest)[1:]] == [
        ("Ben", "silent", "silent for 20 s"),
        ("Eve", "put out", "a seat that nobody has"),
        ("Fay", "lost by others", ""),
    ]


def test_the_first_word_of_a_departure_counts_and_a_broken_link_does_not_unsay_it(
    departures: Departures,
) -> None:
    departures.gone(1, "Ben", Epoch(4, (0, 1)), leaves=True)
    departures.gone(1, "Ben", Epoch(5, (1,)), leaves=False)
    departures.link_ended(1, PeerLost("the connection to the peer ended"))
    departures.link_ended(1, peer_closed("too late to be true"))
    assert departures.latest == (GoneStatus(1, "Ben", 4, 1000.0, "left", "the connection to the peer ended"),)


def test_no_more_than_sixteen_are_kept_and_their_words_cannot_alter_a_display(departures: Departures) -> None:
    for seat in range(40):
        departures.link_ended(seat, PeerLost(f"\u202e{seat}"))
        departures.gone(seat, f"\u202e{seat}", Epoch(seat, (seat,)), leaves=False)
    assert len(departures.latest) == 16
    assert departures.latest[-1].epoch == 39
    assert all("\u202e" not in one.name + one.why for one in departures.latest)


async def test_all_who_are_left_say_who_fell_silent_and_who_left() -> None:
    network = Network(seed=3)
    members = await grown(network, 4)
    try:
        members[3].kill()
        for member in members[:3]:
            async with asyncio.timeout(60):  # others may know first, and say no more than that it is lost
                while [gone.how for gone in member.life.departures.latest] != ["silent"]:
                    await member.life.wait_change(0.1)
            assert member.life.departures.latest[0].rank == 3
        async with asyncio.timeout(60):
            while any(member.epoch.members != (0, 1, 2) for member in members[:3]):
                await members[0].life.wait_change(0.1)
        await members[2].exit.close(KERNEL_ENDED)
        for member in members[:2]:
            async with asyncio.timeout(60):
                while [gone.how for gone in member.life.departures.latest] != ["silent", "notebook closed"]:
                    await member.life.wait_change(0.1)
            last = member.life.departures.latest[-1]
            assert (last.rank, last.name, last.epoch) == (2, members[2].name, member.epoch.number - 1)
    finally:
        await network.close()


def test_a_group_tells_who_left_and_in_whose_words(make_group: MakeGroup) -> None:
    began_s = time.time()
    groups = make_group(3)
    groups[1].close("lunch")
    until(lambda: any(gone.why == "lunch" for gone in groups[0].status().gone))
    (gone,) = groups[0].status().gone
    assert (gone.rank, gone.name, gone.epoch, gone.how) == (1, "member 1", 1, "left")
    assert began_s <= gone.when_s <= time.time()

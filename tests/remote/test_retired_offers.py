"""Offers that were made and not fetched end with the revision whose data they have, whoever keeps them."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from duetlink import Policy, errors
from duetlink.base.wire import schema_pb2 as pb
from duetlink.duet.answering.releases import Releases
from duetlink.duet.answering.requests import Request
from duetlink.duet.duet import Duet
from duetlink.net.flight.body import ReceiveBuffer
from duetlink.net.link.link import Link
from duetlink.testing.faults import life_of, run_inside
from tests.remote.conftest import Bench

ANY = 1 << 40
ITEMS = 100_000  # more than rides along
WORDS = {"unshare": "'cohort' is no longer shared", "share again": "'cohort' was shared again"}


def link_of(duet: Duet) -> Link:
    link = life_of(duet).link
    assert link is not None
    return link


def numbers() -> np.ndarray:
    return np.random.default_rng().random(ITEMS)  # other ones each time: the peer has none of it


def kept(bench: Bench, ask: Any) -> pb.TransferOffer:
    """The offer that answers `ask()`, at a scientist who fetches nothing and says nothing of it."""
    offers: list[pb.TransferOffer] = []

    async def keep(name: str, offer: pb.TransferOffer, *others: object) -> memoryview:
        offers.append(offer)
        raise errors.TransferFailed("kept for later")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(link_of(bench.scientist).imports, "pull", keep)
        with pytest.raises(errors.TransferFailed, match="kept for later"):
            ask()
    (offer,) = offers
    return offer


async def check_refused(link: Link, offer: pb.TransferOffer, words: str) -> None:
    """No way to this body brings a byte of it, and each says so."""
    if offer.HasField("ticket"):
        receive_buffer = ReceiveBuffer(offer.size_bytes)
        with pytest.raises(errors.TicketRefused):
            await link.path_selector.named(offer.ticket.path).fetch(offer.ticket, receive_buffer)
        assert receive_buffer.position_bytes == 0
    for path in link.path_selector.statuses():
        query = pb.TicketQuery(
            transfer_id=offer.transfer_id, path=path.name, missing=[0, offer.size_bytes], plain=True
        )
        with pytest.raises(errors.AssetChanged, match=words):
            await link.rpc.call(query, pb.Ticket)
    with pytest.raises(errors.AssetChanged, match=words):
        await link.rpc.call(pb.ManifestQuery(transfer_id=offer.transfer_id), pb.Manifest)
    with pytest.raises(errors.AssetChanged, match=words):
        await link.imports.pull("kept", offer, ANY)


@pytest.mark.parametrize("ticket", ["none yet", "not used"])
@pytest.mark.parametrize("retire", ["unshare", "share again"])
@pytest.mark.parametrize("kind", ["asset", "result", "mock"])
def test_an_offer_that_was_kept_brings_nothing_once_its_revision_is_retired(
    bench: Bench, kind: str, retire: str, ticket: str
) -> None:
    pointer = bench.share(numbers(), "cohort", mock=numbers())
    asked = pointer + 1 if kind == "result" else pointer
    if ticket == "none yet":
        bench.owner.pause()
    offer = kept(bench, lambda: asked.mock if kind == "mock" else asked.get(reason="to keep"))
    assert (offer.inline, offer.size_bytes > 8 * ITEMS) == (b"", True)
    assert offer.HasField("ticket") == (ticket == "not used")
    if retire == "unshare":
        bench.owner.store["cohort"].unshare()
    else:
        bench.share(numbers(), "cohort", mock=numbers())
    bench.owner.resume()
    link = link_of(bench.scientist)
    run_inside(bench.scientist, check_refused(link, offer, WORDS[retire]))
    ended = [transfer for transfer in bench.owner.transfers if WORDS[retire] in transfer.why]
    assert (ended[-1].state, ended[-1].done_bytes) == ("failed", 0)


def test_the_second_of_two_who_wait_is_denied_what_was_retired_while_the_first_was_told(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    pointer = bench.share([1, 2, 3], "few", mock=[4, 5, 6])  # it rides along in the answer
    told, tell = [], Releases.tell

    async def retire_and_tell(releases: Releases, handling: Any, reply: Any) -> None:
        told.append(reply.asker)
        if len(told) == 2:
            catalogue = life_of(bench.owner).catalogue
            catalogue.unshare(catalogue.mine["few"].info)
        await tell(releases, handling, reply)

    monkeypatch.setattr(Releases, "tell", retire_and_tell)
    both_wait = threading.Barrier(2, timeout=30)

    def answer(request: Request) -> None:
        while request.times < 2:
            bench.owner.ping()
        request.approve()
        both_wait.wait()

    bench.answer = answer
    first, second = pointer.request("for both"), pointer.request("for both")
    both_wait.wait()
    assert first.result(10) == [1, 2, 3]
    with pytest.raises(errors.RequestDenied, match="'few' is not shared"):
        second.result(10)


@pytest.mark.parametrize("path", ["tcp", "channel", "local"])
def test_a_get_beside_new_revisions_brings_a_whole_one_or_says_that_it_changed(
    make_duets: Any, path: str
) -> None:
    owner, scientist = make_duets(only=(path,))
    owner.policies.add(Policy("approve"))
    owner.share(np.full(ITEMS, 0.0), "counted")
    pointer = scientist.wait_object("counted", 10)
    done, words = threading.Event(), []

    def share() -> None:
        for version in range(1, 31):
            owner.share(np.full(ITEMS, float(version)), "counted")
        done.set()

    sharing = threading.Thread(target=share)
    sharing.start()
    while not done.is_set():
        pointer = scientist.store["counted"]
        try:
            value = pointer.get(reason="the latest", timeout_s=30)
        except (errors.AssetChanged, errors.RequestDenied) as error:
            words.append(str(error))
        else:
            assert set(value) == {float(pointer.revision - 1)}
    sharing.join(30)
    assert all("'counted' was shared again" in said for said in words), words
    pointer = scientist.wait_object("counted", 10, revision=31)
    assert set(pointer.get(reason="the last", timeout_s=30)) == {30.0}

"""Which objects are kept on purpose, and how many at most: these counts may rise until their limit."""

from __future__ import annotations

# by the beginning of the name of a class, or of a container of it: the first that fits
LIMITS = (
    # records of requests (HISTORY in duet/answering/inbox.py), the offers in them, and what they printed
    ("duetlink.duet.answering.", 10_000),
    ("duetlink.base.wire.schema_pb2.TransferOffer", 10_000),
    ("duetlink.duet.objects.job_log.JobLog", 10_000),
    # what each of those asked for, and what is shared now (max_assets)
    ("duetlink.duet.objects.asset.AssetInfo", 20_000),
    # steps, so that any result can be traced back (MAX_HELD_BYTES in compute/operations/steps/trace.py)
    ("duetlink.compute.operations.", 3_000_000),
    # a quarter of an hour, second by second (KEPT_S in net/link/history.py), of up to four links
    ("duetlink.net.link.history.", 3_600),
    # digests of what was sent (_REMEMBERED in net/link/exports.py)
    ("duetlink.net.link.exports.Exports._delivered", 1_024),
    # bodies in which chunks are found again (MAX_BODIES in data/dedup/held.py), and their parts
    ("duetlink.data.dedup.", 2_560),
    # a roster never shrinks (MOST_SEATS in groups/membership/messages.py); 8 status messages of each member
    ("duetlink.groups.links.peer.Peer.statuses", 2_048),
    ("duetlink.groups.links.peer.Peer", 256),
    ("duetlink.groups.membership.roster.", 256),
    ("duetlink.groups.lifecycle.life.GroupLife.peers", 256),
    ("duetlink.groups.links.member_links.MemberLinks.peers", 256),
    ("duetlink.groups.lifecycle.farewell.Farewell._answered", 256),
    ("duetlink.errors.LinkClosed", 256),  # this and the next: how the link to each of them ended
    ("duetlink.errors.PeerLost", 256),
    # who has gone (_KEPT in groups/lifecycle/departures.py)
    ("duetlink.groups.lifecycle.departures.", 16),
    ("duetlink.groups.lifecycle.status.GoneStatus", 16),
    # two caches of 256 choices and one of 1,024 schedules, of a few rounds each
    ("duetlink.groups.collectives.schedules.schedule.", 20_000),
)


def limit(quantity: str) -> int | None:
    """The most that there may be of it; None where it must not rise at all."""
    name = quantity.removeprefix("items of ")
    return next((most for beginning, most in LIMITS if name.startswith(beginning)), None)

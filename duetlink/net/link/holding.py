"""What this side has of what the peer sends: earlier versions, whole or in part, that need not travel again.

Bodies that arrived are kept, by reference, up to a quota. They are their receiver's, who may change them: one
that is not what the peer has sent is not looked at, so that nobody learns of the change, nor of what another
peer has sent. What is taken is verified with the whole by its fingerprint.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from duetlink.base.runtime.holdings import Holdings, Retained
from duetlink.base.wire import schema_pb2 as pb
from duetlink.data.dedup import Held, HeldBodies, Manifest, Segment, find
from duetlink.data.dedup.held import MAX_BODIES
from duetlink.data.dedup.names import MAX_KEY_BYTES, MIN_KEY_BYTES
from duetlink.data.values.base import Part
from duetlink.errors import RemoteProtocolError
from duetlink.net.flight.body import Outgoing, Version
from duetlink.net.flight.fingerprint import Fingerprint

MIN_BYTES = 128 * 1024  # below, to ask for a manifest costs as much as the bytes
SIMILAR = 1.25  # an object of another name is looked through where it is at most so many times as large
NOT_AGAIN = "what is in it need not travel again"
COMPARED = "the peer has it: the next version is compared with it"
LOOKED_THROUGH = 3  # times the size of an object: so much at most is read to find some of it
MAX_PARTS = 2048  # that an offer tells of
_MIN_PART_BYTES = 8 * 1024

Piece = tuple[int, memoryview]  # where it belongs, and the bytes


def parts_to_wire(parts: Sequence[Part]) -> list[int]:
    """Start, size and row size of each array of some size; the rest counts as bytes."""
    large = [part for part in parts if part.size_bytes >= _MIN_PART_BYTES and part.row_bytes]
    return [
        number for part in large[:MAX_PARTS] for number in (part.start_bytes, part.size_bytes, part.row_bytes)
    ]


def segments(numbers: Sequence[int], size_bytes: int) -> list[Segment]:
    """What `parts_to_wire` made; raises RemoteProtocolError where parts overlap or leave the body."""
    if len(numbers) > 3 * MAX_PARTS:
        raise RemoteProtocolError(f"the peer offers an object of over {MAX_PARTS} parts")
    found = [Segment(*numbers[index : index + 3]) for index in range(0, len(numbers) - 2, 3)]
    end = 0
    for segment in found:
        if segment.start_bytes < end or not 0 < segment.row_bytes <= segment.size_bytes:
            raise RemoteProtocolError("the peer offers an object whose parts overlap or are none")
        end = segment.start_bytes + segment.size_bytes
    if end > size_bytes:
        raise RemoteProtocolError("the peer offers an object with parts beyond its end")
    return found


class Holding:
    """Bodies of one peer. One method at a time; the slow ones read all that they look at."""

    def __init__(self, quota_bytes: int, holdings: Holdings) -> None:
        self._bodies = HeldBodies(quota_bytes)
        self._holdings = holdings
        self._held = Retained("the latest that the peer has sent")

    def keep(self, name: str, body: memoryview, offer: pb.TransferOffer) -> None:
        """A body has arrived."""
        if self._bodies.keep(name, body, segments(offer.parts, len(body)), offer.fingerprint):
            self._held.size_bytes = self._bodies.total_bytes
            self._holdings.keep(self._held, NOT_AGAIN)

    def similar(self, name: str, size_bytes: int) -> list[Held]:
        """Bodies that may share content with an object: versions of it, then others of about its size."""
        if size_bytes < MIN_BYTES:
            return []
        versions = self._bodies.versions(name)
        known = {id(held.body) for held in versions}
        others = [
            held
            for held in self._bodies.bodies()
            if id(held.body) not in known and size_bytes / SIMILAR <= len(held.body) <= size_bytes * SIMILAR
        ]
        found: list[Held] = []
        room_bytes = LOOKED_THROUGH * size_bytes
        for held in (*versions, *others):
            room_bytes -= len(held.body)
            if room_bytes >= 0:
                found.append(held)
        return found

    def whole(self, fingerprint: bytes, size_bytes: int) -> memoryview | None:
        """A body that has this fingerprint now."""
        for held in self._bodies.bodies():
            if held.fingerprint == fingerprint and len(held.body) == size_bytes and _is_unchanged(held):
                return held.body
        return None

    def version(self, name: str, size_bytes: int) -> Version | None:
        """The newest version of an object, of that size, if it is as it was."""
        for held in self._bodies.versions(name)[:1]:
            if len(held.body) == size_bytes >= MIN_BYTES and _is_unchanged(held):
                return Version(held.fingerprint, held.body)
        return None


class Versions:
    """The last version of each object that the peer has got from here: what the next one is compared with.

    They are the owner's memory; who changes it finds that nothing is compared any more.
    """

    def __init__(self, quota_bytes: int, holdings: Holdings) -> None:
        self._quota_bytes = quota_bytes
        self._holdings = holdings
        self._sent: OrderedDict[str, Outgoing] = OrderedDict()
        self._sent_bytes = 0

    def keep(self, name: str, outgoing: Outgoing) -> None:
        """The peer has this version."""
        self._holdings.keep(outgoing.held, COMPARED, name)
        before = self._sent.pop(name, None)
        self._sent[name] = outgoing
        self._sent_bytes += outgoing.size_bytes
        if before is not None:
            self._let_go(name, before)
        while self._sent_bytes > self._quota_bytes or len(self._sent) > MAX_BODIES:
            self._let_go(*self._sent.popitem(last=False))

    def forget(self, name: str) -> None:
        """Keep no version of this name."""
        sent = self._sent.pop(name, None)
        if sent is not None:
            self._let_go(name, sent)

    def _let_go(self, name: str, sent: Outgoing) -> None:
        self._sent_bytes -= sent.size_bytes
        if self._sent.get(name) is not sent:  # else the very same was sent again
            sent.held.let_go(COMPARED, name)

    def reference(self, name: str, outgoing: Outgoing, fingerprint: bytes) -> Outgoing | None:
        """The version with this fingerprint, if `outgoing` can be compared with it item by item."""
        sent = self._sent.get(name)
        if sent is None or sent.fingerprint != fingerprint or sent.runs != outgoing.runs:
            return None
        return sent


def pieces(manifest: pb.Manifest, size_bytes: int, held: Sequence[Held]) -> list[Piece]:
    """What of an announced body lies in the held ones that are as they were. Reads all of them.

    Raises:
        RemoteProtocolError: the manifest is none.
    """
    if not MIN_KEY_BYTES <= len(manifest.key) <= MAX_KEY_BYTES:
        raise RemoteProtocolError(f"the peer names chunks by a key of {len(manifest.key)} bytes")
    held = [one for one in held if _is_unchanged(one)]
    matches = find(Manifest.from_bytes(manifest.content, size_bytes), held, manifest.key)
    return [
        (
            match.target_start,
            held[match.source].body[match.source_start : match.source_start + match.size_bytes],
        )
        for match in matches
    ]


def _is_unchanged(held: Held) -> bool:
    digest = Fingerprint()
    digest.update(held.body)
    return digest.digest() == held.fingerprint

"""Earlier bodies that both sides keep, so that content the receiver already has is not sent again.

The receiver keeps references to bodies that have arrived, up to a quota. The user owns these bodies and may
change them. Before a body is used, its digest is compared with the fingerprint that it arrived with, and a
changed one is ignored. So the peer cannot learn of the change, nor of what another peer has sent. What was
copied from kept bodies is verified again with the whole new body.
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

MIN_BYTES = 128 * 1024  # below this, asking for a manifest costs as much as sending the bytes
SIMILAR = 1.25  # an object of another name is searched if the sizes differ by at most this factor
NOT_AGAIN = "its content need not be sent again"
COMPARED = "the peer has it: the next version is compared with it"
SEARCHED_SIZES = 3  # bytes that are searched for content of an object, as a multiple of its size
MAX_PARTS = 2048  # parts (arrays) that an offer may describe
_MIN_PART_BYTES = 8 * 1024

Piece = tuple[int, memoryview]  # position in the new body, and the bytes


def parts_to_wire(parts: Sequence[Part]) -> list[int]:
    """Return start, size and row size (bytes) of each large array, one after another.

    The rest counts as bytes.
    """
    large = [part for part in parts if part.size_bytes >= _MIN_PART_BYTES and part.row_bytes]
    return [
        number for part in large[:MAX_PARTS] for number in (part.start_bytes, part.size_bytes, part.row_bytes)
    ]


def segments(numbers: Sequence[int], size_bytes: int) -> list[Segment]:
    """Parse what `parts_to_wire` returned. Raises RemoteProtocolError if parts overlap or leave the body."""
    if len(numbers) > 3 * MAX_PARTS:
        raise RemoteProtocolError(f"the peer offers an object of over {MAX_PARTS} parts")
    found = [Segment(*numbers[index : index + 3]) for index in range(0, len(numbers) - 2, 3)]
    end = 0
    for segment in found:
        if segment.start_bytes < end or not 0 < segment.row_bytes <= segment.size_bytes:
            raise RemoteProtocolError("the peer offers an object whose parts overlap or are malformed")
        end = segment.start_bytes + segment.size_bytes
    if end > size_bytes:
        raise RemoteProtocolError("the peer offers an object with parts beyond its end")
    return found


class Holding:
    """Bodies that one peer has sent.

    Call one method at a time; the slow ones read all bytes of the bodies.
    """

    def __init__(self, quota_bytes: int, holdings: Holdings) -> None:
        self._bodies = HeldBodies(quota_bytes)
        self._holdings = holdings
        self._held = Retained("the latest bodies from the peer")

    def keep(self, name: str, body: memoryview, offer: pb.TransferOffer) -> None:
        """Keep a reference to a body that has arrived."""
        if self._bodies.keep(name, body, segments(offer.parts, len(body)), offer.fingerprint):
            self._held.size_bytes = self._bodies.total_bytes
            self._holdings.keep(self._held, NOT_AGAIN)

    def similar(self, name: str, size_bytes: int) -> list[Held]:
        """Return bodies that may share content with an object: first its versions, then others of similar
        size.
        """
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
        room_bytes = SEARCHED_SIZES * size_bytes
        for held in (*versions, *others):
            room_bytes -= len(held.body)
            if room_bytes >= 0:
                found.append(held)
        return found

    def whole(self, fingerprint: bytes, size_bytes: int) -> memoryview | None:
        """Return an unchanged body with this fingerprint and size; None if there is none. Reads all of it."""
        for held in self._bodies.bodies():
            if held.fingerprint == fingerprint and len(held.body) == size_bytes and _is_unchanged(held):
                return held.body
        return None

    def version(self, name: str, size_bytes: int) -> Version | None:
        """Return the newest version of an object if it has this size and is unchanged; else None.

        Reads all of it.
        """
        for held in self._bodies.versions(name)[:1]:
            if len(held.body) == size_bytes >= MIN_BYTES and _is_unchanged(held):
                return Version(held.fingerprint, held.body)
        return None


class Versions:
    """The last version of each object that the peer has received: the next version is sent as differences to
    it.

    The bodies are the owner's memory. If the owner has changed one, its fingerprint no longer matches and
    nothing is compared with it.
    """

    def __init__(self, quota_bytes: int, holdings: Holdings) -> None:
        self._quota_bytes = quota_bytes
        self._holdings = holdings
        self._sent: OrderedDict[str, Outgoing] = OrderedDict()
        self._sent_bytes = 0

    def keep(self, name: str, outgoing: Outgoing) -> None:
        """Note that the peer has received this version."""
        self._holdings.keep(outgoing.held, COMPARED, name)
        before = self._sent.pop(name, None)
        self._sent[name] = outgoing
        self._sent_bytes += outgoing.size_bytes
        if before is not None:
            self._release(name, before)
        while self._sent_bytes > self._quota_bytes or len(self._sent) > MAX_BODIES:
            self._release(*self._sent.popitem(last=False))

    def forget(self, name: str) -> None:
        sent = self._sent.pop(name, None)
        if sent is not None:
            self._release(name, sent)

    def _release(self, name: str, sent: Outgoing) -> None:
        self._sent_bytes -= sent.size_bytes
        if self._sent.get(name) is not sent:  # otherwise the same body was sent again, and is still kept
            sent.held.let_go(COMPARED, name)

    def reference(self, name: str, outgoing: Outgoing, fingerprint: bytes) -> Outgoing | None:
        """Return the version with this fingerprint, if `outgoing` can be compared with it item by item; else
        None.
        """
        sent = self._sent.get(name)
        if sent is None or sent.fingerprint != fingerprint or sent.runs != outgoing.runs:
            return None
        return sent


def pieces(manifest: pb.Manifest, size_bytes: int, held: Sequence[Held]) -> list[Piece]:
    """Find content of an announced body in the unchanged ones of `held`. Reads all of them.

    Raises:
        RemoteProtocolError: the manifest is malformed.
    """
    if not MIN_KEY_BYTES <= len(manifest.key) <= MAX_KEY_BYTES:
        raise RemoteProtocolError(
            f"the peer sent a key of {len(manifest.key)} bytes, not {MIN_KEY_BYTES} to {MAX_KEY_BYTES}"
        )
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

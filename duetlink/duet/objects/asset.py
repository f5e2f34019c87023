"""An object that this side shares: its description, its revision, its bytes ready to leave."""

from __future__ import annotations

import asyncio
import concurrent.futures
import re
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from duetlink.base.runtime.holdings import Retained
from duetlink.base.wire import schema_pb2 as pb
from duetlink.base.wire.text import harmless, harmless_lines
from duetlink.data.values import Encoded, decode, encode
from duetlink.data.values.lossy import Lossy
from duetlink.errors import RemoteProtocolError, SettingError
from duetlink.net.flight.body import Outgoing

if TYPE_CHECKING:
    from duetlink.compute.operations.lineage import Lineage

REQUEST_ID_BYTES = 16  # of the number of a question for an object
MAX_NAME = 200  # characters
MAX_TEXT = 4000
MAX_TAGS = 50
_MOST_DECODED_BYTES = 16 * 1024 * 1024  # to look at what would leave, and not at what it was made from

_TOLD = tuple(pb.AssetNotice.DESCRIPTOR.fields_by_name)  # to the peer; they are called alike
_NUMBER = re.compile(r"int|float|complex|bool|numpy\.(u?int|float|complex|bool)\d*")


@dataclass(frozen=True, slots=True)
class AssetInfo:
    """What is shown of an object: everything but its content."""

    name: str
    revision: int
    kind: str
    detail: str
    size_bytes: int
    description: str = ""
    tags: tuple[str, ...] = ()
    lossy: str = ""
    mock: str = ""  # how it was made, in words; empty: there is none
    budget: str = ""  # for private statistics, in words; empty: there is none
    # of this side's only, and not sent:
    elements: int | None = None  # where its type has a number of them
    lineage: Lineage | None = None  # of a result: how the peer made it from what is shared
    # of how many rows it is at least made; None: of no row at all, or it is no result
    group: int | None = None
    fingerprint: str = ""  # of a result
    # of a result: those of its `tags` that each of its assets has; None: it is an asset
    common_tags: tuple[str, ...] | None = None

    @property
    def identity(self) -> tuple[str, ...]:
        """The same for what is the same to who answers: a revision, or one content made in one way."""
        if self.lineage is not None:
            return self.lineage.digest, self.fingerprint
        return self.name, str(self.revision)

    @property
    def sources(self) -> tuple[tuple[str, int], ...]:
        """The assets that it is or was made from, by name and revision."""
        return ((self.name, self.revision),) if self.lineage is None else self.lineage.assets

    @property
    def is_unmade(self) -> bool:
        """It is what a function makes that has not been run: nobody knows type and size."""
        return self.lineage is not None and not self.kind

    @property
    def is_number(self) -> bool:
        """It is a single number, whose size in bytes says nothing to anybody."""
        return not self.detail and _NUMBER.fullmatch(self.kind) is not None

    def to_wire(self) -> pb.AssetNotice:
        return pb.AssetNotice(**{name: getattr(self, name) for name in _TOLD})

    @classmethod
    def from_wire(cls, notice: pb.AssetNotice) -> AssetInfo:
        """Its texts can be printed as they are; its name, by which it is asked for, is as the peer gave it.

        Raises RemoteProtocolError for a name that is empty, or texts beyond the limits.
        """
        told = {name: getattr(notice, name) for name in _TOLD}
        texts = {name: text for name, text in told.items() if isinstance(text, str) and name != "name"}
        if not 0 < len(notice.name) <= MAX_NAME or len(notice.tags) > MAX_TAGS:
            raise RemoteProtocolError(
                "the peer shares an object with an empty or overlong name, or many tags"
            )
        if any(len(text) > MAX_TEXT for text in (*texts.values(), *notice.tags)):
            raise RemoteProtocolError(
                f"the peer describes {notice.name[:40]!r} in over {MAX_TEXT} characters"
            )
        told |= {name: harmless(text) for name, text in texts.items()}
        told["description"] = harmless_lines(notice.description)
        return cls(**told | {"tags": tuple(map(harmless, notice.tags))})


def inherited_tags(tags: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The tags of what is made of assets with these: those that any of them has, and those that all have."""
    any_has = tuple(dict.fromkeys(tag for those in tags for tag in those))
    return any_has, tuple(tag for tag in any_has if all(tag in those for those in tags))


class Content:
    """An encoded object on its way out. Its fingerprint is taken in the background, once."""

    def __init__(self, encoded: Encoded, original: Callable[[], object | None] = lambda: None) -> None:
        self._encoded = encoded
        self.lossy = encoded.lossy
        self.summary = encoded.summary
        self.size_bytes = encoded.size_bytes
        self.held = Retained(size_bytes=encoded.size_bytes)
        self._outgoing: concurrent.futures.Future[Outgoing] | None = None
        self._original = original
        self.decode: Callable[[bytes], object] = decode  # another one where a room has encoded it

    @classmethod
    def of(cls, obj: object, lossy: Lossy | None = None) -> Self:
        """Encode `obj` (no copy for arrays and Arrow data that stay exact); raises UnsupportedValue."""
        encoded = encode(obj, lossy)
        try:
            return cls(encoded, weakref.ref(obj))
        except TypeError:  # some types take no weak references
            return cls(encoded)

    def look(self) -> object | None:
        """What would leave. Of a large object, what it was made from, as it is now (if it has changed since,
        it does not leave); None where nobody holds that any more.
        """
        if self.size_bytes > _MOST_DECODED_BYTES:
            return self._original()
        return self.decode(b"".join(self._encoded.segments))

    def prepare(self, submit: Callable[..., concurrent.futures.Future[Outgoing]]) -> None:
        """Begin to read the content on a thread of `submit`: from here on a change of it is noticed."""
        if self._outgoing is None:
            self._outgoing = submit(
                Outgoing, self._encoded.segments, self._encoded.size_bytes, self._encoded.parts, self.held
            )

    async def read(self) -> None:
        """As `prepare`, on some thread; it has been read when this returns."""
        made: concurrent.futures.Future[Outgoing] = concurrent.futures.Future()
        made.set_result(
            await asyncio.to_thread(
                Outgoing, self._encoded.segments, self._encoded.size_bytes, self._encoded.parts, self.held
            )
        )
        self._outgoing = made

    async def outgoing(self) -> Outgoing:
        """The content with its fingerprint; `prepare` or `read` was called before."""
        assert self._outgoing is not None
        return await asyncio.wrap_future(self._outgoing)


def check_description(name: str, description: str, tags: tuple[str, ...]) -> None:
    """Raise SettingError where an object may not be called or described like this."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
        raise SettingError(f"an asset's name is a text of 1 to {MAX_NAME} characters, got {name!r}")
    if not isinstance(description, str) or len(description) > MAX_TEXT:
        raise SettingError(f"an asset's description is a text of at most {MAX_TEXT} characters")
    if len(tags) > MAX_TAGS or not all(isinstance(tag, str) and len(tag) <= MAX_TEXT for tag in tags):
        raise SettingError(f"an asset's tags are at most {MAX_TAGS} texts, got {tags!r}")

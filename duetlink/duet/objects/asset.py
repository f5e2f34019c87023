"""One shared object: its description, its revision, and its bytes ready to leave."""

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
from duetlink.base.wire.text import MAX_NAME, harmless, harmless_lines
from duetlink.data.values import Encoded, decode, encode
from duetlink.data.values.empty import seal
from duetlink.data.values.lossy import Lossy
from duetlink.errors import RemoteProtocolError, SettingError
from duetlink.net.flight.body import Outgoing

if TYPE_CHECKING:
    from duetlink.base.runtime.mappable import SealedBody
    from duetlink.compute.operations.lineage import Lineage

REQUEST_ID_BYTES = 16  # length of the number of a question
MAX_TEXT = 4000
MAX_TAGS = 50
_MOST_DECODED_BYTES = 16 * 1024 * 1024  # larger contents are not decoded to be shown; see `Content.look`

# the fields that are sent; they have the same names in the message
_SENT_FIELDS = tuple(pb.AssetNotice.DESCRIPTOR.fields_by_name)
_NUMBER = re.compile(r"int|float|complex|bool|numpy\.(u?int|float|complex|bool)\d*")


@dataclass(frozen=True, slots=True)
class AssetInfo:
    """The description of an object: everything but its content."""

    name: str
    revision: int
    kind: str
    detail: str
    size_bytes: int
    description: str = ""
    tags: tuple[str, ...] = ()
    lossy: str = ""
    mock: str = ""  # how the mock was made, in words; empty: there is no mock
    budget: str = ""  # for private statistics, in words; empty: no budget
    # only known on this side, not sent:
    elements: int | None = None  # None for a type whose elements cannot be counted
    lineage: Lineage | None = None  # for a result: how the peer made it from assets
    # for a result: the least number of rows of each number; None: of no row, or not a result
    group: int | None = None
    fingerprint: str = ""  # for a result: of its content, hexadecimal
    # for a result: the tags that all of its assets have; None: it is an asset
    common_tags: tuple[str, ...] | None = None

    @property
    def identity(self) -> tuple[str, ...]:
        """The key by which a request's object is recognised: the name and revision of an asset, or the
        program's digest and the content's fingerprint of a result.
        """
        if self.lineage is not None:
            return self.lineage.digest, self.fingerprint
        return self.name, str(self.revision)

    @property
    def sources(self) -> tuple[tuple[str, int], ...]:
        """The assets that it is or was made from, by name and revision."""
        return ((self.name, self.revision),) if self.lineage is None else self.lineage.assets

    @property
    def is_unmade(self) -> bool:
        """True for the result of a job that has not been run, whose type and size are unknown."""
        return self.lineage is not None and not self.kind

    @property
    def is_number(self) -> bool:
        """True for a single number, for which a size in bytes is not worth showing."""
        return not self.detail and _NUMBER.fullmatch(self.kind) is not None

    def to_wire(self) -> pb.AssetNotice:
        return pb.AssetNotice(**{name: getattr(self, name) for name in _SENT_FIELDS})

    @classmethod
    def from_wire(cls, notice: pb.AssetNotice) -> AssetInfo:
        """Read a description that the peer sent. Its texts are escaped for printing, except the name, which a
        request has to repeat exactly.

        Raises RemoteProtocolError for an empty name, or texts beyond the limits.
        """
        fields = {name: getattr(notice, name) for name in _SENT_FIELDS}
        texts = {name: text for name, text in fields.items() if isinstance(text, str) and name != "name"}
        if not 0 < len(notice.name) <= MAX_NAME or len(notice.tags) > MAX_TAGS:
            raise RemoteProtocolError(
                "the peer shares an object with an empty or overlong name, or many tags"
            )
        if any(len(text) > MAX_TEXT for text in (*texts.values(), *notice.tags)):
            raise RemoteProtocolError(
                f"the peer describes {notice.name[:40]!r} in over {MAX_TEXT} characters"
            )
        fields |= {name: harmless(text) for name, text in texts.items()}
        fields["description"] = harmless_lines(notice.description)
        return cls(**fields | {"tags": tuple(map(harmless, notice.tags))})


def inherited_tags(tags: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the tags of a result, given those of its assets: the tags that any asset has, and those that all
    have.
    """
    any_has = tuple(dict.fromkeys(tag for those in tags for tag in those))
    return any_has, tuple(tag for tag in any_has if all(tag in those for those in tags))


class Content:
    """An encoded object on its way out. Its fingerprint is computed once, on another thread."""

    def __init__(self, encoded: Encoded, original: Callable[[], object | None] = lambda: None) -> None:
        self._encoded = encoded
        self.lossy = encoded.lossy
        self.summary = encoded.summary
        self.size_bytes = encoded.size_bytes
        self.held = Retained(size_bytes=encoded.size_bytes)
        self._outgoing: concurrent.futures.Future[Outgoing] | None = None
        self._original = original
        self.decode: Callable[[bytes], object] = decode  # replaced if a room has encoded the content
        self._sealed: SealedBody | None = None

    @classmethod
    def of(cls, obj: object, lossy: Lossy | None = None) -> Self:
        """Encode `obj`, without a copy for arrays and Arrow data that stay exact. Raises UnsupportedValue."""
        encoded = encode(obj, lossy)
        try:
            return cls(encoded, weakref.ref(obj))
        except TypeError:  # some types take no weak references
            return cls(encoded)

    def look(self) -> object | None:
        """Return the object as it would leave, decoded; above 16 MiB the original object instead, in its
        present state (if it has changed, it does not leave). None if the original has been garbage-collected.
        """
        if self._sealed is not None:  # the original may have changed since, and this leaves all the same
            return decode(self._sealed.copy_on_write())
        if self.size_bytes > _MOST_DECODED_BYTES:
            return self._original()
        return self.decode(b"".join(self._encoded.segments))

    def seal(self) -> None:
        """Seal the content where it is, if it is an array of `duetlink.empty`; to be called before `prepare`.

        The array is copy-on-write from then on, and the content stays as it is now.
        """
        self._encoded, self._sealed = seal(self._encoded)
        if self._sealed is not None:
            self.held.shared_bytes = self.size_bytes

    def prepare(self, submit: Callable[..., concurrent.futures.Future[Outgoing]]) -> None:
        """Start to compute the fingerprint on a thread of `submit`. Later changes of the object's memory are
        detected.
        """
        if self._outgoing is None:
            self._outgoing = submit(self._read)

    async def read(self) -> None:
        """Compute the fingerprint on a worker thread; it is known when this returns."""
        made: concurrent.futures.Future[Outgoing] = concurrent.futures.Future()
        made.set_result(await asyncio.to_thread(self._read))
        self._outgoing = made

    def _read(self) -> Outgoing:
        encoded = self._encoded
        return Outgoing(encoded.segments, encoded.size_bytes, encoded.parts, self.held, self._sealed)

    async def outgoing(self) -> Outgoing:
        """Return the content with its fingerprint. `prepare` or `read` must have been called before."""
        assert self._outgoing is not None
        return await asyncio.wrap_future(self._outgoing)


def check_description(name: str, description: str, tags: tuple[str, ...]) -> None:
    """Raise SettingError if an object cannot have this name, description or tags."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
        raise SettingError(f"an asset's name is a text of 1 to {MAX_NAME} characters, got {name!r}")
    if not isinstance(description, str) or len(description) > MAX_TEXT:
        raise SettingError(f"an asset's description is a text of at most {MAX_TEXT} characters")
    if len(tags) > MAX_TAGS or not all(isinstance(tag, str) and len(tag) <= MAX_TEXT for tag in tags):
        raise SettingError(f"an asset's tags are at most {MAX_TAGS} texts, got {tags!r}")

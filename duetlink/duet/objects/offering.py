"""Objects made ready to be shared or given, on the thread that does so: encoded, with a mock, with marks."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Executor

from duetlink.compute.privacy.table import table_of, table_rows
from duetlink.data.codecs.gradients.compressor import GradientCompressor
from duetlink.data.tuning import Compression
from duetlink.data.values.lossy import Lossy
from duetlink.data.values.lossy import lossy as lossy_mark
from duetlink.duet.objects.asset import Content, check_description
from duetlink.duet.objects.budget import Budget, Open
from duetlink.duet.objects.catalogue import Offer
from duetlink.duet.objects.gradients import MARK, Gradients
from duetlink.errors import SettingError


class Offering:
    """Of one duet. Any thread may call."""

    def __init__(self, reading: Executor) -> None:
        self._gradients = Gradients()
        self._reading = reading

    def mark(
        self, lossy: str | GradientCompressor | None, name: str, compression: Compression
    ) -> Lossy | None:
        """What `lossy` means for the object `name`.

        Raises:
            SettingError: it means nothing, or `compression` forbids it. UnknownCodec.
        """
        if lossy is None:
            return None
        found = lossy_mark(self._gradients.by(compression) if lossy == MARK else lossy, name)
        compression.check_bound(found.words, found.bound)
        return found

    def ready(
        self,
        obj: object,
        name: str,
        description: str,
        tags: Iterable[str],
        mark: Lossy | None,
        mock: object = None,
        budget: Budget | None = None,
    ) -> Offer:
        """What of `obj` is to leave, and of its mock; their fingerprints are under way.

        Raises:
            UnsupportedValue: objects of this type cannot travel.
            SettingError: name, description, tags, mock or budget cannot be used.
        """
        tags = (tags,) if isinstance(tags, str) else tuple(tags)
        check_description(name, description, tags)
        content = self._content(obj, mark)
        twin, words = (None, "") if mock is None else self._mock(obj, mock, name)
        if budget is not None and twin is None:
            raise SettingError("statistics are asked for by operations on a mock: give one as well")
        opened = Open(budget, table_of(obj), table_rows(obj)) if budget is not None else None
        return Offer(name, content, description, tags, twin, words, opened)

    def _content(self, obj: object, mark: Lossy | None = None) -> Content:
        content = Content.of(obj, mark)
        content.prepare(self._reading.submit)
        return content

    def _mock(self, obj: object, mock: object, name: str) -> tuple[Content, str]:
        """What the peer works with in place of `obj`, and how it was made."""
        from duetlink.compute.mocks import Mock, check, describe, make

        if (isinstance(mock, str) and mock == "auto") or isinstance(mock, Mock):
            how = mock if isinstance(mock, Mock) else Mock()
            return self._content(make(obj, how, name)), describe(how, obj)
        check(obj, mock)
        return self._content(mock), "given by its owner"

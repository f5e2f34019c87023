"""Prepares objects to be shared or given, on the caller's thread: encodes them, makes the mock, reads the
`lossy` mark.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import Executor

from duetlink.compute.privacy.table import table_of, table_rows
from duetlink.data.codecs.base import GRADIENT
from duetlink.data.codecs.gradients.choice import compressor
from duetlink.data.codecs.gradients.compressor import EPOCH, STEP, GradientCompressor
from duetlink.data.tuning import Compression
from duetlink.data.tuning.compression import AUTO
from duetlink.data.values.lossy import Lossy
from duetlink.data.values.lossy import lossy as lossy_mark
from duetlink.duet.objects.asset import Content, check_description
from duetlink.duet.objects.budget import Budget, BudgetedAsset
from duetlink.duet.objects.catalogue import Offer
from duetlink.errors import SettingError

MARK = "gradient"  # the value of the argument `lossy`


class Offering:
    """Prepares the offers of one duet. Any thread may call its methods."""

    def __init__(self, reading: Executor) -> None:
        self._gradients = Gradients()
        self._reading = reading

    def mark(
        self, lossy: str | GradientCompressor | None, name: str, compression: Compression
    ) -> Lossy | None:
        """Translate the argument `lossy` for the object `name`; None if it is None.

        Raises:
            SettingError: it has no meaning, or `compression` forbids it. UnknownCodec.
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
        *,
        in_place: bool = False,
    ) -> Offer:
        """Encode `obj` and its mock; their fingerprints are being computed when this returns.

        With `in_place`, an array of `duetlink.empty` is sealed where it is, if nothing else is wrong.

        Raises:
            UnsupportedValue: objects of this type cannot travel.
            SettingError: name, description, tags, mock or budget cannot be used.
        """
        tags = (tags,) if isinstance(tags, str) else tuple(tags)
        check_description(name, description, tags)
        content = Content.of(obj, mark)
        mock_content, words = (None, "") if mock is None else self._mock(obj, mock, name)
        if budget is not None and mock_content is None:
            raise SettingError(
                "a budget needs a mock, since statistics are requested by operations on it: pass "
                "mock= as well"
            )
        budgeted = BudgetedAsset(budget, table_of(obj), table_rows(obj)) if budget is not None else None
        if in_place:
            content.seal()
        content.prepare(self._reading.submit)
        return Offer(name, content, description, tags, mock_content, words, budgeted)

    def _mock_content(self, mock: object) -> Content:
        content = Content.of(mock)
        content.prepare(self._reading.submit)
        return content

    def _mock(self, obj: object, mock: object, name: str) -> tuple[Content, str]:
        """Return the encoded mock of `obj`, and how it was made, in words."""
        from duetlink.compute.mocks import Mock, check, describe, make

        if (isinstance(mock, str) and mock == "auto") or isinstance(mock, Mock):
            how = mock if isinstance(mock, Mock) else Mock()
            return self._mock_content(make(obj, how, name)), describe(how, obj)
        check(obj, mock)
        return self._mock_content(mock), "given by its owner"


class Gradients:
    """The compressor that `lossy="gradient"` refers to, as `duet.compression` selects it now.

    When the settings change, the new compressor takes over the rest that the old one has left out, so that
    nothing is lost. Any thread may call its methods.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._settings: tuple[str | None, int | None] = (None, None)
        self._compressor: GradientCompressor | None = None

    def by(self, compression: Compression) -> GradientCompressor:
        """Return the compressor that the settings select, with all that is still to be delivered.

        Raises:
            UnknownCodec: the settings name a codec that is not installed here.
        """
        name = compression.codec[GRADIENT]
        auto = compression.mode == "auto" or name == AUTO
        settings = (None, None) if auto else (name, compression.level[GRADIENT])
        with self._lock:
            if self._compressor is None or settings != self._settings:
                self._compressor = _continued(self._compressor, compressor(*settings))
                self._settings = settings
            return self._compressor


def _continued(before: GradientCompressor | None, after: GradientCompressor) -> GradientCompressor:
    """Return `after` with as much of `before`'s memory as it has slots for."""
    if before is not None:
        kept = (EPOCH, STEP, *after.slots)
        state = before.state_dict()
        after.load_state_dict({key: value for key, value in state.items() if key.split("/")[0] in kept})
    return after

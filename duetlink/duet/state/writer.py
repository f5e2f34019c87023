"""Writes changes of a state on a thread of its own, in the order in which the loop thread queued them.

All changes that are waiting become one transaction. A change that could not be written is kept, and tried
again with the next one.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from duetlink.duet.state.directory import unavailable
from duetlink.duet.state.file import StateFile
from duetlink.duet.state.records import Key
from duetlink.duet.state.works import Pieces, Works
from duetlink.errors import StateUnavailable

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _StateBatch:
    changes: Mapping[Key, str | None]
    works: Mapping[int, Pieces | None] = field(default_factory=dict)  # None: remove it
    sync: bool = False
    written: concurrent.futures.Future[None] | None = None


class StateWriter:
    """Owns the state file and its thread. `ended` is called on that thread after the file is closed."""

    def __init__(
        self, file: StateFile, ended: Callable[[], None] = lambda: None, works: Works | None = None
    ) -> None:
        self.failure = ""  # of the last write, in words
        self._file = file
        self._works = works
        self._ended = ended
        self._waiting: queue.SimpleQueue[_StateBatch | None] = queue.SimpleQueue()
        self._unwritten: dict[Key, str | None] = {}
        self._unwritten_works: dict[int, Pieces | None] = {}
        self._closed: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._closing = False
        # no pool: pools refuse work while the interpreter ends, and that is when the last changes are saved
        self._thread = threading.Thread(target=self._work, name="duetlink-state", daemon=True)
        self._thread.start()

    def put(self, changes: Mapping[Key, str | None], works: Mapping[int, Pieces | None] = {}) -> None:
        """Queue these records and works to be written, or (None) removed. A work is on the disk before the
        records queued with it, and is removed after them. Ignored after `close`.
        """
        if not self._closing:
            self._waiting.put(_StateBatch(changes, works))

    async def written(self, *, sync: bool = True) -> None:
        """Return when all that was queued before is written; with `sync`, when it is on the disk. Without it,
        the changes survive the process, but maybe not a power cut.

        Raises:
            StateUnavailable: they are not written, or not certainly. The next change tries again.
        """
        if self._closing:
            raise StateUnavailable("this duet is closed, so nothing more is saved")
        written: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._waiting.put(_StateBatch({}, {}, sync, written))
        await asyncio.wrap_future(written)

    async def close(self) -> None:
        """Write what is queued, close the file, end the thread. Safe to call twice."""
        if not self._closing:
            self._closing = True
            self._waiting.put(None)
        await asyncio.shield(asyncio.wrap_future(self._closed))

    # -- on the writing thread -------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            open_ = True
            while open_:
                batches = [self._waiting.get()]
                with contextlib.suppress(queue.Empty):
                    while batches[-1] is not None:
                        batches.append(self._waiting.get_nowait())
                open_ = batches[-1] is not None
                self._write([batch for batch in batches if batch is not None])
        finally:
            with contextlib.suppress(Exception):  # the records are written, or the failure was reported
                self._file.close()
            self._ended()
            self._closed.set_result(None)

    def _write(self, batches: list[_StateBatch]) -> None:
        for batch in batches:
            self._unwritten |= batch.changes
            self._unwritten_works |= batch.works
        sync = any(batch.sync for batch in batches)
        failure = ""
        if sync or self._unwritten or self._unwritten_works:
            try:
                self._write_works()
                self._file.write(self._unwritten, sync=sync)
                self._unwritten = {}
                self._remove_works()
            except StateUnavailable as error:
                failure = str(error)
            except Exception as error:  # callers must not wait for ever
                _log.exception("the state cannot be written")
                failure = str(unavailable(self._file.path, error))
        if failure and not self.failure:
            _log.error("%s", failure)
        self.failure = failure
        self._tell(batches, failure)

    def _write_works(self) -> None:
        """Write the queued works. Their bytes are kept in memory until then."""
        assert self._works is not None or not self._unwritten_works
        for number, pieces in list(self._unwritten_works.items()):
            if pieces is not None and self._works is not None:
                self._works.write(number, pieces)
                del self._unwritten_works[number]

    def _remove_works(self) -> None:
        for number in list(self._unwritten_works):
            if self._works is not None:
                self._works.remove(number)
            del self._unwritten_works[number]

    def _tell(self, batches: list[_StateBatch], failure: str) -> None:
        for batch in batches:
            if batch.written is None or not batch.written.set_running_or_notify_cancel():
                continue
            if failure:
                batch.written.set_exception(StateUnavailable(failure))
            else:
                batch.written.set_result(None)

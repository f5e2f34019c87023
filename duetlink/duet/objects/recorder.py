"""The loop thread's side of the audit log: records events in the order in which they happened.

One thread for all duets writes the files, since a disk may take a hundred milliseconds now and then. It
writes all waiting entries at once, so that fifty simultaneous requests cost one sync of the disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import queue
import secrets
import threading
from dataclasses import dataclass
from functools import partial
from typing import Any

from duetlink.base.audit.entry import Entry
from duetlink.base.audit.log import AuditLog, unavailable
from duetlink.base.runtime.descriptors import Reserve
from duetlink.base.runtime.errands import Errands
from duetlink.base.wire import schema_pb2 as pb
from duetlink.duet.objects.asset import AssetInfo
from duetlink.errors import AuditUnavailable
from duetlink.net.flight.body import Outgoing
from duetlink.net.link.transfer import CANCELLED, COMPLETE, Transfer

BEGUN = "begun"  # a release or gift that may go out from here on

_log = logging.getLogger(__name__)

_errands = Errands("duetlink-audit")

_RESERVED = 5  # descriptors: the lock, the log, its head, their directory, and one to spare
_SETTLE_TIMEOUT_S = 5.0  # if the disk hangs, the log is shown as it is


@dataclass(frozen=True, slots=True)
class _Batch:
    entries: tuple[Entry, ...]
    sync: bool
    loop: asyncio.AbstractEventLoop
    written: asyncio.Future[None]


class Recorder:
    """The writer of one duet's log. Methods run on the loop thread; without a log they do nothing."""

    def __init__(self, log: AuditLog | None) -> None:
        self.log = log
        self.session = secrets.token_hex(8)
        self.begin_bytes: int | None = None  # where this session begins in the file
        self.failure = ""  # of the last write, in words
        self._peer = ""
        self._waiting: queue.SimpleQueue[_Batch] = queue.SimpleQueue()
        self._begun = False
        self._closed = False
        self._last = threading.Event()  # set after the last write
        self._reserve: Reserve | None = None  # from the first entry to the last

    def met(self, peer: str) -> None:
        """Name this peer in all later entries."""
        self._peer = peer

    async def record(self, *entries: Entry, sync: bool = True) -> None:
        """Return when the entries are written; with `sync`, when they and all before them are on the disk.

        A cancelled call still writes them.

        Raises:
            AuditUnavailable: not written, or not certainly; the event that they record must not happen.
        """
        if self.log is not None:
            await self._put(entries, sync)

    def note(self, entry: Entry) -> None:
        """Record something that has already happened. A failure only shows in `failure` and in
        Python's log.
        """
        if self.log is not None and not self._closed:
            self._put((entry,), sync=False).add_done_callback(_look)

    async def let_out(self, *entries: Entry, transfer: Transfer | None) -> None:
        """Record that an object leaves, which the last entry says; when its transfer has ended, also record
        how much left. Without a transfer, all of it is in the message that follows.

        Raises:
            AuditUnavailable: as `record`.
        """
        try:
            await self.record(*entries)
        except AuditUnavailable:
            raise
        except BaseException:  # cancelled: it is written nevertheless
            self._follow(transfer, entries[-1])
            raise
        self._follow(transfer, entries[-1])

    def release_undone(self, release: Entry) -> None:
        """Record that an object that was in a message has not left, because the message was not sent."""
        self.note(dataclasses.replace(release, state=CANCELLED, left_bytes=0))

    def _follow(self, transfer: Transfer | None, begun: Entry) -> None:
        if self.log is None or transfer is None:
            return
        transfer.when_ended(partial(self._note_end, transfer, begun))

    def _note_end(self, transfer: Transfer, begun: Entry) -> None:
        left_bytes = min(transfer.done_bytes, transfer.size_bytes)
        if transfer.mapped:  # the receiver may have read all of the shared memory, whatever it reports
            left_bytes = transfer.size_bytes
        self.note(dataclasses.replace(begun, state=transfer.state, left_bytes=left_bytes, path=transfer.path))

    def settle(self) -> None:
        """Wait until all entries so far are written or have failed, at most 5 s. For any thread except the
        loop's.
        """
        if not self._begun or _errands.runs_here():
            return
        written = self._last
        if not self._closed:
            written = threading.Event()
            _errands.put(written.set)
        written.wait(_SETTLE_TIMEOUT_S)

    def close(self) -> None:
        """Write what is waiting; ignore later entries. Safe to call twice."""
        if self._begun and not self._closed:
            _errands.put(self._end)
            _errands.end()
        self._closed = True

    def _put(self, entries: tuple[Entry, ...], sync: bool) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()
        if self._closed:
            written.set_exception(
                AuditUnavailable("this duet is closed, so nothing more is written to its audit log")
            )
            return written
        if not self._begun:
            self._begun = True
            self._reserve = Reserve(_RESERVED)
            _errands.begin()
        named = tuple(
            dataclasses.replace(entry, session=self.session, peer=entry.peer or self._peer)
            for entry in entries
        )
        self._waiting.put(_Batch(named, sync, loop, written))
        _errands.put(self._work)
        return written

    # -- on the audit thread ---------------------------------------------------------------------------------

    def _work(self) -> None:
        """Write all waiting entries; an earlier call may have written them already."""
        batches: list[_Batch] = []
        with contextlib.suppress(queue.Empty):
            while True:
                batches.append(self._waiting.get_nowait())
        self._write(batches)

    def _end(self) -> None:
        assert self._reserve is not None
        self._reserve.close()
        self._last.set()

    def _write(self, batches: list[_Batch]) -> None:
        if not batches:
            return
        assert self.log is not None
        assert self._reserve is not None
        failure = ""
        try:
            with self._reserve.lent():
                begin_bytes = self.log.append(
                    [entry for batch in batches for entry in batch.entries],
                    sync=any(batch.sync for batch in batches),
                )
            if self.begin_bytes is None:
                self.begin_bytes = begin_bytes
        except AuditUnavailable as error:
            failure = str(error)
        except Exception as error:  # such as the lock library's: callers must not wait for ever
            _log.exception("the audit log cannot be written")
            failure = str(unavailable(self.log.path, error))
        if failure and not self.failure:
            _log.error("%s", failure)
        self.failure = failure
        for batch in batches:
            with contextlib.suppress(RuntimeError):  # the loop has been closed meanwhile
                batch.loop.call_soon_threadsafe(_settle, batch.written, failure)


def described(kind: str, info: AssetInfo, **fields: Any) -> Entry:
    """Return an entry about an object, with the fields of its description that the log may hold."""
    return Entry(
        kind=kind,
        name=info.name,
        revision=info.revision,
        value_kind=info.kind,
        size_bytes=None if info.is_unmade else info.size_bytes,
        lineage=info.lossy if info.lineage is None else f"{info.lineage.digest}: {info.lineage.code}",
        **fields,
    )


def leaving(
    kind: str,
    info: AssetInfo,
    outgoing: Outgoing,
    offer: pb.TransferOffer,
    transfer: Transfer | None,
    request: int | None = None,
) -> Entry:
    """Return an entry about an object that leaves by an offer, to be recorded before the offer goes out.
    Without a `transfer`, the offer contains all of it.
    """
    begun = described(kind, info, fingerprint=outgoing.fingerprint.hex(), request=request)
    if transfer is None:
        return dataclasses.replace(begun, state=COMPLETE, left_bytes=info.size_bytes, path="inline")
    return dataclasses.replace(begun, state=BEGUN, transfer=transfer.number, path=offer.ticket.path)


def _settle(written: asyncio.Future[None], failure: str) -> None:
    if written.done():  # cancelled
        return
    if failure:
        written.set_exception(AuditUnavailable(failure))
    else:
        written.set_result(None)


def _look(written: asyncio.Future[None]) -> None:
    if not written.cancelled():
        written.exception()

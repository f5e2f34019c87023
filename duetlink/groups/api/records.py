"""The entries of the audit log about a group: its members, and the size and receivers of each value sent."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any

from duetlink.base.audit import entry
from duetlink.base.audit.entry import Entry
from duetlink.base.audit.log import AuditLog
from duetlink.net.ports.connection import PortConnection
from duetlink.settings import Settings

_SYNC_S = 0.1  # from an operation to its entry on the disk


class Records:
    """Writes the entries of one group at one member. Used on the loop thread.

    All methods raise AuditUnavailable if the audit log cannot be written.
    """

    def __init__(self, settings: Settings) -> None:
        self._log = AuditLog(settings.audit_file) if settings.audit_file else None
        self._session = secrets.token_hex(8)
        self._syncing: asyncio.TimerHandle | None = None  # the next sync of operations

    async def opened(self, how: str) -> None:
        await self._record(Entry(kind=entry.OPENED, session=self._session, reason=how), sync=True)

    async def connected(self, names: str, verifier: str) -> None:
        await self._record(
            Entry(kind=entry.CONNECTED, session=self._session, peer=names, verifier=verifier), sync=False
        )

    async def operation(
        self, name: str, to: str, value: Any, epoch: int, size_bytes: int | None = None
    ) -> None:
        """Record that an operation is about to send a value, or `size_bytes` bytes.

        There may be thousands of operations, so the entry is forced to the disk only within a tenth of a
        second: it survives the end of the process, but perhaps not a power cut before that.
        """
        await self._record(
            Entry(
                kind=entry.GROUP,
                session=self._session,
                name=name,
                peer=to,
                value_kind=type(value).__name__,
                size_bytes=_size_of(value) if size_bytes is None else size_bytes,
                reason=f"epoch {epoch}",
            ),
            sync=False,
        )

    async def port(self, name: str, state: str, where: str, to: str) -> None:
        """Record that a service was shared with members, or withdrawn."""
        await self._record(
            Entry(kind=entry.PORT, session=self._session, name=name, state=state, reason=where, peer=to),
            sync=True,
        )

    async def port_connection(self, connection: PortConnection, state: str, member: str) -> None:
        """Record that a connection with a member begins ("begun"), or has ended."""
        begun = state == "begun"
        await self._record(
            Entry(
                kind=entry.PORT,
                session=self._session,
                name=connection.name,
                state=state,
                connection=connection.number,
                by="this side" if connection.outbound else "the peer",
                peer=member,
                path=connection.path,
                left_bytes=None if begun else connection.sent_bytes,
                came_bytes=None if begun else connection.received_bytes,
                reason="" if begun else connection.why,
            ),
            sync=begun,
        )

    async def closed(self, why: str) -> None:
        if self._syncing is not None:
            self._syncing.cancel()
        await self._record(Entry(kind=entry.CLOSED, session=self._session, reason=why), sync=True)

    async def _record(self, written: Entry, *, sync: bool) -> None:
        if self._log is None:
            return
        # a hop to another thread and back costs as much as the entry itself
        if sync or not self._log.append_at_once((written,)):
            await asyncio.to_thread(self._log.append, (written,), sync=sync)
        if not sync and self._syncing is None:
            self._syncing = asyncio.get_running_loop().call_later(_SYNC_S, self._begin_sync, self._log)

    def _begin_sync(self, log: AuditLog) -> None:
        self._syncing = None
        asyncio.get_running_loop().run_in_executor(None, log.sync)


def _size_of(value: Any) -> int:
    """Sum the sizes of all arrays in a value, in bytes; a number counts as 8."""
    if isinstance(value, Mapping):
        return sum(_size_of(leaf) for leaf in value.values())
    if isinstance(value, list | tuple):
        return sum(_size_of(leaf) for leaf in value)
    return int(getattr(value, "nbytes", 0) or (8 if isinstance(value, int | float) else 0))

"""The implementation of `Persistence` that writes to the disk, for `launch(resume=…)`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from duetlink.duet.answering.inbox import Inbox
from duetlink.duet.answering.incoming import Incoming
from duetlink.duet.answering.persistence import Persistence
from duetlink.duet.answering.policies.policy import Policy
from duetlink.duet.answering.policies.usage import Usage
from duetlink.duet.answering.states import WITHDRAWN
from duetlink.duet.objects.asset import AssetInfo, Content
from duetlink.duet.objects.catalogue import Catalogue
from duetlink.duet.objects.kept_asset import KeptAsset
from duetlink.duet.state.asset_record import asset_to_json
from duetlink.duet.state.contents import Contents, Grant
from duetlink.duet.state.directory import StateDirectory
from duetlink.duet.state.file import StateFile, broken
from duetlink.duet.state.policy_record import policy_to_json, usage_to_json
from duetlink.duet.state.records import ASSET, GRANT, ORDER, POLICY, REQUEST, Key, dump, key
from duetlink.duet.state.request_record import is_of_asset, request_to_json
from duetlink.duet.state.works import Pieces, Works
from duetlink.duet.state.writer import StateWriter
from duetlink.errors import ValueRefused

WORK_LIMIT_BYTES = 4 * 1024**3  # for the jobs of all waiting requests on the disk
LOST = "its kernel has ended"  # the reason of a request whose job cannot be restored

_log = logging.getLogger(__name__)

# How long `share` waits for the fingerprint of a large object, and `close` for those being computed.
_FINGERPRINT_WAIT_S = 0.1
_LAST_FINGERPRINTS_S = 5.0


class State(Persistence):
    """The state of one name while a duet uses it. Holds the lock from `open` to `close`."""

    def __init__(
        self,
        directory: StateDirectory,
        file: StateFile,
        contents: Contents,
        works: Works,
        *,
        grants: bool,
        work_limit_bytes: int,
    ) -> None:
        self.name, self.ledger = directory.name, directory.ledger
        self._works = works
        self._work_bytes = works.sizes()  # by request number
        self._work_limit_bytes = work_limit_bytes
        self._contents: Contents | None = contents  # until `restore`
        self._granted: dict[Grant, int] = dict(contents.grants)  # the number of the request
        self._kept_policies = frozenset(contents.usage)
        self._revisions = {name: record.info.revision for name, record in contents.assets.items()}
        self._grants_hold = grants
        self._reading: set[asyncio.Task[None]] = set()
        self._writer = StateWriter(file, directory.release, works)

    @classmethod
    def open(
        cls,
        states: Path,
        name: str,
        *,
        grants: bool = True,
        work_limit_bytes: int = WORK_LIMIT_BYTES,
    ) -> Self:
        """Open the state of that name, or create it. Blocks.

        With `grants`, what a person granted to a peer also holds for a later peer with the same name. The
        saved jobs of waiting requests take up at most `work_limit_bytes`.

        Raises:
            SettingError: the name cannot be used.
            StateInUse: another kernel uses it.
            StateBroken: it is damaged.
            StateUnavailable: it cannot be read or written.
        """
        directory = StateDirectory(states, name)
        directory.hold()
        try:
            file = StateFile.open(directory.file) if directory.exists() else StateFile.create(directory.file)
            try:
                contents = read(file)
                outdated = {key(REQUEST, request.number): None for request in contents.outdated()}
                if outdated:
                    file.write(outdated, sync=False)
                    contents.requests = [
                        request
                        for request in contents.requests
                        if key(REQUEST, request.number) not in outdated
                    ]
                works = Works(directory.works)
                works.keep_only(contents.to_run)
                return cls(directory, file, contents, works, grants=grants, work_limit_bytes=work_limit_bytes)
            except BaseException:
                file.close()
                raise
        except BaseException:
            directory.release()
            raise

    @property
    def failure(self) -> str:
        return self._writer.failure

    async def restore(self, catalogue: Catalogue, inbox: Inbox) -> None:
        """Load everything into the catalogue, the policies and the inbox."""
        assert self._contents is not None
        contents, self._contents = self._contents, None
        book = inbox.policies
        catalogue.resume(contents.assets)
        book.resume(contents.policies, contents.usage)
        by_number = {request.number: request for request in contents.requests}
        granted = contents.grants.values() if self._grants_hold else ()
        for number in sorted(contents.to_run):
            request = by_number[number]
            work = await asyncio.to_thread(self.work, request)
            try:
                if work is None:
                    raise ValueError("its file is missing or damaged")
                await inbox.restore_job(request, work)
            except ValueError as error:
                _log.warning("the saved job of request %d cannot be used: %s", number, error)
                request.settle(WITHDRAWN, "", LOST)
                self.drop_work(request)
                self.request(request)
                inbox.recorder.note(request.withdrawn_entry())
        inbox.resume(contents.requests, [by_number[number] for number in granted])

    # -- changes to save -------------------------------------------------------------------------------------

    async def shared(self, info: AssetInfo, content: Content) -> None:
        self._revisions[info.name] = info.revision
        self._put_asset(KeptAsset(info, "", shared=True))
        reading = asyncio.ensure_future(self._read(info, content))
        self._reading.add(reading)
        reading.add_done_callback(self._reading.discard)
        # saved at once if it is fast; a large object's fingerprint is saved later
        await asyncio.wait((reading,), timeout=_FINGERPRINT_WAIT_S)
        await self.written(sync=False)

    async def _read(self, info: AssetInfo, content: Content) -> None:
        fingerprint = (await content.outgoing()).fingerprint.hex()
        if self._revisions.get(info.name) == info.revision:
            self._put_asset(KeptAsset(info, fingerprint, shared=True))

    def unshared(self, info: AssetInfo) -> None:
        self._revisions.pop(info.name, None)
        self._put_asset(KeptAsset(info, "", shared=False))

    def _put_asset(self, asset: KeptAsset) -> None:
        self._put(key(ASSET, asset.info.name), asset_to_json(asset))

    def retired(self, info: AssetInfo) -> None:
        gone = [grant for grant in self._granted if grant[1:] == (info.name, info.revision)]
        for grant in gone:
            del self._granted[grant]
        self._writer.put({key(GRANT, *grant): None for grant in gone})

    def policies(self, policies: Sequence[Policy], usage: Mapping[str, Usage]) -> None:
        changes = {key(POLICY, name): None for name in self._kept_policies} | {
            key(POLICY, policy.name): _policy(policy, usage.get(policy.name) or Usage())
            for policy in policies
        }
        names = [policy.name for policy in policies]
        self._kept_policies = frozenset(names)
        self._writer.put(changes | {key(ORDER): dump(names)})

    def charged(self, policy: Policy, usage: Usage) -> None:
        if policy.name in self._kept_policies:  # not removed meanwhile
            self._writer.put({key(POLICY, policy.name): _policy(policy, usage)})

    def request(self, request: Incoming) -> None:
        self._put(key(REQUEST, request.number), request_to_json(request))

    def forgotten(self, request: Incoming) -> None:
        if request.number not in self._granted.values():
            self._writer.put({key(REQUEST, request.number): None})

    def keep_work(self, request: Incoming, pieces: Pieces) -> None:
        size_bytes = sum(memoryview(piece).nbytes for piece in pieces)
        others_bytes = sum(self._work_bytes.values()) - self._work_bytes.get(request.number, 0)
        if others_bytes + size_bytes > self._work_limit_bytes:
            raise ValueRefused(
                f"waiting requests may use {self._work_limit_bytes:,} bytes of the owner's disk, and "
                f"{others_bytes:,} are in use; wait for an answer, or withdraw some"
            )
        self._work_bytes[request.number] = size_bytes
        self._writer.put({}, {request.number: pieces})

    def work(self, request: Incoming) -> bytes | None:
        return self._works.read(request.number) if request.number in self._work_bytes else None

    def drop_work(self, request: Incoming) -> None:
        if self._work_bytes.pop(request.number, None) is not None:
            self._writer.put({}, {request.number: None})

    def granted(self, request: Incoming) -> None:
        if is_of_asset(request):
            grant = _grant(request)
            self._granted[grant] = request.number
            self._put(key(GRANT, *grant), request.number)

    def grant_undone(self, request: Incoming) -> None:
        if is_of_asset(request):
            grant = _grant(request)
            self._granted.pop(grant, None)
            self._writer.put({key(GRANT, *grant): None})

    async def written(self, *, sync: bool = True) -> None:
        await self._writer.written(sync=sync)

    async def close(self) -> None:
        try:
            if self._reading:
                await asyncio.wait(self._reading, timeout=_LAST_FINGERPRINTS_S)
        finally:
            for reading in self._reading:
                reading.cancel()
            await self._writer.close()

    def _put(self, about: Key, content: object) -> None:
        self._writer.put({about: dump(content)})


def read(file: StateFile) -> Contents:
    """Return the contents of the file. Raises StateBroken, StateUnavailable."""
    found = file.read()
    try:
        return Contents.parse(found)
    except ValueError as error:
        raise broken(file.path, str(error)) from None


def _policy(policy: Policy, usage: Usage) -> str:
    return dump({"policy": policy_to_json(policy), "usage": usage_to_json(usage)})


def _grant(request: Incoming) -> Grant:
    return request.peer_name, request.asset.name, request.asset.revision

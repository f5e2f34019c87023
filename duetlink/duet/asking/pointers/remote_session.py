"""The session of one duet that pointers work with: its program, its mocks, and its checks on mocks."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

from duetlink.base.runtime.loop import LoopThread
from duetlink.compute.operations.allow_lists.allowed import OTHER, Allowed, libraries
from duetlink.compute.operations.canonical import Program as Canonical
from duetlink.compute.operations.sizes.mask import PUBLIC
from duetlink.data import values
from duetlink.duet.asking.mocks.agreement import Mates
from duetlink.duet.asking.mocks.mock_tensors import plain
from duetlink.duet.asking.mocks.rehearsal import Rehearsals, ShownResult
from duetlink.duet.asking.mocks.revisions import Revision, Revisions
from duetlink.duet.asking.mocks.unaltered import unaltered
from duetlink.duet.asking.pointers.remote import Remote, Result
from duetlink.duet.asking.recording.program import Program
from duetlink.duet.asking.recording.sizes import hidden_of_asset
from duetlink.duet.asking.requests.asking import Asking, Question, What
from duetlink.duet.asking.requests.pending_request import PendingRequest
from duetlink.duet.objects.asset import AssetInfo
from duetlink.duet.objects.catalogue import Catalogue
from duetlink.duet.objects.decoding import Decoding
from duetlink.errors import DuetError, LinkClosed, NoMock, UnsupportedValue
from duetlink.net.link.link import Link
from duetlink.settings import Settings

MOST_MOCK_BYTES = 256 * 1024 * 1024  # of one mock
GLANCE_S = 2.0  # printing a pointer waits this long for a mock at most
_MOST_GLANCES = 20  # assets of a store whose columns are shown
_MOST_PARTS = 5  # parts that the error names if the whole cannot travel
_MODULES = {"python": "builtins"}  # allow-lists whose name is not that of their module


class RemoteSession:
    """The program, the mocks and the checks of one duet. Any thread may call, if not said otherwise."""

    def __init__(self, catalogue: Catalogue, asking: Asking, settings: Settings) -> None:
        self._catalogue = catalogue
        self._asking = asking
        self._settings = settings
        self.allowed = Allowed()
        self._thread: LoopThread | None = None
        self._link: Link | None = None
        self._program: Program | None = None
        self._decoding: Decoding | None = None
        self.revisions = Revisions(catalogue, self._forget)
        self.rehearsals = Rehearsals(self.revisions, settings)
        self._lock = threading.Lock()

    def use(self, thread: LoopThread) -> None:
        self._thread = thread

    def try_first(self, decoding: Decoding) -> None:
        """Decode each mock in a separate process first, and here only if that process survives.

        The owner's side calls this: it has data to protect, and shows mocks of the peer that it did not ask
        for.
        """
        self._decoding = decoding

    # -- on the loop thread ----------------------------------------------------------------------------------

    def successor(self, asking: Asking) -> RemoteSession:
        """Return an empty session for another peer, whose objects are others."""
        remote_session = RemoteSession(self._catalogue, asking, self._settings)
        remote_session._thread, remote_session._decoding = self._thread, self._decoding
        return remote_session

    def attach(self, link: Link) -> None:
        self._link = link
        self.revisions.attach()

    def detach(self) -> None:
        """End the recording because the link has closed; operations then raise the reason."""
        if self._program is not None:
            self._program.end(self._asking.check_open)

    async def close(self) -> None:
        """End the checks, and release all mocks."""
        await self.rehearsals.close()
        if self._program is not None and self._program.agreement is not None:
            await self._program.agreement.close()
        self.revisions.close()

    # -- from any thread -------------------------------------------------------------------------------------

    def program(self) -> Program:
        """Return the program of this duet; the first call creates it. Raises LinkClosed."""
        program = self._program
        if program is not None and not program.ended:
            return program
        self._asking.check_open()
        if self._link is None:
            raise LinkClosed("no peer is connected yet; see duet.state, or duet.wait_connected()")
        with self._lock:
            if self._program is None:
                self.load()
                program = Program(self.allowed, self._ask, Result)
                _equip(program)
                if self._settings.mates == "on" and sys.platform == "linux":  # where rooms are forked
                    assert self._thread is not None
                    program.agreement = Mates(self.revisions, self._settings, self._thread)
                self._program = program
            return self._program

    def load(self) -> None:
        """Load the allow-lists of all libraries that are imported by now."""
        for library in libraries():
            if _MODULES.get(library, library) in sys.modules:
                self.allowed.load(library)
        if self._program is not None:
            _equip(self._program)

    def mock(self, info: AssetInfo) -> Any:
        """Return the mock of an asset of the peer; the first call fetches it.

        Raises:
            NoMock: the owner has given none.
            AssetNotFound, AssetChanged, LinkClosed, TransferFailed: it could not be fetched.
            MalformedValue, LimitExceeded, ValueRefused: this side does not decode it.
        """
        self._asking.check_open()
        revision = self.revisions.of(info)
        if revision.mock is None:
            if not info.mock:
                raise NoMock(
                    f"{info.name!r} has no mock, so nothing can be done with it from afar; ask for it with "
                    ".get(reason=…), or ask its owner to share it with mock='auto'"
                )
            assert self._thread is not None
            body = self._thread.run(self._fetched(info))
            return self._keep(revision, body)
        return revision.mock[0]

    def glance(self, infos: Sequence[AssetInfo]) -> list[Any]:
        """Return the mocks of these assets for display.

        A mock that does not exist or does not arrive within GLANCE_S is None. Raises no DuetError.
        """
        missing = [info for info in infos if info.mock and self.here(info) is None]
        if missing and self._thread is not None:
            try:
                self._asking.check_open()
                bodies = self._thread.run(self._fetched_soon(missing[:_MOST_GLANCES]))
                for info, body in zip(missing, bodies, strict=False):
                    if body is not None:
                        self._keep(self.revisions.of(info), body)
            except DuetError:
                pass  # the display has no mocks then
        return [self.here(info) for info in infos]

    def here(self, info: AssetInfo) -> Any:
        """Return the mock of an asset if it was fetched before, else None."""
        revision = self.revisions.get(info)
        return revision.mock[0] if revision is not None and revision.mock is not None else None

    async def _fetched(self, info: AssetInfo) -> memoryview:
        """Fetch a mock as bytes that are safe to decode here."""
        body = await self._catalogue.fetch_mock(info, MOST_MOCK_BYTES)
        if self._decoding is not None:
            await self._decoding.check(body, MOST_MOCK_BYTES)
        return body

    async def _fetched_soon(self, infos: Sequence[AssetInfo]) -> list[memoryview | None]:
        async def fetched(info: AssetInfo) -> memoryview | None:
            try:
                async with asyncio.timeout(GLANCE_S):
                    return await self._fetched(info)
            except (DuetError, TimeoutError):
                return None

        return await asyncio.gather(*map(fetched, infos))

    def _keep(self, revision: Revision, body: memoryview) -> Any:
        kept = unaltered(body)
        try:
            own = body if kept is None else kept.copy()
            mock = values.decode(own, room=values.DecodeBudget(MOST_MOCK_BYTES), gradients=False)
        except BaseException:
            if kept is not None:
                kept.close()
            raise
        mock = self.revisions.fill(revision, mock, len(body), kept)
        self.load()
        self._expect()
        return mock

    def _expect(self) -> None:
        """Prepare for a check on the mocks: the user works with mocks, and may soon request a result."""
        if self._thread is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._thread.loop.call_soon_threadsafe(self.rehearsals.expect)

    def _forget(self, key: tuple[str, int]) -> None:
        if (program := self._program) is not None:
            program.forget_asset(*key)

    def hidden(self, info: AssetInfo) -> int:
        """Return the mask of an asset's private sizes: those that its description does not confirm."""
        revision = self.revisions.of(info)
        if revision.hidden is None:
            revision.hidden = hidden_of_asset(self.mock(info), info.detail, info.size_bytes)
        return revision.hidden

    def shown(self, remote: Remote, program: Canonical) -> ShownResult | None:
        """Return the session's mock of a result, for a comparison with a separate run of its program.

        None if the program contains every recorded step, so that both are the same by construction, or if no
        comparison is possible.
        """
        recorded = remote._program
        if recorded.has_stand_ins or not recorded.holds_more_than(program):
            return None
        return self.rehearsals.shown(program, remote._mock, sizes_are_fixed=remote._hidden == PUBLIC)

    def connected(self) -> tuple[LoopThread, Asking]:
        """Return the loop thread and the sender of requests."""
        assert self._thread is not None
        return self._thread, self._asking

    def _ask(self, remote: Remote, reason: str, expires_s: float | None, asked: What) -> PendingRequest:
        assert self._thread is not None
        if asked == What():
            _check_travels(remote._mock, self.allowed)
        info = AssetInfo(remote._title(), 0, type(remote._mock).__name__, "", 0)
        program = remote._program.program_of(remote._id)
        shown = self.shown(remote, program)
        question = partial(
            Question,
            info,
            reason,
            program=program,
            expires_s=expires_s or 0.0,
            asked=asked,
            check=None if shown is None else partial(self.rehearsals.check, shown),
        )
        return PendingRequest(question, self._asking, self._thread)


def _check_travels(mock: Any, allowed: Allowed) -> None:
    """Raise UnsupportedValue if the mock cannot travel: the real result could not either.

    The message names up to 5 parts that can. This saves a request that is bound to fail.
    """
    try:
        values.summarise(plain(mock))
    except UnsupportedValue as error:
        parts = _parts(mock, allowed)
        such = f", such as {', '.join(parts)}, x being this" if parts else ""
        raise UnsupportedValue(
            f"a {type(mock).__name__} cannot travel, so it was not asked for; ask for its parts{such}: "
            f"{error}"
        ) from None


def _parts(mock: Any, allowed: Allowed) -> list[str]:
    """Return expressions for parts of `mock` that can travel, such as `x['a']` or `x.coef_`."""
    kind, found = type(mock), []
    if isinstance(mock, dict):
        candidates = ((f"x[{key!r}]", partial(mock.get, key)) for key in mock if isinstance(key, str))
    else:
        names = (name for name in allowed.names(kind) if allowed.attribute(kind, name) == OTHER)
        candidates = ((f"x.{name}", partial(getattr, mock, name)) for name in names)
    for expression, read in candidates:
        with contextlib.suppress(Exception):  # a library's attribute may raise anything
            part = read()
            if part is not None:
                values.summarise(plain(part))
                found.append(expression)
        if len(found) == _MOST_PARTS:
            return found
    texts = [f"x.{name}()" for name in ("as_text", "summary") if allowed.method(kind, name) is not None]
    return [*found, *texts]


def _equip(program: Program) -> None:
    """Register the pointer types and argument readers of the libraries that are imported by now."""
    if "torch" in sys.modules:
        from duetlink.duet.asking.pointers.tensor import make_tensors

        make_tensors(program)
    if "polars" in sys.modules:
        from duetlink.duet.asking.grammar.polars_expression import read_polars

        read_polars(program)

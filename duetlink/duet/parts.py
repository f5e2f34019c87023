"""The parts of one duet that ask, answer and run programs.

Their modules are half of the package, and connecting needs none of them. So `Life.make_parts` imports this
module when the first of them is needed, or right after the duet is connected.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import Executor

from duetlink.base.events import Sink
from duetlink.base.runtime.loop import LoopThread
from duetlink.compute.privacy.ledger import Ledger
from duetlink.compute.worker.kernel import rooms
from duetlink.duet.answering.inbox import Inbox
from duetlink.duet.answering.persistence import Persistence
from duetlink.duet.answering.policies.book import PolicyBook
from duetlink.duet.answering.programs import Programs
from duetlink.duet.asking.pointers.remote_session import RemoteSession
from duetlink.duet.asking.requests.asking import Asking
from duetlink.duet.objects.catalogue import Catalogue
from duetlink.duet.objects.decoding import Decoding
from duetlink.duet.objects.giving import Giving
from duetlink.duet.objects.offering import Offering
from duetlink.duet.objects.recorder import Recorder
from duetlink.errors import LinkClosed
from duetlink.net.link.link import Link
from duetlink.settings import Settings


class Parts:
    """Made on the loop thread, to which its methods belong."""

    def __init__(
        self,
        settings: Settings,
        catalogue: Catalogue,
        recorder: Recorder,
        persistence: Persistence,
        sink: Sink,
        thread: LoopThread,
        reading: Executor,
        *,
        try_first: bool,
    ) -> None:
        """Make all parts. With `try_first`, mocks of the peer are decoded in a process of their own first."""
        kept = persistence.ledger if settings.budget_path is None else None
        self.ledger = Ledger(kept or settings.budget_file)
        self.decoding = Decoding(settings.worker_memory_bytes)
        self.programs = Programs(catalogue, settings, recorder, self.ledger)
        self.inbox = Inbox(
            catalogue,
            settings,
            recorder,
            PolicyBook(persistence, sink),
            self.programs,
            self.decoding,
            persistence,
            sink,
        )
        self.asking = Asking(settings, sink)
        self.remote_session = RemoteSession(catalogue, self.asking, settings)
        self.remote_session.use(thread)
        if try_first:
            self.remote_session.try_first(self.decoding)
        self.giving = Giving(catalogue, recorder, self.decoding)
        self.offering = Offering(reading)
        self._leave_rooms: Callable[[], Awaitable[None]] | None = None

    def open(self) -> None:
        """Keep rooms ready, until `close`."""
        self._leave_rooms = rooms.use()

    def attach(self, link: Link) -> None:
        """Use `link` from here on, and handle its messages."""
        self.inbox.attach(link)
        self.asking.attach(link)
        self.giving.attach(link)
        self.remote_session.attach(link)

    def detach(self, error: LinkClosed) -> None:
        """Fail what waits for the peer, since the link has closed."""
        self.asking.detach(error)
        self.remote_session.detach()

    def succeed(self) -> None:
        """Continue with another peer, of whom nothing is known yet."""
        self.asking = self.asking.successor()
        self.remote_session = self.remote_session.successor(self.asking)

    async def close(self) -> None:
        """End everything that runs; the rooms are gone when this returns."""
        await self.inbox.close()  # also without a peer: resumed requests have timers
        await self.decoding.close()  # after those that use it
        await self.remote_session.close()
        await self.programs.close()
        if self._leave_rooms is not None:
            await self._leave_rooms()

    def release(self) -> None:
        """Drop the results: a variable that holds a closed duet must not keep them in memory."""
        for request in self.inbox.requests:
            request.release()

"""`Duet`: one pairing of two notebooks, as a person uses it. Its methods call the loop thread and wait for
the result.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from typing import Any, Self, TypeVar

from duetlink.attributes import KnownAttributes, nearest
from duetlink.base.drawing.waiting import WaitingLine
from duetlink.base.quantities import count_text, rate_text, size_text
from duetlink.base.runtime import descriptors
from duetlink.base.runtime.at_exit import KERNEL_ENDED, ExitPlan, open_here
from duetlink.base.runtime.loop import LoopThread
from duetlink.data.codecs.gradients.compressor import GradientCompressor
from duetlink.data.tuning import Compression
from duetlink.data.values.lossy import Lossy, undone_where_it_fails
from duetlink.duet.answering.incoming import Incoming
from duetlink.duet.answering.policies.policies import Policies
from duetlink.duet.answering.programs import budget_words
from duetlink.duet.answering.requests import Request, RequestTable
from duetlink.duet.asking.functions.place import fetch, place
from duetlink.duet.asking.pointers.pointer import Pointer
from duetlink.duet.asking.requests.asking import What
from duetlink.duet.asking.requests.own_requests import OwnRequest, OwnRequestTable
from duetlink.duet.asking.requests.pending_request import wait_future
from duetlink.duet.audit import Audit
from duetlink.duet.compression import SharedCompression, TuningView
from duetlink.duet.display import Displayed, Table, visible
from duetlink.duet.examination import Examination, Examine
from duetlink.duet.life import CLOSED, CONNECTED, RECONNECTING, Life
from duetlink.duet.objects.budget import Budget
from duetlink.duet.objects.catalogue import Offer
from duetlink.duet.objects.offering import Offering
from duetlink.duet.objects.progress import Progress
from duetlink.duet.open_duets import OpenDuets
from duetlink.duet.ports import OpenPort, PortTable, SharedPort
from duetlink.duet.statistics import DuetStatus, ShownStatistics, milliseconds
from duetlink.duet.store import Asset, Store
from duetlink.duet.transfers import SharedTransfer, TransferTable
from duetlink.errors import (
    AssetNotFound,
    LinkClosed,
    LocalProtocolError,
    PairingTimeout,
    PanelUnavailable,
    RequestTimeout,
)
from duetlink.net.link.history import Second
from duetlink.net.link.link import Link
from duetlink.net.link.shared_endpoint import EndpointUse
from duetlink.net.ports.handle import checked_name, checked_port
from duetlink.net.signaling.pasted import code_in
from duetlink.panel import Panel, make_panel

T = TypeVar("T")


class Duet(KnownAttributes, Displayed):
    """A pairing of two notebooks, made by `duetlink.launch()` or `duetlink.join()`.

    All methods may be called from any thread; the blocking ones can be interrupted. Use it as a context
    manager, or `close` it. A kernel that ends closes it as well.
    """

    def __init__(self, role: str, life: Life, use: EndpointUse, examine: Examine) -> None:
        self._role = role
        self._life = life
        self._thread = use.thread
        self._examine = examine
        self._panel: Panel | None = None
        self._offering = Offering(use.endpoint.reading)
        life.remote_session.use(use.thread)
        self._exit_plan = ExitPlan(
            use.thread, lambda limit_s: life.close(KERNEL_ENDED), lambda: life.cut(KERNEL_ENDED)
        )
        open_here.add(self._exit_plan)

    # -- state of the link -----------------------------------------------------------------------------------

    @property
    def role(self) -> str:
        """`owner` or `scientist`."""
        return self._role

    @property
    def code(self) -> str | None:
        """The session code for the one person who may join; None on the joining side."""
        return self._life.code

    @property
    def code_expires(self) -> datetime.datetime | None:
        """The time until which someone can join; None on the joining side, and in pairing by hand."""
        return self._life.code_expires

    @property
    def state(self) -> str:
        """`waiting` for the peer, `pairing`, `connected`, `reconnecting: ` and why, or `closed: ` and why.

        While it is reconnecting, calls wait and nothing is lost: see `gives_up_in_s` and `reconnect`.
        """
        life = self._life
        if outage := life.outage:
            unused = f"; no one joined with the new code: {life.why_uninvited}" if life.why_uninvited else ""
            return f"{RECONNECTING}: {outage.why}{unused}"
        return f"{CLOSED}: {life.why_closed}" if life.state == CLOSED else life.state

    @property
    def verifier(self) -> str | None:
        """Three words that must be the same on both sides. Compare them aloud to exclude a man in
        the middle.
        """
        return self._life.verifier

    @property
    def peer(self) -> str | None:
        """The name that the peer gave itself; None before it has connected."""
        return self._life.link.peer_name if self._life.link is not None else None

    def wait_connected(self, timeout_s: float | None = None) -> Duet:
        """Wait until the peer is connected, and return this duet.

        Raises:
            PairingTimeout: not within `timeout_s`; the code stays valid.
            DuetError: pairing failed or the duet is closed, as `state` says.
        """
        self._thread.check_process()
        connected = self._life.connected
        with WaitingLine("waiting for someone to join with the code", "stop waiting") as line:
            came = wait_future(connected, timeout_s, on_wait=line.show)
            line.end("connected" if came and connected.exception() is None else "no one has joined")
        if not came:
            raise PairingTimeout(
                f"no one has joined within {timeout_s:g} s; the code is still valid: {self.code}"
            )
        connected.result()
        return self

    def accept(self, answer: str) -> None:
        """Take the text that the scientist's side shows, in pairing by hand (`launch(signaling="paste")`).

        Raises MalformedCode or WrongCode for any other text (try again), else as wait_connected.
        """
        take = self._life.accept
        if take is None:
            raise LocalProtocolError("this duet pairs through a signaling server; no text is to be pasted")
        self._thread.run(_awaited(take(code_in(answer))))
        self.wait_connected()

    @property
    def gives_up_in_s(self) -> float | None:
        """The seconds until this side stops looking for a lost peer and closes; None while the link is not
        lost.

        In all it looks for `settings.reconnect_timeout_s`, not counting the time in which this machine
        sleeps.
        """
        outage = self._life.outage
        return outage.left_s if outage is not None else None

    def reconnect(self) -> None:
        """Look for the peer now: restart the search if the link is lost, and test the link if nothing has
        been received. Returns at once; see `state` for the outcome.

        Raises LinkClosed: the duet is closed.
        """
        self._thread.call(self._life.reconnect)

    def invite(self) -> None:
        """Make a new code for this duet, at the owner while the link is lost. `code` and the panel show it.
        It replaces an earlier new code, and is withdrawn if the peer comes back.

        The person who joins with it takes the peer's place in this duet, under the peer's name: with the same
        shares and policies, the answers to its requests, and what was granted to it. The earlier peer cannot
        come back. Pointers to its objects, and its ports, end. The audit log records the new peer, and
        `verifier` changes.

        Raises:
            LocalProtocolError: the link is not lost, or this side has joined.
            SignalingUnavailable: the signaling server cannot be reached. LinkClosed: the duet is closed.
        """
        self._thread.run(self._life.invite())

    @property
    def invited(self) -> bool:
        """True while a new code waits for someone to join; see `invite`."""
        return self._life.invited

    def ping(self) -> float:
        """Measure one round trip over the control channel, in seconds. Raises LinkClosed, CallTimeout."""
        return self._thread.run(self._link().ping())

    def statistics(self) -> ShownStatistics:
        """Return a frozen snapshot of the link: state, path, round trip, bytes and rate each way, transfers.
        It shows itself as a table.
        """
        return ShownStatistics.of(self._life.statistics())

    def status(self) -> DuetStatus:
        """Return a frozen snapshot of what this side holds, and why: contents, mocks, shared memory, with
        their sizes; and the number of open descriptors. It shows itself as a table.
        """
        return DuetStatus(self.state, descriptors.used(), descriptors.limit(), self._life.held())

    def history(self, since_s: float = 0) -> tuple[Second, ...]:
        """Return what moved in each second of the last quarter of an hour, from `since_s` on (Unix time).
        Seconds in which nothing moved and nothing was measured are left out.
        """
        return self._life.link.traffic.history(since_s) if self._life.link is not None else ()

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` after each change of state, requests, paths or compression, and when a transfer
        begins or ends. Return a function that ends this.

        `callback` is called without arguments, often, on duetlink's thread: it must return at once, and read
        what it needs on a thread of its own.
        """
        return self._life.sink.watch(callback)

    @property
    def compression(self) -> SharedCompression:
        """The compression of objects on their way, the same on both sides; can be read and changed."""
        return SharedCompression(self._link, self._thread)

    @property
    def tuning(self) -> TuningView:
        """The decisions of both tuners, and their reasons: `duet.tuning.decisions`."""
        return TuningView(self._link)

    def doctor(self, timeout_s: float = 10.0) -> Examination:
        """Examine the network and each path of this link, and suggest how to get a better one. Takes at most
        `timeout_s` seconds; the link goes on meanwhile. Works on a closed duet as well.
        """
        now = self.statistics()
        thread = LoopThread("duetlink-doctor")  # its own thread, so that the link's loop stays free
        try:
            return thread.run(self._examine(self._life.settings, now.paths, now.path, timeout_s))
        finally:
            thread.stop()

    def _link(self) -> Link:
        life = self._life
        if life.state in (CONNECTED, RECONNECTING) and life.link is not None:
            return life.link
        if life.state == CLOSED:
            raise life.closed_error()
        raise LinkClosed(f"no peer is connected yet (state: {self.state}); see wait_connected()")

    # -- objects ---------------------------------------------------------------------------------------------

    def share(
        self,
        obj: object,
        name: str,
        *,
        description: str = "",
        tags: Iterable[str] = (),
        lossy: str | GradientCompressor | None = None,
        mock: object = None,
        budget: Budget | None = None,
    ) -> Asset:
        """Offer `obj` to the peer under `name`. The peer sees name, description, type, shape and size; the
        content leaves only after an approval.

        With a `mock` the peer can work on the object: each operation runs on the mock there, and on the
        object in a process of its own here. `mock="auto"` makes a synthetic mock from the schema alone,
        `mock=Mock(…)` one with bounds and categories that you give, and any other object is the mock itself.
        The peer gets the mock without a request. Without a mock, the peer can only request the object as it
        is.

        With a `budget` the peer gets private statistics of it without a request
        (`pointer.mean().dp(epsilon=…)`), until they have cost that much. What was spent for this name is kept
        on this side's disk: sharing it again gives nothing back.

        An array of `duetlink.empty` is not copied for a peer of this host, whatever its size: its memory is
        sealed, and **what is written to it afterwards reaches nobody and raises nothing**.

        The asset is the object as it is now; share it again after a change. Sharing another object under the
        same name makes a new revision. If an earlier kernel shared exactly the same content
        (`launch(resume=…)`), its revision continues.

        `lossy` allows its floating point arrays to change on their way: by a lossy codec, by name (such as
        "bfloat16" or "block8"), or by a compressor of `codecs.gradients`, which remembers what it left out;
        "gradient" is the compressor that `duet.compression.codec["gradient"]` names, with the duet's memory.
        The peer sees it in `lossy` of the object. Everything else, and every object without it, arrives bit
        for bit.

        Raises:
            UnsupportedValue: objects of this type cannot travel. SettingError: name, description, tags, lossy
            or mock cannot be used, or duet.compression forbids it. UnknownCodec: there is no such codec.
            AuditUnavailable: the audit log cannot be written; it is not shared.
            DescriptorsShort: this process has hardly any descriptors left; it is not shared.
        """
        if self._life.state == CLOSED:
            raise self._life.closed_error()
        with self._marked(lossy, name) as mark:
            offer = self._offering.ready(obj, name, description, tags, mark, mock, budget, in_place=True)
            return self._thread.run(self._share(offer))

    async def _share(self, offer: Offer) -> Asset:
        descriptors.check_room(f"{offer.name!r} is not shared")
        catalogue, ledger, words = self._life.catalogue, self._life.ledger, ""
        if offer.budgeted is not None:
            await asyncio.to_thread(ledger.set_budget, offer.name, offer.budgeted.budget.total)
            words = await asyncio.to_thread(budget_words, ledger, offer.name)
        mine = await catalogue.share(offer, words)
        if mine.mock is not None and self._life.link is not None:  # a peer is connected
            self._life.programs.expect()
        return Asset(mine.info, catalogue, self._thread)

    @contextlib.contextmanager
    def _marked(self, lossy: str | GradientCompressor | None, name: str) -> Iterator[Lossy | None]:
        """Translate the argument `lossy`, as far as both sides allow it. If the block raises, the
        compressor's memory is restored.
        """
        link = self._life.link
        mark = self._offering.mark(lossy, name, link.agreement.compression if link else Compression())
        with undone_where_it_fails(mark):
            yield mark

    @property
    def store(self) -> Store:
        """The objects that either side shares or has given, by name."""
        return Store(self._life.catalogue, self._life.asking, self._thread, self._life.remote_session)

    def wait_object(self, name: str, timeout_s: float | None = None, *, revision: int = 0) -> Pointer:
        """Wait for an object that the peer shares or gives under `name`, at least in this `revision`. Return
        its pointer, or the object that was given, which has `get` as well.

        Raises:
            AssetNotFound: it has not appeared within `timeout_s`.
            LinkClosed: the link has closed.
        """
        appears = self._life.catalogue.wait_for(name, revision)
        near = " or ".join(visible(repr(each)) for each in nearest(name, list(self._life.catalogue.peer)))
        hint = f" (did you mean {near}, which is there?)" if near else ""
        what = f"waiting for {self._peer_words} to share {visible(repr(name))}{hint}"
        try:
            self._wait_for(appears, timeout_s, what)
        except TimeoutError:
            which = f"revision {revision} of {name!r}" if revision else repr(name)
            raise AssetNotFound(f"the peer has shared no {which} within {timeout_s:g} s{hint}") from None
        store = self.store
        return store.peer[name] if name in store.peer else store.received[name]

    def send(
        self,
        obj: object,
        name: str,
        *,
        description: str = "",
        tags: Iterable[str] = (),
        lossy: str | GradientCompressor | None = None,
    ) -> None:
        """Give `obj` to the peer, who finds it in `duet.store[name]`. Returns when the peer has all of it.

        `lossy` is as in `share`. If sending fails, a compressor restores its memory, so that the next
        gradient brings what this one should have brought.

        Raises:
            UnsupportedValue: objects of this type cannot travel. SettingError, UnknownCodec: as of `share`.
            ValueRefused: the peer does not accept that much; nothing was placed there.
            AuditUnavailable: the audit log cannot be written; nothing has left.
            LinkClosed, TransferFailed: it did not arrive.
        """
        self._link()  # raises before the work of encoding
        with self._marked(lossy, name) as mark:
            offer = self._offering.ready(obj, name, description, tags, mark)
            gift = self._life.giving.prepare(offer)
            with Progress(name, self.peer or "") as progress:
                self._thread.run(self._life.giving.give(gift), on_wait=lambda: progress.show(gift.transfer))

    # -- remote work -----------------------------------------------------------------------------------------

    def remote(self, obj: Any) -> Any:
        """Return the counterpart of `obj` at the peer, to work with together with pointers:

        - of a module such as `pandas` or `sklearn.linear_model`: its functions and classes, as far as they
          are allowed there. NumPy's and torch's own functions take pointers as they are;
        - of a `torch.nn.Module`: itself, with its parameters placed at the peer. Its `forward` still runs
          here, on mocks, operation by operation; training it is a plain loop, with torch's own optimisers;
        - of an estimator of scikit-learn: one with the same parameters;
        - of a function that you have defined, also as a decorator: one that runs on mocks here at once, and
          whose `submit` asks the owner to read it and to run it on the real data;
        - of a `duetlink.learning.DpSgd`: one whose `fit(x, y)` takes pointers, and returns what can be
          submitted like a function, with `dp=(epsilon, delta)`;
        - of an array, frame, tensor, or a dict, list or tuple of pointers: a pointer to it.

        Raises:
            OperationRefused: it cannot be used there.
            SettingError: the function needs what cannot be sent; the message names it.
            LinkClosed: there is no peer.
        """
        return place(obj, self._life.remote_session)

    def fetch(self, obj: Any, *, reason: str = "", timeout_s: float | None = None) -> Any:
        """Request the values of pointers in one request: of a pointer; of a dict, list or tuple of pointers;
        of a `torch.nn.Module` that was placed with `remote`, a copy with its parameters there. Raises as
        `Pointer.get`.
        """
        return fetch(obj, self._life.remote_session, reason, timeout_s)

    def check(self, result: Any, *, reason: str = "", timeout_s: float | None = None) -> bool:
        """Ask whether the owner can compute what a pointer points to. The answer is one bit, requested and
        approved like a value. It is also False if a limit of the owner's prevents it. Raises as
        `Pointer.get`.
        """
        pending = place(result, self._life.remote_session)._program.ask(
            result, reason, None, What(check=True)
        )
        return bool(pending.result_or_withdraw(timeout_s))

    # -- transfers -------------------------------------------------------------------------------------------

    @property
    def transfers(self) -> TransferTable:
        """The transfers of both directions by number: the latest 200, and all that run."""
        link = self._life.link
        records = link.traffic.transfers if link is not None else []
        return TransferTable([SharedTransfer(record, self._life, self._thread) for record in records])

    def pause(self) -> None:
        """Stop all objects from leaving until `resume`, also in transfers that begin later. The peer's
        objects still arrive; requests, answers and descriptions go on. Raises LinkClosed.
        """
        self._thread.call(lambda: self._life.pause(True))

    def resume(self) -> None:
        """Let objects leave again. Transfers that were paused one by one stay paused. Raises LinkClosed."""
        self._thread.call(lambda: self._life.pause(False))

    @property
    def paused(self) -> bool:
        """True while this side has paused all that it sends."""
        return self._life.paused

    # -- ports -----------------------------------------------------------------------------------------------

    def share_port(self, port: int, name: str, *, host: str = "127.0.0.1") -> SharedPort:
        """Let the peer connect to the TCP service at `host`:`port`, and to no other. The peer opens it by
        `duet.open_port(name)`.

        May be called before the peer is connected. Connections are encrypted and authenticated by the link,
        use its best path, and wait while the network is away. Both sides log each connection in the audit
        log, with the bytes each way. The service gives the peer whatever it gives to anyone who connects: no
        policy checks what passes.

        Raises:
            SettingError: no such port or name, or a port of this name is shared already.
            AuditUnavailable: the audit log cannot be written; it is not shared.
        """
        if self._life.state == CLOSED:
            raise self._life.closed_error()
        offered = self._life.ports.share(checked_name(name), host, checked_port(port))
        return SharedPort(self._thread.run(offered), self._life.ports, self._thread)

    def open_port(self, name: str, *, port: int = 0) -> OpenPort:
        """Open a port on this machine, 127.0.0.1, that leads to the service that the peer shares as `name`.
        Any program of this machine can connect. `port` is the one to listen on, 0 for a free one.

        Raises:
            PortUnavailable: the peer shares no port of this name, or `port` is not free.
            SettingError: no such port or name. LinkClosed, CallTimeout: the peer does not answer.
        """
        self._link()
        opened = self._life.ports.open(checked_name(name), checked_port(port, least=0))
        return OpenPort(self._thread.run(opened), self._life.ports, self._thread)

    @property
    def ports(self) -> PortTable:
        """The ports that this side shares, then those that it has opened."""
        ports, thread = self._life.ports, self._thread
        shared = [SharedPort(offer, ports, thread) for offer in ports.registry.all()]
        opened = [OpenPort(listener, ports, thread) for listener in list(ports.listeners)]
        return PortTable([*shared, *opened])

    # -- the owner's queue -----------------------------------------------------------------------------------

    @property
    def requests(self) -> RequestTable:
        """The peer's requests by number: pending ones and the history."""
        return RequestTable([self._request(incoming) for incoming in list(self._life.inbox.requests)])

    @property
    def asked(self) -> OwnRequestTable:
        """The requests of this side to the peer, and their outcomes: the latest 200."""
        records = list(self._life.asking.records)
        return OwnRequestTable([OwnRequest(record, self._thread) for record in records])

    @property
    def policies(self) -> Policies:
        """The rules that answer the peer's requests, in order; none at first."""
        return Policies(self._life.inbox, self._thread)

    @property
    def audit(self) -> Audit:
        """The audit log of this duet on this side's disk: what was shared, asked, answered and has left. For
        other duets, see `audit.filter`.
        """
        recorder = self._life.recorder
        recorder.settle()
        path = recorder.log.path if recorder.log is not None else None
        return Audit(path, recorder.session, recorder.begin_bytes or 0, failure=recorder.failure)

    def wait_request(self, timeout_s: float | None = None) -> Request:
        """Return the oldest pending request; wait until one arrives.

        Raises:
            RequestTimeout: none within `timeout_s`.
            LinkClosed: the link has closed.
        """

        arrives = self._life.inbox.wait_pending()
        try:
            return self._request(
                self._wait_for(arrives, timeout_s, f"waiting for a request of {self._peer_words}")
            )
        except TimeoutError:
            raise RequestTimeout(f"no request has arrived within {timeout_s:g} s") from None

    @property
    def _peer_words(self) -> str:
        return visible(self.peer) if self.peer is not None else "the person who joins"

    def _wait_for(self, waiting: Coroutine[Any, Any, T], timeout_s: float | None, what: str) -> T:
        """Run `waiting` on the loop thread, and show the line `what` if it takes long. Raises TimeoutError
        after `timeout_s`, LinkClosed when the duet closes.
        """

        async def wait() -> T:
            task = asyncio.ensure_future(waiting)
            closed = asyncio.ensure_future(self._life.closed.wait())
            try:
                async with asyncio.timeout(timeout_s):
                    await asyncio.wait((task, closed), return_when=asyncio.FIRST_COMPLETED)
                if task.done():
                    return task.result()
                raise self._life.closed_error()
            finally:
                task.cancel()
                closed.cancel()

        with WaitingLine(what, "stop waiting") as line:
            return self._thread.run(wait(), on_wait=line.show)

    def _request(self, incoming: Incoming) -> Request:
        return Request(incoming, self._life.inbox, self._thread)

    # -- closing ---------------------------------------------------------------------------------------------

    def close(self, reason: str = "") -> None:
        """Tell the peer, stop everything, free everything. Safe to call twice."""
        if not self._thread.stopped:
            with contextlib.suppress(LinkClosed):  # closed by another thread meanwhile
                self._thread.run(self._life.close(reason))
            self._thread.stop()
        open_here.discard(self._exit_plan)
        duets.discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    # -- display ---------------------------------------------------------------------------------------------

    def table(self) -> Table:
        """Return a table with the duet's state, peer, path, traffic and requests."""
        statistics = self.statistics()
        rows = [("state", self.state)]
        if self._life.state in (CONNECTED, RECONNECTING):
            rows += [
                ("peer", f"{self.peer} (verifier: {self.verifier})"),
                ("path", statistics.path or ("none yet" if self._life.state == CONNECTED else "none now")),
                ("sent", f"{size_text(statistics.sent_bytes)}, {rate_text(statistics.sent_bytes_per_s)}"),
                (
                    "received",
                    f"{size_text(statistics.received_bytes)}, {rate_text(statistics.received_bytes_per_s)}",
                ),
                ("round trip", milliseconds(statistics.round_trip_s)),
                ("requests", f"{len(self.requests.pending)} pending of {len(self.requests)}"),
                ("store", count_text(len(self.store), "object")),
            ]
            if (left_s := self.gives_up_in_s) is not None:
                rows.insert(1, ("given up in", f"{left_s:,.0f} s, unless the peer comes back"))
            if self.invited:
                rows.insert(2, ("new code", "in the panel, or: print(duet.code)"))
        elif self._life.state != CLOSED and self.code:
            # the code must not be saved with the notebook
            rows.append(("code", "in the panel, or: print(duet.code)"))
        if self._life.recorder.log is None:
            rows.append(("audit log", "switched off: nothing is recorded"))
        elif self._life.recorder.failure:
            rows.append(("audit log", "cannot be written, so nothing leaves: see duet.audit"))
        if (kept := self._life.persistence).name:
            rows.append(("kept as", f"{kept.name}: cannot be written" if kept.failure else kept.name))
        return Table(f"duetlink {self._role}", ("", ""), rows)

    def panel(self) -> None:
        """Show the live panel of this duet below the cell. A last line `duet` does the same.

        Raises PanelUnavailable: it cannot be drawn here.
        """
        if self._panel is None:
            self._panel = make_panel(self)
        self._panel.display()

    def _ipython_display_(self) -> None:
        try:
            self.panel()
        except PanelUnavailable:
            self.table().display()


async def _awaited(step: Awaitable[None]) -> None:
    await step


duets: OpenDuets[Duet] = OpenDuets()  # all open duets of this kernel

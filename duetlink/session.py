"""`launch` and `join`: from a session code to a connected duet."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import functools
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from duetlink.base.events import IceServersChosen
from duetlink.duet.announcement import show_answer, show_code, show_disconnected, show_joined, show_others
from duetlink.duet.cell import Run, current_run
from duetlink.duet.duet import Duet, duets
from duetlink.duet.examination import Examination
from duetlink.duet.life import Life, cancelled
from duetlink.errors import (
    DuetError,
    IncompatiblePeer,
    LinkClosed,
    MalformedCode,
    PairingTimeout,
    SignalingUnavailable,
)
from duetlink.net.link.introducing import Introducing
from duetlink.net.link.link import Link
from duetlink.net.link.shared_endpoint import EndpointUse, shared_endpoint
from duetlink.net.paths.path_selector import PathStatus
from duetlink.net.peer.connection import PeerConnection
from duetlink.net.peer.ice_servers import ProbedServer, choose_ice_servers
from duetlink.net.reunion import Reunion
from duetlink.net.signaling import (
    BORROWS,
    GROUP,
    Paired,
    PasteOwner,
    PasteScientist,
    SessionCode,
    SignalingHello,
    WebSocketMailbox,
    configured,
    connected,
    live_servers,
    pair_owner,
    pair_scientist,
)
from duetlink.net.signaling.discovery import SignalingServer
from duetlink.net.signaling.paste import PREFIX as PASTE_PREFIX
from duetlink.net.signaling.pasted import code_in
from duetlink.net.stun.lending import has_turn, lent
from duetlink.settings import IceServer, Settings
from duetlink.version import PROTOCOL_MAX, PROTOCOL_MIN, __version__

if TYPE_CHECKING:
    from aiortc import RTCIceServer

    from duetlink.duet.state.state import State

OWNER, SCIENTIST = "owner", "scientist"

Attach = Callable[[Link, str], Awaitable[None]]  # makes a connected link, with its verifier, the duet's link

_PROBE_LASTS_S = 60.0  # a server that answered at launch may be gone when the peer comes


def launch(
    *,
    name: str | None = None,
    signaling: str | None = None,
    settings: Settings | None = None,
    resume: str | bool | None = None,
    keep: bool = False,
) -> Duet:
    """Open a duet as the data owner, and show the session code to give to one person.

    Returns at once; the peer may come within `settings.code_lifetime_s`. See `duet.state`,
    `duet.wait_connected()`.

    Args:
        name: the name that the peer sees. Default: that of `resume`, else "owner".
        signaling: `ws://` or `wss://` address of a signaling server, or "paste" to carry the messages by
            hand. Default: `DUETLINK_SIGNALING`, else this kernel runs one while a code is valid.
        settings: default `Settings.from_environment()`.
        resume: a name, such as "clinic", under which the state of this duet is kept on this machine's disk,
            so that a later kernel can continue it; True means "default". A new name begins empty. Without it
            nothing is kept. Only the owner's side keeps state: `join` has no such argument.
        keep: do not close the duets that earlier runs of this cell have made. See `duetlink.duets`.

    A resumed duet has its policies in their order with their counts, its budgets of private statistics, its
    requests with numbers and answers, and the descriptions of the shared objects. Each object waits in
    `duet.store` until you share it again: with the same content it keeps its revision, with other content it
    gets the next one. Requests for results and functions keep their code, and can be run on objects that were
    shared again. Contents, mocks and results are never kept.

    Running the cell again in a notebook replaces the duet that it made. The old one is closed first, its peer
    gets the reason, and the cell says who was disconnected.

    **Grants go by the peer's name.** A grant to a peer holds for any later peer with the same name, and peers
    choose their own names (without `name=` all are called "scientist"). So give a new code to the same person
    as the old one, and use one name for each person. Or set `resume_grants` in the settings to False: then
    everyone has to ask again.

    Raises:
        SettingError: an argument or variable cannot be used.
        SignalingUnavailable: the signaling server cannot be reached.
        PortUnavailable: a port that the settings fix cannot be used.
        StateInUse: another kernel uses the state of that name.
        StateBroken: the state is damaged. It is not replaced by an empty one; the message says what to do.
        StateUnavailable: the state cannot be read or written.
    """
    settings = _settings(settings, signaling)
    run = current_run()
    if not keep:
        # the old duet must release its kept state before the new one opens it
        show_disconnected(duets.replace(run), "launch")
    duet = _launch(name, settings, resume, run)
    _offer_completions()
    show_code(duet)
    show_others(len(duets.others(duet)))
    return duet


def join(
    code: str,
    *,
    name: str | None = None,
    signaling: str | None = None,
    settings: Settings | None = None,
    keep: bool = False,
) -> Duet:
    """Join the duet that waits under `code`, as the data scientist. Returns when connected.

    A notebook also shows the panel. The whole line that the owner sends may be pasted as the code:
    `join('duetlink.join("7-…")')`.

    Running the cell again in a notebook replaces the duet that it made, once the new one is connected: the
    old one is closed, and its peer gets the reason. With `keep` it stays open. See `duetlink.duets`.

    Raises:
        MalformedCode, UnknownCode, CodeUsed, WrongCode: the code cannot be used; the message says why.
        SignalingUnavailable: no signaling server can be reached.
        PortUnavailable: the Flight port that the settings fix cannot be used.
        IncompatiblePeer: the versions of both sides do not fit, or it is the code of a group.
        PeerUnreachable, PairingTimeout: the peer was found, but could not be connected.
    """
    settings = _settings(settings, signaling)
    code = code_in(code)
    by_hand = isinstance(code, str) and code.startswith(PASTE_PREFIX)
    parsed = None if by_hand else SessionCode.parse(code)
    use = shared_endpoint.use()
    thread, life = use.thread, Life(settings)
    duet = Duet(SCIENTIST, life, use, _examine)
    run = current_run()
    duets.add(duet, run)
    opening = _Opening(life, _hello(name or SCIENTIST), use)
    try:
        thread.run(use.endpoint.open_fixed(settings))
        thread.run(life.open(SCIENTIST))
        if parsed is not None:
            thread.run(opening.join(parsed))
        else:
            show_answer(thread.run(opening.join_by_hand(code)))
            duet.wait_connected(settings.code_lifetime_s)
    except BaseException:
        duet.close()
        raise
    _offer_completions()
    if not keep:
        # only now: a code that is used up must not cost the existing link
        show_disconnected(duets.replace(run), "join")
    show_joined(duet)
    return duet


def _launch(name: str | None, settings: Settings, resume: str | bool | None, run: Run | None) -> Duet:
    resumed = _resumed(settings, resume)
    use = shared_endpoint.use()
    thread, life = use.thread, Life(settings, resumed)
    duet = Duet(OWNER, life, use, _examine)
    duets.add(duet, run)
    kept_as = resume if isinstance(resume, str) else ""
    opening = _Opening(life, _hello(name or kept_as or OWNER), use)
    try:
        thread.run(use.endpoint.open_fixed(settings))
        thread.run(life.open(OWNER))
        if settings.signaling == "paste":
            thread.run(opening.launch_by_hand())
        else:
            thread.run(opening.launch())
    except BaseException:
        duet.close()
        raise
    return duet


def _offer_completions() -> None:
    if "IPython" in sys.modules:
        from duetlink.duet.completion import offer_completions  # imported here, for notebooks alone

        offer_completions()


async def _examine(
    settings: Settings, paths: Sequence[PathStatus], used_path: str | None, timeout_s: float
) -> Examination:
    from duetlink.tools.doctor.examine import examine  # imported here, since few duets need it

    return await examine(settings, paths=paths, used_path=used_path, timeout_s=timeout_s)


def _resumed(settings: Settings, resume: str | bool | None) -> State | None:
    if resume is None or resume is False:
        return None
    from duetlink.duet.state.directory import DEFAULT  # imported here, since most duets keep no state
    from duetlink.duet.state.state import State

    name = DEFAULT if resume is True else resume
    return State.open(
        settings.state_directory,
        name,
        grants=settings.resume_grants,
        work_limit_bytes=settings.max_received_bytes,
    )


def _settings(settings: Settings | None, signaling: str | None) -> Settings:
    settings = Settings.from_environment() if settings is None else settings
    return settings if signaling is None else dataclasses.replace(settings, signaling=signaling)


def _hello(name: str) -> SignalingHello:
    return SignalingHello(PROTOCOL_MIN, PROTOCOL_MAX, __version__, name)


class _Opening:
    """Pairs and connects one duet. Runs on the loop thread."""

    def __init__(self, life: Life, hello: SignalingHello, use: EndpointUse) -> None:
        self._life = life
        self._hello = hello
        self._use = use
        self._settings = life.settings  # later with the TURN servers that the peer lends
        self._introducing: Introducing | None = None
        self._reunion: Reunion | None = None
        self._probe: asyncio.Task[tuple[list[RTCIceServer], list[ProbedServer]]] | None = None
        self._probed_s = 0.0

    async def launch(self) -> None:
        """Claim a mailbox and return; pairing goes on in the background."""
        life = self._life
        self._probe_ice_servers()
        server = configured(life.settings)
        if server is None:
            server = await self._use.hosting.begin(life.settings)
            life.at_end(self._use.hosting.end)
        lifetime_s = life.settings.code_lifetime_s
        mailbox, code = await self._claim(server, lifetime_s)
        life.make_code = functools.partial(self._pair_again, server)
        self._in_background(self._pair_owner(mailbox, code, lifetime_s, life.met, self._attach))

    async def _claim(
        self, server: SignalingServer, lifetime_s: float
    ) -> tuple[WebSocketMailbox, SessionCode]:
        life = self._life
        mailbox, nameplate = await WebSocketMailbox.claim(server.url, lifetime_s)
        life.at_end(mailbox.close)
        code = SessionCode.generate(nameplate, server.in_code)
        life.code = str(code)
        life.code_expires = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=lifetime_s)
        return mailbox, code

    async def _pair_again(self, server: SignalingServer, at_most_s: float) -> asyncio.Task[None]:
        """Make a new code for a duet that has lost its peer; return the task that waits for another peer."""
        again = _Opening(self._life, self._hello, self._use)
        again._probe_ice_servers()
        lifetime_s = min(self._life.settings.code_lifetime_s, at_most_s)
        mailbox, code = await again._claim(server, lifetime_s)
        return asyncio.ensure_future(again._pair_replacement(mailbox, code, lifetime_s))

    async def _pair_replacement(
        self, mailbox: WebSocketMailbox, code: SessionCode, lifetime_s: float
    ) -> None:
        life = self._life
        try:
            await self._pair_owner(mailbox, code, lifetime_s, life.check_missing, life.replace)
        except BaseException:
            if self._introducing is not None:
                await self._introducing.close("the place for which this code was made is taken")
            raise

    async def _pair_owner(
        self,
        mailbox: WebSocketMailbox,
        code: SessionCode,
        lifetime_s: float,
        met: Callable[[], None],
        attach: Attach,
    ) -> None:
        async def answer(hello: SignalingHello, offer: bytes) -> bytes:
            met()
            connection = await self._connection(hello.relays)
            return await connection.answer(offer)

        paired = await pair_owner(mailbox, code, await self._lending(), answer, lifetime_s)
        if GROUP in paired.hello.features:
            who = paired.hello.name or "another person"
            raise IncompatiblePeer(
                f"{who} tried to join this duet as a group, and its code is used up: launch a new one, for "
                "duetlink.join(code)"
            )
        self._reunion = Reunion(paired.key, mailbox.url, self._settings)
        await connected(mailbox, code, self._finish(paired, attach, initiator=False))

    async def join(self, code: SessionCode) -> None:
        self._probe_ice_servers()
        mailbox = await self._join_mailbox(code)
        self._life.at_end(mailbox.close)
        self._life.met()

        async def offer() -> bytes:
            return await (await self._connection()).offer()

        async def borrow(relays: tuple[IceServer, ...]) -> bytes:
            assert self._introducing is not None
            await self._introducing.close()
            return await (await self._connection(relays)).offer()

        paired = await pair_scientist(mailbox, code, await self._lending(), offer(), borrow=borrow)
        if GROUP in paired.hello.features:
            raise IncompatiblePeer(
                "this is the code of a group, which has lost a seat by this: duetlink.group(code) joins it"
            )
        self._reunion = Reunion(paired.key, mailbox.url, self._settings)
        await mailbox.close()
        await self._accept(paired)

    async def _join_mailbox(self, code: SessionCode) -> WebSocketMailbox:
        if code.url is not None:
            return await WebSocketMailbox.join(code.url, code.nameplate)
        if self._life.settings.signaling == "paste":
            raise MalformedCode(
                "pairing by hand is set: join() then takes the text that the owner's launch() shows, which "
                f"starts with {PASTE_PREFIX}"
            )
        if self._life.settings.signaling is not None:
            server = configured(self._life.settings)
            assert server is not None
            return await WebSocketMailbox.join(server.url, code.nameplate)
        servers = await live_servers()
        if len(servers) > 1:  # the wrong one may have a mailbox of this number, whose code would be burnt
            raise SignalingUnavailable(
                f"{len(servers)} kernels of this machine have a signaling server: use the whole code that "
                "the owner sees, with its @host:port"
            )
        if servers:
            return await WebSocketMailbox.join(servers[0].url, code.nameplate)
        raise SignalingUnavailable(
            "no signaling server runs on this machine, and none is configured: use the whole code that the "
            "owner sees (with its @host:port), or set DUETLINK_SIGNALING to the server that the owner uses"
        )

    async def launch_by_hand(self) -> None:
        """Make the text to paste at the scientist; `Life.accept` takes the scientist's answer."""
        paste = PasteOwner(await self._lending(), await (await self._connection()).offer())
        self._life.code = paste.blob

        async def accept(text: str) -> None:
            paired = paste.accept(text)
            self._life.met()
            await self._guarded(self._accept(paired))

        self._life.accept = accept

    async def join_by_hand(self, text: str) -> str:
        """Take the owner's text and return the answer to paste there; connect in the background."""
        paste = PasteScientist(text, self._hello)
        self._life.met()
        connection = await self._connection(paste.paired.hello.relays)
        answer = paste.answer(await connection.answer(paste.paired.payload, patient=True))
        timeout_s = self._life.settings.code_lifetime_s
        self._in_background(self._finish(paste.paired, self._attach, initiator=False, timeout_s=timeout_s))
        return answer

    def _probe_ice_servers(self) -> None:
        """Start to check which STUN and TURN servers answer, in parallel with opening a mailbox."""
        settings = self._settings
        self._probed_s = time.monotonic()
        self._probe = asyncio.ensure_future(
            choose_ice_servers(settings.allowed_ice_servers, settings.ice_probe_timeout_s)
        )
        self._life.at_end(functools.partial(cancelled, self._probe))

    async def _lending(self) -> SignalingHello:
        """Return the hello of this side: it offers TURN servers to the peer, or asks to borrow some."""
        settings = self._settings
        servers = settings.allowed_ice_servers
        relays = await lent(servers, time.time(), settings.ice_probe_timeout_s)
        features = {BORROWS} if settings.relay and not has_turn(servers) else set()
        return dataclasses.replace(self._hello, relays=relays, features=self._hello.features | features)

    async def _connection(self, relays: tuple[IceServer, ...] = ()) -> PeerConnection:
        """Make a connection. It uses the peer's `relays` if this side has no TURN server and may use one."""
        settings = self._settings
        if relays and settings.relay and not has_turn(settings.ice_servers):
            self._settings = dataclasses.replace(settings, ice_servers=(*settings.ice_servers, *relays))
            self._probe = None
        if self._probe is None or time.monotonic() - self._probed_s > _PROBE_LASTS_S:
            self._probe_ice_servers()
        assert self._probe is not None
        chosen, probed = await asyncio.shield(self._probe)
        answering = sum(server.reachable for server in probed)
        self._life.sink.emit(IceServersChosen(len(probed), answering, len(chosen)))
        connection = PeerConnection(chosen)
        self._introducing = Introducing(connection, self._settings, self._use.endpoint)
        self._life.at_end(self._introducing.close)
        return connection

    async def _accept(self, paired: Paired) -> None:
        assert self._introducing is not None
        await self._introducing.accept(paired.payload)
        await self._finish(paired, self._attach, initiator=True)

    async def _finish(
        self, paired: Paired, attach: Attach, *, initiator: bool, timeout_s: float | None = None
    ) -> None:
        assert self._introducing is not None
        life = self._life
        link = await Link.connect(
            self._introducing,
            self._settings,
            self._use.endpoint,
            self._hello.name,
            initiator=initiator,
            timeout_s=timeout_s,
            sink=life.sink,
        )
        life.at_end(link.close)
        if self._reunion is not None:
            link.reconnect = self._reunion.connect
        await attach(link, paired.key.verifier())
        # the peer answers after it has attached too; then all that it shares is listed here
        await link.ping()

    async def _attach(self, link: Link, verifier: str) -> None:
        self._life.verifier = verifier
        self._life.attach(link)

    def _in_background(self, pairing: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(self._guarded(pairing))

        self._life.at_end(lambda: cancelled(task))

    async def _guarded(self, pairing: Coroutine[Any, Any, None]) -> None:
        """Run a step of pairing; an error in it ends the duet."""
        try:
            await pairing
        except DuetError as error:
            self._life.end(error)
        except TimeoutError:
            self._life.end(PairingTimeout("the peer was met but did not finish connecting in time"))
        except asyncio.CancelledError:
            self._life.end(LinkClosed("this side closed the duet while it was pairing"))
            raise

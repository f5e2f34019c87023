from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.errors import (
    CodeUsed,
    DuetError,
    IncompatiblePeer,
    LinkClosed,
    LocalProtocolError,
    PairingTimeout,
    PeerUnreachable,
    RemoteProtocolError,
    SignalingRefused,
    SignalingUnavailable,
    WrongCode,
)
from duetlink.net.signaling import schema_pb2 as pb
from duetlink.net.signaling.base import Role
from duetlink.net.signaling.client import WebSocketMailbox
from duetlink.net.signaling.code import SessionCode
from duetlink.net.signaling.hello import BORROWS, SignalingHello, negotiate
from duetlink.net.signaling.memory import MemoryMailbox
from duetlink.net.signaling.pairing import Paired, connected, open_introduction, pair_owner, pair_scientist
from duetlink.net.signaling.secret import KeyAgreement, SessionKey
from duetlink.net.signaling.server import MailboxServer
from duetlink.settings import IceServer

CODE = SessionCode(7, ("crossover", "clockwork"))
WRONG = SessionCode(7, ("crossover", "cobra"))
ANA = SignalingHello(1, 3, "0.3.0", "ana", frozenset({"tcp", "local"}))
BEN = SignalingHello(2, 5, "0.5.0", "ben", frozenset({"tcp", "relay"}))


async def answer(hello: SignalingHello, offer: bytes) -> bytes:
    return hello.name.encode() + b" said " + offer


async def both(*sides: Awaitable[Paired]) -> list[Paired | BaseException]:
    async with asyncio.timeout(60):
        return await asyncio.gather(*sides, return_exceptions=True)


def is_error(result: Paired | BaseException, kind: type[DuetError], says: str = "") -> None:
    assert type(result) is kind, result
    assert says in str(result)


async def test_both_sides_pair_over_memory() -> None:
    a, b = MemoryMailbox.pair()
    owner, scientist = await both(pair_owner(a, CODE, ANA, answer), pair_scientist(b, CODE, BEN, b"offer"))
    assert isinstance(owner, Paired)
    assert isinstance(scientist, Paired)
    assert (owner.hello, owner.payload, owner.protocol, owner.features) == (
        BEN,
        b"offer",
        3,
        frozenset({"tcp"}),
    )
    assert (scientist.hello, scientist.payload, scientist.protocol) == (ANA, b"ben said offer", 3)
    assert owner.key.verifier() == scientist.key.verifier()
    # the mailbox and the key go on
    await a.send(owner.key.seal(b"more"))
    assert scientist.key.open(await b.receive()) == b"more"


async def test_both_sides_pair_over_a_server_with_an_offer_in_the_making(url: str) -> None:
    a, nameplate = await WebSocketMailbox.claim(url)
    code = replace(CODE, nameplate=nameplate)

    async def offer() -> bytes:
        return b"made"

    pairing = asyncio.ensure_future(pair_owner(a, code, ANA, answer))
    b = await WebSocketMailbox.join(url, nameplate)
    _, scientist = await both(pairing, pair_scientist(b, code, BEN, offer()))
    assert isinstance(scientist, Paired)
    assert scientist.payload == b"ben said made"
    await a.close()
    await b.close()


RELAY = IceServer(("turn:192.0.2.7:3478?transport=udp",), "1800003600:ana", "p")


async def test_a_scientist_that_borrows_makes_its_offer_anew_with_the_relays_of_the_owner() -> None:
    a, b = MemoryMailbox.pair()
    lending, borrowing = replace(ANA, relays=(RELAY,)), replace(BEN, features=frozenset({BORROWS}))
    borrowed: list[tuple[IceServer, ...]] = []

    async def borrow(relays: tuple[IceServer, ...]) -> bytes:
        borrowed.append(relays)
        return b"better offer"

    owner, scientist = await both(
        pair_owner(a, CODE, lending, answer), pair_scientist(b, CODE, borrowing, b"offer", borrow=borrow)
    )
    assert isinstance(owner, Paired)
    assert isinstance(scientist, Paired)
    assert borrowed == [(RELAY,)]
    assert (owner.payload, scientist.payload) == (b"better offer", b"ben said better offer")


async def test_an_owner_lends_to_nobody_who_does_not_borrow() -> None:
    a, b = MemoryMailbox.pair()
    _, scientist = await both(
        pair_owner(a, CODE, replace(ANA, relays=(RELAY,)), answer), pair_scientist(b, CODE, BEN, b"offer")
    )
    assert isinstance(scientist, Paired)
    assert (scientist.hello, scientist.payload) == (ANA, b"ben said offer")


async def test_an_owner_has_the_relays_of_the_scientist_before_it_answers() -> None:
    a, b = MemoryMailbox.pair()

    async def note(hello: SignalingHello, offer: bytes) -> bytes:
        assert hello.relays == (RELAY,)
        return b"answer"

    lending = replace(BEN, relays=(RELAY,))
    owner, scientist = await both(pair_owner(a, CODE, ANA, note), pair_scientist(b, CODE, lending, b"offer"))
    assert isinstance(owner, Paired)
    assert isinstance(scientist, Paired)
    assert scientist.payload == b"answer"


async def test_wrong_words_fail_on_both_sides_and_burn_the_code(url: str, server: MailboxServer) -> None:
    a, nameplate = await WebSocketMailbox.claim(url)
    b = await WebSocketMailbox.join(url, nameplate)
    right, wrong = replace(CODE, nameplate=nameplate), replace(WRONG, nameplate=nameplate)
    owner, scientist = await both(pair_owner(a, right, ANA, answer), pair_scientist(b, wrong, BEN, b"offer"))
    is_error(owner, WrongCode, "launch() for a new one")
    is_error(scientist, WrongCode, "ask the owner for a new one")
    for error in (owner, scientist):
        assert not {"crossover", "clockwork", "cobra"} & set(str(error).replace("-", " ").split())
    with pytest.raises(CodeUsed):
        await WebSocketMailbox.join(url, nameplate)
    assert len(server.mailboxes) == 0


async def test_the_answer_is_not_asked_for_before_the_words_are_proved() -> None:
    a, b = MemoryMailbox.pair()

    async def never(hello: SignalingHello, offer: bytes) -> bytes:
        raise AssertionError

    owner, _ = await both(pair_owner(a, CODE, ANA, never), pair_scientist(b, WRONG, BEN, b"offer"))
    is_error(owner, WrongCode)


@pytest.mark.parametrize(
    ("mine", "theirs", "owner_upgrades"),
    [
        (replace(ANA, protocol_max=1), BEN, True),
        (replace(BEN, version="0.5.0"), replace(ANA, protocol_max=1), False),
    ],
)
async def test_incompatible_versions_are_told_to_both_sides(
    mine: SignalingHello, theirs: SignalingHello, owner_upgrades: bool
) -> None:
    a, b = MemoryMailbox.pair()
    owner, scientist = await both(
        pair_owner(a, CODE, mine, answer), pair_scientist(b, CODE, theirs, b"offer")
    )
    here, there = "upgrade duetlink here", "ask your peer to upgrade"
    is_error(owner, IncompatiblePeer, here if owner_upgrades else there)
    is_error(scientist, IncompatiblePeer, there if owner_upgrades else here)
    for error in (owner, scientist):
        assert "duetlink 0.3.0" in str(error)
        assert "duetlink 0.5.0" in str(error)


async def test_an_owner_whom_nobody_answers_times_out_and_leaves() -> None:
    a, b = MemoryMailbox.pair()
    with pytest.raises(PairingTimeout, match=r"within 0\.01 s"):
        await pair_owner(a, CODE, ANA, answer, timeout_s=0.01)
    await b.receive()
    with pytest.raises(LinkClosed):
        await b.receive()


async def test_a_scientist_whom_nobody_answers_times_out() -> None:
    _, b = MemoryMailbox.pair()
    with pytest.raises(PairingTimeout, match="code 7"):
        await pair_scientist(b, CODE, BEN, b"", timeout_s=0.01)


async def test_a_time_out_of_the_offer_itself_is_not_renamed() -> None:
    a, b = MemoryMailbox.pair()

    async def offer() -> bytes:
        raise TimeoutError("ICE")

    owner, scientist = await both(pair_owner(a, CODE, ANA, answer), pair_scientist(b, CODE, BEN, offer()))
    assert type(scientist) is TimeoutError
    is_error(owner, LinkClosed)


async def test_an_offer_that_is_too_large_is_refused_here() -> None:
    a, b = MemoryMailbox.pair()
    owner, scientist = await both(
        pair_owner(a, CODE, ANA, answer), pair_scientist(b, CODE, BEN, bytes(65536))
    )
    is_error(scientist, SignalingRefused, "65536")
    is_error(owner, LinkClosed)


async def test_a_server_that_stops_ends_both_sides(url: str, server: MailboxServer) -> None:
    a, _ = await WebSocketMailbox.claim(url)
    waiting = asyncio.ensure_future(pair_owner(a, CODE, ANA, answer))
    await asyncio.wait([waiting], timeout=0.02)
    await server.stop()
    with pytest.raises(SignalingUnavailable, match="start again"):
        await waiting


@pytest.mark.parametrize("after", [0, 0.02])
async def test_cancelling_frees_everything_and_tells_the_other_side(url: str, after: float) -> None:
    a, nameplate = await WebSocketMailbox.claim(url)
    b = await WebSocketMailbox.join(url, nameplate)
    never: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    pairing = [
        asyncio.ensure_future(pair_owner(a, CODE, ANA, answer)),
        asyncio.ensure_future(pair_scientist(b, CODE, BEN, never)),
    ]
    await asyncio.wait(pairing, timeout=after)
    pairing[1].cancel()
    await asyncio.wait([pairing[1]])
    assert pairing[1].cancelled()
    if not after:  # cancelled before its first step, it never had the mailbox
        await b.close("errory")
    with pytest.raises(LinkClosed):
        await pairing[0]


class Relay:
    """A malicious mailbox: hands every message through `change(role of the sender, number, message)`."""

    def __init__(self, change: Callable[[Role, int, bytes], list[bytes]]) -> None:
        self.owner, self._a = MemoryMailbox.pair()
        self._b, self.scientist = MemoryMailbox.pair()
        self._change = change
        self.seen: list[bytes] = []

    async def run(self) -> None:
        await asyncio.gather(
            self._pump(Role.OWNER, self._a, self._b), self._pump(Role.SCIENTIST, self._b, self._a)
        )

    async def _pump(self, role: Role, source: MemoryMailbox, target: MemoryMailbox) -> None:
        number = 0
        try:
            while True:
                message = await source.receive()
                self.seen.append(message)
                for changed in self._change(role, number, message):
                    await target.send(changed)
                number += 1
        except WrongCode:
            await target.close("wrong-code")
        except DuetError:
            await target.close("errory")


async def pair_through(change: Callable[[Role, int, bytes], list[bytes]]) -> list[Paired | BaseException]:
    relay = Relay(change)
    relaying = asyncio.ensure_future(relay.run())
    results = await both(
        pair_owner(relay.owner, CODE, ANA, answer, timeout_s=2),
        pair_scientist(relay.scientist, CODE, BEN, b"offer", timeout_s=2),
    )
    await relay.owner.close()
    await relay.scientist.close()
    await relaying
    assert all(b"offer" not in message and b"ana" not in message for message in relay.seen)
    return results


async def test_an_honest_relay_sees_nothing() -> None:
    assert all(
        isinstance(result, Paired) for result in await pair_through(lambda role, number, message: [message])
    )


@pytest.mark.parametrize(("role", "number"), [(Role.OWNER, 0), (Role.SCIENTIST, 0), (Role.OWNER, 1)])
@pytest.mark.parametrize(
    "change",
    [
        lambda message: message[:-1] + bytes([message[-1] ^ 1]),
        lambda message: message[:10] + bytes([message[10] ^ 1]) + message[11:],
        lambda message: message[:-1],
        lambda message: b"",
        lambda message: b"\xff" * 50,
        lambda message: bytes(70_000),
        lambda message: pb.Envelope(pake=b"A" * 33, sealed=b"x" * 40).SerializeToString(),
    ],
)
async def test_a_relay_that_alters_a_message_is_detected(
    role: Role, number: int, change: Callable[[bytes], bytes]
) -> None:
    def alter(sender: Role, count: int, message: bytes) -> list[bytes]:
        return [change(message)[: 64 * 1024]] if (sender, count) == (role, number) else [message]

    owner, scientist = await pair_through(alter)
    is_error(scientist, WrongCode)
    if (role, number) != (Role.OWNER, 1):
        is_error(owner, WrongCode)


async def both_ends(change: Callable[[Role, int, bytes], list[bytes]]) -> list[object]:
    """How it ends at both sides, where no connection comes about."""
    relay = Relay(change)
    relaying = asyncio.ensure_future(relay.run())

    async def owner() -> Paired:
        paired = await pair_owner(relay.owner, CODE, ANA, answer)
        await connected(relay.owner, CODE, asyncio.Event().wait())
        return paired

    results = await both(owner(), pair_scientist(relay.scientist, CODE, BEN, b"offer", timeout_s=0.5))
    await relay.owner.close()
    await relaying
    return list(results)


async def test_an_altered_answer_tells_both_sides_that_the_code_is_burnt() -> None:
    def alter(sender: Role, count: int, message: bytes) -> list[bytes]:
        return [message[:-1] + bytes([message[-1] ^ 1])] if (sender, count) == (Role.OWNER, 1) else [message]

    owner, scientist = await both_ends(alter)
    assert isinstance(owner, WrongCode)
    assert isinstance(scientist, WrongCode)
    assert "a message was altered on the way; the code is burnt" in str(owner)
    assert "altered on the way; the code is burnt" in str(scientist)


async def test_a_dropped_answer_is_told_as_one_at_both_sides() -> None:
    def drop(sender: Role, count: int, message: bytes) -> list[bytes]:
        return [] if (sender, count) == (Role.OWNER, 1) else [message]

    owner, scientist = await both_ends(drop)
    assert isinstance(owner, PeerUnreachable)
    assert "left before this side's answer arrived: it was lost on the way" in str(owner)
    assert isinstance(scientist, PairingTimeout)
    assert "no answer of the owner of code 7 came within 0.5 s" in str(scientist)


async def test_an_owner_that_leaves_while_its_answer_is_lost_is_not_said_to_have_closed_a_mailbox() -> None:
    a, b = MemoryMailbox.pair()
    await a.send(pb.Envelope(pake=KeyAgreement(CODE, Role.OWNER).message).SerializeToString())
    await a.close()
    with pytest.raises(PeerUnreachable, match="its answer was lost on the way"):
        await pair_scientist(b, CODE, BEN, b"offer")


async def test_a_connection_outlives_the_mailbox_that_it_came_from(url: str, server: MailboxServer) -> None:
    a, _ = await WebSocketMailbox.claim(url)
    came: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    waiting = asyncio.ensure_future(connected(a, CODE, came))
    await asyncio.wait([waiting], timeout=0.02)
    await server.stop()
    await asyncio.wait([waiting], timeout=0.1)
    came.set_result("a link")
    assert await waiting == "a link"


async def test_a_relay_that_reflects_or_repeats_is_detected() -> None:
    a, b = MemoryMailbox.pair()
    pairing = asyncio.ensure_future(pair_owner(a, CODE, ANA, answer))
    await b.send(await b.receive())  # the owner's own message
    with pytest.raises(WrongCode):
        await pairing

    def repeat(sender: Role, count: int, message: bytes) -> list[bytes]:
        return [message, message] if sender is Role.OWNER and count == 0 else [message]

    _, scientist = await pair_through(repeat)
    is_error(scientist, WrongCode)


async def test_a_relay_with_a_guess_of_its_own_gets_one_and_it_burns_the_code() -> None:
    a, b = MemoryMailbox.pair()
    pairing = asyncio.ensure_future(pair_owner(a, CODE, ANA, answer))
    theirs = pb.Envelope.FromString(await b.receive()).pake
    for _ in range(3):  # three guesses at once; only the first is looked at
        guess = KeyAgreement(WRONG, Role.SCIENTIST)
        sealed = guess.finish(theirs).seal(b"x")
        await b.send(pb.Envelope(pake=guess.message, sealed=sealed).SerializeToString())
    with pytest.raises(WrongCode, match="burnt"):
        await pairing
    with pytest.raises(WrongCode):
        await b.receive()
    with pytest.raises(LinkClosed):
        await a.receive()


@settings(max_examples=25, deadline=None)
@given(st.binary(max_size=200))
async def test_any_first_message_to_the_scientist_ends_in_wrong_code(message: bytes) -> None:
    a, b = MemoryMailbox.pair()
    await a.send(message)
    with pytest.raises(WrongCode):
        await pair_scientist(b, CODE, BEN, b"offer", timeout_s=5)


@given(st.binary(max_size=200))
def test_an_authenticated_peer_that_says_nonsense_is_a_remote_protocol_error(plain: bytes) -> None:
    mine, theirs = (SessionKey.from_secret(b"k" * 32, role) for role in Role)
    try:
        hello, _ = open_introduction(mine, theirs.seal(plain))
    except RemoteProtocolError:
        return
    assert hello.protocol_min >= 1


@pytest.mark.parametrize(
    "wire",
    [
        pb.Hello(),
        pb.Hello(protocol_min=2, protocol_max=1),
        pb.Hello(protocol_min=1, protocol_max=1, features=["x"] * 65),
        pb.Hello(protocol_min=1, protocol_max=1, features=["x" * 65]),
        pb.Hello(protocol_min=1, protocol_max=1, features=[""]),
        pb.Hello(protocol_min=1, protocol_max=1, relays=[pb.Relay(url="turn:127.0.0.1")]),
        pb.Hello(protocol_min=1, protocol_max=1, relays=[pb.Relay(url="turn:192.0.2.7")] * 9),
    ],
)
def test_a_hello_that_no_peer_may_send_is_refused(wire: pb.Hello) -> None:
    with pytest.raises(RemoteProtocolError, match="peer"):
        SignalingHello.from_wire(wire)


def test_texts_of_a_hello_are_cut_and_cleaned() -> None:
    hello = SignalingHello(1, 1, "1\n", "a\x1b[31m\u202eb" + "x" * 100)
    assert (hello.version, hello.name) == ("1", "a[31mb" + "x" * 58)
    assert SignalingHello.from_wire(hello.to_wire()) == hello
    with pytest.raises(LocalProtocolError):
        SignalingHello(0, 1, "1")


@given(*[st.tuples(st.integers(1, 9), st.integers(1, 9)).map(sorted)] * 2)
def test_negotiation_is_symmetric_and_takes_the_highest(mine: list[int], theirs: list[int]) -> None:
    a, b = SignalingHello(mine[0], mine[1], "a"), SignalingHello(theirs[0], theirs[1], "b")
    common = set(range(mine[0], mine[1] + 1)) & set(range(theirs[0], theirs[1] + 1))
    if common:
        assert negotiate(a, b) == negotiate(b, a) == (max(common), frozenset())
    else:
        for one, other in ((a, b), (b, a)):
            with pytest.raises(IncompatiblePeer):
                negotiate(one, other)

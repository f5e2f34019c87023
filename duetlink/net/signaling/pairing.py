"""The pairing exchange over any mailbox: two crossings once both sides are there.

    owner -> scientist   SPAKE2 message A                              waits in the mailbox
    scientist -> owner   SPAKE2 message B, sealed(hello, offer)        proves that it knows the words
    owner -> scientist   sealed(hello, answer)                         proves the same

Where the scientist has no TURN server and the owner lends one, two crossings come before the answer:

    owner -> scientist   sealed(hello with relays, nothing)
    scientist -> owner   sealed(hello, an offer that uses them)

The scientist leaves when it has opened the answer. So the owner keeps its end while the two connect, and
learns there if the answer was altered or lost.

The mailbox, the network and the other side are hostile until a sealed message opens. Each side runs SPAKE2
once and takes one message for it, so whoever stands between them has one guess, and a wrong one ends the
pairing.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from google.protobuf.message import DecodeError

from duetlink.base.wire.envelope import parsed
from duetlink.errors import (
    DuetError,
    IncompatiblePeer,
    LinkClosed,
    PairingTimeout,
    PeerUnreachable,
    WrongCode,
)
from duetlink.net.signaling import schema_pb2 as pb
from duetlink.net.signaling.base import MAX_MESSAGE_BYTES, Mailbox, Role
from duetlink.net.signaling.code import SessionCode
from duetlink.net.signaling.endings import OtherSideDone
from duetlink.net.signaling.hello import BORROWS, SignalingHello, negotiate
from duetlink.net.signaling.secret import KeyAgreement, SessionKey
from duetlink.settings import IceServer

SCIENTIST_TIMEOUT_S = 30.0
OWNER_TIMEOUT_S = 30.0  # once the scientist has come

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Paired:
    """What pairing gives: the shared key, who the peer says it is, its payload, and what both speak."""

    key: SessionKey
    hello: SignalingHello
    """the peer's"""
    payload: bytes = field(repr=False)
    """the scientist's offer, or the owner's answer"""
    protocol: int
    features: frozenset[str]


async def pair_owner(
    mailbox: Mailbox,
    code: SessionCode,
    hello: SignalingHello,
    answer: Callable[[SignalingHello, bytes], Awaitable[bytes]],
    timeout_s: float | None = None,
) -> Paired:
    """Wait for the scientist, check that they know the words, and send them what `answer(hello, offer)`
    returns.

    Raises WrongCode if somebody tried a wrong code (the mailbox is burnt), IncompatiblePeer, PairingTimeout
    if nobody has come within `timeout_s`, whatever the mailbox says, or it expires, RemoteProtocolError, and
    what the mailbox and `answer` raise. The mailbox stays open on success, for `connected`, and is closed on
    any failure, cancellation included.
    """
    try:
        async with _deadline(timeout_s, "no scientist came"):
            agreement = KeyAgreement(code, Role.OWNER)
            await mailbox.send(pb.Envelope(pake=agreement.message).SerializeToString())
            message = await mailbox.receive()
        async with _deadline(OWNER_TIMEOUT_S, "a scientist came, but pairing did not end"):
            envelope = _read_envelope(message)
            key = agreement.finish(envelope.pake)
            their_hello, offer = open_introduction(key, envelope.sealed)
            try:
                protocol, features = negotiate(hello, their_hello)
            except IncompatiblePeer:
                # the scientist finds the same from our hello
                await mailbox.send(_sealed_envelope(key, dataclasses.replace(hello, relays=()), b""))
                raise
            lends, hello = hello, dataclasses.replace(hello, relays=())
            if lends.relays and BORROWS in their_hello.features:
                await mailbox.send(_sealed_envelope(key, lends, b""))
                _, offer = open_introduction(key, _read_envelope(await mailbox.receive()).sealed)
            payload = await answer(their_hello, offer)
            await mailbox.send(_sealed_envelope(key, hello, payload))
            return Paired(key, their_hello, offer, protocol, features)
    except WrongCode:
        await mailbox.close("wrong-code")
        raise _burnt(code) from None
    except BaseException:
        await mailbox.close("errory")
        raise


async def connected(mailbox: Mailbox, code: SessionCode, connecting: Awaitable[T]) -> T:
    """The owner's last step: await `connecting`, unless the scientist leaves without having got the answer.

    Closes the mailbox.

    Raises:
        WrongCode: the answer was altered on the way; the code is burnt.
        PeerUnreachable: it was lost on the way, or the scientist has given up.
        What `connecting` raises.
    """
    trying, taken = asyncio.ensure_future(connecting), asyncio.ensure_future(_taken(mailbox, code))
    try:
        await asyncio.wait((trying, taken), return_when=asyncio.FIRST_COMPLETED)
        if not trying.done():
            await taken
        result = await trying
    except BaseException:
        await mailbox.close("errory")
        raise
    finally:
        for task in (trying, taken):
            task.cancel()
        await asyncio.gather(trying, taken, return_exceptions=True)
    await mailbox.close()
    return result


async def _taken(mailbox: Mailbox, code: SessionCode) -> None:
    """Wait until the scientist has left with the answer, or nothing more can be heard of it."""
    try:
        while True:
            await mailbox.receive()  # there is nothing left that it could say
    except OtherSideDone:
        return
    except WrongCode:
        raise _burnt(code) from None
    except LinkClosed:
        raise PeerUnreachable(
            f"somebody who knows code {code.nameplate} came, and left before they had this side's answer: it "
            "was lost on the way, or they gave up; launch() a new code"
        ) from None
    except DuetError:  # the server's end of it is over; connecting does not need it
        return


def _burnt(code: SessionCode) -> WrongCode:
    return WrongCode(
        f"somebody tried a wrong code for {code.nameplate}, or altered a message on the way; the code is "
        "burnt: run launch() for a new one"
    )


async def pair_scientist(
    mailbox: Mailbox,
    code: SessionCode,
    hello: SignalingHello,
    offer: bytes | Awaitable[bytes],
    timeout_s: float | None = SCIENTIST_TIMEOUT_S,
    borrow: Callable[[tuple[IceServer, ...]], Awaitable[bytes]] | None = None,
) -> Paired:
    """Prove to the owner that this side knows the words, send the offer, and return the owner's answer.

    An awaitable `offer` runs while the owner's message is on its way and is cancelled on failure. `borrow`
    makes another one with TURN servers that the owner lends; it is called once at most, and only if `hello`
    has the feature `BORROWS`. Raises
    WrongCode (the code is burnt), IncompatiblePeer, PairingTimeout after `timeout_s`, PeerUnreachable where
    the owner has left and its answer has not come, RemoteProtocolError, and what the mailbox and `offer`
    raise. The mailbox stays open on success and is closed on any failure,
    cancellation included.
    """
    offering = asyncio.ensure_future(_value(offer))
    try:
        async with _deadline(timeout_s, f"no answer of the owner of code {code.nameplate} came"):
            agreement = KeyAgreement(code, Role.SCIENTIST)
            key = agreement.finish(_read_envelope(await mailbox.receive()).pake)
            await mailbox.send(_sealed_envelope(key, hello, await offering, agreement.message))
            their_hello, answer = open_introduction(key, _read_envelope(await mailbox.receive()).sealed)
            protocol, features = negotiate(hello, their_hello)
            if borrow is not None and their_hello.relays and not answer:
                offer = await borrow(their_hello.relays)
                await mailbox.send(_sealed_envelope(key, hello, offer))
                _, answer = open_introduction(key, _read_envelope(await mailbox.receive()).sealed)
            return Paired(key, their_hello, answer, protocol, features)
    except WrongCode:
        await mailbox.close("wrong-code")
        raise WrongCode(
            f"the words do not match those of code {code.nameplate}, or a message was altered on the way; "
            "the code is burnt: ask the owner for a new one"
        ) from None
    except OtherSideDone:
        await mailbox.close("errory")
        raise PeerUnreachable(
            f"the owner of code {code.nameplate} has left, and its answer was lost on the way; ask the owner "
            "for a new code"
        ) from None
    except BaseException:
        await mailbox.close("errory")
        raise
    finally:
        offering.cancel()
        await asyncio.gather(offering, return_exceptions=True)


def seal_introduction(key: SessionKey, hello: SignalingHello, payload: bytes) -> bytes:
    """A hello and a payload, sealed."""
    return key.seal(pb.Introduction(hello=hello.to_wire(), payload=payload).SerializeToString())


def open_introduction(key: SessionKey, sealed: bytes) -> tuple[SignalingHello, bytes]:
    """Raises WrongCode if it does not open, RemoteProtocolError if the authenticated peer put nonsense in."""
    introduction = parsed(pb.Introduction, key.open(sealed), "the peer's introduction cannot be read")
    return SignalingHello.from_wire(introduction.hello), introduction.payload


def _sealed_envelope(key: SessionKey, hello: SignalingHello, payload: bytes, pake: bytes = b"") -> bytes:
    return pb.Envelope(pake=pake, sealed=seal_introduction(key, hello, payload)).SerializeToString()


def _read_envelope(data: bytes) -> pb.Envelope:
    """Raises WrongCode: nobody who knows the words sends what this cannot read."""
    if len(data) > MAX_MESSAGE_BYTES:
        raise WrongCode(f"a pairing message of {len(data)} bytes")
    try:
        return pb.Envelope.FromString(data)
    except DecodeError:
        raise WrongCode("the pairing message cannot be read") from None


async def _value(offer: bytes | Awaitable[bytes]) -> bytes:
    return offer if isinstance(offer, bytes) else await offer


@contextlib.asynccontextmanager
async def _deadline(timeout_s: float | None, what: str) -> AsyncIterator[None]:
    """`asyncio.timeout` that raises PairingTimeout, and leaves a TimeoutError of the body alone."""
    timeout = asyncio.timeout(timeout_s)
    try:
        async with timeout:
            yield
    except TimeoutError:
        if not timeout.expired():
            raise
        raise PairingTimeout(f"{what} within {timeout_s:g} s; the owner has to launch() a new code") from None

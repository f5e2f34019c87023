"""The arguments of a function that is sent to the owner: mocks for the run here, inputs for the run there."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duetlink.base.wire import schema_pb2 as pb
from duetlink.compute.operations import function
from duetlink.compute.operations.canonical import Program
from duetlink.compute.operations.steps.program import MAX_DEPTH
from duetlink.compute.privacy.claim import Claim
from duetlink.data import values
from duetlink.data.values.base import Summary
from duetlink.duet.asking.pointers.pointer import Pointer
from duetlink.duet.asking.recording.program import PLAIN, is_remote
from duetlink.duet.objects import program_body
from duetlink.duet.objects.preview import preview_text
from duetlink.errors import OperationRefused, SettingError, UnsupportedValue
from duetlink.net.flight.body import Outgoing
from duetlink.net.link.link import Link

if TYPE_CHECKING:
    from duetlink.duet.asking.mocks.rehearsal import ShownResult
    from duetlink.duet.asking.pointers.remote_session import RemoteSession

MAX_VALUE_BYTES = 64 * 1024 * 1024  # largest argument that is a value of this side
_INLINE_BYTES = 256 * 1024  # largest value inside the message; the owner pulls larger ones
_MOST_INLINE_BYTES = 4 * 1024 * 1024  # all values inside one message
_MAX_TEXT = 1_000  # characters of a text inside the call's JSON; longer texts are sent as values
_MAX_MOCK_TEXT = 2_000  # characters of the mock's repr that the owner sees
_MOST_ITEMS = 100  # items of a container inside the call's JSON; larger ones are sent as values


@dataclass(frozen=True, slots=True)
class Value:
    """An encoded copy of a value of this side, made when the function was called."""

    body: bytes
    summary: Summary


class Arguments:
    """Splits arguments into a call in JSON, and a list of inputs that the call refers to by number.

    An input is a pointer to an asset, a program that makes a result, or a value. Example: `f(frame, k=3)`
    becomes the call `[[[0]],{"k":3}]`, in which `[0]` stands for input 0, the asset `frame`.
    """

    def __init__(self, remote_session: RemoteSession) -> None:
        self._remote_session = remote_session
        self.inputs: list[Any] = []
        self.shown: list[ShownResult] = []
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._kept: list[Any] = []  # keeps the objects alive, since `_numbers` has their `id()`

    def take(self, argument: Any) -> Any:
        """Return the JSON form of an argument, and add the inputs that it needs.

        Raises SettingError, OperationRefused.
        """
        kind = type(argument)
        if kind in PLAIN and not (kind is str and len(argument) > _MAX_TEXT):
            if kind is int and abs(argument) >= 1 << 256:
                return self._value(argument)
            return argument
        if is_remote(argument):
            return self._pointer(argument)
        if kind is complex:
            return ["z", argument.real, argument.imag]
        if argument is Ellipsis:
            return ["e"]
        if kind is slice:
            return ["s", *map(self.take, (argument.start, argument.stop, argument.step))]
        if kind in (tuple, list, dict) and (len(argument) <= _MOST_ITEMS or _has_pointers(argument, 0)):
            if kind is dict:
                return ["d", *(self.take(part) for pair in argument.items() for part in pair)]
            return ["t" if kind is tuple else "l", *map(self.take, argument)]
        return self._value(argument)

    def _pointer(self, pointer: Any) -> list[int]:
        if isinstance(pointer, Pointer):
            if pointer._remote_session is not self._remote_session:
                raise OperationRefused(
                    f"{pointer!r} belongs to another duet; what two owners have meets here, after get()"
                )
            return self._input(pointer, ("asset", pointer._info.name, pointer._info.revision))
        if pointer._program is not self._remote_session.program():
            raise OperationRefused(f"{pointer!r} belongs to another duet")
        program = pointer._program.program_of(pointer._id)
        if ("result", program.digest) not in self._numbers:
            shown = self._remote_session.shown(pointer, program)
            self.shown += [] if shown is None else [shown]
        return self._input(program, ("result", program.digest))

    def _value(self, obj: Any) -> list[int]:
        if callable(obj):
            raise SettingError(
                f"a function, {getattr(obj, '__name__', obj)}, is no argument; define it inside"
            )
        known = self._numbers.get(("value", id(obj)))
        if known is not None:
            return [known]
        try:
            encoded = values.encode(obj)
        except UnsupportedValue as error:
            raise SettingError(f"a {type(obj).__name__} cannot be an argument: {error}") from error
        if encoded.size_bytes > MAX_VALUE_BYTES:
            raise SettingError(
                f"an argument of {encoded.size_bytes:,} bytes is over {MAX_VALUE_BYTES:,}; give it to the "
                "owner with duet.send, who can share it"
            )
        self._kept.append(obj)
        # copied: the object may change before it leaves
        return self._input(Value(b"".join(encoded.segments), encoded.summary), ("value", id(obj)))

    def _input(self, what: Any, key: tuple[Any, ...]) -> list[int]:
        if key not in self._numbers:
            if len(self.inputs) >= function.MAX_INPUTS:
                raise SettingError(
                    f"a function has at most {function.MAX_INPUTS} inputs; give it a list of plain values"
                )
            self._numbers[key] = len(self.inputs)
            self.inputs.append(what)
        return [self._numbers[key]]


@dataclass(frozen=True, slots=True)
class Submission:
    """A function with its arguments, ready to be sent."""

    name: str
    source: str
    call: bytes
    inputs: tuple[Any, ...]
    mock: Any
    claim: Claim | None = None
    shown: tuple[ShownResult, ...] = ()  # the session's mocks of the results among its inputs

    @contextlib.asynccontextmanager
    async def offered(self, link: Link) -> AsyncIterator[pb.Job]:
        """Give the message to send. Offers of values that the peer has not fetched end with the block."""
        summary = values.summarise(self.mock)
        sent = pb.Job(
            name=self.name,
            source=self.source,
            call=self.call,
            mock_kind=summary.kind,
            mock_detail=summary.detail,
            mock_text=_text(self.mock),
        )
        if self.claim is not None:
            sent.epsilon, sent.delta = self.claim.epsilon, self.claim.delta
        offers: list[pb.TransferOffer] = []
        inline_bytes = 0
        stack = contextlib.AsyncExitStack()
        try:
            for input_ in self.inputs:
                part = sent.inputs.add()
                if isinstance(input_, Pointer):
                    part.asset.name, part.asset.revision = input_._info.name, input_._info.revision
                elif isinstance(input_, Program):
                    part.program.CopyFrom(await stack.enter_async_context(program_body.offered(link, input_)))
                else:
                    part.value.kind, part.value.detail = input_.summary.kind, input_.summary.detail
                    inline_bytes += len(input_.body)
                    if len(input_.body) <= _INLINE_BYTES and inline_bytes <= _MOST_INLINE_BYTES:
                        part.value.body = input_.body
                        continue
                    outgoing = await asyncio.to_thread(Outgoing, [memoryview(input_.body)], len(input_.body))
                    best = link.path_selector.best
                    offers.append(await link.exports.offer("argument", outgoing, best.name if best else ""))
                    part.value.offer.CopyFrom(offers[-1])
            yield sent
        finally:
            await stack.aclose()
            for offer in offers:
                link.exports.withdraw(offer)


def mocks_of(argument: Any) -> Any:
    """Replace pointers by copies of their mocks and values by copies, so that a function may change them."""
    kind = type(argument)
    if kind in PLAIN:
        return argument
    if isinstance(argument, Pointer):
        return _copied(argument._remote_session.mock(argument._info))
    if is_remote(argument):
        return _copied(argument.mock)
    if kind in (tuple, list):
        return kind(map(mocks_of, argument))
    if kind is dict:
        return {key: mocks_of(item) for key, item in argument.items()}
    return _copied(argument)


def _copied(obj: Any) -> Any:
    try:
        return copy.deepcopy(obj)
    except Exception:  # the object of a library cannot be copied
        return obj


def _has_pointers(argument: Any, depth: int) -> bool:
    if depth > MAX_DEPTH:
        return False
    parts: Any = argument
    if type(argument) is dict:
        parts = [part for pair in argument.items() for part in pair]
    elif type(argument) not in (tuple, list):
        return is_remote(argument)
    return any(_has_pointers(part, depth + 1) for part in parts)


def _text(mock: Any) -> str:
    return preview_text(mock)[:_MAX_MOCK_TEXT]


def written(taken: Arguments, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> bytes:
    """Return the call as JSON bytes, and collect its inputs in `taken`.

    Raises:
        SettingError: the call is too long, or an argument cannot be sent.
    """
    call = function.write_call(
        list(map(taken.take, arguments)), {key: taken.take(item) for key, item in keywords.items()}
    )
    if len(call) > function.MAX_CALL_BYTES:
        raise SettingError(
            f"arguments of {len(call):,} bytes are over {function.MAX_CALL_BYTES:,}; put them into an array"
        )
    function.parse_call(call, len(taken.inputs))
    return call

"""The keys and values of a `GroupStore` at its keeper, and the messages by which the others query it.

A question is one message with the head `op u8 | number u32 | patience f64`; its body has the fields, each as
`size u32 | bytes`. The answer has the head `failed u8 | number u32`; its body is the value, or the text of
the error. All numbers are little-endian.
"""

from __future__ import annotations

import asyncio
import enum
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from duetlink.errors import GroupError, LimitExceeded, RemoteProtocolError
from duetlink.net.streams.frames import Message

# torch itself uses a few hundred keys of at most some kilobytes. The limits keep a member from filling the
# keeper's memory.
MOST_VALUE_BYTES = 8 * 1024 * 1024
MOST_HELD_BYTES = 64 * 1024 * 1024
MOST_KEYS_BYTES = 64 * 1024  # keys in one question that may wait for them
_KEY_COST_BYTES = 100  # memory for a key in addition to its characters
_MOST_FIELDS = 1024

_QUESTION = struct.Struct("<BId")
_ANSWER = struct.Struct("<BI")
_SIZE = struct.Struct("<I")


class Op(enum.IntEnum):
    """The operations of a store. Comments give the fields of the question, and the answer after an arrow."""

    SET = 1  # key, value
    GET = 2  # key -> its value, as soon as it is set
    ADD = 3  # key, number in ASCII -> the sum
    COMPARE_SET = 4  # key, expected, desired -> the value afterwards
    CHECK = 5  # keys -> 1 if all are set, else 0
    WAIT = 6  # keys -> empty, as soon as all are set
    DELETE = 7  # key -> 1 if it was set, else 0
    COUNT = 8  # -> the number of keys


_COUNTS = {Op.SET: 2, Op.GET: 1, Op.ADD: 2, Op.COMPARE_SET: 3, Op.DELETE: 1, Op.COUNT: 0}


@dataclass(frozen=True, slots=True)
class Question:
    op: Op
    number: int  # chosen by the member that asks; its answer carries the same number
    patience_s: float
    fields: tuple[bytes, ...]

    def to_wire(self) -> tuple[bytes, bytes]:
        """Return the head and the body of the message."""
        body = b"".join(_SIZE.pack(len(field)) + field for field in self.fields)
        return _QUESTION.pack(self.op, self.number, self.patience_s), body

    @classmethod
    def from_wire(cls, message: Message) -> Question:
        """Parse a question. Raises RemoteProtocolError, or LimitExceeded if it is too large."""
        head, body = message.head, message.body.cast("B")
        if len(head) != _QUESTION.size or len(body) > MOST_VALUE_BYTES:
            raise LimitExceeded(f"a question to a store has {len(head)} and {len(body)} bytes")
        op, number, patience_s = _QUESTION.unpack(head)
        fields: list[bytes] = []
        at = 0
        while at < len(body):
            if len(fields) == _MOST_FIELDS or len(body) - at < _SIZE.size:
                raise RemoteProtocolError(
                    f"a question to a store is malformed after {len(fields)} fields: at most {_MOST_FIELDS}"
                )
            (size,) = _SIZE.unpack_from(body, at)
            at += _SIZE.size
            if size > len(body) - at:
                raise RemoteProtocolError(f"a field has {size} bytes, of which {len(body) - at} were sent")
            fields.append(bytes(body[at : at + size]))
            at += size
        if op in (Op.GET, Op.CHECK, Op.WAIT) and len(body) > MOST_KEYS_BYTES:
            raise LimitExceeded(f"a question to a store has {len(body)} bytes of keys")
        if op not in list(Op) or len(fields) != _COUNTS.get(Op(op), len(fields)) or math.isnan(patience_s):
            raise RemoteProtocolError(f"a question {op} to a store has {len(fields)} fields")
        return cls(Op(op), number, patience_s, tuple(fields))


def answer_to_wire(number: int, value: bytes, *, failed: bool) -> tuple[bytes, bytes]:
    """Return the head and the body of the message."""
    return _ANSWER.pack(failed, number), value


def answer_from_wire(message: Message) -> tuple[int, bytes, bool]:
    """Return the question's number, the value or the error's text, and True if it is an error.

    Raises LimitExceeded, which is a RemoteProtocolError, for a malformed answer.
    """
    if len(message.head) != _ANSWER.size or message.body.nbytes > MOST_VALUE_BYTES:
        raise LimitExceeded(f"a store answered with {len(message.head)} and {message.body.nbytes} bytes")
    failed, number = _ANSWER.unpack(message.head)
    return number, bytes(message.body), bool(failed)


class StoreContents:
    """The keys and values of a store, both bytes. Used on the loop thread."""

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}
        self._held_bytes = 0
        self._changed = asyncio.Event()

    async def answer(self, op: Op, fields: Sequence[bytes], patience_s: float) -> bytes:
        """Perform an operation, and return its answer.

        Raises GroupError if a key is not set within `patience_s`, a value is not a number, or the store is
        full.
        """
        match op:
            case Op.SET:
                self._put(fields[0], fields[1])
                return b""
            case Op.GET:
                await self._wait(fields, patience_s)
                return self._values[fields[0]]
            case Op.ADD:
                return self._add(fields[0], fields[1])
            case Op.COMPARE_SET:
                return self._compare_set(*fields)
            case Op.CHECK:
                return b"%d" % all(key in self._values for key in fields)
            case Op.WAIT:
                await self._wait(fields, patience_s)
                return b""
            case Op.DELETE:
                return b"%d" % self._delete(fields[0])
            case Op.COUNT:
                return b"%d" % len(self._values)

    def _add(self, key: bytes, by: bytes) -> bytes:
        try:
            total = b"%d" % (int(self._values.get(key, b"0")) + int(by))
        except ValueError:  # not a number, or one with more digits than Python converts
            raise GroupError(f"{_shown(key)} holds no number, so nothing can be added to it") from None
        self._put(key, total)
        return total

    def _compare_set(self, key: bytes, expected: bytes, desired: bytes) -> bytes:
        found = self._values.get(key)
        if found == expected or (found is None and not expected):
            self._put(key, desired)
            return desired
        return expected if found is None else found

    def _put(self, key: bytes, value: bytes) -> None:
        before = len(self._values[key]) if key in self._values else -len(key) - _KEY_COST_BYTES
        if self._held_bytes + len(value) - before > MOST_HELD_BYTES:
            raise GroupError(f"the store has no room for {_shown(key)}: it holds {self._held_bytes} bytes")
        self._held_bytes += len(value) - before
        self._values[key] = value
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _delete(self, key: bytes) -> bool:
        value = self._values.pop(key, None)
        if value is not None:
            self._held_bytes -= len(value) + len(key) + _KEY_COST_BYTES
        return value is not None

    async def _wait(self, keys: Sequence[bytes], patience_s: float) -> None:
        try:
            async with asyncio.timeout(patience_s):
                while not all(key in self._values for key in keys):
                    await self._changed.wait()
        except TimeoutError:
            missing = [_shown(key) for key in keys if key not in self._values]
            raise GroupError(
                f"Timed out after {patience_s:g} s: no rank has set {', '.join(missing)}"
            ) from None


def _shown(key: bytes) -> str:
    return repr(key.decode("utf-8", "replace")[:200])

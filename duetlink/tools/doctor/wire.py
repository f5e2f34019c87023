"""STUN questions and answers (RFC 8489): matched, bounded in time, trusting nothing.

An answer counts if it carries the transaction id of a question that is open, 96 random bits, and comes from
where the question went. Whatever else arrives is dropped, or handed to `on_other`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from aioice import stun

from duetlink.tools.doctor.message import HEADER_BYTES, Address, read_message

ASK_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class Answer:
    """`round_trip_s` from the first sending; exact only where `sendings` is 1."""

    message: stun.Message
    source: Address
    round_trip_s: float
    sendings: int


@dataclass(slots=True)
class _Question:
    answered: asyncio.Future[tuple[stun.Message, Address]]
    source: Address | None  # None: from anywhere


class Wire(ABC):
    """One socket to ask by. Belongs to the loop it was opened on; `close` it."""

    # RFC 8489 §6.2.1 for UDP; a stream sends once
    pauses_s: ClassVar[tuple[float, ...]]

    def __init__(self) -> None:
        self._open: dict[bytes, _Question] = {}
        self._broken: OSError | None = None
        self.on_other: Callable[[stun.Message], None] | None = None

    @abstractmethod
    def send(self, data: bytes, to: Address) -> None:
        """Send one message, or drop it where that is not possible."""

    @abstractmethod
    def close(self) -> None:
        """Free the socket. Again is harmless."""

    async def ask(
        self, request: bytes, to: Address, timeout_s: float | None = None, *, from_anywhere: bool = False
    ) -> Answer:
        """Send `request`, again where an answer is late, and return the answer.

        Raises:
            TimeoutError: none within `timeout_s`, or ASK_TIMEOUT_S.
            OSError: the network says that none will come.
        """
        if self._broken is not None:
            raise self._broken
        identifier = request[8:HEADER_BYTES]
        answered = asyncio.get_running_loop().create_future()
        self._open[identifier] = _Question(answered, None if from_anywhere else to)
        started_s, sendings = time.monotonic(), 0
        try:
            async with asyncio.timeout(ASK_TIMEOUT_S if timeout_s is None else timeout_s):
                while True:
                    self.send(request, to)
                    pause_s = self.pauses_s[min(sendings, len(self.pauses_s) - 1)]
                    sendings += 1
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(pause_s):
                            message, source = await asyncio.shield(answered)
                        return Answer(message, source, time.monotonic() - started_s, sendings)
        finally:
            del self._open[identifier]
            answered.cancel()

    def _arrived(self, data: bytes, source: Address) -> None:
        message = read_message(data)
        if message is None:
            return
        question = self._open.get(message.transaction_id)
        is_answer = message.message_class in (stun.Class.RESPONSE, stun.Class.ERROR)
        if question is None or not is_answer:
            if self.on_other is not None:
                self.on_other(message)
        elif question.source in (None, source) and not question.answered.done():
            question.answered.set_result((message, source))

    def _fail(self, error: OSError) -> None:
        self._broken = error
        for question in self._open.values():
            if not question.answered.done():
                question.answered.set_exception(error)

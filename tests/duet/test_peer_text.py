"""Attributes that people print and that hold words of the peer's: none of them is a command to a terminal."""

from __future__ import annotations

import datetime
import json
import unicodedata
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from duetlink.base.wire import failures
from duetlink.base.wire import schema_pb2 as pb
from duetlink.base.wire.text import harmless, harmless_lines
from duetlink.compute.operations.function import FunctionCall
from duetlink.compute.worker.protocol import answers
from duetlink.compute.worker.protocol.faults import Fault
from duetlink.compute.worker.protocol.memory import close_all, place
from duetlink.data import values
from duetlink.duet.answering.failure import Failure
from duetlink.duet.answering.incoming import Incoming
from duetlink.duet.answering.job import FunctionJob, mock_words
from duetlink.duet.answering.requests import Request
from duetlink.duet.asking.pointers.pointer import Described, ReceivedObject
from duetlink.duet.objects.asset import AssetInfo
from duetlink.duet.objects.catalogue import Received
from duetlink.duet.objects.job_log import JobLog, LogLines
from duetlink.errors import RequestDenied
from duetlink.net.link.transfer import Transfer

HOSTILE = "a\x1b[2J\u202eb\u2028c\rd\x07e\x9bf"
SHOWN = r"a\x1b[2J\u202eb\u2028c\rd\x07e\x9bf"


def described() -> Described:
    notice = pb.AssetNotice(
        name=HOSTILE,
        revision=1,
        kind=HOSTILE,
        detail=HOSTILE,
        description=f"{HOSTILE}\n{HOSTILE}",
        tags=[HOSTILE],
        lossy=HOSTILE,
        mock=HOSTILE,
        budget=HOSTILE,
    )
    return ReceivedObject(Received(AssetInfo.from_wire(notice), None, 0))


def request() -> Request:
    log = JobLog()
    log.add([HOSTILE])
    info = AssetInfo("f()", 0, "", "", 0)
    mock = mock_words(HOSTILE, HOSTILE, HOSTILE)
    job = FunctionJob(info, "f", "", FunctionCall([], {}), (), mock=mock, log=log)
    job.failure = Failure("Exception", 0, HOSTILE, f"{HOSTILE}\n{HOSTILE}\n")
    now = datetime.datetime.now(datetime.UTC)
    incoming = Incoming(0, job.info, None, HOSTILE, f"{HOSTILE}\n{HOSTILE}", now, None, (), job=job)
    nothing: Any = SimpleNamespace()
    return Request(incoming, nothing, nothing)


def told() -> Any:
    """What the kernel knows of a result whose worker has been taken over."""
    encoded = values.encode(np.zeros(1))
    answer, fds = answers.result(encoded, 1)
    close_all(fds)
    content = json.loads(answer)
    fd = place(encoded.segments, encoded.size_bytes)
    content |= {"kind": HOSTILE, "detail": HOSTILE}
    read = answers.read_result(json.dumps(content).encode(), [fd])
    assert not isinstance(read, Fault)
    return read[0].summary


def denied() -> RequestDenied:
    error = failures.from_wire(pb.Failure(kind=pb.Failure.DENIED, text=HOSTILE, reason=HOSTILE))
    assert isinstance(error, RequestDenied)
    return error


PRINTED: dict[str, Callable[[], str]] = {
    "an object's name": lambda: described().name,
    "an object's type": lambda: described().kind,
    "an object's shape": lambda: described().detail,
    "an object's description": lambda: described().description,
    "an object's tags": lambda: "\n".join(described().tags),
    "how it is lossy": lambda: described().lossy,
    "its budget": lambda: described().budget,
    "its mock": lambda: described().mock_words,
    "a request's peer": lambda: request().peer,
    "a request's reason": lambda: request().reason,
    "what came of mocks": lambda: request().mock_result,
    "what a function printed": lambda: "\n".join(request().log),
    "what a function printed, as a whole": lambda: str(request().log),
    "a request": lambda: repr(request()),
    "lines of a log": lambda: str(LogLines([HOSTILE])),
    "a result's type, as the room says": lambda: told().kind,
    "a result's shape, as the room says": lambda: told().detail,
    "a transfer's name": lambda: Transfer(HOSTILE, "in", 1).status().name,
    "a failure": lambda: str(failures.from_wire(pb.Failure(kind=pb.Failure.NOT_FOUND, text=HOSTILE))),
    "a failure of another kind": lambda: str(failures.from_wire(pb.Failure(text=HOSTILE))),
    "a denial": lambda: str(denied()),
    "the reason of a denial": lambda: denied().reason,
}


@pytest.mark.parametrize("name", PRINTED)
def test_what_people_print_of_the_peers_words_is_harmless(name: str) -> None:
    printed = PRINTED[name]()
    assert SHOWN in printed
    assert all(unicodedata.category(letter)[0] not in "C" or letter == "\n" for letter in printed)


def test_what_is_harmless_stays_as_it_is() -> None:
    for text in ("für Ärzte in Tōkyō", "\u05d0\u05d1", "λ ≤ 3 — “so”", ""):
        assert harmless(text) == text
    assert harmless("two\nlines") == r"two\nlines"
    assert harmless_lines("two\n\tlines") == "two\n    lines"
    assert harmless(SHOWN) == SHOWN

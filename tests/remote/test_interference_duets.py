"""The same over real links: every message that two scientists get from two owners, byte by byte."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace

import pytest
from google.protobuf.message import Message

from duetlink.base.wire import schema_pb2 as pb
from duetlink.compute.operations.steps.effects import worst_effect
from duetlink.compute.operations.steps.trace import Trace
from duetlink.duet.answering import programs
from duetlink.duet.answering.requests import Request
from duetlink.errors import DuetError
from duetlink.testing.faults import incoming_of, replace_function
from tests.conftest import MakeDuets
from tests.remote.hostile import Attacker, Step
from tests.remote.interference import ASSETS, OPENED, Program, Writer, data

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the other tests of this kind need Linux"),
]

PROGRAMS = 30
# what a link says of itself, whatever the peer asks for
_OF_THE_LINK = (pb.Ping, pb.Done, pb.PathSpeed, pb.TunerDecision, pb.CodecWanted, pb.TransferEnd)
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")  # of an object, in a library's words

Heard = list[tuple[str, bytes]]


class Tap(Attacker):
    """A hostile scientist, and all that it has been sent. Its owner lets out what names no asset."""

    def __init__(self, make_duets: MakeDuets, number: int) -> None:
        with pytest.MonkeyPatch.context() as patch:  # of draws, the salt differs from duet to duet
            patch.setattr(programs, "secrets", SimpleNamespace(token_hex=lambda size_bytes: "00"))
            owner, scientist = make_duets(worker_timeout_s=20.0)
        for name, value in data(number).items():
            owner.share(value, name, mock="auto")
            scientist.wait_object(name, 10)
        super().__init__(owner, scientist)
        self.owner = owner
        self.heard: Heard = []

        def tapped(envelope: pb.Envelope, body: Message) -> None:
            self._put_down(body)
            dispatch(envelope, body)

        def tapped_reply(call_id: int, body: Message) -> None:
            self._put_down(body)
            reply(call_id, body)

        patch = pytest.MonkeyPatch()  # for as long as this link is there
        dispatch = replace_function(patch, self.rpc, "dispatch", tapped)
        reply = replace_function(patch, self.rpc, "reply", tapped_reply)

    def _put_down(self, body: Message) -> None:
        if not isinstance(body, _OF_THE_LINK):
            self.heard.append((type(body).__name__, _content(body)))

    def asked(self, program: Program) -> list[bytes]:
        """Ask for all results of a program. Returns the numbers of the questions that wait."""
        self._trace = Trace(worst_effect, may_learn=False)
        opened = [[id_, "asset", [name, 1]] for id_, name in zip(OPENED, ASSETS, strict=True)]
        self.record(*opened, *program.steps)
        waiting = []
        for result in program.asked:
            try:
                answer = self.ask(result)
            except (LookupError, DuetError):  # malformed: it is refused here, or there
                continue
            assert answer.state == pb.Answer.PENDING
            waiting.append(answer.request_id)
        return waiting

    def answer(self, number: bytes) -> str:
        """Let out what was made, or why it was not, where it names no asset. Returns what was told."""
        for request in self.owner.requests.pending:
            if number in incoming_of(request).waiting:  # the number is the scientist's, and no owner sees it
                return _answered(request)
        return "with another"  # which was for the same program


def _answered(request: Request) -> str:
    assert request.lineage is not None
    if request.lineage.assets:
        request.deny("it is of somebody")
        return "denied"
    if request.failure:
        request.fail("message")
        return "failed"
    request.approve()
    return "approved"


def _content(body: Message) -> bytes:
    """A message without what each side draws for itself, and without times."""
    if isinstance(body, pb.Answer):
        told = pb.Answer()
        told.CopyFrom(body)
        told.ClearField("request_id")
        told.reason = _ADDRESS.sub("0x", told.reason)
        if told.HasField("offer"):
            for name in ("transfer_id", "ticket", "elapsed_us"):
                told.offer.ClearField(name)
        body = told
    return body.SerializeToString(deterministic=True)


def test_two_scientists_cannot_tell_their_owners_apart(make_duets: MakeDuets) -> None:
    taps = [Tap(make_duets, number) for number in (0, 1)]
    told: list[str] = []
    for seed in range(PROGRAMS):
        program = Writer(seed, 1_000).program()
        for tap in taps:
            tap.heard.clear()
        first, second = (tap.asked(program) for tap in taps)
        assert taps[0].heard == taps[1].heard, (seed, program)  # also where it has failed at one alone
        assert {kind for kind, _ in taps[0].heard} <= {"Answer", "Failure"}
        for number, other in zip(first, second, strict=True):
            for tap in taps:
                tap.heard.clear()
            answers = [tap.answer(asked) for tap, asked in zip(taps, (number, other), strict=True)]
            for tap, asked in zip(taps, (number, other), strict=True):
                tap.settled(asked)
            assert answers[0] == answers[1], (seed, program)
            assert taps[0].heard == taps[1].heard, (seed, program)
            told.append(answers[0])
    assert len(told) > PROGRAMS
    for outcome in ("approved", "failed", "denied"):
        assert told.count(outcome) > 2, (outcome, told)


def test_a_difference_that_is_told_is_heard(make_duets: MakeDuets) -> None:
    """One program whose step fails by a bit of a private number, and an owner who tells."""
    taps = [Tap(make_duets, number) for number in (0, 1)]
    bit: list[Step] = [
        [1_001, "operator.and_", [[OPENED[ASSETS.index("number")]], 1]],
        [1_002, "operator.getitem", [["l", 0], [1_001]]],
    ]
    heard = []
    for tap in taps:
        tap.heard.clear()
        (waiting,) = tap.asked(Program(bit, [1_002]))
        assert [kind for kind, _ in tap.heard] == ["Answer"]
        heard.append(tap.heard[:])
        tap.heard.clear()
        request = tap.owner.requests[-1]
        if request.failure:
            request.fail("that")
        else:
            request.approve()
        tap.settled(waiting)
    assert heard[0] == heard[1]
    assert taps[0].heard != taps[1].heard

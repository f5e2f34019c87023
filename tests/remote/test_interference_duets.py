"""The same over real links: every message that two scientists get from two owners, byte by byte."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import pytest
from google.protobuf.message import Message

from duetlink.base.wire import schema_pb2 as pb
from duetlink.duet.answering import workplace
from duetlink.duet.answering.policies.policy import Policy
from duetlink.errors import OperationFailed, RequestDenied
from tests.conftest import MakeDuets
from tests.remote.hostile import Attacker
from tests.remote.interference import ASSETS, Program, Writer, data

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="a worker needs Linux"),
]

PROGRAMS = 150  # for each of the two details
# what a link says of itself, whatever the peer's steps are
_OF_THE_LINK = (pb.Ping, pb.Done, pb.PathSpeed, pb.TunerDecision, pb.CodecWanted, pb.TransferEnd)


class Tap(Attacker):
    """A hostile scientist, and all that it has been sent."""

    def __init__(self, make_duets: MakeDuets, number: int, detail: str) -> None:
        owner, scientist = make_duets(failure_detail=detail, worker_timeout_s=60.0)
        owner.policies.add(Policy("deny"))
        for name, value in data(number).items():
            owner.share(value, name, mock="auto")
            scientist.wait_object(name, 10)
        super().__init__(owner, scientist)
        self.heard: list[tuple[str, bytes]] = []
        dispatch = self.rpc._dispatch

        def tapped(envelope: pb.Envelope, body: Message) -> None:
            if not isinstance(body, _OF_THE_LINK):
                self.heard.append((type(body).__name__, body.SerializeToString(deterministic=True)))
            dispatch(envelope, body)

        self.rpc._dispatch = tapped  # type: ignore[method-assign]

    def wait(self) -> None:
        """Return when all that was sent has been reported, which is ahead of this answer."""
        with pytest.raises(OperationFailed):
            self.ask(result=1)

    def do(self, program: Program, opened: range) -> tuple[list[Any], list[tuple[str, bytes]]]:
        """Which steps failed, and every message that came. The assets are opened anew, under these numbers: a
        program may have spoiled those of the one before.
        """
        self.send(*[[id_, "asset", [name, 1]] for id_, name in zip(opened, ASSETS, strict=True)])
        self.wait()
        self.heard, self.reports[:] = [], []
        for steps in program.batches:
            self.send(*steps)
            self.wait()
        for result in program.asked:
            with contextlib.suppress(OperationFailed, RequestDenied):
                self.ask(result=result)
        failed = [(it.result, it.batch, it.position) for report in self.reports for it in report.failures]
        return failed, self.heard

    @property
    def ended(self) -> bool:
        return any(report.HasField("ended") for report in self.reports)


def without_documented(heard: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """Messages without the code and the class of an error, which `type` is documented to tell, and without
    the numbers that this side chose.
    """
    found = []
    for kind, content in heard:
        if kind == "WorkReport":
            report = pb.WorkReport.FromString(content)
            for failure in report.failures:
                failure.ClearField("code")
                failure.ClearField("error")
            content = report.SerializeToString(deterministic=True)
        elif kind == "Answer":
            answer = pb.Answer.FromString(content)
            answer.ClearField("request_id")
            content = answer.SerializeToString(deterministic=True)
        found.append((kind, content))
    return found


@pytest.mark.parametrize(("detail", "first"), [("silent", 0), ("type", 5_000)])
def test_two_scientists_cannot_tell_their_owners_apart(
    make_duets: MakeDuets, monkeypatch: pytest.MonkeyPatch, detail: str, first: int
) -> None:
    # that nothing failed is told after a moment: whether that is one report or two is a matter of time
    monkeypatch.setattr(workplace, "_REPORT_S", 3600.0)
    taps = [Tap(make_duets, number, detail) for number in (0, 1)]
    compared = 0
    for seed in range(first, first + PROGRAMS):
        begin = 1_000 * (seed - first + 1)
        opened = range(begin + 900, begin + 900 + len(ASSETS))
        program = Writer(seed, begin, opened).program()
        (failed, heard), (other_failed, other_heard) = (tap.do(program, opened) for tap in taps)
        assert not any(tap.ended for tap in taps), program
        kinds = {kind for kind, _ in (*heard, *other_heard)}
        assert kinds <= {"WorkReport", "Answer", "Failure"}
        if failed == other_failed:
            compared += 1
            assert without_documented(heard) == without_documented(other_heard), (seed, program)
            if detail == "silent":
                assert [each for each in heard if each[0] == "WorkReport"] == [
                    each for each in other_heard if each[0] == "WorkReport"
                ]
    assert compared > 0.8 * PROGRAMS

"""The questions of a peer: known until what they were offered has moved."""

from __future__ import annotations

import datetime as dt

from duetlink.duet.answering.handling import Asker, Handling
from duetlink.duet.answering.incoming import Incoming
from duetlink.duet.answering.queue import Questions
from duetlink.duet.objects.asset import AssetInfo

NOON = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)


def asked(*numbers: bytes) -> Handling:
    request = Incoming(0, AssetInfo("x", 1, "int", "", 8), None, "Sven", "", NOON, None)
    return Handling(request, askers={number: Asker(number, "", "") for number in numbers})


def test_an_answered_question_is_known_until_its_transfer_has_ended() -> None:
    moving = {b"a"}
    questions = Questions(lambda asker: asker.request_id in moving)
    first, second, third = asked(b"a"), asked(b"b"), asked(b"c")
    questions.add(b"a", first)
    questions.end(first)
    questions.add(b"b", second)
    assert questions.get(b"a") is first
    moving.clear()
    questions.add(b"c", third)
    assert questions.get(b"a") is None
    assert questions.get(b"b") is second


def test_a_number_that_is_used_again_is_that_of_the_new_question() -> None:
    questions = Questions(lambda asker: False)
    first, second = asked(b"a"), asked(b"a")
    questions.add(b"a", first)
    questions.end(first)
    questions.add(b"a", second)
    questions.add(b"b", asked(b"b"))
    questions.end(first)
    questions.add(b"c", asked(b"c"))
    assert questions.get(b"a") is second


def test_one_of_several_questions_is_taken_back() -> None:
    questions, both = Questions(lambda asker: False), asked(b"a", b"b")
    questions.add(b"a", both)
    questions.add(b"b", both)
    questions.drop(b"a", both)
    assert questions.get(b"a") is None
    assert questions.get(b"b") is both
    assert list(both.askers) == [b"b"]

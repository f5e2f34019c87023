from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable

import pytest

from duetlink.compute.operations.log import LoggedBatch, LoggedValue, ProgramLog
from duetlink.errors import LimitExceeded
from tests.compute.operations.programs import effects

VALUE = LoggedValue('numpy.ndarray, 3 x 4, "float64"', "ab12")


def test_batches_come_back_as_they_were() -> None:
    log = ProgramLog()
    assert log.append(b'[[1,"asset",["ages",1]]]', [VALUE]) == 1
    assert log.append(b"no batch at all \xff") == 2
    assert list(log.batches()) == [
        LoggedBatch(b'[[1,"asset",["ages",1]]]', (VALUE,)),
        LoggedBatch(b"no batch at all \xff", ()),
    ]


def test_some_batches_of_several_segments() -> None:
    log = ProgramLog()
    batches = [f"{number} ".encode() * 50_000 for number in range(40)]
    for batch in batches:
        log.append(batch)
    assert log.position == 40
    assert [batch.content for batch in log.batches()] == batches
    assert [batch.content for batch in log.batches(17, 23)] == batches[17:23]
    assert [batch.content for batch in log.batches(39)] == batches[39:]
    assert list(log.batches(40)) == []
    assert log.stored_bytes < log.size_bytes / 50


def test_more_can_be_appended_after_a_look() -> None:
    log = ProgramLog()
    log.append(b"one")
    assert len(list(log.batches())) == 1
    log.append(b"two")
    assert [batch.content for batch in log.batches()] == [b"one", b"two"]


def test_a_program_that_is_too_long_is_refused_and_not_kept() -> None:
    log = ProgramLog(max_bytes=100)
    log.append(b"x" * 90)
    with pytest.raises(LimitExceeded, match="begin anew"):
        log.append(b"x" * 11)
    log.append(b"x" * 10)
    assert log.position == 2
    assert log.size_bytes == 100


def batch(*steps: list[object]) -> bytes:
    return json.dumps(steps).encode()


def test_a_lineage_knows_the_steps_up_to_its_position() -> None:
    log = ProgramLog()
    log.append(batch([1, "asset", ["ages", 1]], [2, ".copy", [[1]]]))
    before = log.append(batch([3, ".mean", [[2]]]))
    log.append(batch([0, "operator.setitem", [[2], 0, 5]], [4, ".mean", [[2]]]))
    assert log.lineage(4, effects).code == "ages_2 = ages.copy()\nages_2[0] = 5\nages_2.mean()"
    assert log.lineage(3, effects, before).code == "ages.copy().mean()"
    assert log.lineage(3, effects).code == "ages.copy().mean()"
    assert log.lineage(2, effects, before).code == "ages.copy()"
    with pytest.raises(LookupError, match="no step makes result 4"):
        log.lineage(4, effects, before)
    with pytest.raises(LookupError, match="no step makes result 9"):
        log.lineage(9, effects)


def test_a_batch_that_is_none_has_no_steps() -> None:
    log = ProgramLog()
    log.append(batch([1, "asset", ["ages", 1]]))
    log.append(b'[[2, ".mean"')
    log.append(b"{}")
    log.append(batch([3, ".mean", [[1]]]))
    assert log.lineage(3, effects).code == "ages.mean()"


def test_what_failed_is_said() -> None:
    log = ProgramLog()
    first = log.append(batch([1, "asset", ["ages", 1]], [2, ".copy", [[1]]], [3, ".copy", [[1]]]))
    second = log.append(batch([4, ".sum", [[3]]], [5, "numpy.copyto", [[2], [4]]], [6, ".mean", [[2]]]))
    honest = log.lineage(6, effects)
    log.fail(second, 1)
    log.fail(first, 99)  # there is none
    told = log.lineage(6, effects)
    assert told.code.splitlines() == [
        "ages_2 = ages.copy()",
        "np.copyto(ages_2, ages.copy().sum())  # failed; it may have done a part of this",
        "ages_2.mean()",
    ]
    assert told.digest != honest.digest


def test_effects_may_change() -> None:
    log = ProgramLog()
    log.append(
        batch([1, "asset", ["ages", 1]], [2, ".shift", [[1]]], [0, ".shift", [[1]]], [3, ".sum", [[1]]])
    )
    assert log.lineage(3, effects).operations == ("sum",)
    assert log.lineage(3, lambda _: "in_place").operations == ("shift", "sum")


# what of a step is another one each time, so that something is kept of it
HOSTILE: dict[str, Callable[[int], list[object]]] = {
    "results": lambda number: [number + 1, ".look", []],
    "results with far numbers": lambda number: [number * 7919 + (1 << 40), ".look", [[1]]],
    "views of one": lambda number: [number + 1, ".look", [[1], [number]]],
    "numbers": lambda number: [0, ".look", [number + 0.5]],
    "long texts": lambda number: [0, ".look", [f"{number} " * 50]],
    "objects that are none": lambda number: [0, ".look", [["l", *({} for _ in range(50)), number]]],
    "lists of lists": lambda number: [0, ".look", [["l", *([1] for _ in range(50)), number]]],
    "keywords": lambda number: [0, ".look", [], {f"name_{number}": 1}],
    "operations": lambda number: [0, f".look_{number}", []],
    "operations that are refused": lambda number: [0, f".look_{number}", [[]]],
    "assets": lambda number: [1, "asset", [f"asset_{number}", 1]],
    "revisions": lambda number: [1, "asset", ["ages", number]],
    "values": lambda number: [1, "value", [number % 100]],
    "gradients": lambda number: [number + 1, ".backward", [[number], [number // 2]]],
    "nothing": lambda number: [],
}


def _fill(log: ProgramLog, step: Callable[[int], list[object]]) -> str:
    """Append such steps until they are refused, in these words."""
    words = [VALUE] * 100
    for begin in range(0, 1 << 18, 200):
        log.append(batch(*(step(number) for number in range(begin, begin + 200))), words)
        log.fail(log.position, 0)
        try:
            log.lineage(-1, effects)
        except LookupError:  # there is no such result, and all steps have been read
            pass
        except LimitExceeded as error:
            return str(error)
    return "they are not refused"


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_kept_of_steps_takes_no_more_memory_than_is_said(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_bytes = 1_000_000
    monkeypatch.setattr("duetlink.compute.operations.trace.MAX_HELD_BYTES", limit_bytes)
    log = ProgramLog(max_bytes=1 << 40)
    log.append(b'[[1,"asset",["ages",1]]]')
    log.lineage(1, effects)
    tracemalloc.start()
    try:
        told = _fill(log, HOSTILE[name])
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "over 1,000,000 bytes to be kept" in told
    # what a list, an array or a dict has in reserve comes on top, and what the log itself holds
    assert limit_bytes / 2 < held_bytes - log.stored_bytes < limit_bytes * 1.5
    with pytest.raises(LimitExceeded):
        log.lineage(1, effects)


def test_failures_that_nobody_asks_for_take_little_memory() -> None:
    log = ProgramLog()
    tracemalloc.start()
    try:
        for number in range(100_000):
            log.fail(1, number)
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held_bytes < 20 * 100_000

"""What a room answers, and what its kernel makes of an answer that is none."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetlink.compute.worker.protocol import answers, faults
from duetlink.compute.worker.protocol.faults import Fault
from duetlink.compute.worker.protocol.groups import EVERYBODY
from duetlink.compute.worker.protocol.memory import place
from duetlink.data import values
from duetlink.data.values.base import Encoded
from duetlink.errors import WorkerUnavailable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="workers need Linux")

VALUE: dict[str, Any] = {
    "kind": "bytes",
    "detail": "",
    "elements": None,
    "size_bytes": 3,
    "parts": [],
    "group": None,
}


def memory() -> int:
    return place([b"abc"], 3)


def is_closed(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return True
    return False


def test_a_result_comes_as_it_was_given() -> None:
    content, fds = answers.result(values.encode(np.arange(6.0).reshape(2, 3)), 7)
    read = answers.read_result(content, fds)
    assert not isinstance(read, Fault)
    encoded, group = read
    array: Any = values.decode(encoded.segments[0])
    assert array.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert (encoded.summary.elements, encoded.size_bytes, group) == (6, encoded.summary.size_bytes, 7)
    assert [part.element for part in encoded.parts] == ["float64"]
    assert all(map(is_closed, fds))


def test_a_result_of_everybody_has_no_smallest_group() -> None:
    read = answers.read_result(*answers.result(values.encode(1), EVERYBODY))
    assert not isinstance(read, Fault)
    assert read[1] is None


WHY = Fault(7, faults.RAISED, 8, "why")


def test_in_place_of_a_result_comes_why_it_is_not_there() -> None:
    assert answers.read_result(*answers.no_result(WHY)) == WHY


@pytest.mark.parametrize(
    "told",
    [
        None,
        [],
        [1, 2, 3],
        [1, 2, 3, "", ""],
        [1, 99, 0, ""],
        [1, 1, 99, ""],
        [1, 1, 0, 5],
        [-1, 1, 0, ""],
        [1 << 31, 1, 0, ""],
        [True, 1, 0, ""],
        "1234",
    ],
)
def test_a_fault_is_of_the_closed_lists(told: object) -> None:
    with pytest.raises(WorkerUnavailable):
        answers.read_result(json.dumps({"fault": told}).encode(), ())


def test_an_outcome_is_what_was_made_or_what_failed() -> None:
    made = answers.read_outcome(*answers.made(values.encode("text")))
    assert isinstance(made, Encoded)
    assert values.decode(made.segments[0]) == "text"
    assert answers.read_outcome(*answers.failed({"kinds": ["ValueError"]})) == {"kinds": ["ValueError"]}


@pytest.mark.parametrize(
    "told",
    [
        None,
        [],
        {},
        VALUE | {"size_bytes": 4},  # than the memory has
        VALUE | {"size_bytes": -1},
        VALUE | {"size_bytes": 1e400},
        VALUE | {"elements": "many"},
        VALUE | {"parts": [[0, 1, "float64"]]},
        VALUE | {"group": []},
        {key: value for key, value in VALUE.items() if key != "kind"},
    ],
)
def test_what_is_no_result_is_refused_and_its_memory_closed(told: Any) -> None:
    for read, content in ((answers.read_result, told), (answers.read_outcome, {"made": told})):
        fd = memory()
        with pytest.raises(WorkerUnavailable, match="is no result"):
            read(json.dumps(content).encode(), [fd])
        assert is_closed(fd)


def test_the_words_of_a_room_are_one_line_of_bounded_length() -> None:
    content = json.dumps({"fault": [1, 1, 0, "a\nb\x1b[2J\u202e" + "c" * 5_000]}).encode()
    fault = answers.read_result(content, ())
    assert isinstance(fault, Fault)
    assert fault.words.startswith("a b\\x1b[2J\\u202ec")
    assert len(fault.words) == 2_000


def test_memory_of_a_failure_is_closed() -> None:
    fd = memory()
    assert answers.read_outcome(b'{"failed": {}}', [fd]) == {}
    assert is_closed(fd)


def test_a_result_without_its_memory_or_with_more_is_refused() -> None:
    content = json.dumps(VALUE).encode()
    fds = [memory(), memory()]
    for given_fds in ([], fds):
        with pytest.raises(WorkerUnavailable):
            answers.read_result(content, given_fds)
    assert all(map(is_closed, fds))


KEYS = st.sampled_from([*VALUE, "made", "failed", "failures"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner),
    max_leaves=20,
)


@given(st.binary(max_size=40) | JSON.map(lambda told: json.dumps(told).encode()))
def test_anything_else_is_worker_unavailable(content: bytes) -> None:
    for read in (answers.read_result, answers.read_outcome):
        fd = memory()
        with contextlib.suppress(WorkerUnavailable):
            read(content, [fd])
        assert is_closed(fd)

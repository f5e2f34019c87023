"""A program as bytes: it comes back as it was written, and nothing else is read as one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from duetlink.compute.operations.steps import body
from duetlink.compute.operations.steps.body import Body, StepSeeds, Words, read, step_of, steps_text, write
from duetlink.errors import LimitExceeded, RemoteProtocolError

STEPS: list[Any] = [["asset", ["x", 1]], ["value", [0]], ["operator.add", [[1], [2]]]]


def joined(pieces: tuple[list[memoryview | bytes], int]) -> bytearray:
    content = bytearray().join(pieces[0])
    assert len(content) == pieces[1]
    return content


def made(header: Any, steps: bytes = b"[[]]", rest: bytes = b"") -> memoryview:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return memoryview(body.MAGIC + len(text).to_bytes(8, "little") + text + steps + rest)


def header(**fields: Any) -> dict[str, Any]:
    return {"target": 1, "steps": 4, "values": []} | fields


def test_the_bytes_are_these() -> None:
    steps = b'[["value",[0]]]'
    content = joined(write(1, steps, [b"abc"], [Words("text", "3")]))
    told = b'{"target":1,"steps":15,"values":[[3,"text","3"]]}'
    assert content == b"duetprg2" + bytes([49, 0, 0, 0, 0, 0, 0, 0]) + told + steps + bytes(48) + b"abc"


@given(
    st.lists(st.binary(max_size=200), max_size=4),
    st.integers(1, 3),
    st.lists(st.tuples(st.text(max_size=9), st.text(max_size=9)), min_size=4, max_size=4),
)
def test_a_program_comes_back_as_it_was_written(
    values: list[bytes], target: int, told: list[tuple[str, str]]
) -> None:
    words = [Words(*each) for each in told[: len(values)]]
    found = read(memoryview(joined(write(target, steps_text(STEPS), values, words))))
    assert found == Body(target, STEPS, [memoryview(value) for value in values], words)


def test_values_begin_at_multiples_of_64_bytes_and_can_be_written_to() -> None:
    content = joined(write(1, steps_text(STEPS), [bytes(3), b"", bytes(70)]))
    first, empty, last = read(memoryview(content)).values
    assert (len(first), len(empty), len(last)) == (3, 0, 70)
    last[0] = 7
    assert content.index(7) % 64 == 0


@pytest.mark.parametrize(
    "content",
    [
        memoryview(b""),
        memoryview(b"duetprg1" + bytes(8)),
        memoryview(body.MAGIC + (100).to_bytes(8, "little") + b"{}"),
        made(b"{"),
        made(b"\xff"),
        made(b"[" * 100_000),
        made([]),
        made({"target": 1, "steps": 4}),
        made(header(more=1)),
        made(header(target=0)),
        made(header(target=2)),
        made(header(target=True)),
        made(header(target=1.0)),
        made(header(steps=-1)),
        made(header(steps=3)),
        made(header(steps=5)),
        made(header(values={})),
        made(header(values=[3])),
        made(header(values=[[3, "kind"]])),
        made(header(values=[[-1, "", ""]]), rest=bytes(64)),
        made(header(values=[[0, 1, ""]]), rest=bytes(64)),
        made(header(values=[[1 << 70, "", ""]]), rest=bytes(64)),
        made(header(), b"{}  "),
        made(header(), b"[[] "),
        made(header(steps=2), b"[]"),
        made(header(steps=100_001), b"[" * 100_001),
        made(header(), rest=b"\0"),
    ],
)
def test_what_is_no_program_is_refused(content: memoryview) -> None:
    with pytest.raises(RemoteProtocolError):
        read(content)


def test_there_is_nothing_between_values() -> None:
    content = joined(write(1, steps_text(STEPS), [b"abc"]))
    read(memoryview(content))
    content[-4] = 1
    with pytest.raises(RemoteProtocolError, match="between two values"):
        read(memoryview(content))


def test_it_has_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "MAX_STEPS", 2)
    with pytest.raises(LimitExceeded, match="of 3 steps is over 2"):
        read(memoryview(joined(write(1, steps_text(STEPS)))))
    monkeypatch.setattr(body, "MAX_VALUES", 1)
    with pytest.raises(LimitExceeded, match="of 2 values is over 1"):
        read(made(header(values=[[0, "", ""]] * 2)))
    with pytest.raises(LimitExceeded, match="more than 10,000 characters"):
        read(made(header(values=[[0, "k" * 10_001, ""]])))
    with pytest.raises(LimitExceeded, match="steps are over"):
        read(made(header(steps=body.MAX_STEPS_BYTES + 1)))
    with pytest.raises(LimitExceeded, match="header is over"):
        read(memoryview(body.MAGIC + b"\xff" * 8))


@pytest.mark.parametrize(
    "steps",
    [
        b"[" + b"[]," * 8_000_000 + b"[]]",
        b'[["a",[' + b"{}," * 8_000_000 + b"{}]]]",
        b"[" + b"0," * 21_000_000 + b"0]",
    ],
    ids=["empty lists", "empty objects in one step", "numbers"],
)
def test_a_text_that_would_take_many_times_its_size_is_not_parsed(
    steps: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[bytes] = []

    def loads(text: bytes) -> Any:
        parsed.append(text)
        return header(steps=len(steps))

    monkeypatch.setattr(json, "loads", loads)
    with pytest.raises(LimitExceeded, match="steps: over 5,000,000 lists or 20,000,000 items"):
        read(made(header(steps=len(steps)), steps))
    assert parsed == [json.dumps(header(steps=len(steps))).encode()]


def test_a_header_that_would_take_many_times_its_size_is_not_parsed() -> None:
    with pytest.raises(LimitExceeded, match="header: over 500,000 lists or 2,000,000 items"):
        read(made(b"[" + b"[]," * 600_000 + b"[]]"))


def test_as_many_steps_as_there_may_be_may_name_three_results_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "MAX_STEPS", 1000)
    steps = [["asset", ["x", 1]], *[["torch.nn.functional.linear", [[1], [1], [1]]]] * 999]
    assert read(memoryview(joined(write(1000, steps_text(steps))))).steps == steps


@given(st.binary(max_size=300) | st.binary(max_size=300).map(lambda end: body.MAGIC + end))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        read(memoryview(content))


@given(st.data())
def test_a_program_with_a_byte_changed_is_read_or_refused(data: st.DataObject) -> None:
    content = joined(write(3, steps_text(STEPS), [b"abc", b"defg"], [Words("a", "b"), Words("c", "d")]))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = read(memoryview(content))
    except RemoteProtocolError:
        return
    assert 1 <= found.target <= len(found.steps)
    assert len(found.values) == len(found.words)


# -- one step ------------------------------------------------------------------------------------------------


def test_steps_are_read() -> None:
    assert step_of(["numpy.sum", [[1]]]) == ("numpy.sum", [[1]], {}, True, None, ())
    assert step_of(["numpy.sum", [[1]], {"axis": 0}]) == ("numpy.sum", [[1]], {"axis": 0}, True, None, ())
    assert step_of(["a", [], {}, {"grad": False}]) == ("a", [], {}, False, None, ())
    assert step_of(["a", [], {}, {"settings": {"dtype": "float64", "autocast": "bfloat16"}}]).settings == (
        ("autocast", "bfloat16"),
        ("dtype", "float64"),
    )
    assert step_of(["a", [], {}, {"draw": [None, 3]}]).draw == StepSeeds(None, 3)
    assert step_of(["a", [], {}, {"draw": [7, 0], "grad": False}]) == (
        "a",
        [],
        {},
        False,
        StepSeeds(7, 0),
        (),
    )


@pytest.mark.parametrize(
    "raw",
    [
        None,
        [],
        ["a"],
        ["", []],
        ["a" * 201, []],
        [1, []],
        ["a", {}],
        ["a", [], []],
        ["a", [], {"k" * 201: 1}],
        ["a", [], {}, {}],
        ["a", [], {}, None],
        ["a", [], {}, {"grad": True}],
        ["a", [], {}, {"grad": 0}],
        ["a", [], {}, {"other": 1}],
        ["a", [], {}, {"draw": 7}],
        ["a", [], {}, {"draw": [7]}],
        ["a", [], {}, {"draw": [True, 0]}],
        ["a", [], {}, {"draw": [1.0, 0]}],
        ["a", [], {}, {"draw": [1 << 64, 0]}],
        ["a", [], {}, {"draw": [0, -1]}],
        ["a", [], {}, {"draw": [0, None]}],
        ["a", [], {}, {"draw": [0, 0]}, 1],
        ["a", [], {}, {"settings": {}}],
        ["a", [], {}, {"settings": ["dtype", "float64"]}],
        ["a", [], {}, {"settings": {"dtype": "object"}}],
        ["a", [], {}, {"settings": {"dtype": ["float64"]}}],
        ["a", [], {}, {"settings": {"output": "polars"}}],
        ["a", [], {}, {"settings": {"working_memory": 1}}],
    ],
)
def test_what_is_no_step_is_refused(raw: Any) -> None:
    with pytest.raises(RemoteProtocolError):
        step_of(raw)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.sampled_from(["grad", "draw", "k"]), inner)
    ),
    max_leaves=20,
)


@given(JSON)
@example(["a", [], {}, {"draw": [None, 1 << 60]}])
def test_any_json_is_a_step_or_refused(raw: Any) -> None:
    try:
        step = step_of(raw)
    except RemoteProtocolError:
        return
    assert type(step.operation) is str

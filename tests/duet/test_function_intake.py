"""Functions as messages: those that no honest peer sends, and how what the peer says is shown."""

from __future__ import annotations

import ast
import json
import zlib
from types import SimpleNamespace
from typing import Any

import pytest

from duetlink import errors
from duetlink.base.wire import schema_pb2 as pb
from duetlink.compute.operations.function import FunctionCall, digest_of, input_names, parse_call, show_call
from duetlink.compute.operations.steps.body import steps_text, write
from duetlink.data import values
from duetlink.data.values.base import Encoded, Summary
from duetlink.duet.answering import job_run
from duetlink.duet.answering.job_intake import JobIntake
from duetlink.duet.answering.programs import Programs
from duetlink.duet.objects.asset import AssetInfo
from duetlink.duet.objects.catalogue import OwnAsset
from duetlink.duet.objects.decoding import Decoding
from duetlink.duet.objects.job_log import JobLog
from duetlink.settings import Settings
from duetlink.testing.faults import arriving_bytes, set_constants, summarised_result


def message(**changes: Any) -> pb.Job:
    fields: dict[str, Any] = {"name": "f", "source": "def f(x):\n    return x\n", "call": b"[[1],{}]"}
    return pb.Job(**fields | changes)


def made_by(body: bytes) -> pb.JobInput:
    """What a program makes."""
    return pb.JobInput(program=pb.ProgramBody(compressed=zlib.compress(body)))


ON_X = b"".join(write(1, steps_text([["asset", ["x", 1]]]))[0])
INLINE = pb.JobInput(value=pb.JobValue(body=b"x"))
HOSTILE = {
    "no name": (message(name=""), errors.OperationRefused),
    "a name that is none": (message(name="os.system"), errors.OperationRefused),
    "a keyword": (message(name="lambda"), errors.OperationRefused),
    "a name that looks like another": (message(name="\u0430bove"), errors.OperationRefused),
    "a long name": (message(name="f" * 101), errors.OperationRefused),
    "a line that hides": (
        message(source="def f():\n    # \rimport os\n    return 1"),
        errors.OperationRefused,
    ),
    "a form feed": (message(source="def f():\x0c\n    return 1"), errors.OperationRefused),
    "another direction": (message(source="def f():\n    return '\u202e'"), errors.OperationRefused),
    "a letter that looks like another": (
        message(source="def f(v):\n    \u0430 = 1; a = v; return \u0430\n"),
        errors.OperationRefused,
    ),
    "a letter that Python takes for another": (
        message(source="def f(v):\n    return \uff45val(v)\n"),
        errors.OperationRefused,
    ),
    "letters beyond ASCII in what is no Python": (
        message(source="def f(v):\n    return (# \xe4\n"),
        errors.OperationRefused,
    ),
    "code behind blanks": (
        message(source="def f(v):\n    return v;" + " " * 200 + "print(v)\n"),
        errors.OperationRefused,
    ),
    "a long line": (message(source="def f(): return 1" + " " * 500), errors.OperationRefused),
    "a long text": (message(source="# more\n" * 50_000), errors.OperationRefused),
    "no call": (message(call=b""), errors.RemoteProtocolError),
    "no JSON": (message(call=b"[["), errors.RemoteProtocolError),
    "a deep call": (message(call=b"[" * 50_000), errors.RemoteProtocolError),
    "a long number": (message(call=b"[[" + b"1" * 10_000 + b"],{}]"), errors.RemoteProtocolError),
    "a long call": (message(call=b"[[" + b" " * 70_000 + b"],{}]"), errors.LimitExceeded),
    "no list": (message(call=b'{"a":1}'), errors.RemoteProtocolError),
    "an object": (message(call=b'[[{"a":1}],{}]'), errors.RemoteProtocolError),
    "an unknown tag": (message(call=b'[[["f","builtins.eval"]],{}]'), errors.RemoteProtocolError),
    "a constant": (message(call=b'[[["c","numpy.float32"]],{}]'), errors.RemoteProtocolError),
    "no argument": (message(call=b"[[[]],{}]"), errors.RemoteProtocolError),
    "a deep argument": (
        message(call=b"[[" + b'["l",' * 30 + b"1" + b"]" * 30 + b"],{}]"),
        errors.RemoteProtocolError,
    ),
    "an odd dict": (message(call=b'[[["d",1]],{}]'), errors.RemoteProtocolError),
    "half a slice": (message(call=b'[[["s",1]],{}]'), errors.RemoteProtocolError),
    "an input that is not there": (message(call=b"[[[0]],{}]"), errors.RemoteProtocolError),
    "an input below 0": (message(call=b"[[[-1]],{}]", inputs=[INLINE]), errors.RemoteProtocolError),
    "an input that nobody uses": (message(inputs=[INLINE]), errors.RemoteProtocolError),
    "a keyword that is none": (message(call=b'[[],{"a b":1}]'), errors.RemoteProtocolError),
    "many inputs": (message(inputs=[INLINE] * 65), errors.LimitExceeded),
    "an input that is nothing": (
        message(call=b"[[[0]],{}]", inputs=[pb.JobInput()]),
        errors.RemoteProtocolError,
    ),
    "a large value": (
        message(call=b"[[[0]],{}]", inputs=[pb.JobInput(value=pb.JobValue(body=bytes(1024 * 1024 + 1)))]),
        errors.LimitExceeded,
    ),
    "a value larger than anything": (
        message(
            call=b"[[[0]],{}]",
            inputs=[pb.JobInput(value=pb.JobValue(offer=pb.TransferOffer(size_bytes=1 << 62)))],
        ),
        errors.ValueRefused,
    ),
    "an asset without a mock": (
        message(call=b"[[[0]],{}]", inputs=[pb.JobInput(asset=pb.JobAsset(name="x", revision=1))]),
        errors.NoMock,
    ),
    "a program that is nothing": (
        message(call=b"[[[0]],{}]", inputs=[pb.JobInput(program=pb.ProgramBody())]),
        errors.RemoteProtocolError,
    ),
    "a program that is none": (
        message(call=b"[[[0]],{}]", inputs=[made_by(b"duetprg2" + bytes(40))]),
        errors.RemoteProtocolError,
    ),
    "a program on an asset without a mock": (
        message(call=b"[[[0]],{}]", inputs=[made_by(ON_X)]),
        errors.NoMock,
    ),
}


def new_intake() -> JobIntake:
    """With one asset, x, which has no mock; nothing has been recorded, and nothing waits."""
    content: Any = SimpleNamespace()
    mine = OwnAsset(AssetInfo("x", 1, "float", "", 8), content)
    catalogue: Any = SimpleNamespace(find_mine=lambda name, revision: mine)
    nothing: Any = SimpleNamespace()
    programs = Programs(catalogue, Settings(), nothing, nothing)
    intake = JobIntake(catalogue, programs, Settings().max_received_bytes, lambda: 0, lambda info: False)
    intake.attach(nothing)
    return intake


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_message_that_is_no_function_is_refused(name: str) -> None:
    intake = new_intake()
    sent, error = HOSTILE[name]
    with pytest.raises(error) as caught:
        await intake.function(sent)
    assert type(caught.value) is error
    assert arriving_bytes(intake) == 0


async def test_a_letter_beyond_ascii_is_named_with_its_place_before_a_request_is_shown() -> None:
    with pytest.raises(errors.OperationRefused) as caught:
        await new_intake().function(message(source="def f(x):\n    return m\u0435an(x)\n", call=b"[[1],{}]"))
    assert str(caught.value) == (
        "line 2, column 13 of f: '\u0435' (U+0435, CYRILLIC SMALL LETTER IE) is neither in a text nor in a "
        "comment; write names in ASCII, so that none is mistaken for another"
    )


async def test_letters_beyond_ascii_in_texts_and_comments_are_no_names() -> None:
    source = "def f(x):\n    # f\xfcr \u03bb\n    return f'Gr\xf6\xdfe {x:\xe4>9} \\'\xe4' + \"\\d \u4e2d\""
    assert (await new_intake().function(message(source=source))).source == source


async def test_a_long_stretch_of_empty_lines_is_shown_as_one_line_that_says_so() -> None:
    long = "def f(x):\n    y = 2" + "\n" * 5_001 + "    return x\n"
    short = "def f(x):\n    y = 2" + "\n" * 6 + "    return x\n"
    taken = await new_intake().function(message(source=long))
    lineage = taken.info.lineage
    assert lineage is not None
    assert (
        lineage.code
        == "def f(x):\n    y = 2\n# \u2026 5,000 empty lines \u2026\n    return x\n\n\nresult = f(1)"
    )
    assert len(ast.parse(lineage.code).body) == 2
    assert taken.source == long
    other = await new_intake().function(message(source=short))
    assert other.info.lineage is not None
    assert other.info.lineage.code == short + "\n\nresult = f(1)"
    assert other.info.lineage.digest != lineage.digest


async def test_what_the_peer_says_of_its_mocks_and_values_is_shown_harmless() -> None:
    body = b"y" * 100
    value = pb.JobInput(value=pb.JobValue(body=body, kind="k\n\x1b[2J" + "k" * 10_000, detail="\u202e"))
    sent = message(
        call=json.dumps([[[0], "\ud800\n'", float("nan")], {}]).encode(),
        inputs=[value],
        mock_kind="a" * 10_000,
        mock_detail="b\x00",
        mock_text="c" * 10**6,
    )
    job = await new_intake().function(sent)
    assert len(job.mock) < 5_000
    assert job.info.lineage is not None
    code = job.info.lineage.code
    assert code.isprintable() is False  # but for its lines
    assert all(line.isprintable() for line in code.split("\n"))
    assert "said to be k\\x0a\\x1b[2Jkkk" in code.split("\n")[0]
    assert len(code.split("\n")[0]) < 500
    assert job.info.lineage.expression == 'f(input_0, "\\ud800\\n\'", float("nan"))'
    assert (job.info.group, job.info.is_unmade) == (None, True)


def test_progress_that_is_no_number_between_0_and_1_is_ignored() -> None:
    log = JobLog()
    what: list[Any] = [None, "x", float("nan"), -1, 2, []]
    for wrong in what:
        log.tell(wrong)
    assert log.fraction is None
    log.add(["x" * 10_000] * 20_000)
    assert sum(map(len, log.lines)) < 256 * 1024 + 100
    assert log.lines[-1] == "… more is not kept"
    assert len(log.lines[0]) == 2_000


def test_a_call_is_shown_as_python() -> None:
    content = json.dumps(
        [
            [[0], ["t", 1], ["t"], ["l", None, True, -1.5], ["d", "a", [1], 2, ["e"]], ["s", None, 3, None]],
            {"z": ["z", 1, -2.0], "also": float("inf")},
        ]
    )
    call = parse_call(content.encode(), 2)
    assert show_call("f", call, ["ages", "input_1"]) == (
        'f(ages, (1,), (), [None, True, -1.5], {"a": input_1, 2: ...}, slice(None, 3, None), '
        'z=complex(1, -2.0), also=float("inf"))'
    )


def test_inputs_have_names_of_their_own() -> None:
    assert input_names(["ages", "ages", "", "f", "two words", "lambda", "match", "a" * 101], "f") == [
        "ages",
        *(f"input_{number}" for number in range(1, 8)),
    ]
    assert input_names(["input_1", ""], "f") == ["input_0", "input_1"]
    assert input_names(["print", "__x", "x"], "f") == ["input_0", "input_1", "x"]


def test_the_digest_is_what_it_was_in_earlier_versions_with_its_own_version_before_it() -> None:
    call = FunctionCall([1, [0]], {"a": 2.5, "b": "x"})
    known = [("asset", "ages")]
    digest = digest_of("f", "def f(): pass\n", call, known)
    assert digest == "v2:2b1951f44b5346f1bf068a03a821482913e3bc60ee9720d3dba1e6fb99f23f28"
    others = [
        digest_of("g", "def f(): pass\n", call, known),
        digest_of("f", "def f(): pass", call, known),
        digest_of("f", "def f(): pass\n", FunctionCall([1.0, [0]], call.keywords), known),
        digest_of("f", "def f(): pass\n", call, [("value", "ages")]),
        digest_of("f", "def f(): pass\n", call, [("asset", "age")]),
        # keywords have an order for `**keywords`: that is what runs
        digest_of("f", "def f(): pass\n", FunctionCall([1, [0]], {"b": "x", "a": 2.5}), known),
    ]
    assert len({digest, *others}) == 7


# -- what a room says that has run one ---------------------------------------------------------------------


async def test_what_a_result_is_this_side_finds_out_itself() -> None:
    encoded = values.encode([1, 2, 3])
    body = memoryview(b"".join(encoded.segments))
    claimed = Summary("float", "one number", len(body), 1)
    looked_at = await summarised_result(Encoded((body,), len(body), claimed), Decoding(1 << 30))
    assert looked_at.summary == Summary("list", "3 items", len(body), 3)
    with pytest.raises(errors.WorkerUnavailable, match="is not a valid value"):
        await summarised_result(Encoded((memoryview(b"DLV1 no value"),), 13, claimed), Decoding(1 << 30))


async def test_of_a_result_that_is_too_large_to_be_looked_at_nobody_counts_the_elements(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_constants(monkeypatch, job_run, MOST_DECODED_BYTES=10)
    encoded = values.encode([1, 2, 3])
    assert (await summarised_result(encoded, Decoding(1 << 30))).summary.elements is None

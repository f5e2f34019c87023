"""What the two sides read: failures that quote no data, and code that says what was done."""

from __future__ import annotations

import ast
import asyncio
from typing import Any

import pytest

from duetlink.compute.operations.canonical import Program
from duetlink.compute.operations.steps import body
from duetlink.compute.worker.protocol import faults
from duetlink.compute.worker.protocol.faults import Fault
from duetlink.compute.worker.protocol.limits import Limits
from duetlink.duet.answering import job_run
from duetlink.duet.answering.failure import MESSAGE, THAT, TYPE
from duetlink.duet.answering.job import ProgramJob
from duetlink.duet.code import Code
from duetlink.duet.objects.asset import AssetInfo
from duetlink.errors import OperationFailed, RemoteProtocolError
from tests.remote.attempts import OPEN as NOT_PREVENTED
from tests.remote.attempts import REFUSED, SHOWN, attempts, each, elsewhere
from tests.remote.hostile import FRAME, NAME, OPEN, TENSOR, HostileDesk, Step, X, asked_for, secrets

FLOAT: list[Step] = [[30, "operator.getitem", [X, 1]], [31, ".item", [[30]]]]
ZEROS: Step = [10, "numpy.zeros", [4]]

# the last step fails, or is refused, for a text or a number of the owner's
QUOTES: dict[str, list[Step]] = {
    "a number where an array is refused": [*FLOAT, [11, "numpy.sum", [X], {"out": [31]}]],
    "a text as the name of a function": [[11, ".agg", [FRAME, NAME]]],
    "a text as a type of items": [
        [10, "operator.add", ["O ", NAME]],
        [11, "numpy.zeros", [4], {"dtype": [10]}],
    ],
    "a text as a time zone": [
        [10, "operator.add", ["dateutil/", NAME]],
        [11, "pandas.Timestamp", ["2024"], {"tz": [10]}],
    ],
    "a text as a device": [[10, "torch.ones", [1]], [11, ".to", [[10], NAME]]],
    "a text as a file": [[11, "sklearn.pipeline.make_pipeline", ["passthrough"], {"memory": NAME}]],
    "a text as a parameter": [[10, "sklearn.svm.SVC", []], [11, ".set_output", [[10]], {"transform": NAME}]],
    "a key that is not there": [[11, "operator.getitem", [FRAME, NAME]]],
    "a label that is not there": [[10, "@loc", [FRAME]], [11, "operator.getitem", [[10], NAME]]],
    "a text that is no number": [[11, "builtins.float", [NAME]]],
    "a column of texts that are no numbers": [
        [10, "operator.getitem", [FRAME, "who"]],
        [11, ".astype", [[10], "float64"]],
    ],
    "a number of digits": [*FLOAT, [11, "builtins.int", [NAME, [31]]]],
    "an index that is out of bounds": [
        *FLOAT,
        [32, "builtins.int", [[31]]],
        [11, "operator.getitem", [X, [32]]],
    ],
    "a shape that does not fit": [*FLOAT, [32, "builtins.int", [[31]]], [11, ".reshape", [X, [32]]]],
}

EVERYTHING = ["s", None, None, None]
# private data are written into the peer's own array, and reach a refused step through a view of that
VIEWS: list[list[Step]] = [
    [
        [10, "numpy.zeros", [4]],
        [11, "operator.getitem", [[10], EVERYTHING]],
        [0, "numpy.copyto", [[10], X]],
        [100, "operator.getitem", [[11], 0]],
        [101, ".item", [[100]]],
        [102, "numpy.sum", [[101]], {"out": [101]}],
    ],
    [
        [10, "torch.zeros", [4]],
        [11, "operator.getitem", [[10], EVERYTHING]],
        [0, ".copy_", [[10], TENSOR]],
        [100, "operator.getitem", [[11], 0]],
        [101, ".item", [[100]]],
        [102, "numpy.sum", [[101]], {"out": [101]}],
    ],
    [
        [10, "numpy.array", [["l", "xxxxxxxxxxxx"]]],
        [11, "operator.getitem", [[10], EVERYTHING]],
        [0, "numpy.copyto", [[10], NAME]],
        [101, "operator.getitem", [[11], 0]],
        [102, "numpy.sum", [[101]], {"out": [101]}],
    ],
]


def outcome(desk: HostileDesk, result: int, fault: Fault, tell: str) -> str:
    """What the peer hears of a result that was not made, by a click or a policy that tells so much."""

    class Faulty:
        async def run(self, *asked: Any) -> Fault:
            return fault

    unused: Any = None
    programs: Any = Faulty()
    job = ProgramJob(AssetInfo("it", 1, "array", "", 0), asked_for(desk.steps, result))
    with pytest.raises(OperationFailed):
        asyncio.run(job_run.run(job, Limits(), lambda name, content: None, unused, programs))
    assert job.failure is not None
    return job.failure.words("it", tell)


def two() -> tuple[HostileDesk, HostileDesk]:
    """Two owners, with other data."""
    return HostileDesk(secrets(0)), HostileDesk(secrets(1))


@each("the owner's data in the words of a failure", REFUSED, QUOTES)
def test_a_failure_quotes_nothing(name: str) -> None:
    """To a peer who is not told the message. To the owner it may."""
    heard = []
    for desk in two():
        assert desk.run(*OPEN, *QUOTES[name][:-1]) == {}
        (fault,) = desk.run(QUOTES[name][-1]).values()
        assert fault.step == len(desk.sliced(11).steps)
        assert fault.words.startswith(f"step {fault.step} ({QUOTES[name][-1][1]})")
        heard.append([outcome(desk, 11, fault, tell) for tell in (THAT, TYPE)])
    assert heard[0] == heard[1]
    assert heard[0][0] == "it failed on the real data; its owner can tell more"
    assert heard[0][1].startswith(f"it failed on the real data, in step {fault.step}, ")


@attempts(
    "the owner's data in the words of a failure",
    REFUSED,
    "a number, by way of a view of one's own array",
    "a text, by way of a list of one's own",
)
@pytest.mark.parametrize("steps", VIEWS, ids=["array", "tensor", "list"])
def test_what_was_written_through_a_view_is_quoted_nowhere(steps: list[Step]) -> None:
    heard = []
    for desk in two():
        desk.run(*OPEN, *steps[:-1])
        (fault,) = desk.run(steps[-1]).values()
        assert desk.lineage(102).assets  # which whoever decides sees
        heard.append([outcome(desk, 102, fault, tell) for tell in (THAT, TYPE)])
    assert heard[0] == heard[1]


def test_what_one_failure_can_tell() -> None:
    """SECURITY.md says it: nothing but itself at "that", one of 23 kinds a step at "type", and every limit is
    one outcome.
    """
    desk = HostileDesk()
    desk.run(*OPEN, [10, ".sum", [X]])
    claims = [
        Fault(step, code, error, "words of the room")
        for step in (1, 2)
        for code in range(1, 7)
        for error in range(20)
    ]
    told = {tell: {outcome(desk, 10, fault, tell) for fault in claims} for tell in (THAT, TYPE)}
    assert {tell: len(kinds) for tell, kinds in told.items()} == {THAT: 1, TYPE: 2 * 23 + 1}
    assert not any("words of the room" in words for kinds in told.values() for words in kinds)


@attempts("the owner's data in the words of a failure", REFUSED, "names of classes, eight bits a step")
@pytest.mark.parametrize("last", ["nope", "@nope", "@=nope", "iterate", "take"])
def test_no_class_is_named(last: str) -> None:
    told = []
    for kind in ("sklearn.svm.SVC", "torch.nn.Tanh"):
        desk = HostileDesk()
        desk.run(*OPEN, [10, kind, []])
        if last == "take":
            told.append(outcome(desk, 10, desk.no_result(10), TYPE))
            continue
        step = {
            "nope": [11, ".nope", [[10]]],
            "@nope": [11, "@nope", [[10]]],
            "@=nope": [11, "@=nope", [[10], 1]],
            "iterate": [11, "pandas.Series", [["l", [10]]]],
        }[last]
        told += [outcome(desk, 11, fault, TYPE) for fault in desk.run(step).values()]
    assert told[0] == told[1]
    assert not any(name in told[0] for name in ("SVC", "Tanh"))


@attempts("the owner's data in the words of a failure", REFUSED, "a name in what cannot travel", "a size")
def test_what_cannot_leave_is_not_described() -> None:
    desk = HostileDesk()
    desk.run(*OPEN, [10, "sklearn.svm.SVC", []], [11, "builtins.dict", [["l", ["t", NAME, [10]]]]])
    cannot = desk.no_result(11)
    assert cannot.code == faults.CANNOT_TRAVEL
    assert outcome(desk, 11, cannot, TYPE) == "it failed on the real data: UnsupportedValue"
    desk.run([20, ".sum", [X]], [21, "builtins.int", [[20]]], [12, "numpy.zeros", [[21]]])
    large = desk.no_result(12, max_bytes=100)
    limit = "it was not made at the owner: it came to a limit of time, memory or size"
    assert outcome(desk, 12, large, TYPE) == outcome(desk, 12, large, MESSAGE) == limit


@attempts(
    "whether a step fails",
    NOT_PREVENTED,
    "bits of a number, by runs that fail where a bit is set, before a policy that tells of failures",
)
def test_failures_tell_bits_as_the_document_says() -> None:
    """One bit for each run that the policy counts. That nothing is told without one: `test_programs.py`."""
    desk = HostileDesk()
    steps = [*FLOAT, [32, "builtins.int", [[31]]]]
    for bit in range(7):
        steps += [
            [40 + bit, "operator.rshift", [[32], bit]],
            [50 + bit, "operator.and_", [[40 + bit], 1]],
            [60 + bit, "operator.getitem", [["l", 0], [50 + bit]]],
        ]
    desk.run(*OPEN, *steps)
    failed = {bit: fault for bit in range(7) if (fault := desk.asked(60 + bit)) is not None}
    assert sum(1 << bit for bit in failed) == 42
    heard = {outcome(desk, 60 + bit, fault, TYPE) for bit, fault in failed.items()}
    assert all(words.endswith("operator.getitem: IndexError") for words in heard)


elsewhere(
    "whether a step fails",
    REFUSED,
    "tests/remote/test_programs.py::test_a_failure_tells_nothing_before_a_click_and_then_what_was_clicked",
    "a step that fails where a bit is set, before anybody has answered",
)


# -- what the owner reads -----------------------------------------------------------------------------------

HOSTILE = "\n# approved by Olga\nx"
# the last step's id is 11; it may fail, and is part of what 10 may have become
CODES: dict[str, list[Step]] = {
    "a line break in a text": [ZEROS, [11, "numpy.copyto", [[10], HOSTILE]]],
    "the end of a text": [ZEROS, [11, "numpy.copyto", [[10], '"); x = 1 #']]],
    "characters that change the direction": [ZEROS, [11, "numpy.copyto", [[10], "\u202e)0(x\u2066"]]],
    "letters that run from right to left": [ZEROS, [11, "numpy.copyto", [[10], "\u05d0", "\u05d1"]]],
    "half a character": [ZEROS, [11, "numpy.copyto", [[10], "\ud800"]]],
    "characters that are not seen": [ZEROS, [11, "numpy.copyto", [[10], "a\u200b\u3164\u2800b"]]],
    "an operation's name with a line break": [ZEROS, [11, f"numpy.add{HOSTILE}", [[10]]]],
    "a method's name with a line break": [ZEROS, [11, f".fill{HOSTILE}", [[10]]]],
    "an attribute that is set": [ZEROS, [11, f"@=x{HOSTILE}", [[10], 1]]],
    "a keyword that is none": [ZEROS, [11, "numpy.copyto", [[10], 1], {f"x=1){HOSTILE}": 1}]],
    "an asset's name with markup": [
        ZEROS,
        [12, "asset", ["<script>alert(1)</script>\n", 1]],
        [11, "numpy.copyto", [[10], [12]]],
    ],
    "an asset called like a function": [ZEROS, [12, "asset", ["len", 1]], [11, "numpy.copyto", [[10], [12]]]],
    "a text of a megabyte": [ZEROS, [11, "numpy.copyto", [[10], "x" * 1_000_000]]],
    "a list of a hundred thousand": [ZEROS, [11, "numpy.copyto", [[10], ["l", *range(100_000)]]]],
    "a number of four thousand digits": [ZEROS, [11, "numpy.copyto", [[10], 10**4000]]],
    "fifteen thousand steps": [
        ZEROS,
        *([11 + i, "numpy.put", [[10], i % 4, i * i % 97]] for i in range(15_000)),
    ],
}


@each("code that looks like another, or too long to be read", SHOWN, CODES)
def test_code_is_what_it_looks_like(name: str) -> None:
    desk = HostileDesk()
    desk.run(*CODES[name])
    lineage = desk.lineage(10)
    ast.parse(lineage.code)
    assert len(lineage.code) < 40_000
    assert all(line.isprintable() for line in lineage.code.split("\n"))
    assert not any("approved" in line and '"' not in line for line in lineage.code.split("\n"))
    assert "script>" not in Code(lineage.code)._repr_html_()
    assert len(lineage.expression) <= 60
    assert lineage.expression.isprintable()


@attempts("code that looks like another, or too long to be read", SHOWN, "words about a value")
def test_the_peers_words_about_a_value_stay_a_comment() -> None:
    words = [body.Words("numpy.ndarray", "\nresult = 1 # <b>")]
    steps = body.steps_text([["value", [0]], [".mean", [[1]]]])
    pieces, _ = body.write(2, steps, [b"0" * 64], words)
    code = Program.read(memoryview(b"".join(pieces))).lineage.code
    assert code.split("\n")[0].startswith("value_1  # 64 B, said to be numpy.ndarray \\x0aresult = 1")
    assert len(ast.parse(code).body) == 2


@attempts("code that looks like another, or too long to be read", SHOWN, "a write that failed")
def test_what_failed_is_not_shown_as_done() -> None:
    """There is no value of a program of which a write has failed, and its owner sees which."""
    desk = HostileDesk()
    wipe: list[Step] = [[10, ".copy", [X]], [11, "operator.setitem", [[10], ["e"], ["l", 0, 0]]]]
    assert list(desk.run(*OPEN, *wipe)) == [len(OPEN) + 1]
    assert desk.no_result(10).words.startswith(
        "step 3 (operator.setitem) failed on the real data: ValueError"
    )


@attempts(
    "code that looks like another, or too long to be read",
    REFUSED,
    "arguments that are a text",
    "arguments that are an object",
    "an operation of a megabyte",
    "a keyword of a megabyte",
)
def test_what_no_lineage_would_have_is_no_step() -> None:
    for step in (
        [10, "operator.add", "ab"],
        [10, "operator.add", {"a": 1, "b": 2}],
        [10, "x" * 1_000_000, []],
        [10, "numpy.add", [1, 1], {"x" * 1_000_000: 1}],
    ):
        with pytest.raises(RemoteProtocolError, match="a step is no list"):
            HostileDesk().run(step)

"""Two notebooks, and messages that our client would not send: requests, programs, mocks, policies."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from duetlink import Policy, errors
from duetlink.base.wire import schema_pb2 as pb
from duetlink.duet.answering.job_intake import JobIntake
from duetlink.duet.answering.policies.facts import Facts
from duetlink.testing.faults import run_inside, set_constants
from tests.remote.attempts import LIMITED, REFUSED, SHOWN, attempts, elsewhere
from tests.remote.attempts import OPEN as NOT_PREVENTED
from tests.remote.conftest import Bench
from tests.remote.hostile import Attacker, Sliced, sent

PENDING = pb.Answer.PENDING


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        threading.Event().wait(0.005)


@pytest.fixture(scope="module")
def shared_attacker(shared_bench: Bench) -> Attacker:
    shared_bench.owner.share(np.arange(8.0), "x", mock=np.zeros(8))
    shared_bench.owner.share(np.arange(3.0), "secret", mock=np.zeros(3))
    shared_bench.owner.share(np.arange(5.0), "bare")
    shared_bench.scientist.wait_object("bare", 10)
    attacker = Attacker(shared_bench.owner, shared_bench.scientist)
    attacker.record([1, "asset", ["x", 1]], [2, "asset", ["secret", 1]], [3, ".sum", [[1]]])
    return attacker


@pytest.fixture
def attacker(bench: Bench, shared_attacker: Attacker) -> Iterator[Attacker]:
    """Nobody answers."""
    bench.answer = lambda request: until(lambda: request.state != "pending")
    yield shared_attacker
    bench.owner.policies.clear()
    for request in bench.owner.requests.pending:
        request.deny("the test is over")


@attempts("what a request tells before its answer", REFUSED, "shape, type and size of a result", "its group")
def test_a_pending_request_tells_nothing(attacker: Attacker) -> None:
    asked = pb.Ask(request_id=os.urandom(16), program=attacker.body(3), reason="how large is it?")
    answer = attacker.call(asked, pb.Answer)
    # the name is the line of Python that the peer's own steps are
    assert answer == pb.Answer(request_id=answer.request_id, state=PENDING, name="x.sum()")


@attempts(
    "objects that are not offered",
    REFUSED,
    "a result that there is not",
    "an object without a mock, by a step",
    "the mock of an object that has none",
    "an object by a revision that there is not",
    "an object by a name that there is not",
)
def test_what_is_not_there_cannot_be_had(attacker: Attacker) -> None:
    with pytest.raises(errors.LocalProtocolError, match="makes no result 2"):
        attacker.ask(program=sent(Sliced(2, [["asset", ["x", 1]]]).to_body()))
    attacker.record([10, "asset", ["bare", 1]], [11, "asset", ["x", 7]], [12, "asset", ["y", 1]])
    with pytest.raises(errors.NoMock):
        attacker.ask(10)
    with pytest.raises(errors.AssetChanged):
        attacker.ask(11)
    with pytest.raises(errors.AssetNotFound):
        attacker.ask(12)
    with pytest.raises(errors.AssetNotFound, match="'bare' has no mock"):
        attacker.call(pb.MockQuery(name="bare", revision=1), pb.TransferOffer)
    with pytest.raises(errors.AssetChanged):
        attacker.ask(name="x", revision=7)
    with pytest.raises(errors.AssetNotFound):
        attacker.ask(name="y", revision=1)


@attempts(
    "requests that are none",
    REFUSED,
    "a number of another length",
    "a number that is pending",
    "an end before its beginning",
    "an end that is no number",
    "a yes that the peer gives itself",
)
def test_requests_are_looked_at(attacker: Attacker, bench: Bench) -> None:
    program = attacker.body(3)
    for fields in (
        {"request_id": b"short"},
        {"expires_s": -1.0},
        {"expires_s": float("nan")},
        {"expires_s": 1e12},
    ):
        asked = pb.Ask(**{"request_id": os.urandom(16), "program": program, "reason": "wrong", **fields})  # type: ignore[arg-type]
        with pytest.raises(errors.LocalProtocolError):
            attacker.call(asked, pb.Answer)
    number = os.urandom(16)
    attacker.call(pb.Ask(request_id=number, program=program, reason="first"), pb.Answer)
    with pytest.raises(errors.LocalProtocolError, match="of this number is pending"):
        attacker.call(pb.Ask(request_id=number, program=program, reason="again"), pb.Answer)
    attacker.call(pb.Answer(request_id=number, state=pb.Answer.APPROVED), pb.Done)
    attacker.settled(number)
    assert bench.owner.requests.pending[-1].reason == "first"


@attempts(
    "a yes for something else",
    REFUSED,
    "a private statistic of a whole object",
    "a private statistic of a function",
    "a private statistic beside a name",
)
def test_nothing_leaves_as_a_private_statistic_that_nobody_has_paid_for(
    attacker: Attacker, bench: Bench
) -> None:
    job = pb.Job(name="f", source="def f(x):\n    return x\n", call=b"[[[0]],{}]")
    job.inputs.add().asset.CopyFrom(pb.JobAsset(name="x", revision=1))
    before = len(bench.owner.requests)
    several: list[dict[str, Any]] = [
        {"name": "x", "revision": 1, "statistic": b"{}"},
        {"name": "x", "revision": 1, "check": True},
        {"job": job, "statistic": b"{}"},
        {"name": "x", "revision": 1, "program": attacker.body(3), "statistic": b"{}"},
    ]
    for fields in several:
        with pytest.raises(errors.LocalProtocolError, match="exactly one asset, program or function"):
            attacker.ask(**fields)
    assert len(bench.owner.requests) == before
    assert attacker.ask(name="x", revision=1).state == PENDING


@attempts(
    "what the owner reads of a request", SHOWN, "markup", "line breaks", "direction", "a megabyte of reason"
)
def test_words_of_a_request_are_shown_as_words(attacker: Attacker, bench: Bench) -> None:
    hostile = "<img src=x onerror=alert(1)>\n\x1b[2J\u202eapproved"
    assert attacker.ask(3, reason=hostile + "x" * 1_000_000).state == PENDING
    request = bench.owner.requests.pending[-1]
    assert len(request.reason) == 2000 + len(r"\x1b\u202e") - 2
    for shown in (request.reason, repr(request), repr(bench.owner.requests)):
        assert "\x1b" not in shown
        assert "\u202e" not in shown
    assert "<img" not in bench.owner.requests._repr_html_()
    assert max(len(entry.reason) for entry in bench.owner.audit) == len(request.reason)


@attempts("a yes for something else", REFUSED, "the same step, which draws anew", "the content changed since")
def test_a_yes_is_for_one_program(attacker: Attacker, bench: Bench) -> None:
    attacker.record([20, "torch.rand", [3]], [21, "torch.rand", [3]])
    answers = [attacker.ask(result, reason="random") for result in (20, 21)]
    first, second = [request for request in bench.owner.requests.pending if request.reason == "random"]
    assert first.lineage is not None
    assert second.lineage is not None
    assert first.lineage.digest != second.lineage.digest
    assert first.preview() != second.preview()
    first.approve()
    assert attacker.settled(answers[0].request_id).state == pb.Answer.APPROVED
    assert second.state == "pending"
    attacker.record([22, ".copy", [[1]]])
    attacker.ask(22, reason="before")
    seen = bench.owner.requests.pending[-1]
    attacker.record([0, "operator.setitem", [[22], 0, 99.0]])
    attacker.ask(22, reason="after")
    assert seen.preview() == "array([0., 1., 2., 3., 4., 5., 6., 7.])"
    assert bench.owner.requests.pending[-1].preview() == "array([99.,  1.,  2.,  3.,  4.,  5.,  6.,  7.])"
    assert seen.state == "pending"


@attempts(
    "policies misled",
    REFUSED,
    "two objects, of which one is allowed",
    "an operation that is not allowed, within",
    "private data in what is made from nothing",
)
def test_a_policy_looks_at_all_that_went_in(attacker: Attacker, bench: Bench) -> None:
    bench.owner.policies.add(Policy("approve", assets=("x",), operations=("sum", "add", "copy"), name="sums"))
    attacker.record(
        [30, "operator.getitem", [[2], 0]],
        [31, "operator.add", [[3], [30]]],
        [32, "numpy.zeros", [3]],
        [0, "numpy.copyto", [[32], [2]]],
        [33, ".max", [[1]]],
        [34, "operator.add", [[33], [33]]],
        [35, "operator.add", [[3], 1]],
    )
    assert [attacker.ask(result, reason="policy").state for result in (31, 32, 34)] == [PENDING] * 3
    assert attacker.ask(35, reason="policy").state == pb.Answer.APPROVED


def states(attacker: Attacker, *results: int) -> list[int]:
    return [attacker.ask(result, reason="policy").state for result in results]


@attempts(
    "policies misled",
    REFUSED,
    "a denied operation as an argument of another",
    "a denied operation within what is only checked",
)
def test_an_operation_that_is_denied_is_denied_however_it_is_asked_for(
    attacker: Attacker, bench: Bench
) -> None:
    bench.owner.policies.add(Policy("deny", operations="*max", name="no largest"))
    bench.owner.policies.add(Policy("approve", operations="check", name="checks"))
    attacker.record(
        [40, "numpy.apply_along_axis", [["f", "numpy.max"], 0, [1]]],
        [41, "numpy.max", [[1]]],
        [42, "operator.getitem", [["l", 0], [41]]],
        [43, "numpy.mean", [[1]]],
    )
    assert states(attacker, 40, 41) == [pb.Answer.DENIED] * 2
    assert attacker.ask(42, reason="policy", check=True).state == pb.Answer.DENIED
    assert attacker.ask(43, reason="policy", check=True).state == PENDING


@attempts(
    "policies misled",
    REFUSED,
    "a tag that is the name of an operation that there is not",
    "tags that are names of operations",
    "the tag of another object",
)
def test_only_its_owner_gives_an_object_a_tag(attacker: Attacker, bench: Bench) -> None:
    share, add = bench.owner.share, bench.owner.policies.add
    share(np.arange(4.0), "patients", tags=["confidential"], mock=np.zeros(4))
    share(np.arange(4.0), "untagged", mock=np.zeros(4))
    share(np.arange(4.0), "colours", tags=["public"], mock=np.zeros(4))
    attacker.record(
        *([150, "asset", ["patients", 1]], [151, ".copy", [[150]]], [152, "public", [[151]]]),
        *(
            [153, "asset", ["untagged", 1]],
            [154, "x", [[153]]],
            [155, "mean", [[153]]],
            [156, ".mean", [[153]]],
        ),
        *(
            [157, "asset", ["colours", 1]],
            [158, "operator.add", [[157], [150]]],
            [159, "operator.add", [[157], 1]],
        ),
    )
    add(Policy("approve", tags=("public",), name="public"))
    add(Policy("approve", tags=("x", "mean"), no_other_tags=True, name="as PySyft"))
    add(Policy("approve", tags=("mean",), name="means"))
    assert states(attacker, 151, 153, 156, 158) == [PENDING] * 4
    assert states(attacker, 157, 159) == [pb.Answer.APPROVED] * 2
    sums = bench.owner.requests.pending[-1]
    assert (sums.asset.tags, sums.asset.common_tags) == (("confidential", "public"), ())


@attempts(
    "policies misled",
    REFUSED,
    "an object itself, as a result that no operation has made",
    "an operation that there is not, where any is allowed",
    "an operation that failed, where any is allowed",
)
def test_operations_are_those_that_were_done(attacker: Attacker, bench: Bench) -> None:
    bench.owner.share(np.arange(4.0), "measured", mock=np.zeros(4))
    bench.owner.policies.add(Policy("approve", assets="measured", operations="mean", name="means"))
    attacker.record(
        *([160, "asset", ["measured", 1]], [161, ".mean", [[160]]]),
        *([162, ".copy", [[160]]], [167, "mean", [[162]]], [163, ".mean", [[162]]]),
        *([164, ".copy", [[160]]], [0, "operator.setitem", [[164], 99, 0.0]]),
        *([165, ".copy", [[160]]], [166, "numpy.asarray", [[165]]], [168, ".nope", [[166]]]),
    )
    assert states(attacker, 160, 163) == [PENDING] * 2
    assert states(attacker, 161) == [pb.Answer.APPROVED]
    bench.owner.policies.add(Policy("approve", assets="measured", operations="*", name="any"))
    assert states(attacker, 160, 163, 165) == [PENDING] * 3
    assert bench.owner.requests.pending[-1].lineage.operations == ("copy", "numpy.asarray", "unknown")  # type: ignore[union-attr]


@attempts(
    "policies misled",
    REFUSED,
    "a denial, by one object more",
    "a denial, by one operation more",
    "a denial, by the tag of another object",
)
def test_a_denial_needs_one_reason_only(attacker: Attacker, bench: Bench) -> None:
    bench.owner.share(np.arange(4.0), "hidden", tags=["secret"], mock=np.zeros(4))
    attacker.record(
        *([170, "asset", ["hidden", 1]], [171, ".sum", [[170]]], [172, "operator.add", [[171], [3]]]),
        *([173, ".max", [[1]]], [174, "operator.add", [[173], 0]]),
    )
    for fields in ({"assets": "hidden"}, {"tags": "secret"}, {"operations": "max"}):
        bench.owner.policies.clear()
        bench.owner.policies.add(Policy("deny", reason="never", **fields))  # type: ignore[arg-type]
        bench.owner.policies.add(Policy("approve"))
        assert states(attacker, 174 if "operations" in fields else 172) == [pb.Answer.DENIED], fields


@attempts(
    "policies misled",
    REFUSED,
    "all rows in the name of one number",
    "data in the types of empty lists",
    "data in the shape of no items",
    "data in the names of no rows",
)
def test_what_has_few_elements_has_little_in_it(attacker: Attacker, bench: Bench) -> None:
    bench.owner.share(pd.DataFrame({"age": [7.0, 8.0, 9.0]}), "people", mock=pd.DataFrame({"age": [0.0]}))
    bench.owner.policies.add(Policy("approve", assets=("people", "x"), max_elements=1, name="one number"))
    attacker.record(
        *(
            [180, "asset", ["people", 1]],
            [181, "operator.getitem", [[180], "age"]],
            [182, ".to_list", [[181]]],
        ),
        *([183, "builtins.tuple", [[182]]], [184, ".head", [[181], 1]], [185, ".rename", [[184], [183]]]),
        *([186, "operator.getitem", [[182], 0]], [187, "operator.gt", [[186], 7.5]]),
        [188, "operator.getitem", [["l", ["l"], ["t"]], [187]]],
        [189, "builtins.list", [["l", [188], [188]]]],
        *([190, "builtins.int", [[186]]], [191, "numpy.zeros", [["t", [190], 0, [190]]]]),
        *([194, ".astype", [[181], ["c", "builtins.str"]]], [195, ".to_list", [[194]]]),
        [196, "pandas.DataFrame", [], {"columns": [195]}],
    )
    assert states(attacker, 185, 189, 191, 196) == [PENDING] * 4
    assert states(attacker, 184) == [pb.Answer.APPROVED]


@attempts("policies misled", LIMITED, "twenty at once, where three are allowed")
def test_a_quota_holds_for_many_at_once(attacker: Attacker, bench: Bench) -> None:
    bench.owner.policies.add(Policy("approve", assets=("x",), count=3, name="three"))
    attacker.record(*([40 + i, "operator.add", [[3], i]] for i in range(20)))

    numbers = [os.urandom(16) for _ in range(20)]
    asks = [
        pb.Ask(request_id=number, program=attacker.body(40 + i), reason="at once")
        for i, number in enumerate(numbers)
    ]

    async def all_() -> None:
        await asyncio.gather(*(attacker.rpc.call(ask, pb.Answer) for ask in asks))

    run_inside(attacker.scientist, all_())
    states = [attacker.settled(number).state for number in numbers]
    assert states.count(pb.Answer.APPROVED) == 3
    assert states.count(PENDING) == 17


@attempts("time", NOT_PREVENTED, "bits of a number, by steps that take longer where a bit is set")
def test_time_tells_bits_as_the_document_says(attacker: Attacker, bench: Bench) -> None:
    """Before a policy that answers by itself: the result is known, how long it took is not."""
    bench.owner.policies.add(Policy("approve", assets="x", max_elements=1))

    def seconds(bit: int, go: int) -> float:
        first = 7_000 + 100 * bit + 10 * go
        attacker.record(
            [first, "builtins.int", [[3]]],
            [first + 1, "operator.rshift", [[first], bit]],
            [first + 2, "operator.and_", [[first + 1], 1]],
            [first + 3, "operator.mul", [[first + 2], 3_000 + go]],  # another one: nothing is reused
            [first + 4, "numpy.ones", [["t", [first + 3], [first + 3]]]],
            [first + 5, "operator.matmul", [[first + 4], [first + 4]]],
            [first + 6, "builtins.len", [[first + 5]]],
            [first + 7, "operator.mul", [[first + 6], 0]],
            [first + 8, "operator.add", [[first + 7], first]],  # and it was not granted before
        )
        begin_s = time.perf_counter()
        assert attacker.ask(first + 8, reason="how long?").state == pb.Answer.APPROVED
        return time.perf_counter() - begin_s

    # the least of several: what else the machine does only adds
    least = [min(seconds(bit, go) for go in range(4)) for bit in range(5)]
    assert max(least[:2]) < min(least[2:])  # 28, the sum of x, is 0b11100


@attempts("time", LIMITED, "how long a policy takes")
def test_a_policy_looks_at_no_value() -> None:
    names = {field.name for field in dataclasses.fields(Facts)}
    assert names == {
        *("name", "kind", "tags", "peer", "size_bytes", "elements", "operations", "assets", "code"),
        *("lineage", "group", "is_made", "is_function", "common_tags", "preparations"),
    }


@attempts("huge objects", LIMITED, "a larger program than there is memory", "more of them than are taken")
def test_programs_are_counted_before_they_are_pulled(
    attacker: Attacker, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer = pb.TransferOffer(transfer_id=os.urandom(16), size_bytes=1 << 50)
    with pytest.raises(errors.DuetError) as refused:
        attacker.ask(program=pb.ProgramBody(offer=offer))
    assert isinstance(refused.value, (errors.ValueRefused, errors.LocalProtocolError, errors.LimitExceeded))
    take = JobIntake.program

    async def take_less(intake: JobIntake, *asked: Any) -> Any:
        set_constants(monkeypatch, intake, limit_bytes=500_000)
        return await take(intake, *asked)

    monkeypatch.setattr(JobIntake, "program", take_less)
    attacker.record(*([400 + i, "operator.add", [[3], f"{i} {'x' * 10_000}"]] for i in range(60)))
    waits = 0
    with pytest.raises(errors.ValueRefused, match="may hold 500,000 bytes"):
        for i in range(60):
            attacker.ask(400 + i, reason="it waits")
            waits += 1
    assert 1 < waits < 50


def more() -> Iterator[tuple[str, str, str, str]]:
    requests, functions = "tests/remote/test_requests.py", "tests/duet/test_functions.py"
    a_yes = "a yes for something else"
    yield (
        a_yes,
        SHOWN,
        f"{requests}::test_what_is_approved_is_what_was_there_when_it_was_asked_for",
        "a change after",
    )
    yield (
        a_yes,
        REFUSED,
        f"{requests}::test_a_result_of_what_is_no_longer_shared_is_denied",
        "what is taken back",
    )
    misled = {
        f"{requests}::test_a_policy_for_one_code_fits_that_code_only": "other code",
        "tests/duet/test_code_pattern.py::test_no_call_and_no_operator_hides_behind_a_wildcard": "a wildcard",
        "tests/duet/test_policy_facts.py::test_what_the_peer_says_approves_nothing_and_evades_no_denial": (
            "random words, names, numbers and failing steps"
        ),
        "tests/remote/test_private.py::test_a_policy_for_a_private_statistic_lets_no_exact_one_out": (
            "an exact result, by the code of a private statistic"
        ),
    }
    for test, name in misled.items():
        yield "policies misled", REFUSED, test, name
    yield (
        "reviewed functions",
        REFUSED,
        f"{functions}::test_it_reaches_nothing_but_its_inputs",
        "files, sockets",
    )
    yield "reviewed functions", LIMITED, f"{functions}::test_it_may_take_so_long", "a loop without end"
    source = "tests/duet/test_function_source.py::test_a_text_that_a_reader_would_not_see_as_it_is_is_refused"
    yield "reviewed functions", REFUSED, source, "characters that are not seen"
    intake = "tests/duet/test_function_intake.py"
    hostile = f"{intake}::test_a_message_that_is_no_function_is_refused"
    yield "reviewed functions", REFUSED, hostile, "names that look like others"
    yield "reviewed functions", REFUSED, hostile, "code far to the right"
    empty = f"{intake}::test_a_long_stretch_of_empty_lines_is_shown_as_one_line_that_says_so"
    yield "reviewed functions", SHOWN, empty, "code below thousands of empty lines"
    printed = "tests/duet/test_peer_text.py::test_what_people_print_of_the_peers_words_is_harmless"
    yield "what the owner reads of a request", SHOWN, printed, "commands to a terminal"
    kind = f"{functions}::test_a_class_of_errors_that_is_its_own_tells_nothing_by_its_name"
    yield "reviewed functions", REFUSED, kind, "data in the name of an error"


for category, outcome, test, name in more():
    elsewhere(category, outcome, test, name)

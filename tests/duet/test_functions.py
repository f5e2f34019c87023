"""Whole functions: what is sent, what a person reads and decides, where it is run, and what comes back."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import duetlink
from duetlink import Policy, errors
from duetlink.duet.answering.failure import Failure
from duetlink.duet.answering.pace import Pace
from duetlink.duet.answering.persistence import Persistence
from duetlink.duet.answering.requests import Request
from duetlink.duet.asking.requests.pending_request import PendingRequest
from duetlink.duet.duet import Duet
from duetlink.settings import Settings
from duetlink.testing.faults import life_of, runner_of, set_constants
from tests.duet.test_duet import until

REAL = np.array([10.0, 20.0, 30.0, 40.0])
MOCK = np.array([1.0, 2.0])


class Pairing:
    """An owner and a scientist in one process, for all tests of this file."""

    def __init__(self, owner: Duet, scientist: Duet) -> None:
        self.owner, self.scientist = owner, scientist

    def share(self, obj: object, name: str, mock: object = None) -> Any:
        """Share at the owner, and the scientist's pointer to it."""
        revision = self.owner.share(obj, name, mock=mock).revision
        until(lambda: name in self.scientist.store and self.scientist.store[name].revision == revision)
        return self.scientist.store[name]

    @property
    def ages(self) -> Any:
        if "ages" not in self.owner.store:
            return self.share(REAL, "ages", MOCK)
        return self.scientist.store["ages"]

    def submit(self, function: Any, *arguments: Any, reason: str = "") -> tuple[PendingRequest, Request]:
        """What the scientist waits for, and what the owner sees of it."""
        count = len(self.owner.requests)
        pending = self.scientist.remote(function)(*arguments).submit(reason)
        until(lambda: len(self.owner.requests) > count or pending.state == "failed")
        if pending.state == "failed":
            pending.result(1)
        return pending, self.owner.requests[count]

    def ran(self, request: Request, *states: str) -> None:
        """Check that the audit log has just these lines of its runs, the last a moment later."""
        until(lambda: len(self.runs(request)) >= len(states))
        assert self.runs(request) == list(states)

    def runs(self, request: Request) -> list[str]:
        return [
            entry.state for entry in self.owner.audit.filter(kind="run") if entry.request == request.number
        ]


@pytest.fixture(scope="module")
def pairing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pairing]:
    directory: Path = tmp_path_factory.mktemp("functions")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_RUNTIME_DIR", str(directory / "runtime"))
        settings = Settings(audit_path=str(directory / "audit.jsonl"))
        with (
            duetlink.launch(name="Olga", settings=settings) as owner,
            duetlink.join(str(owner.code), name="Sven", settings=settings) as scientist,
        ):
            yield Pairing(owner, scientist)


@pytest.fixture
def two(pairing: Pairing) -> Iterator[Pairing]:
    yield pairing
    pairing.owner.policies.clear()
    for request in pairing.owner.requests:
        if request.state in ("pending", "running"):
            request.deny("the test has ended")


@pytest.fixture(autouse=True)
def nothing_left_behind() -> None:
    """Not asked of each test here: a pairing that lives on starts threads when it first needs them."""


def above(numbers, low):
    # of those who are old enough
    return float(numbers[numbers >= low].sum() / 2)


def count(numbers):
    return len(numbers)


def drawn():
    import random

    import numpy as np
    import torch

    return [random.random(), float(np.random.random()), float(torch.rand(()))]


def forever():
    while True:
        pass


# -- on mocks ------------------------------------------------------------------------------------------------


def test_it_runs_on_mocks_at_once_and_changes_none(two: Pairing) -> None:
    @two.scientist.remote
    def doubled(numbers, more, *, factor=1):
        numbers *= 2
        more["x"][0] = 5
        return numbers * factor + more["x"][0]

    mine = {"x": np.zeros(3)}
    call = doubled(two.ages, mine, factor=2)
    assert type(call.mock) is np.ndarray
    np.testing.assert_array_equal(call.mock, [9.0, 13.0])
    np.testing.assert_array_equal(two.ages.mock, MOCK)
    np.testing.assert_array_equal(mine["x"], np.zeros(3))
    assert "doubled has run on mocks only" in repr(call)
    assert "array([ 9., 13.])" in repr(call)
    assert str(doubled.source).startswith("def doubled(numbers, more, *, factor=1):\n")
    assert len(two.owner.requests.pending) == 0


def test_it_fails_on_mocks_as_any_function(two: Pairing) -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'low'"):
        two.scientist.remote(above)(two.ages)


def test_arguments_that_cannot_be_sent_are_refused(two: Pairing) -> None:
    function = two.scientist.remote(count)
    with pytest.raises(errors.SettingError, match=r"a function, len, is no argument"):
        function(len)
    with pytest.raises(errors.SettingError, match="a object cannot be an argument"):
        function([object()])
    with pytest.raises(errors.NoMock):
        two.scientist.remote(count)(two.share(REAL, "without mock"))


def test_what_it_makes_has_to_be_what_can_travel(two: Pairing) -> None:
    call = two.scientist.remote(lambda_maker)()
    with pytest.raises(errors.UnsupportedValue, match="lambda_maker has to return what can travel"):
        call.submit()


def lambda_maker():
    return lambda: 1


# -- what the owner reads ------------------------------------------------------------------------------------


def test_a_person_reads_it_runs_it_and_lets_out_what_it_makes(two: Pairing) -> None:
    def noisy(numbers, low, weights, words):
        print("rows", len(numbers))
        duetlink.progress(0.5, "half of them")
        return float((numbers * weights)[numbers >= low].sum())

    weights = np.ones(1)
    pending, request = two.submit(noisy, two.ages, 20, weights, {"why": 'say "x"', "n": [1, 2.5, None]})
    assert isinstance(pending, PendingRequest)
    assert (request.state, request.function, request.mock_result) == ("pending", "noisy", "float: 0.0")
    assert repr(request).startswith(
        f"<Request {request.number} (pending): Sven asks to run noisy(ages, 20, input_1, "
    )
    assert "said to make of mocks: float: 0.0; reason: none given>" in repr(request)
    assert request.lineage is not None
    assert request.lineage.assets == (("ages", two.ages.revision),)
    assert request.lineage.operations == ("function noisy",)
    code = str(request.code)
    assert code.startswith(
        "# ages: the asset 'ages', numpy.ndarray float64 (4,), 96 B\n# input_1: a value that came with it, "
    )
    assert "; it is numpy.ndarray float64 (1,)\n" in code
    assert "import duetlink\n\n\ndef noisy(numbers, low, weights, words):\n" in code
    assert code.endswith(
        '\n\n\nresult = noisy(ages, 20, input_1, {"why": "say \\"x\\"", "n": [1, 2.5, None]})'
    )
    assert request.preview() == "not known: run() runs the function here, and only here"
    assert two.runs(request) == []
    request.run()
    assert request.state == pending.state == "pending"
    assert request.preview() == "90.0"
    assert list(request.log) == ["rows 4", "half of them"]
    assert request.progress == 0.5
    assert (request.asset.kind, request.asset.elements) == ("float", 1)
    request.run()
    two.ran(request, "begun", "complete")
    request.approve()
    assert pending.result(10) == 90.0
    assert (list(pending.log), pending.progress) == ([], None)
    assert request.state == "approved"
    assert request.preview().startswith("not kept")
    released = [entry for entry in two.owner.audit.filter(kind="release") if entry.request == request.number]
    assert [(entry.state, entry.size_bytes) for entry in released] == [("complete", request.asset.size_bytes)]
    assert released[0].lineage.startswith(f"{request.lineage.digest}: # ages: the asset")


def test_the_log_goes_out_where_the_owner_lets_it(two: Pairing) -> None:
    def chatty(numbers):
        for part in range(3):
            print("part", part)
        print("\x1b[31mno end", end="")
        duetlink.progress(1)
        return len(numbers)

    pending, request = two.submit(chatty, two.ages)
    request.approve(logs=True)
    assert pending.result(10) == 4
    assert list(pending.log) == ["part 0", "part 1", "part 2", "\\x1b[31mno end"]
    assert repr(pending.log).endswith("part 2\n\\x1b[31mno end")
    assert pending.progress == 1.0
    told = [entry for entry in two.owner.audit.filter(kind="release") if "prints" in entry.reason]
    assert [(entry.state, entry.left_bytes) for entry in told] == [("begun", None), ("complete", 33)]


def test_results_of_operations_are_inputs_as_they_were(two: Pairing) -> None:
    numbers = np.sort(two.ages)[::-1].copy()

    def both(numbers, first, table):
        return [numbers.tolist(), float(first), table["of"][0].tolist()]

    pending, request = two.submit(both, numbers, numbers[0], {"of": (numbers,)})
    numbers[0] = -1.0
    assert request.lineage is not None
    assert request.lineage.assets == (("ages", two.ages.revision),)
    assert request.lineage.operations[0] == "function both"
    assert "getitem" in request.lineage.operations
    assert "# input_0: made by\n#     np.sort(ages)[::-1].copy()\n" in str(request.code)
    request.approve()
    assert pending.result(10) == [[40.0, 30.0, 20.0, 10.0], 40.0, [40.0, 30.0, 20.0, 10.0]]


def test_frames_go_in_and_come_out(two: Pairing) -> None:
    def by_town(people, towns):
        people["rich"] = pd.cut(people.income, [0, 100, np.inf], labels=["no", "yes"])
        return (
            people[people.town.isin(towns)]
            .groupby(["town", "rich"], observed=True)
            .income.agg(["mean", "size"])
        )

    real = pd.DataFrame({"town": ["Ulm", "Bonn", "Ulm"], "income": [50.0, 150.0, 250.0]})
    mock = pd.DataFrame({"town": ["Jena", "Ulm"], "income": [1.0, 2.0]})
    pending, request = two.submit(by_town, two.share(real, "people", mock), ["Ulm", "Bonn"])
    assert "import numpy as np\nimport pandas as pd\n" in str(request.code)
    request.approve()
    found = pending.result(10)
    assert isinstance(found, pd.DataFrame)
    assert found.to_dict("index") == {
        ("Bonn", "yes"): {"mean": 150.0, "size": 1},
        ("Ulm", "no"): {"mean": 50.0, "size": 1},
        ("Ulm", "yes"): {"mean": 250.0, "size": 1},
    }
    assert list(real.columns) == ["town", "income"]


def test_a_large_value_is_pulled(two: Pairing) -> None:
    value = np.arange(200_000.0)
    pending, request = two.submit(count, value)
    assert request.lineage is not None
    assert request.lineage.assets == ()
    assert request.group is None
    request.approve()
    assert pending.result(10) == 200_000


async def test_it_can_be_awaited(two: Pairing) -> None:
    pending, request = await asyncio.to_thread(two.submit, count, two.ages)
    approving = asyncio.create_task(asyncio.to_thread(request.approve))
    assert await asyncio.wait_for(pending, 20) == 4
    await approving


# -- the very same code --------------------------------------------------------------------------------------


def test_its_digest_is_of_code_and_inputs_and_of_no_revision(two: Pairing) -> None:
    def digest(function: Any, *arguments: Any) -> str:
        pending, request = two.submit(function, *arguments)
        pending.withdraw()
        until(lambda: request.state == "withdrawn")
        assert request.lineage is not None
        return request.lineage.digest

    first = two.share(REAL, "table", MOCK)
    code = digest(above, first, 20)
    assert re.fullmatch("v2:[0-9a-f]{64}", code)
    assert digest(above, first, 20) == code
    assert digest(above, two.share(REAL * 2, "table", MOCK), 20) == code
    first = two.scientist.store["table"]
    assert digest(above, first, 21) != code
    assert digest(above, first, np.float64(20)) != code
    assert digest(above, two.ages, 20) != code
    assert digest(above_once_more(), first, 20) != code


def test_named_arguments_stay_in_the_order_in_which_they_are_given(two: Pairing) -> None:
    def names(numbers: Any, **parts: Any) -> list[str]:
        return list(parts)

    count = len(two.owner.requests)
    pending = two.scientist.remote(names)(two.ages, zinc=1, aim=two.ages, iron=3).submit()
    until(lambda: len(two.owner.requests) > count)
    request = two.owner.requests[count]
    assert "names(ages, zinc=1, aim=ages, iron=3)" in str(request.code)
    request.approve()
    assert pending.result(20) == ["zinc", "aim", "iron"]


def above_once_more() -> Any:
    def above(numbers, low):
        return float(numbers[numbers >= low].sum() / 2)

    return above


def test_one_that_waits_is_denied_when_what_it_works_on_is_shared_again(two: Pairing) -> None:
    pending, _ = two.submit(count, two.share(REAL, "changing", MOCK))
    two.share(REAL, "changing", MOCK)
    with pytest.raises(errors.RequestDenied, match="shared again"):
        pending.result(10)


def test_what_one_that_waits_gets_is_held_for_it_until_it_is_answered(two: Pairing) -> None:
    def reasons() -> list[str]:
        return [reason for held in two.owner.status().held for reason in held.reasons]

    pending, request = two.submit(count, two.share(REAL, "an input", MOCK))
    assert "a function that waits gets it" in reasons()
    request.deny("no")
    with pytest.raises(errors.RequestDenied):
        pending.result(10)
    assert "a function that waits gets it" not in reasons()


def test_the_same_that_waits_for_the_same_reason_is_one_request(two: Pairing) -> None:
    pending, request = two.submit(count, two.ages, reason="twice")
    again = two.scientist.remote(count)(two.ages).submit("twice")
    until(lambda: request.times == 2)
    request.approve()
    assert (pending.result(10), again.result(10)) == (4, 4)
    two.ran(request, "begun", "complete")


# -- approved, denied, by a person or a policy ---------------------------------------------------------------


def test_it_is_approved_once(two: Pairing) -> None:
    for _ in range(2):
        pending, request = two.submit(above, two.ages, 20)
        assert request.state == "pending"
        request.approve()
        assert pending.result(10) == 45.0


def test_it_is_approved_so_many_times(two: Pairing) -> None:
    pending, request = two.submit(above, two.ages, 30)
    request.approve(times=2)
    assert pending.result(10) == 35.0
    (policy,) = two.owner.policies
    assert request.lineage is not None
    assert (policy.action, policy.code, policy.count) == ("approve", (request.lineage.digest,), 2)
    assert two.owner.policies.usage(policy.name) == "1 time, 1 element"
    again, second = two.submit(above, two.ages, 30)
    assert again.result(20) == 35.0
    assert (second.state, second.by) == ("approved", f"policy {policy.name}")
    two.ran(second, "begun", "complete")
    third, waiting = two.submit(above, two.ages, 30)
    assert waiting.state == "pending"
    assert two.owner.wait_request(1).number == waiting.number
    waiting.deny("enough")
    with pytest.raises(errors.RequestDenied, match="enough"):
        third.result(10)


def test_it_is_approved_until_a_moment(two: Pairing) -> None:
    now = datetime.datetime.now().astimezone()
    pending, request = two.submit(count, two.ages)
    with pytest.raises(errors.SettingError, match="until must be in the future"):
        request.approve(until=now - datetime.timedelta(hours=1))
    assert request.state == "pending"
    assert two.runs(request) == []
    request.approve(until=now + datetime.timedelta(hours=1))
    assert pending.result(10) == 4
    again, _ = two.submit(count, two.ages)
    assert again.result(20) == 4
    book = life_of(two.owner).inbox.policies
    book.now = lambda: now + datetime.timedelta(hours=2)
    try:
        later, waiting = two.submit(count, two.ages)
        assert waiting.state == "pending"
        waiting.deny()
    finally:
        book.now = lambda: datetime.datetime.now().astimezone()
    with pytest.raises(errors.RequestDenied):
        later.result(10)


def test_one_that_waits_is_answered_when_its_code_is_approved(two: Pairing) -> None:
    first, request = two.submit(count, two.ages, reason="one")
    second, other = two.submit(count, two.ages, reason="other")
    request.approve(times=5)
    assert (first.result(10), second.result(20)) == (4, 4)
    assert other.by.startswith("policy")


def test_only_a_policy_that_names_the_code_runs_it(two: Pairing) -> None:
    two.owner.policies.add(Policy("approve"))
    two.owner.policies.add(Policy("approve", operations=("function *",), max_elements=1))
    pending, request = two.submit(above, two.ages, 40)
    assert request.state == "pending"
    assert "does not name its code" in repr(two.owner.policies.explain(request))
    request.run()
    two.owner.policies.apply()
    assert request.state == "pending"
    assert request.lineage is not None
    two.owner.policies.add(
        Policy("approve", code=(request.lineage.digest,), kinds=("float",), max_elements=1)
    )
    assert pending.result(10) == 20.0
    two.ran(request, "begun", "complete")


@pytest.mark.parametrize("fields", [{"min_group": 5}, {"assets": "other"}, {"count": 0}, {"code": "ab" * 32}])
def test_a_policy_that_could_never_approve_it_does_not_run_it(two: Pairing, fields: dict[str, Any]) -> None:
    pending, request = two.submit(count, two.ages)
    assert request.lineage is not None
    two.owner.policies.add(Policy("approve", **{"code": request.lineage.digest, "kinds": "int", **fields}))
    until(lambda: pending.state == "pending")
    assert (request.state, pending.state, two.runs(request)) == ("pending", "pending", [])
    job = life_of(two.owner).inbox.requests[-1].job
    assert job is not None
    assert job.task is None


def test_what_it_makes_is_decided_about_when_it_is_there(two: Pairing) -> None:
    def grown(numbers):
        return np.repeat(numbers, 10)

    pending, request = two.submit(grown, two.ages)
    assert request.lineage is not None
    two.owner.policies.add(Policy("deny", kinds=("*float",), max_elements=3, reason="too exact"))
    two.owner.policies.add(Policy("approve", code=(request.lineage.digest,), max_elements=39, name="small"))
    until(lambda: two.runs(request) == ["begun", "complete"] and request.state == "pending")
    assert two.owner.wait_request(10).number == request.number
    assert request.asset.elements == 40
    # that it is pending tells the peer something of its size
    assert two.owner.policies.usage("small") == "1 time, 0 elements"
    assert "it has 40 elements, over 39" in repr(two.owner.policies.explain(request))
    request.approve()
    assert len(pending.result(10)) == 40


def test_a_policy_denies_it_before_it_is_run(two: Pairing) -> None:
    two.owner.policies.add(Policy("deny", operations=("function *",), reason="no functions"))
    pending, request = two.submit(count, two.ages)
    with pytest.raises(errors.RequestDenied, match="no functions"):
        pending.result(10)
    assert two.runs(request) == []


def test_it_is_denied(two: Pairing) -> None:
    pending, request = two.submit(count, two.ages)
    request.run()
    request.deny("not this")
    with pytest.raises(errors.RequestDenied, match="not this"):
        pending.result(10)
    with pytest.raises(errors.RequestAnswered):
        request.run()


def test_settings_of_an_approval_that_do_not_apply_are_refused(two: Pairing) -> None:
    pending = two.ages.request("the object")
    request = two.owner.wait_request(10)
    for wrong in ({"logs": True}, {"timeout_s": 3.0}, {"times": 2}):
        with pytest.raises(errors.SettingError):
            request.approve(**wrong)
    with pytest.raises(errors.SettingError, match="nothing to run"):
        request.run()
    assert (request.function, request.mock_result, list(request.log), request.progress) == ("", "", [], None)
    request.deny()
    with pytest.raises(errors.RequestDenied):
        pending.result(10)
    pending, request = two.submit(count, two.ages)
    settings: list[dict[str, Any]] = [
        {"times": 0},
        {"times": -1},
        {"until": datetime.datetime.now()},
        {"timeout_s": -1.0},
    ]
    for setting in settings:
        with pytest.raises(errors.SettingError):
            request.approve(**setting)
    assert request.state == "pending"
    request.deny()


# -- when it fails -------------------------------------------------------------------------------------------


def looks_up(numbers):
    table = {int(number): number for number in numbers}
    first = min(table)
    return table[first * 1000 + 7] if first > 5 else 0.0


@pytest.mark.parametrize(
    ("tell", "words"),
    [
        ("that", "looks_up failed on the real data; its owner can tell more"),
        ("type", "looks_up failed on the real data, in line 4: KeyError"),
        ("message", "looks_up failed on the real data, in line 4: KeyError: 10007"),
    ],
)
def test_the_peer_hears_of_a_failure_what_the_owner_tells(two: Pairing, tell: str, words: str) -> None:
    pending, request = two.submit(looks_up, two.ages)
    with pytest.raises(errors.OperationFailed, match="in line 4: KeyError: 10007"):
        request.approve()
    assert (request.state, pending.state) == ("pending", "pending")
    assert request.failure == "KeyError in line 4"
    request.fail(tell)
    assert (request.state, request.by, request.failure) == ("failed", "person", "")
    assert request.log[0] == "Traceback (most recent call last):"
    assert "    return table[first * 1000 + 7] if first > 5 else 0.0" in list(request.log)
    assert request.log[-1] == "KeyError: 10007"
    assert not any("duetlink/" in line for line in request.log)
    with pytest.raises(errors.OperationFailed) as caught:
        pending.result(10)
    assert str(caught.value) == words
    assert pending.state == "failed"
    two.ran(request, "begun", "failed")


def test_the_peer_hears_nothing_of_a_run_that_the_owner_only_tries(two: Pairing) -> None:
    pending, request = two.submit(looks_up, two.ages)
    for _ in range(2):
        with pytest.raises(errors.OperationFailed, match="KeyError: 10007"):
            request.run()
    assert (request.state, pending.state) == ("pending", "pending")
    two.ran(request, "begun", "failed", "begun", "failed")
    assert "and failed here: KeyError in line 4; reason" in repr(request)
    (row,) = [row for row in two.owner.requests.table().rows if row[0] == str(request.number)]
    assert row[4] == "it failed here: KeyError in line 4"
    assert "it failed here: KeyError in line 4. The peer knows nothing of it" in request._repr_html_()
    assert "10007" not in repr(request) + request._repr_html_()


def test_what_has_failed_can_be_denied_and_tells_only_that(two: Pairing) -> None:
    pending, request = two.submit(looks_up, two.ages)
    with pytest.raises(errors.OperationFailed):
        request.run()
    request.deny("not this")
    with pytest.raises(errors.RequestDenied, match=r"the owner denied .*: not this$"):
        pending.result(10)


def test_a_failure_is_told_in_the_least_detail_unless_asked_for_more(two: Pairing) -> None:
    pending, request = two.submit(looks_up, two.ages)
    with pytest.raises(errors.OperationFailed):
        request.run()
    request.fail()
    with pytest.raises(
        errors.OperationFailed, match=r"^looks_up failed on the real data; its owner can tell"
    ):
        pending.result(10)
    with pytest.raises(errors.RequestAnswered):
        request.fail()


def test_only_what_has_failed_can_be_told_to_have_failed(two: Pairing) -> None:
    pending, request = two.submit(count, two.ages)
    with pytest.raises(errors.SettingError, match="has not failed here"):
        request.fail()
    with pytest.raises(errors.SettingError, match="tell is one of that, type, message, got 'all'"):
        request.fail("all")
    request.run()
    with pytest.raises(errors.SettingError, match="has not failed here"):
        request.fail()
    assert (request.state, request.failure) == ("pending", "")
    request.approve()
    assert pending.result(10) == 4


def shared_memories() -> set[int]:
    """The memories that this process has made for rooms and not closed, by inode."""
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if "duetlink-worker" in os.readlink(f"/proc/self/fd/{fd}"):
                found.add(os.stat(int(fd)).st_ino)
    return found


def test_an_input_that_cannot_be_made_leaves_no_memory_of_the_ones_before_it(two: Pairing) -> None:
    few = two.share(REAL[:2], "few", np.arange(4.0))

    def product(numbers, one):
        return float(numbers[0] * one)

    pending, request = two.submit(product, two.ages, few[3])
    before = shared_memories()
    with pytest.raises(errors.OperationFailed, match="index 3 is out of bounds"):
        request.approve()
    until(lambda: shared_memories() <= before)  # the mocks' programs may have some for a moment
    request.deny()
    with pytest.raises(errors.RequestDenied):
        pending.result(10)


def test_what_failed_once_can_be_run_again_and_approved(two: Pairing) -> None:
    pending, request = two.submit(above_or_forever, two.share(REAL[:2], "few", MOCK))
    with pytest.raises(errors.OperationFailed, match="took over"):
        request.run(timeout_s=1e-6)
    assert request.failure.startswith("a command took over")
    request.approve()
    assert (request.state, request.failure, pending.result(10)) == ("approved", "", 1)


def test_a_class_of_errors_that_is_its_own_tells_nothing_by_its_name(two: Pairing) -> None:
    def sneaky(numbers):
        if len(numbers) > 2:
            raise type(f"Age{int(numbers[0])}", (LookupError,), {})("no")
        return 0

    pending, request = two.submit(sneaky, two.ages)
    with pytest.raises(errors.OperationFailed):
        request.approve()
    request.fail("type")
    with pytest.raises(
        errors.OperationFailed, match=r"^sneaky failed on the real data, in line 3: LookupError$"
    ):
        pending.result(10)
    assert "Age10: no" in str(request.log)


def test_words_of_a_failure_never_come_from_the_function() -> None:
    told = {"kinds": ["Age10", "object"], "message": "10", "line": 10**9, "traceback": "x" * 10**6}
    failure = Failure.of(told, 30)
    assert failure.words("f", "type") == "f failed on the real data: Exception"
    assert len(failure.traceback) == 20_000
    wrongs: list[Any] = [
        None,
        [],
        {},
        {**told, "kinds": 3},
        {**told, "line": "x"},
        {**told, "line": float("inf")},
    ]
    for wrong in wrongs:
        with pytest.raises(errors.WorkerUnavailable):
            Failure.of(wrong, 30)


def test_what_it_gives_has_to_be_what_can_travel_on_the_real_data_as_well(two: Pairing) -> None:
    def odd(numbers):
        return object() if len(numbers) > 2 else 1

    pending, request = two.submit(odd, two.ages)
    with pytest.raises(errors.OperationFailed, match="UnsupportedValue"):
        request.approve()
    request.fail("type")
    with pytest.raises(errors.OperationFailed, match=r"odd failed on the real data: UnsupportedValue$"):
        pending.result(10)


def test_a_result_that_is_too_large_is_refused(two: Pairing, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = life_of(two.owner).inbox.jobs
    monkeypatch.setattr(jobs, "settings", dataclasses.replace(jobs.settings, worker_result_bytes=1_000_000))

    def huge(numbers):
        return np.zeros(10**6 if len(numbers) > 2 else 1)

    pending, request = two.submit(huge, two.ages)
    with pytest.raises(errors.OperationFailed, match="the result has 8,000,"):
        request.approve()
    request.fail("message")
    with pytest.raises(errors.OperationFailed, match=rf"^huge {NOT_MADE}$"):
        pending.result(10)


NOT_MADE = "was not made at the owner: it came to a limit of time, memory or size"


def test_every_limit_is_one_outcome_to_the_peer() -> None:
    ended = [
        Failure(stopped="a command took over 5 s, and the room was ended"),
        Failure("MemoryError", 3, "Unable to allocate 8.00 TiB"),
        Failure("OutOfMemoryError", 3),
        Failure("LimitExceeded", message="the result has 8,000,128 bytes"),
        Failure.of_step(7, "frame.merge", "MemoryError", "10"),
    ]
    for tell in ("type", "message"):
        assert {failure.words("f", tell) for failure in ended} == {f"f {NOT_MADE}"}
    assert {failure.words("f", "that") for failure in ended} == {
        "f failed on the real data; its owner can tell more"
    }


def test_a_failed_step_of_a_program_is_told_by_its_place() -> None:
    failure = Failure.of_step(7, "series.mean", "TypeError", "cannot average 'Olga'")
    assert failure.summary == "TypeError in step 7, series.mean"
    assert failure.words("ages.mean()", "type") == (
        "ages.mean() failed on the real data, in step 7, series.mean: TypeError"
    )
    assert failure.words("ages.mean()", "message").endswith("TypeError: cannot average 'Olga'")


@pytest.mark.parametrize("failures", ["that", "type", "message"])
def test_a_failing_run_by_policy_tells_what_the_policy_says_and_counts(two: Pairing, failures: str) -> None:
    pending, request = two.submit(looks_up, two.ages)
    assert request.lineage is not None
    two.owner.policies.add(
        Policy("approve", code=(request.lineage.digest,), count=1, name="once", failures=failures)
    )
    with pytest.raises(errors.OperationFailed) as caught:
        pending.result(20)
    assert (
        str(caught.value)
        == {
            "that": "looks_up failed on the real data; its owner can tell more",
            "type": "looks_up failed on the real data, in line 4: KeyError",
            "message": "looks_up failed on the real data, in line 4: KeyError: 10007",
        }[failures]
    )
    assert (request.state, request.by) == ("failed", "policy once")
    assert two.owner.policies.usage("once").startswith("1 time,")
    _, waiting = two.submit(looks_up, two.ages)
    assert waiting.state == "pending"


def test_a_failing_run_by_a_policy_that_says_nothing_of_failures_waits_for_the_person(two: Pairing) -> None:
    pending, request = two.submit(looks_up, two.ages)
    assert request.lineage is not None
    two.owner.policies.add(Policy("approve", code=(request.lineage.digest,), count=3, name="thrice"))
    two.ran(request, "begun", "failed")
    assert two.owner.wait_request(10).number == request.number
    until(lambda: request.failure == "KeyError in line 4")
    assert (request.state, pending.state) == ("pending", "pending")
    # that it is pending tells the peer that it was not approved
    assert two.owner.policies.usage("thrice").startswith("1 time,")
    two.owner.policies.apply()  # it would only fail again
    assert two.runs(request) == ["begun", "failed"]
    request.fail("type")
    with pytest.raises(errors.OperationFailed, match=r"in line 4: KeyError$"):
        pending.result(10)
    assert request.by == "person"


def test_a_policy_that_is_removed_while_its_run_goes_on_tells_nothing(
    two: Pairing, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = life_of(two.owner).inbox.jobs
    monkeypatch.setattr(jobs, "settings", dataclasses.replace(jobs.settings, worker_timeout_s=2.0))
    pending, request = two.submit(above_or_forever, two.ages)
    assert request.lineage is not None
    two.owner.policies.add(Policy("approve", code=(request.lineage.digest,), name="gone", failures="type"))
    until(lambda: request.state == "running")
    two.owner.policies.remove("gone")
    until(lambda: "took over 2 s" in request.failure)
    assert two.owner.wait_request(10).number == request.number
    assert (request.state, pending.state) == ("pending", "pending")


def test_a_person_stops_what_a_policy_has_run(two: Pairing) -> None:
    pending, request = two.submit(above_or_forever, two.ages)
    assert request.lineage is not None
    digest = request.lineage.digest
    two.owner.policies.add(Policy("approve", code=(digest,), name="runs", failures="type"))
    until(lambda: list(request.log) == ["begun"])
    assert re.fullmatch(r"\d+\.\d s, \d+(\.\d+)? [kM]B", request.running)
    assert re.search(r"\(running: \d+\.\d s, .* [kM]B\): Sven asks to run", repr(request))
    request.stop()
    assert request.running == ""
    assert two.owner.wait_request(10).number == request.number
    assert (request.state, pending.state, request.failure) == ("pending", "pending", "")
    two.ran(request, "begun", "killed")
    assert two.owner.policies.usage("runs") == ""  # nobody has heard anything of it
    request.stop()  # there is nothing to stop
    request.deny("no")
    with pytest.raises(errors.RequestAnswered):
        request.stop()


def test_what_a_policy_has_run_waits_for_the_grid_and_meanwhile_for_a_person(
    two: Pairing, monkeypatch: pytest.MonkeyPatch
) -> None:
    due, waits = threading.Event(), threading.Event()

    async def sleep(wait_s: float) -> None:
        waits.set()
        while not due.is_set():
            await asyncio.sleep(0.01)

    runner = runner_of(two.owner)
    pace = Pace(3600.0, lambda: 7200.0 if due.is_set() else 0.0, sleep)
    set_constants(monkeypatch, runner, pace=pace)
    pending, request = two.submit(count, two.ages)
    by_hand, other = two.submit(count, two.share(REAL[:3], "three", MOCK))
    assert request.lineage is not None
    assert other.lineage is not None
    codes = request.lineage.digest, other.lineage.digest
    two.owner.policies.add(Policy("approve", code=codes, name="runs"))
    until(lambda: two.runs(other) == ["begun", "complete"])
    assert waits.wait(20)
    two.owner.policies.apply()
    assert [(one.state, one.preview()) for one in (request, other)] == [("pending", "4"), ("pending", "3")]
    assert (pending.state, by_hand.state) == ("pending", "pending")
    assert two.owner.policies.usage("runs") == "2 times, 0 elements"
    other.approve()
    assert by_hand.result(10) == 3
    assert other.by == "person"
    due.set()
    assert pending.result(10) == 4
    assert request.by == "policy runs"
    until(lambda: two.owner.policies.usage("runs") == "1 time, 1 element")


def test_it_is_pending_once_what_it_needs_is_kept(two: Pairing, monkeypatch: pytest.MonkeyPatch) -> None:
    class Disk(Persistence):
        async def written(self, *, sync: bool = True) -> None:
            asked.set()
            while not kept.is_set():
                await asyncio.sleep(0.01)
            raise errors.StateUnavailable("no space is left")  # it is pending all the same

    asked, kept = threading.Event(), threading.Event()
    set_constants(monkeypatch, runner_of(two.owner), persistence=Disk())
    pending = two.scientist.remote(count)(two.ages).submit("why")
    assert asked.wait(20)
    assert pending.state == "asking"
    kept.set()
    until(lambda: pending.state == "pending")


def test_who_withdraws_what_a_policy_runs_has_paid_for_the_run(two: Pairing) -> None:
    pending, request = two.submit(above_or_forever, two.ages)
    assert request.lineage is not None
    two.owner.policies.add(Policy("approve", code=(request.lineage.digest,), name="runs"))
    until(lambda: list(request.log) == ["begun"])
    pending.withdraw()
    two.ran(request, "begun", "killed")
    # how long it waited may have told something
    assert two.owner.policies.usage("runs") == "1 time, 0 elements"


# -- shut in, and ended --------------------------------------------------------------------------------------


def escapes(numbers):
    import ctypes
    import importlib.machinery
    import os
    import socket
    import subprocess

    attempts = [
        lambda: open("/etc/passwd"),  # noqa: SIM115
        lambda: open("/tmp/written", "w"),  # noqa: SIM115
        lambda: os.listdir("/"),
        lambda: socket.create_connection(("127.0.0.1", 9)),
        lambda: os.fork(),
        lambda: subprocess.run(["id"]),
        lambda: os.environ["PATH"],
        lambda: ctypes.CDLL(None).getenv(b"PATH"),
        lambda: importlib.machinery.SourceFileLoader("anything", "/tmp/anything.py").load_module(),
    ]
    found = []
    for attempt in attempts if len(numbers) > 2 else []:
        try:
            found.append(str(attempt()))
        except Exception as error:
            found.append(type(error).__name__)
    return found


def test_it_reaches_nothing_but_its_inputs(two: Pairing) -> None:
    pending, request = two.submit(escapes, two.ages)
    request.approve()
    refused = "OperationRefused"
    assert pending.result(10) == [*[refused] * 6, "KeyError", refused, refused]


def opens_a_file(numbers):
    return open("/etc/passwd").read() if len(numbers) > 2 else ""


def test_the_owner_sees_what_it_has_tried(two: Pairing) -> None:
    pending, request = two.submit(opens_a_file, two.ages)
    with pytest.raises(errors.OperationFailed, match="OperationRefused: open is not possible"):
        request.approve()
    request.fail("type")
    assert "open is not possible where private data is worked on" in str(request.log)
    with pytest.raises(errors.OperationFailed, match=r"in line 2: OperationRefused$"):
        pending.result(10)


def test_it_may_take_so_long(two: Pairing) -> None:
    pending, request = two.submit(above_or_forever, two.ages)
    with pytest.raises(errors.OperationFailed, match=r"took over 0\.5 s"):
        request.approve(timeout_s=0.5)
    request.fail("message")
    with pytest.raises(errors.OperationFailed, match=rf"^above_or_forever {NOT_MADE}$"):
        pending.result(10)
    two.ran(request, "begun", "killed")


def above_or_forever(numbers):
    print("begun")
    while len(numbers) > 2:
        pass
    return 1


def begin(
    two: Pairing, reason: str = ""
) -> tuple[PendingRequest, Request, threading.Thread, list[BaseException]]:
    """One that runs for ever, approved."""
    pending, request = two.submit(above_or_forever, two.ages, reason=reason)
    raised: list[BaseException] = []

    def approve() -> None:
        try:
            request.approve(logs=True)
        except errors.DuetError as error:
            raised.append(error)

    approving = threading.Thread(target=approve)
    approving.start()
    until(lambda: list(pending.log) == ["begun"])
    assert request.state == "running"
    return pending, request, approving, raised


def test_a_withdrawn_one_is_ended(two: Pairing) -> None:
    pending, request, approving, raised = begin(two)
    pending.withdraw()
    approving.join(10)
    assert request.state == "withdrawn"
    assert isinstance(raised[0], errors.RequestAnswered)
    two.ran(request, "begun", "killed")


def test_a_denied_one_is_ended(two: Pairing) -> None:
    pending, request, approving, raised = begin(two)
    request.deny("no more")
    approving.join(10)
    with pytest.raises(errors.RequestDenied, match="no more"):
        pending.result(10)
    assert isinstance(raised[0], errors.RequestAnswered)
    two.ran(request, "begun", "killed")


def test_two_run_at_once_and_others_wait(two: Pairing) -> None:
    begun = [begin(two, reason) for reason in ("one", "two")]
    waiting, third = two.submit(count, two.ages)
    approving = threading.Thread(target=third.approve)
    approving.start()
    assert third.state == "pending"
    assert two.runs(third) == []
    begun[0][1].deny()
    assert waiting.result(20) == 4
    begun[1][1].deny()
    for _, _, thread, _ in begun:
        thread.join(10)
    approving.join(10)


def test_the_end_of_a_duet_ends_what_runs(make_duets: Any) -> None:
    owner, scientist = make_duets()
    two = Pairing(owner, scientist)
    _, _, approving, raised = begin(two)
    (job,) = [request.job for request in life_of(owner).inbox.requests]
    assert job is not None
    task = job.task
    assert task is not None
    owner.close()
    approving.join(10)
    assert task.cancelled()
    assert not job.busy
    assert isinstance(raised[0], errors.DuetError)


def test_no_two_rooms_draw_the_same_numbers(two: Pairing) -> None:
    """All of them are forks of one process, whose generators they have."""
    found = []
    for number in range(2):
        pending, request = two.submit(drawn, reason=f"draw {number}")
        request.approve()
        found.append(pending.result(60))
    assert all(one != other for one, other in zip(*found, strict=True))

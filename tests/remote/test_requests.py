"""Asking for results: what the owner sees and decides on, and what becomes of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from duetlink import Mock, Policy, errors
from duetlink.duet.answering.programs import Programs
from duetlink.testing.faults import replace_function
from tests.conftest import MakeDuets
from tests.remote.conftest import Bench


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        threading.Event().wait(0.005)


@pytest.fixture
def unanswered(bench: Bench) -> Bench:
    """Nobody answers; what is left waiting is denied in the end."""
    bench.answer = lambda request: until(lambda: request.state != "pending")
    return bench


@pytest.fixture
def policies(bench: Bench) -> Any:
    yield bench.owner.policies
    bench.owner.policies.clear()


def deny_all(bench: Bench) -> None:
    for request in bench.owner.requests.pending:
        request.deny("the test is over")


def test_the_same_result_asked_for_twice_is_one_request(unanswered: Bench) -> None:
    x = unanswered.share(np.arange(4.0), "twice")
    total = x.sum()
    before = len(unanswered.owner.requests)
    first, second = total.request("sum"), total.request("sum")
    until(lambda: {first.state, second.state} == {"pending"})
    other = total.request("another reason")
    until(lambda: other.state == "pending")
    assert [request.times for request in list(unanswered.owner.requests)[before:]] == [2, 1]
    unanswered.owner.requests[before].approve()
    assert [pending.result(20) for pending in (first, second, other)] == [6.0] * 3
    assert total.get(reason="granted before") == 6.0


def test_named_columns_are_made_in_the_order_that_is_shown(bench: Bench) -> None:
    people = bench.share(pd.DataFrame({"town": ["Ulm", "Bonn"], "age": [40, 50]}), "named")
    before = len(bench.owner.requests)
    oldest_first = people.groupby("town").agg(oldest=("age", "max"), mean=("age", "mean")).get()
    mean_first = people.groupby("town").agg(mean=("age", "mean"), oldest=("age", "max")).get()
    assert oldest_first.columns.tolist() == ["oldest", "mean"]
    assert mean_first.columns.tolist() == ["mean", "oldest"]
    first, second = (request.lineage for request in list(bench.owner.requests)[before:])
    assert first is not None
    assert second is not None
    assert str(first.code).index("oldest=") < str(first.code).index("mean=")
    assert str(second.code).index("mean=") < str(second.code).index("oldest=")
    assert first.digest != second.digest


def test_one_of_two_who_asked_takes_it_back(unanswered: Bench) -> None:
    x = unanswered.share(np.arange(5.0), "back")
    before = len(unanswered.owner.requests)
    result = x.max()
    first, second = result.request("m"), result.request("m")
    until(lambda: len(unanswered.owner.requests) > before and unanswered.owner.requests[before].times == 2)
    first.withdraw()
    with pytest.raises(errors.RequestWithdrawn):
        first.result(10)
    unanswered.owner.requests[before].approve()
    assert second.result(20) == 4.0


def test_a_request_that_nobody_answers_in_time_expires(unanswered: Bench) -> None:
    x = unanswered.share(np.arange(6.0), "late")
    before = len(unanswered.owner.requests)
    pending = x.min().request("hurry", expires_s=0.2)
    with pytest.raises(errors.RequestDenied, match="it was not answered before it expired"):
        pending.result(20)
    request = unanswered.owner.requests[before]
    assert request.state == "expired"
    assert request.expires is not None
    with pytest.raises(errors.RequestAnswered, match="is expired"):
        request.approve()


def test_what_is_approved_is_what_was_there_when_it_was_asked_for(unanswered: Bench) -> None:
    x = unanswered.share(np.arange(3.0), "snapshot", mock=np.zeros(3))
    own = x.copy()
    before = len(unanswered.owner.requests)
    pending = own.request("before")
    own[:] = 77.0
    until(lambda: pending.state == "pending")
    request = unanswered.owner.requests[before]
    request.run()
    assert request.preview() == "array([0., 1., 2.])"
    page = request._repr_html_()
    assert "array([0., 1., 2.])" not in page  # an output is saved with the notebook
    assert "what would leave: see <code>.preview()</code>, or the panel" in page
    assert "of single rows" in page
    assert "copy" in page
    request.approve()
    assert "what would leave:" not in request._repr_html_()
    np.testing.assert_array_equal(pending.result(20), [0.0, 1.0, 2.0])


def test_one_number_is_called_so(unanswered: Bench) -> None:
    x = unanswered.share(np.arange(3.0), "numbers", mock=np.zeros(3))
    before = len(unanswered.owner.requests)
    pending = x.mean().request("one of them")
    until(lambda: pending.state == "pending")
    asked = unanswered.owner.requests[before]
    asked.run()
    assert unanswered.owner.requests.table().rows[asked.number][4] == "one number, numpy.float64"
    asked.deny()
    with pytest.raises(errors.RequestDenied):
        pending.result(20)


def test_a_result_of_what_is_no_longer_shared_is_denied(unanswered: Bench) -> None:
    x = unanswered.share(np.arange(3.0), "gone", mock=np.zeros(3))
    total = x.sum()
    pending = total.request("why")
    until(lambda: pending.state == "pending")
    asset = unanswered.owner.store["gone"]
    asset.unshare()
    with pytest.raises(errors.RequestDenied, match="'gone' is no longer shared"):
        pending.result(20)
    with pytest.raises(errors.AssetNotFound):
        total.get(reason="again")


def test_an_object_without_a_mock_can_only_be_asked_for(bench: Bench) -> None:
    bench.owner.share(np.arange(3.0), "bare")
    bare = bench.scientist.wait_object("bare", 10)
    with pytest.raises(errors.NoMock, match="share it with mock='auto'"):
        bare + 1
    with pytest.raises(AttributeError, match="has no mock"):
        bare.sum()
    np.testing.assert_array_equal(bare.get(reason="as it is"), [0, 1, 2])


# -- policies ----------------------------------------------------------------------------------------------


def test_policies_look_at_how_a_result_was_made(unanswered: Bench, policies: Any) -> None:
    x = unanswered.share(np.arange(10.0), "ages", mock=np.zeros(10))
    policies.add(
        Policy("approve", assets="ages", operations=("mean", "std"), max_elements=1, name="averages")
    )
    policies.add(Policy("deny", reason="averages only", name="rest"))
    assert x.mean().get() == 4.5
    assert x.std().get() == np.arange(10.0).std()
    questions: list[Callable[[], Any]] = [
        lambda: x.get(),
        lambda: x.max().get(),
        lambda: x[:1].mean().get(),
        lambda: (x.mean() * 2).get(),
    ]
    for ask in questions:
        with pytest.raises(errors.RequestDenied, match="averages only"):
            ask()
    assert policies.usage("averages") == "2 times, 2 elements"


def test_a_policy_for_one_code_fits_that_code_only(unanswered: Bench, policies: Any) -> None:
    x = unanswered.share(np.arange(8.0), "codes", mock=np.zeros(8))
    before = len(unanswered.owner.requests)
    pending = (x * 2).sum().request("first")
    until(lambda: pending.state == "pending")
    request = unanswered.owner.requests[before]
    policies.add(request.like_this())
    assert pending.result(20) == 56.0
    assert (x * 2).sum().get(reason="the same steps, other ids") == 56.0
    again = (x * 3).sum().request("another number")
    until(lambda: again.state == "pending")
    unanswered.owner.requests[-1].run()
    deny_all(unanswered)


def test_a_group_must_be_large_enough(make_duets: MakeDuets) -> None:
    unanswered = Bench(*make_duets())  # of its own: what others write in place makes groups smaller
    policies = unanswered.owner.policies
    frame = pd.DataFrame({"town": ["A"] * 6 + ["B"] * 2, "age": np.arange(8)})
    x = unanswered.share(frame, "towns", mock=Mock(categories={"town": ["A", "B"]}))
    policies.add(Policy("approve", min_group=5, name="five"))
    assert x.age.mean().get() == 3.5
    assert x[x.town == "A"].age.mean().get() == 2.5
    small = [
        x[x.town == "B"].age.mean(),
        x.groupby("town").age.mean(),
        x.age,
        x.age + x.age.mean(),
        x[["age"]].mean(axis=1),
        x.age.iloc[:1].mean(),
    ]
    pending = [result.request(str(number)) for number, result in enumerate(small)]
    until(lambda: all(one.state == "pending" for one in pending))
    for request in list(unanswered.owner.requests)[2:]:
        request.run()
    assert [request.group for request in unanswered.owner.requests.pending] == [2, 2, 1, 1, 1, 1]
    decision = policies.explain(unanswered.owner.requests.pending[0])
    assert "it may be made of 2 rows, fewer than 5" in repr(decision)
    deny_all(unanswered)


# -- runs that come to no result ---------------------------------------------------------------------------


def test_what_takes_too_long_is_not_made_and_the_next_is(make_duets: MakeDuets) -> None:
    owner, scientist = make_duets(worker_timeout_s=1.5)
    owner.share(np.ones((9, 9)), "x", mock=np.zeros((1, 1)))
    owner.policies.add(Policy("approve", failures="message"))
    x: Any = scientist.wait_object("x", 10)
    large = np.tile(x, (1000, 1000))  # 9,000 rows at the owner
    with pytest.raises(errors.OperationFailed, match="a limit of time, memory or size") as failed:
        (large @ large).sum().get()
    assert "1.5" not in str(failed.value)  # which of the limits it was is not told
    (entry,) = [entry for entry in owner.audit.filter(kind="run") if entry.state == "killed"]
    assert entry.request == 0
    np.testing.assert_array_equal(x[0].get(), np.ones(9))


@pytest.mark.parametrize(
    ("tell", "told"),
    [
        ("that", r"failed on the real data; its owner can tell more$"),
        ("type", r"failed on the real data, in step 4, operator\.getitem: KeyError$"),
        ("message", r"failed on the real data, in step 4, operator\.getitem: KeyError: .*'a'"),
    ],
)
def test_a_failure_tells_no_value_but_by_its_message(bench: Bench, tell: str, told: str) -> None:
    bench.answer = lambda request: request.fail(tell)
    frame = pd.DataFrame({"name": ["Ada", "Bob"], "key": ["secret", "x"]})
    x: Any = bench.share(frame, "keyed", mock=Mock(categories={"key": ["a", "b"]}))
    indexed = x.set_index("key")
    with pytest.raises(errors.OperationFailed, match=told) as failed:
        indexed.loc["a"].get()
    assert "secret" not in str(failed.value)


def test_a_defect_at_the_owner_leaves_the_request_to_a_person(
    make_duets: MakeDuets, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, scientist = make_duets()
    owner.share(np.arange(4.0), "x", mock=np.zeros(4))
    owner.policies.add(Policy("approve"))
    x: Any = scientist.wait_object("x", 10)

    async def defect(*_: object) -> None:
        raise TypeError("a defect")

    with monkeypatch.context() as broken:
        replace_function(broken, Programs, "map", defect)
        pending = (x + 1).request("why")
        request = owner.wait_request(20)
    assert (request.state, pending.state) == ("pending", "pending")
    request.approve()
    np.testing.assert_array_equal(pending.result(20), [1, 2, 3, 4])
    np.testing.assert_array_equal((x + 2).get(), [2, 3, 4, 5])

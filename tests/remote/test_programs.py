"""A request carries a program: what is shown is what runs, once it is asked for, and what comes of it is told
by an answer alone.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from duetlink import Budget, Policy, errors
from duetlink.base.wire import schema_pb2 as pb
from duetlink.duet.answering.requests import Request
from duetlink.duet.asking.requests.pending_request import PendingRequest
from duetlink.testing.faults import life_of
from tests.conftest import MakeDuets
from tests.remote.conftest import Bench


def until(condition: Callable[[], bool]) -> None:
    for _ in range(6000):
        if condition():
            return
        threading.Event().wait(0.005)
    raise AssertionError("it did not come about")


@pytest.fixture
def unanswered(bench: Bench) -> Iterator[Bench]:
    """Nobody answers; what is left waiting is denied in the end."""
    bench.answer = lambda request: until(lambda: request.state not in ("pending", "running"))
    yield bench
    bench.owner.policies.clear()
    for request in bench.owner.requests:
        if request.state in ("pending", "running"):
            with contextlib.suppress(errors.RequestAnswered):  # it was withdrawn just now
                request.deny("the test is over")


def asked(bench: Bench, result: Any, reason: str = "") -> tuple[PendingRequest, Request]:
    """What the scientist waits for, and what the owner sees of it once it has been run."""
    count = len(bench.owner.requests)
    pending = result.request(reason)
    until(lambda: pending.state == "pending")
    request = bench.owner.requests[count]
    until(lambda: request.state == "pending" and bool(request.asset.kind != "" or request.failure))
    return pending, request


def code_of(bench: Bench, result: Any) -> tuple[str, str]:
    """The code and the digest that the owner sees of a result."""
    pending, request = asked(bench, result)
    assert request.lineage is not None
    pending.withdraw()
    until(lambda: request.state == "withdrawn")
    return str(request.code), request.lineage.digest


# -- the program -------------------------------------------------------------------------------------------


def test_nothing_is_sent_or_run_before_it_is_asked_for(bench: Bench) -> None:
    x = bench.share(np.arange(4.0), "idle", mock=np.zeros(4))
    count, runs = len(bench.owner.requests), len(bench.owner.audit.filter(kind="run"))
    made = x
    for _ in range(100):
        made = made + 1
    assert bench.scientist.ping() > 0  # all that was sent before has arrived
    assert len(bench.owner.requests) == count
    assert len(bench.owner.audit.filter(kind="run")) == runs
    assert made.sum().get(reason="now") == 406.0


def test_the_same_code_has_the_same_digest_whatever_was_tried_in_between(unanswered: Bench) -> None:
    x = unanswered.share(np.arange(1.0, 7.0), "steady", mock=np.full(6, 3.0))
    plain = code_of(unanswered, (x[x > 2] * 3).mean())
    chosen = x[x > 2]
    for tried in (x.std, chosen.sum):
        tried()
    own = x.copy()
    own[:] = 0
    with pytest.raises(ValueError, match="reshape"):
        chosen.reshape(7, 7)
    with pytest.raises(errors.OperationRefused):
        x[0] = 1.0
    scaled = chosen * 3
    scaled.sum()
    assert code_of(unanswered, scaled.mean()) == plain
    assert plain[0] == "(steady[steady > 2] * 3).mean()"
    assert code_of(unanswered, (x[x > 2] * 3.0).mean())[1] != plain[1]


def test_the_order_of_named_arguments_is_that_of_the_code(unanswered: Bench) -> None:
    frame = unanswered.share(pd.DataFrame({"town": ["Ulm", "Bonn"], "age": [40, 50]}), "ordered")
    code, digest = code_of(unanswered, frame.sort_values(by="town", ascending=False))
    other, other_digest = code_of(unanswered, frame.sort_values(ascending=False, by="town"))
    assert code == 'ordered.sort_values(by="town", ascending=False)'
    assert other == 'ordered.sort_values(ascending=False, by="town")'
    assert digest != other_digest


def test_the_same_program_that_is_asked_for_while_it_waits_joins(unanswered: Bench) -> None:
    x = unanswered.share(np.arange(5.0), "joined", mock=np.zeros(5))
    first, request = asked(unanswered, (x + 1).sum(), "once")
    x.max()
    second = (x + 1).sum().request("once")
    until(lambda: request.times == 2)
    runs = [entry for entry in unanswered.owner.audit.filter(kind="run") if entry.request == request.number]
    assert [entry.state for entry in runs] == ["begun", "complete"]
    request.approve()
    assert (first.result(20), second.result(20)) == (15.0, 15.0)


def test_what_is_approved_is_what_was_previewed(unanswered: Bench) -> None:
    x = unanswered.share(torch.zeros(3), "previewed")
    pending, request = asked(unanswered, x + torch.nn.functional.dropout(x + 1, 0.5), "drawn without a seed")
    seen = request.preview()
    request.run()  # it has been run: this does nothing
    assert request.preview() == seen
    request.approve()
    assert repr(pending.result(20)) == seen


# -- one training ------------------------------------------------------------------------------------------


def train(model: Any, x: Any, y: Any, steps: int) -> list[Any]:
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = nn.functional.mse_loss(model(nn.functional.dropout(x, 0.5)), y)
        loss.backward()
        optimiser.step()
        losses.append(loss)
    return losses


@pytest.mark.parametrize("seed", [7, None], ids=["seeded", "not seeded"])
def test_losses_that_are_asked_for_apart_are_those_of_one_training(bench: Bench, seed: int | None) -> None:
    drawn = torch.Generator().manual_seed(3)
    x = bench.share(torch.rand(16, 3, generator=drawn), f"rows {seed}")
    y = bench.share(torch.rand(16, 1, generator=drawn), f"aims {seed}")
    torch.manual_seed(5)
    model = bench.scientist.remote(nn.Linear(3, 1))
    if seed is not None:
        bench.scientist.remote(torch).manual_seed(seed)
    losses = train(model, x, y, 20)
    at_10 = losses[9].get(reason="at 10")
    at_20 = losses[19].get(reason="at 20")
    together = bench.scientist.fetch([losses[9], losses[19]], reason="both")
    again = losses[9].get(reason="at 10, once more")
    assert at_10.item() != at_20.item()
    assert [part.item() for part in together] == [at_10.item(), at_20.item()]
    assert again.item() == at_10.item()


def test_a_seed_is_set_also_once_torch_has_wrapped_what_sets_it(bench: Bench) -> None:
    import torch._dynamo  # as the first optimiser does

    assert torch.manual_seed is not torch.random.manual_seed
    x = bench.share(torch.ones(64), "dropped out")
    made = []
    for _ in range(2):
        bench.scientist.remote(torch).manual_seed(3)
        dropped: Any = nn.functional.dropout(x, 0.5)
        made.append(dropped.get(reason="drawn"))
    assert torch.equal(*made)


# -- one bit -----------------------------------------------------------------------------------------------


def test_whether_it_can_be_made_is_asked_for_and_approved_like_a_value(unanswered: Bench) -> None:
    x = unanswered.share(np.array([0, 1, 2]), "checked", mock=np.array([0, 1, 1]))
    runs, fails = np.bincount(x), np.bincount(x) + np.zeros(2)
    told: list[bool] = []
    for result in (runs, fails):
        count = len(unanswered.owner.requests)
        asking = threading.Thread(
            target=lambda result=result: told.append(unanswered.scientist.check(result, reason="does it?"))
        )
        asking.start()
        until(lambda count=count: len(unanswered.owner.requests) > count)  # type: ignore[misc]
        request = unanswered.owner.requests[count]
        request.run()
        assert (request.state, request.asset.kind, request.reason) == ("pending", "bool", "does it?")
        assert request.failure == ""  # what was made is the bit
        with pytest.raises(errors.SettingError, match="has not failed"):
            request.fail()
        assert request.lineage is not None
        assert request.lineage.assets == (("checked", x.revision),)
        request.approve()
        asking.join(30)
    assert told == [True, False]


def test_a_bit_is_denied_like_a_value(bench: Bench) -> None:
    bench.answer = lambda request: request.deny("not even that")
    x = bench.share(np.arange(3.0), "unchecked", mock=np.zeros(3))
    with pytest.raises(errors.RequestDenied, match="not even that"):
        bench.scientist.check(x.sum())


def test_a_policy_for_the_value_gives_no_bit_and_the_other_way_round(unanswered: Bench) -> None:
    x = unanswered.share(np.arange(3.0), "one of two", mock=np.zeros(3))
    pending, request = asked(unanswered, x.sum(), "the value")
    unanswered.owner.policies.add(request.like_this())
    assert pending.result(20) == 3.0
    with pytest.raises(errors.RequestTimeout):
        unanswered.scientist.check(x.sum(), reason="the bit", timeout_s=0.5)


# -- failures are outcomes ---------------------------------------------------------------------------------


class Heard:
    """What the scientist's side is sent about requests."""

    def __init__(self, bench: Bench) -> None:
        link = life_of(bench.scientist).link
        assert link is not None
        self.states: list[int] = []
        self.others: list[str] = []
        self._rpc = link.rpc
        self._dispatch = link.rpc._dispatch
        self._reply = link.rpc._reply
        link.rpc._dispatch = self._hear  # type: ignore[method-assign]
        link.rpc._reply = self._hear_reply  # type: ignore[method-assign]

    def _hear(self, envelope: Any, body: Any) -> None:
        self._put_down(body)
        self._dispatch(envelope, body)

    def _hear_reply(self, call_id: int, body: Any) -> None:
        self._put_down(body)
        self._reply(call_id, body)

    def _put_down(self, body: Any) -> None:
        if isinstance(body, pb.Answer):
            self.states.append(body.state)
        elif not isinstance(body, (pb.Ping, pb.Done, pb.PathSpeed, pb.TunerDecision, pb.CodecWanted)):
            self.others.append(type(body).__name__)

    def end(self) -> None:
        self._rpc._dispatch = self._dispatch  # type: ignore[method-assign]
        self._rpc._reply = self._reply  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("tell", "told"),
    [
        ("that", r"failed on the real data; its owner can tell more$"),
        ("type", r"failed on the real data, in step 3, operator\.getitem: IndexError$"),
        ("message", r"in step 3, operator\.getitem: IndexError: .*index 5 is out of bounds"),
    ],
)
def test_a_failure_tells_nothing_before_a_click_and_then_what_was_clicked(
    unanswered: Bench, tell: str, told: str
) -> None:
    x = unanswered.share(np.array([5, 1]), f"failing {tell}", mock=np.array([0, 1]))
    chosen = x[x[0]]
    heard = Heard(unanswered)
    try:
        pending, request = asked(unanswered, chosen, tell)
        assert request.failure == "IndexError in step 3, operator.getitem"
        assert any("index 5 is out of bounds" in line for line in request.log)
        assert unanswered.scientist.ping() > 0  # all that was sent before has arrived
        assert (heard.states, heard.others) == ([pb.Answer.PENDING], [])
        assert pending.state == "pending"
        request.fail(tell)
        with pytest.raises(errors.OperationFailed, match=told) as failed:
            pending.result(20)
        assert (heard.states, heard.others) == ([pb.Answer.PENDING, pb.Answer.FAILED], [])
    finally:
        heard.end()
    if tell != "message":
        assert "5" not in str(failed.value)
    assert request.state == "failed"
    with pytest.raises(errors.RequestAnswered):
        request.fail(tell)


def test_a_failure_can_be_denied_and_tells_nothing_then(unanswered: Bench) -> None:
    x = unanswered.share(np.array([5, 1]), "denied", mock=np.array([0, 1]))
    pending, request = asked(unanswered, x[x[0]])
    request.deny("no")
    with pytest.raises(errors.RequestDenied, match=r"no$"):
        pending.result(20)


def test_what_has_not_failed_is_not_told_as_failed(unanswered: Bench) -> None:
    x = unanswered.share(np.arange(3.0), "well", mock=np.zeros(3))
    _, request = asked(unanswered, x.sum())
    with pytest.raises(errors.SettingError, match="has not failed"):
        request.fail()
    with pytest.raises(errors.SettingError, match="that, type, message"):
        request.fail("all")


def test_a_policy_tells_of_a_failure_as_much_as_it_says_and_counts_it(unanswered: Bench) -> None:
    owner = unanswered.owner
    x = unanswered.share(np.array([5, 1, 2]), "counted", mock=np.array([0, 1, 1]))
    owner.policies.add(Policy("approve", name="silent", assets="counted", count=1))
    pending, request = asked(unanswered, x[x[0]], "silent")
    assert owner.policies.usage("silent").startswith("1 time,")
    assert (pending.state, request.state) == ("pending", "pending")
    waiting, _ = asked(unanswered, x.sum(), "the quota is used up")
    owner.policies.clear()
    owner.policies.add(Policy("approve", name="telling", assets="counted", count=2, failures="type"))
    with pytest.raises(errors.OperationFailed, match=r"operator\.getitem: IndexError$"):
        pending.result(20)
    assert waiting.result(20) == 8
    assert owner.policies.usage("telling").startswith("2 times")
    assert request.by == "policy telling"


def test_an_input_that_fails_is_an_outcome_of_the_function(unanswered: Bench) -> None:
    x = unanswered.share(np.array([5, 1]), "an input", mock=np.array([0, 1]))

    def double(number: Any) -> Any:
        return number * 2

    count = len(unanswered.owner.requests)
    pending = unanswered.scientist.remote(double)(x[x[0]]).submit("twice")
    until(lambda: len(unanswered.owner.requests) > count)
    request = unanswered.owner.requests[count]
    with pytest.raises(errors.OperationFailed, match="index 5 is out of bounds"):
        request.approve()
    assert pending.state == "pending"
    request.fail("that")
    with pytest.raises(errors.OperationFailed, match="its owner can tell more"):
        pending.result(20)


# -- limits, and ends --------------------------------------------------------------------------------------


def test_every_limit_is_one_outcome(make_duets: MakeDuets) -> None:
    owner, scientist = make_duets(
        worker_timeout_s=3.0, worker_memory_bytes=1 << 30, worker_result_bytes=100_000
    )
    owner.share(np.ones(12_000), "x", mock=np.zeros(10))
    x: Any = scientist.wait_object("x", 10)
    owner.policies.add(Policy("approve", failures="message"))
    large = np.outer(x[:6_000], x[:6_000])
    over = {"size": x.repeat(2), "memory": np.outer(x, x).sum(), "time": (large @ large @ large).sum()}
    told = set()
    for result in over.values():
        with pytest.raises(errors.OperationFailed) as failed:
            result.get()
        told.add(str(failed.value).partition(" was ")[2])
    assert told == {"not made at the owner: it came to a limit of time, memory or size"}
    with pytest.raises(errors.OperationFailed):
        scientist.fetch([x.sum(), over["memory"]])
    assert scientist.check(over["size"]) is False
    assert x.sum().get() == 12_000.0


def runs(bench: Bench, request: Request) -> list[str]:
    return [entry.state for entry in bench.owner.audit.filter(kind="run") if entry.request == request.number]


@pytest.fixture
def running(unanswered: Bench) -> tuple[PendingRequest, Request]:
    """A request whose run takes for ever, at work."""
    name = f"endless {len(unanswered.owner.requests)}"
    x = unanswered.share(np.ones(5_000), name, mock=np.zeros(10))
    large = np.outer(x, x)
    for _ in range(100):
        large = large @ large
    count = len(unanswered.owner.requests)
    heard = Heard(unanswered)
    try:
        pending = large.sum().request("for ever")
        until(lambda: bool(heard.states))  # that it is pending
    finally:
        heard.end()
    until(lambda: unanswered.owner.requests[count].running != "")
    return pending, unanswered.owner.requests[count]


def test_a_room_ends_with_the_request_that_is_withdrawn(
    unanswered: Bench, running: tuple[PendingRequest, Request]
) -> None:
    pending, request = running
    assert request.running.startswith("step ")
    pending.withdraw()
    until(lambda: request.state == "withdrawn" and request.running == "")
    until(lambda: runs(unanswered, request) == ["begun", "killed"])
    with pytest.raises(errors.RequestWithdrawn):
        pending.result(1)


def test_its_owner_stops_a_run_and_the_peer_hears_nothing(
    unanswered: Bench, running: tuple[PendingRequest, Request]
) -> None:
    pending, request = running
    heard = Heard(unanswered)
    try:
        request.stop()
        assert (request.state, request.running) == ("pending", "")
        assert runs(unanswered, request) == ["begun", "killed"]
        assert unanswered.scientist.ping() > 0
        assert (heard.states, heard.others, pending.state) == ([], [], "pending")
    finally:
        heard.end()
    request.deny("it takes too long")
    with pytest.raises(errors.RequestDenied, match="too long"):
        pending.result(20)


# -- other duets, and noise --------------------------------------------------------------------------------


def test_a_result_of_another_duet_is_refused(bench: Bench, make_duets: MakeDuets) -> None:
    x = bench.share(np.arange(3.0), "here only", mock=np.zeros(3))
    owner, scientist = make_duets()
    owner.share(np.arange(3.0), "there", mock=np.zeros(3))
    there: Any = scientist.wait_object("there", 10)
    for ask in (
        lambda: scientist.fetch([x + 1, there + 1]),
        lambda: scientist.check([x + 1, there + 1]),
        lambda: (there + 1) + (x + 1),
    ):
        with pytest.raises(errors.OperationRefused, match="another duet"):
            ask()
    assert len(owner.requests) == 0


def test_no_seed_of_a_program_reaches_the_noise_of_a_statistic(bench: Bench) -> None:
    bench.owner.share(
        np.arange(1000.0), "noisy", mock=np.zeros(1000), budget=Budget(10, bounds=(0.0, 1000.0))
    )
    x: Any = bench.scientist.wait_object("noisy", 10)
    made = []
    for _ in range(2):
        bench.scientist.remote(torch).manual_seed(0)
        made.append(float((x * 1).mean().dp(epsilon=0.5)))
        made.append(float(x.mean().dp(epsilon=0.5)))
    assert len(set(made)) == 4

"""Policies in force: what they answer between two notebooks, what they count, and what they never let out."""

from __future__ import annotations

import datetime as dt
import threading
from typing import Any

import numpy as np
import polars as pl
import pytest

import duetlink
from duetlink import Policy, errors
from duetlink.duet.duet import Duet
from duetlink.testing.faults import life_of, run_inside
from tests.duet.test_duet import answering, pointer, until

Pair = tuple[Duet, Duet]

NOON = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)


class Clock:
    """The owner's clock, that stands until it is set."""

    def __init__(self, owner: Duet) -> None:
        self.now = NOON
        life_of(owner).inbox.policies.now = lambda: self.now

    def pass_(self, **time: float) -> None:
        self.now += dt.timedelta(**time)


def until_changed(owner: Duet, state: str, number: int = 0) -> None:
    until(lambda: len(owner.requests) > number and owner.requests[number].state == state)


# -- what is answered --------------------------------------------------------------------------------------


def test_a_policy_approves_at_once_and_says_so(duets: Pair) -> None:
    owner, scientist = duets
    owner.policies.add(Policy("approve", name="losses", tags="loss", max_elements=1))
    owner.share(0.5, "loss 1", tags=["loss"])
    owner.share(np.zeros(2), "gradient", tags=["loss"])
    assert pointer(scientist, "loss 1").get(reason="to plot", timeout_s=10) == 0.5
    (request,) = owner.requests
    assert (request.state, request.by, request.reason) == ("approved", "policy losses", "to plot")
    assert request.answered is not None
    pending = pointer(scientist, "gradient").request()
    waiting = owner.wait_request(10)
    assert (waiting.number, waiting.state, waiting.by) == (1, "pending", "")
    waiting.approve()
    assert list(pending.result(10)) == [0, 0]
    assert waiting.by == "person"
    assert [(entry.kind, entry.by) for entry in owner.audit.filter(kind=("answer", "policy"))] == [
        ("policy", ""),
        ("answer", "policy losses"),
        ("answer", "person"),
    ]


def test_a_large_object_leaves_by_a_policy_too(duets: Pair) -> None:
    owner, scientist = duets
    owner.policies.add(Policy("approve"))
    array = np.arange(1_000_000.0)
    owner.share(array, "x")
    assert np.array_equal(pointer(scientist, "x").get(timeout_s=20), array)


def test_words_of_a_denial_reach_the_peer(duets: Pair) -> None:
    owner, scientist = duets
    owner.policies.add(Policy("deny", name="raw", kinds="numpy.*", reason="raw data stay here"))
    owner.share(np.zeros(3), "x")
    with pytest.raises(errors.RequestDenied, match="raw data stay here") as denied:
        pointer(scientist, "x").get(timeout_s=10)
    assert denied.value.reason == "raw data stay here"
    (request,) = owner.requests
    assert (request.state, request.by, request.answer_reason) == (
        "denied",
        "policy raw",
        "raw data stay here",
    )
    assert [entry.state for entry in owner.audit.filter(kind="answer")] == ["denied"]
    assert scientist.statistics().received_bytes == 0


def test_without_a_match_the_request_waits_for_the_person(duets: Pair) -> None:
    owner, scientist = duets
    owner.policies.add(Policy("approve", assets="loss*"))
    owner.policies.add(Policy("ask", assets="x"))
    owner.policies.add(Policy("approve"))
    owner.share(1, "x")
    with pytest.raises(errors.RequestTimeout):
        pointer(scientist, "x").get(timeout_s=0.2)
    assert owner.requests[0].by == ""


def test_the_tags_that_count_are_the_owners(duets: Pair) -> None:
    owner, scientist = duets
    owner.policies.add(Policy("approve", tags="harmless"))
    owner.share(1, "secret", tags=["private"])
    found = pointer(scientist, "secret")
    info = life_of(scientist).catalogue.peer["secret"]
    object.__setattr__(info, "tags", ("harmless",))  # whatever the other side makes of it
    assert found.tags == ("harmless",)
    with pytest.raises(errors.RequestTimeout):
        found.get(timeout_s=0.2)


def test_behind_a_policy_that_denies_all_nothing_leaves(duets: Pair) -> None:
    owner, scientist = duets
    owner.policies.add(Policy("approve", name="all"))
    owner.policies.add(Policy("deny", name="stop"), at=0)
    owner.share(1, "x")
    with pytest.raises(errors.RequestDenied):
        pointer(scientist, "x").get(timeout_s=10)
    owner.policies.move("all", 0)
    assert pointer(scientist, "x").get(timeout_s=10) == 1
    owner.policies.move("stop", 0)
    with pytest.raises(errors.RequestDenied):
        pointer(scientist, "x").get(timeout_s=10)
    owner.policies.remove("stop")
    assert pointer(scientist, "x").get(timeout_s=10) == 1


def test_what_a_person_granted_stays_granted(duets: Pair) -> None:
    owner, scientist = duets
    owner.share(1, "x")
    answering(owner, lambda request: request.approve())
    pointer(scientist, "x").get(timeout_s=10)
    owner.policies.add(Policy("deny"))
    assert pointer(scientist, "x").get(timeout_s=10) == 1


def test_an_object_changed_since_is_denied_and_not_charged(make_duets: Any) -> None:
    owner, scientist = make_duets(prepare_limit_bytes=1)
    owner.policies.add(Policy("approve", name="all", count=1))
    array = np.zeros(100)
    owner.share(array, "x")
    run_inside(owner, life_of(owner).catalogue.mine["x"].content.outgoing())
    array[5] = 1
    with pytest.raises(errors.RequestDenied, match="share it again"):
        pointer(scientist, "x").get(timeout_s=10)
    assert (owner.requests[0].state, owner.requests[0].by) == ("denied", "policy all")
    owner.share(array, "x")
    until(lambda: scientist.store["x"].revision == 2)
    assert pointer(scientist, "x").get(timeout_s=10)[5] == 1


def test_where_the_log_cannot_be_written_a_policy_lets_nothing_out(
    duets: Pair, private_audit_log: Any
) -> None:
    from tests.duet.test_audit import break_log, mend_log

    owner, scientist = duets
    owner.policies.add(Policy("approve", name="all", count=1))
    owner.share(1, "x")
    found = pointer(scientist, "x")
    break_log(private_audit_log)
    with pytest.raises(errors.RequestDenied, match="audit log cannot be written"):
        found.get(timeout_s=10)
    assert (owner.requests[0].state, owner.requests[0].by) == ("denied", "")
    with pytest.raises(errors.AuditUnavailable):
        owner.policies.add(Policy("approve", name="more"))
    assert [policy.name for policy in owner.policies] == ["all"]
    mend_log(private_audit_log)
    assert found.get(timeout_s=10) == 1  # it was charged back


# -- what is counted ---------------------------------------------------------------------------------------


def test_fifty_requests_at_once_get_a_quota_of_ten(duets: Pair) -> None:
    owner, scientist = duets
    owner.policies.add(Policy("approve", name="ten", count=10))
    for number in range(50):
        owner.share(number, f"object {number}")
    until(lambda: len(scientist.store) == 50)
    pending = [pointer(scientist, f"object {number}").request() for number in range(50)]
    until(lambda: len(owner.requests) == 50 and len(owner.requests.pending) == 40)
    until(lambda: sum(request.state == "complete" for request in pending) == 10)
    assert len(owner.audit.filter(kind="release")) == 10


def test_fifty_requests_for_one_object_get_a_quota_of_ten(duets: Pair) -> None:
    owner, scientist = duets
    owner.policies.add(Policy("approve", name="ten", total_elements=10))
    owner.share(7, "x")
    found = pointer(scientist, "x")
    pending = [found.request(str(number)) for number in range(50)]
    until(lambda: len(owner.requests.pending) == 40)
    until(lambda: sum(request.state == "complete" for request in pending) == 10)
    assert sum(request.times for request in owner.requests if request.state == "approved") == 10
    owner.requests.pending[0].approve()
    assert [request.result(20) for request in pending] == [7] * 50


def test_asking_again_is_decided_and_charged_again(duets: Pair) -> None:
    owner, scientist = duets
    owner.policies.add(Policy("approve", name="two", count=2))
    owner.share(1, "x")
    found = pointer(scientist, "x")
    assert [found.get(timeout_s=10), found.get(timeout_s=10)] == [1, 1]
    (request,) = owner.requests
    assert (request.times, request.by) == (2, "policy two")
    with pytest.raises(errors.RequestTimeout):
        found.get(timeout_s=0.2)
    owner.policies.add(Policy("deny", reason="used up"))
    with pytest.raises(errors.RequestDenied, match="used up"):
        found.get(timeout_s=10)
    assert "2 times, 2 elements" in repr(owner.policies)


def test_a_used_up_policy_leaves_it_to_the_next(duets: Pair) -> None:
    owner, scientist = duets
    owner.policies.add(Policy("approve", name="first", count=1))
    owner.policies.add(Policy("approve", name="second", total_bytes=1000))
    owner.share(1, "x")
    found = pointer(scientist, "x")
    for _ in range(3):
        found.get(timeout_s=10)
    assert [entry.by for entry in owner.audit.filter(kind="answer")] == [
        "policy first",
        "policy second",
        "policy second",
    ]


def test_a_rate_and_an_end(duets: Pair) -> None:
    owner, scientist = duets
    clock = Clock(owner)
    owner.policies.add(Policy("approve", rate=(2, 60)), expires_s=100)
    owner.policies.add(Policy("deny"))
    owner.share(1, "x")
    found = pointer(scientist, "x")

    def answered() -> bool:
        try:
            return bool(found.get(timeout_s=10))
        except errors.RequestDenied:
            return False

    assert [answered(), answered(), answered()] == [True, True, False]
    clock.pass_(seconds=60)
    assert [answered(), answered(), answered()] == [True, True, False]
    clock.pass_(seconds=60)
    assert not answered()  # over since 20 seconds
    assert owner.policies[0].until == NOON + dt.timedelta(seconds=100)


# -- what waits --------------------------------------------------------------------------------------------


def test_a_policy_answers_what_waits_when_it_is_added(duets: Pair) -> None:
    owner, scientist = duets
    owner.share(1, "a", tags=["fine"])
    owner.share(2, "b")
    owner.share(3, "c")
    pending = {name: pointer(scientist, name).request() for name in "abc"}
    until(lambda: len(owner.requests.pending) == 3)
    owner.policies.add(Policy("approve", name="fine", tags="fine"))
    owner.policies.add(Policy("deny", assets="b", reason="not b"))
    assert pending["a"].result(10) == 1
    with pytest.raises(errors.RequestDenied, match="not b"):
        pending["b"].result(10)
    assert [(request.asset.name, request.state) for request in owner.requests.pending] == [("c", "pending")]
    by = {request.asset.name: request.by for request in owner.requests}
    assert by == {"a": "policy fine", "b": "policy 1", "c": ""}


def test_what_waits_is_let_out_within_the_quota(duets: Pair) -> None:
    owner, scientist = duets
    for number in range(5):
        owner.share(number, f"x{number}")
    until(lambda: len(scientist.store) == 5)
    pending = [pointer(scientist, f"x{number}").request() for number in range(5)]
    until(lambda: len(owner.requests.pending) == 5)
    clock = Clock(owner)
    owner.policies.add(Policy("approve", rate=(2, 60)))
    until(lambda: sum(request.state == "complete" for request in pending) == 2)
    assert len(owner.requests.pending) == 3
    clock.pass_(seconds=61)
    owner.policies.apply()
    assert len(owner.requests.pending) == 1


# -- trying them -------------------------------------------------------------------------------------------


def test_a_request_is_explained_without_being_answered(duets: Pair) -> None:
    owner, scientist = duets
    owner.share(np.zeros(100), "x")
    pointer(scientist, "x").request()
    request = owner.wait_request(10)
    owner.policies.add(Policy("approve", name="small", max_elements=10))
    owner.policies.add(Policy("ask", name="mine"))
    decision = owner.policies.explain(request)
    assert decision.action == "ask"
    assert [(verdict.policy.name, verdict.why_not) for verdict in decision.verdicts] == [
        ("small", "it has 100 elements, over 10"),
        ("mine", ""),
    ]
    assert "over 10" in decision._repr_html_()
    assert request.state == "pending"


def test_the_history_is_replayed(duets: Pair) -> None:
    owner, scientist = duets
    for name in ("a", "b", "c"):
        owner.share(name, name)
    until(lambda: len(scientist.store) == 3)
    answering(
        owner, lambda request: request.deny("no") if request.asset.name == "b" else request.approve(), 3
    )
    for name in ("a", "b", "c"):
        try:
            pointer(scientist, name).get(timeout_s=10)
        except errors.RequestDenied:
            assert name == "b"
    owner.policies.add(Policy("approve", name="two", count=2))
    replayed = owner.policies.replay()
    assert [(one.number, one.decision.action, one.state, one.by) for one in replayed] == [
        (0, "approve", "approved", "person"),
        (1, "approve", "denied", "person"),
        (2, "wait", "approved", "person"),
    ]
    assert "policy two" in repr(replayed)
    assert owner.policies.explain(owner.requests[2]).action == "approve"  # nothing was counted


def test_a_policy_like_a_request_approves_that_and_little_else(duets: Pair) -> None:
    owner, scientist = duets
    clock = Clock(owner)
    owner.share(np.zeros(3), "mean [1]", tags=["mean", "a*"])
    owner.share(np.zeros(4), "mean 1", tags=["mean", "a*"])
    pointer(scientist, "mean [1]").request()
    policy = owner.wait_request(10).like_this()
    midnight = (NOON + dt.timedelta(days=1)).replace(hour=0)
    assert policy == Policy(
        "approve", name="like request 0", assets="mean [[]1]", tags=("mean", "a[*]"), no_other_tags=True,
        kinds="numpy.ndarray", peers="Sven", max_bytes=owner.requests[0].asset.size_bytes, max_elements=3,
        count=10, until=midnight.replace(tzinfo=None).astimezone(),
    )  # fmt: skip
    owner.policies.add(policy)
    until_changed(owner, "approved")
    owner.policies.add(Policy("deny"))
    with pytest.raises(errors.RequestDenied):
        pointer(scientist, "mean 1").get(timeout_s=10)
    assert len(pointer(scientist, "mean [1]").get(timeout_s=10)) == 3
    clock.pass_(days=1)
    with pytest.raises(errors.RequestDenied):
        pointer(scientist, "mean [1]").get(timeout_s=10)
    once = owner.requests[0].like_this(count=1, until=None, name="once")
    assert (once.count, once.until, once.name) == (1, None, "once")
    with pytest.raises(errors.SettingError, match="no such field"):
        owner.requests[0].like_this(size=3)


def test_a_policy_like_a_request_for_what_nobody_counts_has_no_limit_of_elements(duets: Pair) -> None:
    owner, scientist = duets
    owner.share(pl.Series([[1]]), "x")
    pending = pointer(scientist, "x").request()
    policy = owner.wait_request(10).like_this()
    assert policy.max_elements is None
    owner.policies.add(policy)
    assert pending.result(10).to_list() == [[1]]


# -- the list of them --------------------------------------------------------------------------------------


def test_the_list_is_changed_by_name_and_place() -> None:
    with duetlink.launch() as owner:
        policies = owner.policies
        assert repr(policies) == "Policies: none: you answer every request"
        first = policies.add(Policy("approve", assets="a"))
        assert first == Policy("approve", assets="a", name="1")
        policies.add(Policy("deny", name="last"))
        policies.add(Policy("ask"), at=0)
        assert [policy.name for policy in policies] == ["2", "1", "last"]
        assert policies["last"].action == "deny"
        assert policies[-1].name == "last"
        policies.move("last", 0)
        assert [policy.name for policy in policies] == ["last", "2", "1"]
        policies.remove("2")
        assert "assets a" in repr(policies)
        assert "assets a" in policies._repr_html_()
        for change in (policies.remove, policies.__getitem__, lambda name: policies.move(name, 0)):
            with pytest.raises(errors.UnknownPolicy, match="there is 'last', '1'"):
                change("2")
        policies.clear()
        assert len(owner.policies) == 0
        until(lambda: len(owner.audit.filter(kind="policy")) == 7)
        assert [(entry.name, entry.state) for entry in owner.audit.filter(kind="policy")] == [
            ("1", "added"),
            ("last", "added"),
            ("2", "added at place 0"),
            ("last", "moved to place 0"),
            ("2", "removed"),
            ("last", "removed"),
            ("1", "removed"),
        ]
        assert next(iter(owner.audit.filter(kind="policy"))).reason == "approve: assets a"


def test_a_cell_run_twice_adds_a_policy_once_and_keeps_its_count(duets: Pair) -> None:
    owner, scientist = duets
    owner.share(1, "x")
    for _ in range(2):
        owner.policies.add(Policy("approve", name="once", count=1))
        owner.policies.add(Policy("deny", reason="used up"))
        if len(owner.requests) == 0:
            pointer(scientist, "x").get(timeout_s=10)
    assert [policy.name for policy in owner.policies] == ["once", "1"]
    with pytest.raises(errors.RequestDenied, match="used up"):
        pointer(scientist, "x").get(timeout_s=10)
    with pytest.raises(errors.SettingError, match="another policy 'once'"):
        owner.policies.add(Policy("approve", name="once", count=2))
    with pytest.raises(errors.SettingError, match="has an end"):
        owner.policies.add(Policy("approve", until=NOON), expires_s=3)
    with pytest.raises(errors.SettingError, match="takes a Policy, got str"):
        owner.policies.add("approve")  # type: ignore[arg-type]


# -- what is shown -----------------------------------------------------------------------------------------


def test_a_policy_that_announces_shows_the_object_here(
    duets: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    owner, scientist = duets
    capsys.readouterr()
    owner.policies.add(Policy("deny", name="watch", announce=True))
    owner.share({"loss": 0.125}, "loss")
    with pytest.raises(errors.RequestDenied):
        pointer(scientist, "loss").get(reason="how far\x1b[31m?", timeout_s=10)
    shown = ""

    def all_shown() -> bool:
        nonlocal shown
        shown += capsys.readouterr().out
        return "0.125" in shown

    until(all_shown)
    assert shown == ("policy watch: denied 'loss' for Sven; reason: how far\\x1b[31m?\n{'loss': 0.125}\n")


# -- PySyft Duet's handlers --------------------------------------------------------------------------------


def add_handler(
    owner: Duet,
    action: str,
    print_local: bool = False,
    log_local: bool = False,  # the audit log has it in any case, without the value
    tags: list[str] | None = None,
    timeout_secs: int = -1,
    element_quota: int | None = None,
) -> None:
    """`duet.requests.add_handler` of PySyft 0.5, by policies: the parameters and what they meant."""
    expires_s = None if timeout_secs < 0 else timeout_secs
    which: dict[str, Any] = {"tags": tags, "no_other_tags": True} if tags else {}
    which["announce"] = print_local
    if action == "deny":
        owner.policies.add(Policy("deny", **which), expires_s=expires_s)
        return
    owner.policies.add(Policy("approve", total_elements=element_quota, **which), expires_s=expires_s)
    if element_quota is not None:  # what is left over was denied
        owner.policies.add(Policy("deny", **which), expires_s=expires_s)


class Answers:
    """What comes back for objects of given tags and elements."""

    def __init__(self, duets: Pair) -> None:
        self.owner, self.scientist = duets
        self.count = 0

    def ask(self, *tags: str, elements: int | None = 1) -> str:
        name = f"object {self.count}"
        self.count += 1
        value = pl.Series([[1]]) if elements is None else np.zeros(elements)
        self.owner.share(value, name, tags=tags)
        try:
            pointer(self.scientist, name).get(timeout_s=0.3)
        except errors.RequestDenied:
            return "denied"
        except errors.RequestTimeout:
            return "waits"
        return "accepted"


def test_the_originals_handler_without_tags_answers_all(duets: Pair) -> None:
    answers = Answers(duets)
    assert answers.ask("a") == "waits"
    add_handler(duets[0], "accept")
    assert [answers.ask(), answers.ask("a"), answers.ask("a", "b")] == ["accepted"] * 3


def test_the_originals_tags_are_the_very_set(duets: Pair) -> None:
    answers = Answers(duets)
    add_handler(duets[0], "accept", tags=["x", "mean"])
    add_handler(duets[0], "deny", tags=["x"])
    assert answers.ask("x", "mean") == "accepted"
    assert answers.ask("mean", "x") == "accepted"
    assert answers.ask("x") == "denied"
    assert answers.ask("x", "mean", "more") == "waits"
    assert answers.ask("mean") == "waits"


def test_the_originals_quota_denies_what_is_over(duets: Pair) -> None:
    answers = Answers(duets)
    add_handler(duets[0], "accept", element_quota=10)
    assert [answers.ask(elements=count) for count in (6, 5, 4, 1, 0)] == [
        "accepted", "denied", "accepted", "denied", "denied",
    ]  # fmt: skip


def test_the_originals_quota_denies_what_has_no_elements(duets: Pair) -> None:
    answers = Answers(duets)
    add_handler(duets[0], "accept", element_quota=1000)
    assert answers.ask(elements=None) == "denied"


def test_the_originals_handler_ends_by_itself(duets: Pair) -> None:
    clock = Clock(duets[0])
    answers = Answers(duets)
    add_handler(duets[0], "accept", timeout_secs=60)
    clock.pass_(seconds=59)
    assert answers.ask() == "accepted"
    clock.pass_(seconds=1)
    assert answers.ask() == "waits"


def test_the_originals_owner_watches_what_the_scientist_does_not_get(
    duets: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    add_handler(duets[0], "deny", print_local=True)
    assert Answers(duets).ask(elements=2) == "denied"
    shown: list[str] = []

    def all_shown() -> bool:
        shown.append(capsys.readouterr().out)
        return "[0. 0.]" in "".join(shown) or "array([0., 0.])" in "".join(shown)

    until(all_shown)


# -- at the same time --------------------------------------------------------------------------------------


def test_a_person_and_a_policy_answer_one_request_once(duets: Pair) -> None:
    owner, scientist = duets
    for number in range(10):
        owner.share(number, f"x{number}")
    until(lambda: len(scientist.store) == 10)
    pending = [pointer(scientist, f"x{number}").request() for number in range(10)]
    until(lambda: len(owner.requests.pending) == 10)
    refused: list[errors.DuetError] = []

    def approve() -> None:
        for request in list(owner.requests):
            try:
                request.approve()
            except errors.RequestAnswered as error:
                refused.append(error)

    thread = threading.Thread(target=approve)
    thread.start()
    owner.policies.add(Policy("approve", name="all"))
    thread.join(20)
    assert [request.result(10) for request in pending] == list(range(10))
    by = [request.by for request in owner.requests]
    assert by.count("policy all") == len(refused)
    assert len(owner.audit.filter(kind="release")) == 10

"""Which policy answers: each field at its borders, the order, and what was let out before."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetlink.duet.answering.policies.decision import Decision, decide
from duetlink.duet.answering.policies.facts import Facts
from duetlink.duet.answering.policies.policy import Policy, literal
from duetlink.duet.answering.policies.usage import Usage
from duetlink.errors import SettingError
from duetlink.prep import Prep

NOON = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)
LOSS = Facts("loss 3", "numpy.ndarray", ("loss", "epoch 3"), "Sven", 800, 100)
SECOND = dt.timedelta(seconds=1)


def ruled(
    policy: Policy, facts: Facts = LOSS, usage: Usage | None = None, now: dt.datetime = NOON
) -> Decision:
    return decide([policy], facts, {policy.name: usage or Usage()}, now)


@pytest.mark.parametrize(
    ("fields", "why_not"),
    [
        ({}, ""),
        ({"assets": "loss 3"}, ""),
        ({"assets": "loss*"}, ""),
        ({"assets": "loss ?"}, ""),
        ({"assets": ("x", "loss [0-4]")}, ""),
        ({"assets": "Loss*"}, "the object is called 'loss 3', not Loss*"),
        ({"assets": ("x", "y")}, "the object is called 'loss 3', not x or y"),
        ({"assets": "loss"}, "the object is called 'loss 3', not loss"),
        ({"tags": "loss"}, ""),
        ({"tags": ("loss", "epoch *")}, ""),
        ({"tags": ("loss", "final")}, "the object has no tag final"),
        ({"tags": ("loss", "epoch 3"), "no_other_tags": True}, ""),
        ({"tags": ("loss",), "no_other_tags": True}, "the object has the tag 'epoch 3' as well"),
        ({"tags": ("*",), "no_other_tags": True}, ""),
        ({"no_other_tags": True}, "the object has the tag 'loss' as well"),
        ({"kinds": "numpy.*"}, ""),
        ({"kinds": "pandas.*"}, "the object is a 'numpy.ndarray', not pandas.*"),
        ({"peers": "Sven"}, ""),
        ({"peers": "sven"}, "the peer is called 'Sven', not sven"),
        ({"max_bytes": 800}, ""),
        ({"max_bytes": 799}, "it has 800 B, over 799 B"),
        ({"max_elements": 100}, ""),
        ({"max_elements": 99}, "it has 100 elements, over 99"),
        ({"total_bytes": 800}, ""),
        ({"total_bytes": 799}, "it may release 799 B more, not 800 B"),
        ({"total_elements": 100}, ""),
        ({"total_elements": 99}, "it may release 99 elements more, not 100 elements"),
        ({"count": 1}, ""),
        ({"count": 0}, "it has answered 0 times, of 0"),
        ({"after": NOON}, ""),
        ({"after": NOON + SECOND}, "it is in force from 2026-03-01 12:00:01+00:00 on"),
        ({"until": NOON + SECOND}, ""),
        ({"until": NOON}, "it was in force until 2026-03-01 12:00:00+00:00"),
        ({"hours": ("12:00", "12:01")}, ""),
        ({"hours": ("11:00", "12:00")}, "it is 12:00, not between 11:00 and 12:00"),
        ({"hours": ("22:00", "12:01")}, ""),
        ({"hours": ("22:00", "06:00")}, "it is 12:00, not between 22:00 and 06:00"),
        ({"hours": (dt.time(8), dt.time(18))}, ""),
    ],
)
def test_a_policy_matches_where_all_its_fields_fit(fields: dict[str, Any], why_not: str) -> None:
    policy = Policy("approve", name="p", **fields)
    decision = ruled(policy)
    assert decision.verdicts[0].why_not == why_not
    assert decision.action == ("wait" if why_not else "approve")
    assert decision.policy is (None if why_not else policy)


@pytest.mark.parametrize(
    ("fields", "usage", "why_not"),
    [
        ({"count": 3}, Usage(count=2), ""),
        ({"count": 3}, Usage(count=3), "it has answered 3 times, of 3"),
        ({"total_bytes": 1600}, Usage(size_bytes=800), ""),
        ({"total_bytes": 1600}, Usage(size_bytes=801), "it may release 799 B more, not 800 B"),
        ({"total_elements": 200}, Usage(elements=100), ""),
        ({"total_elements": 200}, Usage(elements=101), "it may release 99 elements more, not 100 elements"),
    ],
)
def test_a_policy_fits_no_longer_when_its_quota_is_used_up(
    fields: dict[str, Any], usage: Usage, why_not: str
) -> None:
    assert ruled(Policy("approve", name="p", **fields), LOSS, usage).verdicts[0].why_not == why_not


def test_a_used_up_quota_lets_nothing_small_through_either() -> None:
    nothing = Facts("x", "list", (), "Sven", 0, 0)
    policy = Policy("approve", name="p", total_elements=100)
    assert ruled(policy, nothing, Usage(elements=99)).action == "approve"
    assert ruled(policy, nothing, Usage(elements=100)).action == "wait"
    assert ruled(Policy("approve", name="p", total_elements=0), nothing).action == "wait"


@pytest.mark.parametrize("field", ["max_elements", "total_elements"])
def test_what_nobody_counts_fits_no_limit_of_elements(field: str) -> None:
    facts = Facts("x", "polars.Series", (), "Sven", 8, None)
    decision = ruled(Policy("approve", **{field: 10**9}), facts)  # type: ignore[arg-type]
    assert decision.verdicts[0].why_not == "the elements of a polars.Series cannot be counted"


def test_a_rate_counts_what_lies_within_its_seconds() -> None:
    policy = Policy("approve", name="p", rate=(2, 60))
    usage = Usage()
    for second in (0, 30):
        usage.charge(policy, LOSS, NOON + second * SECOND)
    assert ruled(policy, LOSS, usage, NOON + 59 * SECOND).verdicts[0].why_not == (
        "it has answered 2 times in the last 60 s"
    )
    assert ruled(policy, LOSS, usage, NOON + 60 * SECOND).action == "approve"
    usage.charge(policy, LOSS, NOON + 60 * SECOND)
    assert len(usage.moments) == 2
    assert ruled(policy, LOSS, usage, NOON + 89 * SECOND).action == "wait"
    assert ruled(policy, LOSS, usage, NOON + 90 * SECOND).action == "approve"


def test_a_clock_set_back_lets_out_no_more() -> None:
    policy = Policy("approve", name="p", rate=(1, 60))
    usage = Usage()
    usage.charge(policy, LOSS, NOON)
    assert ruled(policy, LOSS, usage, NOON - dt.timedelta(days=1)).action == "wait"


def test_what_did_not_come_about_is_charged_back() -> None:
    policy = Policy("approve", name="p", rate=(1, 60), count=1)
    usage = Usage()
    usage.charge(policy, LOSS, NOON)
    usage.charge_back(policy, LOSS, NOON)
    assert usage == Usage()


def test_hours_are_those_of_the_clock_that_asks() -> None:
    policy = Policy("approve", hours=("08:00", "18:00"))
    evening = dt.timezone(dt.timedelta(hours=8))
    assert ruled(policy, now=NOON).action == "approve"
    assert ruled(policy, now=NOON.astimezone(evening)).verdicts[0].why_not == (
        "it is 20:00, not between 08:00 and 18:00"
    )


def test_the_first_that_matches_decides() -> None:
    never = Policy("approve", name="never", assets="x")
    ask, deny = Policy("ask", name="ask", tags="loss"), Policy("deny", name="deny", reason="no")
    decision = decide([never, ask, deny], LOSS, {}, NOON)
    assert (decision.action, decision.by) == ("ask", "policy ask")
    assert [verdict.policy.name for verdict in decision.verdicts] == ["never", "ask"]
    assert decide([deny, ask], LOSS, {}, NOON).policy is deny


def test_without_a_policy_the_person_answers() -> None:
    decision = decide([], LOSS, {}, NOON)
    assert (decision.action, decision.by, decision.verdicts) == ("wait", "", ())
    assert repr(decision) == "Decision: waits for you: there are no policies"


def test_a_decision_says_why() -> None:
    policies = [Policy("approve", name="small", max_bytes=10), Policy("deny", name="rest")]
    text = repr(decide(policies, LOSS, {}, NOON))
    assert "Decision: deny, by policy rest" in text
    assert "small   approve  no       it has 800 B, over 10 B" in text


# -- properties --------------------------------------------------------------------------------------------

TEXTS = st.text(max_size=8)
PATTERNS = st.lists(st.one_of(TEXTS, st.just("*")), max_size=2).map(tuple)
LIMITS = st.none() | st.integers(0, 100)
POLICIES = st.builds(
    Policy,
    st.just("approve"),
    name=TEXTS,
    assets=PATTERNS,
    tags=PATTERNS,
    kinds=PATTERNS,
    peers=PATTERNS,
    max_bytes=LIMITS,
    max_elements=LIMITS,
    count=LIMITS,
    total_bytes=LIMITS,
    total_elements=LIMITS,
    no_other_tags=st.booleans(),
)
FACTS = st.builds(
    Facts, TEXTS, TEXTS, st.lists(TEXTS, max_size=3).map(tuple), TEXTS, st.integers(0, 200), LIMITS
)


@given(policies=st.lists(POLICIES, max_size=4), facts=FACTS)
def test_behind_a_policy_that_denies_all_nothing_is_approved(policies: list[Policy], facts: Facts) -> None:
    assert decide([Policy("deny"), *policies], facts, {}, NOON).action == "deny"


@given(policies=st.lists(POLICIES, max_size=4), facts=FACTS)
def test_a_policy_at_the_end_changes_no_other_answer(policies: list[Policy], facts: Facts) -> None:
    before = decide(policies, facts, {}, NOON)
    after = decide([*policies, Policy("deny", name="last")], facts, {}, NOON)
    assert after.policy == before.policy or before.policy is None


@given(asked=st.lists(FACTS), policy=POLICIES)
def test_no_quota_is_ever_overspent(asked: list[Facts], policy: Policy) -> None:
    usage = Usage()
    let_out = []
    for facts in asked:
        if decide([policy], facts, {policy.name: usage}, NOON).action == "approve":
            usage.charge(policy, facts, NOON)
            let_out.append(facts)
    assert policy.count is None or len(let_out) <= policy.count
    assert policy.total_bytes is None or sum(facts.size_bytes for facts in let_out) <= policy.total_bytes
    if policy.total_elements is not None:
        assert sum(facts.elements or 0 for facts in let_out) <= policy.total_elements


@given(text=TEXTS | st.text("*?[]!-x", max_size=8), other=st.text("*?[]!-x", max_size=8))
def test_a_literal_pattern_fits_its_text_alone(text: str, other: str) -> None:
    facts = Facts(text, "", (), "", 0)
    assert ruled(Policy("approve", assets=literal(text)), facts).action == "approve"
    assert (ruled(Policy("approve", assets=literal(other)), facts).action == "approve") == (text == other)


# -- what a policy may be ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"action": "accept"}, "one of approve, deny, ask, got 'accept'"),
        ({"name": "n" * 201}, "at most 200 characters"),
        ({"assets": 3}, r"assets are texts or patterns, such as \('loss\*',\); got 3"),
        ({"tags": ("a", 1)}, "tags are texts"),
        ({"tags": None}, "tags are texts"),
        ({"max_bytes": -1}, "max_bytes must be a whole number from 0 on, got -1"),
        ({"max_elements": 1.5}, "max_elements must be a whole number"),
        ({"count": True}, "count must be a whole number"),
        ({"rate": 5}, r"such as \(10, 60\), got 5"),
        ({"rate": (0, 60)}, "rate is how many"),
        ({"rate": (1, float("nan"))}, "rate is how many"),
        ({"until": dt.datetime(2026, 1, 1)}, r"time zone.*try \.astimezone\(\)"),
        ({"after": "today"}, "after is a datetime"),
        ({"after": NOON, "until": NOON}, "must be later than after"),
        ({"hours": ("8", "morning")}, "two times of this machine's day"),
        ({"hours": ("08:00",)}, "two times"),
        ({"hours": ("08:00", "08:00")}, "different times"),
        ({"hours": (8, 18)}, "two times"),
        ({"reason": "no"}, "sent to the peer with a denial"),
        ({"action": "deny", "reason": "n" * 2001}, "at most 2000 characters"),
        (
            {"action": "deny", "count": 3},
            "count is a quota of policies that approve; a policy that says deny cannot have it",
        ),
        ({"action": "ask", "rate": (1, 1)}, "rate is a quota of policies that approve"),
        ({"announce": 1}, "announce must be True or False"),
        ({"prep": "abc"}, "64 hexadecimal digits; got 'abc'"),
        ({"prep": ("A" * 64,)}, "64 hexadecimal digits"),
        ({"prep": 3}, "64 hexadecimal digits; got 3"),
        ({"no_other_tags": "yes"}, "no_other_tags must be True or False"),
    ],
)
def test_a_policy_that_cannot_be_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        Policy(**{"action": "approve"} | fields)


def test_a_policy_in_words() -> None:
    policy = Policy(
        "approve", name="losses", assets=["loss*", "score"], tags="train", max_bytes=1000,
        total_elements=5000, count=10, rate=(2, 60), until=NOON, hours=("08:00", "18:30"), announce=True,
    )  # fmt: skip
    assert policy.words() == (
        "assets loss*, score; tags train; up to 1 kB; 5,000 elements in all; 10 times; 2 in 60 s; "
        "until 2026-03-01 12:00:00+00:00; 08:00 to 18:30; announced"
    )
    assert Policy("deny").words() == "any request"
    assert repr(Policy("deny", tags="x", reason="no")) == "Policy('deny', tags=('x',), reason='no')"
    assert eval(repr(policy), {"Policy": Policy, "datetime": dt}) == policy


def test_a_policy_names_a_preparation_by_itself_or_by_its_digest() -> None:
    prep = Prep().drop_missing()
    policy = Policy("approve", prep=prep)
    assert policy == Policy("approve", prep=[prep.digest])
    assert policy.words() == f"prep {prep.digest[:12]}"
    assert ruled(policy).verdicts[0].why_not == "no preparation of an object made it"


def test_a_policy_is_a_value() -> None:
    assert Policy("approve", assets="x") == Policy("approve", assets=("x",))
    assert len({Policy("approve", assets="x"), Policy("approve", assets=["x"])}) == 1
    with pytest.raises(AttributeError):
        Policy("approve").count = 3  # type: ignore[misc]


# -- what has not been run -----------------------------------------------------------------------------------

NEW, OLD = "v2:" + "ab" * 32, "cd" * 32
PROGRAM = Facts(
    "ages.mean()",
    "",
    ("ages",),
    "Sven",
    0,
    None,
    ("mean",),
    ("ages",),
    NEW,
    "ages.mean()",
    None,
    is_made=False,
    common_tags=("ages",),
)


@pytest.mark.parametrize(
    "fields",
    [
        {"kinds": "float"},
        {"max_bytes": 8},
        {"max_elements": 1},
        {"min_group": 5},
        {"operations": "mean", "assets": "ages", "tags": "ages", "code": NEW, "lineage": "ages.mean()"},
        {"total_bytes": 8, "total_elements": 1, "count": 1, "rate": (1, 60)},
    ],
)
def test_a_program_is_run_by_a_policy_that_may_approve_what_it_makes(fields: dict[str, Any]) -> None:
    assert ruled(Policy("approve", **fields), PROGRAM).action == "approve"


@pytest.mark.parametrize(
    ("fields", "why_not"),
    [
        ({"operations": "sum"}, "it was made by mean, not only by sum"),
        ({"assets": "names"}, "it is made from 'ages', not names"),
        ({"tags": "loss"}, "the object has no tag loss"),
        ({"tags": "ages", "no_other_tags": True}, "it was made by mean, which is none of the tags"),
        ({"peers": "Olga"}, "the peer is called 'Sven', not Olga"),
        ({"prep": "ab" * 32}, "no preparation of an object made it"),
        ({"lineage": "ages.sum()"}, "it was made by other code than ages.sum()"),
        ({"code": "v2:" + "0" * 64}, "its code has the digest v2:abababababab, not v2:000000000000"),
        ({"total_elements": 0}, "it may release 0 elements more, not 0 elements"),
        ({"count": 0}, "it has answered 0 times, of 0"),
    ],
)
def test_a_program_is_not_run_by_a_policy_that_could_never_approve_it(
    fields: dict[str, Any], why_not: str
) -> None:
    decision = ruled(Policy("approve", max_bytes=8, min_group=5, **fields), PROGRAM)
    assert (decision.action, decision.verdicts[0].why_not) == ("wait", why_not)


@pytest.mark.parametrize(
    "fields", [{"kinds": "float"}, {"max_bytes": 8}, {"max_elements": 1}, {"min_group": 5}]
)
def test_a_denial_by_what_is_not_known_yet_waits_for_the_run(fields: dict[str, Any]) -> None:
    decision = ruled(Policy("deny", **fields), PROGRAM)
    assert (decision.action, decision.verdicts[0].why_not) == (
        "wait",
        "its result is not known before it has been run",
    )


def test_a_denial_by_what_is_known_is_given_before_anything_runs() -> None:
    policies = [Policy("deny", name="no", operations="mean"), Policy("approve", name="yes", max_bytes=8)]
    assert decide(policies, PROGRAM, {}, NOON).by == "policy no"


def test_the_group_of_a_function_is_known_before_it_is_run() -> None:
    facts = dataclasses.replace(PROGRAM, is_function=True, group=1)
    decision = ruled(Policy("approve", code=NEW, min_group=5), facts)
    assert decision.verdicts[0].why_not == "it may be made of 1 row, fewer than 5"


# -- digests of earlier versions -----------------------------------------------------------------------------

OUTDATED = "is of an earlier version, which named programs differently: take the new one from a request"


@pytest.mark.parametrize("action", ["approve", "deny", "ask"])
def test_a_digest_of_an_earlier_version_names_nothing_and_says_so(action: str) -> None:
    policy = Policy(action, code=OLD)
    decision = ruled(policy, PROGRAM)
    assert decision.action == "wait"
    assert decision.verdicts[0].why_not == f"its digest cdcdcdcdcdcd… {OUTDATED}"
    assert policy.words() == f"code {OLD}; the digest cdcdcdcdcdcd… {OUTDATED}"


@pytest.mark.parametrize("action", ["deny", "ask"])
def test_what_a_denial_by_an_old_digest_may_have_meant_is_left_to_a_person(action: str) -> None:
    behind = Policy("approve", name="all", operations="mean")
    decision = decide([Policy(action, name="old", code=OLD), behind], PROGRAM, {}, NOON)
    assert (decision.action, [verdict.policy.name for verdict in decision.verdicts]) == ("wait", ["old"])
    for fields in ({"peers": "Olga"}, {"assets": "names"}, {"until": NOON}):
        others = Policy(action, name="old", code=OLD, **fields)  # it could not have meant this one
        assert decide([others, behind], PROGRAM, {}, NOON).by == "policy all"
    assert decide([Policy("approve", code=OLD), behind], PROGRAM, {}, NOON).by == "policy all"


def test_a_new_digest_beside_an_old_one_fits() -> None:
    assert ruled(Policy("approve", code=(OLD, NEW)), PROGRAM).action == "approve"
    other = dataclasses.replace(PROGRAM, code="v2:" + "0" * 64)
    assert ruled(Policy("approve", code=(OLD, NEW)), other).action == "wait"

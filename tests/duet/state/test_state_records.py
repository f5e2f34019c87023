"""Records: what is read is what was written, and nothing else is read."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import deque
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink import Policy
from duetlink.compute.operations.lineage import Lineage
from duetlink.duet.answering.incoming import Incoming
from duetlink.duet.answering.policies.usage import Usage
from duetlink.duet.answering.queue import HISTORY
from duetlink.duet.objects.asset import AssetInfo
from duetlink.duet.state import records
from duetlink.duet.state.asset_record import InfoRecord, asset_from_json, info_to_json
from duetlink.duet.state.contents import Contents
from duetlink.duet.state.policy_record import (
    policy_from_json,
    policy_to_json,
    usage_from_json,
    usage_to_json,
)
from duetlink.duet.state.request_record import request_from_json, request_to_json

NOON = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)

texts = st.text(st.characters(exclude_categories=()), max_size=20)  # with surrogates and control characters
several = st.lists(texts, max_size=3).map(tuple)
zones = st.integers(-23 * 3600, 23 * 3600).map(lambda seconds: dt.timezone(dt.timedelta(seconds=seconds)))
moments = st.datetimes(dt.datetime(1971, 1, 1), dt.datetime(2200, 1, 1), timezones=zones)
whole = st.integers(0, 2**80)


def there_and_back(record: object) -> Any:
    return records.load(records.dump(record))


def info_from_json(record: object) -> AssetInfo:
    return msgspec.convert(record, InfoRecord).info()


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    action = draw(st.sampled_from(["approve", "deny", "ask"]))
    fields: dict[str, Any] = dict.fromkeys(
        ("assets", "tags", "kinds", "operations", "lineage", "code", "peers"), several
    )
    fields["prep"] = st.lists(st.integers(0, 2**256 - 1).map("{:064x}".format), max_size=2).map(tuple)
    fields |= {"name": texts, "no_other_tags": st.booleans(), "announce": st.booleans(), "log": st.booleans()}
    fields |= {name: st.none() | whole for name in ("min_group", "max_bytes", "max_elements")}
    hours = st.lists(st.times(), min_size=2, max_size=2, unique=True).map(tuple)
    fields["hours"] = st.none() | hours
    fields["after"] = st.none() | moments.filter(lambda moment: moment.year < 2100)
    fields["until"] = st.none() | moments.filter(lambda moment: moment.year > 2100)
    if action == "approve":
        fields |= {name: st.none() | whole for name in ("count", "total_bytes", "total_elements")}
        fields["failures"] = st.sampled_from(["", "that", "type", "message"])
        fields["rate"] = st.none() | st.tuples(
            st.integers(1, 10**6), st.floats(0, 1e9, exclude_min=True, exclude_max=True)
        )
    if action == "deny":
        fields["reason"] = texts
    return Policy(action, **draw(st.fixed_dictionaries(fields)))


usages = st.builds(Usage, whole, whole, whole, st.lists(moments, max_size=3).map(deque))
lineages = st.builds(
    Lineage,
    st.lists(st.tuples(texts, whole), max_size=2).map(tuple),
    several,
    whole,
    texts,
    texts,
    texts,
    several,
)
infos = st.builds(
    AssetInfo,
    name=texts,
    revision=whole,
    kind=texts,
    detail=texts,
    size_bytes=whole,
    description=texts,
    tags=several,
    lossy=texts,
    mock=texts,
    elements=st.none() | whole,
    lineage=st.none() | lineages,
    group=st.none() | whole,
    fingerprint=texts,
    common_tags=st.none() | several,
)
incomings = st.builds(
    Incoming,
    number=whole,
    asset=infos,
    content=st.none(),
    peer_name=texts,
    reason=texts,
    arrived=moments,
    expires=st.none() | moments,
    state=st.sampled_from(["pending", "approved", "denied", "withdrawn", "expired"]),
    by=texts,
    answer_reason=texts,
    answered=st.none() | moments,
    times=whole,
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


# -- there and back ----------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(policies())
def test_a_policy_comes_back_equal(policy: Policy) -> None:
    assert policy_from_json(there_and_back(policy_to_json(policy))) == policy


@settings(deadline=None)
@given(usages)
def test_what_it_has_let_out_comes_back_equal(usage: Usage) -> None:
    assert usage_from_json(there_and_back(usage_to_json(usage))) == usage


@settings(deadline=None, max_examples=60)
@given(infos)
def test_a_description_comes_back_equal(info: AssetInfo) -> None:
    assert info_from_json(there_and_back(info_to_json(info))) == info


@settings(deadline=None, max_examples=60)
@given(incomings)
def test_a_request_comes_back_equal(request: Incoming) -> None:
    back, of_asset = request_from_json(there_and_back(request_to_json(request)))
    assert back == request
    assert of_asset == (request.asset.lineage is None)


def test_a_policy_that_says_little_takes_little() -> None:
    policy = Policy("approve", tags="loss", rate=(3, 60))
    assert policy_to_json(policy) == {"action": "approve", "tags": ["loss"], "rate": [3, 60.0]}


def test_who_waits_for_a_request_is_not_kept_and_neither_is_content() -> None:
    info = AssetInfo("x", 1, "int", "", 8)
    request = Incoming(0, info, None, "Sven", "why", NOON, None, (b"0" * 16,))
    assert "0000" not in records.dump(request_to_json(request))
    assert set(request_to_json(request)) == {
        "number", "asset", "peer", "reason", "arrived", "expires", "state", "by", "answer_reason", "answered",
        "times", "of_asset",
    }  # fmt: skip


def test_long_code_of_a_result_is_cut_and_its_digest_is_not() -> None:
    made = Lineage((("x", 1),), ("mean",), 1, "x" * 30_000, "d" * 64, "x.mean()")
    back = info_from_json(
        there_and_back(info_to_json(AssetInfo("x.mean()", 1, "float", "", 8, lineage=made)))
    )
    assert back.lineage is not None
    assert (len(back.lineage.code), back.lineage.code[-1], back.lineage.digest) == (20_000, "…", "d" * 64)


# -- what is not read --------------------------------------------------------------------------------------


@settings(deadline=None)
@given(anything)
def test_anything_else_is_a_value_error(record: object) -> None:
    for read in (policy_from_json, usage_from_json, info_from_json, request_from_json, asset_from_json):
        with pytest.raises(ValueError):
            read(record)


@settings(deadline=None, max_examples=60)
@given(policies(), st.data())
def test_a_policy_with_a_field_replaced_is_a_value_error_or_a_policy(
    policy: Policy, data: st.DataObject
) -> None:
    record = policy_to_json(policy)
    name = data.draw(st.sampled_from(sorted(Policy.__dataclass_fields__)))
    record[name] = data.draw(anything)
    try:
        found = policy_from_json(there_and_back(record))
    except ValueError:
        return
    assert policy_from_json(there_and_back(policy_to_json(found))) == found


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"actoin": "deny"}, "unknown fields: actoin"),
        ({"action": "maybe"}, "action is one of"),
        ({"count": True}, "got `bool`"),
        ({"count": -1}, "whole number"),
        ({"count": 1.0}, "float"),
        ({"tags": "loss"}, "str"),
        ({"tags": [1]}, "got `int`"),
        ({"log": 1}, "Expected `bool`"),
        ({"until": "2026-03-01T12:00:00"}, "without a time zone"),
        ({"rate": [3, "60"]}, r"rate\[1\]"),
        ({"hours": ["08:00"]}, "length 2"),
    ],
)
def test_a_policy_is_read_strictly(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        policy_from_json({"action": "approve", "count": 3} | change)


# -- together ----------------------------------------------------------------------------------------------


def request(number: int, state: str = "denied", **fields: Any) -> Incoming:
    info = AssetInfo("x", 1, "int", "", 8)
    return dataclasses.replace(
        Incoming(number, info, None, "Sven", "", NOON, None, ()), state=state, **fields
    )


def written(
    *requests: Incoming, grants: dict[tuple[str, str, int], int] | None = None
) -> dict[records.Key, str]:
    found = {records.key("request", one.number): records.dump(request_to_json(one)) for one in requests}
    return found | {records.key("grant", *grant): str(number) for grant, number in (grants or {}).items()}


def policy_record(name: str) -> dict[records.Key, str]:
    about = {"policy": policy_to_json(Policy("ask", name=name)), "usage": usage_to_json(Usage(3))}
    return {records.key("policy", name): records.dump(about)}


def test_contents_come_in_their_order() -> None:
    found = written(request(10), request(9), request(2), grants={("Sven", "x", 1): 9})
    found |= policy_record("b") | policy_record("a") | {records.key("order"): '["b","a"]'}
    contents = Contents.parse(found)
    assert [one.number for one in contents.requests] == [2, 9, 10]
    assert [policy.name for policy in contents.policies] == ["b", "a"]
    assert contents.usage["a"] == Usage(3)
    assert contents.grants == {("Sven", "x", 1): 9}


def test_nothing_written_is_nothing_known() -> None:
    assert Contents.parse({}) == Contents()


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({("what", "[]"): "1"}, "unknown kind, 'what'"),
        ({("asset", '["x"]'): "{"}, r'asset \["x"\] cannot be read'),
        ({("asset", '["x"]'): "[" * 100_000}, "nested too deep"),
        (policy_record("a"), "does not match its policy records"),
        ({records.key("order"): '["a"]'}, "does not match its policy records"),
        (policy_record("a") | {records.key("order"): '["a","a"]'}, "does not match its policy records"),
        ({records.key("policy", "b"): next(iter(policy_record("a").values()))}, "does not match its key"),
        ({records.key("request", 1): next(iter(written(request(2)).values()))}, "does not match its key"),
        (written(request(2), grants={("Sven", "x", 1): 3}), "request 3 is missing"),
        ({("grant", '["Sven"]'): "1"}, "length 3"),
        ({("grant", "3"): "1"}, "Expected `array`"),
        ({("request", "[0]"): '{"number":0}'}, "missing required field `asset`"),
    ],
)  # fmt: skip
def test_records_that_do_not_fit_together_are_a_value_error(
    found: dict[records.Key, str], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        Contents.parse(found)


def test_old_answered_requests_are_outdated_pending_and_granted_ones_are_not() -> None:
    requests = [request(0, "pending"), request(1), request(2, "approved"), request(3, "withdrawn")]
    requests += [request(3 + HISTORY), request(4)]
    contents = Contents.parse(written(*requests, grants={("Sven", "x", 1): 2}))
    assert [one.number for one in contents.outdated()] == [1, 3]


def test_requests_for_results_have_to_be_run_as_long_as_they_wait() -> None:
    made = Lineage((("x", 1),), ("mean",), 1, "x.mean()", "d" * 64, "x.mean()")
    result = AssetInfo("x.mean()", 1, "float", "", 8, lineage=made)
    requests = [
        request(0, "pending"),
        request(1, "pending", asset=result),
        request(2, "approved", asset=result),
    ]
    assert Contents.parse(written(*requests)).to_run == {1}

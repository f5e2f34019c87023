"""Patterns for code: what a wildcard may stand for, and which code is none to decide by."""

from __future__ import annotations

import pytest

from duetlink.duet.answering.policies.code_pattern import code_fits, is_whole
from duetlink.duet.answering.policies.decision import decide
from duetlink.duet.answering.policies.facts import Facts
from duetlink.duet.answering.policies.policy import Policy, literal
from tests.duet.test_policy_decisions import NOON


def made(code: str) -> Facts:
    return Facts("r", "float", (), "Sven", 8, 1, ("mean",), ("ages",), "", code)


@pytest.mark.parametrize(
    ("pattern", "code"),
    [
        ("ages.mean()", "ages.mean()"),
        ("ages[[]*].mean()", "ages[3].mean()"),
        ("ages[[]*].mean()", "ages[-3].mean()"),
        ("ages[[]*].mean()", "ages[3:17].mean()"),
        ('ages[[]"*"].mean()', 'ages["heart_rate"].mean()'),
        ("ages > *", "ages > 17.5"),
        ("(ages > ??).mean()", "(ages > 17).mean()"),
        ("(ages > [12][0-9]).mean()", "(ages > 17).mean()"),
        ("*.mean()", "ages.mean()"),
        ("ages.[!m]*()", "ages.sum()"),
        ("ages[[]]]", "ages[]]"),
        ("[[", "[["),
    ],
)
def test_code_that_fits(pattern: str, code: str) -> None:
    assert code_fits(code, pattern)


@pytest.mark.parametrize(
    ("pattern", "code"),
    [
        ("ages.mean()", "ages.mean() "),
        ("*.mean()", "ages.max() + ages.mean()"),
        ("*.mean()*", 'ages["x.mean()"]'),
        ("*.mean()*", "ages.mean()\nages"),
        ("ages[[]*].mean()", 'ages["a"].max() + ages["b"].mean()'),
        ('ages[[]"*"].mean()', 'ages["a" + "b"].mean()'),
        ('ages[[]"*"].mean()', 'ages["a\\"b"].mean()'),
        ("ages > *", "ages > 17 + other"),
        ("ages.*()", "ages.values.max()"),
        ("ages.mean(*)", "ages.mean(axis=1)"),
        ("ages.mean()*", "ages.mean()  # ages.mean()"),
        ("ages.[!m]*()", "ages.mean()"),
        ("ages[!x]mean()", "ages(mean()"),
    ],
)
def test_no_call_and_no_operator_hides_behind_a_wildcard(pattern: str, code: str) -> None:
    assert not code_fits(code, pattern)
    assert decide([Policy("approve", lineage=pattern)], made(code), {}, NOON).action == "wait"


def test_a_denial_by_code_takes_a_wildcard_for_any_text() -> None:
    assert decide([Policy("deny", lineage="*.max()*")], made("a.max() + a.mean()"), {}, NOON).action == "deny"


@pytest.mark.parametrize(
    "code",
    [
        "ages.mean()\n# 3 further steps are not shown",
        "value_1  # numpy.ndarray, sent by the peer\nages[value_1].mean()",
        'ages["aaa" + characters(12)].mean()',
        "ages.take([1, 2, *items(30), 3]).mean()",
        "for i in range(9):\n    x = ages + 3  # 7, …, 9 in place of 3 (8 different)\nx.mean()",
    ],
)
def test_code_that_does_not_tell_everything_is_approved_by_its_digest_only(code: str) -> None:
    assert not is_whole(code)
    by_code, by_digest = Policy("approve", lineage=literal(code)), Policy("approve", code=("",))
    decision = decide([by_code], made(code), {}, NOON)
    assert decision.verdicts[0].why_not == "its code is not shown in whole; name its digest"
    assert decide([by_digest], made(code), {}, NOON).action == "approve"

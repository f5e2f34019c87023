"""Decides a request: a pure function of the policies, the facts, the usage, and the time."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from duetlink.base.quantities import count_text, size_text
from duetlink.compute.operations.lineage import UNKNOWN
from duetlink.compute.operations.steps.preparations import UNPREPARED
from duetlink.duet.answering.policies.code_pattern import code_fits, is_whole
from duetlink.duet.answering.policies.facts import Facts
from duetlink.duet.answering.policies.policy import APPROVE, OUTDATED, Policy, outdated_code, short_digest
from duetlink.duet.answering.policies.usage import Usage
from duetlink.duet.display import Displayed, Table

WAIT = "wait"  # no policy matches: the request waits for the person


@dataclass(frozen=True, slots=True)
class Verdict:
    """The reason why one policy does not match; empty if it matches and answers."""

    policy: Policy
    why_not: str


@dataclass(frozen=True, slots=True, repr=False)
class Decision(Displayed):
    """The policy that answers a request, with the verdicts up to it. Policies after it are not in
    `verdicts`.
    """

    policy: Policy | None
    verdicts: tuple[Verdict, ...]

    @property
    def action(self) -> str:
        """The answer: `approve`, `deny`, `ask`, or `wait` if no policy matches. A person answers after the
        last two.
        """
        return self.policy.action if self.policy is not None else WAIT

    @property
    def by(self) -> str:
        """The name for `Request.by`: `policy NAME`, or empty."""
        return f"policy {self.policy.name}" if self.policy is not None else ""

    def table(self) -> Table:
        rows = [
            (verdict.policy.name, verdict.policy.action, "no" if verdict.why_not else "yes", verdict.why_not)
            for verdict in self.verdicts
        ]
        what = "waits for you" if self.action == WAIT else f"{self.action}, by {self.by}"
        return Table(
            f"Decision: {what}", ("policy", "action", "matches", "why not"), rows, "there are no policies"
        )


def decide(
    policies: Sequence[Policy], facts: Facts, usage: Mapping[str, Usage], now: datetime.datetime
) -> Decision:
    """Return the decision of the first of `policies` that matches. `usage` is by name; hours are in the time
    zone of `now`.

    A policy that denies or asks may fail to match only because it names code by an outdated digest. Then a
    person decides, since a later policy might approve what this one was meant to hold back.
    """
    verdicts = []
    for policy in policies:
        why_not = next(_mismatches(policy, facts, usage.get(policy.name) or Usage(), now), "")
        verdicts.append(Verdict(policy, why_not))
        if not why_not:
            return Decision(policy, tuple(verdicts))
        if policy.action != APPROVE and outdated_code(policy):
            others = dataclasses.replace(policy, code=())
            if not any(_mismatches(others, facts, Usage(), now)):
                break
    return Decision(None, tuple(verdicts))


def _mismatches(policy: Policy, facts: Facts, usage: Usage, now: datetime.datetime) -> Iterator[str]:
    for check in (_time, _object, _lineage, _size, _quota):
        yield from check(policy, facts, usage, now)


def _time(policy: Policy, facts: Facts, usage: Usage, now: datetime.datetime) -> Iterator[str]:
    if policy.after is not None and now < policy.after:
        yield f"it is in force from {policy.after.isoformat(' ', 'seconds')} on"
    if policy.until is not None and now >= policy.until:
        yield f"it was in force until {policy.until.isoformat(' ', 'seconds')}"
    if policy.hours is not None:
        start, end = policy.hours
        hour = now.time()
        inside = start <= hour < end if start < end else hour >= start or hour < end
        if not inside:
            yield f"it is {hour:%H:%M}, not between {start:%H:%M} and {end:%H:%M}"


def _object(policy: Policy, facts: Facts, usage: Usage, now: datetime.datetime) -> Iterator[str]:
    is_result = facts.operations is not None
    names = facts.assets if is_result else (facts.name,)
    for name in _not_matching(policy, names, policy.assets):
        what = "it is made from" if is_result else "the object is called"
        yield f"{what} {name!r}, not {' or '.join(policy.assets)}"
    if policy.assets and not names:
        yield "it is made from no asset"
    if policy.kinds and not facts.is_made:
        yield from _not_made(policy)
    for what, text, patterns in (
        ("the object is a", facts.kind, policy.kinds if facts.is_made else ()),
        ("the peer is called", facts.peer, policy.peers),
    ):
        if patterns and not _fits(text, patterns):
            yield f"{what} {text!r}, not {' or '.join(patterns)}"
    yield from _tags(policy, facts)


def _tags(policy: Policy, facts: Facts) -> Iterator[str]:
    """Compare the tags that the owner has set. An operation is never a tag, whatever its name."""
    held = facts.tags
    if policy.action == APPROVE and facts.common_tags is not None:
        held = facts.common_tags
    for pattern in policy.tags:
        if not any(fnmatchcase(tag, pattern) for tag in held):
            yield f"the object has no tag {pattern}"
    if policy.no_other_tags:
        for tag in facts.tags:
            if not _fits(tag, policy.tags):
                yield f"the object has the tag {tag!r} as well"
        # a denial must not be evaded by one more operation
        for operation in (facts.operations or ()) if policy.action == APPROVE else ():
            if operation == UNKNOWN or not _fits(operation, policy.tags):
                yield f"it was made by {operation}, which is none of the tags"


def _lineage(policy: Policy, facts: Facts, usage: Usage, now: datetime.datetime) -> Iterator[str]:
    if policy.operations:
        yield from _operations(policy, facts)
    if policy.lineage:
        yield from _code(policy, facts)
    if policy.code and facts.code not in policy.code:
        for digest in outdated_code(policy):
            yield f"its digest {digest[:12]}… {OUTDATED}"
        found = short_digest(facts.code) or "of no code"
        yield f"its code has the digest {found}, not {_digests(policy.code)}"
    if policy.prep:
        yield from _prep(policy, facts)
    if facts.is_function and policy.action == APPROVE and not policy.code:
        yield "it is what a whole function makes, and the policy does not name its code"
    if policy.min_group is not None and not facts.is_group_known:
        yield from _not_made(policy)
    elif policy.min_group is not None:
        if facts.group is None and policy.action == APPROVE:
            yield "it contains no row of an object that could be counted"
        elif facts.group is not None and facts.group < policy.min_group:
            yield f"it may be made of {count_text(facts.group, 'row')}, fewer than {policy.min_group:,}"


def _operations(policy: Policy, facts: Facts) -> Iterator[str]:
    operations = facts.operations
    if not operations:
        yield "it is the object itself, and no result of operations"
    elif UNKNOWN in operations:
        if policy.action == APPROVE:
            yield "it was made with an operation that is on no allow-list, or that failed"
    else:
        for operation in _not_matching(policy, operations, policy.operations):
            yield f"it was made by {operation}, not only by {' or '.join(policy.operations)}"


def _prep(policy: Policy, facts: Facts) -> Iterator[str]:
    if not facts.preparations:
        yield "no preparation of an object made it"
    for digest in _not_matching(policy, facts.preparations, policy.prep):
        if digest == UNPREPARED:
            yield "an object that it is made from was used without a preparation"
        else:
            yield f"it was made by the preparation {digest[:12]}, not only by {_digests(policy.prep)}"


def _code(policy: Policy, facts: Facts) -> Iterator[str]:
    others = f"it was made by other code than {' or '.join(policy.lineage)}"
    if policy.action != APPROVE:
        if not _fits(facts.lineage, policy.lineage):
            yield others
    elif not is_whole(facts.lineage):
        yield "its code is not shown in whole; name its digest"
    elif not any(code_fits(facts.lineage, pattern) for pattern in policy.lineage):
        yield others


def _not_matching(policy: Policy, texts: Sequence[str], patterns: Sequence[str]) -> Sequence[str]:
    """Return the texts that keep the policy from matching. An approval needs all texts to fit. A denial needs
    one, since it could otherwise be evaded by adding something harmless.
    """
    if not patterns:
        return ()
    others = [text for text in texts if not _fits(text, patterns)]
    return () if policy.action != APPROVE and len(others) < len(texts) else others


def _digests(digests: Sequence[str]) -> str:
    return " or ".join(map(short_digest, digests))


def _not_made(policy: Policy) -> Iterator[str]:
    if policy.action != APPROVE:  # an approval is decided again after the run
        yield "its result is not known before it has been run"


def _size(policy: Policy, facts: Facts, usage: Usage, now: datetime.datetime) -> Iterator[str]:
    if not facts.is_made:
        if policy.max_bytes is not None or policy.max_elements is not None:
            yield from _not_made(policy)
        return
    if policy.max_bytes is not None and facts.size_bytes > policy.max_bytes:
        yield f"it has {size_text(facts.size_bytes)}, over {size_text(policy.max_bytes)}"
    if policy.max_elements is None and policy.total_elements is None:
        return
    if facts.elements is None:
        yield f"the elements of a {facts.kind} cannot be counted"
    elif policy.max_elements is not None and facts.elements > policy.max_elements:
        yield f"it has {_elements(facts.elements)}, over {policy.max_elements:,}"


def _quota(policy: Policy, facts: Facts, usage: Usage, now: datetime.datetime) -> Iterator[str]:
    if policy.count is not None and usage.count >= policy.count:
        yield f"it has answered {count_text(usage.count, 'time')}, of {policy.count:,}"
    for total, used, more, shown in (
        (policy.total_bytes, usage.size_bytes, facts.size_bytes, size_text),
        (policy.total_elements, usage.elements, facts.elements or 0, _elements),
    ):
        if total is not None and (used >= total or used + more > total):
            yield f"it may release {shown(total - used)} more, not {shown(more)}"
    if policy.rate is not None:
        most, seconds = policy.rate
        recent = sum((now - moment).total_seconds() < seconds for moment in tuple(usage.moments))
        if recent >= most:
            yield f"it has answered {count_text(recent, 'time')} in the last {seconds:g} s"


def _elements(count: int) -> str:
    return count_text(count, "element")


def _fits(text: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)

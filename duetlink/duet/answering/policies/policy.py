"""One policy: which requests it matches, how much it may release, and its answer."""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from duetlink.base.quantities import count_text, size_text
from duetlink.base.wire.text import MAX_NAME
from duetlink.data.prep.spec import PrepSpec
from duetlink.duet.answering.failure import FAILURES
from duetlink.errors import SettingError

APPROVE, DENY, ASK = ACTIONS = ("approve", "deny", "ask")
MAX_REASON = 2000  # characters, as for a request

# SHA-256; a digest of code in this form is from a version of duetlink before 2
_DIGEST = re.compile("[0-9a-f]{64}")
OUTDATED = "is of an earlier version, which named programs differently: take the new one from a request"
_PATTERNS = ("assets", "tags", "kinds", "operations", "lineage", "code", "peers")
_NUMBERS = ("min_group", "max_bytes", "max_elements", "count", "total_bytes", "total_elements")
_QUOTAS = ("count", "total_bytes", "total_elements", "rate")


@dataclass(frozen=True, slots=True)
class Policy:
    """Answers requests that match all of its fields; an empty field matches any. `approve` releases the
    object, `deny` refuses with `reason`, `ask` leaves the request to the person and stops the search.

    `assets`, `kinds` and `peers` are patterns; one of each must match the object's name, its type (such as
    `numpy.*`), the peer's name. Each of `tags` must match one of the object's tags, as *this* side set them.
    With `no_other_tags`, each tag of the object must also match one of `tags`, and so must each operation of
    a result that is to be approved. In a pattern `*`, `?` and `[…]` are wildcards as in fnmatch; upper and
    lower case differ.

    A result is approved if every asset that it was made from matches `assets`, and each of `tags` matches a
    tag that all of these have. Each of its operations must match one of `operations`, such as `mean`; an
    operation that is on no allow-list, or that failed, matches none. `lineage` are patterns for the code as
    the request shows it, in which `*`, `?` and `[!…]` match characters of one name, number or text; code that
    leaves something out, such as the content of a value that the peer sent, matches none. `code` are digests
    of the program or function; one of an earlier version of duetlink matches none. A policy that denies or
    asks needs one asset, tag or operation that matches, and its `lineage` are ordinary patterns.

    `prep` are preparations, or their digests. A result is approved if each object that it was made from went
    through one of them first, as `people.prep(spec)`, and nothing through any other; `operations` limit what
    was done afterwards. The result of a function matches none.

    `min_group` is the least number of rows that each number of the result must be made of: 5 releases means
    over five people, and no single person's value. An operation that does not average
    (`operations/lists/averages.toml`) and an object itself have groups of one. A result that contains no row
    of an object has no group, and is not approved.

    An object may be at most as large as `max_bytes` and `max_elements` (items of arrays, cells of tables,
    characters of texts; an object whose elements cannot be counted does not match). In all, the policy
    releases at most `count` objects, `total_bytes`, `total_elements`, and at most `rate[0]` objects in
    `rate[1]` seconds. After that it no longer matches, and the next policy is tried.

    An approved result may have to be run first. If the run fails, the request waits for the person, and the
    peer is not told, unless `failures` says how much: `"that"` it failed, also the `"type"` of the error and
    the place, or also the `"message"`, which may quote the data. A run counts as an approval, whatever its
    outcome, unless a person stops it.

    The policy is in force from `after` on and before `until`, and during `hours` of this machine's day, from
    the first on and before the second; they may span midnight.

    With `announce`, the object is shown here when it is released; with `log`, it is written to Python's log
    `duetlink.policies` at level INFO. See `Policies` for their order.

    Raises:
        SettingError: a field has a wrong type or range, or does not go with the action.
    """

    action: str
    _: KW_ONLY
    name: str = ""
    assets: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    no_other_tags: bool = False
    kinds: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    lineage: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    prep: tuple[str, ...] = ()
    min_group: int | None = None
    peers: tuple[str, ...] = ()
    max_bytes: int | None = None
    max_elements: int | None = None
    count: int | None = None
    total_bytes: int | None = None
    total_elements: int | None = None
    rate: tuple[int, float] | None = None
    after: datetime.datetime | None = None
    until: datetime.datetime | None = None
    hours: tuple[datetime.time, datetime.time] | None = None
    reason: str = ""
    announce: bool = False
    log: bool = False
    failures: str = ""

    if TYPE_CHECKING:  # for type checkers: a single pattern may be given as a str

        def __init__(
            self,
            action: str,
            *,
            name: str = "",
            assets: str | Iterable[str] = (),
            tags: str | Iterable[str] = (),
            no_other_tags: bool = False,
            kinds: str | Iterable[str] = (),
            operations: str | Iterable[str] = (),
            lineage: str | Iterable[str] = (),
            code: str | Iterable[str] = (),
            prep: PrepSpec | str | Iterable[PrepSpec | str] = (),
            min_group: int | None = None,
            peers: str | Iterable[str] = (),
            max_bytes: int | None = None,
            max_elements: int | None = None,
            count: int | None = None,
            total_bytes: int | None = None,
            total_elements: int | None = None,
            rate: tuple[int, float] | None = None,
            after: datetime.datetime | None = None,
            until: datetime.datetime | None = None,
            hours: tuple[datetime.time | str, datetime.time | str] | None = None,
            reason: str = "",
            announce: bool = False,
            log: bool = False,
            failures: str = "",
        ) -> None: ...

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise SettingError(f"a policy's action is one of {', '.join(ACTIONS)}, got {self.action!r}")
        if not isinstance(self.name, str) or len(self.name) > MAX_NAME:
            raise SettingError(f"a policy's name is a text of at most {MAX_NAME} characters")
        for name in _PATTERNS:
            object.__setattr__(self, name, _patterns(name, getattr(self, name)))
        object.__setattr__(self, "prep", _preparations(self.prep))
        for name in _NUMBERS:
            _check_number(name, getattr(self, name))
        for name in ("no_other_tags", "announce", "log"):
            if not isinstance(getattr(self, name), bool):
                raise SettingError(f"{name} must be True or False, got {getattr(self, name)!r}")
        object.__setattr__(self, "rate", _rate(self.rate))
        object.__setattr__(self, "hours", _hours(self.hours))
        self._check_times()
        self._check_reason()
        self._check_failures()
        used = [name for name in _QUOTAS if getattr(self, name) is not None]
        if used and self.action != APPROVE:
            raise SettingError(
                f"{used[0]} is a quota of policies that approve; a policy that says {self.action} cannot "
                "have it"
            )

    def _check_times(self) -> None:
        for name in ("after", "until"):
            moment = getattr(self, name)
            if moment is not None and (not isinstance(moment, datetime.datetime) or moment.tzinfo is None):
                raise SettingError(
                    f"{name} is a datetime with a time zone, got {moment!r}; try .astimezone()"
                )
        if self.after is not None and self.until is not None and self.after >= self.until:
            raise SettingError(f"until ({self.until}) must be later than after ({self.after})")

    def _check_reason(self) -> None:
        if not isinstance(self.reason, str) or len(self.reason) > MAX_REASON:
            raise SettingError(f"a reason is a text of at most {MAX_REASON} characters")
        if self.reason and self.action != DENY:
            raise SettingError("a reason is sent to the peer with a denial; approve and ask cannot have one")

    def _check_failures(self) -> None:
        if self.failures not in ("", *FAILURES):
            raise SettingError(f"failures is one of {', '.join(FAILURES)}, or empty; got {self.failures!r}")
        if self.failures and self.action != APPROVE:
            raise SettingError(
                f"failures says how much the peer is told of failed runs; a policy that says {self.action} "
                "starts none"
            )

    def words(self) -> str:
        """Return the fields other than name and action as text: `tags loss; up to 1 kB; 10 times`."""
        parts = [f"{name} {', '.join(getattr(self, name))}" for name in _PATTERNS if getattr(self, name)]
        if self.prep:
            parts.append(f"prep {', '.join(digest[:12] for digest in self.prep)}")
        parts += [f"the digest {digest[:12]}… {OUTDATED}" for digest in outdated_code(self)]
        if self.no_other_tags:
            parts.append("no other tags")
        for name, text in (("max_bytes", "up to {}"), ("total_bytes", "{} in all")):
            if (value := getattr(self, name)) is not None:
                parts.append(text.format(size_text(value)))
        for name, text, one in (
            ("min_group", "groups of {}", "row"),
            ("max_elements", "up to {}", "element"),
            ("total_elements", "{} in all", "element"),
            ("count", "{}", "time"),
        ):
            if (value := getattr(self, name)) is not None:
                parts.append(text.format(count_text(value, one)))
        if self.rate is not None:
            parts.append(f"{self.rate[0]:,} in {self.rate[1]:g} s")
        for name in ("after", "until"):
            if (moment := getattr(self, name)) is not None:
                parts.append(f"{name} {moment.isoformat(' ', 'seconds')}")
        if self.hours is not None:
            parts.append("{:%H:%M} to {:%H:%M}".format(*self.hours))
        if self.failures:
            parts.append(f"failures told: {self.failures}")
        for name, text in (("announce", "announced"), ("log", "logged")):
            if getattr(self, name):
                parts.append(text)
        return "; ".join(parts) or "any request"

    def __repr__(self) -> str:
        shown = "".join(
            f", {field.name}={getattr(self, field.name)!r}"
            for field in dataclasses.fields(self)
            if field.name != "action" and getattr(self, field.name) != field.default
        )
        return f"Policy({self.action!r}{shown})"


def outdated_code(policy: Policy) -> tuple[str, ...]:
    """Return the digests in `code` that an earlier version of duetlink made and that match
    nothing any more.
    """
    return tuple(digest for digest in policy.code if _DIGEST.fullmatch(digest))


def short_digest(digest: str) -> str:
    """Return the beginning of a code digest, for a person to compare."""
    version, colon, digits = digest.rpartition(":")
    return f"{version}{colon}{digits[:12]}"


def literal(text: str) -> str:
    """Return a pattern that matches only `text` itself."""
    return "".join(f"[{character}]" if character in "*?[" else character for character in text)


def _patterns(name: str, value: Any) -> tuple[str, ...]:
    patterns = (
        (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else (value,)
    )
    if not all(isinstance(pattern, str) for pattern in patterns):
        raise SettingError(f"{name} are texts or patterns, such as ('loss*',); got {value!r}")
    return patterns


def _preparations(value: Any) -> tuple[str, ...]:
    several = (
        (value,) if isinstance(value, str | PrepSpec) or not isinstance(value, Iterable) else tuple(value)
    )
    digests = tuple(one.digest if isinstance(one, PrepSpec) else one for one in several)
    for digest in digests:
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise SettingError(
                f"prep are preparations, or their digests, 64 hexadecimal digits; got {digest!r}"
            )
    return digests


def _check_number(name: str, value: Any) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise SettingError(f"{name} must be a whole number from 0 on, got {value!r}")


def _rate(rate: Any) -> tuple[int, float] | None:
    if rate is None:
        return None
    try:
        number, seconds = rate
        if isinstance(number, int) and not isinstance(number, bool) and number > 0 and 0 < seconds < 1e9:
            return number, float(seconds)
    except (TypeError, ValueError):
        pass
    raise SettingError(f"rate is how many in how many seconds, such as (10, 60), got {rate!r}")


def _hours(hours: Any) -> tuple[datetime.time, datetime.time] | None:
    if hours is None:
        return None
    try:
        start, end = (datetime.time.fromisoformat(hour) if isinstance(hour, str) else hour for hour in hours)
    except (TypeError, ValueError):
        raise _no_hours(hours) from None
    for hour in (start, end):
        if not isinstance(hour, datetime.time) or hour.tzinfo is not None:
            raise _no_hours(hours)
    if start == end:
        raise SettingError(f"hours must begin and end at different times, got {hours!r}")
    return start, end


def _no_hours(hours: Any) -> SettingError:
    return SettingError(
        f"hours are two times of this machine's day, such as ('08:00', '18:00'), got {hours!r}"
    )

"""The table of attempts to escape: what is tried, and what comes of it. Each test puts its own rows here.

docs/evidence.md has a line for each category; `test_escapes.py` checks that, and that the tests are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

REFUSED = "refused"  # it is not done, or nothing comes of it
LIMITED = "limited"  # it is done, and ends at a limit of the owner's
SHOWN = "shown"  # it is done, and whoever decides sees it
OPEN = "not prevented"  # SECURITY.md says so
OUTCOMES = (REFUSED, LIMITED, SHOWN, OPEN)

T = TypeVar("T", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Attempt:
    """One row."""

    category: str
    name: str
    outcome: str
    test: str  # file::function


ATTEMPTS: list[Attempt] = []


def attempts(category: str, outcome: str, *names: str) -> Callable[[T], T]:
    """Puts down what the decorated test tries."""

    def put_down(test: T) -> T:
        where = f"{test.__module__.replace('.', '/')}.py::{test.__name__}"
        ATTEMPTS.extend(Attempt(category, name, outcome, where) for name in names)
        return test

    return put_down


def each(category: str, outcome: str, rows: Iterable[str]) -> Callable[[T], T]:
    """The same of a test that is done for each of these rows: its argument is `name`."""
    names = list(rows)

    def put_down(test: T) -> T:
        marked: T = pytest.mark.parametrize("name", names)(attempts(category, outcome, *names)(test))
        return marked

    return put_down


def elsewhere(category: str, outcome: str, test: str, *names: str) -> None:
    """Attempts that a test outside of the suite tries: `tests/…/file.py::function`."""
    ATTEMPTS.extend(Attempt(category, name, outcome, test) for name in names)

"""What a twin may be told of the data in one column: its bounds, its categories, what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Facts(Protocol):
    """What can be computed from one column of the data. Nobody asks but where the owner allows it."""

    @property
    def discrete(self) -> bool:
        """Whether it may be a column of categories: neither floats nor times."""

    def bounds(self) -> tuple[Any, Any] | None:
        """The least and the greatest finite value, as bounds are given; None where there is none."""

    def counts(self) -> Mapping[Any, int]:
        """How often each value is there, without missing ones. A category that is not there counts 0."""

    def missing(self) -> float:
        """The share of missing values."""


class NoFacts:
    """Of what has no values of its own to look at, such as the items of a nested column."""

    discrete = False

    def bounds(self) -> None:
        return None

    def counts(self) -> Mapping[Any, int]:
        return {}

    def missing(self) -> float:
        return 0.0

"""The facts that a mock may take over from one column of the data: bounds, categories, share of
missing values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Facts(Protocol):
    """Computes facts of one column of the data. It is only called for facts that the owner allows."""

    @property
    def discrete(self) -> bool:
        """True if the values may be categories; floats and times may not."""

    def bounds(self) -> tuple[Any, Any] | None:
        """Return the least and the greatest finite value, in the form that `Mock.bounds` has; None
        without values.
        """

    def counts(self) -> Mapping[Any, int]:
        """Count each value, without missing ones. A category of the dtype that does not occur counts 0."""

    def missing(self) -> float:
        """Return the share of missing values, 0 to 1."""


class NoFacts:
    """Facts for a column whose values are never read, such as the items of a nested column."""

    discrete = False

    def bounds(self) -> None:
        return None

    def counts(self) -> Mapping[Any, int]:
        return {}

    def missing(self) -> float:
        return 0.0

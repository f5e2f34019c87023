"""One operation as the rules of sizes see it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from duetlink.compute.operations.allow_lists.parameters import parameters
from duetlink.compute.operations.sizes.mask import LENGTHS, has_counts, has_pointers, hidden_in


@dataclass(slots=True)
class MockCall:
    """One call of an operation: its arguments, some of them pointers, their mocks, and the result on
    the mocks.
    """

    operation: str
    arguments: Sequence[Any]
    keywords: Mapping[str, Any]
    mocks: Sequence[Any]  # of the arguments
    made: Any

    @property
    def first(self) -> int:
        """The mask of the first argument."""
        return hidden_in(self.arguments[0]) if self.arguments else 0

    @property
    def lengths(self) -> int:
        """The length bits of the first argument's mask; arrays have no others."""
        return self.first & LENGTHS

    @property
    def all_lengths(self) -> int:
        """The length bits of the masks of all arguments."""
        return self.all & LENGTHS

    @property
    def all(self) -> int:
        """The union of the masks of all arguments."""
        found = 0
        for argument in self.arguments:
            found |= hidden_in(argument)
        if self.keywords:
            found |= hidden_in(tuple(self.keywords.values()))
        return found

    @property
    def has_private_counts(self) -> bool:
        """True if an argument contains a private integer, which may set a length."""
        return any(map(has_counts, self.arguments)) or any(map(has_counts, self.keywords.values()))

    @property
    def first_only(self) -> bool:
        """True if only the first argument contains pointers; the others are constants."""
        rest = self.arguments[1:]
        return not any(map(has_pointers, rest)) and not any(map(has_pointers, self.keywords.values()))

    def given(self, *names: str, default: Any = None) -> Any:
        """Return the argument with the first of these names that was passed, by position or keyword."""
        for name in names:
            if name in self.keywords:
                return self.keywords[name]
        kind: type = type(self.mocks[0]) if self.mocks else type(None)
        for position, name in enumerate(_positional(self.operation, kind)):
            if name in names and position < len(self.arguments):
                return self.arguments[position]
        return default


@functools.cache
def _positional(operation: str, kind: type) -> Sequence[str]:
    return parameters(operation, kind).positional


Rule = Callable[[MockCall], int]

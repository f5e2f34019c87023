"""One part of an object while its mock is made: its path of names, and what the owner gave or allowed
for it.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from duetlink.compute.mocks.facts import Facts
from duetlink.compute.mocks.mock import BOUNDS, CATEGORIES, INDEX, LABELS, LIKE, MISSING, Mock
from duetlink.errors import SettingError

if TYPE_CHECKING:
    from duetlink.compute.mocks.draw import ColumnSampler

# limits of categories computed from a column that the owner did not name: number, and count of each
MAX_CATEGORIES = 50
_MIN_COUNT = 2
ROW_LABELS = object()  # the name of an index that has none
_MAX_LISTED = 8


@dataclass
class _MockState:
    """The state that all parts of one object share."""

    mock: Mock
    shrink: float  # the share of rows that fit
    salt: int = 0  # of the object's name: objects of one schema have different mocks
    drawn: int = 0
    used: set[tuple[str, Hashable]] = field(default_factory=set)  # kind and name
    parts: dict[Hashable, None] = field(default_factory=dict)  # names that could have been given


class Scope:
    """One part, identified by the path of names that leads to it. The whole object has the empty path."""

    def __init__(self, mock: Mock, shrink: float = 1.0, name: str = "") -> None:
        self._state = _MockState(mock, shrink, zlib.crc32(name.encode("utf-8", "surrogatepass")))
        self._path: tuple[Hashable, ...] = ()
        self._alias: Hashable = None

    def child(self, name: Hashable) -> Scope:
        """Return the part of that name: a column, a field, an item of a tuple."""
        child = Scope.__new__(Scope)
        child._state, child._path, child._alias = self._state, (*self._path, name), None
        return child

    def named(self, name: Hashable) -> Scope:
        """Return the same part under a name of its own, such as that of a series."""
        same = Scope.__new__(Scope)
        same._state, same._path, same._alias = self._state, self._path, name
        return same

    def rows(self, count: int) -> int:
        """Return the number of rows of the mock of a part that has `count` rows."""
        mock, shrink = self._state.mock, self._state.shrink
        if mock.rows is not None:
            return mock.rows
        return count if shrink >= 1 or count == 0 else max(1, int(count * shrink))

    @property
    def keeps_index(self) -> bool:
        """True if the owner allows the row labels to be taken from the data."""
        self._state.used.add((INDEX, None))
        return INDEX in self._state.mock.from_data

    @property
    def has_labels(self) -> bool:
        return self._state.mock.labels is not None

    def given(self, kind: str) -> Any:
        """Return the bounds, categories or pattern that the owner gave for this part; None without them."""
        if self._path and self._path[-1] is ROW_LABELS:
            if kind != CATEGORIES or self._state.mock.labels is None:
                return None
            self._state.used.add((LABELS, None))
            return self._state.mock.labels
        given = getattr(self._state.mock, kind)
        if isinstance(given, Mapping):
            for name in self._names():
                if name in given:
                    self._state.used.add((kind, name))
                    return given[name]
            return None
        if given is not None and not self._path:
            self._state.used.add((kind, None))
            return given
        return None

    def draw(self, facts: Facts) -> ColumnSampler:
        """Return the sampler for the values of this part. `facts` is called only for what the owner allows.

        Raises:
            SettingError: both bounds and categories, or a pattern and categories, are given for it.
        """
        from duetlink.compute.mocks.draw import ColumnSampler  # loads NumPy

        state, where = self._state, self._label()
        for name in self._names():
            state.parts.setdefault(name)
        bounds, categories = self.given(BOUNDS), self.given(CATEGORIES)
        like = self.given(LIKE)
        for kind, other in ((BOUNDS, bounds), (LIKE, like)):
            if other is not None and categories is not None:
                raise SettingError(f"{where} has both {kind} and categories; give one of them")
        if like is not None:
            from duetlink.compute.mocks import pattern  # loads NumPy

            categories = pattern.texts(like, (state.mock.seed, state.salt, state.drawn), bounds, where)
            bounds = None
        if bounds is None and categories is None:
            categories = self._known_categories(facts)
        if bounds is None and categories is None and self._allowed(BOUNDS):
            bounds = facts.bounds()
        missing = facts.missing() if self._allowed(MISSING) else 0.0
        state.drawn += 1
        seed = state.mock.seed, state.salt, state.drawn
        values_name = CATEGORIES if like is None else "texts by `like`"
        return ColumnSampler(where, seed, bounds, categories, missing, values_name)

    def finish(self) -> None:
        """Raise SettingError if the owner named a part that the object does not have."""
        state = self._state
        if state.mock.labels is not None and (LABELS, None) not in state.used:
            raise SettingError(
                "labels are given, but there is no index without a name that has labels of its own"
            )
        for kind in (BOUNDS, CATEGORIES, LIKE):
            given = getattr(state.mock, kind)
            if isinstance(given, Mapping):
                for name in given:
                    if (kind, name) not in state.used:
                        raise SettingError(f"{kind} are given for {name!r}, but {self._listed()}")
            elif given is not None and (kind, None) not in state.used:
                example = next(iter(state.parts), "age")
                raise SettingError(
                    f"{kind} are given for the whole object, which has columns; give them by column, such as "
                    f"{{{example!r}: …}}"
                )
        for entry in state.mock.from_data:
            fact, _, name = entry.partition(":")
            if name and (fact, name) not in state.used:
                raise SettingError(f"from_data has {entry!r}, but {self._listed()}")

    def _names(self) -> list[Hashable]:
        if self._path and self._path[-1] is ROW_LABELS:
            return []
        if not self._path:
            return [] if self._alias is None else [self._alias]
        full = ".".join(map(str, self._path)) if len(self._path) > 1 else self._path[0]
        return list(dict.fromkeys((full, self._path[-1])))

    def _allowed(self, fact: str) -> bool:
        return self._allowed_by_name(fact) or fact in self._state.mock.from_data

    def _allowed_by_name(self, fact: str) -> bool:
        for name in self._names():
            if f"{fact}:{name}" in self._state.mock.from_data:
                self._state.used.add((fact, str(name)))
                return True
        return False

    def _known_categories(self, facts: Facts) -> tuple[object, ...] | None:
        if self._allowed_by_name(CATEGORIES):
            return tuple(facts.counts()) or None
        blanket = CATEGORIES in self._state.mock.from_data and not self._allowed_by_name(BOUNDS)
        if not facts.discrete or not blanket:
            return None
        counts = facts.counts()
        if not 0 < len(counts) <= MAX_CATEGORIES or any(0 < count < _MIN_COUNT for count in counts.values()):
            return None
        return tuple(counts)

    def _label(self) -> str:
        if self._path and self._path[-1] is ROW_LABELS:
            return "the index"
        if not self._path:
            return "the object" if self._alias is None else repr(self._alias)
        return repr(self._names()[0])

    def _listed(self) -> str:
        names = list(self._state.parts)
        if not names:
            return "the object has no columns; give them for the whole"
        more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
        return f"its columns are {', '.join(map(repr, names[:_MAX_LISTED]))}{more}"

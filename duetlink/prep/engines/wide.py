"""Relations of DuckDB with thousands of columns."""

from __future__ import annotations

from typing import Any


class WideRelation:
    """Stands for a relation. Its projections take time in proportion to its columns, not to their square.

    DuckDB 2.0 compares the texts in each projected expression with the names of all columns, to warn, and
    folds the case of these names anew for each expression: 10,000 columns take minutes. It does not
    where the projection is one text, which is what it makes of the expressions anyway.

    Narwhals asks whether it is a relation by `isinstance`, so it says that it is one.
    """

    def __init__(self, relation: Any) -> None:
        self.relation = relation

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self.relation)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.relation, name)

    def select(self, *items: Any) -> WideRelation:
        """These expressions, under their names."""
        return WideRelation(self.relation.project(", ".join(map(_item, items))))

    def filter(self, condition: Any) -> WideRelation:
        """The rows for which an expression is true."""
        return WideRelation(self.relation.filter(condition))


def _item(expression: Any) -> str:
    name = expression.get_name().replace('"', '""')
    return f'{expression} AS "{name}"'

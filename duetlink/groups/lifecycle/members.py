"""The members of a group as `group.members` shows them."""

from __future__ import annotations

import html
from dataclasses import dataclass

from duetlink.base.wire.text import harmless

_HEADERS = ("rank", "name", "path", "state")


@dataclass(frozen=True, slots=True)
class Member:
    """One member: its rank in the epoch (None while it waits for the next one), and how it is reached."""

    rank: int | None
    name: str
    path: str | None  # path in use to it; None for this member itself, and before there is a path
    # "this member", "connecting", "connected", "reconnecting", "lost" or "waiting for the next epoch"
    state: str


class Members(tuple[Member, ...]):
    """All members, by rank; shown as a table."""

    __slots__ = ()

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            ("" if each.rank is None else str(each.rank), harmless(each.name), each.path or "", each.state)
            for each in self
        ]

    def __repr__(self) -> str:
        rows = [_HEADERS, *self._rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADERS))]
        lines = (
            "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows
        )
        return "\n".join(line.rstrip() for line in lines)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in _HEADERS)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self._rows()
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

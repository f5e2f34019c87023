"""Converts pandas frames to Arrow tables; pandas itself is no engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duetlink.errors import PrepError, SettingError

if TYPE_CHECKING:
    import pyarrow as pa

_SHOWN = 200  # characters of Arrow's message


def arrow_of(frame: Any) -> pa.Table:
    """Convert the columns of a frame, without its index.

    Raises:
        SettingError: the name of a column is no text.
        PrepError: a column has items of several types, or of a type that Arrow does not have.
    """
    import pyarrow as pa

    if not all(isinstance(name, str) for name in frame.columns):
        raise SettingError("the columns of a frame to be prepared have texts as names")
    columns = [_column(frame.iloc[:, index], name) for index, name in enumerate(frame.columns)]
    return pa.table(columns, names=list(frame.columns))


def _column(column: Any, name: str) -> Any:
    import pyarrow as pa

    try:
        return pa.array(column, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        kinds = list(map(type, column.dropna()))
        odd = next((index for index, kind in enumerate(kinds) if kind is not kinds[0]), None)
        if odd is None:
            words = " ".join(str(error).split())[:_SHOWN]
            raise PrepError(
                f"column {name!r} of the table has items that Arrow has no type for ({words}): give it "
                "another type, such as by astype(str), or leave it out",
                file="the table",
                column=name,
            ) from None
        row = int(column.notna().to_numpy().nonzero()[0][odd])
        raise PrepError(
            f"row {row:,} of the table, column {name!r}, has a {kinds[odd].__name__} below items of type "
            f"{kinds[0].__name__}: give the column one type, such as by astype(str), or leave it out",
            file="the table",
            row=row,
            column=name,
        ) from None

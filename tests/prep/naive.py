"""What a preparation means, written as a loop over rows: what every engine is compared with."""

from __future__ import annotations

import datetime
import hashlib
import math
import re
from typing import Any

from duetlink.data.prep.cast import Cast
from duetlink.data.prep.clip import Clip
from duetlink.data.prep.drop_missing import DropMissing
from duetlink.data.prep.fields import Field
from duetlink.data.prep.missing import Missing
from duetlink.data.prep.one_hot import OneHot
from duetlink.data.prep.scale import Scale
from duetlink.data.prep.select import Select
from duetlink.data.prep.spec import PrepSpec
from duetlink.data.prep.split import Split

Row = dict[str, Any]
MOST_FLOAT32 = 3.4028234663852886e38


class Unfit(Exception):
    """An item does not fit a strict step: row and column."""


def prepared(spec: PrepSpec, rows: list[Row], fields: dict[str, Field]) -> list[Row]:
    kinds = [fields, *(fields := step.after(fields, "rows") for step in spec.steps)]
    made = []
    for number, row in enumerate(rows):
        row = {name: None if item != item else item for name, item in row.items()}
        train: bool | None = None
        for place, step in enumerate(spec.steps):
            if isinstance(step, Split):
                train = trains(number if not step.by else row[step.by] or 0, step.seed, step.train)
                continue
            found = one(step, row, number, kinds[place])  # types before the step
            if found is None:
                break
            row = found
        else:
            made.append(row if train is None else {**row, "train": train})
    return made


def one(step: Any, row: Row, number: int, fields: dict[str, Field]) -> Row | None:
    if isinstance(step, Missing):
        names = step.columns or [name for name, item in row.items() if type(item) is str]
        return {**row, **{name: None for name in names if row[name] in step.values}}
    if isinstance(step, DropMissing):
        return None if any(row[name] is None for name in step.columns or row) else row
    if isinstance(step, Select):
        return {name: row[name] for name in step.columns}
    if isinstance(step, Cast):
        made = {}
        for name, kind in step.types:
            same = row[name] is None or fields[name].type == kind
            made[name] = row[name] if same else cast(row[name], kind)
            if made[name] is None and row[name] is not None and step.invalid == "error":
                raise Unfit(number, name)
        return {**row, **made}
    item = row[step.column]
    if isinstance(step, OneHot):
        assert step.categories is not None
        if item is not None and item not in step.categories and step.unknown == "error":
            raise Unfit(number, step.column)
        made = {name: int(item == c) for name, c in zip(step.columns, step.categories, strict=True)}
        return {
            n: v for name, i in row.items() for n, v in (made.items() if name == step.column else [(name, i)])
        }
    if item is None:
        return row
    assert step.bounds is not None
    low, high = step.bounds
    if type(item) is float:
        low, high = float(low), float(high)
    clipped = low if item < low else high if item > high else item
    if isinstance(step, Clip):
        if fields[step.column].type == "float32":
            clipped = narrow(min(max(clipped, -MOST_FLOAT32), MOST_FLOAT32))
        return {**row, step.column: clipped}
    assert isinstance(step, Scale)
    return {**row, step.column: (float(clipped) - float(low)) * (1.0 / (float(high) - float(low)))}


def narrow(number: float) -> float:
    import numpy as np

    return float(np.float32(number))


def cast(item: Any, kind: str) -> Any:
    if kind == "bool":
        return (
            {"true": True, "1": True, "false": False, "0": False}.get(item)
            if type(item) is str
            else item != 0
        )
    if kind == "text":
        return str(item).lower() if type(item) is bool else str(item)
    if kind == "date":
        try:
            return datetime.date.fromisoformat(item) if re.fullmatch(r"\d{4}-\d\d-\d\d", item, re.A) else None
        except TypeError:
            return item
        except ValueError:
            return None
    if isinstance(item, datetime.date):
        item = (item - datetime.date(1970, 1, 1)).days
    if kind.startswith("int"):
        if type(item) is str:
            item = int(item) if re.fullmatch("-?[0-9]{1,18}", item) else None
        if item is None or not math.isfinite(item) or item != int(item):
            return None
        bits = int(kind[3:])
        return int(item) if -(2 ** (bits - 1)) <= item < 2 ** (bits - 1) else None
    if type(item) is str:
        pattern = r"-?([0-9]{1,200}(\.[0-9]{0,200})?|\.[0-9]{1,200})([eE][+-]?[0-9]{1,2})?"
        if not re.fullmatch(pattern, item):
            return None
        item = float(item)
    if type(item) is int and abs(item) > 2**53:
        return None
    if kind == "float32":
        return narrow(item) if abs(item) <= MOST_FLOAT32 else None
    return float(item)


def trains(key: int, seed: int, share: float) -> bool:
    prime, second = 2_147_483_579, 2_147_483_549
    digest = hashlib.sha256(b"duetlink split 1 %d" % seed).digest()
    state = key % prime
    for number in range(5):
        state = (state + int.from_bytes(digest[6 * number : 6 * number + 6]) % prime) % prime
        state = (state + (key % second if number == 1 else 0)) % prime
        state = pow(state, 3, prime)
    return state < int(share * prime)

"""A weighted mean over the members that shows nobody's value, and nobody's weight."""

from __future__ import annotations

from typing import Any

import numpy as np

from duetlink.errors import SettingError, UnsupportedValue
from duetlink.groups import averaging
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.secure.party import Party
from duetlink.groups.secure.ranges import DEFAULT_LIMIT
from duetlink.groups.secure.sums import SecureSum

MOST_WEIGHT = 2**20


async def average(
    secure: SecureSum,
    collectives: Collectives,
    party: Party,
    value: Any,
    weight: float | None,
    *,
    limit: float | None,
    colluding: int | None,
    call: str,
    accountable: bool = False,
) -> Any:
    """The mean of the members' arrays, state dicts or models, as `averaging.average` gives it.

    Weights and weighted values are one sum, in 64 bits: two sums could be interrupted between them, and would
    then be over different members. `limit` is that of the values; without it, the weighted values stay
    within 10^6. All learn the sum of the weights.

    Raises:
        SettingError: the weight is none from 0 to 2^20.
        As `SecureSum.all_reduce`.
    """
    state = averaging.state_of(value)
    if weight is None:
        mean = await secure.all_reduce(
            collectives,
            party,
            state,
            "mean",
            limit=limit,
            colluding=colluding,
            accountable=accountable,
            call=call,
        )
        return averaging.put_back(value, mean)
    if not 0 <= weight <= MOST_WEIGHT:
        raise SettingError(f"weight is {weight!r}: 0 to {MOST_WEIGHT:,} in a secure average")
    if limit is not None and not limit > 0:
        raise SettingError(f"limit is {limit!r}: it is above 0 and finite")
    most = DEFAULT_LIMIT if limit is None else max(limit, 1.0) * MOST_WEIGHT
    scaled = averaging.each_leaf(state, lambda leaf: averaging.as_float64(leaf) * weight)
    given = [scaled, np.float64(weight)]
    found: Any = await secure.all_reduce(
        collectives,
        party,
        given,
        "sum",
        limit=most,
        colluding=colluding,
        accountable=accountable,
        call=call,
    )
    summed, total = found[0], float(found[1])
    if not total > 0:
        raise UnsupportedValue(f"the members' weights add up to {total}; one at least must be over 0")
    mean = averaging.each_leaf(summed, lambda leaf: leaf / total)
    return averaging.put_back(value, averaging.like(state, mean))

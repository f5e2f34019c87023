"""A weighted mean over the members that shows nobody's value, and nobody's weight."""

from __future__ import annotations

from typing import Any

import numpy as np

from duetlink.errors import OutOfRange, SettingError, UnsupportedValue
from duetlink.groups import averaging
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.collectives.trees import take_apart
from duetlink.groups.secure.party import LEAST_MEMBERS, Party
from duetlink.groups.secure.ranges import DEFAULT_LIMIT, Range
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
    within 10^6. With it, integers such as a counter of batches may be larger, as long as their weighted
    values are no more than 2^20 times the limit. All learn the sum of the weights.

    Raises:
        SettingError: the weight is none from 0 to 2^20.
        OutOfRange: a float is beyond the limit. The others get OperationAborted, without the value.
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
        refusal=None if limit is None else _refusal(state, limit),
        colluding=colluding,
        accountable=accountable,
        call=call,
    )
    summed, total = found[0], float(found[1])
    if not total > 0:
        raise UnsupportedValue(f"the members' weights add up to {total}; one at least must be over 0")
    mean = averaging.each_leaf(summed, lambda leaf: leaf / total)
    return averaging.put_back(value, averaging.like(state, mean))


def _refusal(state: Any, limit: float) -> OutOfRange | None:
    """The error for a float beyond the limit: what is weighted has a wider range, which does not show it."""
    tree = take_apart(state)
    for element in tree.elements:
        if element.is_float and element.size_bytes > 1:  # those of 8 bits are numbers as float64 only
            try:
                Range.of(element, LEAST_MEMBERS, limit, 0.0, 1).check(tree.flat(element))
            except OutOfRange as error:
                return error
    return None

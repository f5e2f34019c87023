"""A weighted mean over the members that reveals neither a member's value nor its weight."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from duetlink.errors import OutOfRange, SettingError
from duetlink.groups.collectives import averaging
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.collectives.reduce_options import ReduceOptions
from duetlink.groups.collectives.values.trees import take_apart
from duetlink.groups.secure.participants import LEAST_MEMBERS, Participants
from duetlink.groups.secure.ranges import DEFAULT_LIMIT, Range
from duetlink.groups.secure.sums import SecureSum

MOST_WEIGHT = 2**20
LEAST_WEIGHT = 2.0**-10  # a smaller weight would be rounded too coarsely to the steps of the range


async def average(
    secure: SecureSum,
    collectives: Collectives,
    participants: Participants,
    value: Any,
    weight: float | None,
    options: ReduceOptions,
    *,
    call: str,
) -> Any:
    """Return the mean of the members' arrays, state dicts or models, as `averaging.average` does.

    Weights and weighted values are added in one sum of 64 bits: two sums could be interrupted between them,
    and would then be over different members. `options.limit` applies to the values; without it, the weighted
    values have to stay within 10^6. With a limit, integers such as a counter of batches may be larger, as
    long as their weighted values are at most 2^20 times the limit. All members learn the sum of the weights.

    Raises:
        SettingError: the weight is neither 0 nor from 2^-10 to 2^20.
        UnsupportedValue: as `averaging.average`.
        OutOfRange: a float is beyond the limit. The others get OperationAborted, without the value.
        As `SecureSum.run`.
    """
    state = averaging.state_of(value)
    parts = averaging.parts_of(state, is_weighted=weight is not None)
    limit = options.limit
    if limit is not None and not 0 < limit < math.inf:
        raise SettingError(f"limit is {limit!r}: it is above 0 and finite")
    if weight is None:
        # bools are sent as floats that every range holds exactly; their mean shows if they are all equal
        one = 1.0 if limit is None else 2.0 ** math.floor(math.log2(limit))
        given = [parts.given, {name: flags * one for name, flags in parts.flags.items()}]
        whole = given if parts.flags else parts.given
        received: Any = await secure.run(
            collectives, participants, whole, replace(options, op="mean"), call=call
        )
        numbers, flags = received if parts.flags else (received, {})
        found = parts.named(numbers) | averaging.same_flags(flags, one)
        return averaging.put_back(value, averaging.joined(state, found))
    weight = averaging.checked_weight(weight)
    if weight > MOST_WEIGHT or 0 < weight < LEAST_WEIGHT:
        raise SettingError(
            f"weight is {weight!r}: 0, or {LEAST_WEIGHT:g} to {MOST_WEIGHT:,} in a secure average, such as "
            "the number of rows of this member"
        )
    most = DEFAULT_LIMIT if limit is None else max(limit, 1.0) * MOST_WEIGHT
    scaled = {name: averaging.weighed(leaf, weight) for name, leaf in parts.numbers.items()}
    weighed_flags = {name: flags * weight for name, flags in parts.flags.items()}
    received = await secure.run(
        collectives,
        participants,
        [scaled, weighed_flags, np.float64(weight)],
        replace(options, op="sum", limit=most),
        refusal=_refusal(parts.given, limit) if limit is not None and weight > 0 and parts.numbers else None,
        call=call,
    )
    summed, flags, total = received[0], received[1], averaging.checked_total(float(received[2]))
    means = {name: leaf / total for name, leaf in summed.items()}
    found = means | averaging.same_flags(flags, total)
    return averaging.put_back(value, averaging.joined(state, found))


def _refusal(numbers: Any, limit: float) -> OutOfRange | None:
    """Return OutOfRange if a float is beyond the limit, else None.

    The weighted values have a wider range, in which such a float would not be noticed.
    """
    tree = take_apart(numbers)
    for element in tree.elements:
        if element.is_float and element.size_bytes > 1:  # those of 8 bits are numbers as float64 only
            try:
                Range.of(element, LEAST_MEMBERS, limit, 0.0, 1).check(tree.flat(element))
            except OutOfRange as error:
                return error
    return None

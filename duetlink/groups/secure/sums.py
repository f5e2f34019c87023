"""Secure sums of values: what `Group` calls, and what it gives back."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from duetlink.base.runtime.off_loop import off_loop
from duetlink.errors import OutOfRange, SettingError, UnsupportedValue
from duetlink.groups.collectives.collectives import Collectives, in_turn
from duetlink.groups.collectives.reduce_options import ReduceOptions
from duetlink.groups.collectives.values.trees import Tree, take_apart
from duetlink.groups.secure.keystream import Residues
from duetlink.groups.secure.masked_round import RoundOperations
from duetlink.groups.secure.participants import Participants
from duetlink.groups.secure.ranges import Range
from duetlink.groups.secure.residue_sum import ResidueSum


class SecureSum:
    """One call of a secure sum. It is kept from one epoch to the next where a loss has interrupted it."""

    def __init__(self) -> None:
        self.residues = ResidueSum()
        # of the attempt that is finished, maybe in an epoch of fewer members than had encoded their values
        self.ranges: Sequence[Range] = ()

    async def run(
        self,
        collectives: Collectives,
        party: Participants,
        value: object,
        options: ReduceOptions,
        *,
        refusal: OutOfRange | None = None,
        call: str = "",
    ) -> object:
        """The sum or mean of all members' values, which shows no more of each than the result does.

        Args:
            collectives: of the epoch that there is now.
            party: its members.
            value: of the same form at all members: floats and integers.
            options: as for `group.all_reduce`. The result is exact but for the rounding of each float to a
                step; the part of the noise of members that collude, who know theirs, does not count.
            refusal: what is raised, once the others were told, in place of giving this member's value.
            call: where it was called, for errors.

        Raises:
            GroupError: there are fewer than three members.
            SettingError: an argument cannot be.
            OutOfRange: an item is beyond the limit. The others get OperationAborted, without the value.
            SecureSumFailed: the sum shows that somebody gave garbage (`ranks` says who, where that is
                known), or a loss came at the wrong moment.
            OperationMismatch, OperationAborted, PeerLost, RemoteProtocolError, MissingLibrary,
            UnsupportedValue: as every operation.
        """
        if not options.is_sum:
            raise UnsupportedValue(f"a secure {options.op!r} is not made; there are sum, mean")
        size = party.size
        colluding = max(size - 2, 1) if options.colluding is None else options.colluding
        if colluding < 0:
            raise SettingError(f"colluding is {colluding}: it is a number of members")
        tree = take_apart(value)
        if not tree.leaves:
            raise UnsupportedValue("there is no array in this value")
        honest = max(size - colluding, 1)
        ranges = [
            Range.of(element, size, options.limit, options.noise, honest, accountable=options.accountable)
            for element in tree.elements
        ]
        asked = _Asked(tree, options, ranges, colluding, refusal)
        return await secure_sum(collectives, self, party, asked, call=call)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What one attempt is to add up."""

    tree: Tree
    options: ReduceOptions
    ranges: Sequence[Range]
    colluding: int
    refusal: OutOfRange | None

    @property
    def terms(self) -> bytes:
        """The same where members have called the same: 10, 10.0 and NumPy's 10 are one number."""
        asked = self.options
        limit = None if asked.limit is None else float(asked.limit)
        terms = (self.tree.what, asked.op, limit, float(asked.noise), int(self.colluding))
        return repr((*terms, "accountable") if asked.accountable else terms).encode()


@in_turn
async def secure_sum(
    self: Collectives, secure: SecureSum, party: Participants, asked: _Asked, *, call: str = ""
) -> object:
    async def make() -> list[Residues]:
        secure.ranges = asked.ranges
        found = []
        for each in asked.ranges:
            flat = asked.tree.flat(each.element)
            try:
                if asked.refusal is not None:
                    raise asked.refusal
                found.append(await off_loop(flat.nbytes, each.encode, flat, least_bytes=_least(each)))
            except OutOfRange:
                # the others are told who it was, and nothing of the value
                self.engine.abandon(f"a secure sum at {call}", "a value of its is beyond the declared range")
                raise
        return found

    wire = RoundOperations(self.flat, asked.tree.what, call)
    is_noisy, colluding = asked.options.noise > 0, asked.colluding
    secure.residues.check(party, colluding, is_noisy=is_noisy)
    await self.prepare()
    totals = await secure.residues.run(
        wire,
        party,
        asked.terms,
        colluding,
        make,
        is_noisy=is_noisy,
        accountable=asked.options.accountable,
    )
    flats: dict[str, Any] = {}
    for each, total in zip(secure.ranges, totals, strict=True):
        decode = functools.partial(each.decode, op=asked.options.op)
        flats[each.element.name] = await off_loop(total.nbytes, decode, total)
    return asked.tree.with_items(flats)


def _least(each: Range) -> int:
    """Bytes from which on encoding leaves the loop: noise takes half a microsecond for each item."""
    return 16 * 1024 if each.share_sigma else 1024 * 1024

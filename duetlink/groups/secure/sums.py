"""Secure sums of values: encodes arrays as residues, adds them up masked, and decodes the sum."""

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
    """One call of a secure sum. It is kept from one epoch to the next if a loss interrupts it."""

    def __init__(self) -> None:
        self.residues = ResidueSum()
        # the ranges of the attempt that is opened; it may have had more members than the current epoch
        self.ranges: Sequence[Range] = ()

    async def run(
        self,
        collectives: Collectives,
        participants: Participants,
        value: object,
        options: ReduceOptions,
        *,
        refusal: OutOfRange | None = None,
        call: str = "",
    ) -> object:
        """Return the sum or mean of all members' values, which reveals nothing of each but the result.

        Args:
            collectives: the operations of the current epoch.
            party: the members of that epoch.
            value: floats and integers, with the same shapes and dtypes at all members.
            options: as for `group.all_reduce`. The result is exact except that each float is rounded to a
                step. Members that collude know their own part of the noise, so it does not protect the
            others.
            refusal: if given, an error that is raised instead of sending this member's value, after the other
                members were notified.
            call: the place of the user's call, for error messages.

        Raises:
            GroupError: there are fewer than three members.
            SettingError: an argument is invalid.
            OutOfRange: an item is beyond the limit. The others get OperationAborted, without the value.
            SecureSumFailed: the sum shows that a member gave garbage (`ranks` names it, if it is known), or a
                member was lost while the sum was being opened.
            OperationMismatch, OperationAborted, PeerLost, RemoteProtocolError, MissingLibrary,
            UnsupportedValue: as every operation.
        """
        if not options.is_sum:
            raise UnsupportedValue(f"op is {options.op!r}: a secure sum has the ops sum and mean")
        size = participants.size
        colluding = max(size - 2, 1) if options.colluding is None else options.colluding
        if colluding < 0:
            raise SettingError(f"colluding is {colluding}: it is a number of members, 0 or more")
        tree = take_apart(value)
        if not tree.leaves:
            raise UnsupportedValue("there is no array in this value")
        honest = max(size - colluding, 1)
        ranges = [
            Range.of(element, size, options.limit, options.noise, honest, accountable=options.accountable)
            for element in tree.elements
        ]
        request = _SumRequest(tree, options, ranges, colluding, refusal)
        return await secure_sum(collectives, self, participants, request, call=call)


@dataclass(frozen=True, slots=True)
class _SumRequest:
    """The value and the options of one attempt."""

    tree: Tree
    options: ReduceOptions
    ranges: Sequence[Range]
    colluding: int
    refusal: OutOfRange | None

    @property
    def terms(self) -> bytes:
        """Bytes that are equal at members whose calls agree; 10, 10.0 and NumPy's 10 are one number."""
        options = self.options
        limit = None if options.limit is None else float(options.limit)
        terms = (self.tree.what, options.op, limit, float(options.noise), int(self.colluding))
        return repr((*terms, "accountable") if options.accountable else terms).encode()


@in_turn
async def secure_sum(
    self: Collectives, secure: SecureSum, participants: Participants, request: _SumRequest, *, call: str = ""
) -> object:
    async def make() -> list[Residues]:
        secure.ranges = request.ranges
        found = []
        for each in request.ranges:
            flat = request.tree.flat(each.element)
            try:
                if request.refusal is not None:
                    raise request.refusal
                found.append(await off_loop(flat.nbytes, each.encode, flat, least_bytes=_least(each)))
            except OutOfRange:
                # the others learn which member it was, and nothing of the value
                self.engine.abandon(
                    f"a secure sum at {call}", "one of its values is outside the declared range"
                )
                raise
        return found

    wire = RoundOperations(self.flat, request.tree.what, call)
    is_noisy, colluding = request.options.noise > 0, request.colluding
    secure.residues.check(participants, colluding, is_noisy=is_noisy)
    await self.prepare()
    totals = await secure.residues.run(
        wire,
        participants,
        request.terms,
        colluding,
        make,
        is_noisy=is_noisy,
        accountable=request.options.accountable,
    )
    flats: dict[str, Any] = {}
    for each, total in zip(secure.ranges, totals, strict=True):
        decode = functools.partial(each.decode, op=request.options.op)
        flats[each.element.name] = await off_loop(total.nbytes, decode, total)
    return request.tree.with_items(flats)


def _least(each: Range) -> int:
    """Return the size in bytes from which encoding runs off the loop thread.

    It is smaller with noise, which takes half a microsecond for each item.
    """
    return 16 * 1024 if each.share_sigma else 1024 * 1024

"""One secure sum of residues among the members of one epoch, and its end after a loss.

Theory (Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning", 2017, without
its server). A member's residues get a mask for each pair that it is in, which one of the two adds and the
other takes off, and a self-mask. Each member owns one block (`blocks.py`), receives the others' masked items
of it and adds them up; the pairs' masks cancel. Then all say that they have everything (*commit*), tell
their self-masks (*reveal*), take them off their block, and gather the sums.

    introduce   all to all   keys, commitments, shares of the self-mask's seed
    mask        all to all   masked items, those of the owner's block
    commit      all to all   digests of all introductions
    reveal      all to all   seeds
    gather      all-gather   sums of the blocks

What is opened is always the sum over all members of the round, and at most one sum of it:

1. A pair's key is told to nobody, so nothing but the sum over both members of a pair can be opened.
2. A member tells its own seed only after all others have told it that they are committed.
3. A member gives its share of a lost member's seed only where it is committed to the same round itself.
4. A member that has told its seed, or a share, takes part in no further attempt with the same values.

A loss before all are committed burns the round: it begins anew among those who are left, with keys, masks and
noise of its own, and what was sent stays masked for ever by the self-masks of those who go on. After that the
lost member's items are all there, at the owners and at its deputy, and its seed follows from shares: the sum
is finished with its value in it. Where that is not possible, and somebody has told its seed, the sum fails
rather than to be made again: two sums over different members differ by somebody's value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar

import numpy as np

from duetlink.base.runtime.off_loop import off_loop
from duetlink.data.codecs.element import BY_NAME, UINT8
from duetlink.errors import OperationMismatch, RemoteProtocolError, SecureSumFailed
from duetlink.groups.collectives.values.flat import CollectiveOptions, FlatOperations
from duetlink.groups.secure.blocks import OwnedBlocks
from duetlink.groups.secure.introduction import (
    DIGEST_BYTES,
    SECRET_BYTES,
    Held,
    Introduction,
    Stage,
    digest,
    round_digest,
)
from duetlink.groups.secure.keystream import Residues, mask
from duetlink.groups.secure.member_secrets import Secrets, combine, self_key
from duetlink.groups.secure.participants import Participants


class NextStep(Enum):
    """How to go on once all have introduced themselves."""

    AFRESH = "with the keys that have just been told"
    FINISH = "with the round that all still hold"
    STOP = "not at all"


def way_on(held: Sequence[Held], can_finish: bool) -> NextStep:
    """What all members conclude from what they hold; `can_finish` is what the held round itself says."""
    same = len({each.round for each in held}) == 1 and all(each.stage is not Stage.NONE for each in held)
    if same and can_finish:
        return NextStep.FINISH
    return NextStep.STOP if any(each.stage is Stage.REVEALED for each in held) else NextStep.AFRESH


@dataclass(frozen=True, slots=True)
class RoundOperations:
    """The operations that the steps of a secure sum are made of."""

    flat: FlatOperations
    what: str  # form of the value
    call: str  # where it was called

    def name(self, rank: int) -> str:
        return self.flat.engine.names[rank]

    def manner(self, step: str) -> CollectiveOptions:
        return CollectiveOptions(f"{self.what}, {step}", "secure sum", self.call)

    async def tell_each(self, step: str, pieces: Sequence[bytes]) -> list[bytes]:
        """Bring one piece to each member, straight from one to the other; all have the same size."""
        size = len(pieces[0])
        given = np.frombuffer(b"".join(pieces), np.uint8)
        out = np.empty(len(given), np.uint8)
        sizes = [size] * len(pieces)
        await self.flat.all_to_all(given, sizes, out, sizes, UINT8, self.manner(step))
        return [out[at : at + size].tobytes() for at in range(0, len(out), size)]

    async def exchange(
        self, step: str, given: Residues, given_sizes: Sequence[int], sizes: Sequence[int]
    ) -> list[Residues]:
        """Bring some items to each member, straight from one to the other."""
        out = np.empty(sum(sizes), given.dtype)
        element = BY_NAME[given.dtype.name]
        await self.flat.all_to_all(given, given_sizes, out, sizes, element, self.manner(step))
        return [out[end - size : end] for end, size in zip(np.cumsum(sizes), sizes, strict=True)]

    async def gather(self, mine: Residues, sizes: Sequence[int]) -> list[Residues]:
        """Bring everybody's items to all."""
        out = np.empty(sum(sizes), mine.dtype)
        await self.flat.all_gather(mine, out, BY_NAME[mine.dtype.name], sizes, self.manner("sums"))
        return [out[end - size : end] for end, size in zip(np.cumsum(sizes), sizes, strict=True)]


@dataclass(slots=True)
class MaskedArray:
    """One array of the round at one member, from the moment when it is masked."""

    blocks: OwnedBlocks
    masked: Residues  # all of this member's
    total: Residues  # of the own block: the sum of all members' masked items
    copies: dict[
        int, Residues
    ]  # by rank, of those whose deputy this is: their masked items of their own block
    received: dict[int, Residues]  # by rank, of the own block: what `total` is the sum of, if it is kept

    def masked_block(self, block: int) -> Residues:
        return self.masked[slice(*self.blocks.bounds(block))]


@dataclass(slots=True)
class MaskedRound:
    """One attempt of one member. What is left of it after a loss is `held`."""

    keeps_received: ClassVar[bool] = False  # memory of as much as the value

    party: Participants
    rank: int
    terms: bytes  # digest of what was called: form, range, noise, who may collude
    held: Held = field(default_factory=Held)
    introductions: list[Introduction] = field(default_factory=list)
    lanes: list[MaskedArray] = field(default_factory=list)
    secrets: Secrets = field(init=False)

    def __post_init__(self) -> None:
        self.secrets = Secrets(self.rank, self.party.size)

    # -- introduce -------------------------------------------------------------------------------------------

    async def introduce(self, wire: RoundOperations, held: Held) -> list[Introduction]:
        """Tell all others this member's keys, and what it holds of an earlier round.

        Raises:
            OperationMismatch: a member has another list of members, or has called something else.
            RemoteProtocolError: a member's introduction is malformed; it names the member.
        """
        size = self.party.size
        party = digest("terms", self.party.digest + self.terms)
        own = [self.secrets.introduction(to, held, party).to_wire() for to in range(size)]
        told = await wire.tell_each("introductions", own)
        found = []
        for rank, data in enumerate(told):
            each = Introduction.from_wire(data, size, wire.name(rank))
            if each.party != party:
                raise OperationMismatch(
                    f"{wire.name(rank)} has another list of members, or another range, noise, number of "
                    "colluding members or accountable=, than this one: no sum is made. All give the same "
                    "arguments"
                )
            if rank != self.rank and digest("share", each.share) != each.share_digests[self.rank]:
                raise RemoteProtocolError(f"{wire.name(rank)} sent a share that is not what it says it is")
            found.append(each)
        self.introductions = found
        return found

    @property
    def digest(self) -> bytes:
        """Of the whole round, as this member has seen it."""
        return round_digest(digest("terms", self.party.digest + self.terms), self.introductions)

    # -- mask ------------------------------------------------------------------------------------------------

    async def mask(self, wire: RoundOperations, arrays: Sequence[Residues]) -> None:
        """Mask the arrays, in place, and send each owner its block of them."""
        for number, array in enumerate(arrays):
            self.lanes.append(await self._mask(wire, number, array))

    async def _mask(self, wire: RoundOperations, number: int, array: Residues) -> MaskedArray:
        size, me = self.party.size, self.rank
        added, taken_off = self._signed(self._pair_keys(wire, number))
        added.append(self_key(self.secrets.seed, me, self.digest, number))
        await off_loop(array.nbytes, mask, array, added, taken_off)
        blocks = OwnedBlocks(len(array), size)
        given_sizes = [sum(map(blocks.size, blocks.sent(me, to))) for to in range(size)]
        sizes = [sum(map(blocks.size, blocks.sent(of, me))) for of in range(size)]
        got = await wire.exchange(f"masked values {number}", array, given_sizes, sizes)
        parts = {me: array[slice(*blocks.bounds(me))]}
        copies = {}
        for of, items in enumerate(got):
            at = 0
            for block in blocks.sent(of, me):
                piece = items[at : at + blocks.size(block)]
                at += len(piece)
                if block == me:
                    parts[of] = piece
                else:
                    copies[of] = piece.copy()
        total = await off_loop(array.nbytes, _sum, list(parts.values()))
        return MaskedArray(blocks, array, total, copies, parts if self.keeps_received else {})

    def _pair_keys(self, wire: RoundOperations, number: int) -> dict[int, bytes]:
        """Of one lane, by the rank of the other one."""
        round_ = self.digest
        return {
            other: self.secrets.pair_key(other, told.public_key, round_, number, wire.name(other))
            for other, told in enumerate(self.introductions)
            if other != self.rank
        }

    def _signed(self, keys: dict[int, bytes]) -> tuple[list[bytes], list[bytes]]:
        """The keys whose masks this member adds, and those whose masks it takes off."""
        added = [key for other, key in keys.items() if other > self.rank]
        return added, [key for other, key in keys.items() if other < self.rank]

    # -- commit, reveal, gather ------------------------------------------------------------------------------

    async def commit(self, wire: RoundOperations) -> None:
        """Say that everything is here, and hear it of all others.

        Raises:
            OperationMismatch: a member was told other keys by a third than this one; it names both.
        """
        mine = self._told_alike()
        self.held = Held(Stage.COMMITTED, self.digest)
        told = await wire.tell_each("commitments", [b"".join(mine)] * self.party.size)
        for rank, data in enumerate(told):
            theirs = [data[at : at + DIGEST_BYTES] for at in range(0, len(data), DIGEST_BYTES)]
            for other, (one, two) in enumerate(zip(mine, theirs, strict=True)):
                if one != two:
                    raise OperationMismatch(
                        f"{wire.name(rank)} was told other keys of {wire.name(other)} than this member was: "
                        "one of the two does not keep to the protocol, and no sum is made"
                    )

    def _told_alike(self) -> list[bytes]:
        """Digests, by rank, of what each member has to have told all others alike."""
        return [each.public_digest for each in self.introductions]

    async def open(self, wire: RoundOperations) -> list[Residues]:
        """Tell this member's seed, and give the sums over all members.

        Raises:
            RemoteProtocolError: a member told a seed that is not the one it was committed to.
        """
        seeds = await self._reveal(wire)
        found = []
        for number, lane in enumerate(self.lanes):
            mine = await self._unmasked(seeds, number, self.rank, lane.total)
            found.append(np.concatenate(await wire.gather(mine, self._block_sizes(lane))))
        return found

    def _block_sizes(self, lane: MaskedArray) -> list[int]:
        return [lane.blocks.size(rank) for rank in range(self.party.size)]

    async def _reveal(self, wire: RoundOperations) -> list[bytes]:
        """Everybody's seed, by rank."""
        self.held = Held(Stage.REVEALED, self.held.round)
        seeds = await wire.tell_each("self-masks", [self.secrets.seed] * self.party.size)
        for rank, seed in enumerate(seeds):
            self._check_seed(rank, seed, wire.name(rank))
        return seeds

    def _check_seed(self, rank: int, seed: bytes, name: str) -> None:
        if digest("seed", seed) != self.introductions[rank].seed_digest:
            raise RemoteProtocolError(f"{name} told a self-mask that is not the one it was committed to")

    async def _unmasked(self, seeds: Sequence[bytes], number: int, block: int, total: Residues) -> Residues:
        """A block's sum without all self-masks; `total` stays as it is, in case that this is done again."""
        keys = [self_key(seed, rank, self.held.round, number) for rank, seed in enumerate(seeds)]
        opened = total.copy()
        first, _ = self.lanes[number].blocks.bounds(block)
        await off_loop(opened.nbytes * len(keys), mask, opened, [], keys, first)
        return opened

    # -- after a loss ----------------------------------------------------------------------------------------

    def can_finish(self, party: Participants) -> bool:
        """Whether one member is lost at most. Of two, each was sent items that nobody else has."""
        left = self.party.ranks_of(party)
        return left is not None and len(left) >= self.party.size - 1

    async def finish(self, wire: RoundOperations, party: Participants) -> list[Residues]:
        """Give the sums over all members of this round, of whom one may be lost. All who are left call it.

        Raises:
            RemoteProtocolError: a member told a seed or a share that does not fit what was committed to.
            SecureSumFailed: the shares that the lost member dealt do not give its seed.
        """
        left = self.party.ranks_of(party)
        assert left is not None
        lost = next(iter(set(range(self.party.size)) - set(left)), None)
        self.held = Held(Stage.REVEALED, self.held.round)
        mine = self.secrets.seed + (b"" if lost is None else self.introductions[lost].share)
        seeds = self._seeds(wire, left, lost, await wire.tell_each("seeds and shares", [mine] * len(left)))
        return [
            await self._finish_lane(wire, number, lane, left, lost, seeds)
            for number, lane in enumerate(self.lanes)
        ]

    def _seeds(
        self, wire: RoundOperations, left: Sequence[int], lost: int | None, told: Sequence[bytes]
    ) -> list[bytes]:
        """Everybody's seed: those who are left have told theirs, the lost one's follows from its shares."""
        seeds = [b""] * self.party.size
        shares = []
        for now, (rank, data) in enumerate(zip(left, told, strict=True)):
            seeds[rank], share = data[:SECRET_BYTES], data[SECRET_BYTES:]
            self._check_seed(rank, seeds[rank], wire.name(now))
            if lost is None:
                continue
            if digest("share", share) != self.introductions[lost].share_digests[rank]:
                raise RemoteProtocolError(f"{wire.name(now)} told a share that is not the one it has")
            shares.append(share)
        if lost is None:
            return seeds
        seeds[lost] = combine(shares)
        if digest("seed", seeds[lost]) != self.introductions[lost].seed_digest:
            raise SecureSumFailed(
                "a member that is lost now had dealt shares that do not give its self-mask, so this sum "
                "cannot be opened; nothing was shown"
            )
        return seeds

    async def _finish_lane(
        self,
        wire: RoundOperations,
        number: int,
        lane: MaskedArray,
        left: Sequence[int],
        lost: int | None,
        seeds: Sequence[bytes],
    ) -> Residues:
        """The lost member's block is added up by its deputy, who has the lost member's own items of it."""
        if lost is None:
            opened = await self._unmasked(seeds, number, self.rank, lane.total)
            parts = await wire.gather(opened, [lane.blocks.size(rank) for rank in left])
            by_block = dict(zip(left, parts, strict=True))
            return np.concatenate([by_block[block] for block in range(self.party.size)])
        blocks, deputy = lane.blocks, lane.blocks.deputy(lost)
        piece, nothing = lane.masked_block(lost), lane.masked[:0]
        given = [piece if rank == deputy else nothing for rank in left]
        sizes = [len(piece) if self.rank == deputy else 0] * len(left)
        step = f"masked values {number} of the lost"
        got = await wire.exchange(step, np.concatenate(given), [len(each) for each in given], sizes)
        opened = await self._unmasked(seeds, number, self.rank, lane.total)
        if self.rank == deputy:
            total = await off_loop(piece.nbytes, _sum, [lane.copies[lost], *got])
            opened = np.concatenate([opened, await self._unmasked(seeds, number, lost, total)])
        parts = await wire.gather(
            opened, [blocks.size(rank) + blocks.size(lost) * (rank == deputy) for rank in left]
        )
        by_block = dict(zip(left, parts, strict=True))
        own = blocks.size(deputy)
        by_block[deputy], by_block[lost] = by_block[deputy][:own], by_block[deputy][own:]
        return np.concatenate([by_block[block] for block in range(self.party.size)])


def _sum(parts: Sequence[Residues]) -> Residues:
    total = parts[0].copy()
    for part in parts[1:]:
        np.add(total, part, out=total)
    return total

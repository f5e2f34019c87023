"""One secure sum of residues among the members of one epoch, and its end after a loss.

Theory (Bonawitz et al., "Practical secure aggregation for privacy-preserving machine learning", 2017, without
its server). To its residues, each member adds a *self-mask*, and a *pair mask* for each other member, which
one of the two adds and the other one subtracts. Each member owns one block of the array (`blocks.py`),
receives the others' masked items of it and adds them up; there the pair masks cancel. Then all members
announce that they have received everything (*commit*), send the seeds of their self-masks (*reveal*),
subtract the self-masks from their blocks, and gather the sums.

    introduce   all to all   keys, commitments, shares of the self-mask's seed
    mask        all to all   masked items of the receiver's block
    commit      all to all   digests of all introductions
    reveal      all to all   seeds
    gather      all-gather   sums of the blocks

Only the sum over all members of the round can be opened, and at most once:

1. A pair's key is sent to no member, so nothing but the sum over both members of a pair can be opened.
2. A member sends its own seed only after all others have sent it their commitments.
3. A member sends its share of a lost member's seed only if it is committed to the same round itself.
4. A member that has sent its seed, or a share, takes part in no further attempt with the same values.

If a member is lost before all are committed, the round is discarded: a new one begins among the members that
are left, with new keys, masks and noise. The values that were sent stay masked for ever by the self-masks of
the members that go on. If a member is lost later, all its items are at the owners and at its deputy, and its
seed can be computed from its shares, so the sum is finished with its value. If that is not possible although
a member has sent its seed, the sum fails and is not repeated: two sums over different members would differ by
a member's value.
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
    """The decision after all members have introduced themselves."""

    RESTART = "begin a round with the keys that were just exchanged"
    FINISH = "finish the interrupted round that all members hold"
    STOP = "fail: a seed was revealed, and the round cannot be finished"


def next_step(held: Sequence[Held], can_finish: bool) -> NextStep:
    """Decide how to go on, with the same result at all members, from the rounds that they hold.

    `can_finish` is the held round's own `MaskedRound.can_finish`.
    """
    same = len({each.round for each in held}) == 1 and all(each.stage is not Stage.NONE for each in held)
    if same and can_finish:
        return NextStep.FINISH
    return NextStep.STOP if any(each.stage is Stage.REVEALED for each in held) else NextStep.RESTART


@dataclass(frozen=True, slots=True)
class RoundOperations:
    """The group operations that the steps of a secure sum consist of."""

    flat: FlatOperations
    what: str  # shapes and dtypes of the value
    call: str  # the place of the user's call

    def name(self, rank: int) -> str:
        return self.flat.engine.names[rank]

    def options(self, step: str) -> CollectiveOptions:
        return CollectiveOptions(f"{self.what}, {step}", "secure sum", self.call)

    async def send_each(self, step: str, pieces: Sequence[bytes]) -> list[bytes]:
        """Send `pieces[rank]` directly to each member; returns the pieces received. All have one size."""
        size = len(pieces[0])
        given = np.frombuffer(b"".join(pieces), np.uint8)
        out = np.empty(len(given), np.uint8)
        sizes = [size] * len(pieces)
        await self.flat.all_to_all(given, sizes, out, sizes, UINT8, self.options(step))
        return [out[at : at + size].tobytes() for at in range(0, len(out), size)]

    async def exchange(
        self, step: str, given: Residues, given_sizes: Sequence[int], sizes: Sequence[int]
    ) -> list[Residues]:
        """Send consecutive parts of `given` directly to each member; returns the parts received, by rank."""
        out = np.empty(sum(sizes), given.dtype)
        element = BY_NAME[given.dtype.name]
        await self.flat.all_to_all(given, given_sizes, out, sizes, element, self.options(step))
        return [out[end - size : end] for end, size in zip(np.cumsum(sizes), sizes, strict=True)]

    async def gather(self, mine: Residues, sizes: Sequence[int]) -> list[Residues]:
        out = np.empty(sum(sizes), mine.dtype)
        await self.flat.all_gather(mine, out, BY_NAME[mine.dtype.name], sizes, self.options("sums"))
        return [out[end - size : end] for end, size in zip(np.cumsum(sizes), sizes, strict=True)]


@dataclass(slots=True)
class MaskedArray:
    """One array of the round at one member, after it was masked."""

    blocks: OwnedBlocks
    masked: Residues  # all masked items of this member
    total: Residues  # the sum of all members' masked items of the own block
    copies: dict[int, Residues]  # as deputy: by rank, the masked items of that member's own block
    received: dict[int, Residues]  # by rank, the masked items of the own block, if they are kept

    def masked_block(self, block: int) -> Residues:
        return self.masked[slice(*self.blocks.bounds(block))]


@dataclass(slots=True)
class MaskedRound:
    """One attempt of one member. `held` says how far it got, after a loss."""

    keeps_received: ClassVar[bool] = False  # needs as much memory as the value

    participants: Participants
    rank: int
    terms: bytes  # the arguments that have to agree: shapes, range, noise, number of colluding members
    held: Held = field(default_factory=Held)
    introductions: list[Introduction] = field(default_factory=list)
    arrays: list[MaskedArray] = field(default_factory=list)
    secrets: Secrets = field(init=False)

    def __post_init__(self) -> None:
        self.secrets = Secrets(self.rank, self.participants.size)

    # -- introduce -------------------------------------------------------------------------------------------

    async def introduce(self, wire: RoundOperations, held: Held) -> list[Introduction]:
        """Send this member's keys, and the interrupted round that it holds, to all members.

        Returns the introductions of all members, by rank.

        Raises:
            OperationMismatch: a member has another list of members, or other arguments.
            RemoteProtocolError: a member's introduction is malformed; the text names the member.
        """
        size = self.participants.size
        terms_digest = digest("terms", self.participants.digest + self.terms)
        own = [self.secrets.introduction(to, held, terms_digest).to_wire() for to in range(size)]
        received = await wire.send_each("introductions", own)
        found = []
        for rank, data in enumerate(received):
            each = Introduction.from_wire(data, size, wire.name(rank))
            if each.terms_digest != terms_digest:
                raise OperationMismatch(
                    f"{wire.name(rank)} has another list of members, or another range, noise, number of "
                    "colluding members or accountable=, than this one: no sum is made. All members have to "
                    "give the same arguments"
                )
            if rank != self.rank and digest("share", each.share) != each.share_digests[self.rank]:
                raise RemoteProtocolError(f"{wire.name(rank)} sent a share that does not fit its commitment")
            found.append(each)
        self.introductions = found
        return found

    @property
    def digest(self) -> bytes:
        """The digest that identifies the round, from the introductions that this member received."""
        return round_digest(digest("terms", self.participants.digest + self.terms), self.introductions)

    # -- mask ------------------------------------------------------------------------------------------------

    async def mask(self, wire: RoundOperations, arrays: Sequence[Residues]) -> None:
        """Mask the arrays in place, and send each member the items of its block."""
        for number, array in enumerate(arrays):
            self.arrays.append(await self._mask(wire, number, array))

    async def _mask(self, wire: RoundOperations, number: int, array: Residues) -> MaskedArray:
        size, me = self.participants.size, self.rank
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
        """Derive the keys of the pair masks of array `number`, by the rank of the other member."""
        round_ = self.digest
        return {
            other: self.secrets.pair_key(other, received.public_key, round_, number, wire.name(other))
            for other, received in enumerate(self.introductions)
            if other != self.rank
        }

    def _signed(self, keys: dict[int, bytes]) -> tuple[list[bytes], list[bytes]]:
        """Return the keys whose masks this member adds, and those whose masks it subtracts."""
        added = [key for other, key in keys.items() if other > self.rank]
        return added, [key for other, key in keys.items() if other < self.rank]

    # -- commit, reveal, gather ------------------------------------------------------------------------------

    async def commit(self, wire: RoundOperations) -> None:
        """Announce that this member has received everything, and wait for the others' announcements.

        Raises:
            OperationMismatch: a third member sent different keys to this member and to another one; the text
                names both.
        """
        mine = self._public_digests()
        self.held = Held(Stage.COMMITTED, self.digest)
        received = await wire.send_each("commitments", [b"".join(mine)] * self.participants.size)
        for rank, data in enumerate(received):
            theirs = [data[at : at + DIGEST_BYTES] for at in range(0, len(data), DIGEST_BYTES)]
            for other, (one, two) in enumerate(zip(mine, theirs, strict=True)):
                if one != two:
                    raise OperationMismatch(
                        f"{wire.name(rank)} received other keys of {wire.name(other)} than this member: "
                        "one of the two breaks the protocol, and no sum is made"
                    )

    def _public_digests(self) -> list[bytes]:
        """Return digests of the data that each member had to send equally to all, by rank."""
        return [each.public_digest for each in self.introductions]

    async def open(self, wire: RoundOperations) -> list[Residues]:
        """Reveal this member's seed, and return the sums over all members.

        Raises:
            RemoteProtocolError: a member's seed does not fit its commitment.
        """
        seeds = await self._reveal(wire)
        found = []
        for number, array in enumerate(self.arrays):
            mine = await self._unmasked(seeds, number, self.rank, array.total)
            found.append(np.concatenate(await wire.gather(mine, self._block_sizes(array))))
        return found

    def _block_sizes(self, array: MaskedArray) -> list[int]:
        return [array.blocks.size(rank) for rank in range(self.participants.size)]

    async def _reveal(self, wire: RoundOperations) -> list[bytes]:
        """Exchange the seeds of the self-masks; returns them by rank."""
        self.held = Held(Stage.REVEALED, self.held.round)
        seeds = await wire.send_each("self-masks", [self.secrets.seed] * self.participants.size)
        for rank, seed in enumerate(seeds):
            self._check_seed(rank, seed, wire.name(rank))
        return seeds

    def _check_seed(self, rank: int, seed: bytes, name: str) -> None:
        if digest("seed", seed) != self.introductions[rank].seed_digest:
            raise RemoteProtocolError(f"{name} sent a self-mask that is not the one it was committed to")

    async def _unmasked(self, seeds: Sequence[bytes], number: int, block: int, total: Residues) -> Residues:
        """Return a block's sum without the self-masks. `total` is unchanged, since this may be repeated."""
        keys = [self_key(seed, rank, self.held.round, number) for rank, seed in enumerate(seeds)]
        opened = total.copy()
        first, _ = self.arrays[number].blocks.bounds(block)
        await off_loop(opened.nbytes * len(keys), mask, opened, [], keys, first)
        return opened

    # -- after a loss ----------------------------------------------------------------------------------------

    def can_finish(self, participants: Participants) -> bool:
        """Return True if at most one member of the round is missing from `participants`.

        If two are lost, items that only they had received are lost too.
        """
        left = self.participants.ranks_of(participants)
        return left is not None and len(left) >= self.participants.size - 1

    async def finish(self, wire: RoundOperations, participants: Participants) -> list[Residues]:
        """Return the sums over all members of this round, of which one may be lost.

        All members that are left call it; `participants` are the members of the current epoch.

        Raises:
            RemoteProtocolError: a member sent a seed or a share that does not fit its commitment.
            SecureSumFailed: the shares that the lost member distributed do not give its seed.
        """
        left = self.participants.ranks_of(participants)
        assert left is not None
        lost = next(iter(set(range(self.participants.size)) - set(left)), None)
        self.held = Held(Stage.REVEALED, self.held.round)
        mine = self.secrets.seed + (b"" if lost is None else self.introductions[lost].share)
        seeds = self._seeds(wire, left, lost, await wire.send_each("seeds and shares", [mine] * len(left)))
        return [
            await self._finish_array(wire, number, array, left, lost, seeds)
            for number, array in enumerate(self.arrays)
        ]

    def _seeds(
        self, wire: RoundOperations, left: Sequence[int], lost: int | None, received: Sequence[bytes]
    ) -> list[bytes]:
        """Check the seeds that were sent, and compute a lost member's seed from its shares."""
        seeds = [b""] * self.participants.size
        shares = []
        for now, (rank, data) in enumerate(zip(left, received, strict=True)):
            seeds[rank], share = data[:SECRET_BYTES], data[SECRET_BYTES:]
            self._check_seed(rank, seeds[rank], wire.name(now))
            if lost is None:
                continue
            if digest("share", share) != self.introductions[lost].share_digests[rank]:
                raise RemoteProtocolError(f"{wire.name(now)} sent a share that is not the one it has")
            shares.append(share)
        if lost is None:
            return seeds
        seeds[lost] = combine(shares)
        if digest("seed", seeds[lost]) != self.introductions[lost].seed_digest:
            raise SecureSumFailed(
                "a member that is lost now had sent shares that do not give its self-mask, so this sum "
                "cannot be opened; nothing was revealed"
            )
        return seeds

    async def _finish_array(
        self,
        wire: RoundOperations,
        number: int,
        array: MaskedArray,
        left: Sequence[int],
        lost: int | None,
        seeds: Sequence[bytes],
    ) -> Residues:
        """Open the sums of one array.

        A lost member's block is added up by its deputy, which has the lost member's own items of it.
        """
        if lost is None:
            opened = await self._unmasked(seeds, number, self.rank, array.total)
            parts = await wire.gather(opened, [array.blocks.size(rank) for rank in left])
            by_block = dict(zip(left, parts, strict=True))
            return np.concatenate([by_block[block] for block in range(self.participants.size)])
        blocks, deputy = array.blocks, array.blocks.deputy(lost)
        piece, nothing = array.masked_block(lost), array.masked[:0]
        given = [piece if rank == deputy else nothing for rank in left]
        sizes = [len(piece) if self.rank == deputy else 0] * len(left)
        step = f"masked values {number} of the lost"
        got = await wire.exchange(step, np.concatenate(given), [len(each) for each in given], sizes)
        opened = await self._unmasked(seeds, number, self.rank, array.total)
        if self.rank == deputy:
            total = await off_loop(piece.nbytes, _sum, [array.copies[lost], *got])
            opened = np.concatenate([opened, await self._unmasked(seeds, number, lost, total)])
        parts = await wire.gather(
            opened, [blocks.size(rank) + blocks.size(lost) * (rank == deputy) for rank in left]
        )
        by_block = dict(zip(left, parts, strict=True))
        own = blocks.size(deputy)
        by_block[deputy], by_block[lost] = by_block[deputy][:own], by_block[deputy][own:]
        return np.concatenate([by_block[block] for block in range(self.participants.size)])


def _sum(parts: Sequence[Residues]) -> Residues:
    total = parts[0].copy()
    for part in parts[1:]:
        np.add(total, part, out=total)
    return total

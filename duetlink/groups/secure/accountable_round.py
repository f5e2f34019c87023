"""A secure sum in which whoever gave garbage is named: a `MaskedRound` with a few more steps.

    introduce, mask         as in `masked_round.py`
    openings  all to all    masked numbers, a commitment to coins, a key that signs (`naming.py`)
    commit, reveal          as there; digests cover the openings as well
    sums      all to all    each owner tells everybody its block's sums, with nobody between
    digests   stated        of all sums, by owner: two that differ name the owner and whoever says so
    --- only if a sum is far beyond its range ---
    coins     all to all    what each was committed to
    evidence  stated        `Evidence`; all draw the same conclusion (`TrialFacts.judge`)
    end       all to all    nobody raises before all know what to raise

The coins come after the sums. If they followed from the seeds, which an owner knows before it tells its
sums, it could look for a false sum that passes all trials. What is *stated* is signed and passed on
(`statements.py`). The evidence of a round is told once: after a loss on the way the round is finished as any
other, and shows its sums, and nobody is named.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NoReturn

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from duetlink.base.runtime.off_loop import off_loop
from duetlink.errors import DuetError, RemoteProtocolError, SecureSumFailed
from duetlink.groups.secure import naming
from duetlink.groups.secure.introduction import digest
from duetlink.groups.secure.keystream import Residues, at, mask
from duetlink.groups.secure.masked_round import MaskedRound, RoundOperations
from duetlink.groups.secure.member_secrets import self_key
from duetlink.groups.secure.naming import Evidence, MaskStatement, TrialFacts, Trials
from duetlink.groups.secure.statements import Statements

# A member that has told everything and then says nothing keeps the others from their error for so long.
CLOSING_S = 5.0


@dataclass(frozen=True, slots=True)
class _FarOut:
    """A block with sums that are far beyond their range."""

    lane: int
    owner: int
    sums: Residues  # of the whole block
    places: NDArray[np.intp]  # of those that are, within the block


@dataclass
class AccountableRound(MaskedRound):
    """One attempt of one member, of lanes of 64 bits."""

    keeps_received: ClassVar[bool] = True

    openings: list[MaskStatement] = field(default_factory=list)
    coin: bytes = field(default_factory=lambda: secrets.token_bytes(naming.COIN_BYTES))
    signer: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)

    async def mask(self, wire: RoundOperations, arrays: Sequence[Residues]) -> None:
        """Mask the arrays, in place, and send each owner its block of them. Then tell all the opening.

        Raises:
            RemoteProtocolError: a member's opening is malformed; it names the member.
        """
        await super().mask(wire, arrays)
        blinded = naming.blinds(self.party.size)
        mask(blinded, *self._signed(self._pair_keys(wire, len(self.lanes))))
        public_key = self.signer.public_key().public_bytes_raw()
        mine = MaskStatement(public_key, digest("coin", self.coin), blinded).to_wire()
        told = await wire.tell_each("openings", [mine] * self.party.size)
        self.openings = [MaskStatement.from_wire(data, wire.name(rank)) for rank, data in enumerate(told)]

    def _told_alike(self) -> list[bytes]:
        return [
            digest("opening", one + other.to_wire())
            for one, other in zip(super()._told_alike(), self.openings, strict=True)
        ]

    async def open(self, wire: RoundOperations) -> list[Residues]:
        """Tell this member's seed, and give the sums over all members, which are the same at all of them.

        Raises:
            RemoteProtocolError: a member told a seed or coins that are not the ones it was committed to, or
                has not signed a statement; it names the member.
            SecureSumFailed: a member gave garbage, or told different members different things; it names the
                member, or two of whom one at least did.
        """
        seeds = await self._reveal(wire)
        sums = [await self._tell_sums(wire, seeds, number) for number in range(len(self.lanes))]
        statements = Statements(self.held.round, self.signer, [each.public_key for each in self.openings])
        await self._agree(wire, statements, sums)
        found = await off_loop(_size_bytes(sums), _first_far_out, sums)
        if found is not None:
            await self._name(wire, statements, seeds, found)
        return [np.concatenate(told) for told in sums]

    async def _tell_sums(self, wire: RoundOperations, seeds: Sequence[bytes], number: int) -> list[Residues]:
        """The sums of each owner's block, by rank, from the owner itself."""
        lane, size = self.lanes[number], self.party.size
        mine = await self._unmasked(seeds, number, self.rank, lane.total)
        sizes = self._block_sizes(lane)
        return await wire.exchange(f"sums {number}", np.tile(mine, size), [len(mine)] * size, sizes)

    async def _agree(
        self, wire: RoundOperations, statements: Statements, sums: Sequence[Sequence[Residues]]
    ) -> None:
        """Raises SecureSumFailed if an owner has told two members different sums."""
        blocks = [[told[owner] for told in sums] for owner in range(self.party.size)]
        mine: list[bytes] = await off_loop(_size_bytes(sums), _digests, blocks)
        heard = await statements.declare(wire, "digests of sums", b"".join(mine))
        if heard.liars:
            await self._raise_liars(wire, heard.liars)
        width = len(mine[0])
        for owner, told in enumerate(heard.statements):
            at_owner = slice(owner * width, (owner + 1) * width)
            for rank, theirs in enumerate(heard.statements):
                if theirs[at_owner] != told[at_owner]:
                    why = "they say different things of the sums that one has told the other"
                    await self._raise_pair(wire, (min(owner, rank), max(owner, rank)), why)

    async def _name(
        self,
        wire: RoundOperations,
        statements: Statements,
        seeds: Sequence[bytes],
        found: _FarOut,
    ) -> None:
        """Raises SecureSumFailed for whoever gave garbage to that block. Called once for each round."""
        coins = await wire.tell_each("coins", [self.coin] * self.party.size)
        for rank, coin in enumerate(coins):
            if digest("coin", coin) != self.openings[rank].coin_digest:
                raise RemoteProtocolError(f"{wire.name(rank)} told coins that it was not committed to")
        trials = Trials.of(digest("coins", self.held.round + b"".join(coins)), found.places)
        first, _ = self.lanes[found.lane].blocks.bounds(found.owner)
        keys = [self_key(seed, rank, self.held.round, found.lane) for rank, seed in enumerate(seeds)]
        facts = TrialFacts(
            found.owner,
            trials.factors,
            found.sums[list(trials.places)],
            np.stack([at(key, [first + place for place in trials.places]) for key in keys]),
            np.stack([each.blinded for each in self.openings]),
        )
        mine = self._evidence(wire, found, trials)
        heard = await statements.declare(wire, "evidence", mine.to_wire())
        if heard.liars:
            await self._raise_liars(wire, heard.liars)
        evidence = [
            Evidence.from_wire(data, self.party.size, wire.name(rank))
            for rank, data in enumerate(heard.statements)
        ]
        verdict = facts.judge(evidence)
        if verdict is None:  # 2^-15.7; `decode` refuses the sum
            return
        if verdict.is_pair:
            why = "they say different things of what one has sent the other, or of a mask that they share"
            await self._raise_pair(wire, verdict.ranks, why)
        await self._raise(
            wire,
            f"{_listed(wire, verdict.ranks)} gave garbage to a secure sum: what it added is far beyond the "
            "limit, and no sum is made. No other member's value is shown. Ask it why, or open a group "
            "without it",
            verdict.ranks,
        )

    def _evidence(self, wire: RoundOperations, found: _FarOut, trials: Trials) -> Evidence:
        """What this member states of the trials."""
        lane, within = self.lanes[found.lane], list(trials.places)
        sent = np.zeros((self.party.size, naming.TRIALS), "<u8")
        if self.rank == found.owner:
            for rank, items in lane.received.items():
                sent[rank] = items[within]
        else:
            sent[self.rank] = lane.masked_block(found.owner)[within]
        first, _ = lane.blocks.bounds(found.owner)
        pairs = np.zeros_like(sent)
        blinding = self._pair_keys(wire, len(self.lanes))
        for other, key in self._pair_keys(wire, found.lane).items():
            masks = at(key, [first + place for place in within])
            pairs[other] = trials.factors * masks + at(blinding[other], range(naming.TRIALS))
        return Evidence(sent, pairs)

    # -- what is raised --------------------------------------------------------------------------------------

    async def _raise_liars(self, wire: RoundOperations, ranks: tuple[int, ...]) -> NoReturn:
        text = f"{_listed(wire, ranks)} has told members different things, and signed both: no sum is made"
        await self._raise(wire, text, ranks)

    async def _raise_pair(self, wire: RoundOperations, ranks: tuple[int, ...], why: str) -> NoReturn:
        text = f"{_listed(wire, ranks, 'or')} does not keep to the protocol: {why}. No sum is made"
        await self._raise(wire, text, ranks, is_pair=True)

    async def _raise(
        self, wire: RoundOperations, text: str, ranks: tuple[int, ...], *, is_pair: bool = False
    ) -> NoReturn:
        """Once all others know as much, or have been waited for: whoever raises first ends what runs."""
        with contextlib.suppress(DuetError, TimeoutError):
            async with asyncio.timeout(CLOSING_S):
                await wire.tell_each("end", [b"\0"] * self.party.size)
        raise SecureSumFailed(text, ranks=ranks, names=wire.flat.engine.names.alone(ranks), is_pair=is_pair)


def _size_bytes(sums: Sequence[Sequence[Residues]]) -> int:
    return sum(part.nbytes for told in sums for part in told)


def _first_far_out(sums: Sequence[Sequence[Residues]]) -> _FarOut | None:
    for lane, told in enumerate(sums):
        for owner, part in enumerate(told):
            if len(places := naming.far_out(part)):
                return _FarOut(lane, owner, part, places)
    return None


def _digests(blocks: Sequence[Sequence[Residues]]) -> list[bytes]:
    """Of what each owner has told, in all lanes."""
    found = []
    for parts in blocks:
        made = hashlib.sha256(b"duetlink/1 sums\0")
        for part in parts:
            made.update(part.data)
        found.append(made.digest())
    return found


def _listed(wire: RoundOperations, ranks: Sequence[int], word: str = "and") -> str:
    return f" {word} ".join(wire.name(rank) for rank in ranks)

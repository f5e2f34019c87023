"""A secure sum that names the member that gave garbage: a `MaskedRound` with additional steps.

    introduce, mask         as in `masked_round.py`
    openings  all to all    masked numbers, a commitment to coins, a public key (`naming.py`)
    commit, reveal          as there; digests cover the openings as well
    sums      all to all    each owner sends the sums of its block directly to everybody
    digests   stated        digests of all sums, by owner; if two differ, the owner and one other are named
    --- only if a sum is far beyond its range ---
    coins     all to all    the coins that each member was committed to
    evidence  stated        `Evidence`; all members draw the same conclusion (`TrialFacts.judge`)
    end       all to all    no member raises before all have the conclusion

The coins come after the sums. If they were derived from the seeds, which an owner knows before it sends its
sums, it could search for a false sum that passes all trials. A *stated* message is signed and forwarded
(`statements.py`). A round sends its evidence once: after a loss during these steps, the round is finished
without them, returns its sums, and names no member.
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

# The longest wait for the step "end": a member that is silent there delays the others' error by this.
CLOSING_S = 5.0


@dataclass(frozen=True, slots=True)
class _FarOut:
    """A block with sums that are far beyond their range."""

    number: int  # of the array
    owner: int
    sums: Residues  # all sums of the block
    places: NDArray[np.intp]  # positions of the sums far beyond the range, within the block


@dataclass
class AccountableRound(MaskedRound):
    """One attempt of one member, with arrays of 64-bit residues."""

    keeps_received: ClassVar[bool] = True

    openings: list[MaskStatement] = field(default_factory=list)
    coin: bytes = field(default_factory=lambda: secrets.token_bytes(naming.COIN_BYTES))
    signer: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)

    async def mask(self, wire: RoundOperations, arrays: Sequence[Residues]) -> None:
        """Mask the arrays in place, send each member the items of its block, and exchange openings.

        Raises:
            RemoteProtocolError: a member's opening is malformed; the text names the member.
        """
        await super().mask(wire, arrays)
        blinded = naming.blinds(self.participants.size)
        mask(blinded, *self._signed(self._pair_keys(wire, len(self.arrays))))
        public_key = self.signer.public_key().public_bytes_raw()
        mine = MaskStatement(public_key, digest("coin", self.coin), blinded).to_wire()
        received = await wire.send_each("openings", [mine] * self.participants.size)
        self.openings = [MaskStatement.from_wire(data, wire.name(rank)) for rank, data in enumerate(received)]

    def _public_digests(self) -> list[bytes]:
        return [
            digest("opening", one + other.to_wire())
            for one, other in zip(super()._public_digests(), self.openings, strict=True)
        ]

    async def open(self, wire: RoundOperations) -> list[Residues]:
        """Reveal this member's seed, and return the sums over all members, which are equal at all of them.

        Raises:
            RemoteProtocolError: a member's seed or coins do not fit its commitment, or it has not signed a
                statement; the text names the member.
            SecureSumFailed: a member gave garbage, or sent different members different statements; the error
                names the member, or two members of which at least one did.
        """
        seeds = await self._reveal(wire)
        sums = [await self._exchange_sums(wire, seeds, number) for number in range(len(self.arrays))]
        statements = Statements(self.held.round, self.signer, [each.public_key for each in self.openings])
        await self._agree(wire, statements, sums)
        found = await off_loop(_size_bytes(sums), _first_far_out, sums)
        if found is not None:
            await self._name(wire, statements, seeds, found)
        return [np.concatenate(received) for received in sums]

    async def _exchange_sums(
        self, wire: RoundOperations, seeds: Sequence[bytes], number: int
    ) -> list[Residues]:
        """Exchange the sums of one array: each owner sends those of its block. Returns them by owner."""
        array, size = self.arrays[number], self.participants.size
        mine = await self._unmasked(seeds, number, self.rank, array.total)
        sizes = self._block_sizes(array)
        return await wire.exchange(f"sums {number}", np.tile(mine, size), [len(mine)] * size, sizes)

    async def _agree(
        self, wire: RoundOperations, statements: Statements, sums: Sequence[Sequence[Residues]]
    ) -> None:
        """Raise SecureSumFailed if an owner has sent two members different sums."""
        blocks = [[received[owner] for received in sums] for owner in range(self.participants.size)]
        mine: list[bytes] = await off_loop(_size_bytes(sums), _digests, blocks)
        declared = await statements.declare(wire, "digests of sums", b"".join(mine))
        if declared.liars:
            await self._raise_liars(wire, declared.liars)
        width = len(mine[0])
        for owner, received in enumerate(declared.statements):
            at_owner = slice(owner * width, (owner + 1) * width)
            for rank, theirs in enumerate(declared.statements):
                if theirs[at_owner] != received[at_owner]:
                    why = "they state different sums that one has sent to the other"
                    await self._raise_pair(wire, (min(owner, rank), max(owner, rank)), why)

    async def _name(
        self,
        wire: RoundOperations,
        statements: Statements,
        seeds: Sequence[bytes],
        found: _FarOut,
    ) -> None:
        """Raise SecureSumFailed naming the member that gave garbage to that block. Called once a round."""
        coins = await wire.send_each("coins", [self.coin] * self.participants.size)
        for rank, coin in enumerate(coins):
            if digest("coin", coin) != self.openings[rank].coin_digest:
                raise RemoteProtocolError(f"{wire.name(rank)} sent coins that it was not committed to")
        trials = Trials.of(digest("coins", self.held.round + b"".join(coins)), found.places)
        first, _ = self.arrays[found.number].blocks.bounds(found.owner)
        keys = [self_key(seed, rank, self.held.round, found.number) for rank, seed in enumerate(seeds)]
        facts = TrialFacts(
            found.owner,
            trials.factors,
            found.sums[list(trials.places)],
            np.stack([at(key, [first + place for place in trials.places]) for key in keys]),
            np.stack([each.blinded for each in self.openings]),
        )
        mine = self._evidence(wire, found, trials)
        declared = await statements.declare(wire, "evidence", mine.to_wire())
        if declared.liars:
            await self._raise_liars(wire, declared.liars)
        evidence = [
            Evidence.from_wire(data, self.participants.size, wire.name(rank))
            for rank, data in enumerate(declared.statements)
        ]
        verdict = facts.judge(evidence)
        if verdict is None:  # probability 2^-15.7 or less; then `Range.decode` raises SecureSumFailed
            return
        if verdict.is_pair:
            why = "they state different items that one has sent to the other, or different shared masks"
            await self._raise_pair(wire, verdict.ranks, why)
        await self._raise(
            wire,
            f"{_listed(wire, verdict.ranks)} gave garbage to a secure sum: its value is far beyond the "
            "limit, and no sum is made. No other member's value is revealed. Ask it why, or open a group "
            "without it",
            verdict.ranks,
        )

    def _evidence(self, wire: RoundOperations, found: _FarOut, trials: Trials) -> Evidence:
        array, within = self.arrays[found.number], list(trials.places)
        sent = np.zeros((self.participants.size, naming.TRIALS), "<u8")
        if self.rank == found.owner:
            for rank, items in array.received.items():
                sent[rank] = items[within]
        else:
            sent[self.rank] = array.masked_block(found.owner)[within]
        first, _ = array.blocks.bounds(found.owner)
        pairs = np.zeros_like(sent)
        blinding = self._pair_keys(wire, len(self.arrays))
        for other, key in self._pair_keys(wire, found.number).items():
            masks = at(key, [first + place for place in within])
            pairs[other] = trials.factors * masks + at(blinding[other], range(naming.TRIALS))
        return Evidence(sent, pairs)

    # -- what is raised --------------------------------------------------------------------------------------

    async def _raise_liars(self, wire: RoundOperations, ranks: tuple[int, ...]) -> NoReturn:
        text = f"{_listed(wire, ranks)} has sent members different signed statements: no sum is made"
        await self._raise(wire, text, ranks)

    async def _raise_pair(self, wire: RoundOperations, ranks: tuple[int, ...], why: str) -> NoReturn:
        text = f"{_listed(wire, ranks, 'or')} does not keep to the protocol: {why}. No sum is made"
        await self._raise(wire, text, ranks, is_pair=True)

    async def _raise(
        self, wire: RoundOperations, text: str, ranks: tuple[int, ...], *, is_pair: bool = False
    ) -> NoReturn:
        """Raise SecureSumFailed after every member has the conclusion, or after `CLOSING_S`.

        The first member that raises ends the operation at all others, so it must not raise before them.
        """
        with contextlib.suppress(DuetError, TimeoutError):
            async with asyncio.timeout(CLOSING_S):
                await wire.send_each("end", [b"\0"] * self.participants.size)
        raise SecureSumFailed(text, ranks=ranks, names=wire.flat.engine.names.alone(ranks), is_pair=is_pair)


def _size_bytes(sums: Sequence[Sequence[Residues]]) -> int:
    return sum(part.nbytes for received in sums for part in received)


def _first_far_out(sums: Sequence[Sequence[Residues]]) -> _FarOut | None:
    for number, received in enumerate(sums):
        for owner, part in enumerate(received):
            if len(places := naming.far_out(part)):
                return _FarOut(number, owner, part, places)
    return None


def _digests(blocks: Sequence[Sequence[Residues]]) -> list[bytes]:
    """Return a digest of the sums of each owner, over all arrays."""
    found = []
    for parts in blocks:
        made = hashlib.sha256(b"duetlink/1 sums\0")
        for part in parts:
            made.update(part.data)
        found.append(made.digest())
    return found


def _listed(wire: RoundOperations, ranks: Sequence[int], word: str = "and") -> str:
    return f" {word} ".join(wire.name(rank) for rank in ranks)

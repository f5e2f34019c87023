"""Finds the member that gave garbage to a secure sum which is far beyond its range. Pure.

Theory. A secure sum with identifiable abort (Ishai, Ostrovsky and Zikas, "Secure multi-party computation with
identifiable abort", 2014) does not need a range proof for each item. It is enough to reveal a random multiple
of one item plus a much larger random number ("smudging": Asharov et al., "Multiparty computation with low
communication, computation and interaction via threshold FHE", 2012, lemma 1): this shows if the item is huge,
and almost nothing else.

An item of an honest member is at most 2^(32-h) steps, where h = ceil(log2 members). Before masks are opened,
each member sends all others the same 16 masked numbers e, drawn from ±2^(61-h). After the sums are known, and
if one of them is 2^55 steps or more, coins that no member knew before choose 16 trials. Each trial has a
position k and a factor r from 1 to 255. For each trial, both members of each pair state r * mask(k) +
mask(e), and the owner of the block states the masked items that it has received at k. Self-masks are open by
then. So every member can compute, for each member,

    z = r * x(k) + e    modulo 2^64; for an honest member |z| <= 255 * 2^(32-h) + 2^(61-h).

*No honest member is named.* Each part of z was stated by two members, and z is used only if both statements
are equal: to be convicted, an honest member would have to state it itself. If two statements differ, one of
the two members lies, and both are named.

*What it reveals.* 16 numbers z of each honest member. Each is within a statistical distance of
255 * 2^(32-h) / 2^(62-h) < 2^-22 of a number that does not depend on its values; all 16 together within
2^-18. A pair's mask at a position stays unknown: only its combination with another mask, which is used
nowhere else, is stated.

*What it misses.* Garbage that leaves the sum within ±2^55 steps is detected (honest members reach at most
2^32), but no member is named for it, since a trial would reveal more of honest members. For larger garbage,
the colluding members have added X of at least 2^55 steps in total, divided among them in any way. They pass a
trial if r * X falls into an arc of a quarter of the ring, whose position they have chosen before. At most 129
of the 255 factors do that, so they pass all 16 trials with a probability of at most (129 / 255)^16 =
2^-15.7. A single random item is within ±2^55, where no member is named, with a probability of 2^-8.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duetlink.errors import RemoteProtocolError
from duetlink.groups.secure.introduction import DIGEST_BYTES
from duetlink.groups.secure.keystream import Residues
from duetlink.groups.secure.statements import PUBLIC_KEY_BYTES

TRIALS = 16
MOST_FACTOR = 255
FAR_STEPS = 2**55
SUM_BITS = 32  # the sum of all honest members' items is at most 2^32 steps in magnitude
_BLIND_SUM_BITS = 61
COIN_BYTES = 32
_ITEM_BYTES = 8


def most_blind(members: int) -> int:
    """Return the largest magnitude of a member's numbers e."""
    return 1 << (_BLIND_SUM_BITS - _headroom(members))


def most_revealed(members: int) -> int:
    """Return the largest magnitude of an honest member's z.

    Its items count twice, as a margin for noise and rounding.
    """
    return 2 * MOST_FACTOR * (1 << (SUM_BITS - _headroom(members))) + most_blind(members)


def blinds(members: int) -> Residues:
    """Draw this member's 16 numbers e, uniform in ±`most_blind`, from the system's random source."""
    most = most_blind(members)
    words = np.frombuffer(secrets.token_bytes(TRIALS * _ITEM_BYTES), "<u8")
    return np.asarray((words & np.uint64(2 * most - 1)) - np.uint64(most))


def far_out(sums: Residues) -> NDArray[np.intp]:
    """Return the positions at which a sum is 2^55 steps or more, so that a member can be named for it."""
    signed = sums.view("<i8")
    return np.flatnonzero((signed >= FAR_STEPS) | (signed <= -FAR_STEPS))


@dataclass(frozen=True, slots=True)
class MaskStatement:
    """A member's message to all others before masks are opened."""

    public_key: bytes  # Ed25519, made for this sum
    coin_digest: bytes  # commitment to its part of the coins
    blinded: Residues  # its 16 numbers e under its pair masks

    @staticmethod
    def size_bytes() -> int:
        return PUBLIC_KEY_BYTES + DIGEST_BYTES + TRIALS * _ITEM_BYTES

    def to_wire(self) -> bytes:
        return self.public_key + self.coin_digest + self.blinded.tobytes()

    @classmethod
    def from_wire(cls, data: bytes, of: str) -> MaskStatement:
        """Parse the message. Raises RemoteProtocolError, naming the sender `of`, if its size is wrong."""
        if len(data) != cls.size_bytes():
            raise RemoteProtocolError(f"{of} sent {len(data)} bytes in place of {cls.size_bytes()}")
        end = PUBLIC_KEY_BYTES + DIGEST_BYTES
        blinded = np.frombuffer(data[end:], "<u8")
        return cls(data[:PUBLIC_KEY_BYTES], data[PUBLIC_KEY_BYTES:end], blinded)


@dataclass(frozen=True, slots=True)
class Trials:
    """The 16 trials that all members perform."""

    places: tuple[int, ...]  # positions k, within the block of the far-out sums
    factors: Residues  # factors r, from 1 to 255

    @classmethod
    def of(cls, coins: bytes, candidates: NDArray[np.intp]) -> Trials:
        """Choose 16 trials among the candidate positions, by the coins of all members."""
        words = np.frombuffer(hashlib.shake_256(coins).digest(2 * TRIALS * _ITEM_BYTES), "<u8")
        places = tuple(int(candidates[int(word) % len(candidates)]) for word in words[:TRIALS])
        return cls(places, np.asarray(words[TRIALS:] % np.uint64(MOST_FACTOR) + np.uint64(1)))


@dataclass(frozen=True, slots=True)
class Evidence:
    """One member's statement about the trials: two arrays of shape (members, 16).

    Attributes:
        sent: by rank, the masked items sent to the block's owner. A member fills in its own row; the owner
            fills in the rows of all others.
        pairs: by the other member's rank, the combination r * mask(k) + mask(e) of the pair's masks.
    """

    sent: Residues
    pairs: Residues

    @staticmethod
    def size_bytes(members: int) -> int:
        return 2 * members * TRIALS * _ITEM_BYTES

    def to_wire(self) -> bytes:
        return self.sent.tobytes() + self.pairs.tobytes()

    @classmethod
    def from_wire(cls, data: bytes, members: int, of: str) -> Evidence:
        """Parse the statement. Raises RemoteProtocolError, naming the sender `of`, if its size is wrong."""
        if len(data) != cls.size_bytes(members):
            raise RemoteProtocolError(f"{of} stated {len(data)} bytes in place of {cls.size_bytes(members)}")
        sent, pairs = np.frombuffer(data, "<u8").reshape(2, members, TRIALS)
        return cls(sent, pairs)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The ranks that gave garbage; or, with `is_pair`, two ranks of which at least one lies."""

    ranks: tuple[int, ...]
    is_pair: bool


@dataclass(frozen=True, slots=True)
class TrialFacts:
    """The data about the trials that all members have before they make statements.

    Attributes:
        owner: rank of the owner of the block in which all positions are.
        factors: 16, one for each trial.
        totals: 16 sums at the positions, as the owner sent them.
        self_masks: (members, 16), the self-masks at the positions.
        blinded: (members, 16), the numbers e under pair masks.
    """

    owner: int
    factors: Residues
    totals: Residues
    self_masks: Residues
    blinded: Residues

    def judge(self, evidence: Sequence[Evidence]) -> Verdict | None:
        """Decide from the statements of all members, by rank. None if every member passed all trials."""
        members = range(len(evidence))
        pairs = self._pairs_at_odds(evidence)
        doubted = {rank for pair in pairs for rank in pair}
        found = tuple(i for i in members if i not in doubted and not self._is_honest(evidence, i))
        if found:
            return Verdict(found, is_pair=False)
        return Verdict(min(pairs), is_pair=True) if pairs else None

    def _pairs_at_odds(self, evidence: Sequence[Evidence]) -> set[tuple[int, int]]:
        found = set()
        for i, mine in enumerate(evidence):
            for j in range(i):
                if not np.array_equal(mine.pairs[j], evidence[j].pairs[i]):
                    found.add((j, i))
            if i != self.owner and not np.array_equal(mine.sent[i], evidence[self.owner].sent[i]):
                found.add((min(i, self.owner), max(i, self.owner)))
        return found

    def _is_honest(self, evidence: Sequence[Evidence], rank: int) -> bool:
        z = self.factors * (self._sent(evidence, rank) - self.self_masks[rank]) + self.blinded[rank]
        for other, numbers in enumerate(evidence[rank].pairs):
            if other > rank:  # the lower rank of a pair adds its mask
                z = z - numbers
            elif other < rank:
                z = z + numbers
        signed, most = z.view("<i8"), most_revealed(len(evidence))
        return bool(np.all((signed >= -most) & (signed <= most)))

    def _sent(self, evidence: Sequence[Evidence], rank: int) -> Residues:
        """Return the masked items of a member at the positions.

        The owner's own items are computed from the sums that it sent.
        """
        stated = evidence[rank].sent
        mine: Residues = stated[rank]
        if rank == self.owner:
            mine = self.totals + self.self_masks.sum(axis=0) - (stated.sum(axis=0) - mine)
        return mine


def _headroom(members: int) -> int:
    """Return h = ceil(log2 members)."""
    return (members - 1).bit_length()

"""Who gave garbage to a sum that is far beyond its range: what is told for it, and what follows. Pure.

Theory. A secure sum with identifiable abort (Ishai, Ostrovsky and Zikas, "Secure multi-party computation with
identifiable abort", 2014) needs no proof of range for each item: a random multiple of one item, added to a
number that drowns it ("smudging": Asharov et al., "Multiparty computation with low communication,
computation and interaction via threshold FHE", 2012, lemma 1), shows whether the item is huge, and next to
nothing else.

An item of an honest member is at most 2^(32-h) steps, where h = ceil(log2 members). Before masks are opened,
each member has told all others the same 16 masked numbers e, drawn from ±2^(61-h). When all sums are told and
one of them is 2^55 steps or more, coins that nobody knew before choose 16 trials: each a place k and a factor
r from 1 to 255. For each trial, both members of each pair tell r * mask(k) + mask(e), and the owner of the
block tells what it has received at k; self-masks are open by then. So everybody knows, for each member,

    z = r * x(k) + e    modulo 2^64, and of an honest one |z| <= 255 * 2^(32-h) + 2^(61-h).

*Nobody honest is named.* All that z is made of has been told by two members, and z is used only if both told
the same: to be convicted, an honest member would have to have told it itself. Where two members tell
different things, one of the two lies, and both are named.

*What it shows.* Of an honest member 16 numbers z. Each is within a statistical distance of
255 * 2^(32-h) / 2^(62-h) < 2^-22 of one that does not depend on its values; all 16 within 2^-18. A pair's
mask at a place stays unknown: only its combination with another one, which is used nowhere else, is told.

*What escapes.* Garbage that leaves the sum within ±2^55 steps is found (2^32 is the most that honest members
reach), and nobody is named for it, since a trial for it would show more. Beyond, the members that collude
have added X of at least 2^55 steps in all, and may share it out among themselves. They pass a trial if r * X
falls into an arc of a quarter of the ring, whose place they have chosen before: with at most 129 of the 255
factors, so all 16 trials with a probability of at most (129 / 255)^16 = 2^-15.7. A single random item lies
within ±2^55, where nobody is named for it, with a probability of 2^-8.
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
SUM_BITS = 32  # the sum of all honest members' items is at most 2^32 steps
_BLIND_SUM_BITS = 61
COIN_BYTES = 32
_ITEM_BYTES = 8


def most_blind(members: int) -> int:
    """How far each number e is from 0 at most: no member's is larger."""
    return 1 << (_BLIND_SUM_BITS - _headroom(members))


def most_told(members: int) -> int:
    """How far z of an honest member is from 0 at most; its item doubled, for what noise and rounding add."""
    return 2 * MOST_FACTOR * (1 << (SUM_BITS - _headroom(members))) + most_blind(members)


def blinds(members: int) -> Residues:
    """This member's 16 numbers e, uniform in ±`most_blind`, by the operating system's random source."""
    most = most_blind(members)
    words = np.frombuffer(secrets.token_bytes(TRIALS * _ITEM_BYTES), "<u8")
    return np.asarray((words & np.uint64(2 * most - 1)) - np.uint64(most))


def far_out(sums: Residues) -> NDArray[np.intp]:
    """The places where a sum is so far beyond its range that somebody can be named."""
    signed = sums.view("<i8")
    return np.flatnonzero((signed >= FAR_STEPS) | (signed <= -FAR_STEPS))


@dataclass(frozen=True, slots=True)
class MaskStatement:
    """What each member tells all others alike before masks are opened."""

    public_key: bytes  # Ed25519, made for this sum
    coin_digest: bytes  # commits it to its part of the coins
    blinded: Residues  # its 16 numbers e under the masks of its pairs

    @staticmethod
    def size_bytes() -> int:
        return PUBLIC_KEY_BYTES + DIGEST_BYTES + TRIALS * _ITEM_BYTES

    def to_wire(self) -> bytes:
        return self.public_key + self.coin_digest + self.blinded.tobytes()

    @classmethod
    def from_wire(cls, data: bytes, of: str) -> MaskStatement:
        """`of` names the sender. Raises RemoteProtocolError."""
        if len(data) != cls.size_bytes():
            raise RemoteProtocolError(f"{of} told {len(data)} bytes in place of {cls.size_bytes()}")
        end = PUBLIC_KEY_BYTES + DIGEST_BYTES
        blinded = np.frombuffer(data[end:], "<u8")
        return cls(data[:PUBLIC_KEY_BYTES], data[PUBLIC_KEY_BYTES:end], blinded)


@dataclass(frozen=True, slots=True)
class Trials:
    """What all try together."""

    places: tuple[int, ...]  # of the lane
    factors: Residues

    @classmethod
    def of(cls, coins: bytes, candidates: NDArray[np.intp]) -> Trials:
        """16 trials of some of the candidates, which nobody has chosen who did not know all coins."""
        words = np.frombuffer(hashlib.shake_256(coins).digest(2 * TRIALS * _ITEM_BYTES), "<u8")
        places = tuple(int(candidates[int(word) % len(candidates)]) for word in words[:TRIALS])
        return cls(places, np.asarray(words[TRIALS:] % np.uint64(MOST_FACTOR) + np.uint64(1)))


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one member states of the trials: two arrays of members x 16 residues."""

    sent: Residues  # by rank, what each has sent to the block's owner: its own; the owner states all others'
    pairs: Residues  # by the other one's rank, a combination of the masks that the two share

    @staticmethod
    def size_bytes(members: int) -> int:
        return 2 * members * TRIALS * _ITEM_BYTES

    def to_wire(self) -> bytes:
        return self.sent.tobytes() + self.pairs.tobytes()

    @classmethod
    def from_wire(cls, data: bytes, members: int, of: str) -> Evidence:
        """`of` names the sender. Raises RemoteProtocolError."""
        if len(data) != cls.size_bytes(members):
            raise RemoteProtocolError(f"{of} stated {len(data)} bytes in place of {cls.size_bytes(members)}")
        sent, pairs = np.frombuffer(data, "<u8").reshape(2, members, TRIALS)
        return cls(sent, pairs)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Those who gave garbage; or a pair of members of whom one at least lies."""

    ranks: tuple[int, ...]
    is_pair: bool


@dataclass(frozen=True, slots=True)
class TrialFacts:
    """What all know of the trials before anything is stated.

    Attributes:
        owner: of the block that all places are in.
        factors: 16, one for each trial.
        totals: the sums at the places, as the owner told them.
        self_masks: members x 16, at the places.
        blinded: members x 16, the numbers e under the masks of pairs.
    """

    owner: int
    factors: Residues
    totals: Residues
    self_masks: Residues
    blinded: Residues

    def judge(self, evidence: Sequence[Evidence]) -> Verdict | None:
        """What follows from what all have stated, by rank. None: nobody failed a trial."""
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
        signed, most = z.view("<i8"), most_told(len(evidence))
        return bool(np.all((signed >= -most) & (signed <= most)))

    def _sent(self, evidence: Sequence[Evidence], rank: int) -> Residues:
        """At the places, under masks. What the owner has given follows from the sums that it told."""
        stated = evidence[rank].sent
        mine: Residues = stated[rank]
        if rank == self.owner:
            mine = self.totals + self.self_masks.sum(axis=0) - (stated.sum(axis=0) - mine)
        return mine


def _headroom(members: int) -> int:
    """h = ceil(log2 members)."""
    return (members - 1).bit_length()

"""The step that chooses the rows to train with: a keyed hash in arithmetic that every engine has.

Theory. No hash function is the same on all engines, but the remainders of products of 64-bit integers are. x
-> (x + k)**3 is a permutation of the numbers below a prime P if 3 does not divide P - 1, and a few rounds of
it with other keys are a cipher (MiMC: Albrecht et al., ASIACRYPT 2016), made for fields of this kind. With P
below 2**31 no product exceeds 63 bits. The round keys come from the seed by SHA-256. It is not meant to be
secret: anybody with the seed knows the chosen rows, as with any seed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from duetlink.data.prep.base import Step
from duetlink.data.prep.checks import column_name, finite, settle
from duetlink.data.prep.fields import INTEGERS, Field, Fields, typed_field
from duetlink.errors import PrepError, SettingError

if TYPE_CHECKING:
    from duetlink.data.prep.work import Work

MAX_SEED = 2**63 - 1

_PRIME = 2_147_483_579  # both below 2**31, both 2 modulo 3
_SECOND = 2_147_483_549
_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Split(Step):
    """Add the column `train`: true for about that share of the rows, chosen by a hash of `by` and the seed.

    `by` names a column of integers; empty: the row's number in its source, which must keep its order.
    """

    train: float
    seed: int
    by: str = ""
    name: ClassVar[str] = "split"

    def __post_init__(self) -> None:
        share = finite(self.train, "train")
        if not 0 < share < 1:
            raise SettingError(f"train is the share of rows to train with, between 0 and 1, not {share!r}")
        settle(self, "train", float(share))
        if type(self.seed) is not int or not 0 <= self.seed <= MAX_SEED:
            raise SettingError(f"a seed is a whole number from 0 to {MAX_SEED}")
        if self.by != "":
            column_name(self.by)

    def reads(self, fields: Fields) -> Iterable[str]:
        return (self.by,) if self.by else ()

    @property
    def row_stable(self) -> bool:
        # without `by`, an additional row at the beginning renumbers all others
        return self.by != ""

    def after(self, fields: Fields, where: str) -> dict[str, Field]:
        """Check `by`. The column `train` is added after all steps, so it is not in the result."""
        for name in self.reads(fields):
            typed_field(fields, name, INTEGERS, self.name, where)
        return dict(fields)

    def lower(self, work: Work) -> None:
        import narwhals as nw

        if not self.by and not work.row:
            raise PrepError(
                f"the rows of {work.where} have no order, by which split could tell them apart: "
                "give by=, a column of whole numbers such as an id",
                file=work.where,
            )
        key = work.column(self.by) if self.by else work.row_number
        mixed = _mixed(key.cast(nw.Int64).fill_null(0), self.seed, work.settled)
        work.train(mixed < int(self.train * _PRIME))

    def arguments(self) -> list[str]:
        return [f"train={self.train!r}", f"seed={self.seed}", *([f"by={self.by!a}"] if self.by else [])]


def _mixed(key: Any, seed: int, settled: Callable[[Any], Any]) -> Any:
    """Return a number below _PRIME for each 64-bit key.

    `settled` stores an intermediate result as a column, so that it can be used several times.
    """
    digest = hashlib.sha256(b"duetlink split 1 %d" % seed).digest()
    keys = [int.from_bytes(digest[place : place + 6]) % _PRIME for place in range(0, 6 * _ROUNDS, 6)]
    low, high = settled(_positive(key, _PRIME)), settled(_positive(key, _SECOND))
    state = low
    for number, round_key in enumerate(keys):
        state = settled((state + round_key + (high if number == 1 else 0)) % _PRIME)
        state = settled(state * state % _PRIME * state % _PRIME)
    return state


def _positive(key: Any, prime: int) -> Any:
    # the remainder of a negative number is negative in SQL and positive in Python
    return (key % prime + prime) % prime

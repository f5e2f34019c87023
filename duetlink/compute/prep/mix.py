"""Which rows a split trains with: a keyed hash in arithmetic that every engine has.

Theory. No hash function is the same on all engines, but the remainders of products of 64-bit integers are.
x -> (x + k)**3 is a permutation of the numbers below a prime P where 3 does not divide P - 1, and a few
rounds of it with other keys are a cipher (MiMC: Albrecht et al., ASIACRYPT 2016), made for fields of this
kind. With P below 2**31 no product leaves 63 bits. The round keys come from the seed by SHA-256. It is not
meant to be secret: who knows the seed knows which rows were chosen, as with any seed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

PRIME = 2_147_483_579  # both below 2**31, both 2 modulo 3
_SECOND = 2_147_483_549
_ROUNDS = 5


def keys(seed: int) -> list[int]:
    """One key below PRIME for each round."""
    found = hashlib.sha256(b"duetlink split 1 %d" % seed).digest()
    return [int.from_bytes(found[place : place + 6]) % PRIME for place in range(0, 6 * _ROUNDS, 6)]


def mixed(key: Any, seed: int, settle: Callable[[Any], Any]) -> Any:
    """A number below PRIME for each 64-bit key, by `+`, `*` and `%` of expressions, arrays or numbers.

    `settle` names an intermediate result: what it returns is used several times.
    """
    low, high = settle(_positive(key, PRIME)), settle(_positive(key, _SECOND))
    state = low
    for number, round_key in enumerate(keys(seed)):
        state = settle((state + round_key + (high if number == 1 else 0)) % PRIME)
        state = settle(state * state % PRIME * state % PRIME)
    return state


def threshold(share: float) -> int:
    """A row is trained with if its number is below this."""
    return int(share * PRIME)


def _positive(key: Any, prime: int) -> Any:
    # of a negative number the remainder is negative in SQL, and positive in Python
    return (key % prime + prime) % prime

"""Unpredictable random numbers, for noise and for the choice of rows.

A generator for simulations (Mersenne Twister, PCG64, Philox) can be reconstructed from some of its output.
Anybody who sees the noise of one step could then remove the noise of all others.
"""

from __future__ import annotations

import os
import secrets

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

_BELOW_ONE = 2.0**-53


class RandomWords:
    """AES-256 in counter mode, with a key from the operating system that is kept nowhere else."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        cipher = Cipher(algorithms.AES(secrets.token_bytes(32)), modes.CTR(bytes(16)))
        self._encryptor, self._process = cipher.encryptor(), os.getpid()

    def words(self, count: int) -> npt.NDArray[np.uint64]:
        """Return `count` times 64 random bits."""
        self._check_process()
        return np.frombuffer(self._encryptor.update(bytes(8 * count)), np.uint64)

    def _check_process(self) -> None:
        """Begin anew after a fork, which has its parent's key and would draw the same words."""
        if os.getpid() != self._process:
            self._begin()

    def uniform(self, count: int) -> npt.NDArray[np.float64]:
        """Return `count` numbers from the open interval (0, 1), on a grid of 2^-53."""
        found = (self.words(count) >> np.uint64(11)).astype(np.float64)
        found += 0.5
        found *= _BELOW_ONE
        return found

"""Random numbers that nobody can foretell: for noise and for who is drawn into a batch.

A generator for simulations (Mersenne Twister, Philox) can be run backwards from some of what it has given.
Whoever sees the noise of one step could then take the noise off all others.
"""

from __future__ import annotations

import os
import secrets

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

_BELOW_ONE = 2.0**-53


class Keystream:
    """AES-256 in counter mode, with a key from the operating system that is kept nowhere else."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        cipher = Cipher(algorithms.AES(secrets.token_bytes(32)), modes.CTR(bytes(16)))
        self._encryptor, self._process = cipher.encryptor(), os.getpid()

    def uniform(self, count: int) -> npt.NDArray[np.float64]:
        """`count` numbers from the open interval (0, 1), on a grid of 2^-53."""
        if os.getpid() != self._process:  # a fork has its parent's key, and would have the same noise
            self._begin()
        words = np.frombuffer(self._encryptor.update(bytes(8 * count)), np.uint64)
        return ((words >> np.uint64(11)).astype(np.float64) + 0.5) * _BELOW_ONE

    def normal(self, count: int) -> npt.NDArray[np.float64]:
        """`count` numbers of the standard normal distribution.

        Each is the sum of four draws, halved: the last bits of a single draw would tell which floating point
        numbers it can have been added to (Mironov 2012; Holohan and Braghin, "Secure Random Sampling in
        Differential Privacy", 2021, section 3).
        """
        draws = 4 * count
        half = (draws + 1) // 2
        radius = np.sqrt(-2.0 * np.log(self.uniform(half)))
        angle = 2.0 * np.pi * self.uniform(half)
        pairs = np.concatenate((radius * np.cos(angle), radius * np.sin(angle)))[
            :draws
        ]  # Box and Muller 1958
        return np.asarray(pairs.reshape(4, count).sum(axis=0) / 2.0)

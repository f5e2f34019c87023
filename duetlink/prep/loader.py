"""Batches for training: in order, shuffled, or by Poisson sampling, which differential privacy needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duetlink.base.chance.poisson import poisson_sample
from duetlink.base.chance.words import RandomWords
from duetlink.errors import SettingError


class Loader:
    """An iterable over batches of tensors. Each iteration is one pass over the rows.

    Loader(data, labels, 256)                 in order; the last batch may be shorter
    Loader(data, labels, 256, shuffle=seed)   in a new order for each pass; the seed determines all of them
    Loader(data, labels, poisson=q)           each row is in each batch with probability q, independently

    With Poisson sampling the batches have different sizes, even 0, and there are `steps` of them (None: 1/q,
    rounded up). This is the sampling that the privacy accountants of DP-SGD assume (Abadi et al., CCS 2016).
    Its random numbers are unpredictable (AES-256 with a key from the system), since they reveal which rows
    were sampled. A `seed` makes them predictable, for tests only.

    A batch is `data`, or `(data, labels)` if there are labels: tensors of torch. Integer labels are int64.
    Batches in order are views of the matrix; others are copies.

    Raises:
        SettingError: the arguments do not fit each other.
    """

    def __init__(
        self,
        data: NDArray[Any],
        labels: NDArray[Any] | None = None,
        batch: int | None = None,
        *,
        shuffle: int | None = None,
        poisson: float | None = None,
        steps: int | None = None,
        seed: int | None = None,
    ) -> None:
        import torch

        if labels is not None and len(labels) != len(data):
            raise SettingError(f"there are {len(data):,} rows and {len(labels):,} labels")
        if (batch is None) is (poisson is None):
            raise SettingError("a loader takes either a number of rows, loader(256), or loader(poisson=0.01)")
        if batch is not None and (type(batch) is not int or batch < 1):
            raise SettingError(f"a batch has 1 row or more, not {batch!r}")
        if poisson is not None and not 0 < poisson <= 1:
            raise SettingError(f"the probability of a row is over 0 and at most 1, not {poisson!r}")
        if poisson is not None and shuffle is not None:
            raise SettingError("with poisson= the rows of a batch are drawn anyway: leave shuffle= out")
        if poisson is None and (steps is not None or seed is not None):
            raise SettingError("steps= and seed= are for poisson=; the seed of a shuffle is shuffle=seed")
        if steps is not None and (type(steps) is not int or steps < 1):
            raise SettingError(f"there is 1 step or more, not {steps!r}")
        self.data = torch.from_numpy(data)
        self.labels = None if labels is None else _tensor(labels)
        self._batch = batch
        self._shuffle = shuffle
        self._poisson = poisson
        self._steps = steps
        self._seed = seed
        self._epoch = 0

    def __len__(self) -> int:
        if self._poisson is not None:
            return self._steps if self._steps is not None else math.ceil(1 / self._poisson)
        assert self._batch is not None
        return math.ceil(len(self.data) / self._batch)

    def __iter__(self) -> Iterator[Any]:
        epoch, self._epoch = self._epoch, self._epoch + 1
        if self._poisson is not None:
            return self._sampled(epoch)
        return self._in_order() if self._shuffle is None else self._shuffled(epoch)

    def _in_order(self) -> Iterator[Any]:
        size = self._batch or 1
        for start in range(0, len(self.data), size):
            rows = slice(start, start + size)
            yield self.data[rows] if self.labels is None else (self.data[rows], self.labels[rows])

    def _shuffled(self, epoch: int) -> Iterator[Any]:
        size = self._batch or 1
        order = np.random.default_rng([self._shuffle or 0, epoch]).permutation(len(self.data))
        for start in range(0, len(order), size):
            yield self._rows(order[start : start + size])

    def _sampled(self, epoch: int) -> Iterator[Any]:
        assert self._poisson is not None
        uniform = RandomWords().uniform if self._seed is None else _seeded([self._seed, epoch])
        for _ in range(len(self)):
            yield self._rows(poisson_sample(len(self.data), self._poisson, uniform))

    def _rows(self, chosen: NDArray[np.int64]) -> Any:
        import torch

        index = torch.from_numpy(chosen)
        rows = self.data.index_select(0, index)
        return rows if self.labels is None else (rows, self.labels.index_select(0, index))


def _seeded(seed: list[int]) -> Callable[[int], NDArray[np.float64]]:
    draw = np.random.default_rng(seed)
    return lambda count: 1.0 - draw.random(count)  # over 0, and up to 1


def _tensor(labels: NDArray[Any]) -> Any:
    import torch

    if labels.dtype.kind in "iu":
        labels = labels.astype(np.int64, copy=False)  # torch's classification losses take no int8
    return torch.from_numpy(labels if labels.flags.writeable else labels.copy())

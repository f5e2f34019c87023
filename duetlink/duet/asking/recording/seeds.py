"""Reads the seeds that the notebook has set, by `numpy.random.seed(3)` or `torch.manual_seed(3)`.

Theory. Both functions seed a generator of this process, while the real results use random numbers of the
owner's process. Running the same notebook twice should still give the same results. The state of a generator
that was seeded and not used since contains the seed. So when an operation on mocks takes the first number
from such a generator, a step that sets the same seed at the owner is recorded before it.

NumPy's is a Mersenne Twister, seeded by one number as in M. Matsumoto and T. Nishimura, "Mersenne Twister: a
623-dimensionally equidistributed uniform pseudorandom number generator", 1998, in the version of 2002. The
state of torch's begins with the seed, and says how many numbers are left.
"""

from __future__ import annotations

import struct
import sys
from typing import Any

_WORDS = 624  # of a state
_MULTIPLIER = 1_812_433_253
_TORCH_HEAD = struct.Struct("<Qiiq")  # the seed, numbers left, whether it was seeded, the next number
_LARGEST = 1 << 32  # NumPy's bound; torch seeds itself at import with 64 random bits, which is no user's seed


def numpy_seed() -> int | None:
    """Return the seed of NumPy's global generator; None if a number was drawn since it was set."""
    module: Any = sys.modules.get("numpy.random")
    if module is None:
        return None
    _, key, position, *_ = module.get_state()
    first = int(key[0])
    second = (_MULTIPLIER * (first ^ (first >> 30)) + 1) % _LARGEST
    return first if position == _WORDS and int(key[1]) == second else None


def torch_seed() -> int | None:
    """Return the seed of torch's default generator; None if a number was drawn since, or above 2^32."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return None
    head = torch.default_generator.get_state()[: _TORCH_HEAD.size].numpy().tobytes()
    seed, left, _, following = _TORCH_HEAD.unpack(head)
    return seed if left == 1 and following == 0 and seed < _LARGEST else None

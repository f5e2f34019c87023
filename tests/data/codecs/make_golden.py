"""Writes the golden files that are not there yet: python -m tests.data.codecs.make_golden

A golden file is never written again: it must decode for ever, whatever `encode` makes today.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from duetlink.data.codecs import chunk, delta, element_of
from duetlink.data.codecs.base import BYTES
from duetlink.data.codecs.registry import codecs

FOLDER = Path(__file__).parent / "golden"
REFERENCE_NAME = b"sixteen bytes 01"
REFERENCE = np.array([[1.0, 2.0, -3.5, 4.0, 0.0, 6.25]] * 40, np.float32)

# both zeros, a subnormal number, infinity, NaNs with payloads, and a run
_FLOAT32_BITS = (0, 0x8000_0000, 1, 0x7F80_0000, 0x7FC0_0001, 0xFFC0_BEEF, 0x3F80_0000, 0x3FC0_0000)
NUMBERS = np.array([_FLOAT32_BITS * 3] * 10, np.uint32).view(np.float32)
SPARSE = np.array([0] * 70 + [7] + [0] * 300 + [-1, 9_000_000_000] + [0] * 27, np.int64)
INTEGERS = np.array([[-40, 7, 1 << 40, 7], [9, -(1 << 63), 0, (1 << 63) - 1]] * 60, np.int64)
_OTHERS = (0x8000_0000_0000_0000, 0x7FF8_0000_0000_BEEF, 0x3FD5_5555_5555_5555)  # -0.0, a NaN, a third
DECIMALS = np.concatenate(
    (np.arange(-300, 300) / 100, np.array(_OTHERS, np.uint64).view(np.float64), [1e15, 0.125])
)
RAMP = np.linspace(-2, 2, 240, dtype=np.float32).reshape(12, 20)
_OF_ITS_OWN = {"sparse": SPARSE, "frame_of_reference": INTEGERS, "decimals": DECIMALS}
TEXT = np.frombuffer(b"the same again, and " * 12 + bytes(range(40)), np.uint8)


def main() -> None:
    for codec in codecs():
        path = FOLDER / f"{codec.name}.chunk"
        if not path.exists() and codec.name != "delta":
            array = array_of(codec.name, codec.kind) if codec.lossless else RAMP
            path.write_bytes(chunk.encode(array, codec))
    path = FOLDER / "delta.chunk"
    if not path.exists():
        changed = changed_reference()
        path.write_bytes(delta.encode(changed, element_of(changed), REFERENCE, REFERENCE_NAME))


def array_of(name: str, kind: str) -> np.ndarray:
    """What the golden file of a codec holds."""
    if name in _OF_ITS_OWN:
        return _OF_ITS_OWN[name]
    return TEXT if kind == BYTES else NUMBERS


def changed_reference() -> np.ndarray:
    changed = REFERENCE.copy()
    changed[3, 2] = -3.75
    changed[39] = 8.0
    return changed


if __name__ == "__main__":
    main()

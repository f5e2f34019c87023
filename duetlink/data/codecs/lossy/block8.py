"""Eight bits an item: 127 levels of each sign per block of 256 (Dettmers et al., arXiv:2110.02861)."""

from __future__ import annotations

from typing import ClassVar

from duetlink.data.codecs.lossy.blocks import BlockCodec


class Block8(BlockCodec):
    """The nearest multiple of the block's largest magnitude / 127."""

    number: ClassVar[int] = 34
    name: ClassVar[str] = "block8"
    block: ClassVar[int] = 256

    def steps(self, level: int) -> int:
        return 127

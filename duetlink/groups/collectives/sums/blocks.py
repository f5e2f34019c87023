"""Block-sparse sums: only those blocks are sent in which some member has an item that is not zero.

Theory. Like union compaction (`union.py`), but with one bit for 256 items: there is less to look for and to
send, and there are more zeros among the values. This is better where non-zero items are adjacent, as in the
rows of an embedding's gradient. Source: Fei et al., "Efficient Sparse Collective Communication and its
Application to Accelerate Distributed Deep Learning" (OmniReduce), SIGCOMM 2021, section 3.1; its blocks have
256 items, too. OmniReduce asks an aggregator for the next block while one is sent; here the blocks are known
before, so that the values run through the dense sum's schedule.
"""

from __future__ import annotations

import numpy as np

from duetlink.base.runtime.off_loop import off_loop
from duetlink.data.codecs.element import UINT8
from duetlink.data.codecs.support import Bitmap, bitmap_of, count
from duetlink.groups.collectives.sums.base import SumJob, SumReport
from duetlink.groups.collectives.sums.union import dense_instead, is_nearly_all, sum_at_bits

BLOCK_ITEMS = 256
_BLOCK_BYTES = BLOCK_ITEMS // 8  # of a bitmap of items


def blocks_of(bitmap: Bitmap) -> Bitmap:
    """Return one bit for each block of 256 items: set if any of the block's bits is set."""
    whole = np.zeros(-(-bitmap.size // _BLOCK_BYTES) * _BLOCK_BYTES, np.uint8)
    whole[: bitmap.size] = bitmap
    return np.packbits(whole.reshape(-1, _BLOCK_BYTES).any(axis=1))


def items_of(blocks: Bitmap, items: int) -> Bitmap:
    """Return one bit for each item: its block's. Bits beyond the last item are 0, even if a member sent
    others.
    """
    bits = np.unpackbits(blocks, count=-(-items // BLOCK_ITEMS))
    bitmap = np.repeat(bits * np.uint8(0xFF), _BLOCK_BYTES)[: (items + 7) // 8]
    if items % 8:
        bitmap[-1] &= 0xFF << (-items % 8) & 0xFF
    return bitmap


async def run(job: SumJob) -> SumReport:
    """Sum items of any kind, with the bits of the dense sum by messages."""
    size_bytes, items = job.array.nbytes, job.array.size
    blocks = await off_loop(size_bytes, lambda: blocks_of(bitmap_of(job.array, job.element)))
    await job.flat.all_reduce(blocks, UINT8, "or", job.step("blocks", "zstd"), restore=False)
    bitmap = await off_loop(size_bytes, items_of, blocks, items)
    if is_nearly_all(travelling := count(bitmap), items):
        return await dense_instead(job, "most blocks have an item at some member that is not zero")
    await sum_at_bits(job, bitmap)
    why = f"asked for; blocks of {BLOCK_ITEMS} items, of which some member has one that is not zero"
    return job.report("blocks", why, dense_items=travelling)

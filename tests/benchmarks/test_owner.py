"""The owner of a benchmark whose values ride in control messages, as large as those of `seed_table`."""

from __future__ import annotations

import subprocess
import sys


def test_an_array_of_72_mb_fits_into_a_control_message_where_nothing_else_is_used() -> None:
    program = """
from benchmarks.baselines.data_channel import only_data_channel
from duetlink.base.wire.fragments import Reassembler, split
from duetlink.settings import Settings

assert only_data_channel(Settings(only=("channel",))).inline_limit_bytes > 72_000_000
reassembler = Reassembler()
for fragment in split(bytes(72_000_000)):
    message = reassembler.feed(fragment)
print(len(message))
"""
    # in a process of its own, for which the limits are lifted for good
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "72000000\n", done.stderr

"""Which codec, level, chunk size and number of workers a transfer uses, chunk by chunk, and why.

Pure: no I/O. Times are values that come in, from one monotonic clock.
"""

from duetlink.data.tuning.choice import Choice
from duetlink.data.tuning.codec_controller import CodecController
from duetlink.data.tuning.compression import Compression
from duetlink.data.tuning.decision import Decision, History, Plan
from duetlink.data.tuning.rate_cap import RateCap
from duetlink.data.tuning.tuner import Tuner

__all__ = ["Choice", "CodecController", "Compression", "Decision", "History", "Plan", "RateCap", "Tuner"]

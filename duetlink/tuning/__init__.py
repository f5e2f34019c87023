"""Which codec, level, chunk size and number of workers a transfer uses, chunk by chunk, and why.

Pure: no I/O. Times are values that come in, from one monotonic clock.
"""

from duetlink.tuning.choice import Choice
from duetlink.tuning.compression import Compression
from duetlink.tuning.decision import Decision, History, Plan
from duetlink.tuning.rate_cap import RateCap
from duetlink.tuning.tuner import Course, Tuner

__all__ = ["Choice", "Compression", "Course", "Decision", "History", "Plan", "RateCap", "Tuner"]

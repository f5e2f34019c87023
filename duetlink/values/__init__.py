"""Python objects as bytes: `encode`, `decode`, `summarise`. Zero-copy, and never pickle.

Importing this package imports no array library: each is loaded when a value of its own is met.
"""

from duetlink.values.base import Encoded, Summary
from duetlink.values.flat import NotFlat, libraries
from duetlink.values.reader import Room, decode
from duetlink.values.writer import encode, summarise

__all__ = ["Encoded", "NotFlat", "Room", "Summary", "decode", "encode", "libraries", "summarise"]

"""Python objects as bytes: `encode`, `decode`, `summarise`. Zero-copy, and never pickle.

Importing this package imports no array library: each is loaded when a value of its own is met.
"""

from duetlink.data.values.base import Encoded, Summary
from duetlink.data.values.flat import NotFlat, libraries
from duetlink.data.values.reader import DecodeBudget, decode
from duetlink.data.values.told import told
from duetlink.data.values.writer import encode, summarise

__all__ = [
    "DecodeBudget",
    "Encoded",
    "NotFlat",
    "Summary",
    "decode",
    "encode",
    "libraries",
    "summarise",
    "told",
]

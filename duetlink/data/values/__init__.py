"""Encode Python objects as bytes and decode them: zero-copy, and never with pickle.

Importing this package imports no array library: each is loaded when one of its objects is met.

The nouns:

    body          the bytes of one encoded object: a header and segments (`body.py`)
    node          one entry of the header, such as a list, a text or an array; nodes are in preorder
    segment       the memory of an array or a long text, aligned to 64 bytes
    value type    the handler of one library's objects (`base.py`), such as `pandas_.py`
    summary       kind, shape and size of a value, without its content
    shown memory  what a library's public interface shows of an object; nothing else is encoded
    flat value    a value whose decoding cannot reach other memory, whatever its bytes (`flat.py`)
    lossy mark    the sender's permission to change an object's floating point arrays (`lossy.py`)

Example: `{"a": numpy.arange(3)}` becomes three nodes (a dict of one pair, the text "a", an array of int64
with shape (3,)) and one segment of 24 bytes, which is the array's own memory:

    encoded = encode({"a": numpy.arange(3)})
    encoded.summary                            # kind "dict", detail "1 item"
    body = b"".join(encoded.segments)
    decode(body)                               # the dict again; its array is a view of `body`
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

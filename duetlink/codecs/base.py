"""The public names of `duetlink.data.codecs.base`: what a codec of another package is written with."""

from duetlink.data.codecs.base import (
    BYTES,
    GRADIENT,
    LOSSLESS,
    TENSOR,
    VERSION,
    Array,
    Bound,
    Codec,
    Octets,
    References,
    UnknownVersion,
    VersionCodec,
    array_bytes,
    no_references,
)

__all__ = [
    "BYTES",
    "GRADIENT",
    "LOSSLESS",
    "TENSOR",
    "VERSION",
    "Array",
    "Bound",
    "Codec",
    "Octets",
    "References",
    "UnknownVersion",
    "VersionCodec",
    "array_bytes",
    "no_references",
]

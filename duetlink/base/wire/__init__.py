"""Bytes on the wire: protobuf schema, fragments, limits, version negotiation. Pure: no I/O, no clock."""

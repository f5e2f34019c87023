"""Control messages as bytes: protobuf envelopes, fragments, limits, JSON. Pure: no I/O, no clock."""

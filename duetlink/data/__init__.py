"""Encode objects as bytes, compress them, and find the parts that the peer already has.

Pure: no I/O, and clocks are passed in. `values` turns objects into bodies, `codecs` makes chunks of them
smaller, `dedup` finds chunks that need not be sent, `tuning` chooses the codec, and `prep` describes the
preparation of a table.
"""

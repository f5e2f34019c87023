"""Sorted positions in few bits: one file per codec, `registry.py` names them."""

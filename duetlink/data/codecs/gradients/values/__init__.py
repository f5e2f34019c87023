"""The values at chosen positions in few bits: one file per codec, `registry.py` names them."""

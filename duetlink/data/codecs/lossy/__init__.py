"""Tensors in fewer bits than they have: each codec states how far its values may be off, and keeps it.

None is ever chosen but by name. Infinities and NaNs come back as such from each.
"""

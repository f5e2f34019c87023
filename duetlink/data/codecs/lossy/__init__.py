"""Lossy codecs for tensors: each states how far its values may be off, and keeps to it.

They are chosen only by name. Infinities and NaNs come back as such from each.
"""

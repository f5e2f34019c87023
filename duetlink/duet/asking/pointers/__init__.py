"""Pointers: objects that stand for the peer's, and record what is done to them."""

"""Encode sparse integers as a table of sums, which can be added without an index and read back if not too
full."""

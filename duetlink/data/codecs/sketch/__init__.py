"""Sparse integers as a table of sums that is added blindly and, if not too full, read back whole."""

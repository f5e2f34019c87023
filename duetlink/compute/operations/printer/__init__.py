"""Prints the steps of a slice as Python that a person reads before approving it."""

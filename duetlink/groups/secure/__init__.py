"""Sums over the members of a group that show nobody's own part of them."""

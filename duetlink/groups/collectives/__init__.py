"""Collective operations: sums and copies among all members of a group, by schedules over a transport.

`collectives.py` is what a group calls; `flat.py` is the same on flat arrays, for who knows all sizes.
"""

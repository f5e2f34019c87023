"""Mocks: harmless twins of private objects, made from the schema alone. Pure: no I/O, no clock.

`make` makes one, `describe` says in words what it was made from, `check` looks at one that the owner gives by
hand. Importing this package imports no array library: each is loaded when an object of its own is met.
"""

from duetlink.compute.mocks.check import check
from duetlink.compute.mocks.mock import Mock
from duetlink.compute.mocks.twin import describe, make, row_count

__all__ = ["Mock", "check", "describe", "make", "row_count"]

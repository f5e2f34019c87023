"""Mocks: harmless stand-ins for private objects. Pure: no I/O, no clock.

    mock       an object of the same type and schema as a private object, with invented values
    schema     what both sides may know of an object: type, dtypes, column names, number of axes and of rows
    part       a column, a field, an item of a tuple: what bounds and categories are given for
    facts      what can be computed from one column of the data, each only if the owner allows it: bounds,
               categories, the share of missing values
    scope      one part while its mock is made: its name, and what the owner gave or allowed for it
    sampler    draws the values of one part from a seed
    mate       an object of a mock's schema that differs from it on purpose, see `mates.py`

The owner describes a mock with a `Mock`, and `make` builds it:

    people = pd.DataFrame({"age": [34, 71, 52], "town": ["Ulm", "Ulm", "Bonn"]})
    make(people, Mock(bounds={"age": (0, 120)}, from_data=("categories:town",)))

This is a frame with three rows. Its ages are drawn between 0 and 120, which the owner gave; its towns are
"Ulm" and "Bonn", which the owner allowed to be read from the data. Without `from_data` the towns would be
"text 0" to "text 9", and the mock would hold no value of the data.

`describe` says in one sentence what a mock was made from, and `check` inspects a mock that the owner wrote by
hand. Importing this package imports no array library: each is loaded when the first object of it is met.
"""

from duetlink.compute.mocks.check import check
from duetlink.compute.mocks.mock import Mock
from duetlink.compute.mocks.synthetic import describe, make, row_count

__all__ = ["Mock", "check", "describe", "make", "row_count"]

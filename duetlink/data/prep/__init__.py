"""Prepare a table: one file per step, the preparation as a value, and its translation to expressions.

This package knows neither files nor engines, so a room (the process that runs a peer's program) prepares a
frame in memory in exactly the way in which `duetlink.prep` prepares a file.

The nouns:

    preparation   the steps in order, a value (`PrepSpec`) that can be printed, compared and sent as JSON
    step          one change of the table, a frozen dataclass such as `Clip`
    field         a column's type and whether its items may be missing (`fields.py`)
    inner name    the name of a column inside an engine: c0, c1, ... by its position in the source
    strict step   a step that ends the run if an item does not fit, such as a cast of "abc" to int64
    open column   a column whose bounds or categories `fit_private` must still find
    lowering      the translation of the steps to stages of Narwhals expressions (`lowering.py`)

Example:

    spec = PrepSpec().cast(age="int64").clip("age", (0, 100))
    spec.code()      # "Prep().cast({'age': 'int64'}).clip('age', bounds=(0, 100))"
    spec.strict      # True: an age that is no whole number ends the run
    fields_after(spec, {"age": Field("text")})     # {"age": Field("int64", nullable=True)}
"""

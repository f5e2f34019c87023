"""Preparations of tables, done in a room.

    preparation   a list of steps (select, filter, split, …) from a table to columns that a model can use
    spec          a preparation as JSON, and its digest: what a policy and the scientist's code name
    frame         a table of pandas or polars, in memory
    fit           an item fits a column if it can be converted to the type that the preparation states

A pointer's `prep` method records one step with the spec. The room runs it on the owner's frame, and the
scientist's side runs the same function on the mock:

    spec = PrepSpec().select("age").to_json()
    prepare(frame, spec)  # a new frame with the column "age" only
"""

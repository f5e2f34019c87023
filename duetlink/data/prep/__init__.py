"""How a table is prepared: one file per step, the preparation as a value, and its lowering to expressions.

It knows no files and no engines, so that a room can do the same to a frame as `duetlink.prep` does to a file.
"""

"""How a table is prepared: steps as a value, what they do to types, and their lowering to expressions.

It knows no files and no engines, so that the room can do the same to a frame as `duetlink.prep` does to a
file.
"""

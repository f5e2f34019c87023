"""The code that runs inside a room, locked down by `sandbox/`.

- `child.main` is the entry of a room that is a process of its own; `zygote.main` forks rooms.
- A handler carries out commands: `ProgramHandler`, `JobHandler` (an approved function), `MatesHandler` and
  `DecodingHandler`.
- The `Interpreter` runs a program step by step.
- `Draws` seeds the random generators from the program's seeds.
- A frozen value is a result in memory that a later room can start with, in place of the steps that made it.

Code here trusts its kernel. Its kernel does not trust it.
"""
